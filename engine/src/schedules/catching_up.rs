//! Processes old moments without delaying the current one. A part of [`decide`](super::decide).
//!
//! After a long downtime the late moments are set aside as a span. Each decision first processes the moments that are
//! on time, and then a part of the span, oldest first. Invariant: a moment is in the span or after
//! [`Standing::done`](crate::Standing::done), or it has a row.

use super::{
    decide::{Decider, MAX_MOMENTS},
    occurrence_decision::ON_TIME,
};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// Late moments that are not recorded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatchingUp {
    /// Every moment up to here has a row.
    pub done: Timestamp,
    /// The end of the span.
    pub to: Timestamp,
}

impl CatchingUp {
    /// Returns true if the moment is not recorded yet.
    pub(super) fn has(self, moment: Timestamp) -> bool {
        self.done < moment && moment <= self.to
    }
}

impl Decider<'_> {
    /// Sets late moments aside if there are more than one decision processes.
    pub(super) fn set_aside(&mut self) {
        let (done, times) = (self.status.done, self.facts.times);
        let to = Timestamp(
            self.facts.now.0.saturating_sub(u64::try_from(ON_TIME.as_millis()).unwrap_or(u64::MAX)),
        );
        if done >= to || self.status.catching_up.is_some() || self.status.set_back.is_some() {
            return;
        }
        let all = std::iter::successors(times.next_after(done), |last| times.next_after(*last));
        if all.take_while(|moment| *moment <= to).nth(MAX_MOMENTS).is_some() {
            self.status.catching_up = Some(CatchingUp { done, to });
            self.status.done = to;
        }
    }

    /// Processes a part of the span.
    pub(super) fn catch_up(&mut self) {
        let Some(mut span) = self.status.catching_up else { return };
        // The last processed moment on time does not precede these.
        self.late = None;
        for _ in 0..MAX_MOMENTS.saturating_sub(self.rows.len()) {
            if self.start.is_some() {
                break;
            }
            let next = self.facts.times.next_after(span.done).filter(|next| *next <= span.to);
            let Some(nominal) = next else {
                self.status.catching_up = None;
                return;
            };
            span.done = nominal;
            self.take_up(nominal, self.facts.schedule.due(nominal));
        }
        self.status.catching_up = Some(span);
    }
}
