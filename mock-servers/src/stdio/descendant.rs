//! Processes that the server starts.

use super::{DAEMON, GRANDCHILD, child, reports};
use crate::platform;
use crate::script::{Descendant, Place, Stream};
use sparring_wire::transcript::What;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// A descendant ends after this long, whatever happens.
const LIFE: Duration = Duration::from_secs(600);
/// The same for one without a harness, which nobody else ends.
const ORPHAN_LIFE: Duration = Duration::from_secs(60);
/// Stands for the path of the configuration of a descendant without a harness.
const NO_HARNESS: &str = "-";

/// A process to start, or this one.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Where it finds the side channel, if there is one.
    pub(super) config: Option<PathBuf>,
    /// The mock's process that it belongs to.
    pub(super) incarnation: u32,
    /// How many like it there are to be, itself included.
    pub(super) left: u8,
    pub(super) descendant: Descendant,
}

impl Plan {
    /// What the arguments behind the first say.
    pub(super) fn read(config: &Path, mut words: impl Iterator<Item = String>) -> Option<Self> {
        Some(Self {
            config: (config.as_os_str() != NO_HARNESS).then(|| config.to_owned()),
            incarnation: words.next()?.parse().ok()?,
            left: words.next()?.parse().ok()?,
            descendant: serde_json::from_str(&words.next()?).ok()?,
        })
    }

    /// Starts it; returns what to report about that.
    pub(super) fn start(&self) -> What {
        match self.try_start() {
            Ok(pid) => What::GrandchildStarted { pid },
            Err(error) => {
                What::HarnessError { message: format!("the grandchild could not be started: {error}") }
            }
        }
    }

    fn try_start(&self) -> io::Result<u32> {
        let daemon = self.descendant.place == Place::Daemon;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(if daemon { DAEMON } else { GRANDCHILD })
            .arg(self.config.as_deref().unwrap_or_else(|| Path::new(NO_HARNESS)))
            .args([self.incarnation.to_string(), self.left.to_string()])
            .arg(serde_json::to_string(&self.descendant)?);
        let end = |stream| match self.descendant.keeps.contains(&stream) && !daemon {
            true => Stdio::inherit(),
            false => Stdio::null(),
        };
        command.stdin(end(Stream::Stdin)).stdout(end(Stream::Stdout)).stderr(end(Stream::Stderr));
        if self.descendant.place == Place::Group {
            platform::lead_a_group(&mut command);
        }
        if !daemon {
            return Ok(command.spawn()?.id());
        }
        // The process in between says whom it has started, and ends.
        let output = command.stdout(Stdio::piped()).spawn()?.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().parse();
        said.map_err(|_| io::Error::other("the process in between did not say whom it started"))
    }
}

/// The process between a daemon and the server: it opens a session, starts the daemon in it, and ends.
pub(super) fn in_between(mut plan: Plan) -> io::Result<ExitCode> {
    platform::lead_a_session()?;
    // In this session: it is no daemon's father.
    let Descendant { polite, .. } = plan.descendant;
    plan.descendant = Descendant { polite, ..Descendant::default() };
    let pid = plan.try_start()?;
    writeln!(io::stdout(), "{pid}")?;
    Ok(ExitCode::SUCCESS)
}

/// A process that a careless server left behind. It ends with the harness.
pub(super) fn run(mut plan: Plan) -> io::Result<ExitCode> {
    // The server has left them blocked, and nobody here waits for them.
    if plan.descendant.polite {
        platform::Signals::unblock()?;
    } else {
        platform::Signals::block()?;
    }
    if plan.descendant.place == Place::Session {
        platform::lead_a_session()?;
    }
    let reports = match &plan.config {
        Some(config) => Some(reports::connect(&child::load(config)?, Some(plan.incarnation), None)?.0),
        None => None,
    };
    if plan.left > 1 {
        plan.left -= 1;
        let started = plan.start();
        if let Some(reports) = &reports {
            reports.send(started);
        }
    }
    std::thread::sleep(if reports.is_some() { LIFE } else { ORPHAN_LIFE });
    Ok(ExitCode::SUCCESS)
}
