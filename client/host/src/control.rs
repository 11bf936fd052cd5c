//! What can be asked of a session, and done to it, besides calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What to look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Inspect {
    /// What the system prompt says of servers and tools: `{text}`.
    Prompt,
    /// What holds for a tool.
    Policy {
        /// Its composed name.
        tool: String,
    },
    /// All servers: a list of `{name, transport, state, tools, error, code}`.
    Status,
    /// The servers of the pool: a list of [`crate::pool::Instance`].
    Instances,
    /// The events of this session, and of the host as a whole, the oldest first: a list of
    /// [`crate::events::HostEvent`].
    Events,
    /// What the host's log says: warnings that belong to no session.
    Log,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Control {
    /// Starts a server by hand, whatever its state.
    Start {
        /// Its name.
        server: String,
    },
    /// Stops it.
    Stop {
        /// Its name.
        server: String,
    },
    /// Reads the tools of a server that is up again; of all of them if none is named.
    Refresh {
        /// Its name.
        #[serde(default)]
        server: Option<String>,
    },
    /// Makes the registry of tools anew: the model sees what has changed.
    Rebuild,
    /// Ends a server and starts it again; calls under way fail.
    Restart {
        /// Its name.
        server: String,
    },
    /// The next share of a server starts a fresh one; the old one serves its holders.
    Retire {
        /// Its name.
        server: String,
    },
    /// Begins the session anew, as closing and opening it does.
    Reopen,
    /// Starts what is started with the first run.
    Warmup,
    /// The user allows what is asked.
    Approve {
        /// The composed name of the tool; all that is asked if none is named.
        #[serde(default)]
        tool: Option<String>,
        /// And will not be asked again.
        #[serde(default)]
        always: bool,
    },
    /// The user forbids what is asked.
    Deny {
        /// The composed name of the tool; all that is asked if none is named.
        #[serde(default)]
        tool: Option<String>,
    },
    /// Changes a setting by its id.
    Set {
        /// Such as `timeouts.tool_s`.
        setting: String,
        /// As in the settings, as JSON.
        value: Value,
    },
}
