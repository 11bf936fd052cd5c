//! Operations on hosts, and what the harness does by itself.

use super::Lint;
use crate::code::Code;
use crate::diagnostic::did_you_mean;
use crate::op::{Controlled, Entry, Inspected, Op};
use crate::placeholder;
use crate::scenario::StepAction;
use crate::yaml::Path;
use std::collections::BTreeMap;

/// Ways to end a client's process.
const SIGNALS: [&str; 5] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "exit"];

impl Lint<'_> {
    /// Whether the scenario has servers under other names than those of its scripts.
    pub(super) fn has_entries(&self) -> bool {
        self.scenario.drive.iter().any(|step| match &step.action {
            StepAction::Op(op) => match &**op {
                Op::Open(open) => open.config || !open.entries.is_empty(),
                Op::Configure(_) => true,
                _ => false,
            },
            StepAction::WaitFor(_) => false,
        })
    }

    pub(super) fn host_words(&mut self, op: &Op, at: &Path, servers: &[&str]) {
        match op {
            Op::Open(open) => {
                self.entries(&open.entries, &at.key("entries"), servers);
                if open.config && !(open.entries.is_empty() && open.servers.is_empty()) {
                    self.key(
                        Code::Step,
                        &at.key("config"),
                        "the servers come from configuration files or from `open`, not from both",
                    );
                }
                for (key, path) in [("cwd", &open.cwd), ("project", &open.project)] {
                    if let Some(path) = path {
                        self.inside(path, &at.key(key));
                    }
                }
            }
            Op::Call(call) if call.name.is_some() != call.tool.is_empty() => {
                self.key(
                    Code::Step,
                    at,
                    "a call has exactly one of `tool`, the raw name, and `name`, the model's",
                );
            }
            Op::Inspect(inspect) if inspect.tool.is_some() != (inspect.what == Inspected::Policy) => {
                self.key(Code::Step, at, "`policy` is of a `tool`, and nothing else is");
            }
            Op::Control(control) => {
                use Controlled::{Approve, Deny, Login, Set};
                let what = control.what;
                let wrong = [
                    (
                        control.setting.is_some() != (what == Set),
                        "setting",
                        "`set` has a `setting`, and nothing else has",
                    ),
                    (
                        control.value.is_some() && !matches!(what, Set | Login),
                        "value",
                        "`set` and `login` have a `value`, and nothing else has",
                    ),
                    (
                        control.tool.is_some() && !matches!(what, Approve | Deny),
                        "tool",
                        "`tool` is for `approve` and `deny`",
                    ),
                    (control.always && what != Approve, "always", "`always` is for `approve`"),
                ];
                for (_, key, why) in wrong.iter().filter(|(wrong, ..)| *wrong) {
                    self.key(Code::Step, &at.key(*key), *why);
                }
            }
            Op::Write(write) => {
                let listed =
                    write.remove.iter().enumerate().map(|(n, path)| (at.key("remove").index(n), path));
                let keyed = [
                    ("files", write.files.keys()),
                    ("links", write.links.keys()),
                    ("modes", write.modes.keys()),
                ];
                let keyed = keyed
                    .into_iter()
                    .flat_map(|(key, paths)| paths.map(move |path| (at.key(key).key(path), path)));
                for (at, path) in listed.chain(keyed).collect::<Vec<_>>() {
                    self.inside(path, &at);
                }
                for (path, mode) in &write.modes {
                    if mode.len() > 5 || u32::from_str_radix(mode, 8).is_err() {
                        self.value(
                            Code::Value,
                            &at.key("modes").key(path),
                            format!("`{mode}` is no mode in octal, such as \"0644\""),
                        );
                    }
                }
            }
            Op::Configure(configure) => {
                self.entries(&configure.entries, &at.key("entries"), servers);
                for (key, path) in [("path", &configure.path), ("base", &configure.base)] {
                    if let Some(path) = path {
                        self.inside(path, &at.key(key));
                    }
                }
                if configure.file.is_some() && configure.path.is_some() {
                    self.key(
                        Code::Step,
                        &at.key("path"),
                        "a file is named by `file` or by `path`, not by both",
                    );
                }
                if let Some(name) = &configure.dialect
                    && sparring_profiles::Profile::built_in(name).is_none()
                {
                    let known = sparring_profiles::BUILT_IN.map(|(name, _)| name);
                    let help = did_you_mean(name, known);
                    self.value_help(
                        Code::Value,
                        &at.key("dialect"),
                        format!("`{name}` is no built-in profile"),
                        help,
                    );
                }
            }
            Op::Disk(disk) => self.inside(&disk.path, &at.key("path")),
            Op::Signal(signal) if !SIGNALS.contains(&signal.signal.as_str()) => {
                let help = Some(format!("known are {}", SIGNALS.join(", ")));
                let message = format!("`{}` is no way to end a client", signal.signal);
                self.value_help(Code::Value, &at.key("signal"), message, help);
            }
            _ => {}
        }
        let mut wrong = None;
        placeholder::each_of_step(
            &mut crate::scenario::Step {
                action: StepAction::Op(Box::new(op.clone())),
                label: None,
                background: false,
                expect: crate::scenario::StepExpectation::Ok,
                give_up_ms: None,
            },
            &mut |slot| {
                wrong = wrong.take().or_else(|| {
                    placeholder::texts(&slot).into_iter().find_map(|t| placeholder::check(t).err())
                });
            },
        );
        if let Some(wrong) = wrong {
            self.value(Code::Value, at, wrong);
        }
    }

    fn entries(&mut self, entries: &BTreeMap<String, Entry>, at: &Path, servers: &[&str]) {
        for (name, entry) in entries {
            let at = at.key(name);
            match &entry.of {
                Some(of) => self.server_exists(of, &at.key("of"), servers),
                None => self.server_exists(name, &at, servers),
            }
            if let Some(also) = &entry.also {
                self.server_exists(also, &at.key("also"), servers);
            }
            if entry.args.first().is_some_and(|first| first.parse::<u32>().is_ok()) {
                self.value(
                    Code::Value,
                    &at.key("args"),
                    "the first of the further arguments must not be a number",
                );
            }
        }
    }

    /// A path that stays in the case's folder.
    fn inside(&mut self, path: &str, at: &Path) {
        let leaves = path.starts_with('/') || path.contains('\\') || path.split('/').any(|part| part == "..");
        if leaves || path.is_empty() {
            let message = format!("`{path}` is no path inside the case's folder");
            self.value(Code::Value, at, message);
        }
    }
}
