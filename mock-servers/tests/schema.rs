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
use sparring_wire::meta;
use sparring_wire::transcript::What;
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
            for (key, value) in object.iter_mut() {
                // From 2026-07-28 on schemas may hold whatever JSON Schema knows; `_meta` may hold anything; and the
                // parts of an `allOf`, each closed, would allow nothing.
                let free = key.ends_with("putSchema") || key == "_meta";
                let open = key == "allOf" || free && value.get("additionalProperties").is_some();
                if !open {
                    close(value);
                }
            }
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
        "server/discover" => "DiscoverResult",
        "subscriptions/listen" => "SubscriptionsListenResult",
        "tasks/list" => "ListTasksResult",
        // `GetTaskResult` and its like are this and any result; closed they would be nothing.
        "tasks/get" | "tasks/cancel" => "Task",
        "tasks/result" => "CallToolResult",
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
        "sampling/createMessage" => "CreateMessageRequest",
        "elicitation/create" => "ElicitRequest",
        "notifications/subscriptions/acknowledged" => "SubscriptionsAcknowledgedNotification",
        "notifications/resources/updated" => "ResourceUpdatedNotification",
        "notifications/cancelled" => "CancelledNotification",
        other => panic!("{other} is not expected"),
    }
}

fn send(core: &mut ServerCore, message: &Value) -> Vec<Value> {
    let line = Line { bytes: message.to_string().into_bytes(), carriage_return: false, terminated: true };
    let effects = core.handle(Duration::ZERO, Input::Line(line));
    for effect in &effects {
        // What no script asked for is not called a fault, since it is none.
        if let Effect::Observe(What::Line(line)) = effect {
            assert!(!line.scripted_fault, "{}", line.text);
        }
        assert!(!matches!(effect, Effect::Observe(What::HarnessError { .. })), "{effect:?}");
    }
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

fn error_type(oracle: &Oracle, answer: &Value) -> &'static str {
    match answer["error"]["code"].as_i64() {
        Some(-32020) => "HeaderMismatchError",
        Some(-32021) => "MissingRequiredClientCapabilityError",
        Some(-32022) => "UnsupportedProtocolVersionError",
        Some(-32042) => "URLElicitationRequiredError",
        _ if oracle.has("JSONRPCError") => "JSONRPCError",
        _ => "JSONRPCErrorResponse",
    }
}

/// What a client that can be asked says to each question.
fn answer_to(method: &str) -> Value {
    match method {
        "roots/list" => json!({"roots": [{"uri": "file:///a"}]}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "content": {"type": "text", "text": "t"}, "model": "m"})
        }
        _ => json!({"action": "accept", "content": {"name": "n", "ok": true}}),
    }
}

#[test]
fn what_a_client_is_asked_is_valid_for_the_revision() {
    let Some(directory) = schemas() else {
        eprintln!("skipped: the official JSON Schemas are not there");
        return;
    };
    for revision in Revision::WITH_HANDSHAKE {
        let oracle = Oracle::new(&directory, revision);
        let script: ServerScript = serde_json::from_value(everything(revision)).unwrap();
        let mut core = ServerCore::stdio(Arc::new(script), revision, 1, 1);
        core.handle(Duration::ZERO, Input::Start);
        let capabilities = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}});
        send(&mut core, &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        let mut questions = 0;
        for name in ["ask", "confirm", "connect", "sample", "roots"] {
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {"prompt": "p"}}});
            let mut sent = send(&mut core, &call);
            let mut last = sent.pop().unwrap();
            check_envelopes(&oracle, &sent);
            if last.get("method").is_some() {
                questions += 1;
                check_envelopes(&oracle, std::slice::from_ref(&last));
                let result = answer_to(last["method"].as_str().unwrap());
                let answer = json!({"jsonrpc": "2.0", "id": last["id"], "result": result});
                last = send(&mut core, &answer).pop().unwrap();
                assert!(last["result"].get("isError").is_none(), "{name}: {last}");
            }
            oracle.check("CallToolResult", &last["result"]);
        }
        let expected = match revision {
            Revision::V2024_11_05 | Revision::V2025_03_26 => 2,
            Revision::V2025_06_18 => 4,
            _ => 5,
        };
        assert_eq!(questions, expected, "{revision}");
    }
}

#[test]
fn tasks_of_2025_11_25_are_valid() {
    let Some(directory) = schemas() else {
        eprintln!("skipped: the official JSON Schemas are not there");
        return;
    };
    let revision = Revision::V2025_11_25;
    let oracle = Oracle::new(&directory, revision);
    let question = json!({"requests": {"r": {"method": "elicitation/create",
        "params": r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#}}});
    let script = json!({"tools": ["long",
        {"name": "told", "task": {"notify": true, "message": "m", "poll_interval_ms": 1, "immediate": "i"}},
        {"name": "asks", "task": {"polls": 0, "ask": question}},
        {"name": "fails", "task": {"polls": 0, "ends": "failed"}}]});
    let mut core = ServerCore::stdio(Arc::new(serde_json::from_value(script).unwrap()), revision, 1, 1);
    core.handle(Duration::ZERO, Input::Start);
    let params = json!({"protocolVersion": revision.as_str(), "capabilities": {"elicitation": {}}, "clientInfo": {"name": "c", "version": "1"}});
    let mut ask = |method: &str, params: Value| {
        let mut sent =
            send(&mut core, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        (sent.pop().unwrap(), sent)
    };
    oracle.check("InitializeResult", &ask("initialize", params).0["result"]);
    oracle.check("ListToolsResult", &ask("tools/list", json!({})).0["result"]);
    for name in ["long", "told", "asks", "fails"] {
        let params = json!({"name": name, "arguments": {"text": "t"}, "task": {"ttl": 1000}});
        let created = ask("tools/call", params).0["result"].clone();
        oracle.check("CreateTaskResult", &created);
        let id = json!({"taskId": created["task"]["taskId"]});
        for _ in 0..3 {
            let (shown, told) = ask("tasks/get", id.clone());
            oracle.check("Task", &shown["result"]);
            for told in told {
                assert_eq!(told["method"], "notifications/tasks/status");
                oracle.check("Task", &told["params"]);
            }
        }
        let (last, _) = ask("tasks/result", id.clone());
        match (last.get("method"), last.get("error")) {
            (Some(_), _) => check_envelopes(&oracle, &[last]),
            (None, Some(_)) => oracle.check("JSONRPCErrorResponse", &last),
            (None, None) => oracle.check("CallToolResult", &last["result"]),
        }
        let (cancelled, _) = ask("tasks/cancel", id);
        match cancelled.get("result") {
            Some(result) => oracle.check("Task", result),
            None => oracle.check("JSONRPCErrorResponse", &cancelled),
        }
    }
    oracle.check("ListTasksResult", &ask("tasks/list", json!({})).0["result"]);
}

fn stateless(id: usize, method: &str, params: &Value, capabilities: &Value) -> Value {
    let mut params = params.clone();
    let fields = json!({
        meta::PROTOCOL_VERSION: Revision::STATELESS.as_str(), meta::CLIENT_CAPABILITIES: capabilities,
        meta::CLIENT_INFO: {"name": "c", "version": "1"}, meta::LOG_LEVEL: "debug",
    });
    if params.get("_meta").is_none() {
        params["_meta"] = json!({});
    }
    params["_meta"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn what_is_sent_by_default_is_valid_for_the_stateless_revision() {
    let Some(directory) = schemas() else {
        eprintln!("skipped: the official JSON Schemas are not there");
        return;
    };
    let revision = Revision::STATELESS;
    let oracle = Oracle::new(&directory, revision);
    let mut script = everything(revision);
    script["rules"] = json!([
        {"on": "prompts/list", "do": [
            {"announce": "tools"}, {"announce": "resources"}, {"announce": "prompts"}, {"resource_updated": "a://text"},
            {"log": {"level": "info", "data": "1"}}]},
        {"on": "completion/complete", "do": [{"end_subscriptions": "faithful"}]},
        {"on": "tools/call", "nth": 1, "params": r#"{"name": "echo"}"#, "do": [{"progress": 2}]},
    ]);
    let mut core = ServerCore::stdio(Arc::new(serde_json::from_value(script).unwrap()), revision, 1, 1);
    core.handle(Duration::ZERO, Input::Start);
    let all = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
    let filter = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["a://text"]}});
    let acknowledged = send(&mut core, &stateless(1000, "subscriptions/listen", &filter, &all));
    assert_eq!(acknowledged.len(), 1);
    check_envelopes(&oracle, &acknowledged);
    for wrong in [json!({"content": []}), json!({"content": [], "resultType": "complete", "later": 1})] {
        assert!(!oracle.problems("CallToolResult", &wrong).is_empty(), "{wrong}");
    }
    let mut requests = requests();
    requests.push(("server/discover", json!({})));
    requests.push(("initialize", json!({})));
    let (mut errors, mut rounds, mut beside) = (0, 0, 0);
    for (id, (method, params)) in requests.into_iter().enumerate() {
        for capabilities in [&all, &json!({})] {
            let mut sent = send(&mut core, &stateless(id, method, &params, capabilities));
            let mut answer = sent.pop().unwrap();
            for message in sent {
                beside += 1;
                match message.get("result") {
                    Some(result) => oracle.check("SubscriptionsListenResult", result),
                    None => check_envelopes(&oracle, &[message]),
                }
            }
            if answer["result"]["resultType"] == "input_required" {
                rounds += 1;
                oracle.check("InputRequiredResult", &answer["result"]);
                let asked = answer["result"]["inputRequests"].as_object().unwrap();
                let answers: Value = asked
                    .iter()
                    .map(|(key, request)| (key.clone(), answer_to(request["method"].as_str().unwrap())))
                    .collect();
                let mut params = params.clone();
                params["inputResponses"] = answers;
                answer = send(&mut core, &stateless(id, method, &params, capabilities)).pop().unwrap();
                assert!(answer["result"].get("isError").is_none(), "{answer}");
            }
            assert!(jsonrpc::inspect(&answer.to_string()).is_valid(), "{answer}");
            match answer.get("result") {
                Some(result) => oracle.check(result_type(method), result),
                None => {
                    errors += 1;
                    oracle.check(error_type(&oracle, &answer), &answer);
                }
            }
        }
    }
    // Twice ping, subscribe, unsubscribe, setLevel, initialize, an unknown method, tool and resource, a prompt without
    // its argument, and once each of the five tools that ask.
    assert_eq!((errors, rounds, beside), (2 * 9 + 5, 5, 2 * 5 + 2 + 2), "only what asks for it");
    for version in ["2025-11-25", "1"] {
        let mut request = stateless(1, "tools/list", &json!({}), &all);
        request["params"]["_meta"][meta::PROTOCOL_VERSION] = version.into();
        let answer = send(&mut core, &request).pop().unwrap();
        oracle.check("UnsupportedProtocolVersionError", &answer);
    }
    for broken in ["{", r#"{"id": 5, "method": "ping"}"#, "[]"] {
        let line = Line { bytes: broken.into(), carriage_return: false, terminated: true };
        for effect in core.handle(Duration::ZERO, Input::Line(line)) {
            if let Effect::Write(bytes) = effect {
                oracle.check("JSONRPCErrorResponse", &serde_json::from_slice(&bytes).unwrap());
            }
        }
    }
}

/// The extension has no JSON Schema; what it carries has.
#[test]
fn tasks_of_the_extension_carry_what_is_valid() {
    let Some(directory) = schemas() else {
        eprintln!("skipped: the official JSON Schemas are not there");
        return;
    };
    let revision = Revision::STATELESS;
    let oracle = Oracle::new(&directory, revision);
    let question = json!({"requests": {"r": {"method": "roots/list"}}});
    let script = json!({"tools": ["long", {"name": "asks", "task": {"polls": 0, "ask": question}},
        {"name": "fails", "task": {"polls": 0, "ends": "failed"}}]});
    let mut core = ServerCore::stdio(Arc::new(serde_json::from_value(script).unwrap()), revision, 1, 1);
    core.handle(Duration::ZERO, Input::Start);
    let capabilities = json!({"roots": {}, "extensions": {meta::TASKS_EXTENSION: {}}});
    let mut ask = |method: &str, params: Value| {
        send(&mut core, &stateless(1, method, &params, &capabilities)).pop().unwrap()["result"].clone()
    };
    oracle.check("DiscoverResult", &ask("server/discover", json!({})));
    let mut seen = Vec::new();
    for name in ["long", "asks", "fails"] {
        let created = ask("tools/call", json!({"name": name, "arguments": {"text": "t"}}));
        assert_eq!(created["resultType"], "task");
        for _ in 0..3 {
            let shown = ask("tasks/get", json!({"taskId": created["taskId"]}));
            let base = json!({"resultType": shown["resultType"], "_meta": shown["_meta"]});
            oracle.check("EmptyResult", &base);
            let status = shown["status"].as_str().unwrap().to_owned();
            match status.as_str() {
                "input_required" => {
                    oracle.check("InputRequests", &shown["inputRequests"]);
                    let answers = json!({"r": answer_to("roots/list")});
                    let update = json!({"taskId": created["taskId"], "inputResponses": answers});
                    oracle.check("EmptyResult", &ask("tasks/update", update));
                }
                "completed" => oracle.check("CallToolResult", &shown["result"]),
                "failed" => oracle.check("Error", &shown["error"]),
                _ => {}
            }
            seen.push(status);
        }
        oracle.check("EmptyResult", &ask("tasks/cancel", json!({"taskId": created["taskId"]})));
    }
    let expected = [
        "working",
        "completed",
        "completed",
        "input_required",
        "completed",
        "completed",
        "failed",
        "failed",
        "failed",
    ];
    assert_eq!(seen, expected);
}
