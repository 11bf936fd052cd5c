//! What a person reads, and what programs read.

use serde_json::Value;
use std::io::{self, IsTerminal as _, Write};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Writes to stdout. Whoever has read enough may leave.
pub(crate) fn out(text: &str) {
    drop(io::stdout().lock().write_all(text.as_bytes()));
}

/// A line on stdout.
pub(crate) fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// A line on stderr.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// JSON on stdout.
pub(crate) fn json(value: &Value) {
    line(&serde_json::to_string_pretty(value).unwrap_or_default());
}

/// Bytes on stdout, as they are.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    drop(stdout.write_all(bytes).and_then(|()| stdout.flush()));
}

/// Whether a person looks at stdout.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Text of a server: as it is for programs, without what a terminal would obey for a person.
pub(crate) fn text(text: &str) -> String {
    if is_terminal() { harmless(text) } else { text.to_owned() }
}

/// Control characters but tabs and line ends become visible.
fn harmless(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        '\r' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        // These turn the direction of text, so that it reads as something else.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(shown).collect()
}

/// One line of a text, for tables.
pub(crate) fn one_line(text: &str) -> String {
    harmless(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A table: columns as wide as they need to be, the last one cut at the width of the terminal.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    indent: usize,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
        Self { rows: if head.is_empty() { Vec::new() } else { vec![head] }, indent: 0 }
    }

    /// The table, a bit to the right.
    pub(crate) const fn indented(mut self) -> Self {
        self.indent = 2;
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// The table as text. `width`: that of the terminal; nothing is cut without one.
    pub(crate) fn shown(&self, width: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|at| {
                self.rows.iter().filter_map(|row| row.get(at)).map(|c| c.width()).max().unwrap_or_default()
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width()) + 2));
            }
            let line = line.trim_end();
            match width {
                Some(width) => text.push_str(&cut(line, width)),
                None => text.push_str(line),
            }
            text.push('\n');
        }
        text
    }

    pub(crate) fn print(&self) {
        let width = terminal_size::terminal_size().filter(|_| is_terminal());
        out(&self.shown(width.map(|(terminal_size::Width(width), _)| usize::from(width))));
    }
}

/// A line of at most so many columns.
fn cut(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or_default();
        used <= width
    };
    line.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_cut() {
        let mut table = Table::new(&["NAME", "WHAT"]);
        table.row(["a".into(), "one\n  two".into()]);
        table.row(["工具".into(), "x".into()]);
        table.row(["longer".into(), String::new()]);
        assert_eq!(table.shown(None), "NAME    WHAT\na       one two\n工具    x\nlonger\n");
        assert_eq!(table.shown(Some(11)), "NAME    WH…\na       on…\n工具    x\nlonger\n");
        let mut bare = Table::new(&[]).indented();
        bare.row(["a".into(), "b".into()]);
        assert_eq!(bare.shown(None), "  a  b\n");
        assert_eq!(Table::new(&[]).shown(None), "");
    }

    #[test]
    fn a_terminal_gets_nothing_to_obey() {
        assert_eq!(harmless("a\u{1b}[31mb\r\n\tc\u{7}\u{202e}d"), "a\u{fffd}[31mb \n\tc\u{fffd}\u{fffd}d");
    }
}
