//! Signing in to a server, as a step of its own.

use super::Server;
use super::target::{self, Way};
use crate::error::HostError;
use serde_json::json;
use sparring_client::{Error, HttpTarget, Target};
use sparring_profiles::EventName;

impl Server {
    /// Where it is, if it is a server that one can sign in to.
    fn door(&self) -> Result<(HttpTarget, sparring_client::Settings), HostError> {
        let refused = |why: &str| HostError::Refused(format!("{}: {why}", self.entry.name));
        let settings = self.context.settings();
        if !settings.auth.oauth {
            return Err(refused("this host does not sign in to servers"));
        }
        let seconds = settings.timeouts.startup_s;
        let Way { target, settings } = target::way(&self.context, &self.entry, &self.place, seconds)?;
        match target {
            Target::Http(http) | Target::Sse(http) => Ok((http, settings)),
            _ => Err(refused("one signs in to servers over HTTP")),
        }
    }

    /// Asks the user to sign in, whatever credentials there are. What comes back by another way than loopback is handed
    /// to the desk.
    pub(crate) async fn login(&self) -> Result<(), HostError> {
        let (http, client) = self.door()?;
        let client = self.client(client);
        match client.login(&self.entry.name, &http).await {
            Ok(_) => {
                self.tell(EventName::AuthSuccess, &[]);
                Ok(())
            }
            Err(error) => {
                let error = self.failed(error);
                let shown = error.shown(&self.context.settings().errors);
                self.tell(EventName::AuthError, &[("error", json!(shown))]);
                Err(error)
            }
        }
    }

    /// Forgets its credentials, and ends the connection that uses them.
    pub(crate) async fn logout(&self) -> Result<(), HostError> {
        let (http, _) = self.door()?;
        let store = &self.context.parts.credentials;
        let failed =
            |error: &dyn std::fmt::Display| self.failed(Error::Start(format!("the credentials: {error}")));
        for (key, _) in store.of_server(&http.url).await.map_err(|error| failed(&error))? {
            store.remove(&key).await.map_err(|error| failed(&error))?;
        }
        self.stop().await;
        Ok(())
    }
}
