//! Subscriptions of 2026-07-28: `subscriptions/listen`, and what is sent to those who listen.

use super::era::{meta_of, missing_client_capability};
use super::rounds::Detour;
use super::{Out, Pending, Scope, ServerCore, Task};
use crate::model::{RpcError, invalid_params};
use crate::script::{SubscriptionEnd, SubscriptionKind};
use serde_json::{Map, Value, json};
use sparring_wire::jsonrpc::{self, Id, codes};
use sparring_wire::{Revision, meta};

/// Subscriptions open at a time; more are refused.
const MAX_SUBSCRIPTIONS: usize = 10_000;

/// What one client listens to.
#[derive(Debug)]
pub(super) struct Subscription {
    /// The id of its `subscriptions/listen`.
    id: Id,
    /// Over HTTP the exchange whose stream it is.
    exchange: Option<u64>,
    filter: Filter,
}

/// What a subscription has been granted.
#[derive(Debug, Clone, Default)]
struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: Vec<String>,
    jobs: Vec<String>,
}

impl Filter {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, granted) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if granted {
                out.insert(key.into(), true.into());
            }
        }
        for (key, granted) in [("resourceSubscriptions", &self.uris), ("taskIds", &self.jobs)] {
            if !granted.is_empty() {
                out.insert(key.into(), json!(granted));
            }
        }
        Value::Object(out)
    }

    fn takes(&self, method: &str, params: &Value) -> bool {
        match method {
            "notifications/tools/list_changed" => self.tools,
            "notifications/prompts/list_changed" => self.prompts,
            "notifications/resources/list_changed" => self.resources,
            "notifications/resources/updated" => self.uris.iter().any(|uri| params["uri"] == uri.as_str()),
            "notifications/tasks" => self.jobs.iter().any(|job| params["taskId"] == job.as_str()),
            _ => false,
        }
    }
}

/// Whether notifications of this method are for those who listen.
pub(super) fn is_for_subscribers(method: &str) -> bool {
    matches!(
        method,
        "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/resources/updated"
            | "notifications/tasks"
    )
}

impl ServerCore {
    /// Opens the subscription that the task's request asks for. Its answer comes when it ends.
    pub(super) fn listen(&mut self, task: &mut Task) -> Detour {
        let Some(request) = &task.request else { return Detour::None };
        let filter = match self.grant(request) {
            Ok(filter) => filter,
            Err(error) => {
                let answer = jsonrpc::error(&request.id, error.code, &error.message, error.data);
                self.answer(task, &answer, false);
                return Detour::Done;
            }
        };
        let id = request.id.clone();
        let granted = filter.to_value();
        let jobs = filter.jobs.clone();
        self.listens.push(Subscription { id: id.clone(), exchange: task.scope.exchange, filter });
        self.force_stream(task);
        let params = json!({"_meta": {meta::SUBSCRIPTION_ID: id.to_value()}, "notifications": granted});
        let out = self.vouched("notifications/subscriptions/acknowledged", Some(params), Revision::STATELESS);
        self.send(task, out, false);
        task.answered = true;
        task.dropped = true;
        self.hurry(&jobs);
        Detour::Done
    }

    fn grant(&self, request: &Pending) -> Result<Filter, RpcError> {
        let wanted = request.params.as_ref().and_then(|p| p.get("notifications"));
        let Some(Value::Object(wanted)) = wanted else {
            return Err(invalid_params("`notifications` is not an object"));
        };
        if self.listens.len() >= MAX_SUBSCRIPTIONS {
            return Err(RpcError::new(codes::INTERNAL_ERROR, "too many subscriptions"));
        }
        let capabilities = self.model.capabilities(request.revision);
        let offered = |kind: SubscriptionKind, feature: &str, member: &str| {
            capabilities[feature][member] == true
                && self.script.grants.as_ref().is_none_or(|grants| grants.contains(&kind))
        };
        let flag = |key: &str| match wanted.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(invalid_params(format!("`{key}` is not a boolean"))),
        };
        let texts = |key: &str| match wanted.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
                Ok(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            Some(_) => Err(invalid_params(format!("`{key}` is not an array of strings"))),
        };
        let (mut uris, mut jobs): (Vec<String>, Vec<String>) =
            (texts("resourceSubscriptions")?, texts("taskIds")?);
        if wanted.contains_key("taskIds") {
            if !declares_tasks(request) {
                return Err(missing_client_capability(json!({"extensions": {meta::TASKS_EXTENSION: {}}})));
            }
            jobs.retain(|job| self.knows_job(job));
            if self.script.grants.as_ref().is_some_and(|g| !g.contains(&SubscriptionKind::Tasks)) {
                jobs.clear();
            }
        }
        if !offered(SubscriptionKind::ResourceUpdates, "resources", "subscribe") {
            uris.clear();
        }
        Ok(Filter {
            tools: flag("toolsListChanged")? && offered(SubscriptionKind::Tools, "tools", "listChanged"),
            prompts: flag("promptsListChanged")?
                && offered(SubscriptionKind::Prompts, "prompts", "listChanged"),
            resources: flag("resourcesListChanged")?
                && offered(SubscriptionKind::Resources, "resources", "listChanged"),
            uris,
            jobs,
        })
    }

    /// Sends a notification to all who listen to it.
    pub(super) fn tell(&mut self, method: &str, params: Option<&Value>, fault: bool) {
        let params = params.cloned().unwrap_or_else(|| json!({}));
        let who: Vec<(Id, Option<u64>)> = self
            .listens
            .iter()
            .filter(|s| s.filter.takes(method, &params))
            .map(|s| (s.id.clone(), s.exchange))
            .collect();
        for (id, exchange) in who {
            let mut params = params.clone();
            params["_meta"][meta::SUBSCRIPTION_ID] = id.to_value();
            let out = if fault {
                Out::message(&jsonrpc::notification(method, Some(params)), true)
            } else {
                self.vouched(method, Some(params), Revision::STATELESS)
            };
            self.say(exchange, out);
        }
    }

    fn say(&mut self, exchange: Option<u64>, out: Out) {
        match exchange {
            Some(exchange) => self.exchange_send(exchange, out),
            None => self.stdio_send(out, None),
        }
    }

    /// Whether a notification that a script spells out went to those who listen instead of a request's stream.
    pub(super) fn told_to_subscribers(
        &mut self,
        task: &Task,
        method: &str,
        params: Option<&Value>,
        fault: bool,
    ) -> bool {
        let stateless = self.revision_of(task.request.as_ref(), &task.scope).is_stateless();
        let tagged = meta_of(params, meta::SUBSCRIPTION_ID).is_some();
        if !stateless || tagged || !is_for_subscribers(method) {
            return false;
        }
        self.tell(method, params, fault);
        true
    }

    /// Whether a notification's tag names a subscription that takes it.
    pub(super) fn is_tagged_rightly(&self, method: &str, params: Option<&Value>) -> bool {
        let tag = meta_of(params, meta::SUBSCRIPTION_ID).and_then(Id::from_value);
        let params = params.unwrap_or(&Value::Null);
        self.listens.iter().any(|s| Some(&s.id) == tag.as_ref() && s.filter.takes(method, params))
    }

    /// Whether what happens concerns the client of a conversation with a handshake.
    pub(super) fn has_legacy_client(&self, task: &Task) -> bool {
        self.model.newest_legacy().is_some()
            && !task.request.as_ref().is_some_and(|r| r.revision.is_stateless())
            || self.is_stdio() && self.stdio.peer.revision.is_some()
    }

    /// The action `end_subscriptions`.
    pub(super) fn end_subscriptions(&mut self, how: SubscriptionEnd) {
        let (notification, result) = match how {
            SubscriptionEnd::Faithful => (self.is_stdio(), true),
            SubscriptionEnd::Result => (false, true),
            SubscriptionEnd::Cancelled => (true, false),
            SubscriptionEnd::Both => (true, true),
            SubscriptionEnd::Abrupt => (false, false),
        };
        for Subscription { id, exchange, .. } in std::mem::take(&mut self.listens) {
            let tag = json!({meta::SUBSCRIPTION_ID: id.to_value()});
            if notification {
                let params = json!({"_meta": tag, "requestId": id.to_value()});
                let out = self.vouched("notifications/cancelled", Some(params), Revision::STATELESS);
                self.say(exchange, out);
            }
            if result {
                let mut tag = tag;
                tag[meta::SERVER_INFO] = self.model.info().clone();
                let message = jsonrpc::result(&id, json!({"resultType": "complete", "_meta": tag}));
                self.say(exchange, Out::answer(&message, false));
            }
            if let Some(exchange) = exchange {
                self.end(exchange);
            }
        }
    }

    /// The client has cancelled a request; if it was a subscription, that is over.
    pub(super) fn unlisten(&mut self, id: &Id, scope: &Scope) {
        self.listens.retain(|s| !(s.id == *id && s.exchange == scope.exchange));
    }

    /// The client has left an exchange, which in the stateless revision is how it cancels.
    pub(super) fn left(&mut self, exchange: u64) {
        self.listens.retain(|s| s.exchange != Some(exchange));
        for task in self.tasks.values_mut().filter(|t| t.scope.exchange == Some(exchange)) {
            task.cancelled |= task.request.as_ref().is_some_and(|r| r.revision.is_stateless());
        }
    }
}

/// Whether a request declares the tasks extension.
pub(super) fn declares_tasks(request: &Pending) -> bool {
    meta_of(request.params.as_ref(), meta::CLIENT_CAPABILITIES)
        .and_then(|c| c.get("extensions")?.get(meta::TASKS_EXTENSION))
        .is_some()
}
