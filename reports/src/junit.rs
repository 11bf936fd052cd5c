//! JUnit XML, for CI servers.
//!
//! A test suite is a scenario, a test case is one of its cases. JUnit has fewer words than we: `failure` stands for
//! `fail` and `not-testable`, `error` for `crash`, `timeout` and `harness-error`, `skipped` for a case that was not
//! run; `type` has the verdict's own word. JUnit knows one failure a case, so its text lists all judges that failed.
//! Warnings and the like are in `system-out`.

use crate::file::{self, WriteError};
use crate::model::{CaseReport, Evidence, JudgeKind, JudgeReport, RunReport, Verdict};
use crate::text::{count, escape};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// What errors call it.
pub const WHAT: &str = "JUnit report";

/// The report as JUnit XML.
pub fn to_string(report: &RunReport) -> String {
    let mut suites: BTreeMap<&str, Vec<&CaseReport>> = BTreeMap::new();
    for case in &report.cases {
        suites.entry(&case.scenario).or_default().push(case);
    }
    let mut junit = Report::new("sparring");
    junit.timestamp = report.started.parse().ok();
    junit.set_time(Duration::from_millis(report.took_ms));
    for (scenario, cases) in suites {
        let mut suite = TestSuite::new(&*escape(scenario));
        suite.set_time(Duration::from_millis(cases.iter().map(|case| case.took_ms).sum()));
        let client = &report.client;
        suite.add_property(("client", &*escape(&format!("{} {}", client.name, client.version))));
        suite.add_property(("driver", &*escape(&client.driver)));
        suite.add_property(("seed", report.seed.to_string().as_str()));
        suite.add_test_cases(cases.into_iter().map(test_case));
        junit.add_test_suite(suite);
    }
    // Writing into memory, of strings that are free of what XML can't carry: nothing to refuse.
    junit.to_string().unwrap_or_default()
}

/// Writes the report, see [`file::write()`].
///
/// # Errors
/// The file can't be written.
pub fn write(report: &RunReport, path: &Path) -> Result<(), WriteError> {
    file::write(WHAT, path, to_string(report).as_bytes())
}

/// What a verdict is in JUnit, if it is not a success.
const fn kind(verdict: Verdict) -> Option<NonSuccessKind> {
    match verdict {
        Verdict::Fail | Verdict::NotTestable => Some(NonSuccessKind::Failure),
        Verdict::Timeout | Verdict::Crash | Verdict::HarnessError => Some(NonSuccessKind::Error),
        Verdict::Pass
        | Verdict::Warn
        | Verdict::Unsupported
        | Verdict::NotApplicable
        | Verdict::Inconclusive => None,
    }
}

fn test_case(case: &CaseReport) -> TestCase {
    let mut test = TestCase::new(&*escape(&case.id), status(case));
    test.set_classname(&*escape(&case.scenario));
    test.set_time(Duration::from_millis(case.took_ms));
    test.set_assertions(case.verdicts.len());
    test.add_property(("revision", &*escape(&case.revision)));
    test.add_property(("transport", &*escape(&case.transport)));
    // All monitors of all cases would drown the rest: those that had nothing to say are left out.
    let mut requirements: Vec<&str> = Vec::new();
    for judge in &case.verdicts {
        let telling = judge.kind == JudgeKind::Check
            || !matches!(judge.verdict, Verdict::Pass | Verdict::NotApplicable);
        if telling && !requirements.contains(&judge.basis.id.as_str()) {
            requirements.push(&judge.basis.id);
        }
    }
    test.add_properties(requirements.iter().map(|id| Property::new("requirement", &*escape(id))));
    let mut notes = String::new();
    for judge in &case.verdicts {
        if matches!(judge.verdict, Verdict::Warn | Verdict::Unsupported | Verdict::Inconclusive) {
            describe(&mut notes, judge);
        }
    }
    if let Some(transcript) = &case.transcript {
        let _ = writeln!(notes, "transcript: {}", escape(transcript));
    }
    if !notes.is_empty() {
        test.set_system_out(notes);
    }
    test
}

fn status(case: &CaseReport) -> TestCaseStatus {
    if let Some(skipped) = &case.skipped {
        let mut status = TestCaseStatus::skipped();
        status.set_type(skipped.verdict.word());
        status.set_message(format!("{}: {}", skipped.verdict.word(), escape(&skipped.reason)));
        return status;
    }
    let bad: Vec<_> = case.verdicts.iter().filter(|judge| kind(judge.verdict).is_some()).collect();
    // What ended the case explains the rest of it.
    let Some(worst) =
        bad.iter().find(|judge| kind(judge.verdict) == Some(NonSuccessKind::Error)).or_else(|| bad.first())
    else {
        return TestCaseStatus::success();
    };
    let mut status = TestCaseStatus::non_success(kind(worst.verdict).unwrap_or(NonSuccessKind::Failure));
    status.set_type(worst.verdict.word());
    let mut message = format!("{}: {}", worst.verdict.word(), escape(&worst.basis.text));
    if bad.len() > 1 {
        let _ = write!(message, " (and {})", count(bad.len() - 1, "more judge"));
    }
    status.set_message(message);
    let mut description = format!("{}\n\n", escape(&case.about));
    for judge in bad {
        describe(&mut description, judge);
    }
    let _ = writeln!(description, "again: {}", escape(&case.again));
    status.set_description(description);
    status
}

/// One judge's word, with its evidence.
fn describe(out: &mut String, judge: &JudgeReport) {
    let basis = &judge.basis;
    let _ = writeln!(out, "{} {} ({})", judge.verdict.word(), escape(&judge.judge), escape(&basis.id));
    let _ = writeln!(out, "  {}", escape(&basis.text));
    let mut line = |label: &str, text: &str| {
        let _ = writeln!(out, "  {label}: {}", escape(text));
    };
    if let Some(source) = &basis.source {
        line("source", source);
    }
    if let Some(reason) = &judge.reason {
        line("reason", reason);
    }
    let event = |evidence: &Evidence| format!("#{} +{} ms {}", evidence.n, evidence.at_ms, evidence.text);
    if let Some(prerequisite) = &judge.prerequisite {
        line("prerequisite", &event(prerequisite));
    }
    if let Some(expected) = &judge.expected {
        line("expected", expected);
    }
    for evidence in &judge.actual {
        line("actual", &event(evidence));
    }
    out.push('\n');
}
