//! What servers do.

use super::steps::{has_resource, tools_of};
use super::{Lint, Sink, top};
use crate::code::Code;
use crate::diagnostic::did_you_mean;
use crate::json_at::Part;
use crate::yaml::{Path, Step};
use serde_json::Value;
use sparring_mock_servers::script::{Action, Rule, ServerScript, Trigger};
use sparring_wire::Transport;
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
        let bound = transport_of_trigger(&rule.on);
        self.trigger(&rule.on, &at.key("on"), stage);
        if rule.incarnation.is_some() && !stage.stdio {
            self.key(
                Code::TransportFits,
                &at.key("incarnation"),
                "only a stdio server is started more than once",
            );
        }
        if rule.nth == Some(0) || rule.incarnation == Some(0) {
            let key = if rule.nth == Some(0) { "nth" } else { "incarnation" };
            self.value(Code::Counts, &at.key(key), format!("`{key}` counts from 1"));
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

    fn trigger(&mut self, trigger: &Trigger, at: &Path, stage: Stage) {
        if let Some(bound) = transport_of_trigger(trigger).filter(|bound| stage.lacks(Some(*bound))) {
            let (word, only) = (trigger.word(), called(bound));
            let message = format!("`{word}` happens only on {only}, where this scenario does not apply");
            self.value(Code::TransportFits, at, message);
        }
    }

    fn action(&mut self, action: &Action, at: &Path, bound: Option<Transport>, stage: Stage) {
        let only = transport_of_action(action);
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
        if let Action::HoldUntil(until) = action {
            self.trigger(&until.on, &at.key("hold_until").key("on"), stage);
        }
        for (key, json) in jsons_of(action) {
            let Some(inside) = find(json, "$requestId").filter(|_| key != "params") else { continue };
            let message = "`$requestId` stands only in the `params` of `notify` and `request`".to_owned();
            self.json(Code::Placeholder, &path_of(action, at, key), &inside, Part::Value, message, None);
        }
    }

    /// A rule on the use of a tool, resource or prompt that is not there is most likely a typo.
    fn asks_for(&mut self, rule: &Rule, at: &Path, script: &ServerScript) {
        let Trigger::Method(method) = &rule.on else { return };
        let Some(params) = &rule.params else { return };
        let (member, what) = match method.as_str() {
            "tools/call" => ("name", "tool"),
            "prompts/get" => ("name", "prompt"),
            "resources/read" => ("uri", "resource"),
            _ => return,
        };
        let Some(wanted) = params.0.get(member).and_then(Value::as_str) else { return };
        let known: BTreeSet<String> = match what {
            "tool" => tools_of(script),
            "prompt" => script.prompts.iter().map(|p| p.name.clone()).collect(),
            _ if !script.templates.is_empty() || has_resource(script, wanted) => return,
            _ => script.resources.iter().map(|r| r.uri.clone()).collect(),
        };
        if !known.contains(wanted) {
            let help = did_you_mean(wanted, known.iter().map(String::as_str));
            let inside = [Step::Key(member.to_owned())];
            let message = format!("this server has no {what} `{wanted}`");
            self.json(Code::UnmatchedParams, &at.key("params"), &inside, Part::Value, message, help);
        }
    }
}

/// Where the JSON that [`jsons_of`] calls `key` stands.
fn path_of(action: &Action, at: &Path, key: &str) -> Path {
    match action {
        Action::Error(_) => at.key("error").key(key),
        Action::Notify(_) => at.key("notify").key(key),
        Action::Request(_) => at.key("request").key(key),
        _ => at.key(key),
    }
}

/// The JSON in an action, each with the key that holds it.
fn jsons_of(action: &Action) -> Vec<(&'static str, &Value)> {
    match action {
        Action::Respond(json) => vec![("respond", &json.0)],
        Action::Batch(json) => vec![("batch", &json.0)],
        Action::Error(error) => error.data.iter().map(|json| ("data", &json.0)).collect(),
        Action::Notify(message) | Action::Request(message) => {
            let params = message.params.iter().map(|json| ("params", &json.0));
            params.chain(message.id.iter().map(|json| ("id", &json.0))).collect()
        }
        _ => Vec::new(),
    }
}

/// The way to this text in JSON.
fn find(value: &Value, text: &str) -> Option<Vec<Step>> {
    let (step, rest) = match value {
        Value::String(string) => return (string == text).then(Vec::new),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(n, item)| Some((Step::Index(n), find(item, text)?)))?
        }
        Value::Object(members) => {
            members.iter().find_map(|(key, member)| Some((Step::Key(key.clone()), find(member, text)?)))?
        }
        _ => return None,
    };
    Some(std::iter::once(step).chain(rest).collect())
}

const fn transport_of_trigger(trigger: &Trigger) -> Option<Transport> {
    match trigger {
        Trigger::Eof | Trigger::Sigterm => Some(Transport::Stdio),
        Trigger::Http(_) | Trigger::GetStream => Some(Transport::Http),
        Trigger::Start | Trigger::Response | Trigger::Method(_) => None,
    }
}

const fn transport_of_action(action: &Action) -> Option<Transport> {
    match action {
        Action::Stdout(_)
        | Action::StderrBytes(_)
        | Action::SplitEvery(_)
        | Action::MergeNext(_)
        | Action::Crlf
        | Action::ByteOrderMark
        | Action::InvalidUtf8
        | Action::CloseStdout
        | Action::Exit(_)
        | Action::Die(_)
        | Action::StopReading => Some(Transport::Stdio),
        Action::Status(_)
        | Action::Answers(_)
        | Action::CutStream(_)
        | Action::Reset
        | Action::Stall
        | Action::ExpireSession
        | Action::CloseGetStream
        | Action::SseComment(_)
        | Action::RawBody(_) => Some(Transport::Http),
        _ => None,
    }
}
