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
        let entry = negotiated.and_then(|negotiated| {
            if negotiated.revision.has_handshake() {
                return Some((Prior::Legacy, None));
            }
            // Another connection may be another user's.
            let hint = negotiated.hint;
            // A process that was started anew is asked anew.
            let shared = hint.public && hint.ttl > Duration::ZERO && transport == Transport::Http;
            shared.then(|| (Prior::Discovered(negotiated.clone()), Instant::now().checked_add(hint.ttl)))
        });
        match entry {
            // What was learnt before is not made younger by being used.
            Some((Prior::Discovered(_), _)) if known.contains_key(site) => {}
            Some(entry) => {
                if known.len() >= MAX_KNOWN {
                    known.clear();
                }
                known.insert(site.to_owned(), entry);
            }
            None => {
                known.remove(site);
            }
        }
    }

    pub(crate) fn forget(&self, site: &str) {
        self.known().remove(site);
    }
}
