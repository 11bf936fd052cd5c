//! Which requests a client may send to a server with given capabilities.

use super::Negotiated;
use serde_json::Value;
use sparring_wire::Revision;

/// `Err` says why the request must not be sent.
pub(super) fn allowed(method: &str, params: Option<&Value>, negotiated: &Negotiated) -> Result<(), String> {
    let declared = |name: &str| negotiated.capabilities.contains_key(name);
    let (capability, held) = match method {
        "tools/list" | "tools/call" => ("tools", declared("tools")),
        "resources/list" | "resources/read" | "resources/templates/list" => {
            ("resources", declared("resources"))
        }
        "resources/subscribe" | "resources/unsubscribe" => {
            let resources = negotiated.capabilities.get("resources");
            let held = resources.and_then(|r| r.get("subscribe")).and_then(Value::as_bool) == Some(true);
            ("resources.subscribe", held)
        }
        "prompts/list" | "prompts/get" => ("prompts", declared("prompts")),
        "logging/setLevel" => ("logging", declared("logging")),
        // 2024-11-05 has the method, but no capability for it.
        "completion/complete" if negotiated.revision > Revision::V2024_11_05 => {
            ("completions", declared("completions"))
        }
        _ => ("", true),
    };
    if !held {
        return Err(format!(
            "the server did not declare the capability `{capability}`, which {method} needs"
        ));
    }
    if method == "logging/setLevel" {
        const LEVELS: [&str; 8] =
            ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let level = params.and_then(|p| p.get("level")).and_then(Value::as_str).unwrap_or_default();
        if !LEVELS.contains(&level) {
            return Err(format!("{level:?} is no log level"));
        }
    }
    Ok(())
}
