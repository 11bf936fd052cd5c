//! Arguments of tools and prompts, as a person types them.

use crate::failure::{Code, Failure};
use serde_json::{Map, Value};
use std::io::Read as _;

/// More than this is no set of arguments.
const LONGEST: u64 = 64 << 20;

/// The arguments of a tool. `schema` is its input schema, which says what values are.
pub(crate) fn of_tool(words: &[String], schema: &Value) -> Result<Map<String, Value>, Failure> {
    match words {
        [] => Ok(Map::new()),
        [json] if json.trim_start().starts_with('{') => object(json, "the arguments"),
        [dash] if dash == "-" => object(&read(std::io::stdin(), "stdin")?, "stdin"),
        [file] if file.starts_with('@') && !file.contains('=') => {
            let name = file.strip_prefix('@').unwrap_or(file);
            let wrong = |error: std::io::Error| Failure::new(Code::Usage, format!("{name}: {error}"));
            object(&read(std::fs::File::open(name).map_err(wrong)?, name)?, name)
        }
        words => words.iter().map(|word| one(word, schema)).collect(),
    }
}

fn read(from: impl std::io::Read, name: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let outcome = from.take(LONGEST).read_to_string(&mut text);
    outcome.map_err(|error| Failure::new(Code::Usage, format!("{name}: {error}")))?;
    Ok(text)
}

fn object(text: &str, what: &str) -> Result<Map<String, Value>, Failure> {
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Failure::new(Code::Usage, format!("{what}: a JSON object is needed"))),
        Err(error) => Err(Failure::new(Code::Usage, format!("{what}: no JSON: {error}"))),
    }
}

/// `name=value` or `name:=JSON`.
fn one(word: &str, schema: &Value) -> Result<(String, Value), Failure> {
    let wrong = |what: String| Failure::new(Code::Usage, what);
    let (name, value) = word.split_once('=').ok_or_else(|| {
        wrong(format!("{word:?} is no argument"))
            .hint("arguments are NAME=VALUE, NAME:=JSON, or one JSON object")
    })?;
    if let Some(name) = name.strip_suffix(':') {
        let value =
            serde_json::from_str(value).map_err(|error| wrong(format!("{name}: no JSON: {error}")))?;
        return Ok((name.to_owned(), value));
    }
    let value = typed(value, schema.pointer(&format!("/properties/{}/type", escaped(name))));
    let value = value.map_err(|wanted| {
        wrong(format!("{name} should be {wanted}, not {value:?}", value = word_of(word)))
    })?;
    Ok((name.to_owned(), value))
}

fn word_of(word: &str) -> &str {
    word.split_once('=').map_or(word, |(_, value)| value)
}

/// A step of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The value as the schema's `type` wants it. Of several types, the first that it can be; without one, JSON if it is a
/// number, `true`, `false`, `null`, a list or an object, and text otherwise.
fn typed(text: &str, wanted: Option<&Value>) -> Result<Value, String> {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    let fits = |kind: &str| match (kind, &parsed) {
        ("string", _) => Some(Value::from(text)),
        ("integer", Some(value)) if value.as_f64().is_some_and(|n| n.fract() == 0.0) => Some(value.clone()),
        ("number", Some(value @ Value::Number(_)))
        | ("boolean", Some(value @ Value::Bool(_)))
        | ("array", Some(value @ Value::Array(_)))
        | ("object", Some(value @ Value::Object(_)))
        | ("null", Some(value @ Value::Null)) => Some(value.clone()),
        _ => None,
    };
    match wanted {
        Some(Value::String(kind)) => fits(kind).ok_or_else(|| format!("of type {kind}")),
        Some(Value::Array(kinds)) => {
            // Text last: everything is text.
            let mut kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            kinds.sort_by_key(|kind| *kind == "string");
            kinds.iter().find_map(|kind| fits(kind)).ok_or_else(|| format!("one of {}", kinds.join(", ")))
        }
        _ => Ok(parsed.filter(|value| !value.is_string()).unwrap_or_else(|| text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"properties": {"s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
            "b": {"type": "boolean"}, "a": {"type": "array"}, "o": {"type": "object"},
            "m": {"type": ["string", "null", "integer"]}, "x/y": {"type": "string"}, "free": {}}})
    }

    fn read(words: &[&str]) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        of_tool(&words, &schema()).map(Value::Object).map_err(|failure| failure.message)
    }

    #[test]
    fn values_are_what_the_schema_says() {
        let cases: [(&[&str], Value); 12] = [
            (&[], json!({})),
            (&["s=5", "i=5", "n=5"], json!({"s": "5", "i": 5, "n": 5})),
            (&["i=-1", "n=1e3", "b=true"], json!({"i": -1, "n": 1e3, "b": true})),
            (&["a=[1,\"x\"]", "o={\"k\":null}"], json!({"a": [1, "x"], "o": {"k": null}})),
            (&["m=5", "s="], json!({"m": 5, "s": ""})),
            (&["m=null"], json!({"m": null})),
            (&["m=five"], json!({"m": "five"})),
            (&["free=5", "other=true", "text=a b=c"], json!({"free": 5, "other": true, "text": "a b=c"})),
            (&["other=\"quoted\""], json!({"other": "\"quoted\""})),
            (&["s:=5", "new:=[1]"], json!({"s": 5, "new": [1]})),
            (&["x/y=1"], json!({"x/y": "1"})),
            (&["{\"i\": 1, \"deep\": {\"a\": []}}"], json!({"i": 1, "deep": {"a": []}})),
        ];
        for (words, expected) in cases {
            assert_eq!(read(words), Ok(expected), "{words:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        for (words, message) in [
            (&["i=1.5"][..], "i should be of type integer, not \"1.5\""),
            (&["b=yes"], "b should be of type boolean, not \"yes\""),
            (&["nothing"], "\"nothing\" is no argument"),
            (&["a:=[1"], "a: no JSON"),
            (&["{"], "the arguments: no JSON"),
            (&["@/no/such/file"], "/no/such/file: "),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
