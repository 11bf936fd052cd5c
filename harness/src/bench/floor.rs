//! The floors: the same JSON, over the same kind of channel, with nothing of MCP in between. What a client adds is
//! stated as a ratio to them, measured in the same run on the same core.

use super::load::{Load, answer};
use super::{Samples, idle};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::convert::Infallible;
use std::io;
use std::process::Stdio;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// First argument of this program when it is to be the far end of the stdio floor.
const FLOOR_ARGUMENT: &str = "__sparring-floor";

/// If this process is to be the far end of the stdio floor, answers lines until stdin ends; likewise for other servers that the
/// bench keeps in processes of their own.
pub fn run_if_floor() -> Option<std::process::ExitCode> {
    let first = std::env::args_os().nth(1)?;
    let is_floor = first == FLOOR_ARGUMENT;
    (is_floor || first == idle::IDLE_ARGUMENT).then(|| {
        let served = tokio::runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            match is_floor {
                true => runtime.block_on(far_end()),
                false => runtime.block_on(idle::serve()),
            }
        });
        if served.is_ok() { 0.into() } else { 1.into() }
    })
}

#[cfg(unix)]
async fn far_end() -> io::Result<()> {
    use std::os::fd::AsFd;
    use tokio::net::unix::pipe;
    let stdin = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let stdout = pipe::Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
    echo_lines(BufReader::new(stdin), stdout).await
}

#[cfg(not(unix))]
async fn far_end() -> io::Result<()> {
    echo_lines(BufReader::new(tokio::io::stdin()), tokio::io::stdout()).await
}

async fn echo_lines(
    mut from: impl AsyncBufReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
) -> io::Result<()> {
    let mut line = String::new();
    while from.read_line(&mut line).await? > 0 {
        let request: Value = serde_json::from_str(&line)?;
        line.clear();
        let mut text = answer(&request).to_string();
        text.push('\n');
        to.write_all(text.as_bytes()).await?;
        to.flush().await?;
    }
    Ok(())
}

/// The least that a client of a stdio server does: it writes a request, reads a line and parses it. It drives the floor,
/// and a mock that is measured alone.
#[derive(Debug)]
pub struct LineClient {
    child: tokio::process::Child,
    to: tokio::process::ChildStdin,
    from: BufReader<tokio::process::ChildStdout>,
    line: String,
}

impl LineClient {
    /// Starts a server; it is killed when the client is dropped. Fails if the program can't be started.
    pub fn start(program: &std::ffi::OsStr, arguments: &[String]) -> io::Result<Self> {
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the child has no pipes"));
        };
        // As much as a pipe holds: a large answer should cost no more calls than it has to.
        let from = BufReader::with_capacity(64 << 10, from);
        Ok(Self { child, to, from, line: String::new() })
    }

    /// Starts the floor's far end: a child process that answers JSON lines over pipes. `main` has to have called
    /// [`run_if_floor`].
    pub fn floor() -> io::Result<Self> {
        Self::start(std::env::current_exe()?.as_os_str(), &[FLOOR_ARGUMENT.to_owned()])
    }

    /// The server's process id, while it has not ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Writes a message.
    pub async fn send(&mut self, message: &Value) -> io::Result<()> {
        let mut text = message.to_string();
        text.push('\n');
        self.to.write_all(text.as_bytes()).await
    }

    /// Reads a message.
    pub async fn receive(&mut self) -> io::Result<Value> {
        self.line.clear();
        self.from.read_line(&mut self.line).await?;
        Ok(serde_json::from_str(&self.line)?)
    }

    /// Calls `echo` this many times, one after the other, and checks each answer.
    pub async fn round(&mut self, calls: u32) -> io::Result<Samples> {
        self.round_of(Load::Small, calls).await
    }

    /// Makes this many calls, one after the other, and checks each answer.
    pub async fn round_of(&mut self, load: Load, calls: u32) -> io::Result<Samples> {
        let mut samples = Samples::with_capacity(calls as usize);
        for id in 0..u64::from(calls) {
            let start = Instant::now();
            self.send(&load.request(id)).await?;
            load.check(id, &self.receive().await?)?;
            samples.push(start.elapsed());
        }
        Ok(samples)
    }

    /// Closes the server's stdin and waits for its end.
    pub async fn close(self) -> io::Result<std::process::ExitStatus> {
        let Self { mut child, to, from, .. } = self;
        drop(to);
        let status = child.wait().await;
        drop(from);
        status
    }
}

/// A hyper server and a hyper client on one keep-alive connection.
pub(super) struct HttpFloor {
    send: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
}

impl HttpFloor {
    pub(super) async fn start() -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            if let Ok((stream, _)) = listener.accept().await {
                // Best effort, as the mocks do.
                let _ = stream.set_nodelay(true);
                let service = hyper::service::service_fn(serve);
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        });
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (send, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self { send })
    }

    pub(super) async fn round_of(&mut self, load: Load, calls: u32) -> io::Result<Samples> {
        let mut samples = Samples::with_capacity(calls as usize);
        for id in 0..u64::from(calls) {
            let start = Instant::now();
            let http = hyper::Request::post("/mcp")
                .header("host", "127.0.0.1")
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream")
                .body(Full::new(Bytes::from(load.request(id).to_string())))
                .map_err(io::Error::other)?;
            self.send.ready().await.map_err(io::Error::other)?;
            let response = self.send.send_request(http).await.map_err(io::Error::other)?;
            let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
            load.check(id, &serde_json::from_slice(&body)?)?;
            samples.push(start.elapsed());
        }
        Ok(samples)
    }
}

async fn serve(request: hyper::Request<Incoming>) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let body = match request.into_body().collect().await {
        Ok(body) => serde_json::from_slice(&body.to_bytes()).unwrap_or_default(),
        Err(_) => Value::Null,
    };
    let mut response = hyper::Response::new(Full::new(Bytes::from(answer(&body).to_string())));
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    Ok(response)
}
