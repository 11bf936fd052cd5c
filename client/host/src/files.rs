//! Files that are there whole, or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Replaces the file at `path`, or makes it, so that whoever reads it at any moment sees the old or the new text as a
/// whole. The permissions are `mode` from the first byte on (POSIX). A link stays, and what it points to is replaced.
///
/// # Errors
/// It can't be written; the old file is as it was.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    put(path, bytes, mode, true)
}

/// Like [`replace`], for files of this run of the system: they outlive the process, but need not outlive the machine.
/// That is much quicker.
///
/// # Errors
/// As [`replace`].
pub fn swap(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    put(path, bytes, mode, false)
}

fn put(path: &Path, bytes: &[u8], mode: u32, durable: bool) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
    };
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let new = New(path.with_file_name(beside));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    let mut file = options.open(&new.0)?;
    // The mask of the process may have taken bits away.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    #[cfg(not(unix))]
    let _ = mode;
    file.write_all(bytes)?;
    if durable {
        file.sync_all()?;
    }
    drop(file);
    fs::rename(&new.0, &path)
}

/// Removes what writers of the file at `path` have left beside it when they were killed. `is_dead` tells of a process id
/// whether that is so; whoever excludes other writers says yes.
pub(crate) fn tidy(path: &Path, is_dead: impl Fn(u32) -> bool) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let Ok(all) = fs::read_dir(folder) else { return };
    let start = format!(".{}.", name.to_string_lossy());
    for entry in all.filter_map(Result::ok) {
        let name = entry.file_name();
        let writer = name.to_str().and_then(|name| name.strip_prefix(&start)).and_then(writer);
        if writer.is_some_and(&is_dead) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// The process in the ending that [`put`] gives to a file that is not in its place yet.
pub(crate) fn writer(ending: &str) -> Option<u32> {
    ending.split_once('-')?.0.parse().ok()
}

/// Removed if it does not take its place.
struct New(PathBuf);

impl Drop for New {
    fn drop(&mut self) {
        // Gone already if all went well.
        drop(fs::remove_file(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_permissions_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("a.json");
        replace(&path, b"one", 0o600).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&path), 0o600);
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            replace(&link, b"two", 0o600).unwrap();
            assert_eq!(mode(&path), 0o600);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read(&path).unwrap(), b"two");
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        assert!(replace(Path::new("/"), b"", 0o600).is_err());
    }
}
