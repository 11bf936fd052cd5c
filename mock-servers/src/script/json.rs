//! JSON in scripts.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// JSON given in a script: as JSON text in a string (`'{"a": 1}'`), or as a map of strings (`{ text: one }`), whose
/// values are always strings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JsonText(pub Value);

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;
        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = JsonText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON text in quotes or a block, or a map of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<JsonText, E> {
                let twice = sparring_wire::duplicate::duplicate_keys(text);
                if let Some(pointer) = twice.first() {
                    return Err(E::custom(format!("the key at {pointer} occurs twice")));
                }
                serde_json::from_str(text).map(JsonText).map_err(|e| E::custom(format!("not JSON: {e}")))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<JsonText, A::Error> {
                let mut map = Map::new();
                while let Some((key, value)) = access.next_entry::<String, String>()? {
                    if map.insert(key.clone(), Value::String(value)).is_some() {
                        return Err(de::Error::custom(format!("the key `{key}` occurs twice")));
                    }
                }
                Ok(JsonText(Value::Object(map)))
            }
        }
        deserializer.deserialize_any(JsonVisitor)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_string())
    }
}

impl JsonSchema for JsonText {
    fn schema_name() -> Cow<'static, str> {
        "JsonText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "JSON text in quotes or a block, or a map of strings.",
            "anyOf": [
                {"type": "string", "contentMediaType": "application/json"},
                {"type": "object", "additionalProperties": {"type": "string"}},
            ],
        })
    }
}
