//! Occurrences of built-in schedules, whose work the program does itself.

use super::{decision_view::ScheduleSource, runner::MAX_ROUNDS};
use crate::{Engine, Entity as _, Error, Failing, Notification, Occurrence, Schedule, ScheduleStatus};
use std::collections::BTreeMap;
use store::Commit;

impl<P: Send + Sync + 'static> Engine<P> {
    /// Claims the due occurrence of a built-in schedule; the caller does its work. Exactly one of several engines
    /// gets `Some`. Occurrences that are not caught up are recorded.
    ///
    /// # Errors
    /// Returns the store's error, or `schedule.invalid`.
    pub async fn claim_occurrence(&self, schedule: &Schedule) -> Result<Option<Occurrence>, Error> {
        for _ in 0..MAX_ROUNDS {
            let round = self
                .decide_schedule(ScheduleSource::Given(schedule), self.new_execution_id(), &BTreeMap::new())
                .await?;
            let Some(round) = round else { continue };
            let Some((_, decision)) = round.result.map_err(Error::Undecided)? else { return Ok(None) };
            if round.puts.is_empty() {
                return Ok(None);
            }
            let commit = Commit {
                reads: round.reads,
                documents: round.puts,
                schedule: round.tasks,
                ..Commit::default()
            };
            if self.committed(commit, &decision).await? && decision.start.is_some() {
                return Ok(decision.start);
            }
        }
        Ok(None)
    }

    /// Records the end of a built-in schedule's occurrence: `completed`, or `failed` with a reason, which is
    /// notified.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn end_occurrence(&self, claimed: &Occurrence, failed: Option<&str>) -> Result<(), Error> {
        let outcome = if failed.is_some() { "failed" } else { "completed" };
        self.transact(true, |view| {
            let Some(row) = view.get::<Occurrence>(&claimed.id())? else { return Ok(()) };
            let failing = failed.map(|why| Failing {
                nominal: row.nominal,
                at: view.now(),
                reason: why.to_owned(),
                execution: None,
            });
            if let Some(standing) = view.get::<ScheduleStatus>(&row.schedule)?
                && standing.failing.is_some() != failing.is_some()
            {
                view.put(&ScheduleStatus { failing, ..standing })?;
            }
            let reason = failed.map_or_else(|| row.reason.clone(), str::to_owned);
            if let Some(why) = failed {
                view.put(&Notification::schedule_failed(&row.schedule, row.nominal, why, view.now()))?;
            }
            view.put(&Occurrence { outcome: Some(outcome.into()), reason, ..row })
        })
        .await
    }
}
