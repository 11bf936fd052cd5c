//! What was seen and is not written yet.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// As many bytes may wait to be written. Then those who bring more wait too: nothing is lost, and memory stays bounded.
const BACKLOG: usize = 64 << 20;

/// A queue between those who pass bytes on, who must not wait, and the one who writes. Bringing something and waking
/// the writer are two steps, so that the bytes themselves can be passed on in between: in this order no answer can be
/// noted before what it answers, and nobody waits for a thread to wake up.
pub(super) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    brought: Condvar,
    taken: Condvar,
}

struct Inner<T> {
    items: VecDeque<(usize, T)>,
    bytes: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) const fn new() -> Self {
        let inner = Inner { items: VecDeque::new(), bytes: 0, closed: false };
        Self { inner: Mutex::new(inner), brought: Condvar::new(), taken: Condvar::new() }
    }

    /// Adds an item that takes this much memory. Never waits.
    pub(super) fn bring(&self, bytes: usize, item: T) {
        let mut inner = self.inner();
        if !inner.closed {
            inner.bytes += bytes;
            inner.items.push_back((bytes, item));
        }
    }

    /// Wakes the writer.
    pub(super) fn wake(&self) {
        self.brought.notify_one();
    }

    /// Whether so much waits that nobody should bring more before [`Self::until_there_is_room`].
    pub(super) fn is_full(&self) -> bool {
        let inner = self.inner();
        inner.bytes > BACKLOG && !inner.closed
    }

    /// Waits while it is full.
    pub(super) fn until_there_is_room(&self) {
        let inner = self.inner();
        let full = |inner: &mut Inner<T>| inner.bytes > BACKLOG && !inner.closed;
        drop(self.taken.wait_while(inner, full));
    }

    /// All that is there, in order; waits for something. `None` when it was closed and nothing is left.
    pub(super) fn take(&self) -> Option<Vec<T>> {
        let inner = self.inner();
        let empty = |inner: &mut Inner<T>| inner.items.is_empty() && !inner.closed;
        let mut inner = self.brought.wait_while(inner, empty).unwrap_or_else(PoisonError::into_inner);
        if inner.items.is_empty() {
            return None;
        }
        inner.bytes = 0;
        let items = std::mem::take(&mut inner.items);
        drop(inner);
        self.taken.notify_all();
        Some(items.into_iter().map(|(_, item)| item).collect())
    }

    /// What is brought from now on is forgotten; what is there can still be taken.
    pub(super) fn close(&self) {
        self.inner().closed = true;
        self.brought.notify_all();
        self.taken.notify_all();
    }

    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
