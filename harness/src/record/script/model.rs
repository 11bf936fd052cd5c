//! What the server offers, as far as its answers show it.

use super::walk::Reaction;
use crate::judge::view::View;
use serde_json::{Map, Value};
use sparring_mock_servers::model::tool_name;
use sparring_mock_servers::script::{
    JsonText, PromptScript, ResourceScript, ServerScript, ToolDefinition, ToolScript,
};

/// The model; without rules.
pub(super) fn of(view: &View<'_>, reactions: &[Reaction]) -> ServerScript {
    let mut script = ServerScript::default();
    for reaction in reactions {
        let (Some(method), Some(result)) = (reaction.method(), reaction.result()) else { continue };
        match method {
            "initialize" if script.capabilities.is_none() => initialize(result, &mut script),
            "tools/list" => {
                for tool in items(result, "tools") {
                    if let Some(tool) = definition(tool)
                        && script.tools.iter().all(|known| tool_name(known) != tool.name)
                    {
                        script.tools.push(ToolScript::Custom(Box::new(tool)));
                    }
                }
            }
            "resources/list" => {
                for listed in items(result, "resources") {
                    if let Some(uri) = text(listed, "uri")
                        && script.resources.iter().all(|known| known.uri != uri)
                    {
                        let mut rest = Rest::of(listed, "uri");
                        script.resources.push(ResourceScript {
                            uri,
                            name: rest.text("name"),
                            title: rest.text("title"),
                            description: rest.text("description"),
                            mime_type: rest.text("mimeType"),
                            icons: rest.json("icons"),
                            extra: rest.extra(),
                            ..ResourceScript::default()
                        });
                    }
                }
            }
            "resources/templates/list" => {
                for template in items(result, "resourceTemplates") {
                    let template = JsonText(template.clone());
                    if !script.templates.contains(&template) {
                        script.templates.push(template);
                    }
                }
            }
            "prompts/list" => {
                for listed in items(result, "prompts") {
                    if let Some(name) = text(listed, "name")
                        && script.prompts.iter().all(|known| known.name != name)
                    {
                        let mut rest = Rest::of(listed, "name");
                        script.prompts.push(PromptScript {
                            name,
                            description: rest.text("description"),
                            title: rest.text("title"),
                            icons: rest.json("icons"),
                            arguments: rest.json("arguments"),
                            extra: rest.extra(),
                            messages: None,
                        });
                    }
                }
            }
            _ => {}
        }
    }
    reactions.iter().for_each(|reaction| contents(reaction, &mut script));
    // The handshake names it whatever revision the script is played in.
    script.version = view.conversations().iter().find_map(|c| c.version.clone());
    script
}

fn initialize(result: &Value, script: &mut ServerScript) {
    let member = |name: &str| result.get(name).cloned().map(JsonText);
    script.capabilities = member("capabilities");
    script.info = member("serverInfo");
    script.instructions = text(result, "instructions");
}

/// What calling, reading and getting gives, also of what no list was asked for.
fn contents(reaction: &Reaction, script: &mut ServerScript) {
    let (Some(method), Some(result)) = (reaction.method(), reaction.result()) else { return };
    let asked = |name: &str| reaction.params.get(name).and_then(Value::as_str);
    match method {
        "tools/call" => {
            let Some(name) = asked("name") else { return };
            if script.tools.iter().all(|tool| tool_name(tool) != name) {
                let tool = ToolDefinition { name: name.to_owned(), ..ToolDefinition::default() };
                script.tools.push(ToolScript::Custom(Box::new(tool)));
            }
            for tool in &mut script.tools {
                if let ToolScript::Custom(tool) = tool
                    && tool.name == name
                {
                    tool.result.get_or_insert_with(|| JsonText(result.clone()));
                }
            }
        }
        "resources/read" => {
            let Some(uri) = asked("uri") else { return };
            // What a template stands for is in no list.
            if script.resources.iter().all(|known| known.uri != uri) && script.templates.is_empty() {
                script.resources.push(ResourceScript { uri: uri.to_owned(), ..ResourceScript::default() });
            }
            if let Some(resource) = script.resources.iter_mut().find(|known| known.uri == uri)
                && resource.contents.is_none()
            {
                resource.contents = result.get("contents").cloned().map(JsonText);
            }
        }
        "prompts/get" => {
            let Some(name) = asked("name") else { return };
            if script.prompts.iter().all(|known| known.name != name) {
                script.prompts.push(PromptScript { name: name.to_owned(), ..PromptScript::default() });
            }
            if let Some(prompt) = script.prompts.iter_mut().find(|known| known.name == name)
                && prompt.messages.is_none()
            {
                prompt.messages = result.get("messages").cloned().map(JsonText);
            }
        }
        _ => {}
    }
}

fn items<'v>(result: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    result.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn definition(tool: &Value) -> Option<ToolDefinition> {
    let name = text(tool, "name")?;
    let mut rest = Rest::of(tool, "name");
    Some(ToolDefinition {
        name,
        title: rest.text("title"),
        description: rest.text("description"),
        input_schema: rest.json("inputSchema"),
        output_schema: rest.json("outputSchema"),
        annotations: rest.json("annotations"),
        extra: rest.extra(),
        ..ToolDefinition::default()
    })
}

/// The members of a list's entry that are not placed yet.
struct Rest(Map<String, Value>);

impl Rest {
    /// All but the one by which it is known.
    fn of(entry: &Value, known_by: &str) -> Self {
        let mut members = entry.as_object().cloned().unwrap_or_default();
        members.shift_remove(known_by);
        Self(members)
    }

    fn json(&mut self, key: &str) -> Option<JsonText> {
        self.0.shift_remove(key).map(JsonText)
    }

    /// Only if it is text; what is not stays for [`Self::extra`].
    fn text(&mut self, key: &str) -> Option<String> {
        let text = self.0.get(key)?.as_str()?.to_owned();
        self.0.shift_remove(key);
        Some(text)
    }

    fn extra(self) -> Option<JsonText> {
        (!self.0.is_empty()).then_some(JsonText(Value::Object(self.0)))
    }
}
