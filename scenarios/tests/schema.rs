//! The schemas and the loader take the same files.
//!
//! Every file of the product is changed in one place in many ways, and each time loader and schema have to agree on
//! whether it is still a scenario or a script. One thing they see differently, and it does no harm: the loader takes a
//! number in quotes for a number.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use sparring_scenarios::load::{self, EMBEDDED};
use sparring_scenarios::schema::{Kind, schema};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn validator(kind: Kind) -> Validator {
    jsonschema::draft202012::new(&schema(kind)).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// All script files: name and text.
fn scripts() -> Vec<(String, String)> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|e| e == "yaml") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts"), &mut found);
    found.sort();
    assert!(!found.is_empty());
    found
        .into_iter()
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()))
        .collect()
}

#[test]
fn every_file_of_the_product_is_valid() {
    let scenario = validator(Kind::Scenario);
    for (name, text) in EMBEDDED {
        let wrong: Vec<String> =
            scenario.iter_errors(&yaml(text)).map(|e| format!("{} {e}", e.instance_path())).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    }
    let script = validator(Kind::Script);
    for (name, text) in scripts() {
        let wrong: Vec<String> =
            script.iter_errors(&yaml(&text)).map(|e| format!("{} {e}", e.instance_path())).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    }
}

/// What a value is replaced with. The texts are JSON, so that JSON in strings stays JSON.
fn replacements() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(7),
        json!(-7),
        json!("\"zzz\""),
        json!([]),
        json!({}),
        json!([{}]),
        json!({"zzz": "\"zzz\""}),
    ]
}

/// The file with one change, for all changes that are `wanted`: by their place and what is done there.
fn mutations(value: &Value, wanted: &mut dyn FnMut(&str) -> bool, out: &mut Vec<(String, Value)>) {
    let mut mutate = Mutate { root: value, wanted, out };
    mutate.at(&[], value);
}

struct Mutate<'a> {
    root: &'a Value,
    wanted: &'a mut dyn FnMut(&str) -> bool,
    out: &'a mut Vec<(String, Value)>,
}

impl Mutate<'_> {
    fn change(&mut self, path: &[Value], what: &str, with: impl FnOnce() -> Value) {
        let place: String = path.iter().map(|step| format!("/{step}")).collect();
        let change = format!("{place} {what}");
        if !(self.wanted)(&change) {
            return;
        }
        let mut copy = self.root.clone();
        let mut target = &mut copy;
        for step in path {
            target = match step {
                Value::String(key) => &mut target[key.as_str()],
                index => &mut target[usize::try_from(index.as_u64().unwrap()).unwrap()],
            };
        }
        *target = with();
        self.out.push((change, copy));
    }

    fn at(&mut self, path: &[Value], here: &Value) {
        for with in replacements() {
            if with != *here {
                self.change(path, &format!("= {with}"), || with.clone());
            }
        }
        match here {
            Value::Object(members) => {
                for key in members.keys() {
                    self.change(path, &format!("without {key}"), || {
                        let mut fewer: Map<String, Value> = members.clone();
                        fewer.shift_remove(key);
                        fewer.into()
                    });
                }
                self.change(path, "with zzz", || {
                    let mut more = members.clone();
                    more.insert("zzz".to_owned(), json!("\"zzz\""));
                    more.into()
                });
                for (key, member) in members {
                    self.at(&[path, &[json!(key)]].concat(), member);
                }
            }
            Value::Array(items) => {
                self.change(path, "and zzz", || {
                    let mut more = items.clone();
                    more.push(json!("\"zzz\""));
                    more.into()
                });
                for (n, item) in items.iter().enumerate() {
                    self.at(&[path, &[json!(n)]].concat(), item);
                }
            }
            _ => {}
        }
    }
}

/// What only the lint sees and the schema sees too, since an editor should say it at once: the form of `revisions`,
/// the words of `needs`, and the ids of the catalogue.
fn refused_by_lint(loaded: load::Loaded) -> bool {
    let only = ["revisions", "unknown-feature", "unknown-requirement"];
    sparring_scenarios::lint::lint(&[loaded]).iter().any(|d| only.contains(&d.code.word()))
}

/// Compares them on one file. A change is tried once for each kind of place, `seen` over all files.
fn compare(
    validator: &Validator,
    seen: &mut BTreeSet<String>,
    (name, text): (&str, &str),
    loads: impl Fn(String) -> bool,
) -> Vec<String> {
    let mut mutated = Vec::new();
    let mut wanted = |change: &str| {
        let kind: String = change.chars().map(|c| if c.is_ascii_digit() { 'N' } else { c }).collect();
        // What is in a script is tried with scripts.
        let in_script = kind.starts_with("/\"server\"/") || kind.starts_with("/\"servers\"/");
        !in_script && seen.insert(kind)
    };
    mutations(&yaml(text), &mut wanted, &mut mutated);
    let mut differ = Vec::new();
    for (what, value) in mutated {
        let (valid, loads) = (validator.is_valid(&value), loads(value.to_string()));
        if valid != loads {
            let said = if valid { "valid, but not loaded" } else { "loaded, but not valid" };
            differ.push(format!("{name}: {what}: {said}"));
        }
    }
    differ
}

#[test]
fn loader_and_schema_agree_on_scripts() {
    let validator = validator(Kind::Script);
    let (mut differ, mut seen) = (Vec::new(), BTreeSet::new());
    for (name, text) in scripts() {
        differ.extend(compare(&validator, &mut seen, (&name, &text), |text| {
            load::parse_script("f", &text).is_ok()
        }));
    }
    assert!(differ.is_empty(), "{}\n{differ:#?}", differ.len());
}

#[test]
fn loader_and_schema_agree_on_scenarios() {
    let validator = validator(Kind::Scenario);
    let (mut differ, mut seen) = (Vec::new(), BTreeSet::new());
    for (name, text) in EMBEDDED {
        differ.extend(compare(&validator, &mut seen, (name, text), |text| {
            load::parse("f".to_owned(), "f".to_owned(), text.into())
                .is_ok_and(|loaded| !refused_by_lint(loaded))
        }));
    }
    assert!(differ.is_empty(), "{}\n{differ:#?}", differ.len());
}
