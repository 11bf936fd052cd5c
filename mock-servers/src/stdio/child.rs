//! The child: plain threads around the core, no runtime.
//!
//! The main thread reads stdin; one thread waits for signals, one for timers. They share the core behind a mutex and
//! carry out its effects while they hold it, so that effects keep their order. What they see goes to a [`Reporter`]: for
//! a child of a [`super::StdioMock`] the side channel, to which one thread writes and from which two read: one that sees
//! its end, and one that carries out what the harness asks for and may be held up by the core.

use super::{Asked, Config, Done, GRANDCHILD, Hello, MAX_LINE, MOCK, Report, Reporter, Welcome};
use crate::core::{Control, Effect, Input, ServerCore};
use crate::platform;
use crate::script::ServerScript;
use sparring_wire::Revision;
use sparring_wire::framing::Lines;
use sparring_wire::transcript::{Party, Process, What};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Exit code when the mock could not start; what went wrong stands on stderr.
pub(super) const CANNOT_START: u8 = 70;
/// A grandchild ends after this long, whatever happens.
const GRANDCHILD_LIFE: Duration = Duration::from_secs(600);
/// The same for one without a harness, which nobody else ends.
const ORPHAN_LIFE: Duration = Duration::from_secs(60);
/// Stands for the path of the configuration of a grandchild without a harness.
const NO_HARNESS: &str = "-";
/// How long the reader may take to fetch one piece of a message before the next is written all the same.
const PATIENCE: Duration = Duration::from_millis(250);
const STACK: usize = 256 << 10;

/// Runs this process as a mock or a mock's grandchild if its arguments say that it is one, to its end.
///
/// Has to be called at the very start of `main`, before any thread exists: signals are blocked for the whole process.
pub fn run_if_mock() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    let run = match first.to_str()? {
        MOCK => mock,
        GRANDCHILD => grandchild,
        _ => return None,
    };
    let path = arguments.next().unwrap_or_default();
    let incarnation = arguments.next().and_then(|n| n.to_str()?.parse().ok());
    match run(path.as_ref(), incarnation) {
        Ok(code) => Some(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "sparring mock server: {error}");
            Some(ExitCode::from(CANNOT_START))
        }
    }
}

fn load(path: &std::path::Path) -> io::Result<Config> {
    let text = std::fs::read(path)?;
    serde_json::from_slice(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Connects, says hello and waits for the welcome.
fn connect(
    config: &Config,
    grandchild_of: Option<u32>,
) -> io::Result<(BufReader<TcpStream>, TcpStream, Welcome)> {
    let ip = config.address.ip();
    if ip != Ipv4Addr::LOCALHOST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the side channel is not on loopback"));
    }
    let mut writer = TcpStream::connect(SocketAddr::new(ip, config.address.port()))?;
    writer.set_nodelay(true)?;
    let hello = Hello { token: config.token.clone(), pid: std::process::id(), grandchild_of };
    let mut line = serde_json::to_vec(&hello)?;
    line.push(b'\n');
    writer.write_all(&line)?;
    let mut reader = BufReader::with_capacity(256, writer.try_clone()?);
    let mut answer = String::new();
    reader.read_line(&mut answer)?;
    let welcome = serde_json::from_str(&answer)?;
    Ok((reader, writer, welcome))
}

/// Ends this process as soon as the side channel does. What the harness asks for goes to `asked`.
fn follow_harness(mut reader: BufReader<TcpStream>, asked: Option<Sender<Asked>>) -> io::Result<()> {
    Builder::new().name("harness".into()).stack_size(STACK).spawn(move || {
        let mut line = String::new();
        while matches!(reader.read_line(&mut line), Ok(1..)) {
            if let (Some(asked), Ok(wanted)) = (&asked, serde_json::from_str(&line)) {
                let _ = asked.send(wanted);
            }
            line.clear();
        }
        platform::end_at_once();
    })?;
    Ok(())
}

fn mock(path: &std::path::Path, _: Option<u32>) -> io::Result<ExitCode> {
    // Before any thread, so that all have them blocked; and what the client handed down is looked at before anything
    // of ours is open.
    let signals = platform::Signals::block()?;
    let process = describe();
    let config = load(path)?;
    let (reader, writer, welcome) = connect(&config, None)?;
    let (asked, wanted) = channel::<Asked>();
    follow_harness(reader, Some(asked))?;
    let (reports, queue) = channel();
    Builder::new().name("reports".into()).stack_size(STACK).spawn(move || report_all(&queue, writer))?;
    let reports = Arc::new(Reports(reports));
    let setting = Setting {
        script: config.script,
        revision: config.revision,
        incarnation: welcome.incarnation,
        seed: config.seed,
        quiet: config.quiet,
        config: Some(path.to_owned()),
    };
    let shell = Shell::start(setting, Arc::clone(&reports) as Arc<dyn Reporter>, signals, process)?;
    let handle = Arc::clone(&shell);
    Builder::new().name("control".into()).stack_size(STACK).spawn(move || {
        while let Ok(Asked { id, control }) = wanted.recv() {
            handle.control(control);
            let _ = reports.0.send(Outgoing::Done(Done { done: id }));
        }
    })?;
    shell.run()
}

pub(super) fn describe() -> Process {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    Process {
        pid: std::process::id(),
        parent: platform::parent(),
        argv: std::env::args_os().map(lossy).collect(),
        env: std::env::vars_os().map(|(key, value)| (lossy(key), lossy(value))).collect(),
        cwd: std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default(),
        process_group: platform::process_group(),
        session: platform::session(),
        descriptors: platform::descriptors(),
    }
}

/// The queue of reports; a thread of its own writes them, so that the side channel costs the hot path nothing.
struct Reports(Sender<Outgoing>);

enum Outgoing {
    Report(Box<Report>),
    Done(Done),
    /// Everything before it has been written when this is answered.
    Flush(Sender<()>),
}

impl Reporter for Reports {
    fn report(&self, at: u64, what: What) {
        let _ = self.0.send(Outgoing::Report(Box::new(Report { at, what })));
    }

    fn flush(&self) {
        let (done, wait) = channel();
        if self.0.send(Outgoing::Flush(done)).is_ok() {
            let _ = wait.recv();
        }
    }
}

fn report_all(queue: &Receiver<Outgoing>, mut to: TcpStream) {
    let mut buffer = Vec::new();
    while let Ok(first) = queue.recv() {
        let mut flushed = Vec::new();
        let mut next = Some(first);
        while let Some(outgoing) = next {
            match outgoing {
                Outgoing::Report(report) => {
                    if serde_json::to_writer(&mut buffer, &report).is_ok() {
                        buffer.push(b'\n');
                    }
                }
                Outgoing::Done(done) => {
                    if serde_json::to_writer(&mut buffer, &done).is_ok() {
                        buffer.push(b'\n');
                    }
                }
                Outgoing::Flush(done) => flushed.push(done),
            }
            next = if buffer.len() < 1 << 16 { queue.try_recv().ok() } else { None };
        }
        if to.write_all(&buffer).is_err() {
            platform::end_at_once();
        }
        buffer.clear();
        for done in flushed {
            let _ = done.send(());
        }
    }
}

/// What a process of a stdio server is.
pub(super) struct Setting {
    pub(super) script: ServerScript,
    pub(super) revision: Revision,
    /// Which process of the server it is, from 1.
    pub(super) incarnation: u32,
    pub(super) seed: u64,
    pub(super) quiet: bool,
    /// Where a grandchild finds the side channel. One that has none ends by itself after a while.
    pub(super) config: Option<PathBuf>,
}

/// The core with all that a process has around it.
pub(super) struct Shell {
    state: Mutex<State>,
    /// A timer was set, or reading may start.
    changed: Condvar,
    started: Instant,
    reports: Arc<dyn Reporter>,
    quiet: bool,
    incarnation: u32,
}

struct State {
    core: ServerCore,
    timers: BTreeSet<(Duration, u64)>,
    /// Whether stdin may be read; `None` until the core has said.
    reading: Option<bool>,
    config: Option<PathBuf>,
}

impl Shell {
    /// Starts the threads for signals and timers. `signals` have been blocked before any thread was started.
    pub(super) fn start(
        setting: Setting,
        reports: Arc<dyn Reporter>,
        signals: platform::Signals,
        process: Process,
    ) -> io::Result<Arc<Self>> {
        let core =
            ServerCore::stdio(Arc::new(setting.script), setting.revision, setting.incarnation, setting.seed)
                .with_wall_clock(crate::clock::since_1970());
        let dies_on_sigterm = core.dies_on_sigterm();
        let shell = Arc::new(Self {
            state: Mutex::new(State { core, timers: BTreeSet::new(), reading: None, config: setting.config }),
            changed: Condvar::new(),
            started: Instant::now(),
            reports,
            quiet: setting.quiet,
            incarnation: setting.incarnation,
        });
        shell.report(What::ProcessStarted(process));
        let handle = Arc::clone(&shell);
        Builder::new().name("signals".into()).stack_size(STACK).spawn(move || {
            while let Ok(name) = signals.wait() {
                handle.report(What::SignalReceived { signal: name.to_owned() });
                if name != "SIGTERM" || dies_on_sigterm {
                    // The core may be stuck in a write that the client never reads.
                    let code = match name {
                        "SIGHUP" => 129,
                        "SIGINT" => 130,
                        _ => 143,
                    };
                    handle.report(What::ProcessExiting { code: Some(code), signal: None });
                    handle.exit(code);
                }
                handle.input(Input::Signal(name));
            }
        })?;
        let handle = Arc::clone(&shell);
        Builder::new().name("timers".into()).stack_size(STACK).spawn(move || handle.keep_time())?;
        Ok(shell)
    }

    /// Is the server, until its process ends.
    pub(super) fn run(&self) -> ! {
        self.input(Input::Start);
        self.read_stdin();
        // The end of stdin did not end the process: it lives until something else does.
        loop {
            std::thread::park();
        }
    }

    /// Runs actions that nobody's rule asked for. May be held up by a client that does not read.
    pub(super) fn control(&self, control: Control) {
        self.input(Input::Control(control));
    }

    pub(super) fn report(&self, what: What) {
        self.reports.report(platform::monotonic_us(), what);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn input(&self, input: Input) {
        self.feed(&mut self.state(), input);
    }

    fn feed(&self, state: &mut State, input: Input) {
        let effects = state.core.handle(self.started.elapsed(), input);
        for effect in effects {
            // Any word may make the client kill this process at once. Then the harness has to know it already.
            if matches!(effect, Effect::Write(_)) && !self.quiet {
                self.reports.flush();
            }
            match effect {
                Effect::Observe(What::Line(_)) if self.quiet => {}
                Effect::Observe(what) => self.report(what),
                Effect::Timer { id, after } => {
                    state.timers.insert((self.started.elapsed() + after, id));
                    self.changed.notify_all();
                }
                Effect::StartReading => {
                    state.reading.get_or_insert(true);
                    self.changed.notify_all();
                }
                Effect::StopReading => state.reading = Some(false),
                Effect::Write(bytes) => {
                    if platform::write_stdout(&bytes).is_err() && state.core.stdout_lost() {
                        self.report(What::StdoutClosed { by: Party::Client });
                    }
                }
                Effect::Pause(time) => {
                    std::thread::sleep(time);
                    platform::wait_until_stdout_is_read(PATIENCE);
                }
                Effect::Stderr(bytes) => flood(bytes),
                Effect::CloseStdout => {
                    let _ = platform::close_stdout();
                }
                Effect::StartGrandchild => self.start_grandchild(state.config.as_deref()),
                Effect::Exit(code) => self.exit(code),
                Effect::Die(signal) => {
                    self.reports.ending();
                    platform::die(&signal);
                }
                // Of HTTP.
                Effect::Respond { .. }
                | Effect::Head { .. }
                | Effect::Chunk { .. }
                | Effect::End { .. }
                | Effect::Reset { .. } => {}
            }
        }
    }

    pub(super) fn exit(&self, code: i32) -> ! {
        self.reports.ending();
        std::process::exit(code)
    }

    fn start_grandchild(&self, config: Option<&std::path::Path>) {
        let started = std::env::current_exe().and_then(|program| {
            Command::new(program)
                .arg(GRANDCHILD)
                .arg(config.unwrap_or_else(|| std::path::Path::new(NO_HARNESS)))
                .arg(self.incarnation.to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        });
        match started {
            Ok(child) => self.report(What::GrandchildStarted { pid: child.id() }),
            Err(error) => {
                let message = format!("the grandchild could not be started: {error}");
                self.report(What::HarnessError { message });
            }
        }
    }

    fn keep_time(&self) {
        let mut state = self.state();
        loop {
            let now = self.started.elapsed();
            match state.timers.first().copied() {
                Some((due, id)) if due <= now => {
                    state.timers.pop_first();
                    self.feed(&mut state, Input::Timer(id));
                }
                Some((due, _)) => {
                    let woken = self.changed.wait_timeout(state, due - now);
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn read_stdin(&self) {
        let mut state = self.state();
        while state.reading.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let mut lines = Lines::new(MAX_LINE);
        let mut chunk = vec![0; 64 << 10];
        loop {
            let read = match platform::read_stdin(&mut chunk) {
                Ok(0) | Err(_) => None,
                Ok(count) => chunk.get(..count),
            };
            let mut state = self.state();
            if state.reading != Some(true) {
                return;
            }
            match read {
                Some(bytes) => lines.push(bytes),
                None => {
                    if let Some(line) = lines.finish() {
                        self.feed(&mut state, Input::Line(line));
                    }
                    self.feed(&mut state, Input::Eof);
                    return;
                }
            }
            loop {
                match lines.next_line() {
                    Ok(Some(line)) => self.feed(&mut state, Input::Line(line)),
                    Ok(None) => break,
                    Err(error) => {
                        self.report(What::HarnessError { message: format!("stdin: {error}") });
                        self.exit(i32::from(CANNOT_START));
                    }
                }
                if state.reading != Some(true) {
                    return;
                }
            }
        }
    }
}

/// Writes text lines to stderr, this many bytes in all.
fn flood(bytes: u64) {
    let line = b"sparring mock server: this line is noise on stderr, and to be read or thrown away.\n";
    let block: Vec<u8> = line.iter().copied().cycle().take(line.len() * 64).collect();
    let mut left = bytes;
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        let mut piece = block.get(..size).unwrap_or_default().to_vec();
        left -= size as u64;
        if left == 0
            && let Some(last) = piece.last_mut()
        {
            *last = b'\n';
        }
        if platform::write_stderr(&piece).is_err() {
            return;
        }
    }
}

/// A process that a careless server left behind: it holds no pipe of the client's and ignores polite signals, but
/// ends with the harness.
fn grandchild(path: &std::path::Path, of: Option<u32>) -> io::Result<ExitCode> {
    let _signals = platform::Signals::block()?;
    if path.as_os_str() == NO_HARNESS {
        std::thread::sleep(ORPHAN_LIFE);
        return Ok(ExitCode::SUCCESS);
    }
    let config = load(path)?;
    let (reader, _writer, _) = connect(&config, Some(of.unwrap_or_default()))?;
    follow_harness(reader, None)?;
    std::thread::sleep(GRANDCHILD_LIFE);
    Ok(ExitCode::SUCCESS)
}
