//! The scripted servers of a case.

use super::recorder::Recorder;
use crate::driver::Target;
use crate::plan::Case;
use sparring_mock_servers::http::{HttpMock, HttpSpec, Numbers};
use sparring_mock_servers::sink::Sink;
use sparring_mock_servers::stdio::{StdioMock, StdioSpec};
use sparring_wire::Transport;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long servers may outlive the client.
const LINGER: Duration = Duration::from_secs(2);

/// All servers of a case, on its transport.
pub(super) struct Servers {
    transport: Transport,
    all: BTreeMap<String, Server>,
}

enum Server {
    Stdio(StdioMock),
    Http(HttpMock),
}

impl Servers {
    /// Makes them ready: HTTP servers listen, stdio servers can be spawned.
    pub(super) fn start(
        case: &Case,
        seed: u64,
        folder: &Path,
        exe: &Path,
        recorder: &Arc<Recorder>,
    ) -> io::Result<Self> {
        let numbers = Arc::new(Numbers::default());
        let mut all = BTreeMap::new();
        // No two servers of a case give equal names to their sessions, clients and tokens.
        for (seed, (name, script)) in (0..).map(|n| seed.wrapping_add(n)).zip(case.scenario.scripts()) {
            let (name, script, revision) = (name.to_owned(), script.clone(), case.revision);
            let sink: Arc<dyn Sink> = recorder.clone();
            let server = match case.transport {
                Transport::Stdio => Server::Stdio(StdioMock::prepare(StdioSpec {
                    name: name.clone(),
                    script,
                    revision,
                    dir: folder.to_owned(),
                    quiet: false,
                    seed,
                    sink,
                    program: Some(exe.to_owned()),
                })?),
                Transport::Http | Transport::SseLegacy => Server::Http(HttpMock::start(HttpSpec {
                    name: name.clone(),
                    script,
                    revision,
                    transport: case.transport,
                    seed,
                    sink,
                    quiet: false,
                    numbers: numbers.clone(),
                    port: 0,
                })?),
            };
            all.insert(name, server);
        }
        Ok(Self { transport: case.transport, all })
    }

    /// Where the client finds them.
    pub(super) fn targets(&self) -> BTreeMap<String, Target> {
        let target = |server: &Server| match server {
            Server::Stdio(mock) => {
                let mut words = mock.command().into_iter();
                let command = words.next().unwrap_or_default();
                Target::Stdio { command, args: words.collect(), env: BTreeMap::new() }
            }
            Server::Http(mock) if self.transport == Transport::SseLegacy => {
                Target::SseLegacy { url: mock.url().to_owned() }
            }
            Server::Http(mock) => Target::Http { url: mock.url().to_owned() },
        };
        self.all.iter().map(|(name, server)| (name.clone(), target(server))).collect()
    }

    /// What the first of them that has an authorization server wants its client to know beforehand, if it is anything:
    /// as the official framework tells its clients.
    pub(super) fn credentials(&self) -> Option<serde_json::Value> {
        let told = self.all.values().find_map(|server| match server {
            Server::Http(mock) => Some(mock.hand_out()).filter(|told| !told.is_empty()),
            Server::Stdio(_) => None,
        });
        told.cloned().map(serde_json::Value::Object)
    }

    /// Ends them, and waits until all that they observed is recorded. Returns the servers' processes that had to be
    /// killed: a server whose stdin has closed may be about to leave by itself, and has [`LINGER`] for it.
    pub(super) async fn shutdown(self) -> Vec<u32> {
        let mut killed = Vec::new();
        let leaving = self.all.values().filter_map(|server| match server {
            Server::Stdio(mock) => Some(mock.all_ended()),
            Server::Http(_) => None,
        });
        // What has not left by then is killed below.
        let _ = tokio::time::timeout(LINGER, futures_util::future::join_all(leaving)).await;
        for server in self.all.into_values() {
            match server {
                Server::Stdio(mock) => killed.extend(mock.shutdown().await),
                Server::Http(mock) => mock.shutdown().await,
            }
        }
        killed
    }
}
