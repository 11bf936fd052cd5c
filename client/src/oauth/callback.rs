//! The redirect URI at which the client itself listens, during one login.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::{Host, Url};

/// The path of the redirect URI, unless the settings name another.
const PATH: &str = "/callback";

/// Waits for the browser on loopback. Dropped, it listens no more.
pub(crate) struct Callback {
    listener: TcpListener,
    pub(crate) redirect_uri: String,
    origin: String,
    path: String,
}

impl Callback {
    /// Listens on 127.0.0.1; port 0: any.
    pub(crate) async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let origin = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
        Ok(Self { listener, redirect_uri: format!("{origin}{PATH}"), origin, path: PATH.into() })
    }

    /// Listens where this URI leads, which has to be http on loopback with a port.
    pub(crate) async fn bind_at(uri: &str) -> io::Result<Self> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{uri} {why}"));
        let url = Url::parse(uri).map_err(|error| bad(&format!("is no URL: {error}")))?;
        let address = match url.host() {
            Some(Host::Domain("localhost")) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(Host::Ipv4(ip)) if ip.is_loopback() => IpAddr::V4(ip),
            Some(Host::Ipv6(ip)) if ip == Ipv6Addr::LOCALHOST => IpAddr::V6(ip),
            _ => return Err(bad("is not on loopback")),
        };
        let port = url.port_or_known_default().filter(|_| url.scheme() == "http");
        let port = port.ok_or_else(|| bad("is not http"))?;
        let listener = TcpListener::bind((address, port)).await?;
        let origin = url.origin().ascii_serialization();
        Ok(Self { listener, redirect_uri: uri.to_owned(), origin, path: url.path().to_owned() })
    }

    /// The URL that the browser was redirected to.
    pub(crate) async fn wait(&self) -> io::Result<String> {
        let mut visitors = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (socket, _) = accepted?;
                    if visitors.len() < 16 {
                        visitors.spawn(timeout(Duration::from_secs(10), visit(socket, self.path.clone())));
                    }
                }
                Some(visited) = visitors.join_next() => {
                    if let Ok(Ok(Ok(Some(target)))) = visited {
                        return Ok(format!("{}{target}", self.origin));
                    }
                }
            }
        }
    }
}

/// Serves one request; the target, if it is the redirect URI.
async fn visit(mut socket: TcpStream, path: String) -> io::Result<Option<String>> {
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
    let ours = target.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('?'));
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(address: &str, target: &str) -> String {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut page = String::new();
        socket.read_to_string(&mut page).await.unwrap();
        page
    }

    #[tokio::test]
    async fn it_listens_where_the_settings_say() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let uri = format!("http://localhost:{free}/a/back");
        let callback = Callback::bind_at(&uri).await.unwrap();
        assert_eq!(callback.redirect_uri, uri);
        let address = format!("127.0.0.1:{free}");
        let visits = async {
            assert!(get(&address, "/callback?code=1").await.contains("404"));
            assert!(get(&address, "/a/back").await.contains("404"));
            assert!(get(&address, "/a/back?code=2").await.contains("200"));
        };
        let (url, ()) = tokio::join!(callback.wait(), visits);
        assert_eq!(url.unwrap(), format!("http://localhost:{free}/a/back?code=2"));
        drop(callback);
        assert!(TcpStream::connect(&address).await.is_err());
    }

    #[tokio::test]
    async fn it_listens_on_loopback_only() {
        for bad in ["https://127.0.0.1:1/x", "http://10.0.0.1:1/x", "http://a.test/x", "x", "app:/x"] {
            assert!(Callback::bind_at(bad).await.is_err(), "{bad}");
        }
    }
}
