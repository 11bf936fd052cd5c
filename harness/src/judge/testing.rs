//! Transcripts in a few words, for tests.

use serde_json::{Value, json};
use sparring_wire::transcript::{
    Direction, Event, Failure, FailureKind, HttpRequest, HttpResponse, HttpRole, LineSeen, Outcome, Party,
    StreamEvent, What,
};

/// A transcript under construction. Each event comes a millisecond after the one before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transcript {
    pub(crate) events: Vec<Event>,
    server: Option<String>,
    incarnation: Option<u32>,
    at_us: u64,
    exchanges: u64,
    /// Sent with each POST, GET and DELETE to the MCP endpoint.
    headers: Vec<(String, String)>,
}

pub(crate) fn transcript() -> Transcript {
    Transcript { server: Some("server".into()), incarnation: Some(1), ..Transcript::default() }
}

/// Over HTTP, with the headers of a good client.
pub(crate) fn http() -> Transcript {
    let mut t = Transcript { server: Some("server".into()), ..Transcript::default() };
    t.headers =
        owned(&[("accept", "application/json, text/event-stream"), ("content-type", "application/json")]);
    t
}

fn owned(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "id": id.into(), "method": method});
    if !params.is_null() {
        message["params"] = params;
    }
    message
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if !params.is_null() {
        message["params"] = params;
    }
    message
}

pub(crate) fn result(id: impl Into<Value>, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}

pub(crate) fn error(id: impl Into<Value>, code: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "error": {"code": code, "message": "no"}})
}

/// An `initialize` request with this id, offering this version.
pub(crate) fn initialize(id: i64, version: &str, capabilities: Value) -> Value {
    request(
        id,
        "initialize",
        json!({"protocolVersion": version, "capabilities": capabilities,
               "clientInfo": {"name": "c", "version": "1"}}),
    )
}

/// Its answer.
pub(crate) fn initialized(id: i64, version: &str, capabilities: Value) -> Value {
    result(
        id,
        json!({"protocolVersion": version, "capabilities": capabilities,
               "serverInfo": {"name": "s", "version": "1"}}),
    )
}

impl Transcript {
    pub(crate) fn server(mut self, server: &str) -> Self {
        self.server = Some(server.to_owned());
        self
    }

    pub(crate) fn process(mut self, incarnation: u32) -> Self {
        self.incarnation = Some(incarnation);
        self
    }

    pub(crate) fn wait(mut self, ms: u64) -> Self {
        self.at_us += ms * 1000;
        self
    }

    pub(crate) fn event(mut self, what: What) -> Self {
        self.at_us += 1000;
        let n = self.events.len() as u64 + 1;
        self.events.push(Event {
            n,
            at_us: self.at_us,
            server: self.server.clone(),
            incarnation: self.incarnation,
            what,
        });
        self
    }

    /// The client writes a line.
    pub(crate) fn client(self, message: Value) -> Self {
        self.client_line(&message.to_string())
    }

    pub(crate) fn client_line(self, text: &str) -> Self {
        self.line(Direction::Received, text, |_| ())
    }

    /// The server writes a line.
    pub(crate) fn mock(self, message: Value) -> Self {
        self.line(Direction::Sent, &message.to_string(), |_| ())
    }

    /// The server writes a line that is wrong on purpose.
    pub(crate) fn mock_fault(self, text: &str) -> Self {
        self.line(Direction::Sent, text, |line| line.scripted_fault = true)
    }

    pub(crate) fn line(self, direction: Direction, text: &str, set: impl FnOnce(&mut LineSeen)) -> Self {
        let mut line = LineSeen {
            direction,
            text: text.to_owned(),
            invalid_utf8: false,
            carriage_return: false,
            unterminated: false,
            scripted_fault: false,
        };
        set(&mut line);
        self.event(What::Line(line))
    }

    /// The handshake over stdio, with request id 0.
    pub(crate) fn handshake(self, version: &str, client: Value, server: Value) -> Self {
        self.client(initialize(0, version, client))
            .mock(initialized(0, version, server))
            .client(notification("notifications/initialized", Value::Null))
    }

    /// Sets a header of all further requests to the endpoint.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| n != name);
        self
    }

    pub(crate) fn post(self, message: Value) -> Self {
        self.post_text(&message.to_string())
    }

    pub(crate) fn post_text(self, body: &str) -> Self {
        self.http("POST", "/mcp", body)
    }

    /// A request to the endpoint.
    pub(crate) fn http(self, method: &str, target: &str, body: &str) -> Self {
        let headers = self.headers.clone();
        self.to(HttpRole::Mcp, method, target, headers, body)
    }

    /// A GET for the stream of server-sent events.
    pub(crate) fn get(self) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|(n, _)| n != "accept" && n != "content-type");
        headers.extend(owned(&[("accept", "text/event-stream")]));
        self.to(HttpRole::Mcp, "GET", "/mcp", headers, "")
    }

    pub(crate) fn delete(self) -> Self {
        self.http("DELETE", "/mcp", "")
    }

    pub(crate) fn to(
        mut self,
        role: HttpRole,
        method: &str,
        target: &str,
        headers: Vec<(String, String)>,
        body: &str,
    ) -> Self {
        self.exchanges += 1;
        let exchange = self.exchanges;
        self.event(What::HttpRequest(HttpRequest {
            exchange,
            connection: 1,
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
            body: body.to_owned(),
            invalid_utf8: false,
            role,
        }))
    }

    /// A form or a GET at the authorization server.
    pub(crate) fn auth(self, method: &str, target: &str, form: &[(&str, &str)]) -> Self {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.to(HttpRole::AuthorizationServer, method, target, Vec::new(), &body)
    }

    /// The answer to the latest request.
    pub(crate) fn answer(self, status: u16, message: Value) -> Self {
        self.answer_with(status, &[], message)
    }

    pub(crate) fn answer_with(self, status: u16, headers: &[(&str, &str)], message: Value) -> Self {
        let exchange = self.exchanges;
        let mut headers = owned(headers);
        if !message.is_null() {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let body = if message.is_null() { String::new() } else { message.to_string() };
        self.event(What::HttpResponse(HttpResponse {
            exchange,
            status,
            headers,
            body: Some(body),
            scripted_fault: false,
        }))
    }

    /// Answers the latest request with a stream.
    pub(crate) fn stream(self) -> Self {
        let exchange = self.exchanges;
        self.event(What::HttpResponse(HttpResponse {
            exchange,
            status: 200,
            headers: owned(&[("content-type", "text/event-stream")]),
            body: None,
            scripted_fault: false,
        }))
    }

    /// A message on the stream of an exchange.
    pub(crate) fn sse(self, exchange: u64, message: Value) -> Self {
        let data = Some(message.to_string());
        self.event(What::StreamEvent(StreamEvent { exchange, data, ..StreamEvent::default() }))
    }

    pub(crate) fn stream_ended(self, exchange: u64, by: Party) -> Self {
        self.event(What::StreamEnded { exchange, by })
    }

    /// The handshake over HTTP, with request id 0. Sets the headers that follow from it.
    pub(crate) fn http_handshake(
        self,
        version: &str,
        session: Option<&str>,
        client: Value,
        server: Value,
    ) -> Self {
        let given: Vec<(&str, &str)> = session.map(|s| ("mcp-session-id", s)).into_iter().collect();
        let mut t = self.post(initialize(0, version, client)).answer_with(
            200,
            &given,
            initialized(0, version, server),
        );
        if let Some(session) = session {
            t = t.header("mcp-session-id", session);
        }
        if version >= "2025-06-18" {
            t = t.header("mcp-protocol-version", version);
        }
        t.post(notification("notifications/initialized", Value::Null)).answer(202, Value::Null)
    }

    pub(crate) fn step_started(self, step: &str, op: &str, arguments: Value) -> Self {
        self.event(What::StepStarted { step: step.to_owned(), op: op.to_owned(), arguments })
    }

    pub(crate) fn step(self, step: &str, outcome: Outcome) -> Self {
        let op = step.split('-').next().unwrap_or(step).to_owned();
        self.event(What::StepEnded { step: step.to_owned(), op, outcome, took_us: 1 })
    }

    pub(crate) fn ok(self, step: &str) -> Self {
        self.step(step, Outcome::Ok { value: json!({}) })
    }

    pub(crate) fn failed(self, step: &str, kind: FailureKind, message: &str) -> Self {
        self.step(step, Outcome::Error { error: Failure::new(kind, message) })
    }
}
