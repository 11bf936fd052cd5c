//! The harness's end of the side channel.

use super::{Asked, Config, Done, Hello, MAX_LINE, MOCK, Report, Welcome};
use crate::core::Control;
use crate::platform::{self, Channel};
use crate::script::ServerScript;
use crate::sink::{Sink, monotonic_us};
use rand::Rng;
use sparring_wire::Revision;
use sparring_wire::framing::Lines;
use sparring_wire::transcript::What;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// What a stdio mock is to be.
#[derive(Clone)]
pub struct StdioSpec {
    /// The server's name in the scenario.
    pub name: String,
    /// Its script.
    pub script: ServerScript,
    /// The revision that it speaks.
    pub revision: Revision,
    /// Where its configuration is written, with the name as part of the file's, and the socket of its side channel;
    /// removed by whoever owns the directory.
    pub dir: PathBuf,
    /// The seed of all that is made up.
    pub seed: u64,
    /// Where observations go.
    pub sink: Arc<dyn Sink>,
    /// Don't report single lines: for measurements, where nobody looks at them. Otherwise each line is reported before
    /// the next is written, so that a client that kills its server hides nothing.
    pub quiet: bool,
    /// The program whose `main` calls [`super::run_if_mock`]; the running executable if `None`.
    pub program: Option<PathBuf>,
}

impl fmt::Debug for StdioSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioSpec")
            .field("name", &self.name)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// A stdio server that the client under test can start, any number of times.
///
/// Dropping it without [`shutdown`](Self::shutdown) ends its side channel, and thereby its processes.
pub struct StdioMock {
    command: Vec<String>,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
    /// Counts the open side channels.
    open: watch::Receiver<usize>,
    closing: watch::Sender<bool>,
}

impl fmt::Debug for StdioMock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioMock").field("command", &self.command).finish_non_exhaustive()
    }
}

struct Shared {
    name: String,
    token: String,
    sink: Arc<dyn Sink>,
    state: Mutex<State>,
    open: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    incarnations: u32,
    pids: BTreeSet<u32>,
    /// Those of them that have said that they are about to end.
    exiting: BTreeSet<u32>,
    /// The server's processes, without grandchildren, by their number.
    processes: BTreeMap<u32, Reached>,
    /// Those that `shutdown` ended.
    killed: Vec<u32>,
    closing: bool,
}

/// A process that can be asked for something.
struct Reached {
    pid: u32,
    ask: UnboundedSender<(Control, oneshot::Sender<()>)>,
}

/// What came of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controlled {
    /// They have run in this process, but for those that wait for something.
    Done {
        /// Its number.
        incarnation: u32,
    },
    /// The process ended meanwhile.
    Ended {
        /// Its number.
        incarnation: u32,
    },
    /// There is no such process.
    NoProcess,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, incarnation: u32, at: u64, what: What) {
        self.sink.event(&self.name, Some(incarnation), at, what);
    }
}

impl StdioMock {
    /// Writes the configuration and listens for the processes that the client will start. Needs a running tokio
    /// runtime; fails if the file can't be written or no port is free.
    pub fn prepare(spec: StdioSpec) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        let mut secret = [0_u8; 16];
        rand::rng().fill_bytes(&mut secret);
        let token: String = secret.iter().map(|b| format!("{b:02x}")).collect();
        let path = std::path::absolute(spec.dir.join(file_name(&spec.name)))?;
        // Short, since the path of a socket may not be long.
        let socket_path = path.with_file_name(token.get(..8).unwrap_or_default());
        let socket = platform::Socket::bind(&socket_path);
        let config = Config {
            address,
            socket: socket.is_some().then_some(socket_path),
            token: token.clone(),
            revision: spec.revision,
            seed: spec.seed,
            script: spec.script,
            quiet: spec.quiet,
        };
        write_private(&path, &serde_json::to_vec(&config)?)?;
        let program = match spec.program {
            Some(program) => program,
            None => std::env::current_exe()?,
        };
        let (open, open_seen) = watch::channel(0);
        let shared =
            Arc::new(Shared { name: spec.name, token, sink: spec.sink, state: Mutex::default(), open });
        let (closing, closing_seen) = watch::channel(false);
        let accepting = tokio::spawn(accept(listener, socket, Arc::clone(&shared), closing_seen));
        let command = vec![text(program)?, MOCK.to_owned(), text(path)?];
        Ok(Self { command, shared, accepting, open: open_seen, closing })
    }

    /// Program and arguments that the client has to run.
    pub fn command(&self) -> Vec<String> {
        self.command.clone()
    }

    /// Process ids of the server's processes that are alive, grandchildren included.
    pub fn pids(&self) -> Vec<u32> {
        self.shared.state().pids.iter().copied().collect()
    }

    /// How many processes the client has started so far.
    pub fn incarnations(&self) -> u32 {
        self.shared.state().incarnations
    }

    /// The server's processes that are alive, without grandchildren: number and process id, oldest first.
    pub fn processes(&self) -> Vec<(u32, u32)> {
        self.shared.state().processes.iter().map(|(number, process)| (*number, process.pid)).collect()
    }

    /// Runs these actions now, in the process with this number; by default in the one that was started last. It may be
    /// held up by a client that does not read.
    pub async fn control(&self, incarnation: Option<u32>, control: Control) -> Controlled {
        let (done, wait) = oneshot::channel();
        let asked = {
            let state = self.shared.state();
            let found = match incarnation {
                Some(number) => state.processes.get_key_value(&number),
                None => state.processes.last_key_value(),
            };
            found.map(|(number, process)| (*number, process.ask.send((control, done)).is_ok()))
        };
        match asked {
            None => Controlled::NoProcess,
            Some((incarnation, true)) if wait.await.is_ok() => Controlled::Done { incarnation },
            Some((incarnation, _)) => Controlled::Ended { incarnation },
        }
    }

    /// Waits until the [`pids`](Self::pids) are as wanted.
    pub async fn wait_for_pids(&self, wanted: impl Fn(&[u32]) -> bool) {
        let _ = self.open.clone().wait_for(|_| wanted(&self.pids())).await;
    }

    /// Waits until no process is alive and all reports have gone to the sink.
    pub async fn all_ended(&self) {
        let _ = self.open.clone().wait_for(|open| *open == 0).await;
    }

    /// Ends what is left by SIGKILL, waits until all side channels are closed and all their reports have gone to the
    /// sink, and returns the ids of the processes that had to be killed.
    pub async fn shutdown(mut self) -> Vec<u32> {
        {
            let mut state = self.shared.state();
            state.closing = true;
            for pid in state.pids.clone() {
                if platform::kill(pid) && !state.exiting.contains(&pid) {
                    state.killed.push(pid);
                }
            }
        }
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
        // A process can be between its connection and its hello; it ends by itself when nobody answers.
        let _ = self.closing.send(true);
        let _ = self.open.wait_for(|open| *open == 0).await;
        std::mem::take(&mut self.shared.state().killed)
    }
}

impl Drop for StdioMock {
    fn drop(&mut self) {
        self.accepting.abort();
        // The connections' tasks see that the sender is gone.
    }
}

/// A file name from a server's name, which may be any text.
fn file_name(name: &str) -> String {
    let safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let digest = <sha2::Sha256 as sha2::Digest>::digest(name);
    let tag: String = digest.iter().take(4).map(|b| format!("{b:02x}")).collect();
    format!("mock-{safe}-{tag}.json")
}

fn text(path: PathBuf) -> io::Result<String> {
    path.into_os_string()
        .into_string()
        .map_err(|path| io::Error::new(io::ErrorKind::InvalidInput, format!("{path:?} is not UTF-8")))
}

/// The file holds the token, so nobody else may read it.
fn write_private(path: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

async fn accept(
    listener: TcpListener,
    socket: Option<platform::Socket>,
    shared: Arc<Shared>,
    closing: watch::Receiver<bool>,
) {
    loop {
        let accepted: io::Result<Box<dyn Channel>> = tokio::select! {
            accepted = listener.accept() => accepted.map(|(stream, _)| Box::new(stream) as Box<dyn Channel>),
            accepted = async {
                match &socket {
                    Some(socket) => socket.accept().await,
                    None => std::future::pending().await,
                }
            } => accepted,
        };
        match accepted {
            Ok(stream) => {
                shared.open.send_modify(|open| *open += 1);
                let shared = Arc::clone(&shared);
                let closing = closing.clone();
                tokio::spawn(async move {
                    follow(stream, &shared, closing).await;
                    shared.open.send_modify(|open| *open = open.saturating_sub(1));
                });
            }
            // Out of descriptors, most likely: give connections that end time to make room.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// A side channel, from hello to end.
async fn follow(mut stream: Box<dyn Channel>, shared: &Shared, mut closing: watch::Receiver<bool>) {
    let mut lines = Lines::new(MAX_LINE * 6);
    let mut chunk = vec![0; 64 << 10];
    let hello = tokio::select! {
        hello = read_hello(&mut stream, &mut lines, &mut chunk, shared) => hello,
        // Also when the mock was dropped.
        _ = closing.wait_for(|closing| *closing) => None,
    };
    let Some(hello) = hello else { return };
    let (ask, asked) = unbounded_channel();
    let incarnation = {
        let mut state = shared.state();
        if state.closing {
            return;
        }
        state.pids.insert(hello.pid);
        match hello.grandchild_of {
            // The server takes the place of its launcher, which does nothing for anybody.
            Some(incarnation) if hello.launched => {
                state.processes.insert(incarnation, Reached { pid: hello.pid, ask });
                incarnation
            }
            Some(incarnation) => incarnation,
            None => {
                state.incarnations += 1;
                let incarnation = state.incarnations;
                state.processes.insert(incarnation, Reached { pid: hello.pid, ask });
                incarnation
            }
        }
    };
    // Without the lock, which those who wait take to look.
    shared.open.send_modify(|_| ());
    let mut welcome = serde_json::to_vec(&Welcome { incarnation }).unwrap_or_default();
    welcome.push(b'\n');
    if stream.write_all(&welcome).await.is_ok() {
        let child = Child { pid: hello.pid, incarnation, asked, waiting: HashMap::new(), asked_so_far: 0 };
        relay(&mut stream, &mut lines, &mut chunk, shared, child, &mut closing).await;
    }
    {
        let mut state = shared.state();
        state.pids.remove(&hello.pid);
        state.exiting.remove(&hello.pid);
        if state.processes.get(&incarnation).is_some_and(|process| process.pid == hello.pid) {
            state.processes.remove(&incarnation);
        }
    }
    shared.report(incarnation, monotonic_us(), What::ProcessEnded { pid: hello.pid });
}

/// The process at the other end of a side channel.
struct Child {
    pid: u32,
    incarnation: u32,
    asked: UnboundedReceiver<(Control, oneshot::Sender<()>)>,
    /// Who waits for its answers.
    waiting: HashMap<u64, oneshot::Sender<()>>,
    asked_so_far: u64,
}

impl Child {
    /// The line that asks for something.
    fn ask(&mut self, control: Control, done: oneshot::Sender<()>) -> Vec<u8> {
        self.asked_so_far += 1;
        self.waiting.insert(self.asked_so_far, done);
        let mut line = serde_json::to_vec(&Asked { id: self.asked_so_far, control }).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Takes in a line.
    fn line(&mut self, line: &[u8], shared: &Shared) -> serde_json::Result<()> {
        if line.starts_with(b"{\"done\":") {
            let Done { done } = serde_json::from_slice(line)?;
            if let Some(waiting) = self.waiting.remove(&done) {
                let _ = waiting.send(());
            }
            return Ok(());
        }
        let report: Report = serde_json::from_slice(line)?;
        if matches!(report.what, What::ProcessExiting { .. }) {
            shared.state().exiting.insert(self.pid);
        }
        shared.report(self.incarnation, report.at, report.what);
        Ok(())
    }
}

/// Passes reports on until the process ends or the mock is dropped. A mock that is being shut down still reads what
/// the process had to say.
async fn relay(
    stream: &mut Box<dyn Channel>,
    lines: &mut Lines,
    chunk: &mut [u8],
    shared: &Shared,
    mut child: Child,
    closing: &mut watch::Receiver<bool>,
) {
    loop {
        let problem = match lines.next_line() {
            Ok(Some(line)) => match child.line(&line.bytes, shared) {
                Ok(()) => continue,
                Err(error) => error.to_string(),
            },
            Ok(None) => {
                let read = tokio::select! {
                    read = stream.read(chunk) => read,
                    Some((control, done)) = child.asked.recv() => {
                        let line = child.ask(control, done);
                        // One that can't be written to is at its end, which the next read shows.
                        let _ = stream.write_all(&line).await;
                        continue;
                    }
                    closing = closing.changed() => match closing {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                };
                match read {
                    Ok(count) if count > 0 => lines.push(chunk.get(..count).unwrap_or_default()),
                    _ => return,
                }
                continue;
            }
            Err(error) => error.to_string(),
        };
        let message = format!("the side channel of `{}` can't be followed: {problem}", shared.name);
        return shared.report(child.incarnation, monotonic_us(), What::HarnessError { message });
    }
}

async fn read_hello(
    stream: &mut Box<dyn Channel>,
    lines: &mut Lines,
    chunk: &mut [u8],
    shared: &Shared,
) -> Option<Hello> {
    loop {
        if let Some(line) = lines.next_line().ok()? {
            let hello: Hello = serde_json::from_slice(&line.bytes).ok()?;
            return (hello.token == shared.token).then_some(hello);
        }
        let count = stream.read(chunk).await.ok().filter(|count| *count > 0)?;
        lines.push(chunk.get(..count)?);
    }
}
