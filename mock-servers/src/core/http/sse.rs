//! Events as text, in the style that a script asks for.

use super::Exchange;
use crate::core::ServerCore;
use crate::script::{SseLineEnd, SseStyle};
use serde_json::Value;
use sparring_wire::sse::{LineEnd, SseEvent};
use sparring_wire::transcript::{StreamEvent, What};
use std::sync::Arc;

/// What the style of a response's stream has to remember.
#[derive(Debug, Default)]
pub(super) struct Written {
    begun: bool,
    first_id: Option<String>,
    /// Events kept back, and how many.
    held: Vec<u8>,
    held_events: u32,
    /// The blank line of the last event is owed.
    open: bool,
}

impl ServerCore {
    /// Sends an event on a response.
    pub(super) fn event_out(&mut self, exchange: u64, mut event: SseEvent, mut fault: bool) {
        let script = Arc::clone(&self.script);
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if entry.is_over() {
            return;
        }
        let own = entry.style.clone();
        let style = own.as_deref().unwrap_or(&script.http.sse);
        let mut comment = None;
        let bytes = if *style == SseStyle::default() {
            let mut bytes = Vec::with_capacity(event.data.as_ref().map_or(0, String::len) + 64);
            event.write(LineEnd::Lf, &mut bytes);
            Some(bytes)
        } else {
            fault |= restyle(&mut event, style, entry);
            comment = style.comment.as_deref().map(|text| comment_lines(text, style));
            entry.written.take(&event, style, comment.as_deref())
        };
        // Closing the stream later will be what makes it incomplete, but each event of it is.
        fault |= style.unterminated;
        fault |= bytes.as_ref().is_some_and(|bytes| self.breaks_within(exchange, bytes.len()));
        if let Some(raw) = comment {
            self.observe(What::StreamEvent(StreamEvent {
                exchange,
                raw: Some(raw),
                ..StreamEvent::default()
            }));
        }
        self.observe(What::StreamEvent(StreamEvent {
            exchange,
            data: event.data,
            id: event.id,
            event: event.event,
            retry: event.retry,
            raw: None,
            scripted_fault: fault,
        }));
        if let Some(bytes) = bytes {
            self.chunk_out(exchange, bytes);
        }
    }

    /// Sends text on a response's stream, as it is.
    pub(super) fn raw_out(&mut self, exchange: u64, text: &str, split_every: Option<u32>, fault: bool) {
        self.events_held(exchange);
        self.observe(What::StreamEvent(StreamEvent {
            exchange,
            raw: Some(text.to_owned()),
            scripted_fault: fault,
            ..StreamEvent::default()
        }));
        let size = split_every.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)).max(1);
        for piece in text.as_bytes().chunks(size) {
            self.chunk_out(exchange, piece.to_vec());
        }
    }

    /// Sends what was kept back, before the stream ends.
    pub(super) fn events_held(&mut self, exchange: u64) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        let held = std::mem::take(&mut entry.written.held);
        entry.written.held_events = 0;
        if !held.is_empty() {
            self.chunk_out(exchange, held);
        }
    }

    /// The lines of a comment in the style of a response's stream.
    pub(super) fn comment_text(&self, exchange: u64, text: &str) -> String {
        let own = self.http.exchanges.get(&exchange).and_then(|entry| entry.style.as_deref());
        let style = own.unwrap_or(&self.script.http.sse);
        comment_lines(text, style) + line_end(style)
    }
}

impl Written {
    /// The bytes to write for an event, unless it is kept back.
    fn take(&mut self, event: &SseEvent, style: &SseStyle, comment: Option<&str>) -> Option<Vec<u8>> {
        let end = line_end(style);
        let mut out = std::mem::take(&mut self.held);
        if !std::mem::replace(&mut self.begun, true) && style.byte_order_mark {
            out.extend_from_slice("\u{feff}".as_bytes());
        }
        if std::mem::replace(&mut self.open, style.unterminated) {
            out.extend_from_slice(end.as_bytes());
        }
        out.extend_from_slice(comment.unwrap_or_default().as_bytes());
        let space = if style.no_space { "" } else { " " };
        let mut field = |name: &str, value: &str| {
            out.extend_from_slice(format!("{name}:{space}{value}{end}").as_bytes());
        };
        for (name, value) in [("event", &event.event), ("id", &event.id)] {
            if let Some(value) = value {
                field(name, value);
            }
        }
        if let Some(retry) = event.retry {
            field("retry", &retry.to_string());
        }
        for line in event.data.iter().flat_map(|data| data.split('\n')) {
            field("data", line);
        }
        if let Some(line) = &style.extra_line {
            out.extend_from_slice(format!("{line}{end}").as_bytes());
        }
        if !style.unterminated {
            out.extend_from_slice(end.as_bytes());
        }
        if self.held_events < style.merge {
            self.held_events += 1;
            self.held = out;
            return None;
        }
        self.held_events = 0;
        Some(out)
    }
}

/// Changes an event by the style; whether that makes it invalid.
fn restyle(event: &mut SseEvent, style: &SseStyle, entry: &mut Exchange) -> bool {
    let mut fault = false;
    let is_message = event.event.is_none() && event.data.as_deref().is_some_and(|data| !data.is_empty());
    if is_message && let Some(kind) = &style.event_type {
        fault |= kind != "message";
        event.event = Some(kind.clone());
    }
    if is_message
        && style.multi_line
        && let Some(data) = &mut event.data
        && let Ok(value) = serde_json::from_str::<Value>(data)
        && let Ok(pretty) = serde_json::to_string_pretty(&value)
    {
        *data = pretty;
    }
    event.retry = event.retry.or(style.retry_ms);
    if style.same_id && event.id.is_some() {
        match &entry.written.first_id {
            Some(first) => {
                fault |= event.id.as_ref() != Some(first);
                event.id = Some(first.clone());
            }
            None => entry.written.first_id.clone_from(&event.id),
        }
    }
    fault
}

const fn line_end(style: &SseStyle) -> &'static str {
    match style.line_end {
        SseLineEnd::Lf => "\n",
        SseLineEnd::Cr => "\r",
        SseLineEnd::Crlf => "\r\n",
    }
}

fn comment_lines(text: &str, style: &SseStyle) -> String {
    let end = line_end(style);
    text.split('\n').map(|line| format!(": {line}{end}")).collect()
}
