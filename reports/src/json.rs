//! The report for programs: JSON, versioned, with a published schema.

use crate::file::{self, WriteError};
use crate::model::{FORMAT_VERSION, RunReport};
use crate::text;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A report that can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file can't be read.
    #[error("can't read the report `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no report of ours, or a damaged one.
    #[error("`{}` is not a Sparring report: {source}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// Another version of the program wrote it.
    #[error(
        "`{}` has report format {found}, and this program reads format {FORMAT_VERSION}; {}",
        path.display(),
        if *found > FORMAT_VERSION { "use the version of Sparring that wrote it, or a newer one" }
        else { "run the client again to get a report in the present format" }
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// What errors call it.
pub const WHAT: &str = "JSON report";

/// The report as JSON text. Control characters, also those that JSON allows in strings, are escaped, so that the
/// text can be shown on a terminal.
pub fn to_string(report: &RunReport) -> String {
    // A report has string keys and finite numbers only: serde_json has nothing to refuse.
    let plain = serde_json::to_string_pretty(report).unwrap_or_default();
    let mut text = String::with_capacity(plain.len() + 1);
    for c in plain.chars() {
        // Line ends stand between tokens: inside strings, serde_json has escaped them.
        if c != '\n' && text::acts(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, r"\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text.push('\n');
    text
}

/// Writes the report, see [`file::write()`].
///
/// # Errors
/// The file can't be written.
pub fn write(report: &RunReport, path: &Path) -> Result<(), WriteError> {
    file::write(WHAT, path, to_string(report).as_bytes())
}

/// Reads a report.
///
/// # Errors
/// The file can't be read, is no report, or has another format version; the error names the file.
pub fn read(path: &Path) -> Result<RunReport, ReadError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    from_str(&text, path)
}

/// Reads a report from text; `path` is for errors.
///
/// # Errors
/// It is no report, or has another format version.
pub fn from_str(text: &str, path: &Path) -> Result<RunReport, ReadError> {
    /// Looked at first: what else a report of another version has is unknown.
    #[derive(Deserialize)]
    struct Versioned {
        format_version: u32,
    }
    let form = |source| ReadError::Form { path: path.to_owned(), source };
    let found = serde_json::from_str::<Versioned>(text).map_err(form)?.format_version;
    if found != FORMAT_VERSION {
        return Err(ReadError::Version { path: path.to_owned(), found });
    }
    serde_json::from_str(text).map_err(form)
}

/// The JSON Schema of the report, as `sparring schema report` prints it.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(RunReport).to_value();
    if let Some(version) = schema.pointer_mut("/properties/format_version") {
        *version = json!({ "const": FORMAT_VERSION, "description": "The version of this format." });
    }
    schema
}

/// [`schema`] as text.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}
