//! Changes of the model by actions.

use super::ServerCore;
use crate::model::tool_name;
use crate::script::Action;
use sparring_wire::transcript::What;

impl ServerCore {
    /// Changes the model, silently.
    pub(super) fn change(&mut self, action: Action) {
        let model = &mut self.model;
        let change = match action {
            Action::AddTool(tool) => {
                let said = format!("tool `{}` added", tool_name(&tool));
                model.add_tool(tool);
                said
            }
            Action::RemoveTool(name) => {
                model.remove_tool(&name);
                format!("tool `{name}` removed")
            }
            Action::ChangeTool(change) => {
                let said = format!("tool `{}` changed", change.name);
                model.change_tool(change);
                said
            }
            Action::AddResource(resource) => {
                let said = format!("resource `{}` added", resource.uri);
                model.add_resource(resource);
                said
            }
            Action::RemoveResource(uri) => {
                model.remove_resource(&uri);
                format!("resource `{uri}` removed")
            }
            Action::AddTemplate(template) => {
                let said =
                    format!("template `{}` added", template.0["uriTemplate"].as_str().unwrap_or_default());
                model.add_template(template.0);
                said
            }
            Action::RemoveTemplate(template) => {
                model.remove_template(&template);
                format!("template `{template}` removed")
            }
            Action::AddPrompt(prompt) => {
                let said = format!("prompt `{}` added", prompt.name);
                model.add_prompt(prompt);
                said
            }
            Action::RemovePrompt(name) => {
                model.remove_prompt(&name);
                format!("prompt `{name}` removed")
            }
            Action::ChangeServer(change) => {
                model.change_server(change);
                "server changed".to_owned()
            }
            _ => return,
        };
        self.observe(What::ModelChanged { change });
    }
}
