//! The browser that the harness plays for OAuth: it follows an authorization URL through its redirects, without a
//! person and without leaving this machine.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::{Host, Url};

/// Redirects followed before giving up.
const MOST_HOPS: u32 = 10;
/// The longest head of a response, in bytes.
const LONGEST_HEAD: usize = 64 << 10;
/// One request with its response head.
const HOP_LIMIT: Duration = Duration::from_secs(5);

/// Where an authorization URL led.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The client's redirect URI with what the authorization server added to it.
    pub url: String,
    /// Whether a listener there took the request.
    pub delivered: bool,
}

/// An authorization URL that led nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// It, or a redirect, is no URL.
    #[error("`{0}` is no URL")]
    NotAUrl(String),
    /// It leads away from this machine or away from HTTP, and isn't the client's redirect URI.
    #[error("the browser does not go to {0}: only to http on loopback")]
    Elsewhere(String),
    /// The server can't be reached or does not speak HTTP.
    #[error("{url}: {why}")]
    Unreachable {
        /// The address without its query.
        url: String,
        /// Why.
        why: String,
    },
    /// An answer that is no redirect: an error page for the user.
    #[error("{url} answered {status}, which is no redirect")]
    Page {
        /// The address without its query.
        url: String,
        /// The status.
        status: u16,
    },
    /// It goes on and on.
    #[error("more than {MOST_HOPS} redirects")]
    TooManyRedirects,
}

/// Follows `url` until it reaches the `redirect_uri` that it names. If that is on loopback it is requested too, as a
/// browser would; that no one listens there is no error, since some clients are handed the URL in another way.
///
/// # Errors
/// It leads nowhere; see [`Lost`].
pub async fn follow(url: &str) -> Result<Arrival, Lost> {
    let mut current = Url::parse(url).map_err(|_| Lost::NotAUrl(bare(url)))?;
    let goal = current
        .query_pairs()
        .find(|(name, _)| name == "redirect_uri")
        .and_then(|(_, value)| Url::parse(&value).ok());
    for _ in 0..MOST_HOPS {
        if !is_loopback(&current) {
            return Err(Lost::Elsewhere(bare(current.as_str())));
        }
        let Answer { status, location } = get(&current).await?;
        let (300..=399, Some(location)) = (status, location) else {
            return Err(Lost::Page { url: bare(current.as_str()), status });
        };
        current = current.join(&location).map_err(|_| Lost::NotAUrl(bare(&location)))?;
        if goal.as_ref().is_some_and(|goal| same_place(goal, &current)) {
            let delivered = is_loopback(&current) && get(&current).await.is_ok();
            return Ok(Arrival { url: current.into(), delivered });
        }
    }
    Err(Lost::TooManyRedirects)
}

/// An address that may be shown: without query and fragment, in which codes travel.
pub fn bare(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}

fn same_place(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
        && one.path() == other.path()
}

fn is_loopback(url: &Url) -> bool {
    url.scheme() == "http"
        && match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
}

struct Answer {
    status: u16,
    location: Option<String>,
}

async fn get(url: &Url) -> Result<Answer, Lost> {
    let unreachable = |why: String| Lost::Unreachable { url: bare(url.as_str()), why };
    match tokio::time::timeout(HOP_LIMIT, exchange(url)).await {
        Ok(answer) => answer.map_err(unreachable),
        Err(_) => Err(unreachable(format!("no answer within {} s", HOP_LIMIT.as_secs()))),
    }
}

/// One GET on a connection of its own. The body is of no interest.
async fn exchange(url: &Url) -> Result<Answer, String> {
    let port = url.port_or_known_default().unwrap_or(80);
    let host = url.host_str().unwrap_or("127.0.0.1");
    let mut stream =
        TcpStream::connect((host.trim_matches(['[', ']']), port)).await.map_err(|e| e.to_string())?;
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: sparring-browser\r\nAccept: text/html, */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(|e| e.to_string())?;
    let mut head = Vec::new();
    let mut chunk = [0; 4096];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let count = stream.read(&mut chunk).await.map_err(|e| e.to_string())?;
        if count == 0 || head.len() > LONGEST_HEAD {
            return Err("no HTTP response".to_owned());
        }
        head.extend_from_slice(&chunk[..count]);
    }
    read_head(&String::from_utf8_lossy(&head)).ok_or_else(|| "no HTTP response".to_owned())
}

fn read_head(head: &str) -> Option<Answer> {
    let mut lines = head.split("\r\n");
    let mut status_line = lines.next()?.split(' ');
    if !status_line.next()?.starts_with("HTTP/1.") {
        return None;
    }
    let status = status_line.next()?.parse().ok()?;
    let location = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("location"))
        .map(|(_, value)| value.trim().to_owned());
    Some(Answer { status, location })
}

/// A helper that stands on the client's PATH as `xdg-open` and `open`, and in its `BROWSER`: it tells the harness
/// which URL the client wants opened.
pub(crate) mod stand_in {
    use crate::run::directory::bin;
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::io::{self, Write};
    use std::net::SocketAddr;
    use std::path::Path;
    use std::process::ExitCode;
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
    use tokio::net::TcpListener;

    /// The private first argument.
    const ARGUMENT: &str = "__sparring-browse";
    /// The longest URL taken, in bytes.
    const LONGEST: u64 = 64 << 10;

    /// Does the helper's work if this process was started as one.
    pub(crate) fn run_if_stand_in() -> Option<ExitCode> {
        let mut arguments = std::env::args().skip(1);
        if arguments.next()? != ARGUMENT {
            return None;
        }
        let (Some(address), Some(token), Some(url)) = (arguments.next(), arguments.next(), arguments.next())
        else {
            return Some(ExitCode::FAILURE);
        };
        let sent = std::net::TcpStream::connect(address)
            .and_then(|mut harness| harness.write_all(format!("{token} {url}\n").as_bytes()));
        Some(if sent.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Puts the scripts into the client's `bin`, and returns the variables that name them.
    pub(crate) fn install(
        exe: &Path,
        client: &Path,
        harness: SocketAddr,
        token: &str,
    ) -> io::Result<BTreeMap<OsString, OsString>> {
        if cfg!(not(unix)) {
            return Ok(BTreeMap::new());
        }
        let exe = exe.to_string_lossy().replace('\'', r"'\''");
        let script = format!("#!/bin/sh\nexec '{exe}' {ARGUMENT} {harness} {token} \"$@\"\n");
        for name in ["xdg-open", "open", "sensible-browser", "x-www-browser"] {
            let path = bin(client).join(name);
            std::fs::write(&path, &script)?;
            crate::platform::make_executable(&path)?;
        }
        Ok(BTreeMap::from([("BROWSER".into(), bin(client).join("xdg-open").into_os_string())]))
    }

    /// Takes URLs from helpers until dropped.
    pub(crate) async fn listen(listener: TcpListener, token: String, opened: impl Fn(String)) {
        while let Ok((connection, _)) = listener.accept().await {
            let mut line = String::new();
            let mut connection = BufReader::new(connection.take(LONGEST));
            let read = connection.read_line(&mut line);
            if let Ok(Ok(_)) = tokio::time::timeout(super::HOP_LIMIT, read).await
                && let Some((given, url)) = line.trim_end().split_once(' ')
                && given == token
            {
                opened(url.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Answers each connection with the next of `answers` and returns the request lines.
    async fn server(answers: Vec<String>) -> (u16, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let mut seen = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4096];
                let count = stream.read(&mut request).await.unwrap();
                let text = String::from_utf8_lossy(&request[..count]).into_owned();
                seen.push(text.lines().next().unwrap().to_owned());
                stream.write_all(answer.replace("{port}", &port.to_string()).as_bytes()).await.unwrap();
            }
            seen
        });
        (port, task)
    }

    fn redirect(to: &str) -> String {
        format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
    }

    const PAGE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    #[tokio::test]
    async fn redirects_are_followed_to_the_listener_of_the_client() {
        let answers = vec![
            redirect("/consent?x=1"),
            redirect("http://127.0.0.1:{port}/callback?code=c&state=s"),
            PAGE.into(),
        ];
        let (port, task) = server(answers).await;
        let url = format!(
            "http://localhost:{port}/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A{port}%2Fcallback&state=s"
        );
        let arrival = follow(&url.replace("localhost", "127.0.0.1")).await.unwrap();
        assert_eq!(arrival.url, format!("http://127.0.0.1:{port}/callback?code=c&state=s"));
        assert!(arrival.delivered);
        let seen = task.await.unwrap();
        assert!(
            seen[0].starts_with("GET /authorize?redirect_uri=") && seen[1] == "GET /consent?x=1 HTTP/1.1"
        );
        assert_eq!(seen[2], "GET /callback?code=c&state=s HTTP/1.1");
    }

    #[tokio::test]
    async fn a_redirect_uri_that_is_no_listener_is_returned_unrequested() {
        for target in ["com.example.app:/cb", "https://example.invalid/cb"] {
            let (port, task) = server(vec![redirect(&format!("{target}?code=c"))]).await;
            let url = format!("http://127.0.0.1:{port}/authorize?redirect_uri={target}");
            let arrival = follow(&url).await.unwrap();
            assert_eq!(arrival, Arrival { url: format!("{target}?code=c"), delivered: false });
            task.await.unwrap();
        }
    }

    #[tokio::test]
    async fn it_goes_nowhere_else_and_not_for_ever() {
        let (port, _task) = server(vec![redirect("http://example.invalid/phish?a=b")]).await;
        let url = format!("http://127.0.0.1:{port}/authorize");
        assert_eq!(follow(&url).await, Err(Lost::Elsewhere("http://example.invalid/phish".into())));
        assert!(matches!(follow("https://example.invalid/").await, Err(Lost::Elsewhere(_))));
        assert!(matches!(follow("no url").await, Err(Lost::NotAUrl(_))));
        let (port, _task) = server(vec![redirect("/again"); 10]).await;
        assert_eq!(follow(&format!("http://127.0.0.1:{port}/")).await, Err(Lost::TooManyRedirects));
        let (port, _task) =
            server(vec!["HTTP/1.1 400 Bad Request\r\n\r\n".into(), "hello\r\n\r\n".into()]).await;
        let url = format!("http://127.0.0.1:{port}/authorize?secret=1");
        let bare = format!("http://127.0.0.1:{port}/authorize");
        assert_eq!(follow(&url).await, Err(Lost::Page { url: bare, status: 400 }));
        assert!(matches!(follow(&url).await, Err(Lost::Unreachable { .. })));
    }
}
