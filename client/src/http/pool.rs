//! Connections to HTTP servers, used again when they are idle.

use super::client::HttpError;
use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HeaderValue;
use hyper::rt::{Read, Write};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use url::{Host, Url};

type Message = Request<Full<Bytes>>;

/// How long connecting may take, TLS included.
const CONNECT: Duration = Duration::from_secs(10);

/// Longer than this an idle connection is not trusted: what stands in between may have forgotten it without a word.
const IDLE: Duration = Duration::from_secs(60);

/// More idle connections to one origin than are ever of use again.
const KEPT: usize = 64;

/// Where a connection leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    tls: bool,
    /// As in the URL; an IPv6 address without brackets.
    host: String,
    ipv6: bool,
    port: u16,
}

impl Origin {
    pub(super) fn of(url: &Url) -> Result<Self, HttpError> {
        let other = |what: &str| HttpError::Other(what.to_owned());
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(other("the URL is neither http nor https")),
        };
        let (host, ipv6) = match url.host() {
            Some(Host::Domain(name)) => (name.to_owned(), false),
            Some(Host::Ipv4(address)) => (address.to_string(), false),
            Some(Host::Ipv6(address)) => (address.to_string(), true),
            None => return Err(other("the URL has no host")),
        };
        let port = url.port_or_known_default().ok_or_else(|| other("the URL has no port"))?;
        Ok(Self { tls, host, ipv6, port })
    }

    /// The value of `Host`.
    pub(super) fn host_header(&self) -> Option<HeaderValue> {
        let default = if self.tls { 443 } else { 80 };
        let host = if self.ipv6 { format!("[{}]", self.host) } else { self.host.clone() };
        let value = if self.port == default { host } else { format!("{host}:{}", self.port) };
        HeaderValue::from_maybe_shared(value.into_bytes()).ok()
    }
}

struct Idle {
    sender: SendRequest<Full<Bytes>>,
    since: Instant,
}

/// Idle connections by origin, the one used last at the end.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<Origin, Vec<Idle>>>,
    #[cfg(feature = "tls")]
    tls: super::tls::Tls,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("origins", &self.idle().len()).finish_non_exhaustive()
    }
}

impl Pool {
    #[cfg(feature = "tls")]
    pub(super) fn with_roots(roots: Vec<super::tls::Root>) -> Self {
        Self { idle: Mutex::default(), tls: super::tls::Tls::with_roots(roots) }
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Origin, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to use for one exchange.
    pub(super) async fn lease(self: &Arc<Self>, origin: &Origin) -> Result<Lease, HttpError> {
        let lease =
            |sender, was_idle| Lease { sender, was_idle, origin: origin.clone(), pool: Arc::downgrade(self) };
        let Some(mut sender) = self.take_idle(origin) else {
            return Ok(lease(self.connect(origin).await?, false));
        };
        // Its last exchange may still be being wound up by the task that does so.
        for _ in 0..3 {
            if sender.is_ready() {
                return Ok(lease(sender, true));
            }
            tokio::task::yield_now().await;
        }
        let ready = Box::pin(async { sender.ready().await.map(|()| sender) });
        match select(ready, Box::pin(self.connect(origin))).await {
            Either::Left((Ok(sender), _)) => Ok(lease(sender, true)),
            Either::Left((Err(_), connecting)) => Ok(lease(connecting.await?, false)),
            Either::Right((connected, _)) => Ok(lease(connected?, false)),
        }
    }

    /// The idle connection used last; those that are closed or too old go.
    fn take_idle(&self, origin: &Origin) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle();
        let connections = idle.get_mut(origin)?;
        while let Some(Idle { sender, since }) = connections.pop() {
            if since.elapsed() > IDLE {
                // All others are older.
                connections.clear();
            } else if !sender.is_closed() {
                return Some(sender);
            }
        }
        idle.remove(origin);
        None
    }

    fn put_idle(&self, origin: Origin, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle();
        let connections = idle.entry(origin).or_default();
        if connections.len() >= KEPT {
            connections.remove(0);
        }
        connections.push(Idle { sender, since: Instant::now() });
    }

    async fn connect(&self, origin: &Origin) -> Result<SendRequest<Full<Bytes>>, HttpError> {
        let connected = timeout(CONNECT, async {
            let stream = dial(origin).await?;
            if !origin.tls {
                return shake_hands(TokioIo::new(stream)).await;
            }
            #[cfg(feature = "tls")]
            return shake_hands(TokioIo::new(self.tls.wrap(&origin.host, stream).await?)).await;
            #[cfg(not(feature = "tls"))]
            return Err(HttpError::Connect("https is not part of this build (Cargo feature `tls`)".into()));
        });
        let late = || HttpError::Connect(format!("no connection within {} s", CONNECT.as_secs()));
        connected.await.unwrap_or_else(|_| Err(late()))
    }
}

/// How long one of several addresses is tried before the next one is as well: a host whose IPv6 leads nowhere is reached
/// soon all the same.
const STAGGER: Duration = Duration::from_millis(250);

async fn dial(origin: &Origin) -> Result<TcpStream, HttpError> {
    let failed = |error: io::Error| HttpError::Connect(error.to_string());
    let addresses = tokio::net::lookup_host((origin.host.as_str(), origin.port)).await.map_err(failed)?;
    let mut addresses = addresses.peekable();
    let mut attempts = JoinSet::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    loop {
        if let Some(address) = addresses.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        let ended = if addresses.peek().is_some() {
            match timeout(STAGGER, attempts.join_next()).await {
                Ok(ended) => ended,
                Err(_) => continue,
            }
        } else {
            attempts.join_next().await
        };
        match ended {
            Some(Ok(Ok(stream))) => {
                // Small messages should not wait for acknowledgements; without it they are only slower.
                drop(stream.set_nodelay(true));
                return Ok(stream);
            }
            Some(Ok(Err(error))) => last = error,
            Some(Err(error)) => last = io::Error::other(error),
            None if addresses.peek().is_none() => return Err(failed(last)),
            None => {}
        }
    }
}

async fn shake_hands<T>(io: T) -> Result<SendRequest<Full<Bytes>>, HttpError>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let (sender, connection) =
        handshake(io).await.map_err(|error| HttpError::Connect(super::system::chain(&error)))?;
    // Whoever waits for a response learns of the error there.
    tokio::spawn(async { drop(connection.await) });
    Ok(sender)
}

/// A connection for one exchange. Dropped before the end of the exchange, it is closed.
pub(super) struct Lease {
    sender: SendRequest<Full<Bytes>>,
    was_idle: bool,
    origin: Origin,
    pool: Weak<Pool>,
}

impl Lease {
    /// Whether the connection was used before.
    pub(super) const fn was_idle(&self) -> bool {
        self.was_idle
    }

    pub(super) async fn send(
        &mut self,
        message: Message,
    ) -> Result<Response<Incoming>, TrySendError<Message>> {
        self.sender.try_send_request(message).await
    }

    /// The exchange is over: others may use the connection.
    pub(super) fn give_back(self) {
        if let Some(pool) = self.pool.upgrade()
            && !self.sender.is_closed()
        {
            pool.put_idle(self.origin, self.sender);
        }
    }
}
