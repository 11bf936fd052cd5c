//! The table of what the matrix can't see by itself: `reviewed.toml`.

use super::{Finding, Findings};
use serde::Deserialize;
use std::collections::BTreeSet;

/// The table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Reviewed {
    hangs: Vec<Hangs>,
    unseen: Vec<Unseen>,
}

/// A scenario that hangs on promises which it does not name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hangs {
    scenario: String,
    on: Vec<String>,
    why: String,
}

/// A promise that differs without its checks showing that.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unseen {
    promise: String,
    judged_by: String,
    /// The hosts that the client is.
    r#as: Vec<String>,
    why: String,
}

impl Reviewed {
    /// The table that comes with the program.
    ///
    /// # Errors
    /// It can't be read, in words.
    pub(super) fn load() -> Result<Self, String> {
        toml::from_str(include_str!("reviewed.toml"))
            .map_err(|error| format!("the reviewed table of the matrix: {error}"))
    }

    /// The promises that a scenario hangs on besides those that it names.
    pub(super) fn hangs_on(&self, scenario: &str) -> impl Iterator<Item = &str> {
        let named = self.hangs.iter().filter(move |hangs| hangs.scenario == scenario);
        named.flat_map(|hangs| hangs.on.iter().map(String::as_str))
    }

    /// Turns what the table knows from unseen to excused. Returns entries that are told apart after all; those of
    /// promises of which nothing was seen only if `complete`, that is if all scenarios were run.
    pub(super) fn excuse(
        &self,
        host: &str,
        profile: &str,
        found: &mut Findings,
        complete: bool,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        for entry in self.unseen.iter().filter(|entry| entry.judged_by == profile) {
            if !entry.r#as.iter().any(|name| name == host) {
                continue;
            }
            match found.get_mut(entry.promise.as_str()) {
                Some((finding @ Finding::Unseen, _)) => *finding = Finding::Excused,
                Some((Finding::Unjudged, _)) | None if !complete => {}
                _ => wrong.push(format!(
                    "`{}` of {profile} is told from {host}, or not tried; take it out of reviewed.toml",
                    entry.promise
                )),
            }
        }
        wrong
    }

    /// Scenarios of which the table says what they hang on, and nothing came of it in a whole matrix.
    pub(super) fn unused<'a>(&'a self, used: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
        self.hangs.iter().map(|hangs| hangs.scenario.as_str()).filter(|name| !used.contains(*name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::input;
    use super::*;
    use serde_json::Value;
    use sparring_profiles::FIELDS;
    use sparring_scenarios::profile::Profile;
    use std::collections::BTreeMap;

    #[test]
    fn the_table_names_what_there_is_and_says_why() {
        let table = Reviewed::load().unwrap();
        let scenarios = input::scenarios(None).unwrap();
        let is_field = |id: &String| FIELDS.iter().any(|field| field.id == *id);
        for hangs in &table.hangs {
            assert!(scenarios.iter().any(|s| s.scenario == hangs.scenario), "{}", hangs.scenario);
            assert!(!hangs.on.is_empty() && hangs.on.iter().all(is_field), "{:?}", hangs.on);
            assert!(hangs.why.ends_with('.'), "{}", hangs.scenario);
        }
        for unseen in &table.unseen {
            assert!(is_field(&unseen.promise), "{}", unseen.promise);
            assert!(!unseen.r#as.is_empty() && unseen.why.ends_with('.'), "{}", unseen.promise);
            let value = |host: &str| {
                let settings =
                    Profile::named(host).unwrap_or_else(|error| panic!("{}", error.render(false))).settings();
                let all = serde_json::to_value(settings).unwrap();
                all.pointer(&format!("/{}", unseen.promise.replace('.', "/"))).cloned()
            };
            for host in &unseen.r#as {
                assert_ne!(value(host), value(&unseen.judged_by), "{} as {host}", unseen.promise);
            }
        }
    }

    #[test]
    fn an_entry_that_is_told_apart_after_all_is_an_error() {
        let table = Reviewed {
            hangs: Vec::new(),
            unseen: vec![Unseen {
                promise: "timeouts.tool_s".to_owned(),
                judged_by: "zut".to_owned(),
                r#as: vec!["chaz".to_owned()],
                why: "It takes long.".to_owned(),
            }],
        };
        let found = |finding| BTreeMap::from([("timeouts.tool_s", (finding, [Value::Null, Value::Null]))]);
        let excuse = |host: &str, finding, complete| {
            let mut found = found(finding);
            let wrong = table.excuse(host, "zut", &mut found, complete).len();
            (wrong, found["timeouts.tool_s"].0)
        };
        assert_eq!(excuse("chaz", Finding::Unseen, true), (0, Finding::Excused));
        assert_eq!(excuse("mewbo", Finding::Unseen, true), (0, Finding::Unseen));
        assert_eq!(excuse("chaz", Finding::Shown, true), (1, Finding::Shown));
        assert_eq!(excuse("chaz", Finding::Shown, false), (1, Finding::Shown));
        assert_eq!(excuse("chaz", Finding::Unjudged, true), (1, Finding::Unjudged));
        assert_eq!(excuse("chaz", Finding::Unjudged, false), (0, Finding::Unjudged));
    }

    #[test]
    fn a_scenario_of_the_table_that_nothing_came_of_is_named() {
        let table = Reviewed::load().unwrap();
        let all: BTreeSet<String> = table.hangs.iter().map(|hangs| hangs.scenario.clone()).collect();
        assert_eq!(table.unused(&all).count(), 0);
        assert_eq!(table.unused(&BTreeSet::new()).count(), table.hangs.len());
        assert_eq!(table.hangs_on("no.such").count(), 0);
    }
}
