//! Steps that the harness does by itself: files of the case's folder.

use crate::dialect::{self, Places};
use crate::driver::Target;
use crate::run::directory;
use serde_json::{Map, Value, json};
use sparring_profiles::ConfigSettings;
use sparring_scenarios::op::{Configure, Disk, Op, Write};
use sparring_wire::transcript::{Failure, FailureKind, Outcome};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The longest text of a file that becomes a part of the transcript, in bytes.
const LONGEST_TEXT: usize = 64 << 10;
/// The most files that are told of a folder.
const MOST_FILES: usize = 1000;

/// What these steps work on.
#[derive(Debug, Clone, Default)]
pub(super) struct Desk {
    /// The case's folder, as the client sees it.
    pub(super) folder: PathBuf,
    /// The dialect of the client's configuration files.
    pub(super) dialect: ConfigSettings,
    /// Where the servers are.
    pub(super) targets: BTreeMap<String, Target>,
}

impl Desk {
    /// Does the step. What goes wrong is the scenario's fault, or the machine's.
    pub(super) fn run(&self, op: &Op) -> Outcome {
        let done = match op {
            Op::Write(write) => self.write(write),
            Op::Configure(configure) => self.configure(configure),
            Op::Disk(disk) => self.disk(disk),
            other => Err(format!("`{}` is not done by the harness", other.name())),
        };
        match done {
            Ok(value) => Outcome::Ok { value },
            Err(why) => Outcome::Error { error: Failure::new(FailureKind::Other, why) },
        }
    }

    /// A path of the scenario's, which the lint has checked; here it is only kept from leaving the folder.
    fn inside(&self, path: &str) -> Result<PathBuf, String> {
        let relative = Path::new(path);
        let stays = relative
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
        if stays { Ok(self.folder.join(relative)) } else { Err(format!("`{path}` leaves the case's folder")) }
    }

    fn write(&self, write: &Write) -> Result<Value, String> {
        for path in &write.remove {
            let at = self.inside(path)?;
            let removed = match std::fs::symlink_metadata(&at) {
                Ok(found) if found.is_dir() => std::fs::remove_dir_all(&at),
                Ok(_) => std::fs::remove_file(&at),
                Err(_) => Ok(()),
            };
            removed.map_err(|error| told(path, &error))?;
        }
        for (path, text) in &write.files {
            let at = self.inside(path)?;
            let made = if path.ends_with('/') { std::fs::create_dir_all(&at) } else { put(&at, text) };
            made.map_err(|error| told(path, &error))?;
        }
        for (path, target) in &write.links {
            let at = self.inside(path)?;
            let made = at.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| link(target, &at));
            made.map_err(|error| told(path, &error))?;
        }
        for (path, mode) in &write.modes {
            let at = self.inside(path)?;
            let mode = u32::from_str_radix(mode, 8).map_err(|error| format!("{path}: {error}"))?;
            set_mode(&at, mode).map_err(|error| told(path, &error))?;
        }
        Ok(json!({}))
    }

    fn configure(&self, configure: &Configure) -> Result<Value, String> {
        let base =
            configure.base.as_deref().map_or_else(|| Ok(self.folder.clone()), |base| self.inside(base))?;
        let home = directory::home(&self.folder);
        let places = Places { case: &self.folder, base: &base, home: &home };
        let other;
        let dialect = match &configure.dialect {
            None => &self.dialect,
            Some(name) => {
                let profile =
                    sparring_profiles::Profile::load(name).map_err(|mistake| mistake.to_string())?;
                other = profile.settings().config;
                &other
            }
        };
        let file = dialect::file(dialect, configure, &self.targets, &places)?;
        put(&file.path, &file.text).map_err(|error| told(&file.path.display().to_string(), &error))?;
        let shown = file.path.strip_prefix(&self.folder).unwrap_or(&file.path);
        Ok(json!({ "path": shown.display().to_string() }))
    }

    fn disk(&self, disk: &Disk) -> Result<Value, String> {
        let at = self.inside(&disk.path)?;
        let mut found = match look(&at, disk.contains.as_deref()) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(json!({ "exists": false })),
            Err(error) => return Err(told(&disk.path, &error)),
        };
        found.insert("exists".to_owned(), Value::from(true));
        if found.get("kind") == Some(&json!("folder")) {
            let mut files = Vec::new();
            below(&at, &at, disk.contains.as_deref(), &mut files);
            files.sort_by(|a, b| a["path"].as_str().cmp(&b["path"].as_str()));
            found.insert("files".to_owned(), Value::Array(files));
        } else if let Ok(text) = std::fs::read_to_string(&at) {
            if let Ok(json) = serde_json::from_str::<Value>(&text) {
                found.insert("json".to_owned(), json);
            }
            found.insert("text".to_owned(), Value::from(start_of(&text)));
        }
        Ok(Value::Object(found))
    }
}

fn told(path: &str, error: &io::Error) -> String {
    format!("{path}: {error}")
}

/// As much of a text as a transcript should hold.
fn start_of(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn put(at: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = at.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(at, text)
}

/// One file or folder.
fn look(at: &Path, contains: Option<&str>) -> io::Result<Map<String, Value>> {
    let found = std::fs::symlink_metadata(at)?;
    let kind = match found.file_type() {
        kind if kind.is_symlink() => "link",
        kind if kind.is_dir() => "folder",
        _ => "file",
    };
    let mut members = Map::from_iter([
        ("kind".to_owned(), Value::from(kind)),
        ("mode".to_owned(), Value::from(mode_of(&found))),
        ("size".to_owned(), Value::from(found.len())),
    ]);
    if let Some(part) = contains.filter(|_| kind == "file") {
        let bytes = std::fs::read(at).unwrap_or_default();
        let part = part.as_bytes();
        let holds = part.is_empty() || bytes.windows(part.len()).any(|window| window == part);
        members.insert("contains".to_owned(), Value::from(holds));
    }
    Ok(members)
}

/// All that is below a folder; links are not followed.
fn below(top: &Path, folder: &Path, contains: Option<&str>, files: &mut Vec<Value>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(mut found) = look(&path, contains) else { continue };
        let shown = path.strip_prefix(top).unwrap_or(&path).display().to_string();
        let is_folder = found.get("kind") == Some(&json!("folder"));
        found.insert("path".to_owned(), Value::from(shown));
        if files.len() >= MOST_FILES {
            return;
        }
        files.push(Value::Object(found));
        if is_folder {
            below(top, &path, contains, files);
        }
    }
}

#[cfg(unix)]
fn mode_of(found: &std::fs::Metadata) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    format!("{:04o}", found.permissions().mode() & 0o7777)
}

#[cfg(not(unix))]
fn mode_of(_: &std::fs::Metadata) -> String {
    String::new()
}

#[cfg(unix)]
fn set_mode(at: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn link(target: &str, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn link(_: &str, _: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "links are made on Unix only"))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn desk() -> (tempfile::TempDir, Desk) {
        let folder = tempfile::tempdir().unwrap();
        let desk = Desk { folder: folder.path().to_owned(), ..Desk::default() };
        (folder, desk)
    }

    fn done(desk: &Desk, op: Op) -> Value {
        match desk.run(&op) {
            Outcome::Ok { value } => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_are_written_and_looked_at() {
        let (_folder, desk) = desk();
        let texts = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        let write = Write {
            files: texts(&[("a/b.json", "{\"n\": 1}"), ("a/empty/", ""), ("old", "x")]),
            links: texts(&[("a/link", "b.json")]),
            modes: texts(&[("a/b.json", "0640")]),
            ..Write::default()
        };
        done(&desk, Op::Write(write));
        let file = done(&desk, Op::Disk(Disk { path: "a/b.json".into(), contains: Some("1}".into()) }));
        assert_eq!(file["mode"], "0640");
        assert_eq!((&file["json"], &file["contains"]), (&json!({"n": 1}), &json!(true)));
        let folder = done(&desk, Op::Disk(Disk { path: "a".into(), contains: Some("secret".into()) }));
        let shown: Vec<_> =
            folder["files"].as_array().unwrap().iter().map(|f| (&f["path"], &f["kind"])).collect();
        assert_eq!(json!(shown), json!([["b.json", "file"], ["empty", "folder"], ["link", "link"]]));
        assert_eq!(folder["files"][0]["contains"], false);
        done(&desk, Op::Write(Write { remove: vec!["a".into(), "never".into()], ..Write::default() }));
        let gone = done(&desk, Op::Disk(Disk { path: "a".into(), contains: None }));
        assert_eq!(gone, json!({"exists": false}));
    }

    #[test]
    fn nothing_leaves_the_folder() {
        let (_folder, desk) = desk();
        for path in ["../x", "/etc/hosts", "a/../../x"] {
            assert!(matches!(
                desk.run(&Op::Disk(Disk { path: path.into(), contains: None })),
                Outcome::Error { .. }
            ));
        }
    }
}
