//! Responses as bytes, where a script wants them other than an HTTP library would write them.
//!
//! A response without a [`Shape`] is left to the shell's library: [`Effect::Respond`], [`Effect::Head`] and so on. One
//! with a shape is put together here and goes out as [`Effect::Raw`], so that each byte of it can be counted.

use super::Exchange;
use crate::core::{Effect, RawOut, ServerCore};
use crate::script::{Breaking, Cut, Framing, Pieces, Reply};
use http::{HeaderName, HeaderValue, StatusCode};
use sparring_wire::transcript::{HttpResponse, Party, ResponseEnd, What};
use std::fmt::Write;
use std::time::Duration;

/// How a response's bytes differ from the usual ones.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) change: Reply,
    pub(super) cut: Option<Cut>,
    pub(super) pieces: Option<Pieces>,
    /// The connection ends with the response.
    close: bool,
    chunked: bool,
    /// No chunk went out yet.
    first_chunk: bool,
    /// Length of the head and what precedes it.
    head: u64,
    /// Bytes that went out.
    sent: u64,
    /// Nothing more goes out.
    pub(super) over: bool,
}

impl Shape {
    /// The offset at which the response breaks off.
    fn end(&self) -> Option<u64> {
        self.cut.map(|cut| if cut.in_body { self.head.saturating_add(cut.after) } else { cut.after })
    }

    /// Whether it breaks off before or within the next `len` bytes.
    fn breaks_within(&self, len: usize) -> bool {
        self.end().is_some_and(|end| end < self.sent.saturating_add(len as u64))
    }

    /// The first offset after `from` at which a new piece begins.
    fn next_piece(&self, from: u64) -> Option<u64> {
        let pieces = self.pieces.as_ref()?;
        let start = if pieces.in_body { self.head } else { 0 };
        let listed = pieces.at.iter().map(|at| at.saturating_add(start)).filter(|at| *at > from).min();
        let every =
            pieces.every.filter(|n| *n > 0).map(u64::from).map(|every| match from.checked_sub(start) {
                Some(behind) => start + (behind / every + 1) * every,
                None => start,
            });
        // The head's end is a break as well if the count begins there.
        let head = (pieces.in_body && from < start).then_some(start);
        [listed, every, head].into_iter().flatten().min()
    }

    fn gap(&self) -> Duration {
        Duration::from_millis(self.pieces.as_ref().and_then(|p| p.gap_ms).unwrap_or(1))
    }
}

impl Exchange {
    /// Whether its response has ended or broken off, so that nothing can be sent on it any more.
    pub(super) fn is_over(&self) -> bool {
        self.done || self.shape.as_ref().is_some_and(|shape| shape.over)
    }

    pub(super) fn shape(&mut self) -> &mut Shape {
        self.shape.get_or_insert_with(|| Box::new(Shape { first_chunk: true, ..Shape::default() }))
    }
}

/// The head of a response, or all of it.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// `None` for a stream.
    pub(super) body: Option<String>,
    pub(super) fault: bool,
}

impl ServerCore {
    /// Sends a response, or the head of a stream.
    pub(super) fn response_out(&mut self, exchange: u64, mut response: Response) {
        let responses = self.last_response(exchange);
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        if let Some(session) = entry.session.as_ref().filter(|_| self.script.http.session_in_all)
            && !response.headers.iter().any(|(name, _)| name == "mcp-session-id")
        {
            response.headers.push(("mcp-session-id".into(), session.clone()));
        }
        match responses {
            Some(true) => response.headers.push(("connection".into(), "close".into())),
            Some(false) => entry.shape().close = true,
            None => {}
        }
        let polite =
            |field: &(String, String)| !field.0.bytes().any(|b| b.is_ascii_uppercase()) && is_field(field);
        if entry.shape.is_some() || !response.headers.iter().all(polite) {
            return self.shaped_out(exchange, response);
        }
        let Response { status, headers, body, fault } = response;
        self.observe_with(|| {
            let (headers, body) = (headers.clone(), body.clone());
            What::HttpResponse(HttpResponse { exchange, status, headers, body, scripted_fault: fault })
        });
        self.effect(match body {
            Some(body) => Effect::Respond { exchange, status, headers, body: body.into_bytes() },
            None => Effect::Head { exchange, status, headers },
        });
    }

    /// Counts the responses of a connection, if its end depends on that: whether this one is the last, and says so.
    fn last_response(&mut self, exchange: u64) -> Option<bool> {
        let last = self.script.http.connections.responses?;
        let connection = self.http.exchanges.get(&exchange)?.connection?;
        let seen = self.http.responses.entry(connection).or_default();
        *seen += 1;
        let ends = *seen >= last;
        if ends {
            self.http.responses.remove(&connection);
        } else if self.http.responses.len() > super::MAX_KEPT {
            self.http.responses.pop_first();
        }
        ends.then_some(self.script.http.connections.announce)
    }

    fn shaped_out(&mut self, exchange: u64, response: Response) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        let takes_gzip = entry.takes_gzip;
        let last = entry.last_of_connection;
        let change = entry.shape().change.clone();
        let Response { mut status, mut headers, body, mut fault } = response;
        if let Some(code) = change.code {
            fault |= code != status;
            status = code;
        }
        if let Some(new) = &change.content_type {
            let old = headers.iter().find(|(name, _)| name == "content-type").map(|(_, v)| media_type(v));
            fault |= old.is_some_and(|old| old != media_type(new));
            headers.retain(|(name, _)| name != "content-type");
            if !new.is_empty() {
                headers.push(("content-type".into(), new.clone()));
            }
        }
        let mut bytes = body.as_deref().map(|text| text.as_bytes().to_vec());
        if change.gzip
            && let Some(plain) = &mut bytes
        {
            *plain = gzip(plain);
            headers.push(("content-encoding".into(), "gzip".into()));
            fault |= !takes_gzip;
        }
        headers.extend(change.headers.0.iter().cloned());
        if change.pad_head > 0 {
            headers.push(("x-padding".into(), "x".repeat(change.pad_head as usize)));
        }
        let usual = if bytes.is_some() { Framing::Length } else { Framing::Chunked };
        let framing = match change.framing.unwrap_or(usual) {
            Framing::Chunked if change.http_1_0 => Framing::Close,
            Framing::Length if bytes.is_none() => Framing::Close,
            framing => framing,
        };
        let length = bytes.as_ref().map_or(0, |b| i64::try_from(b.len()).unwrap_or(i64::MAX));
        let has_body = !matches!(status, 100..200 | 204 | 304);
        match framing {
            Framing::Length if has_body => {
                let length = length.saturating_add(change.length_off_by).max(0);
                headers.push(("content-length".into(), length.to_string()));
            }
            Framing::Chunked if has_body => headers.push(("transfer-encoding".into(), "chunked".into())),
            _ => {}
        }
        if (framing == Framing::Close || change.close.unwrap_or(last))
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("connection"))
        {
            headers.push(("connection".into(), "close".into()));
        }
        let removed = headers.len();
        headers.retain(|(name, _)| !change.without.iter().any(|gone| gone.eq_ignore_ascii_case(name)));
        let framed = |name: &str| name == "content-length" || name == "transfer-encoding";
        let unframed = change.without.iter().any(|gone| framed(&gone.to_ascii_lowercase()));
        fault |= headers.len() < removed
            && (unframed || change.without.iter().any(|gone| gone.eq_ignore_ascii_case("content-type")));
        fault |= change.length_off_by != 0 || change.chunk_size.is_some();
        fault |= !change.before.is_empty() || !change.after.is_empty();
        fault |= !headers.iter().all(is_field);

        let head = head(&change, status, &headers);
        let announced = headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close")
        });
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        let shape = entry.shape();
        shape.head = head.len() as u64;
        shape.chunked = framing == Framing::Chunked && has_body;
        shape.close |= announced
            || unframed
            || framing == Framing::Close
            || change.length_off_by != 0
            || change.close.is_some()
            || change.http_1_0;
        let mut all = head;
        let whole = bytes.is_some();
        if let Some(bytes) = bytes.filter(|_| has_body) {
            if !bytes.is_empty() || !shape.chunked {
                shape.frame(&bytes, &mut all);
            }
            fault |= shape.breaks_within(all.len());
        }
        self.observe(What::HttpResponse(HttpResponse {
            exchange,
            status,
            headers: headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect(),
            body,
            scripted_fault: fault,
        }));
        self.raw_bytes(exchange, &all);
        if whole {
            self.raw_end(exchange);
        }
    }

    /// Sends bytes on the body of a streamed response.
    pub(super) fn chunk_out(&mut self, exchange: u64, bytes: Vec<u8>) {
        match self.http.exchanges.get_mut(&exchange).and_then(|entry| entry.shape.as_mut()) {
            Some(shape) => {
                let mut framed = Vec::new();
                shape.frame(&bytes, &mut framed);
                self.raw_bytes(exchange, &framed);
            }
            None => self.effect(Effect::Chunk { exchange, bytes }),
        }
    }

    /// Whether a response breaks off within the next `len` bytes of its body.
    pub(super) fn breaks_within(&self, exchange: u64, len: usize) -> bool {
        let shape = self.http.exchanges.get(&exchange).and_then(|entry| entry.shape.as_ref());
        shape.is_some_and(|shape| shape.breaks_within(len))
    }

    /// Ends a streamed response.
    pub(super) fn response_end(&mut self, exchange: u64, reset: bool) {
        let shaped = self.http.exchanges.get(&exchange).is_some_and(|entry| entry.shape.is_some());
        match (shaped, reset) {
            (true, false) => self.raw_end(exchange),
            (false, false) => self.effect(Effect::End { exchange }),
            (_, true) => self.effect(Effect::Reset { exchange }),
        }
    }

    fn raw_end(&mut self, exchange: u64) {
        let Some(shape) = self.http.exchanges.get_mut(&exchange).and_then(|e| e.shape.as_mut()) else {
            return;
        };
        let mut rest = Vec::new();
        if shape.chunked {
            rest.extend_from_slice(b"0\r\n\r\n");
        }
        rest.extend_from_slice(shape.change.after.as_bytes());
        self.raw_bytes(exchange, &rest);
        let Some(shape) = self.http.exchanges.get_mut(&exchange).and_then(|e| e.shape.as_mut()) else {
            return;
        };
        if shape.over {
            return;
        }
        if shape.cut.is_some() {
            // It is shorter than the script expected.
            return self.break_off(exchange);
        }
        shape.over = true;
        let out = if shape.close { RawOut::Close } else { RawOut::Done };
        self.effect(Effect::Raw { exchange, out });
    }

    /// Sends bytes of a response that is put together here, as far as the script lets them.
    fn raw_bytes(&mut self, exchange: u64, bytes: &[u8]) {
        let Some(shape) = self.http.exchanges.get_mut(&exchange).and_then(|e| e.shape.as_mut()) else {
            return;
        };
        if shape.over {
            return;
        }
        let mut outs = Vec::new();
        let mut rest = match shape.end() {
            Some(end) => {
                let room = usize::try_from(end.saturating_sub(shape.sent)).unwrap_or(usize::MAX);
                bytes.get(..room).unwrap_or(bytes)
            }
            None => bytes,
        };
        while !rest.is_empty() {
            // A break between what was sent before and this.
            if shape.sent > 0 && shape.next_piece(shape.sent - 1) == Some(shape.sent) {
                outs.push(RawOut::Pause(shape.gap()));
            }
            let len = match shape.next_piece(shape.sent) {
                Some(next) => usize::try_from(next - shape.sent).unwrap_or(usize::MAX).min(rest.len()),
                None => rest.len(),
            };
            let (piece, behind) = rest.split_at(len);
            outs.push(RawOut::Bytes(piece.to_vec()));
            shape.sent += len as u64;
            rest = behind;
        }
        let ends = shape.end().is_some_and(|end| shape.sent >= end);
        for out in outs {
            self.effect(Effect::Raw { exchange, out });
        }
        if ends {
            self.break_off(exchange);
        }
    }

    fn break_off(&mut self, exchange: u64) {
        let Some(entry) = self.http.exchanges.get_mut(&exchange) else { return };
        let shape = entry.shape();
        shape.over = true;
        let how = shape.cut.unwrap_or_default().how;
        let bytes = shape.sent;
        // A stalled response is the client's to end.
        entry.done = how != Breaking::Stall;
        entry.dropped |= how == Breaking::Stall;
        let stream = entry.stream;
        let (seen, out) = ending(how);
        self.observe(What::ResponseBroken { exchange, bytes, how: seen });
        if let Some(key) = stream {
            if how != Breaking::Stall {
                self.observe(What::StreamEnded { exchange, by: Party::Server });
            }
            self.end_legacy_session(key);
            self.detach(key);
        }
        self.effect(Effect::Raw { exchange, out });
        self.tidy(exchange);
    }
}

/// How a break shows in the transcript, and what the shell does.
pub(super) const fn ending(how: Breaking) -> (ResponseEnd, RawOut) {
    match how {
        Breaking::Close => (ResponseEnd::Closed, RawOut::Close),
        Breaking::Reset => (ResponseEnd::Reset, RawOut::Reset),
        Breaking::Stall => (ResponseEnd::Stalled, RawOut::Stall),
    }
}

impl Shape {
    /// Puts a piece of the body into its frame.
    fn frame(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if !self.chunked {
            return out.extend_from_slice(bytes);
        }
        let first = std::mem::replace(&mut self.first_chunk, false);
        match self.change.chunk_size.as_ref().filter(|_| first) {
            Some(size) => out.extend_from_slice(size.as_bytes()),
            None => out.extend_from_slice(format!("{:x}", bytes.len()).as_bytes()),
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
}

/// Whether HTTP allows a header field.
fn is_field((name, value): &(String, String)) -> bool {
    HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok()
}

/// What precedes a body.
fn head(change: &Reply, status: u16, headers: &[(String, String)]) -> Vec<u8> {
    let mut head = change.before.clone();
    let version = if change.http_1_0 { "HTTP/1.0" } else { "HTTP/1.1" };
    let reason =
        |status| StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or_default();
    for interim in &change.interim {
        let _ = write!(head, "HTTP/1.1 {interim} {}\r\n\r\n", reason(*interim));
    }
    let phrase = change.reason.as_deref().unwrap_or_else(|| reason(status));
    let _ = write!(head, "{version} {status} {phrase}\r\n");
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// The media type alone, for comparison.
fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The gzip form of `plain`, stored without compression: what is tested is whether it is unwrapped.
fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let mut blocks = plain.chunks(usize::from(u16::MAX)).peekable();
    if blocks.peek().is_none() {
        out.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        let len = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(u8::from(blocks.peek().is_none()));
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(!len).to_le_bytes());
        out.extend_from_slice(block);
    }
    let mut crc = u32::MAX;
    for byte in plain {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    out.extend_from_slice(&(!crc).to_le_bytes());
    let len = u32::try_from(plain.len() % (1 << 32)).unwrap_or_default();
    out.extend_from_slice(&len.to_le_bytes());
    out
}
