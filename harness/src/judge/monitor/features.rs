//! Capabilities, and the shapes and ids that features use.

use super::rounds::sent_back;
use super::stateless::discovered;
use super::{Findings, Monitor, Scope, is_retry, misled, monitor};
use crate::judge::view::{Conversation, Message};
use serde_json::Value;
use sparring_wire::Id;
use sparring_wire::jsonrpc::codes;
use std::collections::{HashMap, HashSet};

pub(super) const MONITORS: &[Monitor] = &[
    // ---- what the server did not declare ----
    monitor(
        "capabilities.tools",
        &["tools-require-capability-must", "tools-require-capability-should"],
        "the server does not declare `tools`",
        "no tools/* request is sent",
        &["ignores-server-capabilities"],
        |scope| undeclared(scope, "/tools", |method| method.starts_with("tools/")),
    ),
    monitor(
        "capabilities.resources",
        &["resources-require-capability-must", "resources-require-capability-should"],
        "the server does not declare `resources`",
        "no resources/* request is sent",
        &["uses-undeclared-features"],
        |scope| undeclared(scope, "/resources", |method| method.starts_with("resources/")),
    ),
    monitor(
        "capabilities.resources-subscribe",
        &["resources-subscribe-requires-subcapability", "resources-subscribe-requires-subcapability-should"],
        "the server does not declare `resources.subscribe`",
        "no subscription is asked for",
        &["uses-undeclared-features"],
        |scope| undeclared(scope, "/resources/subscribe", |method| method == "resources/subscribe"),
    ),
    monitor(
        "capabilities.prompts",
        &["prompts-require-capability-must", "prompts-require-capability-should"],
        "the server does not declare `prompts`",
        "no prompts/* request is sent",
        &["uses-undeclared-features"],
        |scope| undeclared(scope, "/prompts", |method| method.starts_with("prompts/")),
    ),
    monitor(
        "capabilities.logging",
        &["logging-require-capability-must", "logging-require-capability-should"],
        "the server does not declare `logging`",
        "no logging/setLevel is sent",
        &["uses-undeclared-features"],
        |scope| undeclared(scope, "/logging", |method| method == "logging/setLevel"),
    ),
    monitor(
        "capabilities.completions",
        &["completion-require-capability-must", "completion-require-capability-should"],
        "the server does not declare `completions`",
        "no completion/complete is sent",
        &["uses-undeclared-features"],
        |scope| undeclared(scope, "/completions", |method| method == "completion/complete"),
    ),
    // ---- what the client did not declare ----
    monitor(
        "capabilities.sampling-undeclared",
        &["sampling-undeclared-rejected"],
        "the client answers sampling/createMessage without having declared `sampling`",
        "the answer is an error",
        &["answers-undeclared-sampling"],
        |scope| unserved(scope, "sampling", "sampling/createMessage", served),
    ),
    monitor(
        "capabilities.elicitation-undeclared",
        &["elicitation-undeclared-rejected"],
        "the client answers elicitation/create without having declared `elicitation`",
        "the answer is an error",
        &["answers-undeclared-elicitation"],
        |scope| unserved(scope, "elicitation", "elicitation/create", served),
    ),
    monitor(
        "capabilities.roots-undeclared",
        &["roots-unsupported-32601"],
        "the client answers roots/list without having declared `roots`",
        "the answer is error -32601",
        &["answers-undeclared-roots"],
        |scope| unserved(scope, "roots", "roots/list", refused),
    ),
    monitor(
        "capabilities.roots-list-changed",
        &["roots-list-changed-only-if-declared"],
        "the client does not declare `roots.listChanged`",
        "notifications/roots/list_changed is not sent",
        &["announces-undeclared-roots"],
        roots_list_changed,
    ),
    // ---- answers to the server ----
    monitor(
        "answers.ping",
        &["lifecycle-ping-respond"],
        "the server sends `ping`",
        "the client answers with an empty result",
        &["never-answers-ping", "answers-ping-with-error"],
        ping,
    ),
    monitor(
        "answers.unknown-method",
        &["jsonrpc-method-not-found"],
        "the server sends a request that no client knows",
        "the client answers with error -32601",
        &["accepts-unknown-methods"],
        unknown_method,
    ),
    monitor(
        "answers.sampling-result",
        &["sampling-result-shape"],
        "the client answers sampling/createMessage with a result",
        "it has `role`, `content` and `model`",
        &["sampling-answer-without-model"],
        |scope| results(scope, "sampling/createMessage", sampling_result),
    ),
    monitor(
        "answers.elicitation-action",
        &["elicitation-action-values"],
        "the client answers elicitation/create with a result",
        "`action` is \"accept\", \"decline\" or \"cancel\"",
        &["elicitation-answer-with-odd-action"],
        |scope| {
            results(scope, "elicitation/create", |result| {
                let action = result.get("action");
                let good = matches!(action.and_then(Value::as_str), Some("accept" | "decline" | "cancel"));
                (!good).then(|| format!("`action` is {}", action.unwrap_or(&Value::Null)))
            })
        },
    ),
    monitor(
        "answers.roots-result",
        &["roots-list-result-shape"],
        "the client answers roots/list with a result",
        "`roots` is an array of objects with a string `uri`",
        &["roots-as-plain-strings"],
        |scope| {
            results(scope, "roots/list", |result| {
                let Some(roots) = result.get("roots").and_then(Value::as_array) else {
                    return Some("`roots` is no array".to_owned());
                };
                let wrong = roots.iter().find(|root| {
                    !root.get("uri").is_some_and(Value::is_string)
                        || root.get("name").is_some_and(|name| !name.is_string())
                });
                wrong.map(|root| format!("a root is {root}"))
            })
        },
    ),
    monitor(
        "answers.roots-are-files",
        &["roots-uri-file-scheme"],
        "the client answers roots/list with a result",
        "each root is a file:// URI",
        &["roots-as-paths"],
        |scope| {
            results(scope, "roots/list", |result| {
                let roots = result.get("roots")?.as_array()?;
                let uris = roots.iter().filter_map(|root| root.get("uri")?.as_str());
                uris.into_iter()
                    .find(|uri| !uri.starts_with("file://"))
                    .map(|uri| format!("a root is {uri:?}"))
            })
        },
    ),
    // ---- params ----
    monitor(
        "params.tools-call",
        &["tools-call-params"],
        "the client sends tools/call",
        "`name` is a string, `arguments` an object if present",
        &["calls-with-array-arguments"],
        |scope| {
            params(scope, "tools/call", |params| {
                text_member(params, "name").or_else(|| {
                    (!optional(params, "arguments", Value::is_object))
                        .then(|| "`arguments` is no object".to_owned())
                })
            })
        },
    ),
    monitor(
        "params.resources-read",
        &["resources-read-uri-exact"],
        "the client sends resources/read",
        "`uri` is a string",
        &["reads-without-uri"],
        |scope| params(scope, "resources/read", |params| text_member(params, "uri")),
    ),
    monitor(
        "params.prompts-get",
        &["prompts-get-params"],
        "the client sends prompts/get",
        "`name` is a string, `arguments` a map from string to string if present",
        &["prompts-with-numbers"],
        |scope| {
            params(scope, "prompts/get", |params| {
                let of_strings =
                    |value: &Value| value.as_object().is_some_and(|o| o.values().all(Value::is_string));
                text_member(params, "name").or_else(|| {
                    (!optional(params, "arguments", of_strings))
                        .then(|| "`arguments` is no map from string to string".to_owned())
                })
            })
        },
    ),
    monitor(
        "params.logging-level",
        &["logging-level-value"],
        "the client sends logging/setLevel",
        "the level is one of the eight",
        &["logs-verbosely"],
        |scope| {
            params(scope, "logging/setLevel", |params| {
                const LEVELS: [&str; 8] =
                    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
                let level = params.get("level");
                let good = level.and_then(Value::as_str).is_some_and(|level| LEVELS.contains(&level));
                (!good).then(|| format!("`level` is {}", level.unwrap_or(&Value::Null)))
            })
        },
    ),
    // ---- progress and cancellation ----
    monitor(
        "progress.token-type",
        &["progress-token-type"],
        "the client asks for progress",
        "the token is a string or an integer",
        &["objects-as-progress-tokens"],
        token_type,
    ),
    monitor(
        "progress.token-unique",
        &["progress-token-unique"],
        "the client asks for progress",
        "no two active requests have the same token",
        &["reuses-progress-tokens"],
        token_unique,
    ),
    monitor(
        "cancellation.own-request",
        &["cancellation-own-inflight-only"],
        "the client cancels a request",
        "it names a request that the client has sent",
        &["cancels-wrong-id"],
        |scope| {
            cancellations(scope, |known| match known {
                Target::Unknown(id) => Some(format!("no request with id {id} was sent")),
                Target::Missing | Target::Request(_) => None,
            })
        },
    ),
    monitor(
        "cancellation.not-initialize",
        &["cancellation-not-initialize"],
        "the client cancels a request",
        "it is not `initialize`",
        &["cancels-initialize"],
        |scope| {
            cancellations(scope, |known| match known {
                Target::Request("initialize") => Some("the request is `initialize`".to_owned()),
                _ => None,
            })
        },
    ),
    monitor(
        "cancellation.names-a-request",
        &["cancellation-request-id-present"],
        "the client cancels a request",
        "`requestId` is present, and a `reason` is a string",
        &["cancels-without-id"],
        cancellation_shape,
    ),
    // ---- pagination ----
    monitor(
        "pagination.cursor-as-given",
        &["pagination-cursor-opaque"],
        "the client sends a cursor",
        "it is exactly one that the server gave for that list",
        &["trims-cursors"],
        |scope| cursors(scope, CursorRule::AsGiven),
    ),
    monitor(
        "pagination.first-without-cursor",
        &["pagination-first-request-without-cursor"],
        "the client asks for a list",
        "the first request has no `cursor`",
        &["first-page-with-cursor"],
        |scope| cursors(scope, CursorRule::FirstWithout),
    ),
    monitor(
        "pagination.not-across-sessions",
        &["pagination-not-across-sessions"],
        "a list is asked for in a second session after a cursor was given in the first",
        "no cursor of the former session is sent",
        &["keeps-cursors"],
        |scope| cursors(scope, CursorRule::OwnSession),
    ),
];

/// The capabilities that the server declared, with the event: in its answer to `initialize`, or, without a handshake, when
/// it was asked for them.
pub(super) fn server_capabilities<'s>(
    scope: &Scope<'s, '_>,
    conversation: &'s Conversation,
) -> Option<(usize, &'s Value)> {
    let Some(answer) = conversation.answer else { return discovered(scope, conversation) };
    let answer = scope.view.messages().get(answer)?;
    Some((answer.event, answer.result()?.get("capabilities")?))
}

/// The capabilities that the client declared in `initialize`, with the request's event.
fn client_capabilities<'s>(scope: &Scope<'s, '_>, conversation: &Conversation) -> Option<(usize, &'s Value)> {
    let initialize = scope.view.messages().get(conversation.initialize?)?;
    Some((initialize.event, initialize.param("capabilities")?))
}

fn undeclared(scope: &Scope<'_, '_>, pointer: &str, gated: impl Fn(&str) -> bool) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let Some((answer, capabilities)) = server_capabilities(scope, conversation) else { continue };
        // A sub-capability is a boolean; a capability is an object, and counts by its presence.
        if capabilities.pointer(pointer).is_some_and(|value| *value != Value::Bool(false)) {
            continue;
        }
        findings.saw(answer);
        for message in scope.messages(conversation).filter(|m| m.from_client() && m.is_request()) {
            let method = message.method().unwrap_or_default();
            if gated(method) && message.event > answer {
                let name = pointer.trim_start_matches('/').replace('/', ".");
                findings.against(
                    &[answer, message.event],
                    format!("{method} was sent to a server that does not declare `{name}`"),
                );
            }
        }
    }
    findings
}

/// Requests of the server in one conversation that are looked at for a missing answer: each look goes through the whole
/// conversation.
const LOOKED_AT: usize = 64;

/// The requests of the server.
fn asked<'s>(scope: &Scope<'s, '_>, conversation: &'s Conversation) -> impl Iterator<Item = &'s Message> {
    scope.messages(conversation).filter(|m| !m.from_client() && m.is_request())
}

/// The client's answers to requests of the server that had a method.
fn answered<'s>(
    scope: &Scope<'s, '_>,
    conversation: &'s Conversation,
    method: &str,
) -> impl Iterator<Item = (&'s Message, &'s Message)> {
    let view = scope.view;
    scope
        .messages(conversation)
        .filter(|m| m.from_client() && m.is_response())
        .filter_map(move |answer| Some((view.pair(answer)?, answer)))
        .filter(move |(request, _)| request.method() == Some(method))
}

pub(super) fn error_code(message: &Message) -> Option<i64> {
    message.inspected.value.as_ref()?.get("error")?.get("code")?.as_i64()
}

/// Looks at the answers to requests that need a capability which the client did not declare.
fn unserved(
    scope: &Scope<'_, '_>,
    capability: &str,
    method: &str,
    wrong: fn(&mut Findings, &[usize], &Message),
) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let Some((declared, capabilities)) = client_capabilities(scope, conversation) else { continue };
        if capabilities.get(capability).is_some() {
            continue;
        }
        for (request, answer) in answered(scope, conversation, method) {
            findings.saw(request.event);
            wrong(&mut findings, &[declared, request.event, answer.event], answer);
        }
    }
    findings
}

/// Holds an answer against the client that is no error. Which error it should be no text says for these methods; that
/// it be "method not found" follows from JSON-RPC, but clients that know the method and refuse it say so by others.
fn served(findings: &mut Findings, events: &[usize], answer: &Message) {
    if error_code(answer).is_none() {
        findings.against(events, "it is answered with a result");
    }
}

/// Holds an answer against the client that is not "method not found".
fn refused(findings: &mut Findings, events: &[usize], answer: &Message) {
    match error_code(answer) {
        Some(codes::METHOD_NOT_FOUND) => {}
        Some(code) => findings.against(events, format!("it is answered with error {code}")),
        None => findings.against(events, "it is answered with a result"),
    }
}

fn roots_list_changed(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let Some((declared, capabilities)) = client_capabilities(scope, conversation) else { continue };
        if capabilities.pointer("/roots/listChanged") == Some(&Value::Bool(true)) {
            continue;
        }
        findings.saw(declared);
        for message in scope.messages(conversation).filter(|m| m.from_client() && m.is_notification()) {
            if message.method() == Some("notifications/roots/list_changed") {
                findings.against(&[declared, message.event], "it was sent although not declared");
            }
        }
    }
    findings
}

/// Whether the client went on after a request of the server's without answering it, for so long that it can't be
/// late: it sent a request, had the answer, and sent another. An open stream may never have delivered the request, so
/// over HTTP a later answer has to have come on the same stream first.
fn passed_over(scope: &Scope<'_, '_>, conversation: &Conversation, request: &Message) -> Option<[usize; 2]> {
    if request.pair.is_some() || request.id().is_none() || misled(conversation, request.event + 1) {
        return None;
    }
    // Whether the client can take batches is a matter of its own.
    if request.in_batch {
        return None;
    }
    let withdrawn = scope.messages(conversation).any(|m| {
        !m.from_client()
            && m.method() == Some("notifications/cancelled")
            && m.param("requestId").and_then(Id::from_value).as_ref() == request.id()
    });
    if withdrawn {
        return None;
    }
    let mut since = request.event;
    if let Some(exchange) = request.exchange {
        since = scope
            .messages(conversation)
            .find(|m| m.exchange == Some(exchange) && m.is_response() && !m.from_client() && m.event > since)?
            .event;
    }
    let own = |since: usize| {
        scope.messages(conversation).filter(move |m| m.from_client() && m.is_request() && m.event > since)
    };
    let (first, answered) =
        own(since).find_map(|m| Some((m.event, scope.view.pair(m).filter(|a| a.event > m.event)?.event)))?;
    let second = own(answered).next()?.event;
    Some([first, second])
}

fn ping(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        for request in asked(scope, conversation).filter(|m| m.method() == Some("ping")).take(LOOKED_AT) {
            findings.saw(request.event);
            if let Some([first, second]) = passed_over(scope, conversation, request) {
                findings.against(
                    &[request.event, first, second],
                    "it is never answered, though the client goes on",
                );
            }
        }
        for (request, answer) in answered(scope, conversation, "ping") {
            let empty = answer
                .result()
                .and_then(Value::as_object)
                .is_some_and(|result| result.keys().all(|key| key == "_meta"));
            if !empty {
                findings.against(&[request.event, answer.event], "the answer is no empty result");
            }
        }
    }
    findings
}

/// Methods that a client may serve in some revision.
const SERVED: [&str; 8] = [
    "ping",
    "sampling/createMessage",
    "roots/list",
    "elicitation/create",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
];

fn unknown_method(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let unknown = |m: &&Message| m.method().is_some_and(|method| !SERVED.contains(&method));
        for request in asked(scope, conversation).filter(unknown).take(LOOKED_AT) {
            findings.saw(request.event);
            if let Some(answer) = scope.view.pair(request) {
                refused(&mut findings, &[request.event, answer.event], answer);
            } else if let Some([first, second]) = passed_over(scope, conversation, request) {
                findings.against(
                    &[request.event, first, second],
                    "it is never answered, though the client goes on",
                );
            }
        }
    }
    findings
}

/// Judges the client's results to a method of the server's.
fn results(scope: &Scope<'_, '_>, method: &str, wrong: impl Fn(&Value) -> Option<String>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        for (request, answer) in answered(scope, conversation, method) {
            let Some(result) = answer.result() else { continue };
            findings.saw(answer.event);
            if let Some(why) = wrong(result) {
                findings.against(&[request.event, answer.event], why);
            }
        }
        // Without a handshake, what the server wants to know comes with the next request.
        for (round, retry) in sent_back(scope, conversation, false).1 {
            let (Some(round), Some(given)) = (round, retry.inputs) else { continue };
            let wanted =
                round.inputs().iter().filter(|(_, input)| input.get("method").is_some_and(|m| m == method));
            for result in wanted.filter_map(|(key, _)| given.get(key)) {
                findings.saw(retry.request.event);
                if let Some(why) = wrong(result) {
                    findings.against(&[round.answer.event, retry.request.event], why);
                }
            }
        }
    }
    findings
}

fn sampling_result(result: &Value) -> Option<String> {
    let good = [
        ("role", matches!(result.get("role").and_then(Value::as_str), Some("user" | "assistant"))),
        ("content", result.get("content").is_some_and(|c| c.is_object() || c.is_array())),
        ("model", result.get("model").is_some_and(Value::is_string)),
        ("stopReason", optional(result, "stopReason", Value::is_string)),
    ];
    good.iter().find(|(_, good)| !good).map(|(name, _)| format!("`{name}` is missing or of another type"))
}

/// Judges the params of the client's requests with a method.
fn params(scope: &Scope<'_, '_>, method: &str, wrong: impl Fn(&Value) -> Option<String>) -> Findings {
    let mut findings = Findings::default();
    for message in scope.client_messages().filter(|m| m.is_client_request(method)) {
        findings.saw(message.event);
        if let Some(why) = wrong(message.params().unwrap_or(&Value::Null)) {
            findings.against(&[message.event], why);
        }
    }
    findings
}

fn text_member(params: &Value, name: &str) -> Option<String> {
    (!params.get(name).is_some_and(Value::is_string)).then(|| format!("`{name}` is no string"))
}

fn optional(value: &Value, name: &str, good: impl Fn(&Value) -> bool) -> bool {
    value.get(name).is_none_or(good)
}

fn progress_token(message: &Message) -> Option<&Value> {
    message.param("_meta")?.get("progressToken")
}

fn token_type(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for message in scope.client_messages().filter(|m| m.is_request()) {
        let Some(token) = progress_token(message) else { continue };
        findings.saw(message.event);
        if !(token.is_string() || token.is_i64() || token.is_u64()) {
            findings.against(&[message.event], format!("the token is {token}"));
        }
    }
    findings
}

fn token_unique(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let mut active: HashMap<String, &Message> = HashMap::new();
        let mut cancelled: HashSet<Id> = HashSet::new();
        for message in scope.messages(conversation).filter(|m| m.from_client()) {
            if message.method() == Some("notifications/cancelled") {
                cancelled.extend(message.param("requestId").and_then(Id::from_value));
            }
            let Some(token) = progress_token(message).filter(|_| message.is_request()) else { continue };
            findings.saw(message.event);
            if let Some(before) = active.insert(token.to_string(), message) {
                let over = scope.view.pair(before).is_some_and(|answer| answer.event < message.event)
                    || before.id().is_some_and(|id| cancelled.contains(id))
                    || is_retry(scope.view, before, message);
                if !over {
                    findings.against(
                        &[before.event, message.event],
                        format!("token {token} belongs to a request that is still active"),
                    );
                }
            }
        }
    }
    findings
}

enum Target<'m> {
    /// No usable `requestId`.
    Missing,
    /// An id that no request had.
    Unknown(&'m Value),
    /// A request with this method.
    Request(&'m str),
}

fn cancellations(scope: &Scope<'_, '_>, wrong: impl Fn(&Target<'_>) -> Option<String>) -> Findings {
    let mut findings = Findings::default();
    // By server: a client may cancel what it sent before a new handshake.
    let mut sent: HashMap<(&Option<String>, &Id), &Message> = HashMap::new();
    for message in scope.view.messages().iter().filter(|m| m.from_client()) {
        let Some(conversation) = scope.view.conversation(message).filter(|c| scope.covers(c)) else {
            continue;
        };
        if message.is_request()
            && let Some(id) = message.id()
        {
            sent.insert((&conversation.server, id), message);
        }
        if message.method() != Some("notifications/cancelled") {
            continue;
        }
        findings.saw(message.event);
        let named = message.param("requestId");
        let id = named.and_then(Id::from_value);
        let request = id.as_ref().and_then(|id| sent.get(&(&conversation.server, id)));
        let target = match (named, request) {
            (None, _) => Target::Missing,
            (Some(named), None) => Target::Unknown(named),
            (Some(_), Some(request)) => Target::Request(request.method().unwrap_or_default()),
        };
        if let Some(why) = wrong(&target) {
            let events: Vec<usize> =
                request.map(|request| request.event).into_iter().chain([message.event]).collect();
            findings.against(&events, why);
        }
    }
    findings
}

fn cancellation_shape(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for message in scope.client_messages().filter(|m| m.method() == Some("notifications/cancelled")) {
        findings.saw(message.event);
        let params = message.params().unwrap_or(&Value::Null);
        let id = params.get("requestId").and_then(Id::from_value);
        if id.is_none() {
            findings.against(&[message.event], "`requestId` is missing, or neither a string nor an integer");
        } else if !optional(params, "reason", Value::is_string) {
            findings.against(&[message.event], "`reason` is no string");
        }
    }
    findings
}

#[derive(Clone, Copy, PartialEq)]
enum CursorRule {
    AsGiven,
    FirstWithout,
    OwnSession,
}

const LISTS: [&str; 4] = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];

fn cursors(scope: &Scope<'_, '_>, rule: CursorRule) -> Findings {
    let mut findings = Findings::default();
    // What the server gave in earlier conversations, by list.
    let mut former: HashMap<(&Option<String>, &str), HashSet<&str>> = HashMap::new();
    for conversation in scope.conversations() {
        let mut given: HashMap<&str, HashSet<&str>> = HashMap::new();
        let mut asked: HashSet<&str> = HashSet::new();
        for message in scope.messages(conversation) {
            if !message.from_client() {
                let next =
                    message.result().and_then(|result| result.get("nextCursor")).and_then(Value::as_str);
                let method = scope.view.pair(message).and_then(Message::method);
                if let Some((next, method)) = next.zip(method) {
                    given.entry(method).or_default().insert(next);
                }
                continue;
            }
            let Some(method) = message.method().filter(|m| LISTS.contains(m) && message.is_request()) else {
                continue;
            };
            let cursor = message.param("cursor");
            let first = asked.insert(method);
            let text = cursor.and_then(Value::as_str);
            let is_given = text.is_some_and(|text| given.get(method).is_some_and(|g| g.contains(text)));
            let earlier = former.get(&(&conversation.server, method));
            let is_former = text.is_some_and(|text| earlier.is_some_and(|e| e.contains(text)));
            match (rule, cursor) {
                (CursorRule::AsGiven, Some(cursor)) => {
                    findings.saw(message.event);
                    // A cursor of the session before, and a null, break other rules.
                    if !(is_given || is_former || cursor.is_null() || misled(conversation, message.event)) {
                        findings
                            .against(&[message.event], format!("the server never gave the cursor {cursor}"));
                    }
                }
                (CursorRule::FirstWithout, cursor) if first => {
                    findings.saw(message.event);
                    if let Some(cursor) = cursor.filter(|_| !is_former) {
                        findings
                            .against(&[message.event], format!("the first {method} has the cursor {cursor}"));
                    }
                }
                (CursorRule::OwnSession, cursor) if earlier.is_some() => {
                    findings.saw(message.event);
                    if let Some(cursor) = cursor.filter(|_| is_former && !is_given) {
                        findings
                            .against(&[message.event], format!("cursor {cursor} is of the session before"));
                    }
                }
                _ => {}
            }
        }
        for (method, cursors) in given {
            former.entry((&conversation.server, method)).or_default().extend(cursors);
        }
    }
    findings
}
