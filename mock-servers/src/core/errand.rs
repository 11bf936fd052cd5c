//! Tasks of the client's (2025-11-25): a request that asks for one, and what follows.

use super::act::Flow;
use super::{Out, ServerCore, Task, Wait};
use crate::script::RequestTask;
use crate::shape;
use serde_json::{Value, json};
use sparring_wire::Revision;
use sparring_wire::jsonrpc::{self, Id};

/// How far a request for a task has come.
#[derive(Debug)]
pub(super) struct Errand {
    /// The request of ours that is unanswered.
    awaited: Id,
    step: Step,
    script: RequestTask,
    /// The client's name for the task.
    job: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Asked,
    Listed,
    Polled,
    Last,
}

impl Errand {
    /// What to send after an answer; `None` when there is nothing more.
    fn next(&mut self, answer: &Value) -> Option<(&'static str, Value)> {
        if self.step == Step::Asked {
            // A client that makes no task has answered as it would have without.
            self.job = answer["task"]["taskId"].as_str()?.to_owned();
            if self.script.list {
                self.step = Step::Listed;
                return Some(("tasks/list", json!({})));
            }
        }
        let job = json!({"taskId": self.job});
        let over = matches!(answer["status"].as_str(), Some("completed" | "failed" | "cancelled"));
        match self.step {
            Step::Last => None,
            _ if self.script.polls > 0 && !over => {
                self.script.polls -= 1;
                self.step = Step::Polled;
                Some(("tasks/get", job))
            }
            _ => {
                self.step = Step::Last;
                Some((if self.script.cancel { "tasks/cancel" } else { "tasks/result" }, job))
            }
        }
    }
}

impl ServerCore {
    /// The action `request_task`.
    pub(super) fn request_task(&mut self, task: &Task, script: RequestTask) -> Flow {
        let revision = self.revision_of(task.request.as_ref(), &task.scope);
        let mut params = script.params.as_ref().map_or_else(|| json!({}), |p| p.0.clone());
        if revision == Revision::V2025_11_25
            && let Value::Object(params) = &mut params
        {
            let wish = script.ttl_ms.map_or_else(|| json!({}), |ttl| json!({"ttl": ttl}));
            params.insert("task".into(), wish);
        }
        let awaited = self.send_own(task, &script.method, Some(params), revision);
        if revision.is_stateless() {
            return Flow::Next;
        }
        Flow::Park(Wait::Errand(Errand { awaited, step: Step::Asked, script, job: String::new() }))
    }

    /// Sends a request of ours on the stream at hand.
    pub(super) fn send_own(
        &mut self,
        task: &Task,
        method: &str,
        params: Option<Value>,
        revision: Revision,
    ) -> Id {
        let id = Id::String(format!("s-{}", self.next_own_request));
        self.next_own_request += 1;
        let fault = !shape::own(method, params.as_ref(), true, revision);
        self.note_own(id.clone(), method);
        self.send(task, Out::message(&jsonrpc::request(&id, method, params), fault), false);
        id
    }

    /// An answer to a request of ours has come; whoever waits for it goes on.
    pub(super) fn errand_came(&mut self, id: &Id, answer: &Value) {
        let waits = |task: &Task| matches!(&task.wait, Some(Wait::Errand(errand)) if errand.awaited == *id);
        let Some(number) = self.tasks.iter().find(|(_, task)| waits(task)).map(|(number, _)| *number) else {
            return;
        };
        let Some(mut task) = self.tasks.remove(&number) else { return };
        let Some(Wait::Errand(mut errand)) = task.wait.take() else { return };
        match errand.next(answer) {
            Some((method, params)) => {
                let revision = self.revision_of(task.request.as_ref(), &task.scope);
                errand.awaited = self.send_own(&task, method, Some(params), revision);
                task.wait = Some(Wait::Errand(errand));
                self.tasks.insert(number, task);
            }
            None => self.run(task),
        }
    }
}
