//! A profile to fill in.

use sparring_profiles::{FIELDS, Settings};
use sparring_scenarios::profile::Profile;
use std::fmt::Write as _;

const HEAD: &str = "\
# A host profile: what the makers of a client promise beyond the specification. Take the `#` away from what your client
# promises, and correct the value. What is left out is not judged. `false`, \"never\" and \"ignore\" are promises too.
#
#     sparring profile check my-host.toml
#     sparring run --profile my-host.toml --driver adapter -- …
";

/// All fields with what they mean: those that `from` declares as they are there, the others commented out with the
/// reference client's value.
pub(super) fn template(from: Option<&Profile>) -> String {
    let all = toml::Value::try_from(Settings::default()).ok();
    let declared = from.and_then(|profile| toml::Value::try_from(profile.fields()).ok());
    let mut text = HEAD.to_owned();
    text.push_str("\n[host]\n");
    let host = from.map(|profile| profile.fields().host.clone()).unwrap_or_default();
    for (name, value) in
        [("name", host.name), ("version", host.version), ("url", host.url), ("extends", host.extends)]
    {
        match value {
            Some(value) => drop(writeln!(text, "{name} = {}", toml::Value::from(value))),
            None => drop(writeln!(text, "# {name} = \"\"")),
        }
    }
    let mut section = "";
    for field in FIELDS {
        let (of, name) = field.id.split_once('.').unwrap_or(("", field.id));
        if of != section {
            section = of;
            let _ = writeln!(text, "\n[{of}]");
        }
        let _ = writeln!(text, "#{}", field.about);
        let find = |root: &Option<toml::Value>| root.as_ref()?.get(of)?.get(name).cloned();
        match find(&declared) {
            Some(value) => drop(writeln!(text, "{name} = {}", inline(&value))),
            None => {
                let value = find(&all).map_or_else(|| "\"\"".to_owned(), |value| inline(&value));
                let _ = writeln!(text, "# {name} = {value}");
            }
        }
    }
    text
}

/// A value on one line.
pub(super) fn inline(value: &toml::Value) -> String {
    match value {
        toml::Value::Table(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{} = {}", key(name), inline(value))).collect();
            if members.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", members.join(", ")) }
        }
        toml::Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        // What stands for whole seconds may be written as such.
        toml::Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        other => other.to_string(),
    }
}

fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if bare { name.to_owned() } else { toml::Value::from(name).to_string() }
}
