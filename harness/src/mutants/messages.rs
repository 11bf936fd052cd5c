//! Faults in what a client says, and in what it makes of what it hears.

use super::decorate::{
    Fate, Memo, answers, die_if, dies_on, drop_if, failure, gives, impatient, incoming, keeps_to_itself,
    messages, outgoing, params, refuses, remembers, replies, results, success,
};
use super::{Mutant, mutant};
use serde_json::{Value, json};
use std::collections::VecDeque;
use url::Url;

/// Whether an object has a member that is not among those named.
fn has_others(object: &Value, known: &[&str]) -> bool {
    object.as_object().is_some_and(|object| object.keys().any(|key| !known.contains(&key.as_str())))
}

fn remove(object: &mut Value, member: &str) -> Option<Value> {
    object.as_object_mut()?.remove(member)
}

/// Cuts all blobs in a value short.
fn cut_blobs(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(cut_blobs),
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "blob" => text.truncate(65_536),
                    other => cut_blobs(other),
                }
            }
        }
        _ => {}
    }
}

fn keep_content(result: &mut Value, which: fn(&Value) -> bool) {
    if let Some(content) = result["content"].as_array_mut() {
        content.retain(which);
    }
}

const CLIENT_KNOWS: [&str; 7] = [
    "notifications/message",
    "notifications/progress",
    "notifications/cancelled",
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/updated",
];

pub(super) const MUTANTS: &[Mutant] = &[
    // ---- JSON-RPC ----
    mutant("ignores-batches", "Does not read batches.", |s| {
        impatient(s);
        incoming(s, |p| drop_if(p.message.is_array()));
    }),
    mutant("answers-first-of-batch-only", "Of a batch, only the first request is read.", |s| {
        incoming(s, |p| {
            let first = p.message.as_array().and_then(|b| b.iter().find(|m| m.get("id").is_some())).cloned();
            *p.message = first.unwrap_or_else(|| p.message.take());
            Fate::Pass
        });
    }),
    mutant("dies-on-batch", "Stops working at a batch.", |s| dies_on(s, |p| p.message.is_array())),
    mutant(
        "fails-call-on-error-without-id",
        "Takes an error without an id for the answer to the latest request.",
        |s| {
            incoming(s, |p| {
                if p.message.get("error").is_some()
                    && p.message.get("id").is_none_or(Value::is_null)
                    && let Some(latest) = p.traffic.open.last()
                {
                    p.message["id"] = latest["id"].clone();
                }
                Fate::Pass
            });
        },
    ),
    mutant("dies-on-error-without-id", "Stops working at an error without an id.", |s| {
        dies_on(s, |p| p.message.get("error").is_some() && p.message.get("id").is_none_or(Value::is_null));
    }),
    mutant("takes-odd-error-for-success", "Takes errors with a positive code for success.", |s| {
        answers(s, "tools/call", |_, answer| {
            if answer["error"]["code"].as_i64().is_some_and(|code| code > 0) {
                *answer = success(answer, &json!({"content": []}));
            }
        });
    }),
    mutant("dies-on-odd-error-data", "Stops working at an error whose data is a list.", |s| {
        dies_on(s, |p| p.message["error"]["data"].is_array());
    }),
    mutant("matches-answers-by-order", "Takes each answer for that to the oldest request.", |s| {
        let ids = Memo::<VecDeque<Value>>::default();
        let asked = ids.clone();
        messages(
            s,
            move |p| {
                if p.is_request() {
                    asked.with(|ids| ids.push_back(p.message["id"].clone()));
                }
                Fate::Pass
            },
            move |p| {
                if p.is_answer()
                    && let Some(oldest) = ids.with(VecDeque::pop_front)
                {
                    p.message["id"] = oldest;
                }
                Fate::Pass
            },
        );
    }),
    mutant("dies-on-unknown-id", "Stops working at an answer to no open request.", |s| {
        dies_on(s, |p| p.is_answer() && p.about.is_none());
    }),
    mutant("ignores-unknown-requests", "Does not answer requests with methods that it does not know.", |s| {
        impatient(s);
        outgoing(s, |p| drop_if(p.message["error"]["code"] == -32601));
    }),
    mutant("dies-on-unknown-notification", "Stops working at a notification that it does not know.", |s| {
        dies_on(s, |p| {
            p.is_notification() && !p.message["method"].as_str().is_some_and(|m| CLIENT_KNOWS.contains(&m))
        });
    }),
    // ---- handshake ----
    mutant("skips-initialized", "Does not send notifications/initialized.", |s| {
        keeps_to_itself(s, "notifications/initialized");
    }),
    mutant("refuses-older-version", "Works only with the revision it offered.", |s| {
        s.host.protocol.accepts.clear();
    }),
    mutant("ignores-initialize-error", "Goes on although initialize failed.", |s| {
        answers(s, "initialize", |request, answer| {
            if answer.get("error").is_some() {
                let version = &request["params"]["protocolVersion"];
                *answer = success(
                    answer,
                    &json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "?", "version": "?"}}),
                );
            }
        });
    }),
    mutant("waits-for-ever-for-initialize", "Has no timeout for initialize.", |s| {
        s.set("timeouts.startup_s", &json!(3600));
    }),
    mutant("accepts-any-version", "Does not look at the version that the server answers.", |s| {
        answers(s, "initialize", |request, answer| {
            if answer.get("result").is_some() {
                answer["result"]["protocolVersion"] = request["params"]["protocolVersion"].clone();
            }
        });
    }),
    mutant(
        "ignores-server-capabilities",
        "Takes the server for one with tools, whatever it declares.",
        |s| {
            results(s, "initialize", |result| result["capabilities"]["tools"] = json!({}));
        },
    ),
    mutant("initialize-without-capabilities", "Sends initialize without capabilities.", |s| {
        params(s, "initialize", |params| drop(remove(params, "capabilities")));
    }),
    mutant("initialize-without-client-info", "Sends initialize without clientInfo.", |s| {
        params(s, "initialize", |params| drop(remove(params, "clientInfo")));
    }),
    mutant("forgets-to-declare", "Declares no capabilities.", |s| {
        params(s, "initialize", |params| params["capabilities"] = json!({}));
    }),
    mutant(
        "refuses-unknown-capabilities",
        "Refuses a server with a capability that it does not know.",
        |s| {
            const KNOWN: &[&str] =
                &["tools", "resources", "prompts", "logging", "completions", "experimental", "tasks"];
            refuses(s, "initialize", |_, result| has_others(&result["capabilities"], KNOWN));
        },
    ),
    mutant("refuses-instructions", "Refuses a server that sends instructions.", |s| {
        refuses(s, "initialize", |_, result| result.get("instructions").is_some());
    }),
    mutant(
        "refuses-unknown-members",
        "Refuses a server whose serverInfo has a member that it does not know.",
        |s| {
            const KNOWN: &[&str] = &["name", "version", "title", "description", "icons", "websiteUrl"];
            refuses(s, "initialize", |_, result| has_others(&result["serverInfo"], KNOWN));
        },
    ),
    // ---- calls ----
    mutant("loses-arguments", "Calls tools without arguments.", |s| {
        params(s, "tools/call", |params| params["arguments"] = json!({}));
    }),
    mutant("turns-arguments-into-strings", "Sends all arguments as text.", |s| {
        params(s, "tools/call", |params| {
            for argument in params["arguments"].as_object_mut().into_iter().flat_map(|a| a.values_mut()) {
                *argument = Value::String(argument.to_string());
            }
        });
    }),
    mutant("lower-cases-names", "Calls tools by their names in lower case.", |s| {
        params(s, "tools/call", |params| {
            params["name"] = params["name"].as_str().unwrap_or_default().to_lowercase().into();
        });
    }),
    mutant("empties-results", "Hands on results without their content.", |s| {
        results(s, "tools/call", |result| result["content"] = json!([]));
    }),
    mutant("truncates-blobs", "Cuts long blobs.", |s| {
        incoming(s, |p| {
            cut_blobs(p.message);
            Fate::Pass
        });
    }),
    mutant("knows-only-text", "Refuses results with content other than text.", |s| {
        refuses(s, "tools/call", |_, result| {
            result["content"].as_array().is_some_and(|c| c.iter().any(|block| block["type"] != "text"))
        });
    }),
    mutant("drops-images", "Leaves images out of results.", |s| {
        results(s, "tools/call", |result| keep_content(result, |block| block["type"] != "image"));
    }),
    mutant("fails-on-empty-content", "Takes a result without content for an error.", |s| {
        refuses(s, "tools/call", |_, result| result["content"].as_array().is_some_and(Vec::is_empty));
    }),
    mutant("drops-structured-content", "Does not hand on structured content.", |s| {
        s.client(|settings| settings.validate_output = false);
        results(s, "tools/call", |result| drop(remove(result, "structuredContent")));
    }),
    mutant("turns-protocol-error-into-result", "Hands on errors of the protocol as results.", |s| {
        answers(s, "tools/call", |_, answer| {
            if let Some(error) = answer.get("error") {
                let text = error["message"].clone();
                *answer =
                    success(answer, &json!({"content": [{"type": "text", "text": text}], "isError": true}));
            }
        });
    }),
    mutant("hides-error-message", "Does not tell what the server's error says.", |s| {
        answers(s, "tools/call", |_, answer| {
            if answer.get("error").is_some() {
                answer["error"]["message"] = json!("something went wrong");
            }
        });
    }),
    mutant("hides-tool-error", "Hands on a tool's failure as a success.", |s| {
        results(s, "tools/call", |result| drop(remove(result, "isError")));
    }),
    mutant(
        "turns-tool-error-into-exception",
        "Hands on a tool's failure as an error of the protocol.",
        |s| {
            refuses(s, "tools/call", |_, result| result["isError"] == true);
        },
    ),
    mutant("needs-is-error-false", "Takes a result for a failure unless it says `isError: false`.", |s| {
        refuses(s, "tools/call", |_, result| result["isError"] != false);
    }),
    mutant("passes-on-any-result", "Hands on results that are no results.", |s| {
        answers(s, "tools/call", |_, answer| {
            if answer.get("result").is_some_and(|result| !result.is_object()) {
                *answer = success(answer, &json!({"content": [], "raw": answer["result"]}));
            }
        });
    }),
    mutant("dies-on-wrong-result", "Stops working at a result that is none.", |s| {
        dies_on(s, |p| p.message.get("result").is_some_and(|result| !result.is_object()));
    }),
    // ---- lists ----
    mutant("serves-stale-tools", "Reads the list of tools again, but goes on with the old one.", |s| {
        remembers(s, "tools/list", true);
    }),
    mutant("fails-on-list-changed", "Stops working when a list has changed.", |s| {
        dies_on(s, |p| p.is("notifications/tools/list_changed"));
    }),
    mutant("first-page-with-cursor", "Asks for the first page with an empty cursor.", |s| {
        params(s, "tools/list", |params| {
            if params.get("cursor").is_none() {
                params["cursor"] = json!("");
            }
        });
    }),
    mutant("reads-cursor-as-number", "Sends cursors back as numbers.", |s| {
        params(s, "tools/list", |params| {
            if let Some(number) = params["cursor"].as_str().and_then(|c| c.parse::<i64>().ok()) {
                params["cursor"] = json!(number);
            }
        });
    }),
    mutant("trims-cursors", "Removes spaces around cursors.", |s| {
        params(s, "tools/list", |params| {
            if let Some(trimmed) = params["cursor"].as_str().map(|c| c.trim().to_owned()) {
                params["cursor"] = trimmed.into();
            }
        });
    }),
    // ---- cancellation, timeouts, pings ----
    mutant("no-cancel-on-timeout", "Does not cancel a request that took too long.", |s| {
        keeps_to_itself(s, "notifications/cancelled");
    }),
    mutant("cancels-silently", "Does not tell the server that a request is cancelled.", |s| {
        keeps_to_itself(s, "notifications/cancelled");
    }),
    mutant("cancels-wrong-id", "Names the cancelled request by a string.", |s| {
        params(s, "notifications/cancelled", |params| {
            params["requestId"] = params["requestId"].to_string().into();
        });
    }),
    mutant("closes-after-timeout", "Stops working after a timeout.", |s| {
        impatient(s);
        outgoing(s, |p| die_if(p.is("notifications/cancelled")));
    }),
    mutant("fails-on-stray-cancellation", "Stops working when something unknown is cancelled.", |s| {
        dies_on(s, |p| p.is("notifications/cancelled"));
    }),
    mutant("turns-ids-into-strings", "Answers with the id as a string.", |s| {
        impatient(s);
        replies(s, "ping", |reply| {
            if reply["id"].is_number() {
                reply["id"] = reply["id"].to_string().into();
            }
        });
    }),
    mutant("turns-ids-into-numbers", "Answers with the id as a number if it looks like one.", |s| {
        impatient(s);
        replies(s, "ping", |reply| {
            if let Some(number) = reply["id"].as_str().and_then(|id| id.parse::<i64>().ok()) {
                reply["id"] = json!(number);
            }
        });
    }),
    mutant("never-answers-ping", "Does not answer pings.", |s| {
        impatient(s);
        s.client(|settings| settings.answer_pings = false);
    }),
    mutant("answers-ping-with-error", "Answers pings with an error.", |s| {
        replies(s, "ping", |reply| *reply = failure(reply, "no ping here"));
    }),
    mutant("ignores-ping-during-initialize", "Does not answer pings before the handshake is done.", |s| {
        outgoing(s, |p| drop_if(p.answers("ping") && !p.traffic.ready));
    }),
    // ---- progress ----
    mutant("misplaces-progress-token", "Sends the progress token beside `_meta`.", |s| {
        params(s, "tools/call", |params| {
            if let Some(meta) = remove(params, "_meta") {
                params["progressToken"] = meta["progressToken"].clone();
            }
        });
    }),
    mutant("drops-progress", "Does not hand on progress.", |s| {
        incoming(s, |p| drop_if(p.is("notifications/progress")));
    }),
    mutant("fails-on-progress", "Stops working when progress is reported.", |s| {
        dies_on(s, |p| p.is("notifications/progress"));
    }),
    mutant("fails-on-stray-progress", "Stops working when progress comes for no open request.", |s| {
        dies_on(s, |p| {
            let of = |request: &Value| {
                request["params"]["_meta"]["progressToken"] == p.message["params"]["progressToken"]
            };
            p.is("notifications/progress") && !p.traffic.open.iter().any(of)
        });
    }),
    mutant(
        "waits-for-progress",
        "Does not take an answer before it has seen progress, if it asked for that.",
        |s| {
            impatient(s);
            incoming(s, |p| {
                if p.is("notifications/progress") {
                    p.traffic.memory = Some(Value::Null);
                }
                let asked = p.about.is_some_and(|request| {
                    request["params"]["_meta"].get("progressToken").is_some()
                        && request["method"] == "tools/call"
                });
                drop_if(asked && p.traffic.memory.is_none())
            });
        },
    ),
    mutant("fails-on-log-message", "Stops working at a log message.", |s| {
        dies_on(s, |p| p.is("notifications/message"));
    }),
    mutant("dies-on-noise", "Stops working at a line that is no message.", |s| {
        // Only once it is connected, or it would never get to the noise that the check is about.
        dies_on(s, |p| p.message.is_null() && p.traffic.ready);
    }),
    // ---- what servers ask ----
    mutant("answers-undeclared-sampling", "Answers sampling without having declared it.", |s| {
        replies(s, "sampling/createMessage", |reply| {
            let content = json!({"type": "text", "text": "hello"});
            *reply = success(reply, &json!({"role": "assistant", "content": content, "model": "m"}));
        });
    }),
    mutant("answers-undeclared-roots", "Answers roots/list without having declared roots.", |s| {
        replies(s, "roots/list", |reply| *reply = success(reply, &json!({"roots": []})));
    }),
    mutant("answers-undeclared-elicitation", "Answers elicitation without having declared it.", |s| {
        replies(s, "elicitation/create", |reply| *reply = success(reply, &json!({"action": "decline"})));
    }),
    mutant("sampling-answer-without-model", "Answers sampling without naming the model.", |s| {
        gives(s, "sampling/createMessage", |result| drop(remove(result, "model")));
    }),
    mutant(
        "elicitation-answer-with-odd-action",
        "Answers elicitation with an action that does not exist.",
        |s| {
            gives(s, "elicitation/create", |result| result["action"] = json!("ok"));
        },
    ),
    mutant("declines-as-cancel", "Calls it `cancel` when the user declines.", |s| {
        replies(s, "elicitation/create", |reply| reply["result"]["action"] = json!("cancel"));
    }),
    mutant("declines-with-content", "Sends content although the user declined.", |s| {
        replies(s, "elicitation/create", |reply| reply["result"]["content"] = json!({"name": ""}));
    }),
    mutant("roots-as-plain-strings", "Answers roots/list with URIs instead of objects.", |s| {
        gives(s, "roots/list", |result| {
            for root in result["roots"].as_array_mut().into_iter().flatten() {
                *root = root["uri"].take();
            }
        });
    }),
    mutant("changes-roots-silently", "Does not tell the server that its roots have changed.", |s| {
        keeps_to_itself(s, "notifications/roots/list_changed");
    }),
    // ---- prompts and resources ----
    mutant("loses-prompt-arguments", "Gets prompts without their arguments.", |s| {
        params(s, "prompts/get", |params| drop(remove(params, "arguments")));
    }),
    mutant("keeps-user-messages-only", "Leaves out the assistant's messages of a prompt.", |s| {
        results(s, "prompts/get", |result| {
            if let Some(messages) = result["messages"].as_array_mut() {
                messages.retain(|message| message["role"] == "user");
            }
        });
    }),
    mutant("normalizes-uris", "Normalizes the URIs of resources.", |s| {
        params(s, "resources/read", |params| {
            if let Some(uri) = params["uri"].as_str().and_then(|uri| Url::parse(uri).ok()) {
                params["uri"] = String::from(uri).into();
            }
        });
    }),
    mutant("knows-only-file-uris", "Refuses resources that are no files.", |s| {
        refuses(s, "resources/read", |request, _| {
            !request["params"]["uri"].as_str().is_some_and(|uri| uri.starts_with("file:"))
        });
    }),
    mutant("empties-resources", "Loses the text of resources.", |s| {
        results(s, "resources/read", |result| {
            for content in result["contents"].as_array_mut().into_iter().flatten() {
                content["text"] = json!("");
            }
        });
    }),
    mutant(
        "takes-missing-resource-for-empty",
        "Takes a resource that does not exist for an empty one.",
        |s| {
            answers(s, "resources/read", |_, answer| {
                if answer.get("error").is_some() {
                    *answer = success(answer, &json!({"contents": []}));
                }
            });
        },
    ),
    mutant("closes-on-error-answer", "Stops working when the server answers with an error.", |s| {
        dies_on(s, |p| p.message.get("error").is_some());
    }),
    mutant("keeps-first-content-only", "Hands on only the first of a resource's contents.", |s| {
        results(s, "resources/read", |result| {
            if let Some(contents) = result["contents"].as_array_mut() {
                contents.truncate(1);
            }
        });
    }),
    mutant("fails-on-empty-contents", "Takes a resource without contents for an error.", |s| {
        refuses(s, "resources/read", |_, result| result["contents"].as_array().is_some_and(Vec::is_empty));
    }),
    // ---- sessions and restarts ----
    mutant(
        "reopens-without-initialized",
        "Does not finish the handshake of a session that it opens anew.",
        |s| {
            outgoing(s, |p| {
                let again = p.is("notifications/initialized") && p.traffic.memory.is_some();
                if p.is("notifications/initialized") {
                    p.traffic.memory = Some(Value::Null);
                }
                drop_if(again)
            });
        },
    ),
    mutant("skips-handshake-after-restart", "Does not repeat the handshake with a restarted server.", |s| {
        remembers(s, "initialize", false);
    }),
    mutant("skips-discovery-after-restart", "Does not list the tools of a restarted server.", |s| {
        remembers(s, "tools/list", false);
    }),
];
