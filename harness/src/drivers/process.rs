//! A client under test that is a process: started under a supervisor, in the case's own folder and environment.

use crate::browser::{self, Arrival, Lost, stand_in};
use crate::driver::{DriverError, DriverEvents};
use crate::platform::{self, Force};
use crate::run::directory;
use crate::run::supervise::{self, Patience, Report};
use serde_json::json;
use sparring_wire::framing::Lines;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, Lines as TextLines};
use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Settings of drivers that start a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSettings {
    /// The executable that takes our private first arguments: the running one, unless a test says otherwise.
    pub exe: PathBuf,
    /// Folder for the folders of [`crate::driver::Driver::hello`], which belong to no case.
    pub temporary_root: PathBuf,
    /// Where relative paths in the command are looked up, and where the `official` driver's clients run.
    pub here: PathBuf,
    /// How long the client may take to start and answer `hello`.
    pub hello_limit: Duration,
    /// How long it may take to end when its stdin has closed, before it is told to.
    pub eof_grace: Duration,
    /// How long it may take after SIGTERM, before SIGKILL.
    pub term_grace: Duration,
    /// How long its descendants may outlive it, before they count as escaped.
    pub linger_grace: Duration,
}

impl ProcessSettings {
    /// The running executable, the user's temporary folder, the current folder, and the usual patience.
    ///
    /// # Errors
    /// One of the three can't be found out.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            exe: std::env::current_exe()?,
            temporary_root: directory::temporary_root()?,
            here: std::env::current_dir()?,
            hello_limit: Duration::from_secs(30),
            eof_grace: Duration::from_secs(2),
            term_grace: Duration::from_secs(1),
            linger_grace: Duration::from_secs(1),
        })
    }
}

/// How long the word of a supervisor that has ended may be under way.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What is to be started.
pub(super) struct Launch<'a> {
    pub(super) command: &'a [String],
    /// The client's folder of the case.
    pub(super) client: &'a Path,
    pub(super) working_directory: &'a Path,
    /// Variables besides those of [`directory::client_environment`].
    pub(super) environment: BTreeMap<String, String>,
    pub(super) events: Arc<dyn DriverEvents>,
    /// Told each URL that the client wants opened in a browser.
    pub(super) opened: Arc<dyn Fn(String) + Send + Sync>,
}

/// How the client ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<String>,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.signal, self.code) {
            (Some(signal), _) => f.write_str(signal),
            (None, Some(code)) => write!(f, "exit code {code}"),
            (None, None) => f.write_str("for an unknown cause"),
        }
    }
}

/// What is known of a client while it runs and after.
#[derive(Debug, Clone, Default)]
struct State {
    ended: Option<Ended>,
    /// Set when nothing of it is left: what had escaped.
    done: Option<Vec<(u32, String)>>,
}

/// A running client. When it is dropped without [`ClientProcess::stop`] its supervisor ends it.
pub(super) struct ClientProcess {
    pid: u32,
    supervisor: Option<u32>,
    state: watch::Receiver<State>,
    stderr: Arc<Mutex<Tail>>,
    control: tokio::sync::Mutex<Option<OwnedWriteHalf>>,
    /// The harness wants it to end.
    stopping: Arc<AtomicBool>,
    settings: ProcessSettings,
    /// End with this value.
    tasks: Vec<JoinHandle<()>>,
    stderr_task: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl ClientProcess {
    /// Starts it.
    pub(super) async fn start(
        settings: &ProcessSettings,
        launch: Launch<'_>,
    ) -> Result<(Self, ChildStdin, ChildStdout), DriverError> {
        let program = launch.command.first().cloned().unwrap_or_default();
        let limit = settings.hello_limit;
        match tokio::time::timeout(limit, Self::start_at_leisure(settings, launch)).await {
            Ok(Ok(started)) => Ok(started),
            Ok(Err(why)) => Err(DriverError::Start { command: program, why }),
            Err(_) => {
                let why = format!("it did not start within {} s", limit.as_secs());
                Err(DriverError::Start { command: program, why })
            }
        }
    }

    async fn start_at_leisure(
        settings: &ProcessSettings,
        launch: Launch<'_>,
    ) -> Result<(Self, ChildStdin, ChildStdout), String> {
        let text = |error: std::io::Error| error.to_string();
        if launch.command.is_empty() {
            return Err("no command is given".to_owned());
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(text)?;
        let address = listener.local_addr().map_err(text)?;
        let browser = TcpListener::bind("127.0.0.1:0").await.map_err(text)?;
        let browser_address = browser.local_addr().map_err(text)?;
        let token = format!("{:032x}", rand::random::<u128>());

        let patience = Patience { term: settings.term_grace, linger: settings.linger_grace };
        let mut command = supervise::command(
            &settings.exe,
            address,
            &token,
            patience,
            // The client's folder is a part of it.
            launch.client.parent().unwrap_or(launch.client),
            launch.command,
        );
        command
            .env_clear()
            .envs(directory::client_environment(std::env::vars_os(), launch.client))
            .envs(stand_in::install(&settings.exe, launch.client, browser_address, &token).map_err(text)?)
            .envs(&launch.environment)
            .current_dir(launch.working_directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut supervisor = tokio::process::Command::from(command).spawn().map_err(text)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (supervisor.stdin.take(), supervisor.stdout.take(), supervisor.stderr.take())
        else {
            return Err("its pipes are missing".to_owned());
        };
        let supervisor_pid = supervisor.id();

        // The supervisor connects, or it ends without.
        let mut connecting = std::pin::pin!(connect(&listener, &token));
        let connected = tokio::select! {
            connected = &mut connecting => connected,
            status = supervisor.wait() => {
                let status = status.map_err(text)?;
                // If it had connected before it ended, that is to be seen by now.
                match tokio::time::timeout(LAST_WORDS, connecting).await {
                    Ok(connected) => connected,
                    Err(_) => return Err(format!(
                        "the supervisor ended ({status}): does the program call `sparring::run::hand_over` first?"
                    )),
                }
            }
        };
        let (mut reports, control) = connected.map_err(text)?;
        let pid = match next_report(&mut reports).await {
            Some(Report::Started { pid }) => pid,
            Some(Report::Failed { why }) => return Err(why),
            other => return Err(format!("the supervisor says {other:?}")),
        };
        launch.events.client_started(pid, launch.command);

        let (state_in, state) = watch::channel(State::default());
        let stopping = Arc::new(AtomicBool::new(false));
        let tail = Arc::new(Mutex::new(Tail::default()));
        let stderr_task = tokio::spawn(read_stderr(stderr, tail.clone(), launch.events.clone()));
        let follow = tokio::spawn({
            let (events, stopping) = (launch.events.clone(), stopping.clone());
            async move {
                while let Some(report) = next_report(&mut reports).await {
                    match report {
                        Report::Ended { code, signal } => {
                            events.client_ended(code, signal.as_deref(), stopping.load(Ordering::SeqCst));
                            state_in.send_modify(|state| state.ended = Some(Ended { code, signal }));
                        }
                        Report::Done { escaped } => {
                            state_in.send_modify(|state| state.done = Some(escaped));
                            break;
                        }
                        Report::Started { .. } | Report::Failed { .. } => {}
                    }
                }
                // Reaps it; dropping `state_in` tells everyone that no more will come.
                let _ = supervisor.wait().await;
            }
        });
        let opened = launch.opened;
        let browse = tokio::spawn(stand_in::listen(browser, token.clone(), move |url| opened(url)));
        let process = Self {
            pid,
            supervisor: supervisor_pid,
            state,
            stderr: tail,
            control: tokio::sync::Mutex::new(Some(control)),
            stopping,
            settings: settings.clone(),
            // `follow` goes on by itself until the supervisor has ended.
            tasks: vec![browse],
            stderr_task: Mutex::new(Some(stderr_task)),
        };
        drop(follow);
        Ok((process, stdin, stdout))
    }

    /// Its process id.
    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// From now on its end is expected.
    pub(super) fn expect_end(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Waits until it has ended by itself.
    pub(super) async fn ended(&self) -> Ended {
        let mut state = self.state.clone();
        match state.wait_for(|state| state.ended.is_some()).await {
            Ok(state) => state.ended.clone(),
            Err(_) => None,
        }
        // The supervisor is gone without a word.
        .unwrap_or(Ended { code: None, signal: None })
    }

    /// The error of an operation that can't go on since the client is gone, with the last of its stderr.
    pub(super) async fn gone(&self) -> DriverError {
        let how = self.ended().await.to_string();
        self.drain_stderr().await;
        DriverError::Ended { how, stderr: self.last_words() }
    }

    /// The last lines of its stderr.
    pub(super) fn last_words(&self) -> String {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).text()
    }

    /// Reads stderr to its end, unless a descendant holds it open.
    async fn drain_stderr(&self) {
        let task = self.stderr_task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut task) = task
            && tokio::time::timeout(self.settings.linger_grace, &mut task).await.is_err()
        {
            task.abort();
        }
    }

    /// Ends it with all that belongs to it: waits for `eof_grace` if its stdin was closed before, and then uses force.
    /// Returns what had escaped. Safe to call twice.
    pub(super) async fn stop(&self, wait_for_eof: bool) -> Vec<(u32, String)> {
        self.expect_end();
        if wait_for_eof {
            let _ = tokio::time::timeout(self.settings.eof_grace, self.ended()).await;
        }
        if self.state.borrow().ended.is_none()
            && let Some(control) = self.control.lock().await.as_mut()
        {
            let _ = control.write_all(b"s").await;
        }
        let mut state = self.state.clone();
        // The supervisor has limits of its own, all shorter; this one is for a supervisor that was killed or stopped.
        let limit = self.settings.term_grace + self.settings.linger_grace + Duration::from_secs(12);
        let done = tokio::time::timeout(limit, state.wait_for(|state| state.done.is_some()))
            .await
            .is_ok_and(|state| state.is_ok());
        if !done {
            platform::end_group(self.pid, Force::Kill);
            // While the supervisor runs, the sender of its state does.
            if self.state.has_changed().is_ok()
                && let Some(pid) = self.supervisor
            {
                platform::end(pid, Force::Kill);
            }
        }
        let escaped = self.state.borrow().done.clone().unwrap_or_default();
        self.drain_stderr().await;
        escaped
    }
}

async fn connect(
    listener: &TcpListener,
    token: &str,
) -> std::io::Result<(TextLines<BufReader<OwnedReadHalf>>, OwnedWriteHalf)> {
    loop {
        let (connection, _) = listener.accept().await?;
        let (read, write) = connection.into_split();
        let mut lines = BufReader::new(read).lines();
        // A stranger on this port is let go.
        if lines.next_line().await.is_ok_and(|line| line.as_deref() == Some(token)) {
            return Ok((lines, write));
        }
    }
}

async fn next_report(reports: &mut TextLines<BufReader<OwnedReadHalf>>) -> Option<Report> {
    serde_json::from_str(&reports.next_line().await.ok()??).ok()
}

/// Lines of stderr that become events as they come; more would drown the transcript.
const LIVE_LINES: u32 = 100;
/// Lines kept for error messages.
const TAIL_LINES: usize = 20;
/// The longest line, in bytes; the rest of it is left out.
const LONGEST_LINE: usize = 2000;

/// The last lines of a stream.
#[derive(Debug, Default)]
struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    fn push(&mut self, line: &str) {
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
    }

    fn text(&self) -> String {
        self.lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

async fn read_stderr(stderr: impl AsyncRead + Unpin, tail: Arc<Mutex<Tail>>, events: Arc<dyn DriverEvents>) {
    let mut seen: u32 = 0;
    read_text(stderr, |line| {
        tail.lock().unwrap_or_else(PoisonError::into_inner).push(&line);
        seen = seen.saturating_add(1);
        if seen <= LIVE_LINES {
            events.output("stderr", &line);
        }
    })
    .await;
    if seen > LIVE_LINES {
        let last = tail.lock().unwrap_or_else(PoisonError::into_inner).text();
        let left_out = seen - LIVE_LINES;
        events.output("stderr", &format!("({left_out} more lines, of which these are the last)\n{last}"));
    }
}

/// Reads lines of text to the end of the stream, whatever it holds; long lines are cut.
pub(super) async fn read_text(mut stream: impl AsyncRead + Unpin, mut on_line: impl FnMut(String)) {
    let mut lines = Lines::new(LONGEST_LINE);
    let mut chunk = vec![0; 16 << 10];
    // What follows a line that was cut, up to its end.
    let mut skipping = false;
    loop {
        let count = match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        let mut rest = &chunk[..count];
        if skipping {
            match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => rest = &rest[end + 1..],
                None => continue,
            }
            skipping = false;
        }
        // By the line, so that a long one never fills the buffer with what comes after it.
        for piece in rest.split_inclusive(|byte| *byte == b'\n') {
            lines.push(piece);
            match lines.next_line() {
                Ok(Some(line)) => on_line(line.text().0),
                Ok(None) => {}
                Err(_) => {
                    if let Some(line) = lines.finish() {
                        on_line(cut(&line.text().0));
                    }
                    skipping = !piece.ends_with(b"\n");
                }
            }
        }
    }
    if let Some(line) = lines.finish() {
        on_line(cut(&line.text().0));
    }
}

/// A text for the transcript: at most [`LONGEST_LINE`] bytes of it.
pub(super) fn cut(text: &str) -> String {
    if text.len() <= LONGEST_LINE {
        return text.trim_end().to_owned();
    }
    let end = (0..=LONGEST_LINE).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}… ({} bytes)", &text[..end], text.len())
}

/// Plays the browser for a URL that the client wants opened, and tells the transcript where it led.
pub(super) async fn browse(url: &str, events: &dyn DriverEvents) -> Result<Arrival, Lost> {
    let arrived = browser::follow(url).await;
    match &arrived {
        Ok(arrival) => {
            let data = json!({"redirect": browser::bare(&arrival.url), "delivered": arrival.delivered});
            events.driver_event("browser", data);
        }
        Err(lost) => events.driver_event("browser", json!({"error": lost.to_string()})),
    }
    arrived
}

/// Browser visits that one client may have under way at a time; more is a client gone wild.
const MOST_VISITS: u32 = 16;

/// Plays the browser in the background for each URL, as many at a time as is sensible.
pub(super) fn visitor(
    events: Arc<dyn DriverEvents>,
    arrived: impl Fn(String) + Send + Sync + 'static,
) -> Arc<dyn Fn(String) + Send + Sync> {
    let under_way = Arc::new(AtomicU32::new(0));
    let arrived = Arc::new(arrived);
    Arc::new(move |url| {
        if under_way.fetch_add(1, Ordering::SeqCst) >= MOST_VISITS {
            under_way.fetch_sub(1, Ordering::SeqCst);
            events.output("harness", "too many authorization URLs at a time; this one is not followed");
            return;
        }
        let (events, under_way, arrived) = (events.clone(), under_way.clone(), arrived.clone());
        tokio::spawn(async move {
            if let Ok(arrival) = browse(&url, events.as_ref()).await {
                arrived(arrival.url);
            }
            under_way.fetch_sub(1, Ordering::SeqCst);
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines_of(input: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        read_text(input, |line| lines.push(line)).await;
        lines
    }

    #[tokio::test]
    async fn text_of_any_kind_is_read_in_bounded_lines() {
        assert_eq!(lines_of(b"one\r\ntwo\n\nlast").await, ["one", "two", "", "last"]);
        assert_eq!(lines_of(b"\xff\n").await, ["\u{fffd}"]);
        let mut long = vec![b'x'; 100_000];
        long.extend_from_slice(b"\nnext\n");
        let lines = lines_of(&long).await;
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() < 2 * LONGEST_LINE && lines[0].contains("bytes)"));
        assert_eq!(lines[1], "next");
    }

    #[test]
    fn the_end_of_a_client_is_said_in_a_word() {
        assert_eq!(Ended { code: Some(3), signal: None }.to_string(), "exit code 3");
        assert_eq!(Ended { code: None, signal: Some("SIGSEGV".into()) }.to_string(), "SIGSEGV");
    }
}
