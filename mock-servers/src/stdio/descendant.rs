//! Processes that the server starts.

use super::{Config, DAEMON, GRANDCHILD, reports};
use crate::platform;
use crate::script::{Descendant, Place, Stream};
use sparring_wire::transcript::What;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// A descendant ends after this long, whatever happens.
const LIFE: Duration = Duration::from_secs(600);

/// Which process a descendant is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    /// The mock's process that it belongs to.
    pub(super) incarnation: u32,
    /// Its place in the list of all descendants of the script.
    pub(super) index: usize,
    /// How many like it there are to be, itself included.
    pub(super) left: u8,
}

impl Position {
    pub(super) fn read(mut words: impl Iterator<Item = String>) -> Option<Self> {
        Some(Self {
            incarnation: words.next()?.parse().ok()?,
            index: words.next()?.parse().ok()?,
            left: words.next()?.parse().ok()?,
        })
    }

    fn words(self) -> [String; 3] {
        [self.incarnation.to_string(), self.index.to_string(), self.left.to_string()]
    }
}

/// Starts a descendant; returns what to report about it.
pub(super) fn start(descendant: &Descendant, config: &Path, position: Position) -> What {
    match try_start(descendant, config, position) {
        Ok(pid) => What::GrandchildStarted { pid },
        Err(error) => What::HarnessError { message: format!("the grandchild could not be started: {error}") },
    }
}

fn try_start(descendant: &Descendant, config: &Path, position: Position) -> io::Result<u32> {
    let daemon = descendant.place == Place::Daemon;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(if daemon { DAEMON } else { GRANDCHILD }).arg(config).args(position.words());
    let end = |stream| match descendant.keeps.contains(&stream) && !daemon {
        true => Stdio::inherit(),
        false => Stdio::null(),
    };
    command.stdin(end(Stream::Stdin)).stdout(end(Stream::Stdout)).stderr(end(Stream::Stderr));
    if descendant.place == Place::Group {
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

/// The process between a daemon and the server: it opens a session, starts the daemon in it, and ends.
pub(super) fn in_between(path: &Path, position: Position) -> io::Result<ExitCode> {
    platform::lead_a_session()?;
    let daemon = Descendant::default();
    let pid = try_start(&daemon, path, position)?;
    writeln!(io::stdout(), "{pid}")?;
    Ok(ExitCode::SUCCESS)
}

/// A process that a careless server left behind. It ends with the harness.
pub(super) fn run(path: &Path, position: Position, config: &Config) -> io::Result<ExitCode> {
    let Some(descendant) = config.script.process.all_descendants().nth(position.index) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the script has no such descendant"));
    };
    // The server has left them blocked, and nobody here waits for them.
    if descendant.polite {
        platform::Signals::unblock()?;
    } else {
        platform::Signals::block()?;
    }
    if descendant.place == Place::Session {
        platform::lead_a_session()?;
    }
    let (reports, _) = reports::connect(config, Some(position.incarnation))?;
    if position.left > 1 {
        let next = Position { left: position.left - 1, ..position };
        reports.send(&start(&descendant, path, next));
    }
    std::thread::sleep(LIFE);
    Ok(ExitCode::SUCCESS)
}
