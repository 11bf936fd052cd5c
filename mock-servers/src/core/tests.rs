//! Each word of the vocabulary, on cores without I/O and with a clock that only moves when told to.

mod over_http;
mod stdio_words;

use super::*;
use crate::script::Mangle;
use proptest::prelude::*;
use sparring_wire::framing::Lines;
use sparring_wire::transcript::{Direction, HttpRole};

mod rules;
mod stateless;
mod tasks;

const REVISION: Revision = Revision::V2025_11_25;

/// A core, the time, and the timers that it has set.
struct Bench {
    core: ServerCore,
    now: Duration,
    timers: Vec<(Duration, u64)>,
    exchanges: u64,
    session: Option<String>,
    revision: Revision,
    target: String,
    /// All that it has done.
    effects: Vec<Effect>,
}

fn script(json: Value) -> Arc<ServerScript> {
    Arc::new(serde_json::from_value(json).unwrap())
}

/// A stdio server that has been initialized.
fn stdio(json: Value) -> Bench {
    let mut bench = unopened(json, REVISION, 1);
    bench.initialize();
    bench
}

/// The same, before anything was sent.
fn unopened(json: Value, revision: Revision, incarnation: u32) -> Bench {
    let core = ServerCore::stdio(script(json), revision, incarnation, 1);
    let mut bench = Bench::new(core, revision);
    bench.input(Input::Start);
    bench
}

/// An HTTP server that has been initialized.
fn http(json: Value) -> Bench {
    let origins = Origins { own: "http://own".into(), other: "http://other".into() };
    let core = ServerCore::http(script(json), REVISION, 1, origins, None);
    let mut bench = Bench::new(core, REVISION);
    bench.input(Input::Start);
    let params = initialize_params(REVISION);
    bench.exchange("POST", &[], json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    bench.session = bench.effects.iter().find_map(|effect| match effect {
        Effect::Respond { headers, .. } | Effect::Head { headers, .. } => {
            headers.iter().find(|(name, _)| name == "mcp-session-id").map(|(_, id)| id.clone())
        }
        _ => None,
    });
    bench.post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    bench
}

fn initialize_params(revision: Revision) -> Value {
    json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}})
}

fn call(id: impl Into<Value>, text: &str) -> Value {
    let params = json!({"name": "echo", "arguments": {"text": text}, "_meta": {"progressToken": "t"}});
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params})
}

fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

impl Bench {
    fn new(core: ServerCore, revision: Revision) -> Self {
        Self {
            core,
            now: Duration::ZERO,
            timers: Vec::new(),
            exchanges: 0,
            session: None,
            revision,
            target: "/mcp".into(),
            effects: Vec::new(),
        }
    }

    /// Feeds the core; what came of it, one line for each effect that a client could see.
    fn input(&mut self, input: Input) -> Vec<String> {
        let effects = self.core.handle(self.now, input);
        for effect in &effects {
            if let Effect::Timer { id, after } = effect {
                self.timers.push((self.now + *after, *id));
            }
        }
        self.effects.extend(effects.iter().cloned());
        effects.iter().filter_map(show).collect()
    }

    fn line(&mut self, text: &str) -> Vec<String> {
        self.input(Input::Line(Line { bytes: text.into(), carriage_return: false, terminated: true }))
    }

    fn send(&mut self, message: Value) -> Vec<String> {
        self.line(&message.to_string())
    }

    fn initialize(&mut self) -> Vec<String> {
        let params = initialize_params(self.revision);
        let seen = self.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        self.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        seen
    }

    /// Lets time pass until the next timer, and fires it.
    fn wait(&mut self) -> Vec<String> {
        self.timers.sort();
        let (due, id) = self.timers.remove(0);
        self.now = due;
        self.input(Input::Timer(id))
    }

    fn exchange(&mut self, method: &str, headers: &[(&str, &str)], body: Value) -> Vec<String> {
        self.exchanges += 1;
        let mut all = vec![
            ("accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("content-type".into(), "application/json".into()),
        ];
        all.extend(self.session.iter().map(|id| ("mcp-session-id".to_owned(), id.clone())));
        all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self.input(Input::Request(Box::new(HttpRequest {
            exchange: self.exchanges,
            connection: 1,
            method: method.into(),
            target: self.target.clone(),
            headers: all,
            body: if body.is_null() { String::new() } else { body.to_string() },
            invalid_utf8: false,
            role: HttpRole::Mcp,
        })))
    }

    fn post(&mut self, message: Value) -> Vec<String> {
        self.exchange("POST", &[], message)
    }

    fn get(&mut self, last: Option<&str>) -> Vec<String> {
        let headers: Vec<(&str, &str)> = last.map(|last| ("last-event-id", last)).into_iter().collect();
        self.exchange("GET", &headers, Value::Null)
    }

    /// What has been observed, as kinds.
    fn observed(&self, wanted: impl Fn(&What) -> bool) -> usize {
        self.effects.iter().filter(|e| matches!(e, Effect::Observe(what) if wanted(what))).count()
    }
}

/// An effect in short. `!` marks a scripted fault; message texts are cut down to what tells them apart.
fn show(effect: &Effect) -> Option<String> {
    let mark = |fault: bool| if fault { "!" } else { "" };
    Some(match effect {
        Effect::Observe(What::Line(line)) if line.direction == Direction::Sent => {
            format!("{}{}", short(&line.text), mark(line.scripted_fault))
        }
        Effect::Observe(What::HttpResponse(response)) => {
            let body = response.body.as_deref().map(short);
            let head = format!("#{} {}", response.exchange, response.status);
            format!("{head} {}{}", body.unwrap_or_else(|| "stream".into()), mark(response.scripted_fault))
                .trim_end()
                .to_owned()
        }
        Effect::Observe(What::StreamEvent(event)) => {
            let mut parts = vec![format!("#{}", event.exchange)];
            parts.extend(event.id.as_ref().map(|id| format!("id={id}")));
            parts.extend(event.retry.map(|retry| format!("retry={retry}")));
            parts.extend(event.data.as_deref().map(short));
            parts.extend(event.raw.as_ref().map(|raw| format!("raw {raw:?}")));
            parts.retain(|p| !p.is_empty());
            parts.join(" ") + mark(event.scripted_fault)
        }
        Effect::Observe(What::StreamEnded { exchange, by }) => format!("#{exchange} ended by {by:?}"),
        Effect::Observe(What::ResponseBroken { exchange, bytes, how }) => {
            format!("#{exchange} {how:?} after {bytes}")
        }
        Effect::Observe(What::ProcessExiting { code, signal }) => format!("exiting {code:?} {signal:?}"),
        Effect::Observe(What::ModelChanged { change }) => change.clone(),
        Effect::Observe(_) | Effect::Timer { .. } | Effect::Write(_) | Effect::Pause(_) => return None,
        Effect::Respond { .. }
        | Effect::Head { .. }
        | Effect::Chunk { .. }
        | Effect::End { .. }
        | Effect::Raw { .. } => {
            return None;
        }
        Effect::Reset { exchange } => format!("#{exchange} reset"),
        other => format!("{other:?}"),
    })
}

fn short(text: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    if let Value::Array(items) = &value {
        return format!("[{}]", items.iter().map(|i| short(&i.to_string())).collect::<Vec<_>>().join(", "));
    }
    let id = value.get("id").map(|id| format!("{id} ")).unwrap_or_default();
    let rest = if let Some(method) = value.get("method").and_then(Value::as_str) {
        method.replace("notifications/", "~")
    } else if let Some(code) = value.pointer("/error/code") {
        format!("error {code}")
    } else {
        let text = value.pointer("/result/content/0/text").and_then(Value::as_str);
        text.map_or_else(|| "ok".into(), str::to_owned)
    };
    format!("{id}{rest}")
}

fn writes(bench: &Bench) -> Vec<String> {
    let bytes = bench.effects.iter().filter_map(|effect| match effect {
        Effect::Write(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    });
    bytes.collect()
}

/// A server with `echo` and one rule on calls.
fn on_call(actions: Value) -> Value {
    json!({"tools": ["echo"], "rules": [{"on": "tools/call", "do": actions}]})
}

#[test]
fn the_table_lists_each_word() {
    let words =
        |error: String| -> Vec<String> { error.split('`').skip(3).step_by(2).map(str::to_owned).collect() };
    let actions = words(serde_json::from_str::<Action>("\"?\"").unwrap_err().to_string());
    assert!(actions.len() > 30, "{actions:?}");
    let table: String = include_str!("../core.rs").lines().take_while(|l| l.starts_with("//!")).collect();
    for word in actions {
        assert!(table.contains(&format!("`{word}`")), "{word}");
        let tests = concat!(
            include_str!("tests.rs"),
            include_str!("tests/rules.rs"),
            include_str!("tests/stateless.rs"),
            include_str!("tests/tasks.rs"),
            include_str!("tests/stdio_words.rs"),
            include_str!("tests/over_http.rs")
        );
        assert!(tests.contains(&format!("\"{word}\"")), "no test uses {word}");
    }
}

// ---- answers ----

#[test]
fn answering_words_take_the_place_of_the_faithful_answer() {
    for (actions, seen) in [
        (json!([]), vec!["1 hi"]),
        (json!(["default"]), vec!["1 hi"]),
        (json!([{"respond": r#"{"content":[{"type":"text","text":"no"}]}"#}]), vec!["1 no"]),
        (json!([{"respond": r#"{"content":7}"#}]), vec!["1 ok!"]),
        (json!([{"error": {"code": 5, "message": "m", "data": "{}"}}]), vec!["1 error 5"]),
        (json!(["drop"]), vec![]),
        (json!(["duplicate"]), vec!["1 hi", "1 hi!"]),
        (json!(["default", {"error": {"code": 5}}]), vec!["1 hi", "1 error 5!"]),
        (json!([{"mangle": "unknown-id"}]), vec!["1000004 hi!"]),
        (json!([{"mangle": "id-type"}]), vec!["\"1\" hi!"]),
        (json!([{"mangle": "no-version"}]), vec!["1 hi!"]),
        (json!([{"mangle": "result-and-error"}]), vec!["1 error -32603!"]),
        (json!([{"mangle": "wrong-result"}]), vec!["1 ok!"]),
        (json!([{"mangle": "truncated"}]), vec![r#"{"jsonrpc":"2.0","id":1,"result":{"co!"#]),
    ] {
        assert_eq!(stdio(on_call(actions.clone())).send(call(1, "hi")), seen, "{actions}");
    }
    let mut strings = stdio(on_call(json!([{"mangle": "id-type"}])));
    assert_eq!(strings.send(call("7", "hi")), ["7 hi!"]);
    let mut version = stdio(on_call(json!([{"mangle": "no-version"}])));
    version.send(call(1, "hi"));
    assert!(!writes(&version).last().unwrap().contains("jsonrpc"));
}

#[test]
fn a_hold_lets_later_answers_overtake() {
    let mut bench = stdio(json!({"tools": ["echo"], "rules": [
        {"on": "tools/call", "nth": 1, "do": [{"hold_until": {"on": "tools/call", "times": 2}}, {"notify": {"method": "notifications/tools/list_changed"}}]},
    ]}));
    assert!(bench.send(call(1, "a")).is_empty());
    assert_eq!(bench.send(call(2, "b")), ["2 b"]);
    assert_eq!(bench.send(call(3, "c")), ["3 c", "1 a", "~tools/list_changed"]);
}

#[test]
fn a_delay_stops_only_its_own_rule() {
    let mut bench = stdio(json!({"tools": ["echo"], "rules": [
        {"on": "tools/call", "nth": 1, "do": [{"delay_ms": 70}, {"progress": 1}, {"delay_ms": 30}]},
    ]}));
    assert!(bench.send(call(1, "a")).is_empty());
    assert_eq!(bench.send(call(2, "b")), ["2 b"]);
    assert_eq!(bench.wait(), ["~progress"]);
    assert_eq!(bench.wait(), ["1 a"]);
    assert_eq!(bench.now, Duration::from_millis(100));
    assert!(bench.input(Input::Timer(99)).is_empty(), "an unknown timer");
}

#[test]
fn cancellation_drops_the_faithful_answer_but_not_a_scripted_late_one() {
    let cancel = || notification("notifications/cancelled", json!({"requestId": 1}));
    let mut held = stdio(on_call(json!([{"hold_until": {"on": "ping"}}])));
    held.send(call(1, "a"));
    assert!(held.send(cancel()).is_empty());
    assert_eq!(held.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})), ["2 ok"]);

    let mut late = stdio(on_call(json!([{"hold_until": {"on": "notifications/cancelled"}}])));
    late.send(call(1, "a"));
    assert_eq!(late.send(cancel()), ["1 a"]);

    let mut explicit = stdio(on_call(json!([{"delay_ms": 5}, {"error": {"code": 1}}])));
    explicit.send(call(1, "a"));
    assert!(explicit.send(cancel()).is_empty());
    assert_eq!(explicit.wait(), ["1 error 1"]);

    let mut other = stdio(on_call(json!([{"delay_ms": 5}])));
    other.send(call(1, "a"));
    other.send(notification("notifications/cancelled", json!({"requestId": "1"})));
    assert_eq!(other.wait(), ["1 a"], "the id is of another type");
}

// ---- messages of the server's own ----

#[test]
fn own_messages_go_out_in_order_with_ids_of_their_own() {
    let mut bench = stdio(on_call(json!([
        {"notify": {"method": "notifications/cancelled", "params": "{\"requestId\": \"{{id}}\"}"}},
        {"request": {"method": "ping"}},
        {"request": {"method": "roots/list"}},
        {"request": {"method": "ping", "id": "7"}},
        {"request": {"method": "no/such"}},
        {"progress": 2},
        {"hold_until": {"on": "response"}},
    ])));
    assert_eq!(
        bench.send(call(1, "a")),
        [
            "~cancelled",
            "\"s-1\" ping",
            "\"s-2\" roots/list",
            "7 ping",
            "\"s-3\" no/such!",
            "~progress",
            "~progress"
        ]
    );
    assert!(
        writes(&bench).iter().any(|w| w.contains(r#""params":{"requestId":1}"#)),
        "the id keeps its type"
    );
    assert_eq!(bench.send(json!({"jsonrpc": "2.0", "id": "s-1", "result": {}})), ["1 a"]);
    let mut plain = call(2, "b");
    plain["params"].as_object_mut().unwrap().remove("_meta");
    let seen = stdio(on_call(json!([{"progress": 2}]))).send(plain);
    assert_eq!(seen, ["2 b"], "no token, no progress");
}

#[test]
fn a_batch_may_hold_the_answer() {
    let batch = r#"[{"jsonrpc":"2.0","method":"notifications/tools/list_changed"},{"jsonrpc":"2.0","id":"{{id}}","result":{"content":[]}}]"#;
    let mut bench = unopened(on_call(json!([{"batch": batch}])), Revision::V2025_03_26, 1);
    bench.initialize();
    assert_eq!(bench.send(call(1, "a")), ["[~tools/list_changed, 1 ok]"]);
    assert_eq!(
        stdio(on_call(json!([{"batch": batch}]))).send(call(1, "a")),
        ["[~tools/list_changed, 1 ok]!"]
    );
    let without = json!([{"batch": r#"[{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}]"#}]);
    assert_eq!(stdio(on_call(without)).send(call(1, "a")), ["[~tools/list_changed]!", "1 a"]);
}

#[test]
fn the_model_changes_silently_unless_announced() {
    let mut bench = stdio(json!({
        "tools": ["echo"], "prompts": [{"name": "p"}],
        "rules": [{"on": "ping", "do": [
            {"add_tool": "add"}, {"remove_tool": "echo"}, {"add_resource": {"uri": "a://b"}}, {"remove_prompt": "p"},
            {"announce": "tools"}, {"announce": "resources"}, {"announce": "prompts"},
        ]}],
    }));
    assert_eq!(
        bench.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})),
        [
            "tool `add` added",
            "tool `echo` removed",
            "resource `a://b` added",
            "prompt `p` removed",
            "~tools/list_changed",
            "~resources/list_changed",
            "~prompts/list_changed",
            "1 ok",
        ]
    );
    let list = |bench: &mut Bench, what: &str| {
        bench.send(json!({"jsonrpc": "2.0", "id": 2, "method": format!("{what}/list")}));
        let answer: Value = serde_json::from_str(writes(bench).last().unwrap()).unwrap();
        answer["result"][what].as_array().unwrap().len()
    };
    assert_eq!(
        (list(&mut bench, "tools"), list(&mut bench, "resources"), list(&mut bench, "prompts")),
        (1, 1, 0)
    );
    assert_eq!(bench.send(call(3, "x")), ["3 error -32602"]);
}

// ---- stdio ----

#[test]
fn presentation_changes_the_bytes_of_the_next_message_only() {
    let mut bench = stdio(on_call(json!(["crlf", {"split_every": 30}])));
    bench.send(call(1, "hi"));
    let pieces = &writes(&bench)[1..];
    assert_eq!(
        pieces.concat(),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}}\r\n"
    );
    assert!(pieces.len() == 3 && pieces[..2].iter().all(|p| p.len() == 30), "{pieces:?}");
    // A pipe would put them together again if nothing kept them apart.
    let apart = bench.effects.iter().rev().take(6).map(|e| matches!(e, Effect::Pause(_)));
    assert_eq!(apart.collect::<Vec<_>>(), [true, false, true, false, true, false]);

    let mut merged = stdio(
        json!({"tools": ["echo"], "rules": [{"on": "tools/call", "nth": 1, "do": [{"merge_next": 2}]}]}),
    );
    for n in 1..=4 {
        merged.send(call(n, "x"));
    }
    let counts: Vec<usize> = writes(&merged)[1..].iter().map(|w| w.matches('\n').count()).collect();
    assert_eq!(counts, [3, 1]);

    let mut marked = stdio(on_call(json!(["byte_order_mark"])));
    assert_eq!(marked.send(call(1, "a")).len(), 1);
    assert!(writes(&marked)[1].starts_with('\u{feff}'));
    let mut broken = stdio(on_call(json!(["invalid_utf8"])));
    broken.send(call(1, "äöü"));
    assert!(broken.effects.iter().any(|e| matches!(e, Effect::Write(b) if std::str::from_utf8(b).is_err())));
    for bench in [&marked, &broken] {
        assert_eq!(bench.observed(|w| matches!(w, What::Line(l) if l.scripted_fault)), 1);
    }
}

#[test]
fn noise_goes_out_as_it_is() {
    let mut bench = stdio(on_call(
        json!([{"stdout": "Server ready!"}, {"stderr_bytes": 5}, {"stdout": r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#}]),
    ));
    assert_eq!(bench.send(call(1, "a")), ["Server ready!!", "Stderr(5)", "~tools/list_changed", "1 a"]);
    assert_eq!(writes(&bench)[1], "Server ready!\n");
    assert_eq!(bench.observed(|w| *w == What::Stderr { bytes: 5 }), 1);
}

#[test]
fn a_process_ends_as_told() {
    assert_eq!(
        stdio(on_call(json!([{"exit": 3}, "default"]))).send(call(1, "a")),
        ["exiting Some(3) None", "Exit(3)"]
    );
    assert_eq!(
        stdio(on_call(json!([{"die": "SIGKILL"}]))).send(call(1, "a")),
        ["exiting None Some(\"SIGKILL\")", "Die(\"SIGKILL\")"]
    );
    let mut closed = stdio(on_call(json!(["close_stdout"])));
    assert_eq!(closed.send(call(1, "a")), ["CloseStdout"]);
    assert!(closed.send(call(2, "a")).is_empty());
    assert_eq!(
        stdio(on_call(json!(["stop_reading"]))).send(call(1, "a")),
        ["StopReading { after: 0 }", "1 a"]
    );
    let mut dead = stdio(on_call(json!([{"exit": 0}])));
    dead.send(call(1, "a"));
    assert!(dead.send(call(2, "a")).is_empty(), "nothing after the end");
}

#[test]
fn eof_and_sigterm_end_it_unless_ignored() {
    let gone = ["exiting Some(0) None", "Exit(0)"];
    assert_eq!(stdio(json!({})).input(Input::Eof), gone);
    assert!(stdio(json!({"process": {"ignore_eof": true}})).input(Input::Eof).is_empty());
    let mut slow = stdio(json!({"rules": [{"on": "eof", "do": [{"delay_ms": 50}]}]}));
    assert!(slow.input(Input::Eof).is_empty());
    assert_eq!(slow.wait(), gone);
    assert_eq!(
        stdio(json!({"rules": [{"on": "eof", "do": [{"exit": 4}]}]})).input(Input::Eof),
        ["exiting Some(4) None", "Exit(4)"]
    );
    assert_eq!(stdio(json!({})).input(Input::Signal("SIGTERM")), ["exiting Some(143) None", "Exit(143)"]);
    let ignoring = json!({"process": {"ignore_sigterm": true}, "rules": [{"on": "sigterm", "do": [{"notify": {"method": "notifications/tools/list_changed"}}]}]});
    assert_eq!(stdio(ignoring).input(Input::Signal("SIGTERM")), ["~tools/list_changed"]);
    assert_eq!(stdio(json!({})).core.unscripted_ending("SIGTERM"), Some((143, Duration::ZERO)));
    // What was kept back goes out before an orderly end.
    let mut kept = stdio(on_call(json!([{"merge_next": 5}])));
    kept.send(call(1, "a"));
    kept.input(Input::Eof);
    assert!(writes(&kept).last().unwrap().contains("\"a\""));
}

#[test]
fn start_waits_and_leaves_a_grandchild() {
    let mut bench = unopened(
        json!({"process": {"start_delay_ms": 200, "grandchild": true}, "rules": [{"on": "start", "do": [{"stdout": "up"}]}]}),
        REVISION,
        1,
    );
    assert_eq!(bench.effects.len(), 2);
    assert_eq!(bench.effects[0], Effect::StartDescendant(0));
    assert_eq!(bench.wait(), ["StartReading", "up!"]);
    assert_eq!(bench.now, Duration::from_millis(200));
}

// ---- rules ----

#[test]
fn the_first_rule_that_matches_is_taken() {
    let rules = json!([
        {"label": "second", "on": "tools/call", "nth": 2, "do": [{"error": {"code": 2}}]},
        {"on": "tools/call", "params": r#"{"arguments": {"text": "x"}}"#, "do": [{"error": {"code": 3}}]},
        {"on": "tools/call", "incarnation": 2, "do": [{"error": {"code": 4}}]},
        {"on": "tools/call", "params": r#"{"arguments": {"text": "x"}}"#, "nth": 2, "do": [{"error": {"code": 5}}]},
    ]);
    let server = json!({"tools": ["echo"], "rules": rules});
    let mut bench = stdio(server.clone());
    assert_eq!(bench.send(call(1, "y")), ["1 y"]);
    assert_eq!(bench.send(call(2, "x")), ["2 error 2"]);
    assert_eq!(bench.send(call(3, "x")), ["3 error 3"]);
    assert_eq!(bench.observed(|w| *w == What::RuleFired { rule: "second".into() }), 1);
    assert_eq!(bench.observed(|w| *w == What::RuleFired { rule: "tools/call (rule 2)".into() }), 1);
    let mut second = unopened(server, REVISION, 2);
    second.initialize();
    assert_eq!(second.send(call(1, "y")), ["1 error 4"]);
}

#[test]
fn a_response_is_an_event_of_its_own() {
    let mut bench = stdio(json!({"rules": [
        {"on": "notifications/initialized", "do": [{"request": {"method": "ping"}}]},
        {"on": "response", "params": r#"{"code": 1}"#, "do": [{"notify": {"method": "notifications/tools/list_changed"}}]},
    ]}));
    assert!(bench.send(json!({"jsonrpc": "2.0", "id": "s-1", "result": {}})).is_empty());
    let error = json!({"jsonrpc": "2.0", "id": "s-1", "error": {"code": 1, "message": ""}});
    assert_eq!(bench.send(error), ["~tools/list_changed"]);
}

// ---- messages that are wrong ----

#[test]
fn wrong_messages_are_refused_as_the_revision_allows() {
    let mut newest = stdio(json!({}));
    assert_eq!(newest.line("{"), ["error -32700"]);
    assert_eq!(newest.line(r#"{"id":1,"method":"ping"}"#), ["1 error -32600"]);
    assert_eq!(newest.line(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), ["error -32600"]);
    assert_eq!(newest.line("[]"), ["error -32600"]);
    assert_eq!(newest.line(r#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#), ["1 error -32601"]);
    assert_eq!(newest.line(r#"{"jsonrpc":"2.0","result":{}}"#), [""; 0], "a response is never answered");
    assert_eq!(newest.line("  "), [""; 0]);
    assert_eq!(newest.line(r#"{"jsonrpc":"2.0","id":1,"method":"ping","extra":1}"#), ["1 ok"]);
    let mut old = unopened(json!({}), Revision::V2024_11_05, 1);
    assert!(old.line("{").is_empty(), "there is no valid form for it");
    assert_eq!(
        old.line(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
        ["1 error -32600"],
        "before initialize"
    );
    assert_eq!(old.line(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), ["1 ok"]);
}

#[test]
fn batches_are_answered_together_where_they_exist() {
    let server =
        json!({"tools": ["echo"], "rules": [{"on": "tools/call", "nth": 1, "do": [{"delay_ms": 1}]}]});
    let mut bench = unopened(server, Revision::V2025_03_26, 1);
    bench.initialize();
    let batch = json!([
        call(1, "a"),
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        call(2, "b"),
        {"jsonrpc": "2.0", "id": 3},
    ]);
    assert!(bench.send(batch).is_empty());
    assert_eq!(bench.wait(), ["[2 b, 3 error -32600, 1 a]"]);
    assert!(bench.send(json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).is_empty());
}

// ---- HTTP ----

#[test]
fn notifications_before_the_answer_turn_it_into_a_stream() {
    let mut bench =
        http(on_call(json!([{"progress": 1}, {"request": {"method": "ping"}}, {"sse_comment": "hm"}])));
    assert_eq!(
        bench.post(call(1, "a")),
        [
            "#3 200 stream",
            "#3 ~progress",
            "#3 \"s-1\" ping",
            "#3 raw \": hm\\n\\n\"",
            "#3 1 a",
            "#3 ended by Server"
        ]
    );
    assert_eq!(http(on_call(json!([]))).post(call(1, "a")), ["#3 200 1 a"]);
}

#[test]
fn http_answers_follow_the_words() {
    let twice = ["#3 200 stream", "#3 1 a", "#3 1 a!", "#3 ended by Server"];
    for (actions, seen) in [
        (json!([{"answers": "sse"}]), vec!["#3 200 stream", "#3 1 a", "#3 ended by Server"]),
        (json!(["duplicate"]), twice.to_vec()),
        (json!([{"mangle": "truncated"}]), vec![r#"#3 200 {"jsonrpc":"2.0","id":1,"result":{"co!"#]),
        (json!([{"status": 503}]), vec!["#3 503"]),
        (json!([{"status": {"code": 200, "body": "<html>"}}]), vec!["#3 200 <html>!"]),
        (json!(["reset"]), vec!["#3 ended by Server", "#3 reset"]),
        (json!(["stall"]), vec![]),
        (json!(["drop"]), vec![]),
        (json!([{"answers": "sse"}, "drop"]), vec!["#3 200 stream"]),
        (json!([{"cut_stream": {}}]), vec!["#3 200 stream", "#3 ended by Server"]),
        (
            json!([{"cut_stream": {"id": "e", "retry_ms": 5, "reset": true}}]),
            vec!["#3 200 stream", "#3 id=e retry=5", "#3 ended by Server", "#3 reset"],
        ),
        (
            json!([{"raw_body": {"text": "data: {\"jsonrpc\":\"2.0\",\"id\":{{json id}},\"result\":{{result}}}\r\r"}}]),
            vec![
                "#3 200 stream",
                "#3 raw \"data: {\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"result\\\":{\\\"content\\\":[{\\\"type\\\":\\\"text\\\",\\\"text\\\":\\\"a\\\"}]}}\\r\\r\"",
                "#3 ended by Server",
            ],
        ),
        (
            json!([{"raw_body": {"content_type": "text/html", "text": "x", "split_every": 1}}]),
            vec!["#3 200 stream!", "#3 raw \"x\"!", "#3 ended by Server"],
        ),
    ] {
        assert_eq!(http(on_call(actions.clone())).post(call(1, "a")), seen, "{actions}");
    }
}

#[test]
fn statuses_know_their_origins() {
    let mut bench = http(json!({"rules": [{"on": "http-post", "nth": 3, "do": [
        {"status": {"code": 307, "headers": {"Location": "{{other}}/x", "X-Own": "{{origin}}"}}},
    ]}]}));
    bench.post(call(1, "a"));
    let headers = bench.effects.iter().find_map(|e| match e {
        Effect::Respond { status: 307, headers, .. } => Some(headers.clone()),
        _ => None,
    });
    let expected =
        [("location".to_owned(), "http://other/x".to_owned()), ("x-own".into(), "http://own".into())];
    assert_eq!(headers.unwrap(), expected);
}

#[test]
fn http_triggers_come_before_everything_else() {
    let mut bench = http(json!({"tools": ["echo"], "http": {"sessions": true}, "rules": [
        {"on": "http-post", "nth": 3, "do": [{"delay_ms": 5}]},
        {"on": "http-post", "nth": 4, "do": [{"delay_ms": 5}, "default"]},
        {"on": "http-get", "do": [{"status": 500}]},
        {"on": "http-delete", "do": ["stall"]},
    ]}));
    assert!(bench.post(call(1, "a")).is_empty());
    assert!(bench.post(call(2, "b")).is_empty());
    assert_eq!(bench.wait(), ["#3 200 1 a"]);
    assert_eq!(bench.wait(), ["#4 200 2 b"]);
    assert_eq!(bench.get(None), ["#5 500"]);
    assert!(bench.exchange("DELETE", &[], Value::Null).is_empty());
}

#[test]
fn a_session_expires_and_a_new_one_has_another_id() {
    let mut bench = http(json!({"tools": ["echo"], "http": {"sessions": true}, "rules": [
        {"on": "tools/call", "nth": 1, "do": ["expire_session"]},
        {"on": "tools/call", "nth": 2, "do": ["expire_session", {"status": 503}]},
    ]}));
    let first = bench.session.clone().unwrap();
    assert_eq!(bench.post(call(1, "a")), ["#3 404 error -32600"]);
    assert_eq!(bench.post(call(2, "a")), ["#4 404 error -32600"], "no rule: it never got so far");
    bench.session = None;
    let again =
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize_params(REVISION)});
    assert_eq!(bench.post(again), ["#5 200 0 ok"]);
    let id = bench.effects.iter().rev().find_map(|e| match e {
        Effect::Respond { headers, .. } => {
            headers.iter().find(|(n, _)| n == "mcp-session-id").map(|(_, v)| v.clone())
        }
        _ => None,
    });
    assert_ne!(id.as_deref(), Some(&*first));
    bench.session = id;
    assert_eq!(bench.post(call(3, "a")), ["#6 503"], "a status of the script's own goes first");
}

#[test]
fn the_get_stream_carries_what_belongs_to_no_request() {
    let mut bench = http(
        json!({"tools": ["echo"], "http": {"get_stream": true, "sessions": true}, "rules": [
            {"on": "tools/call", "nth": 1, "do": [{"announce": "tools"}]},
            {"on": "tools/call", "nth": 2, "do": [{"request": {"method": "ping", "on_get_stream": true}}]},
            {"on": "tools/call", "nth": 3, "do": ["close_get_stream"]},
            {"on": "get-stream", "nth": 1, "do": [{"sse_comment": "hello"}, {"delay_ms": 1}, {"notify": {"method": "notifications/tools/list_changed"}}]},
        ]}),
    );
    assert_eq!(bench.post(call(1, "a")), ["#3 200 1 a"]);
    // What waited for it comes first.
    assert_eq!(bench.get(None), ["#4 200 stream", "#4 ~tools/list_changed", "#4 raw \": hello\\n\\n\""]);
    assert_eq!(bench.wait(), ["#4 ~tools/list_changed"]);
    assert_eq!(bench.post(call(2, "b")), ["#4 \"s-1\" ping", "#5 200 2 b"]);
    assert_eq!(bench.post(json!({"jsonrpc": "2.0", "id": "s-1", "result": {}})), ["#6 202"]);
    assert_eq!(bench.post(call(3, "c")), ["#4 ended by Server", "#7 200 3 c"]);
    assert_eq!(bench.get(None), ["#8 200 stream"]);
    assert_eq!(bench.input(Input::Gone { exchange: 8 }), ["#8 ended by Client"]);
    assert_eq!(bench.get(None), ["#9 200 stream"]);
    assert_eq!(bench.exchange("DELETE", &[], Value::Null), ["#9 ended by Server", "#10 200"]);
    assert_eq!(bench.get(None), ["#11 404 error -32600"]);
}

#[test]
fn methods_that_are_off_are_answered_405() {
    let mut bench = http(json!({"http": {"sessions": true, "refuse_delete": true}}));
    assert_eq!(bench.get(None), ["#3 405"]);
    assert_eq!(bench.exchange("DELETE", &[], Value::Null), ["#4 405"]);
    assert_eq!(bench.exchange("PATCH", &[], Value::Null), ["#5 405"]);
}

#[test]
fn a_cut_stream_is_resumed_with_the_answer() {
    let mut bench = http(on_call(json!([{"cut_stream": {"id": "e-1", "resumable": true}}])));
    assert_eq!(bench.post(call(1, "a")), ["#3 200 stream", "#3 id=e-1", "#3 ended by Server"]);
    assert_eq!(bench.get(Some("nonsense")), ["#4 405"]);
    assert_eq!(bench.get(Some("e-1")), ["#5 200 stream", "#5 id=stream1/1 1 a", "#5 ended by Server"]);
    assert_eq!(bench.get(Some("stream1/1")), ["#6 200 stream", "#6 ended by Server"], "nothing was missed");
}

#[test]
fn a_stream_lost_before_the_answer_is_carried_on() {
    let mut bench = http(json!({
        "tools": ["echo"], "http": {"answers": "sse", "event_ids": true, "priming": true},
        "rules": [{"on": "tools/call", "do": [{"progress": 1}, {"hold_until": {"on": "ping"}}]}],
    }));
    // The first stream was that of initialize.
    assert_eq!(bench.post(call(1, "a")), ["#3 200 stream", "#3 id=stream2/1", "#3 id=stream2/2 ~progress"]);
    assert_eq!(bench.input(Input::Gone { exchange: 3 }), ["#3 ended by Client"]);
    assert_eq!(bench.get(Some("stream2/1")), ["#4 200 stream", "#4 id=stream2/2 ~progress"]);
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    assert_eq!(
        bench.post(ping),
        [
            "#5 200 stream",
            "#5 id=stream3/1",
            "#5 id=stream3/2 2 ok",
            "#4 id=stream2/3 1 a",
            "#4 ended by Server",
            "#5 ended by Server"
        ]
    );
    assert!(bench.core.http.is_idle(), "nothing is kept of exchanges that are over");
}

#[test]
fn a_notification_is_accepted_at_once_unless_the_script_has_a_status_for_it() {
    let server =
        |actions: Value| json!({"rules": [{"on": "notifications/roots/list_changed", "do": actions}]});
    let message = || json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    let mut waits = http(server(json!([{"delay_ms": 5}, "close_get_stream"])));
    assert_eq!(waits.post(message()), ["#3 202"]);
    let mut status = http(server(json!([{"delay_ms": 5}, {"status": 400}])));
    assert!(status.post(message()).is_empty());
    assert_eq!(status.wait(), ["#3 400"]);
    // A cancelled request gets an empty stream, since there is no answer to give.
    let mut cancelled = http(on_call(json!([{"delay_ms": 5}])));
    cancelled.post(call(1, "a"));
    let cancel = notification("notifications/cancelled", json!({"requestId": 1}));
    assert_eq!(cancelled.post(cancel), ["#3 200 stream", "#3 ended by Server", "#4 202"]);
}

#[test]
fn words_of_the_other_transport_do_nothing() {
    let stdio_words = json!([{"stdout": "x"}, {"stderr_bytes": 1}, {"split_every": 1}, {"merge_next": 1}, "crlf",
        "byte_order_mark", "invalid_utf8", "close_stdout", {"exit": 1}, {"die": "SIGKILL"}, "stop_reading"]);
    assert_eq!(http(on_call(stdio_words)).post(call(1, "a")), ["#3 200 1 a"]);
    let http_words = json!([{"status": 500}, {"answers": "sse"}, {"cut_stream": {}}, "reset", "expire_session",
        "close_get_stream", {"sse_comment": "x"}, {"raw_body": {"text": "x"}}]);
    assert_eq!(stdio(on_call(http_words)).send(call(1, "a")), ["1 a"]);
    assert!(stdio(on_call(json!(["stall"]))).send(call(1, "a")).is_empty());
}

#[test]
fn batches_over_http_are_answered_in_one_body() {
    let origins = Origins::default();
    let core = ServerCore::http(script(json!({"tools": ["echo"]})), Revision::V2025_03_26, 1, origins, None);
    let mut bench = Bench::new(core, Revision::V2025_03_26);
    let params = initialize_params(Revision::V2025_03_26);
    bench.post(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    assert_eq!(bench.post(json!([call(1, "a"), call(2, "b")])), ["#2 200 [1 a, 2 b]"]);
    assert_eq!(bench.post(json!([])), ["#3 400 error -32600"]);
    let mut newest = http(json!({}));
    assert_eq!(newest.post(json!([call(1, "a")])), ["#3 400 error -32600"]);
}

// ---- everything at once ----

fn any_action() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("default")),
        Just(json!("drop")),
        Just(json!("duplicate")),
        Just(json!({"respond": "{}"})),
        Just(json!({"hold_until": {"on": "ping"}})),
        Just(json!({"hold_until": {"on": "response", "times": 2}})),
        Just(json!({"mangle": "truncated"})),
        Just(json!({"delay_ms": 3})),
        Just(json!({"request": {"method": "ping"}})),
        Just(json!({"notify": {"method": "notifications/tools/list_changed", "on_get_stream": true}})),
        Just(json!({"progress": 2})),
        Just(json!({"announce": "tools"})),
        Just(json!({"reply": {"framing": "chunked", "after": "x", "close": true}})),
        Just(json!({"cut": {"after": 170, "how": "stall"}})),
        Just(json!({"cut": {"after": 40, "in_body": true, "how": "reset"}})),
        Just(json!({"pieces": {"every": 9}})),
        Just(json!({"raw_response": [{"text": "{{id}} {{result}}"}, {"pause_ms": 1}, "stall"]})),
        Just(json!({"sse_event": {"data": "x", "on_get_stream": true}})),
        Just(json!({"sse_style": {"merge": 1, "unterminated": true}})),
        Just(json!("keep_open")),
        Just(json!({"answer_on": "get-stream"})),
        Just(json!({"answer_on": "other-post"})),
        Just(json!({"change_session": {}})),
        Just(json!({"split_every": 7})),
        Just(json!({"merge_next": 1})),
        Just(json!("invalid_utf8")),
        Just(json!("byte_order_mark")),
        Just(json!({"status": 404})),
        Just(json!("reset")),
        Just(json!("stall")),
        Just(json!("expire_session")),
        Just(json!("close_get_stream")),
        Just(json!({"sse_comment": "c"})),
        Just(json!({"cut_stream": {"resumable": true}})),
        Just(json!({"answers": "sse"})),
        Just(json!({"raw_body": {"text": "data: {{result}}\n\n", "split_every": 3}})),
        Just(json!({"hold_until": {"held": 2, "order": "reversed"}})),
        Just(json!({"hold_until": {"as": "x"}})),
        Just(json!({"hold_until": {"state": "two"}})),
        Just(json!({"release": "x"})),
        Just(json!({"release": {"held": "x", "count": 1}})),
        Just(json!({"set_state": "two"})),
        Just(json!({"set_state": "{{state}}"})),
        Just(json!({"count": "c"})),
        Just(json!({"amend": {"set": r#"{"result": {"content": []}}"#}})),
        Just(json!({"amend": {"put": {"/id": r#""{{count/c}}""#}}})),
        Just(json!({"raw": "{{answer}}"})),
        Just(json!({"raw": {"text": "{{id}}", "answers": true}})),
        Just(
            json!({"batch": r#"["{{answer}}", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]"#})
        ),
        Just(json!({"log": {"level": "info", "data": r#""{{params}}""#}})),
        Just(json!({"change_tool": {"name": "echo", "description": "{{open}}"}})),
        Just(json!({"change_server": {"page_size": 1}})),
        Just(json!({"resource_updated": "a://b"})),
        Just(
            json!({"repeat": {"times": 3, "do": ["default", {"delay_ms": 1}, {"hold_until": {"held": 1}}, {"release": "x"}]}})
        ),
        prop::sample::select(Mangle::ALL.to_vec()).prop_map(|m| json!({"mangle": m})),
    ]
}

fn any_rules() -> impl Strategy<Value = Value> {
    let on = prop::sample::select(vec![
        "start",
        "eof",
        "sigterm",
        "http-get",
        "http-post",
        "http-delete",
        "get-stream",
        "response",
        "tools/call",
        "initialize",
        "notifications/cancelled",
        "message",
        "unknown",
        "tools/*",
    ]);
    let condition = prop::sample::select(vec![
        json!({}),
        json!({"nth": 1}),
        json!({"nth": [2, 3]}),
        json!({"nth": {"every": 2}, "per": "session"}),
        json!({"nth": {"from": 2}, "per": "connection"}),
        json!({"state": "start"}),
        json!({"state": "two"}),
        json!({"counts": {"c": {"from": 1, "to": 3}}}),
        json!({"tool": "echo", "params": r#"{"arguments": {"$any": true}}"#}),
        json!({"headers": {"mcp-session-id": {"present": true}}}),
        json!({"to": "ping"}),
    ]);
    let rule =
        (on, condition, prop::collection::vec(any_action(), 0..5)).prop_map(|(on, mut rule, actions)| {
            rule["on"] = on.into();
            rule["do"] = actions.into();
            rule
        });
    prop::collection::vec(rule, 0..5).prop_map(Value::from)
}

/// A message that a client could send, right or wrong.
fn any_message() -> impl Strategy<Value = String> {
    prop_oneof![
        (0_i64..4).prop_map(|id| call(id, "a").to_string()),
        Just(json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}).to_string()),
        Just(json!({"jsonrpc": "2.0", "id": "s-1", "result": {}}).to_string()),
        (0_i64..4)
            .prop_map(|id| notification("notifications/cancelled", json!({"requestId": id})).to_string()),
        Just(
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize_params(REVISION)})
                .to_string()
        ),
        Just(json!([call(1, "a"), call(2, "b")]).to_string()),
        "[\\[{\"a-z0-9:,}\\]\\\\]{0,20}",
    ]
}

fn any_inputs() -> impl Strategy<Value = Vec<(u8, String)>> {
    prop::collection::vec((0_u8..8, any_message()), 0..20)
}

fn play(bench: &mut Bench, inputs: &[(u8, String)]) {
    for (kind, message) in inputs {
        match kind {
            0 if !bench.timers.is_empty() => {
                bench.wait();
            }
            1 => {
                bench.get(None);
            }
            2 => {
                bench.get(Some("stream1/1"));
            }
            3 => {
                let exchange = bench.exchanges.saturating_sub(1);
                bench.input(Input::Gone { exchange });
            }
            4 => {
                bench.exchange("DELETE", &[], Value::Null);
            }
            _ => {
                let body = serde_json::from_str(message).unwrap_or_else(|_| json!(message));
                bench.post(body);
            }
        }
    }
}

proptest! {
    #[test]
    fn each_request_is_answered_exactly_once_by_default(
        ids in prop::collection::vec(0_i64..1000, 0..30),
        step in 1_usize..50,
        revision in prop::sample::select(Revision::WITH_HANDSHAKE.to_vec()),
    ) {
        let mut bench = unopened(json!({"tools": ["echo"], "many_tools": 2}), revision, 1);
        bench.initialize();
        let methods = ["tools/list", "tools/call", "ping", "nope", "resources/list"];
        let mut sent = Vec::new();
        let bytes: Vec<u8> = ids
            .iter()
            .enumerate()
            .flat_map(|(n, id)| {
                let id = id * 100 + i64::try_from(n).unwrap();
                sent.push(id);
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{}\"}}\n", methods[n % methods.len()]).into_bytes()
            })
            .collect();
        let before = bench.effects.len();
        let mut lines = Lines::new(1 << 20);
        for chunk in bytes.chunks(step) {
            lines.push(chunk);
            while let Some(line) = lines.next_line().unwrap() {
                bench.input(Input::Line(line));
            }
        }
        let answered: Vec<i64> = bench.effects[before..]
            .iter()
            .filter_map(|e| match e {
                Effect::Write(bytes) => serde_json::from_slice::<Value>(bytes).unwrap()["id"].as_i64(),
                _ => None,
            })
            .collect();
        prop_assert_eq!(answered, sent);
    }

    #[test]
    fn any_script_and_any_input_is_survived_on_stdio(
        rules in any_rules(), lines in prop::collection::vec((0_u8..6, any_message()), 0..20), revision in 0_usize..4,
    ) {
        let mut bench = unopened(json!({"tools": ["echo"], "rules": rules}), Revision::ALL[revision], 1);
        for (kind, line) in lines {
            match kind {
                0 if !bench.timers.is_empty() => bench.wait(),
                1 => bench.input(Input::Signal("SIGTERM")),
                _ => bench.line(&line),
            };
        }
        bench.input(Input::Eof);
        // Whatever is written is observed, and whatever is wrong with it is marked.
        for effect in &bench.effects {
            if let Effect::Observe(What::Line(line)) = effect
                && line.direction == Direction::Sent
                && !line.scripted_fault
            {
                let read = jsonrpc::inspect(&line.text);
                prop_assert!(read.is_valid() || read.faults == [Fault::MissingId], "{}", line.text);
            }
        }
    }

    /// Whatever a script does to them, no request gets a second answer that is not marked; and the same inputs lead to
    /// the same effects, however often.
    #[test]
    fn no_request_is_answered_twice_without_a_mark(
        rules in any_rules(), kinds in prop::collection::vec(0_u8..8, 0..40), revision in 0_usize..4,
    ) {
        let run = || {
            let server = json!({"tools": ["echo"], "rules": rules, "states": {"": {"per": "session"}}});
            let mut bench = unopened(server, Revision::ALL[revision], 1);
            for (n, kind) in kinds.iter().enumerate() {
                let id = 100 + i64::try_from(n).unwrap();
                match kind {
                    0 | 1 if !bench.timers.is_empty() => bench.wait(),
                    2 => bench.send(json!({"jsonrpc": "2.0", "id": id, "method": "ping"})),
                    3 => bench.send(json!({"jsonrpc": "2.0", "id": "s-1", "result": {}})),
                    4 => bench.send(notification("notifications/cancelled", json!({"requestId": id - 1}))),
                    5 => bench.send(json!([call(id, "a"), call(id + 1000, "b")])),
                    _ => bench.send(call(id, "a")),
                };
            }
            bench
        };
        let bench = run();
        prop_assert_eq!(&bench.effects, &run().effects);
        let mut answered = BTreeMap::new();
        for effect in &bench.effects {
            if let Effect::Observe(What::Line(line)) = effect
                && line.direction == Direction::Sent
                && !line.scripted_fault
            {
                let read = jsonrpc::inspect(&line.text);
                for id in read.messages().iter().filter(|m| m.envelope.is_response()).filter_map(|m| m.envelope.id()) {
                    prop_assert!(answered.insert(id.clone(), ()).is_none(), "{id}: {}", line.text);
                }
            }
        }
        prop_assert!(bench.core.tasks.len() <= kinds.len() * 2 + 1);
    }

    /// With nothing but holds that end, everything is answered once the last of them has ended.
    #[test]
    fn all_that_is_held_is_released(calls in 1_i64..20, group in 1_u32..5, order in prop::sample::select(vec![json!("as-came"), json!("reversed"), json!([2, 1])])) {
        let rules = json!([
            {"on": "tools/call", "nth": {"every": 3}, "do": [{"hold_until": {"as": "x"}}]},
            {"on": "tools/call", "nth": {"every": 2}, "do": [{"hold_until": {"held": group, "order": order}}]},
            {"on": "tools/call", "state": "start", "do": [{"delay_ms": 5}, {"hold_until": {"state": "two"}}]},
            {"on": "ping", "nth": 1, "do": [{"release": {"held": "tools/call (rule 2)", "order": order}}, {"set_state": "two"}, {"release": "x"}]},
        ]);
        let mut bench = stdio(json!({"tools": ["echo"], "rules": rules}));
        let before = writes(&bench).len();
        for id in 1..=calls {
            bench.send(call(id, "a"));
        }
        while !bench.timers.is_empty() {
            bench.wait();
        }
        bench.send(json!({"jsonrpc": "2.0", "id": 0, "method": "ping"}));
        let mut ids: Vec<i64> = writes(&bench)[before..].iter().filter_map(|w| serde_json::from_str::<Value>(w).unwrap()["id"].as_i64()).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..=calls).collect::<Vec<_>>());
        prop_assert!(bench.core.tasks.is_empty());
    }

    #[test]
    fn any_script_and_any_input_is_survived_over_http_and_repeatable(
        rules in any_rules(), inputs in any_inputs(), flags in prop::collection::vec(any::<bool>(), 4),
    ) {
        let style = if flags[0] { "sse" } else { "alternate" };
        let options = json!({"answers": style, "sessions": flags[1], "get_stream": true, "event_ids": flags[2], "priming": flags[3]});
        let server = json!({"tools": ["echo"], "http": options, "rules": rules});
        let run = || {
            let mut bench = http(server.clone());
            play(&mut bench, &inputs);
            bench
        };
        let bench = run();
        prop_assert_eq!(&bench.effects, &run().effects);
        // Each exchange has at most one head, nothing precedes it, and nothing follows its end.
        let mut heads = BTreeMap::new();
        for effect in &bench.effects {
            match effect {
                Effect::Respond { exchange, .. } => prop_assert_eq!(heads.insert(*exchange, true), None),
                Effect::Head { exchange, .. } => prop_assert_eq!(heads.insert(*exchange, false), None),
                Effect::Chunk { exchange, .. } => prop_assert_eq!(heads.get(exchange), Some(&false)),
                Effect::End { exchange } => prop_assert_eq!(heads.insert(*exchange, true), Some(false)),
                Effect::Reset { exchange } => prop_assert_ne!(heads.insert(*exchange, true), Some(true)),
                // Of a response that is put together in the core all comes in this way.
                Effect::Raw { exchange, out } => {
                    prop_assert_ne!(heads.get(exchange), Some(&true));
                    prop_assert_ne!(heads.get(exchange), Some(&false));
                    if !matches!(out, RawOut::Bytes(_) | RawOut::Pause(_)) {
                        heads.insert(*exchange, true);
                    }
                }
                _ => {}
            }
        }
    }
}
