//! What goes to stdout, and in which bytes.

use super::super::{Effect, Out, ServerCore};
use crate::script::{Action, RepeatedLine};
use serde_json::Value;
use sparring_wire::jsonrpc;
use sparring_wire::transcript::{Direction, LineSeen, Party, What};
use std::fmt::Write;
use std::time::Duration;

/// Between the pieces of a message; without it the pipe puts them together again.
const PIECE_GAP: Duration = Duration::from_millis(1);

/// What is kept back, filled up or repeated grows no further than this, in bytes: beyond it, it is written.
const LIMIT: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// The way to stdout.
#[derive(Debug, Default)]
pub(in super::super) struct Output {
    pub(in super::super) closed: bool,
    next: Presentation,
    /// Messages to be written with the next one.
    kept_back: Vec<Part>,
    keep_back: u32,
    /// The rest of a message that was cut, and the messages behind it.
    rest: Option<Vec<Part>>,
    /// What was written since the last newline: what comes next continues this line.
    open_line: Vec<u8>,
}

/// Bytes to write.
#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    /// Whether it is wrong on purpose; without that each line is looked at.
    fault: Option<bool>,
}

impl Part {
    const fn new(bytes: Vec<u8>, fault: bool) -> Self {
        Self { bytes, fault: Some(fault) }
    }
}

fn size(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.bytes.len()).sum()
}

/// How the next message is written.
#[derive(Debug, Default)]
struct Presentation {
    split: Split,
    line_end: LineEnd,
    byte_order_mark: bool,
    invalid_utf8: bool,
    pretty: bool,
    ascii_only: bool,
    blank_lines: u32,
    pad_to: u64,
    cut_at: Option<u32>,
}

#[derive(Debug, Default)]
enum Split {
    #[default]
    No,
    Every(u32),
    At(Vec<u32>),
    Characters,
}

#[derive(Debug, Default, Clone, Copy)]
enum LineEnd {
    #[default]
    Lf,
    CrLf,
    Cr,
    None,
}

impl LineEnd {
    const fn bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
            Self::Cr => b"\r",
            Self::None => b"",
        }
    }
}

impl ServerCore {
    pub(super) fn act_output(&mut self, action: Action) {
        let output = &mut self.stdio.output;
        let next = &mut output.next;
        match action {
            Action::Stdout(text) => self.noise(&text),
            Action::StdoutBytes(bytes) => self.write_raw(bytes.0),
            Action::RepeatStdout(line) => self.write_raw(repeated(&line)),
            Action::SplitEvery(size) => next.split = Split::Every(size),
            Action::SplitAt(offsets) => next.split = Split::At(offsets),
            Action::SplitCharacters => next.split = Split::Characters,
            Action::CutAt(offset) => next.cut_at = Some(offset),
            Action::WriteRest => self.write_rest(),
            Action::MergeNext(count) => self.merge_next(count),
            Action::Crlf => next.line_end = LineEnd::CrLf,
            Action::CrOnly => next.line_end = LineEnd::Cr,
            Action::NoNewline => next.line_end = LineEnd::None,
            Action::BlankLines(count) => next.blank_lines = count,
            Action::Pretty => next.pretty = true,
            Action::AsciiOnly => next.ascii_only = true,
            Action::PadTo(bytes) => next.pad_to = bytes,
            Action::ByteOrderMark => next.byte_order_mark = true,
            Action::InvalidUtf8 => next.invalid_utf8 = true,
            _ => {}
        }
    }

    /// Writes a message in the way that the script wants; whether stdout is open.
    pub(super) fn write_message(&mut self, out: Out) -> bool {
        if self.stdio.output.closed {
            return false;
        }
        let style = std::mem::take(&mut self.stdio.output.next);
        let mut bytes = style.render(out.text);
        let fault = out.fault || style.byte_order_mark || style.invalid_utf8 || style.pretty;
        let output = &mut self.stdio.output;
        if let Some(rest) = &mut output.rest {
            rest.push(Part::new(bytes, fault));
            if size(rest) > LIMIT {
                self.write_rest();
            }
            return true;
        }
        let mut parts = std::mem::take(&mut output.kept_back);
        if style.blank_lines > 0 {
            parts.push(Part::new(vec![b'\n'; style.blank_lines.min(1_000_000) as usize], true));
        }
        if let Some(offset) = style.cut_at {
            let most = bytes.len() - style.line_end.bytes().len();
            let rest = bytes.split_off(usize::try_from(offset).unwrap_or(usize::MAX).min(most));
            // Something may break into the line meanwhile, so the rest is looked at.
            output.rest = Some(vec![Part { bytes: rest, fault: fault.then_some(true) }]);
        }
        parts.push(Part::new(bytes, fault));
        if output.keep_back > 0 && output.rest.is_none() && size(&parts) < LIMIT {
            output.keep_back -= 1;
            output.kept_back = parts;
        } else {
            self.write_parts(parts, &style.split);
        }
        true
    }

    /// Writes this, in one write or in pieces. `split` is about the last part.
    fn write_parts(&mut self, mut parts: Vec<Part>, split: &Split) {
        for part in &parts {
            self.sent(&part.bytes, part.fault);
        }
        let Some(last) = parts.pop() else { return };
        let before = size(&parts);
        let bytes = if parts.is_empty() {
            last.bytes
        } else {
            parts.push(last);
            parts.into_iter().flat_map(|part| part.bytes).collect()
        };
        if let Split::No = split {
            if !bytes.is_empty() {
                self.effect(Effect::Write(bytes));
            }
            return;
        }
        let mut from = 0;
        for end in split.ends(&bytes, before).into_iter().chain([bytes.len()]) {
            if let Some(piece) = bytes.get(from..end)
                && !piece.is_empty()
            {
                self.effect(Effect::Write(piece.to_vec()));
                self.effect(Effect::Pause(PIECE_GAP));
                from = end;
            }
        }
    }

    /// Keeps the next `count` messages back.
    pub(in super::super) fn merge_next(&mut self, count: u32) {
        let output = &mut self.stdio.output;
        output.keep_back = output.keep_back.saturating_add(count);
    }

    /// Writes text to stdout as it is, with a newline.
    pub(in super::super) fn noise(&mut self, text: &str) {
        self.write_raw(format!("{text}\n").into_bytes());
    }

    fn write_raw(&mut self, bytes: Vec<u8>) {
        if !self.stdio.output.closed {
            self.write_parts(vec![Part { bytes, fault: None }], &Split::No);
        }
    }

    fn write_rest(&mut self) {
        let rest = self.stdio.output.rest.take().unwrap_or_default();
        if !self.stdio.output.closed {
            self.write_parts(rest, &Split::No);
        }
    }

    /// Reports lines that go out; for `fault` see [`Part`].
    fn sent(&mut self, bytes: &[u8], fault: Option<bool>) {
        if self.stdio.quiet {
            return;
        }
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let continued = !self.stdio.output.open_line.is_empty();
            let mut line = std::mem::take(&mut self.stdio.output.open_line);
            // Whatever is longer was reported as broken already, and stays so.
            if line.len() < LIMIT {
                line.extend_from_slice(piece);
            }
            let body = line.strip_suffix(b"\n");
            let unterminated = body.is_none();
            let body = body.unwrap_or(&line);
            let (body, carriage_return) = match body.strip_suffix(b"\r") {
                Some(shorter) if !unterminated => (shorter, true),
                _ => (body, false),
            };
            let looked_at = fault.is_none() || continued;
            let broken = unterminated || (looked_at && !jsonrpc::inspect_bytes(body).is_valid());
            // Only the new part of an unfinished line: the finished line is reported as a whole.
            let shown = if unterminated { piece } else { body };
            let (text, invalid_utf8) = match std::str::from_utf8(shown) {
                Ok(text) => (text.to_owned(), false),
                Err(_) => (String::from_utf8_lossy(shown).into_owned(), true),
            };
            self.observe(What::Line(LineSeen {
                direction: Direction::Sent,
                text,
                invalid_utf8,
                carriage_return,
                unterminated,
                scripted_fault: broken || fault == Some(true),
            }));
            if unterminated {
                self.stdio.output.open_line = line;
            }
        }
    }

    pub(in super::super) fn close_stdout(&mut self) {
        if !self.stdio.output.closed {
            self.flush();
            self.stdio.output.closed = true;
            self.effect(Effect::CloseStdout);
            self.observe(What::StdoutClosed { by: Party::Server });
        }
    }

    /// A write to stdout failed: the client has closed it. Whether that is news.
    pub fn stdout_lost(&mut self) -> bool {
        !std::mem::replace(&mut self.stdio.output.closed, true)
    }

    /// Writes what `merge_next` has kept back; what `cut_at` has stays.
    pub(super) fn flush(&mut self) {
        let kept = std::mem::take(&mut self.stdio.output.kept_back);
        self.write_parts(kept, &Split::No);
    }
}

impl Presentation {
    /// The message's bytes, its end of line included.
    fn render(&self, mut text: String) -> Vec<u8> {
        if self.pretty
            && let Ok(value) = serde_json::from_str::<Value>(&text)
            && let Ok(pretty) = serde_json::to_string_pretty(&value)
        {
            text = pretty;
        }
        if self.ascii_only && !text.is_ascii() {
            text = ascii(&text);
        }
        let end = self.line_end.bytes();
        if self.byte_order_mark {
            text.insert(0, '\u{feff}');
        }
        let mut bytes = text.into_bytes();
        if self.invalid_utf8 {
            // Inside the text, between two characters.
            let mut middle = bytes.len() / 2;
            while bytes.get(middle).is_some_and(|b| b & 0xc0 == 0x80) {
                middle += 1;
            }
            bytes.insert(middle, 0xff);
        }
        let length = usize::try_from(self.pad_to).unwrap_or(usize::MAX).min(LIMIT);
        if bytes.len() + end.len() < length {
            bytes.resize(length - end.len(), b' ');
        }
        bytes.extend_from_slice(end);
        bytes
    }
}

impl Split {
    /// Where the pieces of `bytes` end, ascending; the message itself begins at `before`.
    fn ends(&self, bytes: &[u8], before: usize) -> Vec<usize> {
        let wide = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        match self {
            Self::No => Vec::new(),
            Self::Every(size) => {
                let size = wide(*size).max(1);
                (size..bytes.len()).step_by(size).collect()
            }
            Self::At(offsets) => offsets.iter().map(|offset| wide(*offset).saturating_add(before)).collect(),
            // Behind the first byte of each character that has more than one.
            Self::Characters => {
                let leads = bytes.iter().enumerate().filter(|(_, byte)| **byte >= 0xc0);
                leads.map(|(at, _)| at + 1).collect()
            }
        }
    }
}

/// Characters beyond ASCII as escapes. In JSON they occur only inside strings.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string can't fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

fn repeated(line: &RepeatedLine) -> Vec<u8> {
    let mut out = Vec::new();
    for n in 1..=line.times.min(1_000_000) {
        out.extend_from_slice(line.line.replace("$n", &n.to_string()).as_bytes());
        out.push(b'\n');
        if out.len() > LIMIT {
            break;
        }
    }
    out
}
