//! Advisory locks between processes. The operating system releases them with the process.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Held until it is dropped.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
}

/// Waits for the lock at `path`, which is made if it is missing. It excludes other processes and, as each lock is an
/// open file of its own, other holders in this one. Blocks.
pub(super) fn lock(path: &Path) -> io::Result<FileLock> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    file.lock()?;
    Ok(FileLock { _file: file })
}
