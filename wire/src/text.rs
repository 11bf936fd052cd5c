//! JSON written as text, where long strings cost little more than their copying.

use serde_json::Value;
use std::fmt::Write as _;

/// The value as compact JSON: the very text of its `to_string`.
pub fn to_text(value: &Value) -> String {
    let mut out = String::with_capacity(256);
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        // Writing to a string does not fail.
        Value::Number(number) => {
            let _ = write!(out, "{number}");
        }
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (n, (key, member)) in members.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
    }
}

/// Room for what usually follows a long string, so that the end of a message does not move all of it.
const TAIL: usize = 256;

fn write_string(text: &str, out: &mut String) {
    if !is_plain(text.as_bytes()) {
        // A string can always be written.
        out.push_str(&serde_json::to_string(text).unwrap_or_default());
        return;
    }
    if text.len() > TAIL {
        out.reserve(text.len() + TAIL);
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

/// Whether nothing has to be escaped. In pieces that are looked at as a whole, which compilers turn into a few
/// instructions each.
fn is_plain(bytes: &[u8]) -> bool {
    bytes
        .chunks(64)
        .all(|piece| piece.iter().fold(true, |plain, b| plain & (*b >= 0x20) & (*b != b'"') & (*b != b'\\')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[ -~]{60,70}[\u{0}-\u{1f}\"\\\\]?".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_the_usual_text(value in json()) {
            prop_assert_eq!(to_text(&value), value.to_string());
        }
    }
}
