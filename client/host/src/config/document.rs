//! Configuration files as trees, in each format, with places for messages.

use crate::error::HostError;
use crate::files;
use serde_json::Value;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use sparring_profiles::Format;
use sparring_wire::duplicate::duplicate_keys;
pub use sparring_wire::json_at::Step;
use sparring_wire::json_at::{Part, locate};
use std::io;
use std::path::{Path, PathBuf};

/// A larger file is no configuration.
const LARGEST: u64 = 16 << 20;

/// A configuration file.
#[derive(Clone)]
pub struct Document {
    file: PathBuf,
    format: Format,
    text: String,
    /// What is in it.
    pub root: Value,
}

impl std::fmt::Debug for Document {
    // Configurations have secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document")
            .field("file", &self.file)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl Document {
    /// Reads a file in this format. `None` if there is none.
    ///
    /// # Errors
    /// [`HostError::Config`] with the file, and line and column if it is not well-formed.
    pub fn read(file: &Path, format: Format) -> Result<Option<Self>, HostError> {
        let wrong =
            |error: io::Error| HostError::Config(format!("{}: can't be read: {error}", file.display()));
        let size = match std::fs::metadata(file) {
            Ok(metadata) => metadata.len(),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(wrong(error)),
        };
        if size > LARGEST {
            return Err(HostError::Config(format!("{}: larger than 16 MiB", file.display())));
        }
        let text = std::fs::read_to_string(file).map_err(wrong)?;
        Self::parse(file, format, text).map(Some)
    }

    /// The format of a file that is no place of the host's: that of its ending; `otherwise` if that says nothing.
    pub fn format_of(file: &Path, otherwise: Format) -> Format {
        match file.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("json") => Format::Json,
            Some("yaml" | "yml") => Format::Yaml,
            Some("toml") => Format::Toml,
            _ => otherwise,
        }
    }

    /// Reads a file's text. An empty one has nothing in it, in any format.
    ///
    /// # Errors
    /// As [`Document::read`].
    pub fn parse(file: &Path, format: Format, text: String) -> Result<Self, HostError> {
        let empty = text.trim().is_empty();
        let mut document = Self { file: file.to_owned(), format, text, root: Value::Null };
        if !empty {
            document.root = match format {
                Format::Json => document.json()?,
                Format::Yaml => document.yaml()?,
                Format::Toml => document.toml()?,
            };
        }
        Ok(document)
    }

    /// One that is not there yet.
    pub fn new(file: &Path, format: Format) -> Self {
        Self { file: file.to_owned(), format, text: String::new(), root: Value::Null }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn json(&self) -> Result<Value, HostError> {
        let value = serde_json::from_str(&self.text).map_err(|error| {
            // The place is ours to tell.
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            self.wrong_at(error.line(), error.column(), message)
        })?;
        if let Some(pointer) = duplicate_keys(&self.text).first() {
            let key = pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
            return Err(HostError::Config(format!(
                "{}: the key {key:?} occurs twice",
                self.place(&steps(pointer, &value), Part::Key)
            )));
        }
        Ok(value)
    }

    fn yaml(&self) -> Result<Value, HostError> {
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::Error,
            merge_keys: MergeKeyPolicy::Error,
            reject_unsupported_tags: true,
            strict_booleans: true,
            with_snippet: false,
        };
        serde_saphyr::from_str_with_options(&self.text, options).map_err(|error| {
            let error = error.without_snippet();
            let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
            let number = |n| usize::try_from(n).unwrap_or_default();
            self.wrong_at(number(line), number(column), &first_line(&error.to_string()))
        })
    }

    fn toml(&self) -> Result<Value, HostError> {
        toml::from_str(&self.text).map_err(|error| {
            let before = error.span().and_then(|span| self.text.get(..span.start)).unwrap_or_default();
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            self.wrong_at(before.matches('\n').count() + 1, column, error.message())
        })
    }

    fn wrong_at(&self, line: usize, column: usize, message: &str) -> HostError {
        HostError::Config(format!("{}:{line}:{column}: {message}", self.file.display()))
    }

    /// Where something stands: `file:line:column` in JSON, the file in other formats.
    pub fn place(&self, path: &[Step], part: Part) -> String {
        let file = self.file.display();
        let Some(range) = (self.format == Format::Json).then(|| locate(&self.text, path, part)).flatten()
        else {
            return file.to_string();
        };
        let (mut line, mut column) = (1, 1);
        for c in self.text.chars().take(range.start) {
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        format!("{file}:{line}:{column}")
    }

    /// Writes the file: as a whole or not at all, with this mode from the first byte on, whatever mode it had.
    ///
    /// # Errors
    /// If it can't be written; the old one is as it was.
    pub fn write(&self, mode: u32) -> Result<(), HostError> {
        let wrong =
            |error: String| HostError::Config(format!("{}: can't be written: {error}", self.file.display()));
        let mut text = match self.format {
            Format::Json => {
                serde_json::to_string_pretty(&self.root).map_err(|error| wrong(error.to_string()))?
            }
            Format::Yaml => serde_saphyr::to_string(&self.root).map_err(|error| wrong(error.to_string()))?,
            Format::Toml => toml::to_string_pretty(&self.root).map_err(|error| wrong(error.to_string()))?,
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        files::replace(&self.file, text.as_bytes(), mode).map_err(|error| wrong(error.to_string()))
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A JSON pointer as steps.
fn steps(pointer: &str, root: &Value) -> Vec<Step> {
    let mut at = Some(root);
    let mut steps = Vec::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        match at {
            Some(Value::Array(list)) => {
                let index = part.parse().unwrap_or_default();
                at = list.get(index);
                steps.push(Step::Index(index));
            }
            _ => {
                at = at.and_then(|value| value.get(&part));
                steps.push(Step::Key(part));
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(name: &str, text: &str) -> Result<Value, String> {
        let format = Document::format_of(Path::new(name), Format::Json);
        let document = Document::parse(Path::new(name), format, text.to_owned());
        document.map(|document| document.root).map_err(|error| error.to_string())
    }

    #[test]
    fn formats_go_by_the_ending() {
        let expected = Ok(json!({"a": {"b": ["c"]}}));
        for (name, text) in [
            ("x.json", "{\"a\": {\"b\": [\"c\"]}}"),
            ("x", "{\"a\": {\"b\": [\"c\"]}}"),
            ("x.yaml", "a:\n  b:\n  - c\n"),
            ("x.YML", "a: {b: [c]}"),
            ("x.toml", "[a]\nb = [\"c\"]\n"),
        ] {
            assert_eq!(parsed(name, text), expected, "{name}");
        }
        for name in ["x.json", "x.yaml", "x.toml"] {
            assert_eq!(parsed(name, " \n"), Ok(Value::Null));
        }
        assert_eq!(parsed("x.yaml", "a: no"), Ok(json!({"a": "no"})));
    }

    #[test]
    fn mistakes_have_places() {
        for (name, text, start) in [
            ("x.json", "{\n  \"a\": 1,\n}", "x.json:3:1: trailing comma"),
            ("x.json", "{\"a\": {\"b\": 1,\n \"b\": 2}}", "x.json:2:2: the key \"b\" occurs twice"),
            ("x.json", "[{\"a\": 1}, {\"b\": 1, \"b\": 2}]", "x.json:1:21: the key \"b\" occurs twice"),
            ("x.yaml", "a: 1\na: 2\n", "x.yaml:2:1: "),
            ("x.yaml", "a: [1", "x.yaml:"),
            ("x.toml", "a = 1\nb =\n", "x.toml:2:4: "),
        ] {
            let error = parsed(name, text).unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn places_of_fields() {
        let text = "{\n  \"é\": {\"b\": [1, 2]}\n}";
        let document = Document::parse(Path::new("x.json"), Format::Json, text.to_owned()).unwrap();
        let path = [Step::Key("é".into()), Step::Key("b".into()), Step::Index(1)];
        assert_eq!(document.place(&path, Part::Value), "x.json:2:18");
        assert_eq!(document.place(&[Step::Key("none".into())], Part::Value), "x.json");
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x.json", "x.yaml", "x.toml"] {
            let file = folder.path().join(name);
            let format = Document::format_of(&file, Format::Json);
            assert!(Document::read(&file, format).unwrap().is_none());
            let mut document = Document::new(&file, format);
            document.root = json!({"servers": {"a": {"args": ["", "a b", "no", "1", "\\\"'\n"], "env": {}}}});
            document.write(0o600).unwrap();
            let read = Document::read(&file, format).unwrap().unwrap();
            assert_eq!(read.root, document.root, "{name}");
        }
    }
}
