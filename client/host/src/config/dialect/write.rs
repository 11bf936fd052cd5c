//! Writing an entry.

use super::Dialect;
use crate::entry::{Kind, ServerEntry};
use crate::error::HostError;
use serde_json::{Map, Value};
use sparring_profiles::{Neutral, ProfileTransport};

pub(super) fn entry(dialect: &Dialect, entry: &ServerEntry) -> Result<Map<String, Value>, HostError> {
    let mut written = Map::new();
    let mut set = |field: Neutral, value: Option<Value>| {
        let Some(value) = value else { return Ok(()) };
        let name = dialect.names(field).first().ok_or_else(|| {
            HostError::Config(format!(
                "{}: this host's configuration has no word for {}",
                entry.name,
                word(field)
            ))
        })?;
        written.insert(name.clone(), value);
        Ok(())
    };
    let list = |list: &[String]| (!list.is_empty()).then(|| Value::from(list.to_vec()));
    let flag = |flag: bool| flag.then_some(Value::Bool(true));
    if let Some(kind) = entry.kind.or_else(|| entry.transport().filter(|kind| *kind != Kind::Stdio)) {
        let transport = match kind {
            Kind::Stdio => ProfileTransport::Stdio,
            Kind::Http => ProfileTransport::Http,
            Kind::Sse => ProfileTransport::Sse,
        };
        let spelling = dialect.settings.types.get(&transport).and_then(|spellings| spellings.first());
        // Where it is inferred, it need not be said.
        let silent =
            dialect.names(Neutral::Type).is_empty() && dialect.settings.infers_type && kind != Kind::Sse;
        match spelling {
            _ if silent => {}
            Some(spelling) => set(Neutral::Type, Some(spelling.clone().into()))?,
            None => {
                return Err(HostError::Config(format!(
                    "{}: this host's configuration has no word for the transport",
                    entry.name
                )));
            }
        }
    } else if !dialect.settings.infers_type {
        let spelling =
            dialect.settings.types.get(&ProfileTransport::Stdio).and_then(|spellings| spellings.first());
        set(Neutral::Type, spelling.map(|spelling| spelling.clone().into()))?;
    }
    match (&entry.command, dialect.names(Neutral::Command).is_empty()) {
        (Some(command), true) => {
            let argv: Vec<String> = std::iter::once(command).chain(&entry.args).cloned().collect();
            set(Neutral::Argv, Some(argv.into()))?;
        }
        (command, _) => {
            set(Neutral::Command, command.clone().map(Value::from))?;
            set(Neutral::Args, list(&entry.args))?;
        }
    }
    let words = |map: &std::collections::BTreeMap<String, String>| {
        let map: Map<String, Value> = map.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
        (!map.is_empty()).then_some(Value::Object(map))
    };
    set(Neutral::Url, entry.url.clone().map(Value::from))?;
    set(Neutral::Env, words(&entry.env))?;
    set(Neutral::EnvPass, list(&entry.env_pass))?;
    set(Neutral::StrictEnv, flag(entry.strict_env))?;
    set(Neutral::Cwd, entry.cwd.clone().map(Value::from))?;
    set(Neutral::Headers, words(&entry.headers))?;
    set(Neutral::HeaderEnv, words(&entry.header_env))?;
    set(Neutral::BearerEnv, entry.bearer_env.clone().map(Value::from))?;
    set(Neutral::Enabled, entry.enabled.map(Value::from))?;
    set(Neutral::Required, flag(entry.required))?;
    set(Neutral::Allow, entry.allow.clone().map(Value::from))?;
    set(Neutral::Deny, list(&entry.deny))?;
    set(Neutral::StartupTimeout, entry.startup_timeout.map(Value::from))?;
    set(Neutral::ToolTimeout, entry.tool_timeout.map(Value::from))?;
    let per_tool: Map<String, Value> =
        entry.per_tool_timeout.iter().map(|(tool, seconds)| (tool.clone(), (*seconds).into())).collect();
    set(Neutral::PerToolTimeout, (!per_tool.is_empty()).then_some(Value::Object(per_tool)))?;
    set(Neutral::Disclosure, entry.disclosure.and_then(|mode| serde_json::to_value(mode).ok()))?;
    set(Neutral::SuppliedTools, entry.supplied_tools.clone().map(Value::from))?;
    set(Neutral::LazyConnect, flag(entry.lazy_connect))?;
    set(Neutral::Shared, entry.shared.map(Value::from))?;
    set(Neutral::Auth, entry.auth.clone())?;
    set(Neutral::Policy, (!entry.policy.is_empty()).then(|| Value::Object(entry.policy.clone())))?;
    Ok(written)
}

/// The neutral name of a field.
fn word(field: Neutral) -> String {
    serde_json::to_value(field).ok().and_then(|v| v.as_str().map(|s| format!("`{s}`"))).unwrap_or_default()
}
