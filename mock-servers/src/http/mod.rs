//! The core behind HTTP listeners on loopback.
//!
//! A mock has up to three: the MCP endpoint's, a second one of another origin that must not see credentials, and the
//! authorization server's if the script has one. Every request and response is reported as it happens, and so is a
//! client that goes away in the middle.
//!
//! - here: the listeners, and the core's effects;
//! - `connection`: requests and usual responses, by way of an HTTP library;
//! - `raw`: responses that are written byte by byte, past that library.

mod connection;
mod raw;

use crate::auth::AuthServer;
use crate::core::{Control, Effect, Input, Origins, RawOut, ServerCore, endpoint_path, legacy_path};
use crate::script::ServerScript;
use crate::sink::{Sink, monotonic_us};
use sparring_wire::transcript::{HttpRole, What};
use sparring_wire::{Revision, Transport};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Numbers of exchanges and connections, shared by all HTTP servers of a case.
#[derive(Debug, Default)]
pub struct Numbers {
    exchanges: AtomicU64,
    connections: AtomicU64,
}

impl Numbers {
    fn exchange(&self) -> u64 {
        self.exchanges.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// What an HTTP mock is to be.
#[derive(Clone)]
pub struct HttpSpec {
    /// The server's name in the scenario.
    pub name: String,
    /// Its script.
    pub script: ServerScript,
    /// The revision that it speaks.
    pub revision: Revision,
    /// Streamable HTTP, or HTTP+SSE as of 2024-11-05.
    pub transport: Transport,
    /// The seed of all that is made up, such as session ids.
    pub seed: u64,
    /// Where observations go.
    pub sink: Arc<dyn Sink>,
    /// Report nothing but faults of the harness: for measurements.
    pub quiet: bool,
    /// Counters to draw from.
    pub numbers: Arc<Numbers>,
    /// The endpoint's port on 127.0.0.1; 0 for any that is free.
    pub port: u16,
}

impl fmt::Debug for HttpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSpec")
            .field("name", &self.name)
            .field("revision", &self.revision)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

/// A running HTTP server. Dropping it without [`shutdown`](Self::shutdown) ends it as well, some time later.
pub struct HttpMock {
    url: String,
    origins: Origins,
    authorization_origin: Option<String>,
    hand_out: serde_json::Map<String, serde_json::Value>,
    shared: Arc<Shared>,
    closing: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
}

impl fmt::Debug for HttpMock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpMock").field("url", &self.url).finish_non_exhaustive()
    }
}

impl HttpMock {
    /// Starts the listeners. Needs a running tokio runtime; fails if a port can't be had, or if the transport is not
    /// one over HTTP.
    pub fn start(spec: HttpSpec) -> io::Result<Self> {
        let (make, path): (MakeCore, _) = match spec.transport {
            Transport::Http => (ServerCore::http, endpoint_path(&spec.script)),
            Transport::SseLegacy => (ServerCore::sse_legacy, legacy_path(&spec.script)),
            Transport::Stdio => return Err(io::Error::new(io::ErrorKind::InvalidInput, "stdio is not HTTP")),
        };
        let path = path.to_owned();
        let (endpoint, own) = listen(spec.port)?;
        let (second, other) = listen(0)?;
        let authorization = spec.script.auth.is_some().then(|| listen(0)).transpose()?;
        let origins = Origins { own, other };
        let url = format!("{}{path}", origins.own);
        let authorization_origin = authorization.as_ref().map(|(_, origin)| origin.clone());
        let auth = spec.script.auth.clone().zip(authorization_origin.clone()).map(|(script, origin)| {
            AuthServer::new(script, spec.revision, url.clone(), origin, spec.seed)
                .with_clock(unix_seconds())
                .with_other_origin(&origins.other)
        });
        let hand_out = auth.as_ref().map(|auth| auth.hand_out(Duration::ZERO)).unwrap_or_default();
        let mut core = make(Arc::new(spec.script), spec.revision, spec.seed, origins.clone(), auth)
            .with_wall_clock(crate::clock::since_1970());
        core.set_quiet(spec.quiet);
        let (closing, closing_seen) = watch::channel(false);
        let shared = Arc::new(Shared {
            name: spec.name,
            sink: spec.sink,
            numbers: spec.numbers,
            started: Instant::now(),
            connected: AtomicBool::new(false),
            state: Mutex::new(State { core, replies: HashMap::new(), closing: false }),
            closing: closing_seen,
            runtime: tokio::runtime::Handle::current(),
        });
        let mut roles = vec![(endpoint, HttpRole::Mcp), (second, HttpRole::Other)];
        roles.extend(authorization.map(|(listener, _)| (listener, HttpRole::AuthorizationServer)));
        let listeners = roles
            .into_iter()
            .map(|(listener, role)| tokio::spawn(accept(listener, role, Arc::clone(&shared))))
            .collect();
        Ok(Self { url, origins, authorization_origin, hand_out, shared, closing, listeners })
    }

    /// The endpoint's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The endpoint's origin.
    pub fn origin(&self) -> &str {
        &self.origins.own
    }

    /// The origin of the second listener, which answers everything with an empty JSON object.
    pub fn other_origin(&self) -> &str {
        &self.origins.other
    }

    /// The origin of the authorization server's listener, if the script has one.
    pub fn authorization_origin(&self) -> Option<&str> {
        self.authorization_origin.as_deref()
    }

    /// Runs these actions now. They have run when this returns, but for those that wait for something.
    pub fn control(&self, control: Control) {
        self.shared.input(Input::Control(control));
    }

    /// The ids of the sessions that are open, in the order of their making.
    pub fn sessions(&self) -> Vec<String> {
        self.shared.state().core.sessions()
    }

    /// The numbers of the exchanges that are open: requests without a whole answer, and streams.
    pub fn exchanges(&self) -> Vec<u64> {
        self.shared.state().core.exchanges()
    }

    /// What a client has to be told before it starts, as far as the script's `auth` wants it: see
    /// [`AuthServer::hand_out`].
    pub const fn hand_out(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.hand_out
    }

    /// Closes the listeners and all connections, and waits until that is done. Nothing is reported afterwards.
    pub async fn shutdown(mut self) {
        self.shared.state().closing = true;
        let _ = self.closing.send(true);
        for listener in self.listeners.drain(..) {
            let _ = listener.await;
        }
    }
}

type MakeCore = fn(Arc<ServerScript>, Revision, u64, Origins, Option<AuthServer>) -> ServerCore;
/// What signatures of clients are dated by.
fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.ok().and_then(|now| i64::try_from(now.as_secs()).ok()).unwrap_or_default()
}

fn listen(port: u16) -> io::Result<(TcpListener, String)> {
    let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    let origin = format!("http://{}", listener.local_addr()?);
    Ok((TcpListener::from_std(listener)?, origin))
}

struct Shared {
    name: String,
    sink: Arc<dyn Sink>,
    numbers: Arc<Numbers>,
    started: Instant,
    /// Whether the first connection has come.
    connected: AtomicBool,
    state: Mutex<State>,
    closing: watch::Receiver<bool>,
    /// Effects can come from a drop, where no runtime is at hand.
    runtime: tokio::runtime::Handle,
}

struct State {
    core: ServerCore,
    /// Where the pieces of each open exchange's response go.
    replies: HashMap<u64, UnboundedSender<Piece>>,
    closing: bool,
}

/// A part of a response.
enum Piece {
    Whole { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    Head { status: u16, headers: Vec<(String, String)> },
    Chunk(Vec<u8>),
    End,
    Reset,
    Raw(RawOut),
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Feeds the core and carries out its effects. The lock is held throughout, so that effects keep their order;
    /// none of them blocks.
    fn input(self: &Arc<Self>, input: Input) {
        let mut state = self.state();
        if state.closing {
            return;
        }
        for effect in state.core.handle(self.started.elapsed(), input) {
            let (exchange, piece, last) = match effect {
                Effect::Observe(what) => {
                    self.sink.event(&self.name, None, monotonic_us(), what);
                    continue;
                }
                Effect::Timer { id, after } => {
                    self.runtime.spawn(wake(Arc::downgrade(self), self.closing.clone(), id, after));
                    continue;
                }
                Effect::Respond { exchange, status, headers, body } => {
                    (exchange, Piece::Whole { status, headers, body }, true)
                }
                Effect::Head { exchange, status, headers } => {
                    (exchange, Piece::Head { status, headers }, false)
                }
                Effect::Chunk { exchange, bytes } => (exchange, Piece::Chunk(bytes), false),
                Effect::End { exchange } => (exchange, Piece::End, true),
                Effect::Reset { exchange } => (exchange, Piece::Reset, true),
                Effect::Raw { exchange, out } => {
                    let last = !matches!(out, RawOut::Bytes(_) | RawOut::Pause(_) | RawOut::Stall);
                    (exchange, Piece::Raw(out), last)
                }
                // Of stdio.
                Effect::StartReading
                | Effect::StopReading { .. }
                | Effect::CloseStdin
                | Effect::Write(_)
                | Effect::Pause(_)
                | Effect::Stderr(_)
                | Effect::StderrText(_)
                | Effect::CloseStdout
                | Effect::CloseStderr
                | Effect::StartDescendant(_)
                | Effect::Exit(_)
                | Effect::Die(_) => continue,
            };
            if let Some(reply) = state.replies.get(&exchange) {
                // The client may be gone already; its guard will tell the core.
                let _ = reply.send(piece);
                if last {
                    state.replies.remove(&exchange);
                }
            }
        }
    }

    fn fault(&self, message: String) {
        if !self.state().closing {
            self.sink.event(&self.name, None, monotonic_us(), What::HarnessError { message });
        }
    }
}

async fn wake(shared: Weak<Shared>, mut closing: watch::Receiver<bool>, id: u64, after: Duration) {
    tokio::select! {
        () = tokio::time::sleep(after) => {}
        () = closed(&mut closing) => return,
    }
    if let Some(shared) = shared.upgrade() {
        shared.input(Input::Timer(id));
    }
}

/// Waits until the mock is shut down or dropped.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn accept(listener: TcpListener, role: HttpRole, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut closing = shared.closing.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection::serve(stream, role, Arc::clone(&shared)));
                }
                // Out of descriptors, most likely: give connections that end time to make room.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
            () = closed(&mut closing) => break,
        }
    }
    drop(listener);
    connections.shutdown().await;
}
