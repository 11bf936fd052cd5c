//! docs/seed-coverage.md: what five real hosts do, and what tries it. Made of profiles/seed-features.toml, the scenarios and
//! the mutants; this sees to it that the page is up to date and says what is missing.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use serde::Deserialize;
use sparring_profiles::BUILT_IN;
use sparring_scenarios::profile::{Profile, field_of};
use sparring_scenarios::scenario::Scenario;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Features {
    feature: Vec<Feature>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Feature {
    id: String,
    text: String,
    hosts: Vec<String>,
    fields: Vec<String>,
    #[serde(default)]
    scenarios: Vec<String>,
    /// Tests that try it where no driver can: `FILE::FUNCTION`.
    #[serde(default)]
    tests: Vec<String>,
    /// Why it is tried in part only.
    #[serde(default)]
    partly: Option<String>,
    /// Why nothing tries it.
    #[serde(default)]
    not_judged: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn features() -> Vec<Feature> {
    let text = std::fs::read_to_string(root().join("profiles/seed-features.toml")).unwrap();
    toml::from_str::<Features>(&text).unwrap_or_else(|e| panic!("seed-features.toml: {e}")).feature
}

fn scenarios() -> Vec<Arc<Scenario>> {
    sparring_scenarios::load::embedded().unwrap().into_iter().map(|loaded| loaded.scenario).collect()
}

/// Whether a scenario is the named one, or one of a row that begins so.
fn belongs(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

/// What tries a feature: its scenarios, and of those the mutants that fail them.
fn tried<'a>(feature: &Feature, all: &'a [Arc<Scenario>]) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let of = all.iter().filter(|s| feature.scenarios.iter().any(|name| belongs(&s.scenario, name)));
    let (mut ids, mut mutants) = (BTreeSet::new(), BTreeSet::new());
    for scenario in of {
        ids.insert(scenario.scenario.as_str());
        mutants.extend(scenario.judge.iter().flat_map(|check| &check.killed_by).map(String::as_str));
    }
    (ids, mutants)
}

fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn page() -> (String, Vec<String>) {
    let all = scenarios();
    let (mut rows, mut missing, mut silent) = (String::new(), Vec::new(), 0);
    let features = features();
    for feature in &features {
        let (ids, mutants) = tried(feature, &all);
        let by = match (&feature.not_judged, ids.is_empty()) {
            (Some(why), _) => {
                silent += 1;
                format!("| {why} | ")
            }
            (None, true) if !feature.tests.is_empty() => {
                format!("| tests {} | ", quoted(feature.tests.iter().map(String::as_str)))
            }
            (None, true) => {
                missing.push(feature.id.clone());
                format!("| **missing**: {} | ", quoted(feature.scenarios.iter().map(String::as_str)))
            }
            (None, false) => {
                let partly = feature.partly.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
                format!("| {}{partly} | {}", quoted(ids), quoted(mutants))
            }
        };
        let _ = writeln!(
            rows,
            "| {} | {} | {} | {} {by} |",
            feature.id,
            feature.text.replace('|', "\\|"),
            feature.hosts.join(", "),
            quoted(feature.fields.iter().map(String::as_str)),
        );
    }
    let text = format!(
        "# What tries the features of the five hosts

<!-- Made by `SPARRING_BLESS=1 cargo test -p sparring --test seed_coverage`; do not edit. -->

The built-in profiles [chaz, zidane, zut, Mewbo and mouaif](profiles.md) are real hosts. This is what their documentation says
they do ({} features), in which fields of a profile it can be promised, which scenarios try it, and which mutants of the
reference client those scenarios fail. The features stand in [seed-features.toml](../profiles/seed-features.toml).

{} are tried, {silent} only a person sees, {} are missing.

| feature | what the host does | hosts | fields | scenarios | mutants |
| --- | --- | --- | --- | --- | --- |
{rows}",
        features.len(),
        features.len() - silent - missing.len(),
        missing.len(),
    );
    (text, missing)
}

/// Features that nothing tries yet. The goal is none; the number goes down and never up.
const MISSING: usize = 3;

#[test]
fn the_page_is_up_to_date_and_nothing_new_is_missing() {
    let (text, missing) = page();
    let path = root().join("docs/seed-coverage.md");
    if std::env::var_os("SPARRING_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/seed-coverage.md is out of date: run `SPARRING_BLESS=1 cargo test -p sparring --test seed_coverage`"
    );
    assert!(missing.len() <= MISSING, "more is missing than was: {missing:?}");
}

#[test]
fn every_feature_is_sound() {
    let known: BTreeSet<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let mut ids = BTreeSet::new();
    for feature in features() {
        let id = &feature.id;
        assert!(ids.insert(id.clone()), "{id} is there twice");
        assert!(!feature.hosts.is_empty(), "{id} is no host's");
        for host in &feature.hosts {
            assert!(known.contains(host.as_str()), "{id}: there is no profile {host}");
        }
        for field in &feature.fields {
            assert!(sparring_profiles::field(field).is_some(), "{id}: there is no field {field}");
        }
        assert!(
            feature.not_judged.is_some() == (feature.scenarios.is_empty() && feature.tests.is_empty()),
            "{id} has scenarios or tests, or a reason why it has none"
        );
        for test in &feature.tests {
            let (file, function) = test.split_once("::").unwrap();
            let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
            assert!(text.contains(&format!("fn {function}()")), "{id}: there is no test {test}");
        }
    }
    assert_eq!(ids.len(), 250);
}

/// What a built-in profile promises and nothing judges would be an empty promise.
#[test]
fn every_promise_of_a_built_in_profile_is_judged() {
    let all = scenarios();
    let mut judged: BTreeMap<String, usize> = BTreeMap::new();
    for check in all.iter().flat_map(|scenario| &scenario.judge) {
        if let Some(promise) = &check.promise {
            let id = promise.split(['=', '~', '!']).next().unwrap_or(promise).trim();
            *judged.entry(field_of(id).to_owned()).or_default() += 1;
        }
    }
    let mut idle = BTreeSet::new();
    for (name, _) in BUILT_IN {
        let profile = Profile::named(name).unwrap();
        let made = profile.promises_made().into_iter().filter(|id| sparring_profiles::field(id).is_some());
        idle.extend(made.filter(|id| !judged.contains_key(id)));
    }
    assert!(idle.len() <= UNJUDGED, "more promises are judged by nothing than were: {idle:?}");
}

/// Promises of the built-in profiles that no scenario checks yet. The goal is none.
const UNJUDGED: usize = 12;
