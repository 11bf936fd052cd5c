//! Faults in what a host promises of the handshake, of cancelling, and of what it tells servers.

use crate::mutants::{Mutant, settings};

pub(super) const MUTANTS: &[Mutant] = &settings![
    "zut": "offers-another-version", "Offers another revision than it says.", "protocol.offers" = "2025-03-26";
];
