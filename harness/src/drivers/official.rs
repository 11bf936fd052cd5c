//! The client-side contract of the official MCP conformance framework: a command that gets a server's URL as its last
//! argument and the scenario's name in the environment, does the whole conversation by itself, and ends.

use super::process::{ClientProcess, Ended, Launch, ProcessSettings, read_text, visitor};
use crate::driver::{CaseContext, Driver, DriverError, DriverEvents, Hello, Subject, Target};
use async_trait::async_trait;
use serde_json::{Value, json};
use sparring_scenarios::op::{FEATURES, OPERATIONS, Op};
use sparring_wire::transcript::{Failure, FailureKind, Outcome};
use sparring_wire::{Revision, Transport};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::process::ChildStdin;
use tokio::task::JoinHandle;

/// Lines of the client's stdout that become events.
const LIVE_LINES: u32 = 100;

/// Runs an official framework's client for each case. The steps of a scenario are not driven one by one: the client
/// knows by the scenario's name what to do. See [`Driver::drives_steps`].
#[derive(Debug, Clone)]
pub struct Official {
    command: Vec<String>,
    shell: bool,
    settings: ProcessSettings,
}

impl Official {
    /// The words of the command are joined by spaces, the URL is added, and a shell runs it, as the framework does;
    /// so shell syntax in it works, and a path with a space needs quotes of its own.
    pub const fn new(command: Vec<String>, settings: ProcessSettings) -> Self {
        Self { command, shell: true, settings }
    }

    /// Starts the program without a shell, the words being its arguments. A client that dies by a signal is then seen
    /// to do so; behind a shell that may be hidden.
    #[must_use]
    pub const fn without_shell(mut self) -> Self {
        self.shell = false;
        self
    }

    fn argv(&self, url: &str) -> Vec<String> {
        let with_url = self.command.iter().map(String::as_str).chain([url]);
        if !self.shell {
            return with_url.map(str::to_owned).collect();
        }
        let line = with_url.collect::<Vec<_>>().join(" ");
        let shell = if cfg!(windows) { ["cmd.exe", "/d", "/s", "/c"].as_slice() } else { &["/bin/sh", "-c"] };
        shell.iter().map(|word| (*word).to_owned()).chain([line]).collect()
    }
}

#[async_trait]
impl Driver for Official {
    fn kind(&self) -> &'static str {
        "official"
    }

    fn command(&self) -> Vec<String> {
        self.command.clone()
    }

    fn drives_steps(&self) -> bool {
        false
    }

    /// There is nothing to ask; the client is taken to be able to do whatever its scenarios need.
    async fn hello(&self) -> Result<Hello, DriverError> {
        let Some(program) = self.command.first().filter(|program| !program.trim().is_empty()) else {
            return Err(DriverError::Start { command: String::new(), why: "no command is given".into() });
        };
        let name =
            Path::new(program).file_name().map_or_else(|| program.clone(), |n| n.to_string_lossy().into());
        Ok(Hello {
            name,
            version: "unknown".to_owned(),
            operations: OPERATIONS.map(str::to_owned).to_vec(),
            transports: vec![Transport::Http],
            revisions: Revision::ALL.into_iter().filter(|r| r.has_transport(Transport::Http)).collect(),
            features: FEATURES.map(str::to_owned).to_vec(),
            clock_scale: None,
        })
    }

    async fn start(&self, case: CaseContext) -> Result<Arc<dyn Subject>, DriverError> {
        let unusable =
            |why: &str| DriverError::Start { command: self.command.join(" "), why: why.to_owned() };
        let scenario =
            case.official_scenario.ok_or_else(|| unusable("the official framework has no such scenario"))?;
        let mut urls = case.targets.values().filter_map(|target| match target {
            Target::Http { url } => Some(url),
            Target::Stdio { .. } | Target::SseLegacy { .. } => None,
        });
        let (Some(url), None) = (urls.next(), urls.next()) else {
            return Err(unusable("its contract has room for one server, over HTTP"));
        };
        let mut environment = BTreeMap::from([
            ("MCP_CONFORMANCE_SCENARIO".to_owned(), scenario.clone()),
            ("MCP_CONFORMANCE_PROTOCOL_VERSION".to_owned(), case.revision.to_string()),
        ]);
        if let Some(context) = case.official_context {
            environment.insert("MCP_CONFORMANCE_CONTEXT".to_owned(), named(&scenario, context).to_string());
        }
        let events = case.events;
        let opened = visitor(events.clone(), |_| {});
        let launch = Launch {
            command: &self.argv(url),
            client: &case.directory,
            // The contract says so: commands such as `npx tsx client.ts` are relative to where they are typed.
            working_directory: &self.settings.here,
            environment,
            events: events.clone(),
            opened: {
                let events = events.clone();
                Arc::new(move |url| {
                    events.driver_event("authorization-url", json!({"url": url, "via": "browser command"}));
                    opened(url);
                })
            },
        };
        let (process, stdin, stdout) = ClientProcess::start(&self.settings, launch).await?;
        // Its end is what it was started for; a signal is judged when it is seen.
        process.expect_end();
        let output = tokio::spawn(read_stdout(stdout, events));
        Ok(Arc::new(Running { process, _stdin: stdin, output: Mutex::new(Some(output)) }))
    }
}

/// The framework puts the scenario's name first, and the scenario's own keys beside it.
fn named(scenario: &str, context: Value) -> Value {
    let mut all = serde_json::Map::from_iter([("name".to_owned(), Value::from(scenario))]);
    if let Value::Object(keys) = context {
        all.extend(keys);
    }
    Value::Object(all)
}

async fn read_stdout(stdout: tokio::process::ChildStdout, events: Arc<dyn DriverEvents>) {
    let mut seen: u32 = 0;
    read_text(stdout, |line| {
        seen = seen.saturating_add(1);
        match seen {
            ..=LIVE_LINES => events.output("stdout", &line),
            101 => events.output("stdout", "(more of this is left out)"),
            _ => {}
        }
    })
    .await;
}

struct Running {
    process: ClientProcess,
    /// Open and never written to, as the contract has it.
    _stdin: ChildStdin,
    output: Mutex<Option<JoinHandle<()>>>,
}

#[async_trait]
impl Subject for Running {
    /// The whole run of the client: returns when it has ended, whatever the operation.
    async fn run(&self, _: &str, _: &Op) -> Result<Outcome, DriverError> {
        let ended = self.process.ended().await;
        match ended {
            Ended { code: Some(0), .. } => Ok(Outcome::Ok { value: json!({}) }),
            // A shell says 128 + n for a program that died by signal n.
            Ended { code: Some(code @ 1..=128), .. } => {
                let DriverError::Ended { how, stderr } = self.process.gone().await else {
                    return Ok(Outcome::Error { error: Failure::new(FailureKind::Other, ended.to_string()) });
                };
                let message = if stderr.is_empty() { how } else { format!("{how}: {stderr}") };
                Ok(Outcome::Error {
                    error: Failure { kind: FailureKind::Other, message, code: Some(code.into()) },
                })
            }
            _ => Err(self.process.gone().await),
        }
    }

    async fn stop(&self) -> Vec<(u32, String)> {
        let escaped = self.process.stop(false).await;
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(output) = output {
            // Nothing holds the pipe any more.
            let _ = tokio::time::timeout(std::time::Duration::from_secs(1), output).await;
        }
        escaped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_the_last_word_of_a_shell_command() {
        let settings = ProcessSettings {
            exe: "x".into(),
            temporary_root: "x".into(),
            here: "x".into(),
            hello_limit: std::time::Duration::ZERO,
            eof_grace: std::time::Duration::ZERO,
            term_grace: std::time::Duration::ZERO,
            linger_grace: std::time::Duration::ZERO,
        };
        let driver = Official::new(vec!["npx".into(), "tsx client.ts".into()], settings);
        #[cfg(unix)]
        assert_eq!(driver.argv("http://u"), ["/bin/sh", "-c", "npx tsx client.ts http://u"]);
        assert_eq!(driver.without_shell().argv("http://u"), ["npx", "tsx client.ts", "http://u"]);
    }

    #[test]
    fn the_context_starts_with_the_name() {
        let context = named("auth/pre-registration", json!({"client_id": "a", "client_secret": "b"}));
        assert_eq!(
            context.to_string(),
            r#"{"name":"auth/pre-registration","client_id":"a","client_secret":"b"}"#
        );
    }
}
