//! `sparring explain`: what an id means, and what judges it.

use super::{Trouble, input, print};
use crate::judge::{Monitor, monitors};
use sparring_reports::model::exit_code;
use sparring_scenarios::catalogue::{self, Requirement};
use sparring_scenarios::diagnostic::nearest;
use sparring_scenarios::scenario::{Check, Scenario};
use std::fmt::Write as _;
use std::sync::Arc;

pub(super) fn explain(id: &str) -> Result<u8, Trouble> {
    let scenarios = input::scenarios(None)?;
    let mut text = String::new();
    if let Some(requirement) = catalogue::requirement(id) {
        explain_requirement(&mut text, requirement);
        judged_by(&mut text, &scenarios, id);
    } else if let Some(promise) = catalogue::promise(id) {
        let _ = writeln!(text, "{id}\n  a promise of host profiles\n\n  {}\n", promise.text);
        judged_by(&mut text, &scenarios, id);
    } else if let Some(monitor) = monitors().iter().find(|m| m.id == id) {
        explain_monitor(&mut text, monitor);
    } else if let Some(scenario) = scenarios.iter().find(|s| s.scenario == id) {
        let _ = writeln!(
            text,
            "{id}\n  a scenario, version {}\n\n  {}\n",
            scenario.version,
            scenario.about.trim()
        );
        for check in &scenario.judge {
            explain_check(&mut text, check);
        }
    } else if let Some((scenario, check)) = find_check(&scenarios, id) {
        let _ = writeln!(
            text,
            "{id}\n  a check of the scenario {}: {}\n",
            scenario.scenario,
            scenario.about.trim()
        );
        explain_check(&mut text, check);
    } else {
        let known = catalogue::requirements()
            .map(|r| r.id.as_str())
            .chain(catalogue::promises().map(|p| p.id.as_str()))
            .chain(monitors().iter().map(|m| m.id))
            .chain(scenarios.iter().map(|s| s.scenario.as_str()));
        let hint = nearest(id, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return Err(Trouble::usage(format!(
            "`{id}` is no requirement, promise, monitor, scenario or check{hint}"
        )));
    }
    print(&text)?;
    Ok(exit_code::PASSED)
}

fn find_check<'a>(scenarios: &'a [Arc<Scenario>], id: &str) -> Option<(&'a Scenario, &'a Check)> {
    let (scenario, check) = id.split_once('/')?;
    let scenario = scenarios.iter().find(|s| s.scenario == scenario)?;
    Some((scenario, scenario.judge.iter().find(|c| c.check == check)?))
}

fn explain_requirement(text: &mut String, requirement: &Requirement) {
    let revisions: Vec<&str> = requirement.revisions.iter().map(|r| r.as_str()).collect();
    let transports: Vec<&str> = requirement.transports.iter().map(|t| t.as_str()).collect();
    let _ = writeln!(text, "{}\n  {} of the specification", requirement.id, requirement.level);
    let _ = writeln!(text, "  revisions   {}", revisions.join(", "));
    let _ = writeln!(text, "  transports  {}", transports.join(", "));
    let _ = writeln!(text, "  page        {}\n", requirement.page_url());
    let _ = writeln!(text, "  {}\n", requirement.text);
    let _ = writeln!(text, "  How it shows: {}\n", requirement.observable);
}

fn judged_by(text: &mut String, scenarios: &[Arc<Scenario>], id: &str) {
    let mut none = true;
    for monitor in monitors().iter().filter(|m| m.requirements.contains(&id)) {
        none = false;
        let _ = writeln!(text, "  monitor     {}", monitor.id);
    }
    for scenario in scenarios {
        for check in scenario
            .judge
            .iter()
            .filter(|c| [&c.requirement, &c.promise].into_iter().flatten().any(|i| i == id))
        {
            none = false;
            let _ = writeln!(text, "  check       {}/{}", scenario.scenario, check.check);
        }
    }
    if none {
        let _ = writeln!(text, "  Nothing judges it yet.");
    }
}

fn explain_monitor(text: &mut String, monitor: &Monitor) {
    let _ = writeln!(text, "{}\n  a monitor: it looks at every transcript\n", monitor.id);
    let _ = writeln!(text, "  expected      {}", monitor.expected);
    if !monitor.prerequisite.is_empty() {
        let _ = writeln!(text, "  needs         {}", monitor.prerequisite);
    }
    let _ = writeln!(text, "  rests on      {}", monitor.requirements.join(", "));
    let _ = writeln!(text, "  killed by     {}\n", monitor.killed_by.join(", "));
    for requirement in monitor.requirements.iter().filter_map(|id| catalogue::requirement(id)) {
        explain_requirement(text, requirement);
    }
}

fn explain_check(text: &mut String, check: &Check) {
    let id = check.requirement.as_deref().or(check.promise.as_deref()).unwrap_or_default();
    let says = catalogue::requirement(id)
        .map(|r| r.text.as_str())
        .or_else(|| catalogue::promise(id).map(|p| p.text.as_str()));
    let _ = writeln!(text, "  {}", check.check);
    if let Some(about) = &check.about {
        let _ = writeln!(text, "    {}", about.trim());
    }
    let _ = writeln!(text, "    rests on    {id}: {}", says.unwrap_or_default());
    let _ = writeln!(text, "    killed by   {}\n", check.killed_by.join(", "));
}
