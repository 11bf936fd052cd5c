//! HTTP responses down to their bytes.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// An HTTP answer other than the faithful one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusAnswer {
    /// The status code.
    pub code: u16,
    /// Further header fields; values are templates.
    pub headers: Fields,
    /// The body.
    pub body: String,
}

/// Header fields: a map of names to values, or a list of `[name, value]`, in which names may repeat and keep their
/// upper-case letters on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, String)>);

/// Changes to a response, whatever it is: the faithful one, a status, a stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// Another status code. Invalid.
    pub code: Option<u16>,
    /// Another reason phrase; the usual one by default.
    pub reason: Option<String>,
    /// Another content type, or with an empty text none. Invalid unless only parameters or letter case differ.
    pub content_type: Option<String>,
    /// Further header fields; values are templates.
    pub headers: Fields,
    /// Names of header fields to leave out. Invalid for `content-type` and for what frames the body.
    pub without: Vec<String>,
    /// A further header field with a value of this many bytes, at most 64 MiB.
    #[serde(deserialize_with = "super::limit::within::<0, 67_108_864, _, _>")]
    #[schemars(range(min = 0, max = 67_108_864))]
    pub pad_head: u32,
    /// Answer as HTTP/1.0, where a stream's body ends with the connection.
    pub http_1_0: bool,
    /// How the end of the body is told; by its length if that is known, or else in chunks.
    pub framing: Option<Framing>,
    /// Claim a body longer by this many bytes than it is (shorter, if negative), then close the connection. Invalid.
    pub length_off_by: i64,
    /// Write this instead of the size of the first chunk. Invalid unless it is that size.
    pub chunk_size: Option<String>,
    /// Encode the body with gzip, asked for or not. Invalid if not asked for. Streams are sent plain.
    pub gzip: bool,
    /// Interim responses before it: codes from 100 to 199.
    pub interim: Vec<u16>,
    /// Text before the response, a template. Invalid.
    pub before: String,
    /// Text behind the response, a template. Invalid.
    pub after: String,
    /// Close the connection behind the response, announced or (with `false`) not.
    pub close: Option<bool>,
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// `Content-Length`. For streams as `close`, since their length is not known.
    Length,
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The end of the connection.
    Close,
}

/// A response that breaks off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cut {
    /// After this many bytes, the first of the status line being the first. Where the response is shorter, after all
    /// of it.
    pub after: u64,
    /// Count from the end of the head on. Sizes of chunks count too.
    pub in_body: bool,
    /// What happens then.
    pub how: Breaking,
}

/// How a response breaks off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Breaking {
    /// The connection is closed.
    #[default]
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing comes any more; the connection stays open.
    Stall,
}

/// A response that is written in pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pieces {
    /// Each of this many bytes.
    pub every: Option<u32>,
    /// Break before the bytes at these offsets, the first of the status line being 0; in ascending order.
    pub at: Vec<u64>,
    /// Count from the end of the head on, and write that in one piece.
    pub in_body: bool,
    /// The time between two pieces, in milliseconds; 1 by default.
    pub gap_ms: Option<u64>,
}

/// A part of a response that a script spells out, byte by byte. Texts are templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawPart {
    /// Lines of a head; each ends in CR and LF on the wire, and an empty one follows.
    Head(String),
    /// This text, as it is.
    Text(String),
    /// These bytes, as hexadecimal digits; white space between them is ignored.
    Hex(String),
    /// A text again and again.
    Repeat(Repeated),
    /// Nothing for this many milliseconds.
    PauseMs(u64),
    /// Close the connection. This follows the last part if nothing else does.
    Close,
    /// Reset the connection.
    Reset,
    /// Nothing ever; the connection stays open.
    Stall,
    /// The response is over, and the connection is good for another request.
    Keep,
}

/// A text again and again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeated {
    /// The text.
    pub text: String,
    /// How often; at most 64 MiB come of it.
    pub times: u32,
}

impl FromIterator<(String, String)> for Fields {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of header fields, or a list of `[name, value]`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = access.next_entry::<String, String>()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(de::Error::custom(format!("the key `{name}` occurs twice")));
                    }
                    fields.push((name.to_ascii_lowercase(), value));
                }
                Ok(Fields(fields))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = access.next_element::<(String, String)>()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_any(FieldsVisitor)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl JsonSchema for Fields {
    fn schema_name() -> Cow<'static, str> {
        "Fields".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Header fields: a map of names to values, or a list of `[name, value]`, in which names may repeat.",
            "anyOf": [
                {"type": "object", "additionalProperties": {"type": "string"}},
                {"type": "array", "items": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}},
            ],
        })
    }
}

// A status is most often only a number: `status: 404`. A string names a library tool.
impl<'de> Deserialize<'de> for StatusAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        struct Full {
            code: u16,
            #[serde(default)]
            headers: Fields,
            #[serde(default)]
            body: String,
        }
        struct StatusVisitor;
        impl<'de> Visitor<'de> for StatusVisitor {
            type Value = StatusAnswer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status code, or a map with `code`, `headers` and `body`")
            }

            fn visit_u64<E: de::Error>(self, code: u64) -> Result<StatusAnswer, E> {
                match u16::try_from(code) {
                    Ok(code) if (100..=999).contains(&code) => {
                        Ok(StatusAnswer { code, ..Default::default() })
                    }
                    _ => Err(E::custom(format!("{code} is no HTTP status"))),
                }
            }

            fn visit_i64<E: de::Error>(self, code: i64) -> Result<StatusAnswer, E> {
                self.visit_u64(u64::try_from(code).unwrap_or_default())
            }

            fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<StatusAnswer, A::Error> {
                let full = Full::deserialize(de::value::MapAccessDeserializer::new(access))?;
                if !(100..=999).contains(&full.code) {
                    return Err(de::Error::custom(format!("{} is no HTTP status", full.code)));
                }
                Ok(StatusAnswer { code: full.code, headers: full.headers, body: full.body })
            }
        }
        deserializer.deserialize_any(StatusVisitor)
    }
}

impl Serialize for StatusAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut full = serializer.serialize_struct("StatusAnswer", 3)?;
        full.serialize_field("code", &self.code)?;
        full.serialize_field("headers", &self.headers)?;
        full.serialize_field("body", &self.body)?;
        full.end()
    }
}

impl JsonSchema for StatusAnswer {
    fn schema_name() -> Cow<'static, str> {
        "StatusAnswer".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let headers = generator.subschema_for::<Fields>();
        let code = json_schema!({"type": "integer", "minimum": 100, "maximum": 999});
        json_schema!({
            "description": "An HTTP answer other than the faithful one: a status code, or more of it.",
            "anyOf": [code, {
                "type": "object",
                "properties": {
                    "code": {"type": "integer", "minimum": 100, "maximum": 999, "description": "The status code."},
                    "headers": {"allOf": [headers], "description": "Further header fields."},
                    "body": {"type": "string", "description": "The body; none by default."},
                },
                "required": ["code"],
                "additionalProperties": false,
            }],
        })
    }
}
