//! A small MCP client, as somebody might have it in their program: stdio only, tools only. Its conformance test is
//! `tests/conformance.rs`, five lines.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::oneshot;

/// The revisions it speaks, newest last.
pub const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the server may take to leave after its stdin was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// Why a request failed.
#[derive(Debug)]
pub enum Error {
    /// The server could not be started.
    Start(io::Error),
    /// The server answered with an error: code and message.
    Server(i64, String),
    /// No answer in time.
    Timeout,
    /// The server is gone.
    Closed,
    /// The server speaks a revision that this client does not.
    Revision(String),
    /// The server has no tools.
    NoTools,
    /// The server's answer is no result of a tool.
    Nonsense,
}

type Waiting = Arc<Mutex<Option<HashMap<i64, oneshot::Sender<Value>>>>>;

/// A connection to one server.
pub struct Connection {
    child: tokio::sync::Mutex<Child>,
    stdin: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    /// Who waits for which answer; `None` when the server is gone.
    waiting: Waiting,
    next: std::sync::atomic::AtomicI64,
    /// The result of `initialize`.
    pub server: Value,
}

impl Connection {
    /// Starts the server and shakes hands.
    ///
    /// # Errors
    /// The server can't be started, does not answer, or speaks another revision.
    pub async fn open(command: &str, args: &[String]) -> Result<Self, Error> {
        let mut child = Command::new(command)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(Error::Start)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Closed);
        };
        let stdin = Arc::new(tokio::sync::Mutex::new(Some(stdin)));
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(read(BufReader::new(stdout), Arc::clone(&waiting), Arc::clone(&stdin)));
        let mut connection = Self {
            child: tokio::sync::Mutex::new(child),
            stdin,
            waiting,
            next: 1.into(),
            server: Value::Null,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "own-client", "version": "0.1.0" },
        });
        match connection.request("initialize", hello).await {
            Ok(server) if server["protocolVersion"].as_str().is_some_and(|v| REVISIONS.contains(&v)) => {
                connection.server = server;
                connection.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
                Ok(connection)
            }
            Ok(server) => {
                connection.close().await;
                Err(Error::Revision(server["protocolVersion"].to_string()))
            }
            Err(error) => {
                connection.close().await;
                Err(error)
            }
        }
    }

    /// All tools, page by page.
    ///
    /// # Errors
    /// As of [`Connection::request`].
    pub async fn tools(&self) -> Result<Vec<Value>, Error> {
        if self.server["capabilities"].get("tools").is_none() {
            return Err(Error::NoTools);
        }
        let mut tools = Vec::new();
        let mut seen: Vec<Value> = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.request("tools/list", params).await?;
            tools.extend(page["tools"].as_array().cloned().unwrap_or_default());
            match page.get("nextCursor") {
                // A server that names a cursor twice would keep us for ever.
                Some(cursor) if !cursor.is_null() && !seen.contains(cursor) => {
                    seen.push(cursor.clone());
                    params = json!({ "cursor": cursor });
                }
                _ => return Ok(tools),
            }
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// As of [`Connection::request`].
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Error> {
        if self.server["capabilities"].get("tools").is_none() {
            return Err(Error::NoTools);
        }
        let result = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await?;
        if result["content"].is_array() { Ok(result) } else { Err(Error::Nonsense) }
    }

    /// Sends a request and waits for its answer. One that is not answered in time is cancelled.
    ///
    /// # Errors
    /// The server answers with an error, not in time, or is gone.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, Error> {
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        match self.waiting.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err(Error::Closed),
        };
        let _guard = Forget { waiting: &self.waiting, id };
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        let Ok(answer) = tokio::time::timeout(PATIENCE, receiver).await else {
            if method != "initialize" {
                let params = json!({ "requestId": id, "reason": "no answer in time" });
                self.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
                    .await?;
            }
            return Err(Error::Timeout);
        };
        let mut answer = answer.map_err(|_| Error::Closed)?;
        match answer.get("error") {
            Some(error) => Err(Error::Server(
                error["code"].as_i64().unwrap_or_default(),
                error["message"].as_str().unwrap_or_default().to_owned(),
            )),
            None => Ok(answer["result"].take()),
        }
    }

    /// Closes stdin and sees the server off; by force, if it does not go.
    pub async fn close(&self) {
        self.stdin.lock().await.take();
        let mut child = self.child.lock().await;
        if tokio::time::timeout(GRACE, child.wait()).await.is_ok() {
            return;
        }
        if let Some(pid) = child.id() {
            // The standard library has no SIGTERM.
            let _ = Command::new("kill").arg(pid.to_string()).status().await;
        }
        if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
            // It may have ended by itself since.
            let _ = child.kill().await;
        }
    }

    async fn send(&self, message: Value) -> Result<(), Error> {
        write(&self.stdin, &message).await
    }
}

/// Nobody waits for this answer any more, however the request ended.
struct Forget<'a> {
    waiting: &'a Waiting,
    id: i64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            waiting.remove(&self.id);
        }
    }
}

async fn write(stdin: &tokio::sync::Mutex<Option<ChildStdin>>, message: &Value) -> Result<(), Error> {
    let mut line = message.to_string();
    line.push('\n');
    match stdin.lock().await.as_mut() {
        Some(stdin) => stdin.write_all(line.as_bytes()).await.map_err(|_| Error::Closed),
        None => Err(Error::Closed),
    }
}

/// Reads the server's lines: answers go to those who wait, requests are answered here.
async fn read(
    mut lines: BufReader<tokio::process::ChildStdout>,
    waiting: Waiting,
    stdin: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
) {
    let mut line = Vec::new();
    while matches!(lines.read_until(b'\n', &mut line).await, Ok(n) if n > 0) {
        // What is no JSON is noise; servers print such things.
        let read: Value = serde_json::from_slice(&line).unwrap_or_default();
        line.clear();
        let batch = match read {
            Value::Array(messages) => messages,
            message => vec![message],
        };
        for message in batch {
            match (message.get("method").and_then(Value::as_str), message.get("id")) {
                (Some("ping"), Some(id)) => {
                    let _ = write(&stdin, &json!({ "jsonrpc": "2.0", "id": id, "result": {} })).await;
                }
                (Some(method), Some(id)) => {
                    let error = json!({ "code": -32601, "message": format!("no {method} here") });
                    let _ = write(&stdin, &json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
                }
                (None, Some(id)) => {
                    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    let waiter = waiting.as_mut().zip(id.as_i64()).and_then(|(w, id)| w.remove(&id));
                    if let Some(waiter) = waiter {
                        // Whoever asked may have left in this very moment.
                        let _ = waiter.send(message);
                    }
                }
                _ => {}
            }
        }
    }
    // Dropping the senders tells everybody who waits.
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
}
