//! What each request carries in a revision without a handshake, and what such a revision no longer has.

use super::features::server_capabilities;
use super::{Findings, Monitor, Scope, is_retry, monitor};
use crate::judge::view::{Conversation, Message};
use serde_json::{Map, Value};
use sparring_wire::jsonrpc::codes;
use sparring_wire::{Id, meta};
use std::collections::HashMap;

pub(super) const MONITORS: &[Monitor] = &[
    // ---- what each request carries ----
    monitor(
        "requests.params-present",
        &["jsonrpc-requests-have-params-modern"],
        "the client sends a request",
        "it has params",
        &["requests-without-params"],
        |scope| {
            requests(scope, |message| message.params().is_none().then(|| "there are no `params`".to_owned()))
        },
    ),
    monitor(
        "requests.protocol-version",
        &["versioning-meta-protocol-version"],
        "the client sends a request",
        "its `_meta` names the revision",
        &["omits-meta-version"],
        |scope| {
            requests(scope, |message| match of_meta(message, meta::PROTOCOL_VERSION) {
                Some(Value::String(_)) => None,
                Some(other) => Some(format!("`{}` is {other}", meta::PROTOCOL_VERSION)),
                None => Some(format!("`{}` is missing", meta::PROTOCOL_VERSION)),
            })
        },
    ),
    monitor(
        "requests.client-capabilities",
        &["versioning-meta-client-capabilities"],
        "the client sends a request",
        "its `_meta` says what the client can do",
        &["omits-meta-capabilities"],
        |scope| {
            requests(scope, |message| {
                (!of_meta(message, meta::CLIENT_CAPABILITIES).is_some_and(Value::is_object))
                    .then(|| format!("`{}` is no object", meta::CLIENT_CAPABILITIES))
            })
        },
    ),
    monitor(
        "requests.client-info",
        &["versioning-meta-client-info"],
        "the client sends a request",
        "its `_meta` says who the client is",
        &["omits-meta-client-info"],
        |scope| {
            requests(scope, |message| {
                of_meta(message, meta::CLIENT_INFO)
                    .is_none()
                    .then(|| format!("`{}` is missing", meta::CLIENT_INFO))
            })
        },
    ),
    monitor(
        "requests.client-info-shape",
        &["versioning-client-info-shape"],
        "a request says who the client is",
        "that has string `name` and `version`",
        &["meta-client-info-without-version"],
        |scope| {
            let mut findings = Findings::default();
            for message in own_requests(scope) {
                let Some(info) = of_meta(message, meta::CLIENT_INFO) else { continue };
                findings.saw(message.event);
                let missing =
                    ["name", "version"].into_iter().find(|n| !info.get(*n).is_some_and(Value::is_string));
                if let Some(name) = missing {
                    findings
                        .against(&[message.event], format!("`{}.{name}` is no string", meta::CLIENT_INFO));
                }
            }
            findings
        },
    ),
    monitor(
        "requests.extension-ids",
        &["versioning-extension-id-prefixed"],
        "a request declares extensions",
        "each has an id with a prefix, and an object of settings",
        &["declares-extension-without-prefix"],
        |scope| {
            let mut findings = Findings::default();
            for message in own_requests(scope) {
                let capabilities = of_meta(message, meta::CLIENT_CAPABILITIES);
                let Some(extensions) = capabilities.and_then(|c| c.get("extensions")) else { continue };
                findings.saw(message.event);
                let wrong = match extensions.as_object() {
                    None => Some("`extensions` is no object".to_owned()),
                    Some(all) => all
                        .iter()
                        .find(|(id, settings)| !is_extension_id(id) || !settings.is_object())
                        .map(|(id, settings)| format!("the extension `{id}` is declared with {settings}")),
                };
                if let Some(why) = wrong {
                    findings.against(&[message.event], why);
                }
            }
            findings
        },
    ),
    monitor(
        "requests.log-level",
        &["logging-level-meta-value"],
        "a request asks for log messages",
        "the level is one of the eight",
        &["asks-for-odd-log-level"],
        |scope| {
            let mut findings = Findings::default();
            for message in own_requests(scope) {
                let Some(level) = of_meta(message, meta::LOG_LEVEL) else { continue };
                findings.saw(message.event);
                if !level.as_str().is_some_and(|level| meta::LOG_LEVELS.contains(&level)) {
                    findings.against(&[message.event], format!("the level is {level}"));
                }
            }
            findings
        },
    ),
    monitor(
        "requests.id-unique-in-flight",
        &["jsonrpc-request-id-unique-inflight"],
        "the client sends a request",
        "no other request with that id waits for its answer",
        &["reuses-ids-in-flight"],
        unique_in_flight,
    ),
    // ---- what is gone ----
    monitor(
        "stateless.no-handshake",
        &["versioning-no-handshake-on-modern"],
        "the server has shown that it needs no handshake",
        "neither `initialize` nor `notifications/initialized` is sent",
        &["initializes-all-the-same"],
        |scope| {
            after_modern_answer(scope, |method| matches!(method, "initialize" | "notifications/initialized"))
        },
    ),
    monitor(
        "stateless.no-removed-methods",
        &["versioning-no-removed-methods"],
        "the server has shown that it needs no handshake",
        "nothing is sent that went with the handshake: `ping`, `logging/setLevel`, `resources/subscribe`…",
        &["pings-without-handshake"],
        |scope| after_modern_answer(scope, |method| REMOVED.contains(&method)),
    ),
    monitor(
        "stateless.no-responses-on-stdin",
        &["stdio-no-responses"],
        "the client sends a message",
        "it is no response: servers send no requests",
        &["answers-what-nobody-asked"],
        no_responses,
    ),
    monitor(
        "stateless.no-responses-posted",
        &["http-no-response-post"],
        "the client sends a message",
        "it is no response: servers send no requests",
        &["answers-what-nobody-asked"],
        no_responses,
    ),
    monitor(
        "stateless.discovered-capabilities",
        &["versioning-respect-discovered-capabilities"],
        "the client has asked what the server can do",
        "it uses nothing that the server does not declare",
        &["uses-undiscovered-features"],
        discovered_capabilities,
    ),
    // ---- tasks and subscriptions ----
    monitor(
        "subscriptions.filter",
        &["subscriptions-listen-filter-present"],
        "the client sends subscriptions/listen",
        "`notifications` says what it wants to be told of",
        &["listens-without-filter"],
        listen_filter,
    ),
    monitor(
        "tasks.extension-declared",
        &["tasks-ext-declared"],
        "the client sends a request about a task",
        "it declares the extension for tasks",
        &["polls-without-extension"],
        |scope| {
            let mut findings = Findings::default();
            for message in own_requests(scope).filter(|m| is_about_task(m)) {
                findings.saw(message.event);
                let declared = of_meta(message, meta::CLIENT_CAPABILITIES)
                    .and_then(|c| c.get("extensions")?.get(meta::TASKS_EXTENSION));
                if declared.is_none() {
                    findings
                        .against(&[message.event], format!("`{}` is not declared", meta::TASKS_EXTENSION));
                }
            }
            findings
        },
    ),
    monitor(
        "tasks.no-legacy-form",
        &["tasks-ext-no-legacy-parameter"],
        "the client sends a request",
        "it has nothing of the tasks of 2025-11-25: no `task` param, no tasks/result or tasks/list",
        &["asks-for-legacy-task"],
        |scope| {
            requests(scope, |message| {
                let method = message.method().unwrap_or_default();
                if matches!(method, "tasks/result" | "tasks/list") {
                    Some(format!("{method} is no method of the extension"))
                } else {
                    message.param("task").map(|_| format!("{method} has a `task` param"))
                }
            })
        },
    ),
];

/// Methods of the client that went with the handshake.
const REMOVED: [&str; 6] = [
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "notifications/roots/list_changed",
    "notifications/progress",
];

/// A member of the `_meta` of a message.
pub(super) fn of_meta<'m>(message: &'m Message, name: &str) -> Option<&'m Value> {
    message.param("_meta")?.get(name)
}

/// The client's requests where the requirement holds. `initialize` opens a conversation of another kind, and what went
/// with the handshake has monitors of its own.
pub(super) fn own_requests<'s>(scope: &Scope<'s, '_>) -> impl Iterator<Item = &'s Message> {
    scope.client_messages().filter(|m| {
        m.is_request()
            && !matches!(m.method(), Some("initialize"))
            && !m.method().is_some_and(|m| REMOVED.contains(&m))
    })
}

/// Judges each request by a function that says what is wrong with it.
fn requests(scope: &Scope<'_, '_>, wrong: impl Fn(&Message) -> Option<String>) -> Findings {
    let mut findings = Findings::default();
    for message in own_requests(scope) {
        findings.saw(message.event);
        if let Some(why) = wrong(message) {
            let method = message.method().unwrap_or_default();
            findings.against(&[message.event], format!("{method}: {why}"));
        }
    }
    findings
}

/// A name with a prefix of labels, as keys of `_meta` have it: `com.example/name`.
fn is_extension_id(id: &str) -> bool {
    let Some((prefix, name)) = id.split_once('/') else { return false };
    let label = |label: &str| {
        label.starts_with(|c: char| c.is_ascii_alphabetic())
            && label.ends_with(|c: char| c.is_ascii_alphanumeric())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let edge = |c: char| c.is_ascii_alphanumeric();
    prefix.split('.').all(label)
        && (name.is_empty()
            || name.starts_with(edge)
                && name.ends_with(edge)
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)))
}

fn unique_in_flight(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let mut used: HashMap<&Id, &Message> = HashMap::new();
        let mut withdrawn: Vec<(Id, usize)> = Vec::new();
        for message in scope.messages(conversation).filter(|m| m.from_client()) {
            if message.method() == Some("notifications/cancelled") {
                withdrawn.extend(
                    message.param("requestId").and_then(Id::from_value).map(|id| (id, message.event)),
                );
            }
            let Some(id) = message.id().filter(|_| message.is_request()) else { continue };
            findings.saw(message.event);
            let Some(before) = used.insert(id, message) else { continue };
            let answered = scope.view.pair(before).is_some_and(|answer| answer.event < message.event);
            // Over HTTP the end of its exchange is the end of a request.
            let closed =
                before.exchange.and_then(|number| scope.view.exchange(number)).is_some_and(|exchange| {
                    let whole = |at: &usize| {
                        before
                            .exchange
                            .and_then(|number| scope.view.http_response(number))
                            .is_some_and(|r| r.body.is_some() || r.scripted_fault)
                            && *at < message.event
                    };
                    exchange.ended.is_some_and(|at| at < message.event)
                        || exchange.response.as_ref().is_some_and(whole)
                });
            let cancelled =
                withdrawn.iter().any(|(other, at)| other == id && *at > before.event && *at < message.event);
            if !(answered || closed || cancelled || is_retry(scope.view, before, message)) {
                findings.against(
                    &[before.event, message.event],
                    format!("id {id} is that of a {} that still waits", before.method().unwrap_or_default()),
                );
            }
        }
    }
    findings
}

/// Whether a message of the server shows that it takes requests without a handshake.
fn is_modern_answer(scope: &Scope<'_, '_>, message: &Message) -> bool {
    let asked = scope.view.pair(message).filter(|asked| asked.from_client());
    let stateless = asked.is_some_and(|asked| of_meta(asked, meta::PROTOCOL_VERSION).is_some());
    let code = super::features::error_code(message);
    stateless
        && (message.result().is_some_and(|result| {
            result.get("resultType").is_some() || result.get("supportedVersions").is_some()
        }) || matches!(
            code,
            Some(
                codes::UNSUPPORTED_PROTOCOL_VERSION
                    | codes::HEADER_MISMATCH
                    | codes::MISSING_CLIENT_CAPABILITY
            )
        ))
}

/// Looks for methods in all that is sent to a server after it has shown that it takes requests without a handshake. A
/// server that speaks earlier revisions besides may have been agreed with before.
fn after_modern_answer(scope: &Scope<'_, '_>, wrong: impl Fn(&str) -> bool) -> Findings {
    let mut findings = Findings::default();
    let mut shown: HashMap<(&Option<String>, Option<u32>), usize> = HashMap::new();
    for message in scope.view.messages() {
        let Some(conversation) = scope.view.conversation(message) else { continue };
        let place = (&conversation.server, conversation.incarnation);
        if !message.from_client() {
            if is_modern_answer(scope, message) {
                findings.saw(message.event);
                shown.entry(place).or_insert(message.event);
            }
            continue;
        }
        let method = message.method().unwrap_or_default();
        let agreed = conversation.revision().is_some_and(|revision| revision.has_handshake());
        if let Some(&shown) = shown.get(&place)
            && !agreed
            && wrong(method)
        {
            findings.against(&[shown, message.event], format!("{method} was sent"));
        }
    }
    findings
}

fn no_responses(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for message in scope.client_messages() {
        findings.saw(message.event);
        if message.is_response() {
            findings.against(&[message.event], "a response was sent");
        }
    }
    findings
}

/// Which capability a method belongs to.
fn capability_of(method: &str) -> Option<&'static str> {
    match method {
        "completion/complete" => Some("completions"),
        _ => ["tools", "resources", "prompts"]
            .into_iter()
            .find(|name| method.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))),
    }
}

fn discovered_capabilities(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let Some((answer, capabilities)) = server_capabilities(scope, conversation) else { continue };
        findings.saw(answer);
        for message in scope.messages(conversation).filter(|m| m.from_client() && m.event > answer) {
            let method = message.method().unwrap_or_default();
            if let Some(name) = capability_of(method)
                && capabilities.get(name).is_none()
            {
                findings.against(
                    &[answer, message.event],
                    format!("{method} was sent to a server that does not declare `{name}`"),
                );
            }
        }
    }
    findings
}

/// What the server said of its capabilities when it was asked, with the event.
pub(super) fn discovered<'s>(
    scope: &Scope<'s, '_>,
    conversation: &'s Conversation,
) -> Option<(usize, &'s Value)> {
    scope
        .messages(conversation)
        .filter(|m| m.is_client_request("server/discover"))
        .find_map(|asked| scope.view.pair(asked).filter(|answer| !answer.scripted_fault))
        .and_then(|answer| Some((answer.event, answer.result()?.get("capabilities")?)))
}

fn listen_filter(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for message in scope.client_messages().filter(|m| m.is_client_request("subscriptions/listen")) {
        findings.saw(message.event);
        let filter = message.param("notifications").and_then(Value::as_object);
        if let Some(why) =
            filter.map_or_else(|| Some("`notifications` is no object".to_owned()), wrong_filter)
        {
            findings.against(&[message.event], why);
        }
    }
    findings
}

fn wrong_filter(filter: &Map<String, Value>) -> Option<String> {
    filter.iter().find_map(|(name, value)| {
        let good = match name.as_str() {
            "toolsListChanged" | "promptsListChanged" | "resourcesListChanged" => value.is_boolean(),
            "resourceSubscriptions" | "taskIds" => {
                value.as_array().is_some_and(|all| all.iter().all(Value::is_string))
            }
            // Extensions have members of their own.
            _ => true,
        };
        (!good).then(|| format!("`notifications.{name}` is {value}"))
    })
}

/// Whether a request is one of the extension for tasks.
pub(super) fn is_about_task(message: &Message) -> bool {
    matches!(message.method(), Some("tasks/get" | "tasks/update" | "tasks/cancel"))
}
