//! The interpreter of a rule's actions.

use super::era::{meta_of, missing_capability};
use super::listen::{declares_tasks, is_for_subscribers};
use super::rounds::Detour;
use super::{Effect, MAX_TASKS, Out, Pending, ServerCore, Task, Then, Wait};
use crate::model::tool_name;
use crate::script::{Action, ErrorAnswer, JsonText, LogMessage, Mangle, OwnMessage, ToolScript};
use crate::shape;
use serde_json::{Value, json};
use sparring_wire::jsonrpc::{self, Envelope, Id};
use sparring_wire::transcript::What;
use sparring_wire::{Revision, Transport, meta};
use std::time::Duration;

/// Whether a result is of a kind that the client has not said it can deal with.
fn is_unasked_for(request: &Pending, result: &Value) -> bool {
    if !request.revision.is_stateless() {
        let task = request.params.as_ref().is_some_and(|p| p.get("task").is_some_and(Value::is_object));
        return request.revision == Revision::V2025_11_25
            && request.method == "tools/call"
            && result.get("task").is_some()
            && !task;
    }
    let declared = meta_of(request.params.as_ref(), meta::CLIENT_CAPABILITIES).unwrap_or(&Value::Null);
    match result["resultType"].as_str() {
        Some("task") => !declares_tasks(request),
        Some("input_required") => result["inputRequests"].as_object().is_some_and(|asked| {
            asked.values().any(|asked| {
                let params = asked.get("params").unwrap_or(&Value::Null);
                missing_capability(asked["method"].as_str().unwrap_or_default(), params, declared).is_some()
            })
        }),
        _ => false,
    }
}

/// How a task goes on after an action.
pub(super) enum Flow {
    Next,
    Park(Wait),
}

impl ServerCore {
    /// Runs a task until it waits or ends.
    pub(super) fn run(&mut self, mut task: Task) {
        while let Some(action) = task.actions.pop_front() {
            let flow = self.act(&mut task, action);
            if self.ended {
                return;
            }
            if let Flow::Park(wait) = flow
                && self.tasks.len() < MAX_TASKS
            {
                if let Wait::Timer(after) = wait {
                    self.effect(Effect::Timer { id: task.id, after });
                }
                self.parked(&task);
                task.wait = Some(wait);
                self.tasks.insert(task.id, task);
                return;
            }
        }
        self.finish(task);
    }

    /// The actions are through (or given up): what follows them.
    pub(super) fn finish(&mut self, mut task: Task) {
        match std::mem::replace(&mut task.then, Then::Nothing) {
            Then::Nothing => {}
            Then::Answer => {
                if !task.answered && !task.cancelled {
                    match self.detour(&mut task) {
                        Detour::None => self.give_faithful(&mut task),
                        Detour::Ask(ask) => {
                            task.then = Then::Answer;
                            task.actions.push_front(Action::InputRequired(ask));
                            return self.run(task);
                        }
                        Detour::Done => {}
                    }
                }
            }
            Then::Look(request) => {
                if !task.answered {
                    self.look(&request);
                }
            }
            Then::Exit(code) => return self.exit(code),
        }
        if task.expired {
            self.not_found(&task);
        }
        if let Some(batch) = task.scope.batch {
            self.leave_batch(batch);
        }
        if let Some(exchange) = task.scope.exchange {
            self.leave(exchange, &task);
        }
    }

    fn act(&mut self, task: &mut Task, action: Action) -> Flow {
        let http = self.transport == Transport::Http;
        match action {
            Action::Default => {
                if let Then::Look(_) = task.then {
                    if let Then::Look(request) = std::mem::replace(&mut task.then, Then::Nothing)
                        && !task.answered
                    {
                        self.look(&request);
                    }
                } else if !task.cancelled {
                    match self.detour(task) {
                        Detour::None => self.give_faithful(task),
                        Detour::Ask(ask) => {
                            task.actions.push_front(Action::Default);
                            task.actions.push_front(Action::InputRequired(ask));
                        }
                        Detour::Done => {}
                    }
                }
            }
            Action::Respond(result) => self.respond_with(task, result),
            Action::Error(error) => self.error_with(task, error),
            Action::Drop => self.drop_answer(task),
            Action::HoldUntil(until) if until.times > 0 => {
                self.show_stream(task);
                task.actions.push_front(Action::Default);
                return Flow::Park(Wait::Until { on: until.on, left: until.times });
            }
            Action::HoldUntil(_) => task.actions.push_front(Action::Default),
            Action::Mangle(mangle) => self.mangle(task, mangle),
            Action::Duplicate => {
                if let Some(request) = &task.request {
                    let answer = self.faithful(request, &task.scope);
                    self.force_stream(task);
                    self.answer(task, &answer, false);
                    self.answer(task, &answer, true);
                }
            }
            Action::DelayMs(ms) => return Flow::Park(Wait::Timer(Duration::from_millis(ms))),
            Action::Notify(own) => self.notify(task, &own),
            Action::Request(own) => self.own_request(task, &own),
            Action::Progress(times) => self.progress(task, times),
            Action::Batch(messages) => self.batch(task, messages),
            Action::AddTool(tool) => {
                self.observe(What::ModelChanged { change: format!("tool `{}` added", tool_name(&tool)) });
                self.model.add_tool(tool);
            }
            Action::RemoveTool(name) => {
                self.model.remove_tool(&name);
                self.observe(What::ModelChanged { change: format!("tool `{name}` removed") });
            }
            Action::AddResource(resource) => {
                self.observe(What::ModelChanged { change: format!("resource `{}` added", resource.uri) });
                self.model.add_resource(resource);
            }
            Action::RemovePrompt(name) => {
                self.model.remove_prompt(&name);
                self.observe(What::ModelChanged { change: format!("prompt `{name}` removed") });
            }
            Action::Announce(kind) => self.announce(task, kind),
            Action::InputRequired(ask) => return self.input_required(task, ask),
            Action::RunAsTask(script) => self.run_as_job(task, script),
            Action::MoveTasks(to) => self.move_jobs(task, to),
            Action::ResourceUpdated(uri) => self.resource_updated(task, &uri),
            Action::EndSubscriptions(how) => self.end_subscriptions(how),
            Action::LeaveOut(members) => {
                if let Some(request) = &mut task.request {
                    request.leave_out.extend(members);
                }
            }
            Action::Log(log) => self.log(task, log),
            Action::RequestTask(errand) => return self.request_task(task, errand),
            Action::Stdout(_)
            | Action::StderrBytes(_)
            | Action::SplitEvery(_)
            | Action::MergeNext(_)
            | Action::Crlf
            | Action::ByteOrderMark
            | Action::InvalidUtf8
            | Action::CloseStdout
            | Action::Exit(_)
            | Action::Die(_)
            | Action::StopReading => {
                if !http {
                    self.act_stdio(action);
                }
            }
            Action::Stall if !http => self.drop_answer(task),
            Action::Status(_)
            | Action::Answers(_)
            | Action::CutStream(_)
            | Action::Reset
            | Action::Stall
            | Action::ExpireSession
            | Action::CloseGetStream
            | Action::SseComment(_)
            | Action::RawBody(_) => {
                if http {
                    self.act_http(task, action);
                }
            }
        }
        Flow::Next
    }

    fn give_faithful(&mut self, task: &mut Task) {
        if let Some(request) = &task.request {
            // What the script put into the model may be wrong on purpose.
            let answer = self.faithful(request, &task.scope);
            let fault = self.is_faulty_answer(request, &answer);
            if fault && !self.is_spelt_out() {
                let message = format!("an answer of ours to {} is not valid", request.method);
                self.observe(What::HarnessError { message });
            }
            self.give_notice(task);
            self.answer(task, &answer, fault);
        }
    }

    /// Whether an answer is one that the client must not be given.
    pub(super) fn is_faulty_answer(&self, request: &Pending, answer: &Value) -> bool {
        match (answer.get("result"), answer.get("error")) {
            (Some(result), _) => {
                !shape::result(&request.method, result, request.revision) || is_unasked_for(request, result)
            }
            (None, Some(error)) => !shape::error(error, request.revision),
            (None, None) => false,
        }
    }

    /// Whether the script spells out, or changes, something that faithful answers are made of.
    fn is_spelt_out(&self) -> bool {
        let script = &self.script;
        script.tools.iter().any(|t| matches!(t, ToolScript::Custom(_)))
            || !(script.resources.is_empty() && script.templates.is_empty() && script.prompts.is_empty())
            || [&script.capabilities, &script.info, &script.extensions].iter().any(|j| j.is_some())
            || !script.caching.is_empty()
            || script.rules.iter().flat_map(|r| &r.actions).any(|a| {
                matches!(
                    a,
                    Action::AddTool(_)
                        | Action::AddResource(_)
                        | Action::InputRequired(_)
                        | Action::RunAsTask(_)
                        | Action::LeaveOut(_)
                )
            })
    }

    /// A notification of ours that no script has spelt out. If it is wrong all the same, that is a fault of this
    /// program, which the transcript says.
    pub(super) fn vouched(&mut self, method: &str, params: Option<Value>, revision: Revision) -> Out {
        if !shape::own(method, params.as_ref(), false, revision) {
            self.observe(What::HarnessError { message: format!("a {method} of ours is not valid") });
        }
        Out::message(&jsonrpc::notification(method, params), false)
    }

    /// Answers the request at hand. Any answer after the first is a fault.
    pub(super) fn answer(&mut self, task: &mut Task, answer: &Value, fault: bool) {
        let mut out = Out::answer(answer, fault || task.answered);
        out.status = task.request.as_ref().and_then(|request| Self::status_of(request, answer));
        self.answer_out(task, out);
    }

    fn answer_out(&mut self, task: &mut Task, out: Out) {
        let again = std::mem::replace(&mut task.answered, true);
        match task.scope.exchange {
            Some(exchange) => self.exchange_send(exchange, out),
            // A batch has room for one answer each; what follows goes out by itself.
            None => self.stdio_send(out, task.scope.batch.filter(|_| !again)),
        }
    }

    fn respond_with(&mut self, task: &mut Task, result: JsonText) {
        if let Some(request) = &task.request {
            let mut result = result.0;
            self.dress(request, &mut result);
            let answer = jsonrpc::result(&request.id, result);
            let fault = self.is_faulty_answer(request, &answer);
            self.answer(task, &answer, fault);
        }
    }

    fn error_with(&mut self, task: &mut Task, error: ErrorAnswer) {
        if let Some(request) = &task.request {
            let answer = jsonrpc::error(&request.id, error.code, &error.message, error.data.map(|d| d.0));
            let fault = self.is_faulty_answer(request, &answer);
            self.answer(task, &answer, fault);
        }
    }

    pub(super) fn drop_answer(&mut self, task: &mut Task) {
        self.show_stream(task);
        task.answered = true;
        task.dropped = true;
    }

    fn mangle(&mut self, task: &mut Task, mangle: Mangle) {
        let Some(request) = &task.request else { return };
        let mut answer = self.faithful(request, &task.scope);
        match mangle {
            Mangle::UnknownId => {
                answer["id"] = match &request.id {
                    Id::Number(n) => json!(n.wrapping_add(1_000_003)),
                    Id::String(s) => json!(format!("{s}-unknown")),
                };
            }
            Mangle::IdType => {
                answer["id"] = match &request.id {
                    Id::Number(n) => json!(n.to_string()),
                    Id::String(s) => s.parse::<i64>().unwrap_or_default().into(),
                };
            }
            Mangle::NoVersion => {
                if let Value::Object(object) = &mut answer {
                    object.remove("jsonrpc");
                }
            }
            Mangle::ResultAndError => {
                if answer.get("result").is_none() {
                    answer["result"] = json!({});
                }
                answer["error"] = json!({"code": jsonrpc::codes::INTERNAL_ERROR, "message": "both at once"});
            }
            Mangle::WrongResult => answer = jsonrpc::result(&request.id, json!(7)),
            Mangle::Truncated => {}
        }
        let mut out = Out::answer(&answer, true);
        if mangle == Mangle::Truncated {
            let mut middle = out.text.len() / 2;
            while !out.text.is_char_boundary(middle) {
                middle -= 1;
            }
            out.text.truncate(middle);
        }
        self.answer_out(task, out);
    }

    /// Sends a message of our own beside the answer.
    pub(super) fn send(&mut self, task: &Task, out: Out, on_get_stream: bool) {
        if self.is_stdio() {
            self.stdio_send(out, None);
        } else {
            self.http_send(task, out, on_get_stream);
        }
    }

    fn notify(&mut self, task: &Task, own: &OwnMessage) {
        let params = own_params(own, task);
        let revision = self.revision_of(task.request.as_ref(), &task.scope);
        let mut fault = !shape::own(&own.method, params.as_ref(), false, revision);
        if self.told(task, own, params.as_ref(), fault) {
            return;
        }
        fault |= revision.is_stateless() && !self.is_asked_for(task, &own.method, params.as_ref());
        let out = Out::message(&jsonrpc::notification(&own.method, params), fault);
        self.send(task, out, own.on_get_stream);
    }

    /// Whether a notification of the stateless revision may be sent beside the answer to the request at hand.
    fn is_asked_for(&self, task: &Task, method: &str, params: Option<&Value>) -> bool {
        match method {
            "notifications/message" => {
                let level = params.and_then(|p| p["level"].as_str()).unwrap_or_default();
                self.wants_log(task.request.as_ref(), &task.scope, level)
            }
            method if is_for_subscribers(method) => self.is_tagged_rightly(method, params),
            _ => true,
        }
    }

    /// The action `log`.
    fn log(&mut self, task: &Task, log: LogMessage) {
        let level = meta::LOG_LEVELS.get(log.level as usize).copied().unwrap_or_default();
        if !self.wants_log(task.request.as_ref(), &task.scope, level) {
            return;
        }
        let mut params = json!({"level": level});
        if let Some(logger) = log.logger {
            params["logger"] = logger.into();
        }
        params["data"] = log.data.0;
        self.send(
            task,
            Out::message(&jsonrpc::notification("notifications/message", Some(params)), false),
            false,
        );
    }

    fn batches_are_welcome(&self, task: &Task) -> bool {
        self.revision_of(task.request.as_ref(), &task.scope).has_batching()
    }

    fn own_request(&mut self, task: &Task, own: &OwnMessage) {
        let id = match &own.id {
            Some(id) => id.0.clone(),
            None => {
                let id = format!("s-{}", self.next_own_request);
                self.next_own_request += 1;
                id.into()
            }
        };
        let params = own_params(own, task);
        let revision = self.revision_of(task.request.as_ref(), &task.scope);
        let mut fault = !shape::own(&own.method, params.as_ref(), true, revision);
        match Id::from_value(&id) {
            Some(id) => self.own_requests.push(id),
            None => fault = true,
        }
        let mut request = jsonrpc::request(&Id::Number(0), &own.method, params);
        request["id"] = id;
        self.send(task, Out::message(&request, fault), own.on_get_stream);
    }

    fn progress(&mut self, task: &Task, times: u32) {
        let token = task
            .request
            .as_ref()
            .and_then(|r| r.params.as_ref()?.get("_meta")?.get("progressToken"))
            .filter(|t| t.is_string() || t.is_i64())
            .cloned();
        let Some(token) = token else { return };
        for step in 1..=times {
            let mut params = json!({"progressToken": token, "progress": step, "total": times});
            let revision = self.revision_of(task.request.as_ref(), &task.scope);
            if revision >= Revision::V2025_03_26 {
                params["message"] = format!("step {step} of {times}").into();
            }
            let out = self.vouched("notifications/progress", Some(params), revision);
            self.send(task, out, false);
        }
    }

    /// Sends a batch. If a member answers the request at hand, it counts as the answer.
    fn batch(&mut self, task: &mut Task, messages: JsonText) {
        let mut messages = messages.0;
        substitute(&mut messages, task);
        let text = messages.to_string();
        let read = jsonrpc::inspect(&text);
        let id = task.request.as_ref().map(|r| &r.id);
        let answers =
            id.is_some() && read.messages().iter().any(|m| m.envelope.is_response() && m.envelope.id() == id);
        let valid =
            read.is_valid() && matches!(read.envelope, Envelope::Batch(_)) && self.batches_are_welcome(task);
        let fault = !valid || (answers && task.answered);
        let out = Out { text, fault, answer: answers, error: false, status: None };
        if answers {
            // It is a message of its own, whatever batch the request came in.
            let batch = task.scope.batch.take();
            self.answer_out(task, out);
            task.scope.batch = batch;
        } else {
            self.send(task, out, false);
        }
    }
}

fn own_params(own: &OwnMessage, task: &Task) -> Option<Value> {
    let mut params = own.params.as_ref()?.0.clone();
    substitute(&mut params, task);
    Some(params)
}

/// Puts the id of the request at hand in the place of `$requestId`.
fn substitute(value: &mut Value, task: &Task) {
    let Some(request) = &task.request else { return };
    match value {
        Value::String(text) if text == "$requestId" => *value = request.id.to_value(),
        Value::Array(items) => items.iter_mut().for_each(|v| substitute(v, task)),
        Value::Object(object) => object.values_mut().for_each(|v| substitute(v, task)),
        _ => {}
    }
}
