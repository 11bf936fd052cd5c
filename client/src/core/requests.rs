//! Requests of the client: on the wire, waiting, timed, answered.

use super::jobs::Job;
use super::listen::Listening;
use super::rounds::{Round, Urls};
use super::{Action, Error, Headers, Phase, RequestOptions, Session, Ticket, headers};
use crate::raw::Raw;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sparring_wire::jsonrpc;
use sparring_wire::{Id, Transport, meta};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Discover,
    Initialize,
    Ping,
    Caller,
    Listen,
    /// About the task that this request has become.
    Job(Ticket),
    /// Nobody wants to know what comes of it.
    Quiet,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) params: Option<Value>,
    pub(super) purpose: Purpose,
    /// Header fields of its own.
    pub(super) headers: Headers,
    /// The id on the wire, once sent.
    pub(super) id: Option<i64>,
    token: Option<String>,
    pub(super) started: Duration,
    pub(super) timeout: Duration,
    reset_on_progress: bool,
    deadline: Duration,
    /// Never waited for beyond this.
    pub(super) ceiling: Duration,
    /// Whether the caller has chosen the ceiling.
    pub(super) limited: bool,
    pub(super) resent: bool,
    /// How often it was sent anew after its stream broke.
    pub(super) reissued: u32,
    /// Since when its time stands still.
    held: Option<Duration>,
    /// When something is to be done for it while it is not on the wire.
    wake: Option<Duration>,
    /// How often the server has asked for input.
    pub(super) rounds: u32,
    /// What goes with it when it is sent again.
    pub(super) round: Option<Round>,
    pub(super) urls: Option<Box<Urls>>,
    pub(super) job: Option<Box<Job>>,
    pub(super) listening: Option<Box<Listening>>,
}

/// What a result of the stateless revision says that it is.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "resultType")]
    kind: Option<&'a RawValue>,
}

impl Session {
    pub(super) fn enter(
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
                headers: Headers::new(),
                id: None,
                token,
                started: now,
                timeout,
                reset_on_progress: reset,
                deadline,
                ceiling,
                limited: options.ceiling.is_some(),
                resent: false,
                reissued: 0,
                held: None,
                wake: None,
                rounds: 0,
                round: None,
                urls: None,
                job: None,
                listening: None,
            },
        );
        ticket
    }

    pub(super) fn send(&mut self, ticket: Ticket) {
        let id = self.next_id;
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        self.next_id += 1;
        request.id = Some(id);
        self.by_id.insert(id, ticket);
        let mut params = request.params.clone();
        let stateless = self.stateless.as_ref();
        if request.token.is_some() || stateless.is_some() {
            let object = params.get_or_insert_with(|| json!({}));
            if let Some(object) = object.as_object_mut() {
                if let Some(round) = &request.round {
                    round.add_to(object);
                }
                let fields = object.entry("_meta").or_insert_with(|| json!({}));
                if let Some(fields) = fields.as_object_mut() {
                    if let Some(token) = &request.token {
                        fields.insert("progressToken".into(), token.as_str().into());
                    }
                    if let Some((_, said)) = stateless {
                        fields.extend(said.clone());
                        if let Some(level) = &self.log_level {
                            fields.insert(meta::LOG_LEVEL.into(), level.as_str().into());
                        }
                    }
                }
            }
        }
        let headers = match stateless {
            Some((revision, _)) if self.transport == Transport::Http => {
                let mut all = headers::standard(*revision, &request.method, params.as_ref());
                all.extend(request.headers.iter().cloned());
                Some(all)
            }
            _ => None,
        };
        let message = jsonrpc::request(&Id::Number(id), &request.method, params);
        self.actions.push_back(match headers {
            Some(headers) => Action::Post { message, headers },
            None => Action::Send(message),
        });
    }

    /// Withdraws a request that is on the wire: by a notification, or by closing its stream where that says the same.
    /// Without `tell`, nothing is said, and the answer is not waited for.
    pub(super) fn withdraw(&mut self, ticket: Ticket, reason: &str, tell: bool) {
        if let Some(id) = self.requests.get(&ticket).and_then(|r| r.id)
            && self.phase == Phase::Ready
        {
            let by_stream = self.stateless.is_some() && self.transport == Transport::Http;
            if tell && !by_stream {
                let params = json!({"requestId": id, "reason": reason});
                let message = jsonrpc::notification("notifications/cancelled", Some(params));
                self.actions.push_back(Action::Send(message));
            }
            self.actions.push_back(Action::Forget(Id::Number(id)));
        }
    }

    pub(super) fn ticket_of(&self, id: &Id) -> Option<Ticket> {
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

    /// The request is not on the wire any more, but goes on.
    pub(super) fn off_the_wire(&mut self, ticket: Ticket) {
        self.unlink(ticket);
        if let Some(request) = self.requests.get_mut(&ticket) {
            request.id = None;
        }
    }

    /// Takes the request out of all tables.
    pub(super) fn drop_request(&mut self, ticket: Ticket) -> Option<Request> {
        self.unlink(ticket);
        let request = self.requests.remove(&ticket)?;
        self.timers.remove(&(request.deadline, ticket));
        if let Some(at) = request.wake {
            self.wakes.remove(&(at, ticket));
        }
        if let Some(token) = &request.token {
            self.by_token.remove(token);
        }
        self.waiting.retain(|t| *t != ticket);
        if request.rounds > 0 || request.job.is_some() {
            let gone = self.asks.abandon(|to| match to {
                super::ReplyTo::Input(of, _) | super::ReplyTo::Url(of, _) => *of == ticket,
                _ => false,
            });
            self.actions.extend(gone.into_iter().map(Action::AskCancelled));
        }
        if request.job.is_some() {
            self.drop_children(ticket);
        }
        Some(request)
    }

    pub(super) fn resolve(&mut self, ticket: Ticket, outcome: Result<Raw, Error>) {
        let Some(request) = self.drop_request(ticket) else { return };
        if request.purpose == Purpose::Ping {
            self.pinging = false;
        }
        if matches!(request.purpose, Purpose::Caller | Purpose::Listen) {
            let direct = request.rounds == 0;
            self.actions.push_back(Action::Resolve { ticket, direct, outcome });
        }
    }

    /// The request has been answered, or never will be.
    pub(super) fn conclude(&mut self, now: Duration, ticket: Ticket, outcome: Result<Raw, Error>) {
        let Some(request) = self.requests.get(&ticket) else { return };
        match request.purpose {
            Purpose::Initialize => self.initialized(now, ticket, outcome),
            Purpose::Discover => self.probed(now, ticket, None, outcome),
            Purpose::Listen => self.unheard(now, ticket, outcome.map(drop)),
            Purpose::Job(parent) => {
                let method = request.method.clone();
                self.drop_request(ticket);
                self.job_answer(now, parent, &method, outcome);
            }
            Purpose::Caller => self.answered(now, ticket, outcome),
            // The answer to a ping of the client's own may be an error: it proves as much.
            Purpose::Ping | Purpose::Quiet => self.resolve(ticket, outcome),
        }
    }

    /// A request of the caller was answered: with its result, or with what has to come before.
    fn answered(&mut self, now: Duration, ticket: Ticket, outcome: Result<Raw, Error>) {
        let result = match outcome {
            Ok(result) => result,
            Err(error) => {
                if !self.begin_urls(now, ticket, &error) {
                    self.resolve(ticket, Err(error));
                }
                return;
            }
        };
        let Some(request) = self.requests.get(&ticket) else { return };
        let method = request.method.as_str();
        if self.stateless.is_none() {
            if method == "tools/call"
                && let Some(task) = self.task_in(request.params.as_ref(), &result)
                && self.begin_job(now, ticket, &task)
            {
                return;
            }
            return self.resolve(ticket, Ok(result));
        }
        let kind = result.parse::<Kind<'_>>().map(|kind| kind.kind.map(|kind| kind.get().to_owned()));
        let declared = self.declared.extensions.contains_key(meta::TASKS_EXTENSION);
        match kind.as_ref().map(|kind| kind.as_deref()) {
            Ok(None | Some(r#""complete""#)) => self.resolve(ticket, Ok(result)),
            Ok(Some(r#""input_required""#)) => self.begin_round(now, ticket, &result),
            Ok(Some(r#""task""#)) if declared && method == "tools/call" => {
                let task = result.value();
                if !task.is_ok_and(|task| self.begin_job(now, ticket, &task)) {
                    self.resolve(ticket, Err(Error::Invalid("a task without a taskId".into())));
                }
            }
            Ok(Some(other)) => {
                let why = format!("the result of {method} is of the type {other}, which means nothing here");
                self.resolve(ticket, Err(Error::Invalid(why)));
            }
            Err(error) => self.resolve(ticket, Err(error.clone())),
        }
    }

    pub(super) fn disconnect(&mut self, error: Error) {
        self.close(error.clone());
        self.actions.push_back(Action::Disconnect(error));
    }

    // ---- time ----

    /// Lets time pass.
    pub fn tick(&mut self, now: Duration) {
        while let Some(&(at, ticket)) = self.wakes.first() {
            if at > now {
                break;
            }
            self.wakes.remove(&(at, ticket));
            let Some(request) = self.requests.get_mut(&ticket) else { continue };
            request.wake = None;
            if request.job.is_some() {
                self.look(now, ticket);
            } else if request.listening.is_some() {
                self.listen_again(now, ticket);
            }
        }
        while let Some(&(at, ticket)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.remove(&(at, ticket));
            let Some(request) = self.requests.get_mut(&ticket) else { continue };
            let after = now.saturating_sub(request.started);
            let error = Error::Timeout { method: request.method.clone(), after };
            // Who waits for a person to visit a URL is told about the URL.
            let error = request.urls.take().map_or(error, |urls| urls.into_error());
            match request.purpose {
                Purpose::Ping => {
                    self.resolve(ticket, Err(error));
                    self.disconnect(Error::Closed("the server did not answer a ping in time".into()));
                }
                // Neither is ever cancelled: a late answer to the probe is still of use.
                Purpose::Initialize | Purpose::Discover => self.conclude(now, ticket, Err(error)),
                Purpose::Caller | Purpose::Quiet => {
                    self.cancel_job(now, ticket);
                    self.withdraw(ticket, "timeout", true);
                    self.resolve(ticket, Err(error));
                }
                Purpose::Job(_) | Purpose::Listen => {
                    self.withdraw(ticket, "timeout", true);
                    self.conclude(now, ticket, Err(error));
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

    pub(super) fn next_ping(&self) -> Option<Duration> {
        let every = self.ping_every.filter(|_| !self.pinging && self.stateless.is_none());
        every.map(|every| self.heard.saturating_add(every))
    }

    /// The request's time stands still.
    pub(super) fn pause(&mut self, now: Duration, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        if request.held.is_none() {
            self.timers.remove(&(request.deadline, ticket));
            request.held = Some(now);
        }
    }

    /// The request's time goes on.
    pub(super) fn unpause(&mut self, now: Duration, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        if let Some(since) = request.held.take() {
            let stood = now.saturating_sub(since);
            request.ceiling = request.ceiling.saturating_add(stood);
            if matches!(request.purpose, Purpose::Discover | Purpose::Initialize) {
                // What follows in the start has its time as well.
                self.begun = self.begun.saturating_add(stood);
            }
            self.allow_time(now, ticket);
        }
    }

    /// The request has its timeout from now on, within its ceiling.
    pub(super) fn allow_time(&mut self, now: Duration, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        self.timers.remove(&(request.deadline, ticket));
        if request.purpose == Purpose::Listen {
            request.ceiling = now.saturating_add(request.timeout);
        }
        request.deadline = now.saturating_add(request.timeout).min(request.ceiling);
        if request.held.is_none() {
            self.timers.insert((request.deadline, ticket));
        }
    }

    /// The request may take any time.
    pub(super) fn without_deadline(&mut self, ticket: Ticket) {
        if let Some(request) = self.requests.get(&ticket) {
            self.timers.remove(&(request.deadline, ticket));
        }
    }

    /// Progress was reported.
    pub(super) fn extend(&mut self, now: Duration, ticket: Ticket) {
        if self.requests.get(&ticket).is_some_and(|r| r.reset_on_progress && r.held.is_none()) {
            self.allow_time(now, ticket);
        }
    }

    /// Something is to be done for the request then.
    pub(super) fn wake_at(&mut self, at: Duration, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        if let Some(before) = request.wake.replace(at) {
            self.wakes.remove(&(before, ticket));
        }
        self.wakes.insert((at, ticket));
    }
}
