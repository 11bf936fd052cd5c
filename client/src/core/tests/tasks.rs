//! Tasks of the server, and of the client.

use super::*;
use sparring_wire::meta;

fn result(id: i64, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn task(status: &str) -> Value {
    json!({"taskId": "t1", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": null, "pollInterval": 500})
}

fn capable() -> Value {
    json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}}})
}

fn settings() -> Settings {
    Settings { declare: Declared::all(), ping_every: None, ..legacy() }
}

impl Peer {
    fn with_tasks() -> Self {
        let origin = Origin { seed: [7; 32], unix: Duration::from_secs(1_798_761_599) };
        let mut peer = Self::with(Session::new(&settings()).with_origin(origin));
        peer.receive(0, &init_result(1, "2025-11-25", capable()));
        peer.sent.clear();
        peer
    }

    fn call_as_task(&mut self, at: u64) -> Ticket {
        let params = json!({"name": "t", "arguments": {}, "task": {}});
        let ticket =
            self.session.request(ms(at), "tools/call", Some(params), RequestOptions::default()).unwrap();
        self.pump();
        ticket
    }

    fn last_method(&self) -> &str {
        self.last()["method"].as_str().unwrap_or_default()
    }

    fn reply_last(&mut self, at: u64, answer: Value) {
        let id = self.last_id();
        self.receive(at, &result(id, answer));
    }
}

#[test]
fn a_task_is_polled_at_the_servers_pace_and_its_result_fetched() {
    let mut peer = Peer::with_tasks();
    let ticket = peer.call_as_task(0);
    let token = peer.last()["params"]["_meta"]["progressToken"].clone();
    peer.reply_last(10, json!({"task": task("working")}));
    assert!(peer.resolved.is_empty());
    peer.tick(509);
    assert_eq!(peer.last_method(), "tools/call");
    peer.tick(510);
    assert_eq!(peer.last_method(), "tasks/get");
    assert_eq!(peer.last()["params"], json!({"taskId": "t1"}));
    // Progress keeps its token.
    peer.receive(
        511,
        &json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1}}),
    );
    assert_eq!(peer.progress.len(), 1);
    peer.reply_last(520, task("working"));
    // A notification makes the next look come sooner.
    peer.receive(
        600,
        &json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task("completed")}),
    );
    peer.tick(600);
    assert_eq!(peer.last_method(), "tasks/get");
    peer.reply_last(601, task("completed"));
    assert_eq!(peer.last_method(), "tasks/result");
    assert!(peer.last()["params"].get("_meta").is_none());
    peer.reply_last(602, json!({"content": [], "_meta": {}}));
    assert_eq!(peer.resolved[&ticket].as_ref().unwrap().value().unwrap()["content"], json!([]));
    let statuses: Vec<&str> = peer
        .events
        .iter()
        .filter_map(|e| match e {
            Event::Task { status, .. } => Some(status.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(statuses, ["working", "completed"]);
    assert_eq!(peer.session.deadline(), None, "nothing is left over");
}

#[test]
fn a_task_that_wants_input_is_asked_for_its_result() {
    let mut peer = Peer::with_tasks();
    let ticket = peer.call_as_task(0);
    peer.reply_last(1, json!({"task": task("working")}));
    peer.tick(501);
    peer.reply_last(502, task("input_required"));
    assert_eq!(peer.last_method(), "tasks/result");
    let fetching = peer.last_id();
    let related = json!({"taskId": "t1"});
    peer.receive(
        503,
        &json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "m",
            "requestedSchema": {"type": "object", "properties": {}}, "_meta": {meta::RELATED_TASK: related}}}),
    );
    let key = peer.asks[0].0;
    peer.session.answer(ms(504), key, Ok(json!({"action": "accept", "content": {}})));
    peer.pump();
    assert_eq!(peer.last()["result"]["_meta"][meta::RELATED_TASK], related);
    // It may take long: longer than any other request.
    peer.tick(400_000);
    assert!(peer.resolved.is_empty());
    peer.receive(400_001, &result(fetching, json!({"content": []})));
    assert!(peer.resolved[&ticket].is_ok());
}

#[test]
fn tasks_end_badly_in_several_ways() {
    for (answer, kind) in [
        (result(0, task("cancelled")), FailureKind::Cancelled),
        (result(0, task("odd")), FailureKind::Invalid),
        (
            json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -32602, "message": "expired"}}),
            FailureKind::Protocol,
        ),
    ] {
        let mut peer = Peer::with_tasks();
        let ticket = peer.call_as_task(0);
        peer.reply_last(1, json!({"task": task("working")}));
        peer.tick(501);
        let mut answer = answer;
        answer["id"] = peer.last_id().into();
        peer.receive(502, &answer);
        assert_eq!(peer.error_of(ticket).kind(), kind);
    }
}

#[test]
fn a_task_is_cancelled_by_its_own_request() {
    let mut peer = Peer::with_tasks();
    let ticket = peer.call_as_task(0);
    peer.reply_last(1, json!({"task": task("working")}));
    peer.session.cancel(ms(2), ticket, "enough");
    peer.pump();
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Cancelled);
    assert_eq!((peer.last_method(), &peer.last()["params"]), ("tasks/cancel", &json!({"taskId": "t1"})));
    assert!(!peer.sent.iter().any(|m| m["method"] == "notifications/cancelled"));
    // The same when its time is over.
    let ticket = peer.call_as_task(10);
    peer.reply_last(11, json!({"task": task("working")}));
    for hour in 0..8000 {
        peer.tick(11 + hour * 500);
        if peer.last_method() == "tasks/get" {
            peer.reply_last(11 + hour * 500, task("working"));
        }
    }
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Timeout);
    assert_eq!(peer.sent.iter().filter(|m| m["method"] == "tasks/cancel").count(), 2);
}

#[test]
fn a_call_is_no_task_where_the_server_does_not_offer_it() {
    let mut peer = Peer::ready();
    let params = json!({"name": "t", "task": {}});
    let refused = peer.session.request(ms(1), "tools/call", Some(params), RequestOptions::default());
    assert!(matches!(refused, Err(Error::Refused(_))));
    // Nor is an answer that looks like one.
    let ticket = peer.request(1, "tools/call", RequestOptions::default());
    peer.reply_last(2, json!({"task": task("working"), "content": []}));
    assert!(peer.resolved[&ticket].is_ok());
}

fn extension_task(status: &str, more: Value) -> Value {
    let mut task = json!({"resultType": "complete", "taskId": "t1", "status": status, "ttlMs": null,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "pollIntervalMs": 500});
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

fn stateless(over: Transport) -> Peer {
    let settings = Settings { declare: Declared::all(), ..Settings::default() };
    let mut peer = Peer::with(Session::new(&settings).over(over));
    peer.receive(
        0,
        &result(
            1,
            json!({"supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": {meta::TASKS_EXTENSION: {}}}}),
        ),
    );
    assert_eq!(peer.ready, 1);
    peer
}

#[test]
fn the_extension_answers_questions_once_and_brings_the_result_itself() {
    let mut peer = stateless(Transport::Http);
    let ticket = peer.request(1, "tools/call", RequestOptions::default());
    peer.reply_last(2, extension_task("working", json!({"resultType": "task"})));
    peer.tick(502);
    assert_eq!(peer.last_method(), "tasks/get");
    assert!(peer.headers.contains(&("Mcp-Name".into(), "t1".into())));
    assert!(peer.last()["params"]["_meta"][meta::CLIENT_CAPABILITIES]["extensions"].is_object());
    let question = json!({"inputRequests": {
        "k": {"method": "elicitation/create", "params": {"message": "m",
            "requestedSchema": {"type": "object", "properties": {}}}},
        "r": {"method": "roots/list"}}});
    peer.reply_last(503, extension_task("input_required", question.clone()));
    assert_eq!(peer.last_method(), "tasks/update");
    assert_eq!(peer.last()["params"]["inputResponses"], json!({"r": {"roots": []}}));
    peer.reply_last(504, json!({"resultType": "complete"}));
    peer.tick(1003);
    assert_eq!(peer.last_method(), "tasks/get");
    peer.reply_last(1004, extension_task("input_required", question));
    assert_eq!(peer.asks.len(), 1, "the same question is not put twice");
    let key = peer.asks[0].0;
    peer.session.answer(ms(1005), key, Ok(json!({"action": "cancel"})));
    peer.pump();
    assert_eq!(peer.last()["params"]["inputResponses"], json!({"k": {"action": "cancel"}}));
    peer.reply_last(1006, json!({}));
    peer.tick(1504);
    peer.reply_last(1505, extension_task("completed", json!({"result": {"content": [], "isError": true}})));
    assert_eq!(peer.resolved[&ticket].as_ref().unwrap().value().unwrap()["isError"], true);
    assert_eq!(peer.session.deadline(), None);
}

#[test]
fn a_failed_task_of_the_extension_is_an_error_of_the_protocol() {
    let mut peer = stateless(Transport::Stdio);
    let ticket = peer.request(1, "tools/call", RequestOptions::default());
    peer.reply_last(2, extension_task("failed", json!({"resultType": "task"})));
    assert_eq!(peer.last_method(), "tasks/get", "its outcome is not in the first answer");
    peer.reply_last(3, extension_task("failed", json!({"error": {"code": 7, "message": "m"}})));
    assert_eq!(peer.error_of(ticket).code(), Some(7));
    // A question that can't be answered ends it, and the server is told.
    let ticket = peer.request(10, "tools/call", RequestOptions::default());
    peer.reply_last(11, extension_task("working", json!({"resultType": "task"})));
    peer.tick(511);
    peer.reply_last(
        512,
        extension_task("input_required", json!({"inputRequests": {"k": {"method": "acme/do"}}})),
    );
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Invalid);
    assert_eq!(peer.last_method(), "tasks/cancel");
}

#[test]
fn a_look_that_fails_is_repeated_a_few_times() {
    let mut peer = stateless(Transport::Stdio);
    let ticket = peer.request(1, "tools/call", RequestOptions::default());
    peer.reply_last(2, extension_task("working", json!({"resultType": "task"})));
    let mut at = 2;
    let mut looks = 0;
    while !peer.resolved.contains_key(&ticket) {
        at += 500;
        peer.tick(at);
        assert_eq!(peer.last_method(), "tasks/get");
        let id = Id::Number(peer.last_id());
        peer.session.fail(ms(at), &id, Error::Http { status: 503, message: "m".into() });
        peer.pump();
        looks += 1;
    }
    assert_eq!(looks, 4);
}

// ---- tasks at the client ----

fn question(id: &str, params: Value) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": "m",
        "requestedSchema": {"type": "object", "properties": {}}}});
    for (name, value) in params.as_object().unwrap() {
        message["params"][name] = value.clone();
    }
    message
}

fn about(id: &str, verb: &str, task: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": format!("tasks/{verb}"), "params": {"taskId": task}})
}

#[test]
fn a_question_may_become_a_task_of_the_client() {
    let mut peer = Peer::with_tasks();
    peer.receive(1, &question("q", json!({"task": {"ttl": 60000}})));
    let created = peer.last()["result"]["task"].clone();
    assert_eq!((&created["status"], &created["ttl"]), (&json!("working"), &json!(60000)));
    assert_eq!(created["createdAt"], "2026-12-31T23:59:59.001Z");
    let id = &created["taskId"];
    assert_eq!(id.as_str().unwrap().len(), 32);
    peer.receive(2, &about("g", "get", id));
    assert_eq!(peer.last()["result"]["status"], "working");
    let sent = peer.sent.len();
    peer.receive(3, &about("r", "result", id));
    assert_eq!(peer.sent.len(), sent, "the result comes when there is one");
    let key = peer.asks[0].0;
    peer.session.answer(ms(4), key, Ok(json!({"action": "accept", "content": {}})));
    peer.pump();
    let answer = &peer.sent[sent];
    assert_eq!((&answer["id"], &answer["result"]["action"]), (&json!("r"), &json!("accept")));
    assert_eq!(answer["result"]["_meta"][meta::RELATED_TASK], json!({"taskId": id}));
    let told = &peer.sent[sent + 1];
    assert_eq!(
        (&told["method"], &told["params"]["status"]),
        (&json!("notifications/tasks/status"), &json!("completed"))
    );
    assert!(told["params"].get("_meta").is_none());
    peer.receive(5, &about("again", "result", id));
    assert_eq!(peer.last()["result"]["action"], "accept");
    peer.receive(6, &about("c", "cancel", id));
    assert_eq!(peer.last()["error"]["code"], -32602);
    peer.receive(7, &json!({"jsonrpc": "2.0", "id": "l", "method": "tasks/list"}));
    assert_eq!(peer.last()["result"]["tasks"][0]["taskId"], *id);
    // It does not live for ever.
    peer.receive(60_002, &about("late", "get", id));
    assert_eq!(peer.last()["error"]["code"], -32602);
}

#[test]
fn a_task_of_the_client_can_be_cancelled() {
    let mut peer = Peer::with_tasks();
    peer.receive(1, &question("q", json!({"task": {}})));
    let id = peer.last()["result"]["task"]["taskId"].clone();
    peer.receive(2, &about("r", "result", &id));
    peer.receive(3, &about("c", "cancel", &id));
    let answers: Vec<&Value> = peer.sent.iter().rev().take(3).collect();
    assert_eq!((&answers[0]["id"], &answers[0]["result"]["status"]), (&json!("c"), &json!("cancelled")));
    assert!(answers.iter().any(|m| m["id"] == "r" && m["error"]["code"] == -32603));
    assert_eq!(peer.cancelled_asks.len(), 1);
    let key = peer.asks[0].0;
    peer.session.answer(ms(4), key, Ok(json!({"action": "decline"})));
    peer.receive(5, &about("g", "get", &id));
    assert_eq!(peer.last()["result"]["status"], "cancelled", "an end stays an end");
}

#[test]
fn what_was_not_declared_is_no_task() {
    let mut peer = Peer::with_tasks();
    for unknown in ["get", "result", "cancel"] {
        peer.receive(1, &about("x", unknown, &json!("nowhere")));
        assert_eq!(peer.last()["error"]["code"], -32602);
    }
    peer.receive(2, &json!({"jsonrpc": "2.0", "id": "l", "method": "tasks/list", "params": {"cursor": "x"}}));
    assert_eq!(peer.last()["error"]["code"], -32602);
    let declare = Declared { tasks: None, ..Declared::all() };
    let mut peer = Peer::ready_with(&Settings { declare, ..settings() }, "2025-11-25", capable());
    peer.receive(3, &question("q", json!({"task": {}})));
    assert_eq!(peer.asks.len(), 1);
    let key = peer.asks[0].0;
    peer.session.answer(ms(4), key, Ok(json!({"action": "decline"})));
    peer.pump();
    assert_eq!(peer.last()["result"], json!({"action": "decline"}), "the field is ignored");
    peer.receive(5, &about("g", "get", &json!("x")));
    assert_eq!(peer.last()["error"]["code"], -32601);
}

// ---- URLs that come first ----

fn urls(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32042, "message": "m", "data": {"elicitations": [
        {"mode": "url", "message": "a", "url": "https://a.test/x", "elicitationId": "e1"},
        {"mode": "url", "message": "b", "url": "https://b.test/x", "elicitationId": "e2"}]}}})
}

fn complete(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": id}})
}

#[test]
fn urls_are_shown_and_the_request_is_made_again_when_they_are_done() {
    let mut peer = Peer::with_tasks();
    let ticket = peer.request(1, "tools/call", RequestOptions::default());
    let first = peer.last_id();
    peer.receive(2, &urls(first));
    assert_eq!(peer.asks.len(), 2);
    peer.receive(3, &complete("e1"));
    peer.receive(3, &complete("stranger"));
    for (key, _) in peer.asks.clone() {
        peer.session.answer(ms(4), key, Ok(json!({"action": "accept"})));
    }
    peer.pump();
    assert_eq!(peer.last_id(), first);
    peer.receive(5, &complete("e2"));
    assert_ne!(peer.last_id(), first);
    peer.reply_last(6, json!({"content": []}));
    assert!(peer.resolved[&ticket].is_ok());
}

#[test]
fn urls_that_nobody_visits_end_with_the_servers_error() {
    for answer in [Some(json!({"action": "decline"})), None] {
        let mut peer = Peer::with_tasks();
        let ticket = peer.request(1, "tools/call", RequestOptions::default());
        let id = peer.last_id();
        peer.receive(2, &urls(id));
        for (key, _) in peer.asks.clone() {
            peer.session.answer(
                ms(3),
                key,
                Ok(answer.clone().unwrap_or_else(|| json!({"action": "accept"}))),
            );
        }
        peer.tick(200_000);
        assert_eq!(peer.error_of(ticket).code(), Some(-32042));
        assert_eq!(peer.last_id(), id);
    }
    // Without URL mode it is an error like any other.
    let mut peer = Peer::ready_with(
        &Settings { declare: Declared::default(), ..settings() },
        "2025-11-25",
        json!({"tools": {}}),
    );
    let ticket = peer.request(1, "tools/call", RequestOptions::default());
    let id = peer.last_id();
    peer.receive(2, &urls(id));
    assert_eq!(peer.error_of(ticket).code(), Some(-32042));
}
