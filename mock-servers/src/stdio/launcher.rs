//! A process between the client and the server, as `npx` or a shell script is.

use super::{Config, MOCK, child, reports};
use crate::platform;
use crate::script::{Launcher, LauncherPipes, LauncherPlace, LauncherSignals};
use sparring_wire::transcript::What;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread::Builder;

/// Starts the server and waits for its end. `signals` are blocked; `process` is this process as it found itself.
pub(super) fn run(
    path: &Path,
    config: &Config,
    launcher: Launcher,
    signals: platform::Signals,
    process: sparring_wire::transcript::Process,
) -> io::Result<ExitCode> {
    let (reports, incarnation) = reports::connect(config, None, None)?;
    let reports = Arc::new(reports);
    reports.send(What::ProcessStarted(process));
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(MOCK).arg(path).arg(incarnation.to_string());
    if launcher.pipes == LauncherPipes::Relayed {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
    }
    if launcher.place == LauncherPlace::Group {
        platform::lead_a_group(&mut command);
    }
    let mut server = command.spawn()?;
    let pid = server.id();
    let handle = Arc::clone(&reports);
    Builder::new().name("signals".into()).stack_size(reports::STACK).spawn(move || {
        while let Ok(name) = signals.wait() {
            handle.send(What::SignalReceived { signal: name.to_owned() });
            match launcher.signals {
                LauncherSignals::Die => {
                    handle.send(What::ProcessExiting { code: None, signal: Some(name.to_owned()) });
                    platform::die(name);
                }
                LauncherSignals::Forward => platform::send_signal(pid, name),
                LauncherSignals::Ignore => {}
            }
        }
    })?;
    let copying = match (server.stdin.take(), server.stdout.take()) {
        (Some(to), Some(from)) => {
            spawn("stdin", move || copy_in(to))?;
            Some(spawn("stdout", move || copy_out(from))?)
        }
        _ => None,
    };
    let status = server.wait()?;
    if let Some(copying) = copying {
        // Another process may hold the server's stdout; the launcher then waits for that one, as a relay does.
        let _ = copying.join();
    }
    let code = status.code().unwrap_or_else(|| 128 + platform::signal_of(status).unwrap_or_default());
    reports.send(What::ProcessExiting { code: Some(code), signal: None });
    std::process::exit(code)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<std::thread::JoinHandle<()>> {
    Builder::new().name(name.into()).stack_size(reports::STACK).spawn(work)
}

/// Copies what the client writes, and its end.
fn copy_in(mut to: ChildStdin) {
    let mut chunk = vec![0; child::CHUNK];
    while let Ok(count @ 1..) = platform::read_stdin(&mut chunk) {
        if to.write_all(chunk.get(..count).unwrap_or_default()).is_err() {
            return;
        }
    }
}

fn copy_out(mut from: ChildStdout) {
    let mut chunk = vec![0; child::CHUNK];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        if platform::write_stdout(chunk.get(..count).unwrap_or_default()).is_err() {
            return;
        }
    }
}
