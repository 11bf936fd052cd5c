//! What a run found. This is also the JSON report; its schema is published with `sparring schema report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the report's format. It goes up when a member is added or changes its meaning.
pub const FORMAT_VERSION: u32 = 1;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Version of the program that made it.
    pub sparring_version: String,
    /// The client under test.
    pub client: ClientInfo,
    /// When it started, RFC 3339 in UTC.
    pub started: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// The seed of everything that looks random in the mocks.
    pub seed: u64,
    /// What the run as a whole came to.
    pub conclusion: Conclusion,
    /// The cases, in the order of their ids.
    pub cases: Vec<CaseReport>,
}

/// The client under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientInfo {
    /// Its name, as its driver gives it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The driver: `builtin`, `adapter`, `official`, `in-process`.
    pub driver: String,
    /// The command, for drivers that start one.
    pub command: Vec<String>,
    /// The host profile, if one was given.
    pub profile: Option<String>,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseReport {
    /// Its stable id, such as `tools.pagination.cursor-is-opaque[2025-11-25,stdio]`; a repetition has `#2` behind it.
    pub id: String,
    /// The scenario.
    pub scenario: String,
    /// What happens in it.
    pub about: String,
    /// The revision.
    pub revision: String,
    /// The transport.
    pub transport: String,
    /// Why it was not run: `unsupported` or `not-applicable` for the whole case.
    pub skipped: Option<Skipped>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What its judges said, checks before monitors.
    pub verdicts: Vec<JudgeReport>,
    /// The transcript's file, relative to the report folder.
    pub transcript: Option<String>,
    /// The command that runs just this case again.
    pub again: String,
}

impl CaseReport {
    /// Whether something went wrong in it: a verdict fails the run, or the harness failed.
    pub fn went_wrong(&self) -> bool {
        self.verdicts.iter().any(|j| j.verdict.fails_the_run() || j.verdict == Verdict::HarnessError)
    }
}

/// Why a case was not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    /// `unsupported` or `not-applicable`.
    pub verdict: Verdict,
    /// The reason.
    pub reason: String,
}

/// What one judge said of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeReport {
    /// `<scenario>/<check>`, or the monitor's id.
    pub judge: String,
    /// Which kind of judge.
    pub kind: JudgeKind,
    /// What it says.
    pub verdict: Verdict,
    /// What is required, in one sentence, with where it stands.
    pub basis: Basis,
    /// The reason for anything but `pass`, in a sentence.
    pub reason: Option<String>,
    /// The prerequisite event, if the judge has one and it was seen.
    pub prerequisite: Option<Evidence>,
    /// What was expected, in words.
    pub expected: Option<String>,
    /// The events that prove it.
    pub actual: Vec<Evidence>,
}

/// Kinds of judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JudgeKind {
    /// Of the scenario.
    Check,
    /// Always on.
    Monitor,
    /// The harness's word on the case as a whole: that it ended in time, that the client did not crash, that the
    /// steps went as scripted.
    Case,
}

/// What a judge rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Basis {
    /// The requirement's or promise's id.
    pub id: String,
    /// Requirement or promise.
    pub kind: BasisKind,
    /// How binding it is.
    pub level: Level,
    /// The sentence.
    pub text: String,
    /// The page of the specification, such as `2025-11-25/basic/transports#session-management`.
    pub source: Option<String>,
}

/// Requirement of the specification, or promise of a host profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BasisKind {
    /// Of the specification.
    Requirement,
    /// Of the client's profile.
    Promise,
}

/// How binding a requirement is. `MUST NOT` counts as [`Level::Must`], and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// MUST or MUST NOT.
    Must,
    /// SHOULD or SHOULD NOT.
    Should,
    /// MAY: recorded, never failed.
    May,
    /// A promise of the profile.
    Promise,
}

/// A verdict. Never folded together in any report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Kept.
    Pass,
    /// A MUST or a promise not kept.
    Fail,
    /// A SHOULD not kept.
    Warn,
    /// The event that it hangs on was never seen. Counts as a failure of the run: silence is no proof.
    NotTestable,
    /// The driver declared beforehand that it can't.
    Unsupported,
    /// The revision, transport or profile has nothing to judge.
    NotApplicable,
    /// Durations only: the floor measured in the same run shows a machine too busy to tell.
    Inconclusive,
    /// The case's deadline passed.
    Timeout,
    /// The client died.
    Crash,
    /// Our fault; never blamed on the client.
    HarnessError,
}

impl Verdict {
    /// All verdicts, in the order in which reports count them.
    pub const ALL: [Self; 10] = [
        Self::Pass,
        Self::Fail,
        Self::Warn,
        Self::NotTestable,
        Self::Timeout,
        Self::Crash,
        Self::Unsupported,
        Self::NotApplicable,
        Self::Inconclusive,
        Self::HarnessError,
    ];

    /// The word of it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::NotTestable => "not-testable",
            Self::Unsupported => "unsupported",
            Self::NotApplicable => "not-applicable",
            Self::Inconclusive => "inconclusive",
            Self::Timeout => "timeout",
            Self::Crash => "crash",
            Self::HarnessError => "harness-error",
        }
    }

    /// Whether it means that the client did not do what it has to (or that nobody can say).
    pub const fn fails_the_run(self) -> bool {
        matches!(self, Self::Fail | Self::NotTestable | Self::Timeout | Self::Crash)
    }
}

/// An event as evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The event's number in the transcript.
    pub n: u64,
    /// Milliseconds since the case started.
    pub at_ms: u64,
    /// The event in one line, secrets redacted.
    pub text: String,
}

/// What a run came to. Each has an exit code of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// Every judge that ran passed (warnings apart).
    Passed,
    /// At least one verdict fails the run.
    Failed,
    /// Only unsupported cases stand in the way, and they were not allowed.
    Unsupported,
    /// No case was selected, or no check ran.
    NothingRan,
    /// At least one harness error, and no failure of the client's.
    HarnessError,
    /// The user interrupted it; the report is partial.
    Interrupted,
}

impl Conclusion {
    /// What these cases come to. `allow_unsupported` says that what the driver can't do shall not fail the run.
    ///
    /// A failure of the client outweighs everything else that a complete run can come to, since it is the one thing
    /// that has been proven.
    pub fn of(cases: &[CaseReport], allow_unsupported: bool, interrupted: bool) -> Self {
        let verdicts = || cases.iter().flat_map(|case| &case.verdicts);
        let any = |wanted: Verdict| verdicts().any(|judge| judge.verdict == wanted);
        let unsupported = any(Verdict::Unsupported)
            || cases
                .iter()
                .filter_map(|case| case.skipped.as_ref())
                .any(|s| s.verdict == Verdict::Unsupported);
        let check_ran = verdicts().any(|judge| {
            judge.kind == JudgeKind::Check
                && !matches!(judge.verdict, Verdict::Unsupported | Verdict::NotApplicable)
        });
        if interrupted {
            Self::Interrupted
        } else if verdicts().any(|judge| judge.verdict.fails_the_run()) {
            Self::Failed
        } else if any(Verdict::HarnessError) {
            Self::HarnessError
        } else if unsupported && !allow_unsupported {
            Self::Unsupported
        } else if !check_ran {
            Self::NothingRan
        } else {
            Self::Passed
        }
    }

    /// The exit code, see [`exit_code`].
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Passed => exit_code::PASSED,
            Self::Failed => exit_code::FAILED,
            Self::Unsupported => exit_code::UNSUPPORTED,
            Self::NothingRan => exit_code::NOTHING_RAN,
            Self::HarnessError => exit_code::HARNESS_ERROR,
            Self::Interrupted => exit_code::INTERRUPTED,
        }
    }
}

/// Exit codes of the program. They are part of its interface.
pub mod exit_code {
    /// Every judge that ran passed.
    pub const PASSED: u8 = 0;
    /// The client failed at least one judge.
    pub const FAILED: u8 = 1;
    /// The command line, a scenario, a profile or another input file is wrong; nothing was run.
    pub const USAGE: u8 = 2;
    /// An excused failure of the baseline is stale. (Reserved.)
    pub const STALE_BASELINE: u8 = 3;
    /// The harness itself failed; says nothing about the client.
    pub const HARNESS_ERROR: u8 = 4;
    /// No case was selected, or no check ran.
    pub const NOTHING_RAN: u8 = 5;
    /// Cases are unsupported by the driver and were not allowed to be.
    pub const UNSUPPORTED: u8 = 6;
    /// The client could not be started, or its driver broke the driver protocol before the first case.
    pub const CLIENT: u8 = 7;
    /// A report could not be written.
    pub const REPORT: u8 = 8;
    /// Interrupted by the user (128 + SIGINT).
    pub const INTERRUPTED: u8 = 130;

    /// Each code with its meaning, as the documentation has them.
    pub const TABLE: [(u8, &str); 10] = [
        (PASSED, "Every judge that ran passed (warnings do not count)."),
        (FAILED, "The client failed at least one judge, or a judge could not see what it waits for."),
        (USAGE, "The command line, a scenario, a profile or another input file is wrong; nothing was run."),
        (STALE_BASELINE, "Reserved: an excused failure of the baseline is stale."),
        (HARNESS_ERROR, "The harness itself failed; says nothing about the client."),
        (NOTHING_RAN, "No case was selected, or no check ran."),
        (UNSUPPORTED, "Cases need what the driver does not have, and `--allow-unsupported` was not given."),
        (
            CLIENT,
            "The client could not be started, or its driver broke the driver protocol before the first case.",
        ),
        (REPORT, "A report could not be written."),
        (INTERRUPTED, "Interrupted by the user; the report is partial."),
    ];
}
