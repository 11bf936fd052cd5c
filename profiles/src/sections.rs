//! The sections of a profile. Each is declared once, and exists twice: as it stands in a file, where every field may be
//! missing, and in [`Settings`], where a field without a default is still optional and any other has a value.

use crate::words::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sparring_wire::Revision;
use std::collections::BTreeMap;

/// A field of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its section and name, such as `naming.max_len`.
    pub id: &'static str,
    /// What it means.
    pub about: &'static str,
}

macro_rules! sections {
    ($($(#[$about:meta])* $section:ident: $name:ident / $settings:ident {
        $($(#[doc = $field_about:literal])* $field:ident: $type:ty $(= $default:expr)?,)*
    })*) => {
        $(
            $(#[$about])*
            #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields, default)]
            pub struct $name {
                $(
                    $(#[doc = $field_about])*
                    #[serde(skip_serializing_if = "Option::is_none")]
                    pub $field: Option<$type>,
                )*
            }

            $(#[$about])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $settings {
                $(
                    $(#[doc = $field_about])*
                    pub $field: sections!(@type $type $(, $default)?),
                )*
            }

            impl Default for $settings {
                fn default() -> Self {
                    Self { $($field: sections!(@default $($default)?),)* }
                }
            }

            impl $name {
                /// What is missing here comes from `base`.
                fn or(self, base: Self) -> Self {
                    Self { $($field: self.$field.or(base.$field),)* }
                }

                fn settings(&self) -> $settings {
                    $settings {
                        $($field: sections!(@resolve self.$field.clone() $(, $default)?),)*
                    }
                }
            }
        )*

        /// A host profile: every field that is set is a promise.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct Profile {
            /// Which host it is.
            pub host: Host,
            $($(#[$about])* pub $section: $name,)*
        }

        /// Everything that a host does, decided: a profile with the reference client's choice where it has none.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Settings {
            $($(#[$about])* pub $section: $settings,)*
        }

        impl Profile {
            /// This profile, with what it leaves out taken from `base`.
            #[must_use]
            pub fn or(self, base: Self) -> Self {
                Self { host: self.host.or(base.host), $($section: self.$section.or(base.$section),)* }
            }

            /// What the reference client does to be this host.
            #[must_use]
            pub fn settings(&self) -> Settings {
                Settings { $($section: self.$section.settings(),)* }
            }
        }

        /// All fields but those of `[host]`, in order.
        pub const FIELDS: &[Field] = &[
            $($(Field {
                id: concat!(stringify!($section), ".", stringify!($field)),
                about: concat!($($field_about),*),
            },)*)*
        ];
    };
    (@type $type:ty) => { Option<$type> };
    (@type $type:ty, $default:expr) => { $type };
    (@default) => { None };
    (@default $default:expr) => { $default };
    (@resolve $value:expr) => { $value };
    (@resolve $value:expr, $default:expr) => { $value.unwrap_or_else(|| $default) };
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
    /// The profile that it starts from: a built-in one, or a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
}

impl Host {
    fn or(self, base: Self) -> Self {
        Self {
            name: self.name.or(base.name),
            version: self.version.or(base.version),
            url: self.url.or(base.url),
            extends: self.extends,
        }
    }
}

fn strings<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

use ProfileTransport::{Http, Sse, Stdio};

sections! {
    /// `[protocol]`: the handshake, and cancelling.
    protocol: Protocol / ProtocolSettings {
        /// The revision sent in `initialize`.
        offers: Revision = Revision::LATEST_HANDSHAKE,
        /// Counter-offers with which it works on, besides its own offer; all others fail the start.
        accepts: Vec<Revision> = vec![Revision::V2025_06_18, Revision::V2025_03_26, Revision::V2024_11_05],
        /// Cancelling by the user sends `notifications/cancelled`.
        cancel_notifies: bool = true,
    }

    /// `[transports]`: how servers are reached.
    transports: Transports / TransportsSettings {
        /// What it can connect to; the rest is refused.
        kinds: Vec<ProfileTransport> = vec![Stdio, Http, Sse],
        /// Configured headers go with every request.
        static_headers: bool = true,
        /// One connection serves many calls.
        persist: bool = true,
        /// All agents of the process use one connection.
        shared_by_agents: bool = true,
    }

    /// `[config]`: the configuration that the host reads.
    config: Config / ConfigSettings {
        /// The format of the file.
        format: Format = Format::Json,
        /// Accepted top-level keys; the first is preferred.
        root_keys: Vec<String> = strings(["mcpServers"]),
        /// Accepted shapes. Without it the harness writes a map, in YAML a list.
        shape: Vec<Shape> = vec![Shape::Map, Shape::List],
        /// The places read, strongest first; with `{home}`, `{cwd}`, `{project}`, `{env:NAME}`.
        files: Vec<String> = strings(["{cwd}/.mcp.json", "{home}/.config/sparring-client/mcp.json"]),
        /// The key of a configuration file that names a folder with further files, each of one server.
        folder_key: String,
        /// Those of `files` that count only as long as the others of their kind, project or user, are not there.
        legacy: Vec<String> = Vec::new(),
        /// Files of other programs, whose servers are taken over if the user wants that. Own ones win.
        imports: Vec<String> = Vec::new(),
        /// Files of other programs that are read in any case; their stdio servers only if the user wants that.
        imports_http: Vec<String> = Vec::new(),
        /// The key of an entry that holds a list of tools, which belongs into the cache.
        inline_cache: String,
        /// The order in which servers are listed.
        listing: Listing = Listing::Configured,
        /// The same name in two places.
        merge: Merge = Merge::ReplaceEntry,
        /// What a project is.
        project_root: ProjectRoot = ProjectRoot::GitRootOrCwd,
        /// Deeper files add servers for their subtree.
        subtree: bool = false,
        /// The host's names of the fields of an entry: one, or several that mean the same. What is missing does not
        /// exist there.
        keys: BTreeMap<Neutral, Names> = default_keys(),
        /// The host's spellings of the transports.
        types: BTreeMap<ProfileTransport, Vec<String>> = default_types(),
        /// The transport may be left out.
        infers_type: bool = true,
        /// An entry with a command and a URL.
        both: BothTargets = BothTargets::Error,
        /// When an edit of the configuration counts.
        reload: Reload = Reload::Session,
    }

    /// `[env]`: environment and working directory of stdio servers, and the expansion of variables.
    env: Env / EnvSettings {
        /// What a stdio child gets besides the `env` of its entry.
        inherit: Inherit = Inherit::Minimal,
        /// Names that are in the child if the host has them.
        must_have: Vec<String> = strings(["PATH", "HOME", "LANG", "TMPDIR"]),
        /// Names that are never inherited.
        denylist: Vec<String> = Vec::new(),
        /// The entry may set a denied one.
        explicit_beats_denylist: bool = true,
        /// An option passes `env` and nothing else.
        strict_option: bool = true,
        /// An option names variables to let through.
        pass_option: bool = true,
        /// The spellings that are replaced.
        expand: Vec<String> = strings(["${VAR}", "${VAR:-default}"]),
        /// The fields where that happens.
        expand_in: Vec<ExpandIn> = vec![
            ExpandIn::Command, ExpandIn::Args, ExpandIn::Cwd, ExpandIn::Env, ExpandIn::Url, ExpandIn::Headers,
        ],
        /// An unset variable without default.
        unset: Unset = Unset::DisableServer,
        /// The argv arrives byte for byte: no variable is replaced in it.
        argv_verbatim: bool = false,
        /// Working directory of a child if none is set.
        cwd_default: Base = Base::Host,
        /// Where a relative working directory starts.
        cwd_base: Base = Base::Host,
    }

    /// `[startup]`: when and how servers are started.
    startup: Startup / StartupSettings {
        /// First contact with a server.
        connect: Connect = Connect::Launch,
        /// Connects overlap.
        parallel: bool = true,
        /// One server fails.
        on_failure: OnFailure = OnFailure::Isolate,
        /// A server can be marked so that its failure aborts the start.
        required_option: bool = true,
        /// What brings a server back that failed at start.
        retry_failed: RetryFailed = RetryFailed::NextCall,
        /// Concurrent starters share one attempt.
        shared_attempt: bool = true,
        /// Asking for the list of tools may start a server.
        listing_starts: bool = true,
        /// An entry can be switched off: no contact at all.
        off_switch: bool = true,
    }

    /// `[timeouts]`, in seconds.
    timeouts: Timeouts / TimeoutsSettings {
        /// Budget of a start.
        startup_s: f64 = 30.0,
        /// What that budget spans, as one sum.
        startup_covers: Vec<Phase> = vec![Phase::Spawn, Phase::Initialize, Phase::ToolsList],
        /// Budget of a call.
        tool_s: f64 = 60.0,
        /// It can be set per tool.
        per_tool: bool = true,
        /// Budget of closing, then force.
        close_s: f64 = 2.0,
        /// Which of them the driver may shorten: `startup`, `tool`, `close`.
        settable: Vec<SettableTimeout> =
            vec![SettableTimeout::Startup, SettableTimeout::Tool, SettableTimeout::Close],
    }

    /// `[discovery]`: finding a server's tools.
    discovery: Discovery / DiscoverySettings {
        /// `tools/list` only if `tools` was advertised.
        needs_capability: bool = true,
        /// Follows cursors to the end.
        paginates: bool = true,
        /// Gives up on a list whose cursors never end.
        bounded: bool = true,
        /// The filters it has. They are intersected, so their order changes nothing.
        filters: Vec<ToolFilter> = vec![ToolFilter::Allow, ToolFilter::Deny, ToolFilter::Predicate],
        /// What filters match.
        filter_names: FilterNames = FilterNames::Raw,
        /// Schemas given in advance replace `tools/list`.
        supplied_tools: bool = true,
        /// And then the connection waits for the first call, if the entry says so.
        lazy_connect: bool = true,
        /// Where tools of a stopped server are kept, which are still offered.
        cache: CacheKind = CacheKind::Memory,
        /// Root of an input schema shown to the model.
        schema_root: SchemaRoot = SchemaRoot::AsIs,
        /// `oneOf`, `anyOf`, `allOf` at its top.
        schema_combinators: Combinators = Combinators::Keep,
    }

    /// `[naming]`: the names that the model sees.
    naming: Naming / NamingSettings {
        /// The composed name where nothing needs repair, of `{server}` and `{tool}`.
        template: String = "mcp__{server}__{tool}".to_owned(),
        /// Templates of names that are also accepted in calls.
        aliases: Vec<String> = Vec::new(),
        /// How `{server}` is made.
        server_slug: ServerSlug = ServerSlug::AsIs,
        /// A class of characters: all names consist of them.
        charset: String = "[A-Za-z0-9_-]".to_owned(),
        /// Characters at most, suffix included.
        max_len: u32 = 64,
        /// What is done if it is too long.
        on_overflow: Overflow = Overflow::Hash,
        /// What is done if two tools have one name.
        on_clash: Clash = Clash::Hash,
        /// Characters of the suffix.
        hash_len: u32 = 8,
        /// The same names in each run and in any order of arrival.
        stable: bool = true,
    }

    /// `[list_changed]`: changed lists.
    list_changed: ListChanged / ListChangedSettings {
        /// The reaction to `notifications/tools/list_changed` on the wire.
        tools: OnChange = OnChange::RefetchNow,
        /// When the model sees it.
        visible: Visible = Visible::AtOnce,
        /// Where it holds; everywhere by default.
        transports: Vec<ProfileTransport> = vec![Stdio, Http, Sse],
    }

    /// `[wrappers]`: tools that stand for resources and prompts.
    wrappers: Wrappers / WrappersSettings {
        /// Two templates: list and read; none if empty.
        resources: Vec<String> = Vec::new(),
        /// Two templates: list and get; none if empty.
        prompts: Vec<String> = Vec::new(),
        /// They appear exactly with the capability.
        only_advertised: bool = true,
        /// A read gives all texts, in order.
        read_joins_text: bool = true,
        /// What stands for a blob in a read.
        blob_line: String = "[binary {mime}: ~{bytes} bytes]".to_owned(),
        /// What marks required arguments.
        required_mark: String = "*".to_owned(),
        /// One message of a prompt.
        prompt_line: String = "[{role}] {text}".to_owned(),
    }

    /// `[results]`: how parts of a tool result reach the model.
    results: Results / ResultsSettings {
        /// Bytes of text kept, from and to: longer text is cut in this range, no code point is split; up to the first
        /// number it is intact.
        text_limit: [u64; 2],
        /// What the limit counts.
        limit_scope: LimitScope = LimitScope::Result,
        /// The same limit for reads of resources.
        limit_reads: bool = true,
        /// An image block.
        image: Image = Image::Image,
        /// A resource block with an image blob.
        embedded_image: Image = Image::Image,
        /// A resource block with text.
        embedded_text: EmbeddedText = EmbeddedText::Inline,
        /// A resource block with a blob that is no image.
        embedded_blob: EmbeddedBlob = EmbeddedBlob::Keep,
        /// A resource link.
        resource_link: ResourceLink = ResourceLink::Keep,
        /// An audio block.
        audio: Audio = Audio::Audio,
        /// `structuredContent`.
        structured: Structured = Structured::Both,
        /// `isError: true`.
        is_error: IsError = IsError::ToolError,
        /// Partial results reach the host.
        streams: bool = true,
    }

    /// `[restart]`: servers that end.
    restart: Restart / RestartSettings {
        /// Where it holds.
        transports: Vec<ProfileTransport> = vec![Stdio],
        /// What brings a dead server back.
        trigger: Trigger = Trigger::NextCall,
        /// The call that met the crash is sent again.
        retry_call: bool = false,
        /// Waits before the attempts, in seconds.
        backoff_s: Vec<f64> = vec![1.0, 2.0, 4.0, 8.0, 16.0],
        /// There is a wait before the first attempt.
        first_wait: bool = true,
        /// Attempts in a row, then it gives up.
        max_attempts: u32 = 5,
        /// Which success clears the count.
        reset_on: Reset = Reset::Call,
        /// Handshake and `tools/list` are repeated.
        rediscovers: bool = true,
        /// For `manual`: what lets calls start it again.
        rearm_on: Vec<Rearm> = vec![Rearm::Session, Rearm::Manual],
        /// 404 on a session.
        http_session_lost: SessionLost = SessionLost::NextCall,
        /// The driver may shorten the waits.
        settable: bool = true,
    }

    /// `[shutdown]`: the end of a connection.
    shutdown: Shutdown / ShutdownSettings {
        /// A stdio child leads a process group; closing ends all of it.
        own_group: bool = true,
        /// SIGKILL to the group after `timeouts.close_s`.
        kill_group: bool = true,
        /// A descendant in a session of its own is left alone.
        setsid_survives: bool = true,
        /// DELETE for each HTTP session.
        deletes_session: bool = true,
        /// When servers are stopped.
        on: Vec<StopOn> = vec![StopOn::Exit, StopOn::Sigint, StopOn::Sigterm, StopOn::Sighup],
        /// The next start ends what a killed host left behind.
        reaps_orphans: bool = true,
    }

    /// `[auth]`: authorization.
    auth: Auth / AuthSettings {
        /// It has the OAuth flow of the specification.
        oauth: bool = true,
        /// How it gets a client id.
        registration: Vec<Registration> =
            vec![Registration::Preregistered, Registration::MetadataDocument, Registration::Dynamic],
        /// A 401 with resource metadata starts it without a setting.
        auto_on_401: bool = true,
        /// Not if a header is configured.
        static_header_blocks_auto: bool = true,
        /// A configured Authorization header where OAuth is on.
        static_header_under_oauth: StaticHeader = StaticHeader::Ignored,
        /// The start may ask the user to sign in.
        interactive_start: bool = true,
        /// Ways to bring the code back.
        login: Vec<Login> = vec![Login::Loopback, Login::Paste, Login::Forward],
        /// The port of the callback can be set.
        fixed_port: bool = true,
        /// Expired tokens are refreshed without the user.
        refreshes: bool = true,
        /// Where credentials live.
        store: StoreKind = StoreKind::File,
        /// Mode of that file.
        store_mode: String = "0600".to_owned(),
        /// Bearer tokens by the name of a variable.
        bearer_from_env: bool = true,
        /// Header values by the name of a variable.
        header_from_env: bool = true,
    }

    /// `[policy]`: what may be called, and who is asked.
    policy: Policy / PolicySettings {
        /// Strongest first; the first that says anything wins.
        layers: Vec<Layer> = vec![Layer::Tool, Layer::Server, Layer::Project, Layer::App, Layer::Default],
        /// What holds if no layer speaks.
        default: Map<String, Value> = Map::from_iter([("mode".to_owned(), Value::from("allow"))]),
        /// The use made of annotations.
        annotations: Annotations = Annotations::Hint,
        /// What the hints `destructive` and `read_only` are mapped to.
        map: BTreeMap<BothHints, Map<String, Value>> = BTreeMap::new(),
        /// Both hints are true.
        both: BothHints = BothHints::Destructive,
        /// The modes there are.
        modes: Vec<Mode> = vec![Mode::Off, Mode::Ask, Mode::Allowlist, Mode::Allow],
        /// A tool that is switched off is not shown.
        off_hides: bool = true,
        /// What patterns match, of `{composed}`, `{raw}`, `{server}`, `{first_string_arg}`.
        allowlist_subject: String = "{composed} {first_string_arg}".to_owned(),
        /// What "always" pins.
        always_allow: AlwaysAllow = AlwaysAllow::Tool,
        /// Wrapper tools obey it.
        wrappers_too: bool = true,
        /// A hook of the program can refuse single calls.
        gate: bool = true,
        /// A session can have fewer tools than there are: single tools or servers switched off, or only some allowed, by
        /// name or glob. A tool that a server adds later is there.
        session_filter: bool = true,
    }

    /// `[disclosure]`: tools that the model does not see at once.
    disclosure: Disclosing / DisclosingSettings {
        /// How tools are shown with nothing set.
        default: Disclosure = Disclosure::Full,
        /// The forms in which a tool can be shown.
        levels: Vec<Level> = vec![Level::Full, Level::Brief, Level::Summary],
        /// The tool that gives the full schema of another.
        describe_tool: String = "describe_tool".to_owned(),
        /// The tool that finds deferred tools.
        search_tool: String = "tool_search".to_owned(),
        /// Names of its arguments.
        search_args: Vec<String> = strings(["query", "names", "server", "limit"]),
        /// The queries it understands.
        search_forms: Vec<SearchForm> = vec![SearchForm::Substring],
        /// Hits without a limit.
        search_limit: u32 = 20,
        /// It is allowed even when tools are restricted.
        search_exempt: bool = false,
        /// What the prompt shows of deferred tools.
        catalog: Catalog = Catalog::Descriptions,
        /// The element that holds it.
        catalog_tag: String = "searchable_tools".to_owned(),
        /// How a found tool is called.
        call: FoundCall = FoundCall::Dispatch,
        /// The tool that calls a found tool.
        dispatch_tool: String = "call_tool".to_owned(),
        /// A call of a deferred tool that was not found before.
        unfound: Unfound = Unfound::Refused,
        /// A server can override the mode.
        per_server: bool = true,
        /// There is a mode that binds all tools up to a threshold.
        auto: bool = true,
        /// How long what was found stays found.
        found_lasts: FoundLasts = FoundLasts::Conversation,
        /// The host's own tools are not deferred.
        native_eager: bool = true,
    }

    /// `[instructions]`: what servers say of themselves.
    instructions: Instructions / InstructionsSettings {
        /// Instructions of servers reach the system prompt.
        in_prompt: bool = true,
        /// The text that introduces them.
        marker: String = "# MCP Server Instructions".to_owned(),
        /// Each is attributed to its server, or marked as the server's.
        attributed: bool = true,
    }

    /// `[errors]`: the host's own codes and words.
    errors: Errors / ErrorsSettings {
        /// Code, or part of the message, of a failure.
        codes: BTreeMap<ErrorCode, String> = BTreeMap::new(),
        /// What the call in flight gets at a restart by hand, of `{name}`.
        restarted: String = "{name} restarted".to_owned(),
    }

    /// `[redaction]`: what must not be seen.
    redaction: Redaction / RedactionSettings {
        /// What is gone from errors, status and logs.
        removes: Vec<Secret> = vec![
            Secret::Control, Secret::UrlUserinfo, Secret::UrlQuery, Secret::Env, Secret::Headers, Secret::Bearer,
        ],
        /// An unset variable is named, with its field.
        names_variable: bool = true,
        /// Header values cannot be read back.
        headers_write_only: bool = true,
        /// Mode of configuration files that the host writes.
        config_mode: String = "0600".to_owned(),
    }

    /// `[roots]`: roots, and paths in arguments.
    roots: Roots / RootsSettings {
        /// The root in `roots/list`.
        answer: RootAnswer = RootAnswer::Project,
        /// Symlinks are resolved in it.
        canonical: bool = true,
        /// Names of arguments that are made absolute and canonical.
        path_args: Vec<String> = Vec::new(),
        /// Such an argument leaves the project.
        escape: Escape = Escape::Pass,
        /// A project reached through a symlink accepts both spellings.
        both_spellings: bool = true,
        /// The working directory of a child is outside the project.
        cwd_escape: Escape = Escape::Pass,
    }

    /// `[pool]`: processes that several sessions share.
    pool: Pool / PoolSettings {
        /// Equal stdio configurations share one process.
        shares: bool = true,
        /// Neutral names of fields that are not part of equality.
        ignores: Vec<Neutral> = vec![
            Neutral::Allow, Neutral::Deny, Neutral::Predicate, Neutral::ToolTimeout, Neutral::PerToolTimeout,
            Neutral::Disclosure, Neutral::SuppliedTools, Neutral::LazyConnect, Neutral::Shared,
        ],
        /// How long a process lives on after its last share, in seconds.
        idle_close_s: f64 = 300.0,
        /// A server can be kept to one session.
        per_session_option: bool = true,
        /// Each project has children of its own.
        per_context: bool = false,
        /// A server that was started stays up until it is stopped or the program ends, whoever holds it.
        keeps_started: bool = false,
        /// Each session asks a shared server for its tools itself.
        lists_per_session: bool = false,
        /// Warnings of a server go to the one session that has a call under way, if there is just one.
        warns_caller: bool = true,
        /// A changed server serves its holders to the end.
        retires: bool = true,
        /// The call in flight at a restart is repeated.
        restart_retries: bool = false,
        /// After a restart by hand, the fresh process waits for the next call.
        restart_waits: bool = false,
        /// `NAME=value` that turns sharing off.
        off_env: String = "SPARRING_NO_MCP_POOL=1".to_owned(),
    }

    /// `[events]`: what the host reports.
    events: Events / EventsSettings {
        /// The host's names of events.
        names: BTreeMap<EventName, String> = BTreeMap::new(),
        /// The fields of the event at the end of a start.
        started_fields: Vec<String> = strings(["name", "transport", "durationMs", "ok", "toolCount", "error"]),
    }

    /// `[stdio]`: what stands on a server's output.
    stdio: StdioOutput / StdioOutputSettings {
        /// A line on stdout that is no message is passed over.
        tolerates_noise: bool = true,
    }
}

fn default_keys() -> BTreeMap<Neutral, Names> {
    use Neutral::*;
    let one = |name: &str| Names::One(name.to_owned());
    let many = |names: &[&str]| Names::Many(names.iter().map(|name| (*name).to_owned()).collect());
    BTreeMap::from([
        (Command, one("command")),
        (Args, one("args")),
        (Env, one("env")),
        (EnvPass, one("envVars")),
        (StrictEnv, one("strictEnv")),
        (Cwd, one("cwd")),
        (Url, many(&["url", "httpUrl"])),
        (Headers, one("headers")),
        (HeaderEnv, one("envHeaders")),
        (BearerEnv, one("bearerTokenEnvVar")),
        (Type, many(&["type", "transport"])),
        (Enabled, one("enabled")),
        (Required, one("required")),
        (Allow, one("enabledTools")),
        (Deny, one("disabledTools")),
        (StartupTimeout, one("startupTimeoutSec")),
        (ToolTimeout, one("toolTimeoutSec")),
        (PerToolTimeout, one("toolTimeouts")),
        (Disclosure, one("disclosure")),
        (SuppliedTools, one("cachedTools")),
        (LazyConnect, one("lazyConnect")),
        (Shared, one("shared")),
        (Auth, one("auth")),
        (Policy, one("policy")),
    ])
}

fn default_types() -> BTreeMap<ProfileTransport, Vec<String>> {
    BTreeMap::from([
        (Stdio, strings(["stdio"]).to_vec()),
        (Http, strings(["http", "streamable-http", "streamable_http"]).to_vec()),
        (Sse, strings(["sse"]).to_vec()),
    ])
}
