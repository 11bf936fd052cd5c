//! The codes of diagnostics: what can be wrong with an input file, each under a stable word.

use serde::{Serialize, Serializer};
use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file is not used.
    Error,
    /// The file is used, and most likely does not do what was meant.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $about:literal])+ $name:ident = $word:literal $severity:ident;)+) => {
        /// What is wrong, as a stable word such as `unknown-key`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $($(#[doc = $about])+ $name,)+
        }

        impl Code {
            /// All codes, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The word.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// What it means, in a sentence or two.
            pub fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($about,)+).trim_start(),)+ }
            }

            /// How bad it is.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)+ }
            }
        }
    };
}

codes! {
    // ---- the file ----
    /// The file or folder can't be read.
    Unreadable = "unreadable" Error;
    /// The file is larger than 1 MiB, or than 64 MiB if it is a script.
    TooLarge = "too-large" Error;
    /// The file is not UTF-8.
    NotUtf8 = "not-utf8" Error;
    /// The folder has no file with the ending `.yaml`.
    NoFiles = "no-files" Error;
    /// The file is not YAML, or uses a part of YAML that these files don't.
    Yaml = "yaml" Error;
    /// Anchors and aliases are not used.
    Anchor = "anchor" Error;
    /// Tags are not used.
    Tag = "tag" Error;
    /// Merge keys (`<<`) are not used.
    MergeKey = "merge-key" Error;
    /// A key occurs twice in one map, in the file or in JSON text inside it.
    DuplicateKey = "duplicate-key" Error;
    // ---- the words ----
    /// There is no such key here.
    UnknownKey = "unknown-key" Error;
    /// There is no such word here.
    UnknownWord = "unknown-word" Error;
    /// A key that is needed is not there.
    MissingKey = "missing-key" Error;
    /// The value is of another type than is expected.
    Type = "type" Error;
    /// The value has the right type and no meaning.
    Value = "value" Error;
    /// The text has to be JSON and is not.
    Json = "json" Error;
    // ---- the scenario ----
    /// The id is not lower-case words with dots and dashes, or does not fit to the file's place.
    ScenarioId = "scenario-id" Error;
    /// Two files have the same id.
    DuplicateId = "duplicate-id" Error;
    /// Versions count from 1.
    Version = "version" Error;
    /// `about` says nothing.
    About = "about" Error;
    /// A scenario has either `server` or `servers`.
    Servers = "servers" Error;
    /// The twin is not there, or is the scenario itself.
    Twin = "twin" Error;
    /// A deadline is out of bounds, or a step waits as long as the case may take.
    Deadline = "deadline" Error;
    /// The revisions are none, or not written as one or a range.
    Revisions = "revisions" Error;
    /// A transport is in none of the scenario's revisions.
    Transports = "transports" Error;
    /// Drivers have no such feature.
    UnknownFeature = "unknown-feature" Error;
    /// The catalogue has no such promise.
    UnknownPromise = "unknown-promise" Error;
    /// The value after a promise's id is not TOML.
    PromiseValue = "promise-value" Error;
    // ---- servers ----
    /// A word means something only on another transport than those of the scenario, or than the rule's trigger.
    TransportFits = "transport-fits" Error;
    /// A rule has nothing in `do`.
    NoActions = "no-actions" Error;
    /// There is no such placeholder.
    Placeholder = "placeholder" Error;
    /// A rule before this one takes every event that this one could.
    ShadowedRule = "shadowed-rule" Warning;
    /// The event does not happen that often.
    UnreachableNth = "unreachable-nth" Warning;
    /// A rule or a hold asks for a state that nothing sets, or a counter that nothing counts.
    UnreachableState = "unreachable-state" Warning;
    /// An action stands after one that ends the server.
    DeadAction = "dead-action" Warning;
    /// A rule asks for a tool, resource or prompt that its server does not have.
    UnmatchedParams = "unmatched-params" Warning;
    // ---- steps ----
    /// A scenario has at least one step.
    NoSteps = "no-steps" Error;
    /// The step can't be done this way.
    Step = "step" Error;
    /// Two steps, or two rules of a server, have the same label.
    Label = "label" Error;
    /// There is no such step, it comes later, or it is over already.
    UnknownStep = "unknown-step" Error;
    /// The scenario has no such server.
    UnknownServer = "unknown-server" Error;
    /// No server has such a tool, and the step expects success.
    UnknownTool = "unknown-tool" Error;
    /// No server has such a resource, and the step expects success.
    UnknownResource = "unknown-resource" Error;
    /// No server has such a prompt, and the step expects success.
    UnknownPrompt = "unknown-prompt" Error;
    // ---- checks ----
    /// A scenario has at least one check.
    NoChecks = "no-checks" Error;
    /// A check's name is not lower-case words with dashes, or another check has it.
    CheckName = "check-name" Error;
    /// A check of a built-in scenario names a mutant that fails it; names are lower-case words with dashes.
    KilledBy = "killed-by" Error;
    /// There is no such mutant.
    UnknownMutant = "unknown-mutant" Error;
    /// A check rests on exactly one of `requirement` and `promise`.
    Basis = "basis" Error;
    /// The catalogue has no such requirement.
    UnknownRequirement = "unknown-requirement" Error;
    /// The check, or its requirement, holds in no case of the scenario.
    NeverApplies = "never-applies" Error;
    /// A check has exactly one of `expect`, `never`, `count`, `each`, `order` and `spacing`.
    Judgement = "judgement" Error;
    /// A check that nothing happens has `after`, and its scenario a `twin`: else silence would pass.
    NegativeCheck = "negative-check" Error;
    /// A success would be taken on the driver's word alone.
    WordAlone = "word-alone" Error;
    /// The numbers leave nothing, or everything, or count from 0.
    Counts = "counts" Error;
    /// A duration is judged by a requirement that says nothing about time.
    Time = "time" Error;
    // ---- patterns ----
    /// A pattern has exactly one head.
    PatternHead = "pattern-head" Error;
    /// The restriction does not fit to the pattern's head.
    PatternRestriction = "pattern-restriction" Error;
    /// An operator in JSON to compare with does not exist, or has the wrong operand.
    JsonPattern = "json-pattern" Error;
    /// Names of header fields are written in lower case.
    HeaderName = "header-name" Error;
    /// There is no such method, or it is of the other kind.
    UnknownMethod = "unknown-method" Error;
    /// No rule has this label.
    UnknownRule = "unknown-rule" Error;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}
