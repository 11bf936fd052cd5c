//! Allowlists: patterns over a tool's name and its first string argument.

use super::Rule;
use crate::model::ModelTool;
use crate::template;
use regex::RegexBuilder;
use serde_json::{Map, Value};
use sparring_profiles::PolicySettings;

/// Bytes that a compiled pattern may take.
const LARGEST: usize = 1 << 20;

/// What patterns are matched against. Where there is no string argument, nothing stands for it, nor for the blank
/// before it.
pub(super) fn subject(settings: &PolicySettings, tool: &ModelTool, arguments: &Map<String, Value>) -> String {
    let first = arguments.values().find_map(Value::as_str);
    let text = template::fill(&settings.allowlist_subject, |name| match name {
        "composed" => Some(tool.name.as_str()),
        "raw" => Some(tool.raw().unwrap_or(&tool.name)),
        "server" => Some(tool.server.as_deref().unwrap_or_default()),
        "first_string_arg" => Some(first.unwrap_or_default()),
        _ => None,
    });
    match first {
        Some(_) => text,
        None => text.trim_end().to_owned(),
    }
}

/// Whether one of the rule's patterns matches. What is no pattern matches nothing, and no pattern takes long: the
/// engine's time is linear in the text.
pub(super) fn allows(rule: &Rule, subject: &str) -> bool {
    let patterns = rule.get("patterns").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    patterns.iter().filter_map(Value::as_str).any(|pattern| {
        RegexBuilder::new(pattern).size_limit(LARGEST).build().is_ok_and(|regex| regex.is_match(subject))
    })
}
