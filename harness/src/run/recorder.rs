//! Collects what is observed in a case, and puts it in order.

use crate::driver::DriverEvents;
use crate::judge::redact;
use serde_json::Value;
use sparring_mock_servers::sink::{Sink, monotonic_us};
use sparring_wire::transcript::{Event, What};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// More events than this are no conversation but a flood; what comes after is dropped and the case is ended.
const MOST_EVENTS: usize = 200_000;
/// The same for the texts in them, in bytes.
const MOST_TEXT: usize = 512 << 20;

/// The events of one case, as they arrive from drivers, servers and side channels. Cheap to share; recording never
/// waits.
///
/// Events of scripted processes arrive late, so the order is that of their time stamps; but the events of one source
/// (one process, one HTTP server, or the harness with its driver) always keep the order in which they arrived.
#[derive(Debug)]
pub struct Recorder {
    started_us: u64,
    kept: Mutex<Kept>,
    /// How many have arrived.
    arrived: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Kept {
    events: Vec<Arrived>,
    /// The latest time stamp of each source.
    latest: HashMap<Source, u64>,
    text: usize,
    flooded: bool,
}

type Source = (Option<String>, Option<u32>);

#[derive(Debug)]
struct Arrived {
    at_us: u64,
    source: Source,
    what: What,
}

impl Recorder {
    /// The case starts now.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { started_us: monotonic_us(), kept: Mutex::default(), arrived: watch::Sender::new(0) })
    }

    /// CLOCK_MONOTONIC at the start of the case, in microseconds.
    pub const fn started_us(&self) -> u64 {
        self.started_us
    }

    /// Something that the harness or its driver saw just now.
    pub fn record(&self, what: What) {
        self.add(None, None, monotonic_us(), what);
    }

    /// Something of a server's, at a time of CLOCK_MONOTONIC.
    pub fn add(&self, server: Option<&str>, incarnation: Option<u32>, monotonic_us: u64, what: What) {
        let mut kept = self.kept();
        kept.text += text_of(&what);
        if kept.events.len() >= MOST_EVENTS || kept.text > MOST_TEXT {
            kept.flooded = true;
            // The harness's own events always find a place: they say how the case ended, and the harness makes few.
            if server.is_some() || matches!(what, What::ClientOutput { .. } | What::DriverEvent { .. }) {
                drop(kept);
                self.arrived.send_modify(|_| {});
                return;
            }
        }
        let source: Source = (server.map(str::to_owned), incarnation);
        let latest = kept.latest.entry(source.clone()).or_default();
        *latest = monotonic_us.max(*latest);
        let at_us = *latest;
        kept.events.push(Arrived { at_us, source, what });
        let count = kept.events.len();
        drop(kept);
        // Two threads may get here in the other order; the number only has to change.
        self.arrived.send_modify(|arrived| *arrived = count.max(*arrived));
    }

    /// Changes whenever something has arrived.
    pub fn arrivals(&self) -> watch::Receiver<usize> {
        self.arrived.subscribe()
    }

    /// Whether so much has arrived that the rest is dropped.
    pub fn is_flooded(&self) -> bool {
        self.kept().flooded
    }

    /// What arrived after the first `known` events, in the order of arrival and numbered by it.
    pub fn arrived_since(&self, known: usize) -> Vec<Event> {
        let kept = self.kept();
        let new = kept.events.iter().enumerate().skip(known);
        new.map(|(position, event)| self.event(position, event)).collect()
    }

    /// What has arrived so far, in order.
    pub fn transcript(&self) -> Vec<Event> {
        let kept = self.kept();
        let mut order: Vec<&Arrived> = kept.events.iter().collect();
        order.sort_by_key(|event| event.at_us);
        order.into_iter().enumerate().map(|(position, event)| self.event(position, event)).collect()
    }

    /// Waits until no server has a stream open any more.
    pub async fn streams_ended(&self) {
        // There is always a sender: this.
        let _ = self.arrivals().wait_for(|_| !self.has_open_stream()).await;
    }

    fn has_open_stream(&self) -> bool {
        let mut open = HashSet::new();
        for event in &self.kept().events {
            match &event.what {
                What::HttpResponse(response) if response.body.is_none() => {
                    open.insert(response.exchange);
                }
                What::StreamEnded { exchange, .. } | What::ResponseBroken { exchange, .. } => {
                    open.remove(exchange);
                }
                _ => {}
            }
        }
        !open.is_empty()
    }

    fn event(&self, position: usize, event: &Arrived) -> Event {
        Event {
            n: u64::try_from(position).unwrap_or(u64::MAX).saturating_add(1),
            at_us: event.at_us.saturating_sub(self.started_us),
            server: event.source.0.clone(),
            incarnation: event.source.1,
            what: event.what.clone(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while holding it; and if it did, a half-recorded case is better than none.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of text that a peer can make grow.
pub(crate) fn text_of(what: &What) -> usize {
    match what {
        What::Line(line) => line.text.len(),
        What::HttpRequest(request) => {
            request.body.len()
                + request.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        }
        What::HttpResponse(response) => response.body.as_ref().map_or(0, String::len),
        What::StreamEvent(event) => event.data.as_ref().map_or(0, String::len),
        What::ClientOutput { text, .. } => text.len(),
        _ => 0,
    }
}

impl Sink for Recorder {
    fn event(&self, server: &str, incarnation: Option<u32>, monotonic_us: u64, what: What) {
        self.add(Some(server), incarnation, monotonic_us, what);
    }
}

impl DriverEvents for Recorder {
    fn driver_event(&self, name: &str, data: Value) {
        self.record(What::DriverEvent { name: name.to_owned(), data });
    }

    fn output(&self, stream: &str, text: &str) {
        self.record(What::ClientOutput { stream: stream.to_owned(), text: text.to_owned() });
    }

    fn client_started(&self, pid: u32, argv: &[String]) {
        self.record(What::ClientStarted { pid, argv: argv.to_vec() });
    }

    fn client_ended(&self, code: Option<i32>, signal: Option<&str>, expected: bool) {
        self.record(What::ClientEnded { code, signal: signal.map(str::to_owned), expected });
    }
}

/// Writes a transcript as JSON Lines: whole or not at all, by a temporary file beside it, with [`What::End`] as its last
/// line. Secrets are redacted unless asked not to.
///
/// # Errors
/// The system's; nothing is left behind then.
pub fn write_transcript(path: &Path, events: &[Event], unredacted: bool) -> io::Result<()> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let file = tempfile::Builder::new().prefix(".transcript-").tempfile_in(folder)?;
    let mut out = io::BufWriter::with_capacity(1 << 16, file);
    write_lines(&mut out, events, unredacted)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

/// The last line of a transcript.
pub(crate) const fn end(n: u64, at_us: u64) -> Event {
    Event { n, at_us, server: None, incarnation: None, what: What::End }
}

fn write_lines(out: &mut impl Write, events: &[Event], unredacted: bool) -> io::Result<()> {
    for event in events {
        if unredacted {
            serde_json::to_writer(&mut *out, event)?;
        } else {
            serde_json::to_writer(&mut *out, &redact::redact(event))?;
        }
        out.write_all(b"\n")?;
    }
    let (n, at_us) = events.last().map_or((0, 0), |event| (event.n, event.at_us));
    serde_json::to_writer(&mut *out, &end(n + 1, at_us))?;
    out.write_all(b"\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(name: &str) -> What {
        What::RuleFired { rule: name.to_owned() }
    }

    fn names(events: &[Event]) -> Vec<&str> {
        events
            .iter()
            .map(|event| match &event.what {
                What::RuleFired { rule } => rule.as_str(),
                _ => "?",
            })
            .collect()
    }

    #[test]
    fn late_arrivals_are_put_where_they_belong() {
        let recorder = Recorder::new();
        let start = recorder.started_us();
        recorder.add(None, None, start + 10, rule("first"));
        recorder.add(None, None, start + 30, rule("third"));
        recorder.add(Some("a"), Some(1), start + 20, rule("second"));
        recorder.add(Some("a"), Some(1), start + 30, rule("fourth"));
        let events = recorder.transcript();
        assert_eq!(names(&events), ["first", "second", "third", "fourth"]);
        assert_eq!(events.iter().map(|e| e.n).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(events.iter().map(|e| e.at_us).collect::<Vec<_>>(), [10, 20, 30, 30]);
        assert_eq!((events[1].server.as_deref(), events[1].incarnation), (Some("a"), Some(1)));
    }

    #[test]
    fn one_source_keeps_its_order_even_if_its_stamps_do_not() {
        let recorder = Recorder::new();
        let start = recorder.started_us();
        recorder.add(Some("a"), None, start + 20, rule("a1"));
        recorder.add(Some("a"), None, start + 5, rule("a2"));
        recorder.add(Some("b"), None, start + 10, rule("b1"));
        assert_eq!(names(&recorder.transcript()), ["b1", "a1", "a2"]);
    }

    proptest! {
        #[test]
        fn sources_keep_their_order_and_times_never_go_back(stamps in prop::collection::vec((0u32..3, 0u64..50), 0..40)) {
            let recorder = Recorder::new();
            for (position, (source, at)) in stamps.iter().enumerate() {
                recorder.add(Some("s"), Some(*source), recorder.started_us() + at, rule(&position.to_string()));
            }
            let events = recorder.transcript();
            prop_assert_eq!(events.len(), stamps.len());
            prop_assert!(events.is_sorted_by_key(|event| event.at_us));
            for source in 0..3 {
                let of_source: Vec<usize> = events.iter().filter(|e| e.incarnation == Some(source))
                    .map(|event| names(std::slice::from_ref(event))[0].parse().unwrap()).collect();
                prop_assert!(of_source.is_sorted());
            }
        }
    }

    #[test]
    fn a_flood_is_cut_and_the_harness_still_has_its_say() {
        let recorder = Recorder::new();
        for _ in 0..=MOST_EVENTS {
            recorder.add(Some("a"), None, 0, What::StdinClosed);
        }
        assert!(recorder.is_flooded());
        recorder.record(What::Deadline { awaited: "the end".into() });
        let events = recorder.transcript();
        assert_eq!(events.len(), MOST_EVENTS + 1);
        assert!(matches!(events.last().unwrap().what, What::Deadline { .. }));
    }

    #[test]
    fn a_transcript_on_disk_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let recorder = Recorder::new();
        recorder.record(rule("x"));
        recorder.output("stderr", "two\nlines");
        let events = recorder.transcript();
        write_transcript(&path, &events, true).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut back: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let end = back.pop().unwrap();
        assert_eq!((end.n, end.what), (3, What::End));
        assert_eq!(back, events);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn secrets_are_written_only_if_asked_for() {
        let request = sparring_wire::transcript::HttpRequest {
            headers: vec![("authorization".into(), "Bearer very-secret".into())],
            ..Default::default()
        };
        let recorder = Recorder::new();
        recorder.add(Some("server"), None, 1, What::HttpRequest(request));
        let written = |unredacted| {
            let mut out = Vec::new();
            write_lines(&mut out, &recorder.transcript(), unredacted).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!written(false).contains("very-secret"));
        assert!(written(true).contains("very-secret"));
    }

    #[test]
    fn a_folder_that_is_none_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(write_transcript(&file.path().join("t.jsonl"), &[], false).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let mut full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let recorder = Recorder::new();
        recorder.record(rule("x"));
        let error = write_lines(&mut full, &recorder.transcript(), false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
