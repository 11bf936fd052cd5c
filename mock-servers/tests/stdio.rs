//! The stdio shell, with real processes: this very executable, executed again.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use sparring_mock_servers::script::ServerScript;
use sparring_mock_servers::sink::Sink;
use sparring_mock_servers::stdio::{StdioMock, StdioSpec, run_if_mock};
use sparring_wire::Revision;
use sparring_wire::transcript::{Direction, LineSeen, What};
use std::os::fd::AsRawFd;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Notify;

fn main() -> ExitCode {
    if let Some(code) = run_if_mock() {
        return code;
    }
    macro_rules! trials {
        ($($name:ident),* $(,)?) => {
            vec![$(Trial::test(stringify!($name), || run($name))),*]
        };
    }
    let trials = trials![a_call_is_answered_and_everything_is_reported, the_process_describes_itself,];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// No test takes this long; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(20);

fn run<F: Future<Output = ()>>(test: fn() -> F) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, test()).await.map_err(|_| Failed::from("the test hangs"))
    })
}

/// Keeps what was observed, and wakes who waits for it.
#[derive(Default)]
struct Log {
    events: Mutex<Vec<(Option<u32>, u64, What)>>,
    changed: Notify,
}

impl Sink for Log {
    fn event(&self, server: &str, incarnation: Option<u32>, monotonic_us: u64, what: What) {
        assert_eq!(server, "mock");
        self.events.lock().unwrap().push((incarnation, monotonic_us, what));
        self.changed.notify_one();
    }
}

impl Log {
    fn whats(&self) -> Vec<What> {
        self.events.lock().unwrap().iter().map(|(_, _, what)| what.clone()).collect()
    }

    /// Waits for the first event that `find` makes something of.
    async fn wait<T>(&self, find: impl Fn(&What) -> Option<T>) -> T {
        loop {
            if let Some(found) = self.whats().iter().find_map(&find) {
                return found;
            }
            self.changed.notified().await;
        }
    }

    /// Sent lines, with their fault flags.
    fn sent(&self) -> Vec<LineSeen> {
        let sent = |what| match what {
            What::Line(line) if line.direction == Direction::Sent => Some(line),
            _ => None,
        };
        self.whats().into_iter().filter_map(sent).collect()
    }
}

/// A mock with a directory of its own.
struct Fixture {
    mock: StdioMock,
    log: Arc<Log>,
    _dir: tempfile::TempDir,
}

fn fixture(script: Value) -> Fixture {
    let script: ServerScript = serde_json::from_value(script).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let log = Arc::new(Log::default());
    let mock = StdioMock::prepare(StdioSpec {
        name: "mock".into(),
        script,
        revision: Revision::V2025_06_18,
        dir: dir.path().to_owned(),
        seed: 1,
        sink: Arc::clone(&log) as Arc<dyn Sink>,
        program: None,
    })
    .unwrap();
    Fixture { mock, log, _dir: dir }
}

/// A client of the simplest kind.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Fixture {
    fn spawn(&self) -> Client {
        self.spawn_with(|_| {})
    }

    fn spawn_with(&self, change: impl FnOnce(&mut Command)) -> Client {
        let command = self.mock.command();
        let mut child = Command::new(&command[0]);
        child
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        change(&mut child);
        let mut child = child.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Client { child, stdin, stdout }
    }

    /// Waits until the client's processes are gone, and ends the mock.
    async fn end(self) -> Vec<u32> {
        self.mock.all_ended().await;
        self.mock.shutdown().await
    }
}

impl Client {
    async fn send(&mut self, message: Value) {
        self.stdin.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).await.unwrap();
        line
    }

    async fn receive(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    async fn initialize(&mut self) -> Value {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        self.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        let answer = self.receive().await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    async fn echo(&mut self, id: i64, text: &str) {
        let params = json!({"name": "echo", "arguments": {"text": text}});
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
    }

    /// Closes stdin and waits for the end.
    async fn close(&mut self) -> std::process::ExitStatus {
        self.stdin = None;
        self.child.wait().await.unwrap()
    }
}

async fn a_call_is_answered_and_everything_is_reported() {
    let fixture = fixture(json!({"tools": ["echo"]}));
    let mut client = fixture.spawn();
    assert_eq!(client.initialize().await["result"]["protocolVersion"], "2025-06-18");
    client.echo(1, "hello").await;
    assert_eq!(client.receive().await["result"]["content"][0]["text"], "hello");
    assert_eq!(client.close().await.code(), Some(0));
    let log = Arc::clone(&fixture.log);
    assert_eq!(fixture.end().await, [0_u32; 0]);
    let events = log.events.lock().unwrap();
    let kinds: Vec<String> = events
        .iter()
        .map(|(incarnation, _, what)| {
            assert_eq!(*incarnation, Some(1));
            match what {
                What::Line(line) => format!("{:?}", line.direction),
                What::ProcessExiting { code, .. } => format!("exiting {code:?}"),
                other => serde_json::to_value(other).unwrap()["kind"].as_str().unwrap().to_owned(),
            }
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "process-started",
            "Received",
            "Sent",
            "Received",
            "Received",
            "Sent",
            "stdin-closed",
            "exiting Some(0)",
            "process-ended"
        ]
    );
    assert!(events.is_sorted_by_key(|(_, at, _)| *at), "{events:?}");
}

async fn the_process_describes_itself() {
    let fixture = fixture(json!({}));
    let cwd = tempfile::tempdir().unwrap();
    // A descriptor that the client forgets to keep to itself.
    let leak = nix::unistd::dup(std::io::stdin()).unwrap();
    let mut client = fixture.spawn_with(|command| {
        command.env_clear().env("ONLY", "this").current_dir(cwd.path()).process_group(0);
    });
    let pid = client.child.id().unwrap();
    let process = fixture
        .log
        .wait(|what| match what {
            What::ProcessStarted(process) => Some(process.clone()),
            _ => None,
        })
        .await;
    assert_eq!(process.pid, pid);
    assert_eq!(process.parent, std::process::id());
    assert_eq!(process.argv, fixture.mock.command());
    assert_eq!(process.env, [("ONLY".to_owned(), "this".to_owned())].into());
    assert_eq!(process.cwd, cwd.path().canonicalize().unwrap().display().to_string());
    assert_eq!(process.process_group, i32::try_from(pid).unwrap());
    assert!(process.descriptors.contains(&leak.as_raw_fd()), "{:?}", process.descriptors);
    let ours = |fd: &i32| std::fs::symlink_metadata(format!("/dev/fd/{fd}")).is_ok();
    assert!(process.descriptors.iter().all(ours), "{:?}", process.descriptors);
    assert_eq!(fixture.mock.pids(), [pid]);
    client.close().await;
    fixture.end().await;
}
