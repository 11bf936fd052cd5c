//! Answers and messages of the server's own.

use super::{Out, OwnRequest, Pending, ServerCore, Task};
use crate::script::{Amend, ErrorAnswer, JsonText, ListKind, LogLevel, LogMessage, OwnMessage, RawText};
use crate::shape;
use serde_json::{Map, Value, json};
use sparring_wire::Revision;
use sparring_wire::jsonrpc::{self, Envelope, Fault, Id, Inspected};
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
            let answer = self.faithful(request);
            let fault = self.is_faulty_answer(request, &answer);
            self.note(task, &answer);
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

    fn is_faulty_answer(&self, request: &Pending, answer: &Value) -> bool {
        answer.get("result").is_some_and(|result| !shape::result(&request.method, result, self.revision))
    }

    /// Answers the request at hand. Any answer after the first is a fault.
    pub(super) fn answer(&mut self, task: &mut Task, answer: &Value, fault: bool) {
        let out = Out::answer(answer, fault || task.answered);
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
            let fault = !result.0.is_object() || !shape::result(&request.method, &result.0, self.revision);
            let answer = jsonrpc::result(&request.id, result.0);
            self.answer(task, &answer, fault);
        }
    }

    pub(super) fn error_with(&mut self, task: &mut Task, error: ErrorAnswer) {
        if let Some(request) = &task.request {
            let answer = jsonrpc::error(&request.id, error.code, &error.message, error.data.map(|d| d.0));
            self.answer(task, &answer, false);
        }
    }

    pub(super) fn duplicate(&mut self, task: &mut Task) {
        if let Some(request) = &task.request {
            let answer = self.faithful(request);
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
        let mut answer = self.faithful(request);
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
        let out =
            Out { text, fault: fault || task.answered, answer: true, error: answer.get("error").is_some() };
        self.answer_out(task, out);
    }

    /// Whether a message that a script spelt out could be one of a faithful server's, at this point.
    fn is_honest(&self, task: &Task, message: &Inspected) -> bool {
        let request = task.request.as_ref();
        // An error without an id is valid in some revisions, but it answers no request.
        let valid = message.is_valid() || message.faults == [Fault::MissingId];
        valid
            && match &message.envelope {
                Envelope::Request { method, params, .. } => {
                    shape::own(method, params.as_ref(), true, self.revision)
                }
                Envelope::Notification { method, params } => {
                    shape::own(method, params.as_ref(), false, self.revision)
                }
                Envelope::Result { id, result } => request.is_some_and(|r| {
                    id.as_ref() == Some(&r.id) && shape::result(&r.method, result, self.revision)
                }),
                Envelope::Error { id, .. } => request.is_some_and(|r| id.as_ref() == Some(&r.id)),
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
        let fault = !shape::own(&own.method, params.as_ref(), false, self.revision);
        let out = Out::message(&jsonrpc::notification(&own.method, params), fault);
        self.send(task, out, own.on_get_stream);
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
        let mut fault = !shape::own(&own.method, params.as_ref(), true, self.revision);
        match Id::from_value(&id) {
            Some(id) => {
                // An id that is still in use may not be used again.
                fault |= self.own_requests.iter().any(|own| own.id == id);
                if self.own_requests.len() >= MAX_OWN {
                    self.own_requests.pop_front();
                }
                self.own_requests.push_back(OwnRequest { id, method: own.method.clone() });
            }
            None => fault = true,
        }
        let mut request = jsonrpc::request(&Id::Number(0), &own.method, params);
        request["id"] = id.clone();
        self.told.own_id = id;
        self.send(task, Out::message(&request, fault), own.on_get_stream);
    }

    pub(super) fn progress(&mut self, task: &mut Task, times: u32) {
        let token = task
            .request
            .as_ref()
            .and_then(|r| r.params.as_ref()?.get("_meta")?.get("progressToken"))
            .filter(|t| t.is_string() || t.is_i64())
            .cloned();
        let Some(token) = token else { return };
        // In a repetition nobody knows how much there will be.
        let total = (task.round == 0).then(|| task.progressed.saturating_add(times));
        for _ in 0..times {
            task.progressed = task.progressed.saturating_add(1);
            let step = task.progressed;
            let mut params = json!({"progressToken": token, "progress": step});
            if let Some(total) = total {
                params["total"] = total.into();
            }
            if self.revision >= Revision::V2025_03_26 {
                params["message"] = match total {
                    Some(total) => format!("step {step} of {total}").into(),
                    None => format!("step {step}").into(),
                };
            }
            let message = jsonrpc::notification("notifications/progress", Some(params));
            self.send(task, Out::message(&message, false), false);
        }
    }

    /// Sends a batch. If a member answers the request at hand, it counts as the answer.
    pub(super) fn batch(&mut self, task: &mut Task, messages: &JsonText) {
        let text = messages.0.to_string();
        let read = jsonrpc::inspect(&text);
        let honest = read.is_valid()
            && matches!(read.envelope, Envelope::Batch(_))
            && self.revision.has_batching()
            && read.messages().iter().all(|m| self.is_honest(task, m));
        let answers = answers(task, &read);
        self.text(task, Out { text, fault: !honest, answer: answers, error: false }, false);
    }

    pub(super) fn raw(&mut self, task: &mut Task, raw: RawText) {
        let read = jsonrpc::inspect(&raw.text);
        let fault = !self.is_honest(task, &read);
        let answers = task.request.is_some() && (raw.answers || answers(task, &read));
        let error = matches!(read.envelope, Envelope::Error { .. });
        self.text(task, Out { text: raw.text, fault, answer: answers, error }, raw.on_get_stream);
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
        if self.told.levels.get(&task.scope.session).is_some_and(|wanted| log.level < *wanted) {
            return;
        }
        let mut params = json!({"level": log.level});
        if let Some(logger) = &log.logger {
            params["logger"] = logger.as_str().into();
        }
        params["data"] = log.data.0.clone();
        let message = jsonrpc::notification("notifications/message", Some(params));
        self.send(task, Out::message(&message, false), false);
    }

    pub(super) fn announce(&mut self, task: &Task, kind: ListKind) {
        let method = match kind {
            ListKind::Tools => "notifications/tools/list_changed",
            ListKind::Resources => "notifications/resources/list_changed",
            ListKind::Prompts => "notifications/prompts/list_changed",
        };
        let out = Out::message(&jsonrpc::notification(method, None), false);
        self.send(task, out, self.script.http.get_stream);
    }

    pub(super) fn resource_updated(&mut self, task: &Task, uri: &str) {
        if self.told.subscriptions.contains(&(task.scope.session.clone(), uri.to_owned())) {
            let method = "notifications/resources/updated";
            let out = Out::message(&jsonrpc::notification(method, Some(json!({"uri": uri}))), false);
            self.send(task, out, self.script.http.get_stream);
        }
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
