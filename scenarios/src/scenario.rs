//! A scenario file as types.

use crate::catalogue;
use crate::op::{self, Op};
use crate::pattern::Pattern;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, de};
use serde_json::{Value, json};
use sparring_mock_servers::script::ServerScript;
use sparring_wire::{Revision, Transport};
use std::collections::BTreeMap;

/// A scenario: what the servers do, what the client is made to do, and what must be seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its id: lower-case words with dots and dashes, such as `http.session.lost-is-reopened`. Never reused.
    pub scenario: String,
    /// Goes up when a verdict may change.
    pub version: u32,
    /// What happens, in a sentence or two.
    pub about: String,
    /// Where it applies.
    #[serde(default, rename = "where")]
    pub applies: Applies,
    /// The scenario that differs in one thing, where the good outcome is expected. Needed if a check has `never`.
    #[serde(default)]
    pub twin: Option<String>,
    /// The name by which the official conformance framework's drivers know this conversation.
    #[serde(default)]
    pub official: Option<String>,
    /// The only server; it is called `server`.
    #[serde(default)]
    pub server: Option<ServerScript>,
    /// Several servers by name, instead of `server`.
    #[serde(default)]
    pub servers: BTreeMap<String, ServerScript>,
    /// What the client is made to do, in order.
    pub drive: Vec<Step>,
    /// The checks.
    pub judge: Vec<Check>,
    /// All durations of the client are divided by this, as far as it can (a driver with the feature `clock`), so that
    /// long ones can be tried in a short time; a client that can't makes the case unsupported. The times in this file are
    /// those of the client's own clock, and are divided too: `timeout_ms`, `backoff_ms`, `*_timeout`, `spacing`.
    #[serde(default)]
    pub clock_scale: Option<u32>,
    /// How long a case may take, in milliseconds; 10,000 by default. Not a judgement: a case that runs into it has the
    /// verdict `timeout`.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
}

/// Where a scenario applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Applies {
    /// Transports: `stdio`, `http` (Streamable HTTP) and `sse-legacy` (HTTP+SSE, which only 2024-11-05 has); all by
    /// default. A transport counts in the revisions that define it.
    pub transports: Vec<Transport>,
    /// Revisions: one (`2025-11-25`), a range (`2025-03-26..2025-11-25`, both ends included), or an open one
    /// (`2025-06-18..`, `..2025-11-25`). By default all; those with a handshake are `..2025-11-25`.
    #[schemars(schema_with = "revisions_schema")]
    pub revisions: Option<String>,
    /// Features of the driver without which the case cannot be driven (see [`crate::op::FEATURES`]). The operations
    /// follow from `drive`.
    #[schemars(schema_with = "features_schema")]
    pub needs: Vec<String>,
    /// Promises that the profile must have made, for scenarios that check only these: by id, or by id and value as a
    /// profile has it (`naming.max_len = 64`). A profile without them makes the case not applicable.
    pub promises: Vec<String>,
}

impl Applies {
    /// The revisions that it comes to.
    ///
    /// # Errors
    /// As of [`parse_revisions`].
    pub fn revisions(&self) -> Result<Vec<Revision>, String> {
        self.revisions.as_deref().map_or_else(|| Ok(Revision::ALL.to_vec()), parse_revisions)
    }

    /// The transports that it comes to.
    pub fn transports(&self) -> &[Transport] {
        match self.transports.as_slice() {
            [] => &Transport::ALL,
            given => given,
        }
    }
}

/// A step: what the harness does next. In a file: one of the operations as a key (`- call: { tool: echo }`) or
/// `wait_for`, and beside it the other members of this type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StepForm", into = "StepForm")]
pub struct Step {
    /// What to do.
    pub action: StepAction,
    /// `as`: the label by which checks and other steps name it; by default the operation's name (and `-2`, `-3`… if
    /// that is taken, see [`Scenario::labels`]).
    pub label: Option<String>,
    /// Start it and go on with the next step; `await` waits for it.
    pub background: bool,
    /// What is expected of the operation. A step that ends otherwise ends the drive, and a monitor says so.
    pub expect: StepExpectation,
    /// Wait no longer than this for the step, in milliseconds; then its outcome is `pending` and the drive goes on.
    pub give_up_ms: Option<u64>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum StepAction {
    /// Hand an operation to the driver.
    Op(Box<Op>),
    /// Wait until an event like this has been seen, counting those seen already.
    WaitFor(Box<Pattern>),
}

macro_rules! step_form {
    ($($field:ident: $arguments:ty => $variant:ident, $read:literal;)*) => {
        /// What the harness does next: one operation or `wait_for`, and beside it how.
        #[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        struct StepForm {
            /// The label by which checks and other steps name this one; by default the operation's name (and `-2`,
            /// `-3`… if that is taken).
            #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
            label: Option<String>,
            /// Start it and go on with the next step; `await` waits for it.
            background: bool,
            /// What is expected of the operation. A step that ends otherwise ends the drive, and a monitor says so.
            expect: StepExpectation,
            /// Wait no longer than this for the step, in milliseconds; then its outcome is `pending` and the drive
            /// goes on. Without it a step may take as long as the case.
            #[serde(skip_serializing_if = "Option::is_none")]
            give_up_ms: Option<u64>,
            /// Wait until an event like this has been seen, counting those seen already.
            #[serde(skip_serializing_if = "Option::is_none")]
            wait_for: Option<Pattern>,
            $(
                #[serde(deserialize_with = $read, skip_serializing_if = "Option::is_none")]
                $field: Option<$arguments>,
            )*
        }

        impl StepForm {
            /// The operations whose arguments may be left out.
            const MAY_BE_EMPTY: &[&str] = &[
                "open", "tools", "resources", "templates", "prompts", "ping", "close", "configure",
            ];

            fn action(self) -> Result<StepAction, String> {
                let mut found = Vec::new();
                if let Some(pattern) = self.wait_for {
                    found.push(StepAction::WaitFor(Box::new(pattern)));
                }
                $(
                    if let Some(arguments) = self.$field {
                        found.push(StepAction::Op(Box::new(Op::$variant(arguments))));
                    }
                )*
                match (found.pop(), found.pop()) {
                    (Some(only), None) => Ok(only),
                    (None, _) => Err("a step needs an operation (open, call, …) or `wait_for`".to_owned()),
                    (Some(_), Some(_)) => Err("a step has only one operation".to_owned()),
                }
            }

            fn set(&mut self, action: StepAction) {
                match action {
                    StepAction::WaitFor(pattern) => self.wait_for = Some(*pattern),
                    StepAction::Op(op) => match *op {
                        $(Op::$variant(arguments) => self.$field = Some(arguments),)*
                    },
                }
            }
        }
    };
}

step_form! {
    open: op::Open => Open, "maybe";
    tools: op::Of => Tools, "maybe";
    call: op::Call => Call, "surely";
    cancel: op::Cancel => Cancel, "surely";
    r#await: op::StepRef => Await, "surely";
    resources: op::Of => Resources, "maybe";
    templates: op::Of => Templates, "maybe";
    read: op::Read => Read, "surely";
    subscribe: op::Read => Subscribe, "surely";
    unsubscribe: op::Read => Unsubscribe, "surely";
    prompts: op::Of => Prompts, "maybe";
    prompt: op::Prompt => Prompt, "surely";
    complete: op::Complete => Complete, "surely";
    set_level: op::SetLevel => SetLevel, "surely";
    ping: op::Of => Ping, "maybe";
    set_roots: op::SetRoots => SetRoots, "surely";
    close: op::Of => Close, "maybe";
    inspect: op::Inspect => Inspect, "surely";
    control: op::Control => Control, "surely";
    write: op::Write => Write, "surely";
    configure: op::Configure => Configure, "maybe";
    disk: op::Disk => Disk, "surely";
    signal: op::Signal => Signal, "surely";
}

/// Arguments that may be left out: `- open:` is the operation with its defaults, not its absence.
fn maybe<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Some(Option::<T>::deserialize(deserializer)?.unwrap_or_default()))
}

/// Arguments without which the operation says nothing.
fn surely<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

impl JsonSchema for Step {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Step".into()
    }

    /// The form, where each operation is described as [`Op`] describes it, and one has to be there.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let operations = Op::json_schema(generator);
        let mut schema = StepForm::json_schema(generator);
        let mut heads = vec![json!({"required": ["wait_for"]})];
        let pattern = generator.subschema_for::<Pattern>();
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        let variants = operations.get("oneOf").and_then(Value::as_array);
        if let (Some(properties), Some(variants)) = (properties, variants) {
            if let Some(Value::Object(wait_for)) = properties.get_mut("wait_for") {
                // Nothing is nothing to wait for.
                wait_for.remove("anyOf");
                wait_for.extend(pattern.as_object().cloned().unwrap_or_default());
            }
            for variant in variants {
                let Some((name, arguments)) = variant["properties"].as_object().and_then(|p| p.iter().next())
                else {
                    continue;
                };
                let mut property = match StepForm::MAY_BE_EMPTY.contains(&name.as_str()) {
                    true => json!({"anyOf": [arguments, {"type": "null"}]}),
                    false => arguments.clone(),
                };
                property["description"] = variant["description"].clone();
                properties.insert(name.clone(), property);
                heads.push(json!({"required": [name]}));
            }
        }
        schema.insert("oneOf".to_owned(), heads.into());
        schema
    }
}

/// One item, or a list of them.
fn one_or_many_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let one = generator.subschema_for::<T>();
    json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
}

/// What [`parse_revisions`] reads.
fn revisions_schema(_: &mut SchemaGenerator) -> Schema {
    let dates = Revision::ALL.map(Revision::as_str);
    let open = dates.map(|date| format!("{date}.."));
    let any = dates.join("|");
    json_schema!({
        "type": ["string", "null"],
        "pattern": format!("^(({any})(\\.\\.({any})?)?|\\.\\.({any}))$"),
        "examples": dates.iter().map(|date| (*date).to_owned()).chain(open).collect::<Vec<_>>(),
    })
}

/// All ids of the catalogue, so that an editor completes them.
fn requirement_schema(_: &mut SchemaGenerator) -> Schema {
    let ids: Vec<_> = catalogue::requirements().map(|requirement| requirement.id.as_str()).collect();
    json_schema!({"anyOf": [{"enum": ids}, {"type": "null"}]})
}

fn features_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"enum": op::FEATURES}})
}

impl TryFrom<StepForm> for Step {
    type Error = String;

    fn try_from(form: StepForm) -> Result<Self, String> {
        Ok(Self {
            label: form.label.clone(),
            background: form.background,
            expect: form.expect,
            give_up_ms: form.give_up_ms,
            action: form.action()?,
        })
    }
}

impl From<Step> for StepForm {
    fn from(step: Step) -> Self {
        let mut form = Self {
            label: step.label,
            background: step.background,
            expect: step.expect,
            give_up_ms: step.give_up_ms,
            ..Self::default()
        };
        form.set(step.action);
        form
    }
}

/// What is expected of a step, as far as going on with the drive is concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepExpectation {
    /// It succeeds.
    #[default]
    Ok,
    /// It fails.
    Error,
    /// It ends, one way or the other.
    Any,
}

/// A check: what must be seen, in this scenario, for a requirement or a promise to be kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Check {
    /// Its name, unique in the scenario; the check's id is `<scenario>/<check>`.
    pub check: String,
    /// The requirement of the catalogue. Exactly one of `requirement` and `promise`.
    #[schemars(schema_with = "requirement_schema")]
    pub requirement: Option<String>,
    /// The promise of the profile, by id or by id and value, such as `naming.max_len = 64`. A profile that does not
    /// make it makes the check not applicable.
    pub promise: Option<String>,
    /// In words, what a good client does here, if the requirement's text does not say it well enough.
    pub about: Option<String>,
    /// Something that the client is free to do or not. A client that never does it has nothing to be judged: the check
    /// is not applicable then, rather than not testable.
    pub when: Option<Pattern>,
    /// The prerequisite event. The window of the check starts after it; if it is never seen the verdict is
    /// `not-testable`.
    pub after: Option<Pattern>,
    /// The event that ends the window; the end of the transcript by default. With `expect` it must have been seen too,
    /// if nothing was found before it.
    pub until: Option<Pattern>,
    /// One of these must be seen in the window. The first is ideal, the others are allowed. In a file a list of one
    /// may be written without the brackets, here and in `never`, `are` and `killed_by`.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema::<Pattern>")]
    pub expect: Vec<Pattern>,
    /// None of these may be seen in the window. Needs `after` and, in the scenario, `twin`.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema::<Pattern>")]
    pub never: Vec<Pattern>,
    /// A number of events in the window.
    pub count: Option<Count>,
    /// Each event in the window that matches `of` must match one of `are`; at least one must be seen.
    pub each: Option<Each>,
    /// These must be seen in the window in this order (other events may come between).
    pub order: Vec<Pattern>,
    /// The time between two events.
    pub spacing: Option<Spacing>,
    /// Only on these transports; all of the scenario's by default.
    pub transports: Vec<Transport>,
    /// Only in these revisions, as in `where`; all of the scenario's by default.
    #[schemars(schema_with = "revisions_schema")]
    pub revisions: Option<String>,
    /// The mutants that fail this check.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema::<String>")]
    pub killed_by: Vec<String>,
}

/// How many events of a kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Count {
    /// Events like this.
    pub of: Pattern,
    /// At least.
    pub min: Option<u32>,
    /// At most.
    pub max: Option<u32>,
}

/// All events of a kind are such.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Each {
    /// Events like this.
    pub of: Pattern,
    /// Are like one of these (heads may be left out: the head of `of` holds).
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema::<Pattern>")]
    pub are: Vec<Pattern>,
}

/// The time between two events; only for requirements and promises about time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Spacing {
    /// From the first event like this in the window…
    pub from: Pattern,
    /// …to the first event like this after it.
    pub to: Pattern,
    /// At least, in milliseconds; kept up to 20 ms.
    pub min_ms: Option<u64>,
    /// At most, in milliseconds; judged only if the machine was not overloaded, else `inconclusive`.
    pub max_ms: Option<u64>,
}

/// A list, or one item without the brackets.
fn one_or_many<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct OneOrMany<T>(std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for OneOrMany<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("one item, or a list of them")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
            T::deserialize(de::value::StrDeserializer::new(text)).map(|one| vec![one])
        }

        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
            T::deserialize(de::value::MapAccessDeserializer::new(map)).map(|one| vec![one])
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(item) = items.next_element()? {
                all.push(item);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(OneOrMany(std::marker::PhantomData))
}

impl Scenario {
    /// The servers by name: `servers`, or the only one under the name `server`.
    pub fn scripts(&self) -> BTreeMap<&str, &ServerScript> {
        match &self.server {
            Some(script) => BTreeMap::from([("server", script)]),
            None => self.servers.iter().map(|(name, script)| (name.as_str(), script)).collect(),
        }
    }
}

impl Scenario {
    /// The label of each step, in order: its own, or the operation's name made unique with `-2`, `-3`…
    pub fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = Vec::with_capacity(self.drive.len());
        for step in &self.drive {
            let base = match (&step.label, &step.action) {
                (Some(label), _) => label.as_str(),
                (None, StepAction::Op(op)) => op.name(),
                (None, StepAction::WaitFor(_)) => "wait",
            };
            let mut label = base.to_owned();
            let mut count = 1;
            while labels.contains(&label) {
                count += 1;
                label = format!("{base}-{count}");
            }
            labels.push(label);
        }
        labels
    }
}

/// Reads `revisions` of [`Applies`] and [`Check`]: one, a closed range, or an open one.
///
/// # Errors
/// A text that says what is wrong with it.
pub fn parse_revisions(text: &str) -> Result<Vec<Revision>, String> {
    let one = |part: &str| part.parse::<Revision>().map_err(|e| e.to_string());
    let (from, to) = match text.split_once("..") {
        None => {
            let only = one(text)?;
            (only, only)
        }
        Some((from, "")) => (one(from)?, Revision::ALL[Revision::ALL.len() - 1]),
        Some(("", to)) => (Revision::ALL[0], one(to)?),
        Some((from, to)) => (one(from)?, one(to)?),
    };
    if from > to {
        return Err(format!("the range `{text}` is empty: {from} is newer than {to}"));
    }
    Ok(Revision::ALL.into_iter().filter(|r| (from..=to).contains(r)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Result<Step, String> {
        serde_saphyr::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_step_is_one_operation_with_or_without_arguments() {
        let open = step("open:").unwrap();
        assert_eq!(open.action, StepAction::Op(Box::new(Op::Open(op::Open::default()))));
        let call =
            step("{ call: { tool: echo, arguments: { text: no } }, as: first, background: true }").unwrap();
        let StepAction::Op(op) = call.action else { panic!() };
        let Op::Call(call) = *op else { panic!() };
        assert_eq!(call.arguments.unwrap().0, serde_json::json!({"text": "no"}));
        let json = step("call: { tool: add, arguments: '{\"a\": 1}' }").unwrap();
        let StepAction::Op(op) = json.action else { panic!() };
        let Op::Call(json) = *op else { panic!() };
        assert_eq!(json.arguments.unwrap().0, serde_json::json!({"a": 1}));
    }

    #[test]
    fn a_step_with_no_or_two_operations_or_a_typo_is_refused() {
        assert!(step("background: true").unwrap_err().contains("needs an operation"));
        assert!(step("{ open: , close: }").unwrap_err().contains("only one operation"));
        assert!(step("cal: { tool: echo }").is_err());
        assert!(step("call: { tool: echo, argumens: {} }").is_err());
    }

    #[test]
    fn revisions_are_read_as_one_or_a_range() {
        use Revision::*;
        assert_eq!(parse_revisions("2025-06-18"), Ok(vec![V2025_06_18]));
        assert_eq!(parse_revisions("2025-06-18..2025-11-25"), Ok(vec![V2025_06_18, V2025_11_25]));
        assert_eq!(parse_revisions("2025-11-25.."), Ok(vec![V2025_11_25, V2026_07_28]));
        assert!(parse_revisions("2025-11-25..2024-11-05").is_err());
        assert!(parse_revisions("yesterday").is_err());
    }
}
