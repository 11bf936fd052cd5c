//! The handshake: what comes first, what it says, and what follows from it.

use super::{Findings, Monitor, Scope, is_probe, misled, monitor};
use crate::judge::view::{Conversation, Message};
use serde_json::Value;
use sparring_wire::Revision;
use sparring_wire::jsonrpc::Fault;

pub(super) const MONITORS: &[Monitor] = &[
    monitor(
        "handshake.initialize-first",
        &["lifecycle-initialize-first"],
        "the client sends a message",
        "the first message of a connection is an `initialize` request",
        &["skips-initialize"],
        initialize_first,
    ),
    monitor(
        "handshake.initialize-params",
        &["lifecycle-initialize-params"],
        "the client sends `initialize`",
        "it has `protocolVersion`, `capabilities` and `clientInfo`",
        &["initialize-without-capabilities"],
        |scope| {
            initialize_params(scope, |params| {
                let wrong = [
                    ("protocolVersion", params.get("protocolVersion").is_some_and(Value::is_string)),
                    ("capabilities", params.get("capabilities").is_some_and(Value::is_object)),
                    ("clientInfo", params.get("clientInfo").is_some_and(Value::is_object)),
                ];
                wrong
                    .iter()
                    .find(|(_, good)| !good)
                    .map(|(name, _)| format!("`{name}` is missing or of another type"))
            })
        },
    ),
    monitor(
        "handshake.client-info",
        &["lifecycle-clientinfo-name-version"],
        "the client sends `initialize`",
        "`clientInfo` has string `name` and `version`, and nothing in it is null",
        &["anonymous-client"],
        |scope| {
            initialize_params(scope, |params| {
                let info = params.get("clientInfo")?.as_object()?;
                let missing =
                    ["name", "version"].into_iter().find(|n| !info.get(*n).is_some_and(Value::is_string));
                let null = ["title", "description", "icons", "websiteUrl"]
                    .into_iter()
                    .find(|name| info.get(*name).is_some_and(Value::is_null));
                missing
                    .map(|name| format!("`clientInfo.{name}` is no string"))
                    .or_else(|| null.map(|name| format!("`clientInfo.{name}` is null")))
            })
        },
    ),
    monitor(
        "handshake.offers-a-revision",
        &["lifecycle-offer-supported-version"],
        "the client sends `initialize`",
        "the version that it offers is a revision of the protocol",
        &["offers-what-is-no-revision"],
        |scope| {
            initialize_params(scope, |params| {
                let offer = params.get("protocolVersion")?.as_str()?;
                (!may_be_a_revision(offer)).then(|| format!("{offer:?} was never a revision"))
            })
        },
    ),
    monitor(
        "handshake.capabilities-are-objects",
        &["lifecycle-capabilities-object-shape"],
        "the client sends `initialize`",
        "each declared capability is an object",
        &["boolean-capabilities"],
        |scope| {
            initialize_params(scope, |params| {
                let capabilities = params.get("capabilities")?.as_object()?;
                capabilities
                    .iter()
                    .find(|(_, value)| !value.is_object())
                    .map(|(name, value)| format!("capability `{name}` is {value}"))
            })
        },
    ),
    monitor(
        "handshake.initialized-sent",
        &["lifecycle-initialized-notification"],
        "the server answers `initialize`, and the client goes on",
        "`notifications/initialized` comes after the answer and before any other request",
        &["skips-initialized", "hurries-initialized"],
        initialized_sent,
    ),
    monitor(
        "handshake.no-requests-before-answer",
        &["lifecycle-no-requests-before-init-response"],
        "the client sends `initialize`",
        "until it is answered no request but `ping` is sent",
        &["hurries-requests"],
        no_requests_before_answer,
    ),
    monitor(
        "handshake.initialize-once",
        &["lifecycle-initialize-once"],
        "the server answers `initialize`",
        "no other `initialize` follows on that connection",
        &["initializes-twice"],
        initialize_once,
    ),
    monitor(
        "handshake.no-operation-after-failure",
        &["lifecycle-no-initialized-after-failure"],
        "the server answers `initialize` with an error",
        "the client neither sends `notifications/initialized` nor starts operation",
        &["ignores-initialize-error"],
        no_operation_after_failure,
    ),
    monitor(
        "handshake.unknown-version-refused",
        &["lifecycle-unsupported-version-disconnect"],
        "the server answers `initialize` with a version that does not exist and that the client did not offer",
        "the client ends the connection",
        &["accepts-any-version"],
        unknown_version_refused,
    ),
    monitor(
        "handshake.ping-without-params",
        &["lifecycle-ping-no-params"],
        "the client sends `ping`",
        "it has no params but `_meta`",
        &["pings-with-params"],
        ping_without_params,
    ),
    monitor(
        "handshake.initialize-not-in-batch",
        &["jsonrpc-batch-initialize-alone"],
        "the client sends `initialize`",
        "it is no member of a batch",
        &["batches-everything"],
        |scope| {
            let mut findings = Findings::default();
            for message in scope.client_messages().filter(|m| m.is_client_request("initialize")) {
                findings.saw(message.event);
                if message.in_batch {
                    findings.against(&[message.event], "`initialize` is a member of a batch");
                }
            }
            findings
        },
    ),
    monitor(
        "handshake.no-batches",
        &["jsonrpc-batch-not-sent"],
        "the client sends a message",
        "each message is sent by itself",
        &["batches-everything"],
        |scope| {
            let mut findings = Findings::default();
            for message in scope.client_messages() {
                findings.saw(message.event);
                if message.in_batch || message.inspected.faults.contains(&Fault::EmptyBatch) {
                    findings.against(&[message.event], "a batch was sent");
                }
            }
            findings
        },
    ),
];

fn initialize_first(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let first = scope
            .messages(conversation)
            .filter(|m| m.from_client())
            .find(|m| (m.is_request() || m.is_notification()) && m.method() != Some("ping") && !is_probe(m));
        if let Some(first) = first {
            findings.saw(first.event);
            if !first.is_client_request("initialize") {
                let method = first.method().unwrap_or_default();
                findings.against(&[first.event], format!("{method} was sent without `initialize` before it"));
            }
        }
    }
    findings
}

/// A released revision, a draft, or one that came after this program.
fn may_be_a_revision(offer: &str) -> bool {
    let newest = Revision::ALL[Revision::ALL.len() - 1].as_str();
    let is_date = offer.len() == 10
        && offer.char_indices().all(|(at, c)| if at == 4 || at == 7 { c == '-' } else { c.is_ascii_digit() });
    offer.parse::<Revision>().is_ok()
        || is_date && offer > newest
        || offer.to_ascii_lowercase().starts_with("draft")
}

/// Judges the params of each `initialize` by a function that says what is wrong with them.
fn initialize_params(scope: &Scope<'_, '_>, wrong: impl Fn(&Value) -> Option<String>) -> Findings {
    let mut findings = Findings::default();
    for message in scope.client_messages().filter(|m| m.is_client_request("initialize")) {
        findings.saw(message.event);
        if let Some(why) = wrong(message.params().unwrap_or(&Value::Null)) {
            findings.against(&[message.event], why);
        }
    }
    findings
}

/// Whether the client takes up operation by this message.
fn is_operation(message: &Message) -> bool {
    message.from_client()
        && message.is_request()
        && !matches!(message.method(), Some("ping" | "initialize"))
        && !is_probe(message)
}

fn is_initialized(message: &Message) -> bool {
    message.from_client() && message.method() == Some("notifications/initialized")
}

/// The answers to `initialize` in a conversation.
fn answers<'s>(scope: &Scope<'s, '_>, conversation: &'s Conversation) -> impl Iterator<Item = &'s Message> {
    let view = scope.view;
    scope.messages(conversation).filter(move |m| {
        !m.from_client() && view.pair(m).is_some_and(|asked| asked.is_client_request("initialize"))
    })
}

/// Over Streamable HTTP each `initialize` opens a session of its own, so there only one that names a session is a second.
fn initialize_once(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let Some(answer) = answers(scope, conversation).find(|m| m.result().is_some()) else { continue };
        findings.saw(answer.event);
        let second = scope
            .messages(conversation)
            .find(|m| m.is_client_request("initialize") && m.event > answer.event);
        if let Some(second) = second.filter(|m| !misled(conversation, m.event)) {
            findings.against(&[answer.event, second.event], "`initialize` was sent again");
        }
    }
    findings
}

fn initialized_sent(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let Some(answer) = answers(scope, conversation).find(|m| m.result().is_some()) else { continue };
        if misled(conversation, answer.event + 1) {
            continue;
        }
        let announced: Vec<&Message> = scope.messages(conversation).filter(|m| is_initialized(m)).collect();
        let after = |event| move |m: &&&Message| m.event > event;
        let first = announced.iter().find(after(answer.event));
        if let Some(early) = announced.iter().find(|m| m.event < answer.event) {
            findings.against(&[early.event, answer.event], "it was sent before the answer to `initialize`");
        }
        for operation in scope.messages(conversation).filter(|m| is_operation(m) && m.event > answer.event) {
            findings.saw(answer.event);
            match first {
                Some(first) if first.event < operation.event => break,
                // Two POSTs at a time: nobody can tell in which order they were sent.
                Some(first) if at_one_time(scope, operation, first) => {}
                _ => {
                    let method = operation.method().unwrap_or_default();
                    findings.against(
                        &[answer.event, operation.event],
                        format!("{method} was sent without `notifications/initialized` before it"),
                    );
                    break;
                }
            }
        }
    }
    findings
}

/// Whether `later` arrived while the exchange of `earlier` was still open.
fn at_one_time(scope: &Scope<'_, '_>, earlier: &Message, later: &Message) -> bool {
    let Some(exchange) = earlier.exchange.and_then(|number| scope.view.exchange(number)) else {
        return false;
    };
    exchange.response.is_none_or(|response| response > later.event)
}

fn no_requests_before_answer(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let mut waiting: Option<&Message> = None;
        for message in scope.messages(conversation) {
            if message.is_client_request("initialize") {
                findings.saw(message.event);
                waiting = Some(message);
                continue;
            }
            let Some(initialize) = waiting else { continue };
            let answered = scope.view.pair(initialize).is_some_and(|answer| answer.event <= message.event);
            if answered
                || refused_before(scope, initialize, message.event)
                || misled(conversation, message.event)
            {
                waiting = None;
            } else if is_operation(message) {
                let method = message.method().unwrap_or_default();
                findings.against(
                    &[initialize.event, message.event],
                    format!("{method} was sent before `initialize` was answered"),
                );
            }
        }
    }
    findings
}

/// Whether a request was answered over HTTP before an event, be it in a body that is no message or in a broken one.
fn refused_before(scope: &Scope<'_, '_>, request: &Message, event: usize) -> bool {
    let Some(number) = request.exchange else { return false };
    // On HTTP+SSE the answer comes on the stream; the response says only that the message has arrived.
    let legacy = scope.view.conversation(request).is_some_and(|c| c.legacy.is_some());
    let whole = scope.view.http_response(number).is_some_and(|r| {
        (r.body.is_some() || r.scripted_fault) && !(legacy && (200..300).contains(&r.status))
    });
    scope.view.exchange(number).is_some_and(|exchange| {
        [exchange.response.filter(|_| whole), exchange.ended].into_iter().flatten().any(|end| end < event)
    })
}

fn no_operation_after_failure(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let mut failed = None;
        for message in scope.messages(conversation) {
            if !message.from_client()
                && scope.view.pair(message).is_some_and(|asked| asked.is_client_request("initialize"))
            {
                failed = message.is_error().then_some(message.event);
                if let Some(event) = failed {
                    findings.saw(event);
                }
            } else if let Some(failure) = failed
                && (is_initialized(message) || is_operation(message))
            {
                let method = message.method().unwrap_or_default();
                findings.against(&[failure, message.event], format!("{method} was sent after the failure"));
            }
        }
    }
    findings
}

fn unknown_version_refused(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let Some(answer) = answers(scope, conversation).last() else { continue };
        let Some(version) = conversation.version.as_deref().filter(|v| v.parse::<Revision>().is_err()) else {
            continue;
        };
        let offered =
            scope.view.pair(answer).and_then(|m| m.param("protocolVersion")).and_then(Value::as_str);
        if offered == Some(version) {
            continue;
        }
        findings.saw(answer.event);
        let goes_on = scope
            .messages(conversation)
            .find(|m| m.event > answer.event && (is_initialized(m) || is_operation(m)));
        if let Some(message) = goes_on {
            let method = message.method().unwrap_or_default();
            findings.against(
                &[answer.event, message.event],
                format!("{method} was sent in version {version}, which nobody knows"),
            );
        }
    }
    findings
}

fn ping_without_params(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for message in scope.client_messages().filter(|m| m.is_client_request("ping")) {
        findings.saw(message.event);
        let params = message.params().and_then(Value::as_object);
        if let Some((name, _)) = params.and_then(|p| p.iter().find(|(name, _)| *name != "_meta")) {
            findings.against(&[message.event], format!("`ping` has the param `{name}`"));
        }
    }
    findings
}
