//! The one error type of this crate.

use serde_json::Value;
use sparring_wire::transcript::{Failure, FailureKind};
use std::time::Duration;

/// Why an operation failed. Cheap to clone: one cause may fail many requests.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server could not be started or reached.
    #[error("{0}")]
    Start(String),
    /// The server answered with a JSON-RPC error.
    #[error("{message} (error {code} from the server)")]
    Protocol {
        /// `error.code`.
        code: i64,
        /// `error.message`.
        message: String,
        /// `error.data`.
        data: Option<Value>,
    },
    /// No answer in time.
    #[error("no answer to {method} within {} ms", after.as_millis())]
    Timeout {
        /// The method of the request.
        method: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// Cancelled by the caller.
    #[error("cancelled: {0}")]
    Cancelled(String),
    /// The connection, or the stream that should have brought the answer, is gone.
    #[error("{0}")]
    Closed(String),
    /// An HTTP status that means failure.
    #[error("HTTP status {status}: {message}")]
    Http {
        /// The status.
        status: u16,
        /// What is known about it.
        message: String,
    },
    /// Authorization failed.
    #[error("authorization failed: {message}")]
    Auth {
        /// Why.
        message: String,
        /// The HTTP status behind it, if there was one.
        status: Option<u16>,
    },
    /// The server asks for a login, which is to be a step of its own.
    #[error("{0}")]
    NeedsLogin(Box<crate::oauth::NeedsLogin>),
    /// What the server sent was refused.
    #[error("{0}")]
    Invalid(String),
    /// The client refused to do it.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn auth(message: impl Into<String>) -> Self {
        Self::Auth { message: message.into(), status: None }
    }

    /// Which kind of failure this is.
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Start(_) => FailureKind::Start,
            Self::Protocol { .. } => FailureKind::Protocol,
            Self::Timeout { .. } => FailureKind::Timeout,
            Self::Cancelled(_) => FailureKind::Cancelled,
            Self::Closed(_) => FailureKind::Closed,
            Self::Http { .. } => FailureKind::Http,
            Self::Auth { .. } | Self::NeedsLogin(_) => FailureKind::Auth,
            Self::Invalid(_) => FailureKind::Invalid,
            Self::Refused(_) => FailureKind::Refused,
        }
    }

    /// The JSON-RPC error code or the HTTP status, if there was one.
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Protocol { code, .. } => Some(*code),
            Self::Http { status, .. } => Some(i64::from(*status)),
            Self::Auth { status, .. } => status.map(i64::from),
            _ => None,
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self { kind: error.kind(), message: error.to_string(), code: error.code() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}
