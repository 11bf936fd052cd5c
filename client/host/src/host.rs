//! A program's lifetime: configuration, servers, stores.

use crate::clock::Clock;
use crate::config::{FixedConfig, Loaded};
use crate::context::{ClientHook, Context};
use crate::entry::ServerEntry;
use crate::error::HostError;
use crate::events::{EventLog, EventSink, Sinks};
use crate::parts::HostParts;
use crate::policy::{Change, Scope};
use crate::pool::{HOST, Instance, Pool, Share};
use crate::server::cache_key_of;
use crate::server::target::Place;
use crate::session::{Session, SessionOptions};
use crate::surroundings::Surroundings;
use serde_json::Value;
use sparring_client::ClientBuilder;
use sparring_profiles::{Connect, Reload, Settings};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

type PartsHook = Box<dyn FnOnce(HostParts) -> HostParts + Send>;

/// Makes a [`Host`].
pub struct HostBuilder {
    settings: Settings,
    surroundings: Surroundings,
    entries: Option<Vec<ServerEntry>>,
    client: ClientHook,
    parts: Vec<PartsHook>,
    sinks: Vec<Arc<dyn EventSink>>,
    clock: Clock,
}

impl HostBuilder {
    /// These servers, instead of those of the configuration files.
    #[must_use]
    pub fn entries(mut self, entries: Vec<ServerEntry>) -> Self {
        self.entries = Some(entries);
        self
    }

    /// Changes how clients are made: callbacks, HTTP, filters. Its launcher is set by the host; see
    /// [`HostParts::launcher`].
    #[must_use]
    pub fn client(mut self, hook: impl Fn(ClientBuilder) -> ClientBuilder + Send + Sync + 'static) -> Self {
        let before = self.client;
        self.client = Arc::new(move |builder| hook(before(builder)));
        self
    }

    /// Wraps or replaces parts.
    #[must_use]
    pub fn parts(mut self, hook: impl FnOnce(HostParts) -> HostParts + Send + 'static) -> Self {
        self.parts.push(Box::new(hook));
        self
    }

    /// Events go there as well.
    #[must_use]
    pub fn events(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Divides all durations.
    #[must_use]
    pub fn clock_scale(mut self, scale: f64) -> Self {
        self.clock = Clock::new(scale);
        self
    }
}

pub(crate) struct Inner {
    pub(crate) context: Arc<Context>,
    pub(crate) pool: Arc<Pool>,
    entries: RwLock<Arc<Vec<ServerEntry>>>,
    /// What is kept running whether sessions use it or not.
    kept: Mutex<Vec<Arc<Share>>>,
    next_session: AtomicU64,
}

/// A host. Clones are the same one.
#[derive(Clone)]
pub struct Host {
    pub(crate) inner: Arc<Inner>,
}

impl Inner {
    pub(crate) fn entries(&self) -> Arc<Vec<ServerEntry>> {
        Arc::clone(&self.entries.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Arc<Share>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a session is by default.
    pub(crate) fn place(&self) -> Place {
        let surroundings = &self.context.surroundings;
        let rule = self.context.settings().config.project_root;
        Place { cwd: surroundings.cwd.clone(), project: surroundings.project_root(rule) }
    }

    /// Takes over a configuration.
    fn configure(&self, loaded: Loaded) {
        for fault in &loaded.faults {
            self.context.warn_once(&format!("{}: {}", fault.server, fault.message));
        }
        self.context.change_rules(|book| {
            for entry in loaded.entries.iter().filter(|entry| !entry.policy.is_empty()) {
                let scope = Scope::Server(entry.name.clone());
                book.change(Change { scope, rule: Some(entry.policy.clone()) });
            }
        });
        let place = self.place();
        for (server, tools) in &loaded.tool_caches {
            let key = cache_key_of(&place, server);
            // What was learnt since is newer.
            if self.context.parts.cache.get(&key).is_none() {
                self.context.parts.cache.put(&key, tools);
            }
        }
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if **entries != loaded.entries {
            *entries = Arc::new(loaded.entries);
        }
    }

    /// Reads the configuration again. `false`: it can't be read, and nothing changes.
    pub(crate) fn reload(&self) -> bool {
        match self.context.parts.config.load(&self.context.surroundings) {
            Ok(loaded) => {
                self.configure(loaded);
                true
            }
            Err(error) => {
                self.context.warn_once(&error.to_string());
                false
            }
        }
    }
}

impl Host {
    /// Begins to make a host.
    #[must_use]
    pub fn builder(settings: Settings, surroundings: Surroundings) -> HostBuilder {
        HostBuilder {
            settings,
            surroundings,
            entries: None,
            client: Arc::new(|builder| builder),
            parts: Vec::new(),
            sinks: Vec::new(),
            clock: Clock::default(),
        }
    }

    /// Starts the program: what a killed one left behind is ended, and servers are started if the host does that at its
    /// launch.
    ///
    /// # Errors
    /// If a server fails that must not; by then the others are closed.
    pub async fn launch(builder: HostBuilder) -> Result<Self, HostError> {
        let HostBuilder { settings, surroundings, entries, client, parts: hooks, sinks, clock } = builder;
        let mut parts = HostParts::new(&settings, &surroundings, clock);
        if let Some(entries) = entries {
            parts.config = Arc::new(FixedConfig(entries));
        }
        for hook in hooks {
            parts = hook(parts);
        }
        if !sinks.is_empty() {
            let all = std::iter::once(Arc::clone(&parts.events)).chain(sinks).collect();
            parts.events = Arc::new(Sinks(all));
        }
        let (connect, reaps) = (settings.startup.connect, settings.shutdown.reaps_orphans);
        let loaded = parts.config.load(&surroundings)?;
        let context = Context::new(settings, surroundings, parts, client);
        context.load_rules()?;
        if reaps {
            let records = Arc::clone(&context.parts.records);
            // A failure leaves them to the next start.
            drop(tokio::task::spawn_blocking(move || records.reap()).await);
        }
        let host = Self {
            inner: Arc::new(Inner {
                pool: Pool::new(&context),
                context,
                entries: RwLock::default(),
                kept: Mutex::default(),
                next_session: AtomicU64::new(HOST + 1),
            }),
        };
        host.inner.configure(loaded);
        if connect == Connect::Launch {
            let session = Session::new(&host.inner, HOST, SessionOptions::default());
            if let Err(error) = session.bootstrap().await {
                drop(session);
                host.close().await;
                return Err(host.inner.context.parts.redact.failure(error));
            }
            host.inner.kept().extend(session.into_shares());
        }
        Ok(host)
    }

    /// Opens a session: a chat, or an agent.
    ///
    /// # Errors
    /// If servers are started with the session, and one fails that must not.
    pub async fn session(&self, options: SessionOptions) -> Result<Session, HostError> {
        let id = self.inner.next_session.fetch_add(1, Ordering::Relaxed);
        let settings = self.inner.context.settings();
        if settings.config.reload != Reload::Start {
            self.inner.reload();
        }
        let session = Session::new(&self.inner, id, options);
        match settings.startup.connect {
            Connect::Launch | Connect::Session => {
                let failed = |error| self.inner.context.parts.redact.failure(error);
                session.bootstrap().await.map_err(failed)?;
            }
            Connect::FirstRun | Connect::FirstCall => {}
        }
        Ok(session)
    }

    /// The configured servers.
    #[must_use]
    pub fn entries(&self) -> Arc<Vec<ServerEntry>> {
        self.inner.entries()
    }

    /// The settings as they are now.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        self.inner.context.settings()
    }

    /// Changes a setting by its id, such as `timeouts.tool_s`. It holds for what begins from now on.
    ///
    /// # Errors
    /// If there is no such setting, or it does not take the value.
    pub fn set(&self, setting: &str, value: Value) -> Result<(), HostError> {
        self.inner.set(setting, value)
    }

    /// The latest events.
    #[must_use]
    pub fn events(&self) -> &EventLog {
        &self.inner.context.log
    }

    /// The servers of the pool.
    #[must_use]
    pub fn instances(&self) -> Vec<Instance> {
        self.inner.pool.instances()
    }

    /// Closes all servers, whoever holds them, and waits for it.
    pub async fn close(&self) {
        self.inner.pool.close().await;
        let kept = std::mem::take(&mut *self.inner.kept());
        drop(kept);
    }
}

impl Inner {
    pub(crate) fn set(&self, setting: &str, value: Value) -> Result<(), HostError> {
        let refused = |why: String| HostError::Refused(format!("the setting `{setting}`: {why}"));
        let mut all = serde_json::to_value(&*self.context.settings()).map_err(|e| refused(e.to_string()))?;
        let mut parts = setting.split('.');
        let place = parts.try_fold(&mut all, |value, part| value.get_mut(part));
        let place = place.ok_or_else(|| refused("there is none of that name".to_owned()))?;
        *place = value;
        let settings = serde_json::from_value(all).map_err(|error| refused(error.to_string()))?;
        self.context.replace_settings(settings);
        Ok(())
    }
}
