//! The HTTP shell, over real sockets.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use sparring_mock_servers::http::{HttpMock, HttpSpec};
use sparring_mock_servers::script::ServerScript;
use sparring_mock_servers::sink::Sink;
use sparring_wire::Revision;
use sparring_wire::sse::{SseEvent, SseItem, SseReader};
use sparring_wire::transcript::{HttpRole, Party, What};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Keeps what was observed, and wakes who waits for it.
#[derive(Default)]
struct Log {
    events: Mutex<Vec<What>>,
    changed: Notify,
}

impl Sink for Log {
    fn event(&self, server: &str, incarnation: Option<u32>, _: u64, what: What) {
        assert_eq!((server, incarnation), ("mock", None));
        self.events.lock().unwrap().push(what);
        self.changed.notify_one();
    }
}

impl Log {
    fn whats(&self) -> Vec<What> {
        self.events.lock().unwrap().clone()
    }

    async fn wait(&self, wanted: impl Fn(&What) -> bool) {
        let arrives = async {
            while !self.whats().iter().any(&wanted) {
                self.changed.notified().await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), arrives).await.is_err() {
            panic!("never seen: {:#?}", self.whats());
        }
    }
}

struct Fixture {
    mock: HttpMock,
    log: Arc<Log>,
    client: Client,
    session: Option<String>,
}

fn start(script: Value, revision: Revision) -> Fixture {
    let script: ServerScript = serde_json::from_value(script).unwrap();
    let log = Arc::new(Log::default());
    let mock = HttpMock::start(HttpSpec {
        name: "mock".into(),
        script,
        revision,
        seed: 1,
        sink: Arc::clone(&log) as Arc<dyn Sink>,
        numbers: Arc::default(),
        port: 0,
    })
    .unwrap();
    let client = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    Fixture { mock, log, client, session: None }
}

/// A mock that has been initialized.
async fn open(script: Value) -> Fixture {
    let mut fixture = start(script, Revision::V2025_11_25);
    fixture.initialize().await;
    fixture
}

impl Fixture {
    fn request(&self, method: Method) -> RequestBuilder {
        let mut request = self
            .client
            .request(method, self.mock.url())
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        request
    }

    async fn post(&self, message: Value) -> reqwest::Result<Response> {
        self.request(Method::POST)
            .header("content-type", "application/json")
            .body(message.to_string())
            .send()
            .await
    }

    async fn initialize(&mut self) {
        self.session = None;
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = self.post(message).await.unwrap();
        assert_eq!(response.status(), 200);
        self.session = response.headers().get("mcp-session-id").map(|v| v.to_str().unwrap().to_owned());
        answer(response).await;
        let response =
            self.post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.unwrap();
        assert_eq!(response.status(), 202);
        assert_eq!(response.text().await.unwrap(), "");
    }

    async fn echo(&self, id: i64, text: &str) -> reqwest::Result<Response> {
        let params = json!({"name": "echo", "arguments": {"text": text}, "_meta": {"progressToken": "p"}});
        self.post(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await
    }

    async fn get(&self, last_event_id: Option<&str>) -> Response {
        let mut request = self.request(Method::GET);
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        request.send().await.unwrap()
    }
}

fn content_type(response: &Response) -> &str {
    response.headers()["content-type"].to_str().unwrap()
}

fn parse(bytes: &[u8]) -> Vec<SseEvent> {
    let items = SseReader::new(1 << 22).push(bytes).unwrap();
    items
        .into_iter()
        .filter_map(|item| match item {
            SseItem::Event(event) => Some(event),
            SseItem::Comment(_) => None,
        })
        .collect()
}

/// The events of a stream that ends.
async fn events(response: Response) -> Vec<SseEvent> {
    assert_eq!(content_type(&response), "text/event-stream");
    parse(&response.bytes().await.unwrap())
}

fn message(event: &SseEvent) -> Value {
    serde_json::from_str(event.data.as_deref().unwrap()).unwrap()
}

/// The last message of a response, in whichever form.
async fn answer(response: Response) -> Value {
    if content_type(&response) == "application/json" {
        return serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    }
    message(events(response).await.last().unwrap())
}

/// The next event of a stream that goes on.
async fn next_event(response: &mut Response, reader: &mut SseReader) -> SseEvent {
    loop {
        let chunk = response.chunk().await.unwrap().expect("the stream ended");
        let found = reader.push(&chunk).unwrap().into_iter().find_map(|item| match item {
            SseItem::Event(event) => Some(event),
            SseItem::Comment(_) => None,
        });
        if let Some(event) = found {
            return event;
        }
    }
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn answers_come_in_the_style_asked_for() {
    let fixture = open(json!({"tools": ["echo"], "http": {"answers": "alternate"}})).await;
    let mut types = Vec::new();
    for n in 1..=4 {
        let response = fixture.echo(n, "hello").await.unwrap();
        types.push(content_type(&response).to_owned());
        assert_eq!(text(&answer(response).await), "hello");
    }
    let (json, sse) = ("application/json", "text/event-stream");
    assert_eq!(types, [sse, json, sse, json], "initialize was the first");
    fixture.mock.shutdown().await;
    let streams =
        fixture.log.whats().into_iter().filter(|w| matches!(w, What::StreamEnded { by: Party::Server, .. }));
    assert_eq!(streams.count(), 2);
}

#[tokio::test]
async fn http_rules_are_kept() {
    let fixture = open(json!({"tools": ["echo"], "http": {"sessions": true}})).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let post = |change: &dyn Fn(RequestBuilder) -> RequestBuilder| {
        let request = fixture.client.post(fixture.mock.url()).body(body.clone());
        let send = change(request).send();
        async { send.await.unwrap().status().as_u16() }
    };
    let session = fixture.session.clone().unwrap();
    let both = "application/json, text/event-stream";
    let good = |r: RequestBuilder| {
        r.header("content-type", "application/json; charset=utf-8").header("accept", both)
    };
    assert_eq!(post(&|r| good(r).header("mcp-session-id", &session)).await, 200);
    assert_eq!(post(&|r| good(r)).await, 400, "no session id");
    assert_eq!(post(&|r| good(r).header("mcp-session-id", "other")).await, 404);
    let with = |r: RequestBuilder| r.header("mcp-session-id", &session);
    assert_eq!(post(&|r| with(r).header("accept", both).header("content-type", "text/plain")).await, 415);
    assert_eq!(
        post(&|r| with(r).header("accept", "application/json").header("content-type", "application/json"))
            .await,
        406
    );
    assert_eq!(post(&|r| with(good(r)).header("mcp-protocol-version", "1999-01-01")).await, 400);
    assert_eq!(post(&|r| with(good(r)).header("origin", "http://evil.example")).await, 403);
    assert_eq!(post(&|r| with(good(r)).header("origin", "http://localhost:3000")).await, 200);
    assert_eq!(fixture.get(None).await.status(), 405);
    let elsewhere = format!("{}/elsewhere", fixture.mock.origin());
    assert_eq!(fixture.client.get(elsewhere).send().await.unwrap().status(), 404);
    let broken = fixture
        .request(Method::POST)
        .header("content-type", "application/json")
        .body("{")
        .send()
        .await
        .unwrap();
    assert_eq!(broken.status(), 400);
    assert_eq!(fixture.request(Method::PUT).send().await.unwrap().status(), 405);
    // DELETE ends the session.
    assert_eq!(fixture.request(Method::DELETE).send().await.unwrap().status(), 200);
    assert_eq!(fixture.echo(2, "x").await.unwrap().status(), 404);
}
