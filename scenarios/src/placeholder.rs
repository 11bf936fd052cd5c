//! Placeholders in what a scenario makes the client do and in what it expects: values that are known only when the
//! client and the case are.
//!
//! | placeholder | what it stands for |
//! | --- | --- |
//! | `{case}` | the case's folder, as an absolute path |
//! | `{promised ID}` | the value that the client's profile declares for a promise, such as `naming.max_len`, `results.text_limit.0` or `errors.codes.timeout` |
//! | `{promised ID + N}`, `{promised ID - N}` | a number that is so much larger or smaller |
//! | `{promised ID a=b c=d}` | a template of the profile's, with `b` for its `{a}` and `d` for its `{c}` |
//!
//! A string that is one placeholder and nothing else becomes what it stands for, with its type; within a longer string
//! strings are put in as they are and everything else as JSON.

use crate::op::{Entry, Op};
use crate::pattern::{Pattern, TextPattern};
use crate::scenario::{Check, Scenario, Step, StepAction};
use serde_json::Value;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Case,
    Promised { id: &'a str, plus: i64, with: Vec<(&'a str, &'a str)> },
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    const PROMISED: &str = "{promised ";
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        let next = [rest.find("{case}"), rest.find(PROMISED)].into_iter().flatten().min();
        let Some(at) = next else { break };
        let (before, from) = rest.split_at(at);
        if !before.is_empty() {
            found.push(Piece::Text(before));
        }
        if let Some(after) = from.strip_prefix("{case}") {
            found.push(Piece::Case);
            rest = after;
            continue;
        }
        let inside = from.get(PROMISED.len()..).unwrap_or_default();
        let Some((words, after)) = inside.split_once('}') else {
            return Err(format!("`{from}` lacks its `}}`"));
        };
        found.push(promised(words)?);
        rest = after;
    }
    if !rest.is_empty() || found.is_empty() {
        found.push(Piece::Text(rest));
    }
    Ok(found)
}

fn promised(words: &str) -> Result<Piece<'_>, String> {
    let mut words = words.split_whitespace();
    let id = words.next().ok_or("`{promised }` names no promise")?;
    if crate::catalogue::promise(id).is_none() {
        return Err(format!("`{id}` is no promise of the catalogue"));
    }
    let (mut plus, mut with) = (0, Vec::new());
    while let Some(word) = words.next() {
        match (word, word.split_once('=')) {
            ("+" | "-", _) => {
                let number: Option<i64> = words.next().and_then(|number| number.parse().ok());
                let number = number.ok_or_else(|| format!("a number follows `{word}`"))?;
                plus = if word == "+" { number } else { -number };
            }
            (_, Some((name, value))) => with.push((name, value)),
            (_, None) => return Err(format!("`{word}` is neither `+`, `-` nor `name=value`")),
        }
    }
    Ok(Piece::Promised { id, plus, with })
}

/// What is wrong with the placeholders of a text.
///
/// # Errors
/// In words.
pub fn check(text: &str) -> Result<(), String> {
    pieces(text).map(drop)
}

/// What placeholders stand for. What is not known yet stays as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// The case's folder.
    pub case: Option<&'a str>,
    /// The client's profile.
    pub profile: Option<&'a crate::profile::Profile>,
}

impl Known<'_> {
    fn value(&self, piece: &Piece<'_>) -> Option<Value> {
        match piece {
            Piece::Text(text) => Some(Value::from(*text)),
            Piece::Case => self.case.map(Value::from),
            Piece::Promised { id, plus, with } => {
                let value = self.profile?.value(id)?;
                Some(match value {
                    Value::String(template) if !with.is_empty() => Value::from(fill(&template, with)),
                    Value::Number(number) if *plus != 0 => Value::from(number.as_i64()? + plus),
                    other => other,
                })
            }
        }
    }

    /// A text with what is known put in. Values within it that have no place in a text stand there as JSON.
    pub fn text(&self, text: &str) -> String {
        match self.put(text) {
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => text.to_owned(),
        }
    }

    fn put(&self, text: &str) -> Option<Value> {
        let pieces = pieces(text).ok()?;
        if let [only] = pieces.as_slice() {
            return self.value(only);
        }
        let mut whole = String::new();
        for piece in &pieces {
            match self.value(piece)? {
                Value::String(text) => whole.push_str(&text),
                other => whole.push_str(&other.to_string()),
            }
        }
        Some(Value::String(whole))
    }

    fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(put) = self.put(text) {
                    *value = put;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.json(member)),
            _ => {}
        }
    }

    /// An operation with what is known put in.
    #[must_use]
    pub fn op(&self, op: &Op) -> Op {
        let mut op = op.clone();
        each_of_op(&mut op, &mut |slot| self.slot(slot));
        op
    }

    /// A pattern with what is known put in.
    #[must_use]
    pub fn pattern(&self, pattern: &Pattern) -> Pattern {
        let mut pattern = pattern.clone();
        each_of_pattern(&mut pattern, &mut |slot| self.slot(slot));
        pattern
    }

    /// A scenario with what is known put in.
    #[must_use]
    pub fn scenario(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        each(&mut scenario, &mut |slot| self.slot(slot));
        scenario
    }

    fn slot(&self, slot: Slot<'_>) {
        match slot {
            Slot::Text(text) => *text = self.text(text),
            Slot::Json(value) => self.json(value),
        }
    }
}

/// A template with its names replaced; doubled braces are single ones.
fn fill(template: &str, with: &[(&str, &str)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in with {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text.replace("{{", "{").replace("}}", "}")
}

/// Whether a scenario has placeholders at all.
pub fn any(scenario: &Scenario) -> bool {
    let mut found = false;
    let mut scenario = scenario.clone();
    each(&mut scenario, &mut |slot| found |= !texts(&slot).iter().all(|text| is_plain(text)));
    found
}

/// The promises that the steps of a scenario take values from: without them it can't be driven.
pub fn promises_of_steps(scenario: &Scenario) -> Vec<String> {
    let mut found = Vec::new();
    let mut steps = scenario.drive.clone();
    for step in &mut steps {
        each_of_step(step, &mut |slot| {
            for text in texts(&slot) {
                let ids = pieces(text).unwrap_or_default().into_iter().filter_map(|piece| match piece {
                    Piece::Promised { id, .. } => Some(id.to_owned()),
                    _ => None,
                });
                found.extend(ids);
            }
        });
    }
    found
}

fn is_plain(text: &str) -> bool {
    matches!(pieces(text).as_deref(), Ok([Piece::Text(_)]))
}

/// A place that can hold placeholders.
pub(crate) enum Slot<'a> {
    Text(&'a mut String),
    Json(&'a mut Value),
}

/// All strings of a slot.
pub(crate) fn texts<'a>(slot: &'a Slot<'_>) -> Vec<&'a str> {
    fn collect<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => found.push(text),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            Value::Object(members) => members.values().for_each(|member| collect(member, found)),
            _ => {}
        }
    }
    match slot {
        Slot::Text(text) => vec![text],
        Slot::Json(value) => {
            let mut found = Vec::new();
            collect(value, &mut found);
            found
        }
    }
}

fn each(scenario: &mut Scenario, visit: &mut dyn FnMut(Slot<'_>)) {
    for step in &mut scenario.drive {
        each_of_step(step, visit);
    }
    for check in &mut scenario.judge {
        for pattern in patterns_of(check) {
            each_of_pattern(pattern, visit);
        }
    }
}

/// All patterns of a check.
fn patterns_of(check: &mut Check) -> impl Iterator<Item = &mut Pattern> {
    let Check { when, after, until, expect, never, count, each, order, spacing, .. } = check;
    let single = [when, after, until].into_iter().flatten();
    let lists = expect.iter_mut().chain(never).chain(order);
    let count = count.iter_mut().map(|count| &mut count.of);
    let each = each.iter_mut().flat_map(|each| std::iter::once(&mut each.of).chain(&mut each.are));
    let spacing = spacing.iter_mut().flat_map(|spacing| [&mut spacing.from, &mut spacing.to]);
    single.chain(lists).chain(count).chain(each).chain(spacing)
}

pub(crate) fn each_of_step(step: &mut Step, visit: &mut dyn FnMut(Slot<'_>)) {
    match &mut step.action {
        StepAction::Op(op) => each_of_op(op, visit),
        StepAction::WaitFor(pattern) => each_of_pattern(pattern, visit),
    }
}

pub(crate) fn each_of_pattern(pattern: &mut Pattern, visit: &mut dyn FnMut(Slot<'_>)) {
    for json in [&mut pattern.params, &mut pattern.result, &mut pattern.value].into_iter().flatten() {
        visit(Slot::Json(&mut json.0));
    }
    for text in [&mut pattern.message, &mut pattern.path].into_iter().flatten() {
        visit(Slot::Text(text));
    }
    for texts in [&mut pattern.header, &mut pattern.query, &mut pattern.form] {
        for text in texts.values_mut() {
            if let TextPattern::Is(text) = text {
                visit(Slot::Text(text));
            }
        }
    }
}

fn each_of_op(op: &mut Op, visit: &mut dyn FnMut(Slot<'_>)) {
    match op {
        Op::Open(open) => {
            open.set.values_mut().for_each(|value| visit(Slot::Json(&mut value.0)));
            let texts = open.env.values_mut().chain(open.headers.values_mut()).chain(&mut open.cwd);
            texts
                .chain(&mut open.project)
                .chain(open.roots.iter_mut().flatten())
                .for_each(|text| visit(Slot::Text(text)));
            open.entries.values_mut().for_each(|entry| each_of_entry(entry, visit));
        }
        Op::Call(call) => {
            call.name.iter_mut().for_each(|text| visit(Slot::Text(text)));
            call.arguments.iter_mut().for_each(|json| visit(Slot::Json(&mut json.0)));
        }
        Op::Control(control) => {
            control.setting.iter_mut().for_each(|text| visit(Slot::Text(text)));
            control.value.iter_mut().for_each(|json| visit(Slot::Json(&mut json.0)));
        }
        Op::Write(write) => {
            write.files.values_mut().chain(write.links.values_mut()).for_each(|text| visit(Slot::Text(text)));
        }
        Op::Configure(configure) => {
            configure.raw.iter_mut().for_each(|text| visit(Slot::Text(text)));
            configure.entries.values_mut().for_each(|entry| each_of_entry(entry, visit));
        }
        Op::SetRoots(set) => set.roots.iter_mut().for_each(|text| visit(Slot::Text(text))),
        _ => {}
    }
}

fn each_of_entry(entry: &mut Entry, visit: &mut dyn FnMut(Slot<'_>)) {
    for text in [&mut entry.command, &mut entry.cwd, &mut entry.url].into_iter().flatten() {
        visit(Slot::Text(text));
    }
    let texts = entry.args.iter_mut().chain(entry.env.values_mut()).chain(entry.headers.values_mut());
    texts.for_each(|text| visit(Slot::Text(text)));
    for json in [&mut entry.supplied_tools, &mut entry.auth, &mut entry.policy].into_iter().flatten() {
        visit(Slot::Json(&mut json.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use serde_json::json;

    #[test]
    fn placeholders_become_what_they_stand_for() {
        let text = "[naming]\ntemplate = \"{server}.{tool}\"\nmax_len = 64\n[results]\ntext_limit = [10, 20]\n[errors.codes]\ntimeout = \"E1\"\n";
        let profile = Profile::parse("p", text).unwrap();
        let known = Known { case: Some("/c"), profile: Some(&profile) };
        let mut value = json!({
            "a": "{promised naming.max_len}",
            "b": ["{promised results.text_limit.1 + 2}", "at most {promised naming.max_len}"],
            "c": "{case}/x",
            "d": "{promised naming.template server=s tool=t}",
            "e": "{promised errors.codes.timeout}: {cwd}",
            "f": "{promised errors.codes.rpc}",
        });
        known.json(&mut value);
        let wanted = json!({
            "a": 64, "b": [22, "at most 64"], "c": "/c/x", "d": "s.t", "e": "E1: {cwd}",
            "f": "{promised errors.codes.rpc}",
        });
        assert_eq!(value, wanted);
        assert_eq!(known.text("{case}"), "/c");
        assert_eq!(known.text(""), "");
    }

    #[test]
    fn wrong_placeholders_are_told() {
        assert!(check("{promised naming.max_length}").unwrap_err().contains("no promise"));
        assert!(check("{promised naming.max_len").unwrap_err().contains("lacks"));
        assert!(check("{promised naming.max_len +}").unwrap_err().contains("number"));
        assert!(check("{promised naming.max_len x}").unwrap_err().contains("neither"));
        assert_eq!(check("{\"json\": {}} ${VAR} {home} {case}"), Ok(()));
    }
}
