//! The matrix: which mutant fails which judge. A judge that no mutant fails is a survivor.

use super::{Fault, Mutant, mutants};
use crate::cli::{MutantsArgs, Trouble};
use crate::driver::{Driver, DriverError};
use crate::drivers::Builtin;
use crate::judge::monitors;
use crate::plan::{Filter, PlanError, Planned};
use crate::run::{Settings, Stop};
use crate::session::{Options, Session};
use globset::Glob;
use sparring_reports::model::{CaseReport, Verdict, exit_code};
use sparring_scenarios::load;
use sparring_scenarios::profile::Profile;
use sparring_scenarios::scenario::Scenario;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// A judge that a mutant failed, with the case that shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kill {
    /// The judge.
    pub judge: String,
    /// The mutant.
    pub mutant: &'static str,
    /// The first case in which it did.
    pub case: String,
}

/// What the mutants showed.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// The judges, with the mutants that are said to fail them.
    pub claimed: BTreeMap<String, BTreeSet<String>>,
    /// What was seen.
    pub kills: BTreeSet<Kill>,
    /// Mutants that were run.
    pub run: Vec<&'static str>,
    /// Cases that were run.
    pub cases: usize,
    /// Judges that fail the unchanged reference client, with a case.
    pub false_alarms: Vec<(String, String)>,
    /// What went wrong on our side.
    pub trouble: Vec<String>,
}

impl Matrix {
    fn killers(&self, judge: &str) -> BTreeSet<&'static str> {
        self.kills.iter().filter(|k| k.judge == judge).map(|k| k.mutant).collect()
    }

    /// Judges that nothing failed.
    pub fn survivors(&self) -> Vec<&str> {
        let judges = self.claimed.keys().map(String::as_str);
        judges.filter(|judge| self.killers(judge).is_empty()).collect()
    }

    /// Judge and mutant, where the one is said to be failed by the other and was not.
    pub fn broken_claims(&self) -> Vec<(&str, &str)> {
        let mut broken = Vec::new();
        for (judge, said) in &self.claimed {
            let seen = self.killers(judge);
            broken.extend(
                said.iter()
                    .filter(|m| self.run.contains(&m.as_str()) && !seen.contains(m.as_str()))
                    .map(|m| (judge.as_str(), m.as_str())),
            );
        }
        broken
    }

    /// Mutants that were run and failed nothing.
    pub fn harmless(&self) -> Vec<&'static str> {
        let harmful: BTreeSet<_> = self.kills.iter().map(|k| k.mutant).collect();
        self.run.iter().copied().filter(|m| !harmful.contains(m)).collect()
    }

    /// Whether every judge was failed by every mutant that is said to fail it, and the unchanged client by none.
    pub fn is_sound(&self) -> bool {
        self.survivors().is_empty()
            && self.broken_claims().is_empty()
            && self.harmless().is_empty()
            && self.false_alarms.is_empty()
            && self.trouble.is_empty()
    }

    fn render(&self) -> String {
        let mut text = String::new();
        for judge in self.claimed.keys() {
            let said = &self.claimed[judge];
            let killers = self.killers(judge);
            let list = |mutants: Vec<&str>| {
                if mutants.is_empty() { "nothing".to_owned() } else { mutants.join(", ") }
            };
            let own: Vec<&str> = killers.iter().copied().filter(|m| said.contains(*m)).collect();
            let others = killers.len() - own.len();
            let _ = write!(text, "{judge}\n    failed by {}", list(own));
            let _ = match others {
                0 => writeln!(text),
                n => writeln!(text, ", and {n} more"),
            };
        }
        for (judge, mutant) in self.broken_claims() {
            let _ = writeln!(text, "NOT KILLED     {judge} passes `{mutant}`, which should fail it");
        }
        for judge in self.survivors() {
            let _ = writeln!(text, "SURVIVOR       {judge} is failed by no mutant");
        }
        for mutant in self.harmless() {
            let _ = writeln!(text, "HARMLESS       `{mutant}` fails nothing");
        }
        for (judge, case) in &self.false_alarms {
            let _ = writeln!(text, "FALSE ALARM    {judge} fails the unchanged reference client in {case}");
        }
        for trouble in &self.trouble {
            let _ = writeln!(text, "TROUBLE        {trouble}");
        }
        let _ = writeln!(
            text,
            "{} judges × {} mutants in {} cases: {}",
            self.claimed.len(),
            self.run.len(),
            self.cases,
            if self.is_sound() { "every judge can fail" } else { "not sound" }
        );
        text
    }
}

/// What a mutant has to be put through, and what is said of it.
struct Work {
    scenarios: Vec<Arc<Scenario>>,
    claimed: BTreeMap<String, BTreeSet<String>>,
    by_mutant: BTreeMap<String, BTreeSet<String>>,
}

impl Work {
    fn new(scenarios: Vec<Arc<Scenario>>) -> Self {
        let mut work = Self { scenarios, claimed: BTreeMap::new(), by_mutant: BTreeMap::new() };
        for scenario in &work.scenarios {
            for check in &scenario.judge {
                let id = format!("{}/{}", scenario.scenario, check.check);
                work.claimed.insert(id, check.killed_by.iter().cloned().collect());
                for mutant in &check.killed_by {
                    work.by_mutant.entry(mutant.clone()).or_default().insert(scenario.scenario.clone());
                }
            }
        }
        for monitor in monitors().iter().filter(|m| !m.judges_the_harness()) {
            let killed_by = monitor.killed_by.iter().map(|m| (*m).to_owned()).collect();
            work.claimed.insert(monitor.id.to_owned(), killed_by);
        }
        for mutant in mutants() {
            let scenarios = work.by_mutant.entry(mutant.name.to_owned()).or_default();
            scenarios.extend(mutant.scenarios.iter().map(|s| (*s).to_owned()));
        }
        work
    }
}

async fn run(chosen: &[Mutant], settings: &Settings, stop: &Stop) -> Result<Matrix, Trouble> {
    let scenarios: Vec<Arc<Scenario>> = load::embedded()
        .map_err(|d| Trouble::usage(d.iter().map(|d| d.render(false)).collect::<String>()))?
        .into_iter()
        .map(|l| l.scenario)
        .collect();
    let work = Work::new(scenarios);
    let mut matrix = Matrix { claimed: work.claimed.clone(), ..Matrix::default() };
    let all: BTreeSet<String> = work.scenarios.iter().map(|s| s.scenario.clone()).collect();
    if chosen.len() == mutants().len() {
        // First the control: nothing may fail the client without a fault.
        for case in cases(&work, Arc::new(Builtin::new()), &all, settings, stop, &mut matrix).await {
            for verdict in case.verdicts.iter().filter(|v| kills(v.verdict)) {
                matrix.false_alarms.push((verdict.judge.clone(), case.id.clone()));
            }
        }
    } else {
        matrix.claimed.retain(|_, said| chosen.iter().any(|m| said.contains(m.name)));
    }
    for mutant in chosen {
        if stop.is_asked() {
            matrix.trouble.push("interrupted".to_owned());
            break;
        }
        matrix.run.push(mutant.name);
        let wanted = work.by_mutant.get(mutant.name).cloned().unwrap_or_default();
        for name in wanted.difference(&all) {
            matrix.trouble.push(format!("`{}` names the scenario {name}, which does not exist", mutant.name));
        }
        for case in cases(&work, driver(mutant), &wanted, settings, stop, &mut matrix).await {
            for verdict in case.verdicts.iter().filter(|v| kills(v.verdict)) {
                let known = matrix.kills.iter().any(|k| k.judge == verdict.judge && k.mutant == mutant.name);
                if !known {
                    matrix.kills.insert(Kill {
                        judge: verdict.judge.clone(),
                        mutant: mutant.name,
                        case: case.id.clone(),
                    });
                }
            }
        }
    }
    Ok(matrix)
}

fn driver(mutant: &Mutant) -> Arc<dyn Driver> {
    match mutant.fault {
        Fault::Client(fault) => Arc::new(Builtin::new().with(Arc::new(fault))),
    }
}

/// A judge that says this has been failed. `not-testable` is no kill: the judge did not see what it hangs on.
const fn kills(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fail | Verdict::Warn | Verdict::Timeout | Verdict::Crash)
}

async fn cases(
    work: &Work,
    driver: Arc<dyn Driver>,
    scenarios: &BTreeSet<String>,
    settings: &Settings,
    stop: &Stop,
    matrix: &mut Matrix,
) -> Vec<CaseReport> {
    let of_interest = work.scenarios.iter().filter(|s| scenarios.contains(&s.scenario)).cloned().collect();
    let planned = async {
        let profile = Profile::reference().map_err(|d| d.render(false))?;
        let session = Session::open(driver, of_interest, Some(profile), String::new())
            .await
            .map_err(|e: DriverError| e.to_string())?;
        let planned: Vec<Planned> = session.plan(&Filter::default()).map_err(|e: PlanError| e.to_string())?;
        Ok::<_, String>((Arc::new(session), planned))
    };
    let (session, planned) = match planned.await {
        Ok(planned) => planned,
        Err(trouble) => {
            matrix.trouble.push(trouble);
            return Vec::new();
        }
    };
    let finished = session.run(planned, settings.clone(), Options::default(), stop, |_| {}).await;
    matrix.trouble.extend(finished.errors);
    for case in &finished.report.cases {
        for verdict in case.verdicts.iter().filter(|v| v.verdict == Verdict::HarnessError) {
            let reason = verdict.reason.as_deref().unwrap_or_default();
            matrix.trouble.push(format!("{}: {}: {reason}", case.id, verdict.judge));
        }
    }
    matrix.cases += finished.report.cases.len();
    finished.report.cases
}

pub(crate) fn command(args: &MutantsArgs) -> Result<u8, Trouble> {
    let mut chosen = mutants();
    if !args.mutants.is_empty() {
        let mut globs = Vec::new();
        for pattern in &args.mutants {
            let glob =
                Glob::new(pattern).map_err(|e| Trouble::usage(format!("--mutant: {e}")))?.compile_matcher();
            if !chosen.iter().any(|m| glob.is_match(m.name)) {
                return Err(Trouble::new(exit_code::NOTHING_RAN, format!("no mutant matches `{pattern}`")));
            }
            globs.push(glob);
        }
        chosen.retain(|m| globs.iter().any(|g| g.is_match(m.name)));
    }
    if args.list {
        let lines: Vec<String> = chosen.iter().map(|m| format!("{:<36} {}", m.name, m.about)).collect();
        crate::cli::print(&lines.join("\n"));
        return Ok(exit_code::PASSED);
    }
    let runtime = crate::cli::runtime()?;
    let matrix = runtime.block_on(async {
        let stop = Stop::on_signals();
        let mut settings = Settings::new()
            .map_err(|e| Trouble::new(exit_code::HARNESS_ERROR, format!("can't prepare: {e}")))?;
        if let Some(jobs) = args.jobs {
            settings.jobs = jobs.max(1);
        }
        let matrix = run(&chosen, &settings, &stop).await?;
        if stop.is_asked() {
            return Err(Trouble::new(exit_code::INTERRUPTED, "interrupted"));
        }
        Ok(matrix)
    })?;
    crate::cli::print(&matrix.render());
    Ok(if matrix.is_sound() { exit_code::PASSED } else { exit_code::FAILED })
}
