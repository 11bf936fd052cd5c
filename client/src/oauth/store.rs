//! Where tokens and registrations are kept.

use super::secret::Secret;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How a client authenticates at the token endpoint. Serialised as OAuth names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthMethod {
    /// Not at all: a public client.
    #[serde(rename = "none")]
    None,
    /// The secret in the `Authorization` header.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// The secret in the form.
    #[serde(rename = "client_secret_post")]
    Post,
    /// A JWT signed with the client's own key ([`crate::OauthSettings::key`]).
    #[serde(rename = "private_key_jwt")]
    PrivateKeyJwt,
}

impl AuthMethod {
    /// As OAuth names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }
}

/// Where a client id comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientOrigin {
    /// From the settings. Its secret stays there, and is never stored.
    Registered,
    /// It is the URL of a metadata document.
    Document,
    /// From dynamic registration.
    Dynamic,
}

/// A client as an authorization server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredClient {
    /// `client_id`.
    pub id: String,
    /// Where it comes from.
    pub origin: ClientOrigin,
    /// `client_secret`, if it came from dynamic registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// When the secret is of no use any more, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_expires_at: Option<u64>,
    /// How it authenticates.
    pub method: AuthMethod,
    /// The redirect URI that was registered with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
}

/// How an access token is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TokenKind {
    /// `Authorization: Bearer`.
    #[default]
    Bearer,
    /// `Authorization: DPoP`, with a proof (RFC 9449).
    #[serde(rename = "DPoP")]
    Dpop,
}

/// Tokens for one MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSet {
    /// The access token.
    pub access: Secret,
    /// How it is presented.
    #[serde(default)]
    pub kind: TokenKind,
    /// The refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Secret>,
    /// When the access token expires, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The scopes granted, as far as the server told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The scopes asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
    /// The `resource` they were asked for with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Where to refresh them.
    pub token_endpoint: String,
}

impl TokenSet {
    /// Whether the access token is still good after this time.
    pub(crate) fn lasts(&self, ahead: Duration) -> bool {
        self.expires_at.is_none_or(|at| unix_time().saturating_add(ahead.as_secs()) < at)
    }
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Which record: that of one MCP server at one authorization server. Credentials of one issuer are never used at
/// another, and tokens for one MCP server never at another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CredentialKey {
    /// The endpoint of the MCP server, as configured.
    pub server: String,
    /// The `issuer` of the authorization server.
    pub issuer: String,
}

/// All that is kept of one MCP server at one authorization server. A record is read and written as a whole, so that
/// tokens never stand beside a client that they were not issued to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The client.
    pub client: StoredClient,
    /// Its tokens, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenSet>,
    /// The private key that the tokens are bound to (DPoP), in base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_key: Option<Secret>,
}

/// A store that could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the credential store: {0}")]
pub struct StoreError(pub String);

/// Whatever is held as long as a server is locked; see [`CredentialStore::lock`].
pub struct StoreLock {
    _held: Box<dyn Any + Send>,
}

impl StoreLock {
    /// Released when `held` is dropped.
    pub fn new(held: impl Any + Send) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreLock(..)")
    }
}

/// Keeps credentials, for one process or for many at the same time.
///
/// What an implementation has to promise:
///
/// - **Whole records.** A record is found as one `put` left it, never half of it, also after the process was killed in
///   the middle of a `put` (for a file: write beside it, flush, rename).
/// - **No lost record.** A `put` or `remove` of one key loses no other key's record, whoever writes at the same time (for
///   a file that holds all records: read, change and write it again under a lock of its own).
/// - **Locks that exclude.** See [`CredentialStore::lock`].
/// - **Nobody else reads it.** For a file: mode 0600 from its creation on.
///
/// The client keeps what it read in memory, and reads again when a server refuses a token and before each refresh. So
/// what another process stored is found in time, and a refresh token is used once.
#[async_trait]
pub trait CredentialStore: Send + Sync {
    /// All records of an MCP server, the one written last at the end.
    async fn of_server(&self, server: &str) -> Result<Vec<(CredentialKey, Credentials)>, StoreError>;

    /// Writes a record, in place of the one that was there.
    async fn put(&self, key: &CredentialKey, credentials: &Credentials) -> Result<(), StoreError>;

    /// Removes a record; that there is none is no error.
    async fn remove(&self, key: &CredentialKey) -> Result<(), StoreError>;

    /// Waits until nobody else holds the lock of this MCP server, in this process or another one that uses the same
    /// store, and holds it until the returned value is dropped. It is held while tokens are refreshed: a few seconds at
    /// most, and never while a person is waited for. `put` and the other methods are called with and without it, so it
    /// is another lock than theirs. The end of the process releases it.
    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError>;
}

/// Keeps credentials in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: Mutex<Vec<(CredentialKey, Credentials)>>,
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl MemoryStore {
    fn records(&self) -> MutexGuard<'_, Vec<(CredentialKey, Credentials)>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CredentialStore for MemoryStore {
    async fn of_server(&self, server: &str) -> Result<Vec<(CredentialKey, Credentials)>, StoreError> {
        Ok(self.records().iter().filter(|(key, _)| key.server == server).cloned().collect())
    }

    async fn put(&self, key: &CredentialKey, credentials: &Credentials) -> Result<(), StoreError> {
        let mut records = self.records();
        records.retain(|(other, _)| other != key);
        records.push((key.clone(), credentials.clone()));
        Ok(())
    }

    async fn remove(&self, key: &CredentialKey) -> Result<(), StoreError> {
        self.records().retain(|(other, _)| other != key);
        Ok(())
    }

    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(locks.entry(server.to_owned()).or_default())
        };
        Ok(StoreLock::new(lock.lock_owned().await))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Credentials {
        Credentials {
            client: StoredClient {
                id: "the-client".into(),
                origin: ClientOrigin::Dynamic,
                secret: Some("s3cr3t-1".into()),
                secret_expires_at: None,
                method: AuthMethod::Basic,
                redirect_uri: None,
            },
            tokens: Some(TokenSet {
                access: "s3cr3t-2".into(),
                kind: TokenKind::Dpop,
                refresh: Some("s3cr3t-3".into()),
                expires_at: Some(17),
                scope: Some("a".into()),
                requested: None,
                resource: None,
                token_endpoint: "https://as.test/token".into(),
            }),
            proof_key: Some("s3cr3t-4".into()),
        }
    }

    fn key(server: &str, issuer: &str) -> CredentialKey {
        CredentialKey { server: server.into(), issuer: issuer.into() }
    }

    #[test]
    fn a_record_is_written_whole_and_shows_no_secret() {
        let record = record();
        assert!(!format!("{record:?}").contains("s3cr3t"), "{record:?}");
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(text.matches("s3cr3t").count(), 4);
        assert!(text.contains("client_secret_basic") && text.contains("DPoP"), "{text}");
        assert_eq!(serde_json::from_str::<Credentials>(&text).unwrap(), record);
    }

    #[tokio::test]
    async fn records_belong_to_a_server_and_an_issuer() {
        let (store, record) = (MemoryStore::default(), record());
        let other = Credentials { tokens: None, ..record.clone() };
        store.put(&key("one", "a"), &record).await.unwrap();
        store.put(&key("one", "b"), &record).await.unwrap();
        store.put(&key("two", "a"), &record).await.unwrap();
        store.put(&key("one", "a"), &other).await.unwrap();
        let of_one = store.of_server("one").await.unwrap();
        assert_eq!(of_one, [(key("one", "b"), record.clone()), (key("one", "a"), other)]);
        store.remove(&key("one", "b")).await.unwrap();
        store.remove(&key("one", "b")).await.unwrap();
        assert_eq!(store.of_server("one").await.unwrap().len(), 1);
        assert_eq!(store.of_server("two").await.unwrap(), [(key("two", "a"), record)]);
    }

    #[tokio::test]
    async fn a_lock_excludes_others_of_the_same_server_only() {
        let store = Arc::new(MemoryStore::default());
        let held = store.lock("one").await.unwrap();
        let other = store.lock("two").await.unwrap();
        let second = Arc::clone(&store);
        let mut waiting = tokio::spawn(async move { second.lock("one").await });
        tokio::task::yield_now().await;
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        drop((held, other));
        waiting.await.unwrap().unwrap();
    }
}
