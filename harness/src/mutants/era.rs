//! Faults in finding out what a server speaks, and in the header fields that go with that.

use super::decorate::{
    Fate, answers, carries, impatient, incoming, messages, outgoing, requests, responses, success,
};
use super::modern::{before_calls, remove, stateless};
use super::{Mutant, mutant};
use crate::drivers::ClientSetup;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use sparring_client::http::{HttpBody, HttpError, HttpRequest, HttpResponse, Purpose};
use sparring_wire::meta;

/// Bodies that are looked into are not longer.
const LIMIT: usize = 1 << 20;

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("probes-before-each-call", "Asks before each call what the server speaks.", |s| {
        before_calls(s, json!({"id": "d", "method": "server/discover", "params": {}}));
    }),
    mutant(
        "probes-without-version",
        "Asks what the server speaks, and does not say what it speaks itself.",
        |s| {
            impatient(s);
            stateless(s, |message| {
                if message["method"] == "server/discover" {
                    remove(&mut message["params"]["_meta"], meta::PROTOCOL_VERSION);
                }
            });
        },
    ),
    mutant(
        "falls-back-on-unknown-method-only",
        "Takes a server for an older one only if it does not know the method.",
        |s| {
            impatient(s);
            answers(s, "server/discover", |_, answer| {
                if answer["error"]["code"].as_i64().is_some_and(|code| code != -32601) {
                    answer["error"] =
                        json!({"code": -32022, "message": "no", "data": {"supported": [], "requested": ""}});
                }
            });
            refusals(s, |request, body| {
                if carries(request, "server/discover") && body.is_null() {
                    *body = json!({"jsonrpc": "2.0", "id": id_of(request), "error":
                        {"code": -32022, "message": "no", "data": {"supported": [], "requested": ""}}});
                }
            });
        },
    ),
    mutant("falls-back-on-any-error", "Takes a server for an older one whatever the error says.", |s| {
        impatient(s);
        incoming(s, |p| {
            if p.message["error"]["code"] == -32022 {
                p.message["error"] = json!({"code": -32601, "message": "Method not found"});
            }
            Fate::Pass
        });
        refusals(s, |_, body| *body = Value::Null);
    }),
    mutant("takes-refused-version-for-success", "Takes it for success that its version is refused.", |s| {
        impatient(s);
        accepts_refusals(s);
    }),
    mutant("repeats-refused-calls", "Repeats calls for which its version is refused.", |s| {
        impatient(s);
        accepts_refusals(s);
        let next = s.filter.take();
        outgoing(s, |p| {
            let message = p.message.clone();
            let copy = |id: &str| {
                let mut copy = message.clone();
                copy["id"] = json!(id);
                copy
            };
            if p.is("tools/call") {
                Fate::Instead(vec![message.clone(), copy("a"), copy("b"), copy("c")])
            } else {
                Fate::Pass
            }
        });
        if let (Some(first), Some(second)) = (next, s.filter.take()) {
            s.filter = Some(std::sync::Arc::new(Both(first, second)));
        }
    }),
    mutant("initializes-after-refusal", "Shakes hands with a server that wants another capability.", |s| {
        messages(
            s,
            |p| {
                // The host may say something else between its calls.
                if !p.is("tools/call") || p.traffic.memory.replace(json!("called")).is_none() {
                    return Fate::Pass;
                }
                let initialize = json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params":
                    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
                Fate::Instead(vec![initialize, p.message.clone()])
            },
            |_| Fate::Pass,
        );
    }),
    // ---- header fields ----
    mutant("omits-param-headers", "Repeats no arguments in header fields.", |s| {
        impatient(s);
        requests(s, |request| {
            request.headers.retain(|(name, _)| !is_param(name));
        });
    }),
    mutant("quotes-param-headers", "Writes arguments in header fields as JSON.", |s| {
        impatient(s);
        requests(s, |request| {
            for (_, value) in request.headers.iter_mut().filter(|(name, _)| is_param(name)) {
                *value = format!("\"{value}\"");
            }
        });
    }),
    mutant("writes-params-in-ascii", "Writes question marks for arguments that need Base64.", |s| {
        impatient(s);
        requests(s, |request| {
            for (_, value) in request.headers.iter_mut().filter(|(name, _)| is_param(name)) {
                if value.starts_with("=?base64?") {
                    "???".clone_into(value);
                }
            }
        });
    }),
    mutant(
        "sends-all-param-headers",
        "Sends header fields for arguments that are not there, or don't ask for it.",
        |s| {
            impatient(s);
            requests(s, |request| {
                if !carries(request, "tools/call") {
                    return;
                }
                for (name, value) in
                    [("Mcp-Param-Region", "null"), ("Mcp-Param-Zone", "z"), ("Mcp-Param-Text", "one")]
                {
                    if !request.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)) {
                        request.headers.push((name.to_owned(), value.to_owned()));
                    }
                }
            });
        },
    ),
    mutant("offers-every-tool", "Does not look at what tools want in header fields.", |s| {
        answers(s, "tools/list", |_, answer| unannotated(&mut answer["result"]["tools"]));
    }),
    mutant("drops-lists-with-wrong-annotations", "Takes no tool of a list in which one is wrong.", |s| {
        answers(s, "tools/list", |_, answer| {
            if answer["result"]["tools"].as_array().is_some_and(|tools| tools.len() > 3) {
                answer["result"]["tools"] = json!([]);
            }
        });
    }),
    mutant("gives-up-on-mismatch", "Does not look again at what a tool wants in header fields.", |s| {
        impatient(s);
        let change = |body: &mut Value| {
            if body["error"]["code"] == -32020 {
                body["error"]["code"] = json!(-32603);
            }
        };
        incoming(s, move |p| {
            change(p.message);
            Fate::Pass
        });
        refusals(s, move |_, body| change(body));
    }),
];

fn is_param(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("mcp-param-")
}

fn id_of(request: &HttpRequest) -> Value {
    let body = request.body.as_deref().unwrap_or_default();
    serde_json::from_slice::<Value>(body).map(|message| message["id"].clone()).unwrap_or_default()
}

/// Takes all wishes for header fields out of a value.
fn unannotated(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(unannotated),
        Value::Object(members) => {
            members.remove("x-mcp-header");
            members.values_mut().for_each(unannotated);
        }
        _ => {}
    }
}

fn once(body: Vec<u8>) -> HttpBody {
    futures_util::stream::once(async move { Ok::<_, HttpError>(body.into()) }).boxed()
}

/// Changes the bodies of answers 400 to messages; null stands for one that is no JSON.
fn refusals(
    setup: &mut ClientSetup,
    change: impl Fn(&HttpRequest, &mut Value) + Clone + Send + Sync + 'static,
) {
    responses(setup, move |request, response| {
        let change = change.clone();
        async move {
            if response.status != 400 || request.purpose != Purpose::McpPost {
                return Ok(response);
            }
            let (status, headers) = (response.status, response.headers.clone());
            let mut body = serde_json::from_slice(&response.read(LIMIT).await?).unwrap_or_default();
            change(&request, &mut body);
            Ok(remade(status, headers, &body))
        }
    });
}

fn remade(status: u16, mut headers: Vec<(String, String)>, body: &Value) -> HttpResponse {
    headers.retain(|(name, _)| !matches!(name.as_str(), "content-type" | "content-length"));
    let text = if body.is_null() { String::new() } else { body.to_string() };
    if !body.is_null() {
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    HttpResponse { status, headers, body: once(text.into_bytes()) }
}

/// Understands that it may go on when a version or a capability is not what the server wants.
fn accepts_refusals(setup: &mut ClientSetup) {
    incoming(setup, |p| {
        let refused = matches!(p.message["error"]["code"].as_i64(), Some(-32022 | -32021));
        if let Some(asked) = p.about.filter(|_| refused) {
            let result = match asked["method"].as_str() {
                Some("server/discover") => {
                    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})
                }
                Some("tools/list") => json!({"resultType": "complete", "tools":
                    [{"name": "echo", "inputSchema": {"type": "object"}}], "ttlMs": 0, "cacheScope": "private"}),
                _ => json!({"resultType": "complete", "content": []}),
            };
            *p.message = success(p.message, &result);
        }
        Fate::Pass
    });
    // What comes with 400 is read like what comes with 200.
    responses(setup, |request, mut response| async move {
        if response.status == 400 && request.purpose == Purpose::McpPost {
            response.status = 200;
        }
        Ok(response)
    });
}

/// Two filters, one behind the other.
struct Both(
    std::sync::Arc<dyn sparring_client::MessageFilter>,
    std::sync::Arc<dyn sparring_client::MessageFilter>,
);

impl sparring_client::MessageFilter for Both {
    fn outgoing(&self, server: &str, message: Value) -> Vec<Value> {
        let first = self.0.outgoing(server, message);
        first.into_iter().flat_map(|message| self.1.outgoing(server, message)).collect()
    }

    fn incoming(&self, server: &str, text: String) -> Vec<String> {
        let first = self.0.incoming(server, text);
        first.into_iter().flat_map(|text| self.1.incoming(server, text)).collect()
    }
}
