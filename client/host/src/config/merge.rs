//! The same server in several places.

use crate::entry::ServerEntry;
use crate::error::HostError;
use crate::naming::slug;
use sparring_profiles::{ConfigSettings, Listing, Merge, ServerSlug, Settings};
use std::collections::BTreeMap;

/// Adds the entries of a weaker place.
///
/// # Errors
/// [`HostError::Config`], if a server must not stand in two places and does.
pub(super) fn add(
    settings: &Settings,
    merged: &mut Vec<ServerEntry>,
    weaker: Vec<ServerEntry>,
) -> Result<(), HostError> {
    for entry in weaker {
        let identity = identity(settings, &entry.name);
        let Some(stronger) =
            merged.iter_mut().find(|known| self::identity(settings, &known.name) == identity)
        else {
            merged.push(entry);
            continue;
        };
        match settings.config.merge {
            Merge::ReplaceEntry => {}
            Merge::MergeFields => fill_in(stronger, entry),
            Merge::Error => {
                return Err(HostError::Config(format!(
                    "the server {:?} is configured twice, {} and {}",
                    entry.name,
                    shown(stronger),
                    shown(&entry)
                )));
            }
        }
    }
    Ok(())
}

/// What makes two servers the same one: the name, or what stands for it in tools.
pub(super) fn identity(settings: &Settings, name: &str) -> String {
    match settings.naming.server_slug {
        ServerSlug::AsIs => name.to_owned(),
        ServerSlug::Opaque => slug(name),
    }
}

fn shown(entry: &ServerEntry) -> String {
    entry
        .source
        .file
        .as_ref()
        .map_or_else(|| "by the program".to_owned(), |file| format!("in {}", file.display()))
}

/// Fields that the stronger entry has not set come from the weaker one; maps are merged by key. A target is taken over
/// as a whole only.
fn fill_in(stronger: &mut ServerEntry, weaker: ServerEntry) {
    fn map<T>(stronger: &mut BTreeMap<String, T>, weaker: BTreeMap<String, T>) {
        for (key, value) in weaker {
            stronger.entry(key).or_insert(value);
        }
    }
    fn list(stronger: &mut Vec<String>, weaker: Vec<String>) {
        if stronger.is_empty() {
            *stronger = weaker;
        }
    }
    if stronger.command.is_none() && stronger.url.is_none() {
        stronger.command = weaker.command;
        stronger.args = weaker.args;
        stronger.url = weaker.url;
        stronger.kind = stronger.kind.or(weaker.kind);
    }
    map(&mut stronger.env, weaker.env);
    map(&mut stronger.headers, weaker.headers);
    map(&mut stronger.header_env, weaker.header_env);
    map(&mut stronger.per_tool_timeout, weaker.per_tool_timeout);
    list(&mut stronger.env_pass, weaker.env_pass);
    list(&mut stronger.deny, weaker.deny);
    stronger.cwd = stronger.cwd.take().or(weaker.cwd);
    stronger.bearer_env = stronger.bearer_env.take().or(weaker.bearer_env);
    stronger.enabled = stronger.enabled.or(weaker.enabled);
    stronger.allow = stronger.allow.take().or(weaker.allow);
    stronger.startup_timeout = stronger.startup_timeout.or(weaker.startup_timeout);
    stronger.tool_timeout = stronger.tool_timeout.or(weaker.tool_timeout);
    stronger.disclosure = stronger.disclosure.or(weaker.disclosure);
    stronger.supplied_tools = stronger.supplied_tools.take().or(weaker.supplied_tools);
    stronger.shared = stronger.shared.or(weaker.shared);
    stronger.auth = stronger.auth.take().or(weaker.auth);
    stronger.strict_env |= weaker.strict_env;
    stronger.required |= weaker.required;
    stronger.lazy_connect |= weaker.lazy_connect;
    for (rule, value) in weaker.policy {
        stronger.policy.entry(rule).or_insert(value);
    }
}

/// The entries in the order in which they are shown.
pub fn listing<'a>(settings: &ConfigSettings, entries: &'a [ServerEntry]) -> Vec<&'a ServerEntry> {
    let mut listed: Vec<&ServerEntry> = entries.iter().collect();
    if settings.listing == Listing::ByName {
        listed.sort_by_cached_key(|entry| (entry.source.project, entry.name.to_lowercase()));
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Source;

    fn entry(name: &str, env: &[(&str, &str)], project: bool) -> ServerEntry {
        ServerEntry {
            name: name.into(),
            env: env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            source: Source { file: Some(format!("/{project}.json").into()), project },
            ..ServerEntry::default()
        }
    }

    fn merged(merge: Merge, stronger: ServerEntry, weaker: ServerEntry) -> Result<Vec<ServerEntry>, String> {
        let mut settings = Settings::default();
        settings.config.merge = merge;
        let mut all = Vec::new();
        for entries in [vec![stronger], vec![weaker]] {
            add(&settings, &mut all, entries).map_err(|error| error.to_string())?;
        }
        Ok(all)
    }

    #[test]
    fn each_way_of_merging() {
        let strong = ServerEntry { command: Some("s".into()), ..entry("a", &[("K", "1")], true) };
        let weak = ServerEntry {
            command: Some("w".into()),
            args: vec!["x".into()],
            cwd: Some("c".into()),
            ..entry("a", &[("K", "2"), ("L", "3")], false)
        };
        assert_eq!(merged(Merge::ReplaceEntry, strong.clone(), weak.clone()), Ok(vec![strong.clone()]));
        let both = merged(Merge::MergeFields, strong.clone(), weak.clone()).unwrap().remove(0);
        assert_eq!((both.env["K"].as_str(), both.env["L"].as_str()), ("1", "3"));
        assert_eq!(
            (both.command.as_deref(), both.args.len(), both.cwd.as_deref()),
            (Some("s"), 0, Some("c"))
        );
        let error = merged(Merge::Error, strong.clone(), weak).unwrap_err();
        assert_eq!(error, "the server \"a\" is configured twice, in /true.json and in /false.json");
        assert_eq!(merged(Merge::Error, strong, entry("b", &[], false)).unwrap().len(), 2);
    }

    #[test]
    fn opaque_names_are_the_same_if_they_stand_for_the_same() {
        let mut settings = Settings::default();
        for (slug, count) in [(ServerSlug::AsIs, 2), (ServerSlug::Opaque, 1)] {
            settings.naming.server_slug = slug;
            let mut all = vec![entry("My Server", &[], true)];
            add(&settings, &mut all, vec![entry("my-server", &[], false)]).unwrap();
            assert_eq!(all.len(), count);
        }
    }

    #[test]
    fn lists_are_sorted_where_the_host_does_so() {
        let entries =
            [entry("b", &[], true), entry("Z", &[], false), entry("a", &[], true), entry("y", &[], false)];
        let names = |listing: Listing| -> Vec<&str> {
            let settings = ConfigSettings { listing, ..ConfigSettings::default() };
            super::listing(&settings, &entries).into_iter().map(|e| e.name.as_str()).collect()
        };
        assert_eq!(names(Listing::Configured), ["b", "Z", "a", "y"]);
        assert_eq!(names(Listing::ByName), ["y", "Z", "a", "b"]);
    }
}
