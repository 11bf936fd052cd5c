//! The control API: what a test asks of a served mock while it runs. HTTP on loopback, JSON, behind a bearer token.
//!
//! docs/serve.md describes it for its users.

mod body;
mod endpoints;
mod error;
mod wait;

use super::ready::ControlAddress;
use super::served::Served;
use super::{ServeError, host::port_trouble};
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use axum::{Router, http::header::AUTHORIZATION};
use error::ApiError;
use rand::Rng as _;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What all paths of this version start with.
const PREFIX: &str = "/v1";
/// The largest body that is read, in bytes.
const MAX_BODY: usize = 1 << 20;

/// A listener that does not serve yet, so that a port in use is known before anything else.
#[derive(Debug)]
pub(super) struct Door {
    listener: TcpListener,
    address: ControlAddress,
}

impl Door {
    /// Listens on a port of 127.0.0.1; 0 is any that is free. Needs a running runtime.
    pub(super) fn open(port: u16) -> Result<Self, ServeError> {
        let open = || {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        let trouble = |e| port_trouble(&e, port, "--control-port");
        let listener = open().map_err(trouble)?;
        let address = listener.local_addr().map_err(trouble)?;
        let mut secret = [0_u8; 16];
        rand::rng().fill_bytes(&mut secret);
        let token = secret.iter().map(|b| format!("{b:02x}")).collect();
        Ok(Self { listener, address: ControlAddress { url: format!("http://{address}{PREFIX}"), token } })
    }

    pub(super) fn address(&self) -> ControlAddress {
        self.address.clone()
    }

    /// Serves until [`Served::end`] is called, and then ends what is under way: waits are answered, streams end.
    pub(super) fn serve(self, served: Arc<Served>) -> JoinHandle<()> {
        let Self { listener, address } = self;
        let ending = Arc::clone(&served);
        let known = middleware::from_fn_with_state(address.token, admit);
        let app = Router::new()
            .route("/v1/state", get(endpoints::state))
            .route("/v1/transcript", get(endpoints::transcript))
            .route("/v1/transcript/stream", get(endpoints::stream))
            .route("/v1/actions", post(endpoints::actions))
            .route("/v1/wait", post(endpoints::wait))
            .route("/v1/stop", post(endpoints::stop))
            .method_not_allowed_fallback(|| async { ApiError::method() })
            .fallback(|| async { ApiError::path() })
            .layer(known)
            .with_state(served);
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        tokio::spawn(async move {
            let serving =
                axum::serve(listener, app).with_graceful_shutdown(async move { ending.ended().await });
            let _ = serving.await;
        })
    }
}

/// Lets in who knows the token: anything on the machine can reach the port, web pages included.
async fn admit(State(token): State<String>, request: Request, next: Next) -> Response {
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let known = given
        .and_then(|value| value.split_once(' '))
        .is_some_and(|(scheme, given)| scheme.eq_ignore_ascii_case("bearer") && given.trim() == token);
    if known { next.run(request).await } else { ApiError::unauthorized().into_response() }
}
