//! A client of rmcp does everything once with a mock server that `sparring serve` plays.
//!
//! `everything REVISION '{"transport": "http", "url": "…"}'`; for stdio the target is
//! `{"transport": "stdio", "command": ["sparring", "serve", …]}`. Exit code 0 if all went well.

#![allow(deprecated, reason = "what the newest revision drops is part of the older ones")]
#![allow(clippy::unwrap_used, reason = "a poisoned lock is a failure like any other")]

use rmcp::model::*;
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RunningService,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::error::Error;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(Default)]
struct Seen {
    asked: Vec<&'static str>,
    logged: Vec<Value>,
}

#[derive(Clone)]
struct Handler(String, Arc<Mutex<Seen>>, Arc<Notify>);

fn made<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        let mut capabilities = json!({ "sampling": {}, "roots": {} });
        if self.0.as_str() >= "2025-06-18" {
            capabilities["elicitation"] = json!({});
        }
        config.capabilities = serde_json::from_value(capabilities).unwrap_or_default();
        config.client_info = Implementation::new("sparring-oracle-rmcp", env!("CARGO_PKG_VERSION"));
        config
    }
    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.1.lock().unwrap().asked.push("sampling/createMessage");
        made(
            json!({ "role": "assistant", "model": "none", "content": { "type": "text", "text": "sampled" } }),
        )
    }
    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.1.lock().unwrap().asked.push("elicitation/create");
        made(
            json!({ "action": "accept", "content": { "username": "ada", "email": "ada@example.com", "name": "Ada" } }),
        )
    }
    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.1.lock().unwrap().logged.push(params.data);
        self.2.notify_one();
    }
}

async fn serve(handler: Handler, target: &Value) -> Outcome<RunningService<RoleClient, Handler>> {
    let revision = handler.0.clone();
    let version: ProtocolVersion = serde_json::from_value(json!(revision))?;
    let lifecycle = if revision.as_str() < "2026-07-28" {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Discover { preferred_versions: vec![version] }
    };
    Ok(if target["transport"] == "stdio" {
        let words: Vec<String> = serde_json::from_value(target["command"].clone())?;
        let mut command = tokio::process::Command::new(&words[0]);
        command.args(&words[1..]);
        handler.serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?
    } else {
        let url = target["url"].as_str().ok_or("no url")?.to_owned();
        let config = StreamableHttpClientTransportConfig::with_uri(url);
        handler.serve_with_lifecycle(StreamableHttpClientTransport::from_config(config), lifecycle).await?
    })
}

async fn call(service: &RunningService<RoleClient, Handler>, name: &str, arguments: Value) -> Outcome<Value> {
    let params = serde_json::from_value(json!({ "name": name, "arguments": arguments }))?;
    plain(service.call_tool(params).await.map_err(|error| format!("{name}: {error}"))?)
}

fn plain(value: impl Serialize) -> Outcome<Value> {
    Ok(serde_json::to_value(value)?)
}

fn check(condition: bool, what: &str) -> Outcome<()> {
    if condition { Ok(()) } else { Err(what.into()) }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let revision = arguments.next().ok_or("no revision")?;
    let target: Value = serde_json::from_str(&arguments.next().ok_or("no target")?)?;
    let modern = revision.as_str() >= "2026-07-28";
    let seen = Arc::new(Mutex::new(Seen::default()));
    let heard = Arc::new(Notify::new());
    let service = serve(Handler(revision.clone(), Arc::clone(&seen), Arc::clone(&heard)), &target).await?;
    let peer = service.peer().clone();
    let mut did = vec!["version"];
    let info = plain(peer.peer_info().ok_or("no handshake")?)?;
    check(modern || info["protocolVersion"] == revision.as_str(), &format!("version: {info}"))?;
    check(info["instructions"] == "Everything here is for tests.", &format!("instructions: {info}"))?;

    did.push("tools");
    let tools = peer.list_all_tools().await?;
    check(tools.iter().any(|tool| tool.name == "test_simple_text"), "no test_simple_text")?;
    did.push("call");
    let result = call(&service, "test_simple_text", json!({})).await?;
    check(
        result["content"][0]["text"] == "This is a simple text response for testing.",
        &format!("call: {result}"),
    )?;
    did.push("image");
    let result = call(&service, "test_image_content", json!({})).await?;
    check(result["content"][0]["mimeType"] == "image/png", &format!("image: {result}"))?;
    if revision.as_str() >= "2025-03-26" {
        did.push("audio");
        let result = call(&service, "test_audio_content", json!({})).await?;
        check(result["content"][0]["mimeType"] == "audio/wav", &format!("audio: {result}"))?;
    }
    did.push("failing tool");
    let result = call(&service, "test_error_handling", json!({})).await?;
    check(result["isError"] == true, &format!("failing tool: {result}"))?;
    did.push("unknown tool");
    check(call(&service, "no-such-tool", json!({})).await.is_err(), "an unknown tool has to fail")?;
    if modern {
        did.push("input required");
        let result = call(&service, "test_input_required_result_elicitation", json!({})).await?;
        check(result["content"][0]["text"] == "Hello, Ada!", &format!("input required: {result}"))?;
    } else {
        did.push("logging");
        peer.set_level(serde_json::from_value(json!({ "level": "debug" }))?).await?;
        call(&service, "test_tool_with_logging", json!({})).await?;
        // The SDK hands notifications on in tasks of their own, which may be later than the answer.
        while seen.lock().unwrap().logged.len() < 3 {
            heard.notified().await;
        }
        let logged = seen.lock().unwrap().logged.clone();
        let wanted = ["Tool execution started", "Tool processing data", "Tool execution completed"];
        check(logged == wanted, &format!("logged: {logged:?}"))?;
        did.push("sampling");
        call(&service, "test_sampling", json!({ "prompt": "Test prompt for sampling" })).await?;
        check(seen.lock().unwrap().asked == ["sampling/createMessage"], "sampling: not asked")?;
        if revision.as_str() >= "2025-06-18" {
            did.push("elicitation");
            call(&service, "test_elicitation", json!({ "message": "Please provide your information" }))
                .await?;
            check(seen.lock().unwrap().asked.len() == 2, "elicitation: not asked")?;
        }
    }
    did.push("resources");
    let resources = peer.list_all_resources().await?;
    check(plain(&resources)?.to_string().contains("test://static-text"), "no test://static-text")?;
    let templates = plain(peer.list_all_resource_templates().await?)?;
    check(templates[0]["uriTemplate"] == "test://template/{id}/data", &format!("templates: {templates}"))?;
    let read = |uri: &str| serde_json::from_value(json!({ "uri": uri }));
    let result = plain(peer.read_resource(read("test://static-text")?).await?)?;
    check(
        result["contents"][0]["text"] == "This is the content of the static text resource.",
        &format!("read: {result}"),
    )?;
    check(peer.read_resource(read("test://nowhere")?).await.is_err(), "an unknown resource has to fail")?;
    did.push("prompts");
    let prompts = plain(peer.list_all_prompts().await?)?;
    check(prompts.to_string().contains("test_simple_prompt"), "no test_simple_prompt")?;
    let params =
        json!({ "name": "test_prompt_with_arguments", "arguments": { "arg1": "hello", "arg2": "world" } });
    let result = plain(peer.get_prompt(serde_json::from_value(params)?).await?)?;
    check(
        result["messages"][0]["content"]["text"] == "Prompt with arguments: arg1='hello', arg2='world'",
        &format!("prompt: {result}"),
    )?;
    if revision.as_str() >= "2025-03-26" {
        did.push("completion");
        let values = peer.complete_prompt_simple("test_prompt_with_arguments", "arg1", "par").await?;
        check(values.iter().all(|value| value.starts_with("par")), &format!("completion: {values:?}"))?;
    }
    did.push("close");
    service.cancel().await?;
    println!("{} things: {}", did.len(), did.join(", "));
    Ok(())
}
