//! From a configured server to what the protocol connects to.

use crate::Surroundings;
use crate::entry::{Kind, ServerEntry};
use crate::error::HostError;
use sparring_client::{HttpTarget, Root, RootsCapability, StdioTarget, Target};
use sparring_profiles::{Base, Inherit, OnChange, ProfileTransport, RootAnswer, SessionLost, Settings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where a session is: sessions of one host can be in several projects.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its project, if it has one.
    pub project: Option<PathBuf>,
}

impl Place {
    /// The folder that project rules are about.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.project.as_deref().unwrap_or(&self.cwd)
    }

    fn base(&self, base: Base) -> &Path {
        match base {
            Base::Host => &self.cwd,
            Base::Project => self.root(),
        }
    }
}

/// The transport of an entry.
pub(crate) fn kind_of(settings: &Settings, entry: &ServerEntry) -> Result<Kind, HostError> {
    let kind = match (entry.kind, &entry.command, &entry.url) {
        (Some(kind), ..) => kind,
        (None, _, Some(_)) => Kind::Http,
        (None, Some(_), None) => Kind::Stdio,
        (None, None, None) => {
            return Err(HostError::Config(format!("{}: neither a command nor a URL", entry.name)));
        }
    };
    if !settings.transports.kinds.contains(&transport(kind)) {
        let kind = serde_json::to_value(kind).unwrap_or_default();
        return Err(HostError::Config(format!("{}: this host has no transport {kind}", entry.name)));
    }
    Ok(kind)
}

pub(crate) const fn transport(kind: Kind) -> ProfileTransport {
    match kind {
        Kind::Stdio => ProfileTransport::Stdio,
        Kind::Http => ProfileTransport::Http,
        Kind::Sse => ProfileTransport::Sse,
    }
}

/// The working directory of a stdio server.
pub(crate) fn cwd_of(settings: &Settings, entry: &ServerEntry, place: &Place) -> PathBuf {
    match &entry.cwd {
        None => place.base(settings.env.cwd_default).to_owned(),
        Some(cwd) => place.base(settings.env.cwd_base).join(cwd),
    }
}

/// Variables that programs need to run.
const MINIMAL: [&str; 12] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "SYSTEMROOT",
    "PATHEXT",
];

fn environment(
    settings: &Settings,
    entry: &ServerEntry,
    host: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let rules = &settings.env;
    let strict = entry.strict_env && rules.strict_option;
    let inherits = |name: &str| match rules.inherit {
        Inherit::All => true,
        Inherit::Minimal => MINIMAL.contains(&name) || name.starts_with("LC_"),
        Inherit::Denylist => !rules.denylist.iter().any(|denied| denied == name),
        Inherit::None => false,
    };
    let passes = |name: &String| {
        !strict
            && (inherits(name)
                || rules.must_have.contains(name)
                || (rules.pass_option && entry.env_pass.contains(name)))
    };
    let inherited = host.iter().filter(|(name, _)| passes(name));
    inherited.chain(&entry.env).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What to connect to.
pub(crate) fn target_of(
    settings: &Settings,
    entry: &ServerEntry,
    place: &Place,
    surroundings: &Surroundings,
) -> Result<(Kind, Target), HostError> {
    let kind = kind_of(settings, entry)?;
    let missing = |what: &str| HostError::Config(format!("{}: no {what}", entry.name));
    let target = match kind {
        Kind::Stdio => {
            let command = entry.command.as_ref().ok_or_else(|| missing("command"))?;
            let mut target = StdioTarget::new(command, &entry.args);
            target.env = environment(settings, entry, &surroundings.env)
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect();
            target.cwd = Some(cwd_of(settings, entry, place)).filter(|cwd| !cwd.as_os_str().is_empty());
            Target::Stdio(target)
        }
        Kind::Http => {
            let mut target = HttpTarget::new(entry.url.as_ref().ok_or_else(|| missing("URL"))?);
            if settings.transports.static_headers {
                target.headers = entry.headers.clone().into_iter().collect();
            }
            Target::Http(target)
        }
        Kind::Sse => return Err(HostError::Config(format!("{}: HTTP+SSE is not there yet", entry.name))),
    };
    Ok((kind, target))
}

/// The settings of the protocol.
pub(crate) fn client_settings(
    settings: &Settings,
    kind: Kind,
    place: &Place,
    clock: crate::clock::Clock,
    startup: f64,
) -> sparring_client::Settings {
    let mut client = sparring_client::Settings {
        offer: settings.protocol.offers,
        accept: settings.protocol.accepts.clone(),
        ..sparring_client::Settings::default()
    };
    if !client.accept.contains(&client.offer) {
        client.accept.push(client.offer);
    }
    client.timeouts.start = clock.seconds(startup);
    client.timeouts.request = clock.seconds(settings.timeouts.tool_s);
    client.timeouts.ceiling = client.timeouts.ceiling.max(clock.seconds(settings.timeouts.tool_s));
    client.pages.follow = settings.discovery.paginates;
    if !settings.discovery.bounded {
        client.pages.limit = u32::MAX;
    }
    let listed = settings.list_changed.transports.contains(&transport(kind));
    client.list_changed = match settings.list_changed.tools {
        _ if !listed => sparring_client::ListChangedPolicy::RefetchNow,
        OnChange::RefetchNow => sparring_client::ListChangedPolicy::RefetchNow,
        OnChange::BeforeNextCall => sparring_client::ListChangedPolicy::BeforeNextUse,
        OnChange::Ignore => sparring_client::ListChangedPolicy::Ignore,
    };
    client.stdio.env = sparring_client::EnvPolicy::None;
    // Two graces, one before SIGTERM and one before SIGKILL, so that force comes at the end of the budget.
    client.stdio.close_wait = clock.seconds(settings.timeouts.close_s / 2.0);
    client.stdio.terminate_wait = client.stdio.close_wait;
    client.http.delete_session = settings.shutdown.deletes_session;
    client.http.delete_wait = clock.seconds(settings.timeouts.close_s);
    client.http.reopen_session = settings.restart.http_session_lost == SessionLost::AtOnce;
    let root = match settings.roots.answer {
        RootAnswer::Cwd => Some(place.cwd.as_path()),
        RootAnswer::Project => Some(place.root()),
        RootAnswer::None => None,
    };
    if let Some(uri) = root.and_then(|root| url::Url::from_file_path(root).ok()) {
        client.declare.roots = Some(RootsCapability { list_changed: false });
        client.roots = vec![Root { uri: uri.to_string(), name: None }];
    }
    client
}
