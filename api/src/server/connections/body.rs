//! Request bodies with timeouts, and answer bodies that report their end.

use super::timed::Phase;
use crate::state::{
    SharedState,
    connections::{self, BodyTimeout},
};
use axum::BoxError;
use hyper::body::{Body, Buf as _, Bytes, Frame, Incoming, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// A request body gets one more second for this many bytes.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// The body of a request. Its deadline starts with the first read, and moves by one second for every 64 KiB received: a long body over a slow line succeeds,
/// and a body that trickles in fails.
pub(super) struct TimedBody {
    body: Incoming,
    within: Duration,
    app: SharedState,
    begun: Option<Instant>,
    came: u64,
    late: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    pub(super) fn new(body: Incoming, within: Duration, app: SharedState) -> Self {
        Self { body, within, app, begun: None, came: 0, late: None }
    }

    fn due(&mut self) -> Instant {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        begun + self.within + Duration::from_secs(self.came / BYTES_PER_SECOND)
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let due = self.due();
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, |data| data.remaining());
                self.came = self.came.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(ended) => Poll::Ready(ended.map(|frame| frame.map_err(Into::into))),
            Poll::Pending => {
                let late = self.late.get_or_insert_with(|| Box::pin(sleep_until(due)));
                if late.deadline() != due {
                    late.as_mut().reset(due);
                }
                if late.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.app.edge.was_slow(connections::BODY);
                Poll::Ready(Some(Err(BodyTimeout.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer; dropping it marks the answer as ended.
pub(super) struct ResponseBody {
    body: axum::body::Body,
    phase: Phase,
}

impl ResponseBody {
    pub(super) fn new(body: axum::body::Body, phase: Phase) -> Self {
        Self { body, phase }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.phase.answered();
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
