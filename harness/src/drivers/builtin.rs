//! The `builtin` driver: the reference client, in this process.

use super::ToolNames;
use super::process::browse;
use crate::driver::{CaseContext, Driver, DriverError, DriverEvents, Hello, Subject, Target};
use crate::run::directory;
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use sparring_client::core::{ElicitAnswer, Elicitation, RpcError, Sampling};
use sparring_client::http::SystemHttp;
use sparring_client::naming::HashedNames;
use sparring_client::oauth::MemoryStore;
use sparring_client::stdio::SystemLauncher;
use sparring_client::{
    Backoff, Browser, CallOptions, Callbacks, CancelSwitch, Client, CompletionRef, Connection,
    CredentialStore, Declared, ElicitationCapability, Entropy, Event, FollowCursors, Host, HttpClient,
    HttpTarget, Launcher, ListKind, ListPolicy, MessageFilter, Naming, RegisteredClient, RequestOptions,
    Root, RootsCapability, SamplingCapability, Settings, StdioTarget, SystemEntropy,
};
use sparring_scenarios::op::{self, FEATURES, OPERATIONS, Op};
use sparring_wire::transcript::{Failure, FailureKind, Outcome};
use sparring_wire::{Revision, Transport};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Everything that the reference client is made of in a case. A mutant wraps or replaces one thing.
pub struct ClientSetup {
    /// Its choices.
    pub settings: Settings,
    /// Starts stdio servers.
    pub launcher: Arc<dyn Launcher>,
    /// Makes HTTP requests.
    pub http: Arc<dyn HttpClient>,
    /// Sees each message; none by default.
    pub filter: Option<Arc<dyn MessageFilter>>,
    /// Answers what servers ask.
    pub callbacks: Arc<dyn Callbacks>,
    /// Decides how lists are read on; none: as the settings say.
    pub lists: Option<Arc<dyn ListPolicy>>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Plays the browser.
    pub browser: Arc<dyn Browser>,
    /// Keeps tokens.
    pub credentials: Arc<dyn CredentialStore>,
    /// Names tools.
    pub naming: Arc<dyn Naming>,
    /// Waits before restarts; none: as the settings say.
    pub backoff: Option<Arc<dyn Backoff>>,
    /// Changes how calls of tools are made; none by default.
    pub calls: Option<CallHook>,
}

/// Sees the options of each call, and may change them.
pub type CallHook = Arc<dyn Fn(&mut CallOptions) + Send + Sync>;

/// Changes the reference client before a case.
pub type Customise = Arc<dyn Fn(&mut ClientSetup) + Send + Sync>;

/// The driver of the reference client.
#[derive(Clone, Default)]
pub struct Builtin {
    customise: Option<Customise>,
}

impl Builtin {
    /// The reference client as it is.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The reference client, changed: what `customise` sees is complete for the case, the options of `open` included.
    #[must_use]
    pub fn with(mut self, customise: Customise) -> Self {
        self.customise = Some(customise);
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
            version: env!("CARGO_PKG_VERSION").to_owned(),
            operations: without(&OPERATIONS, &["inspect", "control"]),
            transports: Transport::ALL.to_vec(),
            revisions: Revision::ALL.to_vec(),
            features: without(&FEATURES, &OF_HOSTS),
            clock_scale: None,
        })
    }

    async fn start(&self, case: CaseContext) -> Result<Arc<dyn Subject>, DriverError> {
        Ok(Arc::new(Reference {
            case,
            customise: self.customise.clone(),
            host: Mutex::default(),
            calls: Mutex::default(),
            names: ToolNames::default(),
            cancels: Mutex::default(),
            listeners: Mutex::default(),
        }))
    }
}

fn http_target(url: &str, open: &op::Open) -> HttpTarget {
    let mut target = HttpTarget::new(url);
    target.headers = open.headers.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    target
}

/// What only a host can do.
const OF_HOSTS: [&str; 8] =
    ["entries", "surroundings", "settings", "config", "agents", "clock", "process", "idle"];

fn without(all: &[&str], these: &[&str]) -> Vec<String> {
    all.iter().filter(|word| !these.contains(word)).map(|word| (*word).to_owned()).collect()
}

struct Reference {
    case: CaseContext,
    customise: Option<Customise>,
    host: Mutex<Option<Host>>,
    calls: Mutex<Option<CallHook>>,
    names: ToolNames,
    /// How to cancel the calls that run, by step.
    cancels: Mutex<HashMap<String, CancelSwitch>>,
    listeners: Mutex<tokio::task::JoinSet<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Subject for Reference {
    async fn run(&self, step: &str, op: &Op) -> Result<Outcome, DriverError> {
        Ok(match self.operate(step, op).await {
            Ok(value) => Outcome::Ok { value },
            Err(error) => Outcome::Error { error },
        })
    }

    async fn bench(&self, call: &op::Call, calls: u32) -> Result<Option<Vec<u64>>, DriverError> {
        let host = self.host().map_err(|e| DriverError::Protocol(e.message))?;
        let (name, _) = self.names.resolve(&call.tool, call.server.as_deref());
        let arguments = arguments(call).map_err(|e| DriverError::Protocol(e.message))?;
        let mut took = Vec::with_capacity(calls as usize);
        for _ in 0..calls {
            let start = Instant::now();
            let result = host.call(&name, arguments.clone()).await;
            took.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
            result.map_err(|e| DriverError::Protocol(format!("a call of the bench failed: {e}")))?;
        }
        Ok(Some(took))
    }

    async fn stop(&self) -> Vec<(u32, String)> {
        let host = lock(&self.host).take();
        if let Some(host) = host {
            host.close().await;
        }
        lock(&self.listeners).abort_all();
        Vec::new()
    }
}

impl Reference {
    async fn operate(&self, step: &str, op: &Op) -> Result<Value, Failure> {
        match op {
            Op::Open(open) => self.open(open).await,
            Op::Tools(of) => self.tools(of).await,
            Op::Call(call) => self.call(step, call).await,
            Op::Cancel(cancel) => {
                if let Some(running) = lock(&self.cancels).get(&cancel.step) {
                    running.throw(cancel.reason.as_deref().unwrap_or("no longer needed"));
                }
                Ok(json!({}))
            }
            // The harness does these by itself.
            Op::Await(_) | Op::Write(_) | Op::Configure(_) | Op::Disk(_) | Op::Signal(_) => Ok(json!({})),
            Op::Inspect(_) | Op::Control(_) => Err(refused("it is no host")),
            Op::Resources(of) => self.list(of, ListKind::Resources).await,
            Op::Templates(of) => self.list(of, ListKind::Templates).await,
            Op::Prompts(of) => self.list(of, ListKind::Prompts).await,
            Op::Read(read) => Ok(self.connection(read.server.as_deref())?.read(&read.uri).await?),
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
                    prompt.arguments.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect();
                Ok(self.connection(prompt.server.as_deref())?.prompt(&prompt.name, arguments).await?)
            }
            Op::Complete(complete) => {
                let of = match (&complete.prompt, &complete.template) {
                    (Some(prompt), _) => CompletionRef::Prompt(prompt.clone()),
                    (None, Some(template)) => CompletionRef::Template(template.clone()),
                    (None, None) => return Err(refused("neither `prompt` nor `template` is given")),
                };
                let connection = self.connection(complete.server.as_deref())?;
                let values =
                    connection.complete(&of, &complete.argument, &complete.value, Map::new()).await?;
                Ok(json!({ "completion": values }))
            }
            Op::SetLevel(set) => {
                self.connection(set.server.as_deref())?.set_level(&set.level).await?;
                Ok(json!({}))
            }
            Op::Ping(of) => {
                self.connection(of.server.as_deref())?.ping().await?;
                Ok(json!({}))
            }
            Op::SetRoots(set) => {
                let host = self.host()?;
                for connection in host.servers().iter().filter_map(|name| host.connection(name)) {
                    connection.set_roots(roots(&set.roots)).await;
                }
                Ok(json!({}))
            }
            Op::Close(of) => {
                match &of.server {
                    None => {
                        let host = lock(&self.host).take();
                        if let Some(host) = host {
                            host.close().await;
                        }
                    }
                    Some(_) => self.connection(of.server.as_deref())?.close().await,
                }
                Ok(json!({}))
            }
        }
    }

    fn host(&self) -> Result<Host, Failure> {
        lock(&self.host).clone().ok_or_else(|| refused("no connection is open"))
    }

    /// The connection to a server, or to the only one.
    fn connection(&self, server: Option<&str>) -> Result<Connection, Failure> {
        let host = self.host()?;
        let names = host.servers();
        let name = match (server, names.as_slice()) {
            (Some(name), _) => name,
            (None, [only]) => only,
            (None, _) => return Err(refused("several servers are open; say which")),
        };
        host.connection(name)
            .ok_or_else(|| Failure::new(FailureKind::Closed, format!("the server {name} is not connected")))
    }

    async fn open(&self, open: &op::Open) -> Result<Value, Failure> {
        let mut setup =
            setup(open, self.case.revision, Arc::clone(&self.case.events)).map_err(|e| refused(&e))?;
        if let Some(customise) = &self.customise {
            customise(&mut setup);
        }
        (*lock(&self.calls)).clone_from(&setup.calls);
        let mut builder = Client::builder(setup.settings.clone())
            .launcher(setup.launcher)
            .http(setup.http)
            .callbacks(setup.callbacks)
            .lists(setup.lists.unwrap_or_else(|| Arc::new(FollowCursors(setup.settings.pages))))
            .entropy(setup.entropy)
            .browser(setup.browser)
            .credentials(setup.credentials)
            .naming(setup.naming);
        if let Some(filter) = setup.filter {
            builder = builder.filter(filter);
        }
        if let Some(backoff) = setup.backoff {
            builder = builder.backoff(backoff);
        }
        let targets: Vec<_> = self
            .case
            .targets
            .iter()
            .filter(|(name, _)| open.servers.is_empty() || open.servers.contains(name))
            .map(|(name, target)| (name.clone(), self.target(target, open)))
            .collect();
        let host = Host::start(builder.build(), targets).await;
        *lock(&self.host) = Some(host.clone());
        let mut servers = Map::new();
        let mut failure = None;
        for name in host.servers() {
            let report = match (host.connection(&name), host.status(&name)) {
                (Some(connection), _) => {
                    self.listen(&name, &connection);
                    opened(&connection)
                }
                (
                    None,
                    Some(sparring_client::ServerStatus::Down(e) | sparring_client::ServerStatus::GivenUp(e)),
                ) => {
                    let error = Failure::from(&e);
                    failure.get_or_insert_with(|| error.clone());
                    json!({ "ok": false, "error": error })
                }
                // It went down between the two looks.
                (None, _) => {
                    json!({ "ok": false, "error": Failure::new(FailureKind::Closed, "the server is gone") })
                }
            };
            servers.insert(name, report);
        }
        match failure {
            Some(failure) if !servers.values().any(|s| s["ok"] == true) => Err(failure),
            _ => Ok(json!({ "servers": servers })),
        }
    }

    fn target(&self, target: &Target, open: &op::Open) -> sparring_client::Target {
        match target {
            Target::Stdio { command, args, env } => {
                let mut target = StdioTarget::new(command, args);
                target.env = env.iter().map(|(k, v)| (k.into(), v.into())).collect();
                target.env.push(("HOME".into(), directory::home(&self.case.directory).into()));
                target.env.push(("TMPDIR".into(), directory::tmp(&self.case.directory).into()));
                target.cwd = Some(PathBuf::clone(&self.case.directory));
                sparring_client::Target::Stdio(target)
            }
            Target::Http { url } => sparring_client::Target::Http(http_target(url, open)),
            Target::SseLegacy { url } => sparring_client::Target::Sse(http_target(url, open)),
        }
    }

    /// Reports what reaches the client's caller by itself.
    fn listen(&self, server: &str, connection: &Connection) {
        let (server, mut events) = (server.to_owned(), connection.events());
        let report = Arc::clone(&self.case.events);
        lock(&self.listeners).spawn(async move {
            while let Some(event) = events.next().await {
                let (method, params) = match event {
                    Event::Notification { method, params } if params.is_null() => (method, json!({})),
                    Event::Notification { method, params } => (method, params),
                    // What follows from a notification was reported with it.
                    Event::ListChanged(_)
                    | Event::Log(_)
                    | Event::ResourceUpdated { .. }
                    | Event::ElicitationComplete { .. }
                    | Event::Progress { .. } => continue,
                    other => {
                        report.driver_event("log", json!({ "text": format!("{server}: {other:?}") }));
                        continue;
                    }
                };
                report.driver_event(
                    "notification",
                    json!({ "server": server, "method": method, "params": params }),
                );
            }
        });
    }

    async fn tools(&self, of: &op::Of) -> Result<Value, Failure> {
        let host = self.host()?;
        for name in host.servers() {
            if of.server.as_ref().is_some_and(|server| *server != name) {
                continue;
            }
            match (host.connection(&name), host.servers().len()) {
                (Some(connection), _) => match connection.known(ListKind::Tools).await {
                    Ok(_) => {}
                    // Of several servers one may have no tools at all.
                    Err(error) if error.kind() == FailureKind::Refused && of.server.is_none() => {}
                    Err(error) => return Err(error.into()),
                },
                (None, 1) => {
                    return Err(self.connection(Some(&name)).err().unwrap_or_else(|| refused("gone")));
                }
                (None, _) => {}
            }
        }
        let tools: Vec<Value> = host
            .tools()
            .into_iter()
            .filter(|tool| of.server.as_ref().is_none_or(|server| *server == tool.server))
            .map(|tool| {
                let mut json = tool.tool.json;
                json["rawName"] = Value::from(tool.tool.key);
                json["name"] = Value::from(tool.name);
                json["server"] = Value::from(tool.server);
                json
            })
            .collect();
        let value = json!({ "tools": tools });
        self.names.learn(&value, of.server.as_deref());
        Ok(value)
    }

    async fn call(&self, step: &str, call: &op::Call) -> Result<Value, Failure> {
        let host = self.host()?;
        let tools = host.tools();
        let tool = tools.iter().find(|t| {
            t.tool.key == call.tool && call.server.as_ref().is_none_or(|server| *server == t.server)
        });
        let Some(tool) = tool else {
            return Err(refused(&format!("no server lists a tool {:?}", call.tool)));
        };
        let options = RequestOptions {
            timeout: call.timeout_ms.map(Duration::from_millis),
            progress: call.progress,
            ..RequestOptions::default()
        };
        let cancel = CancelSwitch::default();
        lock(&self.cancels).insert(step.to_owned(), cancel.clone());
        let (events, label) = (Arc::clone(&self.case.events), step.to_owned());
        let report: sparring_client::ProgressCallback = Arc::new(move |progress| {
            let mut data = json!({ "step": label, "progress": progress.progress });
            if let Some(total) = progress.total {
                data["total"] = json!(total);
            }
            if let Some(message) = progress.message {
                data["message"] = Value::from(message);
            }
            events.driver_event("progress", data);
        });
        let mut options =
            CallOptions { request: options, progress: call.progress.then_some(report), cancel: Some(cancel) };
        if let Some(hook) = lock(&self.calls).as_ref() {
            hook(&mut options);
        }
        let outcome = host.call_with(&tool.name, arguments(call)?, options).await;
        lock(&self.cancels).remove(step);
        Ok(outcome?.into_json())
    }

    async fn list(&self, of: &op::Of, kind: ListKind) -> Result<Value, Failure> {
        let host = self.host()?;
        let names = match &of.server {
            Some(name) => vec![name.clone()],
            None => host.servers(),
        };
        let mut entries = Vec::new();
        for name in &names {
            for entry in self.connection(Some(name))?.list(kind).await?.iter() {
                let mut json = entry.json.clone();
                json["server"] = Value::from(name.as_str());
                entries.push(json);
            }
        }
        Ok(json!({ (kind.member()): entries }))
    }
}

fn refused(why: &str) -> Failure {
    Failure::new(FailureKind::Refused, why)
}

fn arguments(call: &op::Call) -> Result<Map<String, Value>, Failure> {
    match call.arguments.as_ref().map(|a| a.0.clone()) {
        None => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(refused("`arguments` is no JSON object")),
    }
}

fn roots(uris: &[String]) -> Vec<Root> {
    uris.iter().map(|uri| Root { uri: uri.clone(), name: None }).collect()
}

fn opened(connection: &Connection) -> Value {
    let Some(negotiated) = connection.negotiated() else {
        return json!({ "ok": true });
    };
    let mut report = json!({
        "ok": true,
        "protocolVersion": negotiated.revision,
        "serverInfo": negotiated.server_info,
        "capabilities": negotiated.capabilities,
    });
    if let Some(instructions) = &negotiated.instructions {
        report["instructions"] = Value::from(instructions.as_str());
    }
    report
}

/// The reference client as `reference.toml` promises it, and as `open` asks for it.
fn setup(open: &op::Open, revision: Revision, events: Arc<dyn DriverEvents>) -> Result<ClientSetup, String> {
    let mut settings = Settings::default();
    // The promise is a wait before the first attempt too.
    settings.restart.waits = [1, 2, 4, 8, 16].map(Duration::from_secs).to_vec();
    if let Some(waits) = &open.backoff_ms {
        settings.restart.waits = waits.iter().copied().map(Duration::from_millis).collect();
    }
    // Against servers with a handshake it is judged as a client of their time, which probes for nothing.
    let newest = if revision.is_stateless() { revision } else { Revision::LATEST_HANDSHAKE };
    settings.offer = open.offer.unwrap_or(newest);
    if let Some(ms) = open.timeout_ms {
        settings.timeouts.start = Duration::from_millis(ms);
    }
    settings.declare = Declared {
        roots: open.roots.as_ref().map(|_| RootsCapability { list_changed: true }),
        sampling: open.sampling.as_ref().map(|_| SamplingCapability { tools: false, context: false }),
        elicitation: open.elicitation.as_ref().map(|_| ElicitationCapability { form: true, url: false }),
        ..Declared::default()
    };
    settings.roots = open.roots.as_deref().map(roots).unwrap_or_default();
    let mut oauth = sparring_client::OauthSettings::default();
    if let Some(id) = &open.client_id {
        oauth.registered.push(RegisteredClient {
            issuer: None,
            id: id.clone(),
            secret: open.client_secret.clone(),
        });
    }
    settings.oauth = Some(oauth);
    Ok(ClientSetup {
        settings,
        launcher: Arc::new(SystemLauncher),
        http: Arc::new(SystemHttp::new().map_err(|e| e.to_string())?),
        filter: None,
        callbacks: Arc::new(Scripted {
            sampling: open.sampling.as_ref().map(|s| s.0.clone()),
            elicitation: open.elicitation.as_ref().map(|e| e.0.clone()),
        }),
        lists: None,
        entropy: Arc::new(SystemEntropy),
        browser: Arc::new(HarnessBrowser { events }),
        credentials: Arc::new(MemoryStore::default()),
        naming: Arc::new(HashedNames::default()),
        backoff: None,
        calls: None,
    })
}

/// Answers as the scenario says.
struct Scripted {
    sampling: Option<Value>,
    elicitation: Option<Value>,
}

#[async_trait]
impl Callbacks for Scripted {
    async fn sample(&self, _: &str, _: Sampling) -> Result<Value, RpcError> {
        self.sampling.clone().ok_or_else(RpcError::user_rejected)
    }

    async fn elicit(&self, _: &str, _: Elicitation) -> Result<ElicitAnswer, RpcError> {
        let answer = self.elicitation.as_ref();
        Ok(match answer.and_then(|a| a.get("action")).and_then(Value::as_str) {
            Some("accept") => ElicitAnswer::Accept(
                answer.and_then(|a| a.get("content")).and_then(Value::as_object).cloned().unwrap_or_default(),
            ),
            Some("cancel") => ElicitAnswer::Cancel,
            _ => ElicitAnswer::Decline,
        })
    }
}

/// The browser that the harness plays.
struct HarnessBrowser {
    events: Arc<dyn DriverEvents>,
}

#[async_trait]
impl Browser for HarnessBrowser {
    async fn open(&self, server: &str, url: &str) -> Result<Option<String>, String> {
        self.events.driver_event("authorization-url", json!({ "server": server, "url": url }));
        let (events, url) = (Arc::clone(&self.events), url.to_owned());
        // In a task of its own: the client no longer waits once its listener was called, but the transcript does.
        let visit = tokio::spawn(async move { browse(&url, events.as_ref()).await });
        match visit.await {
            // The client's own listener has taken it.
            Ok(Ok(arrival)) if arrival.delivered => Ok(None),
            Ok(Ok(arrival)) => Ok(Some(arrival.url)),
            Ok(Err(lost)) => Err(lost.to_string()),
            Err(failed) => Err(failed.to_string()),
        }
    }
}
