//! Conformance test harness and mock servers for clients of the Model Context Protocol.
//!
//! Rust programs judge their own client under `cargo test`: implement [`Client`] and hand `main` over to
//! [`cargo_test`]. Clients in other languages come with an adapter ([`drivers::Adapter`]) and the program `sparring`.
//!
//! The layers, from the outside in: [`session`] plans, runs, judges and reports; [`plan`] says which cases apply;
//! [`run`] runs them against scripted servers; [`driver`] is how the client is made to do things; [`judge`] is a pure
//! function from a transcript to verdicts.

#[doc(hidden)]
pub mod adapter_main;
pub mod bench;
pub mod browser;
mod cargo_test;
#[doc(hidden)]
pub mod cli;
mod dialect;
pub mod driver;
pub mod drivers;
pub mod in_process;
pub mod judge;
pub mod mutants;
pub mod plan;
pub mod platform;
pub mod record;
pub mod run;
pub mod serve;
pub mod session;

pub use cargo_test::{Settings, cargo_test, cargo_test_with};
pub use in_process::Client;
pub use sparring_scenarios::op;
pub use sparring_wire::transcript::{Failure, FailureKind};
pub use sparring_wire::{Revision, Transport};
