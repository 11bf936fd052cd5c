//! Calls of tools, and other requests under way.

use super::{Connection, Inner};
use crate::core::headers::mirrored;
use crate::core::{Headers, ListKind, RequestOptions};
use crate::engine::{Answer, Command, ProgressCallback};
use crate::error::Error;
use crate::raw::Raw;
use crate::result::{self, CallResult};
use crate::settings::TaskUse;
use serde_json::{Map, Value, json};
use sparring_wire::Revision;
use sparring_wire::jsonrpc::codes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{mpsc, oneshot, watch};

/// How one call of a tool is to be made.
#[derive(Clone, Default)]
pub struct CallOptions {
    /// As for every request.
    pub request: RequestOptions,
    /// Told of progress.
    pub progress: Option<ProgressCallback>,
    /// Cancels the call when it is thrown.
    pub cancel: Option<CancelSwitch>,
}

impl From<RequestOptions> for CallOptions {
    fn from(request: RequestOptions) -> Self {
        Self { request, ..Self::default() }
    }
}

/// Cancels calls that were made with it, from anywhere. Clones are the same switch.
#[derive(Debug, Clone, Default)]
pub struct CancelSwitch {
    reason: watch::Sender<Option<String>>,
}

impl CancelSwitch {
    /// Throws the switch.
    pub fn throw(&self, reason: &str) {
        self.reason.send_replace(Some(reason.to_owned()));
    }

    /// The reason, once the switch is thrown; never, if there is none.
    async fn thrown(switch: Option<&Self>) -> String {
        if let Some(switch) = switch
            && let Ok(reason) = switch.reason.subscribe().wait_for(Option::is_some).await
            && let Some(reason) = reason.clone()
        {
            return reason;
        }
        std::future::pending().await
    }
}

impl Connection {
    /// Follows a task that an earlier call became, perhaps on another connection: [`Event::Task`](crate::Event::Task) has told its id. The
    /// outcome is that of the call. Dropping the [`Call`] cancels the task.
    pub fn follow_task(&self, id: &str, options: RequestOptions) -> Call {
        let key = self.inner.next_key.fetch_add(1, Ordering::Relaxed);
        let (reply, result) = oneshot::channel();
        // If the engine is gone, so is `reply`, and the call ends with that.
        drop(self.inner.commands.send(Command::Follow { key, task: id.to_owned(), options, reply }));
        Call::new(&self.inner, key, result, Check::Tool(None))
    }

    /// Starts a call of a tool. Dropping the [`Call`] cancels it.
    pub fn start_call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        options: RequestOptions,
        progress: Option<ProgressCallback>,
    ) -> Call {
        let (headers, task, schema) = {
            let lists = self.inner.lists();
            let headers = lists.mirrors.get(tool).map(|mirrors| mirrored(mirrors, &arguments));
            let known = lists.known.get(&ListKind::Tools);
            let known = known.and_then(|known| known.entries.iter().find(|t| t.key == tool));
            let task = known.and_then(|tool| self.as_task(&tool.json));
            (headers, task, known.and_then(|tool| tool.json.get("outputSchema")).cloned())
        };
        let headers = match headers.unwrap_or_else(|| Ok(Headers::new())) {
            Ok(headers) => headers,
            Err(why) => return self.failed(Error::Refused(why)),
        };
        let mut params = json!({"name": tool, "arguments": arguments});
        match task {
            Some(Ok(task)) => params["task"] = task,
            Some(Err(error)) => return self.failed(error),
            None => {}
        }
        let mut call = self.start_with("tools/call", Some(params), options, progress, headers);
        call.check = Check::Tool(schema.filter(|_| self.inner.parts.settings.validate_output));
        call
    }

    /// A call that has ended already.
    fn failed(&self, error: Error) -> Call {
        let (reply, result) = oneshot::channel();
        drop(reply.send(Err(error)));
        let key = self.inner.next_key.fetch_add(1, Ordering::Relaxed);
        Call::new(&self.inner, key, result, Check::Nothing)
    }

    /// The `task` member for a call of this tool, if it is to run as a task (2025-11-25).
    fn as_task(&self, tool: &Value) -> Option<Result<Value, Error>> {
        let negotiated = self.negotiated()?;
        let offered =
            negotiated.capabilities.get("tasks")?.get("requests")?.get("tools")?.get("call").is_some();
        if negotiated.revision != Revision::V2025_11_25 || !offered {
            return None;
        }
        let settings = self.inner.parts.settings.tasks;
        let support = tool.get("execution")?.get("taskSupport")?.as_str()?;
        match (support, settings.call) {
            ("required", TaskUse::Never) => {
                Some(Err(Error::Refused("the tool runs as a task only, which the settings rule out".into())))
            }
            ("required", _) | ("optional", TaskUse::WhenOffered) => {
                let ttl = settings.ttl.and_then(|ttl| u64::try_from(ttl.as_millis()).ok());
                Some(Ok(ttl.map_or_else(|| json!({}), |ttl| json!({"ttl": ttl}))))
            }
            _ => None,
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// [`Error::Protocol`] for an error of the protocol; a failure of the tool itself is a [`CallResult`].
    pub async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<CallResult, Error> {
        self.call_with(tool, arguments, CallOptions::default()).await
    }

    /// Calls a tool, with options.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub async fn call_with(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        options: impl Into<CallOptions>,
    ) -> Result<CallResult, Error> {
        if self.inner.lists().stale.contains(&ListKind::Tools) {
            self.list(ListKind::Tools).await?;
        }
        let options = options.into();
        let outcome = self.call_once(tool, arguments.clone(), options.clone()).await;
        let mismatch = matches!(outcome, Err(Error::Protocol { code: codes::HEADER_MISMATCH, .. }));
        if !mismatch || !self.inner.over_http {
            return outcome;
        }
        // The tool's schema may have changed, and with it what has to stand in the header.
        self.inner.results.forget_all(ListKind::Tools.method());
        self.list(ListKind::Tools).await?;
        self.call_once(tool, arguments, options).await
    }

    async fn call_once(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<CallResult, Error> {
        let CallOptions { request, progress, cancel } = options;
        let call = self.start_call(tool, arguments, request, progress);
        let canceller = call.canceller();
        let result = call.end();
        tokio::pin!(result);
        let (schema, raw) = tokio::select! {
            biased;
            result = &mut result => result?,
            reason = CancelSwitch::thrown(cancel.as_ref()) => {
                canceller.cancel(&reason);
                result.await?
            }
        };
        CallResult::read(raw.raw, schema.tool())
    }
}

pub(super) enum Check {
    Nothing,
    /// A tool's result, with its output schema.
    Tool(Option<Value>),
}

impl Check {
    /// The output schema, if that is what is checked.
    const fn tool(&self) -> Option<&Value> {
        match self {
            Self::Tool(schema) => schema.as_ref(),
            Self::Nothing => None,
        }
    }
}

/// A request under way. Dropping it cancels the request.
pub struct Call {
    inner: Arc<Inner>,
    key: u64,
    result: oneshot::Receiver<Result<Answer, Error>>,
    ended: bool,
    check: Check,
}

impl Call {
    pub(super) fn new(
        inner: &Arc<Inner>,
        key: u64,
        result: oneshot::Receiver<Result<Answer, Error>>,
        check: Check,
    ) -> Self {
        Self { inner: Arc::clone(inner), key, result, ended: false, check }
    }

    /// Waits for the result, and parses it.
    ///
    /// # Errors
    /// Whatever keeps the result away.
    pub async fn wait(self) -> Result<Value, Error> {
        let (check, answer) = self.end().await?;
        let value = answer.raw.value()?;
        if let Check::Tool(schema) = &check {
            result::verify(&value, schema.as_ref())?;
        }
        Ok(value)
    }

    /// Waits for the result as the server sent it; it is not looked into.
    ///
    /// # Errors
    /// Whatever keeps the result away.
    pub async fn raw(self) -> Result<Raw, Error> {
        self.end().await.map(|(_, answer)| answer.raw)
    }

    /// Waits for the result, and whether it depends on the request alone.
    pub(crate) async fn answer(self) -> Result<Answer, Error> {
        self.end().await.map(|(_, answer)| answer)
    }

    async fn end(mut self) -> Result<(Check, Answer), Error> {
        let result = (&mut self.result).await;
        self.ended = true;
        let answer = result.unwrap_or_else(|_| Err(self.inner.gone()));
        if let (Err(Error::Http { status: 400..500, .. }), Some(site)) = (&answer, self.inner.site.get())
            && self.inner.is_stateless()
        {
            // Perhaps the server is not any more what it was; the next connection finds out.
            self.inner.parts.eras.forget(site);
        }
        Ok((std::mem::replace(&mut self.check, Check::Nothing), answer?))
    }

    /// A handle that can cancel the request while another task waits for it.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller { commands: self.inner.commands.clone(), key: self.key }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.ended {
            let command = Command::Cancel { key: self.key, reason: "no longer needed".into() };
            // If the engine is gone, so is the request.
            drop(self.inner.commands.send(command));
        }
    }
}

/// Cancels one request.
#[derive(Clone)]
pub struct Canceller {
    commands: mpsc::UnboundedSender<Command>,
    key: u64,
}

impl Canceller {
    /// Cancels it: the server is told, the request ends with [`Error::Cancelled`]. One that has ended is left alone.
    pub fn cancel(&self, reason: &str) {
        // If the engine is gone, so is the request.
        drop(self.commands.send(Command::Cancel { key: self.key, reason: reason.to_owned() }));
    }
}
