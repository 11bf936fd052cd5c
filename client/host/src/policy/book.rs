//! The rules there are.

use super::names::{self, NameSet};
use crate::error::HostError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A rule: `mode` and `patterns`, or `risk`, `approval` and `timeout`, and whatever else a host reports.
pub type Rule = Map<String, Value>;

/// Where a rule stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// At a tool, by its composed name or a glob.
    Tool(String),
    /// At a server.
    Server(String),
    /// At the project.
    Project,
    /// At the program.
    App,
}

/// A change of the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Where.
    pub scope: Scope,
    /// The new rule; `None` removes it.
    pub rule: Option<Rule>,
}

/// All rules, by layer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleBook {
    tools: BTreeMap<String, Rule>,
    servers: BTreeMap<String, Rule>,
    project: Option<Rule>,
    app: Option<Rule>,
    auto_approved: NameSet,
}

impl RuleBook {
    /// The rule of a tool: by its name, or else by the longest glob that matches.
    pub fn tool(&self, name: &str) -> Option<&Rule> {
        names::longest_match(&self.tools, name)
    }

    /// The rule of a server.
    pub fn server(&self, name: &str) -> Option<&Rule> {
        self.servers.get(name)
    }

    /// The rule of the project.
    pub const fn project(&self) -> Option<&Rule> {
        self.project.as_ref()
    }

    /// The rule of the program.
    pub const fn app(&self) -> Option<&Rule> {
        self.app.as_ref()
    }

    /// Whether calls of a tool are approved once and for all.
    pub fn auto_approved(&self, name: &str) -> bool {
        self.auto_approved.contains(name, true)
    }

    /// The names and globs whose calls are approved once and for all.
    pub(crate) const fn auto_approved_names(&self) -> &NameSet {
        &self.auto_approved
    }

    /// Names and globs whose calls are approved once and for all.
    pub fn set_auto_approved(&mut self, names: NameSet) {
        self.auto_approved = names;
    }

    /// Makes a change.
    pub fn change(&mut self, Change { scope, rule }: Change) {
        fn put(rules: &mut BTreeMap<String, Rule>, name: String, rule: Option<Rule>) {
            match rule {
                Some(rule) => drop(rules.insert(name, rule)),
                None => drop(rules.remove(&name)),
            }
        }
        match scope {
            Scope::Tool(name) => put(&mut self.tools, name, rule),
            Scope::Server(name) => put(&mut self.servers, name, rule),
            Scope::Project => self.project = rule,
            Scope::App => self.app = rule,
        }
    }

    /// Makes the changes that a value describes: members `tools` and `servers` (maps from names to rules), `project`,
    /// `app`, and `auto_approve` (names). A rule is a table, or a mode as a string; `null` removes what is there. What
    /// is not named stays.
    ///
    /// # Errors
    /// What can't be understood; nothing is changed then.
    pub fn merge(&mut self, value: &Value) -> Result<Vec<Change>, HostError> {
        let mut names = None;
        let mut changes = Vec::new();
        let members = value.as_object().ok_or_else(|| wrong("authorization", "is a table"))?;
        for (member, value) in members {
            match member.as_str() {
                "tools" | "servers" => {
                    let scope = if member == "tools" { Scope::Tool } else { Scope::Server };
                    let rules = value.as_object().ok_or_else(|| wrong(member, "is a table of rules"))?;
                    for (name, rule) in rules {
                        changes.push(Change {
                            scope: scope(name.clone()),
                            rule: rule_of(&format!("{member}.{name}"), rule)?,
                        });
                    }
                }
                "project" => changes.push(Change { scope: Scope::Project, rule: rule_of(member, value)? }),
                "app" => changes.push(Change { scope: Scope::App, rule: rule_of(member, value)? }),
                "auto_approve" => {
                    let set = serde_json::from_value(value.clone());
                    names = Some(set.map_err(|_| wrong(member, "is a list of names"))?);
                }
                other => {
                    let known = "`tools`, `servers`, `project`, `app` and `auto_approve`";
                    return Err(wrong(other, &format!("is unknown; there are {known}")));
                }
            }
        }
        for change in &changes {
            self.change(change.clone());
        }
        if let Some(names) = names {
            self.auto_approved = names;
        }
        Ok(changes)
    }
}

fn wrong(field: &str, what: &str) -> HostError {
    HostError::Config(format!("rules of policy: `{field}` {what}"))
}

fn rule_of(field: &str, value: &Value) -> Result<Option<Rule>, HostError> {
    match value {
        Value::Null => Ok(None),
        Value::String(mode) => Ok(Some(Rule::from_iter([("mode".to_owned(), Value::from(mode.as_str()))]))),
        Value::Object(rule) => Ok(Some(rule.clone())),
        _ => Err(wrong(field, "is a mode, a table, or null")),
    }
}

/// The rules of a project, in the member `authorization` of its JSON file of servers: `mode` (or any other member of a
/// rule) is the project's own, `servers` and `tools` hold the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFile {
    path: PathBuf,
    mode: u32,
}

/// The member of the file.
const MEMBER: &str = "authorization";

impl RuleFile {
    /// The rules in the file at `path`; it is written with the permissions `mode`.
    pub fn new(path: impl Into<PathBuf>, mode: u32) -> Self {
        Self { path: path.into(), mode }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn wrong(&self, what: impl std::fmt::Display) -> HostError {
        HostError::Config(format!("{}: {what}", self.path.display()))
    }

    fn document(&self) -> Result<Map<String, Value>, HostError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| self.wrong(error)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Map::new()),
            Err(error) => Err(self.wrong(error)),
        }
    }

    /// Adds the file's rules to a book. A file that is not there has none.
    ///
    /// # Errors
    /// It can't be read.
    pub fn load(&self, book: &mut RuleBook) -> Result<(), HostError> {
        let Some(Value::Object(mut own)) = self.document()?.remove(MEMBER) else { return Ok(()) };
        let rest: Map<String, Value> =
            ["servers", "tools"].iter().filter_map(|name| own.remove_entry(*name)).collect();
        let mut rules = Value::Object(rest);
        if !own.is_empty() {
            rules["project"] = Value::Object(own);
        }
        book.merge(&rules).map(drop).map_err(|error| self.wrong(error))
    }

    /// Writes a change to the file, and leaves all else in it as it is.
    ///
    /// # Errors
    /// It can't be written, or the scope is the program's.
    pub fn save(&self, change: &Change) -> Result<(), HostError> {
        let mut document = self.document()?;
        let rules = document.entry(MEMBER).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(rules) = rules else { return Err(self.wrong("`authorization` is not a table")) };
        let (table, name) = match &change.scope {
            Scope::Tool(name) => ("tools", name),
            Scope::Server(name) => ("servers", name),
            Scope::Project => {
                rules.retain(|name, _| matches!(name.as_str(), "tools" | "servers"));
                rules.extend(change.rule.clone().unwrap_or_default());
                return self.write(&document);
            }
            Scope::App => return Err(self.wrong("the program's rule is not the project's")),
        };
        let entry = rules.entry(table).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(entries) = entry else {
            return Err(self.wrong(format!("`authorization.{table}` is not a table")));
        };
        match &change.rule {
            Some(rule) => drop(entries.insert(name.clone(), Value::Object(rule.clone()))),
            None => drop(entries.remove(name)),
        }
        self.write(&document)
    }

    fn write(&self, document: &Map<String, Value>) -> Result<(), HostError> {
        let mut text = serde_json::to_string_pretty(document).map_err(|error| self.wrong(error))?;
        text.push('\n');
        crate::files::replace(&self.path, text.as_bytes(), self.mode).map_err(|error| self.wrong(error))
    }
}
