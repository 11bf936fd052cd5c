//! Text from outside, made fit to be shown; and its layout in columns.

use std::borrow::Cow;
use std::fmt::Write as _;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Shows what would otherwise act instead of being seen: control characters (and with them terminal escapes), line
/// ends, characters that reverse or hide text, and those that XML can't carry. The result is a single line.
///
/// ```
/// assert_eq!(sparring_reports::text::escape("\u{1b}[2Jgone\n"), r"\u{1b}[2Jgone\n");
/// ```
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str(r"\n"),
            '\r' => shown.push_str(r"\r"),
            '\t' => shown.push_str(r"\t"),
            c if acts(c) => {
                let _ = write!(shown, r"\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Whether a character does something to the text around it rather than being part of it.
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Columns that text takes on a terminal.
pub(crate) fn columns(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Breaks text into lines of at most `width` columns: between words, and inside a word that is longer than a line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let needed = columns(word) + usize::from(!line.is_empty());
        if !line.is_empty() && columns(&line) + needed > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        if columns(&line) + columns(word) <= width {
            line.push_str(word);
            continue;
        }
        let mut used = columns(&line);
        for c in word.chars() {
            let one = c.width().unwrap_or(0);
            if used + one > width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += one;
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Cuts text to at most `width` columns, with `…` where something is missing.
pub(crate) fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        shown.push(c);
    }
    shown.push('…');
    Cow::Owned(shown)
}

/// A number with its thousands apart: `23,117`.
pub(crate) fn number(n: impl TryInto<u64>) -> String {
    let digits = n.try_into().unwrap_or(u64::MAX).to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A count of things: `1 case`, `1,904 cases`.
pub(crate) fn count(n: usize, thing: &str) -> String {
    format!("{} {thing}{}", number(n), if n == 1 { "" } else { "s" })
}

/// A duration as a person says it.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{} min {:02} s", number(ms / 60_000), ms % 60_000 / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_shown() {
        assert_eq!(escape("plain `text` é 漢字"), "plain `text` é 漢字");
        assert_eq!(escape("\u{1b}]0;x\u{7}"), r"\u{1b}]0;x\u{7}");
        assert_eq!(escape("\u{9b}31m"), r"\u{9b}31m", "the one-character form of ESC [");
        assert_eq!(escape("a\r\nb\tc\0"), r"a\r\nb\tc\u{0}");
        assert_eq!(escape("\u{202e}gnp.exe"), r"\u{202e}gnp.exe");
        assert_eq!(escape("\u{ffff}"), r"\u{ffff}");
    }

    #[test]
    fn lines_keep_their_width() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("a  b", 9), ["a  b"], "evidence is shown as it was");
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"], "wide characters take two columns");
        for width in 1..12 {
            for line in wrap("a client — whose session — 漢字 is answered_with_404_starts_anew", width)
            {
                assert!(columns(&line) <= width.max(2), "{line:?} in {width}");
            }
        }
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("漢字漢字", 4), "漢…");
        assert_eq!(cut("abcd", 4), "abcd");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [0_usize, 12, 999, 1_904, 23_117, 1_000_000].map(number),
            ["0", "12", "999", "1,904", "23,117", "1,000,000"]
        );
        assert_eq!(count(1, "case"), "1 case");
        assert_eq!(
            [0, 812, 1_000, 31_449, 60_000, 3_723_000].map(duration),
            ["0 ms", "812 ms", "1.0 s", "31.4 s", "1 min 00 s", "62 min 03 s"]
        );
    }
}
