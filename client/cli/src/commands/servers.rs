//! Configured servers: add, list, get, remove. None of this contacts a server.

use crate::app::App;
use crate::args::Add;
use crate::failure::{Code, Failure};
use crate::output::{self, Table};
use serde_json::{Map, Value, json};
use sparring_host::ServerEntry;
use sparring_host::config::{self, Scope, listing};
use sparring_host::entry::Kind;
use sparring_host::redact::REMOVED;
use std::collections::BTreeMap;
use url::Url;

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(Code::Usage, message)
}

fn scope(app: &App, project: bool) -> Result<Scope, Failure> {
    match (&app.global.config, project) {
        (Some(_), true) => Err(usage("--config and --project name two files; one is enough")),
        (Some(file), false) => Ok(Scope::File(file.clone())),
        (None, true) => Ok(Scope::Project),
        (None, false) => Ok(Scope::User),
    }
}

pub(super) fn add(app: &App, add: Add) -> Result<(), Failure> {
    if add.name.is_empty() || add.name.chars().any(char::is_control) {
        return Err(usage(
            "the name of a server is at least one character, none of them a control character",
        ));
    }
    if let Some(url) = &add.url {
        let parsed =
            Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        // A variable may still have to be filled in.
        if parsed.is_none() && !url.contains('$') {
            return Err(usage("--url needs an http:// or https:// URL"));
        }
    }
    let scope = scope(app, add.project)?;
    let mut command = add.command.into_iter();
    let entry = ServerEntry {
        name: add.name,
        command: command.next(),
        args: command.collect(),
        env: add.env.into_iter().collect(),
        env_pass: add.env_pass,
        cwd: add.cwd,
        kind: add.url.as_ref().map(|_| if add.sse { Kind::Sse } else { Kind::Http }),
        url: add.url,
        headers: add.headers.into_iter().collect(),
        bearer_env: add.bearer_token_env_var,
        ..ServerEntry::default()
    };
    // An unreadable file is told by the edit itself, which also reads files that are not there yet.
    let before = app.load().ok();
    let file = config::add(&app.settings, &app.around, &scope, &entry)?;
    let known = before.iter().flat_map(|loaded| &loaded.entries);
    let replaced = known.into_iter().any(|e| e.name == entry.name && e.source.file.as_ref() == Some(&file));
    let word = if replaced { "replaced" } else { "added" };
    if app.global.json {
        output::json(&json!({"name": entry.name, "file": file, "replaced": replaced}));
    } else {
        output::line(&format!("{word} {} in {}", entry.name, file.display()));
    }
    Ok(())
}

pub(super) fn remove(app: &App, name: &str, project: bool) -> Result<(), Failure> {
    let scope = scope(app, project)?;
    let Some(file) = config::remove(&app.settings, &app.around, &scope, name)? else {
        let elsewhere =
            app.load().ok().and_then(|loaded| loaded.entries.into_iter().find(|e| e.name == name));
        let failure = Failure::new(Code::NotFound, format!("there is no server {name:?} to remove"));
        return Err(
            match elsewhere.and_then(|entry| entry.source.file.map(|file| (entry.source.project, file))) {
                Some((true, file)) if !project => {
                    failure.hint(format!("there is one in {}; `--project` removes it", file.display()))
                }
                Some((_, file)) => failure.hint(format!("there is one in {}", file.display())),
                None => failure,
            },
        );
    };
    if app.global.json {
        output::json(&json!({"name": name, "file": file}));
    } else {
        output::line(&format!("removed {name} from {}", file.display()));
    }
    Ok(())
}

pub(super) const fn transport(entry: &ServerEntry) -> &'static str {
    match entry.kind {
        Some(Kind::Stdio) => "stdio",
        Some(Kind::Http) => "http",
        Some(Kind::Sse) => "sse",
        None if entry.url.is_some() => "http",
        None => "stdio",
    }
}

/// What is started, or where it is: arguments as a shell would need them, URLs without what is secret.
fn target(app: &App, entry: &ServerEntry) -> String {
    let text = match (&entry.url, &entry.command) {
        (Some(url), _) => url.clone(),
        (None, Some(command)) => {
            let words = std::iter::once(command).chain(&entry.args);
            words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        }
        (None, None) => String::new(),
    };
    app.clean(&text)
}

/// A word as a shell needs it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+:,./@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

pub(super) fn list(app: &App) -> Result<(), Failure> {
    let loaded = app.load()?;
    let entries = listing(&app.settings.config, &loaded.entries);
    if app.global.json {
        let mut all: Vec<Value> = entries.iter().map(|entry| shown(app, entry)).collect();
        all.extend(
            loaded
                .faults
                .iter()
                .map(|fault| json!({"name": fault.server, "error": app.clean(&fault.message)})),
        );
        output::json(&all.into());
        return Ok(());
    }
    if entries.is_empty() && loaded.faults.is_empty() {
        output::note("no server is configured; `sparring-client add --help` shows how to add one");
        return Ok(());
    }
    let mut table = Table::new(&["NAME", "TRANSPORT", "SCOPE", "STATE", "TARGET"]);
    for entry in entries {
        let scope = if entry.source.project { "project" } else { "user" };
        let state = if entry.is_on() { "on" } else { "off" };
        table.row([
            entry.name.clone(),
            transport(entry).into(),
            scope.into(),
            state.into(),
            target(app, entry),
        ]);
    }
    for fault in &loaded.faults {
        table.row([fault.server.clone(), "-".into(), "-".into(), "wrong".into(), app.clean(&fault.message)]);
    }
    table.print();
    Ok(())
}

/// An entry without the values of variables and headers.
fn shown(app: &App, entry: &ServerEntry) -> Value {
    let hidden = |map: &BTreeMap<String, String>| -> Option<Value> {
        let map: Map<String, Value> = map.keys().map(|name| (name.clone(), REMOVED.into())).collect();
        (!map.is_empty()).then_some(Value::Object(map))
    };
    let list = |list: &[String]| (!list.is_empty()).then(|| Value::from(list.to_vec()));
    let args: Vec<String> = entry.args.iter().map(|argument| app.clean(argument)).collect();
    let members = [
        ("name", Some(entry.name.as_str().into())),
        ("transport", Some(transport(entry).into())),
        ("scope", Some(if entry.source.project { "project" } else { "user" }.into())),
        ("file", entry.source.file.as_ref().map(|file| file.display().to_string().into())),
        ("enabled", Some(entry.is_on().into())),
        ("required", entry.required.then_some(true.into())),
        ("command", entry.command.as_ref().map(|command| app.clean(command).into())),
        ("args", list(&args)),
        ("cwd", entry.cwd.as_ref().map(|cwd| app.clean(cwd).into())),
        ("env", hidden(&entry.env)),
        ("env_pass", list(&entry.env_pass)),
        ("strict_env", entry.strict_env.then_some(true.into())),
        ("url", entry.url.as_ref().map(|url| app.clean(url).into())),
        ("headers", hidden(&entry.headers)),
        ("header_env", (!entry.header_env.is_empty()).then(|| json!(entry.header_env))),
        ("bearer_env", entry.bearer_env.as_ref().map(|name| name.as_str().into())),
        ("allow", entry.allow.as_ref().map(|names| json!(names))),
        ("deny", list(&entry.deny)),
        ("startup_timeout", entry.startup_timeout.map(Value::from)),
        ("tool_timeout", entry.tool_timeout.map(Value::from)),
    ];
    members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect::<Map<_, _>>()
        .into()
}

pub(super) fn get(app: &App, name: &str) -> Result<(), Failure> {
    let loaded = app.load()?;
    let entry = app.entry(&loaded, name)?;
    let shown = shown(app, &entry);
    if app.global.json {
        output::json(&shown);
        return Ok(());
    }
    for (member, value) in shown.as_object().into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Array(words) => {
                words.iter().filter_map(Value::as_str).map(quoted).collect::<Vec<_>>().join(" ")
            }
            Value::Object(map) => map
                .iter()
                .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
                .collect::<Vec<_>>()
                .join(" "),
            other => other.to_string(),
        };
        output::line(&format!("{member:<16} {}", output::one_line(&text)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_as_a_shell_needs_them() {
        for (word, shown) in [
            ("a-b/c", "a-b/c"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
            ("é", "é"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
