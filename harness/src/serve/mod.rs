//! A mock server by itself, for other people's tests: `sparring serve`.
//!
//! - [`source`]: which script is served;
//! - [`log`]: what the mock observes, in memory and in a file;
//! - [`ready`]: the line that says that it can be used;
//! - [`host`]: a mock behind a port, or processes that the client starts;
//! - [`own`]: a stdio mock that is this very process;
//! - `control`: what a test asks of it while it runs.

mod control;
pub mod host;
pub mod log;
pub mod own;
pub mod ready;
mod served;
pub mod source;

use sparring_reports::file;
use sparring_wire::Revision;
use std::path::PathBuf;

/// How a mock is served, whatever its transport.
#[derive(Debug)]
pub struct Settings {
    /// The script.
    pub source: source::Source,
    /// The revision that it speaks.
    pub revision: Revision,
    /// The seed of all that is made up.
    pub seed: u64,
    /// Where the transcript is written.
    pub transcript: Option<PathBuf>,
    /// Don't redact secrets.
    pub show_secrets: bool,
    /// Where the ready line is written, instead of the usual place.
    pub ready_file: Option<PathBuf>,
    /// The port of the control API, 0 for any that is free; `None` for no control API.
    pub control_port: Option<u16>,
    /// End when stdin ends (not for a stdio mock that is this very process, which decides by its script).
    pub stop_with_stdin: bool,
}

/// Why a mock was not served, or not to the end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// What was asked for can't be had, such as a port.
    #[error("{0}")]
    Usage(String),
    /// The system refuses something.
    #[error("{0}")]
    System(String),
    /// The transcript or the ready line can't be written.
    #[error("{0}")]
    Unwritten(String),
}

impl Settings {
    /// Makes the transcript; finds out early whether the ready line may be written where it is wanted.
    fn open_log(&self) -> Result<std::sync::Arc<log::Log>, ServeError> {
        if let Some(path) = &self.ready_file {
            file::regular_or_absent(path).map_err(|e| {
                ServeError::Unwritten(format!("--ready-file: can't write {}: {e}", path.display()))
            })?;
        }
        log::Log::new(&self.source.name, self.transcript.as_deref(), self.show_secrets).map_err(|e| {
            let path = self.transcript.as_deref().unwrap_or_else(|| std::path::Path::new(""));
            ServeError::Unwritten(format!("--transcript: can't write {}: {e}", path.display()))
        })
    }

    /// Announces that the mock is ready: in the file, if one is named, else on `usual`.
    fn announce(&self, ready: &ready::Ready, mut usual: impl std::io::Write) -> Result<(), ServeError> {
        let (written, place) = match &self.ready_file {
            Some(path) => (ready.write(path), path.display().to_string()),
            None => {
                let line = ready.line().and_then(|line| {
                    usual.write_all(line.as_bytes())?;
                    usual.flush()
                });
                (line, "the ready line".to_owned())
            }
        };
        written.map_err(|e| ServeError::Unwritten(format!("can't write {place}: {e}")))
    }
}
