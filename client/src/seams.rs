//! Traits through which a program takes part in a client, or changes what it does.

use crate::core::{ElicitAnswer, Elicitation, RpcError, Sampling};
use async_trait::async_trait;
use serde_json::Value;

/// Sees, and may change, each message between the protocol core and the transport.
///
/// One message in may become none or several. The default methods change nothing.
pub trait MessageFilter: Send + Sync {
    /// A message on its way to the server named `server`.
    fn outgoing(&self, server: &str, message: Value) -> Vec<Value> {
        let _ = server;
        vec![message]
    }

    /// The text of a message from the server named `server`, before it is parsed.
    fn incoming(&self, server: &str, text: String) -> Vec<String> {
        let _ = server;
        vec![text]
    }
}

/// Answers what servers ask of the embedding program. By default the answer is no.
#[async_trait]
pub trait Callbacks: Send + Sync {
    /// Answers `sampling/createMessage` with its result (`role`, `content`, `model`, …).
    async fn sample(&self, server: &str, request: Sampling) -> Result<Value, RpcError> {
        let _ = (server, request);
        Err(RpcError::user_rejected())
    }

    /// Answers `elicitation/create`.
    async fn elicit(&self, server: &str, request: Elicitation) -> Result<ElicitAnswer, RpcError> {
        let _ = (server, request);
        Ok(ElicitAnswer::Decline)
    }
}

/// The [`Callbacks`] that say no.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCallbacks;

impl Callbacks for NoCallbacks {}

/// What to do after a page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextPage {
    /// The list is complete.
    Done,
    /// Ask for the page at this cursor.
    At(String),
    /// Give up, for this reason.
    Fail(String),
}

/// Decides how lists are read on.
pub trait ListPolicy: Send + Sync {
    /// Looks at the result of the latest page. `cursors` are those asked for so far, in order; the first page has
    /// none, so `cursors.len() + 1` pages have been read.
    fn next(&self, method: &str, cursors: &[String], result: &Value) -> NextPage;
}

/// Follows `nextCursor` to the end, whatever it looks like, the empty string included. A cursor that comes a second
/// time and too many pages are errors.
#[derive(Debug, Clone, Copy)]
pub struct FollowCursors(pub crate::settings::Paging);

impl ListPolicy for FollowCursors {
    fn next(&self, method: &str, cursors: &[String], result: &Value) -> NextPage {
        match result.get("nextCursor") {
            None | Some(Value::Null) => NextPage::Done,
            Some(Value::String(_)) if !self.0.follow => NextPage::Done,
            Some(Value::String(cursor)) if cursors.contains(cursor) => NextPage::Fail(format!(
                "{method}: the cursor {cursor:?} came a second time; the list has no end"
            )),
            Some(Value::String(_)) if cursors.len() + 1 >= self.0.limit as usize => {
                NextPage::Fail(format!("{method}: more than {} pages", self.0.limit))
            }
            Some(Value::String(cursor)) => NextPage::At(cursor.clone()),
            Some(_) => NextPage::Fail(format!("{method}: nextCursor is not a string")),
        }
    }
}

/// A source of random bytes, for `state` and PKCE verifiers.
pub trait Entropy: Send + Sync {
    /// Fills the buffer.
    fn fill(&self, buffer: &mut [u8]);
}

/// Randomness of the operating system's quality.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        rand::fill(buffer);
    }
}
