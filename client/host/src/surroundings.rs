//! Where a host runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Everything that a host takes from its process. Nothing of the host reads the process itself, so that several can
/// stand beside one another, and tests need no variables of their own process.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// The project that the host was given, absolute; see [`Surroundings::project_root`].
    pub project: Option<PathBuf>,
    /// The user's home directory.
    pub home: PathBuf,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The folder of what the host keeps: credentials, caches, records of processes.
    pub state: PathBuf,
}

impl std::fmt::Debug for Surroundings {
    // The environment is full of secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings")
            .field("cwd", &self.cwd)
            .field("project", &self.project)
            .field("home", &self.home)
            .field("state", &self.state)
            .field("env", &self.env.keys())
            .finish()
    }
}

impl Surroundings {
    /// What the process has. Variables that are no Unicode are left out. `state` is below `XDG_STATE_HOME`, or
    /// `.local/state` of the home directory.
    ///
    /// # Errors
    /// If the working directory can't be had.
    pub fn of_process() -> std::io::Result<Self> {
        let env: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let home = std::env::home_dir().unwrap_or_default();
        let state = env.get("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let state = state.unwrap_or_else(|| home.join(".local/state")).join("sparring-client");
        Ok(Self { cwd: std::env::current_dir()?, project: None, home, env, state })
    }

    /// The project, by the profile's rule. `None`: there is none, which only a host has that must be given one.
    pub fn project_root(&self, rule: sparring_profiles::ProjectRoot) -> Option<PathBuf> {
        use sparring_profiles::ProjectRoot::{Cwd, GitRootOrCwd, Given};
        match (rule, &self.project) {
            (_, Some(given)) => Some(given.clone()),
            (Given, None) => None,
            (Cwd, None) => Some(self.cwd.clone()),
            (GitRootOrCwd, None) => Some(git_root(&self.cwd).unwrap_or(&self.cwd).to_owned()),
        }
    }
}

/// The folder at or above `start` that has a `.git`, which is a file in linked worktrees.
fn git_root(start: &Path) -> Option<&Path> {
    start.ancestors().find(|folder| folder.join(".git").exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparring_profiles::ProjectRoot;

    #[test]
    fn the_project_is_what_the_rule_says() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("repo/a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir(folder.path().join("repo/.git")).unwrap();
        let mut around = Surroundings { cwd: inner.clone(), ..Surroundings::default() };
        assert_eq!(around.project_root(ProjectRoot::GitRootOrCwd), Some(folder.path().join("repo")));
        assert_eq!(around.project_root(ProjectRoot::Cwd), Some(inner));
        assert_eq!(around.project_root(ProjectRoot::Given), None);
        around.cwd = folder.path().to_owned();
        assert_eq!(around.project_root(ProjectRoot::GitRootOrCwd), Some(folder.path().to_owned()));
        around.project = Some("/given".into());
        for rule in [ProjectRoot::Given, ProjectRoot::Cwd, ProjectRoot::GitRootOrCwd] {
            assert_eq!(around.project_root(rule), Some("/given".into()));
        }
    }

    #[test]
    fn debug_shows_no_values_of_variables() {
        let env = BTreeMap::from([("KEY".to_owned(), "s3cret".to_owned())]);
        let shown = format!("{:?}", Surroundings { env, ..Surroundings::default() });
        assert!(shown.contains("KEY") && !shown.contains("s3cret"), "{shown}");
    }
}
