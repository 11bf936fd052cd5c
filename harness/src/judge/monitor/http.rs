//! HTTP requests to the MCP endpoint: methods, bodies, headers, sessions.

use super::{Findings, Monitor, Scope, monitor};
use crate::judge::view::{self, Conversation, Message};
use serde_json::Value;
use sparring_wire::jsonrpc::Fault;
use sparring_wire::transcript::{HttpRequest, Outcome, What};
use std::collections::{HashMap, HashSet};

pub(super) const MONITORS: &[Monitor] = &[
    monitor(
        "http.messages-are-posted",
        &["http-post-every-message"],
        "the client sends a request to the endpoint",
        "messages are sent by POST",
        &["puts-messages"],
        messages_are_posted,
    ),
    monitor(
        "http.accept-both",
        &["http-accept-both-types"],
        "the client sends a POST",
        "`Accept` lists application/json and text/event-stream",
        &["sends-no-accept-header"],
        |scope| {
            accept(scope, "POST", |types| {
                ["application/json", "text/event-stream"].into_iter().find(|t| !types.contains(*t))
            })
        },
    ),
    monitor(
        "http.get-accepts-stream",
        &["http-get-accept-event-stream"],
        "the client sends a GET",
        "`Accept` lists text/event-stream",
        &["sends-no-accept-header"],
        |scope| accept(scope, "GET", |types| Some("text/event-stream").filter(|t| !types.contains(*t))),
    ),
    monitor(
        "http.single-message",
        &["http-body-single-message", "http-body-single-request-or-notification"],
        "the client sends a POST",
        "the body is one JSON-RPC message",
        &["batches-everything"],
        single_message,
    ),
    monitor(
        "http.session-id-echoed",
        &["http-session-id-echoed"],
        "the server gives a session id, and the client goes on",
        "every later request of the session has that id",
        &["forgets-session-id", "changes-session-id"],
        session_id_echoed,
    ),
    monitor(
        "http.session-id-not-invented",
        &["http-session-id-not-invented"],
        "the server answers `initialize` without a session id, or has not answered yet",
        "no request has a session id",
        &["invents-session-id"],
        session_id_not_invented,
    ),
    monitor(
        "http.new-session-without-id",
        &["http-session-reinit-without-id"],
        "the client sends `initialize` after its session was answered 404",
        "the request has no session id",
        &["reopens-with-old-id"],
        new_session_without_id,
    ),
    monitor(
        "http.session-deleted",
        &["http-session-delete-on-close"],
        "the client closes a connection that has a session",
        "it sends DELETE with the session id",
        &["leaves-session-open"],
        session_deleted,
    ),
    monitor(
        "http.version-header",
        &["http-protocol-version-header-subsequent"],
        "the client sends a request after the answer to `initialize`",
        "it has an MCP-Protocol-Version header",
        &["omits-version-header"],
        |scope| {
            version_header(scope, |found, _| {
                found.is_none().then(|| "MCP-Protocol-Version is missing".to_owned())
            })
        },
    ),
    monitor(
        "http.version-header-negotiated",
        &["http-protocol-version-header-negotiated"],
        "the client sends a request after the answer to `initialize`",
        "MCP-Protocol-Version is the negotiated version",
        &["sends-other-version-header"],
        |scope| {
            version_header(scope, |found, negotiated| {
                found
                    .filter(|found| *found != negotiated)
                    .map(|found| format!("MCP-Protocol-Version is {found}; {negotiated} was negotiated"))
            })
        },
    ),
];

fn session_of(request: &HttpRequest) -> Option<&str> {
    view::header(&request.headers, "mcp-session-id")
}

/// Whether the request at an event is an `initialize`.
fn initializes(scope: &Scope<'_, '_>, event: usize) -> bool {
    scope.view.messages_of(event).iter().any(|m| m.is_client_request("initialize"))
}

fn messages_are_posted(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for (event, request) in scope.all_requests() {
        findings.saw(event);
        let carries_message = |text: &str| {
            serde_json::from_str::<Value>(text)
                .is_ok_and(|v| ["jsonrpc", "method"].iter().any(|name| v.get(name).is_some()))
        };
        if request.method != "POST" && carries_message(&request.body) {
            findings.against(&[event], format!("a message was sent by {}", request.method));
        }
    }
    findings
}

fn accept(
    scope: &Scope<'_, '_>,
    method: &str,
    missing: impl Fn(&HashSet<String>) -> Option<&'static str>,
) -> Findings {
    let mut findings = Findings::default();
    for (event, request) in scope.all_requests().filter(|(_, r)| r.method == method) {
        findings.saw(event);
        let types: HashSet<String> = request
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("accept"))
            .flat_map(|(_, value)| value.split(','))
            .map(|part| view::media_type(part).to_ascii_lowercase())
            .collect();
        if let Some(missing) = missing(&types) {
            findings.against(&[event], format!("`Accept` does not list {missing}"));
        }
    }
    findings
}

fn single_message(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for (event, _) in scope.all_requests().filter(|(_, r)| r.method == "POST") {
        findings.saw(event);
        let messages = scope.view.messages_of(event);
        let fault = messages.iter().flat_map(|m| &m.inspected.faults).find(|fault| {
            matches!(
                fault,
                Fault::InvalidJson(_)
                    | Fault::NotAnObject
                    | Fault::NoKind
                    | Fault::MethodType
                    | Fault::EmptyBatch
                    | Fault::ByteOrderMark
            )
        });
        if messages.iter().any(|m| m.in_batch) {
            findings.against(&[event], "the body is an array");
        } else if let Some(fault) = fault {
            findings.against(&[event], format!("the body is no message: {fault}"));
        }
    }
    findings
}

/// Whether the session of a conversation is over by an exchange: the server knows it no more, or the client ended it.
fn ends_session(scope: &Scope<'_, '_>, request: &HttpRequest) -> Option<usize> {
    let response = scope.view.http_response(request.exchange)?;
    let over =
        response.status == 404 || (request.method == "DELETE" && (200..300).contains(&response.status));
    scope.view.exchange(request.exchange)?.response.filter(|_| over)
}

fn session_id_echoed(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let (Some(session), Some(given)) = (&conversation.session, conversation.session_given) else {
            continue;
        };
        let mut over = usize::MAX;
        for (event, request) in scope.requests(conversation) {
            // What comes after the end of the session belongs to none.
            if event < given || event > over || initializes(scope, event) {
                continue;
            }
            findings.saw(event);
            match session_of(request) {
                Some(found) if found == session => {}
                Some(found) => {
                    findings.against(&[given, event], format!("the session id is {found}, not {session}"));
                }
                None => findings.against(&[given, event], "the session id is missing"),
            }
            if let Some(end) = ends_session(scope, request) {
                over = over.min(end);
            }
        }
    }
    findings
}

fn session_id_not_invented(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    let given = |server: &Option<String>, event: usize| {
        scope
            .view
            .conversations()
            .iter()
            .any(|c| c.server == *server && c.session_given.is_some_and(|given| given < event))
    };
    // Whether a server has given an id so far only ever changes from no to yes.
    let mut has_given: HashMap<&Option<String>, bool> = HashMap::new();
    let mut requests: Vec<(usize, &HttpRequest, &Conversation)> = scope
        .conversations()
        .flat_map(|c| scope.requests(c).map(move |(event, request)| (event, request, c)))
        .collect();
    requests.sort_unstable_by_key(|(event, ..)| *event);
    for (event, request, conversation) in requests {
        let so_far = has_given.entry(&conversation.server).or_default();
        let sent = session_of(request);
        if !*so_far && sent.is_some() {
            *so_far = given(&conversation.server, event);
        }
        if conversation.session.is_none() {
            findings.saw(event);
        }
        if let Some(session) = sent.filter(|_| !*so_far) {
            findings.against(&[event], format!("the server gave no session id, yet {session} is sent"));
        }
    }
    findings
}

fn new_session_without_id(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    let mut lost: HashMap<&Option<String>, usize> = HashMap::new();
    for (event, seen) in scope.view.events() {
        match &seen.what {
            What::HttpResponse(response) if response.status == 404 => {
                let named = scope
                    .view
                    .http_request(response.exchange)
                    .is_some_and(|r| view::is_endpoint(r) && session_of(r).is_some());
                if named {
                    lost.insert(&seen.server, event);
                }
            }
            What::HttpRequest(request) if view::is_endpoint(request) && initializes(scope, event) => {
                if let Some(refusal) = lost.remove(&seen.server) {
                    findings.saw(event);
                    if session_of(request).is_some() {
                        findings.against(&[refusal, event], "the new `initialize` has a session id");
                    }
                }
            }
            _ => {}
        }
    }
    findings
}

fn session_deleted(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    // The last step that closed a server, or all of them.
    let mut asked: HashMap<&str, &Value> = HashMap::new();
    let mut closed: Vec<(usize, Option<&str>)> = Vec::new();
    for (event, seen) in scope.view.events() {
        match &seen.what {
            What::StepStarted { step, op, arguments } if op == "close" => {
                asked.insert(step, arguments);
            }
            What::StepEnded { step, op, outcome: Outcome::Ok { .. }, .. } if op == "close" => {
                let arguments = asked.get(step.as_str());
                closed.push((event, arguments.and_then(|a| a.get("server")).and_then(Value::as_str)));
            }
            _ => {}
        }
    }
    let mut last: HashMap<&Option<String>, &Conversation> = HashMap::new();
    for conversation in scope.conversations() {
        last.insert(&conversation.server, conversation);
    }
    let mut last: Vec<&Conversation> = last.into_values().collect();
    last.sort_unstable_by_key(|c| c.session_given);
    for conversation in last {
        let (Some(session), Some(given)) = (&conversation.session, conversation.session_given) else {
            continue;
        };
        let closing = closed.iter().find(|(event, server)| {
            *event > given && server.is_none_or(|server| conversation.server.as_deref() == Some(server))
        });
        let Some((closing, _)) = closing else { continue };
        let mut requests = scope.requests(conversation);
        let ended = requests.any(|(_, request)| {
            (request.method == "DELETE" && session_of(request) == Some(session.as_str()))
                || ends_session(scope, request).is_some()
        });
        findings.saw(*closing);
        if !ended {
            findings.against(&[given, *closing], format!("session {session} was not deleted"));
        }
    }
    findings
}

fn version_header(scope: &Scope<'_, '_>, wrong: impl Fn(Option<&str>, &str) -> Option<String>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let answer = conversation.answer.and_then(|index| scope.view.messages().get(index));
        let Some(answer) = answer.filter(|answer| Message::result(answer).is_some()) else { continue };
        // Without a released version nothing was negotiated that the header could name.
        let Some(negotiated) = conversation.revision() else { continue };
        for (event, request) in scope.requests(conversation) {
            if event < answer.event || initializes(scope, event) || answers_before(scope, event, answer.event)
            {
                continue;
            }
            findings.saw(event);
            let found = view::header(&request.headers, "mcp-protocol-version");
            if let Some(why) = wrong(found, negotiated.as_str()) {
                findings.against(&[answer.event, event], why);
            }
        }
    }
    findings
}

/// Whether a request answers what the server asked before an event: then it may have been on its way by then.
fn answers_before(scope: &Scope<'_, '_>, request: usize, event: usize) -> bool {
    scope
        .view
        .messages_of(request)
        .iter()
        .any(|m| m.is_response() && scope.view.pair(m).is_some_and(|asked| asked.event < event))
}
