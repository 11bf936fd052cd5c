//! The tools that servers had when they were last asked.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Whose tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey {
    /// The project's folder; empty without one.
    pub project: String,
    /// The server's name.
    pub server: String,
}

/// Remembers the tools of servers, as `tools/list` gave them. The methods may block; the host calls them where that
/// does no harm.
pub trait ToolCache: Send + Sync {
    /// What is remembered.
    fn get(&self, key: &CacheKey) -> Option<Arc<Vec<Value>>>;
    /// Remembers. A failure is no more than something forgotten.
    fn put(&self, key: &CacheKey, tools: &[Value]);
    /// Forgets.
    fn forget(&self, key: &CacheKey);
}

/// Remembers as long as the host lives.
#[derive(Debug, Default)]
pub struct MemoryCache {
    known: Mutex<HashMap<CacheKey, Arc<Vec<Value>>>>,
}

impl ToolCache for MemoryCache {
    fn get(&self, key: &CacheKey) -> Option<Arc<Vec<Value>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: &CacheKey, tools: &[Value]) {
        let tools = Arc::new(tools.to_vec());
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), tools);
    }

    fn forget(&self, key: &CacheKey) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// Remembers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCache;

impl ToolCache for NoCache {
    fn get(&self, _: &CacheKey) -> Option<Arc<Vec<Value>>> {
        None
    }

    fn put(&self, _: &CacheKey, _: &[Value]) {}

    fn forget(&self, _: &CacheKey) {}
}
