//! Where tokens and registrations are kept.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// How a client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMethod {
    /// Not at all: a public client.
    None,
    /// `client_secret_basic`.
    Basic,
    /// `client_secret_post`.
    Post,
}

/// A client as an authorization server knows it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredClient {
    /// `client_id`.
    pub id: String,
    /// `client_secret`.
    pub secret: Option<String>,
    /// How it authenticates.
    pub method: AuthMethod,
    /// The redirect URI that was registered with it.
    pub redirect_uri: Option<String>,
}

/// Tokens for one MCP server.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSet {
    /// The access token.
    pub access: String,
    /// The refresh token.
    pub refresh: Option<String>,
    /// When the access token expires.
    pub expires_at: Option<SystemTime>,
    /// The scopes granted, or else asked for.
    pub scope: Option<String>,
    /// Who issued them.
    pub issuer: String,
    /// The `resource` they were asked for with.
    pub resource: Option<String>,
    /// Where to refresh them.
    pub token_endpoint: String,
    /// The client they were issued to.
    pub client: StoredClient,
}

impl fmt::Debug for StoredClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredClient")
            .field("id", &self.id)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSet")
            .field("issuer", &self.issuer)
            .field("resource", &self.resource)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// Keeps credentials. Tokens belong to the MCP server they were issued for (`url`: its endpoint as configured),
/// registrations to an issuer.
pub trait CredentialStore: Send + Sync {
    /// The tokens for the server at `url`.
    fn tokens(&self, url: &str) -> Option<TokenSet>;
    /// Replaces or removes them.
    fn set_tokens(&self, url: &str, tokens: Option<TokenSet>);
    /// The client registered with `issuer`.
    fn client(&self, issuer: &str) -> Option<StoredClient>;
    /// Replaces or removes it.
    fn set_client(&self, issuer: &str, client: Option<StoredClient>);
}

/// Keeps credentials in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    tokens: HashMap<String, TokenSet>,
    clients: HashMap<String, StoredClient>,
}

impl MemoryStore {
    fn inner(&self) -> MutexGuard<'_, Memory> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put<T>(map: &mut HashMap<String, T>, key: &str, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(key.to_owned(), value)),
        None => drop(map.remove(key)),
    }
}

impl CredentialStore for MemoryStore {
    fn tokens(&self, url: &str) -> Option<TokenSet> {
        self.inner().tokens.get(url).cloned()
    }

    fn set_tokens(&self, url: &str, tokens: Option<TokenSet>) {
        put(&mut self.inner().tokens, url, tokens);
    }

    fn client(&self, issuer: &str) -> Option<StoredClient> {
        self.inner().clients.get(issuer).cloned()
    }

    fn set_client(&self, issuer: &str, client: Option<StoredClient>) {
        put(&mut self.inner().clients, issuer, client);
    }
}
