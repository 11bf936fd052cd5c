//! Answers that wait for something to happen.

use super::rules::Event;
use super::{ServerCore, Task, Wait};
use crate::script::{Action, Held, Order, Trigger, Until, glob};

/// Releases within releases; what is released deeper goes on when the input has been dealt with.
const MAX_DEPTH: u32 = 32;

/// What a task waits for.
#[derive(Debug)]
pub(super) struct Hold {
    until: Until,
    /// How many events are still awaited.
    left: u32,
    /// The name under which it is held.
    name: String,
    /// It was released, but not at once.
    due: bool,
}

impl Hold {
    /// Whether a message with this method could end it.
    pub(super) fn waits_for(&self, method: &str) -> bool {
        self.until.on.0.iter().any(|trigger| match trigger {
            Trigger::Method(pattern) => glob(pattern, method),
            Trigger::Message => true,
            Trigger::Notification => method.starts_with("notifications/"),
            _ => false,
        })
    }
}

impl ServerCore {
    /// What a task has to wait for, if it does. The faithful answer is to follow, unless the script has another.
    pub(super) fn hold(&mut self, task: &mut Task, until: Until) -> Option<Wait> {
        if !task.actions.iter().any(Action::answers) {
            task.actions.push_front(Action::Default);
        }
        let now = if until.on.0.is_empty() {
            until.held.is_none()
                && until.state.as_ref().is_some_and(|state| self.is_state(state, &task.scope))
        } else {
            until.times == 0
        };
        if now {
            return None;
        }
        self.show_stream(task);
        let name = until.name.clone().unwrap_or_else(|| task.rule.clone());
        Some(Wait::Until(Box::new(Hold { left: until.times, until, name, due: false })))
    }

    /// An event has happened: what waited for it goes on. Tasks from `first_new` on are too new to have waited.
    pub(super) fn end_holds(&mut self, event: &Event<'_>, first_new: u64) {
        let waits = self.tasks.range(..first_new).filter_map(|(id, task)| match &task.wait {
            Some(Wait::Until(hold)) if !hold.until.on.0.is_empty() => Some((*id, hold)),
            _ => None,
        });
        let hit: Vec<u64> = waits
            .filter(|(_, hold)| self.fits(&hold.until.on, hold.until.conditions(), event))
            .map(|(id, _)| id)
            .collect();
        let mut due = Vec::new();
        for id in hit {
            if let Some(Wait::Until(hold)) = self.tasks.get_mut(&id).and_then(|task| task.wait.as_mut()) {
                hold.left = hold.left.saturating_sub(1);
                if hold.left == 0 {
                    due.push(id);
                }
            }
        }
        self.go_on(due);
    }

    /// Tasks go on, in the order that the first of them asks for.
    fn go_on(&mut self, due: Vec<u64>) {
        let order = due.first().and_then(|id| self.hold_of(*id)).map(|hold| hold.until.order.clone());
        for id in order.unwrap_or_default().apply(due) {
            self.resume(id);
        }
    }

    fn hold_of(&self, id: u64) -> Option<&Hold> {
        match self.tasks.get(&id)?.wait.as_ref()? {
            Wait::Until(hold) => Some(hold),
            _ => None,
        }
    }

    /// What is held under a name, as it came.
    fn held(&self, name: &str) -> Vec<u64> {
        let held = |id: &u64| self.hold_of(*id).is_some_and(|hold| hold.name == name);
        self.tasks.keys().copied().filter(held).collect()
    }

    /// The input has been dealt with: holds that wait for a state or a number, and late releases, go on. Each round
    /// takes an action off a script, so that there is an end.
    pub(super) fn settle_holds(&mut self) {
        while !self.tasks.is_empty() && !self.ended {
            let ready = self.tasks.keys().copied().find_map(|id| {
                let hold = self.hold_of(id)?;
                if hold.due {
                    return Some(vec![id]);
                }
                if !hold.until.on.0.is_empty() {
                    return None;
                }
                if let Some(wanted) = hold.until.held {
                    let held = self.held(&hold.name);
                    return (held.len() >= usize::try_from(wanted).unwrap_or(usize::MAX)).then_some(held);
                }
                let scope = &self.tasks.get(&id)?.scope;
                hold.until.state.as_ref().is_some_and(|state| self.is_state(state, scope)).then(|| vec![id])
            });
            let Some(ready) = ready else { return };
            self.go_on(ready);
        }
    }

    /// Lets what is held under a name go on.
    pub(super) fn release_held(&mut self, release: &Held) {
        let mut due = release.order.apply(self.held(&release.held));
        due.truncate(release.count.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)));
        for id in due {
            if self.depth < MAX_DEPTH {
                self.resume(id);
            } else if let Some(Wait::Until(hold)) =
                self.tasks.get_mut(&id).and_then(|task| task.wait.as_mut())
            {
                hold.due = true;
                hold.until.order = Order::AsCame;
            }
        }
    }
}
