//! The operations that a driver is asked to do. The same words stand in scenario files (`drive:`), in the driver
//! protocol and in the in-process trait.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sparring_mock_servers::script::JsonText;
use sparring_wire::Revision;
use std::collections::BTreeMap;

/// An operation, with its arguments as a scenario gives them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
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
        }
    }
}

/// The names of all operations that a driver can declare. `await` is the harness's own and needs no declaration.
pub const OPERATIONS: [&str; 16] = [
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
/// - `headers`: it sends configured HTTP headers.
pub const FEATURES: [&str; 10] = [
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
];

/// Arguments of [`Op::Open`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Open {
    /// Which of the scenario's servers; all by default.
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
}

/// A server, or all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Of {
    /// The server's name in the scenario; all by default.
    pub server: Option<String>,
}

/// Arguments of [`Op::Call`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool's raw name, as its server gives it. The harness looks the composed name up in the last `tools`
    /// result where the driver has composed names.
    pub tool: String,
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
