//! The command line.

use clap::{Args as Flags, Parser, Subcommand};
use std::path::PathBuf;

/// Uses MCP servers from the command line.
///
/// Servers are configured once, with `add` or in a file, and then used by name.
#[derive(Debug, Parser)]
#[command(name = "sparring-client", version, max_term_width = 100, after_long_help = AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Examples:
  sparring-client add files -- server-filesystem /tmp
  sparring-client add web --url https://example.com/mcp --bearer-token-env-var WEB_TOKEN
  sparring-client status
  sparring-client call files read_file path=/tmp/notes.txt
  sparring-client call files edit_file '{\"path\": \"/tmp/a\", \"edits\": []}'
  sparring-client read file:///tmp/notes.txt
  sparring-client tools --json | jq '.[].name'

Exit codes:
  0    It worked.
  1    The server answered with an error, or the tool reports one.
  2    The command line or the configuration is wrong.
  3    A server could not be started or reached, or went away.
  4    There is no such server, tool, resource or prompt.
  5    The user has to sign in (`login`), or signing in failed.
  6    There was no answer in time.
  129  The terminal is gone.
  130  Interrupted.
  143  Terminated.";

/// Where `--help` has what holds for every command.
const HEADING: &str = "For every command";

/// What holds for every command.
#[derive(Debug, Clone, Flags)]
pub(crate) struct Global {
    /// The host to be: a built-in profile (reference, chaz, zidane, zut, mewbo, mouaif) or a file with one.
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "NAME|FILE",
        env = "SPARRING_CLIENT_PROFILE",
        default_value = "reference"
    )]
    pub(crate) profile: String,
    /// The configuration file, instead of the places of the profile.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE", env = "SPARRING_CLIENT_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Servers that other programs have configured count as well, where the profile knows such.
    #[arg(long, global = true, help_heading = HEADING)]
    pub(crate) import: bool,
    /// Results as JSON on stdout; errors as JSON on stderr.
    #[arg(long, global = true, help_heading = HEADING)]
    pub(crate) json: bool,
    /// What servers log and write to stderr, and progress, goes to stderr.
    #[arg(long, short, global = true, help_heading = HEADING)]
    pub(crate) verbose: bool,
    /// Appends what happens to the servers to this file, a line of JSON for each event.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Seconds that a start or a request may take, instead of those of profile and configuration.
    #[arg(long, global = true, help_heading = HEADING, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub(crate) timeout: Option<f64>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        _ => Err("a number above zero is needed".to_owned()),
    }
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Configures a server, or replaces one of that name.
    ///
    /// Everything after `--` is the server's command line, and is kept as it is.
    Add(Add),
    /// Lists the configured servers, without contacting them.
    List,
    /// Shows how a server is configured. Values of variables and headers are not shown.
    Get {
        /// Its name.
        name: String,
    },
    /// Removes a server from the configuration.
    Remove {
        /// Its name.
        name: String,
        /// From the project's file, instead of the user's.
        #[arg(long)]
        project: bool,
    },
    /// Connects to a server, or to all that are switched on, and shows what they have.
    Status {
        /// Its name.
        name: Option<String>,
    },
    /// Lists tools as a model gets them: under composed names, as filters and disclosure of the profile leave them.
    Tools {
        /// Only those of this server.
        server: Option<String>,
        /// With the schemas of their arguments.
        #[arg(long)]
        schema: bool,
    },
    /// Lists resources and templates.
    Resources {
        /// Only those of this server.
        server: Option<String>,
    },
    /// Lists prompts; required arguments are marked with a star.
    Prompts {
        /// Only those of this server.
        server: Option<String>,
    },
    /// Calls a tool. Interrupting it cancels the call.
    ///
    /// Arguments are one JSON object, `@FILE` or `-` (stdin) with one, or `name=value` for each; the schema of the tool says
    /// what `value` is. `name:=JSON` is JSON in any case.
    Call {
        /// The server's name.
        server: String,
        /// The tool's name, as the server has it.
        tool: String,
        /// Arguments.
        #[arg(value_name = "JSON|NAME=VALUE")]
        arguments: Vec<String>,
        /// Pictures, sound and files of the result are saved in this folder.
        #[arg(long, value_name = "FOLDER")]
        save: Option<PathBuf>,
    },
    /// Reads a resource. Text goes to stdout as it is, and so does what is binary unless that is a terminal.
    Read {
        /// Its URI.
        uri: String,
        /// The server; needed only if several could have it.
        #[arg(long)]
        server: Option<String>,
    },
    /// Gets a prompt.
    Prompt {
        /// Its name.
        name: String,
        /// Its arguments.
        #[arg(value_name = "NAME=VALUE")]
        arguments: Vec<String>,
        /// The server; needed only if several have a prompt of that name.
        #[arg(long)]
        server: Option<String>,
    },
    /// Signs in to a server over HTTP: in the browser, or by pasting the address that the browser ends at.
    Login {
        /// Its name.
        name: String,
        /// Opens no browser: the address is shown, to be opened anywhere.
        #[arg(long)]
        no_browser: bool,
    },
    /// Forgets the credentials for a server.
    Logout {
        /// Its name.
        name: String,
    },
    /// Plays the client that `sparring run` tests: speaks its driver protocol on stdin and stdout.
    ///
    /// For `sparring run --driver adapter -- sparring-client adapter`; with `--profile` as that host.
    Adapter,
    /// Plays the client in the official conformance framework: `MCP_CONFORMANCE_SCENARIO` names the scenario.
    Official {
        /// The URL of the framework's server.
        url: String,
    },
}

/// Which server, and where it is configured.
#[derive(Debug, Flags)]
#[command(after_long_help = "\
Examples:
  sparring-client add files -- server-filesystem --root /tmp
  sparring-client add notes --env NOTES_KEY=secret --project -- python3 notes.py
  sparring-client add web --url https://example.com/mcp --header 'X-Team: blue'")]
pub(crate) struct Add {
    /// Its name.
    pub(crate) name: String,
    /// The URL of a server over HTTP.
    #[arg(long, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// It speaks HTTP+SSE of 2024-11-05.
    #[arg(long, conflicts_with = "command")]
    pub(crate) sse: bool,
    /// A header of each request.
    #[arg(long = "header", value_name = "NAME: VALUE", conflicts_with = "command", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// The variable that holds a bearer token for it.
    #[arg(long, value_name = "VARIABLE", conflicts_with = "command")]
    pub(crate) bearer_token_env_var: Option<String>,
    /// A variable of its environment.
    #[arg(long = "env", value_name = "NAME=VALUE", conflicts_with = "url", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// A variable that it gets from the environment of the client.
    #[arg(long = "env-pass", value_name = "NAME", conflicts_with = "url")]
    pub(crate) env_pass: Vec<String>,
    /// Its working directory.
    #[arg(long, value_name = "FOLDER", conflicts_with = "url")]
    pub(crate) cwd: Option<String>,
    /// Into the project's file, instead of the user's.
    #[arg(long)]
    pub(crate) project: bool,
    /// The command line of a server that is started.
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url")]
    pub(crate) command: Vec<String>,
}

/// `NAME=VALUE`
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("this should be NAME=VALUE".to_owned()),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once([':', '=']) {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        // The text could be a secret.
        _ => Err("this should be NAME: VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_makes_sense() {
        Args::command().debug_assert();
    }

    #[test]
    fn what_comes_after_two_dashes_is_the_servers() {
        let words =
            ["sparring-client", "add", "x", "--project", "--", "srv", "--url", "y", "--", "--project"];
        let Command::Add(add) = Args::parse_from(words).command else { panic!() };
        assert!(add.project && add.url.is_none());
        assert_eq!(add.command, ["srv", "--url", "y", "--", "--project"]);
        for wrong in [
            &["add", "x"][..],
            &["add", "x", "--url", "u", "--", "srv"],
            &["add", "x", "--header", "a: b", "--", "srv"],
            &["add", "x", "--url", "u", "--header", "nothing"],
            &["add", "x", "srv"],
            &["--timeout", "0", "list"],
            &["--timeout", "-1", "list"],
            &["call", "x"],
        ] {
            let words = std::iter::once(&"sparring-client").chain(wrong);
            assert!(Args::try_parse_from(words).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn arguments_of_tools_are_taken_as_they_are() {
        let words = ["sparring-client", "call", "s", "t", "a=-1", "-", "--json"];
        let args = Args::parse_from(words);
        let Command::Call { arguments, .. } = args.command else { panic!() };
        assert!(args.global.json);
        assert_eq!(arguments, ["a=-1", "-"]);
    }
}
