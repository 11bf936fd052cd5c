//! Puts the client of the Rust SDK (crate `rmcp`) under Sparring's driver protocol, see `docs/driver-protocol.md`.
//! The SDK's defaults are left alone: what is judged is the SDK, not this file.
#![allow(deprecated, reason = "the SDK marks what its newest revision has dropped")]

mod sdk;

use rmcp::model::*;
use rmcp::service::{PeerRequestOptions, ServiceError};
use sdk::{Failed, Session, connect, disconnect, millis, state_of, step_up};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::oneshot;

const OPERATIONS: &str = "open tools call cancel resources templates read subscribe unsubscribe prompts prompt \
                          complete set_level ping set_roots close";
static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct State {
    sessions: BTreeMap<String, Arc<Session>>,
    running: HashMap<String, oneshot::Sender<Option<String>>>, // by step
    progress: HashMap<ProgressToken, String>,                  // steps that want it
    redirects: HashMap<String, oneshot::Sender<String>>,       // authorizations that wait, by `state`
    roots: Vec<String>,
    lacking: Option<String>, // the scope that the last request lacked
}
fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
fn write(mut message: Value) {
    message["jsonrpc"] = json!("2.0");
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush()); // the harness may be gone
}
fn event(name: &str, data: Value) {
    write(json!({ "method": "event", "params": { "name": name, "data": data } }));
}
fn plain(value: impl serde::Serialize) -> Result<Value, Failed> {
    serde_json::to_value(value).map_err(|error| Failed("other", error.to_string(), None))
}
fn read<T: DeserializeOwned>(value: Value) -> Result<T, Failed> {
    serde_json::from_value(value).map_err(|error| Failed("refused", error.to_string(), None))
}
fn text(params: &Value, key: &str) -> String {
    params[key].as_str().unwrap_or_default().to_owned()
}
fn chosen(params: &Value) -> Result<Vec<Arc<Session>>, Failed> {
    let server = params["server"].as_str();
    let found: Vec<_> = state()
        .sessions
        .values()
        .filter(|session| server.is_none_or(|server| server == session.name))
        .cloned()
        .collect();
    if found.is_empty() {
        Err(Failed("refused", "no such server is open".to_owned(), None))
    } else {
        Ok(found)
    }
}

async fn open(params: &Value) -> Result<Value, Failed> {
    state().roots = read::<Option<_>>(params["roots"].clone())?.unwrap_or_default();
    let targets = read::<BTreeMap<String, Value>>(params["servers"].clone())?;
    let tasks = targets.into_iter().map(|(name, target)| {
        let params = params.clone();
        tokio::spawn(async move {
            let told = connect(&name, &target, &params).await;
            (name, told)
        })
    });
    let (mut servers, mut last) = (Map::new(), None);
    for task in tasks.collect::<Vec<_>>() {
        let (name, told) = task.await.map_err(|error| Failed("other", error.to_string(), None))?;
        let told = told.unwrap_or_else(|failed| {
            let mut error = failed.data();
            error["message"] = json!(failed.1);
            last = Some(failed);
            json!({ "ok": false, "error": error })
        });
        servers.insert(name, told);
    }
    match last {
        Some(failed) if servers.values().all(|told| told["ok"] == false) => Err(failed),
        _ => Ok(json!({ "servers": servers })),
    }
}

async fn call(params: &Value) -> Result<Value, Failed> {
    let (step, peer) = (text(params, "step"), chosen(params)?[0].peer.clone());
    let mut request = CallToolRequestParams::new(text(params, "tool"));
    request.arguments = read(params["arguments"].clone())?;
    let (sender, cancelled) = oneshot::channel();
    state().running.insert(step.clone(), sender);
    let options =
        millis(params).map_or_else(PeerRequestOptions::no_options, PeerRequestOptions::with_timeout);
    let handle = peer.send_cancellable_request(CallToolRequest::new(request).into(), options).await?;
    let (id, token) = (handle.id.clone(), handle.progress_token.clone());
    if params["progress"] == true {
        state().progress.insert(token, step.clone()); // for good: some may come late
    }
    let result = tokio::select! {
        result = handle.await_response() => result,
        Ok(reason) = cancelled => {
            peer.notify_cancelled(CancelledNotificationParam::new(Some(id), reason.clone())).await?;
            Err(ServiceError::Cancelled { reason })
        }
    };
    state().running.remove(&step);
    match result? {
        ServerResult::CallToolResult(result) => plain(result),
        ServerResult::EmptyResult(_) => plain(CallToolResult::default()), // as the SDK's `call_tool` does
        _ => Err(ServiceError::UnexpectedResponse.into()),
    }
}

/// How long each of a number of calls took, in nanoseconds.
async fn bench(params: &Value) -> Result<Value, Failed> {
    let peer = chosen(params)?[0].peer.clone();
    let mut request = CallToolRequestParams::new(text(params, "tool"));
    request.arguments = read(params["arguments"].clone())?;
    let mut ns = Vec::new();
    for _ in 0..params["calls"].as_u64().unwrap_or_default() {
        let start = std::time::Instant::now();
        peer.call_tool(request.clone()).await?;
        ns.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(json!({ "ns": ns }))
}

async fn list(params: &Value, key: &str) -> Result<Value, Failed> {
    let mut all = Vec::new();
    for session in chosen(params)? {
        let items = match key {
            "tools" => plain(session.peer.list_all_tools().await?)?,
            "resources" => plain(session.peer.list_all_resources().await?)?,
            "prompts" => plain(session.peer.list_all_prompts().await?)?,
            _ => plain(session.peer.list_all_resource_templates().await?)?,
        };
        for mut item in read::<Vec<Map<String, Value>>>(items)? {
            if key == "tools" {
                item.retain(|key, _| {
                    ["name", "title", "description", "inputSchema", "outputSchema"].contains(&key.as_str())
                });
                item.insert("rawName".to_owned(), item["name"].clone());
            }
            item.insert("server".to_owned(), json!(session.name));
            all.push(Value::Object(item));
        }
    }
    Ok(json!({ key: all }))
}

async fn operate(method: &str, params: &Value) -> Result<Value, Failed> {
    let peer = || chosen(params).map(|sessions| sessions[0].peer.clone());
    match method {
        "open" => return open(params).await,
        "call" => return call(params).await,
        "bench" => return bench(params).await,
        "tools" | "resources" | "prompts" => return list(params, method).await,
        "templates" => return list(params, "resourceTemplates").await,
        "read" => {
            return plain(peer()?.read_resource(ReadResourceRequestParams::new(text(params, "uri"))).await?);
        }
        "prompt" => {
            return plain(
                peer()?
                    .get_prompt(read(json!({ "name": params["name"], "arguments": params["arguments"] }))?)
                    .await?,
            );
        }
        "complete" => {
            let reference = if params["prompt"].is_null() {
                Reference::for_resource(text(params, "template"))
            } else {
                Reference::for_prompt(text(params, "prompt"))
            };
            let argument = json!({ "name": params["argument"], "value": params["value"] });
            return plain(peer()?.complete(read(json!({ "ref": reference, "argument": argument }))?).await?);
        }
        "cancel" => {
            let running = state().running.remove(&text(params, "step"));
            let running =
                running.ok_or_else(|| Failed("refused", "no call runs as that step".to_owned(), None))?;
            let _ = running.send(params["reason"].as_str().map(str::to_owned)); // it may just have ended
        }
        "subscribe" => peer()?.subscribe(SubscribeRequestParams::new(text(params, "uri"))).await?,
        "unsubscribe" => peer()?.unsubscribe(UnsubscribeRequestParams::new(text(params, "uri"))).await?,
        "set_level" => peer()?.set_level(read(json!({ "level": params["level"] }))?).await?,
        "ping" => drop(peer()?.send_request(ClientRequest::PingRequest(PingRequest::default())).await?),
        "set_roots" => {
            state().roots = read(params["roots"].clone())?;
            for session in chosen(&Value::Null)? {
                if !session.roots {
                    return Err(Failed("refused", "roots were not declared".to_owned(), None));
                }
                session.peer.notify_roots_list_changed().await?;
            }
        }
        _ => {
            let sessions = if state().sessions.is_empty() { Vec::new() } else { chosen(params)? };
            for session in sessions {
                disconnect(&session).await?;
            }
        }
    }
    Ok(json!({}))
}

/// Does it, and again with the scope that it lacked, as the SDK's documentation says.
async fn attempt(method: &str, params: &Value) -> Result<Value, Failed> {
    let result = operate(method, params).await;
    let lacking = state().lacking.take();
    match (&result, lacking, chosen(params)) {
        (Err(Failed("auth", ..)), Some(scope), Ok(sessions)) if step_up(&sessions[0], &scope).await? => {
            operate(method, params).await
        }
        _ => result,
    }
}

async fn take(message: Value) {
    let (id, params) = (&message["id"], &message["params"]);
    let method = message["method"].as_str().unwrap_or_default();
    if method == "hello" {
        let version = include_str!("../Cargo.lock")
            .split("name = \"rmcp\"\nversion = \"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let features =
            "sampling elicitation roots oauth progress notifications several-servers call-timeout headers";
        let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        write(json!({ "id": id, "result": {
            "name": "rmcp", "version": version, "operations": words(OPERATIONS), "features": words(features),
            "transports": ["stdio", "http"], "revisions": words("2024-11-05 2025-03-26 2025-06-18 2025-11-25"),
        } }));
    } else if method == "redirect" {
        let (url, mut state) = (text(params, "url"), state());
        let name = Some(state_of(&url))
            .filter(|name| state.redirects.contains_key(name))
            .or_else(|| state.redirects.keys().next().cloned());
        if let Some(waiting) = name.and_then(|name| state.redirects.remove(&name)) {
            let _ = waiting.send(url);
        }
    } else if method == "bench" || OPERATIONS.split(' ').any(|known| known == method) {
        write(match attempt(method, params).await {
            Ok(result) => json!({ "id": id, "result": result }),
            Err(failed) => {
                json!({ "id": id, "error": { "code": 1, "message": failed.1, "data": failed.data() } })
            }
        });
    } else {
        write(json!({ "id": id, "error": { "code": -32601, "message": format!("no operation {method}") } }));
    }
}

// One thread: whatever is noted right after a request was sent is there before its answer.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(message) => drop(tokio::spawn(take(message))),
            Err(error) => eprintln!("not JSON: {error}"),
        }
    }
    let _ = operate("close", &Value::Null).await;
    std::process::exit(0); // reading stdin has a thread of its own
}
