//! The client against tiny servers written here: nothing but loopback, `sh` and scripted sockets.

#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers as well")]

mod http;
mod legacy;
mod oauth;
mod oauth_grants;
mod oauth_login;
mod oauth_store;
mod oauth_world;
mod standalone;
mod stateless;
#[cfg(unix)]
mod stdio;
mod support;
mod system_http;
