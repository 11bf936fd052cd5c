//! `sparring serve`.

use super::{Trouble, input, runtime};
use crate::serve::source::{self, Source, SourceError};
use crate::serve::{self, ServeError, Settings};
use clap::{Args, Subcommand};
use sparring_mock_servers::stdio::OwnProcess;
use sparring_reports::model::exit_code;
use sparring_wire::{Revision, Transport};
use std::path::PathBuf;

/// What `serve --help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  sparring serve http                                   a perfect server on a port of its own
  sparring serve http --script flaky.yaml --port 4000   your script, where you want it
  sparring serve http --scenario auth.token.expired     the server of a built-in scenario
  sparring serve stdio --script flaky.yaml              a command for any mcpServers entry
  sparring serve stdio --broker                         one that a client starts again and again

The ready line says where the server is, and where its control API is:
  curl -H \"Authorization: Bearer $TOKEN\" $CONTROL/actions -d '[ { announce: tools } ]'

Exit codes: 0 it was stopped; 2 the command line or the script is wrong, or a port is in use;
  4 the system refused something; 8 the transcript or the ready line can't be written;
  70 (stdio) a line on stdin is longer than 16 MiB.";

/// The transports of `serve`.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// On stdin and stdout of this very process, so that any `mcpServers` entry can start it; or with `--broker` as a
    /// command that the client starts any number of times.
    Stdio(StdioArgs),
    /// Streamable HTTP on a port of 127.0.0.1. The ready line goes to stdout.
    Http(HttpArgs),
    /// HTTP with SSE of 2024-11-05 on a port of 127.0.0.1. The ready line goes to stdout.
    Sse(HttpArgs),
}

/// What the transports have in common.
#[derive(Debug, Args)]
pub struct Common {
    /// A server's script: a YAML file, or `builtin:NAME`.
    #[arg(long, value_name = "FILE", default_value = "builtin:everything", conflicts_with = "scenario")]
    pub script: String,
    /// The server of a scenario instead: a built-in scenario's id, or a scenario file.
    #[arg(long, value_name = "ID|FILE")]
    pub scenario: Option<String>,
    /// Which server of the scenario, if it has several.
    #[arg(long, value_name = "NAME", requires = "scenario", conflicts_with = "script")]
    pub server: Option<String>,
    /// The revision that the server speaks, such as 2025-11-25.
    #[arg(long, value_name = "DATE")]
    pub revision: Option<Revision>,
    /// The seed of all that looks random: session ids, tokens.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Write what is observed to this file as it happens: JSON Lines, without secrets.
    #[arg(long, value_name = "FILE")]
    pub transcript: Option<PathBuf>,
    /// Keep tokens and other secrets readable.
    #[arg(long)]
    pub show_secrets: bool,
    /// Write the ready line to this file, which appears whole, instead of stdout or stderr.
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// The port of the control API on 127.0.0.1; 0 for any that is free.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub control_port: u16,
    /// Have no control API.
    #[arg(long, conflicts_with = "control_port")]
    pub no_control: bool,
}

/// Arguments of `serve stdio`.
#[derive(Debug, Args)]
pub struct StdioArgs {
    /// What all have.
    #[command(flatten)]
    pub common: Common,
    /// Don't be the server: print the command that starts it as part of the ready line, on stdout, and keep one
    /// transcript and one control API for all processes that the client starts.
    #[arg(long)]
    pub broker: bool,
    /// With --broker: end when stdin ends, so that nothing outlives the test that started it.
    #[arg(long, requires = "broker")]
    pub stop_with_stdin: bool,
}

/// Arguments of `serve http` and `serve sse`.
#[derive(Debug, Args)]
pub struct HttpArgs {
    /// What all have.
    #[command(flatten)]
    pub common: Common,
    /// The port; 0 for any that is free.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub port: u16,
    /// End when stdin ends, so that no server outlives the test that started it.
    #[arg(long)]
    pub stop_with_stdin: bool,
}

pub(super) fn serve(command: ServeCommand) -> Result<u8, Trouble> {
    match command {
        ServeCommand::Stdio(args) => stdio(args),
        ServeCommand::Http(args) => http(args, Transport::Http),
        ServeCommand::Sse(args) => http(args, Transport::SseLegacy),
    }
}

fn stdio(args: StdioArgs) -> Result<u8, Trouble> {
    if args.broker {
        let mut settings = settings(args.common, Transport::Stdio)?;
        settings.stop_with_stdin = args.stop_with_stdin;
        return host(serve::host::broker(&settings));
    }
    // Before any thread.
    let process = OwnProcess::prepare()
        .map_err(|e| Trouble::new(exit_code::HARNESS_ERROR, format!("can't block signals: {e}")))?;
    let settings = settings(args.common, Transport::Stdio)?;
    match serve::own::serve(process, &settings) {
        Ok(never) => match never {},
        Err(error) => Err(trouble(&error)),
    }
}

fn http(args: HttpArgs, transport: Transport) -> Result<u8, Trouble> {
    let mut settings = settings(args.common, transport)?;
    settings.stop_with_stdin = args.stop_with_stdin;
    host(serve::host::http(&settings, transport, args.port))
}

fn host(serving: impl Future<Output = Result<(), ServeError>>) -> Result<u8, Trouble> {
    let runtime = runtime()?;
    let served = runtime.block_on(serving);
    // A read of stdin may be stuck.
    runtime.shutdown_background();
    served.map_err(|e| trouble(&e))?;
    Ok(exit_code::PASSED)
}

fn settings(common: Common, transport: Transport) -> Result<Settings, Trouble> {
    let source = source(&common)?;
    let revision = common.revision.unwrap_or(match transport {
        Transport::SseLegacy => Revision::V2024_11_05,
        Transport::Stdio | Transport::Http => Revision::LATEST_HANDSHAKE,
    });
    if !revision.has_transport(transport) {
        return Err(Trouble::usage(format!("--revision: {revision} has no transport `{transport}`")));
    }
    Ok(Settings {
        source,
        revision,
        seed: common.seed,
        transcript: common.transcript,
        show_secrets: common.show_secrets,
        ready_file: common.ready_file,
        control_port: (!common.no_control).then_some(common.control_port),
        stop_with_stdin: false,
    })
}

fn source(common: &Common) -> Result<Source, Trouble> {
    let found = match &common.scenario {
        Some(id) => source::scenario(id, common.server.as_deref()),
        None => source::script(&common.script),
    };
    found.map_err(|error| match error {
        SourceError::Diagnostics(wrong) => input::diagnostics(&wrong),
        SourceError::Usage(why) => Trouble::usage(why),
    })
}

fn trouble(error: &ServeError) -> Trouble {
    let code = match error {
        ServeError::Usage(_) => exit_code::USAGE,
        ServeError::System(_) => exit_code::HARNESS_ERROR,
        ServeError::Unwritten(_) => exit_code::REPORT,
    };
    Trouble::new(code, error)
}
