//! What a conversation has found.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A search in a conversation, or what is left of several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// Composed names of the tools that were found.
    pub found: Vec<String>,
    /// Whether it stands for what was compacted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
}

/// The searches of a conversation, oldest first. A program keeps it with the conversation, and gives it back with the
/// next session of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conversation(pub Vec<Exchange>);

impl Conversation {
    /// A search was answered.
    pub fn answered(&mut self, found: Vec<String>) {
        if !found.is_empty() {
            self.0.push(Exchange { found, summary: false });
        }
    }

    /// All names found, replayed from the beginning.
    pub fn found(&self) -> BTreeSet<String> {
        self.0.iter().flat_map(|exchange| &exchange.found).cloned().collect()
    }

    /// The turns are replaced by a summary, which keeps what was found.
    pub fn compact(&mut self) {
        let found: Vec<String> = self.found().into_iter().collect();
        self.0.clear();
        if !found.is_empty() {
            self.0.push(Exchange { found, summary: true });
        }
    }
}
