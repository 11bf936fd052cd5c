//! Running cases against clients that misbehave as processes do. This binary plays all roles: the tests, the
//! supervisors and mocks that the library makes of it, adapters with one fault each, and a harness that is killed.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of it is a test, and part of it a program under test"
)]

use serde_json::{Value, json};
use sparring::driver::{CaseContext, Driver, DriverError, DriverEvents, Hello, Subject};
use sparring::drivers::{Adapter, Builtin, ClientSetup, Official, ProcessSettings};
use sparring::plan::Case;
use sparring::run::case::{self, CLOSING_STEP, LOST_EVENT, WHOLE_STEP};
use sparring::run::{self, CaseRun, Ending, Settings, Stop, schedule};
use sparring_scenarios::scenario::Scenario;
use sparring_wire::transcript::{Event, FailureKind, Outcome, What};
use sparring_wire::{Revision, Transport};
use std::io::{BufRead, Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The private argument that makes this binary an adapter; the fault follows.
const ADAPTER: &str = "test-adapter";
/// The same for a harness that is to be killed.
const HARNESS: &str = "test-harness";

fn main() -> ExitCode {
    if let Some(code) = run::hand_over() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [ADAPTER, fault] => return adapter(fault),
        [HARNESS, folder] => return killed_harness(folder),
        _ => {}
    }
    let mut tests = Vec::new();
    for (name, test) in TESTS {
        tests.push(libtest_mimic::Trial::test(*name, move || {
            test();
            Ok(())
        }));
    }
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), tests).exit_code()
}

const TESTS: &[(&str, fn())] = &[
    ("a_client_that_behaves_is_driven_to_its_end", a_client_that_behaves_is_driven_to_its_end),
    ("hello_is_asked_and_checked", hello_is_asked_and_checked),
    ("an_adapter_that_accepts_anything_is_not_trusted", an_adapter_that_accepts_anything_is_not_trusted),
    ("a_command_that_does_not_exist_is_named", a_command_that_does_not_exist_is_named),
    ("a_hang_ends_at_the_deadline", a_hang_ends_at_the_deadline),
    ("a_client_that_ignores_everything_is_killed", a_client_that_ignores_everything_is_killed),
    ("a_crash_is_reported_with_its_signal_and_stderr", a_crash_is_reported_with_its_signal_and_stderr),
    ("garbage_on_stdout_is_kept_and_ignored", garbage_on_stdout_is_kept_and_ignored),
    ("a_wrong_answer_is_a_breach_of_the_protocol", a_wrong_answer_is_a_breach_of_the_protocol),
    ("a_second_answer_and_a_shapeless_result_are_too", a_second_answer_and_a_shapeless_result_are_too),
    ("a_daemon_does_not_escape", a_daemon_does_not_escape),
    ("a_floods_stderr_is_cut", a_floods_stderr_is_cut),
    ("an_adapter_may_have_a_bench", an_adapter_may_have_a_bench),
    ("operations_overlap_and_are_cancelled_and_given_up", operations_overlap_and_are_cancelled_and_given_up),
    ("a_step_that_ends_otherwise_ends_the_drive", a_step_that_ends_otherwise_ends_the_drive),
    ("waiting_ends_when_the_event_comes_or_is_given_up", waiting_ends_when_the_event_comes_or_is_given_up),
    ("the_browser_is_played_for_a_client_with_a_browser_command", the_browser_is_played),
    ("the_clients_environment_is_its_own", the_clients_environment_is_its_own),
    ("an_official_client_runs_to_its_end", an_official_client_runs_to_its_end),
    ("an_official_client_that_fails_says_why", an_official_client_that_fails_says_why),
    ("many_cases_run_and_an_interrupt_ends_them", many_cases_run_and_an_interrupt_ends_them),
    ("transcripts_are_written_or_the_run_says_why_not", transcripts_are_written_or_the_run_says_why_not),
    ("a_driver_that_panics_is_an_error_at_the_step", a_driver_that_panics_is_an_error_at_the_step),
    ("the_reference_client_works_over_stdio", the_reference_client_works_over_stdio),
    ("the_reference_client_works_over_http", the_reference_client_works_over_http),
    ("the_reference_client_logs_in", the_reference_client_logs_in),
    ("the_reference_client_restarts_a_server", the_reference_client_restarts_a_server),
    ("the_reference_client_can_be_changed", the_reference_client_can_be_changed),
    ("the_same_seed_makes_the_same_conversation", the_same_seed_makes_the_same_conversation),
    ("a_server_that_is_left_behind_is_ended", a_server_that_is_left_behind_is_ended),
    ("waiting_for_a_message_of_the_protocol", waiting_for_a_message_of_the_protocol),
    ("a_harness_that_is_killed_leaves_no_process", a_harness_that_is_killed_leaves_no_process),
];

// ---- the adapters ----

/// A client with one fault. It speaks the driver protocol and knows no MCP.
fn adapter(fault: &str) -> ExitCode {
    let say = |message: Value| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{message}").and_then(|()| out.flush()).ok();
    };
    if fault == "ignores" {
        ignore_signals();
    }
    if fault == "garbage" {
        println!("Welcome to my adapter!");
    }
    let mut held: Option<(Value, Value)> = None;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let message: Value = serde_json::from_str(&line).expect("the harness speaks JSON");
        let id = message["id"].clone();
        let result = |result: Value| say(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let error = |code: i64, kind: &str| {
            say(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": kind, "data": {"kind": kind}}}),
            );
        };
        match (message["method"].as_str().unwrap_or_default(), fault) {
            ("hello", "hello-typo") => result(hello(&["opne"])),
            ("hello", "hello-garbage") => {
                println!("oops");
                eprintln!("no module");
                return ExitCode::FAILURE;
            }
            ("hello", _) => result(hello(&["open", "tools", "call", "cancel", "ping", "close"])),
            ("open", "daemon") => {
                // Twice forked and in a session of its own: nobody's child.
                let script = "(setsid sleep 1000 </dev/null >/dev/null 2>&1 & )";
                std::process::Command::new("/bin/sh").args(["-c", script]).status().expect("a shell");
                result(json!({"servers": {}}));
            }
            ("open", "crash") => {
                eprintln!("about to crash");
                let me = nix::unistd::getpid();
                nix::sys::signal::kill(me, nix::sys::signal::Signal::SIGKILL).ok();
            }
            ("open", "flood") => {
                let mut err = std::io::stderr().lock();
                for number in 0..5000 {
                    writeln!(err, "line {number}").ok();
                }
                result(json!({"servers": {}}));
            }
            ("open", "wrong-answer") => say(json!({"jsonrpc": "2.0", "id": id, "result": 1, "error": 2})),
            ("open", "fails") => error(1, "auth"),
            ("open", "environment") => {
                let of = |name: &str| std::env::var(name).unwrap_or_default();
                let here = std::env::current_dir().expect("a folder");
                result(json!({"servers": {}, "cwd": here, "HOME": of("HOME"), "TMPDIR": of("TMPDIR"),
                    "PATH": of("PATH"), "MCP_SECRET_PLAN": of("MCP_SECRET_PLAN")}));
            }
            ("open", "browser") => {
                let browser = std::env::var("BROWSER").expect("BROWSER is set");
                let url =
                    std::env::var("HOME").map(|home| format!("ftp://elsewhere{home}")).expect("HOME is set");
                std::process::Command::new(browser).arg(url).status().expect("the stand-in runs");
                result(json!({"servers": {}}));
            }
            ("open", "hang" | "ignores") => {}
            ("open", "event") => {
                say(
                    json!({"jsonrpc": "2.0", "method": "event", "params": {"name": "log", "data": {"text": "x"}}}),
                );
                result(json!({"servers": {}}));
            }
            ("open", "twice") => {
                result(json!({"servers": {}}));
                result(json!({"servers": {}}));
            }
            ("open", "shapeless") => result(json!({})),
            ("open", _) => result(json!({"servers": {}})),
            ("close" | "ping", _) => result(json!({})),
            ("tools", _) => result(json!({"tools": [{"name": "s__echo", "server": "s", "rawName": "echo"}]})),
            // `slow` is answered when something else is; `echo` with what the harness sent.
            ("call", _) if message["params"]["tool"] == "slow" => {
                held = Some((id, message["params"]["step"].clone()));
            }
            ("call", _) => {
                result(message["params"].clone());
                if let Some((id, _)) = held.take() {
                    say(json!({"jsonrpc": "2.0", "id": id, "result": {"late": true}}));
                }
            }
            ("cancel", _) => {
                let (of, step) = held.take().expect("a call runs");
                assert_eq!(step, message["params"]["step"]);
                say(
                    json!({"jsonrpc": "2.0", "id": of, "error": {"code": 1, "message": "cancelled", "data": {"kind": "cancelled"}}}),
                );
                result(json!({}));
            }
            ("bench", "benches") => {
                let calls = message["params"]["calls"].as_u64().expect("a number");
                result(json!({"ns": (0..calls).collect::<Vec<_>>()}));
            }
            ("bench", "benches-wrongly") => result(json!({"ns": [1]})),
            (_, "accepts-anything") => result(json!({})),
            _ => error(-32601, "other"),
        }
    }
    if fault == "ignores" {
        loop {
            std::thread::park();
        }
    }
    ExitCode::SUCCESS
}

fn hello(operations: &[&str]) -> Value {
    json!({"name": "test", "version": "1", "operations": operations, "transports": ["stdio", "http"],
        "revisions": ["2025-11-25"]})
}

fn ignore_signals() {
    let mut set = nix::sys::signal::SigSet::empty();
    set.add(nix::sys::signal::Signal::SIGTERM);
    set.thread_block().expect("a mask");
}

// ---- helpers ----

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().expect("a folder") }
    }

    fn process(&self) -> ProcessSettings {
        ProcessSettings {
            temporary_root: self.root.path().to_owned(),
            eof_grace: Duration::from_millis(100),
            term_grace: Duration::from_millis(100),
            linger_grace: Duration::from_millis(200),
            hello_limit: Duration::from_secs(30),
            ..ProcessSettings::new().expect("settings")
        }
    }

    fn settings(&self) -> Settings {
        Settings { temporary_root: self.root.path().to_owned(), ..Settings::new().expect("settings") }
    }

    fn adapter(&self, fault: &str) -> Adapter {
        let exe = std::env::current_exe().expect("a path").to_string_lossy().into_owned();
        Adapter::new(vec![exe, ADAPTER.to_owned(), fault.to_owned()], self.process())
    }

    fn is_empty(&self) -> bool {
        std::fs::read_dir(self.root.path()).expect("a folder").next().is_none()
    }
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

fn scenario(drive: &str, deadline_ms: u64) -> Arc<Scenario> {
    let text = format!(
        "{{\"scenario\": \"test.case\", \"version\": 1, \"about\": \"A test.\", \"deadline_ms\": {deadline_ms}, \"official\": \"tools_call\", \"servers\": {{}}, \"judge\": [], \"drive\": {drive}}}"
    );
    Arc::new(serde_json::from_str(&text).expect("a scenario"))
}

fn case(drive: &str, deadline_ms: u64) -> Case {
    Case {
        id: "test.case[2025-11-25,stdio]".to_owned(),
        scenario: scenario(drive, deadline_ms),
        revision: Revision::V2025_11_25,
        transport: Transport::Stdio,
        dialect: None,
    }
}

const LONG: u64 = 60_000;

fn client() -> Hello {
    serde_json::from_value(hello(&["open", "tools", "call", "cancel", "ping", "close"])).expect("a hello")
}

fn drive_with(driver: &dyn Driver, place: &Place, drive: &str, deadline_ms: u64) -> CaseRun {
    let run =
        block(case::run(&case(drive, deadline_ms), driver, &client(), &place.settings(), &Stop::default()));
    assert!(place.is_empty(), "the case's folder is gone");
    for event in &run.transcript {
        if let What::ClientStarted { pid, .. } = event.what {
            assert!(!sparring::platform::is_alive(pid), "the client is gone");
        }
    }
    run
}

fn drive(fault: &str, drive: &str, deadline_ms: u64) -> CaseRun {
    let place = Place::new();
    drive_with(&place.adapter(fault), &place, drive, deadline_ms)
}

fn outcome<'a>(run: &'a CaseRun, label: &str) -> &'a Outcome {
    let mut ends = run.transcript.iter().filter_map(|event| match &event.what {
        What::StepEnded { step, outcome, .. } if step == label => Some(outcome),
        _ => None,
    });
    let first = ends.next().unwrap_or_else(|| panic!("{label} ended; {:#?}", run.transcript));
    assert!(ends.next().is_none(), "{label} ended once");
    first
}

fn value<'a>(run: &'a CaseRun, label: &str) -> &'a Value {
    match outcome(run, label) {
        Outcome::Ok { value } => value,
        other => panic!("{label}: {other:?}"),
    }
}

fn has(run: &CaseRun, what: impl Fn(&What) -> bool) -> bool {
    run.transcript.iter().any(|event| what(&event.what))
}

/// Waits until a condition that another process brings about holds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

// ---- the tests ----

fn a_client_that_behaves_is_driven_to_its_end() {
    let run = drive(
        "none",
        r#"[{"open": {}}, {"tools": {}}, {"call": {"tool": "echo", "arguments": "{\"a\": 1}"}}]"#,
        LONG,
    );
    assert_eq!(run.ending, Ending::Finished);
    let call = value(&run, "call");
    assert_eq!(
        *call,
        json!({"step": "call", "tool": "echo", "name": "s__echo", "arguments": {"a": 1}, "progress": false, "server": "s"})
    );
    assert_eq!(*value(&run, CLOSING_STEP), json!({}));
    assert!(has(&run, |what| matches!(
        what,
        What::ClientEnded { code: Some(0), signal: None, expected: true }
    )));
    assert!(!has(&run, |what| matches!(what, What::Escaped { .. } | What::HarnessError { .. })));
    assert!(run.transcript.is_sorted_by_key(|event| event.at_us));
    assert!(run.steps_driven);
}

fn hello_is_asked_and_checked() {
    let place = Place::new();
    let hello = block(place.adapter("none").hello()).expect("a good adapter");
    assert_eq!(hello.name, "test");
    let error = block(place.adapter("hello-typo").hello()).expect_err("an unknown word");
    assert!(matches!(&error, DriverError::Protocol(why) if why.contains("`opne`")), "{error}");
    let error = block(place.adapter("hello-garbage").hello()).expect_err("garbage");
    assert!(
        matches!(&error, DriverError::Protocol(why) if why.contains("oops") && why.contains("no module")),
        "{error}"
    );
    assert!(place.is_empty());
}

fn an_adapter_that_accepts_anything_is_not_trusted() {
    let error = block(Place::new().adapter("accepts-anything").hello()).expect_err("dishonest");
    assert!(matches!(&error, DriverError::Protocol(why) if why.contains("-32601")), "{error}");
}

fn a_command_that_does_not_exist_is_named() {
    let place = Place::new();
    let driver = Adapter::new(vec!["no-such-program-here".to_owned()], place.process());
    let error = block(driver.hello()).expect_err("no such program");
    assert!(
        matches!(&error, DriverError::Start { command, .. } if command == "no-such-program-here"),
        "{error}"
    );
    let run = drive_with(&driver, &place, r#"[{"open": {}}]"#, LONG);
    assert!(has(&run, |what| matches!(what, What::DriverEvent { name, data }
        if name == LOST_EVENT && data["error"] == error.to_string())));
    assert_eq!(run.ending, Ending::DriverLost(error));
}

fn a_hang_ends_at_the_deadline() {
    let run = drive("hang", r#"[{"open": {}}, {"ping": {}}]"#, 50);
    assert_eq!(run.ending, Ending::Deadline);
    assert!(has(&run, |what| matches!(what, What::Deadline { awaited } if awaited.contains("`open`"))));
    assert!(matches!(outcome(&run, "open"), Outcome::Pending { .. }));
    assert!(has(&run, |what| matches!(what, What::ClientEnded { code: Some(0), expected: true, .. })));
}

fn a_client_that_ignores_everything_is_killed() {
    let run = drive("ignores", r#"[{"open": {}}]"#, 50);
    assert_eq!(run.ending, Ending::Deadline);
    assert!(has(
        &run,
        |what| matches!(what, What::ClientEnded { signal: Some(signal), expected: true, .. } if signal == "SIGKILL")
    ));
}

fn a_crash_is_reported_with_its_signal_and_stderr() {
    let run = drive("crash", r#"[{"open": {}}, {"ping": {}}]"#, LONG);
    let Ending::DriverLost(DriverError::Ended { how, stderr }) = &run.ending else {
        panic!("{:?}", run.ending)
    };
    assert_eq!((how.as_str(), stderr.as_str()), ("SIGKILL", "about to crash"));
    assert!(has(&run, |what| matches!(what, What::ClientEnded { signal: Some(_), expected: false, .. })));
    assert!(has(
        &run,
        |what| matches!(what, What::ClientOutput { stream, text } if stream == "stderr" && text == "about to crash")
    ));
    assert!(matches!(outcome(&run, "open"), Outcome::Error { error } if error.kind == FailureKind::Closed));
}

fn garbage_on_stdout_is_kept_and_ignored() {
    let run = drive("garbage", r#"[{"open": {}}]"#, LONG);
    assert_eq!(run.ending, Ending::Finished);
    assert!(has(
        &run,
        |what| matches!(what, What::ClientOutput { stream, text } if stream == "stdout" && text.contains("Welcome"))
    ));
}

fn a_wrong_answer_is_a_breach_of_the_protocol() {
    let run = drive("wrong-answer", r#"[{"open": {}}]"#, LONG);
    assert!(matches!(&run.ending, Ending::DriverLost(DriverError::Protocol(_))), "{:?}", run.ending);
}

fn a_second_answer_and_a_shapeless_result_are_too() {
    for (fault, says) in [("twice", "an answer with the id 2"), ("shapeless", "`servers` is no object")] {
        let run = drive(fault, r#"[{"open": {}}, {"ping": {}}]"#, LONG);
        assert!(
            matches!(&run.ending, Ending::DriverLost(DriverError::Protocol(why)) if why.contains(says)),
            "{fault}: {:?}",
            run.ending
        );
    }
}

fn a_daemon_does_not_escape() {
    let run = drive("daemon", r#"[{"open": {}}]"#, LONG);
    assert_eq!(run.ending, Ending::Finished);
    let escaped: Vec<_> = run
        .transcript
        .iter()
        .filter_map(|event| match &event.what {
            What::Escaped { pid, command } => Some((*pid, command.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(escaped.len(), 1, "{escaped:?}");
    assert_eq!(escaped[0].1, "sleep 1000");
    assert!(!sparring::platform::is_alive(escaped[0].0));
}

fn a_floods_stderr_is_cut() {
    let run = drive("flood", r#"[{"open": {}}]"#, LONG);
    assert_eq!(run.ending, Ending::Finished);
    let lines: Vec<&str> = run
        .transcript
        .iter()
        .filter_map(|event| match &event.what {
            What::ClientOutput { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(lines.len(), 101);
    assert!(lines[100].contains("4900 more lines") && lines[100].ends_with("line 4999"), "{}", lines[100]);
}

fn an_adapter_may_have_a_bench() {
    let bench = |fault: &str| {
        let place = Place::new();
        block(async {
            let subject = place.adapter(fault).start(context(place.root.path())).await.expect("it starts");
            let times = subject.bench(&sparring_scenarios::op::Call::default(), 3).await;
            subject.stop().await;
            times
        })
    };
    assert_eq!(bench("benches"), Ok(Some(vec![0, 1, 2])));
    assert_eq!(bench("none"), Ok(None));
    assert!(matches!(bench("benches-wrongly"), Err(DriverError::Protocol(_))));
}

fn operations_overlap_and_are_cancelled_and_given_up() {
    let run = drive(
        "none",
        r#"[{"open": {}},
            {"call": {"tool": "slow"}, "as": "one", "background": true, "expect": "error"},
            {"cancel": {"step": "one"}},
            {"await": {"step": "one"}},
            {"call": {"tool": "slow"}, "as": "two", "give_up_ms": 20},
            {"ping": {}},
            {"call": {"tool": "slow"}, "as": "three", "background": true},
            {"call": {"tool": "echo"}, "as": "four"},
            {"await": {"step": "three"}, "as": "last"}]"#,
        LONG,
    );
    assert_eq!(run.ending, Ending::Finished, "{:#?}", run.transcript);
    for label in ["one", "await"] {
        assert!(
            matches!(outcome(&run, label), Outcome::Error { error } if error.kind == FailureKind::Cancelled)
        );
    }
    assert!(matches!(outcome(&run, "two"), Outcome::Pending { after_ms } if *after_ms >= 20));
    assert_eq!(*value(&run, "three"), json!({"late": true}));
    assert_eq!(*value(&run, "last"), json!({"late": true}));
}

fn a_step_that_ends_otherwise_ends_the_drive() {
    let run = drive("fails", r#"[{"open": {}}, {"ping": {}}]"#, LONG);
    assert_eq!(run.ending, Ending::Unexpected { step: "open".to_owned() });
    assert!(!has(
        &run,
        |what| matches!(what, What::StepStarted { step, .. } if step == "ping" || step == CLOSING_STEP)
    ));
    let run = drive("fails", r#"[{"open": {}, "expect": "error"}, {"ping": {}}]"#, LONG);
    assert_eq!(run.ending, Ending::Finished);
    assert!(matches!(outcome(&run, "open"), Outcome::Error { error } if error.kind == FailureKind::Auth));
    assert_eq!(*value(&run, "ping"), json!({}));
}

fn waiting_ends_when_the_event_comes_or_is_given_up() {
    let run = drive("event", r#"[{"open": {}}, {"wait_for": {"driver_event": "log"}}]"#, LONG);
    assert_eq!(run.ending, Ending::Finished);
    assert_eq!(*value(&run, "wait"), json!({}));
    let run = drive(
        "none",
        r#"[{"open": {}}, {"wait_for": {"driver_event": "log"}, "give_up_ms": 20}, {"ping": {}}]"#,
        LONG,
    );
    assert_eq!(run.ending, Ending::Finished);
    assert!(matches!(outcome(&run, "wait"), Outcome::Pending { .. }));
    let run = drive("none", r#"[{"open": {}}, {"wait_for": {"driver_event": "log"}}]"#, 20);
    assert_eq!(run.ending, Ending::Deadline);
    assert!(has(&run, |what| matches!(what, What::Deadline { awaited } if awaited.contains("`wait`"))));
}

fn the_browser_is_played() {
    let run = drive("browser", r#"[{"open": {}}, {"wait_for": {"driver_event": "browser"}}]"#, LONG);
    assert_eq!(run.ending, Ending::Finished, "{:#?}", run.transcript);
    assert!(has(&run, |what| matches!(what, What::DriverEvent { name, data }
        if name == "authorization-url" && data["url"].as_str().is_some_and(|url| url.starts_with("ftp://elsewhere/")))));
    assert!(has(&run, |what| matches!(what, What::DriverEvent { name, data }
        if name == "browser" && data["error"].as_str().is_some_and(|error| error.contains("loopback")))));
}

fn the_clients_environment_is_its_own() {
    let run = drive("environment", r#"[{"open": {}}]"#, LONG);
    let seen = value(&run, "open");
    let cwd = seen["cwd"].as_str().expect("a folder");
    assert_eq!(seen["HOME"].as_str(), Some(format!("{cwd}/home").as_str()));
    assert_eq!(seen["TMPDIR"].as_str(), Some(format!("{cwd}/tmp").as_str()));
    assert!(seen["PATH"].as_str().is_some_and(|path| path.starts_with(&format!("{cwd}/bin:"))));
}

/// Says where the only server is, without there being one.
struct WithTarget<D>(D);

#[async_trait::async_trait]
impl<D: Driver> Driver for WithTarget<D> {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }
    fn command(&self) -> Vec<String> {
        self.0.command()
    }
    fn drives_steps(&self) -> bool {
        self.0.drives_steps()
    }
    async fn hello(&self) -> Result<Hello, DriverError> {
        self.0.hello().await
    }
    async fn start(&self, mut case: CaseContext) -> Result<Arc<dyn Subject>, DriverError> {
        let url = "http://127.0.0.1:9/mcp".to_owned();
        case.targets.insert("server".to_owned(), sparring::driver::Target::Http { url });
        self.0.start(case).await
    }
}

fn an_official_client_runs_to_its_end() {
    let place = Place::new();
    let command = r#"printf '%s|' "$MCP_CONFORMANCE_SCENARIO" "$MCP_CONFORMANCE_PROTOCOL_VERSION"; echo"#;
    let driver = WithTarget(Official::new(vec![command.to_owned()], place.process()));
    let hello = block(driver.hello()).expect("a hello");
    assert_eq!((hello.transports.as_slice(), driver.kind()), ([Transport::Http].as_slice(), "official"));
    let run = drive_with(&driver, &place, r#"[{"open": {}}, {"ping": {}}]"#, LONG);
    assert_eq!(run.ending, Ending::Finished);
    assert!(!run.steps_driven);
    assert_eq!(*value(&run, WHOLE_STEP), json!({}));
    let texts: Vec<_> =
        run.transcript.iter().filter(|e| matches!(e.what, What::ClientOutput { .. })).collect();
    assert!(
        matches!(&texts[..], [Event { what: What::ClientOutput { text, .. }, .. }, Event { what: What::ClientOutput { text: url, .. }, .. }]
            if text == "tools_call|2025-11-25|" && url == "http://127.0.0.1:9/mcp")
            || matches!(&texts[..], [Event { what: What::ClientOutput { text, .. }, .. }]
            if text.starts_with("tools_call|2025-11-25|") && text.ends_with("http://127.0.0.1:9/mcp")),
        "{texts:?}"
    );
    let hanging = WithTarget(Official::new(vec!["cat; echo".to_owned()], place.process()));
    let run = drive_with(&hanging, &place, r#"[{"open": {}}]"#, 50);
    assert_eq!(run.ending, Ending::Deadline);
}

fn an_official_client_that_fails_says_why() {
    let place = Place::new();
    let driver = WithTarget(Official::new(vec!["echo no luck >&2; exit 3 #".to_owned()], place.process()));
    let run = drive_with(&driver, &place, r#"[{"open": {}}]"#, LONG);
    assert_eq!(run.ending, Ending::Unexpected { step: WHOLE_STEP.to_owned() });
    assert!(matches!(outcome(&run, WHOLE_STEP), Outcome::Error { error }
        if error.code == Some(3) && error.message == "exit code 3: no luck"));
    let crash = WithTarget(Official::new(vec!["kill -9 $$ #".to_owned()], place.process()));
    let run = drive_with(&crash, &place, r#"[{"open": {}}]"#, LONG);
    assert!(matches!(run.ending, Ending::DriverLost(DriverError::Ended { .. })), "{:?}", run.ending);
}

fn many_cases_run_and_an_interrupt_ends_them() {
    let place = Place::new();
    let cases = |drive: &str, count: usize| -> Vec<Case> { (0..count).map(|_| case(drive, LONG)).collect() };
    let driver: Arc<dyn Driver> = Arc::new(place.adapter("none"));
    let settings = Settings { repeat: 2, jobs: 3, ..place.settings() };
    let finished = block(schedule::run_all(
        cases(r#"[{"open": {}}]"#, 3),
        driver,
        client(),
        settings.clone(),
        &Stop::default(),
        |job, run| (job.round, job.position, run.ending),
    ));
    let order: Vec<_> =
        (1..=2).flat_map(|round| (0..3).map(move |at| (round, at, Ending::Finished))).collect();
    assert_eq!((finished.done, finished.left_out, finished.errors.len()), (order, 0, 0));

    // The second case hangs, and the run is asked to stop when it does.
    let stop = Stop::default();
    let mut mixed = cases(r#"[{"open": {}}]"#, 1);
    mixed.extend(cases(r#"[{"open": {}}, {"wait_for": {"driver_event": "never"}}]"#, 4));
    let asking = stop.clone();
    let finished = block(async move {
        let driver: Arc<dyn Driver> = Arc::new(place.adapter("none"));
        let settings = Settings { repeat: 1, jobs: 2, ..settings };
        let finished = schedule::run_all(mixed, driver, client(), settings, &stop, move |job, _| {
            asking.ask();
            job.position
        })
        .await;
        assert!(place.is_empty());
        finished
    });
    assert_eq!((finished.done, finished.left_out), (vec![0], 4));
}

fn transcripts_are_written_or_the_run_says_why_not() {
    let place = Place::new();
    let to = tempfile::tempdir().expect("a folder");
    let written = |folder: std::path::PathBuf| {
        let settings = Settings { transcripts: Some(folder), ..place.settings() };
        let driver: Arc<dyn Driver> = Arc::new(place.adapter("none"));
        block(schedule::run_all(
            vec![case(r#"[{"open": {}}]"#, LONG)],
            driver,
            client(),
            settings,
            &Stop::default(),
            |_, run| run.transcript,
        ))
    };
    let good = written(to.path().join("new"));
    assert!(good.errors.is_empty());
    let text = std::fs::read_to_string(to.path().join("new/test.case-2025-11-25-stdio.jsonl"))
        .expect("a transcript");
    let mut events: Vec<Event> =
        text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    assert_eq!(events.pop().map(|event| event.what), Some(What::End));
    assert_eq!(events, good.done[0]);

    std::fs::write(to.path().join("file"), "").expect("a file");
    let bad = written(to.path().join("file"));
    assert_eq!((bad.done.len(), bad.errors.len()), (1, 1));
    assert!(bad.errors[0].contains("can't write the transcript"), "{}", bad.errors[0]);
}

/// A driver in process whose client panics.
struct Panics;

#[async_trait::async_trait]
impl Driver for Panics {
    fn kind(&self) -> &'static str {
        "in-process"
    }
    fn command(&self) -> Vec<String> {
        Vec::new()
    }
    async fn hello(&self) -> Result<Hello, DriverError> {
        Ok(client())
    }
    async fn start(&self, _: CaseContext) -> Result<Arc<dyn Subject>, DriverError> {
        Ok(Arc::new(Self))
    }
}

#[async_trait::async_trait]
impl Subject for Panics {
    async fn run(&self, _: &str, _: &sparring_scenarios::op::Op) -> Result<Outcome, DriverError> {
        panic!("a bug in the client")
    }
    async fn stop(&self) -> Vec<(u32, String)> {
        Vec::new()
    }
}

fn a_driver_that_panics_is_an_error_at_the_step() {
    let run = drive_with(&Panics, &Place::new(), r#"[{"open": {}}]"#, LONG);
    assert_eq!(run.ending, Ending::Unexpected { step: "open".to_owned() });
    assert!(
        matches!(outcome(&run, "open"), Outcome::Error { error } if error.message.contains("a bug in the client"))
    );
}

// ---- the reference client and real servers ----

fn builtin(driver: &Builtin, transport: Transport, server: &str, drive: &str) -> CaseRun {
    let place = Place::new();
    let text = format!(
        "{{\"scenario\": \"test.case\", \"version\": 1, \"about\": \"A test.\", \"deadline_ms\": {LONG}, \"server\": {server}, \"judge\": [], \"drive\": {drive}}}"
    );
    let scenario: Scenario = serde_json::from_str(&text).expect("a scenario");
    let case = Case::new(Arc::new(scenario), Revision::V2025_11_25, transport);
    let run = block(async {
        let hello = driver.hello().await.expect("a hello");
        case::run(&case, driver, &hello, &place.settings(), &Stop::default()).await
    });
    assert!(place.is_empty());
    for event in &run.transcript {
        if let What::ProcessStarted(process) = &event.what {
            assert!(!sparring::platform::is_alive(process.pid), "the server is gone");
        }
    }
    assert!(!has(&run, |what| matches!(what, What::HarnessError { .. })), "{:#?}", run.transcript);
    run
}

const USE: &str = r#"[{"open": {}}, {"tools": {}}, {"call": {"tool": "echo", "arguments": "{\"text\": \"hi\"}"}}, {"ping": {}}]"#;

fn check_use(run: &CaseRun) {
    assert_eq!(run.ending, Ending::Finished, "{:#?}", run.transcript);
    assert_eq!(value(run, "open")["servers"]["server"]["ok"], true);
    assert_eq!(value(run, "tools")["tools"][0]["rawName"], "echo");
    assert_eq!(value(run, "call")["content"][0]["text"], "hi");
    let reports = judged(run);
    let bad: Vec<_> = reports.iter().filter(|report| report.verdict.fails_the_run()).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

fn judged(run: &CaseRun) -> Vec<sparring_reports::model::JudgeReport> {
    sparring::judge::judge_transcript_only(Some(Revision::V2025_11_25), &run.transcript)
}

fn the_reference_client_works_over_stdio() {
    let run = builtin(&Builtin::new(), Transport::Stdio, r#"{"tools": ["echo"]}"#, USE);
    check_use(&run);
    let home = run.transcript.iter().find_map(|event| match &event.what {
        What::ProcessStarted(process) => Some((process.cwd.clone(), process.env.get("HOME").cloned())),
        _ => None,
    });
    let (cwd, home) = home.expect("the server was started");
    assert_eq!(home, Some(format!("{cwd}/home")));
    assert!(has(&run, |what| matches!(what, What::StdinClosed)));
    assert!(!has(&run, |what| matches!(what, What::Escaped { .. })));
}

fn the_reference_client_works_over_http() {
    let run =
        builtin(&Builtin::new(), Transport::Http, r#"{"tools": ["echo"], "http": {"sessions": true}}"#, USE);
    check_use(&run);
    assert!(has(&run, |what| matches!(what, What::HttpRequest(request) if request.method == "DELETE")));
}

fn the_reference_client_logs_in() {
    let run = builtin(&Builtin::new(), Transport::Http, r#"{"tools": ["echo"], "auth": {}}"#, USE);
    check_use(&run);
    assert!(has(&run, |what| matches!(what, What::DriverEvent { name, .. } if name == "authorization-url")));
    assert!(has(
        &run,
        |what| matches!(what, What::DriverEvent { name, data } if name == "browser" && data["delivered"] == true)
    ));
}

fn the_reference_client_restarts_a_server() {
    let server =
        r#"{"tools": ["echo"], "rules": [{"on": "tools/call", "incarnation": 1, "do": [{"exit": 3}]}]}"#;
    let drive = r#"[{"open": {"backoff_ms": [1, 1]}},
        {"call": {"tool": "echo", "arguments": "{\"text\": \"a\"}"}, "as": "met", "expect": "error"},
        {"call": {"tool": "echo", "arguments": "{\"text\": \"b\"}"}, "as": "after"}]"#;
    let run = builtin(&Builtin::new(), Transport::Stdio, server, drive);
    assert_eq!(run.ending, Ending::Finished, "{:#?}", run.transcript);
    assert!(matches!(outcome(&run, "met"), Outcome::Error { error } if error.kind == FailureKind::Closed));
    assert_eq!(value(&run, "after")["content"][0]["text"], "b");
    assert_eq!(
        run.transcript.iter().filter(|event| matches!(event.what, What::ProcessStarted(_))).count(),
        2
    );
}

fn the_reference_client_can_be_changed() {
    let changed = Builtin::new().with(Arc::new(|setup: &mut ClientSetup| {
        setup.client(|settings| settings.name = "another".to_owned());
    }));
    let run = builtin(&changed, Transport::Stdio, r#"{"tools": ["echo"]}"#, USE);
    assert!(has(&run, |what| matches!(what, What::Line(line) if line.text.contains("\"another\""))));
}

/// What is left of an observation when times, ports, processes, paths and what hangs on them are taken away.
fn timeless(what: &What) -> String {
    fn strip(value: &mut Value) {
        const OTHERWISE: [&str; 9] =
            ["pid", "parent", "process_group", "session", "argv", "env", "cwd", "took_us", "connection"];
        match value {
            Value::Object(members) => {
                members.retain(|key, _| !OTHERWISE.contains(&key.as_str()));
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::String(text) => {
                let mut parts = text.split("127.0.0.1:");
                let mut out = parts.next().unwrap_or_default().to_owned();
                for part in parts {
                    out.push_str("127.0.0.1:");
                    out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
                }
                *text = out;
            }
            _ => {}
        }
    }
    let mut value = serde_json::to_value(what).expect("an observation is JSON");
    strip(&mut value);
    value.to_string()
}

/// A transcript as rows of what one party saw in one place: each step, each process of a server, each HTTP exchange.
/// Between the rows the order is a matter of time. Exchanges are told apart by their requests, since their numbers are
/// given out as they come.
fn rows(run: &CaseRun) -> Vec<Vec<String>> {
    let mut rows: std::collections::BTreeMap<String, Vec<String>> = std::collections::BTreeMap::new();
    for event in &run.transcript {
        let mut value = serde_json::to_value(&event.what).expect("an observation is JSON");
        let exchange = value.get("exchange").map(Value::to_string).unwrap_or_default();
        // Over HTTP a rule may fire for any of the exchanges that are open.
        let rule = matches!(event.what, What::RuleFired { .. } | What::ModelChanged { .. });
        if let Some(members) = value.as_object_mut() {
            members.remove("exchange");
        }
        // Steps may overlap, and what a driver reports by itself comes in between.
        let (step, name) = (value.get("step"), value.get("name"));
        let row = format!("{:?} {:?} {exchange} {rule} {step:?} {name:?}", event.server, event.incarnation);
        let text = timeless(&event.what).replace(&format!("\"exchange\":{exchange}"), "");
        rows.entry(row).or_default().push(text);
    }
    // The client opens its GET stream beside the rest, and logs what becomes of it: when, and whether before it closes,
    // is a matter of time as well.
    let aside = |row: &Vec<String>| {
        row.first()
            .is_some_and(|first| first.contains("\"name\":\"log\"") || first.contains("\"method\":\"GET\""))
    };
    let mut rows: Vec<Vec<String>> = rows.into_values().filter(|row| !aside(row)).collect();
    rows.sort();
    rows
}

fn the_same_seed_makes_the_same_conversation() {
    const SCENARIOS: [(&str, Transport); 12] = [
        ("lifecycle.plain", Transport::Stdio),
        ("messages.out-of-order", Transport::Stdio),
        ("messages.odd-errors", Transport::Stdio),
        ("progress.reported", Transport::Stdio),
        ("stdio.split-writes", Transport::Stdio),
        ("tools.pagination-opaque", Transport::Stdio),
        ("restart.crash-during-call", Transport::Stdio),
        ("sampling.answered", Transport::Http),
        ("http.answers-alternate", Transport::Http),
        ("http.sse-in-pieces", Transport::Http),
        ("http.session.lost-is-reopened", Transport::Http),
        ("tools.blob-result", Transport::Http),
    ];
    let all = sparring_scenarios::load::embedded().unwrap_or_else(|_| panic!("the scenarios can be read"));
    for (id, transport) in SCENARIOS {
        let loaded =
            all.iter().find(|l| l.scenario.scenario == id).unwrap_or_else(|| panic!("there is no {id}"));
        let case = Case::new(loaded.scenario.clone(), Revision::V2025_11_25, transport);
        let run = || {
            let (driver, place) = (Builtin::new(), Place::new());
            block(async {
                let hello = driver.hello().await.expect("a hello");
                case::run(&case, &driver, &hello, &place.settings(), &Stop::default()).await
            })
        };
        let first = rows(&run());
        assert!(first.len() > 1 && first.iter().map(Vec::len).sum::<usize>() > 10, "{id}: {first:#?}");
        similar(id, &first, &rows(&run()));
    }
}

fn similar(id: &str, first: &[Vec<String>], second: &[Vec<String>]) {
    for row in first {
        assert!(second.contains(row), "{id}: seen once only: {row:#?}\nthe other run: {second:#?}");
    }
    assert_eq!(first.len(), second.len(), "{id}");
}

fn a_server_that_is_left_behind_is_ended() {
    let run = builtin(
        &Builtin::new().with(Arc::new(|setup: &mut ClientSetup| {
            setup.client(|settings| settings.stdio.terminate_wait = Duration::from_millis(20));
        })),
        Transport::Stdio,
        r#"{"tools": ["echo"], "process": {"grandchild": true}}"#,
        USE,
    );
    assert_eq!(run.ending, Ending::Finished);
    assert!(has(
        &run,
        |what| matches!(what, What::GrandchildStarted { pid } if !sparring::platform::is_alive(*pid))
    ));
}

fn waiting_for_a_message_of_the_protocol() {
    let server =
        r#"{"tools": ["echo"], "rules": [{"on": "tools/call", "do": [{"announce": "tools"}, "default"]}]}"#;
    let drive = r#"[{"open": {}}, {"tools": {}}, {"call": {"tool": "echo", "arguments": "{\"text\": \"a\"}"}},
        {"wait_for": {"request": "tools/list", "nth": 2}}]"#;
    for transport in [Transport::Stdio, Transport::Http] {
        let run = builtin(&Builtin::new(), transport, server, drive);
        assert_eq!(run.ending, Ending::Finished, "{:#?}", run.transcript);
        assert!(has(&run, |what| matches!(what, What::DriverEvent { name, data }
            if name == "notification" && data["method"] == "notifications/tools/list_changed")));
    }
}

// ---- a harness that is killed ----

/// Tells the test which client was started, by a line on stdout.
struct Tells(Mutex<()>);

impl DriverEvents for Tells {
    fn driver_event(&self, _: &str, _: Value) {}
    fn output(&self, _: &str, _: &str) {}
    fn client_started(&self, pid: u32, _: &[String]) {
        let _one = self.0.lock();
        println!("{pid}");
    }
    fn client_ended(&self, _: Option<i32>, _: Option<&str>, _: bool) {}
}

/// A case without a case around it.
fn context(directory: &std::path::Path) -> CaseContext {
    for part in ["home", "tmp", "bin"] {
        std::fs::create_dir_all(directory.join(part)).expect("a folder");
    }
    CaseContext {
        targets: std::collections::BTreeMap::new(),
        revision: Revision::V2025_11_25,
        directory: directory.to_owned(),
        official_scenario: None,
        official_context: None,
        clock_scale: 1,
        config_env: std::collections::BTreeMap::new(),
        events: Arc::new(Tells(Mutex::default())),
    }
}

/// The harness's part: a client that ignores SIGTERM and EOF, and a shell that leaves a daemon behind; then it waits
/// to be killed.
fn killed_harness(folder: &str) -> ExitCode {
    let place = Place { root: tempfile::tempdir_in(folder).expect("a folder") };
    block(async {
        let at = |name: &str| context(&place.root.path().join(name).join("client"));
        let _stubborn = place.adapter("ignores").start(at("case-one")).await.expect("it starts");
        let daemon = place.adapter("daemon").start(at("case-two")).await.expect("it starts");
        daemon.run("open", &sparring_scenarios::op::Op::Open(Default::default())).await.expect("it opens");
        println!("ready");
        std::future::pending::<ExitCode>().await
    })
}

fn a_harness_that_is_killed_leaves_no_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut harness = std::process::Command::new(std::env::current_exe().expect("a path"))
        .arg(HARNESS)
        .arg(folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = std::io::BufReader::new(harness.stdout.take().expect("a pipe")).lines();
    let mut pids: Vec<u32> = Vec::new();
    for line in lines.by_ref() {
        match line.expect("text").as_str() {
            "ready" => break,
            pid => pids.push(pid.parse().expect("a process id")),
        }
    }
    assert_eq!(pids.len(), 2);
    // The daemon too, by its environment: it has the case's HOME.
    let of_the_case = || processes_with(&folder.path().to_string_lossy());
    assert!(of_the_case().len() >= 3, "{:?}", of_the_case());
    assert_eq!(case_folders(folder.path()), 2);
    harness.kill().expect("it is alive");
    harness.wait().expect("it ended");
    eventually("the clients end when their harness is killed", || {
        pids.iter().all(|pid| !sparring::platform::is_alive(*pid))
            && of_the_case().is_empty()
            && case_folders(folder.path()) == 0
    });
    let mut rest = Vec::new();
    lines.map_while(Result::ok).for_each(|line| rest.push(line));
    assert!(rest.is_empty(), "{rest:?}");
}

/// The case folders of the harness that was killed, which sit in a folder of its own.
fn case_folders(folder: &std::path::Path) -> usize {
    let places = std::fs::read_dir(folder).expect("a folder").flatten();
    places.flat_map(|place| std::fs::read_dir(place.path()).into_iter().flatten()).count()
}

/// The processes whose environment names the folder; this test's own harness does so only by its arguments.
#[cfg(target_os = "linux")]
fn processes_with(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    entries
        .filter_map(|entry| {
            let mut environment = Vec::new();
            std::fs::File::open(entry.path().join("environ")).ok()?.read_to_end(&mut environment).ok()?;
            let text = String::from_utf8_lossy(&environment).into_owned();
            text.contains(folder).then(|| entry.file_name().to_string_lossy().into_owned())
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn processes_with(_: &str) -> Vec<String> {
    Vec::new()
}
