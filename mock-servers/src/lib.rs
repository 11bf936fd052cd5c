//! Scriptable MCP servers over stdio and HTTP, fair or foul.
