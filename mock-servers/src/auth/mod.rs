//! A mock authorization server, and the guard in front of a protected MCP endpoint, without any I/O.
//!
//! [`AuthServer`] takes requests and a time, and gives answers. By default it is a strict and faithful server: metadata
//! by RFC 8414 or OpenID discovery and by RFC 9728, registration by RFC 7591, the authorization code grant by OAuth 2.1
//! with PKCE (RFC 7636), resource indicators (RFC 8707) where the revision has them, `iss` (RFC 9207), refresh with
//! rotation, bearer tokens by RFC 6750. A script makes it do something else, one thing at a time.
//!
//! What it is strict about, and where it gives way:
//!
//! - A redirect URI must be https, or http on loopback, and be registered; the port of a loopback URI is free.
//! - A code works once, for the client, redirect URI, challenge and resource it was issued for; an attempt spends it,
//!   whatever comes of the attempt, and a second one revokes what the first got. The token request may leave
//!   `redirect_uri` out (OAuth 2.1), but not change it.
//! - Only S256 is taken (unless a fault says otherwise).
//! - A client authenticates exactly by the method it registered, or one that was offered if it was known beforehand.
//! - From 2025-06-18 on `resource` must be in authorization, token and refresh requests, and name the endpoint. Before,
//!   it is ignored like any unknown parameter.
//! - Scopes that the script does not mention are left out of the grant, unless the script mentions none at all: then
//!   each is granted as asked for.
//! - A client gets refresh tokens unless it registered grant types without `refresh_token`.
//!
//! The user agrees at once: the authorization endpoint answers with the redirect.
//!
//! Judges are not told what was wrong with a request; they see the requests themselves, and read them by the functions
//! of [`request`], which the server uses too. Access tokens start with `at-`, refresh tokens with `rt-`, codes with
//! `code-`, secrets with `secret-`, so that a leak can be found by its look.

mod flow;
pub mod request;
mod site;
#[cfg(test)]
mod tests;

pub use site::{FOREIGN_SCOPE, OTHER_ISSUER, OTHER_RESOURCE};

use crate::script::{AuthFault, AuthScript};
use serde_json::{Value, json};
use site::{Page, Site};
use sparring_wire::Revision;
use sparring_wire::transcript::HttpRequest;
use std::time::Duration;

/// The longest body that is looked into, in bytes. No honest request comes near.
const MAX_BODY: usize = 64 * 1024;

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header fields in order, names in lower case. `content-length` is left to the transport.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Answer {
    fn new(status: u16, content_type: &str, body: String) -> Self {
        Self { status, headers: vec![("content-type".to_owned(), content_type.to_owned())], body }
    }

    fn text(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text.to_owned())
    }

    fn json(status: u16, value: &Value) -> Self {
        Self::new(status, "application/json", value.to_string())
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    fn not_found() -> Self {
        Self::text(404, "not found")
    }

    fn wrong_method(allowed: &str) -> Self {
        Self::text(405, "method not allowed").with("allow", allowed)
    }
}

/// Why a request is refused: an error code of OAuth, and words for a developer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    error: &'static str,
    description: String,
}

impl Refusal {
    fn new(error: &'static str, description: impl Into<String>) -> Self {
        Self { error, description: description.into() }
    }

    fn answer(&self, status: u16) -> Answer {
        Answer::json(status, &json!({ "error": self.error, "error_description": self.description }))
            .with("cache-control", "no-store")
    }
}

/// A mock authorization server with the protected resource it issues tokens for.
#[derive(Debug)]
pub struct AuthServer {
    site: Site,
    state: flow::State,
}

impl AuthServer {
    /// A server that does what `script` says in `revision`.
    ///
    /// `resource_url` is the URL of the MCP endpoint, `authorization_origin` the origin of the authorization server's
    /// listener (`http://127.0.0.1:4711`); the latter is not used if [`AuthServer::serves_on_resource_origin`]. Equal
    /// seeds give equal codes, tokens and client ids.
    pub fn new(
        script: AuthScript,
        revision: Revision,
        resource_url: String,
        authorization_origin: String,
        seed: u64,
    ) -> Self {
        let site = Site::new(script, revision, resource_url, authorization_origin);
        Self { site, state: flow::State::new(seed) }
    }

    /// Whether the authorization server lives at the origin of the MCP endpoint: in 2025-03-26, and where there is no
    /// protected-resource metadata. The transport then asks [`AuthServer::handle`] about requests to that origin that
    /// are not for the endpoint.
    pub fn serves_on_resource_origin(&self) -> bool {
        self.site.on_resource_origin()
    }

    /// Answers a request to the authorization server at the time `now`, which must not go backwards.
    pub fn handle(&mut self, request: &HttpRequest, now: Duration) -> Answer {
        let Some(page) = self.site.page(request::path(request)) else {
            return Answer::not_found();
        };
        let method = match page {
            Page::Metadata | Page::Keys | Page::Authorize => "GET",
            Page::Register | Page::Token => "POST",
        };
        if request.method != method {
            return Answer::wrong_method(method);
        }
        if request.body.len() > MAX_BODY {
            return Answer::text(413, "the body is too long");
        }
        match page {
            Page::Metadata => Answer::json(200, &self.site.server_metadata()),
            Page::Keys => Answer::json(200, &json!({ "keys": [] })),
            Page::Register => self.state.register(&self.site, request),
            Page::Authorize => self.state.authorize(&self.site, request, now),
            Page::Token => self.state.token(&self.site, request, now),
        }
    }

    /// Answers a request to the MCP endpoint's listener, if it is for the protected-resource metadata.
    pub fn resource_metadata(&self, request: &HttpRequest) -> Option<Answer> {
        if self.site.resource_metadata_path()? != request::path(request) {
            return None;
        }
        Some(match request.method.as_str() {
            "GET" => Answer::json(200, &self.site.resource_metadata()),
            _ => Answer::wrong_method("GET"),
        })
    }

    /// Lets a request through to the MCP endpoint if it carries a good token, or says how to answer it. `rpc_method` is
    /// the method of the JSON-RPC message in it (`tools/call` if a batch contains one).
    ///
    /// # Errors
    /// The answer to give: 401 without a token or with a dead one, 403 if the token's scopes don't suffice, 400 if the
    /// token is in the query or there are several.
    pub fn admit(
        &mut self,
        request: &HttpRequest,
        rpc_method: Option<&str>,
        now: Duration,
    ) -> Result<(), Answer> {
        let site = &self.site;
        let refuse = |status, error, description: &str, scope: Option<&str>| {
            Err(site.challenge(status, Some(&Refusal::new(error, description)), scope))
        };
        let asked = site.script.challenge_scope.as_deref();

        if request::query_pairs(request).iter().any(|(name, _)| name == "access_token") {
            return refuse(400, "invalid_request", "a token has no place in the query", asked);
        }
        if request::headers(request, "authorization").count() > 1 {
            return refuse(400, "invalid_request", "there are several Authorization fields", asked);
        }
        // RFC 6750 section 3.1: no error code if there was no attempt.
        let Some(token) = request::bearer_token(request) else {
            return Err(site.challenge(401, None, asked));
        };
        if site.has(AuthFault::RejectsAllTokens) {
            return refuse(401, "invalid_token", "the token was revoked", asked);
        }
        let Some(access) = self.state.access_token(token) else {
            return refuse(401, "invalid_token", "the token is unknown or was revoked", asked);
        };
        if access.expires <= now || site.script.uses_per_token.is_some_and(|limit| access.uses >= limit) {
            return refuse(401, "invalid_token", "the token has expired", asked);
        }
        if rpc_method == Some("tools/call") {
            let needed = site.script.call_scope.as_deref().unwrap_or_default();
            let never = site.has(AuthFault::NeverEnoughScope);
            if never || !needed.split_ascii_whitespace().all(|scope| access.scopes.iter().any(|s| s == scope))
            {
                let mut scopes: Vec<&str> = Vec::new();
                // Up to 2025-11-25 the server names the scopes to keep; later the client remembers them.
                if site.revision <= Revision::V2025_11_25 {
                    scopes.extend(access.scopes.iter().map(String::as_str));
                }
                for scope in needed.split_ascii_whitespace() {
                    if !scopes.contains(&scope) {
                        scopes.push(scope);
                    }
                }
                let scopes = scopes.join(" ");
                let scope = (!scopes.is_empty()).then_some(scopes.as_str());
                return refuse(403, "insufficient_scope", "the call needs more scopes", scope);
            }
        }
        access.uses = access.uses.saturating_add(1);
        Ok(())
    }
}
