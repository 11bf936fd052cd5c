//! Header fields of Streamable HTTP without a handshake, and what it no longer has.

use super::stateless::{is_about_task, of_meta};
use super::{Findings, Monitor, Scope, monitor};
use crate::judge::view::{self, Message};
use serde_json::Value;
use sparring_wire::meta;
use sparring_wire::transcript::HttpRequest;
use std::collections::HashMap;

pub(super) const MONITORS: &[Monitor] = &[
    monitor(
        "http.version-header-on-every-request",
        &["http-protocol-version-header-every-post"],
        "the client posts a request",
        "it has an MCP-Protocol-Version header",
        &["omits-version-header"],
        |scope| {
            posts(scope, |_, http| {
                view::header(&http.headers, "mcp-protocol-version")
                    .is_none()
                    .then(|| "MCP-Protocol-Version is missing".to_owned())
            })
        },
    ),
    monitor(
        "http.version-header-agrees",
        &["versioning-header-matches-meta"],
        "the client posts a request that names its revision",
        "MCP-Protocol-Version names the same",
        &["sends-other-version-header"],
        |scope| {
            let mut findings = Findings::default();
            for (event, message, http) in posted(scope) {
                let said = of_meta(message, meta::PROTOCOL_VERSION).and_then(Value::as_str);
                let header = view::header(&http.headers, "mcp-protocol-version");
                let Some((said, header)) = said.zip(header) else { continue };
                findings.saw(event);
                if said != header {
                    findings.against(
                        &[event],
                        format!("MCP-Protocol-Version is {header}, and the body says {said}"),
                    );
                }
            }
            findings
        },
    ),
    monitor(
        "http.method-header",
        &["http-header-mcp-method"],
        "the client posts a request",
        "Mcp-Method is its method",
        &["omits-method-header"],
        |scope| {
            posts(scope, |message, http| {
                let method = message.method().unwrap_or_default();
                match view::header(&http.headers, "mcp-method") {
                    Some(header) if header == method => None,
                    Some(header) => Some(format!("Mcp-Method is {header}, and the method is {method}")),
                    None => Some(format!("{method}: Mcp-Method is missing")),
                }
            })
        },
    ),
    monitor(
        "http.name-header",
        &["http-header-mcp-name"],
        "the client calls a tool, gets a prompt or reads a resource",
        "Mcp-Name says which",
        &["omits-name-header"],
        |scope| {
            name_header(scope, |message| match message.method()? {
                "tools/call" | "prompts/get" => message.param("name")?.as_str(),
                "resources/read" => message.param("uri")?.as_str(),
                _ => None,
            })
        },
    ),
    monitor(
        "http.name-header-of-tasks",
        &["tasks-ext-mcp-name-header"],
        "the client sends a request about a task",
        "Mcp-Name says which",
        &["omits-task-name-header"],
        |scope| {
            name_header(scope, |message| message.param("taskId")?.as_str().filter(|_| is_about_task(message)))
        },
    ),
    monitor(
        "http.name-header-encoded",
        &["http-header-mcp-name-base64"],
        "the client posts a request about something whose name can't stand in a header as it is",
        "the name is written in Base64",
        &["writes-names-in-ascii"],
        |scope| {
            let mut findings = Findings::default();
            for (event, message, http) in posted(scope) {
                let name = ["name", "uri"].iter().find_map(|member| message.param(member)?.as_str());
                let Some(header) = view::header(&http.headers, "mcp-name") else { continue };
                if name.is_none_or(is_plain) {
                    continue;
                }
                findings.saw(event);
                if encoded(header).is_none() {
                    findings.against(&[event], format!("Mcp-Name is {header:?}"));
                }
            }
            findings
        },
    ),
    monitor(
        "http.no-get",
        &["http-no-get-on-modern"],
        "the server has answered a request without a handshake",
        "the endpoint gets neither GET nor DELETE",
        &["opens-stream-without-handshake"],
        no_get,
    ),
    monitor(
        "http.no-session-id",
        &["http-no-session-id-on-modern"],
        "the client sends a request to the endpoint",
        "it has no Mcp-Session-Id",
        &["makes-up-session-without-handshake"],
        |scope| without_field(scope, "mcp-session-id", "Mcp-Session-Id"),
    ),
    monitor(
        "http.no-last-event-id",
        &["http-no-last-event-id-on-modern"],
        "the client sends a request to the endpoint",
        "it has no Last-Event-ID",
        &["sends-last-event-id-without-handshake"],
        |scope| without_field(scope, "last-event-id", "Last-Event-ID"),
    ),
    monitor(
        "cancellation.not-by-message-over-http",
        &["cancellation-http-no-notification"],
        "the client posts a message",
        "it is no `notifications/cancelled`: the end of the stream says that",
        &["cancels-by-message"],
        |scope| {
            let mut findings = Findings::default();
            for message in scope.client_messages() {
                findings.saw(message.event);
                if message.method() == Some("notifications/cancelled") {
                    findings.against(&[message.event], "notifications/cancelled was posted");
                }
            }
            findings
        },
    ),
];

/// The requests of the client, with the HTTP requests that carried them. A handshake belongs to another revision.
fn posted<'s>(scope: &Scope<'s, '_>) -> Vec<(usize, &'s Message, &'s HttpRequest)> {
    scope
        .client_messages()
        .filter(|m| m.is_request() && m.method() != Some("initialize") && !m.in_batch)
        .filter_map(|m| Some((m.event, m, scope.view.http_request(m.exchange?)?)))
        .collect()
}

fn posts(scope: &Scope<'_, '_>, wrong: impl Fn(&Message, &HttpRequest) -> Option<String>) -> Findings {
    let mut findings = Findings::default();
    for (event, message, http) in posted(scope) {
        findings.saw(event);
        if let Some(why) = wrong(message, http) {
            findings.against(&[event], why);
        }
    }
    findings
}

/// The bytes of a value that is written in Base64.
fn encoded(header: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    let text = header.strip_prefix("=?base64?")?.strip_suffix("?=")?;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

/// Whether a text can stand in a header as it is.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text && encoded(text).is_none()
}

fn name_header(scope: &Scope<'_, '_>, name: impl Fn(&Message) -> Option<&str>) -> Findings {
    let mut findings = Findings::default();
    for (event, message, http) in posted(scope) {
        let Some(name) = name(message) else { continue };
        findings.saw(event);
        let why = match view::header(&http.headers, "mcp-name") {
            None => "Mcp-Name is missing".to_owned(),
            // How names are written that can't stand there is another matter.
            Some(_) if !is_plain(name) => continue,
            Some(header) if header == name || encoded(header).is_some_and(|b| b == name.as_bytes()) => {
                continue;
            }
            Some(header) => format!("Mcp-Name is {header:?}, and the body says {name:?}"),
        };
        findings.against(&[event], why);
    }
    findings
}

fn no_get(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    // By server, since a GET says nothing of a revision.
    let mut answered: HashMap<&Option<String>, usize> = HashMap::new();
    for message in scope.view.messages().iter().filter(|m| !m.from_client() && m.result().is_some()) {
        let asked = scope.view.pair(message).filter(|m| of_meta(m, meta::PROTOCOL_VERSION).is_some());
        let Some(conversation) = asked.and_then(|m| scope.view.conversation(m)) else { continue };
        if conversation.revision().is_none_or(|revision| revision.is_stateless()) {
            findings.saw(message.event);
            answered.entry(&conversation.server).or_insert(message.event);
        }
    }
    for conversation in scope.conversations() {
        for (event, request) in scope.requests(conversation) {
            if let Some(&answer) = answered.get(&conversation.server)
                && answer < event
                && request.method != "POST"
            {
                findings.against(&[answer, event], format!("{} was sent", request.method));
            }
        }
    }
    findings
}

fn without_field(scope: &Scope<'_, '_>, name: &str, called: &str) -> Findings {
    let mut findings = Findings::default();
    for (event, request) in scope.all_requests() {
        // A handshake opens a conversation of another kind, to which the field may belong.
        if scope.view.messages_of(event).iter().any(|m| m.is_client_request("initialize")) {
            continue;
        }
        findings.saw(event);
        if let Some(value) = view::header(&request.headers, name) {
            findings.against(&[event], format!("{called} is {value}"));
        }
    }
    findings
}
