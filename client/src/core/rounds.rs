//! Input that the server wants before it goes on with a request of the client's: rounds of `input_required` results
//! (2026-07-28), and URLs to visit (2025-11-25).

use super::asks::{self, ReplyTo};
use super::{Action, Ask, Error, RpcError, Session, Ticket};
use crate::raw::Raw;
use serde_json::{Map, Value, json};
use sparring_wire::Revision;
use sparring_wire::jsonrpc::codes;
use std::collections::HashSet;
use std::time::Duration;

/// Methods that may be answered with `input_required`.
const ASKING: [&str; 3] = ["prompts/get", "resources/read", "tools/call"];

/// What a round brings into the request when it is sent again.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Questions without an answer.
    open: usize,
    /// The answers, if there were questions.
    responses: Option<Map<String, Value>>,
    /// `requestState`, as it came.
    state: Option<Value>,
}

impl Round {
    /// Adds it to the params of the request.
    pub(super) fn add_to(&self, params: &mut Map<String, Value>) {
        if let Some(responses) = &self.responses {
            params.insert("inputResponses".into(), Value::Object(responses.clone()));
        }
        if let Some(state) = &self.state {
            params.insert("requestState".into(), state.clone());
        }
    }
}

/// URLs that have to be visited before a request is sent again.
#[derive(Debug)]
pub(super) struct Urls {
    /// Those nobody has agreed to visit yet.
    open: usize,
    /// Elicitations that are not known to be complete.
    pending: HashSet<String>,
    /// What the server has said.
    error: Error,
}

/// What an `input_required` result says.
#[derive(Default)]
struct Wanted {
    questions: Option<Vec<(String, Input)>>,
    state: Option<Value>,
}

/// A question inside a result.
pub(super) enum Input {
    /// The client answers it by itself.
    Known(Value),
    /// Somebody has to be asked.
    Ask(Ask),
}

impl Session {
    /// A result says that the server needs input first.
    pub(super) fn begin_round(&mut self, now: Duration, ticket: Ticket, result: &Raw) {
        let (questions, state) = match self.read_round(ticket, result) {
            Ok(Wanted { questions, state }) => (questions, state),
            Err(error) => return self.resolve(ticket, Err(error)),
        };
        self.off_the_wire(ticket);
        let mut round = Round { open: 0, responses: questions.is_some().then(Map::new), state };
        let mut asked = Vec::new();
        for (name, input) in questions.into_iter().flatten() {
            match (input, &mut round.responses) {
                (Input::Known(answer), Some(responses)) => {
                    responses.insert(name, answer);
                }
                (Input::Ask(ask), _) => asked.push((name, ask)),
                (Input::Known(_), None) => {}
            }
        }
        round.open = asked.len();
        let waits = round.open > 0;
        if let Some(request) = self.requests.get_mut(&ticket) {
            request.round = Some(round);
        }
        if !waits {
            return self.next_round(now, ticket);
        }
        self.pause(now, ticket);
        for (name, ask) in asked {
            if !self.put(ReplyTo::Input(ticket, name), ask) {
                return self.resolve(ticket, Err(too_many()));
            }
        }
    }

    fn read_round(&mut self, ticket: Ticket, result: &Raw) -> Result<Wanted, Error> {
        let invalid = |why: String| Err(Error::Invalid(why));
        let Some(request) = self.requests.get_mut(&ticket) else { return Ok(Wanted::default()) };
        let method = request.method.clone();
        if !ASKING.contains(&method.as_str()) {
            return invalid(format!("{method} was answered with input_required, which it can't be"));
        }
        request.rounds += 1;
        if request.rounds > self.max_rounds {
            return invalid(format!(
                "{method} was given up: the server asked for input {} times",
                request.rounds
            ));
        }
        let mut result: Map<String, Value> = result.parse()?;
        let state = result.remove("requestState").filter(|state| !state.is_null());
        if state.as_ref().is_some_and(|state| !state.is_string()) {
            return invalid("requestState is not a string".into());
        }
        let questions = match result.remove("inputRequests").filter(|questions| !questions.is_null()) {
            None => None,
            Some(Value::Object(questions)) => {
                let read =
                    questions.into_iter().map(|(name, question)| Ok((name, self.read_input(question)?)));
                Some(read.collect::<Result<Vec<_>, Error>>()?)
            }
            Some(_) => return invalid("inputRequests is not an object".into()),
        };
        if questions.is_none() && state.is_none() {
            return invalid("the server wants input, but does not say which".into());
        }
        Ok(Wanted { questions, state })
    }

    /// Reads a question; the error is what the caller is told.
    pub(super) fn read_input(&self, mut question: Value) -> Result<Input, Error> {
        let params = question.get_mut("params").map_or_else(|| json!({}), Value::take);
        let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
        let read = match method {
            "roots/list" if self.declared.roots.is_some() => return Ok(Input::Known(self.roots_result())),
            "sampling/createMessage" | "elicitation/create" if params.is_object() => {
                asks::read(method, params, &self.declared, self.revision())
            }
            _ => Err(RpcError::new(codes::METHOD_NOT_FOUND, "this client does not answer that")),
        };
        read.map(Input::Ask)
            .map_err(|error| Error::Invalid(format!("the server asks for {method:?}: {}", error.message)))
    }

    /// Puts a question; `false` if too many are open, or come too quickly.
    pub(super) fn put(&mut self, to: ReplyTo, ask: Ask) -> bool {
        const MINUTE: Duration = Duration::from_secs(60);
        let (since, count) = &mut self.asked;
        if self.heard.saturating_sub(*since) >= MINUTE {
            (*since, *count) = (self.heard, 0);
        }
        *count = count.saturating_add(1);
        if *count > self.asks_per_minute {
            return false;
        }
        let key = self.asks.open(to, &ask);
        self.actions.extend(key.map(|key| Action::Ask { key, ask }));
        key.is_some()
    }

    /// An answer to a question of a round.
    pub(super) fn input_came(
        &mut self,
        now: Duration,
        ticket: Ticket,
        name: String,
        answer: Result<Value, RpcError>,
    ) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.resolve(ticket, Err(unanswered(&error))),
        };
        let Some(round) = &mut request.round else { return };
        round.open = round.open.saturating_sub(1);
        if let Some(responses) = &mut round.responses {
            responses.insert(name, answer);
        }
        if round.open == 0 {
            self.unpause(now, ticket);
            self.next_round(now, ticket);
        }
    }

    fn next_round(&mut self, now: Duration, ticket: Ticket) {
        self.allow_time(now, ticket);
        self.send(ticket);
    }

    /// The server wants URLs to be visited before it does what the request says. `false`: that is not so, or nothing
    /// can be done about it.
    pub(super) fn begin_urls(&mut self, now: Duration, ticket: Ticket, error: &Error) -> bool {
        let Error::Protocol { code: codes::URL_ELICITATION_REQUIRED, data: Some(data), .. } = error else {
            return false;
        };
        let offered = self.declared.elicitation.is_some_and(|e| e.url);
        let again = self.requests.get(&ticket).is_none_or(|r| r.rounds >= self.max_rounds);
        if !offered || again || self.revision() != Revision::V2025_11_25 {
            return false;
        }
        let listed = data.get("elicitations").and_then(Value::as_array).into_iter().flatten();
        let read = listed.map(|params| {
            match asks::read("elicitation/create", params.clone(), &self.declared, self.revision()) {
                Ok(Ask::Elicitation(ask)) => ask.id.clone().map(|id| (id, Ask::Elicitation(ask))),
                _ => None,
            }
        });
        let Some(asked) = read.collect::<Option<Vec<_>>>().filter(|asked| !asked.is_empty()) else {
            return false;
        };
        self.off_the_wire(ticket);
        let pending = asked.iter().map(|(id, _)| id.clone()).collect();
        if let Some(request) = self.requests.get_mut(&ticket) {
            request.rounds += 1;
            request.urls = Some(Box::new(Urls { open: asked.len(), pending, error: error.clone() }));
        }
        self.pause(now, ticket);
        for (id, ask) in asked {
            if !self.put(ReplyTo::Url(ticket, id), ask) {
                self.resolve(ticket, Err(too_many()));
                break;
            }
        }
        true
    }

    /// Somebody has agreed to visit a URL, or has not.
    pub(super) fn url_answered(&mut self, now: Duration, ticket: Ticket, answer: &Result<Value, RpcError>) {
        let accepted =
            answer.as_ref().is_ok_and(|answer| answer.get("action").is_some_and(|a| a == "accept"));
        let Some(urls) = self.requests.get_mut(&ticket).and_then(|r| r.urls.as_mut()) else { return };
        if !accepted {
            let error = urls.error.clone();
            return self.resolve(ticket, Err(error));
        }
        urls.open = urls.open.saturating_sub(1);
        self.urls_done(now, ticket);
    }

    /// An elicitation by URL is complete; what waits for it goes on. Unknown ids mean nothing.
    pub(super) fn url_complete(&mut self, now: Duration, id: &str) {
        let waiting = |urls: &Urls| urls.pending.contains(id);
        let tickets: Vec<Ticket> = self
            .requests
            .iter()
            .filter(|(_, request)| request.urls.as_deref().is_some_and(waiting))
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in tickets {
            if let Some(urls) = self.requests.get_mut(&ticket).and_then(|r| r.urls.as_mut()) {
                urls.pending.remove(id);
            }
            self.urls_done(now, ticket);
        }
    }

    fn urls_done(&mut self, now: Duration, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        let Some(urls) = &request.urls else { return };
        if urls.open > 0 {
            return;
        }
        if urls.pending.is_empty() {
            request.urls = None;
            self.unpause(now, ticket);
            self.next_round(now, ticket);
        } else {
            // From here on it is the server that takes its time.
            self.unpause(now, ticket);
        }
    }
}

impl Urls {
    /// What the server has said.
    pub(super) fn into_error(self) -> Error {
        self.error
    }
}

/// What the caller is told when a question of the server got no answer.
pub(super) fn unanswered(error: &RpcError) -> Error {
    Error::Refused(format!("the server's question was not answered: {}", error.message))
}

pub(super) fn too_many() -> Error {
    Error::Invalid("the server asks too many questions at once".into())
}
