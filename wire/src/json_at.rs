//! Where something stands in JSON text.

use std::ops::Range;

/// A step on the way to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To the member of that key.
    Key(String),
    /// To the element at that index.
    Index(usize),
}

/// Which part of a member is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Its key.
    Key,
    /// Its value.
    Value,
}

/// The characters of `text` (counted as such) that the path leads to; of keys that occur twice, the last. `None` if the
/// path leads nowhere. `text` has to be JSON.
pub fn locate(text: &str, path: &[Step], part: Part) -> Option<Range<usize>> {
    let mut scanner = Scanner { chars: text.chars().collect(), at: 0 };
    scanner.find(path, part)
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
}

impl Scanner {
    fn space(&mut self) {
        while self.chars.get(self.at).is_some_and(|c| c.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn next_is(&mut self, wanted: char) -> bool {
        self.space();
        let is = self.chars.get(self.at) == Some(&wanted);
        self.at += usize::from(is);
        is
    }

    /// A string: its text.
    fn string(&mut self) -> Option<String> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.chars.get(self.at)? {
                '"' => break,
                '\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        let raw: String = self.chars.get(start..self.at)?.iter().collect();
        serde_json::from_str(&raw).ok()
    }

    /// Passes over a value.
    fn skip(&mut self) -> Option<Range<usize>> {
        self.find(&[], Part::Value)
    }

    /// Passes over a value, and finds in it what the path leads to.
    fn find(&mut self, path: &[Step], part: Part) -> Option<Range<usize>> {
        self.space();
        let start = self.at;
        let mut found = None;
        match self.chars.get(self.at)? {
            '{' => {
                self.at += 1;
                while !self.next_is('}') {
                    self.space();
                    let key_start = self.at;
                    let key = self.string()?;
                    let key_place = key_start..self.at;
                    if !self.next_is(':') {
                        return None;
                    }
                    match path {
                        [Step::Key(wanted), rest @ ..] if *wanted == key => {
                            let value = self.find(rest, part);
                            found =
                                if rest.is_empty() && part == Part::Key { Some(key_place) } else { value };
                        }
                        _ => {
                            self.skip()?;
                        }
                    }
                    self.next_is(',');
                }
            }
            '[' => {
                self.at += 1;
                let mut index = 0;
                while !self.next_is(']') {
                    match path {
                        [Step::Index(wanted), rest @ ..] if *wanted == index => found = self.find(rest, part),
                        _ => {
                            self.skip()?;
                        }
                    }
                    index += 1;
                    self.next_is(',');
                }
            }
            '"' => {
                self.string()?;
            }
            _ => {
                while self.chars.get(self.at).is_some_and(|c| !",]} \t\r\n".contains(*c)) {
                    self.at += 1;
                }
            }
        }
        if path.is_empty() { Some(start..self.at) } else { found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_found() {
        let text = "{\"a\": [1, {\"é\\\"\": \"ü}\", \"$x\" : -2.5}], \"b\": {}}";
        let shown = |path: &[Step], part| {
            locate(text, path, part)
                .map(|range| text.chars().skip(range.start).take(range.len()).collect::<String>())
        };
        let key = |k: &str| Step::Key(k.to_owned());
        assert_eq!(shown(&[], Part::Value).unwrap(), text);
        assert_eq!(shown(&[key("a"), Step::Index(0)], Part::Value).unwrap(), "1");
        assert_eq!(shown(&[key("a"), Step::Index(1), key("$x")], Part::Key).unwrap(), "\"$x\"");
        assert_eq!(shown(&[key("a"), Step::Index(1), key("$x")], Part::Value).unwrap(), "-2.5");
        assert_eq!(shown(&[key("a"), Step::Index(1), key("é\"")], Part::Value).unwrap(), "\"ü}\"");
        assert_eq!(shown(&[key("b")], Part::Value).unwrap(), "{}");
        assert_eq!(shown(&[key("c")], Part::Value), None);
        assert_eq!(locate("{\"a\": 1, \"a\": 2}", &[key("a")], Part::Key), Some(9..12));
    }
}
