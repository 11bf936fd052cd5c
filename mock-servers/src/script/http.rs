//! How an HTTP endpoint behaves, and HTTP answers of all kinds.

use super::{StatusAnswer, template};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

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
    /// How event streams are written.
    pub sse: SseStyle,
    /// The most GET streams open at a time in one session; one more is answered 409. Any number by default.
    pub get_streams: Option<u32>,
    /// What a GET with a `Last-Event-ID` of a stream that can be resumed gets.
    pub resume: Resume,
    /// The ids of the first sessions, in this order; made-up ones follow. Where `sessions` is off, ignored.
    pub session_ids: Vec<String>,
    /// Name the session in each response, instead of only in the one to `initialize`.
    pub session_in_all: bool,
    /// What a request that names an unknown session gets instead of 404 with a JSON-RPC error.
    pub lost_session: Option<StatusAnswer>,
    /// When connections end.
    pub connections: ConnectionScript,
    /// Serve HTTP+SSE of 2024-11-05, side by side with Streamable HTTP. A server of the old transport alone serves it
    /// in any case; then this says how.
    pub legacy_sse: Option<LegacySse>,
}

/// When an HTTP server's connections end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionScript {
    /// Close each connection right after this many responses; kept alive by default.
    pub responses: Option<u32>,
    /// Say so with `Connection: close` in the last response. Otherwise the client finds a closed connection where it
    /// expected one that is kept alive.
    pub announce: bool,
}

/// HTTP+SSE of 2024-11-05. A GET opens a stream, whose first event, `endpoint`, says where messages are to be posted.
///
/// For rules the opened stream is the event `get-stream`, and the `endpoint` event is what answers it: `drop` leaves it
/// out, actions before `default` come before it, `default` twice sends it twice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LegacySse {
    /// The path of the stream; `/sse` by default. It may be the Streamable HTTP endpoint's own.
    pub path: Option<String>,
    /// What the `endpoint` event says; `/messages?session={{session}}` by default. `{{session}}` stands for the
    /// session's id, percent-encoded, `{{origin}}` for this server's origin, `{{other}}` for a foreign one. Without
    /// `{{session}}` messages belong to the stream opened last.
    #[serde(deserialize_with = "endpoint")]
    pub endpoint: Option<String>,
    /// What a POST to the endpoint is answered with when its message is taken; 202 without a body by default.
    pub accepted: Option<StatusAnswer>,
    /// What a POST to the stream's own URL is answered with. By default 405, or if that URL is the Streamable HTTP
    /// endpoint's too, what that has to say.
    pub refuse: Option<StatusAnswer>,
}

/// Reads what the `endpoint` event says; placeholders that there are not are errors.
fn endpoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    template::only(text.as_deref().unwrap_or_default(), &["session", "origin", "other"])
        .map_err(de::Error::custom)?;
    Ok(text)
}

/// How an event stream is written. All of it is valid unless it says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SseStyle {
    /// The end of line.
    pub line_end: SseLineEnd,
    /// Begin the stream with a byte order mark.
    pub byte_order_mark: bool,
    /// Spread the JSON of each message over several `data` lines.
    pub multi_line: bool,
    /// No space after the colon of a field.
    pub no_space: bool,
    /// The `event` field of each message; none by default. Invalid if it is not `message`.
    pub event_type: Option<String>,
    /// A comment before each event.
    pub comment: Option<String>,
    /// A further line within each event, such as `x-trace: 1`, which readers have to ignore.
    pub extra_line: Option<String>,
    /// The `retry` field of each event, in milliseconds.
    pub retry_ms: Option<u64>,
    /// Give the first event's id again to each later one. Invalid. Where events have no ids, ignored.
    pub same_id: bool,
    /// Keep this many events back and write them together with the one after.
    pub merge: u32,
    /// Leave out the blank line behind the last event of a stream, so that it is never complete. Invalid.
    pub unterminated: bool,
}

/// The ends of line that event streams may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SseLineEnd {
    /// A line feed.
    #[default]
    Lf,
    /// A carriage return.
    Cr,
    /// Both.
    Crlf,
}

/// What a GET with a `Last-Event-ID` of a stream that can be resumed gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Resume {
    /// The events after that one.
    #[default]
    Faithful,
    /// The events after that one, each twice. Invalid.
    Twice,
    /// All events of the stream, also those that came before. Invalid.
    FromStart,
    /// Nothing of what was missed; what comes from now on follows. Invalid.
    Nothing,
    /// 404.
    Refuse,
}

/// An event of the script's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnEvent {
    /// The `event` field; none by default.
    pub event: Option<String>,
    /// The data, a template; no `data` field by default.
    pub data: Option<String>,
    /// The `id` field, a template; by default none, or if the server gives its events ids, the next.
    pub id: Option<String>,
    /// The `retry` field, in milliseconds; none by default.
    pub retry_ms: Option<u64>,
    /// Send it on the GET stream instead of the stream of the request at hand.
    pub on_get_stream: bool,
}

/// Where an answer goes instead of its own response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OtherStream {
    /// To the GET stream.
    GetStream,
    /// To the open stream of another POST; where there is none, nowhere.
    OtherPost,
}

/// A change of the session's id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeSession {
    /// The new id, a template; a made-up one by default.
    pub id: Option<String>,
    /// The old id is still good.
    pub keep_old: bool,
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
