//! Faults that only show without a handshake: in what each request carries, and in rounds of input.

use super::decorate::{
    Fate, Memo, Passing, exchanges, impatient, messages, outgoing, requests, without_header,
};
use super::{Fault, Mutant};
use crate::drivers::ClientSetup;
use serde_json::{Map, Value, json};
use sparring_client::http::{HttpRequest, Purpose};
use sparring_wire::meta;

/// A mutant, with the scenarios that bring its fault to light.
const fn mutant(
    name: &'static str,
    about: &'static str,
    scenarios: &'static [&'static str],
    fault: fn(&mut ClientSetup),
) -> Mutant {
    Mutant { name, about, scenarios, profile: super::REFERENCE, fault: Fault::Client(fault) }
}

/// A conversation in which nothing unusual happens.
const PLAIN: &[&str] = &["lifecycle.plain"];
/// A call for which the server wants input, with a state.
const ASKED: &[&str] = &["rounds.several-inputs"];
/// Calls of which several are under way at a time.
const AT_ONCE: &[&str] = &["messages.out-of-order"];
/// A call that becomes a task.
const TASK: &[&str] = &["tasks.completes"];

pub(super) const MUTANTS: &[Mutant] = &[
    // ---- what each request carries ----
    mutant("requests-without-params", "Asks for lists without params.", PLAIN, |s| {
        impatient(s);
        stateless(s, |message| {
            if message["method"].as_str().is_some_and(|method| method.ends_with("/list")) {
                remove(message, "params");
            }
        });
    }),
    mutant("omits-meta-version", "Does not say in a request which revision it is in.", PLAIN, |s| {
        meta(s, |meta| remove(meta, meta::PROTOCOL_VERSION));
    }),
    mutant("omits-meta-capabilities", "Does not say in a request what it can do.", PLAIN, |s| {
        meta(s, |meta| remove(meta, meta::CLIENT_CAPABILITIES));
    }),
    mutant("omits-meta-client-info", "Does not say in a request who it is.", PLAIN, |s| {
        meta(s, |meta| remove(meta, meta::CLIENT_INFO));
    }),
    mutant("meta-client-info-without-version", "Says in requests who it is, but no version.", PLAIN, |s| {
        meta(s, |meta| remove(&mut meta[meta::CLIENT_INFO], "version"));
    }),
    mutant(
        "declares-extension-without-prefix",
        "Declares an extension by a name of its own, without a prefix.",
        PLAIN,
        |s| meta(s, |meta| meta[meta::CLIENT_CAPABILITIES]["extensions"] = json!({"greetings": {}})),
    ),
    mutant("asks-for-odd-log-level", "Asks for log messages of the level `verbose`.", PLAIN, |s| {
        meta(s, |meta| meta[meta::LOG_LEVEL] = json!("verbose"));
    }),
    mutant("reuses-ids-in-flight", "Gives calls the id of one that still waits.", AT_ONCE, |s| {
        impatient(s);
        outgoing(s, |p| {
            let waiting = p.traffic.open.iter().find(|open| open["method"] == "tools/call");
            if let Some(id) = waiting.map(|open| open["id"].clone()).filter(|_| p.is("tools/call")) {
                p.message["id"] = id;
            }
            Fate::Pass
        });
    }),
    // ---- what is gone ----
    mutant(
        "initializes-all-the-same",
        "Shakes hands with a server that has already answered without.",
        PLAIN,
        |s| {
            before_calls(
                s,
                json!({"id": "i", "method": "initialize", "params": {"protocolVersion": "2025-11-25",
                    "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}),
            );
        },
    ),
    mutant("pings-without-handshake", "Sends ping where there is none any more.", PLAIN, |s| {
        before_calls(s, json!({"id": "p", "method": "ping", "params": {}}));
    }),
    mutant("answers-what-nobody-asked", "Answers a request that no server has sent.", PLAIN, |s| {
        before_calls(s, json!({"id": "s-1", "result": {}}));
    }),
    mutant("uses-undiscovered-features", "Asks for prompts of a server that has none.", PLAIN, |s| {
        before_calls(s, json!({"id": "u", "method": "prompts/list", "params": {}}));
    }),
    mutant(
        "listens-without-filter",
        "Does not say what it wants to be told of.",
        &["subscriptions.resource-updated"],
        |s| {
            impatient(s);
            stateless(s, |message| {
                if message["method"] == "subscriptions/listen" {
                    remove(&mut message["params"], "notifications");
                }
            });
        },
    ),
    mutant("polls-without-extension", "Asks after tasks without declaring the extension.", TASK, |s| {
        impatient(s);
        stateless(s, |message| {
            if message["method"].as_str().is_some_and(|method| method.starts_with("tasks/")) {
                remove(&mut message["params"]["_meta"][meta::CLIENT_CAPABILITIES], "extensions");
            }
        });
    }),
    mutant("asks-for-legacy-task", "Asks for tasks as 2025-11-25 has it.", PLAIN, |s| {
        stateless(s, |message| {
            if message["method"] == "tools/call" {
                message["params"]["task"] = json!({"ttl": 60_000});
            }
        });
    }),
    // ---- rounds ----
    mutant("answers-first-input-only", "Of several inputs, gives only the first.", ASKED, |s| {
        inputs(s, |inputs| {
            let others: Vec<String> = inputs.keys().skip(1).cloned().collect();
            for other in others {
                inputs.remove(&other);
            }
        });
    }),
    mutant(
        "repeats-old-inputs",
        "Gives what was asked for in an earlier round once more.",
        &["rounds.three"],
        |s| {
            let before = Memo::<Map<String, Value>>::default();
            inputs(s, move |inputs| {
                for (key, value) in before.get() {
                    inputs.entry(key).or_insert(value);
                }
                before.set(inputs.clone());
            });
        },
    ),
    mutant("wraps-inputs", "Puts JSON-RPC responses around inputs.", ASKED, |s| {
        inputs(s, |inputs| {
            for value in inputs.values_mut() {
                *value = json!({"jsonrpc": "2.0", "id": 1, "result": value});
            }
        });
    }),
    mutant("repeats-without-arguments", "Repeats calls without their arguments.", ASKED, |s| {
        again(s, |params| remove(params, "arguments"));
    }),
    mutant("trims-request-state", "Trims the state that it has to give back.", ASKED, |s| {
        again(s, |params| {
            if let Some(trimmed) = params["requestState"].as_str().map(|state| state.trim().to_owned()) {
                params["requestState"] = json!(trimmed);
            }
        });
    }),
    mutant(
        "parses-request-state",
        "Takes the state that it has to give back for JSON, and writes it anew.",
        ASKED,
        |s| {
            again(s, |params| {
                let state =
                    params["requestState"].as_str().and_then(|s| serde_json::from_str::<Value>(s).ok());
                if let Some(state) = state {
                    params["requestState"] = json!(state.to_string());
                }
            });
        },
    ),
    mutant(
        "invents-request-state",
        "Gives back a state though there was none.",
        &["rounds.without-state"],
        |s| {
            again(s, |params| {
                if params.get("requestState").is_none() {
                    params["requestState"] = json!("");
                }
            });
        },
    ),
    mutant("repeats-with-old-id", "Repeats requests with the id that they had.", ASKED, |s| {
        let first = Memo::<Option<Value>>::default();
        let meant = Memo::<Option<Value>>::default();
        let known = meant.clone();
        impatient(s);
        messages(
            s,
            move |p| {
                if is_again(p.message) {
                    if let Some(id) = first.get() {
                        known.set(Some(p.message["id"].clone()));
                        p.message["id"] = id;
                    }
                } else if p.is("tools/call") {
                    first.set(Some(p.message["id"].clone()));
                }
                Fate::Pass
            },
            move |p| {
                if p.is_answer()
                    && p.about.is_none()
                    && let Some(id) = meant.get()
                {
                    p.message["id"] = id;
                }
                Fate::Pass
            },
        );
    }),
    mutant(
        "spreads-request-state",
        "Gives the state of one request to all that follow.",
        &["rounds.state-stays-with-its-call"],
        |s| {
            messages(
                s,
                |p| {
                    if let Some(state) =
                        p.traffic.memory.clone().filter(|_| p.is("tools/call") && !is_again(p.message))
                    {
                        p.message["params"]["requestState"] = state;
                    }
                    Fate::Pass
                },
                |p| {
                    if let Some(state) = p.message["result"].get("requestState") {
                        p.traffic.memory = Some(state.clone());
                    }
                    Fate::Pass
                },
            );
        },
    ),
    mutant(
        "fulfils-undeclared-inputs",
        "Gives inputs of kinds that it has not declared.",
        &["rounds.undeclared-input"],
        |s| {
            // It can list roots, and keeps that from the server.
            s.client(|settings| {
                settings.declare.roots = Some(sparring_client::RootsCapability { list_changed: false });
            });
            meta(s, |meta| remove(&mut meta[meta::CLIENT_CAPABILITIES], "roots"));
        },
    ),
    // ---- HTTP ----
    mutant("omits-method-header", "Sends no Mcp-Method.", PLAIN, |s| {
        impatient(s);
        without_header(s, "mcp-method");
    }),
    mutant("omits-name-header", "Sends no Mcp-Name.", PLAIN, |s| {
        impatient(s);
        without_header(s, "mcp-name");
    }),
    mutant("omits-task-name-header", "Sends no Mcp-Name with requests about tasks.", TASK, |s| {
        impatient(s);
        requests(s, |request| {
            if is_about_task(request) {
                request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("mcp-name"));
            }
        });
    }),
    mutant(
        "writes-names-in-ascii",
        "Writes question marks in Mcp-Name for what is not ASCII, instead of Base64.",
        &["headers.encoded-names"],
        |s| {
            impatient(s);
            requests(s, |request| {
                for (_, value) in
                    request.headers.iter_mut().filter(|(n, _)| n.eq_ignore_ascii_case("mcp-name"))
                {
                    if value.starts_with("=?base64?") {
                        "???".clone_into(value);
                    }
                }
            });
        },
    ),
    mutant(
        "opens-stream-without-handshake",
        "Opens a stream by GET, though there is none without a handshake.",
        PLAIN,
        |s| {
            exchanges(s, |request, next| async move {
                let response = next.send(request.clone()).await?;
                if request.purpose == Purpose::McpPost && names_stateless(&request) {
                    let get = HttpRequest {
                        purpose: Purpose::McpGet,
                        method: "GET".to_owned(),
                        headers: vec![("accept".to_owned(), "text/event-stream".to_owned())],
                        body: None,
                        ..request
                    };
                    drop(next.send(get).await?);
                }
                Ok(response)
            });
        },
    ),
    mutant(
        "makes-up-session-without-handshake",
        "Sends a session id, though there are no sessions without a handshake.",
        PLAIN,
        |s| stateless_header(s, "Mcp-Session-Id", "one"),
    ),
    mutant(
        "sends-last-event-id-without-handshake",
        "Sends Last-Event-ID, though no stream can be resumed without a handshake.",
        PLAIN,
        |s| stateless_header(s, "Last-Event-ID", "1"),
    ),
    mutant(
        "cancels-by-message",
        "Cancels by a message over HTTP, beside the end of the stream.",
        PLAIN,
        |s| {
            before_calls(s, json!({"method": "notifications/cancelled", "params": {"requestId": "none"}}));
        },
    ),
];

// ---- what they are made of ----

pub(super) fn remove(object: &mut Value, member: &str) {
    if let Some(object) = object.as_object_mut() {
        object.remove(member);
    }
}

fn is_stateless(message: &Value) -> bool {
    message["params"]["_meta"].get(meta::PROTOCOL_VERSION).is_some()
}

/// Changes requests that stand for themselves.
pub(super) fn stateless(setup: &mut ClientSetup, change: impl Fn(&mut Value) + Send + Sync + 'static) {
    outgoing(setup, move |p| {
        if p.is_request() && is_stateless(p.message) {
            change(p.message);
        }
        Fate::Pass
    });
}

/// Changes the `_meta` of such requests.
fn meta(setup: &mut ClientSetup, change: impl Fn(&mut Value) + Send + Sync + 'static) {
    impatient(setup);
    stateless(setup, move |message| change(&mut message["params"]["_meta"]));
}

/// Whether a request brings what was asked for.
pub(super) fn is_again(message: &Value) -> bool {
    ["inputResponses", "requestState"].iter().any(|name| message["params"].get(name).is_some())
}

/// Changes the params of requests that bring what was asked for.
pub(super) fn again(setup: &mut ClientSetup, change: impl Fn(&mut Value) + Send + Sync + 'static) {
    impatient(setup);
    stateless(setup, move |message| {
        if is_again(message) {
            change(&mut message["params"]);
        }
    });
}

/// Changes what is brought.
fn inputs(setup: &mut ClientSetup, change: impl Fn(&mut Map<String, Value>) + Send + Sync + 'static) {
    again(setup, move |params| {
        if let Some(inputs) = params["inputResponses"].as_object_mut() {
            change(inputs);
        }
    });
}

/// Sends another message right before each call that stands for itself. Requests carry what the call carries.
pub(super) fn before_calls(setup: &mut ClientSetup, mut first: Value) {
    first["jsonrpc"] = json!("2.0");
    outgoing(setup, move |p: &mut Passing<'_>| {
        if !p.is("tools/call") || !is_stateless(p.message) {
            return Fate::Pass;
        }
        let mut first = first.clone();
        if first.get("id").is_some() && first["method"].is_string() && first["method"] != "initialize" {
            first["params"]["_meta"] = p.message["params"]["_meta"].clone();
        }
        Fate::Instead(vec![first, p.message.clone()])
    });
}

fn names_stateless(request: &HttpRequest) -> bool {
    request
        .headers
        .iter()
        .any(|(name, value)| name.eq_ignore_ascii_case("mcp-protocol-version") && value == "2026-07-28")
}

fn is_about_task(request: &HttpRequest) -> bool {
    let body = request.body.as_deref().unwrap_or_default();
    serde_json::from_slice::<Value>(body)
        .is_ok_and(|message| message["method"].as_str().is_some_and(|method| method.starts_with("tasks/")))
}

/// Adds a field to requests that stand for themselves.
fn stateless_header(setup: &mut ClientSetup, name: &'static str, value: &'static str) {
    requests(setup, move |request| {
        if names_stateless(request) {
            request.headers.push((name.to_owned(), value.to_owned()));
        }
    });
}
