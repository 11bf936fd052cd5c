//! The actions of scripts that concern HTTP.

use crate::core::{Effect, ServerCore, Task};
use crate::script::{Action, CutStream, RawBody, StatusAnswer};
use sparring_wire::Revision;
use sparring_wire::jsonrpc;
use sparring_wire::sse::{SseEvent, SseItem, SseReader};
use sparring_wire::transcript::{HttpResponse, What};

impl ServerCore {
    pub(in crate::core) fn act_http(&mut self, task: &mut Task, action: Action) {
        let exchange = task.scope.exchange;
        match (action, exchange) {
            (Action::CloseGetStream, _) => self.close_get_streams(task.scope.session.as_deref()),
            (Action::SseComment(text), _) => self.comment(task, &text),
            (Action::Answers(style), Some(exchange)) => {
                let sse = self.is_sse(style);
                if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
                    entry.sse = sse;
                }
            }
            (Action::Status(status), Some(exchange)) => {
                task.answered = true;
                self.status(exchange, status);
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
            _ => {}
        }
    }

    pub(super) fn comment(&mut self, task: &Task, text: &str) {
        let text: String = text.split('\n').map(|line| format!(": {line}\n")).collect::<String>() + "\n";
        let exchange = self.stream_at_hand(task).or_else(|| {
            let mut streams = self.http.streams.values().rev();
            streams.find(|s| s.get && s.exchange.is_some() && s.session == task.scope.session)?.exchange
        });
        let Some(exchange) = exchange else { return };
        if self.http.exchanges.get(&exchange).is_some_and(|e| e.stream.is_none()) {
            self.open_stream(exchange, false);
        }
        if self.http.exchanges.get(&exchange).is_some_and(|e| !e.done) {
            self.raw_out(exchange, &text, None, false);
        }
    }

    pub(super) fn status(&mut self, exchange: u64, status: StatusAnswer) {
        let headers =
            status.headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        // A failure is an honest answer; a success that the script made up may be anything.
        let fault = (200..300).contains(&status.code);
        self.give(exchange, status.code, headers, status.body, fault);
    }

    pub(super) fn cut_stream(&mut self, task: &mut Task, exchange: u64, cut: &CutStream) {
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

    pub(super) fn raw_body(&mut self, task: &mut Task, exchange: u64, raw: &RawBody) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.done || entry.stream.is_some() {
            return;
        }
        let content_type = raw.content_type.clone().unwrap_or_else(|| "text/event-stream".into());
        let fault = !is_honest_body(&content_type, &raw.text);
        let mut headers = vec![("content-type".to_owned(), content_type)];
        if let Some(entry) = self.http.exchanges.get(&exchange)
            && let Some(session) = entry.session.as_ref().filter(|_| entry.new_session)
        {
            headers.push(("mcp-session-id".into(), session.clone()));
        }
        let seen = HttpResponse {
            exchange,
            status: 200,
            headers: headers.clone(),
            body: None,
            scripted_fault: fault,
        };
        self.observe(What::HttpResponse(seen));
        self.effect(Effect::Head { exchange, status: 200, headers });
        self.raw_out(exchange, &raw.text, raw.split_every, fault);
        self.enter(exchange);
        self.end_response(exchange, false);
        self.release(exchange);
        task.answered = true;
    }
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
