//! Benchmarks of the hot paths. There is nothing in the library; see `benches/wire.rs`, `benches/record.rs`, and
//! `benches/mock_stdio.rs` for the stdio mock alone.
