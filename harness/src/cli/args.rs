//! The command line. Doc comments are the help texts.

use crate::bench::Load;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use sparring_wire::{Revision, Transport};
use std::ffi::OsString;
use std::path::PathBuf;

/// A sparring partner for MCP clients: scripted servers that play every role a server can play, fair or foul, and a
/// judge that says, with evidence, what the client under test did right and wrong.
#[derive(Debug, Parser)]
#[command(name = "sparring", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The exit codes, as `--help` shows them; a test compares them with the constants.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    every judge that ran passed
  1    the client failed at least one judge
  2    the command line or an input file is wrong; nothing was run
  3    the baseline is stale (reserved)
  4    the harness itself failed; says nothing about the client
  5    no case was selected, or no check ran
  6    the driver can't do some cases, and they were not allowed to be left out
  7    the client can't be started, or its driver breaks the driver protocol
  8    a report can't be written
  130  interrupted";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run cases against a client and judge it.
    Run(RunArgs),
    /// List the cases that a run would have, without running any.
    List(Selection),
    /// Check scenario and script files; without paths, the built-in scenarios.
    ///
    /// Says what is wrong and where, as a compiler does. Errors have exit code 2; warnings alone have not. All that can
    /// be said is in docs/scenario-format.md, each under its code.
    Lint {
        /// Files or folders. Which of both a file is, its keys tell.
        paths: Vec<PathBuf>,
        /// How to say it: in words, or as one JSON document on stdout.
        #[arg(long, value_enum, default_value_t = LintFormat::Text)]
        format: LintFormat,
    },
    /// Explain a requirement, a promise, a monitor, a scenario or a check.
    Explain {
        /// Its id.
        id: String,
    },
    /// Prove that every check and monitor can fail: run the mutants of the reference client, print checks × mutants.
    Mutants(MutantsArgs),
    /// Judge a transcript with the monitors: of a case that was run, or of a session that was recorded.
    Judge {
        /// A transcript: JSON Lines, as `run` and `record` store them.
        file: PathBuf,
        /// The revision that its servers spoke; by default that of the handshake in it.
        #[arg(long)]
        revision: Option<Revision>,
        /// Accept a transcript that was cut off, or that is still being written.
        #[arg(long)]
        incomplete: bool,
    },
    /// Put the recorder between a client and a real server, and keep what they say as a transcript.
    Record(RecordArgs),
    /// Serve a mock by itself, for tests of your own (docs/serve.md).
    #[command(subcommand, after_help = super::serve::EXAMPLES)]
    Serve(super::serve::ServeCommand),
    /// Measure the round trip of a tool call, beside a floor measured in the same run.
    Bench(BenchArgs),
    /// Host profiles: check one, show one, begin one, or compare the built-in ones (docs/profiles.md).
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Print a JSON Schema, for editors and programs.
    Schema {
        /// Of what.
        kind: SchemaKind,
    },
}

/// The subcommands of `profile`.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Say what a profile declares and what judges it, and what is wrong with it. Errors have exit code 2.
    Check {
        /// A TOML file, or the name of a built-in profile.
        #[arg(value_name = "FILE|NAME")]
        profile: String,
        /// A folder with scenarios of your own, in addition to the built-in ones.
        #[arg(long = "scenarios", value_name = "DIR")]
        own_scenarios: Option<PathBuf>,
    },
    /// Print a profile with everything decided: what it leaves out is the reference client's choice, and marked.
    Show {
        /// A TOML file, or the name of a built-in profile.
        #[arg(value_name = "NAME|FILE")]
        profile: String,
    },
    /// Print a profile to fill in, with what each field means.
    Init {
        /// With the values of this profile: a TOML file, or the name of a built-in one.
        #[arg(long, value_name = "NAME|FILE")]
        from: Option<String>,
    },
    /// Run the reference client as each built-in host, judged by each of their profiles, and compare what fails with
    /// what differs. Differences that nothing shows, or failures without one, have exit code 1.
    Matrix(MatrixArgs),
}

/// Arguments of `profile matrix`.
#[derive(Debug, Args)]
pub struct MatrixArgs {
    /// Only judged by this profile. May be given several times.
    #[arg(long = "profile", value_name = "NAME")]
    pub profiles: Vec<String>,
    /// Only the client as this host. May be given several times.
    #[arg(long = "as", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// Only scenarios with this id; globs are allowed. May be given several times.
    #[arg(long = "scenario", value_name = "ID")]
    pub scenarios: Vec<String>,
    /// How many cases of a pair run at a time, 4 by default; and four pairs do.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub jobs: Option<usize>,
    /// Show each promise.
    #[arg(long, short)]
    pub verbose: bool,
}

/// How the lint says what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LintFormat {
    /// In words, for people.
    Text,
    /// As JSON, for programs.
    Json,
}

/// Which schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum SchemaKind {
    /// The JSON report.
    Report,
    /// A scenario file.
    Scenario,
    /// A server's script in a file of its own.
    Script,
    /// A host profile.
    Profile,
    /// An entry of the requirement catalogue.
    Requirement,
    /// A line of a transcript.
    Transcript,
}

/// Which cases.
#[derive(Debug, Clone, Default, Args)]
pub struct Selection {
    /// Only cases with this id; globs are allowed. May be given several times.
    #[arg(long = "case", value_name = "ID")]
    pub cases: Vec<String>,
    /// Only scenarios with this id; globs are allowed. May be given several times.
    #[arg(long = "scenario", value_name = "ID")]
    pub scenarios: Vec<String>,
    /// Only this transport: stdio or http. May be given several times.
    #[arg(long = "transport", value_name = "NAME")]
    pub transports: Vec<Transport>,
    /// Only this revision, such as 2025-11-25. May be given several times.
    #[arg(long = "revision", value_name = "DATE")]
    pub revisions: Vec<Revision>,
    /// Only the Kth of N parts, such as 1/4.
    #[arg(long, value_name = "K/N")]
    pub shard: Option<String>,
    /// A folder with scenarios of your own, in addition to the built-in ones.
    #[arg(long = "scenarios", value_name = "DIR")]
    pub own_scenarios: Option<PathBuf>,
    #[command(flatten)]
    /// The client.
    pub client: ClientArgs,
}

/// The client under test.
#[derive(Debug, Clone, Default, Args)]
pub struct ClientArgs {
    /// How the harness makes the client do things.
    #[arg(long, value_enum, default_value_t = DriverKind::Builtin)]
    pub driver: DriverKind,
    /// A host profile: a TOML file, or the name of a built-in one. The reference client has `reference` by default.
    #[arg(long, value_name = "FILE|NAME")]
    pub profile: Option<String>,
    /// What the reference client does, where that is not what it is judged by: another host's profile, a TOML file or the
    /// name of a built-in one. By default it is the host of `--profile`.
    #[arg(long = "as", value_name = "FILE|NAME")]
    pub as_host: Option<String>,
    /// The command of the adapter or of the official driver, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The drivers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DriverKind {
    /// The reference client, in process.
    #[default]
    Builtin,
    /// A program that speaks the driver protocol (docs/driver-protocol.md).
    Adapter,
    /// A client made for the official conformance framework: the URL as its last argument, MCP_CONFORMANCE_* variables.
    Official,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Which cases, and which client.
    #[command(flatten)]
    pub selection: Selection,
    /// Write a report: `json=PATH` or `junit=PATH`. May be given several times.
    #[arg(long = "report", value_name = "KIND=PATH")]
    pub reports: Vec<String>,
    /// The folder for transcripts and the JSON report.
    #[arg(long, value_name = "DIR", default_value = "target/sparring")]
    pub out: PathBuf,
    /// How many cases run at a time; by default twice the number of cores, at most 4.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub jobs: Option<usize>,
    /// Run each case this many times; any difference between their verdicts fails the run.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// The seed of all that looks random in the servers.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Leave out what the driver can't do without failing the run.
    #[arg(long)]
    pub allow_unsupported: bool,
    /// Keep tokens and other secrets readable in transcripts.
    #[arg(long)]
    pub keep_secrets: bool,
    /// Show every failure and warning in full.
    #[arg(long, short)]
    pub verbose: bool,
}

/// Arguments of `mutants`.
#[derive(Debug, Args)]
pub struct MutantsArgs {
    /// Only these mutants; globs are allowed.
    #[arg(long = "mutant", value_name = "NAME")]
    pub mutants: Vec<String>,
    /// Only list the mutants.
    #[arg(long)]
    pub list: bool,
    /// How many mutants run at a time; by default four times the number of cores, at most 8.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub jobs: Option<usize>,
    /// Keep the cases' transcripts, in a folder for each mutant inside this one.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure: `builtin`, or `adapter: COMMAND`. May be given several times.
    #[arg(long = "with", value_name = "CLIENT", default_value = "builtin")]
    pub with: Vec<String>,
    /// Only this transport: stdio or http.
    #[arg(long = "transport", value_name = "NAME")]
    pub transports: Vec<Transport>,
    /// Only calls of this kind. May be given several times.
    #[arg(long = "load", value_name = "KIND")]
    pub loads: Vec<Load>,
    /// Small calls in each round; of large ones there are fewer by fifty times.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub calls: u32,
    /// Measure nothing but how much memory the reference client takes for each of N idle connections.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..), conflicts_with_all = ["with", "loads", "calls", "rounds", "json"])]
    pub idle: Option<u32>,
    /// Rounds, interleaved with those of the floor.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: u32,
    /// Write the numbers as JSON.
    #[arg(long, value_name = "PATH")]
    pub json: Option<PathBuf>,
}

/// Arguments of `record`.
#[derive(Debug, Args)]
#[command(after_help = RECORD_EXAMPLES)]
pub struct RecordArgs {
    /// The URL of a real server, such as http://127.0.0.1:8000/mcp; a relay on loopback takes its place.
    #[arg(value_name = "URL", conflicts_with_all = ["command", "from"])]
    pub url: Option<String>,
    /// The transcript; a recording is added to those that are in it. `{n}` in it stands for the least number that is
    /// free, so that each start of the server has a file of its own.
    #[arg(long, value_name = "FILE", required_unless_present = "from", conflicts_with = "from")]
    pub out: Option<PathBuf>,
    /// The server's name in the transcript; with --from, the server that becomes the script.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The relay's port on 127.0.0.1; by default any that is free.
    #[arg(long, value_name = "N", requires = "url")]
    pub port: Option<u16>,
    /// Leave tokens and other secrets readable.
    #[arg(long)]
    pub show_secrets: bool,
    /// At the end write a script that plays the server again, for `sparring serve`.
    #[arg(long = "as-scenario", visible_alias = "as-script", value_name = "FILE")]
    pub as_script: Option<PathBuf>,
    /// Record nothing, but make a script of this transcript.
    #[arg(long, value_name = "TRANSCRIPT", requires = "as_script", conflicts_with = "command")]
    pub from: Option<PathBuf>,
    /// The real server's command, after `--`: stdin, stdout, stderr, signals and the exit status are its own.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const RECORD_EXAMPLES: &str = "\
In a client's configuration, in the place of `npx some-server`:
  sparring record --out session.jsonl -- npx some-server
For a server that listens already; the first line on stdout has the URL for the client:
  sparring record --out session.jsonl http://127.0.0.1:8000/mcp
Afterwards:
  sparring judge session.jsonl
  sparring record --from session.jsonl --as-scenario server.yaml";
