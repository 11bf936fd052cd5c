//! The person's part of a login: visiting the authorization URL, and the way back.

use async_trait::async_trait;
use std::future::Future;
use std::process::Stdio;
use tokio::process::Command;
use url::Url;

/// Visits authorization URLs on behalf of a person.
///
/// There are three ways back, and an implementation chooses one by what it returns: the browser calls the redirect URI at
/// which the client listens (`None`); or the final URL is seen, or pasted by the person, and returned; or the client
/// listens nowhere ([`crate::OauthSettings::redirect_uri`]), and whoever gets the redirect brings it back. The first and
/// the second may both be open: what comes first counts.
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

/// Hands each authorization URL to a function, which gets the name of the server and the URL: to show it and wait for a
/// pasted redirect URL, to send it to another machine, to open it in a window of one's own.
#[derive(Debug, Clone, Copy)]
pub struct BrowserFn<F>(pub F);

#[async_trait]
impl<F, R> Browser for BrowserFn<F>
where
    F: Fn(String, String) -> R + Send + Sync,
    R: Future<Output = Result<Option<String>, String>> + Send,
{
    async fn open(&self, server: &str, url: &str) -> Result<Option<String>, String> {
        (self.0)(server.to_owned(), url.to_owned()).await
    }
}

/// The person's own browser: what `$BROWSER` names, else what the system opens web pages with. No shell is involved.
#[derive(Debug, Clone, Default)]
pub struct SystemBrowser {
    command: Option<Vec<String>>,
}

impl SystemBrowser {
    /// A program and its arguments, instead of those; the URL is added as the last argument.
    #[must_use]
    pub const fn with_command(command: Vec<String>) -> Self {
        Self { command: Some(command) }
    }

    /// Program and arguments without the URL.
    fn words(&self, variable: Option<String>) -> Vec<String> {
        if let Some(command) = &self.command {
            return command.clone();
        }
        // Several, separated by colons, are the custom; the first one is taken. On Windows a colon is part of paths.
        let first = variable
            .and_then(|v| if cfg!(windows) { Some(v) } else { v.split(':').next().map(str::to_owned) })
            .filter(|first| !first.trim().is_empty());
        match first {
            Some(first) => first.split_whitespace().filter(|word| *word != "%s").map(str::to_owned).collect(),
            None if cfg!(target_os = "macos") => vec!["open".into()],
            None if cfg!(windows) => vec!["rundll32".into(), "url.dll,FileProtocolHandler".into()],
            None => vec!["xdg-open".into()],
        }
    }
}

#[async_trait]
impl Browser for SystemBrowser {
    async fn open(&self, _: &str, url: &str) -> Result<Option<String>, String> {
        // Seen by the flow already; a browser program would take other schemes, and words with a dash as options.
        if !Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
            return Err("not a web address".into());
        }
        let words = self.words(std::env::var("BROWSER").ok());
        let Some((program, arguments)) = words.split_first() else {
            return Err("no browser is configured".into());
        };
        let mut child = Command::new(program)
            .args(arguments)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("could not start `{program}`: {error}"))?;
        // A browser may run as long as the person likes. One that fails at once is an error; the callback, if it comes
        // first, ends the wait.
        match child.wait().await {
            Ok(status) if !status.success() => Err(format!("`{program}` could not open it: {status}")),
            Ok(_) => Ok(None),
            Err(error) => Err(format!("`{program}`: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_over_the_system() {
        let own = SystemBrowser::default();
        assert_eq!(own.words(Some("firefox --new-window %s:lynx".into())), ["firefox", "--new-window"]);
        assert_eq!(own.words(Some(" ".into())), own.words(None));
        assert_eq!(own.words(None).len(), if cfg!(windows) { 2 } else { 1 });
        let given = SystemBrowser::with_command(vec!["w3m".into()]);
        assert_eq!(given.words(Some("firefox".into())), ["w3m"]);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_url_is_one_argument_and_no_shell_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let script = format!("printf %s \"$1\" > {}", out.display());
        let browser =
            SystemBrowser::with_command(["sh", "-c", &script, "browser"].map(str::to_owned).to_vec());
        let url = "https://as.test/a?b=$(touch%20x)&c='d'";
        assert_eq!(browser.open("s", url).await, Ok(None));
        assert_eq!(std::fs::read_to_string(out).unwrap(), url);
        for bad in ["file:///etc/passwd", "--help", "javascript:alert(1)"] {
            assert!(browser.open("s", bad).await.is_err(), "{bad}");
        }
        let failing = SystemBrowser::with_command(vec!["false".into()]);
        assert!(failing.open("s", url).await.unwrap_err().contains("could not open"));
        let missing = SystemBrowser::with_command(vec!["/nonexistent/browser".into()]);
        assert!(missing.open("s", url).await.unwrap_err().contains("could not start"));
    }

    #[tokio::test]
    async fn a_function_gets_the_url_and_may_bring_the_redirect() {
        let paste = BrowserFn(async |server: String, url: String| Ok(Some(format!("{server} {url}"))));
        assert_eq!(paste.open("s", "https://x").await, Ok(Some("s https://x".to_owned())));
    }
}
