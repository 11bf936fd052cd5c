//! The scripts of the field reports: there is one for each report, and what can be seen without sockets and processes is
//! what the script says.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use serde_json::{Value, json};
use sparring_mock_servers::core::{Effect, Input, Origins, ServerCore};
use sparring_scenarios::load;
use sparring_wire::framing::Line;
use sparring_wire::transcript::{Direction, HttpRequest, HttpRole, What};
use sparring_wire::{Revision, Transport, meta};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/field-reports")
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned)).collect()
}

#[test]
fn each_report_has_a_script_or_a_reason() {
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let (_, reasons) = readme.split_once("## Not as a script").unwrap();
    let told: BTreeSet<&str> =
        reasons.lines().filter_map(|line| line.strip_prefix("- FR-")?.get(..3)).collect();
    let names = names();
    let numbers: BTreeSet<&str> =
        names.iter().map(|name| name.strip_prefix("FR-").unwrap().get(..3).unwrap()).collect();
    for number in (1..=67).map(|n| format!("{n:03}")) {
        let number = number.as_str();
        assert!(
            numbers.contains(number) != told.contains(number),
            "FR-{number}: a script, or a reason for none"
        );
    }
    assert!(numbers.iter().chain(&told).all(|n| (1..=67).contains(&n.parse::<u32>().unwrap())));
    for name in names {
        let script = load::script(&folder().join(format!("{name}.yaml"))).unwrap_or_else(|e| panic!("{e}"));
        let description = script.description.unwrap();
        assert!(description.contains("Basis: "), "{name}: on what is it based?");
    }
}

// ---- conversations ----

/// A client by hand. What it says, by a word:
///
/// - `init`: the handshake, with the capabilities that follow;
/// - `call NAME TEXT`, `list CURSOR`, `resources CURSOR`, `prompts CURSOR`, `ping`, or any other method: a request, with the next id;
/// - `cancel ID`, `answer ID`: a cancellation, an answer;
/// - `wait`: time passes until the next timer is due;
/// - `get`, `resume ID`, `delete`: over HTTP; `at PATH`: where requests go from now on;
/// - `eof`, `SIGTERM`: over stdio; `writes`: how many lines ended in each write to stdout since that was asked.
///
/// What it sees is told in short: messages by id and text, code or method; `!` stands behind what is marked as a scripted
/// fault; over HTTP statuses go first.
struct Client {
    core: ServerCore,
    stdio: bool,
    stateless: bool,
    now: Duration,
    timers: Vec<(Duration, u64)>,
    id: i64,
    exchange: u64,
    session: Option<String>,
    version: Option<String>,
    last: Option<String>,
    target: String,
    /// How many lines ended in each write to stdout since that was asked.
    writes: Vec<String>,
}

impl Client {
    fn new(name: &str, transport: Transport, revision: Revision, incarnation: u32) -> Self {
        let path = folder().join(format!("{name}.yaml"));
        let script = Arc::new(load::script(&path).unwrap_or_else(|e| panic!("{e}")));
        let stdio = transport == Transport::Stdio;
        let core = if stdio {
            ServerCore::stdio(script, revision, incarnation, 1)
        } else {
            let origins = Origins { own: "http://own".into(), other: "http://other".into() };
            let make =
                if transport == Transport::SseLegacy { ServerCore::sse_legacy } else { ServerCore::http };
            make(script, revision, 1, origins, None)
        };
        Self {
            core,
            stdio,
            stateless: revision == Revision::V2026_07_28,
            now: Duration::ZERO,
            timers: Vec::new(),
            id: 0,
            exchange: 0,
            session: None,
            version: None,
            last: None,
            target: "/mcp".to_owned(),
            writes: Vec::new(),
        }
    }

    fn input(&mut self, input: Input) -> Vec<String> {
        let mut seen = Vec::new();
        for effect in self.core.handle(self.now, input) {
            match effect {
                Effect::Timer { id, after } => self.timers.push((self.now + after, id)),
                Effect::Observe(What::Line(line)) if line.direction == Direction::Sent => {
                    seen.push(short(&line.text) + mark(line.scripted_fault));
                }
                Effect::Observe(What::HttpResponse(response)) => {
                    let session = response.headers.iter().find(|(name, _)| name == "mcp-session-id");
                    self.session = session.map(|(_, id)| id.clone()).or_else(|| self.session.take());
                    let body = response.body.map_or_else(|| "stream".to_owned(), |body| short(&body));
                    seen.push(
                        format!("{} {body}", response.status).trim_end().to_owned()
                            + mark(response.scripted_fault),
                    );
                }
                Effect::Observe(What::StreamEvent(event)) => {
                    let id = event.id.map(|id| format!("id={id} ")).unwrap_or_default();
                    let retry = event.retry.map(|retry| format!("retry={retry} ")).unwrap_or_default();
                    let text = event.data.as_deref().or(event.raw.as_deref()).map(short).unwrap_or_default();
                    seen.push(
                        format!("{id}{retry}{text}").trim_end().to_owned() + mark(event.scripted_fault),
                    );
                }
                Effect::Observe(What::Stderr { bytes }) => seen.push(format!("stderr {bytes}")),
                Effect::Write(bytes) => {
                    self.writes.push(bytes.iter().filter(|b| **b == b'\n').count().to_string());
                }
                Effect::End { .. } => seen.push("end".to_owned()),
                Effect::Reset { .. } => seen.push("reset".to_owned()),
                Effect::Exit(code) => seen.push(format!("exit {code}")),
                Effect::StopReading { .. } => seen.push("deaf".to_owned()),
                _ => {}
            }
        }
        seen
    }

    fn send(&mut self, message: &Value) -> Vec<String> {
        if self.stdio {
            let bytes = message.to_string().into_bytes();
            return self.input(Input::Line(Line { bytes, carriage_return: false, terminated: true }));
        }
        self.http("POST", message.to_string())
    }

    fn http(&mut self, method: &str, body: String) -> Vec<String> {
        self.exchange += 1;
        let mut headers = vec![
            ("accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("content-type".to_owned(), "application/json".to_owned()),
        ];
        headers.extend(self.session.clone().map(|id| ("mcp-session-id".to_owned(), id)));
        headers.extend(self.version.clone().map(|version| ("mcp-protocol-version".to_owned(), version)));
        headers.extend(self.last.take().map(|id| ("last-event-id".to_owned(), id)));
        self.input(Input::Request(Box::new(HttpRequest {
            exchange: self.exchange,
            connection: 1,
            method: method.to_owned(),
            target: self.target.clone(),
            headers,
            body,
            invalid_utf8: false,
            role: HttpRole::Mcp,
        })))
    }

    fn request(&mut self, method: &str, mut params: Value) -> Vec<String> {
        self.id += 1;
        if self.stateless {
            params["_meta"] = json!({
                meta::PROTOCOL_VERSION: "2026-07-28",
                meta::CLIENT_CAPABILITIES: {},
                meta::CLIENT_INFO: {"name": "c", "version": "1"},
            });
        }
        self.send(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}))
    }

    fn say(&mut self, line: &str) -> Vec<String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let page = if rest.is_empty() { json!({}) } else { json!({"cursor": rest}) };
        let number = || rest.parse::<Value>().unwrap();
        match word {
            "start" => self.input(Input::Start),
            "init" => {
                let capabilities: Value = if rest.is_empty() { json!({}) } else { rest.parse().unwrap() };
                self.session = None;
                let mut seen = self.request(
                    "initialize",
                    json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}}),
                );
                seen.extend(self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})));
                seen
            }
            "call" => {
                let (name, text) = rest.split_once(' ').unwrap_or((rest, "hi"));
                let arguments = json!({"text": text});
                self.request("tools/call", json!({"name": name, "arguments": arguments, "_meta": {"progressToken": 1}}))
            }
            "bare-call" => self.request("tools/call", json!({"name": rest})),
            "null-call" => self.request("tools/call", json!({"name": rest, "arguments": null})),
            "state-call" => self.request("tools/call", json!({"name": "echo", "arguments": {"text": "hi"}, "requestState": rest})),
            "list" => self.request("tools/list", page),
            "resources" => self.request("resources/list", page),
            "prompts" => self.request("prompts/list", page),
            "cancel" => self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number()}})),
            "answer" => self.send(&json!({"jsonrpc": "2.0", "id": rest, "result": {}})),
            "refuse" => self.send(&json!({"jsonrpc": "2.0", "id": rest, "error": {"code": -32601, "message": "no"}})),
            "version" => {
                self.version = Some(rest.to_owned()).filter(|v| !v.is_empty());
                Vec::new()
            }
            "session" => {
                self.session = Some(rest.to_owned());
                Vec::new()
            }
            "wait" => {
                self.timers.sort();
                let (due, id) = self.timers.remove(0);
                self.now = due;
                self.input(Input::Timer(id))
            }
            "writes" => vec![std::mem::take(&mut self.writes).join(" ")],
            "get" => self.http("GET", String::new()),
            "resume" => {
                self.last = Some(rest.to_owned());
                self.http("GET", String::new())
            }
            "at" => {
                self.target = rest.to_owned();
                Vec::new()
            }
            "delete" => self.http("DELETE", String::new()),
            "eof" => self.input(Input::Eof),
            "SIGTERM" => self.input(Input::Signal("SIGTERM")),
            method => self.request(method, json!({})),
        }
    }
}

const fn mark(fault: bool) -> &'static str {
    if fault { "!" } else { "" }
}

fn short(text: &str) -> String {
    const LONG: usize = 60;
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return if text.len() > LONG { format!("{} bytes", text.len()) } else { text.trim_end().to_owned() };
    };
    let id = value.get("id").map(|id| format!("{id} ")).unwrap_or_default();
    let names = |key: &str, name: &str| {
        let items = value["result"][key].as_array()?;
        let names: Vec<&str> = items.iter().filter_map(|item| item[name].as_str()).collect();
        let next = value["result"].get("nextCursor").map(|next| format!(" next {next}")).unwrap_or_default();
        Some(names.join(",") + &next)
    };
    let said = if let Some(method) = value["method"].as_str() {
        method.replace("notifications/", "~")
    } else if let Some(error) = value.get("error") {
        format!("{} {}", error["code"], error["message"].as_str().unwrap_or_default())
    } else if let Some(version) = value["result"]["protocolVersion"].as_str() {
        format!("hello {version}")
    } else if let Some(result) = value["result"].get("resultType").filter(|t| *t != "complete") {
        format!("{} {}", result.as_str().unwrap_or_default(), value["result"]["requestState"])
    } else if let Some(names) =
        names("tools", "name").or_else(|| names("resources", "uri")).or_else(|| names("prompts", "name"))
    {
        names
    } else if let Some(content) = value["result"]["content"].as_array() {
        let text = |block: &Value| {
            block["text"].as_str().or_else(|| block["data"].as_str()).unwrap_or_default().to_owned()
        };
        let texts: Vec<String> = content
            .iter()
            .map(text)
            .map(|t| if t.len() > LONG { format!("{} bytes", t.len()) } else { t })
            .collect();
        let failed = if value["result"]["isError"] == true { "failed " } else { "" };
        let structured = value["result"].get("structuredContent").map(|s| s.to_string()).unwrap_or_default();
        let structured =
            if structured.len() > LONG { format!("{} bytes", structured.len()) } else { structured };
        format!("{failed}{} {structured}", texts.join("|")).trim_end().to_owned()
    } else {
        "ok".to_owned()
    };
    format!("{id}{said}")
}

/// Says each line's left side and compares what is seen with its right side. `…` stands for anything from there on.
fn talk(name: &str, transport: Transport, revision: Revision, incarnation: u32, lines: &str) {
    let mut client = Client::new(name, transport, revision, incarnation);
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (said, expected) = line.split_once("=>").unwrap_or_else(|| panic!("{name}: {line}"));
        let seen = client.say(said.trim()).join(" ; ");
        let expected = expected.trim();
        match expected.strip_suffix('…') {
            Some(start) => assert!(seen.starts_with(start.trim_end()), "{name}: {line}\nseen: {seen}"),
            None => assert_eq!(seen, expected, "{name}: {line}"),
        }
    }
}

const V: Revision = Revision::V2025_11_25;

/// Plays the conversations of a text: a name of a script, and under it, indented, what is said and seen.
fn play(text: &str, transport: Transport) {
    let conversations = text.split("\n\n").skip(1).map(|talk| talk.split_once('\n').unwrap_or((talk, "")));
    for (name, lines) in conversations {
        talk(name, transport, V, 1, lines);
    }
}

#[test]
fn the_scripts_do_over_stdio_what_they_say() {
    play(include_str!("field_reports/stdio.txt"), Transport::Stdio);
}

#[test]
fn the_scripts_do_over_http_what_they_say() {
    play(include_str!("field_reports/http.txt"), Transport::Http);
}

#[test]
fn the_scripts_do_without_sessions_what_they_say() {
    for (name, transport, lines) in [
        (
            "FR-063a-ask-again-without-a-question",
            Transport::Stdio,
            "call echo => 1 input_required \"opaque=1;é\"\nstate-call opaque=1;é => 2 hi\nstate-call opaque=1;e => 3 -32602 this is not the state",
        ),
        (
            "FR-063b-ask-again-for-ever",
            Transport::Stdio,
            "call echo => 1 input_required \"opaque=1;é\"\nstate-call opaque=1;é => 2 input_required \"opaque=1;é\"",
        ),
        ("FR-018-abandoned-call", Transport::Stdio, "call slow a =>\ncancel 1 =>"),
    ] {
        talk(name, transport, Revision::V2026_07_28, 1, lines);
    }
}

#[test]
fn the_scripts_do_over_the_old_transport_what_they_say() {
    for (name, said) in [
        ("FR-039a-endpoint-absolute-path", "/msg?s="),
        ("FR-039b-endpoint-relative-path", "msg?s="),
        ("FR-039c-endpoint-query-only", "?s="),
        ("FR-039d-endpoint-whole-url", "http://own/msg?s="),
    ] {
        let lines = format!("at /a/b/sse =>\nget => 200 stream ; {said}…");
        talk(name, Transport::SseLegacy, Revision::V2024_11_05, 1, &lines);
        let mut client = Client::new(name, Transport::SseLegacy, Revision::V2024_11_05, 1);
        client.target = "/a/b/sse".to_owned();
        let endpoint = client.say("get").pop().unwrap();
        let reference = endpoint.strip_prefix("http://own").unwrap_or(&endpoint);
        client.target = match reference.as_bytes().first() {
            Some(b'/') => reference.to_owned(),
            Some(b'?') => format!("/a/b/sse{reference}"),
            _ => format!("/a/b/{reference}"),
        };
        let seen = client.say("init");
        assert!(seen.iter().any(|line| line.ends_with("hello 2024-11-05")), "{name}: {seen:?}");
    }
    let lines = "at /sse =>\nget => 200 stream ; /messages?…";
    talk("FR-065c-slow-server-silent-stream", Transport::SseLegacy, Revision::V2024_11_05, 1, lines);
}

#[test]
fn a_second_process_may_be_another() {
    talk(
        "FR-067a-asleep-deaf-server",
        Transport::Stdio,
        V,
        2,
        "start =>\ninit => 1 hello 2025-11-25\ncall echo => 2 hi\ncall echo => 3 hi",
    );
}
