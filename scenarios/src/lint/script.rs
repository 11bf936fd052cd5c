//! What servers do.

use super::steps::{prompts_of, resources_of, tools_of};
use super::{Lint, Sink, top};
use crate::code::Code;
use crate::diagnostic::did_you_mean;
use crate::yaml::{Path, Step};
use sparring_mock_servers::script::{Action, On, Rule, ServerScript, Trigger};
use sparring_wire::Transport;
use sparring_wire::json_at::Part;
use std::collections::BTreeSet;

/// Where a script is played.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage {
    /// Over stdio.
    stdio: bool,
    /// Over HTTP.
    http: bool,
    /// On all of these, as a scenario says; a script by itself says nothing, and may be meant for one of them.
    all: bool,
}

impl Stage {
    /// Of a script by itself.
    pub(super) const ANY: Self = Self { stdio: true, http: true, all: false };

    /// The part of it where a rule holds.
    fn narrowed(self, transports: &[Transport]) -> Self {
        let has = |stdio: bool| transports.iter().any(|t| (*t == Transport::Stdio) == stdio);
        match transports {
            [] => self,
            _ => Self { stdio: self.stdio && has(true), http: self.http && has(false), all: self.all },
        }
    }

    /// Whether something that is bound to a transport never happens here.
    fn lacks(self, bound: Option<Transport>) -> bool {
        match bound {
            None => false,
            Some(Transport::Stdio) => !self.stdio,
            Some(_) => !self.http,
        }
    }
}

/// How messages call a transport.
const fn called(transport: Transport) -> &'static str {
    match transport {
        Transport::Stdio => "stdio",
        Transport::Http | Transport::SseLegacy => "HTTP",
    }
}

impl<'a> Lint<'a> {
    pub(super) fn scripts(&self) -> Vec<(&'a str, Path, &'a ServerScript)> {
        match &self.scenario.server {
            Some(script) => vec![("server", top().key("server"), script)],
            None => self
                .scenario
                .servers
                .iter()
                .map(|(name, script)| (name.as_str(), top().key("servers").key(name.as_str()), script))
                .collect(),
        }
    }

    pub(super) fn servers(&mut self, transports: &[Transport]) {
        let has = |transport| transports.contains(&transport);
        let http = has(Transport::Http) || has(Transport::SseLegacy);
        let stage = Stage { stdio: has(Transport::Stdio), http, all: true };
        for (_, at, script) in self.scripts() {
            self.script(script, &at, stage);
        }
    }
}

impl Sink<'_> {
    /// A server's script; `at` leads to it.
    pub(super) fn script(&mut self, script: &ServerScript, at: &Path, stage: Stage) {
        let parts = [
            ("process", Transport::Stdio, script.process != Default::default()),
            ("http", Transport::Http, script.http != Default::default()),
            ("auth", Transport::Http, script.auth.is_some()),
        ];
        for (key, only, given) in parts {
            if given && stage.lacks(Some(only)) {
                let only = called(only);
                let message = format!("`{key}` is only for {only}, where this scenario does not apply");
                self.key(Code::TransportFits, &at.key(key), message);
            }
        }
        let mut labels = BTreeSet::new();
        for (n, rule) in script.rules.iter().enumerate() {
            let at = at.key("rules").index(n);
            if let Some(label) = &rule.label
                && !labels.insert(label.as_str())
            {
                let message = format!("another rule is also called `{label}`");
                self.value(Code::Label, &at.key("label"), message);
            }
            self.rule(rule, &at, stage);
            self.asks_for(rule, &at, script);
        }
        self.reach(script, at);
    }

    fn rule(&mut self, rule: &Rule, at: &Path, stage: Stage) {
        let bound = transport_of_triggers(&rule.on);
        let stage = stage.narrowed(&rule.transports);
        self.triggers(&rule.on, &at.key("on"), stage);
        if rule.incarnation.is_some() && !stage.stdio {
            self.key(
                Code::TransportFits,
                &at.key("incarnation"),
                "only a stdio server is started more than once",
            );
        }
        for (key, nth) in [("nth", &rule.nth), ("incarnation", &rule.incarnation)] {
            if nth.as_ref().is_some_and(|nth| !nth.counts_from_one()) {
                self.value(Code::Counts, &at.key(key), format!("`{key}` counts from 1"));
            }
        }
        if rule.actions.is_empty() {
            self.value(
                Code::NoActions,
                at,
                "the rule does nothing; write `do: [ drop: ]` to leave a request unanswered",
            );
        }
        for (n, action) in rule.actions.iter().enumerate() {
            self.action(action, &at.key("do").index(n), bound, stage);
        }
    }

    fn triggers(&mut self, on: &On, at: &Path, stage: Stage) {
        for (n, trigger) in on.triggers().iter().enumerate() {
            if let Some(bound) = transport_of_trigger(trigger).filter(|bound| stage.lacks(Some(*bound))) {
                let (word, only) = (trigger.word(), called(bound));
                let message = format!("`{word}` happens only on {only}, where this scenario does not apply");
                self.value(Code::TransportFits, &at.index(n), message);
            }
        }
    }

    fn action(&mut self, action: &Action, at: &Path, bound: Option<Transport>, stage: Stage) {
        let only = action.transport();
        if let Some(only) = only {
            let (stdio, http) = (
                stage.stdio && bound != Some(Transport::Http),
                stage.http && bound != Some(Transport::Stdio),
            );
            let (here, elsewhere) = if only == Transport::Stdio { (stdio, http) } else { (http, stdio) };
            // A trigger that never happens is said already.
            if !here && !stage.lacks(bound) {
                let message = format!("this action is only for {}, where this never happens", called(only));
                self.value(Code::TransportFits, at, message);
            } else if here && elsewhere && stage.all {
                let message = format!(
                    "this action is only for {}, and the scenario also applies elsewhere",
                    called(only)
                );
                self.value(Code::TransportFits, at, message);
            }
        }
        match action {
            Action::HoldUntil(until) => self.triggers(&until.on, &at.key("hold_until").key("on"), stage),
            Action::Repeat(repeat) => {
                for (n, action) in repeat.actions.iter().enumerate() {
                    self.action(action, &at.key("repeat").key("do").index(n), bound, stage);
                }
            }
            _ => {}
        }
    }

    /// A rule on the use of a tool, resource or prompt that is not there is most likely a typo.
    fn asks_for(&mut self, rule: &Rule, at: &Path, script: &ServerScript) {
        let [Trigger::Method(method)] = rule.on.triggers() else { return };
        let (member, what) = match method.as_str() {
            "tools/call" => ("name", "tool"),
            "prompts/get" => ("name", "prompt"),
            "resources/read" => ("uri", "resource"),
            _ => return,
        };
        let known: BTreeSet<String> = match what {
            "tool" => tools_of(script),
            "prompt" => prompts_of(script),
            // Of a template anything may come.
            _ if !script.templates.is_empty() => return,
            _ => resources_of(script),
        };
        let mut asked: Vec<(Path, Vec<Step>, &str)> = Vec::new();
        if let Some(wanted) = rule.params.as_ref().and_then(|like| like.0.get(member)?.as_str()) {
            asked.push((at.key("params"), vec![Step::Key(member.to_owned())], wanted));
        }
        if member == "name" {
            let tools = rule.tool.0.iter().enumerate();
            asked.extend(tools.map(|(n, tool)| (at.key("tool").index(n), Vec::new(), tool.as_str())));
        }
        for (at, inside, wanted) in asked {
            if !known.contains(wanted) {
                let help = did_you_mean(wanted, known.iter().map(String::as_str));
                let message = format!("this server has no {what} `{wanted}`");
                self.json(Code::UnmatchedParams, &at, &inside, Part::Value, message, help);
            }
        }
    }
}

/// The transport that all triggers are of, if there is one.
fn transport_of_triggers(on: &On) -> Option<Transport> {
    let mut transports = on.triggers().iter().map(transport_of_trigger);
    let first = transports.next()??;
    transports.all(|transport| transport == Some(first)).then_some(first)
}

const fn transport_of_trigger(trigger: &Trigger) -> Option<Transport> {
    match trigger {
        Trigger::Eof | Trigger::Sigterm => Some(Transport::Stdio),
        Trigger::Http(_) | Trigger::GetStream => Some(Transport::Http),
        Trigger::Start
        | Trigger::Response
        | Trigger::Message
        | Trigger::Request
        | Trigger::Notification
        | Trigger::Unknown
        | Trigger::Method(_) => None,
    }
}
