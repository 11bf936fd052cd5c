//! The HTTP transports: Streamable HTTP, where each message is a POST and answers are JSON or streams, and HTTP+SSE of
//! 2024-11-05.

mod client;
mod legacy;
mod pool;
mod post;
mod session;
mod stream;
mod system;
#[cfg(feature = "tls")]
mod tls;

pub use client::{HttpBody, HttpClient, HttpError, HttpRequest, HttpResponse, Purpose};
pub(crate) use session::Speaks;
pub use system::SystemHttp;

use crate::error::Error;
use crate::link::{FromLink, Headers};
use crate::settings::HttpSettings;
use async_trait::async_trait;
use bytes::Bytes;
use post::Post;
use serde_json::Value;
use session::{SessionState, Shared, set_pass};
use sparring_wire::text::to_text;
use sparring_wire::{Id, Revision};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use url::Url;

/// A server reached over HTTP.
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
    /// What authorizes one request to this server, if there is anything; refreshed if it is about to expire.
    async fn pass(&self, method: &str, url: &str) -> Option<Pass>;

    /// Told of the nonce for proofs that came with a response from `url`.
    fn learn(&self, url: &str, nonce: &str);

    /// Reacts to a 401 or 403. `Ok(true)`: send the request again; `Ok(false)`: not a matter of authorization.
    async fn react(&self, refusal: Refusal<'_>) -> Result<bool, Error>;
}

/// What authorizes one request.
pub(crate) struct Pass {
    /// The access token.
    pub(crate) token: String,
    /// A proof that the sender has the token's key, if it is bound to one.
    pub(crate) proof: Option<String>,
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
    pub(crate) speaks: Speaks,
    pub(crate) offer: Revision,
    pub(crate) client: Arc<dyn HttpClient>,
    pub(crate) auth: Option<Arc<dyn Authorize>>,
    pub(crate) settings: HttpSettings,
    /// Which credentials the latest request was made with, as a number that tells nothing about them.
    pub(crate) credentials: Arc<AtomicU64>,
    pub(crate) incoming: mpsc::Sender<FromLink>,
    pub(crate) holds: mpsc::UnboundedSender<(Id, bool)>,
}

impl HttpLink {
    pub(crate) fn new(parts: HttpParts) -> Result<Self, Error> {
        let HttpParts { server, target, speaks, offer, client, auth, settings, credentials, incoming, holds } =
            parts;
        let url = Url::parse(&target.url)
            .map_err(|error| Error::Start(format!("`{}` is not a URL: {error}", target.url)))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::Start(format!("`{}` is not an http URL", target.url)));
        }
        let shared = Arc::new(Shared {
            server,
            target,
            speaks,
            offer,
            client,
            auth,
            settings,
            credentials,
            incoming,
            holds,
        });
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

    /// Sends a message, with the header fields that belong to it.
    pub(crate) fn send(&mut self, message: &Value, headers: Headers) {
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
        let version = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(session::VERSION));
        let post = Post {
            shared: Arc::clone(&self.shared),
            session: Arc::clone(&self.session),
            waits: !initialized && !method.is_empty(),
            method,
            id: id.clone(),
            stateless: version.is_some_and(|(_, v)| v.parse().is_ok_and(Revision::is_stateless)),
            headers,
            body: Bytes::from(to_text(message)),
        };
        match id {
            Some(id) => {
                let task = self.requests.spawn(post.request());
                self.posts.insert(id, task);
            }
            None => {
                self.notices.spawn(async move {
                    post.notice().await;
                    if initialized {
                        post.session.gate.send_replace(true);
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
        if self.shared.settings.open_stream && !stateless && !self.session.is_legacy() {
            self.session.stream.send_replace(false);
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
            let mut request =
                self.shared.request(&self.session, Purpose::McpDelete, &self.shared.target.url, &[]);
            let delete = async {
                if let Some(auth) = &self.shared.auth {
                    let pass = auth.pass(&request.method, &request.url).await;
                    set_pass(&mut request.headers, pass.as_ref());
                }
                // 405 is an answer too: the server keeps its sessions.
                drop(self.shared.client.send(request).await);
            };
            drop(timeout(wait, delete).await);
        }
    }
}
