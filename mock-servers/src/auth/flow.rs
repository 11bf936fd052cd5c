//! Clients, codes and tokens, and the three endpoints that deal in them.

use super::request::{self, Parameters};
use super::site::Site;
use super::{Answer, Refusal};
use crate::script::{AuthFault, ClientAuthentication, ServerMetadataPlace};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use sparring_wire::transcript::HttpRequest;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use url::form_urlencoded;

/// How many clients, codes and tokens of a kind are remembered. A client that loops makes the oldest be forgotten.
const MAX_ENTRIES: usize = 1024;
/// How many redirect URIs a client may register.
const MAX_REDIRECT_URIS: usize = 16;
/// How long a redirect URI may be, in bytes.
const MAX_REDIRECT_URI: usize = 2048;
/// How long a code works.
const CODE_LIFETIME: Duration = Duration::from_secs(600);

/// Things by their name, at most [`MAX_ENTRIES`]; few enough to be searched from the newest on.
#[derive(Debug)]
struct Store<V>(VecDeque<(String, V)>);

impl<V> Store<V> {
    const fn new() -> Self {
        Self(VecDeque::new())
    }

    fn insert(&mut self, key: String, value: V) {
        if self.0.len() >= MAX_ENTRIES {
            self.0.pop_front();
        }
        self.0.push_back((key, value));
    }

    fn get(&self, key: &str) -> Option<&V> {
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        self.0.iter_mut().rev().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        self.0.retain(|(_, value)| keep(value));
    }
}

#[derive(Debug, Clone)]
struct Client {
    id: String,
    secret: Option<String>,
    /// The methods by which it may authenticate.
    methods: Vec<ClientAuthentication>,
    /// `None`: not known, each allowed one is taken.
    redirect_uris: Option<Vec<String>>,
    may_refresh: bool,
}

/// What the user agreed to.
#[derive(Debug, Clone)]
struct Grant {
    /// Names what was issued on it, for revocation.
    number: u64,
    client: String,
    scopes: Vec<String>,
    resource: Option<String>,
}

#[derive(Debug)]
struct Code {
    grant: Grant,
    redirect_uri: String,
    challenge: String,
    /// The challenge is the verifier itself.
    plain: bool,
    expires: Duration,
    spent: bool,
}

#[derive(Debug)]
pub(super) struct AccessToken {
    grant: u64,
    pub(super) scopes: Vec<String>,
    pub(super) expires: Duration,
    pub(super) uses: u32,
}

#[derive(Debug)]
struct RefreshToken {
    grant: Grant,
    /// It was rotated out.
    spent: bool,
}

#[derive(Debug)]
pub(super) struct State {
    seed: u64,
    /// How many names of each kind were given, so that one kind does not change the names of another.
    given: BTreeMap<&'static str, u64>,
    clients: Store<Client>,
    codes: Store<Code>,
    access: Store<AccessToken>,
    refresh: Store<RefreshToken>,
    grants: u64,
    narrowed: bool,
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
            grants: 0,
            narrowed: false,
        }
    }

    pub(super) fn access_token(&mut self, token: &str) -> Option<&mut AccessToken> {
        self.access.get_mut(token)
    }

    /// A name that can't be guessed, the same for each run with the seed.
    fn name(&mut self, prefix: &'static str) -> String {
        let count = self.given.entry(prefix).or_default();
        *count += 1;
        let digest = Sha256::digest(format!("sparring {} {prefix} {count}", self.seed));
        format!("{prefix}-{}", BASE64_URL_SAFE_NO_PAD.encode(&digest[..24]))
    }

    fn client(&self, site: &Site, id: &str) -> Option<Client> {
        let offered = site.authentication_methods();
        if let Some(known) = site.script.preregistered.as_ref().filter(|known| known.client_id == id) {
            let fitting = |method: &ClientAuthentication| {
                (*method == ClientAuthentication::None) == known.client_secret.is_none()
            };
            return Some(Client {
                id: id.to_owned(),
                secret: known.client_secret.clone(),
                methods: if offered.iter().any(fitting) {
                    offered.into_iter().filter(fitting).collect()
                } else {
                    offered
                },
                redirect_uris: None,
                may_refresh: true,
            });
        }
        if site.script.client_id_metadata && request::is_metadata_document_url(id) {
            return Some(Client {
                id: id.to_owned(),
                secret: None,
                methods: vec![ClientAuthentication::None],
                redirect_uris: None,
                may_refresh: true,
            });
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

        let bad_uri = |description: &str| Refusal::new("invalid_redirect_uri", description);
        if site.has(AuthFault::RegistrationRefused) {
            return Err(bad_uri("redirect URIs of this kind are not accepted here"));
        }
        let redirect_uris = strings(&asked, "redirect_uris")?.unwrap_or_default();
        if redirect_uris.is_empty() || redirect_uris.len() > MAX_REDIRECT_URIS {
            return Err(bad_uri("there must be between 1 and 16 redirect URIs"));
        }
        let acceptable = |uri: &String| uri.len() <= MAX_REDIRECT_URI && request::is_allowed_redirect(uri);
        if !redirect_uris.iter().all(acceptable) {
            return Err(bad_uri("a redirect URI is https, or http on loopback, without fragment"));
        }

        let mut grant_types = strings(&asked, "grant_types")?
            .unwrap_or_else(|| vec!["authorization_code".to_owned(), "refresh_token".to_owned()]);
        grant_types.retain(|grant| {
            grant == "authorization_code" || (grant == "refresh_token" && site.script.refresh)
        });
        if !grant_types.iter().any(|grant| grant == "authorization_code") {
            return Err(bad("the authorization code grant is needed"));
        }
        let response_types = strings(&asked, "response_types")?;
        if !response_types.is_none_or(|types| types.iter().any(|kind| kind == "code")) {
            return Err(bad("the response type `code` is needed"));
        }

        let offered = site.authentication_methods();
        let wanted = match asked.get("token_endpoint_auth_method") {
            None => Some(ClientAuthentication::ClientSecretBasic),
            Some(Value::String(_)) => {
                serde_json::from_value(asked["token_endpoint_auth_method"].clone()).ok()
            }
            Some(_) => return Err(bad("`token_endpoint_auth_method` is a string")),
        };
        let method = wanted
            .filter(|method| offered.contains(method))
            .or_else(|| offered.first().copied())
            .unwrap_or(ClientAuthentication::None);

        let id = self.name("client");
        let secret = (method != ClientAuthentication::None).then(|| self.name("secret"));
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
        for name in ["client_name", "client_uri", "logo_uri", "scope", "contacts", "application_type"] {
            if let Some(value) = asked.get(name) {
                document.insert(name.to_owned(), value.clone());
            }
        }
        let may_refresh = grant_types.iter().any(|grant| grant == "refresh_token");
        let client = Client {
            id: id.clone(),
            secret,
            methods: vec![method],
            redirect_uris: Some(redirect_uris),
            may_refresh,
        };
        self.clients.insert(id, client);
        Ok(Value::Object(document))
    }

    // ---- authorization ----

    pub(super) fn authorize(&mut self, site: &Site, request: &HttpRequest, now: Duration) -> Answer {
        let parameters = Parameters::new(request::query_pairs(request));
        // Without a client and a redirect URI that can be trusted only the user can be told (RFC 6749 section 4.1.2.1).
        let (client, redirect_uri) = match self.check_redirect(site, &parameters) {
            Ok(checked) => checked,
            Err(refusal) => {
                return Answer::text(400, &format!("{}: {}", refusal.error, refusal.description));
            }
        };

        let outcome = self.check_authorization(site, &parameters, &client, &redirect_uri, now);
        let mut query = form_urlencoded::Serializer::new(String::new());
        match &outcome {
            Ok(code) => {
                query.append_pair("code", code);
            }
            Err(refusal) => {
                query.append_pair("error", refusal.error);
                query.append_pair("error_description", &refusal.description);
            }
        }
        match site.script.fault {
            Some(AuthFault::WrongState) => {
                query.append_pair("state", &self.name("state"));
            }
            Some(AuthFault::MissingState) => {}
            _ => {
                if let Ok(Some(state)) = parameters.one("state") {
                    query.append_pair("state", state);
                }
            }
        }
        match site.script.fault {
            Some(AuthFault::WrongIssuer) => {
                query.append_pair("iss", super::OTHER_ISSUER);
            }
            Some(AuthFault::MissingIssuer) => {}
            // A client without metadata knows no issuer to compare it with, and may refuse it (RFC 9207, section 2.4).
            _ if site.script.server_metadata == ServerMetadataPlace::None => {}
            _ => {
                query.append_pair("iss", &site.issuer);
            }
        }
        // The URI stays as the client wrote it, also its own query.
        let separator = if redirect_uri.contains('?') { '&' } else { '?' };
        Answer { status: 302, headers: Vec::new(), body: String::new() }
            .with("location", format!("{redirect_uri}{separator}{}", query.finish()))
            .with("cache-control", "no-store")
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
        if registered
            .is_some_and(|list| !list.iter().any(|known| request::is_registered_redirect(known, uri)))
        {
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
        if parameters.required("response_type")? != "code" {
            return Err(Refusal::new("unsupported_response_type", "only `code` is supported"));
        }
        parameters.one("state")?;

        let challenge = parameters.required("code_challenge")?;
        // RFC 7636 section 4.3: without a method it is `plain`.
        let plain = match parameters.one("code_challenge_method")? {
            Some("S256") => false,
            Some("plain") | None if site.has(AuthFault::PlainPkceOnly) => true,
            _ => return Err(bad("`code_challenge_method` must be S256")),
        };
        if !(if plain { request::is_verifier(challenge) } else { request::is_challenge(challenge) }) {
            return Err(bad("`code_challenge` does not look like one"));
        }

        let resource = check_resource(site, parameters, None)?;
        let scopes = self.grant_scopes(site, parameters.one("scope")?)?;
        if site.has(AuthFault::AccessDenied) {
            return Err(Refusal::new("access_denied", "the user said no"));
        }

        self.grants += 1;
        let code = self.name("code");
        let grant = Grant { number: self.grants, client: client.id.clone(), scopes, resource };
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

    fn grant_scopes(&mut self, site: &Site, asked: Option<&str>) -> Result<Vec<String>, Refusal> {
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

    // ---- tokens ----

    pub(super) fn token(&mut self, site: &Site, request: &HttpRequest, now: Duration) -> Answer {
        match self.check_token_request(site, request, now) {
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
        }
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
        let client = self.authenticate(site, request, &form)?;
        match form.required("grant_type")? {
            "authorization_code" => self.redeem_code(site, &form, &client, now),
            "refresh_token" if site.script.refresh => self.redeem_refresh(site, &form, &client, now),
            _ => Err(Refusal::new("unsupported_grant_type", "this grant type is not offered")),
        }
    }

    fn authenticate(&self, site: &Site, request: &HttpRequest, form: &Parameters) -> Result<Client, Refusal> {
        let bad = |description: &str| Refusal::new("invalid_client", description);
        let body_id = form.one("client_id")?;
        let body_secret = form.one("client_secret")?;
        if form.one("client_assertion")?.is_some() {
            return Err(bad("assertions are not offered"));
        }
        let in_header = request::headers(request, "authorization").count();
        let (method, id, secret) = match (in_header, body_secret) {
            (0, None) => (ClientAuthentication::None, body_id.map(str::to_owned), None),
            (0, Some(secret)) => {
                (ClientAuthentication::ClientSecretPost, body_id.map(str::to_owned), Some(secret.to_owned()))
            }
            (1, None) => {
                let (id, secret) = request::basic_credentials(request)
                    .ok_or_else(|| bad("the Authorization field can't be read as Basic"))?;
                if body_id.is_some_and(|body_id| body_id != id) {
                    return Err(Refusal::new("invalid_request", "there are two client ids"));
                }
                (ClientAuthentication::ClientSecretBasic, Some(id), Some(secret))
            }
            _ => return Err(Refusal::new("invalid_request", "more than one way of authentication")),
        };
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

    fn redeem_code(
        &mut self,
        site: &Site,
        form: &Parameters,
        client: &Client,
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
        if site.has(AuthFault::InvalidGrant) {
            return Err(bad("the code is not accepted"));
        }

        let refresh = (site.script.refresh && client.may_refresh).then(|| {
            let token = self.name("rt");
            self.refresh.insert(token.clone(), RefreshToken { grant: grant.clone(), spent: false });
            token
        });
        Ok(self.issue(site, &grant, grant.scopes.clone(), refresh, now))
    }

    fn redeem_refresh(
        &mut self,
        site: &Site,
        form: &Parameters,
        client: &Client,
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
        check_resource(site, form, grant.resource.as_deref())?;
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
        if site.has(AuthFault::InvalidRefresh) {
            return Err(bad("the refresh token was revoked"));
        }

        let refresh = if site.has(AuthFault::RefreshNotReissued) {
            None
        } else if site.script.rotate_refresh {
            entry.spent = true;
            let token = self.name("rt");
            self.refresh.insert(token.clone(), RefreshToken { grant: grant.clone(), spent: false });
            Some(token)
        } else {
            Some(token.to_owned())
        };
        Ok(self.issue(site, &grant, scopes, refresh, now))
    }

    /// Issues an access token, and answers with it.
    fn issue(
        &mut self,
        site: &Site,
        grant: &Grant,
        scopes: Vec<String>,
        refresh: Option<String>,
        now: Duration,
    ) -> Answer {
        let token = self.name("at");
        let expires_in = site.script.expires_in.unwrap_or(3600);
        let token_type = if site.has(AuthFault::LowerCaseTokenType) { "bearer" } else { "Bearer" };
        let mut document = Map::new();
        document.insert("access_token".to_owned(), json!(token));
        document.insert("token_type".to_owned(), json!(token_type));
        if !site.has(AuthFault::NoExpiresIn) {
            document.insert("expires_in".to_owned(), json!(expires_in));
        }
        if let Some(refresh) = refresh {
            document.insert("refresh_token".to_owned(), json!(refresh));
        }
        if !scopes.is_empty() {
            document.insert("scope".to_owned(), json!(scopes.join(" ")));
        }
        let expires = now.saturating_add(Duration::from_secs(expires_in));
        self.access.insert(token, AccessToken { grant: grant.number, scopes, expires, uses: 0 });
        Answer::json(200, &Value::Object(document))
            .with("cache-control", "no-store")
            .with("pragma", "no-cache")
    }

    fn revoke(&mut self, grant: u64) {
        self.access.retain(|token| token.grant != grant);
        self.refresh.retain(|token| token.grant.number != grant);
    }
}

/// The `resource` of a request, where the revision has it: there, one, that of the endpoint, and, in a token request,
/// the one of the authorization.
fn check_resource(
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

/// A member that is an array of strings, if it is there.
fn strings(object: &Map<String, Value>, name: &str) -> Result<Option<Vec<String>>, Refusal> {
    let Some(value) = object.get(name) else { return Ok(None) };
    let list = value.as_array().and_then(|list| {
        list.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    });
    list.map(Some)
        .ok_or_else(|| Refusal::new("invalid_client_metadata", format!("`{name}` is an array of strings")))
}
