//! Servers that other programs have configured.

use super::document::Document;
use super::places::located;
use super::{Dialect, Loaded};
use crate::entry::{Kind, Source};
use crate::surroundings::Surroundings;
use serde_json::Value;
use sparring_profiles::{ConfigSettings, Format};

/// Reads them: those of `config.imports` if the user wants that, those of `config.imports_http` in any case, but then
/// without what would be started. Nothing that is wrong with them is an error of the host.
pub(super) fn read(
    config: &ConfigSettings,
    around: &Surroundings,
    import: bool,
    warnings: &mut Vec<String>,
) -> Loaded {
    let project = around.project_root(config.project_root);
    let mut all = Loaded::default();
    let imports = config.imports.iter().filter(|_| import);
    for template in imports.chain(&config.imports_http) {
        let Some(file) = located(template, around, project.as_deref()) else { continue };
        let document = match Document::read(&file, Document::format_of(&file, Format::Json)) {
            Ok(Some(document)) => document,
            Ok(None) => continue,
            Err(error) => {
                warnings.push(format!("not taken over: {error}"));
                continue;
            }
        };
        let source = Source { file: Some(file), project: template.contains("{project}") };
        let mut found = Loaded::default();
        for document in parts(document, project.as_deref()) {
            if let Err(error) = Dialect::any().read(&document, &source, &mut found) {
                warnings.push(format!("not taken over: {error}"));
            }
        }
        warnings.extend(found.faults.drain(..).map(|fault| format!("not taken over: {}", fault.message)));
        if !import {
            found.entries.retain(|entry| entry.transport() != Some(Kind::Stdio));
        }
        // The first of a name counts.
        for entry in found.entries {
            if all.entries.iter().all(|known| known.name != entry.name) {
                all.entries.push(entry);
            }
        }
    }
    all
}

/// The document, and before it what it has for this project, where it has projects. Entries with `disabled` are switched
/// off.
fn parts(mut document: Document, project: Option<&std::path::Path>) -> Vec<Document> {
    let mut parts = Vec::new();
    let of_project = project
        .and_then(|project| document.root.get_mut("projects")?.get_mut(project.to_str()?).map(Value::take))
        .filter(Value::is_object);
    if let Some(root) = of_project {
        let mut part = document.clone();
        part.root = root;
        parts.push(part);
    }
    parts.push(document);
    for part in &mut parts {
        for key in ["mcpServers", "servers", "mcp_servers"] {
            let entries = part.root.get_mut(key).and_then(Value::as_object_mut);
            for entry in entries.into_iter().flat_map(|map| map.values_mut()).filter_map(Value::as_object_mut)
            {
                if entry.get("disabled").and_then(Value::as_bool) == Some(true) {
                    entry.insert("enabled".into(), false.into());
                }
            }
        }
    }
    parts
}
