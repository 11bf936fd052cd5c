//! JSON Schema (draft 2020-12) of the files that people write and of the data that other programs read.
//!
//! Generated from the types, so that an editor knows exactly the words that the loader takes. What a schema can't say
//! (a step's label exists, a pattern has one head) is the lint's matter.

use crate::catalogue::Requirement;
use crate::scenario::Scenario;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use sparring_mock_servers::script::ServerScript;
use sparring_profiles::Profile;
use sparring_wire::transcript::Event;

/// The version of the formats of scenario and script files. Goes up when a file that was right may be read otherwise or
/// refused; new words don't raise it.
pub const FORMAT_VERSION: u32 = 1;

/// What has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A scenario file.
    Scenario,
    /// A server's script in a file of its own.
    Script,
    /// A host profile, as TOML is read.
    Profile,
    /// An entry of the requirement catalogue.
    Requirement,
    /// A line of a transcript.
    Transcript,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Scenario, Self::Script, Self::Profile, Self::Requirement, Self::Transcript];

    /// The word that names it, on the command line and in `$id`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Scenario => "scenario",
            Self::Script => "script",
            Self::Profile => "profile",
            Self::Requirement => "requirement",
            Self::Transcript => "transcript",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Scenario => "Sparring scenario",
            Self::Script => "Sparring server script",
            Self::Profile => "Sparring host profile",
            Self::Requirement => "Entry of Sparring's requirement catalogue",
            Self::Transcript => "Line of a Sparring transcript",
        }
    }
}

/// The schema.
pub fn schema(kind: Kind) -> Value {
    let mut root = match kind {
        Kind::Scenario => of::<Scenario>(),
        Kind::Script => of::<ServerScript>(),
        Kind::Profile => of::<Profile>(),
        Kind::Requirement => of::<Requirement>(),
        Kind::Transcript => of::<Event>(),
    };
    tidy(&mut root);
    let mut named = Map::new();
    named.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    let id = format!("https://example.invalid/sparring/schema/{}-{FORMAT_VERSION}.json", kind.word());
    named.insert("$id".to_owned(), json!(id));
    named.insert("title".to_owned(), json!(kind.title()));
    if let Value::Object(rest) = root {
        named.extend(rest.into_iter().filter(|(key, _)| key != "$schema" && key != "title"));
    }
    Value::Object(named)
}

/// The schema as text, as it is published.
pub fn text(kind: Kind) -> String {
    format!("{:#}\n", schema(kind))
}

fn of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}

/// Makes of a schema for Rust's types one for people and their editors.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(members) => {
            if let Some(Value::String(about)) = members.get_mut("description") {
                *about = plain(about);
            }
            // What stands for "not given" needs no saying.
            let empty = |value: &Value| match value {
                Value::Null => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(_) => true,
                _ => false,
            };
            if members.get("default").is_some_and(empty) {
                members.remove("default");
            }
            limit(members);
            explain_keys(members);
            empty_words(members);
            for (key, member) in members {
                match member {
                    // Here the keys are names of their own, and none of them a word of JSON Schema.
                    Value::Object(named) if matches!(key.as_str(), "properties" | "$defs") => {
                        named.values_mut().for_each(tidy);
                    }
                    _ => tidy(member),
                }
            }
        }
        _ => {}
    }
}

/// Integers end where the type does, which JSON Schema's `format` doesn't say.
fn limit(members: &mut Map<String, Value>) {
    let (least, most) = match members.get("format").and_then(Value::as_str) {
        Some("uint8") => (0, i64::from(u8::MAX)),
        Some("uint16") => (0, i64::from(u16::MAX)),
        Some("uint32") => (0, i64::from(u32::MAX)),
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Some("uint64" | "uint" | "int64" | "int" | "double" | "float") => {
            members.remove("format");
            return;
        }
        _ => return,
    };
    members.remove("format");
    members.entry("minimum").or_insert_with(|| json!(least));
    members.entry("maximum").or_insert_with(|| json!(most));
}

/// A word with arguments is described where its key is, which is where editors look.
fn explain_keys(members: &mut Map<String, Value>) {
    for variant in members.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
        let about = variant["description"].clone();
        let keys = variant.get_mut("properties").and_then(Value::as_object_mut);
        if let (Value::String(_), Some(keys)) = (&about, keys.filter(|keys| keys.len() == 1)) {
            for key in keys.values_mut().filter_map(Value::as_object_mut) {
                key.entry("description").or_insert_with(|| about.clone());
            }
        }
    }
}

/// In a list of words of which some have arguments, those without may also be written like them: `{ drop: }`.
fn empty_words(members: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = members.get_mut("oneOf") else { return };
    let keyed = |variant: &Value| variant["type"] == "object" && variant["required"].is_array();
    if !variants.iter().any(keyed) {
        return;
    }
    for variant in variants {
        let Some(word) = variant.get("const").and_then(Value::as_str) else { continue };
        let alone = json!({"const": word});
        let key = json!({
            "type": "object",
            "properties": {word: {"type": "null", "description": variant["description"]}},
            "required": [word],
            "additionalProperties": false,
        });
        *variant = json!({"description": variant["description"], "anyOf": [alone, key]});
    }
}

/// A doc comment as plain text: links without their brackets, lines joined.
fn plain(about: &str) -> String {
    let mut out = String::new();
    let mut rest = about;
    while let Some(at) = rest.find("[`") {
        let Some(end) = rest[at..].find("`]").map(|end| at + end) else { break };
        let path = &rest[at + 2..end];
        out.push_str(&rest[..at]);
        // `[`crate::op::FEATURES`]` is `FEATURES` to a reader.
        out.push_str(&format!("`{}`", path.rsplit("::").next().unwrap_or(path)));
        rest = &rest[end + 2..];
    }
    out.push_str(rest);
    let mut paragraphs: Vec<String> = Vec::new();
    let mut open = false;
    for line in out.lines().map(str::trim) {
        let item = line.starts_with("- ");
        match paragraphs.last_mut() {
            Some(last) if open && !item && !line.is_empty() => {
                last.push(' ');
                last.push_str(line);
            }
            _ if line.is_empty() => {}
            _ => paragraphs.push(line.to_owned()),
        }
        open = !line.is_empty();
    }
    let mut text = String::new();
    for paragraph in paragraphs {
        if !text.is_empty() {
            text.push_str(if paragraph.starts_with("- ") { "\n" } else { "\n\n" });
        }
        text.push_str(&paragraph);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_comments_become_plain_text() {
        assert_eq!(
            plain("One\ntwo [`a::B`].\n\nThree:\n\n- four\n  five;\n- six"),
            "One two `B`.\n\nThree:\n- four five;\n- six"
        );
    }

    #[test]
    fn each_schema_is_named_and_strict() {
        for kind in Kind::ALL {
            let schema = schema(kind);
            assert!(schema["$id"].as_str().unwrap().ends_with(&format!("{}-1.json", kind.word())));
            assert_eq!(schema["additionalProperties"], json!(false), "{}", kind.word());
            assert!(jsonschema::draft202012::meta::is_valid(&schema), "{}", kind.word());
        }
    }
}
