//! Lists: read over all their pages, kept, and read again when they have changed.

use super::{Connection, Inner};
use crate::cached::Freshness;
use crate::core::headers::{Mirror, mirrors};
use crate::core::{Event, ListKind, Negotiated, RequestOptions};
use crate::engine::{Changed, Status};
use crate::error::Error;
use crate::seams::NextPage;
use crate::settings::ListChangedPolicy;
use crate::subscription::Subscription;
use serde_json::{Value, json};
use sparring_wire::jsonrpc::codes;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use tokio::sync::watch;

/// More entries than a list may have over all its pages.
const MAX_ENTRIES: usize = 100_000;

/// An entry of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What it is called by: the name of a tool or prompt, the `uri` of a resource, the `uriTemplate` of a template.
    pub key: String,
    /// The entry as the server gave it.
    pub json: Value,
}

/// A list as it was read.
pub(super) struct Known {
    /// The number of the reading, so that an earlier one that ends later does not win.
    reading: u64,
    /// How often the list had changed when the reading began.
    changes: u64,
    pub(super) entries: Arc<Vec<Entry>>,
    /// Until when it may be used without asking, where the server says so.
    fresh: Freshness,
}

#[derive(Default)]
pub(crate) struct Lists {
    pub(super) known: HashMap<ListKind, Known>,
    /// Those whose reading has begun at least once.
    wanted: HashSet<ListKind>,
    readings: u64,
    pub(super) stale: HashSet<ListKind>,
    pub(super) subscribed: HashSet<String>,
    /// Subscriptions of the stateless revision, by URI.
    pub(super) heard: HashMap<String, Subscription>,
    /// Parameters that go into header fields, by tool.
    pub(super) mirrors: HashMap<String, Vec<Mirror>>,
}

impl Inner {
    /// Whether nothing is known to have changed since the list was read.
    pub(super) fn is_current(&self, kind: ListKind, known: &Known) -> bool {
        if self.is_stateless() {
            return self.results.is_fresh(known.fresh, self.context(kind));
        }
        self.parts.settings.list_changed == ListChangedPolicy::Ignore
            || known.changes == self.changed.count(kind)
    }
}

impl Connection {
    /// Reads a list anew, over all its pages.
    ///
    /// # Errors
    /// If a page can't be had, or the list has no end.
    pub async fn list(&self, kind: ListKind) -> Result<Arc<Vec<Entry>>, Error> {
        self.list_with(kind, RequestOptions::default()).await
    }

    /// Like [`Connection::list`], with options for each page.
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn list_with(&self, kind: ListKind, options: RequestOptions) -> Result<Arc<Vec<Entry>>, Error> {
        let changes = self.inner.changed.count(kind);
        let reading = {
            let mut lists = self.inner.lists();
            lists.stale.remove(&kind);
            lists.wanted.insert(kind);
            lists.readings += 1;
            lists.readings
        };
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = HashSet::new();
        let mut cursors: Vec<String> = Vec::new();
        let (mut session, mut begun_anew) = (self.negotiated(), false);
        let mut fresh = Freshness::default();
        loop {
            let params = cursors.last().map(|cursor| json!({"cursor": cursor}));
            let page = if params.is_none() || self.is_in(session.as_ref()) {
                self.fetch(kind.method(), params, options).await.and_then(|(page, until)| {
                    fresh = fresh.and(until);
                    page.value()
                })
            } else {
                Err(Error::Http {
                    status: 404,
                    message: "the session was lost in the middle of a list".into(),
                })
            };
            // Cursors are of no use in another session.
            let lost = page.as_ref().is_err_and(|error| match error {
                Error::Protocol { code: codes::INVALID_PARAMS, .. } => self.inner.is_stateless(),
                error => error.code() == Some(404),
            });
            if !begun_anew && !cursors.is_empty() && lost {
                begun_anew = true;
                (entries, seen, cursors) = Default::default();
                session = None;
                fresh = Freshness::default();
                self.inner.results.forget_all(kind.method());
                continue;
            }
            let mut page = page?;
            session = session.or_else(|| self.negotiated());
            let Some(Value::Array(found)) = page.get_mut(kind.member()).map(Value::take) else {
                return Err(Error::Invalid(format!(
                    "the result of {} has no array `{}`",
                    kind.method(),
                    kind.member()
                )));
            };
            for json in found {
                match json.get(kind.key()).and_then(Value::as_str).map(str::to_owned) {
                    Some(key) if seen.insert(key.clone()) => entries.push(Entry { key, json }),
                    Some(key) => self.skipped(format!("{}: a second entry {key:?}", kind.method()), &json),
                    None => {
                        self.skipped(format!("{}: an entry without `{}`", kind.method(), kind.key()), &json);
                    }
                }
            }
            if entries.len() > MAX_ENTRIES {
                return Err(Error::Invalid(format!("{}: more than {MAX_ENTRIES} entries", kind.method())));
            }
            match self.inner.parts.lists.next(kind.method(), &cursors, &page) {
                NextPage::Done => break,
                NextPage::At(cursor) => cursors.push(cursor),
                NextPage::Fail(why) => return Err(Error::Invalid(why)),
            }
        }
        let mirrors = (kind == ListKind::Tools).then(|| self.mirrors(&mut entries));
        let entries = Arc::new(entries);
        let mut lists = self.inner.lists();
        if lists.known.get(&kind).is_none_or(|known| known.reading < reading) {
            lists.known.insert(kind, Known { reading, changes, entries: Arc::clone(&entries), fresh });
            lists.mirrors = mirrors.unwrap_or_else(|| std::mem::take(&mut lists.mirrors));
        }
        Ok(entries)
    }

    /// The parameters of tools that go into header fields. Tools that mark them wrongly are left out of the list.
    fn mirrors(&self, entries: &mut Vec<Entry>) -> HashMap<String, Vec<Mirror>> {
        let mut all = HashMap::new();
        if !self.inner.is_stateless() || !self.inner.over_http {
            return all;
        }
        entries.retain(|tool| {
            let Some(schema) = tool.json.get("inputSchema") else { return true };
            match mirrors(schema) {
                Ok(found) => {
                    if !found.is_empty() {
                        all.insert(tool.key.clone(), found);
                    }
                    true
                }
                Err(why) => {
                    self.skipped(format!("the tool {:?} is left out: {why}", tool.key), &tool.json);
                    false
                }
            }
        });
        all
    }

    /// Whether the session is still the one with this outcome of its handshake.
    fn is_in(&self, session: Option<&Arc<Negotiated>>) -> bool {
        session.zip(self.negotiated().as_ref()).is_none_or(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The list as last read; read anew if that never happened, or if the server has announced a change since, unless
    /// the settings say [`ListChangedPolicy::Ignore`].
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn known(&self, kind: ListKind) -> Result<Arc<Vec<Entry>>, Error> {
        let known = {
            let lists = self.inner.lists();
            let current = lists.known.get(&kind).filter(|known| self.inner.is_current(kind, known));
            current.map(|known| Arc::clone(&known.entries))
        };
        match known {
            Some(entries) => Ok(entries),
            None => self.list(kind).await,
        }
    }

    /// The list as last read, without any request.
    #[must_use]
    pub fn cached(&self, kind: ListKind) -> Option<Arc<Vec<Entry>>> {
        self.inner.lists().known.get(&kind).map(|known| Arc::clone(&known.entries))
    }

    /// Lists the tools.
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn tools(&self) -> Result<Arc<Vec<Entry>>, Error> {
        self.list(ListKind::Tools).await
    }

    /// Lists the resources.
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn resources(&self) -> Result<Arc<Vec<Entry>>, Error> {
        self.list(ListKind::Resources).await
    }

    /// Lists the resource templates.
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn templates(&self) -> Result<Arc<Vec<Entry>>, Error> {
        self.list(ListKind::Templates).await
    }

    /// Lists the prompts.
    ///
    /// # Errors
    /// As [`Connection::list`].
    pub async fn prompts(&self) -> Result<Arc<Vec<Entry>>, Error> {
        self.list(ListKind::Prompts).await
    }
}

/// Reads lists again that have changed: one at a time, and never more often than the settings allow.
pub(crate) async fn refetch(inner: Weak<Inner>, changed: Arc<Changed>, mut status: watch::Receiver<Status>) {
    loop {
        let mut kinds = tokio::select! {
            kinds = changed.take() => kinds,
            _ = status.wait_for(|status| status.closed.is_some()) => return,
        };
        let Some(inner) = inner.upgrade() else { return };
        let gap = inner.parts.settings.refetch_gap;
        let policy = inner.parts.settings.list_changed;
        // What was never read is not out of date.
        kinds.retain(|kind| inner.lists().wanted.contains(kind));
        if policy == ListChangedPolicy::BeforeNextUse {
            inner.lists().stale.extend(&kinds);
        }
        if policy != ListChangedPolicy::RefetchNow || kinds.is_empty() {
            continue;
        }
        let connection = Connection { inner };
        for kind in kinds {
            // Somebody who needed it may have read it already.
            if connection
                .inner
                .lists()
                .known
                .get(&kind)
                .is_some_and(|known| connection.inner.is_current(kind, known))
            {
                continue;
            }
            let outcome = connection.list(kind).await.map(|entries| entries.len());
            drop(connection.inner.events.send(Event::Refetched { kind, outcome }));
        }
        drop(connection);
        tokio::time::sleep(gap).await;
    }
}
