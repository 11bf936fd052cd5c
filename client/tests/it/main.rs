//! The client against tiny servers written here: nothing but loopback, `sh` and scripted sockets.

mod host;
mod http;
mod oauth;
#[cfg(unix)]
mod stdio;
mod support;
