//! Answers before they are written down: the place where a script changes them.

use super::Answer;
use super::site::Site;
use crate::script::{AnswerChange, AuthAnswer, AuthScript, ChallengeStyle};
use serde_json::Value;
use std::time::Duration;
use url::form_urlencoded;

/// An answer whose members can still be changed.
#[derive(Debug)]
pub(super) struct Draft {
    answer: Answer,
    form: Form,
    /// Parameters of the redirect or the challenge, in order.
    parameters: Vec<(String, String)>,
}

#[derive(Debug)]
enum Form {
    /// All is in the body.
    Body,
    /// A redirect to this URI.
    Redirect(String),
    /// A challenge with this scheme.
    Challenge(&'static str),
}

impl From<Answer> for Draft {
    fn from(answer: Answer) -> Self {
        Self { answer, form: Form::Body, parameters: Vec::new() }
    }
}

impl Draft {
    pub(super) fn redirect(uri: String, parameters: Vec<(&str, String)>) -> Self {
        let answer = Answer::bare(302).with("cache-control", "no-store");
        Self { answer, form: Form::Redirect(uri), parameters: owned(parameters) }
    }

    pub(super) fn challenge(answer: Answer, scheme: &'static str, parameters: Vec<(&str, String)>) -> Self {
        Self { answer, form: Form::Challenge(scheme), parameters: owned(parameters) }
    }

    /// Whether the answer grants what was asked for.
    pub(super) fn grants(&self) -> bool {
        match self.form {
            Form::Redirect(_) => self.parameters.iter().any(|(name, _)| name == "code"),
            Form::Body => self.answer.status < 400,
            Form::Challenge(_) => false,
        }
    }

    fn change(&mut self, change: &AnswerChange, site: &Site) {
        let answer = &mut self.answer;
        answer.fault |= !change.allowed;
        answer.delay = answer.delay.max(Duration::from_millis(change.delay_ms.unwrap_or_default()));
        if let Some(status) = change.status {
            answer.status = status;
        }
        if let Some(body) = &change.body {
            answer.body = site.fill_in(body, "");
            // What replaces a redirect or a challenge whole is neither any more.
            if change.status.is_some() {
                self.form = Form::Body;
            }
        }
        match self.form {
            Form::Body => self.change_body(change, site),
            _ => self.change_parameters(change, site),
        }
        let changed = |name: &str| {
            let same = |other: &String| other.eq_ignore_ascii_case(name);
            change.headers.keys().any(same) || change.without_headers.iter().any(same)
        };
        self.answer.headers.retain(|(name, _)| !changed(name));
        if changed("www-authenticate") && matches!(self.form, Form::Challenge(_)) {
            self.form = Form::Body;
        }
        for (name, value) in &change.headers {
            self.answer.headers.push((name.to_ascii_lowercase(), site.fill_in(value, "")));
        }
    }

    fn change_body(&mut self, change: &AnswerChange, site: &Site) {
        let set = change.set.as_ref().and_then(|set| set.0.as_object());
        if set.is_none() && change.without.is_empty() {
            return;
        }
        let Ok(Value::Object(mut members)) = serde_json::from_str(&self.answer.body) else { return };
        for name in &change.without {
            members.shift_remove(name);
        }
        for (name, value) in set.into_iter().flatten() {
            let right = members.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            members.insert(name.clone(), fill_in_all(value, &right, site));
        }
        self.answer.body = Value::Object(members).to_string();
    }

    fn change_parameters(&mut self, change: &AnswerChange, site: &Site) {
        self.parameters.retain(|(name, _)| !change.without.contains(name));
        for (name, value) in change.set.iter().filter_map(|set| set.0.as_object()).flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match self.parameters.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = site.fill_in(&text, known),
                None => self.parameters.push((name.clone(), site.fill_in(&text, ""))),
            }
        }
    }

    fn finish(self, style: ChallengeStyle) -> Answer {
        let mut answer = self.answer;
        match self.form {
            Form::Body => {}
            Form::Redirect(uri) => {
                let query =
                    form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.parameters).finish();
                // The URI stays as the client wrote it, also its own query.
                let separator = if uri.contains('?') { '&' } else { '?' };
                answer.headers.insert(0, ("location".to_owned(), format!("{uri}{separator}{query}")));
            }
            Form::Challenge(scheme) => {
                let fields = match style {
                    ChallengeStyle::Plain => vec![plain_challenge(scheme, &self.parameters)],
                    ChallengeStyle::Mixed => vec![mixed_challenge(scheme, &self.parameters)],
                    ChallengeStyle::TwoFields => vec![
                        "Basic realm=\"old clients, only\"".to_owned(),
                        plain_challenge(scheme, &self.parameters),
                    ],
                    ChallengeStyle::Absent => Vec::new(),
                };
                answer.headers.extend(fields.into_iter().map(|field| ("www-authenticate".to_owned(), field)));
            }
        }
        answer
    }
}

fn owned(parameters: Vec<(&str, String)>) -> Vec<(String, String)> {
    parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn fill_in_all(value: &Value, right: &str, site: &Site) -> Value {
    match value {
        Value::String(text) => Value::String(site.fill_in(text, right)),
        Value::Array(items) => items.iter().map(|item| fill_in_all(item, right, site)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), fill_in_all(value, right, site))).collect()
        }
        other => other.clone(),
    }
}

/// The changes of a script, and how often each was looked at.
#[derive(Debug)]
pub(super) struct Changes(Vec<(AnswerChange, u32)>);

impl Changes {
    pub(super) fn new(script: &AuthScript) -> Self {
        let named = script.fault.0.iter().flat_map(|fault| fault.changes());
        Self(named.chain(script.answers.iter().cloned()).map(|change| (change, 0)).collect())
    }

    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    /// Whether one of these answers may become a refusal, so that it should have no effect.
    pub(super) fn may_refuse(&self, kind: AuthAnswer) -> bool {
        self.0.iter().any(|(change, seen)| {
            change.of == kind && change.status.is_some_and(|status| status >= 400) && is_due(change, seen + 1)
        })
    }

    /// The answer as it goes out.
    pub(super) fn make(&mut self, kind: AuthAnswer, mut draft: Draft, site: &Site) -> Answer {
        let always = matches!(kind, AuthAnswer::Challenge | AuthAnswer::Forbidden);
        let grants = draft.grants();
        for (change, seen) in self.0.iter_mut().filter(|(change, _)| change.of == kind) {
            if grants || always || change.refusals {
                *seen = seen.saturating_add(1);
                if is_due(change, *seen) {
                    draft.change(change, site);
                }
            }
        }
        draft.finish(site.script.challenge)
    }
}

fn is_due(change: &AnswerChange, number: u32) -> bool {
    let first = change.nth.unwrap_or(1);
    number >= first && change.times.is_none_or(|times| number - first < times)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn plain_challenge(scheme: &str, parameters: &[(String, String)]) -> String {
    let parameters: Vec<_> =
        parameters.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    format!("{scheme} {}", parameters.join(", ")).trim_end().to_owned()
}

/// The same challenge as [`plain_challenge`], in a form that only a reader of the grammar gets right.
fn mixed_challenge(scheme: &str, parameters: &[(String, String)]) -> String {
    let decoy = "a, Bearer resource_metadata=\"http://127.0.0.1:9/decoy\", scope=\"decoy\"";
    let mut own = vec!["x-hint=none".to_owned()];
    for (name, value) in parameters.iter().rev() {
        let name = if *name == "scope" { name.to_ascii_uppercase() } else { (*name).clone() };
        own.push(format!("{name} = {}", quoted(value)));
    }
    format!(
        "Negotiate, Digest realm={}, qop=\"auth,auth-int\" ,  {} {}",
        quoted(decoy),
        scheme.to_ascii_lowercase(),
        own.join(" ,")
    )
}
