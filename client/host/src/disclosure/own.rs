//! The host's own tools: they search, dispatch and describe.

use super::Unwrapped;
use crate::error::HostError;
use crate::model::{ModelTool, Route};
use serde_json::{Map, Value, json};
use sparring_profiles::{DisclosingSettings, FoundCall, SearchForm};

fn own(name: &str, route: Route, description: String, schema: Value) -> ModelTool {
    ModelTool {
        name: name.to_owned(),
        server: None,
        route,
        title: None,
        description: Some(description),
        input_schema: schema,
        output_schema: None,
        annotations: None,
    }
}

pub(super) fn search(settings: &DisclosingSettings, call: FoundCall) -> ModelTool {
    let forms: Vec<&str> = settings
        .search_forms
        .iter()
        .map(|form| match form {
            SearchForm::Substring => "a part of the name or description",
            SearchForm::Keywords => "keywords",
            SearchForm::Select => "`select:` and names, with commas between them",
        })
        .collect();
    let mut properties = Map::new();
    for argument in &settings.search_args {
        let schema = match argument.as_str() {
            "query" => json!({"type": "string", "description": forms.join(", or ")}),
            "names" => json!({"type": "array", "items": {"type": "string"}, "description": "exact names"}),
            "server" => json!({"type": "string", "description": "only tools of this server"}),
            "limit" => json!({
                "type": "integer", "minimum": 1, "default": settings.search_limit,
                "description": "how many tools at most"
            }),
            _ => continue,
        };
        properties.insert(argument.clone(), schema);
    }
    let then = match call {
        FoundCall::Dispatch => format!("call them through `{}`", settings.dispatch_tool),
        FoundCall::Unlock => "they can be called from then on".to_owned(),
    };
    own(
        &settings.search_tool,
        Route::Search,
        format!("Finds tools that are not listed here, and gives their schemas; {then}."),
        json!({"type": "object", "properties": properties}),
    )
}

pub(super) fn dispatch(settings: &DisclosingSettings) -> ModelTool {
    own(
        &settings.dispatch_tool,
        Route::Dispatch,
        format!("Calls a tool that `{}` has found.", settings.search_tool),
        json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["name"],
        }),
    )
}

pub(super) fn describe(settings: &DisclosingSettings) -> ModelTool {
    own(
        &settings.describe_tool,
        Route::Describe,
        "Gives the whole schema of a tool.".to_owned(),
        json!({"type": "object", "properties": {"tool": {"type": "string"}}, "required": ["tool"]}),
    )
}

pub(super) fn unwrap(dispatcher: &str, mut arguments: Map<String, Value>) -> Result<Unwrapped, HostError> {
    let wrong = |what: &str| HostError::Refused(format!("`{dispatcher}`: {what}"));
    let Some(Value::String(name)) = arguments.remove("name") else {
        return Err(wrong("`name` is the name of a tool"));
    };
    if name == dispatcher {
        return Err(wrong("it does not call itself"));
    }
    let arguments = match arguments.remove("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(wrong("`arguments` is an object")),
    };
    Ok(Unwrapped { name, arguments, dispatched: true })
}
