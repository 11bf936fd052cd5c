//! What all of a host's modules share.

use crate::Surroundings;
use crate::events::{EventLog, EventSink as _, HostEvent, SessionId, event_name};
use crate::parts::HostParts;
use serde_json::{Map, Value};
use sparring_client::ClientBuilder;
use sparring_profiles::{EventName, Settings};
use std::sync::{Arc, PoisonError, RwLock};

/// Changes how clients are made.
pub(crate) type ClientHook = Arc<dyn Fn(ClientBuilder) -> ClientBuilder + Send + Sync>;

pub(crate) struct Context {
    settings: RwLock<Arc<Settings>>,
    pub(crate) surroundings: Surroundings,
    pub(crate) parts: HostParts,
    pub(crate) log: Arc<EventLog>,
    pub(crate) client: ClientHook,
}

impl Context {
    pub(crate) fn new(
        settings: Settings,
        surroundings: Surroundings,
        parts: HostParts,
        client: ClientHook,
    ) -> Self {
        let log = Arc::new(EventLog::default());
        Self { settings: RwLock::new(Arc::new(settings)), surroundings, parts, log, client }
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace_settings(&self, settings: Settings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    pub(crate) fn emit(
        &self,
        kind: EventName,
        server: Option<&str>,
        session: Option<SessionId>,
        fields: impl IntoIterator<Item = (String, Value)>,
    ) {
        let event = HostEvent {
            name: event_name(&self.settings().events, kind),
            kind,
            server: server.map(str::to_owned),
            session,
            fields: Map::from_iter(fields),
        };
        self.log.event(&event);
        self.parts.events.event(&event);
    }
}
