//! What a model gets to see.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelTool {
    /// The composed name.
    pub name: String,
    /// The server it belongs to; none for a tool of the host's own that stands for no single server.
    pub server: Option<String>,
    /// What calling it does.
    #[serde(skip)]
    pub route: Route,
    /// Its title.
    pub title: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Its schema, after normalisation.
    pub input_schema: Value,
    /// The schema of its structured results.
    pub output_schema: Option<Value>,
    /// Its annotations, as the server gave them.
    pub annotations: Option<Value>,
}

impl ModelTool {
    /// The name that its server knows it by; none if it is no server's tool.
    pub fn raw(&self) -> Option<&str> {
        match &self.route {
            Route::Tool { tool, .. } => Some(tool),
            _ => None,
        }
    }

    /// Whether it stands for resources or prompts.
    pub const fn is_wrapper(&self) -> bool {
        matches!(
            self.route,
            Route::ListResources(_) | Route::ReadResource(_) | Route::ListPrompts(_) | Route::GetPrompt(_)
        )
    }

    /// Whether it is the host's own: it describes, finds or calls other tools.
    pub const fn is_own(&self) -> bool {
        matches!(self.route, Route::Describe | Route::Search | Route::Dispatch)
    }
}

/// What calling a tool does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Route {
    /// Calls the server's tool of this raw name.
    Tool {
        /// The server.
        server: String,
        /// The raw name.
        tool: String,
    },
    /// Lists the resources of this server, or of all.
    ListResources(Option<String>),
    /// Reads a resource of this server, or of the one that the arguments name.
    ReadResource(Option<String>),
    /// Lists the prompts of this server.
    ListPrompts(String),
    /// Gets a prompt of this server.
    GetPrompt(String),
    /// Gives the full description of another tool.
    Describe,
    /// Finds deferred tools.
    Search,
    /// Calls a deferred tool.
    Dispatch,
}

/// A part of what a model gets from a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Base64.
        data: String,
        /// Its media type.
        #[serde(rename = "mimeType")]
        mime: String,
    },
    /// Sound.
    Audio {
        /// Base64.
        data: String,
        /// Its media type.
        #[serde(rename = "mimeType")]
        mime: String,
    },
    /// A block as the server gave it.
    #[serde(untagged)]
    Block(Value),
}

/// What a model gets from a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelResult {
    /// The parts, in order.
    pub content: Vec<Part>,
    /// `structuredContent`, where the host passes it on beside the parts.
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The tool reports a failure of its own.
    #[serde(rename = "isError", skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ModelResult {
    /// A result of one text.
    pub fn of_text(text: impl Into<String>) -> Self {
        Self { content: vec![Part::Text { text: text.into() }], ..Self::default() }
    }

    /// A failure that the model is told of.
    pub fn of_failure(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::of_text(text) }
    }

    /// Its texts, joined by newlines.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }
}
