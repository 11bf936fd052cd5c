//! What is called: a small tool, or one that returns a megabyte.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};
use sparring_mock_servers::library;
use std::io;
use std::sync::LazyLock;

/// The 100 bytes of text in each small call.
pub const TEXT: &str =
    "one hundred bytes of text, which is about what a small tool call carries in either direction, friend";

/// The blob, in bytes before Base64.
const BLOB: u64 = 1 << 20;

/// The blob in Base64, made once: what it takes to make it is no part of a floor.
static BLOB_TEXT: LazyLock<String> = LazyLock::new(|| library::base64(&library::bytes(BLOB)));

/// What a call carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// 100 bytes of text in either direction.
    Small,
    /// A resource of 1 MiB in the answer, in Base64.
    Blob,
}

impl Load {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Small, Self::Blob];

    /// The tool of the mock.
    pub(super) const fn tool(self) -> &'static str {
        match self {
            Self::Small => "echo",
            Self::Blob => "blob-1mib",
        }
    }

    /// The arguments for the tool.
    pub(super) fn arguments(self) -> Value {
        match self {
            Self::Small => json!({ "text": TEXT }),
            Self::Blob => json!({}),
        }
    }

    /// How it is called in the table.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Small => "tool call, 100 B",
            Self::Blob => "tool call, answer of 1 MiB",
        }
    }

    /// How many calls a round has where one of small calls has `calls`: large ones take longer by far.
    pub(super) fn calls(self, calls: u32) -> u32 {
        match self {
            Self::Small => calls,
            Self::Blob => calls.div_ceil(50),
        }
    }

    /// The request of the floor.
    pub(super) fn request(self, id: u64) -> Value {
        json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": self.tool(), "arguments": self.arguments() },
        })
    }

    /// Checks an answer of the floor's far end, or of a mock.
    pub(super) fn check(self, id: u64, answer: &Value) -> io::Result<()> {
        let content = &answer["result"]["content"][0];
        let right = match self {
            Self::Small => content["text"] == TEXT,
            Self::Blob => content["resource"]["blob"].as_str().is_some_and(|b| b.len() == BLOB_TEXT.len()),
        };
        if answer["id"] == id && right {
            Ok(())
        } else {
            Err(io::Error::other("the floor's far end gave a wrong answer"))
        }
    }
}

/// What the floor's far end answers: like the tools `echo` and `blob-1mib`, from what a program has that does not think
/// about speed.
pub(super) fn answer(request: &Value) -> Value {
    let params = &request["params"];
    let content = if params["name"] == Load::Blob.tool() {
        json!({ "type": "resource", "resource": {
            "uri": "mock://embedded/blob-1mib", "mimeType": "application/octet-stream", "blob": *BLOB_TEXT,
        } })
    } else {
        json!({ "type": "text", "text": params["arguments"]["text"] })
    };
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": { "content": [content] } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparring_wire::Revision;

    #[test]
    fn the_text_is_100_bytes() {
        assert_eq!(TEXT.len(), 100);
    }

    #[test]
    fn the_floor_answers_what_the_mock_answers() {
        for load in Load::ALL {
            let answer = answer(&load.request(7));
            load.check(7, &answer).unwrap();
            assert!(load.check(8, &answer).is_err());
            let mock = library::call(load.tool(), &load.arguments(), Revision::LATEST_HANDSHAKE);
            assert_eq!(Some(&answer["result"]), mock.as_ref());
        }
    }
}
