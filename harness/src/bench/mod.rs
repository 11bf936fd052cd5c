//! `sparring bench`: the round trip of a tool call, beside floors measured in the same run.

mod floor;

pub use floor::run_if_floor;

use serde::Serialize;
use std::time::Duration;

/// The 100 bytes of text in each call.
pub const TEXT: &str =
    "one hundred bytes of text, which is about what a small tool call carries in either direction, yes.";

/// Durations of single calls, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// Room for this many.
    #[must_use]
    pub fn with_capacity(calls: usize) -> Self {
        Self(Vec::with_capacity(calls))
    }

    /// Adds one.
    pub fn push(&mut self, took: Duration) {
        self.0.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes in another set.
    pub fn extend(&mut self, more: &Self) {
        self.0.extend_from_slice(&more.0);
    }

    /// Their percentiles (nearest rank).
    pub fn summary(&self) -> Summary {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            sorted.get(rank - 1).copied().unwrap_or_default()
        };
        Summary {
            calls: sorted.len(),
            p50_ns: rank(50),
            p90_ns: rank(90),
            p99_ns: rank(99),
            max_ns: rank(100),
        }
    }
}

impl From<Vec<u64>> for Samples {
    fn from(ns: Vec<u64>) -> Self {
        Self(ns)
    }
}

/// Percentiles, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many calls.
    pub calls: usize,
    /// The median.
    pub p50_ns: u64,
    /// Nine of ten are at most this.
    pub p90_ns: u64,
    /// Ninety-nine of a hundred are at most this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}
pub(crate) fn command(_: &crate::cli::BenchArgs) -> Result<u8, crate::cli::Trouble> {
    Err(crate::cli::Trouble::new(1, "none yet"))
}
