//! Responses that are written byte by byte: a connection is taken from hyper in the middle, and given back if it is still
//! good afterwards.

use super::Piece;
use super::connection::Guard;
use crate::core::RawOut;
use bytes::{Buf, Bytes, BytesMut};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

/// What a client may send ahead while a response is written; then it is not read from any more.
const MAX_AHEAD: usize = 1 << 20;

/// Asks for a connection to be taken from hyper.
#[derive(Default)]
pub(super) struct Taking {
    taken: Mutex<Option<Taken>>,
    wanted: Notify,
}

/// What is to be written on the connection.
pub(super) struct Taken {
    first: RawOut,
    pieces: UnboundedReceiver<Piece>,
    guard: Guard,
}

impl Taking {
    /// The response of an exchange goes on with `first` and what `pieces` has.
    pub(super) fn take_over(&self, first: RawOut, pieces: UnboundedReceiver<Piece>, guard: Guard) {
        let before = self.lock().replace(Taken { first, pieces, guard });
        // Its guard must not be dropped under the lock.
        drop(before);
        self.wanted.notify_one();
    }

    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    pub(super) fn taken(&self) -> Option<Taken> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a response. Returns the connection if it is good for another request.
pub(super) async fn write(socket: Socket, read: Bytes, taken: Taken) -> Option<Socket> {
    let Taken { first, mut pieces, guard } = taken;
    let (mut stream, before) = socket.into_parts();
    let mut ahead = BytesMut::from(&*before);
    ahead.extend_from_slice(&read);
    let mut next = Some(first);
    loop {
        let out = match next.take() {
            Some(out) => out,
            None => tokio::select! {
                piece = pieces.recv() => match piece {
                    Some(Piece::Raw(out)) => out,
                    Some(Piece::Reset) => RawOut::Reset,
                    // Nothing else follows, unless the mock shuts down.
                    _ => return None,
                },
                () = gone(&stream, &mut ahead) => return None,
            },
        };
        match out {
            RawOut::Bytes(bytes) => stream.write_all(&bytes).await.ok()?,
            RawOut::Pause(time) => tokio::select! {
                () = tokio::time::sleep(time) => {}
                () = gone(&stream, &mut ahead) => return None,
            },
            RawOut::Done => {
                drop(guard);
                return Some(Socket::new(stream, ahead.freeze()));
            }
            RawOut::Close => {
                // The client may have closed it first.
                let _ = stream.shutdown().await;
                return None;
            }
            RawOut::Reset => {
                let _ = stream.set_zero_linger();
                return None;
            }
            RawOut::Stall => {
                gone(&stream, &mut ahead).await;
                return None;
            }
        }
    }
}

/// Waits until the client has closed the connection, and keeps what it sends meanwhile.
async fn gone(stream: &TcpStream, ahead: &mut BytesMut) {
    while ahead.len() < MAX_AHEAD {
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read_buf(ahead) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
    std::future::pending::<()>().await;
}

/// A connection, with what was read from it before.
pub(super) struct Socket {
    io: TokioIo<TcpStream>,
    read: Bytes,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, read: Bytes) -> Self {
        Self { io: TokioIo::new(stream), read }
    }

    fn into_parts(self) -> (TcpStream, Bytes) {
        (self.io.into_inner(), self.read)
    }
}

impl hyper::rt::Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.has_remaining() {
            let len = self.read.len().min(buffer.remaining());
            buffer.put_slice(&self.read.split_to(len));
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, buffers)
    }
}
