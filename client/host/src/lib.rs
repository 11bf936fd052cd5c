//! The reference client as a host: what stands between a user's configuration, MCP servers, and a model.
//!
//! A host is what its [`Settings`](sparring_profiles::Settings) say; a profile gives them
//! ([`Profile::settings`](sparring_profiles::Profile::settings)). The protocol is `sparring-client`'s.
//!
//! - [`config`]: where configured servers come from.
//! - [`entry`]: a configured server, in no host's dialect.
//! - [`env`](mod@env): variables, environment, working directory and headers of a server; how it is reached.
//! - [`filter`]: which of a server's tools there are.
//! - [`naming`]: names under which a model sees them; [`shape`]: their schemas; [`results`]: what calls give.
//! - [`wrappers`]: tools that stand for resources and prompts.
//! - [`model`]: what a model gets to see: tools, content of results.
//! - [`error`]: typed failures, with the host's own codes.
//! - [`surroundings`]: where a host runs.
//! - [`policy`]: what may be called, and who is asked.
//! - [`disclosure`]: tools that the model does not see at once.
//! - [`prompt`]: what the model gets to see of all this.
//! - [`paths`]: roots, and paths in arguments.
//! - [`redact`]: what must not be seen in errors, status and logs.
//! - [`auth`]: what a host promises about signing in.

pub mod auth;
pub mod config;
pub mod disclosure;
pub mod entry;
pub mod env;
pub mod error;
pub mod files;
pub mod filter;
pub mod model;
pub mod naming;
pub mod paths;
pub mod policy;
pub mod prompt;
pub mod redact;
pub mod results;
pub mod shape;
pub mod surroundings;
mod template;
pub mod wrappers;

pub use surroundings::Surroundings;
