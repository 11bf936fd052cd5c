//! What all commands share: the host, its configuration, its connections.

use crate::args::Global;
use crate::failure::{Code, Failure};
use crate::output;
use crate::person::Person;
use futures_util::future::join_all;
use serde_json::Value;
use sparring_client::core::Event;
use sparring_client::{Connection, ListKind};
use sparring_host::config::{ConfigFiles, ConfigSource as _, Loaded};
use sparring_host::events::{EventSink, HostEvent, Trace};
use sparring_host::redact::{Redact, Redactor};
use sparring_host::{Host, ServerEntry, Session, SessionOptions, Surroundings};
use sparring_profiles::{Connect, EventName, Profile, Settings};
use std::sync::Arc;

/// A command's surroundings.
pub(crate) struct App {
    pub(crate) global: Global,
    pub(crate) settings: Settings,
    pub(crate) around: Surroundings,
    redact: Arc<dyn Redact>,
}

/// Warnings on stderr.
struct Aloud;

impl EventSink for Aloud {
    fn event(&self, event: &HostEvent) {
        if event.kind == EventName::Warn {
            let text = ["message", "text", "line"].iter().find_map(|name| event.fields.get(*name)?.as_str());
            let text = text.map_or_else(|| Value::Object(event.fields.clone()).to_string(), str::to_owned);
            output::note(&format!(
                "{}: {}",
                event.server.as_deref().unwrap_or("host"),
                output::one_line(&text)
            ));
        }
    }
}

impl App {
    pub(crate) fn new(global: Global) -> Result<Self, Failure> {
        let usage = |message: String| Failure::new(Code::Usage, message);
        let profile = Profile::load(&global.profile).map_err(|mistake| usage(mistake.to_string()))?;
        let mut settings = profile.settings();
        // A person asks for servers one by one.
        settings.startup.connect = Connect::FirstCall;
        // Signing in is a command of its own; all others end where a login is needed.
        settings.auth.interactive_start = false;
        if let Some(seconds) = global.timeout {
            settings.timeouts.startup_s = seconds;
            settings.timeouts.tool_s = seconds;
        }
        let around = Surroundings::of_process()
            .map_err(|error| usage(format!("the working directory can't be had: {error}")))?;
        let redact = Arc::new(Redactor::new(&settings.redaction));
        Ok(Self { global, settings, around, redact })
    }

    /// A text without what must not be seen.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.redact.clean(text)
    }

    /// The configuration.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        let files = ConfigFiles::new(&self.settings).import(self.global.import);
        let files = match &self.global.config {
            Some(file) => files.only(file),
            None => files,
        };
        let loaded = files.load(&self.around)?;
        for warning in &loaded.warnings {
            output::note(&format!("warning: {warning}"));
        }
        for entry in &loaded.entries {
            self.redact.learn(entry);
        }
        Ok(loaded)
    }

    /// A configured server.
    pub(crate) fn entry(&self, loaded: &Loaded, name: &str) -> Result<ServerEntry, Failure> {
        if let Some(entry) = loaded.entries.iter().find(|entry| entry.name == name) {
            return Ok(entry.clone());
        }
        if let Some(fault) = loaded.faults.iter().find(|fault| fault.server == name) {
            return Err(Failure::new(Code::Usage, fault.message.clone()));
        }
        let known = loaded.entries.iter().map(|entry| entry.name.as_str());
        let failure = Failure::new(Code::NotFound, format!("there is no server {name:?}"));
        Err(match nearest(name, known) {
            Some(near) => failure.hint(format!("did you mean {near:?}?")),
            None if loaded.entries.is_empty() => {
                failure.hint("none is configured yet; `sparring-client add --help` shows how")
            }
            None => failure.hint("`sparring-client list` shows the servers"),
        })
    }

    /// That server, or all that are switched on.
    pub(crate) fn chosen(&self, loaded: &Loaded, name: Option<&str>) -> Result<Vec<ServerEntry>, Failure> {
        match name {
            Some(name) => {
                let entry = self.entry(loaded, name)?;
                if !entry.is_on() {
                    return Err(Failure::new(Code::Usage, format!("{name:?} is switched off")));
                }
                Ok(vec![entry])
            }
            None => Ok(loaded.entries.iter().filter(|entry| entry.is_on()).cloned().collect()),
        }
    }

    /// A host with these servers; none is started yet.
    pub(crate) async fn open(&self, entries: Vec<ServerEntry>) -> Result<Open, Failure> {
        let mut builder = Host::builder(self.settings.clone(), self.around.clone()).entries(entries);
        if self.global.verbose {
            builder = builder.events(Arc::new(Aloud));
        }
        if let Some(file) = &self.global.trace {
            let trace = Trace::append(file)
                .map_err(|error| Failure::new(Code::Usage, format!("--trace {}: {error}", file.display())))?;
            builder = builder.events(Arc::new(trace));
        }
        let builder = builder.client(|client| client.callbacks(Arc::new(Person)));
        let host = Host::launch(builder).await?;
        match host.session(SessionOptions::default()).await {
            Ok(session) => Ok(Open { host, session, verbose: self.global.verbose }),
            Err(error) => {
                host.close().await;
                Err(error.into())
            }
        }
    }
}

/// The known word that is meant most likely.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = |known: &str| strsim::osa_distance(&word.to_lowercase(), &known.to_lowercase());
    let near = known.map(|known| (far(known), known)).min()?;
    (near.0 <= word.chars().count() / 3 + 1).then_some(near.1)
}

/// An open host.
pub(crate) struct Open {
    host: Host,
    pub(crate) session: Session,
    verbose: bool,
}

impl Open {
    /// The connection to a server, which is started if it is not there.
    pub(crate) async fn connect(&self, server: &str) -> Result<Connection, Failure> {
        let connection = self.session.connect(server).await?;
        if self.verbose {
            tokio::spawn(tell(connection.clone()));
        }
        Ok(connection)
    }

    /// All of these, at the same time.
    pub(crate) async fn connect_all(
        &self,
        entries: &[ServerEntry],
    ) -> Vec<(String, Result<Connection, Failure>)> {
        let connect = |entry: &ServerEntry| {
            let name = entry.name.clone();
            async move {
                let connected = self.connect(&name).await;
                (name, connected)
            }
        };
        join_all(entries.iter().map(connect)).await
    }

    pub(crate) async fn close(self) {
        self.session.close().await;
        self.host.close().await;
    }
}

/// Whether the server says that it has such.
pub(crate) fn has(connection: &Connection, capability: &str) -> bool {
    connection.negotiated().is_some_and(|n| !n.discovered || n.capabilities.contains_key(capability))
}

/// What a server reports beside its answers.
async fn tell(connection: Connection) {
    let server = connection.server().to_owned();
    let mut events = connection.events();
    drop(connection);
    while let Some(event) = events.next().await {
        let text = match event {
            Event::Log(params) => {
                let word =
                    |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                let data = match params.get("data") {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                format!("{} {}", word("level"), data)
            }
            Event::ListChanged(kind) => format!("the list of {} has changed", noun(kind)),
            Event::Refetched { kind, outcome: Ok(count) } => format!("there are {count} {} now", noun(kind)),
            Event::ResourceUpdated { uri } => format!("{uri} has changed"),
            Event::Skipped { reason, text } => format!("skipped: {reason}: {text}"),
            _ => continue,
        };
        output::note(&format!("{server}: {}", output::one_line(&text)));
    }
}

const fn noun(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => "tools",
        ListKind::Resources => "resources",
        ListKind::Templates => "resource templates",
        ListKind::Prompts => "prompts",
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_words_are_found() {
        let known = ["files", "web", "notes"];
        for (word, near) in [("file", Some("files")), ("Wbe", Some("web")), ("nothing", None), ("", None)] {
            assert_eq!(nearest(word, known.into_iter()), near, "{word}");
        }
    }
}
