//! The authorization server beside an HTTP endpoint.
//!
//! Which requirements a word serves stands in [`AuthScript::SERVES`] and [`AuthFault::serves`].

mod answer;
mod fault;
mod serves;

pub use answer::*;
pub use fault::*;

use super::JsonText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The authorization server beside an HTTP endpoint, and how the endpoint asks for tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuthScript {
    /// Where protected-resource metadata stands. 2025-03-26 does not know it: there it stands nowhere, and the
    /// authorization server is at the origin of the endpoint, whatever is said here.
    pub resource_metadata: ResourceMetadataPlace,
    /// How the protected-resource metadata writes the identifier of the endpoint.
    pub identifier: ResourceForm,
    /// Take `resource` only as the metadata writes it, byte for byte. By default the case of scheme and host, a default
    /// port and the slash of an empty path make no difference, and the endpoint's URL is always good.
    pub exact_resource: bool,
    /// How challenges are written.
    pub challenge: ChallengeStyle,
    /// Where the authorization server's metadata stands.
    pub server_metadata: ServerMetadataPlace,
    /// The issuer has this path, for example `/tenant1`. Without meaning where the authorization server is at the
    /// origin of the endpoint.
    pub issuer_path: Option<String>,
    /// A second authorization server, with the same settings and clients, codes and tokens of its own. Without meaning
    /// where the authorization server is at the origin of the endpoint.
    pub second_server: Option<SecondServer>,
    /// `scope` of the 401 challenge.
    pub challenge_scope: Option<String>,
    /// `scopes_supported` of the protected-resource metadata.
    pub scopes_supported: Vec<String>,
    /// Scopes that `tools/call` needs, separated by spaces; a token without them is answered 403 `insufficient_scope`.
    pub call_scope: Option<String>,
    /// The same for other methods, by method; `*` stands for all that are not named (and `tools/call` if there is no
    /// `call_scope`).
    pub method_scopes: BTreeMap<String, String>,
    /// Which scopes the challenge of a 403 names. By default it is what the revision has: up to 2025-11-25 also those of
    /// the token, later only what the request needs.
    pub step_up_names: Option<StepUpNames>,
    /// Which requests need a token; all by default.
    pub guard: GuardScript,
    /// Offer no dynamic client registration.
    pub no_registration: bool,
    /// Answer `invalid_redirect_uri` to a registration whose `application_type` does not fit its redirect URIs, as
    /// OpenID Connect has it: `web`, which also is what a missing one means, allows no loopback URI.
    pub enforce_application_type: bool,
    /// Take only redirect URIs that are equal to a registered one; by default the port of an http loopback URI is free.
    pub exact_redirect: bool,
    /// Accept client id metadata documents. They are not fetched, since the mock reaches nothing but loopback: without
    /// `client_documents` each `https` URL with a path is taken for a public client, and the transcript has the URL.
    pub client_id_metadata: bool,
    /// What is found at the URLs of client id metadata documents, by URL; elsewhere nothing is found. The documents are
    /// checked as if they were fetched, and a client is held to its redirect URIs, keys and method.
    pub client_documents: BTreeMap<String, JsonText>,
    /// Forget a registered client after this many token answers to it; from then on it is answered `invalid_client`.
    pub client_grants: Option<u32>,
    /// A client known beforehand.
    pub preregistered: Option<PreregisteredClient>,
    /// `token_endpoint_auth_methods_supported`; by default `["client_secret_basic"]` if there is a pre-registered
    /// client with a secret, else `["none"]`. A client that registers gets the method it asks for if it is here, else
    /// the first.
    pub client_authentication: Vec<ClientAuthentication>,
    /// The grants that are offered besides refresh; by default only the authorization code.
    pub grants: Vec<GrantType>,
    /// The identity provider of enterprise-managed authorization. Its assertions are taken by the grant `jwt_bearer`.
    pub identity_provider: Option<IdentityProvider>,
    /// The workload whose assertions the grant `jwt_bearer` takes (workload identity federation).
    pub workload: Option<Workload>,
    /// Bind access tokens to a key of the client (DPoP, RFC 9449).
    pub dpop: Option<DpopScript>,
    /// `expires_in` of access tokens in seconds; 3600 by default.
    pub expires_in: Option<u64>,
    /// Access tokens stop working after this many uses, whatever `expires_in` says.
    pub uses_per_token: Option<u32>,
    /// Issue refresh tokens.
    pub refresh: bool,
    /// Each refresh returns a new refresh token and the old one stops working.
    pub rotate_refresh: bool,
    /// Refresh tokens stop working this many seconds after they were issued; never by default.
    pub refresh_expires_in: Option<u64>,
    /// Offer revocation of tokens (RFC 7009).
    pub revocation: bool,
    /// What is wrong, by name: one thing, or a list.
    pub fault: Faults,
    /// Answers that are other than they should be, in any single thing. For each answer all changes that fit are made,
    /// in order, after those of `fault`.
    #[serde(deserialize_with = "answer::checked")]
    #[schemars(with = "Vec<AnswerChange>")]
    pub answers: Vec<AnswerChange>,
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
    /// Its public keys for `private_key_jwt`, as a JWK set. By default one that follows from the seed; its private half
    /// is in the server's hand-out to the client.
    #[serde(default)]
    pub keys: Option<JsonText>,
}

/// How the protected-resource metadata writes the identifier of the endpoint (its `resource`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceForm {
    /// As RFC 9728 has it for the place of the metadata: the origin at the root well-known URI, else the endpoint's URL.
    #[default]
    OfPlace,
    /// The endpoint's origin, without a path.
    Origin,
    /// The endpoint's URL with a slash at its end.
    Slash,
    /// The endpoint's URL with scheme and host in upper case.
    UpperCase,
}

/// A second authorization server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecondServer {
    /// Its part.
    pub role: SecondServerRole,
    /// The path of its issuer; `/second` by default.
    pub issuer_path: Option<String>,
    /// For `successor`: how many requests with a token of the first server are let through before the change; 1 by
    /// default.
    pub after: Option<u32>,
}

/// What the second authorization server is there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecondServerRole {
    /// It is named after the first in `authorization_servers`; tokens of both are good.
    #[default]
    Alternative,
    /// Protected-resource metadata at the well-known places that are not the right one names it, for another resource
    /// of the same host. Tokens of it are not good here.
    Neighbour,
    /// It takes the place of the first: then the metadata names it alone, and tokens of the first are dead.
    Successor,
}

/// A grant by which tokens are had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// The authorization code grant.
    AuthorizationCode,
    /// Client credentials (RFC 6749 section 4.4), for clients that authenticate.
    ClientCredentials,
    /// Assertions (RFC 7523) of the identity provider or of the workload.
    JwtBearer,
}

/// An identity provider with token exchange (RFC 8693) beside the authorization server, at the path `/idp` of the same
/// listener. It issues identity assertions (ID-JAG) for the user of an ID token that is in the hand-out to the client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IdentityProvider {
    /// The client's id at the identity provider; `sparring-idp-client` by default.
    pub client_id: Option<String>,
    /// The user, `sub` and `email` of the ID token; `demo-user@example.com` by default.
    pub user: Option<String>,
}

/// A workload that an identity provider elsewhere vouches for. Its assertions, a good one and bad ones, are in the
/// hand-out to the client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// `iss` of its assertions; `https://idp.conformance-test.local` by default.
    pub issuer: Option<String>,
    /// `sub` of its assertions; `conformance-workload` by default.
    pub subject: Option<String>,
    /// The client id that it uses; `conformance-wif-workload` by default.
    pub client_id: Option<String>,
}

/// Proofs of possession (DPoP, RFC 9449).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DpopScript {
    /// Refuse token requests without a proof. By default they get an ordinary bearer token.
    pub required: bool,
    /// Who wants a nonce in proofs.
    pub nonce: DpopNonce,
    /// How many proofs a nonce is good for; any number by default. The answer to the last one brings the next nonce.
    pub proofs_per_nonce: Option<u32>,
}

/// Who wants a nonce in DPoP proofs. The nonces of the two are different.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DpopNonce {
    /// Nobody.
    #[default]
    None,
    /// The token endpoint.
    AuthorizationServer,
    /// The MCP endpoint.
    Endpoint,
    /// Both.
    Both,
}

/// Which scopes the challenge of a 403 names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepUpNames {
    /// Those that the request needs.
    Needed,
    /// Those that the request needs and the token lacks.
    Missing,
    /// Those of the token, then those that the request needs.
    All,
    /// None.
    Nothing,
}

/// Which requests to the endpoint need a token. A token that is sent without need is looked at all the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GuardScript {
    /// Only from this one on, counting requests to the endpoint from 1.
    pub from_request: Option<u32>,
    /// Only messages with these methods; in a batch, if one of them is there.
    pub methods: Vec<String>,
    /// Not messages with these methods.
    pub except: Vec<String>,
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
    /// RFC 8414 and both places of OpenID discovery, the same document at each.
    Everywhere,
    /// The OAuth well-known part appended to the issuer's path, where no specification has it.
    OauthAppended,
    /// At the root well-known URI of RFC 8414, although the issuer has a path.
    OauthRoot,
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
    /// A signed assertion (RFC 7523), ES256 or RS256. Keys of a registered client are in the `jwks` of its registration.
    PrivateKeyJwt,
}
