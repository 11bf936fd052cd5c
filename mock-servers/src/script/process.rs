//! How the process of a stdio server behaves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a stdio server's process behaves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessScript {
    /// Keep running when stdin ends.
    pub ignore_eof: bool,
    /// Keep running on SIGTERM.
    pub ignore_sigterm: bool,
    /// Start a child process of its own that holds no pipe of the client's, and report its process id.
    pub grandchild: bool,
    /// Let this much time pass before reading or writing anything, in milliseconds.
    pub start_delay_ms: u64,
}
