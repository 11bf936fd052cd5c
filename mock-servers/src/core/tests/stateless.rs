//! 2026-07-28, alone and beside earlier revisions.

use super::*;
use sparring_wire::meta;

const MODERN: Revision = Revision::STATELESS;

fn fields(capabilities: Value) -> Value {
    json!({
        meta::PROTOCOL_VERSION: "2026-07-28", meta::CLIENT_CAPABILITIES: capabilities,
        meta::CLIENT_INFO: {"name": "c", "version": "1"},
    })
}

/// A request of a client with these capabilities.
fn with(id: impl Into<Value>, method: &str, params: Value, capabilities: Value) -> Value {
    let mut params = params;
    let mut all = fields(capabilities);
    if let Value::Object(more) = &params["_meta"] {
        all.as_object_mut().unwrap().extend(more.clone());
    }
    params["_meta"] = all;
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub(super) fn ask(id: impl Into<Value>, method: &str, params: Value) -> Value {
    with(
        id,
        method,
        params,
        json!({"elicitation": {}, "sampling": {}, "roots": {}, "extensions": {meta::TASKS_EXTENSION: {}}}),
    )
}

pub(super) fn stdio_in(revision: Revision, json: Value) -> Bench {
    unopened(json, revision, 1)
}

pub(super) fn http_in(revision: Revision, json: Value) -> Bench {
    let origins = Origins { own: "http://own".into(), other: "http://other".into() };
    let core = ServerCore::http(script(json), revision, 1, origins, None);
    let mut bench = Bench::new(core, revision);
    bench.input(Input::Start);
    bench
}

/// Posts a request with the header fields that belong to it, and these.
pub(super) fn post(bench: &mut Bench, message: &Value, more: &[(&str, &str)]) -> Vec<String> {
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let params = &message["params"];
    let name = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str());
    let mut all = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method.as_str())];
    all.extend(name.map(|name| ("mcp-name", name)));
    all.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
    all.extend(more.iter().filter(|(_, value)| !value.is_empty()));
    bench.exchange("POST", &all, message.clone())
}

/// The messages that went out last, whole.
pub(super) fn sent(bench: &Bench) -> Vec<Value> {
    let texts = bench.effects.iter().filter_map(|effect| match effect {
        Effect::Observe(What::Line(line)) if line.direction == Direction::Sent => Some(line.text.clone()),
        Effect::Observe(What::HttpResponse(response)) => response.body.clone().filter(|b| !b.is_empty()),
        Effect::Observe(What::StreamEvent(event)) => event.data.clone(),
        _ => None,
    });
    texts.map(|text| serde_json::from_str(&text).unwrap()).collect()
}

fn last(bench: &Bench) -> Value {
    sent(bench).pop().unwrap()
}

#[test]
fn every_result_says_what_it_is_and_who_gives_it() {
    let mut bench = stdio_in(MODERN, json!({"tools": ["echo"], "instructions": "be good"}));
    assert_eq!(bench.send(ask(1, "server/discover", json!({}))), ["1 ok"]);
    let discovered = last(&bench)["result"].clone();
    assert_eq!(discovered["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(discovered["instructions"], "be good");
    assert_eq!(discovered["capabilities"]["tools"]["listChanged"], true);
    for (key, value) in
        [("resultType", json!("complete")), ("ttlMs", json!(0)), ("cacheScope", json!("private"))]
    {
        assert_eq!(discovered[key], value);
    }
    assert_eq!(discovered["_meta"][meta::SERVER_INFO]["name"], "sparring-mock");
    bench.send(ask(2, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}})));
    let called = last(&bench)["result"].clone();
    assert_eq!(called["resultType"], "complete");
    assert!(called.get("ttlMs").is_none());
}

#[test]
fn what_the_revision_has_removed_does_not_exist() {
    let mut bench = stdio_in(MODERN, json!({"tools": ["echo"], "resources": [{"uri": "a://b"}]}));
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "tasks/get",
    ] {
        assert_eq!(bench.send(ask(1, method, json!({}))), ["1 error -32601"], "{method}");
    }
    assert_eq!(bench.send(ask(1, "resources/read", json!({"uri": "a://no"}))), ["1 error -32602"]);
    assert_eq!(bench.line(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), ["error -32600"]);
    let mut http =
        http_in(MODERN, json!({"tools": ["echo"], "http": {"sessions": true, "get_stream": true}}));
    assert_eq!(post(&mut http, &ask(1, "ping", json!({})), &[]), ["#1 404 1 error -32601"]);
    assert_eq!(http.get(None), ["#2 405"]);
    assert_eq!(http.exchange("DELETE", &[], Value::Null), ["#3 405"]);
    assert_eq!(http.post(json!({"jsonrpc": "2.0", "id": 1, "result": {}})), ["#4 400 error -32600"]);
    let seen = post(&mut http, &ask(1, "tools/list", json!({})), &[("mcp-session-id", "made-up")]);
    assert_eq!(seen, ["#5 200 1 ok"]);
    assert!(http.effects.iter().all(|e| match e {
        Effect::Respond { headers, .. } => headers.iter().all(|(name, _)| name != "mcp-session-id"),
        _ => true,
    }));
}

#[test]
fn a_request_that_does_not_say_its_version_and_capabilities_is_refused() {
    let mut bench = stdio_in(MODERN, json!({"tools": ["echo"]}));
    let mut send = |change: &dyn Fn(&mut Value)| {
        let mut request = ask(1, "tools/list", json!({}));
        change(&mut request["params"]);
        bench.send(request)
    };
    let set =
        |key: &'static str, value: Value| move |params: &mut Value| params["_meta"][key] = value.clone();
    assert_eq!(send(&|p| p["_meta"] = Value::Null), ["1 error -32602"]);
    assert_eq!(send(&|p| *p = json!({})), ["1 error -32602"]);
    assert_eq!(send(&set(meta::PROTOCOL_VERSION, json!(7))), ["1 error -32602"]);
    assert_eq!(send(&set(meta::CLIENT_CAPABILITIES, json!([]))), ["1 error -32602"]);
    assert_eq!(send(&set(meta::CLIENT_INFO, json!({"name": "c"}))), ["1 error -32602"]);
    assert_eq!(send(&set(meta::LOG_LEVEL, json!("loud"))), ["1 error -32602"]);
    assert_eq!(send(&set(meta::PROTOCOL_VERSION, json!("2099-01-01"))), ["1 error -32022"]);
    assert_eq!(send(&|_| {}), ["1 ok"]);
    let refused = &sent(&bench)[6]["error"]["data"];
    assert_eq!(*refused, json!({"supported": ["2026-07-28"], "requested": "2099-01-01"}));
}

#[test]
fn an_old_client_is_told_what_the_server_speaks() {
    let mut bench = stdio_in(MODERN, json!({}));
    assert_eq!(bench.initialize(), ["0 error -32022"]);
    let error = last(&bench)["error"].clone();
    assert_eq!(error["data"]["supported"], json!(["2026-07-28"]));
    assert!(error["message"].as_str().unwrap().contains("2026-07-28"));
    let mut http = http_in(MODERN, json!({}));
    let params = initialize_params(Revision::V2025_11_25);
    let seen = http.post(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
    assert_eq!(seen, ["#1 400 1 error -32020"]);
    assert_eq!(last(&http)["error"]["data"]["supported"], json!(["2026-07-28"]));
}

#[test]
fn header_fields_have_to_agree_with_the_body() {
    let mut bench = http_in(MODERN, json!({"tools": ["echo", "mirror"], "http": {"answers": "sse"}}));
    let call = |arguments: Value| ask(1, "tools/call", json!({"name": "mirror", "arguments": arguments}));
    let list = ask(1, "tools/list", json!({}));
    let mut seen = |message: &Value, more: &[(&str, &str)]| {
        let mut seen = post(&mut bench, message, more);
        let first = seen.remove(0);
        first.split_once(' ').unwrap().1.to_owned()
    };
    assert_eq!(seen(&list, &[]), "200 stream");
    assert_eq!(seen(&list, &[("mcp-protocol-version", "")]), "400 1 error -32020");
    assert_eq!(seen(&list, &[("mcp-protocol-version", "2025-11-25")]), "400 1 error -32020");
    assert_eq!(seen(&list, &[("mcp-method", "")]), "400 1 error -32020");
    assert_eq!(seen(&list, &[("mcp-method", "tools/call")]), "400 1 error -32020");
    let plain = call(json!({}));
    assert_eq!(seen(&plain, &[]), "200 stream");
    assert_eq!(seen(&plain, &[("mcp-name", "")]), "400 1 error -32020");
    assert_eq!(seen(&plain, &[("mcp-name", "echo")]), "400 1 error -32020");
    assert_eq!(seen(&plain, &[("mcp-name", "=?base64?bWlycm9y?=")]), "200 stream");
    assert_eq!(seen(&plain, &[("mcp-param-region", "eu")]), "400 1 error -32020");
    let full = call(json!({"region": "Hello, 世界", "limit": 42, "dry_run": false, "target": {"zone": "z"}}));
    assert_eq!(seen(&full, &[]), "400 1 error -32020");
    let right = [
        ("mcp-param-region", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("mcp-param-limit", "42"),
        ("mcp-param-dry-run", "false"),
        ("mcp-param-zone", "z"),
    ];
    assert_eq!(seen(&full, &right), "200 stream");
    for wrong in [("mcp-param-limit", "43"), ("mcp-param-dry-run", "False"), ("mcp-param-zone", "eu")] {
        let all: Vec<_> = right.iter().map(|r| if r.0 == wrong.0 { wrong } else { *r }).collect();
        assert_eq!(seen(&full, &all), "400 1 error -32020", "{wrong:?}");
    }
    assert_eq!(seen(&call(json!({"region": null})), &[]), "200 stream");
}

#[test]
fn a_server_of_both_eras_takes_each_message_for_what_it_is() {
    let speaks = json!({"tools": ["echo"], "speaks": ["2025-06-18", "2025-11-25", "2026-07-28"]});
    let mut bench = stdio_in(MODERN, speaks.clone());
    assert_eq!(bench.send(ask(1, "server/discover", json!({}))), ["1 ok"]);
    let versions = last(&bench)["result"]["supportedVersions"].clone();
    assert_eq!(versions, json!(["2026-07-28", "2025-11-25", "2025-06-18"]));
    bench.revision = Revision::V2025_06_18;
    bench.initialize();
    assert_eq!(last(&bench)["result"]["protocolVersion"], "2025-06-18");
    bench.send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
    assert!(last(&bench)["result"].get("resultType").is_none());
    bench.send(ask(3, "tools/list", json!({})));
    assert_eq!(last(&bench)["result"]["resultType"], "complete");
    // A version that it does not speak is answered with the newest that it does.
    for (asked, given) in [("2024-11-05", "2025-11-25"), ("2025-11-25", "2025-11-25"), ("1.0", "2025-11-25")]
    {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        bench.send(json!({"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": params}));
        assert_eq!(last(&bench)["result"]["protocolVersion"], given, "{asked}");
    }

    let mut script = speaks;
    script["http"] = json!({"sessions": true, "event_ids": true, "answers": "sse"});
    let mut http = http_in(MODERN, script);
    assert_eq!(
        post(&mut http, &ask(1, "tools/list", json!({})), &[]),
        ["#1 200 stream", "#1 1 ok", "#1 ended by Server"]
    );
    let params = initialize_params(Revision::V2025_11_25);
    let seen = http.post(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
    assert_eq!(seen[1], "#2 id=stream2/1 1 ok");
    assert_eq!(http.post(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})), ["#3 400 error -32600"]);
}

#[test]
fn a_server_of_the_old_era_does_not_know_the_probe() {
    let mut bench = stdio_in(Revision::V2025_11_25, json!({"tools": ["echo"]}));
    assert_eq!(bench.send(ask(1, "server/discover", json!({}))), ["1 error -32601"]);
    assert_eq!(bench.send(ask(2, "tools/list", json!({}))), ["2 error -32600"]);
    assert_eq!(bench.initialize(), ["0 ok"]);
    let mut http = http_in(Revision::V2025_11_25, json!({"tools": ["echo"]}));
    assert_eq!(post(&mut http, &ask(1, "server/discover", json!({})), &[]), ["#1 400 error -32600"]);
}

// ---- rounds ----

#[test]
fn a_tool_that_asks_gets_its_answer_in_a_second_round() {
    let mut bench = stdio_in(MODERN, json!({"tools": ["ask", "connect"]}));
    bench.send(ask(1, "tools/call", json!({"name": "ask"})));
    let asked = last(&bench)["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["name"]["method"], "elicitation/create");
    let answers = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let again = ask(2, "tools/call", json!({"name": "ask", "inputResponses": answers}));
    assert_eq!(bench.send(again), ["2 Hello, Ada!"]);
    let declined = json!({"name": {"action": "decline"}});
    let again = ask(3, "tools/call", json!({"name": "ask", "inputResponses": declined}));
    assert_eq!(bench.send(again), ["3 the user chose: decline"]);
    // Other keys don't help.
    bench.send(ask(4, "tools/call", json!({"name": "ask", "inputResponses": {"other": {}}})));
    assert_eq!(last(&bench)["result"]["resultType"], "input_required");
    // What the client has not declared is not asked; a form is no page.
    let mut refused = |name: &str, capabilities: Value| {
        bench.send(with(5, "tools/call", json!({"name": name}), capabilities));
        last(&bench)["error"].clone()
    };
    let error = refused("ask", json!({}));
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}));
    assert_eq!(refused("ask", json!({"elicitation": {"url": {}}}))["code"], -32021);
    assert_eq!(refused("connect", json!({"elicitation": {}}))["code"], -32021);
}

#[test]
fn rounds_follow_each_other_by_their_states() {
    let one = json!({"requests": {"a": {"method": "roots/list"}}, "state": " {\"x\": 1} "});
    let two = json!({"requests": {"ключ": {"method": "roots/list"}}, "state": ""});
    let rules = json!([{"on": "prompts/get", "do": [
        {"input_required": one}, {"input_required": two}, {"input_required": {"state_bytes": 5000}}]}]);
    let mut bench = stdio_in(MODERN, json!({"prompts": [{"name": "p"}], "rules": rules}));
    let mut round = |more: Value| {
        let mut params = json!({"name": "p"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        bench.send(ask(1, "prompts/get", params));
        let answer = last(&bench);
        (answer["result"]["requestState"].clone(), answer)
    };
    let roots = json!({"roots": []});
    let (state, _) = round(json!({}));
    assert_eq!(state, " {\"x\": 1} ");
    assert_eq!(round(json!({"requestState": state, "inputResponses": {}})).0, " {\"x\": 1} ", "again");
    let (state, answer) = round(json!({"requestState": state, "inputResponses": {"a": roots}}));
    assert_eq!(state, "");
    assert!(answer["result"]["inputRequests"].get("ключ").is_some());
    let (state, answer) = round(json!({"requestState": "", "inputResponses": {"ключ": roots}}));
    assert_eq!(state.as_str().unwrap().chars().count(), 5000);
    assert!(answer["result"].get("inputRequests").is_none());
    let (_, answer) = round(json!({"requestState": state}));
    assert!(answer["result"]["messages"].is_array());
    let (_, answer) = round(json!({"requestState": "{\"x\":1}"}));
    assert_eq!(answer["error"]["code"], -32602, "changed on the way");
    assert!(bench.effects.iter().all(|e| !format!("{e:?}").contains("scripted_fault: true")));
}

#[test]
fn asking_where_it_is_not_allowed_is_a_fault() {
    let rule = |on: &str, ask: Value| json!({"tools": ["echo"], "rules": [{"on": on, "do": [{"input_required": ask}]}]});
    let roots = json!({"requests": {"r": {"method": "roots/list"}}});
    let echo = json!({"name": "echo", "arguments": {"text": "hi"}});
    let mut list = stdio_in(MODERN, rule("tools/list", roots.clone()));
    assert_eq!(list.send(ask(1, "tools/list", json!({}))), ["1 ok!"]);
    let mut call = stdio_in(MODERN, rule("tools/call", roots));
    assert_eq!(call.send(ask(1, "tools/call", echo.clone())), ["1 ok"]);
    assert_eq!(call.send(with(1, "tools/call", echo.clone(), json!({}))), ["1 ok!"], "not declared");
    let mut odd = stdio_in(MODERN, rule("tools/call", json!({"requests": {"r": {"method": "acme/do"}}})));
    assert_eq!(odd.send(ask(1, "tools/call", echo.clone())), ["1 ok!"]);
    let mut always = stdio_in(MODERN, rule("tools/call", json!({"always": true})));
    for _ in 0..3 {
        always.send(ask(1, "tools/call", echo.clone()));
        let state = last(&always)["result"]["requestState"].clone();
        assert!(state.is_string());
        let mut params = echo.clone();
        params["requestState"] = state;
        always.send(ask(2, "tools/call", params));
        assert_eq!(last(&always)["result"]["resultType"], "input_required");
    }
}

#[test]
fn before_the_stateless_revision_the_server_asks_by_requests_of_its_own() {
    let mut bench = stdio_in(Revision::V2025_11_25, json!({"tools": ["ask", "connect"]}));
    let call =
        |name: &str| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}});
    bench.initialize();
    assert_eq!(bench.send(call("ask")), ["1 the client can't be asked"], "it has not said that it can");
    let mut params = initialize_params(Revision::V2025_11_25);
    params["capabilities"] = json!({"elicitation": {"form": {}, "url": {}}});
    bench.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    assert_eq!(bench.send(call("ask")), ["\"s-1\" elicitation/create"]);
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    assert_eq!(bench.send(json!({"jsonrpc": "2.0", "id": "s-1", "result": answer})), ["1 Hello, Ada!"]);
    assert_eq!(bench.send(call("connect")), ["\"s-2\" elicitation/create"]);
    assert!(last(&bench)["params"]["elicitationId"].is_string());
    let error = json!({"code": -1, "message": "no"});
    let seen = bench.send(json!({"jsonrpc": "2.0", "id": "s-2", "error": error}));
    assert_eq!(seen, ["1 there is no answer from the user"]);
}

// ---- subscriptions ----

#[test]
fn those_who_listen_are_told_what_they_asked_for_and_were_granted() {
    let script = json!({
        "tools": ["echo"], "resources": [{"uri": "a://b"}], "grants": ["tools", "resource-updates"],
        "rules": [{"on": "tools/call", "do": [
            {"announce": "tools"}, {"announce": "resources"}, {"resource_updated": "a://b"}, {"resource_updated": "a://c"},
            {"notify": {"method": "notifications/tools/list_changed"}}]}],
    });
    let mut bench = stdio_in(MODERN, script);
    let echo = || ask(9, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}));
    assert_eq!(bench.send(echo()), ["9 hi"], "nobody listens");
    let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    assert_eq!(
        bench.send(ask("1", "subscriptions/listen", json!({"notifications": filter}))),
        ["~subscriptions/acknowledged"]
    );
    let granted = last(&bench)["params"].clone();
    assert_eq!(
        granted,
        json!({"_meta": {meta::SUBSCRIPTION_ID: "1"}, "notifications": {"toolsListChanged": true}})
    );
    bench.send(ask(
        2,
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": ["a://b"]}}),
    ));
    let before = sent(&bench).len();
    let seen = bench.send(echo());
    assert_eq!(seen, ["~tools/list_changed", "~resources/updated", "~tools/list_changed", "9 hi"]);
    let tags: Vec<Value> = sent(&bench)[before..before + 2]
        .iter()
        .map(|m| m["params"]["_meta"][meta::SUBSCRIPTION_ID].clone())
        .collect();
    assert_eq!(tags, [json!("1"), json!(2)]);
    bench.send(notification("notifications/cancelled", json!({"requestId": "1"})));
    assert_eq!(bench.send(echo()), ["~resources/updated", "9 hi"]);
    for wrong in [
        json!({}),
        json!({"notifications": {"toolsListChanged": 1}}),
        json!({"notifications": {"resourceSubscriptions": [1]}}),
    ] {
        assert_eq!(bench.send(ask(3, "subscriptions/listen", wrong)), ["3 error -32602"]);
    }
}

#[test]
fn a_subscription_ends_in_any_of_the_ways_that_are_written_down() {
    let script = |how: &str| json!({"tools": ["echo"], "rules": [{"on": "tools/list", "do": [{"end_subscriptions": how}]}]});
    let listen = || ask(1, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    for (how, seen) in [
        ("faithful", vec!["~cancelled", "1 ok"]),
        ("result", vec!["1 ok"]),
        ("cancelled", vec!["~cancelled"]),
        ("both", vec!["~cancelled", "1 ok"]),
        ("abrupt", vec![]),
    ] {
        let mut bench = stdio_in(MODERN, script(how));
        bench.send(listen());
        let mut all = seen;
        all.push("2 ok");
        assert_eq!(bench.send(ask(2, "tools/list", json!({}))), all, "{how}");
        assert_eq!(bench.send(ask(2, "tools/list", json!({}))), ["2 ok"], "{how}: it is over");
    }
    let mut http = http_in(MODERN, script("faithful"));
    assert_eq!(post(&mut http, &listen(), &[]), ["#1 200 stream", "#1 ~subscriptions/acknowledged"]);
    let seen = post(&mut http, &ask(2, "tools/list", json!({})), &[]);
    assert_eq!(seen, ["#1 1 ok", "#1 ended by Server", "#2 200 2 ok"]);
    assert_eq!(sent(&http)[1]["result"]["_meta"][meta::SUBSCRIPTION_ID], 1);
    assert!(http.core.http.is_idle());
}

#[test]
fn leaving_the_stream_is_how_a_client_cancels_over_http() {
    let rules = json!([{"on": "tools/call", "do": [{"hold_until": {"on": "tools/list"}}]},
        {"on": "prompts/list", "do": [{"announce": "tools"}]}]);
    let script =
        json!({"tools": ["echo"], "prompts": [{"name": "p"}], "http": {"answers": "sse"}, "rules": rules});
    let mut bench = http_in(MODERN, script);
    post(
        &mut bench,
        &ask(1, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})),
        &[],
    );
    let call = ask(2, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}));
    assert_eq!(post(&mut bench, &call, &[]), ["#2 200 stream"]);
    assert_eq!(bench.input(Input::Gone { exchange: 2 }), ["#2 ended by Client"]);
    post(&mut bench, &ask(3, "tools/list", json!({})), &[]);
    assert!(sent(&bench).iter().all(|m| m["id"] != 2));
    assert_eq!(post(&mut bench, &ask(4, "prompts/list", json!({})), &[])[0], "#1 ~tools/list_changed");
    assert_eq!(bench.input(Input::Gone { exchange: 1 }), ["#1 ended by Client"]);
    assert_eq!(post(&mut bench, &ask(5, "prompts/list", json!({})), &[])[0], "#5 200 stream");
    assert!(bench.core.http.is_idle());
}

#[test]
fn what_was_not_subscribed_to_is_a_fault_when_it_is_tagged() {
    let tagged = |id: i64| {
        json!({"notify": {"method": "notifications/tools/list_changed",
        "params": json!({"_meta": {meta::SUBSCRIPTION_ID: id}}).to_string()}})
    };
    let mut bench = stdio_in(
        MODERN,
        json!({"tools": ["echo"], "rules": [{"on": "tools/list", "do": [tagged(1), tagged(424_242)]}]}),
    );
    bench.send(ask(1, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})));
    assert_eq!(
        bench.send(ask(2, "tools/list", json!({}))),
        ["~tools/list_changed", "~tools/list_changed!", "2 ok"]
    );
}

// ---- hints, logs, faults ----

#[test]
fn hints_can_be_given_for_methods_and_pages() {
    let script = json!({
        "many_tools": 3, "page_size": 2, "prompts": [{"name": "p"}],
        "caching": [
            {"on": "tools/list", "page": 2, "ttl_ms": 500, "scope": "public"},
            {"on": "tools/list", "ttl_ms": 60000, "scope": "public"},
            {"on": "prompts/list", "ttl_ms": -1, "scope": "unknown"},
        ],
        "rules": [{"on": "server/discover", "do": [{"leave_out": ["ttl-ms", "cache-scope", "result-type", "server-info"]}]}],
    });
    let mut bench = stdio_in(MODERN, script);
    bench.send(ask(1, "tools/list", json!({})));
    let first = last(&bench)["result"].clone();
    assert_eq!((&first["ttlMs"], &first["cacheScope"]), (&json!(60000), &json!("public")));
    bench.send(ask(1, "tools/list", json!({"cursor": first["nextCursor"]})));
    assert_eq!(last(&bench)["result"]["ttlMs"], 500);
    assert_eq!(bench.send(ask(2, "prompts/list", json!({}))), ["2 ok!"]);
    assert_eq!(last(&bench)["result"]["cacheScope"], "tenant");
    assert_eq!(bench.send(ask(3, "server/discover", json!({}))), ["3 ok!"]);
    let keys: Vec<String> = last(&bench)["result"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["supportedVersions", "capabilities"]);
}

#[test]
fn log_messages_go_to_those_who_want_them() {
    let log = json!({"log": {"level": "warning", "logger": "l", "data": "{}"}});
    let script = json!({"tools": ["echo"], "rules": [{"on": "tools/list", "do": [log]}]});
    let mut bench = stdio_in(MODERN, script.clone());
    let list = |level: Option<&str>| {
        let fields = level.map_or_else(|| json!({}), |level| json!({meta::LOG_LEVEL: level}));
        ask(1, "tools/list", json!({"_meta": fields}))
    };
    assert_eq!(bench.send(list(None)), ["1 ok"]);
    assert_eq!(bench.send(list(Some("error"))), ["1 ok"]);
    assert_eq!(bench.send(list(Some("info"))), ["~message", "1 ok"]);
    let mut old = stdio(script);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(old.send(list.clone()), ["~message", "1 ok"]);
    old.send(json!({"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "error"}}));
    assert_eq!(old.send(list), ["1 ok"]);
}

#[test]
fn what_the_stateless_revision_lacks_is_a_fault_when_a_script_sends_it() {
    let script = |action: Value| json!({"tools": ["echo"], "rules": [{"on": "tools/list", "do": [action]}]});
    for (action, seen) in [
        (json!({"request": {"method": "ping"}}), vec!["\"s-1\" ping!", "1 ok"]),
        (
            json!({"notify": {"method": "notifications/message", "params": r#"{"level":"error","data":1}"#}}),
            vec!["~message!", "1 ok"],
        ),
        (json!({"error": {"code": -32002, "message": "m"}}), vec!["1 error -32002!"]),
        (json!({"error": {"code": -32042, "message": "m"}}), vec!["1 error -32042!"]),
        (
            json!({"error": {"code": -32022, "message": "m", "data": r#"{"supported":["2099-01-01"],"requested":"x"}"#}}),
            vec!["1 error -32022"],
        ),
        (json!({"respond": r#"{"tools":[]}"#}), vec!["1 ok"]),
        (json!({"respond": r#"{"tools":[],"resultType":"partial"}"#}), vec!["1 ok!"]),
        (
            json!({"respond": r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttlMs":1}"#}),
            vec!["1 ok!"],
        ),
    ] {
        let mut bench = stdio_in(MODERN, script(action.clone()));
        assert_eq!(bench.send(ask(1, "tools/list", json!({}))), seen, "{action}");
    }
    let mut http = http_in(
        MODERN,
        script(json!({"error": {"code": -32021, "message": "m", "data": r#"{"requiredCapabilities":{}}"#}})),
    );
    assert_eq!(post(&mut http, &ask(1, "tools/list", json!({})), &[]), ["#1 400 1 error -32021"]);
}

#[test]
fn structured_content_may_be_any_json() {
    let mut bench = stdio_in(
        MODERN,
        json!({"tools": ["array", {"name": "zero", "result": r#"{"content":[],"structuredContent":0}"#}]}),
    );
    bench.send(ask(1, "tools/call", json!({"name": "array"})));
    assert_eq!(last(&bench)["result"]["structuredContent"], json!([1, 2, 3]));
    assert_eq!(bench.send(ask(2, "tools/call", json!({"name": "zero"}))), ["2 ok"]);
    let mut old = stdio(
        json!({"tools": ["array", {"name": "zero", "result": r#"{"content":[],"structuredContent":0}"#}]}),
    );
    old.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "array"}}));
    assert_eq!(last(&old)["result"]["structuredContent"], json!({"items": [1, 2, 3]}));
    let zero = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "zero"}});
    assert_eq!(old.send(zero), ["2 ok!"]);
}
