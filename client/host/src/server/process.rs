//! A server's process as the host sees it: its id, its record, what it says on stderr.

use crate::context::Context;
use crate::events::SessionId;
use crate::pool::processes::{self, Member};
use crate::pool::records::ProcessRecord;
use async_trait::async_trait;
use serde_json::json;
use sparring_client::stdio::{Exit, Launcher, ServerProcess, Signal, SpawnSpec};
use sparring_profiles::EventName;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The longest line of stderr that is reported whole, in bytes.
const MAX_LINE: usize = 8 << 10;

/// Where a server's process is noted as long as there is one.
pub(crate) struct ProcessSlot {
    context: Arc<Context>,
    server: String,
    flights: Arc<Mutex<BTreeMap<SessionId, usize>>>,
    pid: Mutex<Option<u32>>,
}

impl ProcessSlot {
    pub(crate) fn new(
        context: &Arc<Context>,
        server: &str,
        flights: &Arc<Mutex<BTreeMap<SessionId, usize>>>,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            server: server.to_owned(),
            flights: Arc::clone(flights),
            pid: Mutex::default(),
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_pid(&self, pid: Option<u32>) {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner) = pid;
    }

    /// A warning goes to the one session that has a call under way; if it is not clear which one, to the host.
    pub(crate) fn warn(&self, message: &str) {
        let session = {
            let flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
            let mut sessions = flights.keys();
            let one = sessions.next().copied().filter(|_| sessions.next().is_none());
            one.filter(|_| self.context.settings().pool.warns_caller)
        };
        let fields = [("name", json!(self.server)), ("message", json!(message))];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        self.context.emit(EventName::Warn, Some(&self.server), session, fields);
    }
}

/// Starts processes by another launcher, and keeps account of them.
pub(crate) struct Accounting {
    pub(crate) inner: Arc<dyn Launcher>,
    pub(crate) slot: Arc<ProcessSlot>,
}

impl Launcher for Accounting {
    fn spawn(&self, spec: &SpawnSpec) -> io::Result<Box<dyn ServerProcess>> {
        let records = &self.slot.context.parts.records;
        let mut record = ProcessRecord { server: spec.server.clone(), ..ProcessRecord::default() };
        let mut number = None;
        let spawned = self.inner.spawn_announced(spec, &mut |pipes| {
            record.pipes = pipes.to_vec();
            number = Some(records.begin(&record)?);
            Ok(())
        });
        let process = spawned.inspect_err(|_| {
            if let Some(number) = number {
                records.end(number);
            }
        })?;
        record.pid = process.id();
        let number = match number {
            Some(number) => records.started(number, &record).map(|()| number),
            None => records.begin(&record),
        };
        // A process that nobody would know of after a crash is not used.
        let number = number.inspect_err(|_| drop(process.signal(Signal::Kill)))?;
        self.slot.set_pid(process.id());
        let account = Account { slot: Arc::clone(&self.slot), pid: process.id(), number };
        Ok(Box::new(Accounted { inner: process, account, line: Mutex::default(), strays: Mutex::default() }))
    }
}

struct Accounted {
    // Dropped first, so that a process that is left is ended before it is forgotten.
    inner: Box<dyn ServerProcess>,
    account: Account,
    /// The beginning of a line of stderr.
    line: Mutex<Vec<u8>>,
    /// Descendants in sessions of their own, where these are ended too. They are looked for before their parents go.
    strays: Mutex<Vec<Member>>,
}

impl Accounted {
    fn find_strays(&self) {
        if let Some(pid) = self.account.pid
            && !self.account.slot.context.settings().shutdown.setsid_survives
        {
            let found = processes::strays(pid);
            self.strays.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        }
    }
}

impl Drop for Accounted {
    fn drop(&mut self) {
        self.find_strays();
        for stray in self.strays.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // Its number may be another process's by now.
            if processes::member(stray.pid).is_some_and(|now| now.start == stray.start) {
                processes::end(&stray);
            }
        }
    }
}

impl Accounted {
    /// Reports complete lines; at the end, what is left.
    fn said(&self, chunk: &[u8]) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let report = |line: &mut Vec<u8>| {
            let text = String::from_utf8_lossy(line);
            if !text.trim().is_empty() {
                self.account.slot.warn(text.trim_end());
            }
            line.clear();
        };
        if chunk.is_empty() {
            report(&mut line);
        }
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE.saturating_sub(line.len());
            line.extend(piece.iter().take(room));
            if piece.ends_with(b"\n") {
                report(&mut line);
            }
        }
    }
}

#[async_trait]
impl ServerProcess for Accounted {
    fn id(&self) -> Option<u32> {
        self.inner.id()
    }

    async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write(bytes).await
    }

    async fn read(&self) -> io::Result<Vec<u8>> {
        self.inner.read().await
    }

    async fn read_into(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.inner.read_into(buffer).await
    }

    async fn read_stderr(&self) -> io::Result<Vec<u8>> {
        let chunk = self.inner.read_stderr().await?;
        self.said(&chunk);
        Ok(chunk)
    }

    async fn close_stdin(&self) {
        self.find_strays();
        self.inner.close_stdin().await;
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match signal {
            // Without force, what does not end by itself is left alone.
            Signal::Kill if !self.account.slot.context.settings().shutdown.kill_group => Ok(()),
            signal => self.inner.signal(signal),
        }
    }

    fn group_alive(&self) -> bool {
        self.inner.group_alive()
    }

    async fn wait(&self) -> io::Result<Exit> {
        self.inner.wait().await
    }
}

/// Forgets the process, once it is gone.
struct Account {
    slot: Arc<ProcessSlot>,
    pid: Option<u32>,
    number: u64,
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.slot.pid() == self.pid {
            self.slot.set_pid(None);
        }
        self.slot.context.parts.records.end(self.number);
    }
}
