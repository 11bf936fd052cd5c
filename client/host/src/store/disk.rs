//! The tools of servers, in a database in one file.

use super::cache::{CacheKey, ToolCache};
use super::damage::set_aside;
use super::locks::lock;
use redb::{Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};
use serde_json::Value;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// From project and server to the tools, as JSON.
const TOOLS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("tools");

/// Remembers tools in a database that several hosts may share. It is read once; what other hosts find out later is there
/// at the next start.
#[derive(Debug)]
pub struct DiskCache {
    path: PathBuf,
    known: Mutex<Option<HashMap<CacheKey, Arc<Vec<Value>>>>>,
}

/// Why the database gave nothing.
enum Trouble {
    /// It is damaged.
    Damaged,
    /// Anything else, such as a full disk: nothing can be done about it here.
    Other,
}

impl From<redb::Error> for Trouble {
    fn from(error: redb::Error) -> Self {
        use redb::Error::{Corrupted, Io, TableDoesNotExist, TableTypeMismatch, UpgradeRequired};
        match error {
            Corrupted(_) | TableTypeMismatch { .. } | UpgradeRequired(_) => Self::Damaged,
            // A file that ends too early, or is none of a database at all.
            Io(error) => match error.kind() {
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => Self::Damaged,
                _ => Self::Other,
            },
            TableDoesNotExist(_) => Self::Other,
            _ => Self::Other,
        }
    }
}

impl DiskCache {
    /// In the file at `path`, which is made when there is something to remember.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), known: Mutex::default() }
    }

    /// What is known, read at its first use.
    fn known(&self) -> MutexGuard<'_, Option<HashMap<CacheKey, Arc<Vec<Value>>>>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            *known =
                Some(if self.path.exists() { self.with(load).unwrap_or_default() } else { HashMap::new() });
        }
        known
    }

    /// Does something with the database, while no other process has it open. One that is damaged is set aside, and the
    /// same is done with a new one.
    fn with<T>(&self, work: impl Fn(&Database) -> Result<T, redb::Error>) -> Option<T> {
        let mut name = self.path.file_name()?.to_owned();
        name.push(".lock");
        let _held = lock(&self.path.with_file_name(name)).ok()?;
        for _ in 0..2 {
            // Whatever stands in the file, this program goes on.
            match catch_unwind(AssertUnwindSafe(|| attempt(&self.path, &work))) {
                Ok(Ok(done)) => return Some(done),
                Ok(Err(Trouble::Other)) => return None,
                Ok(Err(Trouble::Damaged)) | Err(_) => drop(set_aside(&self.path).ok()?),
            }
        }
        None
    }
}

fn attempt<T>(path: &Path, work: impl Fn(&Database) -> Result<T, redb::Error>) -> Result<T, Trouble> {
    let database = Database::create(path).map_err(|error| match error {
        DatabaseError::Storage(error) => Trouble::from(redb::Error::from(error)),
        DatabaseError::UpgradeRequired(_) | DatabaseError::RepairAborted => Trouble::Damaged,
        _ => Trouble::Other,
    })?;
    #[cfg(unix)]
    drop(std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)));
    work(&database).map_err(Trouble::from)
}

fn load(database: &Database) -> Result<HashMap<CacheKey, Arc<Vec<Value>>>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(TOOLS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(HashMap::new()),
        Err(error) => return Err(error.into()),
    };
    let mut known = HashMap::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let (project, server) = key.value();
        let tools = serde_json::from_slice(value.value())
            .map_err(|error| redb::Error::Corrupted(format!("the tools of {server:?}: {error}")))?;
        let key = CacheKey { project: project.to_owned(), server: server.to_owned() };
        known.insert(key, Arc::new(tools));
    }
    Ok(known)
}

fn store(database: &Database, key: &CacheKey, tools: Option<&[u8]>) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(TOOLS)?;
        let key = (key.project.as_str(), key.server.as_str());
        match tools {
            Some(tools) => drop(table.insert(key, tools)?),
            None => drop(table.remove(key)?),
        }
    }
    transaction.commit()?;
    Ok(())
}

impl ToolCache for DiskCache {
    fn get(&self, key: &CacheKey) -> Option<Arc<Vec<Value>>> {
        self.known().as_ref()?.get(key).cloned()
    }

    fn put(&self, key: &CacheKey, tools: &[Value]) {
        {
            let mut known = self.known();
            let Some(known) = known.as_mut() else { return };
            if known.get(key).is_some_and(|before| ***before == *tools) {
                return;
            }
            known.insert(key.clone(), Arc::new(tools.to_vec()));
        }
        if let Ok(bytes) = serde_json::to_vec(tools) {
            self.with(|database| store(database, key, Some(&bytes)));
        }
    }

    fn forget(&self, key: &CacheKey) {
        if let Some(known) = self.known().as_mut() {
            known.remove(key);
        }
        self.with(|database| store(database, key, None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(server: &str) -> CacheKey {
        CacheKey { project: "/p".into(), server: server.into() }
    }

    #[test]
    fn tools_are_there_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tools.redb");
        let cache = DiskCache::new(&path);
        assert_eq!(cache.get(&key("a")), None);
        assert!(!path.exists());
        cache.put(&key("a"), &[json!({"name": "x"})]);
        cache.put(&key("b"), &[]);
        cache.put(&key("a"), &[json!({"name": "y"})]);
        cache.forget(&key("b"));
        let next = DiskCache::new(&path);
        assert_eq!(*next.get(&key("a")).unwrap(), [json!({"name": "y"})]);
        assert_eq!(
            (next.get(&key("b")), next.get(&CacheKey { project: "/q".into(), ..key("a") })),
            (None, None)
        );
    }

    #[test]
    fn a_damaged_database_is_set_aside_and_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tools.redb");
        DiskCache::new(&path).put(&key("a"), &[json!({"name": "x", "description": "d".repeat(5000)})]);
        let whole = std::fs::read(&path).unwrap();
        let mut variants: Vec<Vec<u8>> =
            vec![b"no database at all".to_vec(), whole[..whole.len() / 2].to_vec()];
        variants.push(whole[..100].to_vec());
        for at in [0, 9, 64, 70, 128, 200, 320, 4096, 4100, 8192, whole.len() / 2] {
            let mut torn = whole.clone();
            for byte in torn.iter_mut().skip(at).take(64) {
                *byte ^= 0x5a;
            }
            variants.push(torn);
        }
        for (n, bytes) in variants.into_iter().enumerate() {
            std::fs::write(&path, &bytes).unwrap();
            let cache = DiskCache::new(&path);
            // Nothing, or what was there; never anything else.
            let found = cache.get(&key("a"));
            assert!(found.is_none_or(|tools| tools[0]["name"] == "x"), "{n}");
            cache.put(&key("b"), &[json!({"name": "z"})]);
            let again = DiskCache::new(&path).get(&key("b"));
            assert_eq!(again.map(|tools| tools[0]["name"].clone()), Some(json!("z")), "{n}");
        }
        assert!(folder.path().join("tools.redb.damaged").exists());
    }
}
