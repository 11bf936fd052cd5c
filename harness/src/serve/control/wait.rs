//! Waiting for events.

use crate::judge::{View, pattern};
use crate::serve::log::Log;
use sparring_scenarios::pattern::Pattern;
use sparring_wire::transcript::Event;

/// Waits until `count` events after the `after`th are like the pattern, and returns them. `nth` of the pattern counts
/// over all events in memory.
pub(super) async fn events(log: &Log, pattern: &Pattern, count: usize, after: u64) -> Vec<Event> {
    let mut arrivals = log.arrivals();
    let mut view = View::new();
    let mut known = 0;
    loop {
        arrivals.mark_unchanged();
        let found = look(log, &mut view, &mut known, pattern, count, after);
        // The log is borrowed, so its sender lives.
        if found.len() >= count || arrivals.changed().await.is_err() {
            return found;
        }
    }
}

/// The events that are there already.
pub(super) fn so_far(log: &Log, pattern: &Pattern, count: usize, after: u64) -> Vec<Event> {
    look(log, &mut View::new(), &mut 0, pattern, count, after)
}

fn look(
    log: &Log,
    view: &mut View<'_>,
    known: &mut u64,
    pattern: &Pattern,
    count: usize,
    after: u64,
) -> Vec<Event> {
    for event in log.part(*known, usize::MAX).events {
        *known = event.n;
        view.push((*event).clone());
    }
    let first = (0..view.len()).find(|index| view.event(*index).is_some_and(|event| event.n > after));
    // From the start each time: an event can match by what came later, such as its answer.
    let range = first.unwrap_or(view.len())..view.len();
    pattern::find_all(pattern, view, range, None)
        .take(count)
        .filter_map(|index| view.event(index).cloned())
        .collect()
}
