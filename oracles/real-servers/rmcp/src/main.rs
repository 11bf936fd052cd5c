//! A server made with rmcp: `stdio`, or a port for HTTP.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, ListPromptsResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Clone, Default)]
struct Server {
    grown: Arc<AtomicBool>,
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn text(text: impl Into<String>, is_error: bool) -> Result<CallToolResponse, ErrorData> {
    let result: CallToolResult =
        read(json!({"content": [{"type": "text", "text": text.into()}], "isError": is_error}))?;
    Ok(result.into())
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rusty", "1.2.3"))
            .with_instructions("Be kind.")
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let number = json!({"type": "integer"});
        let mut tools = vec![
            json!({"name": "add", "description": "Adds two numbers.",
                "inputSchema": {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}}),
            json!({"name": "fail", "inputSchema": {"type": "object"}}),
            json!({"name": "slow", "inputSchema": {"type": "object"}}),
            json!({"name": "grow", "inputSchema": {"type": "object"}}),
        ];
        if self.grown.load(Ordering::SeqCst) {
            tools.push(json!({"name": "grown", "inputSchema": {"type": "object"}}));
        }
        read(json!({"tools": tools}))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let number = |name: &str| arguments.get(name).and_then(Value::as_i64).unwrap_or_default();
        match request.name.as_ref() {
            "add" => text((number("a") + number("b")).to_string(), false),
            "fail" => text("it failed on purpose", true),
            "slow" => {
                if let Some(token) = context.meta.get_progress_token() {
                    let first = ProgressNotificationParam::new(token, 1.0).with_total(2.0);
                    // Whoever is gone needs no notification.
                    let _ = context.peer.notify_progress(first).await;
                }
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(60)) => text("done", false),
                    () = context.ct.cancelled() => {
                        eprintln!("the call was cancelled");
                        text("cancelled", true)
                    }
                }
            }
            "grow" => {
                self.grown.store(true, Ordering::SeqCst);
                // Whoever is gone needs no notification.
                let _ = context.peer.notify_tool_list_changed().await;
                text("grown", false)
            }
            other => Err(ErrorData::invalid_params(format!("there is no tool {other}"), None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        read(json!({"resources": [{"uri": "note://one", "name": "one", "mimeType": "text/plain"}]}))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let result: ReadResourceResult =
            read(json!({"contents": [{"uri": request.uri, "text": "the note"}]}))?;
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        read(json!({"prompts": [{"name": "review", "arguments": [{"name": "code", "required": true}]}]}))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = serde_json::to_value(request.arguments).unwrap_or_default();
        let code = arguments.get("code").and_then(Value::as_str).unwrap_or_default();
        let message = json!({"role": "user", "content": {"type": "text", "text": format!("Review {code}.")}});
        let result: GetPromptResult = read(json!({"messages": [message]}))?;
        Ok(result.into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("stdio") => {
            let running = Server::default().serve((tokio::io::stdin(), tokio::io::stdout())).await?;
            running.waiting().await?;
        }
        Some(port) => {
            let server = Server::default();
            let service = StreamableHttpService::new(
                move || Ok(server.clone()),
                Arc::new(LocalSessionManager::default()),
                StreamableHttpServerConfig::default(),
            );
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
            axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
        }
        None => return Err("usage: sparring-rmcp-server stdio|PORT".into()),
    }
    Ok(())
}
