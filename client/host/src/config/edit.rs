//! Adding servers to configuration files, and removing them.

use super::dialect::Raw;
use super::document::{Document, Step};
use super::{Dialect, Place, places, superseded};
use crate::entry::ServerEntry;
use crate::error::HostError;
use crate::surroundings::Surroundings;
use serde_json::{Map, Value};
use sparring_profiles::{Format, Settings, Shape};
use std::path::{Path, PathBuf};

/// Which file is edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// The user's.
    User,
    /// The project's.
    Project,
    /// This one.
    File(PathBuf),
}

/// Adds a server, and replaces one of the same name in the same file. What else is in the file stays, of unknown fields
/// too; of YAML and TOML, comments do not. Returns the file.
///
/// The first write to a new place takes along what stands in a legacy one.
///
/// # Errors
/// [`HostError::Config`] if there is no such place, the file can't be read or written, or the host's dialect has no word
/// for something.
pub fn add(
    settings: &Settings,
    around: &Surroundings,
    scope: &Scope,
    entry: &ServerEntry,
) -> Result<PathBuf, HostError> {
    let dialect = Dialect::new(&settings.config);
    let written = dialect.write(entry)?;
    let (file, legacy) = target(settings, around, scope)?;
    let format = format(settings, scope);
    let mut document = match Document::read(&file, format)? {
        Some(document) => document,
        None => fresh(settings, &dialect, Document::new(&file, format), legacy.as_deref())?,
    };
    let at = root_of(settings, &dialect, &document);
    let servers = descend(&mut document.root, &at).ok_or_else(|| not_a_place(&file, &at))?;
    match servers {
        Value::Object(map) => {
            map.insert(entry.name.clone(), Value::Object(written));
        }
        Value::Array(list) => {
            let mut named = Map::new();
            named.insert("name".into(), entry.name.clone().into());
            named.extend(written);
            let of_that_name =
                |value: &&mut Value| value.get("name").and_then(Value::as_str) == Some(&entry.name);
            match list.iter_mut().find(of_that_name) {
                Some(old) => *old = Value::Object(named),
                None => list.push(Value::Object(named)),
            }
        }
        _ => return Err(not_a_place(&file, &at)),
    }
    finish(settings, document)?;
    Ok(file)
}

/// Removes a server. Returns the file it stood in; `None` if there was none of that name in the scope.
///
/// # Errors
/// [`HostError::Config`] if a file can't be read or written.
pub fn remove(
    settings: &Settings,
    around: &Surroundings,
    scope: &Scope,
    name: &str,
) -> Result<Option<PathBuf>, HostError> {
    let dialect = Dialect::new(&settings.config);
    let files = match scope {
        Scope::File(file) => vec![file.clone()],
        Scope::User | Scope::Project => {
            let all = places(&settings.config, around);
            let superseded = superseded(&all);
            let of_scope = |place: &Place| place.project == (*scope == Scope::Project);
            all.into_iter()
                .filter(|place| of_scope(place) && !(place.legacy && superseded(place.project)))
                .map(|place| place.file)
                .collect()
        }
    };
    for file in files {
        let Some(mut document) = Document::read(&file, format(settings, scope))? else { continue };
        if take(&dialect, &mut document, name)? {
            finish(settings, document)?;
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// The host's format, or that of the ending of a file that the user names.
fn format(settings: &Settings, scope: &Scope) -> Format {
    match scope {
        Scope::File(file) => Document::format_of(file, settings.config.format),
        Scope::User | Scope::Project => settings.config.format,
    }
}

fn take(dialect: &Dialect, document: &mut Document, name: &str) -> Result<bool, HostError> {
    let mut found: Option<(Vec<Step>, Option<Step>)> = None;
    for (at, value) in dialect.roots(&document.root) {
        let raw = dialect.raw(document, &at, value)?;
        if let Some(Raw { path, .. }) = raw.into_iter().find(|raw| raw.name == name) {
            found = Some((at, path.last().cloned()));
            break;
        }
    }
    let Some((at, Some(last))) = found else { return Ok(false) };
    match (descend(&mut document.root, &at), last) {
        (Some(Value::Object(map)), Step::Key(key)) => Ok(map.shift_remove(&key).is_some()),
        (Some(Value::Array(list)), Step::Index(index)) if index < list.len() => {
            list.remove(index);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// The file to write to, and the legacy one that it replaces.
fn target(
    settings: &Settings,
    around: &Surroundings,
    scope: &Scope,
) -> Result<(PathBuf, Option<PathBuf>), HostError> {
    let project = match scope {
        Scope::File(file) => return Ok((file.clone(), None)),
        Scope::User => false,
        Scope::Project => true,
    };
    let all = places(&settings.config, around);
    let of_scope = |legacy: bool| all.iter().filter(move |p| p.project == project && p.legacy == legacy);
    let file = of_scope(false).find(|place| place.file.exists()).or_else(|| of_scope(false).next());
    let Some(place) = file else {
        let kind = if project { "project" } else { "user" };
        return Err(HostError::Config(format!(
            "this host has no place for servers of the {kind} here; known are {}",
            settings.config.files.join(", ")
        )));
    };
    let legacy = of_scope(true).find(|place| place.file.exists());
    Ok((place.file.clone(), legacy.map(|place| place.file.clone())))
}

/// A file that is not there yet: empty, or with the servers of the legacy one.
fn fresh(
    settings: &Settings,
    dialect: &Dialect,
    mut document: Document,
    legacy: Option<&Path>,
) -> Result<Document, HostError> {
    let mut servers = match settings.config.shape.first() {
        Some(Shape::List) => Value::Array(Vec::new()),
        _ => Value::Object(Map::new()),
    };
    let old = match legacy {
        Some(legacy) => Document::read(legacy, settings.config.format)?,
        None => None,
    };
    if let Some(old) = &old
        && let Some((_, value)) = dialect.roots(&old.root).into_iter().next()
    {
        servers = value.clone();
    }
    let mut root = servers;
    let key = settings.config.root_keys.first().map_or("mcpServers", String::as_str);
    for part in key.rsplit('.') {
        root = Value::Object(Map::from_iter([(part.to_owned(), root)]));
    }
    document.root = root;
    Ok(document)
}

/// Where servers stand in a document, or are to stand.
fn root_of(settings: &Settings, dialect: &Dialect, document: &Document) -> Vec<Step> {
    let there = dialect.roots(&document.root).into_iter().next().map(|(at, _)| at);
    there.unwrap_or_else(|| {
        let key = settings.config.root_keys.first().map_or("mcpServers", String::as_str);
        key.split('.').map(|part| Step::Key(part.to_owned())).collect()
    })
}

/// What the path leads to; maps that are missing on the way are made.
fn descend<'a>(root: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(root, |value, step| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        match step {
            Step::Key(key) => {
                let next =
                    value.as_object_mut()?.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
                Some(next)
            }
            Step::Index(index) => value.get_mut(index),
        }
    })
}

fn not_a_place(file: &Path, at: &[Step]) -> HostError {
    HostError::Config(format!("{}: servers can't stand at {at:?}", file.display()))
}

fn finish(settings: &Settings, mut document: Document) -> Result<(), HostError> {
    // Lists of tools belong into the cache.
    if let Some(cache) = &settings.config.inline_cache {
        let dialect = Dialect::new(&settings.config);
        let roots: Vec<Vec<Step>> = dialect.roots(&document.root).into_iter().map(|(at, _)| at).collect();
        for at in roots {
            let values: Vec<&mut Value> = match descend(&mut document.root, &at) {
                Some(Value::Object(map)) => map.values_mut().collect(),
                Some(Value::Array(list)) => list.iter_mut().collect(),
                _ => continue,
            };
            for entry in values.into_iter().filter_map(Value::as_object_mut) {
                entry.shift_remove(cache);
            }
        }
    }
    // The loader of profiles has verified that it is a number.
    document.write(u32::from_str_radix(&settings.redaction.config_mode, 8).unwrap_or(0o600))
}
