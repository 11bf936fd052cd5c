//! Calls of a server's tools, across crashes.

use super::{Server, Wish};
use crate::error::HostError;
use crate::events::SessionId;
use serde_json::{Map, Value};
use sparring_client::{CallOptions, CallResult, Error};
use sparring_profiles::{Reset, Trigger};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counted as long as a call is under way.
struct Flight {
    flights: Arc<Mutex<BTreeMap<SessionId, usize>>>,
    session: SessionId,
}

impl Flight {
    fn new(server: &Server, session: SessionId) -> Self {
        let flights = Arc::clone(&server.flights);
        *flights.lock().unwrap_or_else(PoisonError::into_inner).entry(session).or_default() += 1;
        Self { flights, session }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = flights.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                flights.remove(&self.session);
            }
        }
    }
}

/// What became of one attempt of a call.
enum Attempt {
    Done(Result<CallResult, HostError>),
    /// The server has ended meanwhile.
    Died(HostError),
}

impl Server {
    /// Calls a tool by its raw name.
    pub(crate) async fn call(
        self: &Arc<Self>,
        session: SessionId,
        tool: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<CallResult, HostError> {
        let result = self.call_to_the_end(session, tool, arguments, options).await;
        if !self.context.settings().transports.persist {
            self.part().await;
        }
        result
    }

    async fn call_to_the_end(
        self: &Arc<Self>,
        session: SessionId,
        tool: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<CallResult, HostError> {
        let _flight = Flight::new(self, session);
        let settings = self.context.settings();
        let died = match self.attempt(tool, &arguments, &options).await? {
            Attempt::Done(result) => return result,
            Attempt::Died(error) => error,
        };
        let by_hand = matches!(died, HostError::Restarted(_));
        if by_hand {
            if !settings.pool.restart_retries {
                return Err(died);
            }
        } else {
            let retry = settings.restart.retry_call;
            let now = match settings.restart.transports.contains(&super::target::transport(self.kind)) {
                false => false,
                true => match settings.restart.trigger {
                    Trigger::FailingCall => true,
                    Trigger::NextCall | Trigger::AtOnce => retry,
                    Trigger::Manual | Trigger::Never => false,
                },
            };
            if !now {
                return Err(died);
            }
            let revived = {
                let _starting = self.starting.lock().await;
                self.revive(&settings).await
            };
            if revived.is_err() || !retry {
                return Err(died);
            }
        }
        match self.attempt(tool, &arguments, &options).await? {
            Attempt::Done(result) => result,
            Attempt::Died(error) => Err(error),
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        tool: &str,
        arguments: &Map<String, Value>,
        options: &CallOptions,
    ) -> Result<Attempt, HostError> {
        let (connection, generation) = self.ready(Wish::Call).await?;
        let result = connection.call_with(tool, arguments.clone(), options.clone()).await;
        let error = match result {
            Ok(result) => {
                if self.context.settings().restart.reset_on == Reset::Call {
                    self.state().attempts = 0;
                }
                return Ok(Attempt::Done(Ok(result)));
            }
            Err(error) => error,
        };
        if self.state().restarted == Some(generation) && matches!(error, Error::Closed(_)) {
            return Ok(Attempt::Died(HostError::Restarted(self.entry.name.clone())));
        }
        match connection.closed() {
            Some(closed) => {
                self.went_down(generation, &closed);
                Ok(Attempt::Died(self.failed(error)))
            }
            None => Ok(Attempt::Done(Err(self.failed(error)))),
        }
    }
}
