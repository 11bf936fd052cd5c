//! Which sessions share which server.

mod key;
pub(crate) mod processes;
pub mod records;

use crate::context::Context;
use crate::entry::{Kind, ServerEntry};
use crate::error::HostError;
use crate::events::SessionId;
use crate::server::Server;
use crate::server::target::{Place, folder_of, kind_of};
use futures_util::future::join_all;
use key::Key;
use serde::Serialize;
use sparring_profiles::Rearm;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The holder of what the host as a whole keeps running.
pub(crate) const HOST: SessionId = 0;

/// A server as the pool sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// The folder it runs in, or the project it is for.
    pub folder: PathBuf,
    /// Whether other sessions get it as well.
    pub shared: bool,
    /// How many sessions hold it.
    pub sessions: usize,
    /// Its process.
    pub pid: Option<u32>,
    /// It serves its holders to the end, and nobody else.
    pub retired: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// For one session.
    Private,
    /// For all, and it ends some time after its last share was given back.
    Idle,
    /// For all, until the host ends.
    Host,
}

struct Pooled {
    server: Arc<Server>,
    keep: Keep,
    /// How often it was taken; so that an old wait for idleness means nothing.
    taken: u64,
}

#[derive(Default)]
struct Servers {
    /// Those that new shares are taken of.
    current: HashMap<Key, u64>,
    all: HashMap<u64, Pooled>,
    next: u64,
    /// Those whose end has begun in the background.
    leaving: Vec<Arc<Server>>,
    closed: bool,
}

/// All servers of a host.
pub(crate) struct Pool {
    context: Arc<Context>,
    servers: Mutex<Servers>,
    /// Servers that are being closed in the background, and waits for that.
    closing: Mutex<JoinSet<()>>,
    /// Ends those waits.
    ending: watch::Sender<bool>,
}

/// A session's hold on a server. Dropping it gives it back.
pub(crate) struct Share {
    pool: Arc<Pool>,
    number: u64,
    pub(crate) server: Arc<Server>,
    pub(crate) session: SessionId,
    /// The session's own entry: filters and budgets of shared servers can differ.
    pub(crate) entry: ServerEntry,
    /// Crashes before it was taken.
    seen: u64,
}

impl Share {
    /// Whether the session may still call it, where only the user restarts servers.
    pub(crate) fn armed(&self) -> bool {
        self.server.is_armed(self.seen)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pool.give_back(self.number, self.session);
    }
}

impl Pool {
    pub(crate) fn new(context: &Arc<Context>) -> Arc<Self> {
        Arc::new(Self {
            context: Arc::clone(context),
            servers: Mutex::default(),
            closing: Mutex::default(),
            ending: watch::Sender::new(false),
        })
    }

    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the environment turns sharing of processes off.
    fn is_off(&self) -> bool {
        let settings = self.context.settings();
        let Some((name, value)) = settings.pool.off_env.split_once('=') else { return false };
        self.context.surroundings.env.get(name).is_some_and(|set| set == value)
    }

    fn keep(&self, entry: &ServerEntry, kind: Kind, isolated: bool) -> Keep {
        let settings = self.context.settings();
        let own = entry.shared == Some(false) && settings.pool.per_session_option;
        if isolated || own {
            return Keep::Private;
        }
        let pooled = kind == Kind::Stdio && settings.pool.shares && !self.is_off();
        match (pooled, settings.transports.shared_by_agents) {
            (true, _) if settings.pool.keeps_started => Keep::Host,
            (true, _) => Keep::Idle,
            (false, true) if kind != Kind::Stdio || !settings.pool.shares => Keep::Host,
            (false, _) => Keep::Private,
        }
    }

    /// A hold on the server of an entry: one that is there already, or a new one that is not started yet.
    pub(crate) fn share(
        self: &Arc<Self>,
        entry: &ServerEntry,
        place: &Place,
        session: SessionId,
        isolated: bool,
    ) -> Result<Share, HostError> {
        let settings = self.context.settings();
        let kind = kind_of(&settings, entry)?;
        let keep = self.keep(entry, kind, isolated);
        let key = Key::new(&self.context, entry, place, kind);
        let mut servers = self.servers();
        if servers.closed {
            return Err(HostError::Refused("the host is closed".to_owned()));
        }
        let known = match keep {
            Keep::Private => None,
            Keep::Idle | Keep::Host => servers.current.get(&key).copied(),
        };
        let number = match known {
            Some(number) => number,
            None => {
                let server = Server::new(&self.context, entry.clone(), place.clone())?;
                servers.next += 1;
                let number = servers.next;
                servers.all.insert(number, Pooled { server, keep, taken: 0 });
                if keep != Keep::Private {
                    servers.current.insert(key, number);
                }
                number
            }
        };
        let Some(pooled) = servers.all.get_mut(&number) else {
            return Err(HostError::NoServer(entry.name.clone()));
        };
        pooled.taken += 1;
        pooled.server.hold(session);
        let server = Arc::clone(&pooled.server);
        let rearms = settings.restart.rearm_on.contains(&Rearm::Session);
        let seen = if rearms { server.crashes() } else { 0 };
        Ok(Share { pool: Arc::clone(self), number, server, session, entry: entry.clone(), seen })
    }

    /// The server that a share of the entry would be of, if it is there already. Nobody holds it for that.
    pub(crate) fn peek(&self, entry: &ServerEntry, place: &Place, isolated: bool) -> Option<Arc<Server>> {
        let kind = kind_of(&self.context.settings(), entry).ok()?;
        if self.keep(entry, kind, isolated) == Keep::Private {
            return None;
        }
        let key = Key::new(&self.context, entry, place, kind);
        let servers = self.servers();
        let number = servers.current.get(&key)?;
        servers.all.get(number).map(|pooled| Arc::clone(&pooled.server))
    }

    fn give_back(self: &Arc<Self>, number: u64, session: SessionId) {
        let mut servers = self.servers();
        let Some(pooled) = servers.all.get(&number) else { return };
        if !pooled.server.release(session) {
            return;
        }
        let (server, taken) = (Arc::clone(&pooled.server), pooled.taken);
        match pooled.keep {
            _ if server.is_retired() => {}
            Keep::Private => {}
            Keep::Host => return,
            Keep::Idle => {
                drop(servers);
                self.background(Arc::clone(self).close_if_idle(number, taken, server));
                return;
            }
        }
        servers.all.remove(&number);
        servers.current.retain(|_, other| *other != number);
        servers.leaving.push(Arc::clone(&server));
        drop(servers);
        let pool = Arc::clone(self);
        self.background(async move {
            server.close().await;
            pool.servers().leaving.retain(|other| !Arc::ptr_eq(other, &server));
        });
    }

    async fn close_if_idle(self: Arc<Self>, number: u64, taken: u64, server: Arc<Server>) {
        let seconds = self.context.settings().pool.idle_close_s;
        let mut ending = self.ending.subscribe();
        tokio::select! {
            () = self.context.parts.clock.sleep(seconds) => {}
            // All servers are closed anyway.
            _ = ending.wait_for(|ending| *ending) => return,
        }
        {
            let mut servers = self.servers();
            let still = servers.all.get(&number).is_some_and(|pooled| pooled.taken == taken);
            if !still || server.is_held() {
                return;
            }
            servers.all.remove(&number);
            servers.current.retain(|_, other| *other != number);
        }
        server.close().await;
    }

    fn background(&self, task: impl Future<Output = ()> + Send + 'static) {
        // Without a runtime there is nobody to close in an orderly way; the process is ended with its handle.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
            while closing.try_join_next().is_some() {}
            closing.spawn_on(task, &runtime);
        }
    }

    fn of(&self, chosen: impl Fn(&Server) -> bool) -> Vec<(u64, Arc<Server>)> {
        let servers = self.servers();
        let all = servers.all.iter().filter(|(_, pooled)| chosen(&pooled.server));
        let mut all: Vec<_> = all.map(|(number, pooled)| (*number, Arc::clone(&pooled.server))).collect();
        all.sort_by_key(|(number, _)| *number);
        all
    }

    /// The next share of a server starts a fresh one; the old one serves its holders, and closes with the last. Where
    /// servers are not retired, it closes at once.
    pub(crate) async fn retire(&self, name: &str) {
        let retired = self.of(|server| server.name() == name && !server.is_retired());
        let at_once: Vec<Arc<Server>> = {
            let serves = self.context.settings().pool.retires;
            let mut servers = self.servers();
            let mut at_once = Vec::new();
            for (number, server) in retired {
                server.retire();
                servers.current.retain(|_, other| *other != number);
                if !serves || !server.is_held() {
                    servers.all.remove(&number);
                    at_once.push(server);
                }
            }
            at_once
        };
        join_all(at_once.iter().map(|server| server.close())).await;
    }

    pub(crate) fn instances(&self) -> Vec<Instance> {
        let all = self.of(|_| true);
        let servers = self.servers();
        let instance = |(number, server): (u64, Arc<Server>)| {
            let sessions = server.sessions();
            Instance {
                name: server.name().to_owned(),
                folder: match server.kind {
                    Kind::Stdio => folder_of(&self.context, &server.entry, &server.place),
                    Kind::Http | Kind::Sse => server.place.root().to_owned(),
                },
                shared: servers.all.get(&number).is_some_and(|pooled| pooled.keep != Keep::Private),
                sessions: sessions.iter().filter(|session| **session != HOST).count(),
                pid: server.pid(),
                retired: server.is_retired(),
            }
        };
        all.into_iter().map(instance).collect()
    }

    /// Waits for servers that are being closed because their last holder has given them back.
    pub(crate) async fn settle(&self) {
        let closing = std::mem::take(&mut self.servers().leaving);
        join_all(closing.iter().map(|server| server.close())).await;
    }

    /// Closes all servers, at the same time, and waits for it.
    pub(crate) async fn close(&self) {
        let all: Vec<Arc<Server>> = {
            let mut servers = self.servers();
            servers.closed = true;
            servers.current.clear();
            std::mem::take(&mut servers.all).into_values().map(|pooled| pooled.server).collect()
        };
        join_all(all.iter().map(|server| server.close())).await;
        let mut closing = std::mem::take(&mut *self.closing.lock().unwrap_or_else(PoisonError::into_inner));
        self.ending.send_replace(true);
        while closing.join_next().await.is_some() {}
    }
}
