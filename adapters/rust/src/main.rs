//! Puts the client of the Rust SDK (crates.io `rmcp`) under Sparring's driver protocol, see `docs/driver-protocol.md`.
//! The SDK's defaults are left alone: what is judged is the SDK, not this file.
#![allow(deprecated, reason = "the SDK marks what its newest revision has dropped")]

use http::{HeaderName, HeaderValue};
use rmcp::model::*;
use rmcp::service::{ClientInitializeError, NotificationContext, PeerRequestOptions, RequestContext, RunningService, ServiceError};
use rmcp::transport::auth::{AuthClient, AuthError, AuthorizationRequest, OAuthState};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ErrorData, Peer, RoleClient, ServiceExt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::oneshot;

/// Nothing listens here: the harness hands the redirect over. Below the ephemeral ports, so that no mock gets it either.
const REDIRECT_URI: &str = "http://127.0.0.1:17817/callback";
const OPERATIONS: [&str; 16] = [
    "open", "tools", "call", "cancel", "resources", "templates", "read", "subscribe", "unsubscribe", "prompts", "prompt", "complete",
    "set_level", "ping", "set_roots", "close",
];
static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct State {
    sessions: BTreeMap<String, Arc<Session>>,
    running: HashMap<String, oneshot::Sender<Option<String>>>, // by step
    progress: HashMap<ProgressToken, String>,                  // steps that want it
    redirects: HashMap<String, oneshot::Sender<String>>,       // authorizations that wait, by `state`
    roots: Vec<String>,
}
struct Session {
    name: String,
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    roots: bool,
}
struct Failed(&'static str, String, Option<i64>); // kind, message, code

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
fn write(mut message: Value) {
    message["jsonrpc"] = json!("2.0");
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush()); // the harness may be gone
}
fn event(name: &str, data: Value) {
    write(json!({ "method": "event", "params": { "name": name, "data": data } }));
}
fn plain(value: impl serde::Serialize) -> Result<Value, Failed> {
    serde_json::to_value(value).map_err(|error| Failed("other", error.to_string(), None))
}
fn read<T: DeserializeOwned>(value: Value) -> Result<T, Failed> {
    serde_json::from_value(value).map_err(|error| Failed("refused", error.to_string(), None))
}
fn text(params: &Value, key: &str) -> String {
    params[key].as_str().unwrap_or_default().to_owned()
}
fn millis(params: &Value) -> Option<Duration> {
    params["timeout_ms"].as_u64().map(Duration::from_millis)
}

/// What a server may ask of the client, or tell it.
struct Handler(String, Value);

impl Handler {
    fn answer<T: DeserializeOwned>(&self, key: &str, method: &str) -> Result<T, ErrorData> {
        let answer = self.1.get(key).filter(|value| !value.is_null()).cloned();
        let answer = answer.ok_or_else(|| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None))?;
        serde_json::from_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
    async fn heard(&self, method: &str, params: impl serde::Serialize) {
        event("notification", json!({ "server": self.0, "method": method, "params": params }));
    }
}
impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let (Self(_, params), mut config) = (self, ClientConfig::default());
        let mut capabilities = Map::new();
        for (key, value) in [("sampling", json!({})), ("elicitation", json!({ "form": {}, "url": {} })), ("roots", json!({ "listChanged": true }))] {
            if !params[key].is_null() {
                capabilities.insert(key.to_owned(), value);
            }
        }
        config.capabilities = serde_json::from_value(Value::Object(capabilities)).unwrap_or_default();
        config.client_info = Implementation::new("sparring-adapter-rust", env!("CARGO_PKG_VERSION"));
        if let Ok(offer) = serde_json::from_value(params["offer"].clone()) {
            config.protocol_version = offer;
        }
        config
    }
    async fn create_message(&self, _: CreateMessageRequestParams, _: RequestContext<RoleClient>) -> Result<CreateMessageResult, ErrorData> {
        self.answer("sampling", "sampling/createMessage")
    }
    async fn create_elicitation(&self, _: ElicitRequestParams, _: RequestContext<RoleClient>) -> Result<ElicitResult, ErrorData> {
        self.answer("elicitation", "elicitation/create")
    }
    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(state().roots.iter().map(Root::new).collect()))
    }
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        if let Some(step) = state().progress.get(&params.progress_token) {
            event("progress", json!({ "step": step, "progress": params.progress, "total": params.total, "message": params.message }));
        }
    }
    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.heard("notifications/message", params).await;
    }
    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.heard("notifications/resources/updated", params).await;
    }
    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.heard("notifications/resources/list_changed", json!({})).await;
    }
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.heard("notifications/tools/list_changed", json!({})).await;
    }
    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.heard("notifications/prompts/list_changed", json!({})).await;
    }
    async fn on_custom_notification(&self, notification: CustomNotification, _: NotificationContext<RoleClient>) {
        self.heard(&notification.method, notification.params.unwrap_or(json!({}))).await;
    }
}

/// What a transport's error says, somewhere in its chain of causes.
fn cause(error: &(dyn std::error::Error + 'static), opening: bool) -> (&'static str, Option<i64>) {
    let gone = if opening { "start" } else { "closed" };
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<AuthError>() {
            return ("auth", None);
        }
        if let Some(error) = error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            return match error {
                StreamableHttpError::AuthRequired(_) => ("auth", Some(401)),
                StreamableHttpError::InsufficientScope(_) => ("auth", Some(403)),
                StreamableHttpError::Auth(_) => ("auth", None),
                StreamableHttpError::HttpStatus(error) => ("http", Some(error.status.into())),
                StreamableHttpError::SessionExpired => ("http", Some(404)),
                StreamableHttpError::Client(error) if error.status().is_some() => ("http", error.status().map(|status| status.as_u16().into())),
                StreamableHttpError::ReinitializationFailed(error) => ("protocol", Some(error.code.0.into())),
                StreamableHttpError::UnexpectedServerResponse(text) => {
                    // Other statuses are known by these words only.
                    let status = text.strip_prefix("HTTP ").and_then(|rest| rest.get(..3)?.parse().ok());
                    (if status.is_some() { "http" } else { "invalid" }, status)
                }
                StreamableHttpError::UnexpectedContentType(_) | StreamableHttpError::Deserialize(_) | StreamableHttpError::ResponseBodyTooLarge { .. } => ("invalid", None),
                _ => (gone, None),
            };
        }
        next = error.source();
    }
    (gone, None)
}
impl From<ServiceError> for Failed {
    fn from(error: ServiceError) -> Self {
        let (kind, code) = match &error {
            ServiceError::McpError(error) => ("protocol", Some(error.code.0.into())),
            ServiceError::TransportSend(error) => cause(error.error.as_ref(), false),
            ServiceError::TransportClosed => ("closed", None),
            ServiceError::UnexpectedResponse => ("invalid", None),
            ServiceError::Cancelled { .. } => ("cancelled", None),
            ServiceError::Timeout { .. } => ("timeout", None),
            _ => ("other", None),
        };
        Self(kind, error.to_string(), code)
    }
}
impl From<ClientInitializeError> for Failed {
    fn from(error: ClientInitializeError) -> Self {
        let (kind, code) = match &error {
            ClientInitializeError::JsonRpcError(error) => ("protocol", Some(error.code.0.into())),
            ClientInitializeError::ConnectionClosed(_) => ("closed", None),
            ClientInitializeError::TransportError { error, .. } => cause(error.error.as_ref(), true),
            ClientInitializeError::Cancelled => ("cancelled", None),
            _ => ("invalid", None),
        };
        Self(kind, error.to_string(), code)
    }
}
impl From<AuthError> for Failed {
    fn from(error: AuthError) -> Self {
        Self("auth", error.to_string(), None)
    }
}

/// The flow that the SDK leaves to its user: the browser is the harness.
async fn authorize(url: &str, challenge: &str, params: &Value) -> Result<AuthClient<reqwest::Client>, Failed> {
    let mut request = AuthorizationRequest::new(REDIRECT_URI).with_client_name("sparring-adapter").with_challenge(challenge);
    (request.client_id, request.client_secret) = (params["client_id"].as_str().map(str::to_owned), params["client_secret"].as_str().map(str::to_owned));
    let mut oauth = OAuthState::new(url, None).await?;
    oauth.start_authorization(request).await?;
    let page = oauth.get_authorization_url().await?;
    let (sender, redirect) = oneshot::channel();
    state().redirects.insert(state_of(&page), sender);
    event("authorization-url", json!({ "url": page }));
    let redirect = redirect.await.map_err(|_| Failed("auth", "no redirect came".to_owned(), None))?;
    oauth.handle_callback_url(&redirect).await?;
    let manager = oauth.into_authorization_manager().ok_or_else(|| Failed("auth", "not authorized".to_owned(), None))?;
    Ok(AuthClient::new(reqwest::Client::default(), manager))
}
fn state_of(url: &str) -> String {
    let url = reqwest::Url::parse(url).ok();
    url.and_then(|url| url.query_pairs().find(|(key, _)| key == "state").map(|(_, value)| value.into_owned())).unwrap_or_default()
}

async fn within<T>(budget: Option<Duration>, serving: impl Future<Output = Result<T, ClientInitializeError>>) -> Result<T, Failed> {
    match budget {
        None => Ok(serving.await?),
        Some(budget) => Ok(tokio::time::timeout(budget, serving).await.map_err(|_| Failed("timeout", "no handshake in time".to_owned(), None))??),
    }
}

async fn connect(name: &str, target: &Value, params: &Value) -> Result<Value, Failed> {
    let old = state().sessions.remove(name);
    if let Some(session) = old {
        disconnect(&session).await?;
    }
    let handler = || Handler(name.to_owned(), params.clone());
    let service = if target["transport"] == "stdio" {
        let mut command = tokio::process::Command::new(text(target, "command"));
        command.args(read::<Vec<String>>(target["args"].clone())?).envs(read::<Option<BTreeMap<String, String>>>(target["env"].clone())?.unwrap_or_default());
        let child = TokioChildProcess::new(command).map_err(|error| Failed("start", error.to_string(), None))?;
        within(millis(params), handler().serve(child)).await?
    } else {
        let (url, mut headers) = (text(target, "url"), HashMap::new());
        for (name, value) in read::<Option<BTreeMap<String, String>>>(params["headers"].clone())?.unwrap_or_default() {
            let header = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
            headers.extend([header.ok_or_else(|| Failed("refused", "not an HTTP header".to_owned(), None))?]);
        }
        let fixed = headers.contains_key("authorization");
        let config = StreamableHttpClientTransportConfig::with_uri(url.clone()).custom_headers(headers);
        let transport = StreamableHttpClientTransport::from_config(config.clone());
        let serving = async { Ok(handler().serve(transport).await) };
        match within(millis(params), serving).await? {
            Err(error) if error.auth_challenge().is_some() && !fixed => {
                let client = authorize(&url, error.auth_challenge().unwrap_or_default(), params).await?;
                within(millis(params), handler().serve(StreamableHttpClientTransport::with_client(client, config))).await?
            }
            served => served?,
        }
    };
    let peer = service.peer().clone();
    let info = peer.peer_info().ok_or_else(|| Failed("other", "no handshake".to_owned(), None))?;
    let told = json!({ "ok": true, "protocolVersion": info.protocol_version, "serverInfo": info.server_info, "capabilities": info.capabilities, "instructions": info.instructions });
    let session = Session { name: name.to_owned(), peer, service: Mutex::new(Some(service)), roots: !params["roots"].is_null() };
    state().sessions.insert(name.to_owned(), Arc::new(session));
    Ok(told)
}

async fn disconnect(session: &Session) -> Result<(), Failed> {
    state().sessions.remove(&session.name);
    let service = session.service.lock().unwrap_or_else(PoisonError::into_inner).take();
    match service {
        Some(service) => service.cancel().await.map(drop).map_err(|error| Failed("other", error.to_string(), None)),
        None => Ok(()),
    }
}

fn chosen(params: &Value) -> Result<Vec<Arc<Session>>, Failed> {
    let server = params["server"].as_str();
    let found: Vec<_> = state().sessions.values().filter(|session| server.is_none_or(|server| server == session.name)).cloned().collect();
    if found.is_empty() { Err(Failed("refused", "no such server is open".to_owned(), None)) } else { Ok(found) }
}

async fn open(params: &Value) -> Result<Value, Failed> {
    state().roots = read::<Option<_>>(params["roots"].clone())?.unwrap_or_default();
    let targets = read::<BTreeMap<String, Value>>(params["servers"].clone())?;
    let (mut servers, mut last) = (Map::new(), None);
    for (name, target) in &targets {
        let told = connect(name, target, params).await.unwrap_or_else(|Failed(kind, message, code)| {
            let told = json!({ "ok": false, "error": { "kind": kind, "message": message, "code": code } });
            last = Some(Failed(kind, message, code));
            told
        });
        servers.insert(name.clone(), told);
    }
    match last {
        Some(failed) if servers.values().all(|told| told["ok"] == false) => Err(failed),
        _ => Ok(json!({ "servers": servers })),
    }
}

async fn call(params: &Value) -> Result<Value, Failed> {
    let (step, peer) = (text(params, "step"), chosen(params)?[0].peer.clone());
    let mut request = CallToolRequestParams::new(text(params, "tool"));
    request.arguments = read(params["arguments"].clone())?;
    let (sender, cancelled) = oneshot::channel();
    state().running.insert(step.clone(), sender);
    let options = millis(params).map_or_else(PeerRequestOptions::no_options, PeerRequestOptions::with_timeout);
    let handle = peer.send_cancellable_request(CallToolRequest::new(request).into(), options).await?;
    let (id, token) = (handle.id.clone(), handle.progress_token.clone());
    if params["progress"] == true {
        state().progress.insert(token.clone(), step.clone());
    }
    let result = tokio::select! {
        result = handle.await_response() => result,
        Ok(reason) = cancelled => {
            peer.notify_cancelled(CancelledNotificationParam::new(Some(id), reason.clone())).await?;
            Err(ServiceError::Cancelled { reason })
        }
    };
    state().running.remove(&step);
    state().progress.remove(&token);
    match result? {
        ServerResult::CallToolResult(result) => plain(result),
        ServerResult::EmptyResult(_) => plain(CallToolResult::default()), // as the SDK's `call_tool` does
        _ => Err(ServiceError::UnexpectedResponse.into()),
    }
}

async fn list(params: &Value, key: &str) -> Result<Value, Failed> {
    let mut all = Vec::new();
    for session in chosen(params)? {
        let items = match key {
            "tools" => plain(session.peer.list_all_tools().await?)?,
            "resources" => plain(session.peer.list_all_resources().await?)?,
            "prompts" => plain(session.peer.list_all_prompts().await?)?,
            _ => plain(session.peer.list_all_resource_templates().await?)?,
        };
        for mut item in read::<Vec<Map<String, Value>>>(items)? {
            if key == "tools" {
                item.retain(|key, _| ["name", "title", "description", "inputSchema", "outputSchema"].contains(&key.as_str()));
                item.insert("rawName".to_owned(), item["name"].clone());
            }
            item.insert("server".to_owned(), json!(session.name));
            all.push(Value::Object(item));
        }
    }
    Ok(json!({ key: all }))
}

async fn operate(method: &str, params: &Value) -> Result<Value, Failed> {
    let peer = || chosen(params).map(|sessions| sessions[0].peer.clone());
    match method {
        "open" => return open(params).await,
        "call" => return call(params).await,
        "tools" | "resources" | "prompts" => return list(params, method).await,
        "templates" => return list(params, "resourceTemplates").await,
        "read" => return plain(peer()?.read_resource(ReadResourceRequestParams::new(text(params, "uri"))).await?),
        "prompt" => return plain(peer()?.get_prompt(read(json!({ "name": params["name"], "arguments": params["arguments"] }))?).await?),
        "complete" => {
            let reference = if params["prompt"].is_null() { Reference::for_resource(text(params, "template")) } else { Reference::for_prompt(text(params, "prompt")) };
            let argument = json!({ "name": params["argument"], "value": params["value"] });
            return plain(peer()?.complete(read(json!({ "ref": reference, "argument": argument }))?).await?);
        }
        "cancel" => {
            let running = state().running.remove(&text(params, "step"));
            let running = running.ok_or_else(|| Failed("refused", "no call runs as that step".to_owned(), None))?;
            let _ = running.send(params["reason"].as_str().map(str::to_owned)); // it may just have ended
        }
        "subscribe" => peer()?.subscribe(SubscribeRequestParams::new(text(params, "uri"))).await?,
        "unsubscribe" => peer()?.unsubscribe(UnsubscribeRequestParams::new(text(params, "uri"))).await?,
        "set_level" => peer()?.set_level(read(json!({ "level": params["level"] }))?).await?,
        "ping" => drop(peer()?.send_request(ClientRequest::PingRequest(PingRequest::default())).await?),
        "set_roots" => {
            state().roots = read(params["roots"].clone())?;
            for session in chosen(&Value::Null)? {
                if !session.roots {
                    return Err(Failed("refused", "roots were not declared".to_owned(), None));
                }
                session.peer.notify_roots_list_changed().await?;
            }
        }
        _ => {
            let sessions = if state().sessions.is_empty() { Vec::new() } else { chosen(params)? };
            for session in sessions {
                disconnect(&session).await?;
            }
        }
    }
    Ok(json!({}))
}

async fn take(message: Value) {
    let (id, params) = (&message["id"], &message["params"]);
    let method = message["method"].as_str().unwrap_or_default();
    if method == "hello" {
        let version = include_str!("../Cargo.lock").split("name = \"rmcp\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next());
        let features = ["sampling", "elicitation", "roots", "oauth", "progress", "notifications", "several-servers", "call-timeout", "headers"];
        let revisions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
        write(json!({ "id": id, "result": {
            "name": "rmcp", "version": version, "operations": OPERATIONS, "transports": ["stdio", "http"], "revisions": revisions, "features": features } }));
    } else if method == "redirect" {
        let (url, mut state) = (text(params, "url"), state());
        let name = Some(state_of(&url)).filter(|name| state.redirects.contains_key(name)).or_else(|| state.redirects.keys().next().cloned());
        if let Some(waiting) = name.and_then(|name| state.redirects.remove(&name)) {
            let _ = waiting.send(url);
        }
    } else if OPERATIONS.contains(&method) {
        write(match operate(method, params).await {
            Ok(result) => json!({ "id": id, "result": result }),
            Err(Failed(kind, message, code)) => json!({ "id": id, "error": { "code": 1, "message": message, "data": { "kind": kind, "code": code } } }),
        });
    } else {
        write(json!({ "id": id, "error": { "code": -32601, "message": format!("no operation {method}") } }));
    }
}

// One thread: whatever is noted right after a request was sent is there before its answer.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(message) => drop(tokio::spawn(take(message))),
            Err(error) => eprintln!("not JSON: {error}"),
        }
    }
    let _ = operate("close", &Value::Null).await;
    std::process::exit(0); // reading stdin has a thread of its own
}
