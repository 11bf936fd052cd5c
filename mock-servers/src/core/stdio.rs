//! Lines in and out of a stdio server, and its process.

mod output;

use super::era::Peer;
use super::{Broken, Effect, Out, Scope, ServerCore, Then, broken};
use crate::script::{Action, After, Death, Ending, ServerScript, Trigger};
use output::Output;
use sparring_wire::framing::Line;
use sparring_wire::jsonrpc::{self, Envelope, Inspected};
use sparring_wire::transcript::{Direction, LineSeen, What};
use std::collections::BTreeMap;
use std::time::Duration;

/// The timer of a process that lingers; tasks never get there.
pub(super) const END_TIMER: u64 = u64::MAX;

/// What a stdio server keeps; `initialized` serves HTTP without sessions as well.
#[derive(Debug, Default)]
pub(super) struct StdioState {
    pub(super) initialized: bool,
    pub(super) peer: Peer,
    pub(super) output: Output,
    /// Lines are not reported.
    quiet: bool,
    batches: BTreeMap<u64, Batch>,
    next_batch: u64,
    /// Messages read and written so far, for deaths by count.
    received: u32,
    sent: u32,
    /// The next orderly end is to come this much later.
    linger: Option<Duration>,
    /// The code of the end that comes when [`END_TIMER`] expires.
    ending: Option<i32>,
}

/// The answers to a batch, gathered.
#[derive(Debug, Default)]
struct Batch {
    open: usize,
    answers: Vec<Out>,
}

impl ServerCore {
    /// From now on lines are not reported: for measurements, where nobody looks at them.
    pub const fn be_quiet(&mut self) {
        self.stdio.quiet = true;
    }

    pub(super) fn line(&mut self, line: &Line) {
        let blank = std::str::from_utf8(&line.bytes).is_ok_and(|text| text.trim().is_empty());
        if !self.stdio.quiet {
            let (text, invalid_utf8) = line.text();
            self.observe(What::Line(LineSeen {
                direction: Direction::Received,
                text,
                invalid_utf8,
                carriage_return: line.carriage_return,
                unterminated: !line.terminated,
                scripted_fault: false,
            }));
        }
        // A blank line is no message; servers skip it.
        if blank {
            return;
        }
        self.stdio.received = self.stdio.received.saturating_add(1);
        if self.dies(After::Received(self.stdio.received)) {
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
        if self.write_message(out) {
            self.stdio.sent = self.stdio.sent.saturating_add(1);
            self.dies(After::Sent(self.stdio.sent));
        }
    }

    pub(super) fn act_stdio(&mut self, action: Action) {
        match action {
            Action::Stderr(text) => {
                let bytes = text.len() as u64;
                self.effect(Effect::StderrText(text));
                self.observe(What::Stderr { bytes });
            }
            Action::StderrBytes(bytes) => {
                self.effect(Effect::Stderr(bytes));
                self.observe(What::Stderr { bytes });
            }
            Action::CloseStdout => self.close_stdout(),
            Action::CloseStderr => self.effect(Effect::CloseStderr),
            Action::CloseStdin => self.effect(Effect::CloseStdin),
            Action::StopReading => self.effect(Effect::StopReading { after: 0 }),
            Action::StopReadingAfter(after) => self.effect(Effect::StopReading { after }),
            Action::ResumeReading => self.effect(Effect::StartReading),
            Action::Exit(code) => self.exit_now(code),
            Action::Die(signal) => self.fall(signal.as_str()),
            other => self.act_output(other),
        }
    }

    /// The process has started and may read; whether it lives.
    pub(super) fn stdio_started(&mut self) -> bool {
        if self.dies(After::Start) {
            return false;
        }
        self.effect(Effect::StartReading);
        true
    }

    pub(super) fn start_descendants(&mut self) {
        for index in 0..self.script.process.all_descendants().count() {
            self.effect(Effect::StartDescendant(index));
        }
    }

    /// Dies, if this is a moment to die at.
    fn dies(&mut self, now: After) -> bool {
        if self.script.process.deaths.is_empty() {
            return false;
        }
        let due = |death: &&Death| {
            death.after == now && death.incarnation.is_none_or(|n| self.incarnation == Some(n))
        };
        let Some(death) = self.script.process.deaths.iter().find(due).cloned() else { return false };
        if let Some(text) = death.stderr {
            self.act_stdio(Action::Stderr(text));
        }
        match death.signal {
            Some(signal) => self.fall(signal.as_str()),
            None => self.exit_now(death.code),
        }
        true
    }

    /// Exits at once; what was kept back is lost.
    fn exit_now(&mut self, code: i32) {
        self.observe(What::ProcessExiting { code: Some(code), signal: None });
        self.effect(Effect::Exit(code));
    }

    fn fall(&mut self, signal: &str) {
        self.observe(What::ProcessExiting { code: None, signal: Some(signal.to_owned()) });
        self.effect(Effect::Die(signal.to_owned()));
    }

    pub(super) fn eof(&mut self) {
        self.observe(What::StdinClosed);
        let then = if self.script.process.ignore_eof {
            Then::Nothing
        } else {
            self.ends(self.script.process.at_eof, 0)
        };
        self.event(&Trigger::Eof, None, Scope::default(), None, then);
    }

    pub(super) fn signal(&mut self, name: &str) {
        let (ignored, ending, code) = self.at_signal(name);
        let then = if ignored { Then::Nothing } else { self.ends(ending, code) };
        match then {
            then if name == "SIGTERM" => {
                self.event(&Trigger::Sigterm, None, Scope::default(), None, then);
            }
            Then::Exit(code) => self.exit(code),
            _ => {}
        }
    }

    /// Whether a signal is ignored, what the script says about its ending, and the usual code.
    fn at_signal(&self, name: &str) -> (bool, Ending, i32) {
        let process = &self.script.process;
        match name {
            "SIGHUP" => (process.ignore_sighup, process.at_sighup, 129),
            "SIGINT" => (process.ignore_sigint, process.at_sigint, 130),
            _ => (process.ignore_sigterm, process.at_sigterm, 143),
        }
    }

    /// The script.
    pub fn script(&self) -> &ServerScript {
        &self.script
    }

    /// If this signal ends the process without a rule's having a say: with which code, and after which time. The shell
    /// then need not wait for the core, which may be stuck in a write that the client never reads.
    pub fn unscripted_ending(&self, name: &str) -> Option<(i32, Duration)> {
        let (ignored, ending, code) = self.at_signal(name);
        let ruled = name == "SIGTERM" && self.script.rules.iter().any(|rule| rule.on.has(&Trigger::Sigterm));
        (!ignored && !ruled).then(|| (ending.code.unwrap_or(code), Duration::from_millis(ending.after_ms)))
    }

    fn ends(&mut self, ending: Ending, code: i32) -> Then {
        self.stdio.linger = (ending.after_ms > 0).then(|| Duration::from_millis(ending.after_ms));
        Then::Exit(ending.code.unwrap_or(code))
    }

    /// Ends the process in an orderly way: what was kept back goes out first.
    pub(super) fn exit(&mut self, code: i32) {
        if let Some(after) = self.stdio.linger.take() {
            self.stdio.ending.get_or_insert(code);
            return self.effect(Effect::Timer { id: END_TIMER, after });
        }
        self.flush();
        self.exit_now(code);
    }

    /// The time of a process that was asked to end is up.
    pub(super) fn linger_is_over(&mut self) {
        if let Some(code) = self.stdio.ending.take() {
            self.flush();
            self.exit_now(code);
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
