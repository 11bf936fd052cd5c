//! Requests: whether they are admitted, and who deals with them.

use super::{Exchange, MAX_SESSIONS, Session, endpoint_path, json_type};
use crate::auth::Answer;
use crate::core::{Broken, Out, Pending, Scope, ServerCore, Task, Then, broken};
use crate::script::{AnswerStyle, HttpVerb, Resume, Trigger};
use serde_json::json;
use sha2::{Digest, Sha256};
use sparring_wire::jsonrpc::{self, Envelope, Inspected, codes};
use sparring_wire::transcript::{HttpRequest, HttpRole, What};

pub(super) fn header<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

/// Whether the Accept headers allow a media type, wildcards included.
pub(super) fn accepts(request: &HttpRequest, wanted: &str) -> bool {
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
    pub(in crate::core) fn request(&mut self, request: Box<HttpRequest>) {
        let exchange = request.exchange;
        self.observe_with(|| What::HttpRequest((*request).clone()));
        let counts = self.script.http.connections.responses.is_some() && request.role == HttpRole::Mcp;
        let takes_gzip = header(&request, "accept-encoding").is_some_and(|v| v.contains("gzip"));
        let connection = counts.then_some(request.connection);
        let last_of_connection = header(&request, "connection")
            .is_some_and(|v| v.split(',').any(|option| option.trim().eq_ignore_ascii_case("close")));
        let entry = Exchange { connection, takes_gzip, last_of_connection, ..Exchange::default() };
        self.http.exchanges.insert(exchange, entry);
        self.enter(exchange);
        self.arrived(exchange, request);
        self.release(exchange);
    }

    pub(super) fn arrived(&mut self, exchange: u64, request: Box<HttpRequest>) {
        match request.role {
            HttpRole::Mcp => {}
            HttpRole::Other => return self.give(exchange, 200, json_type(), "{}".into(), false),
            HttpRole::AuthorizationServer => {
                let now = self.now;
                let answer =
                    self.http.auth.as_mut().map_or_else(nothing_here, |auth| auth.handle(&request, now));
                return self.give_auth(exchange, answer);
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
                let pending = self.script.rules.iter().any(|rule| rule.on.has(&Trigger::Http(verb)));
                let pending = pending.then(|| jsonrpc::inspect(&request.body).envelope);
                let pending = match pending {
                    Some(Envelope::Request { id: Some(id), method, params }) if verb == HttpVerb::Post => {
                        let revision = self.revision_for(
                            &Envelope::Request {
                                id: Some(id.clone()),
                                method: method.clone(),
                                params: params.clone(),
                            },
                            header(&request, "mcp-protocol-version"),
                            header(&request, "mcp-session-id"),
                        );
                        Some(Pending::new(id, method, params, revision))
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

    pub(super) fn is_endpoint(&self, request: &HttpRequest) -> bool {
        let path = request.target.split('?').next().unwrap_or_default();
        (self.is_streamable() && path == endpoint_path(&self.script)) || self.legacy_part(request).is_some()
    }

    /// Deals with an HTTP request that no rule took.
    pub(in crate::core) fn look(&mut self, request: &HttpRequest) {
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
            return self.give_auth(exchange, answer);
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
                return self.give_auth(exchange, answer);
            }
        }
        if let Some(part) = self.legacy_part(request)
            && self.legacy(request, &part, message.as_ref())
        {
            return;
        }
        match (request.method.as_str(), message) {
            ("POST", Some(message)) => self.post(request, &message),
            ("GET", _) => self.get(request),
            ("DELETE", _) => self.delete(request),
            _ => self.not_allowed(exchange),
        }
    }

    pub(super) fn post(&mut self, request: &HttpRequest, message: &Inspected) {
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
        let session = header(request, "mcp-session-id");
        let revision = self.revision_for(&message.envelope, header(request, "mcp-protocol-version"), session);
        if !revision.is_stateless() && !self.admit_session(request, initializes) {
            return;
        }
        let unusable = match &message.envelope {
            Envelope::Result { .. } | Envelope::Error { .. } if revision.is_stateless() => Some(Broken {
                code: codes::INVALID_REQUEST,
                message: "no response is welcome here".into(),
                id: None,
                response: true,
            }),
            Envelope::Batch(members) if members.is_empty() || !revision.has_batching() => Some(Broken {
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
        let with_session = self.script.http.sessions && !revision.is_stateless();
        let mut session = session.map(str::to_owned).filter(|_| with_session);
        let has_requests = message.messages().iter().any(|m| matches!(m.envelope, Envelope::Request { .. }));
        if initializes && with_session {
            if self.http.sessions.len() >= MAX_SESSIONS {
                return self.refuse_http(exchange, 503, codes::INTERNAL_ERROR, "too many sessions");
            }
            session = Some(self.new_session());
        }
        if has_requests {
            self.http.posts += 1;
        }
        let sse = self.is_sse(self.script.http.answers);
        let refused = match &message.envelope {
            Envelope::Request { method, params, .. } if revision.is_stateless() => {
                self.refusal(method, params.as_ref(), Some(request))
            }
            _ => None,
        };
        if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
            entry.session.clone_from(&session);
            entry.new_session = initializes && session.is_some();
            entry.has_requests = has_requests;
            entry.batch = matches!(message.envelope, Envelope::Batch(_));
            entry.sse = sse;
            entry.version = header(request, "mcp-protocol-version").map(str::to_owned);
            entry.stateless = revision.is_stateless();
            entry.refused = refused;
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

    pub(super) fn is_sse(&self, style: AnswerStyle) -> bool {
        match style {
            AnswerStyle::Json => false,
            AnswerStyle::Sse => true,
            AnswerStyle::Alternate => self.http.posts.is_multiple_of(2),
        }
    }

    /// Checks the session id and the version header, and answers if they won't do.
    pub(super) fn admit_session(&mut self, request: &HttpRequest, initializes: bool) -> bool {
        let exchange = request.exchange;
        if self.script.http.sessions {
            match header(request, "mcp-session-id") {
                None if !initializes => {
                    self.refuse_http(exchange, 400, codes::INVALID_REQUEST, "Mcp-Session-Id is missing");
                    return false;
                }
                Some(id) if !self.http.sessions.contains_key(id) => {
                    self.lost_session(exchange);
                    return false;
                }
                _ => {}
            }
        }
        let session = header(request, "mcp-session-id").filter(|_| self.script.http.sessions);
        let revision = self.revision_for(&Envelope::Unknown, None, session);
        if revision.has_version_header()
            && !initializes
            && let Some(version) = header(request, "mcp-protocol-version")
            && version != self.model.version(revision)
            && version != revision.as_str()
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

    pub(super) fn new_session(&mut self) -> String {
        self.http.sessions_made += 1;
        let listed = usize::try_from(self.http.sessions_made - 1).ok();
        let listed = listed.and_then(|n| self.script.http.session_ids.get(n)).cloned();
        let id: String = listed.unwrap_or_else(|| {
            let made = Sha256::digest(format!("session {} {}", self.seed, self.http.sessions_made));
            made.iter().take(12).map(|b| format!("{b:02x}")).collect()
        });
        self.http
            .sessions
            .insert(id.clone(), Session { number: self.http.sessions_made, ..Session::default() });
        id
    }

    pub(super) fn get(&mut self, request: &HttpRequest) {
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
                let refuse = self.script.http.resume == Resume::Refuse;
                if refuse || self.http.streams.get(&key).is_none_or(|s| s.session != session) {
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
                let open = self.http.get_streams.get(&session).map_or(0, |keys| {
                    let open = |key: &&u64| self.http.streams.get(key).is_some_and(|s| s.exchange.is_some());
                    keys.iter().filter(open).count()
                });
                if self.script.http.get_streams.is_some_and(|most| open >= most as usize) {
                    let why = "no further stream can be open at the same time";
                    return self.refuse_http(exchange, 409, codes::INVALID_REQUEST, why);
                }
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

    pub(super) fn delete(&mut self, request: &HttpRequest) {
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

    pub(super) fn not_allowed(&mut self, exchange: u64) {
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

    pub(super) fn refuse_http(&mut self, exchange: u64, status: u16, code: i64, message: &str) {
        let body = json!({"jsonrpc": "2.0", "error": {"code": code, "message": message}});
        self.give(exchange, status, json_type(), body.to_string(), false);
    }

    /// Answers for the authorization server, or for the guard, when the answer is due.
    fn give_auth(&mut self, exchange: u64, mut answer: Answer) {
        let delay = std::mem::take(&mut answer.delay);
        if delay.is_zero() {
            return self.give(exchange, answer.status, answer.headers, answer.body, answer.fault);
        }
        let scope = Scope { exchange: Some(exchange), ..Scope::default() };
        self.later(delay, scope, Then::Give(Box::new(answer)));
    }

    /// The answer of a task that waited with it.
    pub(in crate::core) fn give_late(&mut self, task: &Task, answer: Answer) {
        if let Some(exchange) = task.scope.exchange {
            self.give_auth(exchange, answer);
        }
    }

    /// Answers a request whose session has been forgotten.
    pub(in crate::core) fn not_found(&mut self, task: &Task) {
        if let Some(exchange) = task.scope.exchange {
            self.lost_session(exchange);
        }
    }

    /// Answers a request that names a session that is not there.
    pub(super) fn lost_session(&mut self, exchange: u64) {
        match self.script.http.lost_session.clone() {
            Some(status) => self.status(exchange, &status, false),
            None => self.refuse_http(exchange, 404, codes::INVALID_REQUEST, "there is no such session"),
        }
    }
}

fn nothing_here() -> Answer {
    Answer::bare(404)
}
