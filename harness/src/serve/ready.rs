//! The line that says that a mock is ready.

use serde::Serialize;
use sparring_reports::file;
use std::io::{self, Write};
use std::path::Path;

/// The version of the ready line and of the control API. Goes up when something that exists changes its meaning or goes
/// away; members may be added.
pub const VERSION: u32 = 1;

/// One line of JSON: the mock is ready, and where everything is.
#[derive(Debug, Clone, Serialize)]
pub struct Ready {
    /// Always `ready`.
    pub sparring: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// `stdio`, `http` or `sse`.
    pub transport: &'static str,
    /// The revision that the server speaks.
    pub revision: String,
    /// HTTP: the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Broker: program and arguments that the client has to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The origin of the authorization server, if the script has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_server: Option<String>,
    /// What the client has to be told beforehand, if the script's `auth` wants it: client credentials, a private key, an ID
    /// token, assertions, under the names of the official conformance framework's context.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub credentials: serde_json::Map<String, serde_json::Value>,
    /// The control API, unless it was not wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlAddress>,
    /// The transcript's file, if one is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// The process that prints this.
    pub pid: u32,
}

/// Where the control API is.
#[derive(Debug, Clone, Serialize)]
pub struct ControlAddress {
    /// What all its paths start with.
    pub url: String,
    /// The bearer token without which it does nothing.
    pub token: String,
}

impl Ready {
    /// The line, with its end.
    ///
    /// # Errors
    /// Never, in practice.
    pub fn line(&self) -> io::Result<String> {
        Ok(format!("{}\n", serde_json::to_string(self)?))
    }

    /// Writes the line to a file that appears whole: a reader sees nothing or all of it. The token is in it, so nobody
    /// else may read it.
    ///
    /// # Errors
    /// The system's; or something is there that is no regular file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        file::regular_or_absent(path)?;
        let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let mut written = tempfile::Builder::new().prefix(".ready-").tempfile_in(folder)?;
        written.write_all(self.line()?.as_bytes())?;
        written.persist(path).map_err(|failed| failed.error)?;
        Ok(())
    }
}
