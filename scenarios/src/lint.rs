//! What is wrong with scenarios that can be read: rules about their meaning.
//!
//! Each rule has a code and reports the place in the file. The rules serve one end: a check that can't fail, or can fail
//! for another reason than the client, is a defect.

use crate::catalogue::{self, Requirement};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::load::{EMBEDDED, Loaded};
use crate::op::{FEATURES, Op};
use crate::pattern::{JSON_OPERATORS, OutcomeWord, Pattern, ProcessEvent};
use crate::profile::NeededPromise;
use crate::scenario::{Check, Scenario, StepAction, StepExpectation, parse_revisions};
use crate::yaml::Path;
use serde_json::Value;
use sparring_mock_servers::script::template::{self, Piece};
use sparring_mock_servers::script::{Action, CLIENT_METHODS, On, Rule, ServerScript, ToolScript, Trigger};
use sparring_wire::{Revision, Transport};
use std::collections::{BTreeMap, BTreeSet};

/// Shortest and longest `deadline_ms`.
const DEADLINES: std::ops::RangeInclusive<u64> = 1_000..=120_000;

/// The deadline of a scenario that sets none, in milliseconds.
pub const DEFAULT_DEADLINE_MS: u64 = 10_000;

/// All that is wrong with these scenarios, by file and line. Twins may also be among the scenarios that the program
/// carries inside.
pub fn lint(set: &[Loaded]) -> Vec<Diagnostic> {
    let mut ids: BTreeSet<String> = set.iter().map(|loaded| loaded.scenario.scenario.clone()).collect();
    ids.extend(EMBEDDED.iter().map(|(name, _)| name.trim_end_matches(".yaml").replace('/', ".")));
    let mut first: BTreeMap<&str, &Loaded> = BTreeMap::new();
    let mut out = Vec::new();
    for loaded in set {
        let mut lint = Lint { loaded, scenario: &loaded.scenario, out: &mut out };
        lint.all(&ids);
        let id = loaded.scenario.scenario.as_str();
        if let Some(other) = first.insert(id, loaded) {
            let at = top().key("scenario");
            lint.value("duplicate-id", &at, format!("`{id}` is also the id of {}", other.file));
        }
    }
    out.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    out
}

/// The `killed_by` names that are no mutant.
pub fn lint_mutants(set: &[Loaded], known: &[&str]) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for loaded in set {
        let mut lint = Lint { loaded, scenario: &loaded.scenario, out: &mut out };
        for (n, check) in loaded.scenario.judge.iter().enumerate() {
            for (m, mutant) in check.killed_by.iter().enumerate() {
                if !known.contains(&mutant.as_str()) {
                    let at = top().key("judge").index(n).key("killed_by").index(m);
                    let help = did_you_mean(mutant, known.iter().copied());
                    lint.value_help("unknown-mutant", &at, format!("there is no mutant `{mutant}`"), help);
                }
            }
        }
    }
    out
}

fn top() -> Path {
    Path::default()
}

struct Lint<'a> {
    loaded: &'a Loaded,
    scenario: &'a Scenario,
    out: &'a mut Vec<Diagnostic>,
}

/// Which pattern of a scenario it is.
#[derive(Clone, Copy)]
enum Role<'a> {
    /// Of a check with `after`.
    WithAfter,
    /// Elsewhere: nothing to compare ids with.
    Alone,
    /// Of `each.are`: the head of `of` holds if it has none.
    Narrowing(&'a Pattern),
}

impl<'a> Lint<'a> {
    fn report(
        &mut self,
        place: crate::diagnostic::Place,
        code: &'static str,
        message: String,
        help: Option<String>,
    ) {
        let Loaded { file, text, .. } = self.loaded;
        self.out.push(Diagnostic::at(file.as_str(), text, place, code, message).with_help(help));
    }

    fn value(&mut self, code: &'static str, at: &Path, message: impl Into<String>) {
        self.value_help(code, at, message, None);
    }

    fn value_help(
        &mut self,
        code: &'static str,
        at: &Path,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.report(self.loaded.tree().value(at), code, message.into(), help);
    }

    fn key(&mut self, code: &'static str, at: &Path, message: impl Into<String>) {
        self.report(self.loaded.tree().key(at), code, message.into(), None);
    }

    fn all(&mut self, ids: &BTreeSet<String>) {
        self.header(ids);
        let (revisions, transports) = self.applies();
        self.servers(&transports);
        self.steps();
        self.checks(&revisions, &transports);
    }

    // ---- the scenario as a whole ----

    fn header(&mut self, ids: &BTreeSet<String>) {
        let scenario = self.scenario;
        let id = scenario.scenario.as_str();
        let at = top().key("scenario");
        if !is_id(id) {
            self.value(
                "scenario-id",
                &at,
                format!(
                    "`{id}` is no id: write lower-case words with dots and dashes, as in `http.session.lost`"
                ),
            );
        } else if !file_fits(&self.loaded.relative, id) {
            let expected =
                id.split_once('.').map(|(area, rest)| format!("{area}/{rest}.yaml")).unwrap_or_default();
            self.value("scenario-id", &at, format!("the scenario `{id}` belongs in a file `{expected}`"));
        }
        if scenario.version == 0 {
            self.value("version", &top().key("version"), "versions count from 1");
        }
        if scenario.about.trim().is_empty() {
            self.value("about", &top().key("about"), "say in a sentence what happens");
        }
        if scenario.server.is_some() != scenario.servers.is_empty() {
            let at = if scenario.server.is_some() { top().key("servers") } else { top() };
            self.key("servers", &at, "a scenario has either `server` or `servers`");
        }
        if let Some(twin) = &scenario.twin {
            let at = top().key("twin");
            if twin == id {
                self.value("twin", &at, "a scenario is not its own twin");
            } else if !ids.contains(twin) {
                let help = did_you_mean(twin, ids.iter().map(String::as_str));
                self.value_help("twin", &at, format!("there is no scenario `{twin}`"), help);
            }
        }
        if let Some(deadline) = scenario.deadline_ms
            && !DEADLINES.contains(&deadline)
        {
            let message = format!("a deadline is between {} and {} ms", DEADLINES.start(), DEADLINES.end());
            self.value("deadline", &top().key("deadline_ms"), message);
        }
        if scenario.judge.is_empty() {
            self.value("no-checks", &top().key("judge"), "a scenario has at least one check");
        }
    }

    /// Checks `where`, and returns what it comes to.
    fn applies(&mut self) -> (Vec<Revision>, Vec<Transport>) {
        let applies = &self.scenario.applies;
        let at = top().key("where");
        let revisions = match applies.revisions.as_deref().map(parse_revisions) {
            None => Revision::WITH_HANDSHAKE.to_vec(),
            Some(Ok(revisions)) => revisions,
            Some(Err(why)) => {
                self.value("revisions", &at.key("revisions"), why);
                Revision::WITH_HANDSHAKE.to_vec()
            }
        };
        let transports = match applies.transports.as_slice() {
            [] => vec![Transport::Stdio, Transport::Http],
            given => given.to_vec(),
        };
        for (n, transport) in applies.transports.iter().enumerate() {
            if !revisions.iter().any(|r| r.has_transport(*transport)) {
                let message = format!("none of the scenario's revisions has the transport {transport}");
                self.value("transports", &at.key("transports").index(n), message);
            }
        }
        for (n, feature) in applies.needs.iter().enumerate() {
            if !FEATURES.contains(&feature.as_str()) {
                let help = did_you_mean(feature, FEATURES)
                    .or_else(|| Some(format!("known are {}", FEATURES.join(", "))));
                let message = format!("`{feature}` is no feature of drivers");
                self.value_help("unknown-feature", &at.key("needs").index(n), message, help);
            }
        }
        for (n, text) in applies.promises.iter().enumerate() {
            self.needed_promise(text, &at.key("promises").index(n));
        }
        (revisions, transports)
    }

    fn needed_promise(&mut self, text: &str, at: &Path) {
        let id = match NeededPromise::parse(text) {
            Ok(needed) => needed.id,
            Err(why) => return self.value("promise-value", at, why),
        };
        if catalogue::promise(id).is_none() {
            let help = did_you_mean(id, catalogue::promises().map(|p| p.id.as_str()));
            self.value_help("unknown-promise", at, format!("`{id}` is no promise of the catalogue"), help);
        }
    }

    // ---- servers ----

    fn scripts(&self) -> Vec<(&'a str, Path, &'a ServerScript)> {
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

    fn servers(&mut self, transports: &[Transport]) {
        let has = |transport| transports.contains(&transport);
        let http = has(Transport::Http) || has(Transport::SseLegacy);
        for (_, at, script) in self.scripts() {
            if !has(Transport::Stdio) && script.process != Default::default() {
                self.key(
                    "transport-fits",
                    &at.key("process"),
                    "`process` is only for stdio, where this scenario does not apply",
                );
            }
            if !http && script.http != Default::default() {
                self.key(
                    "transport-fits",
                    &at.key("http"),
                    "`http` is only for HTTP, where this scenario does not apply",
                );
            }
            if !http && script.auth.is_some() {
                self.key(
                    "transport-fits",
                    &at.key("auth"),
                    "`auth` is only for HTTP, where this scenario does not apply",
                );
            }
            let mut labels = BTreeSet::new();
            for (n, rule) in script.rules.iter().enumerate() {
                let at = at.key("rules").index(n);
                if let Some(label) = &rule.label
                    && !labels.insert(label.as_str())
                {
                    self.value("label", &at.key("label"), format!("another rule is also called `{label}`"));
                }
                self.rule(rule, &at, has(Transport::Stdio), http);
            }
        }
    }

    fn rule(&mut self, rule: &Rule, at: &Path, stdio: bool, http: bool) {
        let bound = transport_of_triggers(&rule.on);
        let word = rule.on.to_string();
        match bound {
            Some(Transport::Stdio) if !stdio => {
                self.value(
                    "transport-fits",
                    &at.key("on"),
                    format!("`{word}` happens only on stdio, where this scenario does not apply"),
                );
            }
            Some(Transport::Http) if !http => {
                self.value(
                    "transport-fits",
                    &at.key("on"),
                    format!("`{word}` happens only on HTTP, where this scenario does not apply"),
                );
            }
            _ => {}
        }
        if rule.incarnation.is_some() && !stdio {
            self.key(
                "transport-fits",
                &at.key("incarnation"),
                "only a stdio server is started more than once",
            );
        }
        for (key, nth) in [("nth", &rule.nth), ("incarnation", &rule.incarnation)] {
            if nth.as_ref().is_some_and(|nth| !nth.counts_from_one()) {
                self.value("counts", &at.key(key), format!("`{key}` counts from 1"));
            }
        }
        if rule.actions.is_empty() {
            self.value(
                "no-actions",
                at,
                "the rule does nothing; write `do: [ drop: ]` to leave a request unanswered",
            );
        }
        for (n, action) in rule.actions.iter().enumerate() {
            let at = at.key("do").index(n);
            let only = transport_of_action(action);
            let elsewhere = match only {
                Some(Transport::Stdio) => http && bound != Some(Transport::Stdio),
                Some(_) => stdio && bound != Some(Transport::Http),
                None => false,
            };
            if elsewhere {
                let only = if only == Some(Transport::Stdio) { "stdio" } else { "HTTP" };
                self.value(
                    "transport-fits",
                    &at,
                    format!("this action is only for {only}, and the scenario also applies elsewhere"),
                );
            }
        }
    }

    // ---- steps ----

    fn steps(&mut self) {
        let labels = self.scenario.labels();
        let servers: Vec<&str> = self.scripts().iter().map(|(name, ..)| *name).collect();
        let deadline = self.scenario.deadline_ms.unwrap_or(DEFAULT_DEADLINE_MS);
        if self.scenario.drive.is_empty() {
            self.value("no-steps", &top().key("drive"), "a scenario has at least one step");
        }
        for (n, step) in self.scenario.drive.iter().enumerate() {
            let at = top().key("drive").index(n);
            if let Some(label) = &step.label
                && *label != labels[n]
            {
                self.value("label", &at.key("as"), format!("another step is also called `{label}`"));
            }
            if step.give_up_ms.is_some_and(|ms| ms >= deadline) {
                let message = format!("this is not shorter than the case's deadline of {deadline} ms");
                self.value("deadline", &at.key("give_up_ms"), message);
            }
            match &step.action {
                StepAction::WaitFor(pattern) => {
                    self.pattern(pattern, &at.key("wait_for"), Role::Alone);
                    if step.background {
                        self.key("step", &at.key("background"), "`wait_for` is not done in the background");
                    }
                }
                StepAction::Op(op) => self.operation(op, n, &at.key(op.name()), &labels, &servers),
            }
        }
    }

    fn operation(&mut self, op: &Op, n: usize, at: &Path, labels: &[String], servers: &[&str]) {
        if let Op::Await(_) | Op::Cancel(_) = op {
            let step = match op {
                Op::Await(reference) => &reference.step,
                Op::Cancel(cancel) => &cancel.step,
                _ => return,
            };
            let at = at.key("step");
            match labels.iter().position(|label| label == step) {
                Some(found) if found < n && self.scenario.drive[found].background => {}
                Some(found) if found < n => {
                    self.value(
                        "unknown-step",
                        &at,
                        format!("the step `{step}` is over by then: it does not run in the background"),
                    );
                }
                Some(_) => self.value("unknown-step", &at, format!("the step `{step}` comes later")),
                None => {
                    let help = did_you_mean(step, labels.iter().map(String::as_str));
                    self.value_help("unknown-step", &at, format!("there is no step `{step}`"), help);
                }
            }
        }
        let named: Vec<(Path, &str)> = match op {
            Op::Open(open) => open
                .servers
                .iter()
                .enumerate()
                .map(|(n, s)| (at.key("servers").index(n), s.as_str()))
                .collect(),
            _ => server_of(op).into_iter().map(|server| (at.key("server"), server)).collect(),
        };
        for (at, server) in named {
            self.server_exists(server, &at, servers);
        }
        if self.scenario.drive[n].expect != StepExpectation::Ok
            || server_of(op).is_some_and(|server| !servers.contains(&server))
        {
            return;
        }
        let on = server_of(op);
        let scripts: Vec<&ServerScript> = self
            .scripts()
            .into_iter()
            .filter(|(name, ..)| on.is_none_or(|s| s == *name))
            .map(|(.., s)| s)
            .collect();
        match op {
            Op::Call(call) if !scripts.iter().any(|s| tools_of(s).contains(&call.tool)) => {
                let known: BTreeSet<String> = scripts.iter().flat_map(|s| tools_of(s)).collect();
                let help = did_you_mean(&call.tool, known.iter().map(String::as_str));
                let message = format!("no server of this scenario has a tool `{}`", call.tool);
                self.value_help("unknown-tool", &at.key("tool"), message, help);
            }
            Op::Read(read) | Op::Subscribe(read) | Op::Unsubscribe(read)
                if !scripts.iter().any(|s| !s.templates.is_empty() || has_resource(s, &read.uri)) =>
            {
                let message = format!("no server of this scenario has a resource `{}`", read.uri);
                self.value("unknown-resource", &at.key("uri"), message);
            }
            Op::Prompt(prompt)
                if !scripts.iter().any(|s| s.prompts.iter().any(|p| p.name == prompt.name)) =>
            {
                let message = format!("no server of this scenario has a prompt `{}`", prompt.name);
                self.value("unknown-prompt", &at.key("name"), message);
            }
            _ => {}
        }
    }

    fn server_exists(&mut self, server: &str, at: &Path, servers: &[&str]) {
        if !servers.contains(&server) {
            let help = did_you_mean(server, servers.iter().copied())
                .or_else(|| Some(format!("known are {}", servers.join(", "))));
            self.value_help("unknown-server", at, format!("there is no server `{server}`"), help);
        }
    }

    // ---- checks ----

    fn checks(&mut self, revisions: &[Revision], transports: &[Transport]) {
        let mut names = BTreeSet::new();
        for (n, check) in self.scenario.judge.iter().enumerate() {
            let at = top().key("judge").index(n);
            let name = check.check.as_str();
            if !is_word(name) {
                self.value(
                    "check-name",
                    &at.key("check"),
                    format!("`{name}` is no name: write lower-case words with dashes"),
                );
            } else if !names.insert(name) {
                self.value("check-name", &at.key("check"), format!("another check is also called `{name}`"));
            }
            if check.killed_by.is_empty() {
                self.value("killed-by", &at, format!("the check `{name}` names no mutant that fails it"));
            }
            for (m, mutant) in check.killed_by.iter().enumerate() {
                if !is_word(mutant) {
                    let message = format!("`{mutant}` is no name: write lower-case words with dashes");
                    self.value("killed-by", &at.key("killed_by").index(m), message);
                }
            }
            let basis = self.basis(check, &at);
            self.where_it_holds(check, &at, basis, revisions, transports);
            self.judgement(check, &at, basis);
            self.check_patterns(check, &at);
        }
    }

    fn basis(&mut self, check: &'a Check, at: &Path) -> Option<&'static Requirement> {
        match (&check.requirement, &check.promise) {
            (Some(id), None) => {
                let found = catalogue::requirement(id);
                if found.is_none() {
                    let help = did_you_mean(id, catalogue::requirements().map(|r| r.id.as_str()));
                    let message = format!("`{id}` is no requirement of the catalogue");
                    self.value_help("unknown-requirement", &at.key("requirement"), message, help);
                }
                found
            }
            (None, Some(text)) => {
                self.needed_promise(text, &at.key("promise"));
                None
            }
            _ => {
                let at = if check.promise.is_some() { at.key("promise") } else { at.clone() };
                self.key("basis", &at, "a check rests on exactly one of `requirement` and `promise`");
                None
            }
        }
    }

    fn where_it_holds(
        &mut self,
        check: &Check,
        at: &Path,
        requirement: Option<&Requirement>,
        revisions: &[Revision],
        transports: &[Transport],
    ) {
        let own = match check.revisions.as_deref().map(parse_revisions) {
            None => revisions.to_vec(),
            Some(Ok(own)) => own,
            Some(Err(why)) => {
                self.value("revisions", &at.key("revisions"), why);
                return;
            }
        };
        let cases: Vec<(Revision, Transport)> = revisions
            .iter()
            .filter(|r| own.contains(r))
            .flat_map(|&r| transports.iter().map(move |&t| (r, t)))
            .filter(|(r, t)| {
                r.has_transport(*t) && (check.transports.is_empty() || check.transports.contains(t))
            })
            .collect();
        if cases.is_empty() {
            self.value(
                "never-applies",
                at,
                "the check's revisions and transports leave no case of the scenario",
            );
        } else if let Some(requirement) = requirement
            && !cases.iter().any(|&(r, t)| requirement.holds(r, t))
        {
            let list = |words: Vec<&str>| words.join(", ");
            let help = format!(
                "it holds in {} over {}",
                list(requirement.revisions.iter().map(|r| r.as_str()).collect()),
                list(requirement.transports.iter().map(|t| t.as_str()).collect())
            );
            let message = format!("`{}` holds in no case of this scenario", requirement.id);
            self.value_help("never-applies", &at.key("requirement"), message, Some(help));
        }
    }

    fn judgement(&mut self, check: &Check, at: &Path, requirement: Option<&Requirement>) {
        let given: Vec<&str> = [
            (!check.expect.is_empty(), "expect"),
            (!check.never.is_empty(), "never"),
            (check.count.is_some(), "count"),
            (check.each.is_some(), "each"),
            (!check.order.is_empty(), "order"),
            (check.spacing.is_some(), "spacing"),
        ]
        .into_iter()
        .filter_map(|(given, word)| given.then_some(word))
        .collect();
        match given.as_slice() {
            [_] => {}
            [] => self.value(
                "judgement",
                at,
                format!(
                    "the check `{}` needs one of expect, never, count, each, order and spacing",
                    check.check
                ),
            ),
            [_, second, ..] => {
                self.key(
                    "judgement",
                    &at.key(*second),
                    format!("a check has only one judgement, and this one has {}", given.join(" and ")),
                );
            }
        }
        let negative = if check.never.is_empty() {
            check.count.as_ref().filter(|count| count.max == Some(0)).map(|_| "count")
        } else {
            Some("never")
        };
        if let Some(word) = negative {
            let word_at = at.key(word);
            if check.after.is_none() {
                self.key(
                    "negative-check",
                    &word_at,
                    "a check that nothing happens needs `after`: the event that gave it the occasion",
                );
            }
            if self.scenario.twin.is_none() {
                self.key("negative-check", &word_at, "a check that nothing happens needs a `twin`: a scenario where the same thing is expected");
            }
        }
        // A driver that claims success for everything, and starts nothing, must not pass.
        let of_the_driver = |p: &Pattern| p.step.is_some() || p.driver_event.is_some();
        let only_claimed = |p: &Pattern| of_the_driver(p) && p.outcome != Some(OutcomeWord::Error);
        if check.expect.iter().any(only_claimed) && check.after.as_ref().is_none_or(of_the_driver) {
            self.key(
                "word-alone",
                &at.key("expect"),
                "this takes a success on the driver's word alone; name in `after` what a server has to have seen or sent",
            );
        }
        if let Some(count) = &check.count {
            let at = at.key("count");
            match (count.min, count.max) {
                (None, None) => self.value("counts", &at, "`count` needs `min`, `max` or both"),
                (Some(0), None) => self.value("counts", &at, "`min: 0` always holds"),
                (Some(min), Some(max)) if min > max => self.value("counts", &at, "`min` is above `max`"),
                _ => {}
            }
        }
        if check.order.len() == 1 {
            self.value("counts", &at.key("order"), "an order needs at least two events");
        }
        if check.each.as_ref().is_some_and(|each| each.are.is_empty()) {
            self.value("counts", &at.key("each"), "`each` needs `are`");
        }
        if let Some(spacing) = &check.spacing {
            let at = at.key("spacing");
            match (spacing.min_ms, spacing.max_ms) {
                (None, None) => self.value("counts", &at, "`spacing` needs `min_ms`, `max_ms` or both"),
                (Some(min), Some(max)) if min > max => {
                    self.value("counts", &at, "`min_ms` is above `max_ms`");
                }
                _ => {}
            }
            if let Some(requirement) = requirement
                && !is_about_time(requirement)
            {
                let message = format!("`{}` says nothing about time", requirement.id);
                self.key("time", &at, message);
            }
        }
    }

    fn check_patterns(&mut self, check: &'a Check, at: &Path) {
        let rest = if check.after.is_some() { Role::WithAfter } else { Role::Alone };
        let mut patterns: Vec<(Path, &Pattern, Role<'_>)> = Vec::new();
        if let Some(when) = &check.when {
            patterns.push((at.key("when"), when, Role::Alone));
        }
        if let Some(after) = &check.after {
            patterns.push((at.key("after"), after, Role::Alone));
        }
        if let Some(until) = &check.until {
            patterns.push((at.key("until"), until, rest));
        }
        for (key, list) in [("expect", &check.expect), ("never", &check.never), ("order", &check.order)] {
            for (n, pattern) in list.iter().enumerate() {
                patterns.push((at.key(key).index(n), pattern, rest));
            }
        }
        if let Some(count) = &check.count {
            patterns.push((at.key("count").key("of"), &count.of, rest));
        }
        if let Some(each) = &check.each {
            let at = at.key("each");
            patterns.push((at.key("of"), &each.of, rest));
            for (n, pattern) in each.are.iter().enumerate() {
                patterns.push((at.key("are").index(n), pattern, Role::Narrowing(&each.of)));
            }
        }
        if let Some(spacing) = &check.spacing {
            let at = at.key("spacing");
            patterns.push((at.key("from"), &spacing.from, rest));
            patterns.push((at.key("to"), &spacing.to, rest));
        }
        for (at, pattern, role) in patterns {
            self.pattern(pattern, &at, role);
        }
    }

    // ---- patterns ----

    fn pattern(&mut self, pattern: &Pattern, at: &Path, role: Role<'_>) {
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
                self.value("pattern-head", at, message);
                return;
            }
            ([_, second, ..], _) => {
                self.key(
                    "pattern-head",
                    &at.key(*second),
                    format!("a pattern has only one head, and this one has {}", heads.join(" and ")),
                );
                return;
            }
        };
        self.restrictions(pattern, head, at, role);
        self.words(pattern, at);
        for (key, json) in
            [("params", &pattern.params), ("result", &pattern.result), ("value", &pattern.value)]
        {
            if let Some(json) = json
                && let Err(why) = json_pattern(&json.0)
            {
                self.value("json-pattern", &at.key(key), why);
            }
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
                        || step && pattern.outcome.is_none_or(|o| o == OutcomeWord::Ok)),
                "value",
                "is for a `step` that succeeds and for `driver_event`",
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
            self.key("pattern-restriction", &at.key(key), format!("`{key}` {why}"));
        }
        if pattern.nth == Some(0) || pattern.incarnation == Some(0) {
            let key = if pattern.nth == Some(0) { "nth" } else { "incarnation" };
            self.value("counts", &at.key(key), format!("`{key}` counts from 1"));
        }
        let upper: Vec<&str> = pattern
            .header
            .keys()
            .map(String::as_str)
            .filter(|name| name.chars().any(char::is_uppercase))
            .collect();
        for name in upper {
            self.key(
                "header-name",
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
            self.value_help("unknown-step", &at.key("step"), format!("there is no step `{step}`"), help);
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
                    "unknown-rule",
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
                self.value_help("unknown-method", &at.key(key), format!("clients send no `{method}`"), help);
            } else if key != "method" && method != "*" && method.starts_with("notifications/") != notification
            {
                let right = if notification { "request" } else { "notification" };
                self.value("unknown-method", &at.key(key), format!("`{method}` is a {right}"));
            }
        }
        if let Some(verb) = &pattern.http
            && !["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "*"].contains(&verb.as_str())
        {
            self.value("unknown-method", &at.key("http"), format!("`{verb}` is no HTTP method"));
        }
    }
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

/// Operators that don't exist or have the wrong operand.
fn json_pattern(value: &Value) -> Result<(), String> {
    match value {
        Value::Array(items) => items.iter().try_for_each(json_pattern),
        Value::Object(members) => {
            let operator = members.keys().find(|key| key.starts_with('$'));
            let Some(operator) = operator else { return members.values().try_for_each(json_pattern) };
            if members.len() > 1 {
                return Err(format!("the operator `{operator}` stands alone in its object"));
            }
            if !JSON_OPERATORS.contains(&operator.as_str()) {
                let help = did_you_mean(operator, JSON_OPERATORS)
                    .unwrap_or_else(|| format!("known are {}", JSON_OPERATORS.join(", ")));
                return Err(format!("`{operator}` is no operator; {help}"));
            }
            let operand = &members[operator.as_str()];
            const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];
            let wanted = match operator.as_str() {
                "$any" | "$absent" if *operand != Value::Bool(true) => "`true`",
                "$type" if !operand.as_str().is_some_and(|t| TYPES.contains(&t)) => "the name of a JSON type",
                "$length" | "$max_length" | "$blob" if !operand.is_u64() => "a number",
                "$class"
                    if !operand
                        .as_str()
                        .is_some_and(|c| c.len() > 2 && c.starts_with('[') && c.ends_with(']')) =>
                {
                    "a class of characters in brackets"
                }
                "$distinct" if !operand.is_string() => "the name of a member",
                "$has" | "$lacks" | "$each" => return json_pattern(operand),
                _ => return Ok(()),
            };
            Err(format!("`{operator}` takes {wanted}"))
        }
        Value::String(text)
            if template::pieces(text).is_ok_and(|p| p.iter().any(|p| matches!(p, Piece::Put { .. }))) =>
        {
            Err("placeholders stand only in what a server sends; write `names_id` to compare with an id"
                .to_owned())
        }
        _ => Ok(()),
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
        _ => None,
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

fn server_of(op: &Op) -> Option<&str> {
    match op {
        Op::Tools(of)
        | Op::Resources(of)
        | Op::Templates(of)
        | Op::Prompts(of)
        | Op::Ping(of)
        | Op::Close(of) => of.server.as_deref(),
        Op::Call(call) => call.server.as_deref(),
        Op::Read(read) | Op::Subscribe(read) | Op::Unsubscribe(read) => read.server.as_deref(),
        Op::Prompt(prompt) => prompt.server.as_deref(),
        Op::Complete(complete) => complete.server.as_deref(),
        Op::SetLevel(level) => level.server.as_deref(),
        Op::Open(_) | Op::Cancel(_) | Op::Await(_) | Op::SetRoots(_) => None,
    }
}

fn tools_of(script: &ServerScript) -> BTreeSet<String> {
    let name = |tool: &ToolScript| match tool {
        ToolScript::Library(name) => name.clone(),
        ToolScript::Custom(definition) => definition.name.clone(),
    };
    let added = script.all_actions().into_iter().filter_map(|action| match action {
        Action::AddTool(tool) => Some(name(tool)),
        _ => None,
    });
    let many = (0..script.many_tools.unwrap_or(0)).map(|n| format!("tool-{n:03}"));
    script.tools.iter().map(name).chain(added).chain(many).collect()
}

fn has_resource(script: &ServerScript, uri: &str) -> bool {
    let added = script.all_actions().into_iter().filter_map(|action| match action {
        Action::AddResource(resource) => Some(resource),
        _ => None,
    });
    script.resources.iter().chain(added).any(|resource| resource.uri == uri)
}

/// Whether a requirement speaks of time at all, so that a duration may be judged by it.
fn is_about_time(requirement: &Requirement) -> bool {
    const WORDS: [&str; 7] =
        ["timeout", "times out", "reasonable time", "milliseconds", "promptly", "interval", "wait"];
    let text = requirement.text.to_lowercase();
    WORDS.iter().any(|word| text.contains(word))
}

/// Lower-case words with dashes.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.split('-').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// At least two words joined by dots.
fn is_id(text: &str) -> bool {
    text.contains('.') && text.split('.').all(is_word)
}

/// Whether a file at `relative` is the place for `id`: folders and name, joined by dots, are its id. A file that was
/// loaded without its folder only has to end like it.
fn file_fits(relative: &str, id: &str) -> bool {
    let named = relative.trim_end_matches(".yaml").replace('/', ".");
    id == named || !relative.contains('/') && id.strip_suffix(&named).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    const GOOD: &str = "\
scenario: area.name
version: 1
about: Words.
where: { transports: [stdio, http], revisions: 2025-06-18.. }
twin: lifecycle.plain
server:
  tools: [echo]
  rules:
    - { on: tools/call, label: held, do: [ { hold_until: { on: tools/call } } ] }
drive:
  - open:
  - { call: { tool: echo }, as: first, background: true }
  - { await: { step: first } }
  - close:
judge:
  - check: one
    requirement: lifecycle-initialize-first
    after: { step: open }
    expect: { request: tools/call }
    killed_by: some-mutant
";

    fn read(relative: &str, text: &str) -> Loaded {
        load::parse(relative.to_owned(), relative.to_owned(), text.to_owned().into())
            .unwrap_or_else(|e| panic!("{e}"))
    }

    /// What the lint says of the good file after the replacements.
    fn said(replacements: &[(&str, &str)]) -> String {
        let mut text = GOOD.to_owned();
        for (from, to) in replacements {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        lint(&[read("area/name.yaml", &text)]).iter().map(|d| d.render(false)).collect()
    }

    /// The codes of what it says.
    fn codes(replacements: &[(&str, &str)]) -> String {
        let said = said(replacements);
        let codes = said.lines().filter_map(|line| line.strip_prefix("error[")?.split(']').next());
        codes.collect::<Vec<_>>().join(" ")
    }

    const EXPECT: &str = "expect: { request: tools/call }";
    const REQUIREMENT: &str = "requirement: lifecycle-initialize-first";

    #[test]
    fn a_good_file_is_clean() {
        assert_eq!(said(&[]), "");
    }

    #[test]
    fn the_scenario_as_a_whole() {
        insta::assert_snapshot!(said(&[("scenario: area.name", "scenario: Area.name")]), @r"
        error[scenario-id]: `Area.name` is no id: write lower-case words with dots and dashes, as in `http.session.lost`
         ┌─ area/name.yaml:1:11
         │
        1│ scenario: Area.name
         │           ^^^^^^^^^
        ");
        insta::assert_snapshot!(said(&[("scenario: area.name", "scenario: area.other")]), @r"
        error[scenario-id]: the scenario `area.other` belongs in a file `area/other.yaml`
         ┌─ area/name.yaml:1:11
         │
        1│ scenario: area.other
         │           ^^^^^^^^^^
        ");
        insta::assert_snapshot!(said(&[("version: 1", "version: 0")]), @r"
        error[version]: versions count from 1
         ┌─ area/name.yaml:2:10
         │
        2│ version: 0
         │          ^
        ");
        insta::assert_snapshot!(said(&[("twin: lifecycle.plain", "twin: lifecycle.plane")]), @r"
        error[twin]: there is no scenario `lifecycle.plane`
         ┌─ area/name.yaml:5:7
         │
        5│ twin: lifecycle.plane
         │       ^^^^^^^^^^^^^^^ did you mean `lifecycle.plain`?
        ");
        insta::assert_snapshot!(said(&[("server:", "servers:\n  a: { tools: [echo] }\nserver:")]), @r"
        error[servers]: a scenario has either `server` or `servers`
         ┌─ area/name.yaml:6:1
         │
        6│ servers:
         │ ^^^^^^^
        ");
        insta::assert_snapshot!(said(&[("drive:", "deadline_ms: 5\ndrive:")]), @r"
        error[deadline]: a deadline is between 1000 and 120000 ms
          ┌─ area/name.yaml:10:14
          │
        10│ deadline_ms: 5
          │              ^
        ");
        assert_eq!(codes(&[("twin: lifecycle.plain", "twin: area.name")]), "twin");
        assert_eq!(codes(&[("about: Words.", "about: ''")]), "about");
        let no_checks = &GOOD[GOOD.find("  - check").unwrap()..];
        assert_eq!(codes(&[("judge:\n", "judge: []\n"), (no_checks, "")]), "no-checks");
    }

    #[test]
    fn ids_are_unique_over_all_files() {
        let set = [read("area/name.yaml", GOOD), read("name.yaml", GOOD)];
        let wrong: String = lint(&set).iter().map(|d| d.render(false)).collect();
        insta::assert_snapshot!(wrong, @r"
        error[duplicate-id]: `area.name` is also the id of area/name.yaml
         ┌─ name.yaml:1:11
         │
        1│ scenario: area.name
         │           ^^^^^^^^^
        ");
    }

    #[test]
    fn where_it_applies() {
        let at = "{ transports: [stdio, http], revisions: 2025-06-18.. }";
        insta::assert_snapshot!(said(&[(at, "{ revisions: 2025-11-26.. }")]), @r"
        error[revisions]: `2025-11-26` is no released revision; known are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28
         ┌─ area/name.yaml:4:21
         │
        4│ where: { revisions: 2025-11-26.. }
         │                     ^^^^^^^^^^^^
        ");
        insta::assert_snapshot!(said(&[(at, "{ transports: [stdio, sse-legacy], revisions: 2025-06-18.. }")]), @r"
        error[transports]: none of the scenario's revisions has the transport sse-legacy
         ┌─ area/name.yaml:4:30
         │
        4│ where: { transports: [stdio, sse-legacy], revisions: 2025-06-18.. }
         │                              ^^^^^^^^^^
        ");
        insta::assert_snapshot!(said(&[(at, "{ needs: [samplign] }")]), @r"
        error[unknown-feature]: `samplign` is no feature of drivers
         ┌─ area/name.yaml:4:18
         │
        4│ where: { needs: [samplign] }
         │                  ^^^^^^^^ did you mean `sampling`?
        ");
        insta::assert_snapshot!(said(&[(at, "{ promises: [naming.max_length = 64] }")]), @r"
        error[unknown-promise]: `naming.max_length` is no promise of the catalogue
         ┌─ area/name.yaml:4:21
         │
        4│ where: { promises: [naming.max_length = 64] }
         │                     ^^^^^^^^^^^^^^^^^^^^^^ did you mean `naming.max_len`?
        ");
        assert_eq!(codes(&[(at, "{ promises: ['naming.max_len = sixty four'] }")]), "promise-value");
        assert_eq!(codes(&[(at, "{ promises: [naming.max_len = 64] }")]), "");
    }

    #[test]
    fn what_a_check_rests_on() {
        insta::assert_snapshot!(said(&[(REQUIREMENT, "requirement: lifecycle-initialise-first")]), @r"
        error[unknown-requirement]: `lifecycle-initialise-first` is no requirement of the catalogue
          ┌─ area/name.yaml:17:18
          │
        17│     requirement: lifecycle-initialise-first
          │                  ^^^^^^^^^^^^^^^^^^^^^^^^^^ did you mean `lifecycle-initialize-first`?
        ");
        insta::assert_snapshot!(said(&[(REQUIREMENT, "requirement: jsonrpc-batch-receive")]), @r"
        error[never-applies]: `jsonrpc-batch-receive` holds in no case of this scenario
          ┌─ area/name.yaml:17:18
          │
        17│     requirement: jsonrpc-batch-receive
          │                  ^^^^^^^^^^^^^^^^^^^^^ it holds in 2025-03-26 over stdio, http
        ");
        insta::assert_snapshot!(said(&[(REQUIREMENT, "promise: naming.maxlen")]), @r"
        error[unknown-promise]: `naming.maxlen` is no promise of the catalogue
          ┌─ area/name.yaml:17:14
          │
        17│     promise: naming.maxlen
          │              ^^^^^^^^^^^^^ did you mean `naming.max_len`?
        ");
        insta::assert_snapshot!(said(&[(REQUIREMENT, "requirement: lifecycle-initialize-first\n    promise: naming.max_len")]), @r"
        error[basis]: a check rests on exactly one of `requirement` and `promise`
          ┌─ area/name.yaml:18:5
          │
        18│     promise: naming.max_len
          │     ^^^^^^^
        ");
        assert_eq!(codes(&[(REQUIREMENT, "transports: [stdio]")]), "basis");
        assert_eq!(
            codes(&[(REQUIREMENT, "requirement: lifecycle-initialize-first\n    revisions: 2024-11-05")]),
            "never-applies"
        );
        assert_eq!(
            codes(&[(REQUIREMENT, "requirement: lifecycle-initialize-first\n    revisions: 2024")]),
            "revisions"
        );
        // Somewhere is enough: the check is not applicable elsewhere.
        assert_eq!(codes(&[(REQUIREMENT, "requirement: http-accept-202")]), "");
    }

    #[test]
    fn one_judgement_that_can_fail() {
        insta::assert_snapshot!(said(&[(EXPECT, "until: { step: close }")]), @r"
        error[judgement]: the check `one` needs one of expect, never, count, each, order and spacing
          ┌─ area/name.yaml:16:5
          │
        16│   - check: one
          │     ^
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: tools/call }\n    order: [ { request: initialize }, { request: ping } ]")]), @r"
        error[judgement]: a check has only one judgement, and this one has expect and order
          ┌─ area/name.yaml:20:5
          │
        20│     order: [ { request: initialize }, { request: ping } ]
          │     ^^^^^
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "never: { request: ping }"), ("    after: { step: open }\n", ""), ("twin: lifecycle.plain\n", "")]), @r"
        error[negative-check]: a check that nothing happens needs `after`: the event that gave it the occasion
          ┌─ area/name.yaml:17:5
          │
        17│     never: { request: ping }
          │     ^^^^^
        error[negative-check]: a check that nothing happens needs a `twin`: a scenario where the same thing is expected
          ┌─ area/name.yaml:17:5
          │
        17│     never: { request: ping }
          │     ^^^^^
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "count: { of: { request: ping }, max: 0 }"), ("twin: lifecycle.plain\n", "")]), @r"
        error[negative-check]: a check that nothing happens needs a `twin`: a scenario where the same thing is expected
          ┌─ area/name.yaml:18:5
          │
        18│     count: { of: { request: ping }, max: 0 }
          │     ^^^^^
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "spacing: { from: { request: initialize }, to: { request: ping }, min_ms: 5 }")]), @r"
        error[time]: `lifecycle-initialize-first` says nothing about time
          ┌─ area/name.yaml:19:5
          │
        19│     spacing: { from: { request: initialize }, to: { request: ping }, min_ms: 5 }
          │     ^^^^^^^
        ");
        let counts = [
            "count: { of: { request: ping } }",
            "count: { of: { request: ping }, min: 0 }",
            "count: { of: { request: ping }, min: 3, max: 2 }",
            "order: [ { request: ping } ]",
            "each: { of: { request: ping } }",
            "expect: { request: ping, nth: 0 }",
        ];
        for wrong in counts {
            assert_eq!(codes(&[(EXPECT, wrong)]), "counts", "{wrong}");
        }
        let time = "requirement: lifecycle-timeout-configurable";
        let spacing = "spacing: { from: { request: ping }, to: { step: first }, min_ms: 5 }";
        assert_eq!(codes(&[(REQUIREMENT, time), (EXPECT, spacing)]), "");
        assert_eq!(codes(&[(REQUIREMENT, "promise: restart.backoff_s"), (EXPECT, spacing)]), "");
    }

    #[test]
    fn names_of_checks_and_mutants() {
        let second = format!("{}{}", GOOD, &GOOD[GOOD.find("  - check").unwrap()..]);
        let wrong: String =
            lint(&[read("area/name.yaml", &second)]).iter().map(|d| d.render(false)).collect();
        insta::assert_snapshot!(wrong, @r"
        error[check-name]: another check is also called `one`
          ┌─ area/name.yaml:21:12
          │
        21│   - check: one
          │            ^^^
        ");
        insta::assert_snapshot!(said(&[("check: one", "check: One thing")]), @r"
        error[check-name]: `One thing` is no name: write lower-case words with dashes
          ┌─ area/name.yaml:16:12
          │
        16│   - check: One thing
          │            ^^^^^^^^^
        ");
        insta::assert_snapshot!(said(&[("    killed_by: some-mutant\n", "")]), @r"
        error[killed-by]: the check `one` names no mutant that fails it
          ┌─ area/name.yaml:16:5
          │
        16│   - check: one
          │     ^
        ");
        let set = [read("area/name.yaml", GOOD)];
        assert!(lint_mutants(&set, &["some-mutant"]).is_empty());
        let wrong: String = lint_mutants(&set, &["some-mutants"]).iter().map(|d| d.render(false)).collect();
        insta::assert_snapshot!(wrong, @r"
        error[unknown-mutant]: there is no mutant `some-mutant`
          ┌─ area/name.yaml:20:16
          │
        20│     killed_by: some-mutant
          │                ^^^^^^^^^^^ did you mean `some-mutants`?
        ");
    }

    #[test]
    fn heads_and_restrictions_of_patterns() {
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { nth: 2 }")]), @r"
        error[pattern-head]: a pattern needs a head: one of request, notification, answer, server_request, server_notification, server_answer, http, process, stream, step, driver_event, rule
          ┌─ area/name.yaml:19:13
          │
        19│     expect: { nth: 2 }
          │             ^
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: ping, notification: notifications/cancelled }")]), @r"
        error[pattern-head]: a pattern has only one head, and this one has request and notification
          ┌─ area/name.yaml:19:30
          │
        19│     expect: { request: ping, notification: notifications/cancelled }
          │                              ^^^^^^^^^^^^
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "expect: [ { request: ping }, { step: close, header: { accept: present }, outcome: error } ]")]), @r"
        error[pattern-restriction]: `header` is for HTTP exchanges
          ┌─ area/name.yaml:19:49
          │
        19│     expect: [ { request: ping }, { step: close, header: { accept: present }, outcome: error } ]
          │                                                 ^^^^^^
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { http: POST, header: { Accept: present } }")]), @r"
        error[header-name]: header names are written in lower case here
          ┌─ area/name.yaml:19:37
          │
        19│     expect: { http: POST, header: { Accept: present } }
          │                                     ^^^^^^
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: tool/call }")]), @r"
        error[unknown-method]: clients send no `tool/call`
          ┌─ area/name.yaml:19:24
          │
        19│     expect: { request: tool/call }
          │                        ^^^^^^^^^ did you mean `tools/call`?
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: ping, same_id: true }"), ("    after: { step: open }\n", "")]), @r"
        error[pattern-restriction]: `same_id` compares with the event of `after`, and there is none
          ┌─ area/name.yaml:18:30
          │
        18│     expect: { request: ping, same_id: true }
          │                              ^^^^^^^
        ");
        let restrictions = [
            "{ step: close, params: '{}' }",
            "{ request: ping, result: '{}' }",
            "{ request: ping, error: any }",
            "{ answer: ping, params: '{}' }",
            "{ process: started, signal: SIGTERM }",
            "{ request: ping, outcome: ok }",
            "{ step: close, outcome: ok, failure: [timeout] }",
            "{ step: close, outcome: error, value: '{}' }",
            "{ step: close, names_id: requestId }",
            "{ rule: held, status: 200 }",
            "{ request: ping, role: other }",
            "{ step: close, server: server }",
            "{ http: POST, incarnation: 1 }",
        ];
        for wrong in restrictions {
            let after = ("after: { step: open }", "after: { request: ping }");
            assert_eq!(
                codes(&[(EXPECT, &format!("expect: {wrong}")), after]),
                "pattern-restriction",
                "{wrong}"
            );
        }
        assert_eq!(codes(&[(EXPECT, "expect: { request: notifications/cancelled }")]), "unknown-method");
        assert_eq!(codes(&[(EXPECT, "expect: { http: FETCH }")]), "unknown-method");
        // In `each.are` the head may be left out; restrictions still have to fit to it.
        assert_eq!(
            codes(&[(EXPECT, "each: { of: { http: POST }, are: { header: { accept: present } } }")]),
            ""
        );
        assert_eq!(
            codes(&[(EXPECT, "each: { of: { http: POST }, are: { outcome: ok } }")]),
            "pattern-restriction"
        );
    }

    #[test]
    fn json_patterns() {
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: ping, params: '{\"a\": {\"$lenght\": 3}}' }")]), @r#"
        error[json-pattern]: `$lenght` is no operator; did you mean `$length`?
          ┌─ area/name.yaml:19:38
          │
        19│     expect: { request: ping, params: '{"a": {"$lenght": 3}}' }
          │                                      ^^^^^^^^^^^^^^^^^^^^^^^
        "#);
        let wrong = [
            r#"{"a": {"$type": "text"}}"#,
            r#"{"a": {"$any": 1}}"#,
            r#"{"a": {"$length": "3"}}"#,
            r#"{"a": {"$class": "a-z"}}"#,
            r#"{"a": {"$distinct": 1}}"#,
            r#"{"a": {"$any": true, "b": 1}}"#,
            r#"{"a": {"$has": {"$nothing": 1}}}"#,
            r#"{"a": "{{id}}"}"#,
        ];
        for wrong in wrong {
            let expect = format!("expect: {{ request: ping, params: '{wrong}' }}");
            assert_eq!(codes(&[(EXPECT, &expect)]), "json-pattern", "{wrong}");
        }
        let fine = "expect: { request: ping, params: '{\"a\": {\"$exactly\": {\"$x\": 1}}}' }";
        assert_eq!(codes(&[(EXPECT, fine)]), "");
    }

    #[test]
    fn no_success_on_the_drivers_word_alone() {
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { step: first, outcome: ok }")]), @r"
        error[word-alone]: this takes a success on the driver's word alone; name in `after` what a server has to have seen or sent
          ┌─ area/name.yaml:19:5
          │
        19│     expect: { step: first, outcome: ok }
          │     ^^^^^^
        ");
        let told = [
            (EXPECT, "expect: { step: first, outcome: ok }"),
            ("after: { step: open }", "after: { request: tools/call }"),
        ];
        assert_eq!(codes(&told), "");
        assert_eq!(codes(&[(EXPECT, "expect: { step: first, outcome: error }")]), "");
    }

    #[test]
    fn names_that_have_to_exist() {
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { step: frist, outcome: error }")]), @r"
        error[unknown-step]: there is no step `frist`
          ┌─ area/name.yaml:19:21
          │
        19│     expect: { step: frist, outcome: error }
          │                     ^^^^^ did you mean `first`?
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { rule: hold }")]), @r"
        error[unknown-rule]: no rule has the label `hold`
          ┌─ area/name.yaml:19:21
          │
        19│     expect: { rule: hold }
          │                     ^^^^ did you mean `held`?
        ");
        insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: ping, server: left }")]), @r"
        error[unknown-server]: there is no server `left`
          ┌─ area/name.yaml:19:38
          │
        19│     expect: { request: ping, server: left }
          │                                      ^^^^ known are server
        ");
        insta::assert_snapshot!(said(&[("await: { step: first }", "await: { step: second }")]), @r"
        error[unknown-step]: there is no step `second`
          ┌─ area/name.yaml:13:22
          │
        13│   - { await: { step: second } }
          │                      ^^^^^^
        ");
        insta::assert_snapshot!(said(&[("as: first, background: true", "as: first")]), @r"
        error[unknown-step]: the step `first` is over by then: it does not run in the background
          ┌─ area/name.yaml:13:22
          │
        13│   - { await: { step: first } }
          │                      ^^^^^
        ");
        insta::assert_snapshot!(said(&[("tool: echo }", "tool: ecko }")]), @r"
        error[unknown-tool]: no server of this scenario has a tool `ecko`
          ┌─ area/name.yaml:12:21
          │
        12│   - { call: { tool: ecko }, as: first, background: true }
          │                     ^^^^ did you mean `echo`?
        ");
        assert_eq!(codes(&[("- close:", "- { close: , as: open }")]), "label");
        assert_eq!(codes(&[("tool: echo }", "tool: echo, server: left }")]), "unknown-server");
        assert_eq!(codes(&[("- close:", "- { call: { tool: gone }, expect: error }")]), "");
        assert_eq!(codes(&[("- close:", "- read: { uri: 'x://y' }")]), "unknown-resource");
        assert_eq!(codes(&[("- close:", "- prompt: { name: greet }")]), "unknown-prompt");
        assert_eq!(codes(&[("- close:", "- { close: , give_up_ms: 10000 }")]), "deadline");
        assert_eq!(codes(&[("- close:", "- { wait_for: { request: ping }, background: true }")]), "step");
        let twice = "    - { on: ping, label: held, do: [ drop ] }\n    - { on: tools/call, label: held,";
        assert_eq!(codes(&[("    - { on: tools/call, label: held,", twice)]), "label");
    }

    #[test]
    fn what_fits_to_a_transport() {
        let rule = "{ on: tools/call, label: held, do: [ { hold_until: { on: tools/call } } ] }";
        let stdio = ("transports: [stdio, http]", "transports: [stdio]");
        let http = ("transports: [stdio, http]", "transports: [http]");
        insta::assert_snapshot!(said(&[stdio, (rule, "{ on: http-get, do: [ { status: 405 } ] }")]), @r"
        error[transport-fits]: `http-get` happens only on HTTP, where this scenario does not apply
         ┌─ area/name.yaml:9:13
         │
        9│     - { on: http-get, do: [ { status: 405 } ] }
         │             ^^^^^^^^
        ");
        insta::assert_snapshot!(said(&[(rule, "{ on: tools/call, do: [ { exit: 1 } ] }")]), @r"
        error[transport-fits]: this action is only for stdio, and the scenario also applies elsewhere
         ┌─ area/name.yaml:9:31
         │
        9│     - { on: tools/call, do: [ { exit: 1 } ] }
         │                               ^
        ");
        insta::assert_snapshot!(said(&[http, ("  tools: [echo]", "  tools: [echo]\n  process: { ignore_eof: true }")]), @r"
        error[transport-fits]: `process` is only for stdio, where this scenario does not apply
         ┌─ area/name.yaml:8:3
         │
        8│   process: { ignore_eof: true }
         │   ^^^^^^^
        ");
        assert_eq!(codes(&[http, (rule, "{ on: eof, do: [ drop ] }")]), "transport-fits");
        assert_eq!(codes(&[http, (rule, "{ on: ping, incarnation: 2, do: [ drop ] }")]), "transport-fits");
        assert_eq!(
            codes(&[stdio, ("  tools: [echo]", "  tools: [echo]\n  http: { sessions: true }")]),
            "transport-fits"
        );
        assert_eq!(codes(&[(rule, "{ on: tools/call, do: [ expire_session ] }")]), "transport-fits");
        assert_eq!(codes(&[(rule, "{ on: eof, do: [ { exit: 1 } ] }")]), "");
        assert_eq!(codes(&[(rule, "{ on: ping, nth: 0, do: [ drop ] }")]), "counts");
        assert_eq!(codes(&[(rule, "{ on: ping, do: [] }")]), "no-actions");
    }

    #[test]
    fn the_embedded_scenarios_are_clean() {
        let shown = |wrong: Vec<Diagnostic>| wrong.iter().map(|d| d.render(false)).collect::<String>();
        let set = load::embedded().map_err(shown).unwrap_or_else(|wrong| panic!("{wrong}"));
        assert!(set.len() >= 28);
        let wrong = shown(lint(&set));
        assert!(wrong.is_empty(), "{wrong}");
    }
}
