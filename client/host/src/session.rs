//! A chat, or an agent: what one model sees and calls.

use crate::control::{Control, Inspect};
use crate::entry::ServerEntry;
use crate::error::HostError;
use crate::events::SessionId;
use crate::host::Inner as HostInner;
use crate::model::{ModelResult, ModelTool, Part, Route};
use crate::pool::{HOST, Share};
use crate::server::target::Place;
use crate::server::{ServerState, Wish, entries, life_millis};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use sparring_client::naming::RawName;
use sparring_client::{CallOptions, CallResult, Connection, Entry, ListKind};
use sparring_profiles::{Connect, EventName, OnChange, OnFailure, Trigger, Visible};
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
    /// Only these tools, by composed names or globs; all if missing.
    pub allowed: Option<Vec<String>>,
    /// It shares no server with others.
    pub isolated: bool,
    /// It has no servers at all.
    pub without_servers: bool,
}

struct Inner {
    host: Arc<HostInner>,
    id: SessionId,
    options: SessionOptions,
    place: Place,
    /// What it holds, by the server's name.
    shares: Mutex<BTreeMap<String, Arc<Share>>>,
    /// What the model sees of each server.
    view: Mutex<BTreeMap<String, Arc<Vec<Entry>>>>,
    /// Whether it has had its start of servers. Held while that goes on, so that concurrent callers share one.
    bootstrapped: tokio::sync::Mutex<bool>,
}

/// A session. Clones are the same one; it gives back its servers when the last one is dropped, or by
/// [`Session::close`].
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

impl Session {
    pub(crate) fn new(host: &Arc<HostInner>, id: SessionId, options: SessionOptions) -> Self {
        let base = host.place();
        let place = Place {
            cwd: options.cwd.clone().unwrap_or(base.cwd),
            project: options.project.clone().or(base.project),
        };
        Self {
            inner: Arc::new(Inner {
                host: Arc::clone(host),
                id,
                options,
                place,
                shares: Mutex::default(),
                view: Mutex::default(),
                bootstrapped: tokio::sync::Mutex::default(),
            }),
        }
    }

    fn shares(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Share>>> {
        self.inner.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Vec<Entry>>>> {
        self.inner.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its number, as in events.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.inner.id
    }

    /// The configured servers that are switched on.
    fn entries(&self) -> Vec<ServerEntry> {
        if self.inner.options.without_servers {
            return Vec::new();
        }
        let settings = self.inner.host.context.settings();
        let on = |entry: &&ServerEntry| !(settings.startup.off_switch && entry.enabled == Some(false));
        self.inner.host.entries().iter().filter(on).cloned().collect()
    }

    fn entry(&self, server: &str) -> Result<ServerEntry, HostError> {
        let all = self.inner.host.entries();
        let found = all.iter().find(|entry| entry.name == server).cloned();
        let found = found.ok_or_else(|| HostError::NoServer(server.to_owned()))?;
        match self.entries().iter().any(|entry| entry.name == server) {
            true => Ok(found),
            false => Err(HostError::Disabled(server.to_owned(), "it is switched off".to_owned())),
        }
    }

    /// Its hold on a server; taken now if it has none.
    fn share(&self, entry: &ServerEntry) -> Result<Arc<Share>, HostError> {
        if let Some(share) = self.shares().get(&entry.name) {
            return Ok(Arc::clone(share));
        }
        let inner = &self.inner;
        let share = inner.host.pool.share(entry, &inner.place, inner.id, inner.options.isolated)?;
        let mut shares = self.shares();
        // Somebody else may have been quicker; then this one is given back.
        Ok(Arc::clone(shares.entry(entry.name.clone()).or_insert_with(|| Arc::new(share))))
    }

    pub(crate) fn into_shares(self) -> Vec<Arc<Share>> {
        std::mem::take(&mut *self.shares()).into_values().collect()
    }

    /// Starts all servers, once.
    pub(crate) async fn bootstrap(&self) -> Result<(), HostError> {
        let mut bootstrapped = self.inner.bootstrapped.lock().await;
        if *bootstrapped {
            return Ok(());
        }
        let settings = self.inner.host.context.settings();
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
        for (entry, outcome) in entries.iter().zip(outcomes) {
            let required = entry.required && settings.startup.required_option;
            if required || settings.startup.on_failure == OnFailure::Abort {
                outcome?;
            }
        }
        Ok(())
    }

    /// Starts a server, and reports it.
    async fn start(&self, entry: &ServerEntry, wish: Wish) -> Result<(), HostError> {
        let begin = Instant::now();
        let context = &self.inner.host.context;
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
        let kind = crate::server::target::kind_of(&settings, entry).ok();
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
        match self.inner.host.context.settings().startup.connect {
            Connect::FirstCall => {}
            Connect::Launch | Connect::Session | Connect::FirstRun => self.bootstrap().await?,
        }
        if self.inner.host.context.settings().list_changed.visible == Visible::NextTurn {
            self.rebuild();
        }
        Ok(())
    }

    /// Starts what starts with the first run, without one.
    ///
    /// # Errors
    /// If a server fails that must not.
    pub async fn warmup(&self) -> Result<(), HostError> {
        self.bootstrap().await
    }

    /// Makes the model see what is there.
    fn rebuild(&self) {
        self.view().clear();
    }

    /// What the model sees of a server: the list as it was when it was last made visible.
    fn seen(&self, entry: &ServerEntry) -> Arc<Vec<Entry>> {
        let latest = self.latest(entry);
        let visible = self.inner.host.context.settings().list_changed.visible;
        let mut view = self.view();
        match (view.get(&entry.name), latest) {
            (Some(seen), _) if visible != Visible::AtOnce => Arc::clone(seen),
            (_, Some(latest)) => {
                view.insert(entry.name.clone(), Arc::clone(&latest));
                latest
            }
            (Some(seen), None) => Arc::clone(seen),
            (None, None) => Arc::default(),
        }
    }

    /// The tools of a server as last known: of the running one, of the last run, of the cache.
    fn latest(&self, entry: &ServerEntry) -> Option<Arc<Vec<Entry>>> {
        let share = self.share(entry).ok()?;
        if let Some(tools) = share.server.tools() {
            return Some(tools);
        }
        let remembered = self.inner.host.context.parts.cache.get(&share.server.cache_key())?;
        Some(Arc::new(entries(&remembered)))
    }

    /// All tools, each with the server's entry that it is of.
    fn registry(&self) -> Vec<(ModelTool, Entry)> {
        let entries = self.entries();
        let lists: Vec<(&str, Arc<Vec<Entry>>)> =
            entries.iter().map(|entry| (entry.name.as_str(), self.seen(entry))).collect();
        let all: Vec<(&str, &Entry)> =
            lists.iter().flat_map(|(server, list)| list.iter().map(|tool| (*server, tool))).collect();
        let raw: Vec<RawName> = all
            .iter()
            .map(|(server, tool)| RawName { server: (*server).to_owned(), tool: tool.key.clone() })
            .collect();
        let names = self.inner.host.context.parts.naming.compose(&raw);
        all.into_iter()
            .zip(names)
            .filter_map(|((server, tool), name)| Some((model_tool(server, tool, name?), tool.clone())))
            .collect()
    }

    /// All tools that the model sees.
    ///
    /// # Errors
    /// If servers have to be started for that, and one fails that must not.
    pub async fn tools(&self) -> Result<Vec<ModelTool>, HostError> {
        let settings = self.inner.host.context.settings();
        match settings.startup.connect {
            _ if !settings.startup.listing_starts => {}
            Connect::FirstCall => self.bootstrap().await?,
            Connect::Launch | Connect::Session | Connect::FirstRun => self.run().await?,
        }
        Ok(self.registry().into_iter().map(|(tool, _)| tool).collect())
    }

    /// Calls a tool by its composed name.
    ///
    /// # Errors
    /// [`HostError::NoTool`] if there is none; otherwise whatever keeps the result away. A failure that the tool itself
    /// reports is a [`ModelResult`].
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<ModelResult, HostError> {
        let settings = self.inner.host.context.settings();
        if settings.startup.connect == Connect::FirstRun {
            self.bootstrap().await?;
        }
        let route = self.route(name).await?;
        let Route::Tool { server, tool } = route else {
            return Err(HostError::NoTool(name.to_owned()));
        };
        let share = self.share(&self.entry(&server)?)?;
        let manual = settings.restart.trigger == Trigger::Manual;
        if manual && !share.armed() {
            let why = "its server has ended, and is started again by hand or in a new session".to_owned();
            return Err(HostError::Disabled(name.to_owned(), why));
        }
        let options = self.budget(&share, &tool, options);
        let told = |kind: EventName, fields: Vec<(&str, Value)>| {
            let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
            self.inner.host.context.emit(kind, Some(&server), Some(self.inner.id), fields);
        };
        told(EventName::ToolCall, vec![("tool", json!(name)), ("arguments", json!(arguments))]);
        let result = share.server.call(self.inner.id, &tool, arguments, options).await;
        if settings.list_changed.visible == Visible::NextCall {
            self.view().remove(&server);
        }
        match &result {
            Ok(result) => {
                told(EventName::ToolResult, vec![("tool", json!(name)), ("ok", json!(!result.is_error()))])
            }
            Err(error) => told(
                EventName::ToolResult,
                vec![
                    ("tool", json!(name)),
                    ("ok", json!(false)),
                    ("error", json!(error.shown(&settings.errors))),
                ],
            ),
        }
        Ok(model_result(&result?))
    }

    /// What a composed name stands for.
    async fn route(&self, name: &str) -> Result<Route, HostError> {
        let settings = self.inner.host.context.settings();
        let find =
            || self.registry().into_iter().find(|(tool, _)| tool.name == name).map(|(tool, _)| tool.route);
        if let Some(route) = find() {
            return Ok(route);
        }
        // It may be new: what is out of date is brought up to date.
        if settings.list_changed.tools == OnChange::BeforeNextCall {
            for entry in self.entries() {
                if let Some(connection) = self.connection(&entry.name) {
                    // A list that can't be had leaves the name unknown.
                    drop(connection.known(ListKind::Tools).await);
                }
            }
            if settings.list_changed.visible == Visible::NextCall {
                self.rebuild();
            }
        }
        // It may belong to a server that was never started.
        if settings.startup.connect == Connect::FirstCall {
            for entry in self.entries() {
                if self.could_be_of(name, &entry.name) && self.latest(&entry).is_none() {
                    self.start(&entry, Wish::Call).await?;
                }
            }
        }
        find().ok_or_else(|| HostError::NoTool(name.to_owned()))
    }

    /// Whether a composed name looks like one of a server's.
    fn could_be_of(&self, name: &str, server: &str) -> bool {
        let probe = RawName { server: server.to_owned(), tool: "x".to_owned() };
        let composed = self.inner.host.context.parts.naming.compose(&[probe]).into_iter().next().flatten();
        composed.is_some_and(|composed| match composed.rsplit_once('x') {
            Some((before, after)) => name.starts_with(before) && name.ends_with(after),
            None => false,
        })
    }

    /// The time that a call may take.
    fn budget(&self, share: &Share, tool: &str, mut options: CallOptions) -> CallOptions {
        let context = &self.inner.host.context;
        let settings = context.settings();
        let per_tool = share.entry.per_tool_timeout.get(tool).copied().filter(|_| settings.timeouts.per_tool);
        let seconds = per_tool.or(share.entry.tool_timeout).unwrap_or(settings.timeouts.tool_s);
        options.request.timeout =
            options.request.timeout.or_else(|| Some(context.parts.clock.seconds(seconds)));
        options
    }

    /// The connection to a server, if it is up: for what is not a call of a tool.
    #[must_use]
    pub fn connection(&self, server: &str) -> Option<Connection> {
        let share = self.shares().get(server).cloned()?;
        share.server.live()
    }

    /// The connection to a server, which is started if a call would start it.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(&self, server: &str) -> Result<Connection, HostError> {
        let share = self.share(&self.entry(server)?)?;
        share.server.ready(Wish::Call).await.map(|(connection, _)| connection)
    }

    /// Looks at something.
    ///
    /// # Errors
    /// If there is nothing to look at.
    pub async fn inspect(&self, what: Inspect) -> Result<Value, HostError> {
        let host = &self.inner.host;
        let mine = |session: Option<SessionId>| session.is_none_or(|session| session == self.inner.id);
        Ok(match what {
            Inspect::Status => self.status(),
            Inspect::Instances => json!(host.pool.instances()),
            Inspect::Events => {
                let events = host.context.log.all();
                json!(events.iter().map(Arc::as_ref).filter(|event| mine(event.session)).collect::<Vec<_>>())
            }
            Inspect::Log => {
                let events = host.context.log.all();
                let of_nobody = |event: &&crate::events::HostEvent| {
                    event.session.is_none() && event.kind == EventName::Warn
                };
                json!(events.iter().map(Arc::as_ref).filter(of_nobody).collect::<Vec<_>>())
            }
            other => return Err(HostError::Refused(format!("{other:?} can't be looked at yet"))),
        })
    }

    /// All configured servers, as this session sees them.
    fn status(&self) -> Value {
        let settings = self.inner.host.context.settings();
        let on = self.entries();
        let one = |entry: &ServerEntry| {
            let (state, error) = match on.iter().any(|other| other.name == entry.name) {
                false => (ServerState::Off, None),
                true => match self.share(entry) {
                    Ok(share) => share.server.status(),
                    Err(error) => (ServerState::Errored, Some(error)),
                },
            };
            let tools = match state {
                ServerState::Off => 0,
                _ => self.latest(entry).map_or(0, |tools| tools.len()),
            };
            let kind = crate::server::target::kind_of(&settings, entry).ok();
            let code =
                error.as_ref().and_then(HostError::code).and_then(|code| settings.errors.codes.get(&code));
            json!({
                "name": entry.name,
                "transport": kind,
                "state": state,
                "tools": tools,
                "error": error.as_ref().map(|error| error.shown(&settings.errors)),
                "code": code,
            })
        };
        self.inner.host.entries().iter().map(one).collect()
    }

    /// Does something besides a call.
    ///
    /// # Errors
    /// If it can't be done, or fails.
    pub async fn control(&self, control: Control) -> Result<Value, HostError> {
        let pool = &self.inner.host.pool;
        match control {
            Control::Start { server } => {
                let entry = self.entry(&server)?;
                if self.share(&entry)?.server.status().0 == ServerState::Starting {
                    return Err(HostError::Refused(format!("{server:?} is being started already")));
                }
                self.start(&entry, Wish::Manual).await?;
            }
            Control::Stop { server } => self.share(&self.entry(&server)?)?.server.stop().await,
            Control::Restart { server } => {
                let wait = self.inner.host.context.settings().pool.restart_waits;
                let share = self.share(&self.entry(&server)?)?;
                share.server.restart(wait).await?;
            }
            Control::Retire { server } => pool.retire(&self.entry(&server)?.name).await,
            Control::Refresh { server: Some(server) } => {
                self.share(&self.entry(&server)?)?.server.refresh().await?;
            }
            Control::Refresh { server: None } => {
                for entry in self.entries() {
                    let share = self.share(&entry)?;
                    if share.server.live().is_some() {
                        share.server.refresh().await?;
                    }
                }
            }
            Control::Rebuild => self.rebuild(),
            Control::Warmup => self.warmup().await?,
            Control::Reopen => self.reopen().await?,
            Control::Set { setting, value } => self.inner.host.set(&setting, value)?,
            other => return Err(HostError::Refused(format!("{other:?} can't be done yet"))),
        }
        Ok(Value::Null)
    }

    /// As closing and opening it: shares are taken anew, and what is disarmed is armed.
    async fn reopen(&self) -> Result<(), HostError> {
        drop(std::mem::take(&mut *self.shares()));
        self.rebuild();
        *self.inner.bootstrapped.lock().await = false;
        match self.inner.host.context.settings().startup.connect {
            Connect::Launch | Connect::Session => self.bootstrap().await,
            Connect::FirstRun | Connect::FirstCall => Ok(()),
        }
    }

    /// Gives all servers back. Those that were for this session alone are closed, and that is waited for.
    pub async fn close(&self) {
        let shares = std::mem::take(&mut *self.shares());
        drop(shares);
        self.inner.host.pool.settle().await;
    }
}

fn model_tool(server: &str, tool: &Entry, name: String) -> ModelTool {
    let text = |member: &str| tool.json.get(member).and_then(Value::as_str).map(str::to_owned);
    ModelTool {
        name,
        server: Some(server.to_owned()),
        route: Route::Tool { server: server.to_owned(), tool: tool.key.clone() },
        title: text("title"),
        description: text("description"),
        input_schema: tool.json.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"})),
        output_schema: tool.json.get("outputSchema").cloned(),
        annotations: tool.json.get("annotations").cloned(),
    }
}

fn model_result(result: &CallResult) -> ModelResult {
    ModelResult {
        content: result.content().iter().cloned().map(Part::Block).collect(),
        structured: result.structured().cloned(),
        is_error: result.is_error(),
    }
}
