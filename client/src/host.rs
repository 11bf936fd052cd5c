//! Several servers under names, their tools under composed names, and restarts.

use crate::client::{Client, Target};
use crate::connection::{CallOptions, Connection, Entry};
use crate::core::ListKind;
use crate::error::Error;
use crate::naming::RawName;
use crate::result::CallResult;
use crate::settings::RestartTrigger;
use futures_util::future::join_all;
use serde_json::{Map, Value};
use sparring_wire::transcript::FailureKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Several servers. Clones share them. Each starts on its own: one that fails or hangs does not concern the others.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    slots: Vec<Arc<Slot>>,
}

/// How a server fares.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerStatus {
    /// It is connected.
    Up,
    /// It is not, for this reason; a call may bring it back.
    Down(Error),
    /// All restarts have failed; only [`Host::restart`] tries again.
    GivenUp(Error),
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTool {
    /// The composed name.
    pub name: String,
    /// The server it belongs to.
    pub server: String,
    /// The tool as the server gave it; its key is the raw name.
    pub tool: Entry,
}

struct Slot {
    name: String,
    target: Target,
    /// Held while the server is started, so that concurrent callers share one attempt.
    starting: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

struct Named<'a> {
    name: String,
    slot: &'a Arc<Slot>,
    list: Arc<Vec<Entry>>,
    at: usize,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    tools: Arc<Vec<Entry>>,
    failure: Option<Error>,
    /// Restarts since the last successful call.
    attempts: u32,
    closed: bool,
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, if it is up.
    fn live(&self) -> Option<Connection> {
        self.state().connection.clone().filter(|connection| connection.closed().is_none())
    }

    /// The latest list of tools, of a server that is down as well.
    fn tools(&self) -> Arc<Vec<Entry>> {
        let mut state = self.state();
        if let Some(fresh) = state.connection.as_ref().and_then(|c| c.cached(ListKind::Tools)) {
            state.tools = fresh;
        }
        Arc::clone(&state.tools)
    }

    /// One start: connection and tools.
    async fn start(&self, client: &Client) -> Result<Connection, Error> {
        let started = async {
            let connection = client.connect(&self.name, &self.target).await?;
            match connection.tools().await {
                Ok(_) => Ok(connection),
                // A server without tools is a server all the same.
                Err(error) if error.kind() == FailureKind::Refused => Ok(connection),
                // Nor does a list that can't be read concern anything but tools; whoever asks for them meets it again.
                Err(_) if connection.closed().is_none() => Ok(connection),
                Err(error) => {
                    connection.close().await;
                    Err(error)
                }
            }
        };
        let outcome = started.await;
        let closed = {
            let mut state = self.state();
            match &outcome {
                Ok(connection) => {
                    state.connection = Some(connection.clone());
                    state.failure = None;
                }
                Err(error) => state.failure = Some(error.clone()),
            }
            state.closed
        };
        match outcome {
            // The host was closed meanwhile.
            Ok(connection) if closed => {
                connection.close().await;
                Err(Error::Closed("the host is closed".into()))
            }
            outcome => outcome,
        }
    }

    fn why(&self) -> Error {
        let state = self.state();
        let closed = state.connection.as_ref().and_then(Connection::closed);
        closed
            .or_else(|| state.failure.clone())
            .unwrap_or_else(|| Error::Closed("the server is not running".into()))
    }

    /// The connection; a dead server is started again as the policy says.
    async fn revive(&self, client: &Client) -> Result<Connection, Error> {
        let _starting = self.starting.lock().await;
        loop {
            if let Some(connection) = self.live() {
                return Ok(connection);
            }
            let attempt = self.state().attempts;
            if self.state().closed {
                return Err(Error::Closed("the host is closed".into()));
            }
            let Some(wait) = client.parts.backoff.wait(attempt) else {
                let why = self.why();
                return Err(Error::Closed(format!(
                    "{} is given up after {attempt} restarts: {why}",
                    self.name
                )));
            };
            tokio::time::sleep(wait).await;
            self.state().attempts = attempt + 1;
            // The reason is kept; the next wait is longer.
            drop(self.start(client).await);
        }
    }
}

impl Host {
    /// Starts all servers at the same time, and returns when each is up or has failed.
    pub async fn start(client: Client, servers: impl IntoIterator<Item = (String, Target)>) -> Self {
        let host = Self::new(client, servers);
        let starts = host.inner.slots.iter().map(|slot| async {
            let _starting = slot.starting.lock().await;
            // The failure is kept as the server's status.
            drop(slot.start(&host.inner.client).await);
        });
        join_all(starts).await;
        host
    }

    /// A host whose servers start with their first call.
    #[must_use]
    pub fn new(client: Client, servers: impl IntoIterator<Item = (String, Target)>) -> Self {
        let slot = |(name, target)| {
            Arc::new(Slot { name, target, starting: tokio::sync::Mutex::default(), state: Mutex::default() })
        };
        let slots = servers.into_iter().map(slot).collect();
        Self { inner: Arc::new(Inner { client, slots }) }
    }

    fn slot(&self, server: &str) -> Result<&Arc<Slot>, Error> {
        let found = self.inner.slots.iter().find(|slot| slot.name == server);
        found.ok_or_else(|| Error::Refused(format!("there is no server {server:?}")))
    }

    /// The servers' names, in the order given.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        self.inner.slots.iter().map(|slot| slot.name.clone()).collect()
    }

    /// How a server fares; `None` if there is none of that name.
    #[must_use]
    pub fn status(&self, server: &str) -> Option<ServerStatus> {
        let slot = self.slot(server).ok()?;
        if slot.live().is_some() {
            return Some(ServerStatus::Up);
        }
        let attempts = slot.state().attempts;
        let why = slot.why();
        Some(match self.inner.client.parts.backoff.wait(attempts) {
            Some(_) => ServerStatus::Down(why),
            None => ServerStatus::GivenUp(why),
        })
    }

    /// The connection to a server that is up.
    #[must_use]
    pub fn connection(&self, server: &str) -> Option<Connection> {
        self.slot(server).ok()?.live()
    }

    /// Each tool with its composed name: the list it is in, and its place there.
    fn named(&self) -> Vec<Named<'_>> {
        let lists: Vec<(&Arc<Slot>, Arc<Vec<Entry>>)> =
            self.inner.slots.iter().map(|slot| (slot, slot.tools())).collect();
        let all = lists.iter().flat_map(|(slot, list)| (0..list.len()).map(move |at| (*slot, list, at)));
        let raw: Vec<RawName> = all
            .clone()
            .map(|(slot, list, at)| RawName { server: slot.name.clone(), tool: list[at].key.clone() })
            .collect();
        let names = self.inner.client.parts.naming.compose(&raw);
        all.zip(names)
            .filter_map(|((slot, list, at), name)| {
                Some(Named { name: name?, slot, list: Arc::clone(list), at })
            })
            .collect()
    }

    /// All tools, as last listed, under their composed names. Tools of a server that is down are still offered.
    #[must_use]
    pub fn tools(&self) -> Vec<HostTool> {
        let named = self.named().into_iter();
        named
            .map(|tool| HostTool {
                tool: tool.list[tool.at].clone(),
                server: tool.slot.name.clone(),
                name: tool.name,
            })
            .collect()
    }

    /// Calls a tool by its composed name.
    ///
    /// # Errors
    /// [`Error::Refused`] if no tool has that name; otherwise as [`Connection::call`]. A server that is down is
    /// started first, if the policy says so.
    pub async fn call(&self, name: &str, arguments: Map<String, Value>) -> Result<CallResult, Error> {
        self.call_with(name, arguments, CallOptions::default()).await
    }

    /// Calls a tool by its composed name, with options.
    ///
    /// # Errors
    /// As [`Host::call`].
    pub async fn call_with(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        options: impl Into<CallOptions>,
    ) -> Result<CallResult, Error> {
        let options = options.into();
        let Some(found) = self.named().into_iter().find(|tool| tool.name == name) else {
            return Err(Error::Refused(format!("there is no tool {name:?}")));
        };
        let (slot, tool) = (found.slot, &found.list[found.at].key);
        let client = &self.inner.client;
        let policy = &client.parts.settings.restart;
        let connection = match slot.live() {
            Some(connection) => connection,
            None if policy.trigger == RestartTrigger::Never => return Err(slot.why()),
            None => slot.revive(client).await?,
        };
        let mut result = connection.call_with(tool, arguments.clone(), options.clone()).await;
        if result.is_err() && connection.closed().is_some() && policy.trigger == RestartTrigger::FailingCall {
            let revived = slot.revive(client).await;
            if let (true, Ok(connection)) = (policy.retry_call, &revived) {
                result = connection.call_with(tool, arguments, options).await;
            }
        }
        if result.is_ok() {
            slot.state().attempts = 0;
        }
        result
    }

    /// Starts a server anew, whatever its state, and forgets earlier failures.
    ///
    /// # Errors
    /// Why it could not be started.
    pub async fn restart(&self, server: &str) -> Result<Connection, Error> {
        let slot = self.slot(server)?;
        let _starting = slot.starting.lock().await;
        let old = {
            let mut state = slot.state();
            state.attempts = 0;
            state.connection.take()
        };
        if let Some(old) = old {
            old.close().await;
        }
        slot.start(&self.inner.client).await
    }

    /// Closes all connections, at the same time, and waits for it.
    pub async fn close(&self) {
        let closes = self.inner.slots.iter().map(|slot| async {
            let connection = {
                let mut state = slot.state();
                state.closed = true;
                state.connection.clone()
            };
            if let Some(connection) = connection {
                connection.close().await;
            }
        });
        join_all(closes).await;
    }
}
