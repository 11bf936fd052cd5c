//! What rules and holds ask about an event.

use super::JsonText;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// One word, or a list of words of which any will do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnyOf(pub Vec<String>);

impl AnyOf {
    /// Whether `word` is one of them, or there are none.
    pub fn allows(&self, word: Option<&str>) -> bool {
        self.0.is_empty() || word.is_some_and(|word| self.0.iter().any(|w| w == word))
    }

    /// The same, where `*` in a word of ours stands for any text.
    pub fn allows_glob(&self, word: Option<&str>) -> bool {
        self.0.is_empty() || word.is_some_and(|word| self.0.iter().any(|w| glob(w, word)))
    }
}

/// Whether `text` fits `pattern`, in which each `*` stands for any text.
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

impl<'de> Deserialize<'de> for AnyOf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = AnyOf;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or a list of words")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<AnyOf, E> {
                Ok(AnyOf(vec![word.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<AnyOf, A::Error> {
                Deserialize::deserialize(de::value::SeqAccessDeserializer::new(access)).map(AnyOf)
            }
        }
        deserializer.deserialize_any(Words)
    }
}

impl Serialize for AnyOf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [word] => serializer.serialize_str(word),
            words => words.serialize(serializer),
        }
    }
}

impl JsonSchema for AnyOf {
    fn schema_name() -> Cow<'static, str> {
        "AnyOf".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A word, or a list of words of which any will do.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        })
    }
}

/// Which of a row of events, counted from 1: one number, a list of numbers, or a stretch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nth {
    /// These.
    These(Vec<u32>),
    /// A stretch.
    Span(Span),
}

/// A stretch of a row of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The first; 1 by default.
    #[serde(default = "one")]
    pub from: u32,
    /// The last; without it there is none.
    #[serde(default)]
    pub to: Option<u32>,
    /// Only every so many, starting with the first; each by default. `{ every: 3, from: 3 }` is the 3rd, 6th, 9th…
    #[serde(default = "one")]
    pub every: u32,
}

pub(super) const fn one() -> u32 {
    1
}

impl Nth {
    /// Whether the `n`th is meant.
    pub fn has(&self, n: u32) -> bool {
        match self {
            Self::These(these) => these.contains(&n),
            Self::Span(span) => {
                n >= span.from
                    && span.to.is_none_or(|to| n <= to)
                    && (n - span.from).is_multiple_of(span.every.max(1))
            }
        }
    }

    /// Whether it asks for nothing that can't be: there is no 0th, and a stretch has to have something in it.
    pub fn counts_from_one(&self) -> bool {
        match self {
            Self::These(these) => !these.is_empty() && !these.contains(&0),
            Self::Span(span) => span.from > 0 && span.every > 0 && span.to.is_none_or(|to| to >= span.from),
        }
    }
}

impl<'de> Deserialize<'de> for Nth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = Nth;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a list of numbers, or a map with `from`, `to`, `every`")
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Nth, E> {
                u32::try_from(n).map(|n| Nth::These(vec![n])).map_err(|_| E::custom("too large a number"))
            }

            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Nth, E> {
                u32::try_from(n).map(|n| Nth::These(vec![n])).map_err(|_| E::custom("not a count"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<Nth, A::Error> {
                Deserialize::deserialize(de::value::SeqAccessDeserializer::new(access)).map(Nth::These)
            }

            fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<Nth, A::Error> {
                Span::deserialize(de::value::MapAccessDeserializer::new(access)).map(Nth::Span)
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}

impl Serialize for Nth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::These(these) => match these.as_slice() {
                [n] => serializer.serialize_u32(*n),
                these => these.serialize(serializer),
            },
            Self::Span(span) => span.serialize(serializer),
        }
    }
}

impl JsonSchema for Nth {
    fn schema_name() -> Cow<'static, str> {
        "Nth".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = generator.subschema_for::<Span>();
        let number = json_schema!({"type": "integer", "minimum": 1});
        json_schema!({
            "description": "Which of a row of events, counted from 1: a number, a list of numbers, or a stretch.",
            "anyOf": [number, {"type": "array", "items": number}, span],
        })
    }
}

/// The text of a header field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderIs(pub HeaderTest);

/// What is asked about a header field; all that is given has to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeaderTest {
    /// The value is this text.
    pub is: Option<String>,
    /// The value holds this text somewhere.
    pub has: Option<String>,
    /// The value does not hold this text, or the field is absent.
    pub lacks: Option<String>,
    /// The field is there (`true`) or not (`false`).
    pub present: Option<bool>,
}

impl HeaderIs {
    /// Whether a field's value (`None`: it is absent) is as asked.
    pub fn fits(&self, value: Option<&str>) -> bool {
        let HeaderTest { is, has, lacks, present } = &self.0;
        is.as_deref().is_none_or(|is| value == Some(is))
            && has.as_deref().is_none_or(|text| value.is_some_and(|v| v.contains(text)))
            && lacks.as_deref().is_none_or(|text| value.is_none_or(|v| !v.contains(text)))
            && present.is_none_or(|present| value.is_some() == present)
    }
}

impl<'de> Deserialize<'de> for HeaderIs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Test;
        impl<'de> Visitor<'de> for Test {
            type Value = HeaderIs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the field's value, or a map with `is`, `has`, `lacks`, `present`")
            }

            fn visit_str<E: de::Error>(self, is: &str) -> Result<HeaderIs, E> {
                Ok(HeaderIs(HeaderTest { is: Some(is.to_owned()), ..HeaderTest::default() }))
            }

            fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<HeaderIs, A::Error> {
                HeaderTest::deserialize(de::value::MapAccessDeserializer::new(access)).map(HeaderIs)
            }
        }
        deserializer.deserialize_any(Test)
    }
}

impl Serialize for HeaderIs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            HeaderTest { is: Some(is), has: None, lacks: None, present: None } => {
                serializer.serialize_str(is)
            }
            test => test.serialize(serializer),
        }
    }
}

impl JsonSchema for HeaderIs {
    fn schema_name() -> Cow<'static, str> {
        "HeaderIs".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let test = generator.subschema_for::<HeaderTest>();
        json_schema!({
            "description": "A header field's value, or what is asked about it.",
            "anyOf": [{"type": "string"}, test],
        })
    }
}

/// JSON to compare with: an object is a subset, everything else is equal. An object with one of these members is a
/// question instead:
///
/// - `{"$any": true}`: it is there, whatever it is;
/// - `{"$absent": true}`: it is not there;
/// - `{"$not": …}`: it is there and does not fit;
/// - `{"$one_of": […]}`: it fits one of these;
/// - `{"$type": "string"}`: its JSON type (`integer` too).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Like(pub Value);

/// The questions of [`Like`].
const QUESTIONS: [&str; 5] = ["$any", "$absent", "$not", "$one_of", "$type"];
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

impl Like {
    /// Whether `given` fits. `None`: there is nothing.
    pub fn fits(&self, given: Option<&Value>) -> bool {
        fits(given, &self.0)
    }
}

/// The question that an object asks, and about what.
fn question(wanted: &Value) -> Option<(&str, &Value)> {
    let mut members = wanted.as_object()?.iter();
    match (members.next(), members.next()) {
        (Some((key, operand)), None) if key.starts_with('$') => Some((key, operand)),
        _ => None,
    }
}

fn fits(given: Option<&Value>, wanted: &Value) -> bool {
    let Some((question, operand)) = question(wanted) else {
        return match (given, wanted) {
            (Some(Value::Object(given)), Value::Object(wanted)) => {
                wanted.iter().all(|(key, wanted)| fits(given.get(key), wanted))
            }
            (given, wanted) => given == Some(wanted),
        };
    };
    match (question, given) {
        ("$absent", given) => given.is_none(),
        ("$any", Some(_)) => true,
        ("$not", Some(_)) => !fits(given, operand),
        ("$one_of", Some(_)) => operand.as_array().is_some_and(|these| these.iter().any(|w| fits(given, w))),
        ("$type", Some(given)) => match operand.as_str() {
            Some("string") => given.is_string(),
            Some("number") => given.is_number(),
            Some("integer") => given.is_i64() || given.is_u64(),
            Some("boolean") => given.is_boolean(),
            Some("object") => given.is_object(),
            Some("array") => given.is_array(),
            Some("null") => given.is_null(),
            _ => false,
        },
        _ => false,
    }
}

/// What is wrong with JSON to compare with.
fn check(wanted: &Value) -> Result<(), String> {
    if let Value::Object(members) = wanted
        && let Some(key) = members.keys().find(|key| key.starts_with('$'))
    {
        let Some((question, operand)) = question(wanted) else {
            return Err(format!("`{key}` has to be the only member of its object"));
        };
        return match (question, operand) {
            ("$any" | "$absent", Value::Bool(true)) => Ok(()),
            ("$any" | "$absent", _) => Err(format!("`{question}` takes `true`")),
            ("$not", operand) => check(operand),
            ("$one_of", Value::Array(these)) => these.iter().try_for_each(check),
            ("$one_of", _) => Err("`$one_of` takes a list".into()),
            ("$type", Value::String(name)) if TYPES.contains(&name.as_str()) => Ok(()),
            ("$type", _) => Err(format!("`$type` takes one of {}", TYPES.join(", "))),
            _ => Err(format!("`{question}` is no question; there are {}", QUESTIONS.join(", "))),
        };
    }
    match wanted {
        Value::Object(members) => members.values().try_for_each(check),
        Value::Array(items) => items.iter().try_for_each(check),
        _ => Ok(()),
    }
}

impl<'de> Deserialize<'de> for Like {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = JsonText::deserialize(deserializer)?.0;
        check(&json).map_err(de::Error::custom)?;
        Ok(Self(json))
    }
}

impl Serialize for Like {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_string())
    }
}

impl JsonSchema for Like {
    fn schema_name() -> Cow<'static, str> {
        "Like".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "JSON to compare with, as text or as a map of strings: an object is a subset, everything else is equal. `{\"$any\": true}`, `{\"$absent\": true}`, `{\"$not\": …}`, `{\"$one_of\": […]}` and `{\"$type\": \"string\"}` ask other questions.",
            "anyOf": [
                {"type": "string", "contentMediaType": "application/json"},
                {"type": "object", "additionalProperties": {"type": "string"}},
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_lists_and_stretches() {
        let these = |json: Value| -> Vec<u32> {
            let nth: Nth = serde_json::from_value(json).unwrap();
            (1..10).filter(|n| nth.has(*n)).collect()
        };
        assert_eq!(these(json!(3)), [3]);
        assert_eq!(these(json!([1, 4])), [1, 4]);
        assert_eq!(these(json!({"from": 8})), [8, 9]);
        assert_eq!(these(json!({"from": 2, "to": 4})), [2, 3, 4]);
        assert_eq!(these(json!({"every": 3, "from": 3})), [3, 6, 9]);
        assert_eq!(these(json!({"every": 4})), [1, 5, 9]);
        for never in
            [json!(0), json!([]), json!({"from": 0}), json!({"every": 0}), json!({"from": 3, "to": 2})]
        {
            assert!(!serde_json::from_value::<Nth>(never.clone()).unwrap().counts_from_one(), "{never}");
        }
        assert!(serde_json::from_value::<Nth>(json!({"frm": 1})).is_err());
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text, fits) in [
            ("tools/*", "tools/call", true),
            ("tools/*", "tools", false),
            ("*", "", true),
            ("*/list", "tools/list", true),
            ("a*b*c", "a--b--b--c", true),
            ("a*b*c", "a--c--b", false),
            ("ab", "abc", false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn json_is_compared_as_a_subset_and_asked_questions() {
        let given = json!({"a": {"b": 1, "c": "x"}, "n": null});
        for (wanted, fits) in [
            (json!({"a": {"b": 1}}), true),
            (json!({"a": {"b": 1.5}}), false),
            (json!({"a": {"$any": true}}), true),
            (json!({"z": {"$any": true}}), false),
            (json!({"z": {"$absent": true}}), true),
            (json!({"n": {"$absent": true}}), false),
            (json!({"a": {"b": {"$not": 2}}}), true),
            (json!({"z": {"$not": 2}}), false),
            (json!({"a": {"c": {"$one_of": ["y", "x"]}}}), true),
            (json!({"a": {"b": {"$type": "integer"}, "c": {"$type": "string"}}}), true),
            (json!({"n": {"$type": "string"}}), false),
        ] {
            assert_eq!(Like(wanted.clone()).fits(Some(&given)), fits, "{wanted}");
        }
        assert!(Like(json!({"$absent": true})).fits(None));
        for wrong in
            [r#"{"$any": 1}"#, r#"{"$no": 1}"#, r#"{"$any": true, "b": 1}"#, r#"{"a": [{"$type": "text"}]}"#]
        {
            assert!(serde_json::from_value::<Like>(json!(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_are_asked_about() {
        let test = |json: Value| -> HeaderIs { serde_json::from_value(json).unwrap() };
        assert!(test(json!("a")).fits(Some("a")) && !test(json!("a")).fits(None));
        assert!(test(json!({"has": "ear"})).fits(Some("Bearer x")) && !test(json!({"has": "x"})).fits(None));
        assert!(test(json!({"lacks": "x"})).fits(None) && !test(json!({"lacks": "x"})).fits(Some("x")));
        assert!(
            test(json!({"present": false})).fits(None) && !test(json!({"present": false})).fits(Some(""))
        );
    }
}
