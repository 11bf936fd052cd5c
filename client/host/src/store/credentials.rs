//! Credentials in a file that only its owner can read.

use super::damage::set_aside;
use super::locks::{FileLock, lock};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sparring_client::CredentialStore;
use sparring_client::oauth::{CredentialKey, Credentials, MemoryStore, StoreError, StoreLock};
use sparring_profiles::{AuthSettings, StoreKind};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The layout of the file.
const VERSION: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Document {
    version: u32,
    records: Vec<Record>,
}

impl Default for Document {
    fn default() -> Self {
        Self { version: VERSION, records: Vec::new() }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) key: CredentialKey,
    pub(super) credentials: Credentials,
}

/// Keeps credentials in one file, which all programs of a user may share. It is written whole and put in its place at
/// once, with its mode from the first byte on; beside it are the locks.
#[derive(Debug, Clone)]
pub struct FileCredentials {
    place: Arc<Place>,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    mode: u32,
}

impl FileCredentials {
    /// In the file at `path`, with the permissions `mode`.
    pub fn new(path: impl Into<PathBuf>, mode: u32) -> Self {
        Self { place: Arc::new(Place { path: path.into(), mode }) }
    }

    /// Does something that blocks.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Place) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = Arc::clone(&self.place);
        let path = place.path.display().to_string();
        let done = tokio::task::spawn_blocking(move || work(&place)).await;
        done.map_err(io::Error::other).flatten().map_err(|error| StoreError(format!("{path}: {error}")))
    }
}

impl Place {
    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(ending);
        self.path.with_file_name(name)
    }

    /// Held while the file is read, changed and written.
    fn lock(&self) -> io::Result<FileLock> {
        lock(&self.beside(".lock"))
    }

    /// `Err` with its content if it can't be understood.
    fn read(&self) -> io::Result<Result<Document, String>> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(Document::default())),
            Err(error) => return Err(error),
        };
        let document = serde_json::from_slice::<Document>(&bytes).map_err(|error| error.to_string());
        Ok(match document {
            Ok(document) if document.version > VERSION => {
                // A newer program's. To set it aside would take its credentials away.
                let text = format!("its layout, {}, is newer than this program", document.version);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            other => other,
        })
    }

    /// What is in the file; one that is damaged is set aside, and there is nothing then.
    fn load(&self, locked: Option<&FileLock>) -> io::Result<Document> {
        match (self.read()?, locked) {
            (Ok(document), _) => Ok(document),
            (Err(_), Some(_)) => {
                set_aside(&self.path)?;
                Ok(Document::default())
            }
            (Err(_), None) => {
                let held = self.lock()?;
                self.load(Some(&held))
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Record>)) -> io::Result<()> {
        let held = self.lock()?;
        // Nobody else writes now: whatever is half-written is of somebody who was killed.
        crate::files::tidy(&self.path, |_| true);
        let mut document = self.load(Some(&held))?;
        change(&mut document.records);
        let mut bytes = serde_json::to_vec_pretty(&document)?;
        bytes.push(b'\n');
        crate::files::replace(&self.path, &bytes, self.mode)
    }
}

/// The lock of a server: its URL may hold anything, so it is named by a hash.
pub(super) fn server_lock(folder: &Path, server: &str) -> PathBuf {
    let digest = Sha256::digest(server.as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    folder.join(hex)
}

#[async_trait]
impl CredentialStore for FileCredentials {
    async fn of_server(&self, server: &str) -> Result<Vec<(CredentialKey, Credentials)>, StoreError> {
        let server = server.to_owned();
        self.blocking(move |place| {
            let records = place.load(None)?.records.into_iter();
            Ok(records.filter(|r| r.key.server == server).map(|r| (r.key, r.credentials)).collect())
        })
        .await
    }

    async fn put(&self, key: &CredentialKey, credentials: &Credentials) -> Result<(), StoreError> {
        let record = Record { key: key.clone(), credentials: credentials.clone() };
        self.blocking(move |place| {
            place.change(|records| {
                records.retain(|other| other.key != record.key);
                records.push(record);
            })
        })
        .await
    }

    async fn remove(&self, key: &CredentialKey) -> Result<(), StoreError> {
        let key = key.clone();
        self.blocking(move |place| place.change(|records| records.retain(|other| other.key != key))).await
    }

    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError> {
        let server = server.to_owned();
        self.blocking(move |place| lock(&server_lock(&place.beside(".locks"), &server)))
            .await
            .map(StoreLock::new)
    }
}

/// Stands for a keychain in a program without one: nothing is there, and nothing can be put there.
#[cfg(not(feature = "keychain"))]
#[derive(Debug, Default)]
pub struct NoKeychain {
    locks: MemoryStore,
}

#[cfg(not(feature = "keychain"))]
#[async_trait]
impl CredentialStore for NoKeychain {
    async fn of_server(&self, _: &str) -> Result<Vec<(CredentialKey, Credentials)>, StoreError> {
        Ok(Vec::new())
    }

    async fn put(&self, _: &CredentialKey, _: &Credentials) -> Result<(), StoreError> {
        Err(StoreError(NO_KEYCHAIN.to_owned()))
    }

    async fn remove(&self, _: &CredentialKey) -> Result<(), StoreError> {
        Ok(())
    }

    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError> {
        self.locks.lock(server).await
    }
}

#[cfg(not(feature = "keychain"))]
const NO_KEYCHAIN: &str = "the profile wants the keychain of the operating system (`auth.store = \"keychain\"`), and this \
    program was built without the feature `keychain`: build it with that, or set `auth.store` to `file`";

/// Why credentials can't be kept where the settings say, if that is so in this program.
#[must_use]
pub const fn unsupported(store: StoreKind) -> Option<&'static str> {
    match store {
        #[cfg(not(feature = "keychain"))]
        StoreKind::Keychain => Some(NO_KEYCHAIN),
        _ => None,
    }
}

/// The store that settings name. One that this program lacks ([`unsupported`]) refuses whatever it is given.
#[must_use]
pub fn open(settings: &AuthSettings, state: &Path) -> Arc<dyn CredentialStore> {
    match settings.store {
        StoreKind::Memory => Arc::new(MemoryStore::default()),
        StoreKind::File => {
            let mode = u32::from_str_radix(&settings.store_mode, 8).unwrap_or(0o600);
            Arc::new(FileCredentials::new(default_path(state), mode))
        }
        #[cfg(feature = "keychain")]
        StoreKind::Keychain => {
            Arc::new(super::keychain::KeychainCredentials::new(state.join("keychain.locks")))
        }
        #[cfg(not(feature = "keychain"))]
        StoreKind::Keychain => Arc::new(NoKeychain::default()),
    }
}

/// Where the file is by default, below the host's folder of state.
#[must_use]
pub fn default_path(state: &Path) -> PathBuf {
    state.join("credentials.json")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use sparring_client::oauth::{AuthMethod, ClientOrigin, StoredClient};

    pub(in crate::store) fn key(server: &str, issuer: &str) -> CredentialKey {
        CredentialKey { server: server.into(), issuer: issuer.into() }
    }

    pub(in crate::store) fn record(id: &str) -> Credentials {
        Credentials {
            client: StoredClient {
                id: id.into(),
                origin: ClientOrigin::Dynamic,
                secret: Some("s3cr3t".into()),
                secret_expires_at: None,
                method: AuthMethod::Basic,
                redirect_uri: None,
            },
            tokens: None,
            proof_key: None,
        }
    }

    #[tokio::test]
    async fn records_are_kept_for_others_and_only_for_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = default_path(&folder.path().join("deep"));
        let store = FileCredentials::new(&path, 0o600);
        assert_eq!(store.of_server("one").await.unwrap(), []);
        store.remove(&key("one", "a")).await.unwrap();
        for (server, issuer) in [("one", "a"), ("one", "b"), ("two", "a"), ("one", "a")] {
            store.put(&key(server, issuer), &record(issuer)).await.unwrap();
        }
        let other = FileCredentials::new(&path, 0o600);
        let of_one = other.of_server("one").await.unwrap();
        assert_eq!(of_one, [(key("one", "b"), record("b")), (key("one", "a"), record("a"))]);
        store.remove(&key("one", "b")).await.unwrap();
        assert_eq!(other.of_server("one").await.unwrap().len(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[tokio::test]
    async fn what_is_damaged_is_set_aside_and_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = default_path(folder.path());
        let store = FileCredentials::new(&path, 0o600);
        store.put(&key("one", "a"), &record("a")).await.unwrap();
        let whole = fs::read(&path).unwrap();
        for (n, damaged) in [&whole[..whole.len() / 2], b"\xff\x00", b"", b"[]"].into_iter().enumerate() {
            fs::write(&path, damaged).unwrap();
            assert_eq!(store.of_server("one").await.unwrap(), [], "{n}");
            let aside = if n == 0 { ".damaged".to_owned() } else { format!(".damaged-{n}") };
            assert_eq!(fs::read(store.place.beside(&aside)).unwrap(), damaged);
            store.put(&key("one", "a"), &record("a")).await.unwrap();
            assert_eq!(store.of_server("one").await.unwrap().len(), 1);
        }
        // That of a newer program is left alone.
        fs::write(&path, br#"{"version": 2, "records": []}"#).unwrap();
        assert!(store.of_server("one").await.unwrap_err().to_string().contains("newer"));
        assert!(store.put(&key("one", "a"), &record("a")).await.is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn writers_at_the_same_time_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = default_path(folder.path());
        let all = (0..16).map(|n| {
            let store = FileCredentials::new(&path, 0o600);
            tokio::spawn(async move { store.put(&key("one", &n.to_string()), &record("x")).await })
        });
        for done in all.collect::<Vec<_>>() {
            done.await.unwrap().unwrap();
        }
        assert_eq!(FileCredentials::new(&path, 0o600).of_server("one").await.unwrap().len(), 16);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lock_excludes_others_of_the_same_server_only() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = [(); 2].map(|()| FileCredentials::new(default_path(folder.path()), 0o600)).into();
        let held = one.lock("one").await.unwrap();
        drop(two.lock("two").await.unwrap());
        let mut waiting = tokio::spawn(async move { two.lock("one").await });
        one.put(&key("one", "a"), &record("a")).await.unwrap();
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        drop(held);
        waiting.await.unwrap().unwrap();
    }
}
