//! Authorization: from a 401 to a token, and from a token to the next one.
//!
//! An `Authorizer` stands behind each connection over HTTP. It puts the token on each request; when the server refuses
//! one it finds the authorization server, and then refreshes, logs a person in, or uses another [`Grant`]. Credentials
//! live in a [`CredentialStore`], apart for each MCP server and each issuer.

mod browser;
mod callback;
mod calls;
mod challenge;
mod code;
mod discovery;
mod grants;
mod guard;
mod jose;
mod login;
mod plan;
mod proof;
mod registration;
mod secret;
mod store;

pub use browser::{Browser, BrowserFn, NoBrowser, SystemBrowser};
pub use grants::{Assertion, EnterpriseGrant, Grant};
pub use jose::ClientKey;
pub use login::NeedsLogin;
pub use secret::Secret;
pub use store::{
    AuthMethod, ClientOrigin, CredentialKey, CredentialStore, Credentials, MemoryStore, StoreError,
    StoreLock, StoredClient, TokenKind, TokenSet,
};

use crate::error::Error;
use crate::http::{Authorize, HttpClient, HttpTarget, Pass, Refusal};
use crate::seams::Entropy;
use crate::settings::{LoginPolicy, OauthSettings};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use calls::{Origin, TokenAnswer, TokenRequest};
use challenge::Challenge;
use discovery::text;
use plan::{Plan, Spoken};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use store::unix_time;
use tokio::sync::Mutex;
use tokio::time::timeout;

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
    /// The latest nonce for proofs, of each endpoint.
    nonces: std::sync::Mutex<HashMap<String, String>>,
}

#[derive(Default)]
struct Flight {
    /// Why the latest flow failed, if it did.
    failure: Option<Error>,
    /// How often an operation was stepped up for a set of scopes.
    step_ups: HashMap<(String, String), u32>,
    /// Whether the store was read.
    loaded: bool,
    /// The credentials in use.
    held: Option<Held>,
    /// How tokens without a refresh token were got last, if that takes no person.
    machine: Option<Plan>,
}

/// Credentials in use.
#[derive(Clone)]
struct Held {
    key: CredentialKey,
    record: Credentials,
    /// The key that the tokens are bound to, read.
    proof: Option<ClientKey>,
}

impl Held {
    fn new(key: CredentialKey, record: Credentials) -> Self {
        let proof = record.proof_key.as_ref().and_then(ClientKey::from_stored);
        Self { key, record, proof }
    }

    fn access(&self) -> Option<&str> {
        self.record.tokens.as_ref().map(|tokens| tokens.access.expose())
    }
}

type Records = Vec<(CredentialKey, Credentials)>;

impl Authorizer {
    pub(crate) fn new(parts: AuthorizerParts) -> Self {
        Self {
            parts,
            flight: Mutex::default(),
            landed: AtomicU64::new(0),
            nonces: std::sync::Mutex::default(),
        }
    }

    fn random(&self) -> String {
        let mut bytes = [0; 32];
        self.parts.entropy.fill(&mut bytes);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn nonces(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- the store ----

    fn key(&self, issuer: &str) -> CredentialKey {
        CredentialKey { server: self.parts.target.url.clone(), issuer: issuer.to_owned() }
    }

    async fn records(&self) -> Result<Records, Error> {
        self.parts.store.of_server(&self.parts.target.url).await.map_err(unstored)
    }

    async fn put(&self, key: &CredentialKey, record: &Credentials) -> Result<(), Error> {
        self.parts.store.put(key, record).await.map_err(unstored)
    }

    async fn remove(&self, key: &CredentialKey) -> Result<(), Error> {
        self.parts.store.remove(key).await.map_err(unstored)
    }

    /// Takes what the store has, if it was not read yet.
    async fn load(&self, flight: &mut Flight) -> Result<(), Error> {
        if !flight.loaded {
            flight.held = active(self.records().await?);
            flight.loaded = true;
        }
        Ok(())
    }

    /// The key that tokens of this issuer are bound to; a new one, if there is none.
    fn proof_key(&self, records: &[(CredentialKey, Credentials)], issuer: &str) -> Result<ClientKey, Error> {
        let known = records.iter().find(|(key, _)| key.issuer == issuer);
        let known = known.and_then(|(_, record)| ClientKey::from_stored(record.proof_key.as_ref()?));
        known
            .or_else(|| ClientKey::random(&*self.parts.entropy))
            .ok_or_else(|| Error::auth("the source of randomness brings no key"))
    }

    // ---- tokens ----

    /// The record that an answer of the token endpoint makes.
    fn granted(
        plan: &Plan,
        client: StoredClient,
        scope: Option<String>,
        proof: Option<ClientKey>,
        json: &Value,
    ) -> Result<Credentials, Error> {
        let tokens = TokenSet {
            access: Secret::default(),
            kind: TokenKind::Bearer,
            refresh: None,
            expires_at: None,
            scope: None,
            requested: scope,
            resource: plan.resource.clone(),
            token_endpoint: plan.server.token_endpoint.clone(),
        };
        let tokens = renewed(tokens, json, proof.is_some())?;
        let proof_key = proof.map(|key| key.stored());
        Ok(Credentials { client, tokens: Some(tokens), proof_key })
    }

    /// Puts new credentials to use, and keeps them. Tokens of other issuers are of no use any more.
    async fn adopt(&self, flight: &mut Flight, issuer: &str, record: Credentials) -> Result<(), Error> {
        let key = self.key(issuer);
        // In use even if they can't be kept: they are the only good ones.
        flight.held = Some(Held::new(key.clone(), record.clone()));
        for (other, old) in self.records().await? {
            if other != key && old.tokens.is_some() {
                self.put(&other, &Credentials { tokens: None, ..old }).await?;
            }
        }
        self.put(&key, &record).await
    }

    /// Uses the refresh token; or what another process got for it meanwhile. `Ok(false)`: there is no more use in it.
    async fn refresh(&self, flight: &mut Flight) -> Result<bool, Error> {
        let Some(held) = flight.held.clone().filter(|_| self.parts.settings.refresh) else {
            return Ok(false);
        };
        let wait = self.parts.settings.http_wait.saturating_mul(2);
        let _lock = timeout(wait, self.parts.store.lock(&held.key.server))
            .await
            .map_err(|_| Error::auth("another process keeps the credentials locked"))?
            .map_err(unstored)?;
        let stored = self.records().await?.into_iter().find(|(key, _)| *key == held.key);
        let Some((key, stored)) = stored else {
            // Logged out, by somebody else.
            flight.held = None;
            return Ok(false);
        };
        let current = Held::new(key, stored);
        let newer = current.access().is_some() && current.access() != held.access();
        flight.held = Some(current.clone());
        let lasting =
            current.record.tokens.as_ref().is_some_and(|t| t.lasts(self.parts.settings.refresh_ahead));
        if newer && lasting {
            return Ok(true);
        }
        let Held { key, record, proof } = current;
        let Some((tokens, refresh)) = record.tokens.clone().and_then(|t| Some((t.clone(), t.refresh?)))
        else {
            return Ok(false);
        };
        let mut form =
            vec![("grant_type", "refresh_token".to_owned()), ("refresh_token", refresh.expose().to_owned())];
        form.extend(tokens.resource.clone().map(|resource| ("resource", resource)));
        let request = TokenRequest {
            endpoint: &tokens.token_endpoint,
            named_by: Origin::Server,
            issuer: &key.issuer,
            client: Some(&record.client).filter(|client| !client.id.is_empty()),
            proof: proof.as_ref(),
            form,
        };
        match self.token_request(request).await? {
            TokenAnswer::Tokens(json) => {
                let tokens = Some(renewed(tokens, &json, proof.is_some())?);
                let record = Credentials { tokens, ..record };
                flight.held = Some(Held { key: key.clone(), record: record.clone(), proof });
                self.put(&key, &record).await?;
                Ok(true)
            }
            TokenAnswer::Refused(code, _) => {
                flight.held = None;
                if code == "invalid_client" {
                    // Forgotten there; the next login registers anew.
                    self.remove(&key).await?;
                } else {
                    self.put(&key, &Credentials { tokens: None, ..record }).await?;
                }
                Ok(false)
            }
        }
    }

    /// Gets a token that differs from the refused one.
    async fn renew(
        &self,
        flight: &mut Flight,
        challenge: &Challenge,
        spoken: Spoken,
        step_up: bool,
    ) -> Result<(), Error> {
        let plan = self.plan(challenge, spoken, &self.known(flight)).await;
        let same = |held: &Held, plan: &Plan| held.key.issuer == plan.server.issuer;
        let before = flight.held.clone();
        let refreshes = !step_up
            && before.as_ref().is_some_and(|held| match &plan {
                Ok(plan) => same(held, plan),
                // Nobody says that the issuer is another one now.
                Err(_) => true,
            });
        if refreshes && self.refresh(flight).await? {
            return Ok(());
        }
        let plan = plan?;
        let before = before.filter(|held| same(held, &plan)).map(|held| held.record);
        self.obtain(flight, &plan, before.as_ref(), step_up).await
    }

    /// Gets tokens by the grant of the settings.
    async fn obtain(
        &self,
        flight: &mut Flight,
        plan: &Plan,
        before: Option<&Credentials>,
        step_up: bool,
    ) -> Result<(), Error> {
        let settings = &self.parts.settings;
        let person = matches!(settings.grant, Grant::AuthorizationCode);
        let scope = plan.scopes(before, step_up, person && settings.offline_access);
        if person && settings.login == LoginPolicy::Never {
            return Err(self.needs_login(plan, scope, before.is_some()));
        }
        let records = self.records().await?;
        let record = if person {
            self.login(plan, scope, &records).await?
        } else {
            let record = self.machine(plan, scope, &records).await?;
            flight.machine = Some(plan.clone());
            record
        };
        self.adopt(flight, &plan.server.issuer, record).await
    }
}

#[async_trait]
impl Authorize for Authorizer {
    async fn pass(&self, method: &str, url: &str) -> Option<Pass> {
        let mut flight = self.flight.lock().await;
        // What fails here is told when the server's answer asks for more.
        self.load(&mut flight).await.ok()?;
        let ahead = self.parts.settings.refresh_ahead;
        let tokens = flight.held.as_ref()?.record.tokens.as_ref()?;
        if !tokens.lasts(ahead) {
            if tokens.refresh.is_some() {
                drop(self.refresh(&mut flight).await);
            } else if let Some(plan) = flight.machine.clone() {
                let before = flight.held.as_ref().map(|held| held.record.clone());
                drop(self.obtain(&mut flight, &plan, before.as_ref(), false).await);
            }
        }
        let held = flight.held.as_ref()?;
        let tokens = held.record.tokens.as_ref()?;
        let token = tokens.access.expose().to_owned();
        let proof = match (tokens.kind, &held.proof) {
            (TokenKind::Dpop, Some(key)) => {
                let nonce = self.nonce(url);
                Some(proof::sign(key, &self.random(), method, url, Some(&token), nonce.as_deref()))
            }
            _ => None,
        };
        Some(Pass { token, proof })
    }

    fn learn(&self, url: &str, nonce: &str) {
        self.remember_nonce(url, Some(nonce));
    }

    async fn react(&self, refusal: Refusal<'_>) -> Result<bool, Error> {
        let challenge = Challenge::find(refusal.challenges);
        let step_up = refusal.status == 403;
        if step_up && challenge.error.as_deref() != Some("insufficient_scope") {
            return Ok(false);
        }
        let attempts = self.parts.settings.attempts;
        if challenge.wants_nonce && refusal.tries <= attempts && self.nonce(&self.parts.target.url).is_some()
        {
            // It came with this answer.
            return Ok(true);
        }
        let gives_up = |message: &str| Error::Auth { message: message.into(), status: Some(refusal.status) };
        if refusal.tries >= attempts || (!step_up && refusal.tries > 0) {
            return Err(gives_up(match step_up {
                true => "the server still demands more scopes",
                false => "the server refuses a fresh token",
            }));
        }
        let landed = self.landed.load(Ordering::Acquire);
        let mut flight = self.flight.lock().await;
        self.load(&mut flight).await?;
        if flight.held.as_ref().and_then(Held::access).is_some_and(|access| Some(access) != refusal.token) {
            return Ok(true);
        }
        if self.landed.load(Ordering::Acquire) != landed
            && let Some(failure) = &flight.failure
        {
            return Err(failure.clone());
        }
        // Another process may have logged in.
        if let Some(stored) = active(self.records().await?)
            && stored.access() != refusal.token
            && stored
                .record
                .tokens
                .as_ref()
                .is_some_and(|tokens| tokens.lasts(self.parts.settings.refresh_ahead))
        {
            flight.held = Some(stored);
            return Ok(true);
        }
        if step_up {
            let key = (refusal.operation.to_owned(), challenge.scope.clone().unwrap_or_default());
            let count = flight.step_ups.entry(key).or_default();
            if *count >= attempts {
                return Err(gives_up("more scopes were granted before, and did not help"));
            }
            *count += 1;
        }
        let spoken = Spoken { revision: refusal.revision, settled: refusal.settled };
        let outcome = self.renew(&mut flight, &challenge, spoken, step_up).await;
        flight.failure = outcome.clone().err();
        self.landed.fetch_add(1, Ordering::AcqRel);
        outcome.map(|()| true)
    }
}

/// The record in use: the one with tokens that was written last.
fn active(records: Records) -> Option<Held> {
    let mut held = records.into_iter().rev().map(|(key, record)| Held::new(key, record));
    held.find(|held| match &held.record.tokens {
        // Without its key a bound token is of no use.
        Some(tokens) => tokens.kind == TokenKind::Bearer || held.proof.is_some(),
        None => false,
    })
}

fn unstored(error: StoreError) -> Error {
    Error::auth(error.to_string())
}

/// The tokens with what the token endpoint sent; what it left out stays.
fn renewed(tokens: TokenSet, json: &Value, proven: bool) -> Result<TokenSet, Error> {
    let access =
        text(json, "access_token").ok_or_else(|| Error::auth("the token response has no access_token"))?;
    let kind = match text(json, "token_type") {
        Some(kind) if kind.eq_ignore_ascii_case("dpop") && proven => TokenKind::Dpop,
        Some(kind) if !kind.eq_ignore_ascii_case("bearer") => {
            return Err(Error::auth("the token response is not of type Bearer"));
        }
        _ => TokenKind::Bearer,
    };
    let lifetime = match json.get("expires_in") {
        Some(Value::String(text)) => text.parse().ok(),
        Some(number) => number.as_f64(),
        None => None,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range, by the filter")]
    let lifetime = lifetime.filter(|s| (0.0..1e9).contains(s)).map(|s: f64| s as u64);
    Ok(TokenSet {
        access: access.into(),
        kind,
        refresh: text(json, "refresh_token").map(Secret::from).or(tokens.refresh),
        expires_at: lifetime.map(|lifetime| unix_time() + lifetime),
        scope: text(json, "scope").or(tokens.scope),
        ..tokens
    })
}
