//! Takes secrets out of events.
//!
//! A secret is replaced by a short digest of itself, so that a transcript on disk can be judged again: equal tokens
//! stay equal. Values of the environment and of the command line, which may be guessable, are replaced without one.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sparring_wire::transcript::{Event, Outcome, What};

/// Members and parameters whose values are secret, wherever they stand; [`is_secret`] knows more by their parts.
const SECRET_NAMES: [&str; 13] = [
    "access_token",
    "refresh_token",
    "id_token",
    "registration_access_token",
    "client_secret",
    "client_assertion",
    "assertion",
    "subject_token",
    "code_verifier",
    "registration_token",
    "private_key",
    "token",
    "code",
];

/// Header fields whose values are secret.
const SECRET_HEADERS: [&str; 5] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"];

/// Parts of names that tell of a secret, without `_` and `-`.
const SECRET_PARTS: [&str; 6] = ["secret", "password", "passwd", "privatekey", "accesskey", "credential"];

/// Ends of names that hold no secret though a part of them speaks of one: `client_secret_expires_at`.
const PUBLIC_ENDS: [&str; 9] =
    ["endpoint", "uri", "url", "supported", "method", "methods", "type", "expiresat", "expiresin"];

/// Whose tokens end in `_token` and are no secrets.
const PUBLIC_TOKENS: [&str; 5] = ["progress", "page", "next", "sync", "continuation"];

/// Schemes of credentials; the scheme stays.
const SCHEMES: [&str; 6] = ["bearer", "basic", "dpop", "digest", "negotiate", "token"];

/// How tokens of well-known kinds begin, and how many letters follow at least.
const SHAPES: [(&str, usize); 17] = [
    ("sk-", 8),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("ghp_", 8),
    ("gho_", 8),
    ("ghu_", 8),
    ("ghs_", 8),
    ("ghr_", 8),
    ("github_pat_", 8),
    ("glpat-", 8),
    ("hf_", 16),
    ("npm_", 16),
    ("pypi-", 16),
    ("AKIA", 12),
    ("ASIA", 12),
    ("AIza", 20),
];

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

/// The value of a secret header field or member; the scheme stays.
pub(crate) fn credentials(value: &str) -> String {
    match value.split_at_checked(scheme(value)) {
        Some((scheme, secret)) if !scheme.is_empty() => format!("{scheme}{}", digest(secret.trim_end())),
        _ => digest(value),
    }
}

/// The length of a scheme and the blanks after it; 0 if something else comes first, or nothing after it.
fn scheme(value: &str) -> usize {
    let Some((word, rest)) = value.split_once(' ') else { return 0 };
    let rest = rest.trim_start_matches(' ');
    let known = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    if known && !rest.is_empty() { value.len() - rest.len() } else { 0 }
}

/// Whether what has this name is a secret: `openai_api_key`, `AWS_SECRET_ACCESS_KEY`, `Set-Cookie`, `clientSecret`.
fn is_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let known = |list: &[&str]| list.contains(&lower.as_str());
    if known(&SECRET_NAMES) || known(&SECRET_HEADERS) {
        return true;
    }
    let plain: String = lower.chars().filter(|c| !matches!(c, '_' | '-')).collect();
    if PUBLIC_ENDS.iter().any(|end| plain.ends_with(end)) {
        return false;
    }
    SECRET_PARTS.iter().any(|part| plain.contains(part))
        || plain.ends_with("apikey")
        || ["accesstoken", "refreshtoken", "idtoken", "authtoken", "authorization"].contains(&plain.as_str())
        || lower
            .strip_suffix("token")
            .and_then(|rest| rest.strip_suffix(['_', '-']))
            .is_some_and(|of| !PUBLIC_TOKENS.iter().any(|public| of.starts_with(public)))
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
                match value {
                    Value::String(text) if is_secret(name) => {
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

/// A text without the secrets that can be recognised, by what stands before them (`Bearer …`, `access_token=…`,
/// `"refresh_token": "…"`, `Cookie: …`, `://user:…@`) or by their form (`ghp_…`).
pub(crate) fn scrub(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut done = 0;
    let mut at = 0;
    while let Some(found) = next_marker(text, at) {
        at = found.end;
        let Some(secret) = secret_after(text, found) else { continue };
        clean.push_str(&text[done..secret.start]);
        let said = &text[secret.start..secret.end];
        // The same secret may be written with escapes, in a form or in a JSON string.
        let plain = match secret.written {
            Written::InForm if said.contains(['%', '+']) => {
                url::form_urlencoded::parse(said.as_bytes()).next().map(|(value, _)| value.into_owned())
            }
            Written::InStrings(depth) if said.contains('\\') => (0..depth)
                .try_fold(said.to_owned(), |said, _| serde_json::from_str(&format!("\"{said}\"")).ok()),
            _ => None,
        };
        clean.push_str(&digest(plain.as_deref().unwrap_or(said)));
        done = secret.end;
        at = secret.end;
    }
    clean.push_str(&text[done..]);
    clean
}

#[derive(Clone, Copy)]
struct Marker {
    start: usize,
    end: usize,
    kind: MarkerKind,
}

#[derive(Clone, Copy, PartialEq)]
enum MarkerKind {
    Scheme,
    Name,
    /// `code` is also a member of every JSON-RPC error, so it counts only in forms and queries.
    FormName,
    /// A name that stands before a colon, too.
    Header,
    /// The marker is a secret itself.
    Shape,
    /// The `:` of `://`.
    Url,
}

/// Where a secret stands.
struct Secret {
    start: usize,
    end: usize,
    written: Written,
}

enum Written {
    Plain,
    InForm,
    /// In so many JSON strings, one in the other.
    InStrings(u32),
}

const fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The next word that may stand before a secret, or be one.
fn next_marker(text: &str, from: usize) -> Option<Marker> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        if bytes[at] == b':' {
            let slashes: Vec<u8> = bytes[at + 1..].iter().copied().filter(|b| *b != b'\\').take(2).collect();
            if slashes == b"//" {
                return Some(Marker { start: at, end: at + 1, kind: MarkerKind::Url });
            }
        }
        let begins = at == 0 || !is_letter(bytes[at - 1]);
        if !(begins && bytes[at].is_ascii_alphabetic()) {
            at += 1;
            continue;
        }
        let end = at + bytes[at..].iter().take_while(|b| is_letter(**b)).count();
        // After a backslash the first letter may be part of an escape.
        let escaped = at > 0 && bytes[at - 1] == b'\\' && matches!(bytes[at], b'n' | b'r' | b't');
        for start in at..=at + usize::from(escaped) {
            if let Some((end, kind)) = marker(text, start, end) {
                return Some(Marker { start, end, kind });
            }
        }
        at = end;
    }
    None
}

fn marker(text: &str, start: usize, end: usize) -> Option<(usize, MarkerKind)> {
    let word = text.get(start..end)?;
    if is_redacted(word) {
        return None;
    }
    if let Some(length) = shape(&text[start..]) {
        return Some((start + length, MarkerKind::Shape));
    }
    let lower = word.to_ascii_lowercase();
    let kind = match lower.as_str() {
        "bearer" | "basic" | "dpop" => MarkerKind::Scheme,
        "code" => MarkerKind::FormName,
        name if SECRET_HEADERS.contains(&name) => MarkerKind::Header,
        name if is_secret(name) || is_secret(word) => MarkerKind::Name,
        _ => return None,
    };
    Some((end, kind))
}

/// The length of a token that is known by its form.
fn shape(text: &str) -> Option<usize> {
    let length = |text: &str| text.bytes().take_while(|b| is_letter(*b)).count();
    let whole = length(text);
    let word = &text[..whole];
    if word.starts_with("eyJ") {
        // A JWT: three parts, of which the first two begin as JSON objects do.
        let second = text[whole..].strip_prefix('.').filter(|rest| rest.starts_with("eyJ"))?;
        let third = second[length(second)..].strip_prefix('.')?;
        return Some(text.len() - third.len() + length(third));
    }
    let telling = |rest: &str, least: usize| rest.len() >= least && rest.bytes().any(|b| b.is_ascii_digit());
    let known = SHAPES.iter().any(|(begin, least)| {
        word.strip_prefix(begin).is_some_and(|rest| match *begin {
            "AKIA" | "ASIA" => {
                rest.len() >= *least && rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
            }
            _ => telling(rest, *least),
        })
    });
    // `xoxb-…`, `xoxp-…` and their like.
    let slack = word
        .strip_prefix("xox")
        .and_then(|rest| rest.get(1..)?.strip_prefix('-'))
        .is_some_and(|rest| telling(rest, 6));
    (known || slack).then_some(whole)
}

/// The secret after a marker.
fn secret_after(text: &str, marker: Marker) -> Option<Secret> {
    let bytes = text.as_bytes();
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
    let plain = |(start, end)| Secret { start, end, written: Written::Plain };
    match marker.kind {
        MarkerKind::Shape => Some(plain((marker.start, marker.end))),
        MarkerKind::Url => {
            let (start, end) = until(skip(marker.end, b"\\/"), b"/?#\"'\\ \t\r\n<>`")?;
            let user_info = &text[start..start + text[start..end].rfind('@')?];
            let colon = user_info.find(':')?;
            (colon + 1 < user_info.len()).then(|| plain((start + colon + 1, start + user_info.len())))
        }
        MarkerKind::Scheme => {
            let start = skip(marker.end, b" ");
            let (start, end) = until(start, b" \t\r\n\",'\\()<>")?;
            let word = &text[start..end];
            // A challenge has parameters where a request has credentials.
            let parameter = word.split_once('=').is_some_and(|(name, _)| {
                CHALLENGE_PARAMETERS.iter().any(|known| name.eq_ignore_ascii_case(known))
            });
            // "bearer token" in prose is no secret; credentials are longer than words are, or look like none.
            let odd = word.bytes().any(|b| b.is_ascii_digit())
                || (word.bytes().skip(1).any(|b| b.is_ascii_uppercase())
                    && word.bytes().any(|b| b.is_ascii_lowercase()));
            let is_one = word.len() >= 16 || (word.len() >= 8 && odd) || is_redacted(word);
            (start > marker.end && !parameter && is_one).then(|| plain((start, end)))
        }
        MarkerKind::Name | MarkerKind::FormName | MarkerKind::Header => {
            if bytes.get(marker.end) == Some(&b'=') {
                let (start, end) = until(marker.end + 1, b"& \t\r\n\"'\\#<>")?;
                return Some(Secret { start, end, written: Written::InForm });
            }
            if marker.kind == MarkerKind::Header && bytes.get(marker.end) == Some(&b':') {
                let (start, end) = until(skip(marker.end + 1, b" \t"), b"\r\n\"'\\<>")?;
                let start = start + scheme(&text[start..end]);
                let parameter = text[start..end].split_once('=').is_some_and(|(name, _)| {
                    CHALLENGE_PARAMETERS.iter().any(|known| name.eq_ignore_ascii_case(known))
                });
                return (!parameter).then(|| plain((start, end)));
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
            let escapes = skip(colon + 1, b" \t\r\n");
            let open = skip(escapes, b"\\");
            if bytes.get(open) != Some(&b'"') {
                return None;
            }
            // One string in the other: 0, 1, 3, 7… backslashes before the quote.
            let depth = (open - escapes + 1).ilog2();
            let (start, end) = (open + 1, string_end(bytes, open + 1, depth));
            let start = start + scheme(&text[start..end]);
            (end > start).then_some(Secret { start, end, written: Written::InStrings(depth + 1) })
        }
    }
}

/// Where a JSON string ends that stands in `depth` others: before the quote that ends it, or one of those around it.
fn string_end(bytes: &[u8], start: usize, depth: u32) -> usize {
    let mut backslashes = 0_usize;
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'\\' => backslashes += 1,
            b'"' => {
                let mut left = backslashes;
                for level in 0..=depth {
                    if left.is_multiple_of(2) {
                        let own = 1_usize.checked_shl(level).unwrap_or(usize::MAX) - 1;
                        return at - own.min(backslashes);
                    }
                    left = (left - 1) / 2;
                }
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
    }
    bytes.len()
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
    fn secrets_are_known_by_the_parts_of_their_names_and_by_their_form() {
        let names = [
            "Authorization",
            "secret",
            "private_key",
            "privateKey",
            "passwd",
            "X-API-Key",
            "openai_api_key",
            "AWS_SECRET_ACCESS_KEY",
            "db-password",
            "cookie",
            "Set-Cookie",
            "GITHUB_TOKEN",
        ];
        let values = ["hunter2", "-----BEGIN KEY-----\nMIIE\\\n\"x\"\n", "correct horse", "ä\\"];
        for (name, value) in names.iter().flat_map(|n| values.iter().map(move |v| (*n, *v))) {
            let plain = serde_json::json!({"arguments": {name: value, "other": "stays"}});
            let wanted = serde_json::json!({"arguments": {name: digest(value), "other": "stays"}});
            let mut text = plain.to_string();
            let mut clean = wanted.to_string();
            for depth in 0..3 {
                assert_eq!(scrub(&text), clean, "{depth}");
                assert_eq!(scrub(&clean), clean);
                text = serde_json::json!({"text": text}).to_string();
                clean = serde_json::json!({"text": clean}).to_string();
            }
            let mut value = plain;
            json(&mut value);
            assert_eq!(value, wanted);
        }
        let rows = [
            (r#"{"Authorization":"Bearer abc"}"#, "abc"),
            ("postgres://me:pass@host/db", "pass"),
            ("see https:\\/\\/me:pass@host\\/db", "pass"),
            ("curl -H 'Authorization: Bearer abc' x", "abc"),
            ("Authorization: Basic dXNlcjpw", "dXNlcjpw"),
            ("as Basic dXNlcjpwYXNz, it", "dXNlcjpwYXNz"),
            ("{\"t\":\"GET /\\ncookie: a=b; c=d\\r\\n\"}", "a=b; c=d"),
            ("the key sk-proj-abc123DEF456 is", "sk-proj-abc123DEF456"),
            ("ghp_0123456789abcdef", "ghp_0123456789abcdef"),
            ("xoxb-1234567890-abc", "xoxb-1234567890-abc"),
            ("(AKIAIOSFODNN7EXAMPLE)", "AKIAIOSFODNN7EXAMPLE"),
            ("jwt eyJhbGciOiJI.eyJzdWIiOi.c2ln-_x.", "eyJhbGciOiJI.eyJzdWIiOi.c2ln-_x"),
        ];
        for (text, secret) in rows {
            assert_eq!(scrub(text), text.replacen(secret, &digest(secret), 1), "{text}");
        }
        for kept in [
            r#"{"client_secret_expires_at":"0","token_endpoint":"http://x/t","token_type":"Bearer"}"#,
            r#"{"token_endpoint_auth_method":"client_secret_basic","grant_types":["client_credentials"]}"#,
            r#"{"credential_endpoint":"http://x/c","progress_token":"a","nextCursor":"b"}"#,
            r#"{"properties":{"password":{"type":"string"}},"required":["password"]}"#,
            "http://127.0.0.1:80/a@b ssh://git@host/x sk-learn-is-a-library bearer resources",
        ] {
            assert_eq!(scrub(kept), kept);
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
