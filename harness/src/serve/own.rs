//! A stdio mock that is this very process.

use super::log::Log;
use super::ready::{Ready, VERSION};
use super::{ServeError, Settings};
use sparring_mock_servers::stdio::{OwnProcess, OwnSpec, Reporter};
use sparring_wire::transcript::What;
use std::io;
use std::sync::Arc;

/// Serves on stdin and stdout until the process ends, which this call does not outlive. `process` has been prepared
/// before anything else.
///
/// # Errors
/// It could not be started.
pub fn serve(process: OwnProcess, settings: &Settings) -> Result<std::convert::Infallible, ServeError> {
    let log = settings.open_log()?;
    let server = process
        .become_server(OwnSpec {
            script: settings.source.script.clone(),
            revision: settings.revision,
            seed: settings.seed,
            reporter: Arc::new(Own { log }),
        })
        .map_err(|e| ServeError::System(format!("can't start a thread: {e}")))?;
    let ready = Ready {
        sparring: "ready",
        version: VERSION,
        transport: "stdio",
        revision: settings.revision.to_string(),
        url: None,
        command: None,
        authorization_server: None,
        control: None,
        transcript: settings.transcript_name(),
        pid: std::process::id(),
    };
    settings.announce(&ready, io::stderr())?;
    server.run()
}

struct Own {
    log: Arc<Log>,
}

impl Reporter for Own {
    fn report(&self, monotonic_us: u64, what: What) {
        self.log.add(Some(1), monotonic_us, what);
    }

    fn flush(&self) {
        self.log.flush();
    }

    fn ending(&self) {
        if let Err(why) = self.log.finish() {
            crate::cli::error(&why);
        }
    }
}
