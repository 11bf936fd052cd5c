//! The examples about rounds, tasks, subscriptions and eras do what they say.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use serde_json::{Value, json};
use sparring_mock_servers::core::{Effect, Input, ServerCore};
use sparring_wire::framing::Line;
use sparring_wire::transcript::{Direction, What};
use sparring_wire::{Revision, meta};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

struct Server {
    core: ServerCore,
    revision: Revision,
    /// Messages marked as faults.
    faults: usize,
}

impl Server {
    fn start(example: &str, revision: Revision) -> Self {
        let file = format!("scripts/examples/{example}.yaml");
        let script =
            sparring_scenarios::load::script(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let mut core = ServerCore::stdio(Arc::new(script), revision, 1, 1);
        core.handle(Duration::ZERO, Input::Start);
        let mut server = Self { core, revision, faults: 0 };
        if revision.has_handshake() {
            let capabilities = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
            let params = json!({"protocolVersion": revision.as_str(), "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}});
            server.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        }
        server
    }

    fn send(&mut self, message: &Value) -> Vec<Value> {
        let line = Line { bytes: message.to_string().into_bytes(), carriage_return: false, terminated: true };
        let effects = self.core.handle(Duration::ZERO, Input::Line(line));
        let mut sent = Vec::new();
        for effect in effects {
            if let Effect::Observe(What::Line(line)) = effect
                && line.direction == Direction::Sent
            {
                self.faults += usize::from(line.scripted_fault);
                sent.push(serde_json::from_str(&line.text).unwrap());
            }
        }
        sent
    }

    /// All that a request brings about; the answer is the last.
    fn all(&mut self, method: &str, params: Value) -> Vec<Value> {
        let mut params = params;
        if self.revision.is_stateless() {
            let capabilities = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}, "extensions": {meta::TASKS_EXTENSION: {}}});
            params["_meta"] = json!({
                meta::PROTOCOL_VERSION: self.revision.as_str(), meta::CLIENT_CAPABILITIES: capabilities,
                meta::LOG_LEVEL: "info",
            });
        }
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.all(method, params).pop().unwrap()
    }

    fn call(&mut self, name: &str, more: Value) -> Value {
        let mut params = json!({"name": name});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask("tools/call", params)
    }

    fn echo(&mut self, text: &str) -> Vec<Value> {
        self.all("tools/call", json!({"name": "echo", "arguments": {"text": text}}))
    }
}

fn methods(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|m| m["method"].as_str().unwrap_or("answer")).collect()
}

const OLD: Revision = Revision::V2025_11_25;
const MODERN: Revision = Revision::V2026_07_28;

#[test]
fn rounds() {
    let mut server = Server::start("rounds", MODERN);
    let asked = server.call("book", json!({}))["result"].clone();
    assert_eq!(asked["requestState"], " {\"step\": 1} ");
    let answers =
        json!({"for how many": {"action": "accept", "content": {"guests": 2}}, "where": {"roots": []}});
    let done = server.call("book", json!({"requestState": asked["requestState"], "inputResponses": answers}));
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("\"guests\":2"));
    let mut prompt = |name: &str, state: Option<&Value>, answers: Value| {
        let mut params = json!({"name": name, "inputResponses": answers});
        if let Some(state) = state {
            params["requestState"] = state.clone();
        }
        server.ask("prompts/get", params)["result"].clone()
    };
    let one = prompt("three-rounds", None, json!({}));
    let two = prompt("three-rounds", Some(&one["requestState"]), json!({"first": {"roots": []}}));
    assert_eq!(two["requestState"], "two");
    let three = prompt("three-rounds", Some(&two["requestState"]), json!({"second": {"roots": []}}));
    assert_eq!(three["requestState"].as_str().unwrap().chars().count(), 16384);
    assert!(prompt("three-rounds", Some(&three["requestState"]), json!({}))["messages"].is_array());
    for _ in 0..3 {
        assert_eq!(prompt("endless", None, json!({"more": {"roots": []}}))["resultType"], "input_required");
    }
    assert_eq!(server.faults, 0);

    let mut old = Server::start("rounds", OLD);
    let asked = old.all("tools/call", json!({"name": "book"}));
    assert_eq!(methods(&asked), ["elicitation/create", "roots/list"]);
    let answer = |id: &str| json!({"jsonrpc": "2.0", "id": id, "result": {"roots": []}});
    assert!(old.send(&answer("s-2")).is_empty());
    let done = old.send(&answer("s-1")).pop().unwrap();
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().starts_with("book {"));
    assert_eq!(old.faults, 0);
}

#[test]
fn stateless() {
    let mut server = Server::start("stateless", MODERN);
    let found = server.ask("server/discover", json!({}))["result"].clone();
    assert_eq!(found["supportedVersions"], json!(["2026-07-28", "2025-11-25", "2025-06-18"]));
    assert!(found["capabilities"]["extensions"]["com.example/greetings"].is_object());
    assert_eq!((&found["ttlMs"], &found["cacheScope"]), (&json!(1000), &json!("private")));
    let page = server.ask("tools/list", json!({}))["result"].clone();
    assert_eq!(page["ttlMs"], 60000);
    let page = server.ask("tools/list", json!({"cursor": page["nextCursor"]}))["result"].clone();
    assert_eq!(page["ttlMs"], 500);
    let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["file:///notes.txt"]});
    let granted =
        server.ask("subscriptions/listen", json!({"notifications": filter}))["params"]["notifications"]
            .clone();
    assert_eq!(granted, json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///notes.txt"]}));
    let told = server.echo("change");
    let changed = "notifications/tools/list_changed";
    assert_eq!(
        methods(&told),
        [changed, "notifications/resources/updated", "notifications/message", "answer"]
    );
    assert_eq!(server.faults, 0);
    assert_eq!(methods(&server.echo("end")), ["notifications/cancelled", "answer", "answer"]);
    assert!(server.ask("resources/list", json!({}))["result"].get("resultType").is_none());
    assert_eq!(server.faults, 1, "it leaves out what it must not");
    server.ask("prompts/list", json!({}));
    assert_eq!(server.faults, 2, "its hints are wrong");
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let opened = server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params}));
    assert_eq!(opened[0]["result"]["protocolVersion"], "2025-06-18");
}

#[test]
fn subscriptions() {
    let mut server = Server::start("subscriptions", MODERN);
    for expected in [
        vec!["answer", "answer"],
        vec!["notifications/cancelled", "answer"],
        vec!["notifications/cancelled", "answer", "answer"],
        vec!["answer"],
    ] {
        server.ask("subscriptions/listen", json!({"notifications": {"promptsListChanged": true}}));
        assert_eq!(methods(&server.echo("hi")), expected);
    }
}

#[test]
fn tasks_of_the_extension() {
    let mut server = Server::start("tasks", MODERN);
    let mut states = |name: &str| {
        let id = server.call(name, json!({"arguments": {"text": "t"}}))["result"]["taskId"].clone();
        let mut seen = Vec::new();
        for _ in 0..4 {
            let shown = server.ask("tasks/get", json!({"taskId": id}));
            seen.push(shown["result"]["status"].as_str().unwrap_or("unknown").to_owned());
            if seen.last().unwrap() == "input_required" {
                let answers = json!({"name": {"action": "accept", "content": {"name": "n"}}});
                server.ask("tasks/update", json!({"taskId": id, "inputResponses": answers}));
            }
            if name == "stuck" {
                server.ask("tasks/cancel", json!({"taskId": id}));
            }
        }
        seen.join(" ")
    };
    assert_eq!(states("long"), "working completed completed completed");
    assert_eq!(states("report"), "working working completed completed");
    assert_eq!(states("only-as-a-task"), "completed completed completed completed");
    assert_eq!(states("questions"), "input_required input_required completed completed");
    assert_eq!(states("breaks"), "failed failed failed failed");
    assert_eq!(states("given-up"), "cancelled cancelled cancelled cancelled");
    assert_eq!(states("stuck"), "working working working working");
    assert_eq!(states("forgotten"), "working working unknown unknown");
    assert_eq!(server.call("never-a-task", json!({}))["result"]["resultType"], "complete");
    assert_eq!(server.echo("later")[0]["result"]["resultType"], "task");
    assert_eq!(server.faults, 0);
    for (word, state) in [("hurry", "completed"), ("give up", "cancelled"), ("forget", "unknown")] {
        let id = server.call("report", json!({}))["result"]["taskId"].clone();
        server.echo(word);
        let shown = server.ask("tasks/get", json!({"taskId": id}));
        assert_eq!(shown["result"]["status"].as_str().unwrap_or("unknown"), state, "{word}");
    }
}

#[test]
fn tasks_of_2025_11_25() {
    let mut server = Server::start("tasks", OLD);
    let created = server.call("report", json!({"task": {}}))["result"].clone();
    assert_eq!(created["_meta"][meta::MODEL_IMMEDIATE_RESPONSE], "The report is being written.");
    let id = json!({"taskId": created["task"]["taskId"]});
    server.ask("tasks/get", id.clone());
    server.ask("tasks/get", id.clone());
    assert_eq!(methods(&server.all("tasks/get", id.clone())), ["notifications/tasks/status", "answer"]);
    assert_eq!(server.ask("tasks/result", id)["result"]["content"][0]["text"], "the report");
    assert_eq!(server.call("only-as-a-task", json!({}))["error"]["code"], -32601);
    assert_eq!(server.call("never-a-task", json!({"task": {}}))["error"]["code"], -32601);
    assert_eq!(methods(&server.echo("sample")), ["sampling/createMessage"]);
    let mut answer = |n: u32, result: Value| {
        server.send(&json!({"jsonrpc": "2.0", "id": format!("s-{n}"), "result": result}))
    };
    assert_eq!(methods(&answer(1, json!({"task": {"taskId": "t", "status": "working"}}))), ["tasks/list"]);
    assert_eq!(methods(&answer(2, json!({"tasks": []}))), ["tasks/get"]);
    assert_eq!(methods(&answer(3, json!({"taskId": "t", "status": "completed"}))), ["tasks/result"]);
    assert_eq!(answer(4, json!({}))[0]["result"]["content"][0]["text"], "sample");
    assert_eq!(methods(&server.echo("never mind")), ["elicitation/create"]);
    assert_eq!(server.faults, 0);
}

#[test]
fn definitions() {
    let mut server = Server::start("definitions", OLD);
    for (method, list, member) in [
        ("tools/list", "tools", "icons"),
        ("resources/list", "resources", "size"),
        ("prompts/list", "prompts", "title"),
    ] {
        assert!(server.ask(method, json!({}))["result"][list][0].get(member).is_some(), "{method}");
    }
    let seen = server.all("tools/call", json!({"name": "private"}));
    assert_eq!(seen[0]["error"]["code"], -32042);
    assert_eq!(seen[1]["method"], "notifications/elicitation/complete");
    assert_eq!(server.call("private", json!({}))["result"]["content"][0]["text"], "private");
    assert_eq!(server.faults, 0);
    let mut oldest = Server::start("definitions", Revision::V2024_11_05);
    let tool = oldest.ask("tools/list", json!({}))["result"]["tools"][0].clone();
    assert!(tool.get("icons").is_none() && tool.get("title").is_none());
    // A code that its revision does not have is a fault.
    let mut modern = Server::start("definitions", MODERN);
    modern.call("private", json!({}));
    assert!(modern.faults > 0);
}
