//! Event streams: the answers to POSTs, and the standalone one.

use super::{Exchange, HttpResponse, Purpose, SessionState, Shared, answers, status_error};
use crate::core::Event;
use crate::error::Error;
use crate::link::FromLink;
use futures_util::StreamExt as _;
use sparring_wire::Id;
use sparring_wire::sse::{SseItem, SseReader};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Where a stream can be taken up again.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    last_id: Option<String>,
    retry: Option<Duration>,
}

/// How a stream ended.
struct End {
    answered: bool,
    /// Whether any event came.
    alive: bool,
    why: Option<Error>,
}

/// How long a stream may stay open after it brought its answer.
const LINGER: Duration = Duration::from_secs(2);

/// The longest wait that a server can ask for by `retry`.
const MAX_RETRY: u64 = 24 * 3600 * 1000;

/// Reads a stream to its end.
async fn read(shared: &Shared, response: HttpResponse, request: Option<&Id>, cursor: &mut Cursor) -> End {
    let limit = shared.settings.max_message;
    let mut reader = SseReader::new(limit);
    let mut end = End { answered: false, alive: false, why: None };
    let mut body = response.body;
    let mut until: Option<Instant> = None;
    loop {
        let chunk = match until {
            Some(until) => match timeout_at(until, body.next()).await {
                Ok(chunk) => chunk,
                Err(_) => return end,
            },
            None => body.next().await,
        };
        let chunk = match chunk {
            None => return end,
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) => {
                end.why = Some(Error::Closed(format!("the stream broke: {error}")));
                return end;
            }
        };
        let items = match reader.push(&chunk) {
            Ok(items) => items,
            Err(error) => {
                // Taking it up again would bring the same event.
                *cursor = Cursor::default();
                end.why = Some(Error::Invalid(error.to_string()));
                return end;
            }
        };
        for item in items {
            let SseItem::Event(event) = item else { continue };
            end.alive = true;
            if let Some(id) = &event.id {
                // An empty id means that there is none any more.
                cursor.last_id = (!id.is_empty()).then(|| id.clone());
            }
            if let Some(retry) = event.retry {
                cursor.retry = Some(Duration::from_millis(retry.min(MAX_RETRY)));
            }
            // Without data: a priming event, there for its id.
            let is_message = event.is_message();
            let Some(data) = event.data.filter(|data| is_message && !data.is_empty()) else { continue };
            if request.is_some_and(|id| answers(&data, id)) {
                end.answered = true;
                until = Some(Instant::now() + LINGER);
            }
            shared.report(FromLink::Message(data)).await;
        }
    }
}

/// Follows the stream that answers a POST, over interruptions if it can be taken up again.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    session: &Arc<SessionState>,
    response: HttpResponse,
    request: &Id,
    cursor: &mut Cursor,
) -> Result<(), Error> {
    let mut end = read(shared, response, Some(request), cursor).await;
    let mut failures = 0;
    loop {
        if end.answered {
            return Ok(());
        }
        let unfinished = || Error::Closed("the stream ended before the answer to the request".into());
        let resumable = session.revision.get().is_none_or(|revision| revision.has_handshake());
        let Some(last) = cursor.last_id.clone().filter(|_| resumable) else {
            return Err(end.why.unwrap_or_else(unfinished));
        };
        if failures >= shared.settings.stream_attempts {
            return Err(end.why.unwrap_or_else(unfinished));
        }
        pause(shared, cursor, failures).await;
        let response = match get(shared, session, Some(&last), Some(request)).await {
            Ok(response) => response,
            Err(error) => {
                failures += 1;
                end.why = Some(error);
                continue;
            }
        };
        match response.status {
            200 if response.media_type() == "text/event-stream" => {
                end = read(shared, response, Some(request), cursor).await;
                failures = if end.alive { 0 } else { failures + 1 };
            }
            500.. => {
                failures += 1;
                end.why = Some(status_error(response).await);
            }
            404 if session.id.get().is_some() => {
                // The request may have been carried out: it is not sent again.
                let lost = FromLink::SessionLost { generation: session.generation, id: None };
                shared.report(lost).await;
                return Err(unfinished());
            }
            status => {
                return Err(Error::Closed(format!(
                    "the stream ended before the answer, and taking it up again was refused with HTTP {status}"
                )));
            }
        }
    }
}

/// Keeps the standalone stream open.
pub(super) async fn standalone(shared: Arc<Shared>, session: Arc<SessionState>) {
    session.pass_gate().await;
    let mut cursor = Cursor::default();
    let (mut failures, mut waits, mut was_open) = (0, 0, false);
    let error = loop {
        let last = cursor.last_id.clone();
        match get(&shared, &session, last.as_deref(), None).await {
            Ok(response) if response.status == 200 && response.media_type() == "text/event-stream" => {
                was_open = true;
                failures = 0;
                let end = read(&shared, response, None, &mut cursor).await;
                if end.alive {
                    waits = 0;
                }
            }
            Ok(response) if response.status == 404 && was_open && session.id.get().is_some() => {
                let lost = FromLink::SessionLost { generation: session.generation, id: None };
                return shared.report(lost).await;
            }
            Ok(response) if response.status >= 500 => {
                failures += 1;
                if failures >= shared.settings.stream_attempts {
                    break status_error(response).await;
                }
            }
            Ok(response) => break status_error(response).await,
            Err(error) => {
                failures += 1;
                if failures >= shared.settings.stream_attempts || matches!(error, Error::Auth { .. }) {
                    break error;
                }
            }
        }
        pause(&shared, &cursor, waits).await;
        waits += 1;
    };
    shared.report(FromLink::Notice(Event::NoStream { error })).await;
}

async fn get(
    shared: &Shared,
    session: &SessionState,
    last_event_id: Option<&str>,
    id: Option<&Id>,
) -> Result<HttpResponse, Error> {
    let exchange = Exchange {
        purpose: Purpose::McpGet,
        method: "GET",
        operation: "GET",
        id,
        headers: &[],
        body: None,
        last_event_id,
    };
    shared.exchange(session, &exchange).await
}

/// Waits before a stream is opened again: as the server said, but at least by the back-off.
async fn pause(shared: &Shared, cursor: &Cursor, attempt: u32) {
    let waits = &shared.settings.stream_waits;
    let own = waits.get(attempt as usize).or_else(|| waits.last()).copied().unwrap_or_default();
    sleep(cursor.retry.unwrap_or_default().max(own)).await;
}
