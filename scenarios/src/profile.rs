//! Host profiles, as scenarios ask them.
//!
//! The profiles themselves are the crate `sparring-profiles`'. Here their mistakes become [`Diagnostic`]s, and a profile
//! says what of it counts for a scenario. Every client makes the promises `driver.*` by having a driver.

use crate::catalogue;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Place, did_you_mean};
use crate::scenario::Scenario;
use serde_json::Value;
use sparring_profiles::{Mistake, MistakeKind, Settings};
use sparring_wire::Transport;
use std::collections::BTreeSet;
use std::path::Path;

pub use sparring_profiles::{BUILT_IN, FIELDS, Field, field};

/// A host profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    fields: sparring_profiles::Profile,
}

impl From<sparring_profiles::Profile> for Profile {
    fn from(fields: sparring_profiles::Profile) -> Self {
        Self { fields }
    }
}

impl Profile {
    /// The reference client's.
    ///
    /// # Errors
    /// What is wrong with the embedded file; a test sees to it that nothing is.
    pub fn reference() -> Result<Self, Diagnostic> {
        Self::named("reference")
    }

    /// A built-in profile, in any case, or else a file.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its place.
    pub fn named(name_or_path: &str) -> Result<Self, Diagnostic> {
        sparring_profiles::Profile::load(name_or_path).map(Self::from).map_err(|mistake| diagnostic(&mistake))
    }

    /// Reads a file, or takes a built-in profile of that name.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its place.
    pub fn load(path: &Path) -> Result<Self, Diagnostic> {
        Self::named(&path.display().to_string())
    }

    /// Reads a profile from its text. `file` is for errors, and a path in `host.extends` starts in its folder.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, Diagnostic> {
        sparring_profiles::Profile::parse(file, text).map(Self::from).map_err(|mistake| diagnostic(&mistake))
    }

    /// The fields as they stand in the file, with those of the profile that it extends.
    pub const fn fields(&self) -> &sparring_profiles::Profile {
        &self.fields
    }

    /// The host's name, for reports.
    pub fn name(&self) -> Option<&str> {
        self.fields.host.name.as_deref()
    }

    /// What the reference client does to be this host.
    pub fn settings(&self) -> Settings {
        self.fields.settings()
    }

    /// The ids of all promises that it makes, in order. Those of the driver (`driver.*`) are made by every client.
    pub fn promises_made(&self) -> BTreeSet<String> {
        let mut made = self.fields.promises_made();
        made.extend(always_made().map(str::to_owned));
        made
    }

    /// What of it counts for a scenario over a transport: the ids of all promises that hold there, and what the
    /// scenario's checks ask for with a value (`naming.max_len = 64`) or a part (`errors.codes.timeout`) as they write
    /// it.
    pub fn promises_for(&self, scenario: &Scenario, transport: Transport) -> BTreeSet<String> {
        let mut made = self.promises_made();
        made.extend(scenario.judge.iter().filter_map(|check| check.promise.clone()));
        made.retain(|promise| self.makes(promise, transport));
        made
    }

    /// The value of a promise, as JSON; `None` if it is not made. `errors.codes.timeout` reaches into a table,
    /// `results.text_limit.0` into a list.
    pub fn value(&self, id: &str) -> Option<Value> {
        self.fields.value(id)
    }

    /// Whether it makes what `needed` names: a promise by its id, by its id and value (`naming.max_len = 64`), or by
    /// what its value is or holds (`transports.kinds ~ "sse"`; `!~` that it does not). Where a section says on which
    /// transports it holds, `transport` has to be one of them.
    pub fn makes(&self, needed: &str, transport: Transport) -> bool {
        let Ok(needed) = NeededPromise::parse(needed) else { return false };
        if !self.fields.holds_on(needed.id, transport.into()) {
            return false;
        }
        let value = self.value(needed.id);
        match needed.wanted {
            None => is_always_made(needed.id) || value.is_some(),
            Some(Wanted::Is(wanted)) => value == Some(wanted),
            Some(Wanted::Has(wanted)) => value.is_some_and(|value| has(&value, &wanted)),
            Some(Wanted::Lacks(wanted)) => value.is_some_and(|value| !has(&value, &wanted)),
        }
    }
}

/// Whether a list has the item, a table the key.
fn has(value: &Value, wanted: &Value) -> bool {
    match value {
        Value::Array(items) => items.contains(wanted),
        Value::Object(members) => wanted.as_str().is_some_and(|key| members.contains_key(key)),
        _ => false,
    }
}

/// The promises that every client makes by having a driver.
pub fn always_made() -> impl Iterator<Item = &'static str> {
    catalogue::promises().map(|promise| promise.id.as_str()).filter(|id| is_always_made(id))
}

/// Whether every client makes this promise.
pub fn is_always_made(id: &str) -> bool {
    id.starts_with("driver.")
}

/// The field that a promise's id names: `errors.codes.timeout` is one of `errors.codes`.
pub fn field_of(id: &str) -> &str {
    match id.match_indices('.').nth(1) {
        Some((at, _)) => id.get(..at).unwrap_or(id),
        None => id,
    }
}

/// An entry of a scenario's `where.promises`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NeededPromise<'a> {
    pub(crate) id: &'a str,
    pub(crate) wanted: Option<Wanted>,
}

/// What is wanted of a promise's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wanted {
    /// It is this.
    Is(Value),
    /// The list or table has this.
    Has(Value),
    /// It has not.
    Lacks(Value),
}

impl<'a> NeededPromise<'a> {
    /// An id alone, or with a value in TOML, just as it would stand in a profile.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let (id, make, value): (_, fn(Value) -> Wanted, _) = match text.split_once(['=', '~']) {
            None => return Ok(Self { id: text.trim(), wanted: None }),
            Some((id, value)) if text.as_bytes().get(id.len()) == Some(&b'=') => (id, Wanted::Is, value),
            Some((id, value)) => match id.strip_suffix('!') {
                Some(id) => (id, Wanted::Lacks, value),
                None => (id, Wanted::Has, value),
            },
        };
        let table: toml::Table = toml::from_str(&format!("value = {}", value.trim()))
            .map_err(|e| format!("the value of `{}` is not TOML: {}", id.trim(), e.message()))?;
        let value = table.get("value").cloned().ok_or("there is no value")?;
        let value = serde_json::to_value(value).map_err(|e| e.to_string())?;
        Ok(Self { id: id.trim(), wanted: Some(make(value)) })
    }
}

/// A mistake as the other files' are shown.
fn diagnostic(mistake: &Mistake) -> Diagnostic {
    let code = match mistake.kind {
        MistakeKind::Unreadable => Code::Unreadable,
        MistakeKind::UnknownField => Code::UnknownKey,
        MistakeKind::UnknownWord => Code::UnknownWord,
        MistakeKind::Value => Code::Value,
    };
    let help = mistake.known.as_ref().and_then(|(word, known)| {
        did_you_mean(word, known.iter().map(String::as_str))
            .or_else(|| Some(format!("known are {}", known.join(", "))))
    });
    let message = mistake.message.clone();
    match mistake.place {
        Some((line, column, width)) => {
            let place = Place::new(line, column, width);
            Diagnostic::at(&mistake.file, &mistake.text, place, code, message).with_help(help)
        }
        None => Diagnostic::whole_file(&mistake.file, code, message).with_help(help),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_profile_is_read_and_its_promises_are_in_the_catalogue() {
        let profile = Profile::reference().unwrap();
        let made = profile.promises_made();
        assert!(made.contains("naming.max_len") && made.contains("driver.honest"));
        assert!(!made.contains("host.name"));
        assert_eq!(profile.value("naming.max_len"), Some(serde_json::json!(64)));
        for id in &made {
            assert!(catalogue::promise(id).is_some(), "{id}");
        }
    }

    #[test]
    fn a_scenario_can_ask_for_a_promise_or_for_its_value() {
        let text = "[naming]\nmax_len = 64\non_clash = \"hash\"\n[list_changed]\ntools = \"ignore\"\ntransports = [\"stdio\"]\n";
        let profile = Profile::parse("p", text).unwrap();
        let makes = |needed: &str| profile.makes(needed, Transport::Http);
        assert!(makes("naming.max_len"));
        assert!(makes("naming.max_len = 64"));
        assert!(!makes("naming.max_len = 48"));
        assert!(makes("naming.on_clash = \"hash\""));
        assert!(!makes("naming.template"));
        assert!(makes("driver.completes"));
        assert!(!makes("list_changed.tools"));
        assert!(profile.makes("list_changed.tools", Transport::Stdio));
        assert!(!Profile::default().makes("naming.max_len", Transport::Stdio));
    }

    #[test]
    fn what_counts_for_a_scenario_is_its_own_wording_where_the_profile_agrees() {
        let check =
            |promise: &str| crate::scenario::Check { promise: Some(promise.into()), ..Default::default() };
        let text = "[naming]\nmax_len = 64\n[restart]\ntransports = [\"stdio\"]\nmax_attempts = 5\n";
        let profile = Profile::parse("p", text).unwrap();
        let scenario = Scenario {
            judge: vec![
                check("naming.max_len=64"),
                check("naming.max_len = 48"),
                check("restart.max_attempts = 5"),
            ],
            ..Scenario::default()
        };
        let stdio = profile.promises_for(&scenario, Transport::Stdio);
        assert!(stdio.contains("naming.max_len=64") && stdio.contains("naming.max_len"));
        assert!(!stdio.contains("naming.max_len = 48"));
        assert!(stdio.contains("restart.max_attempts = 5"));
        assert!(!profile.promises_for(&scenario, Transport::Http).contains("restart.max_attempts = 5"));
    }

    #[test]
    fn every_promise_of_a_profile_field_is_a_field() {
        // A profile that sets everything would be the proof; setting one unknown field at a time is enough.
        for promise in catalogue::promises().filter(|p| !is_always_made(&p.id)) {
            let (section, name) = promise.id.split_once('.').unwrap();
            let text = format!("[{section}]\n{name} = {{ }}\n");
            // An empty table is no value of most fields.
            let refused = Profile::parse("p", &text).err();
            assert_ne!(refused.map(|e| e.code), Some(Code::UnknownKey), "{}", promise.id);
        }
    }

    #[test]
    fn errors_name_line_and_field() {
        let refused = |text: &str| Profile::parse("my.toml", text).unwrap_err().render(false);
        insta::assert_snapshot!(refused("[naming]\nmax_length = 64\n"), @r"
        error[unknown-key]: `max_length` is not a field of this part of a host profile
         ┌─ my.toml:2:1
         │
        2│ max_length = 64
         │ ^^^^^^^^^^ did you mean `max_len`?
        ");
        insta::assert_snapshot!(refused("[host]\nname = \"x\"\n\n[nameing]\nmax_len = 64\n"), @r"
        error[unknown-key]: `nameing` is not a field of this part of a host profile
         ┌─ my.toml:4:2
         │
        4│ [nameing]
         │  ^^^^^^^ did you mean `naming`?
        ");
        insta::assert_snapshot!(refused("[naming]\non_clash = \"hsah\"\n"), @r#"
        error[unknown-word]: `hsah` is not a value of this field
         ┌─ my.toml:2:12
         │
        2│ on_clash = "hsah"
         │            ^^^^^^ did you mean `hash`?
        "#);
        insta::assert_snapshot!(refused("[naming]\nmax_len = \"many\"\n"), @r#"
        error[value]: invalid type: string "many", expected u32
         ┌─ my.toml:2:11
         │
        2│ max_len = "many"
         │           ^^^^^^
        "#);
        insta::assert_snapshot!(refused("[timeouts]\nclose_s = 1\ntool_s = -1\n"), @r"
        error[value]: `timeouts.tool_s` is a number of seconds, above zero
         ┌─ my.toml:3:1
         │
        3│ tool_s = -1
         │ ^^^^^^^^^^^
        ");
        insta::assert_snapshot!(refused("[naming]\ntemplate = \"{server}\"\n"), @r#"
        error[value]: `naming.template` needs `{tool}`
         ┌─ my.toml:2:1
         │
        2│ template = "{server}"
         │ ^^^^^^^^^^^^^^^^^^^^^
        "#);
        insta::assert_snapshot!(refused("[naming\n"), @r"
        error[value]: unclosed table, expected `]`
         ┌─ my.toml:1:8
         │
        1│ [naming
         │        ^
        ");
    }
}
