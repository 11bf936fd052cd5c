//! The authorization server beside an HTTP endpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The authorization server beside an HTTP endpoint, and how the endpoint asks for tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuthScript {
    /// Where protected-resource metadata stands. 2025-03-26 does not know it: there it stands nowhere, and the
    /// authorization server is at the origin of the endpoint, whatever is said here.
    pub resource_metadata: ResourceMetadataPlace,
    /// How challenges are written.
    pub challenge: ChallengeStyle,
    /// Where the authorization server's metadata stands.
    pub server_metadata: ServerMetadataPlace,
    /// The issuer has this path, for example `/tenant1`. Without meaning where the authorization server is at the
    /// origin of the endpoint.
    pub issuer_path: Option<String>,
    /// `scope` of the 401 challenge.
    pub challenge_scope: Option<String>,
    /// `scopes_supported` of the protected-resource metadata.
    pub scopes_supported: Vec<String>,
    /// Scopes that `tools/call` needs, separated by spaces; a token without them is answered 403 `insufficient_scope`.
    pub call_scope: Option<String>,
    /// Offer no dynamic client registration.
    pub no_registration: bool,
    /// Accept client id metadata documents.
    pub client_id_metadata: bool,
    /// A client known beforehand.
    pub preregistered: Option<PreregisteredClient>,
    /// `token_endpoint_auth_methods_supported`; by default `["client_secret_basic"]` if there is a pre-registered
    /// client with a secret, else `["none"]`. A client that registers gets the method it asks for if it is here, else
    /// the first.
    pub client_authentication: Vec<ClientAuthentication>,
    /// `expires_in` of access tokens in seconds; 3600 by default.
    pub expires_in: Option<u64>,
    /// Access tokens stop working after this many uses, whatever `expires_in` says.
    pub uses_per_token: Option<u32>,
    /// Issue refresh tokens.
    pub refresh: bool,
    /// Each refresh returns a new refresh token and the old one stops working.
    pub rotate_refresh: bool,
    /// One thing that is wrong.
    pub fault: Option<AuthFault>,
}

/// A client that the authorization server knows beforehand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreregisteredClient {
    /// Its id.
    pub client_id: String,
    /// Its secret.
    #[serde(default)]
    pub client_secret: Option<String>,
}

/// Where protected-resource metadata stands (RFC 9728).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceMetadataPlace {
    /// At the well-known URI with the endpoint's path, named in the challenge.
    #[default]
    HeaderAndPath,
    /// There, but not named in the challenge.
    Path,
    /// At the root well-known URI only, not named.
    Root,
    /// At a place of its own that only the challenge names.
    HeaderOnly,
    /// Nowhere (2025-03-26): the authorization server is at the origin of the endpoint.
    None,
}

/// How the challenges of 401 and 403 are written. All but `absent` are the same to a reader of RFC 9110.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChallengeStyle {
    /// One field with one challenge.
    #[default]
    Plain,
    /// One field in which other schemes come first, with commas, quotes and a look-alike inside quoted text; `bearer`
    /// and names of parameters in other cases, spaces around `=`, a parameter that nobody knows.
    Mixed,
    /// Two fields, the first with another scheme.
    TwoFields,
    /// No `WWW-Authenticate` at all.
    Absent,
}

/// Where the authorization server's metadata stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerMetadataPlace {
    /// RFC 8414, with path insertion where the issuer has a path.
    #[default]
    Oauth,
    /// OpenID discovery, path inserted where the issuer has a path.
    Openid,
    /// OpenID discovery, path appended (issuer with a path).
    OpenidAppended,
    /// Nowhere: the default endpoints of 2025-03-26.
    None,
}

/// How a client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthentication {
    /// Public client.
    None,
    /// HTTP Basic.
    ClientSecretBasic,
    /// In the form body.
    ClientSecretPost,
}

/// One wrong answer of the authorization server or of the metadata. Each differs from the faithful flow in one thing.
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
    /// The metadata's `issuer` is another one.
    MetadataIssuer,
    /// Protected-resource metadata names another resource.
    WrongResource,
    /// Metadata lacks `code_challenge_methods_supported`.
    NoPkceMetadata,
    /// Metadata offers only the `plain` method. The server takes it, and S256 as ever.
    PlainPkceOnly,
    /// The metadata's `authorization_endpoint` is a `file:` URL.
    FileAuthorizationUrl,
    /// The metadata's `authorization_endpoint` has a query that a shell would act on: it creates a file named
    /// `sparring-shell-ran` in the working directory.
    ShellAuthorizationUrl,
    /// Each registration is refused with `invalid_redirect_uri`.
    RegistrationRefused,
    /// The authorization endpoint answers `error=access_denied`.
    AccessDenied,
    /// The token endpoint answers `invalid_grant` to each authorization code.
    InvalidGrant,
    /// The token endpoint answers `invalid_grant` to each refresh.
    InvalidRefresh,
    /// The endpoint answers 401 to every token.
    RejectsAllTokens,
    /// The first authorization that asks for several scopes is granted without the last of them (which is allowed).
    NarrowerGrant,
    /// `tools/call` is answered 403 `insufficient_scope`, whatever the token's scopes are.
    NeverEnoughScope,
    /// Token answers lack `expires_in` (which is allowed).
    NoExpiresIn,
    /// `token_type` is spelt `bearer`.
    LowerCaseTokenType,
    /// The refresh answer carries no new refresh token (which is allowed).
    RefreshNotReissued,
}
