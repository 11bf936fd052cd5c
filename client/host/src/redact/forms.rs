//! The forms in which a value may turn up.

use super::REMOVED;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use std::collections::BTreeSet;

/// Characters of base64 that tell a value; shorter pieces are found in other texts.
const SHORTEST_PIECE: usize = 6;

/// A value as it is, percent-encoded, in JSON, and in base64, alone or in the middle of something longer. Empty ones
/// are left out.
pub(super) fn of(value: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([value.to_owned()]);
    for keep in [is_unreserved, is_path, is_query] {
        let encoded = percent(value, keep);
        forms.insert(lower_hex(&encoded));
        forms.insert(encoded.replace("%20", "+"));
        forms.insert(encoded);
    }
    let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
    forms.insert(lower_hex(&form));
    forms.insert(form);
    // As a string of JSON, and as Rust shows strings.
    for quoted in [serde_json::Value::from(value).to_string(), format!("{value:?}")] {
        forms.insert(quoted.trim_matches('"').to_owned());
    }
    for engine in [&STANDARD, &URL_SAFE] {
        forms.insert(engine.encode(value));
    }
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        forms.insert(engine.encode(value));
        forms.extend((0..3).filter_map(|shift| piece(engine, value, shift)));
    }
    forms.remove("");
    forms
}

/// What base64 makes of a value with `shift` bytes before it, whatever those and the bytes behind it are.
fn piece(engine: &impl base64::Engine, value: &str, shift: usize) -> Option<String> {
    let mut bytes = vec![0; shift];
    bytes.extend_from_slice(value.as_bytes());
    let text = engine.encode(&bytes);
    let start = (shift * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    text.get(start..end).filter(|piece| piece.len() >= SHORTEST_PIECE).map(str::to_owned)
}

fn percent(value: &str, keep: fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match keep(byte) {
            true => out.push(byte.into()),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn lower_hex(encoded: &str) -> String {
    let mut out = String::with_capacity(encoded.len());
    let mut digits = 0;
    for c in encoded.chars() {
        if digits > 0 {
            digits -= 1;
            out.push(c.to_ascii_lowercase());
        } else {
            digits = if c == '%' { 2 } else { 0 };
            out.push(c);
        }
    }
    out
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

const fn is_path(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@' | b'/'
        )
}

const fn is_query(byte: u8) -> bool {
    is_path(byte) || byte == b'?'
}

/// Whether a character is part of a word, or of a name of a variable or header.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

/// A text without the token after each `Bearer`.
pub(super) fn without_bearer(text: &str) -> String {
    const SCHEME: &str = "bearer ";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let is_token =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | '+' | '/' | '=' | '%');
    while let Some(at) = rest
        .char_indices()
        .map(|(at, _)| at)
        .find(|at| rest.get(*at..*at + SCHEME.len()).is_some_and(|word| word.eq_ignore_ascii_case(SCHEME)))
    {
        let (before, after) = rest.split_at(at + SCHEME.len());
        out.push_str(before);
        let blanks = after.len() - after.trim_start_matches(' ').len();
        let token = after.trim_start_matches(' ');
        let end = token.find(|c| !is_token(c)).unwrap_or(token.len());
        let (token, tail) = token.split_at(end);
        // Words such as "Bearer token" are no secret; tokens are longer, or have digits.
        if token.len() >= 8 || token.contains(|c: char| c.is_ascii_digit()) {
            out.push_str(REMOVED);
            rest = tail;
        } else {
            rest = after.get(blanks..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}
