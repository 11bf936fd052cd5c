//! HTTP/1.1 read in passing: one direction of a connection, bytes in, messages out, whatever the chunks.
//!
//! Nothing that is read here is sent by us, so it is read as leniently as any server or client might; what can't be
//! followed ends the reading, never the connection.

use super::MAX_KEPT;

/// The longest head, in bytes.
const MAX_HEAD: usize = 1 << 20;

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The first line and the header fields, names in lower case.
    Head {
        /// Such as `POST /mcp HTTP/1.1` or `HTTP/1.1 200 OK`.
        line: String,
        /// In order.
        headers: Vec<(String, String)>,
    },
    /// A piece of the body, without its framing.
    Body(Vec<u8>),
    /// The message is whole.
    End,
    /// What follows on this connection can't be read.
    Lost(&'static str),
}

/// Reads one direction.
#[derive(Debug)]
pub struct Reader {
    side: Side,
    state: State,
}

/// Which direction, and what its framing depends on.
#[derive(Debug)]
enum Side {
    Requests,
    /// Whether each response that is due has a body: none has that answers HEAD.
    Responses(std::collections::VecDeque<Due>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    head: bool,
    connect: bool,
}

#[derive(Debug)]
enum State {
    Head(Vec<u8>),
    /// This many bytes are left.
    Length(u64),
    Chunked(Chunked),
    /// Until the connection ends.
    ToEnd,
    Lost,
}

#[derive(Debug)]
enum Chunked {
    Size(Vec<u8>),
    Data(u64),
    /// The line end after the data.
    DataEnd,
    /// The rest of the line so far.
    Trailer(usize),
}

impl Reader {
    /// A reader of requests.
    pub const fn requests() -> Self {
        Self { side: Side::Requests, state: State::Head(Vec::new()) }
    }

    /// A reader of responses, to be told of each request by [`Self::asked`] before its response comes.
    pub const fn responses() -> Self {
        Self { side: Side::Responses(std::collections::VecDeque::new()), state: State::Head(Vec::new()) }
    }

    /// A request with this method was sent.
    pub fn asked(&mut self, method: &str) {
        if let Side::Responses(due) = &mut self.side {
            due.push_back(Due { head: method == "HEAD", connect: method == "CONNECT" });
        }
    }

    /// Takes in a piece and returns what it brings.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Part> {
        let mut parts = Vec::new();
        while !bytes.is_empty() && !matches!(self.state, State::Lost) {
            let used = self.step(bytes, &mut parts);
            bytes = bytes.get(used..).unwrap_or_default();
        }
        parts
    }

    /// The connection has ended. `true`: no message was under way, or this is how it ends.
    pub fn finish(&mut self) -> (bool, Vec<Part>) {
        match std::mem::replace(&mut self.state, State::Lost) {
            State::Head(bytes) => (bytes.iter().all(u8::is_ascii_whitespace), Vec::new()),
            State::ToEnd => (true, vec![Part::End]),
            State::Lost => (true, Vec::new()),
            State::Length(_) | State::Chunked(_) => (false, Vec::new()),
        }
    }

    /// Takes some of the bytes, at least one; how many.
    fn step(&mut self, bytes: &[u8], parts: &mut Vec<Part>) -> usize {
        match &mut self.state {
            State::Head(head) => {
                for (at, byte) in bytes.iter().enumerate() {
                    // Empty lines before a message are to be ignored.
                    if head.is_empty() && matches!(byte, b'\r' | b'\n') {
                        continue;
                    }
                    head.push(*byte);
                    if *byte == b'\n' && (head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n")) {
                        let head = std::mem::take(head);
                        self.head(&head, parts);
                        return at + 1;
                    }
                    if head.len() > MAX_HEAD {
                        self.lose("a head is too long", parts);
                        return at + 1;
                    }
                }
                bytes.len()
            }
            State::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= count as u64;
                let done = *left == 0;
                parts.push(Part::Body(bytes.get(..count).unwrap_or_default().to_vec()));
                if done {
                    self.end(parts);
                }
                count
            }
            State::ToEnd => {
                parts.push(Part::Body(bytes.to_vec()));
                bytes.len()
            }
            State::Chunked(_) => self.chunk(bytes, parts),
            State::Lost => bytes.len(),
        }
    }

    fn chunk(&mut self, bytes: &[u8], parts: &mut Vec<Part>) -> usize {
        let State::Chunked(state) = &mut self.state else { return bytes.len() };
        let byte = bytes.first().copied().unwrap_or_default();
        match state {
            Chunked::Size(line) if byte == b'\n' => {
                let text = String::from_utf8_lossy(line);
                let digits = text.split(';').next().unwrap_or_default().trim();
                match u64::from_str_radix(digits, 16) {
                    Ok(0) => *state = Chunked::Trailer(0),
                    Ok(size) => *state = Chunked::Data(size),
                    Err(_) => self.lose("a chunk has no size", parts),
                }
                1
            }
            Chunked::Size(line) => {
                line.push(byte);
                if line.len() > 1000 {
                    self.lose("a chunk has no size", parts);
                }
                1
            }
            Chunked::Data(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= count as u64;
                if *left == 0 {
                    *state = Chunked::DataEnd;
                }
                parts.push(Part::Body(bytes.get(..count).unwrap_or_default().to_vec()));
                count
            }
            Chunked::DataEnd => {
                match byte {
                    b'\n' => *state = Chunked::Size(Vec::new()),
                    b'\r' => {}
                    _ => self.lose("a chunk is longer than its size", parts),
                }
                1
            }
            Chunked::Trailer(length) => {
                match byte {
                    b'\n' if *length == 0 => self.end(parts),
                    b'\n' => *length = 0,
                    b'\r' => {}
                    _ => *length += 1,
                }
                1
            }
        }
    }

    fn head(&mut self, bytes: &[u8], parts: &mut Vec<Part>) {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split('\n').map(|line| line.trim_end_matches('\r'));
        let line = lines.next().unwrap_or_default().to_owned();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let last =
            |name: &str| headers.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let chunked = last("transfer-encoding").is_some_and(|v| v.to_ascii_lowercase().ends_with("chunked"));
        let length = last("content-length").map(str::parse::<u64>);
        let is_http = line.contains("HTTP/1.");
        let framed = match (chunked, &length) {
            (true, _) => Some(State::Chunked(Chunked::Size(Vec::new()))),
            (false, Some(Ok(0))) => None,
            (false, Some(Ok(length))) => Some(State::Length(*length)),
            (false, Some(Err(_))) => Some(State::Lost),
            (false, None) => None,
        };
        let mut state = framed;
        if let Side::Responses(due) = &mut self.side {
            let status = line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok()).unwrap_or_default();
            if (100..200).contains(&status) && status != 101 {
                // An interim response; the real one follows.
                self.state = State::Head(Vec::new());
                return;
            }
            let asked = due.pop_front();
            let connect = asked.is_some_and(|due| due.connect) && (200..300).contains(&status);
            if asked.is_some_and(|due| due.head) || matches!(status, 204 | 304) {
                state = None;
            } else if status == 101 || connect {
                state = Some(State::Lost);
            } else if state.is_none() && length.is_none() {
                state = Some(State::ToEnd);
            }
        }
        parts.push(Part::Head { line, headers });
        if !is_http {
            return self.lose("this is no HTTP/1", parts);
        }
        match state {
            None => self.end(parts),
            Some(State::Lost) => self.lose("the connection is used for something else", parts),
            Some(state) => self.state = state,
        }
    }

    fn end(&mut self, parts: &mut Vec<Part>) {
        self.state = State::Head(Vec::new());
        parts.push(Part::End);
    }

    fn lose(&mut self, why: &'static str, parts: &mut Vec<Part>) {
        self.state = State::Lost;
        parts.push(Part::Lost(why));
    }
}

/// A body as it grows, up to [`MAX_KEPT`].
#[derive(Debug, Default)]
pub struct Kept {
    bytes: Vec<u8>,
    /// There was more.
    pub cut: bool,
}

impl Kept {
    /// Adds a piece.
    pub fn push(&mut self, piece: &[u8]) {
        let room = MAX_KEPT.saturating_sub(self.bytes.len());
        self.cut |= piece.len() > room;
        self.bytes.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
    }

    /// The text, with invalid UTF-8 replaced; the flag says whether there was any.
    pub fn text(&self) -> (String, bool) {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (String::from_utf8_lossy(&self.bytes).into_owned(), true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The parts with neighbouring bodies joined, as the chunks of the connection are nobody's concern.
    fn read(mut reader: Reader, chunks: &[&[u8]]) -> Vec<String> {
        let mut parts: Vec<Part> = chunks.iter().flat_map(|chunk| reader.push(chunk)).collect();
        let (whole, last) = reader.finish();
        parts.extend(last);
        let mut out: Vec<String> = Vec::new();
        for part in parts {
            match part {
                Part::Head { line, headers } => out.push(format!("{line} {headers:?}")),
                Part::Body(bytes) => match out.last_mut().filter(|last| last.starts_with("body ")) {
                    Some(last) => last.push_str(&String::from_utf8_lossy(&bytes)),
                    None => out.push(format!("body {}", String::from_utf8_lossy(&bytes))),
                },
                Part::End => out.push("end".to_owned()),
                Part::Lost(why) => out.push(format!("lost: {why}")),
            }
        }
        if !whole {
            out.push("cut".to_owned());
        }
        out
    }

    fn responses(methods: &[&str]) -> Reader {
        let mut reader = Reader::responses();
        methods.iter().for_each(|method| reader.asked(method));
        reader
    }

    const REQUESTS: &[u8] = b"\r\nPOST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello\
        GET /mcp HTTP/1.1\r\nAccept:a\r\n\r\n\
        POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n\
        DELETE /mcp HTTP/1.1\r\n\r\n";

    #[test]
    fn requests_follow_one_another() {
        assert_eq!(
            read(Reader::requests(), &[REQUESTS]),
            [
                r#"POST /mcp HTTP/1.1 [("host", "x"), ("content-length", "5")]"#,
                "body hello",
                "end",
                r#"GET /mcp HTTP/1.1 [("accept", "a")]"#,
                "end",
                r#"POST / HTTP/1.1 [("transfer-encoding", "chunked")]"#,
                "body abc0123456789",
                "end",
                "DELETE /mcp HTTP/1.1 []",
                "end"
            ]
        );
    }

    #[test]
    fn responses_end_as_their_requests_and_statuses_say() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n\
            HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n\
            HTTP/1.0 200 OK\r\n\r\nrest";
        let heads = read(responses(&["HEAD", "POST", "POST", "GET"]), &[bytes]);
        let lines: Vec<&str> = heads.iter().map(|h| h.split(" [").next().unwrap()).collect();
        assert_eq!(
            lines,
            [
                "HTTP/1.1 200 OK",
                "end",
                "HTTP/1.1 204 No Content",
                "end",
                "HTTP/1.1 202 Accepted",
                "end",
                "HTTP/1.0 200 OK",
                "body rest",
                "end"
            ]
        );
    }

    #[test]
    fn what_is_cut_or_no_http_is_said_to_be_so() {
        let cut = |bytes: &[u8]| read(responses(&["POST"]), &[bytes]).pop().unwrap();
        assert_eq!(cut(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "cut");
        assert_eq!(cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"), "cut");
        assert_eq!(cut(b"HTTP/1.1 200 O"), "cut");
        assert!(cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n").starts_with("lost"));
        assert!(cut(b"SSH-2.0-OpenSSH\r\n\r\n").starts_with("lost"));
        assert!(cut(b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x00\x01").starts_with("lost"));
        assert!(cut(&vec![b'x'; MAX_HEAD + 2]).starts_with("lost"));
    }

    proptest! {
        #[test]
        fn any_split_is_read_alike(cuts in prop::collection::vec(0usize..REQUESTS.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&REQUESTS[from..cut]);
                from = cut;
            }
            chunks.push(&REQUESTS[from..]);
            prop_assert_eq!(read(Reader::requests(), &chunks), read(Reader::requests(), &[REQUESTS]));
        }

        #[test]
        fn no_bytes_make_it_panic_or_grow(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut reader = responses(&["POST", "GET"]);
            let parts = reader.push(&bytes);
            let kept: usize = parts.iter().map(|p| match p { Part::Body(b) => b.len(), _ => 0 }).sum();
            prop_assert!(kept <= bytes.len());
        }
    }
}
