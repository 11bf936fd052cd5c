//! A server is recorded, played again, and answers the same client with the same words.

use super::*;
use serde_json::{Value, json};
use sparring_mock_servers::core::{Effect, Input, ServerCore};
use sparring_mock_servers::script::{Action, RawPart, Trigger};
use sparring_wire::framing::Line;
use sparring_wire::jsonrpc::{self, Envelope};
use sparring_wire::transcript::{Direction, LineSeen, Process, What};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Lines, in order.
type Said = Vec<(Direction, String)>;

const REVISION: Revision = Revision::V2025_11_25;

/// A client that asks for all that there is, step by step, and answers what it is asked.
fn conversation(script: &ServerScript) -> Vec<Value> {
    let request = |id: i64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let mut all = vec![
        request(
            0,
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}),
        ),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    let mut id = 0;
    let mut ask = |method: &str, params: Value| {
        id += 1;
        all.push(request(id, method, params));
    };
    for _ in 0..2 {
        for list in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
            ask(list, json!({}));
        }
        for tool in script.tools.iter().map(sparring_mock_servers::model::tool_name) {
            ask(
                "tools/call",
                json!({"name": tool, "arguments": {"text": "a", "a": 1, "b": 2}, "_meta": {"progressToken": 7}}),
            );
            ask("tools/call", json!({"name": tool}));
        }
        ask("tools/call", json!({"name": "echo", "arguments": {"text": "two"}}));
        ask("tools/call", json!({"name": "no such tool"}));
        for resource in &script.resources {
            ask("resources/read", json!({"uri": resource.uri}));
            ask("resources/subscribe", json!({"uri": resource.uri}));
        }
        for prompt in &script.prompts {
            ask("prompts/get", json!({"name": prompt.name, "arguments": {"x": "1"}}));
        }
        ask("ping", json!({}));
        ask("logging/setLevel", json!({"level": "info"}));
    }
    all
}

/// Runs the conversation: what the server said, each line after the client's line that it followed.
fn run(script: &ServerScript, client: &[Value]) -> Said {
    let mut core = ServerCore::stdio(Arc::new(script.clone()), REVISION, 1, 0);
    let mut seen = Vec::new();
    let mut queue: VecDeque<Value> = client.iter().cloned().collect();
    let mut inputs = VecDeque::from([Input::Start]);
    let mut now = Duration::ZERO;
    while let Some(input) = inputs.pop_front().or_else(|| {
        let text = queue.pop_front()?.to_string();
        seen.push((Direction::Received, text.clone()));
        Some(Input::Line(Line { bytes: text.into_bytes(), carriage_return: false, terminated: true }))
    }) {
        let mut out = Vec::new();
        for effect in core.handle(now, input) {
            match effect {
                Effect::Write(bytes) => out.extend(bytes),
                Effect::Timer { id, after } => {
                    now += after;
                    inputs.push_back(Input::Timer(id));
                }
                Effect::Exit(_) | Effect::Die(_) | Effect::CloseStdout => return seen,
                _ => {}
            }
        }
        for line in String::from_utf8_lossy(&out).lines() {
            seen.push((Direction::Sent, line.to_owned()));
            let asked = jsonrpc::inspect(line);
            if let Envelope::Request { id: Some(id), .. } = asked.envelope {
                queue.push_front(json!({"jsonrpc": "2.0", "id": id.to_value(), "result": {"roots": []}}));
            }
        }
    }
    seen
}

fn transcript(seen: &[(Direction, String)]) -> Vec<Event> {
    let start = What::ProcessStarted(Process { pid: 1, ..Process::default() });
    let lines = seen.iter().map(|(direction, text)| {
        What::Line(LineSeen {
            direction: *direction,
            text: text.clone(),
            invalid_utf8: false,
            carriage_return: false,
            unterminated: false,
            scripted_fault: false,
        })
    });
    let all = (1..).zip([start].into_iter().chain(lines));
    all.map(|(n, what)| Event { n, at_us: n, server: Some("server".into()), incarnation: Some(1), what })
        .collect()
}

/// Records a script's server and plays what came of it, in YAML, against the same client.
fn play_again(script: &ServerScript) -> (Made, Said, Said) {
    let client = conversation(script);
    let before = run(script, &client);
    let made = of(&transcript(&before), None).unwrap();
    let text = made.yaml().unwrap();
    let read = sparring_scenarios::load::parse_script("made.yaml", &text);
    let read = read.unwrap_or_else(|wrong| panic!("{}\n{text}", wrong.render(false)));
    assert_eq!(read, made.script);
    let after = run(&read, &client);
    (made, before, after)
}

/// The first line in which two conversations differ, with what came before it.
fn difference(made: &Made, before: &[(Direction, String)], after: &[(Direction, String)]) -> Option<String> {
    let value = |(d, text): &(Direction, String)| {
        (*d, serde_json::from_str::<Value>(text).unwrap_or_else(|_| json!(text)))
    };
    let same = before.iter().zip(after).take_while(|(a, b)| value(a) == value(b)).count();
    (before.len() != after.len() || same < before.len()).then(|| {
        let shown = |all: &[(Direction, String)]| format!("{:?}", all.get(same));
        let last = shown(&before[..same].iter().rev().take(1).cloned().collect::<Vec<_>>());
        let yaml = made.yaml().unwrap();
        format!("after {last}\n  recorded {}\n  played {}\n{yaml}", shown(before), shown(after))
    })
}

#[test]
fn a_faithful_server_becomes_a_model_and_a_rule_for_each_further_answer() {
    let script: ServerScript = serde_json::from_value(json!({
        "tools": ["echo", "add", {"name": "own", "title": "Own", "extra": "{\"icons\": []}"}],
        "resources": [{"uri": "a://b", "mime_type": "text/plain", "text": "hello"}],
        "prompts": [{"name": "p", "arguments": "[{\"name\":\"x\"}]"}],
    }))
    .unwrap();
    let (made, before, after) = play_again(&script);
    assert_eq!(difference(&made, &before, &after), None);
    assert_eq!(made.left_out, Vec::<String>::new());
    assert_eq!(made.script.tools.len(), 3);
    let plain = made.script.rules.iter().filter(|rule| rule.on.has(&Trigger::Method("ping".into()))).count();
    assert_eq!(plain, 0, "the model does what needs no rule");
}

#[test]
fn what_the_server_sent_by_itself_comes_where_it_came() {
    let script: ServerScript = serde_json::from_value(json!({
        "tools": ["echo", "slow"],
        "page_size": 1,
        "rules": [
            {"on": "tools/call", "nth": 1, "do": [{"notify": {"method": "notifications/message", "params": "{\"level\":\"info\",\"data\":1}"}}, "default",
                {"notify": {"method": "notifications/tools/list_changed"}}]},
            {"on": "tools/call", "params": "{\"name\":\"slow\"}", "nth": 2, "do": [{"request": {"method": "roots/list"}}, {"hold_until": {"on": "response"}}]},
            {"on": "tools/call", "nth": 6, "do": [{"error": {"code": -32603, "message": "no", "data": "{\"x\":1}"}}]},
            {"on": "notifications/initialized", "do": [{"notify": {"method": "notifications/message", "params": "{\"level\":\"info\",\"data\":2}"}}]},
            {"on": "resources/list", "do": ["drop"]},
            {"on": "ping", "nth": 2, "do": [{"stdout": "no message at all"}, "default"]},
        ],
    }))
    .unwrap();
    let (made, before, after) = play_again(&script);
    if let Some(found) = difference(&made, &before, &after) {
        panic!("{found}");
    }
    let held = made.script.rules.iter().flat_map(|rule| &rule.actions);
    assert!(held.clone().any(|action| matches!(action, Action::HoldUntil(_))), "{}", made.yaml().unwrap());
}

#[test]
fn methods_that_no_revision_has_are_answered_when_they_are_asked() {
    let script: ServerScript = serde_json::from_value(json!({
        "tools": ["echo"],
        "rules": [
            {"on": "unknown", "method": "foo/baz", "do": [{"respond": "{\"x\":1}"}]},
            {"on": "unknown", "method": "foo/qux", "do": [{"error": {"code": -32601, "message": "own words"}}]},
        ],
    }))
    .unwrap();
    let mut client = conversation(&ServerScript::default());
    for (id, method) in (100..).zip(["foo/bar", "foo/baz", "foo/qux", "foo/bar", "foo/baz"]) {
        client.push(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"a": 1}}));
    }
    client.push(json!({"jsonrpc": "2.0", "method": "foo/told"}));
    let before = run(&script, &client);
    let made = of(&transcript(&before), None).unwrap();
    assert!(!made.script.rules.iter().flat_map(|r| &r.actions).any(|a| matches!(a, Action::Stdout(_))));
    let read = sparring_scenarios::load::parse_script("made.yaml", &made.yaml().unwrap()).unwrap();
    assert_eq!(read, made.script);
    assert_eq!(difference(&made, &before, &run(&read, &client)), None);
    // With ids of its own, and in another order.
    let mut other = client[..2].to_vec();
    other.push(json!({"jsonrpc": "2.0", "id": "z", "method": "foo/qux", "params": {"a": 1}}));
    let said = run(&read, &other).pop().unwrap().1;
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["id"], &said["error"]["message"]), (&json!("z"), &json!("own words")));
}

#[test]
fn a_body_that_was_cut_is_cut_at_the_same_byte() {
    let event = |n: u64, what: Value| {
        let event = json!({"n": n, "at_us": n, "server": "s", "what": what});
        serde_json::from_value::<Event>(event).unwrap()
    };
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}).to_string();
    for (framing, body) in
        [("content-length: 75", "{\"jsonrpc\""), ("transfer-encoding: chunked", "a\r\n{\"jsonrpc\"")]
    {
        let framed = framing.split_once(": ").unwrap();
        let events = [
            event(
                1,
                json!({"kind": "http-request", "exchange": 1, "connection": 1, "method": "POST", "target": "/mcp", "headers": [], "body": call, "role": "mcp"}),
            ),
            event(
                2,
                json!({"kind": "http-response", "exchange": 1, "status": 200, "headers": [["content-type", "application/json"], framed], "body": "{\"jsonrpc\""}),
            ),
            event(3, json!({"kind": "stream-ended", "exchange": 1, "by": "server"})),
        ];
        let made = of(&events, None).unwrap();
        let text =
            format!("HTTP/1.1 200 Recorded\r\ncontent-type: application/json\r\n{framing}\r\n\r\n{body}");
        let wanted = vec![Action::RawResponse(vec![RawPart::Text(text), RawPart::Close])];
        let done: Vec<_> = made.script.rules.iter().map(|rule| rule.actions.clone()).collect();
        assert_eq!((done, made.left_out.as_slice()), (vec![wanted], &[][..]), "{framing}");
        let read = sparring_scenarios::load::parse_script("made.yaml", &made.yaml().unwrap());
        assert_eq!(read.unwrap(), made.script);
    }
}

#[test]
fn nothing_of_a_conversation_is_invented_if_there_is_none() {
    assert_eq!(of(&[], None), Err(NoScript::Nothing));
    let events = transcript(&[(Direction::Received, "{}".into())]);
    assert!(matches!(of(&events, Some("other")), Err(NoScript::Unknown(..))));
}

/// Words that change how bytes come, not what is said, or that can't be seen in a transcript of lines.
fn beyond_lines(action: &Action) -> bool {
    matches!(
        action,
        Action::SplitEvery(_)
            | Action::MergeNext(_)
            | Action::Crlf
            | Action::ByteOrderMark
            | Action::InvalidUtf8
            | Action::Batch(_)
            | Action::DelayMs(_)
            | Action::StopReading
            | Action::Exit(_)
            | Action::Die(_)
            | Action::CloseStdout
            | Action::Repeat(_)
    )
}

#[test]
fn the_servers_of_all_scenarios_can_be_recorded_and_played_again() {
    let mut played = 0;
    let mut different = Vec::new();
    for loaded in sparring_scenarios::load::embedded().unwrap() {
        // The client opens with a handshake.
        if loaded.scenario.applies.revisions().unwrap().iter().all(|revision| revision.is_stateless()) {
            continue;
        }
        for script in loaded.scenario.scripts().values() {
            let known = |rule: &sparring_mock_servers::script::Rule| {
                rule.incarnation.as_ref().is_none_or(|n| n.has(1)) && !rule.actions.iter().any(beyond_lines)
            };
            if !script.rules.iter().all(known) {
                continue;
            }
            let (made, before, after) = play_again(script);
            if made.left_out.is_empty() {
                played += 1;
                if let Some(found) = difference(&made, &before, &after) {
                    different.push(format!("{}: {found}", loaded.scenario.scenario));
                }
            }
        }
    }
    assert!(played > 50, "only {played}");
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}
