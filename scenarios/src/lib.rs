//! Scenario files, their loader and lint, and the catalogue of requirements.
//!
//! - [`scenario`]: a scenario file as types: where it applies, the servers' script, the steps, the checks;
//! - [`pattern`]: how a check names an event;
//! - [`placeholder`]: values in a scenario that are known only when the client and the case are;
//! - [`catalogue`]: the requirements of the specification, and the promises of host profiles;
//! - [`load`]: reads scenario files, strictly;
//! - [`lint`]: what is wrong with scenarios that can be read;
//! - [`code`]: all that can be wrong with an input file, each under a stable word;
//! - [`diagnostic`]: what is wrong with an input file, told as a compiler tells it;
//! - [`schema`]: JSON Schema of all of these;
//! - [`profile`]: host profiles, what a client's makers promise;
//! - [`op`]: the operations that a driver is asked to do, in scenario files and in the driver protocol alike.

pub mod catalogue;
pub mod code;
pub mod diagnostic;
pub mod lint;
pub mod load;
pub mod op;
pub mod pattern;
pub mod placeholder;
pub mod profile;
mod scalar;
pub mod scenario;
pub mod schema;
mod yaml;
