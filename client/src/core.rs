//! The client's side of one protocol session, without I/O: messages and the time go in, [`Action`]s come out.
//!
//! Time is a [`Duration`] since any fixed moment. After each call, take the actions with [`Session::next_action`]
//! and look at [`Session::deadline`] again.

mod asks;
pub(crate) mod cache;
mod envelope;
mod era;
mod gate;
pub(crate) mod headers;
mod incoming;
mod jobs;
mod listen;
mod requests;
mod rounds;
mod served;
mod types;

pub use asks::{Ask, AskKey, ElicitAnswer, Elicitation, RpcError, Sampling};
pub use cache::Hint;
pub use era::Prior;
pub use headers::Headers;
pub use listen::Filter;
pub use served::Origin;
pub use types::{Action, Event, ListKind, Negotiated, Progress, RequestOptions, Ticket};

use crate::error::Error;
use crate::raw::Raw;
use crate::settings::{Declared, ListenTo, Root, Settings, TaskSettings, TaskUse, Timeouts};
use asks::{Answered, Asks, ReplyTo};
use requests::{Purpose, Request};
use serde_json::{Map, Value, json};
use served::Served;
use sparring_wire::jsonrpc;
use sparring_wire::{Id, Revision, Transport};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

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
    /// `server/discover` is on the wire, to find out what the server speaks.
    Probing(Ticket),
    Initializing(Ticket),
    Ready,
    Closed(Error),
}

/// One session. See the module's documentation.
#[derive(Debug)]
pub struct Session {
    name: String,
    title: Option<String>,
    client_version: String,
    offer: Revision,
    accept: Vec<Revision>,
    declared: Declared,
    roots: Vec<Root>,
    timeouts: Timeouts,
    tell_cancelled: bool,
    only_declared_tools: bool,
    tolerate_noise: bool,
    answer_pings: bool,
    ping_every: Option<Duration>,
    listen_to: ListenTo,
    max_rounds: u32,
    reissues: u32,
    tasks: TaskSettings,
    stream_waits: Vec<Duration>,
    stream_attempts: u32,
    transport: Transport,
    prior: Option<Prior>,
    origin: Option<Origin>,
    phase: Phase,
    /// When the start began.
    begun: Duration,
    /// Revisions that the server was probed for.
    tried: Vec<Revision>,
    /// The revision offered in `initialize`.
    offered: Option<Revision>,
    /// Whether the session ended with the probe unanswered.
    silent_probe: bool,
    /// A probe that got no answer in time; it may come yet.
    late_probe: Option<i64>,
    /// The stateless revision spoken, and what each of its requests says of the client.
    stateless: Option<(Revision, Map<String, Value>)>,
    /// The least level of log messages asked for with each stateless request.
    log_level: Option<String>,
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
    /// When something is to be done for a request that is not on the wire.
    wakes: BTreeSet<(Duration, Ticket)>,
    asks: Asks,
    /// When the current minute of questions began, and how many there were in it.
    asked: (Duration, u32),
    asks_per_minute: u32,
    served: Served,
    heard: Duration,
    actions: VecDeque<Action>,
}

impl Session {
    /// A session that has not begun; see [`Session::start`].
    pub fn new(settings: &Settings) -> Self {
        let mut declared = settings.declare.clone();
        if settings.tasks.call != TaskUse::Never {
            declared.extensions.extend([jobs::extension()]);
        }
        Self {
            name: settings.name.clone(),
            title: settings.title.clone(),
            client_version: settings.version.clone(),
            offer: settings.offer,
            accept: settings.accept.clone(),
            declared,
            roots: settings.roots.clone(),
            timeouts: settings.timeouts,
            tell_cancelled: settings.tell_cancelled,
            only_declared_tools: settings.only_declared_tools,
            tolerate_noise: settings.stdio.tolerate_noise,
            answer_pings: settings.answer_pings,
            ping_every: settings.ping_every,
            listen_to: settings.listen,
            max_rounds: settings.max_rounds,
            reissues: settings.reissues,
            tasks: settings.tasks,
            stream_waits: settings.http.stream_waits.clone(),
            stream_attempts: settings.http.stream_attempts,
            transport: Transport::Stdio,
            prior: None,
            origin: None,
            phase: Phase::Idle,
            begun: Duration::ZERO,
            tried: Vec::new(),
            offered: None,
            silent_probe: false,
            late_probe: None,
            stateless: None,
            log_level: None,
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
            wakes: BTreeSet::new(),
            asks: Asks::default(),
            asked: (Duration::ZERO, 0),
            asks_per_minute: settings.asks_per_minute,
            served: Served::default(),
            heard: Duration::ZERO,
            actions: VecDeque::new(),
        }
    }

    /// What carries the messages; stdio, if nothing is said.
    #[must_use]
    pub const fn over(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Session::tick`] has to be called at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        let request = self.timers.first().map(|(at, _)| *at);
        let ping = (self.phase == Phase::Ready).then(|| self.next_ping()).flatten();
        let wake = self.wakes.first().map(|(at, _)| *at);
        request.into_iter().chain(ping).chain(wake).min()
    }

    const fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// The revision spoken, or the one that is being tried.
    fn revision(&self) -> Revision {
        let trying = self.stateless.as_ref().map(|(revision, _)| *revision).or(self.offered);
        self.negotiated.as_ref().map(|n| n.revision).or(trying).unwrap_or(self.offer)
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

    /// Makes a request. An error means that nothing was sent.
    pub fn request(
        &mut self,
        now: Duration,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
    ) -> Result<Ticket, Error> {
        self.request_with(now, method, params, options, Headers::new())
    }

    /// Makes a request, with header fields beside those that the core knows of (stateless revision, HTTP).
    ///
    /// # Errors
    /// As [`Session::request`].
    pub fn request_with(
        &mut self,
        now: Duration,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
        headers: Headers,
    ) -> Result<Ticket, Error> {
        match &self.phase {
            Phase::Closed(error) => return Err(error.clone()),
            Phase::Probing(_) | Phase::Initializing(_) | Phase::Idle if !self.reopening => {
                return Err(Error::Refused(format!("{method} before the handshake is done")));
            }
            _ => {}
        }
        if let Some(negotiated) = &self.negotiated {
            let asks_anyway = method == "tools/list" && !self.only_declared_tools;
            if !asks_anyway {
                gate::allowed(method, params.as_ref(), negotiated).map_err(Error::Refused)?;
            }
        }
        if params.as_ref().is_some_and(|p| !p.is_object()) {
            return Err(Error::Refused("params have to be an object".into()));
        }
        if self.reopening && self.phase != Phase::Ready && has_cursor(params.as_ref()) {
            return Err(cursor_lost());
        }
        let ticket = self.enter(now, Purpose::Caller, method, params, options);
        if let Some(request) = self.requests.get_mut(&ticket) {
            request.headers = headers;
        }
        if self.phase == Phase::Ready {
            self.send(ticket);
        } else {
            self.waiting.push_back(ticket);
            self.start(now);
        }
        Ok(ticket)
    }

    /// Follows a task of the tasks extension, or of 2025-11-25, that an earlier call became, perhaps in another session;
    /// its outcome is that of the call.
    ///
    /// # Errors
    /// As [`Session::request`].
    pub fn follow_task(&mut self, now: Duration, id: &str, options: RequestOptions) -> Result<Ticket, Error> {
        let params = json!({"taskId": id});
        match (&self.phase, &self.negotiated) {
            (Phase::Closed(error), _) => return Err(error.clone()),
            (Phase::Ready, Some(negotiated)) => {
                gate::allowed("tasks/get", Some(&params), negotiated).map_err(Error::Refused)?;
            }
            _ => return Err(Error::Refused("a task before the handshake is done".into())),
        }
        let ticket = self.enter(now, Purpose::Caller, "tools/call", None, options);
        self.begin_job(now, ticket, &params);
        self.look(now, ticket);
        Ok(ticket)
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Option<Value>) -> Result<(), Error> {
        gate::may_notify(method, self.revision()).map_err(Error::Refused)?;
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
        let told = self.declared.roots.is_some_and(|r| r.list_changed) && self.stateless.is_none();
        if told && self.phase == Phase::Ready {
            let message = jsonrpc::notification("notifications/roots/list_changed", None);
            self.actions.push_back(Action::Send(message));
        }
    }

    /// The least level of log messages wanted from now on; `None`: no messages. Each stateless request says so by
    /// itself; before, `logging/setLevel` is the request to make.
    ///
    /// # Errors
    /// [`Error::Refused`] for a level that does not exist.
    pub fn set_log_level(&mut self, level: Option<&str>) -> Result<(), Error> {
        if let Some(level) = level {
            gate::log_level(level).map_err(Error::Refused)?;
        }
        self.log_level = level.map(str::to_owned);
        Ok(())
    }

    /// Cancels a request of the caller, or a subscription; one that has ended already is left alone.
    pub fn cancel(&mut self, now: Duration, ticket: Ticket, reason: &str) {
        let Some(request) = self.requests.get(&ticket) else { return };
        if !matches!(request.purpose, Purpose::Caller | Purpose::Listen) {
            return;
        }
        self.cancel_job(now, ticket);
        self.withdraw(ticket, reason, self.tell_cancelled);
        self.resolve(ticket, Err(Error::Cancelled(reason.to_owned())));
    }

    /// A message on the wire will not be answered: sending it failed, or its HTTP exchange ended.
    pub fn fail(&mut self, now: Duration, id: &Id, error: Error) {
        let Some(ticket) = self.ticket_of(id) else { return };
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        let broken = matches!(error, Error::Closed(_)) && self.transport == Transport::Http;
        let again = request.purpose == Purpose::Caller && request.reissued < self.reissues;
        if broken && again && self.stateless.is_some() {
            // A broken stream can't be taken up again, but the request can be made again.
            request.reissued += 1;
            self.off_the_wire(ticket);
            self.send(ticket);
            return;
        }
        self.conclude(now, ticket, Err(error));
    }

    /// The HTTP exchange of a request ended with a status that means failure. `text`: the body that came with it;
    /// `error`: what the status alone means.
    pub fn refuse(&mut self, now: Duration, id: &Id, text: &str, error: Error) {
        let Some(ticket) = self.ticket_of(id) else { return };
        let body: Option<Value> = serde_json::from_str(text).ok();
        let body = body.as_ref();
        let status = match &error {
            Error::Http { status, .. } => Some(*status),
            Error::Auth { status, .. } => *status,
            _ => None,
        };
        let theirs = body.filter(|body| match body.get("id") {
            None | Some(Value::Null) => true,
            Some(other) => Id::from_value(other).as_ref() == Some(id),
        });
        let stated =
            theirs.and_then(|body| body.get("error")).filter(|e| e.get("code").is_some_and(Value::is_i64));
        let error = match stated {
            Some(stated) if self.stateless.is_some() => protocol_error(stated),
            _ => error,
        };
        if self.requests.get(&ticket).is_some_and(|r| r.purpose == Purpose::Discover) {
            return self.probed(now, ticket, status, Err(error));
        }
        let error = match (stated, self.requests.get(&ticket).map(|r| r.purpose)) {
            // Whoever refuses a handshake so may say what it speaks instead.
            (Some(stated), Some(Purpose::Initialize))
                if stated.get("code").and_then(Value::as_i64)
                    == Some(jsonrpc::codes::UNSUPPORTED_PROTOCOL_VERSION) =>
            {
                protocol_error(stated)
            }
            _ => error,
        };
        self.conclude(now, ticket, Err(error));
    }

    /// While a request waits for a person to log in, its time stands still.
    pub fn hold(&mut self, now: Duration, id: &Id, held: bool) {
        let Some(ticket) = self.ticket_of(id) else { return };
        match held {
            true => self.pause(now, ticket),
            false => self.unpause(now, ticket),
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
        self.off_the_wire(ticket);
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
        self.silent_probe =
            matches!(self.phase, Phase::Probing(ticket) if self.requests.contains_key(&ticket));
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

    /// Answers a question that [`Action::Ask`] put; ignored if the server has cancelled it.
    pub fn answer(&mut self, now: Duration, key: AskKey, answer: Result<Value, RpcError>) {
        match self.asks.answer(key, answer, self.revision()) {
            None => {}
            Some(Answered::Send(message)) => self.actions.push_back(Action::Send(message)),
            Some(Answered::Inner(ReplyTo::Input(ticket, name), answer)) => {
                if self.requests.get(&ticket).is_some_and(|r| r.job.is_some()) {
                    self.job_input(now, ticket, &name, answer);
                } else {
                    self.input_came(now, ticket, name, answer);
                }
            }
            Some(Answered::Inner(ReplyTo::Url(ticket, _), answer)) => self.url_answered(now, ticket, &answer),
            Some(Answered::Inner(ReplyTo::Served(id), answer)) => self.served(now, &id, answer),
            Some(Answered::Inner(ReplyTo::Peer { .. }, _)) => {}
        }
    }

    /// The roots as the server may see them: what is no clean `file://` URI is left out.
    fn roots_result(&self) -> Value {
        json!({"roots": self.roots.iter().filter(|root| root.is_proper()).map(Root::to_json).collect::<Vec<_>>()})
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
