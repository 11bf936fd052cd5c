//! The HTTP mock alone: a minimal client against it, beside a floor measured in the same run.
//!
//! The floor is hyper on both ends with `serde_json` on both ends and nothing of MCP. Numbers are stated as ratios to
//! it, as the median over interleaved rounds; only those are comparable between machines. `cargo bench -p
//! sparring-benches --bench mock_http`; words behind `--` choose parts: `latency`, `load`, `sse`, `sessions`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a bench is run by hand and read on the terminal"
)]

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sparring::platform::pin_to_one_core;
use sparring_mock_servers::http::{HttpMock, HttpSpec};
use sparring_mock_servers::script::ServerScript;
use sparring_mock_servers::sink::Sink;
use sparring_wire::sse::{SseItem, SseReader};
use sparring_wire::transcript::What;
use sparring_wire::{Revision, Transport};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// 100 bytes.
const TEXT: &str =
    "one hundred bytes of text, which is about what a small tool call carries in either direction, friend";
/// First argument of a child that serves.
const SERVE: &str = "__serve";

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Floor,
    /// The mock, reporting nothing.
    Quiet,
    /// The mock, each observation written as a line of JSON.
    Reporting,
    /// The mock, with answers as streams.
    Sse,
    /// The mock, with sessions and GET streams.
    Sessions,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Floor, Self::Quiet, Self::Reporting, Self::Sse, Self::Sessions];

    const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Quiet => "mock, quiet",
            Self::Reporting => "mock, reporting",
            Self::Sse => "mock, SSE answers",
            Self::Sessions => "mock, sessions",
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if words.first().is_some_and(|word| word == SERVE) {
        return serve_in_child(&words[1]);
    }
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if wanted("load") {
        load();
    }
    if wanted("sessions") {
        sessions();
    }
    // These pin the process, so they come last.
    if wanted("latency") {
        latency("small call, both ends on one core", &[Kind::Floor, Kind::Quiet, Kind::Reporting]);
    }
    if wanted("sse") {
        latency("call answered on a stream, keep-alive", &[Kind::Floor, Kind::Sse]);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

// ---- servers ----

/// Writes each observation as a line, as a transcript would, and forgets it.
#[derive(Default)]
struct Lines(Mutex<Vec<u8>>);

impl Sink for Lines {
    fn event(&self, _: &str, _: Option<u32>, _: u64, what: What) {
        let mut lines = self.0.lock().unwrap();
        if lines.len() > 1 << 20 {
            lines.clear();
        }
        serde_json::to_writer(&mut *lines, &what).unwrap();
        lines.push(b'\n');
    }
}

/// Starts a server; its address, and what keeps it alive.
async fn start(kind: Kind) -> (String, Option<HttpMock>) {
    let http = match kind {
        Kind::Floor => return (floor().await, None),
        Kind::Quiet | Kind::Reporting => json!({}),
        Kind::Sse => json!({"answers": "sse"}),
        Kind::Sessions => json!({"sessions": true, "get_stream": true}),
    };
    let script: ServerScript = serde_json::from_value(json!({"tools": ["echo"], "http": http})).unwrap();
    let mock = HttpMock::start(HttpSpec {
        name: "mock".into(),
        script,
        revision: Revision::V2025_11_25,
        transport: Transport::Http,
        seed: 1,
        sink: Arc::new(Lines::default()),
        quiet: kind != Kind::Reporting,
        numbers: Arc::default(),
        port: 0,
    })
    .unwrap();
    (mock.origin().strip_prefix("http://").unwrap().to_owned(), Some(mock))
}

async fn floor() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let service = hyper::service::service_fn(floor_answer);
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

async fn floor_answer(
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, std::convert::Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let request: Value = serde_json::from_slice(&body).unwrap();
    let text = &request["params"]["arguments"]["text"];
    let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"content": [{"type": "text", "text": text}]}});
    let mut response = hyper::Response::new(Full::new(Bytes::from(answer.to_string())));
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    Ok(response)
}

/// A server in a process of its own, so that its time and memory can be told from the client's.
struct Far {
    child: Child,
    address: String,
}

impl Far {
    fn start(kind: Kind) -> Self {
        let position = Kind::ALL.iter().position(|k| *k == kind).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([SERVE, &position.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned() }
    }

    /// Its processor time so far.
    fn cpu(&self) -> Duration {
        let path = format!("/proc/{}/schedstat", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }

    /// Its resident memory, in bytes.
    fn resident(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve_in_child(position: &str) {
    let kind = Kind::ALL[position.parse::<usize>().unwrap()];
    runtime().block_on(async {
        let (address, mock) = start(kind).await;
        println!("{address}");
        std::io::stdout().flush().unwrap();
        std::future::pending::<()>().await;
        drop(mock);
    });
}

// ---- the client ----

struct Client {
    send: SendRequest<Full<Bytes>>,
    session: Option<String>,
}

impl Client {
    async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { send, session: None }
    }

    async fn request(&mut self, method: &str, body: String) -> hyper::Response<Incoming> {
        let mut request = hyper::Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "127.0.0.1")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        self.send.ready().await.unwrap();
        self.send.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
    }

    /// Opens a conversation. The floor has none, and answers something.
    async fn initialize(&mut self) {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}});
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = self.request("POST", request.to_string()).await;
        self.session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        response.into_body().collect().await.unwrap();
    }

    async fn call(&mut self, id: u64) {
        let request = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": TEXT}},
        });
        let response = self.request("POST", request.to_string()).await;
        let sse = response.headers()["content-type"] == "text/event-stream";
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = if sse {
            match SseReader::new(1 << 20).push(&body).unwrap().pop() {
                Some(SseItem::Event(event)) => serde_json::from_str(&event.data.unwrap()).unwrap(),
                other => panic!("no event but {other:?}"),
            }
        } else {
            serde_json::from_slice(&body).unwrap()
        };
        assert!(answer["id"] == id && answer["result"]["content"][0]["text"] == TEXT, "{answer}");
    }
}

// ---- what is measured ----

fn latency(title: &str, kinds: &[Kind]) {
    const ROUNDS: usize = 15;
    const CALLS: u64 = 2000;
    let pinned = pin_to_one_core();
    runtime().block_on(async {
        let mut all = Vec::new();
        for kind in kinds {
            let (address, mock) = start(*kind).await;
            let mut client = Client::connect(&address).await;
            client.initialize().await;
            for id in 0..CALLS / 2 {
                client.call(id).await;
            }
            all.push((client, mock, Vec::new()));
        }
        for _ in 0..ROUNDS {
            for (client, _, rounds) in &mut all {
                let mut took = Vec::new();
                for id in 0..CALLS {
                    let start = Instant::now();
                    client.call(id).await;
                    took.push(start.elapsed());
                }
                took.sort();
                rounds.push(took);
            }
        }
        println!("\n{title} ({}; {ROUNDS} interleaved rounds of {CALLS} calls)", core_name(pinned));
        let floors: Vec<Duration> = all[0].2.iter().map(|round| round[round.len() / 2]).collect();
        for (kind, (_, _, rounds)) in kinds.iter().zip(&all) {
            let ratio = median(
                rounds
                    .iter()
                    .zip(&floors)
                    .map(|(r, floor)| r[r.len() / 2].as_secs_f64() / floor.as_secs_f64()),
            );
            let mut together: Vec<Duration> = rounds.concat();
            together.sort();
            let at = |part: f64| together[(together.len() as f64 * part) as usize].as_secs_f64() * 1e6;
            let most = together[together.len() - 1].as_secs_f64() * 1e6;
            println!(
                "  {:<20} p50 {:>6.1} µs   p99 {:>6.1} µs   max {most:>7.0} µs   {ratio:.2} × floor",
                kind.name(),
                at(0.5),
                at(0.99)
            );
        }
    });
}

fn load() {
    const CONNECTIONS: usize = 64;
    const ROUNDS: usize = 9;
    const CALLS: u64 = 300;
    let kinds = [Kind::Floor, Kind::Quiet, Kind::Reporting];
    let servers = kinds.map(Far::start);
    runtime().block_on(async {
        let mut clients = Vec::new();
        for server in &servers {
            let mut of = Vec::new();
            for _ in 0..CONNECTIONS {
                let mut client = Client::connect(&server.address).await;
                client.initialize().await;
                of.push(client);
            }
            clients.push(of);
        }
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); kinds.len()];
        let mut costs: Vec<Vec<f64>> = vec![Vec::new(); kinds.len()];
        for round in 0..=ROUNDS {
            for (position, server) in servers.iter().enumerate() {
                let (before, start) = (server.cpu(), Instant::now());
                let mut tasks = tokio::task::JoinSet::new();
                for mut client in clients[position].drain(..) {
                    tasks.spawn(async move {
                        for id in 0..CALLS {
                            client.call(id).await;
                        }
                        client
                    });
                }
                clients[position] = tasks.join_all().await;
                let requests = CONNECTIONS as f64 * CALLS as f64;
                // The first warms up.
                if round > 0 {
                    rates[position].push(requests / start.elapsed().as_secs_f64());
                    costs[position].push((server.cpu() - before).as_secs_f64() / requests);
                }
            }
        }
        println!("\n{CONNECTIONS} connections, server in a process of its own ({ROUNDS} interleaved rounds)");
        for (position, kind) in kinds.iter().enumerate() {
            let ratio = |of: &[Vec<f64>]| median(of[position].iter().zip(&of[0]).map(|(a, b)| a / b));
            println!(
                "  {:<20} {:>7.0} requests/s ({:.0} % of the floor)   {:>5.1} µs CPU per request ({:.2} × floor)",
                kind.name(),
                median(rates[position].iter().copied()),
                ratio(&rates) * 100.0,
                median(costs[position].iter().copied()) * 1e6,
                ratio(&costs)
            );
        }
    });
}

fn sessions() {
    let wanted = 10_000;
    let server = Far::start(Kind::Sessions);
    runtime().block_on(async {
        let mut opener = Client::connect(&server.address).await;
        opener.initialize().await;
        opener.call(0).await;
        let before = server.resident();
        let start = Instant::now();
        let mut streams = Vec::new();
        for _ in 0..wanted {
            opener.session = None;
            opener.initialize().await;
            let mut client = Client::connect(&server.address).await;
            client.session.clone_from(&opener.session);
            let stream = client.request("GET", String::new()).await;
            assert_eq!(stream.status(), 200);
            streams.push((client, stream));
        }
        let took = start.elapsed();
        let used = server.resident().saturating_sub(before);
        // The last session is as good as the first.
        opener.call(1).await;
        println!("\n{wanted} sessions, each with an open GET stream, server in a process of its own");
        println!(
            "  {:.1} KiB of resident memory per session, {:.0} µs to open one",
            used as f64 / f64::from(wanted) / 1024.0,
            took.as_secs_f64() * 1e6 / f64::from(wanted)
        );
    });
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn core_name(pinned: Option<usize>) -> String {
    pinned.map_or_else(|| "not pinned".to_owned(), |core| format!("pinned to core {core}"))
}
