//! Running cases: everything between a plan and its verdicts.
//!
//! - [`hand_over`]: the first call in every `main` that uses this library;
//! - [`schedule::run_all`]: many cases, some at a time, stopped by a [`Stop`];
//! - [`case::run`]: one case, which never hangs and leaves nothing behind;
//! - [`recorder`]: the transcript, in memory and on disk;
//! - [`directory`]: the case's folder and the client's environment;
//! - [`supervise`]: the process that holds an external client and all that it starts;
//! - [`floor`]: how late this machine wakes those who wait.
//!
//! A run, as the program `sparring` and the `cargo test` front make it:
//!
//! ```no_run
//! use sparring::driver::Driver;
//! use sparring::drivers::{Adapter, ProcessSettings};
//! use sparring::run::{self, Settings, Stop, schedule};
//! use std::sync::Arc;
//!
//! fn main() -> std::process::ExitCode {
//!     if let Some(code) = run::hand_over() {
//!         return code; // this process was a mock, a supervisor or a browser's stand-in
//!     }
//!     # async fn start(cases: Vec<sparring::plan::Case>) -> Result<(), Box<dyn std::error::Error>> {
//!     let command = vec!["python".to_owned(), "adapter.py".to_owned()];
//!     let driver: Arc<dyn Driver> = Arc::new(Adapter::new(command, ProcessSettings::new()?));
//!     let hello = driver.hello().await?; // then plan by it
//!     let stop = Stop::on_signals();
//!     let done = schedule::run_all(cases, driver, hello, Settings::new()?, &stop, |job, run| {
//!         // judge here, and keep only the verdicts: transcripts are large
//!         (job.case.id.clone(), run.transcript.len())
//!     })
//!     .await;
//!     # let _ = done; Ok(())
//!     # }
//!     std::process::ExitCode::SUCCESS
//! }
//! ```

pub mod case;
pub mod directory;
pub mod floor;
mod matching;
mod own;
pub mod recorder;
pub mod schedule;
mod servers;
pub mod supervise;

pub use case::{CaseRun, Ending};
pub use recorder::{Recorder, write_transcript};
pub use schedule::{Job, Outcome, run_all};

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;

/// What the private first arguments of this executable start with.
pub const PRIVATE_PREFIX: &str = "__sparring-";

/// Does the work of a helper process if this process was started as one: a stdio mock, a supervisor, a stand-in
/// for a browser, or the reference client as an adapter; the caller then ends with the exit code. Has to be the first thing in `main`, before any thread or
/// runtime is started.
pub fn hand_over() -> Option<ExitCode> {
    sparring_mock_servers::stdio::run_if_mock()
        .or_else(supervise::run_if_supervisor)
        .or_else(crate::browser::stand_in::run_if_stand_in)
        .or_else(crate::adapter_main::run_if_adapter)
        .or_else(crate::record::scribe::run_if_scribe)
}

/// How cases are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Cases at a time.
    pub jobs: usize,
    /// How often each case is run.
    pub repeat: u32,
    /// The seed of all that is made up. The same seed makes the same servers.
    pub seed: u64,
    /// How long a case may take, unless its scenario says otherwise.
    pub deadline: Duration,
    /// Where the cases' folders are made; see [`directory::temporary_root`].
    pub temporary_root: PathBuf,
    /// Where transcripts are written, as `<case>.jsonl`; nowhere if `None`.
    pub transcripts: Option<PathBuf>,
    /// Write transcripts with the secrets in them.
    pub unredacted: bool,
    /// The executable that scripted stdio servers are: the running one, unless a test says otherwise.
    pub exe: PathBuf,
}

impl Settings {
    /// The usual settings; no transcripts on disk.
    ///
    /// # Errors
    /// The executable's path or the temporary folder can't be found out.
    pub fn new() -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            jobs: (cores * 2).min(4),
            repeat: 1,
            seed: 0,
            deadline: Duration::from_secs(10),
            temporary_root: directory::temporary_root()?,
            transcripts: None,
            unredacted: false,
            exe: std::env::current_exe()?,
        })
    }
}

/// Asks a run to stop: no case is started any more, and those that run are ended at once, with all that belongs to
/// them. Clones are the same.
#[derive(Debug, Clone)]
pub struct Stop {
    asked: watch::Sender<bool>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { asked: watch::Sender::new(false) }
    }
}

impl Stop {
    /// One that is asked by Ctrl-C, SIGTERM or SIGHUP. Needs a running runtime.
    pub fn on_signals() -> Self {
        let stop = Self::default();
        let asked = stop.clone();
        tokio::spawn(async move {
            // Without handlers the signals end the process, and the supervisors see that.
            if crate::platform::asked_to_stop().await.is_ok() {
                asked.ask();
            }
        });
        stop
    }

    /// Asks.
    pub fn ask(&self) {
        self.asked.send_replace(true);
    }

    /// Whether it was asked.
    pub fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Waits until it is asked.
    pub async fn asked(&self) {
        // The sender is `self`, so this ends only when asked.
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
    }
}
