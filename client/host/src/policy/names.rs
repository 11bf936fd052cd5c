//! Sets of composed names: exact ones and globs.

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Composed names, exact or as globs (`files__*`); `mcp` stands for every tool of every server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NameSet(pub Vec<String>);

impl NameSet {
    /// Whether a name is one of them. `of_server`: the tool is a server's, not the host's own.
    pub fn contains(&self, name: &str, of_server: bool) -> bool {
        self.0.iter().any(|pattern| matches(pattern, name) || (of_server && pattern == "mcp"))
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Into<String>> FromIterator<T> for NameSet {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

/// Whether a name is this one, or matches it as a glob. What is no glob matches only itself.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    pattern == name
        || (pattern.contains(['*', '?', '[', '{'])
            && GlobBuilder::new(pattern).build().is_ok_and(|glob| glob.compile_matcher().is_match(name)))
}

/// What stands under a name: under the name itself, or else under the longest glob that matches it.
pub(crate) fn longest_match<'a, T>(entries: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
    entries.get(name).or_else(|| {
        let globs = entries.iter().filter(|(pattern, _)| matches(pattern, name));
        globs.max_by_key(|(pattern, _)| pattern.len()).map(|(_, entry)| entry)
    })
}
