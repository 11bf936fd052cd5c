//! The program `sparring-client`: the reference client on the command line.

mod app;
mod args;
mod arguments;
mod commands;
mod failure;
mod official;
mod output;
mod person;

use crate::args::{Args, Command};
use crate::commands::Stop;
use crate::failure::{Code, Failure};
use clap::Parser as _;
use sparring::adapter_main;
use sparring_host::shutdown;
use sparring_profiles::StopOn;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let help = arguments.iter().any(|word| word == "--help" || word == "-h");
    let job = official::asked_for(&arguments, |name| std::env::var(name).ok());
    if let Some(job) = job.filter(|_| !help) {
        return match job.and_then(official::run) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                output::note(&format!("sparring-client: {message}"));
                ExitCode::FAILURE
            }
        };
    }
    let args = Args::parse();
    let json = args.global.json;
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.code as u8;
            if json && !failure.message.is_empty() && !failure.silent {
                output::note(&failure.json().to_string());
            } else if !failure.silent {
                output::note(&format!("sparring-client: {}", failure.message));
                if let Some(hint) = &failure.hint {
                    output::note(&format!("hint: {hint}"));
                }
            }
            ExitCode::from(code)
        }
    }
}

/// How long servers may take to end after a signal.
const GRACE: Duration = Duration::from_secs(10);

fn run(args: Args) -> Result<(), Failure> {
    if let Command::Adapter = args.command {
        let signal = adapter_main::run_as(&args.global.profile);
        return match signal.map_err(|why| Failure::new(Code::Usage, why))? {
            Some(number) => Err(Failure::told(Code::of_signal(number))),
            None => Ok(()),
        };
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Code::Failed, format!("could not start: {error}")))?;
    let outcome = runtime.block_on(async {
        let (sender, receiver) = watch::channel(None);
        let work = commands::run(args, Stop(receiver));
        tokio::pin!(work);
        tokio::select! {
            outcome = &mut work => outcome,
            code = signalled() => {
                sender.send_replace(Some(code));
                // A second signal, or a server that will not end, is the end of the wait.
                tokio::select! {
                    _ = &mut work => {}
                    _ = signalled() => {}
                    () = tokio::time::sleep(GRACE) => {}
                }
                Err(Failure::told(code))
            }
        }
    });
    // A read of stdin may be under way.
    runtime.shutdown_background();
    outcome
}

/// Waits for the user, or the system, to end the program.
async fn signalled() -> Code {
    match shutdown::signal(&[StopOn::Sigint, StopOn::Sigterm, StopOn::Sighup]).await {
        Ok(number) => Code::of_signal(number),
        // Then they do what they do without it.
        Err(_) => std::future::pending().await,
    }
}
