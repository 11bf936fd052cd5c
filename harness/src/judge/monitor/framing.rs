//! What stands on stdin, byte by byte.

use super::{Findings, Monitor, Scope, monitor};
use crate::judge::view::Conversation;
use serde_json::Value;
use sparring_wire::jsonrpc::Fault;
use sparring_wire::transcript::{LineSeen, What};
use std::ops::Range;

pub(super) const MONITORS: &[Monitor] = &[
    monitor(
        "framing.newline-terminated",
        &["stdio-newline-terminated"],
        "the client writes to stdin",
        "each message ends with a newline, and nothing else frames it",
        &["content-length-framing", "omits-newline"],
        newline_terminated,
    ),
    monitor(
        "framing.no-embedded-newline",
        &["stdio-no-embedded-newline"],
        "the client writes to stdin",
        "each message is one line",
        &["pretty-prints-messages"],
        no_embedded_newline,
    ),
    monitor(
        "framing.only-messages",
        &["stdio-valid-mcp-only"],
        "the client writes to stdin",
        "every line is a JSON-RPC message",
        &["logs-to-server-stdin"],
        only_messages,
    ),
    monitor(
        "framing.utf8",
        &["jsonrpc-utf8"],
        "the client sends a message",
        "every message is valid UTF-8",
        &["sends-latin-1"],
        utf8,
    ),
];

/// The lines that the client wrote in a conversation, with their events.
fn lines<'s>(scope: &Scope<'s, '_>, conversation: &'s Conversation) -> Vec<(usize, &'s LineSeen)> {
    let mut lines = Vec::new();
    let mut last = None;
    for message in scope.messages(conversation).filter(|m| m.from_client()) {
        if last.replace(message.event) != Some(message.event)
            && let Some(What::Line(line)) = scope.view.what(message.event)
        {
            lines.push((message.event, line));
        }
    }
    lines
}

fn is_content_length(line: &LineSeen) -> bool {
    line.text.get(..15).is_some_and(|start| start.eq_ignore_ascii_case("content-length:"))
}

/// Whether the text is JSON, object or array; without building it.
fn is_message(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn newline_terminated(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    let forced = scope.view.events().any(|(_, event)| {
        matches!(event.what, What::ClientEnded { signal: Some(_), .. } | What::Deadline { .. })
    });
    for conversation in scope.conversations() {
        let mut terminated = false;
        for (event, line) in lines(scope, conversation) {
            findings.saw(event);
            if is_content_length(line) {
                findings.against(&[event], "a Content-Length header frames the message");
            }
            // Half a message is what a client leaves that is killed while it writes, and a server that dies reads no
            // further than it got. A whole message before the end of stdin lacks its newline for no such reason,
            // unless a client that does write them was killed just then.
            if line.unterminated
                && is_message(&line.text)
                && stdin_closed(scope, conversation)
                && !(terminated && forced)
            {
                findings.against(&[event], "stdin ended without a newline after the message");
            }
            terminated |= !line.unterminated;
        }
    }
    findings
}

fn stdin_closed(scope: &Scope<'_, '_>, conversation: &Conversation) -> bool {
    scope.view.events().any(|(_, event)| {
        matches!(event.what, What::StdinClosed)
            && event.server == conversation.server
            && event.incarnation == conversation.incarnation
    })
}

/// Runs of lines that are messages only together: the first line begins one and the last ends it.
fn broken_up(lines: &[(usize, &LineSeen)]) -> Vec<Range<usize>> {
    /// Failed attempts per run of bad lines, so that a flood of them costs no more than its length a few times.
    const ATTEMPTS: usize = 8;
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let end = lines[at..].iter().position(|(_, l)| is_message(&l.text)).map_or(lines.len(), |n| at + n);
        let run: Vec<&str> = lines[at..end].iter().map(|(_, l)| l.text.as_str()).collect();
        let joined = run.join("\n");
        let (mut line, mut offset, mut failed) = (0, 0, 0);
        while line + 1 < run.len() && failed < ATTEMPTS {
            let mut lines_used = 1;
            if run[line].trim_start().starts_with(['{', '[']) {
                let mut stream = serde_json::Deserializer::from_str(&joined[offset..]).into_iter::<Value>();
                if let Some(Ok(Value::Object(_) | Value::Array(_))) = stream.next() {
                    let message = &joined[offset..offset + stream.byte_offset()];
                    lines_used += message.bytes().filter(|&b| b == b'\n').count();
                    found.push(at + line..at + line + lines_used);
                } else {
                    failed += 1;
                }
            }
            offset += run[line..line + lines_used].iter().map(|l| l.len() + 1).sum::<usize>();
            line += lines_used;
        }
        at = end + 1;
    }
    found
}

fn no_embedded_newline(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let lines = lines(scope, conversation);
        if let Some((event, _)) = lines.first() {
            findings.saw(*event);
        }
        for run in broken_up(&lines) {
            let events = [lines[run.start].0, lines[run.end - 1].0];
            findings.against(&events, format!("one message stands on {} lines", run.len()));
        }
    }
    findings
}

fn only_messages(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let lines = lines(scope, conversation);
        let runs = broken_up(&lines);
        for (n, (event, line)) in lines.iter().enumerate() {
            findings.saw(*event);
            let judged_elsewhere = runs.iter().any(|run| run.contains(&n)) || is_content_length(line);
            let cut_off = line.unterminated && !is_message(&line.text);
            // An empty line separates nothing and disturbs nobody.
            if judged_elsewhere || cut_off || line.text.trim().is_empty() {
                continue;
            }
            let fault =
                scope.view.messages_of(*event).iter().flat_map(|m| &m.inspected.faults).find(|fault| {
                    matches!(
                        fault,
                        Fault::InvalidJson(_)
                            | Fault::NotAnObject
                            | Fault::NoKind
                            | Fault::MethodType
                            | Fault::EmptyBatch
                            | Fault::ByteOrderMark
                    )
                });
            if let Some(fault) = fault {
                findings.against(&[*event], format!("a line is no message: {fault}"));
            }
        }
    }
    findings
}

fn utf8(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for message in scope.client_messages() {
        findings.saw(message.event);
        let cut_off = matches!(scope.view.what(message.event), Some(What::Line(line)) if line.unterminated);
        if !cut_off && message.inspected.faults.contains(&Fault::InvalidUtf8) {
            findings.against(&[message.event], "the message is not valid UTF-8");
        }
    }
    findings
}
