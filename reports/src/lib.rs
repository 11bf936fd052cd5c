//! Verdicts and run reports, and their rendering for terminals, programs and CI.
//!
//! [`model`] is the data: what a run found, complete enough that every rendering is a function of it alone. This crate
//! knows nothing of how a run was made.
//!
//! - [`terminal`]: progress while a run goes on, and the summary that a person reads;
//! - [`json`]: the whole report for programs, versioned, with a published schema;
//! - [`junit`]: what CI servers understand;
//! - [`mod@file`]: writes either without ever leaving half a file behind.
//!
//! Whatever a client or a server said is shown with its control characters escaped, see [`text::escape`].

pub mod file;
pub mod json;
pub mod junit;
pub mod model;
pub mod terminal;
pub mod text;
