//! The summary, as a person sees it.

use crate::sample::{case, event, full, good, judge, lost_session, monitor, report, skipped};
use sparring_reports::model::{CaseReport, Conclusion, JudgeKind, Level, RunReport, Verdict};
use sparring_reports::terminal::{TerminalOptions, render_summary};

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Some hundred good cases, so that the numbers look like those of a real run.
fn many() -> Vec<CaseReport> {
    let mut cases = Vec::new();
    for (i, revision) in REVISIONS.into_iter().enumerate() {
        for (transport, n) in [("stdio", 212 + 11 * i), ("http", if i == 0 { 0 } else { 274 + 13 * i })] {
            for k in 0..n {
                let scenario = format!("area.scenario-{k}");
                cases.push(case(&scenario, revision, transport, good(&scenario)));
            }
        }
    }
    cases
}

fn plain(report: &RunReport) -> String {
    let text = render_summary(report, &TerminalOptions::default());
    fits(&text, 80);
    text
}

/// No line is wider than the page, but for those that are there to be copied.
fn fits(text: &str, width: usize) {
    // The last line stays one line.
    let last = text.lines().count() - 1;
    for (i, line) in text.lines().enumerate() {
        let copied = i == last
            || ["again", "transcript", "learn"].iter().any(|label| line.trim_start().starts_with(label));
        assert!(copied || line.chars().count() <= width, "{} columns: {line}", line.chars().count());
        assert_eq!(line, line.trim_end(), "no blanks at line ends");
    }
}

#[test]
fn all_pass() {
    let text = plain(&report(many()));
    assert!(text.lines().count() <= 24, "a good run is one small screen");
    insta::assert_snapshot!(text);
}

#[test]
fn all_pass_wide() {
    let options =
        TerminalOptions { width: 120, folder: Some("target/sparring".to_owned()), ..Default::default() };
    let text = render_summary(&report(many()), &options);
    fits(&text, 120);
    insta::assert_snapshot!(text);
}

#[test]
fn one_failure() {
    let scenario = "http.session.lost-is-reopened";
    let mut cases = many();
    cases.push(case(scenario, "2025-11-25", "http", vec![lost_session(scenario)]));
    insta::assert_snapshot!(plain(&report(cases)));
}

#[test]
fn one_failure_wide() {
    let scenario = "http.session.lost-is-reopened";
    let cases = vec![case(scenario, "2025-11-25", "http", vec![lost_session(scenario)])];
    let options =
        TerminalOptions { width: 120, folder: Some("target/sparring/".to_owned()), ..Default::default() };
    let text = render_summary(&report(cases), &options);
    fits(&text, 120);
    insta::assert_snapshot!(text);
}

#[test]
fn failures_of_one_cause_are_one() {
    let mut cases = Vec::new();
    for revision in &REVISIONS[1..] {
        // The same check of one scenario…
        let scenario = "http.session.lost-is-reopened";
        cases.push(case(scenario, revision, "http", vec![lost_session(scenario)]));
        // …and the same monitor in several scenarios.
        for scenario in ["http.session.kept", "http.session.lost-is-reopened"] {
            let duplicate = monitor("envelope.id-unique", Level::Must, Verdict::Fail, "id 1 was used twice");
            cases.push(case(scenario, revision, "stdio", vec![duplicate]));
        }
    }
    // The same judge for another reason is another failure.
    let other = monitor("envelope.id-unique", Level::Must, Verdict::Fail, "the id is null");
    cases.push(case("tools.call", "2025-11-25", "stdio", vec![other.clone()]));
    cases.push(case("tools.call", "2025-06-18", "stdio", vec![other]));
    insta::assert_snapshot!(plain(&report(cases)));
}

#[test]
fn warnings() {
    let mut cases = many();
    for (i, case) in cases.iter_mut().enumerate().take(40) {
        let reason = if i % 3 == 0 { "Accept lacks text/event-stream" } else { "there is no Accept header" };
        case.verdicts[2] = monitor("http.accept-both", Level::Should, Verdict::Warn, reason);
    }
    cases[7].verdicts.push(monitor(
        "lifecycle.close-order-of-events-at-the-end-of-a-session",
        Level::Should,
        Verdict::Warn,
        "the client closed the pipe only after it had sent SIGTERM, which no server that is busy can tell from a kill",
    ));
    cases[8].verdicts[3] =
        monitor("restart.back-off", Level::Promise, Verdict::Inconclusive, "the floor was 90 ms at p99");
    insta::assert_snapshot!(plain(&report(cases)));
}

#[test]
fn timeout_and_crash() {
    let mut late = judge(JudgeKind::Case, "case.ends-in-time", Level::Must, Verdict::Timeout);
    late.basis.id = "harness-case-ends".to_owned();
    late.basis.text = "A case ends before its deadline.".to_owned();
    late.basis.source = None;
    late.reason = Some("after 10,000 ms the step `call-2` (call) still ran".to_owned());
    late.expected = Some("the answer to tools/call, or an error at the caller".to_owned());
    late.actual = (1..=20).map(|n| event(n, n * 55, &format!("event number {n}"))).collect();
    let silenced = |name| JudgeReport {
        reason: Some("no tools/call was seen".to_owned()),
        ..judge(JudgeKind::Check, name, Level::Must, Verdict::NotTestable)
    };
    use sparring_reports::model::JudgeReport;
    let hangs = vec![
        silenced("tools.call.unanswered/times-out"),
        silenced("tools.call.unanswered/cancels"),
        late,
        monitor("envelope.id-unique", Level::Must, Verdict::Pass, ""),
    ];
    let mut crash = monitor("case.client-lives", Level::Must, Verdict::Crash, "the client died of SIGSEGV");
    crash.kind = JudgeKind::Case;
    crash.actual = vec![
        event(7, 40, "sent tools/list result with 1,000,000 tools"),
        event(8, 93, "client: stderr: \u{1b}[31mSegmentation fault\u{1b}[0m"),
        event(9, 1_234, "client ended: SIGSEGV"),
    ];
    let never = vec![silenced("tools.list.huge/survives")];
    let cases = vec![
        case("tools.call.unanswered", "2025-11-25", "stdio", hangs),
        case("tools.list.huge", "2025-11-25", "stdio", vec![crash]),
        case("tools.list.long", "2025-11-25", "stdio", never),
    ];
    insta::assert_snapshot!(plain(&report(cases)));
}

#[test]
fn nothing_ran() {
    insta::assert_snapshot!(plain(&report(Vec::new())));
}

#[test]
fn interrupted() {
    let mut cases = many();
    cases.truncate(17);
    cases.push(case("http.session.lost", "2025-11-25", "http", vec![lost_session("http.session.lost")]));
    let mut report = report(cases);
    report.conclusion = Conclusion::Interrupted;
    let text = plain(&report);
    insta::assert_snapshot!(text.lines().last().unwrap(), @"INTERRUPTED   the report is partial: 18 cases, 1 fail until then.   exit 130");
}

#[test]
fn not_run_with_reasons() {
    let mut cases = many();
    for (i, revision) in REVISIONS.into_iter().enumerate() {
        for need in ["subscribe", "complete", "set_level", "set_roots", "prompts"].iter().skip(i) {
            let reason = format!("the driver has no operation `{need}`");
            cases.push(skipped(&format!("x.{need}"), revision, "stdio", Verdict::Unsupported, &reason));
        }
    }
    for case in cases.iter_mut().take(300) {
        case.verdicts[3] = monitor(
            "naming.suffix",
            Level::Promise,
            Verdict::NotApplicable,
            "the profile declares no naming",
        );
    }
    let mut report = report(cases);
    insta::assert_snapshot!(plain(&report));
    report.conclusion = Conclusion::Passed;
    let text = plain(&report);
    insta::assert_snapshot!(text.lines().last().unwrap(), @"PASS   every judge that ran passed; 14 cases unsupported, which was allowed.   exit 0");
}

#[test]
fn a_harness_error_is_not_the_clients() {
    let mut error =
        monitor("mock.messages-valid", Level::Must, Verdict::HarnessError, "our answer had no id");
    error.kind = JudgeKind::Case;
    let text = plain(&report(vec![case("s", "2025-11-25", "stdio", vec![error])]));
    let last = text.lines().last().unwrap();
    insta::assert_snapshot!(last, @"HARNESS ERROR   1 harness-error: our fault, says nothing about the client.   exit 4");
}

#[test]
fn beyond_the_limit_failures_have_one_line() {
    let cases = (0..14)
        .map(|i| {
            let scenario = format!("area.scenario-{i:02}");
            case(&scenario, "2025-11-25", "http", vec![lost_session(&scenario)])
        })
        .collect();
    let report = report(cases);
    let options = TerminalOptions { max_blocks: 2, ..Default::default() };
    let text = render_summary(&report, &options);
    fits(&text, 80);
    assert_eq!(text.matches("      again  ").count(), 2);
    assert_eq!(text.lines().filter(|line| line.starts_with("FAIL  area.scenario-")).count(), 14);
    assert!(text.contains("12 more failures in short; --verbose shows all in full."), "{text}");
    let text = render_summary(&report, &TerminalOptions { verbose: true, ..options });
    assert_eq!(text.matches("      again  ").count(), 14);
}

#[test]
fn verbose_hides_nothing() {
    let mut late = judge(JudgeKind::Case, "case.ends-in-time", Level::Must, Verdict::Timeout);
    late.actual = (1..=20).map(|n| event(n, n, &"ж".repeat(1_000))).collect();
    let silenced = monitor("a.b", Level::Must, Verdict::NotTestable, "nothing was seen");
    let cases = vec![case("s", "2025-11-25", "http", vec![late, silenced])];
    let text = render_summary(&report(cases), &TerminalOptions { verbose: true, ..Default::default() });
    fits(&text, 80);
    assert_eq!(text.matches('ж').count(), 20_000);
    assert!(text.contains("NOT-TESTABLE  s [2025-11-25,http]"), "{text}");
}

#[test]
fn text_from_outside_cannot_act() {
    let evil = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\r\n\u{202e}";
    let mut report = full();
    report.client.name = evil.to_owned();
    report.client.version = evil.to_owned();
    report.client.profile = Some(evil.to_owned());
    for case in &mut report.cases {
        for text in
            [&mut case.id, &mut case.scenario, &mut case.revision, &mut case.transport, &mut case.again]
        {
            text.push_str(evil);
        }
        case.transcript = Some(evil.to_owned());
        if let Some(skipped) = &mut case.skipped {
            skipped.reason = evil.to_owned();
        }
        for judge in &mut case.verdicts {
            for text in [&mut judge.judge, &mut judge.basis.id, &mut judge.basis.text] {
                text.push_str(evil);
            }
            judge.basis.source = Some(evil.to_owned());
            judge.reason = Some(evil.to_owned());
            judge.expected = Some(evil.to_owned());
            judge.prerequisite = Some(event(1, 1, evil));
            judge.actual = vec![event(2, 2, evil)];
        }
    }
    for verbose in [false, true] {
        let options =
            TerminalOptions { verbose, max_blocks: 2, folder: Some(evil.to_owned()), ..Default::default() };
        let text = render_summary(&report, &options);
        let acting = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!text.contains(acting), "{text:?}");
        assert!(text.contains(r"\u{1b}[2J"), "it is shown");
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    let report = full();
    let plain = render_summary(&report, &TerminalOptions::default());
    let coloured = render_summary(&report, &TerminalOptions { colour: true, ..Default::default() });
    assert!(!plain.contains('\u{1b}'));
    assert!(coloured.contains("\u{1b}[31m"), "red somewhere");
    let stripped = anstream::adapter::strip_str(&coloured).to_string();
    let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(&stripped), lines(&plain));
}

#[test]
fn narrow_terminals_get_80_columns() {
    let report = full();
    let narrow = render_summary(&report, &TerminalOptions { width: 10, ..Default::default() });
    assert_eq!(narrow, render_summary(&report, &TerminalOptions::default()));
}

#[test]
fn every_verdict_is_counted_apart() {
    let cases = Verdict::ALL
        .into_iter()
        .enumerate()
        .map(|(i, verdict)| {
            let judges = (0..=i).map(|_| monitor("m", Level::Must, verdict, "why")).collect();
            case("s", "2025-11-25", "stdio", judges)
        })
        .collect();
    let text = plain(&report(cases));
    for (i, verdict) in Verdict::ALL.into_iter().enumerate() {
        let counted = format!("{} {}", i + 1, verdict.word());
        assert!(text.contains(&counted), "{counted} in {text}");
    }
}
