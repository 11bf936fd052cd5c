//! The manual of the format: its generated part is up to date, its YAML can be loaded, and each word of the vocabulary
//! is described and used.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod files;
mod page;
mod profiles;
mod vocabulary;

use files::{File, files, root};
use page::{END, KINDS_START, START, Used};
use sparring_scenarios::load;
use sparring_scenarios::pattern::JSON_OPERATORS;
use sparring_scenarios::schema::{Kind, schema};
use std::collections::BTreeMap;
use vocabulary::Vocabulary;

const PAGE: &str = "docs/scenario-format.md";

/// The scenario's schema has the script's types in it.
fn vocabulary() -> Vocabulary {
    Vocabulary::new(schema(Kind::Scenario))
}

fn used<'a>(vocabulary: &Vocabulary, files: &'a [File]) -> Used<'a> {
    let mut used: Used<'_> = BTreeMap::new();
    for file in files {
        let top = if file.scenario { "Scenario" } else { "ServerScript" };
        for (name, ways) in vocabulary.used(top, &file.value) {
            used.entry(name).or_default().extend(ways.into_iter().map(|way| (file, way)));
        }
    }
    used
}

#[test]
fn each_word_is_described_and_used() {
    let (vocabulary, files) = (vocabulary(), files());
    let used = used(&vocabulary, &files);
    let words: Vec<_> =
        vocabulary.owners("Scenario").iter().flat_map(|owner| vocabulary.words(owner)).collect();
    assert!(words.len() > 200, "words are found at all: {}", words.len());
    let named = |missing: &dyn Fn(&vocabulary::Word) -> bool| -> Vec<String> {
        words.iter().filter(|w| missing(w)).map(|w| format!("{}.{}", w.name.owner, w.name.word)).collect()
    };
    let not_described = named(&|word| word.about.is_none());
    // The revisions are the protocol's words; one of them shows how they are written.
    let ours = |word: &vocabulary::Word| word.name.owner != "Revision";
    let not_used = named(&|word| ours(word) && !used.contains_key(&word.name));
    let missing = format!("not described: {not_described:#?}\nnot used: {not_used:#?}");
    assert!(not_described.is_empty() && not_used.is_empty(), "{missing}");
}

/// Compares the generated part of a page, or writes it anew.
fn up_to_date(page: &str, start: &str, now: &str) {
    let path = root().join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(start).unwrap_or_else(|| panic!("{page} has the line {start}"));
    let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("{page} has the line {END}"));
    let whole = format!("{before}{now}{after}");
    if std::env::var_os("SPARRING_BLESS").is_some() {
        std::fs::write(&path, &whole).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text == whole,
        "{page} is out of date: run `SPARRING_BLESS=1 cargo test -p sparring-scenarios --test reference`"
    );
}

#[test]
fn the_reference_is_up_to_date() {
    let (vocabulary, files) = (vocabulary(), files());
    let used = used(&vocabulary, &files);
    up_to_date(PAGE, START, &page::page(&vocabulary, &vocabulary.owners("Scenario"), &used));
}

#[test]
fn the_kinds_of_events_are_up_to_date() {
    up_to_date("docs/interpreting.md", KINDS_START, &page::kinds(&schema(Kind::Transcript)));
}

#[test]
fn the_fields_of_profiles_are_up_to_date() {
    up_to_date("docs/profiles.md", profiles::FIELDS_START, &profiles::fields(&schema(Kind::Profile)));
}

/// What the lint never says has no place in the list.
#[test]
fn each_code_is_said_somewhere() {
    fn collect(folder: &std::path::Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, text);
            } else if !path.ends_with("code.rs") {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut text = String::new();
    collect(&root().join("scenarios/src"), &mut text);
    for code in sparring_scenarios::code::Code::ALL {
        let name = format!("Code::{code:?}");
        let said = text
            .match_indices(&name)
            .any(|(at, _)| !text[at + name.len()..].starts_with(|c: char| c.is_alphanumeric()));
        assert!(said, "nothing says {code}");
    }
}

#[test]
fn the_operators_are_in_the_manual() {
    let text = std::fs::read_to_string(root().join(PAGE)).unwrap();
    for operator in JSON_OPERATORS {
        assert!(text.contains(&format!("| `{{\"{operator}\": ")), "{operator}");
    }
}

/// What a part of a scenario needs around it to be one.
const AROUND: [(&str, &str); 6] = [
    ("scenario", "scenario: my.part\n"),
    ("version", "version: 1\n"),
    ("about", "about: A part.\n"),
    ("server", "server: { tools: [echo] }\n"),
    ("drive", "drive: [ { open: } ]\n"),
    ("judge", "judge: []\n"),
];

#[test]
fn yaml_in_the_pages_can_be_loaded() {
    let mut blocks = 0;
    for page in [PAGE, "docs/interpreting.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        for (n, block) in text.split("```yaml\n").skip(1).enumerate() {
            let indented =
                block.lines().next().unwrap().len() - block.lines().next().unwrap().trim_start().len();
            let lines = block.lines().take_while(|line| !line.trim_start().starts_with("```"));
            let mut yaml: String =
                lines.map(|line| format!("{}\n", line.get(indented..).unwrap_or_default())).collect();
            let has = |yaml: &str, key: &str| yaml.lines().any(|line| line.starts_with(&format!("{key}:")));
            let scenario = [
                "scenario",
                "where",
                "drive",
                "judge",
                "server",
                "servers",
                "twin",
                "about",
                "deadline_ms",
                "official",
                "clock_scale",
            ];
            let wrong = if scenario.iter().any(|key| has(&yaml, key)) {
                for (key, line) in AROUND {
                    let there = has(&yaml, key) || key == "server" && has(&yaml, "servers");
                    if !there {
                        yaml.push_str(line);
                    }
                }
                load::parse("f".to_owned(), "f".to_owned(), yaml.clone().into()).map(|_| ()).err()
            } else {
                load::parse_script("f", &yaml).map(|_| ()).err()
            };
            // `version` alone can be either.
            let wrong = wrong.filter(|_| !yaml.starts_with("version: "));
            if let Some(wrong) = wrong {
                panic!("{page}, block {}:\n{yaml}\n{}", n + 1, wrong.render(false));
            }
            blocks += 1;
        }
    }
    assert!(blocks > 10, "blocks are found at all");
}
