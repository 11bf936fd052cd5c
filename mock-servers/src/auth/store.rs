//! What a server remembers, within limits.

use std::collections::VecDeque;

/// How many clients, codes and tokens of a kind are remembered. A client that loops makes the oldest be forgotten.
const MAX_ENTRIES: usize = 1024;

/// Things by their name, at most [`MAX_ENTRIES`]; few enough to be searched from the newest on.
#[derive(Debug, Clone)]
pub(super) struct Store<V>(VecDeque<(String, V)>);

impl<V> Store<V> {
    pub(super) const fn new() -> Self {
        Self(VecDeque::new())
    }

    pub(super) fn insert(&mut self, key: String, value: V) {
        if self.0.len() >= MAX_ENTRIES {
            self.0.pop_front();
        }
        self.0.push_back((key, value));
    }

    pub(super) fn get(&self, key: &str) -> Option<&V> {
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        self.0.iter_mut().rev().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.0.retain(|(k, _)| k != key);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        self.0.retain(|(_, value)| keep(value));
    }
}

impl Store<()> {
    /// Whether the name is new; from then on it is not. Names that are too long are never new.
    pub(super) fn first_time(&mut self, name: &str) -> bool {
        const MAX_NAME: usize = 1024;
        let new = name.len() <= MAX_NAME && self.get(name).is_none();
        if new {
            self.insert(name.to_owned(), ());
        }
        new
    }
}
