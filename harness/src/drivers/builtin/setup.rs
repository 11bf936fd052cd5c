//! What the reference client is made of in a case, so that a mutant can wrap or replace one thing.

use super::super::process::browse;
use crate::driver::DriverEvents;
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use sparring_client::core::{ElicitAnswer, Elicitation, RpcError, Sampling};
use sparring_client::http::SystemHttp;
use sparring_client::stdio::SystemLauncher;
use sparring_client::{
    Browser, CallOptions, Callbacks, ClientBuilder, CredentialStore, ElicitationCapability, Entropy,
    HttpClient, Launcher, ListPolicy, MessageFilter, RegisteredClient, Root, RootsCapability,
    SamplingCapability, SystemEntropy,
};
use sparring_host::HostParts;
use sparring_host::naming::Naming;
use sparring_host::parts::Backoff;
use sparring_profiles::Settings;
use sparring_scenarios::op;
use sparring_wire::Revision;
use std::sync::Arc;

/// Everything that the reference client is made of in a case. A mutant wraps or replaces one thing.
pub struct ClientSetup {
    /// What the host does: its profile, with what `open` asks for.
    pub host: Settings,
    /// Changes of what the protocol is told besides; see [`ClientSetup::client`].
    client: Vec<ClientChange>,
    /// Changes of the host's parts; see [`ClientSetup::parts`].
    parts: Vec<PartsChange>,
    /// Starts stdio servers.
    pub launcher: Arc<dyn Launcher>,
    /// Makes HTTP requests.
    pub http: Arc<dyn HttpClient>,
    /// Sees each message; none by default.
    pub filter: Option<Arc<dyn MessageFilter>>,
    /// Answers what servers ask.
    pub callbacks: Arc<dyn Callbacks>,
    /// Decides how lists are read on; none: as the settings say.
    pub lists: Option<Arc<dyn ListPolicy>>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Plays the browser.
    pub browser: Arc<dyn Browser>,
    /// Keeps tokens; none: as the settings say.
    pub credentials: Option<Arc<dyn CredentialStore>>,
    /// Names tools; none: as the settings say.
    pub naming: Option<Arc<dyn Naming>>,
    /// Waits before restarts; none: as the settings say.
    pub backoff: Option<Arc<dyn Backoff>>,
    /// Changes how calls of tools are made; none by default.
    pub calls: Option<CallHook>,
}

/// A change of the protocol's settings.
type ClientChange = Arc<dyn Fn(&mut sparring_client::Settings) + Send + Sync>;
/// A change of a host's parts.
type PartsChange = Box<dyn FnOnce(&mut HostParts) + Send>;

/// Sees the options of each call, and may change them.
pub type CallHook = Arc<dyn Fn(&mut CallOptions) + Send + Sync>;

/// Changes the reference client before a case.
pub type Customise = Arc<dyn Fn(&mut ClientSetup) + Send + Sync>;

impl ClientSetup {
    /// Changes what the protocol is told, after all that the host tells it.
    pub fn client(&mut self, change: impl Fn(&mut sparring_client::Settings) + Send + Sync + 'static) {
        self.client.push(Arc::new(change));
    }

    /// Changes the host's parts, after all that is replaced here.
    pub fn parts(&mut self, change: impl FnOnce(&mut HostParts) + Send + 'static) {
        self.parts.push(Box::new(change));
    }

    /// Gives a setting of the host another value, by its id, such as `restart.retry_call`. Nothing changes if there is
    /// no such setting or it does not take the value; the matrix shows that by a mutant that fails nothing.
    pub fn set(&mut self, setting: &str, value: &Value) {
        if let Some(changed) = changed(&self.host, setting, value) {
            self.host = changed;
        }
    }

    /// The client as `open` asks for it, of a host with these settings. `roots`: whether the host has roots of its own.
    pub(super) fn new(
        mut host: Settings,
        has_roots: bool,
        revision: Revision,
        open: &op::Open,
        events: Arc<dyn DriverEvents>,
    ) -> Result<Self, String> {
        if let Some(waits) = &open.backoff_ms {
            host.restart.backoff_s = waits.iter().map(|ms| seconds(*ms)).collect();
        }
        if let Some(offer) = open.offer {
            host.protocol.offers = offer;
        }
        if let Some(ms) = open.timeout_ms {
            host.timeouts.startup_s = seconds(ms);
        }
        // Against servers with a handshake it is judged as a client of their time, which probes for nothing.
        let stateless = Some(revision).filter(|revision| revision.is_stateless() && open.offer.is_none());
        let sampling = open.sampling.as_ref().map(|_| SamplingCapability { tools: false, context: false });
        let elicitation = open.elicitation.as_ref().map(|_| ElicitationCapability { form: true, url: false });
        let given = open.roots.as_deref().map(roots);
        let registered = open.client_id.as_ref().map(|id| RegisteredClient {
            issuer: None,
            id: id.clone(),
            secret: open.client_secret.clone(),
        });
        let (oauth, plain) = (host.auth.oauth, open.entries.is_empty() && !open.config);
        let mut setup = Self {
            host,
            client: Vec::new(),
            parts: Vec::new(),
            launcher: Arc::new(SystemLauncher),
            http: Arc::new(SystemHttp::new().map_err(|e| e.to_string())?),
            filter: None,
            callbacks: Arc::new(Scripted {
                sampling: open.sampling.as_ref().map(|s| s.0.clone()),
                elicitation: open.elicitation.as_ref().map(|e| e.0.clone()),
            }),
            lists: None,
            entropy: Arc::new(SystemEntropy),
            browser: Arc::new(HarnessBrowser { events }),
            credentials: None,
            naming: None,
            backoff: None,
            calls: None,
        };
        setup.client(move |settings| {
            settings.offer = stateless.unwrap_or(settings.offer);
            settings.declare.sampling = sampling;
            settings.declare.elicitation = elicitation;
            match &given {
                Some(roots) => {
                    settings.declare.roots = Some(RootsCapability { list_changed: true });
                    settings.roots.clone_from(roots);
                }
                None if !has_roots => {
                    settings.declare.roots = None;
                    settings.roots.clear();
                }
                None => {}
            }
            if let (true, Some(settings)) = (plain, &mut settings.oauth) {
                // A server that nothing more is said of is configured with OAuth on.
                settings.needs_metadata = false;
            }
            if let (true, Some(registered)) = (oauth, &registered) {
                settings.oauth.get_or_insert_default().registered.push(registered.clone());
            }
            if let Some(oauth) = settings.oauth.as_mut().filter(|_| revision <= Revision::V2025_03_26) {
                // Resource metadata are younger than that: who has such a server says that it uses OAuth.
                oauth.needs_metadata = false;
            }
        });
        Ok(setup)
    }

    /// What the host does to the clients that it makes.
    pub(super) fn client_hook(&self) -> impl Fn(ClientBuilder) -> ClientBuilder + Send + Sync + 'static {
        let changes = self.client.clone();
        let (http, callbacks, entropy) =
            (Arc::clone(&self.http), Arc::clone(&self.callbacks), Arc::clone(&self.entropy));
        let lists = self.lists.clone();
        move |builder| {
            let mut builder = builder.change(|settings| changes.iter().for_each(|change| change(settings)));
            builder = builder
                .http(Arc::clone(&http))
                .callbacks(Arc::clone(&callbacks))
                .entropy(Arc::clone(&entropy));
            match &lists {
                Some(lists) => builder.lists(Arc::clone(lists)),
                None => builder,
            }
        }
    }

    /// What it does to the host's parts.
    pub(super) fn parts_hook(self) -> impl FnOnce(HostParts) -> HostParts + Send + 'static {
        let Self { parts, launcher, filter, browser, credentials, naming, backoff, .. } = self;
        move |mut all| {
            all.launcher = launcher;
            all.filter = filter;
            all.browser = Some(browser);
            all.credentials = credentials.unwrap_or(all.credentials);
            all.naming = naming.unwrap_or(all.naming);
            all.backoff = backoff.unwrap_or(all.backoff);
            for change in parts {
                change(&mut all);
            }
            all
        }
    }
}

/// Settings with another value at a place; `None` if they don't take it.
pub(super) fn changed(settings: &Settings, setting: &str, value: &Value) -> Option<Settings> {
    let mut all = serde_json::to_value(settings).ok()?;
    let mut place = &mut all;
    let mut parts = setting.split('.').peekable();
    while let Some(part) = parts.next() {
        let members = place.as_object_mut()?;
        // A table of the profile's has members that may be missing; a section has not.
        place = match parts.peek() {
            None => members.entry(part).or_insert(Value::Null),
            Some(_) => members.get_mut(part)?,
        };
    }
    *place = value.clone();
    serde_json::from_value(all).ok()
}

fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}

pub(super) fn roots(uris: &[String]) -> Vec<Root> {
    uris.iter().map(|uri| Root { uri: uri.clone(), name: None }).collect()
}

/// Answers as the scenario says.
struct Scripted {
    sampling: Option<Value>,
    elicitation: Option<Value>,
}

#[async_trait]
impl Callbacks for Scripted {
    async fn sample(&self, _: &str, _: Sampling) -> Result<Value, RpcError> {
        self.sampling.clone().ok_or_else(RpcError::user_rejected)
    }

    async fn elicit(&self, _: &str, _: Elicitation) -> Result<ElicitAnswer, RpcError> {
        let answer = self.elicitation.as_ref();
        let content = || answer.and_then(|a| a.get("content")).and_then(Value::as_object);
        Ok(match answer.and_then(|a| a.get("action")).and_then(Value::as_str) {
            Some("accept") => ElicitAnswer::Accept(content().cloned().unwrap_or_else(Map::new)),
            Some("cancel") => ElicitAnswer::Cancel,
            _ => ElicitAnswer::Decline,
        })
    }
}

/// The browser that the harness plays.
struct HarnessBrowser {
    events: Arc<dyn DriverEvents>,
}

#[async_trait]
impl Browser for HarnessBrowser {
    async fn open(&self, server: &str, url: &str) -> Result<Option<String>, String> {
        self.events.driver_event("authorization-url", json!({ "server": server, "url": url }));
        let (events, url) = (Arc::clone(&self.events), url.to_owned());
        // In a task of its own: the client no longer waits once its listener was called, but the transcript does.
        let visit = tokio::spawn(async move { browse(&url, events.as_ref()).await });
        match visit.await {
            // The client's own listener has taken it.
            Ok(Ok(arrival)) if arrival.delivered => Ok(None),
            Ok(Ok(arrival)) => Ok(Some(arrival.url)),
            Ok(Err(lost)) => Err(lost.to_string()),
            Err(failed) => Err(failed.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparring_profiles::{ErrorCode, Trigger};

    #[test]
    fn settings_are_changed_by_their_ids() {
        let settings = Settings::default();
        let never = changed(&settings, "restart.trigger", &json!("never")).unwrap();
        assert_eq!(never.restart.trigger, Trigger::Never);
        let code = changed(&settings, "errors.codes.timeout", &json!("E")).unwrap();
        assert_eq!(code.errors.codes.get(&ErrorCode::Timeout).map(String::as_str), Some("E"));
        assert_eq!(changed(&settings, "restart.trigger", &json!("sometimes")), None);
        assert_eq!(changed(&settings, "restart.colour", &json!(1)), None);
        assert_eq!(changed(&settings, "nothing.at_all", &json!(1)), None);
    }
}
