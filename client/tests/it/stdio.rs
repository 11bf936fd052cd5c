use crate::support::{args, settings};
use sparring_client::stdio::{Exit, Signal, SpawnSpec, SystemLauncher};
use sparring_client::{
    Callbacks, Client, Connection, EnvPolicy, Error, Event, HttpTarget, MessageFilter, Settings, StdioTarget,
    Target,
};
use sparring_client::{Launcher, ServerProcess};
use sparring_wire::transcript::FailureKind;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server in `sh`: `$1` is run for each `tools/call`, with the request's id in `$id`.
const SERVER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
eval "${BEFORE:-}"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\),.*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) eval "$CALL" ;;
    *'"method":"ping"'*) answer '{}' ;;
  esac
done
eval "${AFTER:-}"
"#;

fn target(env: &[(&str, &str)]) -> Target {
    let mut target = StdioTarget::new("sh", ["-c", SERVER]);
    target.env = env.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    Target::Stdio(target)
}

fn quick() -> Settings {
    let mut settings = settings();
    settings.stdio.close_wait = Duration::from_millis(300);
    settings.stdio.terminate_wait = Duration::from_millis(300);
    settings
}

async fn connect(env: &[(&str, &str)]) -> Connection {
    Client::new(quick()).connect("sh", &target(env)).await.unwrap()
}

fn is_alive(pid: &str) -> bool {
    // A zombie is dead enough, but nothing here may leave one.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.trim().parse().unwrap()), None).is_ok()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[tokio::test]
async fn a_whole_conversation_works_in_spite_of_noise() {
    let connection = connect(&[
        ("BEFORE", "echo Ready on stdio; echo; echo '{\"looks\":\"like json\"}'"),
        ("CALL", "echo '[debug] working'; printf 'x%.0s' $(seq 100000) >&2; text done"),
    ])
    .await;
    assert_eq!(connection.tools().await.unwrap()[0].key, "echo");
    assert_eq!(connection.call("echo", args("x")).await.unwrap().text(), "done");
    connection.ping().await.unwrap();
    let refused = connection.resources().await.unwrap_err();
    assert_eq!(refused.kind(), FailureKind::Refused);
    connection.close().await;
    assert_eq!(connection.ping().await.unwrap_err().kind(), FailureKind::Closed);
}

#[tokio::test]
async fn closing_stdin_is_enough_for_a_good_server() {
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks");
    let mark = format!("trap 'echo term >>{0}' TERM; echo $$ >{0}.pid", marks.display());
    let after = format!("sleep 0.05; echo eof >>{}", marks.display());
    let connection = connect(&[("BEFORE", &mark), ("AFTER", &after)]).await;
    let pid = read(&folder.path().join("marks.pid"));
    connection.close().await;
    assert_eq!(read(&marks), "eof\n");
    assert!(!is_alive(&pid));
}

#[tokio::test]
async fn a_stubborn_server_gets_eof_then_sigterm_then_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks");
    let mark = format!("trap 'echo term >>{0}' TERM; echo $$ >{0}.pid", marks.display());
    let after = format!("echo eof >>{}; while :; do sleep 0.01; done", marks.display());
    let connection = connect(&[("BEFORE", &mark), ("AFTER", &after)]).await;
    let pid = read(&folder.path().join("marks.pid"));
    connection.close().await;
    assert_eq!(read(&marks), "eof\nterm\n");
    assert!(!is_alive(&pid));
}

#[tokio::test]
async fn the_whole_process_group_ends_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let before = format!("sleep 600 & echo $! >{}", file.display());
    let connection = connect(&[("BEFORE", &before)]).await;
    let pid = read(&file);
    assert!(is_alive(&pid));
    connection.close().await;
    // The child was re-parented; who reaps it now may take a moment.
    let status = format!("/proc/{}/stat", pid.trim());
    let gone = !is_alive(&pid) || std::fs::read_to_string(status).is_ok_and(|s| s.contains(") Z"));
    assert!(gone);
}

#[tokio::test]
async fn dropping_all_handles_closes_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks");
    let after = format!("echo eof >>{}", marks.display());
    let connection = connect(&[("AFTER", &after)]).await;
    let mut events = connection.events();
    drop(connection);
    while events.next().await.is_some() {}
    // The engine closes the process after the last event; the end of its channel is what can be seen from here.
    for _ in 0..400 {
        if read(&marks) == "eof\n" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the server was not closed");
}

#[tokio::test]
async fn a_crash_fails_the_call_at_once_and_says_why() {
    let connection = connect(&[("CALL", "echo 'fatal: no disk' >&2; exit 3")]).await;
    let mut events = connection.events();
    let error = connection.call("echo", args("x")).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Closed);
    assert!(error.to_string().contains("code 3") && error.to_string().contains("fatal: no disk"), "{error}");
    assert_eq!(connection.call("echo", args("x")).await.unwrap_err().kind(), FailureKind::Closed);
    assert!(connection.closed().is_some());
    while !matches!(events.next().await, Some(Event::Closed { .. })) {}
}

#[tokio::test]
async fn a_server_that_dies_before_it_answers_is_a_prompt_error() {
    let client = Client::new(quick());
    let target = Target::Stdio(StdioTarget::new("sh", ["-c", "echo 'fatal: no such directory' >&2; exit 2"]));
    let error = client.connect("sh", &target).await.unwrap_err();
    assert!(
        error.to_string().contains("code 2") && error.to_string().contains("no such directory"),
        "{error}"
    );
    let missing = Target::Stdio(StdioTarget::new("/no/such/command", ["x"]));
    let error = client.connect("sh", &missing).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Start);
    assert!(error.to_string().contains("/no/such/command"), "{error}");
}

#[tokio::test]
async fn a_closed_stdout_closes_the_connection() {
    let connection = connect(&[("CALL", "exec >&-; cat >/dev/null")]).await;
    let error = connection.call("echo", args("x")).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Closed);
    connection.close().await;
}

#[tokio::test]
async fn split_and_merged_writes_are_put_together() {
    // One answer byte by byte, in the middle of a character; then two in one write.
    let split = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"\303' "$id"; sleep 0.01; printf '\251"}]}}\n{"jsonrpc":"2.0","method":"notifications/x"}\n{"jsonrpc"'; sleep 0.01; printf ':"2.0","method":"notifications/y"}\n'"#;
    let connection = connect(&[("CALL", split)]).await;
    let mut events = connection.events();
    assert_eq!(connection.call("echo", args("x")).await.unwrap().text(), "é");
    for method in ["notifications/x", "notifications/y"] {
        let params = serde_json::Value::Null;
        assert_eq!(events.next().await, Some(Event::Notification { method: method.into(), params }));
    }
    connection.close().await;
}

#[tokio::test]
async fn a_line_over_the_limit_fails_its_request_only() {
    let mut settings = quick();
    settings.stdio.max_line = 1000;
    let long = "if [ -e \"$FLAG\" ]; then text short; else touch \"$FLAG\"; text \"$(printf 'x%.0s' $(seq 5000))\"; fi";
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("flag");
    let target = target(&[("CALL", long), ("FLAG", flag.to_str().unwrap())]);
    let connection = Client::new(settings).connect("sh", &target).await.unwrap();
    let error = connection.call("echo", args("x")).await.unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
    assert_eq!(connection.call("echo", args("x")).await.unwrap().text(), "short");
    connection.close().await;
}

#[tokio::test]
async fn the_environment_follows_the_policy() {
    // Any variable of ours that only the widest policy lets through, and that `sh` does not set by itself.
    let other = std::env::vars()
        .map(|(name, _)| name)
        .find(|n| {
            !EnvPolicy::Minimal.passes(n)
                && !["PWD", "OLDPWD", "SHLVL"].contains(&n.as_str())
                && n.bytes().all(|b| b.is_ascii_uppercase())
        })
        .unwrap_or_else(|| "NONE".into());
    let leak = std::env::var_os(&other).map_or("", |_| "leak");
    let call = format!(r#"text "${{HOME+home}} ${{{other}+leak}} [$K] $(echo "$0")""#);
    for (policy, seen) in [(EnvPolicy::Minimal, ""), (EnvPolicy::All, leak)] {
        let expected = format!("home {seen} [v w] sh");
        let mut settings = quick();
        settings.stdio.env = policy;
        let connection =
            Client::new(settings).connect("sh", &target(&[("CALL", &call), ("K", "v w")])).await.unwrap();
        assert_eq!(connection.call("echo", args("x")).await.unwrap().text(), expected);
        connection.close().await;
    }
}

#[tokio::test]
async fn filters_see_and_change_every_message() {
    struct Spy(Mutex<Vec<String>>);
    impl MessageFilter for Spy {
        fn outgoing(&self, server: &str, message: serde_json::Value) -> Vec<serde_json::Value> {
            assert_eq!(server, "sh");
            self.0.lock().unwrap().push(message["method"].as_str().unwrap_or_default().to_owned());
            vec![message]
        }

        fn incoming(&self, _: &str, text: String) -> Vec<String> {
            vec![text.replace("done", "changed")]
        }
    }
    let spy = Arc::new(Spy(Mutex::default()));
    let client = Client::builder(quick()).filter(spy.clone()).build();
    let connection = client.connect("sh", &target(&[("CALL", "text done")])).await.unwrap();
    assert_eq!(connection.call("echo", args("x")).await.unwrap().text(), "changed");
    connection.close().await;
    assert_eq!(*spy.0.lock().unwrap(), ["initialize", "notifications/initialized", "tools/call"]);
}

#[tokio::test]
async fn sampling_is_answered_by_the_program() {
    struct Model;
    #[async_trait::async_trait]
    impl Callbacks for Model {
        async fn sample(
            &self,
            server: &str,
            request: sparring_client::Sampling,
        ) -> Result<serde_json::Value, sparring_client::RpcError> {
            let asked = request.params["messages"][0]["content"]["text"].as_str().unwrap_or_default();
            let text = format!("{server} asked {asked}");
            Ok(
                serde_json::json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": "m"}),
            )
        }
    }
    let call = r#"printf '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"why"}}]}}\n'; read -r reply; case "$reply" in *'"id":"q"'*'sh asked why'*) text good;; *) text bad;; esac"#;
    let mut settings = quick();
    settings.declare = sparring_client::Declared::all();
    let client = Client::builder(settings).callbacks(Arc::new(Model)).build();
    let connection = client.connect("sh", &target(&[("CALL", call)])).await.unwrap();
    assert_eq!(connection.call("echo", args("x")).await.unwrap().text(), "good");
    connection.close().await;
}

#[tokio::test]
async fn a_silent_server_is_a_timeout_and_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let mut settings = quick();
    settings.timeouts.start = Duration::from_millis(100);
    let script = format!("echo $$ >{}; cat >/dev/null", file.display());
    let target = Target::Stdio(StdioTarget::new("sh", ["-c".to_owned(), script]));
    let error = Client::new(settings).connect("sh", &target).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let unused = Target::Http(HttpTarget::default());
    assert!(Client::new(quick()).connect("x", &unused).await.is_err());
}

#[tokio::test]
async fn a_server_that_does_not_read_is_ended_all_the_same() {
    let connection = connect(&[("CALL", "while :; do sleep 0.01; done")]).await;
    let big = "x".repeat(1 << 20);
    let calls: Vec<_> = (0..3)
        .map(|_| connection.start_call("echo", args(&big), sparring_client::RequestOptions::default(), None))
        .collect();
    connection.close().await;
    for call in calls {
        assert_eq!(call.wait().await.unwrap_err().kind(), FailureKind::Closed);
    }
}

#[tokio::test]
async fn processes_can_be_wrapped() {
    /// Never closes stdin, and remembers the signals.
    struct Rude(Arc<Mutex<Vec<Signal>>>);
    struct RudeProcess(Box<dyn ServerProcess>, Arc<Mutex<Vec<Signal>>>);
    impl Launcher for Rude {
        fn spawn(&self, spec: &SpawnSpec) -> std::io::Result<Box<dyn ServerProcess>> {
            let mut spec = spec.clone();
            spec.env.push(("CALL".into(), "text wrapped".into()));
            Ok(Box::new(RudeProcess(SystemLauncher.spawn(&spec)?, Arc::clone(&self.0))))
        }
    }
    #[async_trait::async_trait]
    impl ServerProcess for RudeProcess {
        fn id(&self) -> Option<u32> {
            self.0.id()
        }
        async fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
            self.0.write(bytes).await
        }
        async fn read(&self) -> std::io::Result<Vec<u8>> {
            self.0.read().await
        }
        async fn read_stderr(&self) -> std::io::Result<Vec<u8>> {
            self.0.read_stderr().await
        }
        async fn close_stdin(&self) {}
        fn signal(&self, signal: Signal) -> std::io::Result<()> {
            self.1.lock().unwrap().push(signal);
            self.0.signal(signal)
        }
        fn group_alive(&self) -> bool {
            self.0.group_alive()
        }
        async fn wait(&self) -> std::io::Result<Exit> {
            self.0.wait().await
        }
    }
    let signals = Arc::new(Mutex::new(Vec::new()));
    let mut settings = quick();
    settings.stdio.close_wait = Duration::from_millis(50);
    let client = Client::builder(settings).launcher(Arc::new(Rude(Arc::clone(&signals)))).build();
    let connection = client.connect("sh", &target(&[])).await.unwrap();
    assert_eq!(connection.call("echo", args("x")).await.unwrap().text(), "wrapped");
    connection.close().await;
    assert_eq!(*signals.lock().unwrap(), [Signal::Terminate]);
}

#[tokio::test]
async fn what_a_server_still_says_at_its_end_does_not_block_it() {
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks");
    let after = format!("printf 'x%.0s' $(seq 200000); echo; echo eof >>{}", marks.display());
    let mut settings = quick();
    settings.stdio.close_wait = Duration::from_secs(20);
    let connection = Client::new(settings).connect("sh", &target(&[("AFTER", &after)])).await.unwrap();
    connection.close().await;
    assert_eq!(read(&marks), "eof\n");
}
