//! Faults in how a client speaks HTTP.

use super::decorate::{
    Memo, carries, dies_on_response, exchanges, impatient, is_mcp, requests, responses, streams,
    without_header,
};
use super::{Mutant, mutant};
use serde_json::json;
use sparring_client::http::{HttpError, HttpRequest, HttpResponse, Purpose};
use std::time::Duration;

fn broken(why: &str) -> HttpError {
    HttpError::Other(why.to_owned())
}

fn has_session(request: &HttpRequest) -> bool {
    request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"))
}

/// A response whose body the client can't read.
fn unreadable(mut response: HttpResponse) -> HttpResponse {
    for (name, value) in &mut response.headers {
        if name == "content-type" {
            "application/octet-stream".clone_into(value);
        }
    }
    response
}

/// Can't read answers to calls in this format.
fn cannot_read(setup: &mut crate::drivers::ClientSetup, media_type: &'static str) {
    responses(setup, move |request, response| async move {
        let met = carries(&request, "tools/call") && response.media_type() == media_type;
        Ok(if met { unreadable(response) } else { response })
    });
}

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("reads-only-json", "Can't read answers to calls that come as streams.", |s| {
        cannot_read(s, "text/event-stream");
    }),
    mutant("reads-only-sse", "Can't read answers to calls that come as JSON.", |s| {
        cannot_read(s, "application/json");
    }),
    mutant(
        "expects-type-of-first-answer",
        "Expects the answer to each call in the format of the first.",
        |s| {
            let first = Memo::<Option<String>>::default();
            responses(s, move |request, response| {
                let media_type = response.media_type();
                let same = |first: &mut Option<String>| {
                    *first.get_or_insert_with(|| media_type.clone()) == media_type
                };
                let odd = carries(&request, "tools/call") && !first.with(same);
                async move { Ok(if odd { unreadable(response) } else { response }) }
            });
        },
    ),
    mutant("fails-on-202", "Stops working at HTTP 202.", |s| dies_on_response(s, |_, status| status == 202)),
    mutant("never-resumes", "Does not take up streams that broke off.", |s| {
        s.client(|settings| settings.http.stream_attempts = 0);
    }),
    mutant("resumes-without-id", "Opens streams that broke off anew, from their end.", |s| {
        impatient(s);
        without_header(s, "last-event-id");
    }),
    mutant(
        "ignores-retry-field",
        "Does not wait as long as the server asks before taking up a stream.",
        |s| {
            s.client(|settings| settings.http.stream_waits = vec![Duration::ZERO]);
            streams(
                s,
                |_| true,
                || {
                    |chunk: &[u8]| {
                        let text = String::from_utf8_lossy(chunk);
                        Ok(text
                            .split_inclusive('\n')
                            .filter(|line| !line.starts_with("retry:"))
                            .collect::<String>()
                            .into())
                    }
                },
            );
        },
    ),
    mutant("hangs-on-http-error", "Waits on for an answer after HTTP 500.", |s| {
        responses(s, |_, response| async {
            if response.status >= 500 {
                std::future::pending::<()>().await;
            }
            Ok(response)
        });
    }),
    mutant("closes-on-http-error", "Stops working at HTTP 500.", |s| {
        dies_on_response(s, |_, status| status == 500);
    }),
    mutant("dies-on-refused-get", "Stops working when the server has no stream for GET.", |s| {
        dies_on_response(s, |request, status| request.method == "GET" && status == 405);
    }),
    mutant("ignores-get-stream", "Opens the stream for GET, but does not read it.", |s| {
        streams(s, |request| request.purpose == Purpose::McpGet, || |_: &[u8]| Ok(Vec::new()));
    }),
    mutant("parses-empty-events", "Takes events without data for messages.", |s| {
        streams(
            s,
            |_| true,
            || {
                |chunk: &[u8]| {
                    let text = String::from_utf8_lossy(chunk);
                    let is_empty = |event: &str| {
                        let data = |line: &str| {
                            line.strip_prefix("data:").is_some_and(|data| !data.trim().is_empty())
                        };
                        event.lines().any(|line| line.starts_with("id:")) && !event.lines().any(data)
                    };
                    match text.split("\n\n").any(is_empty) {
                        true => Err(broken("unexpected end of JSON input")),
                        false => Ok(chunk.to_vec()),
                    }
                }
            },
        );
    }),
    mutant("dies-on-refused-notification", "Stops working when a notification is refused.", |s| {
        dies_on_response(s, |request, status| status == 400 && request.purpose == Purpose::McpPost);
    }),
    mutant("hangs-on-refused-delete", "Waits for a session to end whose end is refused.", |s| {
        s.client(|settings| settings.http.delete_wait = Duration::from_secs(6));
        exchanges(s, |request, next| async move {
            let deletes = request.method == "DELETE";
            let response = next.send(request).await;
            if deletes {
                std::future::pending::<()>().await;
            }
            response
        });
    }),
    mutant("forgets-session-id", "Does not send the session id back.", |s| {
        without_header(s, "mcp-session-id");
    }),
    mutant("leaves-session-open", "Does not end its session.", |s| {
        s.set("shutdown.deletes_session", &json!(false));
    }),
    mutant("keeps-dead-session", "Goes on in a session that the server has forgotten.", |s| {
        s.client(|settings| {
            settings.http.reopen_session = false;
            settings.http.end_with_session = false;
        });
    }),
    mutant("reopens-with-old-id", "Sends the id of the lost session when it opens a new one.", |s| {
        let known = Memo::<Option<(String, String)>>::default();
        requests(s, move |request| {
            match request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id")) {
                Some(header) => known.set(Some(header.clone())),
                None => request.headers.extend(known.get()),
            }
        });
    }),
    mutant("invents-session-id", "Sends a session id where the server gave none.", |s| {
        requests(s, |request| {
            if is_mcp(request) && !has_session(request) && !carries(request, "initialize") {
                request.headers.push(("Mcp-Session-Id".into(), "invented".into()));
            }
        });
    }),
    mutant("takes-each-data-line-for-a-message", "Takes each data line of an event for a message.", |s| {
        streams(
            s,
            |_| true,
            || {
                let mut line = Vec::new();
                move |chunk: &[u8]| {
                    let mut out = Vec::new();
                    for &byte in chunk {
                        line.push(byte);
                        if byte == b'\n' {
                            let data = line.starts_with(b"data:");
                            out.append(&mut line);
                            out.extend_from_slice(if data { b"\n" } else { b"" });
                        }
                    }
                    Ok(out)
                }
            },
        );
    }),
    mutant("reads-sse-by-chunk", "Takes each piece of a stream that arrives for a whole event.", |s| {
        streams(s, |_| true, || |chunk: &[u8]| Ok([chunk, b"\n\n"].concat()));
    }),
    mutant(
        "takes-first-event-for-the-answer",
        "Reads only the first event of the stream that answers a request.",
        |s| {
            streams(
                s,
                |request| request.purpose == Purpose::McpPost,
                || {
                    let mut over = false;
                    move |chunk: &[u8]| {
                        if over {
                            return Err(broken("the first event was no answer"));
                        }
                        let text = String::from_utf8_lossy(chunk);
                        over = text.contains("\n\n");
                        Ok(text.split_inclusive("\n\n").next().unwrap_or_default().into())
                    }
                },
            );
        },
    ),
];
