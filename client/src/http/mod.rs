//! The Streamable HTTP transport: each message a POST, answers as JSON or as streams.

mod client;
mod stream;

pub use client::{HttpBody, HttpClient, HttpError, HttpRequest, HttpResponse, Purpose, SystemHttp};

use crate::core::{Event, Headers};
use crate::error::Error;
use crate::link::FromLink;
use crate::settings::HttpSettings;
use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use sparring_wire::{Id, Revision};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use stream::Cursor;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use url::Url;

/// A server reached over Streamable HTTP.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HttpTarget {
    /// The MCP endpoint.
    pub url: String,
    /// Header fields sent with each request to it.
    pub headers: Vec<(String, String)>,
}

impl HttpTarget {
    /// An endpoint without extra header fields.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new() }
    }
}

impl std::fmt::Debug for HttpTarget {
    // Header values are often secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpTarget").field("url", &self.url).field("headers", &names).finish()
    }
}

/// Supplies and renews access tokens.
#[async_trait]
pub(crate) trait Authorize: Send + Sync {
    /// A token for this server, if there is one; refreshed if it is about to expire.
    async fn bearer(&self) -> Option<String>;

    /// Reacts to a 401 or 403. `Ok(true)`: send the request again; `Ok(false)`: not a matter of authorization.
    async fn react(&self, refusal: Refusal<'_>) -> Result<bool, Error>;
}

/// A 401 or 403.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal<'a> {
    pub(crate) status: u16,
    /// The values of `WWW-Authenticate`.
    pub(crate) challenges: &'a [String],
    /// The token that was refused.
    pub(crate) token: Option<&'a str>,
    /// What the request was for: step-ups are counted by it.
    pub(crate) operation: &'a str,
    /// How often this request has been sent again already.
    pub(crate) tries: u32,
    /// The revision spoken, or the one offered as long as that is open.
    pub(crate) revision: Revision,
    /// Whether the handshake has settled the revision.
    pub(crate) settled: bool,
}

/// What lives as long as one session.
#[derive(Debug)]
struct SessionState {
    generation: u64,
    id: OnceLock<String>,
    revision: OnceLock<Revision>,
    /// Whether `notifications/initialized` has been accepted, so that requests may follow it.
    gate: watch::Sender<bool>,
}

impl SessionState {
    fn new(generation: u64) -> Arc<Self> {
        Arc::new(Self {
            generation,
            id: OnceLock::new(),
            revision: OnceLock::new(),
            gate: watch::Sender::new(true),
        })
    }

    async fn pass_gate(&self) {
        // The sender lives as long as this; an error is impossible.
        drop(self.gate.subscribe().wait_for(|open| *open).await);
    }
}

struct Shared {
    server: Arc<str>,
    target: HttpTarget,
    offer: Revision,
    client: Arc<dyn HttpClient>,
    auth: Option<Arc<dyn Authorize>>,
    settings: HttpSettings,
    /// Which credentials the latest request was made with, as a number that tells nothing about them.
    credentials: Arc<AtomicU64>,
    incoming: mpsc::Sender<FromLink>,
    /// Told when a request waits for a person, and when no longer.
    holds: mpsc::UnboundedSender<(Id, bool)>,
}

/// The shell of one connection.
pub(crate) struct HttpLink {
    shared: Arc<Shared>,
    session: Arc<SessionState>,
    posts: HashMap<Id, AbortHandle>,
    /// When `posts` is swept the next time.
    sweep_at: usize,
    requests: JoinSet<()>,
    notices: JoinSet<()>,
    stream: JoinSet<()>,
}

/// Everything an [`HttpLink`] is made of.
pub(crate) struct HttpParts {
    pub(crate) server: Arc<str>,
    pub(crate) target: HttpTarget,
    pub(crate) offer: Revision,
    pub(crate) client: Arc<dyn HttpClient>,
    pub(crate) auth: Option<Arc<dyn Authorize>>,
    pub(crate) settings: HttpSettings,
    pub(crate) credentials: Arc<AtomicU64>,
    pub(crate) incoming: mpsc::Sender<FromLink>,
    pub(crate) holds: mpsc::UnboundedSender<(Id, bool)>,
}

impl HttpLink {
    pub(crate) fn new(parts: HttpParts) -> Result<Self, Error> {
        let HttpParts { server, target, offer, client, auth, settings, credentials, incoming, holds } = parts;
        let url = Url::parse(&target.url)
            .map_err(|error| Error::Start(format!("`{}` is not a URL: {error}", target.url)))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::Start(format!("`{}` is not an http URL", target.url)));
        }
        let shared =
            Arc::new(Shared { server, target, offer, client, auth, settings, credentials, incoming, holds });
        Ok(Self {
            shared,
            session: SessionState::new(1),
            posts: HashMap::new(),
            sweep_at: 64,
            requests: JoinSet::new(),
            notices: JoinSet::new(),
            stream: JoinSet::new(),
        })
    }

    /// Sends a message; `headers` are those that its revision asks for, beside the usual ones.
    pub(crate) fn send(&mut self, message: Value, headers: Headers) {
        while self.requests.try_join_next().is_some() {}
        while self.notices.try_join_next().is_some() {}
        if self.posts.len() >= self.sweep_at {
            self.posts.retain(|_, task| !task.is_finished());
            self.sweep_at = 64.max(2 * self.posts.len());
        }
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = message.get("id").and_then(Id::from_value).filter(|_| !method.is_empty());
        let initialized = method == "notifications/initialized";
        if initialized {
            self.session.gate.send_replace(false);
        }
        let post = Post {
            shared: Arc::clone(&self.shared),
            session: Arc::clone(&self.session),
            waits: !initialized && !method.is_empty(),
            method,
            id: id.clone(),
            headers,
            body: Bytes::from(message.to_string()),
        };
        match id {
            Some(id) => {
                let task = self.requests.spawn(post.request());
                self.posts.insert(id, task);
            }
            None => {
                self.notices.spawn(async move {
                    let session = Arc::clone(&post.session);
                    post.notice().await;
                    if initialized {
                        session.gate.send_replace(true);
                    }
                });
            }
        }
    }

    pub(crate) fn forget(&mut self, id: &Id) {
        if let Some(task) = self.posts.remove(id) {
            task.abort();
        }
    }

    pub(crate) fn ready(&self, revision: Revision) {
        // Set already only if the handshake was repeated within one session, which the core never does.
        let _ = self.session.revision.set(revision);
    }

    /// Opens the standalone stream.
    pub(crate) fn open_stream(&mut self) {
        let stateless = self.session.revision.get().is_some_and(|revision| revision.is_stateless());
        if self.shared.settings.open_stream && !stateless {
            self.stream.spawn(stream::standalone(Arc::clone(&self.shared), Arc::clone(&self.session)));
        }
    }

    pub(crate) fn reset(&mut self, generation: u64) -> bool {
        if generation != self.session.generation {
            return false;
        }
        self.stream.abort_all();
        self.session = SessionState::new(generation + 1);
        true
    }

    pub(crate) async fn close(mut self) {
        let wait = self.shared.settings.delete_wait;
        self.requests.abort_all();
        self.stream.abort_all();
        // Cancellations and answers that are on their way still arrive.
        drop(timeout(wait, async { while self.notices.join_next().await.is_some() {} }).await);
        self.notices.abort_all();
        if self.session.id.get().is_some() && self.shared.settings.delete_session {
            let mut request = self.shared.request(&self.session, Purpose::McpDelete, &self.shared.target.url);
            let delete = async {
                if let Some(auth) = &self.shared.auth {
                    set_bearer(&mut request.headers, auth.bearer().await.as_deref());
                }
                // 405 is an answer too: the server keeps its sessions.
                drop(self.shared.client.send(request).await);
            };
            drop(timeout(wait, delete).await);
        }
    }
}

fn set_bearer(headers: &mut Vec<(String, String)>, token: Option<&str>) {
    if let Some(token) = token {
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
        headers.push(("Authorization".into(), format!("Bearer {token}")));
    }
}

/// Tells credentials apart.
fn fingerprint(token: Option<&str>) -> u64 {
    let digest = Sha256::digest(token.unwrap_or_default());
    digest.iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Scheme, host and port.
fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

impl Shared {
    fn request(&self, session: &SessionState, purpose: Purpose, url: &str) -> HttpRequest {
        let mut headers = Vec::new();
        let method = match purpose {
            Purpose::McpPost => {
                headers.push(("Content-Type".into(), "application/json".into()));
                headers.push(("Accept".into(), "application/json, text/event-stream".into()));
                "POST"
            }
            Purpose::McpGet => {
                headers.push(("Accept".into(), "text/event-stream".into()));
                "GET"
            }
            _ => "DELETE",
        };
        if let Some(id) = session.id.get() {
            headers.push(("Mcp-Session-Id".into(), id.clone()));
        }
        if let Some(revision) = session.revision.get()
            && revision.has_version_header()
        {
            headers.push(("MCP-Protocol-Version".into(), revision.as_str().into()));
        }
        headers.extend(self.target.headers.iter().cloned());
        let (server, method) = (Arc::clone(&self.server), method.to_owned());
        HttpRequest { server, purpose, method, url: url.to_owned(), headers, body: None }
    }

    /// Sends a request to the MCP endpoint, with the token, again after authorization, and after redirects that
    /// stay on the origin and keep method and body.
    async fn exchange(&self, session: &SessionState, what: &Exchange<'_>) -> Result<HttpResponse, Error> {
        let mut url = self.target.url.clone();
        let (mut redirects, mut tries) = (0, 0);
        loop {
            let mut request = self.request(session, what.purpose, &url);
            request.body.clone_from(&what.body);
            for (name, value) in what.headers {
                request.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
                request.headers.push((name.clone(), value.clone()));
            }
            if let Some(last) = what.last_event_id {
                request.headers.push(("Last-Event-ID".into(), last.to_owned()));
            }
            let token = match &self.auth {
                Some(auth) => {
                    // Another request may be waiting for a person; then this one does as well.
                    let _hold = what.id.map(|id| Hold::new(&self.holds, id));
                    auth.bearer().await
                }
                None => None,
            };
            self.credentials.store(fingerprint(token.as_deref()), Ordering::Relaxed);
            set_bearer(&mut request.headers, token.as_deref());
            let response = self.client.send(request).await.map_err(|error| match error {
                HttpError::Connect(why) if what.method == "initialize" => {
                    Error::Start(format!("could not reach {url}: {why}"))
                }
                other => Error::Closed(format!("the request to {url} failed: {other}")),
            })?;
            match (response.status, &self.auth) {
                (307 | 308, _) if redirects < self.settings.max_redirects => {
                    let base = Url::parse(&url).map_err(|e| Error::Start(e.to_string()))?;
                    let target = response.header("location").and_then(|to| base.join(to).ok());
                    match target.filter(|target| same_origin(&base, target)) {
                        Some(target) => url = target.into(),
                        None => return Ok(response),
                    }
                    redirects += 1;
                }
                (status @ (401 | 403), Some(auth)) => {
                    let challenges: Vec<String> = response
                        .headers
                        .iter()
                        .filter(|(name, _)| name == "www-authenticate")
                        .map(|(_, value)| value.clone())
                        .collect();
                    let refusal = Refusal {
                        status,
                        challenges: &challenges,
                        token: token.as_deref(),
                        operation: what.operation,
                        tries,
                        revision: session.revision.get().copied().unwrap_or(self.offer),
                        settled: session.revision.get().is_some(),
                    };
                    tries += 1;
                    let _hold = what.id.map(|id| Hold::new(&self.holds, id));
                    if !auth.react(refusal).await? {
                        return Ok(response);
                    }
                }
                _ => return Ok(response),
            }
        }
    }

    async fn report(&self, item: FromLink) {
        // The engine is gone only when the connection is.
        drop(self.incoming.send(item).await);
    }
}

/// Tells the engine that a request waits for a person, as long as it lives.
struct Hold<'a> {
    holds: &'a mpsc::UnboundedSender<(Id, bool)>,
    id: &'a Id,
}

impl<'a> Hold<'a> {
    fn new(holds: &'a mpsc::UnboundedSender<(Id, bool)>, id: &'a Id) -> Self {
        drop(holds.send((id.clone(), true)));
        Self { holds, id }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        drop(self.holds.send((self.id.clone(), false)));
    }
}

struct Exchange<'a> {
    purpose: Purpose,
    method: &'a str,
    /// The method, and for a tool its name.
    operation: &'a str,
    id: Option<&'a Id>,
    /// Header fields of the message.
    headers: &'a [(String, String)],
    body: Option<Bytes>,
    last_event_id: Option<&'a str>,
}

struct Post {
    shared: Arc<Shared>,
    session: Arc<SessionState>,
    method: String,
    /// Whether it has to wait until `notifications/initialized` was accepted.
    waits: bool,
    id: Option<Id>,
    headers: Headers,
    body: Bytes,
}

/// Enough of an error body for a message.
const EXCERPT: usize = 64 << 10;

impl Post {
    async fn send(&self) -> Result<HttpResponse, Error> {
        if self.waits {
            self.session.pass_gate().await;
        }
        let exchange = Exchange {
            purpose: Purpose::McpPost,
            method: &self.method,
            operation: &self.method,
            id: self.id.as_ref(),
            headers: &self.headers,
            body: Some(self.body.clone()),
            last_event_id: None,
        };
        self.shared.exchange(&self.session, &exchange).await
    }

    fn lost_session(&self, response: &HttpResponse) -> bool {
        response.status == 404 && self.session.id.get().is_some() && self.shared.settings.reopen_session
    }

    /// A notification or a response: whatever comes back means nothing but its status.
    async fn notice(self) {
        let error = match self.send().await {
            Ok(response) if (200..300).contains(&response.status) => {
                // Read to the end, so that the connection can be used again.
                drop(response.read(EXCERPT).await);
                return;
            }
            Ok(response) if self.lost_session(&response) => {
                let lost = FromLink::SessionLost { generation: self.session.generation, id: None };
                return self.shared.report(lost).await;
            }
            Ok(response) => status_error(response).await,
            Err(error) => error,
        };
        self.shared.report(FromLink::Notice(Event::NotDelivered { error })).await;
    }

    async fn request(self) {
        let Some(id) = self.id.clone() else { return };
        if let Err(error) = self.answered(&id).await {
            self.shared.report(FromLink::Failed { id, error }).await;
        }
    }

    /// Brings the answer to the engine; the error is why there is none.
    async fn answered(&self, id: &Id) -> Result<(), Error> {
        let response = self.send().await?;
        if self.lost_session(&response) {
            let (generation, id) = (self.session.generation, Some(id.clone()));
            self.shared.report(FromLink::SessionLost { generation, id }).await;
            return Ok(());
        }
        if !(200..300).contains(&response.status) {
            let (id, status) = (id.clone(), response.status);
            let (error, body) = explain(response).await;
            self.shared.report(FromLink::Refused { id, status, body, error }).await;
            return Ok(());
        }
        if self.method == "initialize"
            && let Some(session) = response.header("mcp-session-id")
        {
            if session.is_empty() || !session.bytes().all(|b| (0x21..=0x7e).contains(&b)) {
                return Err(Error::Invalid(
                    "the session id holds other than visible ASCII characters".into(),
                ));
            }
            drop(self.session.id.set(session.to_owned()));
        }
        match response.media_type().as_str() {
            "application/json" => {
                let body = response.read(self.shared.settings.max_message).await;
                let body = body.map_err(|error| Error::Closed(format!("the response broke off: {error}")))?;
                let text = String::from_utf8_lossy(&body).into_owned();
                if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text) {
                    return Err(Error::Invalid(format!("the body of the response is not JSON: {error}")));
                }
                self.shared.report(FromLink::Message(text)).await;
                Err(Error::Invalid("the response to the POST holds no answer to its request".into()))
            }
            "text/event-stream" => {
                let mut cursor = Cursor::default();
                stream::answer(&self.shared, &self.session, response, id, &mut cursor).await
            }
            _ if response.status == 202 => {
                Err(Error::Invalid("a request was answered with 202 Accepted and no answer".into()))
            }
            other => Err(Error::Invalid(format!("a response of the content type {other:?} holds no answer"))),
        }
    }
}

/// What a failing status means.
async fn status_error(response: HttpResponse) -> Error {
    explain(response).await.0
}

/// What a failing status means, and the body if it is JSON.
async fn explain(response: HttpResponse) -> (Error, Option<Value>) {
    let status = response.status;
    let location = response.header("location").map(str::to_owned);
    let body = response.read(EXCERPT).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    let json: Option<Value> = serde_json::from_str(&body).ok();
    let error = json.as_ref().and_then(|b| b.get("error"));
    let stated = error.and_then(|e| e.get("message").and_then(Value::as_str).or_else(|| e.as_str()));
    let message = match (stated, location) {
        (Some(stated), _) => match error.and_then(|e| e.get("data")).filter(|d| !d.is_null()) {
            Some(data) => format!("{stated} ({data})"),
            None => stated.to_owned(),
        },
        (None, Some(location)) if (300..400).contains(&status) => {
            format!("the redirect to {location} is not followed")
        }
        (None, _) => match body.trim() {
            "" => "no further explanation".to_owned(),
            text => text.chars().take(200).collect(),
        },
    };
    let error = match status {
        401 => Error::Auth { message, status: Some(status) },
        _ => Error::Http { status, message },
    };
    (error, json)
}

/// As much of a message as tells whether it answers a request.
#[derive(Deserialize)]
struct Probe<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<serde::de::IgnoredAny>,
}

/// Whether the text is, or holds, an answer to the request.
fn answers(text: &str, id: &Id) -> bool {
    let wanted = id.to_string();
    let one =
        |probe: &Probe<'_>| probe.method.is_none() && probe.id.is_some_and(|found| found.get() == wanted);
    match text.trim_start().starts_with('[') {
        false => serde_json::from_str(text).is_ok_and(|probe| one(&probe)),
        true => serde_json::from_str::<Vec<Probe<'_>>>(text).is_ok_and(|batch| batch.iter().any(one)),
    }
}
