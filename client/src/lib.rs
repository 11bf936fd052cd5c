//! The reference client of Sparring: an MCP client and host that others measure themselves against.
