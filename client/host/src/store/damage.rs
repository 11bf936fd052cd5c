//! Files that can't be understood.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Moves a file out of the way, to a name that is not taken: `NAME.damaged`, `NAME.damaged-1`, …
pub(super) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default();
    for n in 0_u32.. {
        let mut aside = OsString::from(name);
        aside.push(if n == 0 { ".damaged".to_owned() } else { format!(".damaged-{n}") });
        let aside = path.with_file_name(aside);
        if !aside.try_exists()? {
            std::fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
