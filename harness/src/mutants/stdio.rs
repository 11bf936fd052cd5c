//! Faults in how a client reads from its server processes, restarts and ends them.

use super::decorate::{Handling, Rounds, impatient, processes};
use super::{Mutant, mutant};
use crate::drivers::ClientSetup;
use async_trait::async_trait;
use serde_json::json;
use sparring_client::ServerProcess;
use sparring_client::stdio::{Exit, Signal};
use sparring_host::clock::Clock;
use sparring_host::parts::Backoff;
use sparring_profiles::RestartSettings;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Shortens the graces of the shutdown, which are the settings' and not the faults'.
fn hasty(setup: &mut ClientSetup) {
    graces(setup, Duration::from_millis(100), Duration::from_millis(300));
}

/// Sets the graces of the shutdown: after stdin was closed, and after SIGTERM.
pub(super) fn graces(setup: &mut ClientSetup, close: Duration, terminate: Duration) {
    setup.client(move |settings| {
        settings.stdio.close_wait = close;
        settings.stdio.terminate_wait = terminate;
    });
}

/// Changes what is read from stdout, chunk by chunk.
struct Chunks(fn(Vec<u8>) -> Vec<u8>);

#[async_trait]
impl Handling for Chunks {
    async fn read(&self, process: &dyn ServerProcess) -> io::Result<Vec<u8>> {
        process.read().await.map(self.0)
    }
}

/// Where a line separator or a paragraph separator begins.
fn separator_at(bytes: &[u8]) -> bool {
    matches!(bytes, [0xe2, 0x80, 0xa8 | 0xa9, ..])
}

fn has_separator(chunk: &[u8]) -> bool {
    (0..chunk.len()).any(|at| chunk.get(at..).is_some_and(separator_at))
}

/// The chunk with something else for such separators.
fn replaced(chunk: &[u8], by: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(chunk.len());
    let mut at = 0;
    while let Some(rest) = chunk.get(at..).filter(|rest| !rest.is_empty()) {
        if separator_at(rest) {
            out.extend_from_slice(by);
            at += 3;
        } else {
            out.extend(rest.first());
            at += 1;
        }
    }
    out
}

/// Never reads stderr.
struct BlindToStderr;

#[async_trait]
impl Handling for BlindToStderr {
    async fn read_stderr(&self, _: &dyn ServerProcess) -> io::Result<Vec<u8>> {
        std::future::pending().await
    }
}

/// Takes the server for broken once it has written to stderr.
#[derive(Default)]
struct AfraidOfStderr(watch::Sender<bool>);

#[async_trait]
impl Handling for AfraidOfStderr {
    async fn read(&self, process: &dyn ServerProcess) -> io::Result<Vec<u8>> {
        let mut afraid = self.0.subscribe();
        tokio::select! {
            biased;
            _ = afraid.wait_for(|afraid| *afraid) => Ok(Vec::new()),
            chunk = process.read() => chunk,
        }
    }

    async fn read_stderr(&self, process: &dyn ServerProcess) -> io::Result<Vec<u8>> {
        let chunk = process.read_stderr().await;
        self.0.send_replace(true);
        chunk
    }
}

/// Does not notice the end of the process.
struct BlindToDeath;

#[async_trait]
impl Handling for BlindToDeath {
    async fn read(&self, process: &dyn ServerProcess) -> io::Result<Vec<u8>> {
        match process.read().await {
            Ok(chunk) if !chunk.is_empty() => Ok(chunk),
            _ => std::future::pending().await,
        }
    }

    async fn wait(&self, process: &dyn ServerProcess) -> io::Result<Exit> {
        drop(process.wait().await);
        std::future::pending().await
    }
}

/// Sends a cancellation when it closes a connection that never got beyond its first message.
#[derive(Default)]
struct Canceller {
    lines: AtomicUsize,
}

#[async_trait]
impl Handling for Canceller {
    async fn write(&self, process: &dyn ServerProcess, bytes: &[u8]) -> io::Result<()> {
        self.lines.fetch_add(1, Ordering::AcqRel);
        process.write(bytes).await
    }

    async fn close_stdin(&self, process: &Arc<dyn ServerProcess>) {
        if self.lines.load(Ordering::Acquire) == 1 {
            let line = concat!(
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
                "\n"
            );
            drop(process.write(line.as_bytes()).await);
        }
        process.close_stdin().await;
    }
}

/// Stands still after some messages, so that what goes on without end is not too much for the machine.
pub(super) struct Tiring(pub(super) Rounds);

#[async_trait]
impl Handling for Tiring {
    async fn write(&self, process: &dyn ServerProcess, bytes: &[u8]) -> io::Result<()> {
        self.0.next().await;
        process.write(bytes).await
    }
}

/// Ends a server in another way.
#[derive(Clone, Copy)]
struct Ending {
    /// What is done instead of closing stdin.
    closes: Closes,
    /// What is sent instead of SIGTERM.
    terminates: Option<Signal>,
}

#[derive(Clone, Copy)]
enum Closes {
    Stdin,
    StdinAfterSignal,
    Kills,
}

#[async_trait]
impl Handling for Ending {
    async fn close_stdin(&self, process: &Arc<dyn ServerProcess>) {
        match self.closes {
            Closes::Stdin => process.close_stdin().await,
            Closes::StdinAfterSignal => {
                drop(process.signal(Signal::Terminate));
                // Long enough for the server to see the one before the other.
                tokio::time::sleep(Duration::from_millis(200)).await;
                process.close_stdin().await;
            }
            Closes::Kills => drop(process.signal(Signal::Kill)),
        }
    }

    fn signal(&self, process: &Arc<dyn ServerProcess>, signal: Signal) -> io::Result<()> {
        match signal {
            Signal::Terminate => self.terminates.map_or(Ok(()), |signal| process.signal(signal)),
            Signal::Kill => process.signal(signal),
        }
    }
}

/// Leaves a server alone that has not ended after SIGTERM.
#[derive(Default)]
struct Abandoning {
    gone: watch::Sender<bool>,
}

#[async_trait]
impl Handling for Abandoning {
    fn signal(&self, process: &Arc<dyn ServerProcess>, signal: Signal) -> io::Result<()> {
        if signal == Signal::Terminate {
            return process.signal(signal);
        }
        let process = Arc::clone(process);
        // Whoever drops it would end it. It is held until somebody else has.
        tokio::spawn(async move { process.wait().await });
        self.gone.send_replace(true);
        Ok(())
    }

    fn group_alive(&self, process: &dyn ServerProcess) -> bool {
        !*self.gone.borrow() && process.group_alive()
    }

    async fn wait(&self, process: &dyn ServerProcess) -> io::Result<Exit> {
        let mut gone = self.gone.subscribe();
        tokio::select! {
            _ = gone.wait_for(|gone| *gone) => Ok(Exit::default()),
            exit = process.wait() => exit,
        }
    }
}

/// Counts all restarts, whatever was in between.
struct Unforgiving {
    waits: Vec<f64>,
    restarts: AtomicU32,
}

impl Backoff for Unforgiving {
    fn wait(&self, _: &RestartSettings, _: u32, clock: Clock) -> Option<Duration> {
        let at = self.restarts.fetch_add(1, Ordering::AcqRel);
        self.waits.get(at as usize).map(|seconds| clock.seconds(*seconds))
    }
}

fn unforgiving(setup: &mut ClientSetup, restarts: usize) {
    let mut waits = setup.host.restart.backoff_s.clone();
    waits.truncate(restarts);
    setup.backoff = Some(Arc::new(Unforgiving { waits, restarts: AtomicU32::new(0) }));
}

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("splits-lines-at-u2028", "Takes U+2028 and U+2029 for ends of lines.", |s| {
        impatient(s);
        processes(s, || Chunks(|chunk| replaced(&chunk, b"\n")));
    }),
    mutant("dies-at-u2028", "Stops reading at U+2028.", |s| {
        impatient(s);
        processes(s, || Chunks(|chunk| if has_separator(&chunk) { Vec::new() } else { chunk }));
    }),
    // ---- reading ----
    mutant("one-message-per-read", "Throws away what comes after the first message in one read.", |s| {
        impatient(s);
        processes(s, || {
            Chunks(|mut chunk| {
                if let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
                    chunk.truncate(end + 1);
                }
                chunk
            })
        });
    }),
    mutant("reads-by-chunk", "Takes each piece that arrives for whole lines.", |s| {
        impatient(s);
        processes(s, || {
            Chunks(|mut chunk| {
                if chunk.last().is_some_and(|last| *last != b'\n') {
                    chunk.push(b'\n');
                }
                chunk
            })
        });
    }),
    mutant("decodes-utf8-by-chunk", "Reads byte by byte and decodes each one by itself.", |s| {
        processes(s, || {
            Chunks(|chunk| {
                let texts = chunk.chunks(1).map(String::from_utf8_lossy);
                texts.collect::<String>().into_bytes()
            })
        });
    }),
    mutant("never-reads-stderr", "Does not read stderr.", |s| {
        impatient(s);
        hasty(s);
        processes(s, || BlindToStderr);
    }),
    mutant("takes-stderr-for-failure", "Gives a server up that writes to stderr.", |s| {
        hasty(s);
        s.set("restart.trigger", &json!("never"));
        processes(s, AfraidOfStderr::default);
    }),
    mutant("limits-message-size", "Refuses messages of more than 64 KiB.", |s| {
        s.client(|settings| {
            settings.stdio.max_line = 64 << 10;
            settings.http.max_message = 64 << 10;
        });
    }),
    mutant("cancels-initialize", "Cancels initialize when it takes too long.", |s| {
        processes(s, Canceller::default);
    }),
    // ---- ending ----
    mutant("kills-without-closing-stdin", "Kills the server instead of closing its stdin.", |s| {
        processes(s, || Ending { closes: Closes::Kills, terminates: None });
    }),
    mutant("signals-without-waiting", "Gives the server no time to end after its stdin was closed.", hasty),
    mutant("kills-without-waiting", "Kills the server at once if it does not end.", |s| {
        hasty(s);
        processes(s, || Ending { closes: Closes::Stdin, terminates: Some(Signal::Kill) });
    }),
    mutant("kills-without-sigterm", "Kills the server without SIGTERM.", |s| {
        hasty(s);
        processes(s, || Ending { closes: Closes::Stdin, terminates: Some(Signal::Kill) });
    }),
    mutant("signals-before-closing-stdin", "Sends SIGTERM first and closes stdin after that.", |s| {
        graces(s, Duration::from_millis(500), Duration::from_millis(300));
        processes(s, || Ending { closes: Closes::StdinAfterSignal, terminates: None });
    }),
    mutant("abandons-stubborn-server", "Leaves a server running that ignores SIGTERM.", |s| {
        hasty(s);
        processes(s, Abandoning::default);
    }),
    // ---- death and restarts ----
    mutant("waits-for-dead-server", "Does not notice that the server has died.", |s| {
        hasty(s);
        processes(s, || BlindToDeath);
    }),
    mutant("never-restarts", "Does not start a dead server again.", |s| {
        s.set("restart.trigger", &json!("never"));
    }),
    mutant("restarts-without-wait", "Starts a dead server again at once.", |s| {
        s.set("restart.backoff_s", &json!([0]));
    }),
    mutant("constant-backoff", "Waits equally long before each restart.", |s| {
        s.host.restart.backoff_s.truncate(1);
    }),
    mutant("gives-up-after-one-attempt", "Tries only one restart.", |s| {
        s.set("restart.max_attempts", &json!(1));
    }),
    mutant("restarts-for-ever", "Does not give up restarting.", |s| {
        s.set("restart.max_attempts", &json!(u32::MAX));
    }),
    mutant("never-resets-backoff", "Waits longer with each restart, even after the server was fine.", |s| {
        unforgiving(s, usize::MAX);
    }),
    mutant("restarts-only-once", "Restarts a server once and never again.", |s| unforgiving(s, 1)),
    mutant("repeats-crashed-call", "Sends the call again in which the server died.", |s| {
        s.set("restart.trigger", &json!("failing-call"));
        s.set("restart.retry_call", &json!(true));
    }),
];
