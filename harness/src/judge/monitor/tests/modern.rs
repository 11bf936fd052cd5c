//! Samples without a handshake, and over HTTP+SSE.

use super::*;
use sparring_wire::meta;

const MODERN: &str = "2026-07-28";

fn modern(t: Transcript) -> Sample {
    (Revision::V2026_07_28, Transport::Stdio, t)
}

fn modern_http(t: Transcript) -> Sample {
    (Revision::V2026_07_28, Transport::Http, t)
}

fn legacy(t: Transcript) -> Sample {
    (Revision::V2024_11_05, Transport::SseLegacy, t)
}

/// A request with what each has to carry.
fn full(id: i64, method: &str, params: Value) -> Value {
    full_with(id, method, params, json!({"roots": {}}))
}

fn full_with(id: i64, method: &str, mut params: Value, capabilities: Value) -> Value {
    if params.is_null() {
        params = json!({});
    }
    let meta = &mut params["_meta"];
    meta[meta::PROTOCOL_VERSION] = json!(MODERN);
    meta[meta::CLIENT_CAPABILITIES] = capabilities;
    meta[meta::CLIENT_INFO] = json!({"name": "c", "version": "1"});
    request(id, method, params)
}

fn changed(mut message: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut message["params"]["_meta"]);
    message
}

fn complete(id: i64, mut value: Value) -> Value {
    value["resultType"] = json!("complete");
    result(id, value)
}

fn discovered(t: Transcript) -> Transcript {
    t.client(full(1, "server/discover", NONE)).mock(complete(
        1,
        json!({"supportedVersions": [MODERN], "capabilities": {"tools": {}, "resources": {}}}),
    ))
}

/// A call to which the server wants input, with a state or without.
fn asked(state: Option<&str>) -> Transcript {
    let mut wanted = json!({"resultType": "input_required", "inputRequests": {
        "where": {"method": "roots/list"}, "who": {"method": "roots/list"}}});
    if let Some(state) = state {
        wanted["requestState"] = json!(state);
    }
    discovered(transcript())
        .client(full(2, "tools/call", json!({"name": "book", "arguments": {"n": 1}})))
        .mock(result(2, wanted))
}

fn inputs() -> Value {
    json!({"where": {"roots": [{"uri": "file:///a"}]}, "who": {"roots": []}})
}

/// The repetition of that call, with more or other params.
fn again(id: i64, more: Value) -> Value {
    let mut params = json!({"name": "book", "arguments": {"n": 1}, "inputResponses": inputs()});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    full(id, "tools/call", params)
}

/// What the server wants is of a kind that the client did not declare.
fn asked_too_much(method: &str, response: Value) -> Sample {
    let wanted = json!({"resultType": "input_required", "inputRequests": {"m": {"method": method}}});
    let call = |id, more: Value| {
        let mut params = json!({"name": "book"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        full(id, "tools/call", params)
    };
    modern(
        transcript()
            .client(call(2, json!({})))
            .mock(result(2, wanted))
            .client(call(3, json!({"inputResponses": {"m": response}}))),
    )
}

/// The capabilities of a client that takes tasks.
fn tasks() -> Value {
    json!({"extensions": {meta::TASKS_EXTENSION: {}}})
}

trait Posting: Sized {
    fn posts(self, message: Value, name: Option<&str>) -> Self;
    fn endpoint(self, exchange: u64, at: &str) -> Self;
    fn legacy_post(self, message: Value) -> Self;
}

impl Posting for Transcript {
    /// A request with the header fields that repeat what is in it.
    fn posts(self, message: Value, name: Option<&str>) -> Self {
        let method = message["method"].as_str().unwrap().to_owned();
        let t = self.header("mcp-protocol-version", MODERN).header("mcp-method", &method);
        let t = match name {
            Some(name) => t.header("mcp-name", name),
            None => t.without("mcp-name"),
        };
        t.post(message)
    }

    fn endpoint(self, exchange: u64, at: &str) -> Self {
        self.event(What::StreamEvent(StreamEvent {
            exchange,
            event: Some("endpoint".into()),
            data: Some(at.into()),
            ..StreamEvent::default()
        }))
    }

    fn legacy_post(self, message: Value) -> Self {
        self.http("POST", "/messages?session=1", &message.to_string()).answer(202, NONE)
    }
}

fn modern_call(id: i64) -> Value {
    full(id, "tools/call", json!({"name": "echo", "arguments": {}}))
}

fn one_post(change: impl FnOnce(Transcript) -> Transcript) -> Sample {
    let t = http()
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", "tools/call")
        .header("mcp-name", "echo");
    modern_http(change(t).post(modern_call(1)).answer(200, complete(1, json!({"content": []}))))
}

fn opened() -> Transcript {
    http().get().stream().endpoint(1, "/messages?session=1")
}

const V0: &str = "2024-11-05";

fn opened_session() -> Transcript {
    opened()
        .legacy_post(initialize(0, V0, json!({})))
        .sse(1, initialized(0, V0, json!({"tools": {}})))
        .legacy_post(notification("notifications/initialized", NONE))
}

pub(super) fn good() -> Vec<(&'static str, Sample)> {
    let features = discovered(transcript())
        .client(changed(modern_call(2), |meta| meta[meta::LOG_LEVEL] = json!("info")))
        .mock(complete(2, json!({"content": []})))
        .client(full(3, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})))
        .client(full_with(4, "tasks/get", json!({"taskId": "t"}), tasks()))
        .mock(complete(4, json!({"taskId": "t", "status": "working"})))
        .client(notification("notifications/cancelled", json!({"requestId": 3})));
    let rounds = asked(Some(" s "))
        .client(again(3, json!({"requestState": " s "})))
        .mock(result(
            3,
            json!({"resultType": "input_required", "inputRequests": {"more": {"method": "roots/list"}}}),
        ))
        .client(again(4, json!({"inputResponses": {"more": {"roots": []}}})))
        .mock(complete(4, json!({"content": []})));
    let fallback = transcript()
        .client(full(1, "server/discover", NONE))
        .mock(error(1, -32601))
        .handshake(V, json!({}), json!({"tools": {}}))
        .client(request(2, "ping", NONE))
        .mock(result(2, json!({})));
    let over_http = http()
        .posts(full(1, "server/discover", NONE), None)
        .answer(200, complete(1, json!({"supportedVersions": [MODERN], "capabilities": {"tools": {}}})))
        .posts(modern_call(2), Some("echo"))
        .answer(200, complete(2, json!({"content": []})))
        .posts(full(3, "tools/call", json!({"name": "größer"})), Some("=?base64?Z3LDtsOfZXI=?="))
        .answer(200, complete(3, json!({"content": []})))
        .posts(full_with(4, "tasks/get", json!({"taskId": "t"}), tasks()), Some("t"))
        .answer(200, complete(4, json!({})));
    let old = opened_session()
        .sse(1, request("s-1", "ping", NONE))
        .legacy_post(result("s-1", json!({})))
        .legacy_post(call(1))
        .sse(1, called(1))
        .stream_ended(1, Party::Client)
        .ok("close");
    vec![
        ("modern features", modern(features)),
        ("rounds", modern(rounds)),
        ("fallback", modern(fallback)),
        ("declined", asked_too_much("elicitation/create", json!({"action": "decline"}))),
        ("modern http", modern_http(over_http)),
        ("http+sse", legacy(old)),
    ]
}

pub(super) fn bad() -> Vec<(&'static str, Sample)> {
    let one = |message: Value| modern(transcript().client(message));
    let meta_lacks = |name: &'static str| {
        one(changed(modern_call(1), |meta| {
            meta.as_object_mut().unwrap().remove(name);
        }))
    };
    let listens = |filter: Value| one(full(1, "subscriptions/listen", json!({"notifications": filter})));
    let twice = asked(None).client(again(3, json!({}))).client(full(
        4,
        "tools/call",
        json!({"name": "other", "inputResponses": inputs()}),
    ));
    let after = |method: &str| discovered(transcript()).client(request(9, method, NONE));
    let without = |name: &'static str| one_post(|t| t.without(name));
    let with = |name: &'static str, value: &'static str| one_post(|t| t.header(name, value));
    vec![
        ("requests.params-present", one(request(1, "tools/list", NONE))),
        ("requests.protocol-version", meta_lacks(meta::PROTOCOL_VERSION)),
        ("requests.protocol-version", one(changed(modern_call(1), |m| m[meta::PROTOCOL_VERSION] = json!(2026)))),
        ("requests.client-capabilities", meta_lacks(meta::CLIENT_CAPABILITIES)),
        ("requests.client-info", meta_lacks(meta::CLIENT_INFO)),
        ("requests.client-info-shape", one(changed(modern_call(1), |m| m[meta::CLIENT_INFO] = json!({"name": "c"})))),
        (
            "requests.extension-ids",
            one(full_with(1, "tools/list", NONE, json!({"extensions": {"tasks": {}}}))),
        ),
        (
            "requests.extension-ids",
            one(full_with(1, "tools/list", NONE, json!({"extensions": {"com.example/x": true}}))),
        ),
        ("requests.log-level", one(changed(modern_call(1), |m| m[meta::LOG_LEVEL] = json!("verbose")))),
        ("requests.id-unique-in-flight", modern(transcript().client(modern_call(1)).client(modern_call(1)))),
        ("stateless.no-handshake", modern(discovered(transcript()).client(initialize(2, MODERN, json!({}))))),
        (
            "stateless.no-handshake",
            modern(discovered(transcript()).client(notification("notifications/initialized", NONE))),
        ),
        ("stateless.no-removed-methods", modern(after("ping"))),
        ("stateless.no-removed-methods", modern(after("logging/setLevel"))),
        ("stateless.no-responses-on-stdin", modern(discovered(transcript()).client(result("s-1", json!({}))))),
        ("stateless.no-responses-posted", modern_http(http().post(result("s-1", json!({}))))),
        (
            "stateless.discovered-capabilities",
            modern(discovered(transcript()).client(full(2, "prompts/list", NONE))),
        ),
        ("capabilities.prompts", modern(discovered(transcript()).client(full(2, "prompts/list", NONE)))),
        ("subscriptions.filter", one(full(1, "subscriptions/listen", NONE))),
        ("subscriptions.filter", listens(json!({"toolsListChanged": 1}))),
        ("subscriptions.filter", listens(json!({"resourceSubscriptions": "file:///a"}))),
        ("tasks.extension-declared", one(full(1, "tasks/get", json!({"taskId": "t"})))),
        ("tasks.no-legacy-form", one(full(1, "tasks/result", json!({"taskId": "t"})))),
        ("tasks.no-legacy-form", one(full(1, "tools/call", json!({"name": "x", "task": {}})))),
        (
            "rounds.all-keys-answered",
            modern(asked(None).client(again(3, json!({"inputResponses": {"where": {"roots": []}}})))),
        ),
        (
            "rounds.newest-keys-only",
            modern(asked(None).client(again(
                3,
                json!({"inputResponses": {"where": {"roots": []}, "who": {"roots": []}, "old": {"roots": []}}}),
            ))),
        ),
        (
            "rounds.bare-responses",
            modern(asked(None).client(again(
                3,
                json!({"inputResponses": {"where": {"result": {"roots": []}}, "who": {"roots": []}}}),
            ))),
        ),
        ("rounds.same-request", modern(asked(None).client(again(3, json!({"arguments": {}}))))),
        ("rounds.state-echoed", modern(asked(Some(" s ")).client(again(3, json!({"requestState": "s"}))))),
        ("rounds.state-echoed", modern(asked(Some("s")).client(again(3, json!({}))))),
        ("rounds.no-state-invented", modern(asked(None).client(again(3, json!({"requestState": ""}))))),
        ("rounds.new-id", modern(asked(None).client(again(2, json!({}))))),
        ("rounds.only-for-the-retry", modern(twice)),
        (
            "rounds.only-for-the-retry",
            one(full(1, "prompts/get", json!({"name": "p", "requestState": "s"}))),
        ),
        (
            "rounds.undeclared-not-fulfilled",
            asked_too_much("sampling/createMessage", json!({"role": "assistant", "content": {"type": "text", "text": ""}, "model": "m"})),
        ),
        (
            "answers.roots-result",
            modern(asked(None).client(again(3, json!({"inputResponses": {"where": {"roots": ["a"]}, "who": {}}})))),
        ),
        ("http.version-header-on-every-request", without("mcp-protocol-version")),
        ("http.version-header-agrees", with("mcp-protocol-version", V)),
        ("http.method-header", without("mcp-method")),
        ("http.method-header", with("mcp-method", "tools/list")),
        ("http.name-header", without("mcp-name")),
        ("http.name-header", with("mcp-name", "add")),
        (
            "http.name-header-of-tasks",
            modern_http(http().posts(full(1, "tasks/get", json!({"taskId": "t"})), None)),
        ),
        (
            "http.name-header-encoded",
            modern_http(http().posts(full(1, "tools/call", json!({"name": "größer"})), Some("gr??er"))),
        ),
        (
            "http.no-get",
            modern_http(
                http().posts(modern_call(1), Some("echo")).answer(200, complete(1, json!({"content": []}))).get(),
            ),
        ),
        ("http.no-session-id", with("mcp-session-id", "s")),
        ("http.no-last-event-id", with("last-event-id", "1")),
        (
            "cancellation.not-by-message-over-http",
            modern_http(http().post(notification("notifications/cancelled", json!({"requestId": 1})))),
        ),
        ("sse.stream-opened", legacy(http().post(initialize(0, V0, json!({}))))),
        (
            "sse.waits-for-endpoint",
            legacy(http().get().stream().legacy_post(initialize(0, V0, json!({}))).endpoint(1, "/messages?session=1")),
        ),
        ("sse.posts-to-endpoint", legacy(opened().http("POST", "/messages", "{}"))),
        ("sse.stream-closed", legacy(opened_session().ok("close"))),
        (
            "sse.stream-closed",
            legacy(
                opened_session()
                    .ok("close")
                    .event(What::DriverEvent { name: "stream-left-open".into(), data: json!({}) })
                    .stream_ended(1, Party::Client),
            ),
        ),
        (
            "handshake.no-requests-before-answer",
            legacy(opened().legacy_post(initialize(0, V0, json!({}))).legacy_post(call(1))),
        ),
    ]
}

pub(super) fn excused() -> Vec<(&'static str, &'static str, Sample)> {
    let probe = full(1, "server/discover", NONE);
    let refused = transcript().client(probe.clone()).mock(error(1, -32601));
    let load = json!({"resultType": "input_required", "requestState": "later"});
    vec![
        (
            "stateless.no-handshake",
            "a server that does not know the probe is one of an earlier revision",
            modern(refused.clone().client(initialize(2, V, json!({})))),
        ),
        (
            "stateless.no-removed-methods",
            "what was agreed on in a handshake has it",
            modern(refused.handshake(V, json!({}), json!({})).client(request(2, "ping", NONE))),
        ),
        (
            "stateless.no-handshake",
            "another process of the server",
            modern(discovered(transcript()).process(2).client(initialize(2, V, json!({})))),
        ),
        (
            "requests.id-unique-in-flight",
            "the first is answered",
            modern(transcript().client(modern_call(1)).mock(complete(1, json!({}))).client(modern_call(1))),
        ),
        (
            "requests.id-unique-in-flight",
            "the first was refused and is sent again",
            modern_http(
                http().posts(modern_call(1), Some("echo")).answer(401, NONE).posts(modern_call(1), Some("echo")),
            ),
        ),
        (
            "rounds.all-keys-answered",
            "nothing was asked for: the server wants the request later",
            modern(
                transcript()
                    .client(modern_call(1))
                    .mock(result(1, load))
                    .client(full(2, "tools/call", json!({"name": "echo", "arguments": {}, "requestState": "later"}))),
            ),
        ),
        (
            "rounds.only-for-the-retry",
            "two calls at a time, each with its own",
            modern(
                asked(Some("a"))
                    .client(full(5, "tools/call", json!({"name": "book", "arguments": {"n": 1}})))
                    .mock(result(5, json!({"resultType": "input_required", "requestState": "b",
                        "inputRequests": {"where": {"method": "roots/list"}, "who": {"method": "roots/list"}}})))
                    .client(again(6, json!({"requestState": "b"})))
                    .client(again(7, json!({"requestState": "a"}))),
            ),
        ),
        (
            "http.no-get",
            "the old transport is looked for where the new one is refused",
            modern_http(http().posts(probe, None).answer(405, NONE).get()),
        ),
        (
            "sse.stream-closed",
            "the server closed it before",
            legacy(opened_session().stream_ended(1, Party::Server).ok("close")),
        ),
        (
            "sse.posts-to-endpoint",
            "the endpoint of a stream that was opened again",
            legacy(
                opened_session()
                    .stream_ended(1, Party::Server)
                    .get()
                    .stream()
                    .endpoint(4, "http://127.0.0.1:1/messages?session=2")
                    .http("POST", "/messages?session=2", &initialize(0, V0, json!({})).to_string()),
            ),
        ),
        (
            "handshake.no-requests-before-answer",
            "the answer comes on the stream",
            legacy(opened_session().legacy_post(call(1))),
        ),
    ]
}

#[test]
fn the_revision_of_a_recording_is_that_of_its_requests() {
    let t = transcript().client(modern_call(1)).mock(complete(1, json!({"content": []})));
    let reports = crate::judge::judge_transcript_only(None, &t.events);
    let judged: BTreeSet<&str> = reports.iter().map(|r| r.judge.as_str()).collect();
    assert!(judged.contains("requests.protocol-version") && !judged.contains("handshake.initialize-first"));
    let old = crate::judge::judge_transcript_only(None, &opened_session().events);
    assert!(old.iter().any(|r| r.judge == "sse.posts-to-endpoint" && r.verdict == Verdict::Pass));
}
