//! Exceptions to the faithful behaviour: what to do.

use super::{
    AnswerStyle, AskScript, CutStream, JsonText, LogMessage, RawBody, RequestTask, ResourceScript,
    ResultMember, StatusAnswer, SubscriptionEnd, TaskMove, TaskScript, ToolScript, Until,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something a server does. Those marked *answers* stand for the answer to the request at hand, so the faithful one is
/// not given as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    // ---- messages ----
    /// The faithful answer, at this place in the order. *Answers.*
    Default,
    /// A result. *Answers.*
    Respond(JsonText),
    /// A JSON-RPC error. *Answers.*
    Error(ErrorAnswer),
    /// No answer, ever. *Answers.*
    Drop,
    /// The faithful answer, but only when the given event has happened (counted from now). *Answers.*
    HoldUntil(Until),
    /// The faithful answer, in an envelope that is wrong in one way. *Answers.*
    Mangle(Mangle),
    /// The faithful answer, twice. *Answers.*
    Duplicate,
    /// Wait before the next action, in milliseconds.
    DelayMs(u64),
    /// Send a notification.
    Notify(OwnMessage),
    /// Send a request; the client's answer is awaited by nobody unless `hold_until: response` follows.
    Request(OwnMessage),
    /// Report progress on the request at hand this many times; a request without a token gets none.
    Progress(u32),
    /// Send these messages as one JSON-RPC batch.
    Batch(JsonText),

    // ---- the model ----
    /// Add a tool.
    AddTool(ToolScript),
    /// Remove a tool.
    RemoveTool(String),
    /// Add a resource.
    AddResource(ResourceScript),
    /// Remove a prompt.
    RemovePrompt(String),
    /// Send `notifications/tools/list_changed`, `…/resources/…` or `…/prompts/…`.
    Announce(ListKind),

    // ---- rounds and tasks ----
    /// Ask the client for input; when it has come, the next action follows. A request that brings a `requestState`
    /// of a later `input_required` in the same rule has passed the earlier ones. *Answers* (in 2026-07-28).
    InputRequired(AskScript),
    /// Run the request at hand as a task and answer with it, whatever the tool says. A fault where the revision or
    /// the client knows no tasks. *Answers.*
    RunAsTask(TaskScript),
    /// Ask the client for something as a task of its own (2025-11-25), ask after it and fetch its result; the next
    /// action follows when that has come. In earlier revisions it is a plain request, in 2026-07-28 a fault that
    /// nobody waits for.
    RequestTask(RequestTask),
    /// Move all tasks that have not ended. Those who listen are told.
    MoveTasks(TaskMove),
    /// Send `notifications/resources/updated` for this URI to those who have subscribed to it.
    ResourceUpdated(String),
    /// End the client's subscriptions (2026-07-28; ignored before). Until then they stay open.
    EndSubscriptions(SubscriptionEnd),
    /// Leave these members out of the answer to the request at hand (2026-07-28; ignored before). Does not answer by
    /// itself.
    LeaveOut(Vec<ResultMember>),
    /// Send a log message, if the client wants it.
    Log(LogMessage),

    // ---- stdio ----
    /// Write this line to stdout, as it is.
    Stdout(String),
    /// Write this many bytes of text lines to stderr, blocking as a real server would.
    StderrBytes(u64),
    /// Write the next message in pieces of this many bytes, flushed one by one.
    SplitEvery(u32),
    /// Keep the next messages back and write them with the one after in a single write.
    MergeNext(u32),
    /// End the next message with `\r\n`.
    Crlf,
    /// Put a byte order mark before the next message.
    ByteOrderMark,
    /// Put a byte that is not UTF-8 into the next message.
    InvalidUtf8,
    /// Close stdout and go on running.
    CloseStdout,
    /// Exit with this code, at once.
    Exit(i32),
    /// Die by this signal: `SIGKILL`, `SIGSEGV`, `SIGTERM`, `SIGABRT`.
    Die(String),
    /// Stop reading stdin.
    StopReading,

    // ---- HTTP ----
    /// Answer with this status. *Answers.*
    Status(StatusAnswer),
    /// Answer by this style, whatever the server's own. Does not answer by itself.
    Answers(AnswerStyle),
    /// Answer on a stream that ends before the answer. *Answers.*
    CutStream(CutStream),
    /// Reset the connection without a byte. *Answers.*
    Reset,
    /// Read the request and never answer; the connection stays open. *Answers.*
    Stall,
    /// Forget the client's session: requests that name it are answered 404 from now on, this one included. *Answers.*
    ExpireSession,
    /// Close the open GET streams.
    CloseGetStream,
    /// Send an SSE comment on the stream at hand, or on the GET stream.
    SseComment(String),
    /// Send the pending answer's stream as these raw bytes (text), then end it. *Answers.*
    RawBody(RawBody),
}

impl Action {
    /// Whether it stands for the answer to the request at hand.
    pub const fn answers(&self) -> bool {
        matches!(
            self,
            Self::Default
                | Self::Respond(_)
                | Self::Error(_)
                | Self::Drop
                | Self::HoldUntil(_)
                | Self::Mangle(_)
                | Self::Duplicate
                | Self::InputRequired(_)
                | Self::RunAsTask(_)
                | Self::Status(_)
                | Self::CutStream(_)
                | Self::Reset
                | Self::Stall
                | Self::ExpireSession
                | Self::RawBody(_)
                | Self::Exit(_)
                | Self::Die(_)
        )
    }
}

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
    /// The params. In them the string `$requestId` stands for the id of the request at hand.
    #[serde(default)]
    pub params: Option<JsonText>,
    /// The id of a request; `"s-1"`, `"s-2"`… by default. JSON: `'7'` is a number, `'"7"'` a string.
    #[serde(default)]
    pub id: Option<JsonText>,
    /// Over HTTP: send it on the GET stream instead of the stream of the request at hand.
    #[serde(default)]
    pub on_get_stream: bool,
}

/// One thing wrong with an answer's envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mangle {
    /// An id that no request had.
    UnknownId,
    /// The id as the other JSON type.
    IdType,
    /// No `jsonrpc`.
    NoVersion,
    /// Both `result` and `error`.
    ResultAndError,
    /// A result that is not what the method returns (a number).
    WrongResult,
    /// Cut in the middle.
    Truncated,
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
