//! What was observed in one case, in order: the only thing a judge sees.
//!
//! A transcript is stored as JSON Lines, one [`Event`] a line. Times come from CLOCK_MONOTONIC, so events of
//! different processes on one machine can be compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Position in the transcript, from 1.
    pub n: u64,
    /// Microseconds since the case started.
    pub at_us: u64,
    /// The scripted server it belongs to, by its name in the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Which process of that server, from 1 (stdio only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
    /// What was observed.
    pub what: What,
}

/// A direction, seen from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the client under test.
    Received,
    /// From the scripted server.
    Sent,
}

/// The kinds of observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum What {
    // ---- a recording ----
    /// The servers from here on are not scripted: something was put between a client and a real server. What such a
    /// server sends is its own, right or wrong.
    Recorded(Recorded),
    /// Whoever wrote the transcript had nothing more to write. A transcript without it was cut off; one that several
    /// recordings share has one for each.
    End,

    // ---- a stdio server, seen from inside ----
    /// The client spawned the server.
    ProcessStarted(Process),
    /// The server started a process of its own, as its script says.
    GrandchildStarted {
        /// Its process id.
        pid: u32,
    },
    /// A line on the server's stdin (received) or stdout (sent).
    Line(LineSeen),
    /// The server wrote this many bytes to stderr.
    Stderr {
        /// Bytes written.
        bytes: u64,
    },
    /// The client closed the server's stdin.
    StdinClosed,
    /// The server closed its stdout on purpose, or found that the client had.
    StdoutClosed {
        /// Who closed it.
        by: Party,
    },
    /// The server received a signal.
    SignalReceived {
        /// Such as `SIGTERM`.
        signal: String,
    },
    /// The server is about to end by its own will: by the script, or after stdin closed.
    ProcessExiting {
        /// Exit code, unless it dies by a signal.
        code: Option<i32>,
        /// The signal it raises against itself.
        signal: Option<String>,
    },
    /// The server's process is gone: its side channel closed.
    ProcessEnded {
        /// Its process id.
        pid: u32,
    },

    // ---- an HTTP server ----
    /// A request arrived, whole.
    HttpRequest(HttpRequest),
    /// A response was sent; for a stream, its head.
    HttpResponse(HttpResponse),
    /// A server-sent event, or raw bytes, went out on a stream.
    StreamEvent(StreamEvent),
    /// A streamed response ended.
    StreamEnded {
        /// Number of the request it answered.
        exchange: u64,
        /// Who ended it.
        by: Party,
    },

    /// The server broke a response off on purpose.
    ResponseBroken {
        /// Number of the request it answered.
        exchange: u64,
        /// Bytes of it that went out, head included.
        bytes: u64,
        /// What came then.
        how: ResponseEnd,
    },

    // ---- the script ----
    /// A rule of the script matched.
    RuleFired {
        /// The rule's label, or its `on` and position.
        rule: String,
    },
    /// The model changed.
    ModelChanged {
        /// In words.
        change: String,
    },

    // ---- the driver and the client under test ----
    /// The client under test was started as a process.
    ClientStarted {
        /// Its process id.
        pid: u32,
        /// Its arguments, program first.
        argv: Vec<String>,
    },
    /// The client under test ended.
    ClientEnded {
        /// Exit code, if it ended by itself.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<String>,
        /// Whether the harness had asked for that.
        expected: bool,
    },
    /// The client under test wrote text that is no driver message.
    ClientOutput {
        /// `stdout` or `stderr`.
        stream: String,
        /// The text, at most a few lines.
        text: String,
    },
    /// A step of the scenario was handed to the driver.
    StepStarted {
        /// The step's label.
        step: String,
        /// The operation's name.
        op: String,
        /// Its arguments.
        arguments: Value,
    },
    /// A step ended.
    StepEnded {
        /// The step's label.
        step: String,
        /// The operation's name.
        op: String,
        /// What came of it.
        outcome: Outcome,
        /// How long it took, in microseconds.
        took_us: u64,
    },
    /// The driver reported something by itself (a notification that reached the caller, an authorization URL…).
    DriverEvent {
        /// The event's name.
        name: String,
        /// Its data.
        data: Value,
    },

    // ---- the harness ----
    /// The case's deadline passed.
    Deadline {
        /// What was awaited.
        awaited: String,
    },
    /// A process of the client outlived the case and was ended by force.
    Escaped {
        /// Its process id.
        pid: u32,
        /// Its command line.
        command: String,
    },
    /// A fault of ours; the client is never blamed.
    HarnessError {
        /// What went wrong.
        message: String,
    },
}

/// The beginning of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The recorder with its version, such as `sparring 0.1.0`.
    pub by: String,
    /// CLOCK_MONOTONIC in microseconds at the transcript's time 0, by which a later recording on the same machine goes
    /// on in the same file.
    pub started_us: u64,
    /// The URL of the real server, for HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
}

/// Who ended something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Party {
    /// The client under test.
    Client,
    /// The scripted server.
    Server,
}

/// What came instead of the rest of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResponseEnd {
    /// The connection was closed.
    Closed,
    /// The connection was reset.
    Reset,
    /// Nothing; the connection stayed open.
    Stalled,
}

/// A server process as it found itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Its parent's process id.
    pub parent: u32,
    /// Arguments as given, program first; invalid UTF-8 replaced.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: String,
    /// Process group.
    pub process_group: i32,
    /// Session.
    pub session: i32,
    /// File descriptors open at the start, besides 0, 1 and 2.
    pub descriptors: Vec<i32>,
    /// The mask of file permissions, where the system has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Signals that were blocked at the start, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_signals: Vec<String>,
    /// Signals that were ignored at the start, by name, where the system can tell (Linux); never SIGPIPE, which the
    /// mock's own runtime ignores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_signals: Vec<String>,
}

/// A line on stdin or stdout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineSeen {
    /// Whose line it is.
    pub direction: Direction,
    /// The text without its end of line.
    pub text: String,
    /// It contained invalid UTF-8, replaced in `text`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub invalid_utf8: bool,
    /// It ended in `\r\n`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub carriage_return: bool,
    /// The stream ended without a newline after it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unterminated: bool,
    /// Sent on purpose as something that is not a valid message; not held against the harness.
    #[serde(default, skip_serializing_if = "is_false")]
    pub scripted_fault: bool,
}

/// An HTTP request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpRequest {
    /// Number of the exchange, from 1 per case, over all HTTP servers.
    pub exchange: u64,
    /// Number of the TCP connection, from 1 per case.
    pub connection: u64,
    /// Such as `POST`.
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// Header fields in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; invalid UTF-8 replaced.
    pub body: String,
    /// The body contained invalid UTF-8.
    #[serde(default, skip_serializing_if = "is_false")]
    pub invalid_utf8: bool,
    /// The role of the listener: `mcp`, `authorization-server` or `other`.
    pub role: HttpRole,
}

/// What an HTTP listener stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HttpRole {
    /// The MCP endpoint's listener.
    #[default]
    Mcp,
    /// The authorization server.
    AuthorizationServer,
    /// Another origin, such as a redirect target that must not see credentials.
    Other,
}

/// An HTTP response.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpResponse {
    /// Number of the exchange.
    pub exchange: u64,
    /// Status code.
    pub status: u16,
    /// Header fields in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; `None` for a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Sent on purpose as something invalid.
    #[serde(default, skip_serializing_if = "is_false")]
    pub scripted_fault: bool,
}

/// Something sent on a stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamEvent {
    /// Number of the exchange.
    pub exchange: u64,
    /// The data, if it is an event with data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The event's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The event's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The event's retry value in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<u64>,
    /// A comment or other raw text instead of an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// Sent on purpose as something invalid.
    #[serde(default, skip_serializing_if = "is_false")]
    pub scripted_fault: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// What came of a driver operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Outcome {
    /// It succeeded; the value is described with the operation.
    Ok {
        /// What it returned.
        value: Value,
    },
    /// It failed at the caller.
    Error {
        /// Which kind of failure.
        error: Failure,
    },
    /// It was still running when the harness stopped waiting.
    Pending {
        /// For how long it had been running, in milliseconds.
        after_ms: u64,
    },
    /// The driver can't do this.
    Unsupported {
        /// Why.
        reason: String,
    },
}

impl Outcome {
    /// The word that patterns use: `ok`, `error`, `pending`, `unsupported`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Ok { .. } => "ok",
            Self::Error { .. } => "error",
            Self::Pending { .. } => "pending",
            Self::Unsupported { .. } => "unsupported",
        }
    }
}

/// How an operation failed, as the client's caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(deny_unknown_fields)]
#[error("{message}")]
pub struct Failure {
    /// Which kind.
    pub kind: FailureKind,
    /// The client's own words.
    pub message: String,
    /// The JSON-RPC error code, or the HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
}

impl Failure {
    /// A failure without a code.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), code: None }
    }
}

/// Kinds of failure that a driver tells apart. One that can't tell says `other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The server answered with a JSON-RPC error.
    Protocol,
    /// No answer in time.
    Timeout,
    /// Cancelled by the caller.
    Cancelled,
    /// The connection or the process is gone.
    Closed,
    /// An HTTP status that means failure.
    Http,
    /// Authorization failed.
    Auth,
    /// The client refused what the server sent.
    Invalid,
    /// The command could not be started, or the address not reached.
    Start,
    /// The client refused to do it (unknown tool, capability not negotiated…).
    Refused,
    /// Anything else, or the driver can't tell.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_round_trip_and_unknown_fields_are_errors() {
        let event = Event {
            n: 1,
            at_us: 12,
            server: Some("s".into()),
            incarnation: Some(1),
            what: What::Line(LineSeen {
                direction: Direction::Received,
                text: "{}".into(),
                invalid_utf8: false,
                carriage_return: true,
                unterminated: false,
                scripted_fault: false,
            }),
        };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(
            text,
            r#"{"n":1,"at_us":12,"server":"s","incarnation":1,"what":{"kind":"line","direction":"received","text":"{}","carriage_return":true}}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
        assert!(
            serde_json::from_str::<Event>(r#"{"n":1,"at_us":1,"what":{"kind":"stdin-closed"},"x":1}"#)
                .is_err()
        );
    }
}
