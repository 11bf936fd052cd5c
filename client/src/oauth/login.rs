//! A login as a step of its own, and the error that asks for it.

use super::challenge::Challenge;
use super::plan::{Plan, Spoken};
use super::store::{CredentialKey, Credentials};
use super::{Authorizer, Flight};
use crate::client::Client;
use crate::error::Error;
use crate::http::{HttpClient, HttpError, HttpRequest, HttpTarget, Purpose, SystemHttp};
use crate::settings::{LoginPolicy, OauthSettings};
use bytes::Bytes;
use serde_json::json;
use std::fmt;
use std::sync::Arc;
use tokio::time::timeout;

/// A server asks for a login, and [`crate::LoginPolicy::Never`] says that it is a step of its own: to be made with
/// [`crate::Client::login`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeedsLogin {
    /// The name given to the server.
    pub server: String,
    /// Its endpoint.
    pub url: String,
    /// The authorization server where the login would be.
    pub issuer: String,
    /// The scopes that would be asked for.
    pub scope: Option<String>,
    /// Whether there were credentials before, which do not suffice any more.
    pub again: bool,
}

impl fmt::Display for NeedsLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, issuer, again, .. } = self;
        let how = if *again { "needs a new login" } else { "needs a login" };
        write!(f, "the server {server} {how}, at {issuer}")
    }
}

impl Authorizer {
    pub(super) fn needs_login(&self, plan: &Plan, scope: Option<String>, again: bool) -> Error {
        Error::NeedsLogin(Box::new(NeedsLogin {
            server: self.parts.server.to_string(),
            url: self.parts.target.url.clone(),
            issuer: plan.server.issuer.clone(),
            scope,
            again,
        }))
    }

    /// Gets new credentials, whatever is held. `challenges`: what the server said to a request without a token, as far
    /// as it was asked.
    async fn fresh(&self, challenges: &[String], spoken: Spoken) -> Result<CredentialKey, Error> {
        let challenge = Challenge::find(challenges);
        let mut flight = self.flight.lock().await;
        self.load(&mut flight).await?;
        let known: Vec<String> = self.known(&flight);
        let plan = self.plan(&challenge, spoken, &known).await?;
        let before: Option<Credentials> = flight
            .held
            .as_ref()
            .filter(|held| held.key.issuer == plan.server.issuer)
            .map(|held| held.record.clone());
        self.obtain(&mut flight, &plan, before.as_ref(), false).await?;
        Ok(self.key(&plan.server.issuer))
    }

    /// The issuers that credentials are held of, or configured for.
    pub(super) fn known(&self, flight: &Flight) -> Vec<String> {
        let held = flight.held.iter().map(|held| held.key.issuer.clone());
        held.chain(self.parts.settings.registered.iter().filter_map(|client| client.issuer.clone())).collect()
    }
}

impl Client {
    /// Logs in to a server over HTTP, whatever credentials there are: asks the server what it demands, finds its
    /// authorization server, sends the person there by the [`crate::Browser`] (or uses another [`super::Grant`]), and
    /// stores what comes back. Connections made later use it; one that is open finds it when the server refuses its
    /// token. Returns which record was written.
    ///
    /// # Errors
    /// [`Error::Start`] if the server can't be reached, [`Error::Auth`] if the login fails.
    pub async fn login(&self, server: &str, target: &HttpTarget) -> Result<CredentialKey, Error> {
        let settings = &self.parts.settings;
        let oauth = settings.oauth.clone().unwrap_or_default();
        let oauth = OauthSettings { login: LoginPolicy::WhenDemanded, ..oauth };
        let http: Arc<dyn HttpClient> = match &self.parts.http {
            Some(http) => Arc::clone(http),
            None => Arc::new(SystemHttp::new().map_err(|error| Error::Start(error.to_string()))?),
        };
        let server: Arc<str> = Arc::from(server);
        let wait = oauth.http_wait;
        let challenges = timeout(wait, self.ask(&server, target, &*http)).await;
        let challenges = challenges.map_err(|_| {
            Error::Start(format!("no answer from {} within {} ms", target.url, wait.as_millis()))
        })??;
        let spoken = Spoken { revision: settings.offer, settled: false };
        self.authorizer(&server, target, oauth, &http).fresh(&challenges, spoken).await
    }

    /// Forgets all credentials for a server over HTTP, its registrations included. Returns which records there were.
    /// Connections that are open go on with what they have.
    ///
    /// # Errors
    /// [`Error::Auth`] if the store fails.
    pub async fn logout(&self, target: &HttpTarget) -> Result<Vec<CredentialKey>, Error> {
        let store = &self.parts.credentials;
        let records = store.of_server(&target.url).await.map_err(super::unstored)?;
        let keys: Vec<CredentialKey> = records.into_iter().map(|(key, _)| key).collect();
        for key in &keys {
            store.remove(key).await.map_err(super::unstored)?;
        }
        Ok(keys)
    }

    /// Sends one request without a token; the challenges of the answer. What it opens is ended.
    async fn ask(
        &self,
        server: &Arc<str>,
        target: &HttpTarget,
        http: &dyn HttpClient,
    ) -> Result<Vec<String>, Error> {
        let settings = &self.parts.settings;
        let revision = settings.offer;
        let info = json!({ "name": settings.name, "version": settings.version });
        let body = if revision.has_handshake() {
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": info } })
        } else {
            json!({ "jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": { "_meta": {
                "io.modelcontextprotocol/protocolVersion": revision.as_str(),
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": info } } })
        };
        let mut headers = vec![
            ("Content-Type".to_owned(), "application/json".to_owned()),
            ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
        ];
        if revision.is_stateless() {
            headers.push(("MCP-Protocol-Version".into(), revision.as_str().into()));
            headers.push(("Mcp-Method".into(), "server/discover".into()));
        }
        let own = target.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
        headers.extend(own.cloned());
        let request = |purpose, method: &str, headers, body| HttpRequest {
            server: Arc::clone(server),
            purpose,
            method: method.to_owned(),
            url: target.url.clone(),
            headers,
            body,
        };
        let post = request(Purpose::McpPost, "POST", headers, Some(Bytes::from(body.to_string())));
        let response = http.send(post).await.map_err(|error| match error {
            HttpError::Connect(why) => Error::Start(format!("could not reach {}: {why}", target.url)),
            HttpError::Other(why) => Error::Start(format!("the request to {} failed: {why}", target.url)),
        })?;
        if let Some(session) = response.header("mcp-session-id") {
            let headers = vec![("Mcp-Session-Id".to_owned(), session.to_owned())];
            // That the server keeps it is no reason not to log in.
            drop(http.send(request(Purpose::McpDelete, "DELETE", headers, None)).await);
        }
        let challenges = response.headers.iter().filter(|(name, _)| name == "www-authenticate");
        Ok(challenges.map(|(_, value)| value.clone()).collect())
    }
}
