//! The child's end of the side channel.

use super::{Asked, Config, Done, Hello, Reporter, Welcome};
use crate::platform;
use serde::Serialize;
use sparring_wire::transcript::What;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Enough for a thread that reads and calls nothing deep.
pub(super) const STACK: usize = 256 << 10;

/// Reports beyond this many bytes are not gathered any further before they are written.
const BLOCK: usize = 64 << 10;

/// What a child reports with; all threads share it. Reports are written by the thread that has something to report:
/// handing them to another thread would cost more than the write does.
pub(super) struct Reports(Mutex<Gathered>);

struct Gathered {
    to: Box<dyn Write + Send>,
    bytes: Vec<u8>,
}

/// [`super::Report`], borrowed.
#[derive(Serialize)]
struct Report<'a> {
    at: u64,
    what: &'a What,
}

impl Reports {
    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports something at once.
    pub(super) fn send(&self, what: What) {
        self.report(platform::monotonic_us(), what);
        self.flush();
    }

    /// Says that something was done that the harness had asked for.
    pub(super) fn done(&self, id: u64) {
        let mut gathered = self.gathered();
        gathered.line(&Done { done: id });
        gathered.write();
    }
}

impl Reporter for Reports {
    fn report(&self, at: u64, what: What) {
        let mut gathered = self.gathered();
        gathered.line(&Report { at, what: &what });
        if gathered.bytes.len() > BLOCK {
            gathered.write();
        }
    }

    /// When this returns the harness can read what was reported, whatever happens to this process.
    fn flush(&self) {
        self.gathered().write();
    }

    fn settle(&self) {
        self.flush();
    }
}

impl Gathered {
    fn line(&mut self, value: &impl Serialize) {
        if serde_json::to_writer(&mut self.bytes, value).is_ok() {
            self.bytes.push(b'\n');
        }
    }

    fn write(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        if self.to.write_all(&self.bytes).is_err() {
            platform::end_at_once();
        }
        self.bytes.clear();
        // One long line must not be paid for ever after.
        self.bytes.shrink_to(BLOCK);
    }
}

/// Connects, says hello and waits for the welcome. From then on this process ends as soon as the side channel does, and
/// what the harness asks for goes to `asked`. `of` is the incarnation that this process belongs to, if it is not one of
/// its own.
pub(super) fn connect(
    config: &Config,
    of: Option<u32>,
    asked: Option<Sender<Asked>>,
) -> io::Result<(Reports, u32)> {
    let (reader, mut writer) = reach(config)?;
    let hello = Hello {
        token: config.token.clone(),
        pid: std::process::id(),
        grandchild_of: of,
        // Nobody asks another grandchild for anything.
        launched: of.is_some() && asked.is_some(),
    };
    let mut line = serde_json::to_vec(&hello)?;
    line.push(b'\n');
    writer.write_all(&line)?;
    let mut reader = BufReader::with_capacity(256, reader);
    let mut answer = String::new();
    reader.read_line(&mut answer)?;
    let welcome: Welcome = serde_json::from_str(&answer)?;
    Builder::new().name("harness".into()).stack_size(STACK).spawn(move || {
        let mut line = String::new();
        while matches!(reader.read_line(&mut line), Ok(1..)) {
            if let (Some(asked), Ok(wanted)) = (&asked, serde_json::from_str(&line)) {
                let _ = asked.send(wanted);
            }
            line.clear();
        }
        platform::end_at_once();
    })?;
    Ok((Reports(Mutex::new(Gathered { to: writer, bytes: Vec::new() })), welcome.incarnation))
}

/// The way to the harness: the socket, or TCP where there is none or something keeps the client from it.
fn reach(config: &Config) -> io::Result<platform::Ends> {
    if let Some(Ok(ends)) = config.socket.as_deref().map(platform::connect_to_socket) {
        return Ok(ends);
    }
    let ip = config.address.ip();
    if ip != Ipv4Addr::LOCALHOST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the side channel is not on loopback"));
    }
    let stream = TcpStream::connect(SocketAddr::new(ip, config.address.port()))?;
    stream.set_nodelay(true)?;
    Ok((Box::new(stream.try_clone()?), Box::new(stream)))
}
