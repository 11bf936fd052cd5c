//! The generated part of docs/profiles.md: all fields of a profile.

use serde_json::Value;
use sparring_profiles::{FIELDS, Settings};
use std::fmt::Write as _;

pub(crate) const FIELDS_START: &str = "<!-- fields: made from the types, see the test `reference` -->\n";

pub(crate) fn fields(schema: &Value) -> String {
    let settings = serde_json::to_value(Settings::default()).unwrap();
    let mut text = FIELDS_START.to_owned();
    let mut section = "";
    for field in FIELDS {
        let (of, name) = field.id.split_once('.').unwrap();
        if of != section {
            section = of;
            let part = &schema["properties"][of];
            let about = resolve(schema, part)["description"].as_str().unwrap_or_default();
            let about = part["description"].as_str().unwrap_or(about);
            let _ = write!(
                text,
                "\n### {of}\n\n{}\n\n| field | values | what is promised | reference client |\n| --- | --- | --- | --- |\n",
                about
                    .replace(&format!("`[{of}]`: "), "About ")
                    .replace(&format!("`[{of}]`, "), "About times, ")
            );
        }
        let properties = &resolve(schema, &schema["properties"][of])["properties"];
        let mark = if field.is_promise() { "" } else { " (no promise: how or where the others are judged)" };
        let default = match &settings[of][name] {
            Value::Null => String::new(),
            Value::Object(members) if members.len() > 3 => "a table".to_owned(),
            value => format!("`{value}`"),
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {}{mark} | {} |",
            field.id,
            values(schema, &properties[name]),
            field.about.trim().replace('|', "\\|"),
            default.replace('|', "\\|"),
        );
    }
    text.push('\n');
    text.push_str(crate::page::END);
    text
}

fn resolve<'a>(root: &'a Value, part: &'a Value) -> &'a Value {
    match part["$ref"].as_str().and_then(|at| at.strip_prefix("#/$defs/")) {
        Some(name) => &root["$defs"][name],
        None => part,
    }
}

/// What a field can be, in a few words.
fn values(root: &Value, part: &Value) -> String {
    let part = resolve(root, part);
    if let Some(branches) = part["anyOf"].as_array() {
        let found: Vec<String> = branches
            .iter()
            .filter(|branch| branch["type"] != "null")
            .map(|branch| values(root, branch))
            .collect();
        return found.join(", or ");
    }
    if let Some(words) = part["oneOf"].as_array() {
        return words
            .iter()
            .map(|word| format!("`{}`", word["const"].as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(", ");
    }
    if let Some(words) = part["enum"].as_array() {
        return words
            .iter()
            .filter_map(Value::as_str)
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let kind = match &part["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind {
        Some("array") => match values(root, &part["items"]) {
            items if items.is_empty() => "a list".to_owned(),
            items => format!("a list of {items}"),
        },
        Some("object") => {
            let names = resolve(root, &part["propertyNames"]);
            match values(root, names) {
                keys if keys.is_empty() || keys == "a text" => "a table".to_owned(),
                keys => format!("a table with {keys}"),
            }
        }
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("integer") => "a whole number".to_owned(),
        Some("number") => "a number".to_owned(),
        Some("string") => "a text".to_owned(),
        _ => String::new(),
    }
}
