//! How the harness makes the client under test do things.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sparring_scenarios::op::Op;
use sparring_wire::transcript::Outcome;
use sparring_wire::{Revision, Transport};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What a driver says about its client before anything else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Hello {
    /// The client's name.
    pub name: String,
    /// The client's version.
    pub version: String,
    /// The operations it has, see [`sparring_scenarios::op::OPERATIONS`].
    pub operations: Vec<String>,
    /// The transports it has.
    pub transports: Vec<Transport>,
    /// The revisions it speaks.
    pub revisions: Vec<Revision>,
    /// The features it has, see [`sparring_scenarios::op::FEATURES`].
    #[serde(default)]
    pub features: Vec<String>,
    /// All durations of the client are divided by this, always. With the feature `clock` it is the harness that says by
    /// how much.
    #[serde(default, rename = "clock_scale", skip_serializing_if = "Option::is_none")]
    pub clock_scale: Option<u32>,
}

/// Where a scripted server is to be found, as the driver is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Target {
    /// Spawn this, argument by argument, without a shell.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Environment to add.
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    /// Streamable HTTP at this URL.
    Http {
        /// The endpoint.
        url: String,
    },
    /// HTTP+SSE of 2024-11-05 at this URL.
    SseLegacy {
        /// Where the stream is opened.
        url: String,
    },
}

/// Takes what the driver reports by itself while operations run.
pub trait DriverEvents: Send + Sync {
    /// `name` is one of the event names of the driver protocol.
    fn driver_event(&self, name: &str, data: serde_json::Value);
    /// Text of the client under test that is no driver message: a line of its stderr, say.
    fn output(&self, stream: &str, text: &str);
    /// The client under test was started as a process.
    fn client_started(&self, pid: u32, argv: &[String]);
    /// The client's process ended.
    fn client_ended(&self, code: Option<i32>, signal: Option<&str>, expected: bool);
}

/// What a case gives to its driver.
#[derive(Clone)]
pub struct CaseContext {
    /// The servers by name.
    pub targets: BTreeMap<String, Target>,
    /// The case's revision: what its servers speak.
    pub revision: Revision,
    /// The case's own folder; it is the client's working directory and holds its HOME.
    pub directory: PathBuf,
    /// The name by which drivers of the official framework know the conversation.
    pub official_scenario: Option<String>,
    /// What the framework would tell them beside the name: an object, for scenarios that carry data.
    pub official_context: Option<serde_json::Value>,
    /// By how much a client with the feature `clock` divides its durations in this case; 1 leaves them as they are.
    pub clock_scale: u32,
    /// The folders that variables of the profile's `config.files` lead to: a host that reads configuration files gets
    /// them into its environment.
    pub config_env: BTreeMap<String, String>,
    /// Takes the driver's events.
    pub events: Arc<dyn DriverEvents>,
}

/// A driver: makes clients under test, one for each case.
#[async_trait]
pub trait Driver: Send + Sync {
    /// The word for reports: `builtin`, `adapter`, `official`, `in-process`.
    fn kind(&self) -> &'static str;
    /// The command, for drivers that start one.
    fn command(&self) -> Vec<String>;
    /// Whether it does a scenario's steps one by one. One that doesn't is asked once, to do the whole conversation:
    /// [`Subject::run`] is called with the step `client` and returns when the client has ended.
    fn drives_steps(&self) -> bool {
        true
    }
    /// Asks for the client's description. Called once, before the first case.
    ///
    /// # Errors
    /// The client can't be started, or does not speak the driver protocol.
    async fn hello(&self) -> Result<Hello, DriverError>;
    /// Starts a client for one case.
    ///
    /// # Errors
    /// The client can't be started.
    async fn start(&self, case: CaseContext) -> Result<Arc<dyn Subject>, DriverError>;
}

/// A client under test in one case. Operations may overlap.
#[async_trait]
pub trait Subject: Send + Sync {
    /// Does one operation. Every failure of the client is an [`Outcome`]; `Err` is for a driver that is gone or broke
    /// its protocol. `step` is the step's label; [`Op::Cancel`] names a running one by it. [`Op::Await`] never gets here.
    async fn run(&self, step: &str, op: &Op) -> Result<Outcome, DriverError>;
    /// Calls a tool `calls` times, one after the other, and says how long each call took for the caller, in nanoseconds
    /// on the client's own clock. For `sparring bench` only; `None` if the driver has no such operation.
    ///
    /// # Errors
    /// As of [`Subject::run`]; a call that fails makes the whole operation fail.
    async fn bench(
        &self,
        call: &sparring_scenarios::op::Call,
        calls: u32,
    ) -> Result<Option<Vec<u64>>, DriverError> {
        let _ = (call, calls);
        Ok(None)
    }
    /// Ends the client's process by a signal (`SIGTERM`…), or by closing its stdin (`exit`), and waits until it is gone.
    /// The next [`Op::Open`] starts a new one in the same folder. For drivers with the feature `process`.
    ///
    /// # Errors
    /// As of [`Subject::run`].
    async fn signal(&self, signal: &str) -> Result<Outcome, DriverError> {
        Ok(Outcome::Unsupported { reason: format!("the client is no process that {signal} could end") })
    }
    /// Ends the client, by force if need be, with all its processes. Returns the processes that had escaped it:
    /// process id and command line.
    async fn stop(&self) -> Vec<(u32, String)>;
}

/// A driver that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The command can't be started.
    #[error("can't start `{command}`: {why}")]
    Start {
        /// The program.
        command: String,
        /// The system's words.
        why: String,
    },
    /// It broke the driver protocol.
    #[error("the driver broke the driver protocol: {0}")]
    Protocol(String),
    /// The client's process ended while an operation ran.
    #[error("the client ended ({how})")]
    Ended {
        /// `exit code 1`, `SIGSEGV`…
        how: String,
        /// The last lines of its stderr.
        stderr: String,
    },
}
