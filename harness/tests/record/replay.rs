//! The reference client with a scripted server, recorded; and again with the script that came of it.

use super::{read, sparring, transcript};
use serde_json::{Value, json};
use sparring::driver::{CaseContext, Driver as _, DriverEvents, Target};
use sparring::drivers::Builtin;
use sparring::judge::stored::Stored;
use sparring::record::journal::Settings;
use sparring::record::proxy::{Relay, upstream};
use sparring::record::script;
use sparring_mock_servers::http::{HttpMock, HttpSpec};
use sparring_mock_servers::script::{JsonText, ServerScript};
use sparring_mock_servers::sink::Sink;
use sparring_mock_servers::stdio::{StdioMock, StdioSpec};
use sparring_scenarios::op::{self, Op};
use sparring_wire::Revision;
use sparring_wire::transcript::{Event, Outcome, What};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

struct Deaf;

impl Sink for Deaf {
    fn event(&self, _: &str, _: Option<u32>, _: u64, _: What) {}
}

impl DriverEvents for Deaf {
    fn driver_event(&self, _: &str, _: Value) {}
    fn output(&self, _: &str, _: &str) {}
    fn client_started(&self, _: u32, _: &[String]) {}
    fn client_ended(&self, _: Option<i32>, _: Option<&str>, _: bool) {}
}

const REVISION: Revision = Revision::V2025_11_25;

fn script_of(value: Value) -> ServerScript {
    serde_json::from_value(value).unwrap()
}

/// Makes the reference client do the same things each time.
async fn drive(target: Target, folder: &Path) -> Vec<&'static str> {
    let driver = Builtin::new();
    let context = CaseContext {
        targets: BTreeMap::from([("server".to_owned(), target)]),
        revision: REVISION,
        directory: folder.to_owned(),
        official_scenario: None,
        official_context: None,
        clock_scale: 1,
        config_env: BTreeMap::new(),
        events: Arc::new(Deaf),
    };
    let subject = driver.start(context).await.unwrap();
    let call = |tool: &str, arguments: Value| {
        Op::Call(op::Call {
            tool: tool.to_owned(),
            arguments: Some(JsonText(arguments)),
            ..op::Call::default()
        })
    };
    let ops = [
        Op::Open(op::Open::default()),
        Op::Tools(op::Of::default()),
        call("echo", json!({"text": "one"})),
        call("echo", json!({"text": "two"})),
        call("own", json!({})),
        Op::Resources(op::Of::default()),
        Op::Read(op::Read { uri: "a://b".to_owned(), ..op::Read::default() }),
        Op::Prompts(op::Of::default()),
        call("echo", json!({"text": "one"})),
        Op::Close(op::Of::default()),
    ];
    let mut outcomes = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        let outcome = subject.run(&format!("step-{at}"), op).await.unwrap();
        outcomes.push(match outcome {
            Outcome::Error { .. } => "error",
            other => other.word(),
        });
    }
    subject.stop().await;
    outcomes
}

fn server() -> ServerScript {
    script_of(json!({
        "tools": ["echo", {"name": "own", "title": "Own", "annotations": "{\"readOnlyHint\":true}", "extra": "{\"icons\":[]}"}],
        "page_size": 1,
        "resources": [{"uri": "a://b", "mime_type": "text/plain", "text": "hello"}],
        "prompts": [{"name": "p"}],
        "http": {"sessions": true, "answers": "sse"},
        "rules": [
            {"on": "tools/call", "nth": 2, "do": [{"notify": {"method": "notifications/message", "params": "{\"level\":\"info\",\"data\":\"x\"}"}}]},
            {"on": "tools/call", "nth": 3, "do": [{"error": {"code": -32603, "message": "no"}}]},
            {"on": "tools/call", "nth": 4, "do": [{"respond": "{\"content\":[{\"type\":\"text\",\"text\":\"another\"}]}"}]},
        ],
    }))
}

/// What was said, without times, processes, sessions and ports.
fn conversation(stored: &Stored) -> Vec<String> {
    assert_eq!(stored.incomplete, None);
    let said = |event: &Event| match &event.what {
        What::Line(line) => Some(format!("{:?} {}", line.direction, value(&line.text))),
        What::HttpRequest(request) => Some(format!("{} {}", request.method, value(&request.body))),
        What::HttpResponse(response) => {
            Some(format!("{} {}", response.status, value(response.body.as_deref().unwrap_or("stream"))))
        }
        What::StreamEvent(sent) => Some(format!("event {}", value(sent.data.as_deref().unwrap_or_default()))),
        _ => None,
    };
    let mut all: Vec<String> = stored.events.iter().filter_map(said).collect();
    if stored.events.iter().any(|event| matches!(event.what, What::HttpRequest(_))) {
        // What is said on two connections has no order.
        all.sort();
    }
    all
}

/// JSON in one form.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

/// Through YAML, as a user has it.
fn again(stored: &Stored) -> ServerScript {
    let made = script::of(&stored.events, None).unwrap();
    assert_eq!(made.revision, Some(REVISION));
    assert_eq!(made.left_out, Vec::<String>::new());
    let yaml = made.yaml().unwrap();
    sparring_scenarios::load::parse_script("made.yaml", &yaml).map_err(|e| e.render(false)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stdio_session_is_played_again_word_for_word() {
    let mut script = server();
    let mut conversations = Vec::new();
    for _ in 0..2 {
        let (folder, path) = transcript();
        let mock = StdioMock::prepare(StdioSpec {
            name: "server".into(),
            script: script.clone(),
            revision: REVISION,
            dir: folder.path().to_owned(),
            seed: 0,
            sink: Arc::new(Deaf),
            quiet: false,
            program: Some(sparring().get_program().into()),
        })
        .unwrap();
        let mut args =
            vec!["record".to_owned(), "--out".to_owned(), path.display().to_string(), "--".to_owned()];
        args.extend(mock.command());
        let command = sparring().get_program().to_string_lossy().into_owned();
        let outcomes = drive(Target::Stdio { command, args, env: BTreeMap::new() }, folder.path()).await;
        mock.shutdown().await;
        let stored = read(&path);
        conversations.push((outcomes, conversation(&stored)));
        script = again(&stored);
    }
    assert_eq!(conversations[0], conversations[1]);
    assert!(conversations[0].1.len() > 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_session_is_played_again_word_for_word() {
    let mut script = server();
    let mut conversations = Vec::new();
    for _ in 0..2 {
        let (folder, path) = transcript();
        let mock = HttpMock::start(HttpSpec {
            name: "server".into(),
            script: script.clone(),
            revision: REVISION,
            transport: sparring_wire::Transport::Http,
            seed: 0,
            sink: Arc::new(Deaf),
            quiet: false,
            numbers: Arc::default(),
            port: 0,
        })
        .unwrap();
        let settings = Settings { path: path.clone(), server: "server".into(), show_secrets: false };
        let relay = Relay::start(&upstream(mock.url()).unwrap(), 0, settings).unwrap();
        let outcomes = drive(Target::Http { url: relay.url().to_owned() }, folder.path()).await;
        relay.stop().await.unwrap();
        mock.shutdown().await;
        let stored = read(&path);
        conversations.push((outcomes, conversation(&stored)));
        script = again(&stored);
        assert!(script.http.sessions);
    }
    assert_eq!(conversations[0], conversations[1]);
    assert!(conversations[0].1.len() > 20);
}

#[test]
fn a_script_takes_the_place_of_a_script_only() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let record = |args: &[&str]| {
        let ended = sparring().current_dir(folder.path()).arg("record").args(args).output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let (code, said) = record(&["--out", "a.jsonl", "--as-scenario", "./a.jsonl", "--", "true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(!at("a.jsonl").exists());

    std::fs::write(at("mine.yaml"), "tools: [echo]\n").unwrap();
    let (code, said) = record(&["--out", "a.jsonl", "--as-scenario", "mine.yaml", "--", "true"]);
    assert_eq!(code, Some(8), "{said}");
    assert_eq!(std::fs::read_to_string(at("mine.yaml")).unwrap(), "tools: [echo]\n");

    let event = |n: u64, what: Value| {
        json!({"n": n, "at_us": n, "server": "s", "incarnation": 1, "what": what}).to_string()
    };
    let line = |direction: &str, text: Value| json!({"kind": "line", "direction": direction, "text": text.to_string()});
    let big = "x".repeat(5 << 20);
    let transcript = [
        event(1, json!({"kind": "recorded", "by": "sparring", "started_us": 0})),
        event(
            2,
            line(
                "received",
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "big"}}),
            ),
        ),
        event(
            3,
            line(
                "sent",
                json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": big}]}}),
            ),
        ),
        event(4, json!({"kind": "end"})),
    ];
    std::fs::write(at("a.jsonl"), transcript.join("\n") + "\n").unwrap();
    let (code, said) = record(&["--from", "a.jsonl", "--as-scenario", "a.jsonl"]);
    assert_eq!(code, Some(2), "{said}");
    for _ in 0..2 {
        let (code, said) = record(&["--from", "a.jsonl", "--as-scenario", "b.yaml"]);
        assert_eq!(code, Some(0), "{said}");
    }
    // It is larger than scenarios may be, and yet can be served.
    assert!(std::fs::metadata(at("b.yaml")).unwrap().len() > 5 << 20);
    let script = sparring_scenarios::load::script(&at("b.yaml")).unwrap_or_else(|e| panic!("{}", e.message));
    assert!(serde_json::to_string(&script).unwrap().contains(&big));
}

#[test]
fn what_was_recorded_is_judged_and_a_wrong_server_is_not_held_against_anybody() {
    let (folder, path) = transcript();
    let session = folder.path().join("session");
    std::fs::write(
        &session,
        concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
            "\n"
        ),
    )
    .unwrap();
    // A server that answers with what is no message.
    let out = sparring()
        .args(["record", "--out"])
        .arg(&path)
        .args(["--", "sh", "-c", "read a; echo oops; echo '{\"id\":1}'"])
        .stdin(std::fs::File::open(&session).unwrap())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "oops\n{\"id\":1}\n");
    let judged = |more: &[&str]| {
        let out = sparring().arg("judge").arg(&path).args(more).output().unwrap();
        let text = [out.stdout, out.stderr].concat();
        (out.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = judged(&[]);
    assert_eq!(code, Some(0), "{text}");
    for word in ["harness", "case.", "driver."] {
        assert!(!text.contains(word), "{text}");
    }
    // And a transcript that was cut is no proof.
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 60]).unwrap();
    let (code, text) = judged(&[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("incomplete"), "{text}");
    assert_eq!(judged(&["--incomplete"]).0, Some(0));
    // A script comes of it all the same, and says what it lacks.
    let made = folder.path().join("made.yaml");
    let out =
        sparring().args(["record", "--from"]).arg(&path).arg("--as-scenario").arg(&made).output().unwrap();
    assert!(out.status.success());
    assert!(String::from_utf8(out.stdout).unwrap().contains("incomplete"));
    let script = sparring_scenarios::load::script(&made).unwrap();
    assert!(script.description.is_some());
}
