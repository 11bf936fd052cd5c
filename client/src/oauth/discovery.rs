//! Which URLs hold which metadata, and what is believed of it.

use super::jose::ALGORITHM;
use super::store::AuthMethod;
use crate::error::Error;
use serde_json::Value;
use sparring_wire::Revision;
use url::Url;

/// What is known of an authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthServer {
    pub(crate) issuer: String,
    /// None: it has no users to log in, only machines.
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: String,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) auth_methods: Option<Vec<String>>,
    pub(crate) challenge_methods: Option<Vec<String>>,
    pub(crate) scopes: Vec<String>,
    pub(crate) knows_documents: bool,
    pub(crate) sends_iss: bool,
    /// Whether it binds tokens to keys by the algorithm that this client has.
    pub(crate) binds_tokens: bool,
}

/// The list of strings at `key`.
pub(crate) fn strings(json: &Value, key: &str) -> Option<Vec<String>> {
    let list = json.get(key)?.as_array()?;
    Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The string at `key`; an empty one counts as absent.
pub(crate) fn text(json: &Value, key: &str) -> Option<String> {
    json.get(key).and_then(Value::as_str).filter(|s| !s.is_empty()).map(str::to_owned)
}

impl AuthServer {
    /// Reads a metadata document.
    pub(crate) fn read(json: &Value, fallback_issuer: &str) -> Result<Self, Error> {
        let token_endpoint = text(json, "token_endpoint")
            .ok_or_else(|| Error::auth("the authorization server's metadata has no token_endpoint"))?;
        let flag = |key: &str| json.get(key) == Some(&Value::Bool(true));
        Ok(Self {
            issuer: text(json, "issuer").unwrap_or_else(|| fallback_issuer.to_owned()),
            authorization_endpoint: text(json, "authorization_endpoint"),
            token_endpoint,
            registration_endpoint: text(json, "registration_endpoint"),
            auth_methods: strings(json, "token_endpoint_auth_methods_supported"),
            challenge_methods: strings(json, "code_challenge_methods_supported"),
            scopes: strings(json, "scopes_supported").unwrap_or_default(),
            knows_documents: flag("client_id_metadata_document_supported"),
            sends_iss: flag("authorization_response_iss_parameter_supported"),
            binds_tokens: strings(json, "dpop_signing_alg_values_supported")
                .is_some_and(|algorithms| algorithms.iter().any(|a| a == ALGORITHM)),
        })
    }

    /// What 2025-03-26 assumes of a server without metadata.
    pub(crate) fn by_default(origin: &str) -> Self {
        Self {
            issuer: origin.to_owned(),
            authorization_endpoint: Some(format!("{origin}/authorize")),
            token_endpoint: format!("{origin}/token"),
            registration_endpoint: Some(format!("{origin}/register")),
            auth_methods: None,
            challenge_methods: None,
            scopes: Vec::new(),
            knows_documents: false,
            sends_iss: false,
            binds_tokens: false,
        }
    }

    /// Whether clients can authenticate by this method.
    pub(crate) fn has_method(&self, method: AuthMethod) -> bool {
        self.auth_methods.as_ref().is_some_and(|methods| methods.iter().any(|m| m == method.as_str()))
    }

    /// How to use a secret; the default of RFC 8414 is Basic.
    pub(crate) fn secret_method(&self) -> AuthMethod {
        if self.has_method(AuthMethod::Post) && !self.has_method(AuthMethod::Basic) {
            AuthMethod::Post
        } else {
            AuthMethod::Basic
        }
    }

    /// Whether PKCE with S256 can be relied on.
    pub(crate) fn check_pkce(&self, revision: Revision) -> Result<(), Error> {
        match &self.challenge_methods {
            Some(methods) if methods.iter().any(|m| m == "S256") => Ok(()),
            None if revision < Revision::V2025_11_25 => Ok(()),
            Some(_) => Err(Error::auth("the authorization server does not support PKCE with S256")),
            None => Err(Error::auth("the authorization server does not say that it supports PKCE")),
        }
    }
}

/// Scheme, host and port, without a slash at the end.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Where metadata of the resource may be, in order. `stated`: the URL from the challenge, the only place if given.
pub(crate) fn resource_metadata(server: &Url, stated: Option<&str>) -> Vec<String> {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    if let Some(stated) = stated {
        return vec![stated.to_owned()];
    }
    let (origin, path) = (origin(server), server.path().trim_end_matches('/'));
    let root = format!("{origin}{WELL_KNOWN}");
    if path.is_empty() { vec![root] } else { vec![format!("{root}{path}"), root] }
}

/// Where metadata of the authorization server may be, in order.
pub(crate) fn server_metadata(issuer: &Url) -> Vec<String> {
    let (origin, path) = (origin(issuer), issuer.path().trim_end_matches('/'));
    let mut places = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    places
}

/// Whether metadata for `resource` holds for the server at `url`: the same origin, and the same path or one above.
pub(crate) fn covers(resource: &str, url: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    if resource.origin() != url.origin() || resource.fragment().is_some() {
        return false;
    }
    let above = resource.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The identifier of the server at `url` as a resource: without fragment, and without a slash as its whole path.
pub(crate) fn canonical(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    let text = url.to_string();
    if url.path() == "/" && url.query().is_none() { text.trim_end_matches('/').to_owned() } else { text }
}

/// Whether two issuers are the same. From 2026-07-28 on they have to be identical; before, a slash as the whole path makes
/// no difference.
pub(crate) fn same_issuer(one: &str, other: &str, revision: Revision) -> bool {
    let bare = |text: &str| match Url::parse(text) {
        Ok(url) if revision < Revision::V2026_07_28 && url.path() == "/" => {
            text.trim_end_matches('/').to_owned()
        }
        _ => text.to_owned(),
    };
    bare(one) == bare(other)
}

/// Scopes, each once, in the order they come.
pub(crate) fn union<'a>(lists: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut all: Vec<&str> = Vec::new();
    for scope in lists.into_iter().flat_map(str::split_whitespace) {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    (!all.is_empty()).then(|| all.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn metadata_is_looked_for_in_the_order_of_the_specification() {
        let server = url("https://mcp.test/public/mcp");
        assert_eq!(
            resource_metadata(&server, None),
            [
                "https://mcp.test/.well-known/oauth-protected-resource/public/mcp",
                "https://mcp.test/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(resource_metadata(&server, Some("https://x.test/y")), ["https://x.test/y"]);
        assert_eq!(resource_metadata(&url("https://mcp.test/"), None).len(), 1);
        assert_eq!(
            server_metadata(&url("https://as.test/tenant1")),
            [
                "https://as.test/.well-known/oauth-authorization-server/tenant1",
                "https://as.test/.well-known/openid-configuration/tenant1",
                "https://as.test/tenant1/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            server_metadata(&url("https://as.test:8443")),
            [
                "https://as.test:8443/.well-known/oauth-authorization-server",
                "https://as.test:8443/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn a_resource_covers_itself_and_what_is_below() {
        let server = url("https://mcp.test/a/b");
        for good in
            ["https://mcp.test", "https://MCP.test:443/", "https://mcp.test/a", "https://mcp.test/a/b/"]
        {
            assert!(covers(good, &server), "{good}");
        }
        for bad in [
            "https://mcp.test/a/bc",
            "https://mcp.test/x",
            "https://other.test/a/b",
            "http://mcp.test/a/b",
            "",
            "https://mcp.test/a#f",
        ] {
            assert!(!covers(bad, &server), "{bad}");
        }
    }

    #[test]
    fn the_canonical_form_has_no_needless_slash() {
        assert_eq!(canonical(&url("HTTPS://Mcp.Test:443/")), "https://mcp.test");
        assert_eq!(canonical(&url("https://mcp.test/a/?q=1#f")), "https://mcp.test/a/?q=1");
    }

    #[test]
    fn issuers_are_compared_as_the_revision_says() {
        let (one, other) = ("https://as.test", "https://as.test/");
        assert!(same_issuer(one, other, Revision::V2025_11_25));
        assert!(!same_issuer(one, other, Revision::V2026_07_28));
        assert!(same_issuer(one, one, Revision::V2026_07_28));
        assert!(!same_issuer("https://as.test/t", "https://as.test/t/", Revision::V2025_11_25));
        assert!(!same_issuer("https://AS.test", one, Revision::V2026_07_28));
    }

    #[test]
    fn a_union_has_each_scope_once() {
        assert_eq!(union(["a b", "b  c", ""]).as_deref(), Some("a b c"));
        assert_eq!(union(["", " "]), None);
    }
}
