//! What the server offers.

use super::{JsonText, TaskScript};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// What cursors look like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CursorStyle {
    /// Opaque text with characters that invite parsing or escaping: spaces, quotes, `=`, `&`, non-ASCII.
    #[default]
    Opaque,
    /// The second page's cursor is the empty string.
    EmptyString,
    /// Each page names the same cursor, for ever; a page is never the last.
    Repeated,
    /// Looks like a number, with leading zeros.
    Numeric,
}

/// A tool of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolScript {
    /// A name from the library.
    Library(String),
    /// A definition.
    Custom(Box<ToolDefinition>),
}

/// A tool that is not in the library.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolDefinition {
    /// Its name, any text.
    pub name: String,
    /// `title`.
    pub title: Option<String>,
    /// `description`.
    pub description: Option<String>,
    /// `inputSchema`; an object without properties by default.
    pub input_schema: Option<JsonText>,
    /// `outputSchema`.
    pub output_schema: Option<JsonText>,
    /// `annotations`.
    pub annotations: Option<JsonText>,
    /// `icons`, an array (from 2025-11-25 on; left out before).
    pub icons: Option<JsonText>,
    /// Members merged into the definition, right or wrong.
    pub extra: Option<JsonText>,
    /// Calls run as tasks.
    pub task: Option<TaskScript>,
    /// What a call asks the client for before it is answered.
    pub ask: Option<super::AskScript>,
    /// The whole result of a call; by default one text block with the tool's name, and the answers if it asked.
    pub result: Option<JsonText>,
    /// The result of the library tool of that name instead.
    pub like: Option<String>,
}

/// A resource of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceScript {
    /// Its URI, byte for byte.
    pub uri: String,
    /// `name`; the last part of the URI by default.
    pub name: Option<String>,
    /// `title` (from 2025-06-18 on; left out before).
    pub title: Option<String>,
    /// `description`.
    pub description: Option<String>,
    /// `mimeType`.
    pub mime_type: Option<String>,
    /// `icons`, an array (from 2025-11-25 on; left out before).
    pub icons: Option<JsonText>,
    /// Members merged into the entry of the list, right or wrong.
    pub extra: Option<JsonText>,
    /// Text contents.
    pub text: Option<String>,
    /// Binary contents: this many bytes of the library's byte pattern (see `library::bytes`), at most 64 MiB.
    #[serde(deserialize_with = "super::limit::within::<0, 67_108_864, _, _>")]
    #[schemars(range(min = 0, max = 67_108_864))]
    pub blob_bytes: Option<u64>,
    /// The whole `contents` array, instead of `text` and `blob_bytes`.
    pub contents: Option<JsonText>,
}

/// A prompt of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PromptScript {
    /// Its name.
    pub name: String,
    /// `description`.
    pub description: Option<String>,
    /// `title` (from 2025-06-18 on; left out before).
    pub title: Option<String>,
    /// `icons`, an array (from 2025-11-25 on; left out before).
    pub icons: Option<JsonText>,
    /// Members merged into the entry of the list, right or wrong.
    pub extra: Option<JsonText>,
    /// `arguments`, as JSON.
    pub arguments: Option<JsonText>,
    /// `messages` of the result; by default one user message that names the prompt and its arguments.
    pub messages: Option<JsonText>,
}

impl<'de> Deserialize<'de> for ToolScript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ToolVisitor;
        impl<'de> Visitor<'de> for ToolVisitor {
            type Value = ToolScript;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a library tool, or a definition with `name`")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<ToolScript, E> {
                if crate::library::TOOLS.contains(&name) {
                    Ok(ToolScript::Library(name.to_owned()))
                } else {
                    Err(E::custom(format!(
                        "`{name}` is no tool of the library; there are {}",
                        crate::library::TOOLS.join(", ")
                    )))
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<ToolScript, A::Error> {
                let definition = ToolDefinition::deserialize(de::value::MapAccessDeserializer::new(access))?;
                Ok(ToolScript::Custom(Box::new(definition)))
            }
        }
        deserializer.deserialize_any(ToolVisitor)
    }
}

impl Serialize for ToolScript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Library(name) => serializer.serialize_str(name),
            Self::Custom(definition) => definition.serialize(serializer),
        }
    }
}

impl JsonSchema for ToolScript {
    fn schema_name() -> Cow<'static, str> {
        "ToolScript".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let definition = generator.subschema_for::<ToolDefinition>();
        json_schema!({
            "description": "A tool of the model: the name of a library tool, or a definition.",
            "anyOf": [
                {"enum": crate::library::TOOLS, "description": "The name of a library tool."},
                definition,
            ],
        })
    }
}
