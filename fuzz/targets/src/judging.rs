//! The judge, and the recorder's scripts, on any transcript.

use crate::input::Input;
use sparring::judge::{self, View, evidence, redact};
use sparring::record::script;
use sparring_scenarios::load;
use sparring_wire::jsonrpc;
use sparring_wire::transcript::{
    Direction, Event, HttpRequest, HttpResponse, LineSeen, Outcome, Party, Process, Recorded, StreamEvent,
    What,
};

/// A transcript made of bytes: messages that follow one another somehow.
fn events(input: &mut Input<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut at_us = 0;
    let mut exchange = 0;
    for n in 1..80 {
        if input.is_empty() {
            break;
        }
        at_us += u64::from(input.byte());
        let stdio = input.byte().is_multiple_of(2);
        let what = match (input.byte() % 14, stdio) {
            (0, _) => What::Recorded(Recorded::default()),
            (1, _) => What::End,
            (2, _) => What::ProcessStarted(Process { argv: vec![input.text()], ..Process::default() }),
            (3, _) => What::StdinClosed,
            (4, _) => What::ProcessExiting { code: Some(i32::from(input.byte())), signal: None },
            (5, _) => What::StepStarted { step: "s".into(), op: "close".into(), arguments: input.value() },
            (6, _) => What::StepEnded {
                step: "s".into(),
                op: "close".into(),
                outcome: Outcome::Ok { value: input.value() },
                took_us: 1,
            },
            (7, _) => What::StreamEnded {
                exchange: u64::from(input.byte() % 8),
                by: *input.one(&[Party::Client, Party::Server]),
            },
            (kind, true) => What::Line(LineSeen {
                direction: if kind % 2 == 0 { Direction::Received } else { Direction::Sent },
                text: input.client_message(),
                invalid_utf8: input.byte() > 250,
                carriage_return: false,
                unterminated: input.byte() > 250,
                scripted_fault: input.byte() > 250,
            }),
            (8..=10, false) => {
                exchange += 1;
                let headers = match input.byte() % 4 {
                    0 => vec![("mcp-session-id".into(), input.text())],
                    1 => vec![("mcp-protocol-version".into(), input.revision().as_str().into())],
                    2 => vec![("authorization".into(), format!("Bearer {}", input.text()))],
                    _ => Vec::new(),
                };
                What::HttpRequest(HttpRequest {
                    exchange,
                    connection: 1,
                    method: (*input.one(&["POST", "GET", "DELETE"])).to_owned(),
                    target: (*input.one(&["/mcp", "/token", "/authorize?state=s"])).to_owned(),
                    headers,
                    body: input.client_message(),
                    ..HttpRequest::default()
                })
            }
            (11, false) => What::HttpResponse(HttpResponse {
                exchange: u64::from(input.byte() % 8),
                status: *input.one(&[200, 202, 401, 404, 405, 500]),
                headers: vec![
                    ("content-type".into(), (*input.one(&["application/json", "text/event-stream"])).into()),
                    ("mcp-session-id".into(), input.text()),
                ],
                body: (input.byte() < 200).then(|| input.client_message()),
                scripted_fault: false,
            }),
            _ => What::StreamEvent(StreamEvent {
                exchange: u64::from(input.byte() % 8),
                data: Some(input.client_message()),
                ..StreamEvent::default()
            }),
        };
        let server = (input.byte() > 20).then(|| "server".to_owned());
        let incarnation = stdio.then(|| u32::from(input.byte() % 2) + 1);
        events.push(Event { n, at_us, server, incarnation, what });
    }
    events
}

/// A judge says something about every transcript, and the same about it without its secrets redacted twice; evidence can
/// be shown, and has no control characters.
pub(crate) fn judge(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let revision = (input.byte() > 100).then(|| input.revision());
    let events = events(&mut input);
    let verdicts = judge::judge_transcript_only(revision, &events);
    assert!(verdicts == judge::judge_transcript_only(revision, &events));
    let view = View::of(&events);
    for index in 0..view.len() {
        let _ = evidence::line(&view, index);
        for message in view.messages_of(index) {
            assert_eq!(message.event, index);
        }
    }
    for event in &events {
        let once = redact::redact(event);
        assert_eq!(redact::redact(&once), once, "a second time changes nothing");
    }
}

/// Whatever was recorded makes a script that can be read back.
pub(crate) fn replay(bytes: &[u8]) {
    let mut events = events(&mut Input::new(bytes));
    for event in &mut events {
        event.server = Some("server".to_owned());
    }
    let Ok(made) = script::of(&events, None) else { return };
    let yaml = made.yaml().unwrap();
    match load::parse_script("made.yaml", &yaml) {
        Ok(read) => assert_eq!(read, made.script),
        Err(wrong) => panic!("{}\n{yaml}", wrong.render(false)),
    }
    assert!(jsonrpc::inspect(&yaml).value.is_none(), "it is YAML");
}
