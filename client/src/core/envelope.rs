//! The envelope of a message, read in one pass that skips over what it holds.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The members that say what a message is; each as its text, the last one if it occurs twice.
#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    /// `jsonrpc` is exactly "2.0".
    pub(super) proper: bool,
    pub(super) id: Option<&'a str>,
    /// There is a `method`, of whatever kind.
    pub(super) has_method: bool,
    pub(super) result: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    /// One of these members that occurs twice.
    pub(super) twice: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    /// Reads it. An error if `text` is no JSON object; what stands in the members is looked through as well.
    pub(super) fn read(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// A member's name.
#[derive(Clone, Copy)]
enum Name {
    Jsonrpc,
    Id,
    Method,
    Result,
    Error,
    Other,
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl Visitor<'_> for Names {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                Ok(match name {
                    "jsonrpc" => Name::Jsonrpc,
                    "id" => Name::Id,
                    "method" => Name::Method,
                    "result" => Name::Result,
                    "error" => Name::Error,
                    _ => Name::Other,
                })
            }
        }
        deserializer.deserialize_identifier(Names)
    }
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
                let mut envelope = Envelope::default();
                let mut version = None;
                let mut method = None;
                while let Some(name) = map.next_key()? {
                    let (place, word) = match name {
                        Name::Jsonrpc => (&mut version, "jsonrpc"),
                        Name::Id => (&mut envelope.id, "id"),
                        Name::Method => (&mut method, "method"),
                        Name::Result => (&mut envelope.result, "result"),
                        Name::Error => (&mut envelope.error, "error"),
                        Name::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    if place.replace(map.next_value::<&'de RawValue>()?.get()).is_some() {
                        envelope.twice = Some(word);
                    }
                }
                envelope.has_method = method.is_some();
                // An escaped spelling of the same string is rare enough for a second look.
                envelope.proper = version == Some(r#""2.0""#)
                    || version.is_some_and(|v| serde_json::from_str::<String>(v).is_ok_and(|v| v == "2.0"));
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_in_any_order_and_spelling() {
        let text = r#" {"result" : {"id":9,"error":[{}]} , "\u0069d":"x", "jsonrpc":"2\u002e0","more":[1]}"#;
        let envelope = Envelope::read(text).unwrap();
        assert!(envelope.proper && !envelope.has_method);
        assert_eq!(envelope.id, Some(r#""x""#));
        assert_eq!(envelope.result, Some(r#"{"id":9,"error":[{}]}"#));
        assert_eq!((envelope.error, envelope.twice), (None, None));
    }

    #[test]
    fn a_second_member_of_the_same_name_is_noticed() {
        for name in ["jsonrpc", "id", "method", "result", "error"] {
            let text = format!(r#"{{"{name}":1,"{name}":2}}"#);
            assert_eq!(Envelope::read(&text).unwrap().twice, Some(name));
        }
        assert_eq!(Envelope::read(r#"{"x":1,"x":2}"#).unwrap().twice, None);
    }

    #[test]
    fn what_is_no_json_is_an_error_wherever_it_stands() {
        for text in [r#"{"id":1,"result":{"a":}}"#, r#"{"id":1,"result":{"a":"#, r#"{"id":1} x"#, "[]", ""] {
            assert!(Envelope::read(text).is_err(), "{text}");
        }
    }
}
