//! The core as a child process of the client under test, and the harness's end of its side channel; or as this very
//! process, without a harness ([`OwnProcess`]).
//!
//! The child is the running executable executed again with private arguments: [`run_if_mock`] has to be the first
//! thing that `main` calls. A [`StdioMock`] writes the configuration that the child reads, and listens on loopback for
//! what its processes report.
//!
//! # The side channel
//!
//! JSON Lines over a socket in the file system, which costs least, or else over TCP on 127.0.0.1. The child's first line is a `Hello` with the token of its configuration; the
//! harness answers with a `Welcome`; every further line of the child's is a `Report`, or the `Done` that answers an
//! `Asked` of the harness's. A report of what is about to be written to stdout is in the channel before it is written,
//! so that a client that kills its server hides nothing. Whoever loses the channel is to end: a mock whose harness has
//! died kills itself, whatever its script says.

mod child;
mod descendant;
mod direct;
mod host;
mod launcher;
mod reports;
mod shell;

use crate::core::Control;
use crate::script::ServerScript;
use serde::{Deserialize, Serialize};
use sparring_wire::Revision;
use sparring_wire::transcript::What;

pub use child::run_if_mock;
pub use direct::{OwnProcess, OwnServer, OwnSpec};
pub use host::{Controlled, StdioMock, StdioSpec};

/// The private first argument of a mock's process; the second is the path of its configuration.
const MOCK: &str = "__sparring-mock";
/// The same for a mock's grandchild.
const GRANDCHILD: &str = "__sparring-grandchild";
/// The same for the process between a mock and a daemon.
const DAEMON: &str = "__sparring-daemon";

/// What a child reads to find out what it is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The harness's end of the side channel.
    address: std::net::SocketAddr,
    /// The same as a socket beside this configuration, where there can be one.
    socket: Option<std::path::PathBuf>,
    token: String,
    revision: Revision,
    seed: u64,
    script: ServerScript,
    quiet: bool,
}

/// The first line of a child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    token: String,
    pid: u32,
    /// The incarnation of the mock whose grandchild this is; a launcher's server counts as one.
    grandchild_of: Option<u32>,
    /// It is a launcher's server.
    #[serde(default)]
    launched: bool,
}

/// The harness's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Welcome {
    incarnation: u32,
}

/// Where a mock's process says what it observes.
pub trait Reporter: Send + Sync {
    /// Takes in an observation, made at this time of [`crate::sink::monotonic_us`].
    fn report(&self, monotonic_us: u64, what: What);

    /// Returns when all that was reported is safe from the end of this process.
    fn flush(&self);

    /// Nothing more is to be reported for the time being: what was reported is to become known, now or a little later.
    fn settle(&self) {}

    /// The process ends as soon as this returns.
    fn ending(&self) {
        self.flush();
    }
}

/// Something that the harness asks a child to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    id: u64,
    control: Control,
}

/// The child's answer: what was asked for has been done.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    done: u64,
}

/// An observation of the child's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    /// CLOCK_MONOTONIC in microseconds.
    at: u64,
    what: What,
}

/// The longest line on stdin or on the side channel: a 16 MiB message, escaped.
const MAX_LINE: usize = 16 << 20;
