//! Typed failures of a host.

use sparring_profiles::{ErrorCode, ErrorsSettings};
use sparring_wire::transcript::{Failure, FailureKind};

/// Why a host did not do what it was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The protocol's own failure, at this server.
    #[error("{server}: {error}")]
    Server {
        /// The server's name.
        server: String,
        /// What happened.
        error: Box<sparring_client::Error>,
    },
    /// No server of that name is configured.
    #[error("there is no server {0:?}")]
    NoServer(String),
    /// No tool of that name.
    #[error("there is no tool {0:?}")]
    NoTool(String),
    /// The tool, or its server, is switched off.
    #[error("{0:?} is switched off: {1}")]
    Disabled(String, String),
    /// A path leaves the project.
    #[error("{field}: {path:?} is outside the project")]
    OutsideProject {
        /// Which argument or field.
        field: String,
        /// The path, as given.
        path: String,
    },
    /// A variable of the configuration is unset. Values are never part of it.
    #[error("{server}: `{field}` needs the variable {variable}, which is not set")]
    UnsetVariable {
        /// The server's name.
        server: String,
        /// The field of the entry.
        field: String,
        /// The variable.
        variable: String,
    },
    /// The user has to sign in first.
    #[error("{server}: sign in first")]
    NeedsLogin {
        /// The server's name.
        server: String,
    },
    /// The user, a rule or a gate said no.
    #[error("{tool:?} was refused: {why}")]
    Denied {
        /// The composed name.
        tool: String,
        /// Who or what said no.
        why: String,
    },
    /// The call was in flight when its server was restarted by hand.
    #[error("{0} restarted")]
    Restarted(String),
    /// The tool reports a failure of its own, which is a failure of the call in this host. The text is the tool's.
    #[error("the tool failed: {0}")]
    ToolFailed(String),
    /// The configuration is wrong.
    #[error("{0}")]
    Config(String),
    /// The host was used in a way that makes no sense.
    #[error("{0}")]
    Refused(String),
}

impl HostError {
    /// Of what the protocol's client says about a server.
    pub fn of(server: &str, error: sparring_client::Error) -> Self {
        match error {
            sparring_client::Error::NeedsLogin(_) => Self::NeedsLogin { server: server.to_owned() },
            error => Self::Server { server: server.to_owned(), error: Box::new(error) },
        }
    }

    /// Which of the host's own codes it has.
    pub const fn code(&self) -> Option<ErrorCode> {
        Some(match self {
            Self::Server { error, .. } => match error.kind() {
                FailureKind::Protocol => ErrorCode::Rpc,
                FailureKind::Timeout => ErrorCode::Timeout,
                FailureKind::Closed | FailureKind::Http | FailureKind::Start => ErrorCode::Transport,
                _ => return None,
            },
            Self::NoServer(_) => ErrorCode::NoServer,
            Self::NoTool(_) => ErrorCode::NoTool,
            Self::Disabled(..) => ErrorCode::Disabled,
            Self::OutsideProject { .. } => ErrorCode::OutsideProject,
            Self::UnsetVariable { .. } => ErrorCode::UnsetVariable,
            Self::NeedsLogin { .. } => ErrorCode::NeedsLogin,
            Self::Denied { .. }
            | Self::Restarted(_)
            | Self::ToolFailed(_)
            | Self::Config(_)
            | Self::Refused(_) => return None,
        })
    }

    /// As the host's user reads it: with the host's code, if it has one for it.
    pub fn shown(&self, settings: &ErrorsSettings) -> String {
        let text = match self {
            Self::Restarted(name) => settings.restarted.replace("{name}", name),
            other => other.to_string(),
        };
        match self.code().and_then(|code| settings.codes.get(&code)) {
            Some(code) => format!("{code}: {text}"),
            None => text,
        }
    }

    /// As a driver reports it.
    pub fn failure(&self, settings: &ErrorsSettings) -> Failure {
        let kind = match self {
            Self::Server { error, .. } => error.kind(),
            Self::NeedsLogin { .. } => FailureKind::Auth,
            Self::UnsetVariable { .. } | Self::Config(_) => FailureKind::Start,
            Self::Restarted(_) => FailureKind::Closed,
            Self::ToolFailed(_) => FailureKind::Other,
            _ => FailureKind::Refused,
        };
        let code = match self {
            Self::Server { error, .. } => error.code(),
            _ => None,
        };
        Failure { kind, message: self.shown(settings), code }
    }
}
