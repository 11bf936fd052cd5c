//! How a check names an event of the transcript.
//!
//! A pattern has one *head*, which says what kind of event is meant, and any number of restrictions. All that is given
//! must hold. Patterns are evaluated in `sparring`'s judge; this is only their form.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, de};
use sparring_mock_servers::script::JsonText;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A pattern over events. Exactly one head must be given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pattern {
    // ---- heads ----
    /// Head: the client sent a request with this method (`*`: any), over any transport.
    pub request: Option<String>,
    /// Head: the client sent a notification with this method (`*`: any).
    pub notification: Option<String>,
    /// Head: the client answered a request of the server's that had this method (`*`: any).
    pub answer: Option<String>,
    /// Head: the server sent a request with this method.
    pub server_request: Option<String>,
    /// Head: the server sent a notification with this method.
    pub server_notification: Option<String>,
    /// Head: the server answered a request of the client's that had this method.
    pub server_answer: Option<String>,
    /// Head: an HTTP request with this method (`*`: any). The event is the request; with `status` it is the response.
    pub http: Option<String>,
    /// Head: something about a stdio server's process.
    pub process: Option<ProcessEvent>,
    /// Head: something about a stream of server-sent events.
    pub stream: Option<StreamPhase>,
    /// Head: the step with this label ended.
    pub step: Option<String>,
    /// Head: the driver reported an event with this name.
    pub driver_event: Option<String>,
    /// Head: the rule with this label fired.
    pub rule: Option<String>,

    // ---- restrictions on any ----
    /// Of this server.
    pub server: Option<String>,
    /// Of this process of the server (stdio), from 1.
    pub incarnation: Option<u32>,
    /// Only the nth event that matches the rest, from 1, counted over the whole transcript.
    pub nth: Option<u32>,

    // ---- on JSON-RPC messages (also the message in an HTTP request's body) ----
    /// `params` contain this JSON, see [`JsonPattern`].
    pub params: Option<JsonPattern>,
    /// `result` contains this JSON.
    pub result: Option<JsonPattern>,
    /// It is an error with this code; `any` for whatever code, `none` for a result.
    pub error: Option<ErrorPattern>,
    /// The JSON-RPC id equals that of the message in the event that `after` matched.
    pub same_id: bool,
    /// This member of `params` equals the JSON-RPC id of the message in the event that `after` matched.
    pub names_id: Option<String>,

    // ---- on HTTP exchanges ----
    /// The path of the target, without the query.
    pub path: Option<String>,
    /// The JSON-RPC method in the body.
    pub method: Option<String>,
    /// The response's status. The event is then the response.
    pub status: Option<u16>,
    /// Request headers, names in lower case: `absent`, `present`, or the exact value.
    pub header: BTreeMap<String, TextPattern>,
    /// Parameters of the query: `absent`, `present`, or the exact value.
    pub query: BTreeMap<String, TextPattern>,
    /// Parameters of a form body: `absent`, `present`, or the exact value.
    pub form: BTreeMap<String, TextPattern>,
    /// The listener: `mcp` (default), `authorization-server`, `other`.
    pub role: Option<sparring_wire::transcript::HttpRole>,

    // ---- on processes ----
    /// The signal received.
    pub signal: Option<String>,

    // ---- on steps and driver events ----
    /// How the step ended.
    pub outcome: Option<OutcomeWord>,
    /// The kinds of failure that are accepted; any by default.
    pub failure: Vec<sparring_wire::transcript::FailureKind>,
    /// The failure's code.
    pub code: Option<i64>,
    /// The failure's message contains this text, whatever the case.
    pub message: Option<String>,
    /// The value of a successful step, the data of a driver event, or what a process found itself as (`process: started`:
    /// `argv`, `env`, `cwd`, `pid`, `process_group`, …), contains this JSON.
    pub value: Option<JsonPattern>,
}

/// JSON to compare with. Objects are compared as a subset, arrays by length and element, everything else by equality.
/// An object with a single key that starts with `$` is an operator:
///
/// - `{"$any": true}`: any value, but present;
/// - `{"$absent": true}`: as a member's value: the member is absent;
/// - `{"$type": "string"}`: of this JSON type (`string`, `number`, `integer`, `boolean`, `object`, `array`, `null`);
/// - `{"$length": 3}`: an array, object or string (in Unicode scalar values) of this length;
/// - `{"$max_length": 64}`: at most that long;
/// - `{"$has": x}`: an array with an element that matches `x`;
/// - `{"$lacks": x}`: an array without an element that matches `x`;
/// - `{"$each": x}`: an array of which each element matches `x`;
/// - `{"$exactly": x}`: equal to `x` without the subset rule;
/// - `{"$class": "[A-Za-z0-9_-]"}`: a string that consists of characters of this class: ranges and characters only;
/// - `{"$blob": n}`: a Base64 string of exactly the library's byte pattern of length `n`;
/// - `{"$distinct": "name"}`: an array of objects whose members of that name are all different;
/// - `{"$contains": "text"}`: a string with this text in it;
/// - `{"$bytes": [10, 20]}`: a string of so many bytes of UTF-8, from and to;
/// - `{"$not": x}`: present, and doesn't match `x`;
/// - `{"$all": [x, y]}`: matches each of these;
/// - `{"$one_of": [x, y]}`: matches one of these at least.
pub type JsonPattern = JsonText;

/// The operators of [`JsonPattern`].
pub const JSON_OPERATORS: [&str; 17] = [
    "$any",
    "$absent",
    "$type",
    "$length",
    "$max_length",
    "$has",
    "$lacks",
    "$each",
    "$exactly",
    "$class",
    "$blob",
    "$distinct",
    "$contains",
    "$bytes",
    "$not",
    "$all",
    "$one_of",
];

/// A text to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPattern {
    /// It is not there.
    Absent,
    /// It is there, whatever its value.
    Present,
    /// It has this value. Over several occurrences: one of them.
    Is(String),
}

impl<'de> Deserialize<'de> for TextPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match String::deserialize(deserializer)?.as_str() {
            "absent" => Self::Absent,
            "present" => Self::Present,
            text => Self::Is(text.to_owned()),
        })
    }
}

impl Serialize for TextPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Absent => "absent",
            Self::Present => "present",
            Self::Is(text) => text,
        })
    }
}

impl JsonSchema for TextPattern {
    fn schema_name() -> Cow<'static, str> {
        "TextPattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A text to compare with.",
            "anyOf": [
                {"const": "absent", "description": "It is not there."},
                {"const": "present", "description": "It is there, whatever its value."},
                {"type": "string", "description": "It has this value. Over several occurrences: one of them."},
            ],
        })
    }
}

/// Which error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorPattern {
    /// An error, whatever its code.
    Any,
    /// No error: a result.
    None,
    /// An error with this code.
    Code(i64),
}

impl<'de> Deserialize<'de> for ErrorPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ErrorVisitor;
        impl de::Visitor<'_> for ErrorVisitor {
            type Value = ErrorPattern;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("`any`, `none` or an error code")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ErrorPattern, E> {
                match text {
                    "any" => Ok(ErrorPattern::Any),
                    "none" => Ok(ErrorPattern::None),
                    code => code.parse().map(ErrorPattern::Code).map_err(|_| {
                        E::custom(format!("`{code}` is neither `any`, `none` nor an error code"))
                    }),
                }
            }

            fn visit_i64<E: de::Error>(self, code: i64) -> Result<ErrorPattern, E> {
                Ok(ErrorPattern::Code(code))
            }

            fn visit_u64<E: de::Error>(self, code: u64) -> Result<ErrorPattern, E> {
                i64::try_from(code)
                    .map(ErrorPattern::Code)
                    .map_err(|_| E::custom("no error code is that large"))
            }
        }
        deserializer.deserialize_any(ErrorVisitor)
    }
}

impl JsonSchema for ErrorPattern {
    fn schema_name() -> Cow<'static, str> {
        "ErrorPattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Which error.",
            "anyOf": [
                {"const": "any", "description": "An error, whatever its code."},
                {"const": "none", "description": "No error: a result."},
                {"type": "integer", "description": "An error with this code."},
                {"type": "string", "pattern": "^-?[0-9]{1,18}$", "description": "The same, in quotes."},
            ],
        })
    }
}

impl Serialize for ErrorPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str("any"),
            Self::None => serializer.serialize_str("none"),
            Self::Code(code) => serializer.serialize_str(&code.to_string()),
        }
    }
}

/// Events of a stdio server's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessEvent {
    /// The client spawned it.
    Started,
    /// The client closed its stdin.
    StdinClosed,
    /// It received a signal; see `signal`.
    Signal,
    /// It ends by its own will.
    Exiting,
    /// It is gone, for whatever reason. The harness learns of that a little later, so it is something to wait for
    /// and no measure of time.
    Ended,
    /// It outlived the client, and the harness had to end it.
    Escaped,
}

/// Phases of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StreamPhase {
    /// An event went out on it.
    Event,
    /// The server ended it.
    EndedByServer,
    /// The client closed it.
    EndedByClient,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeWord {
    /// It succeeded.
    Ok,
    /// It failed.
    Error,
    /// It was still running when the harness stopped waiting.
    Pending,
}
