//! What of a script never happens.

use super::Sink;
use crate::code::Code;
use crate::yaml::Path;
use serde_json::Value;
use sparring_mock_servers::script::{Action, Rule, ServerScript, Trigger};

impl Sink<'_> {
    /// Rules and actions that are never reached. `at` leads to the script.
    pub(super) fn reach(&mut self, script: &ServerScript, at: &Path) {
        let at = at.key("rules");
        for (n, rule) in script.rules.iter().enumerate() {
            let at = at.index(n);
            let before = script.rules[..n].iter().position(|earlier| shadows(earlier, rule));
            if let Some(before) = before {
                let name = match &script.rules[before].label {
                    Some(label) => format!("`{label}`"),
                    None => format!("number {}", before + 1),
                };
                let message = format!("this rule never fires: rule {name} takes every such event before it");
                self.value(Code::ShadowedRule, &at.key("on"), message);
            }
            if rule.nth.is_some_and(|nth| nth > 1) && matches!(rule.on, Trigger::Start | Trigger::Eof) {
                let message = format!("`{}` happens once in each process", rule.on.word());
                self.value(Code::UnreachableNth, &at.key("nth"), message);
            }
            let last = rule.actions.iter().position(|a| matches!(a, Action::Exit(_) | Action::Die(_)));
            if let Some(last) = last.filter(|last| last + 1 < rule.actions.len()) {
                self.value(
                    Code::DeadAction,
                    &at.key("do").index(last + 1),
                    "this is never done: the action before it ends the server",
                );
            }
        }
    }
}

/// Whether the first of two rules takes every event that the second could: it asks for nothing that the second does not
/// ask for too. Events are counted for all rules that fit, whichever took them.
fn shadows(first: &Rule, second: &Rule) -> bool {
    let fits = first.on == second.on
        && match (&first.params, &second.params) {
            (None, _) => true,
            (Some(first), Some(second)) => contains(&second.0, &first.0),
            (Some(_), None) => false,
        };
    let counted = first.nth.is_none() || (first.nth == second.nth && first.params == second.params);
    fits && counted && others_are_given(first, second)
}

/// Whether what the first rule asks for besides, the second asks for just so.
fn others_are_given(first: &Rule, second: &Rule) -> bool {
    const DEALT_WITH: [&str; 5] = ["label", "on", "params", "nth", "do"];
    let (Ok(Value::Object(first)), Ok(second)) = (serde_json::to_value(first), serde_json::to_value(second))
    else {
        return false;
    };
    first
        .iter()
        .filter(|(key, value)| !value.is_null() && !DEALT_WITH.contains(&key.as_str()))
        .all(|(key, value)| second.get(key) == Some(value))
}

/// Whether `given` contains `wanted`, as a rule's `params` are compared.
fn contains(given: &Value, wanted: &Value) -> bool {
    match (given, wanted) {
        (Value::Object(given), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| given.get(key).is_some_and(|given| contains(given, wanted)))
        }
        _ => given == wanted,
    }
}
