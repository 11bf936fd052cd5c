//! The client and its connections to single servers.

use crate::cached::{Freshness, Results};
use crate::core::headers::{Mirror, mirrored, mirrors};
use crate::core::{Event, Filter, Headers, ListKind, Negotiated, Origin, RequestOptions, Session};
use crate::engine::{Answer, Changed, Command, Engine, NewRequest, ProgressCallback, Status};
use crate::eras::Eras;
use crate::error::Error;
use crate::http::{Authorize, HttpClient, HttpLink, HttpParts, HttpTarget, Speaks, SystemHttp};
use crate::link::Link;
use crate::naming::{HashedNames, Naming};
use crate::oauth::{Authorizer, AuthorizerParts, Browser, CredentialStore, MemoryStore, NoBrowser};
use crate::raw::Raw;
use crate::result;
pub use crate::result::CallResult;
use crate::seams::{
    Backoff, Callbacks, Entropy, FollowCursors, ListPolicy, MessageFilter, NextPage, NoCallbacks,
    SystemEntropy,
};
use crate::settings::{ListChangedPolicy, OauthSettings, Root, Settings, TaskUse};
use crate::stdio::{Launcher, StdioLink, StdioTarget, SystemLauncher};
use crate::subscription::Subscription;
use serde_json::{Map, Value, json};
use sparring_wire::jsonrpc::codes;
use sparring_wire::{Revision, Transport};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// As a child process.
    Stdio(StdioTarget),
    /// Over Streamable HTTP, or over HTTP+SSE if the server turns out to know nothing else and
    /// [`HttpSettings::legacy_fallback`](crate::HttpSettings::legacy_fallback) allows it.
    Http(HttpTarget),
    /// Over HTTP+SSE of 2024-11-05; the URL is that of the event stream.
    Sse(HttpTarget),
}

/// Everything a client is made of.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) http: Option<Arc<dyn HttpClient>>,
    pub(crate) filter: Option<Arc<dyn MessageFilter>>,
    pub(crate) callbacks: Arc<dyn Callbacks>,
    pub(crate) lists: Arc<dyn ListPolicy>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) browser: Arc<dyn Browser>,
    pub(crate) credentials: Arc<dyn CredentialStore>,
    pub(crate) naming: Arc<dyn Naming>,
    pub(crate) backoff: Arc<dyn Backoff>,
    pub(crate) eras: Eras,
}

/// Builds a [`Client`]: settings, and parts other than the default ones.
pub struct ClientBuilder {
    parts: Parts,
}

macro_rules! part {
    ($(#[$doc:meta])* $name:ident: $kind:ident) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, part: Arc<dyn $kind>) -> Self {
            self.parts.$name = part;
            self
        }
    };
}

impl ClientBuilder {
    part!(
        /// How stdio servers are started.
        launcher: Launcher
    );
    part!(
        /// Who answers what servers ask.
        callbacks: Callbacks
    );
    part!(
        /// How paginated lists are read.
        lists: ListPolicy
    );
    part!(
        /// Where randomness comes from.
        entropy: Entropy
    );
    part!(
        /// How authorization URLs are visited.
        browser: Browser
    );
    part!(
        /// Where tokens and registrations are kept.
        credentials: CredentialStore
    );
    part!(
        /// How a [`crate::Host`] names tools.
        naming: Naming
    );
    part!(
        /// How long a [`crate::Host`] waits before restarts.
        backoff: Backoff
    );

    /// How HTTP requests are made. Without it, each connection has a [`SystemHttp`] of its own.
    #[must_use]
    pub fn http(mut self, http: Arc<dyn HttpClient>) -> Self {
        self.parts.http = Some(http);
        self
    }

    /// What sees all messages on their way.
    #[must_use]
    pub fn filter(mut self, filter: Arc<dyn MessageFilter>) -> Self {
        self.parts.filter = Some(filter);
        self
    }

    /// The client.
    #[must_use]
    pub fn build(self) -> Client {
        Client { parts: Arc::new(self.parts) }
    }
}

/// Makes connections. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub(crate) parts: Arc<Parts>,
}

impl Client {
    /// A client with these settings and all default parts.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::builder(settings).build()
    }

    /// A client with other parts.
    #[must_use]
    pub fn builder(settings: Settings) -> ClientBuilder {
        let parts = Parts {
            launcher: Arc::new(SystemLauncher),
            http: None,
            filter: None,
            callbacks: Arc::new(NoCallbacks),
            lists: Arc::new(FollowCursors(settings.pages)),
            entropy: Arc::new(SystemEntropy),
            browser: Arc::new(NoBrowser),
            credentials: Arc::new(MemoryStore::default()),
            naming: Arc::new(HashedNames::default()),
            backoff: Arc::new(settings.restart.clone()),
            eras: Eras::default(),
            settings,
        };
        ClientBuilder { parts }
    }

    /// The settings it was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.parts.settings
    }

    /// Starts or reaches a server, shakes hands, and returns when requests can be made. Dropping the future gives
    /// the attempt up.
    ///
    /// # Errors
    /// [`Error::Start`] if the server can't be started or reached; otherwise whatever ended the handshake. By then
    /// the server is being shut down.
    pub async fn connect(&self, server: &str, target: &Target) -> Result<Connection, Error> {
        let settings = &self.parts.settings;
        let server: Arc<str> = Arc::from(server);
        let credentials = Arc::new(AtomicU64::new(0));
        let (transport, site) = match target {
            Target::Stdio(_) => (Transport::Stdio, None),
            Target::Http(target) => (Transport::Http, Eras::site(&target.url)),
            Target::Sse(_) => (Transport::SseLegacy, None),
        };
        let mut origin =
            Origin { seed: [0; 32], unix: std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default() };
        self.parts.entropy.fill(&mut origin.seed);
        let prior = site.as_deref().and_then(|site| self.parts.eras.get(site));
        let (incoming_sender, incoming) = mpsc::channel(256);
        let (hold_sender, holds) = mpsc::unbounded_channel();
        let speaks = match target {
            Target::Sse(_) => Speaks::Legacy,
            _ if settings.http.legacy_fallback => Speaks::Either,
            _ => Speaks::Streamable,
        };
        let link = match target {
            Target::Stdio(target) => Link::Stdio(StdioLink::start(
                &*self.parts.launcher,
                &server,
                target,
                &settings.stdio,
                incoming_sender,
            )?),
            Target::Http(target) | Target::Sse(target) => {
                // One each, so that the end of the connection is the end of its sockets.
                let client = match &self.parts.http {
                    Some(client) => Arc::clone(client),
                    None => Arc::new(SystemHttp::new().map_err(|error| Error::Start(error.to_string()))?),
                };
                let auth = settings.oauth.as_ref().map(|oauth| {
                    Arc::new(self.authorizer(&server, target, oauth.clone(), &client)) as Arc<dyn Authorize>
                });
                Link::Http(HttpLink::new(HttpParts {
                    server: Arc::clone(&server),
                    target: target.clone(),
                    speaks,
                    offer: settings.offer,
                    client,
                    auth,
                    settings: settings.http.clone(),
                    credentials: Arc::clone(&credentials),
                    incoming: incoming_sender,
                    holds: hold_sender,
                })?)
            }
        };
        let (commands, command_receiver) = mpsc::unbounded_channel();
        let (events, _) = broadcast::channel(EVENTS);
        let changed = Arc::new(Changed::default());
        let results = Arc::new(Results::new(credentials));
        let (started, result) = oneshot::channel();
        let (status_sender, status) = watch::channel(Status::default());
        let engine = Engine {
            server: Arc::clone(&server),
            session: Session::new(settings).over(transport).knowing(prior).with_origin(origin),
            link,
            ends_with_session: !settings.http.reopen_session && settings.http.end_with_session,
            filter: self.parts.filter.clone(),
            callbacks: Arc::clone(&self.parts.callbacks),
            commands: command_receiver,
            incoming,
            holds,
            events: events.clone(),
            changed: Arc::clone(&changed),
            results: Arc::clone(&results),
            started: Some(started),
            status: status_sender,
        };
        let inner = Arc::new(Inner {
            server,
            parts: Arc::clone(&self.parts),
            commands,
            events,
            status,
            next_key: AtomicU64::new(0),
            lists: Mutex::new(Lists::default()),
            changed: Arc::clone(&changed),
            results,
            site,
        });
        tokio::spawn(engine.run());
        let gone = || Error::Closed("the connection ended during the handshake".into());
        let started = result.await.unwrap_or_else(|_| Err(gone()));
        if let Some(site) = inner.site.as_deref() {
            let negotiated = inner.status.borrow().negotiated.clone();
            self.parts.eras.learn(site, negotiated.as_deref().filter(|_| started.is_ok()));
        }
        started?;
        tokio::spawn(refetch(Arc::downgrade(&inner), changed, inner.status.clone()));
        Ok(Connection { inner })
    }
}

impl Client {
    /// What authorizes requests to this server.
    pub(crate) fn authorizer(
        &self,
        server: &Arc<str>,
        target: &HttpTarget,
        settings: OauthSettings,
        http: &Arc<dyn HttpClient>,
    ) -> Authorizer {
        Authorizer::new(AuthorizerParts {
            server: Arc::clone(server),
            target: target.clone(),
            settings,
            client_name: self.parts.settings.name.clone(),
            http: Arc::clone(http),
            browser: Arc::clone(&self.parts.browser),
            entropy: Arc::clone(&self.parts.entropy),
            store: Arc::clone(&self.parts.credentials),
        })
    }
}

/// Events that a slow listener may lag behind before it loses the oldest.
const EVENTS: usize = 1024;

/// More entries than a list may have over all its pages.
const MAX_ENTRIES: usize = 100_000;

/// An entry of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What it is called by: the name of a tool or prompt, the `uri` of a resource, the `uriTemplate` of a template.
    pub key: String,
    /// The entry as the server gave it.
    pub json: Value,
}

/// How one call of a tool is to be made.
#[derive(Clone, Default)]
pub struct CallOptions {
    /// As for every request.
    pub request: RequestOptions,
    /// Told of progress.
    pub progress: Option<ProgressCallback>,
    /// Cancels the call when it is thrown.
    pub cancel: Option<CancelSwitch>,
}

impl From<RequestOptions> for CallOptions {
    fn from(request: RequestOptions) -> Self {
        Self { request, ..Self::default() }
    }
}

/// Cancels calls that were made with it, from anywhere. Clones are the same switch.
#[derive(Debug, Clone, Default)]
pub struct CancelSwitch {
    reason: watch::Sender<Option<String>>,
}

impl CancelSwitch {
    /// Throws the switch.
    pub fn throw(&self, reason: &str) {
        self.reason.send_replace(Some(reason.to_owned()));
    }

    /// The reason, once the switch is thrown; never, if there is none.
    async fn thrown(switch: Option<&Self>) -> String {
        if let Some(switch) = switch
            && let Ok(reason) = switch.reason.subscribe().wait_for(Option::is_some).await
            && let Some(reason) = reason.clone()
        {
            return reason;
        }
        std::future::pending().await
    }
}

/// What `completion/complete` completes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionRef {
    /// An argument of the prompt of this name.
    Prompt(String),
    /// A variable of this resource template.
    Template(String),
}

/// A list as it was read.
struct Known {
    /// The number of the reading, so that an earlier one that ends later does not win.
    reading: u64,
    /// How often the list had changed when the reading began.
    changes: u64,
    entries: Arc<Vec<Entry>>,
    /// Until when it may be used without asking, where the server says so.
    fresh: Freshness,
}

#[derive(Default)]
struct Lists {
    known: HashMap<ListKind, Known>,
    /// Those whose reading has begun at least once.
    wanted: HashSet<ListKind>,
    readings: u64,
    stale: HashSet<ListKind>,
    subscribed: HashSet<String>,
    /// Subscriptions of the stateless revision, by URI.
    heard: HashMap<String, Subscription>,
    /// Parameters that go into header fields, by tool.
    mirrors: HashMap<String, Vec<Mirror>>,
}

pub(crate) struct Inner {
    server: Arc<str>,
    pub(crate) parts: Arc<Parts>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) events: broadcast::Sender<Event>,
    status: watch::Receiver<Status>,
    pub(crate) next_key: AtomicU64,
    lists: Mutex<Lists>,
    pub(crate) changed: Arc<Changed>,
    pub(crate) results: Arc<Results>,
    /// What the server's era is known by, over HTTP.
    site: Option<String>,
}

impl Inner {
    /// Whether nothing is known to have changed since the list was read.
    fn is_current(&self, kind: ListKind, known: &Known) -> bool {
        if self.is_stateless() {
            return self.results.is_fresh(known.fresh, self.context(kind));
        }
        self.parts.settings.list_changed == ListChangedPolicy::Ignore
            || known.changes == self.changed.count(kind)
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the stateless revision is spoken.
    pub(crate) fn is_stateless(&self) -> bool {
        self.status.borrow().negotiated.as_ref().is_some_and(|n| n.revision.is_stateless())
    }

    pub(crate) fn gone(&self) -> Error {
        self.status.borrow().closed.clone().unwrap_or_else(|| Error::Closed("the connection is gone".into()))
    }
}

/// A connection to one server. Clones share it; when the last one is dropped, the connection is closed in the
/// background.
#[derive(Clone)]
pub struct Connection {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.inner.server).finish_non_exhaustive()
    }
}

impl Connection {
    /// The name given to the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.inner.server
    }

    /// What the handshake settled, the latest one if the session was reopened.
    #[must_use]
    pub fn negotiated(&self) -> Option<Arc<Negotiated>> {
        self.inner.status.borrow().negotiated.clone()
    }

    /// Why the connection is gone; `None` while it is up.
    #[must_use]
    pub fn closed(&self) -> Option<Error> {
        self.inner.status.borrow().closed.clone()
    }

    /// What happens from now on.
    #[must_use]
    pub fn events(&self) -> Events {
        Events { receiver: self.inner.events.subscribe() }
    }

    /// Starts any request. Capabilities are respected: one that the server does not offer ends with
    /// [`Error::Refused`], and nothing is sent.
    pub fn start(
        &self,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
        progress: Option<ProgressCallback>,
    ) -> Call {
        self.start_with(method, params, options, progress, Headers::new())
    }

    fn start_with(
        &self,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
        progress: Option<ProgressCallback>,
        headers: Headers,
    ) -> Call {
        let key = self.inner.next_key.fetch_add(1, Ordering::Relaxed);
        let (reply, result) = oneshot::channel();
        let options = RequestOptions { progress: options.progress || progress.is_some(), ..options };
        let request =
            NewRequest { key, method: method.to_owned(), params, options, headers, progress, reply };
        // If the engine is gone, so is `reply`, and the call ends with that.
        drop(self.inner.commands.send(Command::Request(Box::new(request))));
        Call { inner: Arc::clone(&self.inner), key, result, ended: false, check: Check::Nothing }
    }

    /// Makes any request.
    ///
    /// # Errors
    /// Whatever keeps the result away.
    pub async fn request(
        &self,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
    ) -> Result<Value, Error> {
        self.start(method, params, options, None).wait().await
    }

    /// Sends any notification.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn notify(&self, method: &str, params: Option<Value>) -> Result<(), Error> {
        let (reply, sent) = oneshot::channel();
        let command = Command::Notify { method: method.to_owned(), params, reply };
        drop(self.inner.commands.send(command));
        sent.await.unwrap_or_else(|_| Err(self.inner.gone()))
    }

    /// Reads a list anew, over all its pages.
    ///
    /// # Errors
    /// If a page can't be had, or the list has no end.
    pub async fn list(&self, kind: ListKind) -> Result<Arc<Vec<Entry>>, Error> {
        self.list_with(kind, RequestOptions::default()).await
    }

    /// Like [`Connection::list`], with options for each page.
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn list_with(&self, kind: ListKind, options: RequestOptions) -> Result<Arc<Vec<Entry>>, Error> {
        let changes = self.inner.changed.count(kind);
        let reading = {
            let mut lists = self.inner.lists();
            lists.stale.remove(&kind);
            lists.wanted.insert(kind);
            lists.readings += 1;
            lists.readings
        };
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = HashSet::new();
        let mut cursors: Vec<String> = Vec::new();
        let (mut session, mut begun_anew) = (self.negotiated(), false);
        let mut fresh = Freshness::default();
        loop {
            let params = cursors.last().map(|cursor| json!({"cursor": cursor}));
            let page = if params.is_none() || self.is_in(session.as_ref()) {
                self.fetch(kind.method(), params, options).await.and_then(|(page, until)| {
                    fresh = fresh.and(until);
                    page.value()
                })
            } else {
                Err(Error::Http {
                    status: 404,
                    message: "the session was lost in the middle of a list".into(),
                })
            };
            // Cursors are of no use in another session.
            let lost = page.as_ref().is_err_and(|error| match error {
                Error::Protocol { code: codes::INVALID_PARAMS, .. } => self.inner.is_stateless(),
                error => error.code() == Some(404),
            });
            if !begun_anew && !cursors.is_empty() && lost {
                begun_anew = true;
                (entries, seen, cursors) = Default::default();
                session = None;
                fresh = Freshness::default();
                self.inner.results.forget_all(kind.method());
                continue;
            }
            let mut page = page?;
            session = session.or_else(|| self.negotiated());
            let Some(Value::Array(found)) = page.get_mut(kind.member()).map(Value::take) else {
                return Err(Error::Invalid(format!(
                    "the result of {} has no array `{}`",
                    kind.method(),
                    kind.member()
                )));
            };
            for json in found {
                match json.get(kind.key()).and_then(Value::as_str).map(str::to_owned) {
                    Some(key) if seen.insert(key.clone()) => entries.push(Entry { key, json }),
                    Some(key) => self.skipped(format!("{}: a second entry {key:?}", kind.method()), &json),
                    None => {
                        self.skipped(format!("{}: an entry without `{}`", kind.method(), kind.key()), &json);
                    }
                }
            }
            if entries.len() > MAX_ENTRIES {
                return Err(Error::Invalid(format!("{}: more than {MAX_ENTRIES} entries", kind.method())));
            }
            match self.inner.parts.lists.next(kind.method(), &cursors, &page) {
                NextPage::Done => break,
                NextPage::At(cursor) => cursors.push(cursor),
                NextPage::Fail(why) => return Err(Error::Invalid(why)),
            }
        }
        let mirrors = (kind == ListKind::Tools).then(|| self.mirrors(&mut entries));
        let entries = Arc::new(entries);
        let mut lists = self.inner.lists();
        if lists.known.get(&kind).is_none_or(|known| known.reading < reading) {
            lists.known.insert(kind, Known { reading, changes, entries: Arc::clone(&entries), fresh });
            lists.mirrors = mirrors.unwrap_or_else(|| std::mem::take(&mut lists.mirrors));
        }
        Ok(entries)
    }

    /// The parameters of tools that go into header fields. Tools that mark them wrongly are left out of the list.
    fn mirrors(&self, entries: &mut Vec<Entry>) -> HashMap<String, Vec<Mirror>> {
        let mut all = HashMap::new();
        if !self.inner.is_stateless() || self.inner.site.is_none() {
            return all;
        }
        entries.retain(|tool| {
            let Some(schema) = tool.json.get("inputSchema") else { return true };
            match mirrors(schema) {
                Ok(found) => {
                    if !found.is_empty() {
                        all.insert(tool.key.clone(), found);
                    }
                    true
                }
                Err(why) => {
                    self.skipped(format!("the tool {:?} is left out: {why}", tool.key), &tool.json);
                    false
                }
            }
        });
        all
    }

    /// Whether the session is still the one with this outcome of its handshake.
    fn is_in(&self, session: Option<&Arc<Negotiated>>) -> bool {
        session.zip(self.negotiated().as_ref()).is_none_or(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The list as last read; read anew if that never happened, or if the server has announced a change since, unless
    /// the settings say [`ListChangedPolicy::Ignore`].
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn known(&self, kind: ListKind) -> Result<Arc<Vec<Entry>>, Error> {
        let known = {
            let lists = self.inner.lists();
            let current = lists.known.get(&kind).filter(|known| self.inner.is_current(kind, known));
            current.map(|known| Arc::clone(&known.entries))
        };
        match known {
            Some(entries) => Ok(entries),
            None => self.list(kind).await,
        }
    }

    /// The list as last read, without any request.
    #[must_use]
    pub fn cached(&self, kind: ListKind) -> Option<Arc<Vec<Entry>>> {
        self.inner.lists().known.get(&kind).map(|known| Arc::clone(&known.entries))
    }

    /// Lists the tools.
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn tools(&self) -> Result<Arc<Vec<Entry>>, Error> {
        self.list(ListKind::Tools).await
    }

    /// Lists the resources.
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn resources(&self) -> Result<Arc<Vec<Entry>>, Error> {
        self.list(ListKind::Resources).await
    }

    /// Lists the resource templates.
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn templates(&self) -> Result<Arc<Vec<Entry>>, Error> {
        self.list(ListKind::Templates).await
    }

    /// Lists the prompts.
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn prompts(&self) -> Result<Arc<Vec<Entry>>, Error> {
        self.list(ListKind::Prompts).await
    }

    /// Starts a call of a tool. Dropping the [`Call`] cancels it.
    pub fn start_call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        options: RequestOptions,
        progress: Option<ProgressCallback>,
    ) -> Call {
        let (headers, task, schema) = {
            let lists = self.inner.lists();
            let headers = lists.mirrors.get(tool).map(|mirrors| mirrored(mirrors, &arguments));
            let known = lists.known.get(&ListKind::Tools);
            let known = known.and_then(|known| known.entries.iter().find(|t| t.key == tool));
            let task = known.and_then(|tool| self.as_task(&tool.json));
            (headers, task, known.and_then(|tool| tool.json.get("outputSchema")).cloned())
        };
        let headers = match headers.unwrap_or_else(|| Ok(Headers::new())) {
            Ok(headers) => headers,
            Err(why) => return self.failed(Error::Refused(why)),
        };
        let mut params = json!({"name": tool, "arguments": arguments});
        match task {
            Some(Ok(task)) => params["task"] = task,
            Some(Err(error)) => return self.failed(error),
            None => {}
        }
        let mut call = self.start_with("tools/call", Some(params), options, progress, headers);
        call.check = Check::Tool(schema.filter(|_| self.inner.parts.settings.validate_output));
        call
    }

    /// A call that has ended already.
    fn failed(&self, error: Error) -> Call {
        let (reply, result) = oneshot::channel();
        drop(reply.send(Err(error)));
        let key = self.inner.next_key.fetch_add(1, Ordering::Relaxed);
        Call { inner: Arc::clone(&self.inner), key, result, ended: false, check: Check::Nothing }
    }

    /// The `task` member for a call of this tool, if it is to run as a task (2025-11-25).
    fn as_task(&self, tool: &Value) -> Option<Result<Value, Error>> {
        let negotiated = self.negotiated()?;
        let offered =
            negotiated.capabilities.get("tasks")?.get("requests")?.get("tools")?.get("call").is_some();
        if negotiated.revision != Revision::V2025_11_25 || !offered {
            return None;
        }
        let settings = self.inner.parts.settings.tasks;
        let support = tool.get("execution")?.get("taskSupport")?.as_str()?;
        match (support, settings.call) {
            ("required", TaskUse::Never) => {
                Some(Err(Error::Refused("the tool runs as a task only, which the settings rule out".into())))
            }
            ("required", _) | ("optional", TaskUse::WhenOffered) => {
                let ttl = settings.ttl.and_then(|ttl| u64::try_from(ttl.as_millis()).ok());
                Some(Ok(ttl.map_or_else(|| json!({}), |ttl| json!({"ttl": ttl}))))
            }
            _ => None,
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// [`Error::Protocol`] for an error of the protocol; a failure of the tool itself is a [`CallResult`].
    pub async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<CallResult, Error> {
        self.call_with(tool, arguments, CallOptions::default()).await
    }

    /// Calls a tool, with options.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub async fn call_with(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        options: impl Into<CallOptions>,
    ) -> Result<CallResult, Error> {
        if self.inner.lists().stale.contains(&ListKind::Tools) {
            self.list(ListKind::Tools).await?;
        }
        let options = options.into();
        let outcome = self.call_once(tool, arguments.clone(), options.clone()).await;
        let mismatch = matches!(outcome, Err(Error::Protocol { code: codes::HEADER_MISMATCH, .. }));
        if !mismatch || self.inner.site.is_none() {
            return outcome;
        }
        // The tool's schema may have changed, and with it what has to stand in the header.
        self.inner.results.forget_all(ListKind::Tools.method());
        self.list(ListKind::Tools).await?;
        self.call_once(tool, arguments, options).await
    }

    async fn call_once(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<CallResult, Error> {
        let CallOptions { request, progress, cancel } = options;
        let call = self.start_call(tool, arguments, request, progress);
        let canceller = call.canceller();
        let result = call.end();
        tokio::pin!(result);
        let (schema, raw) = tokio::select! {
            biased;
            result = &mut result => result?,
            reason = CancelSwitch::thrown(cancel.as_ref()) => {
                canceller.cancel(&reason);
                result.await?
            }
        };
        CallResult::read(raw.raw, schema.tool())
    }

    /// Reads a resource: the result of `resources/read`.
    ///
    /// # Errors
    /// Whatever keeps the result away.
    pub async fn read(&self, uri: &str) -> Result<Value, Error> {
        self.checked("resources/read", json!({"uri": uri}), "contents").await
    }

    /// Gets a prompt: the result of `prompts/get`.
    ///
    /// # Errors
    /// Whatever keeps the result away; [`Error::Refused`] if a required argument is known to be missing.
    pub async fn prompt(&self, name: &str, arguments: Map<String, Value>) -> Result<Value, Error> {
        if let Some((argument, _)) = arguments.iter().find(|(_, value)| !value.is_string()) {
            return Err(Error::Refused(format!("the prompt argument {argument:?} is not a string")));
        }
        if let Some(missing) = self.missing_argument(name, &arguments) {
            return Err(Error::Refused(format!("the prompt {name:?} needs the argument {missing:?}")));
        }
        let params = match arguments.is_empty() {
            true => json!({"name": name}),
            false => json!({"name": name, "arguments": arguments}),
        };
        self.checked("prompts/get", params, "messages").await
    }

    fn missing_argument(&self, name: &str, given: &Map<String, Value>) -> Option<String> {
        let prompts = self.cached(ListKind::Prompts)?;
        let wanted = prompts.iter().find(|p| p.key == name)?.json.get("arguments")?.as_array()?;
        let mut required = wanted
            .iter()
            .filter(|a| a.get("required").and_then(Value::as_bool) == Some(true))
            .filter_map(|a| a.get("name").and_then(Value::as_str));
        required.find(|a| !given.contains_key(*a)).map(str::to_owned)
    }

    /// Asks for completions: the `completion` of the result. `context`: arguments settled already, sent from
    /// 2025-06-18 on.
    ///
    /// # Errors
    /// Whatever keeps the result away.
    pub async fn complete(
        &self,
        of: &CompletionRef,
        argument: &str,
        value: &str,
        context: Map<String, Value>,
    ) -> Result<Value, Error> {
        let reference = match of {
            CompletionRef::Prompt(name) => json!({"type": "ref/prompt", "name": name}),
            CompletionRef::Template(uri) => json!({"type": "ref/resource", "uri": uri}),
        };
        let mut params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        let knows_context = self.negotiated().is_some_and(|n| n.revision >= Revision::V2025_06_18);
        if !context.is_empty() && knows_context {
            params["context"] = json!({"arguments": context});
        }
        let mut result = self.request("completion/complete", Some(params), RequestOptions::default()).await?;
        Ok(result.get_mut("completion").map_or_else(|| json!({"values": []}), Value::take))
    }

    /// Asks the server for a sign of life: `ping`, or `server/discover` where that does not exist.
    ///
    /// # Errors
    /// Whatever keeps the answer away.
    pub async fn ping(&self) -> Result<(), Error> {
        let method = if self.inner.is_stateless() { "server/discover" } else { "ping" };
        self.request(method, None, RequestOptions::default()).await.map(drop)
    }

    /// Opens a subscription of its own (2026-07-28), which ends when it is dropped. What happens is told by
    /// [`Connection::events`]; a stream that breaks is opened again.
    ///
    /// # Errors
    /// [`Error::Refused`] in earlier revisions; otherwise whatever keeps the server's consent away.
    pub async fn listen(&self, filter: Filter) -> Result<Subscription, Error> {
        Subscription::open(&self.inner, filter).await
    }

    /// Subscribes to changes of a resource.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server does not offer that; otherwise whatever keeps the answer away.
    pub async fn subscribe(&self, uri: &str) -> Result<(), Error> {
        if self.inner.is_stateless() {
            let subscription = self.listen(Filter::uris([uri])).await?;
            if !subscription.granted().uris.iter().any(|granted| granted == uri) {
                return Err(Error::Refused(format!("the server does not report changes of {uri}")));
            }
            self.inner.lists().heard.insert(uri.to_owned(), subscription);
            return Ok(());
        }
        self.request("resources/subscribe", Some(json!({"uri": uri})), RequestOptions::default()).await?;
        self.inner.lists().subscribed.insert(uri.to_owned());
        Ok(())
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// [`Error::Refused`] without a subscription; otherwise whatever keeps the answer away.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), Error> {
        if self.inner.is_stateless() {
            let ended = self.inner.lists().heard.remove(uri);
            return match ended {
                Some(_) => Ok(()),
                None => Err(Error::Refused(format!("there is no subscription of {uri}"))),
            };
        }
        if !self.inner.lists().subscribed.contains(uri) {
            return Err(Error::Refused(format!("there is no subscription of {uri}")));
        }
        self.request("resources/unsubscribe", Some(json!({"uri": uri})), RequestOptions::default()).await?;
        self.inner.lists().subscribed.remove(uri);
        Ok(())
    }

    /// Sets the least level of log messages wanted: by `logging/setLevel`, or, in the stateless revision, with each
    /// request from now on.
    ///
    /// # Errors
    /// [`Error::Refused`] for a level that does not exist; otherwise whatever keeps the answer away.
    pub async fn set_level(&self, level: &str) -> Result<(), Error> {
        if self.inner.is_stateless() {
            let (reply, done) = oneshot::channel();
            drop(self.inner.commands.send(Command::SetLogLevel { level: Some(level.to_owned()), reply }));
            return done.await.unwrap_or_else(|_| Err(self.inner.gone()));
        }
        let params = json!({"level": level});
        self.request("logging/setLevel", Some(params), RequestOptions::default()).await.map(drop)
    }

    /// Replaces the roots; the server is told if that was declared. Returns when that message is on its way.
    pub async fn set_roots(&self, roots: Vec<Root>) {
        let (done, told) = oneshot::channel();
        // If the engine is gone, nobody asks for roots any more.
        drop(self.inner.commands.send(Command::SetRoots { roots, done }));
        drop(told.await);
    }

    /// Closes the connection and waits until the server is gone (stdio) or its session ended (HTTP). Takes at most
    /// the graces of the settings.
    pub async fn close(&self) {
        drop(self.inner.commands.send(Command::Close));
        let mut status = self.inner.status.clone();
        // An error means that the engine has ended already.
        drop(status.wait_for(|status| status.finished).await);
    }

    async fn checked(&self, method: &str, params: Value, member: &str) -> Result<Value, Error> {
        let (result, _) = self.fetch(method, Some(params), RequestOptions::default()).await?;
        let result = result.value()?;
        match result.get(member) {
            Some(Value::Array(_)) => Ok(result),
            _ => Err(Error::Invalid(format!("the result of {method} has no array `{member}`"))),
        }
    }

    fn skipped(&self, reason: String, json: &Value) {
        let text = json.to_string().chars().take(200).collect();
        drop(self.inner.events.send(Event::Skipped { reason, text }));
    }
}

enum Check {
    Nothing,
    /// A tool's result, with its output schema.
    Tool(Option<Value>),
}

impl Check {
    /// The output schema, if that is what is checked.
    const fn tool(&self) -> Option<&Value> {
        match self {
            Self::Tool(schema) => schema.as_ref(),
            Self::Nothing => None,
        }
    }
}

/// A request under way. Dropping it cancels the request.
pub struct Call {
    inner: Arc<Inner>,
    key: u64,
    result: oneshot::Receiver<Result<Answer, Error>>,
    ended: bool,
    check: Check,
}

impl Call {
    /// Waits for the result, and parses it.
    ///
    /// # Errors
    /// Whatever keeps the result away.
    pub async fn wait(self) -> Result<Value, Error> {
        let (check, answer) = self.end().await?;
        let value = answer.raw.value()?;
        if let Check::Tool(schema) = &check {
            result::verify(&value, schema.as_ref())?;
        }
        Ok(value)
    }

    /// Waits for the result as the server sent it; it is not looked into.
    ///
    /// # Errors
    /// Whatever keeps the result away.
    pub async fn raw(self) -> Result<Raw, Error> {
        self.end().await.map(|(_, answer)| answer.raw)
    }

    /// Waits for the result, and whether it depends on the request alone.
    pub(crate) async fn answer(self) -> Result<Answer, Error> {
        self.end().await.map(|(_, answer)| answer)
    }

    async fn end(mut self) -> Result<(Check, Answer), Error> {
        let result = (&mut self.result).await;
        self.ended = true;
        let answer = result.unwrap_or_else(|_| Err(self.inner.gone()));
        if let (Err(Error::Http { status: 400..500, .. }), Some(site)) = (&answer, &self.inner.site)
            && self.inner.is_stateless()
        {
            // Perhaps the server is not any more what it was; the next connection finds out.
            self.inner.parts.eras.forget(site);
        }
        Ok((std::mem::replace(&mut self.check, Check::Nothing), answer?))
    }

    /// A handle that can cancel the request while another task waits for it.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller { commands: self.inner.commands.clone(), key: self.key }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.ended {
            let command = Command::Cancel { key: self.key, reason: "no longer needed".into() };
            // If the engine is gone, so is the request.
            drop(self.inner.commands.send(command));
        }
    }
}

/// Cancels one request.
#[derive(Clone)]
pub struct Canceller {
    commands: mpsc::UnboundedSender<Command>,
    key: u64,
}

impl Canceller {
    /// Cancels it: the server is told, the request ends with [`Error::Cancelled`]. One that has ended is left alone.
    pub fn cancel(&self, reason: &str) {
        // If the engine is gone, so is the request.
        drop(self.commands.send(Command::Cancel { key: self.key, reason: reason.to_owned() }));
    }
}

/// The events of a connection.
pub struct Events {
    receiver: broadcast::Receiver<Event>,
}

impl Events {
    /// The next event; `None` after the connection has ended. A listener too slow by far loses the oldest events.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// The next event if it is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        loop {
            match self.receiver.try_recv() {
                Ok(event) => return Some(event),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return None,
            }
        }
    }
}

/// Reads lists again that have changed: one at a time, and never more often than the settings allow.
async fn refetch(inner: Weak<Inner>, changed: Arc<Changed>, mut status: watch::Receiver<Status>) {
    loop {
        let mut kinds = tokio::select! {
            kinds = changed.take() => kinds,
            _ = status.wait_for(|status| status.closed.is_some()) => return,
        };
        let Some(inner) = inner.upgrade() else { return };
        let gap = inner.parts.settings.refetch_gap;
        let policy = inner.parts.settings.list_changed;
        // What was never read is not out of date.
        kinds.retain(|kind| inner.lists().wanted.contains(kind));
        if policy == ListChangedPolicy::BeforeNextUse {
            inner.lists().stale.extend(&kinds);
        }
        if policy != ListChangedPolicy::RefetchNow || kinds.is_empty() {
            continue;
        }
        let connection = Connection { inner };
        for kind in kinds {
            // Somebody who needed it may have read it already.
            if connection
                .inner
                .lists()
                .known
                .get(&kind)
                .is_some_and(|known| connection.inner.is_current(kind, known))
            {
                continue;
            }
            let outcome = connection.list(kind).await.map(|entries| entries.len());
            drop(connection.inner.events.send(Event::Refetched { kind, outcome }));
        }
        drop(connection);
        tokio::time::sleep(gap).await;
    }
}
