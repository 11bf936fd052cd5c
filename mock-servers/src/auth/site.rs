//! Where things stand, and the documents that say so: protected-resource metadata (RFC 9728), metadata of the
//! authorization server (RFC 8414, OpenID discovery).

use super::assertions::Keys;
use super::request::{UNLISTED_RESOURCE_METADATA, is_same_resource, split_origin};
use super::token::JWT_BEARER;
use crate::script::{
    AuthFault, AuthScript, ClientAuthentication, GrantType, IdentityProvider, ResourceForm,
    ResourceMetadataPlace, SecondServerRole, ServerMetadataPlace, Workload,
};
use serde_json::{Value, json};
use sparring_wire::Revision;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A scope that the authorization server knows and the MCP endpoint never asks for: a client that requests it took
/// the wrong list.
pub const FOREIGN_SCOPE: &str = "account:admin";

/// The issuer that faults name instead of the right one.
pub const OTHER_ISSUER: &str = "https://other-issuer.example";

/// The resource that [`AuthFault::WrongResource`] names.
pub const OTHER_RESOURCE: &str = "https://other-resource.example/mcp";

/// The algorithms by which clients may sign.
const SIGNING_ALGORITHMS: [&str; 2] = ["ES256", "RS256"];

/// All that is fixed when the server starts.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) script: Arc<AuthScript>,
    pub(super) revision: Revision,
    /// The MCP endpoint's URL, which is the resource identifier.
    pub(super) resource: String,
    pub(super) issuer: String,
    authorization_origin: String,
    /// The origin of the second listener, if it is known.
    other_origin: String,
    /// Empty, or with a slash in front and none at the end.
    issuer_path: String,
    place: ResourceMetadataPlace,
    seed: u64,
    /// Made when they are first needed, which costs something.
    keys: Arc<OnceLock<Option<Keys>>>,
    /// Seconds since 1970 at the time zero.
    epoch: i64,
}

/// Which document or endpoint of the authorization server stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Metadata,
    Keys,
    Register,
    Authorize,
    Token,
    Revoke,
    ProviderMetadata,
    Exchange,
}

/// A path as part of a URL: empty, or with a slash in front and none at the end.
fn as_path(path: &str) -> String {
    let path = path.trim_matches('/');
    if path.is_empty() { String::new() } else { format!("/{path}") }
}

impl Site {
    pub(super) fn new(
        script: Arc<AuthScript>,
        revision: Revision,
        resource: String,
        authorization_origin: String,
        seed: u64,
    ) -> Self {
        let place = if revision < Revision::V2025_06_18 {
            ResourceMetadataPlace::None
        } else {
            script.resource_metadata
        };
        let (authorization_origin, issuer_path) = if place == ResourceMetadataPlace::None {
            (split_origin(&resource).0.to_owned(), String::new())
        } else {
            let path = as_path(script.issuer_path.as_deref().unwrap_or_default());
            (authorization_origin.trim_end_matches('/').to_owned(), path)
        };
        let issuer = format!("{authorization_origin}{issuer_path}");
        let other_origin = String::new();
        Self {
            script,
            revision,
            resource,
            issuer,
            authorization_origin,
            other_origin,
            issuer_path,
            place,
            seed,
            keys: Arc::default(),
            epoch: 0,
        }
    }

    /// The site of the second authorization server, where there is one.
    pub(super) fn second(&self) -> Option<Self> {
        let second = self.script.second_server.as_ref().filter(|_| !self.on_resource_origin())?;
        let issuer_path = as_path(second.issuer_path.as_deref().unwrap_or("/second"));
        Some(Self {
            script: Arc::clone(&self.script),
            revision: self.revision,
            resource: self.resource.clone(),
            issuer: format!("{}{issuer_path}", self.authorization_origin),
            authorization_origin: self.authorization_origin.clone(),
            other_origin: self.other_origin.clone(),
            issuer_path,
            place: self.place,
            seed: self.seed,
            keys: Arc::clone(&self.keys),
            epoch: self.epoch,
        })
    }

    pub(super) fn set_clock(&mut self, epoch: i64) {
        self.epoch = epoch;
    }

    pub(super) fn set_other_origin(&mut self, origin: &str) {
        origin.clone_into(&mut self.other_origin);
    }

    /// Seconds since 1970.
    pub(super) fn unix(&self, now: Duration) -> i64 {
        self.epoch.saturating_add(i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
    }

    pub(super) fn keys(&self) -> Option<&Keys> {
        let wanted = self.script.identity_provider.is_some()
            || self.script.workload.is_some()
            || self.script.client_authentication.contains(&ClientAuthentication::PrivateKeyJwt);
        wanted.then(|| self.keys.get_or_init(|| Keys::new(self.seed)).as_ref()).flatten()
    }

    /// A text of the script with what its names stand for.
    pub(super) fn fill_in(&self, text: &str, right: &str) -> String {
        if !text.contains("{{") {
            return text.to_owned();
        }
        text.replace("{{right}}", right)
            .replace("{{resource}}", &self.resource)
            .replace("{{origin}}", split_origin(&self.resource).0)
            .replace("{{issuer}}", &self.issuer)
            .replace("{{authorization}}", &self.authorization_origin)
            .replace("{{host}}", self.authorization_origin.split_once("://").map_or("", |(_, host)| host))
            .replace("{{other}}", &self.other_origin)
            .replace("{{open}}", "{{")
    }

    pub(super) fn has(&self, fault: AuthFault) -> bool {
        self.script.fault.0.contains(&fault)
    }

    pub(super) fn grants(&self, grant: GrantType) -> bool {
        match self.script.grants.as_slice() {
            [] => grant == GrantType::AuthorizationCode,
            offered => offered.contains(&grant),
        }
    }

    /// `grant_types_supported`.
    pub(super) fn grant_types(&self) -> Vec<&'static str> {
        let all = [
            (GrantType::AuthorizationCode, "authorization_code"),
            (GrantType::ClientCredentials, "client_credentials"),
            (GrantType::JwtBearer, JWT_BEARER),
        ];
        let mut names: Vec<_> =
            all.into_iter().filter(|(grant, _)| self.grants(*grant)).map(|(_, name)| name).collect();
        if self.script.refresh {
            names.push("refresh_token");
        }
        names
    }

    /// Whether an audience is this issuer; a slash at the end makes no difference.
    pub(super) fn is_issuer(&self, audience: &str) -> bool {
        audience.strip_suffix('/').unwrap_or(audience) == self.issuer
    }

    /// Whether a client may mean this server with `aud` (RFC 7523 section 3).
    pub(super) fn is_audience(&self, audience: &str) -> bool {
        self.is_issuer(audience) || audience == self.token_endpoint()
    }

    pub(super) fn token_endpoint(&self) -> String {
        format!("{}{}", self.authorization_origin, self.endpoint_path("token"))
    }

    // ---- those who sign assertions ----

    fn provider(&self) -> Option<&IdentityProvider> {
        self.script.identity_provider.as_ref()
    }

    pub(super) fn provider_issuer(&self) -> String {
        format!("{}/idp", self.authorization_origin)
    }

    pub(super) fn provider_client(&self) -> &str {
        self.provider().and_then(|p| p.client_id.as_deref()).unwrap_or("sparring-idp-client")
    }

    pub(super) fn provider_user(&self) -> &str {
        self.provider().and_then(|p| p.user.as_deref()).unwrap_or("demo-user@example.com")
    }

    fn workload(&self) -> Option<&Workload> {
        self.script.workload.as_ref()
    }

    pub(super) fn workload_issuer(&self) -> &str {
        self.workload().and_then(|w| w.issuer.as_deref()).unwrap_or("https://idp.conformance-test.local")
    }

    pub(super) fn workload_subject(&self) -> &str {
        self.workload().and_then(|w| w.subject.as_deref()).unwrap_or("conformance-workload")
    }

    pub(super) fn workload_client(&self) -> &str {
        self.workload().and_then(|w| w.client_id.as_deref()).unwrap_or("conformance-wif-workload")
    }

    // ---- what both sides need ----

    pub(super) fn on_resource_origin(&self) -> bool {
        self.place == ResourceMetadataPlace::None
    }

    /// Whether this revision has resource indicators.
    pub(super) fn needs_resource(&self) -> bool {
        self.revision >= Revision::V2025_06_18
    }

    /// The identifiers under which tokens for the endpoint may be asked for: its URL, and what its metadata says.
    pub(super) fn names_resource(&self, resource: &str) -> bool {
        let described = self.described_resource();
        if self.script.exact_resource {
            return resource == described;
        }
        is_same_resource(resource, &self.resource)
            || is_same_resource(resource, &described)
            || (self.neighbour_resource().is_some_and(|neighbour| is_same_resource(resource, &neighbour)))
    }

    pub(super) fn offers_registration(&self) -> bool {
        !self.script.no_registration
    }

    /// `token_endpoint_auth_methods_supported`, not empty.
    pub(super) fn authentication_methods(&self) -> Vec<ClientAuthentication> {
        let mut methods = self.script.client_authentication.clone();
        if methods.is_empty() {
            let secret =
                self.script.preregistered.as_ref().is_some_and(|client| client.client_secret.is_some());
            methods.push(if secret {
                ClientAuthentication::ClientSecretBasic
            } else {
                ClientAuthentication::None
            });
        }
        // A client known by its metadata document has no secret.
        if self.script.client_id_metadata && !methods.contains(&ClientAuthentication::None) {
            methods.push(ClientAuthentication::None);
        }
        methods
    }

    /// The scopes that the endpoint may ask for, in the order of the script.
    pub(super) fn scopes(&self) -> Vec<&str> {
        let supported = self.script.scopes_supported.iter().map(String::as_str);
        let asked = [&self.script.challenge_scope, &self.script.call_scope];
        let methods = self.script.method_scopes.values().flat_map(|s| s.split_ascii_whitespace());
        let mut scopes: Vec<&str> = Vec::new();
        let asked = asked.into_iter().flatten().flat_map(|s| s.split_ascii_whitespace());
        for scope in supported.chain(asked).chain(methods) {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        scopes
    }

    // ---- the resource's side ----

    /// The `resource` of the metadata. RFC 9728 section 3.3: the identifier that belongs to the well-known URI.
    fn described_resource(&self) -> String {
        let (origin, path) = split_origin(&self.resource);
        match self.script.identifier {
            ResourceForm::OfPlace if self.place == ResourceMetadataPlace::Root => origin.to_owned(),
            ResourceForm::OfPlace => self.resource.clone(),
            ResourceForm::Origin => origin.to_owned(),
            ResourceForm::Slash => format!("{}/", self.resource.trim_end_matches('/')),
            ResourceForm::UpperCase => format!("{}{path}", origin.to_ascii_uppercase()),
        }
    }

    fn neighbour_resource(&self) -> Option<String> {
        let second = self.script.second_server.as_ref()?;
        let origin = split_origin(&self.resource).0;
        (second.role == SecondServerRole::Neighbour).then(|| match self.place {
            ResourceMetadataPlace::HeaderOnly => format!("{origin}/neighbour"),
            _ => origin.to_owned(),
        })
    }

    pub(super) fn second_role(&self) -> SecondServerRole {
        self.script.second_server.as_ref().map(|second| second.role).unwrap_or_default()
    }

    /// The metadata of the other resource of the host, if it stands at `path`.
    pub(super) fn neighbour_metadata(&self, path: &str, issuer: &str) -> Option<Value> {
        const ROOT: &str = "/.well-known/oauth-protected-resource";
        let resource = self.neighbour_resource()?;
        let here = match self.place {
            ResourceMetadataPlace::HeaderAndPath | ResourceMetadataPlace::Path => path == ROOT,
            ResourceMetadataPlace::HeaderOnly => {
                path == ROOT || path.strip_prefix(ROOT) == Some(split_origin(&self.resource).1)
            }
            ResourceMetadataPlace::Root | ResourceMetadataPlace::None => false,
        };
        here.then(|| {
            json!({ "resource": resource, "authorization_servers": [issuer],
                "bearer_methods_supported": ["header"] })
        })
    }

    /// The URL of the metadata, where a challenge names it.
    pub(super) fn named_resource_metadata(&self) -> Option<String> {
        let named =
            matches!(self.place, ResourceMetadataPlace::HeaderAndPath | ResourceMetadataPlace::HeaderOnly);
        let path = self.resource_metadata_path().filter(|_| named)?;
        Some(format!("{}{path}", split_origin(&self.resource).0))
    }

    pub(super) fn resource_metadata_path(&self) -> Option<String> {
        match self.place {
            ResourceMetadataPlace::HeaderAndPath | ResourceMetadataPlace::Path => {
                let path = split_origin(&self.resource).1;
                let path = if path == "/" { "" } else { path };
                Some(format!("/.well-known/oauth-protected-resource{path}"))
            }
            ResourceMetadataPlace::Root => Some("/.well-known/oauth-protected-resource".to_owned()),
            ResourceMetadataPlace::HeaderOnly => Some(UNLISTED_RESOURCE_METADATA.to_owned()),
            ResourceMetadataPlace::None => None,
        }
    }

    pub(super) fn resource_metadata(&self, issuers: &[&str]) -> Value {
        let mut document = json!({
            "resource": self.described_resource(),
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
        });
        if !self.script.scopes_supported.is_empty() {
            document["scopes_supported"] = json!(self.script.scopes_supported);
        }
        if let Some(dpop) = &self.script.dpop {
            document["dpop_signing_alg_values_supported"] = json!(SIGNING_ALGORITHMS);
            document["dpop_bound_access_tokens_required"] = json!(dpop.required);
        }
        document
    }

    // ---- the authorization server's side ----

    pub(super) fn page(&self, path: &str) -> Option<Page> {
        if self.server_metadata_paths().iter().any(|place| place == path) {
            return Some(Page::Metadata);
        }
        let is = |name: &str| path == self.endpoint_path(name);
        let offered = [
            ("keys", self.is_openid(), Page::Keys),
            ("authorize", true, Page::Authorize),
            ("token", true, Page::Token),
            ("register", self.offers_registration(), Page::Register),
            ("revoke", self.script.revocation, Page::Revoke),
        ];
        offered
            .into_iter()
            .find(|(name, offered, _)| *offered && is(name))
            .map(|(.., page)| page)
            .or_else(|| self.provider_page(path))
    }

    fn provider_page(&self, path: &str) -> Option<Page> {
        self.script.identity_provider.as_ref()?;
        match path.strip_prefix("/idp").or_else(|| path.strip_suffix("/idp"))? {
            "/token" => Some(Page::Exchange),
            "/.well-known/openid-configuration" | "/.well-known/oauth-authorization-server" => {
                Some(Page::ProviderMetadata)
            }
            _ => None,
        }
    }

    fn server_metadata_paths(&self) -> Vec<String> {
        let path = &self.issuer_path;
        let oauth = format!("/.well-known/oauth-authorization-server{path}");
        let openid = format!("/.well-known/openid-configuration{path}");
        let appended = format!("{path}/.well-known/openid-configuration");
        match self.script.server_metadata {
            ServerMetadataPlace::Oauth => vec![oauth],
            ServerMetadataPlace::Openid => vec![openid],
            ServerMetadataPlace::OpenidAppended => vec![appended],
            ServerMetadataPlace::Everywhere => vec![oauth, openid, appended],
            ServerMetadataPlace::OauthAppended => {
                vec![format!("{path}/.well-known/oauth-authorization-server")]
            }
            ServerMetadataPlace::OauthRoot => vec!["/.well-known/oauth-authorization-server".to_owned()],
            ServerMetadataPlace::None => Vec::new(),
        }
    }

    fn is_openid(&self) -> bool {
        matches!(
            self.script.server_metadata,
            ServerMetadataPlace::Openid
                | ServerMetadataPlace::OpenidAppended
                | ServerMetadataPlace::Everywhere
        )
    }

    /// Without metadata the endpoints are at the default places of 2025-03-26; with it they are not, so that a client
    /// that guesses gets nowhere.
    fn endpoint_path(&self, name: &str) -> String {
        match self.script.server_metadata {
            ServerMetadataPlace::None => format!("/{name}"),
            _ => format!("{}/oauth/v2/{name}", self.issuer_path),
        }
    }

    pub(super) fn server_metadata(&self) -> Value {
        let endpoint = |name| format!("{}{}", self.authorization_origin, self.endpoint_path(name));
        let mut scopes = self.scopes();
        scopes.push(FOREIGN_SCOPE);
        let methods = self.authentication_methods();
        let mut document = json!({
            "issuer": self.issuer,
            "authorization_endpoint": endpoint("authorize"),
            "token_endpoint": self.token_endpoint(),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": self.grant_types(),
            "token_endpoint_auth_methods_supported": methods,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
            "scopes_supported": scopes,
        });
        let mut put = |name: &str, value: Value| document[name] = value;
        if methods.contains(&ClientAuthentication::PrivateKeyJwt) {
            put("token_endpoint_auth_signing_alg_values_supported", json!(SIGNING_ALGORITHMS));
        }
        if self.offers_registration() {
            put("registration_endpoint", json!(endpoint("register")));
        }
        if self.script.client_id_metadata {
            put("client_id_metadata_document_supported", json!(true));
        }
        if self.script.revocation {
            put("revocation_endpoint", json!(endpoint("revoke")));
        }
        if self.script.dpop.is_some() {
            put("dpop_signing_alg_values_supported", json!(SIGNING_ALGORITHMS));
        }
        if self.provider().is_some() {
            let profile = "urn:ietf:params:oauth:grant-profile:id-jag";
            put("authorization_grant_profiles_supported", json!([profile]));
        }
        if self.is_openid() {
            put("jwks_uri", json!(endpoint("keys")));
            put("subject_types_supported", json!(["public"]));
            put("id_token_signing_alg_values_supported", json!(["RS256"]));
        }
        document
    }
}
