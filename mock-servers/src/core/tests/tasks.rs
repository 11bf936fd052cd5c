//! Tasks of 2025-11-25, and the extension of 2026-07-28.

use super::stateless::{ask, http_in, post, sent, stdio_in};
use super::*;
use sparring_wire::meta;

const OLD: Revision = Revision::V2025_11_25;
const MODERN: Revision = Revision::STATELESS;

/// A tool `work` with this task, and `echo`.
fn work(task: Value) -> Value {
    json!({"tools": [{"name": "work", "task": task}, "echo"]})
}

fn result(bench: &Bench) -> Value {
    sent(bench).pop().unwrap()["result"].clone()
}

fn old(bench: &mut Bench, method: &str, params: Value) -> Vec<String> {
    bench.send(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
}

/// Starts a task of 2025-11-25; its id.
fn start_old(bench: &mut Bench) -> String {
    old(bench, "tools/call", json!({"name": "work", "task": {"ttl": 60000}}));
    result(bench)["task"]["taskId"].as_str().unwrap().to_owned()
}

/// Starts a task of the extension; its id.
fn start(bench: &mut Bench) -> String {
    bench.send(ask(1, "tools/call", json!({"name": "work"})));
    assert_eq!(result(bench)["resultType"], "task");
    result(bench)["taskId"].as_str().unwrap().to_owned()
}

fn poll(bench: &mut Bench, id: &str) -> Value {
    bench.send(ask(2, "tasks/get", json!({"taskId": id})));
    result(bench)
}

#[test]
fn an_old_task_works_until_it_was_asked_after_often_enough() {
    let task =
        json!({"polls": 2, "poll_interval_ms": 5, "message": "at it", "notify": true, "immediate": "soon"});
    let mut bench = stdio(work(task));
    assert!(sent(&bench)[0]["result"]["capabilities"]["tasks"]["requests"]["tools"]["call"].is_object());
    let id = start_old(&mut bench);
    let created = result(&bench);
    assert_eq!(created["_meta"][meta::MODEL_IMMEDIATE_RESPONSE], "soon");
    assert_eq!(created["task"]["status"], "working");
    assert_eq!((&created["task"]["ttl"], &created["task"]["pollInterval"]), (&json!(60000), &json!(5)));
    assert_eq!(created["task"]["createdAt"], "2026-07-28T00:00:00.000Z");
    let mut status = || {
        let seen = old(&mut bench, "tasks/get", json!({"taskId": id}));
        (result(&bench)["status"].clone(), seen)
    };
    assert_eq!(status(), (json!("working"), vec!["1 ok".to_owned()]));
    assert_eq!(status().0, "working");
    assert_eq!(status(), (json!("completed"), vec!["~tasks/status".into(), "1 ok".into()]));
    assert_eq!(old(&mut bench, "tasks/result", json!({"taskId": id})), ["1 work"]);
    assert_eq!(result(&bench)["_meta"][meta::RELATED_TASK]["taskId"], id.as_str());
    assert_eq!(old(&mut bench, "tasks/cancel", json!({"taskId": id})), ["1 error -32602"], "it is over");
    old(&mut bench, "tasks/list", json!({}));
    assert_eq!(result(&bench)["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(old(&mut bench, "tasks/get", json!({"taskId": "no"})), ["1 error -32602"]);
}

#[test]
fn the_result_of_an_old_task_is_waited_for() {
    let mut bench = stdio(work(json!({"polls": 50})));
    let id = start_old(&mut bench);
    assert_eq!(old(&mut bench, "tasks/result", json!({"taskId": id})), ["1 work"], "it is hurried");
    let mut never = stdio(work(json!({"ends": "never"})));
    let id = start_old(&mut never);
    assert!(old(&mut never, "tasks/result", json!({"taskId": id})).is_empty());
    old(&mut never, "tasks/cancel", json!({"taskId": id}));
    assert_eq!(result(&never)["status"], "cancelled");
    assert_eq!(old(&mut never, "tasks/result", json!({"taskId": id})), ["1 error -32603"]);
    let mut failed = stdio(work(json!({"ends": "failed", "error": {"code": 7, "message": "m"}})));
    let id = start_old(&mut failed);
    assert_eq!(old(&mut failed, "tasks/result", json!({"taskId": id})), ["1 error 7"]);
    old(&mut failed, "tasks/get", json!({"taskId": id}));
    assert_eq!(result(&failed)["status"], "failed");
}

#[test]
fn an_old_task_asks_on_the_stream_of_its_result() {
    let question = json!({"requests": {"r": {"method": "elicitation/create",
        "params": r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#}}});
    let mut bench = stdio(work(json!({"polls": 0, "ask": question})));
    let id = start_old(&mut bench);
    old(&mut bench, "tasks/get", json!({"taskId": id}));
    assert_eq!(result(&bench)["status"], "input_required");
    assert_eq!(old(&mut bench, "tasks/result", json!({"taskId": id})), ["\"s-1\" elicitation/create"]);
    let asked = sent(&bench).pop().unwrap();
    assert_eq!(asked["params"]["_meta"][meta::RELATED_TASK]["taskId"], id.as_str());
    let answer = json!({"action": "accept", "content": {}});
    let seen = bench.send(json!({"jsonrpc": "2.0", "id": "s-1", "result": answer}));
    assert_eq!(seen, [format!("1 work {}", json!({"r": answer}))]);
}

#[test]
fn tools_say_whether_they_are_tasks() {
    let tools = json!([
        {"name": "must", "task": {"support": "required"}}, {"name": "never", "task": {"support": "forbidden"}}, "long", "echo"]);
    let mut bench = stdio(json!({"tools": tools}));
    old(&mut bench, "tools/list", json!({}));
    let support: Vec<Value> = result(&bench)["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["execution"]["taskSupport"].clone())
        .collect();
    assert_eq!(support, [json!("required"), json!("forbidden"), json!("optional"), Value::Null]);
    let mut call = |name: &str, task: bool| {
        let mut params = json!({"name": name, "arguments": {"text": "hi"}});
        if task {
            params["task"] = json!({});
        }
        old(&mut bench, "tools/call", params)
    };
    assert_eq!(call("must", false), ["1 error -32601"]);
    assert_eq!(call("must", true), ["1 ok"]);
    assert_eq!(call("never", true), ["1 error -32601"]);
    assert_eq!(call("echo", true), ["1 error -32601"]);
    assert_eq!(call("long", false), ["1 hi"]);
    // Without the capability the wish is passed over.
    let mut plain = stdio(json!({"tools": ["echo"]}));
    let params = json!({"name": "echo", "arguments": {"text": "hi"}, "task": {}});
    assert_eq!(old(&mut plain, "tools/call", params), ["1 hi"]);
}

#[test]
fn a_task_of_the_extension_brings_its_result_along() {
    let mut bench = stdio_in(MODERN, work(json!({"polls": 1, "ttl_ms": 1000, "poll_interval_ms": 5})));
    let id = start(&mut bench);
    let created = result(&bench);
    assert_eq!((&created["ttlMs"], &created["pollIntervalMs"]), (&json!(1000), &json!(5)));
    assert_eq!(poll(&mut bench, &id)["status"], "working");
    let done = poll(&mut bench, &id);
    assert_eq!((&done["status"], &done["resultType"]), (&json!("completed"), &json!("complete")));
    assert_eq!(done["result"]["content"][0]["text"], "work");
    assert_eq!(poll(&mut bench, &id)["status"], "completed");
    assert_eq!(bench.send(ask(3, "tasks/get", json!({"taskId": "no"}))), ["3 error -32602"]);
    // A client without the extension gets a plain result, and no task.
    let fields = json!({meta::PROTOCOL_VERSION: "2026-07-28", meta::CLIENT_CAPABILITIES: {}});
    let without = |method: &str, params: Value| {
        let mut params = params;
        params["_meta"] = fields.clone();
        json!({"jsonrpc": "2.0", "id": 4, "method": method, "params": params})
    };
    assert_eq!(bench.send(without("tools/call", json!({"name": "work"}))), ["4 work"]);
    assert_eq!(bench.send(without("tasks/get", json!({"taskId": id}))), ["4 error -32021"]);
    assert_eq!(
        bench.send(without("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}))),
        ["4 error -32021"]
    );
    let mut must = stdio_in(MODERN, work(json!({"support": "required"})));
    assert_eq!(must.send(without("tools/call", json!({"name": "work"}))), ["4 error -32021"]);
}

#[test]
fn a_task_of_the_extension_fails_only_by_an_error() {
    let script = json!({"tools": [{"name": "work", "like": "fail", "task": {"polls": 0}}]});
    let mut bench = stdio_in(MODERN, script.clone());
    let id = start(&mut bench);
    let done = poll(&mut bench, &id);
    assert_eq!((&done["status"], &done["result"]["isError"]), (&json!("completed"), &json!(true)));
    let mut before = stdio(script);
    let id = start_old(&mut before);
    old(&mut before, "tasks/get", json!({"taskId": id}));
    assert_eq!(result(&before)["status"], "failed");
    let mut failed = stdio_in(MODERN, work(json!({"polls": 0, "ends": "failed"})));
    let id = start(&mut failed);
    let done = poll(&mut failed, &id);
    assert_eq!((&done["status"], &done["error"]["code"]), (&json!("failed"), &json!(-32603)));
}

#[test]
fn a_task_of_the_extension_asks_and_may_be_slow_to_see_the_answer() {
    let question = json!({"requests": {"a": {"method": "roots/list"}, "b": {"method": "roots/list"}}});
    let mut bench = stdio_in(MODERN, work(json!({"polls": 0, "lag": 1, "ask": question})));
    let id = start(&mut bench);
    let asking = poll(&mut bench, &id);
    assert_eq!(asking["status"], "input_required");
    assert_eq!(asking["inputRequests"].as_object().unwrap().len(), 2);
    let mut update = |responses: Value| {
        bench.send(ask(3, "tasks/update", json!({"taskId": id, "inputResponses": responses})))
    };
    assert_eq!(update(json!({"a": {"roots": []}, "x": {}})), ["3 ok"]);
    let left = poll(&mut bench, &id)["inputRequests"].clone();
    assert_eq!(left, json!({"b": {"method": "roots/list"}}), "only what is not answered yet");
    let mut update = |responses: Value| {
        bench.send(ask(3, "tasks/update", json!({"taskId": id, "inputResponses": responses})))
    };
    assert_eq!(update(json!({"b": 5})), ["3 ok"], "what is no answer is passed over");
    assert_eq!(update(json!({"b": {"roots": []}})), ["3 ok"]);
    let late = poll(&mut bench, &id);
    assert_eq!(
        (&late["status"], late["inputRequests"].as_object().unwrap().len()),
        (&json!("input_required"), 2)
    );
    let done = poll(&mut bench, &id);
    assert_eq!(done["result"]["content"][0]["text"], r#"work {"a":{"roots":[]},"b":{"roots":[]}}"#);
}

#[test]
fn a_task_of_the_extension_keeps_what_was_asked_before_it_began() {
    let question = json!({"requests": {"a": {"method": "roots/list"}}});
    let script = json!({"tools": [{"name": "work", "task": {"polls": 0}, "ask": question}]});
    let mut bench = stdio_in(MODERN, script);
    bench.send(ask(1, "tools/call", json!({"name": "work"})));
    assert_eq!(result(&bench)["resultType"], "input_required");
    let wrong = json!({"name": "work", "inputResponses": {"a": 7}});
    bench.send(ask(2, "tools/call", wrong));
    assert_eq!(result(&bench)["resultType"], "input_required", "a number is no answer");
    let answers = json!({"name": "work", "inputResponses": {"a": {"roots": []}}});
    bench.send(ask(3, "tools/call", answers));
    let id = result(&bench)["taskId"].as_str().unwrap().to_owned();
    assert_eq!(poll(&mut bench, &id)["result"]["content"][0]["text"], r#"work {"a":{"roots":[]}}"#);
}

#[test]
fn tasks_are_cancelled_lost_and_ended() {
    let mut bench = stdio_in(MODERN, work(json!({"polls": 9, "lost_after": 1})));
    let id = start(&mut bench);
    assert_eq!(bench.send(ask(3, "tasks/cancel", json!({"taskId": id}))), ["3 ok"]);
    assert_eq!(poll(&mut bench, &id)["status"], "cancelled");
    assert_eq!(bench.send(ask(2, "tasks/get", json!({"taskId": id}))), ["2 error -32602"], "lost");
    let mut stubborn = stdio_in(MODERN, work(json!({"polls": 0, "ignores_cancel": true})));
    let id = start(&mut stubborn);
    stubborn.send(ask(3, "tasks/cancel", json!({"taskId": id})));
    assert_eq!(poll(&mut stubborn, &id)["status"], "completed");
    for (to, seen) in [("ended", Some("completed")), ("cancelled", Some("cancelled")), ("lost", None)] {
        let mut script = work(json!({"polls": 9}));
        script["rules"] = json!([{"on": "tools/list", "do": [{"move_tasks": to}]}]);
        let mut bench = stdio_in(MODERN, script);
        let id = start(&mut bench);
        bench.send(ask(3, "tools/list", json!({})));
        assert_eq!(poll(&mut bench, &id)["status"].as_str(), seen, "{to}");
    }
}

#[test]
fn those_who_listen_to_a_task_are_told_how_it_ends() {
    let mut bench = http_in(MODERN, work(json!({"polls": 9})));
    post(&mut bench, &ask(1, "tools/call", json!({"name": "work"})), &[]);
    let id = result(&bench)["taskId"].clone();
    let filter = json!({"notifications": {"taskIds": [id, "made up"]}});
    let seen = post(&mut bench, &ask(2, "subscriptions/listen", filter), &[]);
    assert_eq!(seen, ["#2 200 stream", "#2 ~subscriptions/acknowledged", "#2 ~tasks"]);
    let all = sent(&bench);
    assert_eq!(all[1]["params"]["notifications"], json!({"taskIds": [id]}));
    assert_eq!(
        (&all[2]["params"]["status"], &all[2]["params"]["_meta"][meta::SUBSCRIPTION_ID]),
        (&json!("completed"), &json!(2))
    );
    assert_eq!(all[2]["params"]["result"]["content"][0]["text"], "work");
    let get = ask(3, "tasks/get", json!({"taskId": id}));
    assert_eq!(post(&mut bench, &get, &[("mcp-name", "other")]), ["#3 400 3 error -32020"]);
    assert_eq!(post(&mut bench, &get, &[]), ["#4 200 3 ok"]);
}

#[test]
fn a_task_where_none_is_wanted_is_a_fault() {
    let rules = |on: &str| json!({"tools": ["echo"], "resources": [{"uri": "a://b"}], "rules": [{"on": on, "do": [{"run_as_task": {}}]}]});
    let mut bench = stdio_in(MODERN, rules("resources/read"));
    assert_eq!(bench.send(ask(1, "resources/read", json!({"uri": "a://b"}))), ["1 ok!"]);
    let mut call = stdio_in(MODERN, rules("tools/call"));
    assert_eq!(
        call.send(ask(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}))),
        ["1 ok"]
    );
    let id = result(&call)["taskId"].as_str().unwrap().to_owned();
    poll(&mut call, &id);
    assert_eq!(poll(&mut call, &id)["result"]["content"][0]["text"], "hi");
    let mut old_one = stdio(rules("tools/call"));
    assert_eq!(old(&mut old_one, "tools/call", json!({"name": "echo"})), ["1 ok!"]);
    assert_eq!(OLD, REVISION, "`stdio` speaks it");
}

#[test]
fn a_client_may_be_asked_for_a_task_of_its_own() {
    let rule = |more: Value| {
        let mut errand = json!({"method": "sampling/createMessage", "params": r#"{"messages":[],"maxTokens":5}"#, "ttl_ms": 9});
        errand.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"tools": ["echo"], "rules": [{"on": "tools/call", "do": [{"request_task": errand}]}]})
    };
    let echo = json!({"name": "echo", "arguments": {"text": "hi"}});
    let answer = |bench: &mut Bench, n: u32, result: Value| {
        bench.send(json!({"jsonrpc": "2.0", "id": format!("s-{n}"), "result": result}))
    };
    let state = |status: &str| json!({"taskId": "t", "status": status});
    let mut bench = stdio(rule(json!({"polls": 5, "list": true})));
    assert_eq!(old(&mut bench, "tools/call", echo.clone()), ["\"s-1\" sampling/createMessage"]);
    assert_eq!(sent(&bench).pop().unwrap()["params"]["task"], json!({"ttl": 9}));
    assert_eq!(answer(&mut bench, 1, json!({"task": state("working")})), ["\"s-2\" tasks/list"]);
    assert_eq!(answer(&mut bench, 2, json!({"tasks": []})), ["\"s-3\" tasks/get"]);
    assert_eq!(answer(&mut bench, 3, state("working")), ["\"s-4\" tasks/get"]);
    assert_eq!(answer(&mut bench, 4, state("completed")), ["\"s-5\" tasks/result"]);
    assert_eq!(answer(&mut bench, 5, json!({})), ["1 hi"]);

    let mut cancel = stdio(rule(json!({"cancel": true})));
    old(&mut cancel, "tools/call", echo.clone());
    assert_eq!(answer(&mut cancel, 1, json!({"task": state("working")})), ["\"s-2\" tasks/cancel"]);
    assert_eq!(answer(&mut cancel, 2, state("cancelled")), ["1 hi"]);

    let mut plain = stdio(rule(json!({"polls": 5})));
    old(&mut plain, "tools/call", echo);
    assert_eq!(answer(&mut plain, 1, json!({"model": "m"})), ["1 hi"], "it makes no task");
}
