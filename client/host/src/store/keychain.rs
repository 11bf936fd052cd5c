//! Credentials in the keychain of the operating system: Keychain Services, the Credential Manager, or the Secret Service.

use super::credentials::{Record, server_lock};
use super::locks::lock;
use async_trait::async_trait;
use sparring_client::CredentialStore;
use sparring_client::oauth::{CredentialKey, Credentials, StoreError, StoreLock};
use std::path::PathBuf;
use std::sync::Arc;

/// Under what the keychain lists the entries.
const SERVICE: &str = "sparring-client";

/// Keeps texts under names. Calls may block.
trait Vault: Send + Sync {
    fn get(&self, name: &str) -> Result<Option<String>, String>;
    fn set(&self, name: &str, text: &str) -> Result<(), String>;
    fn delete(&self, name: &str) -> Result<(), String>;
}

/// That of the operating system, for the user who is logged in.
struct System;

impl System {
    fn entry(name: &str) -> Result<keyring::Entry, String> {
        let status = keyring::Entry::store_status().as_ref();
        status.map_err(ToString::to_string)?;
        keyring::Entry::new(SERVICE, name).map_err(|error| error.to_string())
    }
}

impl Vault for System {
    fn get(&self, name: &str) -> Result<Option<String>, String> {
        match Self::entry(name)?.get_password() {
            Ok(text) => Ok(Some(text)),
            Err(keyring::Error::NoEntry) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn set(&self, name: &str, text: &str) -> Result<(), String> {
        Self::entry(name)?.set_password(text).map_err(|error| error.to_string())
    }

    fn delete(&self, name: &str) -> Result<(), String> {
        match Self::entry(name)?.delete_credential() {
            Ok(()) | Err(keyring::Error::NoEntry) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Keeps the credentials for each MCP server in one entry of the keychain, named by the server's URL. A keychain has no
/// locks, so these are files.
pub struct KeychainCredentials {
    vault: Arc<dyn Vault>,
    locks: PathBuf,
}

impl KeychainCredentials {
    /// With its locks in the folder `locks`, which all programs that use the keychain together have to share.
    pub fn new(locks: impl Into<PathBuf>) -> Self {
        Self { vault: Arc::new(System), locks: locks.into() }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Vault) -> Result<T, String> + Send + 'static,
    ) -> Result<T, StoreError> {
        let vault = Arc::clone(&self.vault);
        let done = tokio::task::spawn_blocking(move || work(&*vault)).await;
        let done = done.map_err(|error| error.to_string()).flatten();
        done.map_err(|error| StoreError(format!("the keychain: {error}")))
    }

    /// Changes the records of a server while nobody else does.
    async fn change(
        &self,
        server: &str,
        change: impl FnOnce(&mut Vec<Record>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let (server, place) = (server.to_owned(), self.locks.join("write"));
        self.blocking(move |vault| {
            let _held = lock(&place).map_err(|error| format!("{}: {error}", place.display()))?;
            let mut records = read(vault, &server)?;
            change(&mut records);
            if records.is_empty() {
                return vault.delete(&server);
            }
            let text = serde_json::to_string(&records).map_err(|error| error.to_string())?;
            vault.set(&server, &text)
        })
        .await
    }
}

/// The records of a server. What can't be understood is not shown: it is secret.
fn read(vault: &dyn Vault, server: &str) -> Result<Vec<Record>, String> {
    let Some(text) = vault.get(server)? else { return Ok(Vec::new()) };
    serde_json::from_str(&text).map_err(|_| {
        format!("the entry {server:?} of {SERVICE:?} can't be understood; remove it and sign in again")
    })
}

#[async_trait]
impl CredentialStore for KeychainCredentials {
    async fn of_server(&self, server: &str) -> Result<Vec<(CredentialKey, Credentials)>, StoreError> {
        let server = server.to_owned();
        let records = self.blocking(move |vault| read(vault, &server)).await?;
        Ok(records.into_iter().map(|record| (record.key, record.credentials)).collect())
    }

    async fn put(&self, key: &CredentialKey, credentials: &Credentials) -> Result<(), StoreError> {
        let record = Record { key: key.clone(), credentials: credentials.clone() };
        self.change(&key.server, move |records| {
            records.retain(|other| other.key != record.key);
            records.push(record);
        })
        .await
    }

    async fn remove(&self, key: &CredentialKey) -> Result<(), StoreError> {
        let gone = key.clone();
        self.change(&key.server, move |records| records.retain(|other| other.key != gone)).await
    }

    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError> {
        let place = server_lock(&self.locks, server);
        let held = self.blocking(move |_| lock(&place).map_err(|error| error.to_string())).await?;
        Ok(StoreLock::new(held))
    }
}

#[cfg(test)]
mod tests {
    use super::super::credentials::tests::{key, record};
    use super::*;
    use std::collections::HashMap;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Memory(Mutex<HashMap<String, String>>);

    impl Vault for Memory {
        fn get(&self, name: &str) -> Result<Option<String>, String> {
            Ok(self.0.lock().unwrap().get(name).cloned())
        }

        fn set(&self, name: &str, text: &str) -> Result<(), String> {
            self.0.lock().unwrap().insert(name.to_owned(), text.to_owned());
            Ok(())
        }

        fn delete(&self, name: &str) -> Result<(), String> {
            self.0.lock().unwrap().remove(name);
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_server_has_an_entry_with_all_its_records() {
        let (folder, vault) = (tempfile::tempdir().unwrap(), Arc::new(Memory::default()));
        let store = KeychainCredentials {
            vault: Arc::clone(&vault) as Arc<dyn Vault>,
            locks: folder.path().to_owned(),
        };
        let (one, two) = (key("one", "a"), key("one", "b"));
        store.put(&one, &record("a")).await.unwrap();
        store.put(&two, &record("b")).await.unwrap();
        store.put(&key("two", "a"), &record("c")).await.unwrap();
        store.put(&one, &record("d")).await.unwrap();
        let of_one = store.of_server("one").await.unwrap();
        assert_eq!(of_one, [(two.clone(), record("b")), (one.clone(), record("d"))]);
        store.remove(&one).await.unwrap();
        store.remove(&two).await.unwrap();
        assert_eq!(vault.0.lock().unwrap().keys().collect::<Vec<_>>(), ["two"]);

        vault.set("two", "{\"secret\": \"s3cr3t\"").unwrap();
        let wrong = store.of_server("two").await.unwrap_err().to_string();
        assert!(wrong.contains("sign in again") && !wrong.contains("s3cr3t"), "{wrong}");
        drop(store.lock("one").await.unwrap());
    }
}
