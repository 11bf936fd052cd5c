//! Scenario files, their loader and lint, and the catalogue of requirements.
