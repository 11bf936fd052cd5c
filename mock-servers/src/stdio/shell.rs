//! The server's process: plain threads around the core, no runtime.
//!
//! The main thread reads stdin; one thread waits for signals, one for timers, and one for the end of the side channel.
//! All but the last share the core behind a mutex and carry out its effects while they hold it, so that effects keep
//! their order.

use super::child::{CANNOT_START, CHUNK};
use super::descendant::Plan;
use super::reports::STACK;
use super::{MAX_LINE, Reporter};
use crate::core::{Control, Effect, Input, ServerCore};
use crate::platform;
use crate::script::{Descendant, ServerScript};
use sparring_wire::Revision;
use sparring_wire::framing::Lines;
use sparring_wire::transcript::{Party, What};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How long the reader may take to fetch one piece of a message before the next is written all the same.
const PATIENCE: Duration = Duration::from_millis(250);

/// What a process of a stdio server is.
pub(super) struct Setting {
    pub(super) script: ServerScript,
    pub(super) revision: Revision,
    /// Which process of the server it is, from 1.
    pub(super) incarnation: u32,
    pub(super) seed: u64,
    pub(super) quiet: bool,
    /// Where descendants find the side channel. One that has none ends by itself after a while.
    pub(super) config: Option<PathBuf>,
}

/// The core with all that a process has around it.
pub(super) struct Shell {
    state: Mutex<State>,
    /// A timer was set.
    timer_set: Condvar,
    /// Reading may go on, or has ended.
    reading_changed: Condvar,
    started: Instant,
    reports: Arc<dyn Reporter>,
    quiet: bool,
    incarnation: u32,
    config: Option<PathBuf>,
    descendants: Vec<Descendant>,
    /// Wakes a reader that waits for the client, when the script closes stdin. Not in quiet mode, where the wait would
    /// cost a call for each message; stdin is then closed with the next one.
    waker: Option<platform::Waker>,
}

struct State {
    core: ServerCore,
    timers: BTreeSet<(Duration, u64)>,
    reading: Reading,
}

/// Whether stdin is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Not at present.
    No,
    /// So many more bytes.
    Some(u64),
    All,
    /// Never again.
    Closed,
}

impl Shell {
    /// Starts the threads for signals and timers. `signals` have been blocked before any thread was started.
    pub(super) fn start(
        setting: Setting,
        reports: Arc<dyn Reporter>,
        signals: platform::Signals,
    ) -> io::Result<Arc<Self>> {
        let descendants = setting.script.process.all_descendants().collect();
        let mut core =
            ServerCore::stdio(Arc::new(setting.script), setting.revision, setting.incarnation, setting.seed)
                .with_wall_clock(crate::clock::since_1970());
        if setting.quiet {
            core.be_quiet();
        }
        let endings = platform::Signals::NAMES.map(|name| (name, core.unscripted_ending(name)));
        let shell = Arc::new(Self {
            state: Mutex::new(State { core, timers: BTreeSet::new(), reading: Reading::No }),
            timer_set: Condvar::new(),
            reading_changed: Condvar::new(),
            started: Instant::now(),
            reports,
            quiet: setting.quiet,
            incarnation: setting.incarnation,
            config: setting.config,
            descendants,
            waker: if setting.quiet { None } else { Some(platform::Waker::new()?) },
        });
        let handle = Arc::clone(&shell);
        Builder::new().name("signals".into()).stack_size(STACK).spawn(move || {
            let mut end: Option<Instant> = None;
            while let Ok(name) = signals.wait() {
                handle.report(What::SignalReceived { signal: name.to_owned() });
                handle.reports.settle();
                // The core may be stuck in a write that the client never reads.
                match endings.iter().find(|(own, _)| *own == name).and_then(|(_, ending)| *ending) {
                    Some((code, after)) => {
                        // A signal that is repeated does not put the end off, nor does it cost another thread.
                        let due = Instant::now() + after;
                        if end.is_none_or(|end| due < end) {
                            end = Some(due);
                            handle.end_later(code, after);
                        }
                    }
                    None => handle.input(Input::Signal(name)),
                }
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
            self.carry_out(state, effect);
        }
        self.reports.settle();
    }

    fn carry_out(&self, state: &mut State, effect: Effect) {
        match effect {
            Effect::Observe(what) => self.report(what),
            Effect::Timer { id, after } => {
                state.timers.insert((self.started.elapsed() + after, id));
                self.timer_set.notify_all();
            }
            Effect::StartReading => self.set_reading(state, Reading::All),
            Effect::StopReading { after: 0 } => self.set_reading(state, Reading::No),
            Effect::StopReading { after } => self.set_reading(state, Reading::Some(after)),
            Effect::CloseStdin => {
                self.set_reading(state, Reading::Closed);
                let _ = platform::close_stdin();
                if let Some(waker) = &self.waker {
                    waker.wake();
                }
            }
            Effect::Write(bytes) => {
                // Any word may make the client kill this process at once. Then the harness has to know it already.
                if !self.quiet {
                    self.reports.flush();
                }
                if platform::write_stdout(&bytes).is_err() && state.core.stdout_lost() {
                    self.report(What::StdoutClosed { by: Party::Client });
                }
            }
            Effect::Pause(time) => {
                std::thread::sleep(time);
                platform::wait_until_stdout_is_read(PATIENCE);
            }
            Effect::Stderr(bytes) => {
                self.reports.flush();
                flood(bytes);
            }
            Effect::StderrText(text) => {
                self.reports.flush();
                let _ = platform::write_stderr(text.as_bytes());
            }
            Effect::CloseStdout => {
                self.reports.flush();
                let _ = platform::close_stdout();
            }
            Effect::CloseStderr => {
                let _ = platform::close_stderr();
            }
            Effect::StartDescendant(index) => {
                if let Some(descendant) = self.descendants.get(index) {
                    let plan = Plan {
                        config: self.config.clone(),
                        incarnation: self.incarnation,
                        left: descendant.processes(),
                        descendant: descendant.clone(),
                    };
                    self.report(plan.start());
                }
            }
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
            | Effect::Raw { .. }
            | Effect::Reset { .. } => {}
        }
    }

    fn set_reading(&self, state: &mut State, reading: Reading) {
        if state.reading != Reading::Closed {
            state.reading = reading;
            self.reading_changed.notify_all();
        }
    }

    pub(super) fn exit(&self, code: i32) -> ! {
        self.reports.ending();
        std::process::exit(code)
    }

    /// Ends the process after this time, whatever the core is doing.
    fn end_later(self: &Arc<Self>, code: i32, after: Duration) {
        let handle = Arc::clone(self);
        let end = move |after: Duration| -> () {
            std::thread::sleep(after);
            handle.report(What::ProcessExiting { code: Some(code), signal: None });
            handle.exit(code)
        };
        if after.is_zero() {
            end(after);
        } else {
            // Later signals are seen meanwhile.
            let _ = Builder::new().name("end".into()).stack_size(STACK).spawn(move || end(after));
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
                    let woken = self.timer_set.wait_timeout(state, due - now);
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => state = self.timer_set.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Waits until stdin may be read.
    fn may_read<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.reading == Reading::No {
            state = self.reading_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn read_stdin(&self) {
        let mut lines = Lines::new(MAX_LINE);
        let mut chunk = vec![0; CHUNK];
        loop {
            if self.may_read(self.state()).reading == Reading::Closed {
                return;
            }
            if let Some(waker) = &self.waker {
                waker.wait_for_stdin();
                if self.state().reading == Reading::Closed {
                    return;
                }
            }
            let read = match platform::read_stdin(&mut chunk) {
                Ok(0) | Err(_) => None,
                Ok(count) => chunk.get(..count),
            };
            let mut state = self.may_read(self.state());
            let Some(mut bytes) = read else {
                if state.reading != Reading::Closed {
                    if let Some(line) = lines.finish() {
                        self.feed(&mut state, Input::Line(line));
                    }
                    self.feed(&mut state, Input::Eof);
                }
                return;
            };
            // No further than to the end of a line at once: it may be the last that is to be read.
            while !bytes.is_empty() {
                state = self.may_read(state);
                let line = bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |end| end + 1);
                let allowed = match &mut state.reading {
                    Reading::No | Reading::Closed => return,
                    Reading::All => line,
                    Reading::Some(left) => {
                        let allowed = usize::try_from(*left).unwrap_or(usize::MAX).min(line);
                        *left -= allowed as u64;
                        if *left == 0 {
                            state.reading = Reading::No;
                        }
                        allowed
                    }
                };
                let (now, later) = bytes.split_at(allowed);
                bytes = later;
                lines.push(now);
                match lines.next_line() {
                    Ok(Some(line)) => self.feed(&mut state, Input::Line(line)),
                    Ok(None) => {}
                    Err(error) => {
                        let message = format!("stdin: {error}");
                        let _ = platform::write_stderr(
                            format!(
                                "sparring mock server: {message}; it ends with exit code {CANNOT_START}\n"
                            )
                            .as_bytes(),
                        );
                        self.report(What::HarnessError { message });
                        self.exit(i32::from(CANNOT_START));
                    }
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
