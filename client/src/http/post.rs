//! A message as a POST, and what comes back.

use super::session::{Exchange, SessionState, Shared, Speaks};
use super::{HttpResponse, Purpose, legacy, stream};
use crate::core::Event;
use crate::error::Error;
use crate::link::{FromLink, Headers, into_text};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sparring_wire::Id;
use sparring_wire::jsonrpc::codes;
use std::sync::Arc;

/// A message on its way.
pub(super) struct Post {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Arc<SessionState>,
    /// Empty for a response.
    pub(super) method: String,
    /// Whether it has to wait until `notifications/initialized` was accepted.
    pub(super) waits: bool,
    /// Of a request.
    pub(super) id: Option<Id>,
    /// Header fields that belong to the message.
    pub(super) headers: Headers,
    /// Whether it is of the stateless revision: its answer can't be taken up again, and a failing status may carry it.
    pub(super) stateless: bool,
    pub(super) body: Bytes,
}

/// Enough of an error body for a message.
const EXCERPT: usize = 64 << 10;

impl Post {
    pub(super) async fn send(&self) -> Result<HttpResponse, Error> {
        if self.waits {
            self.session.pass_gate().await;
            self.session.pass_stream(self.shared.settings.stream_wait).await;
        }
        let exchange = Exchange {
            purpose: Purpose::McpPost,
            method: &self.method,
            id: self.id.as_ref(),
            url: self.session.endpoint.get().map(String::as_str),
            headers: &self.headers,
            body: Some(&self.body),
        };
        self.shared.exchange(&self.session, exchange).await
    }

    fn lost_session(&self, response: &HttpResponse) -> bool {
        let settings = &self.shared.settings;
        let matters = settings.reopen_session || settings.end_with_session;
        response.status == 404 && self.session.id.get().is_some() && matters
    }

    /// A notification or a response: whatever comes back means nothing but its status.
    pub(super) async fn notice(&self) {
        let error = match self.send().await {
            Ok(response) if is_success(&response) => return read_off(response).await,
            Ok(response) if self.lost_session(&response) => {
                let lost = FromLink::SessionLost { generation: self.session.generation, id: None };
                return self.shared.report(lost).await;
            }
            Ok(response) => status_error(response).await,
            Err(error) => error,
        };
        self.shared.report(FromLink::Notice(Event::NotDelivered { error })).await;
    }

    pub(super) async fn request(self) {
        let Some(id) = self.id.clone() else { return };
        if let Err(error) = self.answered(&id).await {
            self.shared.report(FromLink::Failed { id, error }).await;
        }
    }

    /// Brings the answer to the engine; the error is why there is none.
    async fn answered(&self, id: &Id) -> Result<(), Error> {
        let opening = self.method == "initialize";
        if opening && self.shared.speaks == Speaks::Legacy {
            return legacy::begin(self, id, None).await;
        }
        let response = self.send().await?;
        if self.session.is_legacy() {
            return delivered(response).await;
        }
        if self.lost_session(&response) {
            let (generation, id) = (self.session.generation, Some(id.clone()));
            self.shared.report(FromLink::SessionLost { generation, id }).await;
            return Ok(());
        }
        if !is_success(&response) {
            let status = response.status;
            let (error, text) = read_error(response).await;
            if self.stateless || tells_versions(&text) {
                self.shared.report(FromLink::Refused { id: id.clone(), text, error }).await;
                return Ok(());
            }
            let first = opening && self.session.generation == 1;
            if first && self.shared.speaks == Speaks::Either && matches!(status, 400 | 404 | 405) {
                return legacy::begin(self, id, Some(error)).await;
            }
            return Err(error);
        }
        if opening && let Some(session) = response.header("mcp-session-id") {
            if session.is_empty() || !session.bytes().all(|b| (0x21..=0x7e).contains(&b)) {
                return Err(Error::Invalid(
                    "the session id holds other than visible ASCII characters".into(),
                ));
            }
            drop(self.session.id.set(session.to_owned()));
        }
        match response.media_type().as_str() {
            "application/json" => {
                let body = response.read(self.shared.settings.max_message).await;
                let body = body.map_err(|error| Error::Closed(format!("the response broke off: {error}")))?;
                let text = into_text(body);
                if !matches!(
                    text.trim_start_matches('\u{feff}').trim_start().bytes().next(),
                    Some(b'{' | b'[')
                ) {
                    return Err(Error::Invalid("the body of the response is not JSON".into()));
                }
                self.shared.report(FromLink::Message(text)).await;
                // Of no effect if it was the answer.
                Err(Error::Invalid("the response to the POST holds no answer to its request".into()))
            }
            "text/event-stream" => stream::answer(self, response, id).await,
            _ if response.status == 202 => {
                Err(Error::Invalid("a request was answered with 202 Accepted and no answer".into()))
            }
            other => Err(Error::Invalid(format!("a response of the content type {other:?} holds no answer"))),
        }
    }
}

/// The response to a POST whose answer comes on another way.
pub(super) async fn delivered(response: HttpResponse) -> Result<(), Error> {
    if is_success(&response) {
        read_off(response).await;
        Ok(())
    } else {
        Err(status_error(response).await)
    }
}

fn is_success(response: &HttpResponse) -> bool {
    (200..300).contains(&response.status)
}

/// Reads a body of no interest to its end, so that the connection can be used again.
async fn read_off(response: HttpResponse) {
    drop(response.read(EXCERPT).await);
}

/// What a failing status means.
pub(super) async fn status_error(response: HttpResponse) -> Error {
    read_error(response).await.0
}

/// What a failing status means, and the body.
async fn read_error(response: HttpResponse) -> (Error, String) {
    let status = response.status;
    let location = response.header("location").map(str::to_owned);
    let body = into_text(response.read(EXCERPT).await.unwrap_or_default());
    let json: Option<Value> = serde_json::from_str(&body).ok();
    let error = json.as_ref().and_then(|b| b.get("error"));
    let stated = error.and_then(|e| e.get("message").and_then(Value::as_str).or_else(|| e.as_str()));
    let message = match (stated, location) {
        (Some(stated), _) => match error.and_then(|e| e.get("data")).filter(|d| !d.is_null()) {
            Some(data) => format!("{stated} ({data})"),
            None => stated.to_owned(),
        },
        (None, Some(location)) if (300..400).contains(&status) => {
            format!("the redirect to {location} is not followed")
        }
        (None, _) => match body.trim() {
            "" => "no further explanation".to_owned(),
            text => text.chars().take(200).collect(),
        },
    };
    let error = if status == 401 {
        Error::Auth { message, status: Some(status) }
    } else {
        Error::Http { status, message }
    };
    (error, body)
}

/// As much of a message as tells whether it answers a request.
#[derive(Deserialize)]
struct Probe<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<serde::de::IgnoredAny>,
}

impl Probe<'_> {
    fn answers(&self, id: &Id) -> bool {
        let same = |found: &str| match id {
            Id::Number(n) => found.parse() == Ok(*n),
            Id::String(s) => serde_json::from_str::<&str>(found).is_ok_and(|found| found == s),
        };
        self.method.is_none() && self.id.is_some_and(|found| same(found.get()))
    }
}

/// Whether the text is, or holds, an answer to the request.
pub(super) fn answers(text: &str, id: &Id) -> bool {
    match text.trim_start().starts_with('[') {
        false => serde_json::from_str::<Probe<'_>>(text).is_ok_and(|probe| probe.answers(id)),
        true => serde_json::from_str::<Vec<Probe<'_>>>(text)
            .is_ok_and(|batch| batch.iter().any(|probe| probe.answers(id))),
    }
}

/// Whether a body says that the revision is not spoken, and perhaps which ones are.
fn tells_versions(text: &str) -> bool {
    let body: Option<Value> = serde_json::from_str(text).ok();
    let code = body.as_ref().and_then(|body| body.get("error")?.get("code")?.as_i64());
    code == Some(codes::UNSUPPORTED_PROTOCOL_VERSION)
}
