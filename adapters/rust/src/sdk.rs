//! The SDK's side of the adapter: connections, what servers ask and tell, OAuth, and which failure is of which kind.

use crate::{event, plain, read, state, text};
use http::{HeaderName, HeaderValue};
use rmcp::model::*;
use rmcp::service::{
    ClientInitializeError, NotificationContext, RequestContext, RunningService, ServiceError,
};
use rmcp::transport::auth::{AuthClient, AuthError, AuthorizationCallback, AuthorizationRequest, OAuthState};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ErrorData, Peer, RoleClient, ServiceExt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Nothing listens here: the harness hands the redirect over. Below the ephemeral ports, so that no mock gets it either.
const REDIRECT_URI: &str = "http://127.0.0.1:17817/callback";

/// A connection.
pub struct Session {
    pub name: String,
    pub peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    pub roots: bool,
    /// Shares the authorization with the connection.
    auth: Option<AuthClient<reqwest::Client>>,
}
/// A failure: kind, message, code.
pub struct Failed(pub &'static str, pub String, pub Option<i64>);

/// What a server may ask of the client, or tell it.
struct Handler(String, Value);

impl Handler {
    fn answer<T: DeserializeOwned>(&self, key: &str, method: &str) -> Result<T, ErrorData> {
        let answer = self.1.get(key).filter(|value| !value.is_null()).cloned();
        let answer =
            answer.ok_or_else(|| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None))?;
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
        for (key, value) in [
            ("sampling", json!({})),
            ("elicitation", json!({ "form": {}, "url": {} })),
            ("roots", json!({ "listChanged": true })),
        ] {
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
    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.answer("sampling", "sampling/createMessage")
    }
    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if self.1["elicitation"].is_null() {
            return Ok(ElicitResult::new(ElicitationAction::Decline)); // as the SDK does by default
        }
        self.answer("elicitation", "elicitation/create")
    }
    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(state().roots.iter().map(Root::new).collect()))
    }
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let step = state().progress.get(&params.progress_token).cloned();
        if let (Some(step), Ok(mut told)) = (step, read::<Map<_, _>>(json!(params))) {
            told.retain(|key, _| ["progress", "total", "message"].contains(&key.as_str()));
            told.insert("step".to_owned(), json!(step));
            event("progress", told.into());
        }
    }
    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.heard("notifications/message", params).await;
    }
    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
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
    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _: NotificationContext<RoleClient>,
    ) {
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
                StreamableHttpError::InsufficientScope(error) => {
                    state().lacking.clone_from(&error.required_scope);
                    ("auth", Some(403))
                }
                StreamableHttpError::Auth(_) => ("auth", None),
                StreamableHttpError::HttpStatus(error) => ("http", Some(error.status.into())),
                StreamableHttpError::SessionExpired => ("http", Some(404)),
                StreamableHttpError::Client(error) if error.status().is_some() => {
                    ("http", error.status().map(|status| status.as_u16().into()))
                }
                StreamableHttpError::ReinitializationFailed(error) => ("protocol", Some(error.code.0.into())),
                StreamableHttpError::UnexpectedServerResponse(text) => {
                    // Other statuses are known by these words only.
                    let status = text.strip_prefix("HTTP ").and_then(|rest| rest.get(..3)?.parse().ok());
                    (if status.is_some() { "http" } else { "invalid" }, status)
                }
                StreamableHttpError::UnexpectedContentType(_)
                | StreamableHttpError::Deserialize(_)
                | StreamableHttpError::ResponseBodyTooLarge { .. } => ("invalid", None),
                _ => (gone, None),
            };
        }
        next = error.source();
    }
    (gone, None)
}
impl Failed {
    /// `data` of the error.
    pub fn data(&self) -> Value {
        let mut data = json!({ "kind": self.0 });
        if let Some(code) = self.2 {
            data["code"] = json!(code);
        }
        data
    }
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
async fn authorize(
    url: &str,
    challenge: Option<String>,
    params: &Value,
) -> Result<AuthClient<reqwest::Client>, Failed> {
    let mut request = AuthorizationRequest::new(REDIRECT_URI).with_client_name("sparring-adapter");
    request.challenge = challenge;
    (request.client_id, request.client_secret) = (
        params["client_id"].as_str().map(str::to_owned),
        params["client_secret"].as_str().map(str::to_owned),
    );
    let mut oauth = OAuthState::new(url, None).await?;
    oauth.start_authorization(request).await?;
    let page = oauth.get_authorization_url().await?;
    oauth.handle_callback_url(&browse(page).await?).await?;
    let manager = oauth
        .into_authorization_manager()
        .ok_or_else(|| Failed("auth", "not authorized".to_owned(), None))?;
    Ok(AuthClient::new(reqwest::Client::default(), manager))
}
/// Hands a page to the browser; where it is sent in the end.
async fn browse(page: String) -> Result<String, Failed> {
    let (sender, redirect) = oneshot::channel();
    state().redirects.insert(state_of(&page), sender);
    event("authorization-url", json!({ "url": page }));
    redirect.await.map_err(|_| Failed("auth", "no redirect came".to_owned(), None))
}
/// Gets a token with a scope more, which the SDK leaves to its user as well. Whether there is an authorization at all.
pub async fn step_up(session: &Session, scope: &str) -> Result<bool, Failed> {
    let Some(auth) = &session.auth else { return Ok(false) };
    let page = auth.auth_manager.lock().await.request_scope_upgrade(scope).await?;
    let told = AuthorizationCallback::from_redirect_url(&browse(page).await?)?;
    let manager = auth.auth_manager.lock().await;
    manager.exchange_code_for_token_with_issuer(&told.code, &told.csrf_token, told.issuer.as_deref()).await?;
    Ok(true)
}
pub fn state_of(url: &str) -> String {
    let url = reqwest::Url::parse(url).ok();
    url.and_then(|url| url.query_pairs().find(|(key, _)| key == "state").map(|(_, value)| value.into_owned()))
        .unwrap_or_default()
}

async fn within<T>(
    budget: Option<Duration>,
    serving: impl Future<Output = Result<T, ClientInitializeError>>,
) -> Result<T, Failed> {
    match budget {
        None => Ok(serving.await?),
        Some(budget) => Ok(tokio::time::timeout(budget, serving)
            .await
            .map_err(|_| Failed("timeout", "no handshake in time".to_owned(), None))??),
    }
}

pub async fn connect(name: &str, target: &Value, params: &Value) -> Result<Value, Failed> {
    let old = state().sessions.remove(name);
    if let Some(session) = old {
        disconnect(&session).await?;
    }
    let mut auth = None;
    let handler = || Handler(name.to_owned(), params.clone());
    let service = if target["transport"] == "stdio" {
        let mut command = tokio::process::Command::new(text(target, "command"));
        command
            .args(read::<Vec<String>>(target["args"].clone())?)
            .envs(read::<Option<BTreeMap<String, String>>>(target["env"].clone())?.unwrap_or_default());
        let child =
            TokioChildProcess::new(command).map_err(|error| Failed("start", error.to_string(), None))?;
        within(millis(params), handler().serve(child)).await?
    } else {
        let (url, mut headers) = (text(target, "url"), HashMap::new());
        for (name, value) in
            read::<Option<BTreeMap<String, String>>>(params["headers"].clone())?.unwrap_or_default()
        {
            let header = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
            headers.extend([header.ok_or_else(|| Failed("refused", "not an HTTP header".to_owned(), None))?]);
        }
        let fixed = headers.contains_key("authorization");
        let config = StreamableHttpClientTransportConfig::with_uri(url.clone()).custom_headers(headers);
        let transport = StreamableHttpClientTransport::from_config(config.clone());
        let serving = async { Ok(handler().serve(transport).await) };
        match within(millis(params), serving).await? {
            Err(error) if !fixed => {
                let challenge = error.auth_challenge().map(str::to_owned);
                let failed = Failed::from(error);
                if !matches!(failed.2, Some(401 | 403)) {
                    return Err(failed);
                }
                let client = auth.insert(authorize(&url, challenge, params).await?).clone();
                let transport = StreamableHttpClientTransport::with_client(client, config);
                within(millis(params), handler().serve(transport)).await?
            }
            served => served?,
        }
    };
    let peer = service.peer().clone();
    let info = peer.peer_info().ok_or_else(|| Failed("other", "no handshake".to_owned(), None))?;
    let mut told = plain(info)?;
    told["ok"] = json!(true);
    let session = Session {
        name: name.to_owned(),
        peer,
        service: Mutex::new(Some(service)),
        roots: !params["roots"].is_null(),
        auth,
    };
    state().sessions.insert(name.to_owned(), Arc::new(session));
    Ok(told)
}

pub async fn disconnect(session: &Session) -> Result<(), Failed> {
    state().sessions.remove(&session.name);
    let service = session.service.lock().unwrap_or_else(PoisonError::into_inner).take();
    match service {
        Some(service) => {
            service.cancel().await.map(drop).map_err(|error| Failed("other", error.to_string(), None))
        }
        None => Ok(()),
    }
}

pub fn millis(params: &Value) -> Option<Duration> {
    params["timeout_ms"].as_u64().map(Duration::from_millis)
}
