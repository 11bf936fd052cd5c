//! URLs: who signs in, and what is asked for.

use super::REMOVED;
use sparring_profiles::Secret;
use url::Url;

/// A text in whose URLs there is no user, no password and no query.
pub(super) fn clean(text: &str, userinfo: bool, query: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let is_end = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>' | '`');
        let (url, tail) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        rest = tail;
        let schemed =
            before.strip_suffix("://").is_some_and(|b| b.ends_with(|c: char| c.is_ascii_alphanumeric()));
        match schemed {
            true => out.push_str(&clean_one(url, userinfo, query)),
            false => out.push_str(url),
        }
    }
    out.push_str(rest);
    out
}

/// What follows `://`.
fn clean_one(url: &str, userinfo: bool, query: bool) -> String {
    let end = url.find(['/', '?', '#', '\\']).unwrap_or(url.len());
    let (authority, rest) = url.split_at(end);
    let mut out = String::with_capacity(url.len());
    // A password that holds a slash is none, but people write such; the `@` tells.
    match authority.rsplit_once('@') {
        Some((_, host)) if userinfo => out.push_str(&format!("{REMOVED}@{host}")),
        _ => out.push_str(authority),
    }
    let (path, asked) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    out.push_str(path);
    match asked.strip_prefix('?') {
        Some(asked) if query => {
            // The punctuation of the sentence around it stays.
            let kept = asked.trim_end_matches(['.', ',', ';', ':', ')', ']', '\'', '!']);
            out.push('?');
            if !kept.is_empty() {
                out.push_str(REMOVED);
            }
            out.push_str(asked.get(kept.len()..).unwrap_or_default());
        }
        _ => out.push_str(asked),
    }
    out
}

/// The values in a configured URL that are secret by themselves: kind, name, value.
pub(super) fn secrets(url: &str) -> Vec<(Secret, String, String)> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let mut found = Vec::new();
    let mut add = |kind, name: &str, value: &str| {
        if !value.is_empty() {
            found.push((kind, name.to_owned(), value.to_owned()));
        }
    };
    for part in [url.username(), url.password().unwrap_or_default()] {
        add(Secret::UrlUserinfo, "url", part);
        let plain = url::form_urlencoded::parse(format!("x={}", part.replace('+', "%2B")).as_bytes())
            .next()
            .map(|(_, value)| value.into_owned());
        add(Secret::UrlUserinfo, "url", plain.as_deref().unwrap_or_default());
    }
    add(Secret::UrlQuery, "url", url.query().unwrap_or_default());
    for (name, value) in url.query_pairs() {
        add(Secret::UrlQuery, &name, &value);
    }
    found
}
