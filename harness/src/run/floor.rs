//! How late this machine wakes those who wait. Durations of a client mean nothing on a machine that is later still.

use crate::judge::Floor;
use sparring_mock_servers::sink::monotonic_us;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Time between two measurements.
const EVERY: Duration = Duration::from_millis(20);
/// Measurements kept: those of the last ten minutes.
const KEPT: usize = 30_000;

/// Measures all the time: how much later than asked a task of the runtime wakes up, and how long two threads take to
/// pass a word to and fro. Stops when dropped.
#[derive(Debug)]
pub struct Meter {
    measured: Arc<Mutex<VecDeque<Measured>>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    at_us: u64,
    late_us: u64,
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Meter {
    /// Starts measuring. Needs a running runtime.
    pub fn start() -> Self {
        let measured: Arc<Mutex<VecDeque<Measured>>> = Arc::default();
        let task = tokio::spawn({
            let measured = measured.clone();
            async move {
                loop {
                    let asleep = monotonic_us();
                    tokio::time::sleep(EVERY).await;
                    let awake = monotonic_us();
                    let slept = awake.saturating_sub(asleep);
                    // A thread of its own: its wake-up is the operating system's, like that of a client.
                    let pinged = tokio::task::spawn_blocking(monotonic_us).await.unwrap_or(awake);
                    let ping = pinged.saturating_sub(awake);
                    let wanted = u64::try_from(EVERY.as_micros()).unwrap_or_default();
                    let late_us = slept.saturating_sub(wanted).max(ping);
                    let mut measured = measured.lock().unwrap_or_else(PoisonError::into_inner);
                    if measured.len() == KEPT {
                        measured.pop_front();
                    }
                    measured.push_back(Measured { at_us: pinged.max(awake), late_us });
                }
            }
        });
        Self { measured, task }
    }

    /// The floor since a time of CLOCK_MONOTONIC; `None` if nothing was measured since.
    pub fn since(&self, start_us: u64) -> Option<Floor> {
        let measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let since = measured.iter().rev().take_while(|measured| measured.at_us >= start_us);
        since.map(|measured| measured.late_us).max().map(|latest_us| Floor { latest_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_blocked_runtime_shows() {
        let meter = Meter::start();
        let start = monotonic_us();
        assert_eq!(meter.since(start), None);
        while meter.since(start).is_none() {
            tokio::task::yield_now().await;
        }
        // The meter's task sleeps on the only worker, which is busy here for longer than its sleep.
        let busy = monotonic_us();
        tokio::spawn(async move {
            while monotonic_us() < busy + 200_000 {
                std::hint::spin_loop();
            }
        })
        .await
        .unwrap();
        while meter.since(busy).is_none() {
            tokio::task::yield_now().await;
        }
        assert!(meter.since(busy).unwrap().latest_us > 50_000);
        assert_eq!(meter.since(u64::MAX), None);
    }
}
