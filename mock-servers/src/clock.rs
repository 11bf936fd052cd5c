//! The wall clock.

use std::time::{Duration, SystemTime};

/// The time since 1970; for shells, since cores have no clock.
pub(crate) fn since_1970() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}
