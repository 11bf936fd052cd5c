//! From a refusal to the authorization server: where and for what to authorize.

use super::Authorizer;
use super::challenge::Challenge;
use super::discovery::{self, AuthServer, strings, text, union};
use super::store::{Credentials, TokenSet};
use crate::error::Error;
use sparring_wire::Revision;
use url::Url;

/// Where and for what to authorize.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) server: AuthServer,
    pub(super) resource: Option<String>,
    /// The scopes that challenge, metadata or settings name.
    pub(super) scope: Option<String>,
    pub(super) revision: Revision,
    /// Whether the tokens are to be bound to a key.
    pub(super) bound: bool,
}

/// What the request that was refused tells of the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spoken {
    /// The revision spoken, or the one offered as long as that is open.
    pub(super) revision: Revision,
    /// Whether the handshake has settled it.
    pub(super) settled: bool,
}

impl Authorizer {
    /// Finds the authorization server. `known`: the issuers that credentials are held of, the best one first.
    pub(super) async fn plan(
        &self,
        challenge: &Challenge,
        spoken: Spoken,
        known: &[String],
    ) -> Result<Plan, Error> {
        let server = self.url()?;
        let revision = spoken.revision;
        let needs_metadata = self.parts.settings.needs_metadata;
        if revision <= Revision::V2025_03_26 && !needs_metadata {
            return self.plan_at_origin(&server, challenge, None).await;
        }
        let places = discovery::resource_metadata(&server, challenge.resource_metadata.as_deref());
        let Some(metadata) = self.document(&places, revision).await? else {
            // Until the handshake the server may be one of 2025-03-26, which knows nothing of such metadata. It ignores
            // the resource, but a newer one needs it.
            if !spoken.settled && challenge.resource_metadata.is_none() && !needs_metadata {
                return self.plan_at_origin(&server, challenge, Some(discovery::canonical(&server))).await;
            }
            return Err(Error::auth(format!("no protected resource metadata at {}", places.join(" or "))));
        };
        let stated = text(&metadata, "resource");
        if self.parts.settings.strict.resource {
            match &stated {
                Some(resource) if discovery::covers(resource, &server) => {}
                Some(resource) => {
                    return Err(Error::auth(format!(
                        "the metadata is for the resource {resource}, not for {}",
                        self.parts.target.url
                    )));
                }
                None => return Err(Error::auth("the protected resource metadata has no resource")),
            }
        }
        let scopes = strings(&metadata, "scopes_supported").filter(|s| !s.is_empty()).map(|s| s.join(" "));
        let scope = challenge.scope.clone().or(scopes).or_else(|| self.parts.settings.scope.clone());
        let resource = Some(stated.unwrap_or_else(|| discovery::canonical(&server)));
        let wants_proof =
            challenge.bound || metadata.get("dpop_bound_access_tokens_required") == Some(&true.into());
        let mut issuers = strings(&metadata, "authorization_servers").unwrap_or_default();
        // One that this client is known to comes first, whatever the order of the day.
        let rank = |issuer: &String| {
            let place = |known: &String| discovery::same_issuer(known, issuer, revision);
            known.iter().position(place).unwrap_or(known.len())
        };
        issuers.sort_by_key(rank);
        let mut failure = Error::auth("the protected resource metadata names no authorization server");
        for issuer in issuers {
            match self.auth_server(&issuer, revision).await {
                Ok(server) => {
                    let bound = self.parts.settings.proofs && wants_proof && server.binds_tokens;
                    return Ok(Plan { server, resource, scope, revision, bound });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// As in 2025-03-26: the authorization server is at the origin of the MCP server.
    async fn plan_at_origin(
        &self,
        server: &Url,
        challenge: &Challenge,
        resource: Option<String>,
    ) -> Result<Plan, Error> {
        let revision = Revision::V2025_03_26;
        let origin = discovery::origin(server);
        let place = format!("{origin}/.well-known/oauth-authorization-server");
        let server = match self.document(&[place], revision).await? {
            Some(json) => AuthServer::read(&json, &origin)?,
            None => AuthServer::by_default(&origin),
        };
        let scope = challenge.scope.clone().or_else(|| self.parts.settings.scope.clone());
        Ok(Plan { server, resource, scope, revision, bound: false })
    }

    async fn auth_server(&self, issuer: &str, revision: Revision) -> Result<AuthServer, Error> {
        let url =
            Url::parse(issuer).map_err(|error| Error::auth(format!("the issuer {issuer:?}: {error}")))?;
        let places = discovery::server_metadata(&url);
        let Some(json) = self.document(&places, revision).await? else {
            return Err(Error::auth(format!("no authorization server metadata at {}", places.join(" or "))));
        };
        if self.parts.settings.strict.issuer {
            let stated = text(&json, "issuer");
            if stated.is_none() && revision >= Revision::V2026_07_28 {
                return Err(Error::auth(format!("the metadata of {issuer} names no issuer")));
            }
            let stated = stated.unwrap_or_else(|| issuer.to_owned());
            if !discovery::same_issuer(&stated, issuer, revision) {
                return Err(Error::auth(format!(
                    "the metadata of {issuer} is that of another issuer, {stated}"
                )));
            }
        }
        AuthServer::read(&json, issuer)
    }
}

impl Plan {
    /// The scopes to ask for, given what is held of this issuer. A step-up keeps what was asked for before, or the next
    /// operation would have to step up again; from 2026-07-28 on so does each new authorization.
    pub(super) fn scopes(&self, held: Option<&Credentials>, step_up: bool, offline: bool) -> Option<String> {
        let wanted = self.scope.as_deref()?;
        let modern = self.revision >= Revision::V2026_07_28;
        let before = |tokens: &TokenSet| tokens.requested.clone().or_else(|| tokens.scope.clone());
        let before = held.and_then(|held| held.tokens.as_ref()).and_then(before);
        let before = before.filter(|_| step_up || modern).unwrap_or_default();
        // Refresh tokens are no need of the resource: it does not name this scope, the authorization server does.
        let offline =
            if offline && modern && self.server.scopes.iter().any(|s| s == OFFLINE) { OFFLINE } else { "" };
        union([before.as_str(), wanted, offline])
    }
}

/// The scope that asks for a refresh token.
const OFFLINE: &str = "offline_access";
