//! What is asked for, read strictly.

use super::MAX_BODY;
use super::error::ApiError;
use axum::body::{Body, to_bytes};
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sparring_scenarios::code::Code;
use sparring_scenarios::lint::{heads, json_pattern};
use sparring_scenarios::load;
use sparring_scenarios::pattern::Pattern;

/// Parameters of `GET /v1/transcript`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TranscriptQuery {
    /// Only events after this one; 0: from the start.
    pub(super) after: u64,
    /// At most this many.
    pub(super) limit: Option<usize>,
}

/// Parameters of `GET /v1/transcript/stream`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StreamQuery {
    /// Only events after this one; 0: from the start.
    pub(super) after: u64,
}

/// Parameters of `POST /v1/actions`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ActionsQuery {
    /// HTTP: in this session.
    pub(super) session: Option<String>,
    /// HTTP: on this exchange.
    pub(super) exchange: Option<u64>,
    /// Broker: in this process.
    pub(super) incarnation: Option<u32>,
    /// What the transcript calls it.
    pub(super) label: Option<String>,
}

/// The body of `POST /v1/wait`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitBody {
    /// Events like this, as in a check.
    pub(super) pattern: Pattern,
    /// How many of them.
    #[serde(default = "one")]
    pub(super) count: usize,
    /// Only events after this one.
    #[serde(default)]
    pub(super) after: u64,
    /// How long, in milliseconds.
    #[serde(default = "ten_seconds")]
    pub(super) timeout_ms: u64,
}

const fn one() -> usize {
    1
}

const fn ten_seconds() -> u64 {
    10_000
}

/// Nobody waits longer than this, in milliseconds.
const MOST_PATIENCE: u64 = 600_000;

impl WaitBody {
    /// What the types can't say.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        if let Some((message, help)) = json_pattern(&self.pattern) {
            let wrong = ApiError::bad(Code::JsonPattern.word(), message);
            return Err(match help {
                Some(help) => wrong.help(help),
                None => wrong,
            });
        }
        match heads(&self.pattern).as_slice() {
            [head @ ("step" | "driver_event")] => {
                let message = format!("`{head}` never happens here: nobody drives the client");
                Err(ApiError::bad("pattern-head", message))
            }
            [_] if self.pattern.same_id || self.pattern.names_id.is_some() => {
                let message = "`same_id` and `names_id` refer to the event of a check's `after`, which there is not here";
                Err(ApiError::bad("pattern", message))
            }
            [_] if self.count == 0 => Err(ApiError::bad("value", "`count` starts with 1")),
            [_] if self.timeout_ms > MOST_PATIENCE => {
                Err(ApiError::bad("value", format!("`timeout_ms` is at most {MOST_PATIENCE}")))
            }
            [_] => Ok(()),
            [] => Err(ApiError::bad(
                "pattern-head",
                "a pattern needs a head, which says what kind of event is meant",
            )
            .help("such as `request: tools/call` or `process: started`")),
            several => Err(ApiError::bad(
                "pattern-head",
                format!("a pattern has only one head, and this one has {}", several.join(" and ")),
            )),
        }
    }
}

/// The parameters of the query.
pub(super) fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    query.map(|Query(query)| query).map_err(|rejected| ApiError::bad("query", rejected.body_text()))
}

/// The body, as YAML or JSON: `what` it is, and what is `inside`, in words.
pub(super) async fn read<T: DeserializeOwned>(
    body: Body,
    what: &'static str,
    inside: &'static str,
) -> Result<T, ApiError> {
    let bytes = to_bytes(body, MAX_BODY).await.map_err(|_| {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            format!("the body could not be read, or is larger than {MAX_BODY} bytes"),
        )
    })?;
    let text = std::str::from_utf8(&bytes).map_err(|_| ApiError::bad("not-utf8", "the body is not UTF-8"))?;
    Ok(load::parse_as("body", text, what, inside)?)
}
