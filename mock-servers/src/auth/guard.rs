//! The guard in front of the MCP endpoint: which requests need a token, which tokens are good, and what is said to others.

use super::draft::Draft;
use super::site::Site;
use super::token::{AccessToken, State};
use super::{Answer, Refusal, dpop, request};
use crate::script::{AuthFault, GuardScript, SecondServerRole, StepUpNames};
use sparring_wire::Revision;
use sparring_wire::transcript::HttpRequest;
use std::time::Duration;

/// What the guard remembers.
#[derive(Debug)]
pub(super) struct Guard {
    proofs: dpop::Verifier,
    /// Requests to the endpoint.
    requests: u32,
    /// Requests let through with a token of the first authorization server.
    admitted: u32,
    moved: bool,
}

/// Why a request is not let through, and what its answer says.
pub(super) struct Denial {
    status: u16,
    refusal: Option<Refusal>,
    scope: Option<String>,
    /// The nonce that proofs need.
    nonce: Option<String>,
}

impl Denial {
    fn new(status: u16, error: &'static str, description: &str, scope: Option<&str>) -> Self {
        let refusal = Some(Refusal::new(error, description));
        Self { status, refusal, scope: scope.map(str::to_owned), nonce: None }
    }

    pub(super) const fn status(&self) -> u16 {
        self.status
    }

    /// The answer, as a challenge.
    pub(super) fn draft(self, site: &Site) -> Draft {
        let mut parameters: Vec<(&str, String)> = Vec::new();
        let text = match &self.refusal {
            Some(refusal) => {
                parameters.push(("error", refusal.error.to_owned()));
                parameters.push(("error_description", refusal.description.clone()));
                refusal.description.as_str()
            }
            None => "authorization is required",
        };
        let mut answer = Answer::text(self.status, text);
        parameters.extend(self.scope.map(|scope| ("scope", scope)));
        parameters.extend(site.named_resource_metadata().map(|url| ("resource_metadata", url)));
        let scheme = match &site.script.dpop {
            // RFC 9449 section 7.1.
            Some(dpop) if dpop.required || self.nonce.is_some() => {
                parameters.push(("algs", "ES256 RS256".to_owned()));
                "DPoP"
            }
            _ => "Bearer",
        };
        if let Some(nonce) = self.nonce {
            answer = answer.with("dpop-nonce", nonce);
        }
        Draft::challenge(answer, scheme, parameters)
    }
}

impl GuardScript {
    fn wants(&self, number: u32, method: Option<&str>) -> bool {
        let is = |list: &[String]| method.is_some_and(|method| list.iter().any(|name| name == method));
        self.from_request.is_none_or(|first| number >= first)
            && (self.methods.is_empty() || is(&self.methods))
            && !is(&self.except)
    }
}

impl Guard {
    pub(super) const fn new(seed: u64) -> Self {
        let proofs = dpop::Verifier::new(seed, "endpoint");
        Self { proofs, requests: 0, admitted: 0, moved: false }
    }

    /// Whether the second authorization server has taken the place of the first.
    pub(super) const fn has_moved(&self) -> bool {
        self.moved
    }

    pub(super) fn admit(
        &mut self,
        site: &Site,
        states: &mut [State],
        request: &HttpRequest,
        rpc_method: Option<&str>,
        now: Duration,
    ) -> Result<(), Denial> {
        self.requests = self.requests.saturating_add(1);
        let asked = site.script.challenge_scope.as_deref();
        if request::query_pairs(request).iter().any(|(name, _)| name == "access_token") {
            return Err(Denial::new(400, "invalid_request", "a token has no place in the query", asked));
        }
        if request::headers(request, "authorization").count() > 1 {
            let why = "there are several Authorization fields";
            return Err(Denial::new(400, "invalid_request", why, asked));
        }
        let by_proof = site.script.dpop.as_ref().and_then(|_| request::dpop_token(request));
        let Some(token) = by_proof.or_else(|| request::bearer_token(request)) else {
            if !site.script.guard.wants(self.requests, rpc_method) {
                return Ok(());
            }
            // RFC 6750 section 3.1: no error code if there was no attempt.
            let scope = asked.map(str::to_owned);
            return Err(Denial { status: 401, refusal: None, scope, nonce: None });
        };
        let dead = |why| Denial::new(401, "invalid_token", why, asked);
        if site.has(AuthFault::RejectsAllTokens) {
            return Err(dead("the token was revoked"));
        }
        let mut good = states.iter_mut().enumerate().filter(|(index, _)| match site.second_role() {
            SecondServerRole::Alternative => true,
            SecondServerRole::Neighbour => *index == 0,
            SecondServerRole::Successor => (*index == 1) == self.moved,
        });
        let found = good.find_map(|(index, state)| Some((index, state.access_token(token)?)));
        drop(good);
        let Some((server, access)) = found else {
            return Err(dead("the token is unknown or was revoked"));
        };
        if access.expires <= now || site.script.uses_per_token.is_some_and(|limit| access.uses >= limit) {
            return Err(dead("the token has expired"));
        }
        match &access.key {
            Some(key) if by_proof.is_some() => {
                let key = key.clone();
                self.check_proof(site, request, token, &key, asked, now)?;
            }
            Some(_) => return Err(dead("the token needs a proof, and the scheme DPoP")),
            None if by_proof.is_some() => return Err(dead("the token is a bearer token")),
            None => {}
        }
        check_scopes(site, access, rpc_method)?;
        access.uses = access.uses.saturating_add(1);
        if server == 0 {
            self.admitted = self.admitted.saturating_add(1);
            let second = site.script.second_server.as_ref();
            self.moved |= second.is_some_and(|second| {
                second.role == SecondServerRole::Successor && self.admitted >= second.after.unwrap_or(1)
            });
        }
        Ok(())
    }

    fn check_proof(
        &mut self,
        site: &Site,
        request: &HttpRequest,
        token: &str,
        key: &str,
        asked: Option<&str>,
        now: Duration,
    ) -> Result<(), Denial> {
        let bad = |why: &str| Denial::new(401, "invalid_dpop_proof", why, asked);
        let proof = dpop::read(request, &site.resource, site.unix(now), Some(token)).map_err(bad)?;
        if proof.thumbprint != key {
            return Err(Denial::new(401, "invalid_token", "the token is bound to another key", asked));
        }
        let wants_nonce = site.script.dpop.as_ref().filter(|dpop| dpop.nonce.at_endpoint());
        self.proofs.accept(&proof, wants_nonce).map_err(|refusal| {
            let nonce = (refusal.error == "use_dpop_nonce").then(|| self.proofs.nonce());
            Denial { status: 401, refusal: Some(refusal), scope: asked.map(str::to_owned), nonce }
        })
    }
}

/// Whether the token's scopes are enough for the method.
fn check_scopes(site: &Site, access: &AccessToken, rpc_method: Option<&str>) -> Result<(), Denial> {
    let script = &site.script;
    let call = (rpc_method == Some("tools/call")).then_some(script.call_scope.as_deref()).flatten();
    let needed = call
        .or_else(|| rpc_method.and_then(|method| script.method_scopes.get(method)).map(String::as_str))
        .or_else(|| rpc_method.and_then(|_| script.method_scopes.get("*")).map(String::as_str))
        .unwrap_or_default();
    let has = |scope: &str| access.scopes.iter().any(|known| known == scope);
    let never = rpc_method == Some("tools/call") && site.has(AuthFault::NeverEnoughScope);
    if !never && needed.split_ascii_whitespace().all(has) {
        return Ok(());
    }
    let names = script.step_up_names.unwrap_or_else(|| {
        // Up to 2025-11-25 the server names the scopes to keep; later the client remembers them.
        if site.revision <= Revision::V2025_11_25 { StepUpNames::All } else { StepUpNames::Needed }
    });
    let mut scopes: Vec<&str> = Vec::new();
    if names == StepUpNames::All {
        scopes.extend(access.scopes.iter().map(String::as_str));
    }
    for scope in needed.split_ascii_whitespace() {
        let wanted = match names {
            StepUpNames::Needed | StepUpNames::All => true,
            StepUpNames::Missing => !has(scope),
            StepUpNames::Nothing => false,
        };
        if wanted && !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    let scopes = scopes.join(" ");
    let scope = (!scopes.is_empty()).then_some(scopes.as_str());
    Err(Denial::new(403, "insufficient_scope", "the call needs more scopes", scope))
}
