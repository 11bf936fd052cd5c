//! Writing reports: whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// A report that can't be written.
#[derive(Debug, thiserror::Error)]
#[error("can't write the {what} to `{}`: {}", path.display(), advice(path, source))]
pub struct WriteError {
    /// What was to be written: `JSON report`, `JUnit report`…
    pub what: &'static str,
    /// Where to.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// The reason with what to do about it.
fn advice(path: &Path, error: &io::Error) -> String {
    let folder = folder_of(path);
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!("the folder `{}` does not exist; create it first", folder.display())
        }
        io::ErrorKind::NotADirectory => {
            format!("`{}` is not a folder; choose another path", folder.display())
        }
        io::ErrorKind::IsADirectory => "it is a folder; name a file in it".to_owned(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            format!("no permission to write into `{}`; choose another path", folder.display())
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full; free some space or choose another path".to_owned()
        }
        _ => error.to_string(),
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Where the bytes go.
enum Destination {
    /// A new file beside the old one, which takes its place at the end. The path has its links resolved, so that the
    /// file that a link points to is replaced and not the link.
    Beside(Box<NamedTempFile>, PathBuf),
    /// A pipe or a device: there is nothing to replace.
    Stream(File),
}

fn open(path: &Path) -> io::Result<Destination> {
    let target = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if found.is_file() => fs::canonicalize(path)?,
        Ok(_) => return Ok(Destination::Stream(File::options().write(true).open(path)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let mut builder = Builder::new();
    builder.prefix(".sparring-").suffix(".part");
    // Temporary files are private by default; a report is an ordinary file, as private as the user's umask makes it.
    #[cfg(unix)]
    builder.permissions(<fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
    let file = builder.tempfile_in(folder_of(&target)).map_err(bare)?;
    Ok(Destination::Beside(Box::new(file), target))
}

/// `tempfile` puts the name of its own file into the message; the reader knows only the report's.
fn bare(error: io::Error) -> io::Error {
    error.kind().into()
}

/// Writes a file so that readers see the old content or the new, never a part of it; a file that could not be written
/// whole leaves nothing behind.
///
/// # Errors
/// Anything that the file system refuses, with the path and what to do. Folders are not created.
pub fn write(what: &'static str, path: &Path, content: &[u8]) -> Result<(), WriteError> {
    let written = open(path).and_then(|destination| match destination {
        Destination::Stream(mut stream) => stream.write_all(content),
        Destination::Beside(mut file, target) => {
            file.write_all(content)?;
            // Some file systems say only here that the disk is full.
            file.as_file().sync_all()?;
            file.persist(target).map(drop).map_err(|error| error.error)
        }
    });
    written.map_err(|source| WriteError { what, path: path.to_owned(), source })
}

/// Refuses a path at which something is that is no regular file: a folder, a device, a pipe, a link. For files that hold
/// secrets or take the place of what is there, and so must not follow a link or replace a device.
///
/// # Errors
/// Something else is there, or the system doesn't say what.
pub fn regular_or_absent(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) => {
            let what = match found.file_type() {
                kind if kind.is_symlink() => "a symbolic link",
                kind if kind.is_dir() => "a folder",
                _ => "a device, pipe or socket",
            };
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}; name a regular file")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Finds out whether [`write()`] would get as far as its first byte, so that a long run need not end in this error. The
/// path itself stays as it is; a named pipe is taken on trust, since opening it would wait for its reader.
///
/// # Errors
/// As for [`write()`].
pub fn probe(what: &'static str, path: &Path) -> Result<(), WriteError> {
    if is_pipe(path) {
        return Ok(());
    }
    open(path).map(drop).map_err(|source| WriteError { what, path: path.to_owned(), source })
}

fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    return fs::metadata(path).is_ok_and(|m| std::os::unix::fs::FileTypeExt::is_fifo(&m.file_type()));
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn writes_and_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        probe("JSON report", &path).unwrap();
        assert!(names(folder.path()).is_empty(), "a probe leaves nothing");
        write("JSON report", &path, b"one").unwrap();
        write("JSON report", &path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(folder.path()), ["report.json"]);
    }

    #[test]
    fn errors_name_path_and_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("no/report.xml");
        let error = write("JUnit report", &missing, b"x").unwrap_err().to_string();
        assert!(error.starts_with("can't write the JUnit report to `"), "{error}");
        assert!(error.contains(missing.to_str().unwrap()), "{error}");
        assert!(error.contains("does not exist; create it first"), "{error}");
        assert_eq!(error, probe("JUnit report", &missing).unwrap_err().to_string());

        let error = write("JUnit report", folder.path(), b"x").unwrap_err().to_string();
        assert!(error.contains("it is a folder"), "{error}");

        fs::write(folder.path().join("file"), "").unwrap();
        let error =
            write("JUnit report", &folder.path().join("file/report.xml"), b"x").unwrap_err().to_string();
        assert!(error.contains("is not a folder"), "{error}");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_are_the_users() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        symlink(&real, &link).unwrap();
        write("JSON report", &link, b"new").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let ours = fs::metadata(&real).unwrap().permissions().mode();
        let plain = folder.path().join("plain");
        File::create(&plain).unwrap();
        assert_eq!(ours, fs::metadata(&plain).unwrap().permissions().mode());
        write("JSON report", Path::new("/dev/null"), b"gone").unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_regular() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let (real, link, dangling) =
            (folder.path().join("real"), folder.path().join("link"), folder.path().join("dangling"));
        regular_or_absent(&real).unwrap();
        fs::write(&real, "").unwrap();
        regular_or_absent(&real).unwrap();
        symlink(&real, &link).unwrap();
        symlink(folder.path().join("nothing"), &dangling).unwrap();
        for wrong in [link.as_path(), &dangling, folder.path(), Path::new("/dev/null")] {
            assert!(regular_or_absent(wrong).is_err(), "{}", wrong.display());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_probe_does_not_wait_for_the_reader_of_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        probe("JSON report", &pipe).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_said() {
        let error = write("JSON report", Path::new("/dev/full"), b"x").unwrap_err().to_string();
        assert!(error.contains("the disk is full"), "{error}");
    }
}
