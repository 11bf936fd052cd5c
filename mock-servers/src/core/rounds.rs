//! Input that the server asks its client for: `input_required` results in 2026-07-28, requests of the server's own in
//! earlier revisions.

use super::act::Flow;
use super::era::{ASKING, missing_capability, missing_client_capability};
use super::{Pending, Scope, ServerCore, Task, Wait};
use crate::library::base64;
use crate::model::{RpcError, invalid_params};
use crate::script::{Action, AskScript};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use sparring_wire::jsonrpc::{self, Id};
use sparring_wire::{Revision, meta};
use std::collections::BTreeMap;

/// What a request's answer takes beside the faithful result.
pub(super) enum Detour {
    /// Nothing.
    None,
    /// The client is asked, then the answer follows.
    Ask(AskScript),
    /// It is dealt with.
    Done,
}

impl ServerCore {
    /// What comes before, or instead of, the faithful answer to the task's request.
    pub(super) fn detour(&mut self, task: &mut Task) -> Detour {
        let Some(request) = &task.request else { return Detour::None };
        if request.refused.is_some() || request.premature {
            return Detour::None;
        }
        match (request.method.as_str(), request.revision.is_stateless()) {
            ("subscriptions/listen", true) => self.listen(task),
            ("tools/call", false) if request.inputs.is_none() => {
                let ask = request.params.as_ref().and_then(|p| self.model.asks(p));
                match ask.filter(|ask| !self.has_undeclared(ask, request, &task.scope)) {
                    Some(ask) => Detour::Ask(ask),
                    None => Detour::None,
                }
            }
            ("tasks/result", false) => self.await_job(task),
            _ => Detour::None,
        }
    }

    fn has_undeclared(&self, ask: &AskScript, request: &Pending, scope: &Scope) -> bool {
        let unknown =
            |method: &str| method == "elicitation/create" && request.revision < Revision::V2025_06_18;
        let declared = self.declared(request, scope);
        ask.requests.values().any(|asked| {
            let params = asked.params.as_ref().map_or(&Value::Null, |p| &p.0);
            unknown(&asked.method)
                || (params["mode"] == "url" && request.revision < Revision::V2025_11_25)
                || missing_capability(&asked.method, params, declared).is_some()
        })
    }

    /// The action `input_required`.
    pub(super) fn input_required(&mut self, task: &mut Task, ask: AskScript) -> Flow {
        let Some(request) = &mut task.request else { return Flow::Next };
        if !request.revision.is_stateless() {
            return self.ask_before(task, ask);
        }
        let later = task.actions.iter().any(|action| match action {
            Action::InputRequired(later) => {
                let state = self.state_for(later, request);
                state.is_some() && state.as_deref() == state_in(request)
            }
            _ => false,
        });
        if request.refused.is_some() {
            return Flow::Next;
        }
        if later || self.is_settled(&ask, request) {
            return Flow::Next;
        }
        let result = self.asked(&ask, request);
        let answer = jsonrpc::result(&request.id.clone(), result);
        let fault = self.is_faulty_answer(request, &answer);
        self.answer(task, &answer, fault);
        task.actions.clear();
        Flow::Next
    }

    /// Asks by requests of our own, and waits for the answers.
    fn ask_before(&mut self, task: &mut Task, ask: AskScript) -> Flow {
        let Some(request) = &mut task.request else { return Flow::Next };
        let revision = request.revision;
        request.inputs.get_or_insert_default();
        let mut awaited = BTreeMap::new();
        for (key, asked) in ask.requests {
            let mut params = asked.params.map(|p| p.0);
            if let Some(Value::Object(params)) = &mut params
                && params.get("mode").is_some_and(|m| m == "url")
                && revision == Revision::V2025_11_25
            {
                params
                    .entry("elicitationId")
                    .or_insert_with(|| format!("e-{}", self.next_own_request).into());
            }
            awaited.insert(self.send_own(task, &asked.method, params, revision), key);
        }
        if awaited.is_empty() { Flow::Next } else { Flow::Park(Wait::Inputs(awaited)) }
    }

    /// An answer to a request of ours has come. Those who wait for it go on when they have all.
    pub(super) fn input_came(&mut self, id: &Id, answer: &Value) {
        let waiting = self.tasks.iter_mut().find_map(|(number, task)| match &mut task.wait {
            Some(Wait::Inputs(awaited)) => {
                let key = awaited.remove(id)?;
                Some((*number, key, awaited.is_empty(), &mut task.request))
            }
            _ => None,
        });
        let Some((number, key, through, request)) = waiting else { return };
        if let Some(request) = request {
            request.inputs.get_or_insert_default().insert(key, answer.clone());
        }
        if through {
            self.resume(number);
        }
    }

    /// The stateless answer to a request for which the model asks.
    pub(super) fn ask_or_go_on(
        &self,
        ask: &AskScript,
        request: &Pending,
        scope: &Scope,
    ) -> Result<Value, RpcError> {
        static NOTHING: Value = Value::Null;
        let params = request.params.as_ref().unwrap_or(&NOTHING);
        let none = Map::new();
        if !request.revision.is_stateless() {
            let inputs = request.inputs.as_ref().unwrap_or(&none);
            return self.model.outcome(params, request.revision, inputs);
        }
        if self.is_settled(ask, request) {
            let inputs = params["inputResponses"].as_object().unwrap_or(&none);
            return self.model.outcome(params, request.revision, inputs);
        }
        let declared = self.declared(request, scope);
        for asked in ask.requests.values() {
            let params = asked.params.as_ref().map_or(&Value::Null, |p| &p.0);
            if let Some(needed) = missing_capability(&asked.method, params, declared) {
                return Err(missing_client_capability(needed));
            }
        }
        Ok(self.asked(ask, request))
    }

    /// An `InputRequiredResult`.
    pub(super) fn asked(&self, ask: &AskScript, request: &Pending) -> Value {
        let mut result = json!({"resultType": "input_required"});
        if !ask.requests.is_empty() {
            result["inputRequests"] = input_requests(ask);
        }
        if let Some(state) = self.state_for(ask, request) {
            result["requestState"] = state.into();
        }
        self.dress(request, &mut result);
        result
    }

    /// Whether a request brings what was asked, and the state that went with it.
    pub(super) fn is_settled(&self, ask: &AskScript, request: &Pending) -> bool {
        let responses = request.params.as_ref().and_then(|p| p.get("inputResponses"));
        let state = self.state_for(ask, request);
        !ask.always
            && state.as_deref() == state_in(request)
            && ask.requests.iter().all(|(key, asked)| {
                responses
                    .and_then(|r| r.get(key))
                    .is_some_and(|response| is_answer_to(&asked.method, response))
            })
    }

    fn state_for(&self, ask: &AskScript, request: &Pending) -> Option<String> {
        match (&ask.state, ask.state_bytes) {
            (Some(state), _) => Some(state.clone()),
            (None, Some(length)) => Some(odd_text(length)),
            (None, None) if ask.requests.is_empty() => {
                let name = request.params.as_ref().map_or("", name_in);
                Some(self.signed(&format!("{} {name}", request.method)))
            }
            (None, None) => None,
        }
    }

    /// A state that no client can make: what it says, and proof that it was said here.
    fn signed(&self, text: &str) -> String {
        let proof = Sha256::digest(format!("state {} {text}", self.seed));
        format!("{}.{}", base64(text.as_bytes()), base64(proof.get(..12).unwrap_or_default()))
    }

    /// Why the params that carry an earlier question on are refused.
    pub(super) fn refuse_round(&self, method: &str, params: &Value) -> Option<RpcError> {
        if !ASKING.contains(&method) {
            return None;
        }
        if params.get("inputResponses").is_some_and(|r| !r.is_object()) {
            return Some(invalid_params("`inputResponses` is not an object"));
        }
        match params.get("requestState") {
            None => None,
            Some(Value::String(state)) if self.is_own_state(state, method, params) => None,
            Some(_) => Some(invalid_params("`requestState` does not come from this server")),
        }
    }

    fn is_own_state(&self, state: &str, method: &str, params: &Value) -> bool {
        let name = name_in(params);
        let is = |ask: &AskScript| {
            ask.state.as_deref() == Some(state) || ask.state_bytes.is_some_and(|n| odd_text(n) == state)
        };
        let in_rules = || {
            self.script.rules.iter().flat_map(|rule| &rule.actions).any(|action| match action {
                Action::InputRequired(ask) => is(ask),
                _ => false,
            })
        };
        state == self.signed(&format!("{method} {name}"))
            || self.model.asks(params).as_ref().is_some_and(is)
            || in_rules()
    }
}

/// Whether a response could answer a question with this method. What could not is asked again.
pub(super) fn is_answer_to(method: &str, response: &Value) -> bool {
    match method {
        "elicitation/create" => response["action"].is_string(),
        "sampling/createMessage" => response["role"].is_string() && response.get("content").is_some(),
        "roots/list" => response["roots"].is_array(),
        _ => response.is_object(),
    }
}

fn state_in(request: &Pending) -> Option<&str> {
    request.params.as_ref()?.get("requestState")?.as_str()
}

/// The name or URI of what a request is about.
fn name_in(params: &Value) -> &str {
    params["name"].as_str().or_else(|| params["uri"].as_str()).unwrap_or_default()
}

/// The questions as a map, with their keys.
pub(super) fn input_requests(ask: &AskScript) -> Value {
    let each = ask.requests.iter().map(|(key, asked)| {
        let mut request = json!({"method": asked.method});
        if let Some(params) = &asked.params {
            request["params"] = params.0.clone();
        }
        (key.clone(), request)
    });
    Value::Object(each.collect())
}

/// Text of so many characters that a client must not touch: quotes, escapes, padding, what looks like JSON or a URL.
fn odd_text(length: u32) -> String {
    const ODD: &str = "{\"next\": \"%2e&=\\n\"} ключ== \u{2028}+/";
    ODD.chars().cycle().take(usize::try_from(length).unwrap_or(usize::MAX).min(1 << 24)).collect()
}

/// Puts the task into an object's `_meta`.
pub(super) fn relate(value: &mut Value, job: &str) {
    if let Value::Object(object) = value {
        let fields = object.entry("_meta").or_insert_with(|| json!({}));
        if let Value::Object(fields) = fields {
            fields.insert(meta::RELATED_TASK.into(), json!({"taskId": job}));
        }
    }
}
