//! Who the client is to an authorization server.

use super::Authorizer;
use super::calls::{Origin, refusal};
use super::discovery::{self, AuthServer, text};
use super::plan::Plan;
use super::store::{AuthMethod, ClientOrigin, CredentialKey, Credentials, StoredClient, unix_time};
use crate::error::Error;
use crate::http::Purpose;
use crate::settings::{OauthSettings, RegisteredClient};
use serde_json::{Value, json};
use url::{Host, Url};

/// What a client that logs people in registers for.
pub(super) const CODE_GRANTS: [&str; 2] = ["authorization_code", "refresh_token"];

impl Authorizer {
    /// The client that was registered beforehand with this issuer. An error, if there are such clients for others only:
    /// its credentials would be of no use here, and to go on as somebody else would hide that.
    pub(super) fn preregistered(
        &self,
        plan: &Plan,
        records: &[(CredentialKey, Credentials)],
    ) -> Result<Option<&RegisteredClient>, Error> {
        let issuer = &plan.server.issuer;
        let registered = &self.parts.settings.registered;
        let here = |other: &str| discovery::same_issuer(other, issuer, plan.revision);
        let bound = registered.iter().find(|c| c.issuer.as_deref().is_some_and(here));
        let known = bound.or_else(|| registered.iter().find(|c| c.issuer.is_none()));
        let Some(known) = known else {
            let Some(other) = registered.first() else { return Ok(None) };
            return Err(elsewhere(&other.id, other.issuer.as_deref().unwrap_or_default(), issuer));
        };
        // Without an issuer in the settings, the first one that it was used with is the one.
        let used = |(key, record): &&(CredentialKey, Credentials)| {
            record.client.origin == ClientOrigin::Registered
                && record.client.id == known.id
                && !here(&key.issuer)
        };
        match records.iter().find(used) {
            Some((key, _)) if known.issuer.is_none() => Err(elsewhere(&known.id, &key.issuer, issuer)),
            _ => Ok(Some(known)),
        }
    }

    /// A client whose credentials are in the settings.
    pub(super) fn configured(&self, known: &RegisteredClient, server: &AuthServer) -> StoredClient {
        let by_key = self.parts.settings.key.is_some() && server.has_method(AuthMethod::PrivateKeyJwt);
        let method = match &known.secret {
            _ if by_key => AuthMethod::PrivateKeyJwt,
            Some(_) => server.secret_method(),
            None => AuthMethod::None,
        };
        StoredClient { method, ..client(&known.id, ClientOrigin::Registered) }
    }

    /// Finds or makes the client, in the order of the specification: one that was registered beforehand, a metadata
    /// document, one that was registered dynamically before, a new one. `redirect_uri`: where the browser comes back to.
    pub(super) async fn client(
        &self,
        plan: &Plan,
        records: &[(CredentialKey, Credentials)],
        redirect_uri: Option<&str>,
        grant_types: &[&str],
    ) -> Result<StoredClient, Error> {
        let settings = &self.parts.settings;
        if let Some(known) = self.preregistered(plan, records)? {
            return Ok(self.configured(known, &plan.server));
        }
        if let Some(url) = settings.metadata_document.as_ref().filter(|url| is_document(url))
            && plan.server.knows_documents
        {
            let by_key = settings.key.is_some() && plan.server.has_method(AuthMethod::PrivateKeyJwt);
            let method = if by_key { AuthMethod::PrivateKeyJwt } else { AuthMethod::None };
            return Ok(StoredClient { method, ..client(url, ClientOrigin::Document) });
        }
        let stored = records.iter().find(|(key, _)| key.issuer == plan.server.issuer);
        let usable = |c: &StoredClient| {
            c.origin == ClientOrigin::Dynamic
                && c.redirect_uri.as_deref() == redirect_uri
                && c.secret_expires_at.is_none_or(|at| unix_time() < at)
        };
        if let Some(stored) = stored.map(|(_, record)| &record.client).filter(|c| usable(c)) {
            return Ok(stored.clone());
        }
        let client = self.register(&plan.server, redirect_uri, grant_types).await?;
        // Kept at once, so that a login that fails does not leave a registration behind each time; but not in place of
        // one that has tokens.
        if stored.is_none_or(|(_, record)| record.tokens.is_none()) {
            let record = Credentials { client: client.clone(), tokens: None, proof_key: None };
            self.put(&self.key(&plan.server.issuer), &record).await?;
        }
        Ok(client)
    }

    async fn register(
        &self,
        server: &AuthServer,
        redirect_uri: Option<&str>,
        grant_types: &[&str],
    ) -> Result<StoredClient, Error> {
        let endpoint =
            server.registration_endpoint.as_ref().filter(|_| self.parts.settings.dynamic_registration);
        let Some(endpoint) = endpoint else {
            return Err(Error::auth(format!(
                "no client is registered with {}, and it offers no way to register one; register one there by hand and \
                 put its id into the settings",
                server.issuer
            )));
        };
        let wanted = match &server.auth_methods {
            Some(_) if !server.has_method(AuthMethod::None) => server.secret_method(),
            _ => AuthMethod::None,
        };
        let mut body = json!({
            "client_name": self.parts.client_name,
            "grant_types": grant_types,
            "token_endpoint_auth_method": wanted.as_str(),
        });
        if let Some(redirect_uri) = redirect_uri {
            body["redirect_uris"] = json!([redirect_uri]);
            body["response_types"] = json!(["code"]);
            body["application_type"] = application_type(redirect_uri).into();
        }
        let headers = vec![("Content-Type".into(), "application/json".into())];
        let (status, answer) = self
            .fetch(Purpose::OauthRegister, endpoint, Origin::Server, headers, Some(body.to_string()))
            .await?;
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
            (None, Some(_)) if wanted == AuthMethod::None => server.secret_method(),
            (None, Some(_)) => wanted,
            (Some("none"), _) | (None, None) => AuthMethod::None,
            (Some(other), _) => {
                return Err(Error::auth(format!(
                    "the registered client would have to authenticate by {other}"
                )));
            }
        };
        // 0: never.
        let expires = json.get("client_secret_expires_at").and_then(Value::as_u64).filter(|at| *at != 0);
        Ok(StoredClient {
            secret: secret.map(Into::into),
            secret_expires_at: expires,
            method,
            redirect_uri: redirect_uri.map(str::to_owned),
            ..client(&id, ClientOrigin::Dynamic)
        })
    }
}

impl OauthSettings {
    /// The metadata document to serve at the URL that is the client's id ([`OauthSettings::metadata_document`]), for a
    /// client of this name; `None` if there is no such URL.
    #[must_use]
    pub fn client_document(&self, name: &str) -> Option<Value> {
        let id = self.metadata_document.as_ref().filter(|url| is_document(url))?;
        // With loopback a server has to take any port (RFC 8252 section 7.3).
        let redirect_uri = self.redirect_uri.clone().or_else(|| self.listen_at.clone());
        let redirect_uri = redirect_uri.unwrap_or_else(|| match self.callback_port {
            0 => "http://127.0.0.1/callback".to_owned(),
            port => format!("http://127.0.0.1:{port}/callback"),
        });
        let method = if self.key.is_some() { AuthMethod::PrivateKeyJwt } else { AuthMethod::None };
        let mut document = json!({
            "client_id": id,
            "client_name": name,
            "application_type": application_type(&redirect_uri),
            "redirect_uris": [redirect_uri],
            "grant_types": CODE_GRANTS,
            "response_types": ["code"],
            "token_endpoint_auth_method": method.as_str(),
        });
        if let Some(key) = &self.key {
            document["jwks"] = json!({ "keys": [key.public()] });
        }
        Some(document)
    }
}

/// A public client with nothing but an id.
fn client(id: &str, origin: ClientOrigin) -> StoredClient {
    StoredClient {
        id: id.to_owned(),
        origin,
        secret: None,
        secret_expires_at: None,
        method: AuthMethod::None,
        redirect_uri: None,
    }
}

fn elsewhere(id: &str, issuer: &str, here: &str) -> Error {
    Error::auth(format!(
        "the client {id} is registered with {issuer}, but the server now asks for a login at {here}; register a client \
         there, or remove the one in the settings"
    ))
}

/// Whether a URL can be the id of a client: https, a path, nothing that has no meaning in it.
fn is_document(url: &str) -> bool {
    Url::parse(url).is_ok_and(|parsed| {
        let plain =
            parsed.fragment().is_none() && parsed.username().is_empty() && parsed.password().is_none();
        // Dots in the path would be gone after parsing, and the id is compared as a text.
        let dots = url.split('/').any(|segment| matches!(segment, "." | ".."));
        plain && parsed.scheme() == "https" && parsed.path().len() > 1 && !dots
    })
}

/// OpenID Connect's kind of application: a web page elsewhere, or a program on the person's machine.
fn application_type(redirect_uri: &str) -> &'static str {
    let local = Url::parse(redirect_uri).is_ok_and(|url| match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    });
    if !local && redirect_uri.starts_with("https:") { "web" } else { "native" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::ClientKey;

    #[test]
    fn a_document_is_known_by_its_url() {
        for good in ["https://client.test/id.json", "https://client.test/.well-known/client"] {
            assert!(is_document(good), "{good}");
        }
        for bad in [
            "http://client.test/id.json",
            "https://client.test",
            "https://client.test/",
            "https://client.test/a#b",
            "https://u@client.test/a",
            "https://client.test/a/../b",
            "https://client.test/./b",
            "x",
        ] {
            assert!(!is_document(bad), "{bad}");
        }
    }

    #[test]
    fn the_document_says_what_the_client_does() {
        let id = "https://client.test/id.json";
        let settings = OauthSettings { metadata_document: Some(id.into()), ..OauthSettings::default() };
        let document = settings.client_document("me").unwrap();
        assert_eq!((&document["client_id"], &document["client_name"]), (&json!(id), &json!("me")));
        assert_eq!(document["redirect_uris"], json!(["http://127.0.0.1/callback"]));
        assert_eq!(document["token_endpoint_auth_method"], "none");
        assert!(document.get("jwks").is_none());
        let key = ClientKey::from_pem(super::super::jose::tests::PEM).unwrap().named("k");
        let settings = OauthSettings { key: Some(key), callback_port: 7, ..settings };
        let document = settings.client_document("me").unwrap();
        assert_eq!(document["redirect_uris"], json!(["http://127.0.0.1:7/callback"]));
        assert_eq!(document["token_endpoint_auth_method"], "private_key_jwt");
        let key = &document["jwks"]["keys"][0];
        assert_eq!((&key["kid"], &key["alg"], key.get("d")), (&json!("k"), &json!("ES256"), None));
        assert!(OauthSettings::default().client_document("me").is_none());
    }

    #[test]
    fn programs_on_this_machine_are_native() {
        for native in
            ["http://127.0.0.1:1/c", "http://localhost/c", "https://localhost/c", "http://[::1]/", "app:/c"]
        {
            assert_eq!(application_type(native), "native", "{native}");
        }
        assert_eq!(application_type("https://client.test/c"), "web");
    }
}
