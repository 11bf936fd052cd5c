//! Many at once: calls on one connection, and servers in one process. Counts are judged, not times.

#![expect(clippy::expect_used, reason = "a test may panic, its helpers as well")]

use futures_util::future::{join_all, try_join_all};
use serde_json::{Map, Value, json};
use sparring_client::{Client, Connection, HttpTarget, Settings, StdioTarget, Target};
use sparring_mock_servers::http::{HttpMock, HttpSpec};
use sparring_mock_servers::script::ServerScript;
use sparring_mock_servers::sink::Sink;
use sparring_mock_servers::stdio::{StdioMock, StdioSpec};
use sparring_wire::transcript::What;
use sparring_wire::{Revision, Transport};
use std::path::Path;
use std::sync::Arc;

/// How many calls, and how many servers.
const MANY: usize = 1000;

/// Nothing that the servers report is of interest here.
struct Deaf;

impl Sink for Deaf {
    fn event(&self, _: &str, _: Option<u32>, _: u64, _: What) {}
}

/// A server that answers no call before all have come: whoever sends them one after the other waits for ever.
fn patient() -> ServerScript {
    script(json!({"tools": ["echo"], "rules": [
        {"on": "tools/call", "nth": MANY, "do": [{"release": {"held": "calls", "count": MANY - 1}}]},
        {"on": "tools/call", "do": [{"hold_until": {"as": "calls"}}]},
    ]}))
}

fn plain() -> ServerScript {
    script(json!({"tools": ["echo"]}))
}

fn script(json: Value) -> ServerScript {
    serde_json::from_value(json).expect("the script is valid")
}

fn stdio(script: ServerScript, directory: &Path) -> StdioMock {
    StdioMock::prepare(StdioSpec {
        name: "server".to_owned(),
        script,
        revision: Revision::LATEST_HANDSHAKE,
        dir: directory.to_owned(),
        quiet: true,
        seed: 0,
        sink: Arc::new(Deaf),
        program: Some(env!("CARGO_BIN_EXE_sparring").into()),
    })
    .expect("a stdio mock can be prepared")
}

fn stdio_target(mock: &StdioMock) -> Target {
    let mut words = mock.command().into_iter();
    Target::Stdio(StdioTarget::new(words.next().unwrap_or_default(), words))
}

fn http(script: ServerScript) -> HttpMock {
    HttpMock::start(HttpSpec {
        name: "server".to_owned(),
        script,
        revision: Revision::LATEST_HANDSHAKE,
        transport: Transport::Http,
        seed: 0,
        sink: Arc::new(Deaf),
        quiet: true,
        numbers: Arc::default(),
        port: 0,
    })
    .expect("an HTTP mock starts")
}

fn client() -> Client {
    Client::new(Settings { offer: Revision::LATEST_HANDSHAKE, ping_every: None, ..Settings::default() })
}

async fn echo(connection: &Connection, text: String) {
    let arguments = Map::from_iter([("text".to_owned(), text.clone().into())]);
    let result = connection.call("echo", arguments).await.expect("the call succeeds");
    assert_eq!(result.text(), text, "each call gets its own answer");
}

/// Each connection takes a few files on either side, and many systems allow 1024 unless asked for more.
#[cfg(unix)]
fn allow_many_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("there is a limit");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(16_384)), hard).expect("it can be raised");
}

#[cfg(not(unix))]
const fn allow_many_files() {}

async fn calls_at_once(target: &Target) {
    allow_many_files();
    let connection = client().connect("server", target).await.expect("the server is reached");
    join_all((0..MANY).map(|n| echo(&connection, n.to_string()))).await;
    connection.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_at_once_on_a_stdio_connection() {
    let directory = tempfile::tempdir().expect("a folder");
    let mock = stdio(patient(), directory.path());
    calls_at_once(&stdio_target(&mock)).await;
    mock.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_at_once_on_an_http_connection() {
    let mock = http(patient());
    calls_at_once(&Target::Http(HttpTarget::new(mock.url()))).await;
    mock.shutdown().await;
}

/// Opens a connection to each, a few at a time, and then uses all of them while all are open.
async fn servers_at_once(targets: &[Target]) {
    allow_many_files();
    let client = client();
    let mut open = Vec::new();
    for some in targets.chunks(20) {
        let opened = try_join_all(some.iter().map(|target| client.connect("server", target))).await;
        open.extend(opened.expect("all servers are reached"));
    }
    assert_eq!(open.len(), MANY);
    join_all(open.iter().enumerate().map(|(n, connection)| echo(connection, n.to_string()))).await;
    assert!(open.iter().all(|connection| connection.closed().is_none()));
    join_all(open.iter().map(Connection::close)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_stdio_servers_in_one_process() {
    let directory = tempfile::tempdir().expect("a folder");
    let mock = stdio(plain(), directory.path());
    servers_at_once(&vec![stdio_target(&mock); MANY]).await;
    mock.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_http_servers_in_one_process() {
    let mocks: Vec<HttpMock> = (0..MANY).map(|_| http(plain())).collect();
    let targets: Vec<Target> = mocks.iter().map(|mock| Target::Http(HttpTarget::new(mock.url()))).collect();
    servers_at_once(&targets).await;
    join_all(mocks.into_iter().map(HttpMock::shutdown)).await;
}
