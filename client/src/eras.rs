//! What earlier connections have shown about servers: whether they are stateless.

use crate::core::{Negotiated, Prior};
use sparring_wire::Transport;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// By URL or command. A server is of one era, whoever asks.
#[derive(Default)]
pub(crate) struct Eras {
    known: Mutex<HashMap<String, (Prior, Option<Instant>)>>,
}

/// More servers than these are not remembered.
const MAX_KNOWN: usize = 1024;

impl Eras {
    /// What a server at this URL is known by.
    pub(crate) fn site(url: &str) -> Option<String> {
        let url = Url::parse(url).ok()?;
        // Of one origin are, behind gateways, servers of several kinds.
        Some(format!("{}{}", url.origin().ascii_serialization(), url.path()))
    }

    /// What a program is known by.
    pub(crate) fn program(command: &OsStr, args: &[OsString]) -> String {
        format!("{command:?} {args:?}")
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (Prior, Option<Instant>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, site: &str) -> Option<Prior> {
        let mut known = self.known();
        let (prior, until) = known.get(site)?;
        if until.is_some_and(|until| Instant::now() >= until) {
            known.remove(site);
            return None;
        }
        Some(prior.clone())
    }

    /// Takes in what a connection has come to; `None`: it has failed.
    pub(crate) fn learn(&self, site: &str, negotiated: Option<&Negotiated>, transport: Transport) {
        let mut known = self.known();
        let entry = negotiated.map(|negotiated| {
            if negotiated.revision.has_handshake() {
                return (Prior::Legacy, None);
            }
            // Another connection may be another user's.
            let hint = negotiated.hint;
            // A process that was started anew is asked anew.
            let shared = hint.public && hint.ttl > Duration::ZERO && transport == Transport::Http;
            match shared {
                true => (Prior::Discovered(negotiated.clone()), Instant::now().checked_add(hint.ttl)),
                false => (Prior::Stateless, None),
            }
        });
        match entry {
            Some(entry) => {
                if known.len() >= MAX_KNOWN {
                    known.clear();
                }
                known.insert(site.to_owned(), entry);
            }
            // One that is asked in any case loses nothing by being remembered.
            None if matches!(known.get(site), Some((Prior::Stateless, _))) => {}
            None => {
                known.remove(site);
            }
        }
    }

    pub(crate) fn forget(&self, site: &str) {
        self.known().remove(site);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Hint;
    use serde_json::{Map, Value};
    use sparring_wire::Revision;

    fn outcome(revision: Revision, ttl: u64, public: bool) -> Negotiated {
        Negotiated {
            revision,
            capabilities: Map::new(),
            server_info: Value::Null,
            instructions: None,
            discovered: true,
            hint: Hint { ttl: Duration::from_millis(ttl), public, stated: true },
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_depends_on_what_the_server_allows() {
        let eras = Eras::default();
        let stateless = |ttl, public| outcome(Revision::STATELESS, ttl, public);
        for (negotiated, transport, expected) in [
            (outcome(Revision::V2025_11_25, 0, false), Transport::Http, Prior::Legacy),
            (stateless(0, true), Transport::Http, Prior::Stateless),
            (stateless(500, false), Transport::Http, Prior::Stateless),
            (stateless(500, true), Transport::Stdio, Prior::Stateless),
            (stateless(500, true), Transport::Http, Prior::Discovered(stateless(500, true))),
        ] {
            eras.learn("s", Some(&negotiated), transport);
            assert_eq!(eras.get("s"), Some(expected));
        }
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(eras.get("s"), None);
    }

    #[tokio::test]
    async fn a_failed_start_makes_only_assumptions_doubtful() {
        let eras = Eras::default();
        eras.learn("s", Some(&outcome(Revision::V2025_11_25, 0, false)), Transport::Stdio);
        eras.learn("s", None, Transport::Stdio);
        assert_eq!(eras.get("s"), None);
        eras.learn("s", Some(&outcome(Revision::STATELESS, 0, false)), Transport::Stdio);
        eras.learn("s", None, Transport::Stdio);
        assert_eq!(eras.get("s"), Some(Prior::Stateless));
    }
}
