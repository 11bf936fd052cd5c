//! The client's side of one protocol session, without I/O: messages and the time go in, [`Action`]s come out.
//!
//! Time is a [`Duration`] since any fixed moment. After each call, take the actions with [`Session::next_action`]
//! and look at [`Session::deadline`] again.

mod asks;
mod envelope;
mod gate;

pub use asks::{Ask, AskKey, ElicitAnswer, Elicitation, RpcError, Sampling};

use crate::error::Error;
use crate::raw::Raw;
use crate::settings::{Declared, Root, Settings, Timeouts};
use asks::Asks;
use envelope::Envelope;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sparring_wire::jsonrpc::{self, codes};
use sparring_wire::{Id, Revision};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// Names a request at the caller, whatever id it has on the wire. Never used twice by one [`Session`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Send this message.
    Send(Value),
    /// The request has ended. Each one ends exactly once.
    Resolve {
        /// Which request.
        ticket: Ticket,
        /// Its result, not parsed yet.
        outcome: Result<Raw, Error>,
    },
    /// The id on the wire will not be answered any more (timeout, cancellation).
    Forget(Id),
    /// Progress of a request.
    Progress {
        /// Which request.
        ticket: Ticket,
        /// How far it is.
        progress: Progress,
    },
    /// Ask the embedding program; answer with [`Session::answer`].
    Ask {
        /// Names the question.
        key: AskKey,
        /// The question.
        ask: Ask,
    },
    /// The server no longer wants an answer.
    AskCancelled(AskKey),
    /// The handshake is done.
    Ready(Negotiated),
    /// Something happened that the caller may want to know.
    Event(Event),
    /// Close the connection; nothing further will be sent.
    Disconnect(Error),
}

/// What the handshake settled.
#[derive(Debug, Clone, PartialEq)]
pub struct Negotiated {
    /// The revision spoken from now on.
    pub revision: Revision,
    /// The server's capabilities.
    pub capabilities: Map<String, Value>,
    /// `serverInfo` as the server gave it.
    pub server_info: Value,
    /// `instructions`.
    pub instructions: Option<String>,
}

/// A `notifications/progress`.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far.
    pub progress: f64,
    /// Out of how much.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

/// A kind of list that can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// `tools/list`
    Tools,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
    /// `prompts/list`
    Prompts,
}

impl ListKind {
    /// The method that lists it.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The member of the result that holds the entries.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The member of an entry that names it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

/// Something the caller may want to know.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A log message of the server: the params of `notifications/message`.
    Log(Value),
    /// Progress of a request.
    Progress {
        /// The request's method.
        method: String,
        /// How far it is.
        progress: Progress,
    },
    /// A list changed at the server.
    ListChanged(ListKind),
    /// A list was read again after such a change, with this many entries or this error.
    Refetched {
        /// Which list.
        kind: ListKind,
        /// What came of it.
        outcome: Result<usize, Error>,
    },
    /// A resource changed.
    ResourceUpdated {
        /// Its URI.
        uri: String,
    },
    /// An elicitation by URL is complete.
    ElicitationComplete {
        /// Its id.
        id: String,
    },
    /// The server cancelled a request of its own, for this reason.
    ServerCancelled {
        /// The reason, if it gave one.
        reason: Option<String>,
    },
    /// Any notification of the server, whether it means something to this client or not. Those that do are followed
    /// by an event of their own.
    Notification {
        /// Its method.
        method: String,
        /// Its params; null if it has none.
        params: Value,
    },
    /// Something that is no valid message was skipped.
    Skipped {
        /// Why.
        reason: String,
        /// Its beginning.
        text: String,
    },
    /// An answer to no request that is still open (late, duplicate or foreign).
    Unmatched {
        /// Its id, as JSON.
        id: Value,
    },
    /// The session was lost and opened anew.
    Reopened,
    /// A message that needs no answer was refused by an HTTP status, or could not be sent.
    NotDelivered {
        /// Why.
        error: Error,
    },
    /// The standalone stream is not available (any more).
    NoStream {
        /// Why.
        error: Error,
    },
    /// The connection is gone.
    Closed {
        /// Why.
        error: Error,
    },
}

/// How one request is to be treated. `None` means: as the settings say.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestOptions {
    /// How long to wait for the answer.
    pub timeout: Option<Duration>,
    /// How long to wait in all, whatever progress is reported.
    pub ceiling: Option<Duration>,
    /// Whether progress starts the timeout anew.
    pub reset_on_progress: Option<bool>,
    /// Whether to ask for progress. Also implied by `reset_on_progress` for calls of tools.
    pub progress: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Initialize,
    Ping,
    Caller,
}

#[derive(Debug)]
struct Request {
    method: String,
    params: Option<Value>,
    purpose: Purpose,
    /// The id on the wire, once sent.
    id: Option<i64>,
    token: Option<String>,
    started: Duration,
    timeout: Duration,
    reset_on_progress: bool,
    deadline: Duration,
    /// Never waited for beyond this.
    ceiling: Duration,
    resent: bool,
    /// Since when its time stands still.
    held: Option<Duration>,
}

/// Whether a request asks for a page beyond the first of a list.
fn has_cursor(params: Option<&Value>) -> bool {
    params.is_some_and(|params| params.get("cursor").is_some())
}

/// A cursor ends with its session.
fn cursor_lost() -> Error {
    Error::Http { status: 404, message: "the session that the cursor belongs to is lost".to_owned() }
}

#[derive(Debug, PartialEq)]
enum Phase {
    /// Nothing sent yet, or the session was lost and the attempt to reopen it failed.
    Idle,
    Initializing(Ticket),
    Ready,
    Closed(Error),
}

/// One session. See the module's documentation.
#[derive(Debug)]
pub struct Session {
    offer: Revision,
    accept: Vec<Revision>,
    client_info: Value,
    declared: Declared,
    roots: Vec<Root>,
    timeouts: Timeouts,
    answer_pings: bool,
    ping_every: Option<Duration>,
    phase: Phase,
    negotiated: Option<Negotiated>,
    /// Whether a handshake has succeeded before.
    reopening: bool,
    /// Whether any request was answered in this session.
    useful: bool,
    /// Whether a ping of the client's own waits for its answer.
    pinging: bool,
    next_id: i64,
    next_ticket: u64,
    requests: HashMap<Ticket, Request>,
    by_id: HashMap<i64, Ticket>,
    by_token: HashMap<String, Ticket>,
    /// Requests that wait for the handshake, in order.
    waiting: VecDeque<Ticket>,
    timers: BTreeSet<(Duration, Ticket)>,
    asks: Asks,
    heard: Duration,
    actions: VecDeque<Action>,
}

impl Session {
    /// A session that has not begun; see [`Session::start`].
    pub fn new(settings: &Settings) -> Self {
        let mut client_info = Map::new();
        client_info.insert("name".into(), settings.name.as_str().into());
        if let Some(title) = &settings.title
            && settings.offer >= Revision::V2025_06_18
        {
            client_info.insert("title".into(), title.as_str().into());
        }
        client_info.insert("version".into(), settings.version.as_str().into());
        Self {
            offer: settings.offer,
            accept: settings.accept.clone(),
            client_info: Value::Object(client_info),
            declared: settings.declare.clone(),
            roots: settings.roots.clone(),
            timeouts: settings.timeouts,
            answer_pings: settings.answer_pings,
            ping_every: settings.ping_every,
            phase: Phase::Idle,
            negotiated: None,
            reopening: false,
            useful: false,
            pinging: false,
            next_id: 1,
            next_ticket: 1,
            requests: HashMap::new(),
            by_id: HashMap::new(),
            by_token: HashMap::new(),
            waiting: VecDeque::new(),
            timers: BTreeSet::new(),
            asks: Asks::default(),
            heard: Duration::ZERO,
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Session::tick`] has to be called at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        let request = self.timers.first().map(|(at, _)| *at);
        let ping = (self.phase == Phase::Ready).then(|| self.next_ping()).flatten();
        request.into_iter().chain(ping).min()
    }

    /// What the last handshake settled.
    pub const fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.as_ref()
    }

    /// Whether the session has ended.
    pub const fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed(_))
    }

    /// Why the session has ended, if it has.
    pub const fn closed_by(&self) -> Option<&Error> {
        match &self.phase {
            Phase::Closed(error) => Some(error),
            _ => None,
        }
    }

    /// Begins the handshake.
    pub fn start(&mut self, now: Duration) {
        if !matches!(self.phase, Phase::Idle) {
            return;
        }
        self.heard = now;
        self.useful = false;
        let params = json!({
            "protocolVersion": self.offer.as_str(),
            "capabilities": self.declared.to_json(self.offer),
            "clientInfo": self.client_info,
        });
        let options = RequestOptions {
            timeout: Some(self.timeouts.start),
            ceiling: Some(self.timeouts.start),
            reset_on_progress: Some(false),
            progress: false,
        };
        let ticket = self.enter(now, Purpose::Initialize, "initialize", Some(params), options);
        self.phase = Phase::Initializing(ticket);
        self.send(ticket);
    }

    /// Makes a request. An error means that nothing was sent.
    pub fn request(
        &mut self,
        now: Duration,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
    ) -> Result<Ticket, Error> {
        match &self.phase {
            Phase::Closed(error) => return Err(error.clone()),
            Phase::Initializing(_) | Phase::Idle if !self.reopening => {
                return Err(Error::Refused(format!("{method} before the handshake is done")));
            }
            _ => {}
        }
        if let Some(negotiated) = &self.negotiated {
            gate::allowed(method, params.as_ref(), negotiated).map_err(Error::Refused)?;
        }
        if params.as_ref().is_some_and(|p| !p.is_object()) {
            return Err(Error::Refused("params have to be an object".into()));
        }
        if self.reopening && self.phase != Phase::Ready && has_cursor(params.as_ref()) {
            return Err(cursor_lost());
        }
        let ticket = self.enter(now, Purpose::Caller, method, params, options);
        if self.phase == Phase::Ready {
            self.send(ticket);
        } else {
            self.waiting.push_back(ticket);
            self.start(now);
        }
        Ok(ticket)
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Option<Value>) -> Result<(), Error> {
        match &self.phase {
            Phase::Ready => {
                self.actions.push_back(Action::Send(jsonrpc::notification(method, params)));
                Ok(())
            }
            Phase::Closed(error) => Err(error.clone()),
            _ => Err(Error::Refused(format!("{method} before the handshake is done"))),
        }
    }

    /// Replaces the roots, and says so if that was declared.
    pub fn set_roots(&mut self, roots: Vec<Root>) {
        if self.roots == roots {
            return;
        }
        self.roots = roots;
        if self.declared.roots.is_some_and(|r| r.list_changed) && self.phase == Phase::Ready {
            let message = jsonrpc::notification("notifications/roots/list_changed", None);
            self.actions.push_back(Action::Send(message));
        }
    }

    /// Cancels a request of the caller; one that has ended already is left alone.
    pub fn cancel(&mut self, ticket: Ticket, reason: &str) {
        let Some(request) = self.requests.get(&ticket) else { return };
        if request.purpose == Purpose::Initialize {
            return;
        }
        self.withdraw(ticket, reason);
        self.resolve(ticket, Err(Error::Cancelled(reason.to_owned())));
    }

    /// A message on the wire will not be answered: sending it failed, or its HTTP exchange ended.
    pub fn fail(&mut self, now: Duration, id: &Id, error: Error) {
        let Some(ticket) = self.ticket_of(id) else { return };
        self.conclude(now, ticket, Err(error));
    }

    /// While a request waits for a person to log in, its time stands still.
    pub fn hold(&mut self, now: Duration, id: &Id, held: bool) {
        let Some(ticket) = self.ticket_of(id) else { return };
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        match (held, request.held) {
            (true, None) => {
                self.timers.remove(&(request.deadline, ticket));
                request.held = Some(now);
            }
            (false, Some(since)) => {
                request.held = None;
                request.ceiling = request.ceiling.saturating_add(now.saturating_sub(since));
                request.deadline = now.saturating_add(request.timeout).min(request.ceiling);
                self.timers.insert((request.deadline, ticket));
            }
            _ => {}
        }
    }

    /// The session is lost at the server (HTTP 404): a new handshake begins. The request with this id, which met the
    /// loss, is sent once more after it.
    pub fn session_lost(&mut self, now: Duration, id: Option<&Id>) {
        if self.is_closed() {
            return;
        }
        if self.phase == Phase::Ready {
            for key in self.asks.clear() {
                self.actions.push_back(Action::AskCancelled(key));
            }
            self.reopening = true;
            self.phase = Phase::Idle;
        }
        if let Some(id) = id {
            self.send_again(now, id);
        }
        // A session that was lost before it was of any use is not opened anew unless somebody needs it, or a server
        // that forgets at once would be asked without end.
        if self.useful {
            self.start(now);
        }
    }

    /// This request met the loss of a session that was known already: it is sent once more, in the new one.
    pub fn send_again(&mut self, now: Duration, id: &Id) {
        let Some(ticket) = self.ticket_of(id) else { return };
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        if request.purpose == Purpose::Initialize || request.resent {
            let message = "the session is lost again".to_owned();
            return self.conclude(now, ticket, Err(Error::Http { status: 404, message }));
        }
        if has_cursor(request.params.as_ref()) {
            return self.conclude(now, ticket, Err(cursor_lost()));
        }
        request.resent = true;
        self.unlink(ticket);
        if let Some(request) = self.requests.get_mut(&ticket) {
            request.id = None;
        }
        if self.phase == Phase::Ready {
            self.send(ticket);
        } else {
            self.waiting.push_back(ticket);
            self.start(now);
        }
    }

    /// The connection is gone: everything pending fails with `error`.
    pub fn close(&mut self, error: Error) {
        if self.is_closed() {
            return;
        }
        self.phase = Phase::Closed(error.clone());
        self.waiting.clear();
        let mut open: Vec<Ticket> = self.requests.keys().copied().collect();
        open.sort_unstable();
        for ticket in open {
            self.resolve(ticket, Err(error.clone()));
        }
        for key in self.asks.clear() {
            self.actions.push_back(Action::AskCancelled(key));
        }
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Duration) {
        while let Some(&(at, ticket)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.remove(&(at, ticket));
            let Some(request) = self.requests.get(&ticket) else { continue };
            let error = Error::Timeout { method: request.method.clone(), after: now - request.started };
            match request.purpose {
                Purpose::Ping => {
                    self.resolve(ticket, Err(error));
                    self.disconnect(Error::Closed("the server did not answer a ping in time".into()));
                }
                Purpose::Initialize => self.conclude(now, ticket, Err(error)),
                Purpose::Caller => {
                    self.withdraw(ticket, "timeout");
                    self.resolve(ticket, Err(error));
                }
            }
        }
        if self.phase == Phase::Ready && self.next_ping().is_some_and(|at| at <= now) {
            let options = RequestOptions {
                timeout: Some(self.timeouts.ping),
                ceiling: Some(self.timeouts.ping),
                ..RequestOptions::default()
            };
            self.pinging = true;
            let ticket = self.enter(now, Purpose::Ping, "ping", None, options);
            self.send(ticket);
        }
    }

    /// Takes in one message, as text. Results are not parsed: they come out as they are.
    pub fn receive(&mut self, now: Duration, text: impl Into<String>) {
        if self.is_closed() {
            return;
        }
        let whole = Raw::new(text.into());
        let text = whole.as_str();
        let body = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
        let read = match body.as_bytes().first() {
            None => return,
            Some(b'{') => {
                Envelope::read(body).map(|envelope| self.single(now, &whole, body, &envelope, None))
            }
            Some(b'[') => serde_json::from_str(body).map(|batch| self.batch(now, &whole, body, batch)),
            Some(_) => serde_json::from_str::<IgnoredAny>(body)
                .map(|_| self.skip("neither a JSON object nor an array", body)),
        };
        if let Err(error) = read {
            self.skip(&format!("not JSON: {error}"), body);
        }
    }

    /// A message was lost because it is longer than the client accepts; `start` is its beginning. The request it
    /// seems to answer fails.
    pub fn too_long(&mut self, now: Duration, start: &str, limit: usize) {
        let reason = format!("a message of the server is too large: more than {limit} bytes");
        let sent: Vec<Ticket> = self.by_id.values().copied().collect();
        let named = asks::leading_id(start).and_then(|id| self.ticket_of(&id));
        let ticket = named.or_else(|| sent.first().copied().filter(|_| sent.len() == 1));
        match ticket {
            Some(ticket) => self.conclude(now, ticket, Err(Error::Invalid(reason))),
            None => self.skip(&reason, start),
        }
    }

    /// Answers a question that [`Action::Ask`] put; ignored if the server has cancelled it.
    pub fn answer(&mut self, key: AskKey, answer: Result<Value, RpcError>) {
        let sent = self.asks.answer(key, answer);
        self.actions.extend(sent.map(Action::Send));
    }

    // ---- requests ----

    fn enter(
        &mut self,
        now: Duration,
        purpose: Purpose,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
    ) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let timeout = options.timeout.unwrap_or(self.timeouts.request);
        let reset = options.reset_on_progress.unwrap_or(self.timeouts.reset_on_progress);
        let ceiling =
            now.saturating_add(options.ceiling.unwrap_or_else(|| self.timeouts.ceiling.max(timeout)));
        let deadline = now.saturating_add(timeout).min(ceiling);
        let asks_progress = options.progress || (reset && method == "tools/call");
        let token = (purpose == Purpose::Caller && asks_progress).then(|| format!("progress-{}", ticket.0));
        if let Some(token) = &token {
            self.by_token.insert(token.clone(), ticket);
        }
        self.timers.insert((deadline, ticket));
        self.requests.insert(
            ticket,
            Request {
                method: method.to_owned(),
                params,
                purpose,
                id: None,
                token,
                started: now,
                timeout,
                reset_on_progress: reset,
                deadline,
                ceiling,
                resent: false,
                held: None,
            },
        );
        ticket
    }

    fn send(&mut self, ticket: Ticket) {
        let id = self.next_id;
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        self.next_id += 1;
        request.id = Some(id);
        self.by_id.insert(id, ticket);
        let mut params = request.params.clone();
        if let Some(token) = &request.token {
            let object = params.get_or_insert_with(|| json!({}));
            if let Some(object) = object.as_object_mut() {
                let meta = object.entry("_meta").or_insert_with(|| json!({}));
                if let Some(meta) = meta.as_object_mut() {
                    meta.insert("progressToken".into(), token.as_str().into());
                }
            }
        }
        let message = jsonrpc::request(&Id::Number(id), &request.method, params);
        self.actions.push_back(Action::Send(message));
    }

    /// Sends the cancellation of a request that is on the wire.
    fn withdraw(&mut self, ticket: Ticket, reason: &str) {
        if let Some(id) = self.requests.get(&ticket).and_then(|r| r.id)
            && self.phase == Phase::Ready
        {
            let params = json!({"requestId": id, "reason": reason});
            let message = jsonrpc::notification("notifications/cancelled", Some(params));
            self.actions.push_back(Action::Send(message));
            self.actions.push_back(Action::Forget(Id::Number(id)));
        }
    }

    fn ticket_of(&self, id: &Id) -> Option<Ticket> {
        match id {
            Id::Number(n) => self.by_id.get(n).copied(),
            Id::String(_) => None,
        }
    }

    fn unlink(&mut self, ticket: Ticket) {
        if let Some(id) = self.requests.get(&ticket).and_then(|r| r.id) {
            self.by_id.remove(&id);
        }
    }

    /// Takes the request out of all tables.
    fn drop_request(&mut self, ticket: Ticket) -> Option<Request> {
        self.unlink(ticket);
        let request = self.requests.remove(&ticket)?;
        self.timers.remove(&(request.deadline, ticket));
        if let Some(token) = &request.token {
            self.by_token.remove(token);
        }
        self.waiting.retain(|t| *t != ticket);
        Some(request)
    }

    fn resolve(&mut self, ticket: Ticket, outcome: Result<Raw, Error>) {
        let Some(request) = self.drop_request(ticket) else { return };
        if request.purpose == Purpose::Ping {
            self.pinging = false;
        }
        if request.purpose == Purpose::Caller {
            self.actions.push_back(Action::Resolve { ticket, outcome });
        }
    }

    /// The request has been answered, or never will be.
    fn conclude(&mut self, now: Duration, ticket: Ticket, outcome: Result<Raw, Error>) {
        let purpose = self.requests.get(&ticket).map(|r| r.purpose);
        if purpose != Some(Purpose::Initialize) {
            // The answer to a ping of the client's own may be an error: it proves as much.
            self.resolve(ticket, outcome);
            return;
        }
        self.drop_request(ticket);
        match outcome.and_then(|result| self.settle(result.value()?)) {
            Ok(negotiated) => {
                self.negotiated = Some(negotiated.clone());
                self.phase = Phase::Ready;
                self.heard = now;
                let initialized = jsonrpc::notification("notifications/initialized", None);
                // The shell has to know the revision before it sends anything further.
                self.actions.push_back(Action::Ready(negotiated));
                self.actions.push_back(Action::Send(initialized));
                if std::mem::take(&mut self.reopening) {
                    self.actions.push_back(Action::Event(Event::Reopened));
                }
                for ticket in std::mem::take(&mut self.waiting) {
                    self.send(ticket);
                }
            }
            Err(error @ Error::Refused(_)) => {
                self.disconnect(Error::Invalid(error.to_string()));
            }
            Err(error) if self.reopening => {
                // The next request tries again.
                self.phase = Phase::Idle;
                for ticket in std::mem::take(&mut self.waiting) {
                    self.resolve(ticket, Err(error.clone()));
                }
            }
            Err(error) => self.disconnect(error),
        }
    }

    fn disconnect(&mut self, error: Error) {
        self.close(error.clone());
        self.actions.push_back(Action::Disconnect(error));
    }

    /// Reads the result of `initialize`. [`Error::Refused`]: the client can't go on with this server.
    fn settle(&self, result: Value) -> Result<Negotiated, Error> {
        let Value::Object(mut result) = result else {
            return Err(Error::Refused("the result of initialize is no object".into()));
        };
        let Some(Value::String(version)) = result.remove("protocolVersion") else {
            return Err(Error::Refused("the result of initialize has no protocolVersion".into()));
        };
        let revision = version.parse().ok().filter(|r| *r == self.offer || self.accept.contains(r));
        let Some(revision) = revision.filter(|r: &Revision| r.has_handshake()) else {
            return Err(Error::Refused(format!(
                "the server wants protocol version {version:?}, which this client does not support (it offered {})",
                self.offer
            )));
        };
        let Some(Value::Object(capabilities)) = result.remove("capabilities") else {
            return Err(Error::Refused("the result of initialize has no capabilities object".into()));
        };
        let server_info = match result.remove("serverInfo") {
            Some(info) if info.get("name").is_some_and(Value::is_string) => info,
            _ => return Err(Error::Refused("the result of initialize has no serverInfo with a name".into())),
        };
        let instructions = match result.remove("instructions") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        Ok(Negotiated { revision, capabilities, server_info, instructions })
    }

    fn next_ping(&self) -> Option<Duration> {
        self.ping_every.filter(|_| !self.pinging).map(|every| self.heard.saturating_add(every))
    }

    // ---- messages ----

    fn skip(&mut self, reason: &str, text: &str) {
        let text = text.chars().take(200).collect();
        self.actions.push_back(Action::Event(Event::Skipped { reason: reason.to_owned(), text }));
    }

    fn batch(&mut self, now: Duration, whole: &Raw, text: &str, batch: Vec<&RawValue>) {
        let has_batching = self.negotiated.as_ref().is_some_and(|n| n.revision.has_batching());
        let members = batch.into_iter().map(|member| (member.get(), Envelope::read(member.get())));
        if members.len() == 0 || !has_batching || self.phase != Phase::Ready {
            self.skip("a batch, which the protocol version does not have here", text);
            // Whoever waits for an answer in it should not wait in vain.
            for envelope in members.filter_map(|(_, envelope)| envelope.ok()).filter(|e| !e.has_method) {
                if let Some(id) = Id::from_value(&small(envelope.id)) {
                    self.fail(now, &id, Error::Invalid("the answer came in a batch".into()));
                }
            }
            return;
        }
        let group = self.asks.begin_batch();
        for (member, envelope) in members {
            match envelope {
                Ok(envelope) => self.single(now, whole, member, &envelope, Some(group)),
                Err(_) => self.skip("a member of a batch is no object", member),
            }
        }
        let sent = self.asks.end_batch(group);
        self.actions.extend(sent.map(Action::Send));
    }

    /// A message that is an object: `text`, a part of `whole`.
    fn single(
        &mut self,
        now: Duration,
        whole: &Raw,
        text: &str,
        envelope: &Envelope<'_>,
        group: Option<u64>,
    ) {
        self.heard = now;
        if !envelope.has_method {
            return self.response(now, whole, text, envelope);
        }
        if !envelope.proper {
            return self.skip("`jsonrpc` is not \"2.0\"", text);
        }
        let mut message: Map<String, Value> = match serde_json::from_str(text) {
            Ok(message) => message,
            Err(error) => return self.skip(&format!("not JSON: {error}"), text),
        };
        let Some(Value::String(method)) = message.remove("method") else {
            return self.skip("`method` is not a string", text);
        };
        let params = message.remove("params");
        match message.remove("id") {
            None => self.notification(now, &method, params.unwrap_or(Value::Null)),
            Some(id) => match Id::from_value(&id) {
                Some(id) => self.server_request(id, &method, params, group),
                None => self.skip("the id of a request is neither string nor integer", &id.to_string()),
            },
        }
    }

    fn response(&mut self, now: Duration, whole: &Raw, text: &str, envelope: &Envelope<'_>) {
        let (result, error) = (envelope.result, envelope.error);
        if result.is_none() && error.is_none() {
            return self.skip("none of `method`, `result` and `error`", text);
        }
        let raw_id = small(envelope.id);
        let id = Id::from_value(&raw_id);
        let Some(ticket) = id.as_ref().and_then(|id| self.ticket_of(id)) else {
            // The right digits as a string: surely meant, surely wrong. Better a clear failure than a hang.
            let meant = match &id {
                Some(Id::String(text)) => text.parse().ok().and_then(|n| self.by_id.get(&n).copied()),
                _ => None,
            };
            match meant {
                Some(ticket) => {
                    let why =
                        format!("the answer has the id {raw_id}, a string; the request's id is a number");
                    self.conclude(now, ticket, Err(Error::Invalid(why)));
                }
                None => self.actions.push_back(Action::Event(Event::Unmatched { id: raw_id })),
            }
            return;
        };
        self.useful |= self.phase == Phase::Ready;
        let outcome = match (result.map(|result| whole.part(result)), error) {
            _ if !envelope.proper => Err(Error::Invalid("the answer lacks `\"jsonrpc\": \"2.0\"`".into())),
            (Some(_), Some(_)) => Err(Error::Invalid("the answer has both `result` and `error`".into())),
            _ if envelope.twice.is_some() => {
                let member = envelope.twice.unwrap_or_default();
                Err(Error::Invalid(format!("the answer has the member `{member}` twice")))
            }
            (Some(result), None) if result.is_object() => Ok(result),
            (Some(_), None) => Err(Error::Invalid("the `result` of the answer is no object".into())),
            (None, error) => Err(protocol_error(&small(error))),
        };
        self.conclude(now, ticket, outcome);
    }

    fn notification(&mut self, now: Duration, method: &str, params: Value) {
        let seen = Event::Notification { method: method.to_owned(), params: params.clone() };
        self.actions.push_back(Action::Event(seen));
        let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
        let event = match method {
            "notifications/message" => Event::Log(params),
            "notifications/tools/list_changed" => Event::ListChanged(ListKind::Tools),
            "notifications/prompts/list_changed" => Event::ListChanged(ListKind::Prompts),
            "notifications/resources/list_changed" => Event::ListChanged(ListKind::Resources),
            "notifications/resources/updated" => match text("uri") {
                Some(uri) => Event::ResourceUpdated { uri },
                None => return self.skip("resources/updated without a uri", &params.to_string()),
            },
            "notifications/elicitation/complete" => match text("elicitationId") {
                Some(id) => Event::ElicitationComplete { id },
                None => return self.skip("elicitation/complete without an id", &params.to_string()),
            },
            "notifications/progress" => return self.progress(now, &params),
            "notifications/cancelled" => {
                let id = params.get("requestId").and_then(Id::from_value);
                let Some(cancelled) = id.and_then(|id| self.asks.cancel(&id)) else { return };
                self.actions.push_back(Action::AskCancelled(cancelled.key));
                self.actions.extend(cancelled.batch.map(Action::Send));
                Event::ServerCancelled { reason: text("reason") }
            }
            _ => return,
        };
        self.actions.push_back(Action::Event(event));
    }

    fn progress(&mut self, now: Duration, params: &Value) {
        let token = params.get("progressToken").and_then(Value::as_str);
        let (Some(ticket), Some(value)) = (
            token.and_then(|t| self.by_token.get(t).copied()),
            params.get("progress").and_then(Value::as_f64),
        ) else {
            return;
        };
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        if request.reset_on_progress && request.held.is_none() {
            let later = now.saturating_add(request.timeout).min(request.ceiling);
            self.timers.remove(&(request.deadline, ticket));
            self.timers.insert((later, ticket));
            request.deadline = later;
        }
        let progress = Progress {
            progress: value,
            total: params.get("total").and_then(Value::as_f64),
            message: params.get("message").and_then(Value::as_str).map(str::to_owned),
        };
        let method = request.method.clone();
        self.actions.push_back(Action::Progress { ticket, progress: progress.clone() });
        self.actions.push_back(Action::Event(Event::Progress { method, progress }));
    }

    fn server_request(&mut self, id: Id, method: &str, params: Option<Value>, group: Option<u64>) {
        if params.as_ref().is_some_and(|p| !p.is_object()) {
            let error = RpcError::new(codes::INVALID_PARAMS, "params have to be an object");
            return self.respond(id, Err(error), group);
        }
        let params = params.unwrap_or_else(|| json!({}));
        let revision = self.negotiated.as_ref().map_or(self.offer, |n| n.revision);
        let refused = || RpcError::new(codes::METHOD_NOT_FOUND, "method not found");
        match method {
            "ping" => {
                if self.answer_pings {
                    self.respond(id, Ok(json!({})), group);
                }
            }
            "roots/list" => {
                let answer = match self.declared.roots {
                    Some(_) => Ok(json!({"roots": self.roots.iter().map(Root::to_json).collect::<Vec<_>>()})),
                    None => Err(refused()),
                };
                self.respond(id, answer, group);
            }
            "sampling/createMessage" | "elicitation/create" => {
                match asks::read(method, params, &self.declared, revision) {
                    Ok(ask) => match self.asks.open(id.clone(), &ask, group) {
                        Some(key) => self.actions.push_back(Action::Ask { key, ask }),
                        None => {
                            let busy = RpcError::new(codes::INTERNAL_ERROR, "too many open requests");
                            self.respond(id, Err(busy), group);
                        }
                    },
                    Err(error) => self.respond(id, Err(error), group),
                }
            }
            _ => self.respond(id, Err(refused()), group),
        }
    }

    fn respond(&mut self, id: Id, answer: Result<Value, RpcError>, group: Option<u64>) {
        let message = asks::response(&id, answer);
        match group {
            Some(group) => self.asks.collect(group, message),
            None => self.actions.push_back(Action::Send(message)),
        }
    }
}

/// A member that is expected to be small; null if it is absent, or can't be read.
fn small(text: Option<&str>) -> Value {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn protocol_error(error: &Value) -> Error {
    let code = error.get("code").and_then(Value::as_i64);
    let message = error.get("message").and_then(Value::as_str);
    match (code, message) {
        (Some(code), message) => Error::Protocol {
            code,
            message: message.unwrap_or("an error without a message").to_owned(),
            data: error.get("data").cloned(),
        },
        (None, message) => Error::Invalid(format!(
            "the server answered with a malformed error{}",
            message.map(|m| format!(": {m}")).unwrap_or_default()
        )),
    }
}

#[cfg(test)]
mod tests;
