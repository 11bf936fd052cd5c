//! The reference client as each host, judged by each host's profile.
//!
//! Where the settings of both agree in a field, its promise has to be kept; where they differ, something has to fail. A
//! scenario that hangs on several promises may fail for any of them that differs. What can't be told apart, and what a
//! scenario hangs on without naming it, is in a table that was looked at: `reviewed`.

mod reviewed;

use super::super::args::MatrixArgs;
use super::super::{Trouble, input, print, runtime};
use super::field_id;
use crate::drivers::Builtin;
use crate::plan::{self, Filter, Planned};
use crate::run::{Settings as RunSettings, Stop};
use crate::session::{Options, Session};
use futures_util::{StreamExt as _, TryStreamExt as _};
use reviewed::Reviewed;
use serde_json::Value;
use sparring_profiles::{BUILT_IN, FIELDS};
use sparring_reports::model::{BasisKind, CaseReport, JudgeReport, Verdict, exit_code};
use sparring_scenarios::profile::Profile;
use sparring_scenarios::scenario::Scenario;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// What was seen of one promise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    passed: u32,
    /// The first judge and case that failed.
    failed: Option<(String, String)>,
    /// The scenarios in which it failed.
    scenarios: BTreeSet<String>,
}

/// One cell: the client as `host`, judged by the profile of `judged`.
#[derive(Debug, Clone, Default)]
struct Cell {
    cases: usize,
    /// By field.
    promises: BTreeMap<String, Seen>,
    /// By field, why checks of it have not judged.
    untried: BTreeMap<String, BTreeSet<String>>,
    /// Requirements of the specification that failed, and cases that ended otherwise.
    trouble: Vec<String>,
}

/// What a field says about a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Finding {
    /// Equal, and kept.
    Kept,
    /// Different, and that showed.
    Shown,
    /// Equal, and something failed that hangs on a promise that differs too.
    Entangled,
    /// Nothing judged it.
    Unjudged,
    /// Different, nothing failed, and the table says why.
    Excused,
    /// Different, and nothing failed.
    Unseen,
    /// Equal, and something failed.
    Broken,
}

/// What each field came to, with what is promised and what the client does.
type Findings = BTreeMap<&'static str, (Finding, [Value; 2])>;

/// How many cases of a pair run at a time: most of them wait for something most of the time.
const JOBS: usize = 4;
/// How many pairs run at a time.
const PAIRS: usize = 4;

pub(super) fn matrix(args: &MatrixArgs) -> Result<u8, Trouble> {
    let hosts = chosen(&args.hosts, "--as")?;
    let judged = chosen(&args.profiles, "--profile")?;
    let ours = |why: String| Trouble::new(exit_code::HARNESS_ERROR, why);
    let reviewed = Reviewed::load().map_err(ours)?;
    let scenarios = about_promises(&input::scenarios(None)?);
    let mut settings = RunSettings::new().map_err(|error| ours(format!("can't prepare the run: {error}")))?;
    settings.jobs = args.jobs.unwrap_or(JOBS);
    let filter = Filter { scenarios: args.scenarios.clone(), ..Filter::default() };
    let runtime = runtime()?;
    let stop = runtime.block_on(async { Stop::on_signals() });
    let (mut text, mut sound, mut used) = (String::new(), true, BTreeSet::new());
    let mut table = vec![format!("{:<10}", "judged by")];
    for host in &hosts {
        let _ = write!(table[0], " {:>18}", format!("as {}", host.0));
    }
    let pairs: Vec<_> =
        judged.iter().flat_map(|profile| hosts.iter().map(move |host| (&host.1, &profile.1))).collect();
    // The last cases of a pair keep few hands busy.
    let cells =
        pairs.into_iter().map(|(host, profile)| run(host, profile, &scenarios, &settings, &filter, &stop));
    let cells: Vec<Cell> =
        runtime.block_on(futures_util::stream::iter(cells).buffered(PAIRS).try_collect())?;
    if stop.is_asked() {
        return Ok(exit_code::INTERRUPTED);
    }
    let mut cells = cells.iter();
    for (profile_name, profile) in &judged {
        let mut row = format!("{profile_name:<10}");
        for ((host_name, host), cell) in hosts.iter().zip(&mut cells) {
            let mut found = findings(cell, host, profile, &scenarios, &reviewed, &mut used);
            let mut wrong = reviewed.excuse(host_name, profile_name, &mut found, filter.scenarios.is_empty());
            wrong.extend(cell.trouble.iter().cloned());
            let count = |wanted: Finding| found.values().filter(|(finding, _)| *finding == wanted).count();
            let broken = count(Finding::Unseen) + count(Finding::Broken) + wrong.len();
            sound &= broken == 0;
            let _ = write!(
                row,
                " {:>18}",
                format!(
                    "{}{}= {}≠ {}~ {}-",
                    if broken == 0 { "" } else { "!" },
                    count(Finding::Kept),
                    count(Finding::Shown),
                    count(Finding::Entangled) + count(Finding::Excused),
                    count(Finding::Unjudged)
                )
            );
            say(&mut text, (host_name, profile_name), cell, &found, &wrong, args.verbose);
        }
        table.push(row);
    }
    if args.hosts.is_empty() && args.profiles.is_empty() && filter.scenarios.is_empty() {
        for lost in reviewed.unused(&used) {
            sound = false;
            let _ = writeln!(text, "NOT NEEDED  {lost}");
        }
    }
    let head = "Promises that were kept because both hosts agree (=), that failed because they differ (≠), that say \
                nothing for a reason that is known (~), and that nothing tried (-).";
    print(&format!("{text}\n{head}\n\n{}", table.join("\n")))?;
    Ok(if sound { exit_code::PASSED } else { exit_code::FAILED })
}

fn chosen(names: &[String], option: &str) -> Result<Vec<(String, Profile)>, Trouble> {
    let all = BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).filter(|name| name != "reference");
    let names: Vec<String> = if names.is_empty() { all.collect() } else { names.to_vec() };
    names.into_iter().map(|name| Ok((name.clone(), input::named_profile(option, &name)?))).collect()
}

/// The scenarios that judge promises of profiles at all.
fn about_promises(all: &[Arc<Scenario>]) -> Vec<Arc<Scenario>> {
    let is_one = |promise: &String| FIELDS.iter().any(|field| field.id == field_id(promise));
    let judges = |scenario: &&Arc<Scenario>| {
        scenario.judge.iter().filter_map(|check| check.promise.as_ref()).any(is_one)
    };
    all.iter().filter(judges).cloned().collect()
}

async fn run(
    host: &Profile,
    profile: &Profile,
    scenarios: &[Arc<Scenario>],
    settings: &RunSettings,
    filter: &Filter,
    stop: &Stop,
) -> Result<Cell, Trouble> {
    let driver = Arc::new(Builtin::as_host(host.clone()));
    let session = Session::open(driver, scenarios.to_vec(), Some(profile.clone()), String::new())
        .await
        .map_err(|error| Trouble::new(exit_code::CLIENT, error))?;
    let session = Arc::new(session);
    let planned = session.plan(filter).map_err(|error| input::plan_trouble(&error))?;
    let same = std::ptr::eq(host, profile) || host == profile;
    let (mut planned, skipped): (Vec<_>, Vec<_>) = planned.into_iter().partition(|p| p.skip.is_none());
    if !same {
        planned = newest(planned, profile);
    }
    let mut cell = Cell { cases: planned.len(), ..Cell::default() };
    for Planned { case, skip } in &skipped {
        let Some((_, why)) = skip else { continue };
        for promise in case.scenario.judge.iter().filter_map(|check| check.promise.as_ref()) {
            cell.untried.entry(field_id(promise).to_owned()).or_default().insert(why.clone());
        }
    }
    if planned.is_empty() {
        return Ok(cell);
    }
    let done = session.run(planned, settings.clone(), Options::default(), stop, |_: &CaseReport| {}).await;
    for case in &done.report.cases {
        for verdict in &case.verdicts {
            cell.take(case, verdict, same);
        }
    }
    Ok(cell)
}

/// Of each scenario, over each transport, the newest revisions that together have all checks that are judged in any:
/// hosts differ in their promises, and those don't hang on the revision.
fn newest(mut planned: Vec<Planned>, profile: &Profile) -> Vec<Planned> {
    planned.sort_by_key(|planned| std::cmp::Reverse(planned.case.revision));
    let mut judged: BTreeSet<(String, String, String)> = BTreeSet::new();
    planned.retain(|Planned { case, .. }| {
        let checks = plan::checks_for(case, Some(profile)).into_iter().map(|check| check.check.clone());
        let place = |check| (case.scenario.scenario.clone(), case.transport.to_string(), check);
        // All of them are noted, so nothing may end this early.
        checks.map(place).filter(|check| judged.insert(check.clone())).count() > 0
    });
    planned
}

impl Cell {
    fn take(&mut self, case: &CaseReport, verdict: &JudgeReport, same: bool) {
        let field = Some(field_id(&verdict.basis.id).to_owned())
            .filter(|id| verdict.basis.kind == BasisKind::Promise && FIELDS.iter().any(|f| f.id == *id));
        match (field, verdict.verdict) {
            (Some(field), Verdict::Pass) => self.promises.entry(field).or_default().passed += 1,
            (Some(field), Verdict::Fail) => {
                let seen = self.promises.entry(field).or_default();
                seen.failed.get_or_insert_with(|| (verdict.judge.clone(), case.id.clone()));
                seen.scenarios.insert(case.scenario.clone());
            }
            (Some(field), _) => {
                let why = verdict.reason.clone().unwrap_or_else(|| verdict.verdict.word().to_owned());
                self.untried.entry(field).or_default().insert(why);
            }
            // As another host it may well end otherwise than scripted; as itself it may not.
            (None, Verdict::Fail) if same => {
                self.trouble.push(format!("{} in {}", verdict.judge, case.id));
            }
            _ => {}
        }
    }
}

/// What each field of the profile came to, with the values of both.
fn findings(
    cell: &Cell,
    host: &Profile,
    profile: &Profile,
    scenarios: &[Arc<Scenario>],
    reviewed: &Reviewed,
    used: &mut BTreeSet<String>,
) -> Findings {
    let all = |profile: &Profile| {
        let mut all = serde_json::to_value(profile.settings()).unwrap_or_default();
        // A host that says nothing of roots is one that has none.
        if profile.value("roots.answer").is_none()
            && let Some(answer) = all.pointer_mut("/roots/answer")
        {
            *answer = Value::from("none");
        }
        all
    };
    let (theirs, ours) = (all(profile), all(host));
    let value = |all: &Value, id: &str| {
        id.split('.').try_fold(all, |v, part| v.get(part)).cloned().unwrap_or_default()
    };
    let differs = |id: &str| value(&theirs, id) != value(&ours, id);
    // What else a scenario hangs on: the promises that it needs, judges, or takes values from.
    let mut hangs_on_a_difference = |name: &String| {
        let named = scenarios.iter().filter(|scenario| scenario.scenario == *name).flat_map(|scenario| {
            let judged = scenario.judge.iter().filter_map(|check| check.promise.clone());
            let taken = sparring_scenarios::placeholder::promises_of_steps(scenario);
            judged.chain(scenario.applies.promises.clone()).chain(taken).collect::<Vec<_>>()
        });
        let by_name = named.into_iter().any(|promise| differs(field_id(&promise)));
        let by_table = !by_name && reviewed.hangs_on(name).any(differs);
        if by_table {
            used.insert(name.clone());
        }
        by_name || by_table
    };
    let declared = FIELDS.iter().filter(|field| field.is_promise() && profile.value(field.id).is_some());
    declared
        .map(|field| {
            let values = [value(&theirs, field.id), value(&ours, field.id)];
            let seen = cell.promises.get(field.id);
            let equal = values[0] == values[1];
            let finding = match (seen, equal) {
                (None, _) => Finding::Unjudged,
                (Some(Seen { failed: Some(_), scenarios, .. }), true)
                    if scenarios.iter().all(&mut hangs_on_a_difference) =>
                {
                    Finding::Entangled
                }
                (Some(Seen { failed: Some(_), .. }), true) => Finding::Broken,
                (Some(Seen { failed: Some(_), .. }), false) => Finding::Shown,
                (Some(_), true) => Finding::Kept,
                (Some(_), false) => Finding::Unseen,
            };
            (field.id, (finding, values))
        })
        .collect()
}

fn say(
    text: &mut String,
    (host, profile): (&str, &str),
    cell: &Cell,
    found: &Findings,
    wrong: &[String],
    verbose: bool,
) {
    let loud = BTreeSet::from([Finding::Unseen, Finding::Broken]);
    let _ = writeln!(text, "as {host}, judged by {profile}: {} cases", cell.cases);
    let mut untried: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (id, (finding, [theirs, ours])) in found {
        let failed = cell.promises.get(*id).and_then(|seen| seen.failed.as_ref());
        let by = failed.map(|(judge, case)| format!(" by {judge} in {case}")).unwrap_or_default();
        let line = match finding {
            Finding::Kept => format!("{id}: kept"),
            Finding::Shown => format!("{id}: {theirs} is promised, {ours} was seen{by}"),
            Finding::Entangled => {
                format!("{id}: both say {theirs}, and it fails with a promise that differs{by}")
            }
            Finding::Unjudged => {
                let whys = cell.untried.get(*id);
                let why = whys.and_then(BTreeSet::first).map_or("no scenario tries it", String::as_str);
                untried.entry(why.to_owned()).or_default().push(id);
                continue;
            }
            Finding::Excused => format!("{id}: {theirs} is promised, {ours} is not told from it"),
            Finding::Unseen => {
                format!("NOT SEEN  {id}: {theirs} is promised, the client does {ours}, and nothing fails")
            }
            Finding::Broken => format!("BROKEN    {id}: both say {theirs}, and it fails{by}"),
        };
        if verbose || loud.contains(finding) {
            let _ = writeln!(text, "    {line}");
        }
    }
    for (why, ids) in untried {
        let _ = writeln!(text, "    not tried: {}: {why}", ids.join(", "));
    }
    for wrong in wrong {
        let _ = writeln!(text, "    FAILED    {wrong}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_has_to_fail_and_what_agrees_has_not() {
        let judged =
            Profile::parse("p", "[naming]\nmax_len = 40\nhash_len = 6\nstable = true\non_clash = \"hash\"\n")
                .unwrap();
        let host = Profile::parse("h", "[naming]\nmax_len = 64\nhash_len = 8\n").unwrap();
        let failed = |case: &str| Seen {
            failed: Some(("s/c".into(), case.into())),
            scenarios: BTreeSet::from(["s".to_owned()]),
            ..Seen::default()
        };
        let passed = Seen { passed: 2, ..Seen::default() };
        let cell = Cell {
            cases: 3,
            promises: BTreeMap::from([
                ("naming.max_len".to_owned(), failed("one")),
                ("naming.hash_len".to_owned(), passed.clone()),
                ("naming.stable".to_owned(), passed),
            ]),
            ..Cell::default()
        };
        let none = Reviewed::default();
        let look = |host: &Profile| findings(&cell, host, &judged, &[], &none, &mut BTreeSet::new());
        let found: BTreeMap<_, _> = look(&host).into_iter().map(|(id, (f, _))| (id, f)).collect();
        assert_eq!(
            found,
            BTreeMap::from([
                ("naming.max_len", Finding::Shown),
                ("naming.hash_len", Finding::Unseen),
                ("naming.stable", Finding::Kept),
                ("naming.on_clash", Finding::Unjudged),
            ])
        );
        assert_eq!(look(&judged)["naming.max_len"].0, Finding::Broken);
    }
}
