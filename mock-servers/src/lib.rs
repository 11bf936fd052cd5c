//! Scriptable MCP servers over stdio and HTTP, fair or foul.

pub mod auth;
pub mod library;
pub mod script;
