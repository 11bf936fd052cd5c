//! The forms in which a tool is shown.

use crate::model::ModelTool;
use crate::policy::longest_match;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sparring_profiles::Level;
use std::collections::BTreeMap;

/// Which tools are shown in which form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Levels {
    /// The form of all others.
    pub default: Level,
    /// Forms by composed name or glob; a name beats globs, and the longest glob the others.
    pub tools: BTreeMap<String, Level>,
}

impl Default for Levels {
    fn default() -> Self {
        Self { default: Level::Full, tools: BTreeMap::new() }
    }
}

impl Levels {
    /// The form of a tool.
    pub fn of(&self, name: &str) -> Level {
        longest_match(&self.tools, name).copied().unwrap_or(self.default)
    }
}

/// Characters of a description that make a line.
const LINE: usize = 120;

fn line(text: &str) -> String {
    let first = text.trim_start().lines().next().unwrap_or_default().trim_end();
    match first.char_indices().nth(LINE) {
        Some((at, _)) => format!("{}…", first.get(..at).unwrap_or_default().trim_end()),
        None => first.to_owned(),
    }
}

/// A tool as a model gets it.
pub(super) fn definition(tool: &ModelTool, level: Level) -> Value {
    let mut members = Map::new();
    members.insert("name".into(), tool.name.as_str().into());
    let description = tool.description.as_deref().or(tool.title.as_deref());
    if let Some(description) = description {
        let shown = if level == Level::Summary { line(description) } else { description.to_owned() };
        members.insert("description".into(), shown.into());
    }
    let schema = match level {
        Level::Full => tool.input_schema.clone(),
        Level::Brief | Level::Summary => json!({"type": "object"}),
    };
    members.insert("inputSchema".into(), schema);
    if level == Level::Full
        && let Some(output) = &tool.output_schema
    {
        members.insert("outputSchema".into(), output.clone());
    }
    Value::Object(members)
}
