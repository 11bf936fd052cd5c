//! A mock behind a port.

use super::ready::{Ready, VERSION};
use super::{ServeError, Settings};
use sparring_mock_servers::http::{HttpMock, HttpSpec, Numbers};
use sparring_mock_servers::sink::Sink;
use sparring_wire::Transport;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::io::AsyncReadExt;

/// Serves until somebody asks it to stop. Needs a running runtime.
///
/// # Errors
/// The port can't be had, or something can't be written.
pub async fn serve(settings: Settings, transport: Transport, port: u16) -> Result<(), ServeError> {
    let log = settings.open_log()?;
    let spec = HttpSpec {
        name: settings.source.name.clone(),
        script: settings.source.script.clone(),
        revision: settings.revision,
        transport,
        seed: settings.seed,
        sink: Arc::clone(&log) as Arc<dyn Sink>,
        quiet: false,
        numbers: Arc::new(Numbers::default()),
        port,
    };
    let mock = HttpMock::start(spec).map_err(|e| port_trouble(&e, port, "--port"))?;
    // Before anybody can know that it is there.
    let mut signals = pin!(crate::platform::asked_to_stop());
    let early = poll_fn(|cx| Poll::Ready(signals.as_mut().poll(cx))).await;
    let ready = Ready {
        sparring: "ready",
        version: VERSION,
        transport: if transport == Transport::SseLegacy { "sse" } else { "http" },
        revision: settings.revision.to_string(),
        url: Some(mock.url().to_owned()),
        command: None,
        authorization_server: mock.authorization_origin().map(str::to_owned),
        control: None,
        transcript: settings.transcript_name(),
        pid: std::process::id(),
    };
    settings.announce(&ready, io::stdout())?;
    if early.is_pending() {
        tokio::select! {
            _ = signals => {}
            () = stdin_ends(), if settings.stop_with_stdin => {}
        }
    }
    mock.shutdown().await;
    log.finish().map_err(ServeError::Unwritten)
}

/// What is wrong when a port can't be had; `flag` chooses it.
pub(super) fn port_trouble(error: &io::Error, port: u16, flag: &str) -> ServeError {
    if error.kind() == io::ErrorKind::AddrInUse {
        return ServeError::Usage(format!(
            "{flag}: port {port} is in use; name another, or leave the flag away and take the one of the ready line"
        ));
    }
    ServeError::Usage(format!("{flag}: can't listen on port {port}: {error}"))
}

/// Waits for the end of stdin; whatever comes before it is thrown away.
pub(super) async fn stdin_ends() {
    let mut stdin = tokio::io::stdin();
    let mut buffer = [0; 256];
    while matches!(stdin.read(&mut buffer).await, Ok(1..)) {}
}
