//! What a client is configured with. Every field is a choice that real clients make differently.

use crate::oauth::{ClientKey, Grant};
use serde_json::{Map, Value, json};
use sparring_wire::Revision;
use std::time::Duration;

/// All choices of a client. [`Settings::default`] keeps every MUST and SHOULD of the specification.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `clientInfo.name`.
    pub name: String,
    /// `clientInfo.version`.
    pub version: String,
    /// `clientInfo.title`; sent from 2025-06-18 on.
    pub title: Option<String>,
    /// The revision preferred. 2026-07-28: a server is probed for it first. An earlier one: it is offered in
    /// `initialize`.
    pub offer: Revision,
    /// Revisions with which the client works on when the server answers with them, or, if `offer` is stateless and
    /// the server is not, that it falls back to: the newest of them is offered in `initialize`.
    pub accept: Vec<Revision>,
    /// The client capabilities declared.
    pub declare: Declared,
    /// The roots served at first; see [`crate::Connection::set_roots`].
    pub roots: Vec<Root>,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Whether the server is told, by `notifications/cancelled`, of a request that its caller has cancelled. What has
    /// taken too long is withdrawn in any case.
    pub tell_cancelled: bool,
    /// Whether `tools/list` is sent only to servers that declare tools. Without it, any server is asked.
    pub only_declared_tools: bool,
    /// Whether `ping` requests of the server are answered.
    pub answer_pings: bool,
    /// After how long a silence the client pings by itself; `None`: never.
    pub ping_every: Option<Duration>,
    /// How lists are read.
    pub pages: Paging,
    /// What a `list_changed` notification leads to.
    pub list_changed: ListChangedPolicy,
    /// The least time between two fetches of one list that notifications caused.
    pub refetch_gap: Duration,
    /// Whether `structuredContent` is validated against the tool's `outputSchema`.
    pub validate_output: bool,
    /// Which changes of lists the client subscribes to by itself, in the stateless revision. Only what the server
    /// offers is asked for.
    pub listen: ListenTo,
    /// Whether `ttlMs` and `cacheScope` of results are honoured, in the stateless revision.
    pub honour_ttl: bool,
    /// How often one request may be answered with `input_required` before it is given up.
    pub max_rounds: u32,
    /// How many questions (sampling, elicitation) one server may put within a minute; more are refused.
    pub asks_per_minute: u32,
    /// How often one request is sent anew, under another id, when the stream of its answer breaks (stateless
    /// revision, HTTP).
    pub reissues: u32,
    /// The least time between two requests for completions of the same argument.
    pub completion_gap: Duration,
    /// How long the answer to such a request is taken for still right.
    pub completion_ttl: Duration,
    /// How long-running calls of tools are handled.
    pub tasks: TaskSettings,
    /// The stdio transport.
    pub stdio: StdioSettings,
    /// The Streamable HTTP transport.
    pub http: HttpSettings,
    /// Authorization; `None`: a 401 is an error and nothing more.
    pub oauth: Option<OauthSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "sparring-client".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            title: None,
            offer: Revision::STATELESS,
            accept: Revision::ALL.to_vec(),
            declare: Declared::default(),
            roots: Vec::new(),
            timeouts: Timeouts::default(),
            tell_cancelled: true,
            only_declared_tools: true,
            answer_pings: true,
            ping_every: Some(Duration::from_secs(60)),
            pages: Paging::default(),
            list_changed: ListChangedPolicy::RefetchNow,
            refetch_gap: Duration::from_millis(500),
            validate_output: true,
            listen: ListenTo::default(),
            honour_ttl: true,
            max_rounds: 16,
            asks_per_minute: 300,
            reissues: 1,
            completion_gap: Duration::from_millis(50),
            completion_ttl: Duration::from_secs(5),
            tasks: TaskSettings::default(),
            stdio: StdioSettings::default(),
            http: HttpSettings::default(),
            oauth: None,
        }
    }
}

/// The client capabilities to declare. Requests for what is not declared are answered with -32601.
#[derive(Debug, Clone, Default)]
pub struct Declared {
    /// `roots`.
    pub roots: Option<RootsCapability>,
    /// `sampling`.
    pub sampling: Option<SamplingCapability>,
    /// `elicitation`; exists from 2025-06-18 on and is not declared before.
    pub elicitation: Option<ElicitationCapability>,
    /// Task-augmented requests of the server (2025-11-25 only).
    pub tasks: Option<TasksCapability>,
    /// `experimental`.
    pub experimental: Option<Map<String, Value>>,
    /// `extensions`, from 2026-07-28 on: names with a prefix, and their settings. The tasks extension is declared by
    /// [`Settings::tasks`].
    pub extensions: Map<String, Value>,
}

impl Declared {
    /// Everything there is, with all options.
    pub fn all() -> Self {
        Self {
            roots: Some(RootsCapability { list_changed: true }),
            sampling: Some(SamplingCapability { tools: true, context: false }),
            elicitation: Some(ElicitationCapability { form: true, url: true }),
            tasks: Some(TasksCapability { sampling: true, elicitation: true, list: true, cancel: true }),
            experimental: None,
            extensions: Map::new(),
        }
    }

    /// The client's capabilities as `revision` defines them: in `initialize`, or in `_meta` of each request.
    pub fn to_json(&self, revision: Revision) -> Value {
        let mut all = Map::new();
        if let Some(roots) = &self.roots {
            let roots =
                if revision.is_stateless() { json!({}) } else { json!({"listChanged": roots.list_changed}) };
            all.insert("roots".into(), roots);
        }
        let fine = revision >= Revision::V2025_11_25;
        if let Some(sampling) = &self.sampling {
            let mut inner = Map::new();
            if fine && sampling.tools {
                inner.insert("tools".into(), json!({}));
            }
            if fine && sampling.context {
                inner.insert("context".into(), json!({}));
            }
            all.insert("sampling".into(), Value::Object(inner));
        }
        if let Some(elicitation) = &self.elicitation
            && revision >= Revision::V2025_06_18
        {
            let mut inner = Map::new();
            if fine && elicitation.form {
                inner.insert("form".into(), json!({}));
            }
            if fine && elicitation.url {
                inner.insert("url".into(), json!({}));
            }
            all.insert("elicitation".into(), Value::Object(inner));
        }
        if let Some(tasks) = &self.tasks
            && revision == Revision::V2025_11_25
        {
            all.insert("tasks".into(), tasks.to_json());
        }
        if let Some(experimental) = &self.experimental {
            all.insert("experimental".into(), Value::Object(experimental.clone()));
        }
        if revision.is_stateless() && !self.extensions.is_empty() {
            all.insert("extensions".into(), Value::Object(self.extensions.clone()));
        }
        Value::Object(all)
    }
}

/// The `roots` capability.
#[derive(Debug, Clone, Copy, Default)]
pub struct RootsCapability {
    /// Whether changes are announced.
    pub list_changed: bool,
}

/// The `sampling` capability.
#[derive(Debug, Clone, Copy, Default)]
pub struct SamplingCapability {
    /// Requests may carry `tools` and `toolChoice` (from 2025-11-25).
    pub tools: bool,
    /// Requests may ask for context of servers (from 2025-11-25).
    pub context: bool,
}

/// The `elicitation` capability; at least one mode should be on.
#[derive(Debug, Clone, Copy)]
pub struct ElicitationCapability {
    /// Forms.
    pub form: bool,
    /// URLs (from 2025-11-25).
    pub url: bool,
}

/// The `tasks` capability of 2025-11-25: which requests of the server may run as tasks of the client.
#[derive(Debug, Clone, Copy, Default)]
pub struct TasksCapability {
    /// `sampling/createMessage`
    pub sampling: bool,
    /// `elicitation/create`
    pub elicitation: bool,
    /// `tasks/list` is answered.
    pub list: bool,
    /// `tasks/cancel` is answered.
    pub cancel: bool,
}

impl TasksCapability {
    fn to_json(self) -> Value {
        let mut requests = Map::new();
        if self.sampling {
            requests.insert("sampling".into(), json!({"createMessage": {}}));
        }
        if self.elicitation {
            requests.insert("elicitation".into(), json!({"create": {}}));
        }
        let mut all = Map::new();
        all.insert("requests".into(), Value::Object(requests));
        for (name, held) in [("list", self.list), ("cancel", self.cancel)] {
            if held {
                all.insert(name.into(), json!({}));
            }
        }
        Value::Object(all)
    }
}

/// Which changes of lists a client subscribes to by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenTo {
    /// `notifications/tools/list_changed`
    pub tools: bool,
    /// `notifications/prompts/list_changed`
    pub prompts: bool,
    /// `notifications/resources/list_changed`
    pub resources: bool,
}

impl Default for ListenTo {
    fn default() -> Self {
        Self { tools: true, prompts: true, resources: true }
    }
}

impl ListenTo {
    /// Nothing.
    pub const NONE: Self = Self { tools: false, prompts: false, resources: false };
}

/// How long-running calls of tools are handled: the tasks of 2025-11-25, and the extension of 2026-07-28.
#[derive(Debug, Clone, Copy)]
pub struct TaskSettings {
    /// Which calls may become tasks. Other than [`TaskUse::Never`], it means that the extension is declared.
    pub call: TaskUse,
    /// The lifetime asked for (2025-11-25); `None`: as the server thinks fit.
    pub ttl: Option<Duration>,
    /// How long to wait between two looks at a task, if the server says nothing about it.
    pub poll_every: Duration,
    /// How long a task may run before its caller stops waiting, unless the options of the call say otherwise.
    pub limit: Duration,
    /// The longest lifetime that a task of the server's may have at this client (2025-11-25).
    pub serve_ttl: Duration,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            call: TaskUse::WhenRequired,
            ttl: None,
            poll_every: Duration::from_secs(1),
            limit: Duration::from_secs(3600),
            serve_ttl: Duration::from_secs(3600),
        }
    }
}

/// Which calls of tools may become tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskUse {
    /// None; a tool that requires it can't be called.
    Never,
    /// Calls of tools that require it, and (2026-07-28) those that the server turns into tasks.
    WhenRequired,
    /// Also calls of tools for which it is optional.
    WhenOffered,
}

/// A root offered to servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// A name for people.
    pub name: Option<String>,
}

impl Root {
    /// Whether it is a `file://` URI that leads nowhere but where it seems to.
    pub(crate) fn is_proper(&self) -> bool {
        let lower = self.uri.to_ascii_lowercase();
        let climbs = lower.replace("%2e", ".").replace("%2f", "/").replace('\\', "/");
        lower.starts_with("file://")
            && url::Url::parse(&self.uri).is_ok()
            && !climbs.split('/').any(|segment| segment == "..")
    }

    /// As an entry of the result of `roots/list`.
    pub fn to_json(&self) -> Value {
        let mut root = Map::new();
        root.insert("uri".into(), self.uri.as_str().into());
        if let Some(name) = &self.name {
            root.insert("name".into(), name.as_str().into());
        }
        Value::Object(root)
    }
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Spawning or reaching the server, and the whole handshake.
    pub start: Duration,
    /// A request, unless its options say otherwise.
    pub request: Duration,
    /// A request as a whole, however much progress is reported.
    pub ceiling: Duration,
    /// Whether progress starts the request's timeout anew.
    pub reset_on_progress: bool,
    /// A ping of the client's own.
    pub ping: Duration,
    /// How long a stdio server may leave the probe for the stateless revision unanswered before it counts as one that
    /// wants a handshake; at most half of `start`.
    pub probe: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            request: Duration::from_secs(60),
            ceiling: Duration::from_secs(300),
            reset_on_progress: true,
            ping: Duration::from_secs(15),
            probe: Duration::from_secs(5),
        }
    }
}

/// How paginated lists are read by the default [`crate::ListPolicy`].
#[derive(Debug, Clone, Copy)]
pub struct Paging {
    /// Whether `nextCursor` is followed at all.
    pub follow: bool,
    /// The most pages read before the list counts as endless.
    pub limit: u32,
}

impl Default for Paging {
    fn default() -> Self {
        Self { follow: true, limit: 1000 }
    }
}

/// What a `list_changed` notification leads to, for lists that were read before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListChangedPolicy {
    /// The list is read again at once.
    RefetchNow,
    /// The list is read again when it is next needed.
    BeforeNextUse,
    /// Nothing.
    Ignore,
}

/// The stdio transport.
#[derive(Debug, Clone)]
pub struct StdioSettings {
    /// What a server inherits of the client's environment.
    pub env: EnvPolicy,
    /// How long the server may take to exit after its stdin was closed.
    pub close_wait: Duration,
    /// How long it may take after SIGTERM, before SIGKILL.
    pub terminate_wait: Duration,
    /// The longest line accepted from the server, in bytes.
    pub max_line: usize,
    /// Whether a line that is no JSON is passed over. Without it, it ends the connection.
    pub tolerate_noise: bool,
    /// How much of the end of stderr is kept for error messages, in bytes.
    pub stderr_tail: usize,
    /// Whether a server leads a process group of its own, all of which is ended with it.
    pub own_group: bool,
}

impl Default for StdioSettings {
    fn default() -> Self {
        Self {
            env: EnvPolicy::Minimal,
            close_wait: Duration::from_secs(2),
            terminate_wait: Duration::from_secs(2),
            max_line: 64 << 20,
            tolerate_noise: true,
            stderr_tail: 4096,
            own_group: true,
        }
    }
}

/// What a stdio server inherits of the client's environment; its own entries are set on top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvPolicy {
    /// Everything.
    All,
    /// What programs need to run: paths, home, user, locale, terminal, temporary folder.
    Minimal,
    /// Everything but these names.
    Without(Vec<String>),
    /// Nothing.
    None,
}

impl EnvPolicy {
    /// Whether the variable `name` is handed on.
    pub fn passes(&self, name: &str) -> bool {
        const MINIMAL: [&str; 22] = [
            "HOME",
            "LANG",
            "LANGUAGE",
            "LOGNAME",
            "PATH",
            "SHELL",
            "TERM",
            "TMPDIR",
            "TZ",
            "USER",
            // Windows
            "APPDATA",
            "HOMEDRIVE",
            "HOMEPATH",
            "LOCALAPPDATA",
            "PATHEXT",
            "PROCESSOR_ARCHITECTURE",
            "PROGRAMFILES",
            "SYSTEMDRIVE",
            "SYSTEMROOT",
            "TEMP",
            "USERNAME",
            "USERPROFILE",
        ];
        match self {
            Self::All => true,
            Self::Minimal => MINIMAL.contains(&name) || name.starts_with("LC_"),
            Self::Without(denied) => !denied.iter().any(|d| d == name),
            Self::None => false,
        }
    }
}

/// The HTTP transports.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Whether the standalone GET stream is opened after the handshake.
    pub open_stream: bool,
    /// How long requests wait for the answer to that GET at most, so that what the server asks because of them does not
    /// get lost.
    pub stream_wait: Duration,
    /// Whether a session is ended with DELETE at close.
    pub delete_session: bool,
    /// How long DELETE may take.
    pub delete_wait: Duration,
    /// The longest body or server-sent event accepted, in bytes.
    pub max_message: usize,
    /// Waits before a broken stream is opened again, in turn; the last one repeats. A longer `retry` wins.
    pub stream_waits: Vec<Duration>,
    /// How many attempts in a row may fail before a stream is given up.
    pub stream_attempts: u32,
    /// Whether a lost session (404) is opened anew, and the request that met it sent once more.
    pub reopen_session: bool,
    /// Whether, where it is not opened anew, its loss is the end of the connection. Without that, requests go on in the
    /// lost session.
    pub end_with_session: bool,
    /// Whether a server that refuses `initialize` with 400, 404 or 405 is asked for an event stream of HTTP+SSE
    /// (2024-11-05), and spoken to in that way if it opens one. [`crate::Target::Http`] alone.
    pub legacy_fallback: bool,
    /// How long such a server may take to name its endpoint.
    pub endpoint_wait: Duration,
    /// Most 307 and 308 redirects followed for one request, on the same origin only.
    pub max_redirects: u32,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            open_stream: true,
            stream_wait: Duration::from_millis(200),
            delete_session: true,
            delete_wait: Duration::from_secs(2),
            max_message: 64 << 20,
            stream_waits: [100, 250, 500, 1000, 2000, 5000, 15_000, 30_000]
                .map(Duration::from_millis)
                .to_vec(),
            stream_attempts: 5,
            reopen_session: true,
            end_with_session: false,
            legacy_fallback: true,
            endpoint_wait: Duration::from_secs(5),
            max_redirects: 3,
        }
    }
}

/// Authorization by OAuth.
#[derive(Debug, Clone)]
pub struct OauthSettings {
    /// How tokens are obtained.
    pub grant: Grant,
    /// Whether a person may be asked to log in as soon as a server demands it.
    pub login: LoginPolicy,
    /// Whether only a server that has protected resource metadata (RFC 9728) is logged in to: one that nobody said is to
    /// be logged in to. Without such metadata, its 401 is an error and nothing more.
    pub needs_metadata: bool,
    /// Clients registered beforehand, looked up by issuer. If there are any and none is for the server's issuer, the
    /// login fails: they belong elsewhere.
    pub registered: Vec<RegisteredClient>,
    /// The key by which a registered client, or the client of the metadata document, authenticates where the server
    /// accepts `private_key_jwt`.
    pub key: Option<ClientKey>,
    /// The https URL of the client's metadata document, used as client id where the server knows such.
    pub metadata_document: Option<String>,
    /// Whether dynamic registration may be used.
    pub dynamic_registration: bool,
    /// The redirect URI, if the [`crate::Browser`] brings back the final URL by itself. `None`: the client listens
    /// on `http://127.0.0.1:PORT/callback`.
    pub redirect_uri: Option<String>,
    /// The port of that listener; 0: any.
    pub callback_port: u16,
    /// A redirect URI on loopback at which the client listens instead, such as `http://localhost:3118/oauth/callback`:
    /// one that is registered in this form.
    pub listen_at: Option<String>,
    /// Scopes wanted when neither challenge nor metadata name any.
    pub scope: Option<String>,
    /// Whether `offline_access` is asked for where the authorization server offers it (from 2026-07-28), so that there
    /// is a refresh token.
    pub offline_access: bool,
    /// Whether tokens are bound to a key of the client (DPoP) where a server demands it.
    pub proofs: bool,
    /// How long one HTTP request of the flow may take.
    pub http_wait: Duration,
    /// How long a person may take in the browser.
    pub browser_wait: Duration,
    /// Whether refresh tokens are used. Without it, the user signs in again when a token has expired.
    pub refresh: bool,
    /// Tokens that expire within this time are refreshed beforehand.
    pub refresh_ahead: Duration,
    /// How often one request may be sent again after 401 or 403, in all.
    pub attempts: u32,
    /// What is verified.
    pub strict: OauthChecks,
}

/// When a person is asked to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginPolicy {
    /// Whenever a server demands it, also while the client starts.
    WhenDemanded,
    /// Never by itself: stored tokens are used and refreshed, and where they don't suffice requests end with
    /// [`crate::Error::NeedsLogin`]. [`crate::Client::login`] is how a person logs in.
    Never,
}

impl Default for OauthSettings {
    fn default() -> Self {
        Self {
            grant: Grant::AuthorizationCode,
            login: LoginPolicy::WhenDemanded,
            needs_metadata: false,
            registered: Vec::new(),
            key: None,
            metadata_document: None,
            dynamic_registration: true,
            redirect_uri: None,
            callback_port: 0,
            listen_at: None,
            scope: None,
            offline_access: true,
            proofs: true,
            http_wait: Duration::from_secs(30),
            browser_wait: Duration::from_secs(300),
            refresh: true,
            refresh_ahead: Duration::from_secs(5),
            attempts: 2,
            strict: OauthChecks::default(),
        }
    }
}

/// What the OAuth flow verifies; all of it by default.
#[derive(Debug, Clone, Copy)]
pub struct OauthChecks {
    /// `state` of the answer equals the one sent.
    pub state: bool,
    /// `iss` of the answer, if present, equals the issuer.
    pub iss: bool,
    /// `issuer` of the authorization server's metadata equals the one asked for.
    pub issuer: bool,
    /// The metadata must list S256 (from 2025-11-25).
    pub pkce_support: bool,
    /// `resource` of the protected resource metadata matches the server.
    pub resource: bool,
    /// Endpoints use https, or http on loopback.
    pub https: bool,
    /// A server in the internet names no addresses in private networks or on this machine; needs `https`.
    pub addresses: bool,
}

impl Default for OauthChecks {
    fn default() -> Self {
        Self {
            state: true,
            iss: true,
            issuer: true,
            pkce_support: true,
            resource: true,
            https: true,
            addresses: true,
        }
    }
}

/// A client that was registered with an authorization server beforehand.
#[derive(Clone, PartialEq, Eq)]
pub struct RegisteredClient {
    /// The issuer it is registered with; `None`: any.
    pub issuer: Option<String>,
    /// `client_id`.
    pub id: String,
    /// `client_secret`.
    pub secret: Option<String>,
}

impl std::fmt::Debug for RegisteredClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegisteredClient")
            .field("issuer", &self.issuer)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
