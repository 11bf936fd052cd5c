//! Calls a tool that changes what its server has, and waits until the new list of tools is there.
//!
//! ```text
//! cargo run -p sparring-client --example follow_changes -- TOOL URL
//! cargo run -p sparring-client --example follow_changes -- TOOL PROGRAM [ARGUMENT…]
//! ```
//!
//! Without arguments it does nothing.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

use sparring_client::core::Event;
use sparring_client::{Client, HttpTarget, ListKind, Settings, StdioTarget, Target};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(tool), Some(server)) = (words.next(), words.next()) else { return Ok(()) };
    let target = if server.starts_with("http") {
        Target::Http(HttpTarget::new(server))
    } else {
        // A whole environment would be `EnvPolicy::All`; a minimal one goes without saying.
        Target::Stdio(StdioTarget::new(server, words))
    };
    let client = Client::new(Settings::default());
    let connection = client.connect("server", &target).await?;
    // Listeners hear what comes after they began to listen.
    let mut events = connection.events();
    let before = connection.tools().await?.len();
    let result = connection.call(&tool, Default::default()).await?;
    println!("{}", result.text());
    // A list that was read is read again by itself when the server says that it has changed.
    while let Some(event) = events.next().await {
        if let Event::Refetched { kind: ListKind::Tools, outcome } = event {
            println!("{before} tools before, {} now", outcome?);
            break;
        }
    }
    connection.close().await;
    Ok(())
}
