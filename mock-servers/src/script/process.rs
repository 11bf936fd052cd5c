//! How the process of a stdio server behaves.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;

/// How a stdio server's process behaves. Ignored over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessScript {
    /// Keep running when stdin ends.
    pub ignore_eof: bool,
    /// Keep running on SIGTERM.
    pub ignore_sigterm: bool,
    /// Keep running on SIGINT.
    pub ignore_sigint: bool,
    /// Keep running on SIGHUP.
    pub ignore_sighup: bool,
    /// How the process ends when stdin ends: with code 0 and at once by default. Ignored with `ignore_eof`.
    pub at_eof: Ending,
    /// How the process ends on SIGTERM: with code 143 and at once by default. Ignored with `ignore_sigterm`.
    pub at_sigterm: Ending,
    /// How the process ends on SIGINT: with code 130 and at once by default. Ignored with `ignore_sigint`.
    pub at_sigint: Ending,
    /// How the process ends on SIGHUP: with code 129 and at once by default. Ignored with `ignore_sighup`.
    pub at_sighup: Ending,
    /// Start a child process of its own that holds no pipe of the client's and ignores polite signals, and report its
    /// process id. The same as one of `descendants` without further words.
    pub grandchild: bool,
    /// Start these child processes at the start, in this order, and report their process ids.
    pub descendants: Vec<Descendant>,
    /// The process that the client starts is not the server but a launcher whose child the server is. Refused by `serve
    /// stdio`, where the client starts the server itself.
    pub launcher: Option<Launcher>,
    /// Let this much time pass before reading or writing anything, in milliseconds.
    pub start_delay_ms: u64,
    /// Die by count, whatever the client does. The first that is due is taken.
    pub deaths: Vec<Death>,
    /// Hold a lock for as long as the process lives. A second process of this server that finds it taken says so on
    /// stderr and exits with 1, without reading anything. Refused by `serve stdio`.
    pub single_instance: bool,
}

impl ProcessScript {
    /// All descendants, `grandchild` first.
    pub fn all_descendants(&self) -> impl Iterator<Item = Descendant> + '_ {
        self.grandchild.then(Descendant::default).into_iter().chain(self.descendants.iter().cloned())
    }
}

/// The end of a process that was asked to end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ending {
    /// The exit code; what is usual by default.
    pub code: Option<i32>,
    /// Go on for this much longer, in milliseconds; messages that arrive meanwhile are answered.
    pub after_ms: u64,
}

/// A death by count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Death {
    /// When.
    pub after: After,
    /// Only in this process of the server, counted from 1; in each by default.
    #[serde(default)]
    pub incarnation: Option<u32>,
    /// Write this text to stderr before.
    #[serde(default)]
    pub stderr: Option<String>,
    /// The exit code, 1 by default. Ignored if there is a signal.
    #[serde(default = "one")]
    pub code: i32,
    /// Die by this signal.
    #[serde(default)]
    pub signal: Option<SignalName>,
}

const fn one() -> i32 {
    1
}

/// The moment of a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// After `start_delay_ms`, without reading or writing anything.
    Start,
    /// Once it has read this many messages (lines that are not blank, batches counted once). The last of them is not
    /// answered.
    Received(u32),
    /// Once it has written this many messages.
    Sent(u32),
}

/// A process that the server starts. It reports nothing but its own end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Descendant {
    /// Where it stands.
    pub place: Place,
    /// Which of the client's pipes it keeps open, so that the client sees no end of stdout when the server has ended.
    /// None by default. It neither reads nor writes. Ignored for a daemon.
    pub keeps: Vec<Stream>,
    /// End on SIGTERM, SIGINT and SIGHUP; ignored by default.
    pub polite: bool,
    /// Start another one like itself, which starts another one: this many in all, 1 by default, at most 8.
    #[serde(deserialize_with = "super::limit::within::<1, 8, _, _>")]
    #[schemars(range(min = 1, max = 8))]
    pub depth: Option<u8>,
}

impl Descendant {
    /// How many processes it stands for.
    pub fn processes(&self) -> u8 {
        self.depth.unwrap_or(1).clamp(1, 8)
    }
}

/// Where a process stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the group and session of the process that started it.
    #[default]
    Child,
    /// In a process group of its own.
    Group,
    /// In a session of its own, and therefore in a group of its own.
    Session,
    /// In a session of its own, and no longer a child of the process that started it: a second process between the two
    /// has ended.
    Daemon,
}

/// One of the three pipes to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// From the client.
    Stdin,
    /// To the client.
    Stdout,
    /// To whoever reads the logs.
    Stderr,
}

/// A process between client and server, as `npx`, a shell script or a container's command line is. The transcript has
/// it as the process that was started, and the server as its grandchild. When the server ends, the launcher ends with
/// the same code (128 and the signal's number if it was a signal).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Launcher {
    /// How the server talks to the client.
    pub pipes: LauncherPipes,
    /// What the launcher does about SIGTERM, SIGINT and SIGHUP.
    pub signals: LauncherSignals,
    /// Where the server stands.
    pub place: LauncherPlace,
}

/// How a launcher's server talks to the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LauncherPipes {
    /// It has the client's own pipes: it can outlive the launcher.
    #[default]
    Shared,
    /// The launcher copies all bytes, and the end of stdin: the server loses its pipes with the launcher.
    Relayed,
}

/// What a launcher does about SIGTERM, SIGINT and SIGHUP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LauncherSignals {
    /// It dies by them and leaves the server alone.
    #[default]
    Die,
    /// It hands them to the server and waits for its end.
    Forward,
    /// Nothing.
    Ignore,
}

/// Where a launcher's server stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LauncherPlace {
    /// In the launcher's group and session.
    #[default]
    Child,
    /// In a process group of its own.
    Group,
    /// In a session of its own.
    Session,
}

/// The name of a signal that ends a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalName(&'static str);

impl SignalName {
    /// All that there are.
    pub const ALL: [&str; 15] = [
        "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL",
        "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM",
    ];

    /// Such as `SIGKILL`.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl Serialize for SignalName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for SignalName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let known = Self::ALL.into_iter().find(|name| *name == text);
        known
            .map(Self)
            .ok_or_else(|| de::Error::custom(format!("`{text}` is none of {}", Self::ALL.join(", "))))
    }
}

impl JsonSchema for SignalName {
    fn schema_name() -> Cow<'static, str> {
        "SignalName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"description": "The name of a signal that ends a process.", "enum": Self::ALL})
    }
}
