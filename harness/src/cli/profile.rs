//! `sparring profile`: host profiles.

mod init;
mod matrix;

use super::args::ProfileCommand;
use super::input::{self, named_profile};
use super::{Trouble, print};
use crate::judge::monitors;
use sparring_profiles::{FIELDS, Settings};
use sparring_reports::model::exit_code;
use sparring_scenarios::profile::{Profile, field_of};
use sparring_scenarios::scenario::Scenario;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

pub(super) fn profile(command: ProfileCommand) -> Result<u8, Trouble> {
    let text = match command {
        ProfileCommand::Check { profile, own_scenarios } => {
            let profile = named_profile("profile", &profile)?;
            check(&profile, &judges_of_fields(&input::scenarios(own_scenarios.as_deref())?))
        }
        ProfileCommand::Show { profile } => show(&named_profile("profile", &profile)?)?,
        ProfileCommand::Init { from } => {
            let from = from.map(|name| named_profile("--from", &name)).transpose()?;
            init::template(from.as_ref())
        }
        ProfileCommand::Matrix(args) => return matrix::matrix(&args),
    };
    print(&text)?;
    Ok(exit_code::PASSED)
}

/// By field of a profile, the checks and monitors that judge it.
pub(crate) fn judges_of_fields(scenarios: &[Arc<Scenario>]) -> BTreeMap<String, BTreeSet<String>> {
    let mut judges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for scenario in scenarios {
        for check in &scenario.judge {
            if let Some(promise) = &check.promise {
                let judge = format!("{}/{}", scenario.scenario, check.check);
                judges.entry(field_id(promise).to_owned()).or_default().insert(judge);
            }
        }
    }
    for monitor in monitors() {
        for id in monitor.requirements.iter().filter(|id| FIELDS.iter().any(|field| field.id == **id)) {
            judges.entry((*id).to_owned()).or_default().insert(monitor.id.to_owned());
        }
    }
    judges
}

/// The field that a check's promise is about, whatever value it asks for.
pub(crate) fn field_id(promise: &str) -> &str {
    field_of(promise.split(['=', '~', '!']).next().unwrap_or(promise).trim())
}

fn check(profile: &Profile, judges: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut text = String::new();
    let made: Vec<&str> = FIELDS
        .iter()
        .filter(|field| field.is_promise() && profile.value(field.id).is_some())
        .map(|field| field.id)
        .collect();
    let (judged, unjudged): (Vec<&str>, Vec<&str>) = made.iter().partition(|id| judges.contains_key(**id));
    let _ =
        writeln!(text, "{}: {} promises\n", profile.name().unwrap_or("a host without a name"), made.len());
    for id in &judged {
        let value = profile.value(id).unwrap_or_default();
        let by = judges.get(*id).map(BTreeSet::len).unwrap_or_default();
        let _ = writeln!(text, "  {id} = {value}");
        let first: Vec<&str> = judges.get(*id).into_iter().flatten().take(3).map(String::as_str).collect();
        let more = by.saturating_sub(first.len());
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let _ = writeln!(text, "      judged by {}{more}", first.join(", "));
    }
    if !unjudged.is_empty() {
        let _ = writeln!(text, "\ndeclared, but no scenario checks it:");
        for id in &unjudged {
            let _ = writeln!(text, "  {id} = {}", profile.value(id).unwrap_or_default());
        }
    }
    let silent =
        FIELDS.iter().filter(|field| field.is_promise() && profile.value(field.id).is_none()).count();
    let _ = writeln!(
        text,
        "\n{} of {} declared promises are judged; {silent} fields are left out, and nothing is judged by them",
        judged.len(),
        made.len()
    );
    text
}

/// The profile as TOML, with what it leaves out as the reference client does it.
fn show(profile: &Profile) -> Result<String, Trouble> {
    let ours = |error: String| Trouble::new(exit_code::HARNESS_ERROR, error);
    let settings: Settings = profile.settings();
    let all = toml::Value::try_from(&settings).map_err(|error| ours(error.to_string()))?;
    let mut text = String::new();
    let host = &profile.fields().host;
    text.push_str("[host]\n");
    for (name, value) in [("name", &host.name), ("version", &host.version), ("url", &host.url)] {
        if let Some(value) = value {
            let _ = writeln!(text, "{name} = {}", toml::Value::from(value.as_str()));
        }
    }
    let mut section = "";
    for field in FIELDS {
        let (of, name) = field.id.split_once('.').unwrap_or(("", field.id));
        let Some(value) = all.get(of).and_then(|fields| fields.get(name)) else { continue };
        if of != section {
            section = of;
            let _ = writeln!(text, "\n[{of}]");
        }
        let declared = profile.value(field.id).is_some();
        let mark = if declared { "" } else { "  # the reference client's choice" };
        let _ = writeln!(text, "{name} = {}{mark}", init::inline(value));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_is_told_from_what_is_not_judged() {
        let profile =
            Profile::parse("p", "[host]\nname = \"mine\"\n[naming]\nmax_len = 40\nstable = true\n").unwrap();
        let judges = BTreeMap::from([("naming.max_len".to_owned(), BTreeSet::from(["a.b/c".to_owned()]))]);
        let text = check(&profile, &judges);
        assert!(text.starts_with("mine: 2 promises"), "{text}");
        assert!(text.contains("naming.max_len = 40\n      judged by a.b/c\n"), "{text}");
        assert!(text.contains("no scenario checks it:\n  naming.stable = true"), "{text}");
        assert!(text.contains("1 of 2 declared promises are judged"), "{text}");
        assert_eq!(field_id("errors.codes.timeout"), "errors.codes");
        assert_eq!(field_id("transports.kinds !~ \"sse\""), "transports.kinds");
    }

    #[test]
    fn what_is_shown_is_a_profile_that_decides_everything() {
        for (name, _) in sparring_profiles::BUILT_IN {
            let profile = Profile::named(name).unwrap();
            let text = show(&profile).unwrap_or_else(|e| panic!("{e:?}"));
            let again =
                Profile::parse("shown", &text).unwrap_or_else(|e| panic!("{name}: {}", e.render(false)));
            assert_eq!(again.settings(), profile.settings(), "{name}");
            assert!(text.contains("# the reference client's choice"), "{name}");
        }
    }

    #[test]
    fn the_template_is_a_profile_and_says_what_fields_mean() {
        let text = init::template(None);
        assert_eq!(Profile::parse("template", &text).unwrap().promises_made().len(), 3, "only the driver's");
        let zut = Profile::named("zut").unwrap();
        let filled = init::template(Some(&zut));
        let again = Profile::parse("filled", &filled).unwrap_or_else(|e| panic!("{}", e.render(false)));
        assert_eq!(again.fields(), zut.fields());
        for field in FIELDS {
            let name = field.id.split_once('.').unwrap().1;
            assert!(text.lines().any(|line| line.starts_with(&format!("# {name} = "))), "{}", field.id);
        }
    }
}
