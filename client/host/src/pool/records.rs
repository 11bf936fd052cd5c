//! Records of the processes that a host has started, so that the next start can end what a killed host left behind.
//!
//! A record is written before there is a process: it names the pipes that only this process will have. When the
//! process is there, its id and the time of its start are added, before it is used. So there is no moment at which a
//! killed host leaves a process behind that nobody knows of.

use super::processes::{self, Identity, Member};
use serde::{Deserialize, Serialize};
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

    /// Ends what a dead host has left behind. `false`: it is not dead.
    fn settle(written: &Written) -> bool {
        if processes::is_alive(&written.host) {
            return false;
        }
        match &written.process {
            Some(process) if processes::is_alive(process) => {
                processes::member(process.pid).iter().for_each(processes::end);
            }
            // Somebody else's by now.
            Some(process) if processes::identity(process.pid).is_some() => {}
            // The leader is gone. What is left of its group is known by its pipes, or by when and where it was started.
            Some(process) => {
                let ours = |member: &Member| {
                    member.group == process.pid
                        && member.start >= process.start
                        && (written.session == Some(member.session) || member.holds(&written.pipes))
                };
                processes::members().into_iter().filter(ours).for_each(|member| processes::end(&member));
            }
            // The host died between the start of the process and learning its id.
            None => {
                let own = std::process::id();
                let ours = |member: &Member| {
                    member.pid != own && member.start >= written.since && member.holds(&written.pipes)
                };
                processes::members().into_iter().filter(ours).for_each(|member| processes::end(&member));
            }
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
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if ending != ENDING {
                // One that a killed host has not finished.
                let writer = crate::files::writer(ending);
                if writer.is_some_and(|writer| processes::identity(writer).is_none()) {
                    drop(fs::remove_file(&path));
                }
                continue;
            }
            match read(&path) {
                Some(written) => {
                    if Self::settle(&written) {
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

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    /// Ended with the test, whatever comes of it.
    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }

    fn sleeper() -> Sleeper {
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Sleeper(command.process_group(0).spawn().unwrap())
    }

    /// As a host that is dead has left it.
    fn left(folder: &Path, name: &str, process: Option<Identity>, pipes: Vec<u64>) {
        let own = processes::identity(std::process::id()).unwrap();
        let written = Written {
            server: name.into(),
            // This very process cannot have been started then.
            host: Identity { start: own.start + 1, ..own.clone() },
            session: None,
            since: own.start,
            process,
            pipes,
        };
        crate::files::swap(
            &folder.join(name).with_extension(ENDING),
            &serde_json::to_vec(&written).unwrap(),
            0o600,
        )
        .unwrap();
    }

    fn is_there(sleeper: &Sleeper) -> bool {
        processes::identity(sleeper.0.id()).is_some()
    }

    #[test]
    fn what_a_dead_host_left_is_ended_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let [mut known, mut announced, stranger, own] = [(); 4].map(|()| sleeper());
        left(folder.path(), "known", processes::identity(known.0.id()), Vec::new());
        let pipe = std::os::unix::fs::MetadataExt::ino(
            &fs::metadata(format!("/proc/{}/fd/0", announced.0.id())).unwrap(),
        );
        left(folder.path(), "announced", None, vec![pipe]);
        // The id was used again since.
        let reused = processes::identity(stranger.0.id()).map(|now| Identity { start: now.start - 1, ..now });
        left(folder.path(), "stranger", reused, Vec::new());
        fs::write(folder.path().join("odd.json"), "{").unwrap();
        let records = RecordFolder::new(folder.path());
        let record = ProcessRecord { server: "own".into(), pid: Some(own.0.id()), pipes: Vec::new() };
        let number = records.begin(&record).unwrap();
        let mut reaped = RecordFolder::new(folder.path()).reap();
        reaped.sort();
        assert_eq!(reaped, ["announced", "known", "stranger"]);
        for ended in [&mut known, &mut announced] {
            assert!(!ended.0.wait().unwrap().success());
        }
        assert!(is_there(&stranger) && is_there(&own));
        assert!(records.path(number).exists() && folder.path().join("odd.damaged").exists());
        records.end(number);
        assert_eq!(records.reap(), [""; 0]);
    }
}
