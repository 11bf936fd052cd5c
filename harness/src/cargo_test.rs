//! The `cargo test` front: every case is a test.

use crate::driver::Driver;
use crate::in_process::{Client, InProcess};
use crate::plan::{Filter, Planned};
use crate::run::{self, Stop};
use crate::session::{Options, Session};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sparring_reports::model::{CaseReport, Conclusion};
use sparring_reports::terminal::{self, TerminalOptions};
use sparring_scenarios::code::Severity;
use sparring_scenarios::profile::Profile;
use sparring_scenarios::{lint, load};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// What a test target may choose.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    profile: Option<PathBuf>,
    scenarios: Option<PathBuf>,
    seed: u64,
}

impl Settings {
    /// Checks the promises of this host profile too.
    #[must_use]
    pub fn profile(mut self, file: impl Into<PathBuf>) -> Self {
        self.profile = Some(file.into());
        self
    }

    /// Adds the scenarios of this folder.
    #[must_use]
    pub fn scenarios(mut self, folder: impl Into<PathBuf>) -> Self {
        self.scenarios = Some(folder.into());
        self
    }

    /// The seed of all that looks random in the servers; 0 by default.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// The whole of a `[[test]] harness = false` target: runs every case that applies to `C`, each as a test of its own
/// that `cargo test`, `cargo nextest` and editors know by the case's id. What the client can't do is ignored, with the
/// reason.
///
/// Call it first in `main`: the scripted stdio servers are this executable, executed again.
///
/// ```no_run
/// # use sparring::{Settings, op, driver::{CaseContext, Hello, Target}, in_process::Returned};
/// # struct MyClient;
/// # #[async_trait::async_trait]
/// # impl sparring::Client for MyClient {
/// #     fn hello() -> Hello { Hello::default() }
/// #     fn new(_: &CaseContext) -> Self { Self }
/// #     async fn open(&self, _: std::collections::BTreeMap<String, Target>, _: &op::Open) -> Returned { Ok(Default::default()) }
/// #     async fn tools(&self, _: &op::Of) -> Returned { Ok(Default::default()) }
/// #     async fn call(&self, _: &op::Call) -> Returned { Ok(Default::default()) }
/// #     async fn close(&self, _: &op::Of) -> Returned { Ok(Default::default()) }
/// # }
/// fn main() -> std::process::ExitCode {
///     sparring::cargo_test::<MyClient>(&Settings::default().profile("my-host.toml"))
/// }
/// ```
pub fn cargo_test<C: Client>(settings: &Settings) -> ExitCode {
    if let Some(code) = run::hand_over() {
        return code;
    }
    cargo_test_with(Arc::new(InProcess::<C>::default()), settings)
}

/// The same for any driver, such as [`crate::drivers::Adapter`]. The caller has to call [`run::hand_over`] first.
pub fn cargo_test_with(driver: Arc<dyn Driver>, settings: &Settings) -> ExitCode {
    let arguments = Arguments::from_args();
    match prepare(driver, settings) {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(message) => {
            crate::cli::error(&message);
            ExitCode::from(2)
        }
    }
}

fn prepare(driver: Arc<dyn Driver>, settings: &Settings) -> Result<Vec<Trial>, String> {
    let render = |all: Vec<sparring_scenarios::diagnostic::Diagnostic>| {
        all.iter().map(|d| d.render(false)).collect::<Vec<_>>().join("\n")
    };
    let mut loaded = load::embedded().map_err(render)?;
    if let Some(folder) = &settings.scenarios {
        loaded.extend(load::load(folder).map_err(render)?);
        let mut wrong = lint::lint(&loaded);
        wrong.retain(|d| d.severity == Severity::Error);
        if !wrong.is_empty() {
            return Err(render(wrong));
        }
    }
    let profile = settings.profile.as_deref().map(Profile::load).transpose().map_err(|d| render(vec![d]))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("can't start the runtime: {e}"))?;
    let scenarios = loaded.into_iter().map(|l| l.scenario).collect();
    let session = runtime
        .block_on(Session::open(driver, scenarios, profile, String::new()))
        .map_err(|e| e.to_string())?;
    let planned = session.plan(&Filter::default()).map_err(|e| e.to_string())?;
    let (session, runtime, seed) = (Arc::new(session), Arc::new(runtime), settings.seed);
    Ok(planned
        .into_iter()
        .map(|planned| {
            let (session, runtime) = (Arc::clone(&session), Arc::clone(&runtime));
            Trial::ignorable_test(planned.case.id.clone(), move || {
                if let Some((verdict, reason)) = &planned.skip {
                    return Ok(Completion::ignored_with(format!("{}: {reason}", verdict.word())));
                }
                runtime.block_on(trial(&session, planned, seed))
            })
        })
        .collect())
}

async fn trial(session: &Arc<Session>, planned: Planned, seed: u64) -> Result<Completion, Failed> {
    let mut settings =
        run::Settings::new().map_err(|e| Failed::from(format!("can't prepare the case: {e}")))?;
    settings.seed = seed;
    let options = Options { allow_unsupported: true };
    let finished = session.run(vec![planned], settings, options, &Stop::default(), |_: &CaseReport| {}).await;
    if finished.report.conclusion == Conclusion::Passed {
        return Ok(Completion::Completed);
    }
    let mut report = finished.report;
    let test = std::env::current_exe().ok();
    for case in &mut report.cases {
        let program = test.as_deref().and_then(|p| p.file_name()).unwrap_or_default().to_string_lossy();
        // Cargo's test binaries are called `<target>-<hash>`.
        let target = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
        case.again = format!("cargo test --test {target} -- --exact '{}'", case.id);
    }
    Err(terminal::render_summary(&report, &TerminalOptions { verbose: true, ..TerminalOptions::default() })
        .into())
}
