//! Hooks that refuse single calls.

use super::NameSet;
use async_trait::async_trait;
use serde_json::{Map, Value};

/// A call as a gate sees it: of the tool itself, never of one that dispatches.
#[derive(Debug, Clone, Copy)]
pub struct GatedCall<'a> {
    /// The composed name.
    pub tool: &'a str,
    /// The server.
    pub server: Option<&'a str>,
    /// The arguments.
    pub arguments: &'a Map<String, Value>,
    /// The tools that the session refuses.
    pub refused: &'a NameSet,
}

/// Looks at each call before it is made, and before anybody is asked.
#[async_trait]
pub trait Gate: Send + Sync {
    /// # Errors
    /// Why the call is not made.
    async fn check(&self, call: GatedCall<'_>) -> Result<(), String>;
}

/// Refuses the tools that the session refuses, and no others.
#[derive(Debug, Clone, Copy, Default)]
pub struct NameGate;

#[async_trait]
impl Gate for NameGate {
    async fn check(&self, call: GatedCall<'_>) -> Result<(), String> {
        match call.refused.contains(call.tool, call.server.is_some()) {
            true => Err("a gate refuses it".to_owned()),
            false => Ok(()),
        }
    }
}
