use crate::support::{
    Exchange, Server, args, init_result, init_result_of, settings, text_result, tools_result,
};
use serde_json::{Value, json};
use sparring_client::http::{HttpError, HttpRequest, HttpResponse, Purpose, SystemHttp};
use sparring_client::{
    CallOptions, Callbacks, CancelSwitch, Client, Connection, Declared, ElicitAnswer, Elicitation, Event,
    HttpClient, HttpTarget, ListChangedPolicy, ListKind, RequestOptions, RpcError, Settings, Target,
};
use sparring_wire::transcript::FailureKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

async fn connect(server: &Server) -> Connection {
    connect_with(server, settings()).await
}

async fn connect_with(server: &Server, settings: Settings) -> Connection {
    Client::new(settings).connect("s", &server.target()).await.unwrap()
}

async fn call(connection: &Connection, text: &str) -> Result<String, sparring_client::Error> {
    connection.call("echo", args(text)).await.map(|result| result.text())
}

#[tokio::test]
async fn a_whole_conversation_has_the_right_headers() {
    let server = Server::start(|mut x| Box::pin(async move { x.good().await })).await;
    let connection = connect(&server).await;
    assert_eq!(connection.tools().await.unwrap()[0].key, "echo");
    assert_eq!(call(&connection, "hi").await.unwrap(), "hi");
    server.log.wait("GET", 1).await;
    connection.close().await;
    let all = server.log.all();
    assert_eq!(all[0].word(), "POST initialize");
    assert_eq!(all[1].word(), "POST notifications/initialized");
    assert!(all[0].header("mcp-session-id").is_none() && all[0].header("mcp-protocol-version").is_none());
    for request in &all[1..] {
        assert_eq!(request.header("mcp-session-id"), Some("s-1"), "{}", request.word());
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"), "{}", request.word());
    }
    for post in all.iter().filter(|r| r.method == "POST") {
        assert_eq!(post.header("content-type"), Some("application/json"));
        assert_eq!(post.header("accept"), Some("application/json, text/event-stream"));
    }
    assert_eq!(server.log.of("GET")[0].header("accept"), Some("text/event-stream"));
    assert_eq!(all.last().unwrap().word(), "DELETE");
}

#[tokio::test]
async fn the_version_header_is_the_negotiated_one_and_absent_in_2025_03_26() {
    for (revision, header) in [("2025-06-18", Some("2025-06-18")), ("2025-03-26", None)] {
        let server = Server::start(move |mut x| {
            Box::pin(async move {
                match x.request.rpc().as_str() {
                    "initialize" => x.json(&init_result_of(&x.request.id(), revision)).await,
                    _ => x.good().await,
                }
            })
        })
        .await;
        let connection = connect(&server).await;
        call(&connection, "x").await.unwrap();
        connection.close().await;
        for request in &server.log.all()[1..] {
            assert_eq!(request.header("mcp-protocol-version"), header);
            assert!(request.header("mcp-session-id").is_none());
        }
        assert!(server.log.of("DELETE").is_empty(), "there was no session");
    }
}

#[tokio::test]
async fn nothing_follows_before_initialized_is_accepted() {
    let (accepted, early) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (flag, seen) = (Arc::clone(&accepted), Arc::clone(&early));
    let server = Server::start(move |mut x| {
        let (accepted, early) = (Arc::clone(&flag), Arc::clone(&seen));
        Box::pin(async move {
            match x.request.word().as_str() {
                "POST initialize" => {}
                "POST notifications/initialized" => {
                    // Gives a request that does not wait the time to show.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    accepted.store(true, Ordering::SeqCst);
                }
                _ if !accepted.load(Ordering::SeqCst) => early.store(true, Ordering::SeqCst),
                _ => {}
            }
            x.good().await;
        })
    })
    .await;
    let connection = connect(&server).await;
    call(&connection, "x").await.unwrap();
    assert!(!early.load(Ordering::SeqCst));
}

#[tokio::test]
async fn server_requests_on_an_open_stream_are_answered_by_posts() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            match x.request.word().as_str() {
                "POST tools/call" => {
                    x.open_stream(&[]).await;
                    x.event(Some("e1"), "").await;
                    x.raw(": comment\r\n").await;
                    x.event(None, &json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}).to_string()).await;
                    x.log.wait("POST", 1).await;
                    x.raw(&format!("event: other\ndata: {}\n\n", "noise")).await;
                    let id = x.request.id();
                    x.event(None, &text_result(&id, "é—漢").to_string()).await;
                }
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    let mut events = connection.events();
    assert_eq!(call(&connection, "x").await.unwrap(), "é—漢");
    let answer = &server.log.of("POST")[0];
    assert_eq!(answer.json(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    assert_eq!(answer.header("mcp-session-id"), Some("s-1"));
    while let Some(event) = events.try_next() {
        assert!(!matches!(event, Event::Skipped { .. }), "{event:?}");
    }
}

#[tokio::test]
async fn a_failing_exchange_fails_its_request_and_no_other() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            if x.request.rpc() != "tools/call" {
                return x.good().await;
            }
            let json = [("Content-Type", "application/json")];
            match x.nth {
                0 => x.reply(503, &[("Retry-After", "0")], "busy").await,
                1 => x.reply(200, &json, "{nope").await,
                2 => x.status(202).await,
                3 => x.reply(200, &[("Content-Type", "text/html")], "<p>").await,
                4 => {}
                5 => {
                    x.open_stream(&[]).await;
                    x.event(None, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
                }
                6 => x.reply(200, &json, &text_result(&json!(9999), "x").to_string()).await,
                7 => x.reply(301, &[("Location", "/other")], "").await,
                8 => x.reply(307, &[("Location", "http://localhost:9/x")], "").await,
                9 => {
                    x.reply(
                        400,
                        &json,
                        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad"}}"#,
                    )
                    .await;
                }
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    let expected = [
        (FailureKind::Http, Some(503)),
        (FailureKind::Invalid, None),
        (FailureKind::Invalid, None),
        (FailureKind::Invalid, None),
        (FailureKind::Closed, None),
        (FailureKind::Closed, None),
        (FailureKind::Invalid, None),
        (FailureKind::Http, Some(301)),
        (FailureKind::Http, Some(307)),
        (FailureKind::Http, Some(400)),
    ];
    for (n, (kind, code)) in expected.into_iter().enumerate() {
        let error = call(&connection, "x").await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (kind, code), "{n}: {error}");
    }
    assert_eq!(call(&connection, "fine").await.unwrap(), "fine");
    assert_eq!(server.log.of("POST tools/call").len(), 11, "no call was sent twice");
    assert_eq!(server.log.of("POST initialize").len(), 1);
}

#[tokio::test]
async fn a_redirect_on_the_origin_keeps_method_and_body() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            match (x.request.rpc().as_str(), x.request.path()) {
                ("tools/call", "/mcp") => x.reply(308, &[("Location", "/mcp/")], "").await,
                ("tools/list", "/mcp") => x.reply(307, &[("Location", "/mcp")], "").await,
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    assert_eq!(call(&connection, "moved").await.unwrap(), "moved");
    assert_eq!(connection.tools().await.unwrap_err().code(), Some(307), "a loop ends");
    assert_eq!(server.log.of("POST tools/list").len(), 4);
}

#[tokio::test]
async fn a_lost_session_is_reopened_without_its_id() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            let old = x.request.header("mcp-session-id") == Some("s-1");
            match x.request.word().as_str() {
                "POST initialize" if x.nth == 1 => {
                    let body = init_result(&x.request.id()).to_string();
                    x.reply(200, &[("Content-Type", "application/json"), ("Mcp-Session-Id", "s-2")], &body)
                        .await;
                }
                "POST tools/call" if old => x.reply(404, &[], "<html>").await,
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    let calls = ["a", "b", "c"].map(|text| {
        let connection = connection.clone();
        async move { call(&connection, text).await }
    });
    let texts: Vec<String> =
        futures_util::future::join_all(calls).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(texts, ["a", "b", "c"]);
    let opened = server.log.of("POST initialize");
    assert_eq!(opened.len(), 2);
    assert!(
        opened[1].header("mcp-session-id").is_none() && opened[1].header("mcp-protocol-version").is_none()
    );
    assert_eq!(server.log.of("POST notifications/initialized")[1].header("mcp-session-id"), Some("s-2"));
    let calls = server.log.of("POST tools/call");
    let ids: std::collections::HashSet<String> = calls.iter().map(|r| r.id().to_string()).collect();
    assert_eq!(ids.len(), calls.len(), "an id was used again");
    connection.close().await;
    assert_eq!(server.log.of("DELETE").len(), 1);
    assert_eq!(server.log.of("DELETE")[0].header("mcp-session-id"), Some("s-2"));
}

#[tokio::test]
async fn a_list_begins_anew_in_a_new_session() {
    let server = Server::start(move |mut x| {
        Box::pin(async move {
            let old = x.request.header("mcp-session-id") == Some("s-1");
            let (id, cursor) = (x.request.id(), x.request.json()["params"].get("cursor").is_some());
            match (x.request.word().as_str(), cursor) {
                ("POST initialize", _) if x.nth == 1 => {
                    let body = init_result(&id).to_string();
                    x.reply(200, &[("Content-Type", "application/json"), ("Mcp-Session-Id", "s-2")], &body)
                        .await;
                }
                ("POST tools/list", true) if old => x.status(404).await,
                ("POST tools/list", true) => x.json(&tools_result(&id, &["two"])).await,
                ("POST tools/list", false) => {
                    let mut page = tools_result(&id, &["one"]);
                    page["result"]["nextCursor"] = json!("c");
                    x.json(&page).await;
                }
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    let tools = connection.list(ListKind::Tools).await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.key.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    let asked = server.log.of("POST tools/list");
    let asked: Vec<_> = asked
        .iter()
        .map(|r| (r.header("mcp-session-id"), r.json()["params"].get("cursor").is_some()))
        .collect();
    let (old, new) = (Some("s-1"), Some("s-2"));
    assert_eq!(asked, [(old, false), (old, true), (new, false), (new, true)]);
}

#[tokio::test]
async fn a_server_that_always_answers_404_is_no_loop() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            match x.request.rpc().as_str() {
                "tools/call" => x.status(404).await,
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    assert_eq!(call(&connection, "x").await.unwrap_err().code(), Some(404));
    assert_eq!(server.log.of("POST tools/call").len(), 2);
    assert_eq!(server.log.of("POST initialize").len(), 2);
}

#[tokio::test]
async fn an_interrupted_answer_is_taken_up_again_by_get() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            let last = x.request.header("last-event-id").map(str::to_owned);
            match (x.request.word().as_str(), last.as_deref()) {
                ("POST tools/call", _) => {
                    x.open_stream(&[]).await;
                    x.raw("id: e7\nretry: 20\ndata:\n\n").await;
                }
                ("GET", Some("e7")) => {
                    x.open_stream(&[]).await;
                    x.event(Some("e8"), r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
                }
                ("GET", Some("e8")) => {
                    let id = x.log.of("POST tools/call")[0].id();
                    x.open_stream(&[]).await;
                    x.event(Some("e9"), &text_result(&id, "late").to_string()).await;
                }
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    let before = tokio::time::Instant::now();
    assert_eq!(call(&connection, "x").await.unwrap(), "late");
    assert!(before.elapsed() >= Duration::from_millis(40), "retry was not respected");
    let resumed: Vec<_> =
        server.log.of("GET").into_iter().filter(|r| r.header("last-event-id").is_some()).collect();
    assert_eq!(resumed.len(), 2);
    assert_eq!(resumed[0].header("mcp-session-id"), Some("s-1"));
    assert_eq!(server.log.of("POST tools/call").len(), 1);
}

#[tokio::test]
async fn the_standalone_stream_is_reopened_where_it_broke() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            match (x.request.word().as_str(), x.nth) {
                // Breaks before anything came.
                ("GET", 0) => {
                    x.open_stream(&[]).await;
                    x.raw(": hello\n").await;
                }
                ("GET", 1) => x.status(502).await,
                ("GET", 2) => {
                    x.raw("HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\r\n").await;
                    x.event(Some("g1"), r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
                        .await;
                }
                ("GET", _) => {
                    x.open_stream(&[]).await;
                    x.hang().await;
                }
                ("POST tools/list", n) => {
                    let names: &[&str] = if n == 0 { &["a"] } else { &["a", "b"] };
                    x.json(&tools_result(&x.request.id(), names)).await;
                }
                _ => x.good().await,
            }
        })
    })
    .await;
    let client = Client::new(settings());
    let connection = client.connect("s", &server.target()).await.unwrap();
    let mut events = connection.events();
    connection.tools().await.unwrap();
    while !matches!(events.next().await.unwrap(), Event::Refetched { .. }) {}
    let names: Vec<String> =
        connection.cached(ListKind::Tools).unwrap().iter().map(|t| t.key.clone()).collect();
    assert_eq!(names, ["a", "b"]);
    server.log.wait("GET", 4).await;
    assert_eq!(server.log.of("GET")[3].header("last-event-id"), Some("g1"));
    connection.close().await;
}

#[tokio::test]
async fn a_stream_that_can_not_be_had_leaves_the_session_alone() {
    for status in [405, 404, 500] {
        let server = Server::start(move |mut x| {
            Box::pin(async move {
                match x.request.method.as_str() {
                    "GET" => x.status(status).await,
                    "DELETE" => x.status(405).await,
                    _ => x.good().await,
                }
            })
        })
        .await;
        let client = Client::new(settings());
        let connection = client.connect("s", &server.target()).await.unwrap();
        let mut events = connection.events();
        let wanted = if status == 500 { 5 } else { 1 };
        server.log.wait("GET", wanted).await;
        while !matches!(events.next().await.unwrap(), Event::NoStream { .. }) {}
        assert_eq!(call(&connection, "x").await.unwrap(), "x");
        assert_eq!(server.log.of("GET").len(), wanted);
        assert_eq!(server.log.of("POST initialize").len(), 1);
        connection.close().await;
    }
}

#[tokio::test]
async fn what_answers_a_notification_does_not_matter() {
    for reply in [
        (200, "application/json", r#"{"ok":true}"#),
        (200, "application/json", ""),
        (202, "text/plain", ""),
        (204, "text/plain", ""),
        (400, "application/json", r#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}"#),
    ] {
        let server = Server::start(move |mut x| {
            Box::pin(async move {
                match x.request.rpc().as_str() {
                    "notifications/initialized" => {
                        x.reply(reply.0, &[("Content-Type", reply.1)], reply.2).await;
                    }
                    _ => x.good().await,
                }
            })
        })
        .await;
        let connection = connect(&server).await;
        let mut events = connection.events();
        assert_eq!(call(&connection, "x").await.unwrap(), "x", "{reply:?}");
        connection.close().await;
        while let Some(event) = events.try_next() {
            assert!(!matches!(event, Event::Skipped { .. }), "{event:?}");
        }
    }
}

#[tokio::test]
async fn timeouts_and_cancellations_are_posted() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            match x.request.rpc().as_str() {
                "tools/call" => x.hang().await,
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    let options = RequestOptions { timeout: Some(Duration::from_millis(30)), ..Default::default() };
    let error = connection.call_with("echo", args("x"), options).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Timeout);
    server.log.wait("POST notifications/cancelled", 1).await;
    let pending = connection.start_call("echo", args("x"), RequestOptions::default(), None);
    server.log.wait("POST tools/call", 2).await;
    let canceller = pending.canceller();
    canceller.cancel("enough");
    assert_eq!(pending.wait().await.unwrap_err().kind(), FailureKind::Cancelled);
    let switch = CancelSwitch::default();
    let options = CallOptions { cancel: Some(switch.clone()), ..CallOptions::default() };
    let (cancelled, ()) = tokio::join!(connection.call_with("echo", args("x"), options), async {
        server.log.wait("POST tools/call", 3).await;
        switch.throw("the user said so");
    });
    assert!(cancelled.unwrap_err().to_string().contains("the user said so"));
    let dropped = connection.start_call("echo", args("x"), RequestOptions::default(), None);
    server.log.wait("POST tools/call", 4).await;
    drop(dropped);
    server.log.wait("POST notifications/cancelled", 4).await;
    let calls: Vec<Value> = server.log.of("POST tools/call").iter().map(|r| r.id()).collect();
    let cancelled: Vec<Value> = server
        .log
        .of("POST notifications/cancelled")
        .iter()
        .map(|r| r.json()["params"]["requestId"].clone())
        .collect();
    assert_eq!(calls, cancelled);
}

#[tokio::test]
async fn an_invalid_session_id_and_bad_urls_are_refused() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            let body = init_result(&x.request.id()).to_string();
            x.reply(200, &[("Content-Type", "application/json"), ("Mcp-Session-Id", "a b")], &body).await;
        })
    })
    .await;
    let client = Client::new(settings());
    let error = client.connect("s", &server.target()).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Invalid);
    for url in ["not a url", "ftp://127.0.0.1/x"] {
        let error = client.connect("s", &Target::Http(HttpTarget::new(url))).await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Start, "{error}");
    }
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gone = Target::Http(HttpTarget::new(format!("http://{free}/mcp")));
    let error = client.connect("s", &gone).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Start, "{error}");
}

#[tokio::test]
async fn pages_are_followed_and_endless_lists_refused() {
    let server = Server::start(|mut x: Exchange| {
        Box::pin(async move {
            if x.request.rpc() != "tools/list" {
                return x.good().await;
            }
            let cursor = x.request.json()["params"].get("cursor").cloned();
            let (names, next): (&[&str], Option<&str>) = match cursor.as_ref().and_then(Value::as_str) {
                None => (&["a", "a"], Some("")),
                Some("") => (&[], Some("={\"n\":2}")),
                Some("={\"n\":2}") => (&["b"], None),
                Some(_) => (&[], None),
            };
            let mut page = tools_result(&x.request.id(), names);
            if let Some(next) = next {
                page["result"]["nextCursor"] = next.into();
            }
            if x.nth >= 3 {
                page["result"]["nextCursor"] = "same".into();
            }
            x.json(&page).await;
        })
    })
    .await;
    let connection = connect(&server).await;
    let names: Vec<String> = connection.tools().await.unwrap().iter().map(|t| t.key.clone()).collect();
    assert_eq!(names, ["a", "b"]);
    let pages = server.log.of("POST tools/list");
    assert!(pages[0].json().get("params").is_none());
    assert_eq!(pages[1].json()["params"], json!({"cursor": ""}));
    assert_eq!(connection.tools().await.unwrap_err().kind(), FailureKind::Invalid);
    assert_eq!(server.log.of("POST tools/list").len(), 5);
}

#[tokio::test]
async fn structured_content_is_checked_against_the_schema() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            let id = x.request.id();
            match x.request.rpc().as_str() {
                "tools/list" => {
                    let mut list = tools_result(&id, &["echo"]);
                    list["result"]["tools"][0]["outputSchema"] =
                        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
                    list["result"]["ttlMs"] = (-1).into();
                    x.json(&list).await;
                }
                "tools/call" => {
                    let mut result = text_result(&id, "t");
                    match x.nth {
                        0 => result["result"]["structuredContent"] = json!({"n": 42}),
                        1 => result["result"]["structuredContent"] = json!({"n": "42"}),
                        2 => {}
                        3 => result["result"]["isError"] = true.into(),
                        _ => result["result"] = json!({"structuredContent": {"n": 1}}),
                    }
                    x.json(&result).await;
                }
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    connection.tools().await.unwrap();
    let outcomes: Vec<Option<FailureKind>> = {
        let mut all = Vec::new();
        for _ in 0..5 {
            all.push(connection.call("echo", args("x")).await.err().map(|e| e.kind()));
        }
        all
    };
    let invalid = Some(FailureKind::Invalid);
    assert_eq!(outcomes, [None, invalid, invalid, None, None]);
}

#[tokio::test]
async fn a_server_that_forgets_each_session_at_once_is_no_loop() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            match x.request.header("mcp-session-id") {
                Some(_) => x.status(404).await,
                None => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    assert_eq!(call(&connection, "x").await.unwrap_err().code(), Some(404));
    server.log.wait("POST notifications/initialized", 2).await;
    connection.close().await;
    assert!(server.log.of("POST initialize").len() <= 3, "{:?}", server.log.words());
}

#[tokio::test]
async fn a_flood_of_changes_leads_to_few_fetches() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            match x.request.word().as_str() {
                "GET" => {
                    x.open_stream(&[]).await;
                    x.log.wait("POST tools/list", 1).await;
                    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
                    for _ in 0..200 {
                        x.event(None, changed).await;
                    }
                    x.event(None, r#"{"jsonrpc":"2.0","id":"last","method":"ping"}"#).await;
                    x.hang().await;
                }
                // Answered only after the flood was seen whole.
                "POST tools/list" if x.nth > 0 => {
                    x.log.wait("POST", 1).await;
                    x.good().await;
                }
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = connect(&server).await;
    let mut events = connection.events();
    connection.tools().await.unwrap();
    for _ in 0..2 {
        while !matches!(events.next().await.unwrap(), Event::Refetched { .. }) {}
    }
    connection.close().await;
    assert_eq!(server.log.of("POST tools/list").len(), 3);
}

#[tokio::test]
async fn a_changed_list_can_wait_for_its_next_use_or_be_ignored() {
    for (policy, lists) in [(ListChangedPolicy::BeforeNextUse, 2), (ListChangedPolicy::Ignore, 1)] {
        let server = Server::start(|mut x| {
            Box::pin(async move {
                match x.request.word().as_str() {
                    "POST ping" => {
                        x.open_stream(&[]).await;
                        x.event(None, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
                            .await;
                        let id = x.request.id();
                        x.event(None, &json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string()).await;
                    }
                    _ => x.good().await,
                }
            })
        })
        .await;
        let connection = connect_with(&server, Settings { list_changed: policy, ..settings() }).await;
        connection.tools().await.unwrap();
        connection.ping().await.unwrap();
        assert_eq!(server.log.of("POST tools/list").len(), 1);
        call(&connection, "x").await.unwrap();
        connection.known(ListKind::Tools).await.unwrap();
        assert_eq!(server.log.of("POST tools/list").len(), lists, "{policy:?}");
    }
}

#[tokio::test]
async fn a_callback_that_panics_is_an_internal_error_for_the_server() {
    struct Clumsy;
    #[async_trait::async_trait]
    impl Callbacks for Clumsy {
        async fn elicit(&self, _: &str, request: Elicitation) -> Result<ElicitAnswer, RpcError> {
            panic!("on purpose: {}", request.message);
        }
    }
    let server = Server::start(|mut x| {
        Box::pin(async move {
            match x.request.word().as_str() {
                "POST tools/call" => {
                    x.open_stream(&[]).await;
                    let form = json!({"message": "m", "requestedSchema": {"type": "object"}});
                    let ask =
                        json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form});
                    x.event(None, &ask.to_string()).await;
                    x.log.wait("POST", 1).await;
                    let id = x.request.id();
                    x.event(None, &text_result(&id, "on").to_string()).await;
                }
                _ => x.good().await,
            }
        })
    })
    .await;
    let settings = Settings { declare: Declared::all(), ..settings() };
    let client = Client::builder(settings).callbacks(Arc::new(Clumsy)).build();
    let connection = client.connect("s", &server.target()).await.unwrap();
    assert_eq!(call(&connection, "x").await.unwrap(), "on");
    assert_eq!(server.log.of("POST")[0].json()["error"]["code"], -32603);
}

#[tokio::test]
async fn all_http_goes_through_the_seam_and_no_socket_outlives_the_connection() {
    struct Spy {
        inner: SystemHttp,
        seen: Mutex<Vec<(Purpose, String)>>,
    }
    #[async_trait::async_trait]
    impl HttpClient for Spy {
        async fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
            assert_eq!(&*request.server, "s");
            self.seen.lock().unwrap().push((request.purpose, request.method.clone()));
            request.headers.push(("X-Spy".into(), "1".into()));
            self.inner.send(request).await
        }
    }
    let server = Server::start(|mut x| Box::pin(async move { x.good().await })).await;
    let spy = Arc::new(Spy { inner: SystemHttp::new().unwrap(), seen: Mutex::default() });
    let client = Client::builder(settings()).http(Arc::clone(&spy) as Arc<dyn HttpClient>).build();
    let connection = client.connect("s", &server.target()).await.unwrap();
    call(&connection, "x").await.unwrap();
    server.log.wait("GET", 1).await;
    connection.close().await;
    let seen = spy.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 5);
    for wanted in [(Purpose::McpPost, "POST"), (Purpose::McpGet, "GET"), (Purpose::McpDelete, "DELETE")] {
        assert!(seen.contains(&(wanted.0, wanted.1.to_owned())), "{wanted:?}");
    }
    assert!(server.log.all().iter().all(|r| r.header("x-spy") == Some("1")));
    assert_eq!(Arc::strong_count(&spy), 2, "the client of the connection is still in use");
}
