//! The seam to HTTP itself.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use std::pin::Pin;
use std::sync::Arc;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A POST of a message to the MCP endpoint.
    McpPost,
    /// A GET of a stream at the MCP endpoint.
    McpGet,
    /// The DELETE that ends a session.
    McpDelete,
    /// Metadata of a protected resource or an authorization server.
    OauthMetadata,
    /// Dynamic client registration.
    OauthRegister,
    /// The token endpoint.
    OauthToken,
}

/// A request, whole. Its `Debug` shows neither header values nor the body nor the query: they may be secrets.
#[derive(Clone)]
pub struct HttpRequest {
    /// The name of the MCP server it is made for.
    pub server: Arc<str>,
    /// What it is for.
    pub purpose: Purpose,
    /// Such as `POST`.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// Header fields in order.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Bytes>,
}

impl std::fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpRequest")
            .field("server", &self.server)
            .field("purpose", &self.purpose)
            .field("method", &self.method)
            .field("url", &self.url.split(['?', '#']).next())
            .field("headers", &names)
            .field("body", &self.body.as_ref().map(Bytes::len))
            .finish()
    }
}

/// A body as it arrives.
pub type HttpBody = Pin<Box<dyn Stream<Item = Result<Bytes, HttpError>> + Send>>;

/// A response whose body is still to come.
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Header fields in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: HttpBody,
}

impl HttpResponse {
    /// The first field of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The media type without parameters, in lower case; empty if there is none.
    pub fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The whole body; an error if it is longer than `limit` bytes.
    pub async fn read(mut self, limit: usize) -> Result<Vec<u8>, HttpError> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.body.next().await {
            let chunk = chunk?;
            if whole.len() + chunk.len() > limit {
                return Err(HttpError::Other(format!("the body is longer than {limit} bytes")));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole)
    }
}

/// No response, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The server could not be reached.
    #[error("could not connect: {0}")]
    Connect(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// Makes HTTP requests. Redirects are returned, never followed.
#[async_trait]
pub trait HttpClient: Send + Sync {
    /// Sends a request and waits for the head of the response.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError>;
}
