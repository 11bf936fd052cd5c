//! Requests that are answered with `input_required`, and what the client sends back.

use super::stateless::of_meta;
use super::{Findings, Monitor, Scope, monitor};
use crate::judge::view::{Conversation, Message};
use serde_json::{Map, Value};
use sparring_wire::meta;
use std::sync::LazyLock;

pub(super) const MONITORS: &[Monitor] = &[
    monitor(
        "rounds.all-keys-answered",
        &["mrtr-all-keys-answered"],
        "the client comes back with what the server asked for",
        "each key that was asked for is there",
        &["answers-first-input-only"],
        |scope| {
            retries(scope, |round, retry| {
                let missing =
                    round.inputs().keys().find(|key| retry.inputs.is_none_or(|i| !i.contains_key(*key)))?;
                Some(format!("`inputResponses` lacks `{missing}`"))
            })
        },
    ),
    monitor(
        "rounds.newest-keys-only",
        &["mrtr-latest-round-used"],
        "the client comes back with what the server asked for",
        "nothing is there that this round did not ask for",
        &["repeats-old-inputs"],
        |scope| {
            retries(scope, |round, retry| {
                let more = retry.inputs?.keys().find(|key| !round.inputs().contains_key(*key))?;
                Some(format!("nobody asked for `{more}` in this round"))
            })
        },
    ),
    monitor(
        "rounds.bare-responses",
        &["mrtr-response-shape"],
        "the client comes back with what the server asked for",
        "each value is the bare result, without a JSON-RPC envelope",
        &["wraps-inputs"],
        |scope| {
            retries(scope, |_, retry| {
                let enveloped = |value: &Value| {
                    !value.is_object()
                        || ["jsonrpc", "result", "error"].iter().any(|name| value.get(name).is_some())
                };
                let (key, _) = retry.inputs?.iter().find(|(_, value)| enveloped(value))?;
                Some(format!("the value of `{key}` is no bare result"))
            })
        },
    ),
    monitor(
        "rounds.same-request",
        &["mrtr-retry-same-request"],
        "the client repeats a request for which the server wanted input",
        "it has the params that it had",
        &["repeats-without-arguments"],
        |scope| {
            retries(scope, |round, retry| {
                (own_params(round.request) != own_params(retry.request))
                    .then(|| "the params differ from those of the first request".to_owned())
            })
        },
    ),
    monitor(
        "rounds.state-echoed",
        &["mrtr-request-state-echoed"],
        "the client repeats a request, and the server had given a `requestState`",
        "it comes back exactly as it was",
        &["trims-request-state", "parses-request-state"],
        |scope| {
            retries_where(
                scope,
                |round| round.state().is_some(),
                |round, retry| match (round.state(), retry.request.param("requestState")) {
                    (Some(given), Some(sent)) if given == sent => None,
                    (_, Some(_)) => Some("`requestState` was changed".to_owned()),
                    (_, None) => Some("`requestState` is missing".to_owned()),
                },
            )
        },
    ),
    monitor(
        "rounds.no-state-invented",
        &["mrtr-no-request-state-when-absent"],
        "the client repeats a request, and the server had given no `requestState`",
        "none is sent",
        &["invents-request-state"],
        |scope| {
            retries_where(
                scope,
                |round| round.state().is_none(),
                |_, retry| retry.request.param("requestState").map(|_| "a `requestState` is sent".to_owned()),
            )
        },
    ),
    monitor(
        "rounds.new-id",
        &["mrtr-new-request-id"],
        "the client repeats a request for which the server wanted input",
        "it has a new id",
        &["repeats-with-old-id"],
        |scope| {
            retries(scope, |round, retry| {
                let id = retry.request.id().filter(|id| Some(*id) == round.request.id())?;
                Some(format!("id {id} is that of the first request"))
            })
        },
    ),
    monitor(
        "rounds.only-for-the-retry",
        &["mrtr-scoped-to-retry"],
        "the server wants input for a request",
        "`inputResponses` and `requestState` are in no other request",
        &["spreads-request-state"],
        only_for_the_retry,
    ),
    monitor(
        "rounds.undeclared-not-fulfilled",
        &["mrtr-undeclared-input-not-fulfilled"],
        "the server wants input of a kind that the client did not declare",
        "it gets none",
        &["fulfils-undeclared-inputs"],
        undeclared,
    ),
];

/// A request that was answered with `input_required`.
#[derive(Clone, Copy)]
pub(super) struct Round<'m> {
    pub(super) request: &'m Message,
    pub(super) answer: &'m Message,
    result: &'m Value,
}

static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

impl<'m> Round<'m> {
    fn state(&self) -> Option<&'m Value> {
        self.result.get("requestState")
    }

    /// What is asked for, by key.
    pub(super) fn inputs(&self) -> &'m Map<String, Value> {
        self.result.get("inputRequests").and_then(Value::as_object).unwrap_or(&NOTHING)
    }
}

/// A request that brings what was asked for.
#[derive(Clone, Copy)]
pub(super) struct Retry<'m> {
    pub(super) request: &'m Message,
    pub(super) inputs: Option<&'m Map<String, Value>>,
}

/// The params that are not of the round.
fn own_params(request: &Message) -> Map<String, Value> {
    let mut params = request.params().and_then(Value::as_object).cloned().unwrap_or_default();
    for name in ["_meta", "inputResponses", "requestState"] {
        params.remove(name);
    }
    params
}

/// How much speaks for a request's being the repetition of another: the state most, then the params.
fn likeness(round: &Round<'_>, request: &Message, used: bool) -> u32 {
    let state = round.state().is_some() && round.state() == request.param("requestState");
    let same = own_params(round.request) == own_params(request);
    let named = ["name", "uri"]
        .iter()
        .any(|m| round.request.param(m).is_some() && round.request.param(m) == request.param(m));
    8 * u32::from(state) + 4 * u32::from(same) + 2 * u32::from(named) + u32::from(!used)
}

/// What the client sends back, each with the round that it belongs to; without one, what belongs to none. `faulty`: also
/// to questions that the server should not have asked.
pub(super) fn sent_back<'s>(
    scope: &Scope<'s, '_>,
    conversation: &'s Conversation,
    faulty: bool,
) -> (Vec<Round<'s>>, Vec<(Option<Round<'s>>, Retry<'s>)>) {
    let mut rounds: Vec<(Round<'s>, bool)> = Vec::new();
    let mut found = Vec::new();
    for message in scope.messages(conversation) {
        if !message.from_client() {
            let asked = scope.view.pair(message).filter(|asked| asked.from_client() && asked.is_request());
            let wanted =
                message.result().filter(|r| r.get("resultType").is_some_and(|t| t == "input_required"));
            // A task that wants input gets it by a method of its own.
            if let (Some(request), Some(result)) = (asked, wanted)
                && request.method() != Some("tasks/get")
                && (faulty || !message.scripted_fault)
            {
                rounds.push((Round { request, answer: message, result }, false));
            }
            continue;
        }
        let inputs = message.param("inputResponses").and_then(Value::as_object);
        let brings = inputs.is_some() || message.param("requestState").is_some();
        if !message.is_request() || !brings || message.method() == Some("tasks/update") {
            continue;
        }
        let round = rounds
            .iter_mut()
            .filter(|(round, _)| round.request.method() == message.method())
            .max_by_key(|(round, used)| likeness(round, message, *used));
        let round = round.map(|(round, used)| {
            *used = true;
            *round
        });
        found.push((round, Retry { request: message, inputs }));
    }
    (rounds.into_iter().map(|(round, _)| round).collect(), found)
}

fn retries(scope: &Scope<'_, '_>, wrong: impl Fn(&Round<'_>, &Retry<'_>) -> Option<String>) -> Findings {
    retries_where(scope, |_| true, wrong)
}

fn retries_where(
    scope: &Scope<'_, '_>,
    which: impl Fn(&Round<'_>) -> bool,
    wrong: impl Fn(&Round<'_>, &Retry<'_>) -> Option<String>,
) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        for (round, retry) in sent_back(scope, conversation, false).1 {
            let Some(round) = round.filter(&which) else { continue };
            findings.saw(round.answer.event);
            if let Some(why) = wrong(&round, &retry) {
                findings.against(&[round.request.event, round.answer.event, retry.request.event], why);
            }
        }
    }
    findings
}

fn only_for_the_retry(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let (rounds, sent) = sent_back(scope, conversation, false);
        for round in &rounds {
            findings.saw(round.answer.event);
        }
        for (round, retry) in sent {
            let foreign = round.is_none_or(|round| {
                ["name", "uri"].iter().any(|m| round.request.param(m) != retry.request.param(m))
            });
            if foreign {
                let method = retry.request.method().unwrap_or_default();
                findings.against(&[retry.request.event], format!("this {method} was not asked for input"));
            }
        }
    }
    findings
}

/// Whether a request declared that the client can give such input.
fn declares(request: &Message, input: &Value) -> bool {
    let capabilities = of_meta(request, meta::CLIENT_CAPABILITIES).unwrap_or(&Value::Null);
    let capability = match input.get("method").and_then(Value::as_str) {
        Some("sampling/createMessage") => "sampling",
        Some("elicitation/create") => "elicitation",
        Some("roots/list") => "roots",
        // What no client can give is another matter.
        _ => return true,
    };
    let Some(declared) = capabilities.get(capability) else { return false };
    let url = input.pointer("/params/mode").is_some_and(|mode| mode == "url");
    !url || declared.get("url").is_some()
}

/// Whether a client's response gives what was asked for.
fn gives(response: &Value) -> bool {
    response.get("action").is_none_or(|action| action == "accept") && response.get("error").is_none()
}

fn undeclared(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let (rounds, sent) = sent_back(scope, conversation, true);
        for round in &rounds {
            if round.inputs().values().any(|input| !declares(round.request, input)) {
                findings.saw(round.answer.event);
            }
        }
        for (round, retry) in sent {
            let (Some(round), Some(inputs)) = (round, retry.inputs) else { continue };
            let given = round
                .inputs()
                .iter()
                .find(|(key, input)| !declares(round.request, input) && inputs.get(*key).is_some_and(gives));
            if let Some((key, input)) = given {
                let method = input.get("method").and_then(Value::as_str).unwrap_or_default();
                findings.against(
                    &[round.request.event, round.answer.event, retry.request.event],
                    format!("`{key}` ({method}) is given, though not declared"),
                );
            }
        }
    }
    findings
}
