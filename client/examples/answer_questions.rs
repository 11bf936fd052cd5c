//! Calls a tool that reports progress and may ask something, and gives up after a while.
//!
//! ```text
//! cargo run -p sparring-client --example answer_questions -- TOOL PROGRAM [ARGUMENT…]
//! ```
//!
//! Without arguments it does nothing.

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use async_trait::async_trait;
use sparring_client::core::{ElicitAnswer, Elicitation, RpcError};
use sparring_client::{
    CallOptions, Callbacks, CancelSwitch, Client, Declared, ElicitationCapability, Settings, StdioTarget,
    Target,
};
use std::sync::Arc;
use std::time::Duration;

/// Fills in forms with their defaults.
struct Defaults;

#[async_trait]
impl Callbacks for Defaults {
    async fn elicit(&self, server: &str, request: Elicitation) -> Result<ElicitAnswer, RpcError> {
        println!("{server} asks: {}", request.message);
        Ok(ElicitAnswer::Accept(request.defaults()))
    }
}

#[tokio::main]
async fn main() -> Result<(), sparring_client::Error> {
    let mut words = std::env::args().skip(1);
    let (Some(tool), Some(program)) = (words.next(), words.next()) else { return Ok(()) };
    let declare = Declared {
        elicitation: Some(ElicitationCapability { form: true, url: false }),
        ..Declared::default()
    };
    let settings = Settings { declare, ..Settings::default() };
    let client = Client::builder(settings).callbacks(Arc::new(Defaults)).build();
    let connection = client.connect("server", &Target::Stdio(StdioTarget::new(program, words))).await?;
    let switch = CancelSwitch::default();
    let options = CallOptions {
        progress: Some(Arc::new(|progress| println!("{} of {:?}", progress.progress, progress.total))),
        cancel: Some(switch.clone()),
        ..CallOptions::default()
    };
    let call = connection.call_with(&tool, Default::default(), options);
    tokio::pin!(call);
    let result = tokio::select! {
        result = &mut call => result,
        () = tokio::time::sleep(Duration::from_secs(10)) => {
            // The server is told, and the call ends with `Error::Cancelled`.
            switch.throw("it takes too long");
            call.await
        }
    };
    match result {
        Ok(result) => println!("{}", result.text()),
        Err(error) => println!("no result: {error}"),
    }
    connection.close().await;
    Ok(())
}
