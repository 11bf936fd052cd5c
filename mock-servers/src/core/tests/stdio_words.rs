//! What is written to stdout, in which bytes, and how a process ends.

use super::*;

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}]}}"#;

/// What was written, in single writes, after the handshake.
fn after_call(actions: Value) -> (Bench, Vec<Vec<u8>>) {
    let mut bench = stdio(on_call(actions));
    let before = raw(&bench).len();
    bench.send(call(1, "hi"));
    let writes = raw(&bench).split_off(before);
    (bench, writes)
}

fn raw(bench: &Bench) -> Vec<Vec<u8>> {
    let bytes = bench.effects.iter().filter_map(|effect| match effect {
        Effect::Write(bytes) => Some(bytes.clone()),
        _ => None,
    });
    bytes.collect()
}

/// Sent lines from the nth on: text, whether unterminated, whether a scripted fault.
fn lines(bench: &Bench, from: usize) -> Vec<(String, bool, bool)> {
    let lines = bench.effects.iter().filter_map(|effect| match effect {
        Effect::Observe(What::Line(line)) if line.direction == Direction::Sent => {
            Some((line.text.clone(), line.unterminated, line.scripted_fault))
        }
        _ => None,
    });
    lines.skip(from).collect()
}

fn line(text: &str, unterminated: bool, fault: bool) -> (String, bool, bool) {
    (text.to_owned(), unterminated, fault)
}

#[test]
fn a_message_is_split_where_the_script_says() {
    let (bench, writes) = after_call(json!([{"split_at": [1, 40]}]));
    assert_eq!(writes.iter().map(Vec::len).collect::<Vec<_>>(), [1, 39, ANSWER.len() + 1 - 40]);
    assert_eq!(writes.concat(), format!("{ANSWER}\n").into_bytes());
    assert_eq!(lines(&bench, 1), [line(ANSWER, false, false)], "the client sees one valid line");
    // Offsets beyond the end are no pieces.
    let (_, writes) = after_call(json!([{"split_at": [40, 9999]}]));
    assert_eq!(writes.iter().map(Vec::len).collect::<Vec<_>>(), [40, ANSWER.len() + 1 - 40]);
    // They count from the message's own start.
    let (_, writes) = after_call(json!([{"merge_next": 1}, {"stdout": "x"}, "default",
        {"split_at": [5]}, {"notify": {"method": "notifications/tools/list_changed"}}]));
    assert_eq!(writes[1].len(), ANSWER.len() + 1 + 5, "the message before it goes with the first piece");
}

#[test]
fn characters_are_split_inside() {
    let mut bench = stdio(on_call(json!(["split_characters"])));
    let before = raw(&bench).len();
    bench.send(call(1, "é—漢🎉"));
    let pieces = raw(&bench).split_off(before);
    assert_eq!(pieces.len(), 5);
    assert!(pieces[..4].iter().all(|piece| std::str::from_utf8(piece).is_err()), "each ends in the middle");
    assert!(String::from_utf8(pieces.concat()).unwrap().contains("é—漢🎉"));
}

#[test]
fn a_message_that_is_cut_waits_for_its_rest() {
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let (mut bench, writes) = after_call(json!([{"cut_at": 10}, "default",
        {"notify": {"method": "notifications/tools/list_changed"}}, {"delay_ms": 500}, "write_rest"]));
    assert_eq!(writes, [b"{\"jsonrpc\""]);
    assert_eq!(lines(&bench, 1), [line("{\"jsonrpc\"", true, true)]);
    bench.wait();
    assert_eq!(*raw(&bench).last().unwrap(), format!("{}\n{notice}\n", &ANSWER[10..]).into_bytes());
    assert_eq!(lines(&bench, 2), [line(ANSWER, false, false), line(notice, false, false)]);
    // At most all but the end of line.
    let (bench, writes) = after_call(json!([{"cut_at": 100_000}]));
    assert_eq!(writes, [ANSWER.as_bytes()]);
    assert_eq!(lines(&bench, 1), [line(ANSWER, true, true)]);
    // What breaks into the line breaks the line.
    let (bench, _) = after_call(json!([{"cut_at": 2}, "default", {"stdout": "log"}, "write_rest"]));
    assert_eq!(lines(&bench, 2), [line("{\"log", false, true), line(&ANSWER[2..], false, true)]);
    // It stays cut when the process ends.
    let (bench, writes) = after_call(json!([{"cut_at": 9}, "default", {"exit": 0}]));
    assert_eq!(writes.concat(), b"{\"jsonrpc");
    assert!(matches!(bench.effects.last(), Some(Effect::Exit(0))));
}

#[test]
fn ends_of_lines() {
    for (word, end) in [("crlf", "\r\n"), ("cr_only", "\r"), ("no_newline", "")] {
        let (mut bench, writes) = after_call(json!([word]));
        assert_eq!(writes, [format!("{ANSWER}{end}").into_bytes()], "{word}");
        let terminated = word == "crlf";
        let shown = if word == "cr_only" { format!("{ANSWER}\r") } else { ANSWER.to_owned() };
        assert_eq!(lines(&bench, 1), [line(&shown, !terminated, !terminated)], "{word}");
        // The next message is swallowed by the open line.
        bench.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
        assert_eq!(lines(&bench, 2).last().unwrap().2, !terminated, "{word}");
    }
}

#[test]
fn bytes_and_lines_of_the_scripts_own() {
    let (bench, writes) =
        after_call(json!([{"stdout_bytes": {"hex": "00 ff 0a"}}, {"stdout_bytes": {"base64": "eyI="}}]));
    assert_eq!(writes[0], [0, 0xff, b'\n']);
    assert_eq!(writes[1], b"{\"");
    let seen = lines(&bench, 1);
    assert_eq!(seen[..2], [line("\0\u{fffd}", false, true), line("{\"", true, true)]);
    assert_eq!(seen[2], line(&format!("{{\"{ANSWER}"), false, true), "the answer continues the line");

    let valid = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":$n}}"#;
    let (bench, writes) = after_call(json!([{"repeat_stdout": {"line": valid, "times": 3}}]));
    assert_eq!(writes.len(), 2);
    assert_eq!(writes[0].iter().filter(|b| **b == b'\n').count(), 3);
    let seen = lines(&bench, 1);
    assert!(seen.len() == 4 && seen.iter().all(|(_, open, fault)| !open && !fault), "{seen:?}");
    assert!(seen[2].0.contains("\"data\":3"));

    for wrong in
        [json!({"hex": "0"}), json!({"hex": "+1"}), json!({"base64": "?"}), json!({"text": "x"}), json!("00")]
    {
        assert!(serde_json::from_value::<Action>(json!({"stdout_bytes": wrong})).is_err(), "{wrong}");
    }
}

#[test]
fn other_shapes_of_a_message() {
    let (bench, writes) = after_call(json!([{"blank_lines": 2}]));
    assert_eq!(writes, [format!("\n\n{ANSWER}\n").into_bytes()]);
    assert_eq!(lines(&bench, 1), [line("", false, true), line("", false, true), line(ANSWER, false, false)]);

    let (bench, writes) = after_call(json!(["pretty"]));
    assert!(serde_json::from_slice::<Value>(&writes[0]).is_ok());
    let seen = lines(&bench, 1);
    assert!(seen.len() > 5 && seen.iter().all(|(_, open, fault)| !open && *fault), "{seen:?}");

    let (bench, writes) = after_call(json!([{"pad_to": 1000}]));
    assert_eq!(writes[0].len(), 1000);
    assert!(!lines(&bench, 1)[0].2);
    let (_, writes) = after_call(json!([{"pad_to": 3}]));
    assert_eq!(writes, [format!("{ANSWER}\n").into_bytes()]);

    let mut bench = stdio(on_call(json!(["ascii_only"])));
    bench.send(call(1, "é🎉\u{2028}"));
    let written = raw(&bench).pop().unwrap();
    assert!(written.is_ascii());
    assert!(String::from_utf8(written.clone()).unwrap().contains(r"\u00e9\ud83c\udf89\u2028"));
    let read: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(read["result"]["content"][0]["text"], "é🎉\u{2028}");
    assert!(!lines(&bench, 1)[0].2);
}

#[test]
fn what_a_peer_makes_grow_is_written_before_it_is_too_much() {
    let mut bench = stdio(json!({"tools": ["echo"], "rules": [
        {"on": "tools/call", "nth": 1, "do": [{"cut_at": 1}]},
        {"on": "tools/call", "do": [{"pad_to": 600_000}]},
    ]}));
    bench.send(call(1, "a"));
    bench.send(call(2, "a"));
    let before = raw(&bench).len();
    bench.send(call(3, "a"));
    assert_eq!(raw(&bench).len(), before + 1);
}

#[test]
fn stderr_takes_any_text() {
    let (bench, _) = after_call(
        json!([{"stderr": "\u{1b}[31mred"}, "close_stderr", "close_stdin", {"stop_reading_after": 7},
        "resume_reading"]),
    );
    let seen: Vec<&Effect> = bench
        .effects
        .iter()
        .filter(|e| !matches!(e, Effect::Observe(What::Line(_) | What::RuleFired { .. }) | Effect::Write(_)))
        .collect();
    assert_eq!(
        seen,
        [
            &Effect::StartReading,
            &Effect::StderrText("\u{1b}[31mred".into()),
            &Effect::Observe(What::Stderr { bytes: 8 }),
            &Effect::CloseStderr,
            &Effect::CloseStdin,
            &Effect::StopReading { after: 7 },
            &Effect::StartReading,
        ]
    );
}

#[test]
fn ends_take_their_time_and_their_code() {
    let script = json!({"process": {
        "at_eof": {"code": 3, "after_ms": 300}, "at_sigterm": {"code": 4}, "at_sigint": {"after_ms": 10},
        "ignore_sighup": true,
    }});
    let mut bench = stdio(script.clone());
    assert!(bench.input(Input::Eof).is_empty());
    assert_eq!(bench.wait(), ["exiting Some(3) None", "Exit(3)"]);
    assert_eq!(bench.now, Duration::from_millis(300));
    // A signal while it lingers is heard.
    let mut bench = stdio(script.clone());
    bench.input(Input::Eof);
    assert_eq!(bench.input(Input::Signal("SIGTERM")), ["exiting Some(4) None", "Exit(4)"]);
    let core = stdio(script).core;
    assert_eq!(core.unscripted_ending("SIGTERM"), Some((4, Duration::ZERO)));
    assert_eq!(core.unscripted_ending("SIGINT"), Some((130, Duration::from_millis(10))));
    assert_eq!(core.unscripted_ending("SIGHUP"), None);
    // A rule comes first, and then the time is counted.
    let mut bench = stdio(json!({"process": {"at_eof": {"after_ms": 50}}, "rules": [
        {"on": "eof", "do": [{"delay_ms": 20}, {"stdout": "bye"}]},
    ]}));
    assert!(bench.input(Input::Eof).is_empty());
    assert_eq!(bench.wait(), ["bye!"]);
    assert_eq!(bench.wait(), ["exiting Some(0) None", "Exit(0)"]);
    assert_eq!(bench.now, Duration::from_millis(70));
    // Without ignore_sigint the core itself ends, should the shell ask it.
    assert_eq!(stdio(json!({})).input(Input::Signal("SIGINT")), ["exiting Some(130) None", "Exit(130)"]);
    assert!(stdio(json!({"process": {"ignore_sigint": true}})).input(Input::Signal("SIGINT")).is_empty());
}

#[test]
fn deaths_by_count() {
    let dies = |after: Value| json!({"tools": ["echo"], "process": {"deaths": [{"after": after, "code": 2, "stderr": "no\n"}]}});
    let gone = ["StderrText(\"no\\n\")", "exiting Some(2) None", "Exit(2)"];
    let bench = unopened(dies(json!("start")), REVISION, 1);
    assert_eq!(bench.effects.iter().filter_map(show).collect::<Vec<_>>(), gone);
    // The handshake is two messages.
    let mut bench = stdio(dies(json!({"received": 4})));
    assert_eq!(bench.send(call(1, "a")), ["1 a"]);
    assert!(bench.line("").is_empty(), "a blank line is no message");
    assert_eq!(bench.send(call(2, "a")), gone);
    let mut bench = stdio(dies(json!({"sent": 2})));
    assert_eq!(bench.send(call(1, "a"))[..1], ["1 a"]);
    assert!(matches!(bench.effects.last(), Some(Effect::Exit(2))));
    // Only in the second process, and by a signal.
    let script =
        json!({"process": {"deaths": [{"after": {"received": 1}, "signal": "SIGPIPE", "incarnation": 2}]}});
    assert_eq!(unopened(script.clone(), REVISION, 1).initialize().len(), 1);
    assert_eq!(
        unopened(script, REVISION, 2).initialize(),
        ["exiting None Some(\"SIGPIPE\")", "Die(\"SIGPIPE\")"]
    );
    // Without more words the code is 1.
    let script = json!({"process": {"deaths": [{"after": "start"}]}});
    assert!(matches!(unopened(script, REVISION, 1).effects.last(), Some(Effect::Exit(1))));
}

#[test]
fn descendants_start_in_order() {
    let bench = unopened(
        json!({"process": {"grandchild": true, "descendants": [{"place": "session"}, {"place": "daemon", "depth": 3}]}}),
        REVISION,
        1,
    );
    assert_eq!(bench.effects[..3], [0, 1, 2].map(Effect::StartDescendant));
}

#[test]
fn words_are_checked() {
    for wrong in [
        json!({"rules": [{"on": "ping", "do": [{"die": "SIGSTOP"}]}]}),
        json!({"rules": [{"on": "ping", "do": [{"die": "sigkill"}]}]}),
        json!({"process": {"deaths": [{"code": 1}]}}),
        json!({"process": {"deaths": [{"after": {"received": 1, "sent": 1}}]}}),
        json!({"process": {"descendants": [{"place": "moon"}]}}),
        json!({"process": {"launcher": {"pipes": "shared", "x": 1}}}),
        json!({"process": {"at_eof": {"signal": 1}}}),
    ] {
        assert!(serde_json::from_value::<ServerScript>(wrong.clone()).is_err(), "{wrong}");
    }
    let script =
        script(json!({"process": {"launcher": {"pipes": "relayed", "signals": "forward", "place": "group"},
        "descendants": [{"keeps": ["stdin", "stdout", "stderr"], "polite": true}], "single_instance": true},
        "rules": [{"on": "ping", "do": [{"stdout_bytes": {"hex": "00"}}, {"die": "SIGBUS"}]}]}));
    let text = serde_json::to_string(&*script).unwrap();
    assert_eq!(serde_json::from_str::<ServerScript>(&text).unwrap(), *script);
}

#[test]
fn over_http_they_do_nothing() {
    let words = json!([{"stdout_bytes": {"hex": "00"}}, {"repeat_stdout": {"line": "x", "times": 1}}, {"stderr": "x"},
        {"split_at": [1]}, "split_characters", {"cut_at": 1}, "write_rest", "cr_only", "no_newline", {"blank_lines": 1},
        "pretty", "ascii_only", {"pad_to": 99}, "close_stderr", "close_stdin", {"stop_reading_after": 1},
        "resume_reading"]);
    assert_eq!(http(on_call(words)).post(call(1, "a")), ["#3 200 1 a"]);
}

fn any_output_word() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("default")),
        Just(json!({"stdout": "noise"})),
        Just(json!({"stdout": ANSWER})),
        Just(json!({"stdout_bytes": {"hex": "7b0a00"}})),
        Just(json!({"stdout_bytes": {"hex": "c3"}})),
        Just(json!({"repeat_stdout": {"line": "{}", "times": 2}})),
        Just(json!({"notify": {"method": "notifications/tools/list_changed"}})),
        Just(json!({"split_every": 7})),
        Just(json!({"split_at": [3, 5]})),
        Just(json!("split_characters")),
        (0_u32..100).prop_map(|at| json!({"cut_at": at})),
        Just(json!("write_rest")),
        (1_u32..3).prop_map(|count| json!({"merge_next": count})),
        Just(json!("crlf")),
        Just(json!("cr_only")),
        Just(json!("no_newline")),
        Just(json!({"blank_lines": 1})),
        Just(json!("pretty")),
        Just(json!("ascii_only")),
        Just(json!({"pad_to": 120})),
        Just(json!("byte_order_mark")),
        Just(json!("invalid_utf8")),
        Just(json!({"mangle": "no-version"})),
        Just(json!("close_stdout")),
    ]
}

proptest! {
    /// The lines that are reported are those that a client reads, and what is wrong with one was asked for.
    #[test]
    fn the_transcript_has_what_the_client_reads(
        first in prop::collection::vec(any_output_word(), 0..8),
        second in prop::collection::vec(any_output_word(), 0..8),
    ) {
        let mut bench = stdio(json!({"tools": ["echo"], "rules": [
            {"on": "tools/call", "nth": 1, "do": first}, {"on": "tools/call", "nth": 2, "do": second},
        ]}));
        bench.send(call(1, "é"));
        bench.send(call(2, "b"));
        bench.input(Input::Eof);
        let mut client = Lines::new(1 << 20);
        client.push(&raw(&bench).concat());
        let mut read = Vec::new();
        while let Some(line) = client.next_line().unwrap() {
            read.push((line.text().0, line.text().1, line.carriage_return));
        }
        let mut reported = Vec::new();
        for effect in &bench.effects {
            match effect {
                Effect::Observe(What::Line(l)) if l.direction == Direction::Sent && !l.unterminated => {
                    prop_assert!(l.scripted_fault || jsonrpc::inspect(&l.text).is_valid(), "{}", l.text);
                    reported.push((l.text.clone(), l.invalid_utf8, l.carriage_return));
                }
                _ => {}
            }
        }
        prop_assert_eq!(read, reported);
    }
}
