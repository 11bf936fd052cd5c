//! An adapter that a scenario can end by a signal, and that is started again by the next `open`.

use super::{Adapter, Running};
use crate::driver::{CaseContext, DriverError, Subject};
use crate::platform;
use async_trait::async_trait;
use sparring_scenarios::op::{self, Op};
use sparring_wire::transcript::{Failure, FailureKind, Outcome};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The adapter of a case: one process after the other.
pub(super) struct Restartable {
    adapter: Adapter,
    case: CaseContext,
    current: Mutex<Arc<Running>>,
    /// Those that were ended by a signal.
    former: Mutex<Vec<Arc<Running>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Restartable {
    pub(super) async fn start(adapter: Adapter, case: CaseContext) -> Result<Self, DriverError> {
        let running = adapter.launch_for(&case).await?;
        Ok(Self { adapter, case, current: Mutex::new(running), former: Mutex::default() })
    }

    fn current(&self) -> Arc<Running> {
        lock(&self.current).clone()
    }

    /// Whether the process that was the last is one that a signal ended.
    fn was_ended(&self) -> bool {
        let current = self.current();
        lock(&self.former).iter().any(|former| Arc::ptr_eq(former, &current))
    }
}

#[async_trait]
impl Subject for Restartable {
    async fn run(&self, step: &str, op: &Op) -> Result<Outcome, DriverError> {
        if self.was_ended() {
            if !matches!(op, Op::Open(_)) {
                let why = "the client was ended by a signal; `open` starts it again";
                return Ok(Outcome::Error { error: Failure::new(FailureKind::Closed, why) });
            }
            let again = self.adapter.launch_for(&self.case).await?;
            *lock(&self.current) = again;
        }
        self.current().run(step, op).await
    }

    async fn bench(&self, call: &op::Call, calls: u32) -> Result<Option<Vec<u64>>, DriverError> {
        self.current().bench(call, calls).await
    }

    async fn signal(&self, signal: &str) -> Result<Outcome, DriverError> {
        let current = self.current();
        current.process.expect_end();
        if signal == "exit" {
            current.close_stdin();
        } else if let Err(why) = platform::send_signal(current.process.pid(), signal) {
            return Ok(Outcome::Error { error: Failure::new(FailureKind::Other, why) });
        }
        // The case's deadline bounds this wait.
        let how = current.process.ended().await.to_string();
        lock(&self.former).push(current);
        Ok(Outcome::Ok { value: serde_json::json!({ "ended": how }) })
    }

    async fn stop(&self) -> Vec<(u32, String)> {
        let all = std::mem::take(&mut *lock(&self.former));
        let current = self.current();
        // What a killed client leaves behind is a matter of the scenario's checks; its supervisor ends it.
        for former in &all {
            if !Arc::ptr_eq(former, &current) {
                former.stop().await;
            }
        }
        let escaped = current.stop().await;
        if all.iter().any(|former| Arc::ptr_eq(former, &current)) { Vec::new() } else { escaped }
    }
}
