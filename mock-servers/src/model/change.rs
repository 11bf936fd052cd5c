//! Changes of a model while the server runs.

use super::{Model, tool_name};
use crate::library;
use crate::script::{ChangeServer, ChangeTool, JsonText, PromptScript, ToolDefinition, ToolScript};
use serde_json::Value;

impl Model {
    /// Changes a tool where it stands. A tool of the library becomes one of the script's own that answers like it.
    pub fn change_tool(&mut self, change: ChangeTool) {
        // The newest knows most; what an earlier one lacks is left out for it.
        let revision = self.speaks.last().copied().unwrap_or(sparring_wire::Revision::LATEST_HANDSHAKE);
        let Some(tool) = self.tools.iter_mut().find(|t| tool_name(t) == change.name) else { return };
        let mut definition = match tool {
            ToolScript::Custom(definition) => (**definition).clone(),
            ToolScript::Library(name) => {
                let known = library::definition(name, revision).unwrap_or_default();
                let json = |key: &str| known.get(key).cloned().map(JsonText);
                let text = |key: &str| known.get(key).and_then(Value::as_str).map(str::to_owned);
                ToolDefinition {
                    title: text("title"),
                    description: text("description"),
                    input_schema: json("inputSchema"),
                    output_schema: json("outputSchema"),
                    annotations: json("annotations"),
                    like: Some(name.clone()),
                    name: name.clone(),
                    ..ToolDefinition::default()
                }
            }
        };
        let ChangeTool {
            name: _,
            title,
            description,
            input_schema,
            output_schema,
            annotations,
            extra,
            result,
        } = change;
        definition.title = title.or(definition.title);
        definition.description = description.or(definition.description);
        definition.input_schema = input_schema.or(definition.input_schema);
        definition.output_schema = output_schema.or(definition.output_schema);
        definition.annotations = annotations.or(definition.annotations);
        definition.extra = extra.or(definition.extra);
        definition.result = result.or(definition.result);
        *tool = ToolScript::Custom(Box::new(definition));
    }

    /// Removes a resource; whether there was one.
    pub fn remove_resource(&mut self, uri: &str) -> bool {
        let before = self.resources.len();
        self.resources.retain(|r| r.uri != uri);
        before != self.resources.len()
    }

    /// Adds a resource template; one of the same `uriTemplate` is replaced.
    pub fn add_template(&mut self, template: Value) {
        self.templates.retain(|t| t["uriTemplate"] != template["uriTemplate"]);
        self.templates.push(template);
    }

    /// Removes a resource template; whether there was one.
    pub fn remove_template(&mut self, uri_template: &str) -> bool {
        let before = self.templates.len();
        self.templates.retain(|t| t["uriTemplate"] != uri_template);
        before != self.templates.len()
    }

    /// Adds a prompt; one of the same name is replaced.
    pub fn add_prompt(&mut self, prompt: PromptScript) {
        self.remove_prompt(&prompt.name);
        self.prompts.push(prompt);
    }

    /// Changes what the server says of itself.
    pub fn change_server(&mut self, change: ChangeServer) {
        let ChangeServer { capabilities, info, instructions, version, page_size } = change;
        if let Some(capabilities) = capabilities {
            self.capabilities = Some(capabilities.0);
        }
        if let Some(info) = info {
            self.info = info.0;
        }
        self.instructions = instructions.or_else(|| self.instructions.take());
        self.version = version.or_else(|| self.version.take());
        if let Some(size) = page_size {
            self.page_size = Some(usize::try_from(size).unwrap_or(usize::MAX).max(1));
        }
    }
}
