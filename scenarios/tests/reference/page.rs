//! The generated part of `docs/scenario-format.md`.

use crate::files::{Excerpt, File, excerpt};
use crate::vocabulary::{Name, Vocabulary, Way, Word, reference};
use serde_json::{Value, json};
use sparring_scenarios::code::Code;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

pub(crate) const START: &str = "<!-- generated from the schema and the examples: SPARRING_BLESS=1 cargo test -p sparring-scenarios -->\n";
pub(crate) const END: &str = "<!-- end of the generated part -->\n";

pub(crate) const KINDS_START: &str =
    "<!-- generated from the schema: SPARRING_BLESS=1 cargo test -p sparring-scenarios -->\n";

/// The table of a transcript's kinds of events, for `docs/interpreting.md`.
pub(crate) fn kinds(schema: &Value) -> String {
    let mut out = format!("{KINDS_START}\n| kind | members | meaning |\n| --- | --- | --- |\n");
    for variant in schema["$defs"]["What"]["oneOf"].as_array().unwrap() {
        // A variant around a struct of its own refers to it.
        let inner = reference(variant).map_or(variant, |name| &schema["$defs"][name]);
        let members: Vec<String> = [variant, inner]
            .iter()
            .filter_map(|part| part["properties"].as_object().map(|properties| (part, properties)))
            .flat_map(|(part, properties)| properties.iter().map(move |(name, member)| (part, name, member)))
            .filter(|(_, name, _)| *name != "kind")
            .map(|(part, name, member)| {
                let required = part["required"].as_array().is_some_and(|r| r.contains(&json!(name)));
                let about = member["description"].as_str().unwrap_or_default();
                let about = paragraph(about.trim_end_matches('.'));
                format!("`{name}`{}: {about}", if required { "" } else { "?" })
            })
            .collect();
        let mut members = members;
        members.sort();
        members.dedup();
        let kind = variant["properties"]["kind"]["const"].as_str().unwrap();
        let about = paragraph(variant["description"].as_str().unwrap_or_default());
        let _ = writeln!(out, "| `{kind}` | {} | {about} |", members.join("; ").replace('|', "\\|"));
    }
    out.push('\n');
    out.push_str(END);
    out
}

/// Where a word is used: the file and the way in it.
pub(crate) type Used<'a> = BTreeMap<Name, Vec<(&'a File, Way)>>;

/// What a type is called where there is more to say than its name. All others are called by their name.
const TITLES: [(&str, &str); 12] = [
    ("Scenario", "A scenario file"),
    ("Applies", "`where`: where a scenario applies"),
    ("ServerScript", "A server's script: `server`, or a script file"),
    ("Step", "A step of `drive`"),
    ("Check", "A check of `judge`"),
    ("Pattern", "A pattern: how an event is named"),
    ("Rule", "A rule of `rules`"),
    ("Trigger", "What a rule reacts to: `on`"),
    ("Action", "What a rule does: `do`"),
    ("ProcessScript", "`process`: a stdio server's process"),
    ("HttpScript", "`http`: an HTTP endpoint"),
    ("AuthScript", "`auth`: the authorization server"),
];

pub(crate) fn page(vocabulary: &Vocabulary, owners: &[String], used: &Used<'_>) -> String {
    let mut out = String::from(START);
    for owner in owners {
        let words = vocabulary.words(owner);
        if words.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n### {}\n", title(owner));
        let of: Vec<String> = parents(vocabulary, owners, owner);
        if let Some(about) = vocabulary.definition(owner)["description"].as_str().filter(|a| !a.is_empty()) {
            let _ = writeln!(out, "{}\n", paragraph(about));
        }
        if !of.is_empty() {
            let _ = writeln!(out, "Used in: {}.\n", of.join(", "));
        }
        let mut shown: BTreeSet<(String, usize)> = BTreeSet::new();
        for word in &words {
            self::word(&mut out, word, used, &mut shown);
        }
    }
    out.push_str("\n### What `sparring lint` says\n\n| code | | meaning |\n| --- | --- | --- |\n");
    for code in Code::ALL {
        let _ = writeln!(out, "| `{code}` | {} | {} |", code.severity().word(), code.about());
    }
    out.push('\n');
    out.push_str(END);
    out
}

fn word(out: &mut String, word: &Word, used: &Used<'_>, shown: &mut BTreeSet<(String, usize)>) {
    let mut facts = Vec::new();
    if let Some(schema) = &word.schema {
        facts.push(kind(schema));
        let name = &word.name.word;
        for (end, unit) in [("_ms", "milliseconds"), ("_bytes", "bytes"), ("_s", "seconds")] {
            if name.ends_with(end) && kind(schema).contains("number") {
                facts.push(format!("in {unit}"));
            }
        }
    }
    if word.required {
        facts.push("required".to_owned());
    }
    if let Some(default) = &word.default {
        facts.push(format!("`{}` by default", plain(default)));
    }
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join("; ")) };
    let about = paragraph(word.about.as_deref().unwrap_or("(not described)"));
    let name = if word.name.word == "*" { "names".to_owned() } else { format!("`{}`", word.name.word) };
    let Some((file, excerpt)) = best(used.get(&word.name)) else {
        let _ = writeln!(out, "- **{name}**{facts}: {about}");
        return;
    };
    // As seen from the page.
    let target = match file.path.strip_prefix("docs/") {
        Some(beside) => beside.to_owned(),
        None => format!("../{}", file.path),
    };
    let link = format!("[{}]({target}#L{})", file.path.rsplit('/').next().unwrap(), excerpt.line);
    let _ = writeln!(out, "- **{name}**{facts}: {about} Example: {link}.");
    if shown.insert((file.path.clone(), excerpt.line)) {
        let _ = write!(out, "\n  ```yaml\n");
        for line in excerpt.text.lines() {
            let _ = writeln!(out, "  {line}");
        }
        let _ = write!(out, "  ```\n\n");
    }
}

/// The smallest excerpt, from an example if there is one.
fn best<'a>(places: Option<&Vec<(&'a File, Way)>>) -> Option<(&'a File, Excerpt)> {
    let excerpts = places?.iter().filter_map(|(file, way)| Some((*file, excerpt(&file.text, way)?)));
    excerpts.min_by_key(|(file, excerpt)| {
        (!file.example, excerpt.text.lines().count(), excerpt.text.len(), file.path.clone(), excerpt.line)
    })
}

fn title(owner: &str) -> String {
    TITLES
        .iter()
        .find(|(name, _)| *name == owner)
        .map_or_else(|| format!("`{owner}`"), |(_, title)| (*title).to_owned())
}

/// The keys whose values are of this type.
fn parents(vocabulary: &Vocabulary, owners: &[String], owner: &str) -> Vec<String> {
    let mut parents = Vec::new();
    for parent in owners {
        for word in vocabulary.words(parent) {
            let mentions = |schema: &Value| kind_names(schema).contains(&owner.to_owned());
            if word.schema.as_ref().is_some_and(mentions) {
                parents.push(format!("`{}` of {}", word.name.word, linked(parent)));
            }
        }
    }
    parents
}

fn kind_names(schema: &Value) -> Vec<String> {
    let mut names: Vec<String> = reference(schema).map(str::to_owned).into_iter().collect();
    for inner in ["items", "additionalProperties"].iter().filter_map(|key| schema.get(*key)) {
        names.extend(kind_names(inner));
    }
    for branch in ["oneOf", "anyOf"].iter().filter_map(|key| schema[*key].as_array()).flatten() {
        names.extend(kind_names(branch));
    }
    names
}

/// A type in words.
fn kind(schema: &Value) -> String {
    if let Some(name) = reference(schema) {
        return match name {
            "JsonText" => "JSON".to_owned(),
            _ => linked(name),
        };
    }
    if let Some(items) = schema.get("items") {
        return format!("list of {}", kind(items));
    }
    if let Some(rest) = schema.get("additionalProperties").filter(|rest| rest.is_object()) {
        return format!("map of {}", kind(rest));
    }
    if let Some(branches) = ["oneOf", "anyOf"].iter().find_map(|key| schema[*key].as_array()) {
        let kinds: Vec<String> =
            branches.iter().filter(|branch| branch["type"] != "null").map(kind).collect();
        return kinds.join(" or ");
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|w| format!("`{}`", plain(w))).collect();
        return if words.len() > 12 { "word".to_owned() } else { words.join(", ") };
    }
    if let Some(word) = schema.get("const") {
        return format!("`{}`", plain(word));
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    let named = types.iter().filter_map(Value::as_str).filter(|t| *t != "null").map(|t| match t {
        "string" => "text",
        "integer" | "number" => "number",
        "boolean" => "`true` or `false`",
        "array" => "list",
        "object" => "map",
        other => other,
    });
    named.collect::<Vec<_>>().join(" or ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A link to a type's section.
fn linked(owner: &str) -> String {
    let title = title(owner);
    let anchor: String = title
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    format!("[{owner}](#{anchor})")
}

/// Text in a list item: further paragraphs stay in it.
fn paragraph(text: &str) -> String {
    text.replace("\n\n", " ").replace("\n- ", " – ").replace('\n', " ")
}
