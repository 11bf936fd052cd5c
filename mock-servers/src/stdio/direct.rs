//! A stdio server that is this very process, without a harness at the other end of a side channel.

use super::Reporter;
use super::child::{CANNOT_START, describe};
use super::shell::{Setting, Shell};
use crate::core::Control;
use crate::platform;
use crate::script::ServerScript;
use sparring_wire::Revision;
use sparring_wire::transcript::{Process, What};
use std::fmt;
use std::io;
use std::sync::Arc;

/// What this process is to be.
pub struct OwnSpec {
    /// The server's script.
    pub script: ServerScript,
    /// The revision that it speaks.
    pub revision: Revision,
    /// The seed of all that is made up.
    pub seed: u64,
    /// Where observations go. Its `ending` is called before the process ends, whatever ends it but SIGKILL from outside.
    pub reporter: Arc<dyn Reporter>,
}

impl fmt::Debug for OwnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnSpec").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// This process as its client started it: signals blocked, and looked at before anything of ours was open.
pub struct OwnProcess {
    signals: platform::Signals,
    process: Process,
}

impl fmt::Debug for OwnProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnProcess").field("pid", &self.process.pid).finish_non_exhaustive()
    }
}

impl OwnProcess {
    /// Has to be called before any thread or runtime is started: signals are blocked for the whole process, and for all
    /// that it starts later.
    ///
    /// # Errors
    /// The system's.
    pub fn prepare() -> io::Result<Self> {
        // Before signals are blocked by us.
        let process = describe();
        Ok(Self { signals: platform::Signals::block()?, process })
    }

    /// Starts the threads around the core. The server has not begun yet: see [`OwnServer::run`].
    ///
    /// # Errors
    /// A thread can't be started, or the script wants a launcher or a lock: the process that the client has started is
    /// this one, and knows of no other.
    pub fn become_server(self, spec: OwnSpec) -> io::Result<OwnServer> {
        let process = &spec.script.process;
        if process.launcher.is_some() || process.single_instance {
            let why = "`launcher` and `single_instance` need a harness that starts the server";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let setting = Setting {
            script: spec.script,
            revision: spec.revision,
            incarnation: 1,
            seed: spec.seed,
            quiet: false,
            config: None,
        };
        spec.reporter.report(platform::monotonic_us(), What::ProcessStarted(self.process));
        Shell::start(setting, spec.reporter, self.signals).map(OwnServer)
    }
}

/// The server that this process is. Clones are the same.
#[derive(Clone)]
pub struct OwnServer(Arc<Shell>);

impl fmt::Debug for OwnServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnServer")
    }
}

impl OwnServer {
    /// The exit code of a mock that could not start.
    pub const CANNOT_START: u8 = CANNOT_START;

    /// Serves on stdin and stdout until the process ends.
    pub fn run(&self) -> ! {
        self.0.run()
    }

    /// Runs these actions now. They have run when this returns, but for those that wait for something. It may be held
    /// up by a client that does not read, and does not return if an action ends the process.
    pub fn control(&self, control: Control) {
        self.0.control(control);
    }

    /// Ends the process with this code, after the reporter has heard of it.
    pub fn exit(&self, code: i32) -> ! {
        self.0.report(What::ProcessExiting { code: Some(code), signal: None });
        self.0.exit(code)
    }
}
