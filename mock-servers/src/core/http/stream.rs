//! Event streams, which may outlive the response that carries them.

use super::wire::Response;
use super::{MAX_KEPT, Stream};
use crate::core::{ServerCore, Task};
use crate::script::Resume;
use sparring_wire::sse::SseEvent;
use sparring_wire::transcript::{Party, What};

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
        if entry.is_over() || entry.stream.is_some() {
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
        if get {
            self.http.get_streams.entry(stream.session.clone()).or_default().push(key);
        }
        self.http.streams.insert(key, stream);
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
        if self.http.exchanges.get(&exchange).is_some_and(|entry| entry.stateless) {
            headers.push(("x-accel-buffering".into(), "no".into()));
        }
        let fault = self.name_session(exchange, &mut headers).unwrap_or_default();
        self.response_out(exchange, Response { status: 200, headers, body: None, fault });
    }

    /// Nothing carries a stream any more. It is kept as long as it may be resumed.
    pub(super) fn detach(&mut self, key: u64) {
        let Some(stream) = self.http.streams.get_mut(&key) else { return };
        stream.exchange = None;
        if stream.log.is_none() {
            return self.forget_stream(key);
        }
        self.http.kept.push_back(key);
        while self.http.kept.len() > MAX_KEPT {
            let Some(key) = self.http.kept.pop_front() else { return };
            if self.http.streams.get(&key).is_some_and(|s| s.exchange.is_none()) {
                self.forget_stream(key);
            }
        }
    }

    fn forget_stream(&mut self, key: u64) {
        let Some(stream) = self.http.streams.remove(&key).filter(|s| s.get) else { return };
        if let Some(keys) = self.http.get_streams.get_mut(&stream.session) {
            keys.retain(|known| *known != key);
            if keys.is_empty() {
                self.http.get_streams.remove(&stream.session);
            }
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
            if log.len() >= MAX_KEPT {
                log.remove(0);
            }
            log.push(event.clone());
        }
        if let Some(exchange) = stream.exchange {
            self.event_out(exchange, event, fault);
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
        if entry.is_over() {
            return;
        }
        self.events_held(exchange);
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.is_over() {
            return;
        }
        entry.done = true;
        let stream = entry.stream;
        if let Some(key) = stream {
            self.end_legacy_session(key);
            self.detach(key);
        }
        self.observe(What::StreamEnded { exchange, by: Party::Server });
        self.response_end(exchange, reset);
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
        if let Some(key) = entry.stream {
            // Another exchange may carry it by now.
            if let Some(stream) =
                self.http.streams.get_mut(&key).filter(|s| s.exchange.is_none_or(|e| e == exchange))
            {
                stream.finished |= stream.log.is_none();
                self.end_legacy_session(key);
                self.detach(key);
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
        let log = stream.log.as_deref().unwrap_or_default();
        let missed = |from: usize| log.get(from..).unwrap_or_default().iter().cloned();
        let (missed, fault): (Vec<SseEvent>, bool) = match self.script.http.resume {
            Resume::Faithful | Resume::Refuse => (missed(after + 1).collect(), false),
            Resume::Twice => (missed(after + 1).flat_map(|event| [event.clone(), event]).collect(), true),
            Resume::FromStart => (missed(0).collect(), true),
            Resume::Nothing => (Vec::new(), false),
        };
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
            self.event_out(exchange, event, fault);
        }
        if finished {
            self.end_response(exchange, false);
        }
        get
    }

    pub(super) fn close_get_streams(&mut self, session: Option<&str>) {
        let keys = self.http.get_streams.get(&session.map(str::to_owned)).into_iter().flatten();
        let open: Vec<u64> = keys.filter_map(|key| self.http.streams.get(key)?.exchange).collect();
        for exchange in open {
            self.end_response(exchange, false);
        }
    }
}
