//! Entries of the lists that a server gives.

use crate::script::{JsonText, PromptScript, ResourceScript};
use serde_json::{Map, Value};
use sparring_wire::Revision;

/// A resource as `resources/list` shows it.
pub(super) fn resource(resource: &ResourceScript, revision: Revision) -> Value {
    let name = resource.name.as_deref().unwrap_or_else(|| {
        let last = resource.uri.rsplit('/').next().unwrap_or_default();
        if last.is_empty() { resource.uri.as_str() } else { last }
    });
    let first = Revision::V2024_11_05;
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    entry(
        revision,
        [
            ("uri", Some(resource.uri.as_str().into()), first),
            ("name", Some(name.into()), first),
            ("title", text(&resource.title), Revision::V2025_06_18),
            ("description", text(&resource.description), first),
            ("mimeType", text(&resource.mime_type), first),
            ("icons", resource.icons.as_ref().map(|i| i.0.clone()), Revision::V2025_11_25),
        ],
        resource.extra.as_ref(),
    )
}

/// A prompt as `prompts/list` shows it.
pub(super) fn prompt(prompt: &PromptScript, revision: Revision) -> Value {
    let first = Revision::V2024_11_05;
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    entry(
        revision,
        [
            ("name", Some(prompt.name.as_str().into()), first),
            ("title", text(&prompt.title), Revision::V2025_06_18),
            ("description", text(&prompt.description), first),
            ("arguments", prompt.arguments.as_ref().map(|a| a.0.clone()), first),
            ("icons", prompt.icons.as_ref().map(|i| i.0.clone()), Revision::V2025_11_25),
        ],
        prompt.extra.as_ref(),
    )
}

/// An entry of a list: the members that are there and that the revision has, and what the script adds.
fn entry<const N: usize>(
    revision: Revision,
    members: [(&str, Option<Value>, Revision); N],
    extra: Option<&JsonText>,
) -> Value {
    let mut out = Map::new();
    for (key, value, since) in members {
        if let Some(value) = value.filter(|_| revision >= since) {
            out.insert(key.into(), value);
        }
    }
    if let Some(JsonText(Value::Object(extra))) = extra {
        out.extend(extra.clone());
    }
    Value::Object(out)
}
