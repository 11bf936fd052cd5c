//! The reference client as a host: what stands between a user's configuration, MCP servers, and a model.
//!
//! A host is what its [`Settings`](sparring_profiles::Settings) say; a profile gives them
//! ([`Profile::settings`](sparring_profiles::Profile::settings)). The protocol is `sparring-client`'s.
//!
//! - [`entry`]: a configured server, in no host's dialect.
//! - [`model`]: what a model gets to see: tools, content of results.
//! - [`error`]: typed failures, with the host's own codes.
//! - [`surroundings`]: where a host runs.

pub mod entry;
pub mod error;
pub mod model;
pub mod surroundings;

pub use surroundings::Surroundings;
