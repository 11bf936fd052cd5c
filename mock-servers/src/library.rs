//! The library of models: tools that scenarios name instead of spelling them out, and the byte pattern of blobs.

use crate::script::{AskScript, AskedRequest, JsonText, TaskScript};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sparring_wire::Revision;
use std::sync::LazyLock;

/// Names of the library's tools.
///
/// - `echo`: returns its argument `text` as one text block;
/// - `add`: returns the sum of `a` and `b` as text, with `structuredContent` `{"sum": n}` and an output schema from 2025-06-18 on;
/// - `fail`: returns `isError: true` with a text block;
/// - `image`, `audio`: one image or audio block (audio from 2025-03-26 on; text before);
/// - `embedded-text`, `embedded-blob`: one embedded resource;
/// - `blob-1mib`: one embedded resource with a blob of 1 MiB (1,048,576 bytes of [`bytes()`]);
/// - `link`: one resource link (from 2025-06-18 on; text before);
/// - `empty`: `content: []`;
/// - `slow`: like `echo`; scripts hold or delay it;
/// - `add_numbers`: the tool of the official framework's `tools_call` scenario;
/// - `ask`, `confirm`: ask the user for a name, or for a yes, by elicitation, and say what came of it;
/// - `connect`: asks the user to open a URL (from 2025-11-25 on);
/// - `sample`: asks the client's model its argument `prompt`, and returns the answer's text;
/// - `roots`: returns the URIs of the client's roots;
/// - `long`: like `echo`; runs as a task where the client and the revision know tasks, and works for one `tasks/get`;
/// - `mirror`: returns its arguments, each of which has an `x-mcp-header` in 2026-07-28;
/// - `prose`: returns a text block of `bytes` letters, at most 4 MiB; `blocks` of them, at most 16, if that is given;
/// - `array`: `structuredContent` is an array in 2026-07-28, an object with an array before.
pub const TOOLS: [&str; 21] = [
    "echo",
    "add",
    "fail",
    "image",
    "audio",
    "embedded-text",
    "embedded-blob",
    "blob-1mib",
    "link",
    "empty",
    "slow",
    "add_numbers",
    "ask",
    "confirm",
    "connect",
    "sample",
    "roots",
    "long",
    "mirror",
    "prose",
    "array",
];

/// Text of this many letters, the alphabet again and again.
pub fn letters(length: usize) -> String {
    ('a'..='z').cycle().take(length).collect()
}

/// The byte pattern of blobs: `length` bytes that contain every byte value, without a short period, the same on each
/// call. Byte `i` is the low byte of `i ^ (i >> 8) ^ (i >> 16)`.
pub fn bytes(length: u64) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "the low byte is meant")]
    (0..length).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

/// The blob of `blob-1mib`, made once: calling the tool should cost no more than sending it.
static MEBIBYTE: LazyLock<String> = LazyLock::new(|| base64(&bytes(1 << 20)));

/// A 1×1 PNG.
const PNG: [u8; 67] = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00,
    0x00, 0x00, 0x0a, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x00, 0x01, 0x00, 0x00, 0x05, 0x00, 0x01,
    0x0d, 0x0a, 0x2d, 0xb4, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// Eight samples of 8-bit mono silence, as a WAV file.
fn wav() -> Vec<u8> {
    let samples = [0x80_u8; 8];
    let mut out = Vec::with_capacity(44 + samples.len());
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&44_u32.to_le_bytes());
    out.extend_from_slice(b"WAVEfmt ");
    out.extend_from_slice(&16_u32.to_le_bytes());
    out.extend_from_slice(&1_u16.to_le_bytes());
    out.extend_from_slice(&1_u16.to_le_bytes());
    out.extend_from_slice(&8000_u32.to_le_bytes());
    out.extend_from_slice(&8000_u32.to_le_bytes());
    out.extend_from_slice(&1_u16.to_le_bytes());
    out.extend_from_slice(&8_u16.to_le_bytes());
    out.extend_from_slice(b"data");
    out.extend_from_slice(&8_u32.to_le_bytes());
    out.extend_from_slice(&samples);
    out
}

/// Base64 as MCP uses it: the standard alphabet, padded.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of padded Base64, if it is that.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

fn object_schema(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// The definition of a library tool as `tools/list` shows it in `revision`; `None` for a name that is not in [`TOOLS`].
pub fn definition(name: &str, revision: Revision) -> Option<Value> {
    let text = || object_schema(json!({"text": {"type": "string"}}), &["text"]);
    let numbers = || object_schema(json!({"a": {"type": "number"}, "b": {"type": "number"}}), &["a", "b"]);
    let nothing = || object_schema(json!({}), &[]);
    let (description, input) = match name {
        "echo" => ("Returns its text.", text()),
        "slow" => ("Returns its text, when told to.", text()),
        "add" => ("Adds two numbers.", numbers()),
        "add_numbers" => ("Add two numbers together", numbers()),
        "fail" => ("Always fails.", nothing()),
        "image" => ("Returns an image.", nothing()),
        "audio" => ("Returns a sound.", nothing()),
        "embedded-text" => ("Returns an embedded text resource.", nothing()),
        "embedded-blob" => ("Returns an embedded binary resource.", nothing()),
        "blob-1mib" => ("Returns an embedded binary resource of 1 MiB.", nothing()),
        "link" => ("Returns a resource link.", nothing()),
        "empty" => ("Returns nothing.", nothing()),
        "ask" => ("Asks for a name.", nothing()),
        "confirm" => ("Asks for a yes.", nothing()),
        "connect" => ("Asks to open a page.", nothing()),
        "sample" => {
            ("Asks the client's model.", object_schema(json!({"prompt": {"type": "string"}}), &["prompt"]))
        }
        "roots" => ("Returns the client's roots.", nothing()),
        "long" => ("Returns its text, after a while.", text()),
        "mirror" => ("Returns its arguments.", mirror_schema(revision)),
        "prose" => (
            "Returns much text.",
            object_schema(json!({"bytes": {"type": "integer"}, "blocks": {"type": "integer"}}), &["bytes"]),
        ),
        "array" => ("Returns numbers.", nothing()),
        _ => return None,
    };
    let mut tool = Map::new();
    tool.insert("name".into(), name.into());
    tool.insert("description".into(), description.into());
    tool.insert("inputSchema".into(), input);
    if name == "add" && revision >= Revision::V2025_06_18 {
        tool.insert("outputSchema".into(), object_schema(json!({"sum": {"type": "number"}}), &["sum"]));
    }
    if name == "array" && revision >= Revision::V2025_06_18 {
        let items = json!({"type": "array", "items": {"type": "integer"}});
        let schema =
            if revision.is_stateless() { items } else { object_schema(json!({"items": items}), &["items"]) };
        tool.insert("outputSchema".into(), schema);
    }
    Some(Value::Object(tool))
}

fn mirror_schema(revision: Revision) -> Value {
    let mut schema = object_schema(
        json!({
            "region": {"type": "string"},
            "limit": {"type": "integer"},
            "dry_run": {"type": "boolean"},
            "target": object_schema(json!({"zone": {"type": "string"}}), &[]),
        }),
        &[],
    );
    if revision.is_stateless() {
        let properties = &mut schema["properties"];
        properties["region"]["x-mcp-header"] = "Region".into();
        properties["limit"]["x-mcp-header"] = "Limit".into();
        properties["dry_run"]["x-mcp-header"] = "Dry-Run".into();
        properties["target"]["properties"]["zone"]["x-mcp-header"] = "Zone".into();
    }
    schema
}

/// What a library tool asks the client for before it answers.
pub fn asks(name: &str, arguments: &Value) -> Option<AskScript> {
    let (key, method, params) = match name {
        "ask" => {
            let schema = object_schema(json!({"name": {"type": "string", "title": "Name"}}), &["name"]);
            let params = json!({"message": "What is your name?", "requestedSchema": schema});
            ("name", "elicitation/create", Some(params))
        }
        "confirm" => {
            let schema = object_schema(json!({"ok": {"type": "boolean", "title": "Go on"}}), &["ok"]);
            let params = json!({"message": "Shall it be done?", "requestedSchema": schema});
            ("confirm", "elicitation/create", Some(params))
        }
        "connect" => {
            let url = "https://example.com/connect";
            let params = json!({"mode": "url", "message": "Please connect your account.", "url": url});
            ("connect", "elicitation/create", Some(params))
        }
        "sample" => {
            let text = arguments["prompt"].as_str().unwrap_or_default();
            let message = json!({"role": "user", "content": {"type": "text", "text": text}});
            let params = json!({"messages": [message], "maxTokens": 100});
            ("sample", "sampling/createMessage", Some(params))
        }
        "roots" => ("roots", "roots/list", None),
        _ => return None,
    };
    let request = AskedRequest { method: method.into(), params: params.map(JsonText) };
    Some(AskScript { requests: [(key.to_owned(), request)].into(), ..AskScript::default() })
}

/// How a library tool's calls run as tasks.
pub fn task(name: &str) -> Option<TaskScript> {
    (name == "long").then(TaskScript::default)
}

/// The result of a library tool that has what it asked for. An answer that is no answer gives a result with `isError`.
pub fn answered(name: &str, inputs: &Map<String, Value>) -> Option<Value> {
    let input = |key: &str| inputs.get(key).unwrap_or(&Value::Null);
    let elicited =
        |key: &str, accepted: &dyn Fn(&Value) -> Option<String>| match input(key)["action"].as_str() {
            Some("accept") => accepted(&input(key)["content"])
                .map_or_else(|| failed("what was accepted is not what was asked for"), text_result),
            Some(other) => text_result(format!("the user chose: {other}")),
            None => failed("there is no answer from the user"),
        };
    Some(match name {
        "ask" => elicited("name", &|content| Some(format!("Hello, {}!", content["name"].as_str()?))),
        "confirm" => elicited("confirm", &|content| Some(format!("confirmed: {}", content["ok"].as_bool()?))),
        "connect" => elicited("connect", &|_| Some("connected".into())),
        "sample" => match &input("sample")["content"] {
            Value::Array(blocks) => {
                text_result(blocks.iter().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join(" "))
            }
            content => match content["text"].as_str() {
                Some(text) => text_result(text),
                None => failed("there is no answer from the model"),
            },
        },
        "roots" => match input("roots")["roots"].as_array() {
            Some(roots) => {
                text_result(roots.iter().filter_map(|r| r["uri"].as_str()).collect::<Vec<_>>().join(" "))
            }
            None => failed("there are no roots"),
        },
        _ => return None,
    })
}

fn text_result(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

fn failed(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}

/// The sum as JSON: an integer if both are and it fits.
fn sum(arguments: &Value) -> Option<(&Value, &Value, Value)> {
    let (a, b) = (&arguments["a"], &arguments["b"]);
    let sum = match a.as_i64().zip(b.as_i64()).and_then(|(x, y)| x.checked_add(y)) {
        Some(whole) => Value::from(whole),
        None => serde_json::Number::from_f64(a.as_f64()? + b.as_f64()?).map(Value::Number)?,
    };
    Some((a, b, sum))
}

/// The result of calling a library tool in `revision`; `None` for a name that is not in [`TOOLS`]. Arguments that the
/// tool can't work with give a result with `isError`, and so does one that asks, since it was not told anything.
pub fn call(name: &str, arguments: &Value, revision: Revision) -> Option<Value> {
    let embedded_blob = |uri: &str, blob: &str| {
        json!({"content": [{"type": "resource", "resource": {
            "uri": uri, "mimeType": "application/octet-stream", "blob": blob,
        }}]})
    };
    Some(match name {
        "ask" | "confirm" | "connect" | "sample" | "roots" => failed("the client can't be asked"),
        "mirror" => text_result(arguments.to_string()),
        "prose" => {
            let bytes = arguments["bytes"].as_u64().filter(|bytes| *bytes <= 4 << 20);
            let blocks = arguments["blocks"].as_u64().unwrap_or(1).min(16);
            match bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
                Some(bytes) => {
                    let block = json!({"type": "text", "text": letters(bytes)});
                    json!({"content": (0..blocks).map(|_| block.clone()).collect::<Vec<_>>()})
                }
                None => failed("`bytes` has to be a number, at most 4 MiB"),
            }
        }
        "array" => {
            let mut result = text_result("[1,2,3]");
            if revision >= Revision::V2025_06_18 {
                let items = json!([1, 2, 3]);
                result["structuredContent"] =
                    if revision.is_stateless() { items } else { json!({"items": items}) };
            }
            result
        }
        "echo" | "slow" | "long" => match arguments.get("text") {
            Some(Value::String(text)) => text_result(text.as_str()),
            _ => failed("`text` has to be a string"),
        },
        "add" | "add_numbers" => match sum(arguments) {
            Some((a, b, sum)) if name == "add_numbers" => {
                text_result(format!("The sum of {a} and {b} is {sum}"))
            }
            Some((_, _, sum)) => {
                let mut result = text_result(sum.to_string());
                if revision >= Revision::V2025_06_18 {
                    result["structuredContent"] = json!({"sum": sum});
                }
                result
            }
            None => failed("`a` and `b` have to be numbers"),
        },
        "fail" => failed("this tool always fails"),
        "image" => json!({"content": [{"type": "image", "data": base64(&PNG), "mimeType": "image/png"}]}),
        "audio" if revision >= Revision::V2025_03_26 => {
            json!({"content": [{"type": "audio", "data": base64(&wav()), "mimeType": "audio/wav"}]})
        }
        "audio" => text_result("a sound"),
        "embedded-text" => json!({"content": [{"type": "resource", "resource": {
            "uri": "mock://embedded/text", "mimeType": "text/plain", "text": "embedded text",
        }}]}),
        "embedded-blob" => embedded_blob("mock://embedded/blob", &base64(&bytes(256))),
        "blob-1mib" => embedded_blob("mock://embedded/blob-1mib", &MEBIBYTE),
        "link" if revision >= Revision::V2025_06_18 => json!({"content": [{
            "type": "resource_link", "uri": "mock://linked", "name": "linked", "mimeType": "text/plain",
        }]}),
        "link" => text_result("mock://linked"),
        "empty" => json!({"content": []}),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_of_the_library_has_a_definition_and_a_result() {
        for revision in Revision::ALL {
            for name in TOOLS {
                assert!(definition(name, revision).is_some(), "{name}");
                assert!(call(name, &json!({"text": "x", "a": 1, "b": 2}), revision).is_some(), "{name}");
            }
        }
        assert_eq!(definition("nope", Revision::V2025_06_18), None);
    }

    #[test]
    fn blobs_contain_every_byte_and_have_no_short_period() {
        let blob = bytes(1 << 16);
        assert!((0..=255).all(|b| blob[..256].contains(&b)));
        for period in [1, 2, 4, 256, 512, 4096] {
            assert_ne!(blob[..period], blob[period..2 * period], "{period}");
        }
    }

    #[test]
    fn sums_stay_whole_where_they_can() {
        let revision = Revision::V2025_06_18;
        let sum = |a: Value, b: Value| call("add", &json!({"a": a, "b": b}), revision).unwrap();
        assert_eq!(sum(json!(2), json!(3))["structuredContent"], json!({"sum": 5}));
        assert_eq!(sum(json!(0.5), json!(1))["content"][0]["text"], "1.5");
        assert!(sum(json!(i64::MAX), json!(1))["structuredContent"]["sum"].is_f64());
        assert_eq!(sum(json!("2"), json!(3))["isError"], true);
    }
}
