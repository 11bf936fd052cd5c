//! What the prompt shows of deferred tools.

use super::View;
use crate::model::ModelTool;
use sparring_profiles::Catalog;
use std::collections::{BTreeMap, BTreeSet};

/// The catalog in its element: a line for each tool, under its server.
pub(super) fn render(view: &View<'_>, deferred: &BTreeSet<String>) -> Option<String> {
    if deferred.is_empty() || !view.options.tool {
        return None;
    }
    let mut servers: BTreeMap<&str, Vec<&ModelTool>> = BTreeMap::new();
    for tool in view.tools.iter().filter(|tool| deferred.contains(&tool.name)) {
        servers.entry(tool.server.as_deref().unwrap_or_default()).or_default().push(tool);
    }
    let tag = &view.settings.catalog_tag;
    let descriptions = view.options.catalog.unwrap_or(view.settings.catalog) == Catalog::Descriptions;
    let mut out = format!("<{tag}>\n");
    for (server, tools) in servers {
        if !server.is_empty() {
            out.push_str(&format!("{}:\n", plain(server)));
        }
        for tool in tools {
            out.push_str(&format!("- {}", plain(&tool.name)));
            let text = tool.description.as_deref().or(tool.title.as_deref()).filter(|_| descriptions);
            if let Some(text) = text.map(plain).filter(|text| !text.is_empty()) {
                out.push_str(&format!(": {text}"));
            }
            out.push('\n');
        }
    }
    out.push_str(&format!("</{tag}>"));
    Some(out)
}

/// One line, which neither opens nor closes an element.
fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
