//! The task that owns a connection: it feeds the protocol core and carries out what the core decides.

use crate::cached::Results;
use crate::core::{
    Action, Ask, AskKey, Event, Filter, Headers, ListKind, Negotiated, Progress, RequestOptions, RpcError,
    Session, Ticket,
};
use crate::error::Error;
use crate::link::{FromLink, Link};
use crate::raw::Raw;
use crate::seams::{Callbacks, MessageFilter};
use crate::settings::Root;
use serde_json::Value;
use sparring_wire::Id;
use sparring_wire::jsonrpc::codes;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Told of a request's progress. Called from the connection's task, so it should be quick.
pub type ProgressCallback = Arc<dyn Fn(Progress) + Send + Sync>;

/// From a handle to the engine.
pub(crate) enum Command {
    Request(Box<NewRequest>),
    Cancel {
        key: u64,
        reason: String,
    },
    Notify {
        method: String,
        params: Option<Value>,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    SetRoots {
        roots: Vec<Root>,
        done: oneshot::Sender<()>,
    },
    SetLogLevel {
        level: Option<String>,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// A task that an earlier call became.
    Follow {
        key: u64,
        task: String,
        options: RequestOptions,
        reply: oneshot::Sender<Result<Answer, Error>>,
    },
    /// A subscription; it is ended by [`Command::Cancel`].
    Listen {
        key: u64,
        filter: Filter,
        reply: oneshot::Sender<Result<Filter, Error>>,
    },
    Close,
}

pub(crate) struct NewRequest {
    pub(crate) key: u64,
    pub(crate) method: String,
    pub(crate) params: Option<Value>,
    pub(crate) options: RequestOptions,
    /// Header fields of its own, for HTTP in the stateless revision.
    pub(crate) headers: Headers,
    pub(crate) progress: Option<ProgressCallback>,
    pub(crate) reply: oneshot::Sender<Result<Answer, Error>>,
}

/// A result.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) raw: Raw,
    /// Whether it depends on the request alone, and not on input that the server asked for.
    pub(crate) direct: bool,
}

struct Listener {
    key: u64,
    /// Until the server has agreed.
    reply: Option<oneshot::Sender<Result<Filter, Error>>>,
}

struct Caller {
    key: u64,
    reply: oneshot::Sender<Result<Answer, Error>>,
    progress: Option<ProgressCallback>,
}

/// What the engine is made of.
pub(crate) struct Engine {
    pub(crate) server: Arc<str>,
    pub(crate) session: Session,
    pub(crate) link: Link,
    pub(crate) filter: Option<Arc<dyn MessageFilter>>,
    pub(crate) callbacks: Arc<dyn Callbacks>,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) incoming: mpsc::Receiver<FromLink>,
    pub(crate) holds: mpsc::UnboundedReceiver<(Id, bool)>,
    /// The loss of the session is the end of the connection.
    pub(crate) ends_with_session: bool,
    pub(crate) events: broadcast::Sender<Event>,
    pub(crate) changed: Arc<Changed>,
    pub(crate) results: Arc<Results>,
    pub(crate) started: Option<oneshot::Sender<Result<(), Error>>>,
    pub(crate) status: watch::Sender<Status>,
}

/// The lists that have changed and were not looked at since.
#[derive(Default)]
pub(crate) struct Changed {
    kinds: Mutex<HashSet<ListKind>>,
    /// How often each has changed.
    counts: Mutex<HashMap<ListKind, u64>>,
    any: Notify,
}

impl Changed {
    fn kinds(&self) -> MutexGuard<'_, HashSet<ListKind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, kind: ListKind) {
        let with_it = (kind == ListKind::Resources).then_some(ListKind::Templates);
        for kind in [kind].into_iter().chain(with_it) {
            *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
            self.kinds().insert(kind);
        }
        self.any.notify_one();
    }

    /// How often the list has changed so far.
    pub(crate) fn count(&self, kind: ListKind) -> u64 {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).get(&kind).copied().unwrap_or_default()
    }

    /// Waits until there are some, and takes them.
    pub(crate) async fn take(&self) -> HashSet<ListKind> {
        self.any.notified().await;
        std::mem::take(&mut *self.kinds())
    }
}

/// What handles can see of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    pub(crate) negotiated: Option<Arc<Negotiated>>,
    /// Why the connection is gone.
    pub(crate) closed: Option<Error>,
    /// The server has gone without a word, and might have wanted a handshake.
    pub(crate) unasked: bool,
    /// The transport has been shut down, and the server with it.
    pub(crate) finished: bool,
}

impl Engine {
    pub(crate) async fn run(self) {
        let Self { commands, incoming, holds, link, .. } = self;
        let state = State {
            server: self.server,
            session: self.session,
            link,
            ends_with_session: self.ends_with_session,
            filter: self.filter,
            callbacks: self.callbacks,
            events: self.events,
            changed: self.changed,
            results: self.results,
            started: self.started,
            status: self.status,
            epoch: Instant::now(),
            callers: HashMap::new(),
            listeners: HashMap::new(),
            tickets: HashMap::new(),
            asks: JoinSet::new(),
            ask_keys: HashMap::new(),
            ask_tasks: HashMap::new(),
        };
        state.run(commands, incoming, holds).await;
    }
}

struct State {
    server: Arc<str>,
    session: Session,
    link: Link,
    ends_with_session: bool,
    filter: Option<Arc<dyn MessageFilter>>,
    callbacks: Arc<dyn Callbacks>,
    events: broadcast::Sender<Event>,
    changed: Arc<Changed>,
    results: Arc<Results>,
    started: Option<oneshot::Sender<Result<(), Error>>>,
    status: watch::Sender<Status>,
    epoch: Instant,
    callers: HashMap<Ticket, Caller>,
    listeners: HashMap<Ticket, Listener>,
    /// From the key a handle chose to the core's ticket.
    tickets: HashMap<u64, Ticket>,
    asks: JoinSet<Result<Value, RpcError>>,
    ask_keys: HashMap<tokio::task::Id, AskKey>,
    ask_tasks: HashMap<AskKey, AbortHandle>,
}

impl State {
    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Command>,
        mut incoming: mpsc::Receiver<FromLink>,
        mut holds: mpsc::UnboundedReceiver<(Id, bool)>,
    ) {
        self.session.start(self.now());
        self.carry_out();
        while !self.session.is_closed() {
            let wake = self.session.deadline().map(|at| self.epoch + at);
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => self.session.close(Error::Closed("all handles are gone".into())),
                },
                item = incoming.recv() => match item {
                    Some(item) => self.item(item),
                    None => self.session.close(Error::Closed("the transport is gone".into())),
                },
                Some((id, held)) = holds.recv() => {
                    let now = self.now();
                    self.session.hold(now, &id, held);
                }
                Some(done) = self.asks.join_next_with_id() => self.asked(done),
                () = async { sleep_until(wake.unwrap_or(self.epoch)).await }, if wake.is_some() => {}
            }
            self.session.tick(self.now());
            self.carry_out();
        }
        // From here on, requests fail at the handle.
        commands.close();
        let Self { link, status, asks, callers, .. } = self;
        drop((asks, callers));
        // What the server still says is read, so that it does not get stuck in a write instead of ending.
        let closing = link.close();
        tokio::pin!(closing);
        loop {
            tokio::select! {
                () = &mut closing => break,
                Some(_) = incoming.recv() => {}
            }
        }
        status.send_modify(|status| status.finished = true);
    }

    fn command(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Request(request) => {
                let NewRequest { key, method, params, options, headers, progress, reply } = *request;
                match self.session.request_with(now, &method, params, options, headers) {
                    Ok(ticket) => {
                        self.tickets.insert(key, ticket);
                        self.callers.insert(ticket, Caller { key, reply, progress });
                    }
                    // The caller may have gone; then nobody wants to know.
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            Command::Cancel { key, reason } => {
                if let Some(ticket) = self.tickets.get(&key) {
                    self.session.cancel(now, *ticket, &reason);
                }
            }
            Command::Notify { method, params, reply } => {
                drop(reply.send(self.session.notify(&method, params)));
            }
            Command::SetRoots { roots, done } => {
                self.session.set_roots(roots);
                self.carry_out();
                // The caller may have gone.
                let _ = done.send(());
            }
            Command::SetLogLevel { level, reply } => {
                // The caller may have gone.
                drop(reply.send(self.session.set_log_level(level.as_deref())));
            }
            Command::Follow { key, task, options, reply } => {
                match self.session.follow_task(now, &task, options) {
                    Ok(ticket) => {
                        self.tickets.insert(key, ticket);
                        self.callers.insert(ticket, Caller { key, reply, progress: None });
                    }
                    // The caller may have gone; then nobody wants to know.
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            Command::Listen { key, filter, reply } => match self.session.listen(now, filter) {
                Ok(ticket) => {
                    self.tickets.insert(key, ticket);
                    self.listeners.insert(ticket, Listener { key, reply: Some(reply) });
                }
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Close => self.session.close(Error::Closed("the connection was closed".into())),
        }
    }

    fn item(&mut self, item: FromLink) {
        let now = self.now();
        match item {
            FromLink::Message(text) => self.message(now, text),
            FromLink::Refused { id, text, error } => self.session.refuse(now, &id, &text, error),
            FromLink::TooLong { start, limit } => self.session.too_long(now, &start, limit),
            FromLink::Failed { id, error } => self.session.fail(now, &id, error),
            FromLink::SessionLost { generation, id } => {
                if self.ends_with_session && self.link.reset(generation) {
                    let message = "the server does not know the session any more".to_owned();
                    let error = Error::Http { status: 404, message };
                    if let Some(id) = id {
                        self.session.fail(now, &id, error.clone());
                    }
                    self.session.close(error);
                } else if self.link.reset(generation) {
                    self.session.session_lost(now, id.as_ref());
                } else if let Some(id) = id {
                    // Another request has met the loss before.
                    self.session.send_again(now, &id);
                }
            }
            FromLink::Notice(event) => self.tell(event),
            FromLink::Closed(error) => self.session.close(error),
        }
    }

    fn message(&mut self, now: Duration, text: String) {
        match &self.filter {
            None => self.session.receive(now, text),
            Some(filter) => {
                for text in filter.incoming(&self.server, text) {
                    self.session.receive(now, text);
                }
            }
        }
    }

    fn carry_out(&mut self) {
        let mut ready = false;
        while let Some(action) = self.session.next_action() {
            match action {
                Action::Send(message) => self.send(message, Headers::new()),
                Action::Post { message, headers } => self.send(message, headers),
                Action::Listening { ticket, granted } => {
                    if let Some(reply) = self.listeners.get_mut(&ticket).and_then(|l| l.reply.take()) {
                        // Nobody may wait for it any more.
                        drop(reply.send(Ok(granted)));
                    }
                }
                Action::Resolve { ticket, direct, outcome } => {
                    if let Some(caller) = self.callers.remove(&ticket) {
                        self.tickets.remove(&caller.key);
                        drop(caller.reply.send(outcome.map(|raw| Answer { raw, direct })));
                    } else if let Some(listener) = self.listeners.remove(&ticket) {
                        self.tickets.remove(&listener.key);
                        if let Some(reply) = listener.reply {
                            drop(reply.send(outcome.map(|_| Filter::default())));
                        }
                    }
                }
                Action::Forget(id) => self.link.forget(&id),
                Action::Progress { ticket, progress } => {
                    if let Some(callback) = self.callers.get(&ticket).and_then(|c| c.progress.as_ref()) {
                        callback(progress);
                    }
                }
                Action::Ask { key, ask } => self.ask(key, ask),
                Action::AskCancelled(key) => {
                    if let Some(task) = self.ask_tasks.remove(&key) {
                        task.abort();
                    }
                }
                Action::Ready(negotiated) => {
                    ready = true;
                    self.link.ready(negotiated.revision);
                    self.status.send_modify(|status| status.negotiated = Some(Arc::new(negotiated)));
                    if let Some(started) = self.started.take() {
                        drop(started.send(Ok(())));
                    }
                }
                Action::Event(event) => self.tell(event),
                Action::Disconnect(_) => {}
            }
        }
        if ready {
            self.link.open_stream();
        }
        if let Some(error) = self.session.closed_by() {
            let error = error.clone();
            let unasked = self.session.might_have_shaken_hands();
            self.status.send_modify(|status| {
                status.closed = Some(error.clone());
                status.unasked = unasked;
            });
            if let Some(started) = self.started.take() {
                drop(started.send(Err(error.clone())));
            }
            self.tell(Event::Closed { error });
        }
    }

    fn send(&mut self, message: Value, headers: Headers) {
        match &self.filter {
            None => self.link.send(&message, headers),
            Some(filter) => {
                for message in filter.outgoing(&self.server, message) {
                    self.link.send(&message, headers.clone());
                }
            }
        }
    }

    fn tell(&self, event: Event) {
        match &event {
            Event::ListChanged(kind) => self.changed.mark(*kind),
            Event::ResourceUpdated { uri } => self.results.touch(uri),
            _ => {}
        }
        // Nobody may be listening.
        drop(self.events.send(event));
    }

    fn ask(&mut self, key: AskKey, ask: Ask) {
        let (callbacks, server) = (Arc::clone(&self.callbacks), Arc::clone(&self.server));
        let task = self.asks.spawn(async move {
            match ask {
                Ask::Sampling(request) => callbacks.sample(&server, request).await,
                Ask::Elicitation(request) => callbacks.elicit(&server, request).await.map(Value::from),
            }
        });
        self.ask_keys.insert(task.id(), key);
        self.ask_tasks.insert(key, task);
    }

    fn asked(&mut self, done: Result<(tokio::task::Id, Result<Value, RpcError>), tokio::task::JoinError>) {
        let (id, answer) = match done {
            Ok((id, answer)) => (id, answer),
            Err(error) => {
                (error.id(), Err(RpcError::new(codes::INTERNAL_ERROR, "the client failed to answer")))
            }
        };
        if let Some(key) = self.ask_keys.remove(&id) {
            self.ask_tasks.remove(&key);
            self.session.answer(self.now(), key, answer);
        }
    }
}
