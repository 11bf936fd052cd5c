//! Verdicts and run reports, and their rendering for terminals, programs and CI.
//!
//! [`model`] is the data: what a run found, complete enough that every rendering is a function of it alone. This crate
//! knows nothing of how a run was made.

pub mod model;
