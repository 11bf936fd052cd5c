//! The shapes of questions to the client, of tasks, and of errors.

use super::{content, is_base64, tool};
use serde_json::Value;
use sparring_wire::jsonrpc::codes;
use sparring_wire::{Revision, meta};

/// Whether `error` (the member of an error answer) could be sent in `revision`.
pub(crate) fn error(error: &Value, revision: Revision) -> bool {
    let Some(code) = error["code"].as_i64() else { return false };
    let data = &error["data"];
    error["message"].is_string()
        && match code {
            codes::URL_ELICITATION_REQUIRED => {
                revision == Revision::V2025_11_25
                    && data["elicitations"]
                        .as_array()
                        .is_some_and(|all| all.iter().all(|e| e["mode"] == "url" && elicitation(e, revision)))
            }
            // Codes of the stateless revision mean nothing before it, where any server may have used them.
            _ if !revision.is_stateless() => true,
            codes::RESOURCE_NOT_FOUND => false,
            codes::HEADER_MISMATCH => true,
            codes::MISSING_CLIENT_CAPABILITY => data["requiredCapabilities"].is_object(),
            codes::UNSUPPORTED_PROTOCOL_VERSION => {
                data["requested"].is_string()
                    && data["supported"].as_array().is_some_and(|v| v.iter().all(Value::is_string))
            }
            -32099..=-32020 => false,
            _ => true,
        }
}

/// Whether a result of the stateless revision has what all of them have, and is of a type that the method can have.
/// `None` where the method's own shape decides.
pub(super) fn stateless(method: &str, result: &Value) -> Option<bool> {
    let kind = result["resultType"].as_str();
    let info = &result["_meta"][meta::SERVER_INFO];
    let info_fits = info.is_null() || info["name"].is_string() && info["version"].is_string();
    let fields_fit = result.get("_meta").is_none_or(Value::is_object) && info_fits;
    match kind {
        _ if !fields_fit => Some(false),
        Some("complete") if crate::core::era::CACHEABLE.contains(&method) => {
            let scope = matches!(result["cacheScope"].as_str(), Some("public" | "private"));
            (!(scope && result["ttlMs"].is_u64())).then_some(false)
        }
        Some("complete") => None,
        Some("input_required") => Some(
            crate::core::era::ASKING.contains(&method)
                && (result.get("inputRequests").is_some() || result.get("requestState").is_some())
                && result.get("inputRequests").is_none_or(questions)
                && result.get("requestState").is_none_or(Value::is_string)
                && result.get("ttlMs").is_none(),
        ),
        Some("task") => Some(method == "tools/call" && task(result, Revision::STATELESS)),
        _ => Some(false),
    }
}

/// Questions of the stateless revision, by key.
fn questions(requests: &Value) -> bool {
    requests.as_object().is_some_and(|requests| {
        requests.values().all(|request| {
            let params = request.get("params").unwrap_or(&Value::Null);
            question(request["method"].as_str().unwrap_or_default(), params, Revision::STATELESS)
        })
    })
}

/// Whether the client may be asked this.
pub(super) fn question(method: &str, params: &Value, revision: Revision) -> bool {
    match method {
        "roots/list" => true,
        "sampling/createMessage" => sampling(params, revision),
        "elicitation/create" => revision >= Revision::V2025_06_18 && elicitation(params, revision),
        _ => false,
    }
}

fn sampling(params: &Value, revision: Revision) -> bool {
    let message = |message: &Value| {
        let block = |block: &Value| match block["type"].as_str() {
            Some("tool_use") => {
                revision >= Revision::V2025_11_25
                    && block["id"].is_string()
                    && block["name"].is_string()
                    && block["input"].is_object()
            }
            Some("tool_result") => {
                revision >= Revision::V2025_11_25
                    && block["toolUseId"].is_string()
                    && block["content"].as_array().is_some_and(|c| c.iter().all(|c| content(c, revision)))
            }
            Some("text") => block["text"].is_string(),
            Some("image") => block["data"].as_str().is_some_and(is_base64) && block["mimeType"].is_string(),
            Some("audio") => {
                revision >= Revision::V2025_03_26
                    && block["data"].as_str().is_some_and(is_base64)
                    && block["mimeType"].is_string()
            }
            _ => false,
        };
        let fits = match &message["content"] {
            Value::Array(blocks) => revision >= Revision::V2025_11_25 && blocks.iter().all(block),
            one => block(one),
        };
        matches!(message["role"].as_str(), Some("user" | "assistant")) && fits
    };
    let newer = |key: &str| revision >= Revision::V2025_11_25 || params.get(key).is_none();
    params["messages"].as_array().is_some_and(|all| all.iter().all(message))
        && params["maxTokens"].is_i64()
        && params.get("systemPrompt").is_none_or(Value::is_string)
        && params
            .get("tools")
            .is_none_or(|t| t.as_array().is_some_and(|tools| tools.iter().all(|t| tool(t, revision))))
        && newer("tools")
        && newer("toolChoice")
}

fn elicitation(params: &Value, revision: Revision) -> bool {
    params["message"].is_string()
        && match params.get("mode").map(Value::as_str) {
            Some(Some("url")) => {
                revision >= Revision::V2025_11_25
                    && params["url"].is_string()
                    && (revision.is_stateless() || params["elicitationId"].is_string())
            }
            None | Some(Some("form")) => form(&params["requestedSchema"], revision),
            Some(_) => false,
        }
}

/// A form: a flat object of primitive properties.
fn form(schema: &Value, revision: Revision) -> bool {
    schema["type"] == "object"
        && schema["properties"].as_object().is_some_and(|all| all.values().all(|p| primitive(p, revision)))
        && schema.get("required").is_none_or(|r| r.as_array().is_some_and(|r| r.iter().all(Value::is_string)))
}

fn primitive(property: &Value, revision: Revision) -> bool {
    let strings = |value: &Value| value.as_array().is_some_and(|v| v.iter().all(Value::is_string));
    let titled = |value: &Value| {
        let option = |o: &Value| o["const"].is_string() && o["title"].is_string();
        value.as_array().is_some_and(|v| v.iter().all(option))
    };
    let default = |fits: fn(&Value) -> bool| property.get("default").is_none_or(fits);
    let count = |key: &str| property.get(key).is_none_or(Value::is_u64);
    let number = |key: &str| property.get(key).is_none_or(Value::is_number);
    match property["type"].as_str() {
        Some("string") => {
            let newer = property.get("oneOf").is_none_or(|o| revision >= Revision::V2025_11_25 && titled(o));
            property.get("enum").is_none_or(strings)
                && property.get("enumNames").is_none_or(strings)
                && newer
                && default(Value::is_string)
                && count("minLength")
                && count("maxLength")
                && property
                    .get("format")
                    .is_none_or(|f| matches!(f.as_str(), Some("date" | "date-time" | "email" | "uri")))
        }
        Some("number" | "integer") => default(Value::is_number) && number("minimum") && number("maximum"),
        Some("boolean") => default(Value::is_boolean),
        Some("array") => {
            let items = &property["items"];
            revision >= Revision::V2025_11_25
                && (items["type"] == "string" && strings(&items["enum"]) || titled(&items["anyOf"]))
                && property.get("default").is_none_or(strings)
                && count("minItems")
                && count("maxItems")
        }
        _ => false,
    }
}

/// A task of 2025-11-25, or one of the extension with what its status brings.
pub(super) fn task(task: &Value, revision: Revision) -> bool {
    let stateless = revision.is_stateless();
    let (ttl, interval) = if stateless { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
    let status = task["status"].as_str().unwrap_or_default();
    task["taskId"].is_string()
        && matches!(status, "working" | "input_required" | "completed" | "failed" | "cancelled")
        && task["createdAt"].is_string()
        && task["lastUpdatedAt"].is_string()
        && task.get(ttl).is_some_and(|t| t.is_u64() || t.is_null())
        && task.get(interval).is_none_or(Value::is_u64)
        && task.get("statusMessage").is_none_or(Value::is_string)
}

/// A task as the extension shows it to those who ask.
pub(super) fn whole_task(shown: &Value) -> bool {
    task(shown, Revision::STATELESS)
        && match shown["status"].as_str() {
            Some("input_required") => questions(&shown["inputRequests"]),
            Some("completed") => shown["result"].is_object(),
            Some("failed") => error(&shown["error"], Revision::STATELESS),
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MODERN: Revision = Revision::STATELESS;

    #[test]
    fn codes_belong_to_their_revisions() {
        let of = |code: i64, data: Value| json!({"code": code, "message": "m", "data": data});
        assert!(error(&of(-32002, json!({})), Revision::V2025_11_25));
        assert!(!error(&of(-32002, json!({})), MODERN));
        assert!(!error(&of(-32050, json!({})), MODERN));
        assert!(!error(&of(-32022, json!({"supported": []})), MODERN));
        assert!(error(&of(-32022, json!({"supported": [], "requested": "x"})), MODERN));
        let url = json!({"mode": "url", "message": "m", "url": "https://a.b", "elicitationId": "e"});
        let required = of(-32042, json!({"elicitations": [url]}));
        assert!(error(&required, Revision::V2025_11_25));
        assert!(!error(&required, MODERN) && !error(&required, Revision::V2025_06_18));
        assert!(!error(&of(-32042, json!({"elicitations": [{"mode": "form"}]})), Revision::V2025_11_25));
    }

    #[test]
    fn forms_are_flat_and_grow_with_the_revisions() {
        let form = |property: Value, revision| {
            let schema = json!({"type": "object", "properties": {"p": property}});
            elicitation(&json!({"message": "m", "requestedSchema": schema}), revision)
        };
        let titled = json!([{"const": "a", "title": "A"}]);
        let many = json!({"type": "array", "items": {"anyOf": titled.clone()}});
        assert!(form(json!({"type": "string", "enum": ["a"], "enumNames": ["A"]}), Revision::V2025_06_18));
        assert!(!form(many.clone(), Revision::V2025_06_18));
        assert!(form(many, MODERN));
        assert!(form(json!({"type": "string", "oneOf": titled}), Revision::V2025_11_25));
        assert!(!form(json!({"type": "object", "properties": {}}), MODERN));
        assert!(!form(json!({"type": "string", "format": "uuid"}), MODERN));
        assert!(!form(json!({"type": "boolean", "default": "yes"}), MODERN));
    }

    #[test]
    fn a_result_of_the_stateless_revision_says_what_it_is() {
        let fits = |method: &str, result: Value| crate::shape::result(method, &result, MODERN);
        let list = |extra: Value| {
            let mut list =
                json!({"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
            list.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            list
        };
        assert!(fits("tools/list", list(json!({}))));
        assert!(!fits("tools/list", list(json!({"ttlMs": -1}))));
        assert!(!fits("tools/list", list(json!({"cacheScope": "tenant"}))));
        assert!(!fits("tools/list", json!({"tools": []})));
        assert!(!fits("tools/list", json!({"resultType": "input_required", "requestState": "s"})));
        assert!(fits("tools/call", json!({"resultType": "input_required", "requestState": "s"})));
        assert!(!fits("tools/call", json!({"resultType": "input_required"})));
        let ask = |method: &str| json!({"resultType": "input_required", "inputRequests": {"k": {"method": method}}});
        assert!(fits("tools/call", ask("roots/list")));
        assert!(!fits("tools/call", ask("acme/do")));
        assert!(!fits("tools/call", json!({"resultType": "partial", "content": []})));
        assert!(fits(
            "tools/call",
            json!({"resultType": "complete", "content": [], "structuredContent": null})
        ));
    }
}
