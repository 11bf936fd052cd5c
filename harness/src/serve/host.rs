//! Mocks beside this process: behind a port, or processes that the client starts. This process lives until it is asked
//! to stop.

use super::control::Door;
use super::log::Log;
use super::served::{Mock, Served};
use super::{ServeError, Settings};
use crate::run::Stop;
use crate::run::directory::{serve_folder, temporary_root};
use sparring_mock_servers::http::{HttpMock, HttpSpec, Numbers};
use sparring_mock_servers::sink::Sink;
use sparring_mock_servers::stdio::{StdioMock, StdioSpec};
use sparring_wire::Transport;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// How long processes that are about to leave may take, once the mock is asked to stop.
const LINGER: Duration = Duration::from_secs(2);
/// The same for the requests of those who control it.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Serves behind a port until somebody asks it to stop. Needs a running runtime.
///
/// # Errors
/// A port can't be had, or something can't be written.
pub async fn http(settings: &Settings, transport: Transport, port: u16) -> Result<(), ServeError> {
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
    let name = if transport == Transport::SseLegacy { "sse" } else { "http" };
    host(Mock::Http(mock), log, settings, name).await
}

/// Prints the command that starts a stdio server, and follows all its processes until somebody asks it to stop. Needs a
/// running runtime.
///
/// # Errors
/// A port can't be had, or something can't be written.
pub async fn broker(settings: &Settings) -> Result<(), ServeError> {
    let log = settings.open_log()?;
    let system = |e: io::Error| ServeError::System(format!("can't make the server ready: {e}"));
    let folder = temporary_root().and_then(|root| serve_folder(&root)).map_err(system)?;
    let mock = StdioMock::prepare(StdioSpec {
        name: settings.source.name.clone(),
        script: settings.source.script.clone(),
        revision: settings.revision,
        dir: folder.path().to_owned(),
        seed: settings.seed,
        sink: Arc::clone(&log) as Arc<dyn Sink>,
        quiet: false,
        program: None,
    })
    .map_err(system)?;
    host(Mock::Broker(mock), log, settings, "stdio").await
}

async fn host(
    mock: Mock,
    log: Arc<Log>,
    settings: &Settings,
    transport: &'static str,
) -> Result<(), ServeError> {
    let door = settings.control_port.map(Door::open).transpose()?;
    let address = door.as_ref().map(Door::address);
    let stop = Stop::default();
    let served = Served::new(mock, Arc::clone(&log), settings, transport, stop.clone());
    let control = door.map(|door| door.serve(Arc::clone(&served)));
    // Before anybody can know that it is there.
    let mut signals = pin!(crate::platform::asked_to_stop());
    let early = poll_fn(|cx| Poll::Ready(signals.as_mut().poll(cx))).await;
    let announced = settings.announce(&served.ready(settings, address), io::stdout());
    if announced.is_ok() && early.is_pending() {
        tokio::select! {
            _ = signals => {}
            () = stop.asked() => {}
            () = stdin_ends(), if settings.stop_with_stdin => {}
        }
    }
    if let Mock::Broker(mock) = &served.mock {
        let _ = tokio::time::timeout(LINGER, mock.all_ended()).await;
    }
    served.end();
    if let Some(mut control) = control
        && tokio::time::timeout(LAST_ANSWERS, &mut control).await.is_err()
    {
        // Somebody reads nothing of what they asked for.
        control.abort();
        let _ = control.await;
    }
    match Arc::into_inner(served).map(|served| served.mock) {
        Some(Mock::Http(mock)) => mock.shutdown().await,
        Some(Mock::Broker(mock)) => drop(mock.shutdown().await),
        // Whoever still holds it is a request that was given up, and ends with the runtime.
        Some(Mock::Own(_)) | None => {}
    }
    let finished = log.finish().map_err(ServeError::Unwritten);
    announced.and(finished)
}

/// What is wrong when a port can't be had; `flag` chooses it.
pub(super) fn port_trouble(error: &io::Error, port: u16, flag: &str) -> ServeError {
    if error.kind() == io::ErrorKind::AddrInUse {
        return ServeError::Usage(format!(
            "{flag}: port {port} is in use; name another, or leave the flag away and take the port of the ready line"
        ));
    }
    ServeError::Usage(format!("{flag}: can't listen on port {port}: {error}"))
}

/// Waits for the end of stdin; whatever comes before it is thrown away.
async fn stdin_ends() {
    let mut stdin = tokio::io::stdin();
    let mut buffer = [0; 256];
    while matches!(stdin.read(&mut buffer).await, Ok(1..)) {}
}
