//! Responses that are written byte by byte.

use super::*;
use sparring_wire::transcript::ResponseEnd;

/// Reads a response by its content length from a connection that stays open.
async fn read_one(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0, "closed after {text:?}");
    }
}

/// Sends a call on a connection.
async fn send_call(socket: &mut TcpStream, id: i64) {
    let params = json!({"name": "echo", "arguments": {"text": "grüße"}});
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: x\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
}

async fn connect(fixture: &Fixture) -> TcpStream {
    TcpStream::connect(fixture.mock.origin().strip_prefix("http://").unwrap()).await.unwrap()
}

#[tokio::test]
async fn each_response_of_the_example_arrives_as_its_rule_says() {
    let mut fixture = example("http-bytes", Transport::Http);
    fixture.initialize().await;
    // 1: pieces; an HTTP library puts them together again.
    assert_eq!(text(&answer(fixture.echo(1, "grüße").await.unwrap()).await), "grüße");
    // 2: cut in the head.
    assert_eq!(read_out(raw_call(&fixture, 2).await).await, ("HTTP/1.1 200 OK\r\ncon".into(), true));
    // 3: cut in the body, in good order.
    let (seen, reset) = read_out(raw_call(&fixture, 3).await).await;
    assert!(seen.ends_with("\r\n\r\n{\"jsonrpc\"") && !reset, "{seen}");
    // 4: silence after the head, until the client goes.
    let mut socket = raw_call(&fixture, 4).await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert_ne!(socket.read_buf(&mut head).await.unwrap(), 0);
    }
    fixture.log.wait(|w| matches!(w, What::ResponseBroken { how: ResponseEnd::Stalled, .. })).await;
    drop(socket);
    fixture.log.wait(|w| matches!(w, What::StreamEnded { by: Party::Client, .. })).await;
    // 5: less than was promised.
    let short = fixture.echo(5, "x").await.unwrap();
    assert!(short.bytes().await.is_err(), "the body is incomplete");
    // 6: odd, but valid.
    let odd = fixture.echo(6, "x").await.unwrap();
    assert_eq!(content_type(&odd), "Application/JSON; charset=utf-8");
    assert_eq!(odd.headers().get_all("x-odd-case").iter().count(), 2);
    assert_eq!(text(&serde_json::from_slice(&odd.bytes().await.unwrap()).unwrap()), "x");
    // 7: gzip, HTTP/1.0.
    let packed = fixture.echo(7, "x").await.unwrap();
    assert_eq!(packed.version(), reqwest::Version::HTTP_10);
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    assert_eq!(packed.bytes().await.unwrap()[..2], [0x1f, 0x8b]);
    // 8: a size that is none.
    assert!(fixture.echo(8, "x").await.unwrap().bytes().await.is_err());
    // 9: spelt out.
    assert_eq!(text(&answer(fixture.echo(9, "x").await.unwrap()).await), "x");
    // 10: no HTTP.
    assert!(fixture.echo(10, "x").await.is_err());
    // 11: nothing.
    assert_eq!(read_out(raw_call(&fixture, 11).await).await, (String::new(), false));
    // 12: spelt out, on a connection that goes on; 13: silence in the head.
    let mut socket = connect(&fixture).await;
    send_call(&mut socket, 12).await;
    assert_eq!(read_one(&mut socket).await, "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
    send_call(&mut socket, 13).await;
    let mut start = [0; 13];
    socket.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 ");
    drop(socket);
    // 14: bytes around it.
    let (seen, _) = {
        let mut socket = connect(&fixture).await;
        send_call(&mut socket, 14).await;
        socket.shutdown().await.unwrap();
        read_out(socket).await
    };
    assert!(seen.starts_with("\r\nHTTP/1.1 200 Fine\r\n") && seen.ends_with("}\r\n") && seen.len() > 40_000);
    // 15: no type, no keep-alive.
    let bare = fixture.echo(15, "x").await.unwrap();
    assert_eq!((bare.status().as_u16(), bare.headers().get("content-type")), (206, None));
    assert_eq!(bare.headers()["connection"], "close");
    assert_eq!(text(&answer_after_all(&fixture).await), "x", "the server is there as before");
    let faults = fixture.log.whats().iter().filter(|w| matches!(w, What::HarnessError { .. })).count();
    assert_eq!(faults, 0);
}

async fn answer_after_all(fixture: &Fixture) -> Value {
    answer(fixture.echo(99, "x").await.unwrap()).await
}

#[tokio::test]
async fn a_connection_goes_on_after_a_response_in_pieces() {
    let fixture = open(json!({"tools": ["echo"], "rules": [
        {"on": "tools/call", "do": [{"pieces": {"every": 1, "gap_ms": 0}}]},
    ]}))
    .await;
    let mut socket = connect(&fixture).await;
    // The second is sent ahead, so that it waits while the first is answered.
    send_call(&mut socket, 1).await;
    send_call(&mut socket, 2).await;
    let (mut seen, mut bytes) = (String::new(), Vec::new());
    while seen.matches("grüße").count() < 2 {
        assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0, "{seen}");
        seen = String::from_utf8_lossy(&bytes).into_owned();
    }
    assert!(seen.contains(r#""id":1"#) && seen.contains(r#""id":2"#));
    send_call(&mut socket, 3).await;
    assert!(read_one(&mut socket).await.contains(r#""id":3"#));
    let connections: std::collections::BTreeSet<u64> = fixture
        .log
        .whats()
        .iter()
        .filter_map(|w| match w {
            What::HttpRequest(r) if r.body.contains("tools/call") => Some(r.connection),
            _ => None,
        })
        .collect();
    assert_eq!(connections.len(), 1);
}

#[tokio::test]
async fn a_stream_breaks_off_inside_a_chunk() {
    for (how, reset) in [("close", false), ("reset", true)] {
        let fixture = open(json!({"tools": ["echo"], "http": {"answers": "sse"}, "rules": [
            {"on": "tools/call", "do": [{"cut": {"after": 25, "in_body": true, "how": how}}]},
        ]}))
        .await;
        let (seen, was_reset) = read_out(raw_call(&fixture, 1).await).await;
        let body = seen.split_once("\r\n\r\n").unwrap().1;
        assert_eq!((body.len(), was_reset), (25, reset), "{body}");
        assert!(body.contains("\r\ndata: {\"jsonrpc"), "{body}");
    }
}

#[tokio::test]
async fn connections_end_after_some_responses() {
    for announce in [true, false] {
        let fixture =
            open(json!({"tools": ["echo"], "http": {"connections": {"responses": 2, "announce": announce}}}))
                .await;
        let mut socket = connect(&fixture).await;
        for id in 1..=2 {
            send_call(&mut socket, id).await;
            let seen = read_one(&mut socket).await;
            assert_eq!(seen.to_lowercase().contains("connection: close"), announce && id == 2, "{seen}");
        }
        assert_eq!(socket.read(&mut [0; 1]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_stream_of_odd_style_is_read_all_the_same() {
    let mut fixture = example("sse", Transport::Http);
    fixture.initialize().await;
    let mut events = events(fixture.echo(1, "grüße").await.unwrap()).await;
    let last = events.pop().unwrap();
    assert_eq!(last.event.as_deref(), Some("message"));
    assert!(last.data.as_deref().unwrap().contains('\n'), "several lines");
    assert_eq!(text(&message(&last)), "grüße");
    assert_eq!(events.len(), 1, "the priming event");
}

#[tokio::test]
async fn a_client_that_wants_the_connection_closed_gets_that_with_any_response() {
    for change in [json!([{"reply": {"headers": [["X-A", "b"]]}}]), json!([{"pieces": {"every": 7}}])] {
        let mut fixture = open(call_rule(change)).await;
        fixture.initialize().await;
        let mut socket = connect(&fixture).await;
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: x\r\nconnection: close\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let (seen, reset) = read_out(socket).await;
        assert!(!reset && seen.to_ascii_lowercase().contains("connection: close\r\n"), "{seen}");
    }
}
