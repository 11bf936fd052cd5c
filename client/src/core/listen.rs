//! Subscriptions of the stateless revision: `subscriptions/listen`.

use super::{Action, Error, Event, ListKind, Purpose, RequestOptions, Session, Ticket};
use serde_json::{Map, Value, json};
use sparring_wire::{Id, meta};
use std::time::Duration;

/// What a subscription is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// `notifications/tools/list_changed`
    pub tools: bool,
    /// `notifications/prompts/list_changed`
    pub prompts: bool,
    /// `notifications/resources/list_changed`
    pub resources: bool,
    /// `notifications/resources/updated` of these resources, and of what is below them.
    pub uris: Vec<String>,
    /// `notifications/tasks` of these tasks (tasks extension).
    pub tasks: Vec<String>,
}

impl Filter {
    /// Changes of these resources.
    #[must_use]
    pub fn uris(uris: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { uris: uris.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Whether it is about nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// As `params.notifications` has it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        for (name, wanted) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if wanted {
                out.insert(name.into(), true.into());
            }
        }
        for (name, wanted) in [("resourceSubscriptions", &self.uris), ("taskIds", &self.tasks)] {
            if !wanted.is_empty() {
                out.insert(name.into(), json!(wanted));
            }
        }
        Value::Object(out)
    }

    /// What of `self` the server has agreed to.
    fn granted(&self, agreed: &Value) -> Self {
        let flag = |name: &str| agreed.get(name).and_then(Value::as_bool) == Some(true);
        let texts = |name: &str, wanted: &[String]| {
            let listed: Vec<&str> = agreed
                .get(name)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            wanted.iter().filter(|text| listed.contains(&text.as_str())).cloned().collect()
        };
        Self {
            tools: self.tools && flag("toolsListChanged"),
            prompts: self.prompts && flag("promptsListChanged"),
            resources: self.resources && flag("resourcesListChanged"),
            uris: texts("resourceSubscriptions", &self.uris),
            tasks: texts("taskIds", &self.tasks),
        }
    }

    fn takes(&self, method: &str) -> bool {
        match method {
            "notifications/tools/list_changed" => self.tools,
            "notifications/prompts/list_changed" => self.prompts,
            "notifications/resources/list_changed" => self.resources,
            // What changed may be below what was subscribed to.
            "notifications/resources/updated" => !self.uris.is_empty(),
            "notifications/tasks" => !self.tasks.is_empty(),
            _ => false,
        }
    }

    /// The lists it is about.
    fn lists(&self) -> impl Iterator<Item = ListKind> {
        [
            (self.tools, ListKind::Tools),
            (self.prompts, ListKind::Prompts),
            (self.resources, ListKind::Resources),
        ]
        .into_iter()
        .filter_map(|(wanted, kind)| wanted.then_some(kind))
    }
}

/// The state of one subscription.
#[derive(Debug)]
pub(super) struct Listening {
    filter: Filter,
    /// What the server has agreed to, once it has.
    granted: Option<Filter>,
    /// Whether it was ever agreed to.
    was_open: bool,
    /// Failures in a row.
    failures: u32,
}

/// Whether notifications of this method come to those who listen, and to nobody else.
pub(super) fn is_for_listeners(method: &str) -> bool {
    matches!(
        method,
        "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/resources/updated"
            | "notifications/tasks"
    )
}

impl Session {
    /// Subscribes. [`Action::Listening`] says what the server agrees to; [`Session::cancel`] ends it.
    ///
    /// # Errors
    /// [`Error::Refused`] in a revision that has no such subscriptions.
    pub fn listen(&mut self, now: Duration, filter: Filter) -> Result<Ticket, Error> {
        if let Some(error) = self.closed_by() {
            return Err(error.clone());
        }
        if self.stateless.is_none() || !self.is_ready() {
            return Err(Error::Refused("subscriptions/listen does not exist in this revision".into()));
        }
        let params = json!({"notifications": filter.to_json()});
        let options = RequestOptions { ceiling: Some(self.timeouts.request), ..RequestOptions::default() };
        let ticket = self.enter(now, Purpose::Listen, "subscriptions/listen", Some(params), options);
        if let Some(request) = self.requests.get_mut(&ticket) {
            let listening = Listening { filter, granted: None, was_open: false, failures: 0 };
            request.listening = Some(Box::new(listening));
        }
        self.send(ticket);
        Ok(ticket)
    }

    /// Subscribes to the changes of lists that the settings name and the server offers.
    pub(super) fn listen_to_lists(&mut self, now: Duration) {
        let Some(negotiated) = &self.negotiated else { return };
        let offered = |name: &str| {
            let feature = negotiated.capabilities.get(name);
            feature.and_then(|f| f.get("listChanged")).and_then(Value::as_bool) == Some(true)
        };
        let filter = Filter {
            tools: self.listen_to.tools && offered("tools"),
            prompts: self.listen_to.prompts && offered("prompts"),
            resources: self.listen_to.resources && offered("resources"),
            ..Filter::default()
        };
        if !filter.is_empty() {
            // Ready and stateless, so it can't be refused.
            drop(self.listen(now, filter));
        }
    }

    fn listening_mut(&mut self, ticket: Ticket) -> Option<&mut Listening> {
        self.requests.get_mut(&ticket)?.listening.as_deref_mut()
    }

    /// The subscription that a notification names; `Err` if it names one that is unknown.
    fn named(&self, params: &Value) -> Option<Result<Ticket, ()>> {
        let tag = params.get("_meta")?.get(meta::SUBSCRIPTION_ID)?;
        let found = Id::from_value(tag).and_then(|id| self.ticket_of(&id));
        let open = found.filter(|t| self.requests.get(t).is_some_and(|r| r.listening.is_some()));
        Some(open.ok_or(()))
    }

    /// Whether a notification for those who listen concerns this client.
    pub(super) fn is_subscribed(&self, method: &str, params: &Value) -> bool {
        let takes = |ticket: &Ticket| {
            let listening = self.requests.get(ticket).and_then(|r| r.listening.as_deref());
            listening.is_some_and(|l| l.granted.as_ref().unwrap_or(&l.filter).takes(method))
        };
        match self.named(params) {
            Some(Ok(ticket)) => takes(&ticket),
            Some(Err(())) => false,
            // Without the tag that it ought to have, it is still of use to those who asked for its kind; and that a
            // list has changed is of use to all who read it: servers tell of it in the middle of a call, whether or
            // not they let anybody subscribe.
            None => method.ends_with("/list_changed") || self.requests.keys().any(takes),
        }
    }

    /// `notifications/subscriptions/acknowledged`
    pub(super) fn acknowledged(&mut self, params: &Value) {
        let Some(Ok(ticket)) = self.named(params) else { return };
        let agreed = params.get("notifications").cloned().unwrap_or_default();
        self.without_deadline(ticket);
        let Some(listening) = self.listening_mut(ticket) else { return };
        let granted = listening.filter.granted(&agreed);
        listening.granted = Some(granted.clone());
        listening.failures = 0;
        let again = std::mem::replace(&mut listening.was_open, true);
        self.actions.push_back(Action::Listening { ticket, granted: granted.clone() });
        if again {
            // What happened while nobody listened is not known.
            self.actions.extend(granted.lists().map(|kind| Action::Event(Event::ListChanged(kind))));
        }
    }

    /// A subscription was answered: the server has ended it. Or it broke, or was refused.
    pub(super) fn unheard(&mut self, now: Duration, ticket: Ticket, outcome: Result<(), Error>) {
        let broken = match outcome {
            Ok(()) => None,
            Err(error @ Error::Closed(_)) => Some(error),
            Err(error) => {
                self.actions.push_back(Action::Event(Event::ListenEnded { error: Some(error.clone()) }));
                return self.resolve(ticket, Err(error));
            }
        };
        let Some(error) = broken else {
            self.actions.push_back(Action::Event(Event::ListenEnded { error: None }));
            return self.resolve(ticket, Ok(serde_json::json!({}).into()));
        };
        let (waits, most) = (self.stream_waits.clone(), self.stream_attempts);
        let Some(listening) = self.listening_mut(ticket) else { return };
        listening.granted = None;
        let failures = listening.failures;
        listening.failures += 1;
        if failures >= most {
            self.actions.push_back(Action::Event(Event::ListenEnded { error: Some(error.clone()) }));
            return self.resolve(ticket, Err(error));
        }
        let wait = waits.get(failures as usize).or_else(|| waits.last()).copied().unwrap_or_default();
        self.off_the_wire(ticket);
        self.without_deadline(ticket);
        self.wake_at(now.saturating_add(wait), ticket);
    }

    /// Its wait is over: the subscription is made again.
    pub(super) fn listen_again(&mut self, now: Duration, ticket: Ticket) {
        self.allow_time(now, ticket);
        self.send(ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_can_be_granted() {
        let filter = Filter { tools: true, uris: vec!["a:".into(), "b:".into()], ..Filter::default() };
        let agreed = json!({"toolsListChanged": true, "promptsListChanged": true,
            "resourceSubscriptions": ["b:", "c:"], "taskIds": ["t"]});
        let granted = filter.granted(&agreed);
        assert_eq!(granted, Filter { tools: true, uris: vec!["b:".into()], ..Filter::default() });
        assert_eq!(granted.to_json(), json!({"toolsListChanged": true, "resourceSubscriptions": ["b:"]}));
        assert!(filter.granted(&json!({})).is_empty());
        assert!(filter.granted(&json!({"toolsListChanged": "yes"})).is_empty());
    }
}
