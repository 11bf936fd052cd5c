//! Clients in this process: the trait that `cargo test` users implement, and its driver.

use crate::dialect;
use crate::driver::{CaseContext, Driver, DriverError, Hello, Subject, Target};
use async_trait::async_trait;
use serde_json::{Value, json};
use sparring_scenarios::op::{self, Op};
use sparring_wire::transcript::{Failure, Outcome};
use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::sync::Arc;
use tokio::sync::{Mutex, watch};

/// What an operation of a [`Client`] returns: the value that the driver protocol describes, or how it failed.
pub type Returned = Result<Value, Failure>;

/// A client that a Rust program brings to the harness. One is made for each case; its methods may overlap.
///
/// Implement what the client has and name it in [`Client::hello`]; everything else is never asked for. The values are
/// those of the driver protocol (`docs/driver-protocol.md`).
#[async_trait]
pub trait Client: Send + Sync + 'static {
    /// Who the client is, and what it can do.
    fn hello() -> Hello
    where
        Self: Sized;

    /// Makes a client for one case.
    fn new(case: &CaseContext) -> Self
    where
        Self: Sized;

    /// Connects to the servers: handshake included. Returns `{"servers": {name: {"ok": true, …}}}`.
    async fn open(&self, servers: BTreeMap<String, Target>, options: &op::Open) -> Returned;

    /// Lists the tools. Returns `{"tools": [{"name", "server", "rawName", …}]}`.
    async fn tools(&self, of: &op::Of) -> Returned;

    /// Calls a tool and returns its result. A call that the harness cancels is dropped, as Rust futures are.
    async fn call(&self, call: &op::Call) -> Returned;

    /// Closes the connections; child processes are gone when it returns.
    async fn close(&self, of: &op::Of) -> Returned;

    /// Any other operation that [`Client::hello`] names.
    async fn other(&self, op: &Op) -> Option<Returned> {
        let _ = op;
        None
    }
}

/// The driver over a [`Client`].
pub struct InProcess<C>(PhantomData<fn() -> C>);

impl<C> Default for InProcess<C> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

#[async_trait]
impl<C: Client> Driver for InProcess<C> {
    fn kind(&self) -> &'static str {
        "in-process"
    }

    fn command(&self) -> Vec<String> {
        Vec::new()
    }

    async fn hello(&self) -> Result<Hello, DriverError> {
        Ok(C::hello())
    }

    async fn start(&self, case: CaseContext) -> Result<Arc<dyn Subject>, DriverError> {
        Ok(Arc::new(Running { client: C::new(&case), targets: case.targets, cancels: Mutex::default() }))
    }
}

struct Running<C> {
    client: C,
    targets: BTreeMap<String, Target>,
    /// How to cancel the calls that run, by step.
    cancels: Mutex<HashMap<String, watch::Sender<bool>>>,
}

#[async_trait]
impl<C: Client> Subject for Running<C> {
    async fn run(&self, step: &str, op: &Op) -> Result<Outcome, DriverError> {
        let returned = match op {
            Op::Open(options) => {
                let targets = dialect::chosen(&options.servers, &options.entries, &self.targets)
                    .map(|(name, target)| (name.clone(), target.clone()))
                    .collect();
                self.client.open(targets, options).await
            }
            Op::Tools(of) => self.client.tools(of).await,
            Op::Close(of) => self.client.close(of).await,
            Op::Call(call) => {
                let (cancel, mut cancelled) = watch::channel(false);
                self.cancels.lock().await.insert(step.to_owned(), cancel);
                let returned = tokio::select! {
                    returned = self.client.call(call) => returned,
                    _ = cancelled.wait_for(|c| *c) => Err(Failure::new(
                        sparring_wire::transcript::FailureKind::Cancelled,
                        "the future of the call was dropped",
                    )),
                };
                self.cancels.lock().await.remove(step);
                returned
            }
            Op::Cancel(cancel) => {
                if let Some(sender) = self.cancels.lock().await.get(&cancel.step) {
                    // No receiver means that the call ended in this very moment.
                    let _ = sender.send(true);
                }
                Ok(json!({}))
            }
            other => match self.client.other(other).await {
                Some(returned) => returned,
                None => {
                    return Ok(Outcome::Unsupported {
                        reason: format!("the client does not implement `{}`", other.name()),
                    });
                }
            },
        };
        Ok(match returned {
            Ok(value) => Outcome::Ok { value },
            Err(error) => Outcome::Error { error },
        })
    }

    async fn stop(&self) -> Vec<(u32, String)> {
        Vec::new()
    }
}
