//! Server-sent events (the HTML standard's event stream), read and written.
//!
//! The reader follows the standard to the letter and hides nothing: comments, empty events, ids and retry values
//! come out as they went in. The writer can also produce what the standard allows but few writers emit.

/// One thing found in an event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseItem {
    /// A dispatched event: a block that ended in a blank line.
    Event(SseEvent),
    /// A comment line, without its colon.
    Comment(String),
}

/// An event, or an id-only block (which browsers do not dispatch, and MCP uses for priming).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; absent means `message`.
    pub event: Option<String>,
    /// The `data` lines joined by newlines; `None` if there was no data field at all.
    pub data: Option<String>,
    /// The `id` field of this very block.
    pub id: Option<String>,
    /// The `retry` field, in milliseconds.
    pub retry: Option<u64>,
}

impl SseEvent {
    /// An event of the default type.
    pub fn message(data: impl Into<String>) -> Self {
        Self { data: Some(data.into()), ..Self::default() }
    }

    /// Whether the event type is `message`, given or by default.
    pub fn is_message(&self) -> bool {
        self.event.as_deref().is_none_or(|e| e.is_empty() || e == "message")
    }

    /// Writes the block with the given end of line, blank line included.
    pub fn write(&self, end: LineEnd, out: &mut Vec<u8>) {
        let end = end.as_bytes();
        let mut field = |name: &str, value: &str| {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(end);
        };
        if let Some(event) = &self.event {
            field("event", event);
        }
        if let Some(id) = &self.id {
            field("id", id);
        }
        if let Some(retry) = self.retry {
            field("retry", &retry.to_string());
        }
        if let Some(data) = &self.data {
            for line in data.split('\n') {
                field("data", line);
            }
        }
        out.extend_from_slice(end);
    }
}

/// The three ends of line that the standard accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineEnd {
    /// `\n`
    #[default]
    Lf,
    /// `\r`
    Cr,
    /// `\r\n`
    CrLf,
}

impl LineEnd {
    /// The bytes of it.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::Cr => b"\r",
            Self::CrLf => b"\r\n",
        }
    }
}

/// Reads an event stream in chunks of any size.
#[derive(Debug)]
pub struct SseReader {
    line: Vec<u8>,
    /// The last byte was `\r`, so a `\n` that follows belongs to it.
    after_cr: bool,
    at_start: bool,
    event: SseEvent,
    dirty: bool,
    limit: usize,
}

/// A line or event grew beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is longer than {limit} bytes")]
pub struct EventTooLong {
    /// The limit that was passed, in bytes.
    pub limit: usize,
}

impl SseReader {
    /// `limit` is the longest event accepted, in bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            event: SseEvent::default(),
            dirty: false,
            limit,
        }
    }

    /// Takes in a chunk and returns what it completed.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<SseItem>, EventTooLong> {
        let mut out = Vec::new();
        let mut rest = chunk;
        if let [first, more @ ..] = rest
            && std::mem::take(&mut self.after_cr)
            && *first == b'\n'
        {
            rest = more;
        }
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
            self.line.extend_from_slice(piece);
            if self.line.len() + self.event.data.as_ref().map_or(0, String::len) > self.limit {
                return Err(EventTooLong { limit: self.limit });
            }
            let Some((end, after)) = after.split_first() else { break };
            self.end_of_line(&mut out);
            rest = match (end, after) {
                (b'\r', [b'\n', after @ ..]) => after,
                (b'\r', []) => {
                    self.after_cr = true;
                    after
                }
                _ => after,
            };
        }
        Ok(out)
    }

    /// Bytes of an unfinished block: the stream was cut inside an event.
    pub fn is_mid_event(&self) -> bool {
        self.dirty || !self.line.is_empty()
    }

    fn end_of_line(&mut self, out: &mut Vec<SseItem>) {
        let mut bytes = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        if bytes.is_empty() {
            if std::mem::take(&mut self.dirty) {
                out.push(SseItem::Event(std::mem::take(&mut self.event)));
            }
            return;
        }
        let line = String::from_utf8_lossy(&bytes);
        if let Some(comment) = line.strip_prefix(':') {
            out.push(SseItem::Comment(comment.to_owned()));
            return;
        }
        let (name, value) = match line.split_once(':') {
            Some((name, value)) => (name, value.strip_prefix(' ').unwrap_or(value)),
            None => (&*line, ""),
        };
        match name {
            "event" => self.event.event = Some(value.to_owned()),
            "data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.event.data = Some(value.to_owned()),
            },
            // An id with a NUL is ignored by the standard.
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => {
                // A number that is too large is a very long time.
                self.event.retry = Some(value.parse().unwrap_or(u64::MAX));
            }
            _ => return,
        }
        self.dirty = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(chunks: &[&[u8]]) -> Vec<SseItem> {
        let mut reader = SseReader::new(1 << 20);
        chunks.iter().flat_map(|c| reader.push(c).unwrap()).collect()
    }

    #[test]
    fn reads_what_the_standard_describes() {
        let items = read(&[
            b"\xef\xbb\xbf: hi\ndata: a\ndata:b\nid: 7\nretry: 500\nretry: x\nnonsense: 1\n\ndata\n\n",
        ]);
        assert_eq!(
            items,
            [
                SseItem::Comment(" hi".into()),
                SseItem::Event(SseEvent {
                    event: None,
                    data: Some("a\nb".into()),
                    id: Some("7".into()),
                    retry: Some(500)
                }),
                SseItem::Event(SseEvent::message("")),
            ]
        );
    }

    #[test]
    fn a_cut_stream_is_noticed() {
        let mut reader = SseReader::new(100);
        assert!(reader.push(b"data: a\n").unwrap().is_empty());
        assert!(reader.is_mid_event());
        assert_eq!(reader.push(&[b'x'; 200]), Err(EventTooLong { limit: 100 }));
    }

    #[test]
    fn a_retry_that_no_number_holds_is_the_longest() {
        let items = read(&[b"retry: 99999999999999999999999\n\n"]);
        assert_eq!(items, [SseItem::Event(SseEvent { retry: Some(u64::MAX), ..SseEvent::default() })]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_in_any_split(
            events in prop::collection::vec(("[a-z]{0,3}", "[ a:\u{e4}\n]{0,9}", prop::option::of("[0-9]{1,3}"), prop::option::of(0u64..9999)), 0..4),
            end in 0usize..3,
            step in 1usize..9,
        ) {
            let events: Vec<SseEvent> = events.into_iter().map(|(event, data, id, retry)| SseEvent {
                event: (!event.is_empty()).then_some(event), data: Some(data), id, retry,
            }).collect();
            let mut bytes = Vec::new();
            for event in &events {
                event.write([LineEnd::Lf, LineEnd::Cr, LineEnd::CrLf][end], &mut bytes);
            }
            let chunks: Vec<&[u8]> = bytes.chunks(step).collect();
            let expected: Vec<SseItem> = events.into_iter().map(SseItem::Event).collect();
            prop_assert_eq!(read(&chunks), expected);
        }
    }
}
