//! What earlier connections have shown about servers: whether they are stateless.

use crate::core::{Negotiated, Prior};
use sparring_wire::Transport;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// What connections have shown about servers, by URL or command: which kind of revision they speak. A server is of one
/// kind, whoever asks; a program that makes several clients gives them one of these
/// ([`ClientBuilder::eras`](crate::ClientBuilder::eras)), so that each need not find out anew.
#[derive(Default)]
pub struct Eras {
    known: Mutex<HashMap<String, Known>>,
}

/// What is known of a server.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one is kept for each server, and nearly all are sure")]
enum Known {
    /// It is of this kind, until then if there is an end.
    Sure(Prior, Option<Instant>),
    /// It has shaken hands, and then failed to. It is asked anew, but it may well be as it was.
    Doubtful,
}

impl std::fmt::Debug for Eras {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Eras").field("known", &self.known().len()).finish()
    }
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

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, site: &str) -> Option<Prior> {
        let mut known = self.known();
        let Known::Sure(prior, until) = known.get(site)? else { return None };
        if until.is_some_and(|until| Instant::now() >= until) {
            known.remove(site);
            return None;
        }
        Some(prior.clone())
    }

    /// Whether a connection has come to anything before.
    pub(crate) fn has_met(&self, site: &str) -> bool {
        self.known().contains_key(site)
    }

    /// Takes in what a connection has come to; `None`: it has failed.
    pub(crate) fn learn(&self, site: &str, negotiated: Option<&Negotiated>, transport: Transport) {
        let mut known = self.known();
        let entry = negotiated.map(|negotiated| {
            if negotiated.revision.has_handshake() {
                return Known::Sure(Prior::Legacy, None);
            }
            // Another connection may be another user's.
            let hint = negotiated.hint;
            // A process that was started anew is asked anew.
            let shared = hint.public && hint.ttl > Duration::ZERO && transport == Transport::Http;
            match shared {
                true => {
                    Known::Sure(Prior::Discovered(negotiated.clone()), Instant::now().checked_add(hint.ttl))
                }
                false => Known::Sure(Prior::Stateless, None),
            }
        });
        match entry {
            Some(entry) => {
                if known.len() >= MAX_KNOWN {
                    known.clear();
                }
                known.insert(site.to_owned(), entry);
            }
            None => match known.get_mut(site) {
                // One that is asked in any case loses nothing by being remembered.
                Some(Known::Sure(Prior::Stateless, _)) | None => {}
                Some(assumed @ Known::Sure(Prior::Legacy, _)) => *assumed = Known::Doubtful,
                // Neither way has worked; the next attempt is made the other way.
                Some(doubtful @ Known::Doubtful) => *doubtful = Known::Sure(Prior::Legacy, None),
                Some(Known::Sure(Prior::Discovered(_), _)) => {
                    known.remove(site);
                }
            },
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
        assert_eq!((eras.get("s"), eras.has_met("s")), (None, true));
        eras.learn("s", None, Transport::Stdio);
        assert_eq!(eras.get("s"), Some(Prior::Legacy));
        eras.learn("s", Some(&outcome(Revision::STATELESS, 0, false)), Transport::Stdio);
        eras.learn("s", None, Transport::Stdio);
        assert_eq!(eras.get("s"), Some(Prior::Stateless));
    }
}
