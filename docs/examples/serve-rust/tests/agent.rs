//! What a test of your own looks like. The client is the reference client; yours goes in its place.

use serde_json::{Map, json};
use serve_rust::{Error, Server};
use sparring_client::{Client, HttpTarget, Settings, StdioTarget, Target};

/// The second search fails; everything else is what a perfect server does.
const FLAKY: &str = "
tools:
  - { name: search, like: echo }
rules:
  - on: tools/call
    nth: 2
    do:
      - error: { code: -32603, message: out of order }
";

fn text(text: &str) -> Map<String, serde_json::Value> {
    Map::from_iter([("text".to_owned(), json!(text))])
}

#[tokio::test]
async fn a_search_that_fails_is_told_and_the_next_one_works() -> Result<(), Error> {
    let server = Server::http(FLAKY).await?;
    let target = Target::Http(HttpTarget::new(server.url()));
    let connection = Client::new(Settings::default()).connect("mock", &target).await?;
    assert_eq!(connection.call("search", text("one")).await?.text(), "one");
    let error = connection.call("search", text("two")).await.unwrap_err();
    assert!(error.to_string().contains("out of order"), "{error}");
    assert_eq!(connection.call("search", text("three")).await?.text(), "three");
    assert_eq!(server.wait("{ request: tools/call }", 3).await?.len(), 3);
    connection.close().await;
    server.stop().await
}

#[tokio::test]
async fn a_tool_that_comes_later_is_found() -> Result<(), Error> {
    let server = Server::http("tools: [echo]\nhttp: { sessions: true, get_stream: true }").await?;
    let target = Target::Http(HttpTarget::new(server.url()));
    let connection = Client::new(Settings::default()).connect("mock", &target).await?;
    assert_eq!(connection.tools().await?.len(), 1);
    server.act("[ { add_tool: { name: later } }, { announce: tools } ]").await?;
    // The client asks again by itself, once it has heard.
    server.wait("{ request: tools/list }", 2).await?;
    assert_eq!(connection.tools().await?.len(), 2);
    connection.close().await;
    server.stop().await
}

#[tokio::test]
async fn a_server_that_dies_is_started_again() -> Result<(), Error> {
    let server = Server::stdio("tools: [echo]").await?;
    let [program, arguments @ ..] = &server.command()[..] else { return Err("there is no command".into()) };
    let target = Target::Stdio(StdioTarget::new(*program, arguments.iter().copied()));
    let client = Client::new(Settings::default());
    let first = client.connect("mock", &target).await?;
    server.act("[ { exit: 1 } ]").await?;
    assert!(first.call("echo", text("hi")).await.is_err());
    let second = client.connect("mock", &target).await?;
    assert_eq!(second.call("echo", text("hi")).await?.text(), "hi");
    second.close().await;
    let started = server.wait("{ process: started }", 2).await?;
    assert_eq!(started[1]["incarnation"], json!(2));
    server.stop().await
}
