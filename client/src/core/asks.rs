//! Requests of the server that the embedding program answers, and the answers to batches.

use crate::settings::Declared;
use serde_json::{Map, Value, json};
use sparring_wire::jsonrpc::{self, codes};
use sparring_wire::{Id, Revision};
use std::collections::HashMap;

/// Names a question of the server that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AskKey(u64);

/// A question of the server, read and found valid.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// `sampling/createMessage`
    Sampling(Sampling),
    /// `elicitation/create`
    Elicitation(Elicitation),
}

/// A `sampling/createMessage`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// The params as the server sent them.
    pub params: Value,
}

/// An `elicitation/create`.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// What the server says.
    pub message: String,
    /// The form wanted; `None` in URL mode.
    pub schema: Option<Value>,
    /// The URL to visit, and the elicitation's id; `None` in form mode. Show it whole, and open it only with
    /// consent.
    pub url: Option<(String, String)>,
    /// The params as the server sent them.
    pub params: Value,
}

impl Elicitation {
    /// The defaults of the form's fields, to fill it in beforehand.
    pub fn defaults(&self) -> Map<String, Value> {
        let fields = self.schema.as_ref().and_then(|s| s.get("properties")).and_then(Value::as_object);
        fields
            .into_iter()
            .flatten()
            .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())))
            .collect()
    }
}

/// The answer to an elicitation.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitAnswer {
    /// The form's content; ignored in URL mode.
    Accept(Map<String, Value>),
    /// The user said no.
    Decline,
    /// The user made no choice.
    Cancel,
}

/// A JSON-RPC error, as an answer to the server.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// `error.code`.
    pub code: i64,
    /// `error.message`, one concise sentence.
    pub message: String,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// What the specification shows for a sampling request that the user refuses.
    pub fn user_rejected() -> Self {
        Self::new(-1, "User rejected sampling request")
    }
}

/// More open questions than any server has; one that asks on and on is told so.
const MAX_OPEN: usize = 256;

#[derive(Debug)]
struct Open {
    id: Id,
    group: Option<u64>,
    /// For elicitations: the form's schema, `None` inside in URL mode.
    form: Option<Option<Value>>,
}

#[derive(Debug, Default)]
struct Batch {
    responses: Vec<Value>,
    open: usize,
    complete: bool,
}

/// Those that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Asks {
    next: u64,
    open: HashMap<AskKey, Open>,
    batches: HashMap<u64, Batch>,
}

pub(super) struct Cancelled {
    pub(super) key: AskKey,
    /// The answer to its batch, if that is complete now.
    pub(super) batch: Option<Value>,
}

impl Asks {
    pub(super) fn open(&mut self, id: Id, ask: &Ask, group: Option<u64>) -> Option<AskKey> {
        if self.open.len() >= MAX_OPEN {
            return None;
        }
        self.next += 1;
        let key = AskKey(self.next);
        let form = match ask {
            Ask::Elicitation(elicitation) => Some(elicitation.schema.clone()),
            Ask::Sampling(_) => None,
        };
        if let Some(batch) = group.and_then(|g| self.batches.get_mut(&g)) {
            batch.open += 1;
        }
        self.open.insert(key, Open { id, group, form });
        Some(key)
    }

    pub(super) fn begin_batch(&mut self) -> u64 {
        self.next += 1;
        self.batches.insert(self.next, Batch::default());
        self.next
    }

    pub(super) fn collect(&mut self, group: u64, response: Value) {
        if let Some(batch) = self.batches.get_mut(&group) {
            batch.responses.push(response);
        }
    }

    pub(super) fn end_batch(&mut self, group: u64) -> Option<Value> {
        self.batches.get_mut(&group)?.complete = true;
        self.finished(group)
    }

    fn finished(&mut self, group: u64) -> Option<Value> {
        let batch = self.batches.get(&group)?;
        if !batch.complete || batch.open > 0 {
            return None;
        }
        let batch = self.batches.remove(&group)?;
        (!batch.responses.is_empty()).then_some(Value::Array(batch.responses))
    }

    /// The message to send, if any is due.
    pub(super) fn answer(&mut self, key: AskKey, answer: Result<Value, RpcError>) -> Option<Value> {
        let open = self.open.remove(&key)?;
        let answer = answer.and_then(|result| match &open.form {
            Some(form) => check_elicit_result(result, form.as_ref()),
            None => check_sampling_result(result),
        });
        let message = response(&open.id, answer);
        let Some(group) = open.group else { return Some(message) };
        let batch = self.batches.get_mut(&group)?;
        batch.responses.push(message);
        batch.open -= 1;
        self.finished(group)
    }

    pub(super) fn cancel(&mut self, id: &Id) -> Option<Cancelled> {
        let key = self.open.iter().find(|(_, open)| open.id == *id).map(|(key, _)| *key)?;
        let open = self.open.remove(&key)?;
        let batch = open.group.and_then(|group| {
            if let Some(batch) = self.batches.get_mut(&group) {
                batch.open -= 1;
            }
            self.finished(group)
        });
        Some(Cancelled { key, batch })
    }

    pub(super) fn clear(&mut self) -> Vec<AskKey> {
        self.batches.clear();
        self.open.drain().map(|(key, _)| key).collect()
    }
}

/// The response to the request `id`.
pub(super) fn response(id: &Id, answer: Result<Value, RpcError>) -> Value {
    match answer {
        Ok(result) => jsonrpc::result(id, result),
        Err(error) => jsonrpc::error(id, error.code, &error.message, None),
    }
}

/// Reads a question; the error is the answer to give at once.
pub(super) fn read(
    method: &str,
    params: Value,
    declared: &Declared,
    revision: Revision,
) -> Result<Ask, RpcError> {
    let not_found = || RpcError::new(codes::METHOD_NOT_FOUND, "method not found");
    match method {
        "sampling/createMessage" => {
            let capability = declared.sampling.ok_or_else(not_found)?;
            check_sampling(&params, capability.tools && revision >= Revision::V2025_11_25)?;
            Ok(Ask::Sampling(Sampling { params }))
        }
        _ => {
            let capability = declared.elicitation.ok_or_else(not_found)?;
            if revision < Revision::V2025_06_18 {
                return Err(not_found());
            }
            let fine = revision >= Revision::V2025_11_25;
            read_elicitation(params, capability.form || !fine, capability.url && fine)
        }
    }
}

fn invalid(message: &str) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, message)
}

fn check_sampling(params: &Value, tools: bool) -> Result<(), RpcError> {
    let messages = params.get("messages").and_then(Value::as_array).ok_or_else(|| invalid("no messages"))?;
    if !params.get("maxTokens").is_some_and(Value::is_number) {
        return Err(invalid("no maxTokens"));
    }
    if !tools && (params.get("tools").is_some() || params.get("toolChoice").is_some()) {
        return Err(invalid("sampling with tools was not declared"));
    }
    let mut called: Vec<&str> = Vec::new();
    for message in messages {
        let role = message.get("role").and_then(Value::as_str);
        if !matches!(role, Some("user" | "assistant")) {
            return Err(invalid("a message without a role"));
        }
        let blocks: &[Value] = match message.get("content") {
            Some(Value::Array(blocks)) => blocks,
            Some(block @ Value::Object(_)) => std::slice::from_ref(block),
            _ => return Err(invalid("a message without content")),
        };
        let results = texts_of(blocks, "tool_result", "toolUseId");
        if !results.is_empty() && results.len() != blocks.len() {
            return Err(invalid("tool results mixed with other content"));
        }
        if called.iter().any(|id| !results.contains(id)) {
            return Err(invalid("a tool use without its result"));
        }
        called = texts_of(blocks, "tool_use", "id");
    }
    if called.is_empty() { Ok(()) } else { Err(invalid("a tool use without its result")) }
}

/// The texts at `key` of the blocks of one type.
fn texts_of<'a>(blocks: &'a [Value], kind: &str, key: &str) -> Vec<&'a str> {
    let of_kind = blocks.iter().filter(|b| b.get("type").and_then(Value::as_str) == Some(kind));
    of_kind.filter_map(|b| b.get(key).and_then(Value::as_str)).collect()
}

fn check_sampling_result(result: Value) -> Result<Value, RpcError> {
    let broken = |what: &str| RpcError::new(codes::INTERNAL_ERROR, format!("the answer has no valid {what}"));
    if !matches!(result.get("role").and_then(Value::as_str), Some("user" | "assistant")) {
        return Err(broken("role"));
    }
    if !matches!(result.get("content"), Some(Value::Object(_) | Value::Array(_))) {
        return Err(broken("content"));
    }
    if !result.get("model").is_some_and(Value::is_string) {
        return Err(broken("model"));
    }
    Ok(result)
}

fn read_elicitation(params: Value, form: bool, url: bool) -> Result<Ask, RpcError> {
    let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
    let message = text("message").ok_or_else(|| invalid("no message"))?;
    let mode = match params.get("mode") {
        None => "form".to_owned(),
        Some(Value::String(mode)) => mode.clone(),
        Some(_) => return Err(invalid("mode is not a string")),
    };
    let (schema, target) = match mode.as_str() {
        "form" if form => {
            let schema = params.get("requestedSchema").filter(|s| s.is_object());
            (Some(schema.cloned().ok_or_else(|| invalid("no requestedSchema"))?), None)
        }
        "url" if url => {
            let target = text("url").ok_or_else(|| invalid("no url"))?;
            let id = text("elicitationId").ok_or_else(|| invalid("no elicitationId"))?;
            let scheme = url::Url::parse(&target).map(|u| u.scheme().to_owned());
            if !matches!(scheme.as_deref(), Ok("https" | "http")) {
                return Err(invalid("the url is not a web address"));
            }
            (None, Some((target, id)))
        }
        _ => return Err(invalid("this elicitation mode was not declared")),
    };
    Ok(Ask::Elicitation(Elicitation { message, schema, url: target, params }))
}

/// Brings an elicitation's answer into the form that the specification wants; `form` is the schema.
fn check_elicit_result(result: Value, form: Option<&Value>) -> Result<Value, RpcError> {
    if result.get("action").and_then(Value::as_str) != Some("accept") {
        return Ok(result);
    }
    let Some(schema) = form else { return Ok(json!({"action": "accept"})) };
    let content = result.get("content").cloned().unwrap_or_else(|| json!({}));
    let flat = content.as_object().is_some_and(|fields| {
        fields.values().all(|v| match v {
            Value::Array(items) => items.iter().all(Value::is_string),
            Value::Object(_) | Value::Null => false,
            _ => true,
        })
    });
    let fits = flat && crate::schema::check(schema, &content).is_ok();
    if fits {
        Ok(result)
    } else {
        Err(RpcError::new(codes::INTERNAL_ERROR, "the user's answer does not fit the form"))
    }
}

impl From<ElicitAnswer> for Value {
    fn from(answer: ElicitAnswer) -> Self {
        match answer {
            ElicitAnswer::Accept(content) => json!({"action": "accept", "content": content}),
            ElicitAnswer::Decline => json!({"action": "decline"}),
            ElicitAnswer::Cancel => json!({"action": "cancel"}),
        }
    }
}

/// The id of a message, read off its beginning; a guess that is good enough to blame the right request.
pub(super) fn leading_id(start: &str) -> Option<Id> {
    let after = start.split_once("\"id\"")?.1.trim_start().strip_prefix(':')?.trim_start();
    let end = after.find([',', '}'])?;
    serde_json::from_str::<Value>(after[..end].trim()).ok().as_ref().and_then(Id::from_value)
}
