//! JUnit XML, read back.

use crate::sample::{case, full, judge, lost_session, monitor, report};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus};
use sparring_reports::junit::to_string;
use sparring_reports::model::{CaseReport, JudgeKind, Level, Verdict};

fn parse(xml: &str) -> Report {
    Report::deserialize_from_str(xml).unwrap_or_else(|error| panic!("{error}\n{xml}"))
}

fn one(case: CaseReport) -> TestCase {
    let mut junit = parse(&to_string(&report(vec![case])));
    junit.test_suites.remove(0).test_cases.remove(0)
}

#[test]
fn a_failure_as_text() {
    let scenario = "http.session.lost-is-reopened";
    insta::assert_snapshot!(to_string(&report(vec![case(
        scenario,
        "2025-11-25",
        "http",
        vec![lost_session(scenario), monitor("http.accept-both", Level::Should, Verdict::Warn, "no */*")]
    )])));
}

#[test]
fn totals_agree_with_the_report() {
    let full = full();
    let junit = parse(&to_string(&full));
    assert_eq!(junit.name.as_ref().unwrap().as_str(), "sparring");
    assert_eq!(junit.tests, full.cases.len());
    assert_eq!(junit.timestamp.unwrap().to_rfc3339(), "2026-01-02T03:04:05+00:00");
    // One crash, one timeout, one harness error; the latter in a case of its own.
    assert_eq!((junit.failures, junit.errors), (3, 3));
    let cases = || junit.test_suites.iter().flat_map(|suite| &suite.test_cases);
    let marked = cases().filter(|case| matches!(case.status, TestCaseStatus::Skipped { .. })).count();
    assert_eq!((junit.skipped, marked), (2, 2));
    let mut ids: Vec<_> = cases().map(|case| case.name.as_str().to_owned()).collect();
    ids.sort();
    assert_eq!(ids, full.cases.iter().map(|case| case.id.clone()).collect::<Vec<_>>());
}

#[test]
fn each_verdict_has_its_place() {
    for verdict in Verdict::ALL {
        let mut told = judge(JudgeKind::Check, "s/c", Level::Must, verdict);
        told.reason = Some("so it is".to_owned());
        let test = one(case("s", "2025-11-25", "stdio", vec![told]));
        let expected = match verdict {
            Verdict::Fail | Verdict::NotTestable => Some(NonSuccessKind::Failure),
            Verdict::Timeout | Verdict::Crash | Verdict::HarnessError => Some(NonSuccessKind::Error),
            Verdict::Pass
            | Verdict::Warn
            | Verdict::Unsupported
            | Verdict::NotApplicable
            | Verdict::Inconclusive => None,
        };
        match (&test.status, expected) {
            (TestCaseStatus::Success { .. }, None) => {
                let out = test.system_out.as_ref().map_or("", |out| out.as_str());
                let told = !matches!(verdict, Verdict::Pass | Verdict::NotApplicable);
                assert_eq!(out.contains("so it is"), told, "{verdict:?}: {out}");
            }
            (TestCaseStatus::NonSuccess { kind, ty, description, .. }, Some(expected)) => {
                assert_eq!(*kind, expected, "{verdict:?}");
                assert_eq!(ty.as_ref().unwrap().as_str(), verdict.word());
                assert!(description.as_ref().unwrap().as_str().contains("so it is"));
            }
            (status, _) => panic!("{verdict:?}: {status:?}"),
        }
        let requirement =
            test.properties.iter().find(|property| property.name.as_str() == "requirement").unwrap();
        assert_eq!(requirement.value.as_str(), "http-session-404-reinitialize");
    }
}

#[test]
fn all_failures_of_a_case_are_told_and_the_end_comes_first() {
    let verdicts = vec![
        lost_session("s"),
        monitor("case.client-lives", Level::Must, Verdict::Crash, "SIGSEGV"),
        monitor("envelope.id-unique", Level::Must, Verdict::NotTestable, "no request was seen"),
    ];
    let TestCaseStatus::NonSuccess { kind, message, ty, description, .. } =
        one(case("s", "2025-11-25", "http", verdicts)).status
    else {
        panic!("no success")
    };
    assert_eq!((kind, ty.unwrap().as_str()), (NonSuccessKind::Error, "crash"));
    assert!(message.unwrap().as_str().ends_with("(and 2 more judges)"));
    let description = description.unwrap().into_string();
    for told in ["fail s/reopened", "crash case.client-lives", "not-testable envelope.id-unique"] {
        assert!(description.contains(told), "{description}");
    }
}

#[test]
fn what_xml_cannot_carry_is_shown_instead() {
    let evil = "\0\u{1}\u{b}\u{1b}[31mred\u{9b}0m]]> <&\"' \u{ffff} 漢";
    let mut failure = lost_session("s");
    failure.reason = Some(evil.to_owned());
    failure.basis.text = evil.to_owned();
    let mut evil_case = case("s", "2025-11-25", "http", vec![failure]);
    evil_case.id = evil.to_owned();
    evil_case.scenario = evil.to_owned();
    let xml = to_string(&report(vec![evil_case.clone()]));
    assert!(!xml.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{ffff}')), "{xml:?}");
    let test = one(evil_case);
    let shown = r#"\u{0}\u{1}\u{b}\u{1b}[31mred\u{9b}0m]]> <&"' \u{ffff} 漢"#;
    assert_eq!(test.name.as_str(), shown);
    let TestCaseStatus::NonSuccess { message, .. } = test.status else { panic!("no success") };
    assert_eq!(message.unwrap().as_str(), format!("fail: {shown}"));
}
