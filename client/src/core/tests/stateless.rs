//! The stateless revision: finding out about it, what each request says, rounds of input, subscriptions.

use super::*;
use sparring_wire::jsonrpc::codes;
use sparring_wire::meta;

fn both() -> Settings {
    Settings { declare: Declared::all(), ..Settings::default() }
}

fn modern_only() -> Settings {
    Settings { accept: vec![Revision::STATELESS], ..both() }
}

fn http(settings: &Settings) -> Peer {
    Peer::with(Session::new(settings).over(Transport::Http))
}

fn discovered(id: i64, capabilities: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private", "instructions": "i",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}}})
}

fn error(id: i64, code: i64, data: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "m", "data": data}})
}

fn result(id: i64, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

impl Peer {
    fn modern(mut self, capabilities: Value) -> Self {
        self.receive(0, &discovered(1, capabilities));
        assert_eq!(self.ready, 1, "{:?}", self.disconnected);
        self
    }

    fn refuse(&mut self, at: u64, status: u16, body: Option<Value>) {
        let id = Id::Number(self.last_id());
        let alone = match status {
            401 => Error::Auth { message: "m".into(), status: Some(status) },
            _ => Error::Http { status, message: "m".into() },
        };
        let text = body.map(|body| body.to_string()).unwrap_or_default();
        self.session.refuse(ms(at), &id, &text, alone);
        self.pump();
    }

    fn fail(&mut self, at: u64, error: Error) {
        let id = Id::Number(self.last_id());
        self.session.fail(ms(at), &id, error);
        self.pump();
    }

    fn call(&mut self, at: u64, arguments: Value) -> Ticket {
        let params = json!({"name": "t", "arguments": arguments});
        let ticket =
            self.session.request(ms(at), "tools/call", Some(params), RequestOptions::default()).unwrap();
        self.pump();
        ticket
    }

    fn reply(&mut self, at: u64, key: AskKey, answer: Result<Value, RpcError>) {
        self.session.answer(ms(at), key, answer);
        self.pump();
    }

    fn methods(&self) -> Vec<&str> {
        self.sent.iter().filter_map(|m| m["method"].as_str()).collect()
    }
}

fn tools() -> Value {
    json!({"tools": {}})
}

#[test]
fn a_probe_comes_first_and_every_request_says_who_asks() {
    let mut peer = Peer::new(&both());
    assert_eq!(peer.methods(), ["server/discover"]);
    peer.receive(1, &discovered(1, tools()));
    let negotiated = peer.session.negotiated().unwrap();
    assert_eq!(negotiated.revision, Revision::STATELESS);
    assert_eq!(negotiated.server_info["name"], "s");
    assert_eq!(negotiated.instructions.as_deref(), Some("i"));
    peer.request(2, "tools/list", RequestOptions { progress: true, ..RequestOptions::default() });
    assert_eq!(peer.methods(), ["server/discover", "tools/list"]);
    for message in &peer.sent {
        let said = &message["params"]["_meta"];
        assert_eq!(said[meta::PROTOCOL_VERSION], "2026-07-28");
        assert_eq!(said[meta::CLIENT_INFO]["name"], "sparring-client");
        let capabilities = json!({"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}},
            "extensions": {"io.modelcontextprotocol/tasks": {}}});
        assert_eq!(said[meta::CLIENT_CAPABILITIES], capabilities);
    }
    assert_eq!(peer.last()["params"]["_meta"]["progressToken"], "progress-2");
}

#[test]
fn own_members_of_meta_are_kept_and_reserved_ones_are_not_overridden() {
    let mut peer = Peer::new(&both()).modern(tools());
    let params = json!({"_meta": {"com.example/x": 1, meta::PROTOCOL_VERSION: "1999-01-01"}});
    peer.session.request(ms(1), "tools/list", Some(params), RequestOptions::default()).unwrap();
    peer.pump();
    let said = &peer.last()["params"]["_meta"];
    assert_eq!((&said["com.example/x"], &said[meta::PROTOCOL_VERSION]), (&json!(1), &json!("2026-07-28")));
}

#[test]
fn over_http_header_fields_repeat_what_is_in_the_body() {
    let mut peer = http(&both());
    let field = |peer: &Peer, name: &str| {
        peer.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    };
    assert_eq!(field(&peer, "MCP-Protocol-Version").as_deref(), Some("2026-07-28"));
    assert_eq!(field(&peer, "Mcp-Method").as_deref(), Some("server/discover"));
    let mut peer = {
        peer.receive(0, &discovered(1, tools()));
        peer
    };
    let params = json!({"name": "ü", "arguments": {}});
    let own = vec![("Mcp-Param-X".to_owned(), "1".to_owned())];
    peer.session.request_with(ms(1), "tools/call", Some(params), RequestOptions::default(), own).unwrap();
    peer.pump();
    assert_eq!(field(&peer, "Mcp-Name").as_deref(), Some("=?base64?w7w=?="));
    assert_eq!(field(&peer, "Mcp-Param-X").as_deref(), Some("1"));
    // The retry of a round has them as well.
    let id = peer.last_id();
    peer.receive(2, &result(id, json!({"resultType": "input_required", "requestState": "s"})));
    assert_ne!(peer.last_id(), id);
    assert_eq!(field(&peer, "Mcp-Param-X").as_deref(), Some("1"));
}

#[test]
fn any_error_but_those_of_the_stateless_revision_means_a_handshake() {
    for code in [-32601, -32602, -32600, -32000, -32001, 17] {
        let mut peer = Peer::new(&both());
        peer.receive(1, &error(1, code, json!(null)));
        assert_eq!(peer.methods(), ["server/discover", "initialize"], "{code}");
        assert_eq!(peer.last()["params"]["protocolVersion"], "2025-11-25");
        assert!(peer.last()["params"].get("_meta").is_none());
        peer.receive(2, &init_result(2, "2025-06-18", tools()));
        assert_eq!(peer.session.negotiated().unwrap().revision, Revision::V2025_06_18);
        peer.request(3, "tools/list", RequestOptions::default());
        assert!(peer.last().get("params").is_none());
    }
    for odd in [json!({}), json!({"supportedVersions": "x"}), json!({"resultType": "input_required"})] {
        let mut peer = Peer::new(&both());
        peer.receive(1, &result(1, odd));
        assert_eq!(peer.methods(), ["server/discover", "initialize"]);
    }
}

#[test]
fn errors_of_the_stateless_revision_never_lead_to_a_handshake() {
    for code in [codes::HEADER_MISMATCH, codes::MISSING_CLIENT_CAPABILITY] {
        let mut peer = Peer::new(&both());
        peer.receive(1, &error(1, code, json!({})));
        assert_eq!(peer.methods(), ["server/discover"]);
        assert!(matches!(peer.disconnected, Some(Error::Protocol { code: c, .. }) if c == code));
    }
    for supported in [json!(["2099-01-01"]), json!([]), json!(null), json!("x")] {
        let mut peer = Peer::new(&both());
        peer.receive(1, &error(1, codes::UNSUPPORTED_PROTOCOL_VERSION, json!({"supported": supported})));
        assert_eq!(peer.methods(), ["server/discover"], "{supported}");
        let told = peer.disconnected.unwrap().to_string();
        assert!(told.contains("no protocol version in common"), "{told}");
    }
}

#[test]
fn a_version_that_is_refused_and_listed_is_tried_a_second_time() {
    let refused = |id: i64| {
        let supported = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
        error(id, codes::UNSUPPORTED_PROTOCOL_VERSION, supported)
    };
    let mut peer = Peer::new(&both());
    peer.receive(1, &refused(1));
    assert_eq!(peer.methods(), ["server/discover", "server/discover"]);
    peer.receive(2, &refused(2));
    assert_eq!(peer.methods().len(), 2);
    let told = peer.disconnected.unwrap().to_string();
    assert!(told.contains("no protocol version in common"), "{told}");
}

#[test]
fn a_version_is_picked_from_those_that_the_server_lists() {
    let supported =
        json!({"supported": ["2099-01-01", "2025-03-26", "2025-06-18"], "requested": "2026-07-28"});
    let mut peer = Peer::new(&both());
    peer.receive(1, &error(1, codes::UNSUPPORTED_PROTOCOL_VERSION, supported));
    assert_eq!(peer.methods(), ["server/discover", "initialize"]);
    assert_eq!(peer.last()["params"]["protocolVersion"], "2025-06-18");
    // The same in a result.
    let mut peer = Peer::new(&both());
    peer.receive(1, &result(1, json!({"supportedVersions": ["2025-06-18"], "capabilities": {}})));
    assert_eq!(peer.last()["params"]["protocolVersion"], "2025-06-18");
}

#[test]
fn http_statuses_are_read_with_what_comes_with_them() {
    let rpc = |code: i64| Some(error(1, code, json!({"supported": ["2025-11-25"]})));
    for (status, body, next) in [
        (400, None, "initialize"),
        (400, Some(json!("text")), "initialize"),
        (400, rpc(-32000), "initialize"),
        (400, rpc(-32601), "initialize"),
        (404, None, "initialize"),
        (405, None, "initialize"),
        (422, None, "initialize"),
        (400, rpc(codes::UNSUPPORTED_PROTOCOL_VERSION), "initialize"),
        (404, rpc(codes::METHOD_NOT_FOUND), "ready"),
        (400, rpc(codes::HEADER_MISMATCH), "failed"),
        (400, rpc(codes::MISSING_CLIENT_CAPABILITY), "failed"),
        (401, None, "failed"),
        (403, None, "failed"),
        (429, rpc(-32000), "failed"),
        (500, None, "failed"),
        (503, rpc(-32603), "failed"),
    ] {
        let mut peer = http(&both());
        peer.refuse(1, status, body.clone());
        let came = match (peer.ready, &peer.disconnected) {
            (1, None) => "ready",
            (0, Some(_)) => "failed",
            _ => peer.last()["method"].as_str().unwrap(),
        };
        assert_eq!(came, next, "{status} {body:?}");
    }
}

#[test]
fn silence_means_a_handshake_on_stdio_and_failure_over_http() {
    let mut peer = Peer::new(&both());
    peer.tick(4999);
    assert_eq!(peer.methods(), ["server/discover"]);
    peer.tick(5000);
    assert_eq!(peer.methods(), ["server/discover", "initialize"]);
    peer.tick(30_000);
    assert!(matches!(peer.disconnected, Some(Error::Timeout { .. })));
    let mut peer = http(&both());
    peer.tick(29_999);
    assert!(peer.disconnected.is_none());
    peer.tick(30_000);
    assert!(matches!(peer.disconnected, Some(Error::Timeout { .. })));
    assert_eq!(peer.methods(), ["server/discover"]);
}

#[test]
fn a_late_answer_to_the_probe_still_counts() {
    let mut peer = Peer::new(&both());
    peer.tick(5000);
    peer.receive(6000, &discovered(1, tools()));
    assert_eq!(peer.ready, 1);
    assert_eq!(peer.session.negotiated().unwrap().revision, Revision::STATELESS);
    // Nobody waits for the handshake any more.
    peer.receive(6001, &error(2, -32601, json!(null)));
    assert!(peer.disconnected.is_none());
    peer.request(6002, "tools/list", RequestOptions::default());
    assert_eq!(peer.last()["params"]["_meta"][meta::PROTOCOL_VERSION], "2026-07-28");
    // A late error says nothing, and after the handshake it is too late.
    let mut peer = Peer::new(&both());
    peer.tick(5000);
    peer.receive(6000, &error(1, -32601, json!(null)));
    peer.receive(6001, &init_result(2, "2025-11-25", tools()));
    peer.receive(6002, &discovered(1, tools()));
    assert_eq!(peer.session.negotiated().unwrap().revision, Revision::V2025_11_25);
}

#[test]
fn a_client_of_one_revision_alone_says_so() {
    let mut peer = Peer::new(&modern_only());
    peer.receive(1, &error(1, -32601, json!(null)));
    assert_eq!(peer.methods(), ["server/discover"]);
    let told = peer.disconnected.unwrap().to_string();
    assert!(told.contains("2026-07-28"), "{told}");
    // It waits the whole time for a start.
    let mut peer = Peer::new(&modern_only());
    peer.tick(29_999);
    assert!(peer.disconnected.is_none());
}

#[test]
fn what_was_known_beforehand_is_tried_first_and_given_up_when_it_fails() {
    let knowing = |prior| Peer::with(Session::new(&both()).knowing(Some(prior)));
    let mut peer = knowing(Prior::Legacy);
    assert_eq!(peer.methods(), ["initialize"]);
    peer.receive(1, &error(1, -32600, json!(null)));
    assert_eq!(peer.methods(), ["initialize", "server/discover"]);
    peer.receive(2, &discovered(2, tools()));
    assert_eq!(peer.session.negotiated().unwrap().revision, Revision::STATELESS);
    let negotiated = peer.session.negotiated().unwrap().clone();
    let mut peer = knowing(Prior::Discovered(negotiated));
    assert_eq!((peer.ready, peer.sent.len()), (1, 0));
    peer.request(1, "tools/list", RequestOptions::default());
    assert_eq!(peer.last()["params"]["_meta"][meta::PROTOCOL_VERSION], "2026-07-28");
}

#[test]
fn a_handshake_refused_by_a_stateless_server_leads_forward() {
    let mut peer = Peer::with(Session::new(&Settings { offer: Revision::V2025_11_25, ..both() }));
    let supported = json!({"supported": ["2026-07-28"]});
    peer.receive(1, &error(1, codes::UNSUPPORTED_PROTOCOL_VERSION, supported.clone()));
    assert_eq!(peer.methods(), ["initialize", "server/discover"]);
    peer.receive(2, &discovered(2, tools()));
    assert_eq!(peer.ready, 1);
    // It does not go round and round.
    let mut peer = Peer::new(&both());
    for at in 1..10 {
        let id = peer.last_id();
        let code =
            if peer.last()["method"] == "initialize" { codes::UNSUPPORTED_PROTOCOL_VERSION } else { -1 };
        peer.receive(at, &error(id, code, supported.clone()));
    }
    assert!(peer.disconnected.is_some());
    assert!(peer.sent.len() <= 5, "{:?}", peer.methods());
}

#[test]
fn what_was_removed_is_not_used() {
    let settings = Settings { ping_every: Some(ms(1000)), ..both() };
    let mut peer = Peer::new(&settings).modern(json!({"logging": {}, "resources": {"subscribe": true}}));
    for method in [
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "tasks/result",
    ] {
        let refused = peer.session.request(ms(1), method, None, RequestOptions::default());
        assert!(matches!(refused, Err(Error::Refused(_))), "{method}");
    }
    assert!(peer.session.notify("notifications/roots/list_changed", None).is_err());
    assert!(peer.session.notify("notifications/progress", None).is_err());
    peer.session.set_roots(vec![Root { uri: "file:///new".into(), name: None }]);
    peer.tick(100_000);
    // Requests of the server are not answered, since there are no responses.
    peer.receive(100_001, &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    peer.receive(100_002, &json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}));
    assert_eq!(peer.methods(), ["server/discover"]);
}

#[test]
fn the_log_level_goes_with_each_request() {
    let mut peer = Peer::new(&both()).modern(tools());
    assert!(peer.session.set_log_level(Some("loud")).is_err());
    peer.session.set_log_level(Some("warning")).unwrap();
    peer.request(1, "tools/list", RequestOptions::default());
    assert_eq!(peer.last()["params"]["_meta"][meta::LOG_LEVEL], "warning");
    peer.session.set_log_level(None).unwrap();
    peer.request(2, "tools/list", RequestOptions::default());
    assert!(peer.last()["params"]["_meta"].get(meta::LOG_LEVEL).is_none());
}

#[test]
fn results_are_taken_by_their_type() {
    for (kind, good) in [
        (json!("complete"), true),
        (json!("partial"), false),
        (json!("task"), false),
        (json!("input_required"), false),
        (json!(1), false),
    ] {
        let mut peer = Peer::new(&both()).modern(tools());
        let ticket = peer.request(1, "tools/list", RequestOptions::default());
        let id = peer.last_id();
        peer.receive(2, &result(id, json!({"resultType": kind, "tools": []})));
        assert_eq!(peer.resolved[&ticket].is_ok(), good, "{kind}");
    }
    let mut peer = Peer::new(&both()).modern(tools());
    let ticket = peer.request(1, "tools/list", RequestOptions::default());
    let id = peer.last_id();
    peer.receive(2, &result(id, json!({"tools": []})));
    assert!(peer.resolved[&ticket].is_ok(), "an older server says nothing about it");
    assert!(peer.direct.contains(&ticket));
}

#[test]
fn a_round_brings_back_the_answers_and_the_state_under_a_new_id() {
    let roots = vec![Root { uri: "file:///r".into(), name: None }];
    let mut peer = Peer::new(&Settings { roots, ..both() }).modern(tools());
    let ticket = peer.call(1, json!({"a": 1}));
    let first = peer.last_id();
    let state = " {\"next\": \"%2e\"} ключ==\u{2028} ";
    peer.receive(2, &result(first, json!({"resultType": "input_required", "requestState": state, "inputRequests": {
        "": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}},
        "a b": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        "ключ": {"method": "roots/list"},
    }})));
    assert_eq!(peer.asks.len(), 2);
    assert_eq!(peer.last_id(), first, "nothing is sent before all is answered");
    // A person may take any time.
    peer.tick(10_000_000);
    for (key, ask) in peer.asks.clone() {
        let answer = match ask {
            Ask::Elicitation(_) => json!({"action": "decline", "content": {"x": 1}}),
            Ask::Sampling(_) => {
                json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}})
            }
        };
        peer.reply(10_000_001, key, Ok(answer));
    }
    let retry = peer.last().clone();
    assert_ne!(retry["id"], json!(first));
    assert_eq!(retry["method"], "tools/call");
    assert_eq!((&retry["params"]["name"], &retry["params"]["arguments"]), (&json!("t"), &json!({"a": 1})));
    assert_eq!(retry["params"]["requestState"], state);
    assert_eq!(
        retry["params"]["inputResponses"],
        json!({
            "": {"action": "decline"},
            "a b": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}},
            "ключ": {"roots": [{"uri": "file:///r"}]},
        })
    );
    assert!(retry["params"]["_meta"][meta::CLIENT_CAPABILITIES].is_object());
    // The next round has nothing of the last one.
    let second = peer.last_id();
    peer.receive(10_000_002, &result(second, json!({"resultType": "input_required", "requestState": ""})));
    let retry = peer.last();
    assert_eq!(retry["params"]["requestState"], "");
    assert!(retry["params"].get("inputResponses").is_none());
    let third = peer.last_id();
    peer.receive(10_000_003, &result(third, json!({"resultType": "complete", "content": []})));
    assert!(peer.resolved[&ticket].is_ok());
    assert!(!peer.direct.contains(&ticket));
    // Other requests have nothing of it at all.
    peer.call(10_000_004, json!({}));
    assert!(peer.last()["params"].get("requestState").is_none());
}

#[test]
fn a_round_that_can_not_be_answered_ends_the_request() {
    let ask = |method: &str, params: Value| {
        json!({"resultType": "input_required", "requestState": "s",
        "inputRequests": {"k": {"method": method, "params": params}}})
    };
    let declare = Declared { elicitation: both().declare.elicitation, ..Declared::default() };
    for (method, answer) in [
        ("tools/call", ask("sampling/createMessage", json!({"messages": [], "maxTokens": 1}))),
        ("tools/call", ask("roots/list", json!({}))),
        ("tools/call", ask("acme/do", json!({}))),
        ("tools/call", ask("elicitation/create", json!({"message": "m", "mode": "telepathy"}))),
        (
            "tools/call",
            ask("elicitation/create", json!({"message": "m", "mode": "url", "url": "javascript:x"})),
        ),
        ("tools/call", json!({"resultType": "input_required"})),
        ("tools/call", json!({"resultType": "input_required", "requestState": 1})),
        ("tools/call", json!({"resultType": "input_required", "inputRequests": []})),
        ("tools/list", json!({"resultType": "input_required", "requestState": "s"})),
    ] {
        let mut peer = Peer::new(&Settings { declare: declare.clone(), ..both() }).modern(tools());
        let ticket = peer.request(1, method, RequestOptions::default());
        let id = peer.last_id();
        peer.receive(2, &result(id, answer.clone()));
        assert_eq!(peer.error_of(ticket).kind(), FailureKind::Invalid, "{answer}");
        assert_eq!(peer.last_id(), id, "nothing further is sent");
        assert!(peer.asks.is_empty());
    }
}

#[test]
fn whoever_does_not_answer_or_cancels_ends_the_request() {
    let ask = json!({"resultType": "input_required", "inputRequests": {
        "a": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        "b": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}}});
    let mut peer = Peer::new(&both()).modern(tools());
    let ticket = peer.call(1, json!({}));
    let id = peer.last_id();
    peer.receive(2, &result(id, ask.clone()));
    let key = peer.asks[0].0;
    peer.reply(3, key, Err(RpcError::user_rejected()));
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Refused);
    assert_eq!(peer.cancelled_asks.len(), 1, "the other question is taken back");
    assert_eq!(peer.last_id(), id);
    let ticket = peer.call(4, json!({}));
    let id = peer.last_id();
    peer.receive(5, &result(id, ask));
    let sent = peer.sent.len();
    peer.session.cancel(ms(6), ticket, "enough");
    peer.pump();
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Cancelled);
    assert_eq!(peer.cancelled_asks.len(), 3);
    assert_eq!(peer.sent.len(), sent, "the server does not wait for anything");
}

#[test]
fn rounds_do_not_go_on_for_ever() {
    let mut peer = Peer::new(&Settings { max_rounds: 3, ..both() }).modern(tools());
    let ticket = peer.call(1, json!({}));
    for at in 2..10 {
        let id = peer.last_id();
        peer.receive(at, &result(id, json!({"resultType": "input_required", "requestState": "s"})));
    }
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Invalid);
    assert_eq!(peer.methods().iter().filter(|m| **m == "tools/call").count(), 4);
}

#[test]
fn cancelling_is_a_notification_on_stdio_and_a_closed_stream_over_http() {
    for over_http in [false, true] {
        let peer = if over_http { http(&both()) } else { Peer::new(&both()) };
        let mut peer = peer.modern(tools());
        let ticket = peer.call(1, json!({}));
        let id = peer.last_id();
        peer.session.cancel(ms(2), ticket, "enough");
        peer.pump();
        assert_eq!(peer.forgotten, [Id::Number(id)]);
        assert_eq!(peer.methods().contains(&"notifications/cancelled"), !over_http);
    }
}

#[test]
fn a_request_whose_stream_broke_is_made_again_once() {
    let mut peer = http(&both()).modern(tools());
    let ticket = peer.request(1, "tools/list", RequestOptions::default());
    let id = peer.last_id();
    peer.fail(2, Error::Closed("broken".into()));
    assert_ne!(peer.last_id(), id);
    assert_eq!(peer.last()["method"], "tools/list");
    peer.fail(3, Error::Closed("broken".into()));
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Closed);
    // An error that is no break is not repeated.
    let ticket = peer.request(4, "tools/list", RequestOptions::default());
    peer.fail(5, Error::Invalid("odd".into()));
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Invalid);
}

#[test]
fn errors_in_bodies_of_failed_exchanges_reach_the_caller() {
    let mut peer = http(&both()).modern(tools());
    for (status, body, expected) in [
        (404, Some(-32601), Some(-32601)),
        (400, Some(codes::MISSING_CLIENT_CAPABILITY), Some(codes::MISSING_CLIENT_CAPABILITY)),
        (400, None, Some(400)),
    ] {
        let ticket = peer.request(1, "tools/list", RequestOptions::default());
        let id = peer.last_id();
        peer.refuse(2, status, body.map(|code| error(id, code, json!({}))));
        assert_eq!(peer.error_of(ticket).code(), expected);
    }
    // The error of another request is none of this one.
    let ticket = peer.request(3, "tools/list", RequestOptions::default());
    peer.refuse(4, 400, Some(error(4711, -32602, json!({}))));
    assert_eq!(peer.error_of(ticket).code(), Some(400));
    assert_eq!(peer.methods().iter().filter(|m| **m == "initialize").count(), 0);
}

fn list_changes() -> Value {
    json!({"tools": {"listChanged": true}, "prompts": {"listChanged": false}, "resources": {"subscribe": true}})
}

fn acknowledged(id: i64, agreed: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {meta::SUBSCRIPTION_ID: id}, "notifications": agreed}})
}

fn changed(tag: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
        "params": {"_meta": {meta::SUBSCRIPTION_ID: tag.into()}}})
}

impl Peer {
    fn changes(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::ListChanged(ListKind::Tools))).count()
    }
}

#[test]
fn changes_of_lists_are_subscribed_to_where_they_are_offered() {
    let mut peer = Peer::new(&both()).modern(list_changes());
    assert_eq!(peer.last()["method"], "subscriptions/listen");
    assert_eq!(peer.last()["params"]["notifications"], json!({"toolsListChanged": true}));
    let id = peer.last_id();
    peer.receive(1, &acknowledged(id, json!({"toolsListChanged": true})));
    assert_eq!(peer.listening.len(), 1);
    // It is no request that hangs.
    peer.tick(1_000_000);
    peer.receive(1_000_001, &changed(id));
    assert_eq!(peer.changes(), 1);
    for stranger in [json!(424_242), json!(id.to_string())] {
        peer.receive(1_000_002, &changed(stranger));
    }
    assert_eq!(peer.changes(), 1);
    // Without the wish, or the offer, there is no subscription.
    let settings = Settings { listen: ListenTo::NONE, ..both() };
    assert_eq!(Peer::new(&settings).modern(list_changes()).methods(), ["server/discover"]);
    assert_eq!(Peer::new(&both()).modern(tools()).methods(), ["server/discover"]);
}

#[test]
fn what_the_server_does_not_agree_to_is_not_listened_to() {
    let mut peer = Peer::new(&both()).modern(list_changes());
    let id = peer.last_id();
    peer.receive(1, &acknowledged(id, json!({})));
    peer.receive(2, &changed(id));
    assert_eq!(peer.changes(), 0);
}

#[test]
fn subscriptions_do_not_disturb_each_other() {
    let mut peer = Peer::new(&both()).modern(list_changes());
    let lists = peer.last_id();
    let ticket = peer.session.listen(ms(1), Filter::uris(["file:///a"])).unwrap();
    peer.pump();
    let uris = peer.last_id();
    let updated = |tag: i64| {
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": "file:///a/b", "_meta": {meta::SUBSCRIPTION_ID: tag}}})
    };
    peer.receive(2, &acknowledged(uris, json!({"resourceSubscriptions": ["file:///a"]})));
    peer.receive(3, &updated(uris));
    peer.receive(3, &updated(lists));
    peer.receive(4, &acknowledged(lists, json!({"toolsListChanged": true})));
    peer.receive(5, &changed(lists));
    peer.receive(5, &changed(uris));
    let updates = peer.events.iter().filter(|e| matches!(e, Event::ResourceUpdated { .. })).count();
    assert_eq!((updates, peer.changes()), (1, 1));
    // One is ended; the other goes on.
    peer.session.cancel(ms(6), ticket, "enough");
    peer.pump();
    assert_eq!(peer.last()["params"]["requestId"], json!(uris));
    peer.receive(7, &updated(uris));
    peer.receive(7, &changed(lists));
    let updates = peer.events.iter().filter(|e| matches!(e, Event::ResourceUpdated { .. })).count();
    assert_eq!((updates, peer.changes()), (1, 2));
}

#[test]
fn the_server_may_end_a_subscription_in_good_order() {
    for by_result in [true, false] {
        let mut peer = Peer::new(&both()).modern(list_changes());
        let id = peer.last_id();
        peer.receive(1, &acknowledged(id, json!({"toolsListChanged": true})));
        let end = match by_result {
            true => result(id, json!({"resultType": "complete"})),
            false => {
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            }
        };
        peer.receive(2, &end);
        assert!(peer.events.contains(&Event::ListenEnded { error: None }));
        peer.tick(1_000_000);
        assert_eq!(peer.last_id(), id, "no hurry to come back");
        assert!(peer.disconnected.is_none());
    }
}

#[test]
fn a_subscription_that_broke_is_made_again_with_growing_waits() {
    let mut settings = both();
    settings.http.stream_waits = vec![ms(100), ms(200)];
    settings.http.stream_attempts = 3;
    let mut peer = http(&settings).modern(list_changes());
    let first = peer.last_id();
    peer.receive(1, &acknowledged(first, json!({"toolsListChanged": true})));
    peer.fail(10, Error::Closed("broken".into()));
    peer.tick(109);
    assert_eq!(peer.last_id(), first);
    peer.tick(110);
    let second = peer.last_id();
    assert_ne!(second, first);
    assert_eq!(peer.last()["params"]["notifications"], json!({"toolsListChanged": true}));
    peer.receive(111, &acknowledged(second, json!({"toolsListChanged": true})));
    assert_eq!(peer.changes(), 1, "what happened meanwhile is not known");
    for at in [1000, 2000, 3000, 4000, 5000] {
        if peer.session.deadline().is_some() || at == 1000 {
            peer.fail(at, Error::Closed("broken".into()));
            peer.tick(at + 999);
        }
    }
    assert!(peer.events.iter().any(|e| matches!(e, Event::ListenEnded { error: Some(_) })));
    assert_eq!(peer.methods().iter().filter(|m| **m == "subscriptions/listen").count(), 5);
}

#[test]
fn a_subscription_that_is_refused_harms_nothing() {
    let mut peer = Peer::new(&both()).modern(list_changes());
    let id = peer.last_id();
    peer.receive(1, &error(id, -32601, json!(null)));
    assert!(peer.disconnected.is_none());
    assert!(peer.events.iter().any(|e| matches!(e, Event::ListenEnded { error: Some(_) })));
}
