//! Conditions, states, holds, templates, and the words that send messages and change the model.

use super::*;

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn ping(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "ping"})
}

fn answer(text: &str) -> Value {
    json!({"respond": json!({"content": [{"type": "text", "text": text}]}).to_string()})
}

/// What the last message says.
fn last(bench: &Bench) -> Value {
    serde_json::from_str(writes(bench).last().unwrap()).unwrap()
}

/// A server with `echo` and these rules.
fn with_rules(rules: Value) -> Value {
    json!({"tools": ["echo"], "rules": rules})
}

// ---- conditions ----

#[test]
fn a_rule_may_count_in_many_ways() {
    let fired = |nth: Value| -> Vec<i64> {
        let mut bench =
            stdio(with_rules(json!([{"on": "tools/call", "nth": nth, "do": [{"error": {"code": 1}}]}])));
        (1..8).filter(|n| bench.send(call(*n, "x"))[0].ends_with("error 1")).collect()
    };
    assert_eq!(fired(json!([1, 3])), [1, 3]);
    assert_eq!(fired(json!({"from": 5})), [5, 6, 7]);
    assert_eq!(fired(json!({"every": 3, "from": 2, "to": 6})), [2, 5]);
}

#[test]
fn kinds_of_messages_are_triggers() {
    let seen = |on: Value| {
        let mut bench = unopened(
            json!({"rules": [{"label": "hit", "on": on, "do": [{"request": {"method": "ping"}}]}]}),
            REVISION,
            1,
        );
        let mut hits = Vec::new();
        for message in [
            request(1, "initialize", initialize_params(REVISION)),
            notification("notifications/initialized", json!({})),
            ping(2),
            request(3, "vendor/hello", json!({})),
            notification("notifications/vendor", json!({})),
            json!({"jsonrpc": "2.0", "id": "x", "result": {}}),
        ] {
            let before = bench.observed(|w| matches!(w, What::RuleFired { .. }));
            bench.send(message);
            hits.push(bench.observed(|w| matches!(w, What::RuleFired { .. })) > before);
        }
        hits.iter().map(|hit| if *hit { 'x' } else { '.' }).collect::<String>()
    };
    assert_eq!(seen(json!("message")), "xxxxxx");
    assert_eq!(seen(json!("request")), "x.xx..");
    assert_eq!(seen(json!("notification")), ".x..x.");
    assert_eq!(seen(json!("unknown")), "...xx.");
    assert_eq!(seen(json!("response")), ".....x");
    assert_eq!(seen(json!("notifications/*")), ".x..x.");
    assert_eq!(seen(json!(["ping", "response"])), "..x..x");
    let unknown = serde_json::from_value::<ServerScript>(json!({"rules": [{"on": "vendor/*"}]}));
    assert!(unknown.unwrap_err().to_string().contains("vendor/*"));
}

#[test]
fn a_message_is_asked_about_its_method_tool_params_and_id() {
    let fires = |condition: Value, message: Value| {
        let mut rule = json!({"label": "hit", "on": "message", "do": [{"request": {"method": "ping"}}]});
        rule.as_object_mut().unwrap().extend(condition.as_object().unwrap().clone());
        let mut bench = stdio(with_rules(json!([rule])));
        let before = bench.observed(|w| matches!(w, What::RuleFired { .. }));
        bench.send(message);
        bench.observed(|w| matches!(w, What::RuleFired { .. })) > before
    };
    assert!(fires(json!({"method": "vendor/*"}), request(1, "vendor/x", json!({}))));
    assert!(!fires(json!({"method": "vendor/*"}), ping(1)));
    assert!(fires(json!({"tool": ["add", "echo"]}), call(1, "a")));
    assert!(!fires(json!({"tool": "add"}), call(1, "a")));
    assert!(fires(json!({"params": r#"{"_meta": {"progressToken": {"$any": true}}}"#}), call(1, "a")));
    assert!(!fires(json!({"params": r#"{"_meta": {"$absent": true}}"#}), call(1, "a")));
    assert!(fires(json!({"params": r#"{"arguments": {"text": {"$not": "b"}}}"#}), call(1, "a")));
    assert!(fires(json!({"id": r#"{"$type": "string"}"#}), call("1", "a")));
    assert!(!fires(json!({"id": r#"{"$type": "string"}"#}), call(1, "a")));
}

#[test]
fn answers_of_the_client_are_asked_about() {
    let mut bench = stdio(with_rules(json!([
        {"on": "ping", "do": [{"request": {"method": "roots/list"}}, {"request": {"method": "sampling/createMessage", "params": r#"{"messages":[],"maxTokens":1}"#}}]},
        {"on": "response", "to": "roots/list", "error": r#"{"code": -32601}"#, "do": [{"log": {"level": "info", "data": "\"no roots\""}}]},
        {"on": "response", "to": "sampling/*", "result": r#"{"role": "assistant"}"#, "do": [{"notify": {"method": "notifications/tools/list_changed"}}]},
    ])));
    assert_eq!(bench.send(ping(1)), ["\"s-1\" roots/list", "\"s-2\" sampling/createMessage", "1 ok"]);
    let error = |id: &str| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}});
    assert!(bench.send(error("s-2")).is_empty(), "it answers another request");
    assert_eq!(bench.send(error("s-1")), ["~message"]);
    assert!(bench.send(error("s-1")).is_empty(), "it was answered before");
    bench.send(ping(2));
    assert_eq!(
        bench.send(json!({"jsonrpc": "2.0", "id": "s-4", "result": {"role": "assistant"}})),
        ["~tools/list_changed"]
    );
}

#[test]
fn rules_may_be_for_some_revisions_transports_and_processes() {
    let rules = json!([
        {"on": "ping", "revisions": ["2024-11-05"], "do": [{"error": {"code": 1}}]},
        {"on": "ping", "transports": ["http"], "do": [{"error": {"code": 2}}]},
        {"on": "ping", "incarnation": {"from": 2}, "do": [{"error": {"code": 3}}]},
    ]);
    let code = |mut bench: Bench| bench.send(ping(1));
    assert_eq!(code(unopened(with_rules(rules.clone()), Revision::V2024_11_05, 1)), ["1 error 1"]);
    assert_eq!(code(unopened(with_rules(rules.clone()), REVISION, 1)), ["1 ok"]);
    assert_eq!(code(unopened(with_rules(rules.clone()), REVISION, 3)), ["1 error 3"]);
    assert_eq!(http(with_rules(rules)).post(ping(1)), ["#3 200 1 error 2"]);
}

#[test]
fn header_fields_are_asked_about() {
    let mut bench = http(json!({"http": {"get_stream": true}, "rules": [
        {"on": "http-post", "headers": {"x-token": {"present": false}}, "do": [{"status": 401}]},
        {"on": "ping", "headers": {"x-token": {"has": "b"}}, "do": [{"error": {"code": 1}}]},
        {"on": "ping", "headers": {"x-token": "c"}, "do": [{"delay_ms": 5}, {"error": {"code": 2, "message": "{{header/x-token}}"}}]},
    ]}));
    let mut post = |token: &str| bench.exchange("POST", &[("x-token", token)], ping(1));
    assert_eq!(post("abc"), ["#3 200 1 error 1"]);
    assert_eq!(post("a"), ["#4 200 1 ok"]);
    assert!(post("c").is_empty());
    assert_eq!(bench.wait(), ["#5 200 1 error 2"]);
    let body = bench.effects.iter().rev().find_map(|e| match e {
        Effect::Respond { body, .. } => Some(String::from_utf8_lossy(body).into_owned()),
        _ => None,
    });
    assert!(body.unwrap().contains(r#""message":"c""#));
    assert_eq!(bench.post(ping(1)), ["#6 401"]);
}

// ---- what is remembered ----

#[test]
fn states_lead_from_one_event_to_the_next() {
    let mut bench = stdio(with_rules(json!([
        {"on": "ping", "state": "start", "do": [{"set_state": "open"}]},
        {"on": "ping", "state": ["open", "ajar"], "do": [{"set_state": {"door": "red"}}, {"count": "knocks"}]},
        {"on": "tools/call", "state": {"": "open", "door": "red"}, "counts": {"knocks": {"from": 2}}, "do": [answer("{{state}} {{state/door}} {{count/knocks}}")]},
    ])));
    assert_eq!(bench.send(call(1, "a")), ["1 a"]);
    bench.send(ping(2));
    bench.send(ping(3));
    assert_eq!(bench.send(call(4, "a")), ["4 a"], "one knock");
    bench.send(ping(5));
    assert_eq!(bench.send(call(6, "a")), ["6 open red 2"]);
}

#[test]
fn sessions_and_connections_have_states_and_counts_of_their_own() {
    let mut bench = http(json!({"tools": ["echo"], "http": {"sessions": true},
    "states": {"": {"first": "cold", "per": "session"}},
    "rules": [
        {"on": "tools/call", "state": "cold", "do": [{"set_state": "warm"}]},
        {"on": "tools/call", "nth": 1, "per": "connection", "do": [answer("warm")]},
        {"on": "ping", "nth": 1, "per": "session", "do": [{"error": {"code": 1}}]},
    ]}));
    let first = bench.session.clone();
    assert_eq!(bench.post(call(1, "a")), ["#3 200 1 a"]);
    assert_eq!(
        bench.post(call(2, "a")),
        ["#4 200 2 a"],
        "the first on this connection was taken by another rule"
    );
    assert_eq!(bench.post(ping(3)), ["#5 200 3 error 1"]);
    assert_eq!(bench.post(ping(4)), ["#6 200 4 ok"]);
    bench.session = None;
    bench.post(request(0, "initialize", initialize_params(REVISION)));
    bench.session = bench.core.sessions().last().cloned();
    assert_ne!(bench.session, first);
    assert_eq!(bench.post(ping(1)), ["#8 200 1 error 1"]);
    assert_eq!(bench.core.state("", &Scope { session: first, ..Scope::default() }), "warm");
    assert_eq!(bench.core.state("", &Scope { session: bench.session.clone(), ..Scope::default() }), "cold");
}

#[test]
fn nobody_can_make_it_remember_without_end() {
    let mut bench = http(json!({"states": {"": {"per": "session"}}, "rules": [
        {"on": "http-post", "per": "session", "nth": 1, "do": [{"set_state": "seen"}]},
    ]}));
    for n in 0..5000 {
        bench.exchange("POST", &[("mcp-session-id", &format!("made-up-{n}"))], ping(1));
    }
    assert!(format!("{:?}", bench.core.memory).matches("made-up").count() <= 2 * 4096);
}

// ---- holds ----

#[test]
fn a_hold_ends_by_an_event_that_is_described() {
    let mut bench = stdio(with_rules(json!([
        {"on": "tools/call", "params": r#"{"arguments": {"text": "a"}}"#, "do": [
            {"hold_until": {"on": "tools/call", "params": r#"{"arguments": {"text": "c"}}"#}}, answer("late")]},
    ])));
    assert!(bench.send(call(1, "a")).is_empty());
    assert_eq!(bench.send(call(2, "b")), ["2 b"]);
    assert_eq!(bench.send(call(3, "c")), ["3 c", "1 late"]);
}

#[test]
fn a_hold_ends_by_a_state_or_by_numbers() {
    let mut state = stdio(with_rules(json!([
        {"on": "tools/call", "do": [{"hold_until": {"state": "open"}}]},
        {"on": "ping", "do": [{"set_state": "open"}]},
    ])));
    assert!(state.send(call(1, "a")).is_empty());
    assert_eq!(state.send(ping(2)), ["2 ok", "1 a"]);
    assert_eq!(state.send(call(3, "b")), ["3 b"], "the state is reached");

    let orders = [
        (json!("as-came"), ["1 a", "2 b", "3 c"]),
        (json!("reversed"), ["3 c", "2 b", "1 a"]),
        (json!([2, 3, 9, 2]), ["2 b", "3 c", "1 a"]),
    ];
    for (order, seen) in orders {
        let mut bench = stdio(with_rules(json!([
            {"on": "tools/call", "do": [{"hold_until": {"held": 3, "order": order}}]},
        ])));
        assert!(bench.send(call(1, "a")).is_empty());
        assert!(bench.send(call(2, "b")).is_empty());
        assert_eq!(bench.send(call(3, "c")), seen);
        assert!(bench.send(call(4, "d")).is_empty(), "three more make the next");
    }
}

#[test]
fn what_is_held_is_released_by_name() {
    let mut bench = stdio(with_rules(json!([
        {"on": "tools/call", "do": [{"hold_until": {"as": "calls"}}]},
        {"on": "ping", "nth": 1, "do": [{"release": {"held": "calls", "order": "reversed", "count": 2}}, "default"]},
        {"on": "ping", "do": ["default", {"release": "calls"}, {"release": "nobody"}]},
    ])));
    for (id, text) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        assert!(bench.send(call(id, text)).is_empty());
    }
    assert_eq!(bench.send(ping(5)), ["4 d", "3 c", "5 ok"]);
    assert_eq!(bench.send(ping(6)), ["6 ok", "1 a", "2 b"]);
}

#[test]
fn releases_may_follow_from_each_other_without_end_of_stack() {
    // Each call, when released, releases the next.
    let mut bench = stdio(with_rules(json!([
        {"on": "tools/call", "do": [{"hold_until": {"as": "calls"}}, "default", {"release": {"held": "calls", "count": 1}}]},
        {"on": "ping", "do": [{"release": {"held": "calls", "count": 1}}]},
    ])));
    for id in 0..1000 {
        bench.send(call(id, "a"));
    }
    assert_eq!(bench.send(ping("p")).len(), 1001);
    assert!(bench.core.tasks.is_empty());
}

#[test]
fn a_hold_that_nothing_ends_is_refused() {
    for (actions, why) in [
        (json!([{"hold_until": {}}]), "nothing would end"),
        (
            json!([{"repeat": {"times": 2, "do": [{"hold_until": {"order": "reversed"}}]}}]),
            "nothing would end",
        ),
        (json!([{"repeat": {"times": 100_001, "do": ["default"]}}]), "more than"),
        (
            json!([{"repeat": {"times": 1000, "do": [{"repeat": {"times": 1000, "do": ["default"]}}]}}]),
            "more than",
        ),
        (json!([{"respond": r#"{"a": "{{nobody}}"}"#}]), "no placeholder"),
        (json!([{"repeat": {"times": 2, "do": [{"stdout": "{{"}]}}]), "without `}}`"),
    ] {
        let read = serde_json::from_value::<ServerScript>(on_call(actions.clone()));
        let said = read.unwrap_err().to_string();
        assert!(said.contains(why), "{actions}: {said}");
    }
}

#[test]
fn control_actions_are_looked_at_like_those_of_rules() {
    let read = |actions: Value| serde_json::from_value::<Control>(json!({"actions": actions}));
    assert!(read(json!([{"log": {"level": "info", "data": "\"{{nobody}}\""}}])).is_err());
    assert!(read(json!([{"hold_until": {}}])).is_err());
    let mut bench = stdio(with_rules(json!([{"on": "tools/call", "do": [{"hold_until": {"as": "x"}}]}])));
    assert!(bench.send(call(1, "a")).is_empty());
    let control = read(
        json!([{"set_state": "two"}, {"log": {"level": "info", "data": "\"{{state}}\""}}, {"release": "x"}]),
    );
    assert_eq!(bench.input(Input::Control(control.unwrap())), ["~message", "1 a"]);
    assert!(writes(&bench).iter().any(|w| w.contains(r#""data":"two""#)));
}

// ---- templates ----

#[test]
fn placeholders_keep_their_types_where_they_stand_alone() {
    let result = json!({
        "content": [],
        "structuredContent": {
            "id": "{{id}}", "in text": "<{{id}}>", "method": "{{method}}", "text": "{{params/arguments/text}}",
            "arguments": "{{params/arguments}}", "in text too": "{{params/arguments}}", "none": "{{params/cursor}}",
            "in text none": "[{{params/cursor}}]", "token": "{{token}}", "result": "{{result/content/0/text}}",
            "client": "{{initialize/clientInfo/name}}", "nth": "{{nth}}", "round": "{{round}}",
            "process": "{{process}}", "revision": "{{revision}}", "seed": "{{seed}}", "open": "{{open}}id}}",
            "json": "{{json params/arguments/text}}", "fill": "{{fill 28}}", "base64": "{{base64 3}}", "{{id}}": 1,
        },
    });
    let mut bench = stdio(on_call(json!([{"respond": result.to_string()}])));
    bench.send(call("7", "é\""));
    assert_eq!(
        last(&bench)["result"]["structuredContent"],
        json!({
            "id": "7", "in text": "<7>", "method": "tools/call", "text": "é\"",
            "arguments": {"text": "é\""}, "in text too": {"text": "é\""}, "none": null,
            "in text none": "[]", "token": "t", "result": "é\"",
            "client": "c", "nth": 1, "round": 0,
            "process": 1, "revision": "2025-11-25", "seed": 1, "open": "{{id}}",
            "json": "\"é\\\"\"", "fill": "abcdefghijklmnopqrstuvwxyzab", "base64": "AAEC", "7": 1,
        })
    );
    // What the client sends is no template.
    let mut echo = stdio(on_call(
        json!([{"respond": r#"{"content": [{"type": "text", "text": "{{params/arguments/text}}"}]}"#}]),
    ));
    assert_eq!(echo.send(call(1, "{{id}}")), ["1 {{id}}"]);
}

#[test]
fn events_without_a_request_have_params_too() {
    let mut bench = stdio(with_rules(json!([
        {"on": "notifications/cancelled", "do": [{"log": {"level": "info", "data": r#""{{params/requestId}}""#, "logger": "l"}}]},
        {"on": "ping", "do": [{"request": {"method": "ping", "id": r#""{{id}}""#}}, {"notify": {"method": "notifications/cancelled", "params": r#"{"requestId": "{{own_id}}"}"#}}]},
    ])));
    bench.send(notification("notifications/cancelled", json!({"requestId": 42})));
    assert_eq!(last(&bench)["params"], json!({"level": "info", "logger": "l", "data": 42}));
    // The same number as the client's own request: ids of the two sides have nothing to do with each other.
    assert_eq!(bench.send(ping(5)), ["5 ping", "~cancelled", "5 ok"]);
    assert!(writes(&bench).iter().any(|w| w.contains(r#""params":{"requestId":5}"#)));
    assert_eq!(bench.send(ping(5)), ["5 ping!", "~cancelled", "5 ok"], "an id that is in use");
}

#[test]
fn plain_text_is_a_template_as_well() {
    let mut bench = stdio(on_call(json!([{"stdout": "call {{id}} of {{json params/name}}"}])));
    assert_eq!(bench.send(call(3, "a")), ["call 3 of \"echo\"!", "3 a"]);
    let mut http = http(json!({"http": {"sessions": true}, "rules": [
        {"on": "ping", "do": [{"status": {"code": 500, "headers": {"x-own": "{{origin}}{{other}}"}, "body": "{{session}}"}}]},
    ]}));
    let session = http.session.clone().unwrap();
    assert_eq!(http.post(ping(1)), [format!("#3 500 {session}")]);
    assert!(http.effects.iter().any(|e| matches!(e, Effect::Respond { headers, .. } if headers.contains(&("x-own".into(), "http://ownhttp://other".into())))));
}

// ---- messages ----

#[test]
fn an_answer_is_amended_in_one_place() {
    for (amend, wanted, fault) in [
        (
            json!({"set": r#"{"result": {"isError": true}}"#}),
            json!({"content": [{"type": "text", "text": "a"}], "isError": true}),
            false,
        ),
        (
            json!({"put": {"/result/content/0/text": "7"}}),
            json!({"content": [{"type": "text", "text": 7}]}),
            true,
        ),
        (
            json!({"put": {"/result/content/-": r#"{"type": "text", "text": "{{id}}"}"#}}),
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": 1}]}),
            true,
        ),
        (
            json!({"remove": ["/result/content"], "set": r#"{"result": {"x": null}}"#}),
            json!({"x": null}),
            true,
        ),
        (json!({"remove": ["/result/nothing"]}), json!({"content": [{"type": "text", "text": "a"}]}), false),
    ] {
        let mut bench = stdio(on_call(json!([{"amend": amend.clone()}])));
        let seen = bench.send(call(1, "a"));
        assert_eq!(last(&bench)["result"], wanted, "{amend}");
        assert_eq!(seen[0].ends_with('!'), fault, "{amend}: {seen:?}");
    }
    let mut id = stdio(on_call(json!([{"amend": {"set": r#"{"id": 99}"#}}])));
    assert_eq!(id.send(call(1, "a")), ["99 a!"]);
}

#[test]
fn each_mangling_is_one_marked_answer() {
    for mangle in Mangle::ALL {
        let mut bench = stdio(on_call(json!([{"mangle": mangle}])));
        let seen = bench.send(call(1, "a"));
        assert!(seen.iter().all(|line| line.ends_with('!')), "{mangle:?}: {seen:?}");
        // Over stdio each of several lines is reported, as a client reads them.
        assert_eq!(seen.len() > 1, mangle == Mangle::Pretty, "{mangle:?}: {seen:?}");
        let seen = http(on_call(json!([{"mangle": mangle}]))).post(call(1, "a"));
        assert!(matches!(seen.as_slice(), [one] if one.ends_with('!')), "{mangle:?}: {seen:?}");
    }
}

#[test]
fn raw_text_is_a_message_right_or_wrong() {
    let mut wrong = stdio(on_call(json!([{"raw": "got a line"}])));
    assert_eq!(wrong.send(call(1, "a")), ["got a line!", "1 a"]);
    let right =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1,"x":2}}"#;
    assert_eq!(stdio(on_call(json!([{"raw": right}]))).send(call(1, "a")), ["~message", "1 a"]);
    let answer = r#"{"jsonrpc":"2.0","id":{{json id}},"result":{"content":[]}}"#;
    assert_eq!(stdio(on_call(json!([{"raw": answer}]))).send(call("x", "a")), ["\"x\" ok"]);
    assert_eq!(
        stdio(on_call(json!([{"raw": answer}, {"raw": answer}]))).send(call(1, "a")),
        ["1 ok", "1 ok!"]
    );
    let garbage = json!([{"raw": {"text": "{", "answers": true}}]);
    assert_eq!(http(on_call(garbage)).post(call(1, "a")), ["#3 200 {!"]);
    let mut other = stdio(on_call(json!([{"raw": r#"{"jsonrpc":"2.0","id":77,"result":{}}"#}])));
    assert_eq!(other.send(call(1, "a")), ["77 ok!", "1 a"], "nobody asked that");
}

#[test]
fn the_same_is_done_several_times() {
    let mut bench = stdio(on_call(json!([
        {"repeat": {"times": 2, "do": [
            {"progress": 1},
            {"repeat": {"times": 2, "do": [{"log": {"level": "debug", "data": r#""{{round}}""#}}]}},
            {"log": {"level": "info", "data": r#""outer {{round}}""#}},
        ]}},
        {"repeat": {"times": 0, "do": ["drop"]}},
        answer("{{round}}"),
    ])));
    let seen = bench.send(call(1, "a"));
    assert_eq!(seen.len(), 9, "{seen:?}");
    let said: Vec<Value> = writes(&bench)
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|m| m.pointer("/params/data").or_else(|| m.pointer("/params/progress")).cloned())
        .collect();
    assert_eq!(
        said,
        [json!(1), json!(1), json!(2), json!("outer 1"), json!(2), json!(1), json!(2), json!("outer 2")]
    );
    assert_eq!(last(&bench)["result"]["content"][0]["text"], 0);
    let mut beat =
        stdio(on_call(json!([{"repeat": {"times": 3, "do": [{"delay_ms": 10}, {"progress": 1}]}}])));
    assert!(beat.send(call(1, "a")).is_empty());
    assert_eq!(
        (beat.wait(), beat.wait(), beat.wait()),
        (vec!["~progress".into()], vec!["~progress".into()], vec!["~progress".into(), "1 a".into()])
    );
}

#[test]
fn log_messages_follow_the_level_that_was_asked_for() {
    let mut bench = stdio(on_call(json!([
        {"log": {"level": "debug", "data": "1"}}, {"log": {"level": "warning", "data": "2"}}, {"log": {"level": "emergency", "data": "3"}},
    ])));
    assert_eq!(bench.send(call(1, "a")).len(), 4);
    bench.send(request(2, "logging/setLevel", json!({"level": "error"})));
    assert_eq!(bench.send(call(3, "a")), ["~message", "3 a"]);
    bench.send(request(4, "logging/setLevel", json!({"level": "loud"})));
    assert_eq!(bench.send(call(5, "a")), ["~message", "5 a"]);
}

#[test]
fn updates_go_to_those_who_have_subscribed() {
    let mut bench = stdio(json!({"tools": ["echo"], "resources": [{"uri": "a://b"}], "rules": [
        {"on": "tools/call", "do": [{"resource_updated": "a://{{params/arguments/text}}"}]},
    ]}));
    assert_eq!(bench.send(call(1, "b")), ["1 b"]);
    bench.send(request(2, "resources/subscribe", json!({"uri": "a://b"})));
    assert_eq!(bench.send(call(3, "b")), ["~resources/updated", "3 b"]);
    assert_eq!(bench.send(call(3, "c")), ["3 c"]);
    bench.send(request(4, "resources/unsubscribe", json!({"uri": "a://b"})));
    assert_eq!(bench.send(call(5, "b")), ["5 b"]);
}

// ---- the model ----

#[test]
fn everything_in_the_model_can_change() {
    let mut bench = stdio(json!({
        "tools": ["echo", "add"], "resources": [{"uri": "a://b"}], "prompts": [{"name": "p"}],
        "templates": [r#"{"name": "t", "uriTemplate": "t://{x}"}"#],
        "rules": [{"on": "ping", "do": [
            {"change_tool": {"name": "echo", "description": "new", "input_schema": r#"{"type": "object"}"#}},
            {"change_tool": {"name": "nobody", "description": "new"}},
            {"remove_resource": "a://b"}, {"remove_template": "t://{x}"}, {"add_template": r#"{"name": "u", "uriTemplate": "u://{x}"}"#},
            {"add_prompt": {"name": "q"}},
            {"change_server": {"page_size": 1, "instructions": "other", "version": "2025-06-18", "info": r#"{"name": "n", "version": "2"}"#, "capabilities": r#"{"tools": {}, "resources": {}, "prompts": {}}"#}},
        ]}],
    }));
    bench.send(ping(1));
    let mut result = |method: &str| {
        bench.send(request(2, method, initialize_params(REVISION)));
        last(&bench)["result"].clone()
    };
    let tools = result("tools/list");
    assert_eq!(
        (&tools["tools"][0]["name"], &tools["tools"][0]["description"]),
        (&json!("echo"), &json!("new"))
    );
    assert_eq!(tools["tools"][0]["inputSchema"], json!({"type": "object"}));
    assert!(tools["nextCursor"].is_string(), "a page has one item now");
    assert_eq!(result("resources/list")["resources"], json!([]));
    assert_eq!(result("resources/templates/list")["resourceTemplates"][0]["name"], "u");
    assert!(result("prompts/list")["nextCursor"].is_string());
    let hello = result("initialize");
    assert_eq!(
        (&hello["instructions"], &hello["protocolVersion"], &hello["serverInfo"]["name"]),
        (&json!("other"), &json!("2025-06-18"), &json!("n"))
    );
    assert!(hello["capabilities"].get("logging").is_none());
    assert_eq!(bench.send(call(3, "still")), ["3 still"], "it answers as before");
}
