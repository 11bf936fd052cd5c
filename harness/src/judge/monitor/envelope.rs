//! The JSON-RPC envelope: one monitor for each requirement on it.

use super::{Findings, Monitor, Scope, monitor};
use crate::judge::view::Message;
use serde_json::Value;
use sparring_mock_servers::script::CLIENT_METHODS;
use sparring_wire::jsonrpc::Fault;

pub(super) const MONITORS: &[Monitor] = &[
    monitor(
        "envelope.version",
        &["jsonrpc-version-field"],
        "the client sends a message",
        "`jsonrpc` is \"2.0\"",
        &["omits-jsonrpc-version"],
        |scope| {
            faults(scope, is_object, |m, f| {
                // Without a method, a result or an error there is no message whose version could be missing.
                matches!(f, Fault::Version) && !m.inspected.faults.contains(&Fault::NoKind)
            })
        },
    ),
    monitor(
        "envelope.request-id",
        &["jsonrpc-request-id-type"],
        "the client sends a request",
        "every request has an id that is a string or an integer",
        &["fractional-ids"],
        request_id,
    ),
    monitor(
        "envelope.request-id-not-null",
        &["jsonrpc-request-id-not-null"],
        "the client sends a request",
        "no request has a null id",
        &["null-ids"],
        |scope| faults(scope, Message::is_request, |_, f| matches!(f, Fault::NullId)),
    ),
    monitor(
        "envelope.params-object",
        &["jsonrpc-params-object"],
        "the client sends a message with `params`",
        "`params` is an object",
        &["positional-params"],
        |scope| faults(scope, |m| m.params().is_some(), |_, f| matches!(f, Fault::ParamsType)),
    ),
    monitor(
        "envelope.notification-without-id",
        &["jsonrpc-notification-no-id"],
        "the client sends a notification",
        "it has no `id`",
        &["numbers-notifications"],
        notification_without_id,
    ),
    monitor(
        "envelope.result-xor-error",
        &["jsonrpc-response-result-xor-error"],
        "the client answers a request",
        "the answer has `result` or `error`, not both",
        &["answers-with-result-and-error"],
        |scope| faults(scope, is_response_like, |_, f| matches!(f, Fault::Mixed)),
    ),
    monitor(
        "envelope.result-object",
        &["jsonrpc-result-is-object"],
        "the client answers with a result",
        "`result` is an object",
        &["answers-with-null"],
        |scope| faults(scope, |m| m.result().is_some(), |_, f| matches!(f, Fault::ResultType)),
    ),
    monitor(
        "envelope.error-members",
        &["jsonrpc-error-has-code-and-message"],
        "the client answers with an error",
        "`error` has `code` and a string `message`",
        &["errors-without-message"],
        |scope| {
            faults(scope, Message::is_error, |m, f| match f {
                Fault::ErrorType | Fault::ErrorMessage => true,
                Fault::ErrorCode => error_code(m).is_none(),
                _ => false,
            })
        },
    ),
    monitor(
        "envelope.error-code-integer",
        &["jsonrpc-error-code-integer"],
        "the client answers with an error that has a code",
        "`error.code` is an integer",
        &["errors-with-string-code"],
        |scope| {
            faults(scope, |m| m.is_error() && error_code(m).is_some(), |_, f| matches!(f, Fault::ErrorCode))
        },
    ),
];

fn is_object(message: &Message) -> bool {
    message.inspected.value.as_ref().is_some_and(Value::is_object)
}

fn is_response_like(message: &Message) -> bool {
    message.inspected.value.as_ref().is_some_and(|v| v.get("result").is_some() || v.get("error").is_some())
}

fn error_code(message: &Message) -> Option<&Value> {
    message.inspected.value.as_ref()?.get("error")?.get("code")
}

/// Looks for a fault of the envelope in messages of a kind.
fn faults(
    scope: &Scope<'_, '_>,
    kind: impl Fn(&Message) -> bool,
    wrong: impl Fn(&Message, &Fault) -> bool,
) -> Findings {
    let mut findings = Findings::default();
    for message in scope.client_messages().filter(|m| kind(m)) {
        findings.saw(message.event);
        if let Some(fault) = message.inspected.faults.iter().find(|fault| wrong(message, fault)) {
            findings.against(&[message.event], fault.to_string());
        }
    }
    findings
}

fn request_id(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = faults(scope, Message::is_request, |_, fault| matches!(fault, Fault::IdType));
    for message in scope.client_messages().filter(|m| m.is_notification()) {
        let method = message.method().unwrap_or_default();
        if !method.starts_with("notifications/") && CLIENT_METHODS.contains(&method) {
            findings.against(&[message.event], format!("the request {method} has no id"));
        }
    }
    findings
}

fn notification_without_id(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for message in scope.client_messages() {
        if let Some(method) = message.method().filter(|method| method.starts_with("notifications/")) {
            findings.saw(message.event);
            if message.is_request() {
                findings.against(&[message.event], format!("{method} has an id"));
            }
        }
    }
    findings
}
