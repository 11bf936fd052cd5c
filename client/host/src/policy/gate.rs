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
}

/// Looks at each call before it is made, and before anybody is asked.
#[async_trait]
pub trait Gate: Send + Sync {
    /// # Errors
    /// Why the call is not made.
    async fn check(&self, call: GatedCall<'_>) -> Result<(), String>;
}

/// Lets every call pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGate;

#[async_trait]
impl Gate for NoGate {
    async fn check(&self, _: GatedCall<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// Refuses calls by the names of the tools.
#[derive(Debug, Clone, Default)]
pub struct NameGate(pub NameSet);

#[async_trait]
impl Gate for NameGate {
    async fn check(&self, call: GatedCall<'_>) -> Result<(), String> {
        match self.0.contains(call.tool, call.server.is_some()) {
            true => Err("a gate refuses it".to_owned()),
            false => Ok(()),
        }
    }
}
