//! The words that fields of a profile take as values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sparring_wire::Transport;

macro_rules! words {
    ($($(#[$about:meta])* $name:ident { $($(#[$word_about:meta])* $word:ident,)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$word_about])* $word,)*
        }
    )*};
}

words! {
    /// The names of transports in profiles.
    ProfileTransport {
        /// A child process.
        Stdio,
        /// Streamable HTTP.
        Http,
        /// HTTP+SSE of 2024-11-05.
        Sse,
    }
    /// The format of a configuration file.
    Format {
        /// JSON.
        Json,
        /// YAML.
        Yaml,
        /// TOML.
        Toml,
    }
    /// How the servers stand in a configuration file.
    Shape {
        /// A map, the name as key.
        Map,
        /// A list of entries that carry their names.
        List,
    }
    /// The same name in two places.
    Merge {
        /// The stronger entry replaces the weaker one as a whole.
        ReplaceEntry,
        /// Fields of the stronger one win, the others stay.
        MergeFields,
        /// An error.
        Error,
    }
    /// What a project is.
    ProjectRoot {
        /// The working directory.
        Cwd,
        /// The root of the git repository, or the working directory outside one.
        GitRootOrCwd,
        /// What the host is given.
        Given,
    }
    /// An entry with a command and a URL.
    BothTargets {
        /// The URL counts, nothing is spawned.
        UrlWins,
        /// The entry is refused.
        Error,
    }
    /// The order in which servers are listed.
    Listing {
        /// As they are configured.
        Configured,
        /// Those of the user before those of the project, and each by name, in any case.
        ByName,
    }
    /// When an edit of the configuration counts.
    Reload {
        /// When the program starts again.
        Start,
        /// With the next session.
        Session,
        /// With the next run of the session.
        Run,
    }
    /// What a stdio child inherits.
    Inherit {
        /// The host's whole environment.
        All,
        /// A small set that programs need.
        Minimal,
        /// All but the denied names.
        Denylist,
        /// Nothing.
        None,
    }
    /// Fields of an entry in which variables are expanded.
    ExpandIn {
        /// `command`
        Command,
        /// `args`
        Args,
        /// `cwd`
        Cwd,
        /// Values of `env`.
        Env,
        /// `url`
        Url,
        /// Values of `headers`.
        Headers,
    }
    /// A variable that is unset and has no default.
    Unset {
        /// The server is not available; the others are.
        DisableServer,
        /// It becomes nothing.
        Empty,
        /// The text stays as it is.
        Literal,
        /// No server is started.
        FailAll,
    }
    /// Where a path starts.
    Base {
        /// The host's working directory.
        Host,
        /// The project.
        Project,
    }
    /// The first contact with a server.
    Connect {
        /// When the host is launched.
        Launch,
        /// When a session starts.
        Session,
        /// With the first run, or an explicit warm-up.
        FirstRun,
        /// With the first call of one of its tools.
        FirstCall,
    }
    /// One server fails.
    OnFailure {
        /// The others work.
        Isolate,
        /// The start fails.
        Abort,
    }
    /// What brings a server back that failed at start.
    RetryFailed {
        /// Nothing, until the program restarts.
        Never,
        /// The next bootstrap.
        NextBootstrap,
        /// The next call.
        NextCall,
        /// The user.
        Manual,
    }
    /// What a budget of the start spans.
    Phase {
        /// Until the process or socket is there.
        #[serde(rename = "spawn")]
        Spawn,
        /// The handshake.
        #[serde(rename = "initialize")]
        Initialize,
        /// The first list of tools.
        #[serde(rename = "tools/list")]
        ToolsList,
    }
    /// Budgets that a driver may shorten.
    SettableTimeout {
        /// `startup_s`.
        Startup,
        /// `tool_s`.
        Tool,
        /// `close_s`.
        Close,
    }
    /// Filters of tools.
    ToolFilter {
        /// Only these.
        Allow,
        /// Not these.
        Deny,
        /// A function decides.
        Predicate,
    }
    /// Which name filters match.
    FilterNames {
        /// The server's.
        Raw,
        /// The composed one.
        Composed,
    }
    /// Where tools of a stopped server are remembered.
    CacheKind {
        /// Nowhere.
        None,
        /// As long as the program runs.
        Memory,
        /// In a database.
        Disk,
    }
    /// The root of an input schema that the model is shown.
    SchemaRoot {
        /// As it came.
        AsIs,
        /// Always an object.
        Object,
    }
    /// `oneOf`, `anyOf`, `allOf` at the top of an input schema.
    Combinators {
        /// They stay.
        Keep,
        /// They are removed or folded in.
        Remove,
    }
    /// How `{server}` is made.
    ServerSlug {
        /// It is the server's name.
        AsIs,
        /// It is derived from it in a way that is not promised.
        Opaque,
    }
    /// What is done with a name that is too long.
    Overflow {
        /// Cut, with a suffix that makes it unique.
        Hash,
        /// Cut.
        Truncate,
        /// The tool is not offered.
        Drop,
    }
    /// What is done with two tools of one name.
    Clash {
        /// A suffix makes them different.
        Hash,
        /// The later one is not offered.
        SkipLater,
        /// The start fails.
        Error,
        /// The later one takes the name.
        Replace,
    }
    /// The reaction to a changed list.
    OnChange {
        /// The list is fetched at once.
        RefetchNow,
        /// The list is fetched before the next call.
        BeforeNextCall,
        /// None.
        Ignore,
    }
    /// When the model sees a changed list.
    Visible {
        /// As soon as it is fetched.
        AtOnce,
        /// With the next call.
        NextCall,
        /// With the next turn.
        NextTurn,
        /// When the registry of tools is rebuilt.
        Rebuild,
    }
    /// Image blocks.
    Image {
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
    Audio {
        /// As audio.
        Audio,
        /// Described in text.
        Describe,
        /// Gone.
        Drop,
    }
    /// Embedded text resources.
    EmbeddedText {
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
    EmbeddedBlob {
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
    ResourceLink {
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
    Structured {
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
    IsError {
        /// A result that is marked as an error.
        ToolError,
        /// The call fails.
        Exception,
        /// As text.
        Text,
    }
    /// What a limit of text counts.
    LimitScope {
        /// All text of a result together.
        Result,
        /// Each block.
        Block,
    }
    /// What brings a dead server back.
    Trigger {
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
    Reset {
        /// A call.
        Call,
        /// A start.
        Start,
    }
    /// What lets calls start a server again that is only restarted by hand.
    Rearm {
        /// A new session.
        Session,
        /// A start by hand.
        Manual,
    }
    /// The reaction to a lost session.
    SessionLost {
        /// The next call opens a new one.
        NextCall,
        /// A new one is opened at once.
        AtOnce,
        /// The caller gets the error.
        Surface,
    }
    /// When servers are stopped.
    StopOn {
        /// The program ends.
        #[serde(rename = "exit")]
        Exit,
        /// SIGINT.
        #[serde(rename = "SIGINT")]
        Sigint,
        /// SIGTERM.
        #[serde(rename = "SIGTERM")]
        Sigterm,
        /// SIGHUP.
        #[serde(rename = "SIGHUP")]
        Sighup,
    }
    /// How a client gets its id at an authorization server.
    Registration {
        /// By dynamic registration.
        Dynamic,
        /// It is registered beforehand.
        Preregistered,
        /// By a client id metadata document.
        MetadataDocument,
    }
    /// A configured Authorization header where OAuth is on.
    StaticHeader {
        /// It is sent.
        Sent,
        /// It is not sent.
        Ignored,
    }
    /// How the code comes back from the browser.
    Login {
        /// A listener on loopback.
        Loopback,
        /// The user pastes the address.
        Paste,
        /// Another machine forwards it.
        Forward,
    }
    /// Where credentials live.
    StoreKind {
        /// In memory.
        Memory,
        /// In a file.
        File,
        /// In the keychain of the operating system.
        Keychain,
    }
    /// A layer of policy.
    Layer {
        /// A rule for the tool.
        Tool,
        /// A rule for the server.
        Server,
        /// The tool's annotations.
        Annotations,
        /// A rule of the project.
        Project,
        /// A rule of the program.
        App,
        /// What is built in.
        Default,
    }
    /// The use made of annotations.
    Annotations {
        /// They are mapped to a policy.
        Map,
        /// They decide which tools are offered.
        Filter,
        /// They are shown and grant nothing.
        Hint,
        /// None.
        Ignore,
    }
    /// Which of two contradicting hints wins.
    BothHints {
        /// `destructiveHint`
        #[serde(rename = "destructive")]
        Destructive,
        /// `readOnlyHint`
        #[serde(rename = "read_only")]
        ReadOnly,
    }
    /// What may be done with a tool.
    Mode {
        /// Nothing: it is switched off.
        Off,
        /// The user is asked.
        Ask,
        /// What matches is allowed, the rest is asked.
        Allowlist,
        /// All calls are allowed.
        Allow,
    }
    /// How far "always allow" reaches.
    AlwaysAllow {
        /// This tool.
        Tool,
        /// All tools of its server.
        Server,
        /// All tools.
        All,
    }
    /// How tools are shown with nothing set.
    Disclosure {
        /// In full.
        Full,
        /// Only as a catalog, until they are found.
        Lazy,
    }
    /// A form in which a tool can be shown.
    Level {
        /// Name, description, schema.
        Full,
        /// Name and description.
        Brief,
        /// One line.
        Summary,
    }
    /// A kind of query.
    SearchForm {
        /// A part of name or description.
        #[serde(rename = "substring")]
        Substring,
        /// Several words, ranked.
        #[serde(rename = "keywords")]
        Keywords,
        /// Names after `select:`.
        #[serde(rename = "select:")]
        Select,
    }
    /// What the prompt shows of deferred tools.
    Catalog {
        /// Names only.
        Names,
        /// Names and descriptions.
        Descriptions,
    }
    /// How a found tool is called.
    FoundCall {
        /// Through a tool that dispatches.
        Dispatch,
        /// It joins the list of tools.
        Unlock,
    }
    /// How long what was found stays found.
    FoundLasts {
        /// Until the run ends.
        Run,
        /// As long as the conversation, also when that is compacted.
        Conversation,
    }
    /// A call of a deferred tool that was not found before.
    Unfound {
        /// It is refused.
        Refused,
        /// It is made.
        Allowed,
    }
    /// What must not be seen in errors, status and logs.
    Secret {
        /// Terminal control sequences.
        Control,
        /// User and password in URLs.
        UrlUserinfo,
        /// The query of URLs.
        UrlQuery,
        /// Values of `env`.
        Env,
        /// Values of `headers`.
        Headers,
        /// Bearer tokens.
        Bearer,
        /// Arguments of the command.
        Args,
    }
    /// The root in `roots/list`.
    RootAnswer {
        /// The host's working directory.
        Cwd,
        /// The project.
        Project,
        /// There is none; the capability is not declared.
        None,
    }
    /// A path that leaves the project.
    Escape {
        /// It is refused.
        Refuse,
        /// It passes.
        Pass,
    }
}

/// The names of an entry's fields in no host's dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Neutral {
    /// The program of a stdio server.
    Command,
    /// Its arguments.
    Args,
    /// Program and arguments in one list.
    Argv,
    /// Variables of its environment.
    Env,
    /// Names of the host's variables that it gets.
    EnvPass,
    /// Its working directory.
    Cwd,
    /// Gets `env` and nothing else.
    StrictEnv,
    /// The URL of an HTTP server.
    Url,
    /// Headers of each request.
    Headers,
    /// Headers with values from the host's variables.
    HeaderEnv,
    /// The host's variable that holds a bearer token.
    BearerEnv,
    /// The transport.
    Type,
    /// Whether it is switched on.
    Enabled,
    /// Whether its failure ends the start.
    Required,
    /// Only these tools.
    Allow,
    /// Not these tools.
    Deny,
    /// A function that decides on tools.
    Predicate,
    /// Budget of the start.
    StartupTimeout,
    /// Budget of a call.
    ToolTimeout,
    /// Budgets of calls by raw name.
    PerToolTimeout,
    /// How its tools are disclosed.
    Disclosure,
    /// Tools supplied beforehand.
    SuppliedTools,
    /// Connects with the first call only.
    LazyConnect,
    /// Whether its process is shared.
    Shared,
    /// OAuth settings.
    Auth,
    /// Rules of policy for the server.
    Policy,
}

/// Failures that have a code or text of the host's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The transport failed.
    Transport,
    /// The server answered with an error.
    Rpc,
    /// No answer in time.
    Timeout,
    /// There is no such server.
    NoServer,
    /// There is no such tool.
    NoTool,
    /// The tool is switched off.
    Disabled,
    /// A path leaves the project.
    OutsideProject,
    /// A variable is unset.
    UnsetVariable,
    /// The user has to sign in.
    NeedsLogin,
}

/// What a host reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventName {
    /// A connection is up.
    Connect,
    /// A connection has ended.
    Close,
    /// A server failed.
    Error,
    /// Stderr, or a dropped connection.
    Warn,
    /// The start of a server has ended, well or not.
    Started,
    /// The user has to sign in.
    AuthRequired,
    /// The address to sign in at.
    AuthUrl,
    /// Signed in.
    AuthSuccess,
    /// Signing in failed.
    AuthError,
    /// A tool is called.
    ToolCall,
    /// A tool has answered.
    ToolResult,
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

/// One name, or several that mean the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Names {
    /// One.
    One(String),
    /// Several, the first one preferred.
    Many(Vec<String>),
}

impl Names {
    /// All of them.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }

    /// The one to write.
    pub fn preferred(&self) -> Option<&str> {
        self.all().first().map(String::as_str)
    }
}
