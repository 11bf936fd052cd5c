//! Exceptions to the faithful behaviour: on which event.

use super::{Action, JsonText};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// An exception to the faithful behaviour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// A label for the transcript.
    pub label: Option<String>,
    /// What it reacts to.
    pub on: Trigger,
    /// Only the nth event that matches the rest, counted from 1 in each process of a stdio server and over the whole
    /// case for an HTTP server. Every such event by default.
    pub nth: Option<u32>,
    /// Only in this process of the server, counted from 1 (stdio).
    pub incarnation: Option<u32>,
    /// Only if the message's `params` contain this JSON (objects: a subset; everything else: equal).
    pub params: Option<JsonText>,
    /// What to do, in order. If no action answers the request (or stands for its answer), the faithful answer follows.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
}

/// What a rule reacts to: the method of a message from the client (`tools/call`, `notifications/initialized`), or one
/// of the words below.
///
/// - `start`: the process has started, or the HTTP server's first connection was accepted;
/// - `eof`: stdin ended (stdio); `sigterm`: SIGTERM arrived (stdio);
/// - `http-get`, `http-post`, `http-delete`: an HTTP request with that method, before it is looked into;
/// - `get-stream`: the GET stream is open;
/// - `response`: the client answered a request of the server's.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// The process has started.
    #[default]
    Start,
    /// stdin ended.
    Eof,
    /// SIGTERM arrived.
    Sigterm,
    /// An HTTP request with this method.
    Http(HttpVerb),
    /// The GET stream is open.
    GetStream,
    /// The client answered a request of the server's.
    Response,
    /// A message from the client with this method.
    Method(String),
}

/// The HTTP methods that rules react to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpVerb {
    /// GET.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

impl Trigger {
    /// The words that are no methods.
    pub const WORDS: [&str; 8] =
        ["start", "eof", "sigterm", "http-get", "http-post", "http-delete", "get-stream", "response"];

    /// The word in a script.
    pub fn word(&self) -> &str {
        match self {
            Self::Start => "start",
            Self::Eof => "eof",
            Self::Sigterm => "sigterm",
            Self::Http(HttpVerb::Get) => "http-get",
            Self::Http(HttpVerb::Post) => "http-post",
            Self::Http(HttpVerb::Delete) => "http-delete",
            Self::GetStream => "get-stream",
            Self::Response => "response",
            Self::Method(method) => method,
        }
    }
}

/// The methods that a client may send in any revision; what a rule may react to.
pub const CLIENT_METHODS: [&str; 26] = [
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
    "tasks/update",
    "server/discover",
    "subscriptions/listen",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "notifications/tasks/status",
    "notifications/elicitation/complete",
];

impl std::str::FromStr for Trigger {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "start" => Self::Start,
            "eof" => Self::Eof,
            "sigterm" => Self::Sigterm,
            "http-get" => Self::Http(HttpVerb::Get),
            "http-post" => Self::Http(HttpVerb::Post),
            "http-delete" => Self::Http(HttpVerb::Delete),
            "get-stream" => Self::GetStream,
            "response" => Self::Response,
            method if CLIENT_METHODS.contains(&method) => Self::Method(method.to_owned()),
            other => {
                return Err(format!(
                    "`{other}` is neither a method that clients send nor one of {}",
                    Self::WORDS.join(", ")
                ));
            }
        })
    }
}

impl<'de> Deserialize<'de> for Trigger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Trigger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// An event that ends a hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// What has to happen.
    pub on: Trigger,
    /// How many times; once by default.
    #[serde(default = "one")]
    pub times: u32,
}

const fn one() -> u32 {
    1
}

impl JsonSchema for Trigger {
    fn schema_name() -> Cow<'static, str> {
        "Trigger".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = Self::WORDS.iter().chain(&CLIENT_METHODS).collect::<Vec<_>>();
        json_schema!({"description": "What a rule reacts to.", "enum": words})
    }
}
