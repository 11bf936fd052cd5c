//! The process that writes the transcript of a stdio server.
//!
//! Clients often end their servers by SIGKILL, and the recorder stands in the server's place. So the writing is done by
//! this same executable, executed again, in a process group of its own: it gets all that was seen through a pipe,
//! finishes the transcript when the recorder is gone, and ends the server if the recorder could not.
//!
//! On the pipe: frames of one byte that says what it is, the time in CLOCK_MONOTONIC microseconds and the length of what
//! follows (8 bytes each, least first), and that. The first frame is a `Begin`; the last one is `Kind::Bye`, unless
//! the recorder was killed.

use super::MAX_KEPT;
use super::journal::{Journal, Settings};
use crate::platform::{Force, end, end_group, ignore_polite_signals, leave_session, own_group};
use serde::{Deserialize, Serialize};
use sparring_mock_servers::sink::monotonic_us;
use sparring_wire::framing::{Line, Lines};
use sparring_wire::transcript::{Direction, LineSeen, What};
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

/// The private first argument that makes this executable a scribe.
const ARGUMENT: &str = "__sparring-scribe";

/// The first thing that a scribe is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    pub(super) path: PathBuf,
    pub(super) server: String,
    pub(super) show_secrets: bool,
    /// The server's process id, which is also that of its group.
    pub(super) pid: u32,
    /// Whether the whole group is ended if the recorder is killed.
    pub(super) whole_group: bool,
    /// The server as it was started.
    pub(super) started: What,
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A [`Begin`].
    Begin,
    /// Bytes of the client's.
    Received,
    /// Bytes of the server's.
    Sent,
    /// The client's stream is over.
    StdinEnd,
    /// The server's stream is over.
    StdoutEnd,
    /// Any other event, as JSON.
    Event,
    /// Nothing follows: the server is gone.
    Bye,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Begin, Self::Received, Self::Sent, Self::StdinEnd, Self::StdoutEnd, Self::Event, Self::Bye];

    fn byte(self) -> u8 {
        Self::ALL.iter().position(|kind| *kind == self).map_or(u8::MAX, |at| at.to_le_bytes()[0])
    }
}

/// Something seen, with its time.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

impl Frame {
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut head = [0; 17];
        head[0] = self.kind.byte();
        head[1..9].copy_from_slice(&self.at.to_le_bytes());
        head[9..].copy_from_slice(&(self.bytes.len() as u64).to_le_bytes());
        to.write_all(&head)?;
        to.write_all(&self.bytes)
    }

    /// The next frame; `None` at the end of the stream, also within a frame.
    fn read(from: &mut impl Read) -> Option<Self> {
        let mut head = [0; 17];
        from.read_exact(&mut head).ok()?;
        let number =
            |from: usize| head.get(from..from + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        let kind = *Kind::ALL.get(usize::from(head[0]))?;
        let (at, length) = (number(1)?, number(9)?);
        let mut bytes = Vec::new();
        let count = from.take(length).read_to_end(&mut bytes).ok()?;
        (count as u64 == length).then_some(Self { kind, at, bytes })
    }
}

/// Starts a scribe; frames go to its stdin.
///
/// # Errors
/// The system's.
pub(super) fn start() -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    // Nothing of the client's must be kept open by it.
    command.arg(ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    own_group(&mut command);
    command.spawn()
}

/// Does a scribe's work if this process was started as one; the caller then ends with the exit code. To be called
/// first thing in `main`.
pub fn run_if_scribe() -> Option<ExitCode> {
    (std::env::args_os().nth(1)? == ARGUMENT).then(|| {
        leave_session();
        ignore_polite_signals();
        match follow(BufReader::with_capacity(1 << 16, io::stdin().lock())) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        }
    })
}

/// Writes what comes until the end. If that can't be done any more the pipe closes, and the recorder sees it.
fn follow(mut from: BufReader<impl Read>) -> io::Result<()> {
    let Some(Frame { kind: Kind::Begin, at, bytes }) = Frame::read(&mut from) else { return Ok(()) };
    let begin: Begin = serde_json::from_slice(&bytes)?;
    let settings = Settings { path: begin.path, server: begin.server, show_secrets: begin.show_secrets };
    let (pid, whole_group) = (begin.pid, begin.whole_group);
    let mut seen = Reader::default();
    seen.events.push((at, begin.started));
    let mut journal = Journal::begin(settings, at, true, None)?;
    loop {
        let Some(frame) = Frame::read(&mut from) else {
            match whole_group {
                true => end_group(pid, Force::Kill),
                false => end(pid, Force::Kill),
            }
            seen.killed(pid);
            break;
        };
        if frame.kind == Kind::Bye {
            seen.events.push((frame.at, What::End));
            break;
        }
        seen.take(frame);
        if from.buffer().is_empty() {
            journal.append(seen.events.drain(..))?;
        }
    }
    journal.append(seen.events)
}

/// Makes events of frames.
#[derive(Default)]
struct Reader {
    received: Stream,
    sent: Stream,
    /// The server's stdout has ended. Most often its process ends with it; only if something else happens before that
    /// is it worth an event.
    stdout_ended: Option<u64>,
    events: Vec<(u64, What)>,
}

impl Reader {
    fn take(&mut self, frame: Frame) {
        let at = frame.at;
        let event = match frame.kind {
            Kind::Event => serde_json::from_slice::<What>(&frame.bytes).ok(),
            _ => None,
        };
        if matches!(event, Some(What::ProcessExiting { .. })) {
            self.stdout_ended = None;
        } else if frame.kind != Kind::StdoutEnd {
            self.stdout_is_closed();
        }
        match frame.kind {
            Kind::Received => self.received.push(Direction::Received, at, &frame.bytes, &mut self.events),
            Kind::Sent => self.sent.push(Direction::Sent, at, &frame.bytes, &mut self.events),
            Kind::StdinEnd => {
                self.received.finish(Direction::Received, at, &mut self.events);
                self.events.push((at, What::StdinClosed));
            }
            Kind::StdoutEnd => {
                self.sent.finish(Direction::Sent, at, &mut self.events);
                self.stdout_ended = Some(at);
            }
            Kind::Event => self.events.extend(event.map(|what| (at, what))),
            Kind::Begin | Kind::Bye => {}
        }
    }

    fn stdout_is_closed(&mut self) {
        if let Some(at) = self.stdout_ended.take() {
            let by = sparring_wire::transcript::Party::Server;
            self.events.push((at, What::StdoutClosed { by }));
        }
    }

    /// The recorder is gone without a word, and the server with it.
    fn killed(&mut self, pid: u32) {
        let now = monotonic_us();
        self.stdout_is_closed();
        self.received.finish(Direction::Received, now, &mut self.events);
        self.sent.finish(Direction::Sent, now, &mut self.events);
        self.events.push((now, What::SignalReceived { signal: "SIGKILL".to_owned() }));
        self.events.push((now, What::ProcessEnded { pid }));
        self.events.push((now, What::End));
    }
}

/// One direction.
struct Stream {
    lines: Lines,
    /// In a line that is too long to be kept.
    skipping: bool,
}

impl Default for Stream {
    fn default() -> Self {
        Self { lines: Lines::new(MAX_KEPT), skipping: false }
    }
}

impl Stream {
    fn push(&mut self, direction: Direction, at: u64, mut bytes: &[u8], events: &mut Vec<(u64, What)>) {
        if self.skipping {
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
            self.skipping = false;
            bytes = bytes.get(end + 1..).unwrap_or_default();
        }
        self.lines.push(bytes);
        loop {
            match self.lines.next_line() {
                Ok(Some(line)) => events.push((at, seen(direction, &line))),
                Ok(None) => break,
                Err(_) => {
                    self.lines = Lines::new(MAX_KEPT);
                    let end = bytes.iter().rposition(|byte| *byte == b'\n');
                    self.skipping = end.is_none();
                    self.lines.push(end.and_then(|end| bytes.get(end + 1..)).unwrap_or_default());
                    let message =
                        format!("a line is longer than {MAX_KEPT} bytes: it was passed on, but not kept");
                    events.push((at, What::HarnessError { message }));
                }
            }
        }
    }

    fn finish(&mut self, direction: Direction, at: u64, events: &mut Vec<(u64, What)>) {
        if let Some(line) = self.lines.finish() {
            events.push((at, seen(direction, &line)));
        }
    }
}

fn seen(direction: Direction, line: &Line) -> What {
    let (text, invalid_utf8) = line.text();
    What::Line(LineSeen {
        direction,
        text,
        invalid_utf8,
        carriage_return: line.carriage_return,
        unterminated: !line.terminated,
        scripted_fault: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_a_cut_one_is_the_end() {
        let mut bytes = Vec::new();
        for kind in Kind::ALL {
            Frame { kind, at: 7, bytes: vec![kind.byte(); 300] }.write(&mut bytes).unwrap();
        }
        let mut from = &bytes[..];
        for kind in Kind::ALL {
            let frame = Frame::read(&mut from).unwrap();
            assert_eq!((frame.kind, frame.at, frame.bytes.len()), (kind, 7, 300));
        }
        assert!(Frame::read(&mut from).is_none());
        for cut in [1, 16, 17, 316] {
            assert!(Frame::read(&mut &bytes[..cut]).is_none(), "{cut}");
        }
        // A length that no memory has is the end too.
        let mut huge = bytes;
        huge[9..17].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Frame::read(&mut &huge[..]).is_none());
    }

    fn kinds(frames: &[(Kind, &[u8])]) -> Vec<String> {
        let mut reader = Reader::default();
        for (at, (kind, bytes)) in (1..).zip(frames) {
            reader.take(Frame { kind: *kind, at, bytes: bytes.to_vec() });
        }
        reader
            .events
            .iter()
            .map(|(at, what)| match what {
                What::Line(line) => format!("{at} {:?} {:?}", line.direction, line.text),
                what => format!("{at} {}", serde_json::to_value(what).unwrap()["kind"].as_str().unwrap()),
            })
            .collect()
    }

    #[test]
    fn lines_are_put_together_and_the_end_of_stdout_counts_if_the_server_lives_on() {
        let exit = br#"{"kind":"process-exiting","code":0,"signal":null}"#;
        let ended = [
            (Kind::Received, &b"a"[..]),
            (Kind::Sent, b"x\r\ny"),
            (Kind::Received, b"b\n"),
            (Kind::StdinEnd, b""),
            (Kind::StdoutEnd, b""),
            (Kind::Event, exit),
        ];
        assert_eq!(
            kinds(&ended),
            ["2 Sent \"x\"", "3 Received \"ab\"", "4 stdin-closed", "5 Sent \"y\"", "6 process-exiting"]
        );
        let goes_on = [(Kind::StdoutEnd, &b""[..]), (Kind::Received, b"a\n"), (Kind::Event, exit)];
        assert_eq!(kinds(&goes_on), ["1 stdout-closed", "2 Received \"a\"", "3 process-exiting"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_noted_and_the_next_one_is_kept() {
        let long = vec![b'x'; MAX_KEPT + 1];
        let all = kinds(&[(Kind::Sent, &long), (Kind::Sent, b"xx"), (Kind::Sent, b"x\nnext\n")]);
        assert_eq!(all, ["1 harness-error", "3 Sent \"next\""]);
    }
}
