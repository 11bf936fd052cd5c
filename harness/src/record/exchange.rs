//! From what was said on a connection to the events of a transcript.

use super::MAX_KEPT;
use super::http1::{Kept, Part, Reader};
use crate::judge::view::{header, media_type};
use sparring_wire::sse::{SseItem, SseReader};
use sparring_wire::transcript::{HttpRequest, HttpResponse, HttpRole, Party, StreamEvent, What};
use std::collections::VecDeque;

/// One connection between client and server, as it is relayed.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    requests: Reader,
    responses: Reader,
    asking: Option<Asking>,
    /// Exchanges whose response has not begun, in order.
    due: VecDeque<u64>,
    answering: Option<Answering>,
}

#[derive(Debug)]
struct Asking {
    request: HttpRequest,
    body: Kept,
    /// It was answered before it was whole.
    told: bool,
}

#[derive(Debug)]
struct Answering {
    response: HttpResponse,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Whole(Kept),
    /// A stream, whose head has been told.
    Stream(Box<SseReader>),
}

/// Numbers of exchanges, over all connections.
pub type Exchanges = u64;

impl Connection {
    /// The connection with this number.
    pub const fn new(number: u64) -> Self {
        Self {
            number,
            requests: Reader::requests(),
            responses: Reader::responses(),
            asking: None,
            due: VecDeque::new(),
            answering: None,
        }
    }

    /// Bytes of the client's. `exchanges` is the number of the last exchange.
    pub fn received(&mut self, bytes: &[u8], exchanges: &mut Exchanges, events: &mut Vec<What>) {
        for part in self.requests.push(bytes) {
            match part {
                Part::Head { line, headers } => {
                    let mut words = line.split(' ');
                    let method = words.next().unwrap_or_default().to_owned();
                    let target = words.next().unwrap_or_default().to_owned();
                    *exchanges += 1;
                    self.responses.asked(&method);
                    self.due.push_back(*exchanges);
                    let request = HttpRequest {
                        exchange: *exchanges,
                        connection: self.number,
                        method,
                        target,
                        headers,
                        role: HttpRole::Mcp,
                        ..HttpRequest::default()
                    };
                    self.asking = Some(Asking { request, body: Kept::default(), told: false });
                }
                Part::Body(bytes) => {
                    if let Some(asking) = &mut self.asking {
                        asking.body.push(&bytes);
                    }
                }
                Part::End => {
                    self.tell_request(events);
                    self.asking = None;
                }
                Part::Lost(why) => lost("client", why, events),
            }
        }
    }

    /// Bytes of the server's.
    pub fn sent(&mut self, bytes: &[u8], events: &mut Vec<What>) {
        for part in self.responses.push(bytes) {
            self.answer(part, events);
        }
    }

    /// The connection is over, ended by one of the two.
    pub fn ended(&mut self, by: Party, events: &mut Vec<What>) {
        let (_, last) = self.responses.finish();
        for part in last {
            self.answer(part, events);
        }
        // What was under way stays so: it was cut.
        if let Some(answering) = self.answering.take() {
            let exchange = answering.response.exchange;
            tell_response(answering, events);
            events.push(What::StreamEnded { exchange, by });
        }
        self.tell_request(events);
        self.asking = None;
        for exchange in self.due.drain(..) {
            events.push(What::StreamEnded { exchange, by });
        }
    }

    fn tell_request(&mut self, events: &mut Vec<What>) {
        let Some(asking) = self.asking.as_mut().filter(|asking| !asking.told) else { return };
        asking.told = true;
        let mut request = asking.request.clone();
        (request.body, request.invalid_utf8) = asking.body.text();
        unreadable(&request.headers, &mut request.body, asking.body.cut, events);
        events.push(What::HttpRequest(request));
    }

    fn answer(&mut self, part: Part, events: &mut Vec<What>) {
        match part {
            Part::Head { line, headers } => {
                let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
                let Some(exchange) = self.due.pop_front() else {
                    return lost("server", "an answer without a request", events);
                };
                if self.asking.as_ref().is_some_and(|asking| asking.request.exchange == exchange) {
                    self.tell_request(events);
                }
                let is_stream = header(&headers, "content-type")
                    .is_some_and(|v| media_type(v).eq_ignore_ascii_case("text/event-stream"));
                let response = HttpResponse { exchange, status, headers, ..HttpResponse::default() };
                let encoded = coding(&response.headers).is_some();
                let body = if is_stream && !encoded {
                    events.push(What::HttpResponse(response.clone()));
                    Body::Stream(Box::new(SseReader::new(MAX_KEPT)))
                } else {
                    Body::Whole(Kept::default())
                };
                self.answering = Some(Answering { response, body });
            }
            Part::Body(bytes) => match &mut self.answering {
                Some(Answering { body: Body::Whole(kept), .. }) => kept.push(&bytes),
                Some(Answering { body: Body::Stream(reader), response }) => {
                    let exchange = response.exchange;
                    match reader.push(&bytes) {
                        Ok(items) => {
                            events.extend(items.into_iter().map(|item| stream_event(exchange, item)));
                        }
                        Err(e) => {
                            **reader = SseReader::new(MAX_KEPT);
                            events.push(What::HarnessError { message: format!("not kept: {e}") });
                        }
                    }
                }
                None => {}
            },
            Part::End => {
                if let Some(answering) = self.answering.take() {
                    let exchange = answering.response.exchange;
                    if tell_response(answering, events) {
                        events.push(What::StreamEnded { exchange, by: Party::Server });
                    }
                }
            }
            Part::Lost(why) => lost("server", why, events),
        }
    }
}

/// Tells of a response, unless it is a stream, whose head has been told; whether it is.
fn tell_response(answering: Answering, events: &mut Vec<What>) -> bool {
    let Answering { mut response, body: Body::Whole(kept) } = answering else { return true };
    let (mut text, _) = kept.text();
    unreadable(&response.headers, &mut text, kept.cut, events);
    response.body = Some(text);
    events.push(What::HttpResponse(response));
    false
}

fn stream_event(exchange: u64, item: SseItem) -> What {
    let event = match item {
        SseItem::Event(event) => StreamEvent {
            exchange,
            data: event.data,
            id: event.id,
            event: event.event,
            retry: event.retry,
            ..StreamEvent::default()
        },
        SseItem::Comment(text) => {
            StreamEvent { exchange, raw: Some(format!(":{text}\n")), ..StreamEvent::default() }
        }
    };
    What::StreamEvent(event)
}

/// The coding of a body, such as `gzip`.
fn coding(headers: &[(String, String)]) -> Option<&str> {
    header(headers, "content-encoding").map(str::trim).filter(|c| !c.is_empty() && *c != "identity")
}

/// Takes out a body that nobody can read, and says so.
fn unreadable(headers: &[(String, String)], body: &mut String, cut: bool, events: &mut Vec<What>) {
    let message = match coding(headers) {
        Some(coding) if !body.is_empty() => {
            body.clear();
            format!("a body is encoded ({coding}): it was passed on, but can't be read here")
        }
        _ if cut => {
            body.clear();
            format!("a body is longer than {MAX_KEPT} bytes: it was passed on, but not kept")
        }
        _ => return,
    };
    events.push(What::HarnessError { message });
}

fn lost(who: &str, why: &str, events: &mut Vec<What>) {
    let message =
        format!("what the {who} says on a connection can't be followed, though it is passed on: {why}");
    events.push(What::HarnessError { message });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(events: &[What]) -> Vec<String> {
        events.iter().map(|what| serde_json::to_string(what).unwrap()).collect()
    }

    #[test]
    fn a_stream_is_told_event_by_event_and_a_cut_one_ends_by_who_cut_it() {
        let mut connection = Connection::new(3);
        let (mut exchanges, mut events) = (4, Vec::new());
        connection.received(
            b"POST /mcp HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
            &mut exchanges,
            &mut events,
        );
        connection.sent(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            &mut events,
        );
        connection.sent(b"9\r\ndata: x\n\n\r\n7\r\n: hey\n\n\r\n", &mut events);
        connection.ended(Party::Server, &mut events);
        assert_eq!(
            kinds(&events),
            [
                r#"{"kind":"http-request","exchange":5,"connection":3,"method":"POST","target":"/mcp","headers":[["content-length","2"]],"body":"{}","role":"mcp"}"#,
                r#"{"kind":"http-response","exchange":5,"status":200,"headers":[["content-type","text/event-stream"],["transfer-encoding","chunked"]]}"#,
                r#"{"kind":"stream-event","exchange":5,"data":"x"}"#,
                r#"{"kind":"stream-event","exchange":5,"raw":": hey\n"}"#,
                r#"{"kind":"stream-ended","exchange":5,"by":"server"}"#
            ]
        );
    }

    #[test]
    fn a_request_that_nobody_answers_ends_and_one_that_is_answered_early_is_told_first() {
        let mut connection = Connection::new(1);
        let (mut exchanges, mut events) = (0, Vec::new());
        connection.received(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n123", &mut exchanges, &mut events);
        connection.sent(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", &mut events);
        connection.received(b"456789GET / HTTP/1.1\r\n\r\n", &mut exchanges, &mut events);
        connection.ended(Party::Client, &mut events);
        let text = kinds(&events).join("\n");
        let order = ["\"body\":\"123\"", "\"status\":413", "\"method\":\"GET\"", "\"by\":\"client\""];
        let found: Vec<usize> = order.iter().map(|part| text.find(part).unwrap()).collect();
        assert!(found.is_sorted(), "{text}");
        assert_eq!(events.len(), 4);
    }

    #[test]
    fn what_can_not_be_read_is_said_to_be_missing() {
        let mut connection = Connection::new(1);
        let (mut exchanges, mut events) = (0, Vec::new());
        connection.received(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", &mut exchanges, &mut events);
        connection
            .sent(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", &mut events);
        let text = kinds(&events).join("\n");
        assert!(text.contains("harness-error") && text.contains("gzip") && !text.contains("abc"), "{text}");
    }
}
