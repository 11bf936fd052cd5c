//! Stdio servers for tests: this executable itself, told by its environment to be one.

use serde_json::{Map, Value, json};
use sparring_client::CallOptions;
use sparring_host::{
    Host, HostBuilder, HostError, Inspect, ServerEntry, Session, SessionOptions, Surroundings,
};
use sparring_profiles::Settings;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

/// The name of the test that is the server.
const SERVER: &str = "support::serve";

/// A folder of a test, with a log of what its servers got.
pub(crate) struct Folder {
    path: PathBuf,
    /// Removes it in the end, unless it is another process's.
    _own: Option<tempfile::TempDir>,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { path: dir.path().to_owned(), _own: Some(dir) }
    }

    /// The one that the environment names.
    pub(crate) fn existing() -> Self {
        Self { path: std::env::var_os("SPARRING_TEST_FOLDER").unwrap().into(), _own: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        let path = self.path().canonicalize().unwrap();
        Surroundings {
            cwd: path.clone(),
            project: None,
            home: path.join("home"),
            env: std::env::vars().collect(),
            state: path.join("state"),
        }
    }

    pub(crate) fn host(&self, settings: Settings, entries: Vec<ServerEntry>) -> HostBuilder {
        Host::builder(settings, self.surroundings()).entries(entries)
    }

    /// A server of that name, with flags: see [`serve`].
    pub(crate) fn server(&self, name: &str, flags: &[&str]) -> ServerEntry {
        let own = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let env = [
            ("SPARRING_TEST_SERVER", name.to_owned()),
            ("SPARRING_TEST_FLAGS", flags.join(",")),
            ("SPARRING_TEST_FOLDER", self.path().to_string_lossy().into_owned()),
        ];
        ServerEntry {
            name: name.to_owned(),
            command: Some(own),
            args: ["--exact", SERVER, "--nocapture", "--quiet"].map(str::to_owned).to_vec(),
            env: env.map(|(name, value)| (name.to_owned(), value)).into(),
            ..ServerEntry::default()
        }
    }

    fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How many lines of the log are that: `NAME METHOD` for requests, `NAME start`, `NAME end`.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.log().iter().filter(|other| *other == line).count()
    }

    /// Sets a flag that running servers look at.
    pub(crate) fn set(&self, name: &str) {
        std::fs::write(self.path().join(name), "").unwrap();
    }

    pub(crate) fn unset(&self, name: &str) {
        std::fs::remove_file(self.path().join(name)).unwrap();
    }

    /// How often a server was started.
    pub(crate) fn starts(&self, name: &str) -> usize {
        self.count(&format!("{name} start"))
    }

    /// How many calls it got.
    pub(crate) fn calls(&self, name: &str) -> usize {
        self.count(&format!("{name} tools/call"))
    }
}

pub(crate) async fn launch(builder: HostBuilder) -> Host {
    Host::launch(builder).await.unwrap()
}

/// A host with one session.
pub(crate) async fn open(builder: HostBuilder) -> (Host, Session) {
    let host = launch(builder).await;
    let session = session(&host).await;
    (host, session)
}

pub(crate) async fn session(host: &Host) -> Session {
    host.session(SessionOptions::default()).await.unwrap()
}

/// Calls a tool; its text, which is the server's process id and the argument.
pub(crate) async fn call(session: &Session, tool: &str) -> Result<String, HostError> {
    let arguments = args(json!({"text": "hi"}));
    session.call(tool, arguments, CallOptions::default()).await.map(|result| result.text())
}

/// The process id of the server that answers.
pub(crate) async fn pid(session: &Session, tool: &str) -> u32 {
    call(session, tool).await.unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// The names of the tools that the model sees.
pub(crate) async fn names(session: &Session) -> Vec<String> {
    session.tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

pub(crate) async fn state(session: &Session, server: usize) -> String {
    let status = session.inspect(Inspect::Status).await.unwrap();
    status[server]["state"].as_str().unwrap().to_owned()
}

pub(crate) fn control(
    session: &Session,
    control: Value,
) -> impl Future<Output = Result<Value, HostError>> + use<'_> {
    session.control(serde_json::from_value(control).unwrap())
}

/// Whether a process is there, and has not ended.
pub(crate) fn is_there(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// The login session of a process.
#[cfg(target_os = "linux")]
pub(crate) fn session_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.split(' ').nth(3)?.parse().ok()
}

/// Waits until a process is gone.
pub(crate) async fn gone(pid: u32) {
    while is_there(pid) {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// The settings of a built-in profile.
pub(crate) fn profile(name: &str) -> Settings {
    sparring_profiles::Profile::load(name).unwrap().settings()
}

pub(crate) fn args(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Not a test, but a server, if the environment says so. Flags:
///
/// - `fail`: it exits at once. As a file of that name in the folder: while it is there.
/// - `hang`: it never answers `initialize`; `slow-list`: it never answers `tools/list`.
/// - `crash`: it exits on each call, unless the file `well` is there.
/// - `stay`: it ignores the end of its input.
/// - `stray`: it starts a process in a session of its own, whose id is in the file `stray.pid`.
#[test]
fn serve() {
    let Ok(name) = std::env::var("SPARRING_TEST_SERVER") else { return };
    let folder = PathBuf::from(std::env::var("SPARRING_TEST_FOLDER").unwrap());
    let flags = std::env::var("SPARRING_TEST_FLAGS").unwrap_or_default();
    let has = |flag: &str| flags.split(',').any(|f| f == flag) || folder.join(flag).exists();
    let log = |line: &str| {
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
        file.write_all(format!("{name} {line}\n").as_bytes()).unwrap();
    };
    log("start");
    if has("fail") {
        eprintln!("no luck today");
        std::process::exit(3);
    }
    if has("stray") {
        #[expect(clippy::zombie_processes, reason = "it is there to outlive this process")]
        let stray = std::process::Command::new("setsid")
            .args(["sleep", "600"])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::fs::write(folder.join("stray.pid"), stray.id().to_string()).unwrap();
    }
    let stdin = std::io::stdin();
    for line in stdin.lock().lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        log(&method);
        let token = &message["params"]["_meta"]["progressToken"];
        if *token != Value::Null {
            let params = json!({"progressToken": token, "progress": 1});
            say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
        let result = match method.as_str() {
            "initialize" if has("hang") => continue,
            "tools/list" if has("slow-list") => continue,
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": name, "version": "1"},
            }),
            "tools/list" => {
                let mut tools = vec![tool("echo"), tool("wait"), tool("change"), tool("warn")];
                if folder.join("changed").exists() {
                    tools.push(tool("new"));
                }
                json!({"tools": tools})
            }
            "tools/call" => {
                let called = message["params"]["name"].as_str().unwrap_or_default();
                if has("crash") && !has("well") {
                    log("end");
                    std::process::exit(1);
                }
                match called {
                    "wait" => continue,
                    "warn" => eprintln!("careful with {}", message["params"]["arguments"]["text"]),
                    "change" => {
                        std::fs::write(folder.join("changed"), "").unwrap();
                        say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                    }
                    _ => {}
                }
                let text = message["params"]["arguments"]["text"].as_str().unwrap_or("-");
                json!({"content": [{"type": "text", "text": format!("{} {text}", std::process::id())}]})
            }
            _ if message.get("id").is_none() => continue,
            _ => json!({}),
        };
        say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    }
    if has("stay") {
        loop {
            std::thread::park();
        }
    }
    log("end");
    std::process::exit(0);
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{message}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
