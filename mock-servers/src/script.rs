//! The script of a mock server: a model it serves faithfully, and rules that make it do something else.
//!
//! This is the `server:` part of a scenario file. The vocabulary is closed: unknown words are errors. Skeleton values
//! are typed; everything that goes on the wire as JSON is [`JsonText`], so that no YAML scalar rule can touch it.

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// JSON given in a script: as JSON text in a string (`'{"a": 1}'`), or as a map of strings (`{ text: one }`), whose
/// values are always strings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JsonText(pub Value);

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;
        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = JsonText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON text in quotes or a block, or a map of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<JsonText, E> {
                let twice = sparring_wire::duplicate::duplicate_keys(text);
                if let Some(pointer) = twice.first() {
                    return Err(E::custom(format!("the key at {pointer} occurs twice")));
                }
                serde_json::from_str(text).map(JsonText).map_err(|e| E::custom(format!("not JSON: {e}")))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<JsonText, A::Error> {
                let mut map = Map::new();
                while let Some((key, value)) = access.next_entry::<String, String>()? {
                    if map.insert(key.clone(), Value::String(value)).is_some() {
                        return Err(de::Error::custom(format!("the key `{key}` occurs twice")));
                    }
                }
                Ok(JsonText(Value::Object(map)))
            }
        }
        deserializer.deserialize_any(JsonVisitor)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_string())
    }
}

/// One scripted server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerScript {
    /// Tools: names from the library of models (see `library`), or definitions of their own.
    pub tools: Vec<ToolScript>,
    /// This many further tools `tool-000`, `tool-001`…, each answering with its own name.
    pub many_tools: Option<u32>,
    /// Resources.
    pub resources: Vec<ResourceScript>,
    /// Resource templates.
    pub templates: Vec<JsonText>,
    /// Prompts.
    pub prompts: Vec<PromptScript>,
    /// Replaces the capabilities that follow from the model.
    pub capabilities: Option<JsonText>,
    /// `serverInfo`; by default name `sparring-mock` and the product's version.
    pub info: Option<JsonText>,
    /// `instructions` of the initialize result.
    pub instructions: Option<String>,
    /// The protocol version of the initialize result, if it is not the case's revision.
    pub version: Option<String>,
    /// Items per page of each list; everything in one page by default.
    pub page_size: Option<u32>,
    /// What cursors look like.
    pub cursors: CursorStyle,
    /// Behaviour of a stdio process.
    pub process: ProcessScript,
    /// Behaviour of an HTTP endpoint.
    pub http: HttpScript,
    /// Puts the endpoint behind bearer tokens of an authorization server of its own.
    pub auth: Option<AuthScript>,
    /// Exceptions to the faithful behaviour. For each event the first rule that matches is taken.
    pub rules: Vec<Rule>,
}

/// What cursors look like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CursorStyle {
    /// Opaque text with characters that invite parsing or escaping: spaces, quotes, `=`, `&`, non-ASCII.
    #[default]
    Opaque,
    /// The second page's cursor is the empty string.
    EmptyString,
    /// Each page names the same cursor, for ever; a page is never the last.
    Repeated,
    /// Looks like a number, with leading zeros.
    Numeric,
}

/// A tool of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolScript {
    /// A name from the library.
    Library(String),
    /// A definition.
    Custom(Box<ToolDefinition>),
}

/// A tool that is not in the library.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolDefinition {
    /// Its name, any text.
    pub name: String,
    /// `title`.
    pub title: Option<String>,
    /// `description`.
    pub description: Option<String>,
    /// `inputSchema`; an object without properties by default.
    pub input_schema: Option<JsonText>,
    /// `outputSchema`.
    pub output_schema: Option<JsonText>,
    /// `annotations`.
    pub annotations: Option<JsonText>,
    /// Members merged into the definition, right or wrong.
    pub extra: Option<JsonText>,
    /// The whole result of a call; by default one text block with the tool's name.
    pub result: Option<JsonText>,
    /// The result of the library tool of that name instead.
    pub like: Option<String>,
}

/// A resource of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceScript {
    /// Its URI, byte for byte.
    pub uri: String,
    /// `name`; the last part of the URI by default.
    pub name: Option<String>,
    /// `mimeType`.
    pub mime_type: Option<String>,
    /// Text contents.
    pub text: Option<String>,
    /// Binary contents: this many bytes of the library's byte pattern (see `library::bytes`).
    pub blob_bytes: Option<u64>,
    /// The whole `contents` array, instead of `text` and `blob_bytes`.
    pub contents: Option<JsonText>,
}

/// A prompt of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromptScript {
    /// Its name.
    pub name: String,
    /// `description`.
    pub description: Option<String>,
    /// `arguments`, as JSON.
    pub arguments: Option<JsonText>,
    /// `messages` of the result; by default one user message that names the prompt and its arguments.
    pub messages: Option<JsonText>,
}

/// How a stdio server's process behaves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessScript {
    /// Keep running when stdin ends.
    pub ignore_eof: bool,
    /// Keep running on SIGTERM.
    pub ignore_sigterm: bool,
    /// Start a child process of its own that holds no pipe of the client's, and report its process id.
    pub grandchild: bool,
    /// Let this much time pass before reading or writing anything, in milliseconds.
    pub start_delay_ms: u64,
}

/// How an HTTP endpoint behaves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpScript {
    /// How requests are answered.
    pub answers: AnswerStyle,
    /// Hand out session ids.
    pub sessions: bool,
    /// Offer the stream that GET opens; otherwise GET is answered with 405.
    pub get_stream: bool,
    /// Answer DELETE with 405.
    pub refuse_delete: bool,
    /// Give each event an id, so that streams can be resumed with `Last-Event-ID`.
    pub event_ids: bool,
    /// Send a priming event (id, empty data) first on each stream.
    pub priming: bool,
    /// The endpoint's path; `/mcp` by default.
    pub path: Option<String>,
}

/// How an HTTP server answers requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerStyle {
    /// `application/json`.
    #[default]
    Json,
    /// `text/event-stream`.
    Sse,
    /// One, then the other, starting with JSON.
    Alternate,
}

/// The authorization server beside an HTTP endpoint, and how the endpoint asks for tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthScript {
    /// Where protected-resource metadata stands. 2025-03-26 does not know it: there it stands nowhere, and the
    /// authorization server is at the origin of the endpoint, whatever is said here.
    pub resource_metadata: ResourceMetadataPlace,
    /// How challenges are written.
    pub challenge: ChallengeStyle,
    /// Where the authorization server's metadata stands.
    pub server_metadata: ServerMetadataPlace,
    /// The issuer has this path, for example `/tenant1`. Without meaning where the authorization server is at the
    /// origin of the endpoint.
    pub issuer_path: Option<String>,
    /// `scope` of the 401 challenge.
    pub challenge_scope: Option<String>,
    /// `scopes_supported` of the protected-resource metadata.
    pub scopes_supported: Vec<String>,
    /// Scopes that `tools/call` needs, separated by spaces; a token without them is answered 403 `insufficient_scope`.
    pub call_scope: Option<String>,
    /// Offer no dynamic client registration.
    pub no_registration: bool,
    /// Accept client id metadata documents.
    pub client_id_metadata: bool,
    /// A client known beforehand.
    pub preregistered: Option<PreregisteredClient>,
    /// `token_endpoint_auth_methods_supported`; by default `["client_secret_basic"]` if there is a pre-registered
    /// client with a secret, else `["none"]`. A client that registers gets the method it asks for if it is here, else
    /// the first.
    pub client_authentication: Vec<ClientAuthentication>,
    /// `expires_in` of access tokens in seconds; 3600 by default.
    pub expires_in: Option<u64>,
    /// Access tokens stop working after this many uses, whatever `expires_in` says.
    pub uses_per_token: Option<u32>,
    /// Issue refresh tokens.
    pub refresh: bool,
    /// Each refresh returns a new refresh token and the old one stops working.
    pub rotate_refresh: bool,
    /// One thing that is wrong.
    pub fault: Option<AuthFault>,
}

/// A client that the authorization server knows beforehand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreregisteredClient {
    /// Its id.
    pub client_id: String,
    /// Its secret.
    #[serde(default)]
    pub client_secret: Option<String>,
}

/// Where protected-resource metadata stands (RFC 9728).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceMetadataPlace {
    /// At the well-known URI with the endpoint's path, named in the challenge.
    #[default]
    HeaderAndPath,
    /// There, but not named in the challenge.
    Path,
    /// At the root well-known URI only, not named.
    Root,
    /// At a place of its own that only the challenge names.
    HeaderOnly,
    /// Nowhere (2025-03-26): the authorization server is at the origin of the endpoint.
    None,
}

/// How the challenges of 401 and 403 are written. All but `absent` are the same to a reader of RFC 9110.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChallengeStyle {
    /// One field with one challenge.
    #[default]
    Plain,
    /// One field in which other schemes come first, with commas, quotes and a look-alike inside quoted text; `bearer`
    /// and names of parameters in other cases, spaces around `=`, a parameter that nobody knows.
    Mixed,
    /// Two fields, the first with another scheme.
    TwoFields,
    /// No `WWW-Authenticate` at all.
    Absent,
}

/// Where the authorization server's metadata stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerMetadataPlace {
    /// RFC 8414, with path insertion where the issuer has a path.
    #[default]
    Oauth,
    /// OpenID discovery, path inserted where the issuer has a path.
    Openid,
    /// OpenID discovery, path appended (issuer with a path).
    OpenidAppended,
    /// Nowhere: the default endpoints of 2025-03-26.
    None,
}

/// How a client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthentication {
    /// Public client.
    None,
    /// HTTP Basic.
    ClientSecretBasic,
    /// In the form body.
    ClientSecretPost,
}

/// One wrong answer of the authorization server or of the metadata. Each differs from the faithful flow in one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuthFault {
    /// The redirect carries another `state`.
    WrongState,
    /// The redirect lacks `state`.
    MissingState,
    /// The redirect carries the `iss` of another server.
    WrongIssuer,
    /// The redirect lacks `iss`, although the metadata says that it is sent.
    MissingIssuer,
    /// The metadata's `issuer` is another one.
    MetadataIssuer,
    /// Protected-resource metadata names another resource.
    WrongResource,
    /// Metadata lacks `code_challenge_methods_supported`.
    NoPkceMetadata,
    /// Metadata offers only the `plain` method. The server takes it, and S256 as ever.
    PlainPkceOnly,
    /// The metadata's `authorization_endpoint` is a `file:` URL.
    FileAuthorizationUrl,
    /// The metadata's `authorization_endpoint` has a query that a shell would act on: it creates a file named
    /// `sparring-shell-ran` in the working directory.
    ShellAuthorizationUrl,
    /// Each registration is refused with `invalid_redirect_uri`.
    RegistrationRefused,
    /// The authorization endpoint answers `error=access_denied`.
    AccessDenied,
    /// The token endpoint answers `invalid_grant` to each authorization code.
    InvalidGrant,
    /// The token endpoint answers `invalid_grant` to each refresh.
    InvalidRefresh,
    /// The endpoint answers 401 to every token.
    RejectsAllTokens,
    /// The first authorization that asks for several scopes is granted without the last of them (which is allowed).
    NarrowerGrant,
    /// `tools/call` is answered 403 `insufficient_scope`, whatever the token's scopes are.
    NeverEnoughScope,
    /// Token answers lack `expires_in` (which is allowed).
    NoExpiresIn,
    /// `token_type` is spelt `bearer`.
    LowerCaseTokenType,
    /// The refresh answer carries no new refresh token (which is allowed).
    RefreshNotReissued,
}

/// An exception to the faithful behaviour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// A label for the transcript.
    pub label: Option<String>,
    /// What it reacts to.
    pub on: Trigger,
    /// Only the nth event that matches the rest, counted from 1 in each process of a stdio server and over the whole
    /// case for an HTTP server. Every such event by default.
    pub nth: Option<u32>,
    /// Only in this process of the server, counted from 1 (stdio).
    pub incarnation: Option<u32>,
    /// Only if the message's `params` contain this JSON (objects: a subset; everything else: equal).
    pub params: Option<JsonText>,
    /// What to do, in order. If no action answers the request (or stands for its answer), the faithful answer follows.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
}

/// What a rule reacts to: the method of a message from the client (`tools/call`, `notifications/initialized`), or one
/// of the words below.
///
/// - `start`: the process has started, or the HTTP server's first connection was accepted;
/// - `eof`: stdin ended (stdio); `sigterm`: SIGTERM arrived (stdio);
/// - `http-get`, `http-post`, `http-delete`: an HTTP request with that method, before it is looked into;
/// - `get-stream`: the GET stream is open;
/// - `response`: the client answered a request of the server's.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// The process has started.
    #[default]
    Start,
    /// stdin ended.
    Eof,
    /// SIGTERM arrived.
    Sigterm,
    /// An HTTP request with this method.
    Http(HttpVerb),
    /// The GET stream is open.
    GetStream,
    /// The client answered a request of the server's.
    Response,
    /// A message from the client with this method.
    Method(String),
}

/// The HTTP methods that rules react to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpVerb {
    /// GET.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

impl Trigger {
    /// The word in a script.
    pub fn word(&self) -> &str {
        match self {
            Self::Start => "start",
            Self::Eof => "eof",
            Self::Sigterm => "sigterm",
            Self::Http(HttpVerb::Get) => "http-get",
            Self::Http(HttpVerb::Post) => "http-post",
            Self::Http(HttpVerb::Delete) => "http-delete",
            Self::GetStream => "get-stream",
            Self::Response => "response",
            Self::Method(method) => method,
        }
    }
}

/// The methods that a client may send in any revision; what a rule may react to.
pub const CLIENT_METHODS: [&str; 25] = [
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
    "server/discover",
    "subscriptions/listen",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "notifications/tasks/status",
    "notifications/elicitation/complete",
];

impl std::str::FromStr for Trigger {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "start" => Self::Start,
            "eof" => Self::Eof,
            "sigterm" => Self::Sigterm,
            "http-get" => Self::Http(HttpVerb::Get),
            "http-post" => Self::Http(HttpVerb::Post),
            "http-delete" => Self::Http(HttpVerb::Delete),
            "get-stream" => Self::GetStream,
            "response" => Self::Response,
            method if CLIENT_METHODS.contains(&method) => Self::Method(method.to_owned()),
            other => {
                return Err(format!(
                    "`{other}` is neither a method that clients send nor one of start, eof, sigterm, http-get, http-post, http-delete, get-stream, response"
                ));
            }
        })
    }
}

impl<'de> Deserialize<'de> for Trigger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Trigger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Something a server does. Those marked *answers* stand for the answer to the request at hand, so the faithful one is
/// not given as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    // ---- messages ----
    /// The faithful answer, at this place in the order. *Answers.*
    Default,
    /// A result. *Answers.*
    Respond(JsonText),
    /// A JSON-RPC error. *Answers.*
    Error(ErrorAnswer),
    /// No answer, ever. *Answers.*
    Drop,
    /// The faithful answer, but only when the given event has happened (counted from now). *Answers.*
    HoldUntil(Until),
    /// The faithful answer, in an envelope that is wrong in one way. *Answers.*
    Mangle(Mangle),
    /// The faithful answer, twice. *Answers.*
    Duplicate,
    /// Wait before the next action, in milliseconds.
    DelayMs(u64),
    /// Send a notification.
    Notify(OwnMessage),
    /// Send a request; the client's answer is awaited by nobody unless `hold_until: response` follows.
    Request(OwnMessage),
    /// Report progress on the request at hand this many times; a request without a token gets none.
    Progress(u32),
    /// Send these messages as one JSON-RPC batch.
    Batch(JsonText),

    // ---- the model ----
    /// Add a tool.
    AddTool(ToolScript),
    /// Remove a tool.
    RemoveTool(String),
    /// Add a resource.
    AddResource(ResourceScript),
    /// Remove a prompt.
    RemovePrompt(String),
    /// Send `notifications/tools/list_changed`, `…/resources/…` or `…/prompts/…`.
    Announce(ListKind),

    // ---- stdio ----
    /// Write this line to stdout, as it is.
    Stdout(String),
    /// Write this many bytes of text lines to stderr, blocking as a real server would.
    StderrBytes(u64),
    /// Write the next message in pieces of this many bytes, flushed one by one.
    SplitEvery(u32),
    /// Keep the next messages back and write them with the one after in a single write.
    MergeNext(u32),
    /// End the next message with `\r\n`.
    Crlf,
    /// Put a byte order mark before the next message.
    ByteOrderMark,
    /// Put a byte that is not UTF-8 into the next message.
    InvalidUtf8,
    /// Close stdout and go on running.
    CloseStdout,
    /// Exit with this code, at once.
    Exit(i32),
    /// Die by this signal: `SIGKILL`, `SIGSEGV`, `SIGTERM`, `SIGABRT`.
    Die(String),
    /// Stop reading stdin.
    StopReading,

    // ---- HTTP ----
    /// Answer with this status. *Answers.*
    Status(StatusAnswer),
    /// Answer by this style, whatever the server's own. Does not answer by itself.
    Answers(AnswerStyle),
    /// Answer on a stream that ends before the answer. *Answers.*
    CutStream(CutStream),
    /// Reset the connection without a byte. *Answers.*
    Reset,
    /// Read the request and never answer; the connection stays open. *Answers.*
    Stall,
    /// Forget the client's session: requests that name it are answered 404 from now on, this one included. *Answers.*
    ExpireSession,
    /// Close the open GET streams.
    CloseGetStream,
    /// Send an SSE comment on the stream at hand, or on the GET stream.
    SseComment(String),
    /// Send the pending answer's stream as these raw bytes (text), then end it. *Answers.*
    RawBody(RawBody),
}

impl Action {
    /// Whether it stands for the answer to the request at hand.
    pub const fn answers(&self) -> bool {
        matches!(
            self,
            Self::Default
                | Self::Respond(_)
                | Self::Error(_)
                | Self::Drop
                | Self::HoldUntil(_)
                | Self::Mangle(_)
                | Self::Duplicate
                | Self::Status(_)
                | Self::CutStream(_)
                | Self::Reset
                | Self::Stall
                | Self::ExpireSession
                | Self::RawBody(_)
                | Self::Exit(_)
                | Self::Die(_)
        )
    }
}

/// A JSON-RPC error to answer with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorAnswer {
    /// The code.
    pub code: i64,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// The data.
    #[serde(default)]
    pub data: Option<JsonText>,
}

/// A message that the server sends by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnMessage {
    /// The method.
    pub method: String,
    /// The params. In them the string `$requestId` stands for the id of the request at hand.
    #[serde(default)]
    pub params: Option<JsonText>,
    /// The id of a request; `"s-1"`, `"s-2"`… by default. JSON: `'7'` is a number, `'"7"'` a string.
    #[serde(default)]
    pub id: Option<JsonText>,
    /// Over HTTP: send it on the GET stream instead of the stream of the request at hand.
    #[serde(default)]
    pub on_get_stream: bool,
}

/// An event that ends a hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// What has to happen.
    pub on: Trigger,
    /// How many times; once by default.
    #[serde(default = "one")]
    pub times: u32,
}

const fn one() -> u32 {
    1
}

/// One thing wrong with an answer's envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mangle {
    /// An id that no request had.
    UnknownId,
    /// The id as the other JSON type.
    IdType,
    /// No `jsonrpc`.
    NoVersion,
    /// Both `result` and `error`.
    ResultAndError,
    /// A result that is not what the method returns (a number).
    WrongResult,
    /// Cut in the middle.
    Truncated,
}

/// A list that can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListKind {
    /// Tools.
    Tools,
    /// Resources.
    Resources,
    /// Prompts.
    Prompts,
}

/// An HTTP answer other than the faithful one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusAnswer {
    /// The status code.
    pub code: u16,
    /// Further header fields. In values `{origin}` stands for this server's origin and `{other}` for the origin of a
    /// second listener.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

/// A stream that ends too early.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CutStream {
    /// Send an event with this id and empty data first.
    pub id: Option<String>,
    /// Send this `retry` value, in milliseconds.
    pub retry_ms: Option<u64>,
    /// Reset the connection instead of ending the body.
    pub reset: bool,
    /// Deliver the answer on the GET that resumes the stream with that `Last-Event-ID`.
    pub resumable: bool,
}

/// A body as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawBody {
    /// Its content type; `text/event-stream` by default.
    pub content_type: Option<String>,
    /// The text. In it `$id` stands for the JSON of the request's id and `$result` for the faithful result.
    pub text: String,
    /// Send it in pieces of this many bytes.
    pub split_every: Option<u32>,
}

// A status is most often only a number: `status: 404`. A string names a library tool.
impl<'de> Deserialize<'de> for StatusAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Full {
            code: u16,
            #[serde(default)]
            headers: BTreeMap<String, String>,
            #[serde(default)]
            body: String,
        }
        struct StatusVisitor;
        impl<'de> Visitor<'de> for StatusVisitor {
            type Value = StatusAnswer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status code, or a map with `code`, `headers` and `body`")
            }

            fn visit_u64<E: de::Error>(self, code: u64) -> Result<StatusAnswer, E> {
                match u16::try_from(code) {
                    Ok(code) if (100..=999).contains(&code) => {
                        Ok(StatusAnswer { code, ..Default::default() })
                    }
                    _ => Err(E::custom(format!("{code} is no HTTP status"))),
                }
            }

            fn visit_i64<E: de::Error>(self, code: i64) -> Result<StatusAnswer, E> {
                self.visit_u64(u64::try_from(code).unwrap_or_default())
            }

            fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<StatusAnswer, A::Error> {
                let full = Full::deserialize(de::value::MapAccessDeserializer::new(access))?;
                Ok(StatusAnswer { code: full.code, headers: full.headers, body: full.body })
            }
        }
        deserializer.deserialize_any(StatusVisitor)
    }
}

impl Serialize for StatusAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut full = serializer.serialize_struct("StatusAnswer", 3)?;
        full.serialize_field("code", &self.code)?;
        full.serialize_field("headers", &self.headers)?;
        full.serialize_field("body", &self.body)?;
        full.end()
    }
}

impl<'de> Deserialize<'de> for ToolScript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ToolVisitor;
        impl<'de> Visitor<'de> for ToolVisitor {
            type Value = ToolScript;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a library tool, or a definition with `name`")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<ToolScript, E> {
                if crate::library::TOOLS.contains(&name) {
                    Ok(ToolScript::Library(name.to_owned()))
                } else {
                    Err(E::custom(format!(
                        "`{name}` is no tool of the library; there are {}",
                        crate::library::TOOLS.join(", ")
                    )))
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<ToolScript, A::Error> {
                let definition = ToolDefinition::deserialize(de::value::MapAccessDeserializer::new(access))?;
                Ok(ToolScript::Custom(Box::new(definition)))
            }
        }
        deserializer.deserialize_any(ToolVisitor)
    }
}

impl Serialize for ToolScript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Library(name) => serializer.serialize_str(name),
            Self::Custom(definition) => definition.serialize(serializer),
        }
    }
}
