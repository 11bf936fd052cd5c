//! Which rule takes an event, and what is remembered from one event to the next.

use super::{Scope, ServerCore};
use crate::script::{
    Action, CLIENT_METHODS, Conditions, FIRST_STATE, On, Per, Rule, ServerScript, StateIs, Trigger, glob,
};
use serde_json::Value;
use sparring_wire::transcript::What;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Sessions and connections that have counts and states of their own; beyond them they share.
const MAX_KEYS: usize = 4096;

/// Something that rules and holds can react to.
#[derive(Debug)]
pub(super) struct Event<'a> {
    pub(super) trigger: &'a Trigger,
    /// It is a request, or came with one.
    pub(super) request: bool,
    pub(super) method: Option<&'a str>,
    pub(super) params: Option<&'a Value>,
    pub(super) id: Option<&'a Value>,
    pub(super) scope: Scope,
    pub(super) response: Option<Response<'a>>,
}

/// What an answer of the client's says.
#[derive(Debug)]
pub(super) struct Response<'a> {
    pub(super) result: Option<&'a Value>,
    pub(super) error: Option<&'a Value>,
    /// The method of our request, if it answers one.
    pub(super) to: Option<String>,
}

/// The rule that was taken.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) rule: String,
    pub(super) nth: u32,
    pub(super) actions: VecDeque<Action>,
}

/// Whose state or count it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    #[default]
    Server,
    Session(String),
    Connection(u64),
}

/// What is remembered from one event to the next. The script bounds the names, [`MAX_KEYS`] the owners.
#[derive(Debug, Default)]
pub(super) struct Memory {
    rule_counts: Vec<BTreeMap<Owner, u32>>,
    states: BTreeMap<String, BTreeMap<Owner, String>>,
    counts: BTreeMap<String, u32>,
}

impl Memory {
    pub(super) fn new(script: &ServerScript) -> Self {
        Self { rule_counts: vec![BTreeMap::new(); script.rules.len()], ..Self::default() }
    }

    pub(super) fn count(&self, name: &str) -> u32 {
        self.counts.get(name).copied().unwrap_or_default()
    }
}

fn entry<T: Default>(map: &mut BTreeMap<Owner, T>, owner: Owner) -> &mut T {
    let full = map.len() >= MAX_KEYS && !map.contains_key(&owner);
    map.entry(if full { Owner::Server } else { owner }).or_default()
}

/// Whether an event is of one of these kinds.
fn is_on(on: &On, event: &Event<'_>) -> bool {
    let message = matches!(event.trigger, Trigger::Method(_));
    on.triggers().iter().any(|trigger| match trigger {
        Trigger::Message => message || *event.trigger == Trigger::Response,
        Trigger::Request => message && event.request,
        Trigger::Notification => message && !event.request,
        Trigger::Unknown => message && event.method.is_some_and(|m| !CLIENT_METHODS.contains(&m)),
        Trigger::Method(pattern) => message && event.method.is_some_and(|m| glob(pattern, m)),
        trigger => trigger == event.trigger,
    })
}

impl ServerCore {
    /// The first rule that matches; counts the event for all.
    pub(super) fn select(&mut self, event: &Event<'_>) -> Option<Chosen> {
        let script = Arc::clone(&self.script);
        let mut chosen: Option<(usize, &Rule, u32)> = None;
        for (position, rule) in script.rules.iter().enumerate() {
            let fits = self.fits(&rule.on, rule.conditions(), event)
                && rule.incarnation.as_ref().is_none_or(|n| self.incarnation.is_some_and(|i| n.has(i)))
                && (rule.revisions.is_empty() || rule.revisions.contains(&self.revision))
                && (rule.transports.is_empty() || rule.transports.contains(&self.transport));
            if !fits {
                continue;
            }
            let owner = self.owner(rule.per, &event.scope);
            if let Some(counts) = self.memory.rule_counts.get_mut(position) {
                let count = entry(counts, owner);
                *count = count.saturating_add(1);
                if chosen.is_none() && rule.nth.as_ref().is_none_or(|nth| nth.has(*count)) {
                    chosen = Some((position, rule, *count));
                }
            }
        }
        let (position, rule, nth) = chosen?;
        let name = rule.name(position);
        self.observe(What::RuleFired { rule: name.clone() });
        Some(Chosen { rule: name, nth, actions: rule.actions.iter().cloned().collect() })
    }

    /// Whether an event is as a rule or a hold asks.
    pub(super) fn fits(&self, on: &On, asked: Conditions<'_>, event: &Event<'_>) -> bool {
        let response = event.response.as_ref();
        let header = |name: &str| self.arriving.as_ref().and_then(|seen| seen.header(name));
        is_on(on, event)
            && asked.method.allows_glob(event.method)
            && asked.tool.allows(event.params.and_then(|p| p.get("name")).and_then(Value::as_str))
            && asked.params.is_none_or(|like| like.fits(event.params))
            && asked.id.is_none_or(|like| like.fits(event.id))
            && asked.result.is_none_or(|like| response.is_some_and(|r| like.fits(r.result)))
            && asked.error.is_none_or(|like| response.is_some_and(|r| like.fits(r.error)))
            && asked.to.allows_glob(response.and_then(|r| r.to.as_deref()))
            && asked.headers.iter().all(|(name, test)| test.fits(header(name)))
            && asked.state.is_none_or(|state| self.is_state(state, &event.scope))
            && asked.counts.iter().all(|(name, nth)| nth.has(self.memory.count(name)))
    }

    fn owner(&self, per: Per, scope: &Scope) -> Owner {
        match per {
            Per::Server => Owner::Server,
            Per::Session => scope.session.clone().map_or(Owner::Server, Owner::Session),
            Per::Connection => {
                self.arriving.as_ref().map_or(Owner::Server, |seen| Owner::Connection(seen.connection))
            }
        }
    }

    fn owner_of_state(&self, machine: &str, scope: &Scope) -> Owner {
        self.owner(self.script.states.get(machine).map_or(Per::Server, |s| s.per), scope)
    }

    /// The state of a machine.
    pub(super) fn state(&self, machine: &str, scope: &Scope) -> &str {
        let first = self.script.states.get(machine).and_then(|s| s.first.as_deref()).unwrap_or(FIRST_STATE);
        let owner = self.owner_of_state(machine, scope);
        self.memory.states.get(machine).and_then(|states| states.get(&owner)).map_or(first, String::as_str)
    }

    pub(super) fn is_state(&self, asked: &StateIs, scope: &Scope) -> bool {
        asked.0.iter().all(|(machine, states)| states.allows(Some(self.state(machine, scope))))
    }

    pub(super) fn set_state(&mut self, machine: String, state: String, scope: &Scope) {
        let owner = self.owner_of_state(&machine, scope);
        *entry(self.memory.states.entry(machine).or_default(), owner) = state;
    }

    pub(super) fn count_up(&mut self, name: String) {
        let count = self.memory.counts.entry(name).or_default();
        *count = count.saturating_add(1);
    }
}
