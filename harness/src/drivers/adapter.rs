//! The driver protocol, from the harness's side: JSON-RPC lines over an adapter's stdin and stdout.

mod again;

use super::ToolNames;
use super::process::{ClientProcess, Launch, ProcessSettings, cut, visitor};
use crate::dialect;
use crate::driver::{CaseContext, Driver, DriverError, DriverEvents, Hello, Subject, Target};
use crate::run::directory::{CaseDirectory, absolute_words};
use again::Restartable;
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use sparring_mock_servers::script::JsonText;
use sparring_scenarios::op::{self, FEATURES, Inspected, OPERATIONS, Op};
use sparring_wire::Revision;
use sparring_wire::framing::Lines;
use sparring_wire::jsonrpc::{self, Envelope, Id, codes};
use sparring_wire::transcript::{Failure, FailureKind, Outcome};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The version of the driver protocol.
pub const PROTOCOL: u32 = 1;

/// The longest message of an adapter, in bytes.
const LONGEST_MESSAGE: usize = 64 << 20;
/// The longest name or version of a client, in characters; more would break the summary.
const LONGEST_NAME: usize = 80;
/// Lines on stdout that are no messages and still become events; the rest is only counted.
const STRAY_LINES: u32 = 100;

/// Runs an adapter for each case.
#[derive(Debug, Clone)]
pub struct Adapter {
    command: Vec<String>,
    settings: ProcessSettings,
}

impl Adapter {
    /// `command` is the program and its arguments; no shell is involved. It runs in the case's folder, so words that
    /// name an existing file by a relative path are made absolute.
    pub const fn new(command: Vec<String>, settings: ProcessSettings) -> Self {
        Self { command, settings }
    }

    async fn launch(
        &self,
        client: &std::path::Path,
        targets: BTreeMap<String, Target>,
        revision: Revision,
        told: Told,
        events: Arc<dyn DriverEvents>,
    ) -> Result<(Arc<Running>, Hello), DriverError> {
        let command = absolute_words(&self.command, &self.settings.here);
        // The browser's visits end in a notification to an adapter that is only just being started.
        let running: Arc<Mutex<Weak<Running>>> = Arc::default();
        let opened = visitor(events.clone(), {
            let running = running.clone();
            move |url| {
                if let Some(running) = running.lock().unwrap_or_else(PoisonError::into_inner).upgrade() {
                    running.notify("redirect", json!({"url": url}));
                }
            }
        });
        let launch = Launch {
            command: &command,
            client,
            working_directory: client,
            environment: BTreeMap::new(),
            events: events.clone(),
            opened: {
                let (events, opened) = (events.clone(), opened.clone());
                Arc::new(move |url| {
                    events.driver_event("authorization-url", json!({"url": url, "via": "browser command"}));
                    opened(url);
                })
            },
        };
        let (process, stdin, stdout) = ClientProcess::start(&self.settings, launch).await?;
        let (outgoing, to_write) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { pending: Mutex::default(), events, opened });
        let made = Arc::new(Running {
            process,
            shared: shared.clone(),
            outgoing: Mutex::new(Some(outgoing)),
            next: AtomicI64::new(1),
            names: ToolNames::default(),
            targets,
            revision,
            told,
            tasks: [tokio::spawn(write(stdin, to_write)), tokio::spawn(read(stdout, shared))],
        });
        *running.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&made);

        let limit = self.settings.hello_limit;
        let hello = match tokio::time::timeout(limit, made.hello()).await {
            Ok(hello) => hello,
            Err(_) => {
                Err(DriverError::Protocol(format!("no answer to `hello` within {} s", limit.as_secs())))
            }
        };
        match hello {
            Ok(hello) => Ok((made, hello)),
            Err(error) => {
                made.stop().await;
                Err(made.with_output(error))
            }
        }
    }
}

impl Adapter {
    async fn launch_for(&self, case: &CaseContext) -> Result<Arc<Running>, DriverError> {
        let told = Told {
            folder: case.directory.clone(),
            clock_scale: case.clock_scale,
            config_env: case.config_env.clone(),
        };
        let (targets, events) = (case.targets.clone(), Arc::clone(&case.events));
        let (running, _) = self.launch(&case.directory, targets, case.revision, told, events).await?;
        Ok(running)
    }
}

#[async_trait]
impl Driver for Adapter {
    fn kind(&self) -> &'static str {
        "adapter"
    }

    fn command(&self) -> Vec<String> {
        self.command.clone()
    }

    async fn hello(&self) -> Result<Hello, DriverError> {
        let folder = CaseDirectory::new(&self.settings.temporary_root).map_err(|error| {
            DriverError::Start { command: "a temporary folder".into(), why: error.to_string() }
        })?;
        let silent = Arc::new(Silent);
        let (running, hello) = self
            .launch(&folder.client(), BTreeMap::new(), Revision::LATEST_HANDSHAKE, Told::default(), silent)
            .await?;
        let honest =
            tokio::time::timeout(self.settings.hello_limit, running.is_honest()).await.unwrap_or_else(|_| {
                Err(DriverError::Protocol("no answer to an operation that doesn't exist".to_owned()))
            });
        running.stop().await;
        // What remains is in the system's temporary folder, and the next run's to remove.
        let _ = folder.remove();
        honest.map(|()| hello).map_err(|error| running.with_output(error))
    }

    async fn start(&self, case: CaseContext) -> Result<Arc<dyn Subject>, DriverError> {
        Ok(Arc::new(Restartable::start(self.clone(), case).await?))
    }
}

/// What of a case goes into its `open`.
#[derive(Debug, Clone, Default)]
struct Told {
    /// The case's folder, in which paths of the scenario start.
    folder: PathBuf,
    clock_scale: u32,
    config_env: BTreeMap<String, String>,
}

/// Hears nothing: there is no case.
struct Silent;

impl DriverEvents for Silent {
    fn driver_event(&self, _: &str, _: Value) {}
    fn output(&self, _: &str, _: &str) {}
    fn client_started(&self, _: u32, _: &[String]) {}
    fn client_ended(&self, _: Option<i32>, _: Option<&str>, _: bool) {}
}

/// What came back for a request.
type Answer = Result<Value, RpcError>;

struct RpcError {
    code: i64,
    message: String,
    data: Option<Value>,
}

/// What the reading task shares with those who wait for answers.
struct Shared {
    pending: Mutex<Pending>,
    events: Arc<dyn DriverEvents>,
    opened: Arc<dyn Fn(String) + Send + Sync>,
}

#[derive(Default)]
struct Pending {
    /// An answer that is no valid message is an `Err`.
    waiting: HashMap<i64, oneshot::Sender<Result<Answer, String>>>,
    /// Lines on stdout that were no message.
    stray: u32,
    first_stray: Option<String>,
    /// Reading has ended, for this reason if it is the adapter's fault.
    closed: Option<Option<String>>,
}

impl Shared {
    fn pending(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self, bytes: &[u8]) {
        let message = jsonrpc::inspect_bytes(bytes);
        let understood = match (message.is_valid(), message.envelope) {
            (true, Envelope::Result { id: Some(Id::Number(id)), result }) => self.answer(id, Ok(Ok(result))),
            (true, Envelope::Error { id: Some(Id::Number(id)), code, message, data }) => {
                let error =
                    RpcError { code: code.unwrap_or_default(), message: message.unwrap_or_default(), data };
                self.answer(id, Ok(Err(error)))
            }
            (true, Envelope::Notification { method, params }) if method == "event" => {
                self.event(params.as_ref().unwrap_or(&Value::Null))
            }
            (false, envelope) if envelope.is_response() => {
                if let Some(Id::Number(id)) = envelope.id() {
                    let faults: Vec<String> = message.faults.iter().map(ToString::to_string).collect();
                    self.answer(*id, Err(format!("a wrong answer: {}", faults.join(", "))));
                }
                false
            }
            (true, envelope) if envelope.is_response() => {
                let id = envelope.id().map_or_else(|| "null".to_owned(), ToString::to_string);
                self.unasked(&id)
            }
            _ => false,
        };
        if !understood {
            self.stray(&String::from_utf8_lossy(bytes));
        }
    }

    fn answer(&self, id: i64, answer: Result<Answer, String>) -> bool {
        let waiting = self.pending().waiting.remove(&id);
        match waiting {
            // Whoever waited may have given up.
            Some(waiting) => {
                let _ = waiting.send(answer);
                true
            }
            None => self.unasked(&id.to_string()),
        }
    }

    /// An answer to nothing: from here on it can't be known what answers belong to. The line is kept as a stray one.
    fn unasked(&self, id: &str) -> bool {
        self.close(Some(format!(
            "an answer with the id {id}, which no request has that is still to be answered"
        )));
        false
    }

    fn event(&self, params: &Value) -> bool {
        let Some(name) = params.get("name").and_then(Value::as_str) else { return false };
        let data = params.get("data").cloned().unwrap_or_default();
        let url = data.get("url").and_then(Value::as_str).map(str::to_owned);
        self.events.driver_event(name, data);
        if name == "authorization-url"
            && let Some(url) = url
        {
            (self.opened)(url);
        }
        true
    }

    /// Text that is no message of the driver protocol.
    fn stray(&self, text: &str) {
        let text = cut(text);
        let count = {
            let mut pending = self.pending();
            pending.stray = pending.stray.saturating_add(1);
            pending.first_stray.get_or_insert_with(|| text.clone());
            pending.stray
        };
        if count <= STRAY_LINES {
            self.events.output("stdout", &text);
        } else if count == STRAY_LINES + 1 {
            self.events.output("stdout", "(more of this is left out)");
        }
    }

    fn close(&self, fault: Option<String>) {
        let mut pending = self.pending();
        pending.closed.get_or_insert(fault);
        // Those who wait see their channel close.
        pending.waiting.clear();
    }
}

async fn write(mut stdin: ChildStdin, mut messages: mpsc::UnboundedReceiver<Value>) {
    // Ends when the sender is dropped, or the adapter reads no more; then stdin closes.
    while let Some(message) = messages.recv().await {
        let line = format!("{message}\n");
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(mut stdout: ChildStdout, shared: Arc<Shared>) {
    let mut lines = Lines::new(LONGEST_MESSAGE);
    let mut chunk = vec![0; 64 << 10];
    let fault = loop {
        let count = match stdout.read(&mut chunk).await {
            Ok(0) | Err(_) => break None,
            Ok(count) => count,
        };
        lines.push(&chunk[..count]);
        let too_long = loop {
            match lines.next_line() {
                Ok(Some(line)) => shared.line(&line.bytes),
                Ok(None) => break None,
                Err(too_long) => break Some(too_long.to_string()),
            }
        };
        if too_long.is_some() {
            break too_long;
        }
    };
    if let Some(line) = lines.finish().filter(|_| fault.is_none()) {
        // A message that lacks its newline is none.
        shared.stray(&line.text().0);
    }
    shared.close(fault);
}

/// An adapter that runs.
struct Running {
    process: ClientProcess,
    shared: Arc<Shared>,
    /// `None` when its stdin is closed.
    outgoing: Mutex<Option<mpsc::UnboundedSender<Value>>>,
    next: AtomicI64,
    names: ToolNames,
    targets: BTreeMap<String, Target>,
    revision: Revision,
    told: Told,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Running {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Running {
    fn send(&self, message: Value) {
        // An adapter that is gone shows by its missing answer.
        if let Some(outgoing) = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            let _ = outgoing.send(message);
        }
    }

    /// What was sent before is written first.
    fn close_stdin(&self) {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn notify(&self, method: &str, params: Value) {
        self.send(jsonrpc::notification(method, Some(params)));
    }

    async fn request(&self, method: &str, params: Value) -> Result<Answer, DriverError> {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        let (answer, waiting) = oneshot::channel();
        let open = {
            let mut pending = self.shared.pending();
            let open = pending.closed.is_none();
            if open {
                pending.waiting.insert(id, answer);
            }
            open
        };
        if !open {
            return Err(self.broken().await);
        }
        self.send(jsonrpc::request(&Id::Number(id), method, Some(params)));
        match waiting.await {
            Ok(answer) => answer.map_err(DriverError::Protocol),
            Err(_) => Err(self.broken().await),
        }
    }

    /// Why no answer will come.
    async fn broken(&self) -> DriverError {
        let fault = self.shared.pending().closed.clone().flatten();
        match fault {
            Some(fault) => DriverError::Protocol(fault),
            // It may have closed its stdout and go on; a case's deadline bounds this wait.
            None => self.process.gone().await,
        }
    }

    async fn hello(&self) -> Result<Hello, DriverError> {
        match self.request("hello", json!({"protocol": PROTOCOL})).await? {
            Ok(result) => serde_json::from_value::<Hello>(result)
                .map_err(|error| format!("the result of `hello` is wrong: {error}"))
                .and_then(check)
                .map_err(DriverError::Protocol),
            Err(error) => Err(DriverError::Protocol(format!("`hello` failed: {}", error.message))),
        }
    }

    /// The error with what the adapter wrote, which mostly says why: its first stray line, and the end of its stderr.
    fn with_output(&self, error: DriverError) -> DriverError {
        let stray = self.shared.pending().first_stray.clone();
        let mut why = match (error, &stray) {
            (DriverError::Protocol(why), _) => why,
            (error @ DriverError::Ended { .. }, Some(_)) => error.to_string(),
            // Its stderr is in it.
            (error, _) => return error,
        };
        if let Some(stray) = stray {
            why += &format!("; stdout belongs to the driver protocol, but it wrote {stray:?}");
        }
        let stderr = self.process.last_words();
        if !stderr.trim().is_empty() {
            let lines: Vec<_> = stderr.lines().map(sparring_reports::text::escape).collect();
            why += &format!("\nits stderr ends with:\n  {}", lines.join("\n  "));
        }
        DriverError::Protocol(why)
    }

    /// An adapter that accepts anything would make every case of an undeclared operation pass.
    async fn is_honest(&self) -> Result<(), DriverError> {
        const NO_OPERATION: &str = "no-such-operation";
        let said = match self.request(NO_OPERATION, json!({})).await? {
            Err(error) if error.code == codes::METHOD_NOT_FOUND => return Ok(()),
            Err(error) => format!("error {}", error.code),
            Ok(_) => "a result".to_owned(),
        };
        Err(DriverError::Protocol(format!(
            "an operation that doesn't exist must be answered with error {}, not with {said}",
            codes::METHOD_NOT_FOUND
        )))
    }

    /// Which tool is meant, by all its names, and its arguments.
    fn tool(&self, call: &op::Call) -> Map<String, Value> {
        let mut params = Map::new();
        let only = || self.targets.keys().next().filter(|_| self.targets.len() == 1).cloned();
        let (name, known) = match &call.name {
            Some(name) => (name.clone(), call.server.clone()),
            None => {
                params.insert("tool".to_owned(), call.tool.as_str().into());
                self.names.resolve(&call.tool, call.server.as_deref())
            }
        };
        params.insert("name".to_owned(), name.into());
        if let Some(server) = known.or_else(only) {
            params.insert("server".to_owned(), server.into());
        }
        let arguments = call.arguments.as_ref().map_or_else(|| json!({}), |arguments| arguments.0.clone());
        params.insert("arguments".to_owned(), arguments);
        params
    }

    fn params(&self, step: &str, op: &Op) -> Value {
        let mut params = Map::new();
        let mut put = |key: &str, value: Value| {
            params.insert(key.to_owned(), value);
        };
        let json = |text: &JsonText| text.0.clone();
        let server_of = |server: &Option<String>| server.clone().map(Value::String);
        let mut server = None;
        let mut agent: Option<String> = None;
        match op {
            Op::Open(open) => {
                let chosen: BTreeMap<&String, &Target> =
                    dialect::chosen(&open.servers, &open.entries, &self.targets).collect();
                let servers = if open.config { json!({}) } else { json!(chosen) };
                put("servers", servers);
                put("revision", json!(self.revision));
                let inside = |path: &String| json!(self.told.folder.join(path));
                let mut env = if open.config { self.told.config_env.clone() } else { BTreeMap::new() };
                env.extend(open.env.clone());
                let set: Map<String, Value> =
                    open.set.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
                let optional = [
                    ("entries", Some(entries(open, &self.targets)).filter(|_| !open.entries.is_empty())),
                    ("config", open.config.then_some(Value::from(true))),
                    ("idle", open.idle.then_some(Value::from(true))),
                    ("cwd", open.cwd.as_ref().map(inside)),
                    ("project", open.project.as_ref().map(inside)),
                    ("env", Some(json!(env)).filter(|_| !env.is_empty())),
                    ("set", Some(Value::Object(set.clone())).filter(|_| !set.is_empty())),
                    ("agent", open.agent.clone().map(Value::String)),
                    ("clock_scale", Some(json!(self.told.clock_scale)).filter(|_| self.told.clock_scale > 1)),
                    ("offer", open.offer.map(|offer| json!(offer))),
                    ("sampling", open.sampling.as_ref().map(json)),
                    ("elicitation", open.elicitation.as_ref().map(json)),
                    ("roots", open.roots.as_ref().map(|roots| json!(roots))),
                    ("timeout_ms", open.timeout_ms.map(Value::from)),
                    ("backoff_ms", open.backoff_ms.as_ref().map(|waits| json!(waits))),
                    ("headers", Some(json!(open.headers)).filter(|_| !open.headers.is_empty())),
                    ("client_id", open.client_id.clone().map(Value::String)),
                    ("client_secret", open.client_secret.clone().map(Value::String)),
                    ("client_authentication", open.client_authentication.clone().map(Value::String)),
                ];
                for (key, value) in optional {
                    if let Some(value) = value {
                        put(key, value);
                    }
                }
            }
            Op::Call(call) => {
                put("step", step.into());
                for (key, value) in self.tool(call) {
                    put(&key, value);
                }
                if let Some(limit) = call.timeout_ms {
                    put("timeout_ms", limit.into());
                }
                put("progress", call.progress.into());
                agent.clone_from(&call.agent);
            }
            Op::Cancel(cancel) => {
                put("step", cancel.step.as_str().into());
                if let Some(reason) = &cancel.reason {
                    put("reason", reason.as_str().into());
                }
            }
            Op::Read(read) | Op::Subscribe(read) | Op::Unsubscribe(read) => {
                put("uri", read.uri.as_str().into());
                server = server_of(&read.server);
            }
            Op::Prompt(prompt) => {
                put("name", prompt.name.as_str().into());
                put("arguments", json!(prompt.arguments));
                server = server_of(&prompt.server);
            }
            Op::Complete(complete) => {
                for (key, value) in [("prompt", &complete.prompt), ("template", &complete.template)] {
                    if let Some(value) = value {
                        put(key, value.as_str().into());
                    }
                }
                put("argument", complete.argument.as_str().into());
                put("value", complete.value.as_str().into());
                server = server_of(&complete.server);
            }
            Op::SetLevel(level) => {
                put("level", level.level.as_str().into());
                server = server_of(&level.server);
            }
            Op::SetRoots(roots) => put("roots", json!(roots.roots)),
            Op::Tools(of)
            | Op::Resources(of)
            | Op::Templates(of)
            | Op::Prompts(of)
            | Op::Ping(of)
            | Op::Close(of) => {
                server = server_of(&of.server);
                agent.clone_from(&of.agent);
            }
            Op::Inspect(inspect) => {
                put("what", json!(inspect.what));
                if let Some(tool) = &inspect.tool {
                    let (name, known) = self.names.resolve(tool, inspect.server.as_deref());
                    put("tool", tool.as_str().into());
                    put("name", name.into());
                    server = server_of(&known);
                }
                server = server.or_else(|| server_of(&inspect.server));
                agent.clone_from(&inspect.agent);
            }
            Op::Control(control) => {
                put("what", json!(control.what));
                if let Some(tool) = &control.tool {
                    put("tool", tool.as_str().into());
                    put("name", self.names.resolve(tool, control.server.as_deref()).0.into());
                }
                if control.always {
                    put("always", true.into());
                }
                if let Some(setting) = &control.setting {
                    put("setting", setting.as_str().into());
                }
                if let Some(value) = &control.value {
                    put("value", json(value));
                }
                server = server_of(&control.server);
                agent.clone_from(&control.agent);
            }
            // The harness's own.
            Op::Await(_) | Op::Write(_) | Op::Configure(_) | Op::Disk(_) | Op::Signal(_) => {}
        }
        if let Some(agent) = agent {
            put("agent", agent.into());
        }
        if let Some(server) = server {
            put("server", server);
        }
        Value::Object(params)
    }
}

#[async_trait]
impl Subject for Running {
    async fn run(&self, step: &str, op: &Op) -> Result<Outcome, DriverError> {
        Ok(match self.request(op.name(), self.params(step, op)).await? {
            Ok(value) => {
                check_result(op, &value).map_err(|wrong| {
                    DriverError::Protocol(format!("the result of `{}` is wrong: {wrong}", op.name()))
                })?;
                if let Op::Tools(of) = op {
                    self.names.learn(&value, of.server.as_deref());
                }
                Outcome::Ok { value }
            }
            Err(error) if error.code == codes::METHOD_NOT_FOUND => {
                Outcome::Unsupported { reason: error.message }
            }
            Err(error) => Outcome::Error { error: failure(error) },
        })
    }

    async fn bench(&self, call: &op::Call, calls: u32) -> Result<Option<Vec<u64>>, DriverError> {
        let mut params = self.tool(call);
        params.insert("calls".to_owned(), calls.into());
        let result = match self.request("bench", Value::Object(params)).await? {
            Ok(result) => result,
            Err(error) if error.code == codes::METHOD_NOT_FOUND => return Ok(None),
            Err(error) => return Err(DriverError::Protocol(format!("`bench` failed: {}", error.message))),
        };
        let times = result.get("ns").and_then(Value::as_array).into_iter().flatten();
        let times: Option<Vec<u64>> = times.map(Value::as_u64).collect();
        match times {
            Some(times) if u32::try_from(times.len()) == Ok(calls) => Ok(Some(times)),
            _ => {
                Err(DriverError::Protocol(format!("the result of `bench` is no `ns` with {calls} integers")))
            }
        }
    }

    async fn stop(&self) -> Vec<(u32, String)> {
        self.process.expect_end();
        self.close_stdin();
        self.process.stop(true).await
    }
}

/// The entries of an `open`, each with its target and everything else under neutral names. One that leads to no server
/// is left out; the lint does not let it be.
fn entries(open: &op::Open, targets: &BTreeMap<String, Target>) -> Value {
    let all = open.entries.iter();
    let members =
        all.filter_map(|(name, entry)| Some((name.clone(), dialect::members(name, entry, targets).ok()?)));
    Value::Object(members.map(|(name, members)| (name, Value::Object(members))).collect())
}

/// Words that the protocol doesn't know are a mistake in the adapter that would silently skip cases.
fn check(mut hello: Hello) -> Result<Hello, String> {
    for text in [&mut hello.name, &mut hello.version] {
        *text = text.chars().take(LONGEST_NAME).collect();
    }
    let unknown =
        |words: &[String], known: &[&str]| words.iter().find(|word| !known.contains(&word.as_str())).cloned();
    if let Some(word) = unknown(&hello.operations, &OPERATIONS) {
        return Err(format!("`hello` declares an operation `{word}`, which doesn't exist"));
    }
    if let Some(word) = unknown(&hello.features, &FEATURES) {
        return Err(format!("`hello` declares a feature `{word}`, which doesn't exist"));
    }
    if hello.clock_scale == Some(0) {
        return Err("the `clock_scale` of `hello` is a whole number from 1".to_owned());
    }
    Ok(hello)
}

/// The shape of an operation's result, as far as it is the adapter's own and not the server's. Without it, a mistake in
/// the adapter would be held against the client.
fn check_result(op: &Op, value: &Value) -> Result<(), String> {
    let Some(result) = value.as_object() else { return Err("it is no object".to_owned()) };
    let objects = |key: &str| {
        let items =
            result.get(key).and_then(Value::as_array).ok_or_else(|| format!("`{key}` is no array"))?;
        if items.iter().all(Value::is_object) {
            Ok(items)
        } else {
            Err(format!("`{key}` has an element that is no object"))
        }
    };
    match op {
        Op::Open(_) => {
            let servers = result.get("servers").and_then(Value::as_object);
            let servers = servers.ok_or("`servers` is no object")?;
            match servers.iter().find(|(_, server)| !server.get("ok").is_some_and(Value::is_boolean)) {
                Some((name, _)) => Err(format!("`servers` has for {name:?} no object with a boolean `ok`")),
                None => Ok(()),
            }
        }
        Op::Tools(_) => {
            if objects("tools")?.iter().all(|tool| tool.get("name").is_some_and(Value::is_string)) {
                Ok(())
            } else {
                Err("`tools` has a tool without a string `name`".to_owned())
            }
        }
        Op::Inspect(inspect) => match inspect.what {
            Inspected::Status => objects("servers").map(drop),
            Inspected::Instances => objects("instances").map(drop),
            Inspected::Events => objects("events").map(drop),
            Inspected::Log => match result.get("lines").and_then(Value::as_array) {
                Some(lines) if lines.iter().all(Value::is_string) => Ok(()),
                _ => Err("`lines` is no array of strings".to_owned()),
            },
            Inspected::Prompt if result.get("system").is_some_and(Value::is_string) => {
                objects("tools").map(drop)
            }
            Inspected::Prompt => Err("`system` is no string".to_owned()),
            Inspected::Policy if result.get("policy").is_some_and(Value::is_object) => Ok(()),
            Inspected::Policy => Err("`policy` is no object".to_owned()),
        },
        Op::Resources(_) => objects("resources").map(drop),
        Op::Templates(_) => objects("resourceTemplates").map(drop),
        Op::Prompts(_) => objects("prompts").map(drop),
        _ => Ok(()),
    }
}

fn failure(error: RpcError) -> Failure {
    let member = |key: &str| error.data.as_ref().and_then(|data| data.get(key));
    let kind = member("kind").cloned().and_then(|kind| serde_json::from_value(kind).ok());
    Failure {
        kind: kind.unwrap_or(FailureKind::Other),
        code: member("code").and_then(Value::as_i64),
        message: error.message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_by_their_kind() {
        let error = |data: Value| RpcError { code: 1, message: "m".into(), data: Some(data) };
        let read = failure(error(json!({"kind": "timeout", "code": 408})));
        assert_eq!(read, Failure { kind: FailureKind::Timeout, message: "m".into(), code: Some(408) });
        assert_eq!(failure(error(json!({"kind": "no such kind"}))).kind, FailureKind::Other);
        assert_eq!(failure(error(json!(7))).kind, FailureKind::Other);
        assert_eq!(failure(RpcError { code: 1, message: "m".into(), data: None }).kind, FailureKind::Other);
    }

    #[test]
    fn results_have_the_shape_of_their_operation() {
        let of = || op::Of::default();
        for (op, right, wrong) in [
            (Op::Open(op::Open::default()), json!({"servers": {"s": {"ok": false}}}), json!({})),
            (Op::Open(op::Open::default()), json!({"servers": {}}), json!({"servers": {"s": {"ok": 1}}})),
            (Op::Tools(of()), json!({"tools": [{"name": "a"}]}), json!({"tools": [{"name": null}]})),
            (Op::Resources(of()), json!({"resources": [{}]}), json!({"resources": {}})),
            (Op::Templates(of()), json!({"resourceTemplates": []}), json!({"templates": []})),
            (Op::Prompts(of()), json!({"prompts": []}), json!({"prompts": [1]})),
            (Op::Ping(of()), json!({}), Value::Null),
        ] {
            assert_eq!(check_result(&op, &right), Ok(()), "{right}");
            assert!(check_result(&op, &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_hello_with_words_that_do_not_exist_is_refused() {
        let hello = |operation: &str, feature: &str| Hello {
            operations: vec![operation.to_owned()],
            features: vec![feature.to_owned()],
            ..Hello::default()
        };
        assert!(check(hello("call", "oauth")).is_ok());
        let long = Hello { name: "é".repeat(200), ..hello("call", "oauth") };
        assert_eq!(check(long).unwrap().name.chars().count(), LONGEST_NAME);
        assert!(check(hello("kall", "oauth")).unwrap_err().contains("kall"));
        assert!(check(hello("call", "o-auth")).unwrap_err().contains("o-auth"));
    }
}
