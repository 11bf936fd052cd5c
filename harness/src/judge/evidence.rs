//! Events as people read them: one line each, without secrets.

use super::pattern::field_name;
use super::redact::{credentials, scrub};
use super::view::{self, Message, View};
use serde_json::Value;
use sparring_reports::model::Evidence;
use sparring_wire::jsonrpc::Envelope;
use sparring_wire::transcript::{Direction, HttpRequest, HttpRole, Outcome, Party, ResponseEnd, What};

/// The longest line of evidence, in characters.
const LINE: usize = 200;

/// The event at `index` as evidence.
pub fn evidence(view: &View<'_>, index: usize) -> Option<Evidence> {
    let event = view.event(index)?;
    Some(Evidence { n: event.n, at_ms: event.at_us / 1000, text: line(view, index) })
}

/// The event at `index` in one line, such as `POST tools/call (Mcp-Session-Id: s-1) answered 404`. Truncated, with
/// secrets redacted.
pub fn line(view: &View<'_>, index: usize) -> String {
    let Some(event) = view.event(index) else { return String::new() };
    let text = words(view, index, &event.what);
    let several = view.conversations().iter().any(|c| c.server != event.server);
    let text = match (&event.server, event.incarnation) {
        (Some(server), Some(n)) if several => format!("{server}#{n} {text}"),
        (Some(server), None) if several => format!("{server} {text}"),
        (_, Some(n)) if n > 1 => format!("process {n}: {text}"),
        _ => text,
    };
    truncate(&scrub(&text), LINE)
}

fn words(view: &View<'_>, index: usize, what: &What) -> String {
    match what {
        What::Recorded(recorded) => {
            let of = recorded.upstream.as_ref().map_or_else(String::new, |url| format!(" of {url}"));
            format!("recording{of} begins")
        }
        What::End => "the transcript ends".to_owned(),
        What::ProcessStarted(process) => format!("the client starts {}", process.argv.join(" ")),
        What::GrandchildStarted { pid } => format!("the server starts a process of its own, {pid}"),
        What::Line(line) => {
            let stream = if line.direction == Direction::Received { "stdin" } else { "stdout" };
            let end = if line.unterminated { " (no newline)" } else { "" };
            match view.messages_of(index) {
                [] => format!("{stream}: {}{end}", line.text),
                messages => format!("{stream}: {}{end}", messages_in_words(view, messages, &line.text)),
            }
        }
        What::Stderr { bytes } => format!("stderr: {bytes} bytes"),
        What::StdinClosed => "the client closes stdin".to_owned(),
        What::StdoutClosed { by: Party::Server } => "the server closes stdout".to_owned(),
        What::StdoutClosed { by: Party::Client } => "the client closed the server's stdout".to_owned(),
        What::SignalReceived { signal } => format!("the server receives {signal}"),
        What::ProcessExiting { signal: Some(signal), .. } => format!("the server dies by {signal}"),
        What::ProcessExiting { code, .. } => {
            format!("the server exits{}", code.map_or_else(String::new, |code| format!(" with code {code}")))
        }
        What::ProcessEnded { pid } => format!("the server process {pid} is gone"),
        What::HttpRequest(request) => request_in_words(view, index, request),
        What::HttpResponse(response) => {
            let request = view
                .exchange(response.exchange)
                .zip(view.http_request(response.exchange))
                .map_or_else(|| "a request".to_owned(), |(e, r)| request_in_words(view, e.request, r));
            let said = match view.messages_of(index) {
                [] => String::new(),
                messages => format!(": {}", messages_in_words(view, messages, "")),
            };
            format!("{request} answered {}{said}", response.status)
        }
        What::StreamEvent(sent) => match (view.messages_of(index), &sent.data, &sent.raw) {
            ([], None, Some(raw)) => format!("stream: raw {}", quoted(raw)),
            ([], Some(data), _) => format!("stream: event {}", quoted(data)),
            ([], None, None) => "stream: event without data".to_owned(),
            (messages, data, _) => {
                format!("stream: {}", messages_in_words(view, messages, data.as_deref().unwrap_or_default()))
            }
        },
        What::StreamEnded { exchange, by } => {
            let who = if *by == Party::Client { "the client closes" } else { "the server ends" };
            let of =
                view.http_request(*exchange).map_or_else(String::new, |r| format!(" of the {}", r.method));
            format!("{who} the stream{of}")
        }
        What::ResponseBroken { exchange, bytes, how } => {
            let how = match how {
                ResponseEnd::Closed => "closes the connection",
                ResponseEnd::Reset => "resets the connection",
                ResponseEnd::Stalled => "falls silent",
            };
            let of =
                view.http_request(*exchange).map_or_else(String::new, |r| format!(" to the {}", r.method));
            format!("the server {how} after {bytes} bytes of the response{of}")
        }
        What::RuleFired { rule } => format!("rule {rule}"),
        What::ModelChanged { change } => format!("the server's model changes: {change}"),
        What::ClientStarted { argv, .. } => format!("client started: {}", argv.join(" ")),
        What::ClientEnded { code, signal, expected } => {
            let how = match (signal, code) {
                (Some(signal), _) => format!("by {signal}"),
                (None, Some(code)) => format!("with code {code}"),
                (None, None) => String::new(),
            };
            format!("client ended {how}{}", if *expected { "" } else { ", unexpectedly" })
        }
        What::ClientOutput { stream, text } => format!("client's {stream}: {}", quoted(text)),
        What::StepStarted { step, op, arguments } => {
            format!("driver: {} {}", step_name(step, op), truncate(&arguments.to_string(), 100))
        }
        What::StepEnded { step, op, outcome, .. } => {
            let name = step_name(step, op);
            match outcome {
                Outcome::Ok { value } => format!("driver: {name} ok {}", truncate(&value.to_string(), 100)),
                Outcome::Error { error } => {
                    let kind = format!("{:?}", error.kind).to_lowercase();
                    let code = error.code.map_or_else(String::new, |code| format!(" {code}"));
                    format!("driver: {name} failed ({kind}{code}): {}", quoted(&error.message))
                }
                Outcome::Pending { after_ms } => format!("driver: {name} still running after {after_ms} ms"),
                Outcome::Unsupported { reason } => format!("driver: {name} unsupported: {reason}"),
            }
        }
        What::DriverEvent { name, data } => {
            format!("driver event {name} {}", truncate(&data.to_string(), 120))
        }
        What::Deadline { awaited } => format!("deadline passed, awaiting {awaited}"),
        What::Escaped { pid, command } => format!("process {pid} outlived the case: {command}"),
        What::HarnessError { message } => format!("harness error: {message}"),
    }
}

fn step_name(step: &str, op: &str) -> String {
    if step == op { op.to_owned() } else { format!("{op} `{step}`") }
}

fn request_in_words(view: &View<'_>, index: usize, request: &HttpRequest) -> String {
    let mut text = request.method.clone();
    match view.messages_of(index) {
        [] => {
            text.push(' ');
            text.push_str(&request.target);
        }
        messages => {
            text.push(' ');
            text.push_str(&messages_in_words(view, messages, &request.body));
        }
    }
    if request.role == HttpRole::AuthorizationServer {
        text.push_str(" at the authorization server");
    } else if request.role == HttpRole::Other {
        text.push_str(" at another origin");
    }
    let telling: Vec<String> = ["mcp-session-id", "mcp-protocol-version", "last-event-id", "authorization"]
        .into_iter()
        .filter_map(|name| {
            let value = view::header(&request.headers, name)?;
            let value = if name == "authorization" { credentials(value) } else { value.to_owned() };
            Some(format!("{}: {value}", field_name(name)))
        })
        .collect();
    if !telling.is_empty() {
        text.push_str(&format!(" ({})", telling.join(", ")));
    }
    text
}

fn messages_in_words(view: &View<'_>, messages: &[Message], raw: &str) -> String {
    match messages {
        [one] if !one.in_batch => message_in_words(view, one, raw),
        many => {
            let all: Vec<String> = many.iter().take(4).map(|m| message_in_words(view, m, "")).collect();
            let more = if many.len() > 4 { ", …" } else { "" };
            format!("batch [{}{more}]", all.join(", "))
        }
    }
}

fn message_in_words(view: &View<'_>, message: &Message, raw: &str) -> String {
    let value = message.inspected.value.as_ref();
    let id = value.and_then(|v| v.get("id")).map_or_else(String::new, |id| format!(" id {id}"));
    let text = match &message.inspected.envelope {
        Envelope::Request { method, params, .. } => {
            format!("{method}{id}{}", telling(method, params.as_ref()))
        }
        Envelope::Notification { method, params } => format!("{method}{}", telling(method, params.as_ref())),
        Envelope::Result { result, .. } => {
            let to = view.pair(message).and_then(Message::method).unwrap_or("an unknown request");
            format!("result of {to}{id} {}", truncate(&result.to_string(), 60))
        }
        Envelope::Error { code, message: said, .. } => {
            let to = view.pair(message).and_then(Message::method).unwrap_or("an unknown request");
            let code = code.map_or_else(String::new, |code| format!(" {code}"));
            format!("error{code} to {to}{id}: {}", quoted(said.as_deref().unwrap_or_default()))
        }
        Envelope::Batch(_) | Envelope::Unknown => return quoted(raw),
    };
    match message.inspected.faults.first() {
        Some(fault) => format!("{text} ({fault})"),
        None => text,
    }
}

/// The part of the params by which requests of a method are told apart.
fn telling(method: &str, params: Option<&Value>) -> String {
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        "initialize" => "protocolVersion",
        "notifications/cancelled" => "requestId",
        method if method.ends_with("/list") => "cursor",
        _ => return String::new(),
    };
    params.and_then(|p| p.get(member)).map_or_else(String::new, |value| format!(" {member}={value}"))
}

fn quoted(text: &str) -> String {
    // `{:?}` escapes control characters, which must not reach a terminal.
    format!("{:?}", truncate(text, 120))
}

/// The text, cut after `limit` characters.
pub(crate) fn truncate(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
