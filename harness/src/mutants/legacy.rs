//! Faults over HTTP+SSE of 2024-11-05.

use super::decorate::{Memo, exchanges, impatient, requests, responses, streams};
use super::{Fault, Mutant};
use crate::drivers::ClientSetup;
use futures_util::StreamExt as _;
use serde_json::json;
use sparring_client::http::{HttpError, HttpRequest, Purpose};
use std::time::Duration;
use url::Url;

/// A mutant, with the scenarios that bring its fault to light.
const fn mutant(
    name: &'static str,
    about: &'static str,
    scenarios: &'static [&'static str],
    fault: fn(&mut ClientSetup),
) -> Mutant {
    Mutant { name, about, scenarios, profile: super::REFERENCE, fault: Fault::Client(fault) }
}

const PLAIN: &[&str] = &["sse.plain"];

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("posts-before-stream", "Posts to a server of HTTP+SSE before it opens the stream.", PLAIN, |s| {
        let posted = Memo::<bool>::default();
        exchanges(s, move |request, next| {
            let first = request.purpose == Purpose::McpGet && !posted.get();
            posted.set(true);
            async move {
                if first {
                    // Whatever comes of it.
                    let _ = next.send(early(&request)).await;
                }
                next.send(request).await
            }
        });
    }),
    mutant(
        "posts-before-endpoint",
        "Posts before the stream has said where to.",
        &["sse.late-endpoint"],
        |s| {
            exchanges(s, |request, next| async move {
                let response = next.send(request.clone()).await?;
                if request.purpose == Purpose::McpGet {
                    // Whatever comes of it.
                    let _ = next.send(early(&request)).await;
                }
                Ok(response)
            });
        },
    ),
    mutant("posts-without-query", "Leaves the query out of where messages are posted.", PLAIN, |s| {
        impatient(s);
        requests(s, |request| {
            if request.purpose == Purpose::McpPost
                && let Some((place, _)) = request.url.split_once('?')
            {
                request.url = place.to_owned();
            }
        });
    }),
    mutant("never-opens-stream", "Never opens a stream by GET.", &[], |s| {
        impatient(s);
        exchanges(s, |request, next| async move {
            if request.purpose == Purpose::McpGet {
                return Err(HttpError::Other("streams are not for this client".to_owned()));
            }
            next.send(request).await
        });
    }),
    mutant("deaf-on-stream", "Does not hear the results of calls on the stream.", &[], |s| {
        impatient(s);
        streams(
            s,
            |request| request.purpose == Purpose::McpGet,
            || {
                |chunk: &[u8]| {
                    let heard = !chunk.windows(9).any(|part| part == b"\"content\"");
                    Ok(if heard { chunk.to_vec() } else { Vec::new() })
                }
            },
        );
    }),
    mutant("resolves-against-the-root", "Takes a relative reference for one from the root.", &[], |s| {
        impatient(s);
        posted_to(s, |url| {
            let last = url.path().rsplit('/').next().unwrap_or_default().to_owned();
            url.set_path(&last);
        });
    }),
    mutant("takes-endpoint-for-a-path", "Takes the URL of the endpoint for a path.", &[], |s| {
        impatient(s);
        posted_to(s, |url| {
            let path = format!("/{url}");
            url.set_path(&path);
        });
    }),
    mutant("waits-on-lost-stream", "Does not notice that the stream has ended.", &[], |s| {
        s.client(|settings| settings.timeouts.request = Duration::from_secs(600));
        responses(s, |request, mut response| {
            if request.purpose == Purpose::McpGet {
                // Neither an end nor an error.
                let body = response.body.take_while(|chunk| std::future::ready(chunk.is_ok()));
                response.body = Box::pin(body.chain(futures_util::stream::pending()));
            }
            async move { Ok(response) }
        });
    }),
    mutant(
        "forgets-that-it-fell-back",
        "Posts to where Streamable HTTP would be once it has fallen back.",
        &[],
        |s| {
            impatient(s);
            let first = Memo::<Option<String>>::default();
            requests(s, move |request| {
                if request.purpose == Purpose::McpPost {
                    request.url =
                        first.with(|first| first.get_or_insert_with(|| request.url.clone()).clone());
                }
            });
        },
    ),
    mutant("leaves-stream-open", "Does not close the stream when it is done.", PLAIN, |s| {
        responses(s, |request, mut response| {
            if request.purpose == Purpose::McpGet {
                let (sender, receiver) = tokio::sync::mpsc::channel(64);
                let mut body = response.body;
                tokio::spawn(async move {
                    while let Some(chunk) = body.next().await {
                        // Nobody listening is no reason to stop.
                        let _ = sender.send(chunk).await;
                    }
                    tokio::time::sleep(Duration::from_secs(60)).await;
                });
                let chunks = futures_util::stream::unfold(receiver, |mut receiver| async move {
                    receiver.recv().await.map(|chunk| (chunk, receiver))
                });
                response.body = Box::pin(chunks);
            }
            async move { Ok(response) }
        });
    }),
];

/// Changes where messages are posted.
fn posted_to(setup: &mut ClientSetup, change: fn(&mut Url)) {
    requests(setup, move |request| {
        if request.purpose == Purpose::McpPost
            && let Ok(mut url) = request.url.parse::<Url>()
        {
            change(&mut url);
            request.url = url.into();
        }
    });
}

/// A message that comes too early.
fn early(request: &HttpRequest) -> HttpRequest {
    let body = json!({"jsonrpc": "2.0", "id": "early", "method": "ping"}).to_string();
    HttpRequest {
        purpose: Purpose::McpPost,
        method: "POST".to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: Some(body.into()),
        ..request.clone()
    }
}
