//! Host profiles: what the makers of a client declare beyond the specification.
//!
//! A profile is a TOML file. Every field that is set is a promise, whose id is its path (`naming.max_len`); what is not
//! set is not judged. The reference client reads the same file to be that host: [`Profile::settings`].

mod read;
mod sections;
mod words;

pub use read::{BUILT_IN, Mistake, MistakeKind, field};
pub use sections::*;
pub use words::*;
