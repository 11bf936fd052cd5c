//! The stdio transport: a server as a child process.

use crate::error::Error;
use crate::link::{FromLink, into_text};
use crate::platform;
use crate::settings::{EnvPolicy, StdioSettings};
use async_trait::async_trait;
use serde_json::Value;
use sparring_wire::text::to_text;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// A stdio server as configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StdioTarget {
    /// The program: a path, or a name looked up on `PATH`.
    pub command: OsString,
    /// Its arguments, handed over verbatim.
    pub args: Vec<OsString>,
    /// Variables set on top of what [`EnvPolicy`] lets through.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory; `None`: the client's.
    pub cwd: Option<PathBuf>,
}

impl StdioTarget {
    /// A program with its arguments.
    pub fn new<A: Into<OsString>>(command: impl Into<OsString>, args: impl IntoIterator<Item = A>) -> Self {
        Self { command: command.into(), args: args.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

/// A process to start, with its whole environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnSpec {
    /// The name of the server, for messages.
    pub server: String,
    /// The program.
    pub command: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment, complete.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory; `None`: inherited.
    pub cwd: Option<PathBuf>,
    /// Whether it leads a process group of its own.
    pub own_group: bool,
}

/// Starts stdio servers.
pub trait Launcher: Send + Sync {
    /// Starts a process with pipes for stdin, stdout and stderr, as leader of a process group of its own unless the
    /// specification says otherwise.
    fn spawn(&self, spec: &SpawnSpec) -> io::Result<Box<dyn ServerProcess>>;

    /// Like [`Launcher::spawn`], but tells the inode numbers of the pipes that only the process will have, before there
    /// is a process. Whoever writes them down can find the process again, even if it is killed itself between the start
    /// of the process and learning its id. A launcher that does not know them tells nothing.
    ///
    /// # Errors
    /// As [`Launcher::spawn`]; also if `announce` fails, and then there is no process.
    fn spawn_announced(
        &self,
        spec: &SpawnSpec,
        announce: &mut dyn FnMut(&[u64]) -> io::Result<()>,
    ) -> io::Result<Box<dyn ServerProcess>> {
        let _ = announce;
        self.spawn(spec)
    }
}

/// A way to end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The number of the signal that ended it.
    pub signal: Option<i32>,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}"),
            (None, Some(signal)) => write!(f, "was ended by signal {signal}"),
            (None, None) => f.write_str("ended"),
        }
    }
}

/// A running server. Each method is called by one task at a time, but different ones at the same time.
#[async_trait]
pub trait ServerProcess: Send + Sync {
    /// Process id, for messages.
    fn id(&self) -> Option<u32>;
    /// Writes all of `bytes` to stdin.
    async fn write(&self, bytes: &[u8]) -> io::Result<()>;
    /// The next chunk of stdout; empty at its end.
    async fn read(&self) -> io::Result<Vec<u8>>;
    /// Appends the next chunk of stdout to `buffer`; returns how many bytes it had, 0 at the end. Spares a copy where
    /// it is more than [`ServerProcess::read`] underneath. Like that, it loses nothing if it is given up.
    async fn read_into(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let chunk = self.read().await?;
        buffer.extend_from_slice(&chunk);
        Ok(chunk.len())
    }
    /// The next chunk of stderr; empty at its end.
    async fn read_stderr(&self) -> io::Result<Vec<u8>>;
    /// Closes stdin.
    async fn close_stdin(&self);
    /// Signals the process group.
    fn signal(&self, signal: Signal) -> io::Result<()>;
    /// Whether any process of the group is left.
    fn group_alive(&self) -> bool;
    /// Waits for the end of the process and reaps it.
    async fn wait(&self) -> io::Result<Exit>;
}

/// The default [`Launcher`], over tokio. No shell is involved.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLauncher;

impl Launcher for SystemLauncher {
    fn spawn(&self, spec: &SpawnSpec) -> io::Result<Box<dyn ServerProcess>> {
        self.spawn_announced(spec, &mut |_| Ok(()))
    }

    fn spawn_announced(
        &self,
        spec: &SpawnSpec,
        announce: &mut dyn FnMut(&[u64]) -> io::Result<()>,
    ) -> io::Result<Box<dyn ServerProcess>> {
        let mut command = tokio::process::Command::new(&spec.command);
        command.args(&spec.args).env_clear().envs(spec.env.iter().map(|(k, v)| (k, v))).kill_on_drop(true);
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        if spec.own_group {
            platform::own_group(&mut command);
        }
        let (child, pipes) = platform::spawn(command, announce)?;
        Ok(Box::new(SystemProcess {
            pid: child.id(),
            own_group: spec.own_group,
            stdin: tokio::sync::Mutex::new(pipes.stdin),
            stdout: tokio::sync::Mutex::new(pipes.stdout),
            is_wide: AtomicBool::new(false),
            stderr: tokio::sync::Mutex::new(pipes.stderr),
            child: tokio::sync::Mutex::new(child),
            reaped: AtomicBool::new(false),
        }))
    }
}

/// The ends of a process's pipes that are this side's.
pub(crate) struct Pipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

struct SystemProcess {
    pid: Option<u32>,
    own_group: bool,
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    stdout: tokio::sync::Mutex<Option<ChildStdout>>,
    /// Whether the pipe of stdout was made to hold more.
    is_wide: AtomicBool,
    stderr: tokio::sync::Mutex<Option<ChildStderr>>,
    child: tokio::sync::Mutex<Child>,
    reaped: AtomicBool,
}

/// What a pipe holds by default where pipes are small, in bytes.
const PIPE: usize = 64 << 10;

/// Room for a small message, in bytes: all that an idle connection has.
const SMALL: usize = 4 << 10;

async fn read_chunk(pipe: Option<&mut (impl tokio::io::AsyncRead + Unpin)>) -> io::Result<Vec<u8>> {
    let Some(pipe) = pipe else { return Ok(Vec::new()) };
    let mut chunk = Vec::with_capacity(16 << 10);
    pipe.read_buf(&mut chunk).await?;
    Ok(chunk)
}

#[async_trait]
impl ServerProcess for SystemProcess {
    fn id(&self) -> Option<u32> {
        self.pid
    }

    async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self.stdin.lock().await.as_mut() {
            Some(stdin) => {
                stdin.write_all(bytes).await?;
                stdin.flush().await
            }
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    async fn read(&self) -> io::Result<Vec<u8>> {
        read_chunk(self.stdout.lock().await.as_mut()).await
    }

    async fn read_into(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut stdout = self.stdout.lock().await;
        let Some(pipe) = stdout.as_mut() else { return Ok(0) };
        // Whatever fills more than a small message is likely to go on.
        buffer.reserve(if buffer.len() < SMALL { SMALL } else { PIPE });
        let read = pipe.read_buf(buffer).await?;
        if read >= PIPE && !self.is_wide.swap(true, Ordering::AcqRel) {
            platform::widen(pipe);
        }
        Ok(read)
    }

    async fn read_stderr(&self) -> io::Result<Vec<u8>> {
        read_chunk(self.stderr.lock().await.as_mut()).await
    }

    async fn close_stdin(&self) {
        self.stdin.lock().await.take();
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match self.pid {
            // The id of a process that was waited for may be another one's.
            None => Ok(()),
            Some(_) if !self.own_group && self.reaped.load(Ordering::Acquire) => Ok(()),
            Some(pid) => platform::signal(pid, self.own_group, signal),
        }
    }

    fn group_alive(&self) -> bool {
        match self.own_group {
            true => self.pid.is_some_and(platform::group_alive),
            false => !self.reaped.load(Ordering::Acquire),
        }
    }

    async fn wait(&self) -> io::Result<Exit> {
        let status = self.child.lock().await.wait().await?;
        self.reaped.store(true, Ordering::Release);
        Ok(platform::exit_of(status))
    }
}

impl Drop for SystemProcess {
    fn drop(&mut self) {
        // The runtime may be going down, with no time for an orderly end: leave nothing behind.
        if !self.reaped.load(Ordering::Acquire) {
            drop(self.signal(Signal::Kill));
        }
    }
}

/// More than a server that does not read will ever need to catch up with, in bytes.
const MAX_QUEUE: usize = 128 << 20;

enum Outgoing {
    Bytes(Vec<u8>),
    Flush,
}

/// The shell of one running server.
pub(crate) struct StdioLink {
    process: Arc<dyn ServerProcess>,
    settings: StdioSettings,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    queued: Arc<AtomicUsize>,
    exit: watch::Receiver<Option<Exit>>,
    writer: JoinHandle<()>,
    tasks: Vec<JoinHandle<()>>,
    incoming: mpsc::Sender<FromLink>,
}

impl StdioLink {
    /// Starts the server.
    pub(crate) fn start(
        launcher: &dyn Launcher,
        server: &str,
        target: &StdioTarget,
        settings: &StdioSettings,
        incoming: mpsc::Sender<FromLink>,
    ) -> Result<Self, Error> {
        let spec = SpawnSpec {
            server: server.to_owned(),
            command: target.command.clone(),
            args: target.args.clone(),
            env: environment(&settings.env, &target.env),
            cwd: target.cwd.clone(),
            own_group: settings.own_group,
        };
        let process: Arc<dyn ServerProcess> = Arc::from(launcher.spawn(&spec).map_err(|error| {
            let place = spec.cwd.as_ref().map(|cwd| format!(" in {}", cwd.display())).unwrap_or_default();
            Error::Start(format!("could not start `{}`{place}: {error}", spec.command.display()))
        })?);
        let (outgoing, queue) = mpsc::unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let (exit_sender, exit) = watch::channel(None);
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let writer = tokio::spawn(write_all(Arc::clone(&process), queue, Arc::clone(&queued)));
        let stderr_done = tokio::spawn(drain(Arc::clone(&process), Arc::clone(&tail), settings.stderr_tail));
        let waiter = tokio::spawn({
            let process = Arc::clone(&process);
            async move {
                let ended = process.wait().await.unwrap_or_default();
                exit_sender.send_replace(Some(ended));
            }
        });
        let reader = tokio::spawn(read_all(Reader {
            process: Arc::clone(&process),
            limit: settings.max_line,
            exit: exit.clone(),
            tail,
            stderr_done,
            incoming: incoming.clone(),
        }));
        let settings = settings.clone();
        Ok(Self { process, settings, outgoing, queued, exit, writer, tasks: vec![waiter, reader], incoming })
    }

    /// Queues a message as one line.
    pub(crate) fn send(&self, message: &Value) {
        let mut line = to_text(message).into_bytes();
        line.push(b'\n');
        if self.queued.fetch_add(line.len(), Ordering::AcqRel) > MAX_QUEUE {
            let error = Error::Closed("the server does not read its input; too much is queued for it".into());
            // The channel may be full; then the engine will find out with one of the next messages.
            drop(self.incoming.try_send(FromLink::Closed(error)));
            return;
        }
        drop(self.outgoing.send(Outgoing::Bytes(line)));
    }

    /// Ends the server: stdin is closed, then SIGTERM, then SIGKILL, each after its grace; to the whole group.
    pub(crate) async fn close(self) {
        let Self { process, settings, outgoing, exit, mut writer, tasks, .. } = self;
        drop(outgoing.send(Outgoing::Flush));
        let until = Instant::now() + settings.close_wait;
        // What is queued still goes out, unless the server does not read.
        if timeout_at(until, &mut writer).await.is_err() {
            writer.abort();
            drop(writer.await);
        }
        process.close_stdin().await;
        let mut gone = timeout_at(until, exited(exit.clone())).await.is_ok();
        for signal in [Signal::Terminate, Signal::Kill] {
            if gone && !process.group_alive() {
                break;
            }
            drop(process.signal(signal));
            let leader = exited(exit.clone());
            gone = timeout(settings.terminate_wait, async {
                leader.await;
                // No event tells the end of a process group.
                while process.group_alive() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await
            .is_ok();
        }
        // The waiter ends with the process; the reader may sit on a pipe that a stranger holds open.
        for task in tasks {
            task.abort();
        }
    }
}

async fn exited(mut exit: watch::Receiver<Option<Exit>>) {
    // An error means that the waiter is gone, and the process with it.
    drop(exit.wait_for(Option::is_some).await);
}

fn environment(policy: &EnvPolicy, own: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let inherited = std::env::vars_os().filter(|(name, value)| {
        // A value that starts like a function definition is code to some shells.
        policy.passes(&name.to_string_lossy())
            && (*policy == EnvPolicy::All || !value.to_string_lossy().starts_with("()"))
    });
    inherited.filter(|(name, _)| own.iter().all(|(set, _)| set != name)).chain(own.iter().cloned()).collect()
}

async fn write_all(
    process: Arc<dyn ServerProcess>,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    queued: Arc<AtomicUsize>,
) {
    while let Some(next) = queue.recv().await {
        match next {
            Outgoing::Bytes(line) => {
                // The reader notices the end of the server, and knows more about it.
                if process.write(&line).await.is_err() {
                    return;
                }
                queued.fetch_sub(line.len(), Ordering::AcqRel);
            }
            Outgoing::Flush => return,
        }
    }
}

async fn drain(process: Arc<dyn ServerProcess>, tail: Arc<Mutex<VecDeque<u8>>>, keep: usize) {
    while let Ok(chunk) = process.read_stderr().await {
        if chunk.is_empty() {
            return;
        }
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(chunk);
        let excess = tail.len().saturating_sub(keep);
        tail.drain(..excess);
    }
}

struct Reader {
    process: Arc<dyn ServerProcess>,
    limit: usize,
    exit: watch::Receiver<Option<Exit>>,
    tail: Arc<Mutex<VecDeque<u8>>>,
    stderr_done: JoinHandle<()>,
    incoming: mpsc::Sender<FromLink>,
}

/// How long a pipe may stay silent after the server's exit before it counts as held by a stranger; also how long
/// the end of stderr and the exit status are waited for once stdout is closed.
const SETTLE: Duration = Duration::from_millis(500);

async fn read_all(reader: Reader) {
    let Reader { process, limit, exit, tail, stderr_done, incoming } = reader;
    let mut lines = Splitter::new(limit);
    loop {
        let count = {
            let read = process.read_into(&mut lines.buffer);
            tokio::pin!(read);
            tokio::select! {
                biased;
                count = &mut read => Some(count),
                () = exited(exit.clone()) => timeout(SETTLE, &mut read).await.ok(),
            }
        };
        let Some(Ok(count)) = count else { break };
        while let Some(item) = lines.next() {
            if incoming.send(item).await.is_err() {
                return;
            }
        }
        if count == 0 {
            if let Some(last) = lines.last()
                && incoming.send(last).await.is_err()
            {
                return;
            }
            break;
        }
    }
    // Tell as much as can be known about why.
    drop(timeout(SETTLE, exited(exit.clone())).await);
    drop(timeout(SETTLE, stderr_done).await);
    let ended = *exit.borrow();
    let mut message = match ended {
        Some(exit) => format!("the server {exit}"),
        None => "the server closed its output".to_owned(),
    };
    let tail: Vec<u8> = tail.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
    let tail = String::from_utf8_lossy(&tail);
    if !tail.trim().is_empty() {
        message.push_str("; its stderr ends with: ");
        message.push_str(tail.trim());
    }
    drop(incoming.send(FromLink::Closed(Error::Closed(message))).await);
}

/// Lines out of chunks, where a line that is too long is thrown away up to its end. A long line is handed on in the buffer
/// that it was read into.
struct Splitter {
    /// What was read; chunks are put at its end.
    buffer: Vec<u8>,
    /// Where the line begins that comes next.
    start: usize,
    /// Up to where there is no end of a line.
    searched: usize,
    limit: usize,
    discarding: bool,
}

impl Splitter {
    const fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, limit, discarding: false }
    }

    /// The next line that has ended, or has become too long.
    fn next(&mut self) -> Option<FromLink> {
        loop {
            let Some(offset) = memchr::memchr(b'\n', self.buffer.get(self.searched..).unwrap_or_default())
            else {
                return self.unfinished();
            };
            let end = self.searched + offset;
            let line = self.start..end;
            self.searched = end + 1;
            if std::mem::take(&mut self.discarding) {
                self.start = self.searched;
            } else if line.len() > self.limit {
                let start = self.beginning();
                self.start = self.searched;
                return Some(FromLink::TooLong { start, limit: self.limit });
            } else {
                let mut line = self.take(line);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Some(FromLink::Message(into_text(line)));
            }
        }
    }

    /// No end of a line is in sight.
    fn unfinished(&mut self) -> Option<FromLink> {
        // What is left is moved to the front; most often it is nothing.
        self.buffer.drain(..self.start);
        self.start = 0;
        self.searched = self.buffer.len();
        if !self.discarding && self.buffer.len() <= self.limit {
            return None;
        }
        let start = self.beginning();
        let is_new = !std::mem::replace(&mut self.discarding, true);
        self.buffer.clear();
        self.searched = 0;
        is_new.then_some(FromLink::TooLong { start, limit: self.limit })
    }

    /// The line at `line`, whose end was found; `searched` is behind that.
    fn take(&mut self, line: std::ops::Range<usize>) -> Vec<u8> {
        if line.start > 0 || line.len() < self.buffer.capacity() / 2 {
            self.start = self.searched;
            return self.buffer.get(line).map(<[u8]>::to_vec).unwrap_or_default();
        }
        let rest = self.buffer.split_off(self.searched);
        let mut taken = std::mem::replace(&mut self.buffer, rest);
        taken.truncate(line.end);
        (self.start, self.searched) = (0, 0);
        taken
    }

    /// The last line, if it has no end.
    fn last(&mut self) -> Option<FromLink> {
        let rest = std::mem::take(&mut self.buffer);
        (!rest.is_empty() && !self.discarding).then(|| FromLink::Message(into_text(rest)))
    }

    /// Enough of a line that is too long to tell which it was.
    fn beginning(&self) -> String {
        let line = self.buffer.get(self.start..).unwrap_or_default();
        String::from_utf8_lossy(line.get(..512).unwrap_or(line)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(items: Vec<FromLink>) -> Vec<String> {
        let text = |item| match item {
            FromLink::Message(text) => text,
            FromLink::TooLong { start, .. } => format!("!{start}"),
            other => format!("{other:?}"),
        };
        items.into_iter().map(text).collect()
    }

    #[test]
    fn a_line_over_the_limit_is_lost_alone_whatever_the_chunks() {
        let bytes = b"ok\n0123456789abc\nnext\nlast";
        for step in 1..bytes.len() {
            let mut split = Splitter::new(8);
            let mut seen = Vec::new();
            for chunk in bytes.chunks(step) {
                split.buffer.extend_from_slice(chunk);
                seen.extend(std::iter::from_fn(|| split.next()));
            }
            seen.extend(split.last());
            let seen = texts(seen);
            assert_eq!(seen.len(), 4, "{seen:?}");
            assert!(seen[1].starts_with("!01234567"), "{seen:?}");
            assert_eq!([&seen[0], &seen[2], &seen[3]], ["ok", "next", "last"]);
        }
    }

    #[test]
    fn a_long_line_is_not_copied_and_short_ones_do_not_keep_the_buffer() {
        let mut split = Splitter::new(1 << 20);
        split.buffer.reserve_exact(1 << 16);
        split.buffer.extend_from_slice(b"short\n");
        let Some(FromLink::Message(short)) = split.next() else { panic!("a line") };
        assert!(short.capacity() < 64);
        assert!(split.next().is_none());
        split.buffer.resize(60_000, b'x');
        let place = split.buffer.as_ptr();
        split.buffer.extend_from_slice(b"\r\nmore");
        let Some(FromLink::Message(long)) = split.next() else { panic!("a line") };
        assert_eq!((long.as_ptr(), long.len()), (place, 60_000));
        assert!(split.next().is_none());
        assert_eq!(split.buffer, b"more");
    }

    proptest::proptest! {
        #[test]
        fn lines_are_what_the_framing_of_both_ends_says(
            text in "[a\r\n\u{e4}]{0,60}", cuts in proptest::collection::vec(1usize..20, 0..8),
        ) {
            let mut lines = sparring_wire::framing::Lines::new(1 << 20);
            lines.push(text.as_bytes());
            let mut expected: Vec<String> =
                std::iter::from_fn(|| lines.next_line().unwrap()).map(|line| line.text().0).collect();
            expected.extend(lines.finish().map(|line| line.text().0));
            let (mut split, mut seen, mut rest) = (Splitter::new(1 << 20), Vec::new(), text.as_bytes());
            for cut in cuts.into_iter().chain([60 * 2]) {
                let (chunk, more) = rest.split_at(cut.min(rest.len()));
                split.buffer.extend_from_slice(chunk);
                seen.extend(std::iter::from_fn(|| split.next()));
                rest = more;
            }
            seen.extend(split.last());
            proptest::prop_assert_eq!(texts(seen), expected);
        }
    }

    #[test]
    fn own_variables_win_over_inherited_ones() {
        let own = [("PATH".into(), "/x".into()), ("K".into(), OsString::new())];
        let env = environment(&EnvPolicy::All, &own);
        assert_eq!(env.iter().filter(|(k, _)| k == "PATH").count(), 1);
        assert!(env.contains(&own[0]) && env.contains(&own[1]));
        assert_eq!(environment(&EnvPolicy::None, &own).len(), 2);
    }
}
