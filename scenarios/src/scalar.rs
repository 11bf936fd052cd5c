//! Where the characters of a YAML scalar stand in its file.

use crate::diagnostic::Place;
use serde_saphyr::granit_parser::ScalarStyle;
use std::ops::Range;

/// A scalar: its text, and where it was written.
#[derive(Debug)]
pub(crate) struct Scalar {
    /// Its text, as YAML reads it.
    pub(crate) text: String,
    style: ScalarStyle,
    /// The bytes of the file that it was read from.
    source: Range<usize>,
}

impl Scalar {
    pub(crate) const fn new(text: String, style: ScalarStyle, source: Range<usize>) -> Self {
        Self { text, style, source }
    }

    /// Where these characters of the text stand. `None` where the way of writing is too odd to follow; then the scalar
    /// as a whole has to do.
    pub(crate) fn place(&self, file: &str, characters: Range<usize>) -> Option<Place> {
        let mut reader = Reader::new(file, self.source.clone())?;
        let read = match self.style {
            ScalarStyle::Plain => reader.flow(None),
            ScalarStyle::SingleQuoted => reader.flow(Some('\'')),
            ScalarStyle::DoubleQuoted => reader.flow(Some('"')),
            ScalarStyle::Literal | ScalarStyle::Folded => reader.block(self.style == ScalarStyle::Folded),
        }?;
        // What was read here has to be what YAML read, but for the line ends after it.
        let same = read.iter().map(|(c, ..)| *c).collect::<String>();
        if same.trim_end_matches('\n') != self.text.trim_end_matches('\n') {
            return None;
        }
        let last = read.len().checked_sub(1)?;
        let (_, line, column) = read[characters.start.min(last)];
        let end = characters.end.saturating_sub(1).clamp(characters.start.min(last), last);
        // Only what stands on one line is underlined as a whole.
        let width = read[characters.start.min(last)..=end]
            .iter()
            .take_while(|(_, l, _)| *l == line)
            .last()
            .map_or(1, |(.., c)| c - column + 1);
        Some(Place::new(line, column, width))
    }
}

/// A character of the text, and the line and column (from 1) where it was written.
type Written = (char, usize, usize);

struct Reader<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
    column: usize,
    /// Bytes of the scalar that are left.
    left: usize,
}

impl<'a> Reader<'a> {
    fn new(file: &'a str, source: Range<usize>) -> Option<Self> {
        let before = file.get(..source.start)?;
        let line_start = before.rfind('\n').map_or(0, |n| n + 1);
        let rest = file.get(source.start..)?;
        Some(Self {
            chars: rest.chars().peekable(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            left: source.len(),
        })
    }

    /// The next character, with its place; line ends are `\n`.
    fn next(&mut self) -> Option<Written> {
        let c = self.chars.next()?;
        self.left = self.left.saturating_sub(c.len_utf8());
        let here = (c, self.line, self.column);
        match c {
            '\r' if self.chars.peek() == Some(&'\n') => return self.next(),
            '\n' => {
                self.line += 1;
                self.column = 1;
            }
            _ => self.column += 1,
        }
        Some(here)
    }

    /// A plain or quoted scalar, whose lines are folded.
    fn flow(&mut self, quote: Option<char>) -> Option<Vec<Written>> {
        let mut out: Vec<Written> = Vec::new();
        if quote.is_some() {
            self.next()?;
        }
        // Blanks before this position were written as escapes, and stay.
        let mut kept = 0;
        loop {
            if quote.is_none() && self.left == 0 {
                return Some(out);
            }
            let (c, line, column) = self.next()?;
            match (c, quote) {
                ('\'', Some('\'')) => {
                    if self.chars.peek() != Some(&'\'') {
                        return Some(out);
                    }
                    self.next();
                    out.push(('\'', line, column));
                }
                ('"', Some('"')) => return Some(out),
                ('\\', Some('"')) => {
                    if let Some(c) = self.escape()? {
                        out.push((c, line, column));
                    }
                    kept = out.len();
                }
                ('\n', _) => {
                    while out.len() > kept && out.last().is_some_and(|(c, ..)| matches!(c, ' ' | '\t')) {
                        out.pop();
                    }
                    let mut ends = 1;
                    while let Some(c) = self.chars.peek().copied().filter(|c| c.is_whitespace()) {
                        self.next();
                        ends += usize::from(c == '\n');
                    }
                    let folded = if ends == 1 { vec![' '] } else { vec!['\n'; ends - 1] };
                    out.extend(folded.into_iter().map(|c| (c, line, column)));
                    kept = out.len();
                }
                _ => out.push((c, line, column)),
            }
        }
    }

    /// What follows a backslash: `None` inside if it is the end of a line.
    fn escape(&mut self) -> Option<Option<char>> {
        let (c, ..) = self.next()?;
        let digits = match c {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            '\n' => {
                while self.chars.peek().is_some_and(|c| matches!(c, ' ' | '\t')) {
                    self.next();
                }
                return Some(None);
            }
            _ => {
                return Some(Some(match c {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    '0' => '\0',
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'e' => '\u{1b}',
                    'f' => '\u{c}',
                    'v' => '\u{b}',
                    other => other,
                }));
            }
        };
        let mut code = 0;
        for _ in 0..digits {
            code = code * 16 + self.next()?.0.to_digit(16)?;
        }
        char::from_u32(code).map(Some)
    }

    /// A block scalar, with its header.
    fn block(&mut self, folded: bool) -> Option<Vec<Written>> {
        // The header may be left out of the span.
        if matches!(self.chars.peek(), Some('|' | '>')) {
            while self.next()?.0 != '\n' {}
        }
        let mut lines: Vec<Vec<Written>> = Vec::new();
        let mut line = Vec::new();
        while self.left > 0 {
            let Some(c) = self.next() else { break };
            if c.0 == '\n' {
                line.push(c);
                lines.push(std::mem::take(&mut line));
            } else {
                line.push(c);
            }
        }
        lines.push(line);
        let blank = |line: &[Written]| line.iter().all(|(c, ..)| matches!(c, ' ' | '\n'));
        let first = lines.iter().find(|line| !blank(line))?;
        // Columns count from 1, and the first line may begin behind its indentation.
        let indent = first.iter().find(|(c, ..)| *c != ' ')?.2 - 1;
        let mut out: Vec<Written> = Vec::new();
        for line in &lines {
            let inner = line.iter().filter(|(c, _, column)| *column > indent || *c == '\n');
            out.extend(inner.copied());
        }
        if folded {
            out = fold(&out);
        }
        Some(out)
    }
}

/// Single line ends become spaces, except beside lines that are indented further.
fn fold(text: &[Written]) -> Vec<Written> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let (c, line, column) = text[at];
        if c != '\n' {
            out.push((c, line, column));
            at += 1;
            continue;
        }
        let ends = text[at..].iter().take_while(|(c, ..)| *c == '\n').count();
        match (ends, text.get(at + ends)) {
            (_, None) => out.extend_from_slice(&text[at..at + ends]),
            (1, Some(_)) => out.push((' ', line, column)),
            (_, Some(_)) => out.extend_from_slice(&text[at + 1..at + ends]),
        }
        at += ends;
    }
    out
}
