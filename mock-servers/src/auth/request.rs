//! How requests of an authorization flow are read: by the server, and by judges that look at a transcript.
//!
//! Everything here is a pure function of a recorded request, so that a judge and the server can't disagree.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use sparring_wire::transcript::HttpRequest;
use std::net::{Ipv4Addr, Ipv6Addr};
use url::{Host, Url, form_urlencoded};

/// What a request of an authorization flow is for, told by its path alone, whether the path is right or guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// Protected-resource metadata (RFC 9728) at a well-known place, or at [`UNLISTED_RESOURCE_METADATA`].
    ResourceMetadata,
    /// Metadata of the authorization server (RFC 8414, OpenID discovery).
    ServerMetadata,
    /// Dynamic client registration.
    Registration,
    /// The authorization endpoint.
    Authorization,
    /// The token endpoint.
    Token,
}

/// The path of protected-resource metadata that only the challenge names.
pub const UNLISTED_RESOURCE_METADATA: &str = "/about/this-resource.json";

impl Endpoint {
    /// The endpoint that `request` means, if its path is one of an authorization flow.
    pub fn of(request: &HttpRequest) -> Option<Self> {
        let path = path(request);
        if path.contains("/.well-known/oauth-protected-resource") || path == UNLISTED_RESOURCE_METADATA {
            return Some(Self::ResourceMetadata);
        }
        if path.contains("/.well-known/oauth-authorization-server")
            || path.contains("/.well-known/openid-configuration")
        {
            return Some(Self::ServerMetadata);
        }
        match path.rsplit('/').next() {
            Some("authorize") => Some(Self::Authorization),
            Some("token") => Some(Self::Token),
            Some("register") => Some(Self::Registration),
            _ => None,
        }
    }
}

/// The path of a request, as sent.
pub fn path(request: &HttpRequest) -> &str {
    split_target(request).0
}

/// The name-value pairs of a request's query, decoded, in order.
pub fn query_pairs(request: &HttpRequest) -> Vec<(String, String)> {
    form_pairs(split_target(request).1)
}

fn split_target(request: &HttpRequest) -> (&str, &str) {
    let target = request.target.split('#').next().unwrap_or_default();
    // A proxy's request names the whole URL.
    let target = if target.starts_with('/') { target } else { split_origin(target).1 };
    target.split_once('?').unwrap_or((target, ""))
}

/// The name-value pairs of `application/x-www-form-urlencoded` text, decoded, in order.
pub fn form_pairs(text: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// The values of the header field `name` (in lower case), in order.
pub fn headers<'a>(request: &'a HttpRequest, name: &'a str) -> impl Iterator<Item = &'a str> {
    request.headers.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
}

/// The media type of the body, in lower case and without parameters; empty if there is none.
pub fn media_type(request: &HttpRequest) -> String {
    let value = headers(request, "content-type").next().unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The credentials of an `Authorization` field with this scheme (compared without case), as sent. `None` if there is
/// no field or another scheme.
pub fn credentials<'a>(request: &'a HttpRequest, scheme: &str) -> Option<&'a str> {
    let (word, rest) = headers(request, "authorization").next()?.trim().split_once(' ')?;
    word.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

/// The token of an `Authorization: Bearer` field.
pub fn bearer_token(request: &HttpRequest) -> Option<&str> {
    credentials(request, "bearer")
}

/// The token of an `Authorization: DPoP` field (RFC 9449).
pub fn dpop_token(request: &HttpRequest) -> Option<&str> {
    credentials(request, "dpop")
}

/// The client id and secret of an `Authorization: Basic` field, both decoded as RFC 6749 section 2.3.1 has it. `None`
/// if there is no such field or it can't be read.
pub fn basic_credentials(request: &HttpRequest) -> Option<(String, String)> {
    let bytes = BASE64_STANDARD.decode(credentials(request, "basic")?).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (id, secret) = text.split_once(':')?;
    Some((form_decode(id), form_decode(secret)))
}

fn form_decode(text: &str) -> String {
    // As the value of the only pair; an `&` can only be there by mistake and stands for itself.
    let pair = format!("={}", text.replace('&', "%26"));
    form_pairs(&pair).into_iter().next().map(|(_, value)| value).unwrap_or_default()
}

/// The S256 challenge of a PKCE verifier (RFC 7636).
pub fn s256(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// Whether the text may be a PKCE verifier: 43 to 128 unreserved characters.
pub fn is_verifier(text: &str) -> bool {
    (43..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~'))
}

/// Whether the text may be an S256 challenge: the base64url of 32 bytes.
pub fn is_challenge(text: &str) -> bool {
    BASE64_URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

/// Whether the host of a URL is loopback: an address of it, or `localhost`.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => Ipv4Addr::is_loopback(&address),
        Some(Host::Ipv6(address)) => Ipv6Addr::is_loopback(&address),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Whether a redirect URI is one that the specification allows: https, or http on loopback; absolute, without fragment.
pub fn is_allowed_redirect(uri: &str) -> bool {
    // The parser would drop control characters, and the URI goes into a header field as it is.
    uri.bytes().all(|b| b.is_ascii_graphic())
        && Url::parse(uri).is_ok_and(|url| {
            url.fragment().is_none()
                && match url.scheme() {
                    "https" => url.has_host(),
                    "http" => is_loopback(&url),
                    _ => false,
                }
        })
}

/// Whether a redirect URI is https at a host that is not loopback: what OpenID Connect registration has for clients of type
/// `web`.
pub fn is_remote_https(uri: &str) -> bool {
    Url::parse(uri).is_ok_and(|url| url.scheme() == "https" && !is_loopback(&url))
}

/// Whether a redirect URI is the registered one: equal, apart from the port of an http loopback URI, which a client
/// learns only when it starts to listen (RFC 8252 section 7.3).
pub fn is_registered_redirect(registered: &str, uri: &str) -> bool {
    if registered == uri {
        return true;
    }
    let without_port = |text: &str| {
        let mut url = Url::parse(text).ok().filter(|url| url.scheme() == "http" && is_loopback(url))?;
        url.set_port(None).ok()?;
        Some(url)
    };
    match (without_port(registered), without_port(uri)) {
        (Some(registered), Some(uri)) => registered == uri,
        _ => false,
    }
}

/// Whether two resource identifiers (RFC 8707) name the same resource: absolute and without fragment, equal but for the
/// case of scheme and host, a default port, and the slash of an empty path.
pub fn is_same_resource(one: &str, other: &str) -> bool {
    match (Url::parse(one), Url::parse(other)) {
        (Ok(one), Ok(other)) => one == other && one.fragment().is_none() && !one.cannot_be_a_base(),
        _ => false,
    }
}

/// Whether a client id is the URL of a metadata document: https, with a path, without fragment and user name.
pub fn is_metadata_document_url(client_id: &str) -> bool {
    Url::parse(client_id).is_ok_and(|url| {
        url.scheme() == "https"
            && url.path() != "/"
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    })
}

/// A URL's scheme and authority, and the rest, without any normalization.
pub(super) fn split_origin(url: &str) -> (&str, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    url.split_at(end)
}

/// Parameters of a request by name. A parameter without value counts as left out (RFC 6749 section 3.1).
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(super) fn new(mut pairs: Vec<(String, String)>) -> Self {
        pairs.retain(|(_, value)| !value.is_empty());
        Self(pairs)
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// If it is there twice: `invalid_request`.
    pub(super) fn one<'a>(&'a self, name: &'a str) -> Result<Option<&'a str>, super::Refusal> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            _ => Err(super::Refusal::new("invalid_request", format!("`{name}` is there twice"))),
        }
    }

    /// The value of a parameter that has to be there.
    ///
    /// # Errors
    /// If it is missing or there twice: `invalid_request`.
    pub(super) fn required<'a>(&'a self, name: &'a str) -> Result<&'a str, super::Refusal> {
        self.one(name)?.ok_or_else(|| super::Refusal::new("invalid_request", format!("`{name}` is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(target: &str) -> HttpRequest {
        HttpRequest { method: "GET".into(), target: target.into(), ..HttpRequest::default() }
    }

    fn with_authorization(value: &str) -> HttpRequest {
        HttpRequest { headers: vec![("authorization".into(), value.into())], ..HttpRequest::default() }
    }

    #[test]
    fn endpoints_are_told_by_their_path() {
        for (target, endpoint) in [
            ("/.well-known/oauth-protected-resource", Some(Endpoint::ResourceMetadata)),
            ("/.well-known/oauth-protected-resource/mcp?x=1", Some(Endpoint::ResourceMetadata)),
            ("/mcp/.well-known/oauth-protected-resource", Some(Endpoint::ResourceMetadata)),
            (UNLISTED_RESOURCE_METADATA, Some(Endpoint::ResourceMetadata)),
            ("/.well-known/oauth-authorization-server/tenant1", Some(Endpoint::ServerMetadata)),
            ("/tenant1/.well-known/openid-configuration", Some(Endpoint::ServerMetadata)),
            ("/oauth/v2/authorize?a=/token", Some(Endpoint::Authorization)),
            ("http://127.0.0.1:1/authorize?a=1", Some(Endpoint::Authorization)),
            ("/token", Some(Endpoint::Token)),
            ("/register", Some(Endpoint::Registration)),
            ("/mcp", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(Endpoint::of(&get(target)), endpoint, "{target}");
        }
    }

    #[test]
    fn queries_are_decoded_and_keep_order_and_repetition() {
        let pairs = query_pairs(&get("/a?b=1+2&a=%C3%A4&b=&c#d=1"));
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("b", "1 2"), ("a", "ä"), ("b", ""), ("c", "")]);
    }

    #[test]
    fn basic_credentials_are_form_decoded() {
        let basic = |text: &str| {
            basic_credentials(&with_authorization(&format!("bAsIc {}", BASE64_STANDARD.encode(text))))
        };
        let some = |id: &str, secret: &str| Some((id.to_owned(), secret.to_owned()));
        assert_eq!(basic("id:a%2Bb%3A%25+c"), some("id", "a+b:% c"));
        assert_eq!(basic("id:a&b=c:d"), some("id", "a&b=c:d"));
        assert_eq!(basic("id:"), some("id", ""));
        assert_eq!(basic("no colon"), None);
        assert_eq!(basic_credentials(&with_authorization("Bearer abc")), None);
        assert_eq!(basic_credentials(&with_authorization("Basic !!")), None);
        assert_eq!(bearer_token(&with_authorization("bearer  abc ")), Some("abc"));
        assert_eq!(bearer_token(&with_authorization("Bearer")), None);
    }

    #[test]
    fn pkce_values() {
        // The example of RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(s256(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(is_verifier(verifier) && is_challenge(&s256(verifier)));
        assert!(
            !is_verifier(&verifier[1..]) && !is_verifier(&"a".repeat(129)) && !is_verifier(&"+".repeat(43))
        );
        assert!(!is_challenge("short") && !is_challenge(&"=".repeat(43)));
    }

    #[test]
    fn redirect_uris() {
        for good in [
            "https://client.example/callback",
            "http://127.0.0.1:8080/cb?x=1",
            "http://[::1]:1/",
            "http://localhost/cb",
        ] {
            assert!(is_allowed_redirect(good), "{good}");
        }
        for bad in [
            "http://client.example/callback",
            "http://localhost.client.example/",
            "myapp://callback",
            "https://client.example/#fragment",
            "http://127.0.0.1/\r\nx: y",
            "/callback",
            "",
        ] {
            assert!(!is_allowed_redirect(bad), "{bad:?}");
        }
        assert!(is_registered_redirect("http://127.0.0.1/cb", "http://127.0.0.1:4711/cb"));
        for (registered, uri) in [
            ("http://127.0.0.1/cb", "http://localhost/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1/cb/"),
            ("https://client.example/cb", "https://client.example:444/cb"),
            ("http://127.0.0.1/cb", "https://127.0.0.1/cb"),
        ] {
            assert!(!is_registered_redirect(registered, uri), "{registered} {uri}");
        }
    }

    #[test]
    fn resources() {
        assert!(is_same_resource("HTTP://LOCALHOST:1/mcp", "http://localhost:1/mcp"));
        assert!(is_same_resource("http://localhost:1/", "http://localhost:1"));
        for bad in [
            "http://localhost:1/mcp/",
            "http://localhost:1",
            "localhost:1/mcp",
            "http://localhost:1/mcp#x",
            "",
        ] {
            assert!(!is_same_resource(bad, "http://localhost:1/mcp"), "{bad}");
        }
        assert!(is_metadata_document_url("https://client.example/about.json"));
        for bad in
            ["http://client.example/a", "https://client.example", "https://u@client.example/a", "client-1"]
        {
            assert!(!is_metadata_document_url(bad), "{bad}");
        }
    }
}
