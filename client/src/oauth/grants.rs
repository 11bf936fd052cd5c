//! Grants without a person at a browser, as extensions of MCP define them: a machine's own credentials, an identity that
//! an enterprise vouches for, an identity that the platform gives to a workload.

use super::Authorizer;
use super::calls::{Origin, TokenAnswer, TokenRequest};
use super::discovery::text;
use super::plan::Plan;
use super::secret::Secret;
use super::store::{AuthMethod, ClientOrigin, CredentialKey, Credentials, StoredClient};
use crate::error::Error;
use std::path::PathBuf;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// How tokens are obtained.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Grant {
    /// A person logs in, in a browser.
    #[default]
    AuthorizationCode,
    /// The client acts for itself, by [`crate::OauthSettings::registered`] and their secret or
    /// [`crate::OauthSettings::key`] (`io.modelcontextprotocol/oauth-client-credentials`).
    ClientCredentials,
    /// The person is logged in with their enterprise already (`io.modelcontextprotocol/enterprise-managed-authorization`).
    Enterprise(EnterpriseGrant),
    /// The platform on which the client runs vouches for it: the assertion goes to the authorization server as it is
    /// (workload identity federation).
    Workload(Assertion),
}

/// An identity provider that exchanges the proof of a person's login for one that an MCP server's authorization server
/// accepts.
#[derive(Debug, Clone)]
pub struct EnterpriseGrant {
    /// The token endpoint of the identity provider.
    pub token_endpoint: String,
    /// The client's id there.
    pub client_id: String,
    /// Its secret there, sent in the form.
    pub client_secret: Option<Secret>,
    /// What the provider gave out at the login: an ID token, or a SAML assertion.
    pub subject: Assertion,
    /// What `subject` is, in the words of RFC 8693. See [`EnterpriseGrant::ID_TOKEN`].
    pub subject_type: String,
}

impl EnterpriseGrant {
    /// The type of an ID token.
    pub const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
    /// The type of a SAML assertion.
    pub const SAML2: &str = "urn:ietf:params:oauth:token-type:saml2";
}

/// A signed statement of somebody else about who this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assertion {
    /// This one. It expires some day.
    Text(Secret),
    /// What this file holds when it is needed; platforms write a fresh one there from time to time.
    File(PathBuf),
}

impl Assertion {
    async fn read(&self) -> Result<String, Error> {
        match self {
            Self::Text(text) => Ok(text.expose().to_owned()),
            Self::File(path) => {
                let text = tokio::fs::read_to_string(path).await;
                let text = text.map_err(|error| {
                    Error::auth(format!("the assertion in {} can't be read: {error}", path.display()))
                })?;
                Ok(text.trim().to_owned())
            }
        }
    }
}

impl Authorizer {
    /// Gets tokens without a person. Not for [`Grant::AuthorizationCode`].
    ///
    /// A refusal is final: the same assertion would be refused again, and nothing else may take its place.
    pub(super) async fn machine(
        &self,
        plan: &Plan,
        scope: Option<String>,
        records: &[(CredentialKey, Credentials)],
    ) -> Result<Credentials, Error> {
        let (client, mut form) = match &self.parts.settings.grant {
            Grant::AuthorizationCode => return Err(Error::auth("a person has to log in")),
            Grant::ClientCredentials => {
                let client = self.preregistered(plan, records)?.ok_or_else(|| {
                    Error::auth("client credentials are to be used, and the settings have none")
                })?;
                let client = self.configured(client, &plan.server);
                if client.method == AuthMethod::None {
                    return Err(Error::auth(format!(
                        "the client {} has neither a secret nor a key that {} accepts",
                        client.id, plan.server.issuer
                    )));
                }
                (client, vec![("grant_type", "client_credentials".to_owned())])
            }
            Grant::Enterprise(grant) => {
                let client = self.client(plan, records, None, &[JWT_BEARER]).await?;
                let assertion = self.exchange(grant, plan, scope.as_deref()).await?;
                (client, vec![("grant_type", JWT_BEARER.to_owned()), ("assertion", assertion)])
            }
            Grant::Workload(assertion) => {
                let client = match self.preregistered(plan, records)? {
                    Some(known) => self.configured(known, &plan.server),
                    // The assertion says it all; the id is one that the server leaves out.
                    None => StoredClient {
                        id: String::new(),
                        origin: ClientOrigin::Registered,
                        secret: None,
                        secret_expires_at: None,
                        method: AuthMethod::None,
                        redirect_uri: None,
                    },
                };
                let assertion = assertion.read().await?;
                (client, vec![("grant_type", JWT_BEARER.to_owned()), ("assertion", assertion)])
            }
        };
        form.extend(plan.resource.clone().map(|resource| ("resource", resource)));
        form.extend(scope.clone().map(|scope| ("scope", scope)));
        let proof = plan.bound.then(|| self.proof_key(records, &plan.server.issuer)).transpose()?;
        let request = TokenRequest {
            endpoint: &plan.server.token_endpoint,
            named_by: Origin::Server,
            issuer: &plan.server.issuer,
            client: Some(&client).filter(|client| !client.id.is_empty()),
            proof: proof.as_ref(),
            form,
        };
        match self.token_request(request).await? {
            TokenAnswer::Tokens(json) => Self::granted(plan, client, scope, proof, &json),
            TokenAnswer::Refused(_, words) => Err(Error::auth(words)),
        }
    }

    /// The first leg of the enterprise's way: the identity provider writes an assertion for this authorization server.
    async fn exchange(
        &self,
        grant: &EnterpriseGrant,
        plan: &Plan,
        scope: Option<&str>,
    ) -> Result<String, Error> {
        let resource = plan.resource.clone().ok_or_else(|| {
            Error::auth("the identity provider has to be told the resource, and the server names none")
        })?;
        let mut form = vec![
            ("grant_type", TOKEN_EXCHANGE.to_owned()),
            ("requested_token_type", ID_JAG.to_owned()),
            ("audience", plan.server.issuer.clone()),
            ("resource", resource),
            ("subject_token", grant.subject.read().await?),
            ("subject_token_type", grant.subject_type.clone()),
            ("client_id", grant.client_id.clone()),
        ];
        form.extend(grant.client_secret.as_ref().map(|s| ("client_secret", s.expose().to_owned())));
        form.extend(scope.map(|scope| ("scope", scope.to_owned())));
        let request = TokenRequest {
            endpoint: &grant.token_endpoint,
            named_by: Origin::Settings,
            issuer: &grant.token_endpoint,
            client: None,
            proof: None,
            form,
        };
        let json = match self.token_request(request).await? {
            TokenAnswer::Tokens(json) => json,
            TokenAnswer::Refused(_, words) => {
                return Err(Error::auth(format!("the identity provider: {words}")));
            }
        };
        match text(&json, "issued_token_type") {
            Some(kind) if kind == ID_JAG => {}
            kind => {
                return Err(Error::auth(format!(
                    "the identity provider issued something else than was asked for: {}",
                    kind.as_deref().unwrap_or("a token without type")
                )));
            }
        }
        text(&json, "access_token")
            .ok_or_else(|| Error::auth("the answer of the identity provider has no access_token"))
    }
}
