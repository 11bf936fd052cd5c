//! Where configuration files are.

use crate::surroundings::Surroundings;
use sparring_profiles::ConfigSettings;
use std::path::{Path, PathBuf};

/// A place of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, which need not be there.
    pub file: PathBuf,
    /// Whether it is the project's, and not the user's.
    pub project: bool,
    /// Whether it counts only as long as no other of its kind is there.
    pub legacy: bool,
}

/// The places of a host, strongest first. Where the host has files for subtrees, those of the folders from the working
/// directory up to the project come in the project's place, deepest first. A place whose project or variable does not
/// exist is none.
pub fn places(settings: &ConfigSettings, around: &Surroundings) -> Vec<Place> {
    let project = around.project_root(settings.project_root);
    let mut places: Vec<Place> = Vec::new();
    for template in &settings.files {
        let of_project = template.contains("{project}");
        let roots: Vec<Option<&Path>> = match &project {
            Some(project) if of_project && settings.subtree && around.cwd.starts_with(project) => {
                around.cwd.ancestors().take_while(|folder| folder.starts_with(project)).map(Some).collect()
            }
            project => vec![project.as_deref()],
        };
        for root in roots {
            let Some(file) = located(template, around, root) else { continue };
            if places.iter().all(|place| place.file != file) {
                places.push(Place {
                    file,
                    project: of_project || template.contains("{cwd}"),
                    legacy: settings.legacy.contains(template),
                });
            }
        }
    }
    places
}

/// A template as a path; `None` if something that it needs is not there.
pub(super) fn located(template: &str, around: &Surroundings, project: Option<&Path>) -> Option<PathBuf> {
    let (folder, rest) = match template.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some(("home", rest)) => (around.home.clone(), rest),
        Some(("cwd", rest)) => (around.cwd.clone(), rest),
        Some(("project", rest)) => (project?.to_owned(), rest),
        Some((word, rest)) => {
            let value = around.env.get(word.strip_prefix("env:")?).filter(|value| !value.is_empty())?;
            (PathBuf::from(value), rest)
        }
        None => return Some(around.cwd.join(template)),
    };
    Some(folder.join(rest.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparring_profiles::Profile;
    use std::collections::BTreeMap;

    fn around() -> Surroundings {
        Surroundings {
            cwd: "/p/a/b".into(),
            project: Some("/p".into()),
            home: "/h".into(),
            env: BTreeMap::from([
                ("ZUT_HOME".to_owned(), "/z".to_owned()),
                ("MEWBO_HOME".to_owned(), String::new()),
            ]),
            state: "/s".into(),
        }
    }

    fn files(host: &str, around: &Surroundings) -> Vec<String> {
        let settings = Profile::load(host).unwrap().settings().config;
        places(&settings, around).iter().map(|place| place.file.display().to_string()).collect()
    }

    #[test]
    fn places_of_the_hosts() {
        assert_eq!(files("zut", &around()), ["/p/a/b/.zut/mcp.json", "/z/mcp.json"]);
        // From the working directory up to the project; an empty variable names no place.
        assert_eq!(files("mewbo", &around()), ["/p/a/b/.mcp.json", "/p/a/.mcp.json", "/p/.mcp.json"]);
        assert_eq!(files("mouaif", &around()), ["/p/.mcp.json", "/p/.mouaif.json"]);
        let zidane = files("zidane", &around());
        assert_eq!(zidane.len(), 8);
        assert_eq!((zidane[0].as_str(), zidane[7].as_str()), ("/p/.agents/mcps.json", "/h/.zidane/mcp.json"));
        let mut outside = around();
        outside.cwd = "/elsewhere".into();
        assert_eq!(files("mewbo", &outside), ["/p/.mcp.json"]);
        outside.project = None;
        assert_eq!(files("mewbo", &outside), [] as [String; 0]);
        assert_eq!(files("mouaif", &outside), [] as [String; 0]);
    }

    #[test]
    fn places_know_what_they_are() {
        let settings = Profile::load("mouaif").unwrap().settings().config;
        let of = |place: &Place| (place.project, place.legacy);
        assert_eq!(
            places(&settings, &around()).iter().map(of).collect::<Vec<_>>(),
            [(true, false), (true, true)]
        );
        let settings = Profile::load("zut").unwrap().settings().config;
        assert_eq!(
            places(&settings, &around()).iter().map(of).collect::<Vec<_>>(),
            [(true, false), (false, false)]
        );
        // One place under two names is one.
        let settings = ConfigSettings {
            files: vec!["{cwd}/x".into(), "{project}/x".into(), "x".into(), "/abs".into()],
            project_root: sparring_profiles::ProjectRoot::Cwd,
            ..ConfigSettings::default()
        };
        let mut here = around();
        here.project = None;
        let found = places(&settings, &here);
        assert_eq!(
            found.iter().map(|p| p.file.display().to_string()).collect::<Vec<_>>(),
            ["/p/a/b/x", "/abs"]
        );
    }
}
