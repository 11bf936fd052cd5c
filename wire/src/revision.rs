//! The released revisions of the protocol, oldest first, and the transports they define.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A released revision of the Model Context Protocol. The order is that of release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Revision {
    /// The first: HTTP+SSE, no batching rules.
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    /// Streamable HTTP, batching, authorization.
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    /// No batching; elicitation, structured output, the version header.
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    /// Tasks, URL elicitation, client metadata documents.
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    /// Stateless: no handshake, no sessions.
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The revisions that open with `initialize`, oldest first.
    pub const WITH_HANDSHAKE: [Self; 4] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];

    /// The stateless revision.
    pub const STATELESS: Self = Self::V2026_07_28;

    /// The newest revision with a handshake.
    pub const LATEST_HANDSHAKE: Self = Self::V2025_11_25;

    /// The date that names it on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether connections open with `initialize`.
    pub fn has_handshake(self) -> bool {
        self < Self::V2026_07_28
    }

    /// Whether each request stands for itself and carries what it needs in `_meta`.
    pub fn is_stateless(self) -> bool {
        !self.has_handshake()
    }

    /// Whether JSON-RPC batches may appear on the wire at all. 2024-11-05 does not mention them;
    /// 2025-03-26 requires that they can be received; later revisions forbid them.
    pub fn has_batching(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Whether the `MCP-Protocol-Version` header is required after the handshake.
    pub fn has_version_header(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether this revision defines `transport`.
    pub fn has_transport(self, transport: Transport) -> bool {
        match transport {
            Transport::Stdio => true,
            Transport::Http => self >= Self::V2025_03_26,
            Transport::SseLegacy => self == Self::V2024_11_05,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no released revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no released revision; known are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28"
)]
pub struct UnknownRevision(pub String);

impl FromStr for Revision {
    type Err = UnknownRevision;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|r| r.as_str() == text).ok_or_else(|| UnknownRevision(text.to_owned()))
    }
}

/// A transport of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A child process; messages are lines on its stdin and stdout.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05.
    SseLegacy,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 3] = [Self::Stdio, Self::Http, Self::SseLegacy];

    /// The word used in scenario files, case ids and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::SseLegacy => "sse-legacy",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|t| t.as_str() == text)
            .ok_or_else(|| format!("`{text}` is no transport; known are stdio, http and sse-legacy"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_release_and_of_the_dates() {
        let mut by_name = Revision::ALL;
        by_name.sort_by_key(|r| r.as_str());
        let mut by_order = Revision::ALL;
        by_order.sort();
        assert_eq!(by_name, by_order);
    }

    #[test]
    fn names_round_trip_and_serde_agrees() {
        for revision in Revision::ALL {
            assert_eq!(revision.as_str().parse(), Ok(revision));
            assert_eq!(serde_json::to_string(&revision).unwrap(), format!("\"{revision}\""));
        }
        assert!("2025-11-26".parse::<Revision>().is_err());
    }
}
