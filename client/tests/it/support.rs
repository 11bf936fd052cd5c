//! A scripted HTTP server, and small helpers.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use sparring_client::{Settings, Target};
use sparring_wire::Revision;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) fn settings() -> Settings {
    // Of a client from before the stateless revision.
    let mut settings = Settings {
        offer: Revision::LATEST_HANDSHAKE,
        accept: Revision::WITH_HANDSHAKE.to_vec(),
        ping_every: None,
        ..Settings::default()
    };
    settings.http.stream_waits = vec![Duration::from_millis(1)];
    settings.refetch_gap = Duration::from_millis(1);
    settings
}

pub(crate) fn init_result(id: &Value) -> Value {
    init_result_of(id, "2025-11-25")
}

pub(crate) fn init_result_of(id: &Value, revision: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": revision,
        "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "s", "version": "1"}}})
}

pub(crate) fn text_result(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}

pub(crate) fn tools_result(id: &Value, names: &[&str]) -> Value {
    let tools: Vec<Value> =
        names.iter().map(|n| json!({"name": n, "inputSchema": {"type": "object"}})).collect();
    json!({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}})
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(crate) fn rpc(&self) -> String {
        self.json()["method"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn id(&self) -> Value {
        self.json()["id"].clone()
    }

    /// A form's or query's field.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let text =
            if self.method == "POST" { &self.body } else { self.target.split_once('?').map_or("", |t| t.1) };
        field(text, name)
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// `POST initialize`, `GET`, …
    pub(crate) fn word(&self) -> String {
        format!("{} {}", self.method, self.rpc()).trim().to_owned()
    }
}

pub(crate) fn field(form: &str, name: &str) -> Option<String> {
    url::form_urlencoded::parse(form.as_bytes()).find(|(k, _)| k == name).map(|(_, v)| v.into_owned())
}

/// All requests so far.
#[derive(Clone)]
pub(crate) struct Log {
    seen: Arc<Mutex<Vec<Request>>>,
    count: watch::Sender<usize>,
}

impl Log {
    pub(crate) fn all(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn words(&self) -> Vec<String> {
        self.all().iter().map(Request::word).collect()
    }

    pub(crate) fn of(&self, word: &str) -> Vec<Request> {
        self.all().into_iter().filter(|r| r.word() == word || r.path() == word).collect()
    }

    /// Waits until so many requests were of that kind.
    pub(crate) async fn wait(&self, word: &str, count: usize) {
        let mut changes = self.count.subscribe();
        while self.of(word).len() < count {
            changes.changed().await.unwrap();
        }
    }
}

pub(crate) struct Exchange {
    pub(crate) request: Request,
    pub(crate) log: Log,
    /// How many of this kind came before.
    pub(crate) nth: usize,
    pub(crate) origin: String,
    socket: TcpStream,
}

impl Exchange {
    pub(crate) async fn raw(&mut self, text: &str) {
        drop(self.socket.write_all(text.as_bytes()).await);
    }

    pub(crate) async fn reply(&mut self, status: u16, headers: &[(&str, &str)], body: &str) {
        let mut head =
            format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.raw(&format!("{head}\r\n{body}")).await;
    }

    pub(crate) async fn status(&mut self, status: u16) {
        self.reply(status, &[], "").await;
    }

    pub(crate) async fn json(&mut self, body: &Value) {
        self.reply(200, &[("Content-Type", "application/json")], &body.to_string()).await;
    }

    pub(crate) async fn open_stream(&mut self, headers: &[(&str, &str)]) {
        let mut head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n".to_owned();
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.raw(&format!("{head}\r\n")).await;
    }

    pub(crate) async fn event(&mut self, id: Option<&str>, data: &str) {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.raw(&format!("{id}data: {data}\n\n")).await;
    }

    /// Waits until the client closes the connection.
    pub(crate) async fn hang(&mut self) {
        let mut buffer = [0; 64];
        while !matches!(self.socket.read(&mut buffer).await, Ok(0) | Err(_)) {}
    }

    /// What a good server does.
    pub(crate) async fn good(&mut self) {
        let id = self.request.id();
        match self.request.word().as_str() {
            "POST initialize" => {
                let body = init_result(&id).to_string();
                self.reply(200, &[("Content-Type", "application/json"), ("Mcp-Session-Id", "s-1")], &body)
                    .await;
            }
            "POST tools/list" => self.json(&tools_result(&id, &["echo"])).await,
            "POST tools/call" => {
                let text =
                    self.request.json()["params"]["arguments"]["text"].as_str().unwrap_or("-").to_owned();
                self.json(&text_result(&id, &text)).await;
            }
            "POST ping" => self.json(&json!({"jsonrpc": "2.0", "id": id, "result": {}})).await,
            "GET" => self.status(405).await,
            "DELETE" => self.status(200).await,
            _ => self.status(202).await,
        }
    }
}

pub(crate) struct Server {
    pub(crate) origin: String,
    pub(crate) log: Log,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(
        script: impl Fn(Exchange) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let log = Log { seen: Arc::default(), count: watch::Sender::new(0) };
        let (script, kept, base) = (Arc::new(script), log.clone(), origin.clone());
        let task = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let (script, log, origin) = (Arc::clone(&script), kept.clone(), base.clone());
                tokio::spawn(async move {
                    let Some(request) = read_request(&mut socket).await else { return };
                    let nth = {
                        let mut seen = log.seen.lock().unwrap();
                        let nth = seen.iter().filter(|r| r.word() == request.word()).count();
                        seen.push(request.clone());
                        nth
                    };
                    log.count.send_modify(|n| *n += 1);
                    script(Exchange { request, log, nth, origin, socket }).await;
                });
            }
        });
        Self { origin, log, task }
    }

    pub(crate) fn target(&self) -> Target {
        Target::Http(sparring_client::HttpTarget::new(format!("{}/mcp", self.origin)))
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(n, _)| n == "content-length").map_or(0, |(_, v)| v.parse().unwrap());
    while bytes.len() < end + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&bytes[end..]).into_owned();
    Some(Request { method, target, headers, body })
}

pub(crate) fn args(text: &str) -> serde_json::Map<String, Value> {
    serde_json::Map::from_iter([("text".to_owned(), text.into())])
}
