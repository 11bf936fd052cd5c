//! Takes secrets out of events.
//!
//! A secret is replaced by a short digest of itself, so that a transcript on disk can be judged again: equal tokens
//! stay equal. Values of the environment and of the command line, which may be guessable, are replaced without one.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sparring_wire::transcript::{Event, Outcome, What};

/// Members and parameters whose values are secret, wherever they stand.
const SECRET_NAMES: [&str; 14] = [
    "access_token",
    "refresh_token",
    "id_token",
    "registration_access_token",
    "client_secret",
    "client_assertion",
    "assertion",
    "subject_token",
    "code_verifier",
    "password",
    "api_key",
    "apikey",
    "token",
    "code",
];

/// Header fields whose values are secret.
const SECRET_HEADERS: [&str; 5] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"];

/// The parameters of a challenge in `WWW-Authenticate`, which follow a scheme as credentials do.
const CHALLENGE_PARAMETERS: [&str; 7] =
    ["realm", "scope", "error", "error_description", "error_uri", "resource_metadata", "algs"];

/// What stands for a secret of which nothing may remain.
pub(crate) const GONE: &str = "[redacted]";

const DIGEST_PREFIX: &str = "redacted-";

/// The event without secrets: tokens, codes, client secrets, verifiers, and the values of environment variables with
/// telling names.
pub fn redact(event: &Event) -> Event {
    let mut event = event.clone();
    match &mut event.what {
        What::ProcessStarted(process) => {
            for (name, value) in &mut process.env {
                if is_telling(name) {
                    GONE.clone_into(value);
                } else {
                    *value = scrub(value);
                }
            }
            arguments(&mut process.argv);
        }
        What::ClientStarted { argv, .. } => arguments(argv),
        What::Line(line) => line.text = scrub(&line.text),
        What::HttpRequest(request) => {
            request.target = scrub(&request.target);
            request.body = scrub(&request.body);
            headers(&mut request.headers);
        }
        What::HttpResponse(response) => {
            headers(&mut response.headers);
            response.body = response.body.as_deref().map(scrub);
        }
        What::StreamEvent(sent) => {
            sent.data = sent.data.as_deref().map(scrub);
            sent.raw = sent.raw.as_deref().map(scrub);
        }
        What::ClientOutput { text, .. } | What::HarnessError { message: text } => *text = scrub(text),
        What::Escaped { command, .. } => *command = scrub(command),
        What::StepStarted { arguments, .. } => json(arguments),
        What::StepEnded { outcome, .. } => match outcome {
            Outcome::Ok { value } => json(value),
            Outcome::Error { error } => error.message = scrub(&error.message),
            Outcome::Pending { .. } | Outcome::Unsupported { .. } => {}
        },
        What::DriverEvent { data, .. } => json(data),
        What::Recorded(recorded) => recorded.upstream = recorded.upstream.as_deref().map(scrub),
        What::End
        | What::Stderr { .. }
        | What::GrandchildStarted { .. }
        | What::StdinClosed
        | What::StdoutClosed { .. }
        | What::SignalReceived { .. }
        | What::ProcessExiting { .. }
        | What::ProcessEnded { .. }
        | What::StreamEnded { .. }
        | What::ResponseBroken { .. }
        | What::RuleFired { .. }
        | What::ModelChanged { .. }
        | What::ClientEnded { .. }
        | What::Deadline { .. } => {}
    }
    event
}

/// Whether a text stands for a secret that was redacted, so that nothing can be said about its form.
pub(crate) fn is_redacted(text: &str) -> bool {
    text.starts_with(DIGEST_PREFIX) || text == GONE
}

fn headers(headers: &mut [(String, String)]) {
    for (name, value) in headers {
        *value = if is_telling(name) || SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret))
        {
            credentials(value)
        } else {
            scrub(value)
        };
    }
}

/// The value of a secret header field; the scheme stays.
pub(crate) fn credentials(value: &str) -> String {
    match value.split_once(' ') {
        Some((scheme, secret)) if !secret.trim().is_empty() => format!("{scheme} {}", digest(secret.trim())),
        _ => digest(value),
    }
}

fn arguments(argv: &mut [String]) {
    let mut secret_follows = false;
    for argument in argv {
        if secret_follows {
            GONE.clone_into(argument);
            secret_follows = false;
        } else if let Some((name, _)) = argument.split_once('=').filter(|(name, _)| is_telling(name)) {
            *argument = format!("{name}={GONE}");
        } else {
            secret_follows = argument.starts_with("--") && is_telling(argument);
            *argument = scrub(argument);
        }
    }
}

/// Names like `GITHUB_TOKEN` and `--api-key`.
fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "KEY", "SECRET", "PASSW", "CREDENTIAL", "AUTHORIZATION"].iter().any(|word| name.contains(word))
}

fn json(value: &mut Value) {
    match value {
        Value::String(text) => *text = scrub(text),
        Value::Array(items) => items.iter_mut().for_each(json),
        Value::Object(members) => {
            for (name, value) in members {
                let secret = SECRET_HEADERS.iter().chain(&SECRET_NAMES).any(|s| name.eq_ignore_ascii_case(s));
                match value {
                    Value::String(text) if secret => {
                        *text = credentials(text);
                    }
                    value => json(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The same secret always gives the same word, and a digest of a digest is itself.
fn digest(secret: &str) -> String {
    if is_redacted(secret) {
        return secret.to_owned();
    }
    let hash = Sha256::digest(secret.as_bytes());
    let mut word = DIGEST_PREFIX.to_owned();
    for byte in hash.iter().take(4) {
        word.push_str(&format!("{byte:02x}"));
    }
    word
}

/// A text without the secrets that can be recognised by what stands before them: `Bearer …`, `access_token=…`,
/// `"refresh_token": "…"`.
pub(crate) fn scrub(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut clean = String::with_capacity(text.len());
    let mut done = 0;
    let mut at = 0;
    while let Some(found) = next_marker(&lower, at) {
        if let Some((start, end, in_form)) = secret_after(text, &lower, found) {
            clean.push_str(&text[done..start]);
            let secret = &text[start..end];
            clean.push_str(&if in_form && secret.contains(['%', '+']) {
                // In a form the same token may be written with escapes.
                let decoded = url::form_urlencoded::parse(secret.as_bytes()).next();
                digest(&decoded.map_or_else(|| secret.to_owned(), |(value, _)| value.into_owned()))
            } else {
                digest(secret)
            });
            done = end;
            at = end;
        } else {
            at = found.end;
        }
    }
    clean.push_str(&text[done..]);
    clean
}

#[derive(Clone, Copy)]
struct Marker {
    end: usize,
    kind: MarkerKind,
}

#[derive(Clone, Copy, PartialEq)]
enum MarkerKind {
    Scheme,
    Name,
    /// `code` is also a member of every JSON-RPC error, so it counts only in forms and queries.
    FormName,
}

/// The next word that may stand before a secret. `lower` is the text in lower case (of the same length).
fn next_marker(lower: &str, from: usize) -> Option<Marker> {
    let bytes = lower.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        let begins =
            at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || matches!(bytes[at - 1], b'_' | b'-'));
        if begins && bytes[at].is_ascii_alphabetic() {
            let rest = &bytes[at..];
            let length =
                rest.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
            let word = &rest[..length];
            let end = at + length;
            let kind = match word {
                b"bearer" | b"basic" | b"dpop" => Some(MarkerKind::Scheme),
                b"code" => Some(MarkerKind::FormName),
                word if SECRET_NAMES.iter().any(|name| name.as_bytes() == word) => Some(MarkerKind::Name),
                _ => None,
            };
            if let Some(kind) = kind {
                return Some(Marker { end, kind });
            }
            at = end;
        } else {
            at += 1;
        }
    }
    None
}

/// The secret after a marker: its range, and whether it stands in a form.
fn secret_after(text: &str, lower: &str, marker: Marker) -> Option<(usize, usize, bool)> {
    let bytes = lower.as_bytes();
    let skip = |mut at: usize, what: &[u8]| {
        while at < bytes.len() && what.contains(&bytes[at]) {
            at += 1;
        }
        at
    };
    let until = |start: usize, stop: &[u8]| {
        let end = bytes[start..].iter().position(|b| stop.contains(b)).map_or(bytes.len(), |n| start + n);
        (end > start && text.is_char_boundary(end)).then_some((start, end))
    };
    match marker.kind {
        MarkerKind::Scheme => {
            let start = skip(marker.end, b" ");
            let (start, end) = until(start, b" \t\r\n\",'\\()<>")?;
            let word = &text[start..end];
            // A challenge has parameters where a request has credentials.
            let parameter = word.split_once('=').is_some_and(|(name, _)| {
                CHALLENGE_PARAMETERS.iter().any(|known| name.eq_ignore_ascii_case(known))
            });
            // "bearer token" in prose is no secret; credentials are longer than words are.
            (start > marker.end && !parameter && (end - start >= 16 || is_redacted(word)))
                .then_some((start, end, false))
        }
        MarkerKind::Name | MarkerKind::FormName => {
            if bytes.get(marker.end) == Some(&b'=') {
                let (start, end) = until(marker.end + 1, b"& \t\r\n\"'\\#<>")?;
                return Some((start, end, true));
            }
            if marker.kind == MarkerKind::FormName {
                return None;
            }
            // `"name": "value"`, also inside a JSON string, where the quotes are escaped.
            let quote = skip(marker.end, b"\\");
            if bytes.get(quote) != Some(&b'"') {
                return None;
            }
            let colon = skip(quote + 1, b" \t\r\n");
            if bytes.get(colon) != Some(&b':') {
                return None;
            }
            let open = skip(skip(colon + 1, b" \t\r\n"), b"\\");
            if bytes.get(open) != Some(&b'"') {
                return None;
            }
            let (start, end) = until(open + 1, b"\"\\")?;
            Some((start, end, false))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparring_wire::transcript::Process;

    #[test]
    fn secrets_are_found_by_what_stands_before_them() {
        let rows = [
            ("Authorization: Bearer abcdefghijklmnopqrst", "Authorization: Bearer *"),
            ("the bearer token was refused", "the bearer token was refused"),
            ("Bearer resource_metadata=\"http://x/y\"", "Bearer resource_metadata=\"http://x/y\""),
            ("Bearer Error_Description=something-long", "Bearer Error_Description=something-long"),
            ("\"Bearer abcdefghijklmnop=\"", "\"Bearer *\""),
            (
                "grant_type=x&code=abc&code_verifier=def&state=st",
                "grant_type=x&code=*&code_verifier=*&state=st",
            ),
            ("{\"access_token\": \"abc\", \"x\": 1}", "{\"access_token\": \"*\", \"x\": 1}"),
            (
                "{\"text\":\"{\\\"refresh_token\\\":\\\"abc\\\"}\"}",
                "{\"text\":\"{\\\"refresh_token\\\":\\\"*\\\"}\"}",
            ),
            (
                "{\"error\":{\"code\":-32601,\"message\":\"x\"}}",
                "{\"error\":{\"code\":-32601,\"message\":\"x\"}}",
            ),
            ("{\"code\":\"E1\"}", "{\"code\":\"E1\"}"),
            (
                "{\"progressToken\":\"abc\",\"code_challenge\":\"x\"}",
                "{\"progressToken\":\"abc\",\"code_challenge\":\"x\"}",
            ),
            ("http://x/cb?code=abc#f", "http://x/cb?code=*#f"),
            ("é access_token=", "é access_token="),
            ("access_token=é", "access_token=*"),
        ];
        for (text, wanted) in rows {
            let clean = scrub(text);
            // Every digest is a word of its own; which one is told by the other tests.
            let mut masked = clean.clone();
            while let Some(at) = masked.find(DIGEST_PREFIX) {
                masked.replace_range(at..at + DIGEST_PREFIX.len() + 8, "*");
            }
            assert_eq!(masked, wanted, "{text}");
            assert_eq!(scrub(&clean), clean, "a second time changes nothing");
        }
    }

    #[test]
    fn equal_secrets_stay_equal_however_they_are_written() {
        let token = "a/b+c==";
        let word = digest(token);
        assert_eq!(scrub("{\"access_token\":\"a/b+c==\"}"), format!("{{\"access_token\":\"{word}\"}}"));
        assert_eq!(scrub("token=a%2Fb%2Bc%3D%3D"), format!("token={word}"));
        assert_eq!(credentials("Bearer a/b+c=="), format!("Bearer {word}"));
    }

    #[test]
    fn the_environment_and_the_command_line_keep_their_names_only() {
        let mut process = Process {
            argv: ["server", "--api-key", "abc", "--token=abc", "MY_SECRET=abc", "--name", "n"]
                .map(str::to_owned)
                .into(),
            ..Process::default()
        };
        process.env.insert("GITHUB_TOKEN".into(), "abc".into());
        process.env.insert("PATH".into(), "/bin".into());
        let event =
            Event { n: 1, at_us: 0, server: None, incarnation: None, what: What::ProcessStarted(process) };
        let What::ProcessStarted(process) = redact(&event).what else { panic!() };
        assert_eq!(
            process.argv,
            ["server", "--api-key", GONE, "--token=[redacted]", "MY_SECRET=[redacted]", "--name", "n"]
        );
        assert_eq!(process.env["GITHUB_TOKEN"], GONE);
        assert_eq!(process.env["PATH"], "/bin");
    }
}
