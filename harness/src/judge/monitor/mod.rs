//! The judges that are always on.
//!
//! A monitor names an *occasion*, without which it has nothing to say, and what a good client does about it. It holds
//! against the client only what the transcript shows: an answer that was never given counts only where the client
//! demonstrably went on, and a repeated request does not count where the first was refused or lost.

mod auth;
mod case;
mod envelope;
mod features;
mod framing;
mod handshake;
mod headers;
mod http;
mod ids;
mod legacy;
mod rounds;
mod stateless;
#[cfg(test)]
mod tests;

use super::evidence::evidence;
use super::view::{Conversation, Message, View};
use super::{Facts, against, basis_of, promise_basis};
use sparring_reports::model::{JudgeKind, JudgeReport, Verdict};
use sparring_scenarios::catalogue::{self, Requirement};
use sparring_wire::transcript::{HttpRequest, What};
use sparring_wire::{Revision, Transport};
use std::sync::LazyLock;

/// The most events that a monitor shows.
const SHOWN: usize = 6;

/// A monitor.
#[derive(Debug, Clone, Copy)]
pub struct Monitor {
    /// Its id: the group, and what a good client does, in words with dashes. Never reused.
    pub id: &'static str,
    /// What it rests on: requirements of the catalogue of which at most one holds in a revision and on a transport; that
    /// one decides where the monitor applies and how binding it is. For the harness's own, a promise.
    pub requirements: &'static [&'static str],
    /// [`JudgeKind::Monitor`], or [`JudgeKind::Case`] for the harness's word on the case as a whole.
    pub kind: JudgeKind,
    /// The occasion, in words. Without it the verdict is `not-applicable`; empty if every case is one.
    pub prerequisite: &'static str,
    /// What a good client does, in words.
    pub expected: &'static str,
    /// The mutants that fail it.
    pub killed_by: &'static [&'static str],
    /// The verdict on findings, where it does not follow from the requirement's level.
    verdict: Option<Verdict>,
    run: fn(&Scope<'_, '_>) -> Findings,
}

impl Monitor {
    /// Whether what it finds is our fault, so that no mutant can fail it.
    pub fn judges_the_harness(&self) -> bool {
        self.verdict == Some(Verdict::HarnessError)
    }

    /// The requirement that holds in a revision and on a transport.
    pub fn requirement(&self, revision: Revision, transport: Transport) -> Option<&'static Requirement> {
        self.requirements
            .iter()
            .filter_map(|id| catalogue::requirement(id))
            .find(|requirement| requirement.holds(revision, transport))
    }
}

/// All monitors.
pub fn monitors() -> &'static [Monitor] {
    static ALL: LazyLock<Vec<Monitor>> = LazyLock::new(|| {
        [
            framing::MONITORS,
            envelope::MONITORS,
            ids::MONITORS,
            handshake::MONITORS,
            features::MONITORS,
            http::MONITORS,
            stateless::MONITORS,
            headers::MONITORS,
            rounds::MONITORS,
            legacy::MONITORS,
            auth::MONITORS,
            case::MONITORS,
        ]
        .concat()
    });
    &ALL
}

/// The case at hand.
pub(super) struct Case<'a> {
    pub(super) revision: Revision,
    pub(super) transport: Transport,
    pub(super) facts: Option<&'a Facts<'a>>,
}

/// What a monitor looks at.
struct Scope<'s, 'a> {
    view: &'s View<'a>,
    case: &'s Case<'s>,
    requirement: Option<&'static Requirement>,
    /// The servers are real ones, and recording may have begun in the middle.
    recorded: bool,
}

impl<'s, 'a> Scope<'s, 'a> {
    /// The conversations in which the requirement holds, by the revision that was negotiated there.
    fn conversations(&self) -> impl Iterator<Item = &'s Conversation> + use<'s, 'a, '_> {
        self.view.conversations().iter().filter(|conversation| self.covers(conversation))
    }

    fn covers(&self, conversation: &Conversation) -> bool {
        // Who begins to listen to an HTTP server that is in use may have missed the handshake.
        if self.recorded
            && conversation.revision().unwrap_or(self.case.revision).has_handshake()
            && conversation.transport == Some(Transport::Http)
            && conversation.initialize.is_none()
        {
            return false;
        }
        let revision = conversation.revision().unwrap_or(self.case.revision);
        self.requirement.is_none_or(|requirement| requirement.revisions.contains(&revision))
    }

    /// The messages of a conversation.
    fn messages(&self, conversation: &'s Conversation) -> impl Iterator<Item = &'s Message> + use<'s, 'a> {
        let all = self.view.messages();
        conversation.messages.iter().filter_map(move |&index| all.get(index))
    }

    /// All messages of the client.
    fn client_messages(&self) -> impl Iterator<Item = &'s Message> + use<'s, 'a, '_> {
        self.conversations().flat_map(|c| self.messages(c)).filter(|m| m.from_client())
    }

    /// The requests to the MCP endpoint in a conversation, with their events.
    fn requests(
        &self,
        conversation: &'s Conversation,
    ) -> impl Iterator<Item = (usize, &'s HttpRequest)> + use<'s, 'a> {
        let view = self.view;
        conversation
            .exchanges
            .iter()
            .filter_map(move |&number| Some((view.exchange(number)?.request, view.http_request(number)?)))
    }

    /// All requests to the MCP endpoint.
    fn all_requests(&self) -> impl Iterator<Item = (usize, &'s HttpRequest)> + use<'s, 'a, '_> {
        self.conversations().flat_map(|c| self.requests(c))
    }
}

/// What a monitor found.
#[derive(Default)]
struct Findings {
    /// The first occasion.
    seen: Option<usize>,
    /// Why there was none, if that is known better than by the monitor's `prerequisite`.
    excuse: Option<String>,
    /// What speaks against the client.
    against: Vec<Finding>,
    /// How often that happened.
    count: usize,
}

struct Finding {
    events: Vec<usize>,
    why: String,
}

impl Findings {
    /// An event that gives the monitor something to judge.
    fn saw(&mut self, event: usize) {
        self.seen = Some(self.seen.map_or(event, |first| first.min(event)));
    }

    /// Something that the client did wrong, with the events that show it.
    fn against(&mut self, events: &[usize], why: impl Into<String>) {
        if let Some(&first) = events.first() {
            self.saw(first);
        }
        self.count += 1;
        if self.against.len() < SHOWN {
            self.against.push(Finding { events: events.to_vec(), why: why.into() });
        }
    }
}

/// Runs all monitors that apply to the case.
pub(super) fn run(case: &Case<'_>, view: &View<'_>) -> Vec<JudgeReport> {
    let recorded = view.events().any(|(_, event)| matches!(event.what, What::Recorded(_)));
    monitors().iter().filter_map(|monitor| report(monitor, case, view, recorded)).collect()
}

fn report(monitor: &Monitor, case: &Case<'_>, view: &View<'_>, recorded: bool) -> Option<JudgeReport> {
    let requirement = monitor.requirement(case.revision, case.transport);
    let (basis, note) = match (requirement, monitor.kind) {
        (Some(requirement), _) => basis_of(requirement),
        (None, JudgeKind::Case) => (
            promise_basis(monitor.requirements.first().copied().unwrap_or(monitor.id), monitor.expected),
            None,
        ),
        (None, _) => return None,
    };
    let mut findings = (monitor.run)(&Scope { view, case, requirement, recorded });
    if recorded && monitor.kind == JudgeKind::Case && findings.against.is_empty() {
        findings.excuse =
            Some("a recorded session: nobody drove the client, and the servers are real".to_owned());
    }
    let verdict = if !findings.against.is_empty() {
        monitor.verdict.unwrap_or_else(|| against(basis.level))
    } else if findings.excuse.is_some() || (findings.seen.is_none() && !monitor.prerequisite.is_empty()) {
        Verdict::NotApplicable
    } else {
        Verdict::Pass
    };
    let reason = match findings.against.first() {
        Some(first) => {
            let more = match findings.count {
                1 => String::new(),
                count => format!(" (and {} more)", count - 1),
            };
            let note = note.map_or_else(String::new, |note| format!(" ({note})"));
            Some(format!("{}{more}{note}", first.why))
        }
        None if verdict == Verdict::NotApplicable => {
            Some(findings.excuse.unwrap_or_else(|| format!("no occasion: {}", monitor.prerequisite)))
        }
        None => None,
    };
    let mut events: Vec<usize> = findings.against.iter().flat_map(|f| f.events.iter().copied()).collect();
    events.dedup();
    let shown = if monitor.kind == JudgeKind::Case { events.len() } else { SHOWN };
    Some(JudgeReport {
        judge: monitor.id.to_owned(),
        kind: monitor.kind,
        verdict,
        basis,
        reason,
        prerequisite: findings.seen.and_then(|index| evidence(view, index)),
        expected: (verdict != Verdict::NotApplicable).then(|| monitor.expected.to_owned()),
        actual: events.iter().take(shown).filter_map(|&index| evidence(view, index)).collect(),
    })
}

/// Whether a message reached the server as a message: over HTTP it was not refused, redirected or lost. A client may
/// send it again if not.
fn was_taken(view: &View<'_>, message: &Message) -> bool {
    match message.exchange {
        None => true,
        Some(number) => view.http_response(number).is_some_and(|r| (200..300).contains(&r.status)),
    }
}

/// Whether two messages are one that was sent twice, because the first attempt was refused or lost.
fn is_retry(view: &View<'_>, first: &Message, second: &Message) -> bool {
    if was_taken(view, first) {
        return false;
    }
    let refused = first.exchange.is_some_and(|number| view.http_response(number).is_some());
    refused || first.inspected.value == second.inspected.value
}

/// Whether the server said something faulty in a conversation before an event, so that what the client made of it can't
/// be told.
fn misled(conversation: &Conversation, before: usize) -> bool {
    conversation.first_fault.is_some_and(|fault| fault < before)
}

/// Whether a request is one of a client that speaks 2026-07-28 and tries whether the server does.
fn is_probe(message: &Message) -> bool {
    matches!(message.method(), Some("server/discover" | "subscriptions/listen"))
        || message.param("_meta").and_then(|meta| meta.as_object()).is_some_and(|meta| {
            ["protocolVersion", "clientInfo", "clientCapabilities"]
                .iter()
                .any(|name| meta.contains_key(&format!("io.modelcontextprotocol/{name}")))
        })
}

/// A monitor that rests on requirements.
const fn monitor(
    id: &'static str,
    requirements: &'static [&'static str],
    prerequisite: &'static str,
    expected: &'static str,
    killed_by: &'static [&'static str],
    run: fn(&Scope<'_, '_>) -> Findings,
) -> Monitor {
    Monitor {
        id,
        requirements,
        kind: JudgeKind::Monitor,
        prerequisite,
        expected,
        killed_by,
        verdict: None,
        run,
    }
}
