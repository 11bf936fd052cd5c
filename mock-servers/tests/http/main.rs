//! The HTTP shell, over real sockets.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod bytes;
mod legacy;

use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use sparring_mock_servers::http::{HttpMock, HttpSpec};
use sparring_mock_servers::script::ServerScript;
use sparring_mock_servers::sink::Sink;
use sparring_wire::sse::{SseEvent, SseItem, SseReader};
use sparring_wire::transcript::{HttpRole, Party, What};
use sparring_wire::{Revision, Transport};
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
    start_as(script, revision, Transport::Http)
}

fn start_as(script: Value, revision: Revision, transport: Transport) -> Fixture {
    let script: ServerScript = serde_json::from_value(script).unwrap();
    let log = Arc::new(Log::default());
    let mock = HttpMock::start(HttpSpec {
        name: "mock".into(),
        script,
        revision,
        transport,
        seed: 1,
        sink: Arc::clone(&log) as Arc<dyn Sink>,
        quiet: false,
        numbers: Arc::default(),
        port: 0,
    })
    .unwrap();
    let client = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    Fixture { mock, log, client, session: None }
}

/// A mock by one of the scripts in the examples.
fn example(name: &str, transport: Transport) -> Fixture {
    let path = format!("{}/../scenarios/scripts/examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let script: ServerScript = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    start_as(serde_json::to_value(script).unwrap(), Revision::V2025_11_25, transport)
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

/// A raw connection to the endpoint, on which a call has been sent.
async fn raw_call(fixture: &Fixture, id: i64) -> TcpStream {
    let address = fixture.mock.origin().strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let params = json!({"name": "echo", "arguments": {"text": "x"}, "_meta": {"progressToken": 1}});
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: x\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    socket
}

/// Reads until the end of the connection; the bytes, and whether it was reset.
async fn read_out(mut socket: TcpStream) -> (String, bool) {
    let mut bytes = Vec::new();
    let reset = match socket.read_to_end(&mut bytes).await {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
            true
        }
    };
    (String::from_utf8(bytes).unwrap(), reset)
}

fn call_rule(actions: Value) -> Value {
    json!({"tools": ["echo"], "rules": [{"on": "tools/call", "nth": 1, "do": actions}]})
}

#[tokio::test]
async fn a_reset_is_a_reset() {
    let fixture = open(call_rule(json!(["reset"]))).await;
    assert_eq!(read_out(raw_call(&fixture, 1).await).await, (String::new(), true));
    // The server is there as before.
    assert_eq!(text(&answer(fixture.echo(2, "x").await.unwrap()).await), "x");
    let fixture = open(call_rule(json!([{"cut_stream": {"id": "e", "reset": true}}]))).await;
    let (seen, reset) = read_out(raw_call(&fixture, 1).await).await;
    assert!(seen.contains("id: e\ndata: \n\n") && reset, "{seen}");
}

#[tokio::test]
async fn a_cut_stream_ends_and_is_resumed() {
    let fixture =
        open(call_rule(json!([{"cut_stream": {"id": "e", "retry_ms": 10, "resumable": true}}]))).await;
    let cut = events(fixture.echo(1, "late").await.unwrap()).await;
    let primer = SseEvent { id: Some("e".into()), retry: Some(10), data: Some(String::new()), event: None };
    assert_eq!(cut, [primer]);
    let resumed = fixture.get(Some("e")).await;
    assert_eq!(text(&answer(resumed).await), "late");
}

#[tokio::test]
async fn the_get_stream_is_live_and_its_end_is_seen() {
    let mut fixture = start(
        json!({"tools": ["echo"], "http": {"get_stream": true, "sessions": true, "event_ids": true}, "rules": [
            {"on": "tools/call", "do": [{"announce": "tools"}]},
        ]}),
        Revision::V2025_11_25,
    );
    fixture.initialize().await;
    let mut stream = fixture.get(None).await;
    let mut reader = SseReader::new(1 << 20);
    fixture.echo(1, "x").await.unwrap();
    let first = next_event(&mut stream, &mut reader).await;
    assert_eq!(message(&first)["method"], "notifications/tools/list_changed");
    drop(stream);
    fixture.log.wait(|w| matches!(w, What::StreamEnded { by: Party::Client, .. })).await;
    // What happens meanwhile is delivered to who comes again.
    fixture.echo(2, "x").await.unwrap();
    let mut stream = fixture.get(first.id.as_deref()).await;
    let second = next_event(&mut stream, &mut SseReader::new(1 << 20)).await;
    assert_eq!(message(&second)["method"], "notifications/tools/list_changed");
    assert_ne!(first.id, second.id);
    // DELETE ends it.
    assert_eq!(fixture.request(Method::DELETE).send().await.unwrap().status(), 200);
    assert!(stream.chunk().await.unwrap().is_none());
    assert_eq!(fixture.get(None).await.status(), 404);
}

#[tokio::test]
async fn a_client_that_goes_away_is_seen() {
    // While the answer is awaited, and in the middle of a stream.
    for actions in [json!(["stall"]), json!([{"progress": 1}, {"hold_until": {"on": "ping"}}])] {
        let fixture = open(call_rule(actions)).await;
        let socket = raw_call(&fixture, 1).await;
        fixture.log.wait(|w| matches!(w, What::RuleFired { .. })).await;
        drop(socket);
        fixture.log.wait(|w| matches!(w, What::StreamEnded { exchange: 3, by: Party::Client })).await;
        // The held answer has nowhere to go.
        let ping = fixture.post(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await.unwrap();
        assert_eq!(answer(ping).await["id"], 2);
        fixture.mock.shutdown().await;
    }
}

#[tokio::test]
async fn requests_of_the_server_are_answered_by_a_post_of_their_own() {
    let fixture =
        open(call_rule(json!([{"request": {"method": "ping"}}, {"hold_until": {"on": "response"}}]))).await;
    let mut stream = fixture.echo(1, "x").await.unwrap();
    let mut reader = SseReader::new(1 << 20);
    let request = message(&next_event(&mut stream, &mut reader).await);
    let answered = fixture.post(json!({"jsonrpc": "2.0", "id": request["id"], "result": {}})).await.unwrap();
    assert_eq!(answered.status(), 202);
    assert_eq!(text(&message(&next_event(&mut stream, &mut reader).await)), "x");
    assert!(stream.chunk().await.unwrap().is_none());
}

#[tokio::test]
async fn an_expired_session_is_opened_anew() {
    let mut fixture = open(json!({"tools": ["echo"], "http": {"sessions": true}, "rules": [
        {"on": "tools/call", "nth": 1, "do": ["expire_session"]},
    ]}))
    .await;
    let first = fixture.session.clone();
    assert_eq!(fixture.echo(1, "x").await.unwrap().status(), 404);
    assert_eq!(fixture.echo(2, "x").await.unwrap().status(), 404);
    fixture.initialize().await;
    assert!(fixture.session.is_some() && fixture.session != first);
    assert_eq!(text(&answer(fixture.echo(3, "x").await.unwrap()).await), "x");
}

#[tokio::test]
async fn bodies_are_sent_as_given_in_pieces() {
    let body = "\u{feff}: hi\r\nevent: message\rdata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":{{json id}},\"result\":{{result}}}\n\n";
    let fixture = open(call_rule(json!([{"raw_body": {"text": body, "split_every": 1}}]))).await;
    let mut socket = raw_call(&fixture, 1).await;
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n0\r\n\r\n") {
        assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0);
    }
    let pieces = String::from_utf8_lossy(&bytes).matches("\r\n1\r\n").count();
    assert!(pieces > body.len(), "each byte is a chunk: {pieces}");
    let fixture = open(call_rule(json!([{"raw_body": {"text": body, "split_every": 5}}]))).await;
    assert_eq!(text(&answer(fixture.echo(1, "whole").await.unwrap()).await), "whole");
}

#[tokio::test]
async fn redirects_lead_to_the_other_origin_which_records_what_it_gets() {
    let fixture = open(call_rule(json!([
        {"status": {"code": 307, "headers": {"location": "{{other}}/elsewhere?x=1"}}},
    ])))
    .await;
    let response = fixture.echo(1, "x").await.unwrap();
    assert_eq!(response.status(), 307);
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(location, format!("{}/elsewhere?x=1", fixture.mock.other_origin()));
    let secret =
        fixture.client.post(location).header("authorization", "Bearer s").body("b").send().await.unwrap();
    assert_eq!(secret.text().await.unwrap(), "{}");
    let recorded = fixture.log.whats().into_iter().find_map(|what| match what {
        What::HttpRequest(request) if request.role == HttpRole::Other => Some(request),
        _ => None,
    });
    let request = recorded.unwrap();
    assert_eq!(
        (request.target.as_str(), request.body.as_str(), request.exchange),
        ("/elsewhere?x=1", "b", 4)
    );
    assert!(request.headers.contains(&("authorization".into(), "Bearer s".into())));
}

#[tokio::test]
async fn fields_that_are_none_are_sent_as_they_are_and_large_bodies_refused() {
    let fixture =
        open(call_rule(json!([{"status": {"code": 200, "headers": {"bad name": "x", "good": "a\nb"}}}])))
            .await;
    let mut socket = raw_call(&fixture, 1).await;
    socket.shutdown().await.unwrap();
    let (seen, _) = read_out(socket).await;
    assert!(seen.contains("bad name: x\r\ngood: a\nb\r\n"), "{seen}");
    let marked = |w: &What| matches!(w, What::HttpResponse(r) if r.scripted_fault);
    assert!(fixture.log.whats().iter().any(marked));
    let huge = vec![b' '; (16 << 20) + 1];
    let request = fixture.request(Method::POST).header("content-type", "application/json").body(huge);
    // Whether the answer gets through while the body is still on its way is a matter of luck.
    if let Ok(response) = request.send().await {
        assert_eq!(response.status(), 413);
    }
    fixture.log.wait(|w| matches!(w, What::HarnessError { message } if message.contains("larger"))).await;
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_anybody() {
    let fixture = open(json!({"tools": ["echo"], "http": {"get_stream": true}, "rules": [
        {"on": "tools/call", "do": ["stall"]}, {"on": "ping", "do": [{"delay_ms": 3_600_000}]},
    ]}))
    .await;
    let _stream = fixture.get(None).await;
    let stalled = raw_call(&fixture, 1).await;
    fixture.log.wait(|w| matches!(w, What::RuleFired { .. })).await;
    let before = fixture.log.whats().len();
    fixture.mock.shutdown().await;
    read_out(stalled).await;
    assert_eq!(fixture.log.whats().len(), before, "nothing is blamed on the client");
}

#[tokio::test]
async fn start_fires_once_and_connections_are_counted() {
    let server = json!({"tools": ["echo"], "rules": [{"on": "start", "do": []}]});
    let fixture = open(server).await;
    for id in 1..=2 {
        raw_call(&fixture, id).await.read_u8().await.unwrap();
    }
    let whats = fixture.log.whats();
    assert_eq!(whats.iter().filter(|w| matches!(w, What::RuleFired { .. })).count(), 1);
    let numbers: Vec<(u64, u64)> = whats
        .iter()
        .filter_map(|what| match what {
            What::HttpRequest(request) => Some((request.exchange, request.connection)),
            _ => None,
        })
        .collect();
    assert_eq!(numbers, [(1, 1), (2, 1), (3, 2), (4, 3)]);
}

/// The query of a URL, decoded.
fn query(url: &str) -> std::collections::HashMap<String, String> {
    url::Url::parse(url).unwrap().query_pairs().into_owned().collect()
}

fn form(pairs: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// From the 401 to a token, by the metadata; returns the token.
async fn authorize(fixture: &Fixture, revision: Revision) -> String {
    use base64::Engine;
    use sha2::Digest;
    let get = async |url: String| -> Value {
        let response = fixture.client.get(&url).send().await.unwrap();
        assert_eq!(response.status(), 200, "{url}");
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
    };
    let refused =
        fixture.post(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})).await.unwrap();
    assert_eq!(refused.status(), 401);
    let issuer = if revision >= Revision::V2025_06_18 {
        let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
        let metadata = challenge.split('"').find(|part| part.starts_with("http")).unwrap();
        let metadata = get(metadata.to_owned()).await;
        assert_eq!(metadata["resource"], fixture.mock.url());
        metadata["authorization_servers"][0].as_str().unwrap().trim_end_matches('/').to_owned()
    } else {
        fixture.mock.origin().to_owned()
    };
    let server = get(format!("{issuer}/.well-known/oauth-authorization-server")).await;
    let endpoint = |name: &str| server[name].as_str().unwrap().to_owned();
    let redirect = "http://127.0.0.1:9/callback";
    let registration =
        json!({"redirect_uris": [redirect], "token_endpoint_auth_method": "none", "client_name": "c"});
    let registered = fixture
        .client
        .post(endpoint("registration_endpoint"))
        .header("content-type", "application/json")
        .body(registration.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(registered.status(), 201);
    let registered: Value = serde_json::from_slice(&registered.bytes().await.unwrap()).unwrap();
    let client_id = registered["client_id"].as_str().unwrap();
    let verifier = "v".repeat(43);
    let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(&verifier));
    let resource = fixture.mock.url();
    let asked = form(&[
        ("response_type", "code"),
        ("client_id", client_id),
        ("redirect_uri", redirect),
        ("state", "s"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("resource", resource),
    ]);
    let redirected =
        fixture.client.get(format!("{}?{asked}", endpoint("authorization_endpoint"))).send().await.unwrap();
    assert_eq!(redirected.status(), 302);
    let back = query(redirected.headers()["location"].to_str().unwrap());
    assert_eq!(back["state"], "s");
    let body = form(&[
        ("grant_type", "authorization_code"),
        ("code", &back["code"]),
        ("redirect_uri", redirect),
        ("client_id", client_id),
        ("code_verifier", &verifier),
        ("resource", resource),
    ]);
    let token = fixture
        .client
        .post(endpoint("token_endpoint"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(token.status(), 200);
    let token: Value = serde_json::from_slice(&token.bytes().await.unwrap()).unwrap();
    token["access_token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn from_401_to_a_token_to_an_answer() {
    for revision in [Revision::V2025_03_26, Revision::V2025_11_25] {
        let mut fixture = start(json!({"tools": ["echo"], "auth": {}}), revision);
        assert_ne!(fixture.mock.authorization_origin(), Some(fixture.mock.origin()));
        let token = authorize(&fixture, revision).await;
        let mut headers = reqwest::header::HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        fixture.client = Client::builder().no_proxy().default_headers(headers).build().unwrap();
        if revision < Revision::V2025_11_25 {
            let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
            let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            assert_eq!(fixture.post(message).await.unwrap().status(), 200);
        } else {
            fixture.initialize().await;
        }
        assert_eq!(text(&answer(fixture.echo(1, "in").await.unwrap()).await), "in");
        let roles: std::collections::HashSet<String> = fixture
            .log
            .whats()
            .iter()
            .filter_map(|what| match what {
                What::HttpRequest(request) => Some(format!("{:?}", request.role)),
                _ => None,
            })
            .collect();
        assert_eq!(roles.contains("AuthorizationServer"), revision >= Revision::V2025_06_18);
        fixture.mock.shutdown().await;
    }
}
