//! What a served mock observes: in memory for whoever asks, and in a file as it happens.

use crate::judge::redact;
use crate::run::recorder::{end, text_of, write_transcript};
use sparring_mock_servers::sink::{Sink, monotonic_us};
use sparring_reports::file::regular_or_absent;
use sparring_wire::transcript::{Event, What};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// As many events are kept in memory; older ones are only in the file.
const MOST_EVENTS: usize = 100_000;
/// The same for the texts in them, in bytes.
const MOST_TEXT: usize = 256 << 20;

/// The events of one served mock. Numbers are those of arrival; recording never waits.
#[derive(Debug)]
pub struct Log {
    started_us: u64,
    server: String,
    show_secrets: bool,
    kept: Mutex<Kept>,
    /// The number of the last event.
    last: watch::Sender<u64>,
    file: Option<TranscriptFile>,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Arc<Event>>,
    /// The number of the last event.
    last: u64,
    /// The latest time stamp of each process.
    latest: HashMap<Option<u32>, u64>,
    text: usize,
    /// The file has its end, and nothing may follow it.
    finished: bool,
}

/// Part of a transcript.
#[derive(Debug, Clone)]
pub struct Part {
    /// The events, oldest first.
    pub events: Vec<Arc<Event>>,
    /// The number of the last event there is, in this part or not.
    pub last: u64,
    /// How many that were asked for are not in memory any more.
    pub missing: u64,
}

impl Log {
    /// Begins now; `server` is the server's name. The file, if one is wanted, is there when this returns.
    ///
    /// # Errors
    /// The file can't be made.
    pub fn new(server: &str, file: Option<&Path>, show_secrets: bool) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            started_us: monotonic_us(),
            server: server.to_owned(),
            show_secrets,
            kept: Mutex::default(),
            last: watch::Sender::new(0),
            file: file.map(|path| TranscriptFile::create(path, show_secrets)).transpose()?,
        }))
    }

    /// Takes in an observation, made at this time of CLOCK_MONOTONIC.
    pub fn add(&self, incarnation: Option<u32>, monotonic_us: u64, what: What) {
        let text = text_of(&what);
        let mut kept = self.kept();
        if kept.finished {
            return;
        }
        kept.last += 1;
        // Those of one process keep their order.
        let latest = kept.latest.entry(incarnation).or_default();
        *latest = monotonic_us.max(*latest);
        let at_us = latest.saturating_sub(self.started_us);
        let event =
            Arc::new(Event { n: kept.last, at_us, server: Some(self.server.clone()), incarnation, what });
        kept.text += text;
        kept.events.push_back(Arc::clone(&event));
        while kept.events.len() > MOST_EVENTS || (kept.text > MOST_TEXT && kept.events.len() > 1) {
            if let Some(oldest) = kept.events.pop_front() {
                kept.text = kept.text.saturating_sub(text_of(&oldest.what));
            }
        }
        // While the lock is held, so that the file has them in the order of their numbers.
        if let Some(file) = &self.file {
            file.write(event);
        }
        let last = kept.last;
        drop(kept);
        self.last.send_modify(|known| *known = last.max(*known));
    }

    /// The events after the `after`th that are in memory, at most `limit`.
    pub fn part(&self, after: u64, limit: usize) -> Part {
        let kept = self.kept();
        let first = kept.events.front().map_or(kept.last + 1, |event| event.n);
        let skip = usize::try_from(after.saturating_sub(first - 1)).unwrap_or(usize::MAX);
        Part {
            events: kept.events.iter().skip(skip).take(limit).cloned().collect(),
            last: kept.last,
            missing: (first - 1).saturating_sub(after),
        }
    }

    /// The number of the last event.
    pub fn last(&self) -> u64 {
        self.kept().last
    }

    /// Changes whenever something has arrived.
    pub fn arrivals(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The event as it may be shown: without secrets, unless they were asked for.
    pub fn shown(&self, event: &Event) -> Event {
        if self.show_secrets { event.clone() } else { redact::redact(event) }
    }

    /// Returns when all that has arrived is in the file.
    pub fn flush(&self) {
        if let Some(file) = &self.file {
            file.flush();
        }
    }

    /// Finishes the file; what comes later is not taken in. Events of several processes, which arrive late, are put in the order of their times, as long
    /// as all are in memory.
    ///
    /// # Errors
    /// What could not be written, now or before.
    pub fn finish(&self) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut kept = self.kept();
        if std::mem::replace(&mut kept.finished, true) {
            return Ok(());
        }
        file.flush();
        let whole = kept.events.len() as u64 == kept.last;
        if whole && kept.latest.len() > 1 && !kept.events.iter().is_sorted_by_key(|event| event.at_us) {
            let mut sorted: Vec<Event> = kept.events.iter().map(|event| (**event).clone()).collect();
            sorted.sort_by_key(|event| event.at_us);
            for (n, event) in (1..).zip(&mut sorted) {
                event.n = n;
            }
            write_transcript(&file.path, &sorted, self.show_secrets).map_err(|e| file.trouble(&e))?;
        } else {
            let at_us = kept.events.back().map_or(0, |event| event.at_us);
            file.write(Arc::new(end(kept.last + 1, at_us)));
            file.flush();
        }
        match file.failed.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Log {
    fn event(&self, _: &str, incarnation: Option<u32>, monotonic_us: u64, what: What) {
        self.add(incarnation, monotonic_us, what);
    }
}

/// A file that grows with each event. A thread of its own writes it.
#[derive(Debug)]
struct TranscriptFile {
    path: PathBuf,
    queue: Sender<Job>,
    failed: Arc<Mutex<Option<String>>>,
}

#[derive(Debug)]
enum Job {
    Write(Arc<Event>),
    /// All before it is in the file when this is answered.
    Flush(Sender<()>),
}

impl TranscriptFile {
    fn create(path: &Path, show_secrets: bool) -> io::Result<Self> {
        // At the end it may be replaced as a whole.
        regular_or_absent(path)?;
        let file = std::fs::File::create(path)?;
        let (queue, jobs) = channel();
        let failed = Arc::new(Mutex::new(None));
        let this = Self { path: path.to_owned(), queue, failed: Arc::clone(&failed) };
        let name = path.to_owned();
        std::thread::Builder::new().name("transcript".into()).spawn(move || {
            write_all(&jobs, file, show_secrets, |e| {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert_with(|| trouble(&name, e));
            });
        })?;
        Ok(this)
    }

    fn write(&self, event: Arc<Event>) {
        let _ = self.queue.send(Job::Write(event));
    }

    fn flush(&self) {
        let (done, wait) = channel();
        if self.queue.send(Job::Flush(done)).is_ok() {
            let _ = wait.recv();
        }
    }

    fn trouble(&self, error: &io::Error) -> String {
        trouble(&self.path, error)
    }
}

fn trouble(path: &Path, error: &io::Error) -> String {
    format!("the transcript {} can't be written: {error}", path.display())
}

fn write_all(jobs: &Receiver<Job>, mut file: impl Write, show_secrets: bool, failed: impl Fn(&io::Error)) {
    let mut buffer = Vec::new();
    while let Ok(first) = jobs.recv() {
        let mut flushed = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next {
            match job {
                Job::Write(event) => {
                    let written = if show_secrets {
                        serde_json::to_writer(&mut buffer, &*event)
                    } else {
                        serde_json::to_writer(&mut buffer, &redact::redact(&event))
                    };
                    if let Err(error) = written {
                        failed(&error.into());
                    }
                    buffer.push(b'\n');
                }
                Job::Flush(done) => flushed.push(done),
            }
            next = if buffer.len() < 1 << 16 { jobs.try_recv().ok() } else { None };
        }
        if let Err(error) = file.write_all(&buffer) {
            failed(&error);
        }
        buffer.clear();
        for done in flushed {
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str) -> What {
        What::RuleFired { rule: name.to_owned() }
    }

    fn numbers(part: &Part) -> Vec<u64> {
        part.events.iter().map(|event| event.n).collect()
    }

    #[test]
    fn parts_are_what_was_asked_for_and_memory_has_an_end() {
        let log = Log::new("s", None, false).unwrap();
        assert_eq!((numbers(&log.part(0, 9)), log.last()), (vec![], 0));
        for _ in 0..3 {
            log.add(None, 0, rule("x"));
        }
        assert_eq!(numbers(&log.part(1, 9)), [2, 3]);
        assert_eq!(numbers(&log.part(0, 2)), [1, 2]);
        assert_eq!((numbers(&log.part(7, 9)), log.part(7, 9).missing), (vec![], 0));
        for _ in 0..MOST_EVENTS {
            log.add(None, 0, rule("x"));
        }
        let part = log.part(1, 1);
        assert_eq!((numbers(&part), part.missing, part.last), (vec![4], 2, MOST_EVENTS as u64 + 3));
        let body = "x".repeat(MOST_TEXT / 2);
        for _ in 0..3 {
            let what = sparring_wire::transcript::HttpRequest { body: body.clone(), ..Default::default() };
            log.add(None, 0, What::HttpRequest(what));
        }
        assert_eq!(log.part(0, usize::MAX).events.len(), 2, "texts count too");
    }

    #[test]
    fn the_file_is_numbered_by_arrival_and_sorted_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let log = Log::new("s", Some(&path), false).unwrap();
        let start = log.started_us;
        log.add(Some(1), start + 10, rule("first"));
        log.add(Some(2), start + 30, rule("third"));
        log.add(Some(1), start + 20, rule("second"));
        log.flush();
        let read = || -> Vec<(u64, String)> {
            let text = std::fs::read_to_string(&path).unwrap();
            let event = |line| serde_json::from_str::<Event>(line).unwrap();
            let name = |event: Event| match event.what {
                What::RuleFired { rule } => (event.n, rule),
                What::End => (event.n, "the end".into()),
                _ => (event.n, String::new()),
            };
            text.lines().map(|line| name(event(line))).collect()
        };
        let named =
            |names: [&str; 3]| -> Vec<(u64, String)> { (1..).zip(names.map(str::to_owned)).collect() };
        assert_eq!(read(), named(["first", "third", "second"]));
        log.finish().unwrap();
        log.add(Some(1), start + 40, rule("too late"));
        log.finish().unwrap();
        let mut finished = named(["first", "second", "third"]);
        finished.push((4, "the end".into()));
        assert_eq!(read(), finished);
    }
}
