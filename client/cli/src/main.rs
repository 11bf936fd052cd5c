//! The program `sparring-client`: the reference client on the command line.

mod official;

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match official::asked_for(&arguments, |name| std::env::var(name).ok()) {
        Some(job) => job.and_then(official::run),
        None => Err("usage: sparring-client official URL".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // If nobody reads it, the exit code still tells.
            drop(writeln!(std::io::stderr(), "sparring-client: {message}"));
            ExitCode::FAILURE
        }
    }
}
