//! Connections to single servers.

mod calls;
mod lists;

pub use calls::{Call, CallOptions, CancelSwitch, Canceller};
pub use lists::Entry;
pub(crate) use lists::refetch;

use crate::cached::Results;
use crate::client::Parts;
use crate::completion::Completions;
use crate::core::{Event, Filter, Headers, ListKind, Negotiated, RequestOptions};
use crate::engine::{Changed, Command, NewRequest, ProgressCallback, Status};
use crate::error::Error;
use crate::settings::Root;
use crate::subscription::Subscription;
use calls::Check;
use lists::Lists;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

pub(crate) struct Inner {
    pub(crate) server: Arc<str>,
    pub(crate) parts: Arc<Parts>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) events: broadcast::Sender<Event>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) next_key: AtomicU64,
    pub(crate) lists: Mutex<Lists>,
    pub(crate) changed: Arc<Changed>,
    pub(crate) results: Arc<Results>,
    pub(crate) completions: Completions,
    pub(crate) over_http: bool,
    /// What the server's era is known by; empty if by nothing.
    pub(crate) site: OnceLock<String>,
}

impl Inner {
    pub(super) fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the stateless revision is spoken.
    pub(crate) fn is_stateless(&self) -> bool {
        self.status.borrow().negotiated.as_ref().is_some_and(|n| n.revision.is_stateless())
    }

    pub(crate) fn gone(&self) -> Error {
        self.status.borrow().closed.clone().unwrap_or_else(|| Error::Closed("the connection is gone".into()))
    }
}

/// A connection to one server. Clones share it; when the last one is dropped, the connection is closed in the
/// background.
#[derive(Clone)]
pub struct Connection {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.inner.server).finish_non_exhaustive()
    }
}

impl Connection {
    /// The name given to the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.inner.server
    }

    /// What the handshake settled, the latest one if the session was reopened.
    #[must_use]
    pub fn negotiated(&self) -> Option<Arc<Negotiated>> {
        self.inner.status.borrow().negotiated.clone()
    }

    /// Why the connection is gone; `None` while it is up.
    #[must_use]
    pub fn closed(&self) -> Option<Error> {
        self.inner.status.borrow().closed.clone()
    }

    /// What happens from now on.
    #[must_use]
    pub fn events(&self) -> Events {
        Events { receiver: self.inner.events.subscribe() }
    }

    /// Starts any request. Capabilities are respected: one that the server does not offer ends with
    /// [`Error::Refused`], and nothing is sent.
    pub fn start(
        &self,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
        progress: Option<ProgressCallback>,
    ) -> Call {
        self.start_with(method, params, options, progress, Headers::new())
    }

    pub(super) fn start_with(
        &self,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
        progress: Option<ProgressCallback>,
        headers: Headers,
    ) -> Call {
        let key = self.inner.next_key.fetch_add(1, Ordering::Relaxed);
        let (reply, result) = oneshot::channel();
        let options = RequestOptions { progress: options.progress || progress.is_some(), ..options };
        let request =
            NewRequest { key, method: method.to_owned(), params, options, headers, progress, reply };
        // If the engine is gone, so is `reply`, and the call ends with that.
        drop(self.inner.commands.send(Command::Request(Box::new(request))));
        Call::new(&self.inner, key, result, Check::Nothing)
    }

    /// Makes any request.
    ///
    /// # Errors
    /// Whatever keeps the result away.
    pub async fn request(
        &self,
        method: &str,
        params: Option<Value>,
        options: RequestOptions,
    ) -> Result<Value, Error> {
        self.start(method, params, options, None).wait().await
    }

    /// Sends any notification.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn notify(&self, method: &str, params: Option<Value>) -> Result<(), Error> {
        let (reply, sent) = oneshot::channel();
        let command = Command::Notify { method: method.to_owned(), params, reply };
        drop(self.inner.commands.send(command));
        sent.await.unwrap_or_else(|_| Err(self.inner.gone()))
    }

    /// Reads a resource: the result of `resources/read`.
    ///
    /// # Errors
    /// Whatever keeps the result away.
    pub async fn read(&self, uri: &str) -> Result<Value, Error> {
        self.checked("resources/read", json!({"uri": uri}), "contents").await
    }

    /// Gets a prompt: the result of `prompts/get`.
    ///
    /// # Errors
    /// Whatever keeps the result away; [`Error::Refused`] if a required argument is known to be missing.
    pub async fn prompt(&self, name: &str, arguments: Map<String, Value>) -> Result<Value, Error> {
        if let Some((argument, _)) = arguments.iter().find(|(_, value)| !value.is_string()) {
            return Err(Error::Refused(format!("the prompt argument {argument:?} is not a string")));
        }
        if let Some(missing) = self.missing_argument(name, &arguments) {
            return Err(Error::Refused(format!("the prompt {name:?} needs the argument {missing:?}")));
        }
        let params = match arguments.is_empty() {
            true => json!({"name": name}),
            false => json!({"name": name, "arguments": arguments}),
        };
        self.checked("prompts/get", params, "messages").await
    }

    fn missing_argument(&self, name: &str, given: &Map<String, Value>) -> Option<String> {
        let prompts = self.cached(ListKind::Prompts)?;
        let wanted = prompts.iter().find(|p| p.key == name)?.json.get("arguments")?.as_array()?;
        let mut required = wanted
            .iter()
            .filter(|a| a.get("required").and_then(Value::as_bool) == Some(true))
            .filter_map(|a| a.get("name").and_then(Value::as_str));
        required.find(|a| !given.contains_key(*a)).map(str::to_owned)
    }

    /// Asks the server for a sign of life: `ping`, or `server/discover` where that does not exist.
    ///
    /// # Errors
    /// Whatever keeps the answer away.
    pub async fn ping(&self) -> Result<(), Error> {
        let method = if self.inner.is_stateless() { "server/discover" } else { "ping" };
        self.request(method, None, RequestOptions::default()).await.map(drop)
    }

    /// Opens a subscription of its own (2026-07-28), which ends when it is dropped. What happens is told by
    /// [`Connection::events`]; a stream that breaks is opened again.
    ///
    /// # Errors
    /// [`Error::Refused`] in earlier revisions; otherwise whatever keeps the server's consent away.
    pub async fn listen(&self, filter: Filter) -> Result<Subscription, Error> {
        Subscription::open(&self.inner, filter).await
    }

    /// Subscribes to changes of a resource.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server does not offer that; otherwise whatever keeps the answer away.
    pub async fn subscribe(&self, uri: &str) -> Result<(), Error> {
        if self.inner.is_stateless() {
            let subscription = self.listen(Filter::uris([uri])).await?;
            if !subscription.granted().uris.iter().any(|granted| granted == uri) {
                return Err(Error::Refused(format!("the server does not report changes of {uri}")));
            }
            self.inner.lists().heard.insert(uri.to_owned(), subscription);
            return Ok(());
        }
        self.request("resources/subscribe", Some(json!({"uri": uri})), RequestOptions::default()).await?;
        self.inner.lists().subscribed.insert(uri.to_owned());
        Ok(())
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// [`Error::Refused`] without a subscription; otherwise whatever keeps the answer away.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), Error> {
        if self.inner.is_stateless() {
            let ended = self.inner.lists().heard.remove(uri);
            return match ended {
                Some(_) => Ok(()),
                None => Err(Error::Refused(format!("there is no subscription of {uri}"))),
            };
        }
        if !self.inner.lists().subscribed.contains(uri) {
            return Err(Error::Refused(format!("there is no subscription of {uri}")));
        }
        self.request("resources/unsubscribe", Some(json!({"uri": uri})), RequestOptions::default()).await?;
        self.inner.lists().subscribed.remove(uri);
        Ok(())
    }

    /// Sets the least level of log messages wanted: by `logging/setLevel`, or, in the stateless revision, with each
    /// request from now on.
    ///
    /// # Errors
    /// [`Error::Refused`] for a level that does not exist; otherwise whatever keeps the answer away.
    pub async fn set_level(&self, level: &str) -> Result<(), Error> {
        if self.inner.is_stateless() {
            let (reply, done) = oneshot::channel();
            drop(self.inner.commands.send(Command::SetLogLevel { level: Some(level.to_owned()), reply }));
            return done.await.unwrap_or_else(|_| Err(self.inner.gone()));
        }
        let params = json!({"level": level});
        self.request("logging/setLevel", Some(params), RequestOptions::default()).await.map(drop)
    }

    /// Replaces the roots; the server is told if that was declared. Returns when that message is on its way.
    pub async fn set_roots(&self, roots: Vec<Root>) {
        let (done, told) = oneshot::channel();
        // If the engine is gone, nobody asks for roots any more.
        drop(self.inner.commands.send(Command::SetRoots { roots, done }));
        drop(told.await);
    }

    /// Closes the connection and waits until the server is gone (stdio) or its session ended (HTTP). Takes at most
    /// the graces of the settings.
    pub async fn close(&self) {
        drop(self.inner.commands.send(Command::Close));
        let mut status = self.inner.status.clone();
        // An error means that the engine has ended already.
        drop(status.wait_for(|status| status.finished).await);
    }

    async fn checked(&self, method: &str, params: Value, member: &str) -> Result<Value, Error> {
        let (result, _) = self.fetch(method, Some(params), RequestOptions::default()).await?;
        let result = result.value()?;
        match result.get(member) {
            Some(Value::Array(_)) => Ok(result),
            _ => Err(Error::Invalid(format!("the result of {method} has no array `{member}`"))),
        }
    }

    pub(super) fn skipped(&self, reason: String, json: &Value) {
        let text = json.to_string().chars().take(200).collect();
        drop(self.inner.events.send(Event::Skipped { reason, text }));
    }
}

/// The events of a connection.
pub struct Events {
    receiver: broadcast::Receiver<Event>,
}

impl Events {
    /// The next event; `None` after the connection has ended. A listener too slow by far loses the oldest events.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// The next event if it is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        loop {
            match self.receiver.try_recv() {
                Ok(event) => return Some(event),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return None,
            }
        }
    }
}
