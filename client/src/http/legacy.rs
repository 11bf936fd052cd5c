//! HTTP+SSE of 2024-11-05: one stream for all that the server says, and an endpoint, named on it, for what is said to it.
//!
//! The stream lives as long as the task of the `initialize` request, which opened it. When it ends the connection does:
//! there is nothing to take up again.

use super::post::{Post, delivered, status_error};
use super::session::{Exchange, same_origin};
use super::stream::Events;
use super::{HttpResponse, Purpose};
use crate::error::Error;
use crate::link::FromLink;
use sparring_wire::Id;
use tokio::time::timeout;
use url::Url;

/// Opens the stream, learns the endpoint, posts `initialize` to it, and follows the stream to its end. `before`: why the
/// server seems not to speak Streamable HTTP; that is the error if it does not speak HTTP+SSE either.
pub(super) async fn begin(post: &Post, id: &Id, before: Option<Error>) -> Result<(), Error> {
    let opened = match &before {
        // A stream of Streamable HTTP may stay silent for ever.
        Some(before) => timeout(post.shared.settings.endpoint_wait, open(post, id))
            .await
            .unwrap_or_else(|_| Err(before.clone())),
        None => open(post, id).await,
    };
    let (mut events, endpoint) = match opened {
        Ok(opened) => opened,
        Err(refusal @ Error::Refused(_)) => return Err(Error::Invalid(refusal.to_string())),
        Err(error) => return Err(before.unwrap_or(error)),
    };
    drop(post.session.endpoint.set(endpoint));
    let posting = async {
        let sent = match post.send().await {
            Ok(response) => delivered(response).await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            post.shared.report(FromLink::Failed { id: id.clone(), error }).await;
        }
    };
    let following = async {
        loop {
            match events.next().await {
                Ok(Some(event)) if event.is_message() => {
                    if let Some(text) = event.data.filter(|text| !text.is_empty()) {
                        post.shared.report(FromLink::Message(text)).await;
                    }
                }
                // A second endpoint would be another session's; other types mean nothing here.
                Ok(Some(_)) => {}
                Ok(None) => return Error::Closed("the server has ended its event stream".into()),
                Err(error) => return error,
            }
        }
    };
    let ((), why) = tokio::join!(posting, following);
    post.shared.report(FromLink::Closed(why)).await;
    Ok(())
}

/// The stream and the endpoint. [`Error::Refused`]: it is a server of this kind, but one that is not to be trusted.
async fn open(post: &Post, id: &Id) -> Result<(Events, String), Error> {
    let exchange = Exchange {
        purpose: Purpose::McpGet,
        method: &post.method,
        id: Some(id),
        url: None,
        headers: &[],
        body: None,
    };
    let (response, url) = post.shared.exchange_at(&post.session, exchange).await?;
    if response.status != 200 {
        return Err(status_error(response).await);
    }
    let mut events = stream_of(response, post.shared.settings.max_message)?;
    loop {
        let event = events.next().await?.ok_or_else(|| {
            Error::Closed("the server has ended its event stream before it named an endpoint".into())
        })?;
        match event.event.as_deref() {
            Some("endpoint") => {
                let named = event.data.unwrap_or_default();
                return Ok((events, endpoint(&url, &named)?));
            }
            // Streamable HTTP has such streams as well, and no endpoint on them.
            _ if event.is_message() && event.data.is_some() => {
                return Err(Error::Invalid("the first event of the stream names no endpoint".into()));
            }
            _ => {}
        }
    }
}

fn stream_of(response: HttpResponse, limit: usize) -> Result<Events, Error> {
    match response.media_type().as_str() {
        "text/event-stream" => Ok(Events::new(response, limit)),
        other => Err(Error::Invalid(format!(
            "the GET was answered with the content type {other:?}, no event stream"
        ))),
    }
}

/// Where to post, as the server named it on the stream at `stream`: absolute, or relative to that; on the same origin,
/// or messages and credentials would go to whom nobody meant.
fn endpoint(stream: &str, named: &str) -> Result<String, Error> {
    let base =
        Url::parse(stream).map_err(|error| Error::Start(format!("`{stream}` is not a URL: {error}")))?;
    let target = base.join(named.trim()).map_err(|error| {
        Error::Refused(format!("the server named the endpoint {named:?}, which is no URL: {error}"))
    })?;
    if !same_origin(&base, &target) {
        return Err(Error::Refused(format!(
            "the server named the endpoint {named:?}, which is not on the origin of {stream}"
        )));
    }
    Ok(target.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_resolved_against_the_stream_and_stay_on_its_origin() {
        let stream = "http://127.0.0.1:8000/base/sse?x=1";
        for (named, expected) in [
            ("/messages?session=abc%2F1", "http://127.0.0.1:8000/messages?session=abc%2F1"),
            ("messages", "http://127.0.0.1:8000/base/messages"),
            ("?s=1", "http://127.0.0.1:8000/base/sse?s=1"),
            ("http://127.0.0.1:8000/m", "http://127.0.0.1:8000/m"),
            ("//127.0.0.1:8000/m", "http://127.0.0.1:8000/m"),
        ] {
            assert_eq!(endpoint(stream, named).as_deref(), Ok(expected), "{named}");
        }
        for named in [
            "http://127.0.0.1:8001/m",
            "https://127.0.0.1:8000/m",
            "//evil.invalid/m",
            "http://",
            "file:///m",
        ] {
            assert!(matches!(endpoint(stream, named), Err(Error::Refused(_))), "{named}");
        }
    }
}
