//! A rough look at whether what a script spells out could be a valid message, so that what can't be is marked as a
//! scripted fault. The judge has the fine rules; this only asks for the members that a method can't do without.

mod rounds;

pub(crate) use rounds::error;

use serde_json::Value;
use sparring_wire::Revision;

/// Whether `result` could be a result of `method`.
pub(crate) fn result(method: &str, result: &Value, revision: Revision) -> bool {
    if revision.is_stateless()
        && let Some(decided) = rounds::stateless(method, result)
    {
        return decided;
    }
    // A request that asked for a task got one.
    if method == "tools/call" && revision == Revision::V2025_11_25 && result.get("task").is_some() {
        return rounds::task(&result["task"], revision);
    }
    let each = |key: &str, member: &dyn Fn(&Value) -> bool| {
        result[key].as_array().is_some_and(|items| items.iter().all(member))
    };
    let object = |key: &str| result[key].is_object();
    let cursor = || result.get("nextCursor").is_none_or(Value::is_string);
    result.is_object()
        && match method {
            "initialize" => {
                result["protocolVersion"].is_string()
                    && object("capabilities")
                    && object("serverInfo")
                    && result["serverInfo"]["name"].is_string()
                    && result["serverInfo"]["version"].is_string()
            }
            "tools/list" => each("tools", &|t| tool(t, revision)) && cursor(),
            "tools/call" => {
                each("content", &|c| content(c, revision))
                    && result.get("isError").is_none_or(Value::is_boolean)
                    && (revision.is_stateless()
                        || result.get("structuredContent").is_none_or(Value::is_object))
            }
            "server/discover" => {
                object("capabilities")
                    && each("supportedVersions", &Value::is_string)
                    && result.get("instructions").is_none_or(Value::is_string)
            }
            "subscriptions/listen" => {
                let id = &result["_meta"][sparring_wire::meta::SUBSCRIPTION_ID];
                id.is_string() || id.is_i64()
            }
            "tasks/get" if revision.is_stateless() => rounds::whole_task(result),
            "tasks/get" | "tasks/cancel" if !revision.is_stateless() => rounds::task(result, revision),
            "tasks/list" => each("tasks", &|t| rounds::task(t, revision)) && cursor(),
            "resources/list" => {
                each("resources", &|r| r["uri"].is_string() && r["name"].is_string()) && cursor()
            }
            "resources/templates/list" => {
                each("resourceTemplates", &|t| t["uriTemplate"].is_string() && t["name"].is_string())
                    && cursor()
            }
            "resources/read" => each("contents", &contents),
            "prompts/list" => {
                each("prompts", &|p| {
                    let argument = |a: &Value| a["name"].is_string();
                    p["name"].is_string()
                        && p.get("arguments")
                            .is_none_or(|a| a.as_array().is_some_and(|a| a.iter().all(argument)))
                }) && cursor()
            }
            "prompts/get" => each("messages", &|m| {
                matches!(m["role"].as_str(), Some("user" | "assistant")) && content(&m["content"], revision)
            }),
            "completion/complete" => {
                let values = &result["completion"]["values"];
                values.as_array().is_some_and(|v| v.len() <= 100 && v.iter().all(Value::is_string))
            }
            _ => true,
        }
}

fn tool(tool: &Value, revision: Revision) -> bool {
    let schema = |schema: &Value| schema["type"] == "object";
    let output = |given: &Value| if revision.is_stateless() { given.is_object() } else { schema(given) };
    let string = |key: &str| tool.get(key).is_none_or(Value::is_string);
    tool["name"].is_string()
        && schema(&tool["inputSchema"])
        && string("description")
        && (revision < Revision::V2025_06_18
            || string("title") && tool.get("outputSchema").is_none_or(output))
        && tool.get("annotations").is_none_or(Value::is_object)
        && tool.get("icons").is_none_or(icons)
        && (revision != Revision::V2025_11_25
            || tool.get("execution").is_none_or(|e| {
                let support = e.get("taskSupport").map(Value::as_str);
                matches!(support, None | Some(Some("forbidden" | "optional" | "required")))
            }))
}

fn icons(icons: &Value) -> bool {
    icons.as_array().is_some_and(|icons| icons.iter().all(|icon| icon["src"].is_string()))
}

/// The contents of a resource.
fn contents(contents: &Value) -> bool {
    contents["uri"].is_string()
        && (contents["text"].is_string() || contents["blob"].as_str().is_some_and(is_base64))
        && contents.get("mimeType").is_none_or(Value::is_string)
}

/// A content block.
fn content(block: &Value, revision: Revision) -> bool {
    let media = || block["data"].as_str().is_some_and(is_base64) && block["mimeType"].is_string();
    match block["type"].as_str() {
        Some("text") => block["text"].is_string(),
        Some("image") => media(),
        Some("audio") => revision >= Revision::V2025_03_26 && media(),
        Some("resource") => contents(&block["resource"]),
        Some("resource_link") => {
            revision >= Revision::V2025_06_18 && block["uri"].is_string() && block["name"].is_string()
        }
        _ => false,
    }
}

fn is_base64(text: &str) -> bool {
    text.len().is_multiple_of(4)
        // In pieces that are looked at as a whole: blobs are long.
        && text.trim_end_matches('=').as_bytes().chunks(64).all(|piece| {
            let fits = |b: &u8| b.is_ascii_alphanumeric() | (*b == b'+') | (*b == b'/');
            piece.iter().fold(true, |good, b| good & fits(b))
        })
        && text.len() - text.trim_end_matches('=').len() <= 2
}

/// Whether a request or notification of the server's could be valid.
pub(crate) fn own(method: &str, params: Option<&Value>, request: bool, revision: Revision) -> bool {
    if params.is_some_and(|p| !p.is_object()) {
        return false;
    }
    let params = params.unwrap_or(&Value::Null);
    let id = |value: &Value| value.is_string() || value.is_i64();
    match (method, request) {
        // The stateless revision has no requests of the server's.
        (_, true) if revision.is_stateless() => false,
        ("ping", true) => true,
        ("roots/list" | "sampling/createMessage" | "elicitation/create", true) => {
            rounds::question(method, params, revision)
        }
        ("tasks/get" | "tasks/result" | "tasks/cancel", true) => {
            revision == Revision::V2025_11_25 && params["taskId"].is_string()
        }
        ("tasks/list", true) => revision == Revision::V2025_11_25,
        ("notifications/subscriptions/acknowledged", false) => {
            revision.is_stateless() && params["notifications"].is_object()
        }
        ("notifications/tasks", false) => revision.is_stateless() && rounds::whole_task(params),
        (
            "notifications/tools/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed",
            false,
        ) => true,
        ("notifications/cancelled", false) => id(&params["requestId"]),
        ("notifications/progress", false) => id(&params["progressToken"]) && params["progress"].is_number(),
        ("notifications/message", false) => params["level"].is_string() && params.get("data").is_some(),
        ("notifications/resources/updated", false) => params["uri"].is_string(),
        ("notifications/elicitation/complete", false) => {
            revision == Revision::V2025_11_25 && params["elicitationId"].is_string()
        }
        ("notifications/tasks/status", false) => {
            revision == Revision::V2025_11_25 && rounds::task(params, revision)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_shapes_are_told_from_right_ones() {
        let newest = Revision::V2025_11_25;
        assert!(result("tools/call", &json!({"content": []}), newest));
        assert!(!result("tools/call", &json!({}), newest));
        assert!(!result("tools/call", &json!({"content": [{"type": "text"}]}), newest));
        assert!(!result(
            "tools/call",
            &json!({"content": [{"type": "image", "data": "!", "mimeType": "a/b"}]}),
            newest
        ));
        let link = json!({"content": [{"type": "resource_link", "uri": "a:b", "name": "b"}]});
        assert!(result("tools/call", &link, newest));
        assert!(!result("tools/call", &link, Revision::V2025_03_26));
        assert!(!result("tools/list", &json!({"tools": [{"name": "a"}]}), newest));
        assert!(!result("tools/list", &json!({"tools": [], "nextCursor": 7}), newest));
        assert!(!result("initialize", &json!({"protocolVersion": 1}), newest));
        assert!(own("ping", None, true, newest));
        assert!(!own("ping", None, false, newest));
        assert!(!own("no/such", None, true, newest));
        assert!(!own("ping", Some(&json!([])), true, newest));
        assert!(!own("elicitation/create", Some(&json!({"message": "x"})), true, Revision::V2025_03_26));
    }
}
