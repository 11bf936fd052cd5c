//! Reads scenario files: one, a folder of them, or those that the program carries inside.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Place, did_you_mean};
use crate::scenario::Scenario;
use crate::yaml::{self, Node, Path, Step};
use serde::de::DeserializeOwned;
use serde_saphyr::Error as YamlError;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use sparring_mock_servers::library;
use sparring_mock_servers::script::{CLIENT_METHODS, ServerScript, Trigger};
use sparring_wire::json_at::Part;
use std::borrow::Cow;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

/// The scenario files that the program carries inside: path relative to `scenarios/files`, text.
pub const EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// No scenario file is larger than this, in bytes.
const MAX_SCENARIO: usize = 1024 * 1024;

/// No script file is larger than this, in bytes: one that was recorded holds whatever a server said.
pub const MAX_FILE: u64 = 64 * 1024 * 1024;

/// A scenario file that could be read.
#[derive(Debug)]
pub struct Loaded {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The file, as messages name it.
    pub file: String,
    /// Path relative to the folder that was loaded, with `/`; the file's name alone if a single file was.
    pub relative: String,
    /// Its text.
    pub text: Cow<'static, str>,
    /// It is one of those that the program carries inside.
    pub built_in: bool,
    tree: Node,
}

impl Loaded {
    pub(crate) const fn tree(&self) -> &Node {
        &self.tree
    }
}

/// A script file that could be read.
#[derive(Debug)]
pub struct LoadedScript {
    /// The script.
    pub script: Arc<ServerScript>,
    /// The file, as messages name it.
    pub file: String,
    /// Its text.
    pub text: Cow<'static, str>,
    tree: Node,
}

impl LoadedScript {
    pub(crate) const fn tree(&self) -> &Node {
        &self.tree
    }
}

/// Files of both kinds, and what is wrong with those that can't be read.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The scenarios.
    pub scenarios: Vec<Loaded>,
    /// The scripts.
    pub scripts: Vec<LoadedScript>,
    /// What is wrong with the others, at most one thing for each.
    pub wrong: Vec<Diagnostic>,
}

/// Reads the files at `path`, scenarios and scripts. Which of them a file is, its keys tell.
pub fn inputs(path: &FilePath) -> Inputs {
    let mut inputs = Inputs::default();
    let files = match files_at(path) {
        Ok(files) => files,
        Err(wrong) => {
            inputs.wrong.push(wrong);
            return inputs;
        }
    };
    for (file, relative, text) in files {
        match text.and_then(|text| input(file, relative, text)) {
            Ok(Input::Scenario(loaded)) => inputs.scenarios.push(loaded),
            Ok(Input::Script(loaded)) => inputs.scripts.push(loaded),
            Err(wrong) => inputs.wrong.push(wrong),
        }
    }
    inputs
}

enum Input {
    Scenario(Loaded),
    Script(LoadedScript),
}

fn input(file: String, relative: String, text: String) -> Result<Input, Diagnostic> {
    let tree = yaml::read(&file, &text)?;
    let of_scenarios = ["scenario", "about", "where", "server", "servers", "drive", "judge"];
    if of_scenarios.iter().any(|key| tree.has_key(key)) {
        return parse(file, relative, Cow::Owned(text)).map(Input::Scenario);
    }
    let script = typed(&file, &text, &tree, Top::Script)?;
    Ok(Input::Script(LoadedScript { script: Arc::new(script), file, text: Cow::Owned(text), tree }))
}

/// Reads the scenario files at `path`: a file, or a folder with all `*.yaml` files below it.
///
/// # Errors
/// All that is wrong with the files, at most one thing for each; an empty folder too. [`crate::lint::lint`] finds more.
pub fn load(path: &FilePath) -> Result<Vec<Loaded>, Vec<Diagnostic>> {
    if path.is_dir() {
        // Scripts may lie beside the scenarios; nobody plays them here.
        let Inputs { scenarios, scripts, wrong } = inputs(path);
        if scenarios.is_empty() && wrong.is_empty() {
            let message = format!("there is no scenario in this folder, only {} scripts", scripts.len());
            return Err(vec![Diagnostic::whole_file(path.display().to_string(), Code::NoFiles, message)]);
        }
        return if wrong.is_empty() { Ok(scenarios) } else { Err(wrong) };
    }
    let files = files_at(path).map_err(|wrong| vec![wrong])?;
    all(files.into_iter().map(|(file, relative, text)| parse(file, relative, Cow::Owned(text?))))
}

/// A file: how messages name it, its path relative to the folder, its text.
type File = (String, String, Result<String, Diagnostic>);

fn files_at(path: &FilePath) -> Result<Vec<File>, Diagnostic> {
    let mut files = Vec::new();
    if path.is_dir() {
        collect(path, &mut files)?;
        files.sort();
        if files.is_empty() {
            let message = "there is no file (*.yaml) in this folder";
            return Err(Diagnostic::whole_file(path.display().to_string(), Code::NoFiles, message));
        }
    } else {
        files.push(path.to_owned());
    }
    let texts = files.into_iter().map(|file| -> File {
        let relative = match file.strip_prefix(path) {
            Ok(rest) if rest.components().next().is_some() => rest,
            _ => FilePath::new(file.file_name().unwrap_or_default()),
        };
        let relative: Vec<_> = relative.components().map(|c| c.as_os_str().to_string_lossy()).collect();
        let text = read_text(&file);
        (file.display().to_string(), relative.join("/"), text)
    });
    Ok(texts.collect())
}

/// Reads the scenarios that the program carries inside.
///
/// # Errors
/// What is wrong with them. The tests see to it that nothing is.
pub fn embedded() -> Result<Vec<Loaded>, Vec<Diagnostic>> {
    all(EMBEDDED.iter().map(|(name, text)| {
        let loaded = parse(format!("scenarios/{name}"), (*name).to_owned(), Cow::Borrowed(*text))?;
        Ok(Loaded { built_in: true, ..loaded })
    }))
}

fn all(results: impl Iterator<Item = Result<Loaded, Diagnostic>>) -> Result<Vec<Loaded>, Vec<Diagnostic>> {
    let mut loaded = Vec::new();
    let mut wrong = Vec::new();
    for result in results {
        match result {
            Ok(one) => loaded.push(one),
            Err(e) => wrong.push(e),
        }
    }
    if wrong.is_empty() { Ok(loaded) } else { Err(wrong) }
}

fn collect(folder: &FilePath, files: &mut Vec<PathBuf>) -> Result<(), Diagnostic> {
    let unreadable = |e: std::io::Error| {
        Diagnostic::whole_file(folder.display().to_string(), Code::Unreadable, e.to_string())
    };
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        // A link to a folder is not followed: it could lead in a circle.
        if entry.file_type().map_err(unreadable)?.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}

pub(crate) fn read_text(file: &FilePath) -> Result<String, Diagnostic> {
    let name = || file.display().to_string();
    let unreadable = |e: std::io::Error| Diagnostic::whole_file(name(), Code::Unreadable, e.to_string());
    let found = std::fs::metadata(file).map_err(unreadable)?;
    if !found.is_file() {
        // Opening a pipe would wait for its other end.
        let what = if found.is_dir() { "this is a folder" } else { "this is no regular file" };
        return Err(Diagnostic::whole_file(name(), Code::Unreadable, what));
    }
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(opened, MAX_FILE + 1), &mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Diagnostic::whole_file(name(), Code::TooLarge, "the file is larger than 64 MiB"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let before = String::from_utf8_lossy(&e.as_bytes()[..e.utf8_error().valid_up_to()]).into_owned();
        let line = Place::new(before.matches('\n').count() + 1, 1, 1).line;
        Diagnostic {
            line,
            column: 1,
            ..Diagnostic::whole_file(name(), Code::NotUtf8, "the file is not UTF-8")
        }
    })
}

/// Reads one scenario from its text.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(file: String, relative: String, text: Cow<'static, str>) -> Result<Loaded, Diagnostic> {
    if text.len() > MAX_SCENARIO {
        return Err(Diagnostic::whole_file(file, Code::TooLarge, "the file is larger than 1 MiB"));
    }
    let tree = yaml::read(&file, &text)?;
    let scenario: Scenario = typed(&file, &text, &tree, Top::Scenario)?;
    Ok(Loaded { scenario: Arc::new(scenario), file, relative, text, built_in: false, tree })
}

/// Reads a script file: a server's script by itself, as `server:` of a scenario has it.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn script(path: &FilePath) -> Result<ServerScript, Diagnostic> {
    parse_script(&path.display().to_string(), &read_text(path)?)
}

/// The same, with what [`lint_scripts`](crate::lint::lint_scripts) needs.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn script_file(path: &FilePath) -> Result<LoadedScript, Diagnostic> {
    let (file, text) = (path.display().to_string(), read_text(path)?);
    let tree = yaml::read(&file, &text)?;
    let script: ServerScript = typed(&file, &text, &tree, Top::Script)?;
    Ok(LoadedScript { script: Arc::new(script), file, text: Cow::Owned(text), tree })
}

/// Reads a server's script from its text; `file` is what messages call it.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse_script(file: &str, text: &str) -> Result<ServerScript, Diagnostic> {
    let tree = yaml::read(file, text)?;
    typed(file, text, &tree, Top::Script)
}

/// Reads something of the vocabulary that stands in no file of its own: `name` is what messages call the text, `what` in
/// words what it is, such as `a list of actions`, and `inside` what is in it. JSON will do as well, since it is YAML.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse_as<T: DeserializeOwned>(
    name: &str,
    text: &str,
    what: &'static str,
    inside: &'static str,
) -> Result<T, Diagnostic> {
    let tree = yaml::read(name, text)?;
    typed(name, text, &tree, Top::Part { what, inside })
}

/// Reads a typed value, strictly.
fn typed<T: DeserializeOwned>(file: &str, text: &str, tree: &Node, top: Top) -> Result<T, Diagnostic> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        reject_tagged_field_names: true,
        strict_booleans: true,
        strict_indentation: true,
        no_schema: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|e| explain(file, text, tree, &e, top))
}

fn explain(file: &str, text: &str, tree: &Node, error: &YamlError, top: Top) -> Diagnostic {
    let error = error.without_snippet();
    let place = error.location().map(|at| Place {
        line: u32::try_from(at.line()).unwrap_or_default(),
        column: u32::try_from(at.column()).unwrap_or_default(),
        width: 1,
    });
    let path = place.and_then(|at| tree.path_at(at.line, at.column));
    let (place, parent, tail) = match (place, &path) {
        (Some(_), Some(path)) => {
            let mut parent = path.clone();
            parent.0.pop();
            (tree.value(path), parent, path.tail())
        }
        (place, _) => (place.unwrap_or_default(), Path::default(), String::new()),
    };
    let key_place = path.as_ref().map_or(place, |path| tree.key(path));
    let (code, place, message, help) = match error {
        YamlError::SerdeUnknownField { field, expected, .. } => {
            let shown = if tail.ends_with(field.as_str()) { tail } else { field.clone() };
            let help = did_you_mean(field, expected.iter().copied())
                .or_else(|| Some(format!("known are {}", expected.join(", "))));
            (
                Code::UnknownKey,
                key_place,
                format!("`{shown}` is not a key of {}", describe(top, &parent)),
                help,
            )
        }
        YamlError::SerdeUnknownVariant { variant, expected, .. } => {
            let help = did_you_mean(variant, expected.iter().copied())
                .or_else(|| Some(format!("known are {}", expected.join(", "))));
            let message = if tail.is_empty() || tail.ends_with(variant.as_str()) {
                format!("`{variant}` is not known here")
            } else {
                format!("`{variant}` is not a value of `{tail}`")
            };
            // The word is a key where it has an argument.
            let is_key = matches!(path.as_ref().and_then(|p| p.0.last()), Some(Step::Key(k)) if k == variant);
            (Code::UnknownWord, if is_key { key_place } else { place }, message, help)
        }
        YamlError::SerdeMissingField { field, .. } => {
            // The place given is that of the last value of the map that lacks the key, or of an empty map itself.
            let owner = match &path {
                Some(path) if tree.is_empty_mapping(path) => path.clone(),
                _ => parent,
            };
            let message = format!("{} needs `{field}`", describe_item(top, &owner));
            (Code::MissingKey, tree.value(&owner), message, None)
        }
        YamlError::SerdeInvalidType { unexpected, expected, .. }
        | YamlError::SerdeInvalidValue { unexpected, expected, .. } => {
            (Code::Type, place, format!("this is {unexpected}, but {expected} is expected"), None)
        }
        YamlError::InvalidScalar { ty, .. } => {
            (Code::Type, place, format!("a number ({ty}) is expected here"), None)
        }
        YamlError::QuotingRequired { value, .. } => {
            (Code::Type, place, format!("`{value}` is no text unless it stands in quotes"), None)
        }
        YamlError::InvalidBooleanStrict { .. } => {
            (Code::Type, place, "`true` or `false` is expected here".into(), None)
        }
        YamlError::Message { msg, .. } => {
            match path.as_ref().and_then(|path| inside(text, tree, path, msg)) {
                Some((code, place, message)) => (code, place, message, None),
                None => (Code::Value, place, msg.clone(), meant(msg)),
            }
        }
        other => {
            let message = other.without_place();
            if message.starts_with("externally tagged enum expected") {
                let message = "one word, or a map with one key, is expected here".to_owned();
                (Code::Type, place, message, None)
            } else {
                (Code::Yaml, place, message, None)
            }
        }
    };
    if place.line == 0 {
        Diagnostic::whole_file(file, code, message).with_help(help)
    } else {
        Diagnostic::at(file, text, place, code, message).with_help(help)
    }
}

/// Like `describe`, for the path of a map itself, which may end in an index.
fn describe_item(top: Top, path: &Path) -> String {
    let mut path = path.clone();
    while matches!(path.0.last(), Some(Step::Index(_))) {
        path.0.pop();
    }
    describe(top, &path)
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Top {
    Scenario,
    Script,
    /// What is in no file of its own, in words, and what is in it.
    Part {
        what: &'static str,
        inside: &'static str,
    },
}

/// What a word that stands first in a message was meant to be: a trigger, or a tool of the library.
fn meant(message: &str) -> Option<String> {
    let word = message.strip_prefix('`')?.split('`').next()?;
    let known = Trigger::WORDS.iter().chain(&CLIENT_METHODS).chain(&library::TOOLS);
    did_you_mean(word, known.copied())
}

/// If the message is about a part of a text at `path`, or about a placeholder below it: where that is, and the message
/// without that.
fn inside(file: &str, tree: &Node, path: &Path, message: &str) -> Option<(Code, Place, String)> {
    if let Some(rest) = message.strip_prefix("`{{") {
        let placeholder = format!("{{{{{}", rest.split('`').next()?);
        let place = tree.find_text(file, path, &placeholder).unwrap_or_else(|| tree.value(path));
        return Some((Code::Placeholder, place, message.to_owned()));
    }
    let scalar = tree.scalar(path)?;
    if message.starts_with("not JSON: ") {
        let error = serde_json::from_str::<serde::de::IgnoredAny>(&scalar.text).err()?;
        let line_start: usize =
            scalar.text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let end = (line_start + error.column().saturating_sub(1)).min(scalar.text.len());
        let at = scalar.text.get(..end)?.chars().count();
        let place = scalar.place(file, at..at + 1)?;
        let said = error.to_string();
        let said = said.split(" at line ").next().unwrap_or(&said);
        return Some((Code::Json, place, format!("this is not JSON: {said}")));
    }
    let pointer = message.strip_prefix("the key at ")?.strip_suffix(" occurs twice")?;
    let mut value = &serde_json::from_str::<serde_json::Value>(&scalar.text).ok()?;
    let mut inside = Vec::new();
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        match value.as_array().and_then(|items| Some((items, token.parse::<usize>().ok()?))) {
            Some((items, index)) => {
                inside.push(Step::Index(index));
                value = items.get(index)?;
            }
            None => {
                value = value.get(&token)?;
                inside.push(Step::Key(token));
            }
        }
    }
    let place = tree.json(file, path, &inside, Part::Key);
    Some((Code::DuplicateKey, place, format!("the key at {pointer} of this JSON occurs twice")))
}

trait WithoutPlace {
    fn without_place(&self) -> String;
}

impl WithoutPlace for YamlError {
    /// The message without the library's own rendering of the place, which stands at its end.
    fn without_place(&self) -> String {
        let text = self.to_string();
        match text.rfind(" at line ") {
            Some(at) => text[..at].to_owned(),
            None => text,
        }
    }
}

/// What a path of a file leads to, in words.
fn describe(top: Top, path: &Path) -> String {
    if let Top::Part { what, inside } = top {
        return (if path.0.is_empty() { what } else { inside }).to_owned();
    }
    // A script file is what a scenario has at `server`.
    let mut keys = if top == Top::Script { vec!["server"] } else { Vec::new() };
    let further = path.0.iter().filter_map(|step| match step {
        Step::Key(key) => Some(key.as_str()),
        Step::Index(_) => None,
    });
    keys.extend(further);
    let words = match keys.as_slice() {
        [] => "a scenario",
        ["drive"] => "a step",
        ["drive", .., "wait_for"] => "a pattern",
        ["drive", _, ..] => "this operation",
        ["judge"] => "a check",
        ["judge", .., "header" | "query" | "form"] => "this map",
        ["judge", .., "count" | "each" | "spacing"] | ["where"] | ["servers"] => "",
        ["judge", ..] => "a pattern",
        ["server"] | ["servers", _] => "a server's script",
        [.., "rules"] => "a rule",
        [.., "tools" | "add_tool"] => "a tool",
        [.., "resources" | "add_resource"] => "a resource",
        [.., "prompts"] => "a prompt",
        [.., "do"] => "the actions",
        [.., "do", _] => "this action",
        _ => "",
    };
    match keys.last() {
        Some(last) if words.is_empty() => format!("`{last}`"),
        _ => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
scenario: area.name
version: 1
about: Words.
server:
  tools: [echo]
  rules:
    - on: tools/call
      do: [ { expire_session: }, { status: 404 } ]
drive:
  - open:
judge:
  - check: one
    requirement: lifecycle-initialize-first
    expect: { request: initialize }
    killed_by: some-mutant
";

    fn refused(text: &str) -> String {
        parse("area/name.yaml".into(), "area/name.yaml".into(), Cow::Owned(text.to_owned()))
            .unwrap_err()
            .render(false)
    }

    fn without(line: &str, replacement: &str) -> String {
        assert!(GOOD.contains(line), "{line}");
        refused(&GOOD.replace(line, replacement))
    }

    #[test]
    fn a_good_file_is_read() {
        let loaded = parse("f".into(), "f".into(), Cow::Borrowed(GOOD)).unwrap();
        assert_eq!(loaded.scenario.scenario, "area.name");
        assert_eq!(loaded.scenario.judge[0].expect.len(), 1);
        assert_eq!(loaded.scenario.judge[0].killed_by, ["some-mutant"]);
    }

    #[test]
    fn a_typo_in_a_key_names_its_place_and_the_right_word() {
        insta::assert_snapshot!(without("request: initialize", "reqest: initialize"), @r"
        error[unknown-key]: `expect.reqest` is not a key of a pattern
          ┌─ area/name.yaml:14:15
          │
        14│     expect: { reqest: initialize }
          │               ^^^^^^ did you mean `request`?
        ");
        insta::assert_snapshot!(without("tools: [echo]", "tolls: [echo]"), @r"
        error[unknown-key]: `server.tolls` is not a key of a server's script
         ┌─ area/name.yaml:5:3
         │
        5│   tolls: [echo]
         │   ^^^^^ did you mean `tools`?
        ");
        insta::assert_snapshot!(without("- open:", "- opne:"), @r"
        error[unknown-key]: `drive.opne` is not a key of a step
          ┌─ area/name.yaml:10:5
          │
        10│   - opne:
          │     ^^^^ did you mean `open`?
        ");
        insta::assert_snapshot!(without("version: 1", "vesrion: 1"), @r"
        error[unknown-key]: `vesrion` is not a key of a scenario
         ┌─ area/name.yaml:2:1
         │
        2│ vesrion: 1
         │ ^^^^^^^ did you mean `version`?
        ");
        insta::assert_snapshot!(without("- open:", "- call: { tol: echo }"), @r"
        error[unknown-key]: `call.tol` is not a key of this operation
          ┌─ area/name.yaml:10:13
          │
        10│   - call: { tol: echo }
          │             ^^^ did you mean `tool`?
        ");
    }

    #[test]
    fn unknown_words_wrong_types_and_missing_keys_name_their_place() {
        insta::assert_snapshot!(without("expire_session:", "expire_sesion:"), @r"
        error[unknown-word]: `expire_sesion` is not known here
         ┌─ area/name.yaml:8:15
         │
        8│       do: [ { expire_sesion: }, { status: 404 } ]
         │               ^^^^^^^^^^^^^ did you mean `expire_session`?
        ");
        insta::assert_snapshot!(without("tools: [echo]", "cursors: nummeric"), @r"
        error[unknown-word]: `nummeric` is not a value of `server.cursors`
         ┌─ area/name.yaml:5:12
         │
        5│   cursors: nummeric
         │            ^^^^^^^^ did you mean `numeric`?
        ");
        insta::assert_snapshot!(without("tools: [echo]", "cursors: [numeric]"), @r"
        error[type]: one word, or a map with one key, is expected here
         ┌─ area/name.yaml:5:12
         │
        5│   cursors: [numeric]
         │            ^^^^^^^^^
        ");
        insta::assert_snapshot!(without("status: 404", "status: soon"), @r#"
        error[type]: this is string "soon", but a status code, or a map with `code`, `headers` and `body` is expected
         ┌─ area/name.yaml:8:34
         │
        8│       do: [ { expire_session: }, { status: soon } ]
         │                                  ^^^^^^^^^^^^^^^^
        "#);
        insta::assert_snapshot!(without("version: 1", "version: one"), @r"
        error[type]: a number (u32) is expected here
         ┌─ area/name.yaml:2:10
         │
        2│ version: one
         │          ^^^
        ");
        insta::assert_snapshot!(without("about: Words.\n", ""), @r"
        error[missing-key]: a scenario needs `about`
         ┌─ area/name.yaml:1:1
         │
        1│ scenario: area.name
         │ ^^^^^^^^
        ");
        insta::assert_snapshot!(without("- open:", "- read: {}"), @r"
        error[missing-key]: this operation needs `uri`
          ┌─ area/name.yaml:10:11
          │
        10│   - read: {}
          │           ^^
        ");
        insta::assert_snapshot!(without("- open:", "- read: { server: one }"), @r"
        error[missing-key]: this operation needs `uri`
          ┌─ area/name.yaml:10:11
          │
        10│   - read: { server: one }
          │           ^^^^^^^^^^^^^^^
        ");
        insta::assert_snapshot!(without("- open:", "- { open: , background: yes }"), @r"
        error[type]: `true` or `false` is expected here
          ┌─ area/name.yaml:10:27
          │
        10│   - { open: , background: yes }
          │                           ^^^
        ");
        insta::assert_snapshot!(without("on: tools/call", "on: tools/cal"), @r"
        error[value]: `tools/cal` is neither a method that clients send nor one of start, eof, sigterm, http-get, http-post, http-delete, get-stream, response, message, request, notification, unknown
         ┌─ area/name.yaml:7:11
         │
        7│     - on: tools/cal
         │           ^^^^^^^^^ did you mean `tools/call`?
        ");
        insta::assert_snapshot!(without("tools: [echo]", "tools: [ecko]"), @r"
        error[value]: `ecko` is no tool of the library; there are echo, add, fail, image, audio, embedded-text, embedded-blob, blob-1mib, link, empty, slow, add_numbers, ask, confirm, connect, sample, roots, long, mirror, prose, array
         ┌─ area/name.yaml:5:11
         │
        5│   tools: [ecko]
         │           ^^^^ did you mean `echo`?
        ");
        insta::assert_snapshot!(without("- open:", "- { open: , close: }"), @r"
        error[value]: a step has only one operation
          ┌─ area/name.yaml:10:5
          │
        10│   - { open: , close: }
          │     ^^^^^^^^^^^^^^^^^^
        ");
        insta::assert_snapshot!(without("- open:", "- call: { tool: echo, arguments: '{\"a\": 010}' }"), @r#"
        error[json]: this is not JSON: invalid number
          ┌─ area/name.yaml:10:44
          │
        10│   - call: { tool: echo, arguments: '{"a": 010}' }
          │                                            ^
        "#);
    }

    #[test]
    fn errors_in_json_are_shown_where_they_are() {
        insta::assert_snapshot!(without("      do: [ { expire_session: }, { status: 404 } ]", "      do:\n        - respond: |\n            {\n              \"a\": [1, 2,, 3]\n            }"), @r#"
        error[json]: this is not JSON: expected value
          ┌─ area/name.yaml:11:26
          │
        11│               "a": [1, 2,, 3]
          │                          ^
        "#);
        insta::assert_snapshot!(without("do: [ { expire_session: }, { status: 404 } ]", "do: [ { respond: '{\"a\": [\"x\", \"b {{ids}}\"]}' } ]"), @r#"
        error[placeholder]: `{{ids}}` is no placeholder; `{{open}}` stands for two braces
         ┌─ area/name.yaml:8:40
         │
        8│       do: [ { respond: '{"a": ["x", "b {{ids}}"]}' } ]
         │                                        ^^^^^^^
        "#);
        insta::assert_snapshot!(without("- open:", "- call: { tool: echo, arguments: \"{\\\"a\\\": {\\\"b\\\": 1, \\\"b\\\": 2}}\" }"), @r#"
        error[duplicate-key]: the key at /a/b of this JSON occurs twice
          ┌─ area/name.yaml:10:56
          │
        10│   - call: { tool: echo, arguments: "{\"a\": {\"b\": 1, \"b\": 2}}" }
          │                                                        ^^^^
        "#);
        insta::assert_snapshot!(without("- open:", "- call: { tool: echo, arguments: '{\"it''s\": tru}' }"), @r#"
        error[json]: this is not JSON: expected ident
          ┌─ area/name.yaml:10:50
          │
        10│   - call: { tool: echo, arguments: '{"it''s": tru}' }
          │                                                  ^
        "#);
        insta::assert_snapshot!(without("- open:", "- call:\n      tool: echo\n      arguments: >-\n        {\"a\": 1,\n        \"b\": oh}"), @r#"
        error[json]: this is not JSON: expected value
          ┌─ area/name.yaml:14:14
          │
        14│         "b": oh}
          │              ^
        "#);
    }

    #[test]
    fn scripts_and_scenarios_are_told_apart_by_their_keys() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("area")).unwrap();
        std::fs::write(folder.path().join("area/name.yaml"), GOOD).unwrap();
        std::fs::write(folder.path().join("one.yaml"), "tools: [echo]\n").unwrap();
        std::fs::write(folder.path().join("two.yaml"), "tolls: [echo]\n").unwrap();
        let inputs = inputs(folder.path());
        assert_eq!((inputs.scenarios.len(), inputs.scripts.len()), (1, 1));
        let file = folder.path().join("two.yaml").display().to_string();
        let said = inputs.wrong[0].render(false).replace(&file, "two.yaml");
        insta::assert_snapshot!(said, @r"
        error[unknown-key]: `tolls` is not a key of a server's script
         ┌─ two.yaml:1:1
         │
        1│ tolls: [echo]
         │ ^^^^^ did you mean `tools`?
        ");
    }

    #[test]
    fn scripts_beside_scenarios_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let script = "description: plays nothing here\ntools: [echo]\n";
        std::fs::write(folder.path().join("script.yaml"), script).unwrap();
        let only_scripts = load(folder.path()).unwrap_err();
        assert!(
            only_scripts[0].message.contains("no scenario in this folder"),
            "{}",
            only_scripts[0].message
        );
        let scenario = EMBEDDED.iter().find(|(name, _)| name.ends_with(".yaml")).unwrap().1;
        std::fs::write(folder.path().join("scenario.yaml"), scenario).unwrap();
        assert_eq!(load(folder.path()).unwrap().len(), 1);
        assert!(load(&folder.path().join("script.yaml")).is_err(), "asked for by name, it is no scenario");
    }

    #[test]
    fn all_files_of_a_folder_are_read_and_each_bad_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("area")).unwrap();
        std::fs::write(folder.path().join("area/name.yaml"), GOOD).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "not a scenario").unwrap();
        let loaded = load(folder.path()).unwrap();
        assert_eq!(loaded.len(), 1);
        assert_eq!(loaded[0].relative, "area/name.yaml");
        assert_eq!(load(&folder.path().join("area/name.yaml")).unwrap()[0].relative, "name.yaml");

        std::fs::write(folder.path().join("bad.yaml"), "a: b\n").unwrap();
        std::fs::write(folder.path().join("worse.yaml"), b"a: \xff\n").unwrap();
        let wrong = load(folder.path()).unwrap_err();
        let codes: Vec<_> = wrong.iter().map(|e| e.code.word()).collect();
        assert_eq!(codes, ["unknown-key", "not-utf8"]);

        let empty = tempfile::tempdir().unwrap();
        assert_eq!(load(empty.path()).unwrap_err()[0].code, Code::NoFiles);
        assert_eq!(load(&empty.path().join("gone.yaml")).unwrap_err()[0].code, Code::Unreadable);
    }
}
