//! The program `sparring`.

mod args;
mod explain;
mod input;
mod lint;
mod list;
mod profile;
mod record;
mod run;
mod serve;

pub use args::{BenchArgs, Cli, EXIT_CODES, MutantsArgs};

use args::Command;
use clap::Parser;
pub(crate) use input::driver_trouble;
use sparring_reports::model::exit_code;
use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

/// Something that ends the program before or beside a run, with its exit code.
#[derive(Debug)]
pub struct Trouble {
    code: u8,
    message: String,
}

impl Trouble {
    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string() }
    }

    /// The command line or an input file is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(exit_code::USAGE, message)
    }
}

/// What `fn main` of the program is.
pub fn main() -> ExitCode {
    if let Some(code) = crate::run::hand_over().or_else(crate::bench::run_if_floor) {
        return code;
    }
    match dispatch(Cli::parse().command) {
        Ok(code) => code.into(),
        Err(trouble) => {
            error(&trouble.message);
            trouble.code.into()
        }
    }
}

fn dispatch(command: Command) -> Result<u8, Trouble> {
    match command {
        Command::Run(args) => run::run(args),
        Command::List(selection) => list::list(&selection),
        Command::Lint { paths, format } => lint::lint(&paths, format),
        Command::Explain { id } => explain::explain(&id),
        Command::Mutants(args) => crate::mutants::command(&args),
        Command::Judge { file, revision, incomplete } => run::judge_file(&file, revision, incomplete),
        Command::Record(args) => record::record(args),
        Command::Serve(command) => serve::serve(command),
        Command::Profile(command) => profile::profile(command),
        Command::Bench(args) => crate::bench::command(&args),
        Command::Schema { kind } => {
            print(&schema_text(kind))?;
            Ok(exit_code::PASSED)
        }
    }
}

fn schema_text(kind: args::SchemaKind) -> String {
    use args::SchemaKind;
    use sparring_scenarios::schema::{Kind, text};
    match kind {
        SchemaKind::Report => sparring_reports::json::schema_text(),
        SchemaKind::Scenario => text(Kind::Scenario),
        SchemaKind::Script => text(Kind::Script),
        SchemaKind::Profile => text(Kind::Profile),
        SchemaKind::Requirement => text(Kind::Requirement),
        SchemaKind::Transcript => text(Kind::Transcript),
    }
}

/// Prints to stdout. A reader that has gone away, such as `head`, is nobody's fault; a full disk is an error.
pub(crate) fn print(text: &str) -> Result<(), Trouble> {
    let mut stdout = anstream::stdout().lock();
    let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(end));
    match written.and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Trouble::new(exit_code::REPORT, format!("can't write to stdout: {e}")))
        }
        _ => Ok(()),
    }
}

/// Prints to stderr.
fn print_to_stderr(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{}", text.trim_end());
}

/// Prints an error to stderr.
pub(crate) fn error(message: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "error: {message}");
}

/// Starts the runtime that the commands use.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Trouble> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Trouble::new(exit_code::HARNESS_ERROR, format!("can't start the runtime: {e}")))
}
