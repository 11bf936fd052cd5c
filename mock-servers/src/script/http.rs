//! How an HTTP endpoint behaves, and HTTP answers of all kinds.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// How an HTTP endpoint behaves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpScript {
    /// How requests are answered.
    pub answers: AnswerStyle,
    /// Hand out session ids.
    pub sessions: bool,
    /// Offer the stream that GET opens; otherwise GET is answered with 405.
    pub get_stream: bool,
    /// Answer DELETE with 405.
    pub refuse_delete: bool,
    /// Give each event an id, so that streams can be resumed with `Last-Event-ID`.
    pub event_ids: bool,
    /// Send a priming event (id, empty data) first on each stream.
    pub priming: bool,
    /// The endpoint's path; `/mcp` by default.
    pub path: Option<String>,
}

/// How an HTTP server answers requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerStyle {
    /// `application/json`.
    #[default]
    Json,
    /// `text/event-stream`.
    Sse,
    /// One, then the other, starting with JSON.
    Alternate,
}

/// An HTTP answer other than the faithful one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusAnswer {
    /// The status code.
    pub code: u16,
    /// Further header fields; values are templates.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

/// A stream that ends too early.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CutStream {
    /// Send an event with this id and empty data first.
    pub id: Option<String>,
    /// Send this `retry` value, in milliseconds.
    pub retry_ms: Option<u64>,
    /// Reset the connection instead of ending the body.
    pub reset: bool,
    /// Deliver the answer on the GET that resumes the stream with that `Last-Event-ID`.
    pub resumable: bool,
}

/// A body as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawBody {
    /// Its content type; `text/event-stream` by default.
    pub content_type: Option<String>,
    /// The text, a template: `{{json id}}` stands for the JSON of the request's id and `{{result}}` for the faithful
    /// result.
    pub text: String,
    /// Send it in pieces of this many bytes.
    pub split_every: Option<u32>,
}

// A status is most often only a number: `status: 404`. A string names a library tool.
impl<'de> Deserialize<'de> for StatusAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        struct Full {
            code: u16,
            #[serde(default)]
            headers: BTreeMap<String, String>,
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

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let code = json_schema!({"type": "integer", "minimum": 100, "maximum": 999});
        json_schema!({
            "description": "An HTTP answer other than the faithful one: a status code, or more of it.",
            "anyOf": [code, {
                "type": "object",
                "properties": {
                    "code": code,
                    "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                    "body": {"type": "string"},
                },
                "required": ["code"],
                "additionalProperties": false,
            }],
        })
    }
}
