//! Calls that wait for a person.

use super::Rule;
use crate::error::HostError;
use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question {
    /// The composed name.
    pub tool: String,
    /// The server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The arguments, as they would be sent.
    pub arguments: Map<String, Value>,
    /// The rule because of which it is asked.
    pub rule: Rule,
}

/// What the person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this once.
    Approve,
    /// Yes, and don't ask again.
    Always,
    /// No, for this reason.
    Deny(String),
}

/// Asks a person. The call waits for the answer; nothing is sent before.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Asks.
    async fn ask(&self, question: Question) -> Answer;
}

/// Calls that wait until somebody answers through [`Approvals::answer`], or that are all approved, if nobody wants to be
/// asked.
#[derive(Debug)]
pub struct Approvals {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    auto: bool,
    next: u64,
    waiting: Vec<Waiting>,
    /// Answers to questions that were not asked yet: the tool, or any.
    early: VecDeque<(Option<String>, Answer)>,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    question: Question,
    answer: oneshot::Sender<Answer>,
}

impl Approvals {
    /// Calls wait.
    pub const fn waiting() -> Self {
        Self::new(false)
    }

    /// Calls are approved without asking.
    pub const fn approving() -> Self {
        Self::new(true)
    }

    const fn new(auto: bool) -> Self {
        Self { inner: Mutex::new(Inner { auto, next: 0, waiting: Vec::new(), early: VecDeque::new() }) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether calls are approved without asking from now on. Those that wait go on waiting.
    pub fn set_auto(&self, auto: bool) {
        self.inner().auto = auto;
    }

    /// What is asked at the moment, oldest first.
    pub fn pending(&self) -> Vec<Question> {
        self.inner().waiting.iter().map(|waiting| waiting.question.clone()).collect()
    }

    /// Answers the oldest question, or the oldest one about `tool`. Gives the question back.
    ///
    /// # Errors
    /// There is no such question.
    pub fn answer(&self, tool: Option<&str>, answer: Answer) -> Result<Question, HostError> {
        loop {
            let waiting = {
                let mut inner = self.inner();
                let at = inner.waiting.iter().position(|w| tool.is_none_or(|tool| w.question.tool == tool));
                let at = at.ok_or_else(|| {
                    HostError::Refused(match tool {
                        Some(tool) => format!("no call of {tool:?} waits for approval"),
                        None => "no call waits for approval".to_owned(),
                    })
                })?;
                inner.waiting.remove(at)
            };
            // A call that was cancelled meanwhile no longer listens.
            if waiting.answer.send(answer.clone()).is_ok() {
                return Ok(waiting.question);
            }
        }
    }

    /// As [`Approvals::answer`]; if nobody asks yet, the answer is for the next question.
    pub fn answer_now_or_next(&self, tool: Option<&str>, answer: Answer) {
        if self.answer(tool, answer.clone()).is_err() {
            self.inner().early.push_back((tool.map(str::to_owned), answer));
        }
    }

    /// Forgets answers to questions that were never asked.
    pub fn forget(&self) {
        self.inner().early.clear();
    }
}

/// Takes the question back if the call is given up.
struct Withdraw<'a> {
    approvals: &'a Approvals,
    id: u64,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        self.approvals.inner().waiting.retain(|waiting| waiting.id != self.id);
    }
}

#[async_trait]
impl Approver for Approvals {
    async fn ask(&self, question: Question) -> Answer {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut inner = self.inner();
            let fits = |tool: &Option<String>| tool.as_ref().is_none_or(|tool| *tool == question.tool);
            let early = inner.early.iter().position(|(tool, _)| fits(tool));
            if let Some((_, answer)) = early.and_then(|at| inner.early.remove(at)) {
                return answer;
            }
            if inner.auto {
                return Answer::Approve;
            }
            let id = inner.next;
            inner.next += 1;
            inner.waiting.push(Waiting { id, question, answer });
            id
        };
        let _withdraw = Withdraw { approvals: self, id };
        answered.await.unwrap_or_else(|_| Answer::Deny("nobody answered".to_owned()))
    }
}
