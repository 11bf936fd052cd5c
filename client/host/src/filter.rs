//! Which of a server's tools there are.

use crate::entry::ServerEntry;
use globset::{GlobBuilder, GlobMatcher};
use serde_json::Value;
use sparring_client::Entry;
use sparring_profiles::{DiscoverySettings, FilterNames, ToolFilter};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Decides about a tool, by the server's name and the tool as the server gave it.
pub type ToolPredicate = Arc<dyn Fn(&str, &Entry) -> bool + Send + Sync>;

/// The filters of one server. They are intersected, so their order changes nothing. A tool that does not pass is neither
/// listed nor called.
#[derive(Clone)]
pub struct ToolFilters {
    server: String,
    allow: Option<BTreeSet<String>>,
    deny: BTreeSet<String>,
    predicate: Option<ToolPredicate>,
    names: FilterNames,
}

impl std::fmt::Debug for ToolFilters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolFilters")
            .field("server", &self.server)
            .field("allow", &self.allow)
            .field("deny", &self.deny)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl ToolFilters {
    /// The filters of an entry, as far as the host has such.
    pub fn new(settings: &DiscoverySettings, entry: &ServerEntry, predicate: Option<ToolPredicate>) -> Self {
        let has = |filter| settings.filters.contains(&filter);
        Self {
            server: entry.name.clone(),
            allow: entry
                .allow
                .as_ref()
                .filter(|_| has(ToolFilter::Allow))
                .map(|names| names.iter().cloned().collect()),
            deny: entry.deny.iter().filter(|_| has(ToolFilter::Deny)).cloned().collect(),
            predicate: predicate.filter(|_| has(ToolFilter::Predicate)),
            names: settings.filter_names,
        }
    }

    /// Whether the tool passes before names are composed.
    pub fn passes_raw(&self, tool: &Entry) -> bool {
        self.predicate.as_ref().is_none_or(|decide| decide(&self.server, tool))
            && (self.names == FilterNames::Composed || self.listed(&tool.key))
    }

    /// Whether the tool of that composed name passes.
    pub fn passes_composed(&self, name: &str) -> bool {
        self.names == FilterNames::Raw || self.listed(name)
    }

    fn listed(&self, name: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(name)) && !self.deny.contains(name)
    }
}

/// The tools that an entry supplies, where the host has such; `tools/list` is not sent then.
///
/// Entries without a name, and second ones of a name, are left out, as in a list of a server.
pub fn supplied(settings: &DiscoverySettings, entry: &ServerEntry) -> Option<Vec<Entry>> {
    let tools = entry.supplied_tools.as_ref().filter(|_| settings.supplied_tools)?;
    let mut seen = BTreeSet::new();
    let named = tools.iter().filter_map(|json| {
        let key = json.get("name").and_then(Value::as_str)?.to_owned();
        seen.insert(key.clone()).then(|| Entry { key, json: json.clone() })
    });
    Some(named.collect())
}

/// A choice of tools by exact composed names and globs over them: `*` any characters, `?` one, `[a-z]`, `{a,b}`. It
/// applies to tools that appear later just as to those that are there.
#[derive(Debug, Clone, Default)]
pub struct Globs {
    exact: BTreeSet<String>,
    patterns: Vec<GlobMatcher>,
}

impl Globs {
    /// A choice.
    ///
    /// # Errors
    /// The pattern that is none, and why.
    pub fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self, String> {
        let mut globs = Self::default();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            globs.exact.insert(pattern.to_owned());
            if pattern.contains(['*', '?', '[', '{']) {
                let glob = GlobBuilder::new(pattern).literal_separator(false).backslash_escape(true).build();
                let glob = glob.map_err(|error| format!("{pattern:?} is no pattern: {}", error.kind()))?;
                globs.patterns.push(glob.compile_matcher());
            }
        }
        Ok(globs)
    }

    /// Whether it has that composed name.
    pub fn has(&self, name: &str) -> bool {
        self.exact.contains(name) || self.patterns.iter().any(|pattern| pattern.is_match(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(name: &str) -> Entry {
        Entry { key: name.into(), json: json!({"name": name}) }
    }

    fn passing(
        settings: &DiscoverySettings,
        entry: &ServerEntry,
        predicate: Option<ToolPredicate>,
    ) -> Vec<&'static str> {
        let filters = ToolFilters::new(settings, entry, predicate);
        let all = ["a", "b", "c", "b.x"];
        all.into_iter()
            .filter(|name| {
                filters.passes_raw(&tool(name)) && filters.passes_composed(&format!("mcp__s__{name}"))
            })
            .collect()
    }

    #[test]
    fn filters_are_intersected() {
        let settings = DiscoverySettings::default();
        let words = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let no_c: ToolPredicate = Arc::new(|server, tool| server == "s" && tool.key != "c");
        type Case<'a> = (Option<&'a [&'a str]>, &'a [&'a str], bool, &'a [&'a str]);
        let cases: [Case<'_>; 8] = [
            (None, &[], false, &["a", "b", "c", "b.x"]),
            (Some(&["a", "b"]), &[], false, &["a", "b"]),
            (None, &["b"], false, &["a", "c", "b.x"]),
            (Some(&["a", "b"]), &["b"], false, &["a"]),
            (Some(&["none"]), &["neither"], false, &[]),
            (Some(&[]), &[], false, &[]),
            (None, &["b"], true, &["a", "b.x"]),
            (Some(&["mcp__s__a"]), &[], false, &[]),
        ];
        for (allow, deny, predicate, expected) in cases {
            let entry = ServerEntry {
                name: "s".into(),
                allow: allow.map(words),
                deny: words(deny),
                ..ServerEntry::default()
            };
            let predicate = predicate.then(|| Arc::clone(&no_c));
            assert_eq!(passing(&settings, &entry, predicate), expected, "{allow:?} {deny:?}");
        }
    }

    #[test]
    fn filters_match_the_names_that_the_profile_says_and_only_those_it_has() {
        let entry = ServerEntry {
            name: "s".into(),
            allow: Some(vec!["mcp__s__a".into(), "mcp__s__b".into(), "c".into()]),
            deny: vec!["mcp__s__b".into()],
            ..ServerEntry::default()
        };
        let composed =
            DiscoverySettings { filter_names: FilterNames::Composed, ..DiscoverySettings::default() };
        assert_eq!(passing(&composed, &entry, None), ["a"]);
        let none = DiscoverySettings { filters: Vec::new(), ..DiscoverySettings::default() };
        let never: ToolPredicate = Arc::new(|_, _| false);
        assert_eq!(passing(&none, &entry, Some(never)).len(), 4);
    }

    #[test]
    fn supplied_tools_are_read_like_a_list() {
        let entry = ServerEntry {
            supplied_tools: Some(vec![
                json!({"name": "a"}),
                json!({"title": "b"}),
                json!({"name": "a", "x": 1}),
                json!(3),
            ]),
            ..ServerEntry::default()
        };
        let settings = DiscoverySettings::default();
        assert_eq!(supplied(&settings, &entry), Some(vec![tool("a")]));
        assert_eq!(supplied(&settings, &ServerEntry::default()), None);
        let without = DiscoverySettings { supplied_tools: false, ..settings };
        assert_eq!(supplied(&without, &entry), None);
    }

    #[test]
    fn globs_choose_by_whole_names() {
        let globs = Globs::new(["fs__*", "db__query", "x?z", "odd[1]"]).unwrap();
        for name in ["fs__read", "fs__", "fs__a/b", "db__query", "xyz", "odd1", "odd[1]"] {
            assert!(globs.has(name), "{name}");
        }
        for name in ["fs2__read", "fs_read", "my_fs__read", "db__query2", "xz", ""] {
            assert!(!globs.has(name), "{name}");
        }
        let error = Globs::new(["a[", "b"]).unwrap_err();
        assert!(error.contains("\"a[\""), "{error}");
        assert!(!Globs::default().has("a"));
    }
}
