//! The HTTP requests of the flow: documents, and the token endpoint.

use super::Authorizer;
use super::discovery::text;
use super::guard::{bare, check_endpoint, check_reach};
use super::jose::ClientKey;
use super::proof;
use super::store::{AuthMethod, StoredClient, unix_time};
use crate::error::Error;
use crate::http::{HttpRequest, Purpose};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use sparring_wire::Revision;
use std::sync::Arc;
use tokio::time::timeout;
use url::{Url, form_urlencoded};

/// The longest document of an authorization server accepted, in bytes.
const MAX_DOCUMENT: usize = 1 << 20;

/// How long an assertion that authenticates the client holds, in seconds.
const ASSERTION_LIFETIME: u64 = 60;

/// Who named a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The MCP server, or an authorization server: where it leads is looked at.
    Server,
    /// The settings.
    Settings,
}

/// What the token endpoint said.
pub(super) enum TokenAnswer {
    Tokens(Value),
    /// The OAuth error code, and all that is known in words.
    Refused(String, String),
}

/// A request to a token endpoint.
pub(super) struct TokenRequest<'a> {
    pub(super) endpoint: &'a str,
    pub(super) named_by: Origin,
    /// Whom an assertion of the client is for.
    pub(super) issuer: &'a str,
    pub(super) client: Option<&'a StoredClient>,
    /// The key that the tokens are to be bound to.
    pub(super) proof: Option<&'a ClientKey>,
    pub(super) form: Vec<(&'static str, String)>,
}

impl Authorizer {
    /// One HTTP request of the flow; the status and the body.
    pub(super) async fn fetch(
        &self,
        purpose: Purpose,
        url: &str,
        named_by: Origin,
        mut headers: Vec<(String, String)>,
        body: Option<String>,
    ) -> Result<(u16, Vec<u8>), Error> {
        let strict = self.parts.settings.strict;
        if strict.https {
            let checked = check_endpoint(url)?;
            if strict.addresses && named_by == Origin::Server {
                check_reach(&self.url()?, &checked).await?;
            }
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
            self.remember_nonce(url, response.header("dpop-nonce"));
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

    /// The first document found at these places.
    pub(super) async fn document(
        &self,
        places: &[String],
        revision: Revision,
    ) -> Result<Option<Value>, Error> {
        for place in places {
            let mut headers = Vec::new();
            if revision <= Revision::V2025_03_26 {
                headers.push(("MCP-Protocol-Version".into(), revision.as_str().into()));
            }
            // A redirect is no document: it is not followed, so it leads nowhere that was not looked at.
            let (status, body) =
                self.fetch(Purpose::OauthMetadata, place, Origin::Server, headers, None).await?;
            if (200..300).contains(&status) {
                let json: Value = serde_json::from_slice(&body)
                    .map_err(|error| Error::auth(format!("the document at {place} is not JSON: {error}")))?;
                return Ok(Some(json));
            }
        }
        Ok(None)
    }

    /// Asks for tokens. If the server wants its nonce in the proof, once more.
    pub(super) async fn token_request(&self, request: TokenRequest<'_>) -> Result<TokenAnswer, Error> {
        let mut again = request.proof.is_some();
        loop {
            let (mut headers, body) = self.token_form(&request)?;
            let nonce = self.nonce(request.endpoint);
            if let Some(key) = request.proof {
                let proof =
                    proof::sign(key, &self.random(), "POST", request.endpoint, None, nonce.as_deref());
                headers.push(("DPoP".into(), proof));
            }
            let (status, answer) = self
                .fetch(Purpose::OauthToken, request.endpoint, request.named_by, headers, Some(body))
                .await?;
            let json: Value = serde_json::from_slice(&answer).unwrap_or_default();
            return match status {
                200..300 => Ok(TokenAnswer::Tokens(json)),
                // Come back later: nothing is said of what was sent.
                408 | 429 => Err(refusal("the token request", status, &json).1),
                400..500 => {
                    let (code, error) = refusal("the token request", status, &json);
                    if again && code == "use_dpop_nonce" && self.nonce(request.endpoint) != nonce {
                        again = false;
                        continue;
                    }
                    let Error::Auth { message, .. } = error else { return Err(error) };
                    Ok(TokenAnswer::Refused(code, message))
                }
                _ => Err(refusal("the token request", status, &json).1),
            };
        }
    }

    /// Header and body of a token request; the client's authentication in the one place that was agreed on.
    fn token_form(&self, request: &TokenRequest<'_>) -> Result<(Vec<(String, String)>, String), Error> {
        let mut headers = vec![("Content-Type".into(), "application/x-www-form-urlencoded".into())];
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(request.form.iter().map(|(name, value)| (*name, value.as_str())));
        let Some(client) = request.client else { return Ok((headers, body.finish())) };
        let secret = self.secret_of(client);
        match (client.method, secret) {
            (AuthMethod::Basic, Some(secret)) => {
                let encode =
                    |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encode(&client.id), encode(&secret));
                headers.push(("Authorization".into(), format!("Basic {}", STANDARD.encode(pair))));
            }
            (AuthMethod::PrivateKeyJwt, _) => {
                let key = self.parts.settings.key.as_ref().ok_or_else(|| {
                    Error::auth("the client was to authenticate by a key, and the settings have none")
                })?;
                // The assertion names the client; the form does not.
                body.append_pair("client_assertion_type", CLIENT_ASSERTION);
                body.append_pair("client_assertion", &self.assertion(key, &client.id, request.issuer));
            }
            (method, secret) => {
                body.append_pair("client_id", &client.id);
                if let (AuthMethod::Post, Some(secret)) = (method, secret) {
                    body.append_pair("client_secret", &secret);
                }
            }
        }
        Ok((headers, body.finish()))
    }

    /// A JWT that authenticates the client (RFC 7523 section 3), good once and for a minute.
    fn assertion(&self, key: &ClientKey, client: &str, audience: &str) -> String {
        let now = unix_time();
        let header = Map::from_iter([("typ".to_owned(), Value::from("JWT"))]);
        let claims = json!({
            "iss": client, "sub": client, "aud": audience,
            "iat": now, "exp": now + ASSERTION_LIFETIME, "jti": self.random(),
        });
        key.sign(header, &claims)
    }

    /// The secret of a client: from the settings, or as it was registered.
    fn secret_of(&self, client: &StoredClient) -> Option<String> {
        let known = self.parts.settings.registered.iter().find(|known| known.id == client.id);
        match &client.secret {
            Some(secret) => Some(secret.expose().to_owned()),
            None => known.and_then(|known| known.secret.clone()),
        }
    }

    /// The URL of the MCP server.
    pub(super) fn url(&self) -> Result<Url, Error> {
        Url::parse(&self.parts.target.url).map_err(|error| Error::auth(error.to_string()))
    }

    /// Remembers a nonce that an endpoint sent, for the proofs that go there. An MCP server and an authorization server
    /// have their own, also on one origin.
    pub(super) fn remember_nonce(&self, url: &str, nonce: Option<&str>) {
        if let Some(nonce) = nonce {
            self.nonces().insert(bare(url).to_owned(), nonce.to_owned());
        }
    }

    pub(super) fn nonce(&self, url: &str) -> Option<String> {
        self.nonces().get(bare(url)).cloned()
    }
}

/// The `client_assertion_type` of RFC 7523.
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The error code and the error of an answer that says no.
pub(super) fn refusal(what: &str, status: u16, json: &Value) -> (String, Error) {
    let code = text(json, "error").unwrap_or_default();
    let more = text(json, "error_description").map(|d| format!(", {d}")).unwrap_or_default();
    let message = format!("{what} was refused with HTTP {status}: {code}{more}");
    (code, Error::Auth { message, status: Some(status) })
}
