//! Requests whose results the server allows to be used again (2026-07-28).

use crate::connection::{Connection, Inner};
use crate::core::cache::{Cache, Context, depends_on};
use crate::core::{Hint, ListKind, RequestOptions};
use crate::error::Error;
use crate::raw::Raw;
use crate::settings::ListChangedPolicy;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The results of one connection that may be used again.
pub(crate) struct Results {
    cache: Mutex<Cache>,
    /// Where time is counted from.
    epoch: Instant,
    /// Which credentials the latest request was made with.
    credentials: Arc<AtomicU64>,
    /// How often the server has announced a change of a resource.
    updates: AtomicU64,
}

/// Until when something put together from results may be used without asking, and under which circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freshness {
    until: Duration,
    context: Option<Context>,
    public: bool,
}

impl Default for Freshness {
    /// Of nothing, which is never out of date.
    fn default() -> Self {
        Self { until: Duration::MAX, context: None, public: true }
    }
}

impl Freshness {
    /// Of both together.
    pub(crate) fn and(self, other: Self) -> Self {
        let context = match (self.context, other.context) {
            (Some(one), Some(other)) if one != other => {
                // Taken together they belong nowhere.
                return Self { until: Duration::ZERO, context: Some(other), public: false };
            }
            (one, other) => one.or(other),
        };
        Self { until: self.until.min(other.until), context, public: self.public && other.public }
    }
}

impl Results {
    pub(crate) fn new(credentials: Arc<AtomicU64>) -> Self {
        Self { cache: Mutex::default(), epoch: Instant::now(), credentials, updates: AtomicU64::new(0) }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_fresh(&self, of: Freshness, context: Context) -> bool {
        let same = of.context.is_none_or(|then| {
            then.changes == context.changes && (of.public || then.credentials == context.credentials)
        });
        same && of.context.is_some() && self.epoch.elapsed() < of.until
    }

    /// Forgets all results of a method.
    pub(crate) fn forget_all(&self, method: &str) {
        self.cache().forget_all(method);
    }

    /// A resource, or something below it, has changed.
    pub(crate) fn touch(&self, uri: &str) {
        self.updates.fetch_add(1, Ordering::Relaxed);
        self.cache().forget_if("resources/read", |key| {
            let read = serde_json::from_str::<Value>(key).ok();
            let read = read.as_ref().and_then(|params| params.get("uri")).and_then(Value::as_str);
            read.is_none_or(|read| uri.starts_with(read) || read.starts_with(uri))
        });
    }
}

impl Inner {
    /// What results of a list may depend on at present.
    pub(crate) fn context(&self, kind: ListKind) -> Context {
        let ignored = self.parts.settings.list_changed == ListChangedPolicy::Ignore;
        Context {
            credentials: self.results.credentials.load(Ordering::Relaxed),
            changes: if ignored { 0 } else { self.changed.count(kind) },
        }
    }
}

impl Connection {
    /// The result of a request that depends on nothing but the request: a fresh one, if there is one, or that of a new
    /// request. With it, until when it is fresh.
    pub(crate) async fn fetch(
        &self,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
    ) -> Result<(Raw, Freshness), Error> {
        let stale = Freshness { until: Duration::ZERO, ..Freshness::default() };
        let cacheable = matches!(method, "resources/read") || depends_on(method).is_some();
        let inner = &self.inner;
        if !cacheable || !inner.parts.settings.honour_ttl || !inner.is_stateless() {
            let raw = self.start(method, params, options, None).raw().await?;
            return Ok((raw, stale));
        }
        let results = &inner.results;
        let key = params.as_ref().map(Value::to_string).unwrap_or_default();
        let context = || inner.context(depends_on(method).unwrap_or(ListKind::Resources));
        let context = || match depends_on(method) {
            Some(_) => context(),
            // A list of resources that has changed says nothing about their contents.
            None => Context { changes: 0, ..context() },
        };
        let held = results.cache().get(results.epoch.elapsed(), method, &key, context());
        if let Some((raw, until, public)) = held {
            return Ok((raw, Freshness { until, context: Some(context()), public }));
        }
        let (before, updates) = (context(), results.updates.load(Ordering::Relaxed));
        let answer = self.start(method, params, options, None).answer().await?;
        let now = results.epoch.elapsed();
        let hint = Hint::of_raw(&answer.raw);
        let unchanged = updates == results.updates.load(Ordering::Relaxed);
        if !answer.direct || !unchanged {
            return Ok((answer.raw, Freshness { context: Some(before), ..stale }));
        }
        results.cache().put(now, method, &key, before, (&answer.raw, hint));
        let until = now.saturating_add(hint.ttl);
        Ok((answer.raw, Freshness { until, context: Some(before), public: hint.public }))
    }
}
