//! The reference client as an adapter: this executable, executed again with [`ARGUMENT`] as its first argument, speaks
//! the driver protocol (`docs/driver-protocol.md`) over its stdin and stdout.
//!
//! `sparring run --driver adapter --profile reference -- sparring __sparring-adapter` judges the reference client as a
//! process of its own; the verdicts are those of the `builtin` driver. With `--as PROFILE` it is the host of a profile. With
//! the name of a mutant as the second argument it has that mutant's fault: that is how faults are shown that end the
//! client's process or outlive it.

use crate::driver::{CaseContext, Driver, DriverError, DriverEvents, Subject, Target};
use crate::drivers::{Builtin, ClientSetup};
use crate::{mutants, platform};
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sparring_client::Browser;
use sparring_profiles::StopOn;
use sparring_scenarios::op::{OPERATIONS, Op};
use sparring_wire::Revision;
use sparring_wire::framing::Lines;
use sparring_wire::jsonrpc::{self, Envelope, Id, codes};
use sparring_wire::transcript::{Failure, FailureKind, Outcome};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

/// The private first argument that makes this executable an adapter.
pub const ARGUMENT: &str = "__sparring-adapter";

/// The private first argument that makes it a process which belongs to nobody, for mutants that leave one behind.
const LINGER: &str = "__sparring-linger";
/// How long that one lives if nobody ends it.
const LINGERS: Duration = Duration::from_secs(30);

/// The longest message of the harness, in bytes.
const LONGEST_MESSAGE: usize = 64 << 20;

/// Does an adapter's work if this process was started as one; the caller then ends with the exit code. To be called
/// first thing in `main`.
pub fn run_if_adapter() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next()?.as_str() {
        ARGUMENT => Some(adapter(arguments)),
        LINGER => {
            platform::leave_session();
            std::thread::sleep(LINGERS);
            Some(ExitCode::SUCCESS)
        }
        _ => None,
    }
}

/// Leaves a process behind that no longer belongs to this one.
pub(crate) fn leave_process_behind() -> std::io::Result<()> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.arg(LINGER).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}

/// What is wrong with a mutant.
type Change = fn(&mut ClientSetup);

/// Which client the arguments mean: `--as PROFILE`, or the name of a mutant, or nothing.
fn chosen(mut arguments: impl Iterator<Item = String>) -> Result<(Builtin, Option<Change>), String> {
    match arguments.next().as_deref() {
        None => Ok((Builtin::new(), None)),
        Some("--as") => {
            let name = arguments.next().ok_or("--as needs the name of a profile, or a file")?;
            mutants::host(&name).map(|host| (host, None))
        }
        Some(name) => {
            let mutant = mutants::named(name).ok_or_else(|| format!("there is no mutant `{name}`"))?;
            Ok((mutants::host(mutant.profile)?, Some(mutant.change())))
        }
    }
}

fn adapter(arguments: impl Iterator<Item = String>) -> ExitCode {
    done(chosen(arguments).and_then(|(host, fault)| run(host, fault)))
}

/// The reference client as the host of a profile, a built-in one or that of a file, speaks the driver protocol over
/// stdin and stdout until stdin ends or a signal comes at which the host stops its servers. Returns the number
/// of that signal.
///
/// # Errors
/// There is no such profile, or the client can't work. The message is for the user.
pub fn run_as(profile: &str) -> Result<Option<u8>, String> {
    run(mutants::host(profile)?, None)
}

fn run(host: Builtin, fault: Option<fn(&mut ClientSetup)>) -> Result<Option<u8>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("can't start the runtime: {error}"))?;
    let served: Result<Option<u8>, String> = runtime.block_on(async {
        let directory = std::env::current_dir().map_err(|e| format!("there is no working directory: {e}"))?;
        let client = Arc::new(Adapter::new(host, fault, directory));
        let mut on = client.stops_on.subscribe();
        let mut serving = std::pin::pin!(serve(&client));
        let signal = loop {
            let listened = on.borrow_and_update().clone();
            tokio::select! {
                served = &mut serving => {
                    served?;
                    break None;
                }
                signal = sparring_host::shutdown::signal(&listened) => {
                    break Some(signal.map_err(|error| format!("can't listen to signals: {error}"))?);
                }
                // The sender lives as long as the client. Signals are listened to anew.
                Ok(()) = on.changed() => {}
            }
        };
        client.stop().await;
        Ok(signal)
    });
    // Whatever hangs must not keep the process.
    runtime.shutdown_background();
    served
}

fn done(outcome: Result<Option<u8>, String>) -> ExitCode {
    match outcome {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(signal)) => ExitCode::from(signal.saturating_add(128)),
        Err(error) => {
            say_aloud(&error);
            ExitCode::FAILURE
        }
    }
}

/// To stderr, which is free.
fn say_aloud(text: &str) {
    // A harness that is gone needs no words.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

async fn serve(client: &Arc<Adapter>) -> Result<(), String> {
    let mut stdin = tokio::io::stdin();
    let mut lines = Lines::new(LONGEST_MESSAGE);
    let mut chunk = vec![0; 64 << 10];
    let mut running = JoinSet::new();
    loop {
        let count = stdin.read(&mut chunk).await.map_err(|e| e.to_string())?;
        if count == 0 {
            break;
        }
        lines.push(&chunk[..count]);
        while let Some(line) = lines.next_line().map_err(|e| e.to_string())? {
            // Anything but a request needs no reaction: the loopback listener takes redirects.
            let Envelope::Request { id: Some(id), method, params } =
                jsonrpc::inspect_bytes(&line.bytes).envelope
            else {
                continue;
            };
            let client = Arc::clone(client);
            // In order up to the first wait, so that a cancellation finds its call.
            let mut work = Box::pin(async move {
                send(&match client.operate(&method, params.unwrap_or_default()).await {
                    Ok(result) => jsonrpc::result(&id, result),
                    Err(refusal) => refusal.answer(&id),
                });
            });
            if futures_util::poll!(&mut work).is_pending() {
                running.spawn(work);
            }
        }
        while running.try_join_next().is_some() {}
    }
    running.abort_all();
    Ok(())
}

/// A message to the harness.
fn send(message: &Value) {
    let mut stdout = std::io::stdout().lock();
    // A harness that is gone closes stdin too.
    let _ = writeln!(stdout, "{message}").and_then(|()| stdout.flush());
}

/// Why an operation has no result.
enum Refusal {
    Unknown(String),
    Params(String),
    Failed(Failure),
}

impl Refusal {
    fn answer(self, id: &Id) -> Value {
        match self {
            Self::Unknown(method) => jsonrpc::error(
                id,
                codes::METHOD_NOT_FOUND,
                &format!("there is no operation `{method}`"),
                None,
            ),
            Self::Params(why) => jsonrpc::error(id, codes::INVALID_PARAMS, &why, None),
            Self::Failed(Failure { kind, message, code }) => {
                let data = match code {
                    Some(code) => json!({ "kind": kind, "code": code }),
                    None => json!({ "kind": kind }),
                };
                jsonrpc::error(id, 1, &message, Some(data))
            }
        }
    }
}

impl From<DriverError> for Refusal {
    fn from(error: DriverError) -> Self {
        Self::Failed(Failure::new(FailureKind::Other, error.to_string()))
    }
}

struct Adapter {
    host: Builtin,
    fault: Option<fn(&mut ClientSetup)>,
    directory: PathBuf,
    /// The client, since the last `open`.
    subject: Mutex<Option<Arc<dyn Subject>>>,
    /// The signals at which it stops its servers (`shutdown.on`); nothing before there is one.
    stops_on: watch::Sender<Vec<StopOn>>,
}

impl Adapter {
    fn new(host: Builtin, fault: Option<fn(&mut ClientSetup)>, directory: PathBuf) -> Self {
        Self { host, fault, directory, subject: Mutex::default(), stops_on: watch::Sender::default() }
    }

    fn driver(&self) -> Builtin {
        let (fault, stops_on) = (self.fault, self.stops_on.clone());
        self.host.clone().with(Arc::new(move |setup: &mut ClientSetup| {
            setup.browser = Arc::new(HarnessBrowser);
            if let Some(fault) = fault {
                fault(setup);
            }
            stops_on.send_replace(setup.host.shutdown.on.clone());
        }))
    }

    /// Closes everything.
    async fn stop(&self) {
        let subject = self.subject.lock().await.take();
        if let Some(subject) = subject {
            subject.stop().await;
        }
    }

    async fn operate(&self, method: &str, params: Value) -> Result<Value, Refusal> {
        let Value::Object(mut params) = params else {
            return Err(Refusal::Params("params must be an object".to_owned()));
        };
        let outcome = match method {
            "hello" => {
                let mut hello = self.driver().hello().await?;
                // Here the client is a process of its own.
                if cfg!(unix) {
                    hello.features.push("process".to_owned());
                }
                return Ok(json!(hello));
            }
            "bench" => {
                let calls = params.remove("calls").and_then(|calls| calls.as_u64()?.try_into().ok());
                let calls = calls.ok_or_else(|| Refusal::Params("`calls` must be a number".to_owned()))?;
                let Op::Call(call) = operation("call", params)? else {
                    return Err(Refusal::Unknown(method.to_owned()));
                };
                return Ok(json!({ "ns": self.subject().await?.bench(&call, calls).await? }));
            }
            "open" => {
                let mut targets: BTreeMap<String, Target> =
                    read(params.remove("servers").unwrap_or_default())?;
                let revision = read(params.remove("revision").unwrap_or_default())?;
                let scale = params.remove("clock_scale").and_then(|scale| scale.as_u64()?.try_into().ok());
                let plain: Vec<String> = targets.keys().cloned().collect();
                if let Some(Value::Object(entries)) = params.get_mut("entries") {
                    for (name, entry) in entries {
                        lead(name, entry, &mut targets);
                    }
                    // What has no more to say than its target.
                    let plain: Vec<&String> = plain
                        .iter()
                        .filter(|name| !entries_of(&params).any(|entry| entry == *name))
                        .collect();
                    params.insert("servers".to_owned(), json!(plain));
                }
                let op = operation(method, params)?;
                // A second agent lives in the host of the first.
                let second = matches!(&op, Op::Open(open) if open.agent.is_some());
                let running = self.subject.lock().await.clone().filter(|_| second);
                let subject = match running {
                    Some(running) => running,
                    None => self.start(targets, revision, scale.unwrap_or(1)).await?,
                };
                subject.run(method, &op).await?
            }
            _ => {
                // Of `cancel`, the step is the one to cancel.
                let step = if method == "call" { params.remove("step") } else { None };
                let op = operation(method, params)?;
                let step = step.as_ref().and_then(Value::as_str).unwrap_or(method);
                self.subject().await?.run(step, &op).await?
            }
        };
        match outcome {
            Outcome::Ok { value } => Ok(value),
            Outcome::Error { error } => Err(Refusal::Failed(error)),
            Outcome::Unsupported { .. } | Outcome::Pending { .. } => Err(Refusal::Unknown(method.to_owned())),
        }
    }

    /// A client for these servers, in place of the former one.
    async fn start(
        &self,
        targets: BTreeMap<String, Target>,
        revision: Revision,
        clock_scale: u32,
    ) -> Result<Arc<dyn Subject>, Refusal> {
        let context = CaseContext {
            targets,
            revision,
            directory: self.directory.clone(),
            clock_scale,
            // They come with the other variables.
            config_env: BTreeMap::new(),
            official_scenario: None,
            official_context: None,
            events: Arc::new(Reported),
        };
        let subject = self.driver().start(context).await?;
        let former = self.subject.lock().await.replace(Arc::clone(&subject));
        if let Some(former) = former {
            former.stop().await;
        }
        Ok(subject)
    }

    async fn subject(&self) -> Result<Arc<dyn Subject>, Refusal> {
        let subject = self.subject.lock().await.clone();
        subject.ok_or_else(|| Refusal::Failed(Failure::new(FailureKind::Refused, "no connection is open")))
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Refusal> {
    serde_json::from_value(value).map_err(|error| Refusal::Params(error.to_string()))
}

/// The operation that a request asks for. Its params are a scenario's arguments, but for JSON, which stands as text
/// there, and for a tool's composed name, which the client finds out by itself.
fn operation(method: &str, mut params: Map<String, Value>) -> Result<Op, Refusal> {
    if !OPERATIONS.contains(&method) {
        return Err(Refusal::Unknown(method.to_owned()));
    }
    let texts: &[&str] = match method {
        "call" | "inspect" | "control" => {
            // The raw name says it, where there is one.
            if params.contains_key("tool") {
                params.remove("name");
            }
            &["arguments", "value"]
        }
        "open" => &["sampling", "elicitation"],
        _ => &[],
    };
    as_text(&mut params, texts);
    if let Some(Value::Object(set)) = params.get_mut("set") {
        let names: Vec<String> = set.keys().cloned().collect();
        as_text(set, &names);
    }
    if let Some(Value::Object(entries)) = params.get_mut("entries") {
        for entry in entries.values_mut().filter_map(Value::as_object_mut) {
            as_text(entry, &["supplied_tools", "auth", "policy"]);
        }
    }
    read(json!({ method: params }))
}

/// JSON as it stands in scenario files: in a string.
fn as_text(members: &mut Map<String, Value>, names: &[impl AsRef<str>]) {
    for name in names {
        if let Some(value) = members.get_mut(name.as_ref()) {
            *value = Value::String(value.to_string());
        }
    }
}

fn entries_of(params: &Map<String, Value>) -> impl Iterator<Item = &String> {
    params.get("entries").and_then(Value::as_object).into_iter().flat_map(Map::keys)
}

/// Takes out of an entry where it leads to, and makes a target of that. An entry with a command and a URL has two.
fn lead(name: &str, entry: &mut Value, targets: &mut BTreeMap<String, Target>) {
    let Some(members) = entry.as_object_mut() else { return };
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let kind = text(members.remove("type"));
    members.remove("argv");
    let args = members.remove("args").and_then(|args| serde_json::from_value(args).ok()).unwrap_or_default();
    let stdio =
        text(members.remove("command")).map(|command| Target::Stdio { command, args, env: BTreeMap::new() });
    let http = text(members.remove("url")).map(|url| match kind.as_deref() {
        Some("sse") => Target::SseLegacy { url },
        _ => Target::Http { url },
    });
    let (first, second) = if kind.as_deref() == Some("stdio") { (stdio, http) } else { (http, stdio) };
    if let (Some(_), Some(second)) = (&first, &second) {
        let also = format!("{name} (also)");
        members.insert("also".to_owned(), Value::from(also.as_str()));
        targets.insert(also, second.clone());
    }
    if let Some(target) = first.or(second) {
        targets.insert(name.to_owned(), target);
    }
}

/// Reports to the harness what happens by itself.
struct Reported;

impl DriverEvents for Reported {
    fn driver_event(&self, name: &str, data: Value) {
        send(&jsonrpc::notification("event", Some(json!({ "name": name, "data": data }))));
    }
    fn output(&self, _: &str, text: &str) {
        say_aloud(text);
    }
    // There is no process but this one.
    fn client_started(&self, _: u32, _: &[String]) {}
    fn client_ended(&self, _: Option<i32>, _: Option<&str>, _: bool) {}
}

/// The harness visits the URL, and the client's own listener takes the redirect.
struct HarnessBrowser;

#[async_trait]
impl Browser for HarnessBrowser {
    async fn open(&self, server: &str, url: &str) -> Result<Option<String>, String> {
        Reported.driver_event("authorization-url", json!({ "server": server, "url": url }));
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_read_as_operations() {
        let asked = |method: &str, params: Value| {
            let Value::Object(params) = params else { panic!("params are an object") };
            operation(method, params)
        };
        let call = json!({"tool": "echo", "name": "mcp__s__echo", "server": "s", "arguments": {"n": 1}, "progress": false});
        match asked("call", call) {
            Ok(Op::Call(call)) => {
                assert_eq!((call.tool.as_str(), call.server.as_deref()), ("echo", Some("s")));
                assert_eq!(call.arguments.map(|a| a.0), Some(json!({"n": 1})));
            }
            other => panic!("{:?}", other.ok()),
        }
        assert!(matches!(asked("set_level", json!({"level": "info"})), Ok(Op::SetLevel(_))));
        assert!(matches!(asked("kall", json!({})), Err(Refusal::Unknown(_))));
        assert!(matches!(asked("call", json!({"tool": "echo", "colour": 1})), Err(Refusal::Params(_))));
    }
}
