//! Many cases, some at a time.

use super::case::{self, CaseRun, Ending};
use super::floor::Meter;
use super::{Settings, Stop, directory, recorder};
use crate::driver::{Driver, Hello};
use crate::plan::Case;
use sparring_wire::transcript::{Event, What};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// One run of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The case.
    pub case: Case,
    /// Its place in the list of cases.
    pub position: usize,
    /// Which repetition, from 1.
    pub round: u32,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<T> {
    /// What `finish` returned for each job that ran, by rounds, in the order of the cases.
    pub done: Vec<T>,
    /// Jobs that were not run, or not to their end, since the run was asked to stop.
    pub left_out: usize,
    /// What went wrong apart from any case: transcripts that could not be written.
    pub errors: Vec<String>,
}

/// Runs all cases `settings.repeat` times, `settings.jobs` at a time. `finish` gets each case as it ends, on the
/// thread that ran it: the place to judge it and to show progress. If the run is asked to stop it returns soon, with
/// what is done.
pub async fn run_all<T: Send + 'static>(
    cases: Vec<Case>,
    driver: Arc<dyn Driver>,
    client: Hello,
    settings: Settings,
    stop: &Stop,
    finish: impl Fn(&Job, CaseRun) -> T + Send + Sync + 'static,
) -> Outcome<T> {
    // An old folder that can't be removed harms nobody.
    let _ = directory::remove_stale(&settings.temporary_root);
    let jobs: Vec<Job> = (1..=settings.repeat.max(1))
        .flat_map(|round| {
            let numbered = cases.iter().cloned().enumerate();
            numbered.map(move |(position, case)| Job { case, position, round })
        })
        .collect();
    let total = jobs.len();
    let permits = Arc::new(Semaphore::new(settings.jobs.max(1)));
    let shared = Arc::new(Shared {
        transcripts: Transcripts { settings: settings.clone(), failed: Mutex::default() },
        driver,
        client,
        settings,
        meter: Meter::start(),
        finish,
    });
    let mut running = JoinSet::new();
    let mut done = BTreeMap::new();
    for (number, job) in jobs.into_iter().enumerate() {
        let permit = tokio::select! {
            biased;
            () = stop.asked() => break,
            permit = permits.clone().acquire_owned() => permit,
        };
        let (shared, stop) = (shared.clone(), stop.clone());
        running.spawn(async move {
            let _permit = permit;
            (number, shared.run(job, &stop).await)
        });
        while let Some(finished) = running.try_join_next() {
            keep(&mut done, finished);
        }
    }
    while let Some(finished) = running.join_next().await {
        keep(&mut done, finished);
    }
    let errors = shared.transcripts.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    Outcome {
        left_out: total - done.len(),
        done: done.into_values().collect(),
        errors: errors.into_iter().collect(),
    }
}

fn keep<T>(done: &mut BTreeMap<usize, T>, finished: Result<(usize, Option<T>), tokio::task::JoinError>) {
    // The tasks catch the panics of cases; one of `finish` is the caller's, and is passed on to it.
    match finished {
        Ok((number, Some(one))) => {
            done.insert(number, one);
        }
        Ok((_, None)) => {}
        Err(failed) => {
            if failed.is_panic() {
                std::panic::resume_unwind(failed.into_panic());
            }
        }
    }
}

struct Shared<F> {
    transcripts: Transcripts,
    driver: Arc<dyn Driver>,
    client: Hello,
    settings: Settings,
    meter: Meter,
    finish: F,
}

impl<F> Shared<F> {
    /// `None` if it was interrupted.
    async fn run<T>(self: &Arc<Self>, job: Job, stop: &Stop) -> Option<T>
    where
        F: Fn(&Job, CaseRun) -> T + Send + Sync + 'static,
        T: Send + 'static,
    {
        let task = tokio::spawn({
            let (shared, job, stop) = (self.clone(), job.clone(), stop.clone());
            async move {
                case::run(&job.case, shared.driver.as_ref(), &shared.client, &shared.settings, &stop).await
            }
        });
        let mut run = match task.await {
            Ok(run) => run,
            Err(failed) => broken(&failed.to_string(), self.driver.drives_steps()),
        };
        if run.ending == Ending::Interrupted {
            return None;
        }
        run.floor = self.meter.since(run.started_us);
        let shared = self.clone();
        // Judging and writing take their time; the runtime's threads have clients to listen to.
        let finished = tokio::task::spawn_blocking(move || {
            shared.transcripts.write(&job, &run.transcript);
            (shared.finish)(&job, run)
        });
        match finished.await {
            Ok(finished) => Some(finished),
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            Err(_) => None,
        }
    }
}

/// A case that made the harness itself panic.
fn broken(why: &str, steps_driven: bool) -> CaseRun {
    let message = format!("the harness failed: {why}");
    CaseRun {
        transcript: vec![Event {
            n: 1,
            at_us: 0,
            server: None,
            incarnation: None,
            what: What::HarnessError { message: message.clone() },
        }],
        ending: Ending::Harness(message),
        started_us: sparring_mock_servers::sink::monotonic_us(),
        folder: String::new(),
        clock_scale: 1,
        took: Duration::ZERO,
        floor: None,
        steps_driven,
    }
}

/// Writes the cases' transcripts until that fails; then it says so, once.
struct Transcripts {
    settings: Settings,
    failed: Mutex<Option<String>>,
}

impl Transcripts {
    fn write(&self, job: &Job, events: &[Event]) {
        let Some(path) = self.path(job) else { return };
        if self.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return;
        }
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let written = made.and_then(|()| recorder::write_transcript(&path, events, self.settings.unredacted));
        if let Err(error) = written {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert_with(|| format!("can't write the transcript {}: {error}", path.display()));
        }
    }

    fn path(&self, job: &Job) -> Option<PathBuf> {
        let folder = self.settings.transcripts.as_ref()?;
        Some(folder.join(transcript_name(job)))
    }
}

/// The name of a job's transcript: the case's, with the round from the second on, as in
/// `tools.echo-2025-11-25-stdio.2.jsonl`.
pub fn transcript_name(job: &Job) -> String {
    let round = if job.round > 1 { format!(".{}", job.round) } else { String::new() };
    format!("{}{round}.jsonl", file_name(&job.case.id))
}

/// A case's id as the name of a file on any system: `tools.echo[2025-11-25,stdio]` becomes
/// `tools.echo-2025-11-25-stdio`.
pub fn file_name(case: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    case.trim_end_matches(']').chars().map(kept).collect()
}
