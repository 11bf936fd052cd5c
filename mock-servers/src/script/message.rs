//! What the actions that send messages and change the model are told.

use super::{Action, JsonText, Order};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// A JSON-RPC error to answer with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorAnswer {
    /// The code.
    pub code: i64,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// The data.
    #[serde(default)]
    pub data: Option<JsonText>,
}

/// A message that the server sends by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnMessage {
    /// The method.
    pub method: String,
    /// The params; none by default.
    #[serde(default)]
    pub params: Option<JsonText>,
    /// The id of a request; `"s-1"`, `"s-2"`… by default. JSON: `'7'` is a number, `'"7"'` a string.
    #[serde(default)]
    pub id: Option<JsonText>,
    /// Over HTTP: send it on the GET stream instead of the stream of the request at hand.
    #[serde(default)]
    pub on_get_stream: bool,
}

/// Changes to the faithful answer, a JSON-RPC message: `set` first, then `put`, then `remove`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Amend {
    /// JSON that is merged into the message: objects member by member, everything else (`null` too) replaces what was
    /// there.
    pub set: Option<JsonText>,
    /// JSON by JSON pointer into the message, such as `/result/tools/0/description`; `-` as the last part adds to a list.
    /// A pointer that leads nowhere does nothing.
    pub put: BTreeMap<String, JsonText>,
    /// JSON pointers to what is taken out.
    pub remove: Vec<String>,
}

/// Text to send as a message, whatever it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawMessage(pub RawText);

/// Text to send as a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawText {
    /// The text: over stdio a line, over HTTP the data of an event or the body of the answer.
    pub text: String,
    /// It stands for the answer to the request at hand. A response with that request's id does so anyway.
    #[serde(default)]
    pub answers: bool,
    /// Over HTTP: send it on the GET stream instead of the stream of the request at hand.
    #[serde(default)]
    pub on_get_stream: bool,
}

/// Requests to answer that are held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Release(pub Held);

/// Requests that are held under a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The name under which they are held (`as` of `hold_until`, or the label of the rule).
    pub held: String,
    /// In which order they go on; as they came by default.
    #[serde(default)]
    pub order: Order,
    /// How many at most; all by default.
    #[serde(default)]
    pub count: Option<u32>,
}

/// Actions to be done again and again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// How often. All rounds of all actions of a rule together may come to 100,000 actions.
    pub times: u32,
    /// What to do in each round. `{{round}}` stands for its number.
    #[serde(rename = "do", deserialize_with = "super::rule::checked")]
    #[schemars(with = "Vec<Action>")]
    pub actions: Vec<Action>,
    /// Rounds that are over, and the round of the repetition that this one is in: for the interpreter.
    #[serde(skip)]
    pub(crate) done: u32,
    #[serde(skip)]
    pub(crate) outer: u32,
}

/// A log message (`notifications/message`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogMessage {
    /// Its level. A message below the level that the client asked for is not sent; use `notify` to send it in spite of that.
    pub level: LogLevel,
    /// Its data, text or any other JSON as JSON text (`'"text"'`).
    pub data: JsonText,
    /// The name of the logger.
    #[serde(default)]
    pub logger: Option<String>,
}

/// Levels of log messages, the least urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they are the words of the specification")]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// Changes to a tool; what is not named stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeTool {
    /// The tool.
    pub name: String,
    /// A new `title`.
    #[serde(default)]
    pub title: Option<String>,
    /// A new `description`.
    #[serde(default)]
    pub description: Option<String>,
    /// A new `inputSchema`.
    #[serde(default)]
    pub input_schema: Option<JsonText>,
    /// A new `outputSchema`.
    #[serde(default)]
    pub output_schema: Option<JsonText>,
    /// New `annotations`.
    #[serde(default)]
    pub annotations: Option<JsonText>,
    /// New members merged into the definition.
    #[serde(default)]
    pub extra: Option<JsonText>,
    /// A new result of calls.
    #[serde(default)]
    pub result: Option<JsonText>,
}

/// Changes to what the server says of itself and how it lists; what is not named stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeServer {
    /// Other capabilities, for later handshakes and as the measure of what methods there are.
    pub capabilities: Option<JsonText>,
    /// Other `serverInfo`.
    pub info: Option<JsonText>,
    /// Other `instructions`.
    pub instructions: Option<String>,
    /// Another protocol version, for later handshakes.
    pub version: Option<String>,
    /// Another number of items per page, from 1 to 1,000,000.
    #[serde(deserialize_with = "super::limit::within::<1, 1_000_000, _, _>")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub page_size: Option<u32>,
}

/// One thing wrong with an answer's envelope. Over HTTP the answer is the body or one event, as ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mangle {
    /// An id that no request had.
    UnknownId,
    /// The id as the other JSON type.
    IdType,
    /// `id` is `null`.
    IdNull,
    /// No `id`.
    NoId,
    /// The id as a number with a fraction (`1.0`; of a string its length).
    IdFloat,
    /// `id` is `true`.
    IdBool,
    /// The id in an array.
    IdArray,
    /// An id of 30 digits.
    IdHuge,
    /// No `jsonrpc`.
    NoVersion,
    /// `jsonrpc` is `"1.0"`.
    WrongVersion,
    /// `jsonrpc` is the number 2.0.
    VersionNumber,
    /// Both `result` and `error`.
    ResultAndError,
    /// Neither `result` nor `error`.
    NoResult,
    /// The member is called `Result` (or `Error`).
    WrongCase,
    /// A result that is not what the method returns (a number).
    WrongResult,
    /// `result` is `null`.
    NullResult,
    /// `result` is an array.
    ArrayResult,
    /// An error instead of the result, whose `code` is a string.
    ErrorCodeString,
    /// An error instead of the result, without a `message`.
    ErrorNoMessage,
    /// An error instead of the result that is a string.
    ErrorString,
    /// A `method` beside the result.
    Method,
    /// A member that JSON-RPC does not know.
    ExtraMember,
    /// `id` twice: first that of another request, then the right one.
    DuplicateKey,
    /// The result has a member nested 10 000 arrays deep.
    DeepNesting,
    /// The result has a member with half a surrogate pair (`"\ud83d"`).
    LoneSurrogate,
    /// The result has a member whose number has 400 digits.
    HugeNumber,
    /// The result has a member `NaN`, which is no JSON.
    NotANumber,
    /// The result has a member with a raw tab and a NUL in a string, which is no JSON.
    ControlCharacters,
    /// A comma before the last brace.
    TrailingComma,
    /// In an array of one.
    Array,
    /// Spread over several lines.
    Pretty,
    /// Followed by the same once more, without anything between them.
    Twice,
    /// Cut in the middle.
    Truncated,
}

impl Mangle {
    /// All of them.
    pub const ALL: [Self; 33] = [
        Self::UnknownId,
        Self::IdType,
        Self::IdNull,
        Self::NoId,
        Self::IdFloat,
        Self::IdBool,
        Self::IdArray,
        Self::IdHuge,
        Self::NoVersion,
        Self::WrongVersion,
        Self::VersionNumber,
        Self::ResultAndError,
        Self::NoResult,
        Self::WrongCase,
        Self::WrongResult,
        Self::NullResult,
        Self::ArrayResult,
        Self::ErrorCodeString,
        Self::ErrorNoMessage,
        Self::ErrorString,
        Self::Method,
        Self::ExtraMember,
        Self::DuplicateKey,
        Self::DeepNesting,
        Self::LoneSurrogate,
        Self::HugeNumber,
        Self::NotANumber,
        Self::ControlCharacters,
        Self::TrailingComma,
        Self::Array,
        Self::Pretty,
        Self::Twice,
        Self::Truncated,
    ];
}

/// A list that can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ListKind {
    /// Tools.
    Tools,
    /// Resources.
    Resources,
    /// Prompts.
    Prompts,
}

/// Gives a newtype over a struct its short form: a string instead of the map.
macro_rules! or_text {
    ($outer:ident, $inner:ident, $field:ident, $expecting:literal, $description:literal) => {
        impl<'de> Deserialize<'de> for $outer {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Either;
                impl<'de> Visitor<'de> for Either {
                    type Value = $outer;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$outer, E> {
                        Ok($outer($inner { $field: text.to_owned(), ..$inner::default() }))
                    }

                    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<$outer, A::Error> {
                        $inner::deserialize(de::value::MapAccessDeserializer::new(access)).map($outer)
                    }
                }
                deserializer.deserialize_any(Either)
            }
        }

        impl Serialize for $outer {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let plain = $inner { $field: self.0.$field.clone(), ..$inner::default() };
                if self.0 == plain { serializer.serialize_str(&self.0.$field) } else { self.0.serialize(serializer) }
            }
        }

        impl JsonSchema for $outer {
            fn schema_name() -> Cow<'static, str> {
                stringify!($outer).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let full = generator.subschema_for::<$inner>();
                json_schema!({"description": $description, "anyOf": [{"type": "string"}, full]})
            }
        }
    };
}

or_text!(
    RawMessage,
    RawText,
    text,
    "the text, or a map with `text`",
    "Text to send as a message, whatever it is."
);
or_text!(
    Release,
    Held,
    held,
    "the name of what is held, or a map with `held`",
    "Requests to answer that are held."
);
