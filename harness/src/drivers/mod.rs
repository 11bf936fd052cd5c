//! The drivers that come with the harness.
//!
//! - [`adapter`]: a program that speaks the driver protocol (`docs/driver-protocol.md`);
//! - [`official`]: the contract of the official conformance framework, so that its clients run unchanged.

pub mod adapter;
mod builtin;
pub mod official;
mod process;

pub use adapter::Adapter;
pub use builtin::{Builtin, CallHook, ClientSetup, Customise};
pub use official::Official;
pub use process::ProcessSettings;

use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// What the last `tools` result said about names: drivers of clients that compose names (server and tool in one) need
/// the composed one to make a call.
#[derive(Debug, Default)]
pub struct ToolNames {
    known: Mutex<Vec<Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    server: String,
    raw: String,
    name: String,
}

impl ToolNames {
    /// Takes in a `tools` result. One for a single server replaces only that server's names.
    pub fn learn(&self, result: &Value, server: Option<&str>) {
        let text = |tool: &Value, key: &str| tool.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|tool| server.is_some_and(|server| server != tool.server));
        let tools = result.get("tools").and_then(Value::as_array).into_iter().flatten();
        known.extend(tools.filter_map(|tool| {
            let name = text(tool, "name")?;
            Some(Known {
                server: text(tool, "server").or_else(|| server.map(str::to_owned)).unwrap_or_default(),
                raw: text(tool, "rawName").unwrap_or_else(|| name.clone()),
                name,
            })
        }));
    }

    /// The name that the client's user would see, and the server, of the tool with this raw name. A tool that is not
    /// known keeps its raw name.
    pub fn resolve(&self, raw: &str, server: Option<&str>) -> (String, Option<String>) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .find(|tool| tool.raw == raw && server.is_none_or(|server| server == tool.server))
            .map_or_else(
                || (raw.to_owned(), server.map(str::to_owned)),
                |tool| (tool.name.clone(), Some(tool.server.clone()).filter(|server| !server.is_empty())),
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_those_of_the_last_list() {
        let names = ToolNames::default();
        assert_eq!(names.resolve("echo", None), ("echo".into(), None));
        names.learn(
            &json!({"tools": [
                {"name": "a__echo", "server": "a", "rawName": "echo"},
                {"name": "b__echo", "server": "b", "rawName": "echo"},
                {"name": "plain"},
            ]}),
            None,
        );
        assert_eq!(names.resolve("echo", Some("b")), ("b__echo".into(), Some("b".into())));
        assert_eq!(names.resolve("echo", None), ("a__echo".into(), Some("a".into())));
        assert_eq!(names.resolve("plain", None), ("plain".into(), None));
        names.learn(&json!({"tools": [{"name": "b__echo_2", "rawName": "echo"}]}), Some("b"));
        assert_eq!(names.resolve("echo", Some("b")).0, "b__echo_2");
        assert_eq!(names.resolve("echo", Some("a")).0, "a__echo");
        names.learn(&json!({}), None);
        assert_eq!(names.resolve("echo", Some("a")).0, "echo");
    }
}
