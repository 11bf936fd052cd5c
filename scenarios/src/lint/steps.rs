//! What the client is made to do.

use super::{DEFAULT_DEADLINE_MS, Lint, Role, top};
use crate::code::Code;
use crate::diagnostic::did_you_mean;
use crate::op::{self, Op};
use crate::scenario::{StepAction, StepExpectation};
use crate::yaml::Path;
use sparring_mock_servers::script::{Action, ServerScript, ToolScript};
use std::collections::BTreeSet;

impl Lint<'_> {
    pub(super) fn steps(&mut self) {
        let labels = self.scenario.labels();
        let servers: Vec<&str> = self.scripts().iter().map(|(name, ..)| *name).collect();
        let deadline = self.scenario.deadline_ms.unwrap_or(DEFAULT_DEADLINE_MS);
        if self.scenario.drive.is_empty() {
            self.value(Code::NoSteps, &top().key("drive"), "a scenario has at least one step");
        }
        for (n, step) in self.scenario.drive.iter().enumerate() {
            let at = top().key("drive").index(n);
            if let Some(label) = &step.label
                && *label != labels[n]
            {
                self.value(Code::Label, &at.key("as"), format!("another step is also called `{label}`"));
            }
            if step.give_up_ms.is_some_and(|ms| ms >= deadline) {
                let message = format!("this is not shorter than the case's deadline of {deadline} ms");
                self.value(Code::Deadline, &at.key("give_up_ms"), message);
            }
            match &step.action {
                StepAction::WaitFor(pattern) => {
                    self.pattern(pattern, &at.key("wait_for"), Role::Alone);
                    if step.background {
                        self.key(
                            Code::Step,
                            &at.key("background"),
                            "`wait_for` is not done in the background",
                        );
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
                        Code::UnknownStep,
                        &at,
                        format!("the step `{step}` is over by then: it does not run in the background"),
                    );
                }
                Some(_) => self.value(Code::UnknownStep, &at, format!("the step `{step}` comes later")),
                None => {
                    let help = did_you_mean(step, labels.iter().map(String::as_str));
                    self.value_help(Code::UnknownStep, &at, format!("there is no step `{step}`"), help);
                }
            }
        }
        self.host_words(op, at, servers);
        let named: Vec<(Path, &str)> = match op {
            Op::Open(op::Open { servers, .. }) | Op::Configure(op::Configure { servers, .. }) => {
                servers.iter().enumerate().map(|(n, s)| (at.key("servers").index(n), s.as_str())).collect()
            }
            // Hosts are also asked for servers that do not exist, and entries have names of their own.
            Op::Inspect(_) | Op::Control(_) => Vec::new(),
            _ if self.has_entries() => Vec::new(),
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
            Op::Call(call)
                if call.name.is_none() && !scripts.iter().any(|s| tools_of(s).contains(&call.tool)) =>
            {
                let known: BTreeSet<String> = scripts.iter().flat_map(|s| tools_of(s)).collect();
                let help = did_you_mean(&call.tool, known.iter().map(String::as_str));
                let message = format!("no server of this scenario has a tool `{}`", call.tool);
                self.value_help(Code::UnknownTool, &at.key("tool"), message, help);
            }
            Op::Read(read) | Op::Subscribe(read) | Op::Unsubscribe(read)
                if !scripts
                    .iter()
                    .any(|s| !s.templates.is_empty() || resources_of(s).contains(&read.uri)) =>
            {
                let message = format!("no server of this scenario has a resource `{}`", read.uri);
                self.value(Code::UnknownResource, &at.key("uri"), message);
            }
            Op::Prompt(prompt) if !scripts.iter().any(|s| prompts_of(s).contains(&prompt.name)) => {
                let message = format!("no server of this scenario has a prompt `{}`", prompt.name);
                self.value(Code::UnknownPrompt, &at.key("name"), message);
            }
            _ => {}
        }
    }

    pub(super) fn server_exists(&mut self, server: &str, at: &Path, servers: &[&str]) {
        if !servers.contains(&server) {
            let help = did_you_mean(server, servers.iter().copied())
                .or_else(|| Some(format!("known are {}", servers.join(", "))));
            self.value_help(Code::UnknownServer, at, format!("there is no server `{server}`"), help);
        }
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
        Op::Inspect(inspect) => inspect.server.as_deref(),
        Op::Control(control) => control.server.as_deref(),
        Op::Open(_)
        | Op::Cancel(_)
        | Op::Await(_)
        | Op::SetRoots(_)
        | Op::Write(_)
        | Op::Configure(_)
        | Op::Disk(_)
        | Op::Signal(_) => None,
    }
}

pub(super) fn tools_of(script: &ServerScript) -> BTreeSet<String> {
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

pub(super) fn resources_of(script: &ServerScript) -> BTreeSet<String> {
    let added = script.all_actions().into_iter().filter_map(|action| match action {
        Action::AddResource(resource) => Some(resource),
        _ => None,
    });
    script.resources.iter().chain(added).map(|resource| resource.uri.clone()).collect()
}

pub(super) fn prompts_of(script: &ServerScript) -> BTreeSet<String> {
    let added = script.all_actions().into_iter().filter_map(|action| match action {
        Action::AddPrompt(prompt) => Some(prompt),
        _ => None,
    });
    script.prompts.iter().chain(added).map(|prompt| prompt.name.clone()).collect()
}
