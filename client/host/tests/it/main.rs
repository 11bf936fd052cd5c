//! The host, as a whole.

mod calls;
mod guarded;
mod support;
