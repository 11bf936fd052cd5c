//! What the control API says when it does not do what was asked.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::WWW_AUTHENTICATE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sparring_scenarios::diagnostic::Diagnostic;

/// An error answer: `{"error": {"code": …, "message": …, "help"?: …, "line"?: …, "column"?: …}}`.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    body: Body,
}

#[derive(Debug, Serialize)]
struct Body {
    /// A stable word.
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
    /// Where in the body, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let body = Body { code, message: message.into(), help: None, line: None, column: None };
        Self { status, body }
    }

    pub(super) fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.body.help = Some(help.into());
        self
    }

    /// The same with help, if it has none.
    pub(super) fn or_help(mut self, help: &str) -> Self {
        self.body.help.get_or_insert_with(|| help.to_owned());
        self
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "the bearer token is missing or wrong")
            .help("send the `token` of the ready line: `Authorization: Bearer TOKEN`")
    }

    pub(super) fn path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown-path", "there is no such path").help(
            "known are GET /v1/state, GET /v1/transcript, GET /v1/transcript/stream, POST /v1/actions, \
             POST /v1/wait and POST /v1/stop",
        )
    }

    pub(super) fn method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "this path has another method; see the Allow header",
        )
    }
}

impl From<Diagnostic> for ApiError {
    fn from(wrong: Diagnostic) -> Self {
        let mut error = Self::bad(wrong.code.word(), wrong.message);
        error.body.help = wrong.help;
        if wrong.line > 0 {
            error.body.line = Some(wrong.line);
            error.body.column = Some(wrong.column);
        }
        error
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Whole {
            error: Body,
        }
        let mut response = (self.status, Json(Whole { error: self.body })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = axum::http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
