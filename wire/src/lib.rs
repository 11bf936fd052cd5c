//! What both ends of the Model Context Protocol share, without any I/O.
//!
//! - [`jsonrpc`]: the envelope, read leniently so that a judge sees what was wrong, with every fault named;
//! - [`framing`]: newline-delimited messages out of arbitrary chunks;
//! - [`sse`]: a reader and a writer for server-sent events that hide nothing;
//! - [`duplicate`]: a scan for duplicate object keys, which JSON parsers drop silently;
//! - [`json_at`]: where something stands in JSON text;
//! - [`meta`]: names of `_meta` members that the specification reserves;
//! - [`revision`]: the protocol revisions as an ordered type;
//! - [`text`]: JSON written as text, fast where it is long;
//! - [`time`]: points in time as text;
//! - [`transcript`]: what was observed in a case, in order, as data.
//!
//! This crate knows nothing of scenarios, servers, clients or judges.

pub mod duplicate;
pub mod framing;
pub mod json_at;
pub mod jsonrpc;
pub mod meta;
pub mod revision;
pub mod sse;
pub mod text;
pub mod time;
pub mod transcript;

pub use jsonrpc::{Envelope, Id, Inspected};
pub use revision::{Revision, Transport};
