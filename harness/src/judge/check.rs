//! The checks of a scenario.

use super::evidence::{evidence, line};
use super::pattern::{describe, find, find_all, occurrences, only_head, with_head_of};
use super::view::View;
use super::{Facts, against, basis_of, promise_basis};
use sparring_reports::model::{Basis, Evidence, JudgeKind, JudgeReport, Level, Verdict};
use sparring_scenarios::catalogue;
use sparring_scenarios::op::Op;
use sparring_scenarios::pattern::Pattern;
use sparring_scenarios::profile::is_always_made;
use sparring_scenarios::scenario::{
    Check, Count, Each, Scenario, Spacing, StepAction, StepExpectation, parse_revisions,
};
use sparring_wire::transcript::{Outcome, What};
use std::collections::HashMap;
use std::ops::Range;

/// A lower bound of time is kept if it is missed by no more than this, in microseconds.
const EARLY_US: u64 = 20_000;
/// An upper bound of time is kept if it is missed by no more than this, or by a quarter.
const LATE_US: u64 = 500_000;
/// The most events that a check shows.
const SHOWN: usize = 6;

/// Judges all checks of a scenario that hold in the case's revision and on its transport.
pub fn checks(facts: &Facts<'_>, view: &View<'_>) -> Vec<JudgeReport> {
    let drive = Drive::of(facts.scenario, view);
    checks_for(facts).map(|(check, basis, note)| judge(facts, view, &drive, check, basis, note)).collect()
}

/// The checks of the scenario that are judged in a case: those whose requirement holds in its revision and on its
/// transport, and all that rest on promises.
fn checks_for<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = (&'f Check, Basis, Option<&'static str>)> {
    facts.scenario.judge.iter().filter_map(|check| {
        let transport = check.transports.is_empty() || check.transports.contains(&facts.transport);
        let revision = check
            .revisions
            .as_deref()
            .is_none_or(|text| parse_revisions(text).is_ok_and(|all| all.contains(&facts.revision)));
        if !(transport && revision) {
            return None;
        }
        if let Some(promise) = &check.promise {
            let text = check.about.as_deref().unwrap_or_default();
            return Some((check, promise_basis(promise, text), None));
        }
        let requirement = catalogue::requirement(check.requirement.as_deref()?)?;
        if !requirement.holds(facts.revision, facts.transport) {
            return None;
        }
        let (basis, note) = basis_of(requirement);
        Some((check, basis, note))
    })
}

/// The label of the only step of a driver that runs the client as a whole.
const WHOLE_STEP: &str = "client";

/// How far the drive got.
pub(crate) struct Drive {
    /// Every step ended as scripted.
    pub(crate) complete: bool,
    /// What kept it from its end, in words, with the event.
    pub(crate) broken: Option<(String, Option<usize>)>,
}

impl Drive {
    pub(crate) fn of(scenario: &Scenario, view: &View<'_>) -> Self {
        let mut ended: HashMap<&str, (usize, &Outcome)> = HashMap::new();
        let mut started: HashMap<&str, usize> = HashMap::new();
        let mut stopped = None;
        let mut whole = false;
        for (index, event) in view.events() {
            match &event.what {
                What::StepEnded { step, outcome, .. } => {
                    ended.entry(step).or_insert((index, outcome));
                }
                What::StepStarted { step, op, .. } => {
                    whole |= step == WHOLE_STEP && op == "run";
                    started.entry(step).or_insert(index);
                }
                What::Deadline { awaited } => {
                    stopped.get_or_insert_with(|| {
                        (format!("the case's deadline passed, awaiting {awaited}"), Some(index))
                    });
                }
                What::ClientEnded { expected: false, .. } => {
                    stopped.get_or_insert_with(|| ("the client under test ended".to_owned(), Some(index)));
                }
                _ => {}
            }
        }
        let end = |label: &str| ended.get(label).copied();
        let never_ended = |label: &str| {
            stopped.clone().unwrap_or_else(|| match started.get(label) {
                Some(index) => (format!("step `{label}` never ended"), Some(*index)),
                None => (format!("step `{label}` was never started"), None),
            })
        };
        // A driver that runs the client as a whole has one step of its own.
        if whole {
            let broken = match end(WHOLE_STEP) {
                Some((_, Outcome::Ok { .. })) => stopped,
                Some((index, _)) => stopped.or_else(|| {
                    Some(("the client's run ended otherwise than scripted".to_owned(), Some(index)))
                }),
                None => Some(never_ended(WHOLE_STEP)),
            };
            return Self { complete: broken.is_none(), broken };
        }
        let labels = scenario.labels();
        let expected_of = |label: &str| {
            labels.iter().zip(&scenario.drive).find(|(l, _)| *l == label).map(|(_, step)| step.expect)
        };
        for (label, step) in labels.iter().zip(&scenario.drive) {
            let mut found = end(label);
            let mut expect = step.expect;
            match &step.action {
                // Not reported at all: then something else says why.
                StepAction::WaitFor(_) if found.is_none() && !started.contains_key(label.as_str()) => {
                    continue;
                }
                StepAction::Op(op) => {
                    if let Op::Await(awaited) = &**op {
                        found = found.or_else(|| end(&awaited.step));
                        if expect == StepExpectation::Ok {
                            expect = expected_of(&awaited.step).unwrap_or(expect);
                        }
                    }
                }
                StepAction::WaitFor(_) => {}
            }
            // What becomes of a step in the background is for the step that awaits it.
            if step.background && started.contains_key(label.as_str()) {
                continue;
            }
            let broken = match found {
                None => Some(never_ended(label)),
                Some((_, Outcome::Pending { .. })) if step.give_up_ms.is_some() => None,
                Some((index, Outcome::Pending { .. })) => Some(
                    stopped.clone().unwrap_or_else(|| (format!("step `{label}` never ended"), Some(index))),
                ),
                Some((_, Outcome::Ok { .. })) if expect != StepExpectation::Error => None,
                Some((_, Outcome::Error { .. })) if expect != StepExpectation::Ok => None,
                Some((index, _)) => {
                    Some((format!("step `{label}` ended otherwise than scripted"), Some(index)))
                }
            };
            if broken.is_some() {
                return Self { complete: false, broken };
            }
        }
        Self { complete: stopped.is_none(), broken: stopped }
    }

    fn why(&self, view: &View<'_>) -> String {
        match &self.broken {
            Some((why, Some(index))) => format!("{why} ({})", line(view, *index)),
            Some((why, None)) => why.clone(),
            None => String::new(),
        }
    }
}

/// What one part of a check (`expect`, `never`…) found.
struct Part {
    finding: Finding,
    reason: Option<String>,
    expected: String,
    actual: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Finding {
    Kept,
    Inconclusive,
    Untestable,
    Broken,
}

/// Where a check looks.
struct Window<'v, 'a> {
    view: &'v View<'a>,
    range: Range<usize>,
    after: Option<usize>,
    /// `until` is given but was not seen: the pattern in words.
    open: Option<String>,
    drive: &'v Drive,
}

fn judge(
    facts: &Facts<'_>,
    view: &View<'_>,
    drive: &Drive,
    check: &Check,
    basis: Basis,
    note: Option<&'static str>,
) -> JudgeReport {
    let mut report = JudgeReport {
        judge: format!("{}/{}", facts.scenario.scenario, check.check),
        kind: JudgeKind::Check,
        verdict: Verdict::Pass,
        basis,
        reason: None,
        prerequisite: None,
        expected: None,
        actual: Vec::new(),
    };
    if let Some(promise) = &check.promise {
        let made = match facts.profile {
            Some(profile) => profile.makes(promise, facts.transport),
            None => is_always_made(promise),
        };
        if !made {
            report.verdict = Verdict::NotApplicable;
            report.reason = Some(match facts.profile {
                Some(_) => format!("the profile does not promise `{promise}`"),
                None => format!("`{promise}` is promised by a profile only, and none was given"),
            });
            return report;
        }
    }
    if let Some(when) = &check.when
        && find(when, view, 0..view.len(), None).is_none()
    {
        let reason = format!("the client is free to do so, and did not: {}", describe(when));
        if drive.complete {
            report.verdict = Verdict::NotApplicable;
            report.reason = Some(reason);
            return report;
        }
        report.verdict = Verdict::NotTestable;
        report.reason = Some(format!("{reason}; {}", drive.why(view)));
        return settle(report, view, note);
    }
    let after = match &check.after {
        None => None,
        Some(pattern) => match find(pattern, view, 0..view.len(), None) {
            Some(index) => {
                report.prerequisite = evidence(view, index);
                Some(index)
            }
            None => {
                let mut reason = format!("the event it hangs on was never seen: {}", describe(pattern));
                if !drive.complete {
                    reason = format!("{reason}; {}", drive.why(view));
                }
                report.expected = check.expect.first().map(describe);
                report.reason = Some(reason);
                report.verdict = Verdict::NotTestable;
                return settle(report, view, note);
            }
        },
    };
    let start = after.map_or(0, |index| index + 1);
    let until = check.until.as_ref().map(|p| (p, find(p, view, start..view.len(), after)));
    let window = Window {
        view,
        range: start..until.and_then(|(_, at)| at).unwrap_or(view.len()),
        after,
        open: until.filter(|(_, at)| at.is_none()).map(|(pattern, _)| describe(pattern)),
        drive,
    };
    let mut parts = Vec::new();
    if !check.expect.is_empty() {
        parts.push(window.expect(&check.expect));
    }
    if !check.never.is_empty() {
        parts.push(window.never(&check.never));
    }
    parts.extend(check.count.as_ref().map(|count| window.count(count)));
    parts.extend(check.each.as_ref().map(|each| window.each(each)));
    if !check.order.is_empty() {
        parts.push(window.order(&check.order));
    }
    parts.extend(check.spacing.as_ref().map(|spacing| window.spacing(spacing, facts)));
    // The worst part speaks for the check.
    if let Some(part) = parts.into_iter().max_by_key(|part| part.finding) {
        report.verdict = match part.finding {
            Finding::Kept => Verdict::Pass,
            Finding::Inconclusive => Verdict::Inconclusive,
            Finding::Untestable => Verdict::NotTestable,
            Finding::Broken => against(report.basis.level),
        };
        report.reason = part.reason;
        report.expected = Some(part.expected);
        report.actual = all(view, &part.actual);
    }
    settle(report, view, note)
}

fn all(view: &View<'_>, indices: &[usize]) -> Vec<Evidence> {
    indices.iter().filter_map(|&index| evidence(view, index)).collect()
}

/// What the level, contradictory texts and faults of ours make of a verdict.
fn settle(mut report: JudgeReport, view: &View<'_>, note: Option<&'static str>) -> JudgeReport {
    let bad = matches!(report.verdict, Verdict::Fail | Verdict::Warn | Verdict::NotTestable);
    if bad {
        let ours = view.events().find(|(_, event)| matches!(event.what, What::HarnessError { .. }));
        if let Some((index, _)) = ours {
            report.verdict = Verdict::HarnessError;
            let reason = report.reason.take().unwrap_or_default();
            report.reason =
                Some(format!("the harness failed in this case, so nothing can be said ({reason})"));
            report.actual.extend(evidence(view, index));
            return report;
        }
        // A MAY is recorded, never failed, not even for lack of an occasion.
        if report.basis.level == Level::May {
            report.verdict = Verdict::NotApplicable;
        }
        if let Some(note) = note {
            let reason = report.reason.take().unwrap_or_default();
            report.reason = Some(format!("{reason} ({note})"));
        }
    }
    report
}

impl Window<'_, '_> {
    fn part(&self, finding: Finding, reason: Option<String>, expected: String, actual: Vec<usize>) -> Part {
        Part { finding, reason, expected, actual }
    }

    /// Why the window can't be said to be over, if so.
    fn still_open(&self) -> Option<String> {
        match &self.open {
            Some(until) if self.drive.complete => {
                Some(format!("the window of the check never closed: {until} was not seen"))
            }
            Some(until) => Some(format!(
                "the window of the check never closed: {until} was not seen; {}",
                self.drive.why(self.view)
            )),
            None => None,
        }
    }

    /// Why it says nothing that none of these was seen, if so: the drive broke off before any of it was called for. One
    /// fault is then told once, by the judge of the step that went wrong, and not again by all that was to follow.
    fn never_came_to_it(&self, patterns: &[Pattern]) -> Option<String> {
        // After its prerequisite the client was put to the test, and what it broke off for may be just that.
        if self.drive.complete || self.after.is_some() {
            return None;
        }
        let came = |pattern: &Pattern| {
            match &pattern.step {
            Some(label) => self.view.events().any(|(_, event)| {
                matches!(&event.what, What::StepStarted { step, .. } | What::StepEnded { step, .. } if step == label)
            }),
            None => find(&only_head(pattern), self.view, self.range.clone(), self.after).is_some(),
        }
        };
        let none = !patterns.iter().any(came);
        none.then(|| format!("the case never came to it: {}", self.drive.why(self.view)))
    }

    fn expect(&self, patterns: &[Pattern]) -> Part {
        let expected = alternatives(patterns);
        for (rank, pattern) in patterns.iter().enumerate() {
            if let Some(index) = find(pattern, self.view, self.range.clone(), self.after) {
                let reason =
                    (rank > 0).then(|| format!("allowed, not the best: {} was seen", describe(pattern)));
                return self.part(Finding::Kept, reason, expected, vec![index]);
            }
        }
        let actual = self.instead(patterns);
        match self.still_open().or_else(|| self.never_came_to_it(patterns)) {
            Some(reason) => self.part(Finding::Untestable, Some(reason), expected, actual),
            None => {
                let reason = match self.after {
                    Some(_) => format!("{expected} was not seen after the prerequisite"),
                    None => format!("{expected} was not seen"),
                };
                self.part(Finding::Broken, Some(reason), expected, actual)
            }
        }
    }

    /// What was seen instead: events of the same kind, and how things ended.
    fn instead(&self, patterns: &[Pattern]) -> Vec<usize> {
        let mut shown: Vec<usize> = Vec::new();
        for pattern in patterns {
            shown.extend(find_all(&only_head(pattern), self.view, self.range.clone(), self.after).take(3));
        }
        shown.sort_unstable();
        shown.dedup();
        shown.truncate(3);
        if shown.is_empty() {
            // Nothing of the kind: then the first that the client did at all.
            shown.extend(self.range.clone().filter(|&i| self.of_client(i)).take(2));
        }
        let end = self.range.clone().find(|&index| {
            matches!(
                self.view.what(index),
                Some(
                    What::StepEnded { outcome: Outcome::Error { .. } | Outcome::Pending { .. }, .. }
                        | What::ClientEnded { expected: false, .. }
                        | What::Deadline { .. }
                )
            )
        });
        shown.extend(end);
        shown.sort_unstable();
        shown.dedup();
        shown
    }

    fn of_client(&self, index: usize) -> bool {
        match self.view.what(index) {
            Some(What::HttpRequest(_) | What::ProcessStarted(_) | What::StdinClosed) => true,
            _ => self.view.messages_of(index).iter().any(super::view::Message::from_client),
        }
    }

    fn never(&self, patterns: &[Pattern]) -> Part {
        let expected = format!("never {}", alternatives(patterns));
        let mut offenders: Vec<usize> = patterns
            .iter()
            .flat_map(|p| find_all(p, self.view, self.range.clone(), self.after).take(SHOWN))
            .collect();
        offenders.sort_unstable();
        offenders.dedup();
        offenders.truncate(SHOWN);
        if let Some(&first) = offenders.first() {
            let reason = format!("{} was seen", line(self.view, first));
            return self.part(Finding::Broken, Some(reason), expected, offenders);
        }
        match self.unfinished() {
            Some(reason) => self.part(Finding::Untestable, Some(reason), expected, Vec::new()),
            None => self.part(Finding::Kept, None, expected, Vec::new()),
        }
    }

    /// Why the absence of an event says nothing, if so. Where `until` was not seen the window is the rest of the case,
    /// which proves as much if the drive got to its end.
    fn unfinished(&self) -> Option<String> {
        let ends_with_the_case = self.range.end == self.view.len();
        (ends_with_the_case && !self.drive.complete)
            .then(|| format!("the drive did not get to its end: {}", self.drive.why(self.view)))
    }

    fn count(&self, count: &Count) -> Part {
        let found: Vec<usize> = find_all(&count.of, self.view, self.range.clone(), self.after).collect();
        let number: usize =
            found.iter().map(|&index| occurrences(&count.of, self.view, index, self.after)).sum();
        let within = |bound: Option<u32>, outside: fn(usize, usize) -> bool| {
            bound.is_some_and(|bound| outside(number, usize::try_from(bound).unwrap_or(usize::MAX)))
        };
        let too_few = within(count.min, |n, min| n < min);
        let too_many = within(count.max, |n, max| n > max);
        let of = describe(&count.of);
        let expected = match (count.min, count.max) {
            (Some(min), Some(max)) if min == max => format!("exactly {min} times {of}"),
            (Some(min), Some(max)) => format!("{min} to {max} times {of}"),
            (Some(min), None) => format!("at least {min} times {of}"),
            (None, Some(max)) => format!("at most {max} times {of}"),
            (None, None) => format!("any number of {of}"),
        };
        // Show the first ones, and the one that is too many.
        let mut actual: Vec<usize> = found.iter().copied().take(SHOWN - 1).collect();
        actual.extend(found.iter().skip(SHOWN - 1).next_back());
        let open = self.still_open();
        match (too_many, too_few) {
            (true, _) => self.part(Finding::Broken, Some(format!("seen {number} times")), expected, actual),
            (_, true) if open.is_some() => self.part(Finding::Untestable, open, expected, actual),
            (_, true) => self.part(Finding::Broken, Some(format!("seen {number} times")), expected, actual),
            _ => match self.unfinished().filter(|_| count.max.is_some()) {
                Some(reason) => self.part(Finding::Untestable, Some(reason), expected, actual),
                None => self.part(Finding::Kept, None, expected, actual),
            },
        }
    }

    fn each(&self, each: &Each) -> Part {
        let allowed: Vec<Pattern> = each.are.iter().map(|are| with_head_of(are, &each.of)).collect();
        let expected = format!("each of: {}; is {}", describe(&each.of), alternatives(&allowed));
        let found: Vec<usize> = find_all(&each.of, self.view, self.range.clone(), self.after).collect();
        if found.is_empty() {
            let reason = format!("{} was never seen", describe(&each.of));
            return self.part(Finding::Untestable, Some(reason), expected, Vec::new());
        }
        let is_allowed =
            |index: usize| allowed.iter().any(|p| find(p, self.view, index..index + 1, self.after).is_some());
        let offenders: Vec<usize> =
            found.iter().copied().filter(|&index| !is_allowed(index)).take(SHOWN).collect();
        match offenders.first() {
            None => self.part(Finding::Kept, None, expected, found.into_iter().take(SHOWN).collect()),
            Some(&first) => {
                let reason = format!("{} is not like that", line(self.view, first));
                self.part(Finding::Broken, Some(reason), expected, offenders)
            }
        }
    }

    fn order(&self, patterns: &[Pattern]) -> Part {
        let expected = patterns.iter().map(describe).collect::<Vec<_>>().join(", then ");
        let mut seen = Vec::new();
        let mut range = self.range.clone();
        for pattern in patterns {
            let Some(index) = find(pattern, self.view, range.clone(), self.after) else {
                let wanted = describe(pattern);
                let untold = || self.never_came_to_it(std::slice::from_ref(pattern));
                if let Some(reason) = self.still_open().or_else(untold) {
                    return self.part(Finding::Untestable, Some(reason), expected, seen);
                }
                let early = find(pattern, self.view, self.range.clone(), self.after);
                let reason = match (early, seen.last()) {
                    (Some(early), Some(_)) => {
                        seen.push(early);
                        format!("{wanted} was seen, but too early")
                    }
                    (_, Some(&last)) => format!("{wanted} was not seen after {}", line(self.view, last)),
                    (_, None) => format!("{wanted} was not seen"),
                };
                if seen.is_empty() {
                    seen = self.instead(std::slice::from_ref(pattern));
                }
                return self.part(Finding::Broken, Some(reason), expected, seen);
            };
            seen.push(index);
            range.start = index + 1;
        }
        self.part(Finding::Kept, None, expected, seen)
    }

    fn spacing(&self, spacing: &Spacing, facts: &Facts<'_>) -> Part {
        let (from, to) = (describe(&spacing.from), describe(&spacing.to));
        let bounds = match (spacing.min_ms, spacing.max_ms) {
            (Some(min), Some(max)) => format!("between {min} and {max} ms"),
            (Some(min), None) => format!("at least {min} ms"),
            (None, Some(max)) => format!("at most {max} ms"),
            (None, None) => "any time".to_owned(),
        };
        let expected = match facts.clock_scale {
            0 | 1 => format!("{bounds} from {from} to {to}"),
            scale => format!("{bounds} (divided by {scale}) from {from} to {to}"),
        };
        let time = |index: usize| self.view.event(index).map_or(0, |event| event.at_us);
        let Some(start) = find(&spacing.from, self.view, self.range.clone(), self.after) else {
            let reason = format!("{from} was never seen");
            return self.part(Finding::Untestable, Some(reason), expected, Vec::new());
        };
        let busy = |off_us: u64| facts.floor.is_some_and(|floor| floor.may_account_for(off_us));
        let missed = |busy: bool| if busy { Finding::Inconclusive } else { Finding::Broken };
        // The client's clock may be faster than ours.
        let micros = |ms: u64| ms.saturating_mul(1000) / u64::from(facts.clock_scale.max(1));
        let max = spacing.max_ms.map_or(u64::MAX, micros);
        let limit = spacing.max_ms.map(|max| {
            let max = micros(max);
            max.saturating_add((max / 4).max(LATE_US))
        });
        let range = start + 1..self.range.end;
        let Some(end) = find(&spacing.to, self.view, range, self.after.or(Some(start))) else {
            // Only a transcript that goes on beyond the limit shows that it was missed.
            let watched = self.range.end.checked_sub(1).map_or(0, time).saturating_sub(time(start));
            let reason = format!("{to} was never seen");
            return match limit {
                Some(limit) if watched > limit => {
                    self.part(missed(busy(watched.saturating_sub(max))), Some(reason), expected, vec![start])
                }
                _ => self.part(Finding::Untestable, Some(reason), expected, vec![start]),
            };
        };
        let took = time(end).saturating_sub(time(start));
        let min = spacing.min_ms.map_or(0, micros);
        let early = took + EARLY_US < min;
        let late = limit.is_some_and(|limit| took > limit);
        let actual = vec![start, end];
        if early || late {
            let mut reason = format!("it took {} ms", took / 1000);
            let busy = busy(if early { min - took } else { took.saturating_sub(max) });
            if busy {
                reason.push_str(", on a machine too busy to tell");
            }
            return self.part(missed(busy), Some(reason), expected, actual);
        }
        self.part(Finding::Kept, None, expected, actual)
    }
}

fn alternatives(patterns: &[Pattern]) -> String {
    let mut texts: Vec<String> = patterns.iter().map(describe).collect();
    let last = texts.pop().unwrap_or_default();
    if texts.is_empty() { last } else { format!("{} or {last}", texts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Floor;
    use crate::judge::testing::{self, Transcript, notification, request, result, transcript};
    use serde_json::{Value, json};
    use sparring_scenarios::profile::Profile;
    use sparring_wire::transcript::FailureKind;
    use sparring_wire::{Revision, Transport};

    fn scenario(check: Value) -> Scenario {
        let mut check = check;
        check["check"] = json!("c");
        if check.get("requirement").is_none() && check.get("promise").is_none() {
            check["requirement"] = json!("lifecycle-initialize-first");
        }
        serde_json::from_value(json!({
            "scenario": "a.b", "version": 1, "about": "x", "twin": "a.c",
            "drive": [{"open": {}}, {"call": {"tool": "echo"}}], "judge": [check],
        }))
        .unwrap()
    }

    fn report_with(
        check: Value,
        t: &Transcript,
        change: impl for<'f> FnOnce(&mut Facts<'f>),
    ) -> Option<JudgeReport> {
        let scenario = scenario(check);
        let mut facts = Facts {
            case: "a.b[2025-11-25,stdio]",
            scenario: &scenario,
            revision: Revision::V2025_11_25,
            transport: Transport::Stdio,
            profile: None,
            floor: None,
            clock_scale: 1,
        };
        change(&mut facts);
        checks(&facts, &View::of(&t.events)).pop()
    }

    fn made_with(check: Value, profile: &Profile) -> JudgeReport {
        let scenario = scenario(check);
        let facts = Facts {
            case: "a.b[2025-11-25,stdio]",
            scenario: &scenario,
            revision: Revision::V2025_11_25,
            transport: Transport::Stdio,
            profile: Some(profile),
            floor: None,
            clock_scale: 1,
        };
        checks(&facts, &View::of(&good().events)).remove(0)
    }

    fn report(check: Value, t: &Transcript) -> JudgeReport {
        report_with(check, t, |_| ()).unwrap()
    }

    /// A conversation with two calls, at 1 ms an event; the drive reaches its end.
    fn good() -> Transcript {
        transcript()
            .handshake("2025-11-25", json!({}), json!({"tools": {}}))
            .ok("open")
            .client(request(1, "tools/call", json!({"name": "echo"})))
            .mock(result(1, json!({"content": []})))
            .client(request(2, "tools/call", json!({"name": "add"})))
            .mock(result(2, json!({"content": []})))
            .ok("call")
    }

    /// Each row: a check, and what it says of [`good`].
    #[test]
    fn verdicts_follow_from_what_was_seen() {
        use Verdict::{Fail, NotTestable, Pass};
        let init = json!({"request": "initialize"});
        let ping = json!({"request": "ping"});
        let call = json!({"request": "tools/call"});
        let call2 = json!({"request": "tools/call", "nth": 2});
        let done = json!({"notification": "notifications/initialized"});
        let rows = [
            (json!({"after": init, "expect": [done]}), Pass),
            (json!({"after": init, "expect": [ping]}), Fail),
            (json!({"after": init, "expect": [ping, done]}), Pass),
            (json!({"after": ping, "expect": [done]}), NotTestable),
            (json!({"after": call, "expect": [done]}), Fail),
            // The window ends before the second call.
            (
                json!({"after": init, "until": call2, "expect": [{"request": "tools/call", "params": {"name": "add"}}]}),
                Fail,
            ),
            (json!({"after": init, "until": ping, "expect": [{"request": "prompts/list"}]}), NotTestable),
            (json!({"after": init, "until": ping, "expect": [call]}), Pass),
            (json!({"after": init, "never": [ping]}), Pass),
            (json!({"after": init, "never": [call]}), Fail),
            (json!({"after": ping, "never": [call]}), NotTestable),
            // What the client is free to do, and did or did not.
            (json!({"when": ping, "after": ping, "expect": [done]}), Verdict::NotApplicable),
            (json!({"when": init, "after": ping, "expect": [done]}), NotTestable),
            (json!({"when": init, "after": init, "expect": [call]}), Pass),
            (json!({"after": init, "until": ping, "never": [{"request": "prompts/list"}]}), Pass),
            (json!({"after": init, "until": call, "never": [call2]}), Pass),
            (json!({"count": {"of": call, "min": 2, "max": 2}}), Pass),
            (json!({"count": {"of": call, "max": 1}}), Fail),
            (json!({"count": {"of": call, "min": 3}}), Fail),
            (json!({"count": {"of": call, "min": 3}, "until": ping}), NotTestable),
            (
                json!({"each": {"of": call, "are": [{"params": {"name": "echo"}}, {"params": {"name": "add"}}]}}),
                Pass,
            ),
            (json!({"each": {"of": call, "are": [{"params": {"name": "echo"}}]}}), Fail),
            (json!({"each": {"of": ping, "are": [{}]}}), NotTestable),
            (json!({"order": [init, done, call]}), Pass),
            (json!({"order": [init, call, done]}), Fail),
            (json!({"spacing": {"from": init, "to": call, "max_ms": 10}}), Pass),
            (json!({"spacing": {"from": init, "to": call, "min_ms": 20}}), Pass),
            (json!({"spacing": {"from": init, "to": call, "min_ms": 30}}), Fail),
            (json!({"spacing": {"from": ping, "to": call, "min_ms": 30}}), NotTestable),
            (json!({"spacing": {"from": call, "to": ping, "max_ms": 30}}), NotTestable),
            (json!({"after": call, "expect": [{"server_answer": "tools/call", "same_id": true}]}), Pass),
            (json!({"after": call2, "expect": [{"server_answer": "tools/call", "same_id": true}]}), Pass),
            (json!({"after": init, "expect": [{"server_answer": "tools/call", "same_id": true}]}), Fail),
        ];
        for (check, verdict) in rows {
            let report = report(check.clone(), &good());
            assert_eq!(report.verdict, verdict, "{check}: {:?}", report.reason);
            if verdict != Pass {
                assert!(
                    report.reason.is_some() && report.expected.is_some()
                        || matches!(verdict, NotTestable | Verdict::NotApplicable),
                    "{check}"
                );
            }
        }
    }

    #[test]
    fn the_level_decides_what_a_miss_is() {
        let check = |id: &str| json!({"requirement": id, "after": {"request": "initialize"}, "expect": [{"request": "ping"}]});
        assert_eq!(report(check("lifecycle-initialize-first"), &good()).verdict, Verdict::Fail);
        assert_eq!(report(check("lifecycle-ping-periodic"), &good()).verdict, Verdict::Warn);
        let may = report(check("progress-requested"), &good());
        assert_eq!(may.verdict, Verdict::Pass);
        assert!(may.reason.is_some());
        // The texts of the specification contradict each other: judged by the lenient one, and said so.
        let lenient = report(check("lifecycle-unsupported-version-disconnect"), &good());
        assert_eq!(lenient.verdict, Verdict::Warn);
        assert!(lenient.reason.unwrap().contains("lifecycle page"));
    }

    #[test]
    fn checks_that_do_not_hold_in_the_case_are_left_out() {
        let expect = json!([{"request": "ping"}]);
        let http = json!({"requirement": "http-accept-both-types", "expect": expect});
        assert!(report_with(http, &good(), |_| ()).is_none());
        let old = json!({"requirement": "tools-require-capability-should", "expect": expect});
        assert!(report_with(old, &good(), |_| ()).is_none());
        let limited = json!({"revisions": "2025-06-18", "expect": expect});
        assert!(report_with(limited, &good(), |_| ()).is_none());
        let limited = json!({"transports": ["http"], "expect": expect});
        assert!(report_with(limited, &good(), |_| ()).is_none());
    }

    #[test]
    fn a_promise_is_judged_only_if_made() {
        let check = json!({"promise": "naming.max_len", "expect": [{"request": "ping"}]});
        let not_made = report(check.clone(), &good());
        assert_eq!(not_made.verdict, Verdict::NotApplicable);
        assert!(not_made.reason.unwrap().contains("naming.max_len"));
        let profile = Profile::parse("p", "[naming]\nmax_len = 64\n").unwrap();
        let made = made_with(check, &profile);
        assert_eq!((made.verdict, made.basis.level), (Verdict::Fail, Level::Promise));
        let of_value = |value: &str| {
            let check =
                json!({"promise": format!("naming.max_len = {value}"), "expect": [{"request": "ping"}]});
            made_with(check, &profile).verdict
        };
        assert_eq!((of_value("64"), of_value("48")), (Verdict::Fail, Verdict::NotApplicable));
        let always = json!({"promise": "driver.completes", "expect": [{"step": "call"}]});
        assert_eq!(report(always, &good()).verdict, Verdict::Pass);
    }

    #[test]
    fn absence_proves_nothing_if_the_drive_broke_off() {
        let never = json!({"after": {"request": "initialize"}, "never": [{"request": "ping"}]});
        let cut = transcript().handshake("2025-11-25", json!({}), json!({})).failed(
            "open",
            FailureKind::Timeout,
            "too late",
        );
        let report_of_cut = report(never.clone(), &cut);
        assert_eq!(report_of_cut.verdict, Verdict::NotTestable);
        assert!(report_of_cut.reason.unwrap().contains("too late"));
        // Nor that the client would not have done what it is free to do.
        let free = json!({"when": {"http": "GET"}, "expect": [{"request": "ping"}]});
        assert_eq!(report(free.clone(), &cut).verdict, Verdict::NotTestable);
        assert_eq!(report(free, &good()).verdict, Verdict::NotApplicable);
        // A client that died proves nothing either.
        let died = good().event(What::ClientEnded { code: Some(1), signal: None, expected: false });
        assert_eq!(report(never.clone(), &died).verdict, Verdict::NotTestable);
        // But what was seen before that counts.
        let seen = json!({"after": {"request": "initialize"}, "never": [{"notification": "*"}]});
        assert_eq!(report(seen, &cut).verdict, Verdict::Fail);
        // And a missing prerequisite is explained by the step that failed.
        let missing = json!({"after": {"request": "tools/call"}, "expect": [{"request": "ping"}]});
        assert!(report(missing, &cut).reason.unwrap().contains("open"));
    }

    #[test]
    fn a_failure_of_ours_is_never_blamed_on_the_client() {
        let t = good().event(What::HarnessError { message: "port lost".into() });
        let check = json!({"after": {"request": "initialize"}, "expect": [{"request": "ping"}]});
        assert_eq!(report(check, &t).verdict, Verdict::HarnessError);
    }

    #[test]
    fn durations_on_a_busy_machine_are_inconclusive() {
        let call = json!({"request": "tools/call"});
        let check = json!({"spacing": {"from": {"request": "initialize"}, "to": call, "max_ms": 10}});
        let slow = transcript().handshake("2025-11-25", json!({}), json!({})).wait(600).client(request(
            1,
            "tools/call",
            json!({"name": "echo"}),
        ));
        let judged = |latest_us| {
            let floor = Some(Floor { latest_us });
            report_with(check.clone(), &slow, |facts| facts.floor = floor).unwrap().verdict
        };
        assert_eq!(judged(1_000), Verdict::Fail);
        assert_eq!(judged(150_000), Verdict::Inconclusive);
        // No machine is as late as that.
        let very_slow = transcript()
            .handshake("2025-11-25", json!({}), json!({}))
            .wait(6000)
            .client(request(1, "tools/call", json!({"name": "echo"})));
        let floor = Some(Floor { latest_us: 150_000 });
        let judged_very_slow = report_with(check.clone(), &very_slow, |facts| facts.floor = floor);
        assert_eq!(judged_very_slow.unwrap().verdict, Verdict::Fail);
        // Late, but within the tolerance of half a second.
        let late = transcript().handshake("2025-11-25", json!({}), json!({})).wait(400).client(request(
            1,
            "tools/call",
            json!({"name": "echo"}),
        ));
        assert_eq!(report(check, &late).verdict, Verdict::Pass);
    }

    #[test]
    fn the_failure_shows_what_was_seen_instead() {
        let t = testing::http()
            .http_handshake("2025-11-25", Some("s-1"), json!({}), json!({}))
            .ok("open")
            .post(request(1, "tools/call", json!({"name": "echo"})))
            .answer(404, Value::Null)
            .post(request(1, "tools/call", json!({"name": "echo"})))
            .failed("call", FailureKind::Http, "Session terminated");
        let check = json!({"requirement": "http-session-404-reinitialize",
            "after": {"http": "POST", "status": 404},
            "expect": [{"http": "POST", "method": "initialize", "header": {"mcp-session-id": "absent"}}]});
        let report = report_with(check, &t, |facts| facts.transport = Transport::Http).unwrap();
        assert_eq!(report.verdict, Verdict::Fail);
        assert_eq!(report.expected.as_deref(), Some("a POST initialize without Mcp-Session-Id"));
        let version = "Mcp-Protocol-Version: 2025-11-25";
        assert_eq!(
            report.prerequisite.unwrap().text,
            format!("POST tools/call id 1 name=\"echo\" (Mcp-Session-Id: s-1, {version}) answered 404")
        );
        let shown: Vec<String> = report.actual.into_iter().map(|e| e.text).collect();
        assert_eq!(
            shown,
            [
                format!("POST tools/call id 1 name=\"echo\" (Mcp-Session-Id: s-1, {version})"),
                "driver: call failed (http): \"Session terminated\"".to_owned(),
            ]
        );
    }

    #[test]
    fn background_steps_are_judged_where_they_are_awaited() {
        let scenario: Scenario = serde_json::from_value(json!({
            "scenario": "a.b", "version": 1, "about": "x", "judge": [],
            "drive": [
                {"call": {"tool": "slow"}, "as": "slow", "background": true},
                {"cancel": {"step": "slow"}},
                {"await": {"step": "slow"}, "expect": "error"},
            ],
        }))
        .unwrap();
        let transcript = || transcript().step_started("slow", "call", json!({}));
        let t = transcript().ok("cancel").failed("slow", FailureKind::Cancelled, "cancelled");
        assert!(Drive::of(&scenario, &View::of(&t.events)).complete);
        let t = transcript().ok("cancel").ok("slow");
        assert!(!Drive::of(&scenario, &View::of(&t.events)).complete);
        let t = transcript().ok("cancel").event(What::Deadline { awaited: "await".into() });
        let drive = Drive::of(&scenario, &View::of(&t.events));
        assert!(!drive.complete && drive.broken.unwrap().0.contains("deadline"));
    }

    #[test]
    fn a_driver_that_runs_the_client_as_a_whole_has_one_step() {
        let scenario = scenario(json!({"expect": [{"request": "ping"}]}));
        let drive = |t: Transcript| Drive::of(&scenario, &View::of(&t.events));
        assert_eq!(WHOLE_STEP, crate::run::case::WHOLE_STEP);
        let begun = || transcript().step_started(WHOLE_STEP, "run", Value::Null);
        assert!(drive(begun().ok("client")).complete);
        assert!(!drive(begun().failed("client", FailureKind::Other, "exit code 1")).complete);
        assert!(!drive(begun()).complete);
    }

    #[test]
    fn members_of_a_batch_are_counted_one_by_one() {
        let t = good().client(json!([request(3, "ping", Value::Null), request(4, "ping", Value::Null)]));
        let count = |n: u32| json!({"count": {"of": {"request": "ping"}, "min": n, "max": n}});
        assert_eq!(report(count(2), &t).verdict, Verdict::Pass);
        assert_eq!(report(count(1), &t).verdict, Verdict::Fail);
        let second = json!({"expect": [{"request": "ping", "nth": 2}]});
        assert_eq!(report(second, &t).verdict, Verdict::Pass);
        let third = json!({"expect": [{"request": "ping", "nth": 3}]});
        assert_eq!(report(third, &t).verdict, Verdict::Fail);
    }

    #[test]
    fn a_late_answer_names_the_cancelled_request() {
        let t = good().client(notification("notifications/cancelled", json!({"requestId": 2}))).ok("x");
        let check = |id: u32| {
            json!({"after": {"request": "tools/call", "nth": id},
                   "expect": [{"notification": "notifications/cancelled", "names_id": "requestId"}]})
        };
        assert_eq!(report(check(2), &t).verdict, Verdict::Pass);
        assert_eq!(report(check(1), &t).verdict, Verdict::Fail);
    }
}
