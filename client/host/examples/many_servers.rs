//! Several servers under composed names: those of a configuration file, as a host profile wants it.
//!
//! ```text
//! cargo run -p sparring-host --example many_servers -- reference .mcp.json
//! ```
//!
//! Without arguments it does nothing.

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use sparring_host::config::ConfigFiles;
use sparring_host::{Host, SessionOptions, Surroundings};
use sparring_profiles::Profile;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(profile), Some(file)) = (words.next(), words.next()) else { return Ok(()) };
    let settings = Profile::load(&profile)?.settings();
    let files = ConfigFiles::new(&settings).only(file);
    let builder = Host::builder(settings, Surroundings::of_process()?).parts(|mut parts| {
        parts.config = Arc::new(files);
        parts
    });
    // Servers that can't be started do not keep the others from working.
    let host = Host::launch(builder).await?;
    let session = host.session(SessionOptions::default()).await?;
    for tool in session.tools().await? {
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    session.close().await;
    host.close().await;
    Ok(())
}
