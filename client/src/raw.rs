//! JSON of the server, kept as the text that came until somebody reads it.

use crate::error::Error;
use serde::Deserialize;
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;

/// A JSON value as it stood in a message: a part of the message's text, shared and not copied.
///
/// Its syntax was verified when the message came. What only a full reading shows (numbers that no type holds, halves of
/// surrogate pairs, nesting without end) is an error of [`Raw::parse`].
#[derive(Clone)]
pub struct Raw {
    text: Arc<String>,
    range: Range<usize>,
}

impl Raw {
    /// A text as a whole.
    pub(crate) fn new(text: String) -> Self {
        let range = 0..text.len();
        Self { text: Arc::new(text), range }
    }

    /// This part of the text; it has to be a slice of [`Raw::as_str`], or it is copied.
    pub(crate) fn part(&self, part: &str) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let range = start..start.saturating_add(part.len());
        match self.text.get(range.clone()) {
            Some(found) if std::ptr::eq(found, part) => Self { text: Arc::clone(&self.text), range },
            _ => Self::new(part.to_owned()),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.get(self.range.clone()).unwrap_or_default()
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not what `T` can be read from.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        serde_json::from_str(self.as_str())
            .map_err(|error| Error::Invalid(format!("the server's answer can't be read: {error}")))
    }

    /// Reads it as a value of any kind.
    ///
    /// # Errors
    /// As [`Raw::parse`].
    pub fn value(&self) -> Result<Value, Error> {
        self.parse()
    }

    /// Whether it is an object.
    pub(crate) fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }
}

impl From<Value> for Raw {
    fn from(value: Value) -> Self {
        Self::new(value.to_string())
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 200;
        let text = self.as_str();
        match text.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len()),
            None => f.write_str(text),
        }
    }
}

/// The same JSON, however it is written.
impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
            || matches!((self.value(), other.value()), (Ok(one), Ok(other)) if one == other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_part_is_shared_and_what_is_no_part_is_copied() {
        let whole = Raw::new(r#"{"result":{"a":1}}"#.to_owned());
        let inner = whole.as_str().get(10..17).unwrap();
        let part = whole.part(inner);
        assert!(std::ptr::eq(part.as_str(), inner));
        assert_eq!(part.value().unwrap(), json!({"a": 1}));
        let foreign = r#"{"a":1}"#.to_owned();
        assert_eq!(whole.part(&foreign), part);
        // A foreign text of the same place in memory can't be; one before it must not wrap around.
        assert_eq!(part.part(whole.as_str()).as_str(), whole.as_str());
    }

    #[test]
    fn what_a_pass_over_the_syntax_lets_through_is_found_by_reading() {
        for text in [r#"{"a":1e999}"#, r#"{"a":"\ud800"}"#] {
            assert!(serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
            assert!(matches!(Raw::new(text.to_owned()).value(), Err(Error::Invalid(_))), "{text}");
        }
    }

    #[test]
    fn a_long_one_is_shown_by_its_beginning() {
        assert_eq!(format!("{:?}", Raw::from(json!({}))), "{}");
        let shown = format!("{:?}", Raw::from(json!("ä".repeat(1000))));
        assert!(shown.ends_with("… (2002 bytes)"), "{shown}");
    }
}
