//! Signals that end a program, and its servers with it.

use crate::host::Host;
use sparring_profiles::StopOn;
use std::io;

/// Waits for a signal after which the host stops its servers (`shutdown.on`), stops them, and returns the signal's
/// number, so that the program can exit with 128 and that. Other signals do what they do without it. Never returns if
/// there is no such signal.
///
/// # Errors
/// If signals can't be listened to.
pub async fn on_signal(host: &Host) -> io::Result<u8> {
    let settings = host.settings();
    let number = signal(&settings.shutdown.on).await?;
    host.close().await;
    Ok(number)
}

/// Waits for one of these signals and returns its number. Never returns if there are none.
///
/// # Errors
/// If signals can't be listened to.
#[cfg(unix)]
pub async fn signal(on: &[StopOn]) -> io::Result<u8> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |stop: StopOn, kind: SignalKind| {
        let wanted = on.contains(&stop);
        async move {
            if wanted {
                signal(kind)?.recv().await;
            } else {
                std::future::pending::<()>().await;
            }
            io::Result::Ok(u8::try_from(kind.as_raw_value()).unwrap_or_default())
        }
    };
    tokio::select! {
        number = listen(StopOn::Sigint, SignalKind::interrupt()) => number,
        number = listen(StopOn::Sigterm, SignalKind::terminate()) => number,
        number = listen(StopOn::Sighup, SignalKind::hangup()) => number,
    }
}

/// Waits for the user to interrupt the program, if that is one of these, and returns the number of SIGINT.
///
/// # Errors
/// If that can't be listened to.
#[cfg(not(unix))]
pub async fn signal(on: &[StopOn]) -> io::Result<u8> {
    const SIGINT: u8 = 2;
    match on.contains(&StopOn::Sigint) {
        true => tokio::signal::ctrl_c().await.map(|()| SIGINT),
        false => std::future::pending().await,
    }
}
