//! What the server did on which event.

use super::rules::askable;
use super::without_meta;
use crate::judge::view::{Message, View, header, is_endpoint, media_type, path};
use serde_json::{Value, json};
use sparring_mock_servers::script::{
    Action, AnswerStyle, CutStream, ErrorAnswer, JsonText, OwnMessage, RawBody, RawPart, ServerScript,
    StatusAnswer, Trigger, Until,
};
use sparring_wire::jsonrpc::Envelope;
use sparring_wire::transcript::{HttpResponse, LineSeen, Party, What};
use std::collections::{BTreeMap, HashMap};

/// An event that rules react to, and what the server did then.
#[derive(Debug)]
pub(super) struct Reaction {
    pub(super) on: Trigger,
    pub(super) incarnation: Option<u32>,
    /// The method, if it is in no revision and the trigger does not name it.
    pub(super) unknown: Option<String>,
    /// The params by which rules tell it apart; an empty object where they don't.
    pub(super) key: Value,
    /// The whole params, against which rules are matched.
    pub(super) params: Value,
    /// What the server did, the answer included.
    pub(super) actions: Vec<Action>,
    /// It is a request that wants an answer.
    pub(super) request: bool,
    answered: bool,
    /// Answers of the client that came before the server's answer, to what it asked meanwhile.
    waited_for: u32,
    asked: bool,
}

impl Reaction {
    fn new(on: Trigger, incarnation: Option<u32>) -> Self {
        Self {
            on,
            incarnation,
            unknown: None,
            key: json!({}),
            params: json!({}),
            actions: Vec::new(),
            request: false,
            answered: false,
            waited_for: 0,
            asked: false,
        }
    }

    /// The method of a request.
    pub(super) fn method(&self) -> Option<&str> {
        match &self.on {
            Trigger::Method(method) if self.request => Some(method),
            Trigger::Unknown if self.request => self.unknown.as_deref(),
            _ => None,
        }
    }

    /// The recorded result.
    pub(super) fn result(&self) -> Option<&Value> {
        self.actions.iter().find_map(|action| match action {
            Action::Respond(JsonText(result)) => Some(result),
            _ => None,
        })
    }
}

/// Where events of one kind came from: a process, or the endpoint.
type Place = Option<u32>;

struct Walk<'v> {
    view: &'v View<'v>,
    reactions: Vec<Reaction>,
    /// The reaction to each message, by the message's index.
    of_message: HashMap<usize, usize>,
    of_exchange: HashMap<u64, usize>,
    last: BTreeMap<Place, usize>,
}

/// Walks through the transcript of one server.
pub(super) fn walk(view: &View<'_>, left_out: &mut Vec<String>) -> Vec<Reaction> {
    let mut walk = Walk {
        view,
        reactions: Vec::new(),
        of_message: HashMap::new(),
        of_exchange: HashMap::new(),
        last: BTreeMap::new(),
    };
    let mut stdin_closed = false;
    let mut asked_to_end = None;
    for (index, event) in view.events() {
        match &event.what {
            What::ProcessStarted(_) => (stdin_closed, asked_to_end) = (false, None),
            What::StdinClosed => stdin_closed = true,
            What::SignalReceived { signal } => asked_to_end = Some(signal.clone()),
            What::ProcessExiting { code, signal } => {
                let own = match (&asked_to_end, signal) {
                    // It did what any process does.
                    (Some(asked), Some(signal)) if asked == signal => None,
                    (_, Some(signal)) => serde_json::from_value(signal.clone().into()).ok().map(Action::Die),
                    (_, None) => Some(Action::Exit(code.unwrap_or_default())),
                };
                let by_itself = !stdin_closed && asked_to_end.is_none();
                if let Some(action) = own
                    && (by_itself || action != Action::Exit(0))
                {
                    if by_itself {
                        walk.last(event.incarnation).actions.push(action);
                    } else {
                        let on = if asked_to_end.is_some() { Trigger::Sigterm } else { Trigger::Eof };
                        let mut reaction = Reaction::new(on, event.incarnation);
                        reaction.actions.push(action);
                        walk.reactions.push(reaction);
                    }
                }
            }
            What::Line(line) if view.messages_of(index).is_empty() => {
                walk.no_message(event.incarnation, line);
            }
            What::HttpResponse(response) if walk.cut(response, left_out) => continue,
            What::HttpResponse(response) => walk.response(index, response, left_out),
            What::StreamEvent(sent) if sent.event.as_deref() == Some("endpoint") => {
                left_out.push("the transport HTTP+SSE of 2024-11-05".to_owned());
            }
            What::StreamEvent(sent) if sent.raw.as_deref().is_some_and(|raw| raw.starts_with(':')) => {}
            What::StreamEnded { exchange, .. } => walk.stream_ended(*exchange),
            _ => {}
        }
        let first = view.messages().partition_point(|m| m.event < index);
        for (offset, message) in view.messages_of(index).iter().enumerate() {
            if message.in_batch {
                left_out.push("that messages came in batches".to_owned());
            }
            let place = event.incarnation;
            if message.from_client() {
                walk.client(first + offset, message, place);
            } else {
                walk.server(message, place, left_out);
            }
        }
    }
    for reaction in &mut walk.reactions {
        if reaction.request && !reaction.answered {
            reaction.actions.push(Action::Drop);
        }
    }
    walk.reactions
}

impl Walk<'_> {
    /// The reaction to the last event of a place; the start if there was none.
    fn last(&mut self, place: Place) -> &mut Reaction {
        let at = match self.last.get(&place) {
            Some(&at) => at,
            None => {
                self.reactions.push(Reaction::new(Trigger::Start, place));
                self.last.insert(place, self.reactions.len() - 1);
                self.reactions.len() - 1
            }
        };
        &mut self.reactions[at]
    }

    fn client(&mut self, index: usize, message: &Message, place: Place) {
        let on = match (&message.inspected.envelope, message.method()) {
            (Envelope::Result { .. } | Envelope::Error { .. }, _) => Trigger::Response,
            (Envelope::Request { .. } | Envelope::Notification { .. }, Some(method)) => {
                match method.parse::<Trigger>() {
                    Ok(on @ Trigger::Method(_)) => on,
                    // In a rule it would stand for any text.
                    _ if method.contains('*') => return,
                    _ => Trigger::Unknown,
                }
            }
            _ => return,
        };
        let mut reaction = Reaction::new(on, place);
        reaction.unknown = message.method().filter(|_| reaction.on == Trigger::Unknown).map(str::to_owned);
        reaction.params = message.params().cloned().unwrap_or_else(|| json!({}));
        reaction.request = message.is_request() && message.id().is_some();
        if reaction.request && message.method() != Some("initialize") {
            reaction.key = askable(&without_meta(message.params()));
        }
        if reaction.on == Trigger::Response
            && let Some(waiting) = self.reactions.iter_mut().rev().find(|r| r.asked && !r.answered)
        {
            waiting.waited_for += 1;
        }
        self.reactions.push(reaction);
        let at = self.reactions.len() - 1;
        self.of_message.insert(index, at);
        if let Some(exchange) = message.exchange {
            self.of_exchange.insert(exchange, at);
        }
        self.last.insert(place, at);
    }

    /// A line of the server's that is no JSON.
    fn no_message(&mut self, place: Place, line: &LineSeen) {
        if line.direction == sparring_wire::transcript::Direction::Sent {
            self.last(place).actions.push(Action::Stdout(line.text.clone()));
        }
    }

    fn server(&mut self, message: &Message, place: Place, left_out: &mut Vec<String>) {
        let own = message.exchange.and_then(|exchange| self.of_exchange.get(&exchange).copied());
        if message.is_response() {
            let asked = message.pair.and_then(|index| self.of_message.get(&index).copied());
            match asked {
                Some(at) => {
                    let reaction = &mut self.reactions[at];
                    let first = !std::mem::replace(&mut reaction.answered, true);
                    let waited_for = reaction.waited_for;
                    if first && waited_for > 0 {
                        let on = Trigger::Response.into();
                        reaction.actions.push(Action::HoldUntil(Until {
                            on,
                            times: waited_for,
                            ..Until::default()
                        }));
                    }
                    if message.exchange.is_none()
                        && waited_for == 0
                        && self.last.get(&place).is_some_and(|last| *last != at)
                    {
                        left_out.push("that some answers came later than at once".to_owned());
                    }
                    match answer(message) {
                        Some(action) if first => reaction.actions.push(action),
                        _ => {
                            self.raw(message, Some(at), place);
                            // That was the answer.
                            let reaction = &mut self.reactions[at];
                            if !reaction.actions.iter().any(Action::answers) {
                                reaction.actions.push(Action::Drop);
                            }
                        }
                    }
                }
                None => self.raw(message, own, place),
            }
            return;
        }
        let (Some(method), true) = (message.method(), message.inspected.is_valid()) else {
            return self.raw(message, own, place);
        };
        let sent = OwnMessage {
            method: method.to_owned(),
            params: message.params().cloned().map(JsonText),
            id: message.id().map(|id| JsonText(id.to_value())),
            on_get_stream: message.exchange.is_some() && own.is_none(),
        };
        let at = own.filter(|at| self.reactions[*at].request);
        let reaction = match at {
            Some(at) => &mut self.reactions[at],
            None => self.last(place),
        };
        if message.is_request() {
            reaction.asked = true;
            reaction.actions.push(Action::Request(sent));
        } else {
            reaction.actions.push(Action::Notify(sent));
        }
        if message.exchange.is_some() && at.is_none() && reaction.on == Trigger::Start {
            left_out.push("what the server sent before the first message of the client's".to_owned());
        }
    }

    /// A message that is wrong in some way, as it is.
    fn raw(&mut self, message: &Message, at: Option<usize>, place: Place) {
        let text = match self.view.what(message.event) {
            Some(What::Line(line)) => line.text.clone(),
            _ => message.inspected.value.as_ref().map(Value::to_string).unwrap_or_default(),
        };
        let action = if message.exchange.is_none() {
            Action::Stdout(text)
        } else {
            let is_json = message
                .exchange
                .and_then(|exchange| self.view.http_response(exchange))
                .is_some_and(|response| response.body.is_some());
            let (content_type, text) = match is_json {
                true => (Some("application/json".to_owned()), text),
                false => (None, format!("data: {text}\n\n")),
            };
            Action::RawBody(RawBody { content_type, text, split_every: None })
        };
        match at {
            Some(at) => self.reactions[at].actions.push(action),
            None => self.last(place).actions.push(action),
        }
    }

    /// Whether a response to a message broke off in a body that is no stream; it is played to the byte where it did.
    fn cut(&mut self, response: &HttpResponse, left_out: &mut Vec<String>) -> bool {
        let ended = self.view.exchange(response.exchange).and_then(|e| self.view.what(e.ended?));
        let (Some(body), Some(What::StreamEnded { by, .. })) = (&response.body, ended) else { return false };
        let Some(at) = self.of_exchange.get(&response.exchange).copied() else { return false };
        let length = header(&response.headers, "content-length").and_then(|n| n.trim().parse::<usize>().ok());
        // Redaction may have made it longer.
        let fits = length.is_none_or(|length| body.len() < length);
        if *by != Party::Server || !fits || self.reactions[at].answered {
            left_out.push("that an answer broke off in its body".to_owned());
            return false;
        }
        let mut text = format!("HTTP/1.1 {} {}\r\n", response.status, "Recorded");
        // The session is named by the player, not by what was recorded.
        for (name, value) in response.headers.iter().filter(|(name, _)| name != "mcp-session-id") {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        if length.is_none() && !body.is_empty() {
            text += &format!("{:x}\r\n", body.len());
        }
        text += body;
        let reaction = &mut self.reactions[at];
        reaction.answered = true;
        reaction.actions.push(Action::RawResponse(vec![RawPart::Text(text), RawPart::Close]));
        true
    }

    /// A refusal: whatever is not an answer in JSON-RPC.
    fn response(&mut self, index: usize, response: &HttpResponse, left_out: &mut Vec<String>) {
        let Some(request) = self.view.http_request(response.exchange) else { return };
        let accepted = (200..300).contains(&response.status);
        if !is_endpoint(request) {
            if accepted {
                left_out.push(format!("what was answered at {}", path(&request.target)));
            }
            return;
        }
        if !self.view.messages_of(index).is_empty() || accepted {
            return;
        }
        let kept = ["content-type", "www-authenticate", "location", "retry-after"];
        let headers = response.headers.iter().filter(|(name, _)| kept.contains(&name.as_str())).cloned();
        let action = Action::Status(StatusAnswer {
            code: response.status,
            headers: sparring_mock_servers::script::Fields(headers.collect()),
            body: response.body.clone().unwrap_or_default(),
        });
        match self.of_exchange.get(&response.exchange).copied() {
            Some(at) => {
                self.reactions[at].answered = true;
                self.reactions[at].actions.push(action);
            }
            None => {
                let verb = match request.method.as_str() {
                    "GET" if response.status != 405 => "http-get",
                    "DELETE" if response.status != 405 => "http-delete",
                    _ => return,
                };
                if let Ok(on) = verb.parse() {
                    let mut reaction = Reaction::new(on, None);
                    reaction.actions.push(action);
                    self.reactions.push(reaction);
                }
            }
        }
    }

    /// A stream that ended before the answer came.
    fn stream_ended(&mut self, exchange: u64) {
        let Some(at) = self.of_exchange.get(&exchange).copied() else { return };
        let reaction = &mut self.reactions[at];
        if !reaction.request || reaction.answered {
            return;
        }
        let begun = self.view.http_response(exchange).is_some();
        let by_server = self
            .view
            .exchange(exchange)
            .and_then(|e| self.view.what(e.ended?))
            .is_some_and(|what| matches!(what, What::StreamEnded { by: Party::Server, .. }));
        if by_server {
            reaction.answered = true;
            let cut = Action::CutStream(CutStream::default());
            reaction.actions.push(if begun { cut } else { Action::Reset });
        }
    }
}

/// The answer as an action, if it is in order.
fn answer(message: &Message) -> Option<Action> {
    if !message.inspected.is_valid() {
        return None;
    }
    match &message.inspected.envelope {
        Envelope::Result { result, .. } => Some(Action::Respond(JsonText(result.clone()))),
        Envelope::Error { code: Some(code), message, data, .. } => Some(Action::Error(ErrorAnswer {
            code: *code,
            message: message.clone().unwrap_or_default(),
            data: data.clone().map(JsonText),
        })),
        _ => None,
    }
}

/// How the endpoint behaves.
pub(super) fn http(view: &View<'_>, script: &mut ServerScript) {
    let (mut json, mut sse) = (0, 0);
    for (_, event) in view.events() {
        match &event.what {
            What::HttpRequest(request) if is_endpoint(request) && request.method == "POST" => {
                let path = path(&request.target);
                if script.http.path.is_none() && path != "/mcp" {
                    script.http.path = Some(path.to_owned());
                }
            }
            What::HttpResponse(response) => {
                let Some(request) = view.http_request(response.exchange).filter(|r| is_endpoint(r)) else {
                    continue;
                };
                let of_type = header(&response.headers, "content-type").map(media_type).unwrap_or_default();
                let is_stream = response.status == 200 && of_type == "text/event-stream";
                script.http.sessions |= header(&response.headers, "mcp-session-id").is_some();
                match request.method.as_str() {
                    "GET" => script.http.get_stream |= is_stream,
                    "DELETE" => script.http.refuse_delete |= response.status == 405,
                    "POST" if is_stream => sse += 1,
                    "POST" if response.status == 200 => json += 1,
                    _ => {}
                }
            }
            What::StreamEvent(sent) if sent.id.is_some() => {
                script.http.event_ids = true;
                script.http.priming |= sent.data.as_deref().unwrap_or_default().is_empty();
            }
            _ => {}
        }
    }
    if sse > json {
        script.http.answers = AnswerStyle::Sse;
    }
}
