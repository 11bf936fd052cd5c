//! The operations that a driver is asked to do. The same words stand in scenario files (`drive:`), in the driver
//! protocol and in the in-process trait.

mod host;
mod own;

pub use host::{Control, Controlled, Entry, Inspect, Inspected};
pub use own::{Configure, Disk, Signal, Write, extension, usual_shape};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sparring_mock_servers::script::JsonText;
use sparring_wire::Revision;
use std::collections::BTreeMap;

/// An operation, with its arguments as a scenario gives them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "they are few, and boxed where they are kept")]
pub enum Op {
    /// Connect to servers. Returns `{"servers": {name: {"ok": bool, "protocolVersion", "serverInfo", "capabilities",
    /// "instructions", "error": {"kind", "message"}}}}`; fails if no server could be opened.
    Open(Open),
    /// The tools of all servers, or of one. Returns `{"tools": [{"name", "server", "rawName", "title", "description",
    /// "inputSchema", "outputSchema"}]}`; `name` is what [`Op::Call`] takes.
    Tools(Of),
    /// Call a tool. Returns the result as the caller gets it: `{"content": […], "isError", "structuredContent"}`.
    Call(Call),
    /// Cancel a step that runs in the background. Returns `{}`.
    Cancel(Cancel),
    /// Wait until a step that runs in the background has ended. Its outcome is that step's.
    Await(StepRef),
    /// The resources. Returns `{"resources": [{"uri", "name", "mimeType", "server"}]}`.
    Resources(Of),
    /// The resource templates. Returns `{"resourceTemplates": […]}`.
    Templates(Of),
    /// Read a resource. Returns `{"contents": […]}`.
    Read(Read),
    /// Subscribe to a resource. Returns `{}`.
    Subscribe(Read),
    /// End a subscription. Returns `{}`.
    Unsubscribe(Read),
    /// The prompts. Returns `{"prompts": […]}`.
    Prompts(Of),
    /// Get a prompt. Returns `{"messages": […], "description"}`.
    Prompt(Prompt),
    /// Ask for completions. Returns `{"completion": {"values": […]}}`.
    Complete(Complete),
    /// Set the level of log messages. Returns `{}`.
    SetLevel(SetLevel),
    /// Ping the server. Returns `{}`.
    Ping(Of),
    /// Replace the roots and tell the servers. Returns `{}`.
    SetRoots(SetRoots),
    /// Close the connections, of one server or of all. Returns `{}`.
    Close(Of),
    /// Look at a host from inside. Returns what [`Inspected`] says.
    Inspect(Inspect),
    /// Tell a host what its user or its program would. Returns `{}`, or more if the host has more to say.
    Control(Control),
    /// Write files into the case's folder. The harness does it by itself.
    Write(Write),
    /// Write a configuration file in the dialect of the client's profile. The harness does it by itself. Its outcome is
    /// `{"path"}`, from the case's folder.
    Configure(Configure),
    /// Look at files of the case's folder. The harness does it by itself. Its outcome is `{"exists": bool, "kind":
    /// "file", "folder" or "link", "mode": octal, "text", "json", "contains"?: bool}`; of a folder it has `"files":
    /// [{"path", "kind", "mode", "size", "contains"?}]`, with all that is below it.
    Disk(Disk),
    /// End the client's process by a signal, and wait until it is gone; the next `open` starts a new one in the same
    /// folder (feature `process`). The harness does it by itself.
    Signal(Signal),
}

impl Op {
    /// The operation's name, as in scenario files, the driver protocol and [`OPERATIONS`].
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Tools(_) => "tools",
            Self::Call(_) => "call",
            Self::Cancel(_) => "cancel",
            Self::Await(_) => "await",
            Self::Resources(_) => "resources",
            Self::Templates(_) => "templates",
            Self::Read(_) => "read",
            Self::Subscribe(_) => "subscribe",
            Self::Unsubscribe(_) => "unsubscribe",
            Self::Prompts(_) => "prompts",
            Self::Prompt(_) => "prompt",
            Self::Complete(_) => "complete",
            Self::SetLevel(_) => "set_level",
            Self::Ping(_) => "ping",
            Self::SetRoots(_) => "set_roots",
            Self::Close(_) => "close",
            Self::Inspect(_) => "inspect",
            Self::Control(_) => "control",
            Self::Write(_) => "write",
            Self::Configure(_) => "configure",
            Self::Disk(_) => "disk",
            Self::Signal(_) => "signal",
        }
    }

    /// Whether the harness does it by itself, so that no driver declares it.
    pub const fn is_harness_own(&self) -> bool {
        matches!(self, Self::Await(_) | Self::Write(_) | Self::Configure(_) | Self::Disk(_) | Self::Signal(_))
    }
}

/// The names of all operations that a driver can declare. `await`, `write`, `configure`, `disk` and `signal` are the
/// harness's own and need no declaration.
pub const OPERATIONS: [&str; 18] = [
    "open",
    "tools",
    "call",
    "cancel",
    "resources",
    "templates",
    "read",
    "subscribe",
    "unsubscribe",
    "prompts",
    "prompt",
    "complete",
    "set_level",
    "ping",
    "set_roots",
    "close",
    "inspect",
    "control",
];

/// Features that a driver can declare besides operations; scenarios name them in `where.needs`.
///
/// - `sampling`, `elicitation`, `roots`: the client answers such requests as [`Open`] says;
/// - `oauth`: it authorizes with OAuth, the harness playing the browser;
/// - `progress`: it reports progress of calls as driver events;
/// - `notifications`: it reports notifications that reach its caller (list changes, log messages) as driver events;
/// - `several-servers`: one `open` can connect to more than one server;
/// - `call-timeout`: it honours `timeout_ms` of a call;
/// - `restart`: it brings a stdio server back that ended;
/// - `headers`: it sends configured HTTP headers;
/// - `entries`: it takes the members of servers' entries (`entries` of [`Open`]);
/// - `surroundings`: it takes a working directory, a project and variables of its own (`cwd`, `project`, `env`);
/// - `settings`: it takes settings of the host (`set`);
/// - `config`: it reads its servers from configuration files (`config`);
/// - `agents`: one host can have several agents, or sessions (`agent`);
/// - `clock`: it divides all its durations by the `clock_scale` that `open` asks for;
/// - `idle`: its `open` can leave servers alone (`idle`);
/// - `process`: signals to its process reach the client, and it can be started again in the same folder.
pub const FEATURES: [&str; 18] = [
    "sampling",
    "elicitation",
    "roots",
    "oauth",
    "progress",
    "notifications",
    "several-servers",
    "call-timeout",
    "restart",
    "headers",
    "entries",
    "surroundings",
    "settings",
    "config",
    "agents",
    "clock",
    "idle",
    "process",
];

/// Arguments of [`Op::Open`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Open {
    /// Which of the scenario's servers; all by default, and if there are `entries`, only these.
    pub servers: Vec<String>,
    /// How the client answers `sampling/createMessage`: the result, as JSON. Absent: the capability is not declared.
    pub sampling: Option<JsonText>,
    /// How it answers `elicitation/create`: the result, as JSON. Absent: not declared.
    pub elicitation: Option<JsonText>,
    /// The roots, as URIs. Absent: not declared.
    pub roots: Option<Vec<String>>,
    /// The revision to offer, if the client can choose; by default its newest.
    pub offer: Option<Revision>,
    /// Time budget of the handshake, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Waits before each attempt to restart a stdio server, in milliseconds (feature `restart`, if settable).
    pub backoff_ms: Option<Vec<u64>>,
    /// HTTP headers to send with each request (feature `headers`).
    pub headers: BTreeMap<String, String>,
    /// A client that is registered with the authorization server beforehand (feature `oauth`).
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// How it is registered to authenticate (`client_secret_basic`, `client_secret_post`), for clients that are to be
    /// told; by default `client_secret_basic` if there is a secret.
    pub client_authentication: Option<String>,
    /// What is configured of servers besides where they are, by the names of their entries (feature `entries`). An
    /// entry whose name is no server's is one more, and says in `of` where it leads.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entries: BTreeMap<String, Entry>,
    /// The servers stand in configuration files, which `configure` has written before, and the host reads them by itself
    /// (feature `config`). The host is told of no server.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub config: bool,
    /// The host's working directory: a path in the case's folder, which it is itself by default (feature
    /// `surroundings`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The project that the host is opened on: a path in the case's folder. By default none is given, and the host finds
    /// out by itself (feature `surroundings`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Variables of the host's own environment, besides those that it has anyway (feature `surroundings`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Settings of the host by name, each as JSON in quotes (feature `settings`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, JsonText>,
    /// Only launch the host and open the session: servers are contacted when the host does that by itself. By default
    /// `open` sees to it that they are, as its user could: with a first run, or by starting them by hand (feature
    /// `idle`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// The name of the agent or session that is opened. A second one with another name lives in the same host
    /// (feature `agents`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// JSON that may be missing.
fn maybe_json<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<JsonText>, D::Error> {
    JsonText::deserialize(deserializer).map(Some)
}

/// A server, or all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Of {
    /// The server's name in the scenario; all by default.
    pub server: Option<String>,
    /// By this agent; the first by default (feature `agents`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// Arguments of [`Op::Call`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool's raw name, as its server gives it. The harness looks the composed name up in the last `tools`
    /// result where the driver has composed names.
    #[serde(default)]
    pub tool: String,
    /// The name that the model would use, instead of `tool`: an alias, a tool of the host's own, one that does not
    /// exist. Exactly one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The server, where more than one has such a tool.
    #[serde(default)]
    pub server: Option<String>,
    /// Its arguments; a JSON object. None by default.
    #[serde(default)]
    pub arguments: Option<JsonText>,
    /// Time budget, in milliseconds (feature `call-timeout`). The client's own by default.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Ask for progress (feature `progress`).
    #[serde(default)]
    pub progress: bool,
    /// By this agent; the first by default (feature `agents`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// Arguments of [`Op::Cancel`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// The label of the step to cancel.
    pub step: String,
    /// The reason to give.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A step by its label.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepRef {
    /// The label.
    pub step: String,
}

/// Arguments of [`Op::Read`], [`Op::Subscribe`] and [`Op::Unsubscribe`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The resource's URI.
    pub uri: String,
    /// The server, where there is more than one.
    #[serde(default)]
    pub server: Option<String>,
}

/// Arguments of [`Op::Prompt`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// The prompt's name.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
    /// The server, where there is more than one.
    #[serde(default)]
    pub server: Option<String>,
}

/// Arguments of [`Op::Complete`]. Exactly one of `prompt` and `template`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// Complete an argument of this prompt.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Complete a variable of this resource template.
    #[serde(default)]
    pub template: Option<String>,
    /// The argument's name.
    pub argument: String,
    /// What has been typed of it.
    pub value: String,
    /// The server, where there is more than one.
    #[serde(default)]
    pub server: Option<String>,
}

/// Arguments of [`Op::SetLevel`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetLevel {
    /// One of the eight levels of RFC 5424.
    pub level: String,
    /// The server, where there is more than one.
    #[serde(default)]
    pub server: Option<String>,
}

/// Arguments of [`Op::SetRoots`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetRoots {
    /// The roots, as URIs.
    pub roots: Vec<String>,
}
