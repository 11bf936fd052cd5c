//! The default HTTP client: its connections, and TLS.

use crate::support::{args, init_result, settings, text_result};
use futures_util::StreamExt as _;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use sparring_client::http::{HttpError, HttpRequest, HttpResponse, Purpose, SystemHttp};
use sparring_client::{Client, HttpClient, HttpTarget, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The next request on a kept connection: its first line and its body; `None` at its end.
async fn read_request<S: AsyncRead + Unpin>(socket: &mut BufReader<S>) -> Option<(String, String)> {
    let mut first = String::new();
    if socket.read_line(&mut first).await.ok()? == 0 {
        return None;
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).await.ok()?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some((first, String::from_utf8(body).unwrap()))
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut BufReader<S>, status: u16, body: &str) {
    let text = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(text.as_bytes()).await.unwrap();
    socket.flush().await.unwrap();
}

/// An MCP server of the least kind, on one connection.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(socket: S) {
    let mut socket = BufReader::new(socket);
    while let Some((first, body)) = read_request(&mut socket).await {
        let message: Value = serde_json::from_str(&body).unwrap_or_default();
        let id = &message["id"];
        match message["method"].as_str() {
            Some("initialize") => answer(&mut socket, 200, &init_result(id).to_string()).await,
            Some("tools/call") => answer(&mut socket, 200, &text_result(id, "hi").to_string()).await,
            _ if first.starts_with("GET") => answer(&mut socket, 405, "").await,
            _ => answer(&mut socket, 202, "").await,
        }
    }
}

fn get(url: &str) -> HttpRequest {
    HttpRequest {
        server: Arc::from("s"),
        purpose: Purpose::McpGet,
        method: "GET".into(),
        url: url.into(),
        headers: vec![("Accept".into(), "a/b".into())],
        body: None,
    }
}

async fn text(response: HttpResponse) -> String {
    String::from_utf8(response.read(1 << 20).await.unwrap()).unwrap()
}

#[tokio::test]
async fn an_idle_connection_is_used_again_and_one_the_server_closed_is_not_missed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x?y=%2F#z", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut lines = Vec::new();
        for served in [2, 1] {
            let mut socket = BufReader::new(listener.accept().await.unwrap().0);
            for n in 0..served {
                let (first, _) = read_request(&mut socket).await.unwrap();
                lines.push(first);
                answer(&mut socket, 200, &n.to_string()).await;
            }
        }
        lines
    });
    let http = SystemHttp::new().unwrap();
    for expected in ["0", "1", "0"] {
        assert_eq!(text(http.send(get(&url)).await.unwrap()).await, expected);
    }
    assert_eq!(server.await.unwrap(), ["GET /x?y=%2F HTTP/1.1\r\n"; 3]);
}

#[tokio::test]
async fn a_request_that_may_have_arrived_is_not_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&requests);
    tokio::spawn(async move {
        loop {
            let mut socket = BufReader::new(listener.accept().await.unwrap().0);
            while read_request(&mut socket).await.is_some() {
                // Every second request is read and not answered.
                if seen.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
                    break;
                }
                answer(&mut socket, 200, "").await;
            }
        }
    });
    let http = SystemHttp::new().unwrap();
    assert_eq!(text(http.send(get(&url)).await.unwrap()).await, "");
    assert!(matches!(http.send(get(&url)).await, Err(HttpError::Other(_))));
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_body_that_is_dropped_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut socket = BufReader::new(listener.accept().await.unwrap().0);
        read_request(&mut socket).await.unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\nbeginning").await.unwrap();
        socket.flush().await.unwrap();
        // The end of what the client sends: it has closed the connection.
        read_request(&mut socket).await.is_none()
    });
    let mut response = SystemHttp::new().unwrap().send(get(&url)).await.unwrap();
    assert_eq!(response.body.next().await.unwrap().unwrap(), "beginning");
    drop(response);
    assert!(server.await.unwrap());
}

#[tokio::test]
async fn what_can_not_be_sent_is_an_error_and_no_panic() {
    let http = SystemHttp::new().unwrap();
    for url in ["", "x", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:1:2/"] {
        assert!(http.send(get(url)).await.is_err(), "{url}");
    }
    for (name, value) in [("a b", "x"), ("", "x"), ("a", "x\r\nb: c")] {
        let mut request = get("http://127.0.0.1:9/");
        request.headers.push((name.into(), value.into()));
        assert!(matches!(http.send(request).await, Err(HttpError::Other(_))), "{name:?}");
    }
}

#[tokio::test]
async fn nothing_that_listens_is_a_failure_to_connect() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    assert!(matches!(SystemHttp::new().unwrap().send(get(&url)).await, Err(HttpError::Connect(_))));
}

/// A TLS server for `localhost`; its certificate as PEM, and its port.
async fn tls_server() -> (String, u16) {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(socket) = acceptor.accept(socket).await {
                    serve(socket).await;
                }
            });
        }
    });
    (signed.cert.pem(), port)
}

#[tokio::test]
async fn https_works_with_a_trusted_root_and_the_right_name_only() {
    let (pem, port) = tls_server().await;
    let target = |host: &str| Target::Http(HttpTarget::new(format!("https://{host}:{port}/mcp")));
    let trusting = Arc::new(SystemHttp::with_roots(pem.as_bytes()).unwrap());
    let client = Client::builder(settings()).http(trusting).build();
    let connection = client.connect("s", &target("localhost")).await.unwrap();
    let result = connection.call("echo", args("x")).await.unwrap();
    assert_eq!(*result.json(), json!({"content": [{"type": "text", "text": "hi"}]}));
    connection.close().await;
    let error = client.connect("s", &target("127.0.0.1")).await.unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
    let stranger = Client::new(settings());
    let error = stranger.connect("s", &target("localhost")).await.unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
}

#[test]
fn roots_have_to_be_certificates() {
    for pem in ["", "x", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
        assert!(SystemHttp::with_roots(pem.as_bytes()).is_err(), "{pem}");
    }
}
