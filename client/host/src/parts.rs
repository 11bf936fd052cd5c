//! What a host is made of, each part behind a trait, so that it can be wrapped or replaced.

use crate::clock::Clock;
use crate::config::{ConfigFiles, ConfigSource};
use crate::disclosure::{DiscloseRules, Progressive};
use crate::env::{EnvRules, ProfileEnv};
use crate::events::{EventSink, Sinks};
use crate::filter::ToolPredicate;
use crate::naming::{Naming, ProfileNames};
use crate::paths::{PathRules, ProjectPaths};
use crate::policy::{Approvals, Approver, Gate, Layered, NameGate, PolicyRules};
use crate::pool::records::{NoRecords, ProcessRecords, RecordFolder};
use crate::redact::{Redact, Redactor};
use crate::results::{ProfileResults, ResultMapper};
use crate::server::target::Place;
use crate::shape::{ProfileShape, ToolShaper};
use crate::store::cache::{MemoryCache, NoCache, ToolCache};
use crate::store::credentials;
use crate::store::disk::DiskCache;
use crate::surroundings::Surroundings;
use crate::wrappers::{ProfileWrappers, Wrappers};
use sparring_client::stdio::SystemLauncher;
use sparring_client::{Browser, CredentialStore, Launcher, MessageFilter};
use sparring_profiles::{CacheKind, RestartSettings, Settings};
use std::sync::Arc;
use std::time::Duration;

/// The rules of paths for a session that is somewhere.
pub type PathsFor = Arc<dyn Fn(&Settings, &Place) -> Arc<dyn PathRules> + Send + Sync>;

/// The parts of a host. [`HostParts::new`] makes them from its settings; a test or a mutant wraps or replaces single
/// ones.
#[derive(Clone)]
pub struct HostParts {
    /// Where the servers come from.
    pub config: Arc<dyn ConfigSource>,
    /// How stdio servers are started. The host wraps it with its records of processes, so it belongs here, and not into
    /// the client.
    pub launcher: Arc<dyn Launcher>,
    /// Sees all messages on their way.
    pub filter: Option<Arc<dyn MessageFilter>>,
    /// What servers get of the host's environment.
    pub env: Arc<dyn EnvRules>,
    /// The names that the model sees.
    pub naming: Arc<dyn Naming>,
    /// The schemas that the model sees.
    pub shaping: Arc<dyn ToolShaper>,
    /// Decides which tools there are, besides the lists of the configuration.
    pub predicate: Option<ToolPredicate>,
    /// Tools that stand for resources and prompts.
    pub wrappers: Arc<dyn Wrappers>,
    /// What the model gets of results.
    pub results: Arc<dyn ResultMapper>,
    /// What may be called.
    pub policy: Arc<dyn PolicyRules>,
    /// Refuses single calls.
    pub gate: Arc<dyn Gate>,
    /// Asks the user.
    pub approver: Arc<dyn Approver>,
    /// Calls that wait for the user. The approver by default, answered by
    /// [`Control::Approve`](crate::Control::Approve) and [`Control::Deny`](crate::Control::Deny).
    pub approvals: Arc<Approvals>,
    /// What the model sees of its tools.
    pub disclosure: Arc<dyn DiscloseRules>,
    /// Roots, and paths in arguments.
    pub paths: PathsFor,
    /// What is gone from errors, status and events.
    pub redact: Arc<dyn Redact>,
    /// Takes events, besides the host's own log.
    pub events: Arc<dyn EventSink>,
    /// Where credentials are kept.
    pub credentials: Arc<dyn CredentialStore>,
    /// Where the user signs in; the host wraps it with its own ways. None: there is no browser, and the user opens the
    /// address that is announced.
    pub browser: Option<Arc<dyn Browser>>,
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
        let approvals = Arc::new(Approvals::waiting());
        let cache: Arc<dyn ToolCache> = match settings.discovery.cache {
            CacheKind::None => Arc::new(NoCache),
            CacheKind::Memory => Arc::new(MemoryCache::default()),
            CacheKind::Disk => Arc::new(DiskCache::new(surroundings.state.join("tools.redb"))),
        };
        Self {
            config: Arc::new(ConfigFiles::new(settings)),
            launcher: Arc::new(SystemLauncher),
            filter: None,
            env: Arc::new(ProfileEnv::new(settings)),
            naming: Arc::new(ProfileNames::new(settings.naming.clone())),
            shaping: Arc::new(ProfileShape::new(&settings.discovery)),
            predicate: None,
            wrappers: Arc::new(ProfileWrappers::new(settings.wrappers.clone())),
            results: Arc::new(ProfileResults::new(settings.results.clone())),
            policy: Arc::new(Layered),
            gate: Arc::new(NameGate),
            approver: Arc::clone(&approvals) as Arc<dyn Approver>,
            approvals,
            disclosure: Arc::new(Progressive),
            paths: Arc::new(|settings: &Settings, place: &Place| {
                Arc::new(ProjectPaths::new(&settings.roots, &place.cwd, place.project.as_deref()))
                    as Arc<dyn PathRules>
            }),
            redact: Arc::new(Redactor::new(&settings.redaction)),
            events: Arc::new(Sinks(Vec::new())),
            credentials: credentials::open(&settings.auth, &surroundings.state),
            browser: None,
            cache,
            records: match settings.shutdown.reaps_orphans {
                true => Arc::new(RecordFolder::new(surroundings.state.join("processes"))),
                false => Arc::new(NoRecords),
            },
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
