//! The layers of the wire.

use crate::input::Input;
use serde_json::Value;
use sparring::record::http1::{Part, Reader};
use sparring_wire::duplicate;
use sparring_wire::framing::{Line, Lines};
use sparring_wire::jsonrpc::{self, Envelope, Fault};
use sparring_wire::sse::{LineEnd, SseEvent, SseItem, SseReader};

/// Agrees with `serde_json` on what is JSON, and a valid message stays one when it is written anew.
pub(crate) fn jsonrpc(bytes: &[u8]) {
    let seen = jsonrpc::inspect_bytes(bytes);
    let parsed = std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| serde_json::from_str::<Value>(text.strip_prefix('\u{feff}').unwrap_or(text)).ok());
    if std::str::from_utf8(bytes).is_ok() {
        assert_eq!(seen.value, parsed);
        assert!(!seen.faults.contains(&Fault::InvalidUtf8));
    } else {
        assert!(seen.faults.contains(&Fault::InvalidUtf8));
    }
    match &seen.value {
        None => {
            assert!(matches!(seen.envelope, Envelope::Unknown));
            assert!(!seen.is_valid());
        }
        Some(value) => {
            let members = value.as_array().map_or(1, Vec::len);
            assert_eq!(seen.messages().len(), members);
            let again = jsonrpc::inspect(&value.to_string());
            assert_eq!(again.value.as_ref(), Some(value));
            if seen.is_valid() {
                assert_eq!(again, seen);
            }
        }
    }
}

/// Each pointer leads to something, and what is written by `serde_json` has no key twice.
pub(crate) fn duplicate_keys(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let found = duplicate::duplicate_keys(&text);
    if let Ok(value) = serde_json::from_str::<Value>(&text) {
        for pointer in &found {
            assert!(value.pointer(pointer).is_some(), "{pointer} of {text}");
        }
        assert!(duplicate::duplicate_keys(&value.to_string()).is_empty());
    }
}

fn lines(pieces: &[&[u8]], limit: usize) -> (Vec<Line>, bool) {
    let mut reader = Lines::new(limit);
    let mut out = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_line() {
                Ok(Some(line)) => out.push(line),
                Ok(None) => break,
                Err(_) => return (out, true),
            }
        }
        assert!(reader.pending() <= limit);
    }
    out.extend(reader.finish());
    (out, false)
}

/// Any split gives the same lines, and the lines give back the bytes.
pub(crate) fn framing(bytes: &[u8]) {
    let (whole, _) = lines(&[bytes], usize::MAX);
    assert_eq!(lines(&Input::split(bytes), usize::MAX).0, whole);
    let mut back = Vec::new();
    for line in &whole {
        back.extend_from_slice(&line.bytes);
        back.extend_from_slice(match (line.terminated, line.carriage_return) {
            (false, _) => b"",
            (true, false) => b"\n",
            (true, true) => b"\r\n",
        });
    }
    assert_eq!(back, bytes);
    // A limit cuts off at the same line, whatever the split.
    let longest = 20;
    let (cut, too_long) = lines(&Input::split(bytes), longest);
    let (cut_whole, _) = lines(&[bytes], longest);
    assert_eq!(cut[..cut.len().min(cut_whole.len())], cut_whole[..cut.len().min(cut_whole.len())]);
    assert!(too_long || cut == whole);
}

fn items(pieces: &[&[u8]]) -> Vec<SseItem> {
    let mut reader = SseReader::new(usize::MAX);
    pieces.iter().flat_map(|piece| reader.push(piece).unwrap()).collect()
}

/// Any split gives the same items, and events that are written are read back.
pub(crate) fn sse(bytes: &[u8]) {
    let whole = items(&[bytes]);
    assert_eq!(items(&Input::split(bytes)), whole);
    let events: Vec<&SseEvent> = whole
        .iter()
        .filter_map(|item| match item {
            SseItem::Event(event) => Some(event),
            SseItem::Comment(_) => None,
        })
        .collect();
    for end in [LineEnd::Lf, LineEnd::Cr, LineEnd::CrLf] {
        let mut written = Vec::new();
        events.iter().for_each(|event| event.write(end, &mut written));
        let back = items(&Input::split(&written));
        assert_eq!(back.len(), events.len());
        for (back, event) in back.iter().zip(&events) {
            assert_eq!(back, &SseItem::Event((*event).clone()));
        }
    }
    // What is kept is bounded, and what is refused is refused in any split.
    let limited = |pieces: &[&[u8]]| {
        let mut reader = SseReader::new(16);
        pieces.iter().try_for_each(|piece| reader.push(piece).map(|_| ())).is_err()
    };
    assert_eq!(limited(&[bytes]), limited(&Input::split(bytes)));
}

/// Any split gives the same parts.
pub(crate) fn http1(bytes: &[u8]) {
    let parts = |pieces: &[&[u8]], mut reader: Reader| {
        let mut out: Vec<Part> = Vec::new();
        for part in pieces.iter().flat_map(|piece| reader.push(piece)) {
            match (out.last_mut(), part) {
                (Some(Part::Body(last)), Part::Body(more)) => last.extend(more),
                (_, part) => out.push(part),
            }
        }
        (out, reader.finish())
    };
    let responses = || {
        let mut reader = Reader::responses();
        ["POST", "HEAD", "GET", "CONNECT"].iter().for_each(|method| reader.asked(method));
        reader
    };
    let pieces = Input::split(bytes);
    assert_eq!(parts(&[bytes], Reader::requests()), parts(&pieces, Reader::requests()));
    assert_eq!(parts(&[bytes], responses()), parts(&pieces, responses()));
}
