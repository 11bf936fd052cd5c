//! A run as its front ends have it: plan, run, judge, report. The program, the `cargo test` front and the mutation
//! matrix are built on it.

use crate::driver::{Driver, DriverError, Hello};
use crate::judge::{self, Facts};
use crate::plan::{self, Case, Filter, PlanError, Planned};
use crate::run::{self, CaseRun, Ending, Stop, schedule};
use sparring_reports::model::{
    Basis, BasisKind, CaseReport, ClientInfo, Conclusion, FORMAT_VERSION, JudgeKind, JudgeReport, Level,
    RunReport, Skipped, Verdict,
};
use sparring_scenarios::placeholder::{self, Known};
use sparring_scenarios::profile::Profile;
use sparring_scenarios::scenario::{Check, Scenario};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// Everything that stays the same over a run.
pub struct Session {
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// What it said of its client.
    pub hello: Hello,
    /// The scenarios to choose from.
    pub scenarios: Vec<Arc<Scenario>>,
    /// The client's profile, with its name.
    pub profile: Option<Profile>,
    /// The words of the command line that select this client, for the line that runs a case again: what stands between
    /// `--case ID` and the end.
    pub again: String,
}

/// How a run goes, apart from how cases are run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Unsupported cases don't fail the run.
    pub allow_unsupported: bool,
}

/// A run and what went wrong beside it.
#[derive(Debug)]
pub struct Finished {
    /// The report.
    pub report: RunReport,
    /// Cases whose repetitions do not agree, with what differs. A fault of the harness's, until proven otherwise.
    pub flaky: Vec<String>,
    /// Transcripts that could not be written.
    pub errors: Vec<String>,
}

impl Session {
    /// Asks the driver for its client.
    ///
    /// # Errors
    /// The client can't be started, or breaks the driver protocol.
    pub async fn open(
        driver: Arc<dyn Driver>,
        scenarios: Vec<Arc<Scenario>>,
        profile: Option<Profile>,
        again: String,
    ) -> Result<Self, DriverError> {
        let hello = driver.hello().await?;
        Ok(Self { driver, hello, scenarios, profile, again })
    }

    /// The cases, with the reason for each that is not run.
    ///
    /// # Errors
    /// The filter can't be meant.
    pub fn plan(&self, filter: &Filter) -> Result<Vec<Planned>, PlanError> {
        plan::plan(&self.scenarios, &self.hello, self.profile.as_ref(), filter)
    }

    /// Runs what is planned and judges it. `finished` sees each case as it ends.
    pub async fn run(
        self: &Arc<Self>,
        planned: Vec<Planned>,
        settings: run::Settings,
        options: Options,
        stop: &Stop,
        finished: impl Fn(&CaseReport) + Send + Sync + 'static,
    ) -> Finished {
        let (began, started) = (Instant::now(), chrono::Utc::now());
        let (seed, repeat) = (settings.seed, settings.repeat);
        // The report stands beside this folder.
        let kept_in = settings.transcripts.as_deref().map(|folder| {
            folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        });
        let (skipped, to_run): (Vec<_>, Vec<_>) = planned.into_iter().partition(|p| p.skip.is_some());
        let session = Arc::clone(self);
        let outcome = schedule::run_all(
            to_run.into_iter().map(|p| p.case).collect(),
            Arc::clone(&self.driver),
            self.hello.clone(),
            settings,
            stop,
            move |job, run| {
                let mut report = session.judge(&job.case, &run)?;
                report.transcript =
                    kept_in.as_ref().map(|folder| format!("{folder}/{}", schedule::transcript_name(job)));
                if repeat > 1 {
                    report.id = format!("{}#{}", report.id, job.round);
                }
                finished(&report);
                Some(report)
            },
        )
        .await;
        let interrupted = stop.is_asked();
        let mut cases: Vec<CaseReport> = outcome.done.into_iter().flatten().collect();
        cases.extend(skipped.into_iter().map(|planned| self.skipped(planned)));
        cases.sort_by(|a, b| a.id.cmp(&b.id));
        let flaky = disagreements(&cases);
        let mut conclusion = Conclusion::of(&cases, options.allow_unsupported, interrupted);
        if !flaky.is_empty() && conclusion == Conclusion::Passed {
            conclusion = Conclusion::HarnessError;
        }
        let report = RunReport {
            format_version: FORMAT_VERSION,
            sparring_version: env!("CARGO_PKG_VERSION").to_owned(),
            client: ClientInfo {
                name: self.hello.name.clone(),
                version: self.hello.version.clone(),
                driver: self.driver.kind().to_owned(),
                command: self.driver.command(),
                profile: self.profile.as_ref().and_then(|p| p.name().map(str::to_owned)),
            },
            started: started.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            seed,
            conclusion,
            cases,
        };
        Finished { report, flaky, errors: outcome.errors }
    }

    /// Judges a case that was run; `None` if there is nothing to judge, since the run was interrupted.
    fn judge(&self, case: &Case, run: &CaseRun) -> Option<CaseReport> {
        if run.ending == Ending::Interrupted {
            return None;
        }
        let (scenario, left_out) = if run.steps_driven {
            (Arc::clone(&case.scenario), Vec::new())
        } else {
            without_steps(&case.scenario)
        };
        let scenario = match placeholder::any(&scenario) {
            true => Arc::new(Known { case: Some(&run.folder), profile: None }.scenario(&scenario)),
            false => scenario,
        };
        let facts = Facts {
            case: &case.id,
            scenario: &scenario,
            revision: case.revision,
            transport: case.transport,
            profile: self.profile.as_ref(),
            floor: run.floor.map(|floor| judge::Floor { latest_us: floor.latest_us }),
            clock_scale: run.clock_scale,
        };
        let mut verdicts = judge::judge(&facts, &run.transcript);
        let here: BTreeSet<_> =
            plan::checks_for(case, self.profile.as_ref()).into_iter().map(|c| c.check.as_str()).collect();
        verdicts.extend(
            left_out.iter().filter(|c| here.contains(c.check.as_str())).map(|c| needs_steps(case, c)),
        );
        let mut report = self.blank(case);
        report.took_ms = u64::try_from(run.took.as_millis()).unwrap_or(u64::MAX);
        report.verdicts = verdicts;
        Some(report)
    }

    fn skipped(&self, planned: Planned) -> CaseReport {
        let mut report = self.blank(&planned.case);
        report.skipped = planned.skip.map(|(verdict, reason)| Skipped { verdict, reason });
        report
    }

    fn blank(&self, case: &Case) -> CaseReport {
        CaseReport {
            id: case.id.clone(),
            scenario: case.scenario.scenario.clone(),
            about: case.scenario.about.clone(),
            revision: case.revision.to_string(),
            transport: case.transport.to_string(),
            skipped: None,
            took_ms: 0,
            verdicts: Vec::new(),
            transcript: None,
            again: format!("sparring run --case '{}'{}", case.id, self.again),
        }
    }
}

/// The scenario without the checks that name a step, and those checks.
fn without_steps(scenario: &Arc<Scenario>) -> (Arc<Scenario>, Vec<Check>) {
    let mut reduced = Scenario::clone(scenario);
    let (needs, rest) = reduced.judge.into_iter().partition(names_a_step);
    reduced.judge = rest;
    (Arc::new(reduced), needs)
}

fn names_a_step(check: &Check) -> bool {
    let patterns = check
        .when
        .iter()
        .chain(&check.after)
        .chain(&check.until)
        .chain(&check.expect)
        .chain(&check.never)
        .chain(&check.order);
    let nested = check.count.iter().map(|c| &c.of);
    let each = check.each.iter().flat_map(|e| std::iter::once(&e.of).chain(&e.are));
    let spacing = check.spacing.iter().flat_map(|s| [&s.from, &s.to]);
    patterns.chain(nested).chain(each).chain(spacing).any(|p| p.step.is_some() || p.driver_event.is_some())
}

fn needs_steps(case: &Case, check: &Check) -> JudgeReport {
    let id = check.requirement.as_ref().or(check.promise.as_ref()).cloned().unwrap_or_default();
    let requirement = sparring_scenarios::catalogue::requirement(&id);
    JudgeReport {
        judge: format!("{}/{}", case.scenario.scenario, check.check),
        kind: JudgeKind::Check,
        verdict: Verdict::NotApplicable,
        basis: Basis {
            kind: if requirement.is_some() { BasisKind::Requirement } else { BasisKind::Promise },
            level: requirement.map_or(Level::Promise, |r| judge::level(r.level)),
            text: requirement.map_or_else(String::new, |r| r.text.clone()),
            source: requirement.map(|r| r.source.clone()),
            id,
        },
        reason: Some(
            "this driver runs the client as a whole, and the check needs the outcome of a single step".into(),
        ),
        prerequisite: None,
        expected: None,
        actual: Vec::new(),
    }
}

/// Cases whose repetitions came to different verdicts.
fn disagreements(cases: &[CaseReport]) -> Vec<String> {
    let mut by_case: BTreeMap<&str, Vec<&CaseReport>> = BTreeMap::new();
    for case in cases {
        if let Some((id, _)) = case.id.rsplit_once('#') {
            by_case.entry(id).or_default().push(case);
        }
    }
    let mut found = Vec::new();
    for (id, rounds) in by_case {
        let mut verdicts: BTreeMap<&str, BTreeMap<Verdict, usize>> = BTreeMap::new();
        for verdict in rounds.iter().flat_map(|case| &case.verdicts) {
            *verdicts.entry(&verdict.judge).or_default().entry(verdict.verdict).or_default() += 1;
        }
        for (judge, counts) in verdicts {
            let told: usize = counts.values().sum();
            // A machine too busy to tell in one round says nothing against the verdict of another. Nor does a monitor
            // that had no occasion against one that passed: what a client does in the background, such as opening a
            // stream, may come to pass before the case is over or not.
            let silent = |v: Verdict| {
                v == Verdict::Inconclusive
                    || v == Verdict::NotApplicable && counts.contains_key(&Verdict::Pass)
            };
            let decided = counts.keys().filter(|v| !silent(**v)).count();
            if decided > 1 || told != rounds.len() {
                let each: Vec<String> = counts.iter().map(|(v, n)| format!("{} × {}", n, v.word())).collect();
                found.push(format!("{id}: {judge}: {} in {} runs", each.join(", "), rounds.len()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(number: u32, verdict: Verdict) -> CaseReport {
        let basis = Basis {
            id: "x".into(),
            kind: BasisKind::Requirement,
            level: Level::Must,
            text: String::new(),
            source: None,
        };
        CaseReport {
            id: format!("a.b[2025-11-25,stdio]#{number}"),
            scenario: "a.b".into(),
            about: String::new(),
            revision: "2025-11-25".into(),
            transport: "stdio".into(),
            skipped: None,
            took_ms: 1,
            verdicts: vec![JudgeReport {
                judge: "a.b/c".into(),
                kind: JudgeKind::Check,
                verdict,
                basis,
                reason: None,
                prerequisite: None,
                expected: None,
                actual: Vec::new(),
            }],
            transcript: None,
            again: String::new(),
        }
    }

    fn differ(verdicts: &[Verdict]) -> bool {
        let rounds: Vec<_> = (1..).zip(verdicts).map(|(n, v)| round(n, *v)).collect();
        !disagreements(&rounds).is_empty()
    }

    #[test]
    fn repetitions_disagree_when_one_says_what_another_denies() {
        use Verdict::*;
        for verdicts in
            [&[Pass, Fail][..], &[Pass, Warn], &[Pass, NotTestable], &[Fail, NotApplicable], &[Pass, Timeout]]
        {
            assert!(differ(verdicts), "{verdicts:?}");
        }
        for verdicts in [
            &[Pass, Pass][..],
            &[Fail, Fail],
            &[Pass, Inconclusive],
            &[Pass, NotApplicable],
            &[NotApplicable],
        ] {
            assert!(!differ(verdicts), "{verdicts:?}");
        }
        let mut missing = vec![round(1, Pass), round(2, Pass)];
        missing[1].verdicts.clear();
        assert!(!disagreements(&missing).is_empty(), "a judge that says nothing in one round");
    }
}
