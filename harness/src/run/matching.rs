//! Waiting for an event.

use super::recorder::Recorder;
use crate::judge::{View, pattern};
use sparring_scenarios::pattern::Pattern;

/// Returns when an event like this has arrived. Events are looked at in the order of their arrival, since the final
/// order is not known before the end.
pub(super) async fn seen(recorder: &Recorder, pattern: &Pattern) {
    let mut arrivals = recorder.arrivals();
    let mut view = View::new();
    loop {
        arrivals.mark_unchanged();
        let known = view.len();
        for event in recorder.arrived_since(known) {
            view.push(event);
        }
        // From the start each time: an event can match by what came later, such as its answer.
        let found = view.len() > known && pattern::find(pattern, &view, 0..view.len(), None).is_some();
        if found {
            return;
        }
        if arrivals.changed().await.is_err() {
            // The recorder is borrowed, so its sender lives.
            return;
        }
    }
}
