//! The stdio shell, with real processes: this very executable, executed again.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use sparring_mock_servers::script::ServerScript;
use sparring_mock_servers::sink::Sink;
use sparring_mock_servers::stdio::{StdioMock, StdioSpec, run_if_mock};
use sparring_wire::Revision;
use sparring_wire::transcript::{Direction, LineSeen, Party, What};
use std::os::fd::AsRawFd;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Notify;

fn main() -> ExitCode {
    if let Some(code) = run_if_mock() {
        return code;
    }
    if let Some(dir) = std::env::args().skip_while(|a| a != HARNESS).nth(1) {
        return harness(dir.as_ref());
    }
    macro_rules! trials {
        ($($name:ident),* $(,)?) => {
            vec![$(Trial::test(stringify!($name), || run($name))),*]
        };
    }
    let trials = trials![
        a_call_is_answered_and_everything_is_reported,
        the_process_describes_itself,
        each_process_has_its_number,
        exits_and_deaths_are_reported_before_they_happen,
        polite_signals_end_it_with_their_codes,
        what_ignores_everything_is_killed_at_shutdown,
        a_mock_without_its_harness_ends,
        a_killed_harness_leaves_no_process,
        a_grandchild_outlives_the_server_and_is_known,
        the_end_of_stdout_is_seen_from_both_sides,
        a_flood_blocks_until_it_is_read_but_not_the_signal,
        a_server_that_stops_reading_sees_nothing_more,
        a_delayed_start_can_be_ended,
        odd_lines_are_reported_as_they_are,
        held_answers_come_late_and_in_pieces,
        strangers_are_not_listened_to,
        a_mock_that_can_not_start_says_so,
        loopback_does_where_the_socket_can_not_be_reached,
        each_signal_can_end_it,
        ends_take_their_time_and_their_code,
        a_deaf_process_needs_sigkill,
        deaths_by_count_are_seen_by_the_client,
        a_second_instance_is_refused,
        a_launcher_shares_its_pipes_and_dies_alone,
        a_relay_forwards_the_end_of_stdin_but_no_signal,
        a_launcher_can_forward_signals,
        the_examples_of_launchers_do_what_they_say,
        descendants_stand_where_the_script_says,
        a_descendant_can_hold_the_clients_pipe,
        reading_can_stop_at_a_byte_and_go_on,
        stdin_and_stderr_can_be_closed,
        a_cut_message_comes_in_two_parts,
        raw_bytes_and_texts_arrive_as_they_are,
        the_inherited_mask_and_signals_are_described,
    ];
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
        quiet: false,
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

async fn each_process_has_its_number() {
    let fixture = fixture(
        json!({"tools": ["echo"], "rules": [{"on": "tools/call", "incarnation": 2, "do": [{"exit": 9}]}]}),
    );
    for code in [0, 9] {
        let mut client = fixture.spawn();
        client.initialize().await;
        client.echo(1, "x").await;
        client.line().await;
        assert_eq!(client.close().await.code(), Some(code));
        fixture.mock.all_ended().await;
    }
    assert_eq!(fixture.mock.incarnations(), 2);
    let log = Arc::clone(&fixture.log);
    fixture.end().await;
    let ended: Vec<Option<u32>> = log
        .events
        .lock()
        .unwrap()
        .iter()
        .filter(|(_, _, what)| matches!(what, What::ProcessEnded { .. }))
        .map(|(incarnation, _, _)| *incarnation)
        .collect();
    assert_eq!(ended, [Some(1), Some(2)]);
}

async fn exits_and_deaths_are_reported_before_they_happen() {
    use nix::sys::signal::Signal;
    for (action, code, signal) in [
        (json!({"exit": 3}), Some(3), None),
        (json!({"die": "SIGKILL"}), None, Some(Signal::SIGKILL)),
        (json!({"die": "SIGSEGV"}), None, Some(Signal::SIGSEGV)),
        (json!({"die": "SIGTERM"}), None, Some(Signal::SIGTERM)),
        (json!({"die": "SIGABRT"}), None, Some(Signal::SIGABRT)),
    ] {
        let fixture = fixture(json!({"rules": [{"on": "initialize", "do": [action]}]}));
        let mut client = fixture.spawn();
        client.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})).await;
        let status = client.child.wait().await.unwrap();
        assert_eq!(status.code(), code);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), signal.map(|s| s as i32));
        let log = Arc::clone(&fixture.log);
        assert_eq!(fixture.end().await, [0_u32; 0]);
        let exiting = What::ProcessExiting { code, signal: signal.map(|s| s.as_str().to_owned()) };
        let whats = log.whats();
        assert!(whats.contains(&exiting), "{whats:?}");
        assert!(matches!(whats.last(), Some(What::ProcessEnded { .. })));
    }
}

fn signal(client: &Client, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(client.child.id().unwrap().try_into().unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

async fn polite_signals_end_it_with_their_codes() {
    use nix::sys::signal::Signal;
    for (sent, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)] {
        let fixture = fixture(json!({}));
        let mut client = fixture.spawn();
        client.initialize().await;
        signal(&client, sent);
        assert_eq!(client.child.wait().await.unwrap().code(), Some(code));
        let log = Arc::clone(&fixture.log);
        fixture.end().await;
        let whats = log.whats();
        let position = |wanted: &What| whats.iter().position(|w| w == wanted).expect("it is reported");
        let received = position(&What::SignalReceived { signal: sent.as_str().to_owned() });
        // Lines that were on their way may be reported in between.
        assert!(received < position(&What::ProcessExiting { code: Some(code), signal: None }));
    }
    // By a rule, with a delay.
    let fixture = fixture(
        json!({"rules": [{"on": "sigterm", "do": [{"stdout": "bye"}, {"delay_ms": 1}, {"exit": 5}]}]}),
    );
    let mut client = fixture.spawn();
    client.initialize().await;
    signal(&client, Signal::SIGTERM);
    assert_eq!(client.line().await, "bye\n");
    assert_eq!(client.child.wait().await.unwrap().code(), Some(5));
    fixture.end().await;
}

async fn what_ignores_everything_is_killed_at_shutdown() {
    let fixture = fixture(json!({"process": {"ignore_eof": true, "ignore_sigterm": true}}));
    let mut client = fixture.spawn();
    client.initialize().await;
    client.stdin = None;
    fixture.log.wait(|w| (*w == What::StdinClosed).then_some(())).await;
    signal(&client, nix::sys::signal::Signal::SIGTERM);
    fixture.log.wait(|w| matches!(w, What::SignalReceived { .. }).then_some(())).await;
    let pid = client.child.id().unwrap();
    assert_eq!(fixture.mock.pids(), [pid]);
    assert_eq!(fixture.mock.shutdown().await, [pid]);
    let status = client.child.wait().await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

async fn a_mock_without_its_harness_ends() {
    let fixture = fixture(json!({"process": {"ignore_eof": true, "ignore_sigterm": true}, "rules": [
        {"on": "initialize", "do": [{"stderr_bytes": 10_000_000}]},
    ]}));
    let mut client = fixture.spawn();
    // It hangs in a write that nobody reads.
    client.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})).await;
    fixture.log.wait(|w| matches!(w, What::RuleFired { .. }).then_some(())).await;
    drop(fixture);
    let status = client.child.wait().await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

/// The argument that makes this executable play a harness.
const HARNESS: &str = "--play-harness";

/// A harness with a stubborn mock, which inherits stdout; says their process ids and waits to be killed.
fn harness(dir: &std::path::Path) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let log = Arc::new(Log::default());
        let mock = StdioMock::prepare(StdioSpec {
            name: "mock".into(),
            script: serde_json::from_value(json!({
                "process": {"ignore_eof": true, "ignore_sigterm": true, "grandchild": true},
            }))
            .unwrap(),
            revision: Revision::V2025_06_18,
            dir: dir.to_owned(),
            quiet: false,
            seed: 1,
            sink: Arc::clone(&log) as Arc<dyn Sink>,
            program: None,
        })
        .unwrap();
        let command = mock.command();
        let _child = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).spawn().unwrap();
        mock.wait_for_pids(|pids| pids.len() >= 2).await;
        let line = serde_json::to_string(&mock.pids()).unwrap() + "\n";
        tokio::io::stdout().write_all(line.as_bytes()).await.unwrap();
        tokio::io::stdout().flush().await.unwrap();
        std::future::pending::<()>().await;
    });
    ExitCode::SUCCESS
}

/// Waits until a process that is no child of ours is gone, or at least dead.
async fn gone(pid: u32) {
    loop {
        let stat = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().await.unwrap();
        let state = String::from_utf8_lossy(&stat.stdout).trim().to_owned();
        if state.is_empty() || state.starts_with('Z') {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn a_killed_harness_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut harness = Command::new(std::env::current_exe().unwrap())
        .arg(HARNESS)
        .arg(dir.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(harness.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).await.unwrap();
    let pids: Vec<u32> = serde_json::from_str(&line).unwrap();
    assert_eq!(pids.len(), 2, "the mock and its grandchild");
    harness.kill().await.unwrap();
    // The mock holds the pipe as well: it ends only when both are gone.
    stdout.read_to_string(&mut line).await.unwrap();
    for pid in pids {
        gone(pid).await;
    }
}

async fn a_grandchild_outlives_the_server_and_is_known() {
    let fixture = fixture(json!({"process": {"grandchild": true}}));
    let mut client = fixture.spawn();
    client.initialize().await;
    let grandchild = fixture
        .log
        .wait(|w| match w {
            What::GrandchildStarted { pid } => Some(*pid),
            _ => None,
        })
        .await;
    let server = client.child.id().unwrap();
    assert_eq!(client.close().await.code(), Some(0));
    // The pipes are closed although the grandchild lives.
    assert_eq!(client.line().await, "");
    fixture.log.wait(|w| (*w == What::ProcessEnded { pid: server }).then_some(())).await;
    // It may have needed longer to connect than the whole conversation took.
    fixture.mock.wait_for_pids(|pids| !pids.is_empty()).await;
    assert_eq!(fixture.mock.pids(), [grandchild]);
    let pid = nix::unistd::Pid::from_raw(grandchild.try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(fixture.mock.shutdown().await, [grandchild]);
}

async fn the_end_of_stdout_is_seen_from_both_sides() {
    let server = fixture(json!({"rules": [{"on": "ping", "do": ["close_stdout"]}]}));
    let mut client = server.spawn();
    client.initialize().await;
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(client.line().await, "", "the pipe is closed");
    client.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    server.log.wait(|w| matches!(w, What::Line(l) if l.text.contains(r#""id":2"#)).then_some(())).await;
    assert_eq!(client.close().await.code(), Some(0));
    server.mock.all_ended().await;
    assert!(server.log.whats().contains(&What::StdoutClosed { by: Party::Server }));
    server.end().await;

    let fixture = fixture(json!({}));
    let mut client = fixture.spawn();
    client.initialize().await;
    let Client { mut child, mut stdin, stdout } = client;
    drop(stdout);
    // A process that another test is just forking may hold the pipe for a moment longer.
    let closed = || fixture.log.whats().contains(&What::StdoutClosed { by: Party::Client });
    let mut id = 0;
    while !closed() || id < 2 {
        id += 1;
        let ping = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        stdin.as_mut().unwrap().write_all(ping.as_bytes()).await.unwrap();
        let received = format!("\"id\":{id},\"method\":\"ping\"");
        fixture.log.wait(|w| matches!(w, What::Line(l) if l.text.contains(&received)).then_some(())).await;
    }
    drop(stdin);
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    let log = Arc::clone(&fixture.log);
    fixture.end().await;
    let closed = log.whats().into_iter().filter(|w| *w == What::StdoutClosed { by: Party::Client });
    assert_eq!(closed.count(), 1);
}

async fn a_flood_blocks_until_it_is_read_but_not_the_signal() {
    const BYTES: u64 = 1_000_000;
    let server = json!({"rules": [{"on": "ping", "do": [{"stderr_bytes": BYTES}]}]});
    let drained = fixture(server.clone());
    let mut client = drained.spawn();
    client.initialize().await;
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    let mut stderr = client.child.stderr.take().unwrap();
    let mut noise = vec![0; usize::try_from(BYTES).unwrap()];
    stderr.read_exact(&mut noise).await.unwrap();
    assert!(noise.iter().all(|b| b.is_ascii_graphic() || matches!(b, b' ' | b'\n')));
    assert_eq!(client.receive().await["id"], 1);
    client.close().await;
    drained.mock.all_ended().await;
    assert!(drained.log.whats().contains(&What::Stderr { bytes: BYTES }));
    drained.end().await;

    let stuck = fixture(server);
    let mut client = stuck.spawn();
    client.initialize().await;
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    stuck.log.wait(|w| matches!(w, What::RuleFired { .. }).then_some(())).await;
    signal(&client, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(client.child.wait().await.unwrap().code(), Some(143));
    let log = Arc::clone(&stuck.log);
    stuck.end().await;
    assert!(!log.whats().contains(&What::Stderr { bytes: BYTES }), "it was not written");
}

async fn a_server_that_stops_reading_sees_nothing_more() {
    let fixture = fixture(json!({"rules": [{"on": "ping", "do": ["stop_reading"]}]}));
    let mut client = fixture.spawn();
    client.initialize().await;
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(client.receive().await["id"], 1);
    // More than a pipe holds: the write never ends.
    let mut stdin = client.stdin.take().unwrap();
    let long = vec![b'x'; 1 << 20];
    tokio::select! {
        // It may also fail, once the process is gone.
        Ok(()) = stdin.write_all(&long) => unreachable!("somebody reads"),
        () = async {
            signal(&client, nix::sys::signal::Signal::SIGTERM);
            assert_eq!(client.child.wait().await.unwrap().code(), Some(143));
        } => {}
    }
    let log = Arc::clone(&fixture.log);
    fixture.end().await;
    let received =
        log.whats().into_iter().filter(|w| matches!(w, What::Line(l) if l.direction == Direction::Received));
    assert_eq!(received.count(), 3);
}

async fn a_delayed_start_can_be_ended() {
    let fixture = fixture(json!({"process": {"start_delay_ms": 3_600_000}}));
    let mut client = fixture.spawn();
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    fixture.log.wait(|w| matches!(w, What::ProcessStarted(_)).then_some(())).await;
    signal(&client, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(client.child.wait().await.unwrap().code(), Some(143));
    let log = Arc::clone(&fixture.log);
    fixture.end().await;
    assert!(!log.whats().iter().any(|w| matches!(w, What::Line(_))), "nothing was read");
}

async fn odd_lines_are_reported_as_they_are() {
    let fixture = fixture(json!({}));
    let mut client = fixture.spawn();
    let stdin = client.stdin.as_mut().unwrap();
    stdin.write_all(b"a\xff\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\nrest").await.unwrap();
    assert_eq!(client.receive().await["id"], 1);
    assert_eq!(client.close().await.code(), Some(0));
    let log = Arc::clone(&fixture.log);
    fixture.end().await;
    let seen: Vec<(bool, bool, bool)> = log
        .whats()
        .into_iter()
        .filter_map(|what| match what {
            What::Line(l) if l.direction == Direction::Received => {
                Some((l.invalid_utf8, l.carriage_return, l.unterminated))
            }
            _ => None,
        })
        .collect();
    assert_eq!(seen, [(true, false, false), (false, true, false), (false, false, true)]);
}

async fn held_answers_come_late_and_in_pieces() {
    let fixture = fixture(json!({"tools": ["echo"], "rules": [
        {"on": "tools/call", "nth": 1, "do": [{"delay_ms": 20}, {"split_every": 3}]},
        {"on": "tools/call", "nth": 2, "do": [{"stdout": "noise"}, {"merge_next": 1}]},
    ]}));
    let mut client = fixture.spawn();
    client.initialize().await;
    client.echo(1, "a").await;
    assert_eq!(client.receive().await["id"], 1);
    for id in 2..=3 {
        client.echo(id, "b").await;
    }
    assert_eq!(client.line().await, "noise\n");
    for id in 2..=3 {
        assert_eq!(client.receive().await["id"], id);
    }
    client.close().await;
    fixture.mock.all_ended().await;
    assert_eq!(
        fixture.log.sent().iter().map(|l| l.scripted_fault).collect::<Vec<_>>(),
        [false, false, true, false, false]
    );
    fixture.end().await;
}

async fn strangers_are_not_listened_to() {
    let fixture = fixture(json!({}));
    let config: Value = serde_json::from_slice(&std::fs::read(&fixture.mock.command()[2]).unwrap()).unwrap();
    let address = config["address"].as_str().unwrap();
    for hello in [r#"{"token":"wrong","pid":1,"grandchild_of":null}"#, "rubbish"] {
        let mut stranger = tokio::net::TcpStream::connect(address).await.unwrap();
        stranger.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
        assert_eq!(stranger.read(&mut [0; 8]).await.unwrap_or(0), 0, "turned away");
    }
    // One that says nothing does not hold up the end.
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    assert_eq!(fixture.mock.shutdown().await, [0_u32; 0]);
    assert_eq!(fixture.log.whats(), []);
}

async fn a_mock_that_can_not_start_says_so() {
    let fixture = fixture(json!({}));
    let command = fixture.mock.command();
    std::fs::remove_file(&command[2]).unwrap();
    let client = fixture.spawn();
    let output = client.child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(70));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("sparring mock server: "));
    assert_eq!(fixture.end().await, [0_u32; 0]);
}

async fn loopback_does_where_the_socket_can_not_be_reached() {
    let fixture = fixture(json!({}));
    let config: Value = serde_json::from_slice(&std::fs::read(&fixture.mock.command()[2]).unwrap()).unwrap();
    std::fs::remove_file(config["socket"].as_str().unwrap()).unwrap();
    let mut client = fixture.spawn();
    client.initialize().await;
    assert_eq!(client.close().await.code(), Some(0));
    let log = Arc::clone(&fixture.log);
    fixture.end().await;
    assert!(log.whats().contains(&What::StdinClosed));
}

async fn each_signal_can_end_it() {
    use nix::sys::signal::Signal;
    for name in
        ["SIGBUS", "SIGFPE", "SIGILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGALRM", "SIGTRAP", "SIGHUP"]
    {
        let fixture = fixture(json!({"rules": [{"on": "ping", "do": [{"die": name}]}]}));
        let mut client = fixture.spawn();
        client.initialize().await;
        client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
        let status = client.child.wait().await.unwrap();
        let signal: Signal = name.parse().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(signal as i32), "{name}");
        fixture.end().await;
    }
}

async fn ends_take_their_time_and_their_code() {
    use nix::sys::signal::Signal;
    // A flood that nobody reads does not hold up the end, not even the late one.
    let fixture = fixture(json!({
        "process": {"at_sigint": {"code": 7, "after_ms": 5}, "at_eof": {"code": 3, "after_ms": 5}},
        "rules": [{"on": "ping", "do": [{"stderr_bytes": 10_000_000}]}],
    }));
    let mut client = fixture.spawn();
    client.initialize().await;
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    fixture.log.wait(|w| matches!(w, What::RuleFired { .. }).then_some(())).await;
    signal(&client, Signal::SIGINT);
    assert_eq!(client.child.wait().await.unwrap().code(), Some(7));
    fixture.mock.all_ended().await;
    let mut client = fixture.spawn();
    client.initialize().await;
    assert_eq!(client.close().await.code(), Some(3));
    let log = Arc::clone(&fixture.log);
    assert_eq!(fixture.end().await, [0_u32; 0]);
    for code in [7, 3] {
        assert!(log.whats().contains(&What::ProcessExiting { code: Some(code), signal: None }), "{code}");
    }
}

async fn a_deaf_process_needs_sigkill() {
    use nix::sys::signal::Signal;
    let fixture = fixture(json!({"process": {
        "ignore_eof": true, "ignore_sigterm": true, "ignore_sigint": true, "ignore_sighup": true,
    }}));
    let mut client = fixture.spawn();
    client.initialize().await;
    client.stdin = None;
    for sent in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signal(&client, sent);
        let received = What::SignalReceived { signal: sent.as_str().to_owned() };
        fixture.log.wait(|w| (*w == received).then_some(())).await;
    }
    assert_eq!(fixture.mock.shutdown().await, [client.child.id().unwrap()]);
}

async fn deaths_by_count_are_seen_by_the_client() {
    let fixture = fixture(json!({"process": {"deaths": [
        {"after": "start", "code": 2, "stderr": "fatal: no such directory\n", "incarnation": 1},
        {"after": {"received": 3}, "signal": "SIGKILL", "incarnation": 2},
        {"after": {"sent": 1}, "code": 5, "incarnation": 3},
    ]}}));
    let client = fixture.spawn();
    let output = client.child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(2), b"fatal: no such directory\n".to_vec()));
    fixture.mock.all_ended().await;
    let mut client = fixture.spawn();
    client.initialize().await;
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(client.line().await, "", "no answer");
    let status = client.child.wait().await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    fixture.mock.all_ended().await;
    let mut client = fixture.spawn();
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(client.receive().await["id"], 1);
    assert_eq!(client.child.wait().await.unwrap().code(), Some(5));
    let log = Arc::clone(&fixture.log);
    fixture.end().await;
    // What is reported as received is all that the first was sent: nothing.
    let events = log.events.lock().unwrap();
    let lines = |n| events.iter().filter(|(i, _, w)| *i == Some(n) && matches!(w, What::Line(_))).count();
    assert_eq!([lines(1), lines(2), lines(3)], [0, 4, 2]);
}

async fn a_second_instance_is_refused() {
    let fixture = fixture(json!({"process": {"single_instance": true}}));
    let mut first = fixture.spawn();
    first.initialize().await;
    let output = fixture.spawn().child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another instance"));
    first.close().await;
    let mut third = fixture.spawn();
    third.initialize().await;
    assert_eq!(third.close().await.code(), Some(0));
    fixture.end().await;
}

/// The process ids of grandchildren, once there are so many.
async fn grandchildren(log: &Log, count: usize) -> Vec<u32> {
    loop {
        let pids: Vec<u32> = log
            .whats()
            .into_iter()
            .filter_map(|w| match w {
                What::GrandchildStarted { pid } => Some(pid),
                _ => None,
            })
            .collect();
        if pids.len() >= count {
            return pids;
        }
        log.changed.notified().await;
    }
}

async fn a_launcher_shares_its_pipes_and_dies_alone() {
    let fixture = fixture(json!({"process": {"launcher": {}, "ignore_eof": true}}));
    let mut client = fixture.spawn();
    client.initialize().await;
    let launcher = client.child.id().unwrap();
    let process = fixture
        .log
        .wait(|w| match w {
            What::ProcessStarted(process) => Some(process.clone()),
            _ => None,
        })
        .await;
    assert_eq!((process.pid, process.argv), (launcher, fixture.mock.command()));
    let server = grandchildren(&fixture.log, 1).await[0];
    assert_eq!(fixture.mock.incarnations(), 1);
    // What the mock is asked for is the server's to do, not the launcher's.
    let control = serde_json::from_value(json!({"actions": [{"stdout": "by control"}]})).unwrap();
    let done = fixture.mock.control(None, control).await;
    assert_eq!(done, sparring_mock_servers::stdio::Controlled::Done { incarnation: 1 });
    assert_eq!(client.line().await, "by control\n");
    signal(&client, nix::sys::signal::Signal::SIGTERM);
    let status = client.child.wait().await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    // The server has not noticed.
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(client.receive().await["id"], 1);
    assert_eq!(fixture.mock.pids(), [server]);
    assert_eq!(fixture.mock.shutdown().await, [server]);
}

async fn a_relay_forwards_the_end_of_stdin_but_no_signal() {
    let fixture = fixture(json!({"process": {
        "launcher": {"pipes": "relayed", "signals": "ignore", "place": "session"}, "at_eof": {"code": 6},
    }}));
    let mut client = fixture.spawn();
    client.initialize().await;
    let server = grandchildren(&fixture.log, 1).await[0];
    let pid = |pid: u32| nix::unistd::Pid::from_raw(pid.try_into().unwrap());
    let server_session = nix::unistd::getsid(Some(pid(server))).unwrap();
    assert_eq!(server_session, pid(server), "it leads a session");
    signal(&client, nix::sys::signal::Signal::SIGTERM);
    fixture.log.wait(|w| matches!(w, What::SignalReceived { .. }).then_some(())).await;
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(client.receive().await["id"], 1);
    assert_eq!(client.close().await.code(), Some(6), "the server's own code");
    let log = Arc::clone(&fixture.log);
    assert_eq!(fixture.end().await, [0_u32; 0]);
    assert!(log.whats().contains(&What::StdinClosed));
}

async fn a_launcher_can_forward_signals() {
    let fixture = fixture(json!({"process": {"launcher": {"signals": "forward", "place": "group"}}}));
    let mut client = fixture.spawn();
    client.initialize().await;
    signal(&client, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(client.child.wait().await.unwrap().code(), Some(143));
    let log = Arc::clone(&fixture.log);
    fixture.end().await;
    let received = log.whats().into_iter().filter(|w| matches!(w, What::SignalReceived { .. }));
    assert_eq!(received.count(), 2, "by both");
}

async fn the_examples_of_launchers_do_what_they_say() {
    let example = |name: &str| {
        let path = format!(
            "{}/../scenarios/scripts/examples/stdio-launcher-{name}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let script: ServerScript = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        fixture(serde_json::to_value(script).unwrap())
    };
    let group = |pid: u32| {
        let pid = nix::unistd::Pid::from_raw(pid.try_into().unwrap());
        (nix::unistd::getpgid(Some(pid)).unwrap(), pid)
    };
    let runner = example("runner");
    let mut client = runner.spawn();
    client.initialize().await;
    let server = grandchildren(&runner.log, 1).await[0];
    assert_eq!(group(server).0, group(client.child.id().unwrap()).0);
    signal(&client, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(client.child.wait().await.unwrap().code(), Some(0));
    assert_eq!(runner.end().await, [0_u32; 0]);
    let script = example("script");
    let mut client = script.spawn();
    client.initialize().await;
    let server = grandchildren(&script.log, 1).await[0];
    let (of, own) = group(server);
    assert_eq!(of, own, "it leads a group");
    signal(&client, nix::sys::signal::Signal::SIGTERM);
    let status = client.child.wait().await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(client.receive().await["id"], 1);
    assert_eq!(script.mock.shutdown().await, [server]);
}

async fn descendants_stand_where_the_script_says() {
    let fixture = fixture(json!({"process": {"descendants": [
        {"depth": 2}, {"place": "group"}, {"place": "session"}, {"place": "daemon"}, {"polite": true},
    ]}}));
    let mut client = fixture.spawn();
    client.initialize().await;
    let pids = grandchildren(&fixture.log, 6).await;
    fixture.mock.wait_for_pids(|pids| pids.len() >= 7).await;
    let server = client.child.id().unwrap();
    let id = |pid: u32| nix::unistd::Pid::from_raw(pid.try_into().unwrap());
    let group = |pid| nix::unistd::getpgid(Some(id(pid))).unwrap();
    let session = |pid| nix::unistd::getsid(Some(id(pid))).unwrap();
    let of = |group_own: bool, session_own: bool| {
        pids.iter()
            .filter(|pid| (group(**pid) != group(server)) == group_own)
            .filter(|pid| (session(**pid) != session(server)) == session_own)
            .count()
    };
    assert_eq!([of(false, false), of(true, false), of(true, true)], [3, 1, 2]);
    let daemon = pids.iter().find(|pid| session(**pid) != id(**pid) && session(**pid) != session(server));
    assert!(daemon.is_some(), "a daemon does not lead its session");
    // All but the polite one stay when they are asked to go.
    client.close().await;
    for pid in &pids {
        nix::sys::signal::kill(id(*pid), nix::sys::signal::Signal::SIGTERM).unwrap();
    }
    fixture.mock.wait_for_pids(|pids| pids.len() <= 5).await;
    assert_eq!(fixture.mock.shutdown().await.len(), 5);
}

async fn a_descendant_can_hold_the_clients_pipe() {
    let fixture = fixture(json!({"process": {"descendants": [{"keeps": ["stdout"]}]}}));
    let mut client = fixture.spawn();
    client.initialize().await;
    let holder = grandchildren(&fixture.log, 1).await[0];
    assert_eq!(client.close().await.code(), Some(0));
    let mut end = String::new();
    tokio::select! {
        biased;
        _ = client.stdout.read_line(&mut end) => unreachable!("the pipe is open"),
        () = tokio::task::yield_now() => {}
    }
    fixture.mock.wait_for_pids(|pids| pids == [holder]).await;
    assert_eq!(fixture.mock.shutdown().await, [holder]);
    assert_eq!(client.line().await, "", "now it is closed");
}

async fn reading_can_stop_at_a_byte_and_go_on() {
    // The ping's answer says that the second message has not been looked at.
    let fixture = fixture(json!({"rules": [
        {"on": "ping", "nth": 1, "do": [{"stop_reading_after": 10}, "default", {"delay_ms": 5}, {"stdout": "again"}, "resume_reading"]},
    ]}));
    let mut client = fixture.spawn();
    client.initialize().await;
    let pings =
        [1, 2].map(|id| format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))).concat();
    client.stdin.as_mut().unwrap().write_all(pings.as_bytes()).await.unwrap();
    assert_eq!(client.receive().await["id"], 1);
    assert_eq!(client.line().await, "again\n");
    assert_eq!(client.receive().await["id"], 2);
    assert_eq!(client.close().await.code(), Some(0));
    fixture.end().await;
}

async fn stdin_and_stderr_can_be_closed() {
    let fixture = fixture(json!({"rules": [
        {"on": "ping", "do": [{"delay_ms": 1}, {"stderr": "last words"}, "close_stderr", "close_stdin", {"stdout": "closed"}]},
    ]}));
    let mut client = fixture.spawn();
    client.initialize().await;
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(client.line().await, "closed\n");
    assert_eq!(client.receive().await["id"], 1);
    let mut words = String::new();
    client.child.stderr.take().unwrap().read_to_string(&mut words).await.unwrap();
    assert_eq!(words, "last words");
    // The reader lets go of the pipe as soon as it has been woken; a process that another test is just forking may hold
    // it for a moment longer.
    let mut stdin = client.stdin.take().unwrap();
    while stdin.write_all(b"\n").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(stdin);
    assert_eq!(fixture.mock.shutdown().await, [client.child.id().unwrap()], "it runs on");
}

async fn a_cut_message_comes_in_two_parts() {
    let fixture = fixture(json!({"tools": ["echo"], "rules": [
        {"on": "tools/call", "do": [{"cut_at": 9}]},
        {"on": "ping", "do": ["default", "write_rest"]},
    ]}));
    let mut client = fixture.spawn();
    client.initialize().await;
    client.echo(1, "x").await;
    let mut part = [0; 9];
    client.stdout.read_exact(&mut part).await.unwrap();
    assert_eq!(&part, b"{\"jsonrpc");
    client.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    assert!(client.line().await.ends_with("}\n"));
    assert_eq!(client.receive().await["id"], 2);
    client.close().await;
    fixture.mock.all_ended().await;
    let flags: Vec<(bool, bool)> =
        fixture.log.sent().iter().map(|l| (l.unterminated, l.scripted_fault)).collect();
    assert_eq!(flags, [(false, false), (true, true), (false, false), (false, false)]);
    fixture.end().await;
}

async fn raw_bytes_and_texts_arrive_as_they_are() {
    let fixture = fixture(json!({"rules": [
        {"on": "ping", "do": [{"stdout_bytes": {"hex": "00ff0d0a"}}, {"stderr": "\u{1b}[1mbold"}, {"exit": 0}]},
    ]}));
    let mut client = fixture.spawn();
    client.initialize().await;
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    let mut rest = Vec::new();
    client.stdout.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, [0, 0xff, b'\r', b'\n']);
    let output = client.child.wait_with_output().await.unwrap();
    assert_eq!(output.stderr, b"\x1b[1mbold");
    fixture.mock.all_ended().await;
    let sent = fixture.log.sent().pop().unwrap();
    assert!(sent.invalid_utf8 && sent.carriage_return && sent.scripted_fault, "{sent:?}");
    fixture.end().await;
}

async fn the_inherited_mask_and_signals_are_described() {
    let fixture = fixture(json!({}));
    let command = fixture.mock.command();
    let mut child = Command::new("/bin/sh")
        .args(["-c", "umask 027; trap '' HUP; exec \"$@\"", "sh"])
        .args(&command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let process = fixture
        .log
        .wait(|w| match w {
            What::ProcessStarted(process) => Some(process.clone()),
            _ => None,
        })
        .await;
    assert_eq!(process.umask, Some(0o027));
    if cfg!(target_os = "linux") {
        assert_eq!(process.ignored_signals, ["SIGHUP"]);
    }
    assert_eq!(process.blocked_signals, [""; 0]);
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    fixture.end().await;
}
