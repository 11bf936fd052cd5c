//! The examples about stdio do what they say.

use serde_json::{Value, json};
use sparring_mock_servers::core::{Effect, Input, ServerCore};
use sparring_wire::Revision;
use sparring_wire::framing::Line;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

struct Server {
    core: ServerCore,
    now: Duration,
    timers: Vec<(Duration, u64)>,
    effects: Vec<Effect>,
}

impl Server {
    fn start(example: &str, incarnation: u32) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/examples").join(example);
        let script =
            sparring_scenarios::load::script(&path).unwrap_or_else(|e| unreachable!("{}", e.render(false)));
        let core = ServerCore::stdio(Arc::new(script), Revision::V2025_11_25, incarnation, 1);
        let mut server = Self { core, now: Duration::ZERO, timers: Vec::new(), effects: Vec::new() };
        server.input(Input::Start);
        server
    }

    fn input(&mut self, input: Input) {
        let effects = self.core.handle(self.now, input);
        for effect in &effects {
            if let Effect::Timer { id, after } = effect {
                self.timers.push((self.now + *after, *id));
            }
        }
        self.effects.extend(effects);
    }

    fn send(&mut self, message: &Value) {
        self.input(Input::Line(Line {
            bytes: message.to_string().into_bytes(),
            carriage_return: false,
            terminated: true,
        }));
    }

    fn initialize(&mut self) {
        self.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
        }}));
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// The effects of a call and of what follows it.
    fn call(&mut self, text: &str) -> Vec<Effect> {
        let before = self.effects.len();
        let params = json!({"name": "echo", "arguments": {"text": text}, "_meta": {"progressToken": 1}});
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        while self.wait() {}
        self.effects.get(before..).unwrap_or_default().to_vec()
    }

    /// Lets time pass until the next timer.
    fn wait(&mut self) -> bool {
        self.timers.sort_unstable();
        if self.timers.is_empty() {
            return false;
        }
        let (due, id) = self.timers.remove(0);
        self.now = due;
        self.input(Input::Timer(id));
        true
    }
}

fn writes(effects: &[Effect]) -> Vec<&[u8]> {
    let bytes = effects.iter().filter_map(|effect| match effect {
        Effect::Write(bytes) => Some(bytes.as_slice()),
        _ => None,
    });
    bytes.collect()
}

/// What a call writes, in single writes.
fn written(text: &str) -> Vec<Vec<u8>> {
    let mut server = Server::start("stdio-output.yaml", 1);
    server.initialize();
    writes(&server.call(text)).into_iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn output() {
    let server = Server::start("stdio-output.yaml", 1);
    assert_eq!(writes(&server.effects), [b"Ready on stdio\n"]);
    let plain = written("nothing special").concat();
    let answer =
        |text: &str| String::from_utf8(plain.clone()).unwrap().replace("nothing special", text).into_bytes();
    let starts = |text: &str, with: &[u8]| assert!(written(text).concat().starts_with(with), "{text}");
    let ends = |text: &str, with: &[u8]| assert!(written(text).concat().ends_with(with), "{text}");
    let lines = |text: &str| written(text).concat().iter().filter(|b| **b == b'\n').count();
    starts("bytes", b"\0\xc3\x28\nno newline{");
    assert_eq!(lines("flood"), 201);
    assert_eq!(written("pieces").len(), answer("pieces").len().div_ceil(16));
    assert_eq!(written("places").iter().map(Vec::len).take(3).collect::<Vec<_>>(), [1, 19, 1]);
    assert_eq!(written("é—漢🎉").len(), 5);
    for same in ["pieces", "places", "é—漢🎉", "half", "stderr"] {
        assert_eq!(written(same).concat(), answer(same), "{same}");
    }
    assert_eq!(written("half").iter().map(Vec::len).next(), Some(30));
    assert_eq!((written("merged").len(), lines("merged")), (1, 3));
    ends("crlf", b"}\r\n");
    ends("cr", b"}\r\n");
    assert_eq!(written("cr").len(), 2);
    ends("unterminated", b"}");
    starts("blank", b"\n\n{");
    assert!(lines("pretty") > 3);
    ends(
        "grüße",
        br#""gr\u00fc\u00dfe"}]}}
"#,
    );
    assert_eq!(written("long").concat().len(), 1 << 20);
    assert!(String::from_utf8(written("separators").concat()).unwrap().contains("one\u{2028}two\u{85}three"));
    starts("mark", b"\xef\xbb\xbf{");
    assert!(std::str::from_utf8(&written("invalid").concat()).is_err());
    let mut server = Server::start("stdio-output.yaml", 1);
    server.initialize();
    let effects = server.call("stderr");
    let stderr: Vec<&Effect> =
        effects.iter().filter(|e| matches!(e, Effect::Stderr(_) | Effect::StderrText(_))).collect();
    assert_eq!(
        stderr,
        [
            &Effect::StderrText("\u{1b}[31mred\u{1b}[0m\n".into()),
            &Effect::Stderr(4096),
            &Effect::StderrText("no newline".into())
        ]
    );
}

#[test]
fn process() {
    let last = |server: &Server| server.effects.last().cloned();
    let mut first = Server::start("stdio-process.yaml", 1);
    assert_eq!(first.effects[..5], [0, 1, 2, 3, 4].map(Effect::StartDescendant));
    assert!(first.wait(), "the start");
    first.initialize();
    first.input(Input::Eof);
    assert!(first.wait());
    assert_eq!((first.now, last(&first)), (Duration::from_millis(350), Some(Effect::Exit(0))));
    let endings = ["SIGTERM", "SIGINT", "SIGHUP"].map(|name| first.core.unscripted_ending(name).unwrap());
    assert_eq!(endings.map(|(code, after)| (code, after.as_millis())), [(15, 0), (130, 20), (1, 0)]);
    for (incarnation, end) in [(2, Effect::Exit(2)), (3, Effect::Die("SIGSEGV".into())), (4, Effect::Exit(1))]
    {
        let mut server = Server::start("stdio-process.yaml", incarnation);
        server.wait();
        server.initialize();
        for _ in 0..3 {
            server.call("x");
        }
        assert_eq!(last(&server), Some(end));
    }
}

#[test]
fn deaf() {
    for (text, effects) in [
        ("sleep", vec![Effect::StopReading { after: 0 }, Effect::StartReading]),
        ("stuck", vec![Effect::StopReading { after: 10 }]),
        ("close stdin", vec![Effect::CloseStdin]),
        ("close stdout", vec![Effect::CloseStdout]),
        ("close stderr", vec![Effect::CloseStderr]),
        ("exit", vec![Effect::Exit(3)]),
        ("die", vec![Effect::Die("SIGBUS".into())]),
    ] {
        let mut server = Server::start("stdio-deaf.yaml", 1);
        server.initialize();
        for name in ["SIGTERM", "SIGINT", "SIGHUP"] {
            server.input(Input::Signal(name));
        }
        let mut seen = server.call(text);
        seen.retain(|e| !matches!(e, Effect::Observe(_) | Effect::Write(_) | Effect::Timer { .. }));
        assert_eq!(seen, effects, "{text}");
    }
}
