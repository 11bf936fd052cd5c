//! What servers ask of the person at the terminal.

use async_trait::async_trait;
use serde_json::{Map, Value};
use sparring_client::Callbacks;
use sparring_client::core::{ElicitAnswer, Elicitation, RpcError};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// The person, if there is one: stdin and stderr are a terminal. Otherwise the answer is no. There is no model here, so
/// sampling is refused.
pub(crate) struct Person;

/// Asks, and waits for a line; `None` at the end of stdin.
pub(crate) async fn ask(question: String) -> Option<String> {
    let asked = tokio::task::spawn_blocking(move || {
        let mut stderr = io::stderr().lock();
        write!(stderr, "{question}").and_then(|()| stderr.flush()).ok()?;
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(count) if count > 0 => Some(line.trim_end_matches(['\n', '\r']).to_owned()),
            _ => None,
        }
    });
    asked.await.ok().flatten()
}

/// Whether somebody can be asked.
pub(crate) fn is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

#[async_trait]
impl Callbacks for Person {
    async fn elicit(&self, server: &str, request: Elicitation) -> Result<ElicitAnswer, RpcError> {
        if !is_there() {
            return Ok(ElicitAnswer::Decline);
        }
        let message = crate::output::one_line(&request.message);
        if let Some(url) = &request.url {
            let url = crate::output::one_line(url);
            let question = format!("{server} asks: {message}\nIt wants you to open {url}\nWill you? [y/N] ");
            return Ok(match ask(question).await.as_deref() {
                Some("y" | "Y" | "yes") => ElicitAnswer::Accept(Map::new()),
                _ => ElicitAnswer::Decline,
            });
        }
        crate::output::note(&format!(
            "{server} asks: {message} (an empty line takes the default, if there is one; \"!\" declines)"
        ));
        let schema = request.schema.clone().unwrap_or_default();
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut content = request.defaults();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            loop {
                match ask(question(name, property, required.contains(&name.as_str()))).await.as_deref() {
                    None => return Ok(ElicitAnswer::Cancel),
                    Some("!") => return Ok(ElicitAnswer::Decline),
                    Some("") if content.contains_key(name) || !required.contains(&name.as_str()) => break,
                    Some("") => {}
                    Some(answer) => match value(answer, property) {
                        Ok(value) => {
                            content.insert(name.clone(), value);
                            break;
                        }
                        Err(wanted) => crate::output::note(&format!("this should be {wanted}")),
                    },
                }
            }
        }
        Ok(ElicitAnswer::Accept(content))
    }
}

fn question(name: &str, property: &Value, required: bool) -> String {
    let word = |member: &str| property.get(member).and_then(Value::as_str).map(crate::output::one_line);
    let mut text = format!("  {}", word("title").unwrap_or_else(|| crate::output::one_line(name)));
    if required {
        text.push('*');
    }
    if let Some(about) = word("description") {
        text.push_str(&format!(" ({about})"));
    }
    if let Some(choices) = property.get("enum").and_then(Value::as_array) {
        let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
        text.push_str(&format!(" [{}]", crate::output::one_line(&choices.join(", "))));
    }
    if let Some(default) = property.get("default") {
        text.push_str(&format!(" [{}]", crate::output::one_line(&default.to_string())));
    }
    text.push_str(": ");
    text
}

/// An answer as the property's type wants it.
fn value(answer: &str, property: &Value) -> Result<Value, String> {
    let kind = property.get("type").and_then(Value::as_str).unwrap_or("string");
    let value = match kind {
        "boolean" => match answer.to_ascii_lowercase().as_str() {
            "y" | "yes" | "true" => Some(true.into()),
            "n" | "no" | "false" => Some(false.into()),
            _ => None,
        },
        "integer" => answer.parse::<i64>().ok().map(Value::from),
        "number" => answer.parse::<f64>().ok().filter(|n| n.is_finite()).map(Value::from),
        "array" => Some(answer.split(',').map(|word| Value::from(word.trim())).collect()),
        _ => Some(answer.into()),
    };
    let choices = property.get("enum").and_then(Value::as_array);
    match (value, choices) {
        (Some(value), Some(choices)) if !choices.contains(&value) => Err("one of the choices".to_owned()),
        (Some(value), _) => Ok(value),
        (None, _) => Err(format!("of type {kind}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_read_by_the_schema() {
        for (answer, property, expected) in [
            ("yes", json!({"type": "boolean"}), Ok(json!(true))),
            ("5", json!({"type": "integer"}), Ok(json!(5))),
            ("5.5", json!({"type": "integer"}), Err("of type integer".to_owned())),
            ("5.5", json!({"type": "number"}), Ok(json!(5.5))),
            ("a, b", json!({"type": "array"}), Ok(json!(["a", "b"]))),
            ("red", json!({"type": "string", "enum": ["red"]}), Ok(json!("red"))),
            ("blue", json!({"type": "string", "enum": ["red"]}), Err("one of the choices".to_owned())),
            ("x", json!({}), Ok(json!("x"))),
        ] {
            assert_eq!(value(answer, &property), expected, "{answer}");
        }
    }

    #[test]
    fn questions_have_what_one_needs() {
        let property = json!({"title": "Colour", "description": "of it\u{1b}", "enum": ["red", "blue"], "default": "red"});
        assert_eq!(question("c", &property, true), "  Colour* (of it\u{fffd}) [red, blue] [\"red\"]: ");
        assert_eq!(question("c", &json!({}), false), "  c: ");
    }
}
