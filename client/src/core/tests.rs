mod stateless;
mod tasks;

use super::*;
use proptest::prelude::*;
use sparring_wire::jsonrpc::inspect;
use sparring_wire::transcript::FailureKind;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Of a client from before the stateless revision.
fn legacy() -> Settings {
    Settings {
        offer: Revision::LATEST_HANDSHAKE,
        accept: Revision::WITH_HANDSHAKE.to_vec(),
        ..Settings::default()
    }
}

/// A session with the messages it has sent and what it has told.
struct Peer {
    session: Session,
    sent: Vec<Value>,
    resolved: HashMap<Ticket, Result<Raw, Error>>,
    events: Vec<Event>,
    asks: Vec<(AskKey, Ask)>,
    cancelled_asks: Vec<AskKey>,
    progress: Vec<(Ticket, Progress)>,
    disconnected: Option<Error>,
    ready: usize,
    /// Of the latest message that had any.
    headers: Headers,
    listening: Vec<(Ticket, Filter)>,
    forgotten: Vec<Id>,
    /// Those whose result depends on the request alone.
    direct: BTreeSet<Ticket>,
}

impl Peer {
    fn new(settings: &Settings) -> Self {
        Self::with(Session::new(settings))
    }

    fn with(session: Session) -> Self {
        let mut peer = Self {
            session,
            sent: Vec::new(),
            resolved: HashMap::new(),
            events: Vec::new(),
            asks: Vec::new(),
            cancelled_asks: Vec::new(),
            progress: Vec::new(),
            disconnected: None,
            ready: 0,
            headers: Headers::new(),
            listening: Vec::new(),
            forgotten: Vec::new(),
            direct: BTreeSet::new(),
        };
        peer.session.start(ms(0));
        peer.pump();
        peer
    }

    fn ready_with(settings: &Settings, revision: &str, capabilities: Value) -> Self {
        let mut peer = Self::new(settings);
        peer.receive(0, &init_result(1, revision, capabilities));
        assert_eq!(peer.ready, 1);
        peer.sent.clear();
        peer
    }

    fn ready() -> Self {
        let settings = Settings { declare: Declared::all(), ping_every: None, ..legacy() };
        Self::ready_with(&settings, "2025-11-25", json!({"tools": {}, "resources": {"subscribe": true}}))
    }

    fn pump(&mut self) {
        while let Some(action) = self.session.next_action() {
            match action {
                Action::Send(message) => self.sent.push(message),
                Action::Resolve { ticket, direct, outcome } => {
                    if direct {
                        self.direct.insert(ticket);
                    }
                    assert!(self.resolved.insert(ticket, outcome).is_none(), "resolved twice");
                }
                Action::Event(event) => self.events.push(event),
                Action::Ask { key, ask } => self.asks.push((key, ask)),
                Action::AskCancelled(key) => self.cancelled_asks.push(key),
                Action::Progress { ticket, progress } => self.progress.push((ticket, progress)),
                Action::Disconnect(error) => self.disconnected = Some(error),
                Action::Ready(_) => self.ready += 1,
                Action::Post { message, headers } => {
                    self.sent.push(message);
                    self.headers = headers;
                }
                Action::Listening { ticket, granted } => self.listening.push((ticket, granted)),
                Action::Forget(id) => self.forgotten.push(id),
            }
        }
    }

    fn receive(&mut self, at: u64, message: &Value) {
        self.raw(at, &message.to_string());
    }

    fn raw(&mut self, at: u64, text: &str) {
        self.session.receive(ms(at), text);
        self.pump();
    }

    fn tick(&mut self, at: u64) {
        self.session.tick(ms(at));
        self.pump();
    }

    fn request(&mut self, at: u64, method: &str, options: RequestOptions) -> Ticket {
        let ticket = self.session.request(ms(at), method, None, options).unwrap();
        self.pump();
        ticket
    }

    fn last_id(&self) -> i64 {
        self.sent
            .iter()
            .rev()
            .find_map(|m| m.get("method").and_then(|_| m.get("id")).and_then(Value::as_i64))
            .unwrap()
    }

    fn last(&self) -> &Value {
        self.sent.last().unwrap()
    }

    fn error_of(&self, ticket: Ticket) -> &Error {
        self.resolved[&ticket].as_ref().unwrap_err()
    }
}

fn init_result(id: i64, revision: &str, capabilities: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {
        "protocolVersion": revision, "capabilities": capabilities,
        "serverInfo": {"name": "s", "version": "1", "later": true}, "later": [1]}})
}

fn answer(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": {"ok": true}})
}

#[test]
fn the_handshake_is_initialize_then_initialized_and_nothing_before() {
    let mut peer = Peer::new(&Settings { declare: Declared::all(), ..legacy() });
    assert_eq!(peer.sent.len(), 1);
    let first = &peer.sent[0];
    assert_eq!(first["method"], "initialize");
    assert_eq!(first["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(first["params"]["capabilities"]["elicitation"], json!({"form": {}, "url": {}}));
    let refused = peer.session.request(ms(1), "tools/list", None, RequestOptions::default());
    assert_eq!(refused.unwrap_err().kind(), FailureKind::Refused);
    // Logs and pings during the handshake.
    peer.receive(
        1,
        &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}),
    );
    peer.receive(1, &json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    assert_eq!(peer.last(), &json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    peer.receive(2, &init_result(1, "2025-06-18", json!({"tools": {}, "novel": {"x": 1}})));
    assert_eq!(peer.last(), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(peer.session.negotiated().unwrap().revision, Revision::V2025_06_18);
}

#[test]
fn older_offers_do_not_declare_what_came_later() {
    let settings = |offer| Settings { declare: Declared::all(), title: Some("T".into()), offer, ..legacy() };
    let old = Peer::new(&settings(Revision::V2024_11_05));
    assert_eq!(
        old.sent[0]["params"]["capabilities"],
        json!({"roots": {"listChanged": true}, "sampling": {}})
    );
    assert!(old.sent[0]["params"]["clientInfo"].get("title").is_none());
    let newer = Peer::new(&settings(Revision::V2025_06_18));
    assert_eq!(newer.sent[0]["params"]["capabilities"]["elicitation"], json!({}));
}

#[test]
fn a_handshake_that_fails_sends_nothing_more() {
    let results = [
        init_result(1, "1999-01-01", json!({})),
        init_result(1, "2026-07-28", json!({})),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Unsupported", "data": {"supported": ["x"]}}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": []}),
    ];
    for result in results {
        let mut peer = Peer::new(&legacy());
        peer.receive(1, &result);
        assert_eq!(peer.sent.len(), 1, "{result}");
        assert!(peer.disconnected.is_some(), "{result}");
        assert!(peer.session.request(ms(2), "ping", None, RequestOptions::default()).is_err());
    }
    let mut silent = Peer::new(&legacy());
    silent.tick(30_000);
    assert_eq!(silent.sent.len(), 1, "initialize is never cancelled");
    assert_eq!(silent.disconnected.unwrap().kind(), FailureKind::Timeout);
}

#[test]
fn only_accepted_revisions_are_accepted() {
    let settings = Settings { accept: vec![Revision::V2025_06_18], ..legacy() };
    for (revision, good) in [("2025-11-25", true), ("2025-06-18", true), ("2025-03-26", false)] {
        let mut peer = Peer::new(&settings);
        peer.receive(1, &init_result(1, revision, json!({})));
        assert_eq!(peer.ready == 1, good, "{revision}");
    }
}

#[test]
fn requests_need_the_capability_they_use() {
    let settings = legacy();
    let all = [
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/list",
        "prompts/get",
        "logging/setLevel",
        "completion/complete",
        "resources/subscribe",
    ];
    for method in all {
        let mut peer = Peer::ready_with(&settings, "2025-11-25", json!({"resources": {}}));
        let outcome = peer.session.request(ms(1), method, None, RequestOptions::default());
        let allowed = method.starts_with("resources/") && method != "resources/subscribe";
        assert_eq!(outcome.is_ok(), allowed, "{method}");
        peer.pump();
        assert_eq!(peer.sent.len(), usize::from(allowed), "{method}");
    }
    let mut old = Peer::ready_with(&settings, "2024-11-05", json!({}));
    old.request(1, "completion/complete", RequestOptions::default());
    let mut logs = Peer::ready_with(&settings, "2025-11-25", json!({"logging": {}}));
    let loud = Some(json!({"level": "loud"}));
    assert!(logs.session.request(ms(1), "logging/setLevel", loud, RequestOptions::default()).is_err());
}

#[test]
fn answers_are_matched_by_id_whatever_their_order() {
    let mut peer = Peer::ready();
    let a = peer.request(1, "ping", RequestOptions::default());
    let id_a = peer.last_id();
    let b = peer.request(1, "ping", RequestOptions::default());
    let id_b = peer.last_id();
    peer.receive(2, &answer(9999));
    peer.receive(2, &answer(Value::Null));
    peer.receive(2, &json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "?"}}));
    peer.receive(2, &answer(id_b));
    assert!(peer.resolved.contains_key(&b) && !peer.resolved.contains_key(&a));
    peer.receive(3, &answer(id_b));
    peer.receive(3, &answer(id_a));
    assert!(peer.resolved[&a].is_ok());
    assert_eq!(peer.events.iter().filter(|e| matches!(e, Event::Unmatched { .. })).count(), 4);
}

#[test]
fn what_is_wrong_with_an_answer_fails_its_request_at_once() {
    let cases = [
        json!({"jsonrpc": "1.0", "id": 0, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 0, "result": []}),
        json!({"jsonrpc": "2.0", "id": 0, "result": {}, "error": {"code": 1, "message": ""}}),
        json!({"jsonrpc": "2.0", "id": 0, "error": "x"}),
        json!([{"jsonrpc": "2.0", "id": 0, "result": {}}]),
    ];
    for case in cases {
        let mut peer = Peer::ready();
        let ticket = peer.request(1, "ping", RequestOptions::default());
        let id = peer.last_id();
        let text = case.to_string().replace("\"id\":0", &format!("\"id\":{id}"));
        peer.raw(2, &text);
        assert_eq!(peer.error_of(ticket).kind(), FailureKind::Invalid, "{text}");
        assert!(peer.disconnected.is_none());
    }
}

#[test]
fn ids_are_compared_with_their_type() {
    let mut peer = Peer::ready();
    let ticket = peer.request(1, "ping", RequestOptions::default());
    let id = peer.last_id();
    peer.receive(2, &answer(id.to_string()));
    assert!(peer.resolved.is_empty());
    assert_eq!(peer.events, [Event::Unmatched { id: json!(id.to_string()) }]);
    peer.receive(3, &answer(id));
    assert!(peer.resolved[&ticket].is_ok());
    // A request of the server's gets back its own id, however large.
    let large = 9_007_199_254_740_993_i64;
    peer.receive(4, &json!({"jsonrpc": "2.0", "id": large, "method": "ping"}));
    assert_eq!(peer.last()["id"], json!(large));
}

#[test]
fn there_is_one_handshake_and_the_core_makes_it() {
    let mut peer = Peer::ready();
    for method in ["initialize", "subscriptions/listen", "server/discover", "tasks/update"] {
        let refused = peer.session.request(ms(1), method, None, RequestOptions::default());
        assert_eq!(refused.unwrap_err().kind(), FailureKind::Refused, "{method}");
    }
    assert_eq!(
        peer.session.notify("notifications/initialized", None).unwrap_err().kind(),
        FailureKind::Refused
    );
}

#[test]
fn errors_keep_code_message_and_data() {
    let mut peer = Peer::ready();
    let ticket = peer.request(1, "ping", RequestOptions::default());
    let id = peer.last_id();
    peer.receive(2, &json!({"jsonrpc": "2.0", "id": id, "error": {"code": 7, "message": "m", "data": [1]}}));
    let expected = Error::Protocol { code: 7, message: "m".into(), data: Some(json!([1])) };
    assert_eq!(peer.error_of(ticket), &expected);
}

#[test]
fn noise_is_skipped_and_never_answered() {
    let mut peer = Peer::ready();
    for noise in [
        "Ready on stdio",
        "",
        "  ",
        "{\"looks\":\"like json\"}",
        "3",
        "[]",
        "{",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"x\"}",
        "{\"method\":\"ping\",\"id\":1}",
    ] {
        peer.raw(1, noise);
    }
    assert!(peer.sent.is_empty(), "{:?}", peer.sent);
    assert_eq!(peer.events.iter().filter(|e| matches!(e, Event::Skipped { .. })).count(), 7);
    let ticket = peer.request(2, "ping", RequestOptions::default());
    let id = peer.last_id();
    peer.raw(3, &format!("\u{feff}{}\r", answer(id)));
    assert!(peer.resolved[&ticket].is_ok());
}

#[test]
fn notifications_known_and_unknown_do_no_harm() {
    let mut peer = Peer::ready();
    for (method, params) in [
        ("notifications/vendor/hello", json!({"x": 1})),
        ("notifications/tools/list_changed", json!({})),
        ("notifications/resources/updated", json!({"uri": "u", "x": 1})),
        ("notifications/resources/updated", json!({})),
        ("notifications/elicitation/complete", json!({"elicitationId": "e"})),
        ("notifications/progress", json!({"progressToken": "nope", "progress": 1})),
        ("notifications/cancelled", json!({"requestId": 77})),
        ("notifications/cancelled", json!({})),
    ] {
        peer.receive(1, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
    peer.raw(1, r#"{"jsonrpc":"2.0","method":"notifications/vendor/hello"}"#);
    assert!(peer.sent.is_empty());
    assert!(peer.events.contains(&Event::ListChanged(ListKind::Tools)));
    assert!(peer.events.contains(&Event::ResourceUpdated { uri: "u".into() }));
}

#[test]
fn a_timeout_cancels_and_a_late_answer_is_ignored() {
    let mut peer = Peer::ready();
    let ticket =
        peer.request(0, "tools/list", RequestOptions { timeout: Some(ms(50)), ..Default::default() });
    let id = peer.last_id();
    assert_eq!(peer.session.deadline(), Some(ms(50)));
    peer.tick(49);
    assert!(peer.resolved.is_empty());
    peer.tick(50);
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Timeout);
    assert_eq!(peer.last()["method"], "notifications/cancelled");
    assert_eq!(peer.last()["params"]["requestId"], id);
    peer.receive(60, &answer(id));
    assert!(peer.disconnected.is_none());
    assert_eq!(peer.session.deadline(), None);
}

#[test]
fn progress_extends_up_to_the_ceiling() {
    let mut peer = Peer::ready();
    let options = RequestOptions {
        timeout: Some(ms(100)),
        ceiling: Some(ms(250)),
        reset_on_progress: Some(true),
        progress: true,
    };
    let ticket = peer.request(0, "tools/list", options);
    let token = peer.last()["params"]["_meta"]["progressToken"].clone();
    assert!(token.is_string());
    for at in [90, 180, 240] {
        let params = json!({"progressToken": token, "progress": 0.5, "total": 0.1, "message": "m"});
        peer.receive(at, &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        peer.tick(at);
        assert!(peer.resolved.is_empty(), "{at}");
    }
    assert_eq!(peer.progress.len(), 3);
    peer.tick(250);
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Timeout);
}

#[test]
fn calls_of_tools_ask_for_progress_so_that_it_can_extend_them() {
    let mut peer = Peer::ready();
    let params = Some(json!({"name": "x", "_meta": {"a/b": 1}}));
    peer.session.request(ms(0), "tools/call", params, RequestOptions::default()).unwrap();
    peer.pump();
    assert!(peer.last()["params"]["_meta"]["progressToken"].is_string());
    assert_eq!(peer.last()["params"]["_meta"]["a/b"], 1);
}

#[test]
fn cancelling_tells_the_server_once_and_only_for_open_requests() {
    let mut peer = Peer::ready();
    let ticket = peer.request(0, "tools/list", RequestOptions::default());
    let id = peer.last_id();
    peer.session.cancel(ms(0), ticket, "enough");
    peer.session.cancel(ms(0), ticket, "enough");
    peer.pump();
    assert_eq!(peer.sent.len(), 2);
    assert_eq!(peer.last()["params"], json!({"requestId": id, "reason": "enough"}));
    assert_eq!(peer.error_of(ticket), &Error::Cancelled("enough".into()));
    let done = peer.request(0, "tools/list", RequestOptions::default());
    peer.receive(1, &answer(peer.last_id()));
    peer.session.cancel(ms(0), done, "late");
    peer.pump();
    assert_eq!(peer.sent.len(), 3);
}

#[test]
fn held_requests_do_not_time_out() {
    let mut peer = Peer::ready();
    let ticket =
        peer.request(0, "tools/list", RequestOptions { timeout: Some(ms(50)), ..Default::default() });
    let id = Id::Number(peer.last_id());
    peer.session.hold(ms(10), &id, true);
    peer.tick(10_000);
    assert!(peer.resolved.is_empty());
    peer.session.hold(ms(10_000), &id, false);
    peer.tick(10_049);
    assert!(peer.resolved.is_empty());
    peer.tick(10_050);
    assert_eq!(peer.error_of(ticket).kind(), FailureKind::Timeout);
}

#[test]
fn server_requests_get_the_right_answer() {
    let roots = vec![Root { uri: "file:///a".into(), name: None }];
    let on = Settings { declare: Declared::all(), roots, ..legacy() };
    let off = legacy();
    let sampling =
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5});
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let with = |base: &Value, more: Value| {
        let mut base = base.clone();
        base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        base
    };
    let url = |url: &str| json!({"message": "m", "mode": "url", "url": url, "elicitationId": "e"});
    let tool_use =
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]});
    let mixed = json!({"role": "user", "content": [{"type": "tool_result", "toolUseId": "t", "content": []}, {"type": "text", "text": "x"}]});
    // `None`: handed to the embedding program.
    let cases: Vec<(&Settings, &str, Value, Option<i64>)> = vec![
        (&on, "no/such", json!({}), Some(-32601)),
        (&off, "roots/list", json!({}), Some(-32601)),
        (&off, "sampling/createMessage", sampling.clone(), Some(-32601)),
        (&off, "elicitation/create", form.clone(), Some(-32601)),
        (&on, "sampling/createMessage", sampling.clone(), None),
        (&on, "sampling/createMessage", with(&sampling, json!({"tools": []})), None),
        (&on, "sampling/createMessage", json!({"maxTokens": 1}), Some(-32602)),
        (&on, "sampling/createMessage", json!({"maxTokens": 1, "messages": [tool_use]}), Some(-32602)),
        (&on, "sampling/createMessage", json!({"maxTokens": 1, "messages": [tool_use, mixed]}), Some(-32602)),
        (&on, "elicitation/create", form.clone(), None),
        (&on, "elicitation/create", with(&form, json!({"mode": "form"})), None),
        (&on, "elicitation/create", with(&form, json!({"mode": "voice"})), Some(-32602)),
        (&on, "elicitation/create", json!({"message": "m"}), Some(-32602)),
        (&on, "elicitation/create", url("https://x.test/y"), None),
        (&on, "elicitation/create", url("javascript:alert(1)"), Some(-32602)),
        (&on, "elicitation/create", url("file:///etc/passwd"), Some(-32602)),
    ];
    for (settings, method, params, code) in cases {
        let mut peer = Peer::ready_with(settings, "2025-11-25", json!({}));
        peer.receive(1, &json!({"jsonrpc": "2.0", "id": "7", "method": method, "params": params}));
        match code {
            Some(code) => {
                assert_eq!(peer.last()["error"]["code"], code, "{method} {params}");
                assert_eq!(peer.last()["id"], "7");
            }
            None => assert_eq!((peer.asks.len(), peer.sent.len()), (1, 0), "{method} {params}"),
        }
    }
    let mut peer = Peer::ready_with(&on, "2025-11-25", json!({}));
    peer.receive(1, &json!({"jsonrpc": "2.0", "id": 3, "method": "roots/list"}));
    assert_eq!(peer.last()["result"], json!({"roots": [{"uri": "file:///a"}]}));
    peer.receive(1, &json!({"jsonrpc": "2.0", "id": 4, "method": "roots/list", "params": []}));
    assert_eq!(peer.last()["error"]["code"], -32602);
    // What a revision does not have is not served in it, whatever was declared.
    let mut old = Peer::ready_with(&on, "2025-03-26", json!({}));
    old.receive(1, &json!({"jsonrpc": "2.0", "id": 3, "method": "elicitation/create", "params": form}));
    assert_eq!(old.last()["error"]["code"], -32601);
    old.receive(1, &json!({"jsonrpc": "2.0", "id": 4, "method": "sampling/createMessage", "params": with(&sampling, json!({"tools": []}))}));
    assert_eq!(old.last()["error"]["code"], -32602);
}

#[test]
fn answers_of_the_program_are_brought_into_form() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer", "default": 3}}, "required": ["n"]});
    let ask = |peer: &mut Peer, params: Value| {
        peer.receive(
            1,
            &json!({"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": params}),
        );
        peer.asks.pop().unwrap()
    };
    let form = json!({"message": "m", "requestedSchema": schema});
    let content = |text: &str| ElicitAnswer::Accept(serde_json::from_str(text).unwrap());
    let cases = [
        (form.clone(), content(r#"{"n":1}"#), Some(json!({"action": "accept", "content": {"n": 1}}))),
        (form.clone(), ElicitAnswer::Decline, Some(json!({"action": "decline"}))),
        (form.clone(), ElicitAnswer::Cancel, Some(json!({"action": "cancel"}))),
        (form.clone(), content(r#"{"n":"x"}"#), None),
        (form.clone(), content(r#"{}"#), None),
        (form.clone(), content(r#"{"n":1,"deep":{}}"#), None),
        (
            json!({"message": "m", "mode": "url", "url": "https://x.test", "elicitationId": "e"}),
            content("{}"),
            Some(json!({"action": "accept"})),
        ),
    ];
    for (params, reply, expected) in cases {
        let mut peer = Peer::ready();
        let (key, _) = ask(&mut peer, params);
        peer.session.answer(ms(0), key, Ok(reply.into()));
        peer.session.answer(ms(0), key, Err(RpcError::user_rejected()));
        peer.pump();
        assert_eq!(peer.sent.len(), 1);
        match expected {
            Some(expected) => assert_eq!(peer.last()["result"], expected),
            None => assert_eq!(peer.last()["error"]["code"], -32603),
        }
    }
    let mut peer = Peer::ready();
    let (_, Ask::Elicitation(elicitation)) = ask(&mut peer, form) else { panic!() };
    assert_eq!(Value::Object(elicitation.defaults()), json!({"n": 3}));
}

#[test]
fn a_request_that_the_server_cancels_is_not_answered() {
    let mut peer = Peer::ready();
    let params = json!({"messages": [], "maxTokens": 5});
    peer.receive(
        1,
        &json!({"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": params}),
    );
    peer.receive(2, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s", "reason": "r"}}));
    let (key, _) = peer.asks[0];
    assert_eq!(peer.cancelled_asks, [key]);
    assert!(peer.events.contains(&Event::ServerCancelled { reason: Some("r".into()) }));
    peer.session.answer(
        ms(0),
        key,
        Ok(json!({"role": "assistant", "content": {"type": "text", "text": "t"}, "model": "m"})),
    );
    peer.pump();
    assert!(peer.sent.is_empty());
}

#[test]
fn a_batch_is_answered_as_one_in_2025_03_26() {
    let settings = Settings { declare: Declared::all(), ..legacy() };
    let mut peer = Peer::ready_with(&settings, "2025-03-26", json!({"tools": {}}));
    let ticket = peer.request(1, "tools/list", RequestOptions::default());
    let id = peer.last_id();
    peer.sent.clear();
    let sampling = json!({"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    peer.receive(
        2,
        &json!([
        answer(id), {"jsonrpc": "2.0", "id": "p", "method": "ping"}, sampling,
        {"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": "q", "method": "q"}, 3]),
    );
    assert!(peer.resolved[&ticket].is_ok());
    assert!(peer.sent.is_empty(), "the batch is not complete");
    let (key, _) = peer.asks[0];
    peer.session.answer(ms(0), key, Err(RpcError::user_rejected()));
    peer.pump();
    let ids: Vec<&Value> = peer.last().as_array().unwrap().iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, ["p", "q", "s"]);
    peer.receive(3, &json!([{"jsonrpc": "2.0", "method": "notifications/x"}]));
    assert_eq!(peer.sent.len(), 1);
}

#[test]
fn a_lost_session_is_opened_anew_and_the_request_sent_once_more() {
    let mut peer = Peer::ready();
    let ticket = peer.request(1, "tools/list", RequestOptions::default());
    let first = peer.last_id();
    peer.session.session_lost(ms(2), Some(&Id::Number(first)));
    peer.pump();
    assert_eq!(peer.last()["method"], "initialize");
    // Requests made meanwhile wait.
    let meanwhile = peer.request(3, "ping", RequestOptions::default());
    assert_eq!(peer.last()["method"], "initialize");
    let init = peer.last_id();
    peer.receive(4, &init_result(init, "2025-11-25", json!({"tools": {}})));
    let methods: Vec<&str> = peer.sent.iter().filter_map(|m| m["method"].as_str()).collect();
    assert_eq!(methods, ["tools/list", "initialize", "notifications/initialized", "tools/list", "ping"]);
    let again = peer.sent[3]["id"].as_i64().unwrap();
    assert_ne!(again, first);
    peer.receive(5, &answer(again));
    peer.receive(5, &answer(peer.last_id()));
    assert!(peer.resolved[&ticket].is_ok() && peer.resolved[&meanwhile].is_ok());
    assert!(peer.events.contains(&Event::Reopened));
}

#[test]
fn a_cursor_is_not_sent_in_another_session() {
    let mut peer = Peer::ready();
    let page = |peer: &mut Peer, at| {
        let params = Some(json!({"cursor": "c"}));
        peer.session.request(ms(at), "tools/list", params, RequestOptions::default())
    };
    peer.request(1, "tools/list", RequestOptions::default());
    peer.receive(1, &answer(peer.last_id()));
    let ticket = page(&mut peer, 1).unwrap();
    peer.pump();
    peer.session.session_lost(ms(2), Some(&Id::Number(peer.last_id())));
    peer.pump();
    assert_eq!(peer.error_of(ticket).code(), Some(404));
    assert_eq!(peer.last()["method"], "initialize");
    assert_eq!(page(&mut peer, 3).unwrap_err().code(), Some(404), "nor does it wait for the next one");
}

#[test]
fn a_session_that_is_lost_again_and_again_does_not_loop() {
    let mut peer = Peer::ready();
    let ticket = peer.request(1, "tools/list", RequestOptions::default());
    for _ in 0..2 {
        let id = Id::Number(peer.last_id());
        peer.session.session_lost(ms(2), Some(&id));
        peer.pump();
        if peer.last()["method"] == "initialize" {
            peer.receive(3, &init_result(peer.last_id(), "2025-11-25", json!({"tools": {}})));
        }
    }
    assert_eq!(peer.error_of(ticket).code(), Some(404));
    // A handshake that fails on reopening fails what waits for it; the next request tries again.
    let mut peer = Peer::ready();
    let ticket = peer.request(1, "tools/list", RequestOptions::default());
    peer.session.session_lost(ms(2), Some(&Id::Number(peer.last_id())));
    peer.pump();
    let error = Error::Http { status: 503, message: "down".into() };
    peer.session.fail(ms(3), &Id::Number(peer.last_id()), error.clone());
    peer.pump();
    assert_eq!(peer.error_of(ticket), &error);
    assert!(peer.disconnected.is_none());
    peer.request(4, "tools/list", RequestOptions::default());
    assert_eq!(peer.last()["method"], "initialize");
}

#[test]
fn the_client_pings_in_silence_and_gives_up_without_an_answer() {
    let settings = Settings { ping_every: Some(ms(1000)), ..legacy() };
    let mut peer = Peer::ready_with(&settings, "2025-11-25", json!({}));
    assert_eq!(peer.session.deadline(), Some(ms(1000)));
    peer.tick(1000);
    assert_eq!(peer.last()["method"], "ping");
    assert!(peer.last().get("params").is_none());
    peer.receive(1100, &answer(peer.last_id()));
    peer.tick(1100);
    assert_eq!(peer.session.deadline(), Some(ms(2100)));
    peer.tick(2100);
    assert_eq!(peer.sent.len(), 2);
    peer.tick(2100 + 15_000);
    assert_eq!(peer.disconnected.as_ref().unwrap().kind(), FailureKind::Closed);
}

#[test]
fn closing_fails_everything_that_is_open() {
    let mut peer = Peer::ready();
    let ticket = peer.request(1, "tools/list", RequestOptions::default());
    peer.session.close(Error::Closed("gone".into()));
    peer.session.close(Error::Closed("again".into()));
    peer.pump();
    assert_eq!(peer.error_of(ticket), &Error::Closed("gone".into()));
    assert_eq!(
        peer.session.request(ms(2), "ping", None, RequestOptions::default()),
        Err(Error::Closed("gone".into()))
    );
}

#[test]
fn a_message_that_is_too_long_fails_the_request_it_answers() {
    let mut peer = Peer::ready();
    let a = peer.request(1, "ping", RequestOptions::default());
    let id = peer.last_id();
    let b = peer.request(1, "ping", RequestOptions::default());
    peer.session.too_long(ms(2), &format!("{{\"jsonrpc\":\"2.0\",\"id\": {id} ,\"result\":{{"), 10);
    peer.pump();
    assert!(peer.error_of(a).to_string().contains("too large"));
    assert!(!peer.resolved.contains_key(&b));
    peer.session.too_long(ms(2), "garbage", 10);
    peer.pump();
    assert!(peer.error_of(b).to_string().contains("too large"));
}

#[test]
fn roots_are_announced_only_as_declared() {
    let root = Root { uri: "file:///r".into(), name: Some("r".into()) };
    for (list_changed, count) in [(true, 1), (false, 0)] {
        let roots = Some(crate::settings::RootsCapability { list_changed });
        let declare = Declared { roots, ..Declared::default() };
        let mut peer = Peer::ready_with(&Settings { declare, ..legacy() }, "2025-11-25", json!({}));
        peer.session.set_roots(vec![root.clone()]);
        peer.session.set_roots(vec![root.clone()]);
        peer.pump();
        assert_eq!(peer.sent.len(), count);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Request(u8),
    Answer(u8, u8),
    Cancel(u8),
    Later(u16),
    Ask(u8),
    Reply(u8),
    CancelAsk(u8),
    Progress(u8),
    Lost(u8),
    Noise(String),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<u8>().prop_map(Step::Request),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Answer(a, b)),
        1 => any::<u8>().prop_map(Step::Cancel),
        2 => any::<u16>().prop_map(Step::Later),
        2 => any::<u8>().prop_map(Step::Ask),
        2 => any::<u8>().prop_map(Step::Reply),
        1 => any::<u8>().prop_map(Step::CancelAsk),
        1 => any::<u8>().prop_map(Step::Progress),
        1 => any::<u8>().prop_map(Step::Lost),
        1 => "[\\[\\]{}\":,a-z0-9 ]{0,30}".prop_map(Step::Noise),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn whatever_happens_ids_are_unique_and_requests_end_once(
        steps in steps(), batching in any::<bool>(), pings in any::<bool>(),
    ) {
        let settings = Settings {
            declare: Declared::all(),
            ping_every: pings.then_some(ms(20_000)),
            ..legacy()
        };
        let revision = if batching { "2025-03-26" } else { "2025-11-25" };
        let mut peer = Peer::ready_with(&settings, revision, json!({"tools": {}}));
        let (mut now, mut tickets, mut asked, mut all_sent) = (0u64, Vec::new(), 0u32, Vec::new());
        for step in steps {
            let open: Vec<i64> = peer.session.by_id.keys().copied().collect();
            let pick = |n: u8| (!open.is_empty()).then(|| open[n as usize % open.len()]);
            match step {
                Step::Request(n) => {
                    let options = RequestOptions { timeout: Some(ms(u64::from(n) * 50)), progress: n % 2 == 0, ..Default::default() };
                    if let Ok(ticket) = peer.session.request(ms(now), "tools/list", None, options) {
                        tickets.push(ticket);
                    }
                }
                Step::Answer(n, how) => {
                    let id = pick(n).unwrap_or_else(|| n.into());
                    let initializing = matches!(peer.session.phase, Phase::Initializing(t) if peer.session.by_id.get(&id) == Some(&t));
                    let message = if initializing { init_result(id, revision, json!({"tools": {}})) } else { answer(id) };
                    let text = match how % 4 {
                        0 => json!([message]).to_string(),
                        1 if !initializing => message.to_string().replace("\"id\":", "\"id\": \"x\", \"i\":"),
                        _ => message.to_string(),
                    };
                    peer.session.receive(ms(now), text);
                }
                Step::Cancel(n) => {
                    if let Some(ticket) = tickets.get(n as usize % tickets.len().max(1)) {
                        peer.session.cancel(ms(0), *ticket, "r");
                    }
                }
                Step::Later(by) => {
                    now += u64::from(by);
                    peer.session.tick(ms(now));
                }
                Step::Ask(n) => {
                    asked += 1;
                    let ask = json!({"jsonrpc": "2.0", "id": format!("a{asked}"), "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
                    let message = if n % 2 == 0 { json!([ask, {"jsonrpc": "2.0", "id": n, "method": "ping"}]) } else { ask };
                    peer.session.receive(ms(now), message.to_string());
                }
                Step::Reply(n) => {
                    if let Some((key, _)) = peer.asks.get(n as usize % peer.asks.len().max(1)).cloned() {
                        peer.session.answer(ms(0), key, Ok(json!({"role": "assistant", "content": {"type": "text", "text": "t"}, "model": "m"})));
                    }
                }
                Step::CancelAsk(n) => {
                    let id = format!("a{}", u32::from(n) % (asked + 1));
                    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
                    peer.session.receive(ms(now), message.to_string());
                }
                Step::Progress(n) => {
                    let token = format!("progress-{n}");
                    let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n}});
                    peer.session.receive(ms(now), message.to_string());
                }
                Step::Lost(n) => {
                    let id = pick(n).map(Id::Number);
                    match (&id, n % 3) {
                        (Some(id), 0) => peer.session.send_again(ms(now), id),
                        (_, 1) => peer.session.session_lost(ms(now), None),
                        _ => peer.session.session_lost(ms(now), id.as_ref()),
                    }
                }
                Step::Noise(text) => peer.session.receive(ms(now), text),
            }
            peer.pump();
            all_sent.append(&mut peer.sent);
            let opening = matches!(peer.session.phase, Phase::Initializing(_));
            prop_assert!(peer.session.waiting.is_empty() || opening, "requests wait for nothing");
        }
        peer.session.tick(ms(now + 1_000_000));
        peer.session.close(Error::Closed("end".into()));
        peer.pump();
        all_sent.append(&mut peer.sent);
        for ticket in &tickets {
            prop_assert!(peer.resolved.contains_key(ticket));
        }
        prop_assert_eq!(peer.resolved.len(), tickets.len());
        prop_assert!(peer.session.requests.is_empty() && peer.session.timers.is_empty());
        prop_assert!(peer.session.by_id.is_empty() && peer.session.by_token.is_empty());
        let mut ids = std::collections::HashSet::new();
        let mut answered = std::collections::HashSet::new();
        for message in &all_sent {
            prop_assert!(inspect(&message.to_string()).is_valid(), "{}", message);
            let members = message.as_array().cloned().unwrap_or_else(|| vec![message.clone()]);
            for member in members {
                match (member.get("method"), member.get("id")) {
                    (Some(_), Some(id)) => prop_assert!(ids.insert(id.clone()), "{} again", id),
                    (None, Some(Value::String(id))) => prop_assert!(answered.insert(id.clone()), "{} answered twice", id),
                    (Some(method), None) if method == "notifications/cancelled" => {
                        prop_assert!(ids.contains(&member["params"]["requestId"]));
                    }
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn a_server_that_asks_and_asks_is_refused_for_a_while() {
    let settings = Settings { declare: Declared::all(), asks_per_minute: 3, ping_every: None, ..legacy() };
    let mut peer = Peer::ready_with(&settings, "2025-11-25", json!({}));
    let mut ask = |at: u64| {
        let params = json!({"messages": [], "maxTokens": 1});
        peer.receive(
            at,
            &json!({"jsonrpc": "2.0", "id": at, "method": "sampling/createMessage", "params": params}),
        );
        peer.asks.len()
    };
    assert_eq!([ask(1), ask(2), ask(3), ask(4), ask(5)], [1, 2, 3, 3, 3]);
    assert_eq!(ask(60_001), 4);
    assert_eq!(peer.sent.iter().filter(|m| m["error"]["code"] == -32603).count(), 2);
}
