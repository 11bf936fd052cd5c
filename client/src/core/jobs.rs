//! Long-running calls that the server carries out as tasks: those of 2025-11-25, and the extension of 2026-07-28. Their
//! caller sees nothing of it but the outcome.
//!
//! A task is polled at the pace that the server asks for. Notifications only make the next look come sooner.

use super::asks::ReplyTo;
use super::rounds::{Input, too_many, unanswered};
use super::{Action, Error, Event, Purpose, RequestOptions, RpcError, Session, Ticket, protocol_error};
use crate::raw::Raw;
use serde_json::{Map, Value, json};
use sparring_wire::{Revision, meta};
use std::collections::HashSet;
use std::time::Duration;

/// A request that goes on as a task.
#[derive(Debug)]
pub(super) struct Job {
    /// The task's id.
    pub(super) id: String,
    status: String,
    /// How long to wait between two looks.
    every: Duration,
    /// The request about the task that is on the wire.
    asking: Option<Ticket>,
    /// Whether the task's result is asked for, which comes when it comes.
    fetching: bool,
    /// Names of questions that were put already.
    put: HashSet<String>,
    /// Looks in a row that failed.
    failures: u32,
}

/// Looks in a row that may fail before a task counts as lost.
const MAX_FAILURES: u32 = 3;
/// The longest wait between two looks that a server can ask for.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

impl Session {
    /// A result that says that the request goes on as a task. `false`: it says no such thing.
    pub(super) fn begin_job(&mut self, now: Duration, ticket: Ticket, task: &Value) -> bool {
        let Some(id) = task.get("taskId").and_then(Value::as_str).map(str::to_owned) else { return false };
        self.off_the_wire(ticket);
        let limit = self.tasks.limit;
        let every = self.tasks.poll_every;
        let Some(request) = self.requests.get_mut(&ticket) else { return true };
        request.job = Some(Box::new(Job {
            id,
            status: String::new(),
            every,
            asking: None,
            fetching: false,
            put: HashSet::new(),
            failures: 0,
        }));
        if !request.limited {
            request.ceiling = request.started.saturating_add(limit);
        }
        request.timeout = limit;
        self.allow_time(now, ticket);
        self.note_task(ticket, task);
        if is_over(task) {
            // Its outcome is not in this.
            self.look(now, ticket);
        } else {
            self.look_later(now, ticket);
        }
        true
    }

    fn job_mut(&mut self, ticket: Ticket) -> Option<&mut Job> {
        self.requests.get_mut(&ticket)?.job.as_deref_mut()
    }

    /// Takes what the server says of a task.
    fn note_task(&mut self, ticket: Ticket, task: &Value) {
        let name = if self.stateless.is_some() { "pollIntervalMs" } else { "pollInterval" };
        let Some(job) = self.job_mut(ticket).filter(|_| task.get("status").is_some()) else { return };
        if let Some(every) = task.get(name).and_then(Value::as_u64) {
            job.every = Duration::from_millis(every).min(MAX_WAIT);
        }
        let status = task.get("status").and_then(Value::as_str).unwrap_or_default();
        if job.status != status {
            status.clone_into(&mut job.status);
            let (id, status) = (job.id.clone(), status.to_owned());
            let message = task.get("statusMessage").and_then(Value::as_str).map(str::to_owned);
            self.actions.push_back(Action::Event(Event::Task { id, status, message }));
        }
    }

    fn look_later(&mut self, now: Duration, ticket: Ticket) {
        if let Some(at) = self.job_mut(ticket).map(|job| now.saturating_add(job.every)) {
            self.wake_at(at, ticket);
        }
    }

    /// Looks how the task fares.
    pub(super) fn look(&mut self, now: Duration, ticket: Ticket) {
        self.ask_about(now, ticket, "tasks/get", Map::new());
    }

    /// Makes a request about a task on behalf of the request that became it.
    fn ask_about(&mut self, now: Duration, ticket: Ticket, method: &str, more: Map<String, Value>) {
        let Some(job) = self.job_mut(ticket) else { return };
        if method == "tasks/get" && (job.asking.is_some() || job.fetching) {
            return;
        }
        let fetches = method == "tasks/result";
        let mut params = Map::new();
        params.insert("taskId".into(), job.id.as_str().into());
        params.extend(more);
        let ceiling = self.requests.get(&ticket).map(|r| r.ceiling.saturating_sub(now));
        let options = RequestOptions {
            // The result comes when the task is over, however long that takes.
            timeout: ceiling.filter(|_| fetches),
            ceiling,
            reset_on_progress: Some(false),
            ..RequestOptions::default()
        };
        let child = self.enter(now, Purpose::Job(ticket), method, Some(Value::Object(params)), options);
        if let Some(job) = self.job_mut(ticket) {
            job.fetching |= fetches;
            if method == "tasks/get" {
                job.asking = Some(child);
            }
        }
        self.send(child);
    }

    /// A request about a task was answered.
    pub(super) fn job_answer(
        &mut self,
        now: Duration,
        ticket: Ticket,
        method: &str,
        outcome: Result<Raw, Error>,
    ) {
        let Some(job) = self.job_mut(ticket) else { return };
        match method {
            "tasks/get" => job.asking = None,
            "tasks/result" => {
                job.fetching = false;
                return match outcome {
                    // The stream of the answer is gone; the task is not.
                    Err(Error::Closed(_) | Error::Http { .. }) if job.failures < MAX_FAILURES => {
                        job.failures += 1;
                        self.look_later(now, ticket);
                    }
                    outcome => self.resolve(ticket, outcome),
                };
            }
            // What comes of an update is seen at the next look.
            _ => return,
        }
        let task = match outcome.and_then(|raw| raw.value()) {
            Ok(task) => task,
            Err(Error::Timeout { .. } | Error::Closed(_) | Error::Http { .. })
                if job.failures < MAX_FAILURES =>
            {
                job.failures += 1;
                return self.look_later(now, ticket);
            }
            Err(error) => return self.resolve(ticket, Err(error)),
        };
        job.failures = 0;
        self.note_task(ticket, &task);
        self.follow(now, ticket, &task);
    }

    fn follow(&mut self, now: Duration, ticket: Ticket, task: &Value) {
        let extension = self.stateless.is_some();
        match (task.get("status").and_then(Value::as_str), extension) {
            (Some("working"), _) => self.look_later(now, ticket),
            // The questions come as requests while the result is awaited.
            (Some("input_required" | "completed" | "failed"), false) => {
                self.ask_about(now, ticket, "tasks/result", Map::new());
            }
            (Some("input_required"), true) => {
                self.put_questions(now, ticket, task);
                self.look_later(now, ticket);
            }
            (Some("completed"), true) => match task.get("result") {
                Some(result @ Value::Object(_)) => self.resolve(ticket, Ok(result.clone().into())),
                _ => self.resolve(ticket, Err(Error::Invalid("a completed task without a result".into()))),
            },
            (Some("failed"), true) => {
                let error = protocol_error(task.get("error").unwrap_or(&Value::Null));
                self.resolve(ticket, Err(error));
            }
            (Some("cancelled"), _) => {
                self.resolve(ticket, Err(Error::Cancelled("the server has cancelled the task".into())));
            }
            (status, _) => {
                let error = Error::Invalid(format!("the server reports a task in the status {status:?}"));
                self.resolve(ticket, Err(error));
            }
        }
    }

    /// Puts the questions of a task that were not put yet.
    fn put_questions(&mut self, now: Duration, ticket: Ticket, task: &Value) {
        for (name, question) in task.get("inputRequests").and_then(Value::as_object).into_iter().flatten() {
            let fresh = self.job_mut(ticket).is_some_and(|job| job.put.insert(name.clone()));
            if !fresh {
                continue;
            }
            match self.read_input(question.clone()) {
                Ok(Input::Known(answer)) => self.update(now, ticket, name, answer),
                Ok(Input::Ask(ask)) => {
                    if !self.put(ReplyTo::Input(ticket, name.clone()), ask) {
                        return self.give_up(now, ticket, too_many());
                    }
                }
                Err(error) => return self.give_up(now, ticket, error),
            }
        }
    }

    fn update(&mut self, now: Duration, ticket: Ticket, name: &str, answer: Value) {
        let mut more = Map::new();
        more.insert("inputResponses".into(), json!({ name: answer }));
        self.ask_about(now, ticket, "tasks/update", more);
    }

    /// An answer to a question of a task.
    pub(super) fn job_input(
        &mut self,
        now: Duration,
        ticket: Ticket,
        name: &str,
        answer: Result<Value, RpcError>,
    ) {
        match answer {
            Ok(answer) => self.update(now, ticket, name, answer),
            Err(error) => self.give_up(now, ticket, unanswered(&error)),
        }
    }

    fn give_up(&mut self, now: Duration, ticket: Ticket, error: Error) {
        self.cancel_job(now, ticket);
        self.resolve(ticket, Err(error));
    }

    /// Tells the server that nobody waits for the task any more.
    pub(super) fn cancel_job(&mut self, now: Duration, ticket: Ticket) {
        let Some(id) = self.job_mut(ticket).map(|job| job.id.clone()) else { return };
        let tasks = self.negotiated.as_ref().and_then(|n| n.capabilities.get("tasks"));
        if self.stateless.is_some() || tasks.is_some_and(|tasks| tasks.get("cancel").is_some()) {
            let params = json!({"taskId": id});
            let child =
                self.enter(now, Purpose::Quiet, "tasks/cancel", Some(params), RequestOptions::default());
            self.send(child);
        }
    }

    /// A notification about a task: the next look is due.
    pub(super) fn task_told(&mut self, now: Duration, task: &Value) {
        let id = task.get("taskId").and_then(Value::as_str).unwrap_or_default();
        let is_it = |job: &Job| job.id == id && !job.fetching && job.asking.is_none();
        let found = self.requests.iter().find(|(_, r)| r.job.as_deref().is_some_and(is_it));
        let Some(ticket) = found.map(|(ticket, _)| *ticket) else { return };
        let known =
            self.job_mut(ticket).is_some_and(|job| task.get("status") == Some(&job.status.as_str().into()));
        if !known {
            self.wake_at(now, ticket);
        }
    }

    /// The requests about a task end with it.
    pub(super) fn drop_children(&mut self, parent: Ticket) {
        let mut children: Vec<Ticket> = self
            .requests
            .iter()
            .filter(|(_, r)| r.purpose == Purpose::Job(parent))
            .map(|(t, _)| *t)
            .collect();
        children.sort_unstable();
        for child in children {
            self.withdraw(child, "no longer needed", true);
            self.drop_request(child);
        }
    }

    /// Whether a result of a call says that it goes on as a task.
    pub(super) fn task_in(&self, params: Option<&Value>, result: &Raw) -> Option<Value> {
        if self.revision() != Revision::V2025_11_25 || params?.get("task").is_none() {
            return None;
        }
        let mut result: Map<String, Value> = result.parse().ok()?;
        result.remove("task").filter(|task| task.get("taskId").is_some())
    }
}

fn is_over(task: &Value) -> bool {
    matches!(task.get("status").and_then(Value::as_str), Some("completed" | "failed" | "cancelled"))
}

/// The name of the tasks extension, with its settings, as a client declares it.
pub(super) fn extension() -> (String, Value) {
    (meta::TASKS_EXTENSION.to_owned(), json!({}))
}
