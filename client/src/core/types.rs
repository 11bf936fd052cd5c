//! What goes in and comes out of a session.

use super::{Ask, AskKey, Filter, Headers, Hint};
use crate::error::Error;
use crate::raw::Raw;
use serde_json::{Map, Value};
use sparring_wire::{Id, Revision};
use std::time::Duration;

/// Names a request at the caller, whatever id it has on the wire. Never used twice by one [`Session`](super::Session).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Send this message.
    Send(Value),
    /// Send this message, over HTTP, with these header fields.
    Post {
        /// The message.
        message: Value,
        /// The fields that the revision asks for, `MCP-Protocol-Version` among them.
        headers: Headers,
    },
    /// The request has ended. Each one ends exactly once.
    Resolve {
        /// Which request.
        ticket: Ticket,
        /// Whether the result depends on the request alone, and not on input that the server asked for.
        direct: bool,
        /// Its result, not parsed yet.
        outcome: Result<Raw, Error>,
    },
    /// The id on the wire will not be answered any more (timeout, cancellation).
    Forget(Id),
    /// Progress of a request.
    Progress {
        /// Which request.
        ticket: Ticket,
        /// How far it is.
        progress: Progress,
    },
    /// Ask the embedding program; answer with [`Session::answer`](super::Session::answer).
    Ask {
        /// Names the question.
        key: AskKey,
        /// The question.
        ask: Ask,
    },
    /// The server no longer wants an answer.
    AskCancelled(AskKey),
    /// A subscription is open.
    Listening {
        /// Which request.
        ticket: Ticket,
        /// What the server has agreed to.
        granted: Filter,
    },
    /// It is known what the server speaks; the handshake, if there is one, is done.
    Ready(Negotiated),
    /// Something happened that the caller may want to know.
    Event(Event),
    /// Close the connection; nothing further will be sent.
    Disconnect(Error),
}

/// What the handshake settled, or `server/discover` told.
#[derive(Debug, Clone, PartialEq)]
pub struct Negotiated {
    /// The revision spoken from now on.
    pub revision: Revision,
    /// The server's capabilities.
    pub capabilities: Map<String, Value>,
    /// `serverInfo` as the server gave it; null if it did not.
    pub server_info: Value,
    /// `instructions`.
    pub instructions: Option<String>,
    /// Whether the server has told its capabilities.
    pub discovered: bool,
    /// How long this may be used for other sessions.
    pub hint: Hint,
}

/// A `notifications/progress`.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far.
    pub progress: f64,
    /// Out of how much.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

/// A kind of list that can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// `tools/list`
    Tools,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
    /// `prompts/list`
    Prompts,
}

impl ListKind {
    /// The method that lists it.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The member of the result that holds the entries.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The member of an entry that names it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

/// Something the caller may want to know.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A log message of the server: the params of `notifications/message`.
    Log(Value),
    /// Progress of a request.
    Progress {
        /// The request's method.
        method: String,
        /// How far it is.
        progress: Progress,
    },
    /// A list changed at the server.
    ListChanged(ListKind),
    /// A list was read again after such a change, with this many entries or this error.
    Refetched {
        /// Which list.
        kind: ListKind,
        /// What came of it.
        outcome: Result<usize, Error>,
    },
    /// A resource changed.
    ResourceUpdated {
        /// Its URI.
        uri: String,
    },
    /// An elicitation by URL is complete.
    ElicitationComplete {
        /// Its id.
        id: String,
    },
    /// A call goes on as a task of the server's, or that task has changed its status.
    Task {
        /// The task's id.
        id: String,
        /// `working`, `input_required`, `completed`, `failed` or `cancelled`.
        status: String,
        /// What the server says about it.
        message: Option<String>,
    },
    /// A subscription is over: the server has ended it, or it could not be kept.
    ListenEnded {
        /// Why; `None`: the server has ended it in good order.
        error: Option<Error>,
    },
    /// The server cancelled a request of its own, for this reason.
    ServerCancelled {
        /// The reason, if it gave one.
        reason: Option<String>,
    },
    /// Any notification of the server, whether it means something to this client or not. Those that do are followed
    /// by an event of their own.
    Notification {
        /// Its method.
        method: String,
        /// Its params; null if it has none.
        params: Value,
    },
    /// Something that is no valid message was skipped.
    Skipped {
        /// Why.
        reason: String,
        /// Its beginning.
        text: String,
    },
    /// An answer to no request that is still open (late, duplicate or foreign).
    Unmatched {
        /// Its id, as JSON.
        id: Value,
    },
    /// The session was lost and opened anew.
    Reopened,
    /// A message that needs no answer was refused by an HTTP status, or could not be sent.
    NotDelivered {
        /// Why.
        error: Error,
    },
    /// The standalone stream is not available (any more).
    NoStream {
        /// Why.
        error: Error,
    },
    /// The connection is gone.
    Closed {
        /// Why.
        error: Error,
    },
}

/// How one request is to be treated. `None` means: as the settings say.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestOptions {
    /// How long to wait for the answer.
    pub timeout: Option<Duration>,
    /// How long to wait in all, whatever progress is reported.
    pub ceiling: Option<Duration>,
    /// Whether progress starts the timeout anew.
    pub reset_on_progress: Option<bool>,
    /// Whether to ask for progress. Also implied by `reset_on_progress` for calls of tools.
    pub progress: bool,
}
