//! The client: what it is made of, and how it comes to connections.

use crate::cached::Results;
use crate::completion::Completions;
use crate::connection::{Connection, Inner, refetch};
use crate::core::{Origin, Prior, Session};
use crate::engine::{Changed, Engine, Status};
use crate::eras::Eras;
use crate::error::Error;
use crate::http::{Authorize, HttpClient, HttpLink, HttpParts, HttpTarget, Speaks, SystemHttp};
use crate::link::Link;
use crate::oauth::{Authorizer, AuthorizerParts, Browser, CredentialStore, MemoryStore, NoBrowser};
use crate::seams::{
    Callbacks, Entropy, FollowCursors, ListPolicy, MessageFilter, NoCallbacks, SystemEntropy,
};
use crate::settings::{OauthSettings, Settings};
use crate::stdio::{Launcher, StdioLink, StdioTarget, SystemLauncher};
use sparring_wire::Transport;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// As a child process.
    Stdio(StdioTarget),
    /// Over Streamable HTTP, or over HTTP+SSE if the server turns out to know nothing else and
    /// [`HttpSettings::legacy_fallback`](crate::HttpSettings::legacy_fallback) allows it.
    Http(HttpTarget),
    /// Over HTTP+SSE of 2024-11-05; the URL is that of the event stream.
    Sse(HttpTarget),
}

/// Everything a client is made of.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) http: Option<Arc<dyn HttpClient>>,
    pub(crate) filter: Option<Arc<dyn MessageFilter>>,
    pub(crate) callbacks: Arc<dyn Callbacks>,
    pub(crate) lists: Arc<dyn ListPolicy>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) browser: Arc<dyn Browser>,
    pub(crate) credentials: Arc<dyn CredentialStore>,
    pub(crate) eras: Arc<Eras>,
}

/// Builds a [`Client`]: settings, and parts other than the default ones.
pub struct ClientBuilder {
    parts: Parts,
}

macro_rules! part {
    ($(#[$doc:meta])* $name:ident: $kind:ident) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, part: Arc<dyn $kind>) -> Self {
            self.parts.$name = part;
            self
        }
    };
}

impl ClientBuilder {
    part!(
        /// How stdio servers are started.
        launcher: Launcher
    );
    part!(
        /// Who answers what servers ask.
        callbacks: Callbacks
    );
    part!(
        /// How paginated lists are read.
        lists: ListPolicy
    );
    part!(
        /// Where randomness comes from.
        entropy: Entropy
    );
    part!(
        /// How authorization URLs are visited.
        browser: Browser
    );
    part!(
        /// Where tokens and registrations are kept.
        credentials: CredentialStore
    );

    /// How HTTP requests are made. Without it, each connection has a [`SystemHttp`] of its own.
    #[must_use]
    pub fn http(mut self, http: Arc<dyn HttpClient>) -> Self {
        self.parts.http = Some(http);
        self
    }

    /// Changes the settings that it was begun with. Lists are then read by default as these say.
    #[must_use]
    pub fn change(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.parts.settings);
        self.parts.lists = Arc::new(FollowCursors(self.parts.settings.pages));
        self
    }

    /// What is known of servers, and learnt; shared with other clients of the program.
    #[must_use]
    pub fn eras(mut self, eras: Arc<Eras>) -> Self {
        self.parts.eras = eras;
        self
    }

    /// What sees all messages on their way.
    #[must_use]
    pub fn filter(mut self, filter: Arc<dyn MessageFilter>) -> Self {
        self.parts.filter = Some(filter);
        self
    }

    /// The client.
    #[must_use]
    pub fn build(self) -> Client {
        Client { parts: Arc::new(self.parts) }
    }
}

/// Makes connections. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub(crate) parts: Arc<Parts>,
}

impl Client {
    /// A client with these settings and all default parts.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::builder(settings).build()
    }

    /// A client with other parts.
    #[must_use]
    pub fn builder(settings: Settings) -> ClientBuilder {
        let parts = Parts {
            launcher: Arc::new(SystemLauncher),
            http: None,
            filter: None,
            callbacks: Arc::new(NoCallbacks),
            lists: Arc::new(FollowCursors(settings.pages)),
            entropy: Arc::new(SystemEntropy),
            browser: Arc::new(NoBrowser),
            credentials: Arc::new(MemoryStore::default()),
            eras: Arc::default(),
            settings,
        };
        ClientBuilder { parts }
    }

    /// The settings it was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.parts.settings
    }

    /// Starts or reaches a server, shakes hands, and returns when requests can be made. Dropping the future gives
    /// the attempt up.
    ///
    /// # Errors
    /// [`Error::Start`] if the server can't be started or reached; otherwise whatever ended the handshake. By then
    /// the server is being shut down.
    pub async fn connect(&self, server: &str, target: &Target) -> Result<Connection, Error> {
        let (transport, site) = match target {
            Target::Stdio(target) => (Transport::Stdio, Some(Eras::program(&target.command, &target.args))),
            Target::Http(target) => (Transport::Http, Eras::site(&target.url)),
            Target::Sse(_) => (Transport::SseLegacy, None),
        };
        let prior = site.as_deref().and_then(|site| self.parts.eras.get(site));
        // A server that has worked before, and dies now, is not started a second time for one that shakes hands: starts
        // are counted by whoever asks for them.
        let knew_nothing = site.as_deref().is_none_or(|site| !self.parts.eras.has_met(site));
        // What was learnt before is not made younger by being used.
        let asked = !matches!(prior, Some(Prior::Discovered(_)));
        let (inner, started) = self.attempt(server, target, transport, prior).await?;
        let unasked = inner.status.borrow().unasked && transport == Transport::Stdio;
        let (inner, started) = if started.is_err() && unasked && knew_nothing {
            // Some servers end when they are asked anything before a handshake.
            self.attempt(server, target, transport, Some(Prior::Legacy)).await?
        } else {
            (inner, started)
        };
        if let Some(site) = site.as_deref().filter(|_| asked || started.is_err()) {
            let negotiated = inner.status.borrow().negotiated.clone();
            let negotiated = negotiated.as_deref().filter(|_| started.is_ok());
            self.parts.eras.learn(site, negotiated, transport);
        }
        started?;
        // Set once, before anybody else has the connection.
        drop(inner.site.set(site.unwrap_or_default()));
        tokio::spawn(refetch(Arc::downgrade(&inner), Arc::clone(&inner.changed), inner.status.clone()));
        Ok(Connection { inner })
    }

    /// One start of a server; the outcome of the handshake stands beside the connection.
    async fn attempt(
        &self,
        server: &str,
        target: &Target,
        transport: Transport,
        prior: Option<Prior>,
    ) -> Result<(Arc<Inner>, Result<(), Error>), Error> {
        let settings = &self.parts.settings;
        let server: Arc<str> = Arc::from(server);
        let credentials = Arc::new(AtomicU64::new(0));
        let mut origin =
            Origin { seed: [0; 32], unix: std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default() };
        self.parts.entropy.fill(&mut origin.seed);
        let (incoming_sender, incoming) = mpsc::channel(256);
        let (hold_sender, holds) = mpsc::unbounded_channel();
        let speaks = match target {
            Target::Sse(_) => Speaks::Legacy,
            _ if settings.http.legacy_fallback => Speaks::Either,
            _ => Speaks::Streamable,
        };
        let link = match target {
            Target::Stdio(target) => Link::Stdio(StdioLink::start(
                &*self.parts.launcher,
                &server,
                target,
                &settings.stdio,
                incoming_sender,
            )?),
            Target::Http(target) | Target::Sse(target) => {
                // One each, so that the end of the connection is the end of its sockets.
                let client = match &self.parts.http {
                    Some(client) => Arc::clone(client),
                    None => Arc::new(SystemHttp::new().map_err(|error| Error::Start(error.to_string()))?),
                };
                let auth = settings.oauth.as_ref().map(|oauth| {
                    Arc::new(self.authorizer(&server, target, oauth.clone(), &client)) as Arc<dyn Authorize>
                });
                Link::Http(HttpLink::new(HttpParts {
                    server: Arc::clone(&server),
                    target: target.clone(),
                    speaks,
                    offer: settings.offer,
                    client,
                    auth,
                    settings: settings.http.clone(),
                    credentials: Arc::clone(&credentials),
                    incoming: incoming_sender,
                    holds: hold_sender,
                })?)
            }
        };
        let (commands, command_receiver) = mpsc::unbounded_channel();
        let (events, _) = broadcast::channel(EVENTS);
        let changed = Arc::new(Changed::default());
        let results = Arc::new(Results::new(credentials));
        let (started, result) = oneshot::channel();
        let (status_sender, status) = watch::channel(Status::default());
        let engine = Engine {
            server: Arc::clone(&server),
            session: Session::new(settings).over(transport).knowing(prior).with_origin(origin),
            link,
            ends_with_session: !settings.http.reopen_session && settings.http.end_with_session,
            filter: self.parts.filter.clone(),
            callbacks: Arc::clone(&self.parts.callbacks),
            commands: command_receiver,
            incoming,
            holds,
            events: events.clone(),
            changed: Arc::clone(&changed),
            results: Arc::clone(&results),
            started: Some(started),
            status: status_sender,
        };
        let inner = Arc::new(Inner {
            server,
            parts: Arc::clone(&self.parts),
            commands,
            events,
            status,
            next_key: AtomicU64::new(0),
            completions: Completions::default(),
            lists: Mutex::default(),
            changed: Arc::clone(&changed),
            results,
            over_http: transport == Transport::Http,
            site: OnceLock::new(),
        });
        tokio::spawn(engine.run());
        let gone = || Error::Closed("the connection ended during the handshake".into());
        let started = result.await.unwrap_or_else(|_| Err(gone()));
        Ok((inner, started))
    }
}

impl Client {
    /// What authorizes requests to this server.
    pub(crate) fn authorizer(
        &self,
        server: &Arc<str>,
        target: &HttpTarget,
        settings: OauthSettings,
        http: &Arc<dyn HttpClient>,
    ) -> Authorizer {
        Authorizer::new(AuthorizerParts {
            server: Arc::clone(server),
            target: target.clone(),
            settings,
            client_name: self.parts.settings.name.clone(),
            http: Arc::clone(http),
            browser: Arc::clone(&self.parts.browser),
            entropy: Arc::clone(&self.parts.entropy),
            store: Arc::clone(&self.parts.credentials),
        })
    }
}

/// Events that a slow listener may lag behind before it loses the oldest.
const EVENTS: usize = 1024;
