//! Classes of characters, as `naming.charset` gives them.

/// A class such as `[A-Za-z0-9_-]`: single characters, ranges, `\w`, `\d`, escaped characters, and `^` at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charset {
    negated: bool,
    ranges: Vec<(char, char)>,
}

impl Charset {
    /// Reads a class. What cannot be read as a range is taken character by character, so that there is a reading of any
    /// text; an empty one allows nothing.
    pub fn parse(class: &str) -> Self {
        let inner = class.strip_prefix('[').unwrap_or(class);
        let inner = inner.strip_suffix(']').unwrap_or(inner);
        let (negated, inner) = match inner.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, inner),
        };
        let mut ranges = Vec::new();
        let mut chars = inner.chars().peekable();
        while let Some(c) = chars.next() {
            let start = match (c, chars.peek().copied()) {
                ('\\', Some('w')) => {
                    chars.next();
                    ranges.extend([('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')]);
                    continue;
                }
                ('\\', Some('d')) => {
                    chars.next();
                    ranges.push(('0', '9'));
                    continue;
                }
                ('\\', Some(escaped)) => {
                    chars.next();
                    escaped
                }
                (c, _) => c,
            };
            let mut ahead = chars.clone();
            match (ahead.next(), ahead.next()) {
                (Some('-'), Some(end)) if end != '\\' => {
                    chars = ahead;
                    ranges.push((start.min(end), start.max(end)));
                }
                _ => ranges.push((start, start)),
            }
        }
        Self { negated, ranges }
    }

    /// Whether it has the character.
    pub fn has(&self, c: char) -> bool {
        self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != self.negated
    }

    /// What stands for a character that is not allowed; nothing if there is none.
    pub fn substitute(&self) -> Option<char> {
        "_-.xX0".chars().find(|c| self.has(*c))
    }

    /// What stands between a name and its suffix; nothing if there is none.
    pub(super) fn separator(&self) -> Option<char> {
        "_-.".chars().find(|c| self.has(*c))
    }

    /// The text with all other characters substituted.
    pub fn clean(&self, text: &str) -> String {
        text.chars().filter_map(|c| if self.has(c) { Some(c) } else { self.substitute() }).collect()
    }

    /// The 16 digits of a hash.
    pub(super) fn digits(&self) -> [char; 16] {
        let all = |digits: &[char; 16]| digits.iter().all(|c| self.has(*c));
        let [hex, lower, upper] =
            ["0123456789abcdef", "abcdefghijklmnop", "ABCDEFGHIJKLMNOP"].map(|digits| {
                let mut chars = digits.chars();
                std::array::from_fn(|_| chars.next().unwrap_or_default())
            });
        [hex, lower, upper].into_iter().find(all).unwrap_or(hex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read_as_regular_expressions_do() {
        let cases: [(&str, &str, &str); 7] = [
            ("[A-Za-z0-9_-]", "AZaz09_-", ".é /["),
            ("[a-c]", "abc", "d-A"),
            ("[-a]", "-a", "b"),
            ("[a\\-c]", "a-c", "b"),
            ("[\\w.]", "aZ9_.", "-"),
            ("[^a-z]", "A-é", "az"),
            ("[\\d\\]]", "7]", "\\a"),
        ];
        for (class, inside, outside) in cases {
            let set = Charset::parse(class);
            assert!(inside.chars().all(|c| set.has(c)), "{class}");
            assert!(!outside.chars().any(|c| set.has(c)), "{class}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_substituted() {
        assert_eq!(Charset::parse("[A-Za-z0-9_-]").clean("a.b/ä"), "a_b__");
        assert_eq!(Charset::parse("[a-z-]").clean("a.b"), "a-b");
        assert_eq!(Charset::parse("[a-w]").clean("a.b"), "ab");
        assert_eq!(Charset::parse("[]").clean("a"), "");
    }

    #[test]
    fn a_hash_has_digits_that_are_allowed() {
        assert_eq!(Charset::parse("[a-z0-9]").digits()[10], 'a');
        assert_eq!(Charset::parse("[a-z_]").digits()[0], 'a');
        assert_eq!(Charset::parse("[A-Z_]").digits()[15], 'P');
    }
}
