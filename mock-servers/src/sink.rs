//! Where observations go, and the clock that stamps them.

use sparring_wire::transcript::What;

/// Takes in what the mocks observe. Called from any thread, also from within a runtime: it must neither block
/// nor call the mock.
pub trait Sink: Send + Sync {
    /// `server` is the server's name, `incarnation` the process of a stdio server (from 1), `monotonic_us` the time of
    /// [`monotonic_us`] in the process that made the observation.
    fn event(&self, server: &str, incarnation: Option<u32>, monotonic_us: u64, what: What);
}

/// The time of CLOCK_MONOTONIC in microseconds, comparable between the processes of one machine.
pub fn monotonic_us() -> u64 {
    crate::platform::monotonic_us()
}
