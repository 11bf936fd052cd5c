//! Questions to the client, tasks, subscriptions and caching hints.

use super::{ErrorAnswer, JsonText};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use sparring_wire::Revision;
use std::collections::BTreeMap;

/// Input that the server asks the client for before it answers a request.
///
/// In 2026-07-28 the answer is a result of type `input_required`, and the client comes again with what was asked. In
/// earlier revisions each question is a request of the server's own, on the stream of the request at hand, which is
/// answered when all of them are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AskScript {
    /// What is asked, by key. The keys mean nothing before 2026-07-28.
    pub requests: BTreeMap<String, AskedRequest>,
    /// `requestState`, as it is (2026-07-28; ignored before). Without it there is none, unless nothing is asked
    /// either: then a signed one is made up.
    pub state: Option<String>,
    /// Instead: a `requestState` of this many characters, at most 64 MiB, which need escaping in JSON (2026-07-28).
    #[serde(deserialize_with = "super::limit::within::<0, 67_108_864, _, _>")]
    #[schemars(range(min = 0, max = 67_108_864))]
    pub state_bytes: Option<u32>,
    /// Ask again however often the client comes with the answers (2026-07-28; once before).
    pub always: bool,
}

/// One question to the client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskedRequest {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`; any other is a fault.
    pub method: String,
    /// Its params. In 2025-11-25 an elicitation in URL mode gets an `elicitationId`, unless it has one.
    #[serde(default)]
    pub params: Option<JsonText>,
}

/// A tool's call as a task: in 2025-11-25 when the client asks for one, with the extension of 2026-07-28 whenever the
/// client has declared it. Ignored in other revisions. A task moves on when it is asked after, never by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TaskScript {
    /// Whether calls may, have to or must not be tasks. `execution.taskSupport` of 2025-11-25; in 2026-07-28 a call
    /// of a tool that requires tasks is an error for a client without the extension.
    pub support: TaskSupport,
    /// This many `tasks/get` are answered `working`; once by default.
    pub polls: u32,
    /// How it ends.
    pub ends: TaskEnd,
    /// The error that it ends with, if it fails without a result; an internal error by default.
    pub error: Option<ErrorAnswer>,
    /// `statusMessage`; none by default.
    pub message: Option<String>,
    /// `ttl` (2025-11-25) or `ttlMs`, in milliseconds; null by default, in 2025-11-25 what the client asked for. The
    /// task is kept as long as the server lives all the same.
    pub ttl_ms: Option<u64>,
    /// `pollInterval` (2025-11-25) or `pollIntervalMs`, in milliseconds; none by default.
    pub poll_interval_ms: Option<u64>,
    /// Asked for after `polls`: the task is `input_required` until it has the answers.
    pub ask: Option<AskScript>,
    /// This many `tasks/get` after the answers have come still show the questions (2026-07-28).
    pub lag: u32,
    /// After this many `tasks/get` the task is unknown, as if it had expired.
    pub lost_after: Option<u32>,
    /// Acknowledge `tasks/cancel` and go on (2026-07-28).
    pub ignores_cancel: bool,
    /// Tell of each change of status: on the stream of the request that brought it (2025-11-25).
    pub notify: bool,
    /// What the model may be told at once (`io.modelcontextprotocol/model-immediate-response`, 2025-11-25).
    pub immediate: Option<String>,
}

impl Default for TaskScript {
    fn default() -> Self {
        Self {
            support: TaskSupport::default(),
            polls: 1,
            ends: TaskEnd::default(),
            error: None,
            message: None,
            ttl_ms: None,
            poll_interval_ms: None,
            ask: None,
            lag: 0,
            lost_after: None,
            ignores_cancel: false,
            notify: false,
            immediate: None,
        }
    }
}

/// Whether a tool's calls may be tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskSupport {
    /// They may.
    #[default]
    Optional,
    /// They have to.
    Required,
    /// They must not.
    Forbidden,
}

impl TaskSupport {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Optional => "optional",
            Self::Required => "required",
            Self::Forbidden => "forbidden",
        }
    }
}

/// How a task ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskEnd {
    /// With the result of the call. In 2025-11-25 one with `isError` makes the task `failed`.
    #[default]
    Completed,
    /// With a JSON-RPC error.
    Failed,
    /// Cancelled by the server.
    Cancelled,
    /// Never.
    Never,
}

/// A request to the client that asks for a task (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestTask {
    /// `sampling/createMessage` or `elicitation/create`.
    pub method: String,
    /// Its params; `task` is added.
    #[serde(default)]
    pub params: Option<JsonText>,
    /// The `ttl` that is asked for, in milliseconds; none by default.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
    /// At most this many `tasks/get`, each when the one before is answered, until the task is over; none by default,
    /// since `tasks/result` waits by itself.
    #[serde(default)]
    pub polls: u32,
    /// Call `tasks/list` once the task is made.
    #[serde(default)]
    pub list: bool,
    /// Call `tasks/cancel` instead of `tasks/result`.
    #[serde(default)]
    pub cancel: bool,
}

/// What becomes of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskMove {
    /// They end as their script says, at once.
    Ended,
    /// They are cancelled by the server.
    Cancelled,
    /// They are unknown from now on.
    Lost,
}

/// Kinds of notification that a client subscribes to (2026-07-28).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubscriptionKind {
    /// `toolsListChanged`.
    Tools,
    /// `promptsListChanged`.
    Prompts,
    /// `resourcesListChanged`.
    Resources,
    /// `resourceSubscriptions`.
    ResourceUpdates,
    /// `taskIds` of the tasks extension.
    Tasks,
}

/// How the server ends a subscription (2026-07-28). The specification has it both ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubscriptionEnd {
    /// As most of its pages want it: over stdio `both`, over HTTP `result`.
    #[default]
    Faithful,
    /// With the result of `subscriptions/listen`.
    Result,
    /// With `notifications/cancelled`.
    Cancelled,
    /// With the notification, then the result.
    Both,
    /// Without a word: over HTTP the stream ends, over stdio it falls silent.
    Abrupt,
}

/// How long and for whom clients may keep a result (2026-07-28; ignored before).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CacheHint {
    /// Only for results of this method; for all that can be kept by default.
    pub on: Option<String>,
    /// Only for this page of a list, counted from 1.
    pub page: Option<u32>,
    /// `ttlMs`, in milliseconds; 0 by default. Less than 0 is a fault.
    pub ttl_ms: i64,
    /// `cacheScope`.
    pub scope: CacheScope,
}

/// Who may keep a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheScope {
    /// Whoever is authorized as the one who asked.
    #[default]
    Private,
    /// Anyone.
    Public,
    /// A word that no client knows (`tenant`), which is a fault.
    Unknown,
}

impl CacheScope {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
            Self::Unknown => "tenant",
        }
    }
}

/// A member that results of 2026-07-28 have beside their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResultMember {
    /// `resultType`.
    ResultType,
    /// `_meta["io.modelcontextprotocol/serverInfo"]`, which a server may leave out.
    ServerInfo,
    /// `ttlMs`.
    TtlMs,
    /// `cacheScope`.
    CacheScope,
}

/// The schema of a list of revisions.
pub(super) fn revisions(_: &mut SchemaGenerator) -> Schema {
    let dates: Vec<_> = Revision::ALL.iter().map(|r| r.as_str()).collect();
    json_schema!({"type": "array", "items": {"enum": dates}})
}
