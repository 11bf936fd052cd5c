//! Evaluation of patterns over a view, and their rendering in words.

use super::json;
use super::view::{self, Message, View};
use serde_json::Value;
use sparring_scenarios::pattern::{
    ErrorPattern, JsonPattern, OutcomeWord, Pattern, ProcessEvent, StreamPhase, TextPattern,
};
use sparring_wire::jsonrpc::Envelope;
use sparring_wire::transcript::{Event, HttpRequest, HttpRole, Outcome, Party, What};
use std::collections::BTreeMap;
use std::ops::Range;

/// The first event in `range` that matches. `after` is the event to which `same_id` and `names_id` refer.
pub fn find(pattern: &Pattern, view: &View<'_>, range: Range<usize>, after: Option<usize>) -> Option<usize> {
    Matching::new(pattern, view, range, after).next()
}

/// All events in `range` that match, in order.
pub fn find_all<'v>(
    pattern: &'v Pattern,
    view: &'v View<'_>,
    range: Range<usize>,
    after: Option<usize>,
) -> impl Iterator<Item = usize> + 'v {
    Matching::new(pattern, view, range, after)
}

struct Matching<'v, 'a> {
    pattern: &'v Pattern,
    view: &'v View<'a>,
    range: Range<usize>,
    after: Option<usize>,
}

impl<'v, 'a> Matching<'v, 'a> {
    fn new(pattern: &'v Pattern, view: &'v View<'a>, range: Range<usize>, after: Option<usize>) -> Self {
        let mut range = range.start..range.end.min(view.len());
        if let Some(nth) = pattern.nth {
            // Counted over the whole transcript, so at most this one event can match.
            let nth = usize::try_from(nth).unwrap_or(usize::MAX);
            let mut seen = 0;
            let only = (0..view.len()).find(|&index| {
                seen += occurrences(pattern, view, index, after);
                seen >= nth
            });
            range = match only {
                Some(only) if range.contains(&only) => only..only + 1,
                _ => 0..0,
            };
        }
        Self { pattern, view, range, after }
    }
}

impl Iterator for Matching<'_, '_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let Self { pattern, view, after, .. } = *self;
        self.range.find(|&index| matches(pattern, view, index, after))
    }
}

/// Whether the event at `index` is like the pattern, `nth` apart.
pub fn matches(pattern: &Pattern, view: &View<'_>, index: usize, after: Option<usize>) -> bool {
    occurrences(pattern, view, index, after) > 0
}

/// How often the event at `index` is like the pattern, `nth` apart: a batch carries several messages.
pub(crate) fn occurrences(pattern: &Pattern, view: &View<'_>, index: usize, after: Option<usize>) -> usize {
    match view.event(index).filter(|event| of_place(pattern, event)) {
        Some(event) => head(pattern, view, index, event, after),
        None => 0,
    }
}

fn of_place(pattern: &Pattern, event: &Event) -> bool {
    pattern.server.as_ref().is_none_or(|server| event.server.as_ref() == Some(server))
        && pattern.incarnation.is_none_or(|incarnation| event.incarnation == Some(incarnation))
}

/// The message heads: the wanted method, and whether a message is of that kind.
type Kind = fn(&Message) -> bool;

fn message_head(pattern: &Pattern) -> Option<(&str, Kind)> {
    let heads: [(&Option<String>, Kind); 6] = [
        (&pattern.request, |m| m.from_client() && m.is_request()),
        (&pattern.notification, |m| m.from_client() && m.is_notification()),
        (&pattern.answer, |m| m.from_client() && m.is_response()),
        (&pattern.server_request, |m| !m.from_client() && m.is_request()),
        (&pattern.server_notification, |m| !m.from_client() && m.is_notification()),
        (&pattern.server_answer, |m| !m.from_client() && m.is_response()),
    ];
    heads.into_iter().find_map(|(method, kind)| method.as_deref().map(|method| (method, kind)))
}

fn head(pattern: &Pattern, view: &View<'_>, index: usize, event: &Event, after: Option<usize>) -> usize {
    let Some((method, kind)) = message_head(pattern) else {
        return usize::from(other_head(pattern, view, index, event, after));
    };
    if !exchange(pattern, view, index) {
        return 0;
    }
    let is_like = |message: &&Message| {
        kind(message)
            && (method == "*" || method_of(view, message) == Some(method))
            && message_like(pattern, view, message, after)
    };
    view.messages_of(index).iter().filter(is_like).count()
}

/// The heads that are about an event as a whole.
fn other_head(pattern: &Pattern, view: &View<'_>, index: usize, event: &Event, after: Option<usize>) -> bool {
    if let Some(method) = &pattern.http {
        let is_it = match (&event.what, pattern.status) {
            (What::HttpRequest(_), None) => true,
            (What::HttpResponse(response), Some(status)) => response.status == status,
            _ => false,
        };
        let Some(request) = view.exchange_of(index).filter(|_| is_it).and_then(|n| view.http_request(n))
        else {
            return false;
        };
        return (method == "*" || method.eq_ignore_ascii_case(&request.method))
            && request.role == pattern.role.unwrap_or_default()
            && exchange(pattern, view, index)
            && body_like(pattern, view, request, after);
    }
    if let Some(process) = pattern.process {
        return process_event(pattern, process, &event.what);
    }
    if let Some(phase) = pattern.stream {
        let is_it = match (&event.what, phase) {
            (What::StreamEvent(_), StreamPhase::Event) => true,
            (What::StreamEnded { by, .. }, StreamPhase::EndedByServer) => *by == Party::Server,
            (What::StreamEnded { by, .. }, StreamPhase::EndedByClient) => *by == Party::Client,
            _ => false,
        };
        return is_it
            && exchange(pattern, view, index)
            && (!about_message(pattern)
                || view.messages_of(index).iter().any(|m| message_like(pattern, view, m, after)));
    }
    if let Some(step) = &pattern.step {
        return matches!(&event.what, What::StepEnded { step: label, outcome, .. }
            if label == step && outcome_like(pattern, outcome));
    }
    if let Some(wanted) = &pattern.driver_event {
        return matches!(&event.what, What::DriverEvent { name, data }
            if name == wanted && json_like(pattern.value.as_ref(), Some(data)));
    }
    if let Some(wanted) = &pattern.rule {
        return matches!(&event.what, What::RuleFired { rule } if rule == wanted);
    }
    false
}

/// The method of a request or notification; of a response, that of the request it answers.
fn method_of<'v>(view: &'v View<'_>, message: &'v Message) -> Option<&'v str> {
    message.method().or_else(|| view.pair(message)?.method())
}

const fn about_message(pattern: &Pattern) -> bool {
    pattern.params.is_some()
        || pattern.result.is_some()
        || pattern.error.is_some()
        || pattern.same_id
        || pattern.names_id.is_some()
}

fn message_like(pattern: &Pattern, view: &View<'_>, message: &Message, after: Option<usize>) -> bool {
    let envelope = &message.inspected.envelope;
    let error = match (pattern.error, envelope) {
        (None, _) => true,
        (Some(ErrorPattern::Any), Envelope::Error { .. }) => true,
        (Some(ErrorPattern::None), Envelope::Result { .. }) => true,
        (Some(ErrorPattern::Code(wanted)), Envelope::Error { code, .. }) => *code == Some(wanted),
        _ => false,
    };
    let subject = || after.and_then(|event| view.subject_id(event));
    error
        && json_like(pattern.params.as_ref(), envelope.params())
        && pattern.result.as_ref().is_none_or(|wanted| {
            matches!(envelope, Envelope::Result { result, .. } if json::matches(&wanted.0, Some(result)))
        })
        && (!pattern.same_id || (message.id().is_some() && message.id() == subject()))
        && pattern.names_id.as_ref().is_none_or(|member| {
            subject().is_some_and(|id| message.param(member) == Some(&id.to_value()))
        })
}

fn json_like(wanted: Option<&JsonPattern>, found: Option<&Value>) -> bool {
    wanted.is_none_or(|wanted| json::matches(&wanted.0, found))
}

/// The message in the body of an HTTP request.
fn body_like(pattern: &Pattern, view: &View<'_>, request: &HttpRequest, after: Option<usize>) -> bool {
    if !about_message(pattern) {
        return true;
    }
    view.exchange(request.exchange).is_some_and(|exchange| {
        view.messages_of(exchange.request).iter().any(|m| message_like(pattern, view, m, after))
    })
}

/// The restrictions on the HTTP exchange that an event belongs to.
fn exchange(pattern: &Pattern, view: &View<'_>, index: usize) -> bool {
    let about_exchange = pattern.path.is_some()
        || pattern.method.is_some()
        || pattern.status.is_some()
        || pattern.role.is_some()
        || !(pattern.header.is_empty() && pattern.query.is_empty() && pattern.form.is_empty());
    if !about_exchange {
        return true;
    }
    let Some(number) = view.exchange_of(index) else { return false };
    let (Some(exchange), Some(request)) = (view.exchange(number), view.http_request(number)) else {
        return false;
    };
    let method = |wanted: &String| {
        view.messages_of(exchange.request).iter().any(|m| m.method() == Some(wanted.as_str()))
    };
    pattern.path.as_ref().is_none_or(|wanted| view::path(&request.target) == wanted)
        && pattern.method.as_ref().is_none_or(method)
        && pattern.status.is_none_or(|wanted| view.http_response(number).is_some_and(|r| r.status == wanted))
        && pattern.role.is_none_or(|wanted| request.role == wanted)
        && texts_like(&pattern.header, &request.headers, true)
        && (pattern.query.is_empty()
            || texts_like(&pattern.query, &view::form(view::query(&request.target)), false))
        && (pattern.form.is_empty() || texts_like(&pattern.form, &view::form(&request.body), false))
}

fn texts_like(wanted: &BTreeMap<String, TextPattern>, found: &[(String, String)], any_case: bool) -> bool {
    wanted.iter().all(|(name, wanted)| {
        let is_named = |n: &str| if any_case { n.eq_ignore_ascii_case(name) } else { n == name };
        let mut values = found.iter().filter(|(n, _)| is_named(n)).map(|(_, value)| value);
        match wanted {
            TextPattern::Absent => values.next().is_none(),
            TextPattern::Present => values.next().is_some(),
            TextPattern::Is(text) => values.any(|value| value == text),
        }
    })
}

fn process_event(pattern: &Pattern, wanted: ProcessEvent, what: &What) -> bool {
    let signal =
        |signal: Option<&String>| pattern.signal.as_ref().is_none_or(|wanted| signal == Some(wanted));
    match (wanted, what) {
        (ProcessEvent::Started, What::ProcessStarted(process)) => pattern
            .value
            .as_ref()
            .is_none_or(|wanted| json_like(Some(wanted), serde_json::to_value(process).ok().as_ref())),
        (ProcessEvent::StdinClosed, What::StdinClosed)
        | (ProcessEvent::Ended, What::ProcessEnded { .. })
        | (ProcessEvent::Escaped, What::Escaped { .. }) => true,
        (ProcessEvent::Signal, What::SignalReceived { signal: received }) => signal(Some(received)),
        (ProcessEvent::Exiting, What::ProcessExiting { signal: raised, .. }) => signal(raised.as_ref()),
        _ => false,
    }
}

fn outcome_like(pattern: &Pattern, outcome: &Outcome) -> bool {
    let word = match pattern.outcome {
        None => true,
        Some(OutcomeWord::Ok) => matches!(outcome, Outcome::Ok { .. }),
        Some(OutcomeWord::Error) => matches!(outcome, Outcome::Error { .. }),
        Some(OutcomeWord::Pending) => matches!(outcome, Outcome::Pending { .. }),
    };
    let failure = match outcome {
        Outcome::Error { error } => {
            (pattern.failure.is_empty() || pattern.failure.contains(&error.kind))
                && pattern.code.is_none_or(|code| error.code == Some(code))
                && pattern
                    .message
                    .as_ref()
                    .is_none_or(|text| error.message.to_lowercase().contains(&text.to_lowercase()))
        }
        _ => pattern.failure.is_empty() && pattern.code.is_none() && pattern.message.is_none(),
    };
    let value = pattern.value.as_ref().is_none_or(
        |wanted| matches!(outcome, Outcome::Ok { value } if json::matches(&wanted.0, Some(value))),
    );
    word && failure && value
}

/// Gives a pattern without a head the head of another.
pub(crate) fn with_head_of(pattern: &Pattern, of: &Pattern) -> Pattern {
    let mut pattern = pattern.clone();
    if !has_head(&pattern) {
        pattern.request.clone_from(&of.request);
        pattern.notification.clone_from(&of.notification);
        pattern.answer.clone_from(&of.answer);
        pattern.server_request.clone_from(&of.server_request);
        pattern.server_notification.clone_from(&of.server_notification);
        pattern.server_answer.clone_from(&of.server_answer);
        pattern.http.clone_from(&of.http);
        pattern.process = of.process;
        pattern.stream = of.stream;
        pattern.step.clone_from(&of.step);
        pattern.driver_event.clone_from(&of.driver_event);
        pattern.rule.clone_from(&of.rule);
        // The listener and the status decide which event an HTTP head means, so they belong to the head.
        pattern.role = pattern.role.or(of.role);
        pattern.status = pattern.status.or(of.status);
    }
    pattern
}

fn has_head(pattern: &Pattern) -> bool {
    message_head(pattern).is_some()
        || pattern.http.is_some()
        || pattern.process.is_some()
        || pattern.stream.is_some()
        || pattern.step.is_some()
        || pattern.driver_event.is_some()
        || pattern.rule.is_some()
}

/// The pattern with all its restrictions taken away: events of the same kind, for near misses.
pub(crate) fn only_head(pattern: &Pattern) -> Pattern {
    let mut head = with_head_of(&Pattern::default(), pattern);
    head.status = None;
    head
}

/// The pattern in words, such as `a POST initialize without Mcp-Session-Id`.
pub fn describe(pattern: &Pattern) -> String {
    let mut words = head_in_words(pattern);
    let mut add = |text: String| {
        words.push(' ');
        words.push_str(&text);
    };
    for (kind, texts) in [("", &pattern.header), ("query ", &pattern.query), ("form ", &pattern.form)] {
        for (name, text) in texts {
            let name = if kind.is_empty() { field_name(name) } else { format!("`{name}`") };
            add(match text {
                TextPattern::Absent => format!("without {kind}{name}"),
                TextPattern::Present => format!("with {kind}{name}"),
                TextPattern::Is(value) => format!("with {kind}{name}: {value}"),
            });
        }
    }
    if let Some(params) = &pattern.params {
        add(format!("with params like {}", short(&params.0)));
    }
    if let Some(result) = &pattern.result {
        add(format!("with a result like {}", short(&result.0)));
    }
    match pattern.error {
        Some(ErrorPattern::Any) => add("with an error".to_owned()),
        Some(ErrorPattern::None) => add("with a result".to_owned()),
        Some(ErrorPattern::Code(code)) => add(format!("with error {code}")),
        None => {}
    }
    if pattern.same_id {
        add("with the same id".to_owned());
    }
    if let Some(member) = &pattern.names_id {
        add(format!("whose `{member}` is the id of that request"));
    }
    if pattern.http.is_none()
        && let Some(status) = pattern.status
    {
        add(format!("answered {status}"));
    }
    if let Some(value) = &pattern.value {
        add(format!("with {}", short(&value.0)));
    }
    if !pattern.failure.is_empty() {
        let kinds: Vec<String> =
            pattern.failure.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
        add(format!("(failure: {})", kinds.join(" or ")));
    }
    if let Some(code) = pattern.code {
        add(format!("with code {code}"));
    }
    if let Some(message) = &pattern.message {
        add(format!("saying \"{message}\""));
    }
    if let Some(server) = &pattern.server {
        add(format!("of server `{server}`"));
    }
    if let Some(incarnation) = pattern.incarnation {
        add(format!("in process {incarnation}"));
    }
    if let Some(nth) = pattern.nth {
        add(format!("(number {nth})"));
    }
    words
}

fn head_in_words(pattern: &Pattern) -> String {
    let named = |method: &str, kind: &str| match method {
        "*" => format!("any {kind}"),
        method => format!("a {kind} {method}"),
    };
    if let Some(method) = &pattern.request {
        return named(method, "request");
    }
    if let Some(method) = &pattern.notification {
        return named(method, "notification");
    }
    if let Some(method) = &pattern.server_notification {
        return named(method, "server notification");
    }
    if let Some(method) = &pattern.answer {
        return answer_in_words(method, "the client's answer", "server request");
    }
    if let Some(method) = &pattern.server_answer {
        return answer_in_words(method, "the server's answer", "request");
    }
    if let Some(method) = &pattern.server_request {
        return named(method, "server request");
    }
    if let Some(http) = &pattern.http {
        let mut text = if http == "*" { "an HTTP request".to_owned() } else { format!("a {http}") };
        if let Some(method) = &pattern.method {
            text = format!("{text} {method}");
        }
        if let Some(path) = &pattern.path {
            text = format!("{text} to {path}");
        }
        text.push_str(match pattern.role {
            Some(HttpRole::AuthorizationServer) => " at the authorization server",
            Some(HttpRole::Other) => " at another origin",
            _ => "",
        });
        if let Some(status) = pattern.status {
            text = format!("{text} answered {status}");
        }
        return text;
    }
    if let Some(process) = pattern.process {
        let text = match process {
            ProcessEvent::Started => "the server process is started",
            ProcessEvent::StdinClosed => "the client closes the server's stdin",
            ProcessEvent::Signal => "the server receives a signal",
            ProcessEvent::Exiting => "the server exits by itself",
            ProcessEvent::Ended => "the server process is gone",
            ProcessEvent::Escaped => "a process outlives the client",
        };
        return match &pattern.signal {
            Some(signal) if process == ProcessEvent::Signal => format!("the server receives {signal}"),
            Some(signal) => format!("{text} ({signal})"),
            None => text.to_owned(),
        };
    }
    if let Some(phase) = pattern.stream {
        let text = match phase {
            StreamPhase::Event => "an event on a stream",
            StreamPhase::EndedByServer => "a stream ended by the server",
            StreamPhase::EndedByClient => "a stream closed by the client",
        };
        return pattern
            .method
            .as_ref()
            .map_or_else(|| text.to_owned(), |m| format!("{text} (answer to {m})"));
    }
    if let Some(step) = &pattern.step {
        return match pattern.outcome {
            None => format!("step `{step}` ends"),
            Some(OutcomeWord::Ok) => format!("step `{step}` succeeds"),
            Some(OutcomeWord::Error) => format!("step `{step}` fails"),
            Some(OutcomeWord::Pending) => format!("step `{step}` is still running"),
        };
    }
    if let Some(name) = &pattern.driver_event {
        return format!("driver event `{name}`");
    }
    if let Some(rule) = &pattern.rule {
        return format!("rule `{rule}` fires");
    }
    "an event".to_owned()
}

fn answer_in_words(method: &str, whose: &str, to: &str) -> String {
    if method == "*" { format!("{whose} to a {to}") } else { format!("{whose} to {method}") }
}

/// `mcp-session-id` as people write it.
pub(crate) fn field_name(name: &str) -> String {
    let mut parts = Vec::new();
    for part in name.split('-') {
        let mut chars = part.chars();
        parts
            .push(chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect()));
    }
    parts.join("-")
}

fn short(value: &Value) -> String {
    super::evidence::truncate(&value.to_string(), 120)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::testing::{Transcript, error, http, notification, request, result, transcript};
    use serde_json::json;
    use sparring_wire::transcript::{FailureKind, Process};

    /// One of each kind of event.
    fn everything() -> Transcript {
        http()
            .post(request(1, "tools/call", json!({"name": "echo"})))
            .stream()
            .sse(1, request("s-1", "roots/list", Value::Null))
            .header("mcp-session-id", "s-1")
            .post(error("s-1", -32601))
            .answer(202, Value::Null)
            .sse(1, notification("notifications/message", json!({"level": "info"})))
            .sse(1, result(1, json!({"content": []})))
            .stream_ended(1, Party::Server)
            .auth("POST", "/token?x=1", &[("grant_type", "refresh_token")])
            .answer(400, json!({"error": "invalid_grant"}))
            .event(What::ProcessStarted(Process::default()))
            .event(What::SignalReceived { signal: "SIGTERM".into() })
            .event(What::RuleFired { rule: "r".into() })
            .event(What::DriverEvent { name: "progress".into(), data: json!({"progress": 1}) })
            .failed("call", FailureKind::Timeout, "Took Too Long")
            .post(json!([
                notification("notifications/initialized", Value::Null),
                request(2, "ping", Value::Null)
            ]))
            .event(What::ProcessEnded { pid: 1 })
            .event(What::Escaped { pid: 2, command: "server".into() })
    }

    #[test]
    fn each_head_and_restriction_finds_its_event() {
        // The event's number from 1; 0: none matches.
        let rows = [
            (json!({"request": "tools/call"}), 1, "a request tools/call"),
            (json!({"request": "*", "nth": 2}), 16, "any request (number 2)"),
            (json!({"notification": "*", "nth": 1}), 16, "any notification (number 1)"),
            (json!({"request": "ping"}), 16, "a request ping"),
            (
                json!({"notification": "notifications/initialized"}),
                16,
                "a notification notifications/initialized",
            ),
            (
                json!({"request": "tools/call", "params": "{\"name\": \"add\"}"}),
                0,
                "a request tools/call with params like {\"name\":\"add\"}",
            ),
            (json!({"server_request": "roots/list"}), 3, "a server request roots/list"),
            (
                json!({"answer": "roots/list", "error": "-32601"}),
                4,
                "the client's answer to roots/list with error -32601",
            ),
            (
                json!({"answer": "*", "error": "none"}),
                0,
                "the client's answer to a server request with a result",
            ),
            (json!({"server_notification": "*"}), 6, "any server notification"),
            (
                json!({"server_answer": "tools/call", "result": "{\"content\": {\"$length\": 0}}"}),
                7,
                "the server's answer to tools/call with a result like {\"content\":{\"$length\":0}}",
            ),
            (
                json!({"http": "POST", "header": {"mcp-session-id": "absent"}}),
                1,
                "a POST without Mcp-Session-Id",
            ),
            (
                json!({"http": "POST", "header": {"mcp-session-id": "s-1"}}),
                4,
                "a POST with Mcp-Session-Id: s-1",
            ),
            (
                json!({"http": "*", "method": "tools/call", "status": 200}),
                2,
                "an HTTP request tools/call answered 200",
            ),
            (json!({"http": "POST", "status": 202}), 5, "a POST answered 202"),
            (
                json!({"http": "POST", "path": "/token", "query": {"x": "present"},
                       "form": {"grant_type": "refresh_token"}, "role": "authorization-server"}),
                9,
                "a POST to /token at the authorization server with query `x` with form `grant_type`: refresh_token",
            ),
            (json!({"http": "POST", "path": "/token"}), 0, "a POST to /token"),
            (json!({"process": "started"}), 11, "the server process is started"),
            (json!({"process": "ended"}), 17, "the server process is gone"),
            (json!({"process": "escaped"}), 18, "a process outlives the client"),
            (json!({"process": "signal", "signal": "SIGTERM"}), 12, "the server receives SIGTERM"),
            (json!({"process": "signal", "signal": "SIGINT"}), 0, "the server receives SIGINT"),
            (
                json!({"stream": "event", "params": "{\"level\": \"info\"}"}),
                6,
                "an event on a stream with params like {\"level\":\"info\"}",
            ),
            (
                json!({"stream": "ended-by-server", "method": "tools/call"}),
                8,
                "a stream ended by the server (answer to tools/call)",
            ),
            (json!({"stream": "ended-by-client"}), 0, "a stream closed by the client"),
            (json!({"rule": "r"}), 13, "rule `r` fires"),
            (
                json!({"driver_event": "progress", "value": "{\"progress\": 1}"}),
                14,
                "driver event `progress` with {\"progress\":1}",
            ),
            (
                json!({"step": "call", "outcome": "error", "failure": ["timeout"], "message": "too long"}),
                15,
                "step `call` fails (failure: timeout) saying \"too long\"",
            ),
            (json!({"step": "call", "outcome": "ok"}), 0, "step `call` succeeds"),
            (json!({"step": "call", "failure": ["auth"]}), 0, "step `call` ends (failure: auth)"),
            (
                json!({"request": "tools/call", "server": "other"}),
                0,
                "a request tools/call of server `other`",
            ),
            (json!({"request": "tools/call", "incarnation": 1}), 0, "a request tools/call in process 1"),
        ];
        let t = everything();
        let view = View::of(&t.events);
        for (pattern, wanted, words) in rows {
            let parsed: Pattern = serde_json::from_value(pattern.clone()).unwrap();
            let found = find(&parsed, &view, 0..view.len(), None);
            assert_eq!(found.map_or(0, |index| index + 1), wanted, "{pattern}");
            assert_eq!(describe(&parsed), words, "{pattern}");
        }
    }

    #[test]
    fn ids_are_compared_with_the_event_before() {
        let t = transcript()
            .client(request(1, "tools/call", Value::Null))
            .client(request(2, "tools/call", Value::Null))
            .client(notification("notifications/cancelled", json!({"requestId": 2})))
            .mock(result(2, json!({})))
            .mock(result(1, json!({})));
        let view = View::of(&t.events);
        let at = |pattern: Value, after| {
            find(&serde_json::from_value(pattern).unwrap(), &view, 0..view.len(), Some(after))
        };
        let answer = json!({"server_answer": "*", "same_id": true});
        assert_eq!((at(answer.clone(), 0), at(answer.clone(), 1), at(answer, 2)), (Some(4), Some(3), None));
        let cancelled = json!({"notification": "*", "names_id": "requestId"});
        assert_eq!((at(cancelled.clone(), 0), at(cancelled, 1)), (None, Some(2)));
    }

    #[test]
    fn a_view_that_grows_finds_the_same() {
        let t = everything();
        let whole = View::of(&t.events);
        let mut grown = View::new();
        let pattern: Pattern = serde_json::from_value(json!({"answer": "roots/list"})).unwrap();
        let mut first = None;
        for event in &t.events {
            let index = grown.push(event.clone());
            first = first.or_else(|| find(&pattern, &grown, index..index + 1, None));
        }
        assert_eq!(first, find(&pattern, &whole, 0..whole.len(), None));
        assert_eq!(first, Some(3));
    }
}
