//! The commands.

mod call;
mod look;
mod read;
mod servers;
mod sign_in;

use crate::app::{App, Open};
use crate::args::{Args, Command};
use crate::failure::{Code, Failure};
use sparring_host::ServerEntry;
use tokio::sync::watch;

/// Whether the command is to end early, and with which code.
#[derive(Clone)]
pub(crate) struct Stop(pub(crate) watch::Receiver<Option<Code>>);

impl Stop {
    /// Waits for it; never, if nobody can tell any more.
    pub(crate) async fn told(&self) -> Failure {
        let mut receiver = self.0.clone();
        let code = receiver.wait_for(Option::is_some).await.ok().and_then(|code| *code);
        match code {
            Some(code) => Failure::told(code),
            None => std::future::pending().await,
        }
    }
}

/// Does what the command line says.
pub(crate) async fn run(args: Args, stop: Stop) -> Result<(), Failure> {
    let app = App::new(args.global)?;
    match args.command {
        Command::Add(add) => servers::add(&app, add),
        Command::List => servers::list(&app),
        Command::Get { name } => servers::get(&app, &name),
        Command::Remove { name, project } => servers::remove(&app, &name, project),
        Command::Status { name } => look::status(&app, name.as_deref(), &stop).await,
        Command::Tools { server, schema } => look::tools(&app, server.as_deref(), schema, &stop).await,
        Command::Resources { server } => look::resources(&app, server.as_deref(), &stop).await,
        Command::Prompts { server } => look::prompts(&app, server.as_deref(), &stop).await,
        Command::Call { server, tool, arguments, save } => {
            let what = call::What { server, tool, arguments, save };
            call::call(&app, what, &stop).await
        }
        Command::Read { uri, server } => read::read(&app, &uri, server.as_deref(), &stop).await,
        Command::Prompt { name, arguments, server } => {
            read::prompt(&app, &name, &arguments, server.as_deref(), &stop).await
        }
        Command::Login { name, no_browser } => sign_in::login(&app, &name, no_browser, &stop).await,
        Command::Logout { name } => sign_in::logout(&app, &name).await,
        // Taken before there is a runtime: it has its own.
        Command::Adapter => Ok(()),
        // Taken before the command line is read; here for the help.
        Command::Official { url } => {
            Err(Failure::new(Code::Usage, format!("official {url}: MCP_CONFORMANCE_SCENARIO is not set")))
        }
    }
}

/// Works with open servers, and closes them whatever comes of it.
async fn with<T>(
    app: &App,
    entries: Vec<ServerEntry>,
    stop: &Stop,
    work: impl AsyncFnOnce(&Open) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let open = tokio::select! {
        open = app.open(entries) => open?,
        failure = stop.told() => return Err(failure),
    };
    let outcome = work(&open).await;
    open.close().await;
    outcome
}

/// The outcome, unless the command is to end before.
async fn unless<T>(stop: &Stop, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        outcome = work => outcome,
        failure = stop.told() => Err(failure),
    }
}
