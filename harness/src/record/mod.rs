//! `sparring record`: between a real client and a real server, all that they say passes through unchanged, and a
//! transcript is kept of it, which the monitors can judge and which can become a script that plays the server again.
//!
//! - [`stdio`]: the command in a client's configuration: a process that hands on bytes, signals and the exit status;
//! - [`scribe`]: the process beside it that writes, and that survives when the client kills the first;
//! - [`proxy`]: for HTTP: a relay of connections on loopback;
//! - [`http1`] and [`exchange`]: what is said on these connections, read in passing;
//! - [`journal`]: appends events to a transcript that several recordings may share;
//! - [`script`]: from a transcript to a script.
//!
//! Whatever goes wrong with the writing, the conversation goes on: passing through comes first.

pub mod exchange;
pub mod http1;
pub mod journal;
mod platform;
pub mod proxy;
mod queue;
pub mod scribe;
pub mod script;
pub mod stdio;
mod yaml;

/// The longest line, body or server-sent event that is kept, in bytes. What is longer passes through all the same, and
/// the transcript says that it is missing.
pub const MAX_KEPT: usize = 64 << 20;

/// How the recorder calls itself in transcripts.
pub const NAME: &str = concat!("sparring ", env!("CARGO_PKG_VERSION"));
