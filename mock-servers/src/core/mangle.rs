//! Answers that are wrong in one way.

use super::{Out, ServerCore, Task};
use crate::script::Mangle;
use serde_json::{Value, json};
use sparring_wire::jsonrpc::{self, Id, codes};

/// Arrays within each other of [`Mangle::DeepNesting`].
const DEPTH: usize = 10_000;

impl ServerCore {
    pub(super) fn mangle(&mut self, task: &mut Task, mangle: Mangle) {
        let Some(request) = &task.request else { return };
        let answer = self.faithful(request, &task.scope);
        let error = answer.get("error").is_some();
        let text = mangled(answer, &request.id, mangle);
        self.answer_out(task, Out { text, fault: true, answer: true, error, status: None });
    }
}

/// Where the payload of a message stands.
fn payload(answer: &Value) -> &'static str {
    if answer.get("error").is_some() { "error" } else { "result" }
}

/// Puts a member with this JSON text into the payload of a message; the text may be no JSON at all.
fn inject(answer: &mut Value, json: &str) -> String {
    let payload = payload(answer);
    answer[payload]["sparring"] = Value::from("\u{1}");
    // Serialized, it is the only place where this escape stands for sure right after the member's name.
    answer.to_string().replacen(r#""sparring":"\u0001""#, &format!(r#""sparring":{json}"#), 1)
}

fn mangled(mut answer: Value, id: &Id, mangle: Mangle) -> String {
    let failure = |error: Value| json!({"jsonrpc": "2.0", "id": id.to_value(), "error": error});
    match mangle {
        Mangle::UnknownId => {
            answer["id"] = match id {
                Id::Number(n) => json!(n.wrapping_add(1_000_003)),
                Id::String(s) => json!(format!("{s}-unknown")),
            };
        }
        Mangle::IdType => {
            answer["id"] = match id {
                Id::Number(n) => json!(n.to_string()),
                Id::String(s) => s.parse::<i64>().unwrap_or_default().into(),
            };
        }
        Mangle::IdNull => answer["id"] = Value::Null,
        Mangle::NoId => without(&mut answer, "id"),
        Mangle::IdFloat => {
            let id = match id {
                Id::Number(n) => n.to_string(),
                Id::String(s) => s.len().to_string(),
            };
            answer["id"] = Value::from("\u{1}");
            return answer.to_string().replacen(r#""id":"\u0001""#, &format!(r#""id":{id}.0"#), 1);
        }
        Mangle::IdBool => answer["id"] = true.into(),
        Mangle::IdArray => answer["id"] = json!([id.to_value()]),
        Mangle::IdHuge => {
            answer["id"] = Value::from("\u{1}");
            let huge = "1".repeat(30);
            return answer.to_string().replacen(r#""id":"\u0001""#, &format!(r#""id":{huge}"#), 1);
        }
        Mangle::NoVersion => without(&mut answer, "jsonrpc"),
        Mangle::WrongVersion => answer["jsonrpc"] = "1.0".into(),
        Mangle::VersionNumber => answer["jsonrpc"] = 2.0.into(),
        Mangle::ResultAndError => {
            if answer.get("result").is_none() {
                answer["result"] = json!({});
            }
            answer["error"] = json!({"code": codes::INTERNAL_ERROR, "message": "both at once"});
        }
        Mangle::NoResult => {
            let payload = payload(&answer);
            without(&mut answer, payload);
        }
        Mangle::WrongCase => {
            let (right, wrong) =
                if payload(&answer) == "error" { ("error", "Error") } else { ("result", "Result") };
            let member = answer[right].take();
            without(&mut answer, right);
            answer[wrong] = member;
        }
        Mangle::WrongResult => answer = jsonrpc::result(id, json!(7)),
        Mangle::NullResult => answer = jsonrpc::result(id, Value::Null),
        Mangle::ArrayResult => answer = jsonrpc::result(id, json!([answer["result"].take()])),
        Mangle::ErrorCodeString => answer = failure(json!({"code": "-32603", "message": "a code in quotes"})),
        Mangle::ErrorNoMessage => answer = failure(json!({"code": codes::INTERNAL_ERROR})),
        Mangle::ErrorString => answer = failure(json!("an error that is a string")),
        Mangle::Method => answer["method"] = "ping".into(),
        Mangle::ExtraMember => answer["sparring"] = json!({"known": false}),
        Mangle::DuplicateKey => {
            let other = match id {
                Id::Number(n) => json!(n.wrapping_add(1_000_003)),
                Id::String(s) => json!(format!("{s}-unknown")),
            };
            return answer.to_string().replacen('{', &format!(r#"{{"id":{other},"#), 1);
        }
        Mangle::DeepNesting => return inject(&mut answer, &("[".repeat(DEPTH) + &"]".repeat(DEPTH))),
        Mangle::LoneSurrogate => return inject(&mut answer, r#""\ud83d""#),
        Mangle::HugeNumber => return inject(&mut answer, &"9".repeat(400)),
        Mangle::NotANumber => return inject(&mut answer, "NaN"),
        Mangle::ControlCharacters => return inject(&mut answer, "\"a\tb\0c\""),
        Mangle::TrailingComma => {
            let mut text = answer.to_string();
            text.truncate(text.len() - 1);
            return text + ",}";
        }
        Mangle::Array => answer = json!([answer]),
        Mangle::Pretty => return format!("{answer:#}"),
        Mangle::Twice => return format!("{answer}{answer}"),
        Mangle::Truncated => {
            let mut text = answer.to_string();
            let mut middle = text.len() / 2;
            while !text.is_char_boundary(middle) {
                middle -= 1;
            }
            text.truncate(middle);
            return text;
        }
    }
    answer.to_string()
}

fn without(answer: &mut Value, member: &str) {
    if let Value::Object(object) = answer {
        object.remove(member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparring_wire::jsonrpc::inspect;

    /// A client that is strict has a reason to refuse each of them, unless it is about the conversation (an id that was
    /// never used) or about what the result of the method is.
    #[test]
    fn each_is_wrong_in_its_own_way() {
        let answers = [
            jsonrpc::result(&Id::Number(7), json!({"content": []})),
            jsonrpc::error(&Id::Number(7), 5, "é", None),
        ];
        for answer in answers {
            let mut seen = std::collections::BTreeSet::new();
            for mangle in Mangle::ALL {
                let text = mangled(answer.clone(), &Id::Number(7), mangle);
                assert_ne!(text, answer.to_string(), "{mangle:?}");
                assert!(seen.insert(text.clone()), "{mangle:?}: {text}");
                let told_by_text = !matches!(
                    mangle,
                    Mangle::UnknownId | Mangle::IdType | Mangle::Pretty | Mangle::Array | Mangle::DeepNesting
                );
                assert!(
                    !told_by_text || !inspect(&text).is_valid() || mangle == Mangle::HugeNumber,
                    "{mangle:?}: {text}"
                );
            }
        }
        let id = Id::String("a".into());
        let answer = jsonrpc::result(&id, json!({}));
        assert_eq!(
            mangled(answer.clone(), &id, Mangle::IdFloat),
            r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#
        );
        assert_eq!(
            mangled(answer.clone(), &id, Mangle::LoneSurrogate),
            r#"{"jsonrpc":"2.0","id":"a","result":{"sparring":"\ud83d"}}"#
        );
        assert_eq!(
            mangled(answer, &id, Mangle::DuplicateKey),
            r#"{"id":"a-unknown","jsonrpc":"2.0","id":"a","result":{}}"#
        );
    }
}
