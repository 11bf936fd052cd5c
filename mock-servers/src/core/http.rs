//! Exchanges, streams and sessions of a Streamable HTTP server.

use super::stdio::gather;
use super::{Broken, Effect, Out, Scope, ServerCore, Task, Then, broken};
use crate::auth::{Answer, AuthServer};
use crate::script::{Action, AnswerStyle, CutStream, HttpVerb, RawBody, ServerScript, StatusAnswer, Trigger};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sparring_wire::Revision;
use sparring_wire::jsonrpc::{self, Envelope, Inspected, codes};
use sparring_wire::sse::{LineEnd, SseEvent, SseItem, SseReader};
use sparring_wire::transcript::{HttpRequest, HttpResponse, HttpRole, Party, StreamEvent, What};
use std::collections::{BTreeMap, VecDeque};

/// The endpoint's path.
pub fn endpoint_path(script: &ServerScript) -> &str {
    script.http.path.as_deref().unwrap_or("/mcp")
}

/// What `{origin}` and `{other}` stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    /// The endpoint's origin, such as `http://127.0.0.1:4000`.
    pub own: String,
    /// The origin of the second listener.
    pub other: String,
}

/// Sessions open at a time; more are refused.
const MAX_SESSIONS: usize = 4096;
/// Ended streams kept for resumption, and messages kept for a GET stream that is not open.
const MAX_KEPT: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct HttpState {
    origins: Origins,
    auth: Option<AuthServer>,
    sessions: BTreeMap<String, Session>,
    sessions_made: u64,
    exchanges: BTreeMap<u64, Exchange>,
    streams: BTreeMap<u64, Stream>,
    streams_made: u64,
    /// Messages that wait for a GET stream, by session.
    waiting: BTreeMap<Option<String>, VecDeque<Out>>,
    /// POSTs with requests so far, for `alternate`.
    posts: u64,
    /// Stands in when a session is asked for that is gone.
    nowhere: bool,
}

#[derive(Debug, Default)]
struct Session {
    open: bool,
}

/// One request and its response.
#[derive(Debug, Default)]
struct Exchange {
    session: Option<String>,
    /// The session was opened by this very exchange, whose answer names it.
    new_session: bool,
    sse: bool,
    /// The POST carries requests, so that messages may precede their answers.
    has_requests: bool,
    batch: bool,
    /// Tasks at work on it.
    open: usize,
    gathered: Vec<Out>,
    stream: Option<u64>,
    dropped: bool,
    cancelled: bool,
    /// It carries the stream of an earlier exchange on.
    resumed: bool,
    done: bool,
}

/// An event stream, which may outlive the response that carries it.
#[derive(Debug, Default)]
struct Stream {
    session: Option<String>,
    /// The exchange that carries it now.
    exchange: Option<u64>,
    get: bool,
    /// All events, for resumption.
    log: Option<Vec<SseEvent>>,
    events: u64,
    finished: bool,
}

impl HttpState {
    pub(super) fn new(origins: Origins, auth: Option<AuthServer>) -> Self {
        Self { origins, auth, ..Self::default() }
    }

    /// Whether no exchange is open.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
    }

    pub(super) fn session_open(&mut self, session: &str) -> &mut bool {
        match self.sessions.get_mut(session) {
            Some(session) => &mut session.open,
            None => &mut self.nowhere,
        }
    }
}

fn header<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

/// Whether the Accept headers allow a media type, wildcards included.
fn accepts(request: &HttpRequest, wanted: &str) -> bool {
    let group = wanted.split('/').next().unwrap_or_default();
    request
        .headers
        .iter()
        .filter(|(name, _)| name == "accept")
        .flat_map(|(_, value)| value.split(','))
        .filter_map(|part| part.split(';').next())
        .map(|part| part.trim().to_ascii_lowercase())
        .any(|part| part == wanted || part == "*/*" || part.strip_suffix("/*") == Some(group))
}

fn is_loopback_origin(origin: &str) -> bool {
    origin.split_once("://").is_some_and(|(_, rest)| {
        let host = rest
            .rsplit_once(':')
            .filter(|(_, p)| p.bytes().all(|b| b.is_ascii_digit()))
            .map_or(rest, |(h, _)| h);
        matches!(host, "localhost" | "127.0.0.1" | "[::1]")
    })
}

impl ServerCore {
    // ---- requests ----

    pub(super) fn request(&mut self, request: Box<HttpRequest>) {
        let exchange = request.exchange;
        self.observe(What::HttpRequest((*request).clone()));
        self.http.exchanges.insert(exchange, Exchange::default());
        self.enter(exchange);
        self.arrived(exchange, request);
        self.release(exchange);
    }

    fn arrived(&mut self, exchange: u64, request: Box<HttpRequest>) {
        match request.role {
            HttpRole::Mcp => {}
            HttpRole::Other => return self.give(exchange, 200, json_type(), "{}".into(), false),
            HttpRole::AuthorizationServer => {
                let now = self.now;
                let answer =
                    self.http.auth.as_mut().map_or_else(nothing_here, |auth| auth.handle(&request, now));
                return self.give(exchange, answer.status, answer.headers, answer.body, false);
            }
        }
        let verb = match request.method.as_str() {
            "GET" => Some(HttpVerb::Get),
            "POST" => Some(HttpVerb::Post),
            "DELETE" => Some(HttpVerb::Delete),
            _ => None,
        };
        match verb {
            Some(verb) if self.is_endpoint(&request) => {
                let pending = self.script.rules.iter().any(|rule| rule.on == Trigger::Http(verb));
                let pending = pending.then(|| jsonrpc::inspect(&request.body).envelope);
                let pending = match pending {
                    Some(Envelope::Request { id: Some(id), method, params }) if verb == HttpVerb::Post => {
                        Some(super::Pending { id, method, params, premature: false })
                    }
                    _ => None,
                };
                let params = pending.as_ref().and_then(|p| p.params.clone());
                let session = header(&request, "mcp-session-id").map(str::to_owned);
                if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
                    entry.has_requests = pending.is_some();
                    entry.session.clone_from(&session.clone().filter(|s| self.http.sessions.contains_key(s)));
                }
                let scope = Scope { exchange: Some(exchange), session, batch: None };
                let trigger = Trigger::Http(verb);
                self.event(&trigger, params.as_ref(), scope, pending, Then::Look(request));
            }
            _ => self.look(&request),
        }
    }

    fn is_endpoint(&self, request: &HttpRequest) -> bool {
        request.target.split('?').next() == Some(endpoint_path(&self.script))
    }

    /// Deals with an HTTP request that no rule took.
    pub(super) fn look(&mut self, request: &HttpRequest) {
        let exchange = request.exchange;
        let now = self.now;
        if !self.is_endpoint(request) {
            let answer = match &mut self.http.auth {
                Some(auth) => match auth.resource_metadata(request) {
                    Some(answer) => answer,
                    None if auth.serves_on_resource_origin() => auth.handle(request, now),
                    None => nothing_here(),
                },
                None => nothing_here(),
            };
            return self.give(exchange, answer.status, answer.headers, answer.body, false);
        }
        if let Some(origin) = header(request, "origin")
            && origin != self.http.origins.own
            && !is_loopback_origin(origin)
        {
            return self.refuse_http(exchange, 403, codes::INVALID_REQUEST, "this origin is not welcome");
        }
        let message = (request.method == "POST").then(|| {
            let mut message = jsonrpc::inspect(&request.body);
            if request.invalid_utf8 {
                message.faults.insert(0, jsonrpc::Fault::InvalidUtf8);
            }
            message
        });
        if let Some(auth) = &mut self.http.auth {
            let mut methods = message.iter().flat_map(|m| m.messages()).filter_map(|m| m.envelope.method());
            let first = methods.next();
            let method = methods.find(|m| *m == "tools/call").or(first);
            if let Err(answer) = auth.admit(request, method, now) {
                return self.give(exchange, answer.status, answer.headers, answer.body, false);
            }
        }
        match (request.method.as_str(), message) {
            ("POST", Some(message)) => self.post(request, &message),
            ("GET", _) => self.get(request),
            ("DELETE", _) => self.delete(request),
            _ => self.not_allowed(exchange),
        }
    }

    fn post(&mut self, request: &HttpRequest, message: &Inspected) {
        let exchange = request.exchange;
        if !accepts(request, "application/json") || !accepts(request, "text/event-stream") {
            let why = "Accept has to list application/json and text/event-stream";
            return self.refuse_http(exchange, 406, codes::INVALID_REQUEST, why);
        }
        let content_type =
            header(request, "content-type").and_then(|v| v.split(';').next()).unwrap_or_default();
        if !content_type.trim().eq_ignore_ascii_case("application/json") {
            return self.refuse_http(
                exchange,
                415,
                codes::INVALID_REQUEST,
                "Content-Type has to be application/json",
            );
        }
        let initializes =
            matches!(&message.envelope, Envelope::Request { method, .. } if method == "initialize");
        if !self.admit_session(request, initializes) {
            return;
        }
        let unusable = match &message.envelope {
            Envelope::Batch(members) if members.is_empty() || !self.revision.has_batching() => Some(Broken {
                code: codes::INVALID_REQUEST,
                message: "no batch is welcome here".into(),
                id: None,
                response: false,
            }),
            Envelope::Batch(_) => None,
            _ => broken(message),
        };
        if let Some(broken) = unusable {
            let mut error = json!({"jsonrpc": "2.0"});
            if let Some(id) = broken.id.filter(|_| !broken.response) {
                error["id"] = id.to_value();
            }
            error["error"] = json!({"code": broken.code, "message": broken.message});
            return self.give(exchange, 400, json_type(), error.to_string(), false);
        }
        let mut session =
            header(request, "mcp-session-id").map(str::to_owned).filter(|_| self.script.http.sessions);
        let has_requests = message.messages().iter().any(|m| matches!(m.envelope, Envelope::Request { .. }));
        if initializes && self.script.http.sessions {
            if self.http.sessions.len() >= MAX_SESSIONS {
                return self.refuse_http(exchange, 503, codes::INTERNAL_ERROR, "too many sessions");
            }
            session = Some(self.new_session());
        }
        if has_requests {
            self.http.posts += 1;
        }
        let sse = self.is_sse(self.script.http.answers);
        if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
            entry.session.clone_from(&session);
            entry.new_session = initializes && session.is_some();
            entry.has_requests = has_requests;
            entry.batch = matches!(message.envelope, Envelope::Batch(_));
            entry.sse = sse;
        }
        for member in message.messages() {
            let scope = Scope { exchange: Some(exchange), session: session.clone(), batch: None };
            match broken(member) {
                Some(broken) if !broken.response => {
                    if let Some(answer) = self.broken_answer(&broken) {
                        self.exchange_send(exchange, Out::answer(&answer, false));
                    }
                }
                Some(_) => {}
                None => self.message(member, scope),
            }
        }
    }

    fn is_sse(&self, style: AnswerStyle) -> bool {
        match style {
            AnswerStyle::Json => false,
            AnswerStyle::Sse => true,
            AnswerStyle::Alternate => self.http.posts.is_multiple_of(2),
        }
    }

    /// Checks the session id and the version header, and answers if they won't do.
    fn admit_session(&mut self, request: &HttpRequest, initializes: bool) -> bool {
        let exchange = request.exchange;
        if self.script.http.sessions {
            match header(request, "mcp-session-id") {
                None if !initializes => {
                    self.refuse_http(exchange, 400, codes::INVALID_REQUEST, "Mcp-Session-Id is missing");
                    return false;
                }
                Some(id) if !self.http.sessions.contains_key(id) => {
                    self.refuse_http(exchange, 404, codes::INVALID_REQUEST, "there is no such session");
                    return false;
                }
                _ => {}
            }
        }
        if self.revision.has_version_header()
            && !initializes
            && let Some(version) = header(request, "mcp-protocol-version")
            && version != self.model.version()
            && version != self.revision.as_str()
        {
            self.refuse_http(
                exchange,
                400,
                codes::INVALID_REQUEST,
                "this MCP-Protocol-Version is not supported",
            );
            return false;
        }
        true
    }

    fn new_session(&mut self) -> String {
        self.http.sessions_made += 1;
        let made = Sha256::digest(format!("session {} {}", self.seed, self.http.sessions_made));
        let id: String = made.iter().take(12).map(|b| format!("{b:02x}")).collect();
        self.http.sessions.insert(id.clone(), Session::default());
        id
    }

    fn get(&mut self, request: &HttpRequest) {
        let exchange = request.exchange;
        let last = header(request, "last-event-id");
        let resumed = last.and_then(|last| self.find_event(last));
        if resumed.is_none() && !self.script.http.get_stream {
            return self.not_allowed(exchange);
        }
        if !accepts(request, "text/event-stream") {
            return self.refuse_http(
                exchange,
                406,
                codes::INVALID_REQUEST,
                "Accept has to list text/event-stream",
            );
        }
        if !self.admit_session(request, false) {
            return;
        }
        let session =
            header(request, "mcp-session-id").map(str::to_owned).filter(|_| self.script.http.sessions);
        if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
            entry.session.clone_from(&session);
        }
        let get = match resumed {
            Some((key, after)) => {
                if self.http.streams.get(&key).is_none_or(|s| s.session != session) {
                    return self.refuse_http(
                        exchange,
                        404,
                        codes::INVALID_REQUEST,
                        "there is no such stream",
                    );
                }
                self.resume_stream(exchange, key, after)
            }
            None => {
                self.open_stream(exchange, true);
                for out in self.http.waiting.remove(&session).unwrap_or_default() {
                    self.exchange_send(exchange, out);
                }
                true
            }
        };
        if get {
            let scope = Scope { exchange: Some(exchange), session, batch: None };
            self.event(&Trigger::GetStream, None, scope, None, Then::Nothing);
        }
    }

    fn delete(&mut self, request: &HttpRequest) {
        let exchange = request.exchange;
        if self.script.http.refuse_delete || !self.script.http.sessions {
            return self.not_allowed(exchange);
        }
        if !self.admit_session(request, false) {
            return;
        }
        if let Some(id) = header(request, "mcp-session-id") {
            self.http.sessions.remove(id);
            self.http.waiting.remove(&Some(id.to_owned()));
            self.close_get_streams(Some(id));
        }
        self.give(exchange, 200, Vec::new(), String::new(), false);
    }

    fn not_allowed(&mut self, exchange: u64) {
        let http = &self.script.http;
        let mut allow = vec!["POST"];
        if http.get_stream {
            allow.push("GET");
        }
        if http.sessions && !http.refuse_delete {
            allow.push("DELETE");
        }
        self.give(exchange, 405, vec![("allow".into(), allow.join(", "))], String::new(), false);
    }

    fn refuse_http(&mut self, exchange: u64, status: u16, code: i64, message: &str) {
        let body = json!({"jsonrpc": "2.0", "error": {"code": code, "message": message}});
        self.give(exchange, status, json_type(), body.to_string(), false);
    }

    /// Answers a request whose session has been forgotten.
    pub(super) fn not_found(&mut self, task: &Task) {
        if let Some(exchange) = task.scope.exchange {
            self.refuse_http(exchange, 404, codes::INVALID_REQUEST, "there is no such session");
        }
    }

    // ---- exchanges ----

    /// A task starts work on an exchange.
    pub(super) fn enter(&mut self, exchange: u64) {
        if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
            entry.open += 1;
        }
    }

    /// A task has ended its work on an exchange.
    pub(super) fn leave(&mut self, exchange: u64, task: &Task) {
        if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
            entry.dropped |= task.dropped;
            entry.cancelled |= task.cancelled && !task.answered;
        }
        self.release(exchange);
    }

    fn release(&mut self, exchange: u64) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        entry.open = entry.open.saturating_sub(1);
        if entry.open == 0 {
            self.settle(exchange);
        }
    }

    /// Nothing works on the exchange any more: it ends, unless its answer was dropped or it is a GET stream.
    fn settle(&mut self, exchange: u64) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        let gathered = std::mem::take(&mut entry.gathered);
        let stream = entry.stream.and_then(|key| self.http.streams.get(&key));
        if stream.is_some_and(|s| (s.get || entry.resumed) && !s.finished && !entry.done) {
            return;
        }
        let get = stream.is_some_and(|s| s.get);
        if entry.done || entry.dropped {
            if entry.done {
                if !get {
                    self.finish_stream(exchange);
                }
                self.http.exchanges.remove(&exchange);
            }
            return;
        }
        if !gathered.is_empty() && entry.stream.is_none() {
            let out = gather(&gathered);
            self.json_answer(exchange, out);
        } else if entry.stream.is_some() {
            self.end(exchange);
        } else if entry.cancelled {
            self.open_stream(exchange, false);
            self.end(exchange);
        } else if entry.has_requests {
            // Nothing is left that could answer.
            return;
        } else {
            self.give(exchange, 202, Vec::new(), String::new(), false);
        }
        self.http.exchanges.remove(&exchange);
    }

    /// A task waits. A POST without requests is accepted meanwhile, unless the script has another answer for it.
    pub(super) fn parked(&mut self, task: &Task) {
        let Some(exchange) = task.scope.exchange else { return };
        let answers = |action: &Action| {
            matches!(
                action,
                Action::Status(_)
                    | Action::CutStream(_)
                    | Action::Reset
                    | Action::Stall
                    | Action::ExpireSession
                    | Action::RawBody(_)
            )
        };
        let plain = self
            .http
            .exchanges
            .get(&exchange)
            .is_some_and(|e| !e.has_requests && e.stream.is_none() && !e.done);
        if plain && matches!(task.then, Then::Nothing) && !task.expired && !task.actions.iter().any(answers) {
            self.give(exchange, 202, Vec::new(), String::new(), false);
        }
    }

    /// Answers an exchange whole, if nothing went out on it yet.
    fn give(
        &mut self,
        exchange: u64,
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
        fault: bool,
    ) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.done || entry.stream.is_some() {
            return;
        }
        entry.done = true;
        self.observe(What::HttpResponse(HttpResponse {
            exchange,
            status,
            headers: headers.clone(),
            body: Some(body.clone()),
            scripted_fault: fault,
        }));
        self.effect(Effect::Respond { exchange, status, headers, body: body.into_bytes() });
    }

    fn json_answer(&mut self, exchange: u64, out: Out) {
        let Some(entry) = self.http.exchanges.get(&exchange) else { return };
        let mut headers = json_type();
        if let Some(session) = entry.session.as_ref().filter(|_| entry.new_session && !out.error) {
            headers.push(("mcp-session-id".into(), session.clone()));
        }
        self.give(exchange, 200, headers, out.text, out.fault);
    }

    /// Sends a message on an exchange: as its JSON body if it is the answer and nothing asks for a stream, or else as
    /// an event.
    pub(super) fn exchange_send(&mut self, exchange: u64, out: Out) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if out.answer && !entry.sse && entry.stream.is_none() && !entry.done {
            if entry.batch {
                entry.gathered.push(out);
            } else {
                self.json_answer(exchange, out);
            }
            return;
        }
        if !entry.done && entry.stream.is_none() {
            self.open_stream(exchange, false);
        }
        if let Some(key) = self.http.exchanges.get(&exchange).and_then(|e| e.stream) {
            self.stream_send(key, SseEvent::message(out.text), out.fault);
        }
    }

    /// Sends a message that is no answer.
    pub(super) fn http_send(&mut self, task: &Task, out: Out, on_get_stream: bool) {
        match self.stream_at_hand(task).filter(|_| !on_get_stream) {
            Some(exchange) => self.exchange_send(exchange, out),
            None => self.get_stream_send(&task.scope.session, out),
        }
    }

    /// The exchange of the task, if messages can still go out on it.
    fn stream_at_hand(&self, task: &Task) -> Option<u64> {
        let exchange = task.scope.exchange?;
        let entry = self.http.exchanges.get(&exchange)?;
        let usable = match entry.stream.and_then(|key| self.http.streams.get(&key)) {
            Some(stream) => !stream.finished && (stream.exchange.is_some() || stream.log.is_some()),
            None => entry.has_requests && !entry.done,
        };
        usable.then_some(exchange)
    }

    fn get_stream_send(&mut self, session: &Option<String>, out: Out) {
        if !self.script.http.get_stream {
            return;
        }
        let candidates =
            || self.http.streams.iter().rev().filter(|(_, s)| s.get && !s.finished && s.session == *session);
        let key = candidates()
            .find(|(_, s)| s.exchange.is_some())
            .or_else(|| candidates().find(|(_, s)| s.log.is_some()))
            .map(|(key, _)| *key);
        match key {
            Some(key) => self.stream_send(key, SseEvent::message(out.text), out.fault),
            None => {
                let waiting = self.http.waiting.entry(session.clone()).or_default();
                if waiting.len() < MAX_KEPT {
                    waiting.push_back(out);
                }
            }
        }
    }

    // ---- streams ----

    /// Shows the head of the stream that a held or dropped answer would come on.
    pub(super) fn show_stream(&mut self, task: &Task) {
        if let Some(exchange) = task.scope.exchange
            && let Some(entry) = self.http.exchanges.get(&exchange)
            && entry.sse
            && entry.has_requests
            && entry.stream.is_none()
            && !entry.done
        {
            self.open_stream(exchange, false);
        }
    }

    pub(super) fn force_stream(&mut self, task: &Task) {
        if let Some(entry) = task.scope.exchange.and_then(|e| self.http.exchanges.get_mut(&e)) {
            entry.sse = true;
        }
    }

    fn open_stream(&mut self, exchange: u64, get: bool) {
        self.http.streams_made += 1;
        let key = self.http.streams_made;
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.done || entry.stream.is_some() {
            return;
        }
        entry.stream = Some(key);
        let stream = Stream {
            session: entry.session.clone(),
            exchange: Some(exchange),
            get,
            log: self.script.http.event_ids.then(Vec::new),
            events: 0,
            finished: false,
        };
        self.http.streams.insert(key, stream);
        self.forget_old_streams();
        self.head(exchange);
        if self.script.http.priming {
            let id = self.event_id(key);
            self.stream_send(
                key,
                SseEvent { id: Some(id), data: Some(String::new()), ..SseEvent::default() },
                false,
            );
        }
    }

    fn head(&mut self, exchange: u64) {
        let mut headers = vec![
            ("content-type".to_owned(), "text/event-stream".to_owned()),
            ("cache-control".into(), "no-cache".into()),
        ];
        if let Some(entry) = self.http.exchanges.get(&exchange)
            && let Some(session) = entry.session.as_ref().filter(|_| entry.new_session)
        {
            headers.push(("mcp-session-id".into(), session.clone()));
        }
        let seen = HttpResponse {
            exchange,
            status: 200,
            headers: headers.clone(),
            body: None,
            scripted_fault: false,
        };
        self.observe(What::HttpResponse(seen));
        self.effect(Effect::Head { exchange, status: 200, headers });
    }

    fn forget_old_streams(&mut self) {
        while self.http.streams.len() > MAX_KEPT {
            let Some(key) =
                self.http.streams.iter().find(|(_, s)| s.finished || s.exchange.is_none()).map(|(k, _)| *k)
            else {
                return;
            };
            self.http.streams.remove(&key);
        }
    }

    /// A fresh event id; unique over the server, as ids have to be within a session.
    fn event_id(&mut self, key: u64) -> String {
        let events = self.http.streams.get_mut(&key).map_or(0, |stream| {
            stream.events += 1;
            stream.events
        });
        format!("stream{key}/{events}")
    }

    fn stream_send(&mut self, key: u64, mut event: SseEvent, fault: bool) {
        if self.script.http.event_ids && event.id.is_none() {
            event.id = Some(self.event_id(key));
        }
        let Some(stream) = self.http.streams.get_mut(&key) else { return };
        if stream.finished {
            return;
        }
        if let Some(log) = &mut stream.log {
            log.push(event.clone());
        }
        if let Some(exchange) = stream.exchange {
            self.event_out(exchange, event, fault);
        }
    }

    fn event_out(&mut self, exchange: u64, event: SseEvent, fault: bool) {
        let mut bytes = Vec::new();
        event.write(LineEnd::Lf, &mut bytes);
        self.observe(What::StreamEvent(StreamEvent {
            exchange,
            data: event.data,
            id: event.id,
            event: event.event,
            retry: event.retry,
            raw: None,
            scripted_fault: fault,
        }));
        self.effect(Effect::Chunk { exchange, bytes });
    }

    fn raw_out(&mut self, exchange: u64, text: &str, split_every: Option<u32>, fault: bool) {
        self.observe(What::StreamEvent(StreamEvent {
            exchange,
            raw: Some(text.to_owned()),
            scripted_fault: fault,
            ..StreamEvent::default()
        }));
        let size = split_every.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)).max(1);
        for piece in text.as_bytes().chunks(size) {
            self.effect(Effect::Chunk { exchange, bytes: piece.to_vec() });
        }
    }

    /// Ends the response; its stream lives on if it is to be resumed.
    fn end(&mut self, exchange: u64) {
        self.finish_stream(exchange);
        self.end_response(exchange, false);
    }

    fn finish_stream(&mut self, exchange: u64) {
        let key = self.http.exchanges.get(&exchange).and_then(|e| e.stream);
        if let Some(stream) = key.and_then(|key| self.http.streams.get_mut(&key)) {
            stream.finished = true;
            // Another exchange may carry it by now.
            if let Some(carrier) = stream.exchange.filter(|carrier| *carrier != exchange) {
                self.end_response(carrier, false);
            }
        }
    }

    fn end_response(&mut self, exchange: u64, reset: bool) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if std::mem::replace(&mut entry.done, true) {
            return;
        }
        if let Some(stream) = entry.stream.and_then(|key| self.http.streams.get_mut(&key)) {
            stream.exchange = None;
        }
        self.observe(What::StreamEnded { exchange, by: Party::Server });
        self.effect(if reset { Effect::Reset { exchange } } else { Effect::End { exchange } });
        self.tidy(exchange);
    }

    fn tidy(&mut self, exchange: u64) {
        if self.http.exchanges.get(&exchange).is_some_and(|e| e.done && e.open == 0) {
            self.http.exchanges.remove(&exchange);
        }
    }

    pub(super) fn gone(&mut self, exchange: u64) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if std::mem::replace(&mut entry.done, true) {
            return;
        }
        if let Some(key) = entry.stream
            && let Some(stream) = self.http.streams.get_mut(&key)
        {
            stream.exchange = None;
            if stream.log.is_none() {
                stream.finished = true;
            }
        }
        self.observe(What::StreamEnded { exchange, by: Party::Client });
        self.tidy(exchange);
    }

    /// The stream and the position in its log of an event id.
    fn find_event(&self, id: &str) -> Option<(u64, usize)> {
        self.http.streams.iter().find_map(|(key, stream)| {
            let position = stream.log.as_ref()?.iter().position(|e| e.id.as_deref() == Some(id))?;
            Some((*key, position))
        })
    }

    /// Carries a stream on by this exchange, from the event after `after` on. Whether it is a GET stream.
    fn resume_stream(&mut self, exchange: u64, key: u64, after: usize) -> bool {
        let Some(stream) = self.http.streams.get_mut(&key) else { return false };
        let (get, finished) = (stream.get, stream.finished);
        let missed: Vec<SseEvent> = stream.log.iter().flatten().skip(after + 1).cloned().collect();
        let before = stream.exchange.replace(exchange);
        if let Some(before) = before {
            // The client came again before it had noticed the end of the old one.
            self.end_response(before, false);
            if let Some(stream) = self.http.streams.get_mut(&key) {
                stream.exchange = Some(exchange);
            }
        }
        if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
            entry.stream = Some(key);
            entry.resumed = true;
        }
        self.head(exchange);
        for event in missed {
            self.event_out(exchange, event, false);
        }
        if finished {
            self.end_response(exchange, false);
        }
        get
    }

    fn close_get_streams(&mut self, session: Option<&str>) {
        let open: Vec<u64> = self
            .http
            .streams
            .values()
            .filter(|s| s.get && s.session.as_deref() == session)
            .filter_map(|s| s.exchange)
            .collect();
        for exchange in open {
            self.end_response(exchange, false);
        }
    }

    // ---- actions ----

    pub(super) fn act_http(&mut self, task: &mut Task, action: Action) {
        let exchange = task.scope.exchange;
        match (action, exchange) {
            (Action::CloseGetStream, _) => self.close_get_streams(task.scope.session.as_deref()),
            (Action::SseComment(text), _) => self.comment(task, &text),
            (Action::Answers(style), Some(exchange)) => {
                let sse = self.is_sse(style);
                if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
                    entry.sse = sse;
                }
            }
            (Action::Status(status), Some(exchange)) => {
                task.answered = true;
                self.status(exchange, status);
            }
            (Action::CutStream(cut), Some(exchange)) => self.cut_stream(task, exchange, &cut),
            (Action::Reset, Some(exchange)) => {
                task.answered = true;
                self.end_response(exchange, true);
            }
            (Action::Stall, Some(_)) => {
                task.answered = true;
                task.dropped = true;
            }
            (Action::ExpireSession, _) => {
                if let Some(session) = &task.scope.session {
                    self.http.sessions.remove(session);
                    self.http.waiting.remove(&Some(session.clone()));
                }
                task.answered = true;
                task.expired = exchange.is_some();
            }
            (Action::RawBody(raw), Some(exchange)) => self.raw_body(task, exchange, &raw),
            _ => {}
        }
    }

    fn comment(&mut self, task: &Task, text: &str) {
        let text: String = text.split('\n').map(|line| format!(": {line}\n")).collect::<String>() + "\n";
        let exchange = self.stream_at_hand(task).or_else(|| {
            let mut streams = self.http.streams.values().rev();
            streams.find(|s| s.get && s.exchange.is_some() && s.session == task.scope.session)?.exchange
        });
        let Some(exchange) = exchange else { return };
        if self.http.exchanges.get(&exchange).is_some_and(|e| e.stream.is_none()) {
            self.open_stream(exchange, false);
        }
        if self.http.exchanges.get(&exchange).is_some_and(|e| !e.done) {
            self.raw_out(exchange, &text, None, false);
        }
    }

    fn status(&mut self, exchange: u64, status: StatusAnswer) {
        let origins = self.http.origins.clone();
        let headers = status
            .headers
            .into_iter()
            .map(|(name, value)| {
                let value = value.replace("{origin}", &origins.own).replace("{other}", &origins.other);
                (name.to_ascii_lowercase(), value)
            })
            .collect();
        // A failure is an honest answer; a success that the script made up may be anything.
        let fault = (200..300).contains(&status.code);
        self.give(exchange, status.code, headers, status.body, fault);
    }

    fn cut_stream(&mut self, task: &mut Task, exchange: u64, cut: &CutStream) {
        self.open_stream(exchange, false);
        let Some(key) = self.http.exchanges.get(&exchange).and_then(|e| e.stream) else { return };
        if cut.resumable
            && let Some(stream) = self.http.streams.get_mut(&key)
        {
            stream.log.get_or_insert_default();
        }
        let id = cut
            .id
            .clone()
            .or_else(|| (cut.resumable && !self.script.http.priming).then(|| self.event_id(key)));
        if id.is_some() || cut.retry_ms.is_some() {
            let data = id.is_some().then(String::new);
            // Only 2025-11-25 describes events with an id and no message.
            let fault = self.revision < Revision::V2025_11_25;
            self.stream_send(key, SseEvent { id, data, retry: cut.retry_ms, event: None }, fault);
        }
        self.enter(exchange);
        self.end_response(exchange, cut.reset);
        let answer = task.request.as_ref().filter(|_| cut.resumable).map(|r| self.faithful(r));
        if let Some(answer) = answer {
            let id = Some(self.event_id(key));
            self.stream_send(key, SseEvent { id, ..SseEvent::message(answer.to_string()) }, false);
        }
        if let Some(stream) = self.http.streams.get_mut(&key) {
            stream.finished = true;
        }
        self.release(exchange);
        task.answered = true;
    }

    fn raw_body(&mut self, task: &mut Task, exchange: u64, raw: &RawBody) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.done || entry.stream.is_some() {
            return;
        }
        let mut text = raw.text.clone();
        if let Some(request) = &task.request {
            let answer = self.faithful(request);
            let result = answer.get("result").map(Value::to_string).unwrap_or_default();
            text = text.replace("$id", &request.id.to_string()).replace("$result", &result);
        }
        let content_type = raw.content_type.clone().unwrap_or_else(|| "text/event-stream".into());
        let fault = !is_honest_body(&content_type, &text);
        let mut headers = vec![("content-type".to_owned(), content_type)];
        if let Some(entry) = self.http.exchanges.get(&exchange)
            && let Some(session) = entry.session.as_ref().filter(|_| entry.new_session)
        {
            headers.push(("mcp-session-id".into(), session.clone()));
        }
        let seen = HttpResponse {
            exchange,
            status: 200,
            headers: headers.clone(),
            body: None,
            scripted_fault: fault,
        };
        self.observe(What::HttpResponse(seen));
        self.effect(Effect::Head { exchange, status: 200, headers });
        self.raw_out(exchange, &text, raw.split_every, fault);
        self.enter(exchange);
        self.end_response(exchange, false);
        self.release(exchange);
        task.answered = true;
    }
}

fn nothing_here() -> Answer {
    Answer::bare(404)
}

fn json_type() -> Vec<(String, String)> {
    vec![("content-type".into(), "application/json".into())]
}

/// Whether a body that a script spelt out holds nothing but valid messages.
fn is_honest_body(content_type: &str, text: &str) -> bool {
    match content_type.split(';').next().map(str::trim) {
        Some("text/event-stream") => {
            let mut reader = SseReader::new(usize::MAX);
            let items = reader.push(text.as_bytes()).unwrap_or_default();
            !reader.is_mid_event()
                && items.iter().all(|item| match item {
                    SseItem::Event(event) => match event.data.as_deref() {
                        None | Some("") => true,
                        Some(data) => event.is_message() && jsonrpc::inspect(data).is_valid(),
                    },
                    SseItem::Comment(_) => true,
                })
        }
        Some("application/json") => jsonrpc::inspect(text).is_valid(),
        _ => false,
    }
}
