//! The relay.

use super::{Numbers, read, transcript};
use sparring::record::journal::Settings;
use sparring::record::proxy::{Relay, upstream};
use sparring_wire::transcript::{Party, What};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;

/// A relay on a runtime of its own.
struct Running {
    runtime: tokio::runtime::Runtime,
    relay: Relay,
}

impl Running {
    fn start(server: &TcpListener, out: &Path) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let url = upstream(&format!("http://{}/mcp", server.local_addr().unwrap())).unwrap();
        let settings = Settings { path: out.to_owned(), server: "server".into(), show_secrets: false };
        let relay = runtime.block_on(async { Relay::start(&url, 0, settings) }).unwrap();
        Self { runtime, relay }
    }

    fn connect(&self) -> TcpStream {
        let url = url::Url::parse(self.relay.url()).unwrap();
        assert_eq!((url.host_str(), url.path()), (Some("127.0.0.1"), "/mcp"));
        TcpStream::connect(("127.0.0.1", url.port().unwrap())).unwrap()
    }

    fn stop(self) {
        self.runtime.block_on(self.relay.stop()).unwrap();
    }
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn kinds(path: &Path) -> Vec<String> {
    let stored = read(path);
    assert_eq!(stored.incomplete, None);
    let name = |what: &What| serde_json::to_value(what).unwrap()["kind"].as_str().unwrap().to_owned();
    stored.events.iter().map(|event| name(&event.what)).collect()
}

#[test]
fn bytes_that_are_no_http_pass_too() {
    let (_folder, path) = transcript();
    let server = listen();
    let running = Running::start(&server, &path);
    let mut client = running.connect();
    let mut numbers = Numbers(1);
    let (there, back) = (numbers.bytes(300_000), numbers.bytes(200_000));
    let (mut peer, _) = server.accept().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut got = Vec::new();
            peer.read_to_end(&mut got).unwrap();
            assert!(got == there);
            // Only now, when the client has said all: a half-closed connection is handed on as one.
            peer.write_all(&back).unwrap();
            peer.shutdown(Shutdown::Both).unwrap();
        });
        for piece in numbers.pieces(&there, 5000) {
            client.write_all(piece).unwrap();
        }
        client.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert!(got == back);
    });
    running.stop();
    let kinds = kinds(&path);
    assert!(kinds.contains(&"harness-error".to_owned()), "what could not be read is said to be: {kinds:?}");
}

const POST: &[u8] = b"POST /mcp HTTP/1.1\r\nHOST: x\r\ncontent-length: 2\r\n\r\n{}";
const STREAM: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-TYPE: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn exactly(from: &mut TcpStream, wanted: &[u8]) {
    let mut got = vec![0; wanted.len()];
    from.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(wanted));
}

#[test]
fn each_piece_of_a_stream_passes_before_the_next_one_is_made() {
    let (_folder, path) = transcript();
    let server = listen();
    let running = Running::start(&server, &path);
    let mut client = running.connect();
    client.write_all(POST).unwrap();
    let (mut peer, _) = server.accept().unwrap();
    exactly(&mut peer, POST);
    peer.write_all(STREAM).unwrap();
    exactly(&mut client, STREAM);
    // Cut wherever it may be, even in the size of a chunk.
    for piece in [&b"1"[..], b"0\r\ndata: {\"a\":1}", b"\n\n\r\n", b"0\r\nX-Trailer: 1\r\n\r\n"] {
        peer.write_all(piece).unwrap();
        exactly(&mut client, piece);
    }
    drop(client);
    assert_eq!(peer.read(&mut [0]).unwrap(), 0, "the client is gone, and so is the connection to the server");
    running.stop();
    assert_eq!(
        kinds(&path),
        ["recorded", "http-request", "http-response", "stream-event", "stream-ended", "end"]
    );
}

#[test]
fn resets_are_handed_on_as_such() {
    let (_folder, path) = transcript();
    let server = listen();
    let running = Running::start(&server, &path);
    // The server's.
    let mut client = running.connect();
    client.write_all(POST).unwrap();
    let (mut peer, _) = server.accept().unwrap();
    exactly(&mut peer, POST);
    peer.write_all(STREAM).unwrap();
    exactly(&mut client, STREAM);
    reset(peer);
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    // The client's.
    let mut client = running.connect();
    client.write_all(POST).unwrap();
    let (mut peer, _) = server.accept().unwrap();
    exactly(&mut peer, POST);
    reset(client);
    assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    running.stop();
    let ended: Vec<Party> = read(&path)
        .events
        .iter()
        .filter_map(|event| match &event.what {
            What::StreamEnded { by, .. } => Some(*by),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [Party::Server, Party::Client]);
}

/// Closes a connection by a reset.
fn reset(stream: TcpStream) {
    stream.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        stream.set_zero_linger().unwrap();
    });
}

#[test]
fn a_server_that_is_not_there_is_a_connection_that_fails() {
    let (_folder, path) = transcript();
    let server = listen();
    let running = Running::start(&server, &path);
    drop(server);
    let mut client = running.connect();
    let gone = client.write_all(POST).and_then(|()| client.read(&mut [0]));
    assert!(!matches!(gone, Ok(1..)), "{gone:?}");
    running.stop();
    assert_eq!(kinds(&path), ["recorded", "end"]);
}

#[test]
fn one_relay_at_a_time_writes_to_a_file_and_the_next_goes_on_in_it() {
    let (_folder, path) = transcript();
    let server = listen();
    let settings = || Settings { path: path.clone(), server: "server".into(), show_secrets: false };
    for round in 1..=2 {
        let running = Running::start(&server, &path);
        let url = upstream("http://127.0.0.1:1/").unwrap();
        let second = running.runtime.block_on(async { Relay::start(&url, 0, settings()) });
        assert!(second.unwrap_err().to_string().contains("another recording"));
        let mut client = running.connect();
        client.write_all(POST).unwrap();
        let (mut peer, _) = server.accept().unwrap();
        exactly(&mut peer, POST);
        peer.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").unwrap();
        exactly(&mut client, b"HTTP/1.1 202 Accepted\r\n");
        running.stop();
        let last = read(&path).events.into_iter().rev().find_map(|event| match event.what {
            What::HttpRequest(request) => Some((request.exchange, request.connection)),
            _ => None,
        });
        assert_eq!(last, Some((round, round)));
    }
}
