//! The standalone stream, and what has to wait for it.

use crate::support::{Server, settings};
use sparring_client::{Client, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

fn waiting(wait: Duration) -> Client {
    let mut settings = Settings { offer: sparring_wire::Revision::V2025_11_25, ..settings() };
    settings.http.stream_wait = wait;
    Client::new(settings)
}

#[tokio::test]
async fn requests_wait_until_the_stream_is_open() {
    let early = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&early);
    let server = Server::start(move |mut x| {
        let seen = Arc::clone(&seen);
        Box::pin(async move {
            if x.request.word() != "GET" {
                return x.good().await;
            }
            // What the server asks because of a request would get lost now.
            let list = timeout(Duration::from_millis(100), x.log.wait("POST tools/list", 1)).await;
            seen.store(list.is_ok(), Ordering::Release);
            x.open_stream(&[]).await;
            x.hang().await;
        })
    })
    .await;
    let connection = waiting(Duration::from_secs(60)).connect("s", &server.target()).await.unwrap();
    connection.tools().await.unwrap();
    assert!(!early.load(Ordering::Acquire), "a request came before the stream was open");
    assert_eq!(server.log.of("GET").len(), 1);
}

#[tokio::test]
async fn a_server_that_says_nothing_on_it_holds_nobody_up_for_long() {
    let server = Server::start(|mut x| {
        Box::pin(async move {
            match x.request.word().as_str() {
                "GET" => x.hang().await,
                _ => x.good().await,
            }
        })
    })
    .await;
    let connection = waiting(Duration::from_millis(1)).connect("s", &server.target()).await.unwrap();
    connection.tools().await.unwrap();
}
