//! The header fields of the stateless revision that repeat what is in the body.

use base64::Engine as _;
use serde_json::{Map, Value};
use sparring_wire::Revision;

/// Names of header fields, with values that are safe to send.
pub type Headers = Vec<(String, String)>;

/// The fields that each request has, and those that its method asks for.
pub(super) fn standard(revision: Revision, method: &str, params: Option<&Value>) -> Headers {
    let mut headers = vec![
        ("MCP-Protocol-Version".to_owned(), revision.as_str().to_owned()),
        ("Mcp-Method".to_owned(), encode(method)),
    ];
    let source = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return headers,
    };
    if let Some(name) = params.and_then(|p| p.get(source)).and_then(Value::as_str) {
        headers.push(("Mcp-Name".to_owned(), encode(name)));
    }
    headers
}

const OPENING: &str = "=?base64?";
const CLOSING: &str = "?=";

/// A text as the value of a field: as it is if that is safe, otherwise in Base64 between markers.
pub(crate) fn encode(text: &str) -> String {
    let visible = text.bytes().all(|b| matches!(b, b' '..=b'~'));
    let bare = !text.starts_with(' ') && !text.ends_with(' ');
    let marked = text.starts_with(OPENING) && text.ends_with(CLOSING);
    if visible && bare && !marked {
        text.to_owned()
    } else {
        format!("{OPENING}{}{CLOSING}", base64::engine::general_purpose::STANDARD.encode(text))
    }
}

/// A parameter of a tool that is to be repeated in a header field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mirror {
    /// The name of the field.
    header: String,
    /// Where the value is in the arguments.
    path: Vec<String>,
}

/// Schemas nested deeper are not accepted.
const MAX_DEPTH: usize = 64;

/// The parameters that `x-mcp-header` marks in a tool's `inputSchema`. `Err`: why the definition is invalid, so that the
/// tool must not be offered.
pub(crate) fn mirrors(schema: &Value) -> Result<Vec<Mirror>, String> {
    let mut found = Vec::new();
    walk(schema, Some(&mut Vec::new()), 0, &mut found)?;
    Ok(found)
}

/// `path`: the property names that lead here; `None` if anything but `properties` was passed.
fn walk(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    depth: usize,
    found: &mut Vec<Mirror>,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("its inputSchema is nested too deeply".into());
    }
    let Value::Object(schema) = schema else { return Ok(()) };
    if let Some(name) = schema.get("x-mcp-header") {
        let path = path.as_deref().filter(|path| !path.is_empty());
        found.push(annotation(schema, name, path.map(Vec::as_slice), found)?);
    }
    for (keyword, value) in schema {
        match keyword.as_str() {
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    if let Some(path) = path.as_deref_mut() {
                        path.push(name.clone());
                        walk(property, Some(path), depth + 1, found)?;
                        path.pop();
                    } else {
                        walk(property, None, depth + 1, found)?;
                    }
                }
            }
            "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                for inner in value.as_object().into_iter().flat_map(Map::values) {
                    walk(inner, None, depth + 1, found)?;
                }
            }
            // Data, not schemas.
            "default" | "const" | "enum" | "examples" | "x-mcp-header" => {}
            _ => match value {
                Value::Array(items) => {
                    for inner in items {
                        walk(inner, None, depth + 1, found)?;
                    }
                }
                inner => walk(inner, None, depth + 1, found)?,
            },
        }
    }
    Ok(())
}

fn annotation(
    property: &Map<String, Value>,
    name: &Value,
    path: Option<&[String]>,
    found: &[Mirror],
) -> Result<Mirror, String> {
    let Some(name) = name.as_str() else { return Err("x-mcp-header is not a string".into()) };
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("x-mcp-header {name:?} is no name of a header field"));
    }
    let Some(path) = path else {
        return Err(format!("x-mcp-header {name:?} is on something that `properties` alone do not lead to"));
    };
    let primitive = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    let fits = match property.get("type") {
        Some(Value::Array(kinds)) => {
            kinds.iter().any(primitive) && kinds.iter().all(|kind| primitive(kind) || kind == "null")
        }
        Some(kind) => primitive(kind),
        None => false,
    };
    if !fits {
        return Err(format!("x-mcp-header {name:?} is on a parameter that is no string, integer or boolean"));
    }
    let header = format!("Mcp-Param-{name}");
    if found.iter().any(|other| other.header.eq_ignore_ascii_case(&header)) {
        return Err(format!("x-mcp-header {name:?} occurs twice"));
    }
    Ok(Mirror { header, path: path.to_vec() })
}

/// The largest integer that may stand in a header field.
const MAX_SAFE: i64 = (1 << 53) - 1;

/// The header fields for a call with these arguments. `Err`: why it can't be made.
pub(crate) fn mirrored(mirrors: &[Mirror], arguments: &Map<String, Value>) -> Result<Headers, String> {
    let mut headers = Headers::new();
    for Mirror { header, path } in mirrors {
        let mut names = path.iter();
        let first = names.next().and_then(|name| arguments.get(name));
        let value = first.and_then(|first| names.try_fold(first, |at, name| at.get(name)));
        let text = match value {
            Some(Value::String(text)) => encode(text),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(Value::Number(number)) => match integer(number) {
                Some(integer) => integer.to_string(),
                None => {
                    return Err(format!(
                        "the argument {:?} is no integer between -(2^53)+1 and 2^53-1",
                        path.join(".")
                    ));
                }
            },
            _ => continue,
        };
        headers.push((header.clone(), text));
    }
    Ok(headers)
}

#[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
fn integer(number: &serde_json::Number) -> Option<i64> {
    let whole = |f: f64| (f.fract() == 0.0 && f.abs() <= MAX_SAFE as f64).then_some(f as i64);
    number.as_i64().or_else(|| number.as_f64().and_then(whole)).filter(|n| n.abs() <= MAX_SAFE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_safe_goes_as_it_is_and_all_else_in_base64() {
        for (text, encoded) in [
            ("us-west1", "us-west1"),
            ("file:///a b", "file:///a b"),
            ("", ""),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("a\tb", "=?base64?YQli?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("=?BASE64?x?=", "=?BASE64?x?="),
        ] {
            assert_eq!(encode(text), encoded);
        }
    }

    #[test]
    fn methods_say_what_names_them() {
        let of = |method: &str, params: Value| standard(Revision::STATELESS, method, Some(&params));
        let name = |headers: &Headers| headers.iter().find(|(n, _)| n == "Mcp-Name").map(|(_, v)| v.clone());
        assert_eq!(name(&of("tools/call", json!({"name": "a"}))).as_deref(), Some("a"));
        assert_eq!(
            name(&of("resources/read", json!({"uri": "x:é"}))).as_deref(),
            Some("=?base64?eDrDqQ==?=")
        );
        assert_eq!(name(&of("tasks/get", json!({"taskId": "t"}))).as_deref(), Some("t"));
        assert_eq!(name(&of("tools/list", json!({"name": "a"}))), None);
        let first = of("tools/list", json!({}));
        assert_eq!(first[0], ("MCP-Protocol-Version".into(), "2026-07-28".into()));
        assert_eq!(first[1], ("Mcp-Method".into(), "tools/list".into()));
    }

    fn one(property: Value) -> Value {
        json!({"type": "object", "properties": {"p": property}})
    }

    #[test]
    fn an_annotation_in_the_wrong_place_makes_the_tool_invalid() {
        let header = |name: Value| json!({"type": "string", "x-mcp-header": name});
        let good = header(json!("A"));
        let twice = json!({"properties": {"a": header(json!("X")), "b": header(json!("x"))}});
        for (schema, why) in [
            (one(header(json!(""))), "no name"),
            (one(header(json!("a b"))), "no name"),
            (one(header(json!("a:b"))), "no name"),
            (one(header(json!("é"))), "no name"),
            (one(header(json!("a\r\n"))), "no name"),
            (one(header(json!(1))), "not a string"),
            (twice, "twice"),
            (one(json!({"type": "number", "x-mcp-header": "A"})), "no string"),
            (one(json!({"type": "object", "x-mcp-header": "A"})), "no string"),
            (one(json!({"type": "array", "x-mcp-header": "A"})), "no string"),
            (one(json!({"$ref": "#/$defs/x", "x-mcp-header": "A"})), "no string"),
            (one(json!({"type": ["null"], "x-mcp-header": "A"})), "no string"),
            (one(json!({"type": "array", "items": good})), "do not lead"),
            (one(json!({"oneOf": [good]})), "do not lead"),
            (json!({"allOf": [one(good.clone())]}), "do not lead"),
            (json!({"if": {"properties": {"p": good}}}), "do not lead"),
            (json!({"not": {"properties": {"p": good}}}), "do not lead"),
            (json!({"$defs": {"x": good}}), "do not lead"),
            (json!({"x-mcp-header": "A", "type": "string"}), "do not lead"),
        ] {
            let found = mirrors(&schema).unwrap_err();
            assert!(found.contains(why), "{schema}: {found}");
        }
        // A parameter of that name, and data that looks like an annotation, are none.
        let harmless =
            json!({"properties": {"x-mcp-header": {"type": "string"}}, "default": {"x-mcp-header": ""}});
        assert_eq!(mirrors(&harmless), Ok(vec![]));
    }

    #[test]
    fn values_are_read_at_their_exact_path() {
        let schema = json!({"properties": {
            "s": {"type": "string", "x-mcp-header": "S"},
            "o": {"type": "object", "properties": {"i": {"type": "integer", "x-mcp-header": "I"}}},
            "b": {"type": ["boolean", "null"], "x-mcp-header": "B"},
        }});
        let mirrors = mirrors(&schema).unwrap();
        let of = |arguments: Value| {
            let headers = mirrored(&mirrors, arguments.as_object().unwrap());
            headers.map(|h| h.into_iter().map(|(n, v)| format!("{n}: {v}")).collect::<Vec<_>>())
        };
        let mut all = of(json!({"s": "x", "o": {"i": -7}, "b": false})).unwrap();
        all.sort();
        assert_eq!(all, ["Mcp-Param-B: false", "Mcp-Param-I: -7", "Mcp-Param-S: x"]);
        assert_eq!(of(json!({"i": 1, "b": null, "o": {}})).unwrap(), Vec::<String>::new());
        assert_eq!(of(json!({"o": {"i": 42.0}})).unwrap(), ["Mcp-Param-I: 42"]);
        assert_eq!(
            of(json!({"o": {"i": 9_007_199_254_740_991_i64}})).unwrap(),
            ["Mcp-Param-I: 9007199254740991"]
        );
        assert!(of(json!({"o": {"i": 9_007_199_254_740_992_i64}})).unwrap_err().contains("o.i"));
        assert!(of(json!({"o": {"i": 1.5}})).is_err());
    }
}
