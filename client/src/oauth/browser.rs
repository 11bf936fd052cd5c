//! The person's part of a login: visiting the authorization URL, and the way back.

use async_trait::async_trait;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Visits authorization URLs on behalf of a person.
#[async_trait]
pub trait Browser: Send + Sync {
    /// Opens `url`, for the login to the MCP server named `server`. Returns the final redirect URL if it can be
    /// seen, or `None` if the browser itself calls the redirect URI.
    ///
    /// # Errors
    /// Why it could not be opened.
    async fn open(&self, server: &str, url: &str) -> Result<Option<String>, String>;
}

/// No browser: each login fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBrowser;

#[async_trait]
impl Browser for NoBrowser {
    async fn open(&self, _: &str, _: &str) -> Result<Option<String>, String> {
        Err("this client has no browser to log in with".into())
    }
}

/// The path of the redirect URI.
const PATH: &str = "/callback";

/// Waits for the browser on loopback, during one login.
pub(crate) struct Callback {
    listener: TcpListener,
    pub(crate) redirect_uri: String,
}

impl Callback {
    /// Listens on 127.0.0.1; port 0: any.
    pub(crate) async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let redirect_uri = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
        Ok(Self { listener, redirect_uri })
    }

    /// The URL that the browser was redirected to.
    pub(crate) async fn wait(&self) -> io::Result<String> {
        let mut visitors = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (socket, _) = accepted?;
                    if visitors.len() < 16 {
                        visitors.spawn(timeout(Duration::from_secs(10), visit(socket)));
                    }
                }
                Some(visited) = visitors.join_next() => {
                    if let Ok(Ok(Ok(Some(target)))) = visited {
                        let origin = self.redirect_uri.trim_end_matches(PATH);
                        return Ok(format!("{origin}{target}"));
                    }
                }
            }
        }
    }
}

/// Serves one request; the target, if it is the redirect URI.
async fn visit(mut socket: TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        if head.len() > 16 << 10 || socket.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split(' ');
    let target =
        words.next().filter(|method| *method == "GET").and_then(|_| words.next()).unwrap_or_default();
    let ours = target.strip_prefix(PATH).is_some_and(|rest| rest.starts_with('?'));
    let (status, text) = match ours {
        true => ("200 OK", "You can close this window now."),
        false => ("404 Not Found", "There is nothing here."),
    };
    let length = text.len();
    let page = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    );
    socket.write_all(page.as_bytes()).await?;
    socket.shutdown().await?;
    Ok(ours.then(|| target.to_owned()))
}
