//! Reading an entry.

use super::{Dialect, Raw, key_of, spellings};
use crate::config::document::{Document, Step};
use crate::entry::{Kind, ServerEntry, Source};
use serde_json::Value;
use sparring_profiles::{BothTargets, Disclosure, Neutral, ProfileTransport};
use sparring_wire::json_at::Part;
use std::collections::BTreeMap;

/// Reads one entry. Mistakes are texts with place and field, and never with values: these may be secrets.
pub(super) struct Reader<'a> {
    pub(super) dialect: &'a Dialect,
    pub(super) document: &'a Document,
    pub(super) raw: &'a Raw<'a>,
}

/// A field of the entry under one of its names.
type Found<'a> = Option<(&'a str, &'a Value)>;

impl<'a> Reader<'a> {
    pub(super) fn wrong(&self, inside: &[Step], what: &str) -> String {
        let path: Vec<Step> = self.raw.path.iter().chain(inside).cloned().collect();
        let place = self.document.place(&path, Part::Value);
        if path.is_empty() {
            format!("{place}: {what}")
        } else {
            format!("{place}: `{}`: {what}", key_of(&path))
        }
    }

    fn of_type(&self, name: &str, what: &str) -> String {
        self.wrong(&[Step::Key(name.to_owned())], &format!("should be {what}"))
    }

    /// The field, under the first of its names that is there. `null` is as good as nothing.
    fn field(&self, field: Neutral) -> Found<'a> {
        let value =
            |name: &'a String| Some((name.as_str(), self.raw.value.get(name).filter(|v| !v.is_null())?));
        self.dialect.names(field).iter().find_map(value)
    }

    fn text(&self, field: Neutral) -> Result<Option<String>, String> {
        let Some((name, value)) = self.field(field) else { return Ok(None) };
        value.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| self.of_type(name, "a string"))
    }

    fn flag(&self, field: Neutral) -> Result<Option<bool>, String> {
        let Some((name, value)) = self.field(field) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.of_type(name, "true or false"))
    }

    fn texts(&self, field: Neutral) -> Result<Option<Vec<String>>, String> {
        let Some((name, value)) = self.field(field) else { return Ok(None) };
        let list = value.as_array().ok_or_else(|| self.of_type(name, "a list of strings"))?;
        let text = |(index, value): (usize, &Value)| {
            let place = [Step::Key(name.to_owned()), Step::Index(index)];
            value
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| self.wrong(&place, "should be a string; quote it"))
        };
        list.iter().enumerate().map(text).collect::<Result<_, _>>().map(Some)
    }

    fn map<T>(
        &self,
        field: Neutral,
        what: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<BTreeMap<String, T>, String> {
        let Some((name, value)) = self.field(field) else { return Ok(BTreeMap::new()) };
        let map = value.as_object().ok_or_else(|| self.of_type(name, &format!("a map to {what}s")))?;
        map.iter()
            .map(|(key, value)| {
                let place = [Step::Key(name.to_owned()), Step::Key(key.clone())];
                let article = if what.starts_with('s') { "; quote it" } else { "" };
                let value =
                    read(value).ok_or_else(|| self.wrong(&place, &format!("should be a {what}{article}")))?;
                Ok((key.clone(), value))
            })
            .collect()
    }

    fn words(&self, field: Neutral) -> Result<BTreeMap<String, String>, String> {
        self.map(field, "string", |value| value.as_str().map(str::to_owned))
    }

    fn seconds(&self, field: Neutral) -> Result<Option<f64>, String> {
        let Some((name, value)) = self.field(field) else { return Ok(None) };
        let seconds = value.as_f64().filter(|s| s.is_finite() && *s > 0.0);
        seconds.map(Some).ok_or_else(|| self.of_type(name, "a number of seconds, above zero"))
    }

    /// Program and arguments, in one field or in two.
    fn argv(&self) -> Result<(Option<String>, Vec<String>), String> {
        let args = self.texts(Neutral::Args)?.unwrap_or_default();
        match self.field(Neutral::Argv) {
            Some((name, value)) if value.is_array() || self.field(Neutral::Command).is_none() => {
                let mut argv = self.texts(Neutral::Argv)?.unwrap_or_default().into_iter();
                let program =
                    argv.next().ok_or_else(|| self.of_type(name, "a list that starts with the program"))?;
                Ok((Some(program), argv.chain(args).collect()))
            }
            _ => Ok((self.text(Neutral::Command)?, args)),
        }
    }

    fn kind(&self) -> Result<Option<Kind>, String> {
        let Some((name, value)) = self.field(Neutral::Type) else { return Ok(None) };
        let types = &self.dialect.settings.types;
        let spelt = value.as_str().ok_or_else(|| self.of_type(name, "a string"))?;
        let known = types.iter().find(|(_, spellings)| spellings.iter().any(|s| s == spelt));
        match known {
            Some((ProfileTransport::Stdio, _)) => Ok(Some(Kind::Stdio)),
            Some((ProfileTransport::Http, _)) => Ok(Some(Kind::Http)),
            Some((ProfileTransport::Sse, _)) => Ok(Some(Kind::Sse)),
            None => Err(self.wrong(
                &[Step::Key(name.to_owned())],
                &format!("{spelt:?} is no transport here; known are {}", spellings(types)),
            )),
        }
    }

    pub(super) fn entry(&self, source: &Source) -> Result<ServerEntry, String> {
        if !self.raw.value.is_object() {
            return Err(self.wrong(&[], "should be a map of fields"));
        }
        let (command, args) = self.argv()?;
        let disclosure = match self.field(Neutral::Disclosure) {
            None => None,
            Some((name, value)) => match value.as_str() {
                Some("full" | "eager") => Some(Disclosure::Full),
                Some("lazy") => Some(Disclosure::Lazy),
                _ => return Err(self.of_type(name, "\"full\" or \"lazy\"")),
            },
        };
        let supplied_tools = match self.field(Neutral::SuppliedTools) {
            None => None,
            Some((name, value)) => {
                let tools = value.as_array().or_else(|| value.get("tools")?.as_array());
                Some(tools.cloned().ok_or_else(|| self.of_type(name, "a list of tools"))?)
            }
        };
        let policy = match self.field(Neutral::Policy) {
            None => serde_json::Map::new(),
            Some((name, value)) => value.as_object().cloned().ok_or_else(|| self.of_type(name, "a map"))?,
        };
        let entry = ServerEntry {
            name: self.raw.name.to_owned(),
            command,
            args,
            env: self.words(Neutral::Env)?,
            env_pass: self.texts(Neutral::EnvPass)?.unwrap_or_default(),
            strict_env: self.flag(Neutral::StrictEnv)?.unwrap_or_default(),
            cwd: self.text(Neutral::Cwd)?,
            url: self.text(Neutral::Url)?,
            headers: self.words(Neutral::Headers)?,
            header_env: self.words(Neutral::HeaderEnv)?,
            bearer_env: self.text(Neutral::BearerEnv)?,
            kind: self.kind()?,
            enabled: self.flag(Neutral::Enabled)?,
            required: self.flag(Neutral::Required)?.unwrap_or_default(),
            allow: self.texts(Neutral::Allow)?,
            deny: self.texts(Neutral::Deny)?.unwrap_or_default(),
            startup_timeout: self.seconds(Neutral::StartupTimeout)?,
            tool_timeout: self.seconds(Neutral::ToolTimeout)?,
            per_tool_timeout: self.map(
                Neutral::PerToolTimeout,
                "number of seconds, above zero",
                |value| value.as_f64().filter(|s| s.is_finite() && *s > 0.0),
            )?,
            disclosure,
            supplied_tools,
            lazy_connect: self.flag(Neutral::LazyConnect)?.unwrap_or_default(),
            shared: self.flag(Neutral::Shared)?,
            auth: self.field(Neutral::Auth).map(|(_, value)| value.clone()),
            policy,
            source: source.clone(),
        };
        // What is switched off may be unfinished.
        if entry.is_on() { self.targeted(entry) } else { Ok(entry) }
    }

    /// The entry with exactly one target.
    fn targeted(&self, mut entry: ServerEntry) -> Result<ServerEntry, String> {
        if entry.command.is_some() && entry.url.is_some() {
            match self.dialect.settings.both {
                BothTargets::Error => {
                    return Err(self.wrong(&[], "it has a command and a URL; one of them is enough"));
                }
                BothTargets::UrlWins => {
                    (entry.command, entry.args) = (None, Vec::new());
                    entry.kind = entry.kind.filter(|kind| *kind != Kind::Stdio);
                }
            }
        }
        let name = |field: Neutral| self.dialect.names(field).first().map_or("?", String::as_str);
        let command =
            if self.dialect.names(Neutral::Command).is_empty() { Neutral::Argv } else { Neutral::Command };
        if entry.kind.is_none() && !self.dialect.settings.infers_type {
            let known = spellings(&self.dialect.settings.types);
            return Err(self.wrong(&[], &format!("`{}` is missing, one of {known}", name(Neutral::Type))));
        }
        match (entry.transport(), &entry.command, &entry.url) {
            (Some(Kind::Stdio), None, _) => Err(self.wrong(&[], &format!("`{}` is missing", name(command)))),
            (Some(Kind::Http | Kind::Sse), _, None) => {
                Err(self.wrong(&[], &format!("`{}` is missing", name(Neutral::Url))))
            }
            (None, ..) => {
                Err(self
                    .wrong(&[], &format!("it has neither `{}` nor `{}`", name(command), name(Neutral::Url))))
            }
            (Some(Kind::Stdio), Some(program), _) if program.is_empty() => {
                Err(self.wrong(&[], &format!("`{}` is empty", name(command))))
            }
            _ => Ok(entry),
        }
    }
}
