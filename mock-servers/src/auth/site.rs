//! Where things stand, and the documents that say so: protected-resource metadata (RFC 9728), metadata of the
//! authorization server (RFC 8414, OpenID discovery), and challenges (RFC 6750, RFC 9728).

use super::request::{UNLISTED_RESOURCE_METADATA, split_origin};
use super::{Answer, Refusal};
use crate::script::{
    AuthFault, AuthScript, ChallengeStyle, ClientAuthentication, ResourceMetadataPlace, ServerMetadataPlace,
};
use serde_json::{Value, json};
use sparring_wire::Revision;

/// A scope that the authorization server knows and the MCP endpoint never asks for: a client that requests it took
/// the wrong list.
pub const FOREIGN_SCOPE: &str = "account:admin";

/// The issuer that faults name instead of the right one.
pub const OTHER_ISSUER: &str = "https://other-issuer.example";

/// The resource that [`AuthFault::WrongResource`] names.
pub const OTHER_RESOURCE: &str = "https://other-resource.example/mcp";

/// What [`AuthFault::ShellAuthorizationUrl`] makes a shell do, as the query of the authorization endpoint.
const SHELL_QUERY: &str =
    "?a=$(touch${IFS}sparring-shell-ran)&b=`touch${IFS}sparring-shell-ran`&c=;touch${IFS}sparring-shell-ran;";

/// All that is fixed when the server starts.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) script: AuthScript,
    pub(super) revision: Revision,
    /// The MCP endpoint's URL, which is the resource identifier.
    resource: String,
    pub(super) issuer: String,
    authorization_origin: String,
    /// Empty, or with a slash in front and none at the end.
    issuer_path: String,
    place: ResourceMetadataPlace,
}

/// Which document or endpoint of the authorization server stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Metadata,
    Keys,
    Register,
    Authorize,
    Token,
}

impl Site {
    pub(super) fn new(
        script: AuthScript,
        revision: Revision,
        resource: String,
        authorization_origin: String,
    ) -> Self {
        let place = if revision < Revision::V2025_06_18 {
            ResourceMetadataPlace::None
        } else {
            script.resource_metadata
        };
        let (authorization_origin, issuer_path) = if place == ResourceMetadataPlace::None {
            (split_origin(&resource).0.to_owned(), String::new())
        } else {
            let path = script.issuer_path.as_deref().unwrap_or_default().trim_matches('/');
            let path = if path.is_empty() { String::new() } else { format!("/{path}") };
            (authorization_origin.trim_end_matches('/').to_owned(), path)
        };
        let issuer = format!("{authorization_origin}{issuer_path}");
        Self { script, revision, resource, issuer, authorization_origin, issuer_path, place }
    }

    pub(super) fn has(&self, fault: AuthFault) -> bool {
        self.script.fault == Some(fault)
    }

    pub(super) fn on_resource_origin(&self) -> bool {
        self.place == ResourceMetadataPlace::None
    }

    /// Whether this revision has resource indicators.
    pub(super) fn needs_resource(&self) -> bool {
        self.revision >= Revision::V2025_06_18
    }

    /// The identifiers under which tokens for the endpoint may be asked for: its URL, and what its metadata says.
    pub(super) fn names_resource(&self, resource: &str) -> bool {
        super::request::is_same_resource(resource, &self.resource)
            || super::request::is_same_resource(resource, self.described_resource())
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
        let mut scopes: Vec<&str> = Vec::new();
        for scope in supported.chain(asked.into_iter().flatten().flat_map(|s| s.split_ascii_whitespace())) {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        scopes
    }

    // ---- the resource's side ----

    /// The `resource` of the metadata. RFC 9728 section 3.3: the identifier that belongs to the well-known URI.
    fn described_resource(&self) -> &str {
        match self.place {
            ResourceMetadataPlace::Root => split_origin(&self.resource).0,
            _ => &self.resource,
        }
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

    pub(super) fn resource_metadata(&self) -> Value {
        let resource =
            if self.has(AuthFault::WrongResource) { OTHER_RESOURCE } else { self.described_resource() };
        let mut document = json!({
            "resource": resource,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        });
        if !self.script.scopes_supported.is_empty() {
            document["scopes_supported"] = json!(self.script.scopes_supported);
        }
        document
    }

    /// An answer of the endpoint that says what is wrong with the authorization of a request.
    pub(super) fn challenge(&self, status: u16, refusal: Option<&Refusal>, scope: Option<&str>) -> Answer {
        let mut parameters: Vec<(&str, String)> = Vec::new();
        if let Some(refusal) = refusal {
            parameters.push(("error", refusal.error.to_owned()));
            parameters.push(("error_description", refusal.description.clone()));
        }
        if let Some(scope) = scope {
            parameters.push(("scope", scope.to_owned()));
        }
        if matches!(self.place, ResourceMetadataPlace::HeaderAndPath | ResourceMetadataPlace::HeaderOnly)
            && let Some(path) = self.resource_metadata_path()
        {
            parameters.push(("resource_metadata", format!("{}{path}", split_origin(&self.resource).0)));
        }
        let text = refusal.map_or("authorization is required", |refusal| refusal.description.as_str());
        let mut answer = Answer::text(status, text);
        let field = |value: String| ("www-authenticate".to_owned(), value);
        match self.script.challenge {
            ChallengeStyle::Plain => answer.headers.push(field(plain_challenge(&parameters))),
            ChallengeStyle::Mixed => answer.headers.push(field(mixed_challenge(&parameters))),
            ChallengeStyle::TwoFields => {
                answer.headers.push(field("Basic realm=\"old clients, only\"".to_owned()));
                answer.headers.push(field(plain_challenge(&parameters)));
            }
            ChallengeStyle::Absent => {}
        }
        answer
    }

    // ---- the authorization server's side ----

    pub(super) fn page(&self, path: &str) -> Option<Page> {
        if self.server_metadata_path().is_some_and(|place| place == path) {
            return Some(Page::Metadata);
        }
        if path == self.endpoint_path("keys") && self.is_openid() {
            return Some(Page::Keys);
        }
        if path == self.endpoint_path("authorize") {
            return Some(Page::Authorize);
        }
        if path == self.endpoint_path("token") {
            return Some(Page::Token);
        }
        (path == self.endpoint_path("register") && self.offers_registration()).then_some(Page::Register)
    }

    fn server_metadata_path(&self) -> Option<String> {
        let path = &self.issuer_path;
        match self.script.server_metadata {
            ServerMetadataPlace::Oauth => Some(format!("/.well-known/oauth-authorization-server{path}")),
            ServerMetadataPlace::Openid => Some(format!("/.well-known/openid-configuration{path}")),
            ServerMetadataPlace::OpenidAppended => Some(format!("{path}/.well-known/openid-configuration")),
            ServerMetadataPlace::None => None,
        }
    }

    const fn is_openid(&self) -> bool {
        matches!(
            self.script.server_metadata,
            ServerMetadataPlace::Openid | ServerMetadataPlace::OpenidAppended
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
        let authorize = endpoint("authorize");
        let mut grants = vec!["authorization_code"];
        if self.script.refresh {
            grants.push("refresh_token");
        }
        let mut scopes = self.scopes();
        scopes.push(FOREIGN_SCOPE);
        let mut document = json!({
            "issuer": if self.has(AuthFault::MetadataIssuer) { OTHER_ISSUER } else { &self.issuer },
            "authorization_endpoint": match self.script.fault {
                Some(AuthFault::FileAuthorizationUrl) => "file:///dev/null".to_owned(),
                Some(AuthFault::ShellAuthorizationUrl) => format!("{authorize}{SHELL_QUERY}"),
                _ => authorize,
            },
            "token_endpoint": endpoint("token"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": grants,
            "token_endpoint_auth_methods_supported": self.authentication_methods(),
            "code_challenge_methods_supported":
                if self.has(AuthFault::PlainPkceOnly) { ["plain"] } else { ["S256"] },
            "authorization_response_iss_parameter_supported": true,
            "scopes_supported": scopes,
        });
        if let Some(members) = document.as_object_mut() {
            if self.has(AuthFault::NoPkceMetadata) {
                members.remove("code_challenge_methods_supported");
            }
            if self.offers_registration() {
                members.insert("registration_endpoint".to_owned(), json!(endpoint("register")));
            }
            if self.script.client_id_metadata {
                members.insert("client_id_metadata_document_supported".to_owned(), json!(true));
            }
            if self.is_openid() {
                members.insert("jwks_uri".to_owned(), json!(endpoint("keys")));
                members.insert("subject_types_supported".to_owned(), json!(["public"]));
                members.insert("id_token_signing_alg_values_supported".to_owned(), json!(["RS256"]));
            }
        }
        document
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn plain_challenge(parameters: &[(&str, String)]) -> String {
    let parameters: Vec<_> =
        parameters.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    format!("Bearer {}", parameters.join(", ")).trim_end().to_owned()
}

/// The same challenge as [`plain_challenge`], in a form that only a reader of the grammar gets right.
fn mixed_challenge(parameters: &[(&str, String)]) -> String {
    let decoy = "a, Bearer resource_metadata=\"http://127.0.0.1:9/decoy\", scope=\"decoy\"";
    let mut bearer = vec!["x-hint=none".to_owned()];
    for (name, value) in parameters.iter().rev() {
        let name = if *name == "scope" { name.to_ascii_uppercase() } else { (*name).to_owned() };
        bearer.push(format!("{name} = {}", quoted(value)));
    }
    format!(
        "Negotiate, Digest realm={}, qop=\"auth,auth-int\" ,  bearer {}",
        quoted(decoy),
        bearer.join(" ,")
    )
}
