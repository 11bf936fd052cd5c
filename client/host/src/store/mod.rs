//! What a host keeps on disk.

pub mod cache;
