//! Mock MCP servers for tests: a process of `sparring serve` behind a few methods. Copy this file.
//!
//! The program is the one that the environment variable `SPARRING` names, or that cargo has built beside the test, or
//! `sparring` on the PATH.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Whatever can go wrong.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("SPARRING") {
        return named.into();
    }
    let test = std::env::current_exe().unwrap_or_default();
    let beside = test.parent().and_then(|deps| deps.parent()).map(|folder| folder.join("sparring"));
    beside.filter(|program| program.is_file()).unwrap_or_else(|| "sparring".into())
}

/// A mock that is served by a process of its own. Dropping it ends it too.
#[derive(Debug)]
pub struct Server {
    process: Child,
    ready: Value,
    http: reqwest::Client,
    /// The script's file.
    _script: tempfile::NamedTempFile,
}

impl Server {
    /// A server at [`url`](Self::url); `script` is YAML.
    ///
    /// # Errors
    /// The program can't be started, or the script is wrong: what is wrong stands on stderr.
    pub async fn http(script: &str) -> Result<Self, Error> {
        Self::start(&["http"], script).await
    }

    /// A server that [`command`](Self::command) starts, any number of times.
    ///
    /// # Errors
    /// As [`http`](Self::http).
    pub async fn stdio(script: &str) -> Result<Self, Error> {
        Self::start(&["stdio", "--broker"], script).await
    }

    async fn start(transport: &[&str], script: &str) -> Result<Self, Error> {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile()?;
        std::fs::write(file.path(), script)?;
        let mut process = Command::new(program())
            .arg("serve")
            .args(transport)
            // It ends when its stdin does: also if this process is killed.
            .arg("--stop-with-stdin")
            .arg("--script")
            .arg(file.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| {
                format!("{} can't be started (cargo build -p sparring?): {e}", program().display())
            })?;
        let stdout = process.stdout.take().ok_or("its stdout is gone")?;
        let line = BufReader::new(stdout).lines().next_line().await?;
        let line = line.ok_or("the mock did not start")?;
        Ok(Self { process, ready: serde_json::from_str(&line)?, http: reqwest::Client::new(), _script: file })
    }

    /// Where an HTTP server is.
    pub fn url(&self) -> &str {
        self.ready["url"].as_str().unwrap_or_default()
    }

    /// Program and arguments of a stdio server.
    pub fn command(&self) -> Vec<&str> {
        self.ready["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Makes the server do something now, in the words of scripts: a list, as YAML.
    ///
    /// # Errors
    /// An action is wrong, or no process is there to do it.
    pub async fn act(&self, actions: &str) -> Result<Value, Error> {
        self.ask("/actions", actions.to_owned()).await
    }

    /// Waits for events, such as `{ request: tools/call }`, and returns them.
    ///
    /// # Errors
    /// They don't come within ten seconds.
    pub async fn wait(&self, pattern: &str, count: usize) -> Result<Vec<Value>, Error> {
        let answer = self.ask("/wait", format!("{{ pattern: {pattern}, count: {count} }}")).await?;
        let events = answer["events"].as_array().cloned().unwrap_or_default();
        if answer["matched"] == json!(true) {
            Ok(events)
        } else {
            Err(format!("{} of {count} events like {pattern}", events.len()).into())
        }
    }

    async fn ask(&self, path: &str, body: String) -> Result<Value, Error> {
        let control = &self.ready["control"];
        let url = format!("{}{path}", control["url"].as_str().unwrap_or_default());
        let asked = self.http.post(url).bearer_auth(control["token"].as_str().unwrap_or_default()).body(body);
        let answer = asked.send().await?;
        let (ok, text) = (answer.status().is_success(), answer.text().await?);
        if ok { Ok(serde_json::from_str(&text)?) } else { Err(text.into()) }
    }

    /// Ends it in peace.
    ///
    /// # Errors
    /// It ended with something else than 0.
    pub async fn stop(mut self) -> Result<(), Error> {
        drop(self.process.stdin.take());
        let status = self.process.wait().await?;
        if status.success() { Ok(()) } else { Err(format!("the mock ended with {status}").into()) }
    }
}
