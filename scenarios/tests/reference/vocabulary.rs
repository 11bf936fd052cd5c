//! The words of the format, taken from its schema, and where files use them.

use jsonschema::Validator;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

/// A word: a key of a type, or a value of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    /// The type it belongs to.
    pub(crate) owner: String,
    pub(crate) word: String,
}

/// What the schema says of it.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    pub(crate) name: Name,
    pub(crate) about: Option<String>,
    /// Its own schema: of a key's value, or of a word's argument. `None` for a word without one.
    pub(crate) schema: Option<Value>,
    pub(crate) required: bool,
    pub(crate) default: Option<Value>,
}

/// A way to a value in a file.
pub(crate) type Way = Vec<Value>;

pub(crate) struct Vocabulary {
    root: Value,
    validators: RefCell<HashMap<String, Validator>>,
}

/// Names of protocol methods are no words of ours; a list of them is one word.
const LIST: &str = "*";

impl Vocabulary {
    pub(crate) fn new(root: Value) -> Self {
        Self { root, validators: RefCell::default() }
    }

    pub(crate) fn definition(&self, owner: &str) -> &Value {
        if self.root["$defs"].get(owner).is_some() { &self.root["$defs"][owner] } else { &self.root }
    }

    /// The types, the file itself first, then in the order in which they are met.
    pub(crate) fn owners(&self, top: &str) -> Vec<String> {
        let mut owners = vec![top.to_owned()];
        let mut at = 0;
        while at < owners.len() {
            let mut met = Vec::new();
            references(self.definition(&owners[at]), &mut met);
            for name in met {
                if !owners.contains(&name) {
                    owners.push(name);
                }
            }
            at += 1;
        }
        owners
    }

    /// The words of a type, in its order.
    pub(crate) fn words(&self, owner: &str) -> Vec<Word> {
        let mut words = Vec::new();
        collect(owner, self.definition(owner), &mut words);
        words
    }

    /// Notes all words that a file uses, each with the ways to where it does.
    pub(crate) fn used(&self, top: &str, value: &Value) -> BTreeMap<Name, Vec<Way>> {
        let mut used = BTreeMap::new();
        self.walk(self.definition(top), value, top, &mut Vec::new(), &mut used);
        used
    }

    fn walk(
        &self,
        schema: &Value,
        value: &Value,
        owner: &str,
        way: &mut Way,
        used: &mut BTreeMap<Name, Vec<Way>>,
    ) {
        fn note(owner: &str, word: &str, way: &Way, used: &mut BTreeMap<Name, Vec<Way>>) {
            let name = Name { owner: owner.to_owned(), word: word.to_owned() };
            used.entry(name).or_default().push(way.clone());
        }
        if schema.get("const") == Some(value)
            && let Some(word) = value.as_str()
        {
            note(owner, word, way, used);
        }
        if let Some(words) = schema["enum"].as_array().filter(|words| words.contains(value)) {
            let word = if words.len() > 1 { LIST } else { value.as_str().unwrap_or_default() };
            note(owner, word, way, used);
        }
        if let (Some(properties), Some(members)) = (schema["properties"].as_object(), value.as_object()) {
            for (key, member) in members {
                if let Some(property) = properties.get(key) {
                    way.push(json!(key));
                    note(owner, key, way, used);
                    way.pop();
                    self.below(property, member, owner, json!(key), way, used);
                }
            }
        }
        if let (Some(rest), Some(members)) = (schema.get("additionalProperties"), value.as_object()) {
            for (key, member) in members.iter().filter(|(key, _)| schema["properties"].get(key).is_none()) {
                self.below(rest, member, owner, json!(key), way, used);
            }
        }
        if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
            for (n, item) in values.iter().enumerate() {
                self.below(items, item, owner, json!(n), way, used);
            }
        }
        for branch in ["oneOf", "anyOf"].iter().filter_map(|key| schema[*key].as_array()).flatten() {
            // `oneOf` of a step only says which keys go together.
            let says_words = branch.get("properties").is_some() || branch.get("required").is_none();
            if says_words && self.fits(branch, value) {
                self.walk(branch, value, owner, way, used);
            }
        }
        if let Some(name) = reference(schema) {
            self.walk(self.definition(name), value, name, way, used);
        }
    }

    fn below(
        &self,
        schema: &Value,
        value: &Value,
        owner: &str,
        step: Value,
        way: &mut Way,
        used: &mut BTreeMap<Name, Vec<Way>>,
    ) {
        way.push(step);
        self.walk(schema, value, owner, way, used);
        way.pop();
    }

    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let mut validators = self.validators.borrow_mut();
        let validator = validators.entry(schema.to_string()).or_insert_with(|| {
            let mut whole = schema.clone();
            whole["$defs"] = self.root["$defs"].clone();
            jsonschema::draft202012::new(&whole).unwrap()
        });
        validator.is_valid(value)
    }
}

pub(crate) fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

fn references(schema: &Value, met: &mut Vec<String>) {
    if let Some(name) = reference(schema) {
        met.push(name.to_owned());
    }
    match schema {
        Value::Array(items) => items.iter().for_each(|item| references(item, met)),
        Value::Object(members) => {
            members.iter().filter(|(key, _)| *key != "$defs").for_each(|(_, member)| references(member, met));
        }
        _ => {}
    }
}

fn collect(owner: &str, schema: &Value, words: &mut Vec<Word>) {
    let about = |schema: &Value| schema["description"].as_str().map(str::to_owned);
    let mut add = |word: &str, about: Option<String>, schema: Option<Value>, required, default| {
        let name = Name { owner: owner.to_owned(), word: word.to_owned() };
        if !words.iter().any(|w| w.name == name) {
            words.push(Word { name, about, schema, required, default });
        }
    };
    if let Some(properties) = schema["properties"].as_object() {
        let required = |key: &str| schema["required"].as_array().is_some_and(|r| r.contains(&json!(key)));
        for (key, property) in properties {
            let default = property.get("default").cloned();
            add(key, about(property), Some(property.clone()), required(key), default);
        }
    }
    if let Some(word) = schema["const"].as_str() {
        add(word, about(schema), None, false, None);
    }
    match schema["enum"].as_array().map(Vec::as_slice) {
        Some([only]) => add(only.as_str().unwrap(), about(schema), None, false, None),
        Some(_) => add(LIST, about(schema), None, false, None),
        None => {}
    }
    for branch in ["oneOf", "anyOf"].iter().filter_map(|key| schema[*key].as_array()).flatten() {
        let mut branch = branch.clone();
        // A word with an argument, or one that may be written as if it had one, is described as a whole.
        if let (Some(about), Some(inner)) = (branch.get("description").cloned(), branch.get_mut("anyOf")) {
            for inner in inner.as_array_mut().unwrap() {
                if let Some(inner) = inner.as_object_mut() {
                    inner.entry("description").or_insert(about.clone());
                }
            }
        }
        let keyed = branch.get("properties").and_then(Value::as_object).filter(|p| p.len() == 1);
        match keyed {
            Some(properties) => {
                for (key, argument) in properties {
                    let about = about(&branch).or_else(|| about(argument));
                    let argument = Some(argument.clone()).filter(|a| a["type"] != "null");
                    add(key, about, argument, false, None);
                }
            }
            None => {
                let mut inner = Vec::new();
                collect(owner, &branch, &mut inner);
                for word in inner {
                    add(&word.name.word, word.about, word.schema, word.required, word.default);
                }
            }
        }
    }
}
