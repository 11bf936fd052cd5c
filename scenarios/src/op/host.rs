//! Operations that hosts have and bare clients lack, and what a host is opened with.

use super::maybe_json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sparring_mock_servers::script::JsonText;
use std::collections::BTreeMap;

/// A server's entry in the configuration of a host: what is configured of it besides where it is. All members may be
/// left out; their names are the neutral ones of `config.keys` in host profiles.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Entry {
    /// Which of the scenario's servers it leads to; by default the one of the entry's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// A second server, whose URL or command stands in the entry beside that of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub also: Option<String>,
    /// The program instead of the server's, of which `{command}` may be a part. Of a server with a URL: a program that
    /// stands beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Arguments that follow the server's own, if it is a program. The first must not be a number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables of its environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of the host's variables that it gets besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_pass: Vec<String>,
    /// It gets `env` and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_env: Option<bool>,
    /// Its working directory, as the host's user would write it: absolute with `{case}`, or relative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The URL instead of the server's, of which `{url}` may be a part: `{url}?key=${KEY}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of each request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are in the host's variables: header to variable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header_env: BTreeMap<String, String>,
    /// The host's variable that holds a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer_env: Option<String>,
    /// Whether it is switched on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether its failure ends the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Only these tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Not these tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// The tools for which a function of the program says yes; all others are filtered out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicate: Option<Vec<String>>,
    /// Budget of the start, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_timeout: Option<f64>,
    /// Budget of a call, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_timeout: Option<f64>,
    /// Budgets of calls by the raw name of the tool, in seconds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub per_tool_timeout: BTreeMap<String, f64>,
    /// `full` or `lazy`, instead of the host's mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disclosure: Option<String>,
    /// Tools as `tools/list` would give them, instead of asking: a JSON array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supplied_tools: Option<JsonText>,
    /// With supplied tools: connects with the first call only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lazy_connect: Option<bool>,
    /// Whether sessions share its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
    /// OAuth: `"oauth"`, or an object with settings of the client (`client_id`, `client_secret`, `callback_port`,
    /// `scope`), as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<JsonText>,
    /// Rules of policy for the server as a whole: a JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<JsonText>,
}

impl Entry {
    /// The members as JSON under their neutral names, without what leads to the scenario's servers (`of`, `also`,
    /// `command`, `args`, `url`).
    pub fn neutral(&self) -> serde_json::Map<String, serde_json::Value> {
        let serde_json::Value::Object(mut members) = serde_json::to_value(self).unwrap_or_default() else {
            return serde_json::Map::new();
        };
        for own in ["of", "also", "command", "args", "url"] {
            members.remove(own);
        }
        for (name, json) in
            [("supplied_tools", &self.supplied_tools), ("auth", &self.auth), ("policy", &self.policy)]
        {
            if let Some(json) = json {
                members.insert(name.to_owned(), json.0.clone());
            }
        }
        members
    }
}

/// Arguments of [`Op::Inspect`](super::Op::Inspect).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inspect {
    /// What to look at.
    pub what: Inspected,
    /// `policy`: of this tool, by its raw name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Of this server, where only one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Of this agent; the first by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// What of a host can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Inspected {
    /// What the model would get now: `{"system": text that the host adds to the system prompt, "tools": [{"name",
    /// "description", "inputSchema"}]}`.
    Prompt,
    /// What holds for a tool: `{"policy": {…}, "layer"}`.
    Policy,
    /// The servers as the user sees them: `{"servers": [{"name", "state", "error"?, "tools"?, …}]}`.
    Status,
    /// The processes and connections there are: `{"instances": [{"server", "holders", "retired", …}]}`.
    Instances,
    /// What the host has reported so far: `{"events": [{"name", …}]}`, in order.
    Events,
    /// What the host has logged so far: `{"lines": [text]}`, in order.
    Log,
}

/// Arguments of [`Op::Control`](super::Op::Control).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// What to do.
    pub what: Controlled,
    /// The server, where one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// `approve`, `deny`: the raw name of the tool whose call waits; any by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// `approve`: for good, and not only this time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// `set`: the setting's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// `set`: its value, as JSON; `login`: how the code comes back, `"loopback"`, `"paste"` or `"forward"`.
    #[serde(default, deserialize_with = "maybe_json", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "JsonText")]
    pub value: Option<JsonText>,
    /// By this agent; the first by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// What a host can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Controlled {
    /// Start a server by hand.
    Start,
    /// Stop a server by hand.
    Stop,
    /// Read the servers' lists anew.
    Refresh,
    /// Make the registry of tools anew, from what is known.
    Rebuild,
    /// Stop a server and start it again.
    Restart,
    /// The configuration of a server has changed: who has it keeps it, others get a new one.
    Retire,
    /// A new session or chat on the same configuration, in place of this one.
    Reopen,
    /// A new run or turn in this session.
    Run,
    /// Turns of the conversation are replaced by a summary.
    Compact,
    /// Connect beforehand.
    Warmup,
    /// Say yes to the call that waits, or to the next that asks.
    Approve,
    /// Say no to it.
    Deny,
    /// Change a setting of the host, see `open.set`.
    Set,
    /// Sign in to a server, as its user would.
    Login,
    /// Forget the credentials of a server.
    Logout,
}
