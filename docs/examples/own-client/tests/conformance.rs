//! The client under `cargo test`: `main` is all it takes, beside an implementation of [`sparring::Client`].

use async_trait::async_trait;
use own_client::{Connection, Error, REVISIONS};
use serde_json::{Value, json};
use sparring::driver::{CaseContext, Hello, Target};
use sparring::in_process::Returned;
use sparring::op;
use sparring::{Failure, FailureKind};
use std::collections::BTreeMap;
use std::process::ExitCode;
use tokio::sync::RwLock;

fn main() -> ExitCode {
    sparring::cargo_test::<OwnClient>(&sparring::Settings::default())
}

#[derive(Default)]
struct OwnClient(RwLock<Option<Connection>>);

#[async_trait]
impl sparring::Client for OwnClient {
    fn hello() -> Hello {
        Hello {
            name: "own-client".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            operations: ["open", "tools", "call", "close"].map(Into::into).into(),
            transports: vec![sparring::Transport::Stdio],
            revisions: REVISIONS.iter().filter_map(|r| r.parse().ok()).collect(),
            ..Hello::default()
        }
    }

    fn new(_: &CaseContext) -> Self {
        Self::default()
    }

    async fn open(&self, servers: BTreeMap<String, Target>, _: &op::Open) -> Returned {
        let Some((name, Target::Stdio { command, args, .. })) = servers.into_iter().next() else {
            return Err(Failure::new(FailureKind::Refused, "only stdio"));
        };
        let connection = Connection::open(&command, &args).await.map_err(failure)?;
        let mut opened = connection.server.clone();
        opened["ok"] = true.into();
        *self.0.write().await = Some(connection);
        Ok(json!({ "servers": { name: opened } }))
    }

    async fn tools(&self, _: &op::Of) -> Returned {
        let connection = self.0.read().await;
        let tools = connection.as_ref().ok_or_else(closed)?.tools().await.map_err(failure)?;
        let tools: Vec<Value> = tools
            .into_iter()
            .map(|mut tool| {
                tool["rawName"] = tool["name"].clone();
                tool
            })
            .collect();
        Ok(json!({ "tools": tools }))
    }

    async fn call(&self, call: &op::Call) -> Returned {
        let connection = self.0.read().await;
        let arguments = call.arguments.clone().map_or_else(|| json!({}), |a| a.0);
        connection.as_ref().ok_or_else(closed)?.call(&call.tool, arguments).await.map_err(failure)
    }

    async fn close(&self, _: &op::Of) -> Returned {
        if let Some(connection) = self.0.write().await.take() {
            connection.close().await;
        }
        Ok(json!({}))
    }
}

fn closed() -> Failure {
    Failure::new(FailureKind::Closed, "not connected")
}

fn failure(error: Error) -> Failure {
    let text = format!("{error:?}");
    match error {
        Error::Start(_) => Failure::new(FailureKind::Start, text),
        Error::Server(code, message) => Failure { kind: FailureKind::Protocol, message, code: Some(code) },
        Error::Timeout => Failure::new(FailureKind::Timeout, text),
        Error::Closed => Failure::new(FailureKind::Closed, text),
        Error::Revision(_) | Error::Nonsense => Failure::new(FailureKind::Invalid, text),
        Error::NoTools => Failure::new(FailureKind::Refused, text),
    }
}
