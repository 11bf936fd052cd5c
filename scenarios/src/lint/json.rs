//! JSON to compare with.

use crate::diagnostic::did_you_mean;
use crate::pattern::JSON_OPERATORS;
use crate::placeholder;
use crate::yaml::Step;
use serde_json::Value;
use sparring_mock_servers::script::template::{self, Piece};
use sparring_wire::json_at::Part;

/// What is wrong with JSON to compare with, and where in it.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) inside: Vec<Step>,
    pub(super) part: Part,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl Wrong {
    fn at(self, step: Step) -> Self {
        let mut inside = vec![step];
        inside.extend(self.inside);
        Self { inside, ..self }
    }

    fn here(part: Part, message: String) -> Self {
        Self { inside: Vec::new(), part, message, help: None }
    }
}

/// Operators that don't exist or have the wrong operand.
pub(super) fn pattern(value: &Value) -> Result<(), Wrong> {
    match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(n, item)| pattern(item).map_err(|wrong| wrong.at(Step::Index(n)))),
        Value::Object(members) => {
            let Some((operator, operand)) = members.iter().find(|(key, _)| key.starts_with('$')) else {
                return members.iter().try_for_each(|(key, member)| {
                    pattern(member).map_err(|wrong| wrong.at(Step::Key(key.clone())))
                });
            };
            let at = || Step::Key(operator.clone());
            if members.len() > 1 {
                let message = format!("the operator `{operator}` stands alone in its object");
                return Err(Wrong::here(Part::Key, message).at(at()));
            }
            match wanted(operator, operand) {
                Ok(()) => match operator.as_str() {
                    "$has" | "$lacks" | "$each" | "$not" | "$all" | "$one_of" => {
                        pattern(operand).map_err(|wrong| wrong.at(at()))
                    }
                    _ => Ok(()),
                },
                Err(Some(wanted)) => {
                    Err(Wrong::here(Part::Value, format!("`{operator}` takes {wanted}")).at(at()))
                }
                Err(None) => {
                    let help = did_you_mean(operator, JSON_OPERATORS)
                        .unwrap_or_else(|| format!("known are {}", JSON_OPERATORS.join(", ")));
                    let wrong = Wrong::here(Part::Key, format!("`{operator}` is no operator"));
                    Err(Wrong { help: Some(help), ..wrong }.at(at()))
                }
            }
        }
        Value::String(text)
            if template::pieces(text).is_ok_and(|p| p.iter().any(|p| matches!(p, Piece::Put { .. }))) =>
        {
            let message =
                "placeholders stand only in what a server sends; write `names_id` to compare with an id";
            Err(Wrong::here(Part::Value, message.to_owned()))
        }
        Value::String(text) => placeholder::check(text).map_err(|message| Wrong::here(Part::Value, message)),
        _ => Ok(()),
    }
}

/// Whether the operator takes the operand: if not, what it does take, or nothing if there is no such operator.
fn wanted(operator: &str, operand: &Value) -> Result<(), Option<&'static str>> {
    const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];
    let class = |c: &str| c.len() > 2 && c.starts_with('[') && c.ends_with(']');
    let (fits, wanted) = match operator {
        "$any" | "$absent" => (*operand == Value::Bool(true), "`true`"),
        "$type" => (operand.as_str().is_some_and(|t| TYPES.contains(&t)), "the name of a JSON type"),
        "$length" | "$max_length" | "$blob" => (operand.is_u64() || promised(operand), "a number"),
        "$contains" => (operand.is_string(), "a text"),
        "$bytes" => {
            let two = operand
                .as_array()
                .is_some_and(|o| o.len() == 2 && o.iter().all(|n| n.is_u64() || promised(n)));
            (two || promised(operand), "two numbers, from and to")
        }
        "$all" | "$one_of" => (operand.as_array().is_some_and(|o| !o.is_empty()), "a list"),
        "$class" => {
            (operand.as_str().is_some_and(class) || promised(operand), "a class of characters in brackets")
        }
        "$distinct" => (operand.is_string(), "the name of a member"),
        known if JSON_OPERATORS.contains(&known) => (true, ""),
        _ => return Err(None),
    };
    if fits { Ok(()) } else { Err(Some(wanted)) }
}

/// A placeholder for a value of the client's profile.
fn promised(operand: &Value) -> bool {
    operand.as_str().is_some_and(|text| text.starts_with("{promised ") && text.ends_with('}'))
}
