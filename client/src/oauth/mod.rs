//! Authorization: from a 401 to a token, and from a token to the next one.

mod browser;
mod challenge;
mod discovery;
mod store;

pub use browser::{Browser, NoBrowser};
pub use store::{AuthMethod, CredentialStore, MemoryStore, StoredClient, TokenSet};

use crate::error::Error;
use crate::http::{Authorize, HttpClient, HttpRequest, HttpTarget, Purpose, Refusal};
use crate::seams::Entropy;
use crate::settings::OauthSettings;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use browser::Callback;
use bytes::Bytes;
use challenge::Challenge;
use discovery::{AuthServer, strings, text};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sparring_wire::Revision;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::{Url, form_urlencoded};

/// The longest document of an authorization server accepted, in bytes.
const MAX_DOCUMENT: usize = 1 << 20;

/// Everything an [`Authorizer`] is made of.
pub(crate) struct AuthorizerParts {
    pub(crate) server: Arc<str>,
    pub(crate) target: HttpTarget,
    pub(crate) settings: OauthSettings,
    pub(crate) client_name: String,
    pub(crate) http: Arc<dyn HttpClient>,
    pub(crate) browser: Arc<dyn Browser>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) store: Arc<dyn CredentialStore>,
}

/// Gets and renews the tokens for one MCP server. One flow runs at a time; who waited for it shares its outcome.
pub(crate) struct Authorizer {
    parts: AuthorizerParts,
    flight: Mutex<Flight>,
    /// Flows that have ended.
    landed: AtomicU64,
}

#[derive(Default)]
struct Flight {
    /// Why the latest flow failed, if it did.
    failure: Option<Error>,
    /// How often an operation was stepped up for a set of scopes.
    step_ups: HashMap<(String, String), u32>,
}

/// Where and for what to authorize.
struct Plan {
    server: AuthServer,
    resource: Option<String>,
    scope: Option<String>,
    revision: Revision,
}

/// What the token endpoint said.
enum TokenAnswer {
    Tokens(Value),
    /// The OAuth error code, and all that is known in words.
    Refused(String, String),
}

impl Authorizer {
    pub(crate) fn new(parts: AuthorizerParts) -> Self {
        Self { parts, flight: Mutex::default(), landed: AtomicU64::new(0) }
    }

    fn tokens(&self) -> Option<TokenSet> {
        self.parts.store.tokens(&self.parts.target.url)
    }

    fn keep(&self, tokens: Option<TokenSet>) {
        self.parts.store.set_tokens(&self.parts.target.url, tokens);
    }

    fn random(&self) -> String {
        let mut bytes = [0; 32];
        self.parts.entropy.fill(&mut bytes);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// One HTTP request of the flow; the status and the body.
    async fn fetch(
        &self,
        purpose: Purpose,
        url: &str,
        mut headers: Vec<(String, String)>,
        body: Option<String>,
    ) -> Result<(u16, Vec<u8>), Error> {
        if self.parts.settings.strict.https {
            discovery::check_endpoint(url)?;
        }
        headers.push(("Accept".into(), "application/json".into()));
        let request = HttpRequest {
            server: Arc::clone(&self.parts.server),
            purpose,
            method: if body.is_some() { "POST".into() } else { "GET".into() },
            url: url.to_owned(),
            headers,
            body: body.map(Bytes::from),
        };
        let whole = async {
            let response = self.parts.http.send(request).await?;
            let status = response.status;
            Ok((status, response.read(MAX_DOCUMENT).await?))
        };
        match timeout(self.parts.settings.http_wait, whole).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err::<_, crate::http::HttpError>(error)) => {
                Err(Error::auth(format!("the request to {} failed: {error}", bare(url))))
            }
            Err(_) => Err(Error::auth(format!("no answer from {} in time", bare(url)))),
        }
    }

    /// The first document found at these places, with its place.
    async fn document(&self, places: &[String], revision: Revision) -> Result<Option<Value>, Error> {
        for place in places {
            let mut headers = Vec::new();
            if revision <= Revision::V2025_03_26 {
                headers.push(("MCP-Protocol-Version".into(), revision.as_str().into()));
            }
            let (status, body) = self.fetch(Purpose::OauthMetadata, place, headers, None).await?;
            if (200..300).contains(&status) {
                let json: Value = serde_json::from_slice(&body)
                    .map_err(|error| Error::auth(format!("the document at {place} is not JSON: {error}")))?;
                return Ok(Some(json));
            }
        }
        Ok(None)
    }

    // ---- discovery ----

    async fn plan(&self, challenge: &Challenge, refusal: &Refusal<'_>) -> Result<Plan, Error> {
        let server = Url::parse(&self.parts.target.url).map_err(|error| Error::auth(error.to_string()))?;
        let revision = refusal.revision;
        if revision <= Revision::V2025_03_26 {
            return self.plan_at_origin(&server, challenge, None).await;
        }
        let places = discovery::resource_metadata(&server, challenge.resource_metadata.as_deref());
        let Some(metadata) = self.document(&places, revision).await? else {
            // Until the handshake the server may be one of 2025-03-26, which knows nothing of such metadata. It ignores
            // the resource, but a newer one needs it.
            if !refusal.settled && challenge.resource_metadata.is_none() {
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
        let mut failure = Error::auth("the protected resource metadata names no authorization server");
        for issuer in strings(&metadata, "authorization_servers").unwrap_or_default() {
            match self.auth_server(&issuer, revision).await {
                Ok(server) => return Ok(Plan { server, resource, scope, revision }),
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
        Ok(Plan { server, resource, scope, revision })
    }

    async fn auth_server(&self, issuer: &str, revision: Revision) -> Result<AuthServer, Error> {
        let url =
            Url::parse(issuer).map_err(|error| Error::auth(format!("the issuer {issuer:?}: {error}")))?;
        let places = discovery::server_metadata(&url);
        let Some(json) = self.document(&places, revision).await? else {
            return Err(Error::auth(format!("no authorization server metadata at {}", places.join(" or "))));
        };
        let server = AuthServer::read(&json, issuer)?;
        if self.parts.settings.strict.issuer && !discovery::same_issuer(&server.issuer, issuer) {
            return Err(Error::auth(format!(
                "the metadata of {issuer} is that of another issuer, {}",
                server.issuer
            )));
        }
        Ok(server)
    }

    // ---- registration ----

    /// The client to be, and where the browser is to come back to.
    async fn client(&self, plan: &Plan) -> Result<(StoredClient, Option<Callback>, String), Error> {
        let settings = &self.parts.settings;
        let issuer = &plan.server.issuer;
        let registered = settings
            .registered
            .iter()
            .find(|c| c.issuer.as_deref().is_none_or(|i| discovery::same_issuer(i, issuer)));
        let document = settings.metadata_document.as_ref().filter(|url| {
            plan.server.knows_documents
                && Url::parse(url).is_ok_and(|u| u.scheme() == "https" && u.path().len() > 1)
        });
        let stored = self.parts.store.client(issuer);
        let stored_port = stored
            .as_ref()
            .and_then(|c| c.redirect_uri.as_deref())
            .and_then(|uri| Url::parse(uri).ok())
            .and_then(|uri| uri.port());
        let (callback, redirect_uri) = match &settings.redirect_uri {
            Some(uri) => (None, uri.clone()),
            None => {
                // The port that is registered already is better than any other.
                let wanted = if settings.callback_port == 0 {
                    stored_port.unwrap_or(0)
                } else {
                    settings.callback_port
                };
                let bound = match Callback::bind(wanted).await {
                    Err(_) if settings.callback_port == 0 => Callback::bind(0).await,
                    bound => bound,
                };
                let callback = bound
                    .map_err(|error| Error::auth(format!("could not listen for the browser: {error}")))?;
                let uri = callback.redirect_uri.clone();
                (Some(callback), uri)
            }
        };
        let client = if let Some(known) = registered {
            let method = match &known.secret {
                None => AuthMethod::None,
                Some(_) => secret_method(plan.server.auth_methods.as_deref()),
            };
            StoredClient { id: known.id.clone(), secret: known.secret.clone(), method, redirect_uri: None }
        } else if let Some(url) = document {
            StoredClient { id: url.clone(), secret: None, method: AuthMethod::None, redirect_uri: None }
        } else if let Some(stored) = stored.filter(|c| c.redirect_uri.as_ref() == Some(&redirect_uri)) {
            stored
        } else {
            let client = self.register(&plan.server, &redirect_uri).await?;
            self.parts.store.set_client(issuer, Some(client.clone()));
            client
        };
        Ok((client, callback, redirect_uri))
    }

    async fn register(&self, server: &AuthServer, redirect_uri: &str) -> Result<StoredClient, Error> {
        let endpoint =
            server.registration_endpoint.as_ref().filter(|_| self.parts.settings.dynamic_registration);
        let Some(endpoint) = endpoint else {
            return Err(Error::auth(format!(
                "no client is registered with {}, and it offers no way to register one",
                server.issuer
            )));
        };
        let wanted = match &server.auth_methods {
            Some(methods) if !methods.iter().any(|m| m == "none") => secret_method(Some(methods)),
            _ => AuthMethod::None,
        };
        let body = json!({
            "client_name": self.parts.client_name,
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method_name(wanted),
        });
        let headers = vec![("Content-Type".into(), "application/json".into())];
        let (status, answer) =
            self.fetch(Purpose::OauthRegister, endpoint, headers, Some(body.to_string())).await?;
        let json: Value = serde_json::from_slice(&answer).unwrap_or_default();
        if !(200..300).contains(&status) {
            return Err(refusal("registration", status, &json).1);
        }
        let id =
            text(&json, "client_id").ok_or_else(|| Error::auth("the registration brought no client_id"))?;
        let secret = text(&json, "client_secret");
        let method = match (text(&json, "token_endpoint_auth_method").as_deref(), &secret) {
            (Some("client_secret_basic"), Some(_)) => AuthMethod::Basic,
            (Some("client_secret_post"), Some(_)) => AuthMethod::Post,
            (None, Some(_)) if wanted == AuthMethod::None => secret_method(server.auth_methods.as_deref()),
            (None, Some(_)) => wanted,
            (Some("none"), _) | (None, None) => AuthMethod::None,
            (Some(other), _) => {
                return Err(Error::auth(format!(
                    "the registered client would have to authenticate by {other}"
                )));
            }
        };
        Ok(StoredClient { id, secret, method, redirect_uri: Some(redirect_uri.to_owned()) })
    }

    // ---- the authorization code flow ----

    async fn authorize(&self, plan: Plan) -> Result<(), Error> {
        let strict = self.parts.settings.strict;
        if strict.pkce_support {
            plan.server.check_pkce(plan.revision)?;
        }
        if strict.https {
            discovery::check_endpoint(&plan.server.token_endpoint)?;
            discovery::check_endpoint(&plan.server.authorization_endpoint)?;
        }
        let (client, callback, redirect_uri) = self.client(&plan).await?;
        let (state, verifier) = (self.random(), self.random());
        let mut url = Url::parse(&plan.server.authorization_endpoint)
            .map_err(|error| Error::auth(format!("the authorization endpoint: {error}")))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(Error::auth("the authorization endpoint is not a web address"));
        }
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", &client.id)
                .append_pair("redirect_uri", &redirect_uri)
                .append_pair("state", &state)
                .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())))
                .append_pair("code_challenge_method", "S256");
            if let Some(resource) = &plan.resource {
                query.append_pair("resource", resource);
            }
            if let Some(scope) = &plan.scope {
                query.append_pair("scope", scope);
            }
        }
        let visit = self.visit(url.as_str(), callback.as_ref());
        let answer = timeout(self.parts.settings.browser_wait, visit)
            .await
            .map_err(|_| Error::auth("nobody finished the login in the browser"))??;
        drop(callback);
        let code = self.code(&answer, &state, &plan.server)?;
        let mut form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier),
        ];
        form.extend(plan.resource.clone().map(|resource| ("resource", resource)));
        let json = match self.token_request(&plan.server.token_endpoint, &client, form).await? {
            TokenAnswer::Tokens(json) => json,
            TokenAnswer::Refused(code, words) => {
                if code == "invalid_client" {
                    // Forgotten there; the next attempt registers anew.
                    self.parts.store.set_client(&plan.server.issuer, None);
                }
                return Err(Error::auth(words));
            }
        };
        let tokens = TokenSet {
            access: String::new(),
            refresh: None,
            expires_at: None,
            scope: plan.scope,
            issuer: plan.server.issuer,
            resource: plan.resource,
            token_endpoint: plan.server.token_endpoint,
            client,
        };
        self.keep(Some(renewed(tokens, &json)?));
        Ok(())
    }

    /// Sends a person to `url`; where they ended up.
    async fn visit(&self, url: &str, callback: Option<&Callback>) -> Result<String, Error> {
        let opened = self.parts.browser.open(&self.parts.server, url);
        let Some(callback) = callback else {
            let seen = opened.await.map_err(Error::auth)?;
            return seen.ok_or_else(|| Error::auth("the browser did not bring the redirect back"));
        };
        let listen = callback.wait();
        tokio::pin!(opened, listen);
        let lost = |error: std::io::Error| Error::auth(format!("could not listen for the browser: {error}"));
        tokio::select! {
            seen = &mut opened => match seen.map_err(Error::auth)? {
                Some(url) => Ok(url),
                None => listen.await.map_err(lost),
            },
            called = &mut listen => called.map_err(lost),
        }
    }

    /// The code that the redirect brought.
    fn code(&self, answer: &str, state: &str, server: &AuthServer) -> Result<String, Error> {
        let url =
            Url::parse(answer).map_err(|error| Error::auth(format!("the redirect is no URL: {error}")))?;
        let find = |key: &str| url.query_pairs().find(|(k, _)| k == key).map(|(_, v)| v.into_owned());
        let strict = self.parts.settings.strict;
        if strict.state && find("state").as_deref() != Some(state) {
            return Err(Error::auth(
                "the answer of the authorization server has another state; it is discarded",
            ));
        }
        match find("iss") {
            Some(iss) if strict.iss && !discovery::same_issuer(&iss, &server.issuer) => {
                return Err(Error::auth(format!("the answer comes from another issuer, {iss}")));
            }
            None if strict.iss && server.sends_iss => {
                return Err(Error::auth("the answer of the authorization server lacks its issuer"));
            }
            _ => {}
        }
        if let Some(error) = find("error") {
            let why = find("error_description").map(|d| format!(": {d}")).unwrap_or_default();
            return Err(Error::auth(format!("the authorization server refused: {error}{why}")));
        }
        find("code").ok_or_else(|| Error::auth("the answer of the authorization server has no code"))
    }

    async fn token_request(
        &self,
        endpoint: &str,
        client: &StoredClient,
        form: Vec<(&str, String)>,
    ) -> Result<TokenAnswer, Error> {
        let (headers, body) = token_form(client, form);
        let (status, answer) = self.fetch(Purpose::OauthToken, endpoint, headers, Some(body)).await?;
        let json: Value = serde_json::from_slice(&answer).unwrap_or_default();
        match status {
            200..300 => Ok(TokenAnswer::Tokens(json)),
            400..500 => {
                let (code, error) = refusal("the token request", status, &json);
                Ok(TokenAnswer::Refused(code, error.to_string()))
            }
            _ => Err(refusal("the token request", status, &json).1),
        }
    }

    /// Uses the refresh token. `Ok(false)`: it is of no use any more.
    async fn refresh(&self, tokens: TokenSet) -> Result<bool, Error> {
        let Some(refresh) = tokens.refresh.clone() else { return Ok(false) };
        let mut form = vec![("grant_type", "refresh_token".to_owned()), ("refresh_token", refresh)];
        form.extend(tokens.resource.clone().map(|resource| ("resource", resource)));
        match self.token_request(&tokens.token_endpoint, &tokens.client, form).await? {
            TokenAnswer::Tokens(json) => {
                self.keep(Some(renewed(tokens, &json)?));
                Ok(true)
            }
            TokenAnswer::Refused(code, _) => {
                if code == "invalid_client" {
                    self.parts.store.set_client(&tokens.issuer, None);
                }
                self.keep(None);
                Ok(false)
            }
        }
    }

    /// Gets a token that differs from the refused one.
    async fn renew(&self, challenge: &Challenge, refusal: &Refusal<'_>) -> Result<(), Error> {
        let step_up = refusal.status == 403;
        let held = self.tokens();
        if !step_up
            && let Some(tokens) = held.clone()
            && self.refresh(tokens).await?
        {
            return Ok(());
        }
        let mut plan = self.plan(challenge, refusal).await?;
        if let (true, Some(held), Some(wanted)) = (step_up, held.and_then(|t| t.scope), &plan.scope) {
            // Keep what was granted, or the next operation would have to step up again.
            let mut all: Vec<&str> = held.split_whitespace().collect();
            for scope in wanted.split_whitespace() {
                if !all.contains(&scope) {
                    all.push(scope);
                }
            }
            plan.scope = Some(all.join(" "));
        }
        self.authorize(plan).await
    }
}

#[async_trait]
impl Authorize for Authorizer {
    async fn bearer(&self) -> Option<String> {
        let _flight = self.flight.lock().await;
        let tokens = self.tokens()?;
        let ahead = SystemTime::now() + self.parts.settings.refresh_ahead;
        if tokens.refresh.is_some() && tokens.expires_at.is_some_and(|at| at <= ahead) {
            // If that fails, the server's answer will tell.
            drop(self.refresh(tokens).await);
        }
        self.tokens().map(|tokens| tokens.access)
    }

    async fn react(&self, refusal: Refusal<'_>) -> Result<bool, Error> {
        let challenge = Challenge::find(refusal.challenges);
        let step_up = refusal.status == 403;
        if step_up && challenge.error.as_deref() != Some("insufficient_scope") {
            return Ok(false);
        }
        let gives_up = |message: &str| Error::Auth { message: message.into(), status: Some(refusal.status) };
        if refusal.tries >= self.parts.settings.attempts || (!step_up && refusal.tries > 0) {
            return Err(gives_up(match step_up {
                true => "the server still demands more scopes",
                false => "the server refuses a fresh token",
            }));
        }
        let landed = self.landed.load(Ordering::Acquire);
        let mut flight = self.flight.lock().await;
        if self.tokens().map(|t| t.access).as_deref() != refusal.token && self.tokens().is_some() {
            return Ok(true);
        }
        if self.landed.load(Ordering::Acquire) != landed
            && let Some(failure) = &flight.failure
        {
            return Err(failure.clone());
        }
        if step_up {
            let key = (refusal.operation.to_owned(), challenge.scope.clone().unwrap_or_default());
            let count = flight.step_ups.entry(key).or_default();
            if *count >= self.parts.settings.attempts {
                return Err(gives_up("more scopes were granted before, and did not help"));
            }
            *count += 1;
        }
        let outcome = self.renew(&challenge, &refusal).await;
        flight.failure = outcome.clone().err();
        self.landed.fetch_add(1, Ordering::AcqRel);
        outcome.map(|()| true)
    }
}

/// Header and body of a token request; the secret, if any, in the one place that was agreed on.
fn token_form(client: &StoredClient, form: Vec<(&str, String)>) -> (Vec<(String, String)>, String) {
    let mut headers = vec![("Content-Type".into(), "application/x-www-form-urlencoded".into())];
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(form);
    match (client.method, &client.secret) {
        (AuthMethod::Basic, Some(secret)) => {
            let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encode(&client.id), encode(secret));
            headers.push(("Authorization".into(), format!("Basic {}", STANDARD.encode(pair))));
        }
        (method, secret) => {
            body.append_pair("client_id", &client.id);
            if let (AuthMethod::Post, Some(secret)) = (method, secret) {
                body.append_pair("client_secret", secret);
            }
        }
    }
    (headers, body.finish())
}

/// A URL for messages, without its query.
fn bare(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

const fn method_name(method: AuthMethod) -> &'static str {
    match method {
        AuthMethod::None => "none",
        AuthMethod::Basic => "client_secret_basic",
        AuthMethod::Post => "client_secret_post",
    }
}

/// How to use a secret; the default of RFC 8414 is Basic.
fn secret_method(supported: Option<&[String]>) -> AuthMethod {
    let has = |name: &str| supported.is_some_and(|s| s.iter().any(|m| m == name));
    if has("client_secret_post") && !has("client_secret_basic") {
        AuthMethod::Post
    } else {
        AuthMethod::Basic
    }
}

/// The error code and the error of an answer that says no.
fn refusal(what: &str, status: u16, json: &Value) -> (String, Error) {
    let code = text(json, "error").unwrap_or_default();
    let more = text(json, "error_description").map(|d| format!(", {d}")).unwrap_or_default();
    let message = format!("{what} was refused with HTTP {status}: {code}{more}");
    (code, Error::Auth { message, status: Some(status) })
}

/// The tokens with what the token endpoint sent; what it left out stays.
fn renewed(tokens: TokenSet, json: &Value) -> Result<TokenSet, Error> {
    let access =
        text(json, "access_token").ok_or_else(|| Error::auth("the token response has no access_token"))?;
    let kind = text(json, "token_type");
    if kind.as_ref().is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(Error::auth("the token response is not of type Bearer"));
    }
    let lifetime = match json.get("expires_in") {
        Some(Value::String(text)) => text.parse().ok(),
        Some(number) => number.as_f64(),
        None => None,
    };
    let lifetime = lifetime.filter(|s| (0.0..1e9).contains(s)).map(Duration::from_secs_f64);
    Ok(TokenSet {
        access,
        refresh: text(json, "refresh_token").or(tokens.refresh),
        expires_at: lifetime.map(|lifetime| SystemTime::now() + lifetime),
        scope: text(json, "scope").or(tokens.scope),
        ..tokens
    })
}
