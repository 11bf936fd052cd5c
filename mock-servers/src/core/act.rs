//! The interpreter of a rule's actions.

use super::{Effect, MAX_TASKS, Out, Pending, ServerCore, Task, Then, Wait};
use crate::model::tool_name;
use crate::script::{Action, ErrorAnswer, JsonText, ListKind, Mangle, OwnMessage};
use crate::shape;
use serde_json::{Value, json};
use sparring_wire::Revision;
use sparring_wire::jsonrpc::{self, Envelope, Id};
use sparring_wire::transcript::What;
use std::time::Duration;

/// How a task goes on after an action.
enum Flow {
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
                    self.give_faithful(&mut task);
                }
            }
            Then::Look(request) => {
                if !task.answered {
                    self.look(&request);
                }
            }
            Then::Endpoint => {
                if !task.answered {
                    self.send_endpoint(&mut task);
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
        let http = !self.is_stdio();
        match action {
            Action::Default => {
                if let Then::Look(_) = task.then {
                    if let Then::Look(request) = std::mem::replace(&mut task.then, Then::Nothing)
                        && !task.answered
                    {
                        self.look(&request);
                    }
                } else if matches!(task.then, Then::Endpoint) {
                    self.send_endpoint(task);
                } else if !task.cancelled {
                    self.give_faithful(task);
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
                    let answer = self.faithful(request);
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
            Action::Announce(kind) => {
                let method = match kind {
                    ListKind::Tools => "notifications/tools/list_changed",
                    ListKind::Resources => "notifications/resources/list_changed",
                    ListKind::Prompts => "notifications/prompts/list_changed",
                };
                let out = Out::message(&jsonrpc::notification(method, None), false);
                let on_get_stream = self.script.http.get_stream;
                self.send(task, out, on_get_stream);
            }
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
            | Action::RawBody(_)
            | Action::Reply(_)
            | Action::Cut(_)
            | Action::Pieces(_)
            | Action::RawResponse(_)
            | Action::SseEvent(_)
            | Action::SseStyle(_)
            | Action::KeepOpen
            | Action::AnswerOn(_)
            | Action::ChangeSession(_) => {
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
            let answer = self.faithful(request);
            let fault = self.is_faulty_answer(request, &answer);
            self.answer(task, &answer, fault);
        }
    }

    fn is_faulty_answer(&self, request: &Pending, answer: &Value) -> bool {
        answer.get("result").is_some_and(|result| !shape::result(&request.method, result, self.revision))
    }

    /// Answers the request at hand. Any answer after the first is a fault.
    fn answer(&mut self, task: &mut Task, answer: &Value, fault: bool) {
        let out = Out::answer(answer, fault || task.answered);
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
            let fault = !result.0.is_object() || !shape::result(&request.method, &result.0, self.revision);
            let answer = jsonrpc::result(&request.id, result.0);
            self.answer(task, &answer, fault);
        }
    }

    fn error_with(&mut self, task: &mut Task, error: ErrorAnswer) {
        if let Some(request) = &task.request {
            let answer = jsonrpc::error(&request.id, error.code, &error.message, error.data.map(|d| d.0));
            self.answer(task, &answer, false);
        }
    }

    fn drop_answer(&mut self, task: &mut Task) {
        self.show_stream(task);
        task.answered = true;
        task.dropped = true;
    }

    fn mangle(&mut self, task: &mut Task, mangle: Mangle) {
        let Some(request) = &task.request else { return };
        let mut answer = self.faithful(request);
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
        let fault = !shape::own(&own.method, params.as_ref(), false, self.revision);
        let out = Out::message(&jsonrpc::notification(&own.method, params), fault);
        self.send(task, out, own.on_get_stream);
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
        let mut fault = !shape::own(&own.method, params.as_ref(), true, self.revision);
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
            if self.revision >= Revision::V2025_03_26 {
                params["message"] = format!("step {step} of {times}").into();
            }
            let message = jsonrpc::notification("notifications/progress", Some(params));
            self.send(task, Out::message(&message, false), false);
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
            read.is_valid() && matches!(read.envelope, Envelope::Batch(_)) && self.revision.has_batching();
        let fault = !valid || (answers && task.answered);
        let out = Out { text, fault, answer: answers, error: false };
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
