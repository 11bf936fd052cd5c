//! One connection: requests and usual responses, by way of hyper.

use super::raw::{self, Socket, Taking};
use super::{Piece, Shared};
use crate::core::{Input, RawOut};
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use sparring_wire::transcript::{HttpRequest, HttpRole};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The largest body accepted, in bytes; more is answered 413.
const MAX_BODY: usize = 16 << 20;

/// Serves one connection to its end.
pub(super) async fn serve(stream: TcpStream, role: HttpRole, shared: Arc<Shared>) {
    // A small answer would wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let connection = shared.numbers.connection();
    if role == HttpRole::Mcp && !shared.connected.swap(true, Ordering::Relaxed) {
        shared.input(Input::Start);
    }
    let taking = Arc::new(Taking::default());
    let mut socket = Socket::new(stream, Bytes::new());
    loop {
        let service = service_fn(|request| {
            let (shared, taking) = (Arc::clone(&shared), Arc::clone(&taking));
            async move { Ok::<_, Infallible>(answer(request, role, connection, shared, taking).await) }
        });
        let mut served = hyper::server::conn::http1::Builder::new().serve_connection(socket, service);
        tokio::select! {
            biased;
            // A connection that fails is the client's doing or the script's, and reported by the guards of its
            // exchanges.
            _ = &mut served => return,
            () = taking.wanted() => {}
        }
        let parts = served.into_parts();
        let Some(taken) = taking.taken() else { return };
        match raw::write(parts.io, parts.read_buf, taken).await {
            Some(rest) => socket = rest,
            None => return,
        }
    }
}

/// Reads a request whole, hands it to the core and returns the response that the core begins.
async fn answer(
    request: Request<Incoming>,
    role: HttpRole,
    connection: u64,
    shared: Arc<Shared>,
    taking: Arc<Taking>,
) -> Response<Reply> {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            shared.fault(format!("a request body is larger than {MAX_BODY} bytes"));
            return response(&shared, 413, Vec::new(), Reply::whole(Vec::new()));
        }
        // The client broke off; nobody is there to read this.
        Err(_) => return response(&shared, 400, Vec::new(), Reply::whole(Vec::new())),
    };
    let (body, invalid_utf8) = match std::str::from_utf8(&body) {
        Ok(text) => (text.to_owned(), false),
        Err(_) => (String::from_utf8_lossy(&body).into_owned(), true),
    };
    let headers = head
        .headers
        .iter()
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    let exchange = shared.numbers.exchange();
    let (reply, mut pieces) = unbounded_channel();
    shared.state().replies.insert(exchange, reply);
    let guard = Guard { shared: Arc::clone(&shared), exchange };
    shared.input(Input::Request(Box::new(HttpRequest {
        exchange,
        connection,
        method: head.method.as_str().to_owned(),
        target: head.uri.path_and_query().map_or_else(|| head.uri.to_string(), ToString::to_string),
        headers,
        body,
        invalid_utf8,
        role,
    })));
    match pieces.recv().await {
        Some(Piece::Whole { status, headers, body }) => {
            response(&shared, status, headers, Reply::whole(body))
        }
        Some(Piece::Head { status, headers }) => {
            let stream = Pieces { open: Some((pieces, guard)), taking, flushing: false };
            response(&shared, status, headers, Reply::Stream(stream))
        }
        Some(Piece::Reset) => {
            taking.take_over(RawOut::Reset, pieces, guard);
            std::future::pending().await
        }
        Some(Piece::Raw(first)) => {
            taking.take_over(first, pieces, guard);
            std::future::pending().await
        }
        // Nothing else comes first; and the end without a beginning only when the mock shuts down.
        Some(Piece::Chunk(_) | Piece::End) | None => std::future::pending().await,
    }
}

fn response(shared: &Shared, status: u16, headers: Vec<(String, String)>, body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    match StatusCode::from_u16(status) {
        Ok(status) => *response.status_mut() = status,
        Err(_) => shared.fault(format!("{status} can't be sent as a status")),
    }
    for (name, value) in headers {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes())) {
            (Ok(name), Ok(value)) => {
                response.headers_mut().append(name, value);
            }
            _ => shared.fault(format!("the header field `{name}: {value}` can't be sent")),
        }
    }
    response
}

/// Tells the core when the client has gone away from an exchange; the core knows whether it was done with it.
pub(super) struct Guard {
    shared: Arc<Shared>,
    exchange: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.state().replies.remove(&self.exchange);
        self.shared.input(Input::Gone { exchange: self.exchange });
    }
}

/// The body of a response.
enum Reply {
    Whole(Option<Bytes>),
    Stream(Pieces),
}

impl Reply {
    fn whole(body: Vec<u8>) -> Self {
        Self::Whole((!body.is_empty()).then(|| body.into()))
    }
}

/// A body that comes in pieces, each flushed by itself.
struct Pieces {
    /// Where they come from, until the response is over.
    open: Option<(UnboundedReceiver<Piece>, Guard)>,
    taking: Arc<Taking>,
    /// A piece was handed over, and hyper is given the turn to write it.
    flushing: bool,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let stream = match self.get_mut() {
            Self::Whole(body) => return Poll::Ready(body.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => stream,
        };
        if std::mem::take(&mut stream.flushing) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some((pieces, _)) = &mut stream.open else { return Poll::Pending };
        let first = match pieces.poll_recv(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Piece::Chunk(bytes))) => {
                stream.flushing = true;
                return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
            }
            Poll::Ready(Some(Piece::Reset)) => RawOut::Reset,
            Poll::Ready(Some(Piece::Raw(first))) => first,
            Poll::Ready(_) => return Poll::Ready(None),
        };
        // What came before has been handed to the socket when the connection's task gets to it.
        if let Some((pieces, guard)) = stream.open.take() {
            stream.taking.take_over(first, pieces, guard);
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(body) => {
                hyper::body::SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
            Self::Stream(_) => hyper::body::SizeHint::default(),
        }
    }
}
