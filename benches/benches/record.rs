//! What the recorder costs: the round trip of a line, or of an HTTP exchange, through it, as a ratio to the same without
//! it in the same run. First on any core, then all on one. Ratios mean something on any machine, microseconds don't.
//!
//! The servers here only send back what they get, so the ratio is to the bare pipe and the bare connection; a real
//! server's own time comes on top of both.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

use sparring::record::{journal, proxy, stdio};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

const ROUNDS: usize = 9;
const CALLS: usize = 2000;
/// The private words that make this executable a server or a recorder.
const SERVER: &str = "bench-server";
const RECORDER: &str = "bench-recorder";

const LINE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"text\":\"one hundred bytes of text, which is about what a small tool call carries in either direction, friend\"}}}\n";

fn main() {
    if sparring::run::hand_over().is_some() {
        return;
    }
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some(SERVER) => return serve_lines(),
        Some(RECORDER) => record(words[2].clone().into()),
        _ => {}
    }
    let folder = tempfile::tempdir().unwrap();
    for how in ["any core", "one core"] {
        if how == "one core" && sparring::platform::pin_to_one_core().is_none() {
            println!("this system can't bind processes to a core");
            continue;
        }
        let out = folder.path().join(format!("{how}.jsonl"));
        let mut direct = Lines::start(&[SERVER]);
        let mut through = Lines::start(&[RECORDER, out.to_str().unwrap()]);
        compare("stdio", how, || direct.call(), || through.call());
        drop((direct, through));
        http(how, &folder.path().join(format!("http, {how}.jsonl")));
    }
}

/// Interleaved rounds of both; prints the median of the rounds' ratios.
fn compare(what: &str, how: &str, mut direct: impl FnMut(), mut through: impl FnMut()) {
    for _ in 0..300 {
        direct();
        through();
    }
    let (mut ratios, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let floor = round(&mut direct);
        ratios.push(round(&mut through) / floor);
        floors.push(floor);
    }
    let (ratio, floor) = (median(ratios), median(floors));
    println!(
        "{what}, {how}: {ratio:.2} × the bare round trip of {floor:.1} µs, so {:.1} µs more",
        floor * (ratio - 1.0)
    );
}

/// The median of some calls, in microseconds.
fn round(call: &mut impl FnMut()) -> f64 {
    let timed = (0..CALLS).map(|_| {
        let begun = Instant::now();
        call();
        begun.elapsed().as_nanos() as f64 / 1000.0
    });
    median(timed.collect())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

// ---- stdio ----

/// A process that sends back lines.
struct Lines {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Lines {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from, line: Vec::new() }
    }

    fn call(&mut self) {
        self.to.as_mut().unwrap().write_all(LINE).unwrap();
        self.line.clear();
        self.from.read_until(b'\n', &mut self.line).unwrap();
        assert_eq!(self.line, LINE);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.wait();
    }
}

fn serve_lines() {
    let (mut from, mut to) = (BufReader::new(std::io::stdin().lock()), std::io::stdout().lock());
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).unwrap() > 0 {
        to.write_all(&line).unwrap();
        to.flush().unwrap();
        line.clear();
    }
}

fn record(out: PathBuf) -> ! {
    let command = vec![std::env::current_exe().unwrap().into(), SERVER.into()];
    let settings = stdio::Settings { command, out, server: "server".to_owned(), show_secrets: false };
    stdio::record(&settings).unwrap().mirror()
}

// ---- HTTP ----

fn http(how: &str, out: &Path) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || serve_http(stream.unwrap()));
        }
    });
    // As the program has it.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let url = proxy::upstream(&format!("http://{address}/mcp")).unwrap();
    let settings =
        journal::Settings { path: out.to_owned(), server: "server".to_owned(), show_secrets: false };
    let relay = runtime.block_on(async { proxy::Relay::start(&url, 0, settings) }).unwrap();
    let port =
        relay.url().trim_start_matches("http://127.0.0.1:").split('/').next().unwrap().parse().unwrap();
    let mut direct = connect(address.port());
    let mut through = connect(port);
    compare("HTTP", how, || exchange(&mut direct), || exchange(&mut through));
    drop((direct, through));
    runtime.block_on(relay.stop()).unwrap();
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn message(first: &str) -> Vec<u8> {
    let head = format!(
        "{first}\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        LINE.len()
    );
    [head.as_bytes(), LINE].concat()
}

fn exchange(stream: &mut TcpStream) {
    let mut back = vec![0; message("HTTP/1.1 200 OK").len()];
    stream.write_all(&message("POST /mcp HTTP/1.1")).unwrap();
    stream.read_exact(&mut back).unwrap();
}

fn serve_http(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut request = vec![0; message("POST /mcp HTTP/1.1").len()];
    let response = message("HTTP/1.1 200 OK");
    while stream.read_exact(&mut request).is_ok() {
        stream.write_all(&response).unwrap();
    }
}
