//! Scriptable MCP servers over stdio and HTTP, fair or foul.
//!
//! - [`script`]: the vocabulary of scripts, as types;
//! - [`library`]: tools that scripts name instead of spelling them out;
//! - [`model`]: what a server offers, and its faithful answers;
//! - [`core`]: the server without I/O: the model, with the script's rules on top;
//! - [`auth`]: the authorization server beside an HTTP endpoint;
//! - [`stdio`]: the core as a child process that reports over a side channel, and the harness's end of that channel;
//! - [`http`]: the core behind listeners on loopback;
//! - [`sink`]: where observations go.

pub mod auth;
mod clock;
pub mod core;
pub mod http;
pub mod library;
pub mod model;
pub mod platform;
pub mod script;
mod shape;
pub mod sink;
pub mod stdio;
