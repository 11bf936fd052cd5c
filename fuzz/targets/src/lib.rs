//! What the fuzz targets assert. Each takes any bytes; it panics if what it promises is not so.
//!
//! The bodies are here so that `fuzz/fuzz_targets` can be a line each, and so that the test beside this, which needs no
//! fuzzer, replays what was found.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a panic is how a target says no"
)]

mod input;
mod judging;
mod loading;
mod serving;
mod wire;

/// Asserts something about any bytes.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 13] = [
    ("jsonrpc", wire::jsonrpc),
    ("duplicate_keys", wire::duplicate_keys),
    ("framing", wire::framing),
    ("sse", wire::sse),
    ("http1", wire::http1),
    ("transcript", loading::transcript),
    ("script", loading::script),
    ("scenario", loading::scenario),
    ("core_stdio", serving::core_stdio),
    ("core_http", serving::core_http),
    ("auth", serving::auth),
    ("judge", judging::judge),
    ("replay", judging::replay),
];

/// The target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// Runs the target with this name.
///
/// # Panics
/// There is none of that name, or it found something.
pub fn run(name: &str, bytes: &[u8]) {
    target(name).expect("a target of this name")(bytes);
}
