//! Records of the processes that a host has started, so that the next start can end what a killed host left behind.

use serde::{Deserialize, Serialize};

/// A process that a host has started, or is about to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// The server's name.
    pub server: String,
    /// Its process id, which is that of its process group; none as long as it is only about to be started.
    pub pid: Option<u32>,
}

/// Remembers processes.
pub trait ProcessRecords: Send + Sync {
    /// A process is there. Returns when the record is safe.
    ///
    /// # Errors
    /// If it could not be written; then the process must not be used.
    fn begin(&self, record: &ProcessRecord) -> std::io::Result<u64>;
    /// The process, and its group, is gone.
    fn end(&self, record: u64);
    /// Ends what hosts that are dead have left behind; returns the names of their servers.
    fn reap(&self) -> Vec<String>;
}

/// Remembers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRecords;

impl ProcessRecords for NoRecords {
    fn begin(&self, _: &ProcessRecord) -> std::io::Result<u64> {
        Ok(0)
    }

    fn end(&self, _: u64) {}

    fn reap(&self) -> Vec<String> {
        Vec::new()
    }
}
