//! Faults in rounds of input, tasks and subscriptions.

use super::decorate::{
    Fate, MANY, Memo, answers, die_if, dies_on, drop_if, failure, impatient, incoming, keeps_to_itself,
    messages, outgoing, refuses, remembers, requests, success,
};
use super::modern::{again, is_again, remove, stateless};
use super::{Mutant, mutant};
use serde_json::{Value, json};
use sparring_client::http::{HttpRequest, Purpose};
use sparring_wire::meta;
use std::time::Duration;

/// What a result has to have that the caller takes for one, whatever was asked for.
fn anything() -> Value {
    json!({"resultType": "complete", "content": [], "messages": [], "contents": []})
}

fn status_of(message: &Value) -> &str {
    message["result"]["status"].as_str().unwrap_or_default()
}

pub(super) const MUTANTS: &[Mutant] = &[
    // ---- rounds ----
    mutant("takes-question-for-result", "Takes for the result what asks for input.", |s| {
        incoming(s, |p| {
            if p.message["result"]["resultType"] == "input_required" {
                *p.message = success(p.message, &anything());
            }
            Fate::Pass
        });
    }),
    mutant("repeats-without-meta", "Leaves `_meta` out when it repeats a request.", |s| {
        again(s, |params| remove(params, "_meta"));
    }),
    mutant("repeats-without-headers", "Leaves the header fields out when it repeats a request.", |s| {
        impatient(s);
        requests(s, |request| {
            if brings_something(request) {
                request.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("mcp-"));
            }
        });
    }),
    mutant("comes-again-empty-handed", "Repeats a request without what was asked for.", |s| {
        again(s, |params| remove(params, "inputResponses"));
    }),
    mutant("cuts-request-state", "Gives back the first hundred characters of a state.", |s| {
        again(s, |params| {
            if let Some(state) = params["requestState"].as_str() {
                params["requestState"] = json!(state.chars().take(100).collect::<String>());
            }
        });
    }),
    mutant("declares-once-only", "Says only in its first request what it can do.", |s| {
        impatient(s);
        let said = Memo::<bool>::default();
        stateless(s, move |message| {
            if said.get() && message["method"] == "tools/call" {
                remove(&mut message["params"]["_meta"], meta::CLIENT_CAPABILITIES);
            }
            said.set(true);
        });
    }),
    mutant("gives-roots-for-anything", "Gives its roots whatever is asked for.", |s| {
        incoming(s, |p| {
            if let Some(asked) = p.message["result"]["inputRequests"].as_object_mut() {
                for request in asked.values_mut() {
                    *request = json!({"method": "roots/list"});
                }
            }
            Fate::Pass
        });
    }),
    mutant("never-tires-of-questions", "Gives what is asked for however often that is.", |s| {
        s.client(|settings| settings.max_rounds = u32::MAX);
        // It stands still in the end, so that what has no end is not too much for the machine.
        let rounds = Memo::<u32>::default();
        outgoing(s, move |p| {
            let again = is_again(p.message);
            drop_if(again && rounds.with(|rounds| std::mem::replace(rounds, *rounds + 1)) > MANY)
        });
    }),
    // ---- tasks ----
    mutant("asks-after-tasks-once", "Takes a task for done when it has asked after it once.", |s| {
        answers(s, "tasks/get", |_, answer| {
            if status_of(answer) == "working" {
                answer["result"]["status"] = json!("completed");
                answer["result"]["result"] = json!({"content": []});
            }
        });
    }),
    mutant("takes-task-for-result", "Takes a task for the result of the call.", |s| {
        incoming(s, |p| {
            if p.message["result"]["resultType"] == "task" {
                *p.message = success(p.message, &anything());
            }
            Fate::Pass
        });
    }),
    mutant("polls-without-pause", "Asks after a task without waiting.", |s| {
        s.client(|settings| settings.tasks.poll_every = Duration::ZERO);
        incoming(s, |p| {
            for name in ["pollIntervalMs", "pollInterval"] {
                remove(&mut p.message["result"], name);
            }
            Fate::Pass
        });
    }),
    mutant("ignores-questions-of-tasks", "Does not notice that a task wants to know something.", |s| {
        s.client(|settings| settings.tasks.limit = Duration::from_secs(3));
        answers(s, "tasks/get", |_, answer| {
            if status_of(answer) == "input_required" {
                answer["result"]["status"] = json!("working");
            }
        });
    }),
    mutant("answers-tasks-twice", "Tells a task everything twice.", |s| {
        outgoing(s, |p| {
            if !p.is("tasks/update") {
                return Fate::Pass;
            }
            let mut second = p.message.clone();
            second["id"] = json!("again");
            Fate::Instead(vec![p.message.clone(), second])
        });
    }),
    mutant(
        "stops-asking-after-update",
        "Does not ask after a task any more once it has told it something.",
        |s| {
            impatient(s);
            s.client(|settings| settings.tasks.limit = Duration::from_secs(3));
            let told = Memo::<bool>::default();
            outgoing(s, move |p| {
                if p.is("tasks/update") {
                    told.set(true);
                }
                drop_if(p.is("tasks/get") && told.get())
            });
        },
    ),
    mutant("cancels-tasks-silently", "Does not tell the server that a task is not needed any more.", |s| {
        impatient(s);
        keeps_to_itself(s, "tasks/cancel");
    }),
    // ---- caching ----
    mutant("ignores-ttl", "Asks again for what is still fresh.", |s| {
        s.client(|settings| settings.honour_ttl = false);
    }),
    mutant("refuses-odd-ttl", "Refuses results that don't say properly how long they are fresh.", |s| {
        refuses(s, "resources/read", |_, result| result["ttlMs"].as_i64().is_none_or(|ttl| ttl < 0));
    }),
    mutant("caches-for-ever", "Takes everything that it has got for fresh.", |s| {
        incoming(s, |p| {
            if p.answers("resources/read") {
                p.message["result"]["ttlMs"] = json!(3_600_000);
                p.message["result"]["cacheScope"] = json!("public");
            }
            Fate::Pass
        });
    }),
    mutant("caches-by-method-alone", "Takes what it has got of one resource for all of them.", |s| {
        remembers(s, "resources/read", false);
    }),
    // ---- subscriptions ----
    mutant("loses-subscribed-notifications", "Loses what it is told of what it has subscribed to.", |s| {
        incoming(s, |p| {
            drop_if(p.is("notifications/resources/updated") || p.is("notifications/tools/list_changed"))
        });
    }),
    mutant("dies-when-subscription-ends", "Stops working when the server ends a subscription.", |s| {
        dies_on(s, |p| p.answers("subscriptions/listen"));
    }),
    // ---- results ----
    mutant("refuses-untyped-results", "Refuses results that don't say of which type they are.", |s| {
        refuses(s, "tools/call", |_, result| result.get("resultType").is_none());
    }),
    mutant("refuses-anonymous-results", "Refuses results that don't say who the server is.", |s| {
        refuses(s, "tools/call", |_, result| result.get("_meta").is_none());
    }),
    mutant("takes-any-result-type", "Takes results of any type for complete ones.", |s| {
        incoming(s, |p| {
            if p.message["result"]["resultType"].as_str().is_some_and(|kind| kind.starts_with("x-")) {
                p.message["result"]["resultType"] = json!("complete");
            }
            Fate::Pass
        });
    }),
    mutant(
        "refuses-unknown-extensions",
        "Does not work with a server that has extensions it does not know.",
        |s| {
            impatient(s);
            incoming(s, |p| {
                if p.message["result"]["capabilities"]["extensions"].get("com.example/greetings").is_some() {
                    *p.message = failure(p.message, "what is that?");
                }
                Fate::Pass
            });
        },
    ),
    // ---- messages ----
    mutant("takes-text-ids-for-numbers", "Takes the id \"2\" for 2.", |s| {
        incoming(s, |p| {
            let number = p.message["id"].as_str().and_then(|text| text.parse::<i64>().ok());
            if let Some(number) = number.filter(|_| p.is_answer()) {
                p.message["id"] = json!(number);
            }
            Fate::Pass
        });
    }),
    mutant("reads-ids-as-doubles", "Reads ids as numbers of double precision.", |s| {
        messages(
            s,
            |p| {
                if let Some(id) = p.message["id"].as_i64().filter(|_| p.is_answer()) {
                    p.message["id"] = json!(rounded(id));
                }
                Fate::Pass
            },
            |_| die_if(false),
        );
    }),
];

/// As a double has it.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "that is the fault")]
const fn rounded(id: i64) -> i64 {
    id as f64 as i64
}

/// Whether a request brings what was asked for.
fn brings_something(request: &HttpRequest) -> bool {
    let body = request.body.as_deref().unwrap_or_default();
    request.purpose == Purpose::McpPost
        && serde_json::from_slice::<Value>(body).is_ok_and(|message| is_again(&message))
}
