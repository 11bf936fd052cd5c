//! Assertions as grants (RFC 7523): of a workload, and of the identity provider of enterprise-managed authorization, which
//! is here as well. And what the client is given beforehand.

use super::clients::Client;
use super::jwt::{Jwt, KeyPair};
use super::request::{self, Parameters};
use super::site::Site;
use super::token::{Grant, State, check_resource};
use super::{Answer, Refusal};
use crate::script::ClientAuthentication;
use serde_json::{Map, Value, json};
use sparring_wire::transcript::HttpRequest;
use std::time::Duration;

/// `typ` of an identity assertion.
const ID_JAG: &str = "oauth-id-jag+jwt";
/// `requested_token_type` of an identity assertion.
const ID_JAG_TYPE: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// `subject_token_type` of an ID token.
const ID_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:id_token";
/// `grant_type` of token exchange (RFC 8693).
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// How long identity assertions are good, in seconds.
const ID_JAG_LIFETIME: i64 = 300;
/// How long what is handed out beforehand is good, in seconds.
const HAND_OUT_LIFETIME: i64 = 3600;

/// The keys of those that sign.
#[derive(Debug)]
pub(super) struct Keys {
    /// Of the client that is known beforehand.
    pub(super) client: KeyPair,
    pub(super) provider: KeyPair,
    pub(super) workload: KeyPair,
}

impl Keys {
    pub(super) fn new(seed: u64) -> Option<Self> {
        let key = |purpose| KeyPair::from_seed(seed, purpose);
        Some(Self { client: key("client")?, provider: key("provider")?, workload: key("workload")? })
    }
}

impl State {
    /// What an assertion is good for.
    pub(super) fn check_assertion(
        &mut self,
        site: &Site,
        form: &Parameters,
        client: &Client,
        now: Duration,
    ) -> Result<Grant, Refusal> {
        let bad = |description: &str| Refusal::new("invalid_grant", description);
        let jwt = Jwt::read(form.required("assertion")?).ok_or_else(|| bad("the assertion is no JWT"))?;
        let Some(keys) = site.keys() else { return Err(bad("nobody's assertions are trusted")) };
        let from_provider = site.script.identity_provider.is_some() && jwt.head("typ") == Some(ID_JAG);
        let signer = if from_provider {
            if jwt.text("iss") != Some(site.provider_issuer().as_str()) {
                return Err(bad("the assertion is of an issuer that is not trusted"));
            }
            &keys.provider
        } else if site.script.workload.is_some() {
            if jwt.text("iss") != Some(site.workload_issuer()) {
                return Err(bad("the assertion is of an issuer that is not trusted"));
            }
            if jwt.text("sub") != Some(site.workload_subject()) {
                return Err(bad("`sub` of the assertion is not the workload"));
            }
            &keys.workload
        } else {
            return Err(bad("`typ` of the assertion is not `oauth-id-jag+jwt`"));
        };
        if !jwt.is_signed_by(&signer.jwk()) {
            return Err(bad("the signature of the assertion is wrong"));
        }
        if !jwt.is_for(|audience| site.is_issuer(audience)) {
            return Err(bad("`aud` of the assertion is not this server"));
        }
        site.check_times(&jwt, now).map_err(bad)?;
        let mut resource = None;
        if from_provider {
            if jwt.text("client_id") != Some(client.id.as_str()) {
                return Err(bad("`client_id` of the assertion is not the client"));
            }
            resource = jwt.text("resource").filter(|resource| site.names_resource(resource));
            if resource.is_none() {
                return Err(bad("`resource` of the assertion is not the MCP endpoint"));
            }
            if !jwt.text("jti").is_some_and(|jti| self.assertions.first_time(&format!("jag {jti}"))) {
                return Err(bad("the assertion was used before, or has no `jti`"));
            }
        }
        // The request need not name the resource, but not another one.
        let resource = match form.all("resource").next() {
            Some(_) => check_resource(site, form, resource)?,
            None => resource.map(str::to_owned),
        };
        let scopes = self.grant_scopes(site, form.one("scope")?.or_else(|| jwt.text("scope")))?;
        Ok(self.grant(client, scopes, resource))
    }
}

impl Site {
    /// Whether a JWT is good at this time.
    pub(super) fn check_times(&self, jwt: &Jwt, now: Duration) -> Result<(), &'static str> {
        /// Clocks differ, by no more than this many seconds.
        const SKEW: i64 = 60;
        let unix = self.unix(now);
        if jwt.time("exp").is_none_or(|at| at <= unix) {
            return Err("the assertion has expired, or does not say when");
        }
        if ["nbf", "iat"].iter().filter_map(|name| jwt.time(name)).any(|at| at > unix.saturating_add(SKEW)) {
            return Err("the assertion is not good yet");
        }
        Ok(())
    }

    // ---- the identity provider ----

    pub(super) fn provider_metadata(&self) -> Value {
        let issuer = self.provider_issuer();
        json!({
            "issuer": issuer,
            "token_endpoint": format!("{issuer}/token"),
            "grant_types_supported": [TOKEN_EXCHANGE],
            "token_endpoint_auth_methods_supported": [ClientAuthentication::None],
        })
    }

    /// Exchanges an ID token for an identity assertion. `count` is different each time.
    pub(super) fn exchange(&self, request: &HttpRequest, now: Duration, count: u64) -> Answer {
        match self.check_exchange(request, now, count) {
            Ok(document) => Answer::json(200, &document).with("cache-control", "no-store"),
            Err(refusal) => refusal.answer(400),
        }
    }

    fn check_exchange(&self, request: &HttpRequest, now: Duration, count: u64) -> Result<Value, Refusal> {
        let bad = |description: &str| Refusal::new("invalid_request", description);
        if request::media_type(request) != "application/x-www-form-urlencoded" {
            return Err(bad("the body is application/x-www-form-urlencoded"));
        }
        let form = Parameters::new(request::form_pairs(&request.body));
        if form.required("grant_type")? != TOKEN_EXCHANGE {
            return Err(Refusal::new("unsupported_grant_type", "only token exchange is offered"));
        }
        if form.required("client_id")? != self.provider_client() {
            return Err(Refusal::new("invalid_client", "the client is unknown"));
        }
        if form.required("requested_token_type")? != ID_JAG_TYPE {
            return Err(bad("only identity assertions are issued"));
        }
        if form.required("subject_token_type")? != ID_TOKEN_TYPE {
            return Err(bad("only ID tokens are exchanged"));
        }
        if !self.is_issuer(form.required("audience")?) {
            return Err(Refusal::new("invalid_target", "`audience` is not the authorization server"));
        }
        let resource = form.required("resource")?;
        if !self.names_resource(resource) {
            return Err(Refusal::new("invalid_target", "`resource` is not the MCP endpoint"));
        }
        let refused = |description: &str| Refusal::new("invalid_grant", description);
        let token =
            Jwt::read(form.required("subject_token")?).ok_or_else(|| refused("the ID token is no JWT"))?;
        let Some(keys) = self.keys() else { return Err(refused("there are no keys")) };
        if !token.is_signed_by(&keys.provider.jwk()) || token.text("iss") != Some(&self.provider_issuer()) {
            return Err(refused("the ID token is not of this provider"));
        }
        if !token.is_for(|audience| audience == self.provider_client()) {
            return Err(refused("the ID token is for another client"));
        }
        self.check_times(&token, now).map_err(refused)?;

        let unix = self.unix(now);
        let client = self.script.preregistered.as_ref().map(|client| client.client_id.as_str());
        let mut claims = json!({
            "iss": self.provider_issuer(),
            "sub": self.provider_user(),
            "aud": self.issuer,
            "resource": resource,
            "client_id": client.unwrap_or_default(),
            "jti": format!("assertion-{count}"),
            "iat": unix,
            "exp": unix.saturating_add(ID_JAG_LIFETIME),
        });
        let mut document = json!({ "issued_token_type": ID_JAG_TYPE, "access_token": "", "token_type": "N_A",
            "expires_in": ID_JAG_LIFETIME });
        if let Some(scope) = form.one("scope")? {
            claims["scope"] = json!(scope);
            document["scope"] = json!(scope);
        }
        document["access_token"] = json!(keys.provider.sign(ID_JAG, &json!({}), &claims));
        Ok(document)
    }

    // ---- what the client is given beforehand ----

    /// What a client is told before it starts: under the names that the official conformance framework gives them in
    /// `MCP_CONFORMANCE_CONTEXT`.
    pub(super) fn hand_out(&self, now: Duration) -> Map<String, Value> {
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| {
            all.insert(name.to_owned(), value);
        };
        if let Some(client) = &self.script.preregistered {
            put("client_id", json!(client.client_id));
            if let Some(secret) = &client.client_secret {
                put("client_secret", json!(secret));
            }
            put("issuer", json!(self.issuer));
        }
        let Some(keys) = self.keys() else { return all };
        let unix = self.unix(now);
        let good = unix.saturating_add(HAND_OUT_LIFETIME);
        let own_key = self.script.preregistered.as_ref().is_some_and(|client| client.keys.is_none());
        if own_key && self.authentication_methods().contains(&ClientAuthentication::PrivateKeyJwt) {
            put("private_key_pem", json!(keys.client.pem()));
            put("signing_algorithm", json!("ES256"));
        }
        if self.script.identity_provider.is_some() {
            let issuer = self.provider_issuer();
            let claims = json!({ "iss": issuer, "sub": self.provider_user(), "email": self.provider_user(),
                "aud": self.provider_client(), "iat": unix, "exp": good });
            put("idp_client_id", json!(self.provider_client()));
            put("idp_id_token", json!(keys.provider.sign("JWT", &json!({}), &claims)));
            put("idp_token_endpoint", json!(format!("{issuer}/token")));
            put("idp_issuer", json!(issuer));
        }
        if self.script.workload.is_some() {
            let assertion = |audience: &str, expires: i64| {
                let claims = json!({ "iss": self.workload_issuer(), "sub": self.workload_subject(),
                    "aud": audience, "iat": unix.min(expires), "exp": expires });
                json!(keys.workload.sign("JWT", &json!({}), &claims))
            };
            put("client_id", json!(self.workload_client()));
            put("valid_jwt", assertion(&self.issuer, good));
            put("wrong_audience_jwt", assertion("https://wrong.example", good));
            put("expired_jwt", assertion(&self.issuer, unix.saturating_sub(60)));
        }
        all
    }
}
