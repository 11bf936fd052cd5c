//! What the exchanges of one connection share: where they go, with which header fields, and with whose authority.

use super::{
    Authorize, HttpClient, HttpError, HttpRequest, HttpResponse, HttpTarget, Pass, Purpose, Refusal,
};
use crate::error::Error;
use crate::link::{FromLink, Headers};
use crate::settings::HttpSettings;
use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};
use sparring_wire::{Id, Revision};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use url::Url;

/// What a server is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE of 2024-11-05.
    Legacy,
    /// Streamable HTTP, unless it refuses `initialize` and turns out to speak HTTP+SSE.
    Either,
}

/// What lives as long as one session.
#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) generation: u64,
    pub(super) id: OnceLock<String>,
    pub(super) revision: OnceLock<Revision>,
    /// Where messages are posted in HTTP+SSE, once the server has said so.
    pub(super) endpoint: OnceLock<String>,
    /// Whether `notifications/initialized` has been accepted, so that requests may follow it.
    pub(super) gate: watch::Sender<bool>,
    /// Whether the standalone stream is open, or will not be: until then what the server asks on it would be lost.
    pub(super) stream: watch::Sender<bool>,
}

impl SessionState {
    pub(super) fn new(generation: u64) -> Arc<Self> {
        Arc::new(Self {
            generation,
            id: OnceLock::new(),
            revision: OnceLock::new(),
            endpoint: OnceLock::new(),
            gate: watch::Sender::new(true),
            stream: watch::Sender::new(true),
        })
    }

    pub(super) async fn pass_gate(&self) {
        // The sender lives as long as this; an error is impossible.
        drop(self.gate.subscribe().wait_for(|open| *open).await);
    }

    /// Waits until a server that was asked for the standalone stream has answered, but no longer than this: some say
    /// nothing before they have something to say.
    pub(super) async fn pass_stream(&self, wait: Duration) {
        if *self.stream.borrow() {
            return;
        }
        drop(timeout(wait, self.stream.subscribe().wait_for(|open| *open)).await);
    }

    /// Whether the server speaks HTTP+SSE.
    pub(super) fn is_legacy(&self) -> bool {
        self.endpoint.get().is_some()
    }
}

pub(super) struct Shared {
    pub(super) server: Arc<str>,
    pub(super) target: HttpTarget,
    pub(super) speaks: Speaks,
    pub(super) offer: Revision,
    pub(super) client: Arc<dyn HttpClient>,
    pub(super) auth: Option<Arc<dyn Authorize>>,
    pub(super) settings: HttpSettings,
    /// Which credentials the latest request was made with, as a number that tells nothing about them.
    pub(super) credentials: Arc<AtomicU64>,
    pub(super) incoming: mpsc::Sender<FromLink>,
    /// Told when a request waits for a person, and when no longer.
    pub(super) holds: mpsc::UnboundedSender<(Id, bool)>,
}

/// One request to the server, and what it is about.
#[derive(Clone, Copy)]
pub(super) struct Exchange<'a> {
    pub(super) purpose: Purpose,
    /// The method of the message; `GET` for a stream.
    pub(super) method: &'a str,
    /// The id of the request, if it is or answers one.
    pub(super) id: Option<&'a Id>,
    /// Where to, if not to the target.
    pub(super) url: Option<&'a str>,
    /// Header fields of its own.
    pub(super) headers: &'a [(String, String)],
    pub(super) body: Option<&'a Bytes>,
}

impl Shared {
    pub(super) fn request(
        &self,
        session: &SessionState,
        purpose: Purpose,
        url: &str,
        own: &[(String, String)],
    ) -> HttpRequest {
        let mut headers: Headers = Vec::with_capacity(8 + own.len() + self.target.headers.len());
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
        let has_own_version = own.iter().any(|(name, _)| name.eq_ignore_ascii_case(VERSION));
        if let Some(revision) = session.revision.get()
            && revision.has_version_header()
            && !has_own_version
        {
            headers.push((VERSION.into(), revision.as_str().into()));
        }
        headers.extend(own.iter().cloned());
        headers.extend(self.target.headers.iter().cloned());
        let (server, method) = (Arc::clone(&self.server), method.to_owned());
        HttpRequest { server, purpose, method, url: url.to_owned(), headers, body: None }
    }

    /// Sends a request to the MCP endpoint, with the token, again after authorization, and after redirects that
    /// stay on the origin and keep method and body.
    pub(super) async fn exchange(
        &self,
        session: &SessionState,
        what: Exchange<'_>,
    ) -> Result<HttpResponse, Error> {
        self.exchange_at(session, what).await.map(|(response, _)| response)
    }

    /// Like [`Shared::exchange`]; says as well which URL has answered.
    pub(super) async fn exchange_at(
        &self,
        session: &SessionState,
        what: Exchange<'_>,
    ) -> Result<(HttpResponse, String), Error> {
        let mut url = what.url.unwrap_or(&self.target.url).to_owned();
        let (mut redirects, mut tries) = (0, 0);
        loop {
            let mut request = self.request(session, what.purpose, &url, what.headers);
            request.body = what.body.cloned();
            let pass = match &self.auth {
                Some(auth) => {
                    // Another request may be waiting for a person; then this one does as well.
                    let _hold = what.id.map(|id| Hold::new(&self.holds, id));
                    auth.pass(&request.method, &url).await
                }
                None => None,
            };
            if let Some(pass) = &pass {
                self.credentials.store(fingerprint(&pass.token), Ordering::Relaxed);
            }
            set_pass(&mut request.headers, pass.as_ref());
            let response = self.client.send(request).await.map_err(|error| match error {
                HttpError::Connect(why) if matches!(what.method, "initialize" | "server/discover") => {
                    Error::Start(format!("could not reach {url}: {why}"))
                }
                other => Error::Closed(format!("the request to {url} failed: {other}")),
            })?;
            if let (Some(auth), Some(nonce)) = (&self.auth, response.header("dpop-nonce")) {
                auth.learn(&url, nonce);
            }
            match (response.status, &self.auth) {
                (307 | 308, _) if redirects < self.settings.max_redirects => {
                    let base = Url::parse(&url).map_err(|e| Error::Start(e.to_string()))?;
                    let target = response.header("location").and_then(|to| base.join(to).ok());
                    match target.filter(|target| same_origin(&base, target)) {
                        Some(target) => url = target.into(),
                        None => return Ok((response, url)),
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
                        token: pass.as_ref().map(|pass| pass.token.as_str()),
                        operation: &operation(&what),
                        tries,
                        revision: session.revision.get().copied().unwrap_or(self.offer),
                        settled: session.revision.get().is_some(),
                    };
                    tries += 1;
                    let _hold = what.id.map(|id| Hold::new(&self.holds, id));
                    if !auth.react(refusal).await? {
                        return Ok((response, url));
                    }
                }
                _ => return Ok((response, url)),
            }
        }
    }

    pub(super) async fn report(&self, item: FromLink) {
        // The engine is gone only when the connection is.
        drop(self.incoming.send(item).await);
    }
}

/// What a request is for: its method, and the name of the tool or whatever else it names.
fn operation(what: &Exchange<'_>) -> String {
    let message: Option<Value> = what.body.and_then(|body| serde_json::from_slice(body).ok());
    let name = message.as_ref().and_then(|message| {
        let params = message.get("params")?;
        params.get("name").or_else(|| params.get("uri"))?.as_str()
    });
    name.map_or_else(|| what.method.to_owned(), |name| format!("{} {name}", what.method))
}

/// The header field that says which revision is spoken.
pub(super) const VERSION: &str = "MCP-Protocol-Version";

pub(super) fn set_pass(headers: &mut Headers, pass: Option<&Pass>) {
    let Some(Pass { token, proof }) = pass else { return };
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
    let scheme = if proof.is_some() { "DPoP" } else { "Bearer" };
    headers.push(("Authorization".into(), format!("{scheme} {token}")));
    headers.extend(proof.iter().map(|proof| ("DPoP".into(), proof.clone())));
}

/// Tells credentials apart.
fn fingerprint(token: &str) -> u64 {
    Sha256::digest(token).iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Whether scheme, host and port are the same.
pub(super) fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
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
