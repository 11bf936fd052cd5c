//! The header fields of 2026-07-28 that repeat what is in the body.

use crate::library::decode_base64;
use serde_json::Value;
use sparring_wire::transcript::HttpRequest;

/// The first field of that name, which has to be in lower case.
pub(super) fn field<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

/// Whether the fields agree with a request; why they don't. `schema` is the `inputSchema` of the tool that is called.
pub(super) fn check(
    request: &HttpRequest,
    method: &str,
    params: &Value,
    schema: Option<&Value>,
) -> Result<(), String> {
    match field(request, "mcp-method") {
        None => return Err("Mcp-Method is missing".into()),
        Some(header) if header != method => {
            return Err(format!("Mcp-Method is `{header}`, but the body says `{method}`"));
        }
        Some(_) => {}
    }
    let source = match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    };
    // Without a value in the body the params are invalid, which is for others to say.
    if let Some(value) = source.and_then(|source| params[source].as_str()) {
        let header = field(request, "mcp-name").ok_or("Mcp-Name is missing")?;
        if decode(header)? != value {
            return Err(format!("Mcp-Name is `{header}`, but the body says `{value}`"));
        }
    }
    for (name, path) in schema.map(annotations).unwrap_or_default() {
        let name = format!("Mcp-Param-{name}");
        let value = path.iter().try_fold(params.get("arguments").unwrap_or(&Value::Null), |at, k| at.get(k));
        let header = field(request, &name.to_ascii_lowercase());
        match (value.filter(|v| !v.is_null()), header) {
            (None, None) => {}
            (None, Some(_)) => return Err(format!("{name} is there, but the body has no value for it")),
            (Some(_), None) => return Err(format!("{name} is missing")),
            (Some(value), Some(header)) => {
                if !agrees(&decode(header)?, value) {
                    return Err(format!("{name} is `{header}`, but the body says {value}"));
                }
            }
        }
    }
    Ok(())
}

/// The value that a field stands for, which may be written in Base64.
fn decode(header: &str) -> Result<String, String> {
    let bad = || format!("`{header}` holds characters that have to be encoded");
    match header.strip_prefix("=?base64?").and_then(|h| h.strip_suffix("?=")) {
        Some(encoded) => decode_base64(encoded)
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| format!("`{header}` is not Base64 of UTF-8")),
        None if header.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~')) => Ok(header.to_owned()),
        None => Err(bad()),
    }
}

fn agrees(header: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => header == text,
        Value::Bool(value) => header == if *value { "true" } else { "false" },
        // `42.0` and `42` are the same number.
        Value::Number(number) => {
            header == number.to_string()
                || header.parse::<i64>().is_ok_and(|h| Some(h) == number.as_i64())
                || (header.contains('.') && header.parse::<f64>().ok() == number.as_f64())
        }
        _ => false,
    }
}

/// The annotated properties of a schema that clients have to mirror: the name and the path. What is annotated wrongly
/// makes clients leave the tool out, so that nothing is to be checked.
fn annotations(schema: &Value) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut path = Vec::new();
    walk(schema, &mut path, &mut found);
    found
}

/// Deeper schemas are not looked into.
const MAX_DEPTH: usize = 32;

fn walk(schema: &Value, path: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    let Some(properties) = schema["properties"].as_object().filter(|_| path.len() < MAX_DEPTH) else {
        return;
    };
    for (key, property) in properties {
        path.push(key.clone());
        if let Some(name) = property["x-mcp-header"].as_str() {
            found.push((name.to_owned(), path.clone()));
        }
        walk(property, path, found);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_decoded_before_they_are_compared() {
        assert_eq!(decode("us-west1").unwrap(), "us-west1");
        assert_eq!(decode("=?base64?SGVsbG8sIOS4lueVjA==?=").unwrap(), "Hello, 世界");
        assert_eq!(decode("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=").unwrap(), "=?base64?literal?=");
        assert!(decode("=?base64?!?=").is_err());
        assert!(decode("世界").is_err());
        assert_eq!(decode("=?BASE64?IA==?=").unwrap(), "=?BASE64?IA==?=", "the markers have one spelling");
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(agrees("42", &json!(42)));
        assert!(agrees("42.0", &json!(42)));
        assert!(agrees("9007199254740991", &json!(9_007_199_254_740_991_i64)));
        assert!(!agrees("9007199254740992", &json!(9_007_199_254_740_993_i64)));
        assert!(!agrees("True", &json!(true)));
        assert!(!agrees("\"a\"", &json!("a")));
    }

    #[test]
    fn only_properties_lead_to_an_annotation() {
        let schema = json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "A"},
            "b": {"properties": {"c": {"x-mcp-header": "C"}}},
            "d": {"items": {"properties": {"e": {"x-mcp-header": "E"}}}},
        }});
        let found = annotations(&schema);
        assert_eq!(found, [("A".into(), vec!["a".into()]), ("C".into(), vec!["b".into(), "c".into()])]);
    }
}
