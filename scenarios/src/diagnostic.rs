//! What is wrong with an input file, told as a compiler tells it.

use crate::code::{Code, Severity};
use serde::Serialize;
use std::fmt;

/// Something wrong with an input file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The file, as the user knows it.
    pub file: String,
    /// The line, from 1; 0 if it is about the file as a whole.
    pub line: u32,
    /// The column, from 1, in Unicode scalar values; 0 like `line`.
    pub column: u32,
    /// How many characters are meant.
    pub width: u32,
    /// How bad it is.
    pub severity: Severity,
    /// The rule that is broken.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The text of the line.
    #[serde(skip)]
    pub source: Option<Box<str>>,
}

/// Longer lines are cut to a window of this many characters around the place that is meant.
const WINDOW: usize = 110;

const BOLD_RED: &str = "\u{1b}[1;31m";
const BOLD_YELLOW: &str = "\u{1b}[1;33m";
const BOLD: &str = "\u{1b}[1m";
const BLUE: &str = "\u{1b}[34m";
const RESET: &str = "\u{1b}[0m";

impl Diagnostic {
    /// About a file as a whole.
    pub fn whole_file(file: impl Into<String>, code: Code, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: 0,
            column: 0,
            width: 0,
            severity: code.severity(),
            code,
            message: message.into(),
            help: None,
            source: None,
        }
    }

    /// About a place in `text`.
    pub fn at(
        file: impl Into<String>,
        text: &str,
        place: Place,
        code: Code,
        message: impl Into<String>,
    ) -> Self {
        Self {
            line: place.line,
            column: place.column,
            width: place.width,
            source: place.line.checked_sub(1).and_then(|n| text.lines().nth(n as usize)).map(Into::into),
            ..Self::whole_file(file, code, message)
        }
    }

    /// The same with advice.
    #[must_use]
    pub fn with_help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }

    /// The message with the place and the line of the file, as compilers show it. Ends with a newline.
    pub fn render(&self, colour: bool) -> String {
        let mark = if self.severity == Severity::Error { BOLD_RED } else { BOLD_YELLOW };
        let (red, bold, blue, reset) = if colour { (mark, BOLD, BLUE, RESET) } else { ("", "", "", "") };
        let message = printable(&self.message);
        let mut out =
            format!("{red}{}[{}]{reset}{bold}: {message}{reset}\n", self.severity.word(), self.code);
        let file = printable(&self.file);
        let help = self.help.as_deref().map(printable);
        let (Some(source), true) = (&self.source, self.line > 0) else {
            let place = if self.line > 0 { format!(":{}:{}", self.line, self.column) } else { String::new() };
            out.push_str(&format!("  {blue}┌─{reset} {file}{place}\n"));
            if let Some(help) = help {
                out.push_str(&format!("  {blue}={reset} {help}\n"));
            }
            return out;
        };
        let number = self.line.to_string();
        let pad = " ".repeat(number.len());
        let column = self.column.max(1);
        let (shown, at) = window(source, column as usize - 1);
        let width = (self.width as usize).clamp(1, shown.chars().count().saturating_sub(at).max(1));
        let carets = "^".repeat(width);
        out.push_str(&format!("{pad}{blue}┌─{reset} {file}:{}:{column}\n", self.line));
        out.push_str(&format!("{pad}{blue}│{reset}\n"));
        out.push_str(&format!("{blue}{number}│{reset} {shown}\n"));
        let label = help.map(|help| format!(" {help}")).unwrap_or_default();
        out.push_str(&format!("{pad}{blue}│{reset} {}{red}{carets}{label}{reset}\n", " ".repeat(at)));
        out
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostic {}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// From 1.
    pub line: u32,
    /// From 1, in Unicode scalar values.
    pub column: u32,
    /// In Unicode scalar values.
    pub width: u32,
}

impl Place {
    /// From counts; what does not fit is cut, since no input file is that large.
    pub(crate) fn new(line: usize, column: usize, width: usize) -> Self {
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { line: small(line), column: small(column), width: small(width) }
    }
}

/// The part of a line that is shown, and where in it the place is.
fn window(line: &str, at: usize) -> (String, usize) {
    let line = printable(line);
    let length = line.chars().count();
    let at = at.min(length);
    if length <= WINDOW {
        return (line, at);
    }
    let start = at.saturating_sub(WINDOW / 2).min(length - WINDOW);
    let mut shown: String = line.chars().skip(start).take(WINDOW).collect();
    if start + WINDOW < length {
        shown.push('…');
    }
    if start > 0 {
        shown.insert(0, '…');
        return (shown, at - start + 1);
    }
    (shown, at)
}

/// Control characters, which could steer a terminal, become spaces; the columns stay.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The word of `known` that is most like `word`, if it is near enough to be a typo.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean …?` for the nearest word.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|found| format!("did you mean `{found}`?"))
}

/// Edit distance, where swapping two neighbours counts as one edit.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j - 1] + change).min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_like_a_compilers_message() {
        let text = "a: 1\n    expect: { http: POST, heaeder: { x: absent } }\n";
        let shown = Diagnostic::at(
            "scenarios/http/session.yaml",
            text,
            Place { line: 2, column: 27, width: 7 },
            Code::UnknownKey,
            "`expect.heaeder` is not a key of a pattern",
        )
        .with_help(did_you_mean("heaeder", ["http", "header", "path"]));
        insta::assert_snapshot!(shown.render(false), @r"
        error[unknown-key]: `expect.heaeder` is not a key of a pattern
         ┌─ scenarios/http/session.yaml:2:27
         │
        2│     expect: { http: POST, heaeder: { x: absent } }
         │                           ^^^^^^^ did you mean `header`?
        ");
        assert!(shown.render(true).contains("\u{1b}[1;31m"));
    }

    #[test]
    fn a_long_line_is_cut_and_control_characters_never_reach_the_terminal() {
        let line = format!("{}\u{1b}[2Jhere{}", "x".repeat(200), "y".repeat(200));
        let at = Diagnostic::at("f", &line, Place { line: 1, column: 205, width: 4 }, Code::Value, "m");
        let shown = at.render(false);
        assert!(!shown.contains('\u{1b}'));
        let lines: Vec<&str> = shown.lines().collect();
        let caret = lines[4].chars().position(|c| c == '^').unwrap();
        assert_eq!(lines[3].chars().skip(caret).take(4).collect::<String>(), "here");
        assert!(lines[3].chars().count() < 120);
    }

    #[test]
    fn a_typo_is_near_and_another_word_is_not() {
        assert_eq!(nearest("heaeder", ["header", "method"]), Some("header"));
        assert_eq!(nearest("metohd", ["header", "method"]), Some("method"));
        assert_eq!(nearest("status", ["header", "method"]), None);
    }
}
