//! Exceptions to the faithful behaviour: on which event.

use super::condition::one;
use super::{Action, AnyOf, HeaderIs, Like, Nth, Slot, StateIs, glob, template};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sparring_wire::{Revision, Transport};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Gives a struct the words that ask about an event, beside its own; [`Conditions`] is a view of them.
macro_rules! with_conditions {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$own_meta:meta])* pub $own:ident: $own_type:ty,)* }) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$own_meta])* pub $own: $own_type,)*
            /// Only messages with one of these methods; `*` stands for any text.
            #[serde(default)]
            pub method: AnyOf,
            /// Only if the params' `name` is one of these: calls of these tools, uses of these prompts.
            #[serde(default)]
            pub tool: AnyOf,
            /// Only if the message's `params` fit this JSON (of a response: its result or error).
            #[serde(default)]
            pub params: Option<Like>,
            /// Only if the message's id fits this JSON; for a response that is the id of a request of the server's.
            #[serde(default)]
            pub id: Option<Like>,
            /// Only responses with a result that fits this JSON.
            #[serde(default)]
            pub result: Option<Like>,
            /// Only responses with an error that fits this JSON.
            #[serde(default)]
            pub error: Option<Like>,
            /// Only responses to a request of the server's with one of these methods.
            #[serde(default)]
            pub to: AnyOf,
            /// Only if the HTTP request's header fields are like this; names in lower case. Over stdio there are none.
            #[serde(default)]
            pub headers: BTreeMap<String, HeaderIs>,
            /// Only in this state (see `set_state`).
            #[serde(default)]
            pub state: Option<StateIs>,
            /// Only if so many `count` actions with that name were done.
            #[serde(default)]
            pub counts: BTreeMap<String, Nth>,
        }

        impl $name {
            /// What it asks about an event, besides `on`.
            pub const fn conditions(&self) -> Conditions<'_> {
                Conditions {
                    method: &self.method,
                    tool: &self.tool,
                    params: self.params.as_ref(),
                    id: self.id.as_ref(),
                    result: self.result.as_ref(),
                    error: self.error.as_ref(),
                    to: &self.to,
                    headers: &self.headers,
                    state: self.state.as_ref(),
                    counts: &self.counts,
                }
            }
        }
    };
}

/// What a rule or a hold asks about an event, besides its kind.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "they are the words of the same names")]
pub struct Conditions<'a> {
    pub method: &'a AnyOf,
    pub tool: &'a AnyOf,
    pub params: Option<&'a Like>,
    pub id: Option<&'a Like>,
    pub result: Option<&'a Like>,
    pub error: Option<&'a Like>,
    pub to: &'a AnyOf,
    pub headers: &'a BTreeMap<String, HeaderIs>,
    pub state: Option<&'a StateIs>,
    pub counts: &'a BTreeMap<String, Nth>,
}

with_conditions! {
/// An exception to the faithful behaviour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A label for the transcript.
    #[serde(default)]
    pub label: Option<String>,
    /// What it reacts to: one trigger, or a list of which any will do. `start` by default.
    #[serde(default)]
    pub on: On,
    /// Only the nth event that fits the rest, counted from 1: a number, a list of numbers, or a stretch such as
    /// `{ from: 3 }` or `{ every: 2 }`. Every such event by default.
    #[serde(default)]
    pub nth: Option<Nth>,
    /// What `nth` counts in: `server` (each process of a stdio server, the whole case for an HTTP server) by default.
    #[serde(default)]
    pub per: Per,
    /// Only in this process of the server, counted from 1 (stdio); numbers as for `nth`.
    #[serde(default)]
    pub incarnation: Option<Nth>,
    /// Only in cases of these revisions.
    #[serde(default)]
    pub revisions: Vec<Revision>,
    /// Only in cases over these transports: `stdio`, `http`, `sse-legacy`.
    #[serde(default)]
    pub transports: Vec<Transport>,
    /// What to do, in order. If no action answers the request (or stands for its answer), the faithful answer follows.
    #[serde(rename = "do", default, deserialize_with = "checked")]
    #[schemars(with = "Vec<Action>")]
    pub actions: Vec<Action>,
}
}

with_conditions! {
/// What ends a hold: an event (`on`, and what else is asked of it), a state (`state` without `on`), a number of requests
/// held (`held`), or a `release`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [
    {"required": ["on"]},
    {"required": ["state"], "properties": {"state": {"not": {"type": "null"}}}},
    {"required": ["held"], "properties": {"held": {"type": "integer"}}},
    {"required": ["as"], "properties": {"as": {"type": "string"}}},
]))]
pub struct Until {
    /// What has to happen, counted from now.
    #[serde(default)]
    pub on: On,
    /// How many times; once by default.
    #[serde(default = "one")]
    pub times: u32,
    /// The name under which it is held, for `release` and `held`; by default the holds of a rule belong together.
    #[serde(default, rename = "as")]
    pub name: Option<String>,
    /// As soon as this many are held under the name.
    #[serde(default)]
    pub held: Option<u32>,
    /// In which order those that are released together go on.
    #[serde(default)]
    pub order: Order,
}
}

impl Rule {
    /// What it is called in transcripts; `position` is its place in the script, from 0.
    pub fn name(&self, position: usize) -> String {
        self.label.clone().unwrap_or_else(|| format!("{} (rule {})", self.on, position + 1))
    }
}

/// What `nth` counts in, and what a state belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Each process of a stdio server; the whole case for an HTTP server.
    #[default]
    Server,
    /// Each HTTP session; without one as `server`.
    Session,
    /// Each HTTP connection; over stdio as `server`.
    Connection,
}

/// The order of what was held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Order {
    /// As it came.
    #[default]
    AsCame,
    /// The last first.
    Reversed,
    /// By these positions, from 1; what is not named follows as it came.
    Positions(Vec<u32>),
}

impl Order {
    /// Puts things that came one after the other in order.
    pub fn apply<T>(&self, things: Vec<T>) -> Vec<T> {
        match self {
            Self::AsCame => things,
            Self::Reversed => things.into_iter().rev().collect(),
            Self::Positions(positions) => {
                let mut things: Vec<Option<T>> = things.into_iter().map(Some).collect();
                let mut out = Vec::with_capacity(things.len());
                for position in positions {
                    let index = usize::try_from(*position).unwrap_or(usize::MAX).checked_sub(1);
                    out.extend(index.and_then(|i| things.get_mut(i)).and_then(Option::take));
                }
                out.extend(things.into_iter().flatten());
                out
            }
        }
    }
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Orders;
        impl<'de> Visitor<'de> for Orders {
            type Value = Order;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`as-came`, `reversed`, or a list of positions")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Order, E> {
                match word {
                    "as-came" => Ok(Order::AsCame),
                    "reversed" => Ok(Order::Reversed),
                    _ => Err(E::custom(format!("`{word}` is neither `as-came` nor `reversed`"))),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<Order, A::Error> {
                Deserialize::deserialize(de::value::SeqAccessDeserializer::new(access)).map(Order::Positions)
            }
        }
        deserializer.deserialize_any(Orders)
    }
}

impl Serialize for Order {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AsCame => serializer.serialize_str("as-came"),
            Self::Reversed => serializer.serialize_str("reversed"),
            Self::Positions(positions) => positions.serialize(serializer),
        }
    }
}

impl JsonSchema for Order {
    fn schema_name() -> Cow<'static, str> {
        "Order".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The order of what was held: as it came, the last first, or by positions counted from 1 (what is not named follows).",
            "anyOf": [
                {"const": "as-came", "description": "As it came."},
                {"const": "reversed", "description": "The last first."},
                {"type": "array", "items": {"type": "integer", "minimum": 1}},
            ],
        })
    }
}

/// A list of actions from elsewhere than a script's rules, read with the very same checks.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Actions(#[serde(deserialize_with = "checked")] pub Vec<Action>);

/// As many actions one list may come to, all rounds counted.
const MAX_ROUNDS: u64 = 100_000;

/// How many actions come of it.
fn rounds(action: &Action) -> u64 {
    match action {
        Action::Repeat(repeat) => {
            let inner = repeat.actions.iter().map(rounds).fold(0, u64::saturating_add).max(1);
            u64::from(repeat.times).saturating_mul(inner)
        }
        Action::Progress(times) => u64::from(*times),
        _ => 1,
    }
}

/// Reads actions; placeholders that there are not, holds that nothing ends, and repetitions without measure are errors.
pub(crate) fn checked<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Action>, D::Error> {
    struct Checked(Action);
    impl<'de> Deserialize<'de> for Checked {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let mut action = Action::deserialize(deserializer)?;
            check(&mut action).map_err(de::Error::custom)?;
            Ok(Self(action))
        }
    }
    let actions = Vec::<Checked>::deserialize(deserializer)?;
    let actions: Vec<Action> = actions.into_iter().map(|checked| checked.0).collect();
    if actions.iter().map(rounds).fold(0, u64::saturating_add) > MAX_ROUNDS {
        return Err(de::Error::custom(format!("more than {MAX_ROUNDS} actions in all")));
    }
    Ok(actions)
}

/// What is wrong with an action that could be read. Whoever takes actions from elsewhere than a script's rules asks this.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(action: &mut Action) -> Result<(), String> {
    fn holds(action: &Action) -> bool {
        match action {
            Action::HoldUntil(until) => {
                !until.on.0.is_empty()
                    || until.state.is_some()
                    || until.held.is_some()
                    || until.name.is_some()
            }
            Action::Repeat(repeat) => repeat.actions.iter().all(holds),
            _ => true,
        }
    }
    let mut wrong = Ok(());
    action.slots(&mut |slot: Slot<'_>| {
        if wrong.is_ok() {
            wrong = template::check(&slot);
        }
    });
    wrong?;
    if rounds(action) > MAX_ROUNDS {
        return Err(format!("more than {MAX_ROUNDS} actions in all"));
    }
    if !holds(action) {
        return Err("nothing would end this hold; give `on`, `state`, `held`, or `as` and a `release`".into());
    }
    Ok(())
}

/// The triggers of a rule, or of a hold. A rule without any reacts to `start`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct On(pub Vec<Trigger>);

impl On {
    /// The triggers; `start` if none is named.
    pub fn triggers(&self) -> &[Trigger] {
        if self.0.is_empty() { &[Trigger::Start] } else { &self.0 }
    }

    /// Whether `trigger` is among them.
    pub fn has(&self, trigger: &Trigger) -> bool {
        self.triggers().contains(trigger)
    }
}

impl From<Trigger> for On {
    fn from(trigger: Trigger) -> Self {
        Self(vec![trigger])
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.triggers().iter().map(Trigger::word).collect();
        f.write_str(&words.join(", "))
    }
}

impl<'de> Deserialize<'de> for On {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = AnyOf::deserialize(deserializer)?;
        if words.0.is_empty() {
            return Err(de::Error::custom("no trigger"));
        }
        words.0.iter().map(|w| w.parse().map_err(de::Error::custom)).collect::<Result<_, _>>().map(Self)
    }
}

impl Serialize for On {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        AnyOf(self.triggers().iter().map(|t| t.word().to_owned()).collect()).serialize(serializer)
    }
}

impl JsonSchema for On {
    fn schema_name() -> Cow<'static, str> {
        "On".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let trigger = generator.subschema_for::<Trigger>();
        json_schema!({
            "description": "A trigger, or a list of triggers of which any will do.",
            "anyOf": [trigger, {"type": "array", "items": trigger, "minItems": 1}],
        })
    }
}

/// What a rule reacts to: the method of a message from the client (`tools/call`, `notifications/initialized`), or one
/// of the words below.
///
/// - `start`: the process has started, or the HTTP server's first connection was accepted;
/// - `eof`: stdin ended (stdio); `sigterm`: SIGTERM arrived (stdio);
/// - `http-get`, `http-post`, `http-delete`: an HTTP request with that method, before it is looked into;
/// - `get-stream`: the GET stream is open;
/// - `response`: the client answered a request of the server's;
/// - `message`: any message from the client; `request`, `notification`: any message of that kind;
/// - `unknown`: a request or notification whose method is in no revision;
/// - a method with `*` for any text, such as `tools/*`.
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
    /// Any message from the client.
    Message,
    /// Any request from the client.
    Request,
    /// Any notification from the client.
    Notification,
    /// A request or notification whose method is in no revision.
    Unknown,
    /// A message from the client with this method; each `*` stands for any text.
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
    pub const WORDS: [&str; 12] = [
        "start",
        "eof",
        "sigterm",
        "http-get",
        "http-post",
        "http-delete",
        "get-stream",
        "response",
        "message",
        "request",
        "notification",
        "unknown",
    ];

    /// What they mean, in the same order.
    const MEANINGS: [&str; Self::WORDS.len()] = [
        "The process has started, or the HTTP server's first connection was accepted.",
        "stdin ended (stdio).",
        "SIGTERM arrived (stdio).",
        "An HTTP request with the method GET, before it is looked into.",
        "An HTTP request with the method POST, before it is looked into.",
        "An HTTP request with the method DELETE, before it is looked into.",
        "The GET stream is open (HTTP).",
        "The client answered a request of the server's.",
        "Any message from the client.",
        "Any request from the client.",
        "Any notification from the client.",
        "A request or notification whose method is in no revision.",
    ];

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
            Self::Message => "message",
            Self::Request => "request",
            Self::Notification => "notification",
            Self::Unknown => "unknown",
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
            "message" => Self::Message,
            "request" => Self::Request,
            "notification" => Self::Notification,
            "unknown" => Self::Unknown,
            method if CLIENT_METHODS.iter().any(|m| glob(method, m)) => Self::Method(method.to_owned()),
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

impl JsonSchema for Trigger {
    fn schema_name() -> Cow<'static, str> {
        "Trigger".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = Self::WORDS.iter().zip(Self::MEANINGS);
        let mut any: Vec<_> =
            words.map(|(word, about)| json_schema!({"const": word, "description": about})).collect();
        any.push(json_schema!({"enum": CLIENT_METHODS, "description": "A message from the client with this method."}));
        any.push(json_schema!({
            "type": "string",
            "pattern": "\\*",
            "description": "A method with `*` for any text, such as `tools/*`.",
        }));
        json_schema!({
            "description": "What a rule reacts to: a word, a method of a client's, or a method with `*` for any text.",
            "anyOf": any,
        })
    }
}
