//! Faults in errors, in what must not be seen, in paths, and in what hosts promise of signing in.

use crate::drivers::ClientSetup;
use crate::mutants::{Mutant, of_host, settings};
use serde_json::{Map, Value};
use sparring_client::Root;
use sparring_host::paths::{PathRules, ProjectPaths};
use sparring_host::redact::{REMOVED, Redact};
use sparring_host::{HostError, ServerEntry};
use sparring_profiles::{Escape, RootsSettings, Secret};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const SETTINGS: &[Mutant] = &settings![
    "mouaif": "everything-is-transport", "Has one code for all failures.", "errors.codes" = {
        "transport": "EMCP_TRANSPORT", "rpc": "EMCP_TRANSPORT", "timeout": "EMCP_TRANSPORT",
        "no_server": "EMCP_TRANSPORT", "no_tool": "EMCP_TRANSPORT", "disabled": "EMCP_TRANSPORT",
        "outside_project": "EMCP_TRANSPORT"
    };
    "mouaif": "everything-is-rpc", "Takes a dead server for one that answers.", "errors.codes" = {
        "transport": "EMCP_RPC", "rpc": "EMCP_RPC", "timeout": "EMCP_RPC"
    };
    "zut": "redacts-nothing", "Shows everything as it is.", "redaction.removes" = [];
    "mouaif": "root-is-cwd", "Takes the working directory for the root.", "roots.answer" = "cwd";
    "zut": "root-is-project", "Takes the project for the root.", "roots.answer" = "project";
    "mouaif": "root-through-link", "Does not resolve links in the root.", "roots.canonical" = false;
    "mouaif": "sends-paths-as-they-are", "Does not touch paths in arguments.", "roots.path_args" = [];
    "mouaif": "one-spelling-only", "Takes a link to the project for another folder.",
        "roots.both_spellings" = false;
    "mouaif": "lets-paths-escape", "Sends paths that leave the project.", "roots.escape" = "pass";
    "mouaif": "lets-cwd-escape", "Starts servers outside the project.", "roots.cwd_escape" = "pass";
    "zut": "oauth-by-itself", "Signs in though it has no such flow.", "auth.oauth" = true;
    "zidane": "no-oauth-by-itself", "Needs to be told to sign in.", "auth.auto_on_401" = false;
    "zidane": "auto-despite-header", "Signs in though a header is configured.",
        "auth.static_header_blocks_auto" = false;
    "mouaif": "both-authorization-headers", "Sends the configured header where it signs in.",
        "auth.static_header_under_oauth" = "sent";
    "mouaif": "configured-client-ignored", "Registers though it has a client id.",
        "auth.registration" = ["dynamic"];
    "zidane": "opens-browser-at-start", "Asks the user to sign in when it starts.",
        "auth.interactive_start" = true;
];

/// Removes values as they are, and everything else stays.
#[derive(Default)]
struct Literal(Mutex<Vec<String>>);

impl Literal {
    fn add(&self, value: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(value.to_owned());
    }
}

impl Redact for Literal {
    fn clean(&self, text: &str) -> String {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let values = values.iter().filter(|value| value.len() > 3);
        values.fold(text.to_owned(), |text, value| text.replace(value.as_str(), REMOVED))
    }

    fn learn(&self, entry: &ServerEntry) {
        entry.env.values().chain(entry.headers.values()).for_each(|value| self.add(value));
    }

    fn learn_value(&self, _: Secret, _: &str, value: &str) {
        self.add(value);
    }
}

struct Everything;

impl Redact for Everything {
    fn clean(&self, _: &str) -> String {
        REMOVED.to_owned()
    }

    fn learn(&self, _: &ServerEntry) {}

    fn learn_value(&self, _: Secret, _: &str, _: &str) {}
}

/// Path rules with another way to tell what is inside the project.
struct Paths {
    right: ProjectPaths,
    settings: RootsSettings,
    project: PathBuf,
    inside: fn(project: &Path, path: &Path) -> Option<PathBuf>,
}

impl Paths {
    fn refusal(field: &str, path: &Path) -> HostError {
        HostError::OutsideProject { field: field.to_owned(), path: path.to_string_lossy().into_owned() }
    }
}

impl PathRules for Paths {
    fn root(&self) -> Option<Root> {
        self.right.root()
    }

    fn arguments(&self, mut arguments: Map<String, Value>) -> Result<Map<String, Value>, HostError> {
        for field in &self.settings.path_args {
            let Some(Value::String(path)) = arguments.get_mut(field) else { continue };
            let given = self.project.join(path.as_str());
            match (self.inside)(&self.project, &given) {
                Some(inside) => *path = inside.to_string_lossy().into_owned(),
                None => return Err(Self::refusal(field, &given)),
            }
        }
        Ok(arguments)
    }

    fn child_cwd(&self, cwd: &Path) -> Result<PathBuf, HostError> {
        match (self.inside)(&self.project, cwd) {
            None if self.settings.cwd_escape == Escape::Refuse => Err(Self::refusal("cwd", cwd)),
            _ => Ok(cwd.to_owned()),
        }
    }
}

fn tells_inside(setup: &mut ClientSetup, inside: fn(&Path, &Path) -> Option<PathBuf>) {
    setup.parts(move |parts| {
        parts.paths = Arc::new(move |settings, place| {
            Arc::new(Paths {
                right: ProjectPaths::new(&settings.roots, &place.cwd, place.project.as_deref()),
                settings: settings.roots.clone(),
                project: sparring_host::paths::canonical(place.root()),
                inside,
            })
        });
    });
}

/// Without `.` and `..`, as if there were no links.
fn lexical(path: &Path) -> PathBuf {
    let mut done = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(done.pop()),
            Component::CurDir => {}
            other => done.push(other),
        }
    }
    done
}

/// Path rules of which one answer is another.
struct Bent {
    right: ProjectPaths,
    root: fn(Option<Root>) -> Option<Root>,
    arguments: fn(&ProjectPaths, Map<String, Value>) -> Result<Map<String, Value>, HostError>,
}

impl PathRules for Bent {
    fn root(&self) -> Option<Root> {
        (self.root)(self.right.root())
    }

    fn arguments(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, HostError> {
        (self.arguments)(&self.right, arguments)
    }

    fn child_cwd(&self, cwd: &Path) -> Result<PathBuf, HostError> {
        self.right.child_cwd(cwd)
    }
}

fn bends(
    setup: &mut ClientSetup,
    root: fn(Option<Root>) -> Option<Root>,
    arguments: fn(&ProjectPaths, Map<String, Value>) -> Result<Map<String, Value>, HostError>,
) {
    setup.parts(move |parts| {
        parts.paths = Arc::new(move |settings, place| {
            let right = ProjectPaths::new(&settings.roots, &place.cwd, place.project.as_deref());
            Arc::new(Bent { right, root, arguments })
        });
    });
}

/// Every text that could be a path, in whatever argument.
fn all_strings(
    paths: &ProjectPaths,
    mut arguments: Map<String, Value>,
) -> Result<Map<String, Value>, HostError> {
    for (name, value) in &mut arguments {
        if let Value::String(text) = value {
            let one = Map::from_iter([("filePath".to_owned(), Value::from(text.as_str()))]);
            if let Some(path) = paths.arguments(one)?.remove("filePath").filter(|_| name != "text") {
                *value = path;
            }
        }
    }
    Ok(arguments)
}

pub(super) const MUTANTS: &[Mutant] = &[
    // ---- redaction ----
    of_host("zut", "redacts-plain-values-only", "Finds values only as they are.", |s| {
        s.parts(|parts| parts.redact = Arc::new(Literal::default()));
    }),
    of_host("zut", "redacts-everything", "Shows nothing of errors.", |s| {
        s.parts(|parts| parts.redact = Arc::new(Everything));
    }),
    // ---- paths ----
    of_host("mouaif", "root-uri-not-percent-encoded", "Writes the root's path into the URI as it is.", |s| {
        let plain: fn(Option<Root>) -> Option<Root> = |root| {
            let root = root?;
            let path = url::Url::parse(&root.uri).ok()?.to_file_path().ok()?;
            Some(Root { uri: format!("file://{}", path.display()), ..root })
        };
        bends(s, plain, |paths, arguments| paths.arguments(arguments));
    }),
    of_host("mouaif", "rewrites-all-strings", "Takes every text for a path.", |s| {
        bends(s, |root| root, all_strings);
    }),
    of_host("mouaif", "refuses-all-paths", "Refuses whatever is a path.", |s| tells_inside(s, |_, _| None)),
    of_host("mouaif", "checks-before-resolving-symlinks", "Looks at paths as they are spelled.", |s| {
        tells_inside(s, |project, path| Some(lexical(path)).filter(|path| path.starts_with(project)));
    }),
    of_host(
        "mouaif",
        "checks-prefix-as-string",
        "Takes a neighbour whose name begins alike for the project.",
        |s| {
            tells_inside(s, |project, path| {
                let path = sparring_host::paths::canonical(path);
                let inside = path.to_string_lossy().starts_with(&*project.to_string_lossy());
                inside.then_some(path)
            });
        },
    ),
    // ---- signing in ----
    of_host("zidane", "oauth-without-metadata", "Signs in to servers that say nothing of it.", |s| {
        s.client(|client| {
            if let Some(oauth) = &mut client.oauth {
                oauth.needs_metadata = false;
            }
        });
        s.set("auth.interactive_start", &Value::Bool(true));
    }),
];
