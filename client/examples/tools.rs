//! Prints what a server offers, and calls one of its tools if asked to:
//!
//! ```text
//! cargo run -p sparring-client --example tools -- https://example.test/mcp
//! cargo run -p sparring-client --example tools -- some-server --stdio
//! CALL=echo ARGUMENTS='{"message":"hi"}' cargo run -p sparring-client --example tools -- some-server --stdio
//! ```

use sparring_client::{Client, Error, HttpTarget, Settings, StdioTarget, Target};
use std::io::Write as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let Some(first) = words.next() else {
        return Err(Error::Refused("give a URL, or a command with its arguments".into()));
    };
    let target = match first.contains("://") {
        true => Target::Http(HttpTarget::new(first)),
        false => Target::Stdio(StdioTarget::new(first, words)),
    };
    let mut out = Out(std::io::stdout());
    let connection = Client::new(Settings::default()).connect("server", &target).await?;
    if let Some(negotiated) = connection.negotiated() {
        out.line(format_args!("speaks {}: {}", negotiated.revision, negotiated.server_info));
    }
    for tool in connection.tools().await?.iter() {
        out.line(format_args!("- {}", tool.key));
    }
    if let Ok(name) = std::env::var("CALL") {
        let arguments = std::env::var("ARGUMENTS").unwrap_or_else(|_| "{}".to_owned());
        let arguments = serde_json::from_str(&arguments)
            .map_err(|error| Error::Refused(format!("ARGUMENTS is no JSON object: {error}")))?;
        let result = connection.call(&name, arguments).await?;
        out.line(format_args!("{}: {}", if result.is_error() { "failed" } else { "done" }, result.text()));
    }
    connection.close().await;
    Ok(())
}

struct Out(std::io::Stdout);

impl Out {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Whoever reads it may have seen enough.
        drop(writeln!(self.0, "{line}"));
    }
}
