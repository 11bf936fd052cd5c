//! Conformance test harness and mock servers for clients of the Model Context Protocol.

pub mod driver;
pub mod plan;
