//! The `builtin` driver: the reference client, in this process, as the host that a profile describes.

mod desk;
mod opening;
mod setup;

pub use setup::{CallHook, ClientSetup, Customise};

use super::ToolNames;
use crate::driver::{CaseContext, Driver, DriverError, Hello, Subject};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use setup::roots;
use sparring_client::{CallOptions, CancelSwitch, CompletionRef, Connection, ListKind, RequestOptions};
use sparring_host::{Control, Host, HostError, Session};
use sparring_profiles::{OnChange, Settings};
use sparring_scenarios::op::{self, FEATURES, OPERATIONS, Op};
use sparring_scenarios::profile::Profile;
use sparring_wire::transcript::{Failure, FailureKind, Outcome};
use sparring_wire::{Revision, Transport};
use std::collections::HashMap;
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
