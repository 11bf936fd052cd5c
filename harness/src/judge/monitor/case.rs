//! The harness's word on the case as a whole.

use super::{Findings, Monitor, Scope};
use crate::judge::check::Drive;
use crate::judge::evidence::line;
use sparring_reports::model::{JudgeKind, Verdict};
use sparring_wire::jsonrpc::Fault;
use sparring_wire::transcript::What;

/// Events shown before the end of a case that ended badly.
const LAST: usize = 10;

pub(super) const MONITORS: &[Monitor] = &[
    case(
        "driver.steps-as-scripted",
        &["driver.completes"],
        "each step ends as the scenario expects",
        &["fails-every-call"],
        Verdict::Fail,
        steps_as_scripted,
    ),
    case(
        "case.ended-in-time",
        &["driver.completes"],
        "the case ends before its deadline",
        &["hangs-on-call", "hangs-on-close"],
        Verdict::Timeout,
        |scope| {
            ends_badly(scope, |what| match what {
                What::Deadline { awaited } => Some(format!("the deadline passed, awaiting {awaited}")),
                _ => None,
            })
        },
    ),
    case(
        "case.client-alive",
        &["driver.completes"],
        "the client lives until the harness ends it",
        &["exits-on-call", "aborts-on-call", "is-killed-on-call"],
        Verdict::Crash,
        |scope| {
            ends_badly(scope, |what| match what {
                What::ClientEnded { code, signal, expected: false } => {
                    let how = match (signal, code) {
                        (Some(signal), _) => format!(" by {signal}"),
                        (None, Some(code)) => format!(" with code {code}"),
                        (None, None) => String::new(),
                    };
                    Some(format!("the client ended{how}"))
                }
                _ => None,
            })
        },
    ),
    case(
        "case.no-escaped-process",
        &["driver.no-escape"],
        "no process outlives the client",
        &["leaves-server-running", "leaves-daemon-behind"],
        Verdict::Fail,
        |scope| {
            every(scope, |what| match what {
                What::Escaped { pid, command } => {
                    Some(format!("process {pid} outlived the client: {command}"))
                }
                _ => None,
            })
        },
    ),
    case(
        "case.no-harness-error",
        &["harness.no-error"],
        "the harness works",
        &[],
        Verdict::HarnessError,
        |scope| {
            every(scope, |what| match what {
                What::HarnessError { message } => Some(message.clone()),
                _ => None,
            })
        },
    ),
    case(
        "harness.own-messages-valid",
        &["harness.valid-messages"],
        "every message of the scripted servers is valid, unless the script wants it otherwise",
        &[],
        Verdict::HarnessError,
        own_messages_valid,
    ),
];

const fn case(
    id: &'static str,
    promise: &'static [&'static str],
    expected: &'static str,
    killed_by: &'static [&'static str],
    verdict: Verdict,
    run: fn(&Scope<'_, '_>) -> Findings,
) -> Monitor {
    Monitor {
        id,
        requirements: promise,
        kind: JudgeKind::Case,
        prerequisite: "",
        expected,
        killed_by,
        verdict: Some(verdict),
        run,
    }
}

fn steps_as_scripted(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    let Some(facts) = scope.case.facts else {
        findings.excuse = Some("the scenario is not known".to_owned());
        return findings;
    };
    let Some((why, event)) = Drive::of(facts.scenario, scope.view).broken else { return findings };
    let ended = scope.view.events().any(|(_, event)| {
        matches!(event.what, What::Deadline { .. } | What::ClientEnded { expected: false, .. })
    });
    if ended {
        // One cause, one verdict: other judges say so.
        findings.excuse = Some(why);
    } else {
        let shown = event.or_else(|| scope.view.len().checked_sub(1));
        let why = event.map_or_else(|| why.clone(), |event| format!("{why} ({})", line(scope.view, event)));
        findings.against(&shown.into_iter().collect::<Vec<_>>(), why);
    }
    findings
}

/// An end that was not meant to be, with what came before it.
fn ends_badly(scope: &Scope<'_, '_>, wrong: impl Fn(&What) -> Option<String>) -> Findings {
    let mut findings = Findings::default();
    for (index, event) in scope.view.events() {
        if let Some(why) = wrong(&event.what) {
            let events: Vec<usize> = (index.saturating_sub(LAST)..=index).collect();
            findings.against(&events, why);
            findings.seen = Some(index);
            break;
        }
    }
    findings
}

fn every(scope: &Scope<'_, '_>, wrong: impl Fn(&What) -> Option<String>) -> Findings {
    let mut findings = Findings::default();
    for (index, event) in scope.view.events() {
        if let Some(why) = wrong(&event.what) {
            findings.against(&[index], why);
        }
    }
    findings
}

fn own_messages_valid(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    if scope.recorded {
        return findings;
    }
    for message in scope.view.messages().iter().filter(|m| !m.from_client() && !m.scripted_fault) {
        let fault = message.inspected.faults.iter().find(|fault| {
            // An error that answers something unreadable has no id to name.
            !(message.is_error() && matches!(fault, Fault::MissingId | Fault::NullId))
        });
        if let Some(fault) = fault {
            findings.against(&[message.event], format!("a message of ours is wrong: {fault}"));
        }
    }
    findings
}
