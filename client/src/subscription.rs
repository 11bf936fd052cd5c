//! Subscriptions of the stateless revision.

use crate::connection::Inner;
use crate::core::Filter;
use crate::engine::Command;
use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{mpsc, oneshot};

/// An open `subscriptions/listen`. Dropping it ends it.
pub struct Subscription {
    commands: mpsc::UnboundedSender<Command>,
    key: u64,
    granted: Filter,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("granted", &self.granted).finish_non_exhaustive()
    }
}

impl Subscription {
    pub(crate) async fn open(inner: &Arc<Inner>, filter: Filter) -> Result<Self, Error> {
        let key = inner.next_key.fetch_add(1, Ordering::Relaxed);
        let (reply, granted) = oneshot::channel();
        // From here on it is ended whatever becomes of the caller.
        let mut this = Self { commands: inner.commands.clone(), key, granted: Filter::default() };
        drop(this.commands.send(Command::Listen { key, filter, reply }));
        this.granted = granted.await.unwrap_or_else(|_| Err(inner.gone()))?;
        Ok(this)
    }

    /// What the server has agreed to report; it may be less than what was asked for.
    #[must_use]
    pub const fn granted(&self) -> &Filter {
        &self.granted
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // If the engine is gone, so is the subscription.
        drop(self.commands.send(Command::Cancel { key: self.key, reason: "no longer needed".into() }));
    }
}
