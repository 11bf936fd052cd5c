//! The token endpoint: the grants, and what is issued on them.

use super::clients::Client;
use super::dpop;
use super::request::{self, Parameters};
use super::site::Site;
use super::store::Store;
use super::{Answer, Refusal};
use crate::script::{AuthAnswer, AuthFault, GrantType};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use sparring_wire::transcript::HttpRequest;
use std::collections::BTreeMap;
use std::time::Duration;

/// `grant_type` of an assertion (RFC 7523 section 2.1).
pub(super) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// What was agreed to, by the user or beforehand.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    /// Names what was issued on it, for revocation.
    pub(super) number: u64,
    pub(super) client: String,
    pub(super) scopes: Vec<String>,
    pub(super) resource: Option<String>,
    /// The thumbprint of the key that proofs are made with, where it is fixed already.
    pub(super) key: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Code {
    pub(super) grant: Grant,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
    /// The challenge is the verifier itself.
    pub(super) plain: bool,
    pub(super) expires: Duration,
    pub(super) spent: bool,
}

#[derive(Debug, Clone)]
pub(super) struct AccessToken {
    grant: u64,
    pub(super) scopes: Vec<String>,
    pub(super) expires: Duration,
    pub(super) uses: u32,
    /// The thumbprint of the key that it is bound to.
    pub(super) key: Option<String>,
}

#[derive(Debug, Clone)]
struct RefreshToken {
    grant: Grant,
    expires: Option<Duration>,
    /// It was rotated out.
    spent: bool,
}

/// The refresh token that goes with an access token.
enum Refresh {
    None,
    New,
    Same(String),
}

/// All that changes while an authorization server works.
#[derive(Debug, Clone)]
pub(super) struct State {
    seed: u64,
    /// How many names of each kind were given, so that one kind does not change the names of another.
    given: BTreeMap<&'static str, u64>,
    pub(super) clients: Store<Client>,
    pub(super) codes: Store<Code>,
    access: Store<AccessToken>,
    refresh: Store<RefreshToken>,
    /// Assertions that were used, which work once.
    pub(super) assertions: Store<()>,
    proofs: dpop::Verifier,
    pub(super) grants: u64,
    pub(super) narrowed: bool,
}

impl State {
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            seed,
            given: BTreeMap::new(),
            clients: Store::new(),
            codes: Store::new(),
            access: Store::new(),
            refresh: Store::new(),
            assertions: Store::new(),
            proofs: dpop::Verifier::new(seed, "authorization server"),
            grants: 0,
            narrowed: false,
        }
    }

    pub(super) fn access_token(&mut self, token: &str) -> Option<&mut AccessToken> {
        self.access.get_mut(token)
    }

    /// A name that can't be guessed, the same for each run with the seed.
    pub(super) fn name(&mut self, prefix: &'static str) -> String {
        let count = self.given.entry(prefix).or_default();
        *count += 1;
        let digest = Sha256::digest(format!("sparring {} {prefix} {count}", self.seed));
        format!("{prefix}-{}", BASE64_URL_SAFE_NO_PAD.encode(&digest[..24]))
    }

    pub(super) fn token(&mut self, site: &Site, request: &HttpRequest, now: Duration) -> Answer {
        let mut answer = match self.check_token_request(site, request, now) {
            Ok(answer) => answer,
            // RFC 6749 section 5.2: 401 with a challenge if the client authenticated by the header.
            Err(refusal) if refusal.error == "invalid_client" => {
                if request::headers(request, "authorization").next().is_some() {
                    refusal.answer(401).with("www-authenticate", "Basic realm=\"token endpoint\"")
                } else {
                    refusal.answer(400)
                }
            }
            Err(refusal) => refusal.answer(400),
        };
        if let Some(dpop) = site.script.dpop.as_ref().filter(|dpop| dpop.nonce.at_server()) {
            let news = answer.status == 400 && answer.body.contains("\"use_dpop_nonce\"");
            if let Some(nonce) = self.proofs.nonce_to_send(dpop, news) {
                answer = answer.with("dpop-nonce", nonce);
            }
        }
        answer
    }

    fn check_token_request(
        &mut self,
        site: &Site,
        request: &HttpRequest,
        now: Duration,
    ) -> Result<Answer, Refusal> {
        if request::media_type(request) != "application/x-www-form-urlencoded" {
            return Err(Refusal::new("invalid_request", "the body is application/x-www-form-urlencoded"));
        }
        let form = Parameters::new(request::form_pairs(&request.body));
        let key = self.check_proof(site, request, now)?;
        let client = self.authenticate(site, request, &form, now)?;
        let offered = |grant| site.grants(grant);
        let key = key.as_deref();
        match form.required("grant_type")? {
            "authorization_code" if offered(GrantType::AuthorizationCode) => {
                self.redeem_code(site, &form, &client, key, now)
            }
            "refresh_token" if site.script.refresh => self.redeem_refresh(site, &form, &client, key, now),
            "client_credentials" if offered(GrantType::ClientCredentials) => {
                self.redeem_credentials(site, &form, &client, key, now)
            }
            JWT_BEARER if offered(GrantType::JwtBearer) => {
                let grant = self.check_assertion(site, &form, &client, now)?;
                Ok(self.issue(site, &client, &grant, grant.scopes.clone(), Refresh::None, key, now))
            }
            _ => Err(Refusal::new("unsupported_grant_type", "this grant type is not offered")),
        }
    }

    /// The thumbprint of the key that the request is signed with, if it is.
    fn check_proof(
        &mut self,
        site: &Site,
        request: &HttpRequest,
        now: Duration,
    ) -> Result<Option<String>, Refusal> {
        let Some(dpop) = &site.script.dpop else { return Ok(None) };
        if !dpop.required && request::headers(request, "dpop").next().is_none() {
            return Ok(None);
        }
        let proof = dpop::read(request, &site.token_endpoint(), site.unix(now), None)
            .map_err(|why| Refusal::new("invalid_dpop_proof", why))?;
        let wants_nonce = dpop.nonce.at_server().then_some(dpop);
        self.proofs.accept(&proof, wants_nonce)?;
        Ok(Some(proof.thumbprint))
    }

    // ---- the grants ----

    fn redeem_code(
        &mut self,
        site: &Site,
        form: &Parameters,
        client: &Client,
        key: Option<&str>,
        now: Duration,
    ) -> Result<Answer, Refusal> {
        let bad = |description: &str| Refusal::new("invalid_grant", description);
        let redirect_uri = form.one("redirect_uri")?;
        let verifier = form.required("code_verifier")?;
        let code = self
            .codes
            .get_mut(form.required("code")?)
            .filter(|code| code.grant.client == client.id)
            .ok_or_else(|| bad("there is no such code for this client"))?;
        if code.spent {
            let number = code.grant.number;
            self.revoke(number);
            return Err(bad("the code was used before"));
        }
        code.spent = true;
        if code.expires <= now {
            return Err(bad("the code has expired"));
        }
        if redirect_uri.is_some_and(|uri| uri != code.redirect_uri) {
            return Err(bad("the redirect URI is not that of the authorization request"));
        }
        let expected = if code.plain { verifier.to_owned() } else { request::s256(verifier) };
        if !request::is_verifier(verifier) || expected != code.challenge {
            return Err(bad("the verifier does not fit the challenge"));
        }
        let grant = code.grant.clone();
        check_resource(site, form, grant.resource.as_deref())?;
        check_key(&grant, key)?;

        let offered = site.script.refresh && client.may_refresh;
        let refresh = if offered { Refresh::New } else { Refresh::None };
        Ok(self.issue(site, client, &grant, grant.scopes.clone(), refresh, key, now))
    }

    fn redeem_refresh(
        &mut self,
        site: &Site,
        form: &Parameters,
        client: &Client,
        key: Option<&str>,
        now: Duration,
    ) -> Result<Answer, Refusal> {
        let bad = |description: &str| Refusal::new("invalid_grant", description);
        if !client.may_refresh {
            return Err(Refusal::new("unauthorized_client", "the client did not register this grant type"));
        }
        let token = form.required("refresh_token")?;
        let entry = self
            .refresh
            .get_mut(token)
            .filter(|entry| entry.grant.client == client.id)
            .ok_or_else(|| bad("there is no such refresh token for this client"))?;
        let grant = entry.grant.clone();
        if entry.spent {
            // OAuth 2.1 section 4.3.1: one of the two that hold it stole it.
            self.revoke(grant.number);
            return Err(bad("the refresh token was used before"));
        }
        if entry.expires.is_some_and(|at| at <= now) {
            return Err(bad("the refresh token has expired"));
        }
        check_resource(site, form, grant.resource.as_deref())?;
        check_key(&grant, key)?;
        let scopes = match form.one("scope")? {
            None => grant.scopes.clone(),
            Some(asked) => {
                let asked: Vec<String> = asked.split_ascii_whitespace().map(str::to_owned).collect();
                if !asked.iter().all(|scope| grant.scopes.contains(scope)) {
                    return Err(Refusal::new("invalid_scope", "a refresh can't add scopes"));
                }
                asked
            }
        };
        let refresh = if site.has(AuthFault::RefreshNotReissued) {
            Refresh::None
        } else if site.script.rotate_refresh {
            entry.spent = true;
            Refresh::New
        } else {
            Refresh::Same(token.to_owned())
        };
        Ok(self.issue(site, client, &grant, scopes, refresh, key, now))
    }

    fn redeem_credentials(
        &mut self,
        site: &Site,
        form: &Parameters,
        client: &Client,
        key: Option<&str>,
        now: Duration,
    ) -> Result<Answer, Refusal> {
        if !client.is_confidential() {
            return Err(Refusal::new("unauthorized_client", "this grant is for clients that authenticate"));
        }
        let resource = check_resource(site, form, None)?;
        let scopes = self.grant_scopes(site, form.one("scope")?)?;
        let grant = self.grant(client, scopes, resource);
        // RFC 6749 section 4.4.3: no refresh token.
        Ok(self.issue(site, client, &grant, grant.scopes.clone(), Refresh::None, key, now))
    }

    pub(super) fn grant(&mut self, client: &Client, scopes: Vec<String>, resource: Option<String>) -> Grant {
        self.grants += 1;
        Grant { number: self.grants, client: client.id.clone(), scopes, resource, key: None }
    }

    /// Issues an access token, and the refresh token that goes with it, and answers with them.
    #[expect(clippy::too_many_arguments, reason = "the one end of all grants")]
    fn issue(
        &mut self,
        site: &Site,
        client: &Client,
        grant: &Grant,
        scopes: Vec<String>,
        refresh: Refresh,
        key: Option<&str>,
        now: Duration,
    ) -> Answer {
        let token = self.name("at");
        let refresh = match refresh {
            Refresh::None => None,
            Refresh::Same(token) => Some(token),
            Refresh::New => {
                let token = self.name("rt");
                let lifetime = site.script.refresh_expires_in.map(Duration::from_secs);
                // RFC 9449 section 5: the refresh token of a client without secret is bound to the key as well.
                let key = key.filter(|_| !client.is_confidential()).map(str::to_owned);
                let grant = Grant { key: key.or_else(|| grant.key.clone()), ..grant.clone() };
                let expires = lifetime.map(|lifetime| now.saturating_add(lifetime));
                self.refresh.insert(token.clone(), RefreshToken { grant, expires, spent: false });
                Some(token)
            }
        };
        let expires_in = site.script.expires_in.unwrap_or(3600);
        let mut document = Map::new();
        document.insert("access_token".to_owned(), json!(token));
        document.insert("token_type".to_owned(), json!(if key.is_some() { "DPoP" } else { "Bearer" }));
        document.insert("expires_in".to_owned(), json!(expires_in));
        if let Some(refresh) = refresh {
            document.insert("refresh_token".to_owned(), json!(refresh));
        }
        if !scopes.is_empty() {
            document.insert("scope".to_owned(), json!(scopes.join(" ")));
        }
        let expires = now.saturating_add(Duration::from_secs(expires_in));
        let key = key.map(str::to_owned);
        self.access.insert(token, AccessToken { grant: grant.number, scopes, expires, uses: 0, key });
        if let Some(entry) = self.clients.get_mut(&client.id) {
            entry.grants += 1;
            if site.script.client_grants.is_some_and(|limit| entry.grants >= limit) {
                self.clients.remove(&client.id);
            }
        }
        Answer::json(200, &Value::Object(document))
            .with("cache-control", "no-store")
            .with("pragma", "no-cache")
    }

    // ---- revocation ----

    fn revoke(&mut self, grant: u64) {
        self.access.retain(|token| token.grant != grant);
        self.refresh.retain(|token| token.grant.number != grant);
    }

    /// Revocation on a client's wish (RFC 7009).
    pub(super) fn revocation(&mut self, site: &Site, request: &HttpRequest, now: Duration) -> Answer {
        let form = Parameters::new(request::form_pairs(&request.body));
        let checked = self
            .authenticate(site, request, &form, now)
            .and_then(|client| Ok((client, form.required("token")?.to_owned())));
        let (client, token) = match checked {
            Ok(checked) => checked,
            Err(refusal) => return refusal.answer(400),
        };
        let family = self.refresh.get(&token).filter(|entry| entry.grant.client == client.id);
        match family.map(|entry| entry.grant.number) {
            Some(number) => self.revoke(number),
            None => self.access.remove(&token),
        }
        // Section 2.2: also where there was no such token.
        Answer { status: 200, ..Answer::text(200, "") }
    }
}

/// Which of the answers of the token endpoint the answer to a request is.
pub(super) fn kind(request: &HttpRequest) -> AuthAnswer {
    let form = Parameters::new(request::form_pairs(&request.body));
    match form.all("grant_type").next() {
        Some("refresh_token") => AuthAnswer::Refresh,
        Some("client_credentials") => AuthAnswer::ClientCredentials,
        Some(JWT_BEARER) => AuthAnswer::Assertion,
        _ => AuthAnswer::Token,
    }
}

fn check_key(grant: &Grant, key: Option<&str>) -> Result<(), Refusal> {
    match &grant.key {
        Some(bound) if key != Some(bound.as_str()) => Err(Refusal::new(
            "invalid_grant",
            "the proof is not made with the key that the grant is bound to",
        )),
        _ => Ok(()),
    }
}

/// The `resource` of a request, where the revision has it: there, one, that of the endpoint, and, in a token request,
/// the one of the authorization.
pub(super) fn check_resource(
    site: &Site,
    parameters: &Parameters,
    authorized: Option<&str>,
) -> Result<Option<String>, Refusal> {
    if !site.needs_resource() {
        return Ok(None);
    }
    let bad = |description: &str| Refusal::new("invalid_target", description);
    let mut values = parameters.all("resource");
    let resource = values.next().ok_or_else(|| bad("`resource` is missing"))?;
    if values.any(|other| other != resource) {
        return Err(bad("there are several resources"));
    }
    if !site.names_resource(resource) {
        return Err(bad("`resource` is not the MCP endpoint"));
    }
    if authorized.is_some_and(|authorized| !request::is_same_resource(authorized, resource)) {
        return Err(bad("`resource` is not that of the authorization"));
    }
    Ok(Some(resource.to_owned()))
}
