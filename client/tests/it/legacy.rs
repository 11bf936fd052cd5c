//! HTTP+SSE of 2024-11-05, and how it is found out.

use crate::support::{Exchange, Server, args, init_result_of, settings, text_result};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use sparring_client::{Client, Connection, Error, HttpTarget, Target};
use sparring_wire::transcript::FailureKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// What goes out on the stream next; `None` ends it.
type Stream = mpsc::UnboundedSender<Option<String>>;

/// A server of the old kind.
#[derive(Clone)]
struct Old {
    /// The data of the `endpoint` event; `{origin}` stands for the server's.
    endpoint: &'static str,
    /// The status for messages.
    accepts: u16,
    stream: Arc<Mutex<Option<Stream>>>,
}

impl Old {
    fn new(endpoint: &'static str) -> Self {
        Self { endpoint, accepts: 202, stream: Arc::default() }
    }

    fn say(&self, message: &Value) {
        self.put(Some(format!("event: message\ndata: {message}\n\n")));
    }

    fn put(&self, text: Option<String>) {
        self.stream.lock().unwrap().as_ref().unwrap().send(text).unwrap();
    }

    async fn get(&self, x: &mut Exchange) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let endpoint = self.endpoint.replace("{origin}", &x.origin);
        *self.stream.lock().unwrap() = Some(sender);
        x.open_stream(&[]).await;
        x.raw(&format!(": hello\n\nevent: endpoint\ndata: {endpoint}\n\n")).await;
        loop {
            tokio::select! {
                text = receiver.recv() => match text.flatten() {
                    Some(text) => x.raw(&text).await,
                    None => return,
                },
                () = x.hang() => return,
            }
        }
    }

    async fn post(&self, x: &mut Exchange) {
        let (id, message) = (x.request.id(), x.request.json());
        x.reply(self.accepts, &[("Content-Type", "text/plain")], "Accepted").await;
        match message["method"].as_str() {
            Some("initialize") => self.say(&init_result_of(&id, "2024-11-05")),
            Some("tools/call") if message["params"]["arguments"]["text"] == "end" => self.put(None),
            Some("tools/call") => self.say(&text_result(&id, "hi")),
            _ => {}
        }
    }

    async fn start(self) -> Server {
        self.start_at("/sse", 405).await
    }

    /// The stream is at `path`; a POST there gets `refusal`.
    async fn start_at(self, path: &'static str, refusal: u16) -> Server {
        Server::start(move |mut x: Exchange| -> BoxFuture<'static, ()> {
            let old = self.clone();
            Box::pin(async move {
                match (x.request.method.as_str(), x.request.path() == path) {
                    ("GET", true) => old.get(&mut x).await,
                    ("POST", false) => old.post(&mut x).await,
                    _ => x.status(refusal).await,
                }
            })
        })
        .await
    }
}

fn sse(server: &Server) -> Target {
    let mut target = HttpTarget::new(format!("{}/sse", server.origin));
    target.headers.push(("X-Key".into(), "k".into()));
    Target::Sse(target)
}

async fn connect(server: &Server) -> Result<Connection, Error> {
    Client::new(settings()).connect("s", &sse(server)).await
}

#[tokio::test]
async fn everything_is_posted_to_the_endpoint_and_answered_on_the_stream() {
    for endpoint in
        ["/messages?session=abc%2F1", "{origin}/messages?session=abc%2F1", "messages?session=abc%2F1"]
    {
        let old = Old::new(endpoint);
        let server = old.clone().start().await;
        let connection = connect(&server).await.unwrap();
        assert_eq!(connection.negotiated().unwrap().revision.as_str(), "2024-11-05");
        old.say(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
        assert_eq!(connection.call("echo", args("x")).await.unwrap().text(), "hi");
        server.log.wait("POST", 1).await;
        connection.close().await;
        let all = server.log.all();
        let words: Vec<String> = all.iter().map(|r| r.word()).collect();
        assert_eq!(words[..3], ["GET", "POST initialize", "POST notifications/initialized"]);
        assert_eq!(words.iter().filter(|w| *w == "GET" || *w == "DELETE").count(), 1, "{words:?}");
        assert_eq!(all[0].target, "/sse");
        for request in &all {
            assert_eq!(request.header("x-key"), Some("k"));
            assert!(request.header("mcp-session-id").is_none());
        }
        for post in &all[1..] {
            assert_eq!(post.target, "/messages?session=abc%2F1");
            assert_eq!(post.header("content-type"), Some("application/json"));
        }
        let pong = all.iter().find(|r| r.id() == "p").unwrap();
        assert_eq!(pong.json(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    }
}

#[tokio::test]
async fn closing_closes_the_stream() {
    let old = Old::new("/messages");
    let server = old.clone().start().await;
    let connection = connect(&server).await.unwrap();
    let stream = old.stream.lock().unwrap().clone().unwrap();
    connection.close().await;
    // The server's end of the stream notices, and is gone with it.
    stream.closed().await;
}

#[tokio::test]
async fn an_endpoint_elsewhere_is_refused() {
    let server = Old::new("http://127.0.0.1:9/messages").start().await;
    let error = connect(&server).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Invalid);
    assert!(error.to_string().contains("not on the origin"), "{error}");
    assert_eq!(server.log.words(), ["GET"]);
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_the_connection() {
    let server = Old::new("/messages").start().await;
    let connection = connect(&server).await.unwrap();
    let error = connection.call("echo", args("end")).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Closed);
    connection.close().await;
    assert_eq!(server.log.of("GET").len(), 1, "it is not opened again");
}

#[tokio::test]
async fn a_message_that_is_refused_fails_its_request_alone() {
    let old = Old { accepts: 200, ..Old::new("/messages") };
    let server = Server::start(move |mut x: Exchange| -> BoxFuture<'static, ()> {
        let old = old.clone();
        Box::pin(async move {
            match x.request.word().as_str() {
                "GET" => old.get(&mut x).await,
                "POST tools/call" if x.nth == 0 => x.status(413).await,
                _ => old.post(&mut x).await,
            }
        })
    })
    .await;
    let connection = connect(&server).await.unwrap();
    assert_eq!(connection.call("echo", args("x")).await.unwrap_err().code(), Some(413));
    assert_eq!(connection.call("echo", args("x")).await.unwrap().text(), "hi");
}

#[tokio::test]
async fn a_server_that_refuses_initialize_is_asked_for_a_stream() {
    for refusal in [400, 404, 405] {
        let server = Old::new("/messages").start_at("/mcp", refusal).await;
        let connection = Client::new(settings()).connect("s", &server.target()).await.unwrap();
        assert_eq!(connection.call("echo", args("x")).await.unwrap().text(), "hi");
        connection.close().await;
        let words = server.log.words();
        assert_eq!(words[..3], ["POST initialize", "GET", "POST initialize"], "{refusal}");
        assert_eq!(server.log.of("GET").len(), 1);
    }
}

#[tokio::test]
async fn without_the_fallback_or_with_another_status_nothing_else_is_tried() {
    let server = Old::new("/messages").start_at("/mcp", 404).await;
    let mut settings = settings();
    settings.http.legacy_fallback = false;
    let error = Client::new(settings).connect("s", &server.target()).await.unwrap_err();
    assert_eq!(error.code(), Some(404));
    assert_eq!(server.log.words(), ["POST initialize"]);
    let server = Old::new("/messages").start_at("/mcp", 500).await;
    let error = Client::new(crate::support::settings()).connect("s", &server.target()).await.unwrap_err();
    assert_eq!(error.code(), Some(500));
    assert_eq!(server.log.words(), ["POST initialize"]);
}

#[tokio::test]
async fn a_server_of_neither_kind_is_told_by_its_first_answer() {
    for (status, kind, body) in [
        (405, "text/plain", ""),
        (200, "text/html", "<p>"),
        (200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"),
        (200, "text/event-stream", ""),
    ] {
        let server = Server::start(move |mut x| {
            Box::pin(async move {
                match x.request.method.as_str() {
                    "GET" => x.reply(status, &[("Content-Type", kind)], body).await,
                    _ => x.reply(404, &[], "nothing here").await,
                }
            })
        })
        .await;
        let error = Client::new(settings()).connect("s", &server.target()).await.unwrap_err();
        assert_eq!((error.code(), error.to_string().contains("nothing here")), (Some(404), true), "{error}");
    }
}

#[tokio::test]
async fn a_silent_stream_names_no_endpoint() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            match x.request.method.as_str() {
                "GET" => {
                    x.open_stream(&[]).await;
                    x.hang().await;
                }
                _ => x.status(405).await,
            }
        })
    })
    .await;
    let mut settings = settings();
    settings.http.endpoint_wait = Duration::from_millis(5);
    let error = Client::new(settings).connect("s", &server.target()).await.unwrap_err();
    assert_eq!(error.code(), Some(405));
}
