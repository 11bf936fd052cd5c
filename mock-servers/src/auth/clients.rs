//! Clients: how they are known, registered, and authenticated at the token endpoint.

use super::jwt::Jwt;
use super::request::{self, Parameters};
use super::site::Site;
use super::token::State;
use super::{Answer, Refusal};
use crate::script::{ClientAuthentication, GrantType};
use serde_json::{Map, Value, json};
use sparring_wire::transcript::HttpRequest;
use std::time::Duration;

/// How many redirect URIs a client may register.
const MAX_REDIRECT_URIS: usize = 16;
/// How long a redirect URI may be, in bytes.
const MAX_REDIRECT_URI: usize = 2048;
/// How many keys of a client are looked at.
const MAX_KEYS: usize = 16;
/// `client_assertion_type` of a JWT (RFC 7523 section 2.2).
const JWT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) id: String,
    secret: Option<String>,
    /// Public keys, as JWKs.
    keys: Vec<Value>,
    /// The methods by which it may authenticate.
    methods: Vec<ClientAuthentication>,
    /// `None`: not known, each allowed one is taken.
    pub(super) redirect_uris: Option<Vec<String>>,
    pub(super) may_refresh: bool,
    /// How many token answers it got.
    pub(super) grants: u32,
}

impl Client {
    fn public(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            secret: None,
            keys: Vec::new(),
            methods: vec![ClientAuthentication::None],
            redirect_uris: None,
            may_refresh: true,
            grants: 0,
        }
    }

    /// Whether it can prove who it is.
    pub(super) fn is_confidential(&self) -> bool {
        !self.methods.contains(&ClientAuthentication::None)
    }
}

impl State {
    pub(super) fn client(&self, site: &Site, id: &str) -> Option<Client> {
        let offered = site.authentication_methods();
        if let Some(known) = site.script.preregistered.as_ref().filter(|known| known.client_id == id) {
            let secret = known.client_secret.is_some();
            let fitting = |method: &ClientAuthentication| match method {
                ClientAuthentication::None => !secret,
                ClientAuthentication::ClientSecretBasic | ClientAuthentication::ClientSecretPost => secret,
                ClientAuthentication::PrivateKeyJwt => true,
            };
            return Some(Client {
                secret: known.client_secret.clone(),
                keys: match &known.keys {
                    Some(keys) => key_set(&keys.0),
                    None => site.keys().map(|keys| keys.client.jwk()).into_iter().collect(),
                },
                methods: if offered.iter().any(fitting) {
                    offered.into_iter().filter(fitting).collect()
                } else {
                    offered
                },
                ..Client::public(id)
            });
        }
        if site.script.workload.is_some() && site.workload_client() == id {
            return Some(Client::public(id));
        }
        if site.script.client_id_metadata && request::is_metadata_document_url(id) {
            return client_of_document(site, id);
        }
        self.clients.get(id).cloned()
    }

    // ---- registration ----

    pub(super) fn register(&mut self, site: &Site, request: &HttpRequest) -> Answer {
        match self.check_registration(site, request) {
            Ok(document) => Answer::json(201, &document).with("cache-control", "no-store"),
            Err(refusal) => refusal.answer(400),
        }
    }

    fn check_registration(&mut self, site: &Site, request: &HttpRequest) -> Result<Value, Refusal> {
        let bad = |description: &str| Refusal::new("invalid_client_metadata", description);
        if request::media_type(request) != "application/json" {
            return Err(bad("client metadata is sent as application/json"));
        }
        let Ok(Value::Object(asked)) = serde_json::from_str::<Value>(&request.body) else {
            return Err(bad("client metadata is a JSON object"));
        };
        let redirect_uris = check_redirect_uris(site, &asked)?;

        let mut grant_types = strings(&asked, "grant_types")?
            .unwrap_or_else(|| vec!["authorization_code".to_owned(), "refresh_token".to_owned()]);
        let offered = site.grant_types();
        grant_types.retain(|grant| offered.contains(&grant.as_str()));
        if site.grants(GrantType::AuthorizationCode)
            && !grant_types.iter().any(|grant| grant == "authorization_code")
        {
            return Err(bad("the authorization code grant is needed"));
        }
        let response_types = strings(&asked, "response_types")?;
        if !response_types.is_none_or(|types| types.iter().any(|kind| kind == "code")) {
            return Err(bad("the response type `code` is needed"));
        }

        let method = chosen_method(site, &asked)?;
        let keys = asked.get("jwks").map(key_set).unwrap_or_default();
        if method == ClientAuthentication::PrivateKeyJwt && keys.is_empty() {
            return Err(bad("`jwks` has no key"));
        }
        let id = self.name("client");
        let secret = matches!(
            method,
            ClientAuthentication::ClientSecretBasic | ClientAuthentication::ClientSecretPost
        )
        .then(|| self.name("secret"));
        let mut document = Map::new();
        document.insert("client_id".to_owned(), json!(id));
        if let Some(secret) = &secret {
            document.insert("client_secret".to_owned(), json!(secret));
            document.insert("client_secret_expires_at".to_owned(), json!(0));
        }
        document.insert("redirect_uris".to_owned(), json!(redirect_uris));
        document.insert("grant_types".to_owned(), json!(grant_types));
        document.insert("response_types".to_owned(), json!(["code"]));
        document.insert("token_endpoint_auth_method".to_owned(), json!(method));
        // RFC 7591 section 3.2.1: all registered metadata is returned; what the server doesn't know is ignored.
        for name in ["client_name", "client_uri", "logo_uri", "scope", "contacts", "application_type", "jwks"]
        {
            if let Some(value) = asked.get(name) {
                document.insert(name.to_owned(), value.clone());
            }
        }
        let may_refresh = grant_types.iter().any(|grant| grant == "refresh_token");
        let client = Client {
            secret,
            keys,
            methods: vec![method],
            redirect_uris: Some(redirect_uris),
            may_refresh,
            ..Client::public(&id)
        };
        self.clients.insert(id, client);
        Ok(Value::Object(document))
    }

    // ---- authentication ----

    pub(super) fn authenticate(
        &mut self,
        site: &Site,
        request: &HttpRequest,
        form: &Parameters,
        now: Duration,
    ) -> Result<Client, Refusal> {
        let bad = |description: &str| Refusal::new("invalid_client", description);
        let body_id = form.one("client_id")?;
        let body_secret = form.one("client_secret")?;
        let assertion = form.one("client_assertion")?;
        let in_header = request::headers(request, "authorization").count();
        let (method, id, secret) = match (in_header, body_secret, assertion) {
            (0, None, None) => (ClientAuthentication::None, body_id.map(str::to_owned), None),
            (0, Some(secret), None) => {
                (ClientAuthentication::ClientSecretPost, body_id.map(str::to_owned), Some(secret.to_owned()))
            }
            (1, None, None) => {
                let (id, secret) = request::basic_credentials(request)
                    .ok_or_else(|| bad("the Authorization field can't be read as Basic"))?;
                if body_id.is_some_and(|body_id| body_id != id) {
                    return Err(Refusal::new("invalid_request", "there are two client ids"));
                }
                (ClientAuthentication::ClientSecretBasic, Some(id), Some(secret))
            }
            (0, None, Some(assertion)) => {
                let client = self.client_of_assertion(site, assertion, form, now)?;
                if body_id.is_some_and(|body_id| body_id != client.id) {
                    return Err(Refusal::new("invalid_request", "there are two client ids"));
                }
                return Ok(client);
            }
            _ => return Err(Refusal::new("invalid_request", "more than one way of authentication")),
        };
        // RFC 7523 section 3.1: an assertion as a grant needs no client.
        let id = id.or_else(|| {
            (method == ClientAuthentication::None && form.one("assertion").is_ok_and(|a| a.is_some()))
                .then(|| site.workload_client().to_owned())
        });
        let client = id
            .and_then(|id| self.client(site, &id))
            .ok_or_else(|| bad("the client is not named, or unknown"))?;
        if !client.methods.contains(&method) {
            return Err(bad("the client authenticates by another method than agreed"));
        }
        if method != ClientAuthentication::None && client.secret != secret {
            return Err(bad("the secret is wrong"));
        }
        Ok(client)
    }

    /// The client that a JWT authenticates (RFC 7523 section 3).
    fn client_of_assertion(
        &mut self,
        site: &Site,
        assertion: &str,
        form: &Parameters,
        now: Duration,
    ) -> Result<Client, Refusal> {
        let bad = |description: &str| Refusal::new("invalid_client", description);
        if form.required("client_assertion_type")? != JWT_ASSERTION {
            return Err(bad("the type of the assertion is not known"));
        }
        if !site.authentication_methods().contains(&ClientAuthentication::PrivateKeyJwt) {
            return Err(bad("assertions are not offered"));
        }
        let jwt = Jwt::read(assertion).ok_or_else(|| bad("the assertion is no JWT"))?;
        let id = jwt.text("sub").ok_or_else(|| bad("`sub` of the assertion is missing"))?;
        if jwt.text("iss") != Some(id) {
            return Err(bad("`iss` of the assertion is not the client"));
        }
        let client = self.client(site, id).ok_or_else(|| bad("the client is unknown"))?;
        if !client.methods.contains(&ClientAuthentication::PrivateKeyJwt) {
            return Err(bad("the client authenticates by another method than agreed"));
        }
        if !client.keys.iter().any(|key| jwt.is_signed_by(key)) {
            return Err(bad("the assertion is not signed by the client, with ES256 or RS256"));
        }
        if !jwt.is_for(|audience| site.is_audience(audience)) {
            return Err(bad("`aud` of the assertion is not this server"));
        }
        site.check_times(&jwt, now).map_err(bad)?;
        if jwt.text("jti").is_some_and(|jti| !self.assertions.first_time(&format!("{id} {jti}"))) {
            return Err(bad("the assertion was used before"));
        }
        Ok(client)
    }
}

/// The client whose id is the URL of a metadata document, if the document is a good one.
fn client_of_document(site: &Site, url: &str) -> Option<Client> {
    let documents = &site.script.client_documents;
    if documents.is_empty() {
        return Some(Client::public(url));
    }
    let document = documents.get(url)?.0.as_object()?;
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let named = text("client_name").is_some_and(|name| !name.is_empty());
    let redirect_uris = strings(document, "redirect_uris").ok().flatten().filter(|uris| !uris.is_empty());
    if text("client_id") != Some(url) || !named || redirect_uris.is_none() {
        return None;
    }
    let method = match text("token_endpoint_auth_method") {
        None | Some("none") => ClientAuthentication::None,
        Some("private_key_jwt") => ClientAuthentication::PrivateKeyJwt,
        // There is no secret that both could know.
        Some(_) => return None,
    };
    let keys = document.get("jwks").map(key_set).unwrap_or_default();
    Some(Client { keys, methods: vec![method], redirect_uris, ..Client::public(url) })
}

fn check_redirect_uris(site: &Site, asked: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    let bad = |description: &str| Refusal::new("invalid_redirect_uri", description);
    let uris = strings(asked, "redirect_uris")?.unwrap_or_default();
    if (uris.is_empty() && site.grants(GrantType::AuthorizationCode)) || uris.len() > MAX_REDIRECT_URIS {
        return Err(bad("there must be between 1 and 16 redirect URIs"));
    }
    let acceptable = |uri: &String| uri.len() <= MAX_REDIRECT_URI && request::is_allowed_redirect(uri);
    if !uris.iter().all(acceptable) {
        return Err(bad("a redirect URI is https, or http on loopback, without fragment"));
    }
    if site.script.enforce_application_type {
        match asked.get("application_type").map_or(Some("web"), Value::as_str) {
            Some("native") => {}
            Some("web") if uris.iter().all(|uri| request::is_remote_https(uri)) => {}
            Some("web") => return Err(bad("an application of type `web` has https redirect URIs elsewhere")),
            _ => {
                return Err(Refusal::new(
                    "invalid_client_metadata",
                    "`application_type` is `native` or `web`",
                ));
            }
        }
    }
    Ok(uris)
}

/// The method a client asks for if it is offered, or else the first that is.
fn chosen_method(site: &Site, asked: &Map<String, Value>) -> Result<ClientAuthentication, Refusal> {
    let offered = site.authentication_methods();
    let wanted = match asked.get("token_endpoint_auth_method") {
        None => Some(ClientAuthentication::ClientSecretBasic),
        Some(name @ Value::String(_)) => serde_json::from_value(name.clone()).ok(),
        Some(_) => {
            return Err(Refusal::new("invalid_client_metadata", "`token_endpoint_auth_method` is a string"));
        }
    };
    Ok(wanted
        .filter(|method| offered.contains(method))
        .or_else(|| offered.first().copied())
        .unwrap_or(ClientAuthentication::None))
}

/// The keys of a JWK set, or a single key.
fn key_set(set: &Value) -> Vec<Value> {
    match set.get("keys").and_then(Value::as_array) {
        Some(keys) => keys.iter().take(MAX_KEYS).cloned().collect(),
        None if set.get("kty").is_some() => vec![set.clone()],
        None => Vec::new(),
    }
}

/// A member that is an array of strings, if it is there.
fn strings(object: &Map<String, Value>, name: &str) -> Result<Option<Vec<String>>, Refusal> {
    let Some(value) = object.get(name) else { return Ok(None) };
    let list = value.as_array().and_then(|list| {
        list.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    });
    list.map(Some)
        .ok_or_else(|| Refusal::new("invalid_client_metadata", format!("`{name}` is an array of strings")))
}
