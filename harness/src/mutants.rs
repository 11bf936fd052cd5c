//! Mutants: the reference client with one deliberate fault each. They prove that the judges can fail.

use crate::cli::Trouble;
use crate::cli::MutantsArgs;

/// The names of all mutants.
pub fn names() -> Vec<&'static str> {
    Vec::new()
}

pub(crate) fn command(_: &MutantsArgs) -> Result<u8, Trouble> {
    Err(Trouble::new(1, "none yet"))
}
