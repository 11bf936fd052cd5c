//! What a server gets of the host's environment: variables in its configuration, its own environment, its working
//! directory, its headers.

mod expand;

pub use expand::Spellings;

use crate::entry::{Kind, ServerEntry};
use crate::error::HostError;
use crate::surroundings::Surroundings;
use sparring_client::{EnvPolicy, HttpTarget, StdioTarget, Target};
use sparring_profiles::{
    AuthSettings, Base, ConfigSettings, EnvSettings, ExpandIn, Inherit, Neutral, Settings, Unset,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What surroundings become for a server. The default is [`ProfileEnv`].
pub trait EnvRules: Send + Sync {
    /// The entry with its variables replaced, each once: a value is never looked into again.
    ///
    /// # Errors
    /// [`HostError::UnsetVariable`]; whether that concerns this server alone is `env.unset`.
    fn expand(&self, entry: &ServerEntry, around: &Surroundings) -> Result<ServerEntry, HostError>;

    /// The whole environment of the child, for an entry that was expanded.
    fn environment(&self, entry: &ServerEntry, around: &Surroundings) -> BTreeMap<String, String>;

    /// The working directory of the child, absolute, for an entry that was expanded.
    fn cwd(&self, entry: &ServerEntry, around: &Surroundings) -> PathBuf;

    /// The header fields of each request, for an entry that was expanded: those that are configured, and those whose
    /// values are in variables.
    ///
    /// # Errors
    /// [`HostError::UnsetVariable`]
    fn headers(&self, entry: &ServerEntry, around: &Surroundings)
    -> Result<Vec<(String, String)>, HostError>;
}

/// How an entry is reached: its variables are replaced, and everything it needs is in the target. A child inherits
/// nothing besides, so the client must have `EnvPolicy::None`.
///
/// # Errors
/// [`HostError::UnsetVariable`], or [`HostError::Config`] for an entry that says neither what to start nor where to
/// connect to.
pub fn target(
    rules: &dyn EnvRules,
    entry: &ServerEntry,
    around: &Surroundings,
) -> Result<(ServerEntry, Target), HostError> {
    let entry = rules.expand(entry, around)?;
    let config = |what: &str| HostError::Config(format!("{}: {what}", entry.name));
    let target = match entry.transport() {
        Some(Kind::Stdio) => {
            let command = entry.command.clone().ok_or_else(|| config("`command` is missing"))?;
            let env = rules.environment(&entry, around).into_iter();
            Target::Stdio(StdioTarget {
                command: command.into(),
                args: entry.args.iter().map(Into::into).collect(),
                env: env.map(|(name, value)| (name.into(), value.into())).collect(),
                cwd: Some(rules.cwd(&entry, around)),
            })
        }
        Some(Kind::Http | Kind::Sse) => {
            let url = entry.url.clone().ok_or_else(|| config("`url` is missing"))?;
            Target::Http(HttpTarget { url, headers: rules.headers(&entry, around)? })
        }
        None => return Err(config("it has neither `command` nor `url`")),
    };
    Ok((entry, target))
}

/// The rules that `[env]` and `[auth]` describe.
#[derive(Debug, Clone)]
pub struct ProfileEnv {
    env: EnvSettings,
    auth: AuthSettings,
    config: ConfigSettings,
    spellings: Spellings,
    names_variable: bool,
}

/// Settings of networks and certificates that programs need, and that the client's minimal set has not.
const NETWORK: [&str; 13] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

impl ProfileEnv {
    /// As these settings want it.
    pub fn new(settings: &Settings) -> Self {
        Self {
            spellings: Spellings::new(&settings.env.expand),
            env: settings.env.clone(),
            auth: settings.auth.clone(),
            config: settings.config.clone(),
            names_variable: settings.redaction.names_variable,
        }
    }

    fn inherits(&self, name: &str) -> bool {
        match self.env.inherit {
            Inherit::All => true,
            Inherit::Denylist => !self.denied(name),
            Inherit::Minimal => {
                EnvPolicy::Minimal.passes(name)
                    || NETWORK.contains(&name)
                    || self.env.must_have.iter().any(|needed| needed == name)
            }
            Inherit::None => false,
        }
    }

    fn denied(&self, name: &str) -> bool {
        self.env.denylist.iter().any(|denied| denied == name)
    }

    fn base(&self, base: Base, around: &Surroundings) -> PathBuf {
        match base {
            Base::Host => around.cwd.clone(),
            Base::Project => {
                around.project_root(self.config.project_root).unwrap_or_else(|| around.cwd.clone())
            }
        }
    }

    /// The host's own name of a field, for messages.
    fn key(&self, field: Neutral) -> String {
        let own = self.config.keys.get(&field).and_then(|names| names.preferred());
        own.map_or_else(|| format!("{field:?}").to_lowercase(), str::to_owned)
    }

    fn unset(&self, entry: &ServerEntry, field: Neutral, member: Option<&str>, variable: &str) -> HostError {
        let field = self.key(field);
        HostError::UnsetVariable {
            server: entry.name.clone(),
            field: member.map_or_else(|| field.clone(), |member| format!("{field}.{member}")),
            variable: if self.names_variable { variable } else { "(not named)" }.to_owned(),
        }
    }

    fn expanded(&self, text: &str, around: &Surroundings) -> Result<String, String> {
        self.spellings.expand(text, self.env.unset, |name| around.env.get(name).map(String::as_str))
    }

    /// A header value that is in a variable. `None`: it is not sent.
    fn value<'a>(
        &self,
        entry: &ServerEntry,
        place: (Neutral, Option<&str>),
        variable: &str,
        around: &'a Surroundings,
    ) -> Result<Option<&'a str>, HostError> {
        match (around.env.get(variable), self.env.unset) {
            (Some(value), _) => Ok(Some(value)),
            (None, Unset::DisableServer | Unset::FailAll) => {
                Err(self.unset(entry, place.0, place.1, variable))
            }
            (None, Unset::Empty | Unset::Literal) => Ok(None),
        }
    }
}

impl EnvRules for ProfileEnv {
    fn expand(&self, entry: &ServerEntry, around: &Surroundings) -> Result<ServerEntry, HostError> {
        let mut out = entry.clone();
        let verbatim =
            |field: &ExpandIn| matches!(field, ExpandIn::Command | ExpandIn::Args) && self.env.argv_verbatim;
        for field in self.env.expand_in.iter().filter(|field| !verbatim(field)) {
            let (name, values): (Neutral, Vec<(Option<String>, &mut String)>) = match field {
                ExpandIn::Command => (Neutral::Command, out.command.iter_mut().map(|v| (None, v)).collect()),
                ExpandIn::Cwd => (Neutral::Cwd, out.cwd.iter_mut().map(|v| (None, v)).collect()),
                ExpandIn::Url => (Neutral::Url, out.url.iter_mut().map(|v| (None, v)).collect()),
                ExpandIn::Args => {
                    let args = out.args.iter_mut().enumerate();
                    (Neutral::Args, args.map(|(at, v)| (Some(at.to_string()), v)).collect())
                }
                ExpandIn::Env => {
                    (Neutral::Env, out.env.iter_mut().map(|(name, v)| (Some(name.clone()), v)).collect())
                }
                ExpandIn::Headers => {
                    let headers = out.headers.iter_mut();
                    (Neutral::Headers, headers.map(|(name, v)| (Some(name.clone()), v)).collect())
                }
            };
            for (member, value) in values {
                *value = self
                    .expanded(value, around)
                    .map_err(|variable| self.unset(entry, name, member.as_deref(), &variable))?;
            }
        }
        Ok(out)
    }

    fn environment(&self, entry: &ServerEntry, around: &Surroundings) -> BTreeMap<String, String> {
        let strict = entry.strict_env && self.env.strict_option;
        let passed = |name: &str| self.env.pass_option && entry.env_pass.iter().any(|passed| passed == name);
        let mut child: BTreeMap<String, String> = around
            .env
            .iter()
            .filter(|(name, _)| !strict && (self.inherits(name) || passed(name)))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let own = entry.env.iter().filter(|(name, _)| self.env.explicit_beats_denylist || !self.denied(name));
        child.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        child
    }

    fn cwd(&self, entry: &ServerEntry, around: &Surroundings) -> PathBuf {
        match &entry.cwd {
            // An absolute path stays what it is.
            Some(cwd) => self.base(self.env.cwd_base, around).join(cwd),
            None => self.base(self.env.cwd_default, around),
        }
    }

    fn headers(
        &self,
        entry: &ServerEntry,
        around: &Surroundings,
    ) -> Result<Vec<(String, String)>, HostError> {
        let mut headers: Vec<(String, String)> = entry.headers.clone().into_iter().collect();
        let mut set = |name: &str, value: String| {
            headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            headers.push((name.to_owned(), value));
        };
        if self.auth.header_from_env {
            for (name, variable) in &entry.header_env {
                if let Some(value) = self.value(entry, (Neutral::HeaderEnv, Some(name)), variable, around)? {
                    set(name, value.to_owned());
                }
            }
        }
        if let Some(variable) = entry.bearer_env.as_ref().filter(|_| self.auth.bearer_from_env)
            && let Some(token) = self.value(entry, (Neutral::BearerEnv, None), variable, around)?
        {
            set("Authorization", format!("Bearer {token}"));
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests;
