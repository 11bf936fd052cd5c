//! The tools that a session has at all.

use super::NameSet;
use crate::error::HostError;
use crate::model::ModelTool;
use serde::{Deserialize, Serialize};

/// Which of the host's tools a session has. Everything, if nothing is set; a tool that a server adds later is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Visible {
    /// Only these, by exact composed name or glob; `mcp` stands for all tools of servers.
    pub allowed: Option<NameSet>,
    /// Tools that are switched off, by composed name.
    pub tools_off: NameSet,
    /// Servers that are switched off in this session. They are not touched.
    pub servers_off: NameSet,
}

/// Why the model does not have a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Withheld {
    /// It is not among the allowed tools.
    NotAllowed,
    /// It, or its server, is switched off in this session.
    SwitchedOff,
    /// Its mode is `off`.
    Off,
    /// Only tools that are read-only are offered here.
    NotReadOnly,
}

impl Withheld {
    /// What a call of the tool gets.
    pub fn refusal(self, tool: &str) -> HostError {
        let denied = |why: &str| HostError::Denied { tool: tool.to_owned(), why: why.to_owned() };
        let disabled = |why: &str| HostError::Disabled(tool.to_owned(), why.to_owned());
        match self {
            Self::NotAllowed => denied("it is not among the allowed tools"),
            Self::NotReadOnly => denied("only read-only tools are offered here"),
            Self::SwitchedOff => disabled("by the filter of this session"),
            Self::Off => disabled("its mode is `off`"),
        }
    }
}

impl Visible {
    /// Why the session does not have the tool; `None` if it has it. `exempt`: the tool is there whatever is allowed.
    pub fn withheld(&self, tool: &ModelTool, exempt: bool) -> Option<Withheld> {
        let of_server = tool.server.is_some();
        let off = self.tools_off.contains(&tool.name, false)
            || tool.server.as_ref().is_some_and(|server| self.servers_off.contains(server, false));
        let allowed =
            exempt || self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&tool.name, of_server));
        match (off, allowed) {
            (true, _) => Some(Withheld::SwitchedOff),
            (false, false) => Some(Withheld::NotAllowed),
            (false, true) => None,
        }
    }
}
