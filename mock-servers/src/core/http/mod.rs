//! Exchanges, streams and sessions of an HTTP server.
//!
//! - here: what is kept of them, and how an exchange comes to its answer;
//! - `request`: whether a request is admitted, and who deals with it;
//! - `stream`: event streams, which may outlive the response that carries them;
//! - `legacy`: HTTP+SSE of 2024-11-05;
//! - `sse`: events as text, `wire`: responses as bytes, where scripts want them other than usual;
//! - `act`: the actions of scripts that concern HTTP.

mod act;
mod legacy;
mod request;
mod sse;
mod stream;
mod wire;

pub use legacy::legacy_path;
use wire::Response;

use super::era::Peer;
use super::stdio::gather;
use super::{Out, Scope, ServerCore, Task, Then};
use crate::auth::AuthServer;
use crate::model::RpcError;
use crate::script::{Action, OtherStream, ServerScript, SseStyle};
use sparring_wire::sse::SseEvent;
use std::collections::{BTreeMap, VecDeque};

/// The endpoint's path.
pub fn endpoint_path(script: &ServerScript) -> &str {
    script.http.path.as_deref().unwrap_or("/mcp")
}

/// What `{{origin}}` and `{{other}}` stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    /// The endpoint's origin, such as `http://127.0.0.1:4000`.
    pub own: String,
    /// The origin of the second listener.
    pub other: String,
}

/// Sessions open at a time; more are refused. A session without a stream takes some hundred bytes.
const MAX_SESSIONS: usize = 1 << 17;
/// Ended streams kept for resumption, and messages kept for a GET stream that is not open.
const MAX_KEPT: usize = 1024;

#[derive(Debug, Default)]
pub(in crate::core) struct HttpState {
    origins: Origins,
    auth: Option<AuthServer>,
    sessions: BTreeMap<String, Session>,
    sessions_made: u64,
    exchanges: BTreeMap<u64, Exchange>,
    streams: BTreeMap<u64, Stream>,
    streams_made: u64,
    /// The GET streams of each session, oldest first.
    get_streams: BTreeMap<Option<String>, Vec<u64>>,
    /// Streams that nothing carries any more and that may be resumed, the longest abandoned first.
    kept: VecDeque<u64>,
    /// Responses on each connection so far, if the script closes connections after some.
    responses: BTreeMap<u64, u32>,
    /// Messages that wait for a GET stream, by session.
    waiting: BTreeMap<Option<String>, VecDeque<Out>>,
    /// POSTs with requests so far, for `alternate`.
    posts: u64,
    /// Stands in when a session is asked for that is gone.
    nowhere: bool,
}

#[derive(Debug, Default)]
struct Session {
    /// The how manieth it is.
    number: u64,
    open: bool,
    peer: Peer,
    /// It is one of HTTP+SSE: the path that its messages are posted to.
    legacy: Option<String>,
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
    /// The `MCP-Protocol-Version` of the request.
    version: Option<String>,
    /// It is a request of the stateless revision, and why that does not take it.
    stateless: bool,
    refused: Option<RpcError>,
    /// It is a POST of HTTP+SSE, whose answers go out on the session's stream.
    legacy: bool,
    /// The connection, if the script counts what comes on it.
    connection: Option<u64>,
    takes_gzip: bool,
    /// The client wants the connection to end with the response.
    last_of_connection: bool,
    /// The session that the response names is not the one of the request.
    session_changed: bool,
    /// Its stream stays open after the answer.
    keep_open: bool,
    /// Where its answer goes.
    answer_on: Option<OtherStream>,
    style: Option<Box<SseStyle>>,
    written: sse::Written,
    shape: Option<Box<wire::Shape>>,
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
    pub(in crate::core) fn new(origins: Origins, auth: Option<AuthServer>) -> Self {
        Self { origins, auth, ..Self::default() }
    }

    /// Whether no exchange is open.
    #[cfg(test)]
    pub(in crate::core) fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
    }

    #[cfg(test)]
    pub(in crate::core) fn first_session(&self) -> String {
        self.sessions.keys().next().cloned().unwrap_or_default()
    }

    pub(in crate::core) fn newest_session(&self) -> Option<String> {
        let newest = self.sessions.iter().max_by_key(|(_, session)| session.number);
        newest.map(|(id, _)| id.clone())
    }

    pub(in crate::core) const fn origins(&self) -> &Origins {
        &self.origins
    }

    pub(in crate::core) fn session_of(&self, exchange: u64) -> Option<String> {
        self.exchanges.get(&exchange)?.session.clone()
    }

    pub(in crate::core) fn open_sessions(&self) -> Vec<String> {
        let mut sessions: Vec<_> = self.sessions.iter().map(|(id, session)| (session.number, id)).collect();
        sessions.sort();
        sessions.into_iter().map(|(_, id)| id.clone()).collect()
    }

    pub(in crate::core) fn open_exchanges(&self) -> Vec<u64> {
        self.exchanges.iter().filter(|(_, exchange)| !exchange.done).map(|(number, _)| *number).collect()
    }

    pub(in crate::core) fn peer(&self, session: &str) -> Option<&Peer> {
        self.sessions.get(session).map(|s| &s.peer)
    }

    pub(in crate::core) fn peer_mut(&mut self, session: &str) -> Option<&mut Peer> {
        self.sessions.get_mut(session).map(|s| &mut s.peer)
    }

    /// The `MCP-Protocol-Version` that a message came with, and why the stateless revision does not take it.
    pub(in crate::core) fn refusal_of(&self, scope: &Scope) -> (Option<String>, Option<RpcError>) {
        let exchange = scope.exchange.and_then(|exchange| self.exchanges.get(&exchange));
        exchange.map_or((None, None), |e| (e.version.clone(), e.refused.clone()))
    }

    pub(in crate::core) fn session_open(&mut self, session: &str) -> &mut bool {
        match self.sessions.get_mut(session) {
            Some(session) => &mut session.open,
            None => &mut self.nowhere,
        }
    }
}

impl ServerCore {
    /// A task starts work on an exchange.
    pub(in crate::core) fn enter(&mut self, exchange: u64) {
        if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
            entry.open += 1;
        }
    }

    /// A task has ended its work on an exchange.
    pub(in crate::core) fn leave(&mut self, exchange: u64, task: &Task) {
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
        if stream.is_some_and(|s| (s.get || entry.resumed || entry.keep_open) && !s.finished && !entry.done) {
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
    pub(in crate::core) fn parked(&mut self, task: &Task) {
        let Some(exchange) = task.scope.exchange else { return };
        let plain = self
            .http
            .exchanges
            .get(&exchange)
            .is_some_and(|e| !e.has_requests && e.stream.is_none() && !e.done);
        if plain
            && matches!(task.then, Then::Nothing)
            && !task.expired
            && !task.actions.iter().any(Action::answers_http)
        {
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
        if entry.is_over() || entry.stream.is_some() {
            return;
        }
        entry.done = true;
        self.response_out(exchange, Response { status, headers, body: Some(body), fault });
    }

    fn json_answer(&mut self, exchange: u64, out: Out) {
        let mut headers = json_type();
        let fault = if out.error { None } else { self.name_session(exchange, &mut headers) };
        let status = out.status.unwrap_or(200);
        self.give(exchange, status, headers, out.text, out.fault || fault.unwrap_or_default());
    }

    /// Names the session if it is new, in a response's head; whether there is something wrong with that.
    fn name_session(&self, exchange: u64, headers: &mut Vec<(String, String)>) -> Option<bool> {
        let entry = self.http.exchanges.get(&exchange)?;
        let session = entry.session.as_ref().filter(|_| entry.new_session)?;
        headers.push(("mcp-session-id".into(), session.clone()));
        Some(entry.session_changed || !session.bytes().all(|b| b.is_ascii_graphic()))
    }

    /// Sends a message on an exchange: as its JSON body if it is the answer and nothing asks for a stream, or else as
    /// an event.
    pub(in crate::core) fn exchange_send(&mut self, exchange: u64, out: Out) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.legacy {
            let session = entry.session.clone();
            return self.get_stream_send(&session, out);
        }
        if out.answer
            && let Some(other) = entry.answer_on.take()
        {
            return self.send_elsewhere(exchange, other, out);
        }
        // What has a status of its own is no event.
        let whole = !entry.sse || out.status.is_some();
        if out.answer && whole && entry.stream.is_none() && !entry.done {
            if entry.batch {
                entry.gathered.push(out);
            } else {
                self.json_answer(exchange, out);
            }
            return;
        }
        if !entry.is_over() && entry.stream.is_none() {
            self.open_stream(exchange, false);
        }
        if let Some(key) = self.http.exchanges.get(&exchange).and_then(|e| e.stream) {
            self.stream_send(key, SseEvent::message(out.text), out.fault);
        }
    }

    /// Sends a message that is no answer.
    pub(in crate::core) fn http_send(&mut self, task: &Task, out: Out, on_get_stream: bool) {
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

    /// Sends an answer on a stream that it does not belong to, and nothing but the head of a stream on its own.
    fn send_elsewhere(&mut self, exchange: u64, other: OtherStream, out: Out) {
        self.open_stream(exchange, false);
        let session = self.http.exchanges.get(&exchange).and_then(|e| e.session.clone());
        let out = Out { fault: true, ..out };
        match other {
            OtherStream::GetStream => self.get_stream_send(&session, out),
            OtherStream::OtherPost => {
                let own = self.http.exchanges.get(&exchange).and_then(|e| e.stream);
                let other = self.http.streams.iter().rev().find(|(key, s)| {
                    Some(**key) != own
                        && !s.get
                        && !s.finished
                        && s.exchange.is_some()
                        && s.session == session
                });
                if let Some(key) = other.map(|(key, _)| *key) {
                    self.stream_send(key, SseEvent::message(out.text), true);
                }
            }
        }
    }

    fn get_stream_send(&mut self, session: &Option<String>, out: Out) {
        if !self.script.http.get_stream && !self.is_legacy(session.as_deref()) {
            return;
        }
        let candidates = || {
            let keys = self.http.get_streams.get(session).into_iter().flatten().rev();
            keys.filter_map(|key| Some((*key, self.http.streams.get(key)?))).filter(|(_, s)| !s.finished)
        };
        let key = candidates()
            .find(|(_, s)| s.exchange.is_some())
            .or_else(|| candidates().find(|(_, s)| s.log.is_some()))
            .map(|(key, _)| key);
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
}

fn json_type() -> Vec<(String, String)> {
    vec![("content-type".into(), "application/json".into())]
}
