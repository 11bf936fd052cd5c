//! The reference client as a host: what stands between a user's configuration, MCP servers, and a model.
//!
//! A host is what its [`Settings`](sparring_profiles::Settings) say; a profile gives them
//! ([`Profile::settings`](sparring_profiles::Profile::settings)). The protocol is `sparring-client`'s.
//!
//! - [`entry`]: a configured server, in no host's dialect.
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
pub mod disclosure;
pub mod entry;
pub mod error;
pub mod files;
pub mod model;
pub mod paths;
pub mod policy;
pub mod prompt;
pub mod redact;
pub mod surroundings;
mod template;

pub use surroundings::Surroundings;
