//! HTTP+SSE of 2024-11-05: one stream by GET, whose first event says where messages are posted.

use super::{Findings, Monitor, Scope, monitor};
use crate::judge::view::{self, Conversation};
use sparring_wire::transcript::{Outcome, Party, What};

/// The driver event by which the harness says that the client was done and had not closed its stream.
const STREAM_LEFT_EVENT: &str = "stream-left-open";

pub(super) const MONITORS: &[Monitor] = &[
    monitor(
        "sse.stream-opened",
        &["legacy-sse-open-stream"],
        "the client sends a request to the server",
        "the first opens the stream by GET",
        &["posts-before-stream"],
        |scope| {
            let mut findings = Findings::default();
            for (event, request) in first_requests(scope) {
                findings.saw(event);
                if request.method != "GET" {
                    findings.against(&[event], format!("the first request is a {}", request.method));
                }
            }
            findings
        },
    ),
    monitor(
        "sse.waits-for-endpoint",
        &["legacy-sse-wait-for-endpoint"],
        "the client posts a message",
        "the stream has said before where to",
        &["posts-before-endpoint"],
        |scope| {
            let mut findings = Findings::default();
            for (event, message) in posts(scope) {
                findings.saw(event);
                if !endpoints(scope).any(|(server, given, _)| server == message && given < event) {
                    findings.against(&[event], "no stream has said yet where messages are posted");
                }
            }
            findings
        },
    ),
    monitor(
        "sse.posts-to-endpoint",
        &["legacy-sse-post-to-endpoint"],
        "the client posts a message after a stream has said where to",
        "it goes there, with path and query as they were given",
        &["posts-without-query"],
        |scope| {
            let mut findings = Findings::default();
            for (event, server) in posts(scope) {
                let Some(What::HttpRequest(request)) = scope.view.what(event) else { continue };
                let mut given =
                    endpoints(scope).filter(|(at, given, _)| *at == server && *given < event).peekable();
                let Some(&(_, first, _)) = given.peek() else { continue };
                findings.saw(event);
                if !given.any(|(_, _, target)| target == request.target) {
                    findings.against(&[first, event], format!("it is posted to {}", request.target));
                }
            }
            findings
        },
    ),
    monitor(
        "sse.stream-closed",
        &["legacy-sse-close-on-shutdown"],
        "the client closes a connection whose stream is open",
        "it closes the stream",
        &["leaves-stream-open"],
        stream_closed,
    ),
];

type Server<'s> = &'s Option<String>;

/// The first request to each server.
fn first_requests<'s>(scope: &Scope<'s, '_>) -> Vec<(usize, &'s sparring_wire::transcript::HttpRequest)> {
    let mut seen: Vec<Server<'s>> = Vec::new();
    let view = scope.view;
    view.http_requests()
        .filter(|(_, event, request)| {
            let first = view::is_endpoint(request) && !seen.contains(&&event.server);
            if first {
                seen.push(&event.server);
            }
            first
        })
        .map(|(index, _, request)| (index, request))
        .collect()
}

/// What is posted to MCP servers, wherever on them.
fn posts<'s>(scope: &Scope<'s, '_>) -> Vec<(usize, Server<'s>)> {
    scope
        .view
        .http_requests()
        .filter(|(_, _, request)| view::is_endpoint(request) && request.method == "POST")
        .map(|(index, event, _)| (index, &event.server))
        .collect()
}

/// What streams have said: of which server, in which event, and where messages are posted.
fn endpoints<'s>(scope: &Scope<'s, '_>) -> impl Iterator<Item = (Server<'s>, usize, &'s str)> {
    scope
        .view
        .conversations()
        .iter()
        .filter_map(|c: &Conversation| c.legacy.as_ref().map(|l| (&c.server, l.given, l.target.as_str())))
}

fn stream_closed(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    let closed = scope.view.events().find(|(_, event)| {
        matches!(&event.what, What::StepEnded { op, outcome: Outcome::Ok { .. }, .. } if op == "close")
    });
    let Some((closing, _)) = closed else { return findings };
    // What is closed after that was closed by the end of the client.
    let left = scope.view.events().find_map(|(index, event)| match &event.what {
        What::DriverEvent { name, .. } if name == STREAM_LEFT_EVENT => Some(index),
        _ => None,
    });
    for conversation in scope.conversations() {
        let Some(legacy) = &conversation.legacy else { continue };
        let ended = scope.view.exchange(legacy.exchange).and_then(|exchange| exchange.ended);
        match ended.filter(|end| left.is_none_or(|left| *end < left)).map(|end| (end, scope.view.what(end))) {
            // Nothing was left to close.
            Some((end, Some(What::StreamEnded { by: Party::Server, .. }))) if end < closing => {}
            Some((end, Some(What::StreamEnded { by: Party::Client, .. }))) => findings.saw(end),
            _ => {
                findings
                    .against(&[legacy.given, closing], "the stream is still open when the client is done");
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_event_is_the_one_that_the_harness_records() {
        assert_eq!(super::STREAM_LEFT_EVENT, crate::run::case::STREAM_LEFT_EVENT);
    }
}
