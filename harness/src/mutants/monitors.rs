//! Faults that no scenario is about: what the monitors watch for in every case.

use super::decorate::{
    Fate, Handling, Memo, Passing, answers, failure, gives, impatient, incoming, keeps_to_itself, messages,
    outgoing, params, processes, requests, without_header,
};
use super::stdio::graces;
use super::{Fault, Mutant, REFERENCE};
use crate::adapter_main::leave_process_behind;
use crate::drivers::ClientSetup;
use crate::platform::{self, Force};
use async_trait::async_trait;
use serde_json::{Value, json};
use sparring_client::http::Purpose;
use sparring_client::stdio::{Exit, Signal};
use sparring_client::{Entropy, ServerProcess};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A mutant, with the scenarios that bring its fault to light.
const fn mutant(
    name: &'static str,
    about: &'static str,
    scenarios: &'static [&'static str],
    fault: fn(&mut ClientSetup),
) -> Mutant {
    Mutant { name, about, scenarios, profile: REFERENCE, fault: Fault::Client(fault) }
}

/// A mutant that is a process of its own.
const fn process(name: &'static str, about: &'static str, fault: fn(&mut ClientSetup)) -> Mutant {
    Mutant { name, about, scenarios: PLAIN, profile: REFERENCE, fault: Fault::Process(fault) }
}

/// A conversation in which nothing unusual happens.
const PLAIN: &[&str] = &["lifecycle.plain"];
/// The client has to answer.
const PINGED: &[&str] = &["ping.during-call"];
/// The client has to refuse.
const ASKED_TOO_MUCH: &[&str] = &["messages.undeclared-requests"];
/// The answer to `initialize` comes only after an answer of the client's.
const SLOW_START: &[&str] = &["ping.during-initialize"];

pub(super) const MUTANTS: &[Mutant] = &[
    // ---- framing ----
    mutant("content-length-framing", "Puts a Content-Length header before each message.", PLAIN, |s| {
        bytes(s, |line| {
            [format!("Content-Length: {}\r\n\r\n", line.len()).as_bytes(), line.as_slice()].concat()
        });
    }),
    mutant("omits-newline", "Ends no line.", PLAIN, |s| {
        impatient(s);
        bytes(s, |line| line.strip_suffix(b"\n").unwrap_or(&line).to_vec());
    }),
    mutant("pretty-prints-messages", "Sends JSON with line breaks and indentation.", PLAIN, |s| {
        impatient(s);
        bytes(s, |line| {
            let message: Value = serde_json::from_slice(&line).unwrap_or_default();
            format!("{message:#}\n").into_bytes()
        });
    }),
    mutant("logs-to-server-stdin", "Writes its log where the server reads.", PLAIN, |s| {
        bytes(s, |line| [b"INFO sending a message\n".as_slice(), &line].concat());
    }),
    mutant("sends-latin-1", "Sends text in Latin-1.", PLAIN, |s| {
        s.client(|settings| settings.name = "Klient für alles".to_owned());
        impatient(s);
        bytes(s, |line| {
            String::from_utf8_lossy(&line)
                .chars()
                .map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?'))
                .collect()
        });
    }),
    // ---- the envelope ----
    mutant("omits-jsonrpc-version", "Leaves `jsonrpc` out.", PLAIN, |s| {
        texts(s, |message| remove(message, "jsonrpc"));
    }),
    mutant("fractional-ids", "Uses ids like 1.5.", PLAIN, |s| {
        texts(s, |message| {
            if let Some(id) = message["id"].as_f64().filter(|_| is_request(message)) {
                message["id"] = json!(id + 0.5);
            }
        });
    }),
    mutant("null-ids", "Gives requests the id null.", PLAIN, |s| {
        texts(s, |message| {
            if is_request(message) {
                message["id"] = Value::Null;
            }
        });
    }),
    mutant("positional-params", "Sends params as a list.", PLAIN, |s| {
        texts(s, |message| {
            if let Some(params) = message.get_mut("params").filter(|params| params.is_object()) {
                *params = values(params);
            }
        });
    }),
    mutant("numbers-notifications", "Gives notifications an id.", PLAIN, |s| {
        texts(s, |message| {
            if message["method"].as_str().is_some_and(|m| m.starts_with("notifications/")) {
                message["id"] = json!(1000);
            }
        });
    }),
    mutant("answers-with-result-and-error", "Answers with a result and an error at once.", PINGED, |s| {
        own_answers(s, |answer| answer["error"] = json!({"code": 0, "message": "no error"}));
    }),
    mutant("answers-with-null", "Answers with the result null.", PINGED, |s| {
        own_answers(s, |answer| answer["result"] = Value::Null);
    }),
    mutant("errors-without-message", "Leaves the message out of errors.", ASKED_TOO_MUCH, |s| {
        own_answers(s, |answer| remove(&mut answer["error"], "message"));
    }),
    mutant("errors-with-string-code", "Writes error codes as text.", ASKED_TOO_MUCH, |s| {
        own_answers(s, |answer| answer["error"]["code"] = json!("METHOD_NOT_FOUND"));
    }),
    // ---- ids ----
    mutant("reuses-request-ids", "Gives each request the id 1.", PLAIN, |s| {
        messages(
            s,
            |p| {
                if p.is_request() {
                    p.traffic.memory = Some(p.message["id"].take());
                    p.message["id"] = json!(1);
                }
                Fate::Pass
            },
            |p| {
                if let Some(meant) = p.traffic.memory.clone().filter(|_| p.message["id"] == 1) {
                    p.message["id"] = meant;
                }
                Fate::Pass
            },
        );
    }),
    mutant("answers-with-own-id", "Answers with an id of its own.", PINGED, |s| {
        own_answers(s, |answer| answer["id"] = json!("client-1"));
    }),
    mutant("answers-twice", "Answers each request twice.", PINGED, |s| {
        outgoing(s, |p| {
            if p.is_answer() { Fate::Instead(vec![p.message.clone(), p.message.clone()]) } else { Fate::Pass }
        });
    }),
    mutant(
        "answers-notifications",
        "Answers notifications, with the id null.",
        &["messages.unknown-notification"],
        |s| {
            messages(
                s,
                |p| match p.traffic.memory.take() {
                    Some(answer) => Fate::Instead(vec![answer, p.message.clone()]),
                    None => Fate::Pass,
                },
                |p| {
                    if p.is_notification() {
                        p.traffic.memory = Some(json!({"jsonrpc": "2.0", "id": null, "result": {}}));
                    }
                    Fate::Pass
                },
            );
        },
    ),
    // ---- the handshake ----
    mutant("skips-initialize", "Begins with tools/list.", PLAIN, |s| {
        texts(s, |message| {
            if message["method"] == "initialize" {
                message["method"] = json!("tools/list");
                message["params"] = json!({});
            }
        });
    }),
    mutant("initializes-twice", "Shakes hands once more before each call.", PLAIN, |s| {
        outgoing(s, |p| {
            if !p.is("tools/call") || !p.traffic.ready {
                return Fate::Pass;
            }
            let again = json!({"jsonrpc": "2.0", "id": "again", "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
            Fate::Instead(vec![again, p.message.clone()])
        });
    }),
    mutant("anonymous-client", "Sends clientInfo without a version.", PLAIN, |s| {
        params(s, "initialize", |params| remove(&mut params["clientInfo"], "version"));
    }),
    mutant("offers-what-is-no-revision", "Offers protocol version 1.0.", PLAIN, |s| {
        params(s, "initialize", |params| params["protocolVersion"] = json!("1.0"));
    }),
    mutant("boolean-capabilities", "Declares capabilities as true.", PLAIN, |s| {
        params(s, "initialize", |params| params["capabilities"]["roots"] = json!(true));
    }),
    mutant(
        "hurries-initialized",
        "Sends notifications/initialized together with initialize.",
        SLOW_START,
        |s| {
            outgoing(s, |p| match p.message["method"].as_str() {
                Some("initialize") => p.and_then(json!({"method": "notifications/initialized"})),
                Some("notifications/initialized") => Fate::Drop,
                _ => Fate::Pass,
            });
        },
    ),
    mutant("hurries-requests", "Asks for the tools while initialize is not answered.", SLOW_START, |s| {
        outgoing(s, |p| {
            if p.is("initialize") {
                p.and_then(json!({"id": "early", "method": "tools/list"}))
            } else {
                Fate::Pass
            }
        });
    }),
    mutant("pings-with-params", "Sends ping with params.", PLAIN, |s| {
        before_calls(s, json!({"id": "p", "method": "ping", "params": {"sent": "just now"}}));
    }),
    mutant("batches-everything", "Sends each message as a batch.", PLAIN, |s| {
        impatient(s);
        texts(s, |message| *message = json!([message.take()]));
    }),
    // ---- capabilities and answers ----
    mutant(
        "announces-undeclared-roots",
        "Announces changed roots without having declared any.",
        PLAIN,
        |s| before_calls(s, json!({"method": "notifications/roots/list_changed"})),
    ),
    mutant(
        "uses-undeclared-features",
        "Asks for whatever there is, whether the server has declared it or not.",
        &["lifecycle.unknown-capabilities"],
        |s| {
            outgoing(s, |p| {
                if !p.is("tools/call") {
                    return Fate::Pass;
                }
                let ask = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
                Fate::Instead(vec![
                    ask("resources/list", json!({})),
                    ask("resources/subscribe", json!({"uri": "file:///x"})),
                    ask("prompts/list", json!({})),
                    ask("logging/setLevel", json!({"level": "info"})),
                    ask(
                        "completion/complete",
                        json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": ""}}),
                    ),
                    p.message.clone(),
                ])
            });
        },
    ),
    mutant("accepts-unknown-methods", "Answers what it does not know with `{}`.", ASKED_TOO_MUCH, |s| {
        own_answers(s, |answer| {
            if answer["error"]["code"] == -32601 {
                remove(answer, "error");
                answer["result"] = json!({});
            }
        });
    }),
    mutant("roots-as-paths", "Gives roots as paths instead of URIs.", &["roots.listed"], |s| {
        gives(s, "roots/list", |result| {
            for root in result["roots"].as_array_mut().into_iter().flatten() {
                let path = root["uri"].as_str().unwrap_or_default().trim_start_matches("file://").to_owned();
                root["uri"] = json!(path);
            }
        });
    }),
    // ---- params ----
    mutant("calls-with-array-arguments", "Sends the arguments of calls as a list.", PLAIN, |s| {
        params(s, "tools/call", |params| params["arguments"] = values(&params["arguments"]));
    }),
    mutant("reads-without-uri", "Reads a resource without its URI.", &["resources.listed-and-read"], |s| {
        params(s, "resources/read", |params| remove(params, "uri"));
    }),
    mutant("prompts-with-numbers", "Sends the arguments of prompts as numbers.", &["prompts.get"], |s| {
        params(s, "prompts/get", |params| params["arguments"] = json!({"number": 1}));
    }),
    mutant("logs-verbosely", "Asks for the log level `verbose`.", PLAIN, |s| {
        before_calls(s, json!({"id": "l", "method": "logging/setLevel", "params": {"level": "verbose"}}));
    }),
    // ---- progress, cancellation, pagination ----
    mutant("objects-as-progress-tokens", "Uses objects as progress tokens.", &["progress.reported"], |s| {
        params(s, "tools/call", |params| params["_meta"]["progressToken"] = json!({"call": 1}));
    }),
    mutant(
        "reuses-progress-tokens",
        "Gives all calls the same progress token.",
        &["messages.out-of-order"],
        |s| params(s, "tools/call", |params| params["_meta"]["progressToken"] = json!("progress")),
    ),
    mutant("cancels-without-id", "Does not say what it cancels.", &["cancellation.late-answer"], |s| {
        params(s, "notifications/cancelled", |params| remove(params, "requestId"));
    }),
    mutant(
        "keeps-cursors",
        "Goes on in a new session with the cursor of the former one.",
        &["tools.pagination-new-session"],
        |s| {
            // It outlives the connection, of which a host makes a new one for each session.
            let last = Memo::<Option<Value>>::default();
            let learned = last.clone();
            messages(
                s,
                move |p| {
                    let first = p.message["params"].get("cursor").is_none();
                    if let Some(cursor) = last.get().filter(|_| first && p.is("tools/list")) {
                        p.message["params"]["cursor"] = cursor;
                    }
                    Fate::Pass
                },
                move |p| {
                    if let Some(cursor) = p.message["result"].get("nextCursor") {
                        learned.set(Some(cursor.clone()));
                    }
                    Fate::Pass
                },
            );
        },
    ),
    // ---- HTTP ----
    mutant("puts-messages", "Sends messages by PUT.", PLAIN, |s| {
        requests(s, |request| {
            if request.purpose == Purpose::McpPost {
                "PUT".clone_into(&mut request.method);
            }
        });
    }),
    mutant("sends-no-accept-header", "Sends no Accept of its own.", &["ping.on-get-stream"], |s| {
        // What HTTP libraries then send, and servers take.
        header(s, "Accept", |_| "*/*".to_owned());
    }),
    mutant("changes-session-id", "Changes the case of the session id.", &["http.session.kept"], |s| {
        header(s, "Mcp-Session-Id", |id| {
            id.chars()
                .map(|c| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
                .collect()
        });
    }),
    mutant("omits-version-header", "Sends no MCP-Protocol-Version.", PLAIN, |s| {
        without_header(s, "mcp-protocol-version");
    }),
    mutant("sends-other-version-header", "Names an older version than was agreed on.", PLAIN, |s| {
        header(s, "MCP-Protocol-Version", |_| "2024-11-05".to_owned());
    }),
    // ---- authorization ----
    mutant(
        "reuses-verifier",
        "Uses one PKCE verifier for all authorizations.",
        &["auth.scope.step-up"],
        |s| s.entropy = Arc::new(Loaded),
    ),
    // ---- the case as a whole ----
    mutant("fails-every-call", "Fails all calls.", PLAIN, |s| {
        answers(s, "tools/call", |_, answer| *answer = failure(answer, "no"));
    }),
    mutant("hangs-on-call", "Never comes back from a call.", PLAIN, |s| {
        keeps_to_itself(s, "tools/call");
    }),
    mutant("leaves-server-running", "Neither closes the server's stdin nor signals it.", PLAIN, |s| {
        graces(s, Duration::from_millis(50), Duration::from_millis(50));
        processes(s, || Forgotten);
    }),
    process("exits-on-call", "Exits when a call is answered.", |s| {
        on_answered_call(s, || std::process::exit(3));
    }),
    process("aborts-on-call", "Aborts when a call is answered.", |s| {
        on_answered_call(s, || std::process::abort());
    }),
    process("is-killed-on-call", "Is ended by SIGKILL when a call is answered.", |s| {
        on_answered_call(s, || platform::end(std::process::id(), Force::Kill));
    }),
    process("hangs-on-close", "Never comes back from close.", |s| processes(s, || Unending)),
    process("leaves-daemon-behind", "Leaves a process behind that belongs to nobody.", |s| {
        processes(s, || Daemonic);
    }),
];

// ---- what they are made of ----

fn remove(object: &mut Value, member: &str) {
    if let Some(object) = object.as_object_mut() {
        object.remove(member);
    }
}

/// The values of an object, as a list.
fn values(object: &Value) -> Value {
    object.as_object().into_iter().flat_map(|object| object.values().cloned()).collect()
}

fn is_request(message: &Value) -> bool {
    message["method"].is_string() && message.get("id").is_some()
}

impl Passing<'_> {
    /// Sends another message right after this one.
    fn and_then(&self, mut next: Value) -> Fate {
        next["jsonrpc"] = json!("2.0");
        Fate::Instead(vec![self.message.clone(), next])
    }
}

/// Sends another message right before each call.
fn before_calls(setup: &mut ClientSetup, mut first: Value) {
    first["jsonrpc"] = json!("2.0");
    outgoing(setup, move |p| {
        if p.is("tools/call") { Fate::Instead(vec![first.clone(), p.message.clone()]) } else { Fate::Pass }
    });
}

/// Changes the client's own answers.
fn own_answers(setup: &mut ClientSetup, change: impl Fn(&mut Value) + Send + Sync + 'static) {
    outgoing(setup, move |p| {
        if p.is_answer() {
            change(p.message);
        }
        Fate::Pass
    });
}

/// Changes a header field of requests to the MCP endpoint, where there is one.
fn header(setup: &mut ClientSetup, name: &'static str, change: fn(&str) -> String) {
    requests(setup, move |request| {
        for (_, value) in request.headers.iter_mut().filter(|(n, _)| n.eq_ignore_ascii_case(name)) {
            *value = change(value);
        }
    });
}

/// Changes the bytes of each message, behind all that the client knows of them. Over HTTP they come without a newline.
fn bytes(setup: &mut ClientSetup, change: impl Fn(Vec<u8>) -> Vec<u8> + Clone + Send + Sync + 'static) {
    let written = change.clone();
    processes(setup, move || Written(written.clone()));
    requests(setup, move |request| {
        if request.purpose == Purpose::McpPost {
            request.body = request.body.take().map(|body| change(body.into()).into());
        }
    });
}

/// Changes the messages in their bytes: the client takes them for what they were.
fn texts(setup: &mut ClientSetup, change: fn(&mut Value)) {
    impatient(setup);
    bytes(setup, move |bytes| {
        let mut message = serde_json::from_slice(&bytes).unwrap_or_default();
        change(&mut message);
        let end: &[u8] = if bytes.ends_with(b"\n") { b"\n" } else { b"" };
        [message.to_string().as_bytes(), end].concat()
    });
}

struct Written<F>(F);

#[async_trait]
impl<F: Fn(Vec<u8>) -> Vec<u8> + Send + Sync> Handling for Written<F> {
    async fn write(&self, process: &dyn ServerProcess, bytes: &[u8]) -> io::Result<()> {
        process.write(&(self.0)(bytes.to_vec())).await
    }
}

/// Leaves the server alone, alive.
struct Forgotten;

#[async_trait]
impl Handling for Forgotten {
    async fn close_stdin(&self, process: &Arc<dyn ServerProcess>) {
        // Whoever drops the process ends it.
        let process = Arc::clone(process);
        tokio::spawn(async move { process.wait().await });
    }

    fn signal(&self, _: &Arc<dyn ServerProcess>, _: Signal) -> io::Result<()> {
        Ok(())
    }

    fn group_alive(&self, _: &dyn ServerProcess) -> bool {
        false
    }

    async fn wait(&self, process: &dyn ServerProcess) -> io::Result<Exit> {
        process.wait().await
    }
}

/// Does something when a call is answered: while it is under way for the caller.
fn on_answered_call(setup: &mut ClientSetup, fault: fn()) {
    incoming(setup, move |p| {
        if p.answers("tools/call") {
            fault();
        }
        Fate::Pass
    });
}

/// Never gets stdin closed.
struct Unending;

#[async_trait]
impl Handling for Unending {
    async fn close_stdin(&self, _: &Arc<dyn ServerProcess>) {
        std::future::pending::<()>().await;
    }
}

/// Has started a daemon by the time the server is to end.
struct Daemonic;

#[async_trait]
impl Handling for Daemonic {
    async fn close_stdin(&self, process: &Arc<dyn ServerProcess>) {
        // Without a daemon the judge passes, and that shows.
        let _ = leave_process_behind();
        process.close_stdin().await;
    }
}

/// A die that always falls the same way.
struct Loaded;

impl Entropy for Loaded {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(4);
    }
}
