//! Looking at the host, and telling it what its user or its program would.

use super::{Reference, refused};
use serde_json::{Value, json};
use sparring_host::{Control, Inspect, Session};
use sparring_scenarios::op::{self, Controlled, Inspected};
use sparring_wire::transcript::Failure;

impl Reference {
    /// Changes a setting, of the host or of a session.
    pub(super) async fn set(&self, session: &Session, setting: &str, value: Value) -> Result<Value, Failure> {
        let wrong = |error: serde_json::Error| refused(&format!("the setting `{setting}`: {error}"));
        let control = match setting {
            "policy.rules" => Control::Rules { rules: value },
            "policy.auto_approve" => {
                Control::AutoApprove { on: serde_json::from_value(value).map_err(wrong)? }
            }
            "session.gate" => Control::Gate { names: serde_json::from_value(value).map_err(wrong)? },
            "session.visible" => Control::Visible { visible: serde_json::from_value(value).map_err(wrong)? },
            "session.disclosure" => {
                Control::Disclosure { options: serde_json::from_value(value).map_err(wrong)? }
            }
            // They were told when it was opened.
            "config.import" | "session.isolated" | "session.without_servers" => return Ok(json!({})),
            setting => Control::Set { setting: setting.to_owned(), value },
        };
        session.control(control).await.map_err(|error| self.failure(&error))?;
        Ok(json!({}))
    }

    pub(super) async fn inspect(&self, inspect: &op::Inspect) -> Result<Value, Failure> {
        let session = self.session(inspect.agent.as_deref())?;
        let look =
            |what: Inspect| async { session.inspect(what).await.map_err(|error| self.failure(&error)) };
        Ok(match inspect.what {
            Inspected::Prompt => {
                let prompt = look(Inspect::Prompt).await?;
                let system = prompt.get("system").or_else(|| prompt.get("text")).cloned();
                let tools = session.tools().await.map_err(|error| self.failure(&error))?;
                let shown = |tool: &sparring_host::model::ModelTool| {
                    json!({
                        "name": tool.name,
                        "description": tool.description,
                        "inputSchema": tool.input_schema,
                    })
                };
                let tools: Vec<Value> = match prompt.get("tools").and_then(Value::as_array) {
                    Some(tools) => tools.clone(),
                    None => tools.iter().map(shown).collect(),
                };
                json!({ "system": system.unwrap_or_else(|| Value::from("")), "tools": tools })
            }
            Inspected::Policy => {
                let raw = inspect.tool.as_deref().unwrap_or_default();
                let (tool, _) = self.names.resolve(raw, inspect.server.as_deref());
                let policy = look(Inspect::Policy { tool }).await?;
                match policy.get("policy") {
                    Some(_) => policy,
                    None => json!({ "policy": policy }),
                }
            }
            Inspected::Status => json!({ "servers": list_of(&look(Inspect::Status).await?, "servers") }),
            Inspected::Instances => {
                json!({ "instances": list_of(&look(Inspect::Instances).await?, "instances") })
            }
            Inspected::Events => json!({ "events": list_of(&look(Inspect::Events).await?, "events") }),
            Inspected::Log => {
                let lines = list_of(&look(Inspect::Log).await?, "lines");
                let text = |line: &Value| match line {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                json!({ "lines": lines.iter().map(text).collect::<Vec<_>>() })
            }
        })
    }

    pub(super) async fn control(&self, control: &op::Control) -> Result<Value, Failure> {
        let session = self.session(control.agent.as_deref())?;
        let server = || match &control.server {
            Some(server) => Ok(server.clone()),
            None => match self.servers()?.as_slice() {
                [only] => Ok(only.clone()),
                _ => Err(refused("say which server")),
            },
        };
        let tool = control.tool.as_ref().map(|raw| self.names.resolve(raw, control.server.as_deref()).0);
        let told = match control.what {
            Controlled::Run => Control::Run,
            Controlled::Compact => Control::Compact,
            Controlled::Start => Control::Start { server: server()? },
            Controlled::Stop => Control::Stop { server: server()? },
            Controlled::Restart => Control::Restart { server: server()? },
            Controlled::Retire => Control::Retire { server: server()? },
            Controlled::Refresh => Control::Refresh { server: control.server.clone() },
            Controlled::Rebuild => Control::Rebuild,
            Controlled::Reopen => Control::Reopen,
            Controlled::Warmup => Control::Warmup,
            Controlled::Approve => Control::Approve { tool, always: control.always },
            Controlled::Deny => Control::Deny { tool, reason: None },
            Controlled::Set => {
                let value = control.value.as_ref().map(|value| value.0.clone()).unwrap_or_default();
                return self.set(&session, control.setting.as_deref().unwrap_or_default(), value).await;
            }
            Controlled::Login => {
                let way = control.value.as_ref().and_then(|value| value.0.as_str());
                if way.is_some_and(|way| way != "loopback") {
                    return Err(refused("the browser of this driver knows no other way back than loopback"));
                }
                session.login(&server()?).await.map_err(|error| self.failure(&error))?;
                return Ok(json!({}));
            }
            Controlled::Logout => {
                session.logout(&server()?).await.map_err(|error| self.failure(&error))?;
                return Ok(json!({}));
            }
        };
        let done = session.control(told).await.map_err(|error| self.failure(&error))?;
        Ok(if done.is_object() { done } else { json!({}) })
    }
}

/// The list itself, or the member that holds it.
pub(super) fn list_of(value: &Value, member: &str) -> Vec<Value> {
    value.as_array().or_else(|| value.get(member)?.as_array()).cloned().unwrap_or_default()
}
