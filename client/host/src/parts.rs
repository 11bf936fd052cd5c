//! What a host is made of, each part behind a trait, so that it can be wrapped or replaced.

use crate::clock::Clock;
use crate::events::{EventSink, Sinks};
use crate::pool::records::{NoRecords, ProcessRecords};
use crate::store::cache::{MemoryCache, ToolCache};
use crate::surroundings::Surroundings;
use sparring_client::Launcher;
use sparring_client::naming::{HashedNames, Naming};
use sparring_client::stdio::SystemLauncher;
use sparring_profiles::{RestartSettings, Settings};
use std::sync::Arc;
use std::time::Duration;

/// The parts of a host. [`HostParts::new`] makes them from its settings; a test or a mutant wraps or replaces single
/// ones.
#[derive(Clone)]
pub struct HostParts {
    /// How stdio servers are started. The host wraps it with its records of processes, so it belongs here, and not into
    /// the client.
    pub launcher: Arc<dyn Launcher>,
    /// The names that the model sees.
    pub naming: Arc<dyn Naming>,
    /// Takes events, besides the host's own log.
    pub events: Arc<dyn EventSink>,
    /// Remembers the tools of servers.
    pub cache: Arc<dyn ToolCache>,
    /// Remembers processes, so that the next start can end what a killed host left behind.
    pub records: Arc<dyn ProcessRecords>,
    /// The waits before restarts.
    pub backoff: Arc<dyn Backoff>,
    /// All waits go through it.
    pub clock: Clock,
}

impl HostParts {
    /// What the settings say.
    #[must_use]
    pub fn new(settings: &Settings, surroundings: &Surroundings, clock: Clock) -> Self {
        let _ = surroundings;
        Self {
            launcher: Arc::new(SystemLauncher),
            naming: Arc::new(HashedNames {
                template: settings.naming.template.clone(),
                others: "_-".to_owned(),
                max_len: settings.naming.max_len as usize,
            }),
            events: Arc::new(Sinks(Vec::new())),
            cache: Arc::new(MemoryCache::default()),
            records: Arc::new(NoRecords),
            backoff: Arc::new(ListedWaits),
            clock,
        }
    }
}

/// How long to wait before a restart.
pub trait Backoff: Send + Sync {
    /// The wait before attempt `attempt` (from 0) in a row; `None`: no further attempt. The settings are the latest.
    fn wait(&self, settings: &RestartSettings, attempt: u32, clock: Clock) -> Option<Duration>;
}

/// Waits as `restart.backoff_s` lists them; the last one repeats.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListedWaits;

impl Backoff for ListedWaits {
    fn wait(&self, settings: &RestartSettings, attempt: u32, clock: Clock) -> Option<Duration> {
        if attempt >= settings.max_attempts {
            return None;
        }
        let waits = &settings.backoff_s;
        let at = match (settings.first_wait, attempt) {
            (false, 0) => return Some(Duration::ZERO),
            (false, later) => later - 1,
            (true, at) => at,
        };
        let seconds = waits.get(at as usize).or_else(|| waits.last()).copied().unwrap_or_default();
        Some(clock.seconds(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wait_can_be_left_out_and_attempts_end() {
        let mut settings =
            RestartSettings { backoff_s: vec![1.0, 2.0], max_attempts: 4, ..Default::default() };
        let waits = |settings: &RestartSettings| -> Vec<Option<u64>> {
            let wait = |n| ListedWaits.wait(settings, n, Clock::default()).map(|wait| wait.as_secs());
            (0..5).map(wait).collect()
        };
        assert_eq!(waits(&settings), [Some(1), Some(2), Some(2), Some(2), None]);
        settings.first_wait = false;
        assert_eq!(waits(&settings), [Some(0), Some(1), Some(2), Some(2), None]);
        settings.backoff_s.clear();
        assert_eq!(waits(&settings), [Some(0), Some(0), Some(0), Some(0), None]);
    }
}
