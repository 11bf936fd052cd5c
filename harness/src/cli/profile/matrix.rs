//! The reference client as each host, judged by each host's profile.
//!
//! Where the settings of both agree in a field, its promise has to be kept; where they differ, something has to fail. A
//! scenario that hangs on several promises may fail for any of them that differs.

use super::super::args::MatrixArgs;
use super::super::{Trouble, input, print, runtime};
use super::field_id;
use crate::drivers::Builtin;
use crate::plan::Filter;
use crate::run::{Settings as RunSettings, Stop};
use crate::session::{Options, Session};
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
    /// Different, and nothing failed.
    Unseen,
    /// Equal, and something failed.
    Broken,
}

pub(super) fn matrix(args: &MatrixArgs) -> Result<u8, Trouble> {
    let hosts = chosen(&args.hosts, "--as")?;
    let judged = chosen(&args.profiles, "--profile")?;
    let scenarios = about_promises(&input::scenarios(None)?);
    let mut settings = RunSettings::new()
        .map_err(|error| Trouble::new(exit_code::HARNESS_ERROR, format!("can't prepare the run: {error}")))?;
    if let Some(jobs) = args.jobs {
        settings.jobs = jobs;
    }
    let filter = Filter { scenarios: args.scenarios.clone(), ..Filter::default() };
    let runtime = runtime()?;
    let stop = runtime.block_on(async { Stop::on_signals() });
    let (mut text, mut sound) = (String::new(), true);
    let mut table = vec![format!("{:<10}", "judged by")];
    for host in &hosts {
        let _ = write!(table[0], " {:>14}", format!("as {}", host.0));
    }
    for (profile_name, profile) in &judged {
        let mut row = format!("{profile_name:<10}");
        for (host_name, host) in &hosts {
            let cell = runtime.block_on(run(host, profile, &scenarios, &settings, &filter, &stop))?;
            if stop.is_asked() {
                return Ok(exit_code::INTERRUPTED);
            }
            let found = findings(&cell, host, profile, &scenarios);
            let count = |wanted: Finding| found.values().filter(|(finding, _)| *finding == wanted).count();
            let wrong = count(Finding::Unseen) + count(Finding::Broken) + cell.trouble.len();
            sound &= wrong == 0;
            let _ = write!(
                row,
                " {:>14}",
                format!(
                    "{}={} {}≠{}",
                    count(Finding::Kept),
                    if wrong == 0 { "" } else { "!" },
                    count(Finding::Shown),
                    ""
                )
            );
            say(&mut text, host_name, profile_name, &cell, &found, args.verbose);
        }
        table.push(row);
    }
    let head =
        "Promises that were kept because both hosts agree (=), and that failed because they differ (≠).";
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
    let planned: Vec<_> = planned.into_iter().filter(|planned| planned.skip.is_none()).collect();
    if planned.is_empty() {
        return Ok(Cell::default());
    }
    let done = session.run(planned, settings.clone(), Options::default(), stop, |_: &CaseReport| {}).await;
    let same = std::ptr::eq(host, profile) || host == profile;
    let mut cell = Cell { cases: done.report.cases.len(), ..Cell::default() };
    for case in &done.report.cases {
        for verdict in &case.verdicts {
            cell.take(case, verdict, same);
        }
    }
    Ok(cell)
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
) -> BTreeMap<&'static str, (Finding, [Value; 2])> {
    let all = |profile: &Profile| serde_json::to_value(profile.settings()).unwrap_or_default();
    let (theirs, ours) = (all(profile), all(host));
    let value = |all: &Value, id: &str| {
        id.split('.').try_fold(all, |v, part| v.get(part)).cloned().unwrap_or_default()
    };
    // What else a scenario hangs on: the promises that it needs, judges, or takes values from.
    let hangs_on_a_difference = |name: &String| {
        let named = scenarios.iter().filter(|scenario| scenario.scenario == *name).flat_map(|scenario| {
            let judged = scenario.judge.iter().filter_map(|check| check.promise.clone());
            let taken = sparring_scenarios::placeholder::promises_of_steps(scenario);
            judged.chain(scenario.applies.promises.clone()).chain(taken).collect::<Vec<_>>()
        });
        named.into_iter().any(|promise| {
            let id = field_id(&promise);
            value(&theirs, id) != value(&ours, id)
        })
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
                    if scenarios.iter().all(hangs_on_a_difference) =>
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
    host: &str,
    profile: &str,
    cell: &Cell,
    found: &BTreeMap<&'static str, (Finding, [Value; 2])>,
    verbose: bool,
) {
    let wrong: BTreeSet<Finding> = BTreeSet::from([Finding::Unseen, Finding::Broken]);
    let _ = writeln!(text, "as {host}, judged by {profile}: {} cases", cell.cases);
    for (id, (finding, [theirs, ours])) in found {
        let failed = cell.promises.get(*id).and_then(|seen| seen.failed.as_ref());
        let by = failed.map(|(judge, case)| format!(" by {judge} in {case}")).unwrap_or_default();
        let line = match finding {
            Finding::Kept => format!("{id}: kept"),
            Finding::Shown => format!("{id}: {theirs} is promised, {ours} was seen{by}"),
            Finding::Entangled => {
                format!("{id}: both say {theirs}, and it fails with a promise that differs{by}")
            }
            Finding::Unjudged => format!("{id}: judged by nothing here"),
            Finding::Unseen => {
                format!("NOT SEEN  {id}: {theirs} is promised, the client does {ours}, and nothing fails")
            }
            Finding::Broken => format!("BROKEN    {id}: both say {theirs}, and it fails{by}"),
        };
        if verbose || wrong.contains(finding) {
            let _ = writeln!(text, "    {line}");
        }
    }
    for trouble in &cell.trouble {
        let _ = writeln!(text, "    FAILED    {trouble}");
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
            trouble: Vec::new(),
        };
        let found: BTreeMap<_, _> =
            findings(&cell, &host, &judged, &[]).into_iter().map(|(id, (f, _))| (id, f)).collect();
        assert_eq!(
            found,
            BTreeMap::from([
                ("naming.max_len", Finding::Shown),
                ("naming.hash_len", Finding::Unseen),
                ("naming.stable", Finding::Kept),
                ("naming.on_clash", Finding::Unjudged),
            ])
        );
        assert_eq!(findings(&cell, &judged, &judged, &[])["naming.max_len"].0, Finding::Broken);
    }
}
