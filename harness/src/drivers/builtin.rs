//! The `builtin` driver: the reference client, in this process, as the host that a profile describes.

mod desk;
mod setup;

pub use setup::{CallHook, ClientSetup, Customise};

use super::ToolNames;
use crate::dialect;
use crate::driver::{CaseContext, Driver, DriverError, Hello, Subject};
use crate::run::directory;
use async_trait::async_trait;
use desk::list_of;
use serde_json::{Map, Value, json};
use setup::{changed, roots};
use sparring_client::{
    CallOptions, CancelSwitch, CompletionRef, Connection, Event, ListKind, RequestOptions,
};
use sparring_host::config::ConfigFiles;
use sparring_host::disclosure::{DisclosureOptions, SearchMode};
use sparring_host::store::credentials::{FileCredentials, default_path};
use sparring_host::{Control, Host, HostError, Inspect, ServerEntry, Session, SessionOptions, Surroundings};
use sparring_profiles::{Connect, OnChange, Settings, StoreKind};
use sparring_scenarios::op::{self, FEATURES, OPERATIONS, Op};
use sparring_scenarios::profile::Profile;
use sparring_wire::transcript::{Failure, FailureKind, Outcome};
use sparring_wire::{Revision, Transport};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The driver of the reference client.
#[derive(Clone, Default)]
pub struct Builtin {
    profile: Profile,
    customise: Option<Customise>,
}

impl Builtin {
    /// The reference client as it is.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The reference client as the host of this profile.
    #[must_use]
    pub fn as_host(profile: Profile) -> Self {
        Self { profile, customise: None }
    }

    /// The reference client, changed: what `customise` sees is complete for the case, the options of `open` included.
    #[must_use]
    pub fn with(mut self, customise: Customise) -> Self {
        self.customise = Some(customise);
        self
    }
}

/// What this driver can't: end the client's process, which is the harness's own.
const CAN_NOT: [&str; 1] = ["process"];

#[async_trait]
impl Driver for Builtin {
    fn kind(&self) -> &'static str {
        "builtin"
    }

    fn command(&self) -> Vec<String> {
        Vec::new()
    }

    async fn hello(&self) -> Result<Hello, DriverError> {
        let settings = self.profile.settings();
        let newest = settings.protocol.offers == Revision::LATEST_HANDSHAKE;
        let speaks = |revision: &Revision| {
            settings.protocol.offers == *revision
                || settings.protocol.accepts.contains(revision)
                // The reference client looks which era a server is of.
                || newest && revision.is_stateless()
        };
        let lacks = |feature: &str| match feature {
            "oauth" => !settings.auth.oauth,
            "headers" => !settings.transports.static_headers,
            feature => CAN_NOT.contains(&feature),
        };
        let name = self.profile.name().map(|name| format!("reference client as {name}"));
        Ok(Hello {
            name: name.unwrap_or_else(|| "reference client".to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            operations: OPERATIONS.map(str::to_owned).to_vec(),
            transports: Transport::ALL.to_vec(),
            revisions: Revision::ALL.into_iter().filter(speaks).collect(),
            features: FEATURES.iter().filter(|f| !lacks(f)).map(|f| (*f).to_owned()).collect(),
            clock_scale: None,
        })
    }

    async fn start(&self, case: CaseContext) -> Result<Arc<dyn Subject>, DriverError> {
        Ok(Arc::new(Reference {
            case,
            settings: self.profile.settings(),
            has_roots: self.profile.value("roots.answer").is_some(),
            customise: self.customise.clone(),
            host: Mutex::default(),
            calls: Mutex::default(),
            names: ToolNames::default(),
            cancels: Mutex::default(),
            listeners: Mutex::default(),
        }))
    }
}

struct Reference {
    case: CaseContext,
    settings: Settings,
    /// The profile says what the host's roots are.
    has_roots: bool,
    customise: Option<Customise>,
    host: Mutex<Option<Running>>,
    calls: Mutex<Option<CallHook>>,
    names: ToolNames,
    /// How to cancel the calls that run, by step.
    cancels: Mutex<HashMap<String, CancelSwitch>>,
    listeners: Mutex<tokio::task::JoinSet<()>>,
}

/// A host that was opened.
#[derive(Clone)]
struct Running {
    host: Host,
    /// By agent, in the order in which they were opened.
    sessions: Vec<(Option<String>, Session)>,
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
        let session = self.session(None).map_err(|e| DriverError::Protocol(e.message))?;
        let (name, _) = self.names.resolve(&call.tool, call.server.as_deref());
        let arguments = arguments(call).map_err(|e| DriverError::Protocol(e.message))?;
        let mut took = Vec::with_capacity(calls as usize);
        for _ in 0..calls {
            let start = Instant::now();
            let result = session.call(&name, arguments.clone(), CallOptions::default()).await;
            took.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
            result.map_err(|e| DriverError::Protocol(format!("a call of the bench failed: {e}")))?;
        }
        Ok(Some(took))
    }

    async fn stop(&self) -> Vec<(u32, String)> {
        self.close_all().await;
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
            Op::Inspect(inspect) => self.inspect(inspect).await,
            Op::Control(control) => self.control(control).await,
            // The harness does these by itself.
            Op::Await(_) | Op::Write(_) | Op::Configure(_) | Op::Disk(_) | Op::Signal(_) => Ok(json!({})),
            Op::Resources(of) => self.list(of, ListKind::Resources).await,
            Op::Templates(of) => self.list(of, ListKind::Templates).await,
            Op::Prompts(of) => self.list(of, ListKind::Prompts).await,
            Op::Read(read) => {
                Ok(self.connection(read.server.as_deref(), None).await?.read(&read.uri).await?)
            }
            Op::Subscribe(read) => {
                self.connection(read.server.as_deref(), None).await?.subscribe(&read.uri).await?;
                Ok(json!({}))
            }
            Op::Unsubscribe(read) => {
                self.connection(read.server.as_deref(), None).await?.unsubscribe(&read.uri).await?;
                Ok(json!({}))
            }
            Op::Prompt(prompt) => {
                let arguments =
                    prompt.arguments.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect();
                let connection = self.connection(prompt.server.as_deref(), None).await?;
                Ok(connection.prompt(&prompt.name, arguments).await?)
            }
            Op::Complete(complete) => {
                let of = match (&complete.prompt, &complete.template) {
                    (Some(prompt), _) => CompletionRef::Prompt(prompt.clone()),
                    (None, Some(template)) => CompletionRef::Template(template.clone()),
                    (None, None) => return Err(refused("neither `prompt` nor `template` is given")),
                };
                let connection = self.connection(complete.server.as_deref(), None).await?;
                let values =
                    connection.complete(&of, &complete.argument, &complete.value, Map::new()).await?;
                Ok(json!({ "completion": values }))
            }
            Op::SetLevel(set) => {
                self.connection(set.server.as_deref(), None).await?.set_level(&set.level).await?;
                Ok(json!({}))
            }
            Op::Ping(of) => {
                self.connection(of.server.as_deref(), of.agent.as_deref()).await?.ping().await?;
                Ok(json!({}))
            }
            Op::SetRoots(set) => {
                let session = self.session(None)?;
                for name in self.servers()? {
                    if let Some(connection) = session.connection(&name) {
                        connection.set_roots(roots(&set.roots)).await;
                    }
                }
                Ok(json!({}))
            }
            Op::Close(of) => {
                match (&of.server, &of.agent) {
                    (None, None) => self.close_all().await,
                    (Some(server), agent) => {
                        let session = self.session(agent.as_deref())?;
                        let stopped = session.control(Control::Stop { server: server.clone() }).await;
                        stopped.map_err(|error| self.failure(&error))?;
                    }
                    (None, Some(agent)) => {
                        let session = self.session(Some(agent))?;
                        if let Some(running) = lock(&self.host).as_mut() {
                            running.sessions.retain(|(name, _)| name.as_ref() != Some(agent));
                        }
                        session.close().await;
                    }
                }
                Ok(json!({}))
            }
        }
    }

    fn failure(&self, error: &HostError) -> Failure {
        let settings = lock(&self.host).as_ref().map(|running| running.host.settings());
        error.failure(settings.as_ref().map_or(&self.settings.errors, |settings| &settings.errors))
    }

    fn running(&self) -> Result<Running, Failure> {
        lock(&self.host).clone().ok_or_else(|| refused("no connection is open"))
    }

    fn session(&self, agent: Option<&str>) -> Result<Session, Failure> {
        let running = self.running()?;
        let found = running.sessions.iter().find(|(name, _)| agent.is_none() || name.as_deref() == agent);
        let missing = || refused(&format!("no agent {} is open", agent.unwrap_or("at all")));
        found.map(|(_, session)| session.clone()).ok_or_else(missing)
    }

    fn servers(&self) -> Result<Vec<String>, Failure> {
        Ok(self.running()?.host.entries().iter().map(|entry| entry.name.clone()).collect())
    }

    /// The connection to a server, or to the only one.
    async fn connection(&self, server: Option<&str>, agent: Option<&str>) -> Result<Connection, Failure> {
        let (session, names) = (self.session(agent)?, self.servers()?);
        let name = match (server, names.as_slice()) {
            (Some(name), _) => name,
            (None, [only]) => only,
            (None, _) => return Err(refused("several servers are open; say which")),
        };
        session.connect(name).await.map_err(|error| self.failure(&error))
    }

    async fn close_all(&self) {
        let running = lock(&self.host).take();
        if let Some(Running { host, sessions }) = running {
            for (_, session) in sessions {
                session.close().await;
            }
            host.close().await;
        }
    }

    async fn open(&self, open: &op::Open) -> Result<Value, Failure> {
        let former = lock(&self.host).clone();
        let second = former.filter(|running| {
            open.agent.is_some() && running.sessions.iter().all(|(name, _)| *name != open.agent)
        });
        let running = match second {
            Some(running) => running,
            None => {
                self.close_all().await;
                self.launch(open).await?
            }
        };
        let host = running.host.clone();
        let options = SessionOptions {
            isolated: is_on(open, "session.isolated"),
            without_servers: is_on(open, "session.without_servers"),
            cwd: open.cwd.as_ref().map(|path| self.case.directory.join(path)),
            project: open.project.as_ref().map(|path| self.case.directory.join(path)),
            disclosure: DisclosureOptions {
                // Whoever wants to see tools deferred says so; all others call them as they are.
                mode: (!open.set.contains_key("session.disclosure")).then_some(SearchMode::Full),
                ..DisclosureOptions::default()
            },
            ..SessionOptions::default()
        };
        *lock(&self.host) = Some(running);
        let session = match host.session(options).await {
            Ok(session) => session,
            Err(error) => {
                let failure = self.failure(&error);
                self.close_all().await;
                return Err(failure);
            }
        };
        if let Some(running) = lock(&self.host).as_mut() {
            running.sessions.push((open.agent.clone(), session.clone()));
        }
        // There is no user who could say yes, unless the scenario is about that.
        let on = !open.set.contains_key("policy.auto_approve");
        session.control(Control::AutoApprove { on }).await.map_err(|error| self.failure(&error))?;
        for (setting, value) in &open.set {
            // The host has been told what is a field of the profile.
            if changed(&self.settings, setting, &value.0).is_none() {
                self.set(&session, setting, value.0.clone()).await?;
            }
        }
        if !open.idle {
            self.contact(&host, &session, open).await?;
        }
        self.report(&host, &session, open.idle).await
    }

    async fn launch(&self, open: &op::Open) -> Result<Running, Failure> {
        let mut settings = self.settings.clone();
        // What is no field of the profile is for the session.
        for (name, value) in &open.set {
            settings = changed(&settings, name, &value.0).unwrap_or(settings);
        }
        let mut setup = ClientSetup::new(
            settings,
            self.has_roots,
            self.case.revision,
            open,
            Arc::clone(&self.case.events),
        )
        .map_err(|e| refused(&e))?;
        if let Some(customise) = &self.customise {
            customise(&mut setup);
        }
        (*lock(&self.calls)).clone_from(&setup.calls);
        let surroundings = self.surroundings(open);
        if setup.host.auth.store == StoreKind::Keychain {
            // A test writes into nobody's keychain: a file of the case stands for it.
            let file = || FileCredentials::new(default_path(&surroundings.state), 0o600);
            setup.credentials.get_or_insert_with(|| Arc::new(file()));
        }
        let mut builder = Host::builder(setup.host.clone(), surroundings)
            .clock_scale(f64::from(self.case.clock_scale))
            .client(setup.client_hook());
        if !open.config {
            builder = builder.entries(self.entries(open)?);
        } else if is_on(open, "config.import") {
            let files = ConfigFiles::new(&setup.host).import(true);
            builder = builder.parts(move |mut parts| {
                parts.config = Arc::new(files);
                parts
            });
        }
        if let Some(predicate) = predicate(open) {
            builder = builder.parts(move |mut parts| {
                parts.predicate = Some(predicate);
                parts
            });
        }
        let host = Host::launch(builder.parts(setup.parts_hook())).await;
        let host = host.map_err(|error| error.failure(&self.settings.errors))?;
        Ok(Running { host, sessions: Vec::new() })
    }

    fn surroundings(&self, open: &op::Open) -> Surroundings {
        let case = &self.case.directory;
        let inside = |path: &String| case.join(path);
        let environment = directory::client_environment(std::env::vars_os(), case);
        let unicode = environment
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut env: BTreeMap<String, String> = unicode.collect();
        if open.config {
            env.extend(self.case.config_env.clone());
        }
        env.extend(open.env.clone());
        let home = env.get("HOME").map_or_else(|| directory::home(case), PathBuf::from);
        Surroundings {
            cwd: open.cwd.as_ref().map_or_else(|| case.clone(), inside),
            project: open.project.as_ref().map(inside),
            state: home.join(".local/state/sparring-client"),
            home,
            env,
        }
    }

    fn entries(&self, open: &op::Open) -> Result<Vec<ServerEntry>, Failure> {
        let plain = op::Entry::default();
        let chosen = dialect::chosen(&open.servers, &open.entries, &self.case.targets);
        let mut all: BTreeMap<&str, &op::Entry> = chosen.map(|(name, _)| (name.as_str(), &plain)).collect();
        all.extend(open.entries.iter().map(|(name, entry)| (name.as_str(), entry)));
        let entry = |(name, entry): (&str, &op::Entry)| {
            let mut members = dialect::members(name, entry, &self.case.targets)?;
            // Program and arguments are there by themselves, and a function is no configuration.
            members.remove("argv");
            members.remove("predicate");
            members.insert("name".to_owned(), Value::from(name));
            if members.contains_key("command") && members.contains_key("url") {
                // The host has to choose.
                members.remove("type");
            }
            let mut read: ServerEntry =
                serde_json::from_value(Value::Object(members)).map_err(|error| error.to_string())?;
            if read.url.is_some() {
                read.headers.extend(open.headers.clone());
            }
            Ok::<_, String>(read)
        };
        all.into_iter().map(entry).collect::<Result<_, _>>().map_err(|why| refused(&why))
    }

    /// Sees to it that the servers are contacted, as a user could who does not want to wait.
    async fn contact(&self, host: &Host, session: &Session, open: &op::Open) -> Result<(), Failure> {
        let settings = host.settings();
        match settings.startup.connect {
            Connect::Launch | Connect::Session => {}
            Connect::FirstRun => session.run().await.map_err(|error| self.failure(&error))?,
            Connect::FirstCall => {
                let names: Vec<String> = host.entries().iter().map(|entry| entry.name.clone()).collect();
                let starts = names.into_iter().map(|server| session.control(Control::Start { server }));
                // What came of it is in the status.
                drop(futures_util::future::join_all(starts).await);
            }
        }
        // Whoever wants to be connected, and has configured nothing, signs in where that is asked for.
        if open.entries.is_empty() && !open.config {
            for entry in host.entries().iter() {
                if let Some(HostError::NeedsLogin { .. }) = session.failure_of(&entry.name) {
                    // What came of it is in the status.
                    drop(session.login(&entry.name).await);
                }
            }
        }
        Ok(())
    }

    /// What came of an `open`, by server.
    async fn report(&self, host: &Host, session: &Session, idle: bool) -> Result<Value, Failure> {
        let status = session.inspect(Inspect::Status).await.map_err(|error| self.failure(&error))?;
        let (mut servers, mut first) = (Map::new(), None);
        for one in list_of(&status, "servers") {
            let name = one["name"].as_str().unwrap_or_default().to_owned();
            let failed = one.get("error").filter(|error| !error.is_null());
            let report = match (session.connection(&name), failed) {
                (Some(connection), _) => {
                    self.listen(&name, &connection);
                    opened(&connection)
                }
                (None, Some(_)) => {
                    // The status has it in words only.
                    let failure = match session.failure_of(&name) {
                        Some(error) => error.failure(&host.settings().errors),
                        None => Failure::new(FailureKind::Other, one["error"].as_str().unwrap_or_default()),
                    };
                    first.get_or_insert_with(|| failure.clone());
                    json!({ "ok": false, "error": failure })
                }
                // It is switched off, or not contacted yet.
                (None, None) => json!({ "ok": idle || one["state"] != "ready" }),
            };
            servers.insert(name, report);
        }
        match first {
            Some(failure) if !servers.values().any(|s| s["ok"] == true) => Err(failure),
            _ => Ok(json!({ "servers": servers })),
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
        let session = self.session(of.agent.as_deref())?;
        self.settle_lists(&session).await?;
        let listed = session.tools().await.map_err(|error| self.failure(&error))?;
        let tools: Vec<Value> = listed
            .into_iter()
            .filter(|tool| of.server.as_ref().is_none_or(|server| tool.server.as_ref() == Some(server)))
            .map(|tool| {
                let raw = tool.raw().map(str::to_owned);
                let mut json = json!({
                    "name": tool.name,
                    "server": tool.server,
                    "rawName": raw.unwrap_or_else(|| tool.name.clone()),
                    "inputSchema": tool.input_schema,
                });
                let more = [
                    ("title", tool.title.map(Value::from)),
                    ("description", tool.description.map(Value::from)),
                    ("outputSchema", tool.output_schema),
                    ("annotations", tool.annotations),
                ];
                for (name, value) in more {
                    if let Some(value) = value {
                        json[name] = value;
                    }
                }
                json
            })
            .collect();
        // A server that has not told its tools is no server without tools.
        let servers = self.servers()?;
        let only = of
            .server
            .as_ref()
            .or_else(|| servers.first())
            .filter(|_| of.server.is_some() || servers.len() == 1);
        if let (true, Some(server)) = (tools.is_empty(), only)
            && let Some(error) = session.failure_of(server)
        {
            return Err(self.failure(&error));
        }
        let value = json!({ "tools": tools });
        self.names.learn(&value, of.server.as_deref());
        Ok(value)
    }

    /// Waits for lists that are being read anew at this moment, where the host does that by itself.
    async fn settle_lists(&self, session: &Session) -> Result<(), Failure> {
        let running = self.running()?;
        if running.host.settings().list_changed.tools != OnChange::RefetchNow {
            return Ok(());
        }
        for entry in running.host.entries().iter().filter(|entry| entry.supplied_tools.is_none()) {
            if let Some(connection) = session.connection(&entry.name) {
                // A server without tools, or one that fails: the host knows what to make of it.
                drop(connection.known(ListKind::Tools).await);
            }
        }
        Ok(())
    }

    async fn call(&self, step: &str, call: &op::Call) -> Result<Value, Failure> {
        let session = self.session(call.agent.as_deref())?;
        let name = match &call.name {
            Some(name) => name.clone(),
            None => match self.names.resolve(&call.tool, call.server.as_deref()) {
                (name, _) if name != call.tool => name,
                // The scenario has not asked for the tools, or not since they were others.
                (name, _) => {
                    let listed = session.tools().await.map_err(|error| self.failure(&error))?;
                    let found = listed.into_iter().find(|tool| {
                        tool.raw() == Some(&call.tool)
                            && call.server.as_ref().is_none_or(|server| tool.server.as_ref() == Some(server))
                    });
                    found.map_or(name, |tool| tool.name)
                }
            },
        };
        let timeout = call.timeout_ms.map(|ms| Duration::from_millis(ms) / self.case.clock_scale.max(1));
        let options = RequestOptions { timeout, progress: call.progress, ..RequestOptions::default() };
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
        let outcome = session.call(&name, arguments(call)?, options).await;
        lock(&self.cancels).remove(step);
        match outcome {
            Ok(result) => Ok(serde_json::to_value(result).unwrap_or_default()),
            Err(error) => Err(self.failure(&error)),
        }
    }

    async fn list(&self, of: &op::Of, kind: ListKind) -> Result<Value, Failure> {
        let names = match &of.server {
            Some(name) => vec![name.clone()],
            None => self.servers()?,
        };
        let mut entries = Vec::new();
        for name in &names {
            let connection = self.connection(Some(name), of.agent.as_deref()).await?;
            for entry in connection.list(kind).await?.iter() {
                let mut json = entry.json.clone();
                json["server"] = Value::from(name.as_str());
                entries.push(json);
            }
        }
        Ok(json!({ (kind.member()): entries }))
    }
}

/// What the `predicate`s of the entries say together.
/// Whether `open` turns this setting on.
fn is_on(open: &op::Open, setting: &str) -> bool {
    open.set.get(setting).is_some_and(|value| value.0 == true)
}

fn predicate(open: &op::Open) -> Option<sparring_host::filter::ToolPredicate> {
    let chosen: HashMap<String, Vec<String>> = open
        .entries
        .iter()
        .filter_map(|(name, entry)| Some((name.clone(), entry.predicate.clone()?)))
        .collect();
    let decides = move |server: &str, tool: &sparring_client::Entry| {
        chosen.get(server).is_none_or(|tools| tools.contains(&tool.key))
    };
    open.entries.values().any(|entry| entry.predicate.is_some()).then(|| Arc::new(decides) as _)
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
