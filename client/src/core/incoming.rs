//! Messages of the server.

use super::asks::{self, ReplyTo};
use super::envelope::Envelope;
use super::listen::is_for_listeners;
use super::{
    Action, Error, Event, ListKind, Phase, Progress, Purpose, RpcError, Session, Ticket, protocol_error,
    small,
};
use crate::raw::Raw;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sparring_wire::jsonrpc::codes;
use sparring_wire::meta;
use sparring_wire::{Id, Transport};
use std::time::Duration;

impl Session {
    /// Takes in one message, as text. Results are not parsed: they come out as they are.
    pub fn receive(&mut self, now: Duration, text: impl Into<String>) {
        if self.is_closed() {
            return;
        }
        let whole = Raw::new(text.into());
        let text = whole.as_str();
        let body = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
        let read = match body.as_bytes().first() {
            None => return,
            Some(b'{') => {
                Envelope::read(body).map(|envelope| self.single(now, &whole, body, &envelope, None))
            }
            Some(b'[') => serde_json::from_str(body).map(|batch| self.batch(now, &whole, body, batch)),
            Some(_) => serde_json::from_str::<IgnoredAny>(body)
                .map(|_| self.skip("neither a JSON object nor an array", body)),
        };
        if let Err(error) = read {
            self.skip(&format!("not JSON: {error}"), body);
            if self.transport == Transport::Stdio && !self.tolerate_noise {
                self.disconnect(Error::Invalid("a line on stdout is no message".into()));
            }
        }
    }

    /// A message was lost because it is longer than the client accepts; `start` is its beginning. The request it
    /// seems to answer fails.
    pub fn too_long(&mut self, now: Duration, start: &str, limit: usize) {
        let reason = format!("a message of the server is too large: more than {limit} bytes");
        let sent: Vec<Ticket> = self.by_id.values().copied().collect();
        let named = asks::leading_id(start).and_then(|id| self.ticket_of(&id));
        let ticket = named.or_else(|| sent.first().copied().filter(|_| sent.len() == 1));
        match ticket {
            Some(ticket) => self.conclude(now, ticket, Err(Error::Invalid(reason))),
            None => self.skip(&reason, start),
        }
    }

    fn skip(&mut self, reason: &str, text: &str) {
        let text = text.chars().take(200).collect();
        self.actions.push_back(Action::Event(Event::Skipped { reason: reason.to_owned(), text }));
    }

    fn batch(&mut self, now: Duration, whole: &Raw, text: &str, batch: Vec<&RawValue>) {
        let has_batching = self.negotiated.as_ref().is_some_and(|n| n.revision.has_batching());
        let members = batch.into_iter().map(|member| (member.get(), Envelope::read(member.get())));
        if members.len() == 0 || !has_batching || self.phase != Phase::Ready {
            self.skip("a batch, which the protocol version does not have here", text);
            // Whoever waits for an answer in it should not wait in vain.
            for envelope in members.filter_map(|(_, envelope)| envelope.ok()).filter(|e| !e.has_method) {
                if let Some(id) = Id::from_value(&small(envelope.id)) {
                    self.fail(now, &id, Error::Invalid("the answer came in a batch".into()));
                }
            }
            return;
        }
        let group = self.asks.begin_batch();
        for (member, envelope) in members {
            match envelope {
                Ok(envelope) => self.single(now, whole, member, &envelope, Some(group)),
                Err(_) => self.skip("a member of a batch is no object", member),
            }
        }
        let sent = self.asks.end_batch(group);
        self.actions.extend(sent.map(Action::Send));
    }

    /// A message that is an object: `text`, a part of `whole`.
    fn single(
        &mut self,
        now: Duration,
        whole: &Raw,
        text: &str,
        envelope: &Envelope<'_>,
        group: Option<u64>,
    ) {
        self.heard = now;
        if !envelope.has_method {
            return self.response(now, whole, text, envelope);
        }
        if !envelope.proper {
            return self.skip("`jsonrpc` is not \"2.0\"", text);
        }
        let mut message: Map<String, Value> = match serde_json::from_str(text) {
            Ok(message) => message,
            Err(error) => return self.skip(&format!("not JSON: {error}"), text),
        };
        let Some(Value::String(method)) = message.remove("method") else {
            return self.skip("`method` is not a string", text);
        };
        let params = message.remove("params");
        match message.remove("id") {
            None => self.notification(now, &method, params.unwrap_or(Value::Null)),
            Some(id) => match Id::from_value(&id) {
                Some(_) if self.stateless.is_some() => {
                    self.skip("a request of the server, which this revision does not have", text);
                }
                Some(id) => self.server_request(now, id, &method, params, group),
                None => self.skip("the id of a request is neither string nor integer", &id.to_string()),
            },
        }
    }

    fn response(&mut self, now: Duration, whole: &Raw, text: &str, envelope: &Envelope<'_>) {
        let (result, error) = (envelope.result, envelope.error);
        if result.is_none() && error.is_none() {
            return self.skip("none of `method`, `result` and `error`", text);
        }
        let raw_id = small(envelope.id);
        let id = Id::from_value(&raw_id);
        let Some(ticket) = id.as_ref().and_then(|id| self.ticket_of(id)) else {
            let late = match id {
                Some(Id::Number(id)) => {
                    let outcome = response_outcome(whole, envelope);
                    self.is_late_discovery(now, id, &outcome)
                }
                _ => false,
            };
            if !late {
                self.actions.push_back(Action::Event(Event::Unmatched { id: raw_id }));
            }
            return;
        };
        self.useful |= self.phase == Phase::Ready;
        self.conclude(now, ticket, response_outcome(whole, envelope));
    }

    fn notification(&mut self, now: Duration, method: &str, params: Value) {
        let seen = Event::Notification { method: method.to_owned(), params: params.clone() };
        self.actions.push_back(Action::Event(seen));
        if self.stateless.is_some() && is_for_listeners(method) && !self.is_subscribed(method, &params) {
            return;
        }
        let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
        let event = match method {
            "notifications/message" => Event::Log(params),
            "notifications/tools/list_changed" => Event::ListChanged(ListKind::Tools),
            "notifications/prompts/list_changed" => Event::ListChanged(ListKind::Prompts),
            "notifications/resources/list_changed" => Event::ListChanged(ListKind::Resources),
            "notifications/resources/updated" => match text("uri") {
                Some(uri) => Event::ResourceUpdated { uri },
                None => return self.skip("resources/updated without a uri", &params.to_string()),
            },
            "notifications/elicitation/complete" => match text("elicitationId") {
                Some(id) => {
                    self.url_complete(now, &id);
                    Event::ElicitationComplete { id }
                }
                None => return self.skip("elicitation/complete without an id", &params.to_string()),
            },
            "notifications/progress" => return self.progress(now, &params),
            "notifications/tasks" | "notifications/tasks/status" => return self.task_told(now, &params),
            "notifications/subscriptions/acknowledged" => return self.acknowledged(&params),
            "notifications/cancelled" => {
                let id = params.get("requestId").and_then(Id::from_value);
                // A subscription is the one request of the client's that the server can end this way.
                let listening = id.as_ref().and_then(|id| self.ticket_of(id));
                let is_one =
                    |ticket: &Ticket| self.requests.get(ticket).is_some_and(|r| r.purpose == Purpose::Listen);
                if let Some(ticket) = listening.filter(is_one) {
                    return self.unheard(now, ticket, Ok(()));
                }
                let Some(cancelled) = id.and_then(|id| self.asks.cancel(&id)) else { return };
                self.actions.push_back(Action::AskCancelled(cancelled.key));
                self.actions.extend(cancelled.batch.map(Action::Send));
                Event::ServerCancelled { reason: text("reason") }
            }
            _ => return,
        };
        self.actions.push_back(Action::Event(event));
    }

    fn progress(&mut self, now: Duration, params: &Value) {
        let token = params.get("progressToken").and_then(Value::as_str);
        let (Some(ticket), Some(value)) = (
            token.and_then(|t| self.by_token.get(t).copied()),
            params.get("progress").and_then(Value::as_f64),
        ) else {
            return;
        };
        self.extend(now, ticket);
        let Some(request) = self.requests.get(&ticket) else { return };
        let progress = Progress {
            progress: value,
            total: params.get("total").and_then(Value::as_f64),
            message: params.get("message").and_then(Value::as_str).map(str::to_owned),
        };
        let method = request.method.clone();
        self.actions.push_back(Action::Progress { ticket, progress: progress.clone() });
        self.actions.push_back(Action::Event(Event::Progress { method, progress }));
    }

    fn server_request(
        &mut self,
        now: Duration,
        id: Id,
        method: &str,
        params: Option<Value>,
        group: Option<u64>,
    ) {
        if params.as_ref().is_some_and(|p| !p.is_object()) {
            let error = RpcError::new(codes::INVALID_PARAMS, "params have to be an object");
            return self.respond(id, Err(error), group);
        }
        let params = params.unwrap_or_else(|| json!({}));
        let related = params.get("_meta").and_then(|fields| fields.get(meta::RELATED_TASK)).cloned();
        let refused = || RpcError::new(codes::METHOD_NOT_FOUND, "method not found");
        match method {
            "ping" => {
                if self.answer_pings {
                    self.respond(id, Ok(json!({})), group);
                }
            }
            "roots/list" => {
                let answer = match self.declared.roots {
                    Some(_) => Ok(asks::relate(self.roots_result(), related)),
                    None => Err(refused()),
                };
                self.respond(id, answer, group);
            }
            "sampling/createMessage" | "elicitation/create" => {
                let later = self.becomes_task(method, &params).then(|| params.clone());
                let ask = match asks::read(method, params, &self.declared, self.revision()) {
                    Ok(ask) => ask,
                    Err(error) => return self.respond(id, Err(error), group),
                };
                if let Some(params) = later {
                    let answer = self.serve(now, ask, &params);
                    return self.respond(id, answer, group);
                }
                if !self.put(ReplyTo::Peer { id: id.clone(), group, related }, ask) {
                    let busy = RpcError::new(codes::INTERNAL_ERROR, "too many open requests");
                    self.respond(id, Err(busy), group);
                }
            }
            "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel" => {
                if let Some(answer) = self.about_tasks(now, &id, method, &params) {
                    self.respond(id, answer, group);
                }
            }
            _ => self.respond(id, Err(refused()), group),
        }
    }

    fn respond(&mut self, id: Id, answer: Result<Value, RpcError>, group: Option<u64>) {
        let message = asks::response(&id, answer);
        match group {
            Some(group) => self.asks.collect(group, message),
            None => self.actions.push_back(Action::Send(message)),
        }
    }
}

/// What a response says.
fn response_outcome(whole: &Raw, envelope: &Envelope<'_>) -> Result<Raw, Error> {
    match (envelope.result.map(|result| whole.part(result)), envelope.error) {
        _ if !envelope.proper => Err(Error::Invalid("the answer lacks `\"jsonrpc\": \"2.0\"`".into())),
        (Some(_), Some(_)) => Err(Error::Invalid("the answer has both `result` and `error`".into())),
        _ if envelope.twice.is_some() => {
            let member = envelope.twice.unwrap_or_default();
            Err(Error::Invalid(format!("the answer has the member `{member}` twice")))
        }
        (Some(result), None) if result.is_object() => Ok(result),
        (Some(_), None) => Err(Error::Invalid("the `result` of the answer is no object".into())),
        (None, error) => Err(protocol_error(&small(error))),
    }
}
