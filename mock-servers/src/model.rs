//! What a mock server offers, and its faithful answers: a pure function from method and params to a result.
//!
//! Nothing that a revision lacks is in an answer, except where the script spells it out.

mod change;
mod entries;
mod offered;

use crate::library;
use crate::script::{
    AskScript, CursorStyle, JsonText, PromptScript, ResourceScript, ServerScript, TaskScript, TaskSupport,
    ToolDefinition, ToolScript,
};
use entries::{prompt, resource};
use offered::Offered;
use serde_json::{Map, Value, json};
use sparring_wire::Revision;
use sparring_wire::jsonrpc::codes;
use sparring_wire::meta;

/// An error answer.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// Its code.
    pub code: i64,
    /// Its message.
    pub message: String,
    /// Its data.
    pub data: Option<Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// -32602.
pub(crate) fn invalid_params(message: impl Into<String>) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, message)
}

/// -32601.
pub(crate) fn method_not_found(method: &str) -> RpcError {
    RpcError::new(codes::METHOD_NOT_FOUND, format!("method not found: {method}"))
}

/// What the model has to say to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The result.
    Result(Value),
    /// It takes these answers of the client's; whether they are there is for the core to say.
    Ask(AskScript),
}

/// The model of a running server: it starts as the script says and changes by actions.
#[derive(Debug, Clone)]
pub struct Model {
    /// What the server speaks, oldest first.
    speaks: Vec<Revision>,
    tools: Vec<ToolScript>,
    resources: Vec<ResourceScript>,
    templates: Vec<Value>,
    prompts: Vec<PromptScript>,
    /// Given by the script, for all revisions.
    capabilities: Option<Value>,
    /// The capabilities that follow from what the script offers, as far as all revisions have them.
    offered: Offered,
    extensions: Option<Value>,
    info: Value,
    instructions: Option<String>,
    version: Option<String>,
    page_size: Option<usize>,
    cursors: CursorStyle,
}

impl Model {
    /// The model that `script` describes; `revision` is spoken if the script names none.
    pub fn new(script: &ServerScript, revision: Revision) -> Self {
        let mut speaks = if script.speaks.is_empty() { vec![revision] } else { script.speaks.clone() };
        speaks.sort();
        speaks.dedup();
        let mut tools = script.tools.clone();
        tools.extend((0..script.many_tools.unwrap_or(0)).map(|n| {
            ToolScript::Custom(Box::new(ToolDefinition {
                name: format!("tool-{n:03}"),
                ..Default::default()
            }))
        }));
        Self {
            speaks,
            tools,
            resources: script.resources.clone(),
            templates: script.templates.iter().map(|t| t.0.clone()).collect(),
            prompts: script.prompts.clone(),
            capabilities: script.capabilities.as_ref().map(|given| given.0.clone()),
            offered: Offered::by(script),
            extensions: script.extensions.as_ref().map(|e| e.0.clone()),
            info: script.info.as_ref().map_or_else(
                || json!({"name": "sparring-mock", "version": env!("CARGO_PKG_VERSION")}),
                |i| i.0.clone(),
            ),
            instructions: script.instructions.clone(),
            version: script.version.clone(),
            page_size: script.page_size.map(|n| usize::try_from(n).unwrap_or(usize::MAX).max(1)),
            cursors: script.cursors,
        }
    }

    /// The protocol version of the initialize result, if `revision` was agreed on.
    pub fn version(&self, revision: Revision) -> &str {
        self.version.as_deref().unwrap_or(revision.as_str())
    }

    /// What the server speaks, oldest first.
    pub fn speaks(&self) -> &[Revision] {
        &self.speaks
    }

    /// The revisions that it speaks, as versions, newest first.
    pub fn versions(&self) -> Value {
        self.speaks.iter().rev().map(|r| Value::from(r.as_str())).collect()
    }

    /// The newest revision with a handshake that it speaks.
    pub fn newest_legacy(&self) -> Option<Revision> {
        self.speaks.iter().rev().copied().find(|r| r.has_handshake())
    }

    /// Whether it speaks the stateless revision.
    pub fn speaks_stateless(&self) -> bool {
        self.speaks.contains(&Revision::STATELESS)
    }

    /// `serverInfo`.
    pub const fn info(&self) -> &Value {
        &self.info
    }

    /// The tool of this name.
    pub fn tool_named(&self, name: &str) -> Option<&ToolScript> {
        self.tools.iter().find(|t| tool_name(t) == name)
    }

    /// How calls of a tool run as tasks.
    pub fn task_of(&self, name: &str) -> Option<TaskScript> {
        match self.tool_named(name)? {
            ToolScript::Library(name) => library::task(name),
            ToolScript::Custom(definition) => {
                definition.task.clone().or_else(|| definition.like.as_deref().and_then(library::task))
            }
        }
    }

    /// A tool's `inputSchema`.
    pub fn input_schema(&self, name: &str, revision: Revision) -> Option<Value> {
        self.tool_named(name).map(|tool| self.tool(tool, revision)["inputSchema"].clone())
    }

    /// Whether calls of any tool may be tasks.
    fn has_tasks(&self) -> bool {
        self.offered.tasks
            || self.tools.iter().any(|t| {
                self.task_of(tool_name(t)).is_some_and(|task| task.support != TaskSupport::Forbidden)
            })
    }

    /// The server's capabilities in `revision`.
    pub fn capabilities(&self, revision: Revision) -> Value {
        let mut out = match &self.capabilities {
            Some(given) => given.clone(),
            None => self.offered.capabilities(revision, self.has_tasks()),
        };
        if revision.is_stateless()
            && let (Value::Object(out), Some(Value::Object(extensions))) = (&mut out, &self.extensions)
            && let Value::Object(all) = out.entry("extensions").or_insert_with(|| json!({}))
        {
            all.extend(extensions.clone());
        }
        out
    }

    /// Whether the capabilities in `revision` have what a method needs.
    pub fn has_capability(&self, method: &str, revision: Revision) -> bool {
        let tasks = || self.capabilities(revision);
        let capability = match method {
            "tools/list" | "tools/call" => Some("tools"),
            "resources/list" | "resources/read" | "resources/templates/list" => Some("resources"),
            "resources/subscribe" | "resources/unsubscribe" => Some("resources"),
            "prompts/list" | "prompts/get" => Some("prompts"),
            "logging/setLevel" => Some("logging"),
            "completion/complete" if revision >= Revision::V2025_03_26 => Some("completions"),
            "tasks/list" | "tasks/cancel" if revision == Revision::V2025_11_25 => {
                return tasks()["tasks"].get(method.trim_start_matches("tasks/")).is_some();
            }
            "tasks/get" | "tasks/result" if revision == Revision::V2025_11_25 => Some("tasks"),
            "tasks/get" | "tasks/update" | "tasks/cancel" if revision.is_stateless() => {
                return tasks()["extensions"].get(meta::TASKS_EXTENSION).is_some();
            }
            _ => None,
        };
        // Each request comes here: no more is worked out than what is asked for.
        capability.is_none_or(|c| match &self.capabilities {
            Some(given) => given.get(c).is_some(),
            None => match c {
                "tools" => self.offered.tools,
                "resources" => self.offered.resources,
                "prompts" => self.offered.prompts,
                "completions" => self.offered.resources || self.offered.prompts,
                "tasks" => self.has_tasks(),
                _ => true,
            },
        })
    }

    /// Whether `revision` has a method at all.
    pub fn has_method(method: &str, revision: Revision) -> bool {
        let stateless = revision.is_stateless();
        match method {
            "tools/list"
            | "tools/call"
            | "resources/list"
            | "resources/read"
            | "resources/templates/list"
            | "prompts/list"
            | "prompts/get"
            | "completion/complete" => true,
            "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                !stateless
            }
            "server/discover" | "subscriptions/listen" | "tasks/update" => stateless,
            "tasks/get" | "tasks/cancel" => revision >= Revision::V2025_11_25,
            "tasks/result" | "tasks/list" => revision == Revision::V2025_11_25,
            _ => false,
        }
    }

    /// Adds a tool; one of the same name is replaced.
    pub fn add_tool(&mut self, tool: ToolScript) {
        self.remove_tool(tool_name(&tool).to_owned().as_str());
        self.tools.push(tool);
    }

    /// Removes a tool; whether there was one.
    pub fn remove_tool(&mut self, name: &str) -> bool {
        let before = self.tools.len();
        self.tools.retain(|t| tool_name(t) != name);
        before != self.tools.len()
    }

    /// Adds a resource; one of the same URI is replaced.
    pub fn add_resource(&mut self, resource: ResourceScript) {
        self.resources.retain(|r| r.uri != resource.uri);
        self.resources.push(resource);
    }

    /// Removes a prompt; whether there was one.
    pub fn remove_prompt(&mut self, name: &str) -> bool {
        let before = self.prompts.len();
        self.prompts.retain(|p| p.name != name);
        before != self.prompts.len()
    }

    /// The faithful answer to a request in `revision`. `inputs` are the client's answers to what was asked, by key.
    pub fn answer(
        &self,
        revision: Revision,
        method: &str,
        params: Option<&Value>,
        inputs: &Map<String, Value>,
    ) -> Result<Reply, RpcError> {
        static EMPTY: Value = Value::Null;
        let params = params.unwrap_or(&EMPTY);
        if !Self::has_method(method, revision) || !self.has_capability(method, revision) {
            return Err(method_not_found(method));
        }
        if method == "tools/call" {
            return self.call(params, revision, inputs);
        }
        self.plain(revision, method, params).map(Reply::Result)
    }

    fn plain(&self, revision: Revision, method: &str, params: &Value) -> Result<Value, RpcError> {
        match method {
            "initialize" => self.initialize(params, revision),
            "ping" => Ok(json!({})),
            "server/discover" => {
                let mut result = json!({
                    "supportedVersions": self.versions(),
                    "capabilities": self.capabilities(revision),
                });
                if let Some(instructions) = &self.instructions {
                    result["instructions"] = instructions.as_str().into();
                }
                Ok(result)
            }
            "tools/list" => self.page("tools", self.tools.iter().map(|t| self.tool(t, revision)), params),
            "resources/list" => {
                self.page("resources", self.resources.iter().map(|r| resource(r, revision)), params)
            }
            "resources/templates/list" => {
                self.page("resourceTemplates", self.templates.iter().cloned(), params)
            }
            "resources/read" => self.read(params, revision),
            "resources/subscribe" | "resources/unsubscribe" => {
                let uri = string(params, "uri")?;
                if method == "resources/subscribe" && self.resources.iter().all(|r| r.uri != uri) {
                    return Err(resource_not_found(uri, revision));
                }
                Ok(json!({}))
            }
            "prompts/list" => self.page("prompts", self.prompts.iter().map(|p| prompt(p, revision)), params),
            "prompts/get" => self.prompt(params),
            "completion/complete" => self.complete(params),
            "logging/setLevel" => {
                let level = string(params, "level")?;
                if meta::LOG_LEVELS.contains(&level) {
                    Ok(json!({}))
                } else {
                    Err(invalid_params(format!("no level `{level}`")))
                }
            }
            _ => Err(method_not_found(method)),
        }
    }

    fn initialize(&self, params: &Value, revision: Revision) -> Result<Value, RpcError> {
        string(params, "protocolVersion")?;
        let mut result = Map::new();
        result.insert("protocolVersion".into(), self.version(revision).into());
        result.insert("capabilities".into(), self.capabilities(revision));
        result.insert("serverInfo".into(), self.info.clone());
        if let Some(instructions) = &self.instructions {
            result.insert("instructions".into(), instructions.as_str().into());
        }
        Ok(Value::Object(result))
    }

    fn tool(&self, tool: &ToolScript, revision: Revision) -> Value {
        let execution = (revision == Revision::V2025_11_25)
            .then(|| self.task_of(tool_name(tool)))
            .flatten()
            .map(|task| json!({"taskSupport": task.support.as_str()}));
        let definition = match tool {
            ToolScript::Library(name) => {
                let mut definition = library::definition(name, revision).unwrap_or_default();
                if let Some(execution) = execution {
                    definition["execution"] = execution;
                }
                return definition;
            }
            ToolScript::Custom(definition) => definition,
        };
        let mut out = Map::new();
        let mut put = |key: &str, value: Option<Value>, since: Revision| {
            if let Some(value) = value.filter(|_| revision >= since) {
                out.insert(key.into(), value);
            }
        };
        let json = |text: &Option<JsonText>| text.as_ref().map(|t| t.0.clone());
        // A tool that borrows another's result borrows its schema too, unless it has one.
        let like = definition.like.as_deref().and_then(|name| library::definition(name, revision));
        let input = json(&definition.input_schema)
            .or_else(|| like.as_ref().map(|l| l["inputSchema"].clone()))
            .unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        let output = json(&definition.output_schema)
            .or_else(|| like.as_ref().and_then(|l| l.get("outputSchema").cloned()));
        let first = Revision::V2024_11_05;
        put("name", Some(definition.name.as_str().into()), first);
        put("title", definition.title.as_deref().map(Value::from), Revision::V2025_06_18);
        put("description", definition.description.as_deref().map(Value::from), first);
        put("inputSchema", Some(input), first);
        put("outputSchema", output, Revision::V2025_06_18);
        put("annotations", json(&definition.annotations), Revision::V2025_03_26);
        put("execution", execution, Revision::V2025_11_25);
        put("icons", json(&definition.icons), Revision::V2025_11_25);
        if let Some(Value::Object(extra)) = json(&definition.extra) {
            out.extend(extra);
        }
        Value::Object(out)
    }

    fn call(
        &self,
        params: &Value,
        revision: Revision,
        inputs: &Map<String, Value>,
    ) -> Result<Reply, RpcError> {
        let name = string(params, "name")?;
        let arguments = match params.get("arguments") {
            None => &Value::Null,
            Some(arguments @ Value::Object(_)) => arguments,
            Some(_) => return Err(invalid_params("`arguments` is not an object")),
        };
        let tool = self.tool_named(name).ok_or_else(|| invalid_params(format!("unknown tool: {name}")))?;
        Ok(match self.asks(params) {
            Some(ask) => Reply::Ask(ask),
            None => Reply::Result(self.called(tool, arguments, revision, inputs)),
        })
    }

    /// What a call asks the client for.
    pub fn asks(&self, params: &Value) -> Option<AskScript> {
        let tool = self.tool_named(params["name"].as_str()?)?;
        let arguments = params.get("arguments").unwrap_or(&Value::Null);
        match tool {
            ToolScript::Library(name) => library::asks(name, arguments),
            ToolScript::Custom(definition) => definition.ask.clone().or_else(|| {
                let like = definition.like.as_deref().filter(|_| definition.result.is_none())?;
                library::asks(like, arguments)
            }),
        }
    }

    /// The result of a tool that has all that it asked for.
    fn called(
        &self,
        tool: &ToolScript,
        arguments: &Value,
        revision: Revision,
        inputs: &Map<String, Value>,
    ) -> Value {
        let library = |name: &str| {
            let answered = (!inputs.is_empty()).then(|| library::answered(name, inputs)).flatten();
            answered.or_else(|| library::call(name, arguments, revision))
        };
        match tool {
            ToolScript::Library(name) => library(name).unwrap_or_default(),
            ToolScript::Custom(definition) => match (&definition.result, &definition.like) {
                (Some(result), _) => result.0.clone(),
                (None, Some(like)) => {
                    library(like).unwrap_or_else(|| json!({"content": [], "isError": true}))
                }
                (None, None) if inputs.is_empty() => {
                    json!({"content": [{"type": "text", "text": definition.name}]})
                }
                (None, None) => {
                    let text = format!("{} {}", definition.name, Value::Object(inputs.clone()));
                    json!({"content": [{"type": "text", "text": text}]})
                }
            },
        }
    }

    /// What a call of a tool gives when there is nothing (more) to ask.
    pub fn outcome(
        &self,
        params: &Value,
        revision: Revision,
        inputs: &Map<String, Value>,
    ) -> Result<Value, RpcError> {
        let name = string(params, "name")?;
        let tool = self.tool_named(name).ok_or_else(|| invalid_params(format!("unknown tool: {name}")))?;
        Ok(self.called(tool, params.get("arguments").unwrap_or(&Value::Null), revision, inputs))
    }

    fn read(&self, params: &Value, revision: Revision) -> Result<Value, RpcError> {
        let uri = string(params, "uri")?;
        let Some(resource) = self.resources.iter().find(|r| r.uri == uri) else {
            if self
                .templates
                .iter()
                .filter_map(|t| t["uriTemplate"].as_str())
                .any(|t| matches_template(t, uri))
            {
                return Ok(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": uri}]}));
            }
            return Err(resource_not_found(uri, revision));
        };
        if let Some(contents) = &resource.contents {
            return Ok(json!({"contents": contents.0}));
        }
        let mut contents = Map::new();
        contents.insert("uri".into(), uri.into());
        if let Some(mime_type) = &resource.mime_type {
            contents.insert("mimeType".into(), mime_type.as_str().into());
        }
        match resource.blob_bytes {
            Some(length) => {
                contents.insert("blob".into(), library::base64(&library::bytes(length)).into());
            }
            None => {
                contents.insert("text".into(), resource.text.as_deref().unwrap_or_default().into());
            }
        }
        Ok(json!({"contents": [contents]}))
    }

    fn prompt(&self, params: &Value) -> Result<Value, RpcError> {
        let name = string(params, "name")?;
        let arguments = match params.get("arguments") {
            None => Map::new(),
            Some(Value::Object(arguments)) if arguments.values().all(Value::is_string) => arguments.clone(),
            Some(_) => return Err(invalid_params("`arguments` is not an object of strings")),
        };
        let prompt = self
            .prompts
            .iter()
            .find(|p| p.name == name)
            .ok_or_else(|| invalid_params(format!("unknown prompt: {name}")))?;
        let wanted = prompt.arguments.as_ref().and_then(|a| a.0.as_array()).map_or(&[][..], Vec::as_slice);
        for argument in wanted.iter().filter(|a| a["required"] == true) {
            let name = argument["name"].as_str().unwrap_or_default();
            if !arguments.contains_key(name) {
                return Err(invalid_params(format!("missing argument: {name}")));
            }
        }
        let mut result = Map::new();
        if let Some(description) = &prompt.description {
            result.insert("description".into(), description.as_str().into());
        }
        let messages = prompt.messages.as_ref().map_or_else(
            || {
                let text = format!("{name} {}", Value::Object(arguments));
                json!([{"role": "user", "content": {"type": "text", "text": text}}])
            },
            |m| m.0.clone(),
        );
        result.insert("messages".into(), messages);
        Ok(Value::Object(result))
    }

    fn complete(&self, params: &Value) -> Result<Value, RpcError> {
        let reference = params.get("ref").unwrap_or(&Value::Null);
        let known = match reference["type"].as_str() {
            Some("ref/prompt") => self.prompts.iter().any(|p| reference["name"] == p.name.as_str()),
            Some("ref/resource") => {
                self.templates.iter().any(|t| t["uriTemplate"] == reference["uri"])
                    || self.resources.iter().any(|r| reference["uri"] == r.uri.as_str())
            }
            _ => false,
        };
        if !known {
            return Err(invalid_params("unknown `ref`"));
        }
        let argument = params.get("argument").unwrap_or(&Value::Null);
        string(argument, "name")?;
        let value = string(argument, "value")?;
        let values = [format!("{value}-one"), format!("{value}-two")];
        Ok(json!({"completion": {"values": values, "total": 2, "hasMore": false}}))
    }

    /// Which page of a list a cursor names, counted from 0.
    pub fn page_number(&self, cursor: Option<&Value>, items: usize) -> Result<usize, RpcError> {
        let pages = items.div_ceil(self.page_size.unwrap_or(usize::MAX)).max(1);
        let Some(cursor) = cursor else { return Ok(0) };
        let cursor = cursor.as_str().ok_or_else(|| invalid_params("`cursor` is not a string"))?;
        match self.cursors {
            CursorStyle::Repeated if cursor == REPEATED => Ok(1),
            _ => {
                (1..pages).find(|p| self.cursor(*p) == cursor).ok_or_else(|| invalid_params("unknown cursor"))
            }
        }
    }

    /// How many items the list that a method returns has.
    pub fn length_of(&self, method: &str) -> usize {
        match method {
            "tools/list" => self.tools.len(),
            "resources/list" => self.resources.len(),
            "resources/templates/list" => self.templates.len(),
            "prompts/list" => self.prompts.len(),
            _ => 0,
        }
    }

    /// One page of a list.
    pub fn page(
        &self,
        key: &str,
        items: impl ExactSizeIterator<Item = Value>,
        params: &Value,
    ) -> Result<Value, RpcError> {
        let size = self.page_size.unwrap_or(usize::MAX);
        let pages = items.len().div_ceil(size).max(1);
        let page = self.page_number(params.get("cursor"), items.len())?;
        let mut result = Map::new();
        let items: Vec<Value> = items.skip(page.saturating_mul(size)).take(size).collect();
        result.insert(key.into(), items.into());
        if page + 1 < pages || self.cursors == CursorStyle::Repeated {
            result.insert("nextCursor".into(), self.cursor(page + 1).into());
        }
        Ok(Value::Object(result))
    }

    /// The cursor of a page, counted from 0.
    fn cursor(&self, page: usize) -> String {
        match self.cursors {
            CursorStyle::EmptyString if page == 1 => String::new(),
            CursorStyle::Opaque | CursorStyle::EmptyString => format!("p={page}&\"next\" %20+/é#\\ "),
            CursorStyle::Repeated => REPEATED.to_owned(),
            CursorStyle::Numeric => format!("{page:08}"),
        }
    }
}

const REPEATED: &str = "again";

/// The name of a tool.
pub fn tool_name(tool: &ToolScript) -> &str {
    match tool {
        ToolScript::Library(name) => name,
        ToolScript::Custom(definition) => &definition.name,
    }
}

fn string<'a>(params: &'a Value, key: &str) -> Result<&'a str, RpcError> {
    params.get(key).and_then(Value::as_str).ok_or_else(|| invalid_params(format!("`{key}` is not a string")))
}

fn resource_not_found(uri: &str, revision: Revision) -> RpcError {
    let code = if revision.is_stateless() { codes::INVALID_PARAMS } else { codes::RESOURCE_NOT_FOUND };
    RpcError { code, message: "resource not found".into(), data: Some(json!({"uri": uri})) }
}

/// Whether `uri` could come from a template: what stands before its first and after its last expression agrees.
fn matches_template(template: &str, uri: &str) -> bool {
    match (template.find('{'), template.rfind('}')) {
        (Some(open), Some(close)) if open < close => {
            let (prefix, suffix) = (&template[..open], &template[close + 1..]);
            uri.len() > prefix.len() + suffix.len() && uri.starts_with(prefix) && uri.ends_with(suffix)
        }
        _ => template == uri,
    }
}

#[cfg(test)]
mod tests;
