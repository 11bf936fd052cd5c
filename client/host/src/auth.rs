//! What a host promises about signing in: when, by which client, by which way back.
//!
//! The flow itself is `sparring_client::oauth`'s. Here it is decided whether a server gets one ([`sign_in`]), and a
//! person's part of it is taken care of ([`LoginDesk`]).

mod desk;

pub use desk::{Announce, LoginDesk, WayBack};

use crate::entry::ServerEntry;
use crate::error::HostError;
use serde_json::Value;
use sparring_client::{LoginPolicy, OauthSettings, RegisteredClient};
use sparring_profiles::{AuthSettings, Registration, StaticHeader};

/// How a server over HTTP is signed in to.
#[derive(Debug, Clone)]
pub struct SignIn {
    /// The flow; none if a 401 is an error and nothing more.
    pub oauth: Option<OauthSettings>,
    /// The headers of each request.
    pub headers: Vec<(String, String)>,
}

/// What an entry says about OAuth.
#[derive(Debug, Default)]
struct Own {
    on: bool,
    client_id: Option<String>,
    client_secret: Option<String>,
    issuer: Option<String>,
    metadata_document: Option<String>,
    callback_port: Option<u16>,
    scope: Option<String>,
}

impl Own {
    /// `"oauth"`, or a table.
    fn read(entry: &ServerEntry) -> Result<Self, HostError> {
        let wrong = |what: &str| HostError::Config(format!("{}: `auth` {what}", entry.name));
        let table = match &entry.auth {
            None | Some(Value::Null | Value::Bool(false)) => return Ok(Self::default()),
            Some(Value::Bool(true)) => return Ok(Self { on: true, ..Self::default() }),
            Some(Value::String(word)) if word.eq_ignore_ascii_case("oauth") => {
                return Ok(Self { on: true, ..Self::default() });
            }
            Some(Value::String(word)) if word.eq_ignore_ascii_case("none") => return Ok(Self::default()),
            Some(Value::Object(table)) => table,
            Some(_) => return Err(wrong("is `\"oauth\"`, `\"none\"`, or a table")),
        };
        let text = |name: &str| match table.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong(&format!("has a `{name}` that is no string"))),
        };
        let callback_port = match table.get("callback_port") {
            None | Some(Value::Null) => None,
            Some(port) => {
                let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
                Some(port.ok_or_else(|| wrong("has a `callback_port` that is no port"))?)
            }
        };
        Ok(Self {
            on: true,
            client_id: text("client_id")?,
            client_secret: text("client_secret")?,
            issuer: text("issuer")?,
            metadata_document: text("metadata_document")?,
            callback_port,
            scope: text("scope")?,
        })
    }
}

/// How a server is signed in to, as the host and the entry say. `headers`: those of the entry, after expansion.
///
/// # Errors
/// The entry's `auth` can't be understood.
pub fn sign_in(
    settings: &AuthSettings,
    entry: &ServerEntry,
    mut headers: Vec<(String, String)>,
) -> Result<SignIn, HostError> {
    let own = Own::read(entry)?;
    let has_header = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let auto = settings.auto_on_401 && !(has_header && settings.static_header_blocks_auto);
    if !settings.oauth || !(own.on || auto) {
        return Ok(SignIn { oauth: None, headers });
    }
    if own.on && settings.static_header_under_oauth == StaticHeader::Ignored {
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
    }
    let can = |registration| settings.registration.contains(&registration);
    let registered = own.client_id.filter(|_| can(Registration::Preregistered)).map(|id| RegisteredClient {
        issuer: own.issuer,
        id,
        secret: own.client_secret,
    });
    let login = if settings.interactive_start { LoginPolicy::WhenDemanded } else { LoginPolicy::Never };
    let oauth = OauthSettings {
        login,
        // Nobody asked for it: the server has to say by itself where to sign in.
        needs_metadata: !own.on,
        registered: registered.into_iter().collect(),
        metadata_document: own.metadata_document.filter(|_| can(Registration::MetadataDocument)),
        dynamic_registration: can(Registration::Dynamic),
        callback_port: own.callback_port.filter(|_| settings.fixed_port).unwrap_or_default(),
        scope: own.scope,
        refresh: settings.refreshes,
        ..OauthSettings::default()
    };
    Ok(SignIn { oauth: Some(oauth), headers })
}

#[cfg(test)]
mod tests;
