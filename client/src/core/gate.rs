//! What a client may send to a server with given capabilities, in a given revision.

use super::Negotiated;
use serde_json::Value;
use sparring_wire::{Revision, meta};

/// `Err` says why the request must not be sent.
pub(super) fn allowed(method: &str, params: Option<&Value>, negotiated: &Negotiated) -> Result<(), String> {
    let revision = negotiated.revision;
    exists(method, revision)?;
    if negotiated.discovered {
        let (capability, held) = needed(method, negotiated);
        if !held {
            return Err(format!(
                "the server did not declare the capability `{capability}`, which {method} needs"
            ));
        }
    }
    let member = |name: &str| params.and_then(|p| p.get(name));
    if method == "logging/setLevel" {
        log_level(member("level").and_then(Value::as_str).unwrap_or_default())?;
    }
    if method == "tools/call" && member("task").is_some() {
        let call = at(negotiated, &["tasks", "requests", "tools", "call"]);
        if revision != Revision::V2025_11_25 || call.is_none() {
            return Err("the server did not declare that tools can be called as tasks".into());
        }
    }
    Ok(())
}

/// The capability that the method needs, and whether the server has it.
fn needed(method: &str, negotiated: &Negotiated) -> (&'static str, bool) {
    let declared = |name: &str| negotiated.capabilities.contains_key(name);
    match method {
        "tools/list" | "tools/call" => ("tools", declared("tools")),
        "resources/list" | "resources/read" | "resources/templates/list" => {
            ("resources", declared("resources"))
        }
        "resources/subscribe" | "resources/unsubscribe" => {
            let held = at(negotiated, &["resources", "subscribe"]).and_then(Value::as_bool) == Some(true);
            ("resources.subscribe", held)
        }
        "prompts/list" | "prompts/get" => ("prompts", declared("prompts")),
        "logging/setLevel" => ("logging", declared("logging")),
        // 2024-11-05 has the method, but no capability for it.
        "completion/complete" if negotiated.revision > Revision::V2024_11_05 => {
            ("completions", declared("completions"))
        }
        "tasks/get" | "tasks/cancel" | "tasks/update" if negotiated.revision.is_stateless() => {
            (meta::TASKS_EXTENSION, at(negotiated, &["extensions", meta::TASKS_EXTENSION]).is_some())
        }
        "tasks/list" => ("tasks.list", at(negotiated, &["tasks", "list"]).is_some()),
        "tasks/cancel" => ("tasks.cancel", at(negotiated, &["tasks", "cancel"]).is_some()),
        "tasks/get" | "tasks/result" => ("tasks", declared("tasks")),
        _ => ("", true),
    }
}

fn at<'a>(negotiated: &'a Negotiated, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(negotiated.capabilities.get(*first)?, |value, name| value.get(*name))
}

/// Methods of which some revision has none.
fn exists(method: &str, revision: Revision) -> Result<(), String> {
    let stateless = revision.is_stateless();
    let known = match method {
        // The core shakes hands by itself, and once.
        "initialize" => return Err("a connection is opened by one handshake, which is over".into()),
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => !stateless,
        "server/discover" => stateless,
        "subscriptions/listen" => {
            return Err("subscriptions are made by listening, not by a plain request".into());
        }
        "tasks/update" => stateless,
        "tasks/list" | "tasks/result" => revision == Revision::V2025_11_25,
        "tasks/get" | "tasks/cancel" => revision >= Revision::V2025_11_25,
        _ => true,
    };
    if known { Ok(()) } else { Err(format!("{method} does not exist in revision {revision}")) }
}

/// `Err` says why the notification must not be sent.
pub(super) fn may_notify(method: &str, revision: Revision) -> Result<(), String> {
    let known = match method {
        "notifications/initialized" => return Err("the handshake is the client's own business".into()),
        "notifications/roots/list_changed" | "notifications/progress" => !revision.is_stateless(),
        _ => true,
    };
    if known { Ok(()) } else { Err(format!("{method} does not exist in revision {revision}")) }
}

/// `Err` if there is no such level.
pub(super) fn log_level(level: &str) -> Result<(), String> {
    match meta::LOG_LEVELS.contains(&level) {
        true => Ok(()),
        false => Err(format!("{level:?} is no log level")),
    }
}
