//! The script of a mock server: a model it serves faithfully, and rules that make it do something else.
//!
//! This is the `server:` part of a scenario file. The vocabulary is closed: unknown words are errors. Skeleton values
//! are typed; everything that goes on the wire as JSON is [`JsonText`], so that no YAML scalar rule can touch it.

mod action;
mod auth;
mod condition;
mod http;
mod json;
mod limit;
mod message;
mod model;
mod process;
mod reply;
mod rounds;
mod rule;
mod state;
mod stdio;
pub mod template;

pub use action::*;
pub use auth::*;
pub use condition::*;
pub use http::*;
pub use json::*;
pub use message::*;
pub use model::*;
pub use process::*;
pub use reply::*;
pub use rounds::*;
pub use rule::*;
pub use state::*;
pub use stdio::*;
pub use template::Slot;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sparring_wire::Revision;
use std::collections::BTreeMap;

/// One scripted server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerScript {
    /// What this script is for, in words; nothing comes of it.
    pub description: Option<String>,
    /// Tools: names from the library of models (see `library`), or definitions of their own.
    pub tools: Vec<ToolScript>,
    /// This many further tools `tool-000`, `tool-001`…, each answering with its own name; at most 100,000.
    #[serde(deserialize_with = "limit::within::<0, 100_000, _, _>")]
    #[schemars(range(min = 0, max = 100_000))]
    pub many_tools: Option<u32>,
    /// Resources.
    pub resources: Vec<ResourceScript>,
    /// Resource templates.
    pub templates: Vec<JsonText>,
    /// Prompts.
    pub prompts: Vec<PromptScript>,
    /// Replaces the capabilities that follow from the model.
    pub capabilities: Option<JsonText>,
    /// `serverInfo`; by default name `sparring-mock` and the product's version.
    pub info: Option<JsonText>,
    /// `instructions` of the initialize result.
    pub instructions: Option<String>,
    /// The protocol version of the initialize result, if it is not the one that was agreed on.
    pub version: Option<String>,
    /// The revisions that the server speaks; only the case's by default. Of those with a handshake the client's is
    /// taken, or else the newest; 2026-07-28 is spoken beside them, request by request.
    #[schemars(schema_with = "rounds::revisions")]
    pub speaks: Vec<Revision>,
    /// Extensions and their settings, added to the capabilities (2026-07-28; ignored before).
    pub extensions: Option<JsonText>,
    /// Caching hints (2026-07-28; ignored before): for each result the first that fits; without one, `ttlMs` is 0 and
    /// `cacheScope` private.
    pub caching: Vec<CacheHint>,
    /// The kinds of notification that `subscriptions/listen` is granted (2026-07-28; ignored before); all that the
    /// capabilities promise by default.
    pub grants: Option<Vec<SubscriptionKind>>,
    /// Items per page of each list, from 1 to 1,000,000; everything in one page by default.
    #[serde(deserialize_with = "limit::within::<1, 1_000_000, _, _>")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub page_size: Option<u32>,
    /// What cursors look like.
    pub cursors: CursorStyle,
    /// Behaviour of a stdio process.
    pub process: ProcessScript,
    /// Behaviour of an HTTP endpoint.
    pub http: HttpScript,
    /// Puts the endpoint behind bearer tokens of an authorization server of its own.
    pub auth: Option<AuthScript>,
    /// State machines that do not start in `start`, or of which each session or connection has its own; by name. The one
    /// without a name is called `""`.
    pub states: BTreeMap<String, StateScript>,
    /// Exceptions to the faithful behaviour. For each event the first rule that matches is taken.
    pub rules: Vec<Rule>,
}

impl ServerScript {
    /// All actions of its rules, those within `repeat` too.
    pub fn all_actions(&self) -> Vec<&Action> {
        fn walk<'a>(actions: &'a [Action], found: &mut Vec<&'a Action>) {
            for action in actions {
                found.push(action);
                if let Action::Repeat(repeat) = action {
                    walk(&repeat.actions, found);
                }
            }
        }
        let mut found = Vec::new();
        self.rules.iter().for_each(|rule| walk(&rule.actions, &mut found));
        found
    }
}
