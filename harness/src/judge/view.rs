//! A transcript with what follows from it: the messages that its events carry, who answered whom, and which belong to
//! one conversation.

use serde_json::Value;
use sparring_mock_servers::auth::request::Endpoint;
use sparring_wire::jsonrpc::{self, Envelope, Fault, Id, Inspected};
use sparring_wire::sse::{SseItem, SseReader};
use sparring_wire::transcript::{
    Direction, Event, HttpRequest, HttpResponse, HttpRole, LineSeen, StreamEvent, What,
};
use sparring_wire::{Revision, Transport, meta};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use url::Url;

/// A JSON-RPC message of a transcript. Members of a batch are messages of their own.
#[derive(Debug, Clone)]
pub struct Message {
    /// Index of the event that carries it.
    pub event: usize,
    /// Who sent it.
    pub direction: Direction,
    /// Index of its conversation.
    pub conversation: usize,
    /// The HTTP exchange that carried it.
    pub exchange: Option<u64>,
    /// It is a member of a batch.
    pub in_batch: bool,
    /// The message with the faults of its envelope.
    pub inspected: Inspected,
    /// Index of the message that answers it (the first that does), or that it answers.
    pub pair: Option<usize>,
    /// The script asked for something wrong with it.
    pub scripted_fault: bool,
}

impl Message {
    /// The method of a request or notification.
    pub fn method(&self) -> Option<&str> {
        self.inspected.envelope.method()
    }

    /// The id of a request or response, if valid.
    pub const fn id(&self) -> Option<&Id> {
        self.inspected.envelope.id()
    }

    /// The params of a request or notification.
    pub const fn params(&self) -> Option<&Value> {
        self.inspected.envelope.params()
    }

    /// A member of the params.
    pub fn param(&self, name: &str) -> Option<&Value> {
        self.params()?.get(name)
    }

    /// The result of a successful response.
    pub const fn result(&self) -> Option<&Value> {
        match &self.inspected.envelope {
            Envelope::Result { result, .. } => Some(result),
            _ => None,
        }
    }

    /// Whether it is a request: it has a method and an id, valid or not.
    pub const fn is_request(&self) -> bool {
        matches!(self.inspected.envelope, Envelope::Request { .. })
    }

    /// Whether it is a notification.
    pub const fn is_notification(&self) -> bool {
        matches!(self.inspected.envelope, Envelope::Notification { .. })
    }

    /// Whether it is a result or an error.
    pub const fn is_response(&self) -> bool {
        self.inspected.envelope.is_response()
    }

    /// Whether it is an error response.
    pub const fn is_error(&self) -> bool {
        matches!(self.inspected.envelope, Envelope::Error { .. })
    }

    /// Whether the client under test sent it.
    pub fn from_client(&self) -> bool {
        self.direction == Direction::Received
    }

    /// A request of the client with this method.
    pub fn is_client_request(&self, method: &str) -> bool {
        self.from_client() && self.is_request() && self.method() == Some(method)
    }
}

/// The scope of request ids and of the handshake: a process of a stdio server, a stream of HTTP+SSE with what is posted to
/// its endpoint, or what lies between one `initialize` and the next of another HTTP server. Where the server hands out
/// session ids, several can be open at once. What is said to an HTTP server in a revision without a handshake is a
/// conversation of its own.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// The server's name.
    pub server: Option<String>,
    /// The process, for stdio.
    pub incarnation: Option<u32>,
    /// The session id that the server gave.
    pub session: Option<String>,
    /// The event in which it gave it.
    pub session_given: Option<usize>,
    /// Index of the latest `initialize` request.
    pub initialize: Option<usize>,
    /// Index of the latest answer to an `initialize` request.
    pub answer: Option<usize>,
    /// The protocol version that the server named in its answer; without a handshake, the one that requests name.
    pub version: Option<String>,
    /// What its stream is, if it is one of HTTP+SSE.
    pub legacy: Option<LegacyStream>,
    /// The event of the first message of the server that was wrong, on purpose or not. What a client made of it can't
    /// be told.
    pub first_fault: Option<usize>,
    /// Indices of its messages.
    pub messages: Vec<usize>,
    /// Exchanges that belong to it, in order.
    pub exchanges: Vec<u64>,
    /// The transport, as far as known.
    pub transport: Option<Transport>,
}

impl Conversation {
    /// The negotiated revision, if the server named a released one.
    pub fn revision(&self) -> Option<Revision> {
        self.version.as_deref()?.parse().ok()
    }
}

/// The stream that a conversation over HTTP+SSE consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyStream {
    /// The exchange of the GET that opened it.
    pub exchange: u64,
    /// The event that said where messages are posted.
    pub given: usize,
    /// Where that is: path and query.
    pub target: String,
}

/// A request and what was answered to it, as indices of events.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    /// The request.
    pub request: usize,
    /// The response, or the head of a stream.
    pub response: Option<usize>,
    /// The end of the stream.
    pub ended: Option<usize>,
    /// The conversation, if the request went to the MCP endpoint.
    pub conversation: Option<usize>,
    /// It carried an `initialize` request.
    initialize: bool,
}

/// Which conversation the messages of one process, or the sessionless ones of one server, belong to.
type Place = (Option<String>, Option<u32>);

/// What stands for a process in the place of the requests that belong to no session by their revision.
const STATELESS: u32 = u32::MAX;

/// The revision that a request names in its header or its body, if that has no handshake.
fn stateless(request: &HttpRequest, posted: Option<&Inspected>) -> Option<Revision> {
    let named = |text: &str| text.parse::<Revision>().ok().filter(|revision| revision.is_stateless());
    header(&request.headers, "mcp-protocol-version")
        .and_then(named)
        .or_else(|| posted?.messages().iter().find_map(|m| meta_version(m.envelope.params())).and_then(named))
}

/// The protocol version that params name.
pub fn meta_version(params: Option<&Value>) -> Option<&str> {
    params?.get("_meta")?.get(meta::PROTOCOL_VERSION)?.as_str()
}

/// Path and query of a reference as the client that asked for `target` has to understand it. The origin is not kept: what
/// is sent to another one is not seen there.
fn resolved(target: &str, reference: &str) -> Option<String> {
    let base = Url::parse("http://server").ok()?.join(target).ok()?;
    let url = base.join(reference.trim()).ok()?;
    Some(url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path())))
}

/// A transcript, indexed. It can grow: the runner evaluates patterns while events arrive.
#[derive(Debug, Clone, Default)]
pub struct View<'a> {
    events: Vec<Cow<'a, Event>>,
    messages: Vec<Message>,
    of_event: Vec<Range<usize>>,
    conversations: Vec<Conversation>,
    exchanges: HashMap<u64, Exchange>,
    places: HashMap<Place, usize>,
    sessions: HashMap<(Option<String>, String), usize>,
    /// The path to which a server's client posted first.
    endpoints: HashMap<Option<String>, String>,
    /// Where streams of HTTP+SSE said that messages are posted: server, path and query.
    legacy: HashMap<(Option<String>, String), usize>,
    /// Paths of such streams.
    streams: HashSet<(Option<String>, String)>,
    asked: HashMap<(usize, Direction, Id), usize>,
    asked_of_server: HashMap<(Option<String>, Direction, Id), usize>,
}

impl<'a> View<'a> {
    /// An empty transcript.
    pub fn new() -> Self {
        Self::default()
    }

    /// A view of a whole transcript.
    pub fn of(events: &'a [Event]) -> Self {
        let mut view = Self::new();
        for event in events {
            view.add(Cow::Borrowed(event));
        }
        view
    }

    /// Appends an event. Returns its index.
    pub fn push(&mut self, event: Event) -> usize {
        self.add(Cow::Owned(event))
    }

    fn add(&mut self, event: Cow<'a, Event>) -> usize {
        let index = self.events.len();
        let first = self.messages.len();
        match &event.what {
            What::Line(line) => self.line(index, &event, line),
            What::HttpRequest(request) => self.request(index, &event, request),
            What::HttpResponse(response) => self.response(index, &event, response),
            What::StreamEvent(sent) => self.stream_event(index, &event, sent),
            What::StreamEnded { exchange, .. } => {
                if let Some(exchange) = self.exchanges.get_mut(exchange) {
                    exchange.ended = Some(index);
                }
            }
            _ => {}
        }
        self.events.push(event);
        self.of_event.push(first..self.messages.len());
        index
    }

    fn line(&mut self, index: usize, event: &Event, line: &LineSeen) {
        let place = (event.server.clone(), event.incarnation);
        let conversation = self.conversation_at(place, Transport::Stdio);
        let mut inspected = jsonrpc::inspect(&line.text);
        if line.invalid_utf8 {
            inspected.faults.insert(0, Fault::InvalidUtf8);
        }
        self.take(index, line.direction, conversation, None, inspected, line.scripted_fault);
    }

    fn request(&mut self, index: usize, event: &Event, request: &HttpRequest) {
        let mut exchange =
            Exchange { request: index, response: None, ended: None, conversation: None, initialize: false };
        // A client that looks for metadata may GET anything; a message it may post to a wrong place.
        let elsewhere = request.method == "GET"
            && self.endpoints.get(&event.server).is_some_and(|endpoint| endpoint != path(&request.target))
            && !self.streams.contains(&(event.server.clone(), path(&request.target).to_owned()));
        if is_endpoint(request) && !elsewhere {
            if request.method == "POST" {
                let endpoint = || path(&request.target).to_owned();
                self.endpoints.entry(event.server.clone()).or_insert_with(endpoint);
            }
            let posted = (request.method == "POST").then(|| {
                let mut inspected = jsonrpc::inspect(&request.body);
                if request.invalid_utf8 {
                    inspected.faults.insert(0, Fault::InvalidUtf8);
                }
                inspected
            });
            exchange.initialize = posted.as_ref().is_some_and(|posted| {
                posted.messages().iter().any(
                    |m| matches!(&m.envelope, Envelope::Request { method, .. } if method == "initialize"),
                )
            });
            let place = (event.server.clone(), None);
            let named = header(&request.headers, "mcp-session-id")
                .and_then(|session| self.sessions.get(&(event.server.clone(), session.to_owned())).copied());
            let legacy = (event.server.clone(), request.target.clone());
            let legacy = self.legacy.get(&legacy).copied().filter(|_| request.method == "POST");
            let conversation = if let Some(legacy) = legacy {
                legacy
            } else if exchange.initialize {
                self.open(place, Transport::Http)
            } else if let Some(version) = stateless(request, posted.as_ref()) {
                // Beside a session, not in it: the client may speak to the same server in two eras.
                let conversation = self.conversation_at((place.0, Some(STATELESS)), Transport::Http);
                if let Some(conversation) = self.conversations.get_mut(conversation) {
                    conversation.incarnation = None;
                    conversation.version = Some(version.as_str().to_owned());
                }
                conversation
            } else {
                named.unwrap_or_else(|| self.conversation_at(place, Transport::Http))
            };
            exchange.conversation = Some(conversation);
            if let Some(conversation) = self.conversations.get_mut(conversation) {
                conversation.exchanges.push(request.exchange);
            }
            self.exchanges.insert(request.exchange, exchange);
            if let Some(posted) = posted {
                let number = Some(request.exchange);
                self.take(index, Direction::Received, conversation, number, posted, false);
            }
        } else {
            self.exchanges.insert(request.exchange, exchange);
        }
    }

    fn response(&mut self, index: usize, event: &Event, response: &HttpResponse) {
        let Some(exchange) = self.exchanges.get_mut(&response.exchange) else { return };
        if exchange.response.is_none() {
            exchange.response = Some(index);
        }
        let Exchange { conversation: Some(conversation), initialize, request, .. } = *exchange else {
            return;
        };
        if initialize
            && (200..300).contains(&response.status)
            && let Some(session) = header(&response.headers, "mcp-session-id")
        {
            self.sessions.insert((event.server.clone(), session.to_owned()), conversation);
            if let Some(conversation) = self.conversations.get_mut(conversation) {
                conversation.session = Some(session.to_owned());
                conversation.session_given = Some(index);
            }
        }
        let posted = matches!(self.what(request), Some(What::HttpRequest(r)) if r.method == "POST");
        let Some(body) = response.body.as_deref().filter(|body| posted && !body.is_empty()) else { return };
        let inspected = jsonrpc::inspect(body);
        let says_so = inspected.value.as_ref().is_some_and(|v| v.is_array() || v.get("jsonrpc").is_some());
        let is_json = media_type(header(&response.headers, "content-type").unwrap_or_default())
            .eq_ignore_ascii_case("application/json");
        // Bodies of refusals are anything at all; only what calls itself JSON-RPC is read as that.
        if says_so || (is_json && (200..300).contains(&response.status)) {
            let number = Some(response.exchange);
            self.take(index, Direction::Sent, conversation, number, inspected, response.scripted_fault);
        }
    }

    /// A stream said where messages are posted: it is one of HTTP+SSE, and a conversation of its own.
    fn endpoint_given(&mut self, index: usize, event: &Event, number: u64, reference: &str) {
        let Some(request) = self.http_request(number).filter(|request| request.method == "GET") else {
            return;
        };
        let stream = path(&request.target).to_owned();
        let Some(target) = resolved(&request.target, reference) else { return };
        let Some(before) = self.exchanges.get(&number).and_then(|exchange| exchange.conversation) else {
            return;
        };
        let is_own = |c: &Conversation| c.messages.is_empty() && c.exchanges == [number];
        let conversation = if self.conversations.get(before).is_some_and(is_own) {
            before
        } else {
            if let Some(before) = self.conversations.get_mut(before) {
                before.exchanges.retain(|exchange| *exchange != number);
            }
            let conversation = self.open((event.server.clone(), None), Transport::SseLegacy);
            if let Some(opened) = self.conversations.get_mut(conversation) {
                opened.exchanges.push(number);
            }
            conversation
        };
        if let Some(exchange) = self.exchanges.get_mut(&number) {
            exchange.conversation = Some(conversation);
        }
        if let Some(conversation) = self.conversations.get_mut(conversation) {
            conversation.transport = Some(Transport::SseLegacy);
            conversation.legacy =
                Some(LegacyStream { exchange: number, given: index, target: target.clone() });
        }
        self.streams.insert((event.server.clone(), stream));
        self.legacy.insert((event.server.clone(), target), conversation);
    }

    fn stream_event(&mut self, index: usize, event: &Event, sent: &StreamEvent) {
        if let (Some("endpoint"), Some(reference)) = (sent.event.as_deref(), &sent.data) {
            self.endpoint_given(index, event, sent.exchange, reference);
        }
        let Some(Exchange { conversation: Some(conversation), .. }) =
            self.exchanges.get(&sent.exchange).copied()
        else {
            return;
        };
        let mut messages = Vec::new();
        // The first event of HTTP+SSE names the endpoint and is no message.
        if sent.event.as_deref().is_none_or(|event| event == "message") {
            messages.extend(sent.data.as_deref().filter(|data| !data.is_empty()).map(jsonrpc::inspect));
        }
        if let Some(raw) = &sent.raw {
            let type_of_body = self
                .http_response(sent.exchange)
                .and_then(|response| header(&response.headers, "content-type"))
                .map_or("", media_type);
            if type_of_body.eq_ignore_ascii_case("application/json") {
                messages.push(jsonrpc::inspect(raw));
            } else {
                let items = SseReader::new(raw.len().saturating_add(1)).push(raw.as_bytes());
                messages.extend(items.unwrap_or_default().into_iter().filter_map(|item| match item {
                    SseItem::Event(event) if event.is_message() => {
                        event.data.filter(|data| !data.is_empty()).map(|data| jsonrpc::inspect(&data))
                    }
                    _ => None,
                }));
            }
        }
        for inspected in messages {
            let number = Some(sent.exchange);
            self.take(index, Direction::Sent, conversation, number, inspected, sent.scripted_fault);
        }
    }

    fn conversation_at(&mut self, place: Place, transport: Transport) -> usize {
        match self.places.get(&place) {
            Some(&conversation) => conversation,
            None => self.open(place, transport),
        }
    }

    fn open(&mut self, place: Place, transport: Transport) -> usize {
        let conversation = self.conversations.len();
        self.conversations.push(Conversation {
            server: place.0.clone(),
            incarnation: place.1,
            transport: Some(transport),
            ..Conversation::default()
        });
        self.places.insert(place, conversation);
        conversation
    }

    fn take(
        &mut self,
        event: usize,
        direction: Direction,
        conversation: usize,
        exchange: Option<u64>,
        inspected: Inspected,
        scripted_fault: bool,
    ) {
        let Inspected { value, envelope, faults } = inspected;
        let (in_batch, members) = match envelope {
            Envelope::Batch(members) if !members.is_empty() => (true, members),
            envelope => (false, vec![Inspected { value, envelope, faults }]),
        };
        for inspected in members {
            self.message(Message {
                event,
                direction,
                conversation,
                exchange,
                in_batch,
                inspected,
                pair: None,
                scripted_fault,
            });
        }
    }

    fn message(&mut self, mut message: Message) {
        let index = self.messages.len();
        let server = self.conversations.get(message.conversation).and_then(|c| c.server.clone());
        if let Some(id) = message.id().cloned() {
            if message.is_request() {
                self.asked.insert((message.conversation, message.direction, id.clone()), index);
                self.asked_of_server.insert((server, message.direction, id), index);
            } else if message.is_response() {
                let asker = match message.direction {
                    Direction::Received => Direction::Sent,
                    Direction::Sent => Direction::Received,
                };
                // An answer that comes after a new `initialize` still answers what was asked before it.
                message.pair = self
                    .asked
                    .get(&(message.conversation, asker, id.clone()))
                    .or_else(|| self.asked_of_server.get(&(server, asker, id)))
                    .copied();
            }
        }
        if let Some(conversation) = self.conversations.get_mut(message.conversation) {
            if message.is_client_request("initialize") {
                conversation.initialize = Some(index);
                // Until it is answered nothing is agreed on, whatever was tried before.
                if conversation.answer.is_none() {
                    conversation.version = None;
                }
            } else if message.from_client()
                && message.is_request()
                && conversation.initialize.is_none()
                && let Some(version) = meta_version(message.params())
            {
                let known = version.parse::<Revision>().is_ok_and(Revision::is_stateless);
                conversation.version =
                    known.then(|| version.to_owned()).or_else(|| conversation.version.take());
            }
        }
        if let Some(asked) = message.pair {
            let asked = &mut self.messages[asked];
            asked.pair = asked.pair.or(Some(index));
            if asked.is_client_request("initialize")
                && let Some(conversation) = self.conversations.get_mut(asked.conversation)
            {
                conversation.answer = Some(index);
                conversation.version = message
                    .result()
                    .and_then(|result| result.get("protocolVersion"))
                    .and_then(Value::as_str)
                    .map(str::to_owned);
            }
        }
        if let Some(conversation) = self.conversations.get_mut(message.conversation) {
            conversation.messages.push(index);
            if !message.from_client() && (message.scripted_fault || !message.inspected.is_valid()) {
                conversation.first_fault.get_or_insert(message.event);
            }
        }
        self.messages.push(message);
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The event at an index.
    pub fn event(&self, index: usize) -> Option<&Event> {
        self.events.get(index).map(AsRef::as_ref)
    }

    /// What was observed at an index.
    pub fn what(&self, index: usize) -> Option<&What> {
        self.event(index).map(|event| &event.what)
    }

    /// All events with their indices.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = (usize, &Event)> {
        self.events.iter().map(AsRef::as_ref).enumerate()
    }

    /// All messages in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The messages that an event carries.
    pub fn messages_of(&self, event: usize) -> &[Message] {
        self.of_event.get(event).map_or(&[], |range| &self.messages[range.clone()])
    }

    /// All conversations, in the order in which they began.
    pub fn conversations(&self) -> &[Conversation] {
        &self.conversations
    }

    /// The conversation of a message.
    pub fn conversation(&self, message: &Message) -> Option<&Conversation> {
        self.conversations.get(message.conversation)
    }

    /// The message that answers this one, or that this one answers.
    pub fn pair(&self, message: &Message) -> Option<&Message> {
        self.messages.get(message.pair?)
    }

    /// An exchange by its number.
    pub fn exchange(&self, number: u64) -> Option<&Exchange> {
        self.exchanges.get(&number)
    }

    /// The request of an exchange.
    pub fn http_request(&self, number: u64) -> Option<&HttpRequest> {
        match self.what(self.exchanges.get(&number)?.request)? {
            What::HttpRequest(request) => Some(request),
            _ => None,
        }
    }

    /// The response of an exchange.
    pub fn http_response(&self, number: u64) -> Option<&HttpResponse> {
        match self.what(self.exchanges.get(&number)?.response?)? {
            What::HttpResponse(response) => Some(response),
            _ => None,
        }
    }

    /// The number of the exchange that an event belongs to.
    pub fn exchange_of(&self, event: usize) -> Option<u64> {
        match self.what(event)? {
            What::HttpRequest(request) => Some(request.exchange),
            What::HttpResponse(response) => Some(response.exchange),
            What::StreamEvent(sent) => Some(sent.exchange),
            What::StreamEnded { exchange, .. } | What::ResponseBroken { exchange, .. } => Some(*exchange),
            _ => None,
        }
    }

    /// All requests that reached HTTP listeners, with the indices of their events.
    pub fn http_requests(&self) -> impl Iterator<Item = (usize, &Event, &HttpRequest)> {
        self.events().filter_map(|(index, event)| match &event.what {
            What::HttpRequest(request) => Some((index, event, request)),
            _ => None,
        })
    }

    /// The first message of an event that has an id; of an HTTP response that has none, of its request.
    pub fn subject_id(&self, event: usize) -> Option<&Id> {
        let of = |event| self.messages_of(event).iter().find_map(Message::id);
        of(event).or_else(|| of(self.exchanges.get(&self.exchange_of(event)?)?.request))
    }
}

/// Whether a request goes to the MCP endpoint, and not to what an authorization server offers on the same origin
/// (metadata, and the default endpoints of 2025-03-26).
pub fn is_endpoint(request: &HttpRequest) -> bool {
    request.role == HttpRole::Mcp && Endpoint::of(request).is_none()
}

/// The path of a target, without the query.
pub fn path(target: &str) -> &str {
    target.split(['?', '#']).next().unwrap_or_default()
}

/// The query of a target.
pub fn query(target: &str) -> &str {
    target.split_once('?').map_or("", |(_, query)| query.split('#').next().unwrap_or_default())
}

/// The first value of a header field; `name` in lower case.
pub fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// A media type without its parameters.
pub fn media_type(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

/// The parameters of a form or a query.
pub fn form(text: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// The first value of a parameter.
pub fn parameter<'f>(form: &'f [(String, String)], name: &str) -> Option<&'f str> {
    form.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::testing::{http, initialize, notification, request, result, transcript};
    use serde_json::json;

    #[test]
    fn conversations_are_processes_sessions_or_spans() {
        let v = "2025-11-25";
        let none = || json!({});
        let stdio = transcript().handshake(v, none(), none()).process(2).handshake(v, none(), none());
        assert_eq!(View::of(&stdio.events).conversations().len(), 2);
        // The second handshake opens a session beside the first, which goes on.
        let sessions = http()
            .http_handshake(v, Some("s-1"), none(), none())
            .without("mcp-session-id")
            .http_handshake(v, Some("s-2"), none(), none())
            .header("mcp-session-id", "s-1")
            .post(request(1, "ping", Value::Null));
        let view = View::of(&sessions.events);
        let of = |c: usize| {
            (view.conversations()[c].session.clone().unwrap(), view.conversations()[c].messages.len())
        };
        assert_eq!((of(0), of(1)), (("s-1".into(), 4), ("s-2".into(), 3)));
        // A refused `initialize` is a conversation of its own.
        let refused = http()
            .post(initialize(0, v, none()))
            .answer(401, json!({"error": "invalid_token"}))
            .http_handshake(v, None, none(), none());
        let view = View::of(&refused.events);
        assert_eq!(view.conversations().len(), 2);
        assert_eq!(view.conversations()[0].messages.len(), 1, "the refusal is no message");
    }

    #[test]
    fn a_stream_of_http_sse_and_what_is_posted_to_its_endpoint_are_one_conversation() {
        let endpoint = |exchange, at: &str| {
            What::StreamEvent(StreamEvent {
                exchange,
                event: Some("endpoint".into()),
                data: Some(at.into()),
                ..StreamEvent::default()
            })
        };
        let v = "2024-11-05";
        let one = http()
            .post(initialize(0, v, json!({})))
            .answer(405, Value::Null)
            .get()
            .stream()
            .event(endpoint(2, "messages?session=1"))
            .http("POST", "/messages?session=1", &initialize(0, v, json!({})).to_string())
            .answer(202, Value::Null)
            .sse(2, crate::judge::testing::initialized(0, v, json!({})))
            .http("POST", "/messages?session=1", &request(1, "ping", Value::Null).to_string())
            .answer(202, Value::Null)
            .sse(2, result(1, json!({})))
            .get()
            .stream()
            .event(endpoint(5, "http://127.0.0.1:1/messages?session=2"))
            .http("POST", "/messages?session=2", &initialize(0, v, json!({})).to_string());
        let view = View::of(&one.events);
        let [refused, first, second] = view.conversations() else { panic!("{:#?}", view.conversations()) };
        assert_eq!((refused.messages.len(), refused.transport), (1, Some(Transport::Http)));
        assert_eq!((first.messages.len(), first.transport), (4, Some(Transport::SseLegacy)));
        assert_eq!(first.revision(), Some(Revision::V2024_11_05));
        assert_eq!(first.exchanges, [2, 3, 4]);
        assert_eq!(second.legacy.as_ref().unwrap().target, "/messages?session=2");
        assert_eq!(second.messages.len(), 1);
    }

    #[test]
    fn requests_say_their_revision_where_there_is_no_handshake() {
        let modern = |id: i64, method: &str| {
            request(id, method, json!({"_meta": {meta::PROTOCOL_VERSION: "2026-07-28"}}))
        };
        let plain = transcript().client(modern(1, "tools/list"));
        assert_eq!(View::of(&plain.events).conversations()[0].revision(), Some(Revision::STATELESS));
        // One that tries that first and then opens with a handshake speaks what is agreed on.
        let fallback =
            transcript().client(modern(1, "server/discover")).client(initialize(2, "2025-11-25", json!({})));
        assert_eq!(View::of(&fallback.events).conversations()[0].revision(), None);
        let over_http = http().post(modern(1, "tools/list")).answer(200, result(1, json!({})));
        assert_eq!(View::of(&over_http.events).conversations()[0].revision(), Some(Revision::STATELESS));
    }

    #[test]
    fn messages_are_found_wherever_they_stand() {
        let raw = |text: &str| {
            What::StreamEvent(StreamEvent { exchange: 1, raw: Some(text.into()), ..StreamEvent::default() })
        };
        let answer = result(1, json!({}));
        let streamed = http()
            .post(request(1, "ping", Value::Null))
            .stream()
            .event(raw(&format!(": comment\r\ndata: {answer}\r\n\r\nevent: other\ndata: {answer}\n\n")));
        let view = View::of(&streamed.events);
        assert_eq!(view.messages().len(), 2);
        assert_eq!(view.messages()[0].pair, Some(1));
        let batch = transcript().client(json!([
            request(1, "ping", Value::Null),
            notification("notifications/x", Value::Null),
            3
        ]));
        let view = View::of(&batch.events);
        assert_eq!(view.messages_of(0).len(), 3);
        assert!(view.messages().iter().all(|m| m.in_batch));
    }
}
