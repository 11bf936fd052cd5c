//! What must be seen.

use super::head::is_word;
use super::{Lint, Role, top};
use crate::catalogue::{self, Requirement};
use crate::code::Code;
use crate::diagnostic::did_you_mean;
use crate::op::Op;
use crate::pattern::{OutcomeWord, Pattern};
use crate::scenario::{Check, StepAction, parse_revisions};
use crate::yaml::Path;
use sparring_wire::{Revision, Transport};
use std::collections::BTreeSet;

impl Lint<'_> {
    pub(super) fn checks(&mut self, revisions: &[Revision], transports: &[Transport]) {
        let mut names = BTreeSet::new();
        for (n, check) in self.scenario.judge.iter().enumerate() {
            let at = top().key("judge").index(n);
            let name = check.check.as_str();
            if !is_word(name) {
                self.value(
                    Code::CheckName,
                    &at.key("check"),
                    format!("`{name}` is no name: write lower-case words with dashes"),
                );
            } else if !names.insert(name) {
                self.value(
                    Code::CheckName,
                    &at.key("check"),
                    format!("another check is also called `{name}`"),
                );
            }
            if self.built_in && check.killed_by.is_empty() {
                self.value(Code::KilledBy, &at, format!("the check `{name}` names no mutant that fails it"));
            }
            for (m, mutant) in check.killed_by.iter().enumerate() {
                if !is_word(mutant) {
                    let message = format!("`{mutant}` is no name: write lower-case words with dashes");
                    self.value(Code::KilledBy, &at.key("killed_by").index(m), message);
                }
            }
            let basis = self.basis(check, &at);
            self.where_it_holds(check, &at, basis, revisions, transports);
            self.judgement(check, &at, basis);
            self.check_patterns(check, &at);
        }
    }

    fn basis(&mut self, check: &Check, at: &Path) -> Option<&'static Requirement> {
        match (&check.requirement, &check.promise) {
            (Some(id), None) => {
                let found = catalogue::requirement(id);
                if found.is_none() {
                    let help = did_you_mean(id, catalogue::requirements().map(|r| r.id.as_str()));
                    let message = format!("`{id}` is no requirement of the catalogue");
                    self.value_help(Code::UnknownRequirement, &at.key("requirement"), message, help);
                }
                found
            }
            (None, Some(text)) => {
                self.needed_promise(text, &at.key("promise"));
                None
            }
            _ => {
                let at = if check.promise.is_some() { at.key("promise") } else { at.clone() };
                self.key(Code::Basis, &at, "a check rests on exactly one of `requirement` and `promise`");
                None
            }
        }
    }

    fn where_it_holds(
        &mut self,
        check: &Check,
        at: &Path,
        requirement: Option<&Requirement>,
        revisions: &[Revision],
        transports: &[Transport],
    ) {
        let own = match check.revisions.as_deref().map(parse_revisions) {
            None => revisions.to_vec(),
            Some(Ok(own)) => own,
            Some(Err(why)) => {
                self.value(Code::Revisions, &at.key("revisions"), why);
                return;
            }
        };
        let cases: Vec<(Revision, Transport)> = revisions
            .iter()
            .filter(|r| own.contains(r))
            .flat_map(|&r| transports.iter().map(move |&t| (r, t)))
            .filter(|(r, t)| {
                r.has_transport(*t) && (check.transports.is_empty() || check.transports.contains(t))
            })
            .collect();
        if cases.is_empty() {
            self.value(
                Code::NeverApplies,
                at,
                "the check's revisions and transports leave no case of the scenario",
            );
        } else if let Some(requirement) = requirement
            && !cases.iter().any(|&(r, t)| requirement.holds(r, t))
        {
            let list = |words: Vec<&str>| words.join(", ");
            let help = format!(
                "it holds in {} over {}",
                list(requirement.revisions.iter().map(|r| r.as_str()).collect()),
                list(requirement.transports.iter().map(|t| t.as_str()).collect())
            );
            let message = format!("`{}` holds in no case of this scenario", requirement.id);
            self.value_help(Code::NeverApplies, &at.key("requirement"), message, Some(help));
        }
    }

    fn judgement(&mut self, check: &Check, at: &Path, requirement: Option<&Requirement>) {
        let given: Vec<&str> = [
            (!check.expect.is_empty(), "expect"),
            (!check.never.is_empty(), "never"),
            (check.count.is_some(), "count"),
            (check.each.is_some(), "each"),
            (!check.order.is_empty(), "order"),
            (check.spacing.is_some(), "spacing"),
        ]
        .into_iter()
        .filter_map(|(given, word)| given.then_some(word))
        .collect();
        match given.as_slice() {
            [_] => {}
            [] => self.value(
                Code::Judgement,
                at,
                format!(
                    "the check `{}` needs one of expect, never, count, each, order and spacing",
                    check.check
                ),
            ),
            [_, second, ..] => {
                self.key(
                    Code::Judgement,
                    &at.key(*second),
                    format!("a check has only one judgement, and this one has {}", given.join(" and ")),
                );
            }
        }
        let negative = if check.never.is_empty() {
            check.count.as_ref().filter(|count| count.max == Some(0)).map(|_| "count")
        } else {
            Some("never")
        };
        if let Some(word) = negative {
            let word_at = at.key(word);
            if check.after.is_none() {
                self.key(
                    Code::NegativeCheck,
                    &word_at,
                    "a check that nothing happens needs `after`: the event that gave it the occasion",
                );
            }
            if self.scenario.twin.is_none() {
                self.key(Code::NegativeCheck, &word_at, "a check that nothing happens needs a `twin`: a scenario where the same thing is expected");
            }
        }
        // A driver that claims success for everything, and starts nothing, must not pass.
        let labels = self.scenario.labels();
        let own = |label: &String| {
            let steps = labels.iter().zip(&self.scenario.drive);
            steps.filter(|(l, _)| *l == label).any(|(_, step)| match &step.action {
                StepAction::Op(op) => op.is_harness_own() && !matches!(**op, Op::Await(_)),
                StepAction::WaitFor(_) => false,
            })
        };
        let of_the_driver =
            |p: &Pattern| p.step.as_ref().is_some_and(|label| !own(label)) || p.driver_event.is_some();
        let only_claimed = |p: &Pattern| of_the_driver(p) && p.outcome != Some(OutcomeWord::Error);
        if check.expect.iter().any(only_claimed) && check.after.as_ref().is_none_or(of_the_driver) {
            self.key(
                Code::WordAlone,
                &at.key("expect"),
                "this takes a success on the driver's word alone; name in `after` what a server has to have seen or sent",
            );
        }
        if let Some(count) = &check.count {
            let at = at.key("count");
            match (count.min, count.max) {
                (None, None) => self.value(Code::Counts, &at, "`count` needs `min`, `max` or both"),
                (Some(0), None) => self.value(Code::Counts, &at, "`min: 0` always holds"),
                (Some(min), Some(max)) if min > max => self.value(Code::Counts, &at, "`min` is above `max`"),
                _ => {}
            }
        }
        if check.order.len() == 1 {
            self.value(Code::Counts, &at.key("order"), "an order needs at least two events");
        }
        if check.each.as_ref().is_some_and(|each| each.are.is_empty()) {
            self.value(Code::Counts, &at.key("each"), "`each` needs `are`");
        }
        if let Some(spacing) = &check.spacing {
            let at = at.key("spacing");
            match (spacing.min_ms, spacing.max_ms) {
                (None, None) => self.value(Code::Counts, &at, "`spacing` needs `min_ms`, `max_ms` or both"),
                (Some(min), Some(max)) if min > max => {
                    self.value(Code::Counts, &at, "`min_ms` is above `max_ms`");
                }
                _ => {}
            }
            if let Some(requirement) = requirement
                && !is_about_time(requirement)
            {
                let message = format!("`{}` says nothing about time", requirement.id);
                self.key(Code::Time, &at, message);
            }
        }
    }

    fn check_patterns(&mut self, check: &Check, at: &Path) {
        let rest = if check.after.is_some() { Role::WithAfter } else { Role::Alone };
        let mut patterns: Vec<(Path, &Pattern, Role<'_>)> = Vec::new();
        if let Some(when) = &check.when {
            patterns.push((at.key("when"), when, Role::Alone));
        }
        if let Some(after) = &check.after {
            patterns.push((at.key("after"), after, Role::Alone));
        }
        if let Some(until) = &check.until {
            patterns.push((at.key("until"), until, rest));
        }
        for (key, list) in [("expect", &check.expect), ("never", &check.never), ("order", &check.order)] {
            for (n, pattern) in list.iter().enumerate() {
                patterns.push((at.key(key).index(n), pattern, rest));
            }
        }
        if let Some(count) = &check.count {
            patterns.push((at.key("count").key("of"), &count.of, rest));
        }
        if let Some(each) = &check.each {
            let at = at.key("each");
            patterns.push((at.key("of"), &each.of, rest));
            for (n, pattern) in each.are.iter().enumerate() {
                patterns.push((at.key("are").index(n), pattern, Role::Narrowing(&each.of)));
            }
        }
        if let Some(spacing) = &check.spacing {
            let at = at.key("spacing");
            patterns.push((at.key("from"), &spacing.from, rest));
            patterns.push((at.key("to"), &spacing.to, rest));
        }
        for (at, pattern, role) in patterns {
            self.pattern(pattern, &at, role);
        }
    }
}

/// Whether a requirement speaks of time at all, so that a duration may be judged by it.
fn is_about_time(requirement: &Requirement) -> bool {
    const WORDS: [&str; 7] =
        ["timeout", "times out", "reasonable time", "milliseconds", "promptly", "interval", "wait"];
    let text = requirement.text.to_lowercase();
    WORDS.iter().any(|word| text.contains(word))
}
