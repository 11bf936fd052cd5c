//! Mutants: the reference client with one deliberate fault each. They prove that the judges can fail.
//!
//! The reference client itself carries no fault code. A mutant is a decorator over one of its seams (messages, HTTP,
//! processes, names, randomness, the browser…), or a setting that exists anyway. What a mutant is expected to fail
//! stands with the judges: `killed_by` of a check in its scenario, of a monitor in its table.

mod auth;
mod decorate;
mod era;
mod host;
mod http;
mod legacy;
mod matrix;
mod messages;
mod modern;
mod monitors;
mod rounds;
mod stdio;

pub use matrix::{Kill, Matrix};
pub(crate) use matrix::{command, host};

use crate::drivers::ClientSetup;

/// A client with one deliberate fault.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// Its name: what the client does wrong, in words with dashes.
    pub name: &'static str,
    /// The same as a sentence.
    pub about: &'static str,
    /// Scenarios that bring the fault to light for the monitors it fails. Those of the checks it fails need not be
    /// named.
    pub scenarios: &'static [&'static str],
    /// The host that it is but for its fault, and by whose profile it is judged: the name of a built-in profile.
    pub profile: &'static str,
    /// The fault.
    pub fault: Fault,
}

/// The profile of the reference client, under its name.
const REFERENCE: &str = "reference";

/// How a mutant is made.
#[derive(Clone, Copy)]
pub enum Fault {
    /// The reference client in process, with one part replaced.
    Client(fn(&mut ClientSetup)),
    /// The same as a process of its own, behind the adapter driver: the fault ends that process or outlives it.
    Process(fn(&mut ClientSetup)),
}

/// All mutants.
pub fn mutants() -> Vec<Mutant> {
    let mut all = [
        auth::MUTANTS,
        messages::MUTANTS,
        http::MUTANTS,
        stdio::MUTANTS,
        host::MUTANTS,
        monitors::MUTANTS,
        modern::MUTANTS,
        rounds::MUTANTS,
        era::MUTANTS,
        legacy::MUTANTS,
    ]
    .concat();
    all.extend(host::areas());
    all
}

/// A mutant that the checks name themselves.
const fn mutant(name: &'static str, about: &'static str, fault: fn(&mut ClientSetup)) -> Mutant {
    Mutant { name, about, scenarios: &[], profile: REFERENCE, fault: Fault::Client(fault) }
}

/// The same, of the host with this profile.
const fn of_host(
    profile: &'static str,
    name: &'static str,
    about: &'static str,
    fault: fn(&mut ClientSetup),
) -> Mutant {
    Mutant { name, about, scenarios: &[], profile, fault: Fault::Client(fault) }
}

/// Mutants of hosts that are settings with another value, a line each:
/// `"chaz": "never-retries", "Does not send the call again.", "restart.retry_call" = false;`
macro_rules! settings {
    ($($profile:literal: $name:literal, $about:literal, $setting:literal = $value:tt;)*) => {
        [$($crate::mutants::of_host($profile, $name, $about, |s| s.set($setting, &serde_json::json!($value))),)*]
    };
}
use settings;

/// The mutant with this name.
pub(crate) fn named(name: &str) -> Option<Mutant> {
    mutants().into_iter().find(|mutant| mutant.name == name)
}

impl Mutant {
    /// What is wrong with it.
    pub(crate) const fn change(&self) -> fn(&mut ClientSetup) {
        match self.fault {
            Fault::Client(fault) | Fault::Process(fault) => fault,
        }
    }
}

/// Their names.
pub fn names() -> Vec<&'static str> {
    mutants().iter().map(|m| m.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::monitors;
    use std::collections::BTreeSet;

    #[test]
    fn each_mutant_has_a_name_of_its_own() {
        let mut names = names();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn judges_and_mutants_know_one_another() {
        let known: BTreeSet<&str> = names().into_iter().collect();
        let scenarios = sparring_scenarios::load::embedded().unwrap();
        let checks = scenarios.iter().flat_map(|l| {
            l.scenario.judge.iter().flat_map(move |c| c.killed_by.iter().map(move |m| (&c.check, m)))
        });
        let checks = checks.map(|(check, mutant)| (check.as_str(), mutant.as_str()));
        let monitors = monitors().iter().flat_map(|m| m.killed_by.iter().map(|mutant| (m.id, *mutant)));
        let claims: Vec<(&str, &str)> = checks.chain(monitors).collect();
        for (judge, mutant) in &claims {
            assert!(known.contains(mutant), "{judge} names a mutant `{mutant}`, which does not exist");
        }
        let named: BTreeSet<&str> = claims.into_iter().map(|(_, mutant)| mutant).collect();
        let idle: Vec<_> = known.difference(&named).collect();
        assert!(idle.is_empty(), "no judge names {idle:?}");
        for monitor in monitors_of_clients() {
            assert!(!monitor.killed_by.is_empty(), "{} names no mutant", monitor.id);
        }
    }

    fn monitors_of_clients() -> impl Iterator<Item = &'static crate::judge::Monitor> {
        monitors().iter().filter(|monitor| !monitor.judges_the_harness())
    }

    #[test]
    fn each_mutant_goes_through_scenarios_that_exist() {
        let scenarios = sparring_scenarios::load::embedded().unwrap();
        for mutant in mutants() {
            for name in mutant.scenarios {
                let exists = scenarios.iter().any(|l| l.scenario.scenario == *name);
                assert!(exists, "{}: there is no scenario {name}", mutant.name);
            }
        }
    }
}
