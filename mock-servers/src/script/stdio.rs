//! What the words about stdio carry.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;

/// A line, many times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatedLine {
    /// The line, as it is. `$n` in it stands for its number, from 1.
    pub line: String,
    /// How many times, at most 1,000,000.
    #[serde(deserialize_with = "super::limit::within::<0, 1_000_000, _, _>")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub times: u32,
}

/// Bytes that need not be text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBytes(pub Vec<u8>);

/// How bytes are spelled in a script.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RawBytes")]
enum SpelledBytes {
    /// Hexadecimal digits, two for each byte; spaces are allowed between bytes.
    Hex(#[schemars(regex(pattern = r"^(\s*[0-9A-Fa-f]\s*[0-9A-Fa-f])*\s*$"))] String),
    /// Base64, the standard alphabet, padded.
    Base64(
        #[schemars(regex(pattern = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"))] String,
    ),
}

impl<'de> Deserialize<'de> for RawBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = |what: &str| de::Error::custom(format!("not {what}"));
        match SpelledBytes::deserialize(deserializer)? {
            SpelledBytes::Hex(text) => {
                let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
                if !digits.len().is_multiple_of(2) {
                    return Err(wrong("hexadecimal: an odd number of digits"));
                }
                let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
                let bytes: Option<Vec<u8>> = digits
                    .chunks(2)
                    .map(|pair| pair.iter().all(u8::is_ascii_hexdigit).then(|| byte(pair)).flatten())
                    .collect();
                bytes.map(Self).ok_or_else(|| wrong("hexadecimal"))
            }
            SpelledBytes::Base64(text) => STANDARD.decode(text).map(Self).map_err(|_| wrong("base64")),
        }
    }
}

impl Serialize for RawBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SpelledBytes::Base64(STANDARD.encode(&self.0)).serialize(serializer)
    }
}

impl JsonSchema for RawBytes {
    fn schema_name() -> Cow<'static, str> {
        "RawBytes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        SpelledBytes::json_schema(generator)
    }
}
