//! Wrong answers by name.

use super::{AnswerChange, AuthAnswer};
use crate::auth::{OTHER_ISSUER, OTHER_RESOURCE};
use crate::script::JsonText;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// One wrong answer of the authorization server or of the metadata. Each differs from the faithful flow in one thing. The
/// most are names for an [`AnswerChange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuthFault {
    /// The redirect carries another `state`.
    WrongState,
    /// The redirect lacks `state`.
    MissingState,
    /// The redirect carries the `iss` of another server.
    WrongIssuer,
    /// The redirect lacks `iss`, although the metadata says that it is sent.
    MissingIssuer,
    /// The redirect carries the `iss` with a slash at its end.
    SlashIssuer,
    /// The redirect lacks `iss`, and the metadata does not speak of it (which is allowed).
    NoIssuer,
    /// The redirect carries the right `iss`, although the metadata does not speak of it (which is allowed).
    UnadvertisedIssuer,
    /// The redirect carries the `iss` of another server, and the metadata does not speak of it.
    UnadvertisedWrongIssuer,
    /// The redirect is an error with the `iss` of another server; its texts contain `sparring-marker`.
    WrongIssuerError,
    /// The metadata's `issuer` is another one.
    MetadataIssuer,
    /// The metadata's `issuer` has a slash at its end.
    MetadataIssuerSlash,
    /// Protected-resource metadata names another resource.
    WrongResource,
    /// Protected-resource metadata lacks `resource`.
    MissingResource,
    /// Protected-resource metadata names no authorization server.
    NoAuthorizationServers,
    /// Protected-resource metadata first names an authorization server that nobody reaches (which is allowed).
    DeadAuthorizationServer,
    /// Protected-resource metadata is answered 404, wherever it should stand.
    ResourceMetadataMissing,
    /// Protected-resource metadata is answered 500.
    ResourceMetadataError,
    /// Protected-resource metadata is cut-off JSON.
    ResourceMetadataMalformed,
    /// Protected-resource metadata is a page of HTML with status 200.
    ResourceMetadataHtml,
    /// Protected-resource metadata is answered with a redirect to the second listener.
    ResourceMetadataRedirect,
    /// The challenge says that protected-resource metadata stands at a link-local address.
    ResourceMetadataLinkLocal,
    /// Protected-resource metadata names an authorization server at a link-local address.
    LinkLocalAuthorizationServer,
    /// The authorization server's metadata is answered 500.
    MetadataError,
    /// The authorization server's metadata is a page of HTML with status 200.
    MetadataHtml,
    /// The authorization server's metadata is answered with a redirect to the second listener.
    MetadataRedirect,
    /// Metadata lacks `token_endpoint`.
    NoTokenEndpoint,
    /// Metadata lacks `authorization_endpoint`.
    NoAuthorizationEndpoint,
    /// Metadata lacks `code_challenge_methods_supported`.
    NoPkceMetadata,
    /// Metadata offers only the `plain` method. The server takes it, and S256 as ever.
    PlainPkceOnly,
    /// Metadata offers the `plain` method before S256 (which is allowed). The server takes both.
    PlainPkceFirst,
    /// The metadata's `authorization_endpoint` is a `file:` URL.
    FileAuthorizationUrl,
    /// The metadata's `authorization_endpoint` is a `javascript:` URL.
    JavascriptAuthorizationUrl,
    /// The metadata's `authorization_endpoint` has a query that a shell would act on: it creates a file named
    /// `sparring-shell-ran` in the working directory.
    ShellAuthorizationUrl,
    /// The metadata's `token_endpoint` has a user name and a password in it.
    CredentialsInUrl,
    /// The metadata's `token_endpoint` is http at a host that is not loopback and does not exist.
    PlainHttpTokenEndpoint,
    /// The metadata's `authorization_endpoint` is http at a host that is not loopback and does not exist.
    PlainHttpAuthorizationUrl,
    /// Each registration is refused with `invalid_redirect_uri`.
    RegistrationRefused,
    /// Each registration is answered 500 with HTML.
    RegistrationError,
    /// The registration answer lacks `client_id`.
    RegistrationWithoutId,
    /// Registration is answered 200 instead of 201.
    RegistrationWith200,
    /// The authorization endpoint answers `error=access_denied`.
    AccessDenied,
    /// The token endpoint answers `invalid_grant` to each authorization code.
    InvalidGrant,
    /// The token endpoint answers `invalid_grant` to each refresh.
    InvalidRefresh,
    /// The token endpoint answers `invalid_client` to each refresh.
    InvalidClientAtRefresh,
    /// The token endpoint answers 503 to each refresh.
    RefreshUnavailable,
    /// The token endpoint answers an OAuth error to each code, with status 200.
    TokenErrorWith200,
    /// The token endpoint answers 400 with a page of HTML to each code.
    TokenHtmlError,
    /// The token endpoint answers 500 to each code.
    TokenServerError,
    /// Token answers lack `access_token`.
    MissingAccessToken,
    /// Token answers lack `token_type`.
    MissingTokenType,
    /// The endpoint answers 401 to every token.
    RejectsAllTokens,
    /// The first authorization that asks for several scopes is granted without the last of them (which is allowed).
    NarrowerGrant,
    /// `tools/call` is answered 403 `insufficient_scope`, whatever the token's scopes are.
    NeverEnoughScope,
    /// 403 `insufficient_scope` is answered without `WWW-Authenticate`.
    BareForbidden,
    /// Token answers lack `expires_in` (which is allowed).
    NoExpiresIn,
    /// `expires_in` is a string.
    StringExpiresIn,
    /// `expires_in` is 0, and the token is good all the same.
    ZeroExpiresIn,
    /// `token_type` is spelt `bearer`.
    LowerCaseTokenType,
    /// Token answers have members that nobody knows (which is allowed).
    ExtraTokenMembers,
    /// The refresh answer carries no new refresh token (which is allowed).
    RefreshNotReissued,
}

const HTML: &str = "<!DOCTYPE html><title>Oops</title><p>Something broke.</p>";
const PKCE_METHODS: &str = "code_challenge_methods_supported";
const ISS_FLAG: &str = "authorization_response_iss_parameter_supported";
/// What [`AuthFault::ShellAuthorizationUrl`] makes a shell do, as the query of the authorization endpoint.
const SHELL_QUERY: &str =
    "?a=$(touch${IFS}sparring-shell-ran)&b=`touch${IFS}sparring-shell-ran`&c=;touch${IFS}sparring-shell-ran;";

fn set(of: AuthAnswer, members: &str) -> AnswerChange {
    let members = serde_json::from_str(members).unwrap_or_default();
    AnswerChange { set: Some(JsonText(members)), ..AnswerChange::new(of) }
}

fn without(of: AuthAnswer, members: &[&str]) -> AnswerChange {
    let without = members.iter().map(|name| (*name).to_owned()).collect();
    AnswerChange { without, ..AnswerChange::new(of) }
}

fn status(of: AuthAnswer, status: u16, content_type: &str, body: &str) -> AnswerChange {
    let headers = BTreeMap::from([("content-type".to_owned(), content_type.to_owned())]);
    AnswerChange { status: Some(status), headers, body: Some(body.to_owned()), ..AnswerChange::new(of) }
}

fn redirect(of: AuthAnswer) -> AnswerChange {
    let mut change = status(of, 302, "text/plain", "elsewhere");
    change.headers.insert("location".to_owned(), "{{other}}/metadata".to_owned());
    change
}

fn refusal(of: AuthAnswer, code: u16, error: &str, description: &str) -> AnswerChange {
    let body = json!({ "error": error, "error_description": description }).to_string();
    status(of, code, "application/json", &body)
}

fn tokens(change: impl Fn(AuthAnswer) -> AnswerChange) -> Vec<AnswerChange> {
    let kinds =
        [AuthAnswer::Token, AuthAnswer::Refresh, AuthAnswer::ClientCredentials, AuthAnswer::Assertion];
    kinds.into_iter().map(change).collect()
}

fn one(change: AnswerChange) -> Vec<AnswerChange> {
    vec![change]
}

fn other_issuer(member: &str) -> String {
    json!({ member: OTHER_ISSUER }).to_string()
}

impl AuthFault {
    /// What it changes. Empty for those that change how the server decides.
    pub(crate) fn changes(self) -> Vec<AnswerChange> {
        use AuthAnswer as A;
        let mut changes = match self {
            Self::WrongState => one(set(A::Authorization, r#"{"state": "state-of-another-request"}"#)),
            Self::MissingState => one(without(A::Authorization, &["state"])),
            Self::WrongIssuer => one(set(A::Authorization, &other_issuer("iss"))),
            Self::MissingIssuer => one(without(A::Authorization, &["iss"])),
            Self::SlashIssuer => one(set(A::Authorization, r#"{"iss": "{{right}}/"}"#)),
            Self::NoIssuer => {
                vec![without(A::ServerMetadata, &[ISS_FLAG]), without(A::Authorization, &["iss"])]
            }
            Self::UnadvertisedIssuer => one(without(A::ServerMetadata, &[ISS_FLAG])),
            Self::UnadvertisedWrongIssuer => {
                vec![without(A::ServerMetadata, &[ISS_FLAG]), set(A::Authorization, &other_issuer("iss"))]
            }
            Self::WrongIssuerError => one(AnswerChange {
                without: vec!["code".into()],
                ..set(
                    A::Authorization,
                    &json!({
                        "error": "access_denied",
                        "error_description": "sparring-marker",
                        "error_uri": "{{other}}/sparring-marker",
                        "iss": OTHER_ISSUER,
                    })
                    .to_string(),
                )
            }),
            Self::MetadataIssuer => one(set(A::ServerMetadata, &other_issuer("issuer"))),
            Self::MetadataIssuerSlash => one(set(A::ServerMetadata, r#"{"issuer": "{{right}}/"}"#)),
            Self::WrongResource => {
                one(set(A::ResourceMetadata, &format!(r#"{{"resource": "{OTHER_RESOURCE}"}}"#)))
            }
            Self::MissingResource => one(without(A::ResourceMetadata, &["resource"])),
            Self::NoAuthorizationServers => one(without(A::ResourceMetadata, &["authorization_servers"])),
            Self::DeadAuthorizationServer => one(set(
                A::ResourceMetadata,
                r#"{"authorization_servers": ["http://127.0.0.1:9", "{{issuer}}"]}"#,
            )),
            Self::ResourceMetadataMissing => one(status(A::ResourceMetadata, 404, "text/plain", "not found")),
            Self::ResourceMetadataError => {
                one(status(A::ResourceMetadata, 500, "text/plain", "something broke"))
            }
            Self::ResourceMetadataMalformed => one(status(
                A::ResourceMetadata,
                200,
                "application/json",
                "{\"resource\": \"{{resource}}\", \"authorization_",
            )),
            Self::ResourceMetadataHtml => one(status(A::ResourceMetadata, 200, "text/html", HTML)),
            Self::ResourceMetadataRedirect => one(redirect(A::ResourceMetadata)),
            Self::ResourceMetadataLinkLocal => {
                one(set(A::Challenge, r#"{"resource_metadata": "http://169.254.169.254/latest/meta-data"}"#))
            }
            Self::LinkLocalAuthorizationServer => {
                one(set(A::ResourceMetadata, r#"{"authorization_servers": ["http://169.254.169.254"]}"#))
            }
            Self::MetadataError => one(status(A::ServerMetadata, 500, "text/plain", "something broke")),
            Self::MetadataHtml => one(status(A::ServerMetadata, 200, "text/html", HTML)),
            Self::MetadataRedirect => one(redirect(A::ServerMetadata)),
            Self::NoTokenEndpoint => one(without(A::ServerMetadata, &["token_endpoint"])),
            Self::NoAuthorizationEndpoint => one(without(A::ServerMetadata, &["authorization_endpoint"])),
            Self::NoPkceMetadata => one(without(A::ServerMetadata, &[PKCE_METHODS])),
            Self::PlainPkceOnly => {
                one(set(A::ServerMetadata, r#"{"code_challenge_methods_supported": ["plain"]}"#))
            }
            Self::PlainPkceFirst => {
                one(set(A::ServerMetadata, r#"{"code_challenge_methods_supported": ["plain", "S256"]}"#))
            }
            Self::FileAuthorizationUrl => {
                one(set(A::ServerMetadata, r#"{"authorization_endpoint": "file:///dev/null"}"#))
            }
            Self::JavascriptAuthorizationUrl => {
                one(set(A::ServerMetadata, r#"{"authorization_endpoint": "javascript:alert(1)"}"#))
            }
            Self::ShellAuthorizationUrl => {
                let url = ["{{right}}", SHELL_QUERY].concat();
                one(set(A::ServerMetadata, &json!({ "authorization_endpoint": url }).to_string()))
            }
            Self::CredentialsInUrl => one(set(
                A::ServerMetadata,
                r#"{"token_endpoint": "http://user:password@{{host}}/oauth/v2/token"}"#,
            )),
            Self::PlainHttpTokenEndpoint => {
                one(set(A::ServerMetadata, r#"{"token_endpoint": "http://authorization.invalid/token"}"#))
            }
            Self::PlainHttpAuthorizationUrl => one(set(
                A::ServerMetadata,
                r#"{"authorization_endpoint": "http://authorization.invalid/authorize"}"#,
            )),
            Self::RegistrationRefused => one(refusal(
                A::Registration,
                400,
                "invalid_redirect_uri",
                "redirect URIs of this kind are not accepted here",
            )),
            Self::RegistrationError => one(status(A::Registration, 500, "text/html", HTML)),
            Self::RegistrationWithoutId => one(without(A::Registration, &["client_id"])),
            Self::RegistrationWith200 => {
                one(AnswerChange { status: Some(200), ..AnswerChange::new(A::Registration) })
            }
            Self::AccessDenied => one(AnswerChange {
                without: vec!["code".into()],
                ..set(
                    A::Authorization,
                    r#"{"error": "access_denied", "error_description": "the user said no"}"#,
                )
            }),
            Self::InvalidGrant => one(refusal(A::Token, 400, "invalid_grant", "the code is not accepted")),
            Self::InvalidRefresh => {
                one(refusal(A::Refresh, 400, "invalid_grant", "the refresh token was revoked"))
            }
            Self::InvalidClientAtRefresh => {
                one(refusal(A::Refresh, 401, "invalid_client", "the client is unknown"))
            }
            Self::RefreshUnavailable => one(status(A::Refresh, 503, "text/plain", "come back later")),
            Self::TokenErrorWith200 => one(AnswerChange {
                status: Some(200),
                ..refusal(A::Token, 200, "invalid_grant", "the code is not accepted")
            }),
            Self::TokenHtmlError => one(status(A::Token, 400, "text/html", HTML)),
            Self::TokenServerError => one(status(A::Token, 500, "text/plain", "something broke")),
            Self::MissingAccessToken => tokens(|of| without(of, &["access_token"])),
            Self::MissingTokenType => tokens(|of| without(of, &["token_type"])),
            Self::BareForbidden => one(AnswerChange {
                without_headers: vec!["www-authenticate".into()],
                ..AnswerChange::new(A::Forbidden)
            }),
            Self::NoExpiresIn => tokens(|of| without(of, &["expires_in"])),
            Self::StringExpiresIn => tokens(|of| set(of, r#"{"expires_in": "3600"}"#)),
            Self::ZeroExpiresIn => tokens(|of| set(of, r#"{"expires_in": 0}"#)),
            Self::LowerCaseTokenType => tokens(|of| set(of, r#"{"token_type": "bearer"}"#)),
            Self::ExtraTokenMembers => {
                tokens(|of| set(of, r#"{"x_shape": {"deep": [1, null]}, "id_token": "none"}"#))
            }
            Self::RejectsAllTokens
            | Self::NarrowerGrant
            | Self::NeverEnoughScope
            | Self::RefreshNotReissued => Vec::new(),
        };
        for change in &mut changes {
            change.allowed = self.is_allowed();
        }
        changes
    }

    /// Whether a server may do so: then it is not marked as a fault in the transcript.
    pub const fn is_allowed(self) -> bool {
        matches!(
            self,
            Self::NoIssuer
                | Self::UnadvertisedIssuer
                | Self::DeadAuthorizationServer
                | Self::ResourceMetadataMissing
                | Self::ResourceMetadataError
                | Self::MetadataError
                | Self::NoPkceMetadata
                | Self::PlainPkceOnly
                | Self::PlainPkceFirst
                | Self::RegistrationRefused
                | Self::RegistrationError
                | Self::AccessDenied
                | Self::InvalidGrant
                | Self::InvalidRefresh
                | Self::InvalidClientAtRefresh
                | Self::RefreshUnavailable
                | Self::TokenServerError
                | Self::RejectsAllTokens
                | Self::NarrowerGrant
                | Self::NeverEnoughScope
                | Self::BareForbidden
                | Self::NoExpiresIn
                | Self::ZeroExpiresIn
                | Self::LowerCaseTokenType
                | Self::ExtraTokenMembers
                | Self::RefreshNotReissued
        )
    }

    /// The requirements that it serves: ids of the catalogue, or sections of an RFC.
    pub const fn serves(self) -> &'static [&'static str] {
        match self {
            Self::WrongState => &["auth-state-verified"],
            Self::MissingState => &["auth-state-verified"],
            Self::WrongIssuer => &["auth-iss-mismatch-rejected", "auth-iss-recorded", "RFC 9207 section 2.4"],
            Self::MissingIssuer => &["auth-iss-missing-when-advertised", "RFC 9207 section 2.4"],
            Self::SlashIssuer => &["auth-iss-no-normalization"],
            Self::NoIssuer => &["auth-iss-absent-unadvertised-proceeds"],
            Self::UnadvertisedIssuer => &["auth-iss-present-unadvertised-compared"],
            Self::UnadvertisedWrongIssuer => &["auth-iss-present-unadvertised-compared"],
            Self::WrongIssuerError => &["auth-iss-error-response"],
            Self::MetadataIssuer => &["auth-discovery-issuer-identical", "RFC 8414 section 3.3"],
            Self::MetadataIssuerSlash => &["auth-discovery-issuer-identical", "RFC 8414 section 3.3"],
            Self::WrongResource => &["auth-discovery-prm-resource-matches", "RFC 9728 section 3.3"],
            Self::MissingResource => &["auth-discovery-prm-resource-matches", "RFC 9728 section 2"],
            Self::NoAuthorizationServers => {
                &["auth-discovery-use-prm", "auth-discovery-choose-authorization-server"]
            }
            Self::DeadAuthorizationServer => &["auth-discovery-choose-authorization-server"],
            Self::ResourceMetadataMissing => &["auth-discovery-none-found"],
            Self::ResourceMetadataError => &["auth-discovery-none-found"],
            Self::ResourceMetadataMalformed => &["auth-discovery-use-prm", "auth-sec-urls-sanitized"],
            Self::ResourceMetadataHtml => &["auth-discovery-use-prm"],
            Self::ResourceMetadataRedirect => {
                &["auth-sec-redirect-targets-validated", "auth-sec-ssrf-considered"]
            }
            Self::ResourceMetadataLinkLocal => {
                &["auth-sec-ssrf-considered", "auth-sec-private-ranges-blocked"]
            }
            Self::LinkLocalAuthorizationServer => {
                &["auth-sec-ssrf-considered", "auth-sec-private-ranges-blocked"]
            }
            Self::MetadataError => &["auth-discovery-as-metadata-rfc8414"],
            Self::MetadataHtml => &["auth-discovery-as-metadata-rfc8414"],
            Self::MetadataRedirect => &["auth-sec-redirect-targets-validated"],
            Self::NoTokenEndpoint => &["auth-discovery-as-metadata-rfc8414", "RFC 8414 section 2"],
            Self::NoAuthorizationEndpoint => &["auth-discovery-as-metadata-rfc8414", "RFC 8414 section 2"],
            Self::NoPkceMetadata => {
                &["auth-pkce-refuse-without-support-oauth", "auth-pkce-refuse-without-support-oidc"]
            }
            Self::PlainPkceOnly => &["auth-pkce-refuse-without-s256"],
            Self::PlainPkceFirst => &["auth-pkce-s256"],
            Self::FileAuthorizationUrl => &["auth-sec-authorization-url-scheme"],
            Self::JavascriptAuthorizationUrl => &["auth-sec-authorization-url-scheme"],
            Self::ShellAuthorizationUrl => &["auth-sec-no-shell-to-open-url"],
            Self::CredentialsInUrl => &["auth-sec-urls-sanitized"],
            Self::PlainHttpTokenEndpoint => &["auth-sec-endpoints-https", "auth-sec-http-urls-refused"],
            Self::PlainHttpAuthorizationUrl => &["auth-sec-endpoints-https", "auth-sec-http-urls-refused"],
            Self::RegistrationRefused => &[
                "auth-reg-rejection-handled",
                "auth-reg-rejection-surfaced",
                "auth-reg-rejection-adjusted-retry",
            ],
            Self::RegistrationError => &["auth-reg-rejection-handled"],
            Self::RegistrationWithoutId => &["auth-reg-client-id-before-flow", "RFC 7591 section 3.2.1"],
            Self::RegistrationWith200 => &["auth-reg-dcr-supported-should", "RFC 7591 section 3.2.1"],
            Self::AccessDenied => &["auth-error-response-ends-flow"],
            Self::InvalidGrant => &["auth-error-response-ends-flow", "RFC 6749 section 5.2"],
            Self::InvalidRefresh => &["auth-token-invalid-refresh-falls-back"],
            Self::InvalidClientAtRefresh => {
                &["auth-token-invalid-refresh-falls-back", "RFC 6749 section 5.2"]
            }
            Self::RefreshUnavailable => &["auth-token-refresh-used"],
            Self::TokenErrorWith200 => &["auth-error-response-ends-flow", "RFC 6749 section 5.2"],
            Self::TokenHtmlError => &["auth-error-response-ends-flow", "RFC 6749 section 5.2"],
            Self::TokenServerError => &["auth-error-response-ends-flow"],
            Self::MissingAccessToken => &["RFC 6749 section 5.1"],
            Self::MissingTokenType => &["RFC 6749 section 5.1"],
            Self::RejectsAllTokens => &["auth-token-401-loop-bounded"],
            Self::NarrowerGrant => &["auth-scope-narrower-grant-accepted"],
            Self::NeverEnoughScope => &["auth-scope-retry-limit", "auth-scope-upgrade-attempts-tracked"],
            Self::BareForbidden => &["auth-scope-403-other"],
            Self::NoExpiresIn => &["auth-token-type-case-insensitive"],
            Self::StringExpiresIn => &["RFC 6749 section 5.1"],
            Self::ZeroExpiresIn => &["auth-token-401-loop-bounded"],
            Self::LowerCaseTokenType => &["auth-token-type-case-insensitive"],
            Self::ExtraTokenMembers => &["auth-token-type-case-insensitive"],
            Self::RefreshNotReissued => &["auth-token-refresh-kept-if-not-reissued"],
        }
    }

    /// All of them.
    pub const ALL: &[Self] = &[
        Self::WrongState,
        Self::MissingState,
        Self::WrongIssuer,
        Self::MissingIssuer,
        Self::SlashIssuer,
        Self::NoIssuer,
        Self::UnadvertisedIssuer,
        Self::UnadvertisedWrongIssuer,
        Self::WrongIssuerError,
        Self::MetadataIssuer,
        Self::MetadataIssuerSlash,
        Self::WrongResource,
        Self::MissingResource,
        Self::NoAuthorizationServers,
        Self::DeadAuthorizationServer,
        Self::ResourceMetadataMissing,
        Self::ResourceMetadataError,
        Self::ResourceMetadataMalformed,
        Self::ResourceMetadataHtml,
        Self::ResourceMetadataRedirect,
        Self::ResourceMetadataLinkLocal,
        Self::LinkLocalAuthorizationServer,
        Self::MetadataError,
        Self::MetadataHtml,
        Self::MetadataRedirect,
        Self::NoTokenEndpoint,
        Self::NoAuthorizationEndpoint,
        Self::NoPkceMetadata,
        Self::PlainPkceOnly,
        Self::PlainPkceFirst,
        Self::FileAuthorizationUrl,
        Self::JavascriptAuthorizationUrl,
        Self::ShellAuthorizationUrl,
        Self::CredentialsInUrl,
        Self::PlainHttpTokenEndpoint,
        Self::PlainHttpAuthorizationUrl,
        Self::RegistrationRefused,
        Self::RegistrationError,
        Self::RegistrationWithoutId,
        Self::RegistrationWith200,
        Self::AccessDenied,
        Self::InvalidGrant,
        Self::InvalidRefresh,
        Self::InvalidClientAtRefresh,
        Self::RefreshUnavailable,
        Self::TokenErrorWith200,
        Self::TokenHtmlError,
        Self::TokenServerError,
        Self::MissingAccessToken,
        Self::MissingTokenType,
        Self::RejectsAllTokens,
        Self::NarrowerGrant,
        Self::NeverEnoughScope,
        Self::BareForbidden,
        Self::NoExpiresIn,
        Self::StringExpiresIn,
        Self::ZeroExpiresIn,
        Self::LowerCaseTokenType,
        Self::ExtraTokenMembers,
        Self::RefreshNotReissued,
    ];
}

/// What is wrong: nothing, one thing, or several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(pub Vec<AuthFault>);

impl From<AuthFault> for Faults {
    fn from(fault: AuthFault) -> Self {
        Self(vec![fault])
    }
}

// Mostly it is one: `fault: wrong-state`.
impl<'de> Deserialize<'de> for Faults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FaultsVisitor;
        impl<'de> Visitor<'de> for FaultsVisitor {
            type Value = Faults;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a fault, or a list of such names")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Faults, E> {
                AuthFault::deserialize(name.into_deserializer()).map(Faults::from)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Faults, A::Error> {
                let mut faults = Vec::new();
                while let Some(fault) = list.next_element()? {
                    faults.push(fault);
                }
                Ok(Faults(faults))
            }
        }
        deserializer.deserialize_any(FaultsVisitor)
    }
}

impl Serialize for Faults {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            list => list.serialize(serializer),
        }
    }
}

impl JsonSchema for Faults {
    fn schema_name() -> Cow<'static, str> {
        "Faults".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<AuthFault>();
        json_schema!({
            "description": "What is wrong: one thing, or a list.",
            "anyOf": [one, {"type": "array", "items": one}],
        })
    }
}
