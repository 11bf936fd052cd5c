//! Comparison of JSON with a [`JsonPattern`](sparring_scenarios::pattern::JsonPattern).

use base64::Engine as _;
use serde_json::Value;
use sparring_mock_servers::library;
use std::collections::HashSet;

/// Whether `found` is what `wanted` says; `None` is an absent value.
pub(crate) fn matches(wanted: &Value, found: Option<&Value>) -> bool {
    if let Some((operator, argument)) = operator(wanted) {
        return operate(operator, argument, found);
    }
    let Some(found) = found else { return false };
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(key, wanted)| matches(wanted, found.get(key)))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(w, f)| matches(w, Some(f)))
        }
        _ => equal(wanted, found),
    }
}

fn operator(wanted: &Value) -> Option<(&str, &Value)> {
    let object = wanted.as_object().filter(|object| object.len() == 1)?;
    object.iter().next().filter(|(key, _)| key.starts_with('$')).map(|(key, value)| (key.as_str(), value))
}

fn operate(operator: &str, argument: &Value, found: Option<&Value>) -> bool {
    if operator == "$absent" {
        return found.is_none();
    }
    let Some(found) = found else { return false };
    match operator {
        "$any" => true,
        "$type" => argument.as_str().is_some_and(|name| is_of_type(found, name)),
        "$length" => length(found).is_some_and(|n| argument.as_u64() == Some(n)),
        "$max_length" => length(found).is_some_and(|n| argument.as_u64().is_some_and(|max| n <= max)),
        "$has" => found.as_array().is_some_and(|items| items.iter().any(|i| matches(argument, Some(i)))),
        "$lacks" => found.as_array().is_some_and(|items| !items.iter().any(|i| matches(argument, Some(i)))),
        "$each" => found.as_array().is_some_and(|items| items.iter().all(|i| matches(argument, Some(i)))),
        "$exactly" => equal(argument, found),
        "$class" => argument.as_str().zip(found.as_str()).is_some_and(|(class, text)| in_class(class, text)),
        "$blob" => argument.as_u64().zip(found.as_str()).is_some_and(|(length, text)| is_blob(length, text)),
        "$distinct" => {
            argument.as_str().zip(found.as_array()).is_some_and(|(name, items)| distinct(name, items))
        }
        "$contains" => argument.as_str().zip(found.as_str()).is_some_and(|(part, text)| text.contains(part)),
        "$bytes" => {
            let length = found.as_str().and_then(|text| u64::try_from(text.len()).ok());
            let bounds = argument.get(0).and_then(Value::as_u64).zip(argument.get(1).and_then(Value::as_u64));
            length.zip(bounds).is_some_and(|(length, (from, to))| (from..=to).contains(&length))
        }
        "$not" => !matches(argument, Some(found)),
        "$all" => argument.as_array().is_some_and(|all| all.iter().all(|one| matches(one, Some(found)))),
        "$one_of" => argument.as_array().is_some_and(|all| all.iter().any(|one| matches(one, Some(found)))),
        _ => false,
    }
}

/// Equality in which 1 and 1.0 are the same number, as they are in JSON.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || ((x.is_f64() || y.is_f64()) && x.as_f64() == y.as_f64())
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn length(value: &Value) -> Option<u64> {
    let length = match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::String(text) => text.chars().count(),
        _ => return None,
    };
    u64::try_from(length).ok()
}

fn in_class(class: &str, text: &str) -> bool {
    let inner: Vec<char> =
        class.strip_prefix('[').and_then(|c| c.strip_suffix(']')).unwrap_or(class).chars().collect();
    let within = |c: char| {
        let mut at = 0;
        while at < inner.len() {
            // A dash between two characters is a range; first or last it stands for itself.
            if at + 2 < inner.len() && inner[at + 1] == '-' {
                if (inner[at]..=inner[at + 2]).contains(&c) {
                    return true;
                }
                at += 3;
            } else {
                if inner[at] == c {
                    return true;
                }
                at += 1;
            }
        }
        false
    };
    text.chars().all(within)
}

fn is_blob(length: u64, text: &str) -> bool {
    // Base64 needs four characters for three bytes; anything else cannot be it, however long the pattern asks for.
    let Ok(encoded) = usize::try_from(length.div_ceil(3).saturating_mul(4)) else { return false };
    text.len() == encoded && base64::engine::general_purpose::STANDARD.encode(library::bytes(length)) == text
}

fn distinct(name: &str, items: &[Value]) -> bool {
    let mut seen = HashSet::new();
    items.iter().all(|item| item.get(name).is_some_and(|value| seen.insert(value.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_operator_says_yes_and_no() {
        let blob = base64::engine::general_purpose::STANDARD.encode(library::bytes(300));
        let cases = [
            (json!({"$any": true}), json!(null), json!("absent is tested below")),
            (json!({"$type": "integer"}), json!(3), json!(3.5)),
            (json!({"$type": "null"}), json!(null), json!(0)),
            (json!({"$length": 2}), json!("äö"), json!("äöü")),
            (json!({"$length": 0}), json!({}), json!({"a": 1})),
            (json!({"$max_length": 2}), json!([1]), json!([1, 2, 3])),
            (json!({"$has": {"a": 1}}), json!([{"a": 1, "b": 2}]), json!([{"a": 2}])),
            (json!({"$lacks": 1}), json!([2]), json!([1, 2])),
            (json!({"$each": {"$type": "string"}}), json!(["a"]), json!(["a", 1])),
            (json!({"$exactly": {"a": 1}}), json!({"a": 1}), json!({"a": 1, "b": 2})),
            (json!({"$class": "[A-Za-z0-9_-]"}), json!("a_B-9"), json!("a.b")),
            (json!({"$blob": 300}), json!(blob), json!(format!("{}A", &blob[..blob.len() - 1]))),
            (json!({"$distinct": "n"}), json!([{"n": 1}, {"n": "1"}]), json!([{"n": 1}, {"n": 1}])),
            (json!({"$contains": "b"}), json!("abc"), json!("acb".replace('b', ""))),
            (json!({"$bytes": [2, 3]}), json!("ä"), json!("ää")),
            (json!({"$not": {"a": 1}}), json!({"a": 2}), json!({"a": 1, "b": 2})),
            (json!({"$all": [{"$contains": "a"}, {"$length": 2}]}), json!("ab"), json!("abc")),
            (json!({"$one_of": [1, "a"]}), json!("a"), json!(2)),
            (json!({"a": {"$absent": true}}), json!({"b": 1}), json!({"a": null})),
            (json!({"a": [1]}), json!({"a": [1.0], "b": 2}), json!({"a": [1, 2]})),
        ];
        for (pattern, good, bad) in cases {
            assert!(matches(&pattern, Some(&good)), "{pattern} should match {good}");
            if !pattern.get("$any").is_some_and(Value::is_boolean) {
                assert!(!matches(&pattern, Some(&bad)), "{pattern} should not match {bad}");
            }
        }
        let tested: HashSet<String> = sparring_scenarios::pattern::JSON_OPERATORS.map(str::to_owned).into();
        assert_eq!(tested.len(), 17, "an operator was added: test it here");
        assert!(!matches(&json!({"$any": true}), None));
        assert!(matches(&json!({"$absent": true}), None));
    }
}
