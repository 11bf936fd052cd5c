//! Reports made by hand.

use sparring_reports::model::*;

pub(crate) fn report(cases: Vec<CaseReport>) -> RunReport {
    RunReport {
        format_version: FORMAT_VERSION,
        sparring_version: "0.1.0".to_owned(),
        client: ClientInfo {
            name: "reference client".to_owned(),
            version: "0.1.0".to_owned(),
            driver: "builtin".to_owned(),
            command: Vec::new(),
            profile: None,
        },
        started: "2026-01-02T03:04:05Z".to_owned(),
        took_ms: 31_412,
        seed: 8_338_065,
        conclusion: Conclusion::of(&cases, false, false),
        cases,
    }
}

pub(crate) fn case(
    scenario: &str,
    revision: &str,
    transport: &str,
    verdicts: Vec<JudgeReport>,
) -> CaseReport {
    let id = format!("{scenario}[{revision},{transport}]");
    CaseReport {
        scenario: scenario.to_owned(),
        about: "The server forgets the session between two calls and answers 404.".to_owned(),
        revision: revision.to_owned(),
        transport: transport.to_owned(),
        skipped: None,
        took_ms: 21,
        verdicts,
        transcript: Some(format!("transcripts/{id}.jsonl")),
        again: format!("sparring run --case '{id}'"),
        id,
    }
}

pub(crate) fn skipped(
    scenario: &str,
    revision: &str,
    transport: &str,
    verdict: Verdict,
    reason: &str,
) -> CaseReport {
    CaseReport {
        skipped: Some(Skipped { verdict, reason: reason.to_owned() }),
        took_ms: 0,
        transcript: None,
        ..case(scenario, revision, transport, Vec::new())
    }
}

pub(crate) fn judge(kind: JudgeKind, name: &str, level: Level, verdict: Verdict) -> JudgeReport {
    JudgeReport {
        judge: name.to_owned(),
        kind,
        verdict,
        basis: Basis {
            id: "http-session-404-reinitialize".to_owned(),
            kind: if level == Level::Promise { BasisKind::Promise } else { BasisKind::Requirement },
            level,
            text: "A client whose session id is answered with 404 starts a new session with a fresh initialize, \
                   without the old id."
                .to_owned(),
            source: Some("2025-11-25/basic/transports#session-management".to_owned()),
        },
        reason: None,
        prerequisite: None,
        expected: None,
        actual: Vec::new(),
    }
}

pub(crate) fn monitor(name: &str, level: Level, verdict: Verdict, reason: &str) -> JudgeReport {
    let mut judge = judge(JudgeKind::Monitor, name, level, verdict);
    judge.basis.id = format!("requirement-of-{}", name.replace('.', "-"));
    judge.basis.text = format!("Whatever {name} is about is kept.");
    judge.reason = (!reason.is_empty()).then(|| reason.to_owned());
    judge
}

pub(crate) fn event(n: u64, at_ms: u64, text: &str) -> Evidence {
    Evidence { n, at_ms, text: text.to_owned() }
}

/// The four verdicts of a case in which all is well.
pub(crate) fn good(scenario: &str) -> Vec<JudgeReport> {
    vec![
        judge(JudgeKind::Check, &format!("{scenario}/reopened"), Level::Must, Verdict::Pass),
        monitor("envelope.id-unique", Level::Must, Verdict::Pass, ""),
        monitor("http.accept-both", Level::Should, Verdict::Pass, ""),
        monitor("naming.suffix", Level::Promise, Verdict::Pass, ""),
    ]
}

/// The failure that the documentation shows.
pub(crate) fn lost_session(scenario: &str) -> JudgeReport {
    JudgeReport {
        reason: Some("the call was sent again with the old session id".to_owned()),
        prerequisite: Some(event(14, 812, "POST tools/call (Mcp-Session-Id: s-1) answered 404")),
        expected: Some("a POST initialize without Mcp-Session-Id".to_owned()),
        actual: vec![
            event(15, 815, "POST tools/call again (Mcp-Session-Id: s-1)"),
            event(16, 1_819, "driver: call failed: \"Session terminated\""),
        ],
        ..judge(JudgeKind::Check, &format!("{scenario}/reopened"), Level::Must, Verdict::Fail)
    }
}

/// A report that has everything.
pub(crate) fn full() -> RunReport {
    let mut cases = Vec::new();
    for scenario in ["http.session.kept", "http.session.lost-is-reopened", "tools.call"] {
        for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
            for transport in ["http", "stdio"] {
                let mut verdicts = good(scenario);
                if scenario.contains("lost") && transport == "http" {
                    verdicts[0] = lost_session(scenario);
                }
                cases.push(case(scenario, revision, transport, verdicts));
            }
        }
    }
    cases[0].verdicts[2] =
        monitor("http.accept-both", Level::Should, Verdict::Warn, "Accept lacks text/event-stream");
    cases[1].verdicts[3] =
        monitor("naming.suffix", Level::Promise, Verdict::Inconclusive, "machine too busy");
    cases[3].verdicts[1] =
        monitor("envelope.id-unique", Level::Must, Verdict::HarnessError, "mock sent no id");
    cases[15].verdicts[0] =
        monitor("case.ends-in-time", Level::Must, Verdict::Timeout, "step `call` still runs after 10,000 ms");
    cases[16].verdicts[0] = monitor("case.client-lives", Level::Must, Verdict::Crash, "SIGSEGV");
    cases[17].verdicts[3] =
        monitor("naming.suffix", Level::May, Verdict::NotApplicable, "the profile declares no naming");
    cases.push(skipped("a.b", "2025-11-25", "stdio", Verdict::Unsupported, "the driver has no `subscribe`"));
    cases.push(skipped("a.b", "2024-11-05", "stdio", Verdict::NotApplicable, "from 2025-03-26 on"));
    cases.sort_by(|a, b| a.id.cmp(&b.id));
    report(cases)
}
