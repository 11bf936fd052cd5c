//! A configured server, in no host's dialect.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A configured server. The members are the neutral names of `config.keys`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerEntry {
    /// Its name, which is the server's in composed names.
    pub name: String,
    /// The program of a stdio server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables of its environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of the host's variables that it gets besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_pass: Vec<String>,
    /// It gets `env` and nothing else.
    pub strict_env: bool,
    /// Its working directory, as configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The URL of a server that is reached over HTTP.
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
    /// The transport; inferred from `command` or `url` if missing.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Whether it is switched on; so it is if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether its failure ends the start.
    pub required: bool,
    /// Only these tools; all if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Not these tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
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
    pub disclosure: Option<sparring_profiles::Disclosure>,
    /// Tools as `tools/list` would give them, instead of asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supplied_tools: Option<Vec<Value>>,
    /// With supplied tools: connects with the first call only.
    pub lazy_connect: bool,
    /// Whether sessions share its process; they do if missing, where the host has a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
    /// OAuth: `"oauth"`, or an object with settings of the client (`client_id`, `client_secret`, `callback_port`,
    /// `scope`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Value>,
    /// Rules of policy for the server as a whole.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub policy: Map<String, Value>,
    /// Where it is from.
    #[serde(skip)]
    pub source: Source,
}

impl ServerEntry {
    /// How it is reached; without a `kind`, a URL beats a command. `None`: it says nothing of it.
    pub fn transport(&self) -> Option<Kind> {
        let inferred = self.url.as_ref().map(|_| Kind::Http);
        self.kind.or(inferred).or_else(|| self.command.as_ref().map(|_| Kind::Stdio))
    }

    /// Whether it is switched on.
    pub fn is_on(&self) -> bool {
        self.enabled != Some(false)
    }
}

impl std::fmt::Debug for ServerEntry {
    // Values of variables and headers are often secrets, and so are queries of URLs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerEntry")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys())
            .field("cwd", &self.cwd)
            .field("url", &self.url.as_ref().map(|url| url.split('?').next().unwrap_or_default().to_owned()))
            .field("headers", &self.headers.keys())
            .field("enabled", &self.enabled)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// As a child process.
    Stdio,
    /// Over Streamable HTTP.
    Http,
    /// Over HTTP+SSE of 2024-11-05.
    Sse,
}

/// Where an entry is from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The file; none for an entry that a program made.
    pub file: Option<PathBuf>,
    /// Whether it is the project's, and not the user's.
    pub project: bool,
}
