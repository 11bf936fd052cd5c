//! The command in a client's configuration: starts the real server and hands on bytes both ways, the ends of streams,
//! signals, and at last the exit status. stderr is inherited, so no byte of it passes through here.
//!
//! The server leads a process group of its own. If the client made this process the leader of a group, it means to
//! reach all that the server starts, so signals go to the server's group; otherwise to the server alone, as they would
//! without the recorder. Each arrives once.

use super::queue::Queue;
use super::scribe::{self, Begin, Frame, Kind};
use super::{journal, platform};
use crate::judge::redact::GONE;
use crate::platform::own_group;
use sparring_mock_servers::sink::monotonic_us;
use sparring_reports::model::exit_code;
use sparring_wire::transcript::{Party, Process, What};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

/// What is to be recorded, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server's command, program first.
    pub command: Vec<OsString>,
    /// The transcript.
    pub out: PathBuf,
    /// The server's name in it.
    pub server: String,
    /// Leave secrets as they are.
    pub show_secrets: bool,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The command can't be started.
    #[error("can't start {program}: {error}")]
    Command {
        /// Its program.
        program: String,
        /// The system's words.
        error: io::Error,
    },
    /// The transcript can't be written.
    #[error("can't record to {path}: {error}")]
    Transcript {
        /// Its path.
        path: String,
        /// The system's words.
        error: io::Error,
    },
    /// Something else that the system refused.
    #[error("can't record: {0}")]
    System(#[from] io::Error),
}

impl Failed {
    /// The exit code: those by which shells tell that a command was not found, or could not be started.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Command { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            Self::Command { .. } => 126,
            Self::Transcript { .. } => exit_code::REPORT,
            Self::System(_) => exit_code::HARNESS_ERROR,
        }
    }
}

/// How the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    code: Option<i32>,
    signal: Option<i32>,
}

impl Ended {
    /// Ends this process in the same way.
    pub fn mirror(self) -> ! {
        let code = match (self.code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => platform::die(signal),
            (None, None) => 1,
        };
        std::process::exit(code)
    }
}

/// What one piece of a stream holds at most, in bytes.
const CHUNK: usize = 64 << 10;

type Frames = Arc<Queue<Frame>>;

/// Runs the server until it ends. To be called while this process has one thread.
///
/// # Errors
/// What keeps the recording from beginning; the server is not running then.
pub fn record(settings: &Settings) -> Result<Ended, Failed> {
    let (parent, process_group, session, descriptors) = platform::own_place();
    let unwritable = |error| Failed::Transcript { path: settings.out.display().to_string(), error };
    journal::probe(&settings.out).map_err(unwritable)?;
    let path = std::path::absolute(&settings.out).map_err(unwritable)?;
    let mut scribe = scribe::start()?;
    let mut server = start(&settings.command)?;
    let whole_group = platform::leads_its_group();
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let started = What::ProcessStarted(Process {
        pid: server.id(),
        parent,
        argv: settings.command.iter().map(text).collect(),
        env: environment(settings.show_secrets),
        cwd: std::env::current_dir().unwrap_or_default().display().to_string(),
        process_group,
        session,
        descriptors,
        ..Process::default()
    });
    let begin = Begin {
        path,
        server: settings.server.clone(),
        show_secrets: settings.show_secrets,
        pid: server.id(),
        whole_group,
        started,
    };
    let frames: Frames = Arc::new(Queue::new());
    note(&frames, Kind::Begin, serde_json::to_vec(&begin).map_err(io::Error::from)?);
    let ended = pass(&mut server, &mut scribe, whole_group, &frames);
    if ended.is_err() {
        let _ = server.kill();
    }
    // Whoever waits for this process finds the transcript whole.
    if !scribe.wait().is_ok_and(|status| status.success()) {
        crate::cli::error(&format!("{} could not be written to its end", settings.out.display()));
    }
    Ok(ended?)
}

/// Variables whose values are no secret. Of the others only the names are kept: this is a user's own environment, and no
/// name tells for sure what is in it.
const HARMLESS: [&str; 8] = ["HOME", "LANG", "LC_ALL", "PATH", "PWD", "SHELL", "TERM", "TMPDIR"];

fn environment(show_secrets: bool) -> BTreeMap<String, String> {
    let text = |word: OsString| word.to_string_lossy().into_owned();
    std::env::vars_os()
        .map(|(name, value)| (text(name), value))
        .map(|(name, value)| {
            let shown = show_secrets || HARMLESS.contains(&name.as_str());
            let value = if shown { text(value) } else { GONE.to_owned() };
            (name, value)
        })
        .collect()
}

fn start(command: &[OsString]) -> Result<Child, Failed> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    own_group(&mut command);
    command
        .spawn()
        .map_err(|error| Failed::Command { program: program.to_string_lossy().into_owned(), error })
}

/// Notes something that is not on anybody's way.
fn note(frames: &Frames, kind: Kind, bytes: Vec<u8>) {
    frames.bring(bytes.len(), Frame { kind, at: monotonic_us(), bytes });
    frames.wake();
}

fn event(frames: &Frames, what: &What) {
    note(frames, Kind::Event, serde_json::to_vec(what).unwrap_or_default());
}

fn pass(server: &mut Child, scribe: &mut Child, whole_group: bool, frames: &Frames) -> io::Result<Ended> {
    let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
    let to_server = platform::stdin_of(server).ok_or_else(missing)?;
    let from_server = platform::stdout_of(server).ok_or_else(missing)?;
    let to_scribe = scribe.stdin.take().ok_or_else(missing)?;
    let pid = server.id();
    let (woken, wake) = platform::waker()?;
    // Before any thread is started, so that all of them leave signals to the one that waits for them. The server, which
    // runs already, has the mask that the client gave.
    let signals = platform::Signals::block()?;

    let writer = thread("scribe", {
        let frames = Arc::clone(frames);
        move || write(&frames, to_scribe)
    })?;
    let outward = thread("stdout", {
        let frames = Arc::clone(frames);
        move || outward(&from_server, &woken, &frames)
    })?;
    thread("stdin", {
        let frames = Arc::clone(frames);
        move || inward(&to_server, &frames)
    })?;
    thread("signals", {
        let frames = Arc::clone(frames);
        move || {
            while let Ok(name) = signals.wait() {
                event(&frames, &What::SignalReceived { signal: name.to_owned() });
                platform::hand_on(name, pid, whole_group);
            }
        }
    })?;

    let status = server.wait()?;
    // What it said last is still in the pipe.
    drop(wake);
    let _ = outward.join();
    let (code, signal) = platform::ending(status);
    event(frames, &What::ProcessExiting { code, signal: signal.map(platform::signal_name) });
    event(frames, &What::ProcessEnded { pid });
    note(frames, Kind::Bye, Vec::new());
    frames.close();
    let _ = writer.join();
    Ok(Ended { code, signal })
}

fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<std::thread::JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(work)
}

/// From the client to the server.
fn inward(to: &File, frames: &Frames) {
    let from = io::stdin();
    let mut buffer = vec![0; CHUNK];
    let mut server_reads = true;
    while server_reads {
        let count = match platform::wait(&from, to, None) {
            Ok(platform::Ready::Read) => platform::read(&from, &mut buffer).unwrap_or_default(),
            Ok(platform::Ready::Deaf) => {
                server_reads = false;
                break;
            }
            _ => 0,
        };
        let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else { break };
        server_reads = hand_on(frames, Kind::Received, chunk, || platform::write(to, chunk)).is_ok();
    }
    if server_reads {
        note(frames, Kind::StdinEnd, Vec::new());
    } else {
        // The client finds out as it would have from the server's own pipe.
        platform::close_stdin();
    }
}

/// From the server to the client, until the server's stream ends, or its process has and all that it said was read.
fn outward(from: &File, ended: &platform::Waker, frames: &Frames) {
    let to = io::stdout();
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = match platform::wait(from, &to, Some(ended)) {
            Ok(platform::Ready::Read) => platform::read(from, &mut buffer).unwrap_or_default(),
            Ok(platform::Ready::Deaf) => {
                event(frames, &What::StdoutClosed { by: Party::Client });
                return;
            }
            _ => 0,
        };
        let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else { break };
        if hand_on(frames, Kind::Sent, chunk, || platform::write(&to, chunk)).is_err() {
            event(frames, &What::StdoutClosed { by: Party::Client });
            return;
        }
    }
    note(frames, Kind::StdoutEnd, Vec::new());
    platform::close_stdout();
}

/// Notes a piece and passes it on.
fn hand_on(
    frames: &Frames,
    kind: Kind,
    chunk: &[u8],
    pass: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    frames.bring(chunk.len(), Frame { kind, at: monotonic_us(), bytes: chunk.to_vec() });
    let passed = pass();
    frames.wake();
    frames.until_there_is_room();
    passed
}

/// Hands frames to the scribe. If that can't be done any more, the conversation goes on without it.
fn write(frames: &Frames, to: ChildStdin) {
    let mut to = BufWriter::with_capacity(CHUNK, to);
    while let Some(batch) = frames.take() {
        let written = batch.iter().try_for_each(|frame| frame.write(&mut to)).and_then(|()| to.flush());
        if written.is_err() {
            // The scribe is gone; what it came to is told when the session is over.
            return frames.close();
        }
    }
}
