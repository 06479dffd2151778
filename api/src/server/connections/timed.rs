//! A connection with timeouts for request heads and for writes.

use super::Limits;
use crate::state::{SharedState, connections};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// True while a request is being answered: from its head to the end of its answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase(Arc<AtomicBool>);

impl Phase {
    /// Records that a head was read.
    pub(super) fn answering(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Records that the answer has ended.
    pub(super) fn answered(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_answering(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A connection with timeouts.
pub(super) struct TimedConnection<Io> {
    io: Io,
    phase: Phase,
    limits: Limits,
    app: SharedState,
    /// The deadline of the head that is being read. For the first request it starts with the connection.
    head: Option<Pin<Box<Sleep>>>,
    /// The deadline for progress of the pending write.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<Io> TimedConnection<Io> {
    pub(super) fn new(io: Io, phase: Phase, limits: Limits, app: SharedState) -> Self {
        Self { io, phase, limits, app, head: Some(Box::pin(sleep(limits.read))), stuck: None }
    }

    /// Waits for the rest of a head until its deadline.
    fn wait_for_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(head) = &mut self.head else { return Poll::Pending };
        if head.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.app.edge.was_slow(connections::HEAD);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Checks the progress of a write, which may be stuck at most for the idle timeout.
    fn progressed<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stuck = None;
            return done;
        }
        let idle: Duration = self.limits.idle;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(idle)));
        if stuck.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.app.edge.was_slow(connections::ANSWER);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for TimedConnection<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if self.phase.is_answering() {
            self.head = None;
            return read;
        }
        match read {
            Poll::Pending => self.wait_for_head(cx),
            Poll::Ready(done) => {
                if buf.filled().len() > before && self.head.is_none() {
                    self.head = Some(Box::pin(sleep(self.limits.read)));
                }
                Poll::Ready(done)
            }
        }
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for TimedConnection<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.progressed(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.progressed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.progressed(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.io).poll_shutdown(cx);
        self.progressed(cx, shut)
    }
}
