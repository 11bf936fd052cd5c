//! One case: servers up, client driven, everything down again, and what was seen.

use super::directory::CaseDirectory;
use super::own::Desk;
use super::recorder::Recorder;
use super::servers::Servers;
use super::{Settings, Stop};
use crate::dialect;
use crate::driver::{CaseContext, Driver, DriverError, DriverEvents, Hello, Subject};
use crate::judge::{Floor, pattern};
use crate::plan::{self, Case};
use futures_util::FutureExt;
use serde_json::{Value, json};
use sparring_scenarios::op::{Of, Op, Open};
use sparring_scenarios::pattern::Pattern;
use sparring_scenarios::placeholder::{self, Known};
use sparring_scenarios::scenario::{Scenario, Step, StepAction, StepExpectation};
use sparring_wire::Transport;
use sparring_wire::transcript::{Event, Failure, FailureKind, Outcome, What};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The label of the step by which the harness closes what the script left open.
pub const CLOSING_STEP: &str = "closing";
/// The label of the only step under a driver that does not drive steps one by one.
pub const WHOLE_STEP: &str = "client";

/// The name of the driver event that says why the driver was lost; its data has an `error`.
pub const LOST_EVENT: &str = "driver-lost";

/// The name of the driver event that says that the client was done and had not closed the stream of HTTP+SSE.
pub const STREAM_LEFT_EVENT: &str = "stream-left-open";

/// Drivers bound their own stopping; one that doesn't (an in-process one of a user's) is left behind after this.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How long a driver that is still starting when the run is asked to stop may take to get there, so that it can be
/// stopped in order. One that is dropped in the middle is ended as well, but nobody waits for that.
const START_LIMIT: Duration = Duration::from_secs(3);
/// How long the steps that run may take to notice that the driver is lost.
const LOSS_LIMIT: Duration = Duration::from_secs(2);
/// How long it may take until a server has noticed that the client has closed its stream.
const STREAM_LIMIT: Duration = Duration::from_secs(1);
/// How long the scripted servers may take to stop.
const SERVERS_LIMIT: Duration = Duration::from_secs(10);

/// What came of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseRun {
    /// All that was observed, in order.
    pub transcript: Vec<Event>,
    /// How the drive ended.
    pub ending: Ending,
    /// CLOCK_MONOTONIC at its start, in microseconds.
    pub started_us: u64,
    /// The case's folder, as the client saw it.
    pub folder: String,
    /// By how much the client's durations were divided.
    pub clock_scale: u32,
    /// How long it took, cleaning up included.
    pub took: Duration,
    /// How late the machine woke those who wait meanwhile, if it was measured.
    pub floor: Option<Floor>,
    /// Whether the driver was asked for the steps one by one. If not, the transcript has one step, [`WHOLE_STEP`], and
    /// checks that name a step can't apply.
    pub steps_driven: bool,
}

/// How a drive ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// All steps were gone through.
    Finished,
    /// This step ended in another way than the scenario expects, so those after it were left out.
    Unexpected {
        /// Its label.
        step: String,
    },
    /// The driver was lost: the client's process ended, or the driver protocol was broken.
    DriverLost(DriverError),
    /// The deadline passed, or so much happened that it was not waited for.
    Deadline,
    /// The run was asked to stop. There is nothing to judge.
    Interrupted,
    /// The case could not be set up. Never the client's fault.
    Harness(String),
}

/// Runs one case. Ends within the scenario's deadline and the bounded time of cleaning up; whatever happens, the
/// result is a transcript.
pub async fn run(
    case: &Case,
    driver: &dyn Driver,
    client: &Hello,
    settings: &Settings,
    stop: &Stop,
) -> CaseRun {
    let began = Instant::now();
    let recorder = Recorder::new();
    let mut folder = String::new();
    let ending = match set_up_and_drive(case, driver, client, settings, stop, &recorder, &mut folder).await {
        Ok(ending) => ending,
        Err(message) => {
            recorder.record(What::HarnessError { message: message.clone() });
            Ending::Harness(message)
        }
    };
    CaseRun {
        transcript: recorder.transcript(),
        ending,
        started_us: recorder.started_us(),
        folder,
        clock_scale: plan::clock_scale(&case.scenario, client),
        took: began.elapsed(),
        floor: None,
        steps_driven: driver.drives_steps(),
    }
}

async fn set_up_and_drive(
    case: &Case,
    driver: &dyn Driver,
    client: &Hello,
    settings: &Settings,
    stop: &Stop,
    recorder: &Arc<Recorder>,
    at: &mut String,
) -> Result<Ending, String> {
    let folder = CaseDirectory::new(&settings.temporary_root)
        .map_err(|error| format!("can't make a folder in {}: {error}", settings.temporary_root.display()))?;
    let servers = Servers::start(case, settings.seed, &folder.servers(), &settings.exe, recorder)
        .map_err(|error| format!("can't start the scripted servers: {error}"))?;
    // Paths are compared with what processes find, which is without links.
    let client_folder = std::fs::canonicalize(folder.client()).unwrap_or_else(|_| folder.client());
    *at = client_folder.display().to_string();
    let dialect = case.dialect.as_deref().cloned().unwrap_or_default();
    let context = CaseContext {
        targets: servers.targets(),
        revision: case.revision,
        directory: client_folder.clone(),
        clock_scale: plan::clock_scale(&case.scenario, client),
        config_env: dialect::environment(&dialect, &client_folder),
        official_scenario: case.scenario.official.clone(),
        official_context: servers.credentials(),
        events: recorder.clone(),
    };
    let mut starting = driver.start(context);
    let started = tokio::select! {
        started = &mut starting => Some(started),
        () = stop.asked() => tokio::time::timeout(START_LIMIT, &mut starting).await.ok(),
    };
    drop(starting);
    let mut killed = Vec::new();
    let ending = match started {
        None => Ending::Interrupted,
        Some(Err(error)) => Ending::DriverLost(error),
        Some(Ok(subject)) => {
            let scenario = match placeholder::any(&case.scenario) {
                true => Arc::new(Known { case: Some(at), profile: None }.scenario(&case.scenario)),
                false => case.scenario.clone(),
            };
            let desk = Desk { folder: client_folder, dialect, targets: servers.targets() };
            let drive = Drive::new(scenario, desk, subject.clone(), client, recorder.clone());
            let ending = drive.within_deadline(deadline(case, settings), driver.drives_steps(), stop).await;
            drive.abandon(&ending).await;
            if case.transport == Transport::SseLegacy
                && matches!(ending, Ending::Finished | Ending::Unexpected { .. })
                && tokio::time::timeout(STREAM_LIMIT, recorder.streams_ended()).await.is_err()
            {
                recorder.driver_event(STREAM_LEFT_EVENT, json!({}));
            }
            match tokio::time::timeout(STOP_LIMIT, subject.stop()).await {
                Ok(escaped) => killed = escaped,
                Err(_) => recorder.record(What::HarnessError {
                    message: format!("the driver did not stop within {} s", STOP_LIMIT.as_secs()),
                }),
            }
            ending
        }
    };
    if let Ending::DriverLost(error) = &ending {
        recorder.driver_event(LOST_EVENT, json!({"error": error.to_string()}));
    }
    match tokio::time::timeout(SERVERS_LIMIT, servers.shutdown()).await {
        Ok(pids) => {
            for pid in pids {
                if !killed.iter().any(|(known, _)| *known == pid) {
                    killed.push((pid, "a scripted server".to_owned()));
                }
            }
        }
        Err(_) => recorder.record(What::HarnessError {
            message: format!("the scripted servers did not stop within {} s", SERVERS_LIMIT.as_secs()),
        }),
    }
    for (pid, command) in killed {
        recorder.record(What::Escaped { pid, command });
    }
    let removed = tokio::task::spawn_blocking(move || folder.remove()).await;
    if let Ok(Err(error)) = removed {
        recorder.record(What::HarnessError { message: format!("can't remove the case's folder: {error}") });
    }
    Ok(ending)
}

fn deadline(case: &Case, settings: &Settings) -> Duration {
    case.scenario.deadline_ms.map_or(settings.deadline, Duration::from_millis)
}

/// A step that was handed to the driver.
struct Running {
    label: String,
    op: &'static str,
    expect: StepExpectation,
    began: Instant,
    recorder: Arc<Recorder>,
    outcome: watch::Sender<Option<Outcome>>,
}

impl Running {
    fn new(
        label: &str,
        op: &'static str,
        expect: StepExpectation,
        arguments: Value,
        to: &Arc<Recorder>,
    ) -> Arc<Self> {
        to.record(What::StepStarted { step: label.to_owned(), op: op.to_owned(), arguments });
        Arc::new(Self {
            label: label.to_owned(),
            op,
            expect,
            began: Instant::now(),
            recorder: to.clone(),
            outcome: watch::Sender::new(None),
        })
    }

    /// The step has ended so, unless it has ended before: it does that only once.
    fn end(&self, outcome: impl FnOnce(Duration) -> Outcome) {
        self.outcome.send_if_modified(|slot| {
            if slot.is_some() {
                return false;
            }
            let took = self.began.elapsed();
            let outcome = outcome(took);
            self.recorder.record(What::StepEnded {
                step: self.label.clone(),
                op: self.op.to_owned(),
                outcome: outcome.clone(),
                took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            });
            *slot = Some(outcome);
            true
        });
    }

    fn give_up(&self) {
        self.end(|took| Outcome::Pending { after_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX) });
    }

    /// Waits for its end, at most for `limit`; `None` if that has passed.
    async fn outcome(&self, limit: Option<Duration>) -> Option<Outcome> {
        let mut ended = self.outcome.subscribe();
        let wait = async { ended.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone()) };
        match limit {
            None => wait.await,
            Some(limit) => tokio::time::timeout(limit, wait).await.ok().flatten(),
        }
    }

    fn has_ended(&self) -> bool {
        self.outcome.borrow().is_some()
    }
}

/// A conversation under way.
struct Drive {
    scenario: Arc<Scenario>,
    desk: Desk,
    subject: Arc<dyn Subject>,
    can_close: bool,
    recorder: Arc<Recorder>,
    /// What is waited for, in words.
    awaited: Mutex<String>,
    steps: Mutex<BTreeMap<String, Arc<Running>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// The driver is lost.
    lost: watch::Sender<Option<DriverError>>,
}

impl Drive {
    fn new(
        scenario: Arc<Scenario>,
        desk: Desk,
        subject: Arc<dyn Subject>,
        client: &Hello,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self {
            scenario,
            desk,
            subject,
            can_close: client.operations.iter().any(|operation| operation == "close"),
            recorder,
            awaited: Mutex::default(),
            steps: Mutex::default(),
            tasks: Mutex::default(),
            lost: watch::Sender::new(None),
        }
    }

    async fn within_deadline(&self, deadline: Duration, steps: bool, stop: &Stop) -> Ending {
        let awaited = tokio::select! {
            // In this order, so that what is done is not called late.
            biased;
            ending = self.all(steps) => return ending,
            () = stop.asked() => {
                self.recorder.record(What::HarnessError { message: "the run was interrupted".to_owned() });
                return Ending::Interrupted;
            }
            () = self.flood() => format!("{} (ended early: too many events)", self.awaited()),
            () = tokio::time::sleep(deadline) => self.awaited(),
        };
        self.recorder.record(What::Deadline { awaited });
        Ending::Deadline
    }

    async fn all(&self, steps: bool) -> Ending {
        if !steps {
            let whole =
                self.start(WHOLE_STEP, "run", StepExpectation::Ok, Value::Null, Op::Open(Open::default()));
            self.await_as("the end of the client".to_owned());
            return match whole.outcome(None).await {
                _ if self.lost.borrow().is_some() => self.lost_ending(),
                Some(Outcome::Ok { .. }) => Ending::Finished,
                _ => Ending::Unexpected { step: WHOLE_STEP.to_owned() },
            };
        }
        let ending = self.steps().await;
        if matches!(ending, Ending::Finished | Ending::Unexpected { .. }) {
            self.close().await;
        }
        ending
    }

    async fn steps(&self) -> Ending {
        for (label, step) in self.scenario.labels().iter().zip(&self.scenario.drive) {
            let (outcome, expect) = match &step.action {
                StepAction::WaitFor(pattern) => (self.wait_for(label, step, pattern).await, step.expect),
                StepAction::Op(op) => match op.as_ref() {
                    Op::Await(awaited) => match self.await_step(label, step, &awaited.step).await {
                        Ok(found) => found,
                        Err(ending) => return ending,
                    },
                    op if op.is_harness_own() => (self.own_step(label, step, op).await, step.expect),
                    op => {
                        let arguments = arguments(op);
                        let running = self.start(label, op.name(), step.expect, arguments, op.clone());
                        if step.background {
                            continue;
                        }
                        self.await_as(format!("the end of step `{label}` ({})", op.name()));
                        (self.finish(&running, step.give_up_ms).await, step.expect)
                    }
                },
            };
            if self.lost.borrow().is_some() {
                return self.lost_ending();
            }
            if !is_expected(&outcome, expect) {
                return Ending::Unexpected { step: label.clone() };
            }
        }
        if self.lost.borrow().is_some() { self.lost_ending() } else { Ending::Finished }
    }

    fn lost_ending(&self) -> Ending {
        let error = self.lost.borrow().clone();
        Ending::DriverLost(error.unwrap_or_else(|| DriverError::Protocol("the driver is gone".to_owned())))
    }

    /// Hands an operation to the driver. When this returns the driver has got it: operations reach the client in the
    /// order of the steps, those in the background too.
    fn start(
        &self,
        label: &str,
        name: &'static str,
        expect: StepExpectation,
        arguments: Value,
        op: Op,
    ) -> Arc<Running> {
        let running = Running::new(label, name, expect, arguments, &self.recorder);
        lock(&self.steps).insert(label.to_owned(), running.clone());
        let (subject, lost, step) = (self.subject.clone(), self.lost.clone(), running.clone());
        let mut work = Box::pin(async move {
            // A driver of a user's may panic; then its step must not wait for ever.
            let outcome = AssertUnwindSafe(subject.run(&step.label, &op)).catch_unwind().await;
            let failure = match outcome {
                Ok(Ok(outcome)) => return step.end(|_| outcome),
                Ok(Err(error)) => {
                    let failure = Failure::new(FailureKind::Closed, error.to_string());
                    // First, so that whoever sees the step's end knows its reason.
                    lost.send_if_modified(|slot| {
                        let first = slot.is_none();
                        slot.get_or_insert(error);
                        first
                    });
                    failure
                }
                Err(panic) => Failure::new(FailureKind::Other, panic_text(panic.as_ref())),
            };
            step.end(|_| Outcome::Error { error: failure });
        });
        // A task of its own would start some time later, perhaps after the next step's.
        let first = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if first.is_pending() {
            lock(&self.tasks).push(tokio::spawn(work));
        }
        running
    }

    /// Waits for a step, no longer than it is worth.
    async fn finish(&self, running: &Running, give_up_ms: Option<u64>) -> Outcome {
        match running.outcome(give_up_ms.map(Duration::from_millis)).await {
            Some(outcome) => outcome,
            None => {
                running.give_up();
                // It may have ended at the last moment; what was recorded holds.
                running.outcome(None).await.unwrap_or(Outcome::Pending { after_ms: 0 })
            }
        }
    }

    /// Waits for a step in the background. Its outcome is the awaiting step's, and so is what is expected of it unless
    /// the awaiting step says otherwise.
    async fn await_step(
        &self,
        label: &str,
        step: &Step,
        awaited: &str,
    ) -> Result<(Outcome, StepExpectation), Ending> {
        let Some(running) = lock(&self.steps).get(awaited).cloned() else {
            let message = format!("step `{label}` awaits `{awaited}`, which was not started");
            self.recorder.record(What::HarnessError { message: message.clone() });
            return Err(Ending::Harness(message));
        };
        let awaiting = Running::new(label, "await", step.expect, json!({"step": awaited}), &self.recorder);
        self.await_as(format!("the end of step `{awaited}` ({})", running.op));
        let outcome = self.finish(&running, step.give_up_ms).await;
        awaiting.end(|_| outcome.clone());
        let expect = if step.expect == StepExpectation::Ok { running.expect } else { step.expect };
        Ok((outcome, expect))
    }

    /// Does a step that is no matter of the driver's, or only of its process.
    async fn own_step(&self, label: &str, step: &Step, op: &Op) -> Outcome {
        let running = Running::new(label, op.name(), step.expect, arguments(op), &self.recorder);
        lock(&self.steps).insert(label.to_owned(), running.clone());
        self.await_as(format!("the end of step `{label}` ({})", op.name()));
        let outcome = match op {
            Op::Signal(signal) => match self.subject.signal(&signal.signal).await {
                Ok(outcome) => outcome,
                Err(error) => Outcome::Error { error: Failure::new(FailureKind::Other, error.to_string()) },
            },
            _ => self.desk.run(op),
        };
        running.end(|_| outcome.clone());
        outcome
    }

    async fn wait_for(&self, label: &str, step: &Step, pattern: &Pattern) -> Outcome {
        let arguments = pattern_arguments(pattern);
        let running = Running::new(label, "wait_for", step.expect, arguments, &self.recorder);
        lock(&self.steps).insert(label.to_owned(), running.clone());
        self.await_as(format!("step `{label}`: {}", pattern::describe(pattern)));
        let limit = step.give_up_ms.map(Duration::from_millis);
        let mut lost = self.lost.subscribe();
        tokio::select! {
            biased;
            () = super::matching::seen(&self.recorder, pattern) => running.end(|_| Outcome::Ok { value: json!({}) }),
            // Nothing more will come of a client that is gone.
            _ = lost.wait_for(Option::is_some) => running.give_up(),
            () = sleep_or_for_ever(limit) => running.give_up(),
        }
        running.outcome(None).await.unwrap_or(Outcome::Pending { after_ms: 0 })
    }

    /// Closes what the script left open.
    async fn close(&self) {
        let closed = self.scenario.drive.iter().any(|step| match &step.action {
            StepAction::Op(op) => matches!(op.as_ref(), Op::Close(Of { server: None, agent: None })),
            StepAction::WaitFor(_) => false,
        });
        // A scenario may close in the middle, or not get there: what counts is what was started.
        let started = |of: &str| lock(&self.steps).values().any(|step| step.op == of && step.has_ended());
        let opened = lock(&self.steps)
            .values()
            .any(|step| step.op == "open" && matches!(*step.outcome.borrow(), Some(Outcome::Ok { .. })));
        if !self.can_close || !opened || (closed && started("close")) {
            return;
        }
        let op = Op::Close(Of::default());
        let running = self.start(CLOSING_STEP, op.name(), StepExpectation::Any, arguments(&op), op);
        self.await_as("the end of closing the connections".to_owned());
        running.outcome(None).await;
    }

    /// The harness waits no longer: what still runs is pending.
    async fn abandon(&self, ending: &Ending) {
        let all: Vec<Arc<Running>> = lock(&self.steps).values().cloned().collect();
        if matches!(ending, Ending::DriverLost(_)) {
            // The loss ends all that runs; which of them notices first must not matter.
            let until = tokio::time::Instant::now() + LOSS_LIMIT;
            for running in &all {
                let _ = tokio::time::timeout_at(until, running.outcome(None)).await;
            }
        }
        for running in all {
            running.give_up();
        }
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
    }

    async fn flood(&self) {
        let mut arrivals = self.recorder.arrivals();
        while !self.recorder.is_flooded() {
            if arrivals.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn await_as(&self, what: String) {
        *lock(&self.awaited) = what;
    }

    fn awaited(&self) -> String {
        let still: Vec<String> = lock(&self.steps)
            .values()
            .filter(|step| !step.has_ended())
            .map(|step| format!("`{}` ({})", step.label, step.op))
            .collect();
        let awaited = lock(&self.awaited).clone();
        if still.is_empty() { awaited } else { format!("{awaited}; not ended: {}", still.join(", ")) }
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn sleep_or_for_ever(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("the driver panicked: {}", text.unwrap_or("no message"))
}

/// The arguments of an operation for the transcript: those that a scenario gives, with JSON as JSON.
fn arguments(op: &Op) -> Value {
    // Externally tagged: the arguments are the only member's value.
    let Ok(Value::Object(tagged)) = serde_json::to_value(op) else { return Value::Null };
    let Some((_, Value::Object(arguments))) = tagged.into_iter().next() else { return Value::Null };
    // These are JSON in a string, so that YAML can't touch them.
    let json_texts: &[&str] = match op {
        Op::Call(_) => &["arguments"],
        Op::Open(_) => &["sampling", "elicitation"],
        Op::Control(_) => &["value"],
        _ => &[],
    };
    given(arguments, json_texts)
}

/// What a pattern says, for the transcript.
fn pattern_arguments(pattern: &Pattern) -> Value {
    match serde_json::to_value(pattern) {
        Ok(Value::Object(members)) => given(members, &["params", "result", "value"]),
        _ => Value::Null,
    }
}

/// The members that a scenario gives, without the defaults of the others; those in `json_texts` as JSON.
fn given(mut arguments: serde_json::Map<String, Value>, json_texts: &[&str]) -> Value {
    arguments.retain(|_, value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    });
    for name in json_texts {
        if let Some(value) = arguments.get_mut(*name)
            && let Some(json) = value.as_str().and_then(|text| serde_json::from_str(text).ok())
        {
            *value = json;
        }
    }
    Value::Object(arguments)
}

/// A step that is given up on is not held against the drive: that is what giving up is for.
fn is_expected(outcome: &Outcome, expect: StepExpectation) -> bool {
    match (outcome, expect) {
        (Outcome::Pending { .. }, _) | (Outcome::Ok { .. } | Outcome::Error { .. }, StepExpectation::Any) => {
            true
        }
        (Outcome::Ok { .. }, expect) => expect == StepExpectation::Ok,
        (Outcome::Error { .. }, expect) => expect == StepExpectation::Error,
        (Outcome::Unsupported { .. }, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparring_mock_servers::script::JsonText;
    use sparring_scenarios::op::Call;

    #[test]
    fn the_transcript_shows_the_arguments_that_were_given() {
        assert_eq!(arguments(&Op::Open(Open::default())), json!({}));
        let call = Call {
            tool: "echo".to_owned(),
            arguments: Some(JsonText(json!({"text": "null"}))),
            ..Call::default()
        };
        assert_eq!(arguments(&Op::Call(call)), json!({"tool": "echo", "arguments": {"text": "null"}}));
        let pattern = Pattern {
            notification: Some("n".to_owned()),
            params: Some(JsonText(json!({"a": null}))),
            ..Pattern::default()
        };
        assert_eq!(pattern_arguments(&pattern), json!({"notification": "n", "params": {"a": null}}));
    }

    #[test]
    fn an_outcome_is_expected_or_given_up_on() {
        use StepExpectation::{Any, Error, Ok};
        let ok = Outcome::Ok { value: Value::Null };
        let error = Outcome::Error { error: Failure::new(FailureKind::Other, "x") };
        let pending = Outcome::Pending { after_ms: 1 };
        let unsupported = Outcome::Unsupported { reason: String::new() };
        let expected =
            |outcome: &Outcome| [Ok, Error, Any].map(|expectation| is_expected(outcome, expectation));
        assert_eq!(expected(&ok), [true, false, true]);
        assert_eq!(expected(&error), [false, true, true]);
        assert_eq!(expected(&pending), [true, true, true]);
        assert_eq!(expected(&unsupported), [false, false, false]);
    }
}
