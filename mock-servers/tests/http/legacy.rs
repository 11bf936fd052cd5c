//! HTTP+SSE of 2024-11-05, over real sockets.

use super::*;

/// A client of the old transport, with its stream open.
struct Old {
    fixture: Fixture,
    stream: Response,
    reader: SseReader,
    waiting: Vec<SseEvent>,
    endpoint: reqwest::Url,
}

impl Old {
    async fn open(fixture: Fixture) -> Self {
        let stream = fixture
            .client
            .get(fixture.mock.url())
            .header("accept", "text/event-stream")
            .send()
            .await
            .unwrap();
        assert_eq!(content_type(&stream), "text/event-stream");
        let endpoint = reqwest::Url::parse(fixture.mock.url()).unwrap();
        let mut old =
            Self { fixture, stream, reader: SseReader::new(1 << 20), waiting: Vec::new(), endpoint };
        let first = old.next().await;
        assert_eq!(first.event.as_deref(), Some("endpoint"));
        old.endpoint = old.endpoint.join(first.data.as_deref().unwrap()).unwrap();
        old
    }

    async fn next(&mut self) -> SseEvent {
        while self.waiting.is_empty() {
            let chunk = self.stream.chunk().await.unwrap().expect("the stream ended");
            self.waiting.extend(self.reader.push(&chunk).unwrap().into_iter().filter_map(
                |item| match item {
                    SseItem::Event(event) => Some(event),
                    SseItem::Comment(_) => None,
                },
            ));
        }
        self.waiting.remove(0)
    }

    async fn post(&self, message: Value) -> Response {
        let request =
            self.fixture.client.post(self.endpoint.clone()).header("content-type", "application/json");
        request.body(message.to_string()).send().await.unwrap()
    }

    async fn initialize(&mut self) -> Value {
        let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        self.post(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        let answer = message(&self.next().await);
        self.post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }
}

fn echo(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}})
}

#[tokio::test]
async fn a_conversation_over_http_with_sse() {
    let script =
        json!({"tools": ["echo"], "rules": [{"on": "tools/call", "do": [{"request": {"method": "ping"}}]}]});
    let fixture = start_as(script, Revision::V2024_11_05, Transport::SseLegacy);
    assert!(fixture.mock.url().ends_with("/sse"));
    let mut old = Old::open(fixture).await;
    assert_eq!(old.initialize().await["result"]["protocolVersion"], "2024-11-05");
    let accepted = old.post(echo(1)).await;
    assert_eq!((accepted.status().as_u16(), accepted.text().await.unwrap()), (202, String::new()));
    let ping = message(&old.next().await);
    assert_eq!(ping["method"], "ping");
    assert_eq!(text(&message(&old.next().await)), "x");
    let pong = json!({"jsonrpc": "2.0", "id": ping["id"], "result": {}});
    assert_eq!(old.post(pong).await.status(), 202);
    // The session lives as long as its stream.
    let (endpoint, fixture) = (old.endpoint.clone(), old.fixture);
    drop(old.stream);
    fixture.log.wait(|w| matches!(w, What::StreamEnded { by: Party::Client, .. })).await;
    let late =
        fixture.client.post(endpoint).header("content-type", "application/json").body(echo(2).to_string());
    assert_eq!(late.send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_client_that_tries_the_new_transport_first_falls_back() {
    let fixture = example("legacy-sse", Transport::SseLegacy);
    let tried = fixture.post(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize"})).await.unwrap();
    assert_eq!((tried.status().as_u16(), tried.text().await.unwrap()), (404, "nothing here".into()));
    let mut old = Old::open(fixture).await;
    assert!(old.endpoint.query().unwrap().ends_with("&note=a%2Fb"));
    assert_eq!(old.initialize().await["result"]["protocolVersion"], "2024-11-05");
    old.post(echo(1)).await;
    assert_eq!(text(&message(&old.next().await)), "x");
    assert_eq!(old.post(echo(2)).await.status(), 500);
    assert_eq!(old.post(echo(3)).await.status(), 202);
    assert_eq!(message(&old.next().await)["id"], 3);
    assert_eq!(old.post(echo(4)).await.status(), 200);
    assert!(old.stream.chunk().await.unwrap().is_none(), "the stream ends instead of an answer");
    old.fixture.mock.shutdown().await;
}
