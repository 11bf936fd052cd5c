//! Requests of the server that the embedding program answers, and the answers to batches.

use super::Ticket;
use crate::settings::Declared;
use serde_json::{Map, Value, json};
use sparring_wire::jsonrpc::{self, codes};
use sparring_wire::{Id, Revision, meta};
use std::collections::HashMap;

/// Names a question of the server that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// The URL to visit; `None` in form mode. Show it whole, and open it only with consent.
    pub url: Option<String>,
    /// The id of an elicitation in URL mode, up to 2025-11-25.
    pub id: Option<String>,
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

/// Where the answer to a question goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplyTo {
    /// Back as a response to the server's request, which may be a member of a batch and belong to a task.
    Peer {
        /// The request's id.
        id: Id,
        /// The batch.
        group: Option<u64>,
        /// The task, as `_meta` has it.
        related: Option<Value>,
    },
    /// Into the next round of a request of the client's, under this name.
    Input(Ticket, String),
    /// A URL that the server wants visited before a request of the client's: the elicitation's id.
    Url(Ticket, String),
    /// To a task of the server's that runs at this client.
    Served(String),
}

#[derive(Debug)]
struct Open {
    to: ReplyTo,
    /// For elicitations: the form's schema, `None` inside in URL mode.
    form: Option<Option<Value>>,
}

/// An answer, verified, with where it goes.
#[derive(Debug)]
pub(super) enum Answered {
    /// A message to send.
    Send(Value),
    /// To something other than a request on the wire.
    Inner(ReplyTo, Result<Value, RpcError>),
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
    pub(super) fn open(&mut self, to: ReplyTo, ask: &Ask) -> Option<AskKey> {
        if self.open.len() >= MAX_OPEN {
            return None;
        }
        self.next += 1;
        let key = AskKey(self.next);
        let form = match ask {
            Ask::Elicitation(elicitation) => Some(elicitation.schema.clone()),
            Ask::Sampling(_) => None,
        };
        if let ReplyTo::Peer { group: Some(group), .. } = &to
            && let Some(batch) = self.batches.get_mut(group)
        {
            batch.open += 1;
        }
        self.open.insert(key, Open { to, form });
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

    /// What is to be done with an answer, if anything is due.
    pub(super) fn answer(
        &mut self,
        key: AskKey,
        answer: Result<Value, RpcError>,
        revision: Revision,
    ) -> Option<Answered> {
        let open = self.open.remove(&key)?;
        let answer = answer.and_then(|result| match &open.form {
            Some(form) => check_elicit_result(result, form.as_ref()),
            None => check_sampling_result(result, revision),
        });
        let ReplyTo::Peer { id, group, related } = open.to else {
            return Some(Answered::Inner(open.to, answer));
        };
        let message = response(&id, answer.map(|result| relate(result, related)));
        let Some(group) = group else { return Some(Answered::Send(message)) };
        let batch = self.batches.get_mut(&group)?;
        batch.responses.push(message);
        batch.open -= 1;
        self.finished(group).map(Answered::Send)
    }

    pub(super) fn cancel(&mut self, wanted: &Id) -> Option<Cancelled> {
        let is_it = |open: &Open| matches!(&open.to, ReplyTo::Peer { id, .. } if id == wanted);
        let key = self.open.iter().find(|(_, open)| is_it(open)).map(|(key, _)| *key)?;
        let open = self.open.remove(&key)?;
        let group = match open.to {
            ReplyTo::Peer { group, .. } => group,
            _ => None,
        };
        let batch = group.and_then(|group| {
            if let Some(batch) = self.batches.get_mut(&group) {
                batch.open -= 1;
            }
            self.finished(group)
        });
        Some(Cancelled { key, batch })
    }

    /// Forgets the questions whose answers would go where `gone` says; they are to be cancelled.
    pub(super) fn abandon(&mut self, gone: impl Fn(&ReplyTo) -> bool) -> Vec<AskKey> {
        let mut keys: Vec<AskKey> =
            self.open.iter().filter(|(_, open)| gone(&open.to)).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        for key in &keys {
            self.open.remove(key);
        }
        keys
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

/// A result with the task that it belongs to.
pub(super) fn relate(mut result: Value, related: Option<Value>) -> Value {
    if let (Some(related), Value::Object(members)) = (related, &mut result) {
        let fields = members.entry("_meta").or_insert_with(|| json!({}));
        if let Value::Object(fields) = fields {
            fields.insert(meta::RELATED_TASK.into(), related);
        }
    }
    result
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
            let modes = Modes { form: capability.form || !fine, url: capability.url && fine };
            read_elicitation(params, modes, revision)
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

fn check_sampling_result(mut result: Value, revision: Revision) -> Result<Value, RpcError> {
    let broken = |what: &str| RpcError::new(codes::INTERNAL_ERROR, format!("the answer has no valid {what}"));
    if !matches!(result.get("role").and_then(Value::as_str), Some("user" | "assistant")) {
        return Err(broken("role"));
    }
    if !result.get("model").is_some_and(Value::is_string) {
        return Err(broken("model"));
    }
    let blocks: &[Value] = match result.get("content") {
        Some(Value::Array(blocks)) => blocks,
        Some(block @ Value::Object(_)) => std::slice::from_ref(block),
        _ => return Err(broken("content")),
    };
    let is = |block: &Value, kinds: &[&str]| {
        block.get("type").and_then(Value::as_str).is_some_and(|kind| kinds.contains(&kind))
    };
    let allowed: &[&str] = match revision {
        Revision::V2024_11_05 => &["text", "image"],
        r if r < Revision::V2025_11_25 => &["text", "image", "audio"],
        _ => &["text", "image", "audio", "tool_use", "tool_result"],
    };
    if !blocks.iter().all(|block| is(block, allowed)) {
        return Err(broken("content"));
    }
    let uses_tools = blocks.iter().any(|block| is(block, &["tool_use"]));
    if revision < Revision::V2025_11_25
        && let Some(Value::Array(blocks)) = result.get("content")
    {
        // Lists of blocks came later.
        match blocks.as_slice() {
            [only] => result["content"] = only.clone(),
            _ => return Err(broken("content")),
        }
    }
    if uses_tools && let Value::Object(members) = &mut result {
        members.entry("stopReason").or_insert_with(|| "toolUse".into());
    }
    Ok(result)
}

/// The modes of elicitation that were declared.
#[derive(Clone, Copy)]
struct Modes {
    form: bool,
    url: bool,
}

fn read_elicitation(params: Value, modes: Modes, revision: Revision) -> Result<Ask, RpcError> {
    let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
    let message = text("message").ok_or_else(|| invalid("no message"))?;
    let mode = match params.get("mode") {
        None => "form".to_owned(),
        Some(Value::String(mode)) => mode.clone(),
        Some(_) => return Err(invalid("mode is not a string")),
    };
    let (schema, url, id) = match mode.as_str() {
        "form" if modes.form => {
            let schema = params.get("requestedSchema").filter(|s| s.is_object());
            (Some(schema.cloned().ok_or_else(|| invalid("no requestedSchema"))?), None, None)
        }
        "url" if modes.url => {
            let target = text("url").ok_or_else(|| invalid("no url"))?;
            let id = text("elicitationId");
            if id.is_none() && !revision.is_stateless() {
                return Err(invalid("no elicitationId"));
            }
            let scheme = url::Url::parse(&target).map(|u| u.scheme().to_owned());
            if !matches!(scheme.as_deref(), Ok("https" | "http")) {
                return Err(invalid("the url is not a web address"));
            }
            (None, Some(target), id)
        }
        _ => return Err(invalid("this elicitation mode was not declared")),
    };
    Ok(Ask::Elicitation(Elicitation { message, schema, url, id, params }))
}

/// Brings an elicitation's answer into the form that the specification wants; `form` is the schema.
fn check_elicit_result(result: Value, form: Option<&Value>) -> Result<Value, RpcError> {
    match result.get("action").and_then(Value::as_str) {
        Some("accept") => {}
        // Content is for those who accept.
        Some(action @ ("decline" | "cancel")) => return Ok(json!({"action": action})),
        _ => return Err(RpcError::new(codes::INTERNAL_ERROR, "the answer has no valid action")),
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
    let fits = flat && crate::schema::check_form(schema, &content).is_ok();
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
