//! From a configured server to what the protocol connects to.

use crate::auth::{SignIn, sign_in};
use crate::clock::Clock;
use crate::context::Context;
use crate::entry::{Kind, ServerEntry};
use crate::env;
use crate::error::HostError;
use crate::surroundings::Surroundings;
use sparring_client::{HttpTarget, RootsCapability, Target};
use sparring_profiles::{OnChange, ProfileTransport, SessionLost, Settings};
use std::path::{Path, PathBuf};

/// Where a session is: sessions of one host can be in several projects.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    /// The host's surroundings, as they are here.
    pub(crate) fn around(&self, host: &Surroundings) -> Surroundings {
        Surroundings { cwd: self.cwd.clone(), project: self.project.clone(), ..host.clone() }
    }
}

/// The transport of an entry, if the host has it.
pub(crate) fn kind_of(settings: &Settings, entry: &ServerEntry) -> Result<Kind, HostError> {
    let Some(kind) = entry.transport() else {
        return Err(HostError::Config(format!("{}: it has neither a command nor a URL", entry.name)));
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

/// The working directory of a server, as configured.
pub(crate) fn folder_of(context: &Context, entry: &ServerEntry, place: &Place) -> PathBuf {
    let around = place.around(&context.surroundings);
    // What can't be expanded is not started; until then, the text stands for itself.
    let expanded = context.parts.env.expand(entry, &around);
    context.parts.env.cwd(expanded.as_ref().unwrap_or(entry), &around)
}

/// What to connect to, and how.
pub(crate) struct Way {
    pub(crate) target: Target,
    pub(crate) settings: sparring_client::Settings,
}

/// How to connect to a server: all variables are replaced, and what must not be seen is learnt.
pub(crate) fn way(
    context: &Context,
    entry: &ServerEntry,
    place: &Place,
    startup: f64,
) -> Result<Way, HostError> {
    let settings = context.settings();
    let kind = kind_of(&settings, entry)?;
    let around = place.around(&context.surroundings);
    let (expanded, mut target) = env::target(&*context.parts.env, entry, &around)?;
    context.parts.redact.learn(&expanded);
    let paths = (context.parts.paths)(&settings, place);
    let mut client = client_settings(&settings, kind, context.parts.clock, startup);
    if let Some(root) = paths.root() {
        client.declare.roots = Some(RootsCapability { list_changed: false });
        client.roots = vec![root];
    }
    match &mut target {
        Target::Stdio(stdio) => {
            if let Some(cwd) = stdio.cwd.take() {
                // Where the entry names no folder, nobody has left the project on purpose.
                stdio.cwd = Some(if expanded.cwd.is_some() { paths.child_cwd(&cwd)? } else { cwd });
            }
        }
        Target::Http(http) | Target::Sse(http) => {
            let headers = match settings.transports.static_headers {
                true => std::mem::take(&mut http.headers),
                false => Vec::new(),
            };
            let SignIn { oauth, headers } = sign_in(&settings.auth, &expanded, headers)?;
            for (name, value) in &headers {
                context.parts.redact.learn_header(name, value);
            }
            client.oauth = oauth;
            http.headers = headers;
        }
        _ => {}
    }
    if kind == Kind::Sse
        && let Target::Http(http) = target
    {
        target = Target::Sse(HttpTarget { url: http.url, headers: http.headers });
    }
    Ok(Way { target, settings: client })
}

/// The settings of the protocol.
fn client_settings(settings: &Settings, kind: Kind, clock: Clock, startup: f64) -> sparring_client::Settings {
    let mut client = sparring_client::Settings {
        offer: settings.protocol.offers,
        accept: settings.protocol.accepts.clone(),
        ..sparring_client::Settings::default()
    };
    if !client.accept.contains(&client.offer) {
        client.accept.push(client.offer);
    }
    client.tell_cancelled = settings.protocol.cancel_notifies;
    client.only_declared_tools = settings.discovery.needs_capability;
    client.stdio.tolerate_noise = settings.stdio.tolerates_noise;
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
    // The environment is the target's, and complete.
    client.stdio.env = sparring_client::EnvPolicy::None;
    // Two graces, one before SIGTERM and one before SIGKILL, so that force comes at the end of the budget.
    client.stdio.close_wait = clock.seconds(settings.timeouts.close_s / 2.0);
    client.stdio.terminate_wait = client.stdio.close_wait;
    client.http.delete_session = settings.shutdown.deletes_session;
    client.http.delete_wait = clock.seconds(settings.timeouts.close_s);
    client.http.reopen_session = settings.restart.http_session_lost == SessionLost::AtOnce;
    client.http.end_with_session = !client.http.reopen_session;
    client.stdio.own_group = settings.shutdown.own_group;
    client.http.legacy_fallback = settings.transports.kinds.contains(&ProfileTransport::Sse);
    client
}
