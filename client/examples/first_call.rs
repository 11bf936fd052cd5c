//! Connects to a server, lists its tools, and calls one.
//!
//! ```text
//! cargo run -p sparring-client --example first_call -- server-everything stdio
//! ```
//!
//! Without arguments it does nothing.

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use serde_json::{Map, Value};
use sparring_client::{Client, Settings, StdioTarget, Target};

#[tokio::main]
async fn main() -> Result<(), sparring_client::Error> {
    let mut words = std::env::args().skip(1);
    let Some(program) = words.next() else { return Ok(()) };
    let client = Client::new(Settings::default());
    let target = Target::Stdio(StdioTarget::new(program, words));
    let connection = client.connect("server", &target).await?;
    if let Some(negotiated) = connection.negotiated() {
        println!("{} at revision {}", negotiated.server_info, negotiated.revision);
    }
    let tools = connection.tools().await?;
    for tool in tools.iter() {
        println!("{}", tool.key);
    }
    if let Some(first) = tools.first() {
        let arguments = Map::from_iter([("message".to_owned(), Value::from("hello"))]);
        // What the tool reports as its own failure is a result.
        let result = connection.call(&first.key, arguments).await?;
        println!("{}: {}", if result.is_error() { "failed" } else { "said" }, result.text());
    }
    // Waits until the server is gone; dropping the connection would close it in the background.
    connection.close().await;
    Ok(())
}
