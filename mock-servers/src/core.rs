//! The server without its sockets, pipes and clocks: inputs go in, effects come out.
//!
//! [`ServerCore`] is a faithful server of its revision whose script's rules make exceptions. It is deterministic: the
//! same script, seed and inputs give the same effects. The shells ([`crate::stdio`], [`crate::http`]) carry out the
//! effects in order and feed in what happens.
//!
//! # Order of things
//!
//! An event (a message, a signal, an HTTP request) first has its own faithful side effects (a session is opened, a
//! pending request is cancelled); then the first rule that matches runs, or the faithful answer is given; then holds
//! that wait for such an event are counted down. So `hold_until: { on: tools/call }` lets the second call be answered
//! before the first.
//!
//! A rule's `nth` counts all events that fit the rest of what it asks, whichever rule took them.
//!
//! When the input has been dealt with, holds that wait for a state or for a number of held requests are looked at.
//!
//! # What each word of a script does
//!
//! | word | where | what it comes to |
//! | --- | --- | --- |
//! | `default`, `respond`, `error`, `amend`, `drop`, `mangle`, `duplicate` | both | the answer to the request at hand; a second answer is marked as a scripted fault |
//! | `hold_until`, `release`, `delay_ms` | both | the rule's later actions wait; other messages are served meanwhile |
//! | `repeat` | both | its actions, again and again |
//! | `notify`, `request`, `progress`, `log`, `batch`, `raw` | both | on the stream of the request at hand; without one (or with `on_get_stream`) on the GET stream, kept until one is opened |
//! | `set_state`, `count` | both | remembered for later events |
//! | `add_tool`, `remove_tool`, `change_tool`, `add_resource`, `remove_resource`, `add_template`, `remove_template`, `add_prompt`, `remove_prompt`, `change_server` | both | the model changes, silently |
//! | `announce`, `resource_updated` | both | list_changed and updated: to subscriptions in 2026-07-28; before on the GET stream if the endpoint offers one, else on that of the request at hand |
//! | `input_required`, `run_as_task` | both | the answer to the request at hand, or (before 2026-07-28) questions before it |
//! | `request_task` | both | as `request`, and waits for what comes of it |
//! | `move_tasks`, `end_subscriptions`, `leave_out` | both | told where the word says |
//! | `stdout`, `stdout_bytes`, `repeat_stdout`, `stderr`, `stderr_bytes` | stdio | written at once, whatever else is going on; ignored over HTTP |
//! | `split_every`, `split_at`, `split_characters`, `cut_at`, `write_rest`, `merge_next`, `crlf`, `cr_only`, `no_newline`, `blank_lines`, `pretty`, `ascii_only`, `pad_to`, `byte_order_mark`, `invalid_utf8` | stdio | how the next message is written; ignored over HTTP |
//! | `close_stdout`, `close_stderr`, `close_stdin`, `stop_reading`, `stop_reading_after`, `resume_reading`, `exit`, `die` | stdio | ignored over HTTP |
//! | `status`, `answers`, `cut_stream`, `reset`, `stall`, `expire_session`, `close_get_stream`, `sse_comment`, `raw_body`, `reply`, `cut`, `pieces`, `raw_response`, `sse_event`, `sse_style`, `keep_open`, `answer_on`, `change_session` | HTTP | ignored over stdio, except that `stall` is `drop` there |
//! | `start`, `eof`, `sigterm`, `http-*`, `get-stream`, `response`, `message`, `request`, `notification`, `unknown`, methods | triggers | `http-*` only for the endpoint's own path; for `response`, a rule's `params` is matched against the result or error |
//!
//! What may stand in for values of the request at hand: [`crate::script::template`].

mod act;
mod change;
mod control;
pub(crate) mod era;
mod errand;
mod headers;
mod hold;
mod http;
mod jobs;
mod listen;
mod mangle;
mod message;
mod render;
mod rounds;
mod rules;
mod stdio;
#[cfg(test)]
mod tests;

use crate::auth::{Answer, AuthServer};
use crate::model::{Model, Reply, RpcError};
use crate::script::{Action, ResultMember, ServerScript, Trigger};
use serde_json::{Map, Value, json};
use sparring_wire::framing::Line;
use sparring_wire::jsonrpc::{self, Envelope, Fault, Id, Inspected, codes};
use sparring_wire::text::to_text;
use sparring_wire::transcript::{HttpRequest, What};
use sparring_wire::{Revision, Transport};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rules::{Event, Response};

pub use control::Control;
pub use http::{Origins, endpoint_path, legacy_path};

/// Something that happened to the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The process has started, or the first connection was accepted.
    Start,
    /// A line arrived on stdin.
    Line(Line),
    /// stdin ended.
    Eof,
    /// A signal arrived, such as `SIGTERM`. The shell has reported it.
    Signal(&'static str),
    /// An HTTP request arrived, whole, on the endpoint's listener.
    Request(Box<HttpRequest>),
    /// The client has gone away from this exchange before the server was done with it.
    Gone {
        /// Its number.
        exchange: u64,
    },
    /// A timer set by [`Effect::Timer`] expired.
    Timer(u64),
    /// Whoever controls the server asks for these actions.
    Control(Control),
}

/// Something the shell has to do. Effects are carried out in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Report this to the transcript.
    Observe(What),
    /// Feed in [`Input::Timer`] with this number after this time.
    Timer {
        /// The timer's number.
        id: u64,
        /// The time from now.
        after: Duration,
    },
    /// Start reading stdin, again if it was stopped.
    StartReading,
    /// Stop reading stdin when so many more bytes were fed in, counted from behind the last line that was.
    StopReading {
        /// How many; 0 is at once.
        after: u64,
    },
    /// Close stdin.
    CloseStdin,
    /// Write these bytes to stdout in one write.
    Write(Vec<u8>),
    /// Do nothing for this time, so that the reader gets what was written before what comes next.
    Pause(Duration),
    /// Write this many bytes of text lines to stderr, and wait until that is done.
    Stderr(u64),
    /// Write this text to stderr, and wait until that is done.
    StderrText(String),
    /// Close stdout.
    CloseStdout,
    /// Close stderr.
    CloseStderr,
    /// Start the descendant at this place in the list of all, from 0.
    StartDescendant(usize),
    /// End the process with this code. Nothing follows.
    Exit(i32),
    /// End the process by this signal. Nothing follows.
    Die(String),
    /// Answer an exchange with a whole response.
    Respond {
        /// The exchange's number.
        exchange: u64,
        /// Status code.
        status: u16,
        /// Header fields.
        headers: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// Answer an exchange with the head of a streamed response.
    Head {
        /// The exchange's number.
        exchange: u64,
        /// Status code.
        status: u16,
        /// Header fields.
        headers: Vec<(String, String)>,
    },
    /// Send these bytes on the streamed response, flushed.
    Chunk {
        /// The exchange's number.
        exchange: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// End the streamed response.
    End {
        /// The exchange's number.
        exchange: u64,
    },
    /// Reset the exchange's connection.
    Reset {
        /// The exchange's number.
        exchange: u64,
    },
    /// A part of a response that is written as it is. All of that response comes in this way.
    Raw {
        /// The exchange's number.
        exchange: u64,
        /// The part.
        out: RawOut,
    },
}

/// A part of a response that is written byte by byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawOut {
    /// Write these bytes in one write.
    Bytes(Vec<u8>),
    /// Do nothing for this time.
    Pause(Duration),
    /// The response is over, and the connection is good for another request.
    Done,
    /// Close the connection.
    Close,
    /// Reset the connection.
    Reset,
    /// Write nothing more, and leave the connection open until the client closes it.
    Stall,
}

/// Parked tasks beyond this many do not wait any more; a peer must not be able to grow memory without bound.
const MAX_TASKS: usize = 10_000;

/// The timer of `start_delay_ms`; tasks count from 1.
const START_TIMER: u64 = 0;

/// A scripted server, without I/O.
#[derive(Debug)]
pub struct ServerCore {
    script: Arc<ServerScript>,
    revision: Revision,
    transport: Transport,
    /// Which process of a stdio server this is, from 1.
    incarnation: Option<u32>,
    seed: u64,
    now: Duration,
    model: Model,
    memory: rules::Memory,
    tasks: BTreeMap<u64, Task>,
    next_task: u64,
    /// Our own requests that are unanswered, the oldest first.
    own_requests: VecDeque<OwnRequest>,
    next_own_request: u64,
    /// Tasks of the protocol.
    jobs: BTreeMap<String, jobs::Job>,
    jobs_made: u64,
    listens: Vec<listen::Subscription>,
    /// What a request brought about, to be sent before its answer.
    notices: Vec<Out>,
    /// The time since 1970 at the moment that `now` counts from.
    epoch: Duration,
    /// What the client has told by messages: the params of `initialize`, the log level, subscriptions.
    told: message::Told,
    /// The HTTP request that is being dealt with.
    arriving: Option<Arc<Seen>>,
    /// How many tasks run within each other.
    depth: u32,
    effects: Vec<Effect>,
    quiet: bool,
    ended: bool,
    stdio: stdio::StdioState,
    http: http::HttpState,
}

/// A request of the client's that awaits its answer.
#[derive(Debug, Clone)]
struct Pending {
    id: Id,
    method: String,
    params: Option<Value>,
    /// It came before `initialize`.
    premature: bool,
    /// What it is spoken in.
    revision: Revision,
    /// Why the revision does not take it.
    refused: Option<RpcError>,
    /// The client's answers to what was asked by requests of our own; `None` if nothing was.
    inputs: Option<Map<String, Value>>,
    /// Members that its result is not to have.
    leave_out: Vec<ResultMember>,
}

impl Pending {
    const fn new(id: Id, method: String, params: Option<Value>, revision: Revision) -> Self {
        Self {
            id,
            method,
            params,
            premature: false,
            revision,
            refused: None,
            inputs: None,
            leave_out: Vec::new(),
        }
    }
}

/// A request of our own that is unanswered.
#[derive(Debug, Clone)]
struct OwnRequest {
    id: Id,
    method: String,
}

/// What rules and templates may want to know of an HTTP request.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    headers: Vec<(String, String)>,
    connection: u64,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The actions of a rule on one event, or the faithful answer to one request, as far as they have not run yet.
#[derive(Debug, Default)]
struct Task {
    id: u64,
    scope: Scope,
    request: Option<Pending>,
    actions: VecDeque<Action>,
    then: Then,
    wait: Option<Wait>,
    answered: bool,
    /// The answer never comes.
    dropped: bool,
    /// The client cancelled the request: the faithful answer is not given any more.
    cancelled: bool,
    /// Answer 404 at the end, unless something else did.
    expired: bool,
    /// The name of its rule.
    rule: String,
    /// The how-manieth event of its rule it deals with.
    nth: u32,
    /// The params of the event, if it was no request and a rule took it.
    params: Option<Value>,
    /// The HTTP request that it came with.
    seen: Option<Arc<Seen>>,
    /// The round of the innermost repetition.
    round: u32,
    /// How often progress has been reported.
    progressed: u32,
}

/// Where an event came from.
#[derive(Debug, Clone, Default)]
struct Scope {
    exchange: Option<u64>,
    session: Option<String>,
    /// The stdio batch it is a member of.
    batch: Option<u64>,
}

/// What follows when the actions are through.
#[derive(Debug, Default)]
enum Then {
    #[default]
    Nothing,
    /// The faithful answer, if there was none.
    Answer,
    /// The HTTP request is looked into, if it was not answered.
    Look(Box<HttpRequest>),
    /// The `endpoint` event of HTTP+SSE, if it was not sent.
    Endpoint,
    /// This answer, of the authorization server or the guard.
    Give(Box<Answer>),
    /// The process ends.
    Exit(i32),
}

#[derive(Debug)]
enum Wait {
    Timer(Duration),
    Until(Box<hold::Hold>),
    /// The client's answer to a request of ours that has to do with a task of the client's.
    Errand(errand::Errand),
    /// The client's answers to these requests of ours, each of which is known by a key.
    Inputs(BTreeMap<Id, String>),
}

/// A message of ours, ready to go out.
#[derive(Debug, Clone)]
struct Out {
    text: String,
    fault: bool,
    /// It answers the request at hand.
    answer: bool,
    /// It is an error.
    error: bool,
    /// The HTTP status that it comes with, if it is not 200.
    status: Option<u16>,
}

impl Out {
    fn message(value: &Value, fault: bool) -> Self {
        Self { text: to_text(value), fault, answer: false, error: false, status: None }
    }

    fn answer(value: &Value, fault: bool) -> Self {
        let error = value.get("error").is_some();
        Self { text: to_text(value), fault, answer: true, error, status: None }
    }
}

impl ServerCore {
    /// The core of a stdio server; `incarnation` counts its processes from 1.
    pub fn stdio(script: Arc<ServerScript>, revision: Revision, incarnation: u32, seed: u64) -> Self {
        Self::new(script, revision, Transport::Stdio, Some(incarnation), seed, http::HttpState::default())
    }

    /// The core of a Streamable HTTP server.
    pub fn http(
        script: Arc<ServerScript>,
        revision: Revision,
        seed: u64,
        origins: Origins,
        auth: Option<AuthServer>,
    ) -> Self {
        Self::new(script, revision, Transport::Http, None, seed, http::HttpState::new(origins, auth))
    }

    /// The core of a server of HTTP+SSE as of 2024-11-05, and of nothing else.
    pub fn sse_legacy(
        script: Arc<ServerScript>,
        revision: Revision,
        seed: u64,
        origins: Origins,
        auth: Option<AuthServer>,
    ) -> Self {
        Self::new(script, revision, Transport::SseLegacy, None, seed, http::HttpState::new(origins, auth))
    }

    fn new(
        script: Arc<ServerScript>,
        revision: Revision,
        transport: Transport,
        incarnation: Option<u32>,
        seed: u64,
        http: http::HttpState,
    ) -> Self {
        let model = Model::new(&script, revision);
        let script = if model.newest_legacy().is_none() { without_sessions(script) } else { script };
        Self {
            model,
            memory: rules::Memory::new(&script),
            script,
            revision,
            transport,
            incarnation,
            seed,
            now: Duration::ZERO,
            tasks: BTreeMap::new(),
            next_task: START_TIMER + 1,
            own_requests: VecDeque::new(),
            next_own_request: 1,
            jobs: BTreeMap::new(),
            jobs_made: 0,
            listens: Vec::new(),
            notices: Vec::new(),
            epoch: EPOCH,
            told: message::Told::default(),
            arriving: None,
            depth: 0,
            effects: Vec::new(),
            quiet: false,
            ended: false,
            stdio: stdio::StdioState::default(),
            http,
        }
    }

    /// Sets the wall clock: the time since 1970 at the moment that [`handle`](Self::handle)'s `now` counts from.
    /// Without it all begins on 2026-07-28.
    #[must_use]
    pub const fn with_wall_clock(mut self, since_1970: Duration) -> Self {
        self.epoch = since_1970;
        self
    }

    /// Takes in what happened at `now` (the time since any fixed moment) and returns what to do.
    pub fn handle(&mut self, now: Duration, input: Input) -> Vec<Effect> {
        if self.ended {
            return Vec::new();
        }
        self.now = self.now.max(now);
        match input {
            Input::Start => self.start(),
            Input::Line(line) => self.line(&line),
            Input::Eof => self.eof(),
            Input::Signal(name) => self.signal(name),
            Input::Request(request) => {
                if !self.script.rules.is_empty() {
                    let (headers, connection) = (request.headers.clone(), request.connection);
                    self.arriving = Some(Arc::new(Seen { headers, connection }));
                }
                self.request(request);
                self.arriving = None;
            }
            Input::Gone { exchange } => self.gone(exchange),
            Input::Timer(START_TIMER) => self.started(),
            Input::Timer(stdio::END_TIMER) => self.linger_is_over(),
            Input::Timer(id) => self.timer(id),
            Input::Control(control) => self.control(control),
        }
        self.settle_holds();
        std::mem::take(&mut self.effects)
    }

    fn effect(&mut self, effect: Effect) {
        if !self.ended {
            self.ended = matches!(effect, Effect::Exit(_) | Effect::Die(_));
            self.effects.push(effect);
        }
    }

    fn observe(&mut self, what: What) {
        if !self.quiet {
            self.effect(Effect::Observe(what));
        }
    }

    /// The same, where putting the observation together costs something.
    fn observe_with(&mut self, what: impl FnOnce() -> What) {
        if !self.quiet {
            self.effect(Effect::Observe(what()));
        }
    }

    /// Whether observations are left out.
    pub const fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
    }

    fn is_stdio(&self) -> bool {
        self.transport == Transport::Stdio
    }

    fn start(&mut self) {
        if self.is_stdio() {
            self.start_descendants();
        }
        match self.script.process.start_delay_ms {
            ms if self.is_stdio() && ms > 0 => {
                self.effect(Effect::Timer { id: START_TIMER, after: Duration::from_millis(ms) });
            }
            _ => self.started(),
        }
    }

    fn started(&mut self) {
        if self.is_stdio() && !self.stdio_started() {
            return;
        }
        self.event(&Trigger::Start, None, Scope::default(), None, Then::Nothing);
    }

    fn timer(&mut self, id: u64) {
        if matches!(self.tasks.get(&id), Some(Task { wait: Some(Wait::Timer(_)), .. })) {
            self.resume(id);
        }
    }

    fn resume(&mut self, id: u64) {
        if let Some(mut task) = self.tasks.remove(&id) {
            task.wait = None;
            let arriving = std::mem::replace(&mut self.arriving, task.seen.clone());
            self.run(task);
            self.arriving = arriving;
        }
    }

    /// Does something after a while.
    fn later(&mut self, after: Duration, scope: Scope, then: Then) {
        let id = self.next_task;
        self.next_task += 1;
        if let Some(exchange) = scope.exchange {
            self.enter(exchange);
        }
        let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let actions = VecDeque::from([Action::DelayMs(millis)]);
        self.run(Task { id, scope, actions, then, ..Task::default() });
    }

    /// Deals with an event: the first rule that matches, then what follows it, then the holds that wait for it.
    fn event(
        &mut self,
        trigger: &Trigger,
        params: Option<&Value>,
        scope: Scope,
        request: Option<Pending>,
        then: Then,
    ) {
        let id = request.as_ref().map(|r| r.id.to_value());
        let method = request.as_ref().map(|r| r.method.clone()).or_else(|| match trigger {
            Trigger::Method(method) => Some(method.clone()),
            _ => None,
        });
        let event = Event {
            trigger,
            request: request.is_some(),
            method: method.as_deref(),
            params,
            id: id.as_ref(),
            scope: scope.clone(),
            response: None,
        };
        self.happen(&event, scope, request, then);
    }

    fn happen(&mut self, event: &Event<'_>, scope: Scope, request: Option<Pending>, then: Then) {
        let first_new = self.next_task;
        let chosen = self.select(event).unwrap_or_default();
        self.next_task += 1;
        if let Some(exchange) = scope.exchange {
            self.enter(exchange);
            self.take_posted(exchange, &chosen.actions);
        }
        // A request's params stand with it.
        let params = event.params.filter(|_| request.is_none() && !chosen.actions.is_empty()).cloned();
        self.run(Task {
            id: first_new,
            scope,
            request,
            actions: chosen.actions,
            then,
            rule: chosen.rule,
            nth: chosen.nth,
            params,
            seen: self.arriving.clone(),
            ..Task::default()
        });
        self.end_holds(event, first_new);
    }

    /// Deals with one message. `scope` says where it came from; it has no broken envelope.
    fn message(&mut self, message: &Inspected, scope: Scope) {
        match &message.envelope {
            Envelope::Request { id: Some(id), method, params } => {
                let (header, refused) = self.http.refusal_of(&scope);
                let revision =
                    self.revision_for(&message.envelope, header.as_deref(), scope.session.as_deref());
                let refused = refused.or_else(|| {
                    let checked = revision.is_stateless() && self.is_stdio();
                    checked.then(|| self.refusal(method, params.as_ref(), None)).flatten()
                });
                let known = revision.is_stateless() || self.note_request(method, &scope);
                let revision = self.note_peer(method, params.as_ref(), revision, &scope);
                if method == "initialize" {
                    self.told.initialize = params.clone();
                }
                let request = Pending {
                    premature: !known && method != "ping",
                    refused,
                    ..Pending::new(id.clone(), method.clone(), params.clone(), revision)
                };
                let trigger = Trigger::Method(method.clone());
                self.event(&trigger, params.as_ref(), scope, Some(request), Then::Answer);
            }
            Envelope::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    self.cancel(params.as_ref(), &scope);
                }
                let trigger = Trigger::Method(method.clone());
                self.event(&trigger, params.as_ref(), scope, None, Then::Nothing);
            }
            Envelope::Result { id, .. } => self.response(message, id.as_ref(), "result", scope),
            Envelope::Error { id, .. } => self.response(message, id.as_ref(), "error", scope),
            _ => {}
        }
    }

    /// Deals with an answer to a request of ours, or what claims to be one.
    fn response(&mut self, message: &Inspected, id: Option<&Id>, kind: &'static str, scope: Scope) {
        let asked = self.own_requests.iter().position(|own| Some(&own.id) == id);
        let asked = asked.and_then(|position| self.own_requests.remove(position));
        let member = |name: &str| message.value.as_ref().and_then(|v| v.get(name));
        let event = Event {
            trigger: &Trigger::Response,
            request: false,
            method: None,
            params: member(kind),
            id: member("id"),
            scope: scope.clone(),
            response: Some(Response {
                result: member("result"),
                error: member("error"),
                to: asked.map(|a| a.method),
            }),
        };
        self.happen(&event, scope, None, Then::Nothing);
        if let Some(id) = id {
            let answer = member("result").unwrap_or(&Value::Null);
            self.input_came(id, member(kind).unwrap_or(&Value::Null));
            self.errand_came(id, answer);
        }
    }

    /// Notes `initialize`; whether the conversation is open.
    fn note_request(&mut self, method: &str, scope: &Scope) -> bool {
        let open = match &scope.session {
            Some(session) => self.http.session_open(session),
            None => &mut self.stdio.initialized,
        };
        *open |= method == "initialize";
        *open
    }

    /// Drops the pending faithful answer to a cancelled request.
    fn cancel(&mut self, params: Option<&Value>, scope: &Scope) {
        let Some(id) = params.and_then(|p| p.get("requestId")).and_then(Id::from_value) else { return };
        self.unlisten(&id, scope);
        let pending = self.tasks.iter_mut().find(|(_, task)| {
            task.scope.session == scope.session
                && matches!(task.then, Then::Answer)
                && !task.answered
                && task.request.as_ref().is_some_and(|r| r.id == id && r.method != "initialize")
        });
        let Some((number, task)) = pending else { return };
        // A script that waits for the cancellation wants the late answer.
        if let Some(Wait::Until(hold)) = &task.wait
            && hold.waits_for("notifications/cancelled")
        {
            return;
        }
        task.cancelled = true;
        let number = *number;
        let explicit =
            task.actions.iter().any(|a| a.answers() && !matches!(a, Action::Default | Action::HoldUntil(_)));
        if !explicit && let Some(mut task) = self.tasks.remove(&number) {
            task.actions.clear();
            self.finish(task);
        }
    }

    /// The faithful answer to a request.
    fn faithful(&mut self, request: &Pending, scope: &Scope) -> Value {
        match self.faithful_result(request, scope) {
            Ok(mut result) => {
                self.dress(request, &mut result);
                jsonrpc::result(&request.id, result)
            }
            Err(error) => jsonrpc::error(&request.id, error.code, &error.message, error.data),
        }
    }

    fn faithful_result(&mut self, request: &Pending, scope: &Scope) -> Result<Value, RpcError> {
        if !self.is_refused(request) {
            let params = request.params.as_ref();
            let ask = params.filter(|_| request.method == "tools/call").and_then(|p| self.model.asks(p));
            let asks_now = ask
                .as_ref()
                .is_some_and(|ask| request.revision.is_stateless() && !self.is_settled(ask, request));
            if !asks_now && let Some(answer) = self.job_answer(request, scope) {
                return answer;
            }
        }
        self.model_result(request, scope)
    }

    /// Whether a request gets nothing but a refusal.
    fn is_refused(&self, request: &Pending) -> bool {
        // What the server has never heard of is unknown to it at any time.
        request.refused.is_some() || request.premature && Model::has_method(&request.method, request.revision)
    }

    /// The faithful result as far as it changes nothing: without tasks.
    fn model_result(&self, request: &Pending, scope: &Scope) -> Result<Value, RpcError> {
        if let Some(refused) = &request.refused {
            return Err(refused.clone());
        }
        if self.is_refused(request) {
            return Err(RpcError::new(codes::INVALID_REQUEST, "the conversation has not been initialized"));
        }
        let inputs = request.inputs.clone().unwrap_or_default();
        let params = request.params.as_ref();
        match self.model.answer(request.revision, &request.method, params, &inputs)? {
            Reply::Result(result) => Ok(result),
            Reply::Ask(ask) => self.ask_or_go_on(&ask, request, scope),
        }
    }

    /// What the faithful answer would be, were it not for tasks.
    fn peek(&self, request: &Pending, scope: &Scope) -> Value {
        match self.model_result(request, scope) {
            Ok(mut result) => {
                self.dress(request, &mut result);
                jsonrpc::result(&request.id, result)
            }
            Err(error) => jsonrpc::error(&request.id, error.code, &error.message, error.data),
        }
    }

    /// The error that a message without a usable envelope is answered with.
    fn broken_answer(&self, broken: &Broken) -> Option<Value> {
        match &broken.id {
            Some(id) => Some(jsonrpc::error(id, broken.code, &broken.message, None)),
            // Earlier revisions have no valid form for an error without an id.
            None if self.revision >= Revision::V2025_11_25 => {
                Some(json!({"jsonrpc": "2.0", "error": {"code": broken.code, "message": broken.message}}))
            }
            None => None,
        }
    }
}

/// The script of a server that speaks only 2026-07-28: what has to do with sessions and with streams that outlive
/// their response means nothing to it.
fn without_sessions(script: Arc<ServerScript>) -> Arc<ServerScript> {
    let http = &script.http;
    if !(http.sessions || http.get_stream || http.event_ids || http.priming) {
        return script;
    }
    let mut script = (*script).clone();
    script.http.sessions = false;
    script.http.get_stream = false;
    script.http.event_ids = false;
    script.http.priming = false;
    Arc::new(script)
}

/// 2026-07-28.
const EPOCH: Duration = Duration::from_secs(1_785_196_800);

/// Why a message can't be dealt with.
#[derive(Debug)]
struct Broken {
    code: i64,
    message: String,
    id: Option<Id>,
    /// It claims to be a response: nobody is to be answered.
    response: bool,
}

/// What is wrong with a single message, if it can't be dealt with. What any parser forgives is forgiven.
fn broken(message: &Inspected) -> Option<Broken> {
    let fatal = message.faults.iter().find(|fault| {
        !matches!(
            fault,
            Fault::DuplicateKey(_)
                | Fault::UnknownMember(_)
                | Fault::ResultType
                | Fault::ErrorCode
                | Fault::ErrorMessage
        )
    })?;
    let code = match fatal {
        Fault::InvalidUtf8 | Fault::ByteOrderMark | Fault::InvalidJson(_) => codes::PARSE_ERROR,
        _ => codes::INVALID_REQUEST,
    };
    Some(Broken {
        code,
        message: fatal.to_string(),
        id: message.envelope.id().cloned().or_else(|| Id::from_value(message.value.as_ref()?.get("id")?)),
        response: message.envelope.is_response(),
    })
}
