//! Exceptions to the faithful behaviour: what to do.

use super::{
    AnswerStyle, CutStream, JsonText, RawBody, ResourceScript, SignalName, StatusAnswer, ToolScript, Until,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;

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

    // ---- stdio: what is written ----
    /// Write this line to stdout, as it is.
    Stdout(String),
    /// Write these bytes to stdout, as they are and without a newline of their own.
    StdoutBytes(RawBytes),
    /// Write this line to stdout many times, in one write.
    RepeatStdout(RepeatedLine),
    /// Write this text to stderr, as it is and without a newline of its own, blocking as a real server would.
    Stderr(String),
    /// Write this many bytes of text lines to stderr, blocking as a real server would.
    StderrBytes(u64),

    // ---- stdio: how the next message is written ----
    /// Write the next message in pieces of this many bytes, flushed one by one.
    SplitEvery(u32),
    /// Write the next message in pieces that end after these bytes, counted from its start and ascending, flushed one
    /// by one.
    SplitAt(Vec<u32>),
    /// Write the next message in pieces that end inside each character of more than one byte, flushed one by one.
    SplitCharacters,
    /// Write only this many bytes of the next message (at most all but its end of line). What comes after waits for
    /// `write_rest`, later messages too.
    CutAt(u32),
    /// Write what `cut_at` has kept back.
    WriteRest,
    /// Keep the next messages back and write them with the one after in a single write.
    MergeNext(u32),
    /// End the next message with `\r\n`.
    Crlf,
    /// End the next message with `\r` alone.
    CrOnly,
    /// Write the next message without an end of line: what is written next continues its line.
    NoNewline,
    /// Write this many blank lines before the next message.
    BlankLines(u32),
    /// Write the next message over several lines, indented.
    Pretty,
    /// Write the next message with all characters beyond ASCII as `\u` escapes. It stays valid.
    AsciiOnly,
    /// Fill the line of the next message with spaces behind it, up to this many bytes, at most 64 MiB. It stays valid.
    PadTo(u64),
    /// Put a byte order mark before the next message.
    ByteOrderMark,
    /// Put a byte that is not UTF-8 into the next message.
    InvalidUtf8,

    // ---- stdio: the process ----
    /// Close stdout and go on running.
    CloseStdout,
    /// Close stderr and go on running; what is written there later is lost.
    CloseStderr,
    /// Close stdin and go on running: the client's writes fail. What it had written and nobody has read is lost.
    CloseStdin,
    /// Stop reading stdin; a client's writes block when the pipe is full.
    StopReading,
    /// Read this many more bytes of stdin, counted from behind the line at hand, and then stop.
    StopReadingAfter(u64),
    /// Read stdin again.
    ResumeReading,
    /// Exit with this code, at once.
    Exit(i32),
    /// Die by this signal: `SIGKILL`, `SIGSEGV`, `SIGTERM`, `SIGABRT`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGPIPE`…
    Die(SignalName),

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

/// A line, many times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatedLine {
    /// The line, as it is. `$n` in it stands for its number, from 1.
    pub line: String,
    /// How many times, at most 1,000,000.
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
    Hex(String),
    /// Base64, the standard alphabet, padded.
    Base64(String),
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
