//! The matrix: which mutant fails which judge. A judge that no mutant fails is a survivor.

use super::{Fault, Mutant, REFERENCE, mutants};
use crate::adapter_main;
use crate::cli::{MutantsArgs, Trouble};
use crate::driver::{Driver, DriverError};
use crate::drivers::{Adapter, Builtin, ProcessSettings};
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
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

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
    /// What was seen of that. A mutant may fail other judges too; that is not followed up.
    pub kills: BTreeSet<Kill>,
    /// Mutants that were run.
    pub run: Vec<&'static str>,
    /// Cases that were run. Not the same each time: a fault that is a matter of timing may show in one or the next.
    pub cases: usize,
    /// Judges that fail the unchanged reference client, with a case.
    pub false_alarms: Vec<(String, String)>,
    /// What went wrong on our side.
    pub trouble: Vec<String>,
}

impl Matrix {
    /// The mutants that are said to fail a judge and did.
    fn killers(&self, judge: &str) -> BTreeSet<&'static str> {
        self.kills.iter().filter(|k| k.judge == judge).map(|k| k.mutant).collect()
    }

    /// Judges that nothing failed which should.
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
            let killers: Vec<&str> = self.killers(judge).into_iter().collect();
            let killers = if killers.is_empty() { "nothing".to_owned() } else { killers.join(", ") };
            let _ = writeln!(text, "{judge}\n    failed by {killers}");
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
            "{} judges × {} mutants: {}",
            self.claimed.len(),
            self.run.len(),
            if self.is_sound() { "every judge can fail" } else { "not sound" }
        );
        text
    }
}

/// What is said of the mutants, and what shows it.
struct Work {
    scenarios: Vec<Arc<Scenario>>,
    claimed: BTreeMap<String, BTreeSet<String>>,
    /// The scenarios that each mutant goes through.
    through: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Work {
    fn new(scenarios: Vec<Arc<Scenario>>) -> Self {
        let mut claimed = BTreeMap::new();
        let mut through: BTreeMap<_, BTreeSet<_>> = mutants()
            .iter()
            .map(|mutant| (mutant.name, mutant.scenarios.iter().map(|s| (*s).to_owned()).collect()))
            .collect();
        for scenario in &scenarios {
            for check in &scenario.judge {
                for mutant in &check.killed_by {
                    if let Some(through) = through.get_mut(mutant.as_str()) {
                        through.insert(scenario.scenario.clone());
                    }
                }
                let said = check.killed_by.iter().cloned().collect();
                claimed.insert(format!("{}/{}", scenario.scenario, check.check), said);
            }
        }
        for monitor in monitors().iter().filter(|m| !m.judges_the_harness()) {
            let said = monitor.killed_by.iter().map(|m| (*m).to_owned()).collect();
            claimed.insert(monitor.id.to_owned(), said);
        }
        Self { scenarios, claimed, through }
    }

    /// Whether a case of a scenario can show any of these judges to fail.
    fn is_needed(scenario: &str, mutant: &Mutant, judges: &BTreeSet<&str>) -> bool {
        judges.iter().any(|judge| match judge.split_once('/') {
            Some((of, _)) => of == scenario,
            // A monitor judges in each case.
            None => mutant.scenarios.is_empty() || mutant.scenarios.contains(&scenario),
        })
    }

    async fn session(
        &self,
        driver: Arc<dyn Driver>,
        profile: &str,
        through: &BTreeSet<String>,
    ) -> Result<(Arc<Session>, Vec<Planned>), String> {
        let scenarios = self.scenarios.iter().filter(|s| through.contains(&s.scenario)).cloned().collect();
        let profile = Profile::named(profile).map_err(|d| d.render(false))?;
        let session = Session::open(driver, scenarios, Some(profile), String::new())
            .await
            .map_err(|e: DriverError| e.to_string())?;
        let mut planned = session.plan(&Filter::default()).map_err(|e: PlanError| e.to_string())?;
        planned.retain(|p| p.skip.is_none());
        Ok((Arc::new(session), planned))
    }

    /// Puts the unchanged client through everything, and as each host through what the host's mutants go through.
    async fn control(&self, settings: &Settings, stop: &Stop) -> Shown {
        let mut shown = Shown::default();
        let all = self.scenarios.iter().map(|s| s.scenario.clone()).collect();
        self.control_as(REFERENCE, &all, &mut shown, settings, stop).await;
        let mut hosts: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for mutant in mutants().iter().filter(|mutant| mutant.profile != REFERENCE) {
            let through = self.through.get(mutant.name).into_iter().flatten().cloned();
            hosts.entry(mutant.profile).or_default().extend(through);
        }
        for (profile, through) in hosts {
            self.control_as(profile, &through, &mut shown, settings, stop).await;
        }
        shown
    }

    async fn control_as(
        &self,
        profile: &str,
        through: &BTreeSet<String>,
        shown: &mut Shown,
        settings: &Settings,
        stop: &Stop,
    ) {
        let client = match host(profile) {
            Ok(client) => client,
            Err(trouble) => return shown.trouble.push(trouble),
        };
        match self.session(Arc::new(client), profile, through).await {
            Ok((session, planned)) => {
                for case in shown.run(&session, planned, settings, stop).await {
                    let failed = case.verdicts.iter().filter(|v| kills(v.verdict));
                    shown.failed.extend(failed.map(|v| (v.judge.clone(), case.id.clone())));
                }
            }
            Err(trouble) => shown.trouble.push(trouble),
        }
    }

    /// Puts a mutant through its cases, one after the other in a fixed order, until it has failed all the judges that
    /// it should fail.
    async fn put_through(&self, mutant: &Mutant, settings: &Settings, stop: &Stop) -> Shown {
        let mut shown = Shown::default();
        let mut awaited: BTreeSet<&str> = self
            .claimed
            .iter()
            .filter(|(_, said)| said.contains(mutant.name))
            .map(|(judge, _)| judge.as_str())
            .collect();
        let through = &self.through[mutant.name];
        for name in through.iter().filter(|name| self.scenarios.iter().all(|s| s.scenario != **name)) {
            shown.trouble.push(format!("`{}` names the scenario {name}, which does not exist", mutant.name));
        }
        let opened = match driver(mutant) {
            Ok(driver) => self.session(driver, mutant.profile, through).await,
            Err(trouble) => Err(trouble),
        };
        let (session, planned) = match opened {
            Ok(opened) => opened,
            Err(trouble) => {
                shown.trouble.push(format!("`{}`: {trouble}", mutant.name));
                return shown;
            }
        };
        for one in planned {
            if stop.is_asked() {
                break;
            }
            if !Self::is_needed(&one.case.scenario.scenario, mutant, &awaited) {
                continue;
            }
            for case in shown.run(&session, vec![one], settings, stop).await {
                for verdict in case.verdicts.iter().filter(|v| kills(v.verdict)) {
                    if awaited.remove(verdict.judge.as_str()) {
                        shown.failed.push((verdict.judge.clone(), case.id.clone()));
                    }
                }
            }
        }
        shown
    }
}

/// What was seen of one client.
#[derive(Default)]
struct Shown {
    /// Judge and case.
    failed: Vec<(String, String)>,
    cases: usize,
    trouble: Vec<String>,
}

impl Shown {
    async fn run(
        &mut self,
        session: &Arc<Session>,
        planned: Vec<Planned>,
        settings: &Settings,
        stop: &Stop,
    ) -> Vec<CaseReport> {
        let finished = session.run(planned, settings.clone(), Options::default(), stop, |_| {}).await;
        self.trouble.extend(finished.errors);
        for case in &finished.report.cases {
            for verdict in case.verdicts.iter().filter(|v| v.verdict == Verdict::HarnessError) {
                let reason = verdict.reason.as_deref().unwrap_or_default();
                self.trouble.push(format!("{}: {}: {reason}", case.id, verdict.judge));
            }
        }
        self.cases += finished.report.cases.len();
        finished.report.cases
    }
}

/// The reference client as this host.
pub(crate) fn host(profile: &str) -> Result<Builtin, String> {
    match profile {
        REFERENCE => Ok(Builtin::new()),
        name => Profile::named(name).map(Builtin::as_host).map_err(|d| d.render(false)),
    }
}

fn driver(mutant: &Mutant) -> Result<Arc<dyn Driver>, String> {
    Ok(match mutant.fault {
        Fault::Client(fault) => Arc::new(host(mutant.profile)?.with(Arc::new(fault))),
        Fault::Process(_) => {
            let settings = ProcessSettings::new().map_err(|e| e.to_string())?;
            let exe = settings.exe.display().to_string();
            let command = vec![exe, adapter_main::ARGUMENT.to_owned(), mutant.name.to_owned()];
            Arc::new(Adapter::new(command, settings))
        }
    })
}

/// A judge that says this has been failed. `not-testable` is no kill: the judge did not see what it hangs on.
const fn kills(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fail | Verdict::Warn | Verdict::Timeout | Verdict::Crash)
}

async fn run(chosen: &[Mutant], settings: &Settings, stop: &Stop) -> Result<Matrix, Trouble> {
    let scenarios = load::embedded()
        .map_err(|d| Trouble::usage(d.iter().map(|d| d.render(false)).collect::<String>()))?
        .into_iter()
        .map(|l| l.scenario)
        .collect();
    let work = Arc::new(Work::new(scenarios));
    let mut matrix = Matrix { claimed: work.claimed.clone(), ..Matrix::default() };
    if chosen.len() == mutants().len() {
        // First the control: nothing may fail the client without a fault.
        let shown = work.control(settings, stop).await;
        matrix.false_alarms = shown.failed;
        matrix.cases += shown.cases;
        matrix.trouble.extend(shown.trouble);
    } else {
        matrix.claimed.retain(|_, said| chosen.iter().any(|m| said.contains(m.name)));
    }
    // A mutant waits more than it works, so several go side by side; the cases of each come one by one.
    let permits = Arc::new(Semaphore::new(settings.jobs));
    let mut running = JoinSet::new();
    for (place, mutant) in chosen.iter().copied().enumerate() {
        let (work, permits, stop) = (Arc::clone(&work), Arc::clone(&permits), stop.clone());
        let mut settings = Settings { jobs: 1, ..settings.clone() };
        settings.transcripts = settings.transcripts.map(|folder| folder.join(mutant.name));
        running.spawn(async move {
            let _permit = permits.acquire_owned().await;
            (place, work.put_through(&mutant, &settings, &stop).await)
        });
    }
    let mut shown = BTreeMap::new();
    while let Some(ended) = running.join_next().await {
        let (place, ended) = ended.map_err(|e| Trouble::new(exit_code::HARNESS_ERROR, e))?;
        shown.insert(place, ended);
        progress(shown.len(), chosen.len());
    }
    for (place, shown) in shown {
        let mutant = chosen[place].name;
        matrix.run.push(mutant);
        matrix.cases += shown.cases;
        matrix.trouble.extend(shown.trouble);
        matrix.kills.extend(shown.failed.into_iter().map(|(judge, case)| Kill { judge, mutant, case }));
    }
    Ok(matrix)
}

/// Says how far it is, on terminals only.
fn progress(done: usize, of: usize) {
    let mut stderr = std::io::stderr().lock();
    if stderr.is_terminal() {
        let end = if done == of { "\r\x1b[K" } else { "" };
        // It matters to nobody whether this can be seen.
        let _ = write!(stderr, "\r  {done}/{of} mutants{end}").and_then(|()| stderr.flush());
    }
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
        crate::cli::print(&lines.join("\n"))?;
        return Ok(exit_code::PASSED);
    }
    let runtime = crate::cli::runtime()?;
    let matrix = runtime.block_on(async {
        let stop = Stop::on_signals();
        let mut settings = Settings::new()
            .map_err(|e| Trouble::new(exit_code::HARNESS_ERROR, format!("can't prepare: {e}")))?;
        // A mutant waits more than it works.
        settings.jobs = args.jobs.unwrap_or(2 * settings.jobs).max(1);
        settings.transcripts.clone_from(&args.out);
        let matrix = run(&chosen, &settings, &stop).await?;
        if stop.is_asked() {
            return Err(Trouble::new(exit_code::INTERRUPTED, "interrupted"));
        }
        Ok(matrix)
    })?;
    crate::cli::print(&matrix.render())?;
    Ok(if matrix.is_sound() { exit_code::PASSED } else { exit_code::FAILED })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(claims: &[(&str, &[&str])], kills: &[(&str, &'static str)], run: &[&'static str]) -> Matrix {
        let said = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        Matrix {
            claimed: claims.iter().map(|(judge, names)| ((*judge).to_owned(), said(names))).collect(),
            kills: kills
                .iter()
                .map(|(judge, mutant)| Kill { judge: (*judge).to_owned(), mutant, case: "c".to_owned() })
                .collect(),
            run: run.to_vec(),
            ..Matrix::default()
        }
    }

    #[test]
    fn a_matrix_is_sound_only_without_survivors_broken_claims_and_false_alarms() {
        let claims: &[(&str, &[&str])] = &[("j", &["m", "n"]), ("k", &["n"])];
        let sound = matrix(claims, &[("j", "m"), ("j", "n"), ("k", "n")], &["m", "n"]);
        assert!(sound.is_sound(), "{}", sound.render());

        let survivor = matrix(claims, &[("j", "m"), ("j", "n")], &["m", "n"]);
        assert_eq!(survivor.survivors(), ["k"]);
        assert!(!survivor.is_sound() && survivor.render().contains("SURVIVOR       k "));

        let broken = matrix(claims, &[("j", "n"), ("k", "n")], &["m", "n"]);
        assert_eq!(broken.broken_claims(), [("j", "m")]);
        assert_eq!(broken.harmless(), ["m"]);
        assert!(!broken.is_sound() && broken.survivors().is_empty());

        let part = matrix(&[("j", &["m", "n"])], &[("j", "m")], &["m"]);
        assert!(part.is_sound(), "mutants that were not chosen owe nothing: {}", part.render());

        let mut alarm = sound;
        alarm.false_alarms.push(("j".to_owned(), "case".to_owned()));
        assert!(!alarm.is_sound() && alarm.render().contains("FALSE ALARM    j "));
    }

    #[test]
    fn a_mutant_goes_only_through_what_can_still_show_its_faults() {
        let mutant = |scenarios| Mutant {
            name: "m",
            about: "",
            scenarios,
            profile: REFERENCE,
            fault: Fault::Client(|_| {}),
        };
        let awaited = |judges: &[&'static str]| judges.iter().copied().collect::<BTreeSet<_>>();
        let named = mutant(&["s"]);
        assert!(Work::is_needed("s", &named, &awaited(&["monitor.x"])));
        assert!(!Work::is_needed("t", &named, &awaited(&["monitor.x", "s/check"])));
        assert!(Work::is_needed("t", &named, &awaited(&["t/check"])));
        assert!(!Work::is_needed("s", &named, &awaited(&[])));
        assert!(Work::is_needed("t", &mutant(&[]), &awaited(&["monitor.x"])), "it may show anywhere");
    }
}
