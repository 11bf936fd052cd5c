//! The host, as a whole.

mod calls;
mod support;
