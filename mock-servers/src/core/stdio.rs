//! Lines in and out of a stdio server.

use super::era::Peer;
use super::{Broken, Effect, Out, Scope, ServerCore, Then, broken};
use crate::script::{Action, Trigger};
use sparring_wire::framing::Line;
use sparring_wire::jsonrpc::{self, Envelope, Inspected};
use sparring_wire::transcript::{Direction, LineSeen, Party, What};
use std::collections::BTreeMap;
use std::time::Duration;

/// Between the pieces of a message; without it the pipe puts them together again.
const PIECE_GAP: Duration = Duration::from_millis(1);

/// What a stdio server keeps; `initialized` serves HTTP without sessions as well.
#[derive(Debug, Default)]
pub(super) struct StdioState {
    pub(super) initialized: bool,
    pub(super) peer: Peer,
    pub(super) stdout_closed: bool,
    pub(super) next: Presentation,
    kept_back: Vec<u8>,
    keep_back: u32,
    batches: BTreeMap<u64, Batch>,
    next_batch: u64,
}

/// How the next message is written.
#[derive(Debug, Default)]
pub(super) struct Presentation {
    pub(super) split_every: Option<u32>,
    pub(super) crlf: bool,
    pub(super) byte_order_mark: bool,
    pub(super) invalid_utf8: bool,
}

/// The answers to a batch, gathered.
#[derive(Debug, Default)]
struct Batch {
    open: usize,
    answers: Vec<Out>,
}

impl ServerCore {
    pub(super) fn line(&mut self, line: &Line) {
        let (text, invalid_utf8) = line.text();
        self.observe(What::Line(LineSeen {
            direction: Direction::Received,
            text: text.clone(),
            invalid_utf8,
            carriage_return: line.carriage_return,
            unterminated: !line.terminated,
            scripted_fault: false,
        }));
        // A blank line is no message; servers skip it.
        if text.trim().is_empty() {
            return;
        }
        let message = jsonrpc::inspect_bytes(&line.bytes);
        match &message.envelope {
            Envelope::Batch(members)
                if self.revision_of(None, &Scope::default()).has_batching() && !members.is_empty() =>
            {
                self.stdio.next_batch += 1;
                let number = self.stdio.next_batch;
                // One more than there are members, so that it stays open until all have been dealt with.
                self.stdio.batches.insert(number, Batch { open: members.len() + 1, answers: Vec::new() });
                for member in members {
                    self.member(member, number);
                }
                self.leave_batch(number);
            }
            Envelope::Batch(_) => {
                let broken = Broken {
                    code: jsonrpc::codes::INVALID_REQUEST,
                    message: "this revision has no batches".into(),
                    id: None,
                    response: false,
                };
                self.refuse(&broken, None);
            }
            _ => match broken(&message) {
                Some(broken) => self.refuse(&broken, None),
                None => self.message(&message, Scope::default()),
            },
        }
    }

    fn member(&mut self, member: &Inspected, batch: u64) {
        match broken(member) {
            Some(broken) => {
                self.refuse(&broken, Some(batch));
                self.leave_batch(batch);
            }
            None if matches!(member.envelope, Envelope::Batch(_)) => self.leave_batch(batch),
            None => self.message(member, Scope { batch: Some(batch), ..Scope::default() }),
        }
    }

    fn refuse(&mut self, broken: &Broken, batch: Option<u64>) {
        if broken.response {
            return;
        }
        if let Some(answer) = self.broken_answer(broken) {
            self.stdio_send(Out::answer(&answer, false), batch);
        }
    }

    /// One member of a batch is through; after the last, the answers go out together.
    pub(super) fn leave_batch(&mut self, number: u64) {
        let Some(batch) = self.stdio.batches.get_mut(&number) else { return };
        batch.open = batch.open.saturating_sub(1);
        if batch.open == 0
            && let Some(batch) = self.stdio.batches.remove(&number)
            && !batch.answers.is_empty()
        {
            self.stdio_send(gather(&batch.answers), None);
        }
    }

    /// Sends a message, or adds it to its batch.
    pub(super) fn stdio_send(&mut self, out: Out, batch: Option<u64>) {
        if out.answer
            && let Some(batch) = batch.and_then(|b| self.stdio.batches.get_mut(&b))
        {
            batch.answers.push(out);
            return;
        }
        if self.stdio.stdout_closed {
            return;
        }
        let style = std::mem::take(&mut self.stdio.next);
        let mut bytes = Vec::with_capacity(out.text.len() + 8);
        if style.byte_order_mark {
            bytes.extend_from_slice(b"\xef\xbb\xbf");
        }
        bytes.extend_from_slice(out.text.as_bytes());
        if style.invalid_utf8 {
            // Inside the text, between two characters.
            let mut middle = bytes.len() / 2;
            while bytes.get(middle).is_some_and(|b| b & 0xc0 == 0x80) {
                middle += 1;
            }
            bytes.insert(middle, 0xff);
        }
        self.observe(What::Line(LineSeen {
            direction: Direction::Sent,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            invalid_utf8: style.invalid_utf8,
            carriage_return: style.crlf,
            unterminated: false,
            scripted_fault: out.fault || style.byte_order_mark || style.invalid_utf8,
        }));
        bytes.extend_from_slice(if style.crlf { b"\r\n" } else { b"\n" });
        if self.stdio.keep_back > 0 {
            self.stdio.keep_back -= 1;
            self.stdio.kept_back.append(&mut bytes);
            return;
        }
        if !self.stdio.kept_back.is_empty() {
            let mut all = std::mem::take(&mut self.stdio.kept_back);
            all.append(&mut bytes);
            bytes = all;
        }
        match style.split_every {
            Some(size) => {
                for piece in bytes.chunks(usize::try_from(size).unwrap_or(usize::MAX).max(1)) {
                    self.effect(Effect::Write(piece.to_vec()));
                    self.effect(Effect::Pause(PIECE_GAP));
                }
            }
            None => self.effect(Effect::Write(bytes)),
        }
    }

    pub(super) fn act_stdio(&mut self, action: Action) {
        match action {
            Action::Stdout(text) => self.noise(&text),
            Action::StderrBytes(bytes) => {
                self.effect(Effect::Stderr(bytes));
                self.observe(What::Stderr { bytes });
            }
            Action::SplitEvery(size) => self.stdio.next.split_every = Some(size),
            Action::MergeNext(count) => self.merge_next(count),
            Action::Crlf => self.stdio.next.crlf = true,
            Action::ByteOrderMark => self.stdio.next.byte_order_mark = true,
            Action::InvalidUtf8 => self.stdio.next.invalid_utf8 = true,
            Action::CloseStdout => self.close_stdout(),
            Action::Exit(code) => {
                self.observe(What::ProcessExiting { code: Some(code), signal: None });
                self.effect(Effect::Exit(code));
            }
            Action::Die(signal) => {
                self.observe(What::ProcessExiting { code: None, signal: Some(signal.clone()) });
                self.effect(Effect::Die(signal));
            }
            Action::StopReading => self.effect(Effect::StopReading),
            _ => {}
        }
    }

    /// Keeps the next `count` messages back.
    pub(super) fn merge_next(&mut self, count: u32) {
        self.stdio.keep_back = self.stdio.keep_back.saturating_add(count);
    }

    /// Writes text to stdout as it is, with a newline.
    pub(super) fn noise(&mut self, text: &str) {
        if self.stdio.stdout_closed {
            return;
        }
        for line in text.split('\n') {
            let (line, carriage_return) = match line.strip_suffix('\r') {
                Some(line) => (line, true),
                None => (line, false),
            };
            self.observe(What::Line(LineSeen {
                direction: Direction::Sent,
                text: line.to_owned(),
                invalid_utf8: false,
                carriage_return,
                unterminated: false,
                scripted_fault: !jsonrpc::inspect(line).is_valid(),
            }));
        }
        self.effect(Effect::Write(format!("{text}\n").into_bytes()));
    }

    pub(super) fn close_stdout(&mut self) {
        if !std::mem::replace(&mut self.stdio.stdout_closed, true) {
            self.flush();
            self.effect(Effect::CloseStdout);
            self.observe(What::StdoutClosed { by: Party::Server });
        }
    }

    /// A write to stdout failed: the client has closed it. Whether that is news.
    pub fn stdout_lost(&mut self) -> bool {
        !std::mem::replace(&mut self.stdio.stdout_closed, true)
    }

    pub(super) fn eof(&mut self) {
        self.observe(What::StdinClosed);
        let then = if self.script.process.ignore_eof { Then::Nothing } else { Then::Exit(0) };
        self.event(&Trigger::Eof, None, Scope::default(), None, then);
    }

    pub(super) fn signal(&mut self, name: &str) {
        let code = match name {
            "SIGHUP" => 129,
            "SIGINT" => 130,
            _ => 143,
        };
        if name != "SIGTERM" {
            self.exit(code);
            return;
        }
        let then = if self.script.process.ignore_sigterm { Then::Nothing } else { Then::Exit(code) };
        self.event(&Trigger::Sigterm, None, Scope::default(), None, then);
    }

    /// Ends the process in an orderly way: what was kept back goes out first.
    pub(super) fn exit(&mut self, code: i32) {
        self.flush();
        self.observe(What::ProcessExiting { code: Some(code), signal: None });
        self.effect(Effect::Exit(code));
    }

    fn flush(&mut self) {
        let kept = std::mem::take(&mut self.stdio.kept_back);
        if !kept.is_empty() {
            self.effect(Effect::Write(kept));
        }
    }
}

/// Answers as one batch.
pub(super) fn gather(answers: &[Out]) -> Out {
    let texts: Vec<&str> = answers.iter().map(|a| a.text.as_str()).collect();
    Out {
        text: format!("[{}]", texts.join(",")),
        fault: answers.iter().any(|a| a.fault),
        answer: true,
        error: false,
        status: None,
    }
}
