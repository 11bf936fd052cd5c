//! The reference client of Sparring: an MCP client and host that others measure themselves against.
//!
//! It keeps every MUST and SHOULD that a client can keep, for all five revisions, over stdio and
//! Streamable HTTP. It shares no code with any SDK.
//!
//! - [`Client`] makes [`Connection`]s to single servers. What a host does with several of them is the crate `sparring-host`.
//! - [`Settings`] has all choices; the defaults are the conforming ones.
//! - [`core`] is the protocol without I/O: messages and the time go in, actions come out.
//! - The traits are seams: [`Launcher`] and [`ServerProcess`] (processes), [`HttpClient`] (all HTTP, OAuth
//!   included), [`MessageFilter`] (each message), [`ListPolicy`], [`Entropy`], [`Browser`],
//!   [`CredentialStore`], [`Callbacks`]. Each has a default implementation, and can be wrapped.
//!
//! ```no_run
//! # async fn run() -> Result<(), sparring_client::Error> {
//! use sparring_client::{Client, Settings, StdioTarget, Target};
//!
//! let client = Client::new(Settings::default());
//! let target = Target::Stdio(StdioTarget::new("some-server", ["--stdio"]));
//! let connection = client.connect("files", &target).await?;
//! for tool in connection.tools().await?.iter() {
//!     let result = connection.call(&tool.key, Default::default()).await?;
//!     assert!(!result.is_error());
//! }
//! connection.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! What is spoken with a server is found out by itself: the stateless revision if the server knows it, otherwise the
//! newest that both know. What only some revisions have is the same to the caller in all of them, or an
//! [`Error::Refused`] that says so:
//!
//! ```no_run
//! # async fn run(connection: sparring_client::Connection) -> Result<(), sparring_client::Error> {
//! use sparring_client::Event;
//!
//! // A subscription of its own, or one of the session's.
//! connection.subscribe("file:///notes.md").await?;
//! let mut events = connection.events();
//! while let Some(event) = events.next().await {
//!     match event {
//!         Event::ResourceUpdated { uri } => drop(connection.read(&uri).await?),
//!         // A call goes on as a task; with its id it can be followed from elsewhere.
//!         Event::Task { id, status, .. } => drop((id, status)),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod cached;
mod client;
mod completion;
mod connection;
pub mod core;
mod engine;
mod eras;
mod error;
pub mod http;
mod link;
pub mod oauth;
mod platform;
mod raw;
mod result;
pub mod schema;
mod seams;
mod settings;
pub mod stdio;
mod subscription;

pub use client::{Client, ClientBuilder, Target};
pub use completion::CompletionRef;
pub use connection::{Call, CallOptions, CancelSwitch, Canceller, Connection, Entry, Events};
pub use core::{
    ElicitAnswer, Elicitation, Event, Filter, ListKind, Negotiated, Progress, RequestOptions, RpcError,
    Sampling,
};
pub use engine::ProgressCallback;
pub use eras::Eras;
pub use error::Error;
pub use http::{HttpClient, HttpTarget};
pub use oauth::{Browser, CredentialStore, NeedsLogin};
pub use raw::Raw;
pub use result::CallResult;
pub use seams::{
    Callbacks, Entropy, FollowCursors, ListPolicy, MessageFilter, NextPage, NoCallbacks, SystemEntropy,
};
pub use settings::*;
pub use stdio::{Launcher, ServerProcess, StdioTarget};
pub use subscription::Subscription;
