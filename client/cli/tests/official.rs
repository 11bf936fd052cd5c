//! The mode for the official conformance framework, as the framework runs it.

#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers as well")]

use assert_cmd::Command;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// A server without any capabilities, one answer for each connection. Its URL.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://localhost:{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            drop(answer(socket.unwrap()));
        }
    });
    url
}

fn answer(mut socket: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    let length = |text: &str| {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let stated =
            head.lines().find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        Some((stated.unwrap_or(0), body.len()))
    };
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if length(&text).is_some_and(|(stated, here): (usize, usize)| here >= stated) {
            break;
        }
        match socket.read(&mut buffer)? {
            0 => return Ok(()),
            n => request.extend_from_slice(&buffer[..n]),
        }
    }
    let text = String::from_utf8_lossy(&request);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let id =
        body.split_once("\"id\":").map(|(_, rest)| rest.split([',', '}']).next().unwrap_or("0").to_owned());
    let (status, json) = match (text.starts_with("POST"), id) {
        (true, Some(id)) if body.contains("\"initialize\"") => {
            let result = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
            ("200 OK", format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
        }
        (true, None) => ("202 Accepted", String::new()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        json.len()
    );
    socket.write_all(format!("{head}{json}").as_bytes())
}

fn client(scenario: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("sparring-client"));
    command.env("MCP_CONFORMANCE_SCENARIO", scenario).env("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25");
    command
}

#[test]
fn a_scenario_that_goes_well_ends_with_0() {
    client("initialize").arg("official").arg(server()).assert().success().stderr("");
    // Chosen by the environment.
    client("initialize").arg(server()).assert().success();
}

#[test]
fn what_went_wrong_is_on_stderr() {
    let outcome = client("juggling").arg("official").arg("http://localhost:1").assert().failure().code(1);
    let told = String::from_utf8_lossy(&outcome.get_output().stderr).into_owned();
    assert!(told.contains("`juggling` is not known"), "{told}");
    let outcome = client("initialize").arg("official").arg("http://127.0.0.1:1/mcp").assert().failure();
    let told = String::from_utf8_lossy(&outcome.get_output().stderr).into_owned();
    assert!(
        told.starts_with("sparring-client: initialize: could not reach http://127.0.0.1:1/mcp"),
        "{told}"
    );
}
