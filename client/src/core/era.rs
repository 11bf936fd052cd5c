//! Which revision is spoken with a server, and how that is found out.
//!
//! A client that prefers the stateless revision asks `server/discover` first. What comes back says whether the server
//! speaks that revision, another stateless one, or wants a handshake.

use super::{Action, Error, Event, Negotiated, Phase, Purpose, Raw, RequestOptions, Session, Ticket};
use serde_json::{Value, json};
use sparring_wire::jsonrpc::{self, codes};
use sparring_wire::{Id, Revision, Transport, meta};
use std::time::Duration;

/// What is known of a server before a session with it begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Prior {
    /// It wants a handshake.
    Legacy,
    /// It was stateless when it was last asked.
    Stateless,
    /// It is stateless; this is the outcome of a `server/discover` that is still fresh.
    Discovered(Negotiated),
}

/// What to do after an answer to the probe.
#[derive(Debug, PartialEq)]
enum Next {
    /// The server is stateless.
    Speak(Negotiated),
    /// Another stateless revision is tried.
    Probe(Revision),
    /// The server asks for this revision, which opens with a handshake.
    Initialize(Revision),
    /// The server is from before the stateless revision; why it seems so.
    FallBack(Error),
    /// There is no way on.
    Fail(Error),
}

/// Statuses of 4xx that say nothing about what the server speaks.
const UNTELLING: [u16; 5] = [401, 403, 407, 408, 429];

impl Session {
    /// What is known of the server beforehand.
    #[must_use]
    pub fn knowing(mut self, prior: Option<Prior>) -> Self {
        self.prior = prior;
        self
    }

    /// Whether the session has ended before the server said anything, while the client could have shaken hands with it
    /// instead. Some servers end when their first message is not what they expect.
    pub fn might_have_shaken_hands(&self) -> bool {
        self.silent_probe && self.handshake_offer().is_some()
    }

    /// Finds out what the server speaks, and shakes hands if that is what it wants.
    pub fn start(&mut self, now: Duration) {
        if !matches!(self.phase, Phase::Idle) {
            return;
        }
        self.heard = now;
        self.useful = false;
        self.begun = now;
        self.tried.clear();
        let legacy = self.handshake_offer();
        // The first HTTP transport belongs to the first revision.
        if let (Transport::SseLegacy, Some(legacy)) = (self.transport, legacy) {
            return self.initialize(now, legacy);
        }
        match (self.prior.clone(), legacy) {
            (Some(Prior::Discovered(negotiated)), _) if self.offer.is_stateless() => {
                self.become_ready(now, negotiated);
            }
            (Some(Prior::Legacy), Some(legacy)) => self.initialize(now, legacy),
            (_, Some(legacy)) if self.offer.has_handshake() || self.reopening => self.initialize(now, legacy),
            _ => self.probe(now, self.offer),
        }
    }

    /// The revision to offer in `initialize`, if the client knows any that has it.
    fn handshake_offer(&self) -> Option<Revision> {
        if self.offer.has_handshake() {
            return Some(self.offer);
        }
        self.accept.iter().copied().filter(|r| r.has_handshake()).max()
    }

    fn is_accepted(&self, revision: Revision) -> bool {
        revision == self.offer || self.accept.contains(&revision)
    }

    /// What is left of the time for the start.
    fn left(&self, now: Duration) -> Duration {
        self.begun.saturating_add(self.timeouts.start).saturating_sub(now)
    }

    fn probe(&mut self, now: Duration, revision: Revision) {
        self.tried.push(revision);
        self.speak(revision);
        let left = self.left(now);
        let falls_back = self.transport == Transport::Stdio && self.handshake_offer().is_some();
        let wait = if falls_back { self.timeouts.probe.min(left / 2) } else { left };
        let ticket = self.enter(now, Purpose::Discover, "server/discover", None, whole(wait));
        self.phase = Phase::Probing(ticket);
        self.send(ticket);
    }

    fn initialize(&mut self, now: Duration, revision: Revision) {
        self.offered = Some(revision);
        let params = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": self.declared.to_json(revision),
            "clientInfo": self.client_info(revision),
        });
        let options = whole(self.left(now));
        let ticket = self.enter(now, Purpose::Initialize, "initialize", Some(params), options);
        self.phase = Phase::Initializing(ticket);
        self.send(ticket);
    }

    fn client_info(&self, revision: Revision) -> Value {
        let mut info = json!({"name": self.name, "version": self.client_version});
        if let Some(title) = &self.title
            && revision >= Revision::V2025_06_18
        {
            info["title"] = title.as_str().into();
        }
        info
    }

    /// Prepares what stateless requests of this revision say of the client.
    fn speak(&mut self, revision: Revision) {
        let mut said = serde_json::Map::new();
        said.insert(meta::PROTOCOL_VERSION.into(), revision.as_str().into());
        said.insert(meta::CLIENT_INFO.into(), self.client_info(revision));
        said.insert(meta::CLIENT_CAPABILITIES.into(), self.declared.to_json(revision));
        self.stateless = Some((revision, said));
    }

    /// The probe was answered, or will not be. `status`: the HTTP status of the answer, if it means failure.
    pub(super) fn probed(
        &mut self,
        now: Duration,
        ticket: Ticket,
        status: Option<u16>,
        outcome: Result<Raw, Error>,
    ) {
        let unanswered = matches!(outcome, Err(Error::Timeout { .. }));
        let id = self.drop_request(ticket).and_then(|request| request.id);
        let next = self.next_after(status, outcome);
        match next {
            Next::Speak(negotiated) => self.become_ready(now, negotiated),
            Next::Probe(revision) => self.probe(now, revision),
            Next::Initialize(revision) => self.initialize(now, revision),
            Next::FallBack(why) => match self.handshake_offer() {
                Some(revision) => {
                    self.stateless = None;
                    // A server that is slow to start may answer yet.
                    self.late_probe = id.filter(|_| unanswered);
                    self.initialize(now, revision);
                }
                None => self.disconnect(Error::Invalid(format!(
                    "the server does not seem to speak revision {}, the only one of this client: {why}",
                    self.offer
                ))),
            },
            Next::Fail(error) => self.disconnect(error),
        }
    }

    fn next_after(&self, status: Option<u16>, outcome: Result<Raw, Error>) -> Next {
        match outcome.and_then(|result| result.value()) {
            Ok(result) => self.read_discovery(&result),
            Err(Error::Protocol { code, data, message }) => {
                let supported = data.as_ref().and_then(|data| data.get("supported"));
                let error = Error::Protocol { code, message, data: data.clone() };
                match (code, status) {
                    (codes::UNSUPPORTED_PROTOCOL_VERSION, _) => self.choose(supported, error),
                    (codes::HEADER_MISMATCH | codes::MISSING_CLIENT_CAPABILITY, _) => Next::Fail(error),
                    // A stateless server that lacks the method.
                    (codes::METHOD_NOT_FOUND, Some(404)) => Next::Speak(self.undiscovered()),
                    (_, Some(status)) if !tells_legacy(status) => Next::Fail(error),
                    _ => Next::FallBack(error),
                }
            }
            Err(error @ Error::Http { status, .. }) if tells_legacy(status) => Next::FallBack(error),
            Err(error @ Error::Invalid(_)) => Next::FallBack(error),
            Err(error @ Error::Timeout { .. }) if self.transport == Transport::Stdio => Next::FallBack(error),
            Err(error) => Next::Fail(error),
        }
    }

    /// The newest revision of both the list and this client that was not tried yet. If there is none, one that was tried
    /// once: a server that refuses a revision and lists it asks for a second try.
    fn choose(&self, supported: Option<&Value>, error: Error) -> Next {
        let listed = supported.and_then(Value::as_array).into_iter().flatten();
        let known = listed.filter_map(|v| v.as_str()?.parse::<Revision>().ok());
        let tries = |revision: &Revision| self.tried.iter().filter(|tried| *tried == revision).count();
        let common = known.filter(|r| self.is_accepted(*r) && tries(r) < 2);
        let common = common.max_by_key(|revision| (std::cmp::Reverse(tries(revision)), *revision));
        match common {
            Some(revision) if revision.is_stateless() => Next::Probe(revision),
            Some(revision) => Next::Initialize(revision),
            None => {
                let theirs = supported.map_or_else(|| "unknown ones".to_owned(), Value::to_string);
                Next::Fail(Error::Invalid(format!(
                    "client and server have no protocol version in common: the server speaks {theirs} ({error})"
                )))
            }
        }
    }

    fn read_discovery(&self, result: &Value) -> Next {
        let kind = result.get("resultType");
        let versions = result.get("supportedVersions").and_then(Value::as_array);
        let (Some(versions), true) = (versions, kind.is_none_or(|kind| kind == "complete")) else {
            return Next::FallBack(Error::Invalid("the answer to server/discover is no result of it".into()));
        };
        let listed: Vec<Revision> = versions.iter().filter_map(|v| v.as_str()?.parse().ok()).collect();
        let spoken = listed.iter().copied().filter(|r| r.is_stateless() && self.is_accepted(*r)).max();
        let Some(revision) = spoken else {
            let error = Error::Invalid("the revision asked for is not among those it supports".into());
            return self.choose(result.get("supportedVersions"), error);
        };
        let mut negotiated = self.undiscovered();
        negotiated.revision = revision;
        negotiated.discovered = true;
        if let Some(Value::Object(capabilities)) = result.get("capabilities") {
            negotiated.capabilities = capabilities.clone();
        }
        if let Some(info) = result.get("_meta").and_then(|m| m.get(meta::SERVER_INFO)) {
            negotiated.server_info = info.clone();
        }
        negotiated.instructions = result.get("instructions").and_then(Value::as_str).map(str::to_owned);
        negotiated.hint = super::cache::Hint::of(result);
        Next::Speak(negotiated)
    }

    /// A stateless server of which nothing is known.
    fn undiscovered(&self) -> Negotiated {
        Negotiated {
            revision: self.stateless.as_ref().map_or(self.offer, |(revision, _)| *revision),
            capabilities: serde_json::Map::new(),
            server_info: Value::Null,
            instructions: None,
            discovered: false,
            hint: super::cache::Hint::default(),
        }
    }

    /// An answer to a probe that was taken for lost. `true`: it has shown the server to be stateless.
    pub(super) fn is_late_discovery(&mut self, now: Duration, id: i64, outcome: &Result<Raw, Error>) -> bool {
        let Phase::Initializing(ticket) = self.phase else { return false };
        if self.late_probe != Some(id) {
            return false;
        }
        self.late_probe = None;
        self.speak(self.offer);
        match self.next_after(None, outcome.clone()) {
            Next::Speak(negotiated) => {
                if let Some(id) = self.drop_request(ticket).and_then(|request| request.id) {
                    self.actions.push_back(Action::Forget(Id::Number(id)));
                }
                self.become_ready(now, negotiated);
                true
            }
            _ => {
                self.stateless = None;
                false
            }
        }
    }

    /// `initialize` was answered, or will not be.
    pub(super) fn initialized(&mut self, now: Duration, ticket: Ticket, outcome: Result<Raw, Error>) {
        self.drop_request(ticket);
        match outcome.and_then(|result| self.settle(result.value()?)) {
            Ok(negotiated) => self.become_ready(now, negotiated),
            Err(error @ Error::Refused(_)) => self.disconnect(Error::Invalid(error.to_string())),
            Err(error) if self.reopening => {
                // The next request tries again.
                self.phase = Phase::Idle;
                for ticket in std::mem::take(&mut self.waiting) {
                    self.resolve(ticket, Err(error.clone()));
                }
            }
            Err(error) => match self.way_forward(&error) {
                Some(revision) => self.probe(now, revision),
                None => self.disconnect(error),
            },
        }
    }

    /// Whether a refused handshake shows the server to be stateless after all.
    fn way_forward(&self, error: &Error) -> Option<Revision> {
        let Error::Protocol { code, data, .. } = error else { return None };
        let listed = data.as_ref().and_then(|d| d.get("supported")).and_then(Value::as_array);
        let listed = listed.into_iter().flatten().filter_map(|v| v.as_str()?.parse::<Revision>().ok());
        let usable = |r: &Revision| r.is_stateless() && self.is_accepted(*r);
        let found = listed.filter(usable).max();
        // What an earlier session has shown may no longer hold.
        let assumed = (self.prior == Some(Prior::Legacy)).then_some(self.offer).filter(usable);
        let revision = found.or(assumed)?;
        let times = self.tried.iter().filter(|tried| **tried == revision).count();
        // A server that is slow to start may not have taken in the first probe.
        let most = if *code == codes::UNSUPPORTED_PROTOCOL_VERSION { 2 } else { 1 };
        (times < most).then_some(revision)
    }

    fn become_ready(&mut self, now: Duration, negotiated: Negotiated) {
        let stateless = negotiated.revision.is_stateless();
        self.negotiated = Some(negotiated.clone());
        self.phase = Phase::Ready;
        self.heard = now;
        self.late_probe = None;
        if stateless {
            self.speak(negotiated.revision);
        } else {
            self.stateless = None;
        }
        // The shell has to know the revision before it sends anything further.
        self.actions.push_back(Action::Ready(negotiated));
        if !stateless {
            let initialized = jsonrpc::notification("notifications/initialized", None);
            self.actions.push_back(Action::Send(initialized));
        }
        if std::mem::take(&mut self.reopening) {
            self.actions.push_back(Action::Event(Event::Reopened));
        }
        for ticket in std::mem::take(&mut self.waiting) {
            self.send(ticket);
        }
        if stateless {
            self.listen_to_lists(now);
        }
    }

    /// Reads the result of `initialize`. [`Error::Refused`]: the client can't go on with this server.
    fn settle(&self, result: Value) -> Result<Negotiated, Error> {
        let Value::Object(mut result) = result else {
            return Err(Error::Refused("the result of initialize is no object".into()));
        };
        let Some(Value::String(version)) = result.remove("protocolVersion") else {
            return Err(Error::Refused("the result of initialize has no protocolVersion".into()));
        };
        let revision = version.parse().ok().filter(|r| self.is_accepted(*r));
        let Some(revision) = revision.filter(|r: &Revision| r.has_handshake()) else {
            return Err(Error::Refused(format!(
                "the server wants protocol version {version:?}, which this client does not support (it offered {})",
                self.offered.unwrap_or(self.offer)
            )));
        };
        let Some(Value::Object(capabilities)) = result.remove("capabilities") else {
            return Err(Error::Refused("the result of initialize has no capabilities object".into()));
        };
        let server_info = match result.remove("serverInfo") {
            Some(info) if info.get("name").is_some_and(Value::is_string) => info,
            _ => return Err(Error::Refused("the result of initialize has no serverInfo with a name".into())),
        };
        let instructions = match result.remove("instructions") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let hint = super::cache::Hint::default();
        Ok(Negotiated { revision, capabilities, server_info, instructions, discovered: true, hint })
    }
}

/// Options of a request that has this long, whatever happens.
fn whole(wait: Duration) -> RequestOptions {
    RequestOptions {
        timeout: Some(wait),
        ceiling: Some(wait),
        reset_on_progress: Some(false),
        ..RequestOptions::default()
    }
}

fn tells_legacy(status: u16) -> bool {
    (400..500).contains(&status) && !UNTELLING.contains(&status)
}
