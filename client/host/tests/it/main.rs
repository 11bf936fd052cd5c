//! The host, as a whole.

#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers as well")]

mod calls;
mod guarded;
#[cfg(target_os = "linux")]
mod killed;
#[cfg(target_os = "linux")]
mod lists;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
mod restart;
#[cfg(target_os = "linux")]
mod shutdown;
#[cfg(target_os = "linux")]
mod startup;
mod support;
