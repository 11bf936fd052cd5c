//! Results of tools: looked through when they come, parsed when they are read.

use crate::error::Error;
use crate::raw::Raw;
use crate::schema;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::sync::OnceLock;

/// A result of `tools/call`.
///
/// It was found to be valid when it came, but is parsed only when somebody looks into it: a megabyte that is only handed
/// on costs no more than looking for its end.
#[derive(Debug, Clone)]
pub struct CallResult {
    raw: Raw,
    is_error: bool,
    json: OnceLock<Value>,
}

impl CallResult {
    /// Verifies a result: its content, and against the tool's output schema if there is one.
    pub(crate) fn read(raw: Raw, schema: Option<&Value>) -> Result<Self, Error> {
        if schema.is_none()
            && let Ok(Shape { content: Content::Good, is_error }) = raw.parse()
        {
            return Ok(Self { raw, is_error, json: OnceLock::new() });
        }
        let value = raw.value()?;
        verify(&value, schema)?;
        let is_error = failed(&value);
        Ok(Self { raw, is_error, json: OnceLock::from(value) })
    }

    /// The result as the server sent it.
    #[must_use]
    pub const fn raw(&self) -> &Raw {
        &self.raw
    }

    /// The result, parsed at the first call.
    #[must_use]
    pub fn json(&self) -> &Value {
        // That it can be read was verified by `read`.
        self.json.get_or_init(|| self.raw.value().unwrap_or_default())
    }

    /// The result, parsed.
    #[must_use]
    pub fn into_json(mut self) -> Value {
        self.json.take().unwrap_or_else(|| self.raw.value().unwrap_or_default())
    }

    /// Whether the tool reports a failure of its own.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        self.is_error
    }

    /// The content blocks.
    #[must_use]
    pub fn content(&self) -> &[Value] {
        self.json().get("content").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The text blocks, joined by newlines.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .content()
            .iter()
            .filter(|b| b.get("type").and_then(Value::as_str) == Some("text"))
            .filter_map(|b| b.get("text").and_then(Value::as_str))
            .collect();
        texts.join("\n")
    }

    /// `structuredContent`.
    #[must_use]
    pub fn structured(&self) -> Option<&Value> {
        self.json().get("structuredContent")
    }
}

/// The same result, however it is written.
impl PartialEq for CallResult {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

fn failed(result: &Value) -> bool {
    result.get("isError").and_then(Value::as_bool) == Some(true)
}

/// Verifies a parsed result of `tools/call`.
pub(crate) fn verify(result: &Value, schema: Option<&Value>) -> Result<(), Error> {
    let structured = result.get("structuredContent");
    match result.get("content") {
        Some(Value::Array(blocks)) => {
            if let Some(odd) = blocks.iter().find(|b| !b.get("type").is_some_and(Value::is_string)) {
                let odd: String = odd.to_string().chars().take(200).collect();
                return Err(Error::Invalid(format!("a content block has no type: {odd}")));
            }
        }
        // Against the specification, but clear enough.
        None if structured.is_some() => {}
        _ => return Err(Error::Invalid("the result of tools/call has no array `content`".into())),
    }
    let Some(schema) = schema.filter(|_| !failed(result)) else { return Ok(()) };
    let Some(structured) = structured else {
        return Err(Error::Invalid("the tool has an output schema, but sent no structuredContent".into()));
    };
    schema::check(schema, structured)
        .map_err(|error| Error::Invalid(format!("structuredContent does not fit the output schema: {error}")))
}

/// As much of a result as tells that [`verify`] would accept it without a schema, and that it can be parsed. Whatever is
/// out of the ordinary is left to the full reading, which has the words for it.
struct Shape {
    content: Content,
    is_error: bool,
}

enum Content {
    /// Blocks that each have a type.
    Good,
    /// Anything else.
    Odd,
}

/// A value that is looked through like one that is parsed, so that whatever parsing would reject is rejected, and of which
/// nothing is kept but whether it is a certain thing.
enum Seen {
    True,
    Text,
    Other,
}

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = Seen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Seen, E> {
        Ok(if value { Seen::True } else { Seen::Other })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Seen, E> {
        Ok(Seen::Text)
    }

    fn visit_unit<E>(self) -> Result<Seen, E> {
        Ok(Seen::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Seen, A::Error> {
        while items.next_element::<Seen>()?.is_some() {}
        Ok(Seen::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Seen, A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value::<Seen>()?;
        }
        Ok(Seen::Other)
    }
}

/// Whether an object key is this one.
struct Key(Option<Member>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Content,
    IsError,
    Type,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl Visitor<'_> for Names {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Key, E> {
                Ok(Key(match name {
                    "content" => Some(Member::Content),
                    "isError" => Some(Member::IsError),
                    "type" => Some(Member::Type),
                    _ => None,
                }))
            }
        }
        deserializer.deserialize_identifier(Names)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
                let mut shape = Shape { content: Content::Odd, is_error: false };
                while let Some(Key(member)) = map.next_key()? {
                    match member {
                        Some(Member::Content) => shape.content = map.next_value()?,
                        Some(Member::IsError) => {
                            shape.is_error = matches!(map.next_value()?, Seen::True);
                        }
                        _ => {
                            map.next_value::<Seen>()?;
                        }
                    }
                }
                Ok(shape)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Blocks;
        impl<'de> Visitor<'de> for Blocks {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
                let mut content = Content::Good;
                while let Some(Block { has_type }) = items.next_element()? {
                    if !has_type {
                        content = Content::Odd;
                    }
                }
                Ok(content)
            }
        }
        deserializer.deserialize_seq(Blocks)
    }
}

/// A content block.
struct Block {
    has_type: bool,
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Block;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Block, A::Error> {
                let mut has_type = false;
                while let Some(Key(member)) = map.next_key()? {
                    let seen = map.next_value::<Seen>()?;
                    if member == Some(Member::Type) {
                        has_type = matches!(seen, Seen::Text);
                    }
                }
                Ok(Block { has_type })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str) -> Result<CallResult, Error> {
        CallResult::read(Raw::new(text.to_owned()), None)
    }

    /// The long way, for comparison.
    fn parsed(text: &str) -> Result<bool, Error> {
        let value = Raw::new(text.to_owned()).value()?;
        verify(&value, None)?;
        Ok(failed(&value))
    }

    #[test]
    fn a_result_is_parsed_only_when_it_is_read() {
        let result = read(r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#).unwrap();
        assert!(result.json.get().is_none() && !result.is_error());
        assert_eq!(result.text(), "a\nb");
        assert!(result.json.get().is_some());
        assert_eq!(result.clone().into_json(), *result.json());
    }

    #[test]
    fn what_can_not_be_parsed_is_never_a_success() {
        let deep = format!(r#"{{"content":[],"x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let texts = [
            r#"{"content":[{"type":"text","text":"\ud800"}]}"#,
            r#"{"content":[],"structuredContent":{"n":1e999}}"#,
            r#"{"content":[],"\udc00":1}"#,
            deep.as_str(),
        ];
        for text in texts {
            assert!(matches!(read(text), Err(Error::Invalid(_))), "{text}");
        }
    }

    #[test]
    fn the_words_for_what_is_wrong_are_those_of_the_full_reading() {
        for text in [r#"{"content":{}}"#, "{}", r#"{"content":[{"type":1}]}"#, r#"{"content":[3]}"#, "[]"] {
            assert_eq!(read(text).map(|r| r.is_error()), parsed(text), "{text}");
            assert!(read(text).is_err(), "{text}");
        }
        let only_structured = read(r#"{"structuredContent":{"a":1},"isError":true}"#).unwrap();
        assert!(only_structured.is_error());
        assert_eq!(only_structured.structured(), Some(&json!({"a": 1})));
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("true".to_owned()),
            Just("null".to_owned()),
            Just("-1".to_owned()),
            Just("1e400".to_owned()),
            Just(r#""text""#.to_owned()),
            Just(r#""\ud83d\ude00""#.to_owned()),
            Just(r#""\ud83d""#.to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let key = prop_oneof![Just("content"), Just("isError"), Just("type"), Just("structuredContent")];
            let member = (key, inner.clone()).prop_map(|(key, value)| format!("\"{key}\":{value}"));
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn looking_through_says_what_parsing_says(text in json()) {
            prop_assert_eq!(read(&text).map(|r| r.is_error()), parsed(&text));
        }
    }
}
