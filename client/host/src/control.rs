//! What can be asked of a session, and done to it, besides calls.

use crate::disclosure::DisclosureOptions;
use crate::policy::{NameSet, Visible};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What to look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Inspect {
    /// What the model gets now: a [`crate::prompt::Prompt`].
    Prompt,
    /// What holds for a tool: `policy`, the members of its rule; `layer`; `decision` (`allow`, `ask`, `off`); and
    /// `withheld`, why the model does not have it.
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
    /// Calls that wait for the user: a list of [`crate::policy::Question`].
    Pending,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
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
    /// Begins a turn of the model.
    Run,
    /// Starts what is started with the first run, without one.
    Warmup,
    /// Turns of the conversation are replaced by a summary.
    Compact,
    /// The user allows what is asked.
    Approve {
        /// The composed name of the tool; the oldest question if none is named. If nobody asks, the answer is for the next
        /// question.
        #[serde(default)]
        tool: Option<String>,
        /// And will not be asked again.
        #[serde(default)]
        always: bool,
    },
    /// The user forbids what is asked.
    Deny {
        /// The composed name of the tool; the oldest question if none is named.
        #[serde(default)]
        tool: Option<String>,
        /// Why.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Whether calls are approved without asking from now on.
    AutoApprove {
        /// Whether they are.
        on: bool,
    },
    /// Changes rules of policy; see [`crate::policy::RuleBook::merge`]. They hold for this session; where the project's
    /// file has rules, they are written there, and hold for the project.
    Rules {
        /// The changes.
        rules: Value,
    },
    /// Refuses calls of these tools from now on, and of no others.
    Gate {
        /// Composed names or globs.
        names: NameSet,
    },
    /// Changes which tools the session has.
    Visible {
        /// Those it has.
        visible: Visible,
    },
    /// Changes what the model sees of its tools.
    Disclosure {
        /// What it sees.
        options: DisclosureOptions,
    },
    /// Changes a setting by its id.
    Set {
        /// Such as `timeouts.tool_s`.
        setting: String,
        /// As in the settings, as JSON.
        value: Value,
    },
}
