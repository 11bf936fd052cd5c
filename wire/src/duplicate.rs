//! A scan for duplicate object keys.
//!
//! RFC 8259 leaves their meaning open, so two parsers may read two different messages; `serde_json` keeps the last
//! one without a word. A judge has to see them.

use std::borrow::Cow;
use std::collections::HashSet;

/// JSON pointers (RFC 6901) of the keys that occur a second time in their object, in order of appearance.
///
/// The text must be JSON; on text that is not, the scan stops where it can no longer follow and returns what it
/// found so far. Keys are compared after unescaping, as parsers do.
pub fn duplicate_keys(text: &str) -> Vec<String> {
    let mut scan = Scan { text, bytes: text.as_bytes(), at: 0, path: Vec::new(), found: Vec::new() };
    scan.value(0);
    scan.found
}

/// Deeper nesting than any message has; keeps the recursion bounded on hostile input.
const MAX_DEPTH: usize = 256;

/// Objects with more keys than this get a set of them; most have a few, which are compared one by one.
const FEW: usize = 16;

struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    path: Vec<Step<'a>>,
    found: Vec<String>,
}

/// A step of the way to a value.
enum Step<'a> {
    Key(Cow<'a, str>),
    Index(usize),
}

/// The keys of one object so far.
#[derive(Default)]
struct Seen<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Seen<'a> {
    /// Whether the key is new.
    fn insert(&mut self, key: Cow<'a, str>) -> bool {
        if self.few.len() < FEW {
            let new = !self.few.contains(&key);
            self.few.push(key);
            return new;
        }
        if self.many.is_empty() {
            self.many.extend(self.few.iter().cloned());
        }
        self.many.insert(key)
    }
}

impl<'a> Scan<'a> {
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// Reads one value; `None` when the text is not JSON or too deep.
    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(|_| ()),
            _ => {
                let start = self.at;
                while !matches!(
                    self.bytes.get(self.at),
                    None | Some(b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')
                ) {
                    self.at += 1;
                }
                (self.at > start).then_some(())
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.at += 1;
        let mut seen = Seen::default();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            if self.peek()? != b'"' {
                return None;
            }
            let key = self.key()?;
            self.path.push(Step::Key(key.clone()));
            if !seen.insert(key) {
                self.found.push(self.pointer());
            }
            if self.peek()? != b':' {
                return None;
            }
            self.at += 1;
            self.value(depth + 1)?;
            self.path.pop();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.at += 1;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        let mut index = 0usize;
        loop {
            self.path.push(Step::Index(index));
            self.value(depth + 1)?;
            self.path.pop();
            index += 1;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// The way to the value at hand.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            pointer.push('/');
            match step {
                Step::Key(key) => pointer += &key.replace('~', "~0").replace('/', "~1"),
                Step::Index(index) => pointer += &index.to_string(),
            }
        }
        pointer
    }

    /// Passes the string that starts at the cursor; returns what stands between the quotes, and whether it has escapes.
    fn string(&mut self) -> Option<(&'a str, bool)> {
        let start = self.at + 1;
        let mut escapes = false;
        self.at = start;
        loop {
            match self.bytes.get(self.at)? {
                b'"' => break,
                b'\\' => {
                    escapes = true;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
        let inside = self.text.get(start..self.at)?;
        self.at += 1;
        Some((inside, escapes))
    }

    /// The unescaped key that starts at the cursor.
    fn key(&mut self) -> Option<Cow<'a, str>> {
        let start = self.at;
        match self.string()? {
            (inside, false) => Some(Cow::Borrowed(inside)),
            _ => serde_json::from_str(self.text.get(start..self.at)?).ok().map(Cow::Owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::duplicate_keys;

    #[test]
    fn finds_duplicates_at_every_depth_and_only_those() {
        assert_eq!(
            duplicate_keys(r#"{"id":1,"a":{"b":[{"c":1},{"c":2,"c":3}]},"id":2}"#),
            ["/a/b/1/c", "/id"]
        );
        assert!(duplicate_keys(r#"{"a":{"x":1},"b":{"x":1},"c":[{},{}]}"#).is_empty());
    }

    #[test]
    fn finds_them_among_many() {
        let keys: Vec<String> = (0..100).map(|n| format!("\"k{n}\":{n}")).collect();
        assert!(duplicate_keys(&format!("{{{}}}", keys.join(","))).is_empty());
        for again in [3, 15, 16, 17, 99] {
            let text = format!("{{{},\"k{again}\":0}}", keys.join(","));
            assert_eq!(duplicate_keys(&text), [format!("/k{again}")]);
        }
    }

    #[test]
    fn compares_keys_after_unescaping() {
        assert_eq!(duplicate_keys(r#"{"id":1,"\u0069d":2}"#), ["/id"]);
        assert_eq!(duplicate_keys(r#"{"a/b":1,"a/b":"{\"q\":1}"}"#), ["/a~1b"]);
    }

    #[test]
    fn survives_what_is_not_json() {
        for text in ["", "{", "{\"a\"", "{\"a\":", "[1,", "\"\\", "nope", "{1:2}", &"[".repeat(100_000)] {
            duplicate_keys(text);
        }
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_count_of_the_keys(keys in proptest::collection::vec("[a-c]{1,2}", 0..8)) {
            let body: Vec<String> = keys.iter().map(|k| format!("\"{k}\":0")).collect();
            let distinct: std::collections::HashSet<_> = keys.iter().collect();
            let text = format!("{{{}}}", body.join(","));
            proptest::prop_assert_eq!(duplicate_keys(&text).len(), keys.len() - distinct.len());
        }
    }
}
