//! Event streams, which may outlive the response that carries them.

use super::{MAX_KEPT, Stream};
use crate::core::{Effect, ServerCore, Task};
use sparring_wire::sse::{LineEnd, SseEvent};
use sparring_wire::transcript::{HttpResponse, Party, StreamEvent, What};

impl ServerCore {
    /// Shows the head of the stream that a held or dropped answer would come on.
    pub(in crate::core) fn show_stream(&mut self, task: &Task) {
        if let Some(exchange) = task.scope.exchange
            && let Some(entry) = self.http.exchanges.get(&exchange)
            && entry.sse
            && entry.has_requests
            && entry.stream.is_none()
            && !entry.done
        {
            self.open_stream(exchange, false);
        }
    }

    pub(in crate::core) fn force_stream(&mut self, task: &Task) {
        if let Some(entry) = task.scope.exchange.and_then(|e| self.http.exchanges.get_mut(&e)) {
            entry.sse = true;
        }
    }

    pub(super) fn open_stream(&mut self, exchange: u64, get: bool) {
        self.http.streams_made += 1;
        let key = self.http.streams_made;
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.done || entry.stream.is_some() {
            return;
        }
        entry.stream = Some(key);
        let stream = Stream {
            session: entry.session.clone(),
            exchange: Some(exchange),
            get,
            log: (self.script.http.event_ids && !entry.stateless).then(Vec::new),
            events: 0,
            finished: false,
        };
        self.http.streams.insert(key, stream);
        self.forget_old_streams();
        self.head(exchange);
        if self.script.http.priming && !self.http.exchanges.get(&exchange).is_some_and(|e| e.stateless) {
            let id = self.event_id(key);
            self.stream_send(
                key,
                SseEvent { id: Some(id), data: Some(String::new()), ..SseEvent::default() },
                false,
            );
        }
    }

    pub(super) fn head(&mut self, exchange: u64) {
        let mut headers = vec![
            ("content-type".to_owned(), "text/event-stream".to_owned()),
            ("cache-control".into(), "no-cache".into()),
        ];
        if let Some(entry) = self.http.exchanges.get(&exchange) {
            if let Some(session) = entry.session.as_ref().filter(|_| entry.new_session) {
                headers.push(("mcp-session-id".into(), session.clone()));
            }
            if entry.stateless {
                headers.push(("x-accel-buffering".into(), "no".into()));
            }
        }
        let seen = HttpResponse {
            exchange,
            status: 200,
            headers: headers.clone(),
            body: None,
            scripted_fault: false,
        };
        self.observe(What::HttpResponse(seen));
        self.effect(Effect::Head { exchange, status: 200, headers });
    }

    pub(super) fn forget_old_streams(&mut self) {
        while self.http.streams.len() > MAX_KEPT {
            let Some(key) =
                self.http.streams.iter().find(|(_, s)| s.finished || s.exchange.is_none()).map(|(k, _)| *k)
            else {
                return;
            };
            self.http.streams.remove(&key);
        }
    }

    /// A fresh event id; unique over the server, as ids have to be within a session.
    pub(super) fn event_id(&mut self, key: u64) -> String {
        let events = self.http.streams.get_mut(&key).map_or(0, |stream| {
            stream.events += 1;
            stream.events
        });
        format!("stream{key}/{events}")
    }

    pub(super) fn stream_send(&mut self, key: u64, mut event: SseEvent, fault: bool) {
        let keeps = self.http.streams.get(&key).is_some_and(|s| s.log.is_some());
        if self.script.http.event_ids && keeps && event.id.is_none() {
            event.id = Some(self.event_id(key));
        }
        let Some(stream) = self.http.streams.get_mut(&key) else { return };
        if stream.finished {
            return;
        }
        if let Some(log) = &mut stream.log {
            log.push(event.clone());
        }
        if let Some(exchange) = stream.exchange {
            self.event_out(exchange, event, fault);
        }
    }

    pub(super) fn event_out(&mut self, exchange: u64, event: SseEvent, fault: bool) {
        let mut bytes = Vec::new();
        event.write(LineEnd::Lf, &mut bytes);
        self.observe(What::StreamEvent(StreamEvent {
            exchange,
            data: event.data,
            id: event.id,
            event: event.event,
            retry: event.retry,
            raw: None,
            scripted_fault: fault,
        }));
        self.effect(Effect::Chunk { exchange, bytes });
    }

    pub(super) fn raw_out(&mut self, exchange: u64, text: &str, split_every: Option<u32>, fault: bool) {
        self.observe(What::StreamEvent(StreamEvent {
            exchange,
            raw: Some(text.to_owned()),
            scripted_fault: fault,
            ..StreamEvent::default()
        }));
        let size = split_every.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)).max(1);
        for piece in text.as_bytes().chunks(size) {
            self.effect(Effect::Chunk { exchange, bytes: piece.to_vec() });
        }
    }

    /// Ends the response; its stream lives on if it is to be resumed.
    pub(in crate::core) fn end(&mut self, exchange: u64) {
        self.finish_stream(exchange);
        self.end_response(exchange, false);
    }

    pub(super) fn finish_stream(&mut self, exchange: u64) {
        let key = self.http.exchanges.get(&exchange).and_then(|e| e.stream);
        if let Some(stream) = key.and_then(|key| self.http.streams.get_mut(&key)) {
            stream.finished = true;
            // Another exchange may carry it by now.
            if let Some(carrier) = stream.exchange.filter(|carrier| *carrier != exchange) {
                self.end_response(carrier, false);
            }
        }
    }

    pub(super) fn end_response(&mut self, exchange: u64, reset: bool) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if std::mem::replace(&mut entry.done, true) {
            return;
        }
        if let Some(stream) = entry.stream.and_then(|key| self.http.streams.get_mut(&key)) {
            stream.exchange = None;
        }
        self.observe(What::StreamEnded { exchange, by: Party::Server });
        self.effect(if reset { Effect::Reset { exchange } } else { Effect::End { exchange } });
        self.tidy(exchange);
    }

    pub(super) fn tidy(&mut self, exchange: u64) {
        if self.http.exchanges.get(&exchange).is_some_and(|e| e.done && e.open == 0) {
            self.http.exchanges.remove(&exchange);
        }
    }

    pub(in crate::core) fn gone(&mut self, exchange: u64) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if std::mem::replace(&mut entry.done, true) {
            return;
        }
        if let Some(key) = entry.stream
            && let Some(stream) = self.http.streams.get_mut(&key)
        {
            stream.exchange = None;
            if stream.log.is_none() {
                stream.finished = true;
            }
        }
        self.observe(What::StreamEnded { exchange, by: Party::Client });
        self.left(exchange);
        self.tidy(exchange);
    }

    /// The stream and the position in its log of an event id.
    pub(super) fn find_event(&self, id: &str) -> Option<(u64, usize)> {
        self.http.streams.iter().find_map(|(key, stream)| {
            let position = stream.log.as_ref()?.iter().position(|e| e.id.as_deref() == Some(id))?;
            Some((*key, position))
        })
    }

    /// Carries a stream on by this exchange, from the event after `after` on. Whether it is a GET stream.
    pub(super) fn resume_stream(&mut self, exchange: u64, key: u64, after: usize) -> bool {
        let Some(stream) = self.http.streams.get_mut(&key) else { return false };
        let (get, finished) = (stream.get, stream.finished);
        let missed: Vec<SseEvent> = stream.log.iter().flatten().skip(after + 1).cloned().collect();
        let before = stream.exchange.replace(exchange);
        if let Some(before) = before {
            // The client came again before it had noticed the end of the old one.
            self.end_response(before, false);
            if let Some(stream) = self.http.streams.get_mut(&key) {
                stream.exchange = Some(exchange);
            }
        }
        if let Some(entry) = self.http.exchanges.get_mut(&exchange) {
            entry.stream = Some(key);
            entry.resumed = true;
        }
        self.head(exchange);
        for event in missed {
            self.event_out(exchange, event, false);
        }
        if finished {
            self.end_response(exchange, false);
        }
        get
    }

    pub(super) fn close_get_streams(&mut self, session: Option<&str>) {
        let open: Vec<u64> = self
            .http
            .streams
            .values()
            .filter(|s| s.get && s.session.as_deref() == session)
            .filter_map(|s| s.exchange)
            .collect();
        for exchange in open {
            self.end_response(exchange, false);
        }
    }
}
