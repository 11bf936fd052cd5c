//! What each path does.

use super::body::{self, ActionsQuery, StreamQuery, TranscriptQuery, WaitBody};
use super::error::ApiError;
use super::wait;
use crate::serve::log::Log;
use crate::serve::ready::VERSION;
use crate::serve::served::{Acted, Mock, Served};
use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sparring_mock_servers::core::Control;
use sparring_mock_servers::script::Actions;
use sparring_wire::transcript::Event;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

type Answer<T> = Result<T, ApiError>;

/// A stream hands over this many events at a time.
const AT_A_TIME: usize = 256;

#[derive(Serialize)]
pub(super) struct StateAnswer {
    version: u32,
    transport: &'static str,
    revision: String,
    server: String,
    pid: u32,
    /// The number of the last event.
    last: u64,
    #[serde(flatten)]
    now: Now,
}

/// What is open at the moment.
#[derive(Serialize)]
#[serde(untagged)]
enum Now {
    Http { sessions: Vec<String>, exchanges: Vec<u64> },
    Broker { started: u32, processes: Vec<ProcessNow> },
    Own { processes: [ProcessNow; 1] },
}

#[derive(Serialize)]
struct ProcessNow {
    incarnation: u32,
    pid: u32,
}

pub(super) async fn state(State(served): State<Arc<Served>>) -> Json<StateAnswer> {
    let now = match &served.mock {
        Mock::Http(mock) => Now::Http { sessions: mock.sessions(), exchanges: mock.exchanges() },
        Mock::Broker(mock) => Now::Broker {
            started: mock.incarnations(),
            processes: mock
                .processes()
                .into_iter()
                .map(|(incarnation, pid)| ProcessNow { incarnation, pid })
                .collect(),
        },
        Mock::Own(_) => Now::Own { processes: [ProcessNow { incarnation: 1, pid: std::process::id() }] },
    };
    Json(StateAnswer {
        version: VERSION,
        transport: served.transport,
        revision: served.revision.to_string(),
        server: served.server.clone(),
        pid: std::process::id(),
        last: served.log.last(),
        now,
    })
}

#[derive(Serialize)]
pub(super) struct TranscriptAnswer {
    events: Vec<Event>,
    last: u64,
    missing: u64,
}

pub(super) async fn transcript(
    State(served): State<Arc<Served>>,
    query: Result<Query<TranscriptQuery>, QueryRejection>,
) -> Answer<Json<TranscriptAnswer>> {
    let query = body::query(query)?;
    let part = served.log.part(query.after, query.limit.unwrap_or(usize::MAX));
    let events = part.events.iter().map(|event| served.log.shown(event)).collect();
    Ok(Json(TranscriptAnswer { events, last: part.last, missing: part.missing }))
}

/// The transcript as JSON Lines, as it grows.
pub(super) async fn stream(
    State(served): State<Arc<Served>>,
    query: Result<Query<StreamQuery>, QueryRejection>,
) -> Answer<Response> {
    let after = body::query(query)?.after;
    let lines = futures_util::stream::unfold((served, after), |(served, after)| async move {
        let (text, after) = next_lines(&served, after).await?;
        Some((Ok::<_, Infallible>(text), (served, after)))
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

/// The lines after the `after`th, as soon as there are some, and the number of their last; `None` at the end.
async fn next_lines(served: &Served, after: u64) -> Option<(String, u64)> {
    let mut arrivals = served.log.arrivals();
    loop {
        arrivals.mark_unchanged();
        // Looked at first, so that nothing that came before the end is left out.
        let ended = served.has_ended();
        let part = served.log.part(after, AT_A_TIME);
        if let Some(last) = part.events.last() {
            let line = |event: &Arc<Event>| {
                serde_json::to_string(&served.log.shown(event)).unwrap_or_default() + "\n"
            };
            return Some((part.events.iter().map(line).collect(), last.n));
        }
        if ended {
            return None;
        }
        tokio::select! {
            changed = arrivals.changed() => changed.ok()?,
            () = served.ended() => {}
        }
    }
}

#[derive(Serialize)]
pub(super) struct ActionsAnswer {
    /// The number of the last event before the actions: what they caused comes after it.
    after: u64,
    /// The process that ran them (stdio).
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<u32>,
    /// The process ended before it could say that they have run: it was told to, or something else ended it.
    ended: bool,
}

pub(super) async fn actions(
    State(served): State<Arc<Served>>,
    query: Result<Query<ActionsQuery>, QueryRejection>,
    body: Body,
) -> Answer<Json<ActionsAnswer>> {
    let query = body::query(query)?;
    let Actions(actions) = body::read(body, "a list of actions", "this action")
        .await
        .map_err(|error| error.or_help("the body is a list of actions, such as `[ { announce: tools } ]`"))?;
    if actions.is_empty() {
        return Err(ApiError::bad("value", "there is nothing to do in this list"));
    }
    check_place(&served, &query)?;
    let control = Control { actions, session: query.session, exchange: query.exchange, label: query.label };
    let after = served.log.last();
    let (incarnation, ended) = match served.act(query.incarnation, control).await {
        Acted::Done(incarnation) => (incarnation, false),
        Acted::Ended(incarnation) => (incarnation, true),
        Acted::NoProcess => {
            let message = match query.incarnation {
                Some(number) => format!("process {number} is not alive"),
                None => "no process is alive".to_owned(),
            };
            return Err(ApiError::new(StatusCode::CONFLICT, "no-process", message)
                .help("wait for `process: started` first; GET /v1/state lists the processes"));
        }
    };
    Ok(Json(ActionsAnswer { after, incarnation, ended }))
}

/// Whether there is what the query names.
fn check_place(served: &Served, query: &ActionsQuery) -> Answer<()> {
    let other_transport = |name: &str, of: &str| {
        Err(ApiError::bad("query", format!("`{name}` is for {of}, and this mock is served otherwise")))
    };
    match &served.mock {
        Mock::Http(_) if query.incarnation.is_some() => other_transport("incarnation", "stdio"),
        Mock::Http(mock) => {
            let gone = |what: String| Err(ApiError::new(StatusCode::CONFLICT, "not-open", what));
            match (&query.session, query.exchange) {
                (Some(session), _) if !mock.sessions().contains(session) => {
                    gone(format!("the session `{session}` is not open"))
                }
                (_, Some(exchange)) if !mock.exchanges().contains(&exchange) => {
                    gone(format!("the exchange {exchange} is not open"))
                }
                _ => Ok(()),
            }
        }
        Mock::Broker(_) | Mock::Own(_) if query.session.is_some() => other_transport("session", "HTTP"),
        Mock::Broker(_) | Mock::Own(_) if query.exchange.is_some() => other_transport("exchange", "HTTP"),
        Mock::Own(_) if query.incarnation.is_some_and(|n| n != 1) => {
            Err(ApiError::bad("query", "this mock is one process, number 1"))
        }
        Mock::Broker(_) | Mock::Own(_) => Ok(()),
    }
}

#[derive(Serialize)]
pub(super) struct WaitAnswer {
    matched: bool,
    /// Those that are like the pattern, at most as many as were waited for.
    events: Vec<Event>,
    /// The number of the last event there is.
    last: u64,
    /// The mock ended meanwhile.
    ended: bool,
}

pub(super) async fn wait(State(served): State<Arc<Served>>, body: Body) -> Answer<Json<WaitAnswer>> {
    let wanted: WaitBody = body::read(body, "what to wait for", "the pattern")
        .await
        .map_err(|error| error.or_help("such as `{ pattern: { request: tools/call }, count: 2 }`"))?;
    wanted.check()?;
    let WaitBody { pattern, count, after, timeout_ms } = &wanted;
    let log: &Log = &served.log;
    let found = tokio::select! {
        biased;
        found = wait::events(log, pattern, *count, *after) => found,
        () = served.ended() => wait::so_far(log, pattern, *count, *after),
        () = tokio::time::sleep(Duration::from_millis(*timeout_ms)) => {
            wait::so_far(log, pattern, *count, *after)
        }
    };
    let matched = found.len() >= *count;
    let events = found.iter().map(|event| log.shown(event)).collect::<VecDeque<_>>().into();
    Ok(Json(WaitAnswer { matched, events, last: log.last(), ended: served.has_ended() }))
}

#[derive(Serialize)]
pub(super) struct StopAnswer {
    stopping: bool,
}

pub(super) async fn stop(State(served): State<Arc<Served>>) -> (StatusCode, Json<StopAnswer>) {
    served.stop();
    (StatusCode::ACCEPTED, Json(StopAnswer { stopping: true }))
}
