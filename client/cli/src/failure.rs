//! Why a command did not work, and what the exit code says of it.

use serde_json::{Value, json};
use sparring_host::HostError;
use sparring_wire::transcript::FailureKind;

/// The exit codes, as `--help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// The server or the tool says that it failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The server is not there.
    Unreachable = 3,
    /// What was asked for does not exist.
    NotFound = 4,
    /// The user has to sign in.
    Login = 5,
    /// No answer in time.
    Timeout = 6,
    /// SIGHUP.
    HungUp = 129,
    /// SIGINT.
    Interrupted = 130,
    /// SIGTERM.
    Terminated = 143,
}

impl Code {
    /// What a program ends with after a signal.
    pub(crate) const fn of_signal(number: u8) -> Self {
        match number {
            1 => Self::HungUp,
            2 => Self::Interrupted,
            _ => Self::Terminated,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::NotFound => "not-found",
            Self::Login => "login",
            Self::Timeout => "timeout",
            Self::HungUp => "hung-up",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
        }
    }
}

/// A command that did not work. The message is clean of secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// What the user can do.
    pub(crate) hint: Option<String>,
    /// All that there is to say was said.
    pub(crate) silent: bool,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, silent: false }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// One that the output tells already.
    pub(crate) fn told(code: Code) -> Self {
        Self { silent: true, ..Self::new(code, "") }
    }

    pub(crate) fn json(&self) -> Value {
        let mut error = json!({"code": self.code.word(), "exit": self.code as u8, "message": self.message});
        if let Some(hint) = &self.hint {
            error["hint"] = hint.as_str().into();
        }
        json!({"error": error})
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        let (code, hint) = match &error {
            HostError::Server { error, .. } => (of_kind(error.kind()), None),
            HostError::NoServer(_) => {
                (Code::NotFound, Some("`sparring-client list` shows the servers".to_owned()))
            }
            HostError::NoTool(_) => {
                (Code::NotFound, Some("`sparring-client tools` shows the tools".to_owned()))
            }
            HostError::NeedsLogin { server } => {
                (Code::Login, Some(format!("`sparring-client login {server}` signs in")))
            }
            HostError::UnsetVariable { variable, .. } => {
                (Code::Usage, Some(format!("set {variable}, or give it a default in the configuration")))
            }
            HostError::Config(_) => (Code::Usage, None),
            _ => (Code::Failed, None),
        };
        Self { code, message: error.to_string(), hint, silent: false }
    }
}

/// The exit code for a kind of failure.
pub(crate) const fn of_kind(kind: FailureKind) -> Code {
    match kind {
        FailureKind::Timeout => Code::Timeout,
        FailureKind::Closed | FailureKind::Http | FailureKind::Start => Code::Unreachable,
        FailureKind::Auth => Code::Login,
        FailureKind::Cancelled => Code::Interrupted,
        _ => Code::Failed,
    }
}
