//! Structure out of bytes.

use serde_json::{Value, json};
use sparring_wire::Revision;

/// Bytes that are used up as decisions are made by them. When none are left every decision is the first.
pub(crate) struct Input<'b> {
    bytes: &'b [u8],
}

impl<'b> Input<'b> {
    pub(crate) const fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit.max(1)
    }

    /// One of several.
    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Up to 255 bytes, as many as the first byte says.
    pub(crate) fn piece(&mut self) -> &'b [u8] {
        let count = usize::from(self.byte()).min(self.bytes.len());
        let (piece, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        piece
    }

    /// Text up to the next zero byte; invalid UTF-8 replaced.
    pub(crate) fn text(&mut self) -> String {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(self.bytes.len());
        let (text, rest) = self.bytes.split_at(end);
        self.bytes = rest.get(1..).unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    pub(crate) fn revision(&mut self) -> Revision {
        *self.one(&Revision::ALL)
    }

    /// The same bytes in pieces, whose lengths the bytes themselves give.
    pub(crate) fn split(bytes: &'b [u8]) -> Vec<&'b [u8]> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            let (piece, after) = rest.split_at((1 + usize::from(first % 9)).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces
    }

    /// A message that a client could send, well formed or nearly so, or any text.
    pub(crate) fn client_message(&mut self) -> String {
        const METHODS: [&str; 16] = [
            "initialize",
            "notifications/initialized",
            "ping",
            "tools/list",
            "tools/call",
            "resources/list",
            "resources/read",
            "resources/subscribe",
            "prompts/list",
            "prompts/get",
            "completion/complete",
            "logging/setLevel",
            "notifications/cancelled",
            "server/discover",
            "subscriptions/listen",
            "tasks/get",
        ];
        let kind = self.byte();
        let id = json!(self.below(8));
        match kind % 8 {
            0 => self.text(),
            1 => json!({"jsonrpc": "2.0", "id": id, "result": self.value()}).to_string(),
            2 => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}}).to_string(),
            3 => {
                let members: Vec<Value> = (0..self.below(4))
                    .map(|_| serde_json::from_str(&self.request(METHODS, id.clone())).unwrap_or_default())
                    .collect();
                Value::Array(members).to_string()
            }
            _ => self.request(METHODS, id),
        }
    }

    fn request(&mut self, methods: [&str; 16], id: Value) -> String {
        let method = *self.one(&methods);
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": self.params(method)});
        if !method.starts_with("notifications/") {
            message["id"] = id;
        }
        message.to_string()
    }

    fn params(&mut self, method: &str) -> Value {
        match self.below(4) {
            0 => self.value(),
            1 => json!({}),
            _ => match method {
                "initialize" => json!({
                    "protocolVersion": self.revision().as_str(), "capabilities": {},
                    "clientInfo": {"name": "fuzz", "version": "1"},
                }),
                "tools/call" => json!({
                    "name": *self.one(&["echo", "add", "slow", "fail", "own"]),
                    "arguments": {"text": "x", "a": 1, "b": 2}, "_meta": {"progressToken": self.below(3)},
                }),
                "notifications/cancelled" => json!({"requestId": self.below(8)}),
                "prompts/get" => json!({"name": "p", "arguments": {"x": "1"}}),
                "logging/setLevel" => json!({"level": "info"}),
                _ => json!({"uri": "a://b", "cursor": "c", "_meta": {
                    "io.modelcontextprotocol/protocolVersion": self.revision().as_str(),
                    "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }}),
            },
        }
    }

    /// Any JSON.
    pub(crate) fn value(&mut self) -> Value {
        serde_json::from_slice(self.piece()).unwrap_or_default()
    }
}
