//! Actions from outside, at run time.

use super::{Scope, ServerCore, Task};
use crate::script::Action;
use serde::{Deserialize, Serialize};
use sparring_wire::transcript::What;
use std::collections::VecDeque;

/// Actions that were asked for while the server runs, by whoever controls it. They run as those of a rule whose event
/// has no request: what sends a message sends it, what answers a request does nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// What to do, in order.
    pub actions: Vec<Action>,
    /// HTTP: the session that is meant; by default the one that was opened last.
    #[serde(default)]
    pub session: Option<String>,
    /// HTTP: the exchange on whose stream messages go, and which answers such as `status` answer, as long as it is
    /// open; by default messages go on the GET stream.
    #[serde(default)]
    pub exchange: Option<u64>,
    /// What the transcript calls it; `control` by default.
    #[serde(default)]
    pub label: Option<String>,
}

impl ServerCore {
    pub(super) fn control(&mut self, control: Control) {
        self.observe(What::RuleFired { rule: control.label.unwrap_or_else(|| "control".into()) });
        let session = control
            .session
            .or_else(|| self.http.session_of(control.exchange?))
            .or_else(|| self.http.newest_session());
        if let Some(exchange) = control.exchange {
            self.enter(exchange);
        }
        let id = self.next_task;
        self.next_task += 1;
        self.run(Task {
            id,
            scope: Scope { exchange: control.exchange, session, batch: None },
            actions: VecDeque::from(control.actions),
            ..Task::default()
        });
    }

    /// The ids of the sessions that are open (HTTP), in the order of their making.
    pub fn sessions(&self) -> Vec<String> {
        self.http.open_sessions()
    }

    /// The numbers of the exchanges that are open (HTTP): requests without a whole answer, and streams.
    pub fn exchanges(&self) -> Vec<u64> {
        self.http.open_exchanges()
    }
}
