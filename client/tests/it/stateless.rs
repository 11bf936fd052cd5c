//! The stateless revision over HTTP and stdio, and the way to it and back.

use crate::support::{Exchange, Server, args, settings, text_result, tools_result};
use serde_json::{Value, json};
use sparring_client::{
    Callbacks, Client, Connection, Declared, ElicitAnswer, Elicitation, Event, Filter, ListKind, RpcError,
    Settings,
};
use sparring_wire::Revision;
use sparring_wire::transcript::FailureKind;
use std::sync::Arc;
use std::time::Duration;

fn modern() -> Settings {
    Settings { offer: Revision::STATELESS, accept: Revision::ALL.to_vec(), ..settings() }
}

async fn connect(server: &Server) -> Connection {
    Client::new(modern()).connect("s", &server.target()).await.unwrap()
}

fn result(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error(id: &Value, code: i64, data: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "m", "data": data}})
}

fn discovery(id: &Value) -> Value {
    result(
        id,
        json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"tools": {}, "resources": {"subscribe": true}}}),
    )
}

/// What a good server does.
async fn good(x: &mut Exchange) {
    let id = x.request.id();
    match x.request.word().as_str() {
        "POST server/discover" => x.json(&discovery(&id)).await,
        "POST initialize" | "GET" | "DELETE" => x.status(405).await,
        _ => x.good().await,
    }
}

async fn scripted(
    script: impl Fn(Exchange) -> futures_util::future::BoxFuture<'static, ()> + Send + Sync + 'static,
) -> Server {
    Server::start(script).await
}

#[tokio::test]
async fn a_whole_conversation_is_requests_that_stand_for_themselves() {
    let server = scripted(|mut x| Box::pin(async move { good(&mut x).await })).await;
    let connection = connect(&server).await;
    assert_eq!(connection.tools().await.unwrap()[0].key, "echo");
    assert_eq!(connection.call("echo", args("hi")).await.unwrap().text(), "hi");
    connection.close().await;
    let all = server.log.all();
    let words: Vec<String> = all.iter().map(|r| r.word()).collect();
    assert_eq!(words, ["POST server/discover", "POST tools/list", "POST tools/call"]);
    for request in &all {
        assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(request.header("mcp-method"), Some(request.rpc().as_str()));
        assert_eq!(request.header("mcp-session-id"), None);
        let said = &request.json()["params"]["_meta"];
        assert_eq!(said["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert!(said["io.modelcontextprotocol/clientCapabilities"].is_object());
    }
    assert_eq!(all[2].header("mcp-name"), Some("echo"));
}

#[tokio::test]
async fn a_server_from_before_is_met_with_a_handshake_and_remembered() {
    for (status, body) in [(400, ""), (400, "<p>what?"), (404, ""), (200, "error")] {
        let server = scripted(move |mut x| {
            Box::pin(async move {
                match (x.request.rpc().as_str(), body) {
                    ("server/discover", "error") => {
                        let id = x.request.id();
                        x.json(&error(&id, -32601, Value::Null)).await;
                    }
                    ("server/discover", body) => {
                        x.reply(status, &[("Content-Type", "text/html")], body).await;
                    }
                    _ => x.good().await,
                }
            })
        })
        .await;
        let client = Client::new(modern());
        for _ in 0..2 {
            let connection = client.connect("s", &server.target()).await.unwrap();
            assert_eq!(connection.negotiated().unwrap().revision, Revision::V2025_11_25);
            assert_eq!(connection.call("echo", args("hi")).await.unwrap().text(), "hi");
            connection.close().await;
        }
        assert_eq!(server.log.of("POST server/discover").len(), 1, "{status} {body}");
        let initialize = &server.log.of("POST initialize")[0];
        assert_eq!(initialize.header("mcp-protocol-version"), None);
        assert_eq!(initialize.header("mcp-method"), None);
    }
}

#[tokio::test]
async fn a_discovery_for_everybody_serves_the_next_connection() {
    let server = scripted(|mut x| {
        Box::pin(async move {
            match x.request.rpc().as_str() {
                "server/discover" => {
                    let mut answer = discovery(&x.request.id());
                    answer["result"]["ttlMs"] = json!(60_000);
                    answer["result"]["cacheScope"] = json!("public");
                    x.json(&answer).await;
                }
                _ => good(&mut x).await,
            }
        })
    })
    .await;
    let client = Client::new(modern());
    for _ in 0..2 {
        let connection = client.connect("s", &server.target()).await.unwrap();
        assert_eq!(connection.call("echo", args("hi")).await.unwrap().text(), "hi");
        connection.close().await;
    }
    assert_eq!(server.log.words(), ["POST server/discover", "POST tools/call", "POST tools/call"]);
}

#[tokio::test]
async fn errors_in_failed_exchanges_are_errors_of_their_request() {
    let server = scripted(|mut x| {
        Box::pin(async move {
            let id = x.request.id();
            let headers = [("Content-Type", "application/json")];
            match x.request.rpc().as_str() {
                "tools/call" => x.reply(400, &headers, &error(&id, -32021, json!({})).to_string()).await,
                "tools/list" => x.reply(404, &headers, &error(&id, -32601, json!({})).to_string()).await,
                _ => good(&mut x).await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    assert_eq!(connection.tools().await.unwrap_err().code(), Some(-32601));
    let failed = connection.call("echo", args("hi")).await.unwrap_err();
    assert_eq!((failed.kind(), failed.code()), (FailureKind::Protocol, Some(-32021)));
    assert_eq!(server.log.words().len(), 3);
}

fn annotated(id: &Value, header: &str) -> Value {
    let tool = |name: &str, header: Value| {
        json!({"name": name, "inputSchema": {"type": "object",
            "properties": {"text": {"type": "string", "x-mcp-header": header}}}})
    };
    result(id, json!({"tools": [tool("echo", json!(header)), tool("broken", json!("a b"))]}))
}

#[tokio::test]
async fn parameters_are_repeated_in_header_fields_as_the_latest_list_says() {
    let server = scripted(|mut x| {
        Box::pin(async move {
            let id = x.request.id();
            match (x.request.rpc().as_str(), x.nth) {
                ("tools/list", 0) => x.json(&annotated(&id, "Old")).await,
                ("tools/list", _) => x.json(&annotated(&id, "New")).await,
                ("tools/call", _) if x.request.header("mcp-param-new").is_none() => {
                    let body = error(&id, -32020, json!({})).to_string();
                    x.reply(400, &[("Content-Type", "application/json")], &body).await;
                }
                _ => good(&mut x).await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    let mut events = connection.events();
    let tools = connection.tools().await.unwrap();
    assert_eq!(tools.iter().map(|t| t.key.as_str()).collect::<Vec<_>>(), ["echo"]);
    let told = events.try_next();
    assert!(matches!(&told, Some(Event::Skipped { reason, .. }) if reason.contains("broken")), "{told:?}");
    assert_eq!(connection.call("echo", args("grüße")).await.unwrap().text(), "grüße");
    let calls = server.log.of("POST tools/call");
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].header("mcp-param-old"), Some("=?base64?Z3LDvMOfZQ==?="));
    assert_eq!(calls[1].header("mcp-param-new"), Some("=?base64?Z3LDvMOfZQ==?="));
    assert_ne!(calls[0].id(), calls[1].id());
}

struct Agrees;

#[async_trait::async_trait]
impl Callbacks for Agrees {
    async fn elicit(&self, _: &str, request: Elicitation) -> Result<ElicitAnswer, RpcError> {
        Ok(ElicitAnswer::Accept(request.defaults()))
    }
}

#[tokio::test]
async fn input_is_asked_for_in_rounds_and_such_results_are_not_kept() {
    let server = scripted(|mut x| {
        Box::pin(async move {
            let id = x.request.id();
            let params = x.request.json()["params"].clone();
            match x.request.rpc().as_str() {
                "resources/read" if params.get("inputResponses").is_none() => {
                    let form = json!({"message": "who?", "requestedSchema": {"type": "object",
                        "properties": {"name": {"type": "string", "default": "me"}}}});
                    x.json(&result(&id, json!({"resultType": "input_required", "requestState": "{\"a\":1}",
                        "ttlMs": 60000, "inputRequests": {"who": {"method": "elicitation/create", "params": form}}})))
                        .await;
                }
                "resources/read" => {
                    let who = params["inputResponses"]["who"]["content"]["name"].clone();
                    let text = json!([{"uri": params["uri"], "text": who}]);
                    x.json(&result(&id, json!({"resultType": "complete", "contents": text, "ttlMs": 60000}))).await;
                }
                _ => good(&mut x).await,
            }
        })
    })
    .await;
    let settings = Settings { declare: Declared::all(), ..modern() };
    let client = Client::builder(settings).callbacks(Arc::new(Agrees)).build();
    let connection = client.connect("s", &server.target()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(connection.read("file:///a").await.unwrap()["contents"][0]["text"], "me");
    }
    let reads = server.log.of("POST resources/read");
    assert_eq!(reads.len(), 4);
    assert_eq!(reads[1].json()["params"]["requestState"], "{\"a\":1}");
    assert_eq!(reads[1].header("mcp-name"), Some("file:///a"));
}

fn page(id: &Value, name: &str, ttl: u64, next: Option<&str>) -> Value {
    let mut page = tools_result(id, &[name]);
    page["result"]["ttlMs"] = json!(ttl);
    page["result"]["cacheScope"] = json!("private");
    if let Some(next) = next {
        page["result"]["nextCursor"] = json!(next);
    }
    page
}

#[tokio::test]
async fn fresh_pages_are_not_asked_for_again() {
    let server = scripted(|mut x| {
        Box::pin(async move {
            let id = x.request.id();
            match (x.request.rpc().as_str(), x.request.json()["params"]["cursor"].as_str()) {
                ("tools/list", None) => x.json(&page(&id, "a", 60_000, Some(""))).await,
                ("tools/list", Some(_)) => x.json(&page(&id, "b", 0, None)).await,
                ("resources/read", _) => {
                    let uri = x.request.json()["params"]["uri"].clone();
                    x.json(&result(&id, json!({"contents": [{"uri": uri, "text": ""}], "ttlMs": 60000})))
                        .await;
                }
                _ => good(&mut x).await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    for _ in 0..2 {
        assert_eq!(connection.tools().await.unwrap().len(), 2);
    }
    let cursors: Vec<Value> =
        server.log.of("POST tools/list").iter().map(|r| r.json()["params"]["cursor"].clone()).collect();
    assert_eq!(cursors, [Value::Null, json!(""), json!("")]);
    for uri in ["x:a", "x:b", "x:a", "x:b"] {
        assert_eq!(connection.read(uri).await.unwrap()["contents"][0]["uri"], uri);
    }
    assert_eq!(server.log.of("POST resources/read").len(), 2);
}

#[tokio::test]
async fn a_cursor_that_is_refused_begins_the_list_anew() {
    let server = scripted(|mut x| {
        Box::pin(async move {
            let id = x.request.id();
            match (x.request.rpc().as_str(), x.nth) {
                ("tools/list", 0) => x.json(&page(&id, "a", 60_000, Some("gone"))).await,
                ("tools/list", 1) => x.json(&error(&id, -32602, Value::Null)).await,
                ("tools/list", _) => x.json(&page(&id, "b", 0, None)).await,
                _ => good(&mut x).await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    assert_eq!(connection.tools().await.unwrap()[0].key, "b");
    assert_eq!(server.log.of("POST tools/list").len(), 3);
}

#[tokio::test]
async fn a_subscription_ends_with_its_stream_and_makes_results_stale() {
    let server = scripted(|mut x| {
        Box::pin(async move {
            let id = x.request.id();
            match x.request.rpc().as_str() {
                "subscriptions/listen" => {
                    let tag = json!({"io.modelcontextprotocol/subscriptionId": id});
                    let wanted = x.request.json()["params"]["notifications"].clone();
                    let note = |method: &str, mut params: Value| {
                        params["_meta"] = tag.clone();
                        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
                    };
                    x.open_stream(&[]).await;
                    x.raw(": keep-alive\n\n").await;
                    let agreed =
                        note("notifications/subscriptions/acknowledged", json!({"notifications": wanted}));
                    x.event(None, &agreed).await;
                    x.log.wait("POST resources/read", 1).await;
                    x.event(None, &note("notifications/resources/updated", json!({"uri": "x:a/b"}))).await;
                    x.hang().await;
                }
                "resources/read" => {
                    let contents = json!([{"uri": "x:a", "text": ""}]);
                    x.json(&result(&id, json!({"contents": contents, "ttlMs": 60000}))).await;
                }
                _ => good(&mut x).await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    let mut events = connection.events();
    connection.subscribe("x:a").await.unwrap();
    assert_eq!(connection.unsubscribe("x:other").await.unwrap_err().kind(), FailureKind::Refused);
    connection.read("x:a").await.unwrap();
    let updated = loop {
        if let Event::ResourceUpdated { uri } = events.next().await.unwrap() {
            break uri;
        }
    };
    assert_eq!(updated, "x:a/b");
    connection.read("x:a").await.unwrap();
    connection.read("x:a").await.unwrap();
    assert_eq!(server.log.of("POST resources/read").len(), 2);
    connection.unsubscribe("x:a").await.unwrap();
    let filter = Filter { tools: true, ..Filter::default() };
    let subscription = connection.listen(filter.clone()).await.unwrap();
    assert_eq!(subscription.granted(), &filter);
    drop(subscription);
    connection.close().await;
    let listens = server.log.of("POST subscriptions/listen");
    assert_eq!(listens[0].json()["params"]["notifications"], json!({"resourceSubscriptions": ["x:a"]}));
    assert!(!server.log.words().iter().any(|word| word.contains("cancelled")));
}

#[tokio::test]
async fn a_change_told_in_the_middle_of_a_call_needs_no_subscription() {
    let server = scripted(|mut x| {
        Box::pin(async move {
            let id = x.request.id();
            match x.request.rpc().as_str() {
                "tools/list" => {
                    let tools: Vec<Value> = ["echo", "grown"][..=usize::from(x.nth > 0)]
                        .iter()
                        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                        .collect();
                    x.json(&result(&id, json!({"tools": tools, "ttlMs": 60000}))).await;
                }
                "tools/call" => {
                    let changed =
                        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string();
                    let answer = result(&id, json!({"content": []})).to_string();
                    x.open_stream(&[]).await;
                    x.event(None, &changed).await;
                    x.event(None, &answer).await;
                }
                // It offers no subscriptions.
                _ => good(&mut x).await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    let mut events = connection.events();
    assert_eq!(connection.tools().await.unwrap().len(), 1);
    connection.call("echo", args("hi")).await.unwrap();
    let outcome = loop {
        if let Event::Refetched { kind: ListKind::Tools, outcome } = events.next().await.unwrap() {
            break outcome;
        }
    };
    assert_eq!(outcome, Ok(2));
    assert_eq!(connection.known(ListKind::Tools).await.unwrap().len(), 2);
    connection.close().await;
    assert_eq!(server.log.of("POST subscriptions/listen").len(), 0);
}

#[tokio::test]
async fn a_call_whose_stream_breaks_is_made_again() {
    let server = scripted(|mut x| {
        Box::pin(async move {
            match (x.request.rpc().as_str(), x.nth) {
                ("tools/list", 0) => {
                    x.open_stream(&[]).await;
                    x.event(Some("7"), "").await;
                }
                _ => good(&mut x).await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    assert_eq!(connection.tools().await.unwrap()[0].key, "echo");
    let lists = server.log.of("POST tools/list");
    assert_eq!(lists.len(), 2);
    assert_ne!(lists[0].id(), lists[1].id());
    assert!(lists[1].header("last-event-id").is_none());
    assert_eq!(server.log.of("GET").len(), 0);
}

#[tokio::test]
async fn a_task_is_followed_to_its_end() {
    let server = scripted(|mut x| {
        Box::pin(async move {
            let id = x.request.id();
            let task = |status: &str| {
                json!({"taskId": "t", "status": status, "ttlMs": null, "pollIntervalMs": 1,
                "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"})
            };
            match (x.request.rpc().as_str(), x.nth) {
                ("server/discover", _) => {
                    let mut answer = discovery(&id);
                    answer["result"]["capabilities"]["extensions"] =
                        json!({"io.modelcontextprotocol/tasks": {}});
                    x.json(&answer).await;
                }
                ("tools/call", _) => {
                    let mut created = task("working");
                    created["resultType"] = json!("task");
                    x.json(&result(&id, created)).await;
                }
                ("tasks/get", 0) => x.json(&result(&id, task("working"))).await,
                ("tasks/get", _) => {
                    let mut done = task("completed");
                    done["result"] = text_result(&id, "done")["result"].clone();
                    x.json(&result(&id, done)).await;
                }
                _ => good(&mut x).await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    assert_eq!(connection.call("echo", args("hi")).await.unwrap().text(), "done");
    assert_eq!(server.log.of("POST tasks/get")[0].header("mcp-name"), Some("t"));
    // Somebody who knows its id can follow it later.
    let later = connect(&server).await.follow_task("t", Default::default()).wait().await.unwrap();
    assert_eq!(later["content"][0]["text"], "done");
}

#[tokio::test]
async fn the_log_level_goes_with_the_requests() {
    let server = scripted(|mut x| Box::pin(async move { good(&mut x).await })).await;
    let connection = connect(&server).await;
    connection.set_level("warning").await.unwrap();
    assert_eq!(connection.set_level("loud").await.unwrap_err().kind(), FailureKind::Refused);
    connection.ping().await.unwrap();
    connection.list(ListKind::Tools).await.unwrap();
    let last = server.log.all().pop().unwrap();
    assert_eq!(last.json()["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
    assert_eq!(server.log.words(), ["POST server/discover", "POST server/discover", "POST tools/list"]);
}

#[cfg(unix)]
mod over_stdio {
    use super::*;
    use sparring_client::{StdioTarget, Target};

    /// Notes each start in the file `$STARTS`, and each line in `$LINES`.
    const SERVER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
echo start >> "$LOG"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\),.*/\1/p')
  printf '%s\n' "$line" | sed 's/.*"method":"\([^"]*\)".*/\1/' >> "$LOG"
  case "$line" in
    *'"method":"server/discover"'*) eval "$DISCOVER" ;;
    *'"method":"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
  esac
done
"#;

    async fn talk(client: &Client, discover: &str) -> (Result<Revision, sparring_client::Error>, String) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut target = StdioTarget::new("sh", ["-c", SERVER]);
        target.env = vec![("LOG".into(), log.clone().into()), ("DISCOVER".into(), discover.into())];
        let outcome = match client.connect("sh", &Target::Stdio(target)).await {
            Ok(connection) => {
                connection.tools().await.unwrap();
                let revision = connection.negotiated().unwrap().revision;
                connection.close().await;
                Ok(revision)
            }
            Err(error) => Err(error),
        };
        (outcome, std::fs::read_to_string(log).unwrap().replace('\n', " ").trim().to_owned())
    }

    fn quick() -> Client {
        let mut settings = modern();
        settings.timeouts.probe = Duration::from_millis(50);
        Client::new(settings)
    }

    #[tokio::test]
    async fn a_stateless_server_is_found_by_the_probe() {
        let discover = r#"answer '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}'"#;
        let (outcome, log) = talk(&Client::new(modern()), discover).await;
        assert_eq!(outcome.unwrap(), Revision::STATELESS);
        assert_eq!(log, "start server/discover tools/list");
    }

    #[tokio::test]
    async fn a_server_that_is_silent_or_dies_is_met_with_a_handshake_and_remembered() {
        let shaken = "initialize notifications/initialized tools/list";
        let client = quick();
        let (outcome, log) = talk(&client, ":").await;
        assert_eq!(outcome.unwrap(), Revision::V2025_11_25);
        assert_eq!(log, format!("start server/discover {shaken}"));
        let (_, log) = talk(&client, ":").await;
        assert_eq!(log, format!("start {shaken}"));
        let (outcome, log) = talk(&Client::new(modern()), "exit 1").await;
        assert_eq!(outcome.unwrap(), Revision::V2025_11_25);
        assert_eq!(log, format!("start server/discover start {shaken}"));
    }

    #[tokio::test]
    async fn what_was_remembered_holds_as_long_as_it_works() {
        let client = quick();
        talk(&client, ":").await.0.unwrap();
        // The program speaks both by now.
        let both = r#"answer '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}'"#;
        let (outcome, log) = talk(&client, both).await;
        assert_eq!(outcome.unwrap(), Revision::V2025_11_25);
        assert!(log.starts_with("start initialize"));
    }
}
