//! Tasks that run at the client: questions of the server that it wants to be answered later (2025-11-25).

use super::asks::{ReplyTo, relate, response};
use super::{Action, Ask, RpcError, Session};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sparring_wire::jsonrpc::{self, codes};
use sparring_wire::{Id, Revision, time};
use std::collections::BTreeMap;
use std::time::Duration;

/// What ids and time stamps of tasks are made of.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Origin {
    /// A secret that task ids are derived from.
    pub seed: [u8; 32],
    /// The time since 1970 at the session's moment zero.
    pub unix: Duration,
}

impl std::fmt::Debug for Origin {
    // The seed is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin").field("unix", &self.unix).finish_non_exhaustive()
    }
}

/// Tasks that a server may have at a time.
const MAX_TASKS: usize = 64;
/// How often a server should look.
const POLL_MS: u64 = 1000;

#[derive(Debug)]
struct Task {
    /// The order they were made in.
    number: u64,
    created: Duration,
    updated: Duration,
    ttl: Duration,
    state: State,
    /// Requests for its result that wait.
    waiting: Vec<Id>,
}

#[derive(Debug)]
enum State {
    Working,
    Over(Result<Value, RpcError>),
    Cancelled,
}

impl State {
    const fn word(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Over(Ok(_)) => "completed",
            Self::Over(Err(_)) => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The tasks of one session.
#[derive(Debug, Default)]
pub(super) struct Served {
    tasks: BTreeMap<String, Task>,
    made: u64,
}

fn invalid(message: &str) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, message)
}

impl Session {
    /// What ids and time stamps of tasks are made of; without it, tasks of the server's are not served.
    #[must_use]
    pub const fn with_origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Whether a question is to become a task.
    pub(super) fn becomes_task(&self, method: &str, params: &Value) -> bool {
        let declared = self.declared.tasks.is_some_and(|tasks| match method {
            "sampling/createMessage" => tasks.sampling,
            _ => tasks.elicitation,
        });
        declared
            && self.revision() == Revision::V2025_11_25
            && self.origin.is_some()
            && params.get("task").is_some_and(Value::is_object)
    }

    /// Puts a question as a task; what the server is answered at once.
    pub(super) fn serve(&mut self, now: Duration, ask: Ask, params: &Value) -> Result<Value, RpcError> {
        self.expire(now);
        let Some(origin) = self.origin.filter(|_| self.served.tasks.len() < MAX_TASKS) else {
            return Err(RpcError::new(codes::INTERNAL_ERROR, "too many tasks"));
        };
        self.served.made += 1;
        let number = self.served.made;
        let digest = Sha256::new().chain_update(origin.seed).chain_update(number.to_be_bytes()).finalize();
        let id: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
        let asked = params.get("task").and_then(|t| t.get("ttl")).and_then(Value::as_u64);
        let most = self.tasks.serve_ttl;
        let ttl = asked.map_or(most, Duration::from_millis).min(most);
        let task =
            Task { number, created: now, updated: now, ttl, state: State::Working, waiting: Vec::new() };
        let shown = shown(origin, &id, &task);
        if !self.put(ReplyTo::Served(id.clone()), ask) {
            return Err(RpcError::new(codes::INTERNAL_ERROR, "too many open requests"));
        }
        self.served.tasks.insert(id, task);
        Ok(json!({"task": shown}))
    }

    /// The question of a task was answered.
    pub(super) fn served(&mut self, now: Duration, id: &str, answer: Result<Value, RpcError>) {
        let Some(task) = self.served.tasks.get_mut(id) else { return };
        task.updated = now;
        task.state = State::Over(answer);
        self.told(id);
    }

    /// Answers those who wait for a task that is over, and says how it ended.
    fn told(&mut self, id: &str) {
        let Some(origin) = self.origin else { return };
        let Some(task) = self.served.tasks.get_mut(id) else { return };
        let outcome = outcome(id, &task.state);
        let messages: Vec<Value> =
            task.waiting.drain(..).map(|request| response(&request, outcome.clone())).collect();
        let status = shown(origin, id, task);
        self.actions.extend(messages.into_iter().map(Action::Send));
        let told = jsonrpc::notification("notifications/tasks/status", Some(status));
        self.actions.push_back(Action::Send(told));
    }

    /// A request of the server about tasks. `None`: the answer comes later.
    pub(super) fn about_tasks(
        &mut self,
        now: Duration,
        id: &Id,
        method: &str,
        params: &Value,
    ) -> Option<Result<Value, RpcError>> {
        self.expire(now);
        let not_found = || Some(Err(RpcError::new(codes::METHOD_NOT_FOUND, "method not found")));
        let (Some(declared), Some(origin)) = (self.declared.tasks, self.origin) else { return not_found() };
        if self.revision() != Revision::V2025_11_25 {
            return not_found();
        }
        if method == "tasks/list" {
            if !declared.list {
                return not_found();
            }
            // All there are fit on one page, so that there is no valid cursor.
            if params.get("cursor").is_some() {
                return Some(Err(invalid("there is no such cursor")));
            }
            let mut tasks: Vec<(&String, &Task)> = self.served.tasks.iter().collect();
            tasks.sort_by_key(|(_, task)| task.number);
            let tasks: Vec<Value> = tasks.into_iter().map(|(id, task)| shown(origin, id, task)).collect();
            return Some(Ok(json!({"tasks": tasks})));
        }
        if method == "tasks/cancel" && !declared.cancel {
            return not_found();
        }
        let task_id = params.get("taskId").and_then(Value::as_str).unwrap_or_default();
        let Some(task) = self.served.tasks.get_mut(task_id) else {
            return Some(Err(invalid("there is no such task (any more)")));
        };
        match (method, &task.state) {
            ("tasks/get", _) => Some(Ok(shown(origin, task_id, task))),
            ("tasks/result", State::Working) => {
                if task.waiting.len() >= MAX_TASKS {
                    return Some(Err(RpcError::new(codes::INTERNAL_ERROR, "too many open requests")));
                }
                task.waiting.push(id.clone());
                None
            }
            ("tasks/result", state) => Some(outcome(task_id, state)),
            ("tasks/cancel", State::Working) => {
                task.state = State::Cancelled;
                task.updated = now;
                let status = shown(origin, task_id, task);
                let gone = self.asks.abandon(|to| *to == ReplyTo::Served(task_id.to_owned()));
                self.actions.extend(gone.into_iter().map(Action::AskCancelled));
                self.told(task_id);
                Some(Ok(status))
            }
            ("tasks/cancel", _) => Some(Err(invalid("the task is over already"))),
            _ => not_found(),
        }
    }

    /// Forgets tasks whose time is over.
    fn expire(&mut self, now: Duration) {
        let over = |task: &Task| now >= task.created.saturating_add(task.ttl);
        let gone: Vec<String> =
            self.served.tasks.iter().filter(|(_, t)| over(t)).map(|(id, _)| id.clone()).collect();
        for id in gone {
            let asks = self.asks.abandon(|to| *to == ReplyTo::Served(id.clone()));
            self.actions.extend(asks.into_iter().map(Action::AskCancelled));
            if let Some(task) = self.served.tasks.remove(&id) {
                let lost = || Err(invalid("the task has expired"));
                let messages = task.waiting.iter().map(|request| response(request, lost()));
                self.actions.extend(messages.map(Action::Send));
            }
        }
    }
}

/// What `tasks/result` says of a task that is over.
fn outcome(id: &str, state: &State) -> Result<Value, RpcError> {
    match state {
        State::Over(Ok(result)) => Ok(relate(result.clone(), Some(json!({"taskId": id})))),
        State::Over(Err(error)) => Err(error.clone()),
        _ => Err(RpcError::new(codes::INTERNAL_ERROR, "the task was cancelled")),
    }
}

/// A task as JSON.
fn shown(origin: Origin, id: &str, task: &Task) -> Value {
    let stamp = |at: Duration| time::rfc3339(origin.unix.saturating_add(at));
    json!({
        "taskId": id,
        "status": task.state.word(),
        "createdAt": stamp(task.created),
        "lastUpdatedAt": stamp(task.updated),
        "ttl": u64::try_from(task.ttl.as_millis()).unwrap_or(u64::MAX),
        "pollInterval": POLL_MS,
    })
}
