//! A mock that is being served, as the control API sees it.

use super::log::Log;
use super::{Settings, ready};
use crate::run::Stop;
use sparring_mock_servers::core::Control;
use sparring_mock_servers::http::HttpMock;
use sparring_mock_servers::stdio::{Controlled, OwnServer, StdioMock};
use sparring_wire::Revision;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// The mock with all that is known of it.
pub(super) struct Served {
    pub(super) mock: Mock,
    pub(super) log: Arc<Log>,
    pub(super) transport: &'static str,
    pub(super) revision: Revision,
    pub(super) server: String,
    stop: Stop,
    ended: watch::Sender<bool>,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// The kinds of mock.
pub(super) enum Mock {
    /// Behind a port.
    Http(HttpMock),
    /// Processes that the client starts.
    Broker(StdioMock),
    /// This process.
    Own(OwnServer),
}

/// What came of actions.
#[derive(Debug)]
pub(super) enum Acted {
    /// They have run, in this process (stdio).
    Done(Option<u32>),
    /// This process ended before it could say so.
    Ended(Option<u32>),
    /// There is no process.
    NoProcess,
}

impl Served {
    pub(super) fn new(
        mock: Mock,
        log: Arc<Log>,
        settings: &Settings,
        transport: &'static str,
        stop: Stop,
    ) -> Arc<Self> {
        Arc::new(Self {
            mock,
            log,
            transport,
            revision: settings.revision,
            server: settings.source.name.clone(),
            stop,
            ended: watch::Sender::new(false),
        })
    }

    /// The ready line.
    pub(super) fn ready(&self, settings: &Settings, control: Option<ready::ControlAddress>) -> ready::Ready {
        let (mut url, mut command, mut authorization_server) = (None, None, None);
        let mut credentials = serde_json::Map::new();
        match &self.mock {
            Mock::Http(mock) => {
                url = Some(mock.url().to_owned());
                authorization_server = mock.authorization_origin().map(str::to_owned);
                credentials.clone_from(mock.hand_out());
            }
            Mock::Broker(mock) => command = Some(mock.command()),
            Mock::Own(_) => {}
        }
        ready::Ready {
            sparring: "ready",
            version: ready::VERSION,
            transport: self.transport,
            revision: self.revision.to_string(),
            url,
            command,
            authorization_server,
            credentials,
            control,
            transcript: settings.transcript.as_ref().map(|path| path.display().to_string()),
            pid: std::process::id(),
        }
    }

    /// Runs actions now.
    pub(super) async fn act(&self, incarnation: Option<u32>, control: Control) -> Acted {
        match &self.mock {
            Mock::Http(mock) => {
                mock.control(control);
                Acted::Done(None)
            }
            Mock::Broker(mock) => match mock.control(incarnation, control).await {
                Controlled::Done { incarnation } => Acted::Done(Some(incarnation)),
                Controlled::Ended { incarnation } => Acted::Ended(Some(incarnation)),
                Controlled::NoProcess => Acted::NoProcess,
            },
            Mock::Own(server) => {
                let server = server.clone();
                // A client that does not read holds it up, and an action that ends the process does not return.
                let acting = tokio::task::spawn_blocking(move || server.control(control));
                tokio::select! {
                    _ = acting => Acted::Done(Some(1)),
                    () = self.ended() => Acted::Ended(Some(1)),
                }
            }
        }
    }

    /// Asks it to stop.
    pub(super) fn stop(&self) {
        self.stop.ask();
    }

    /// Ends waits and streams of the control API.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}
