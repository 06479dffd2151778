//! Backfills: spans whose missed occurrences are started later. They are counted before they are accepted.

use super::{
    commands::{existing_status, source_of},
    decide::attributed_reason,
    occurrence::{Backfill, Fate},
};
use crate::{ActionError, Engine, Error, Occurrence, Origin, Schedule, ScheduleError, Undecided, View};
use store::Timestamp;

/// The default limit of moments in one backfill.
pub const BACKFILL_USUAL: u64 = 1_000;
/// The highest limit of moments in one backfill.
pub const BACKFILL_MOST: u64 = 20_000;
/// The most waiting backfills of one schedule.
const MOST_BACKFILLS: usize = 20;

/// The moments of a backfill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The moments outside of excluded days, including those already started. Counted up to the requested limit.
    pub moments: u64,
    /// True if there are more moments than were counted.
    pub more: bool,
    /// The first moment.
    pub first: Option<Timestamp>,
    /// The last counted moment.
    pub last: Option<Timestamp>,
}

impl Schedule {
    /// Counts the moments from `from` to `to`, both inclusive, up to `most`.
    ///
    /// # Errors
    /// Same as [`Schedule::times`].
    pub fn span(&self, (from, to): (Timestamp, Timestamp), most: u64) -> Result<Span, ScheduleError> {
        let times = self.times()?;
        let mut span = Span { moments: 0, more: false, first: None, last: None };
        let mut next = self.next_eligible(&times, Timestamp(from.0.saturating_sub(1)));
        while let Some(moment) = next.filter(|moment| *moment <= to) {
            if span.moments >= most {
                span.more = true;
                break;
            }
            span.moments = span.moments.saturating_add(1);
            span.first.get_or_insert(moment);
            span.last = Some(moment);
            next = self.next_eligible(&times, moment);
        }
        Ok(span)
    }
}

fn invalid(schedule: &Schedule, why: &str) -> Undecided {
    Undecided::Failed(ActionError::permanent(
        "schedule.invalid",
        format!("schedule {}: {why}", schedule.name),
    ))
}

/// Refuses an invalid span, or one with more than `most` moments.
fn check(
    schedule: &Schedule,
    (from, to): (Timestamp, Timestamp),
    most: u64,
    now: Timestamp,
) -> Result<(), Undecided> {
    if to < from {
        return Err(invalid(schedule, "to: the span ends before it begins"));
    }
    if to > now {
        return Err(invalid(schedule, "to: use a past moment; future occurrences start by themselves"));
    }
    if most > BACKFILL_MOST {
        let why = format!("most: {most} is not allowed; use at most {BACKFILL_MOST}, or several spans");
        return Err(invalid(schedule, &why));
    }
    if schedule.span((from, to), most)?.more {
        let why = format!(
            "to: the span has more than {most} moments; use a shorter span, or raise `most` (at most {BACKFILL_MOST})"
        );
        return Err(invalid(schedule, &why));
    }
    Ok(())
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Requests every occurrence from `from` to `to`, both inclusive, that was not started. They start oldest first,
    /// each once, and one after the other unless the schedule allows concurrent runs. The span has at most `most`
    /// moments.
    ///
    /// # Errors
    /// Returns `schedule.unknown`; `schedule.invalid` for a span that ends before it begins, ends in the future, or
    /// has more moments; `schedule.full`.
    pub async fn backfill_schedule(
        &self,
        schedule: &Schedule,
        (from, to): (Timestamp, Timestamp),
        most: u64,
        by: &str,
    ) -> Result<Backfill, Error> {
        let which = source_of(schedule);
        let backfill = |view: &mut View| {
            let mut standing = existing_status(view, which)?;
            let now = view.now();
            check(schedule, (from, to), most, now)?;
            if standing.backfills.len() >= MOST_BACKFILLS {
                let why = format!("{MOST_BACKFILLS} backfills of schedule {} wait already", schedule.name);
                return Err(ActionError::permanent("schedule.full", why).into());
            }
            let done = Timestamp(from.0.saturating_sub(1));
            let asked = Backfill { from, to, done, by: by.to_owned(), at: now };
            standing.backfills.push(asked.clone());
            view.put(&standing)?;
            Ok(asked)
        };
        self.change_schedule(which, backfill).await
    }

    /// Cancels all backfills of a schedule: their waiting occurrences are skipped and no more are started. Running
    /// executions continue. Returns the progress of each backfill.
    ///
    /// # Errors
    /// Returns `schedule.unknown`; `schedule.not_waiting` if there is no backfill.
    pub async fn cancel_backfills(
        &self,
        schedule: &Schedule,
        by: &str,
        reason: &str,
    ) -> Result<Vec<Backfill>, Error> {
        let which = source_of(schedule);
        let cancel = |view: &mut View| {
            let mut standing = existing_status(view, which)?;
            let (waits, others) =
                standing.waiting.drain(..).partition::<Vec<_>, _>(|row| row.origin == Origin::Backfill);
            standing.waiting = others;
            let given_up = std::mem::take(&mut standing.backfills);
            if given_up.is_empty() && waits.is_empty() {
                let why = format!("no backfill of schedule {} waits", standing.name);
                return Err(ActionError::permanent("schedule.not_waiting", why).into());
            }
            for row in waits {
                let (at, reason) = (view.now(), attributed_reason(by, reason));
                view.put(&Occurrence { fate: Fate::Skipped, at, reason, ..row })?;
            }
            view.put(&standing)?;
            Ok(given_up)
        };
        self.transact(true, cancel).await
    }
}
