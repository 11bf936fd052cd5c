//! Mutants: the reference client with one deliberate fault each. They prove that the judges can fail.
//!
//! The reference client itself carries no fault code. A mutant is a decorator over one of its seams (messages, HTTP,
//! processes, names, randomness, the browser…), or a setting that exists anyway. What a mutant is expected to fail
//! stands with the judges: `killed_by` of a check in its scenario, of a monitor in its table.

mod auth;
mod decorate;
mod host;
mod http;
mod matrix;
mod messages;
mod monitors;
mod stdio;

pub(crate) use matrix::command;
pub use matrix::{Kill, Matrix};

use crate::drivers::ClientSetup;

/// A client with one deliberate fault.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// Its name: what the client does wrong, in words with dashes.
    pub name: &'static str,
    /// The same as a sentence.
    pub about: &'static str,
    /// Scenarios that bring the fault to light for the monitors it fails. Those of the checks it fails need not be
    /// named.
    pub scenarios: &'static [&'static str],
    /// The fault.
    pub fault: Fault,
}

/// How a mutant is made.
#[derive(Clone, Copy)]
pub enum Fault {
    /// The reference client in process, with one part replaced.
    Client(fn(&mut ClientSetup)),
    /// The same as a process of its own, behind the adapter driver: the fault ends that process or outlives it.
    Process(fn(&mut ClientSetup)),
}

/// All mutants.
pub fn mutants() -> Vec<Mutant> {
    [auth::MUTANTS, messages::MUTANTS, http::MUTANTS, stdio::MUTANTS, host::MUTANTS, monitors::MUTANTS]
        .concat()
}

/// A mutant that the checks name themselves.
const fn mutant(name: &'static str, about: &'static str, fault: fn(&mut ClientSetup)) -> Mutant {
    Mutant { name, about, scenarios: &[], fault: Fault::Client(fault) }
}

/// The fault of the mutant with this name.
pub(crate) fn fault_of(name: &str) -> Option<fn(&mut ClientSetup)> {
    mutants().iter().find(|mutant| mutant.name == name).map(|mutant| match mutant.fault {
        Fault::Client(fault) | Fault::Process(fault) => fault,
    })
}

/// Their names.
pub fn names() -> Vec<&'static str> {
    mutants().iter().map(|m| m.name).collect()
}
