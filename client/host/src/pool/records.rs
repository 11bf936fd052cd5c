//! Records of the processes that a host has started, so that the next start can end what a killed host left behind.
//!
//! A record is written before there is a process: it names the pipes that only this process will have. When the
//! process is there, its id and the time of its start are added, before it is used. So there is no moment at which a
//! killed host leaves a process behind that nobody knows of.

use super::processes::{self, Identity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A process that a host has started, or is about to start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessRecord {
    /// The server's name.
    pub server: String,
    /// Its process id, which is that of its process group; none as long as it is only about to be started.
    pub pid: Option<u32>,
    /// Inode numbers of the pipes that only it has.
    pub pipes: Vec<u64>,
}

/// Remembers processes. The methods may block for as long as writing a small file takes.
pub trait ProcessRecords: Send + Sync {
    /// A process is about to be started. Returns when the record is safe; its number.
    ///
    /// # Errors
    /// If it could not be written; then the process must not be started.
    fn begin(&self, record: &ProcessRecord) -> io::Result<u64>;
    /// The process is there: the record is completed.
    ///
    /// # Errors
    /// If it could not be written; then the process must not be used.
    fn started(&self, number: u64, record: &ProcessRecord) -> io::Result<()>;
    /// The process, and its group, is gone.
    fn end(&self, number: u64);
    /// Ends what hosts that are dead have left behind; the names of their servers.
    fn reap(&self) -> Vec<String>;
}

/// Remembers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRecords;

impl ProcessRecords for NoRecords {
    fn begin(&self, _: &ProcessRecord) -> io::Result<u64> {
        Ok(0)
    }

    fn started(&self, _: u64, _: &ProcessRecord) -> io::Result<()> {
        Ok(())
    }

    fn end(&self, _: u64) {}

    fn reap(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A record as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Written {
    server: String,
    /// The host that has started it.
    host: Identity,
    /// The login session of the host, and so of its children that made none of their own.
    session: Option<u32>,
    /// When the record was begun, on the clock of [`Identity::start`].
    since: u64,
    process: Option<Identity>,
    pipes: Vec<u64>,
}

/// Remembers processes in a folder, a file for each. Several hosts may share the folder, also at the same time.
#[derive(Debug)]
pub struct RecordFolder {
    folder: PathBuf,
    host: Option<Identity>,
    next: AtomicU64,
}

const ENDING: &str = "json";

impl RecordFolder {
    /// Records in `folder`, which is made when the first one is written.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            host: processes::identity(std::process::id()),
            next: AtomicU64::new(fresh()),
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}-{number}.{ENDING}", std::process::id()))
    }

    fn write(&self, number: u64, record: &ProcessRecord) -> io::Result<()> {
        // Where processes can't be told apart, a record would do harm.
        let Some(host) = &self.host else { return Ok(()) };
        let written = Written {
            server: record.server.clone(),
            host: host.clone(),
            session: processes::session(std::process::id()),
            since: processes::now().unwrap_or_default(),
            process: record.pid.and_then(processes::identity),
            pipes: record.pipes.clone(),
        };
        let bytes = serde_json::to_vec(&written)?;
        crate::files::swap(&self.path(number), &bytes, 0o600)
    }

    /// Ends what a dead host has left behind. `None`: it can't be told yet.
    fn settle(&self, written: &Written) -> bool {
        if processes::is_alive(&written.host) {
            return false;
        }
        let mut groups = BTreeSet::new();
        match &written.process {
            Some(process) if processes::is_alive(process) => drop(groups.insert(process.pid)),
            // Somebody else's by now.
            Some(process) if processes::identity(process.pid).is_some() => {}
            // The leader is gone. What is left of its group is known by its pipes, or by when and where it was started.
            Some(process) => {
                let ours = |member: &processes::Member| {
                    member.group == process.pid
                        && member.start >= process.start
                        && (written.session == Some(member.session) || member.holds(&written.pipes))
                };
                if processes::members().iter().any(ours) {
                    groups.insert(process.pid);
                }
            }
            // The host died between the start of the process and learning its id.
            None => {
                let ours = |member: &processes::Member| {
                    member.start >= written.since && member.holds(&written.pipes)
                };
                let found = processes::members().into_iter().filter(ours);
                groups.extend(found.map(|member| member.group));
            }
        }
        let own = processes::group(std::process::id());
        for group in groups.into_iter().filter(|group| Some(*group) != own) {
            processes::end_group(group);
        }
        true
    }
}

/// A number that no earlier record of this process has.
fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed) << 32
}

impl ProcessRecords for RecordFolder {
    fn begin(&self, record: &ProcessRecord) -> io::Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.write(number, record)?;
        Ok(number)
    }

    fn started(&self, number: u64, record: &ProcessRecord) -> io::Result<()> {
        self.write(number, record)
    }

    fn end(&self, number: u64) {
        // If it is gone already, all the better.
        drop(fs::remove_file(self.path(number)));
    }

    fn reap(&self) -> Vec<String> {
        let mut reaped = Vec::new();
        let Ok(files) = fs::read_dir(&self.folder) else { return reaped };
        for path in files.filter_map(|file| Some(file.ok()?.path())) {
            if path.extension().is_none_or(|ending| ending != ENDING) {
                continue;
            }
            match read(&path) {
                Some(written) => {
                    if self.settle(&written) {
                        reaped.push(written.server);
                        drop(fs::remove_file(&path));
                    }
                }
                // Files are written whole, so this is not one of ours. It is kept for whoever wants to look at it.
                None => drop(fs::rename(&path, path.with_extension("damaged"))),
            }
        }
        reaped
    }
}

fn read(path: &Path) -> Option<Written> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
