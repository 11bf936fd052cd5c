//! The reference client as a host: what stands between a user's configuration, MCP servers, and a model.
//!
//! A host is what its [`Settings`](sparring_profiles::Settings) say; a profile gives them
//! ([`Profile::settings`](sparring_profiles::Profile::settings)). The protocol is `sparring-client`'s.
//!
//! - [`Host`] is a program's lifetime; [`Session`] a chat or an agent, with the tools that one model sees.
//! - [`config`]: where configured servers come from.
//! - [`entry`]: a configured server, in no host's dialect.
//! - [`env`](mod@env): variables, environment, working directory and headers of a server; how it is reached.
//! - [`filter`]: which of a server's tools there are.
//! - [`naming`]: names under which a model sees them; [`shape`]: their schemas; [`results`]: what calls give.
//! - [`wrappers`]: tools that stand for resources and prompts.
//! - [`model`]: what a model gets to see: tools, content of results.
//! - [`error`]: typed failures, with the host's own codes.
//! - [`surroundings`]: where a host runs.
//! - [`parts`]: what a host is made of; each part can be wrapped or replaced.
//! - [`pool`], [`store`], [`events`], [`clock`]: shared servers, what is kept on disk, what is reported, durations.
//! - [`policy`]: what may be called, and who is asked.
//! - [`disclosure`]: tools that the model does not see at once.
//! - [`prompt`]: what the model gets to see of all this.
//! - [`paths`]: roots, and paths in arguments.
//! - [`redact`]: what must not be seen in errors, status and logs.
//! - [`auth`]: what a host promises about signing in.
//! - [`shutdown`]: signals that end a program.

pub mod auth;
pub mod clock;
pub mod config;
mod context;
pub mod control;
pub mod disclosure;
pub mod entry;
pub mod env;
pub mod error;
pub mod events;
pub mod files;
pub mod filter;
mod host;
pub mod model;
pub mod naming;
pub mod parts;
pub mod paths;
pub mod policy;
pub mod pool;
pub mod prompt;
pub mod redact;
pub mod results;
mod server;
mod session;
pub mod shape;
pub mod shutdown;
pub mod store;
pub mod surroundings;
mod template;
pub mod wrappers;

pub use control::{Control, Inspect};
pub use entry::ServerEntry;
pub use error::HostError;
pub use host::{Host, HostBuilder};
pub use parts::HostParts;
pub use server::ServerState;
pub use server::target::Place;
pub use session::{Session, SessionOptions};
pub use surroundings::Surroundings;
