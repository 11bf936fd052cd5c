//! The relay for HTTP: listens on loopback, opens a connection to the real server for each of the client's, and hands on
//! every byte as it comes, and every end and reset. What is said is read in passing, so nothing of it can be changed by
//! the reading: not the case of a header field, not the chunks of a body.

use super::exchange::Connection;
use super::journal::{Journal, Settings};
use super::queue::Queue;
use sparring_mock_servers::sink::monotonic_us;
use sparring_wire::transcript::{Party, What};
use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

/// The most that is passed on at a time, in bytes.
const CHUNK: usize = 64 << 10;

/// Why a URL can't be that of the real server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// It is none.
    #[error("`{0}` is no URL")]
    NoUrl(String),
    /// Not HTTP. TLS would have to be ended here, with the client's trust in a certificate of ours.
    #[error(
        "`{0}` is not supported: only http:// can be recorded (put the recorder between the client and the server behind whatever ends TLS)"
    )]
    Scheme(String),
}

/// Reads the URL of the real server.
///
/// # Errors
/// It is no URL, or not `http`.
pub fn upstream(text: &str) -> Result<Url, BadUrl> {
    let url = Url::parse(text).map_err(|_| BadUrl::NoUrl(text.to_owned()))?;
    match (url.scheme(), url.host_str()) {
        ("http", Some(_)) => Ok(url),
        ("http", None) => Err(BadUrl::NoUrl(text.to_owned())),
        (scheme, _) => Err(BadUrl::Scheme(format!("{scheme}://"))),
    }
}

/// Something that happened on a connection.
enum Seen {
    Opened,
    Received(Vec<u8>),
    Sent(Vec<u8>),
    Ended(Party),
}

struct Note {
    connection: u64,
    at: u64,
    seen: Seen,
}

/// A relay that runs.
pub struct Relay {
    url: String,
    notes: Arc<Queue<Note>>,
    serving: tokio::task::JoinHandle<()>,
    writer: std::thread::JoinHandle<io::Result<()>>,
    stop: tokio::sync::watch::Sender<bool>,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Relay {
    /// Listens on 127.0.0.1, on this port or on any that is free for 0, and begins the recording. Needs a running tokio
    /// runtime.
    ///
    /// # Errors
    /// The port is taken, or the transcript can't be written.
    pub fn start(upstream: &Url, port: u16, settings: Settings) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let listener = TcpListener::from_std(listener)?;
        let mut url = upstream.clone();
        // Both can be set for any URL with a host, and `upstream` lets no other through.
        let _ = url.set_ip_host(Ipv4Addr::LOCALHOST.into());
        let _ = url.set_port(Some(port));
        let journal = Journal::begin(settings, monotonic_us(), false, Some(upstream.to_string()))?;
        let first = journal.numbers().1 + 1;
        let notes = Arc::new(Queue::new());
        let writer = std::thread::Builder::new().name("transcript".to_owned()).spawn({
            let notes = Arc::clone(&notes);
            move || write(&notes, journal)
        })?;
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let host = upstream.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let target = (host, upstream.port_or_known_default().unwrap_or(80));
        let serving = tokio::spawn(accept(listener, target, first, Arc::clone(&notes), stopping));
        Ok(Self { url: url.to_string(), notes, serving, writer, stop })
    }

    /// The URL that takes the place of the server's.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Closes all connections and finishes the transcript.
    ///
    /// # Errors
    /// The transcript could not be written to its end.
    pub async fn stop(self) -> io::Result<()> {
        let _ = self.stop.send(true);
        let _ = self.serving.await;
        self.notes.close();
        let joined = tokio::task::spawn_blocking(|| self.writer.join()).await;
        joined.ok().and_then(Result::ok).unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
    }
}

async fn accept(
    listener: TcpListener,
    target: (String, u16),
    mut number: u64,
    notes: Arc<Queue<Note>>,
    mut stopping: tokio::sync::watch::Receiver<bool>,
) {
    let target = Arc::new(target);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    connections.spawn(relay(client, Arc::clone(&target), number, Arc::clone(&notes)));
                    number += 1;
                }
                // Out of descriptors, most likely: give connections that end time to make room.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
            _ = stopping.changed() => break,
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Notes things of one connection.
struct Noter {
    connection: u64,
    notes: Arc<Queue<Note>>,
}

impl Noter {
    fn bring(&self, bytes: usize, seen: Seen) {
        self.notes.bring(bytes, Note { connection: self.connection, at: monotonic_us(), seen });
    }
}

async fn relay(mut client: TcpStream, target: Arc<(String, u16)>, connection: u64, notes: Arc<Queue<Note>>) {
    let mut server = match TcpStream::connect((target.0.as_str(), target.1)).await {
        Ok(server) => server,
        Err(error) => {
            crate::cli::error(&format!("can't reach {}:{}: {error}", target.0, target.1));
            // As close to a refused connection as one can come that was accepted.
            let _ = client.set_zero_linger();
            return;
        }
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let noter = Noter { connection, notes };
    noter.bring(0, Seen::Opened);
    let (ended, reset) = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let inward = pass(from_client, to_server, &noter, Seen::Received);
        let outward = pass(from_server, to_client, &noter, Seen::Sent);
        tokio::pin!(inward, outward);
        let mut first = None;
        let (mut in_done, mut out_done) = (false, false);
        loop {
            let (by, outcome) = tokio::select! {
                outcome = &mut inward, if !in_done => { in_done = true; (Party::Client, outcome) }
                outcome = &mut outward, if !out_done => { out_done = true; (Party::Server, outcome) }
                else => break (first.unwrap_or(Party::Client), None),
            };
            match outcome {
                // The other direction may still have something to say.
                Outcome::Ended => first = first.or(Some(by)),
                Outcome::Failed { reading: true } => break (first.unwrap_or(by), Some(by)),
                Outcome::Failed { reading: false } => {
                    let other = if by == Party::Client { Party::Server } else { Party::Client };
                    break (first.unwrap_or(other), Some(other));
                }
            }
        }
    };
    noter.bring(0, Seen::Ended(ended));
    noter.notes.wake();
    // A reset is handed on as one.
    match reset {
        Some(Party::Client) => drop(server.set_zero_linger()),
        Some(Party::Server) => drop(client.set_zero_linger()),
        None => {}
    }
}

/// How one direction came to its end.
enum Outcome {
    /// Its writer is through.
    Ended,
    /// The connection that is read from, or the one that is written to, is broken.
    Failed { reading: bool },
}

async fn pass(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    noter: &Noter,
    seen: fn(Vec<u8>) -> Seen,
) -> Outcome {
    let mut buffer = vec![0; CHUNK];
    loop {
        let Ok(count) = from.read(&mut buffer).await else { return Outcome::Failed { reading: true } };
        let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else {
            return match to.shutdown().await {
                Ok(()) => Outcome::Ended,
                Err(_) => Outcome::Failed { reading: false },
            };
        };
        noter.bring(chunk.len(), seen(chunk.to_vec()));
        let passed = to.write_all(chunk).await;
        noter.notes.wake();
        if noter.notes.is_full() {
            tokio::task::block_in_place(|| noter.notes.until_there_is_room());
        }
        if passed.is_err() {
            return Outcome::Failed { reading: false };
        }
    }
}

/// Writes the transcript until the queue is closed. Once that fails, the connections go on without it.
fn write(notes: &Queue<Note>, mut journal: Journal) -> io::Result<()> {
    let (mut exchanges, _) = journal.numbers();
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let mut written = Ok(());
    while let Some(batch) = notes.take() {
        if written.is_err() {
            continue;
        }
        let mut events: Vec<(u64, What)> = Vec::new();
        let mut of_one = Vec::new();
        for Note { connection: number, at, seen } in batch {
            match seen {
                Seen::Opened => {
                    connections.insert(number, Connection::new(number));
                }
                Seen::Received(bytes) => {
                    if let Some(connection) = connections.get_mut(&number) {
                        connection.received(&bytes, &mut exchanges, &mut of_one);
                    }
                }
                Seen::Sent(bytes) => {
                    if let Some(connection) = connections.get_mut(&number) {
                        connection.sent(&bytes, &mut of_one);
                    }
                }
                Seen::Ended(by) => {
                    if let Some(mut connection) = connections.remove(&number) {
                        connection.ended(by, &mut of_one);
                    }
                }
            }
            events.extend(of_one.drain(..).map(|what| (at, what)));
        }
        written = journal.append(events);
        if let Err(e) = &written {
            crate::cli::error(&format!("the transcript can't be written any more: {e}"));
        }
    }
    written?;
    let mut last = Vec::new();
    let mut open: Vec<_> = connections.into_iter().collect();
    open.sort_unstable_by_key(|(number, _)| *number);
    for (_, mut connection) in open {
        // The recorder was stopped: whose end that would have been is not known. The server's, as far as the client can
        // tell.
        connection.ended(Party::Server, &mut last);
    }
    let now = monotonic_us();
    journal.append(last.into_iter().chain([What::End]).map(|what| (now, what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_can_be_recorded() {
        assert!(upstream("http://127.0.0.1:1/mcp").is_ok());
        assert!(matches!(upstream("https://example.org/mcp"), Err(BadUrl::Scheme(_))));
        assert!(upstream("127.0.0.1:80").is_err());
        assert!(matches!(upstream("/mcp"), Err(BadUrl::NoUrl(_))));
    }
}
