//! Faults in what a host promises of the handshake, and of what it makes of capabilities.

use crate::mutants::{Mutant, settings};

pub(super) const MUTANTS: &[Mutant] = &settings![
    "zut": "offers-another-version", "Offers another revision than it says.", "protocol.offers" = "2025-03-26";
    "zut": "accepts-no-older-version", "Works with no revision but its own.", "protocol.accepts" = [];
    "zut": "accepts-newer-version", "Works with a revision that it does not know.",
        "protocol.accepts" = ["2025-11-25", "2025-03-26", "2024-11-05"];
    "chaz": "lists-tools-always", "Asks for tools, advertised or not.", "discovery.needs_capability" = false;
    "chaz": "has-no-tools-for-resources", "Has no tools for the resources of servers.", "wrappers.resources" = [];
    "chaz": "tools-for-resources-always", "Has tools for resources, whether there are any or not.",
        "wrappers.only_advertised" = false;
];
