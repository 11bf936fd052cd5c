//! Request ids, and answers by id.

use super::features::error_code;
use super::{Findings, Monitor, Scope, is_retry, misled, monitor, was_taken};
use crate::judge::view::Message;
use sparring_wire::Id;
use sparring_wire::jsonrpc::codes;
use sparring_wire::transcript::Direction;
use std::collections::{HashMap, HashSet};

pub(super) const MONITORS: &[Monitor] = &[
    monitor(
        "ids.unique-in-session",
        &["jsonrpc-request-id-unique-session"],
        "the client sends a request",
        "no request id is used twice in a session",
        &["reuses-request-ids"],
        unique_in_session,
    ),
    monitor(
        "ids.answers-name-a-request",
        &["jsonrpc-response-same-id"],
        "the client answers a request of the server",
        "the answer has the id of a request that the server sent",
        &["answers-with-own-id"],
        |scope| answers(scope, false),
    ),
    monitor(
        "ids.type-kept",
        &["jsonrpc-response-id-type-kept"],
        "the client answers a request of the server",
        "the id comes back with its type and value",
        &["turns-ids-into-strings"],
        |scope| answers(scope, true),
    ),
    monitor(
        "ids.answered-once",
        &["jsonrpc-response-same-id"],
        "the client answers a request of the server",
        "each request is answered once",
        &["answers-twice"],
        answered_once,
    ),
    monitor(
        "ids.no-answer-to-notifications",
        &["jsonrpc-no-reply-to-notification"],
        "the server sends a notification",
        "the client sends no response to it",
        &["answers-notifications"],
        no_answer_to_notifications,
    ),
];

fn unique_in_session(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let mut used: HashMap<&Id, &Message> = HashMap::new();
        for message in scope.messages(conversation).filter(|m| m.from_client() && m.is_request()) {
            findings.saw(message.event);
            let Some(id) = message.id() else { continue };
            if let Some(before) = used.insert(id, message)
                && !is_retry(scope.view, before, message)
            {
                let method = before.method().unwrap_or_default();
                findings.against(
                    &[before.event, message.event],
                    format!("id {id} was already used for {method} in this session"),
                );
            }
        }
    }
    findings
}

fn other_type(id: &Id) -> Option<Id> {
    match id {
        Id::Number(number) => Some(Id::String(number.to_string())),
        Id::String(text) => text.parse().ok().map(Id::Number),
    }
}

/// Answers whose id no request of the server's had: because the type changed, or altogether.
fn answers(scope: &Scope<'_, '_>, only_type: bool) -> Findings {
    let mut findings = Findings::default();
    // By server rather than conversation: an answer may come after a new handshake.
    let mut asked: HashMap<(&Option<String>, &Id), usize> = HashMap::new();
    let mut askers: HashSet<&Option<String>> = HashSet::new();
    for message in scope.view.messages() {
        let Some(conversation) = scope.view.conversation(message).filter(|c| scope.covers(c)) else {
            continue;
        };
        let Some(id) = message.id() else { continue };
        if message.direction == Direction::Sent && message.is_request() {
            asked.insert((&conversation.server, id), message.event);
            askers.insert(&conversation.server);
        } else if message.from_client() && message.is_response() {
            if message.pair.is_some() || askers.contains(&conversation.server) {
                findings.saw(message.event);
            }
            if message.pair.is_some() || misled(conversation, message.event) {
                continue;
            }
            let meant = other_type(id).and_then(|id| asked.get(&(&conversation.server, &id)).copied());
            match (meant, only_type) {
                (Some(request), true) => {
                    findings
                        .against(&[request, message.event], format!("id {id} comes back as another type"));
                }
                (None, false) => {
                    findings.against(&[message.event], format!("the server sent no request with id {id}"));
                }
                _ => {}
            }
        }
    }
    findings
}

fn answered_once(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        // A server that uses an id twice is answered twice.
        let mut asked: HashMap<&Id, usize> = HashMap::new();
        for message in scope.messages(conversation).filter(|m| !m.from_client() && m.is_request()) {
            if let Some(id) = message.id() {
                *asked.entry(id).or_default() += 1;
            }
        }
        let mut answered: HashMap<&Id, &Message> = HashMap::new();
        for message in scope.messages(conversation).filter(|m| m.from_client() && m.is_response()) {
            let Some(id) = message.id().filter(|_| message.pair.is_some()) else { continue };
            findings.saw(message.event);
            if let Some(before) = answered.insert(id, message)
                && was_taken(scope.view, before)
                && asked.get(id).is_none_or(|&times| times == 1)
            {
                findings.against(&[before.event, message.event], format!("request {id} is answered again"));
            }
        }
    }
    findings
}

fn no_answer_to_notifications(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let mut notified = None;
        for message in scope.messages(conversation) {
            if !message.from_client() && message.is_notification() {
                findings.saw(message.event);
                notified = Some(message.event);
            }
            // To something unreadable a client may answer with an error that has no id; that it could not read what it
            // should have is for others to say.
            let unreadable = matches!(error_code(message), Some(codes::PARSE_ERROR | codes::INVALID_REQUEST));
            if let Some(notification) = notified
                && message.from_client()
                && message.is_response()
                && message.id().is_none()
                && !unreadable
                && !(message.is_error() && misled(conversation, message.event))
            {
                findings
                    .against(&[notification, message.event], "a response without an id: no request was sent");
            }
        }
    }
    findings
}
