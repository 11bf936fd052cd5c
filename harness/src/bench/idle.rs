//! How much memory the reference client takes for connections over which nothing is said.

use super::Deaf;
use crate::cli::Trouble;
use sparring_client::{Client, Connection, HttpTarget, Settings, StdioTarget, Target};
use sparring_mock_servers::http::{HttpMock, HttpSpec};
use sparring_mock_servers::script::{ServerScript, ToolScript};
use sparring_mock_servers::stdio::{StdioMock, StdioSpec};
use sparring_reports::model::exit_code;
use sparring_wire::{Revision, Transport};
use std::io::{self, Write as _};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

/// First argument of this program when it is to be the HTTP server of idle connections: in a process of its own, so that its
/// memory is not taken for the client's.
pub(super) const IDLE_ARGUMENT: &str = "__sparring-idle-server";

/// How many connections are opened at a time.
const AT_ONCE: usize = 32;

/// What was measured on one transport.
pub(super) struct Idle {
    pub(super) transport: Transport,
    pub(super) connections: usize,
    /// More resident memory of the client's process, in bytes for each connection.
    pub(super) bytes: u64,
}

fn script() -> ServerScript {
    ServerScript { tools: vec![ToolScript::Library("echo".to_owned())], ..ServerScript::default() }
}

/// Serves until stdin ends; the URL is the only line on stdout.
pub(super) async fn serve() -> io::Result<()> {
    let mock = HttpMock::start(HttpSpec {
        name: "server".to_owned(),
        script: script(),
        revision: Revision::LATEST_HANDSHAKE,
        transport: Transport::Http,
        seed: 0,
        sink: Arc::new(Deaf),
        quiet: true,
        numbers: Arc::default(),
        port: 0,
    })?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", mock.url())?;
    stdout.flush()?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    mock.shutdown().await;
    Ok(())
}

/// Opens so many connections on each transport and looks at what they take.
pub(super) async fn measure(connections: usize, transports: &[Transport]) -> Result<Vec<Idle>, Trouble> {
    let ours = |e: io::Error| Trouble::new(exit_code::HARNESS_ERROR, format!("the bench failed: {e}"));
    let mut found = Vec::new();
    for &transport in transports {
        let bytes = match transport {
            Transport::Stdio => stdio(connections).await,
            _ => http(connections).await,
        };
        found.push(Idle { transport, connections, bytes: bytes.map_err(ours)? });
    }
    Ok(found)
}

async fn stdio(connections: usize) -> io::Result<u64> {
    let directory = tempfile::tempdir()?;
    let mock = StdioMock::prepare(StdioSpec {
        name: "server".to_owned(),
        script: script(),
        revision: Revision::LATEST_HANDSHAKE,
        dir: directory.path().to_owned(),
        quiet: true,
        seed: 0,
        sink: Arc::new(Deaf),
        program: None,
    })?;
    let mut words = mock.command().into_iter();
    let target = Target::Stdio(StdioTarget::new(words.next().unwrap_or_default(), words));
    let bytes = grown(connections, target).await;
    mock.shutdown().await;
    bytes
}

async fn http(connections: usize) -> io::Result<u64> {
    let mut server = tokio::process::Command::new(std::env::current_exe()?)
        .arg(IDLE_ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut url = String::new();
    if let Some(stdout) = server.stdout.take() {
        BufReader::new(stdout).read_line(&mut url).await?;
    }
    let bytes = grown(connections, Target::Http(HttpTarget::new(url.trim()))).await;
    drop(server.stdin.take());
    server.wait().await?;
    bytes
}

/// By how much this process grows for each connection.
async fn grown(connections: usize, target: Target) -> io::Result<u64> {
    let client =
        Client::new(Settings { offer: Revision::LATEST_HANDSHAKE, ping_every: None, ..Settings::default() });
    // What the first connections bring into memory is there once.
    let mut open = connect(&client, &target, AT_ONCE.min(connections)).await?;
    let before = resident()?;
    for start in (0..connections).step_by(AT_ONCE) {
        open.extend(connect(&client, &target, AT_ONCE.min(connections - start)).await?);
    }
    let after = resident()?;
    for chunk in open.chunks(AT_ONCE) {
        futures_util::future::join_all(chunk.iter().map(Connection::close)).await;
    }
    Ok(after.saturating_sub(before) / connections.max(1) as u64)
}

async fn connect(client: &Client, target: &Target, count: usize) -> io::Result<Vec<Connection>> {
    let opening = (0..count).map(|_| client.connect("server", target));
    futures_util::future::try_join_all(opening).await.map_err(io::Error::other)
}

/// Resident memory of this process, in bytes.
fn resident() -> io::Result<u64> {
    let unknown = || io::Error::new(io::ErrorKind::Unsupported, "--idle needs /proc/self/status");
    let status = std::fs::read_to_string("/proc/self/status").map_err(|_| unknown())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line.and_then(|l| l.split_whitespace().next()?.parse().ok()).ok_or_else(unknown)?;
    Ok(kib * 1024)
}

/// The table's rows.
pub(super) fn render(found: &[Idle]) -> String {
    let mut text = "\nmemory of the reference client for an idle connection\n".to_owned();
    for idle in found {
        text += &format!(
            "  {:<7}{:>10.1} KiB  (resident, {} connections)\n",
            idle.transport.as_str(),
            idle.bytes as f64 / 1024.0,
            idle.connections
        );
    }
    text
}
