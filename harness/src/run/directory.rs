//! The folder of a case, and the environment in which an external client runs.

use crate::platform;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A folder of an earlier run that is older than this belongs to nobody any more.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// What the names of case folders start with; the harness's process id follows, and then what tells them apart.
const PREFIX: &str = "case-";

/// The same for the folders of brokers, which may live for days.
const SERVE_PREFIX: &str = "serve-";

/// Where all case folders of this user are: below the system's temporary folder, readable by the user alone.
///
/// # Errors
/// It can't be made, or is somebody else's; the error names it.
pub fn temporary_root() -> io::Result<PathBuf> {
    let user = platform::user_id();
    let root = std::env::temp_dir().join(format!("sparring-{user}"));
    match make_root(&root, user) {
        Ok(()) => Ok(root),
        Err(error) => {
            let variable = if cfg!(windows) { "TMP" } else { "TMPDIR" };
            let why = format!("the temporary folder {} ({variable} says where): {error}", root.display());
            Err(io::Error::new(error.kind(), why))
        }
    }
}

fn make_root(root: &Path, user: u32) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, MetadataExt};
        match std::fs::DirBuilder::new().mode(0o700).create(root) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = std::fs::symlink_metadata(root)?;
        if !found.is_dir() || found.uid() != user {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a folder of this user's"));
        }
    }
    #[cfg(not(unix))]
    {
        let _ = user;
        std::fs::create_dir_all(root)?;
    }
    Ok(())
}

/// Removes the folders that a harness left when it was killed: those whose harness is gone, and of those of cases the ones
/// more than a day old, since its process id may be another's by now.
///
/// # Errors
/// The root can't be read. A folder that can't be removed is none.
pub fn remove_stale(root: &Path) -> io::Result<u32> {
    let mut removed = 0;
    for entry in std::fs::read_dir(root)?.flatten() {
        let old = || {
            let changed = entry.metadata().and_then(|found| found.modified());
            changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > STALE))
        };
        let name = entry.file_name();
        // Where processes can't be looked at, none may be called gone.
        let orphaned = cfg!(unix) && owner_of(&name).is_some_and(|pid| !platform::is_alive(pid));
        if (orphaned || is_case(Some(&name)) && old()) && remove(&entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes the folder of a case whose harness is gone. Nothing happens to a folder that is no case's.
pub(crate) fn remove_orphan(case: &Path) {
    if is_case(case.file_name()) {
        // Whatever remains is for the next run to remove.
        let _ = remove(case);
    }
}

fn is_case(name: Option<&OsStr>) -> bool {
    name.and_then(OsStr::to_str).is_some_and(|name| name.starts_with(PREFIX))
}

/// The process id of the harness that made the folder of this name, if it is one of ours.
fn owner_of(name: &OsStr) -> Option<u32> {
    let name = name.to_str()?;
    let rest = name.strip_prefix(PREFIX).or_else(|| name.strip_prefix(SERVE_PREFIX))?;
    rest.split_once('-')?.0.parse().ok()
}

/// The folder of a broker, below `root`. Removed when dropped, or, if the broker is killed, by the next one or the next
/// run.
///
/// # Errors
/// The system's.
pub(crate) fn serve_folder(root: &Path) -> io::Result<tempfile::TempDir> {
    // A folder that can't be removed is no reason not to serve.
    let _ = remove_stale(root);
    tempfile::Builder::new().prefix(&format!("{SERVE_PREFIX}{}-", std::process::id())).tempdir_in(root)
}

/// The folder of one case. Removed with everything in it when dropped, or by [`CaseDirectory::remove`], which tells
/// of failures.
#[derive(Debug)]
pub struct CaseDirectory {
    folder: tempfile::TempDir,
}

impl CaseDirectory {
    /// Makes one below `root`.
    ///
    /// # Errors
    /// The system's.
    pub fn new(root: &Path) -> io::Result<Self> {
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(root)?;
        let made = Self { folder };
        for part in
            [made.client(), made.servers(), home(&made.client()), tmp(&made.client()), bin(&made.client())]
        {
            std::fs::create_dir_all(part)?;
        }
        Ok(made)
    }

    /// The client's part: its working directory, which holds its HOME.
    pub fn client(&self) -> PathBuf {
        self.folder.path().join("client")
    }

    /// The scripted servers' part, out of the client's sight.
    pub fn servers(&self) -> PathBuf {
        self.folder.path().join("servers")
    }

    /// Removes it.
    ///
    /// # Errors
    /// Something could not be removed, even after permissions that the client took away were given back.
    pub fn remove(self) -> io::Result<()> {
        remove(&self.folder.keep())
    }
}

/// HOME in the client's folder.
pub(crate) fn home(client: &Path) -> PathBuf {
    client.join("home")
}

/// The temporary folder in the client's folder.
pub(crate) fn tmp(client: &Path) -> PathBuf {
    client.join("tmp")
}

/// Programs of ours in the client's folder, first on its PATH.
pub(crate) fn bin(client: &Path) -> PathBuf {
    client.join("bin")
}

fn remove(path: &Path) -> io::Result<()> {
    let Err(_) = std::fs::remove_dir_all(path) else { return Ok(()) };
    give_back_permissions(path);
    std::fs::remove_dir_all(path)
}

/// Makes the folders below writable again; links are not followed.
fn give_back_permissions(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let Ok(found) = std::fs::symlink_metadata(path) else { return };
        if !found.is_dir() {
            return;
        }
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700));
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            give_back_permissions(&entry.path());
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Where tools keep themselves below HOME, and the variable by which they are told so. Without these, a HOME of its
/// own would take a client's interpreter away.
const TOOLS: [(&str, &str); 9] = [
    ("CARGO_HOME", ".cargo"),
    ("RUSTUP_HOME", ".rustup"),
    ("PYENV_ROOT", ".pyenv"),
    ("PYTHONUSERBASE", ".local"),
    ("NVM_DIR", ".nvm"),
    ("VOLTA_HOME", ".volta"),
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("GOPATH", "go"),
];

/// Parts of names of variables that may hold a secret.
const SECRETS: [&str; 10] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
];

/// The environment of an external client: the harness's own without what looks like a secret and without `MCP_*`,
/// `SPARRING_*` and `SSH_AUTH_SOCK`; HOME, the temporary folder and the XDG folders are the case's own; its `bin`
/// comes first on PATH; loopback is exempt from proxies. Tools that live below the real HOME are still found, by the
/// variables they have for it (CARGO_HOME, PYENV_ROOT, GOPATH…).
pub(crate) fn client_environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    client: &Path,
) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> = inherited.filter(|(name, _)| passes(name)).collect();
    if let Some(real) = environment.get(OsStr::new("HOME")).map(PathBuf::from) {
        for (variable, folder) in TOOLS {
            let folder = real.join(folder);
            if folder.is_dir() {
                environment.entry(variable.into()).or_insert_with(|| folder.into_os_string());
            }
        }
    }
    let home = home(client);
    for (variable, folder) in [
        ("HOME", home.clone()),
        ("USERPROFILE", home.clone()),
        ("APPDATA", home.join("appdata")),
        ("LOCALAPPDATA", home.join("appdata-local")),
        ("XDG_CONFIG_HOME", home.join(".config")),
        ("XDG_DATA_HOME", home.join(".local").join("share")),
        ("XDG_STATE_HOME", home.join(".local").join("state")),
        ("XDG_CACHE_HOME", home.join(".cache")),
        ("XDG_RUNTIME_DIR", tmp(client)),
        ("TMPDIR", tmp(client)),
        ("TMP", tmp(client)),
        ("TEMP", tmp(client)),
    ] {
        environment.insert(variable.into(), folder.into_os_string());
    }
    let mut path = vec![bin(client)];
    if let Some(inherited) = environment.get(OsStr::new("PATH")) {
        path.extend(std::env::split_paths(inherited));
    }
    // A folder whose name holds the separator can't be said; then the PATH stays as it was.
    if let Ok(path) = std::env::join_paths(path) {
        environment.insert("PATH".into(), path);
    }
    for variable in ["NO_PROXY", "no_proxy"] {
        environment.insert(variable.into(), "127.0.0.1,localhost,::1".into());
    }
    environment
}

fn passes(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let secret = SECRETS.iter().any(|part| name.contains(part));
    let ours = name.starts_with("MCP_") || name.starts_with("SPARRING_");
    let place = name == "PWD" || name == "OLDPWD";
    !secret && !ours && !place && name != "SSH_AUTH_SOCK" && !name.starts_with("XDG_")
}

/// The client runs in a folder of its own, so words of its command that name an existing file by a relative path are
/// made absolute. A word without a separator counts only if it has an extension (`adapter.py`), so that `npm run
/// client` beside a folder `client` stays what it is.
pub(crate) fn absolute_words(command: &[String], here: &Path) -> Vec<String> {
    command
        .iter()
        .enumerate()
        .map(|(position, word)| {
            let path = Path::new(word);
            let several = path.components().count() > 1 || word.starts_with("./");
            let file = position > 0 && path.extension().is_some() && here.join(path).is_file();
            let names = (several && here.join(path).exists()) || file;
            if path.is_relative() && !word.starts_with('-') && names {
                here.join(path).to_string_lossy().into_owned()
            } else {
                word.clone()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: &[(&str, &str)]) -> std::vec::IntoIter<(OsString, OsString)> {
        of.iter().map(|(name, value)| (name.into(), value.into())).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn secrets_and_the_users_folders_stay_outside_and_the_rest_comes_in() {
        let given = pairs(&[
            ("PATH", "/usr/bin:/bin"),
            ("LANG", "C.UTF-8"),
            ("HOME", "/nowhere"),
            ("NODE_PATH", "/n"),
            ("GITHUB_TOKEN", "x"),
            ("aws_secret_access_key", "x"),
            ("MCP_SERVER", "x"),
            ("XDG_SESSION_ID", "x"),
        ]);
        let environment = client_environment(given, Path::new("/case/client"));
        let get = |name: &str| environment.get(OsStr::new(name)).and_then(|v| v.to_str());
        assert_eq!(get("HOME"), Some("/case/client/home"));
        assert_eq!(get("TMPDIR"), Some("/case/client/tmp"));
        assert_eq!(get("XDG_CONFIG_HOME"), Some("/case/client/home/.config"));
        #[cfg(unix)]
        assert_eq!(get("PATH"), Some("/case/client/bin:/usr/bin:/bin"));
        assert_eq!(get("NODE_PATH"), Some("/n"));
        for gone in ["GITHUB_TOKEN", "aws_secret_access_key", "MCP_SERVER", "XDG_SESSION_ID", "CARGO_HOME"] {
            assert_eq!(get(gone), None, "{gone}");
        }
    }

    #[test]
    fn only_words_that_name_files_become_absolute() {
        let here = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(here.path().join("adapters/python")).unwrap();
        std::fs::create_dir(here.path().join("client")).unwrap();
        for file in ["adapters/python/adapter.py", "adapter.mjs", "python"] {
            std::fs::write(here.path().join(file), "").unwrap();
        }
        let words = ["python", "adapters/python/adapter.py", "adapter.mjs", "client", "--x=a/b", "no/such"]
            .map(str::to_owned);
        let made = absolute_words(&words, here.path());
        let at = |name: &str| here.path().join(name).to_string_lossy().into_owned();
        assert_eq!(made[0], "python");
        assert_eq!(made[1], at("adapters/python/adapter.py"));
        assert_eq!(made[2], at("adapter.mjs"));
        assert_eq!(made[3..], words[3..]);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_goes_away_even_if_the_client_took_permissions_from_it() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let case = CaseDirectory::new(root.path()).unwrap();
        let locked = case.client().join("locked");
        std::fs::create_dir(&locked).unwrap();
        std::fs::write(locked.join("file"), "").unwrap();
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o500)).unwrap();
        case.remove().unwrap();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_old_and_orphaned_case_folders_are_stale() {
        let root = tempfile::tempdir().unwrap();
        let alive = CaseDirectory::new(root.path()).unwrap();
        // No system gives a process this id.
        let orphan = root.path().join(format!("case-{}-x", u32::MAX));
        std::fs::create_dir(&orphan).unwrap();
        assert_eq!(remove_stale(root.path()).unwrap(), u32::from(cfg!(unix)));
        assert!(alive.client().exists() && orphan.exists() != cfg!(unix));
        let day_before_yesterday = SystemTime::now() - 2 * STALE;
        for name in ["case-old", "case-new", "other-old"] {
            let folder = root.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            if name.ends_with("old") {
                std::fs::File::open(&folder).unwrap().set_modified(day_before_yesterday).unwrap();
            }
        }
        assert_eq!(remove_stale(root.path()).unwrap(), 1);
        assert!(!root.path().join("case-old").exists());
        // A broker may be as old as it likes.
        let broker = serve_folder(root.path()).unwrap();
        std::fs::File::open(broker.path()).unwrap().set_modified(day_before_yesterday).unwrap();
        let killed = root.path().join(format!("serve-{}-x", u32::MAX));
        std::fs::create_dir(&killed).unwrap();
        let next = serve_folder(root.path()).unwrap();
        assert!(broker.path().exists() && next.path().exists() && killed.exists() != cfg!(unix));
        assert!(root.path().join("case-new").exists() && root.path().join("other-old").exists());
    }
}
