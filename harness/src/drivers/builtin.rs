//! The reference client, in this process.

use super::ToolNames;
use super::process::browse;
use crate::driver::{CaseContext, Driver, DriverError, DriverEvents, Hello, Subject, Target};
use crate::run::directory;
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use sparring_client::http::{HttpClient, SystemHttp};
use sparring_client::naming::{HashedNames, Naming};
use sparring_client::oauth::{Browser, CredentialStore, MemoryStore};
use sparring_client::stdio::{Launcher, SystemLauncher};
use sparring_client::{
    Backoff, Callbacks, Canceller, Client, CompletionRef, Connection, Declared, ElicitAnswer, Elicitation,
    ElicitationCapability, Entropy, Entry, Error, Event, Host, HttpTarget, ListKind, ListPolicy,
    MessageFilter, OauthSettings, Progress, RegisteredClient, RequestOptions, Root, RootsCapability,
    RpcError, Sampling, SamplingCapability, ServerStatus, Settings, StdioTarget, SystemEntropy,
};
use sparring_mock_servers::script::JsonText;
use sparring_scenarios::op::{self, FEATURES, OPERATIONS, Op};
use sparring_wire::transcript::{Failure, Outcome};
use sparring_wire::{Revision, Transport};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long closing may take, which has graces of its own, all shorter.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// What the reference client is made of in one case. Whoever wants a part to behave otherwise wraps it or puts
/// another in its place.
#[non_exhaustive]
pub struct ClientSetup {
    /// The case's revision.
    pub revision: Revision,
    /// All choices, with what the scenario's `open` asks for.
    pub settings: Settings,
    /// Starts stdio servers.
    pub launcher: Arc<dyn Launcher>,
    /// Makes all HTTP requests.
    pub http: Arc<dyn HttpClient>,
    /// Sees all messages.
    pub filter: Option<Arc<dyn MessageFilter>>,
    /// Answers what servers ask, as the scenario says.
    pub callbacks: Arc<dyn Callbacks>,
    /// Reads lists on; by the settings if `None`, as [`sparring_client::FollowCursors`] does.
    pub lists: Option<Arc<dyn ListPolicy>>,
    /// The source of randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Visits authorization URLs: the harness's browser.
    pub browser: Arc<dyn Browser>,
    /// Keeps tokens and registrations, for this case only.
    pub credentials: Arc<dyn CredentialStore>,
    /// Names tools.
    pub naming: Arc<dyn Naming>,
    /// Waits before restarts; by the settings if `None`.
    pub backoff: Option<Arc<dyn Backoff>>,
}

impl ClientSetup {
    fn build(self) -> Client {
        let mut builder = Client::builder(self.settings)
            .launcher(self.launcher)
            .http(self.http)
            .callbacks(self.callbacks)
            .entropy(self.entropy)
            .browser(self.browser)
            .credentials(self.credentials)
            .naming(self.naming);
        if let Some(filter) = self.filter {
            builder = builder.filter(filter);
        }
        if let Some(lists) = self.lists {
            builder = builder.lists(lists);
        }
        if let Some(backoff) = self.backoff {
            builder = builder.backoff(backoff);
        }
        builder.build()
    }
}

/// Changes a client before it is built.
pub type Customise = Arc<dyn Fn(&mut ClientSetup) + Send + Sync>;

/// Runs the reference client, as it is or changed.
#[derive(Clone, Default)]
pub struct Builtin {
    customise: Vec<Customise>,
}

impl Builtin {
    /// The reference client as it is.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes the client of each case before it is built. Several changes are made in the order given.
    #[must_use]
    pub fn with(mut self, customise: Customise) -> Self {
        self.customise.push(customise);
        self
    }
}

#[async_trait]
impl Driver for Builtin {
    fn kind(&self) -> &'static str {
        "builtin"
    }

    fn command(&self) -> Vec<String> {
        Vec::new()
    }

    async fn hello(&self) -> Result<Hello, DriverError> {
        Ok(Hello {
            name: "reference client".to_owned(),
            version: Settings::default().version,
            operations: OPERATIONS.map(str::to_owned).to_vec(),
            transports: vec![Transport::Stdio, Transport::Http],
            revisions: Revision::WITH_HANDSHAKE.to_vec(),
            features: FEATURES.map(str::to_owned).to_vec(),
        })
    }

    async fn start(&self, case: CaseContext) -> Result<Arc<dyn Subject>, DriverError> {
        Ok(Arc::new(Running {
            customise: self.customise.clone(),
            case,
            hosts: Mutex::default(),
            names: ToolNames::default(),
            calls: Mutex::default(),
            listeners: Mutex::default(),
        }))
    }
}

struct Running {
    customise: Vec<Customise>,
    case: CaseContext,
    /// One for each `open`; a server belongs to the latest that has it.
    hosts: Mutex<Vec<Host>>,
    names: ToolNames,
    /// Calls under way, by step.
    calls: Mutex<BTreeMap<String, Vec<Canceller>>>,
    /// What passes each server's events on, until its connection ends.
    listeners: Mutex<BTreeMap<String, JoinHandle<()>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for listener in lock(&self.listeners).values() {
            listener.abort();
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn client(&self, open: &op::Open) -> Result<Client, Error> {
        let mut settings = Settings { list_at_start: false, ..Settings::default() };
        settings.declare = Declared {
            roots: open.roots.as_ref().map(|_| RootsCapability { list_changed: true }),
            sampling: open.sampling.as_ref().map(|_| SamplingCapability { tools: true, context: false }),
            elicitation: open.elicitation.as_ref().map(|_| ElicitationCapability { form: true, url: true }),
            experimental: None,
        };
        settings.roots = roots(open.roots.iter().flatten());
        if let Some(offer) = open.offer {
            settings.offer = offer;
        }
        if let Some(limit) = open.timeout_ms {
            settings.timeouts.start = Duration::from_millis(limit);
        }
        if let Some(waits) = &open.backoff_ms {
            settings.restart.waits = waits.iter().copied().map(Duration::from_millis).collect();
            settings.restart.max_attempts = u32::try_from(waits.len()).unwrap_or(u32::MAX);
        }
        let registered = open.client_id.as_ref().map(|id| RegisteredClient {
            issuer: None,
            id: id.clone(),
            secret: open.client_secret.clone(),
        });
        settings.oauth =
            Some(OauthSettings { registered: registered.into_iter().collect(), ..OauthSettings::default() });
        let http = SystemHttp::new().map_err(|error| Error::Start(error.to_string()))?;
        let mut setup = ClientSetup {
            revision: self.case.revision,
            settings,
            launcher: Arc::new(SystemLauncher),
            http: Arc::new(http),
            filter: None,
            callbacks: Arc::new(Answers {
                sampling: open.sampling.clone(),
                elicitation: open.elicitation.clone(),
            }),
            lists: None,
            entropy: Arc::new(SystemEntropy),
            browser: Arc::new(HarnessBrowser { events: self.case.events.clone() }),
            credentials: Arc::new(MemoryStore::default()),
            naming: Arc::new(HashedNames::default()),
            backoff: None,
        };
        for customise in &self.customise {
            customise(&mut setup);
        }
        Ok(setup.build())
    }

    fn target(&self, target: &Target, open: &op::Open) -> sparring_client::Target {
        match target {
            Target::Stdio { command, args, env } => {
                let mut target = StdioTarget::new(command, args);
                let folder = &self.case.directory;
                target.env.push(("HOME".into(), directory::home(folder).into_os_string()));
                target.env.push(("TMPDIR".into(), directory::tmp(folder).into_os_string()));
                target.env.extend(env.iter().map(|(name, value)| (name.into(), value.into())));
                target.cwd = Some(folder.clone());
                sparring_client::Target::Stdio(target)
            }
            Target::Http { url } => {
                let mut target = HttpTarget::new(url);
                target.headers.extend(open.headers.clone());
                sparring_client::Target::Http(target)
            }
        }
    }

    async fn open(&self, open: &op::Open) -> Result<Value, Error> {
        let chosen: Vec<(String, sparring_client::Target)> = self
            .case
            .targets
            .iter()
            .filter(|(name, _)| open.servers.is_empty() || open.servers.contains(name))
            .map(|(name, target)| (name.clone(), self.target(target, open)))
            .collect();
        let host = Host::start(self.client(open)?, chosen).await;
        lock(&self.hosts).push(host.clone());
        self.listen();
        let mut servers = Map::new();
        let mut opened = false;
        let mut failure = None;
        for name in host.servers() {
            let negotiated = host.connection(&name).and_then(|connection| connection.negotiated());
            let report = match (negotiated, host.status(&name)) {
                (Some(negotiated), _) => {
                    opened = true;
                    json!({
                        "ok": true,
                        "protocolVersion": negotiated.revision,
                        "serverInfo": negotiated.server_info,
                        "capabilities": negotiated.capabilities,
                        "instructions": negotiated.instructions,
                    })
                }
                (None, Some(ServerStatus::Down(error) | ServerStatus::GivenUp(error))) => {
                    let said = Failure::from(&error);
                    failure.get_or_insert(error);
                    json!({"ok": false, "error": {"kind": said.kind, "message": said.message}})
                }
                (None, _) => {
                    json!({"ok": false, "error": {"kind": "other", "message": "the server is gone"}})
                }
            };
            servers.insert(name, report);
        }
        match failure {
            Some(error) if !opened => Err(error),
            _ => Ok(json!({"servers": servers})),
        }
    }

    /// The servers by name, each with the host that has it; or only the one.
    fn hosts(&self, server: Option<&str>) -> Result<BTreeMap<String, Host>, Error> {
        let mut all = BTreeMap::new();
        for host in lock(&self.hosts).iter() {
            all.extend(host.servers().into_iter().map(|name| (name, host.clone())));
        }
        all.retain(|name, _| server.is_none_or(|server| server == name));
        match server {
            _ if !all.is_empty() => Ok(all),
            Some(server) => Err(Error::Refused(format!("the server {server:?} is not open"))),
            None => Err(Error::Refused("no server is open".to_owned())),
        }
    }

    /// The connections that are up, or why none is.
    fn connections(&self, server: Option<&str>) -> Result<Vec<(String, Connection)>, Error> {
        let mut up = Vec::new();
        let mut down = Error::Refused("no server is open".to_owned());
        for (name, host) in self.hosts(server)? {
            match (host.connection(&name), host.status(&name)) {
                (Some(connection), _) => up.push((name, connection)),
                (None, Some(ServerStatus::Down(error) | ServerStatus::GivenUp(error))) => down = error,
                (None, _) => down = Error::Closed(format!("the server {name:?} is gone")),
            }
        }
        if up.is_empty() { Err(down) } else { Ok(up) }
    }

    /// The connection meant by an operation on one server.
    fn connection(&self, server: Option<&str>) -> Result<Connection, Error> {
        let found = self.connections(server)?.into_iter().next();
        found.map(|(_, connection)| connection).ok_or_else(|| Error::Refused("no server is open".to_owned()))
    }

    /// The entries of a list, of each server that has such things.
    async fn entries(
        &self,
        kind: ListKind,
        server: Option<&str>,
    ) -> Result<Vec<(String, Arc<Vec<Entry>>)>, Error> {
        let mut all = Vec::new();
        let mut refused = None;
        for (name, connection) in self.connections(server)? {
            match connection.list(kind).await {
                Ok(entries) => all.push((name, entries)),
                // One without them among several with them is no failure.
                Err(error @ Error::Refused(_)) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        match refused {
            Some(error) if all.is_empty() => Err(error),
            _ => Ok(all),
        }
    }

    async fn list(&self, kind: ListKind, member: &str, server: Option<&str>) -> Result<Value, Error> {
        let mut all = Vec::new();
        for (name, entries) in self.entries(kind, server).await? {
            for entry in entries.iter() {
                let mut json = entry.json.clone();
                if let Some(object) = json.as_object_mut() {
                    object.insert("server".to_owned(), name.as_str().into());
                }
                all.push(json);
            }
        }
        Ok(json!({ member: all }))
    }

    async fn tools(&self, server: Option<&str>) -> Result<Value, Error> {
        self.entries(ListKind::Tools, server).await?;
        let mut all = Vec::new();
        for (name, host) in self.hosts(server)? {
            for tool in host.tools().into_iter().filter(|tool| tool.server == name) {
                let mut json = tool.tool.json.clone();
                if let Some(object) = json.as_object_mut() {
                    object.insert("name".to_owned(), tool.name.into());
                    object.insert("rawName".to_owned(), tool.tool.key.into());
                    object.insert("server".to_owned(), tool.server.into());
                }
                all.push(json);
            }
        }
        let result = json!({"tools": all});
        self.names.learn(&result, server);
        Ok(result)
    }

    async fn call(&self, step: &str, call: &op::Call) -> Result<Value, Error> {
        let (_, known) = self.names.resolve(&call.tool, call.server.as_deref());
        let hosts = self.hosts(known.as_deref())?;
        let Some((server, host)) = hosts.into_iter().next() else {
            return Err(Error::Refused("no server is open".to_owned()));
        };
        let arguments = match call.arguments.as_ref().map(|arguments| &arguments.0) {
            None => Map::new(),
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(_) => return Err(Error::Refused("the arguments are no object".to_owned())),
        };
        let options = RequestOptions {
            timeout: call.timeout_ms.map(Duration::from_millis),
            progress: call.progress,
            ..RequestOptions::default()
        };
        let progress = call.progress.then(|| self.progress(step));
        let started = |canceller| lock(&self.calls).entry(step.to_owned()).or_default().push(canceller);
        let result = host.call_raw(&server, &call.tool, arguments, options, progress, &started).await;
        lock(&self.calls).remove(step);
        Ok(result?.json)
    }

    fn progress(&self, step: &str) -> Arc<dyn Fn(Progress) + Send + Sync> {
        let (events, step) = (self.case.events.clone(), step.to_owned());
        Arc::new(move |progress| {
            let mut data = json!({"step": step, "progress": progress.progress});
            if let Some(total) = progress.total {
                data["total"] = total.into();
            }
            if let Some(message) = progress.message {
                data["message"] = message.into();
            }
            events.driver_event("progress", data);
        })
    }

    async fn close(&self, server: Option<&str>) -> Result<Value, Error> {
        match server {
            Some(server) => self.connection(Some(server))?.close().await,
            None => {
                let hosts = std::mem::take(&mut *lock(&self.hosts));
                for host in hosts {
                    host.close().await;
                }
            }
        }
        Ok(json!({}))
    }

    /// Passes on the events of each connection that nobody listens to yet: also of those that were restarted.
    fn listen(&self) {
        let Ok(hosts) = self.hosts(None) else { return };
        let mut listeners = lock(&self.listeners);
        for (name, host) in hosts {
            let listened_to = listeners.get(&name).is_some_and(|listener| !listener.is_finished());
            let Some(connection) = host.connection(&name).filter(|_| !listened_to) else { continue };
            let mut events = connection.events();
            let (server, to) = (name.clone(), self.case.events.clone());
            let listener = tokio::spawn(async move {
                while let Some(event) = events.next().await {
                    report(&server, event, to.as_ref());
                }
            });
            listeners.insert(name, listener);
        }
    }

    async fn operation(&self, step: &str, op: &Op) -> Result<Value, Error> {
        match op {
            Op::Open(open) => self.open(open).await,
            Op::Tools(of) => self.tools(of.server.as_deref()).await,
            Op::Call(call) => self.call(step, call).await,
            Op::Cancel(cancel) => {
                let running = lock(&self.calls).remove(&cancel.step).unwrap_or_default();
                let reason = cancel.reason.as_deref().unwrap_or("cancelled by the user");
                running.iter().for_each(|canceller| canceller.cancel(reason));
                Ok(json!({}))
            }
            Op::Resources(of) => self.list(ListKind::Resources, "resources", of.server.as_deref()).await,
            Op::Templates(of) => {
                self.list(ListKind::Templates, "resourceTemplates", of.server.as_deref()).await
            }
            Op::Prompts(of) => self.list(ListKind::Prompts, "prompts", of.server.as_deref()).await,
            Op::Read(read) => self.connection(read.server.as_deref())?.read(&read.uri).await,
            Op::Subscribe(read) => {
                self.connection(read.server.as_deref())?.subscribe(&read.uri).await?;
                Ok(json!({}))
            }
            Op::Unsubscribe(read) => {
                self.connection(read.server.as_deref())?.unsubscribe(&read.uri).await?;
                Ok(json!({}))
            }
            Op::Prompt(prompt) => {
                let arguments =
                    prompt.arguments.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect();
                self.connection(prompt.server.as_deref())?.prompt(&prompt.name, arguments).await
            }
            Op::Complete(complete) => {
                let of = match (&complete.prompt, &complete.template) {
                    (Some(prompt), None) => CompletionRef::Prompt(prompt.clone()),
                    (None, Some(template)) => CompletionRef::Template(template.clone()),
                    _ => return Err(Error::Refused("complete a prompt or a template".to_owned())),
                };
                let connection = self.connection(complete.server.as_deref())?;
                let found = connection.complete(&of, &complete.argument, &complete.value, Map::new()).await?;
                Ok(json!({"completion": found}))
            }
            Op::SetLevel(level) => {
                self.connection(level.server.as_deref())?.set_level(&level.level).await?;
                Ok(json!({}))
            }
            Op::Ping(of) => {
                for (_, connection) in self.connections(of.server.as_deref())? {
                    connection.ping().await?;
                }
                Ok(json!({}))
            }
            Op::SetRoots(set) => {
                for (_, connection) in self.connections(None)? {
                    connection.set_roots(roots(&set.roots));
                }
                Ok(json!({}))
            }
            Op::Close(of) => self.close(of.server.as_deref()).await,
            Op::Await(_) => Err(Error::Refused("the harness awaits by itself".to_owned())),
        }
    }
}

#[async_trait]
impl Subject for Running {
    async fn run(&self, step: &str, op: &Op) -> Result<Outcome, DriverError> {
        let outcome = self.operation(step, op).await;
        // The operation may have restarted a server.
        self.listen();
        Ok(match outcome {
            Ok(value) => Outcome::Ok { value },
            Err(error) => Outcome::Error { error: error.into() },
        })
    }

    /// Nothing escapes a client that is no process; what its servers leave is theirs to tell.
    async fn stop(&self) -> Vec<(u32, String)> {
        let _ = tokio::time::timeout(CLOSE_LIMIT, self.close(None)).await;
        Vec::new()
    }
}

fn roots<'a>(uris: impl IntoIterator<Item = &'a String>) -> Vec<Root> {
    uris.into_iter().map(|uri| Root { uri: uri.clone(), name: None }).collect()
}

/// Tells of an event of a connection: as the notification that caused it, or in words.
fn report(server: &str, event: Event, to: &dyn DriverEvents) {
    let notification = |method: &str, params: Value| {
        to.driver_event("notification", json!({"server": server, "method": method, "params": params}));
    };
    match event {
        Event::Log(params) => notification("notifications/message", params),
        Event::ListChanged(kind) => {
            let method = match kind {
                ListKind::Tools => "notifications/tools/list_changed",
                ListKind::Prompts => "notifications/prompts/list_changed",
                _ => "notifications/resources/list_changed",
            };
            notification(method, json!({}));
        }
        Event::ResourceUpdated { uri } => {
            notification("notifications/resources/updated", json!({"uri": uri}));
        }
        Event::ElicitationComplete { id } => {
            notification("notifications/elicitation/complete", json!({"elicitationId": id}));
        }
        // Reported by the call's own callback, with its step.
        Event::Progress { .. } => {}
        other => to.driver_event("log", json!({"text": format!("{server}: {other:?}")})),
    }
}

/// The browser of the harness.
struct HarnessBrowser {
    events: Arc<dyn DriverEvents>,
}

#[async_trait]
impl Browser for HarnessBrowser {
    async fn open(&self, server: &str, url: &str) -> Result<Option<String>, String> {
        self.events.driver_event("authorization-url", json!({"url": url, "server": server}));
        let (events, url) = (self.events.clone(), url.to_owned());
        // In a task of its own, since the client no longer cares once its listener was called, but the transcript
        // does.
        let visit = tokio::spawn(async move { browse(&url, events.as_ref()).await });
        match visit.await {
            Ok(Some(url)) => Ok(Some(url)),
            _ => Err("the authorization URL leads nowhere".to_owned()),
        }
    }
}

/// What the user and the model say, as the scenario has it.
struct Answers {
    sampling: Option<JsonText>,
    elicitation: Option<JsonText>,
}

#[async_trait]
impl Callbacks for Answers {
    async fn sample(&self, _: &str, _: Sampling) -> Result<Value, RpcError> {
        self.sampling.as_ref().map(|answer| answer.0.clone()).ok_or_else(RpcError::user_rejected)
    }

    async fn elicit(&self, _: &str, _: Elicitation) -> Result<ElicitAnswer, RpcError> {
        let answer = self.elicitation.as_ref().map(|answer| &answer.0);
        let action = answer.and_then(|answer| answer.get("action")).and_then(Value::as_str);
        Ok(match (action, answer.and_then(|answer| answer.get("content"))) {
            (Some("accept"), Some(Value::Object(content))) => ElicitAnswer::Accept(content.clone()),
            (Some("accept"), _) => ElicitAnswer::Accept(Map::new()),
            (Some("cancel"), _) => ElicitAnswer::Cancel,
            _ => ElicitAnswer::Decline,
        })
    }
}
