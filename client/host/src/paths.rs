//! Roots, and paths in arguments.

use crate::error::HostError;
use serde_json::{Map, Value};
use sparring_client::Root;
use sparring_profiles::{Escape, RootAnswer, RootsSettings};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Links followed in one path, before it counts as going in a circle.
const MOST_LINKS: u32 = 40;

/// Decides on paths. The default is [`ProjectPaths`].
pub trait PathRules: Send + Sync {
    /// The root offered to servers; `None`: there is none, and the capability is not declared.
    fn root(&self) -> Option<Root>;

    /// The arguments of a call as they are sent.
    ///
    /// # Errors
    /// A path leaves the project.
    fn arguments(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, HostError>;

    /// The working directory of a server's process.
    ///
    /// # Errors
    /// It is outside the project.
    fn child_cwd(&self, cwd: &Path) -> Result<PathBuf, HostError>;
}

/// The rules that settings describe, for one project.
#[derive(Debug, Clone)]
pub struct ProjectPaths {
    settings: RootsSettings,
    cwd: PathBuf,
    project: PathBuf,
    canonical: PathBuf,
}

impl ProjectPaths {
    /// For a host that runs in `cwd`; without a project, that is the project.
    pub fn new(settings: &RootsSettings, cwd: &Path, project: Option<&Path>) -> Self {
        let project = absolute(cwd, project.unwrap_or(cwd));
        let canonical = canonical(&project);
        Self { settings: settings.clone(), cwd: cwd.to_owned(), project, canonical }
    }

    /// The canonical path, if it is inside the project.
    fn inside(&self, path: &Path) -> Result<PathBuf, PathBuf> {
        let real = canonical(path);
        // With one spelling only, a path that is not spelled as the real one is somewhere else.
        let spelled = self.settings.both_spellings || path.starts_with(&self.canonical);
        match spelled && real.starts_with(&self.canonical) {
            true => Ok(real),
            false => Err(real),
        }
    }
}

impl PathRules for ProjectPaths {
    fn root(&self) -> Option<Root> {
        let folder = match self.settings.answer {
            RootAnswer::Cwd => absolute(&self.cwd, &self.cwd),
            RootAnswer::Project => self.project.clone(),
            RootAnswer::None => return None,
        };
        let folder = if self.settings.canonical { canonical(&folder) } else { folder };
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        Some(Root { uri: file_uri(&folder)?, name })
    }

    fn arguments(&self, mut arguments: Map<String, Value>) -> Result<Map<String, Value>, HostError> {
        for field in &self.settings.path_args {
            let Some(Value::String(path)) = arguments.get_mut(field) else { continue };
            if path.is_empty() {
                continue;
            }
            let real = match self.inside(&absolute(&self.canonical, Path::new(path))) {
                Ok(real) => real,
                Err(real) if self.settings.escape == Escape::Pass => real,
                Err(_) => return Err(HostError::OutsideProject { field: field.clone(), path: path.clone() }),
            };
            *path = real.to_string_lossy().into_owned();
        }
        Ok(arguments)
    }

    fn child_cwd(&self, cwd: &Path) -> Result<PathBuf, HostError> {
        let cwd = absolute(&self.cwd, cwd);
        match (self.settings.cwd_escape, self.inside(&cwd)) {
            (Escape::Refuse, Err(_)) => Err(HostError::OutsideProject {
                field: "cwd".to_owned(),
                path: cwd.to_string_lossy().into_owned(),
            }),
            _ => Ok(cwd),
        }
    }
}

/// A folder as a `file://` URI, percent-encoded. `None` if it is not absolute.
pub fn file_uri(folder: &Path) -> Option<String> {
    url::Url::from_file_path(folder).ok().map(String::from)
}

fn absolute(base: &Path, path: &Path) -> PathBuf {
    base.join(path)
}

/// An absolute path with every link resolved, and without `.` and `..`, as far as the file system knows it; what is not
/// there yet stays as it is spelled. A link that points to nothing counts as what it points to.
pub fn canonical(path: &Path) -> PathBuf {
    let mut links = 0;
    let mut done = PathBuf::new();
    let mut todo: Vec<OsString> = parts(path);
    while let Some(part) = todo.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => drop(done.pop()),
            Some(Component::CurDir) | None => {}
            Some(Component::RootDir | Component::Prefix(_)) => done.push(part),
            Some(Component::Normal(_)) => {
                done.push(part);
                if links < MOST_LINKS
                    && let Ok(target) = std::fs::read_link(&done)
                {
                    links += 1;
                    done.pop();
                    todo.extend(parts(&target));
                }
            }
        }
    }
    done
}

/// The components, the first one last.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
