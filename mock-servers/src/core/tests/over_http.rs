//! Words that shape HTTP responses, sessions and streams, and HTTP+SSE of 2024-11-05.

use super::*;

/// A script from the examples.
fn example(name: &str) -> Value {
    let path = format!("{}/../scenarios/scripts/examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let script: ServerScript = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    serde_json::to_value(script).unwrap()
}

/// The bytes of the latest exchange, with `|` for a pause and the end in angle brackets.
fn raw(bench: &Bench) -> String {
    let mut text = String::new();
    for effect in &bench.effects {
        match effect {
            Effect::Raw { exchange, out } if *exchange == bench.exchanges => match out {
                RawOut::Bytes(bytes) => text += &String::from_utf8_lossy(bytes),
                RawOut::Pause(_) => text.push('|'),
                end => text += &format!("<{end:?}>"),
            },
            _ => {}
        }
    }
    text
}

fn body(text: &str) -> &str {
    text.split_once("\r\n\r\n").unwrap().1
}

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}"#;

#[test]
fn responses_are_changed_in_one_thing_at_a_time() {
    let head = |fields: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{fields}\r\n{ANSWER}<Done>")
    };
    let length = format!("content-length: {}\r\n", ANSWER.len());
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{ANSWER}\r\n0\r\n\r\n<Done>",
        ANSWER.len()
    );
    let seen = "#3 200 1 a";
    let fault = "#3 200 1 a!";
    for (reply, expected, shown) in [
        (json!({}), head(&length), seen),
        (
            json!({"headers": [["X-A", "1"], ["X-A", "2"]]}),
            head(&format!("X-A: 1\r\nX-A: 2\r\n{length}")),
            seen,
        ),
        (json!({"headers": {"X-A": "{{origin}}"}}), head(&format!("x-a: http://own\r\n{length}")), seen),
        (json!({"pad_head": 3}), head(&format!("x-padding: xxx\r\n{length}")), seen),
        (json!({"framing": "chunked"}), chunked.clone(), seen),
        (
            json!({"framing": "chunked", "chunk_size": "zz"}),
            chunked.replace("\r\n4a\r\n", "\r\nzz\r\n"),
            fault,
        ),
        (json!({"framing": "close"}), head("connection: close\r\n").replace("Done", "Close"), seen),
        (
            json!({"close": true}),
            head(&format!("{length}connection: close\r\n")).replace("Done", "Close"),
            seen,
        ),
        (json!({"close": false}), head(&length).replace("Done", "Close"), seen),
        (json!({"length_off_by": -4}), head("content-length: 70\r\n").replace("Done", "Close"), fault),
        (json!({"without": ["Content-Length"]}), head("").replace("Done", "Close"), fault),
        (
            json!({"without": ["content-type"]}),
            head(&length).replace("content-type: application/json\r\n", ""),
            fault,
        ),
        (
            json!({"content_type": "Application/JSON;charset=utf-8"}),
            head(&length).replace("application/json\r\n", "Application/JSON;charset=utf-8\r\n"),
            seen,
        ),
        (
            json!({"content_type": "text/plain"}),
            head(&length).replace("application/json", "text/plain"),
            fault,
        ),
        (json!({"content_type": ""}), head(&length).replace("content-type: application/json\r\n", ""), fault),
        (json!({"reason": "Fine"}), head(&length).replace("OK", "Fine"), seen),
        (
            json!({"interim": [100, 103]}),
            format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n{}", head(&length)),
            seen,
        ),
        (
            json!({"before": "\n", "after": "!"}),
            format!("\n{}", head(&length)).replace("<Done>", "!<Done>"),
            fault,
        ),
    ] {
        let mut bench = http(on_call(json!([{"reply": reply}])));
        assert_eq!(bench.post(call(1, "a")), [shown], "{reply}");
        let expected = match reply["content_type"].as_str() {
            // A type that is given anew comes last.
            Some(kind) if !kind.is_empty() => {
                format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{length}\r\n{ANSWER}<Done>")
            }
            _ => expected,
        };
        assert_eq!(raw(&bench), expected, "{reply}");
        assert!(bench.core.http.is_idle());
    }
    let mut bench = http(on_call(json!([{"reply": {"code": 206}}])));
    assert_eq!(bench.post(call(1, "a")), ["#3 206 1 a!"]);
    assert!(raw(&bench).starts_with("HTTP/1.1 206 Partial Content\r\n"));
}

#[test]
fn the_words_do_nothing_over_stdio() {
    let words = json!([{"reply": {}}, {"cut": {}}, {"pieces": {}}, {"raw_response": ["close"]}, {"sse_event": {}},
        {"sse_style": {}}, "keep_open", {"answer_on": "get-stream"}, {"change_session": {}}]);
    assert_eq!(stdio(on_call(words)).send(call(1, "a")), ["1 a"]);
}

#[test]
fn a_compressed_body_is_gzip() {
    let mut bench = http(on_call(json!([{"reply": {"gzip": true}}])));
    assert_eq!(bench.post(call(1, "a")), ["#3 200 1 a!"], "nobody asked for it");
    let asked = [("accept-encoding", "br, gzip")];
    assert_eq!(bench.exchange("POST", &asked, call(1, "a")), ["#4 200 1 a"]);
    let bytes = bench.effects.iter().find_map(|e| match e {
        Effect::Raw { exchange: 4, out: RawOut::Bytes(bytes) } => Some(bytes.clone()),
        _ => None,
    });
    let bytes = bytes.unwrap();
    let start = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let packed = &bytes[start..];
    assert_eq!(&packed[..4], [0x1f, 0x8b, 8, 0]);
    assert_eq!(&packed[15..packed.len() - 8], ANSWER.as_bytes(), "stored, behind its own head");
    // CRC-32 of the text, then its length.
    assert_eq!(&packed[packed.len() - 4..], (ANSWER.len() as u32).to_le_bytes());
}

#[test]
fn a_response_breaks_off_at_its_byte() {
    for (cut, seen, sent) in [
        (json!({"after": 0}), "#3 Closed after 0", "<Close>"),
        (json!({"after": 9, "how": "reset"}), "#3 Reset after 9", "HTTP/1.1 <Reset>"),
        (json!({"after": 12, "how": "stall"}), "#3 Stalled after 12", "HTTP/1.1 200<Stall>"),
    ] {
        let mut bench = http(on_call(json!([{"cut": cut}])));
        assert_eq!(bench.post(call(1, "a")), ["#3 200 1 a!", seen]);
        assert_eq!(raw(&bench), sent);
        let stalls = cut["how"] == "stall";
        assert_eq!(bench.core.http.is_idle(), !stalls);
        let gone = bench.input(Input::Gone { exchange: 3 });
        assert_eq!(gone, if stalls { vec!["#3 ended by Client"] } else { vec![] });
        assert!(bench.core.http.is_idle());
    }
    let mut bench = http(on_call(json!([{"cut": {"after": 10, "in_body": true}}])));
    bench.post(call(1, "a"));
    assert_eq!(body(&raw(&bench)), format!("{}<Close>", &ANSWER[..10]));
    // Where the response is shorter, it ends as if broken off.
    let mut bench = http(on_call(json!([{"cut": {"after": 4000, "how": "reset"}}])));
    assert_eq!(bench.post(call(1, "a")), ["#3 200 1 a", "#3 Reset after 145"]);
}

#[test]
fn a_stream_breaks_off_in_an_event_and_can_be_resumed() {
    let mut bench = http(json!({
        "tools": ["echo"], "http": {"answers": "sse", "event_ids": true, "get_stream": true},
        "rules": [{"on": "tools/call", "do": [{"cut": {"after": 30, "in_body": true}}]}],
    }));
    let seen = bench.post(call(1, "a"));
    let broken = raw(&bench);
    let total = broken.len() - "<Close>".len();
    let head = broken.len() - body(&broken).len();
    assert_eq!(
        seen,
        ["#3 200 stream", "#3 id=stream2/1 1 a!", &format!("#3 Closed after {total}"), "#3 ended by Server"]
    );
    assert_eq!(total, head + 30);
    assert_eq!(bench.get(Some("stream2/0")), ["#4 200 stream"], "an unknown id opens a new stream");
    let _ = bench.input(Input::Gone { exchange: 4 });
    let mut all = http(json!({
        "tools": ["echo"], "http": {"answers": "sse", "event_ids": true, "priming": true},
        "rules": [{"on": "tools/call", "do": [{"cut": {"after": 60, "in_body": true}}]}],
    }));
    all.post(call(1, "a"));
    assert_eq!(all.get(Some("stream2/1")), ["#4 200 stream", "#4 id=stream2/2 1 a", "#4 ended by Server"]);
}

#[test]
fn pieces_end_where_the_script_says() {
    let pieces = |pieces: Value| {
        let mut bench = http(on_call(json!([{"pieces": pieces}])));
        assert_eq!(bench.post(call(1, "a")), ["#3 200 1 a"], "nothing is wrong with it");
        raw(&bench)
    };
    assert!(pieces(json!({"at": [4, 9]})).starts_with("HTTP|/1.1 |200 OK\r\n"));
    let every = pieces(json!({"every": 8}));
    assert!(every.split('|').rev().skip(1).all(|p| p.len() == 8), "{every}");
    assert_eq!(every.replace('|', ""), pieces(json!({})));
    let in_body = pieces(json!({"every": 30, "at": [2], "in_body": true}));
    assert_eq!(
        body(&in_body),
        format!("|{}|{}|{}|{}<Done>", &ANSWER[..2], &ANSWER[2..30], &ANSWER[30..60], &ANSWER[60..])
    );
    let mut bench = http(on_call(json!([{"pieces": {"every": 1, "gap_ms": 20}}])));
    bench.post(call(1, "a"));
    let gap = |e: &&Effect| matches!(e, Effect::Raw { out: RawOut::Pause(t), .. } if t.as_millis() == 20);
    assert_eq!(bench.effects.iter().filter(gap).count(), every.replace('|', "").len() - "<Done>".len() - 1);
}

#[test]
fn raw_responses_go_out_as_they_are() {
    let mut bench = http(example("http-bytes"));
    for id in 1..=8 {
        bench.post(call(id, "a"));
        let _ = bench.input(Input::Gone { exchange: bench.exchanges });
    }
    assert_eq!(bench.post(call(1, "a")), ["#11 200 1 a"], "spelt out, and valid");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
    let (first, second) = ANSWER.split_at(ANSWER.find("\"result\"").unwrap());
    assert_eq!(raw(&bench), format!("{head}{first}|{second}<Close>"));
    assert_eq!(
        bench.post(call(1, "a")),
        ["#12 raw \"\\u{15}\\u{3}\\u{1}\\0\\u{2}???\"!", "#12 Reset after 8"]
    );
    assert_eq!(raw(&bench), "\u{15}\u{3}\u{1}\0\u{2}???<Reset>");
    assert_eq!(bench.post(call(1, "a")), ["#13 raw \"\"!", "#13 Closed after 0"]);
    assert_eq!(bench.post(call(1, "a")), ["#14 503"]);
    assert!(raw(&bench).ends_with("<Done>"));
    assert_eq!(bench.post(call(1, "a")), ["#15 raw \"HTTP/1.1 200 \"!", "#15 Stalled after 13"]);
    assert!(!bench.core.http.is_idle());
    bench.input(Input::Gone { exchange: 15 });
    assert_eq!(bench.post(call(1, "a")), ["#16 200 1 a!"]);
    assert!(raw(&bench).len() > 40_000);
    assert_eq!(bench.post(call(1, "a")), ["#17 206 1 a!"]);
    assert!(bench.core.http.is_idle());
    assert_eq!(bench.post(call(1, "a")), ["#18 200 1 a"]);
    assert_eq!(body(&raw(&bench)), format!("|{}|{}|{}<Done>", &ANSWER[..1], &ANSWER[1..20], &ANSWER[20..]));
    assert_eq!(bench.post(call(1, "a")), ["#19 200 1 a"]);
    assert_eq!(bench.post(call(1, "a")), ["#20 200 1 a"]);
    let sent = raw(&bench);
    assert!(sent.ends_with("}<Close>") && !sent.contains("content-length"), "{sent}");
}

/// What went out on an exchange, as the shell would send it.
fn sent(bench: &Bench, exchange: u64) -> Vec<String> {
    let of = |effect: &Effect| match effect {
        Effect::Chunk { exchange: e, bytes } if *e == exchange => {
            Some(String::from_utf8(bytes.clone()).unwrap())
        }
        _ => None,
    };
    bench.effects.iter().filter_map(of).collect()
}

#[test]
fn streams_are_written_in_the_style_asked_for() {
    let mut bench = http(example("sse"));
    // initialize and initialized were exchanges 1 and 2.
    let first = sent(&bench, 1);
    assert_eq!(
        first[0],
        "\u{feff}: still here\r\nid: stream1/1\r\nretry: 250\r\ndata: \r\nx-trace: 1\r\n\r\n"
    );
    bench.post(call(1, "a"));
    let pretty = sent(&bench, 3)[1].clone();
    assert!(
        pretty.starts_with("event:message\rid:stream2/2\rdata:{\rdata:  \"jsonrpc\": \"2.0\",\r"),
        "{pretty:?}"
    );
    assert!(pretty.ends_with("data:}\r\r") && !pretty.contains('\n'));
    let seen = bench.post(call(2, "a"));
    assert_eq!(seen.iter().filter(|line| line.ends_with('!')).count(), 4, "unterminated: {seen:?}");
    let merged = sent(&bench, 4);
    assert_eq!(merged.len(), 2, "three together, then what is left: {merged:?}");
    assert_eq!(merged[0].matches("\n\n").count(), 2, "{merged:?}");
    assert!(merged[1].starts_with("\nid: ") && merged[1].ends_with("}\n"));
    let own = bench.post(call(3, "a"));
    assert_eq!(own[0], "#5 200 stream");
    assert_eq!(own[1..=2], ["#5 raw \": still here\\r\\n\"", "#5 id=stream4/1 retry=250"]);
    assert!(own.contains(&"#5 raw \": about to begin\\r\\n\\r\\n\"".to_owned()), "{own:?}");
    assert!(own.contains(&"#5 id=stream4/2 retry=250 ok!".to_owned()), "{own:?}");
    assert!(own.contains(&"#5 id=odd\0id retry=250!".to_owned()), "{own:?}");
    assert_eq!(own.last().unwrap(), "#5 id=stream4/3 retry=10 3 a");
    let same = bench.post(call(4, "a"));
    assert_eq!(same.iter().filter(|line| line.starts_with("#6 id=stream5/1 ")).count(), 3, "{same:?}");
}

#[test]
fn answers_go_to_other_streams_and_streams_stay_open() {
    let mut bench = http(example("sse"));
    for id in 1..=4 {
        bench.post(call(id, "a"));
    }
    let plain =
        |seen: Vec<String>| -> Vec<String> { seen.into_iter().filter(|l| !l.contains("raw")).collect() };
    let kept = plain(bench.post(call(5, "a")));
    assert_eq!(kept, ["#7 200 stream", "#7 id=stream6/1 retry=250", "#7 id=stream6/2 retry=250 5 a"]);
    plain(bench.get(None));
    let elsewhere = plain(bench.post(call(6, "a")));
    assert_eq!(elsewhere[2..], ["#8 id=stream7/2 retry=250 6 a!", "#9 ended by Server"]);
    let other = plain(bench.post(call(7, "a")));
    assert_eq!(other[2..], ["#7 id=stream6/3 retry=250 7 a!", "#10 ended by Server"]);
}

#[test]
fn resumption_goes_wrong_as_told() {
    let resumed = |resume: &str| {
        let mut bench = http(json!({
            "tools": ["echo"], "http": {"event_ids": true, "priming": true, "answers": "sse", "resume": resume},
            "rules": [{"on": "tools/call", "do": [{"cut_stream": {"resumable": true}}]}],
        }));
        bench.post(call(1, "a"));
        bench.get(Some("stream2/1"))
    };
    let (head, end) = ("#4 200 stream", "#4 ended by Server");
    assert_eq!(resumed("faithful"), [head, "#4 id=stream2/2 1 a", end]);
    assert_eq!(resumed("twice"), [head, "#4 id=stream2/2 1 a!", "#4 id=stream2/2 1 a!", end]);
    assert_eq!(resumed("from-start"), [head, "#4 id=stream2/1!", "#4 id=stream2/2 1 a!", end]);
    assert_eq!(resumed("nothing"), [head, end]);
    assert_eq!(resumed("refuse"), ["#4 404 error -32600"]);
    for (name, resume) in
        [("sse-resume-again", "from-start"), ("sse-resume-lost", "nothing"), ("sse-resume-refused", "refuse")]
    {
        let mut bench = http(example(name));
        bench.post(call(1, "a"));
        assert_eq!(bench.get(Some("stream2/1")), resumed(resume), "{name}");
    }
}

#[test]
fn an_event_of_the_scripts_own_goes_to_the_get_stream() {
    let mut bench = http(example("sse-resume"));
    assert_eq!(bench.get(None), ["#3 200 stream", "#3 id=stream2/1"]);
    let seen = bench.post(call(1, "a"));
    assert!(seen.contains(&"#3 id=stream2/2 ok!".to_owned()), "{seen:?}");
    let resumed = bench.get(Some("stream3/1"));
    assert_eq!(resumed, ["#5 200 stream", "#5 id=stream3/2 1 a", "#5 ended by Server"]);
}

#[test]
fn sessions_are_odd_change_and_get_lost() {
    let mut bench = http(example("http-answers"));
    let odd = bench.session.clone().unwrap();
    assert_eq!(odd, "~!#$%&'()*+,-./:;<=>?@[]^_`{|}");
    let heads = |bench: &Bench, exchange: u64| {
        bench
            .effects
            .iter()
            .find_map(|e| match e {
                Effect::Observe(What::HttpResponse(r)) if r.exchange == exchange => Some(r.headers.clone()),
                _ => None,
            })
            .unwrap()
    };
    let value = |headers: &[(String, String)], name: &str| -> Option<String> {
        headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    };
    assert_eq!(value(&heads(&bench, 2), "mcp-session-id"), Some(odd.clone()), "in all responses");
    assert_eq!(bench.get(None), ["#3 200 stream"]);
    assert_eq!(value(&heads(&bench, 3), "connection"), Some("close".into()), "the third on the connection");
    assert_eq!(bench.get(None), ["#4 409 error -32600"], "one stream at a time");
    assert_eq!(bench.post(call(1, "a")), ["#5 307"]);
    assert_eq!(value(&heads(&bench, 5), "location"), Some("http://other/mcp".into()));
    bench.core = bench.core.with_wall_clock(Duration::from_secs(784_111_775));
    assert_eq!(bench.post(call(2, "a")), ["#6 503 busy"]);
    assert_eq!(value(&heads(&bench, 6), "retry-after"), Some("Sun, 06 Nov 1994 08:49:37 GMT".into()));
    assert_eq!(bench.post(call(3, "a")), ["#7 401"]);
    assert!(raw(&bench).contains("WWW-Authenticate: Basic\r\nWWW-Authenticate: Bearer realm=\"x\"\r\n"));
    assert_eq!(bench.post(call(4, "a")), ["#8 200 4 a!"]);
    assert_eq!(value(&heads(&bench, 8), "mcp-session-id"), Some("second".into()));
    assert_eq!(
        bench.post(json!({"jsonrpc": "2.0", "id": 9, "method": "ping"})),
        ["#9 200 9 ok"],
        "the old one is good"
    );
    bench.session = Some("second".into());
    assert_eq!(bench.post(notification("notifications/roots/list_changed", json!({}))), ["#10 200 !"]);
    assert_eq!(bench.post(call(5, "a")), ["#11 404 <h1>who?</h1>"]);
    assert_eq!(bench.post(call(6, "a")), ["#12 404 <h1>who?</h1>"]);
}

#[test]
fn connections_end_unannounced() {
    let mut bench = http(json!({"tools": ["echo"], "http": {"connections": {"responses": 3}}}));
    assert_eq!(bench.post(call(1, "a")), ["#3 200 1 a"]);
    assert!(raw(&bench).ends_with("<Close>") && !raw(&bench).contains("connection"), "{}", raw(&bench));
    bench.post(call(2, "a"));
    assert_eq!(raw(&bench), "");
}

// ---- HTTP+SSE ----

/// A client of the old transport.
struct Old {
    bench: Bench,
    stream: u64,
    target: String,
}

impl Old {
    fn new(script: Value, transport: Transport) -> Self {
        let origins = Origins { own: "http://127.0.0.1:4000".into(), other: "http://127.0.0.1:4001".into() };
        let script = super::script(script);
        let core = match transport {
            Transport::SseLegacy => ServerCore::sse_legacy(script, Revision::V2024_11_05, 1, origins, None),
            _ => ServerCore::http(script, REVISION, 1, origins, None),
        };
        Self { bench: Bench::new(core, Revision::V2024_11_05), stream: 0, target: String::new() }
    }

    fn send(&mut self, method: &str, target: &str, body: Value) -> Vec<String> {
        self.bench.target = target.into();
        self.bench.exchange(method, &[], body)
    }

    /// Opens the stream; what was seen.
    fn open(&mut self, path: &str) -> Vec<String> {
        let seen = self.send("GET", path, Value::Null);
        self.stream = self.bench.exchanges;
        self.find();
        seen
    }

    /// Looks where to post.
    fn find(&mut self) {
        let endpoint = self.bench.effects.iter().rev().find_map(|e| match e {
            Effect::Observe(What::StreamEvent(event)) if event.event.as_deref() == Some("endpoint") => {
                event.data.clone()
            }
            _ => None,
        });
        self.target = endpoint.unwrap_or_default();
    }

    fn post(&mut self, message: Value) -> Vec<String> {
        let target = self.target.clone();
        self.send("POST", &target, message)
    }

    fn initialize(&mut self) {
        let params = initialize_params(Revision::V2024_11_05);
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let accepted = format!("#{} 202", self.bench.exchanges + 1);
        assert_eq!(self.post(request), [accepted, format!("#{} 0 ok", self.stream)]);
        self.post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }
}

#[test]
fn the_old_transport_answers_on_its_stream() {
    let mut old = Old::new(json!({"tools": ["echo"]}), Transport::SseLegacy);
    let seen = old.open("/sse");
    assert_eq!(seen, ["#1 200 stream", &format!("#1 {}", old.target)]);
    assert!(old.target.starts_with("/messages?session="));
    old.initialize();
    assert_eq!(old.post(call(1, "a")), ["#4 202", "#1 1 a"]);
    // Only what belongs there is taken.
    assert_eq!(old.send("POST", "/messages?session=x", call(2, "a")), ["#5 404 error -32600"]);
    assert_eq!(old.send("POST", "/messages", call(2, "a")), ["#6 404 error -32600"]);
    assert_eq!(old.send("POST", "/sse", call(2, "a")), ["#7 405"]);
    assert_eq!(old.send("POST", "/mcp", call(2, "a")), ["#8 404"]);
    assert_eq!(old.post(json!([call(2, "a")])), ["#9 400 error -32600"]);
    assert_eq!(old.post(json!({"jsonrpc": "2.0", "id": {}, "method": "ping"})), ["#10 400 error -32600"]);
    // The session ends with its stream.
    assert_eq!(old.bench.input(Input::Gone { exchange: 1 }), ["#1 ended by Client"]);
    assert_eq!(old.post(call(3, "a")), ["#11 404 error -32600"]);
    assert!(old.bench.core.http.is_idle());
}

#[test]
fn the_endpoint_event_is_what_answers_the_stream() {
    let mut old = Old::new(example("legacy-sse"), Transport::SseLegacy);
    assert_eq!(
        old.send("POST", "/mcp", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize"})),
        ["#1 404 nothing here"]
    );
    assert_eq!(old.open("/mcp"), ["#2 200 stream", "#2 raw \": welcome\\n\\n\""]);
    assert_eq!(old.bench.wait().len(), 1);
    old.find();
    let (reference, session) = (old.target.clone(), old.target.split(['=', '&']).nth(1).unwrap().to_owned());
    assert_eq!(reference, format!("messages?session={session}&note=a%2Fb"));
    old.target = format!("/{reference}");
    old.post(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize_params(Revision::V2024_11_05)}));
    assert_eq!(old.post(call(1, "a")), ["#4 200 Accepted", "#2 1 a"]);
    assert_eq!(old.post(call(2, "a")), ["#5 500"]);
    assert_eq!(old.post(call(3, "a")), ["#2 3 a", "#6 202"]);
    assert_eq!(old.post(call(4, "a")), ["#7 200 Accepted", "#2 ended by Server"]);
    assert_eq!(old.post(call(5, "a")), ["#8 404 error -32600"], "the session went with it");
    assert_eq!(old.open("/mcp").iter().filter(|l| l.contains("messages?")).count(), 2);
    assert!(
        old.bench.observed(|w| matches!(w, What::StreamEvent(e) if e.scripted_fault)) == 1,
        "the second one"
    );
    assert_eq!(old.open("/mcp"), ["#10 200 stream"]);
    assert_eq!(old.open("/mcp"), ["#11 200 stream", "#11 http://127.0.0.1:4001/messages!"]);
}

#[test]
fn endpoints_of_all_forms_lead_to_the_session() {
    for (endpoint, target) in [
        ("/msg?s={{session}}", "/msg?s=$"),
        ("msg?s={{session}}", "/a/b/msg?s=$"),
        ("?s={{session}}", "/a/b/sse?s=$"),
        ("{{origin}}/msg/{{session}}", "/msg/$"),
        ("/m sg/é?s={{session}}", "/m%20sg/%C3%A9?s=$"),
        ("/messages", "/messages"),
    ] {
        let script =
            json!({"tools": ["echo"], "http": {"legacy_sse": {"path": "/a/b/sse", "endpoint": endpoint}}});
        let mut old = Old::new(script, Transport::SseLegacy);
        old.open("/a/b/sse");
        let session = old.bench.core.http.first_session();
        assert_eq!(
            old.target,
            endpoint.replace("{{session}}", &session).replace("{{origin}}", "http://127.0.0.1:4000")
        );
        old.target = target.replace('$', &session);
        old.initialize();
        assert_eq!(old.post(call(1, "a")), ["#4 202", "#1 1 a"], "{endpoint}");
    }
    // Another origin is marked, and so is what a session id of odd characters becomes.
    let mut old = Old::new(
        json!({"http": {"legacy_sse": {"endpoint": "{{other}}/x?{{session}}"}}}),
        Transport::SseLegacy,
    );
    assert!(old.open("/sse")[1].ends_with('!'));
    let script = json!({"tools": ["echo"], "http": {"session_ids": ["a/b c&d"], "legacy_sse": {}}});
    let mut old = Old::new(script, Transport::SseLegacy);
    old.open("/sse");
    assert_eq!(old.target, "/messages?session=a%2Fb+c%26d");
    old.initialize();
}

#[test]
fn both_transports_are_served_side_by_side() {
    for path in ["/sse", "/mcp"] {
        let script = json!({"tools": ["echo"], "http": {"sessions": true, "get_stream": true, "legacy_sse": {"path": path}}});
        let mut old = Old::new(script, Transport::Http);
        old.open(path);
        old.initialize();
        assert_eq!(old.post(call(1, "a")), ["#4 202", "#1 1 a"]);
        // Streamable HTTP beside it.
        let params = initialize_params(REVISION);
        let seen = old.send(
            "POST",
            "/mcp",
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
        );
        assert_eq!(seen, ["#5 200 0 ok"]);
        let session = old.bench.effects.iter().find_map(|e| match e {
            Effect::Respond { exchange: 5, headers, .. } => Some(headers.last().unwrap().1.clone()),
            _ => None,
        });
        old.bench.session = session;
        assert_eq!(old.send("POST", "/mcp", call(1, "b")), ["#6 200 1 b"]);
        assert_eq!(old.send("GET", "/mcp", Value::Null), ["#7 200 stream"]);
    }
}
