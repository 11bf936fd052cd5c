//! The core behind HTTP listeners on loopback.
//!
//! A mock has up to three: the MCP endpoint's, a second one of another origin that must not see credentials, and the
//! authorization server's if the script has one. Every request and response is reported as it happens, and so is a
//! client that goes away in the middle.

use crate::auth::AuthServer;
use crate::core::{Control, Effect, Input, Origins, ServerCore, endpoint_path};
use crate::script::ServerScript;
use crate::sink::{Sink, monotonic_us};
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sparring_wire::Revision;
use sparring_wire::transcript::{HttpRequest, HttpRole, What};
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

/// The largest body accepted, in bytes; more is answered 413.
const MAX_BODY: usize = 16 << 20;

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
    /// The seed of all that is made up, such as session ids.
    pub seed: u64,
    /// Where observations go.
    pub sink: Arc<dyn Sink>,
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
    /// Starts the listeners. Needs a running tokio runtime; fails if a port can't be had.
    pub fn start(spec: HttpSpec) -> io::Result<Self> {
        let (endpoint, own) = listen(spec.port)?;
        let (second, other) = listen(0)?;
        let authorization = spec.script.auth.is_some().then(|| listen(0)).transpose()?;
        let origins = Origins { own, other };
        let url = format!("{}{}", origins.own, endpoint_path(&spec.script));
        let authorization_origin = authorization.as_ref().map(|(_, origin)| origin.clone());
        let auth = spec.script.auth.clone().zip(authorization_origin.clone()).map(|(script, origin)| {
            AuthServer::new(script, spec.revision, url.clone(), origin, spec.seed)
                .with_clock(unix_seconds())
                .with_other_origin(&origins.other)
        });
        let hand_out = auth.as_ref().map(|auth| auth.hand_out(Duration::ZERO)).unwrap_or_default();
        let core = ServerCore::http(Arc::new(spec.script), spec.revision, spec.seed, origins.clone(), auth)
            .with_wall_clock(crate::clock::since_1970());
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

/// What signatures of clients are dated by.
fn unix_seconds() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
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
                    connections.spawn(serve(stream, role, Arc::clone(&shared)));
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

/// Serves one connection to its end.
async fn serve(stream: TcpStream, role: HttpRole, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let connection = shared.numbers.connection();
    if role == HttpRole::Mcp && !shared.connected.swap(true, Ordering::Relaxed) {
        shared.input(Input::Start);
    }
    let reset = Arc::new(ResetFlag::default());
    let io = Socket { io: TokioIo::new(stream), reset: Arc::clone(&reset) };
    let service = service_fn(|request| {
        let (shared, reset) = (Arc::clone(&shared), Arc::clone(&reset));
        async move { Ok::<_, Infallible>(answer(request, role, connection, shared, reset).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(io, service);
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        // A connection that fails is the client's doing or the script's, and reported by the guards of its exchanges.
        _ = &mut connection => {}
        () = reset.wanted.notified() => {}
    }
}

/// Whether the connection is to be reset.
#[derive(Debug, Default)]
struct ResetFlag {
    set: AtomicBool,
    wanted: Notify,
}

impl ResetFlag {
    fn set(&self) {
        self.set.store(true, Ordering::Relaxed);
        self.wanted.notify_one();
    }
}

/// A connection that is reset instead of closed if its flag says so.
struct Socket {
    io: TokioIo<TcpStream>,
    reset: Arc<ResetFlag>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.reset.set.load(Ordering::Relaxed) {
            let _ = self.io.inner().set_zero_linger();
        }
    }
}

impl hyper::rt::Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, buffers)
    }
}

/// Reads a request whole, hands it to the core and returns the response that the core begins.
async fn answer(
    request: Request<Incoming>,
    role: HttpRole,
    connection: u64,
    shared: Arc<Shared>,
    reset: Arc<ResetFlag>,
) -> Response<Reply> {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            shared.fault(format!("a request body is larger than {MAX_BODY} bytes"));
            return response(&shared, 413, Vec::new(), Reply::whole(Vec::new()));
        }
        // The client broke off; nobody is there to read this.
        Err(_) => return response(&shared, 400, Vec::new(), Reply::whole(Vec::new())),
    };
    let (body, invalid_utf8) = match std::str::from_utf8(&body) {
        Ok(text) => (text.to_owned(), false),
        Err(_) => (String::from_utf8_lossy(&body).into_owned(), true),
    };
    let headers = head
        .headers
        .iter()
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    let exchange = shared.numbers.exchange();
    let (reply, mut pieces) = unbounded_channel();
    shared.state().replies.insert(exchange, reply);
    let guard = Guard { shared: Arc::clone(&shared), exchange };
    shared.input(Input::Request(Box::new(HttpRequest {
        exchange,
        connection,
        method: head.method.as_str().to_owned(),
        target: head.uri.path_and_query().map_or_else(|| head.uri.to_string(), ToString::to_string),
        headers,
        body,
        invalid_utf8,
        role,
    })));
    match pieces.recv().await {
        Some(Piece::Whole { status, headers, body }) => {
            response(&shared, status, headers, Reply::whole(body))
        }
        Some(Piece::Head { status, headers }) => {
            let stream = Pieces { pieces, reset, flushing: false, _guard: guard };
            response(&shared, status, headers, Reply::Stream(stream))
        }
        Some(Piece::Reset) => {
            reset.set();
            std::future::pending().await
        }
        // Nothing else comes first; and the end without a beginning only when the mock shuts down.
        Some(Piece::Chunk(_) | Piece::End) | None => std::future::pending().await,
    }
}

fn response(shared: &Shared, status: u16, headers: Vec<(String, String)>, body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    match StatusCode::from_u16(status) {
        Ok(status) => *response.status_mut() = status,
        Err(_) => shared.fault(format!("{status} can't be sent as a status")),
    }
    for (name, value) in headers {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes())) {
            (Ok(name), Ok(value)) => {
                response.headers_mut().append(name, value);
            }
            _ => shared.fault(format!("the header field `{name}: {value}` can't be sent")),
        }
    }
    response
}

/// Tells the core when the client has gone away from an exchange; the core knows whether it was done with it.
struct Guard {
    shared: Arc<Shared>,
    exchange: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.state().replies.remove(&self.exchange);
        self.shared.input(Input::Gone { exchange: self.exchange });
    }
}

/// The body of a response.
enum Reply {
    Whole(Option<Bytes>),
    Stream(Pieces),
}

impl Reply {
    fn whole(body: Vec<u8>) -> Self {
        Self::Whole((!body.is_empty()).then(|| body.into()))
    }
}

/// A body that comes in pieces, each flushed by itself.
struct Pieces {
    pieces: UnboundedReceiver<Piece>,
    reset: Arc<ResetFlag>,
    /// A piece was handed over, and hyper is given the turn to write it.
    flushing: bool,
    _guard: Guard,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let stream = match self.get_mut() {
            Self::Whole(body) => return Poll::Ready(body.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => stream,
        };
        if std::mem::take(&mut stream.flushing) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match stream.pieces.poll_recv(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Piece::Chunk(bytes))) => {
                stream.flushing = true;
                Poll::Ready(Some(Ok(Frame::data(bytes.into()))))
            }
            Poll::Ready(Some(Piece::Reset)) => {
                // What came before has been handed to the socket when the connection's task gets to the flag.
                stream.reset.set();
                Poll::Pending
            }
            Poll::Ready(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(body) => {
                hyper::body::SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
            Self::Stream(_) => hyper::body::SizeHint::default(),
        }
    }
}
