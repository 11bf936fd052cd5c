//! Completions: no more of them than anybody needs.

use crate::connection::Connection;
use crate::core::RequestOptions;
use crate::error::Error;
use serde_json::{Map, Value, json};
use sparring_wire::Revision;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// What `completion/complete` completes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionRef {
    /// An argument of the prompt of this name.
    Prompt(String),
    /// A variable of this resource template.
    Template(String),
}

/// More results than these are not kept.
const MAX_KEPT: usize = 256;

/// What was asked for of late.
#[derive(Default)]
pub(crate) struct Completions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By params: the result, and when it came.
    kept: HashMap<String, (Value, Instant)>,
    /// By what is completed: the number of the latest wish, and when the next may be sent.
    latest: HashMap<String, (u64, Instant)>,
    wishes: u64,
}

impl Completions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self, params: &str, ttl: Duration) -> Option<Value> {
        let state = self.state();
        let (value, came) = state.kept.get(params)?;
        (came.elapsed() < ttl).then(|| value.clone())
    }

    fn keep(&self, params: String, value: &Value, ttl: Duration) {
        if ttl.is_zero() {
            return;
        }
        let mut state = self.state();
        if state.kept.len() >= MAX_KEPT {
            state.kept.retain(|_, (_, came)| came.elapsed() < ttl);
            if state.kept.len() >= MAX_KEPT {
                state.kept.clear();
            }
        }
        state.kept.insert(params, (value.clone(), Instant::now()));
    }

    /// Waits until a wish may be sent. `false`: a later wish for the same has taken its place.
    async fn turn(&self, of: &str, gap: Duration) -> bool {
        let (number, at) = {
            let mut state = self.state();
            if state.latest.len() >= MAX_KEPT {
                let now = Instant::now();
                state.latest.retain(|_, (_, at)| *at > now);
            }
            state.wishes += 1;
            let number = state.wishes;
            let at = state.latest.get(of).map_or_else(Instant::now, |(_, at)| *at);
            state.latest.insert(of.to_owned(), (number, at));
            (number, at)
        };
        sleep_until(at).await;
        let mut state = self.state();
        match state.latest.get_mut(of) {
            Some((latest, _)) if *latest != number => false,
            Some((_, next)) => {
                *next = Instant::now() + gap;
                true
            }
            None => true,
        }
    }
}

impl Connection {
    /// Asks for completions: the `completion` of the result. `context`: arguments settled already, sent from
    /// 2025-06-18 on.
    ///
    /// The same question is not asked again for a while, and of questions about one argument that come quickly after each
    /// other only the first and the last are.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if a later wish has taken its place; otherwise whatever keeps the result away.
    pub async fn complete(
        &self,
        of: &CompletionRef,
        argument: &str,
        value: &str,
        context: Map<String, Value>,
    ) -> Result<Value, Error> {
        if let Some((name, _)) = context.iter().find(|(_, value)| !value.is_string()) {
            return Err(Error::Refused(format!("the argument {name:?} of the context is not a string")));
        }
        let reference = match of {
            CompletionRef::Prompt(name) => json!({"type": "ref/prompt", "name": name}),
            CompletionRef::Template(uri) => json!({"type": "ref/resource", "uri": uri}),
        };
        let mut params = json!({"ref": &reference, "argument": {"name": argument, "value": value}});
        let knows_context = self.negotiated().is_some_and(|n| n.revision >= Revision::V2025_06_18);
        if !context.is_empty() && knows_context {
            params["context"] = json!({"arguments": context});
        }
        let settings = &self.inner.parts.settings;
        let (completions, key) = (&self.inner.completions, params.to_string());
        if let Some(kept) = completions.kept(&key, settings.completion_ttl) {
            return Ok(kept);
        }
        if !completions.turn(&format!("{reference} {argument}"), settings.completion_gap).await {
            return Err(Error::Cancelled("a later wish for the same completion has come".into()));
        }
        let mut result = self.request("completion/complete", Some(params), RequestOptions::default()).await?;
        let completion = result.get_mut("completion").map_or_else(|| json!({"values": []}), Value::take);
        completions.keep(key, &completion, settings.completion_ttl);
        Ok(completion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const GAP: Duration = Duration::from_millis(50);

    #[tokio::test(start_paused = true)]
    async fn of_many_wishes_the_first_and_the_last_are_sent() {
        let completions = Arc::new(Completions::default());
        let wishes: Vec<_> = (0..10)
            .map(|_| {
                let completions = Arc::clone(&completions);
                tokio::spawn(async move { completions.turn("a", GAP).await })
            })
            .collect();
        let mut sent = Vec::new();
        for wish in wishes {
            sent.push(wish.await.unwrap());
        }
        assert!(sent.iter().filter(|sent| **sent).count() <= 2, "{sent:?}");
        assert!(sent[9]);
        // What concerns something else does not wait.
        let before = Instant::now();
        assert!(completions.turn("b", GAP).await);
        assert_eq!(before.elapsed(), Duration::ZERO);
        // One by one, each has its turn.
        assert!(completions.turn("b", GAP).await);
        assert_eq!(before.elapsed(), GAP);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_right_for_a_while() {
        let completions = Completions::default();
        completions.keep("p".into(), &json!({"values": ["x"]}), GAP);
        assert_eq!(completions.kept("p", GAP), Some(json!({"values": ["x"]})));
        assert_eq!(completions.kept("q", GAP), None);
        tokio::time::advance(GAP).await;
        assert_eq!(completions.kept("p", GAP), None);
    }
}
