//! Signing in, for the session's user.

use super::Session;
use crate::auth::WayBack;
use crate::error::HostError;
use crate::server::Wish;

impl Session {
    /// Signs in to a server, and starts it. The address to sign in at is an event
    /// ([`EventName::AuthUrl`](sparring_profiles::EventName::AuthUrl)); what comes back is seen on loopback, or brought
    /// by [`Session::login_back`].
    ///
    /// # Errors
    /// Why that failed.
    pub async fn login(&self, server: &str) -> Result<(), HostError> {
        let done = async {
            let share = self.share_of(server)?;
            share.server.login().await?;
            share.server.ready(Wish::Manual).await.map(drop)
        };
        done.await.map_err(|error| self.context().parts.redact.failure(error))
    }

    /// Brings what has come back from the browser of a login that is under way.
    ///
    /// # Errors
    /// The host does not have this way, or nobody waits for it.
    pub fn login_back(&self, server: &str, back: WayBack) -> Result<(), HostError> {
        self.context().desk.back(server, back)
    }

    /// The logins that wait for their user: server and address.
    pub fn logins(&self) -> Vec<(String, String)> {
        self.context().desk.waiting()
    }

    /// Forgets the credentials of a server, and ends its connection.
    ///
    /// # Errors
    /// They can't be removed.
    pub async fn logout(&self, server: &str) -> Result<(), HostError> {
        let done = async { self.share_of(server)?.server.logout().await };
        done.await.map_err(|error| self.context().parts.redact.failure(error))
    }
}
