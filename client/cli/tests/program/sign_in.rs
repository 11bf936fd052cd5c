//! Signing in and out, with a server over HTTP that is this very executable.

use super::{Home, Value};
use sparring::serve::{Settings, host, source};
use sparring_wire::{Revision, Transport};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

/// The server's script.
const SCRIPT: &str = "
tools: [echo]
auth: {}
";

/// A mock in a process of its own. Dropped, it is gone.
struct Mock {
    child: Child,
    url: String,
}

impl Mock {
    fn start(home: &Home) -> Self {
        let script = home.path("script.yaml");
        std::fs::write(&script, SCRIPT).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sign_in::serve", "--nocapture", "--quiet"])
            .env("TEST_SCRIPT", script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let ready = lines.find(|line| line.starts_with('{')).unwrap();
        let ready: Value = serde_json::from_str(&ready).unwrap();
        Self { child, url: ready["url"].as_str().unwrap().to_owned() }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test, but the mock, if the environment says so.
#[test]
fn serve() {
    let Ok(script) = std::env::var("TEST_SCRIPT") else { return };
    let settings = Settings {
        source: source::script(&script).unwrap_or_else(|_| panic!("the script is wrong")),
        revision: Revision::LATEST_HANDSHAKE,
        seed: 1,
        transcript: None,
        show_secrets: false,
        ready_file: None,
        control_port: None,
        stop_with_stdin: true,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(host::http(&settings, Transport::Http, 0)).unwrap();
    std::process::exit(0);
}

/// Gets a URL as a browser does; the URL of its redirect, if it is one.
fn get(url: &str) -> Option<String> {
    let (authority, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut socket = TcpStream::connect(authority).unwrap();
    write!(socket, "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    socket.read_to_string(&mut page).unwrap();
    let head = page.split("\r\n\r\n").next().unwrap();
    let location = head
        .lines()
        .find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("location")));
    location.map(|(_, value)| value.to_owned())
}

#[test]
fn credentials_are_kept_between_runs_until_they_are_forgotten() {
    let home = Home::new();
    let mock = Mock::start(&home);
    home.run(&["add", "web", "--url", &mock.url]).ends_with(0);
    home.run(&["call", "web", "echo", "text=hi"]).ends_with(5).warns("sparring-client login web");

    let mut login = home.command(&["login", "web", "--no-browser"]);
    let mut login = login.stderr(Stdio::piped()).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(login.stderr.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find_map(|line| Some(line.trim().to_owned()).filter(|line| line.starts_with("http")));
    let back = get(&address.unwrap()).unwrap();
    assert_eq!(get(&back), None);
    let ended = login.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stdout == b"signed in to web\n", "{ended:?}");

    // Each command is a process of its own.
    home.run(&["call", "web", "echo", "text=hi"]).ends_with(0).says("hi");
    let kept = home.path(".local/state/sparring-client/credentials.json");
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);

    home.run(&["logout", "web"]).ends_with(0).says("signed out of web");
    home.run(&["call", "web", "echo", "text=hi"]).ends_with(5);
    home.run(&["logout", "web", "--json"]).ends_with(0);
    assert!(!std::fs::read_to_string(&kept).unwrap().contains("access"));
}

#[cfg(not(feature = "keychain"))]
#[test]
fn a_keychain_that_the_program_lacks_is_an_error_and_no_file() {
    let home = Home::new();
    let mock = Mock::start(&home);
    let profile = "[host]\nname = \"kept\"\nextends = \"reference\"\n[auth]\nstore = \"keychain\"\n";
    std::fs::write(home.path("work/kept.toml"), profile).unwrap();
    home.run(&["add", "web", "--url", &mock.url]).ends_with(0);
    let login = home.run(&["--profile", "kept.toml", "login", "web", "--no-browser"]);
    login.ends_with(2).warns("built without the feature `keychain`");
    assert!(!home.path(".local/state/sparring-client/credentials.json").exists());
}
