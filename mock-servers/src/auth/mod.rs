//! A mock authorization server, and the guard in front of a protected MCP endpoint, without any I/O.
//!
//! [`AuthServer`] takes requests and a time, and gives answers. By default it is a strict and faithful server: metadata
//! by RFC 8414 or OpenID discovery and by RFC 9728, registration by RFC 7591, the authorization code grant by OAuth 2.1
//! with PKCE (RFC 7636), resource indicators (RFC 8707) where the revision has them, `iss` (RFC 9207), refresh with
//! rotation, bearer tokens by RFC 6750. A script adds client credentials, clients that sign (RFC 7523), assertions as
//! grants with an identity provider (RFC 8693) or a workload, DPoP (RFC 9449), revocation (RFC 7009) and a second
//! authorization server; and it makes any answer wrong, one thing at a time (module `draft`).
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
//! - A signed assertion or proof is ES256 or RS256, of its time, for this server, and works once.
//! - A client gets refresh tokens unless it registered grant types without `refresh_token`.
//!
//! The user agrees at once: the authorization endpoint answers with the redirect.
//!
//! Judges are not told what was wrong with a request; they see the requests themselves, and read them by the functions
//! of [`request`], which the server uses too. Access tokens start with `at-`, refresh tokens with `rt-`, codes with
//! `code-`, secrets with `secret-`, so that a leak can be found by its look.

mod assertions;
mod authorization;
mod clients;
pub mod dpop;
mod draft;
mod guard;
pub mod jwt;
pub mod request;
mod site;
mod store;
#[cfg(test)]
mod tests;
mod token;

pub use site::{FOREIGN_SCOPE, OTHER_ISSUER, OTHER_RESOURCE};

use crate::script::{AuthAnswer, AuthScript, SecondServerRole};
use draft::{Changes, Draft};
use serde_json::{Map, Value, json};
use site::{Page, Site};
use sparring_wire::Revision;
use sparring_wire::transcript::HttpRequest;
use std::sync::Arc;
use std::time::Duration;
use token::State;

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
    /// The script makes it one that no server may give.
    pub fault: bool,
    /// How long to wait before it goes out.
    pub delay: Duration,
}

impl Answer {
    fn new(status: u16, content_type: &str, body: String) -> Self {
        Self { body, ..Self::bare(status) }.with("content-type", content_type)
    }

    pub(crate) const fn bare(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new(), fault: false, delay: Duration::ZERO }
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

/// A mock authorization server (or two) with the protected resource that it issues tokens for.
#[derive(Debug)]
pub struct AuthServer {
    /// One for each authorization server, at least one.
    sites: Vec<Site>,
    /// As many.
    states: Vec<State>,
    changes: Changes,
    guard: guard::Guard,
    exchanges: u64,
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
        let changes = Changes::new(&script);
        let first = Site::new(Arc::new(script), revision, resource_url, authorization_origin, seed);
        let mut states = vec![State::new(seed)];
        let second = first.second();
        // Names of the second server are others, so that a judge can tell whose they are.
        states.extend(second.as_ref().map(|_| State::new(seed ^ 0x5ec0_4d5e_4ec0_4d5e)));
        let sites = [first].into_iter().chain(second).collect();
        Self { sites, states, changes, guard: guard::Guard::new(seed), exchanges: 0 }
    }

    /// With a clock: the seconds since 1970 at the time zero. Without one it is 1970, and no signature of a client that
    /// has one is good.
    #[must_use]
    pub fn with_clock(mut self, unix: i64) -> Self {
        self.sites.iter_mut().for_each(|site| site.set_clock(unix));
        self
    }

    /// With the origin of the second listener, which `{{other}}` in a script stands for.
    #[must_use]
    pub fn with_other_origin(mut self, origin: &str) -> Self {
        self.sites.iter_mut().for_each(|site| site.set_other_origin(origin));
        self
    }

    /// Whether the authorization server lives at the origin of the MCP endpoint: in 2025-03-26, and where there is no
    /// protected-resource metadata. The transport then asks [`AuthServer::handle`] about requests to that origin that
    /// are not for the endpoint.
    pub fn serves_on_resource_origin(&self) -> bool {
        self.site().on_resource_origin()
    }

    /// What a client has to be told before it starts: credentials, a private key, an ID token, assertions, as far as the
    /// script wants them. The names are those of the official conformance framework's context. Full of secrets.
    pub fn hand_out(&self, now: Duration) -> Map<String, Value> {
        self.site().hand_out(now)
    }

    fn site(&self) -> &Site {
        &self.sites[0]
    }

    /// Answers a request to the authorization server at the time `now`, which must not go backwards.
    pub fn handle(&mut self, request: &HttpRequest, now: Duration) -> Answer {
        let path = request::path(request);
        let found = self.sites.iter().zip(&mut self.states).find_map(|(site, state)| {
            let page = site.page(path)?;
            Some((site, state, page))
        });
        let Some((site, state, page)) = found else { return Answer::not_found() };
        let method = match page {
            Page::Metadata | Page::Keys | Page::Authorize | Page::ProviderMetadata => "GET",
            Page::Register | Page::Token | Page::Revoke | Page::Exchange => "POST",
        };
        if request.method != method {
            return Answer::wrong_method(method);
        }
        if request.body.len() > MAX_BODY {
            return Answer::text(413, "the body is too long");
        }
        let kind = match page {
            Page::Metadata => AuthAnswer::ServerMetadata,
            Page::Keys => AuthAnswer::Keys,
            Page::Register => AuthAnswer::Registration,
            Page::Authorize => AuthAnswer::Authorization,
            Page::Token => token::kind(request),
            Page::Revoke => AuthAnswer::Revocation,
            Page::ProviderMetadata => return Answer::json(200, &site.provider_metadata()),
            Page::Exchange => AuthAnswer::TokenExchange,
        };
        let before = self.changes.may_refuse(kind).then(|| state.clone());
        let draft: Draft = match page {
            Page::Metadata => Answer::json(200, &site.server_metadata()).into(),
            Page::Keys | Page::ProviderMetadata => Answer::json(200, &json!({ "keys": [] })).into(),
            Page::Register => state.register(site, request).into(),
            Page::Authorize => state.authorize(site, request, now),
            Page::Token => state.token(site, request, now).into(),
            Page::Revoke => state.revocation(site, request, now).into(),
            Page::Exchange => {
                self.exchanges += 1;
                site.exchange(request, now, self.exchanges).into()
            }
        };
        let grants = draft.grants();
        let answer = self.changes.make(kind, draft, site);
        if let Some(before) = before.filter(|_| grants && answer.status >= 400) {
            *state = before;
        }
        answer
    }

    /// Answers a request to the MCP endpoint's listener, if it is for the protected-resource metadata.
    pub fn resource_metadata(&mut self, request: &HttpRequest) -> Option<Answer> {
        let path = request::path(request);
        let site = &self.sites[0];
        let second = self.sites.get(1);
        let (document, own) = if site.resource_metadata_path()? == path {
            let issuers: Vec<&str> = match second.map(|second| (second, site.second_role())) {
                Some((second, SecondServerRole::Alternative)) => vec![&site.issuer, &second.issuer],
                Some((second, SecondServerRole::Successor)) if self.guard.has_moved() => vec![&second.issuer],
                _ => vec![&site.issuer],
            };
            (site.resource_metadata(&issuers), true)
        } else {
            (site.neighbour_metadata(path, &second?.issuer)?, false)
        };
        if request.method != "GET" {
            return Some(Answer::wrong_method("GET"));
        }
        let answer = Answer::json(200, &document);
        Some(if own { self.changes.make(AuthAnswer::ResourceMetadata, answer.into(), site) } else { answer })
    }

    /// Lets a request through to the MCP endpoint if it carries a good token, or needs none, or says how to answer it.
    /// `rpc_method` is the method of the JSON-RPC message in it (`tools/call` if a batch contains one).
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
        let site = &self.sites[0];
        let Err(denial) = self.guard.admit(site, &mut self.states, request, rpc_method, now) else {
            return Ok(());
        };
        Err(match denial.status() {
            401 => self.changes.make(AuthAnswer::Challenge, denial.draft(site), site),
            403 => self.changes.make(AuthAnswer::Forbidden, denial.draft(site), site),
            // What no change is for.
            _ => Changes::none().make(AuthAnswer::Challenge, denial.draft(site), site),
        })
    }
}
