//! Host profiles: what a client's makers declare beyond the specification.
//!
//! Every field that is set is a promise; its id is its path, such as `naming.max_len`. A field that is not set is not
//! judged. The fields here are those that a scenario or monitor judges; unknown ones are errors.

use crate::catalogue;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Place, did_you_mean};
use crate::load::read_text;
use crate::scenario::Scenario;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sparring_wire::{Revision, Transport};
use std::collections::BTreeSet;
use std::path::Path;

/// The profile of the reference client.
pub const REFERENCE: &str = include_str!("../../profiles/built-in/reference.toml");

/// A host profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// Which host it is.
    pub host: Host,
    /// Promises about the handshake and cancelling.
    pub protocol: Protocol,
    /// Budgets.
    pub timeouts: Timeouts,
    /// Promises about finding a server's tools.
    pub discovery: Discovery,
    /// Promises about the names of tools.
    pub naming: Naming,
    /// Promises about changed lists.
    pub list_changed: ListChanged,
    /// Promises about results.
    pub results: Results,
    /// Promises about servers that end.
    pub restart: Restart,
    /// Promises about the end of a connection.
    pub shutdown: Shutdown,
    /// Promises about what stands on a server's output.
    pub stdio: Stdio,
}

/// `[host]`: for reports; no promises.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// The host's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

macro_rules! section {
    ($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(
                $(#[$field_about])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }
    };
}

section! {
    /// `[protocol]`.
    Protocol {
        /// The revision sent in `initialize`.
        offers: Revision,
        /// The counter-offers with which it works on; all others fail the start.
        accepts: Vec<Revision>,
        /// Cancelling by the caller sends `notifications/cancelled`.
        cancel_notifies: bool,
    }
}

section! {
    /// `[timeouts]`, in seconds.
    Timeouts {
        /// Budget of a start.
        startup_s: f64,
        /// Budget of a call.
        tool_s: f64,
        /// Budget of closing, then force.
        close_s: f64,
        /// Which of them the driver may shorten: `startup`, `tool`, `close`.
        settable: Vec<SettableTimeout>,
    }
}

/// Budgets that a driver may shorten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettableTimeout {
    /// `startup_s`.
    Startup,
    /// `tool_s`.
    Tool,
    /// `close_s`.
    Close,
}

section! {
    /// `[discovery]`.
    Discovery {
        /// `tools/list` only if `tools` was advertised.
        needs_capability: bool,
        /// Follows cursors to the end.
        paginates: bool,
        /// Gives up on a list whose cursors never end.
        bounded: bool,
    }
}

section! {
    /// `[naming]`: the names that the caller sees.
    Naming {
        /// The composed name where nothing needs repair, of `{server}` and `{tool}`.
        template: String,
        /// A class of characters: all names consist of them.
        charset: String,
        /// Characters at most, suffix included.
        max_len: u32,
        /// What is done if it is too long.
        on_overflow: Overflow,
        /// What is done if two tools have one name.
        on_clash: Clash,
        /// Characters of the suffix.
        hash_len: u32,
        /// The same names in each run and in any order of arrival.
        stable: bool,
    }
}

/// What is done with a name that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// Cut, with a suffix that makes it unique.
    Hash,
    /// Cut.
    Truncate,
    /// The tool is not offered.
    Drop,
}

/// What is done with two tools of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Clash {
    /// A suffix makes them different.
    Hash,
    /// The later one is not offered.
    SkipLater,
    /// The start fails.
    Error,
    /// The later one takes the name.
    Replace,
}

section! {
    /// `[list_changed]`.
    ListChanged {
        /// The reaction to `notifications/tools/list_changed`.
        tools: OnChange,
        /// Where it holds; everywhere by default.
        transports: Vec<ProfileTransport>,
    }
}

/// The reaction to a changed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnChange {
    /// The list is fetched at once.
    RefetchNow,
    /// The list is fetched before the next call.
    BeforeNextCall,
    /// None.
    Ignore,
}

/// The names of transports in profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileTransport {
    /// A child process.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

impl From<Transport> for ProfileTransport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Stdio => Self::Stdio,
            Transport::Http => Self::Http,
            Transport::SseLegacy => Self::Sse,
        }
    }
}

section! {
    /// `[results]`: how parts of a tool result reach the caller.
    Results {
        /// An image block.
        image: Image,
        /// An audio block.
        audio: Audio,
        /// A resource block with text.
        embedded_text: EmbeddedText,
        /// A resource block with a blob that is no image.
        embedded_blob: EmbeddedBlob,
        /// A resource link.
        resource_link: ResourceLink,
        /// `structuredContent`.
        structured: Structured,
        /// `isError: true`.
        is_error: IsError,
    }
}

/// Image blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Image {
    /// As an image.
    Image,
    /// Described in text.
    Describe,
    /// A stub stands for it.
    Stub,
    /// Gone.
    Drop,
}

/// Audio blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Audio {
    /// As audio.
    Audio,
    /// Described in text.
    Describe,
    /// Gone.
    Drop,
}

/// Embedded text resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddedText {
    /// Its text.
    Inline,
    /// Described in text.
    Describe,
    /// A stub stands for it.
    Stub,
    /// Gone.
    Drop,
}

/// Embedded binary resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddedBlob {
    /// As it came.
    Keep,
    /// Described in text.
    Describe,
    /// A stub stands for it.
    Stub,
    /// Gone.
    Drop,
}

/// Resource links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceLink {
    /// As it came.
    Keep,
    /// Described in text.
    Describe,
    /// The resource is read.
    Fetch,
    /// Gone.
    Drop,
}

/// Structured content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Structured {
    /// If there is no content.
    IfNoContent,
    /// Instead of the content.
    Prefer,
    /// With the content.
    Both,
    /// Not at all.
    Ignore,
}

/// Tool errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IsError {
    /// A result that is marked as an error.
    ToolError,
    /// The call fails.
    Exception,
    /// As text.
    Text,
}

section! {
    /// `[restart]`.
    Restart {
        /// Where it holds.
        transports: Vec<ProfileTransport>,
        /// What brings a dead server back.
        trigger: Trigger,
        /// The call that met the crash is sent again.
        retry_call: bool,
        /// Waits before the attempts, in seconds.
        backoff_s: Vec<f64>,
        /// There is a wait before the first attempt.
        first_wait: bool,
        /// Attempts in a row, then it gives up.
        max_attempts: u32,
        /// Which success clears the count.
        reset_on: Reset,
        /// Handshake and `tools/list` are repeated.
        rediscovers: bool,
        /// 404 on a session.
        http_session_lost: SessionLost,
        /// The driver may set the waits.
        settable: bool,
    }
}

/// What brings a dead server back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The call that found it dead.
    FailingCall,
    /// The call after that.
    NextCall,
    /// Nothing is needed.
    AtOnce,
    /// The user.
    Manual,
    /// Nothing.
    Never,
}

/// Which success clears the count of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reset {
    /// A call.
    Call,
    /// A start.
    Start,
}

/// The reaction to a lost session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionLost {
    /// The next call opens a new one.
    NextCall,
    /// A new one is opened at once.
    AtOnce,
    /// The caller gets the error.
    Surface,
}

section! {
    /// `[shutdown]`.
    Shutdown {
        /// A stdio child leads a process group; closing ends all of it.
        own_group: bool,
        /// SIGKILL to the group after `timeouts.close_s`.
        kill_group: bool,
        /// DELETE for each HTTP session.
        deletes_session: bool,
    }
}

section! {
    /// `[stdio]`.
    Stdio {
        /// A line on stdout that is no message is passed over.
        tolerates_noise: bool,
    }
}

/// Fields that say how or where to judge the other fields of their section, and promise nothing themselves.
const SETTINGS: [&str; 4] =
    ["timeouts.settable", "restart.settable", "restart.transports", "list_changed.transports"];

impl Profile {
    /// The reference client's.
    ///
    /// # Errors
    /// What is wrong with the embedded file; a test sees to it that nothing is.
    pub fn reference() -> Result<Self, Diagnostic> {
        Self::parse("profiles/reference.toml", REFERENCE)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its place.
    pub fn load(path: &Path) -> Result<Self, Diagnostic> {
        Self::parse(&path.display().to_string(), &read_text(path)?)
    }

    /// Reads a profile from its text.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, Diagnostic> {
        let profile: Self = toml::from_str(text).map_err(|e| explain(file, text, &e))?;
        if let Some((id, message)) = profile.nonsense() {
            let place = place_of_field(text, id);
            return Err(Diagnostic::at(file, text, place, Code::Value, format!("`{id}` {message}")));
        }
        Ok(profile)
    }

    /// Values that have the right type but no meaning.
    fn nonsense(&self) -> Option<(&'static str, &'static str)> {
        let seconds = |value: Option<f64>| value.is_some_and(|v| !v.is_finite() || v <= 0.0);
        let naming = &self.naming;
        if seconds(self.timeouts.startup_s) {
            return Some(("timeouts.startup_s", "is a number of seconds, above zero"));
        }
        if seconds(self.timeouts.tool_s) {
            return Some(("timeouts.tool_s", "is a number of seconds, above zero"));
        }
        if seconds(self.timeouts.close_s) {
            return Some(("timeouts.close_s", "is a number of seconds, above zero"));
        }
        if naming.template.as_ref().is_some_and(|t| !t.contains("{tool}")) {
            return Some(("naming.template", "needs `{tool}`"));
        }
        if naming.charset.as_ref().is_some_and(|c| c.len() < 3 || !c.starts_with('[') || !c.ends_with(']')) {
            return Some(("naming.charset", "is a class in brackets, such as `[A-Za-z0-9_-]`"));
        }
        if naming.max_len == Some(0) {
            return Some(("naming.max_len", "is above zero"));
        }
        if self.restart.backoff_s.iter().flatten().any(|v| !v.is_finite() || *v < 0.0) {
            return Some(("restart.backoff_s", "is a list of seconds"));
        }
        None
    }

    /// The ids of all promises that it makes, in order. Those of the driver (`driver.*`) are made by every client.
    pub fn promises_made(&self) -> BTreeSet<String> {
        let mut made: BTreeSet<String> = always_made().map(str::to_owned).collect();
        for (section, fields) in self.fields() {
            made.extend(fields.keys().map(|name| format!("{section}.{name}")));
        }
        made.retain(|id| !SETTINGS.contains(&id.as_str()));
        made
    }

    /// What of it counts for a scenario over a transport: the ids of all promises that hold there, and what the
    /// scenario's checks ask for with a value (`naming.max_len = 64`) as they write it.
    pub fn promises_for(&self, scenario: &Scenario, transport: Transport) -> BTreeSet<String> {
        let mut made = self.promises_made();
        made.extend(scenario.judge.iter().filter_map(|check| check.promise.clone()));
        made.retain(|promise| self.makes(promise, transport));
        made
    }

    /// The value of a promise, as JSON; `None` if it is not made.
    pub fn value(&self, id: &str) -> Option<serde_json::Value> {
        let (section, name) = id.split_once('.')?;
        self.fields().remove(section)?.remove(name)
    }

    /// Whether it makes what `needed` names: a promise by its id, or by its id and value (`naming.max_len = 64`). Where
    /// a section says on which transports it holds, `transport` has to be one of them.
    pub fn makes(&self, needed: &str, transport: Transport) -> bool {
        let Ok(NeededPromise { id, value }) = NeededPromise::parse(needed) else { return false };
        let holds = match id.split_once('.') {
            // A lost session is a matter of HTTP by its nature.
            Some(("restart", name)) if name != "http_session_lost" => &self.restart.transports,
            Some(("list_changed", _)) => &self.list_changed.transports,
            _ => &None,
        };
        if holds.as_ref().is_some_and(|transports| !transports.contains(&transport.into())) {
            return false;
        }
        match value {
            None => is_always_made(id) || self.value(id).is_some(),
            Some(value) => self.value(id) == Some(value),
        }
    }

    fn fields(&self) -> std::collections::BTreeMap<String, serde_json::Map<String, serde_json::Value>> {
        let serde_json::Value::Object(sections) = serde_json::to_value(self).unwrap_or_default() else {
            return Default::default();
        };
        sections
            .into_iter()
            .filter(|(section, _)| section != "host")
            .filter_map(|(section, fields)| match fields {
                serde_json::Value::Object(fields) => Some((section, fields)),
                _ => None,
            })
            .collect()
    }
}

/// The promises that every client makes by having a driver.
pub fn always_made() -> impl Iterator<Item = &'static str> {
    catalogue::promises().map(|promise| promise.id.as_str()).filter(|id| is_always_made(id))
}

/// Whether every client makes this promise.
pub fn is_always_made(id: &str) -> bool {
    id.starts_with("driver.")
}

/// An entry of a scenario's `where.promises`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NeededPromise<'a> {
    pub(crate) id: &'a str,
    pub(crate) value: Option<serde_json::Value>,
}

impl<'a> NeededPromise<'a> {
    /// An id alone, or with a value in TOML, just as it would stand in a profile.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let Some((id, value)) = text.split_once('=') else {
            return Ok(Self { id: text.trim(), value: None });
        };
        let table: toml::Table = toml::from_str(&format!("value = {}", value.trim()))
            .map_err(|e| format!("the value of `{}` is not TOML: {}", id.trim(), e.message()))?;
        let value = table.get("value").cloned().ok_or("there is no value")?;
        let value = serde_json::to_value(value).map_err(|e| e.to_string())?;
        Ok(Self { id: id.trim(), value: Some(value) })
    }
}

fn explain(file: &str, text: &str, error: &toml::de::Error) -> Diagnostic {
    let place = error.span().map(|span| {
        let before = text.get(..span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |n| n + 1);
        Place::new(
            before.matches('\n').count() + 1,
            before[line_start..].chars().count() + 1,
            text.get(span).and_then(|s| s.lines().next()).map_or(1, |s| s.chars().count().max(1)),
        )
    });
    let message = error.message();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (code, message, help) = match quoted.split_first() {
        Some((word, known)) if message.starts_with("unknown field") => (
            Code::UnknownKey,
            format!("`{word}` is not a field of this part of a host profile"),
            did_you_mean(word, known.iter().copied())
                .or_else(|| Some(format!("known are {}", known.join(", ")))),
        ),
        Some((word, known)) if message.starts_with("unknown variant") => (
            Code::UnknownWord,
            format!("`{word}` is not a value of this field"),
            did_you_mean(word, known.iter().copied())
                .or_else(|| Some(format!("known are {}", known.join(", ")))),
        ),
        _ => (Code::Value, message.to_owned(), None),
    };
    match place {
        Some(place) => Diagnostic::at(file, text, place, code, message).with_help(help),
        None => Diagnostic::whole_file(file, code, message).with_help(help),
    }
}

/// Where a field of a profile is set.
fn place_of_field(text: &str, id: &str) -> Place {
    let (section, name) = id.split_once('.').unwrap_or(("", id));
    let mut inside = false;
    for (n, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if let Some(header) = trimmed.strip_prefix('[') {
            inside = header.trim_start().starts_with(section);
        } else if inside && trimmed.split('=').next().is_some_and(|key| key.trim() == name) {
            let column = line.chars().count() - trimmed.chars().count() + 1;
            return Place::new(n + 1, column, trimmed.trim_end().chars().count());
        }
    }
    Place { line: 1, column: 1, width: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_profile_is_read_and_its_promises_are_in_the_catalogue() {
        let profile = Profile::reference().unwrap();
        let made = profile.promises_made();
        assert!(made.contains("naming.max_len") && made.contains("driver.honest"));
        assert!(!made.contains("host.name"));
        assert_eq!(profile.value("naming.max_len"), Some(serde_json::json!(64)));
        for id in &made {
            assert!(catalogue::promise(id).is_some(), "{id}");
        }
    }

    #[test]
    fn a_scenario_can_ask_for_a_promise_or_for_its_value() {
        let text = "[naming]\nmax_len = 64\non_clash = \"hash\"\n[list_changed]\ntools = \"ignore\"\ntransports = [\"stdio\"]\n";
        let profile = Profile::parse("p", text).unwrap();
        let makes = |needed: &str| profile.makes(needed, Transport::Http);
        assert!(makes("naming.max_len"));
        assert!(makes("naming.max_len = 64"));
        assert!(!makes("naming.max_len = 48"));
        assert!(makes("naming.on_clash = \"hash\""));
        assert!(!makes("naming.template"));
        assert!(makes("driver.completes"));
        assert!(!makes("list_changed.tools"));
        assert!(profile.makes("list_changed.tools", Transport::Stdio));
        assert!(!Profile::default().makes("naming.max_len", Transport::Stdio));
    }

    #[test]
    fn what_counts_for_a_scenario_is_its_own_wording_where_the_profile_agrees() {
        let check =
            |promise: &str| crate::scenario::Check { promise: Some(promise.into()), ..Default::default() };
        let text = "[naming]\nmax_len = 64\n[restart]\ntransports = [\"stdio\"]\nmax_attempts = 5\n";
        let profile = Profile::parse("p", text).unwrap();
        let scenario = Scenario {
            judge: vec![
                check("naming.max_len=64"),
                check("naming.max_len = 48"),
                check("restart.max_attempts = 5"),
            ],
            ..Scenario::default()
        };
        let stdio = profile.promises_for(&scenario, Transport::Stdio);
        assert!(stdio.contains("naming.max_len=64") && stdio.contains("naming.max_len"));
        assert!(!stdio.contains("naming.max_len = 48"));
        assert!(stdio.contains("restart.max_attempts = 5"));
        assert!(!profile.promises_for(&scenario, Transport::Http).contains("restart.max_attempts = 5"));
    }

    #[test]
    fn every_promise_of_a_profile_field_is_a_field() {
        // A profile that sets everything would be the proof; setting one unknown field at a time is enough.
        for promise in catalogue::promises().filter(|p| !is_always_made(&p.id)) {
            let (section, name) = promise.id.split_once('.').unwrap();
            let text = format!("[{section}]\n{name} = {{ }}\n");
            let e = Profile::parse("p", &text).unwrap_err();
            assert_ne!(e.code, Code::UnknownKey, "{}", promise.id);
        }
    }

    #[test]
    fn errors_name_line_and_field() {
        let refused = |text: &str| Profile::parse("my.toml", text).unwrap_err().render(false);
        insta::assert_snapshot!(refused("[naming]\nmax_length = 64\n"), @r"
        error[unknown-key]: `max_length` is not a field of this part of a host profile
         ┌─ my.toml:2:1
         │
        2│ max_length = 64
         │ ^^^^^^^^^^ did you mean `max_len`?
        ");
        insta::assert_snapshot!(refused("[host]\nname = \"x\"\n\n[nameing]\nmax_len = 64\n"), @r"
        error[unknown-key]: `nameing` is not a field of this part of a host profile
         ┌─ my.toml:4:2
         │
        4│ [nameing]
         │  ^^^^^^^ did you mean `naming`?
        ");
        insta::assert_snapshot!(refused("[naming]\non_clash = \"hsah\"\n"), @r#"
        error[unknown-word]: `hsah` is not a value of this field
         ┌─ my.toml:2:12
         │
        2│ on_clash = "hsah"
         │            ^^^^^^ did you mean `hash`?
        "#);
        insta::assert_snapshot!(refused("[naming]\nmax_len = \"many\"\n"), @r#"
        error[value]: invalid type: string "many", expected u32
         ┌─ my.toml:2:11
         │
        2│ max_len = "many"
         │           ^^^^^^
        "#);
        insta::assert_snapshot!(refused("[timeouts]\nclose_s = 1\ntool_s = -1\n"), @r"
        error[value]: `timeouts.tool_s` is a number of seconds, above zero
         ┌─ my.toml:3:1
         │
        3│ tool_s = -1
         │ ^^^^^^^^^^^
        ");
        insta::assert_snapshot!(refused("[naming]\ntemplate = \"{server}\"\n"), @r#"
        error[value]: `naming.template` needs `{tool}`
         ┌─ my.toml:2:1
         │
        2│ template = "{server}"
         │ ^^^^^^^^^^^^^^^^^^^^^
        "#);
        insta::assert_snapshot!(refused("[naming\n"), @r"
        error[value]: unclosed table, expected `]`
         ┌─ my.toml:1:8
         │
        1│ [naming
         │        ^
        ");
    }
}
