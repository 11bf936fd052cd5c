//! What is wrong with files that can be read: rules about their meaning.
//!
//! Each rule has a [`Code`] and reports the place in the file. The rules serve one end: a check that can't fail, or can
//! fail for another reason than the client, is a defect; and so is a script that does not do what it says.

mod checks;
mod head;
mod host;
mod json;
mod patterns;
mod reach;
mod script;
mod steps;
#[cfg(test)]
mod tests;

pub use patterns::{heads, json_pattern};

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Place, did_you_mean};
use crate::load::{EMBEDDED, Loaded, LoadedScript};
use crate::pattern::Pattern;
use crate::scenario::Scenario;
use crate::yaml::{Node, Path, Step};
use sparring_wire::json_at::Part;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

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
        let mut lint = Lint::new(loaded, &mut out);
        lint.all(&ids);
        let id = loaded.scenario.scenario.as_str();
        if let Some(other) = first.insert(id, loaded) {
            let at = top().key("scenario");
            lint.value(Code::DuplicateId, &at, format!("`{id}` is also the id of {}", other.file));
        }
    }
    out.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    out
}

/// All that is wrong with these scripts, by file and line.
pub fn lint_scripts(set: &[LoadedScript]) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for loaded in set {
        let LoadedScript { script, file, text, .. } = loaded;
        let mut sink = Sink { file, text, tree: loaded.tree(), out: &mut out };
        sink.script(script, &top(), script::Stage::ANY);
    }
    out.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    out
}

/// The `killed_by` names that are no mutant.
pub fn lint_mutants(set: &[Loaded], known: &[&str]) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for loaded in set {
        let mut lint = Lint::new(loaded, &mut out);
        for (n, check) in loaded.scenario.judge.iter().enumerate() {
            for (m, mutant) in check.killed_by.iter().enumerate() {
                if !known.contains(&mutant.as_str()) {
                    let at = top().key("judge").index(n).key("killed_by").index(m);
                    let help = did_you_mean(mutant, known.iter().copied());
                    lint.value_help(Code::UnknownMutant, &at, format!("there is no mutant `{mutant}`"), help);
                }
            }
        }
    }
    out
}

fn top() -> Path {
    Path::default()
}

/// A file, and what is said of it.
struct Sink<'a> {
    file: &'a str,
    text: &'a str,
    tree: &'a Node,
    out: &'a mut Vec<Diagnostic>,
}

impl Sink<'_> {
    fn report(&mut self, place: Place, code: Code, message: String, help: Option<String>) {
        self.out.push(Diagnostic::at(self.file, self.text, place, code, message).with_help(help));
    }

    fn value(&mut self, code: Code, at: &Path, message: impl Into<String>) {
        self.value_help(code, at, message, None);
    }

    fn value_help(&mut self, code: Code, at: &Path, message: impl Into<String>, help: Option<String>) {
        self.report(self.tree.value(at), code, message.into(), help);
    }

    fn key(&mut self, code: Code, at: &Path, message: impl Into<String>) {
        self.key_help(code, at, message, None);
    }

    fn key_help(&mut self, code: Code, at: &Path, message: impl Into<String>, help: Option<String>) {
        self.report(self.tree.key(at), code, message.into(), help);
    }

    /// About a part of JSON text.
    fn json(
        &mut self,
        code: Code,
        at: &Path,
        inside: &[Step],
        part: Part,
        message: String,
        help: Option<String>,
    ) {
        let place = self.tree.json(self.text, at, inside, part);
        self.report(place, code, message, help);
    }
}

/// A scenario under the lint.
struct Lint<'a> {
    scenario: &'a Scenario,
    /// The file, relative to the folder that was loaded.
    relative: &'a str,
    /// What kills the checks of other people's scenarios is theirs to know.
    built_in: bool,
    sink: Sink<'a>,
}

impl<'a> Deref for Lint<'a> {
    type Target = Sink<'a>;

    fn deref(&self) -> &Sink<'a> {
        &self.sink
    }
}

impl<'a> DerefMut for Lint<'a> {
    fn deref_mut(&mut self) -> &mut Sink<'a> {
        &mut self.sink
    }
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
    fn new(loaded: &'a Loaded, out: &'a mut Vec<Diagnostic>) -> Self {
        let sink = Sink { file: &loaded.file, text: &loaded.text, tree: loaded.tree(), out };
        Self { scenario: &loaded.scenario, relative: &loaded.relative, built_in: loaded.built_in, sink }
    }

    fn all(&mut self, ids: &BTreeSet<String>) {
        self.header(ids);
        let (revisions, transports) = self.applies();
        self.servers(&transports);
        self.steps();
        self.checks(&revisions, &transports);
    }
}
