//! What must not be seen in errors, status and logs.
//!
//! Names are never removed, only values: a message about an unset variable still says which one.

mod control;
mod forms;
mod links;

use crate::entry::ServerEntry;
use crate::error::HostError;
use serde_json::{Value, json};
use sparring_client::Error;
use sparring_profiles::{RedactionSettings, Secret};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};

/// What stands for what is removed.
pub const REMOVED: &str = "***";

/// Values shorter than this would be found in words that have nothing to do with them; they are removed only where they
/// follow their name.
const SHORTEST: usize = 4;

/// Cleans texts.
pub trait Redact: Send + Sync {
    /// A text without what must not be seen.
    fn clean(&self, text: &str) -> String;

    /// Values that texts are to be cleaned of from now on: those of a server's configuration, after expansion.
    fn learn(&self, entry: &ServerEntry);

    /// A value that texts are to be cleaned of from now on, such as a token that was issued.
    fn learn_value(&self, kind: Secret, name: &str, value: &str);

    /// A header of requests.
    fn learn_header(&self, name: &str, value: &str) {
        let bearer = name.eq_ignore_ascii_case("authorization");
        let kinds = [Some(Secret::Headers), bearer.then_some(Secret::Bearer)];
        for kind in kinds.into_iter().flatten() {
            self.learn_value(kind, name, value);
            // The scheme is no secret, and what follows it is one by itself.
            if let Some((_, token)) = value.split_once(' ').filter(|_| bearer) {
                self.learn_value(kind, name, token.trim());
            }
        }
    }

    /// A failure without what must not be seen.
    fn failure(&self, error: HostError) -> HostError {
        let clean = |text: String| self.clean(&text);
        match error {
            HostError::Server { server, error } => {
                HostError::Server { server, error: Box::new(clean_error(*error, &clean)) }
            }
            HostError::Disabled(name, why) => HostError::Disabled(name, clean(why)),
            HostError::Denied { tool, why } => HostError::Denied { tool, why: clean(why) },
            HostError::Config(why) => HostError::Config(clean(why)),
            HostError::Refused(why) => HostError::Refused(clean(why)),
            // They hold names, or paths as the caller gave them.
            other => other,
        }
    }
}

fn clean_error(error: Error, clean: &impl Fn(String) -> String) -> Error {
    match error {
        Error::Start(text) => Error::Start(clean(text)),
        Error::Protocol { code, message, data } => {
            Error::Protocol { code, message: clean(message), data: data.map(|data| clean_json(data, clean)) }
        }
        Error::Cancelled(text) => Error::Cancelled(clean(text)),
        Error::Closed(text) => Error::Closed(clean(text)),
        Error::Http { status, message } => Error::Http { status, message: clean(message) },
        Error::Auth { message, status } => Error::Auth { message: clean(message), status },
        Error::Invalid(text) => Error::Invalid(clean(text)),
        Error::Refused(text) => Error::Refused(clean(text)),
        other => other,
    }
}

/// Cleans every string of a value; the names of members stay.
pub fn clean_json(value: Value, clean: &impl Fn(String) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(items) => items.into_iter().map(|item| clean_json(item, clean)).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, clean_json(value, clean))).collect()
        }
        other => other,
    }
}

/// Removes what settings name.
pub struct Redactor {
    removes: BTreeSet<Secret>,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// Forms of values, the longest first.
    forms: Vec<String>,
    /// Names and their short values.
    short: BTreeSet<(String, String)>,
    /// Names, which stay.
    names: BTreeSet<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("removes", &self.removes).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Removes what the settings name.
    pub fn new(settings: &RedactionSettings) -> Self {
        Self { removes: settings.removes.iter().copied().collect(), known: RwLock::default() }
    }

    fn removes(&self, kind: Secret) -> bool {
        self.removes.contains(&kind)
    }
}

impl Redact for Redactor {
    fn clean(&self, text: &str) -> String {
        // Control sequences come first: they could stand in the middle of a value.
        let mut text = match self.removes(Secret::Control) {
            true => control::strip(text),
            false => text.to_owned(),
        };
        let (userinfo, query) = (self.removes(Secret::UrlUserinfo), self.removes(Secret::UrlQuery));
        if userinfo || query {
            text = links::clean(&text, userinfo, query);
        }
        if self.removes(Secret::Bearer) {
            text = forms::without_bearer(&text);
        }
        self.known.read().unwrap_or_else(PoisonError::into_inner).remove(&text)
    }

    fn learn(&self, entry: &ServerEntry) {
        for (name, value) in &entry.env {
            self.learn_value(Secret::Env, name, value);
        }
        for (name, value) in &entry.headers {
            self.learn_header(name, value);
        }
        for argument in &entry.args {
            self.learn_value(Secret::Args, "args", argument);
        }
        for (kind, name, value) in entry.url.iter().flat_map(|url| links::secrets(url)) {
            self.learn_value(kind, &name, &value);
        }
    }

    fn learn_value(&self, kind: Secret, name: &str, value: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.names.insert(name.to_owned());
        if !self.removes(kind) || value.trim().is_empty() {
            return;
        }
        if value.chars().count() < SHORTEST {
            known.short.insert((name.to_owned(), value.to_owned()));
            return;
        }
        for form in forms::of(value) {
            if !known.forms.contains(&form) {
                known.forms.push(form);
            }
        }
        known.forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    }
}

impl Known {
    fn remove(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None;
        while let Some(next) = rest.chars().next() {
            let starts_word = !before.is_some_and(forms::is_word);
            let name = self
                .names
                .iter()
                .filter(|name| starts_word && !name.is_empty() && rest.starts_with(name.as_str()))
                .filter(|name| {
                    !rest.get(name.len()..).and_then(|r| r.chars().next()).is_some_and(forms::is_word)
                })
                .max_by_key(|name| name.len());
            if let Some(name) = name {
                out.push_str(name);
                rest = rest.get(name.len()..).unwrap_or_default();
                if let Some((mark, after)) = self.short_value(name, rest) {
                    out.push_str(mark);
                    out.push_str(REMOVED);
                    rest = after;
                }
                before = out.chars().next_back();
                continue;
            }
            if let Some(form) = self.forms.iter().find(|form| rest.starts_with(form.as_str())) {
                out.push_str(REMOVED);
                rest = rest.get(form.len()..).unwrap_or_default();
                before = None;
                continue;
            }
            out.push(next);
            before = Some(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
        }
        out
    }

    /// A short value after its name: the sign between them, and what follows.
    fn short_value<'a>(&self, name: &str, rest: &'a str) -> Option<(&'static str, &'a str)> {
        let (mark, after) = ["=", ": ", ":"]
            .into_iter()
            .find_map(|mark| rest.strip_prefix(mark).map(|after| (mark, after)))?;
        self.short
            .iter()
            .filter(|(of, _)| of == name)
            .find_map(|(_, value)| after.strip_prefix(value.as_str()))
            .filter(|after| !after.chars().next().is_some_and(forms::is_word))
            .map(|after| (mark, after))
    }
}

/// An entry as its user may read it back: names of variables and headers without their values.
pub fn shown(entry: &ServerEntry, settings: &RedactionSettings) -> Value {
    let removes = |kind| settings.removes.contains(&kind);
    let hide = |values: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        values.keys().map(|name| (name.clone(), REMOVED.to_owned())).collect()
    };
    let mut shown = entry.clone();
    if removes(Secret::Env) {
        shown.env = hide(&entry.env);
    }
    if removes(Secret::Headers) || settings.headers_write_only {
        shown.headers = hide(&entry.headers);
    }
    let (userinfo, query) = (removes(Secret::UrlUserinfo), removes(Secret::UrlQuery));
    shown.url = entry.url.as_ref().map(|url| links::clean(url, userinfo, query));
    if let Some(secret) = shown.auth.as_mut().and_then(|auth| auth.get_mut("client_secret")) {
        *secret = Value::from(REMOVED);
    }
    serde_json::to_value(&shown).unwrap_or_else(|_| json!({"name": entry.name}))
}

#[cfg(test)]
mod tests;
