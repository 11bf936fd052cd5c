//! Opening: the host is launched, a session begins, and the servers are contacted.

use super::desk::list_of;
use super::setup::changed;
use super::{ClientSetup, Reference, Running, lock, refused};
use crate::dialect;
use crate::run::directory;
use serde_json::{Map, Value, json};
use sparring_client::{Connection, Event};
use sparring_host::config::ConfigFiles;
use sparring_host::disclosure::{DisclosureOptions, SearchMode};
use sparring_host::store::credentials::{FileCredentials, default_path};
use sparring_host::{Control, Host, HostError, Inspect, ServerEntry, Session, SessionOptions, Surroundings};
use sparring_profiles::{Connect, StoreKind};
use sparring_scenarios::op;
use sparring_wire::transcript::{Failure, FailureKind};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

impl Reference {
    pub(super) async fn open(&self, open: &op::Open) -> Result<Value, Failure> {
        let former = lock(&self.host).clone();
        let second = former.filter(|running| {
            open.agent.is_some() && running.sessions.iter().all(|(name, _)| *name != open.agent)
        });
        let running = match second {
            Some(running) => running,
            None => {
                self.close_all().await;
                self.launch(open).await?
            }
        };
        let host = running.host.clone();
        let options = SessionOptions {
            isolated: is_on(open, "session.isolated"),
            without_servers: is_on(open, "session.without_servers"),
            cwd: open.cwd.as_ref().map(|path| self.case.directory.join(path)),
            project: open.project.as_ref().map(|path| self.case.directory.join(path)),
            disclosure: DisclosureOptions {
                // Whoever wants to see tools deferred says so; all others call them as they are.
                mode: (!open.set.contains_key("session.disclosure")).then_some(SearchMode::Full),
                ..DisclosureOptions::default()
            },
            ..SessionOptions::default()
        };
        *lock(&self.host) = Some(running);
        let session = match host.session(options).await {
            Ok(session) => session,
            Err(error) => {
                let failure = self.failure(&error);
                self.close_all().await;
                return Err(failure);
            }
        };
        if let Some(running) = lock(&self.host).as_mut() {
            running.sessions.push((open.agent.clone(), session.clone()));
        }
        // There is no user who could say yes, unless the scenario is about that.
        let on = !open.set.contains_key("policy.auto_approve");
        session.control(Control::AutoApprove { on }).await.map_err(|error| self.failure(&error))?;
        for (setting, value) in &open.set {
            // The host has been told what is a field of the profile.
            if changed(&self.settings, setting, &value.0).is_none() {
                self.set(&session, setting, value.0.clone()).await?;
            }
        }
        if !open.idle {
            self.contact(&host, &session, open).await?;
        }
        self.report(&host, &session, open.idle).await
    }

    async fn launch(&self, open: &op::Open) -> Result<Running, Failure> {
        let mut settings = self.settings.clone();
        // What is no field of the profile is for the session.
        for (name, value) in &open.set {
            settings = changed(&settings, name, &value.0).unwrap_or(settings);
        }
        let mut setup = ClientSetup::new(
            settings,
            self.has_roots,
            self.case.revision,
            open,
            Arc::clone(&self.case.events),
        )
        .map_err(|e| refused(&e))?;
        if let Some(customise) = &self.customise {
            customise(&mut setup);
        }
        (*lock(&self.calls)).clone_from(&setup.calls);
        let surroundings = self.surroundings(open);
        if setup.host.auth.store == StoreKind::Keychain {
            // A test writes into nobody's keychain: a file of the case stands for it.
            let file = || FileCredentials::new(default_path(&surroundings.state), 0o600);
            setup.credentials.get_or_insert_with(|| Arc::new(file()));
        }
        let mut builder = Host::builder(setup.host.clone(), surroundings)
            .clock_scale(f64::from(self.case.clock_scale))
            .client(setup.client_hook());
        if !open.config {
            builder = builder.entries(self.entries(open)?);
        } else if is_on(open, "config.import") {
            let files = ConfigFiles::new(&setup.host).import(true);
            builder = builder.parts(move |mut parts| {
                parts.config = Arc::new(files);
                parts
            });
        }
        if let Some(predicate) = predicate(open) {
            builder = builder.parts(move |mut parts| {
                parts.predicate = Some(predicate);
                parts
            });
        }
        let host = Host::launch(builder.parts(setup.parts_hook())).await;
        let host = host.map_err(|error| error.failure(&self.settings.errors))?;
        Ok(Running { host, sessions: Vec::new() })
    }

    fn surroundings(&self, open: &op::Open) -> Surroundings {
        let case = &self.case.directory;
        let inside = |path: &String| case.join(path);
        let environment = directory::client_environment(std::env::vars_os(), case);
        let unicode = environment
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut env: BTreeMap<String, String> = unicode.collect();
        if open.config {
            env.extend(self.case.config_env.clone());
        }
        env.extend(open.env.clone());
        let home = env.get("HOME").map_or_else(|| directory::home(case), PathBuf::from);
        Surroundings {
            cwd: open.cwd.as_ref().map_or_else(|| case.clone(), inside),
            project: open.project.as_ref().map(inside),
            state: home.join(".local/state/sparring-client"),
            home,
            env,
        }
    }

    fn entries(&self, open: &op::Open) -> Result<Vec<ServerEntry>, Failure> {
        let plain = op::Entry::default();
        let chosen = dialect::chosen(&open.servers, &open.entries, &self.case.targets);
        let mut all: BTreeMap<&str, &op::Entry> = chosen.map(|(name, _)| (name.as_str(), &plain)).collect();
        all.extend(open.entries.iter().map(|(name, entry)| (name.as_str(), entry)));
        let entry = |(name, entry): (&str, &op::Entry)| {
            let mut members = dialect::members(name, entry, &self.case.targets)?;
            // Program and arguments are there by themselves, and a function is no configuration.
            members.remove("argv");
            members.remove("predicate");
            members.insert("name".to_owned(), Value::from(name));
            if members.contains_key("command") && members.contains_key("url") {
                // The host has to choose.
                members.remove("type");
            }
            let mut read: ServerEntry =
                serde_json::from_value(Value::Object(members)).map_err(|error| error.to_string())?;
            if read.url.is_some() {
                read.headers.extend(open.headers.clone());
            }
            Ok::<_, String>(read)
        };
        all.into_iter().map(entry).collect::<Result<_, _>>().map_err(|why| refused(&why))
    }

    /// Sees to it that the servers are contacted, as a user could who does not want to wait.
    async fn contact(&self, host: &Host, session: &Session, open: &op::Open) -> Result<(), Failure> {
        let settings = host.settings();
        match settings.startup.connect {
            Connect::Launch | Connect::Session => {}
            Connect::FirstRun => session.run().await.map_err(|error| self.failure(&error))?,
            Connect::FirstCall => {
                let names: Vec<String> = host.entries().iter().map(|entry| entry.name.clone()).collect();
                let starts = names.into_iter().map(|server| session.control(Control::Start { server }));
                // What came of it is in the status.
                drop(futures_util::future::join_all(starts).await);
            }
        }
        // Whoever wants to be connected, and has configured nothing, signs in where that is asked for.
        if open.entries.is_empty() && !open.config {
            for entry in host.entries().iter() {
                if let Some(HostError::NeedsLogin { .. }) = session.failure_of(&entry.name) {
                    // What came of it is in the status.
                    drop(session.login(&entry.name).await);
                }
            }
        }
        Ok(())
    }

    /// What came of an `open`, by server.
    async fn report(&self, host: &Host, session: &Session, idle: bool) -> Result<Value, Failure> {
        let status = session.inspect(Inspect::Status).await.map_err(|error| self.failure(&error))?;
        let (mut servers, mut first) = (Map::new(), None);
        for one in list_of(&status, "servers") {
            let name = one["name"].as_str().unwrap_or_default().to_owned();
            let failed = one.get("error").filter(|error| !error.is_null());
            let report = match (session.connection(&name), failed) {
                (Some(connection), _) => {
                    self.listen(&name, &connection);
                    opened(&connection)
                }
                (None, Some(_)) => {
                    // The status has it in words only.
                    let failure = match session.failure_of(&name) {
                        Some(error) => error.failure(&host.settings().errors),
                        None => Failure::new(FailureKind::Other, one["error"].as_str().unwrap_or_default()),
                    };
                    first.get_or_insert_with(|| failure.clone());
                    json!({ "ok": false, "error": failure })
                }
                // It is switched off, or not contacted yet.
                (None, None) => json!({ "ok": idle || one["state"] != "ready" }),
            };
            servers.insert(name, report);
        }
        match first {
            Some(failure) if !servers.values().any(|s| s["ok"] == true) => Err(failure),
            _ => Ok(json!({ "servers": servers })),
        }
    }

    /// Reports what reaches the client's caller by itself.
    fn listen(&self, server: &str, connection: &Connection) {
        let (server, mut events) = (server.to_owned(), connection.events());
        let report = Arc::clone(&self.case.events);
        lock(&self.listeners).spawn(async move {
            while let Some(event) = events.next().await {
                let (method, params) = match event {
                    Event::Notification { method, params } if params.is_null() => (method, json!({})),
                    Event::Notification { method, params } => (method, params),
                    // What follows from a notification was reported with it.
                    Event::ListChanged(_)
                    | Event::Log(_)
                    | Event::ResourceUpdated { .. }
                    | Event::ElicitationComplete { .. }
                    | Event::Progress { .. } => continue,
                    other => {
                        report.driver_event("log", json!({ "text": format!("{server}: {other:?}") }));
                        continue;
                    }
                };
                report.driver_event(
                    "notification",
                    json!({ "server": server, "method": method, "params": params }),
                );
            }
        });
    }
}

/// Whether `open` turns this setting on.
fn is_on(open: &op::Open, setting: &str) -> bool {
    open.set.get(setting).is_some_and(|value| value.0 == true)
}

/// What the `predicate`s of the entries say together.
fn predicate(open: &op::Open) -> Option<sparring_host::filter::ToolPredicate> {
    let chosen: HashMap<String, Vec<String>> = open
        .entries
        .iter()
        .filter_map(|(name, entry)| Some((name.clone(), entry.predicate.clone()?)))
        .collect();
    let decides = move |server: &str, tool: &sparring_client::Entry| {
        chosen.get(server).is_none_or(|tools| tools.contains(&tool.key))
    };
    open.entries.values().any(|entry| entry.predicate.is_some()).then(|| Arc::new(decides) as _)
}

fn opened(connection: &Connection) -> Value {
    let Some(negotiated) = connection.negotiated() else {
        return json!({ "ok": true });
    };
    let mut report = json!({
        "ok": true,
        "protocolVersion": negotiated.revision,
        "serverInfo": negotiated.server_info,
        "capabilities": negotiated.capabilities,
    });
    if let Some(instructions) = &negotiated.instructions {
        report["instructions"] = Value::from(instructions.as_str());
    }
    report
}
