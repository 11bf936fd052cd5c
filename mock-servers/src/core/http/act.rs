//! The actions of scripts that concern HTTP.

use super::wire::{Response, ending};
use crate::core::{Effect, RawOut, ServerCore, Task};
use crate::script::{
    Action, Breaking, ChangeSession, CutStream, OtherStream, OwnEvent, RawBody, RawPart, StatusAnswer,
};
use sparring_wire::Revision;
use sparring_wire::jsonrpc;
use sparring_wire::sse::{SseEvent, SseItem, SseReader};
use sparring_wire::transcript::{HttpResponse, StreamEvent, What};
use std::time::{Duration, UNIX_EPOCH};

/// The most that one `repeat` comes to, in bytes.
const MAX_REPEAT: usize = 64 << 20;

impl ServerCore {
    pub(in crate::core) fn act_http(&mut self, task: &mut Task, action: Action) {
        let exchange = task.scope.exchange;
        match (action, exchange) {
            (Action::CloseGetStream, _) => self.close_get_streams(task.scope.session.as_deref()),
            (Action::SseComment(text), _) => self.comment(task, &text),
            (Action::SseEvent(event), _) => self.own_event(task, event),
            (Action::Answers(style), Some(exchange)) => {
                let sse = self.is_sse(style);
                if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
                    entry.sse = sse;
                }
            }
            (Action::Status(status), Some(exchange)) => {
                let legacy = self.http.exchanges.get(&exchange).is_some_and(|e| e.legacy);
                let taken = (200..300).contains(&status.code);
                // On HTTP+SSE a message that was taken has its answer elsewhere.
                task.answered |= !(legacy && taken);
                // A failure is an honest answer; a success that the script made up may be anything.
                self.status(exchange, &status, taken && !legacy);
            }
            (Action::CutStream(cut), Some(exchange)) => self.cut_stream(task, exchange, &cut),
            (Action::Reset, Some(exchange)) => {
                task.answered = true;
                self.end_response(exchange, true);
            }
            (Action::Stall, Some(_)) => {
                task.answered = true;
                task.dropped = true;
            }
            (Action::ExpireSession, _) => {
                if let Some(session) = &task.scope.session {
                    self.http.sessions.remove(session);
                    self.http.waiting.remove(&Some(session.clone()));
                }
                task.answered = true;
                task.expired = exchange.is_some();
            }
            (Action::RawBody(raw), Some(exchange)) => self.raw_body(task, exchange, &raw),
            (Action::RawResponse(parts), Some(exchange)) => self.raw_response(task, exchange, &parts),
            (Action::ChangeSession(change), Some(exchange)) => self.change_session(task, exchange, change),
            (action, Some(exchange)) => self.shape_response(exchange, action),
            _ => {}
        }
    }

    /// Notes how the response of an exchange is to be, if it has not begun.
    fn shape_response(&mut self, exchange: u64, action: Action) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.done || entry.stream.is_some() {
            return;
        }
        match action {
            Action::Reply(change) => entry.shape().change = change,
            Action::Cut(cut) => entry.shape().cut = Some(cut),
            Action::Pieces(pieces) => entry.shape().pieces = Some(pieces),
            Action::SseStyle(style) => entry.style = Some(Box::new(style)),
            Action::KeepOpen => {
                entry.keep_open = true;
                entry.sse = true;
            }
            Action::AnswerOn(other) => entry.answer_on = Some::<OtherStream>(other),
            _ => {}
        }
    }

    /// The response that a stream of a task's own would be on, opened if need be; without one an open GET stream's.
    fn stream_for(&mut self, task: &Task, on_get_stream: bool) -> Option<u64> {
        let exchange = self.stream_at_hand(task).filter(|_| !on_get_stream).or_else(|| {
            let keys = self.http.get_streams.get(&task.scope.session)?.iter().rev();
            keys.filter_map(|key| self.http.streams.get(key)?.exchange).next()
        })?;
        if self.http.exchanges.get(&exchange).is_some_and(|e| e.stream.is_none()) {
            self.open_stream(exchange, false);
        }
        self.http.exchanges.get(&exchange).is_some_and(|e| !e.is_over()).then_some(exchange)
    }

    fn comment(&mut self, task: &Task, text: &str) {
        if let Some(exchange) = self.stream_for(task, false) {
            let text = self.comment_text(exchange, text);
            self.raw_out(exchange, &text, None, false);
        }
    }

    fn own_event(&mut self, task: &Task, own: OwnEvent) {
        let Some(exchange) = self.stream_for(task, own.on_get_stream) else { return };
        let Some(key) = self.http.exchanges.get(&exchange).and_then(|e| e.stream) else { return };
        let event = SseEvent { event: own.event, data: own.data, id: own.id, retry: own.retry_ms };
        let odd_id = event.id.as_ref().is_some_and(|id| id.contains(['\0', '\r', '\n']));
        let fault = odd_id
            || match event.data.as_deref() {
                None | Some("") => event.event.is_some(),
                Some(data) => !event.is_message() || !jsonrpc::inspect(data).is_valid(),
            };
        self.stream_send(key, event, fault);
    }

    /// Fills in the origins, in what is no part of a rule.
    pub(super) fn with_origins(&self, text: &str) -> String {
        if !text.contains("{{") {
            return text.to_owned();
        }
        let origins = &self.http.origins;
        text.replace("{{origin}}", &origins.own).replace("{{other}}", &origins.other)
    }

    /// An HTTP date so many seconds from now.
    pub(in crate::core) fn http_date(&self, seconds: u32) -> String {
        httpdate::fmt_http_date(UNIX_EPOCH + self.epoch + self.now + Duration::from_secs(seconds.into()))
    }

    pub(super) fn status(&mut self, exchange: u64, status: &StatusAnswer, fault: bool) {
        let value = |(name, value): &(String, String)| (name.clone(), self.with_origins(value));
        let headers = status.headers.0.iter().map(value).collect();
        self.give(exchange, status.code, headers, status.body.clone(), fault);
    }

    fn change_session(&mut self, task: &mut Task, exchange: u64, change: ChangeSession) {
        let Some(old) = task.scope.session.clone().filter(|old| self.http.sessions.contains_key(old)) else {
            return;
        };
        let new = self.new_session();
        let made = self.http.sessions.remove(&new).unwrap_or_default();
        let new = change.id.unwrap_or(new);
        let open = *self.http.session_open(&old);
        self.http.sessions.insert(new.clone(), super::Session { open, ..made });
        if !change.keep_old {
            self.http.sessions.remove(&old);
        }
        // What the old session had open goes on in the new one.
        for stream in self.http.streams.values_mut().filter(|s| s.session.as_ref() == Some(&old)) {
            stream.session = Some(new.clone());
        }
        if let Some(keys) = self.http.get_streams.remove(&Some(old.clone())) {
            self.http.get_streams.insert(Some(new.clone()), keys);
        }
        if let Some(waiting) = self.http.waiting.remove(&Some(old)) {
            self.http.waiting.insert(Some(new.clone()), waiting);
        }
        if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
            entry.session_changed |= !entry.new_session;
            entry.new_session = true;
            entry.session = Some(new.clone());
        }
        task.scope.session = Some(new);
    }

    fn cut_stream(&mut self, task: &mut Task, exchange: u64, cut: &CutStream) {
        self.open_stream(exchange, false);
        let Some(key) = self.http.exchanges.get(&exchange).and_then(|e| e.stream) else { return };
        let revision = self.revision_of(task.request.as_ref(), &task.scope);
        // The stateless revision has no streams that can be carried on.
        let resumable = cut.resumable && !revision.is_stateless();
        if resumable && let Some(stream) = self.http.streams.get_mut(&key) {
            stream.log.get_or_insert_default();
        }
        let id =
            cut.id.clone().or_else(|| (resumable && !self.script.http.priming).then(|| self.event_id(key)));
        if id.is_some() || cut.retry_ms.is_some() {
            let data = id.is_some().then(String::new);
            // Only 2025-11-25 describes events with an id and no message.
            let fault = revision != Revision::V2025_11_25;
            self.stream_send(key, SseEvent { id, data, retry: cut.retry_ms, event: None }, fault);
        }
        self.enter(exchange);
        self.end_response(exchange, cut.reset);
        let answer = task.request.as_ref().filter(|_| resumable).map(|r| self.faithful(r, &task.scope));
        if let Some(answer) = answer {
            let id = Some(self.event_id(key));
            self.stream_send(key, SseEvent { id, ..SseEvent::message(answer.to_string()) }, false);
        }
        if let Some(stream) = self.http.streams.get_mut(&key) {
            stream.finished = true;
        }
        self.release(exchange);
        task.answered = true;
    }

    fn raw_body(&mut self, task: &mut Task, exchange: u64, raw: &RawBody) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.is_over() || entry.stream.is_some() {
            return;
        }
        let content_type = raw.content_type.clone().unwrap_or_else(|| "text/event-stream".into());
        let fault = !is_honest_body(&content_type, &raw.text);
        let mut headers = vec![("content-type".to_owned(), content_type)];
        let named = self.name_session(exchange, &mut headers).unwrap_or_default();
        self.response_out(exchange, Response { status: 200, headers, body: None, fault: fault || named });
        self.raw_out(exchange, &raw.text, raw.split_every, fault);
        self.enter(exchange);
        self.end_response(exchange, false);
        self.release(exchange);
        task.answered = true;
    }

    /// Answers with bytes that the script spells out.
    fn raw_response(&mut self, task: &mut Task, exchange: u64, parts: &[RawPart]) {
        task.answered = true;
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.is_over() || entry.stream.is_some() {
            return;
        }
        let mut outs = Vec::new();
        let mut all = Vec::new();
        let mut how = Some(Breaking::Close);
        for part in parts {
            let bytes = match part {
                RawPart::Head(lines) => {
                    let lines: String = lines.lines().map(|line| format!("{line}\r\n")).collect();
                    format!("{lines}\r\n").into_bytes()
                }
                RawPart::Text(text) => text.clone().into_bytes(),
                RawPart::Hex(digits) => hex(digits),
                RawPart::Repeat(repeated) => {
                    let most = MAX_REPEAT / repeated.text.len().max(1);
                    repeated.text.repeat((repeated.times as usize).min(most)).into_bytes()
                }
                RawPart::PauseMs(ms) => {
                    outs.push(RawOut::Pause(Duration::from_millis(*ms)));
                    continue;
                }
                RawPart::Close => break,
                RawPart::Reset | RawPart::Stall => {
                    how = Some(if *part == RawPart::Reset { Breaking::Reset } else { Breaking::Stall });
                    break;
                }
                RawPart::Keep => {
                    how = None;
                    break;
                }
            };
            all.extend_from_slice(&bytes);
            outs.push(RawOut::Bytes(bytes));
        }
        let mut read = read_response(exchange, &all);
        let honest = read.as_ref().is_some_and(|read| {
            let value =
                |wanted: &str| read.headers.iter().find(|(n, _)| n == wanted).map(|(_, v)| v.as_str());
            let body = read.body.as_deref().unwrap_or_default();
            let framed = match value("content-length").map(|v| v.trim().parse::<usize>()) {
                Some(length) => length == Ok(body.len()),
                None => how == Some(Breaking::Close) && value("transfer-encoding").is_none(),
            };
            let ends = matches!(how, None | Some(Breaking::Close));
            // A failure may say anything.
            let failure = read.status >= 400 || (body.is_empty() && read.status == 202);
            framed && ends && (failure || is_honest_body(value("content-type").unwrap_or_default(), body))
        });
        if let Some(read) = &mut read {
            read.scripted_fault = !honest;
        }
        match read {
            Some(read) => self.observe(What::HttpResponse(read)),
            None => self.observe(What::StreamEvent(StreamEvent {
                exchange,
                raw: Some(String::from_utf8_lossy(&all).into_owned()),
                scripted_fault: true,
                ..StreamEvent::default()
            })),
        }
        let out = match how {
            Some(how) => {
                let (seen, out) = ending(how);
                if !honest {
                    let bytes = all.len() as u64;
                    self.observe(What::ResponseBroken { exchange, bytes, how: seen });
                }
                out
            }
            None => RawOut::Done,
        };
        for out in outs.into_iter().chain([out]) {
            self.effect(Effect::Raw { exchange, out });
        }
        if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
            entry.shape().over = true;
            // A stalled response is the client's to end.
            entry.done = how != Some(Breaking::Stall);
            entry.dropped |= how == Some(Breaking::Stall);
        }
    }
}

/// The bytes that hexadecimal digits stand for; what is no digit is left out.
fn hex(digits: &str) -> Vec<u8> {
    let values: Vec<u8> =
        digits.chars().filter_map(|c| c.to_digit(16)).filter_map(|v| u8::try_from(v).ok()).collect();
    values.chunks_exact(2).filter_map(|pair| Some(pair.first()? << 4 | pair.get(1)?)).collect()
}

/// Reads a response that was written by hand, as far as it is one.
fn read_response(exchange: u64, bytes: &[u8]) -> Option<HttpResponse> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers = lines.filter_map(field).collect();
    Some(HttpResponse { exchange, status, headers, body: Some(body.to_owned()), scripted_fault: false })
}

/// Whether a body that a script spelt out holds nothing but valid messages.
fn is_honest_body(content_type: &str, text: &str) -> bool {
    match content_type.split(';').next().map(str::trim) {
        Some("text/event-stream") => {
            let mut reader = SseReader::new(usize::MAX);
            let items = reader.push(text.as_bytes()).unwrap_or_default();
            !reader.is_mid_event()
                && items.iter().all(|item| match item {
                    SseItem::Event(event) => match event.data.as_deref() {
                        None | Some("") => true,
                        Some(data) => event.is_message() && jsonrpc::inspect(data).is_valid(),
                    },
                    SseItem::Comment(_) => true,
                })
        }
        Some("application/json") => jsonrpc::inspect(text).is_valid(),
        _ => false,
    }
}
