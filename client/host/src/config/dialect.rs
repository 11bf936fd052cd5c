//! Entries as a host writes them, and in no host's dialect.

mod read;
mod write;

use super::document::{Document, Step};
use super::{Fault, Loaded};
use crate::entry::{ServerEntry, Source};
use crate::error::HostError;
use serde_json::{Map, Value};
use sparring_profiles::{BothTargets, ConfigSettings, Names, Neutral, ProfileTransport, Shape};
use sparring_wire::json_at::Part;
use std::collections::{BTreeMap, BTreeSet};

/// How a host writes its entries.
#[derive(Debug, Clone)]
pub struct Dialect {
    settings: ConfigSettings,
}

/// An entry in a document.
pub(super) struct Raw<'a> {
    /// Its name; empty if it has none.
    pub(super) name: &'a str,
    /// Where it stands.
    pub(super) path: Vec<Step>,
    /// What it is.
    pub(super) value: &'a Value,
}

impl Dialect {
    /// The dialect of these settings.
    pub fn new(settings: &ConfigSettings) -> Self {
        Self { settings: settings.clone() }
    }

    /// A dialect that understands all that is known: maps and lists, `servers` and `mcpServers`, `type` and
    /// `transport`, `url` and `httpUrl`, and more. Files of other programs are read with it.
    pub fn any() -> Self {
        let own = ConfigSettings::default();
        let mut keys = own.keys;
        let more: [(Neutral, &[&str]); 17] = [
            (Neutral::Argv, &["command"]),
            (Neutral::EnvPass, &["env_vars", "env_pass"]),
            (Neutral::StrictEnv, &["strict_env"]),
            (Neutral::Url, &["serverUrl", "http_url"]),
            (Neutral::Headers, &["http_headers"]),
            (Neutral::HeaderEnv, &["env_http_headers", "header_env"]),
            (Neutral::BearerEnv, &["bearer_token_env_var", "bearer_env"]),
            (Neutral::Allow, &["enabled_tools", "allow"]),
            (Neutral::Deny, &["disabled_tools", "deny"]),
            (Neutral::StartupTimeout, &["startup_timeout_sec", "bootstrapTimeout", "startup_timeout"]),
            (Neutral::ToolTimeout, &["tool_timeout_sec", "toolTimeout", "tool_timeout"]),
            (Neutral::PerToolTimeout, &["per_tool_timeout"]),
            (Neutral::SuppliedTools, &["supplied_tools"]),
            (Neutral::LazyConnect, &["lazy_connect"]),
            (Neutral::Auth, &["oauth"]),
            (Neutral::Policy, &["default_policy"]),
            (Neutral::Required, &[]),
        ];
        for (field, names) in more {
            let before = keys.remove(&field).map(|names| names.all().to_vec()).unwrap_or_default();
            let all = before.into_iter().chain(names.iter().map(|name| (*name).to_owned()));
            keys.insert(field, Names::Many(all.collect()));
        }
        let mut types = own.types;
        types.entry(ProfileTransport::Http).or_default().push("streamableHttp".to_owned());
        Self {
            settings: ConfigSettings {
                root_keys: ["mcpServers", "servers", "mcp_servers", "mcp.servers"]
                    .map(str::to_owned)
                    .to_vec(),
                shape: vec![Shape::Map, Shape::List],
                both: BothTargets::UrlWins,
                infers_type: true,
                keys,
                types,
                ..ConfigSettings::default()
            },
        }
    }

    /// Makes entries of any shape that [`Dialect::any`] knows; the name of the text is for messages.
    pub fn normalise(name: &str, value: Value) -> (Vec<ServerEntry>, Vec<Fault>) {
        let mut document = Document::new(std::path::Path::new(name), sparring_profiles::Format::Json);
        document.root = value;
        let dialect = Self::any();
        let mut loaded = Loaded::default();
        // A map of entries without any key around it is understood too.
        if let Err(error) = dialect.read(&document, &Source::default(), &mut loaded) {
            loaded.faults.push(Fault { server: name.to_owned(), message: error.to_string() });
        }
        if loaded.entries.is_empty() && loaded.faults.is_empty() {
            dialect.read_bare_map(&document, &Source::default(), &mut loaded);
        }
        (loaded.entries, loaded.faults)
    }

    /// The host's names of a field; none if it does not exist there.
    fn names(&self, field: Neutral) -> &[String] {
        self.settings.keys.get(&field).map_or(&[], Names::all)
    }

    /// Where the servers of a document stand: the root keys that it has. A key with dots leads into tables.
    pub(super) fn roots<'a>(&self, root: &'a Value) -> Vec<(Vec<Step>, &'a Value)> {
        let mut found = Vec::new();
        for key in &self.settings.root_keys {
            if let Some(value) = root.get(key) {
                found.push((vec![Step::Key(key.clone())], value));
                continue;
            }
            let inside = key.split('.').try_fold(root, |value, part| value.get(part));
            if let Some(value) = inside {
                found.push((key.split('.').map(|part| Step::Key(part.to_owned())).collect(), value));
            }
        }
        // A list that is the whole file.
        if found.is_empty() && root.is_array() {
            found.push((Vec::new(), root));
        }
        found
    }

    /// The entries below a root key.
    ///
    /// # Errors
    /// If they stand in a shape that the host does not read.
    pub(super) fn raw<'a>(
        &self,
        document: &Document,
        at: &[Step],
        value: &'a Value,
    ) -> Result<Vec<Raw<'a>>, HostError> {
        let below = |step| at.iter().cloned().chain([step]).collect::<Vec<_>>();
        match value {
            Value::Null => Ok(Vec::new()),
            Value::Object(map) if self.settings.shape.contains(&Shape::Map) => Ok(map
                .iter()
                .map(|(name, value)| Raw { name, path: below(Step::Key(name.clone())), value })
                .collect()),
            Value::Array(list) if self.settings.shape.contains(&Shape::List) => Ok(list
                .iter()
                .enumerate()
                .map(|(index, value)| Raw {
                    name: value.get("name").and_then(Value::as_str).unwrap_or_default(),
                    path: below(Step::Index(index)),
                    value,
                })
                .collect()),
            _ => {
                let shapes = self.settings.shape.iter().map(|shape| match shape {
                    Shape::Map => "a map of servers by name",
                    Shape::List => "a list of servers",
                });
                Err(HostError::Config(format!(
                    "{}: `{}` is {}",
                    document.place(at, Part::Value),
                    key_of(at),
                    shapes.collect::<Vec<_>>().join(", or ")
                )))
            }
        }
    }

    /// Reads the entries of a document; those that are wrong become faults.
    ///
    /// # Errors
    /// If they stand in a shape that the host does not read.
    pub fn read(&self, document: &Document, source: &Source, into: &mut Loaded) -> Result<(), HostError> {
        let mut seen = BTreeSet::new();
        for (at, value) in self.roots(&document.root) {
            for raw in self.raw(document, &at, value)? {
                self.read_one(document, &raw, source, &mut seen, into);
            }
        }
        Ok(())
    }

    fn read_bare_map(&self, document: &Document, source: &Source, into: &mut Loaded) {
        let Value::Object(map) = &document.root else { return };
        let mut seen = BTreeSet::new();
        for (name, value) in map.iter().filter(|(_, value)| value.is_object()) {
            let raw = Raw { name, path: vec![Step::Key(name.clone())], value };
            self.read_one(document, &raw, source, &mut seen, into);
        }
    }

    /// Reads one entry.
    pub(super) fn read_one(
        &self,
        document: &Document,
        raw: &Raw<'_>,
        source: &Source,
        seen: &mut BTreeSet<String>,
        into: &mut Loaded,
    ) {
        let reader = read::Reader { dialect: self, document, raw };
        let entry = match raw.name {
            "" => Err(reader.wrong(&[], "the server has no `name`")),
            name if !seen.insert(name.to_owned()) => {
                Err(reader.wrong(&[], &format!("there is a server {name:?} in this file already")))
            }
            _ => reader.entry(source),
        };
        match entry {
            Ok(entry) => {
                if let Some(tools) = self.inline_cache(raw.value) {
                    into.tool_caches.push((entry.name.clone(), tools));
                }
                into.entries.push(entry);
            }
            Err(message) => {
                let place = raw.path.last().map_or_else(String::new, |step| match step {
                    Step::Key(key) => key.clone(),
                    Step::Index(index) => format!("number {}", index + 1),
                });
                let server = if raw.name.is_empty() { place } else { raw.name.to_owned() };
                into.faults.push(Fault { server, message });
            }
        }
    }

    /// A list of tools in an entry, bare or as a result of `tools/list`.
    fn inline_cache(&self, entry: &Value) -> Option<Vec<Value>> {
        let cache = entry.get(self.settings.inline_cache.as_ref()?)?;
        cache.as_array().or_else(|| cache.get("tools")?.as_array()).cloned()
    }

    /// The entry in the host's dialect, with its name where that stands in it.
    ///
    /// # Errors
    /// [`HostError::Config`], if the host has no word for something that it says.
    pub fn write(&self, entry: &ServerEntry) -> Result<Map<String, Value>, HostError> {
        write::entry(self, entry)
    }
}

/// A path as a person writes it.
fn key_of(path: &[Step]) -> String {
    let mut key = String::new();
    for step in path {
        match step {
            Step::Key(name) if key.is_empty() => key.push_str(name),
            Step::Key(name) => key.extend([".", name]),
            Step::Index(index) => key.push_str(&format!("[{index}]")),
        }
    }
    key
}

/// All spellings of transports, for messages.
fn spellings(types: &BTreeMap<ProfileTransport, Vec<String>>) -> String {
    types.values().flatten().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
