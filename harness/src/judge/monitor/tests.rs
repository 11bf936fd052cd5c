//! Each monitor against a good transcript, one without an occasion, and the smallest bad one; and against what good
//! clients do that looks bad.

mod modern;

use super::*;
use crate::judge::redact::redact;
use crate::judge::testing::{
    Transcript, error, http, initialize, initialized, notification, request, result, transcript,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use sparring_reports::model::Level;
use sparring_wire::transcript::{
    Direction, Event, FailureKind, HttpRequest, HttpResponse, HttpRole, LineSeen, Outcome, Party,
    StreamEvent, What,
};
use std::collections::{BTreeMap, BTreeSet};

const V: &str = "2025-11-25";
const OLD: &str = "2025-03-26";

/// A transcript and where it is from.
type Sample = (Revision, Transport, Transcript);

fn stdio(t: Transcript) -> Sample {
    (Revision::V2025_11_25, Transport::Stdio, t)
}

fn over_http(t: Transcript) -> Sample {
    (Revision::V2025_11_25, Transport::Http, t)
}

fn batching(t: Transcript) -> Sample {
    (Revision::V2025_03_26, Transport::Stdio, t)
}

fn reports(sample: &Sample) -> BTreeMap<String, JudgeReport> {
    let (revision, transport, t) = sample;
    let case = Case { revision: *revision, transport: *transport, facts: None };
    run(&case, &View::of(&t.events)).into_iter().map(|report| (report.judge.clone(), report)).collect()
}

fn verdict(id: &str, sample: &Sample) -> Verdict {
    reports(sample).get(id).unwrap_or_else(|| panic!("{id} does not apply to its sample")).verdict
}

const NONE: Value = Value::Null;

/// A handshake over stdio in which nobody declares anything.
fn bare() -> Transcript {
    transcript().handshake(V, json!({}), json!({}))
}

/// One in which the server declares all there is.
fn rich() -> Transcript {
    transcript().handshake(
        V,
        json!({"sampling": {}, "elicitation": {}, "roots": {"listChanged": true}}),
        json!({"tools": {}, "resources": {"subscribe": true}, "prompts": {}, "logging": {}, "completions": {}}),
    )
}

fn session() -> Transcript {
    http().http_handshake(V, Some("s-1"), json!({}), json!({"tools": {}}))
}

fn sessionless() -> Transcript {
    http().http_handshake(V, None, json!({}), json!({"tools": {}}))
}

fn call(id: i64) -> Value {
    request(id, "tools/call", json!({"name": "echo", "arguments": {}}))
}

fn called(id: i64) -> Value {
    result(id, json!({"content": []}))
}

const VERIFIER: &str = "0123456789012345678901234567890123456789abc";

/// The query of an authorization request, with one parameter changed (`None`: left out).
fn authorize(change: &str, to: Option<&str>) -> String {
    let challenge = sparring_mock_servers::auth::request::s256(VERIFIER);
    let parameters = [
        ("response_type", "code"),
        ("client_id", "c"),
        ("redirect_uri", "http://127.0.0.1:1/cb"),
        ("state", "st"),
        ("resource", "http://127.0.0.1:1/mcp"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        match to {
            _ if name != change => query.append_pair(name, value),
            Some(to) => query.append_pair(name, to),
            None => &mut query,
        };
    }
    format!("/authorize?{}", query.finish())
}

fn token_form(change: &str, to: Option<&'static str>) -> Vec<(&'static str, &'static str)> {
    let form = [
        ("grant_type", "authorization_code"),
        ("code", "code-1"),
        ("code_verifier", VERIFIER),
        ("resource", "http://127.0.0.1:1/mcp"),
        ("redirect_uri", "http://127.0.0.1:1/cb"),
    ];
    form.into_iter()
        .filter_map(
            |(name, value)| if name == change { to.map(|to| (name, to)) } else { Some((name, value)) },
        )
        .collect()
}

trait Authorizing: Sized {
    fn authorization(self, query: &str) -> Self;
    fn token(self, form: &[(&str, &str)], access: &str, refresh: &str) -> Self;
    fn refreshed(self, with: &str, access: &str, refresh: &str) -> Self;
}

impl Authorizing for Transcript {
    fn authorization(self, query: &str) -> Self {
        self.auth("GET", query, &[]).answer_with(
            302,
            &[("location", "http://127.0.0.1:1/cb?code=code-1&state=st")],
            NONE,
        )
    }

    fn token(self, form: &[(&str, &str)], access: &str, refresh: &str) -> Self {
        let answer = json!({"access_token": access, "refresh_token": refresh, "token_type": "Bearer"});
        self.auth("POST", "/token", form).answer(200, answer)
    }

    fn refreshed(self, with: &str, access: &str, refresh: &str) -> Self {
        self.token(&[("grant_type", "refresh_token"), ("refresh_token", with)], access, refresh)
    }
}

/// An `initialize` that is refused, and the flow that follows, up to a token `at-1`.
fn authorized() -> Transcript {
    http()
        .post(initialize(0, V, json!({})))
        .answer(401, NONE)
        .authorization(&authorize("", None))
        .token(&token_form("", None), "at-1", "rt-1")
        .header("authorization", "Bearer at-1")
}

fn authorized_session() -> Transcript {
    authorized().http_handshake(V, Some("s-1"), json!({}), json!({"tools": {}}))
}

/// Conversations of good clients. Between them they give every monitor an occasion.
fn good_with_handshake() -> Vec<(&'static str, Sample)> {
    let answers = bare()
        .mock(notification("notifications/message", json!({"level": "info", "data": 1})))
        .mock(request("s-1", "ping", NONE))
        .client(result("s-1", json!({})))
        .mock(request("s-2", "x/unknown", NONE))
        .client(error("s-2", -32601))
        .mock(request("s-3", "sampling/createMessage", json!({})))
        .client(error("s-3", -32601))
        .mock(request("s-4", "elicitation/create", json!({})))
        .client(error("s-4", -32601))
        .mock(request("s-5", "roots/list", NONE))
        .client(error("s-5", -32601))
        .client(request(1, "ping", NONE))
        .mock(result(1, json!({})))
        .event(What::StdinClosed);
    let features = rich()
        .client(request(1, "tools/list", NONE))
        .mock(result(1, json!({"tools": [], "nextCursor": " a "})))
        .client(request(2, "tools/list", json!({"cursor": " a "})))
        .mock(result(2, json!({"tools": [], "nextCursor": ""})))
        .client(request(3, "tools/list", json!({"cursor": ""})))
        .mock(result(3, json!({"tools": []})))
        .client(request(4, "tools/call", json!({"name": "slow", "_meta": {"progressToken": 4}})))
        .client(request(5, "tools/call", json!({"name": "slow", "_meta": {"progressToken": 5}})))
        .client(notification("notifications/cancelled", json!({"requestId": 4, "reason": "enough"})))
        .mock(called(5))
        .client(request(6, "resources/read", json!({"uri": "a:b"})))
        .mock(result(6, json!({"contents": []})))
        .client(request(7, "prompts/get", json!({"name": "p", "arguments": {"a": "b"}})))
        .mock(result(7, json!({"messages": []})))
        .client(request(8, "logging/setLevel", json!({"level": "info"})))
        .mock(result(8, json!({})))
        .client(request(9, "resources/subscribe", json!({"uri": "a:b"})))
        .mock(result(9, json!({})))
        .mock(request(1, "sampling/createMessage", json!({})))
        .client(result(
            1,
            json!({"role": "assistant", "content": {"type": "text", "text": ""}, "model": "m"}),
        ))
        .mock(request(2, "elicitation/create", json!({})))
        .client(result(2, json!({"action": "decline"})))
        .mock(request(3, "roots/list", NONE))
        .client(result(3, json!({"roots": [{"uri": "file:///a"}]})))
        .client(notification("notifications/roots/list_changed", NONE));
    let restarted = rich()
        .client(request(1, "tools/list", NONE))
        .mock(result(1, json!({"tools": [], "nextCursor": "a"})))
        .process(2)
        .handshake(V, json!({}), json!({"tools": {}}))
        .client(request(1, "tools/list", NONE));
    let refused =
        transcript().client(initialize(0, V, json!({}))).mock(error(0, -32603)).event(What::StdinClosed);
    let unknown = transcript()
        .client(initialize(0, V, json!({})))
        .mock(initialized(0, "2031-01-01", json!({})))
        .event(What::StdinClosed);
    let kept = session()
        .get()
        .stream()
        .post(call(1))
        .answer(404, NONE)
        .without("mcp-session-id")
        .http_handshake(V, Some("s-2"), json!({}), json!({"tools": {}}))
        .post(call(1))
        .answer(200, called(1))
        .delete()
        .answer(200, NONE)
        .ok("close");
    let tokens = authorized_session()
        .post(call(1))
        .answer(401, NONE)
        .refreshed("rt-1", "at-2", "rt-2")
        .header("authorization", "Bearer at-2")
        .post(call(1))
        .answer(200, called(1));
    // A batch that the client can't read is a matter for the scenario that sends one, and not one of each member.
    let unread = transcript()
        .handshake(OLD, json!({}), json!({"tools": {}}))
        .mock(json!([request("s-1", "ping", NONE), notification("notifications/x", NONE)]))
        .client_line("{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"what?\"}}")
        .client(call(1))
        .mock(called(1))
        .client(call(2))
        .mock(called(2));
    // Refused, by another error than the best.
    let refusal = transcript()
        .handshake(V, json!({}), json!({}))
        .mock(request("s-1", "sampling/createMessage", json!({})))
        .client(error("s-1", -32600))
        .mock(request("s-2", "elicitation/create", json!({})))
        .client(error("s-2", -32602));
    // Metadata is looked for at other paths than the endpoint's, and by other rules.
    let looked = sessionless().to(HttpRole::Mcp, "GET", "/elsewhere", Vec::new(), "").answer(404, NONE);
    vec![
        ("unread batch", batching(unread)),
        ("refusal", stdio(refusal)),
        ("looked for metadata", over_http(looked)),
        ("answers", stdio(answers)),
        ("features", stdio(features)),
        ("restarted", stdio(restarted)),
        ("refused", stdio(refused)),
        ("unknown version", stdio(unknown)),
        ("session", over_http(kept)),
        ("no session", over_http(sessionless().post(call(1)).answer(200, called(1)))),
        ("tokens", over_http(tokens)),
        ("batching", batching(transcript().handshake(OLD, json!({}), json!({})))),
    ]
}

/// Opens a conversation and then sends this.
fn sends(text: &str) -> Sample {
    stdio(bare().client_line(text))
}

/// The server asks for this, and the client answers that, with a capability declared or not.
fn answers(method: &str, capabilities: Value, answer: Value) -> Sample {
    let t = transcript().handshake(V, capabilities, json!({}));
    stdio(t.mock(request("s-1", method, json!({}))).client(answer))
}

fn initializes(change: impl FnOnce(&mut Value)) -> Sample {
    let mut message = initialize(0, V, json!({}));
    change(&mut message["params"]);
    stdio(transcript().client(message))
}

fn asks(method: &str, params: Value) -> Sample {
    stdio(rich().client(request(1, method, params)))
}

fn with_authorization(query: &str) -> Sample {
    over_http(http().authorization(query))
}

fn with_token(form: &[(&str, &str)]) -> Sample {
    over_http(http().authorization(&authorize("", None)).token(form, "at-1", "rt-1"))
}

/// The smallest transcripts that fail each monitor.
fn bad_with_handshake() -> Vec<(&'static str, Sample)> {
    let init = initialize(0, V, json!({}));
    let latin = |line: &mut LineSeen| line.invalid_utf8 = true;
    let open = |line: &mut LineSeen| line.unterminated = true;
    let ping = request("s-1", "ping", NONE);
    vec![
        ("handshake.initialize-once", stdio(bare().client(initialize(9, V, json!({}))))),
        ("framing.newline-terminated", sends("Content-Length: 40")),
        (
            "framing.newline-terminated",
            stdio(
                transcript()
                    .line(Direction::Received, &init.to_string(), open)
                    .event(What::StdinClosed)
                    .event(What::Deadline { awaited: "open".into() }),
            ),
        ),
        (
            "framing.no-embedded-newline",
            stdio(
                bare()
                    .client_line("{")
                    .client_line("\"jsonrpc\": \"2.0\",")
                    .client_line("\"method\": \"x\"}"),
            ),
        ),
        ("framing.only-messages", sends("connecting…")),
        ("framing.only-messages", sends("{\"jsonrpc\":\"2.0\"}")),
        ("framing.utf8", stdio(transcript().line(Direction::Received, &init.to_string(), latin))),
        ("envelope.version", sends("{\"id\":1,\"method\":\"ping\"}")),
        ("envelope.request-id", sends("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}")),
        ("envelope.request-id", sends("{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\"}")),
        ("envelope.request-id-not-null", sends("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}")),
        ("envelope.params-object", sends("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}")),
        (
            "envelope.notification-without-id",
            sends("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"notifications/initialized\"}"),
        ),
        (
            "envelope.result-xor-error",
            sends("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{\"code\":1,\"message\":\"\"}}"),
        ),
        ("envelope.result-object", sends("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}")),
        ("envelope.error-members", sends("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"message\":\"x\"}}")),
        ("envelope.error-members", sends("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1}}")),
        (
            "envelope.error-code-integer",
            sends("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":\"1\",\"message\":\"x\"}}"),
        ),
        ("ids.unique-in-session", stdio(bare().client(request(0, "ping", NONE)))),
        (
            "ids.unique-in-session",
            over_http(sessionless().post(call(1)).answer(200, called(1)).post(call(1))),
        ),
        ("ids.answers-name-a-request", answers("ping", json!({}), result("s-2", json!({})))),
        ("ids.type-kept", stdio(bare().mock(request(7, "ping", NONE)).client(result("7", json!({}))))),
        (
            "ids.answered-once",
            stdio(
                bare().mock(ping.clone()).client(result("s-1", json!({}))).client(result("s-1", json!({}))),
            ),
        ),
        (
            "ids.no-answer-to-notifications",
            stdio(
                bare()
                    .mock(notification("notifications/x", NONE))
                    .client_line("{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}"),
            ),
        ),
        (
            "ids.no-answer-to-notifications",
            stdio(
                bare()
                    .mock_fault("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}")
                    .client_line("{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}"),
            ),
        ),
        ("handshake.initialize-first", stdio(transcript().client(request(0, "tools/list", NONE)))),
        ("handshake.initialize-params", initializes(|p| p["capabilities"] = json!(null))),
        ("handshake.client-info", initializes(|p| p["clientInfo"] = json!({"name": "c"}))),
        ("handshake.client-info", initializes(|p| p["clientInfo"]["title"] = json!(null))),
        ("handshake.offers-a-revision", initializes(|p| p["protocolVersion"] = json!("1.0"))),
        ("handshake.offers-a-revision", initializes(|p| p["protocolVersion"] = json!("2025-01-01"))),
        (
            "handshake.capabilities-are-objects",
            initializes(|p| p["capabilities"] = json!({"sampling": true})),
        ),
        (
            "handshake.initialized-sent",
            stdio(transcript().client(init.clone()).mock(initialized(0, V, json!({}))).client(call(1))),
        ),
        (
            "handshake.initialized-sent",
            stdio(
                transcript()
                    .client(init.clone())
                    .client(notification("notifications/initialized", NONE))
                    .mock(initialized(0, V, json!({}))),
            ),
        ),
        ("handshake.no-requests-before-answer", stdio(transcript().client(init.clone()).client(call(1)))),
        (
            "handshake.no-operation-after-failure",
            stdio(
                transcript()
                    .client(init.clone())
                    .mock(error(0, -32603))
                    .client(notification("notifications/initialized", NONE)),
            ),
        ),
        (
            "handshake.unknown-version-refused",
            stdio(
                transcript()
                    .client(init.clone())
                    .mock(initialized(0, "2031-01-01", json!({})))
                    .client(notification("notifications/initialized", NONE)),
            ),
        ),
        ("handshake.ping-without-params", asks("ping", json!({"a": 1}))),
        (
            "handshake.initialize-not-in-batch",
            batching(transcript().client(json!([initialize(0, OLD, json!({}))]))),
        ),
        ("handshake.no-batches", stdio(bare().client(json!([request(1, "ping", NONE)])))),
        ("capabilities.tools", stdio(bare().client(call(1)))),
        ("capabilities.resources", stdio(bare().client(request(1, "resources/list", NONE)))),
        (
            "capabilities.resources-subscribe",
            stdio(
                transcript()
                    .handshake(V, json!({}), json!({"resources": {"subscribe": false}}))
                    .client(request(1, "resources/subscribe", json!({"uri": "a:b"}))),
            ),
        ),
        ("capabilities.prompts", stdio(bare().client(request(1, "prompts/list", NONE)))),
        (
            "capabilities.logging",
            stdio(bare().client(request(1, "logging/setLevel", json!({"level": "info"})))),
        ),
        ("capabilities.completions", stdio(bare().client(request(1, "completion/complete", json!({}))))),
        (
            "capabilities.sampling-undeclared",
            answers("sampling/createMessage", json!({}), result("s-1", json!({}))),
        ),
        (
            "capabilities.elicitation-undeclared",
            answers("elicitation/create", json!({}), result("s-1", json!({"action": "decline"}))),
        ),
        (
            "capabilities.roots-undeclared",
            answers("roots/list", json!({}), result("s-1", json!({"roots": []}))),
        ),
        (
            "capabilities.roots-list-changed",
            stdio(bare().client(notification("notifications/roots/list_changed", NONE))),
        ),
        ("answers.ping", answers("ping", json!({}), error("s-1", -32601))),
        ("answers.ping", answers("ping", json!({}), result("s-1", json!({"pong": true})))),
        (
            "answers.ping",
            stdio(rich().mock(ping.clone()).client(call(1)).mock(called(1)).client(call(2)).mock(called(2))),
        ),
        ("answers.unknown-method", answers("x/unknown", json!({}), result("s-1", json!({})))),
        (
            "answers.sampling-result",
            answers(
                "sampling/createMessage",
                json!({"sampling": {}}),
                result("s-1", json!({"role": "assistant", "content": {}})),
            ),
        ),
        (
            "answers.elicitation-action",
            answers(
                "elicitation/create",
                json!({"elicitation": {}}),
                result("s-1", json!({"action": "yes"})),
            ),
        ),
        (
            "answers.roots-result",
            answers("roots/list", json!({"roots": {}}), result("s-1", json!({"roots": ["file:///a"]}))),
        ),
        (
            "answers.roots-are-files",
            answers("roots/list", json!({"roots": {}}), result("s-1", json!({"roots": [{"uri": "/a"}]}))),
        ),
        ("params.tools-call", asks("tools/call", json!({"name": "echo", "arguments": []}))),
        ("params.tools-call", asks("tools/call", json!({"arguments": {}}))),
        ("params.resources-read", asks("resources/read", json!({}))),
        ("params.prompts-get", asks("prompts/get", json!({"name": "p", "arguments": {"a": 1}}))),
        ("params.logging-level", asks("logging/setLevel", json!({"level": "verbose"}))),
        ("progress.token-type", asks("tools/call", json!({"name": "a", "_meta": {"progressToken": {}}}))),
        (
            "progress.token-unique",
            stdio(
                rich()
                    .client(request(1, "tools/call", json!({"name": "a", "_meta": {"progressToken": 1}})))
                    .client(request(2, "tools/call", json!({"name": "a", "_meta": {"progressToken": 1}}))),
            ),
        ),
        (
            "cancellation.own-request",
            stdio(
                rich()
                    .client(call(1))
                    .client(notification("notifications/cancelled", json!({"requestId": "1"}))),
            ),
        ),
        (
            "cancellation.not-initialize",
            stdio(
                transcript()
                    .client(init.clone())
                    .client(notification("notifications/cancelled", json!({"requestId": 0}))),
            ),
        ),
        (
            "cancellation.names-a-request",
            stdio(rich().client(notification("notifications/cancelled", json!({})))),
        ),
        (
            "pagination.cursor-as-given",
            stdio(
                rich()
                    .client(request(1, "tools/list", NONE))
                    .mock(result(1, json!({"tools": [], "nextCursor": " a "})))
                    .client(request(2, "tools/list", json!({"cursor": "a"}))),
            ),
        ),
        ("pagination.first-without-cursor", asks("tools/list", json!({"cursor": ""}))),
        (
            "pagination.not-across-sessions",
            stdio(
                rich()
                    .client(request(1, "tools/list", NONE))
                    .mock(result(1, json!({"tools": [], "nextCursor": "a"})))
                    .process(2)
                    .handshake(V, json!({}), json!({"tools": {}}))
                    .client(request(1, "tools/list", json!({"cursor": "a"}))),
            ),
        ),
        ("http.messages-are-posted", over_http(sessionless().http("PUT", "/mcp", &call(1).to_string()))),
        (
            "http.accept-both",
            over_http(sessionless().header("accept", "application/json, */*").post(call(1))),
        ),
        ("http.get-accepts-stream", over_http(sessionless().without("accept").http("GET", "/mcp", ""))),
        ("http.single-message", over_http(sessionless().post(json!([call(1)])))),
        ("http.single-message", over_http(sessionless().post_text(""))),
        ("http.session-id-echoed", over_http(session().without("mcp-session-id").post(call(1)))),
        ("http.session-id-echoed", over_http(session().header("mcp-session-id", "s-9").post(call(1)))),
        (
            "http.session-id-not-invented",
            over_http(sessionless().header("mcp-session-id", "x").post(call(1))),
        ),
        (
            "http.new-session-without-id",
            over_http(session().post(call(1)).answer(404, NONE).post(init.clone())),
        ),
        ("http.session-deleted", over_http(session().ok("close"))),
        ("http.version-header", over_http(session().without("mcp-protocol-version").get())),
        (
            "http.version-header-negotiated",
            over_http(session().header("mcp-protocol-version", "2025-06-18").post(call(1))),
        ),
        (
            "auth.token-in-header",
            over_http(authorized_session().header("authorization", "Token at-1").post(call(1))),
        ),
        // The scheme of a proof of possession, without one.
        (
            "auth.token-in-header",
            over_http(authorized_session().header("authorization", "DPoP at-1").post(call(1))),
        ),
        (
            "auth.token-in-header",
            over_http(authorized_session().without("authorization").header("x-token", "at-1").post(call(1))),
        ),
        (
            "auth.token-not-in-query",
            over_http(authorized_session().http("POST", "/mcp?access_token=at-1", &call(1).to_string())),
        ),
        (
            "auth.token-with-every-request",
            over_http(authorized_session().without("authorization").post(call(1))),
        ),
        (
            "auth.token-of-own-server",
            over_http(authorized().server("other").post(initialize(0, V, json!({})))),
        ),
        (
            "auth.token-of-own-server",
            over_http(authorized().header("authorization", "Bearer made-up").post(init.clone())),
        ),
        (
            "auth.token-of-own-server",
            over_http(authorized().header("authorization", "Bearer rt-1").post(init.clone())),
        ),
        (
            "auth.token-to-nobody-else",
            over_http(authorized().to(
                HttpRole::Other,
                "POST",
                "/mcp",
                vec![("authorization".into(), "Bearer at-1".into())],
                "",
            )),
        ),
        (
            "auth.rejected-token-not-repeated",
            over_http(authorized_session().post(call(1)).answer(401, NONE).post(call(1))),
        ),
        (
            "auth.rejected-token-not-repeated",
            over_http(authorized().post(init.clone()).answer(401, NONE).post(init.clone())),
        ),
        (
            "auth.refresh-rotation",
            over_http(
                authorized_session()
                    .refreshed("rt-1", "at-2", "rt-2")
                    .header("authorization", "Bearer at-2")
                    .post(call(1))
                    .answer(401, NONE)
                    .refreshed("rt-1", "at-3", "rt-3"),
            ),
        ),
        ("auth.pkce", with_authorization(&authorize("code_challenge", None))),
        ("auth.pkce", with_token(&token_form("code_verifier", None))),
        (
            "auth.pkce",
            with_token(&token_form(
                "code_verifier",
                Some("another-verifier-that-is-long-enough-to-be-allowed"),
            )),
        ),
        ("auth.pkce-s256", with_authorization(&authorize("code_challenge_method", Some("plain")))),
        ("auth.pkce-s256", with_authorization(&authorize("code_challenge_method", None))),
        ("auth.pkce-verifier", with_token(&token_form("code_verifier", Some("short")))),
        (
            "auth.pkce-verifier",
            over_http(
                http().authorization(&authorize("", None)).authorization(&authorize("state", Some("other"))),
            ),
        ),
        ("auth.state", with_authorization(&authorize("state", None))),
        ("auth.response-type", with_authorization(&authorize("response_type", Some("token")))),
        ("auth.redirect-uri", with_authorization(&authorize("redirect_uri", Some("myapp:/cb")))),
        ("auth.resource-in-authorization", with_authorization(&authorize("resource", None))),
        ("auth.resource-in-token-request", with_token(&token_form("resource", None))),
        ("auth.resource-in-token-request", with_token(&token_form("resource", Some("http://127.0.0.1:2/x")))),
        (
            "auth.resource-canonical",
            with_authorization(&authorize("resource", Some("http://127.0.0.1:1/mcp#a"))),
        ),
        ("auth.resource-canonical", with_authorization(&authorize("resource", Some("/mcp")))),
        (
            "auth.code-used-once",
            over_http(http().token(&token_form("", None), "at-1", "rt-1").token(
                &token_form("", None),
                "at-2",
                "rt-2",
            )),
        ),
        ("case.ended-in-time", stdio(bare().event(What::Deadline { awaited: "call".into() }))),
        (
            "case.client-alive",
            stdio(bare().event(What::ClientEnded { code: Some(1), signal: None, expected: false })),
        ),
        ("case.no-escaped-process", stdio(bare().event(What::Escaped { pid: 1, command: "sh".into() }))),
        ("case.no-harness-error", stdio(bare().event(What::HarnessError { message: "x".into() }))),
        (
            "harness.own-messages-valid",
            stdio(transcript().line(Direction::Sent, "{\"id\":1,\"result\":{}}", |_| ())),
        ),
    ]
}

/// What good clients do, or what happens to them, that looks bad at first sight.
fn excused_with_handshake() -> Vec<(&'static str, &'static str, Sample)> {
    let open = |line: &mut LineSeen| line.unterminated = true;
    let died = What::ClientEnded { code: None, signal: Some("SIGKILL".into()), expected: false };
    let ping = request("s-1", "ping", NONE);
    let init = initialize(0, V, json!({}));
    let stray_id = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"x\"}}";
    vec![
        (
            "framing.newline-terminated",
            "killed between a message and its newline",
            stdio(
                bare()
                    .line(Direction::Received, &call(1).to_string(), open)
                    .event(What::StdinClosed)
                    .event(died.clone()),
            ),
        ),
        (
            "framing.newline-terminated",
            "the server died before it could read the newline",
            stdio(
                bare()
                    .line(Direction::Received, &call(1).to_string(), open)
                    .event(What::ProcessExiting { code: Some(1), signal: None }),
            ),
        ),
        (
            "framing.only-messages",
            "killed in the middle of a line",
            stdio(
                bare()
                    .line(Direction::Received, "{\"jsonrpc\":\"2.0\",\"id\":1,\"met", open)
                    .event(What::StdinClosed)
                    .event(died),
            ),
        ),
        ("framing.only-messages", "an empty line", sends("")),
        (
            "framing.only-messages",
            "one message on several lines is another fault",
            stdio(bare().client_line("{").client_line("\"jsonrpc\": \"2.0\", \"method\": \"x\"}")),
        ),
        (
            "ids.unique-in-session",
            "the first request was refused over HTTP, and is sent again",
            over_http(session().post(call(1)).answer(401, NONE).post(call(1)).answer(200, called(1))),
        ),
        (
            "ids.unique-in-session",
            "the connection was reset without an answer, and the same request is sent again",
            over_http(session().post(call(1)).post(call(1)).answer(200, called(1))),
        ),
        (
            "ids.unique-in-session",
            "a new process, and a new session, number anew",
            stdio(bare().process(2).handshake(V, json!({}), json!({}))),
        ),
        (
            "ids.unique-in-session",
            "two servers at a time number for themselves",
            stdio(rich().client(call(1)).server("b").handshake(V, json!({}), json!({})).client(call(1))),
        ),
        (
            "ids.answers-name-a-request",
            "the answer to a request from before the new session comes late",
            over_http(
                session()
                    .get()
                    .stream()
                    .sse(3, ping.clone())
                    .post(call(1))
                    .answer(404, NONE)
                    .without("mcp-session-id")
                    .http_handshake(V, Some("s-2"), json!({}), json!({}))
                    .post(result("s-1", json!({})))
                    .answer(202, NONE),
            ),
        ),
        (
            "ids.answered-once",
            "the POST of the answer was refused for want of a fresh token",
            over_http(
                session()
                    .get()
                    .stream()
                    .sse(3, ping.clone())
                    .post(result("s-1", json!({})))
                    .answer(401, NONE)
                    .post(result("s-1", json!({})))
                    .answer(202, NONE),
            ),
        ),
        (
            "ids.answered-once",
            "the server used the id twice",
            stdio(
                bare()
                    .mock(ping.clone())
                    .client(result("s-1", json!({})))
                    .mock(ping.clone())
                    .client(result("s-1", json!({}))),
            ),
        ),
        (
            "ids.no-answer-to-notifications",
            "something unreadable is answered with an error without id",
            stdio(
                bare().mock(notification("notifications/x", NONE)).mock_fault("{\"a").client_line(stray_id),
            ),
        ),
        (
            "handshake.initialize-first",
            "a client of 2026-07-28 tries whether the server is one too",
            stdio(
                transcript()
                    .client(request(
                        0,
                        "tools/list",
                        json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
                    ))
                    .mock(error(0, -32600))
                    .client(initialize(1, V, json!({}))),
            ),
        ),
        (
            "handshake.initialized-sent",
            "the server died after its answer",
            stdio(
                transcript()
                    .client(init.clone())
                    .mock(initialized(0, V, json!({})))
                    .event(What::ProcessEnded { pid: 1 })
                    .process(2)
                    .handshake(V, json!({}), json!({}))
                    .client(request(1, "ping", NONE)),
            ),
        ),
        (
            "handshake.initialized-sent",
            "two POSTs at a time overtake each other",
            over_http(
                http()
                    .post(init.clone())
                    .answer(200, initialized(0, V, json!({"tools": {}})))
                    .post(call(1))
                    .post(notification("notifications/initialized", NONE))
                    .answer(202, NONE),
            ),
        ),
        (
            "handshake.initialized-sent",
            "the answer was mangled, and the client is lenient",
            stdio(
                transcript()
                    .client(init.clone())
                    .client(notification("notifications/initialized", NONE))
                    .mock_fault("{\"id\":0,\"result\":{}}")
                    .client(call(1)),
            ),
        ),
        (
            "handshake.no-requests-before-answer",
            "`ping` is allowed",
            stdio(transcript().client(init.clone()).client(request(1, "ping", NONE))),
        ),
        (
            "handshake.no-requests-before-answer",
            "`initialize` was refused over HTTP",
            over_http(http().post(init.clone()).answer(400, NONE).post(call(1))),
        ),
        (
            "handshake.no-operation-after-failure",
            "a second attempt succeeds",
            stdio(
                transcript()
                    .client(init.clone())
                    .mock(error(0, -32602))
                    .client(initialize(1, OLD, json!({})))
                    .mock(initialized(1, OLD, json!({})))
                    .client(notification("notifications/initialized", NONE)),
            ),
        ),
        (
            "handshake.unknown-version-refused",
            "the client offered that draft itself",
            stdio(transcript().handshake("DRAFT-2027", json!({}), json!({})).client(call(1))),
        ),
        (
            "handshake.ping-without-params",
            "empty params say nothing",
            stdio(bare().client(request(1, "ping", json!({"_meta": {}})))),
        ),
        (
            "answers.ping",
            "the process died before the client could answer",
            stdio(rich().mock(ping.clone()).event(What::ProcessEnded { pid: 1 })),
        ),
        (
            "answers.ping",
            "the client had sent its request before the ping",
            stdio(rich().client(call(1)).mock(ping.clone()).mock(called(1)).client(call(2))),
        ),
        (
            "answers.ping",
            "it went out on a stream that nobody was reading any more",
            over_http(
                session()
                    .get()
                    .stream()
                    .sse(3, ping.clone())
                    .stream_ended(3, Party::Client)
                    .post(call(1))
                    .answer(200, called(1))
                    .post(call(2))
                    .answer(200, called(2)),
            ),
        ),
        (
            "answers.ping",
            "the server took the request back",
            stdio(
                rich()
                    .mock(ping.clone())
                    .mock(notification("notifications/cancelled", json!({"requestId": "s-1"})))
                    .client(call(1))
                    .mock(called(1))
                    .client(call(2)),
            ),
        ),
        (
            "progress.token-unique",
            "the request before it is answered",
            stdio(
                rich()
                    .client(request(1, "tools/call", json!({"name": "a", "_meta": {"progressToken": 1}})))
                    .mock(called(1))
                    .client(request(2, "tools/call", json!({"name": "a", "_meta": {"progressToken": 1}}))),
            ),
        ),
        (
            "cancellation.own-request",
            "the answer was on its way",
            stdio(
                rich()
                    .client(call(1))
                    .mock(called(1))
                    .client(notification("notifications/cancelled", json!({"requestId": 1}))),
            ),
        ),
        (
            "pagination.cursor-as-given",
            "the page came in an answer that was wrong on purpose",
            stdio(
                rich()
                    .client(request(1, "tools/list", NONE))
                    .mock_fault("{\"id\":1,\"result\":{\"tools\":[],\"nextCursor\":\"a\"")
                    .client(request(2, "tools/list", json!({"cursor": "a"}))),
            ),
        ),
        (
            "http.get-accepts-stream",
            "metadata of the authorization server is no stream",
            over_http(sessionless().get().without("accept").http(
                "GET",
                "/.well-known/oauth-protected-resource",
                "",
            )),
        ),
        (
            "http.session-id-echoed",
            "the session is lost, and so is its id",
            over_http(session().post(call(1)).answer(404, NONE).without("mcp-session-id").get()),
        ),
        (
            "http.session-id-echoed",
            "two sessions at a time, each with its id",
            over_http(
                session()
                    .without("mcp-session-id")
                    .http_handshake(V, Some("s-2"), json!({}), json!({"tools": {}}))
                    .header("mcp-session-id", "s-1")
                    .post(call(1))
                    .header("mcp-session-id", "s-2")
                    .post(call(1)),
            ),
        ),
        (
            "http.session-deleted",
            "the server had lost the session",
            over_http(session().post(call(1)).answer(404, NONE).ok("close")),
        ),
        (
            "http.version-header",
            "the server speaks a revision that has no such header",
            over_http(http().http_handshake(OLD, Some("s-1"), json!({}), json!({"tools": {}})).post(call(1))),
        ),
        (
            "http.version-header",
            "a ping on the stream of `initialize` is answered before its answer is read",
            over_http(
                http()
                    .post(initialize(0, V, json!({})))
                    .stream()
                    .sse(1, ping.clone())
                    .sse(1, initialized(0, V, json!({"tools": {}})))
                    .post(result("s-1", json!({})))
                    .answer(202, NONE),
            ),
        ),
        (
            "auth.token-with-every-request",
            "the token was refused",
            over_http(
                authorized_session()
                    .post(call(1))
                    .answer(401, NONE)
                    .without("authorization")
                    .post(call(1))
                    .answer(401, NONE),
            ),
        ),
        (
            "auth.token-of-own-server",
            "the scenario configured the header",
            over_http(
                authorized()
                    .step_started("open", "open", json!({"headers": {"authorization": "Bearer fixed"}}))
                    .header("authorization", "Bearer fixed")
                    .post(init.clone()),
            ),
        ),
        (
            "auth.rejected-token-not-repeated",
            "the token is a fresh one",
            over_http(
                authorized_session()
                    .post(call(1))
                    .answer(401, NONE)
                    .header("authorization", "Bearer at-2")
                    .post(call(1))
                    .answer(401, NONE),
            ),
        ),
        (
            "auth.refresh-rotation",
            "two refreshes at a time",
            over_http(
                authorized_session().refreshed("rt-1", "at-2", "rt-2").refreshed("rt-1", "at-3", "rt-3"),
            ),
        ),
        (
            "auth.pkce-verifier",
            "the browser loaded the URL twice",
            over_http(http().authorization(&authorize("", None)).authorization(&authorize("", None)).token(
                &token_form("", None),
                "at-1",
                "rt-1",
            )),
        ),
        (
            "auth.code-used-once",
            "the client authenticates in another way after a refusal",
            over_http(
                http()
                    .auth("POST", "/token", &token_form("", None))
                    .answer(401, json!({"error": "invalid_client"}))
                    .token(&token_form("", None), "at-1", "rt-1"),
            ),
        ),
        (
            "harness.own-messages-valid",
            "the script asked for it",
            stdio(bare().mock_fault("{\"id\":1,\"result\":{}}").mock_fault("noise")),
        ),
    ]
}

fn good() -> Vec<(&'static str, Sample)> {
    [good_with_handshake(), modern::good()].concat()
}

fn bad() -> Vec<(&'static str, Sample)> {
    [bad_with_handshake(), modern::bad()].concat()
}

fn excused() -> Vec<(&'static str, &'static str, Sample)> {
    [excused_with_handshake(), modern::excused()].concat()
}

const BAD: [Verdict; 5] =
    [Verdict::Fail, Verdict::Warn, Verdict::Timeout, Verdict::Crash, Verdict::HarnessError];

#[test]
fn the_table_is_sound() {
    let ids: BTreeSet<&str> = monitors().iter().map(|m| m.id).collect();
    assert_eq!(ids.len(), monitors().len(), "an id occurs twice");
    assert!(ids.len() >= 32, "{}", ids.len());
    for monitor in monitors() {
        let words = monitor.id.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-' | '.'));
        assert!(words, "{}", monitor.id);
        let ours = monitor.judges_the_harness();
        assert_eq!(monitor.killed_by.is_empty(), ours, "{} is killed by nobody", monitor.id);
        if monitor.kind == JudgeKind::Case {
            let [promise] = monitor.requirements else { panic!("{}", monitor.id) };
            assert!(ours || catalogue::promise(promise).is_some(), "{promise}");
            continue;
        }
        assert!(!monitor.prerequisite.is_empty(), "{}", monitor.id);
        for id in monitor.requirements {
            let requirement = catalogue::requirement(id).unwrap_or_else(|| panic!("no requirement {id}"));
            assert_ne!(basis_of(requirement).0.level, Level::May, "{id} can never fail");
        }
        for revision in Revision::ALL {
            for transport in Transport::ALL {
                let holding = |id: &&&str| catalogue::requirement(id).unwrap().holds(revision, transport);
                assert!(monitor.requirements.iter().filter(holding).count() <= 1, "{}", monitor.id);
            }
        }
    }
}

#[test]
fn without_an_occasion_nothing_is_said() {
    for (revision, transport) in [
        (Revision::V2025_11_25, Transport::Stdio),
        (Revision::V2025_11_25, Transport::Http),
        (Revision::V2026_07_28, Transport::Stdio),
        (Revision::V2026_07_28, Transport::Http),
        (Revision::V2024_11_05, Transport::SseLegacy),
    ] {
        for (id, report) in reports(&(revision, transport, transcript())) {
            let expected = match report.kind {
                JudgeKind::Case if id != "driver.steps-as-scripted" => Verdict::Pass,
                _ => Verdict::NotApplicable,
            };
            assert_eq!(report.verdict, expected, "{id}");
            assert_eq!(report.reason.is_some(), expected != Verdict::Pass, "{id}");
        }
    }
}

#[test]
fn a_proof_of_possession_is_no_misuse_of_the_token() {
    let call = request(1, "tools/call", json!({"name": "echo", "arguments": {}}));
    let sample = over_http(
        authorized_session().header("authorization", "DPoP at-1").header("dpop", "proof").post(call),
    );
    for (id, report) in reports(&sample) {
        if id.starts_with("auth.") {
            let kept = matches!(report.verdict, Verdict::Pass | Verdict::NotApplicable);
            assert!(kept, "{id}: {:?} {:?}", report.verdict, report.actual);
        }
    }
}

#[test]
fn good_clients_pass_every_monitor() {
    let mut passed = BTreeSet::new();
    for (name, sample) in good() {
        for (id, report) in reports(&sample) {
            match report.verdict {
                Verdict::Pass => drop(passed.insert(id)),
                verdict => {
                    assert_eq!(
                        verdict,
                        Verdict::NotApplicable,
                        "{name}: {id}: {:?} {:?}",
                        report.reason,
                        report.actual
                    );
                }
            }
        }
    }
    for monitor in monitors().iter().filter(|m| m.id != "driver.steps-as-scripted") {
        assert!(passed.contains(monitor.id), "no good sample gives {} an occasion", monitor.id);
    }
}

#[test]
fn every_monitor_can_fail_and_shows_why() {
    let samples = bad();
    for (id, sample) in &samples {
        let report = reports(sample).remove(*id).unwrap_or_else(|| panic!("{id} does not apply"));
        assert!(BAD.contains(&report.verdict), "{id}: {:?} {:?}", report.verdict, report.reason);
        assert!(report.reason.is_some() && !report.actual.is_empty(), "{id}: {report:?}");
    }
    let failed: BTreeSet<&str> = samples.iter().map(|(id, _)| *id).collect();
    for monitor in monitors().iter().filter(|m| m.id != "driver.steps-as-scripted") {
        assert!(failed.contains(monitor.id), "no bad sample for {}", monitor.id);
    }
}

#[test]
fn what_only_looks_bad_is_excused() {
    for (id, why, sample) in excused() {
        let report = reports(&sample).remove(id).unwrap_or_else(|| panic!("{id} does not apply"));
        let good = matches!(report.verdict, Verdict::Pass | Verdict::NotApplicable);
        assert!(good, "{id}: {why}: {:?} {:?}", report.verdict, report.reason);
    }
}

#[test]
fn the_level_follows_the_revision() {
    let gated = |revision, version: &str| {
        let t = transcript().handshake(version, json!({}), json!({})).client(call(1));
        verdict("capabilities.tools", &(revision, Transport::Stdio, t))
    };
    assert_eq!(gated(Revision::V2025_11_25, V), Verdict::Fail);
    assert_eq!(gated(Revision::V2025_03_26, OLD), Verdict::Warn);
    // A server that counters with an older revision is not held to the newer one's rules.
    assert_eq!(gated(Revision::V2025_11_25, OLD), Verdict::NotApplicable);
}

#[test]
fn a_redacted_transcript_is_judged_the_same() {
    let samples = good().into_iter().map(|(_, s)| s).chain(bad().into_iter().map(|(_, s)| s));
    for (revision, transport, t) in samples {
        let mut redacted = t.clone();
        redacted.events = t.events.iter().map(redact).collect();
        let text = serde_json::to_string(&redacted.events).unwrap();
        for secret in ["at-1", "rt-1", "code-1", VERIFIER] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        let before = reports(&(revision, transport, t));
        for (id, report) in reports(&(revision, transport, redacted)) {
            // Nothing can be said of a verifier that is gone.
            if !matches!(id.as_str(), "auth.pkce" | "auth.pkce-verifier" | "auth.token-of-own-server") {
                assert_eq!(report.verdict, before[&id].verdict, "{id}");
            }
        }
    }
}

#[test]
fn reports_show_no_secrets() {
    for (id, sample) in bad() {
        for report in reports(&sample).values() {
            let text = serde_json::to_string(report).unwrap();
            for secret in ["at-1", "rt-1", "code-1", VERIFIER] {
                assert!(!text.contains(secret), "{id}: {secret} in {text}");
            }
        }
    }
}

#[test]
fn steps_are_judged_with_the_scenario() {
    let scenario = serde_json::from_value(json!({
        "scenario": "a.b", "version": 1, "about": "x", "judge": [],
        "drive": [{"open": {}}, {"call": {"tool": "echo"}}],
    }))
    .unwrap();
    let judged = |t: &Transcript| {
        let facts = Facts {
            case: "a.b[2025-11-25,stdio]",
            scenario: &scenario,
            revision: Revision::V2025_11_25,
            transport: Transport::Stdio,
            profile: None,
            floor: None,
            clock_scale: 1,
        };
        let reports = crate::judge::judge(&facts, &t.events);
        reports.into_iter().find(|r| r.judge == "driver.steps-as-scripted").unwrap()
    };
    assert_eq!(judged(&bare().ok("open").ok("call")).verdict, Verdict::Pass);
    let failed = judged(&bare().ok("open").failed("call", FailureKind::Other, "oh"));
    assert_eq!(failed.verdict, Verdict::Fail);
    assert!(failed.reason.unwrap().contains("oh"));
    assert_eq!(judged(&bare().ok("open")).verdict, Verdict::Fail);
    // A deadline and a crash are said by their own judges.
    let late = bare().ok("open").event(What::Deadline { awaited: "call".into() });
    assert_eq!(judged(&late).verdict, Verdict::NotApplicable);
}

#[test]
fn a_late_case_shows_its_last_events() {
    let t = (1..20).fold(rich(), |t, id| t.client(call(id)));
    let report = reports(&stdio(t.event(What::Deadline { awaited: "step `call`".into() })))
        .remove("case.ended-in-time")
        .unwrap();
    assert_eq!((report.verdict, report.actual.len()), (Verdict::Timeout, 11));
    assert_eq!(report.reason.unwrap(), "the deadline passed, awaiting step `call`");
}

#[test]
fn long_transcripts_are_judged_in_linear_time() {
    // Unanswered pings, reused ids and lines that are no messages, which invite looking back.
    let mut t = rich();
    for id in 0..2_500 {
        t = t
            .client(call(id))
            .mock(called(id))
            .client(call(7))
            .mock(request(id, "ping", NONE))
            .client_line("{")
            .client_line("noise")
            .client(result(format!("{id}"), json!({})))
            .mock(notification("notifications/x", NONE));
    }
    assert!(t.events.len() > 20_000);
    let started = std::time::Instant::now();
    reports(&stdio(t));
    // Not a judgement of speed: quadratic time would take minutes.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just(initialize(0, V, json!({"roots": {}})).to_string()),
        Just(initialized(0, V, json!({"tools": {}})).to_string()),
        Just(notification("notifications/initialized", NONE).to_string()),
        Just(json!([call(1), {"id": null}, 3]).to_string()),
        Just("{".to_owned()),
        Just("\u{feff}[]".to_owned()),
        Just("grant_type=authorization_code&code=ä&code_verifier=%ff".to_owned()),
        "\\PC{0,12}",
        (0i64..3, prop_oneof![Just("ping"), Just("tools/list"), Just("notifications/cancelled")]).prop_map(
            |(id, method)| {
                let params = json!({"cursor": "é", "requestId": id, "_meta": {"progressToken": id}});
                request(id, method, params).to_string()
            }
        ),
        (0i64..3)
            .prop_map(|id| result(id, json!({"nextCursor": "é", "access_token": "Bearer é"})).to_string()),
    ];
    pieces
}

fn headers() -> impl Strategy<Value = Vec<(String, String)>> {
    let names = prop_oneof![
        Just("mcp-session-id"),
        Just("authorization"),
        Just("location"),
        Just("content-type"),
        Just("é-")
    ];
    let values = prop_oneof![
        Just("Bearer é"),
        Just("http://x/?code=é"),
        Just("application/json"),
        Just("text/event-stream"),
        Just("")
    ];
    proptest::collection::vec((names.prop_map(str::to_owned), values.prop_map(str::to_owned)), 0..3)
}

fn observations() -> impl Strategy<Value = What> {
    let direction = prop_oneof![Just(Direction::Received), Just(Direction::Sent)];
    let role = prop_oneof![Just(HttpRole::Mcp), Just(HttpRole::AuthorizationServer), Just(HttpRole::Other)];
    let method = prop_oneof![Just("POST"), Just("GET"), Just("DELETE"), Just("é")];
    let target = prop_oneof![
        Just("/mcp"),
        Just("/authorize?state=%"),
        Just("/token"),
        Just("?#é"),
        Just("/.well-known/oauth-authorization-server")
    ];
    prop_oneof![
        (direction, texts(), any::<[bool; 3]>()).prop_map(|(direction, text, [a, b, c])| {
            What::Line(LineSeen {
                direction,
                text,
                invalid_utf8: a,
                carriage_return: false,
                unterminated: b,
                scripted_fault: c,
            })
        }),
        (1u64..4, method, target, headers(), texts(), role).prop_map(
            |(exchange, method, target, headers, body, role)| {
                What::HttpRequest(HttpRequest {
                    exchange,
                    connection: 1,
                    method: method.into(),
                    target: target.into(),
                    headers,
                    body,
                    invalid_utf8: false,
                    role,
                })
            }
        ),
        (1u64..4, 100u16..600, headers(), proptest::option::of(texts())).prop_map(
            |(exchange, status, headers, body)| {
                What::HttpResponse(HttpResponse { exchange, status, headers, body, scripted_fault: false })
            }
        ),
        (1u64..4, proptest::option::of(texts()), proptest::option::of(texts())).prop_map(
            |(exchange, data, raw)| {
                What::StreamEvent(StreamEvent { exchange, data, raw, ..StreamEvent::default() })
            }
        ),
        (1u64..4).prop_map(|exchange| What::StreamEnded { exchange, by: Party::Client }),
        Just(What::StdinClosed),
        Just(What::Deadline { awaited: String::new() }),
        texts().prop_map(|text| What::ClientOutput { stream: "stderr".into(), text }),
        texts().prop_map(|text| What::StepEnded {
            step: "close".into(),
            op: "close".into(),
            outcome: Outcome::Ok { value: Value::String(text) },
            took_us: 0
        }),
    ]
}

proptest! {
    #[test]
    fn any_events_are_judged_without_a_panic(
        whats in proptest::collection::vec((observations(), 0u8..3), 0..40)
    ) {
        let events: Vec<Event> = whats
            .into_iter()
            .map(|(what, place)| Event {
                n: 7,
                at_us: u64::from(place),
                server: (place > 0).then(|| format!("s{place}")),
                incarnation: (place == 1).then_some(1),
                what,
            })
            .collect();
        let reports = crate::judge::judge_transcript_only(None, &events);
        prop_assert!(!reports.is_empty());
        for event in &events {
            let once = redact(event);
            prop_assert_eq!(redact(&once), once);
        }
    }
}
