//! Tools that stand for resources and prompts.

mod call;

pub use call::call;

use crate::error::HostError;
use crate::model::{ModelResult, ModelTool, Route};
use crate::naming::Claim;
use crate::results::decoded_len;
use crate::template::fill;
use serde_json::{Map, Value, json};
use sparring_client::Entry;
use sparring_profiles::WrappersSettings;

/// What a server has that wrappers stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advertised {
    /// The server's name.
    pub server: String,
    /// It advertises `resources`.
    pub resources: bool,
    /// It advertises `prompts`.
    pub prompts: bool,
}

/// A server's part of a list of resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourceList {
    /// The server's name.
    pub server: String,
    /// What `resources/list` gave.
    pub resources: Vec<Entry>,
    /// What `resources/templates/list` gave.
    pub templates: Vec<Entry>,
}

/// The wrapper tools. The default is [`ProfileWrappers`].
pub trait Wrappers: Send + Sync {
    /// The wrapper tools there are with these servers, each with what it claims as a name. The names in the tools are the
    /// templates.
    fn tools(&self, servers: &[Advertised]) -> Vec<(Claim, ModelTool)>;

    /// A list of resources.
    fn resources(&self, lists: &[ResourceList]) -> ModelResult;

    /// A result of `resources/read`.
    fn read(&self, result: &Value) -> ModelResult;

    /// A list of prompts.
    fn prompts(&self, prompts: &[Entry]) -> ModelResult;

    /// A result of `prompts/get`.
    fn prompt(&self, result: &Value) -> ModelResult;
}

/// The wrappers that `[wrappers]` describes.
#[derive(Debug, Clone)]
pub struct ProfileWrappers {
    settings: WrappersSettings,
}

impl ProfileWrappers {
    /// As these settings want them.
    pub const fn new(settings: WrappersSettings) -> Self {
        Self { settings }
    }
}

/// The argument that names the resource to be read.
pub const URI: &str = "uri";
/// The argument that names the server, of wrappers that all servers share.
pub const SERVER: &str = "server";
/// The argument that names the prompt.
pub const NAME: &str = "name";

/// One kind of wrapper.
struct Kind {
    about: &'static str,
    route: fn(Option<&str>) -> Route,
    /// Arguments with descriptions; all of them are required.
    arguments: &'static [(&'static str, &'static str)],
    /// Other arguments go to the prompt.
    open: bool,
}

const LIST_RESOURCES: Kind = Kind {
    about: "Lists the resources",
    route: |server| Route::ListResources(server.map(str::to_owned)),
    arguments: &[],
    open: false,
};
const READ_RESOURCE: Kind = Kind {
    about: "Reads a resource",
    route: |server| Route::ReadResource(server.map(str::to_owned)),
    arguments: &[(URI, "The URI of the resource, as listed")],
    open: false,
};
const LIST_PROMPTS: Kind = Kind {
    about: "Lists the prompts",
    route: |server| Route::ListPrompts(server.unwrap_or_default().to_owned()),
    arguments: &[],
    open: false,
};
const GET_PROMPT: Kind = Kind {
    about: "Gets a prompt",
    route: |server| Route::GetPrompt(server.unwrap_or_default().to_owned()),
    arguments: &[(NAME, "The name of the prompt, as listed; the prompt's own arguments go beside it")],
    open: true,
};

impl Kind {
    fn tool(&self, template: &str, server: Option<&str>) -> (Claim, ModelTool) {
        let mut properties = Map::new();
        if server.is_none() {
            let about = "The server; can be left out if only one has any";
            properties.insert(SERVER.into(), json!({"type": "string", "description": about}));
        }
        for (name, about) in self.arguments {
            properties.insert((*name).into(), json!({"type": "string", "description": about}));
        }
        let required: Vec<&str> = self.arguments.iter().map(|(name, _)| *name).collect();
        let mut schema =
            json!({"type": "object", "properties": properties, "additionalProperties": self.open});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        let claim = match server {
            Some(server) => Claim::Wrapper { server: server.to_owned(), template: template.to_owned() },
            None => Claim::Own(template.to_owned()),
        };
        let whose =
            server.map_or_else(|| "all MCP servers".to_owned(), |server| format!("the MCP server {server}"));
        let tool = ModelTool {
            name: template.to_owned(),
            server: server.map(str::to_owned),
            route: (self.route)(server),
            title: None,
            description: Some(format!("{} of {whose}.", self.about)),
            input_schema: schema,
            output_schema: None,
            annotations: Some(json!({"readOnlyHint": true})),
        };
        (claim, tool)
    }
}

impl Wrappers for ProfileWrappers {
    fn tools(&self, servers: &[Advertised]) -> Vec<(Claim, ModelTool)> {
        let mut tools = Vec::new();
        let offers = |advertised: bool| advertised || !self.settings.only_advertised;
        let mut add = |templates: &[String], kinds: [&Kind; 2], advertised: &dyn Fn(&Advertised) -> bool| {
            for (template, kind) in templates.iter().zip(kinds) {
                let mut offering = servers.iter().filter(|server| offers(advertised(server)));
                if template.contains("{server}") {
                    tools.extend(offering.map(|server| kind.tool(template, Some(&server.server))));
                } else if offering.next().is_some() {
                    tools.push(kind.tool(template, None));
                }
            }
        };
        add(&self.settings.resources, [&LIST_RESOURCES, &READ_RESOURCE], &|server| server.resources);
        add(&self.settings.prompts, [&LIST_PROMPTS, &GET_PROMPT], &|server| server.prompts);
        tools
    }

    fn resources(&self, lists: &[ResourceList]) -> ModelResult {
        let mut lines = Vec::new();
        for list in lists {
            if lists.len() > 1 {
                lines.push(format!("# {}", list.server));
            }
            for entry in list.resources.iter().chain(&list.templates) {
                let mut line = entry.key.clone();
                for member in ["title", "name", "mimeType", "description"] {
                    if let Some(value) = entry.json.get(member).and_then(Value::as_str) {
                        line.push_str(if member == "description" { ": " } else { ", " });
                        line.push_str(&one_line(value));
                    }
                }
                lines.push(line);
            }
        }
        ModelResult::of_text(or_none(lines, "There are no resources."))
    }

    fn read(&self, result: &Value) -> ModelResult {
        let contents = result.get("contents").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let lines: Vec<String> = contents.iter().filter_map(|content| self.content(content)).collect();
        let lines = if self.settings.read_joins_text { lines } else { lines.into_iter().take(1).collect() };
        ModelResult::of_text(lines.join("\n"))
    }

    fn prompts(&self, prompts: &[Entry]) -> ModelResult {
        let line = |entry: &Entry| {
            let arguments = entry.json.get("arguments").and_then(Value::as_array);
            let shown: Vec<String> = arguments
                .into_iter()
                .flatten()
                .filter_map(|argument| {
                    let name = argument.get("name")?.as_str()?;
                    let required = argument.get("required").and_then(Value::as_bool) == Some(true);
                    let mark = if required { self.settings.required_mark.as_str() } else { "" };
                    Some(format!("{}{mark}", one_line(name)))
                })
                .collect();
            let mut line = format!("{}({})", one_line(&entry.key), shown.join(", "));
            if let Some(about) = entry.json.get("description").and_then(Value::as_str) {
                line.push_str(": ");
                line.push_str(&one_line(about));
            }
            line
        };
        ModelResult::of_text(or_none(prompts.iter().map(line).collect(), "There are no prompts."))
    }

    fn prompt(&self, result: &Value) -> ModelResult {
        let messages = result.get("messages").and_then(Value::as_array);
        let lines: Vec<String> = messages
            .into_iter()
            .flatten()
            .map(|message| {
                let role = message.get("role").and_then(Value::as_str).unwrap_or("unknown");
                let text = message.get("content").map_or_else(String::new, |content| self.body(content));
                fill(&self.settings.prompt_line, |name| match name {
                    "role" => Some(role),
                    "text" => Some(&text),
                    _ => None,
                })
            })
            .collect();
        ModelResult::of_text(lines.join("\n"))
    }
}

impl ProfileWrappers {
    /// A content of a resource: its text, or what stands for its blob.
    fn content(&self, content: &Value) -> Option<String> {
        if let Some(text) = content.get("text").and_then(Value::as_str) {
            return Some(text.to_owned());
        }
        let blob = content.get("blob").and_then(Value::as_str)?;
        Some(self.blob(content, blob))
    }

    fn blob(&self, owner: &Value, blob: &str) -> String {
        let mime = owner.get("mimeType").and_then(Value::as_str).unwrap_or("application/octet-stream");
        // What is no base64 has a size all the same: about that of what it would stand for.
        let bytes = decoded_len(blob).unwrap_or(blob.len() / 4 * 3).to_string();
        let mime = one_line(mime);
        fill(&self.settings.blob_line, |name| match name {
            "mime" => Some(&mime),
            "bytes" => Some(&bytes),
            _ => None,
        })
    }

    /// The content of a message, as text. It is one block, though some servers give several.
    fn body(&self, content: &Value) -> String {
        if let Some(blocks) = content.as_array() {
            return blocks.iter().map(|block| self.body(block)).collect::<Vec<_>>().join("\n");
        }
        if let Some(text) = content.get("text").and_then(Value::as_str) {
            return text.to_owned();
        }
        if let Some(data) = content.get("data").and_then(Value::as_str) {
            return self.blob(content, data);
        }
        match (content.get("resource"), content.get("uri").and_then(Value::as_str)) {
            (Some(resource), _) => self.content(resource).unwrap_or_default(),
            (None, Some(uri)) => format!("[link to resource {uri}]"),
            (None, None) => String::new(),
        }
    }
}

fn or_none(lines: Vec<String>, none: &str) -> String {
    if lines.is_empty() { none.to_owned() } else { lines.join("\n") }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The server that a call of a wrapper concerns: the wrapper's own, or the one that the arguments name, or the only one.
///
/// # Errors
/// [`HostError::NoServer`], or [`HostError::Refused`] if it could be several.
pub fn concerned<'a>(
    own: Option<&'a str>,
    arguments: &'a Map<String, Value>,
    offering: &'a [String],
) -> Result<&'a str, HostError> {
    match (own, arguments.get(SERVER), offering) {
        (Some(own), _, _) => Ok(own),
        (None, Some(Value::String(named)), offering) => {
            let found = offering.iter().find(|server| *server == named);
            found.map(String::as_str).ok_or_else(|| HostError::NoServer(named.clone()))
        }
        (None, None, [only]) => Ok(only),
        (None, _, _) => Err(HostError::Refused(format!(
            "the argument `{SERVER}` is needed, one of {}",
            offering.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests;
