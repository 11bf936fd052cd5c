//! What the engine and a transport shell say to each other.

use crate::core::Event;
pub(crate) use crate::core::Headers;
use crate::error::Error;
use crate::http::HttpLink;
use crate::stdio::StdioLink;
use serde_json::Value;
use sparring_wire::{Id, Revision};

/// From a shell to the engine.
#[derive(Debug)]
pub(crate) enum FromLink {
    /// The text of a message.
    Message(String),
    /// A message was longer than accepted; its beginning.
    TooLong { start: String, limit: usize },
    /// The request with this id will not be answered, unless it was.
    Failed { id: Id, error: Error },
    /// The request with this id was answered with a failing HTTP status, and this body. `error`: what the status means
    /// without it, and which it is.
    Refused { id: Id, text: String, error: Error },
    /// The session is unknown to the server; `id`: of the request that met that.
    SessionLost { generation: u64, id: Option<Id> },
    /// Something to tell the caller.
    Notice(Event),
    /// The connection is gone.
    Closed(Error),
}

/// Bytes as text, without a copy where they are UTF-8.
pub(crate) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A transport shell.
pub(crate) enum Link {
    Stdio(StdioLink),
    Http(HttpLink),
}

impl Link {
    /// Queues a message. `headers` are for HTTP alone.
    pub(crate) fn send(&mut self, message: &Value, headers: Headers) {
        match self {
            Self::Stdio(link) => link.send(message),
            Self::Http(link) => link.send(message, headers),
        }
    }

    /// The answer to this request is no longer awaited.
    pub(crate) fn forget(&mut self, id: &Id) {
        if let Self::Http(link) = self {
            link.forget(id);
        }
    }

    /// The handshake is done.
    pub(crate) fn ready(&mut self, revision: Revision) {
        if let Self::Http(link) = self {
            link.ready(revision);
        }
    }

    /// The handshake's last message is on its way.
    pub(crate) fn open_stream(&mut self) {
        if let Self::Http(link) = self {
            link.open_stream();
        }
    }

    /// A new handshake begins. `false`: the report was of an older session and means nothing.
    pub(crate) fn reset(&mut self, generation: u64) -> bool {
        match self {
            Self::Stdio(_) => false,
            Self::Http(link) => link.reset(generation),
        }
    }

    /// Ends the connection in an orderly way, in bounded time.
    pub(crate) async fn close(self) {
        match self {
            Self::Stdio(link) => link.close().await,
            Self::Http(link) => link.close().await,
        }
    }
}
