//! Placeholders in what a script sends: `{{id}}` stands for the id of the request at hand.
//!
//! | placeholder | what it stands for |
//! | --- | --- |
//! | `{{id}}`, `{{method}}` | the id and method of the request at hand |
//! | `{{params}}`, `{{params/a/b}}` | the event's params (of a response: its result or error), or what is at `/a/b` in them |
//! | `{{token}}` | the progress token of the request at hand |
//! | `{{result}}`, `{{result/a/b}}` | the faithful result of the request at hand, or a part of it |
//! | `{{answer}}` | the whole faithful answer |
//! | `{{initialize}}`, `{{initialize/a/b}}` | the params of the last `initialize` |
//! | `{{header/NAME}}` | a header field of the HTTP request |
//! | `{{session}}` | the session id |
//! | `{{origin}}`, `{{other}}` | the server's origin, and that of a second listener (HTTP) |
//! | `{{state}}`, `{{state/NAME}}` | the state, or the state of that machine |
//! | `{{count/NAME}}` | how often `count: NAME` has been done |
//! | `{{nth}}` | the how-manieth event for this rule it is |
//! | `{{round}}` | the round of the innermost `repeat`, from 1; 0 outside |
//! | `{{own_id}}` | the id of the server's last request of its own |
//! | `{{process}}` | which process of the server it is, from 1 (stdio) |
//! | `{{date}}`, `{{date N}}` | the time as an HTTP date, now or N seconds later (HTTP) |
//! | `{{revision}}`, `{{seed}}` | the case's revision and seed |
//! | `{{fill N}}`, `{{base64 N}}` | text of N letters; N bytes as base64 (at most 64 MiB) |
//! | `{{open}}` | `{{` |
//!
//! In JSON a string that is a placeholder and nothing else becomes what it stands for, with its type (`null` if there is
//! nothing); within a longer string, and in plain text, strings are put in as they are and everything else as JSON
//! (nothing as nothing). `{{json id}}` puts in JSON always, strings with their quotes.

use serde_json::Value;

/// Longest text of `fill` and `base64`, in bytes.
pub const MAX_FILL: usize = 64 << 20;

/// A place in a script that holds templates.
#[derive(Debug)]
pub enum Slot<'a> {
    /// JSON, in whose strings placeholders may stand.
    Json(&'a mut Value),
    /// Plain text.
    Text(&'a mut String),
}

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    /// The id of the request at hand.
    Id,
    /// Its method.
    Method,
    /// A part of the event's params, by JSON pointer.
    Params(&'a str),
    /// The progress token.
    Token,
    /// A part of the faithful result.
    Result(&'a str),
    /// The faithful answer.
    Answer,
    /// A part of the params of `initialize`.
    Initialize(&'a str),
    /// A header field.
    Header(&'a str),
    /// The session id.
    Session,
    /// The server's origin.
    Origin,
    /// The origin of the second listener.
    Other,
    /// A machine's state.
    State(&'a str),
    /// A counter.
    Count(&'a str),
    /// The number of the event for its rule.
    Nth,
    /// The round of the innermost repetition.
    Round,
    /// The id of our last request.
    OwnId,
    /// The number of the process.
    Process,
    /// The revision.
    Revision,
    /// The seed.
    Seed,
    /// An HTTP date, so many seconds from now.
    Date(u32),
    /// Text of so many letters.
    Fill(usize),
    /// So many bytes as base64.
    Base64(usize),
    /// `{{`.
    Open,
}

/// A stretch of a template.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// As it is.
    Text(&'a str),
    /// A placeholder; `json` if it is put in as JSON always.
    Put {
        /// What it stands for.
        name: Name<'a>,
        /// Put it in as JSON.
        json: bool,
    },
}

/// The pieces of a template.
///
/// # Errors
/// What is wrong with a placeholder.
pub fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let inner = &rest[at + 2..];
        let end = inner.find("}}").ok_or("`{{` without `}}`; `{{open}}` stands for two braces")?;
        pieces.push(placeholder(&inner[..end])?);
        rest = &inner[end + 2..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

fn placeholder(text: &str) -> Result<Piece<'_>, String> {
    let unknown = || format!("`{{{{{text}}}}}` is no placeholder; `{{{{open}}}}` stands for two braces");
    let (json, word) = match text.strip_prefix("json ") {
        Some(word) => (true, word),
        None => (false, text),
    };
    let size = |n: &str| match n.parse() {
        Ok(n) if n <= MAX_FILL => Ok(n),
        _ => Err(format!("`{{{{{text}}}}}`: not a number of bytes up to {MAX_FILL}")),
    };
    // The pointer keeps its slash.
    let (head, pointer) = word.split_at(word.find('/').unwrap_or(word.len()));
    let part = pointer.strip_prefix('/').filter(|part| !part.is_empty());
    let name = match (head, part) {
        ("params", _) => Name::Params(pointer),
        ("result", _) => Name::Result(pointer),
        ("initialize", _) => Name::Initialize(pointer),
        ("header", Some(name)) => Name::Header(name),
        ("count", Some(name)) => Name::Count(name),
        ("state", Some(name)) => Name::State(name),
        (_, None) if pointer.is_empty() => match head {
            "id" => Name::Id,
            "method" => Name::Method,
            "token" => Name::Token,
            "answer" => Name::Answer,
            "session" => Name::Session,
            "origin" => Name::Origin,
            "other" => Name::Other,
            "state" => Name::State(""),
            "nth" => Name::Nth,
            "round" => Name::Round,
            "own_id" => Name::OwnId,
            "process" => Name::Process,
            "revision" => Name::Revision,
            "seed" => Name::Seed,
            "date" => Name::Date(0),
            "open" => Name::Open,
            _ => match head.split_once(' ') {
                Some(("date", n)) => Name::Date(n.parse().map_err(|_| unknown())?),
                Some(("fill", n)) => Name::Fill(size(n)?),
                Some(("base64", n)) => Name::Base64(size(n)?),
                _ => return Err(unknown()),
            },
        },
        _ => return Err(unknown()),
    };
    Ok(Piece::Put { name, json })
}

/// Whether a text that is no template of an action has only these placeholders.
///
/// # Errors
/// The first that there is not.
pub(crate) fn only(text: &str, names: &[&str]) -> Result<(), String> {
    for rest in text.split("{{").skip(1) {
        let name = rest.split_once("}}").map(|(name, _)| name);
        if !name.is_some_and(|name| names.contains(&name)) {
            let name = name.unwrap_or(rest);
            return Err(format!("`{{{{{name}}}}}` is no placeholder; there are {}", names.join(", ")));
        }
    }
    Ok(())
}

/// What is wrong with the placeholders in a slot.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(slot: &Slot<'_>) -> Result<(), String> {
    fn json(value: &Value) -> Result<(), String> {
        match value {
            Value::String(text) => pieces(text).map(drop),
            Value::Array(items) => items.iter().try_for_each(json),
            Value::Object(members) => members.iter().try_for_each(|(key, value)| {
                pieces(key).map(drop)?;
                json(value)
            }),
            _ => Ok(()),
        }
    }
    match slot {
        Slot::Json(value) => json(value),
        Slot::Text(text) => pieces(text).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_closed() {
        let put = |name| Piece::Put { name, json: false };
        assert_eq!(pieces("").unwrap(), []);
        assert_eq!(pieces("{a}").unwrap(), [Piece::Text("{a}")]);
        assert_eq!(
            pieces("a{{id}}{{params/a/b}}}").unwrap(),
            [Piece::Text("a"), put(Name::Id), put(Name::Params("/a/b")), Piece::Text("}")]
        );
        assert_eq!(pieces("{{json id}}").unwrap(), [Piece::Put { name: Name::Id, json: true }]);
        assert_eq!(pieces("{{fill 3}}{{open}}").unwrap(), [put(Name::Fill(3)), put(Name::Open)]);
        assert_eq!(pieces("{{header/x-y}}").unwrap(), [put(Name::Header("x-y"))]);
        for wrong in [
            "{{",
            "{{ids}}",
            "{{id/x}}",
            "{{header}}",
            "{{header/}}",
            "{{fill}}",
            "{{fill 99999999999}}",
            "{{ id }}",
        ] {
            assert!(pieces(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn texts_that_are_no_actions_have_names_of_their_own() {
        assert_eq!(only("/m?s={{a}}&{b}", &["a"]), Ok(()));
        for wrong in ["{{b}}", "{{a", "{{a}}{{ a}}"] {
            assert!(only(wrong, &["a"]).is_err(), "{wrong}");
        }
        let script = |endpoint: &str| {
            serde_json::from_value::<crate::script::ServerScript>(
                serde_json::json!({"http": {"legacy_sse": {"endpoint": endpoint}}}),
            )
        };
        assert!(script("{{origin}}/m?s={{session}}").is_ok());
        assert!(script("m?s={{sessions}}").is_err());
    }

    #[test]
    fn the_table_lists_each_placeholder() {
        let table =
            include_str!("template.rs").lines().take_while(|l| l.starts_with("//!")).collect::<String>();
        let parser = include_str!("template.rs").split("fn placeholder").nth(1).unwrap();
        let words = parser.split('"').skip(1).step_by(2).filter(|w| {
            w.len() > 1 && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        });
        for word in words.take(25) {
            assert!(table.contains(&format!("{{{{{word}")), "{word}");
        }
    }
}
