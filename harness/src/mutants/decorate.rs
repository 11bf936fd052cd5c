//! Decorators over the seams of the reference client, from which mutants are made.

use crate::drivers::ClientSetup;
use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use sparring_client::http::{HttpError, HttpRequest, HttpResponse, Purpose};
use sparring_client::stdio::{Exit, Signal, SpawnSpec};
use sparring_client::{HttpClient, Launcher, ListPolicy, MessageFilter, NextPage, ServerProcess};
use sparring_host::HostError;
use sparring_host::naming::{Claim, Composed, Naming};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Something that hooks tell one another.
#[derive(Default)]
pub(super) struct Memo<T>(Arc<Mutex<T>>);

impl<T> Clone for Memo<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> Memo<T> {
    pub(super) fn get(&self) -> T {
        self.with(|value| value.clone())
    }

    pub(super) fn set(&self, value: T) {
        self.with(|slot| *slot = value);
    }

    pub(super) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How often something goes on before it stands still, so that what has no end is not too much for the machine.
#[derive(Clone)]
pub(super) struct Rounds(Arc<AtomicU32>);

impl Rounds {
    pub(super) fn new(rounds: u32) -> Self {
        Self(Arc::new(AtomicU32::new(rounds)))
    }

    /// One more.
    pub(super) async fn next(&self) {
        let left = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        if left.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How often what has no end is done: more than any check allows.
pub(super) const MANY: u32 = 60;

/// Makes requests fail soon that are never answered, so that a mutant that loses answers is quick about it.
pub(super) fn impatient(setup: &mut ClientSetup) {
    setup.host.timeouts.tool_s = 1.0;
    setup.host.timeouts.startup_s = setup.host.timeouts.startup_s.min(2.0);
}

// ---- messages ----

/// What becomes of a message.
pub(super) enum Fate {
    /// It goes on, changed or not.
    Pass,
    /// It is lost.
    Drop,
    /// These go on in its place.
    Instead(Vec<Value>),
    /// The connection is dead from here on: nothing is sent any more, and nothing heard.
    Die,
}

pub(super) const fn drop_if(condition: bool) -> Fate {
    if condition { Fate::Drop } else { Fate::Pass }
}

pub(super) const fn die_if(condition: bool) -> Fate {
    if condition { Fate::Die } else { Fate::Pass }
}

/// What has passed so far.
#[derive(Default)]
pub(super) struct Traffic {
    /// Requests of the client that are not answered yet, as the client meant them, in order.
    pub(super) open: Vec<Value>,
    /// Requests of the server that are not answered yet.
    asked: Vec<Value>,
    /// The handshake is done.
    pub(super) ready: bool,
    /// For the fault's own use.
    pub(super) memory: Option<Value>,
    dead: bool,
}

/// A message on its way.
pub(super) struct Passing<'a> {
    pub(super) server: &'a str,
    /// The message; null if it is no JSON.
    pub(super) message: &'a mut Value,
    /// The request that it answers.
    pub(super) about: Option<&'a Value>,
    pub(super) traffic: &'a mut Traffic,
}

impl Passing<'_> {
    /// Whether it is a request or notification with this method.
    pub(super) fn is(&self, method: &str) -> bool {
        self.message["method"] == method
    }

    pub(super) fn is_request(&self) -> bool {
        self.message["method"].is_string() && self.message.get("id").is_some()
    }

    pub(super) fn is_notification(&self) -> bool {
        self.message["method"].is_string() && self.message.get("id").is_none()
    }

    /// Whether it is a result or an error, with an id or without.
    pub(super) fn is_answer(&self) -> bool {
        self.message.get("result").is_some() || self.message.get("error").is_some()
    }

    /// Whether it answers a request with this method.
    pub(super) fn answers(&self, method: &str) -> bool {
        self.about.is_some_and(|request| request["method"] == method)
    }
}

struct Filter<O, I> {
    traffic: Mutex<Traffic>,
    outgoing: O,
    incoming: I,
}

/// Takes out of `requests` the one that `message` answers.
fn answered(requests: &mut Vec<Value>, message: &Value) -> Option<Value> {
    let id = message.get("id").filter(|_| message.get("method").is_none())?;
    let at = requests.iter().position(|request| request["id"] == *id)?;
    Some(requests.remove(at))
}

impl<O, I> Filter<O, I>
where
    O: Fn(&mut Passing<'_>) -> Fate,
    I: Fn(&mut Passing<'_>) -> Fate,
{
    fn lock(&self) -> std::sync::MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O, I> MessageFilter for Filter<O, I>
where
    O: Fn(&mut Passing<'_>) -> Fate + Send + Sync,
    I: Fn(&mut Passing<'_>) -> Fate + Send + Sync,
{
    fn outgoing(&self, server: &str, mut message: Value) -> Vec<Value> {
        let traffic = &mut *self.lock();
        if traffic.dead {
            return Vec::new();
        }
        let about = answered(&mut traffic.asked, &message);
        let meant = message.clone();
        let fate = (self.outgoing)(&mut Passing {
            server,
            message: &mut message,
            about: about.as_ref(),
            traffic: &mut *traffic,
        });
        match meant["method"].as_str() {
            Some("initialize") => traffic.ready = false,
            Some("notifications/initialized") => traffic.ready = true,
            Some("notifications/cancelled") => {
                traffic.open.retain(|request| request["id"] != meant["params"]["requestId"]);
            }
            _ => {}
        }
        if meant["method"].is_string() && meant.get("id").is_some() {
            traffic.open.push(meant);
        }
        match fate {
            Fate::Pass => vec![message],
            Fate::Drop => Vec::new(),
            Fate::Instead(messages) => messages,
            Fate::Die => {
                traffic.dead = true;
                Vec::new()
            }
        }
    }

    fn incoming(&self, server: &str, text: String) -> Vec<String> {
        let traffic = &mut *self.lock();
        if traffic.dead {
            return Vec::new();
        }
        let original: Value = serde_json::from_str(&text).unwrap_or_default();
        let mut message = original.clone();
        let about = answered(&mut traffic.open, &message);
        if original["method"].is_string() && original.get("id").is_some() {
            traffic.asked.push(original.clone());
        }
        let fate = (self.incoming)(&mut Passing {
            server,
            message: &mut message,
            about: about.as_ref(),
            traffic: &mut *traffic,
        });
        match fate {
            Fate::Pass if message == original => vec![text],
            Fate::Pass => vec![message.to_string()],
            Fate::Drop => Vec::new(),
            Fate::Instead(messages) => messages.iter().map(Value::to_string).collect(),
            Fate::Die => {
                traffic.dead = true;
                Vec::new()
            }
        }
    }
}

/// Puts faults on the way of the messages of the client and of those of the server.
pub(super) fn messages(
    setup: &mut ClientSetup,
    outgoing: impl Fn(&mut Passing<'_>) -> Fate + Send + Sync + 'static,
    incoming: impl Fn(&mut Passing<'_>) -> Fate + Send + Sync + 'static,
) {
    setup.filter = Some(Arc::new(Filter { traffic: Mutex::default(), outgoing, incoming }));
}

fn pass(_: &mut Passing<'_>) -> Fate {
    Fate::Pass
}

/// A fault on the way of the client's messages.
pub(super) fn outgoing(
    setup: &mut ClientSetup,
    fault: impl Fn(&mut Passing<'_>) -> Fate + Send + Sync + 'static,
) {
    messages(setup, fault, pass);
}

/// A fault on the way of the server's messages.
pub(super) fn incoming(
    setup: &mut ClientSetup,
    fault: impl Fn(&mut Passing<'_>) -> Fate + Send + Sync + 'static,
) {
    messages(setup, pass, fault);
}

/// Changes the params of the requests with this method.
pub(super) fn params(
    setup: &mut ClientSetup,
    method: &'static str,
    change: impl Fn(&mut Value) + Send + Sync + 'static,
) {
    outgoing(setup, move |passing| {
        if passing.is(method) {
            if passing.message.get("params").is_none() {
                passing.message["params"] = json!({});
            }
            change(&mut passing.message["params"]);
        }
        Fate::Pass
    });
}

/// Loses the client's messages with this method.
pub(super) fn keeps_to_itself(setup: &mut ClientSetup, method: &'static str) {
    outgoing(setup, move |passing| drop_if(passing.is(method)));
}

/// Changes what the client answers to the server's requests with this method.
pub(super) fn replies(
    setup: &mut ClientSetup,
    method: &'static str,
    change: impl Fn(&mut Value) + Send + Sync + 'static,
) {
    outgoing(setup, move |passing| {
        if passing.answers(method) {
            change(passing.message);
        }
        Fate::Pass
    });
}

/// Changes what the client gives when a server asks for something by this method: in its answer, or, without a handshake,
/// in the request that it repeats.
pub(super) fn gives(
    setup: &mut ClientSetup,
    method: &'static str,
    change: impl Fn(&mut Value) + Send + Sync + 'static,
) {
    let asked = Memo::<Vec<String>>::default();
    let keys = asked.clone();
    messages(
        setup,
        move |passing| {
            if passing.answers(method)
                && let Some(result) = passing.message.get_mut("result")
            {
                change(result);
            }
            let inputs = passing.message["params"].get_mut("inputResponses").and_then(Value::as_object_mut);
            for (key, input) in inputs.into_iter().flatten() {
                if keys.with(|keys| keys.contains(key)) {
                    change(input);
                }
            }
            Fate::Pass
        },
        move |passing| {
            let wanted = passing.message["result"]["inputRequests"].as_object();
            let of_method = wanted.into_iter().flatten().filter(|(_, request)| request["method"] == method);
            let found: Vec<String> = of_method.map(|(key, _)| key.clone()).collect();
            asked.with(|asked| asked.extend(found));
            Fate::Pass
        },
    );
}

/// Changes what the client understands of the answers to its requests with this method. Also handed over: the request.
pub(super) fn answers(
    setup: &mut ClientSetup,
    method: &'static str,
    change: impl Fn(&Value, &mut Value) + Send + Sync + 'static,
) {
    incoming(setup, move |passing| {
        if let Some(request) = passing.about.filter(|_| passing.answers(method)) {
            change(request, passing.message);
        }
        Fate::Pass
    });
}

/// Changes what the client understands of the results of its requests with this method.
pub(super) fn results(
    setup: &mut ClientSetup,
    method: &'static str,
    change: impl Fn(&mut Value) + Send + Sync + 'static,
) {
    answers(setup, method, move |_, answer| {
        if let Some(result) = answer.get_mut("result") {
            change(result);
        }
    });
}

/// Takes some results of its requests with this method for errors.
pub(super) fn refuses(
    setup: &mut ClientSetup,
    method: &'static str,
    which: impl Fn(&Value, &Value) -> bool + Send + Sync + 'static,
) {
    answers(setup, method, move |request, answer| {
        if answer.get("result").is_some_and(|result| which(request, result)) {
            *answer = failure(answer, "the client can't make sense of this");
        }
    });
}

/// An error with the id of `answer`.
pub(super) fn failure(answer: &Value, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": answer["id"], "error": {"code": -32603, "message": message}})
}

/// A result with the id of `answer`.
pub(super) fn success(answer: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": answer["id"], "result": result})
}

/// Loses the connection over some message of the server.
pub(super) fn dies_on(setup: &mut ClientSetup, which: impl Fn(&Passing<'_>) -> bool + Send + Sync + 'static) {
    impatient(setup);
    incoming(setup, move |passing| die_if(which(passing)));
}

/// Holds on to the first result of a method. With `asks`, later requests with it go out; otherwise something harmless
/// goes out in their place.
pub(super) fn remembers(setup: &mut ClientSetup, method: &'static str, asks: bool) {
    messages(
        setup,
        move |passing| {
            if !asks && passing.is(method) && passing.traffic.memory.is_some() {
                passing.message["method"] = json!("ping");
                passing.message["params"] = json!({});
            }
            Fate::Pass
        },
        move |passing| {
            if passing.answers(method) {
                let result = passing.message["result"].clone();
                let first = passing.traffic.memory.get_or_insert(result).clone();
                *passing.message = success(passing.message, &first);
            }
            Fate::Pass
        },
    );
}

// ---- HTTP ----

/// What comes back for a request.
pub(super) type Reply = Result<HttpResponse, HttpError>;

struct Around<F> {
    next: Arc<dyn HttpClient>,
    hook: F,
}

#[async_trait]
impl<F, R> HttpClient for Around<F>
where
    F: Fn(HttpRequest, Arc<dyn HttpClient>) -> R + Send + Sync,
    R: Future<Output = Reply> + Send,
{
    async fn send(&self, request: HttpRequest) -> Reply {
        (self.hook)(request, Arc::clone(&self.next)).await
    }
}

/// Puts `hook` around all HTTP. Of several hooks the last one is the outermost.
pub(super) fn exchanges<R>(
    setup: &mut ClientSetup,
    hook: impl Fn(HttpRequest, Arc<dyn HttpClient>) -> R + Send + Sync + 'static,
) where
    R: Future<Output = Reply> + Send + 'static,
{
    setup.http = Arc::new(Around { next: Arc::clone(&setup.http), hook });
}

/// Changes requests.
pub(super) fn requests(setup: &mut ClientSetup, change: impl Fn(&mut HttpRequest) + Send + Sync + 'static) {
    exchanges(setup, move |mut request, next| {
        change(&mut request);
        async move { next.send(request).await }
    });
}

/// Whether a request goes to the MCP endpoint.
pub(super) const fn is_mcp(request: &HttpRequest) -> bool {
    matches!(request.purpose, Purpose::McpPost | Purpose::McpGet | Purpose::McpDelete)
}

/// Takes a header field out of some requests.
pub(super) fn without_header(setup: &mut ClientSetup, name: &'static str) {
    requests(setup, move |request| request.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name)));
}

/// Sees each response, and may change or lose it.
pub(super) fn responses<R>(
    setup: &mut ClientSetup,
    hook: impl Fn(HttpRequest, HttpResponse) -> R + Clone + Send + Sync + 'static,
) where
    R: Future<Output = Reply> + Send + 'static,
{
    exchanges(setup, move |request, next| {
        let hook = hook.clone();
        async move {
            let response = next.send(request.clone()).await?;
            hook(request, response).await
        }
    });
}

/// The client can't make a request any more once it has met a response of some kind.
pub(super) fn dies_on_response(
    setup: &mut ClientSetup,
    which: impl Fn(&HttpRequest, u16) -> bool + Clone + Send + Sync + 'static,
) {
    let dead = Arc::new(AtomicBool::new(false));
    exchanges(setup, move |request, next| {
        let (dead, which) = (Arc::clone(&dead), which.clone());
        async move {
            let died = || Err(HttpError::Other("the client does not work any more".into()));
            if dead.load(Ordering::Acquire) {
                return died();
            }
            let response = next.send(request.clone()).await?;
            if which(&request, response.status) {
                dead.store(true, Ordering::Release);
            }
            if dead.load(Ordering::Acquire) { died() } else { Ok(response) }
        }
    });
}

/// Whether a request carries a message with this method.
pub(super) fn carries(request: &HttpRequest, method: &str) -> bool {
    let body = request.body.as_deref().unwrap_or_default();
    serde_json::from_slice::<Value>(body).is_ok_and(|message| message["method"] == method)
}

/// Changes the chunks of event streams that answer some requests; an error ends the stream.
pub(super) fn streams<C>(
    setup: &mut ClientSetup,
    which: impl Fn(&HttpRequest) -> bool + Clone + Send + Sync + 'static,
    change: impl Fn() -> C + Clone + Send + Sync + 'static,
) where
    C: FnMut(&[u8]) -> Result<Vec<u8>, HttpError> + Send + 'static,
{
    responses(setup, move |request, mut response| {
        if which(&request) && response.media_type() == "text/event-stream" {
            let mut change = change();
            response.body = Box::pin(response.body.map(move |chunk| Ok(change(&chunk?)?.into())));
        }
        async { Ok(response) }
    });
}

// ---- processes ----

/// A fault in how a process is dealt with: replaces what it has to, the rest goes to the process.
#[async_trait]
pub(super) trait Handling: Send + Sync {
    async fn write(&self, process: &dyn ServerProcess, bytes: &[u8]) -> io::Result<()> {
        process.write(bytes).await
    }
    async fn read(&self, process: &dyn ServerProcess) -> io::Result<Vec<u8>> {
        process.read().await
    }
    async fn read_stderr(&self, process: &dyn ServerProcess) -> io::Result<Vec<u8>> {
        process.read_stderr().await
    }
    async fn close_stdin(&self, process: &Arc<dyn ServerProcess>) {
        process.close_stdin().await;
    }
    fn signal(&self, process: &Arc<dyn ServerProcess>, signal: Signal) -> io::Result<()> {
        process.signal(signal)
    }
    fn group_alive(&self, process: &dyn ServerProcess) -> bool {
        process.group_alive()
    }
    async fn wait(&self, process: &dyn ServerProcess) -> io::Result<Exit> {
        process.wait().await
    }
}

struct Handled<H> {
    process: Arc<dyn ServerProcess>,
    handling: H,
}

#[async_trait]
impl<H: Handling> ServerProcess for Handled<H> {
    fn id(&self) -> Option<u32> {
        self.process.id()
    }
    async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.handling.write(&*self.process, bytes).await
    }
    async fn read(&self) -> io::Result<Vec<u8>> {
        self.handling.read(&*self.process).await
    }
    async fn read_stderr(&self) -> io::Result<Vec<u8>> {
        self.handling.read_stderr(&*self.process).await
    }
    async fn close_stdin(&self) {
        self.handling.close_stdin(&self.process).await;
    }
    fn signal(&self, signal: Signal) -> io::Result<()> {
        self.handling.signal(&self.process, signal)
    }
    fn group_alive(&self) -> bool {
        self.handling.group_alive(&*self.process)
    }
    async fn wait(&self) -> io::Result<Exit> {
        self.handling.wait(&*self.process).await
    }
}

struct Launching<F> {
    next: Arc<dyn Launcher>,
    handling: F,
}

impl<H: Handling + 'static, F: Fn() -> H + Send + Sync> Launcher for Launching<F> {
    fn spawn(&self, spec: &SpawnSpec) -> io::Result<Box<dyn ServerProcess>> {
        let process = Arc::from(self.next.spawn(spec)?);
        Ok(Box::new(Handled { process, handling: (self.handling)() }))
    }
}

/// Deals with each process in its own way.
pub(super) fn processes<H: Handling + 'static>(
    setup: &mut ClientSetup,
    handling: impl Fn() -> H + Send + Sync + 'static,
) {
    setup.launcher = Arc::new(Launching { next: Arc::clone(&setup.launcher), handling });
}

// ---- names and lists ----

/// A tool as its server calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawName {
    pub(super) server: String,
    pub(super) tool: String,
}

struct NamedBy<F>(F);

impl<F: Fn(&[RawName]) -> Vec<Option<String>> + Send + Sync> Naming for NamedBy<F> {
    fn compose(&self, claims: &[Claim]) -> Result<Composed, HostError> {
        let tool = |claim: &Claim| match claim {
            Claim::Tool { server, tool } => Some(RawName { server: server.clone(), tool: tool.clone() }),
            _ => None,
        };
        let tools: Vec<RawName> = claims.iter().filter_map(tool).collect();
        let mut named = (self.0)(&tools).into_iter();
        let name = |claim: &Claim| match claim {
            Claim::Own(name) => Some(name.clone()),
            Claim::Wrapper { server, template } => Some(template.replace("{server}", server)),
            Claim::Tool { .. } => named.next().flatten(),
        };
        Ok(Composed { names: claims.iter().map(name).collect(), warnings: Vec::new() })
    }

    fn aliases(&self, _: &Claim) -> Vec<String> {
        Vec::new()
    }
}

/// Names tools by this function.
pub(super) fn names_tools(
    setup: &mut ClientSetup,
    names: impl Fn(&[RawName]) -> Vec<Option<String>> + Send + Sync + 'static,
) {
    setup.naming = Some(Arc::new(NamedBy(names)));
}

struct PagedBy<F>(F);

impl<F: Fn(&[String], &Value) -> NextPage + Send + Sync> ListPolicy for PagedBy<F> {
    fn next(&self, _: &str, cursors: &[String], result: &Value) -> NextPage {
        (self.0)(cursors, result)
    }
}

/// Reads lists on by this function: of the cursors asked for so far, and the latest result's `nextCursor`.
pub(super) fn reads_lists(
    setup: &mut ClientSetup,
    next: impl Fn(&[String], Option<&str>) -> NextPage + Send + Sync + 'static,
) {
    let by = move |cursors: &[String], result: &Value| next(cursors, result["nextCursor"].as_str());
    setup.lists = Some(Arc::new(PagedBy(by)));
}
