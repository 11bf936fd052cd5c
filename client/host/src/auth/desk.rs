//! Where a person's part of a login is waited for.

use crate::error::HostError;
use async_trait::async_trait;
use sparring_client::Browser;
use sparring_profiles::Login;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use url::Url;

/// Tells the person where to sign in: server and address.
pub type Announce = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// What comes back from the browser.
#[derive(Clone, PartialEq, Eq)]
pub enum WayBack {
    /// The address that the browser was sent to at the end, pasted by the person.
    Pasted(String),
    /// The parameters of that address, forwarded by another machine.
    Forwarded(Vec<(String, String)>),
}

impl std::fmt::Debug for WayBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Both hold a code.
        f.write_str(match self {
            Self::Pasted(_) => "Pasted(..)",
            Self::Forwarded(_) => "Forwarded(..)",
        })
    }
}

/// The [`Browser`] of a host. It announces the address, opens it where there is a browser, and takes what comes back by
/// the ways that the host has; on loopback, the client listens by itself.
pub struct LoginDesk {
    ways: Vec<Login>,
    browser: Option<Arc<dyn Browser>>,
    announce: Announce,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    logins: BTreeMap<String, Waiting>,
}

struct Waiting {
    id: u64,
    url: String,
    back: oneshot::Sender<String>,
}

/// Takes the login away when it is over, or given up.
struct Leave<'a> {
    desk: &'a LoginDesk,
    server: &'a str,
    id: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut open = self.desk.open();
        if open.logins.get(self.server).is_some_and(|waiting| waiting.id == self.id) {
            open.logins.remove(self.server);
        }
    }
}

impl LoginDesk {
    /// A desk that has these ways. Without a browser, the person opens the announced address.
    pub fn new(ways: &[Login], browser: Option<Arc<dyn Browser>>, announce: Announce) -> Self {
        Self { ways: ways.to_vec(), browser, announce, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The logins that wait for a person: server and address.
    pub fn waiting(&self) -> Vec<(String, String)> {
        self.open().logins.iter().map(|(server, waiting)| (server.clone(), waiting.url.clone())).collect()
    }

    /// Something came back. Whether it is the answer to this very login is for the flow to say.
    ///
    /// # Errors
    /// The host does not have this way, or nobody waits for it.
    pub fn back(&self, server: &str, back: WayBack) -> Result<(), HostError> {
        let way = match &back {
            WayBack::Pasted(_) => Login::Paste,
            WayBack::Forwarded(_) => Login::Forward,
        };
        if !self.ways.contains(&way) {
            return Err(HostError::Refused("this host takes no answer by that way".to_owned()));
        }
        let mut open = self.open();
        let Some(waiting) = open.logins.get(server) else {
            return Err(HostError::Refused(format!("no login to {server:?} is under way")));
        };
        let url = match back {
            WayBack::Pasted(url) => url.trim().to_owned(),
            WayBack::Forwarded(parameters) => redirect(&waiting.url, &parameters).ok_or_else(|| {
                HostError::Refused(format!("the login to {server:?} has no redirect address"))
            })?,
        };
        if let Some(waiting) = open.logins.remove(server) {
            // A flow that was given up no longer listens.
            drop(waiting.back.send(url));
        }
        Ok(())
    }
}

/// The address that the browser would have been sent to.
fn redirect(authorization: &str, parameters: &[(String, String)]) -> Option<String> {
    let authorization = Url::parse(authorization).ok()?;
    let (_, uri) = authorization.query_pairs().find(|(name, _)| name == "redirect_uri")?;
    let mut url = Url::parse(&uri).ok()?;
    url.query_pairs_mut().extend_pairs(parameters);
    Some(url.into())
}

#[async_trait]
impl Browser for LoginDesk {
    async fn open(&self, server: &str, url: &str) -> Result<Option<String>, String> {
        let (back, came) = oneshot::channel();
        let id = {
            let mut open = self.open();
            let id = open.next;
            open.next += 1;
            open.logins.insert(server.to_owned(), Waiting { id, url: url.to_owned(), back });
            id
        };
        let _leave = Leave { desk: self, server, id };
        (self.announce)(server, url);
        let came = async { came.await.map(Some).map_err(|_| "another login took its place".to_owned()) };
        let listens = self.ways.contains(&Login::Loopback);
        match self.browser.as_ref().filter(|_| listens) {
            Some(browser) => tokio::select! {
                answer = came => answer,
                Ok(seen) = browser.open(server, url) => Ok(seen),
            },
            None => came.await,
        }
    }
}
