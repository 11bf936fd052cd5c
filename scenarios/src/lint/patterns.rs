//! How checks and steps name events.

use super::{Lint, Role, json};
use crate::code::Code;
use crate::diagnostic::did_you_mean;
use crate::pattern::{OutcomeWord, Pattern, ProcessEvent};
use crate::yaml::Path;
use sparring_mock_servers::script::CLIENT_METHODS;

impl Lint<'_> {
    pub(super) fn pattern(&mut self, pattern: &Pattern, at: &Path, role: Role<'_>) {
        let heads = heads(pattern);
        let head = match (heads.as_slice(), role) {
            ([only], _) => *only,
            ([], Role::Narrowing(of)) => match self::heads(of).as_slice() {
                [only] => *only,
                // Reported at `of`.
                _ => return,
            },
            ([], _) => {
                let message = format!("a pattern needs a head: one of {}", HEADS.join(", "));
                self.value(Code::PatternHead, at, message);
                return;
            }
            ([_, second, ..], _) => {
                self.key(
                    Code::PatternHead,
                    &at.key(*second),
                    format!("a pattern has only one head, and this one has {}", heads.join(" and ")),
                );
                return;
            }
        };
        self.restrictions(pattern, head, at, role);
        self.words(pattern, at);
        for (key, wrong) in wrong_json(pattern) {
            let json::Wrong { inside, part, message, help } = wrong;
            self.json(Code::JsonPattern, &at.key(key), &inside, part, message, help);
        }
    }

    /// Restrictions that don't fit to the head.
    fn restrictions(&mut self, pattern: &Pattern, head: &str, at: &Path, role: Role<'_>) {
        let (http, stream, step) = (head == "http", head == "stream", head == "step");
        let answer = head == "answer" || head == "server_answer";
        let message =
            answer || ["request", "notification", "server_request", "server_notification"].contains(&head);
        let asks = message && !answer || http || stream;
        let answers = answer || http || stream;
        let exchange = message || http || stream;
        let failed = step && pattern.outcome.is_none_or(|outcome| outcome == OutcomeWord::Error);
        let after = matches!(role, Role::WithAfter | Role::Narrowing(_));
        let wrong: Vec<(&str, &str)> = [
            (pattern.params.is_some() && !asks, "params", "is for requests and notifications"),
            (pattern.result.is_some() && !answers, "result", "is for answers"),
            (pattern.error.is_some() && !answers, "error", "is for answers"),
            (pattern.same_id && !exchange, "same_id", "is for messages"),
            (pattern.names_id.is_some() && !asks, "names_id", "is for requests and notifications"),
            (pattern.same_id && !after, "same_id", "compares with the event of `after`, and there is none"),
            (
                pattern.names_id.is_some() && !after,
                "names_id",
                "compares with the event of `after`, and there is none",
            ),
            (pattern.path.is_some() && !exchange, "path", "is for HTTP exchanges"),
            (pattern.method.is_some() && !exchange, "method", "is for HTTP exchanges"),
            (pattern.status.is_some() && !exchange, "status", "is for HTTP exchanges"),
            (!pattern.header.is_empty() && !exchange, "header", "is for HTTP exchanges"),
            (!pattern.query.is_empty() && !exchange, "query", "is for HTTP exchanges"),
            (!pattern.form.is_empty() && !exchange, "form", "is for HTTP exchanges"),
            (pattern.role.is_some() && !http, "role", "is for `http`"),
            (
                pattern.signal.is_some() && pattern.process != Some(ProcessEvent::Signal),
                "signal",
                "is for `process: signal`",
            ),
            (
                pattern.incarnation.is_some() && pattern.process == Some(ProcessEvent::Escaped),
                "incarnation",
                "is not known of a process that escaped",
            ),
            (pattern.outcome.is_some() && !step, "outcome", "is for `step`"),
            (!pattern.failure.is_empty() && !failed, "failure", "is for a `step` that fails"),
            (pattern.code.is_some() && !failed, "code", "is for a `step` that fails"),
            (pattern.message.is_some() && !failed, "message", "is for a `step` that fails"),
            (
                pattern.value.is_some()
                    && !(head == "driver_event"
                        || pattern.process == Some(ProcessEvent::Started)
                        || step && pattern.outcome.is_none_or(|o| o == OutcomeWord::Ok)),
                "value",
                "is for a `step` that succeeds, for `driver_event` and for `process: started`",
            ),
            (
                pattern.server.is_some() && (step || head == "driver_event"),
                "server",
                "is not for steps and driver events",
            ),
            (
                pattern.incarnation.is_some() && (step || http || head == "driver_event" || stream),
                "incarnation",
                "is for stdio servers",
            ),
        ]
        .into_iter()
        .filter_map(|(wrong, key, why)| wrong.then_some((key, why)))
        .collect();
        for (key, why) in wrong {
            self.key(Code::PatternRestriction, &at.key(key), format!("`{key}` {why}"));
        }
        if pattern.nth == Some(0) || pattern.incarnation == Some(0) {
            let key = if pattern.nth == Some(0) { "nth" } else { "incarnation" };
            self.value(Code::Counts, &at.key(key), format!("`{key}` counts from 1"));
        }
        let upper: Vec<&str> = pattern
            .header
            .keys()
            .map(String::as_str)
            .filter(|name| name.chars().any(char::is_uppercase))
            .collect();
        for name in upper {
            self.key(
                Code::HeaderName,
                &at.key("header").key(name),
                "header names are written in lower case here",
            );
        }
    }

    /// Names in a pattern that have to exist.
    fn words(&mut self, pattern: &Pattern, at: &Path) {
        let labels = self.scenario.labels();
        if let Some(step) = &pattern.step
            && !labels.contains(step)
        {
            let help = did_you_mean(step, labels.iter().map(String::as_str));
            self.value_help(Code::UnknownStep, &at.key("step"), format!("there is no step `{step}`"), help);
        }
        let scripts = self.scripts();
        let servers: Vec<&str> = scripts.iter().map(|(name, ..)| *name).collect();
        if let Some(server) = &pattern.server {
            self.server_exists(server, &at.key("server"), &servers);
        }
        if let Some(rule) = &pattern.rule {
            let rules: Vec<&str> =
                scripts.iter().flat_map(|(.., s)| &s.rules).filter_map(|r| r.label.as_deref()).collect();
            if !rules.contains(&rule.as_str()) {
                let help = did_you_mean(rule, rules.iter().copied());
                self.value_help(
                    Code::UnknownRule,
                    &at.key("rule"),
                    format!("no rule has the label `{rule}`"),
                    help,
                );
            }
        }
        let methods = [
            ("request", &pattern.request, false),
            ("notification", &pattern.notification, true),
            ("server_answer", &pattern.server_answer, false),
            ("method", &pattern.method, false),
        ];
        for (key, method, notification) in methods {
            let Some(method) = method else { continue };
            let known = CLIENT_METHODS.contains(&method.as_str()) || method == "*";
            if !known {
                let help = did_you_mean(method, CLIENT_METHODS);
                self.value_help(
                    Code::UnknownMethod,
                    &at.key(key),
                    format!("clients send no `{method}`"),
                    help,
                );
            } else if key != "method" && method != "*" && method.starts_with("notifications/") != notification
            {
                let right = if notification { "request" } else { "notification" };
                self.value(Code::UnknownMethod, &at.key(key), format!("`{method}` is a {right}"));
            }
        }
        if let Some(verb) = &pattern.http
            && !["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "*"].contains(&verb.as_str())
        {
            self.value(Code::UnknownMethod, &at.key("http"), format!("`{verb}` is no HTTP method"));
        }
    }
}

/// What is wrong with the JSON that a pattern compares with, by key.
fn wrong_json(pattern: &Pattern) -> impl Iterator<Item = (&'static str, json::Wrong)> {
    [("params", &pattern.params), ("result", &pattern.result), ("value", &pattern.value)]
        .into_iter()
        .filter_map(|(key, json)| Some((key, json::pattern(&json.as_ref()?.0).err()?)))
}

/// The first thing that is wrong with the JSON that a pattern compares with, and what to do about it; for patterns that
/// stand in no file.
pub fn json_pattern(pattern: &Pattern) -> Option<(String, Option<String>)> {
    let (key, wrong) = wrong_json(pattern).next()?;
    Some((format!("in `{key}`: {}", wrong.message), wrong.help))
}

const HEADS: [&str; 12] = [
    "request",
    "notification",
    "answer",
    "server_request",
    "server_notification",
    "server_answer",
    "http",
    "process",
    "stream",
    "step",
    "driver_event",
    "rule",
];

/// The heads of a pattern, by name. A good one has exactly one.
pub fn heads(pattern: &Pattern) -> Vec<&'static str> {
    let given = [
        pattern.request.is_some(),
        pattern.notification.is_some(),
        pattern.answer.is_some(),
        pattern.server_request.is_some(),
        pattern.server_notification.is_some(),
        pattern.server_answer.is_some(),
        pattern.http.is_some(),
        pattern.process.is_some(),
        pattern.stream.is_some(),
        pattern.step.is_some(),
        pattern.driver_event.is_some(),
        pattern.rule.is_some(),
    ];
    HEADS.into_iter().zip(given).filter_map(|(head, given)| given.then_some(head)).collect()
}
