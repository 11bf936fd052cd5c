//! What a host reports: events under the host's own names, and their trace.

use serde::Serialize;
use serde_json::{Map, Value};
use sparring_profiles::{EventName, EventsSettings};
use std::collections::VecDeque;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The number of a session, within its host.
pub type SessionId = u64;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostEvent {
    /// The host's name of it.
    pub name: String,
    /// What it is.
    pub kind: EventName,
    /// The server it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The session it is for; none if it is for the host as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The rest.
    pub fields: Map<String, Value>,
}

/// Takes events. Called where they happen, so it should be quick.
pub trait EventSink: Send + Sync {
    /// One event.
    fn event(&self, event: &HostEvent);
}

/// More events than are kept.
const KEPT: usize = 4096;

/// Keeps the latest events.
#[derive(Default)]
pub struct EventLog {
    events: Mutex<VecDeque<Arc<HostEvent>>>,
    count: watch::Sender<u64>,
}

impl EventLog {
    fn events(&self) -> MutexGuard<'_, VecDeque<Arc<HostEvent>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept, the oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<HostEvent>> {
        self.events().iter().cloned().collect()
    }

    /// Waits until an event for which `is_it` holds has happened, now or earlier.
    pub async fn wait(&self, is_it: impl Fn(&HostEvent) -> bool) -> Arc<HostEvent> {
        let mut count = self.count.subscribe();
        loop {
            count.borrow_and_update();
            let found = self.events().iter().find(|event| is_it(event)).cloned();
            if let Some(found) = found {
                return found;
            }
            if count.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl EventSink for EventLog {
    fn event(&self, event: &HostEvent) {
        let mut events = self.events();
        if events.len() >= KEPT {
            events.pop_front();
        }
        events.push_back(Arc::new(event.clone()));
        drop(events);
        self.count.send_modify(|count| *count += 1);
    }
}

/// Writes each event as a line of JSON. A file that can't be written to is given up silently: a trace must not stop
/// what it traces.
pub struct Trace {
    file: Mutex<Option<std::fs::File>>,
}

impl Trace {
    /// Appends to a file.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn append(path: &Path) -> std::io::Result<Self> {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file: Mutex::new(Some(file)) })
    }
}

impl EventSink for Trace {
    fn event(&self, event: &HostEvent) {
        let Ok(mut line) = serde_json::to_vec(event) else { return };
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // One write for each line, so that lines of several writers do not mix.
        if let Some(open) = file.as_mut()
            && open.write_all(&line).is_err()
        {
            *file = None;
        }
    }
}

/// Several sinks, in order.
pub struct Sinks(pub Vec<Arc<dyn EventSink>>);

impl EventSink for Sinks {
    fn event(&self, event: &HostEvent) {
        for sink in &self.0 {
            sink.event(event);
        }
    }
}

/// The host's name of an event; if it has none of its own, the profile's word for it.
#[must_use]
pub fn event_name(settings: &EventsSettings, kind: EventName) -> String {
    settings.names.get(&kind).cloned().unwrap_or_else(|| match serde_json::to_value(kind) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: u64) -> HostEvent {
        HostEvent {
            name: "mcp:connect".into(),
            kind: EventName::Connect,
            server: Some("s".into()),
            session: Some(n),
            fields: Map::new(),
        }
    }

    #[tokio::test]
    async fn the_log_is_bounded_and_can_be_waited_for() {
        let log = Arc::new(EventLog::default());
        let waiting = tokio::spawn({
            let log = Arc::clone(&log);
            async move { log.wait(|event| event.session == Some(5000)).await }
        });
        for n in 0..=5000 {
            log.event(&event(n));
        }
        assert_eq!(waiting.await.unwrap().session, Some(5000));
        assert_eq!((log.all().len(), log.all()[0].session), (KEPT, Some(5001 - KEPT as u64)));
    }

    #[test]
    fn names_are_the_hosts_and_the_trace_is_a_line_each() {
        let settings = sparring_profiles::Profile::load("zidane").unwrap().settings();
        assert_eq!(event_name(&settings.events, EventName::Started), "mcp:bootstrap:end");
        assert_eq!(event_name(&EventsSettings::default(), EventName::AuthUrl), "auth_url");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.ndjson");
        for n in 0..2 {
            Sinks(vec![Arc::new(Trace::append(&path).unwrap())]).event(&event(n));
        }
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), 2);
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(line["name"], "mcp:connect");
    }
}
