//! Which script is served.

use sparring_mock_servers::script::ServerScript;
use sparring_scenarios::code::{Code, Severity};
use sparring_scenarios::diagnostic::{Diagnostic, nearest};
use sparring_scenarios::lint;
use sparring_scenarios::load;
use sparring_scenarios::scenario::Scenario;
use std::path::Path;
use std::sync::Arc;

/// The scripts that the program carries, by the name after `builtin:`.
pub const BUILTIN: [(&str, &str); 1] = [("everything", include_str!("builtin/everything.yaml"))];

/// The name of a server whose script has none.
const NAME: &str = "server";

/// A script with the name of its server.
#[derive(Debug)]
pub struct Source {
    /// The server's name in the transcript.
    pub name: String,
    /// Its script.
    pub script: ServerScript,
}

/// Why there is no script.
#[derive(Debug)]
pub enum SourceError {
    /// The file is wrong.
    Diagnostics(Vec<Diagnostic>),
    /// What was asked for does not exist.
    Usage(String),
}

impl From<Diagnostic> for SourceError {
    fn from(wrong: Diagnostic) -> Self {
        Self::Diagnostics(vec![wrong])
    }
}

/// Reads a script file, or takes `builtin:NAME`.
///
/// # Errors
/// The file can't be read, there is no such script, or the lint finds an error in it.
pub fn script(name: &str) -> Result<Source, SourceError> {
    let script = match name.strip_prefix("builtin:") {
        Some(builtin) => {
            let Some((_, text)) = BUILTIN.iter().find(|(known, _)| *known == builtin) else {
                let known: Vec<_> = BUILTIN.iter().map(|(known, _)| *known).collect();
                return Err(SourceError::Usage(format!(
                    "--script: there is no built-in script `{builtin}`; there is {}",
                    known.join(", ")
                )));
            };
            load::parse_script(name, text)?
        }
        None => {
            let loaded = load::script_file(Path::new(name)).map_err(|wrong| hint_at_scenario(wrong, name))?;
            let loaded = [loaded];
            // Warnings are for `sparring lint`: the script may be meant so.
            let mut wrong = lint::lint_scripts(&loaded);
            wrong.retain(|wrong| wrong.severity == Severity::Error);
            if !wrong.is_empty() {
                return Err(SourceError::Diagnostics(wrong));
            }
            let [loaded] = loaded;
            Arc::unwrap_or_clone(loaded.script)
        }
    };
    Ok(Source { name: NAME.to_owned(), script })
}

/// A scenario file given as a script is an easy mistake.
fn hint_at_scenario(wrong: Diagnostic, name: &str) -> Diagnostic {
    if wrong.code == Code::UnknownKey && wrong.line == 1 && wrong.message.starts_with("`scenario`") {
        let help = format!("this is a scenario file: serve its server with `--scenario {name}`");
        return wrong.with_help(Some(help));
    }
    wrong
}

/// Takes the server of a built-in scenario, by id, or of a scenario file.
///
/// # Errors
/// There is no such scenario, or it has several servers and none of them was named.
pub fn scenario(id: &str, server: Option<&str>) -> Result<Source, SourceError> {
    let scenarios = if Path::new(id).exists() {
        load::load(Path::new(id)).map_err(SourceError::Diagnostics)?
    } else {
        let mut all = load::embedded().map_err(SourceError::Diagnostics)?;
        if !all.iter().any(|loaded| loaded.scenario.scenario == id) {
            let ids = all.iter().map(|loaded| loaded.scenario.scenario.as_str());
            let hint = nearest(id, ids).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(SourceError::Usage(format!(
                "--scenario: `{id}` is no built-in scenario and no file{hint}"
            )));
        }
        all.retain(|loaded| loaded.scenario.scenario == id);
        all
    };
    match scenarios.as_slice() {
        [only] => server_of(&only.scenario, server),
        _ => Err(SourceError::Usage(format!("--scenario: {id} is a folder; name one of its files"))),
    }
}

fn server_of(scenario: &Scenario, server: Option<&str>) -> Result<Source, SourceError> {
    let scripts = scenario.scripts();
    let names = || scripts.keys().copied().collect::<Vec<_>>().join(", ");
    let id = &scenario.scenario;
    let (name, script) = match (server, scripts.len()) {
        (None, 1) => scripts.iter().next(),
        (Some(name), _) => scripts.get_key_value(name),
        (None, _) => {
            return Err(SourceError::Usage(format!(
                "the scenario {id} has several servers; choose one with --server: {}",
                names()
            )));
        }
    }
    .ok_or_else(|| {
        let asked = server.unwrap_or_default();
        SourceError::Usage(format!("--server: the scenario {id} has no server `{asked}`; it has {}", names()))
    })?;
    Ok(Source { name: (*name).to_owned(), script: (*script).clone() })
}
