//! Waiting for an event. (Private shim until the judge is merged.)

use super::recorder::Recorder;
use sparring_scenarios::pattern::Pattern;
use sparring_wire::transcript::What;

pub(super) fn describe(pattern: &Pattern) -> String {
    serde_json::to_string(pattern).unwrap_or_default()
}

pub(super) async fn seen(recorder: &Recorder, pattern: &Pattern) {
    let mut arrivals = recorder.arrivals();
    loop {
        let _ = arrivals.borrow_and_update();
        let found = recorder.transcript().into_iter().any(|event| match event.what {
            What::DriverEvent { name, .. } => pattern.driver_event.as_ref() == Some(&name),
            _ => false,
        });
        if found || arrivals.changed().await.is_err() {
            return;
        }
    }
}
