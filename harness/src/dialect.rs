//! Configuration files of hosts, in the dialect that a profile declares: format, top-level key, shape, names of fields,
//! spellings of transports.

use crate::driver::Target;
use serde_json::{Map, Value, json};
use sparring_profiles::{ConfigSettings, Format, Neutral, ProfileTransport, Shape};
use sparring_scenarios::op::{Configure, Entry, usual_shape};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Where a host looks for its files, and what the placeholders of `config.files` mean.
#[derive(Debug, Clone)]
pub(crate) struct Places<'a> {
    /// The case's folder.
    pub(crate) case: &'a Path,
    /// The folder that is `{project}` and `{cwd}`, below it.
    pub(crate) base: &'a Path,
    /// HOME.
    pub(crate) home: &'a Path,
}

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// Where it belongs.
    pub(crate) path: PathBuf,
    /// Its text.
    pub(crate) text: String,
}

/// The file that a `configure` step asks for.
///
/// # Errors
/// In words: the dialect has no name for what the scenario wants to say.
pub(crate) fn file(
    dialect: &ConfigSettings,
    configure: &Configure,
    targets: &BTreeMap<String, Target>,
    places: &Places<'_>,
) -> Result<Written, String> {
    let path = match &configure.path {
        Some(path) => places.case.join(path),
        None => place(dialect, configure.file.unwrap_or(0), places)?,
    };
    let text = match &configure.raw {
        Some(raw) => raw.clone(),
        None => text(dialect, configure, targets)?,
    };
    Ok(Written { path, text })
}

/// Where the nth file of the profile is.
fn place(dialect: &ConfigSettings, nth: u32, places: &Places<'_>) -> Result<PathBuf, String> {
    let template = choose(&dialect.files, nth).ok_or("the profile's `config.files` is empty")?;
    let mut path = template
        .replace("{home}", &places.home.display().to_string())
        .replace("{cwd}", &places.base.display().to_string())
        .replace("{project}", &places.base.display().to_string());
    while let Some((before, rest)) = path.split_once("{env:") {
        let (name, after) = rest.split_once('}').ok_or_else(|| format!("`{template}` lacks its `}}`"))?;
        path = format!("{before}{}{after}", environment_folder(places.case, name).display());
    }
    Ok(PathBuf::from(path))
}

/// The folder that a variable of `config.files` (`{env:NAME}`) leads to in a case. The host gets the variable with this
/// value.
pub(crate) fn environment_folder(case: &Path, name: &str) -> PathBuf {
    case.join("env").join(name)
}

/// The variables that `config.files` mentions, with the folders that they lead to.
pub(crate) fn environment(dialect: &ConfigSettings, case: &Path) -> BTreeMap<String, String> {
    let named = dialect.files.iter().filter_map(|template| {
        let (_, rest) = template.split_once("{env:")?;
        rest.split_once('}').map(|(name, _)| name)
    });
    named.map(|name| (name.to_owned(), environment_folder(case, name).display().to_string())).collect()
}

/// The nth of a list; of a number that is too large, the last.
fn choose<T>(list: &[T], nth: u32) -> Option<&T> {
    list.get(usize::try_from(nth).unwrap_or(usize::MAX)).or_else(|| list.last())
}

/// What the dialect lacks of what a `configure` step wants to say: neutral names.
pub(crate) fn missing(dialect: &ConfigSettings, configure: &Configure) -> BTreeSet<Neutral> {
    if configure.raw.is_some() {
        return BTreeSet::new();
    }
    let mut needed = BTreeSet::new();
    for entry in configure.entries.values() {
        needed.extend(entry.neutral().keys().filter_map(|name| neutral(name)));
    }
    needed.retain(|name| !dialect.keys.contains_key(name));
    needed
}

fn neutral(name: &str) -> Option<Neutral> {
    serde_json::from_value(Value::from(name)).ok()
}

fn text(
    dialect: &ConfigSettings,
    configure: &Configure,
    targets: &BTreeMap<String, Target>,
) -> Result<String, String> {
    let plain = Entry::default();
    let chosen = chosen(&configure.servers, &configure.entries, targets);
    let mut entries: BTreeMap<&str, &Entry> = chosen.map(|(name, _)| (name.as_str(), &plain)).collect();
    entries.extend(configure.entries.iter().map(|(name, entry)| (name.as_str(), entry)));
    let named = |name: &str, entry: Value| {
        let mut named = Map::from_iter([("name".to_owned(), Value::from(name))]);
        named.extend(entry.as_object().cloned().unwrap_or_default());
        Value::Object(named)
    };
    let shape = match configure.shape {
        Some(nth) => choose(&dialect.shape, nth).copied(),
        None => dialect.shape.first().copied(),
    };
    let shape = shape.unwrap_or_else(|| usual_shape(dialect.format));
    let mut servers = Vec::new();
    for (name, entry) in entries {
        servers.push((name, in_dialect(dialect, configure, name, entry, targets)?));
    }
    if configure.alone {
        let mut servers = servers.into_iter();
        return match (servers.next(), servers.next()) {
            (Some((name, entry)), None) => rendered(dialect.format, &named(name, entry)),
            _ => Err("a file of one server has one entry".to_owned()),
        };
    }
    let servers = match shape {
        Shape::Map => {
            Value::Object(servers.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect())
        }
        Shape::List => Value::Array(servers.into_iter().map(|(name, entry)| named(name, entry)).collect()),
    };
    let root = choose(&dialect.root_keys, configure.root_key.unwrap_or(0)).cloned();
    let root = root.unwrap_or_else(|| "mcpServers".to_owned());
    let mut whole = json!({ root: servers });
    if let Some(folder) = &configure.folder {
        let key = dialect.folder_key.as_ref();
        let key = key.ok_or("the profile has no key for a folder of servers (config.folder_key)")?;
        whole[key.as_str()] = Value::from(folder.as_str());
    }
    rendered(dialect.format, &whole)
}

fn rendered(format: Format, whole: &Value) -> Result<String, String> {
    match format {
        Format::Json => Ok(format!("{whole:#}\n")),
        Format::Yaml => serde_saphyr::to_string(whole).map_err(|error| error.to_string()),
        Format::Toml => toml::to_string_pretty(whole).map_err(|error| error.to_string()),
    }
}

/// An entry under the dialect's names.
fn in_dialect(
    dialect: &ConfigSettings,
    configure: &Configure,
    name: &str,
    entry: &Entry,
    targets: &BTreeMap<String, Target>,
) -> Result<Value, String> {
    let neutral_members = members(name, entry, targets)?;
    let mut written = Map::new();
    let mut put = |neutral: Neutral, value: Value| -> Result<(), String> {
        let Some(names) = dialect.keys.get(&neutral) else {
            return Err(format!("the profile has no name for `{}` (config.keys)", json!(neutral)));
        };
        let nth = configure.keys.get(&neutral).copied().unwrap_or(0);
        if let Some(name) = choose(names.all(), nth) {
            written.insert(name.clone(), value);
        }
        Ok(())
    };
    let has = |neutral: Neutral| dialect.keys.contains_key(&neutral);
    for (member, value) in neutral_members {
        match member.as_str() {
            // A host that takes program and arguments in one list.
            "command" if !has(Neutral::Command) && has(Neutral::Argv) => {}
            "args" if !has(Neutral::Args) && has(Neutral::Argv) => {}
            "argv" if has(Neutral::Command) => {}
            "type" => {
                let kind: ProfileTransport =
                    serde_json::from_value(value).map_err(|error| error.to_string())?;
                let nth = configure.spelling.unwrap_or(0);
                let spelling = dialect.types.get(&kind).and_then(|spellings| choose(spellings, nth));
                if let (Some(spelling), true, false) = (spelling, has(Neutral::Type), configure.untyped) {
                    put(Neutral::Type, Value::from(spelling.as_str()))?;
                }
            }
            other => {
                let neutral = neutral(other).ok_or_else(|| format!("there is no neutral name `{other}`"))?;
                put(neutral, value)?;
            }
        }
    }
    Ok(Value::Object(written))
}

/// The servers that an `open` names, by their names in the scenario.
pub(crate) fn chosen<'a>(
    servers: &'a [String],
    entries: &'a BTreeMap<String, Entry>,
    targets: &'a BTreeMap<String, Target>,
) -> impl Iterator<Item = (&'a String, &'a Target)> {
    let all = servers.is_empty() && entries.is_empty();
    targets.iter().filter(move |(name, _)| all || servers.contains(name))
}

/// An entry under neutral names: what leads to its server, and what is configured besides.
///
/// # Errors
/// It leads to a server that does not exist.
pub(crate) fn members(
    name: &str,
    entry: &Entry,
    targets: &BTreeMap<String, Target>,
) -> Result<Map<String, Value>, String> {
    let mut members = Map::new();
    let leads_to = entry.of.as_deref().unwrap_or(name);
    for (nth, server) in [Some(leads_to), entry.also.as_deref()].into_iter().flatten().enumerate() {
        let target = targets.get(server).ok_or_else(|| format!("there is no server `{server}`"))?;
        match target {
            Target::Stdio { command, args, env } => {
                let command = match &entry.command {
                    Some(own) => own.replace("{command}", command),
                    None => command.clone(),
                };
                let args: Vec<&str> = args.iter().chain(&entry.args).map(String::as_str).collect();
                let argv: Vec<&str> = std::iter::once(command.as_str()).chain(args.iter().copied()).collect();
                members.insert("argv".to_owned(), json!(argv));
                members.insert("command".to_owned(), json!(command));
                members.insert("args".to_owned(), json!(args));
                if !env.is_empty() {
                    members.insert("env".to_owned(), json!(env));
                }
                if nth == 0 {
                    members.insert("type".to_owned(), json!(ProfileTransport::Stdio));
                }
            }
            Target::Http { url } | Target::SseLegacy { url } => {
                let kind = match target {
                    Target::SseLegacy { .. } => ProfileTransport::Sse,
                    _ => ProfileTransport::Http,
                };
                let url = match &entry.url {
                    Some(own) => own.replace("{url}", url),
                    None => url.clone(),
                };
                members.insert("url".to_owned(), json!(url));
                // A program beside the URL.
                if let Some(command) = &entry.command {
                    members.insert("command".to_owned(), json!(command));
                    members.insert("args".to_owned(), json!(entry.args));
                }
                if nth == 0 {
                    members.insert("type".to_owned(), json!(kind));
                }
            }
        }
    }
    for (name, value) in entry.neutral() {
        match (members.get_mut(&name), value) {
            // The server's own variables stay.
            (Some(Value::Object(there)), Value::Object(more)) => there.extend(more),
            (_, value) => {
                members.insert(name, value);
            }
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparring_profiles::Profile;

    fn targets() -> BTreeMap<String, Target> {
        let stdio =
            Target::Stdio { command: "/bin/mock".into(), args: vec!["plan".into()], env: BTreeMap::new() };
        let http = Target::Http { url: "http://127.0.0.1:1/mcp".into() };
        BTreeMap::from([("files".to_owned(), stdio), ("web".to_owned(), http)])
    }

    fn written(profile: &str, configure: &Configure) -> Result<Written, String> {
        let settings = Profile::load(profile).unwrap().settings().config;
        let places = Places { case: Path::new("/c"), base: Path::new("/c/p"), home: Path::new("/c/home") };
        file(&settings, configure, &targets(), &places)
    }

    #[test]
    fn each_host_has_its_own_words() {
        let zut = written("zut", &Configure { spelling: Some(1), ..Configure::default() }).unwrap();
        assert_eq!(zut.path, Path::new("/c/p/.zut/mcp.json"));
        let json: Value = serde_json::from_str(&zut.text).unwrap();
        assert_eq!(
            json,
            json!({"mcpServers": {
                "files": {"command": "/bin/mock", "args": ["plan"], "type": "stdio"},
                "web": {"url": "http://127.0.0.1:1/mcp", "type": "streamable-http"},
            }})
        );
        let mewbo = written("mewbo", &Configure { root_key: Some(9), ..Configure::default() }).unwrap();
        let json: Value = serde_json::from_str(&mewbo.text).unwrap();
        assert_eq!(
            json["mcpServers"]["files"],
            json!({"command": ["/bin/mock", "plan"], "transport": "stdio"})
        );
        let chaz = written("chaz", &Configure::default()).unwrap();
        let yaml: Value = serde_saphyr::from_str(&chaz.text).unwrap();
        assert_eq!(
            yaml["mcp_servers"][0],
            json!({"name": "files", "command": "/bin/mock", "args": ["plan"]})
        );
    }

    #[test]
    fn variations_are_chosen_by_number() {
        let keys = BTreeMap::from([(Neutral::Url, 1), (Neutral::Type, 1)]);
        let configure =
            Configure { shape: Some(1), keys, servers: vec!["web".into()], ..Configure::default() };
        let zidane: Value = serde_json::from_str(&written("zidane", &configure).unwrap().text).unwrap();
        assert_eq!(
            zidane,
            json!({"mcpServers": {"web": {"httpUrl": "http://127.0.0.1:1/mcp", "type": "streamable-http"}}})
        );
        let file =
            written("zut", &Configure { file: Some(1), raw: Some("{".into()), ..Configure::default() });
        assert_eq!(file, Ok(Written { path: "/c/env/ZUT_HOME/mcp.json".into(), text: "{".into() }));
    }

    #[test]
    fn entries_say_more_and_both() {
        let entry = Entry {
            of: Some("files".into()),
            also: Some("web".into()),
            args: vec!["--x".into()],
            url: Some("{url}?k=${K}".into()),
            env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
            ..Entry::default()
        };
        let configure =
            Configure { entries: BTreeMap::from([("one".to_owned(), entry)]), ..Configure::default() };
        let yaml: Value = serde_saphyr::from_str(&written("chaz", &configure).unwrap().text).unwrap();
        assert_eq!(
            yaml["mcp_servers"],
            json!([{
                "name": "one", "command": "/bin/mock", "args": ["plan", "--x"],
                "url": "http://127.0.0.1:1/mcp?k=${K}", "env": {"A": "b"},
            }])
        );
    }

    #[test]
    fn what_a_dialect_lacks_is_told() {
        let entry = Entry { enabled: Some(false), ..Entry::default() };
        let configure =
            Configure { entries: BTreeMap::from([("files".to_owned(), entry)]), ..Configure::default() };
        let chaz = Profile::load("chaz").unwrap().settings().config;
        assert_eq!(missing(&chaz, &configure), BTreeSet::from([Neutral::Enabled]));
        assert!(written("chaz", &configure).unwrap_err().contains("enabled"));
        let zut = Profile::load("zut").unwrap().settings().config;
        assert!(missing(&zut, &configure).is_empty());
    }
}
