//! Reading profiles, and asking them.

use crate::sections::{FIELDS, Field, Profile};
use crate::words::ProfileTransport;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The profiles inside the program: name and text.
pub const BUILT_IN: [(&str, &str); 6] = [
    ("reference", include_str!("../built-in/reference.toml")),
    ("chaz", include_str!("../built-in/chaz.toml")),
    ("zidane", include_str!("../built-in/zidane.toml")),
    ("zut", include_str!("../built-in/zut.toml")),
    ("mewbo", include_str!("../built-in/mewbo.toml")),
    ("mouaif", include_str!("../built-in/mouaif.toml")),
];

/// What is wrong with a profile, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The file, or the name of a built-in profile.
    pub file: String,
    /// The text it was found in; empty if there is none.
    pub text: String,
    /// Line and column from 1, and the width in characters; `None`: the whole file.
    pub place: Option<(usize, usize, usize)>,
    /// What kind of mistake.
    pub kind: MistakeKind,
    /// What is wrong.
    pub message: String,
    /// The unknown word, and those that are known.
    pub known: Option<(String, Vec<String>)>,
}

/// A kind of [`Mistake`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MistakeKind {
    /// The file can't be read.
    Unreadable,
    /// There is no such section or field.
    UnknownField,
    /// A field does not take this word.
    UnknownWord,
    /// Any other wrong value.
    Value,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.place {
            Some((line, column, _)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for Mistake {}

/// Fields that say how or where to judge the other fields of their section, and promise nothing themselves.
const SETTINGS: [&str; 4] =
    ["timeouts.settable", "restart.settable", "restart.transports", "list_changed.transports"];

impl Field {
    /// Whether it is a promise, and not only a word on how or where to judge the others of its section.
    pub fn is_promise(&self) -> bool {
        !SETTINGS.contains(&self.id)
    }
}

/// More profiles than may extend one another.
const DEEPEST: usize = 8;

impl Profile {
    /// A profile inside the program, by name, in any case.
    pub fn built_in(name: &str) -> Option<Result<Self, Box<Mistake>>> {
        let (name, text) = BUILT_IN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(Self::parse(name, text))
    }

    /// A built-in profile, or else a file.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its place.
    pub fn load(name_or_path: &str) -> Result<Self, Box<Mistake>> {
        match Self::built_in(name_or_path) {
            Some(profile) => profile,
            None => Self::read(Path::new(name_or_path), DEEPEST),
        }
    }

    /// Reads a profile from its text. `file` is for errors, and a path in `host.extends` starts in its folder.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, Box<Mistake>> {
        Self::understand(file, text, DEEPEST)
    }

    fn read(path: &Path, depth: usize) -> Result<Self, Box<Mistake>> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Box::new(Mistake {
                file: file.clone(),
                text: String::new(),
                place: None,
                kind: MistakeKind::Unreadable,
                message: format!(
                    "the profile can't be read: {error}; built-in profiles are {}",
                    BUILT_IN.map(|(name, _)| name).join(", ")
                ),
                known: None,
            })
        })?;
        Self::understand(&file, &text, depth)
    }

    fn understand(file: &str, text: &str, depth: usize) -> Result<Self, Box<Mistake>> {
        let profile: Self = toml::from_str(text).map_err(|error| explain(file, text, &error))?;
        let wrong = |id: &str, message: String| {
            Box::new(Mistake {
                file: file.to_owned(),
                text: text.to_owned(),
                place: Some(place_of_field(text, id)),
                kind: MistakeKind::Value,
                message,
                known: None,
            })
        };
        if let Some((id, message)) = profile.nonsense() {
            return Err(wrong(id, format!("`{id}` {message}")));
        }
        let Some(base) = profile.host.extends.clone() else { return Ok(profile) };
        let base = match Self::built_in(&base) {
            Some(base) => base,
            None if depth == 0 => {
                return Err(wrong("host.extends", "`host.extends` goes round in a circle".to_owned()));
            }
            None => {
                let folder = Path::new(file).parent().map_or_else(PathBuf::new, Path::to_path_buf);
                Self::read(&folder.join(base), depth - 1)
            }
        };
        Ok(profile.or(base?))
    }

    /// Values that have the right type but no meaning.
    fn nonsense(&self) -> Option<(&'static str, &'static str)> {
        let above_zero = [
            ("timeouts.startup_s", self.timeouts.startup_s),
            ("timeouts.tool_s", self.timeouts.tool_s),
            ("timeouts.close_s", self.timeouts.close_s),
            ("pool.idle_close_s", self.pool.idle_close_s),
        ];
        if let Some((id, _)) = above_zero.iter().find(|(_, v)| v.is_some_and(|v| !v.is_finite() || v <= 0.0))
        {
            return Some((id, "is a number of seconds, above zero"));
        }
        let naming = &self.naming;
        if naming.template.as_ref().is_some_and(|t| !t.contains("{tool}")) {
            return Some(("naming.template", "needs `{tool}`"));
        }
        if naming.charset.as_ref().is_some_and(|c| c.len() < 3 || !c.starts_with('[') || !c.ends_with(']')) {
            return Some(("naming.charset", "is a class in brackets, such as `[A-Za-z0-9_-]`"));
        }
        if naming.max_len == Some(0) {
            return Some(("naming.max_len", "is above zero"));
        }
        if self.restart.backoff_s.iter().flatten().any(|v| !v.is_finite() || *v < 0.0) {
            return Some(("restart.backoff_s", "is a list of seconds"));
        }
        if self.results.text_limit.is_some_and(|[from, to]| from > to) {
            return Some(("results.text_limit", "is `[from, to]`, the smaller number first"));
        }
        let two =
            |templates: &Option<Vec<String>>| templates.as_ref().is_some_and(|t| !matches!(t.len(), 0 | 2));
        if two(&self.wrappers.resources) {
            return Some(("wrappers.resources", "is two templates, list and read, or none"));
        }
        if two(&self.wrappers.prompts) {
            return Some(("wrappers.prompts", "is two templates, list and get, or none"));
        }
        let mode = |mode: &Option<String>| {
            mode.as_ref().is_some_and(|m| m.len() > 5 || u32::from_str_radix(m, 8).is_err())
        };
        if mode(&self.auth.store_mode) {
            return Some(("auth.store_mode", "is a mode in octal, such as \"0600\""));
        }
        if mode(&self.redaction.config_mode) {
            return Some(("redaction.config_mode", "is a mode in octal, such as \"0600\""));
        }
        None
    }

    /// The ids of all promises that it makes, in order.
    pub fn promises_made(&self) -> BTreeSet<String> {
        let fields = self.fields().into_iter();
        let mut made: BTreeSet<String> = fields
            .flat_map(|(section, fields)| {
                fields.into_iter().map(move |(name, _)| format!("{section}.{name}")).collect::<Vec<_>>()
            })
            .collect();
        made.retain(|id| !SETTINGS.contains(&id.as_str()));
        made
    }

    /// The value of a promise, as JSON; `None` if it is not made. `errors.codes.timeout` reaches into a table,
    /// `results.text_limit.0` into a list.
    pub fn value(&self, id: &str) -> Option<Value> {
        let mut parts = id.split('.');
        let (section, name) = (parts.next()?, parts.next()?);
        let field = self.fields().remove(section)?.remove(name)?;
        parts.try_fold(field, |value, part| match value {
            Value::Object(mut members) => members.remove(part),
            Value::Array(mut items) => {
                let at = part.parse().ok().filter(|at| *at < items.len())?;
                Some(items.swap_remove(at))
            }
            _ => None,
        })
    }

    /// Whether what a promise says holds on a transport.
    pub fn holds_on(&self, id: &str, transport: ProfileTransport) -> bool {
        let holds = match id.split_once('.') {
            // A lost session is a matter of HTTP by its nature.
            Some(("restart", name)) if name != "http_session_lost" => &self.restart.transports,
            Some(("list_changed", _)) => &self.list_changed.transports,
            _ => &None,
        };
        holds.as_ref().is_none_or(|transports| transports.contains(&transport))
    }

    fn fields(&self) -> BTreeMap<String, Map<String, Value>> {
        let Ok(Value::Object(sections)) = serde_json::to_value(self) else { return BTreeMap::new() };
        sections
            .into_iter()
            .filter(|(section, _)| section != "host")
            .filter_map(|(section, fields)| match fields {
                Value::Object(fields) => Some((section, fields)),
                _ => None,
            })
            .collect()
    }
}

fn explain(file: &str, text: &str, error: &toml::de::Error) -> Box<Mistake> {
    let place = error.span().map(|span| {
        let before = text.get(..span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |n| n + 1);
        (
            before.matches('\n').count() + 1,
            before.get(line_start..).unwrap_or_default().chars().count() + 1,
            text.get(span).and_then(|s| s.lines().next()).map_or(1, |s| s.chars().count().max(1)),
        )
    });
    let message = error.message();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let known = |known: &[&str]| known.iter().map(|word| (*word).to_owned()).collect();
    let (kind, message, known) = match quoted.split_first() {
        Some((word, words)) if message.starts_with("unknown field") => (
            MistakeKind::UnknownField,
            format!("`{word}` is not a field of this part of a host profile"),
            Some(((*word).to_owned(), known(words))),
        ),
        Some((word, words)) if message.starts_with("unknown variant") => (
            MistakeKind::UnknownWord,
            format!("`{word}` is not a value of this field"),
            Some(((*word).to_owned(), known(words))),
        ),
        _ => (MistakeKind::Value, message.to_owned(), None),
    };
    Box::new(Mistake { file: file.to_owned(), text: text.to_owned(), place, kind, message, known })
}

/// Where a field of a profile is set: line, column, width.
fn place_of_field(text: &str, id: &str) -> (usize, usize, usize) {
    let (section, name) = id.split_once('.').unwrap_or(("", id));
    let mut inside = false;
    for (n, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if let Some(header) = trimmed.strip_prefix('[') {
            inside = header.trim_start().starts_with(section);
        } else if inside && trimmed.split('=').next().is_some_and(|key| key.trim() == name) {
            let column = line.chars().count() - trimmed.chars().count() + 1;
            return (n + 1, column, trimmed.trim_end().chars().count());
        }
    }
    (1, 1, 1)
}

/// The field of that id.
pub fn field(id: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clash, Settings, Trigger};
    use serde_json::json;

    #[test]
    fn every_built_in_profile_is_read_under_its_name() {
        for (name, _) in BUILT_IN {
            let profile = Profile::built_in(&name.to_uppercase()).unwrap().unwrap_or_else(|e| panic!("{e}"));
            let shown = profile.host.name.clone().unwrap();
            assert!(shown.to_lowercase().starts_with(name), "{shown}");
            assert!(!profile.promises_made().is_empty());
        }
    }

    #[test]
    fn every_promise_that_is_made_is_a_field() {
        for (name, _) in BUILT_IN {
            for id in Profile::load(name).unwrap().promises_made() {
                let field = field(&id).unwrap_or_else(|| panic!("{id}"));
                assert!(!field.about.trim().is_empty());
            }
        }
    }

    #[test]
    fn what_is_left_out_is_the_reference_clients() {
        let chaz = Profile::load("chaz").unwrap().settings();
        assert_eq!(chaz.naming.on_clash, Clash::SkipLater);
        assert_eq!(chaz.restart.trigger, Trigger::FailingCall);
        assert_eq!(chaz.naming.max_len, Settings::default().naming.max_len);
        assert_eq!(Profile::default().settings(), Settings::default());
        // The reference client keeps what it declares.
        let reference = Profile::load("reference").unwrap();
        assert_eq!(reference.settings(), Settings::default());
    }

    #[test]
    fn a_profile_starts_from_another() {
        let folder = std::env::temp_dir().join(format!("sparring-profiles-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(
            folder.join("base.toml"),
            "[host]\nname = \"base\"\nextends = \"zut\"\n[naming]\nmax_len = 40\n",
        )
        .unwrap();
        let path = folder.join("mine.toml");
        let text = "[host]\nextends = \"base.toml\"\n[naming]\nhash_len = 6\n";
        let profile = Profile::parse(path.to_str().unwrap(), text).unwrap();
        assert_eq!(profile.value("naming.hash_len"), Some(json!(6)));
        assert_eq!(profile.value("naming.max_len"), Some(json!(40)));
        assert_eq!(profile.value("naming.on_overflow"), Some(json!("hash")));
        std::fs::write(&path, "[host]\nextends = \"mine.toml\"\n").unwrap();
        let mistake = Profile::load(path.to_str().unwrap()).unwrap_err();
        assert!(mistake.message.contains("circle"), "{mistake}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn values_of_tables_have_ids_too() {
        let mouaif = Profile::load("mouaif").unwrap();
        assert_eq!(mouaif.value("errors.codes.timeout"), Some(json!("EMCP_TIMEOUT")));
        assert_eq!(mouaif.value("errors.codes.unset_variable"), None);
        assert!(!mouaif.holds_on("restart.trigger", ProfileTransport::Http));
        assert!(mouaif.holds_on("restart.http_session_lost", ProfileTransport::Http));
    }

    #[test]
    fn mistakes_say_where_they_are() {
        let refused = |text: &str| Profile::parse("my.toml", text).unwrap_err();
        let unknown = refused("[naming]\nmax_length = 64\n");
        assert_eq!((unknown.kind, unknown.place), (MistakeKind::UnknownField, Some((2, 1, 10))));
        assert!(unknown.known.unwrap().1.contains(&"max_len".to_owned()));
        let word = refused("[naming]\non_clash = \"hsah\"\n");
        assert_eq!((word.kind, word.place), (MistakeKind::UnknownWord, Some((2, 12, 6))));
        let value = refused("[timeouts]\nclose_s = 1\ntool_s = -1\n");
        assert_eq!(value.to_string(), "my.toml:3:1: `timeouts.tool_s` is a number of seconds, above zero");
        let missing = Profile::load("no-such-host").unwrap_err();
        assert!(missing.to_string().contains("built-in profiles are reference, chaz"), "{missing}");
    }
}
