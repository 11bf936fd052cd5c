//! Starting, restarting and ending a server.

use super::target::{self, Way};
use super::{Phase, Server, Wish};
use crate::error::HostError;
use crate::server::process::Accounting;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use sparring_client::{Browser, Client, Connection, Entry, Error, Event, ListKind};
use sparring_profiles::{
    Connect, EventName, Phase as Budget, Reset, RetryFailed, SessionLost, Settings, Trigger,
};
use sparring_wire::transcript::FailureKind;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

impl Server {
    /// Whether restarts are promised for its transport.
    pub(crate) fn restarts(&self, settings: &Settings) -> bool {
        settings.restart.transports.contains(&target::transport(self.kind))
    }

    fn trigger(&self, settings: &Settings) -> Trigger {
        match self.restarts(settings) {
            true => settings.restart.trigger,
            // Nothing is said about it: the next call.
            false => Trigger::NextCall,
        }
    }

    /// A connection; started, or started again, if the wish is reason enough. With the number of the connection.
    pub(crate) async fn ready(self: &Arc<Self>, wish: Wish) -> Result<(Connection, u64), HostError> {
        if let Some(live) = self.live_one() {
            return Ok(live);
        }
        let settings = self.context.settings();
        if !settings.startup.shared_attempt {
            return self.ready_alone(&settings, wish).await;
        }
        let before = self.state().generation;
        let attempts_before = self.failures();
        let _starting = self.starting.lock().await;
        // Somebody else's attempt, that has failed while this one waited, was this one's as well.
        if self.failures() > attempts_before && self.state().generation == before && wish == Wish::Bootstrap {
            return Err(self.why());
        }
        self.ready_alone(&settings, wish).await
    }

    fn failures(&self) -> u64 {
        self.failed_starts.load(std::sync::atomic::Ordering::Acquire)
    }

    async fn ready_alone(
        self: &Arc<Self>,
        settings: &Settings,
        wish: Wish,
    ) -> Result<(Connection, u64), HostError> {
        if let Some(live) = self.live_one() {
            return Ok(live);
        }
        self.notice();
        let phase = {
            let state = self.state();
            if state.closed {
                return Err(self.closed());
            }
            state.phase.clone()
        };
        match (phase, wish) {
            (_, Wish::Manual) => {
                {
                    let mut state = self.state();
                    state.attempts = 0;
                    state.forgiven = state.crashes;
                }
                self.start(settings).await
            }
            (Phase::Idle | Phase::Up { .. }, _) => self.start(settings).await,
            (Phase::Stopped, Wish::Call) if settings.startup.connect == Connect::FirstCall => {
                self.start(settings).await
            }
            (Phase::Stopped, _) => {
                Err(HostError::Disabled(self.entry.name.clone(), "it was stopped by hand".to_owned()))
            }
            (Phase::Failed(error), wish) => match (settings.startup.retry_failed, wish) {
                (RetryFailed::NextBootstrap, Wish::Bootstrap) | (RetryFailed::NextCall, Wish::Call) => {
                    self.start(settings).await
                }
                _ => Err(error),
            },
            // A lost session is no crash: there is nothing to wait for.
            (Phase::Down(error), _) if is_lost_session(&error) => match settings.restart.http_session_lost {
                SessionLost::Surface => Err(error),
                SessionLost::NextCall | SessionLost::AtOnce => self.start(settings).await,
            },
            (Phase::Down(error), wish) => match self.trigger(settings) {
                Trigger::Never => Err(error),
                // A call that may not start it is stopped by its session; see `Share::armed`.
                Trigger::Manual if wish == Wish::Bootstrap => Err(error),
                Trigger::Manual => self.start(settings).await,
                Trigger::NextCall => self.attempt_again(settings).await,
                Trigger::FailingCall | Trigger::AtOnce => self.revive(settings).await,
            },
        }
    }

    fn live_one(&self) -> Option<(Connection, u64)> {
        let connection = self.live()?;
        Some((connection, self.state().generation))
    }

    pub(super) fn closed(&self) -> HostError {
        self.failed(Error::Closed("the host is closed".into()))
    }

    pub(super) fn why(&self) -> HostError {
        match self.status().1 {
            Some(error) => error,
            None => self.failed(Error::Closed("the server is not running".into())),
        }
    }

    /// Attempts with their waits, until one succeeds or the server is given up.
    pub(super) async fn revive(
        self: &Arc<Self>,
        settings: &Settings,
    ) -> Result<(Connection, u64), HostError> {
        loop {
            if let Some(live) = self.live_one() {
                return Ok(live);
            }
            match self.attempt_again(settings).await {
                Ok(started) => return Ok(started),
                Err(error) if self.is_given_up(settings) || self.state().closed => return Err(error),
                Err(_) => {}
            }
        }
    }

    fn is_given_up(&self, settings: &Settings) -> bool {
        let attempts = self.state().attempts;
        self.context.parts.backoff.wait(&settings.restart, attempts, self.context.parts.clock).is_none()
    }

    /// One restart, after its wait.
    async fn attempt_again(self: &Arc<Self>, settings: &Settings) -> Result<(Connection, u64), HostError> {
        let attempt = self.state().attempts;
        let Some(wait) =
            self.context.parts.backoff.wait(&settings.restart, attempt, self.context.parts.clock)
        else {
            let why = self.why();
            let text = format!("given up after {attempt} restarts in a row: {why}");
            return Err(self.failed(Error::Closed(text)));
        };
        tokio::time::sleep(wait).await;
        if let Some(live) = self.live_one() {
            return Ok(live);
        }
        {
            let mut state = self.state();
            if state.closed {
                drop(state);
                return Err(self.closed());
            }
            state.attempts = attempt + 1;
        }
        let down = self.state().phase.clone();
        let started = self.start(settings).await;
        match &started {
            Ok(_) if settings.restart.reset_on == Reset::Start => self.state().attempts = 0,
            Ok(_) => {}
            // It has failed to come back, not to start.
            Err(error) => {
                let mut state = self.state();
                if let (Phase::Down(_), Phase::Failed(_)) = (&down, &state.phase) {
                    state.phase = Phase::Down(error.clone());
                }
            }
        }
        started
    }

    /// One start, without waits.
    async fn start(self: &Arc<Self>, settings: &Settings) -> Result<(Connection, u64), HostError> {
        let again = {
            let mut state = self.state();
            state.starting += 1;
            state.generation > 0
        };
        let begun = Starting(self);
        let outcome = self.connect(settings, again).await;
        drop(begun);
        match outcome {
            Ok((connection, tools)) => self.came_up(connection, tools).await,
            Err(error) => {
                self.failed_starts.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
                self.state().phase = Phase::Failed(error.clone());
                let kind = match error {
                    HostError::NeedsLogin { .. } => EventName::AuthRequired,
                    _ => EventName::Error,
                };
                self.tell(kind, &[("error", json!(error.shown(&settings.errors)))]);
                Err(error)
            }
        }
    }

    async fn came_up(
        self: &Arc<Self>,
        connection: Connection,
        tools: Option<Arc<Vec<Entry>>>,
    ) -> Result<(Connection, u64), HostError> {
        let (generation, other) = {
            let mut state = self.state();
            let live = match &state.phase {
                Phase::Up { connection } => Some(connection.clone()).filter(|c| c.closed().is_none()),
                _ => None,
            };
            if !state.closed && live.is_none() {
                state.generation += 1;
                state.phase = Phase::Up { connection: connection.clone() };
                if tools.is_some() {
                    state.tools = tools.clone();
                }
            }
            (state.generation, if state.closed { Some(None) } else { live.map(Some) })
        };
        match other {
            // The host was closed meanwhile.
            Some(None) => {
                connection.close().await;
                return Err(self.closed());
            }
            // Somebody else was quicker.
            Some(Some(live)) => {
                connection.close().await;
                return Ok((live, generation));
            }
            None => {}
        }
        let count = tools.as_ref().map(|tools| tools.len());
        self.tell(EventName::Connect, &[("transport", json!(self.kind)), ("toolCount", json!(count))]);
        if let Some(tools) = tools {
            self.remember(&tools);
        }
        tokio::spawn(watch(Arc::downgrade(self), connection.events(), generation));
        // It may have ended before anybody watched.
        self.notice();
        Ok((connection, generation))
    }

    fn remember(&self, tools: &[Entry]) {
        let tools: Vec<Value> = tools.iter().map(|tool| tool.json.clone()).collect();
        let (cache, key) = (Arc::clone(&self.context.parts.cache), self.cache_key());
        // Writing may take a while, and nobody waits for it.
        tokio::task::spawn_blocking(move || cache.put(&key, &tools));
    }

    /// Handshake and tools, within the budget.
    async fn connect(
        &self,
        settings: &Settings,
        again: bool,
    ) -> Result<(Connection, Option<Arc<Vec<Entry>>>), HostError> {
        let seconds = self.entry.startup_timeout.unwrap_or(settings.timeouts.startup_s);
        let clock = self.context.parts.clock;
        let budget = clock.seconds(seconds);
        let covers = &settings.timeouts.startup_covers;
        let until = Instant::now() + budget;
        let late = |method: &str| self.failed(Error::Timeout { method: method.to_owned(), after: budget });
        let Way { target, settings: client } = target::way(&self.context, &self.entry, &self.place, seconds)?;
        let client = self.client(client);
        let connection = client.connect(&self.entry.name, &target);
        let connection = timeout_at(until, connection).await.map_err(|_| late("initialize"))?;
        let connection = connection.map_err(|error| self.failed(error))?;
        if self.supplied().is_some() || (again && !settings.restart.rediscovers) {
            return Ok((connection, None));
        }
        let until = if covers.contains(&Budget::ToolsList) { until } else { Instant::now() + budget };
        let tools = match timeout_at(until, connection.tools()).await {
            Ok(Ok(tools)) => Some(tools),
            // A server without tools is a server all the same.
            Ok(Err(error)) if error.kind() == FailureKind::Refused => None,
            Ok(Err(Error::Protocol { .. })) if !has_tools(&connection) => None,
            Ok(Err(error)) => {
                connection.close().await;
                return Err(self.failed(error));
            }
            Err(_) => {
                connection.close().await;
                return Err(late("tools/list"));
            }
        };
        Ok((connection, tools))
    }

    pub(super) fn client(&self, client: sparring_client::Settings) -> Client {
        let parts = &self.context.parts;
        let launcher = Accounting { inner: Arc::clone(&parts.launcher), slot: Arc::clone(&self.process) };
        let mut builder = Client::builder(client)
            .credentials(Arc::clone(&parts.credentials))
            .eras(Arc::clone(&self.context.eras))
            .browser(Arc::clone(&self.context.desk) as Arc<dyn Browser>);
        if let Some(filter) = &parts.filter {
            builder = builder.filter(Arc::clone(filter));
        }
        (self.context.client)(builder).launcher(Arc::new(launcher)).build()
    }

    /// Takes note if the connection has ended by itself.
    pub(super) fn notice(&self) {
        let ended = match &self.state().phase {
            Phase::Up { connection } => connection.closed(),
            _ => None,
        };
        if let Some(error) = ended {
            let generation = self.state().generation;
            self.went_down(generation, &error);
        }
    }

    /// A connection has ended by itself. `true`: nobody had noticed before.
    pub(super) fn went_down(&self, generation: u64, error: &Error) -> bool {
        let error = self.failed(error.clone());
        {
            let mut state = self.state();
            if state.generation != generation || !matches!(state.phase, Phase::Up { .. }) {
                return false;
            }
            state.phase = Phase::Down(error.clone());
            state.crashes += 1;
        }
        let shown = error.shown(&self.context.settings().errors);
        self.process.warn(&shown);
        self.tell(EventName::Close, &[("error", json!(shown))]);
        true
    }

    /// Ends the connection, if there is one, as `then` says.
    async fn end(&self, change: impl FnOnce(&mut super::State)) {
        let connection = {
            let mut state = self.state();
            let connection = match &state.phase {
                Phase::Up { connection } => Some(connection.clone()),
                _ => None,
            };
            change(&mut state);
            connection
        };
        if let Some(connection) = connection {
            let was_up = connection.closed().is_none();
            connection.close().await;
            if was_up {
                self.tell(EventName::Close, &[]);
            }
        }
    }

    /// Stops it by hand.
    pub(crate) async fn stop(&self) {
        self.end(|state| state.phase = Phase::Stopped).await;
    }

    /// Ends the connection; the next call makes another one.
    pub(super) async fn part(&self) {
        self.end(|state| state.phase = Phase::Idle).await;
    }

    /// Ends it for good.
    pub(crate) async fn close(&self) {
        self.end(|state| {
            state.closed = true;
            state.phase = Phase::Idle;
        })
        .await;
    }

    /// Restarts it by hand: what is under way fails. With `wait`, the next call starts it.
    pub(crate) async fn restart(self: &Arc<Self>, wait: bool) -> Result<(), HostError> {
        let _starting = self.starting.lock().await;
        self.end(|state| {
            state.restarted = Some(state.generation);
            state.attempts = 0;
            state.forgiven = state.crashes;
            state.phase = Phase::Idle;
        })
        .await;
        match wait {
            true => Ok(()),
            false => self.ready_alone(&self.context.settings(), Wish::Manual).await.map(drop),
        }
    }

    /// Reads the list of tools again, of a server that is up.
    pub(crate) async fn refresh(&self) -> Result<Arc<Vec<Entry>>, HostError> {
        let connection = self.live().ok_or_else(|| self.why())?;
        let tools = connection.tools().await.map_err(|error| self.failed(error))?;
        self.remember(&tools);
        Ok(tools)
    }
}

/// Whether the server says that it has tools.
fn has_tools(connection: &Connection) -> bool {
    connection.negotiated().is_some_and(|negotiated| negotiated.capabilities.contains_key("tools"))
}

/// Whether a connection has ended because the server did not know its session any more.
fn is_lost_session(error: &HostError) -> bool {
    matches!(error, HostError::Server { error, .. } if matches!(**error, Error::Http { status: 404, .. }))
}

/// Counted as long as a start is under way.
struct Starting<'a>(&'a Server);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.state().starting -= 1;
    }
}

/// Follows a connection until its end. Boxed, as it may start the next connection, which is followed as well.
fn watch(
    server: Weak<Server>,
    mut events: sparring_client::Events,
    generation: u64,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        while let Some(event) = events.next().await {
            let Some(server) = server.upgrade() else { return };
            match event {
                Event::Refetched { kind: ListKind::Tools, outcome: Ok(_) } => {
                    if let Some(tools) = server.live().and_then(|c| c.cached(ListKind::Tools)) {
                        server.remember(&tools);
                    }
                }
                Event::Closed { error } => {
                    let settings = server.context.settings();
                    if server.went_down(generation, &error) && server.trigger(&settings) == Trigger::AtOnce {
                        let _starting = server.starting.lock().await;
                        // The failure is kept as the server's status.
                        drop(server.revive(&settings).await);
                    }
                    return;
                }
                _ => {}
            }
        }
    })
}

/// How long something took, in milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
