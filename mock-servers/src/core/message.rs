//! Answers and messages of the server's own.

use super::era::{meta_of, missing_capability};
use super::listen::{declares_tasks, is_for_subscribers};
use super::{Out, OwnRequest, Pending, ServerCore, Task};
use crate::script::{
    Action, Amend, ErrorAnswer, JsonText, ListKind, LogLevel, LogMessage, OwnMessage, RawText, ToolScript,
};
use crate::shape;
use serde_json::{Map, Value, json};
use sparring_wire::jsonrpc::{self, Envelope, Fault, Id, Inspected};
use sparring_wire::transcript::What;
use sparring_wire::{Revision, meta};
use std::collections::{BTreeMap, BTreeSet};

/// Requests of our own that may be unanswered; older ones are forgotten.
const MAX_OWN: usize = 1024;
/// Subscriptions, and sessions with a log level; more are not noted.
const MAX_TOLD: usize = 4096;

/// What the client has told the server.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The params of the last `initialize`.
    pub(super) initialize: Option<Value>,
    /// The id of our last request.
    pub(super) own_id: Value,
    /// The log level of each session.
    levels: BTreeMap<Option<String>, LogLevel>,
    /// Sessions and the URIs that they have subscribed to.
    subscriptions: BTreeSet<(Option<String>, String)>,
}

impl ServerCore {
    pub(super) fn give_faithful(&mut self, task: &mut Task) {
        if let Some(request) = &task.request {
            // What the script put into the model may be wrong on purpose.
            let answer = self.faithful(request, &task.scope);
            let fault = self.is_faulty_answer(request, &answer);
            if fault && !self.is_spelt_out() {
                let message = format!("an answer of ours to {} is not valid", request.method);
                self.observe(What::HarnessError { message });
            }
            self.note(task, &answer);
            self.give_notice(task);
            self.answer(task, &answer, fault);
        }
    }

    /// Remembers what a faithful answer has agreed to.
    fn note(&mut self, task: &Task, answer: &Value) {
        let Some(request) = task.request.as_ref().filter(|_| answer.get("result").is_some()) else { return };
        let param = |name: &str| request.params.as_ref().and_then(|p| p.get(name));
        let session = || task.scope.session.clone();
        let uri = || param("uri").and_then(Value::as_str).map(str::to_owned);
        match request.method.as_str() {
            "resources/subscribe" if self.told.subscriptions.len() < MAX_TOLD => {
                self.told.subscriptions.extend(uri().map(|uri| (session(), uri)));
            }
            "resources/unsubscribe" => {
                if let Some(uri) = uri() {
                    self.told.subscriptions.remove(&(session(), uri));
                }
            }
            "logging/setLevel" if self.told.levels.len() < MAX_TOLD => {
                let level = param("level").and_then(|l| serde_json::from_value(l.clone()).ok());
                self.told.levels.extend(level.map(|level| (session(), level)));
            }
            _ => {}
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

    pub(super) fn answer_out(&mut self, task: &mut Task, out: Out) {
        let again = std::mem::replace(&mut task.answered, true);
        match task.scope.exchange {
            Some(exchange) => self.exchange_send(exchange, out),
            // A batch has room for one answer each; what follows goes out by itself.
            None => self.stdio_send(out, task.scope.batch.filter(|_| !again)),
        }
    }

    pub(super) fn respond_with(&mut self, task: &mut Task, result: JsonText) {
        if let Some(request) = &task.request {
            let mut result = result.0;
            self.dress(request, &mut result);
            let answer = jsonrpc::result(&request.id, result);
            let fault = self.is_faulty_answer(request, &answer);
            self.answer(task, &answer, fault);
        }
    }

    pub(super) fn error_with(&mut self, task: &mut Task, error: ErrorAnswer) {
        if let Some(request) = &task.request {
            let answer = jsonrpc::error(&request.id, error.code, &error.message, error.data.map(|d| d.0));
            let fault = self.is_faulty_answer(request, &answer);
            self.answer(task, &answer, fault);
        }
    }

    pub(super) fn duplicate(&mut self, task: &mut Task) {
        if let Some(request) = &task.request {
            let answer = self.faithful(request, &task.scope);
            self.force_stream(task);
            self.answer(task, &answer, false);
            self.answer(task, &answer, true);
        }
    }

    pub(super) fn drop_answer(&mut self, task: &mut Task) {
        self.show_stream(task);
        task.answered = true;
        task.dropped = true;
    }

    pub(super) fn amend(&mut self, task: &mut Task, amend: &Amend) {
        let Some(request) = &task.request else { return };
        let mut answer = self.faithful(request, &task.scope);
        if let Some(set) = &amend.set {
            merge(&mut answer, &set.0);
        }
        for (pointer, value) in &amend.put {
            put(&mut answer, pointer, &value.0);
        }
        for pointer in &amend.remove {
            remove(&mut answer, pointer);
        }
        let text = answer.to_string();
        let fault = !self.is_honest(task, &jsonrpc::inspect(&text));
        let status = Self::status_of(request, &answer);
        let error = answer.get("error").is_some();
        self.answer_out(task, Out { text, fault: fault || task.answered, answer: true, error, status });
    }

    /// Whether a message that a script spelt out could be one of a faithful server's, at this point.
    fn is_honest(&self, task: &Task, message: &Inspected) -> bool {
        let request = task.request.as_ref();
        let revision = self.revision_of(request, &task.scope);
        // An error without an id is valid in some revisions, but it answers no request.
        let valid = message.is_valid() || message.faults == [Fault::MissingId];
        valid
            && match &message.envelope {
                Envelope::Request { method, params, .. } => {
                    shape::own(method, params.as_ref(), true, revision)
                }
                Envelope::Notification { method, params } => {
                    shape::own(method, params.as_ref(), false, revision)
                }
                Envelope::Result { id, .. } | Envelope::Error { id, .. } => request.is_some_and(|r| {
                    let answer = message.value.as_ref().unwrap_or(&Value::Null);
                    id.as_ref() == Some(&r.id) && !self.is_faulty_answer(r, answer)
                }),
                _ => false,
            }
    }

    /// Sends a message of our own beside the answer.
    pub(super) fn send(&mut self, task: &Task, out: Out, on_get_stream: bool) {
        if self.is_stdio() {
            self.stdio_send(out, None);
        } else {
            self.http_send(task, out, on_get_stream);
        }
    }

    pub(super) fn notify(&mut self, task: &Task, own: OwnMessage) {
        let params = own.params.map(|p| p.0);
        let revision = self.revision_of(task.request.as_ref(), &task.scope);
        let mut fault = !shape::own(&own.method, params.as_ref(), false, revision);
        if self.told_to_subscribers(task, &own.method, params.as_ref(), fault) {
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

    pub(super) fn own_request(&mut self, task: &Task, own: OwnMessage) {
        let id = match own.id {
            Some(id) => id.0,
            None => {
                let id = format!("s-{}", self.next_own_request);
                self.next_own_request += 1;
                id.into()
            }
        };
        let params = own.params.map(|p| p.0);
        let revision = self.revision_of(task.request.as_ref(), &task.scope);
        let mut fault = !shape::own(&own.method, params.as_ref(), true, revision);
        match Id::from_value(&id) {
            Some(id) => {
                // An id that is still in use may not be used again.
                fault |= self.own_requests.iter().any(|own| own.id == id);
                self.note_own(id, &own.method);
            }
            None => fault = true,
        }
        let mut request = jsonrpc::request(&Id::Number(0), &own.method, params);
        request["id"] = id.clone();
        self.told.own_id = id;
        self.send(task, Out::message(&request, fault), own.on_get_stream);
    }

    /// Remembers a request of ours, to know its answer.
    pub(super) fn note_own(&mut self, id: Id, method: &str) {
        if self.own_requests.len() >= MAX_OWN {
            self.own_requests.pop_front();
        }
        self.own_requests.push_back(OwnRequest { id, method: method.to_owned() });
    }

    pub(super) fn progress(&mut self, task: &mut Task, times: u32) {
        let token = task
            .request
            .as_ref()
            .and_then(|r| r.params.as_ref()?.get("_meta")?.get("progressToken"))
            .filter(|t| t.is_string() || t.is_i64())
            .cloned();
        let Some(token) = token else { return };
        let revision = self.revision_of(task.request.as_ref(), &task.scope);
        // In a repetition nobody knows how much there will be.
        let total = (task.round == 0).then(|| task.progressed.saturating_add(times));
        for _ in 0..times {
            task.progressed = task.progressed.saturating_add(1);
            let step = task.progressed;
            let mut params = json!({"progressToken": token, "progress": step});
            if let Some(total) = total {
                params["total"] = total.into();
            }
            if revision >= Revision::V2025_03_26 {
                params["message"] = match total {
                    Some(total) => format!("step {step} of {total}").into(),
                    None => format!("step {step}").into(),
                };
            }
            let out = self.vouched("notifications/progress", Some(params), revision);
            self.send(task, out, false);
        }
    }

    /// Sends a batch. If a member answers the request at hand, it counts as the answer.
    pub(super) fn batch(&mut self, task: &mut Task, messages: &JsonText) {
        let text = messages.0.to_string();
        let read = jsonrpc::inspect(&text);
        let honest = read.is_valid()
            && matches!(read.envelope, Envelope::Batch(_))
            && self.revision_of(task.request.as_ref(), &task.scope).has_batching()
            && read.messages().iter().all(|m| self.is_honest(task, m));
        let answers = answers(task, &read);
        self.text(task, Out { text, fault: !honest, answer: answers, error: false, status: None }, false);
    }

    pub(super) fn raw(&mut self, task: &mut Task, raw: RawText) {
        let read = jsonrpc::inspect(&raw.text);
        let fault = !self.is_honest(task, &read);
        let answers = task.request.is_some() && (raw.answers || answers(task, &read));
        let error = matches!(read.envelope, Envelope::Error { .. });
        self.text(
            task,
            Out { text: raw.text, fault, answer: answers, error, status: None },
            raw.on_get_stream,
        );
    }

    fn text(&mut self, task: &mut Task, mut out: Out, on_get_stream: bool) {
        if out.answer {
            out.fault |= task.answered;
            // It is a message of its own, whatever batch the request came in.
            let batch = task.scope.batch.take();
            self.answer_out(task, out);
            task.scope.batch = batch;
        } else {
            self.send(task, out, on_get_stream);
        }
    }

    pub(super) fn log(&mut self, task: &Task, log: &LogMessage) {
        let mut params = json!({"level": log.level});
        if !self.wants_log(task.request.as_ref(), &task.scope, params["level"].as_str().unwrap_or_default()) {
            return;
        }
        if let Some(logger) = &log.logger {
            params["logger"] = logger.as_str().into();
        }
        params["data"] = log.data.0.clone();
        let revision = self.revision_of(task.request.as_ref(), &task.scope);
        let out = self.vouched("notifications/message", Some(params), revision);
        self.send(task, out, false);
    }

    pub(super) fn announce(&mut self, task: &Task, kind: ListKind) {
        let method = match kind {
            ListKind::Tools => "notifications/tools/list_changed",
            ListKind::Resources => "notifications/resources/list_changed",
            ListKind::Prompts => "notifications/prompts/list_changed",
        };
        self.tell(method, None, false);
        if self.has_legacy_client(task) {
            let revision = self.revision_of(task.request.as_ref(), &task.scope);
            let out = self.vouched(method, None, revision);
            self.send(task, out, self.script.http.get_stream);
        }
    }

    pub(super) fn resource_updated(&mut self, task: &Task, uri: &str) {
        let method = "notifications/resources/updated";
        let params = json!({"uri": uri});
        self.tell(method, Some(&params), false);
        let subscribed = self.told.subscriptions.contains(&(task.scope.session.clone(), uri.to_owned()));
        if subscribed && self.has_legacy_client(task) {
            let revision = self.revision_of(task.request.as_ref(), &task.scope);
            let out = self.vouched(method, Some(params), revision);
            self.send(task, out, self.script.http.get_stream);
        }
    }

    /// The lowest level of log messages that a session wants.
    pub(super) fn level_of(&self, session: Option<&String>) -> Option<LogLevel> {
        self.told.levels.get(&session.cloned()).copied()
    }
}

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

/// Whether a message, or a member of a batch, answers the request at hand.
fn answers(task: &Task, read: &Inspected) -> bool {
    let id = task.request.as_ref().map(|r| &r.id);
    id.is_some() && read.messages().iter().any(|m| m.envelope.is_response() && m.envelope.id() == id)
}

/// Merges JSON into JSON: objects member by member, everything else replaces.
fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

/// What holds the last part of a pointer, and that part.
fn parent<'v>(value: &'v mut Value, pointer: &str) -> Option<(&'v mut Value, String)> {
    let (parent, last) = pointer.rsplit_once('/')?;
    Some((value.pointer_mut(parent)?, last.replace("~1", "/").replace("~0", "~")))
}

fn put(value: &mut Value, pointer: &str, new: &Value) {
    match parent(value, pointer) {
        Some((Value::Object(members), last)) => {
            members.insert(last, new.clone());
        }
        Some((Value::Array(items), last)) => {
            let index = last.parse().unwrap_or(usize::MAX);
            match items.get_mut(index) {
                Some(item) => *item = new.clone(),
                None if last == "-" => items.push(new.clone()),
                None => {}
            }
        }
        _ => {}
    }
}

fn remove(value: &mut Value, pointer: &str) {
    match parent(value, pointer) {
        Some((Value::Object(members), last)) => {
            members.remove(&last);
        }
        Some((Value::Array(items), last)) => {
            if let Some(index) = last.parse().ok().filter(|i| *i < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_merged_put_and_removed() {
        let mut value = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1});
        merge(&mut value, &json!({"a": {"b": null, "x": {"y": 1}}}));
        assert_eq!(value, json!({"a": {"b": null, "c": [1, 2], "x": {"y": 1}}, "d": 1}));
        put(&mut value, "/a/c/0", &json!("z"));
        put(&mut value, "/a/c/-", &json!(3));
        put(&mut value, "/a/e~1f", &json!(4));
        put(&mut value, "/no/where", &json!(5));
        put(&mut value, "/a/c/9", &json!(5));
        remove(&mut value, "/d");
        remove(&mut value, "/a/x");
        remove(&mut value, "/a/c/1");
        remove(&mut value, "/a/c/7");
        assert_eq!(value, json!({"a": {"b": null, "c": ["z", 3], "e/f": 4}}));
    }
}
