//! What all of a host's modules share.

use crate::auth::LoginDesk;
use crate::error::HostError;
use crate::events::{EventLog, EventSink as _, HostEvent, SessionId, event_name};
use crate::parts::HostParts;
use crate::policy::{Change, RuleBook, RuleFile, Scope};
use crate::redact::clean_json;
use crate::surroundings::Surroundings;
use serde_json::{Map, Value, json};
use sparring_client::{ClientBuilder, Eras};
use sparring_profiles::{EventName, Layer, Settings};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

/// Changes how clients are made.
pub(crate) type ClientHook = Arc<dyn Fn(ClientBuilder) -> ClientBuilder + Send + Sync>;

pub(crate) struct Context {
    settings: RwLock<Arc<Settings>>,
    pub(crate) surroundings: Surroundings,
    pub(crate) parts: HostParts,
    pub(crate) log: Arc<EventLog>,
    pub(crate) client: ClientHook,
    pub(crate) desk: Arc<LoginDesk>,
    /// What connections have shown about servers.
    pub(crate) eras: Arc<Eras>,
    rules: RwLock<RuleBook>,
    file: Option<RuleFile>,
    /// Warnings that were given once already.
    warned: Mutex<BTreeSet<String>>,
}

/// The project's file of servers that holds its rules too.
const RULES: &str = ".mcp.json";

impl Context {
    pub(crate) fn new(
        settings: Settings,
        surroundings: Surroundings,
        parts: HostParts,
        client: ClientHook,
    ) -> Arc<Self> {
        let mode = u32::from_str_radix(&settings.redaction.config_mode, 8).unwrap_or(0o600);
        let of_project = settings.policy.layers.contains(&Layer::Project);
        let project = surroundings.project_root(settings.config.project_root).filter(|_| of_project);
        Arc::new_cyclic(|own: &Weak<Self>| {
            let own = Weak::clone(own);
            let announce = Arc::new(move |server: &str, url: &str| {
                if let Some(own) = own.upgrade() {
                    own.emit(EventName::AuthUrl, Some(server), None, [("url".to_owned(), json!(url))]);
                }
            });
            Self {
                desk: Arc::new(LoginDesk::new(&settings.auth.login, parts.browser.clone(), announce)),
                settings: RwLock::new(Arc::new(settings)),
                surroundings,
                parts,
                log: Arc::default(),
                client,
                eras: Arc::default(),
                rules: RwLock::default(),
                file: project.map(|project| RuleFile::new(project.join(RULES), mode)),
                warned: Mutex::default(),
            }
        })
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace_settings(&self, settings: Settings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// The rules as they stand.
    pub(crate) fn rules(&self) -> RuleBook {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn change_rules<T>(&self, change: impl FnOnce(&mut RuleBook) -> T) -> T {
        change(&mut self.rules.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the project's rules.
    pub(crate) fn load_rules(&self) -> Result<(), HostError> {
        match &self.file {
            Some(file) => self.change_rules(|book| file.load(book)),
            None => Ok(()),
        }
    }

    /// Makes a change of rules, and writes it down where the project has a place for it.
    pub(crate) fn keep_rule(&self, change: &Change) -> Result<(), HostError> {
        self.change_rules(|book| book.change(change.clone()));
        self.save_rule(change)
    }

    /// Whether the project has a place where changes of its rules are written down.
    pub(crate) fn keeps_rules(&self) -> bool {
        self.file.is_some()
    }

    /// Writes a change of rules down where the project has a place for it.
    pub(crate) fn save_rule(&self, change: &Change) -> Result<(), HostError> {
        match &self.file {
            Some(file) if change.scope != Scope::App => file.save(change),
            _ => Ok(()),
        }
    }

    /// A warning for the host as a whole, once.
    pub(crate) fn warn_once(&self, message: &str) {
        if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(message.to_owned()) {
            self.emit(EventName::Warn, None, None, [("message".to_owned(), json!(message))]);
        }
    }

    pub(crate) fn emit(
        &self,
        kind: EventName,
        server: Option<&str>,
        session: Option<SessionId>,
        fields: impl IntoIterator<Item = (String, Value)>,
    ) {
        let fields = Value::Object(Map::from_iter(fields));
        // The address to sign in at is for the user, whole.
        let fields = match kind {
            EventName::AuthUrl => fields,
            _ => clean_json(fields, &|text: String| self.parts.redact.clean(&text)),
        };
        let event = HostEvent {
            name: event_name(&self.settings().events, kind),
            kind,
            server: server.map(str::to_owned),
            session,
            fields: match fields {
                Value::Object(fields) => fields,
                _ => Map::new(),
            },
        };
        self.log.event(&event);
        self.parts.events.event(&event);
    }
}
