//! A stdio mock that is this very process.

use super::control::Door;
use super::log::Log;
use super::served::{Mock, Served};
use super::{ServeError, Settings};
use crate::run::Stop;
use sparring_mock_servers::stdio::{OwnProcess, OwnServer, OwnSpec, Reporter};
use sparring_wire::transcript::What;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{self, Runtime};
use tokio::task::JoinHandle;

/// How long answers to those who control it may take, once the process is to end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Serves on stdin and stdout until the process ends, which this call does not outlive. `process` has been prepared
/// before anything else.
///
/// # Errors
/// It could not be started.
pub fn serve(process: OwnProcess, settings: &Settings) -> Result<Infallible, ServeError> {
    let log = settings.open_log()?;
    let own = Arc::new(Own { log: Arc::clone(&log), controlled: Mutex::default() });
    let system = |e: io::Error| ServeError::System(format!("can't start: {e}"));
    let server = process
        .become_server(OwnSpec {
            script: settings.source.script.clone(),
            revision: settings.revision,
            seed: settings.seed,
            reporter: Arc::clone(&own) as Arc<dyn Reporter>,
        })
        .map_err(|e| match e.kind() {
            io::ErrorKind::Unsupported => ServeError::Usage(format!("{e}; --broker has one")),
            _ => system(e),
        })?;
    let stop = Stop::default();
    let served = Served::new(Mock::Own(server.clone()), log, settings, "stdio", stop.clone());
    let address = match settings.control_port {
        None => None,
        Some(port) => {
            // One thread is enough, and a mock is to be small.
            let runtime = runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .map_err(system)?;
            let entered = runtime.enter();
            let door = Door::open(port)?;
            let address = door.address();
            let serving = door.serve(Arc::clone(&served));
            runtime.spawn(stop_when_asked(stop, server.clone()));
            drop(entered);
            own.controlled().replace(Controlled { served: Arc::clone(&served), serving, runtime });
            Some(address)
        }
    };
    settings.announce(&served.ready(settings, address), io::stderr())?;
    server.run()
}

/// Ends the process when the control API was asked for it.
async fn stop_when_asked(stop: Stop, server: OwnServer) {
    stop.asked().await;
    // Not on the runtime's only thread, which has to give the last answers.
    let _ = std::thread::Builder::new().name("stop".into()).spawn(move || server.exit(0));
}

struct Own {
    log: Arc<Log>,
    controlled: Mutex<Option<Controlled>>,
}

/// The control API of this process.
struct Controlled {
    served: Arc<Served>,
    serving: JoinHandle<()>,
    runtime: Runtime,
}

impl Own {
    fn controlled(&self) -> std::sync::MutexGuard<'_, Option<Controlled>> {
        self.controlled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reporter for Own {
    fn report(&self, monotonic_us: u64, what: What) {
        self.log.add(Some(1), monotonic_us, what);
    }

    fn flush(&self) {
        self.log.flush();
    }

    fn ending(&self) {
        // Held to the end: a second thread that wants to end the process must not do so before the first is through.
        let mut controlled = self.controlled();
        if let Some(Controlled { served, serving, runtime }) = controlled.take() {
            served.end();
            // This thread is none of the runtime's, or one that may block.
            let (done, wait) = std::sync::mpsc::channel();
            runtime.spawn(async move {
                let _ = serving.await;
                let _ = done.send(());
            });
            let _ = wait.recv_timeout(LAST_ANSWERS);
            // Whatever still runs there ends with the process.
            runtime.shutdown_background();
        }
        if let Err(why) = self.log.finish() {
            crate::cli::error(&why);
        }
    }
}
