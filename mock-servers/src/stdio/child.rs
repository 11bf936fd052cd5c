//! What a process of the mock is: told by its arguments, before anything else happens.

use super::descendant::{self, Plan};
use super::shell::{Setting, Shell};
use super::{Asked, Config, DAEMON, GRANDCHILD, MOCK, Reporter, launcher, reports};
use crate::platform;
use crate::script::LauncherPlace;
use sparring_wire::transcript::{Process, What};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::Builder;

/// Exit code when the mock could not start or go on; what went wrong stands on stderr.
pub(super) const CANNOT_START: u8 = 70;
/// Bytes per read.
pub(super) const CHUNK: usize = 64 << 10;

/// Runs this process as a mock, or as one of the processes around it, if its arguments say that it is one, to its end.
///
/// Has to be called at the very start of `main`, before any thread exists: signals are blocked for the whole process.
pub fn run_if_mock() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    let kind = [MOCK, GRANDCHILD, DAEMON].into_iter().find(|kind| first == *kind)?;
    let path = arguments.next().unwrap_or_default();
    let words = arguments.filter_map(|word| word.into_string().ok());
    match run(kind, path.as_ref(), words) {
        Ok(code) => Some(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "sparring mock server: {error}");
            Some(ExitCode::from(CANNOT_START))
        }
    }
}

fn run(kind: &str, path: &Path, mut words: impl Iterator<Item = String>) -> io::Result<ExitCode> {
    if kind == MOCK {
        return mock(path, words.next().and_then(|n| n.parse().ok()));
    }
    let unclear = "the arguments don't say which process this is";
    let plan = Plan::read(path, words).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, unclear))?;
    if kind == DAEMON { descendant::in_between(plan) } else { descendant::run(plan) }
}

pub(super) fn load(path: &Path) -> io::Result<Config> {
    let text = std::fs::read(path)?;
    serde_json::from_slice(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The server, or its launcher. `launched` is the incarnation whose launcher has started this process.
fn mock(path: &Path, launched: Option<u32>) -> io::Result<ExitCode> {
    // What the client handed down is looked at before anything of ours is open, and signals are blocked before there is
    // any thread, so that all have them blocked.
    let process = describe();
    let signals = platform::Signals::block()?;
    let config = load(path)?;
    match config.script.process.launcher {
        Some(launcher) if launched.is_none() => {
            return launcher::run(path, &config, launcher, signals, process);
        }
        Some(launcher) if launcher.place == LauncherPlace::Session => platform::lead_a_session()?,
        _ => {}
    }
    let (asked, wanted) = channel::<Asked>();
    let (reports, incarnation) = reports::connect(&config, launched, Some(asked))?;
    let reports = Arc::new(reports);
    let started = match launched {
        Some(_) => What::GrandchildStarted { pid: process.pid },
        None => What::ProcessStarted(process),
    };
    reports.report(platform::monotonic_us(), started);
    let _lock = if config.script.process.single_instance { lock(path, &reports)? } else { None };
    let setting = Setting {
        script: config.script,
        revision: config.revision,
        incarnation,
        seed: config.seed,
        quiet: config.quiet,
        config: Some(path.to_owned()),
    };
    let shell = Shell::start(setting, Arc::clone(&reports) as Arc<dyn Reporter>, signals)?;
    let handle = Arc::clone(&shell);
    Builder::new().name("control".into()).stack_size(reports::STACK).spawn(move || {
        while let Ok(Asked { id, control }) = wanted.recv() {
            handle.control(control);
            reports.done(id);
        }
    })?;
    shell.run()
}

/// Takes the lock that only one process of the server can have, or ends this one.
fn lock(path: &Path, reports: &reports::Reports) -> io::Result<Option<std::fs::File>> {
    let file = std::fs::File::create(path.with_extension("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => {
            let text = b"another instance of this server is running\n";
            reports.send(What::Stderr { bytes: text.len() as u64 });
            let _ = platform::write_stderr(text);
            reports.send(What::ProcessExiting { code: Some(1), signal: None });
            std::process::exit(1)
        }
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// This process as it finds itself. To be called before [`platform::Signals::block`].
pub(super) fn describe() -> Process {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let signals = platform::inherited_signals();
    Process {
        pid: std::process::id(),
        parent: platform::parent(),
        argv: std::env::args_os().map(lossy).collect(),
        env: std::env::vars_os().map(|(key, value)| (lossy(key), lossy(value))).collect(),
        cwd: std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default(),
        process_group: platform::process_group(),
        session: platform::session(),
        descriptors: platform::descriptors(),
        umask: platform::umask(),
        blocked_signals: signals.blocked,
        ignored_signals: signals.ignored,
    }
}
