//! One server's life: start, calls, crashes, restarts, end.

mod call;
mod life;
mod login;

pub(crate) use life::millis as life_millis;
pub(crate) mod process;
pub(crate) mod target;

use crate::context::Context;
use crate::entry::{Kind, ServerEntry};
use crate::error::HostError;
use crate::events::SessionId;
use crate::filter;
use crate::store::cache::CacheKey;
use process::ProcessSlot;
use serde::Serialize;
use serde_json::{Value, json};
use sparring_client::{Connection, Entry, Error, ListKind};
use sparring_profiles::{CacheKind, EventName};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use target::Place;

/// How a server fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerState {
    /// It was never started.
    Idle,
    /// It is being started.
    Starting,
    /// It is connected.
    Ready,
    /// It could not be started, or has ended by itself; a call may bring it back.
    Errored,
    /// All restarts have failed; only a start by hand tries again.
    GivenUp,
    /// It was stopped by hand.
    Stopped,
    /// It is switched off in the configuration.
    Off,
}

/// Why a connection is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A start of all servers.
    Bootstrap,
    /// A call of one of its tools, or another request.
    Call,
    /// The user.
    Manual,
}

/// What a server is, as long as it has no connection.
#[derive(Debug, Clone)]
enum Phase {
    Idle,
    Up {
        connection: Connection,
    },
    /// The first start, or a later one by hand, has failed.
    Failed(HostError),
    /// It was up, and has ended.
    Down(HostError),
    Stopped,
}

struct State {
    phase: Phase,
    starting: u32,
    /// Of connections; each has its own number.
    generation: u64,
    /// The connection of this number was ended by a restart by hand.
    restarted: Option<u64>,
    /// Restarts in a row.
    attempts: u32,
    /// How often it has ended by itself.
    crashes: u64,
    /// So many of them are forgiven, because somebody has started it by hand since.
    forgiven: u64,
    tools: Option<Arc<Vec<Entry>>>,
    /// Nothing is started any more.
    closed: bool,
    retired: bool,
}

/// A server, with at most one connection. Sessions hold it by a [`crate::pool::Share`].
pub(crate) struct Server {
    pub(crate) context: Arc<Context>,
    pub(crate) entry: ServerEntry,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    /// Held while it is started, so that concurrent callers share one attempt.
    starting: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    holders: Mutex<BTreeMap<SessionId, usize>>,
    /// Calls under way, by session.
    flights: Arc<Mutex<BTreeMap<SessionId, usize>>>,
    process: Arc<ProcessSlot>,
    failed_starts: AtomicU64,
}

impl Server {
    pub(crate) fn new(
        context: &Arc<Context>,
        entry: ServerEntry,
        place: Place,
    ) -> Result<Arc<Self>, HostError> {
        let kind = target::kind_of(&context.settings(), &entry)?;
        let flights = Arc::default();
        let process = Arc::new(ProcessSlot::new(context, &entry.name, &flights));
        Ok(Arc::new(Self {
            context: Arc::clone(context),
            entry,
            place,
            kind,
            starting: tokio::sync::Mutex::default(),
            state: Mutex::new(State {
                phase: Phase::Idle,
                starting: 0,
                generation: 0,
                restarted: None,
                attempts: 0,
                crashes: 0,
                forgiven: 0,
                tools: None,
                closed: false,
                retired: false,
            }),
            holders: Mutex::default(),
            flights,
            process,
            failed_starts: AtomicU64::new(0),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holders(&self) -> MutexGuard<'_, BTreeMap<SessionId, usize>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &str {
        &self.entry.name
    }

    /// The connection, if it is up.
    pub(crate) fn live(&self) -> Option<Connection> {
        match &self.state().phase {
            Phase::Up { connection } => Some(connection.clone()).filter(|c| c.closed().is_none()),
            _ => None,
        }
    }

    pub(crate) fn hold(&self, session: SessionId) {
        *self.holders().entry(session).or_default() += 1;
    }

    /// Gives a share back; `true`: it was the last one.
    pub(crate) fn release(&self, session: SessionId) -> bool {
        let mut holders = self.holders();
        if let Some(count) = holders.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                holders.remove(&session);
            }
        }
        holders.is_empty()
    }

    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.holders().keys().copied().collect()
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.holders().is_empty()
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.state().retired
    }

    pub(crate) fn retire(&self) {
        self.state().retired = true;
    }

    /// Whether it has not ended by itself since the time when it had done so `seen` times; a start by hand forgives.
    pub(crate) fn is_armed(&self, seen: u64) -> bool {
        let state = self.state();
        state.crashes <= seen.max(state.forgiven)
    }

    pub(crate) fn crashes(&self) -> u64 {
        self.state().crashes
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    pub(crate) fn cache_key(&self) -> CacheKey {
        cache_key(&self.place, &self.entry)
    }

    /// Tools that the configuration gives, so that nobody has to ask.
    pub(crate) fn supplied(&self) -> Option<Arc<Vec<Entry>>> {
        filter::supplied(&self.context.settings().discovery, &self.entry).map(Arc::new)
    }

    /// Its tools as last known: the live list while it runs, else the one remembered.
    pub(crate) fn tools(&self) -> Option<Arc<Vec<Entry>>> {
        if let Some(supplied) = self.supplied() {
            return Some(supplied);
        }
        let mut state = self.state();
        if let Phase::Up { connection } = &state.phase
            && let Some(fresh) = connection.cached(ListKind::Tools)
        {
            state.tools = Some(fresh);
        }
        if matches!(state.phase, Phase::Idle | Phase::Stopped)
            && self.context.settings().discovery.cache == CacheKind::None
        {
            return None;
        }
        state.tools.clone()
    }

    /// Whether its first start, or a later one by hand, has failed.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state().phase, Phase::Failed(_))
    }

    /// What to tell users about it.
    pub(crate) fn status(&self) -> (ServerState, Option<HostError>) {
        let state = self.state();
        let given_up = || {
            let settings = self.context.settings();
            let wait =
                self.context.parts.backoff.wait(&settings.restart, state.attempts, self.context.parts.clock);
            state.attempts > 0 && wait.is_none()
        };
        match &state.phase {
            _ if state.starting > 0 => (ServerState::Starting, None),
            Phase::Idle => (ServerState::Idle, None),
            Phase::Up { connection } => match connection.closed() {
                None => (ServerState::Ready, None),
                Some(error) => (ServerState::Errored, Some(self.failed(error))),
            },
            Phase::Failed(error) | Phase::Down(error) => {
                (if given_up() { ServerState::GivenUp } else { ServerState::Errored }, Some(error.clone()))
            }
            Phase::Stopped => (ServerState::Stopped, None),
        }
    }

    fn failed(&self, error: Error) -> HostError {
        HostError::of(&self.entry.name, error)
    }

    /// Tells each session that holds it; the host as a whole if none does.
    fn tell(&self, kind: EventName, fields: &[(&str, Value)]) {
        let fields = |session: Option<SessionId>| {
            let own = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            let named = std::iter::once(("name".to_owned(), json!(self.entry.name)));
            self.context.emit(kind, Some(&self.entry.name), session, named.chain(own));
        };
        let sessions = self.sessions();
        if sessions.is_empty() {
            fields(None);
        }
        for session in sessions {
            fields(Some(session));
        }
    }
}

/// Under which key its tools are remembered.
pub(crate) fn cache_key(place: &Place, entry: &ServerEntry) -> CacheKey {
    cache_key_of(place, &entry.name)
}

/// The same, of the server of this name.
pub(crate) fn cache_key_of(place: &Place, server: &str) -> CacheKey {
    let project = place.project.as_ref().map(|project| project.to_string_lossy().into_owned());
    CacheKey { project: project.unwrap_or_default(), server: server.to_owned() }
}

/// Entries of a list of tools, without those that have no name.
pub(crate) fn entries(tools: &[Value]) -> Vec<Entry> {
    let entry = |json: &Value| {
        let key = json.get("name")?.as_str()?.to_owned();
        Some(Entry { key, json: json.clone() })
    };
    tools.iter().filter_map(entry).collect()
}
