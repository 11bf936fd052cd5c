//! The default [`HttpClient`]: hyper's connections, pooled here.
//!
//! A call of a tool is one small exchange on a connection that is open already. What stands between it and hyper is a
//! map of idle connections and nothing else; see the benches for what that is worth.

use super::client::{HttpBody, HttpClient, HttpError, HttpRequest, HttpResponse};
use super::pool::{Lease, Origin, Pool};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use url::{Position, Url};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("sparring-client/", env!("CARGO_PKG_VERSION")));

/// The default [`HttpClient`]: HTTP/1.1 over hyper, with a pool of connections of its own, and without proxies, cookies or
/// redirects. `https` needs the Cargo feature `tls`, which is on by default: rustls with the operating system's roots.
#[derive(Debug, Clone)]
pub struct SystemHttp {
    pool: Arc<Pool>,
}

impl SystemHttp {
    /// A client with a connection pool of its own.
    ///
    /// # Errors
    /// None today; kept for clients that have something to set up.
    pub fn new() -> Result<Self, HttpError> {
        Ok(Self { pool: Arc::new(Pool::default()) })
    }

    /// Trusts these root certificates (PEM) beside those of the operating system.
    ///
    /// # Errors
    /// If `pem` holds no certificate, or one that can't be read.
    #[cfg(feature = "tls")]
    pub fn with_roots(pem: &[u8]) -> Result<Self, HttpError> {
        Ok(Self { pool: Arc::new(Pool::with_roots(super::tls::roots(pem)?)) })
    }
}

#[async_trait]
impl HttpClient for SystemHttp {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (origin, mut message) = prepare(request)?;
        loop {
            let mut lease = self.pool.lease(&origin).await?;
            let (parts, body) = match lease.send(message).await {
                Ok(response) => response.into_parts(),
                Err(mut failed) => match failed.take_message() {
                    // The server closed the idle connection; nothing of the request went out on it.
                    Some(unsent) if lease.was_idle() => {
                        message = unsent;
                        continue;
                    }
                    _ => return Err(HttpError::Other(chain(failed.error()))),
                },
            };
            let headers = parts.headers.iter();
            let headers = headers
                .map(|(name, value)| {
                    (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
                })
                .collect();
            let body: HttpBody = Box::pin(Body::new(body, lease));
            return Ok(HttpResponse { status: parts.status.as_u16(), headers, body });
        }
    }
}

fn prepare(request: HttpRequest) -> Result<(Origin, Request<Full<Bytes>>), HttpError> {
    let other = |what: &str| HttpError::Other(what.to_owned());
    let url = Url::parse(&request.url).map_err(|error| HttpError::Other(format!("not a URL: {error}")))?;
    let origin = Origin::of(&url)?;
    let uri: Uri = url[Position::BeforePath..Position::AfterQuery]
        .parse()
        .map_err(|_| other("the path of the URL can't be sent"))?;
    let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| other("not an HTTP method"))?;
    let mut message = Request::new(Full::new(request.body.unwrap_or_default()));
    *message.method_mut() = method;
    *message.uri_mut() = uri;
    let headers = message.headers_mut();
    headers.insert(HOST, origin.host_header().ok_or_else(|| other("the host can't be sent"))?);
    headers.insert(USER_AGENT, AGENT);
    for (name, value) in &request.headers {
        let wrong = |_| HttpError::Other(format!("the header field `{name}` can't be sent"));
        let field = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(()))?;
        // The id of an event may be any text.
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| wrong(()))?;
        // The caller's own word on these two wins; any other name may occur twice.
        if field == HOST || field == USER_AGENT {
            headers.insert(field, value);
        } else {
            headers.append(field, value);
        }
    }
    Ok((origin, message))
}

/// A response's body, which gives its connection back when it has ended.
struct Body {
    incoming: Incoming,
    lease: Option<Lease>,
}

impl Body {
    fn new(incoming: Incoming, lease: Lease) -> Self {
        let mut body = Self { incoming, lease: Some(lease) };
        if body.incoming.is_end_stream() {
            body.done();
        }
        body
    }

    fn done(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

impl Stream for Body {
    type Item = Result<Bytes, HttpError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return Poll::Ready(match ready!(Pin::new(&mut self.incoming).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        if self.incoming.is_end_stream() {
                            self.done();
                        }
                        Some(Ok(data))
                    }
                    // Trailers.
                    Err(_) => continue,
                },
                Some(Err(error)) => {
                    self.lease = None;
                    Some(Err(HttpError::Other(chain(&error))))
                }
                None => {
                    self.done();
                    None
                }
            });
        }
    }
}

/// The causes matter more than the outermost error; the URL may hold secrets and is left out.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
