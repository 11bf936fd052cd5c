//! A small client of its own, judged by cargo test.
