//! Input schemas as the model is shown them.

use serde_json::{Map, Value, json};
use sparring_profiles::{Combinators, DiscoverySettings, SchemaRoot};
use std::collections::BTreeSet;

/// Brings input schemas into the form that a host shows. The default is [`ProfileShape`]. What a server gave is kept
/// elsewhere: arguments are never changed by it.
pub trait ToolShaper: Send + Sync {
    /// The schema that the model sees.
    fn shape(&self, schema: &Value) -> Value;
}

/// The normalisation that `[discovery]` describes.
#[derive(Debug, Clone, Copy)]
pub struct ProfileShape {
    /// The root.
    pub root: SchemaRoot,
    /// What becomes of `oneOf`, `anyOf`, `allOf` at the root.
    pub combinators: Combinators,
}

impl ProfileShape {
    /// As these settings want it.
    pub const fn new(settings: &DiscoverySettings) -> Self {
        Self { root: settings.schema_root, combinators: settings.schema_combinators }
    }
}

impl ToolShaper for ProfileShape {
    fn shape(&self, schema: &Value) -> Value {
        let mut shaped = schema.clone();
        if self.combinators == Combinators::Remove
            && let Value::Object(root) = &mut shaped
        {
            fold_combinators(root);
        }
        if self.root == SchemaRoot::Object {
            shaped = object_at_root(shaped);
        }
        shaped
    }
}

fn object_at_root(schema: Value) -> Value {
    // `true`, and what is no schema at all, say nothing about arguments.
    let Value::Object(mut root) = schema else { return json!({"type": "object", "properties": {}}) };
    root.insert("type".into(), "object".into());
    if !root.get("properties").is_some_and(Value::is_object) {
        root.insert("properties".into(), json!({}));
    }
    Value::Object(root)
}

/// Takes the combinators off the root. Properties of their branches are kept. What `allOf` requires stays required; of
/// the branches of `oneOf` and `anyOf`, what all of them require.
fn fold_combinators(root: &mut Map<String, Value>) {
    for (word, all) in [("allOf", true), ("anyOf", false), ("oneOf", false)] {
        let Some(Value::Array(branches)) = root.remove(word) else { continue };
        let branches: Vec<Map<String, Value>> =
            branches.iter().filter_map(|branch| resolved(root, branch)).collect();
        let mut required: Option<BTreeSet<String>> = None;
        for branch in branches {
            let names: BTreeSet<String> = strings(branch.get("required")).collect();
            required = Some(match required {
                None => names,
                Some(so_far) if all => so_far.union(&names).cloned().collect(),
                Some(so_far) => so_far.intersection(&names).cloned().collect(),
            });
            let Some(Value::Object(properties)) = branch.get("properties") else { continue };
            let own = root.entry("properties").or_insert_with(|| json!({}));
            if let Value::Object(own) = own {
                for (name, schema) in properties {
                    own.entry(name.clone()).or_insert_with(|| schema.clone());
                }
            }
        }
        let known: BTreeSet<String> = strings(root.get("required")).collect();
        let added: Vec<String> =
            required.into_iter().flatten().filter(|name| !known.contains(name)).collect();
        if !added.is_empty() {
            let own = root.entry("required").or_insert_with(|| json!([]));
            if let Value::Array(own) = own {
                own.extend(added.into_iter().map(Value::from));
            }
        }
    }
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = String> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned))
}

/// A branch; where it is a reference into the schema itself, what that leads to.
fn resolved(root: &Map<String, Value>, branch: &Value) -> Option<Map<String, Value>> {
    let branch = branch.as_object()?;
    let target = branch.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/"));
    let Some(target) = target else { return Some(branch.clone()) };
    let mut steps = target.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
    let first = root.get(&steps.next()?)?;
    let found = steps.try_fold(first, |value, step| value.get(&step))?;
    found.as_object().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: ProfileShape = ProfileShape { root: SchemaRoot::Object, combinators: Combinators::Remove };
    const AS_IS: ProfileShape = ProfileShape { root: SchemaRoot::AsIs, combinators: Combinators::Keep };

    #[test]
    fn roots_become_objects_and_combinators_are_folded_in() {
        let text = json!({"type": "string"});
        let cases = [
            (json!({}), json!({"type": "object", "properties": {}})),
            (json!(true), json!({"type": "object", "properties": {}})),
            (
                json!({"properties": {"a": text}, "required": ["a"]}),
                json!({"properties": {"a": text}, "required": ["a"], "type": "object"}),
            ),
            (json!({"type": ["object", "null"]}), json!({"type": "object", "properties": {}})),
            (json!({"type": "string"}), json!({"type": "object", "properties": {}})),
            (
                json!({"type": "object", "properties": {"a": text}, "required": ["a"],
                    "oneOf": [{"required": ["b", "c"], "properties": {"b": text, "a": {}}},
                        {"required": ["c"], "properties": {"c": text}}]}),
                json!({"type": "object", "properties": {"a": text, "b": text, "c": text}, "required": ["a", "c"]}),
            ),
            (
                json!({"type": "object", "allOf": [{"required": ["b"]}, {"required": ["c"], "properties": {"c": text}}]}),
                json!({"type": "object", "properties": {"c": text}, "required": ["b", "c"]}),
            ),
            (
                json!({"anyOf": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/none"}, true],
                    "$defs": {"a/b": {"properties": {"x": text}}}}),
                json!({"$defs": {"a/b": {"properties": {"x": text}}}, "properties": {"x": text}, "type": "object"}),
            ),
            // Nested ones stay.
            (
                json!({"type": "object", "properties": {"a": {"anyOf": [text, {"type": "null"}]}}}),
                json!({"type": "object", "properties": {"a": {"anyOf": [text, {"type": "null"}]}}}),
            ),
            // As strange as it gets.
            (json!({"oneOf": 1, "properties": [], "required": "a"}), {
                json!({"properties": {}, "required": "a", "type": "object"})
            }),
        ];
        for (schema, expected) in cases {
            assert_eq!(STRICT.shape(&schema), expected, "{schema}");
            assert_eq!(AS_IS.shape(&schema), schema);
        }
    }

    #[test]
    fn deep_schemas_pass() {
        let mut deep = json!({"type": "string"});
        for _ in 0..64 {
            deep = json!({"type": "object", "properties": {"a": deep}, "anyOf": [{}]});
        }
        let shaped = STRICT.shape(&deep);
        assert_eq!(shaped["properties"]["a"]["anyOf"], json!([{}]));
        assert_eq!(shaped.get("anyOf"), None);
    }
}
