//! The judge: a pure function from a transcript to verdicts.
//!
//! - [`view`]: the transcript with its messages, pairs and conversations;
//! - [`pattern`]: finding events by a scenario's patterns;
//! - [`check`]: the checks of a scenario;
//! - [`monitor`]: the judges that are always on;
//! - [`stored`]: transcripts on disk;
//! - [`evidence`] and [`redact`]: events as people read them, and without secrets.
//!
//! A **check** belongs to a scenario that provokes something; if what it hangs on is never seen, the verdict is
//! `not-testable` and fails the run, since silence is no proof. A **monitor** looks at every transcript; if what it
//! looks for does not occur, that says nothing about the client, and the verdict is `not-applicable`.

pub mod check;
pub mod evidence;
mod json;
pub mod monitor;
pub mod pattern;
pub mod redact;
pub mod stored;
#[cfg(test)]
mod testing;
pub mod view;

pub use monitor::{Monitor, monitors};
pub use view::View;

use sparring_reports::model::{Basis, BasisKind, JudgeReport, Level, Verdict};
use sparring_scenarios::catalogue::{self, Requirement, RequirementLevel};
use sparring_scenarios::profile::Profile;
use sparring_scenarios::scenario::Scenario;
use sparring_wire::transcript::{Event, What};
use sparring_wire::{Revision, Transport};

/// What is known of a case besides its transcript.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The case's id, such as `tools.echo[2025-11-25,stdio]`.
    pub case: &'a str,
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The revision that its servers speak.
    pub revision: Revision,
    /// The transport.
    pub transport: Transport,
    /// The client's profile, for the promises it makes.
    pub profile: Option<&'a Profile>,
    /// How late the machine woke those who waited while the case ran, if measured.
    pub floor: Option<Floor>,
    /// By how much the client's durations were divided, as the driver said.
    pub clock_scale: u32,
}

/// How busy the machine was while a case ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// The longest that a sleeping task was woken too late, in microseconds.
    pub latest_us: u64,
}

impl Floor {
    /// A machine that wakes its tasks later than this can't be told from a client that is late.
    pub const OVERLOADED_US: u64 = 100_000;

    /// Many that wait for one another, each woken that late.
    const CHAIN: u64 = 10;

    /// Whether a duration that is off by this much, in microseconds, says nothing about the client.
    pub const fn may_account_for(self, off_us: u64) -> bool {
        self.latest_us > Self::OVERLOADED_US && off_us <= self.latest_us.saturating_mul(Self::CHAIN)
    }
}

/// Judges a case: the checks of its scenario in order, then the monitors. Checks and monitors whose requirement does
/// not hold in the case's revision or on its transport are left out.
pub fn judge(facts: &Facts<'_>, events: &[Event]) -> Vec<JudgeReport> {
    let view = View::of(events);
    let mut reports = check::checks(facts, &view);
    let scope = monitor::Case { revision: facts.revision, transport: facts.transport, facts: Some(facts) };
    reports.extend(monitor::run(&scope, &view));
    reports
}

/// Judges a transcript of which nothing else is known, by the monitors alone. Without `revision` it is the one that
/// was negotiated first.
pub fn judge_transcript_only(revision: Option<Revision>, events: &[Event]) -> Vec<JudgeReport> {
    let view = View::of(events);
    let revision = revision
        .or_else(|| view.conversations().iter().find_map(view::Conversation::revision))
        .unwrap_or(Revision::LATEST_HANDSHAKE);
    let over_http = events.iter().any(|event| matches!(event.what, What::HttpRequest(_)));
    let transport = match (over_http, revision) {
        (false, _) => Transport::Stdio,
        (true, Revision::V2024_11_05) => Transport::SseLegacy,
        (true, _) => Transport::Http,
    };
    monitor::run(&monitor::Case { revision, transport, facts: None }, &view)
}

/// Requirements on which texts of one revision contradict each other: the more lenient text is held against the client,
/// and the verdict says so.
const CONTRADICTED: [(&str, Level, &str); 1] = [(
    "lifecycle-unsupported-version-disconnect",
    Level::Should,
    "the schema says MUST, the lifecycle page of the same revision SHOULD; judged by the latter",
)];

/// How binding a requirement of the catalogue is.
pub const fn level(level: RequirementLevel) -> Level {
    match level {
        RequirementLevel::Must | RequirementLevel::MustNot => Level::Must,
        RequirementLevel::Should | RequirementLevel::ShouldNot => Level::Should,
        RequirementLevel::May => Level::May,
    }
}

/// The basis of a requirement, and a note if texts contradict each other about it.
fn basis_of(requirement: &Requirement) -> (Basis, Option<&'static str>) {
    let lenient = CONTRADICTED.iter().find(|(id, ..)| *id == requirement.id);
    let level = level(requirement.level);
    let basis = Basis {
        id: requirement.id.clone(),
        kind: BasisKind::Requirement,
        level: lenient.map_or(level, |(_, level, _)| *level),
        text: requirement.text.clone(),
        source: Some(requirement.source.clone()),
    };
    (basis, lenient.map(|(.., note)| *note))
}

/// The basis of a promise. `text` stands in for promises that the catalogue does not have.
fn promise_basis(id: &str, text: &str) -> Basis {
    Basis {
        id: id.to_owned(),
        kind: BasisKind::Promise,
        level: Level::Promise,
        text: catalogue::promise(id).map_or_else(|| text.to_owned(), |promise| promise.text.clone()),
        source: None,
    }
}

/// The verdict of a judge that found its requirement not kept.
const fn against(level: Level) -> Verdict {
    match level {
        Level::Must | Level::Promise => Verdict::Fail,
        Level::Should => Verdict::Warn,
        // Never held against the client; the reason says what was seen.
        Level::May => Verdict::Pass,
    }
}
