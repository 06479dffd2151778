//! What follows for a schedule when the clock has been set back. A part of [`decide`](super::decide).
//!
//! The rules of cronie: a schedule that stands ahead of the clock goes on from the clock at once, so that its next real moment
//! fires. A moment that is on record from the time before is taken anew, unless the clock was set back by less than three hours and the
//! schedule names times of day: then it ran a short while ago. Told in `docs/schedules.md`.

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

/// A clock that is set back by more than this was wrong before; a smaller step is an adjustment.
const ADJUSTMENT: Duration = HOUR.saturating_mul(3);

/// The clock was set back: moments that are still to come may be on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetBack {
    /// No moment after this one was looked at before.
    pub until: Timestamp,
    /// Moments after this one are taken anew if they are on record.
    pub anew_after: Timestamp,
}

/// Moments to come that are on record, each with the next free moment in its place; `None` for one that is not.
pub(crate) type Recorded = BTreeMap<Timestamp, Option<Timestamp>>;

impl ScheduleStatus {
    /// How far the latest moment on record is ahead of the clock, if it is further than servers' clocks may be apart. The clock
    /// was set back then.
    #[must_use]
    pub fn ahead_of(&self, now: Timestamp) -> Option<Duration> {
        let latest = self.set_back.map_or(self.done, |back| back.until.max(self.done));
        Some(latest.since(now)).filter(|ahead| *ahead > ON_TIME)
    }

    /// The moment after which the schedule fires next, as the clock shows `now`.
    #[must_use]
    pub fn fires_after(&self, now: Timestamp) -> Timestamp {
        if self.done.since(now) > ON_TIME {
            return now;
        }
        let passed_over = self.set_back.map(|back| back.anew_after).unwrap_or_default();
        now.max(self.done).max(passed_over)
    }
}

/// The moments that have come and may be on record: the next decision has to know them.
pub(crate) fn recorded_moments(standing: &ScheduleStatus, times: &Times, now: Timestamp) -> Vec<Timestamp> {
    let Some(back) = standing.set_back else { return Vec::new() };
    let first = times.next_after(standing.done);
    let all = std::iter::successors(first, |last| times.next_after(*last));
    all.take_while(|at| *at <= now.min(back.until)).take(MAX_MOMENTS).collect()
}

/// What becomes of a moment that has come.
pub(super) enum Arrival {
    /// It is taken up, under this moment.
    Taken(Timestamp),
    /// It is on record, and not taken anew.
    PassedOver,
    /// Whether it is on record has to be looked up first.
    Unknown,
}

impl Decider<'_> {
    /// Goes on from the clock, if the schedule stands ahead of it.
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

    /// What becomes of a moment, which may be on record from before the clock was set back.
    pub(super) fn arrival(&self, nominal: Timestamp) -> Arrival {
        let Some(back) = self.status.set_back.filter(|back| nominal <= back.until) else {
            return Arrival::Taken(nominal);
        };
        match self.facts.recorded.get(&nominal) {
            None => Arrival::Unknown,
            Some(None) => Arrival::Taken(nominal),
            // One that is late ran, or was left out, when the clock showed its time before.
            Some(Some(_)) if nominal <= back.anew_after || self.facts.now.since(nominal) >= ON_TIME => {
                Arrival::PassedOver
            }
            Some(Some(free)) => Arrival::Taken(*free),
        }
    }

    /// Forgets that the clock was set back, once it shows again what it showed before.
    pub(super) fn forget_set_back(&mut self) {
        let now = self.facts.now;
        self.status.set_back = self.status.set_back.filter(|back| back.until > now);
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// The latest moment that a schedule has on record, as far as it is past.
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
