//! Event streams: the answers to POSTs, and the standalone one.

use super::post::{Post, answers, status_error};
use super::session::{Exchange, SessionState, Shared};
use super::{HttpBody, HttpResponse, Purpose};
use crate::core::Event;
use crate::error::Error;
use crate::link::FromLink;
use futures_util::StreamExt as _;
use sparring_wire::Id;
use sparring_wire::sse::{SseEvent, SseItem, SseReader};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// The events of a response, one by one.
pub(super) struct Events {
    body: HttpBody,
    reader: SseReader,
    ready: VecDeque<SseEvent>,
}

impl Events {
    /// `limit`: the longest event accepted, in bytes.
    pub(super) fn new(response: HttpResponse, limit: usize) -> Self {
        Self { body: response.body, reader: SseReader::new(limit), ready: VecDeque::new() }
    }

    /// The next event; `None` at the end of the stream. [`Error::Closed`]: the stream broke; [`Error::Invalid`]: an
    /// event is too long, which taking the stream up again would not help. Can be cancelled and called again.
    pub(super) async fn next(&mut self) -> Result<Option<SseEvent>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let chunk = match self.body.next().await {
                None => return Ok(None),
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => return Err(Error::Closed(format!("the stream broke: {error}"))),
            };
            let items = self.reader.push(&chunk).map_err(|error| Error::Invalid(error.to_string()))?;
            self.ready.extend(items.into_iter().filter_map(|item| match item {
                SseItem::Event(event) => Some(event),
                SseItem::Comment(_) => None,
            }));
        }
    }
}

/// Where a stream can be taken up again.
#[derive(Debug, Default)]
struct Cursor {
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
    let mut events = Events::new(response, shared.settings.max_message);
    let mut end = End { answered: false, alive: false, why: None };
    let mut until: Option<Instant> = None;
    loop {
        let next = match until {
            Some(until) => match timeout_at(until, events.next()).await {
                Ok(next) => next,
                Err(_) => return end,
            },
            None => events.next().await,
        };
        let event = match next {
            Ok(Some(event)) => event,
            Ok(None) => return end,
            Err(error) => {
                if matches!(error, Error::Invalid(_)) {
                    // Taking it up again would bring the same event.
                    *cursor = Cursor::default();
                }
                end.why = Some(error);
                return end;
            }
        };
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

/// Follows the stream that answers a POST, over interruptions if it can be taken up again.
pub(super) async fn answer(post: &Post, response: HttpResponse, request: &Id) -> Result<(), Error> {
    let Post { shared, session, .. } = post;
    let mut cursor = Cursor::default();
    let mut end = read(shared, response, Some(request), &mut cursor).await;
    let mut failures = 0;
    loop {
        if end.answered {
            return Ok(());
        }
        let unfinished = || Error::Closed("the stream ended before the answer to the request".into());
        let last = cursor.last_id.clone().filter(|_| !post.stateless);
        let Some(last) = last else { return Err(end.why.unwrap_or_else(unfinished)) };
        if failures >= shared.settings.stream_attempts {
            return Err(end.why.unwrap_or_else(unfinished));
        }
        pause(shared, &cursor, failures).await;
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
                end = read(shared, response, Some(request), &mut cursor).await;
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
        let answer = get(&shared, &session, last.as_deref(), None).await;
        session.stream.send_replace(true);
        match answer {
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
    let headers: Vec<(String, String)> =
        last_event_id.map(|last| ("Last-Event-ID".to_owned(), last.to_owned())).into_iter().collect();
    let exchange =
        Exchange { purpose: Purpose::McpGet, method: "GET", id, url: None, headers: &headers, body: None };
    shared.exchange(session, exchange).await
}

/// Waits before a stream is opened again: as the server said, but at least by the back-off.
async fn pause(shared: &Shared, cursor: &Cursor, attempt: u32) {
    let waits = &shared.settings.stream_waits;
    let own = waits.get(attempt as usize).or_else(|| waits.last()).copied().unwrap_or_default();
    sleep(cursor.retry.unwrap_or_default().max(own)).await;
}
