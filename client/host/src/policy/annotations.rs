//! What a server says of its tools.

use crate::model::ModelTool;
use serde_json::Value;
use sparring_profiles::BothHints;

/// The hints that are `true` and nothing else. A missing `destructiveHint` stands for `true` in the specification; a
/// policy that maps it counts only what a server says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hints {
    /// `readOnlyHint`
    pub read_only: bool,
    /// `destructiveHint`
    pub destructive: bool,
}

impl Hints {
    /// Those of a tool.
    pub fn of(tool: &ModelTool) -> Self {
        let is = |name: &str| {
            tool.annotations.as_ref().and_then(|hints| hints.get(name)) == Some(&Value::Bool(true))
        };
        Self { read_only: is("readOnlyHint"), destructive: is("destructiveHint") }
    }

    /// The one that counts; `winner` if both are there.
    pub fn strongest(self, winner: BothHints) -> Option<BothHints> {
        match (self.read_only, self.destructive) {
            (true, true) => Some(winner),
            (true, false) => Some(BothHints::ReadOnly),
            (false, true) => Some(BothHints::Destructive),
            (false, false) => None,
        }
    }
}
