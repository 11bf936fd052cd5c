//! `sparring serve`, with real processes and sockets.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that panics fails its test")]

use serde_json::{Value, json};
use sparring_reports::model::exit_code;
use sparring_wire::transcript::{Event, What};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// No test takes this long; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn sparring() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sparring"));
    command.env("NO_COLOR", "1").arg("serve");
    command
}

/// Runs to its end, which comes at once; exit code, stdout and stderr.
fn refused(words: &[&str]) -> (i32, String, String) {
    let out = sparring().args(words).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

/// A mock that is served. Dropping it ends it.
struct Mock {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    ready: Value,
}

impl Mock {
    /// HTTP or broker: the ready line is on stdout.
    fn start(words: &[&str]) -> Self {
        let mut command = sparring();
        command.args(words);
        Self::spawn(command)
    }

    /// The same, of this command.
    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let ready = read_json(&mut stdout);
        Self { child, stdin, stdout, ready }
    }

    /// A stdio mock that is its own process: the ready line is on stderr.
    fn own(words: &[&str]) -> Self {
        let mut command = sparring();
        command.arg("stdio").args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let ready = read_json(&mut stderr);
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout, ready }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn hear(&mut self) -> Value {
        read_json(&mut self.stdout)
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Its exit code.
    fn code(&mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    fn url(&self) -> &str {
        self.ready["url"].as_str().unwrap()
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "", &self.token())
    }

    fn post(&self, path: &str, body: &str) -> (u16, Value) {
        self.ask("POST", path, body, &self.token())
    }

    fn token(&self) -> String {
        self.ready["control"]["token"].as_str().unwrap().to_owned()
    }

    fn ask(&self, method: &str, path: &str, body: &str, token: &str) -> (u16, Value) {
        let url = format!("{}{path}", self.ready["control"]["url"].as_str().unwrap());
        let answer = http(method, &url, &[("authorization", &format!("Bearer {token}"))], body);
        let value = serde_json::from_str(&answer.body).unwrap_or_else(|e| panic!("{e}: {}", answer.body));
        (answer.status, value)
    }

    /// Waits for an event like this; the first one.
    fn wait(&self, pattern: &str) -> Value {
        let (status, answer) = self.post("/wait", &format!("{{pattern: {pattern}, timeout_ms: 30000}}"));
        assert_eq!((status, &answer["matched"]), (200, &json!(true)), "{pattern}: {answer}");
        answer["events"][0].clone()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_json(from: &mut impl BufRead) -> Value {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: `{line}`"))
}

struct HttpAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl HttpAnswer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// Sends a request, and returns the head of the answer with what follows it, unread.
fn begin(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (HttpAnswer, BufReader<TcpStream>) {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = format!("{method} /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n{body}", body.len());
    (&stream).write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    (HttpAnswer { status, headers, body: String::new() }, reader)
}

/// A whole exchange. Chunked bodies are put together.
fn http(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> HttpAnswer {
    let (mut answer, mut reader) = begin(method, url, headers, body);
    if answer.header("transfer-encoding") == Some("chunked") {
        while let Some(chunk) = next_chunk(&mut reader) {
            answer.body += &chunk;
        }
    } else {
        reader.read_to_string(&mut answer.body).unwrap();
    }
    answer
}

fn next_chunk(reader: &mut impl BufRead) -> Option<String> {
    let mut size = String::new();
    reader.read_line(&mut size).unwrap();
    let size = usize::from_str_radix(size.trim(), 16).unwrap();
    let mut chunk = vec![0; size + 2];
    reader.read_exact(&mut chunk).unwrap();
    chunk.truncate(size);
    (size > 0).then(|| String::from_utf8(chunk).unwrap())
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }})
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn call(id: u64, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": {"text": "hi"}}})
}

const MCP: [(&str, &str); 3] = [
    ("accept", "application/json, text/event-stream"),
    ("content-type", "application/json"),
    ("mcp-protocol-version", "2025-11-25"),
];

fn mcp(session: &str) -> Vec<(&str, &str)> {
    let mut headers = MCP.to_vec();
    if !session.is_empty() {
        headers.push(("mcp-session-id", session));
    }
    headers
}

/// Opens a session and returns its id.
fn open(mock: &Mock) -> String {
    let answer = http("POST", mock.url(), &mcp(""), &initialize().to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let session = answer.header("mcp-session-id").unwrap_or_default().to_owned();
    let answer = http("POST", mock.url(), &mcp(&session), &initialized().to_string());
    assert_eq!(answer.status, 202, "{}", answer.body);
    session
}

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.name(name)
    }
}

fn events(path: &Path) -> Vec<Event> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The events of a transcript that was finished, without its end.
fn whole(path: &Path) -> Vec<Event> {
    let mut events = events(path);
    assert!((1..).zip(&events).all(|(n, event)| event.n == n));
    assert_eq!(events.pop().map(|event| event.what), Some(What::End));
    events
}

/// `sparring judge` has something to say of the transcript, and nothing against it.
fn judge(path: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sparring"));
    let out = command.arg("judge").arg(path).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(i32::from(exit_code::PASSED)), "{text}");
    assert!(text.contains("pass          harness.own-messages-valid"), "{text}");
}

// ---- HTTP ----

#[test]
fn the_ready_line_says_where_everything_is() {
    let files = Files::new();
    let transcript = files.name("t.jsonl");
    let mock = Mock::start(&["http", "--transcript", &transcript]);
    let ready = &mock.ready;
    assert_eq!((&ready["sparring"], &ready["version"]), (&json!("ready"), &json!(1)), "{ready}");
    assert_eq!((&ready["transport"], &ready["pid"]), (&json!("http"), &json!(mock.child.id())), "{ready}");
    assert_eq!((&ready["revision"], &ready["transcript"]), (&json!("2025-11-25"), &json!(transcript)));
    assert!(ready["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{ready}");
    assert!(ready["control"]["url"].as_str().unwrap().ends_with("/v1"), "{ready}");
    assert_eq!(mock.token().len(), 32);
    assert_eq!(ready.get("authorization_server"), None);
    assert!(files.path("t.jsonl").is_file(), "a reader can follow it from the start");
}

#[test]
fn an_authorization_server_is_named_and_secrets_stay_out_of_the_transcript() {
    let files = Files::new();
    let script = files.write("s.yaml", "tools: [echo]\nauth: {}\n");
    for (more, secret_is_shown) in [(&[][..], false), (&["--show-secrets"], true)] {
        let transcript = files.name("t.jsonl");
        let mut words = vec!["http", "--script", &script, "--transcript", &transcript];
        words.extend(more);
        let mut mock = Mock::start(&words);
        assert!(mock.ready["authorization_server"].as_str().unwrap().starts_with("http://127.0.0.1:"));
        let mut headers = mcp("");
        headers.push(("authorization", "Bearer hunter2-hunter2"));
        let answer = http("POST", mock.url(), &headers, &initialize().to_string());
        assert_eq!(answer.status, 401, "{}", answer.body);
        // The pattern sees what was sent; the answer is redacted like the file.
        let event = mock.wait("{http: POST, header: {authorization: Bearer hunter2-hunter2}}");
        assert_eq!(event.to_string().contains("hunter2-hunter2"), secret_is_shown, "{event}");
        assert_eq!(mock.get("/transcript").1.to_string().contains("hunter2-hunter2"), secret_is_shown);
        mock.post("/stop", "");
        assert_eq!(mock.code(), 0);
        let text = std::fs::read_to_string(files.path("t.jsonl")).unwrap();
        assert_eq!(text.contains("hunter2-hunter2"), secret_is_shown, "{text}");
    }
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for flag in ["--port", "--control-port"] {
        let (status, stdout, stderr) = refused(&["http", flag, &port]);
        assert_eq!((status, stdout.as_str()), (i32::from(exit_code::USAGE), ""), "{stderr}");
        assert!(stderr.contains(&format!("error: {flag}: port {port} is in use")), "{stderr}");
    }
}

#[test]
fn the_port_that_was_asked_for_is_taken() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut command = sparring();
    command.args(["http", "--port", &port.to_string()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let _ = child.kill();
    let stderr = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    // Somebody else on the machine may have been faster.
    assert!(
        ready.contains(&format!("\"http://127.0.0.1:{port}/mcp\""))
            || stderr.contains(&format!("port {port} is in use")),
        "{ready}{stderr}"
    );
}

#[test]
fn each_way_to_stop_ends_with_0_and_a_whole_transcript() {
    use nix::sys::signal::Signal;
    let stops: [fn(&mut Mock); 4] = [
        |mock| mock.signal(Signal::SIGINT),
        |mock| mock.signal(Signal::SIGTERM),
        |mock| mock.stdin = None,
        |mock| assert_eq!(mock.post("/stop", ""), (202, json!({"stopping": true}))),
    ];
    for (number, stop) in stops.iter().enumerate() {
        let files = Files::new();
        let mut mock = Mock::start(&["http", "--stop-with-stdin", "--transcript", &files.name("t.jsonl")]);
        let session = open(&mock);
        let answer = http("POST", mock.url(), &mcp(&session), &call(2, "echo").to_string());
        assert!(answer.body.contains("hi"), "{}", answer.body);
        stop(&mut mock);
        assert_eq!(mock.code(), 0, "stop {number}");
        let events = whole(&files.path("t.jsonl"));
        assert_eq!(events.len(), 6, "three exchanges: {events:?}");
        judge(&files.path("t.jsonl"));
    }
}

#[test]
fn actions_reach_the_client_on_its_get_stream() {
    let mut mock = Mock::start(&["http"]);
    let session = open(&mock);
    let (head, mut stream) = begin("GET", mock.url(), &mcp(&session), "");
    assert_eq!(head.status, 200);
    mock.wait("{http: GET}");
    let state = mock.get("/state").1;
    assert_eq!((&state["sessions"], &state["transport"]), (&json!([session]), &json!("http")), "{state}");
    assert_eq!(state["exchanges"].as_array().unwrap().len(), 1, "the GET stream is open: {state}");
    let script = "- add_tool: { name: later }\n- announce: tools\n- close_get_stream:\n";
    let (status, answer) = mock.post("/actions?label=later", script);
    assert_eq!((status, &answer["ended"]), (200, &json!(false)), "{answer}");
    let mut told = String::new();
    while let Some(chunk) = next_chunk(&mut stream) {
        told += &chunk;
    }
    assert!(told.contains("notifications/tools/list_changed"), "{told}");
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let answer = http("POST", mock.url(), &mcp(&session), &list.to_string());
    assert!(answer.body.contains(r#""name":"later""#), "{}", answer.body);
    // The transcript says who did it, and nothing of it is a fault.
    let event = mock.wait("{rule: later}");
    assert_eq!(event["what"]["rule"], "later");
    assert!(!mock.get("/transcript").1.to_string().contains("scripted_fault"));
    mock.post("/stop", "");
    assert_eq!(mock.code(), 0);
}

#[test]
fn an_exchange_that_waits_can_be_answered_or_reset() {
    let files = Files::new();
    let script = files.write("s.yaml", "tools: [echo]\nrules: [ { on: tools/call, do: [ stall ] } ]\n");
    let mock = Mock::start(&["http", "--script", &script]);
    open(&mock);
    for (nth, actions, status) in [
        (1, "[ { status: 503 } ]", Some(503)),
        (2, "[ reset ]", None),
        (3, "[ { status: { code: 429 } } ]", Some(429)),
    ] {
        let url = mock.url().to_owned();
        let body = call(nth, "echo").to_string();
        let asking = std::thread::spawn(move || {
            let rest = url.strip_prefix("http://").unwrap().to_owned();
            let (host, path) = rest.split_once('/').unwrap();
            let mut stream = TcpStream::connect(host).unwrap();
            let head = format!(
                "POST /{path} HTTP/1.1\r\nhost: {host}\r\naccept: application/json, text/event-stream\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            let mut first = [0; 12];
            stream.read_exact(&mut first).map(|()| String::from_utf8_lossy(&first).into_owned())
        });
        let event = mock.wait(&format!("{{request: tools/call, nth: {nth}}}"));
        let exchange = event["what"]["exchange"].as_u64().unwrap();
        let (code, answer) = mock.post(&format!("/actions?exchange={exchange}"), actions);
        assert_eq!(code, 200, "{answer}");
        let seen = asking.join().unwrap();
        match status {
            Some(status) => assert_eq!(seen.unwrap(), format!("HTTP/1.1 {status}")),
            None => assert_eq!(seen.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset),
        }
        let (code, answer) = mock.post(&format!("/actions?exchange={exchange}"), actions);
        assert_eq!((code, &answer["error"]["code"]), (409, &json!("not-open")), "it is over: {answer}");
    }
}

#[test]
fn the_transcript_is_read_whole_in_part_and_as_it_grows() {
    let mut mock = Mock::start(&["http"]);
    let token = format!("Bearer {}", mock.token());
    let url = format!("{}/transcript/stream?after=1", mock.ready["control"]["url"].as_str().unwrap());
    let (head, mut stream) = begin("GET", &url, &[("authorization", &token)], "");
    assert_eq!((head.status, head.header("content-type")), (200, Some("application/x-ndjson")));
    open(&mock);
    let (_, all) = mock.get("/transcript");
    assert_eq!((&all["last"], &all["missing"]), (&json!(4), &json!(0)), "{all}");
    let numbers = |answer: &Value| -> Vec<u64> {
        answer["events"].as_array().unwrap().iter().map(|e| e["n"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&all), [1, 2, 3, 4]);
    assert_eq!(numbers(&mock.get("/transcript?after=2").1), [3, 4]);
    assert_eq!(numbers(&mock.get("/transcript?after=1&limit=2").1), [2, 3]);
    assert_eq!(numbers(&mock.get("/transcript?after=9").1), [] as [u64; 0]);
    mock.post("/stop", "");
    let mut lines = String::new();
    while let Some(chunk) = next_chunk(&mut stream) {
        lines += &chunk;
    }
    let streamed: Vec<Event> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(streamed.iter().map(|e| e.n).collect::<Vec<_>>(), [2, 3, 4], "from the second to the end");
    assert_eq!(mock.code(), 0);
}

#[test]
fn waiting_counts_and_says_when_it_was_in_vain() {
    let mock = Mock::start(&["http"]);
    let vain = mock.post("/wait", "{pattern: {request: ping}, timeout_ms: 1}").1;
    assert_eq!((&vain["matched"], &vain["events"]), (&json!(false), &json!([])), "{vain}");
    let session = open(&mock);
    for id in 2..4 {
        http("POST", mock.url(), &mcp(&session), &call(id, "echo").to_string());
    }
    let (_, both) = mock.post("/wait", "{pattern: {request: tools/call}, count: 2}");
    assert_eq!((&both["matched"], both["events"].as_array().unwrap().len()), (&json!(true), 2), "{both}");
    let second = &both["events"][1]["n"];
    let after = format!("{{pattern: {{request: tools/call}}, after: {second}, timeout_ms: 1}}");
    assert_eq!(mock.post("/wait", &after).1["matched"], json!(false));
    let one = mock.post("/wait", "{pattern: {request: tools/call}, count: 3, timeout_ms: 1}").1;
    assert_eq!(one["events"].as_array().unwrap().len(), 2, "what there is, is shown: {one}");
    // A wait that is under way ends with the mock.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| mock.post("/wait", "{pattern: {request: ping}, timeout_ms: 60000}"));
        // Whichever comes first, the wait says the same or finds nobody.
        mock.post("/stop", "");
        if let Ok((_, answer)) = waiting.join() {
            assert_eq!((&answer["matched"], &answer["ended"]), (&json!(false), &json!(true)), "{answer}");
        }
    });
}

#[test]
fn who_has_no_token_gets_nothing() {
    let mock = Mock::start(&["http"]);
    for token in ["", "wrong", &mock.token()[1..]] {
        for (method, path) in [("GET", "/state"), ("POST", "/stop"), ("GET", "/nowhere")] {
            let (status, answer) = mock.ask(method, path, "", token);
            assert_eq!((status, &answer["error"]["code"]), (401, &json!("unauthorized")), "{answer}");
        }
    }
    let url = format!("{}/state", mock.ready["control"]["url"].as_str().unwrap());
    let bare = http("GET", &url, &[], "");
    assert_eq!((bare.status, bare.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(mock.get("/state").0, 200, "it has not stopped");
}

#[test]
fn what_is_asked_wrongly_is_told_with_its_place_and_help() {
    let mock = Mock::start(&["http"]);
    for (path, body, status, code, words) in [
        ("/actions", "[ { notfy: { method: x } } ]", 400, "unknown-word", "did you mean `notify`?"),
        ("/actions", "[ { notify: { methd: x } } ]", 400, "unknown-key", "did you mean `method`?"),
        ("/actions", "notify: { method: x }", 400, "yaml", "a list of actions"),
        ("/actions", "[]", 400, "value", "nothing to do"),
        ("/actions", "[ { status: 404 }", 400, "yaml", ""),
        ("/actions", "[ { notify: { method: x, params: '{' } } ]", 400, "json", "not JSON"),
        ("/actions?sesion=x", "[ reset ]", 400, "query", "sesion"),
        ("/actions?exchange=one", "[ reset ]", 400, "query", "exchange"),
        ("/actions?incarnation=1", "[ reset ]", 400, "query", "stdio"),
        ("/actions?session=x", "[ reset ]", 409, "not-open", "session"),
        ("/wait", "{pattern: {reqest: x}}", 400, "unknown-key", "did you mean `request`?"),
        ("/wait", "{pattern: {nth: 1}}", 400, "pattern-head", "request: tools/call"),
        ("/wait", "{pattern: {request: x, answer: y}}", 400, "pattern-head", "request and answer"),
        ("/wait", "{pattern: {step: open}}", 400, "pattern-head", "step"),
        ("/wait", "{pattern: {answer: x, same_id: true}}", 400, "pattern", "same_id"),
        ("/wait", "{pattern: {request: x}, count: 0}", 400, "value", "count"),
        ("/wait", "{pattern: {request: x}, timeout_ms: 600001}", 400, "value", "600000"),
        ("/wait", "{pattern: {request: x}, timeout: 1}", 400, "unknown-key", "timeout_ms"),
        ("/actions", "[{repeat: {times: 100000000, do: [{count: x}]}}]", 400, "value", "100000 actions"),
        ("/actions", "[{pad_to: 67108865}]", 400, "value", "67108865 is not from 0 to 67108864"),
        ("/actions", "[{split_at: [3, 2]}]", 400, "value", "2 does not follow 3"),
        ("/actions", "[{respond: '\"{{nothing}}\"'}]", 400, "placeholder", "is no placeholder"),
        (
            "/wait",
            "{pattern: {request: x, params: '{\"a\": {\"$anny\": true}}'}}",
            400,
            "json-pattern",
            "`$any`",
        ),
        ("/wait", "{}", 400, "missing-key", "pattern"),
        ("/state", "", 405, "method-not-allowed", ""),
        ("/reset", "", 404, "unknown-path", "/v1/stop"),
    ] {
        let (got, answer) = mock.post(path, body);
        let error = &answer["error"];
        assert_eq!((got, error["code"].as_str()), (status, Some(code)), "{path} {body}: {answer}");
        assert!(error.to_string().contains(words), "{path} {body}: {answer}");
    }
    let (_, answer) = mock.post("/actions", "- announce: tools\n- notify: { methd: x }\n");
    assert_eq!((&answer["error"]["line"], &answer["error"]["column"]), (&json!(2), &json!(13)), "{answer}");
    let (status, _) = mock.post("/actions", &" ".repeat((1 << 20) + 1));
    assert_eq!(status, 413);
    assert_eq!(mock.get("/transcript?aftr=1").0, 400);
    assert_eq!(mock.get("/transcript/stream?limit=1").0, 400);
    // JSON as programs write it is fine, indented with tabs or not.
    for body in [
        "[\n\t{\"announce\":\t\"tools\"}\n]",
        r#"[{"notify":{"method":"notifications/message","params":"{\"level\":\"info\",\"data\":\"\\u00e9\"}"}}]"#,
    ] {
        let (status, answer) = mock.post("/actions", body);
        assert_eq!(status, 200, "{answer}");
    }
}

#[test]
fn without_a_control_api_there_is_none() {
    let mock = Mock::start(&["http", "--no-control"]);
    assert_eq!(mock.ready.get("control"), None, "{}", mock.ready);
    let (status, _, stderr) = refused(&["http", "--no-control", "--control-port", "1"]);
    assert_eq!(status, i32::from(exit_code::USAGE), "{stderr}");
}

#[test]
fn the_same_seed_makes_the_same_sessions() {
    let session = |seed: &str| open(&Mock::start(&["http", "--seed", seed]));
    assert_eq!(session("7"), session("7"));
    assert_ne!(session("7"), session("8"));
}

// ---- what to serve ----

#[test]
fn a_built_in_scenario_is_served_by_its_id() {
    let mock = Mock::start(&["http", "--scenario", "lifecycle.plain"]);
    open(&mock);
    let (status, _, stderr) = refused(&["http", "--scenario", "lifecycle.plian"]);
    assert_eq!(status, i32::from(exit_code::USAGE));
    assert!(stderr.contains("did you mean `lifecycle.plain`?"), "{stderr}");
}

#[test]
fn one_of_several_servers_has_to_be_named() {
    let files = Files::new();
    let scenario = files.write(
        "two.yaml",
        "scenario: two\nversion: 1\nabout: Two servers.\nservers:\n  a: { tools: [echo] }\n  b: { tools: [add] }\n\
         drive: [ { open: } ]\njudge: []\n",
    );
    let (status, _, stderr) = refused(&["http", "--scenario", &scenario]);
    assert_eq!(status, i32::from(exit_code::USAGE));
    assert!(stderr.contains("choose one with --server: a, b"), "{stderr}");
    let (status, _, stderr) = refused(&["http", "--scenario", &scenario, "--server", "c"]);
    assert_eq!(status, i32::from(exit_code::USAGE));
    assert!(stderr.contains("has no server `c`; it has a, b"), "{stderr}");
    let mock = Mock::start(&["http", "--scenario", &scenario, "--server", "b"]);
    assert_eq!(mock.get("/state").1["server"], "b");
}

#[test]
fn a_bad_script_is_told_like_a_compiler_does() {
    let files = Files::new();
    let script =
        files.write("bad.yaml", "tools: [echo]\nrules:\n  - on: tools/call\n    do: [ { stats: 404 } ]\n");
    for transport in ["http", "stdio"] {
        let (status, stdout, stderr) = refused(&[transport, "--script", &script]);
        assert_eq!((status, stdout.as_str()), (i32::from(exit_code::USAGE), ""), "{stderr}");
        assert!(stderr.contains(&format!("{script}:4:13")), "{stderr}");
        assert!(stderr.contains("did you mean `status`?"), "{stderr}");
    }
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/files/prompts/get.yaml");
    let (_, _, stderr) = refused(&["http", "--script", &scenario.display().to_string()]);
    assert!(stderr.contains("serve its server with `--scenario "), "{stderr}");
    let (status, _, stderr) = refused(&["http", "--script", "builtin:nothing"]);
    assert_eq!(status, i32::from(exit_code::USAGE));
    assert!(stderr.contains("there is everything"), "{stderr}");
}

#[test]
fn what_lint_calls_an_error_is_refused_and_a_warning_is_not() {
    let files = Files::new();
    let wrong =
        files.write("nth.yaml", "tools: [echo]\nrules:\n  - on: tools/call\n    nth: 0\n    do: [ drop ]\n");
    let (status, _, stderr) = refused(&["http", "--script", &wrong]);
    assert_eq!(status, i32::from(exit_code::USAGE), "{stderr}");
    assert!(stderr.contains(&format!("{wrong}:4:10")) && stderr.contains("counts from 1"), "{stderr}");
    let warned = "rules:\n  - { on: tools/call, params: '{\"name\": \"ecko\"}', do: [ drop ] }\n";
    let mut mock = Mock::start(&["http", "--script", &files.write("warned.yaml", warned)]);
    mock.post("/stop", "");
    assert_eq!(mock.code(), 0);
}

#[test]
fn a_server_is_not_named_beside_a_script() {
    for rest in [&["--script", "builtin:everything"][..], &[]] {
        let (status, _, stderr) = refused(&[&["http", "--server", "foo"], rest].concat());
        assert_eq!(status, i32::from(exit_code::USAGE), "{stderr}");
        assert!(stderr.contains("--scenario") || stderr.contains("cannot be used with"), "{stderr}");
    }
}

#[test]
fn what_is_no_regular_file_is_not_replaced() {
    let files = Files::new();
    let target = files.write("target", "precious");
    let link = Path::new(&target).with_file_name("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for flag in ["--ready-file", "--transcript"] {
        for transport in [&["http"][..], &["stdio"], &["stdio", "--broker"]] {
            let (status, _, stderr) = refused(&[transport, &[flag, link.to_str().unwrap()]].concat());
            assert_eq!(status, i32::from(exit_code::REPORT), "{stderr}");
            assert!(stderr.contains(flag) && stderr.contains("a symbolic link"), "{stderr}");
        }
        let folder = link.parent().unwrap().to_str().unwrap();
        let (status, _, stderr) = refused(&["http", flag, folder]);
        assert_eq!(status, i32::from(exit_code::REPORT), "{stderr}");
    }
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");
}

#[test]
fn a_line_that_is_too_long_is_told_on_stderr() {
    let mut command = sparring();
    command.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || drop(stdin.write_all(&vec![b'x'; (16 << 20) + 1])));
    let out = child.wait_with_output().unwrap();
    writing.join().unwrap();
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(70), "{stderr}");
    assert!(stderr.contains("16777216"), "{stderr}");
}

#[test]
fn a_transcript_that_can_not_be_written_ends_with_8() {
    for transport in ["http", "stdio"] {
        let (status, _, stderr) = refused(&[transport, "--transcript", "/nowhere/t.jsonl"]);
        assert_eq!(status, i32::from(exit_code::REPORT), "{stderr}");
        assert!(stderr.contains("--transcript: can't write /nowhere/t.jsonl"), "{stderr}");
    }
    // A disk that is full later is told at the end; here no file may have a single byte.
    let files = Files::new();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_sparring")]);
    command.args(["serve", "http", "--transcript", &files.write("t.jsonl", "")]);
    let mut mock = Mock::spawn(command);
    open(&mock);
    mock.post("/stop", "");
    assert_eq!(mock.code(), i32::from(exit_code::REPORT));
}

#[test]
fn a_revision_is_chosen_and_has_to_fit_the_transport() {
    let mut mock = Mock::own(&["--revision", "2025-06-18"]);
    assert_eq!(mock.ready["revision"], "2025-06-18");
    mock.say(&initialize());
    assert_eq!(mock.hear()["result"]["protocolVersion"], "2025-06-18");
    let (status, _, stderr) = refused(&["http", "--revision", "2024-11-05"]);
    assert_eq!(status, i32::from(exit_code::USAGE), "{stderr}");
}

// ---- stdio, the process itself ----

#[test]
fn the_process_itself_is_the_server_and_ends_with_its_stdin() {
    let files = Files::new();
    let mut mock = Mock::own(&["--transcript", &files.name("t.jsonl")]);
    assert_eq!((&mock.ready["transport"], &mock.ready["pid"]), (&json!("stdio"), &json!(mock.child.id())));
    mock.say(&initialize());
    assert_eq!(mock.hear()["id"], 1);
    mock.say(&initialized());
    mock.say(&call(2, "echo"));
    assert_eq!(mock.hear()["result"]["content"][0]["text"], "hi");
    // Each line is in the file before it is on stdout.
    let so_far = events(&files.path("t.jsonl"));
    assert!(
        matches!(&so_far.last().unwrap().what, What::Line(line) if line.text.contains("hi")),
        "{so_far:?}"
    );
    mock.stdin = None;
    assert_eq!(mock.code(), 0);
    let events = whole(&files.path("t.jsonl"));
    let last: Vec<_> = events.iter().rev().take(2).map(|event| &event.what).collect();
    assert!(matches!(last[..], [What::ProcessExiting { code: Some(0), .. }, What::StdinClosed]), "{last:?}");
    assert!(events.iter().all(|event| event.incarnation == Some(1)));
    judge(&files.path("t.jsonl"));
}

#[test]
fn the_process_itself_takes_signals_as_a_server_does() {
    use nix::sys::signal::Signal;
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let files = Files::new();
        let mut mock = Mock::own(&["--transcript", &files.name("t.jsonl")]);
        mock.signal(signal);
        assert_eq!(mock.code(), code);
        let events = whole(&files.path("t.jsonl"));
        assert!(
            matches!(&events.last().unwrap().what, What::ProcessExiting { code: Some(c), .. } if *c == code)
        );
    }
    // And one whose script says so stays.
    let files = Files::new();
    let script = files.write("s.yaml", "process: { ignore_sigterm: true }\n");
    let mut mock = Mock::own(&["--script", &script]);
    mock.signal(Signal::SIGTERM);
    mock.wait("{process: signal, signal: SIGTERM}");
    mock.say(&initialize());
    assert_eq!(mock.hear()["id"], 1);
    // Only the control API ends it in peace.
    assert_eq!(mock.post("/stop", "").0, 202);
    assert_eq!(mock.code(), 0);
}

#[test]
fn the_process_itself_is_steered_and_dies_when_told_to() {
    let files = Files::new();
    let mut mock = Mock::own(&["--transcript", &files.name("t.jsonl")]);
    mock.say(&initialize());
    mock.hear();
    let (status, answer) = mock.post("/actions", "[ { stdout: not json }, { announce: tools } ]");
    assert_eq!((status, &answer["incarnation"]), (200, &json!(1)), "{answer}");
    let mut line = String::new();
    mock.stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "not json\n");
    assert_eq!(mock.hear()["method"], "notifications/tools/list_changed");
    let state = mock.get("/state").1;
    assert_eq!(state["processes"], json!([{"incarnation": 1, "pid": mock.child.id()}]), "{state}");
    assert_eq!(mock.post("/actions?incarnation=2", "[ { exit: 3 } ]").0, 400);
    let (status, answer) = mock.post("/actions", "[ { exit: 3 } ]");
    assert_eq!((status, &answer["ended"]), (200, &json!(true)), "answered before it is gone: {answer}");
    assert_eq!(mock.code(), 3);
    let events = whole(&files.path("t.jsonl"));
    assert!(matches!(&events.last().unwrap().what, What::ProcessExiting { code: Some(3), .. }));

    let mut mock = Mock::own(&["--transcript", &files.name("t.jsonl")]);
    assert_eq!(mock.post("/actions", "[ { die: SIGKILL } ]").0, 200);
    assert_eq!(mock.code(), -1, "by a signal");
    whole(&files.path("t.jsonl"));
}

#[test]
fn a_ready_file_appears_whole_and_stderr_stays_empty() {
    let files = Files::new();
    let path = files.path("ready.json");
    let mut command = sparring();
    command.args(["stdio", "--ready-file"]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    // Once it answers, it has said where it is.
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", initialize()).unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_json(&mut stdout)["id"], 1);
    let ready: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(ready["pid"], json!(child.id()));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "the token is nobody else's business");
    drop(stdin);
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), out.stderr.len()), (Some(0), 0));
}

// ---- stdio, through a broker ----

/// A process of a broker's server.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(mock: &Mock) -> Self {
        let words: Vec<&str> =
            mock.ready["command"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
        let mut command = Command::new(words[0]);
        let mut child =
            command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, stdin, stdout };
        writeln!(server.stdin.as_mut().unwrap(), "{}", initialize()).unwrap();
        assert_eq!(server.hear()["id"], 1);
        server
    }

    fn hear(&mut self) -> Value {
        read_json(&mut self.stdout)
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_broker_counts_restarts_and_steers_each_process() {
    let files = Files::new();
    let script = files.write(
        "s.yaml",
        "tools: [echo]\nrules: [ { on: tools/call, incarnation: 2, do: [ { exit: 7 } ] } ]\n",
    );
    let mut mock = Mock::start(&[
        "stdio",
        "--broker",
        "--stop-with-stdin",
        "--script",
        &script,
        "--transcript",
        &files.name("t.jsonl"),
    ]);
    assert_eq!(mock.ready["transport"], "stdio");
    let (status, answer) = mock.post("/actions", "[ { announce: tools } ]");
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("no-process")), "{answer}");

    let mut first = Server::start(&mock);
    let (status, answer) = mock.post("/actions", "[ { exit: 5 } ]");
    assert_eq!((status, &answer["ended"]), (200, &json!(true)), "{answer}");
    assert_eq!(first.code(), Some(5));

    let mut second = Server::start(&mock);
    let mut third = Server::start(&mock);
    let state = mock.get("/state").1;
    assert_eq!(state["started"], 3, "{state}");
    let pids = [second.child.id(), third.child.id()];
    assert_eq!(
        state["processes"],
        json!([{"incarnation": 2, "pid": pids[0]}, {"incarnation": 3, "pid": pids[1]}])
    );
    let (_, answer) = mock.post("/actions?incarnation=2", "[ { announce: tools } ]");
    assert_eq!((&answer["incarnation"], &answer["ended"]), (&json!(2), &json!(false)), "{answer}");
    assert_eq!(second.hear()["method"], "notifications/tools/list_changed");
    let (_, answer) = mock.post("/actions", "[ { notify: { method: notifications/prompts/list_changed } } ]");
    assert_eq!(answer["incarnation"], 3, "the last one, if none is named: {answer}");
    assert_eq!(third.hear()["method"], "notifications/prompts/list_changed");
    assert_eq!(mock.post("/actions?incarnation=1", "[ { exit: 1 } ]").0, 409);
    assert_eq!(mock.post("/actions?session=x", "[ { exit: 1 } ]").0, 400);

    writeln!(second.stdin.as_mut().unwrap(), "{}", call(2, "echo")).unwrap();
    assert_eq!(second.code(), Some(7), "the script's rule for the second process");
    third.stdin = None;
    assert_eq!(third.code(), Some(0));
    let (_, gone) = mock.post("/wait", "{pattern: {process: ended}, count: 3}");
    assert_eq!(gone["matched"], true, "{gone}");
    mock.stdin = None;
    assert_eq!(mock.code(), 0);
    let events = whole(&files.path("t.jsonl"));
    assert!(events.is_sorted_by_key(|event| event.at_us));
    let of = |n| events.iter().filter(|event| event.incarnation == Some(n)).count();
    assert!(of(1) > 0 && of(2) > 0 && of(3) > 0 && of(4) == 0);
}

#[test]
fn a_broker_that_is_stopped_leaves_no_process() {
    let mut mock = Mock::start(&["stdio", "--broker"]);
    let mut server = Server::start(&mock);
    mock.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(mock.code(), 0);
    assert_eq!(server.code(), None, "killed");
}

// ---- the page ----

#[test]
fn the_page_has_every_endpoint_flag_and_member() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/serve.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mock = Mock::start(&["http"]);
    let (_, answer) = mock.get("/nowhere");
    let help = answer["error"]["help"].as_str().unwrap();
    for endpoint in help.split(" are ").nth(1).unwrap().replace(" and ", ", ").split(", ") {
        assert!(page.contains(&format!("### `{endpoint}`")), "{endpoint}");
        let (method, path) = endpoint.split_once(" /v1").unwrap();
        assert_ne!(mock.ask(method, path, "", "no token").0, 404, "{endpoint}");
        let wrong = if method == "GET" { "POST" } else { "GET" };
        assert_eq!(mock.ask(wrong, path, "", &mock.token()).0, 405, "{endpoint}");
    }
    for transport in ["http", "sse", "stdio"] {
        let (status, help, _) = refused(&[transport, "--help"]);
        assert_eq!(status, 0);
        let flags = help.split_whitespace().filter(|word| word.starts_with("--"));
        for flag in flags
            .filter(|flag| *flag != "--help" && flag[2..].chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        {
            assert!(page.contains(flag), "{flag}");
        }
    }
    for member in mock.ready.as_object().unwrap().keys() {
        assert!(page.contains(&format!("| `{member}` |")), "{member}");
    }
    let (_, help, _) = refused(&["--help"]);
    for word in ["Examples:", "--broker", "Exit codes:"] {
        assert!(help.contains(word), "{help}");
    }
}
