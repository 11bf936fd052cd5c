//! What of a script never happens.

use super::Sink;
use crate::code::Code;
use crate::diagnostic::did_you_mean;
use crate::yaml::Path;
use serde_json::Value;
use sparring_mock_servers::script::{Action, FIRST_STATE, Rule, ServerScript, StateIs, Trigger};
use std::collections::{BTreeMap, BTreeSet};

impl Sink<'_> {
    /// Rules and actions that are never reached. `at` leads to the script.
    pub(super) fn reach(&mut self, script: &ServerScript, at: &Path) {
        let memory = Memory::of(script);
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
            let once = |trigger: &Trigger| matches!(trigger, Trigger::Start | Trigger::Eof);
            if rule.nth.as_ref().is_some_and(|nth| nth.counts_from_one() && !nth.has(1))
                && rule.on.triggers().len() == 1
                && rule.on.triggers().iter().all(once)
            {
                let message = format!("`{}` happens once in each process", rule.on);
                self.value(Code::UnreachableNth, &at.key("nth"), message);
            }
            self.states(rule.state.as_ref(), &memory, &at.key("state"));
            for counter in rule.counts.keys().filter(|counter| !memory.counters.contains(counter.as_str())) {
                let help = did_you_mean(counter, memory.counters.iter().copied());
                let message = format!("nothing counts `{counter}`");
                self.key_help(Code::UnreachableState, &at.key("counts").key(counter.as_str()), message, help);
            }
            self.actions(&rule.actions, &memory, &at.key("do"));
        }
    }

    fn actions(&mut self, actions: &[Action], memory: &Memory<'_>, at: &Path) {
        let last = actions.iter().position(|a| matches!(a, Action::Exit(_) | Action::Die(_)));
        if let Some(last) = last.filter(|last| last + 1 < actions.len()) {
            let message = "this is never done: the action before it ends the server";
            self.value(Code::DeadAction, &at.index(last + 1), message);
        }
        for (n, action) in actions.iter().enumerate() {
            match action {
                Action::HoldUntil(until) => {
                    self.states(until.state.as_ref(), memory, &at.index(n).key("hold_until").key("state"));
                }
                Action::Repeat(repeat) => {
                    self.actions(&repeat.actions, memory, &at.index(n).key("repeat").key("do"));
                }
                _ => {}
            }
        }
    }

    /// States that are asked for and never gone to.
    fn states(&mut self, asked: Option<&StateIs>, memory: &Memory<'_>, at: &Path) {
        for (machine, states) in asked.into_iter().flat_map(|asked| &asked.0) {
            let first = memory.first.get(machine.as_str()).copied().unwrap_or(FIRST_STATE);
            let set = memory.set.get(machine.as_str());
            // What comes of a placeholder only the run tells.
            if set.is_some_and(|set| set.iter().any(|state| state.contains("{{"))) {
                continue;
            }
            let at = if machine.is_empty() { at.clone() } else { at.key(machine.as_str()) };
            for (n, state) in states.0.iter().enumerate() {
                let reached = state == first || set.is_some_and(|set| set.contains(state.as_str()));
                if !reached {
                    let known = set.into_iter().flatten().copied().chain([first]);
                    let help = did_you_mean(state, known);
                    let message = format!("nothing sets the state `{state}`");
                    self.value_help(Code::UnreachableState, &at.index(n), message, help);
                }
            }
        }
    }
}

/// What a script can remember.
struct Memory<'a> {
    /// Where machines start.
    first: BTreeMap<&'a str, &'a str>,
    /// The states that are set, by machine.
    set: BTreeMap<&'a str, BTreeSet<&'a str>>,
    counters: BTreeSet<&'a str>,
}

impl<'a> Memory<'a> {
    fn of(script: &'a ServerScript) -> Self {
        let machines = script.states.iter();
        let first = machines.filter_map(|(name, state)| Some((name.as_str(), state.first.as_deref()?)));
        let mut memory = Self { first: first.collect(), set: BTreeMap::new(), counters: BTreeSet::new() };
        for action in script.all_actions() {
            match action {
                Action::SetState(set) => {
                    for (machine, state) in &set.0 {
                        memory.set.entry(machine).or_default().insert(state);
                    }
                }
                Action::Count(counter) => {
                    memory.counters.insert(counter);
                }
                _ => {}
            }
        }
        memory
    }
}

/// Whether the first of two rules takes every event that the second could: it asks for nothing that the second does not
/// ask for too. Events are counted for all rules that fit, whichever took them.
fn shadows(first: &Rule, second: &Rule) -> bool {
    let as_json = |rule: &Rule| serde_json::to_value(rule).unwrap_or_default();
    let (asked, given, nothing) = (as_json(first), as_json(second), as_json(&Rule::default()));
    let Value::Object(asked) = asked else { return false };
    // Whatever else a rule can ask for: the same, or nothing.
    let same = asked
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "label" | "on" | "nth" | "params" | "do"))
        .all(|(key, value)| nothing.get(key) == Some(value) || given.get(key) == Some(value));
    let events = second.on.triggers().iter().all(|trigger| first.on.has(trigger));
    let params = match (&first.params, &second.params) {
        (None, _) => true,
        (Some(first), second) => second.as_ref().is_some_and(|second| first.fits(Some(&second.0))),
    };
    // Two that count the same events count them alike.
    let alike = |rule: &Rule| Rule { label: None, actions: Vec::new(), ..rule.clone() };
    same && events && params && (first.nth.is_none() || alike(first) == alike(second))
}
