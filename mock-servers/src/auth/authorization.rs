//! The authorization endpoint: codes, and the redirect that carries them.

use super::clients::Client;
use super::draft::Draft;
use super::request::{self, Parameters};
use super::site::Site;
use super::token::{Code, Grant, State, check_resource};
use super::{Answer, Refusal};
use crate::script::{AuthFault, GrantType, ServerMetadataPlace};
use sparring_wire::transcript::HttpRequest;
use std::time::Duration;

/// How long a code works.
const CODE_LIFETIME: Duration = Duration::from_secs(600);

impl State {
    pub(super) fn authorize(&mut self, site: &Site, request: &HttpRequest, now: Duration) -> Draft {
        let parameters = Parameters::new(request::query_pairs(request));
        // Without a client and a redirect URI that can be trusted only the user can be told (RFC 6749 section 4.1.2.1).
        let (client, redirect_uri) = match self.check_redirect(site, &parameters) {
            Ok(checked) => checked,
            Err(refusal) => {
                let text = format!("{}: {}", refusal.error, refusal.description);
                return Answer::text(400, &text).into();
            }
        };

        let mut pairs: Vec<(&str, String)> = Vec::new();
        match self.check_authorization(site, &parameters, &client, &redirect_uri, now) {
            Ok(code) => pairs.push(("code", code)),
            Err(refusal) => {
                pairs.push(("error", refusal.error.to_owned()));
                pairs.push(("error_description", refusal.description));
            }
        }
        if let Ok(Some(state)) = parameters.one("state") {
            pairs.push(("state", state.to_owned()));
        }
        // A client without metadata knows no issuer to compare it with, and may refuse it (RFC 9207, section 2.4).
        if site.script.server_metadata != ServerMetadataPlace::None {
            pairs.push(("iss", site.issuer.clone()));
        }
        Draft::redirect(redirect_uri, pairs)
    }

    fn check_redirect(&self, site: &Site, parameters: &Parameters) -> Result<(Client, String), Refusal> {
        let bad = |description: &str| Refusal::new("invalid_request", description);
        let client = self
            .client(site, parameters.required("client_id")?)
            .ok_or_else(|| bad("there is no such client"))?;
        let registered = client.redirect_uris.as_deref();
        let uri = match (parameters.one("redirect_uri")?, registered) {
            (Some(uri), _) => uri,
            (None, Some([only])) => only,
            (None, _) => return Err(bad("`redirect_uri` is missing")),
        };
        if !request::is_allowed_redirect(uri) {
            return Err(bad("a redirect URI is https, or http on loopback, without fragment"));
        }
        let same = |known: &String| {
            known == uri || (!site.script.exact_redirect && request::is_registered_redirect(known, uri))
        };
        if registered.is_some_and(|list| !list.iter().any(same)) {
            return Err(bad("the redirect URI is not registered"));
        }
        let uri = uri.to_owned();
        Ok((client, uri))
    }

    fn check_authorization(
        &mut self,
        site: &Site,
        parameters: &Parameters,
        client: &Client,
        redirect_uri: &str,
        now: Duration,
    ) -> Result<String, Refusal> {
        let bad = |description: &str| Refusal::new("invalid_request", description);
        if !site.grants(GrantType::AuthorizationCode) {
            return Err(Refusal::new("unauthorized_client", "the authorization code grant is not offered"));
        }
        if parameters.required("response_type")? != "code" {
            return Err(Refusal::new("unsupported_response_type", "only `code` is supported"));
        }
        parameters.one("state")?;

        let challenge = parameters.required("code_challenge")?;
        let takes_plain = site.has(AuthFault::PlainPkceOnly) || site.has(AuthFault::PlainPkceFirst);
        // RFC 7636 section 4.3: without a method it is `plain`.
        let plain = match parameters.one("code_challenge_method")? {
            Some("S256") => false,
            Some("plain") | None if takes_plain => true,
            _ => return Err(bad("`code_challenge_method` must be S256")),
        };
        if !(if plain { request::is_verifier(challenge) } else { request::is_challenge(challenge) }) {
            return Err(bad("`code_challenge` does not look like one"));
        }

        let resource = check_resource(site, parameters, None)?;
        let scopes = self.grant_scopes(site, parameters.one("scope")?)?;
        let key = parameters.one("dpop_jkt")?.map(str::to_owned);
        self.grants += 1;
        let code = self.name("code");
        let grant = Grant { number: self.grants, client: client.id.clone(), scopes, resource, key };
        let entry = Code {
            grant,
            redirect_uri: redirect_uri.to_owned(),
            challenge: challenge.to_owned(),
            plain,
            expires: now.saturating_add(CODE_LIFETIME),
            spent: false,
        };
        self.codes.insert(code.clone(), entry);
        Ok(code)
    }

    /// What is granted of the scopes that are asked for.
    pub(super) fn grant_scopes(&mut self, site: &Site, asked: Option<&str>) -> Result<Vec<String>, Refusal> {
        let known = site.scopes();
        let Some(asked) = asked else {
            let by_default = site.script.challenge_scope.as_deref().map_or_else(
                || site.script.scopes_supported.clone(),
                |scope| scope.split_ascii_whitespace().map(str::to_owned).collect(),
            );
            return Ok(by_default);
        };
        let is_scope = |scope: &str| {
            !scope.is_empty() && scope.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
        };
        let mut scopes: Vec<String> = Vec::new();
        for scope in asked.split(' ') {
            if !is_scope(scope) {
                return Err(Refusal::new("invalid_scope", "`scope` is a list separated by single spaces"));
            }
            let granted = known.is_empty() || known.contains(&scope) || scope == "offline_access";
            if granted && !scopes.iter().any(|s| s == scope) {
                scopes.push(scope.to_owned());
            }
        }
        if scopes.is_empty() {
            return Err(Refusal::new("invalid_scope", "none of the scopes is known here"));
        }
        if site.has(AuthFault::NarrowerGrant) && scopes.len() > 1 && !self.narrowed {
            self.narrowed = true;
            scopes.pop();
        }
        Ok(scopes)
    }
}
