//! Tasks of the protocol, called jobs here since a core's tasks are something else: those of 2025-11-25, and the
//! extension of 2026-07-28.
//!
//! Without a clock, a job moves on when it is asked after: by `tasks/get`, by `tasks/result`, which it hurries to its
//! end, or by a subscription, which hurries it as well.

use super::era::missing_client_capability;
use super::listen::declares_tasks;
use super::rounds::{Detour, input_requests, is_answer_to, relate};
use super::{Pending, Scope, ServerCore, Task};
use crate::model::{RpcError, invalid_params, method_not_found};
use crate::script::{TaskEnd, TaskMove, TaskScript, TaskSupport};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use sparring_wire::jsonrpc::{self, codes};
use sparring_wire::{Revision, meta};
use std::time::Duration;

/// Jobs kept; more are refused.
const MAX_JOBS: usize = 10_000;

/// A request that runs on after its first answer.
#[derive(Debug)]
pub(super) struct Job {
    script: TaskScript,
    revision: Revision,
    session: Option<String>,
    method: String,
    params: Value,
    ttl: Option<u64>,
    created: Duration,
    updated: Duration,
    polls: u32,
    lag: u32,
    inputs: Map<String, Value>,
    state: State,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Working,
    Asking,
    Completed(Value),
    /// With a result in 2025-11-25 only.
    Failed(Result<Value, RpcError>),
    Cancelled,
}

impl State {
    const fn word(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Asking => "input_required",
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    const fn is_over(&self) -> bool {
        !matches!(self, Self::Working | Self::Asking)
    }
}

impl Job {
    fn has_inputs(&self) -> bool {
        self.script.ask.iter().flat_map(|ask| ask.requests.keys()).all(|key| self.inputs.contains_key(key))
    }
}

impl ServerCore {
    /// The answer to a request that has to do with jobs; `None` if it has not.
    pub(super) fn job_answer(&mut self, request: &Pending, scope: &Scope) -> Option<Result<Value, RpcError>> {
        let tasks = request.method.strip_prefix("tasks/");
        let stateless = request.revision.is_stateless();
        if tasks.is_none() && request.method != "tools/call" || request.revision < Revision::V2025_11_25 {
            return None;
        }
        let Some(verb) = tasks else { return self.call_as_job(request, scope) };
        let known = crate::model::Model::has_method(&request.method, request.revision)
            && self.model.has_capability(&request.method, request.revision);
        if !known {
            return Some(Err(method_not_found(&request.method)));
        }
        if stateless && !declares_tasks(request) {
            return Some(Err(missing_client_capability(json!({"extensions": {meta::TASKS_EXTENSION: {}}}))));
        }
        let params = request.params.as_ref().unwrap_or(&Value::Null);
        if verb == "list" {
            return Some(self.list_jobs(params, scope));
        }
        let found = params["taskId"].as_str().map(str::to_owned).filter(|id| {
            self.jobs.get(id).is_some_and(|job| {
                job.revision == request.revision && (stateless || job.session == scope.session)
            })
        });
        let Some(id) = found else {
            return Some(Err(invalid_params("there is no such task (any more)")));
        };
        Some(match verb {
            "get" => self.poll(&id),
            "update" => Ok(self.update_job(&id, params)),
            "cancel" => self.cancel_job(&id),
            _ => self.job_result(&id, request),
        })
    }

    fn call_as_job(&mut self, request: &Pending, scope: &Scope) -> Option<Result<Value, RpcError>> {
        let params = request.params.as_ref()?;
        let name = params["name"].as_str()?;
        self.model.tool_named(name)?;
        let script = self.model.task_of(name).filter(|s| s.support != TaskSupport::Forbidden);
        let wanted = if request.revision.is_stateless() {
            declares_tasks(request)
        } else {
            let capabilities = self.model.capabilities(request.revision);
            capabilities["tasks"]["requests"]["tools"].get("call")?;
            params.get("task").is_some_and(Value::is_object)
        };
        match (script, wanted) {
            (Some(script), true) => Some(self.create_job(request, scope, script)),
            (Some(script), false) if script.support == TaskSupport::Required => {
                Some(Err(if request.revision.is_stateless() {
                    missing_client_capability(json!({"extensions": {meta::TASKS_EXTENSION: {}}}))
                } else {
                    RpcError::new(codes::METHOD_NOT_FOUND, format!("{name} has to be called as a task"))
                }))
            }
            (None, true) if !request.revision.is_stateless() => {
                Some(Err(RpcError::new(codes::METHOD_NOT_FOUND, format!("{name} is never a task"))))
            }
            _ => None,
        }
    }

    /// Starts a job; the result that says so.
    pub(super) fn create_job(
        &mut self,
        request: &Pending,
        scope: &Scope,
        script: TaskScript,
    ) -> Result<Value, RpcError> {
        if self.jobs.len() >= MAX_JOBS {
            return Err(RpcError::new(codes::INTERNAL_ERROR, "too many tasks"));
        }
        self.jobs_made += 1;
        let made = Sha256::digest(format!("task {} {}", self.seed, self.jobs_made));
        let id: String = made.iter().take(16).map(|b| format!("{b:02x}")).collect();
        let params = request.params.clone().unwrap_or_default();
        let job = Job {
            ttl: script.ttl_ms.or_else(|| params["task"]["ttl"].as_u64()),
            lag: script.lag,
            revision: request.revision,
            session: scope.session.clone(),
            method: request.method.clone(),
            created: self.now,
            updated: self.now,
            polls: 0,
            // A stateless request brings the answers of earlier rounds itself.
            inputs: match (&request.inputs, &params["inputResponses"]) {
                (Some(inputs), _) => inputs.clone(),
                (None, Value::Object(responses)) if request.revision.is_stateless() => responses.clone(),
                _ => Map::new(),
            },
            params,
            state: State::Working,
            script,
        };
        let task = self.show_job(&id, &job, false);
        let immediate = job.script.immediate.clone();
        self.jobs.insert(id, job);
        if request.revision.is_stateless() {
            let mut result = task;
            result["resultType"] = "task".into();
            return Ok(result);
        }
        let mut result = json!({"task": task});
        if let Some(text) = immediate {
            result["_meta"] = json!({meta::MODEL_IMMEDIATE_RESPONSE: text});
        }
        Ok(result)
    }

    /// A job as JSON; `whole` with what the extension adds to it for its state.
    fn show_job(&self, id: &str, job: &Job, whole: bool) -> Value {
        let stateless = job.revision.is_stateless();
        let time = |at: Duration| sparring_wire::time::rfc3339(self.epoch.saturating_add(at));
        let mut task = json!({"taskId": id, "status": job.state.word()});
        if let Some(message) = &job.script.message {
            task["statusMessage"] = message.as_str().into();
        }
        task["createdAt"] = time(job.created).into();
        task["lastUpdatedAt"] = time(job.updated).into();
        task[if stateless { "ttlMs" } else { "ttl" }] = json!(job.ttl);
        if let Some(interval) = job.script.poll_interval_ms {
            task[if stateless { "pollIntervalMs" } else { "pollInterval" }] = interval.into();
        }
        if whole && stateless {
            match &job.state {
                State::Asking => {
                    let mut asked = job.script.ask.as_ref().map_or(json!({}), input_requests);
                    // With all answers there, it is the script that is slow to see them.
                    if let Value::Object(asked) = &mut asked
                        && !job.has_inputs()
                    {
                        asked.retain(|key, _| !job.inputs.contains_key(key));
                    }
                    task["inputRequests"] = asked;
                }
                State::Completed(result) => task["result"] = result.clone(),
                State::Failed(Err(error)) => {
                    task["error"] = json!({"code": error.code, "message": error.message});
                    if let Some(data) = &error.data {
                        task["error"]["data"] = data.clone();
                    }
                }
                _ => {}
            }
        }
        task
    }

    /// `tasks/get`: time passes for the job, then it is shown.
    fn poll(&mut self, id: &str) -> Result<Value, RpcError> {
        let Some(job) = self.jobs.get_mut(id) else { return Err(invalid_params("no such task")) };
        job.polls = job.polls.saturating_add(1);
        if job.script.lost_after.is_some_and(|most| job.polls > most) {
            self.jobs.remove(id);
            return Err(invalid_params("the task has expired"));
        }
        if job.state == State::Asking && job.has_inputs() && job.lag > 0 {
            job.lag -= 1;
        } else if job.polls > job.script.polls {
            self.move_on(id);
        }
        Ok(self.jobs.get(id).map(|job| self.show_job(id, job, true)).unwrap_or_default())
    }

    /// The job comes to its question, or to its end.
    fn move_on(&mut self, id: &str) {
        let Some(job) = self.jobs.get(id) else { return };
        let next = match &job.state {
            state if state.is_over() => return,
            _ if !job.has_inputs() => State::Asking,
            _ => match job.script.ends {
                TaskEnd::Never => State::Working,
                TaskEnd::Cancelled => State::Cancelled,
                TaskEnd::Failed => State::Failed(Err(job.script.error.clone().map_or_else(
                    || RpcError::new(codes::INTERNAL_ERROR, "the task has failed"),
                    |e| RpcError { code: e.code, message: e.message, data: e.data.map(|d| d.0) },
                ))),
                TaskEnd::Completed => self.ended(job),
            },
        };
        self.set_job(id, next);
    }

    /// How a job ends by itself.
    fn ended(&self, job: &Job) -> State {
        let outcome = if job.method == "tools/call" {
            self.model.outcome(&job.params, job.revision, &job.inputs)
        } else {
            match self.model.answer(job.revision, &job.method, Some(&job.params), &job.inputs) {
                Ok(crate::model::Reply::Result(result)) => Ok(result),
                Ok(crate::model::Reply::Ask(_)) => Ok(json!({})),
                Err(error) => Err(error),
            }
        };
        match outcome {
            // What a failed call is was changed with the extension.
            Ok(result) if result["isError"] == true && !job.revision.is_stateless() => {
                State::Failed(Ok(result))
            }
            Ok(mut result) => {
                if job.revision.is_stateless()
                    && let Value::Object(result) = &mut result
                {
                    result.entry("resultType").or_insert_with(|| "complete".into());
                }
                State::Completed(result)
            }
            Err(error) => State::Failed(Err(error)),
        }
    }

    /// Changes a job's state and tells who wants to know.
    fn set_job(&mut self, id: &str, state: State) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.state != state) else { return };
        job.state = state;
        job.updated = now;
        let (stateless, notify) = (job.revision.is_stateless(), job.script.notify);
        if let Some(job) = self.jobs.get(id) {
            let shown = self.show_job(id, job, true);
            if stateless {
                self.tell("notifications/tasks", Some(&shown), false);
            } else if notify {
                let out = self.vouched("notifications/tasks/status", Some(shown), Revision::V2025_11_25);
                self.notices.push(out);
            }
        }
    }

    /// Sends what the last request brought about, beside its answer.
    pub(super) fn give_notice(&mut self, task: &Task) {
        let on_get_stream = self.script.http.get_stream;
        for out in std::mem::take(&mut self.notices) {
            self.send(task, out, on_get_stream);
        }
    }

    fn list_jobs(&self, params: &Value, scope: &Scope) -> Result<Value, RpcError> {
        let mut mine: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.session == scope.session && !job.revision.is_stateless())
            .collect();
        mine.sort_by_key(|(id, job)| (job.created, id.as_str()));
        self.model.page("tasks", mine.into_iter().map(|(id, job)| self.show_job(id, job, false)), params)
    }

    fn update_job(&mut self, id: &str, params: &Value) -> Value {
        if let Some(job) = self.jobs.get_mut(id)
            && job.state == State::Asking
            && let Some(responses) = params["inputResponses"].as_object()
        {
            // What was not asked, is answered already, or is no answer, is passed over.
            for (key, asked) in job.script.ask.iter().flat_map(|ask| &ask.requests) {
                if let Some(response) = responses.get(key)
                    && is_answer_to(&asked.method, response)
                    && !job.inputs.contains_key(key)
                {
                    job.inputs.insert(key.clone(), response.clone());
                }
            }
        }
        json!({})
    }

    fn cancel_job(&mut self, id: &str) -> Result<Value, RpcError> {
        let Some(job) = self.jobs.get(id) else { return Err(invalid_params("no such task")) };
        let (stateless, ignores) = (job.revision.is_stateless(), job.script.ignores_cancel);
        if job.state.is_over() {
            return if stateless { Ok(json!({})) } else { Err(invalid_params("the task is over already")) };
        }
        if !(stateless && ignores) {
            self.set_job(id, State::Cancelled);
        }
        let shown = |core: &Self| core.jobs.get(id).map(|job| core.show_job(id, job, false));
        Ok(if stateless { json!({}) } else { shown(self).unwrap_or_default() })
    }

    /// `tasks/result` of a job that is, or now comes to be, over.
    fn job_result(&mut self, id: &str, request: &Pending) -> Result<Value, RpcError> {
        if let (Some(job), Some(inputs)) = (self.jobs.get_mut(id), &request.inputs) {
            job.inputs.extend(inputs.clone());
        }
        self.move_on(id);
        match self.jobs.get(id).map(|job| &job.state) {
            Some(State::Completed(result) | State::Failed(Ok(result))) => {
                let mut result = result.clone();
                relate(&mut result, id);
                Ok(result)
            }
            Some(State::Failed(Err(error))) => Err(error.clone()),
            _ => Err(RpcError::new(codes::INTERNAL_ERROR, "the task was cancelled")),
        }
    }

    /// What `tasks/result` waits for.
    pub(super) fn await_job(&mut self, task: &mut Task) -> Detour {
        let Some(request) = &task.request else { return Detour::None };
        let id = request.params.as_ref().and_then(|p| p["taskId"].as_str()).unwrap_or_default();
        let Some(job) = self.jobs.get(id).filter(|job| job.session == task.scope.session) else {
            return Detour::None;
        };
        if job.state.is_over() || request.revision != job.revision {
            return Detour::None;
        }
        if request.inputs.is_none() && !job.has_inputs() {
            let id = id.to_owned();
            let mut ask = job.script.ask.clone().unwrap_or_default();
            for asked in ask.requests.values_mut() {
                relate(&mut asked.params.get_or_insert_with(|| crate::script::JsonText(json!({}))).0, &id);
            }
            self.set_job(&id, State::Asking);
            return Detour::Ask(ask);
        }
        if job.script.ends == TaskEnd::Never {
            self.drop_answer(task);
            return Detour::Done;
        }
        Detour::None
    }

    /// Whether there is such a job of the extension.
    pub(super) fn knows_job(&self, id: &str) -> bool {
        self.jobs.get(id).is_some_and(|job| job.revision.is_stateless())
    }

    /// Someone listens to these jobs: they come to their question, or to their end.
    pub(super) fn hurry(&mut self, ids: &[String]) {
        for id in ids {
            self.move_on(id);
        }
    }

    /// The action `move_tasks`.
    pub(super) fn move_jobs(&mut self, task: &Task, to: TaskMove) {
        let open = self.jobs.iter().filter(|(_, job)| !job.state.is_over());
        let open: Vec<String> = open.map(|(id, _)| id.clone()).collect();
        for id in open {
            match to {
                TaskMove::Lost => {
                    self.jobs.remove(&id);
                }
                TaskMove::Cancelled => self.set_job(&id, State::Cancelled),
                TaskMove::Ended => {
                    if let Some(job) = self.jobs.get_mut(&id) {
                        job.script.ask = None;
                    }
                    self.move_on(&id);
                }
            }
        }
        self.give_notice(task);
    }

    /// The action `run_as_task`.
    pub(super) fn run_as_job(&mut self, task: &mut Task, script: TaskScript) {
        let Some(request) = &task.request else { return };
        let answer = match self.create_job(&request.clone(), &task.scope, script) {
            Ok(mut result) => {
                self.dress(request, &mut result);
                jsonrpc::result(&request.id, result)
            }
            Err(error) => jsonrpc::error(&request.id, error.code, &error.message, error.data),
        };
        let fault = self.is_faulty_answer(request, &answer);
        self.answer(task, &answer, fault);
    }
}
