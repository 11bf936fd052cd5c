//! The reference client as a process behind the driver protocol is judged like the one in this process. This binary is
//! the test, and with a private first argument the adapter, its supervisor and the scripted servers.

#![expect(clippy::expect_used, reason = "all of it is a test")]

use sparring::driver::Driver;
use sparring::drivers::{Adapter, Builtin, ProcessSettings};
use sparring::plan::Filter;
use sparring::run::{self, Settings, Stop};
use sparring::session::{Options, Session};
use sparring_reports::model::Verdict;
use sparring_scenarios::load;
use sparring_scenarios::profile::Profile;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    if let Some(code) = run::hand_over() {
        return code;
    }
    let test = || {
        the_verdicts_are_those_of_the_client_in_process();
        Ok(())
    };
    let tests = vec![libtest_mimic::Trial::test("the_verdicts_are_those_of_the_client_in_process", test)];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), tests).exit_code()
}

/// One for each way in which operations, events and failures cross the protocol.
const SCENARIOS: [&str; 9] = [
    "auth.flow.from-401",
    "cancellation.late-answer",
    "elicitation.answered",
    "lifecycle.initialize-error",
    "lifecycle.plain",
    "naming.two-servers",
    "progress.reported",
    "prompts.get",
    "roots.listed",
];

fn the_verdicts_are_those_of_the_client_in_process() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let exe = std::env::current_exe().expect("a path").display().to_string();
    let settings = ProcessSettings::new().expect("settings");
    let adapter = Adapter::new(vec![exe, "__sparring-adapter".to_owned()], settings);
    let in_process = runtime.block_on(verdicts(Arc::new(Builtin::new())));
    let as_adapter = runtime.block_on(verdicts(Arc::new(adapter)));
    assert!(in_process.len() > 500, "{} verdicts are too few for nine scenarios", in_process.len());
    assert!(in_process.values().any(|verdict| *verdict == Verdict::Pass));
    let all: std::collections::BTreeSet<_> = in_process.keys().chain(as_adapter.keys()).collect();
    let different: Vec<_> = all
        .into_iter()
        .filter(|judged| in_process.get(*judged) != as_adapter.get(*judged))
        .map(|judged| (judged, in_process.get(judged), as_adapter.get(judged)))
        .collect();
    assert!(different.is_empty(), "{different:#?}");
}

/// The verdict of each judge on each case.
async fn verdicts(driver: Arc<dyn Driver>) -> BTreeMap<(String, String), Verdict> {
    let scenarios = load::embedded().expect("the built-in scenarios are sound");
    let scenarios = scenarios.into_iter().map(|loaded| loaded.scenario);
    let scenarios: Vec<_> = scenarios.filter(|s| SCENARIOS.contains(&s.scenario.as_str())).collect();
    assert_eq!(scenarios.len(), SCENARIOS.len());
    let profile = Profile::reference().expect("the profile is sound");
    let session = Session::open(driver, scenarios, Some(profile), String::new()).await.expect("a client");
    // The newest revision will do: the protocol between harness and client is the same in all.
    let filter = Filter { revisions: vec![sparring::Revision::LATEST_HANDSHAKE], ..Filter::default() };
    let planned = session.plan(&filter).expect("a plan");
    let settings = Settings::new().expect("settings");
    let finished =
        Arc::new(session).run(planned, settings, Options::default(), &Stop::default(), |_| {}).await;
    let cases = finished.report.cases.into_iter();
    cases
        .flat_map(|case| case.verdicts.into_iter().map(move |v| ((case.id.clone(), v.judge), v.verdict)))
        // Whether the stream for GET is opened before such a short case is over is open.
        .filter(|((_, judge), _)| judge != "http.get-accepts-stream")
        .collect()
}
