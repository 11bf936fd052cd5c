//! Appends events to a transcript file.
//!
//! Several recordings may share a file, one after the other or at a time: a client that restarts its server runs the
//! recorder's command again. So each batch is written under a lock, and numbered by what is in the file by then.

use super::NAME;
use crate::judge::redact;
use serde::Deserialize;
use sparring_wire::transcript::{Event, Recorded, What};
use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// How a recording is written.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The file.
    pub path: PathBuf,
    /// The server's name in it.
    pub server: String,
    /// Leave secrets as they are.
    pub show_secrets: bool,
}

/// A transcript that is being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    settings: Settings,
    incarnation: Option<u32>,
    /// Nobody else writes until this journal is dropped.
    exclusive: bool,
    seen: Seen,
}

/// What is known of the file's contents.
#[derive(Debug, Default)]
struct Seen {
    /// How much of it was read or written by this journal.
    length: u64,
    n: u64,
    at_us: u64,
    /// Time 0 of the transcript, in CLOCK_MONOTONIC.
    started_us: Option<u64>,
    /// The last process of the server, from 1.
    incarnation: u32,
    exchange: u64,
    connection: u64,
}

/// As much of an event as is needed to go on after it.
#[derive(Deserialize)]
struct Mark<'a> {
    n: u64,
    at_us: u64,
    #[serde(borrow, default)]
    server: Option<Cow<'a, str>>,
    #[serde(default)]
    incarnation: Option<u32>,
    #[serde(borrow)]
    what: MarkWhat<'a>,
}

#[derive(Deserialize)]
struct MarkWhat<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    started_us: Option<u64>,
    #[serde(default)]
    exchange: Option<u64>,
    #[serde(default)]
    connection: Option<u64>,
}

/// The path with `{n}` replaced by the least number for which there is no file, which is created; the path itself if it
/// has no `{n}`.
///
/// # Errors
/// The file can't be created.
pub fn numbered(path: &Path) -> io::Result<PathBuf> {
    let Some(text) = path.to_str().filter(|text| text.contains("{n}")) else { return Ok(path.to_owned()) };
    for n in 1_u32.. {
        let candidate = PathBuf::from(text.replace("{n}", &n.to_string()));
        match options().create_new(true).open(&candidate) {
            Ok(_) => return Ok(candidate),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Transcripts may hold secrets: nobody else may read a new one.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Whether a recording can be written to this path: it can be opened, and what is there already is a recording.
///
/// # Errors
/// Why not.
pub fn probe(path: &Path) -> io::Result<()> {
    check(&options().create(true).open(path)?)
}

/// Whether a file is empty or begins as recordings do.
fn check(mut file: &File) -> io::Result<()> {
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    file.seek(SeekFrom::Start(0))?;
    let mut first = Vec::new();
    BufReader::new(io::Read::take(file, 1 << 20)).read_until(b'\n', &mut first)?;
    let begins = br#"{"n":1,"at_us":0,"what":{"kind":"recorded","#;
    let fits = match first.last() {
        Some(b'\n') => {
            serde_json::from_slice::<Mark<'_>>(&first).is_ok_and(|mark| mark.what.kind == "recorded")
        }
        // A recorder may have died before it came to the end of the line.
        _ => first.iter().zip(begins).all(|(is, should)| is == should),
    };
    fits.then_some(()).ok_or_else(no_recording)
}

fn no_recording() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file is there already, and is no recording")
}

impl Journal {
    /// Begins a recording at the time `now_us` of CLOCK_MONOTONIC: a new file, or a further one in a file of
    /// recordings. `process`: it is of one process of a stdio server, which gets the next number; otherwise nobody
    /// else may write to the file meanwhile.
    ///
    /// # Errors
    /// The system's; the file is there and is no recording, or another one that wants it for itself is under way.
    pub fn begin(
        settings: Settings,
        now_us: u64,
        process: bool,
        upstream: Option<String>,
    ) -> io::Result<Self> {
        let file = options().create(true).open(&settings.path)?;
        let mut journal = Self { file, settings, incarnation: None, exclusive: false, seen: Seen::default() };
        journal.exclusive = !process;
        if journal.exclusive && journal.file.try_lock().is_err() {
            let why = "another recording is being written to it";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
        journal.locked(|journal| {
            check(&journal.file)?;
            journal.cut_tail()?;
            journal.catch_up()?;
            journal.incarnation = process.then_some(journal.seen.incarnation + 1);
            let started_us = journal.seen.started_us.unwrap_or(now_us);
            journal.seen.started_us = Some(started_us);
            let header = What::Recorded(Recorded { by: NAME.to_owned(), started_us, upstream });
            journal.write([(now_us, header)])
        })?;
        Ok(journal)
    }

    /// The number of the process, from 1.
    pub const fn incarnation(&self) -> Option<u32> {
        self.incarnation
    }

    /// The highest numbers of an exchange and of a connection that are in the file.
    pub const fn numbers(&self) -> (u64, u64) {
        (self.seen.exchange, self.seen.connection)
    }

    /// Appends events, each with its time of CLOCK_MONOTONIC. Times that go back are those of the event before.
    ///
    /// # Errors
    /// The system's.
    pub fn append(&mut self, events: impl IntoIterator<Item = (u64, What)>) -> io::Result<()> {
        self.locked(|journal| {
            journal.catch_up()?;
            journal.write(events)
        })
    }

    fn locked<T>(&mut self, work: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        if self.exclusive {
            return work(self);
        }
        match self.file.lock() {
            // A device, or a file system without locks: then one recording at a time has to do.
            Err(e) if e.kind() != io::ErrorKind::Unsupported => return Err(e),
            _ => {}
        }
        let done = work(self);
        let _ = self.file.unlock();
        done
    }

    /// Takes off what a recorder that died in the middle of a line has left.
    fn cut_tail(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let mut whole = length;
        let mut block = [0_u8; 4096];
        while whole > 0 {
            let start = whole.saturating_sub(block.len() as u64);
            let part =
                block.get_mut(..usize::try_from(whole - start).unwrap_or_default()).unwrap_or_default();
            self.file.seek(SeekFrom::Start(start))?;
            io::Read::read_exact(&mut self.file, part)?;
            if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
                whole = start + at as u64 + 1;
                break;
            }
            whole = start;
        }
        if whole < length { self.file.set_len(whole) } else { Ok(()) }
    }

    /// Reads what others have written since.
    fn catch_up(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length == self.seen.length {
            return Ok(());
        }
        self.file.seek(SeekFrom::Start(self.seen.length))?;
        let mut reader = BufReader::new(&self.file);
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let mark: Mark<'_> = serde_json::from_slice(&line).map_err(|_| no_recording())?;
            let seen = &mut self.seen;
            if seen.n == 0 {
                seen.started_us = Some(mark.what.started_us.ok_or_else(no_recording)?);
            }
            seen.n = mark.n;
            seen.at_us = mark.at_us;
            if mark.server.as_deref() == Some(&*self.settings.server) {
                seen.incarnation = seen.incarnation.max(mark.incarnation.unwrap_or_default());
            }
            seen.exchange = seen.exchange.max(mark.what.exchange.unwrap_or_default());
            seen.connection = seen.connection.max(mark.what.connection.unwrap_or_default());
        }
        self.seen.length = length;
        Ok(())
    }

    fn write(&mut self, events: impl IntoIterator<Item = (u64, What)>) -> io::Result<()> {
        let mut text = Vec::new();
        for (at, what) in events {
            self.seen.n += 1;
            let since = at.saturating_sub(self.seen.started_us.unwrap_or(at));
            self.seen.at_us = since.max(self.seen.at_us);
            let server =
                (!matches!(what, What::Recorded(_) | What::End)).then(|| self.settings.server.clone());
            let incarnation = self.incarnation.filter(|_| server.is_some());
            let event = Event { n: self.seen.n, at_us: self.seen.at_us, server, incarnation, what };
            let event = if self.settings.show_secrets { event } else { redact::redact(&event) };
            serde_json::to_writer(&mut text, &event)?;
            text.push(b'\n');
        }
        self.file.write_all(&text)?;
        self.seen.length += text.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::stored;

    fn settings(path: &Path, server: &str) -> Settings {
        Settings { path: path.to_owned(), server: server.to_owned(), show_secrets: false }
    }

    fn read(path: &Path) -> stored::Stored {
        stored::read(BufReader::new(File::open(path).unwrap())).unwrap()
    }

    #[test]
    fn recordings_share_a_file_at_a_time_and_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut first = Journal::begin(settings(&path, "a"), 1000, true, None).unwrap();
        first.append([(1010, What::StdinClosed)]).unwrap();
        let mut second = Journal::begin(settings(&path, "a"), 1020, true, None).unwrap();
        let mut other = Journal::begin(settings(&path, "b"), 1025, true, None).unwrap();
        second.append([(1030, What::StdinClosed), (1040, What::End)]).unwrap();
        first.append([(1035, What::End)]).unwrap();
        assert!(read(&path).incomplete.is_some());
        other.append([(1050, What::End)]).unwrap();
        let stored = read(&path);
        assert_eq!(stored.incomplete, None);
        let times: Vec<u64> = stored.events.iter().map(|e| e.at_us).collect();
        assert_eq!(times, [0, 10, 20, 25, 30, 40, 40, 50]);
        let processes = [first.incarnation(), second.incarnation(), other.incarnation()];
        assert_eq!(processes, [Some(1), Some(2), Some(1)]);
        assert_eq!(stored.events[1].incarnation, Some(1));
        assert_eq!(stored.events[4].incarnation, Some(2));
    }

    #[test]
    fn the_rest_of_a_line_is_taken_off_and_the_recording_stays_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut dead = Journal::begin(settings(&path, "a"), 0, true, None).unwrap();
        dead.append([(1, What::StdinClosed)]).unwrap();
        let mut file = options().open(&path).unwrap();
        file.write_all(&[b'x'; 10_000]).unwrap();
        probe(&path).unwrap();
        let mut next = Journal::begin(settings(&path, "a"), 2, true, None).unwrap();
        assert_eq!(next.incarnation(), Some(2));
        next.append([(3, What::End)]).unwrap();
        let stored = read(&path);
        assert_eq!(stored.events.len(), 4);
        assert!(stored.incomplete.unwrap().starts_with("1 of its 2 recordings"));
    }

    #[test]
    fn what_is_no_recording_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let of_a_run = "{\"n\":1,\"at_us\":0,\"what\":{\"kind\":\"stdin-closed\"}}\n";
        for text in ["hello\n", "hello", of_a_run, "{}\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(probe(&path).is_err(), "{text}");
            assert!(Journal::begin(settings(&path, "a"), 0, true, None).is_err());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn numbers_in_names_go_up() {
        let folder = tempfile::tempdir().unwrap();
        let pattern = folder.path().join("t-{n}.jsonl");
        assert_eq!(numbered(&pattern).unwrap(), folder.path().join("t-1.jsonl"));
        assert_eq!(numbered(&pattern).unwrap(), folder.path().join("t-2.jsonl"));
    }

    #[test]
    fn secrets_are_redacted_unless_wanted() {
        let folder = tempfile::tempdir().unwrap();
        for show_secrets in [false, true] {
            let path = folder.path().join(format!("{show_secrets}.jsonl"));
            let settings = Settings { show_secrets, ..settings(&path, "a") };
            let mut journal = Journal::begin(settings, 0, true, None).unwrap();
            let line = sparring_wire::transcript::LineSeen {
                text: r#"{"access_token":"very-secret"}"#.into(),
                ..serde_json::from_str(r#"{"direction":"sent","text":""}"#).unwrap()
            };
            journal.append([(1, What::Line(line))]).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap().contains("very-secret"), show_secrets);
        }
    }
}
