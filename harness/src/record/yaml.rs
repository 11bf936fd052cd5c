//! A script as YAML text.
//!
//! Only what the loader needs to read it back: block maps and lists, plain scalars, and strings in quotes wherever a
//! reader of YAML could take them for something else.

use serde_json::{Map, Value, json};
use sparring_mock_servers::script::{CutStream, Rule, ServerScript, Until};

/// The script without what it has by default.
///
/// # Errors
/// None that could occur: scripts are data.
pub(super) fn text(script: &ServerScript) -> Result<String, serde_json::Error> {
    let mut out = String::new();
    let pruned = prune(serde_json::to_value(script)?, &serde_json::to_value(ServerScript::default())?);
    match &pruned {
        Value::Object(members) if !members.is_empty() => map(members, 0, &mut out),
        _ => out.push_str("{}\n"),
    }
    Ok(out)
}

/// Leaves out members that are as in `default`, and what is absent.
fn prune(value: Value, default: &Value) -> Value {
    let Value::Object(members) = value else { return value };
    let kept = members.into_iter().filter_map(|(key, value)| {
        let usual = default.get(&key);
        if value.is_null() || usual == Some(&value) {
            return None;
        }
        let of_kind = usual_in(&key);
        let usual = of_kind.as_ref().or(usual).unwrap_or(&Value::Null);
        Some((key, prune_below(value, usual)))
    });
    Value::Object(kept.collect())
}

/// The parts of a script that stand in lists, or are chosen by a word, as they are by default.
fn usual_in(key: &str) -> Option<Value> {
    match key {
        "rules" => {
            let mut usual = serde_json::to_value(Rule::default()).ok()?;
            // What a rule reacts to is always said.
            usual.as_object_mut()?.shift_remove("on");
            Some(usual)
        }
        "hold_until" => serde_json::to_value(Until { times: 1, ..Until::default() }).ok(),
        "cut_stream" => serde_json::to_value(CutStream::default()).ok(),
        "notify" | "request" => Some(json!({"on_get_stream": false})),
        _ => None,
    }
}

fn prune_below(value: Value, usual: &Value) -> Value {
    match value {
        Value::Object(_) => prune(value, usual),
        Value::Array(items) => items.into_iter().map(|item| prune_below(item, usual)).collect(),
        value => value,
    }
}

/// Whether a member of a list item or map needs no line of its own.
fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => true,
    }
}

fn indent(depth: usize, out: &mut String) {
    out.push_str(&"  ".repeat(depth));
}

fn map(members: &Map<String, Value>, depth: usize, out: &mut String) {
    for (at, (key, value)) in members.iter().enumerate() {
        if at > 0 {
            indent(depth, out);
        }
        scalar(&Value::from(key.as_str()), out);
        out.push(':');
        below(value, depth, out);
    }
}

/// A value after its key.
fn below(value: &Value, depth: usize, out: &mut String) {
    match value {
        value if is_scalar(value) => {
            out.push(' ');
            scalar(value, out);
            out.push('\n');
        }
        Value::Array(items) => {
            out.push('\n');
            for item in items {
                indent(depth + 1, out);
                out.push_str("- ");
                match item {
                    Value::Object(members) if !members.is_empty() => map(members, depth + 2, out),
                    item => {
                        scalar(item, out);
                        out.push('\n');
                    }
                }
            }
        }
        Value::Object(members) => {
            out.push('\n');
            indent(depth + 1, out);
            map(members, depth + 1, out);
        }
        _ => out.push('\n'),
    }
}

fn scalar(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => string(text, out),
        // Empty lists and maps, numbers, true and false are written as in JSON; so is a list in a list.
        other => out.push_str(&other.to_string()),
    }
}

fn string(text: &str, out: &mut String) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.' | ' ');
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(plain)
        && !text.ends_with(' ')
        && text.len() > 3
        && !["null", "true", "false"].iter().any(|special| text.eq_ignore_ascii_case(special));
    // Readers may treat other characters as ends of lines, or refuse them.
    let quotable = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
    if word || is_word_of_the_vocabulary(text) {
        out.push_str(text);
    } else if text.chars().all(quotable) {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    } else {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                c if quotable(c) => out.push(c),
                c if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
            }
        }
        out.push('"');
    }
}

/// Short words that stand in scripts again and again, and that no reader takes for anything else.
fn is_word_of_the_vocabulary(text: &str) -> bool {
    matches!(text, "on" | "nth" | "do" | "uri" | "id" | "eof" | "sse" | "die")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sparring_mock_servers::script::{
        Action, JsonText, OwnMessage, Rule, ToolDefinition, ToolScript, Trigger,
    };

    fn round_trip(script: &ServerScript) -> String {
        let text = text(script).unwrap();
        match sparring_scenarios::load::parse_script("s.yaml", &text) {
            Ok(back) => assert_eq!(&back, script, "{text}"),
            Err(wrong) => panic!("{}\n{text}", wrong.render(false)),
        }
        text
    }

    #[test]
    fn a_script_reads_well() {
        let script = ServerScript {
            description: Some("Two lines:\nof text".into()),
            tools: vec![
                ToolScript::Library("echo".into()),
                ToolScript::Custom(Box::new(ToolDefinition {
                    name: "it's".into(),
                    result: Some(JsonText(serde_json::json!({"content": []}))),
                    ..ToolDefinition::default()
                })),
            ],
            rules: vec![Rule {
                on: Trigger::Method("tools/call".into()).into(),
                nth: Some(sparring_mock_servers::script::Nth::These(vec![2])),
                actions: vec![
                    Action::Notify(OwnMessage {
                        method: "notifications/message".into(),
                        params: None,
                        id: None,
                        on_get_stream: false,
                    }),
                    Action::Default,
                    Action::Exit(3),
                ],
                ..Rule::default()
            }],
            ..ServerScript::default()
        };
        let text = round_trip(&script);
        assert!(text.contains("rules:\n  - on: tools/call\n    nth: 2\n    do:\n"), "{text}");
        assert!(text.contains("- exit: 3\n"), "{text}");
    }

    proptest! {
        #[test]
        fn any_text_survives(text in "(\\PC|[\n\r\t\u{85}\u{2028}\u{feff}\u{7f}]){0,20}", word in "[ -~]{0,8}") {
            let script = ServerScript {
                instructions: Some(text),
                version: Some(word),
                ..ServerScript::default()
            };
            round_trip(&script);
        }
    }
}
