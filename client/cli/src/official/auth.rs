//! Authorization as the scenarios want it: a person who agrees to everything, and what the context tells beforehand.

use async_trait::async_trait;
use serde_json::Value;
use sparring_client::http::{HttpError, HttpRequest, HttpResponse, Purpose, SystemHttp};
use sparring_client::oauth::{Assertion, ClientKey, EnterpriseGrant, Grant};
use sparring_client::{Browser, HttpClient, OauthSettings, RegisteredClient};
use std::sync::Arc;
use url::Url;

/// The metadata document that the framework expects; it is never fetched.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Redirects followed before giving up.
const MOST_HOPS: u32 = 10;

/// The settings for a scenario, with what its context holds.
pub(super) fn settings(scenario: &str, context: &Value) -> Result<OauthSettings, String> {
    let text = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
    let need = |name: &str| text(name).ok_or_else(|| format!("the context of {scenario} has no `{name}`"));
    let mut oauth =
        OauthSettings { metadata_document: Some(DOCUMENT.to_owned()), ..OauthSettings::default() };
    if let Some(id) = text("client_id") {
        let (issuer, secret) = (text("issuer"), text("client_secret"));
        oauth.registered.push(RegisteredClient { issuer, id, secret });
    }
    match scenario {
        "auth/client-credentials-basic" => oauth.grant = Grant::ClientCredentials,
        "auth/client-credentials-jwt" => {
            oauth.grant = Grant::ClientCredentials;
            oauth.key = Some(ClientKey::from_pem(&need("private_key_pem")?)?);
        }
        "auth/enterprise-managed-authorization" | "auth/cross-app-access-complete-flow" => {
            oauth.grant = Grant::Enterprise(EnterpriseGrant {
                token_endpoint: need("idp_token_endpoint")?,
                client_id: need("idp_client_id")?,
                client_secret: None,
                subject: Assertion::Text(need("idp_id_token")?.into()),
                subject_type: EnterpriseGrant::ID_TOKEN.to_owned(),
            });
        }
        "auth/wif-jwt-bearer" => {
            oauth.grant = Grant::Workload(Assertion::Text(need("valid_jwt")?.into()));
        }
        _ => {}
    }
    Ok(oauth)
}

/// A browser without a window, and a person in front of it who agrees: it follows redirects to where the client listens.
pub(super) struct Headless {
    http: Arc<dyn HttpClient>,
}

impl Headless {
    pub(super) fn new() -> Result<Self, HttpError> {
        Ok(Self { http: Arc::new(SystemHttp::new()?) })
    }

    async fn get(&self, server: &str, url: &str) -> Result<HttpResponse, String> {
        let request = HttpRequest {
            server: Arc::from(server),
            purpose: Purpose::OauthMetadata,
            method: "GET".to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: None,
        };
        self.http.send(request).await.map_err(|error| format!("the browser: {error}"))
    }
}

#[async_trait]
impl Browser for Headless {
    async fn open(&self, server: &str, url: &str) -> Result<Option<String>, String> {
        let mut at = Url::parse(url).map_err(|error| error.to_string())?;
        for _ in 0..MOST_HOPS {
            let response = self.get(server, at.as_str()).await?;
            match (response.status, response.header("location")) {
                (300..400, Some(location)) => at = at.join(location).map_err(|error| error.to_string())?,
                // The client's own listener has it now.
                (200, _) => return Ok(None),
                (status, _) => return Err(format!("the browser shows an error page, HTTP {status}")),
            }
        }
        Err("the browser was redirected too often".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_context_says_who_the_client_is() {
        let context = json!({"client_id": "pre", "client_secret": "s", "issuer": "https://as.test"});
        let oauth = settings("auth/pre-registration", &context).unwrap();
        let known = &oauth.registered[0];
        assert_eq!((known.id.as_str(), known.issuer.as_deref()), ("pre", Some("https://as.test")));
        assert!(matches!(oauth.grant, Grant::AuthorizationCode));
        assert!(settings("initialize", &Value::Null).unwrap().registered.is_empty());
    }

    #[test]
    fn what_the_context_lacks_is_named() {
        for (scenario, name) in [
            ("auth/client-credentials-jwt", "private_key_pem"),
            ("auth/cross-app-access-complete-flow", "idp_token_endpoint"),
            ("auth/wif-jwt-bearer", "valid_jwt"),
        ] {
            let error = settings(scenario, &json!({"client_id": "x"})).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
    }
}
