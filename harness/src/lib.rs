//! Conformance test harness and mock servers for clients of the Model Context Protocol.

pub mod browser;
pub mod driver;
pub mod drivers;
pub mod judge;
pub mod plan;
pub mod platform;
pub mod run;
