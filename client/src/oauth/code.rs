//! The authorization code flow: a person logs in.

use super::Authorizer;
use super::callback::Callback;
use super::calls::{Origin, TokenAnswer, TokenRequest};
use super::discovery::AuthServer;
use super::guard::{check_endpoint, check_reach};
use super::plan::Plan;
use super::registration::CODE_GRANTS;
use super::store::{CredentialKey, Credentials, StoredClient};
use crate::error::Error;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use url::Url;

/// One authorization request, until its answer is checked.
struct Pending<'a> {
    /// Whose metadata was found good: the answer has to come from there.
    server: &'a AuthServer,
    state: String,
    verifier: String,
    redirect_uri: String,
}

impl Authorizer {
    /// Logs a person in. `records`: all that is held for this MCP server.
    pub(super) async fn login(
        &self,
        plan: &Plan,
        scope: Option<String>,
        records: &[(CredentialKey, Credentials)],
    ) -> Result<Credentials, Error> {
        let strict = self.parts.settings.strict;
        if strict.pkce_support {
            plan.server.check_pkce(plan.revision)?;
        }
        let endpoint = plan.server.authorization_endpoint.as_deref().ok_or_else(|| {
            Error::auth("the authorization server's metadata has no authorization_endpoint")
        })?;
        if strict.https {
            check_endpoint(&plan.server.token_endpoint)?;
            let url = check_endpoint(endpoint)?;
            if strict.addresses {
                check_reach(&self.url()?, &url).await?;
            }
        }
        let (callback, redirect_uri) = self.way_back(records).await?;
        let client = self.client(plan, records, Some(&redirect_uri), &CODE_GRANTS).await?;
        let proof = plan.bound.then(|| self.proof_key(records, &plan.server.issuer)).transpose()?;
        let pending =
            Pending { server: &plan.server, state: self.random(), verifier: self.random(), redirect_uri };
        let url = authorization_url(endpoint, &pending, &client, plan.resource.as_deref(), scope.as_deref())?;
        let visit = self.visit(url.as_str(), callback.as_ref());
        let answer = timeout(self.parts.settings.browser_wait, visit)
            .await
            .map_err(|_| Error::auth("nobody finished the login in the browser"))??;
        drop(callback);
        let code = self.code(&answer, &pending)?;
        let mut form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code),
            ("redirect_uri", pending.redirect_uri),
            ("code_verifier", pending.verifier),
        ];
        form.extend(plan.resource.clone().map(|resource| ("resource", resource)));
        let request = TokenRequest {
            endpoint: &plan.server.token_endpoint,
            named_by: Origin::Server,
            issuer: &plan.server.issuer,
            client: Some(&client),
            proof: proof.as_ref(),
            form,
        };
        match self.token_request(request).await? {
            TokenAnswer::Tokens(json) => Self::granted(plan, client, scope, proof, &json),
            TokenAnswer::Refused(code, words) => {
                if code == "invalid_client" {
                    // Forgotten there; the next attempt registers anew.
                    self.remove(&self.key(&plan.server.issuer)).await?;
                }
                Err(Error::auth(words))
            }
        }
    }

    /// Where the browser is to come back to; a listener, unless the browser itself brings the answer.
    async fn way_back(
        &self,
        records: &[(CredentialKey, Credentials)],
    ) -> Result<(Option<Callback>, String), Error> {
        let settings = &self.parts.settings;
        if let Some(uri) = &settings.redirect_uri {
            return Ok((None, uri.clone()));
        }
        let bound = match &settings.listen_at {
            Some(uri) => Callback::bind_at(uri).await,
            None if settings.callback_port != 0 => Callback::bind(settings.callback_port).await,
            None => {
                // A port that is registered already is better than any other.
                let uris = records.iter().filter_map(|(_, record)| record.client.redirect_uri.as_deref());
                let port = uris.filter_map(|uri| Url::parse(uri).ok()?.port()).next_back();
                match Callback::bind(port.unwrap_or(0)).await {
                    Err(_) => Callback::bind(0).await,
                    bound => bound,
                }
            }
        };
        let callback =
            bound.map_err(|error| Error::auth(format!("could not listen for the browser: {error}")))?;
        let uri = callback.redirect_uri.clone();
        Ok((Some(callback), uri))
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

    /// The code that the redirect brought, after it is certain that it belongs to this request and comes from this
    /// server.
    fn code(&self, answer: &str, pending: &Pending<'_>) -> Result<String, Error> {
        let url = Url::parse(answer.trim())
            .map_err(|error| Error::auth(format!("the redirect is no URL: {error}")))?;
        let find = |key: &str| url.query_pairs().find(|(k, _)| k == key).map(|(_, v)| v.into_owned());
        let strict = self.parts.settings.strict;
        if strict.state && find("state").as_deref() != Some(&pending.state) {
            return Err(Error::auth(
                "the answer of the authorization server has another state; it is discarded",
            ));
        }
        // As texts: whatever differs, however little, is another issuer. Until then no word of the answer is shown.
        match find("iss") {
            Some(iss) if strict.iss && iss != pending.server.issuer => {
                return Err(Error::auth(format!("the answer comes from another issuer, {iss}")));
            }
            None if strict.iss && pending.server.sends_iss => {
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
}

fn authorization_url(
    endpoint: &str,
    pending: &Pending<'_>,
    client: &StoredClient,
    resource: Option<&str>,
    scope: Option<&str>,
) -> Result<Url, Error> {
    let mut url =
        Url::parse(endpoint).map_err(|error| Error::auth(format!("the authorization endpoint: {error}")))?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err(Error::auth("the authorization endpoint is not a web address"));
    }
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(pending.verifier.as_bytes()));
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.id)
        .append_pair("redirect_uri", &pending.redirect_uri)
        .append_pair("state", &pending.state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .extend_pairs(resource.map(|resource| ("resource", resource)))
        .extend_pairs(scope.map(|scope| ("scope", scope)));
    Ok(url)
}
