//! Whatever a mock sends by default is valid for its revision, and holds nothing that the revision lacks.
//!
//! The oracle is the official JSON Schemas, which are not part of this repository: `../shared/schema` beside the
//! workspace, or the directory that `SPARRING_SCHEMAS` names. Without them the test says so and does nothing.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use serde_json::{Value, json};
use sparring_mock_servers::core::{Effect, Input, ServerCore};
use sparring_mock_servers::library::TOOLS;
use sparring_mock_servers::script::ServerScript;
use sparring_wire::Revision;
use sparring_wire::framing::Line;
use sparring_wire::jsonrpc;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn schemas() -> Option<PathBuf> {
    let directory = std::env::var_os("SPARRING_SCHEMAS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/schema")),
        PathBuf::from,
    );
    directory.is_dir().then_some(directory)
}

/// Forbids members that the schema does not name, also where it allows any (results).
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let open = object.get("additionalProperties").is_none_or(|a| *a == json!({}));
            if object.contains_key("properties") && open {
                object.insert("additionalProperties".into(), false.into());
            }
            object.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

struct Oracle {
    schema: Value,
    key: &'static str,
}

impl Oracle {
    fn new(directory: &std::path::Path, revision: Revision) -> Self {
        let text = std::fs::read_to_string(directory.join(revision.as_str()).join("schema.json")).unwrap();
        let mut schema: Value = serde_json::from_str(&text).unwrap();
        let key = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
        schema[key].as_object_mut().unwrap().values_mut().for_each(close);
        Self { schema, key }
    }

    fn has(&self, name: &str) -> bool {
        self.schema[self.key].get(name).is_some()
    }

    fn problems(&self, name: &str, value: &Value) -> Vec<String> {
        assert!(self.has(name), "no definition {name}");
        let mut schema = self.schema.clone();
        schema["$ref"] = format!("#/{}/{name}", self.key).into();
        let validator = jsonschema::validator_for(&schema).unwrap();
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect()
    }

    fn check(&self, name: &str, value: &Value) {
        let problems = self.problems(name, value);
        assert!(problems.is_empty(), "{name}: {problems:#?}\n{value:#}");
    }
}

/// A server with everything that the faithful model can have.
fn everything(revision: Revision) -> Value {
    let mut tools: Vec<Value> = TOOLS.iter().map(|t| json!(t)).collect();
    tools.push(json!({
        "name": "custom", "title": "Custom", "description": "d", "annotations": r#"{"title": "t", "readOnlyHint": true}"#,
        "output_schema": r#"{"type": "object"}"#, "like": "add",
    }));
    json!({
        "tools": tools,
        "many_tools": 3,
        "resources": [{"uri": "a://text", "text": "t", "mime_type": "text/plain"}, {"uri": "a://blob", "blob_bytes": 300}],
        "templates": [r#"{"name": "t", "uriTemplate": "t://{x}"}"#],
        "prompts": [{"name": "p", "description": "d", "arguments": r#"[{"name": "x", "required": true}]"#}],
        "instructions": "be good",
        "page_size": 4,
        "rules": [{"on": "notifications/roots/list_changed", "do": [
            {"announce": "tools"}, {"announce": "resources"}, {"announce": "prompts"}, {"request": {"method": "ping"}},
            {"request": {"method": "roots/list"}},
            {"notify": {"method": "notifications/message", "params": r#"{"level": "info", "data": 1}"#}},
        ]}, {"on": "tools/call", "nth": 1, "do": [{"progress": 2}]}],
        "version": revision.as_str(),
    })
}

fn requests() -> Vec<(&'static str, Value)> {
    let mut requests = vec![
        ("ping", json!({})),
        ("tools/list", json!({})),
        ("tools/list", json!({"cursor": "p=1&\"next\" %20+/é#\\ "})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "a://text"})),
        ("resources/read", json!({"uri": "a://blob"})),
        ("resources/read", json!({"uri": "t://filled"})),
        ("resources/read", json!({"uri": "nowhere"})),
        ("resources/subscribe", json!({"uri": "a://text"})),
        ("resources/unsubscribe", json!({"uri": "a://text"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "p", "arguments": {"x": "1"}})),
        ("prompts/get", json!({"name": "p"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x", "value": "v"}}),
        ),
        ("logging/setLevel", json!({"level": "debug"})),
        ("no/such", json!({})),
        ("tools/call", json!({"name": "no-such-tool"})),
    ];
    for name in TOOLS.iter().chain(&["custom", "tool-001"]) {
        let arguments = json!({"text": "x", "a": 1, "b": 2.5});
        requests.push((
            "tools/call",
            json!({"name": name, "arguments": arguments, "_meta": {"progressToken": 7}}),
        ));
    }
    requests
}

fn result_type(method: &str) -> &'static str {
    match method {
        "initialize" => "InitializeResult",
        "tools/list" => "ListToolsResult",
        "tools/call" => "CallToolResult",
        "resources/list" => "ListResourcesResult",
        "resources/templates/list" => "ListResourceTemplatesResult",
        "resources/read" => "ReadResourceResult",
        "prompts/list" => "ListPromptsResult",
        "prompts/get" => "GetPromptResult",
        "completion/complete" => "CompleteResult",
        _ => "EmptyResult",
    }
}

fn own_type(method: &str) -> &'static str {
    match method {
        "notifications/tools/list_changed" => "ToolListChangedNotification",
        "notifications/resources/list_changed" => "ResourceListChangedNotification",
        "notifications/prompts/list_changed" => "PromptListChangedNotification",
        "notifications/message" => "LoggingMessageNotification",
        "notifications/progress" => "ProgressNotification",
        "ping" => "PingRequest",
        "roots/list" => "ListRootsRequest",
        other => panic!("{other} is not expected"),
    }
}

fn send(core: &mut ServerCore, message: &Value) -> Vec<Value> {
    let line = Line { bytes: message.to_string().into_bytes(), carriage_return: false, terminated: true };
    let effects = core.handle(Duration::ZERO, Input::Line(line));
    let written = effects.into_iter().filter_map(|effect| match effect {
        Effect::Write(bytes) => Some(serde_json::from_slice(&bytes).unwrap()),
        _ => None,
    });
    written.collect()
}

#[test]
fn what_is_sent_by_default_is_valid_for_the_revision() {
    let Some(directory) = schemas() else {
        eprintln!("skipped: the official JSON Schemas are not there");
        return;
    };
    for revision in Revision::WITH_HANDSHAKE {
        let oracle = Oracle::new(&directory, revision);
        let script: ServerScript = serde_json::from_value(everything(revision)).unwrap();
        let mut core = ServerCore::stdio(Arc::new(script), revision, 1, 1);
        core.handle(Duration::ZERO, Input::Start);
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let mut all = vec![("initialize", params)];
        all.extend(requests());
        // The oracle can say no.
        for wrong in [json!({"content": [{"type": "text"}]}), json!({"content": [], "later": 1})] {
            assert!(!oracle.problems("CallToolResult", &wrong).is_empty(), "{wrong}");
        }
        let mut errors = 0;
        for (id, (method, params)) in all.into_iter().enumerate() {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            let mut sent = send(&mut core, &request);
            let answer = sent.pop().unwrap();
            check_envelopes(&oracle, &sent);
            assert!(jsonrpc::inspect(&answer.to_string()).is_valid(), "{answer}");
            match answer.get("result") {
                Some(result) => oracle.check(result_type(method), result),
                None => {
                    errors += 1;
                    let error =
                        if oracle.has("JSONRPCError") { "JSONRPCError" } else { "JSONRPCErrorResponse" };
                    oracle.check(error, &answer);
                }
            }
        }
        assert_eq!(errors, 4, "only what asks for it");
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
        let sent = send(&mut core, &changed);
        assert_eq!(sent.len(), 6);
        check_envelopes(&oracle, &sent);
        for broken in ["{", r#"{"id": 5, "method": "ping"}"#, "[]"] {
            let line = Line { bytes: broken.into(), carriage_return: false, terminated: true };
            for effect in core.handle(Duration::ZERO, Input::Line(line)) {
                if let Effect::Write(bytes) = effect {
                    let answer: Value = serde_json::from_slice(&bytes).unwrap();
                    let error =
                        if oracle.has("JSONRPCError") { "JSONRPCError" } else { "JSONRPCErrorResponse" };
                    oracle.check(error, &answer);
                }
            }
        }
    }
}

/// Checks requests and notifications of the server's.
fn check_envelopes(oracle: &Oracle, messages: &[Value]) {
    for message in messages {
        assert!(jsonrpc::inspect(&message.to_string()).is_valid(), "{message}");
        let method = message["method"].as_str().unwrap();
        // Up to 2025-06-18 the definitions leave the envelope out.
        let mut body = message.clone();
        let name = own_type(method);
        if oracle.schema[oracle.key][name]["properties"].get("jsonrpc").is_none() {
            let object = body.as_object_mut().unwrap();
            object.remove("jsonrpc");
            object.remove("id");
        }
        oracle.check(name, &body);
    }
}
