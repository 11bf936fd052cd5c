//! A chat, or an agent: what one model sees and calls.

mod calls;
mod inspect;
mod login;
mod registry;

use crate::context::Context;
use crate::disclosure::{Conversation, DisclosureOptions};
use crate::entry::ServerEntry;
use crate::error::HostError;
use crate::events::SessionId;
use crate::host::Inner as HostInner;
use crate::model::ModelTool;
use crate::policy::{Change, NameSet, RuleBook, Visible};
use crate::pool::{HOST, Share};
use crate::server::target::{Place, kind_of};
use crate::server::{Server, Wish, life_millis};
use futures_util::future::join_all;
use registry::Registry;
use serde_json::{Value, json};
use sparring_client::{Connection, Entry};
use sparring_profiles::{
    Connect, EventName, FoundLasts, OnChange, OnFailure, Reload, RetryFailed, Settings, Visible as When,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// How a session is opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionOptions {
    /// Its working directory, if it is not the host's.
    pub cwd: Option<PathBuf>,
    /// Its project, if it is not the host's.
    pub project: Option<PathBuf>,
    /// Which tools it has.
    pub visible: Visible,
    /// What the model sees of them.
    pub disclosure: DisclosureOptions,
    /// The conversation that it goes on with.
    pub conversation: Conversation,
    /// It shares no server with others.
    pub isolated: bool,
    /// It has no servers at all.
    pub without_servers: bool,
}

/// What the cache remembers of a server, and the list made of it.
type Recalled = (Arc<Vec<Value>>, Arc<Vec<Entry>>);

struct Inner {
    host: Arc<HostInner>,
    id: SessionId,
    place: Place,
    isolated: bool,
    without_servers: bool,
    /// The servers as they were configured when that was last looked at.
    entries: Mutex<Arc<Vec<ServerEntry>>>,
    visible: Mutex<Visible>,
    disclosure: Mutex<DisclosureOptions>,
    conversation: Mutex<Conversation>,
    /// Changes of rules that hold for it alone.
    rules: Mutex<Vec<Change>>,
    /// Tools whose calls are approved once and for all, if it has its own list.
    auto_approved: Mutex<Option<NameSet>>,
    /// The tools that a gate refuses.
    refused: Mutex<NameSet>,
    /// What it holds, by the server's name.
    shares: Mutex<BTreeMap<String, Arc<Share>>>,
    /// What the model sees of each server.
    view: Mutex<BTreeMap<String, Arc<Vec<Entry>>>>,
    /// Lists that were made of what is remembered, with that.
    recalled: Mutex<BTreeMap<String, Recalled>>,
    /// The tools made of that.
    registry: Mutex<Option<Arc<Registry>>>,
    /// Whether it has had its start of servers. Held while that goes on, so that concurrent callers share one.
    bootstrapped: tokio::sync::Mutex<bool>,
}

/// A session. Clones are the same one; it gives back its servers when the last one is dropped, or by
/// [`Session::close`].
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

/// What a session chose, with what the entries of servers say where it did not choose.
fn with_entries(mut options: DisclosureOptions, entries: &[ServerEntry]) -> DisclosureOptions {
    for entry in entries {
        if let Some(own) = entry.disclosure {
            options.servers.entry(entry.name.clone()).or_insert(own);
        }
    }
    options
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    pub(crate) fn new(host: &Arc<HostInner>, id: SessionId, options: SessionOptions) -> Self {
        let base = host.place();
        let entries = host.entries();
        let disclosure = with_entries(options.disclosure, &entries);
        Self {
            inner: Arc::new(Inner {
                host: Arc::clone(host),
                id,
                place: Place {
                    cwd: options.cwd.unwrap_or(base.cwd),
                    project: options.project.or(base.project),
                },
                isolated: options.isolated,
                without_servers: options.without_servers,
                entries: Mutex::new(entries),
                visible: Mutex::new(options.visible),
                disclosure: Mutex::new(disclosure),
                conversation: Mutex::new(options.conversation),
                rules: Mutex::default(),
                auto_approved: Mutex::default(),
                refused: Mutex::default(),
                shares: Mutex::default(),
                view: Mutex::default(),
                recalled: Mutex::default(),
                registry: Mutex::default(),
                bootstrapped: tokio::sync::Mutex::default(),
            }),
        }
    }

    fn context(&self) -> &Context {
        &self.inner.host.context
    }

    fn settings(&self) -> Arc<Settings> {
        self.context().settings()
    }

    /// Its number, as in events.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.inner.id
    }

    /// What its conversation has found so far; for the next session of the same conversation.
    #[must_use]
    pub fn conversation(&self) -> Conversation {
        lock(&self.inner.conversation).clone()
    }

    /// Turns of the conversation are replaced by a summary.
    pub fn compact(&self) {
        lock(&self.inner.conversation).compact();
    }

    /// Changes which tools it has; that holds from the next turn on, and touches no server.
    pub fn set_visible(&self, visible: Visible) {
        *lock(&self.inner.visible) = visible;
    }

    /// The rules that hold for it: the host's, and its own over them.
    fn rules(&self) -> RuleBook {
        let mut book = self.context().rules();
        for change in lock(&self.inner.rules).iter() {
            book.change(change.clone());
        }
        if let Some(names) = lock(&self.inner.auto_approved).clone() {
            book.set_auto_approved(names);
        }
        book
    }

    /// Changes rules. Where the project has a place for its rules, they are the project's, and hold for all its sessions;
    /// elsewhere they hold for this session alone.
    fn change_rules(&self, rules: &Value) -> Result<(), HostError> {
        let context = self.context();
        if context.keeps_rules() {
            let changes = context.change_rules(|book| book.merge(rules))?;
            return changes.iter().try_for_each(|change| context.save_rule(change));
        }
        let mut trial = RuleBook::default();
        let changes = trial.merge(rules)?;
        lock(&self.inner.rules).extend(changes);
        if rules.get("auto_approve").is_some() {
            *lock(&self.inner.auto_approved) = Some(trial.auto_approved_names().clone());
        }
        Ok(())
    }

    /// Which tools it has, in a host whose sessions can have fewer than there are.
    fn visible(&self) -> Visible {
        match self.settings().policy.session_filter {
            true => lock(&self.inner.visible).clone(),
            false => Visible::default(),
        }
    }

    /// Changes what the model sees of its tools.
    pub fn set_disclosure(&self, options: DisclosureOptions) {
        *lock(&self.inner.disclosure) = with_entries(options, &self.configured());
    }

    fn configured(&self) -> Arc<Vec<ServerEntry>> {
        Arc::clone(&lock(&self.inner.entries))
    }

    /// The configured servers that are switched on.
    fn entries(&self) -> Vec<ServerEntry> {
        if self.inner.without_servers {
            return Vec::new();
        }
        let has_switch = self.settings().startup.off_switch;
        self.configured().iter().filter(|entry| !has_switch || entry.is_on()).cloned().collect()
    }

    fn entry(&self, server: &str) -> Result<ServerEntry, HostError> {
        let all = self.configured();
        let found = all.iter().find(|entry| entry.name == server);
        let found = found.filter(|_| !self.inner.without_servers);
        let found = found.ok_or_else(|| HostError::NoServer(server.to_owned()))?;
        match found.is_on() || !self.settings().startup.off_switch {
            true => Ok(found.clone()),
            false => Err(HostError::Disabled(server.to_owned(), "it is switched off".to_owned())),
        }
    }

    /// Its hold on a server; taken now if it has none.
    fn share(&self, entry: &ServerEntry) -> Result<Arc<Share>, HostError> {
        {
            let stays = self.settings().pool.retires;
            let mut shares = lock(&self.inner.shares);
            // Where servers are not retired in peace, their holders move at once.
            let moved = shares.extract_if(.., |_, share| !stays && share.server.is_retired());
            let moved: Vec<_> = moved.collect();
            let held = shares.get(&entry.name).cloned();
            drop(shares);
            drop(moved);
            if let Some(share) = held {
                return Ok(share);
            }
        }
        let inner = &self.inner;
        let share = Arc::new(inner.host.pool.share(entry, &inner.place, inner.id, inner.isolated)?);
        let mut shares = lock(&inner.shares);
        // Somebody else may have been quicker; then this one is given back.
        Ok(Arc::clone(shares.entry(entry.name.clone()).or_insert(share)))
    }

    /// The server of an entry, if there is one; it is not held for that.
    fn server(&self, entry: &ServerEntry) -> Option<Arc<Server>> {
        let held = lock(&self.inner.shares).get(&entry.name).map(|share| Arc::clone(&share.server));
        held.or_else(|| self.inner.host.pool.peek(entry, &self.inner.place, self.inner.isolated))
    }

    fn share_of(&self, server: &str) -> Result<Arc<Share>, HostError> {
        self.share(&self.entry(server)?)
    }

    pub(crate) fn into_shares(self) -> Vec<Arc<Share>> {
        std::mem::take(&mut *lock(&self.inner.shares)).into_values().collect()
    }

    /// Starts all servers, once.
    pub(crate) async fn bootstrap(&self) -> Result<(), HostError> {
        let mut bootstrapped = self.inner.bootstrapped.lock().await;
        if *bootstrapped {
            return Ok(());
        }
        let settings = self.settings();
        let entries = self.entries();
        let outcomes = match settings.startup.parallel {
            true => join_all(entries.iter().map(|entry| self.start(entry, Wish::Bootstrap))).await,
            false => {
                let mut outcomes = Vec::new();
                for entry in &entries {
                    outcomes.push(self.start(entry, Wish::Bootstrap).await);
                }
                outcomes
            }
        };
        *bootstrapped = true;
        drop(bootstrapped);
        for (entry, outcome) in entries.iter().zip(outcomes) {
            let required = entry.required && settings.startup.required_option;
            if required || settings.startup.on_failure == OnFailure::Abort {
                outcome?;
            }
        }
        // Names that clash may be a mistake of the configuration.
        self.registry().map(drop)
    }

    /// Starts servers again that have failed to start, where a later start of all of them does that.
    async fn bootstrap_again(&self) {
        let settings = self.settings();
        if settings.startup.retry_failed != RetryFailed::NextBootstrap {
            return;
        }
        for entry in self.entries() {
            if self.server(&entry).is_some_and(|server| server.has_failed()) {
                // The failure is reported, and kept as the server's status.
                drop(self.start(&entry, Wish::Bootstrap).await);
            }
        }
    }

    /// Starts a server, and reports it.
    async fn start(&self, entry: &ServerEntry, wish: Wish) -> Result<(), HostError> {
        let begin = Instant::now();
        let context = self.context();
        let settings = context.settings();
        let lazy = entry.lazy_connect && settings.discovery.lazy_connect && settings.discovery.supplied_tools;
        if lazy && entry.supplied_tools.is_some() && wish == Wish::Bootstrap {
            return self.share(entry).map(drop);
        }
        let started = async {
            let share = self.share(entry)?;
            let was_up = share.server.live().is_some();
            let (connection, _) = share.server.ready(wish).await?;
            if was_up && settings.pool.lists_per_session && share.server.supplied().is_none() {
                // One's own look at a shared server. What it had is still there if that fails.
                drop(connection.tools().await);
            }
            Ok(share.server.tools().map_or(0, |tools| tools.len()))
        };
        let outcome: Result<usize, HostError> = started.await;
        let wanted = |name: &str| settings.events.started_fields.iter().any(|field| field == name);
        let kind = kind_of(&settings, entry).ok();
        let all = [
            ("name", Some(json!(entry.name))),
            ("transport", kind.map(|kind| json!(kind))),
            ("durationMs", Some(json!(life_millis(begin.elapsed())))),
            ("ok", Some(json!(outcome.is_ok()))),
            ("toolCount", outcome.as_ref().ok().map(|count| json!(count))),
            ("error", outcome.as_ref().err().map(|error| json!(error.shown(&settings.errors)))),
        ];
        let fields = all.into_iter().filter(|(name, _)| wanted(name));
        let fields = fields.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let session = Some(self.inner.id).filter(|id| *id != HOST);
        context.emit(EventName::Started, Some(&entry.name), session, fields);
        outcome.map(drop)
    }

    /// Begins a turn of the model: what starts with the first run is started, and what the model sees is brought up to
    /// date where that waits for turns.
    ///
    /// # Errors
    /// If a server fails that must not.
    pub async fn run(&self) -> Result<(), HostError> {
        let settings = self.settings();
        if settings.config.reload == Reload::Run {
            self.reload().await;
        }
        self.move_on();
        if settings.disclosure.found_lasts == FoundLasts::Run {
            *lock(&self.inner.conversation) = Conversation::default();
        }
        if settings.startup.connect != Connect::FirstCall {
            let again = *self.inner.bootstrapped.lock().await;
            self.bootstrap().await?;
            if again {
                self.bootstrap_again().await;
            }
        }
        if settings.list_changed.visible == When::NextTurn {
            self.rebuild();
        }
        Ok(())
    }

    /// Starts what starts with the first run, without one.
    ///
    /// # Errors
    /// If a server fails that must not.
    pub async fn warmup(&self) -> Result<(), HostError> {
        if *self.inner.bootstrapped.lock().await {
            self.bootstrap_again().await;
        }
        self.bootstrap().await.map_err(|error| self.context().parts.redact.failure(error))
    }

    /// Takes over an edited configuration: what has changed is started anew.
    async fn reload(&self) {
        if !self.inner.host.reload() {
            return;
        }
        let (before, now) = (self.configured(), self.inner.host.entries());
        let gone: Vec<&ServerEntry> = before.iter().filter(|entry| !now.contains(entry)).collect();
        if gone.is_empty() && before.len() == now.len() {
            return;
        }
        *lock(&self.inner.entries) = Arc::clone(&now);
        for entry in gone {
            self.inner.host.pool.retire(&entry.name).await;
            lock(&self.inner.shares).remove(&entry.name);
            lock(&self.inner.view).remove(&entry.name);
        }
        *self.inner.bootstrapped.lock().await = false;
    }

    /// Leaves servers that are retired; their successors are started when they are needed.
    fn move_on(&self) {
        let mut shares = lock(&self.inner.shares);
        let before = shares.len();
        let left: Vec<Arc<Share>> =
            shares.extract_if(.., |_, share| share.server.is_retired()).map(|(_, share)| share).collect();
        let moved = shares.len() != before;
        drop(shares);
        drop(left);
        if moved && let Ok(mut bootstrapped) = self.inner.bootstrapped.try_lock() {
            *bootstrapped = false;
        }
    }

    /// All tools that the model sees.
    ///
    /// # Errors
    /// If servers have to be started for that, and one fails that must not.
    pub async fn tools(&self) -> Result<Vec<ModelTool>, HostError> {
        let settings = self.settings();
        if settings.startup.listing_starts {
            self.bootstrap().await.map_err(|error| self.context().parts.redact.failure(error))?;
        }
        if settings.list_changed.tools == OnChange::RefetchNow
            && settings.list_changed.visible == When::AtOnce
        {
            // The new list is on its way; the old one would be a lie.
            let all: Vec<String> = self.entries().iter().map(|entry| entry.name.clone()).collect();
            self.catch_up(&all, true).await;
        }
        let registry = self.registry()?;
        let stage = self.stage(&registry);
        let disclosing = stage.disclosing(self.context(), &settings);
        let own = self.own(&stage, &disclosing);
        let shown: Vec<Value> = self.shown(&stage, &disclosing);
        let name = |definition: &Value| definition.get("name").and_then(Value::as_str).map(str::to_owned);
        let all = || stage.tools.iter().chain(&own);
        let tools = shown.iter().filter_map(name).filter_map(|name| all().find(|tool| tool.name == name));
        Ok(tools.cloned().collect())
    }

    /// The connection to a server, if it is up: for what is not a call of a tool.
    #[must_use]
    pub fn connection(&self, server: &str) -> Option<Connection> {
        let share = lock(&self.inner.shares).get(server).cloned()?;
        share.server.live()
    }

    /// The connection to a server, which is started if a call would start it.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(&self, server: &str) -> Result<Connection, HostError> {
        let connected = async {
            let share = self.share_of(server)?;
            share.server.ready(Wish::Call).await
        };
        let connected = connected.await.map_err(|error| self.context().parts.redact.failure(error));
        connected.map(|(connection, _)| connection)
    }

    /// As closing and opening it: shares are taken anew, and what is disarmed is armed.
    async fn reopen(&self) -> Result<(), HostError> {
        drop(std::mem::take(&mut *lock(&self.inner.shares)));
        let settings = self.settings();
        if settings.config.reload != Reload::Start && self.inner.host.reload() {
            *lock(&self.inner.entries) = self.inner.host.entries();
        }
        // Another conversation, which has found nothing and answered nothing.
        *lock(&self.inner.conversation) = Conversation::default();
        self.context().parts.approvals.forget();
        self.rebuild();
        *self.inner.bootstrapped.lock().await = false;
        match settings.startup.connect {
            Connect::Launch | Connect::Session => self.bootstrap().await,
            Connect::FirstRun | Connect::FirstCall => Ok(()),
        }
    }

    /// Gives all servers back. Those that were for this session alone are closed, and that is waited for.
    pub async fn close(&self) {
        let shares = std::mem::take(&mut *lock(&self.inner.shares));
        drop(shares);
        self.inner.host.pool.settle().await;
    }
}
