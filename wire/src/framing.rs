//! Newline-delimited framing, as the stdio transport has it: bytes in, lines out, whatever the chunks.

/// Splits a byte stream into lines. A line is whatever precedes a `\n`; the judge is shown the rest of the truth by
/// [`Line::carriage_return`] and [`Lines::finish`].
#[derive(Debug)]
pub struct Lines {
    buffer: Vec<u8>,
    /// How far the buffer has been searched for a newline already.
    searched: usize,
    limit: usize,
}

/// One line, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The bytes before `\n`, and before `\r` where one preceded it.
    pub bytes: Vec<u8>,
    /// It ended in `\r\n`.
    pub carriage_return: bool,
    /// It ended in a newline; `false` only for what [`Lines::finish`] returns.
    pub terminated: bool,
}

impl Line {
    /// The text, with invalid UTF-8 replaced; the flag says whether there was any.
    pub fn text(&self) -> (String, bool) {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (String::from_utf8_lossy(&self.bytes).into_owned(), true),
        }
    }
}

/// A line grew beyond the limit; the stream can't be followed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line is longer than {limit} bytes")]
pub struct LineTooLong {
    /// The limit that was passed, in bytes.
    pub limit: usize,
}

impl Lines {
    /// `limit` is the longest line accepted, in bytes.
    pub const fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), searched: 0, limit }
    }

    /// Takes in the next chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole line, if one is there.
    pub fn next_line(&mut self) -> Result<Option<Line>, LineTooLong> {
        let Some(offset) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') else {
            self.searched = self.buffer.len();
            return if self.searched > self.limit {
                Err(LineTooLong { limit: self.limit })
            } else {
                Ok(None)
            };
        };
        let end = self.searched + offset;
        if end > self.limit {
            return Err(LineTooLong { limit: self.limit });
        }
        let mut bytes: Vec<u8> = self.buffer.drain(..=end).collect();
        self.searched = 0;
        bytes.pop();
        let carriage_return = bytes.last() == Some(&b'\r');
        if carriage_return {
            bytes.pop();
        }
        Ok(Some(Line { bytes, carriage_return, terminated: true }))
    }

    /// What is left at the end of the stream: a last line that lacks its newline.
    pub fn finish(&mut self) -> Option<Line> {
        self.searched = 0;
        if self.buffer.is_empty() {
            return None;
        }
        Some(Line { bytes: std::mem::take(&mut self.buffer), carriage_return: false, terminated: false })
    }

    /// Bytes that wait for their newline.
    pub const fn pending(&self) -> usize {
        self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(chunks: &[&[u8]]) -> Vec<Line> {
        let mut lines = Lines::new(1 << 20);
        let mut out = Vec::new();
        for chunk in chunks {
            lines.push(chunk);
            while let Some(line) = lines.next_line().unwrap() {
                out.push(line);
            }
        }
        out.extend(lines.finish());
        out
    }

    #[test]
    fn keeps_carriage_returns_and_missing_newlines_visible() {
        let lines = all(&[b"a\r\nb\n", b"\nlast"]);
        let seen: Vec<_> = lines.iter().map(|l| (l.text().0, l.carriage_return, l.terminated)).collect();
        assert_eq!(
            seen,
            [
                ("a".to_owned(), true, true),
                ("b".to_owned(), false, true),
                (String::new(), false, true),
                ("last".to_owned(), false, false)
            ]
        );
    }

    #[test]
    fn an_endless_line_is_an_error_not_a_growing_buffer() {
        let mut lines = Lines::new(8);
        lines.push(b"0123456789");
        assert_eq!(lines.next_line(), Err(LineTooLong { limit: 8 }));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines(text in "[a\r\n\u{e4}]{0,60}", cuts in prop::collection::vec(0usize..200, 0..8)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c % (bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            chunks.push(&bytes[from..]);
            prop_assert_eq!(all(&chunks), all(&[bytes]));
        }
    }
}
