//! Handles a clock that was set back. A part of [`decide`](super::decide).
//!
//! Follows the rules of cronie: a schedule that is ahead of the clock continues from the clock at once, so its next
//! real moment fires. A recorded moment fires again, except if the clock was set back by less than three hours and
//! the schedule names times of day: then it ran a short time ago. See `docs/schedules.md`.

use super::{
    decide::{Decider, MAX_MOMENTS},
    occurrence::Fate,
    occurrence_decision::ON_TIME,
    times::utc,
};
use crate::{Engine, Entity as _, Error, HOUR, Origin, ScheduleStatus, Times};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use store::Timestamp;

/// A clock that was set back by more than this was wrong before; a smaller step is an adjustment.
const ADJUSTMENT: Duration = HOUR.saturating_mul(3);

/// The clock was set back: future moments may have rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetBack {
    /// No moment after this one had been processed.
    pub until: Timestamp,
    /// Recorded moments after this one fire again.
    pub anew_after: Timestamp,
}

/// The recorded future moments, each with the next free moment; `None` for a moment without a row.
pub(crate) type Recorded = BTreeMap<Timestamp, Option<Timestamp>>;

impl ScheduleStatus {
    /// Returns how far the latest recorded moment is ahead of the clock, if it is more than clocks of servers may
    /// differ. Then the clock was set back.
    #[must_use]
    pub fn ahead_of(&self, now: Timestamp) -> Option<Duration> {
        let latest = self.set_back.map_or(self.done, |back| back.until.max(self.done));
        Some(latest.since(now)).filter(|ahead| *ahead > ON_TIME)
    }

    /// Returns the moment after which the schedule fires next, at the time `now`.
    #[must_use]
    pub fn fires_after(&self, now: Timestamp) -> Timestamp {
        if self.done.since(now) > ON_TIME {
            return now;
        }
        let passed_over = self.set_back.map(|back| back.anew_after).unwrap_or_default();
        now.max(self.done).max(passed_over)
    }
}

/// Returns the due moments that may have rows. The next decision needs these rows.
pub(crate) fn recorded_moments(standing: &ScheduleStatus, times: &Times, now: Timestamp) -> Vec<Timestamp> {
    let Some(back) = standing.set_back else { return Vec::new() };
    let first = times.next_after(standing.done);
    let all = std::iter::successors(first, |last| times.next_after(*last));
    all.take_while(|at| *at <= now.min(back.until)).take(MAX_MOMENTS).collect()
}

/// How to handle a due moment.
pub(super) enum Arrival {
    /// Process it, under this moment.
    Taken(Timestamp),
    /// It has a row, and does not fire again.
    PassedOver,
    /// The row must be read first.
    Unknown,
}

impl Decider<'_> {
    /// Continues from the clock if the schedule is ahead of it.
    pub(super) fn follow_clock(&mut self) {
        let (now, ahead) = (self.facts.now, self.status.done);
        let by = ahead.since(now);
        if by <= ON_TIME {
            return;
        }
        let before = self.status.set_back;
        let anew = by > ADJUSTMENT || self.facts.times.is_interval();
        let passed_over = before.map_or(ahead, |before| before.anew_after.max(ahead));
        let anew_after = if anew { now } else { passed_over };
        let until = before.map_or(ahead, |before| before.until.max(ahead));
        self.status.set_back = Some(SetBack { until, anew_after });
        self.status.done = now;
        for waiting in std::mem::take(&mut self.status.waiting) {
            if waiting.origin != Origin::Clock {
                let due = Some(waiting.due().min(now));
                self.status.waiting.push(crate::Occurrence { due, ..waiting });
            } else if waiting.nominal > anew_after {
                let reason = format!("the clock was set back to {}; the moment comes again", utc(now));
                self.close_occurrence(waiting, Fate::Skipped, reason);
            } else {
                self.status.waiting.push(waiting);
            }
        }
        for backfill in &mut self.status.backfills {
            backfill.to = backfill.to.min(now);
        }
        if let Some(span) = &mut self.status.catching_up {
            span.to = span.to.min(now);
        }
    }

    /// Returns how to handle a moment, which may have a row from before the clock was set back.
    pub(super) fn arrival(&self, nominal: Timestamp) -> Arrival {
        let Some(back) = self.status.set_back.filter(|back| nominal <= back.until) else {
            return Arrival::Taken(nominal);
        };
        match self.facts.recorded.get(&nominal) {
            None => Arrival::Unknown,
            Some(None) => Arrival::Taken(nominal),
            // A late moment was processed when the clock first showed its time.
            Some(Some(_)) if nominal <= back.anew_after || self.facts.now.since(nominal) >= ON_TIME => {
                Arrival::PassedOver
            }
            Some(Some(free)) => Arrival::Taken(*free),
        }
    }

    /// Ends the handling once the clock has caught up.
    pub(super) fn forget_set_back(&mut self) {
        let now = self.facts.now;
        self.status.set_back = self.status.set_back.filter(|back| back.until > now);
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the latest recorded moment of a schedule that is past.
    pub(crate) async fn last_time(&self, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        let (mut last, mut after) = (None, None::<String>);
        loop {
            let collection = ScheduleStatus::COLLECTION;
            let found = self.inner.store.documents(collection, "", after.as_deref(), 500).await?;
            let read = |body: &[u8]| serde_json::from_slice::<ScheduleStatus>(body).ok();
            let done =
                found.items.iter().filter_map(|document| read(&document.body)).map(|status| status.done);
            last = done.filter(|done| *done <= now && done.0 > 0).chain(last).max();
            after = found.next;
            if after.is_none() {
                return Ok(last);
            }
        }
    }
}
