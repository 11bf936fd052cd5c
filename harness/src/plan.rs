//! Which cases are run, and why others are not.

use crate::dialect;
use crate::driver::Hello;
use globset::GlobMatcher;
use sparring_profiles::ConfigSettings;
use sparring_reports::model::Verdict;
use sparring_scenarios::catalogue;
use sparring_scenarios::op::Op;
use sparring_scenarios::placeholder::{self, Known};
use sparring_scenarios::profile::{Profile, is_always_made};
use sparring_scenarios::scenario::{Check, Scenario, StepAction, parse_revisions};
use sparring_wire::{Revision, Transport};
use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

/// A case: a scenario in one revision over one transport.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// `scenario[revision,transport]`.
    pub id: String,
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// What its servers speak.
    pub revision: Revision,
    /// Over which transport.
    pub transport: Transport,
    /// The dialect in which configuration files are written for the client, where the scenario has some.
    pub dialect: Option<Arc<ConfigSettings>>,
}

impl Case {
    /// The case of a scenario, whether or not the scenario applies there.
    pub fn new(scenario: Arc<Scenario>, revision: Revision, transport: Transport) -> Self {
        let id = format!("{}[{revision},{transport}]", scenario.scenario);
        Self { id, scenario, revision, transport, dialect: None }
    }
}

/// A case, and why it is not run if it is not.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The case.
    pub case: Case,
    /// [`Verdict::Unsupported`] or [`Verdict::NotApplicable`], and the reason.
    pub skip: Option<(Verdict, String)>,
}

/// Which cases are selected. What is empty selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Case ids, or globs over them. Brackets mean themselves, so an id can be pasted as it is; `*`, `?` and `{a,b}`
    /// work. A pattern without a bracket means all cases of the scenarios that it matches.
    pub cases: Vec<String>,
    /// Scenario ids, or globs over them.
    pub scenarios: Vec<String>,
    /// Transports.
    pub transports: Vec<Transport>,
    /// Revisions.
    pub revisions: Vec<Revision>,
    /// A part of the cases.
    pub shard: Option<Shard>,
}

/// The `number`th of `of` parts, from 1. A case is in exactly one of them, always the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1.
    pub number: u32,
    /// Of how many.
    pub of: u32,
}

impl Shard {
    fn holds(self, id: &str) -> bool {
        stable_hash(id) % u64::from(self.of.max(1)) == u64::from(self.number.saturating_sub(1))
    }
}

impl FromStr for Shard {
    type Err = String;

    /// Reads `2/5`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err(format!("`{text}` is no shard; write 2/5 for the second of five")),
        }
    }
}

/// FNV-1a, which is the same everywhere and for ever.
fn stable_hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A selection that can't be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A pattern is malformed.
    #[error("`{pattern}` is no pattern: {why}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// A pattern matches nothing that exists.
    #[error("no {kind} matches `{pattern}`{}", hint.as_ref().map(|h| format!("; did you mean `{h}`?")).unwrap_or_default())]
    MatchesNothing {
        /// `case` or `scenario`.
        kind: &'static str,
        /// The pattern.
        pattern: String,
        /// What may have been meant.
        hint: Option<String>,
    },
    /// The `where` of a scenario can't be read; its lint says so with the place.
    #[error("scenario `{scenario}`: {why}")]
    Scenario {
        /// The scenario.
        scenario: String,
        /// What is wrong with it.
        why: String,
    },
}

/// All cases of the scenarios that the filter selects, in the order of their ids, with the reason for each that this
/// client can't or need not be put through.
///
/// A client is not incomplete without the stateless revision or without HTTP+SSE, which is deprecated: cases of those are
/// planned for drivers that declare them, and where the filter asks for them.
///
/// # Errors
/// A pattern of the filter is malformed or matches nothing, or a scenario's `where` can't be read.
pub fn plan(
    scenarios: &[Arc<Scenario>],
    hello: &Hello,
    profile: Option<&Profile>,
    filter: &Filter,
) -> Result<Vec<Planned>, PlanError> {
    let mut cases = Vec::new();
    let settings = profile.map_or_else(ConfigSettings::default, |profile| profile.settings().config);
    let dialect = Arc::new(settings);
    for scenario in scenarios {
        let filled = profile
            .filter(|_| placeholder::any(scenario))
            .map(|profile| Arc::new(Known { case: None, profile: Some(profile) }.scenario(scenario)));
        let scenario = filled.as_ref().unwrap_or(scenario);
        let configured = operations(scenario).any(|op| matches!(op, Op::Configure(_)));
        for mut case in cases_of(scenario)? {
            case.dialect = configured.then(|| Arc::clone(&dialect));
            cases.push(case);
        }
    }
    let by_case = Patterns::new("case", &filter.cases)?;
    let by_scenario = Patterns::new("scenario", &filter.scenarios)?;
    by_scenario.all_match(
        |p| cases.iter().any(|c| p.matches(&c.scenario.scenario)),
        || scenarios.iter().map(|s| s.scenario.clone()).collect(),
    )?;
    by_case.all_match(
        |p| cases.iter().any(|c| p.matches_case(c)),
        || cases.iter().flat_map(|c| [c.id.clone(), c.scenario.scenario.clone()]).collect(),
    )?;
    cases.retain(|case| {
        is_expected(case, hello, filter)
            && by_case.is_empty_or(|p| p.matches_case(case))
            && by_scenario.is_empty_or(|p| p.matches(&case.scenario.scenario))
            && (filter.transports.is_empty() || filter.transports.contains(&case.transport))
            && (filter.revisions.is_empty() || filter.revisions.contains(&case.revision))
            && filter.shard.is_none_or(|shard| shard.holds(&case.id))
    });
    cases.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(cases
        .into_iter()
        .map(|case| {
            let skip = not_applicable(&case, profile)
                .map(|reason| (Verdict::NotApplicable, reason))
                .or_else(|| unsupported(&case, hello).map(|reason| (Verdict::Unsupported, reason)));
            Planned { case, skip }
        })
        .collect())
}

/// The checks that have something to judge in this case: their requirement holds there, or their promise is made, and
/// they are not restricted to other revisions or transports.
pub fn checks_for<'a>(case: &'a Case, profile: Option<&Profile>) -> Vec<&'a Check> {
    case.scenario.judge.iter().filter(|check| applies(check, case, profile)).collect()
}

fn applies(check: &Check, case: &Case, profile: Option<&Profile>) -> bool {
    let restricted = !check.transports.is_empty() && !check.transports.contains(&case.transport)
        || check.revisions.as_deref().is_some_and(|text| {
            !parse_revisions(text).is_ok_and(|revisions| revisions.contains(&case.revision))
        });
    if restricted {
        return false;
    }
    match (&check.requirement, &check.promise) {
        (Some(id), _) => catalogue::requirement(id).is_some_and(|r| r.holds(case.revision, case.transport)),
        (None, Some(id)) => makes(profile, id, case.transport),
        (None, None) => false,
    }
}

fn makes(profile: Option<&Profile>, needed: &str, transport: Transport) -> bool {
    match profile {
        Some(profile) => profile.makes(needed, transport),
        None => is_always_made(needed),
    }
}

/// The cases of a scenario: each revision of its `where` with each transport that the revision defines.
fn cases_of(scenario: &Arc<Scenario>) -> Result<Vec<Case>, PlanError> {
    let revisions = scenario
        .applies
        .revisions()
        .map_err(|why| PlanError::Scenario { scenario: scenario.scenario.clone(), why })?;
    let mut cases = Vec::new();
    for revision in revisions {
        for &transport in scenario.applies.transports().iter().filter(|&&t| revision.has_transport(t)) {
            cases.push(Case::new(Arc::clone(scenario), revision, transport));
        }
    }
    Ok(cases)
}

/// Whether a client that can't be put through a case lacks something, or the case was asked for.
fn is_expected(case: &Case, hello: &Hello, filter: &Filter) -> bool {
    let asked_by_id = filter.cases.iter().any(|pattern| pattern.contains('['));
    let revision = case.revision.has_handshake()
        || hello.revisions.contains(&case.revision)
        || filter.revisions.contains(&case.revision);
    let transport = case.transport != Transport::SseLegacy
        || hello.transports.contains(&case.transport)
        || filter.transports.contains(&case.transport);
    asked_by_id || revision && transport
}

fn not_applicable(case: &Case, profile: Option<&Profile>) -> Option<String> {
    if let Some(missing) =
        case.scenario.applies.promises.iter().find(|id| !makes(profile, id, case.transport))
    {
        return Some(match profile {
            Some(_) => format!("the profile does not promise `{missing}` over {}", case.transport),
            None => format!("it judges the promise `{missing}`, and no profile was given"),
        });
    }
    if let Some(reason) = profile.and_then(|profile| not_there(case, profile)) {
        return Some(reason);
    }
    // What the profile says has been put in.
    if let Some(missing) = placeholder::promises_of_steps(&case.scenario).first() {
        return Some(match profile {
            Some(_) => format!("the profile does not promise `{missing}`, from which its steps take a value"),
            None => format!("its steps take a value from the promise `{missing}`, and no profile was given"),
        });
    }
    for op in operations(&case.scenario) {
        if let (Op::Configure(configure), Some(own)) = (op, &case.dialect)
            && configure.dialect.is_none()
            && let Some(lacking) = dialect::missing(own, configure).first()
        {
            let lacking = serde_json::to_value(lacking).unwrap_or_default();
            return Some(format!("the host's configuration has no name for {lacking} (`config.keys`)"));
        }
    }
    if checks_for(case, profile).is_empty() {
        return Some(format!(
            "none of its checks has something to judge in {} over {}",
            case.revision, case.transport
        ));
    }
    None
}

/// What the host says that it has not: a transport, a revision, OAuth, progress. Scenarios about that very promise are run.
fn not_there(case: &Case, profile: &Profile) -> Option<String> {
    let scenario = &case.scenario;
    let checked = scenario.judge.iter().filter_map(|check| check.promise.as_ref());
    let about = |promise: &str| {
        checked.clone().chain(&scenario.applies.promises).any(|text| text.starts_with(promise))
    };
    let fields = profile.fields();
    let kinds = fields.transports.kinds.as_ref();
    if kinds.is_some_and(|kinds| !kinds.contains(&case.transport.into())) && !about("transports.kinds") {
        return Some(format!(
            "the host says that it has no transport {} (`transports.kinds`)",
            case.transport
        ));
    }
    if let (Some(offers), Some(accepts)) = (&fields.protocol.offers, &fields.protocol.accepts)
        && case.revision.has_handshake()
        && *offers != case.revision
        && !accepts.contains(&case.revision)
        && !about("protocol.")
    {
        return Some(format!("the host says that it does not speak {} (`protocol.accepts`)", case.revision));
    }
    let needs_oauth = scenario.applies.needs.iter().any(|feature| feature == "oauth");
    if fields.auth.oauth == Some(false) && needs_oauth && !about("auth.oauth") {
        return Some("the host says that it has no OAuth (`auth.oauth`)".to_owned());
    }
    let needs_progress = operations(scenario).any(|op| features_of(op).contains(&"progress"));
    if fields.results.streams == Some(false) && needs_progress && !about("results.streams") {
        return Some("the host says that it passes no progress on (`results.streams`)".to_owned());
    }
    None
}

fn unsupported(case: &Case, hello: &Hello) -> Option<String> {
    if !hello.transports.contains(&case.transport) {
        return Some(format!("the driver lacks the transport {}", case.transport));
    }
    if !hello.revisions.contains(&case.revision) {
        return Some(format!("the driver lacks the revision {}", case.revision));
    }
    let operations: Vec<&Op> = operations(&case.scenario).collect();
    let operation = operations
        .iter()
        .filter(|op| !op.is_harness_own())
        .map(|op| op.name())
        .find(|name| !hello.operations.iter().any(|has| has == name));
    if let Some(operation) = operation {
        return Some(format!("the driver lacks the operation `{operation}`"));
    }
    let mut features: BTreeSet<&str> = case.scenario.applies.needs.iter().map(String::as_str).collect();
    for op in operations {
        features.extend(features_of(op));
    }
    if case.scenario.servers.len() > 1 {
        features.insert("several-servers");
    }
    if case.scenario.clock_scale.is_some() && hello.clock_scale.is_none_or(|scale| scale < 2) {
        features.insert("clock");
    }
    let feature = features.into_iter().find(|feature| !hello.features.iter().any(|has| has == feature));
    feature.map(|feature| format!("the driver lacks the feature `{feature}`"))
}

fn operations(scenario: &Scenario) -> impl Iterator<Item = &Op> {
    scenario.drive.iter().filter_map(|step| match &step.action {
        StepAction::Op(op) => Some(op.as_ref()),
        StepAction::WaitFor(_) => None,
    })
}

/// By how much the client's durations are divided in a scenario: as its driver says, or as the scenario asks a driver
/// that can do it.
pub fn clock_scale(scenario: &Scenario, hello: &Hello) -> u32 {
    let can = hello.features.iter().any(|feature| feature == "clock");
    let asked = scenario.clock_scale.filter(|_| can);
    hello.clock_scale.or(asked).unwrap_or(1).max(1)
}

/// The features that the arguments of an operation ask for.
fn features_of(op: &Op) -> Vec<&'static str> {
    let asked: &[(bool, &str)] = match op {
        Op::Open(open) => &[
            (open.sampling.is_some(), "sampling"),
            (open.elicitation.is_some(), "elicitation"),
            (open.roots.is_some(), "roots"),
            (open.backoff_ms.is_some(), "restart"),
            (!open.headers.is_empty(), "headers"),
            (open.client_id.is_some(), "oauth"),
            (!open.entries.is_empty(), "entries"),
            (open.cwd.is_some() || open.project.is_some() || !open.env.is_empty(), "surroundings"),
            (!open.set.is_empty(), "settings"),
            (open.config, "config"),
            (open.idle, "idle"),
            (open.agent.is_some(), "agents"),
        ],
        Op::Call(call) => &[
            (call.timeout_ms.is_some(), "call-timeout"),
            (call.progress, "progress"),
            (call.agent.is_some(), "agents"),
        ],
        Op::Control(control) => &[
            (control.agent.is_some(), "agents"),
            (control.what == sparring_scenarios::op::Controlled::Set, "settings"),
        ],
        Op::Inspect(inspect) => &[(inspect.agent.is_some(), "agents")],
        Op::Signal(_) => &[(true, "process")],
        Op::Tools(of)
        | Op::Resources(of)
        | Op::Templates(of)
        | Op::Prompts(of)
        | Op::Ping(of)
        | Op::Close(of) => &[(of.agent.is_some(), "agents")],
        Op::SetRoots(_) => &[(true, "roots")],
        _ => &[],
    };
    asked.iter().filter(|(asked, _)| *asked).map(|&(_, feature)| feature).collect()
}

struct Patterns {
    kind: &'static str,
    patterns: Vec<IdPattern>,
}

struct IdPattern {
    text: String,
    glob: GlobMatcher,
}

impl IdPattern {
    fn matches(&self, id: &str) -> bool {
        self.text == id || self.glob.is_match(id)
    }

    fn matches_case(&self, case: &Case) -> bool {
        self.matches(&case.id) || !self.text.contains('[') && self.matches(&case.scenario.scenario)
    }
}

impl Patterns {
    fn new(kind: &'static str, texts: &[String]) -> Result<Self, PlanError> {
        let patterns = texts.iter().map(|text| {
            let literal = text.replace('[', "\\[").replace(']', "\\]");
            let glob = globset::GlobBuilder::new(&literal)
                .backslash_escape(true)
                .build()
                .map_err(|e| PlanError::Pattern { pattern: text.clone(), why: e.kind().to_string() })?;
            Ok(IdPattern { text: text.clone(), glob: glob.compile_matcher() })
        });
        Ok(Self { kind, patterns: patterns.collect::<Result<_, PlanError>>()? })
    }

    fn is_empty_or(&self, matches: impl Fn(&IdPattern) -> bool) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(matches)
    }

    fn all_match(
        &self,
        matches: impl Fn(&IdPattern) -> bool,
        known: impl Fn() -> Vec<String>,
    ) -> Result<(), PlanError> {
        match self.patterns.iter().find(|pattern| !matches(pattern)) {
            None => Ok(()),
            Some(lost) => Err(PlanError::MatchesNothing {
                kind: self.kind,
                pattern: lost.text.clone(),
                hint: sparring_scenarios::diagnostic::nearest(&lost.text, known().iter().map(String::as_str))
                    .map(str::to_owned),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparring_scenarios::op::{FEATURES, OPERATIONS};

    fn scenario(id: &str, rest: &str) -> Arc<Scenario> {
        let text = format!(
            "scenario: {id}\nversion: 1\nabout: Words.\nserver: {{}}\n{rest}\ndrive:\n  - open:\n  - call: {{ tool: echo }}\n"
        );
        let judge = if rest.contains("judge:") {
            ""
        } else {
            "judge:\n  - { check: one, requirement: lifecycle-initialize-first, expect: { request: initialize } }\n"
        };
        let file = format!("{id}.yaml");
        let loaded =
            sparring_scenarios::load::parse(file.clone(), file, format!("{text}{judge}").into()).unwrap();
        loaded.scenario
    }

    fn able() -> Hello {
        Hello {
            operations: OPERATIONS.map(str::to_owned).to_vec(),
            transports: Transport::ALL.to_vec(),
            revisions: Revision::ALL.to_vec(),
            features: FEATURES.map(str::to_owned).to_vec(),
            ..Hello::default()
        }
    }

    fn ids(planned: &[Planned]) -> Vec<&str> {
        planned.iter().map(|p| p.case.id.as_str()).collect()
    }

    fn only(filter: &[&str]) -> Filter {
        Filter { cases: filter.iter().map(|&s| s.to_owned()).collect(), ..Filter::default() }
    }

    #[test]
    fn a_scenario_has_a_case_for_each_revision_and_each_transport_that_it_defines() {
        let all = plan(&[scenario("a.b", "")], &able(), None, &Filter::default()).unwrap();
        assert_eq!(
            ids(&all),
            [
                "a.b[2024-11-05,sse-legacy]",
                "a.b[2024-11-05,stdio]",
                "a.b[2025-03-26,http]",
                "a.b[2025-03-26,stdio]",
                "a.b[2025-06-18,http]",
                "a.b[2025-06-18,stdio]",
                "a.b[2025-11-25,http]",
                "a.b[2025-11-25,stdio]",
                "a.b[2026-07-28,http]",
                "a.b[2026-07-28,stdio]",
            ]
        );
        // Its only check is about the handshake.
        let skipped: Vec<_> = all.iter().filter(|p| p.skip.is_some()).map(|p| p.case.revision).collect();
        assert_eq!(skipped, [Revision::V2026_07_28; 2]);
        let some = scenario("a.b", "where: { transports: [http], revisions: 2025-11-25.. }");
        assert_eq!(
            ids(&plan(&[some], &able(), None, &Filter::default()).unwrap()),
            ["a.b[2025-11-25,http]", "a.b[2026-07-28,http]"]
        );
        let old = scenario("a.b", "where: { transports: [sse-legacy] }");
        assert_eq!(
            ids(&plan(&[old], &able(), None, &Filter::default()).unwrap()),
            ["a.b[2024-11-05,sse-legacy]"]
        );
    }

    #[test]
    fn an_id_can_be_pasted_and_patterns_select() {
        let scenarios = [scenario("a.b", ""), scenario("a.bc", ""), scenario("d.e", "")];
        let count = |patterns: &[&str]| plan(&scenarios, &able(), None, &only(patterns)).map(|p| p.len());
        assert_eq!(count(&["a.b[2025-11-25,http]"]), Ok(1));
        assert_eq!(count(&["a.b[2025-11-25,*]"]), Ok(2));
        assert_eq!(count(&["a.b"]), Ok(10));
        assert_eq!(count(&["a.*"]), Ok(20));
        assert_eq!(count(&["*[*,stdio]"]), Ok(15));
        assert_eq!(count(&["{a.b,d.e}[2024-11-05,stdio]"]), Ok(2));
        assert_eq!(count(&["a.b", "d.e[2024-11-05,stdio]"]), Ok(11));
        let filter = Filter { scenarios: vec!["d.*".into()], transports: vec![Transport::Http], ..only(&[]) };
        assert_eq!(plan(&scenarios, &able(), None, &filter).unwrap().len(), 4);
        let filter = Filter { revisions: vec![Revision::V2024_11_05], ..only(&[]) };
        assert_eq!(plan(&scenarios, &able(), None, &filter).unwrap().len(), 6);
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_an_error_that_names_it() {
        let scenarios = [scenario("tools.pagination", "")];
        let e = plan(&scenarios, &able(), None, &only(&["tools.*", "tools.pagnation"])).unwrap_err();
        assert_eq!(e.to_string(), "no case matches `tools.pagnation`; did you mean `tools.pagination`?");
        let e = plan(&scenarios, &able(), None, &only(&["tools.pagination[2024-11-05,http]"])).unwrap_err();
        assert!(matches!(e, PlanError::MatchesNothing { kind: "case", .. }));
        let filter = Filter { scenarios: vec!["x".into()], ..only(&[]) };
        assert_eq!(
            plan(&scenarios, &able(), None, &filter).unwrap_err().to_string(),
            "no scenario matches `x`"
        );
        let e = plan(&scenarios, &able(), None, &only(&["{a"])).unwrap_err();
        assert!(e.to_string().contains("is no pattern"), "{e}");
    }

    #[test]
    fn what_the_driver_lacks_is_unsupported_with_the_reason() {
        let reason = |rest: &str, lacking: &dyn Fn(&mut Hello)| {
            let mut hello = able();
            lacking(&mut hello);
            let case = only(&["a.b[2025-11-25,stdio]"]);
            let planned = plan(&[scenario("a.b", rest)], &hello, None, &case).unwrap();
            match planned[0].skip.clone() {
                Some((Verdict::Unsupported, reason)) => reason,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            reason("", &|h| h.operations.retain(|o| o != "call")),
            "the driver lacks the operation `call`"
        );
        assert_eq!(
            reason("", &|h| h.transports = vec![Transport::Http]),
            "the driver lacks the transport stdio"
        );
        assert_eq!(reason("", &|h| h.revisions.truncate(2)), "the driver lacks the revision 2025-11-25");
        let needs = "where: { needs: [oauth] }";
        assert_eq!(
            reason(needs, &|h| h.features.retain(|f| f != "oauth")),
            "the driver lacks the feature `oauth`"
        );
    }

    #[test]
    fn the_stateless_revision_and_the_old_transport_are_not_asked_of_everyone() {
        let mut hello = able();
        hello.transports.retain(|t| *t != Transport::SseLegacy);
        hello.revisions.retain(|r| r.has_handshake());
        let scenarios = [scenario("a.b", "")];
        let count = |filter: &Filter| plan(&scenarios, &hello, None, filter).unwrap().len();
        assert_eq!(count(&Filter::default()), 7);
        assert_eq!(count(&only(&["a.b"])), 7);
        assert_eq!(count(&only(&["a.b[*]"])), 10);
        let filter = Filter { revisions: vec![Revision::STATELESS], ..only(&[]) };
        assert_eq!(count(&filter), 2);
        let filter = Filter { transports: vec![Transport::SseLegacy], ..only(&[]) };
        let planned = plan(&scenarios, &hello, None, &filter).unwrap();
        assert_eq!(planned[0].skip.as_ref().map(|s| s.0), Some(Verdict::Unsupported));
    }

    #[test]
    fn features_follow_from_the_operations_arguments() {
        let call = Op::Call(sparring_scenarios::op::Call { progress: true, ..Default::default() });
        assert_eq!(features_of(&call), ["progress"]);
        let open = Op::Open(sparring_scenarios::op::Open { roots: Some(vec![]), ..Default::default() });
        assert_eq!(features_of(&open), ["roots"]);
    }

    #[test]
    fn what_is_not_promised_or_not_required_is_not_applicable() {
        let promise = "judge:\n  - { check: one, promise: naming.max_len, expect: { request: initialize } }";
        let one = only(&["a.b[2025-11-25,stdio]"]);
        let skip = |rest: &str, profile: Option<&Profile>| {
            plan(&[scenario("a.b", rest)], &able(), profile, &one).unwrap()[0].skip.clone().map(|s| s.0)
        };
        let makes_it = Profile::parse("p", "[naming]\nmax_len = 64\n").unwrap();
        assert_eq!(skip(promise, None), Some(Verdict::NotApplicable));
        assert_eq!(skip(promise, Some(&Profile::default())), Some(Verdict::NotApplicable));
        assert_eq!(skip(promise, Some(&makes_it)), None);
        let valued = "where: { promises: [naming.max_len = 48] }";
        assert_eq!(skip(valued, Some(&makes_it)), Some(Verdict::NotApplicable));
        let other_revision =
            "judge:\n  - { check: one, requirement: jsonrpc-batch-receive, expect: { request: initialize } }";
        assert_eq!(skip(other_revision, None), Some(Verdict::NotApplicable));
        let driver =
            "judge:\n  - { check: one, promise: driver.completes, expect: { step: call, outcome: ok } }";
        assert_eq!(skip(driver, None), None);
    }

    #[test]
    fn checks_are_those_that_hold_in_the_case() {
        let rest = "judge:
  - { check: everywhere, requirement: lifecycle-initialize-first, expect: { request: initialize } }
  - { check: batches, requirement: jsonrpc-batch-receive, expect: { request: initialize } }
  - { check: stdio-only, requirement: lifecycle-initialize-first, transports: [stdio], expect: { request: initialize } }
  - { check: late, requirement: lifecycle-initialize-first, revisions: 2025-11-25.., expect: { request: initialize } }";
        let scenario = scenario("a.b", rest);
        let names = |revision, transport| -> Vec<String> {
            let case = Case::new(Arc::clone(&scenario), revision, transport);
            checks_for(&case, None).iter().map(|c| c.check.clone()).collect()
        };
        assert_eq!(names(Revision::V2025_03_26, Transport::Http), ["everywhere", "batches"]);
        assert_eq!(names(Revision::V2025_11_25, Transport::Stdio), ["everywhere", "stdio-only", "late"]);
    }

    #[test]
    fn shards_are_disjoint_and_together_everything() {
        let scenarios: Vec<_> = ["a.b", "a.c", "d.e"].map(|id| scenario(id, "")).to_vec();
        let whole = plan(&scenarios, &able(), None, &Filter::default()).unwrap();
        let mut parts = Vec::new();
        for number in 1..=3 {
            let filter = Filter { shard: Some(Shard { number, of: 3 }), ..Filter::default() };
            parts.extend(plan(&scenarios, &able(), None, &filter).unwrap());
        }
        parts.sort_by(|a, b| a.case.id.cmp(&b.case.id));
        assert_eq!(parts, whole);
        // The part a case is in must not change from release to release.
        assert_eq!(stable_hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!("2/5".parse(), Ok(Shard { number: 2, of: 5 }));
        assert!(
            "0/5".parse::<Shard>().is_err()
                && "6/5".parse::<Shard>().is_err()
                && "x".parse::<Shard>().is_err()
        );
    }
}
