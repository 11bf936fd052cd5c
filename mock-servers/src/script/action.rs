//! Exceptions to the faithful behaviour: what to do.

use super::{
    Amend, AnswerStyle, AskScript, ChangeServer, ChangeSession, ChangeTool, Cut, CutStream, ErrorAnswer,
    JsonText, ListKind, LogMessage, Mangle, OtherStream, OwnEvent, OwnMessage, Pieces, PromptScript, RawBody,
    RawBytes, RawMessage, RawPart, Release, Repeat, RepeatedLine, Reply, RequestTask, ResourceScript,
    ResultMember, SetState, SignalName, Slot, SseStyle, StatusAnswer, SubscriptionEnd, TaskMove, TaskScript,
    ToolScript, Until,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sparring_wire::Transport;

/// Something a server does. Those marked *answers* stand for the answer to the request at hand, so the faithful one is
/// not given as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    // ---- messages ----
    /// The faithful answer, at this place in the order. *Answers.*
    Default,
    /// A result. *Answers.*
    Respond(JsonText),
    /// A JSON-RPC error. *Answers.*
    Error(ErrorAnswer),
    /// The faithful answer with changes. *Answers.*
    Amend(Amend),
    /// The faithful answer, wrong in one way. *Answers.*
    Mangle(Mangle),
    /// No answer, ever. *Answers.*
    Drop,
    /// The faithful answer, twice. *Answers.*
    Duplicate,
    /// Wait until something has happened; other messages are served meanwhile. If none of the actions that follow answers
    /// the request, the faithful answer comes right after the hold. *Answers.*
    HoldUntil(Until),
    /// Let requests that are held go on, now.
    Release(Release),
    /// Wait before the next action, in milliseconds.
    DelayMs(u64),
    /// Send a notification.
    Notify(OwnMessage),
    /// Send a request; the client's answer is awaited by nobody unless `hold_until: response` follows.
    Request(OwnMessage),
    /// Report progress on the request at hand this many times; a request without a token gets none. Within a `repeat` the
    /// numbers go on rising, and no total is named.
    Progress(u32),
    /// Send a log message, if the client wants its level.
    Log(LogMessage),
    /// Send these messages as one JSON-RPC batch.
    Batch(JsonText),
    /// Send this text in the place of a message.
    Raw(RawMessage),
    /// Do the same several times.
    Repeat(Repeat),

    // ---- what the script remembers ----
    /// Go to a state. Rules and holds ask for it with `state`.
    SetState(SetState),
    /// Count this name up by one. Rules and holds ask for it with `counts`.
    Count(String),

    // ---- the model ----
    /// Add a tool; one of the same name is replaced.
    AddTool(ToolScript),
    /// Remove a tool.
    RemoveTool(String),
    /// Change a tool where it stands.
    ChangeTool(ChangeTool),
    /// Add a resource; one of the same URI is replaced.
    AddResource(ResourceScript),
    /// Remove a resource.
    RemoveResource(String),
    /// Add a resource template (JSON); one of the same `uriTemplate` is replaced.
    AddTemplate(JsonText),
    /// Remove the resource template with this `uriTemplate`.
    RemoveTemplate(String),
    /// Add a prompt; one of the same name is replaced.
    AddPrompt(PromptScript),
    /// Remove a prompt.
    RemovePrompt(String),
    /// Change what the server says of itself, or its pages.
    ChangeServer(ChangeServer),
    /// Send `notifications/tools/list_changed`, `…/resources/…` or `…/prompts/…`.
    Announce(ListKind),
    /// Send `notifications/resources/updated` for this URI, if the client has subscribed to it.
    ResourceUpdated(String),

    // ---- rounds and tasks ----
    /// Ask the client for input; when it has come, the next action follows. A request that brings a `requestState`
    /// of a later `input_required` in the same rule has passed the earlier ones. *Answers* (in 2026-07-28).
    InputRequired(AskScript),
    /// Run the request at hand as a task and answer with it, whatever the tool says. A fault where the revision or
    /// the client knows no tasks. *Answers.*
    RunAsTask(TaskScript),
    /// Ask the client for something as a task of its own (2025-11-25), ask after it and fetch its result; the next
    /// action follows when that has come. In earlier revisions it is a plain request, in 2026-07-28 a fault that
    /// nobody waits for.
    RequestTask(RequestTask),
    /// Move all tasks that have not ended. Those who listen are told.
    MoveTasks(TaskMove),
    /// End the client's subscriptions (2026-07-28; ignored before). Until then they stay open.
    EndSubscriptions(SubscriptionEnd),
    /// Leave these members out of the answer to the request at hand (2026-07-28; ignored before). Does not answer by
    /// itself.
    LeaveOut(Vec<ResultMember>),

    // ---- stdio: what is written ----
    /// Write this line to stdout, as it is.
    Stdout(String),
    /// Write these bytes to stdout, as they are and without a newline of their own.
    StdoutBytes(RawBytes),
    /// Write this line to stdout many times, in one write.
    RepeatStdout(RepeatedLine),
    /// Write this text to stderr, as it is and without a newline of its own, blocking as a real server would.
    Stderr(String),
    /// Write this many bytes of text lines to stderr, at most 64 MiB, blocking as a real server would.
    StderrBytes(
        #[serde(deserialize_with = "super::limit::within::<0, 67_108_864, _, _>")]
        #[schemars(range(max = 67_108_864))]
        u64,
    ),

    // ---- stdio: how the next message is written ----
    /// Write the next message in pieces of this many bytes, flushed one by one.
    SplitEvery(u32),
    /// Write the next message in pieces that end after these bytes, counted from its start and ascending, flushed one
    /// by one.
    SplitAt(#[serde(deserialize_with = "super::limit::ascending")] Vec<u32>),
    /// Write the next message in pieces that end inside each character of more than one byte, flushed one by one.
    SplitCharacters,
    /// Write only this many bytes of the next message (at most all but its end of line). What comes after waits for
    /// `write_rest`, later messages too.
    CutAt(u32),
    /// Write what `cut_at` has kept back.
    WriteRest,
    /// Keep the next messages back and write them with the one after in a single write.
    MergeNext(u32),
    /// End the next message with `\r\n`.
    Crlf,
    /// End the next message with `\r` alone.
    CrOnly,
    /// Write the next message without an end of line: what is written next continues its line.
    NoNewline,
    /// Write this many blank lines, at most 1,000,000, before the next message.
    BlankLines(
        #[serde(deserialize_with = "super::limit::within::<0, 1_000_000, _, _>")]
        #[schemars(range(max = 1_000_000))]
        u32,
    ),
    /// Write the next message over several lines, indented.
    Pretty,
    /// Write the next message with all characters beyond ASCII as `\u` escapes. It stays valid.
    AsciiOnly,
    /// Fill the line of the next message with spaces behind it, up to this many bytes, at most 64 MiB. It stays valid.
    PadTo(
        #[serde(deserialize_with = "super::limit::within::<0, 67_108_864, _, _>")]
        #[schemars(range(max = 67_108_864))]
        u64,
    ),
    /// Put a byte order mark before the next message.
    ByteOrderMark,
    /// Put a byte that is not UTF-8 into the next message.
    InvalidUtf8,

    // ---- stdio: the process ----
    /// Close stdout and go on running.
    CloseStdout,
    /// Close stderr and go on running; what is written there later is lost.
    CloseStderr,
    /// Close stdin and go on running: the client's writes fail. What it had written and nobody has read is lost.
    CloseStdin,
    /// Stop reading stdin; a client's writes block when the pipe is full.
    StopReading,
    /// Read this many more bytes of stdin, counted from behind the line at hand, and then stop.
    StopReadingAfter(u64),
    /// Read stdin again.
    ResumeReading,
    /// Exit with this code, at once.
    Exit(i32),
    /// Die by this signal: `SIGKILL`, `SIGSEGV`, `SIGTERM`, `SIGABRT`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGPIPE`…
    Die(SignalName),

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
    /// Change the response to the request at hand, whatever it will be. Does not answer by itself.
    Reply(Reply),
    /// Break the response to the request at hand off. Does not answer by itself.
    Cut(Cut),
    /// Write the response to the request at hand in pieces. Does not answer by itself.
    Pieces(Pieces),
    /// Answer with these very bytes. *Answers.*
    RawResponse(Vec<RawPart>),
    /// Send an event of the script's own on the stream at hand, or on the GET stream.
    SseEvent(OwnEvent),
    /// Write the stream of the response at hand by this style, whatever the server's own. Does not answer by itself.
    SseStyle(SseStyle),
    /// Leave the stream of the response at hand open after the answer. Does not answer by itself.
    KeepOpen,
    /// Send the answer on another stream than its own; the response at hand is a stream that ends without it. Invalid.
    /// Does not answer by itself.
    AnswerOn(OtherStream),
    /// Give the session another id, which the response at hand names. Invalid. Does not answer by itself.
    ChangeSession(ChangeSession),
}

impl Action {
    /// The transport that it is for, if it is for one. On others it is ignored, but for `stall`, which then is `drop`.
    pub const fn transport(&self) -> Option<Transport> {
        match self {
            Self::Default
            | Self::Respond(_)
            | Self::Error(_)
            | Self::Amend(_)
            | Self::Mangle(_)
            | Self::Drop
            | Self::Duplicate
            | Self::HoldUntil(_)
            | Self::Release(_)
            | Self::DelayMs(_)
            | Self::Notify(_)
            | Self::Request(_)
            | Self::Progress(_)
            | Self::Log(_)
            | Self::Batch(_)
            | Self::Raw(_)
            | Self::Repeat(_)
            | Self::SetState(_)
            | Self::Count(_)
            | Self::AddTool(_)
            | Self::RemoveTool(_)
            | Self::ChangeTool(_)
            | Self::AddResource(_)
            | Self::RemoveResource(_)
            | Self::AddTemplate(_)
            | Self::RemoveTemplate(_)
            | Self::AddPrompt(_)
            | Self::RemovePrompt(_)
            | Self::ChangeServer(_)
            | Self::Announce(_)
            | Self::ResourceUpdated(_)
            | Self::InputRequired(_)
            | Self::RunAsTask(_)
            | Self::RequestTask(_)
            | Self::MoveTasks(_)
            | Self::EndSubscriptions(_)
            | Self::LeaveOut(_) => None,
            Self::Stdout(_)
            | Self::StdoutBytes(_)
            | Self::RepeatStdout(_)
            | Self::Stderr(_)
            | Self::StderrBytes(_)
            | Self::SplitEvery(_)
            | Self::SplitAt(_)
            | Self::SplitCharacters
            | Self::CutAt(_)
            | Self::WriteRest
            | Self::MergeNext(_)
            | Self::Crlf
            | Self::CrOnly
            | Self::NoNewline
            | Self::BlankLines(_)
            | Self::Pretty
            | Self::AsciiOnly
            | Self::PadTo(_)
            | Self::ByteOrderMark
            | Self::InvalidUtf8
            | Self::CloseStdout
            | Self::CloseStderr
            | Self::CloseStdin
            | Self::StopReading
            | Self::StopReadingAfter(_)
            | Self::ResumeReading
            | Self::Exit(_)
            | Self::Die(_) => Some(Transport::Stdio),
            Self::Status(_)
            | Self::Answers(_)
            | Self::CutStream(_)
            | Self::Reset
            | Self::Stall
            | Self::ExpireSession
            | Self::CloseGetStream
            | Self::SseComment(_)
            | Self::RawBody(_)
            | Self::Reply(_)
            | Self::Cut(_)
            | Self::Pieces(_)
            | Self::RawResponse(_)
            | Self::SseEvent(_)
            | Self::SseStyle(_)
            | Self::KeepOpen
            | Self::AnswerOn(_)
            | Self::ChangeSession(_) => Some(Transport::Http),
        }
    }

    /// Whether it answers an HTTP request, whatever that carries.
    pub const fn answers_http(&self) -> bool {
        matches!(
            self,
            Self::Status(_)
                | Self::CutStream(_)
                | Self::Reset
                | Self::Stall
                | Self::ExpireSession
                | Self::RawBody(_)
                | Self::RawResponse(_)
        )
    }

    /// Shows each place in it where templates may stand.
    pub fn slots(&mut self, see: &mut dyn FnMut(Slot<'_>)) {
        let mut json = |json: &mut JsonText| see(Slot::Json(&mut json.0));
        match self {
            Self::Respond(result) | Self::Batch(result) => json(result),
            Self::Error(error) => {
                error.data.iter_mut().for_each(json);
                see(Slot::Text(&mut error.message));
            }
            Self::Amend(amend) => amend.set.iter_mut().chain(amend.put.values_mut()).for_each(json),
            Self::Notify(own) | Self::Request(own) => own.params.iter_mut().chain(&mut own.id).for_each(json),
            Self::Log(log) => json(&mut log.data),
            Self::InputRequired(ask) => {
                ask.requests.values_mut().filter_map(|asked| asked.params.as_mut()).for_each(json);
                ask.state.iter_mut().for_each(|state| see(Slot::Text(state)));
            }
            Self::RequestTask(errand) => errand.params.iter_mut().for_each(json),
            Self::Raw(raw) => see(Slot::Text(&mut raw.0.text)),
            // Its actions are rendered when their turn comes.
            Self::Repeat(_) => {}
            Self::SetState(states) => states.0.values_mut().for_each(|state| see(Slot::Text(state))),
            Self::ResourceUpdated(uri) => see(Slot::Text(uri)),
            Self::Stdout(text) | Self::Stderr(text) | Self::SseComment(text) => see(Slot::Text(text)),
            Self::RepeatStdout(repeated) => see(Slot::Text(&mut repeated.line)),
            Self::Status(status) => {
                status.headers.0.iter_mut().for_each(|(_, value)| see(Slot::Text(value)));
                see(Slot::Text(&mut status.body));
            }
            Self::RawBody(raw) => see(Slot::Text(&mut raw.text)),
            Self::Reply(reply) => {
                let values = reply.headers.0.iter_mut().map(|(_, value)| value);
                values.chain([&mut reply.before, &mut reply.after]).for_each(|text| see(Slot::Text(text)));
            }
            Self::RawResponse(parts) => parts.iter_mut().for_each(|part| match part {
                RawPart::Head(text) | RawPart::Text(text) => see(Slot::Text(text)),
                RawPart::Repeat(repeated) => see(Slot::Text(&mut repeated.text)),
                _ => {}
            }),
            Self::SseEvent(event) => {
                event.data.iter_mut().chain(&mut event.id).for_each(|text| see(Slot::Text(text)));
            }
            Self::ChangeSession(change) => change.id.iter_mut().for_each(|id| see(Slot::Text(id))),
            _ => {}
        }
    }

    /// Whether it stands for the answer to the request at hand.
    pub fn answers(&self) -> bool {
        match self {
            Self::Raw(raw) => return raw.0.answers,
            Self::Repeat(repeat) => return repeat.times > 0 && repeat.actions.iter().any(Self::answers),
            _ => {}
        }
        matches!(
            self,
            Self::Default
                | Self::Respond(_)
                | Self::Error(_)
                | Self::Drop
                | Self::Amend(_)
                | Self::HoldUntil(_)
                | Self::Mangle(_)
                | Self::Duplicate
                | Self::InputRequired(_)
                | Self::RunAsTask(_)
                | Self::Status(_)
                | Self::CutStream(_)
                | Self::Reset
                | Self::Stall
                | Self::ExpireSession
                | Self::RawBody(_)
                | Self::RawResponse(_)
                | Self::Exit(_)
                | Self::Die(_)
        )
    }
}
