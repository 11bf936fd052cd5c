//! The supervisor: a process between the harness and a client under test, which outlives neither.
//!
//! A client is not started directly but by the running executable, executed again. That process adopts whatever the
//! client leaves behind (on Linux as a subreaper), so nothing escapes by forking twice or by `setsid`; and it holds a
//! loopback connection to the harness, so that it sees the harness die, of whatever cause, and then ends everything.
//! stdin, stdout and stderr are inherited by the client as they are; no byte of them passes through here.
//!
//! Over the connection, one JSON object a line: first the token, then reports; from the harness any byte, or the
//! end of the stream, means "stop".

use crate::adapter_main;
use crate::platform::{self, Force, Process, Reaped};
use crate::run::{PRIVATE_PREFIX, directory};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The private first argument that makes this executable a supervisor.
pub(crate) const ARGUMENT: &str = "__sparring-supervise";

/// How long the processes that are left when the client has ended may take to react to SIGTERM.
const LEFTOVERS_ASKED: Duration = Duration::from_millis(300);
/// How long to go on with SIGKILL; only a process in an uninterruptible system call survives that.
const LEFTOVERS_KILLED: Duration = Duration::from_secs(5);

/// How patient a supervisor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From the harness's SIGTERM to its SIGKILL.
    pub term: Duration,
    /// How long the client's descendants may outlive it before they count as escaped.
    pub linger: Duration,
}

/// What a supervisor reports, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Report {
    /// The client runs.
    Started {
        /// Its process id, also that of its process group.
        pid: u32,
    },
    /// It can't be started; nothing follows.
    Failed {
        /// The system's words.
        why: String,
    },
    /// The client ended.
    Ended {
        /// Its exit code.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<String>,
    },
    /// Nothing of it is left.
    Done {
        /// What had outlived it: process id and command line.
        escaped: Vec<(u32, String)>,
    },
}

/// The command that runs `command` under a supervisor. `case` is the case's folder, which the supervisor removes if the
/// harness can't do so any more. Environment, working directory and stdio are the caller's to
/// set, and the client inherits them.
pub(crate) fn command(
    exe: &Path,
    control: SocketAddr,
    token: &str,
    patience: Patience,
    case: &Path,
    command: &[String],
) -> Command {
    let mut supervisor = Command::new(exe);
    supervisor
        .arg(ARGUMENT)
        .arg(control.to_string())
        .arg(token)
        .arg(patience.term.as_millis().to_string())
        .arg(patience.linger.as_millis().to_string())
        .arg(case)
        .args(command);
    platform::own_group(&mut supervisor);
    supervisor
}

/// Does a supervisor's work if this process was started as one; the caller then ends with the exit code. To be called
/// first thing in `main`.
pub fn run_if_supervisor() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()?.to_str() != Some(ARGUMENT) {
        return None;
    }
    Some(if supervise(arguments).is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the supervisor's loop reacts to.
enum Happened {
    Ended(Reaped),
    NoneLeft,
    Stop,
    HarnessGone,
}

fn supervise(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<()> {
    let mut text = || arguments.next()?.into_string().ok();
    let control: SocketAddr = text()?.parse().ok()?;
    let token = text()?;
    let term = Duration::from_millis(text()?.parse().ok()?);
    let linger = Duration::from_millis(text()?.parse().ok()?);
    let case = PathBuf::from(arguments.next()?);
    let program = arguments.next()?;

    let mut control = TcpStream::connect(control).ok()?;
    control.set_nodelay(true).ok()?;
    writeln!(control, "{token}").ok()?;
    platform::adopt_orphans();

    let mut client = Command::new(program);
    client.args(arguments);
    platform::own_group(&mut client);
    let client = match client.spawn() {
        Ok(client) => client,
        Err(error) => {
            say(&mut control, &Report::Failed { why: error.to_string() });
            return Some(());
        }
    };
    let pid = client.id();
    // After the spawn, since the client would inherit it; before the threads, since they have to.
    platform::ignore_polite_signals();
    let _ = platform::release_stdio();
    say(&mut control, &Report::Started { pid });

    let (happened, happenings) = channel();
    {
        let happened = happened.clone();
        let mut control = control.try_clone().ok()?;
        std::thread::spawn(move || listen(&mut control, &happened));
    }
    std::thread::spawn(move || {
        platform::wait_for_all(client, |one| {
            let _ = happened.send(Happened::Ended(one));
        });
        let _ = happened.send(Happened::NoneLeft);
    });

    let mut watch = Watch { pid, happenings, control, hasty: false, none_left: false, ended: false };
    watch.until_client_ended(term);
    let escaped = watch.until_none_left(linger);
    if watch.hasty {
        directory::remove_orphan(&case);
    }
    say(&mut watch.control, &Report::Done { escaped });
    Some(())
}

fn say(control: &mut TcpStream, report: &Report) {
    // A harness that is gone doesn't need to know.
    if let Ok(mut line) = serde_json::to_string(report) {
        line.push('\n');
        let _ = control.write_all(line.as_bytes());
    }
}

fn listen(control: &mut TcpStream, happened: &Sender<Happened>) {
    let mut byte = [0];
    loop {
        let what = match control.read(&mut byte) {
            Ok(1..) => Happened::Stop,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => Happened::HarnessGone,
        };
        let last = matches!(what, Happened::HarnessGone);
        if happened.send(what).is_err() || last {
            return;
        }
    }
}

struct Watch {
    pid: u32,
    happenings: Receiver<Happened>,
    control: TcpStream,
    /// The harness is gone: nobody cares how the client takes it.
    hasty: bool,
    none_left: bool,
    ended: bool,
}

impl Watch {
    /// Waits, at most for `limit`, until `done`. `false` if the time is over.
    fn wait(&mut self, limit: Option<Duration>, done: impl Fn(&Self, bool) -> bool) -> bool {
        let until = limit.map(|limit| Instant::now() + limit);
        let mut stop = false;
        while !done(self, stop) {
            let happened = match until {
                None => self.happenings.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => self.happenings.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            match happened {
                Ok(Happened::Ended(one)) if one.pid == self.pid && !self.ended => {
                    self.ended = true;
                    say(&mut self.control, &Report::Ended { code: one.code, signal: one.signal });
                }
                Ok(Happened::Ended(_)) => {}
                Ok(Happened::NoneLeft) => self.none_left = true,
                Ok(Happened::Stop) => stop = true,
                Ok(Happened::HarnessGone) => self.hasty = true,
                Err(RecvTimeoutError::Timeout) => return false,
                // Both threads are gone; so nothing is left to wait for.
                Err(RecvTimeoutError::Disconnected) => return self.none_left,
            }
        }
        true
    }

    fn until_client_ended(&mut self, term: Duration) {
        self.wait(None, |watch, stop| watch.ended || watch.none_left || watch.hasty || stop);
        if self.ended || self.none_left {
            return;
        }
        // The whole tree is asked, not only the process: a shell would die of it and leave the client behind.
        self.end_all(Force::Ask);
        let ended = self.wait(Some(term), |watch, _| watch.ended || watch.none_left);
        if !ended {
            platform::end(self.pid, Force::Kill);
            // Nothing survives that for long; the limit is for a process stuck in the kernel.
            self.wait(Some(LEFTOVERS_KILLED), |watch, _| watch.ended || watch.none_left);
        }
    }

    /// Gives what is left time to leave by itself (a server sees its stdin close), then ends it.
    fn until_none_left(&mut self, linger: Duration) -> Vec<(u32, String)> {
        if !self.hasty && self.settle(linger) {
            return Vec::new();
        }
        let escaped = platform::descendants(self.pid);
        self.end_all(Force::Ask);
        if !self.settle(LEFTOVERS_ASKED) {
            let until = Instant::now() + LEFTOVERS_KILLED;
            while !self.all_gone() && Instant::now() < until {
                // Again and again, since a process may have forked between the list and the signal.
                self.end_all(Force::Kill);
                self.settle(Duration::from_millis(10));
            }
        }
        escaped.into_iter().map(|process| (process.pid, process.command)).collect()
    }

    /// Waits, at most for `limit`, until nothing is left; gives up if the harness is lost meanwhile.
    fn settle(&mut self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let hasty = self.hasty;
        self.wait(Some(limit), |watch, _| watch.none_left || watch.hasty != hasty);
        // Where orphans can't be adopted no event tells of their end, only the list of processes does.
        while self.none_left && !self.all_gone() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.all_gone()
    }

    fn all_gone(&self) -> bool {
        self.none_left && platform::descendants(self.pid).is_empty()
    }

    fn end_all(&self, force: Force) {
        for process in platform::descendants(self.pid) {
            // A scripted server records the signals it gets, as the client's doing. It gets none from us that it could
            // record, and has nothing to clean up.
            match force {
                Force::Ask if is_ours(&process) => {
                    if self.ended {
                        platform::end(process.pid, Force::Kill);
                    }
                }
                force => platform::end(process.pid, force),
            }
        }
    }
}

fn is_ours(process: &Process) -> bool {
    // The reference client as an adapter is a client like others.
    process
        .first_argument
        .as_deref()
        .is_some_and(|argument| argument.starts_with(PRIVATE_PREFIX) && argument != adapter_main::ARGUMENT)
}
