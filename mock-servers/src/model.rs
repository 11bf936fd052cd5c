//! What a mock server offers, and its faithful answers: a pure function from method and params to a result.
//!
//! Nothing that a revision lacks is in an answer, except where the script spells it out.

mod change;

use crate::library;
use crate::script::{CursorStyle, PromptScript, ResourceScript, ServerScript, ToolDefinition, ToolScript};
use serde_json::{Map, Value, json};
use sparring_wire::Revision;
use sparring_wire::jsonrpc::codes;

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

fn invalid_params(message: impl Into<String>) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, message)
}

/// The model of a running server: it starts as the script says and changes by actions.
#[derive(Debug, Clone)]
pub struct Model {
    revision: Revision,
    tools: Vec<ToolScript>,
    resources: Vec<ResourceScript>,
    templates: Vec<Value>,
    prompts: Vec<PromptScript>,
    capabilities: Value,
    info: Value,
    instructions: Option<String>,
    version: String,
    page_size: Option<usize>,
    cursors: CursorStyle,
}

impl Model {
    /// The model that `script` describes, for `revision`.
    pub fn new(script: &ServerScript, revision: Revision) -> Self {
        let mut tools = script.tools.clone();
        tools.extend((0..script.many_tools.unwrap_or(0)).map(|n| {
            ToolScript::Custom(Box::new(ToolDefinition {
                name: format!("tool-{n:03}"),
                ..Default::default()
            }))
        }));
        let capabilities = match &script.capabilities {
            Some(given) => given.0.clone(),
            None => capabilities(script, revision),
        };
        Self {
            revision,
            tools,
            resources: script.resources.clone(),
            templates: script.templates.iter().map(|t| t.0.clone()).collect(),
            prompts: script.prompts.clone(),
            capabilities,
            info: script.info.as_ref().map_or_else(
                || json!({"name": "sparring-mock", "version": env!("CARGO_PKG_VERSION")}),
                |i| i.0.clone(),
            ),
            instructions: script.instructions.clone(),
            version: script.version.clone().unwrap_or_else(|| revision.as_str().to_owned()),
            page_size: script.page_size.map(|n| usize::try_from(n).unwrap_or(usize::MAX).max(1)),
            cursors: script.cursors,
        }
    }

    /// The protocol version of the initialize result.
    pub fn version(&self) -> &str {
        &self.version
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

    /// The faithful answer to a request.
    pub fn answer(&self, method: &str, params: Option<&Value>) -> Result<Value, RpcError> {
        static EMPTY: Value = Value::Null;
        let params = params.unwrap_or(&EMPTY);
        let capability = match method {
            "tools/list" | "tools/call" => Some("tools"),
            "resources/list" | "resources/read" | "resources/templates/list" => Some("resources"),
            "resources/subscribe" | "resources/unsubscribe" => Some("resources"),
            "prompts/list" | "prompts/get" => Some("prompts"),
            "logging/setLevel" => Some("logging"),
            "completion/complete" if self.revision >= Revision::V2025_03_26 => Some("completions"),
            _ => None,
        };
        let not_found = || RpcError::new(codes::METHOD_NOT_FOUND, format!("method not found: {method}"));
        if capability.is_some_and(|c| self.capabilities.get(c).is_none()) {
            return Err(not_found());
        }
        match method {
            "initialize" => self.initialize(params),
            "ping" => Ok(json!({})),
            "tools/list" => self.page("tools", self.tools.iter().map(|t| self.tool(t)), params),
            "tools/call" => self.call(params),
            "resources/list" => self.page("resources", self.resources.iter().map(resource), params),
            "resources/templates/list" => {
                self.page("resourceTemplates", self.templates.iter().cloned(), params)
            }
            "resources/read" => self.read(params),
            "resources/subscribe" | "resources/unsubscribe" => {
                let uri = string(params, "uri")?;
                if method == "resources/subscribe" && self.resources.iter().all(|r| r.uri != uri) {
                    return Err(resource_not_found(uri));
                }
                Ok(json!({}))
            }
            "prompts/list" => self.page("prompts", self.prompts.iter().map(prompt), params),
            "prompts/get" => self.prompt(params),
            "completion/complete" => self.complete(params),
            "logging/setLevel" => {
                let level = string(params, "level")?;
                const LEVELS: [&str; 8] =
                    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
                if LEVELS.contains(&level) {
                    Ok(json!({}))
                } else {
                    Err(invalid_params(format!("no level `{level}`")))
                }
            }
            _ => Err(not_found()),
        }
    }

    fn initialize(&self, params: &Value) -> Result<Value, RpcError> {
        string(params, "protocolVersion")?;
        let mut result = Map::new();
        result.insert("protocolVersion".into(), self.version.as_str().into());
        result.insert("capabilities".into(), self.capabilities.clone());
        result.insert("serverInfo".into(), self.info.clone());
        if let Some(instructions) = &self.instructions {
            result.insert("instructions".into(), instructions.as_str().into());
        }
        Ok(Value::Object(result))
    }

    fn tool(&self, tool: &ToolScript) -> Value {
        let definition = match tool {
            ToolScript::Library(name) => return library::definition(name, self.revision).unwrap_or_default(),
            ToolScript::Custom(definition) => definition,
        };
        let mut out = Map::new();
        let mut put = |key: &str, value: Option<Value>, since: Revision| {
            if let Some(value) = value.filter(|_| self.revision >= since) {
                out.insert(key.into(), value);
            }
        };
        let json = |text: &Option<crate::script::JsonText>| text.as_ref().map(|t| t.0.clone());
        // A tool that borrows another's result borrows its schema too, unless it has one.
        let like = definition.like.as_deref().and_then(|name| library::definition(name, self.revision));
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
        if let Some(Value::Object(extra)) = json(&definition.extra) {
            out.extend(extra);
        }
        Value::Object(out)
    }

    fn call(&self, params: &Value) -> Result<Value, RpcError> {
        let name = string(params, "name")?;
        let arguments = match params.get("arguments") {
            None => &Value::Null,
            Some(arguments @ Value::Object(_)) => arguments,
            Some(_) => return Err(invalid_params("`arguments` is not an object")),
        };
        let tool = self
            .tools
            .iter()
            .find(|t| tool_name(t) == name)
            .ok_or_else(|| invalid_params(format!("unknown tool: {name}")))?;
        Ok(match tool {
            ToolScript::Library(name) => library::call(name, arguments, self.revision).unwrap_or_default(),
            ToolScript::Custom(definition) => match (&definition.result, &definition.like) {
                (Some(result), _) => result.0.clone(),
                (None, Some(like)) => library::call(like, arguments, self.revision)
                    .unwrap_or_else(|| json!({"content": [], "isError": true})),
                (None, None) => json!({"content": [{"type": "text", "text": definition.name}]}),
            },
        })
    }

    fn read(&self, params: &Value) -> Result<Value, RpcError> {
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
            return Err(resource_not_found(uri));
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

    /// One page of a list.
    fn page(
        &self,
        key: &str,
        items: impl ExactSizeIterator<Item = Value>,
        params: &Value,
    ) -> Result<Value, RpcError> {
        let size = self.page_size.unwrap_or(usize::MAX);
        let pages = items.len().div_ceil(size).max(1);
        let page = match params.get("cursor") {
            None => 0,
            Some(cursor) => {
                let cursor = cursor.as_str().ok_or_else(|| invalid_params("`cursor` is not a string"))?;
                match self.cursors {
                    CursorStyle::Repeated if cursor == REPEATED => 1,
                    _ => (1..pages)
                        .find(|p| self.cursor(*p) == cursor)
                        .ok_or_else(|| invalid_params("unknown cursor"))?,
                }
            }
        };
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

/// The capabilities that follow from what the script offers, now or by a later action.
fn capabilities(script: &ServerScript, revision: Revision) -> Value {
    use crate::script::{Action, ListKind};
    let actions = script.all_actions();
    let acts = |wanted: &dyn Fn(&Action) -> bool| actions.iter().any(|action| wanted(action));
    let mut out = Map::new();
    out.insert("logging".into(), json!({}));
    if !script.tools.is_empty()
        || script.many_tools.is_some()
        || acts(&|a| {
            matches!(
                a,
                Action::AddTool(_)
                    | Action::RemoveTool(_)
                    | Action::ChangeTool(_)
                    | Action::Announce(ListKind::Tools)
            )
        })
    {
        out.insert("tools".into(), json!({"listChanged": true}));
    }
    let resources = !script.resources.is_empty()
        || !script.templates.is_empty()
        || acts(&|a| {
            matches!(
                a,
                Action::AddResource(_)
                    | Action::AddTemplate(_)
                    | Action::ResourceUpdated(_)
                    | Action::Announce(ListKind::Resources)
            )
        });
    if resources {
        out.insert("resources".into(), json!({"subscribe": true, "listChanged": true}));
    }
    let prompts = !script.prompts.is_empty()
        || acts(&|a| {
            matches!(a, Action::AddPrompt(_) | Action::RemovePrompt(_) | Action::Announce(ListKind::Prompts))
        });
    if prompts {
        out.insert("prompts".into(), json!({"listChanged": true}));
    }
    if (prompts || resources) && revision >= Revision::V2025_03_26 {
        out.insert("completions".into(), json!({}));
    }
    Value::Object(out)
}

fn string<'a>(params: &'a Value, key: &str) -> Result<&'a str, RpcError> {
    params.get(key).and_then(Value::as_str).ok_or_else(|| invalid_params(format!("`{key}` is not a string")))
}

fn resource_not_found(uri: &str) -> RpcError {
    RpcError {
        code: codes::RESOURCE_NOT_FOUND,
        message: "resource not found".into(),
        data: Some(json!({"uri": uri})),
    }
}

fn resource(resource: &ResourceScript) -> Value {
    let mut out = Map::new();
    let name = resource.name.as_deref().unwrap_or_else(|| {
        let last = resource.uri.rsplit('/').next().unwrap_or_default();
        if last.is_empty() { resource.uri.as_str() } else { last }
    });
    out.insert("uri".into(), resource.uri.as_str().into());
    out.insert("name".into(), name.into());
    if let Some(mime_type) = &resource.mime_type {
        out.insert("mimeType".into(), mime_type.as_str().into());
    }
    Value::Object(out)
}

fn prompt(prompt: &PromptScript) -> Value {
    let mut out = Map::new();
    out.insert("name".into(), prompt.name.as_str().into());
    if let Some(description) = &prompt.description {
        out.insert("description".into(), description.as_str().into());
    }
    if let Some(arguments) = &prompt.arguments {
        out.insert("arguments".into(), arguments.0.clone());
    }
    Value::Object(out)
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
mod tests {
    use super::*;

    fn script(json: Value) -> ServerScript {
        serde_json::from_value(json).unwrap()
    }

    fn walk(model: &Model) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        let mut params = json!({});
        while pages.len() < 6 {
            let page = model.answer("tools/list", Some(&params)).unwrap();
            pages.push(
                page["tools"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|t| t["name"].as_str().unwrap().to_owned())
                    .collect(),
            );
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        pages
    }

    #[test]
    fn each_cursor_style_leads_through_all_pages_once() {
        for style in ["opaque", "empty-string", "numeric"] {
            let model = Model::new(
                &script(json!({"many_tools": 5, "page_size": 2, "cursors": style})),
                Revision::V2025_06_18,
            );
            assert_eq!(
                walk(&model),
                [vec!["tool-000", "tool-001"], vec!["tool-002", "tool-003"], vec!["tool-004"]],
                "{style}"
            );
            let error = model.answer("tools/list", Some(&json!({"cursor": "made up"}))).unwrap_err();
            assert_eq!(error.code, codes::INVALID_PARAMS);
        }
    }

    #[test]
    fn the_repeated_cursor_never_ends() {
        let model = Model::new(
            &script(json!({"many_tools": 3, "page_size": 2, "cursors": "repeated"})),
            Revision::V2025_06_18,
        );
        let pages = walk(&model);
        assert_eq!(pages.len(), 6);
        assert!(pages[1..].iter().all(|p| p == &["tool-002"]));
    }

    #[test]
    fn what_a_revision_lacks_is_left_out() {
        let text = script(json!({
            "tools": ["add", {"name": "t", "title": "T", "annotations": "{\"readOnlyHint\": true}", "output_schema": "{\"type\": \"object\"}"}],
        }));
        let keys = |revision| {
            let list = Model::new(&text, revision).answer("tools/list", None).unwrap();
            let keys: Vec<String> = list["tools"][1].as_object().unwrap().keys().cloned().collect();
            (list["tools"][0].get("outputSchema").is_some(), keys.join(" "))
        };
        assert_eq!(keys(Revision::V2024_11_05), (false, "name inputSchema".into()));
        assert_eq!(keys(Revision::V2025_03_26), (false, "name inputSchema annotations".into()));
        assert_eq!(
            keys(Revision::V2025_06_18),
            (true, "name title inputSchema outputSchema annotations".into())
        );
    }

    #[test]
    fn methods_without_their_capability_do_not_exist() {
        let model = Model::new(&script(json!({"tools": ["echo"]})), Revision::V2025_06_18);
        assert_eq!(model.answer("prompts/list", None).unwrap_err().code, codes::METHOD_NOT_FOUND);
        assert_eq!(model.answer("tasks/list", None).unwrap_err().code, codes::METHOD_NOT_FOUND);
        assert!(model.answer("tools/list", None).is_ok());
    }

    #[test]
    fn errors_have_their_codes() {
        let model = Model::new(
            &script(json!({
                "tools": ["echo"], "resources": [{"uri": "a://b/c"}], "templates": ["{\"name\":\"t\",\"uriTemplate\":\"t://{x}/y\"}"],
                "prompts": [{"name": "p", "arguments": "[{\"name\":\"x\",\"required\":true}]"}],
            })),
            Revision::V2025_06_18,
        );
        let code = |method: &str, params: Value| model.answer(method, Some(&params)).map_err(|e| e.code);
        assert_eq!(code("tools/call", json!({"name": "no"})), Err(-32602));
        assert_eq!(code("tools/call", json!({"name": "echo", "arguments": []})), Err(-32602));
        assert_eq!(code("resources/read", json!({"uri": "a://no"})), Err(-32002));
        assert_eq!(code("resources/subscribe", json!({"uri": "a://no"})), Err(-32002));
        assert_eq!(code("resources/read", json!({"uri": "t:///y"})), Err(-32002));
        assert!(code("resources/read", json!({"uri": "t://1/y"})).is_ok());
        assert_eq!(code("prompts/get", json!({"name": "p"})), Err(-32602));
        assert!(code("prompts/get", json!({"name": "p", "arguments": {"x": "1"}})).is_ok());
        assert_eq!(code("logging/setLevel", json!({"level": "loud"})), Err(-32602));
        assert_eq!(
            code("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "q"}})),
            Err(-32602)
        );
    }
}
