//! The durations of a host, which a test can shorten.

use std::future::Future;
use std::time::Duration;

/// Turns the seconds of a profile into waits. All waits of a host go through it, so that a scale of 100 makes a back-off
/// of 31 s one of 310 ms, and nothing else of the host knows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    scale: f64,
}

/// Longer than any wait that is meant.
const LONGEST: f64 = 1e9;

impl Default for Clock {
    fn default() -> Self {
        Self { scale: 1.0 }
    }
}

/// A budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl Clock {
    /// Durations are divided by `scale`; what is not above zero counts as 1.
    #[must_use]
    pub fn new(scale: f64) -> Self {
        Self { scale: if scale.is_finite() && scale > 0.0 { scale } else { 1.0 } }
    }

    /// By how much durations are divided.
    #[must_use]
    pub const fn scale(&self) -> f64 {
        self.scale
    }

    /// So many seconds of the profile.
    #[must_use]
    pub fn seconds(&self, seconds: f64) -> Duration {
        let seconds = if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, LONGEST) };
        Duration::from_secs_f64((seconds / self.scale).min(LONGEST))
    }

    /// Waits for so many seconds of the profile.
    pub async fn sleep(&self, seconds: f64) {
        tokio::time::sleep(self.seconds(seconds)).await;
    }

    /// Gives a future so many seconds of the profile.
    ///
    /// # Errors
    /// [`Elapsed`] if that was not enough; the future is dropped.
    pub async fn timeout<F: Future>(&self, seconds: f64, future: F) -> Result<F::Output, Elapsed> {
        tokio::time::timeout(self.seconds(seconds), future).await.map_err(|_| Elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_scale_divides_and_nonsense_does_not_panic() {
        let clock = Clock::new(100.0);
        let begin = tokio::time::Instant::now();
        clock.sleep(31.0).await;
        assert_eq!(begin.elapsed(), Duration::from_millis(310));
        assert_eq!(clock.timeout(1.0, std::future::pending::<()>()).await, Err(Elapsed));
        for odd in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            assert_eq!(Clock::new(odd).scale(), 1.0);
            assert!(Clock::new(1e-300).seconds(odd) <= Duration::from_secs_f64(LONGEST));
        }
    }
}
