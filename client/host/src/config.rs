//! The configuration: which servers there are.

mod dialect;
mod document;
mod edit;
mod foreign;
mod merge;
mod places;

pub use dialect::Dialect;
pub use document::{Document, Step};
pub use edit::{Scope, add, remove};
pub use merge::listing;
pub use places::{Place, places};

use crate::entry::{ServerEntry, Source};
use crate::error::HostError;
use crate::surroundings::Surroundings;
use serde_json::Value;
use sparring_profiles::{ConfigSettings, Settings};
use sparring_wire::json_at::Part;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the servers come from. The default is [`ConfigFiles`].
pub trait ConfigSource: Send + Sync {
    /// All servers, as configured: merged, but with variables not yet replaced. Called again whenever an edit may count;
    /// an equal answer means that nothing has changed.
    ///
    /// # Errors
    /// [`HostError::Config`] for a file that can't be read, with place and field. Who has read it before keeps what it
    /// had. A single entry that is wrong is no error, but one of [`Loaded::faults`].
    fn load(&self, around: &Surroundings) -> Result<Loaded, HostError>;
}

/// A configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// The servers, those switched off included, strongest place first, in the order of the files.
    pub entries: Vec<ServerEntry>,
    /// Entries that can't be used.
    pub faults: Vec<Fault>,
    /// Caches of tools that stand in the configuration, which belong elsewhere: server and tools. They are dropped from
    /// the file with its next write.
    pub tool_caches: Vec<(String, Vec<Value>)>,
    /// Files of other programs that could not be read.
    pub warnings: Vec<String>,
}

/// An entry that can't be used. The server counts as configured, and as failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The server's name, or its place in the list.
    pub server: String,
    /// What is wrong, with file, place and field. Values are not part of it.
    pub message: String,
}

/// The configuration files of a host.
#[derive(Debug, Clone)]
pub struct ConfigFiles {
    settings: Settings,
    /// A file instead of all places.
    only: Option<PathBuf>,
    import: bool,
    contributed: Vec<ServerEntry>,
}

impl ConfigFiles {
    /// The files of this host.
    pub fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone(), only: None, import: false, contributed: Vec::new() }
    }

    /// Only this file, instead of all places.
    #[must_use]
    pub fn only(mut self, file: impl Into<PathBuf>) -> Self {
        self.only = Some(file.into());
        self
    }

    /// Whether servers that other programs have configured count as well; see `config.imports`. Own entries win.
    #[must_use]
    pub const fn import(mut self, on: bool) -> Self {
        self.import = on;
        self
    }

    /// Servers that plugins and the like contribute; entries of files win.
    #[must_use]
    pub fn contributed(mut self, entries: Vec<ServerEntry>) -> Self {
        self.contributed = entries;
        self
    }
}

/// Servers that a program gives, instead of files.
#[derive(Debug, Clone, Default)]
pub struct FixedConfig(pub Vec<ServerEntry>);

impl ConfigSource for FixedConfig {
    fn load(&self, _: &Surroundings) -> Result<Loaded, HostError> {
        Ok(Loaded { entries: self.0.clone(), ..Loaded::default() })
    }
}

impl ConfigSource for ConfigFiles {
    fn load(&self, around: &Surroundings) -> Result<Loaded, HostError> {
        let config = &self.settings.config;
        let dialect = Dialect::new(config);
        let mut all = Loaded::default();
        let places = match &self.only {
            Some(file) => vec![Place { file: file.clone(), project: false, legacy: false }],
            None => places(config, around),
        };
        if let Some(file) = self.only.as_ref().filter(|file| !file.exists()) {
            return Err(HostError::Config(format!("{}: there is no such file", file.display())));
        }
        let superseded = superseded(&places);
        for place in places {
            if place.legacy && superseded(place.project) {
                continue;
            }
            // A file that the user names may have another format than those of the host.
            let format = match &self.only {
                Some(file) => Document::format_of(file, config.format),
                None => config.format,
            };
            let Some(document) = Document::read(&place.file, format)? else { continue };
            let source = Source { file: Some(place.file), project: place.project };
            let mut found = Loaded::default();
            dialect.read(&document, &source, &mut found)?;
            folder(config, &dialect, &document, &source, &mut found)?;
            self.add(&mut all, found)?;
        }
        if self.only.is_none() {
            let foreign = foreign::read(config, around, self.import, &mut all.warnings);
            self.add(&mut all, foreign)?;
        }
        self.add(&mut all, Loaded { entries: self.contributed.clone(), ..Loaded::default() })?;
        Ok(all)
    }
}

impl ConfigFiles {
    /// Adds what a weaker place has. An entry that is wrong shadows a weaker one as a right one would.
    fn add(&self, all: &mut Loaded, mut weaker: Loaded) -> Result<(), HostError> {
        let identity = |name: &str| merge::identity(&self.settings, name);
        let broken: Vec<String> = all.faults.iter().map(|fault| identity(&fault.server)).collect();
        weaker.entries.retain(|entry| !broken.contains(&identity(&entry.name)));
        let known: Vec<String> = all.entries.iter().map(|entry| identity(&entry.name)).collect();
        weaker.faults.retain(|fault| !known.contains(&identity(&fault.server)));
        weaker.tool_caches.retain(|(server, _)| !known.contains(&identity(server)));
        merge::add(&self.settings, &mut all.entries, weaker.entries)?;
        all.faults.extend(weaker.faults);
        all.tool_caches.extend(weaker.tool_caches);
        all.warnings.extend(weaker.warnings);
        Ok(())
    }
}

/// Whether the legacy places of a kind, project or user, count no more.
fn superseded(places: &[Place]) -> impl Fn(bool) -> bool + use<> {
    let there = |project: bool| {
        places.iter().any(|place| place.project == project && !place.legacy && place.file.exists())
    };
    let (user, project) = (there(false), there(true));
    move |of_project| if of_project { project } else { user }
}

/// Reads the files of the folder that a configuration names, each of one server, by name. What stands in the
/// configuration itself comes before them.
fn folder(
    config: &ConfigSettings,
    dialect: &Dialect,
    document: &Document,
    source: &Source,
    into: &mut Loaded,
) -> Result<(), HostError> {
    let Some(value) = config.folder_key.as_ref().and_then(|key| document.root.get(key)) else {
        return Ok(());
    };
    let key = config.folder_key.iter().cloned().map(Step::Key).collect::<Vec<_>>();
    let wrong = |what: &str| HostError::Config(format!("{}: {what}", document.place(&key, Part::Value)));
    let named = value.as_str().ok_or_else(|| wrong("the folder of servers should be a string"))?;
    let folder = document.file().parent().map_or_else(|| PathBuf::from(named), |parent| parent.join(named));
    let listed = std::fs::read_dir(&folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let listed = listed.map_err(|error| wrong(&format!("{}: can't be read: {error}", folder.display())))?;
    let ends = |file: &Path| {
        let ending = file.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        matches!(ending.as_deref(), Some("json" | "yaml" | "yml" | "toml"))
    };
    let mut files: Vec<PathBuf> =
        listed.into_iter().map(|entry| entry.path()).filter(|file| ends(file)).collect();
    files.sort();
    let mut seen: BTreeSet<String> = into.entries.iter().map(|entry| entry.name.clone()).collect();
    for file in files {
        let format = Document::format_of(&file, config.format);
        let Some(document) = Document::read(&file, format)? else { continue };
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = document.root.get("name").and_then(Value::as_str).unwrap_or(stem);
        if into.entries.iter().any(|entry| entry.name == name && entry.source == *source) {
            continue;
        }
        let raw = dialect::Raw { name, path: Vec::new(), value: &document.root };
        let source = Source { file: Some(file.clone()), project: source.project };
        dialect.read_one(&document, &raw, &source, &mut seen, into);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
