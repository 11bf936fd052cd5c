//! Benchmarks of the hot paths. There is nothing in the library; see `benches/wire.rs` and `benches/record.rs`.
