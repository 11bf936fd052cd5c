//! Signing in to servers, and out.

use super::look::of;
use super::{Stop, unless};
use crate::app::App;
use crate::failure::{Code, Failure};
use crate::{output, person};
use serde_json::json;
use sparring_client::oauth::SystemBrowser;
use sparring_client::{Browser, Client, HttpTarget, Settings, Target};
use sparring_host::auth::{LoginDesk, WayBack, sign_in};
use sparring_host::clock::Clock;
use sparring_host::env::target;
use sparring_host::store::credentials::unsupported;
use sparring_host::{HostParts, ServerEntry};
use sparring_profiles::Login;
use std::sync::Arc;

/// The client that signs in to a server, and the server.
fn client(app: &App, entry: &ServerEntry, desk: Arc<LoginDesk>) -> Result<(Client, HttpTarget), Failure> {
    if let Some(why) = unsupported(app.settings.auth.store) {
        return Err(Failure::new(Code::Usage, why));
    }
    let parts = HostParts::new(&app.settings, &app.around, Clock::default());
    let (entry, target) = target(&*parts.env, entry, &app.around)?;
    let Target::Http(http) = target else {
        return Err(Failure::new(Code::Usage, format!("{} is no server over HTTP", entry.name)));
    };
    // Whoever signs in by hand wants it, whatever the server says of itself.
    let wanted = ServerEntry { auth: entry.auth.clone().or_else(|| Some(json!("oauth"))), ..entry };
    let signed = sign_in(&app.settings.auth, &wanted, http.headers)?;
    let Some(oauth) = signed.oauth else {
        return Err(Failure::new(Code::Usage, format!("the host {:?} has no sign-in", app.global.profile)));
    };
    let settings =
        Settings { oauth: Some(oauth), offer: app.settings.protocol.offers, ..Settings::default() };
    let client = Client::builder(settings).browser(desk).credentials(parts.credentials).build();
    Ok((client, HttpTarget { url: http.url, headers: signed.headers }))
}

pub(super) async fn login(app: &App, name: &str, no_browser: bool, stop: &Stop) -> Result<(), Failure> {
    let entry = app.entry(&app.load()?, name)?;
    let ways = app.settings.auth.login.clone();
    let browser = (!no_browser).then(|| Arc::new(SystemBrowser::default()) as Arc<dyn Browser>);
    let pastes = ways.contains(&Login::Paste);
    let (shown, mut announced) = tokio::sync::mpsc::unbounded_channel();
    let desk = Arc::new(LoginDesk::new(
        &ways,
        browser,
        Arc::new(move |_: &str, url: &str| {
            output::note(&format!("Sign in at\n  {url}"));
            // If the paste below is over, so is the login.
            let _ = shown.send(());
        }),
    ));
    let (client, target) = client(app, &entry, Arc::clone(&desk))?;
    let pasted = async {
        announced.recv().await;
        if !pastes {
            return std::future::pending().await;
        }
        loop {
            let question = "If the browser runs elsewhere, paste the address that it ends at: ";
            let Some(address) = person::ask(question.to_owned()).await else { break };
            match desk.back(name, WayBack::Pasted(address)) {
                Ok(()) => break,
                Err(error) => output::note(&app.clean(&error.to_string())),
            }
        }
        std::future::pending::<()>().await;
    };
    unless(stop, async {
        tokio::select! {
            outcome = client.login(name, &target) => outcome.map(drop).map_err(|error| of(app, name, error)),
            () = pasted => Ok(()),
        }
    })
    .await?;
    if app.global.json {
        output::json(&json!({"name": name, "signedIn": true}));
    } else {
        output::line(&format!("signed in to {name}"));
    }
    Ok(())
}

pub(super) async fn logout(app: &App, name: &str) -> Result<(), Failure> {
    let entry = app.entry(&app.load()?, name)?;
    let desk = Arc::new(LoginDesk::new(&[], None, Arc::new(|_: &str, _: &str| {})));
    let (client, target) = client(app, &entry, desk)?;
    let keys = client.logout(&target).await.map_err(|error| of(app, name, error))?;
    if app.global.json {
        output::json(&json!({"name": name, "forgotten": keys.len()}));
    } else if keys.is_empty() {
        output::line(&format!("there were no credentials for {name}"));
    } else {
        output::line(&format!("signed out of {name}"));
    }
    Ok(())
}
