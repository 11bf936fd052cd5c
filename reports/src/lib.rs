//! Verdicts and run reports, and their rendering for terminals, programs and CI.
