//! Which addresses a server may send the client to.

use crate::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// The longest URL that is taken from a server, in bytes.
const LONGEST: usize = 8 << 10;

/// From how far away an address can be reached: what is nearer is more worth protecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Nobody serves OAuth there: unspecified, link-local (where clouds keep their secrets), multicast.
    Nowhere,
    /// This machine.
    Loopback,
    /// A private network.
    Private,
    /// Anywhere.
    Public,
}

fn of_v4(ip: Ipv4Addr) -> Reach {
    let [a, b, ..] = ip.octets();
    if ip.is_loopback() {
        Reach::Loopback
    } else if a == 0 || ip.is_link_local() || ip.is_multicast() || ip.is_broadcast() {
        Reach::Nowhere
    } else if ip.is_private() || (a == 100 && b & 0xc0 == 64) || (a == 198 && b & 0xfe == 18) {
        Reach::Private
    } else {
        Reach::Public
    }
}

fn of_v6(ip: Ipv6Addr) -> Reach {
    if let Some(ip) = ip.to_ipv4_mapped() {
        return of_v4(ip);
    }
    if ip.is_loopback() {
        Reach::Loopback
    } else if ip.is_unspecified() || ip.is_unicast_link_local() || ip.is_multicast() {
        Reach::Nowhere
    } else if ip.is_unique_local() {
        Reach::Private
    } else {
        Reach::Public
    }
}

/// Of an address.
pub(crate) fn of_ip(ip: IpAddr) -> Reach {
    match ip {
        IpAddr::V4(ip) => of_v4(ip),
        IpAddr::V6(ip) => of_v6(ip),
    }
}

/// Of a URL, as far as its text tells: a name other than `localhost` counts as public.
pub(crate) fn of_url(url: &Url) -> Reach {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            if name == "localhost" || name.ends_with(".localhost") { Reach::Loopback } else { Reach::Public }
        }
        Some(Host::Ipv4(ip)) => of_v4(ip),
        Some(Host::Ipv6(ip)) => of_v6(ip),
        None => Reach::Nowhere,
    }
}

/// Reads a URL that a server sent. Refuses what is neither https nor http on loopback, and what carries a user name or
/// characters that a URL has not.
pub(crate) fn check_endpoint(text: &str) -> Result<Url, Error> {
    let odd = |c: char| c.is_control() || c.is_whitespace();
    if text.len() > LONGEST || text.contains(odd) {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
        return Err(Error::auth(format!("{shown:?} is refused: it is no URL that is sent in this form")));
    }
    let url = Url::parse(text).map_err(|error| Error::auth(format!("{text:?} is not a URL: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::auth("a URL of the server is refused: it carries a user name or password"));
    }
    match url.scheme() {
        "https" if url.has_host() => Ok(url),
        "http" if of_url(&url) == Reach::Loopback => Ok(url),
        _ => Err(Error::auth(format!("{text} is refused: it is neither https nor http on loopback"))),
    }
}

/// Refuses a URL that is nearer than the MCP server it comes from: a server in the internet must not send the client to
/// addresses inside (the security guide's mitigation of SSRF). A server on loopback is one that somebody develops.
pub(crate) async fn check_reach(server: &Url, url: &Url) -> Result<(), Error> {
    let (from, to) = (of_url(server), of_url(url));
    let refuse = || {
        Err(Error::auth(format!(
            "{} is refused: {} must not send this client to an address that is not public",
            bare(url.as_str()),
            bare(server.as_str()),
        )))
    };
    if to < from || to == Reach::Nowhere {
        return refuse();
    }
    if from != Reach::Public || url.host() == server.host() {
        return Ok(());
    }
    let near = match resolved(url).await {
        Some(near) if near < Reach::Public => near,
        // Unknown: the request itself will tell.
        _ => return Ok(()),
    };
    match resolved(server).await {
        Some(own) if own <= near && near != Reach::Nowhere => Ok(()),
        _ => refuse(),
    }
}

/// The nearest of the addresses that the host's name has.
async fn resolved(url: &Url) -> Option<Reach> {
    let Some(Host::Domain(name)) = url.host() else { return Some(of_url(url)) };
    let port = url.port_or_known_default().unwrap_or(443);
    let addresses = tokio::net::lookup_host((name, port)).await.ok()?;
    addresses.map(|address| of_ip(address.ip())).min()
}

/// A URL for messages, without its query.
pub(crate) fn bare(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn plain_http_is_for_loopback_only() {
        for good in ["https://as.test/t", "http://127.0.0.1:1/t", "http://localhost/t", "http://[::1]:2/"] {
            assert!(check_endpoint(good).is_ok(), "{good}");
        }
        for bad in [
            "http://as.test/t",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "http://127.0.0.1.test/",
            "x",
            "https://user@as.test/",
            "https://u:p@as.test/",
            "https://as.test/\r\nX: y",
            "https://as.te\tst/",
            &format!("https://as.test/{}", "a".repeat(9000)),
        ] {
            assert!(check_endpoint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_are_known_in_every_spelling() {
        let cases = [
            ("http://127.9.9.9/", Reach::Loopback),
            ("http://2130706433/", Reach::Loopback),
            ("http://0x7f.1/", Reach::Loopback),
            ("http://[::ffff:127.0.0.1]/", Reach::Loopback),
            ("http://localhost./", Reach::Loopback),
            ("http://10.1.2.3/", Reach::Private),
            ("http://012.1.2.3/", Reach::Private),
            ("http://100.64.0.1/", Reach::Private),
            ("http://[fd00::1]/", Reach::Private),
            ("http://[::ffff:c0a8:1]/", Reach::Private),
            ("http://169.254.169.254/", Reach::Nowhere),
            ("http://[fe80::1]/", Reach::Nowhere),
            ("http://0.0.0.0/", Reach::Nowhere),
            ("http://224.0.0.1/", Reach::Nowhere),
            ("http://8.8.8.8/", Reach::Public),
            ("http://as.test/", Reach::Public),
        ];
        for (text, reach) in cases {
            assert_eq!(of_url(&url(text)), reach, "{text}");
        }
    }

    #[tokio::test]
    async fn a_server_sends_nobody_to_what_is_nearer_than_itself() {
        let ok = async |from: &str, to: &str| check_reach(&url(from), &url(to)).await.is_ok();
        assert!(ok("http://127.0.0.1:1/mcp", "https://10.0.0.1/").await);
        assert!(ok("http://127.0.0.1:1/mcp", "http://localhost:2/").await);
        assert!(ok("https://10.0.0.1/mcp", "https://192.168.0.1/").await);
        assert!(ok("https://8.8.8.8/mcp", "https://1.1.1.1/").await);
        assert!(!ok("https://8.8.8.8/mcp", "http://127.0.0.1/").await);
        assert!(!ok("https://8.8.8.8/mcp", "https://10.0.0.1/").await);
        assert!(!ok("https://10.0.0.1/mcp", "http://localhost/").await);
        assert!(!ok("http://127.0.0.1/mcp", "https://169.254.169.254/").await);
        // A name that every machine resolves to itself.
        assert!(!ok("https://8.8.8.8/mcp", "https://localhost/").await);
    }
}
