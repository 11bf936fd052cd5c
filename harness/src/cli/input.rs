//! What the command line names: scenarios, profiles, drivers, filters.

use super::Trouble;
use super::args::{ClientArgs, DriverKind, Selection};
use crate::driver::{Driver, DriverError};
use crate::drivers::{Adapter, Builtin, Official, ProcessSettings};
use crate::plan::{Filter, PlanError};
use crate::session::Session;
use sparring_reports::model::exit_code;
use sparring_scenarios::code::Severity;
use sparring_scenarios::diagnostic::Diagnostic;
use sparring_scenarios::lint;
use sparring_scenarios::load;
use sparring_scenarios::profile::{BUILT_IN, Profile};
use sparring_scenarios::scenario::Scenario;
use std::path::Path;
use std::sync::Arc;

/// The scenarios that the program carries, with those of `own`. The former are linted by the tests, the latter here.
pub(super) fn scenarios(own: Option<&Path>) -> Result<Vec<Arc<Scenario>>, Trouble> {
    let mut loaded = load::embedded().map_err(|d| diagnostics(&d))?;
    if let Some(folder) = own {
        loaded.extend(load::load(folder).map_err(|d| diagnostics(&d))?);
        let wrong = lint::lint(&loaded);
        if wrong.iter().any(|d| d.severity == Severity::Error) {
            return Err(diagnostics(&wrong));
        }
        show(&wrong);
    }
    Ok(loaded.into_iter().map(|l| l.scenario).collect())
}

pub(super) fn diagnostics(all: &[Diagnostic]) -> Trouble {
    show(all);
    let count = match all.iter().filter(|d| d.severity == Severity::Error).count() {
        1 => "1 error in the input files".to_owned(),
        n => format!("{n} errors in the input files"),
    };
    Trouble::usage(count)
}

/// Prints diagnostics to stderr.
pub(super) fn show(all: &[Diagnostic]) {
    if !all.is_empty() {
        let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
        let rendered: Vec<String> = all.iter().map(|d| d.render(colour)).collect();
        super::print_to_stderr(&rendered.join("\n"));
    }
}

fn profile(args: &ClientArgs) -> Result<Option<Profile>, Trouble> {
    match (args.profile.as_deref(), args.driver) {
        (None, DriverKind::Builtin) => named_profile("--profile", "reference").map(Some),
        (None, _) => Ok(None),
        (Some(name), _) => named_profile("--profile", name).map(Some),
    }
}

/// A built-in profile or a file. `option` is where it was named.
pub(super) fn named_profile(option: &str, name: &str) -> Result<Profile, Trouble> {
    let built_in = BUILT_IN.map(|(name, _)| name);
    if !built_in.iter().any(|known| known.eq_ignore_ascii_case(name)) && !Path::new(name).exists() {
        return Err(Trouble::usage(format!(
            "{option}: there is no file `{name}`, and no built-in profile of that name; built in are {}",
            built_in.join(", ")
        )));
    }
    Profile::named(name).map_err(|d| diagnostics(&[d]))
}

pub(super) fn driver(args: &ClientArgs) -> Result<Arc<dyn Driver>, Trouble> {
    let settings = || {
        ProcessSettings::new().map_err(|e| {
            Trouble::new(exit_code::HARNESS_ERROR, format!("can't prepare the client's start: {e}"))
        })
    };
    if args.driver == DriverKind::Builtin {
        return if args.command.is_empty() {
            let host = args.as_host.as_deref().map(|name| ("--as", name));
            let host = host.or_else(|| args.profile.as_deref().map(|name| ("--profile", name)));
            Ok(Arc::new(match host {
                None => Builtin::new(),
                Some((_, name)) if name.eq_ignore_ascii_case("reference") => Builtin::new(),
                Some((option, name)) => Builtin::as_host(named_profile(option, name)?),
            }))
        } else {
            Err(Trouble::usage(
                "a command was given, but the builtin driver starts none; add --driver adapter or --driver official",
            ))
        };
    }
    if args.as_host.is_some() {
        return Err(Trouble::usage("--as is for the reference client; another client is what it is"));
    }
    if args.command.is_empty() {
        return Err(Trouble::usage("this driver needs a command: write it after `--`"));
    }
    Ok(match args.driver {
        DriverKind::Official => Arc::new(Official::new(args.command.clone(), settings()?)),
        _ => Arc::new(Adapter::new(args.command.clone(), settings()?)),
    })
}

/// Opens a session with what the command line names.
pub(super) async fn session(selection: &Selection) -> Result<Arc<Session>, Trouble> {
    let client = &selection.client;
    let scenarios = scenarios(selection.own_scenarios.as_deref())?;
    let (profile, driver) = (profile(client)?, driver(client)?);
    let scenarios = match client.driver {
        // Its clients know a conversation by its official name only.
        DriverKind::Official => scenarios.into_iter().filter(|s| s.official.is_some()).collect(),
        _ => scenarios,
    };
    let session = Session::open(driver, scenarios, profile, again(selection)).await;
    session.map(Arc::new).map_err(|e| driver_trouble(&e))
}

pub(crate) fn driver_trouble(error: &DriverError) -> Trouble {
    let more = match error {
        DriverError::Ended { stderr, .. } if !stderr.trim().is_empty() => {
            let lines: Vec<_> = stderr.lines().map(sparring_reports::text::escape).collect();
            format!("\nits stderr ends with:\n  {}", lines.join("\n  "))
        }
        _ => String::new(),
    };
    Trouble::new(exit_code::CLIENT, format!("{error}{more}"))
}

pub(super) fn filter(selection: &Selection) -> Result<Filter, Trouble> {
    Ok(Filter {
        cases: selection.cases.clone(),
        scenarios: selection.scenarios.clone(),
        transports: selection.transports.clone(),
        revisions: selection.revisions.clone(),
        shard: selection
            .shard
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(|e| Trouble::usage(format!("--shard: {e}")))?,
    })
}

pub(super) fn plan_trouble(error: &PlanError) -> Trouble {
    let code = match error {
        PlanError::MatchesNothing { .. } => exit_code::NOTHING_RAN,
        _ => exit_code::USAGE,
    };
    Trouble::new(code, error)
}

/// The words that select the same client again.
fn again(selection: &Selection) -> String {
    let client = &selection.client;
    let mut words = String::new();
    if let Some(own) = &selection.own_scenarios {
        words += &format!(" --scenarios {}", quoted(&own.display().to_string()));
    }
    match client.driver {
        DriverKind::Builtin => {}
        DriverKind::Adapter => words += " --driver adapter",
        DriverKind::Official => words += " --driver official",
    }
    if let Some(profile) = &client.profile {
        words += &format!(" --profile {}", quoted(profile));
    }
    if let Some(host) = &client.as_host {
        words += &format!(" --as {}", quoted(host));
    }
    if !client.command.is_empty() {
        words += " --";
        for word in &client.command {
            words += &format!(" {}", quoted(word));
        }
    }
    words
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_survive_a_shell() {
        for word in ["plain", "", "two words", "it's", "$HOME", "a\"b", "*", "tab\tin"] {
            let script = format!("printf %s {}", quoted(word));
            let out = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), word, "{script}");
        }
    }
}
