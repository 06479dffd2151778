//! Commands on schedules: set, delete, pause, resume, trigger, skip an occurrence. Backfills are in
//! [`backfill`](super::backfill).
//!
//! Every change of a schedule first records the occurrences due until then, by the old definition.

use super::{
    decide::attributed_reason,
    decision_view::{DecisionInput, ScheduleSource, decide_on_view},
    definition::Version,
    occurrence::Fate,
};
use crate::{
    ActionError, Engine, Error, Occurrence, Origin, Paused, Schedule, ScheduleError, ScheduleStatus, Target,
    TriggerRequest, Undecided, View, model::documents::parse::parse,
};
use std::collections::BTreeMap;
use store::{Page, Timestamp};

impl From<ScheduleError> for Undecided {
    fn from(error: ScheduleError) -> Self {
        Self::Failed(ActionError::permanent("schedule.invalid", error))
    }
}

fn unknown(name: &str) -> ActionError {
    ActionError::permanent("schedule.unknown", format!("there is no schedule {name}"))
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the schedules that people have set, by name.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn schedules(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Schedule, String>, Error> {
        let collection = <Schedule as crate::Entity>::COLLECTION;
        let page = self.inner.store.documents(collection, "", after, limit).await?;
        let items = page.items.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Page { items, next: page.next })
    }

    /// Returns one schedule that people have set.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn schedule(&self, name: &str) -> Result<Option<Schedule>, Error> {
        self.transact(false, |view| view.get::<Schedule>(name)).await
    }

    /// Returns the status of a schedule, or `None` before its first run.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn schedule_status(&self, name: &str) -> Result<Option<ScheduleStatus>, Error> {
        self.transact(false, |view| view.get::<ScheduleStatus>(name)).await
    }

    /// Sets a schedule on behalf of `by`, for future occurrences only. Occurrences that already wait keep their old
    /// definition. With `expected`, only if that version is in force; 0 for none.
    ///
    /// # Errors
    /// Returns `schedule.invalid` with the field, or `schedule.changed` if another version is in force.
    pub async fn set_schedule(
        &self,
        wanted: Schedule,
        by: &str,
        expected: Option<u32>,
    ) -> Result<Schedule, Error> {
        let which = ScheduleSource::Stored(&wanted.name);
        let set = |view: &mut View| {
            let now = view.now();
            let mut wanted = Schedule { set_by: by.to_owned(), set_at: now, ..wanted.clone() };
            wanted.validate()?;
            if wanted.target == Target::BuiltIn {
                let why = format!("schedule {}: start: name the workflow to start", wanted.name);
                return Err(ActionError::permanent("schedule.invalid", why).into());
            }
            let stands = view.get::<Schedule>(&wanted.name)?.map_or(0, |stands| stands.version);
            if expected.is_some_and(|expected| expected != stands) {
                let why = format!("schedule {} is at version {stands}", wanted.name);
                return Err(ActionError::permanent("schedule.changed", why).into());
            }
            let mut standing = which.status(view)?;
            standing.version += 1;
            standing.done = standing.done.max(now);
            wanted.version = standing.version;
            view.put(&standing)?;
            view.put(&Version(wanted.clone()))?;
            view.put(&wanted)?;
            Ok(wanted)
        };
        self.change_schedule(which, set).await
    }

    /// Deletes a schedule. Waiting occurrences are skipped, running executions continue, and all rows and versions
    /// remain.
    ///
    /// # Errors
    /// Returns `schedule.unknown`; `schedule.changed` as in [`Engine::set_schedule`].
    pub async fn delete_schedule(&self, name: &str, by: &str, expected: Option<u32>) -> Result<(), Error> {
        let which = ScheduleSource::Stored(name);
        let delete = |view: &mut View| {
            let stands = view.get::<Schedule>(name)?.ok_or_else(|| unknown(name))?;
            if expected.is_some_and(|expected| expected != stands.version) {
                let why = format!("schedule {name} is at version {}", stands.version);
                return Err(ActionError::permanent("schedule.changed", why).into());
            }
            let mut standing = which.status(view)?;
            let now = view.now();
            for waits in std::mem::take(&mut standing.waiting) {
                let reason = format!("the schedule was deleted by {by}");
                view.put(&Occurrence { fate: Fate::Skipped, at: now, reason, ..waits })?;
            }
            view.put(&ScheduleStatus { paused: None, backfills: Vec::new(), ..standing })?;
            view.delete::<Schedule>(name)
        };
        self.change_schedule(which, delete).await
    }

    /// Pauses a schedule. Until it is resumed, every occurrence is recorded as paused.
    ///
    /// # Errors
    /// Returns `schedule.unknown`; `schedule.already` if it is paused.
    pub async fn pause_schedule(&self, schedule: &Schedule, by: &str, reason: &str) -> Result<(), Error> {
        let which = source_of(schedule);
        let pause = |view: &mut View| {
            let mut standing = existing_status(view, which)?;
            if let Some(paused) = &standing.paused {
                let why = format!(
                    "schedule {} is paused {}",
                    standing.name,
                    attributed_reason(&paused.by, &paused.reason)
                );
                return Err(ActionError::permanent("schedule.already", why).into());
            }
            standing.paused = Some(Paused { by: by.to_owned(), reason: reason.to_owned(), at: view.now() });
            view.put(&standing)
        };
        self.change_schedule(which, pause).await
    }

    /// Resumes a paused schedule from now on.
    ///
    /// # Errors
    /// Returns `schedule.unknown`; `schedule.already` if it is not paused.
    pub async fn resume_schedule(&self, schedule: &Schedule) -> Result<(), Error> {
        let which = source_of(schedule);
        let resume = |view: &mut View| {
            let mut standing = existing_status(view, which)?;
            if standing.paused.take().is_none() {
                let why = format!("schedule {} is not paused", standing.name);
                return Err(ActionError::permanent("schedule.already", why).into());
            }
            view.put(&standing)
        };
        self.change_schedule(which, resume).await
    }

    /// Requests one occurrence at once, even while the schedule is paused. The overlap policy applies. A repeated key
    /// and fingerprint in `once` returns the first occurrence in its current state.
    ///
    /// # Errors
    /// Returns `schedule.unknown`; `schedule.full` if too many wait; `idempotency.key_reused` if the key was used for
    /// a different request.
    pub async fn trigger_schedule(
        &self,
        schedule: &Schedule,
        by: &str,
        once: Option<&(String, String)>,
    ) -> Result<Occurrence, Error> {
        let which = source_of(schedule);
        let trigger = |view: &mut View| {
            if let Some(once) = once
                && let Some(before) = earlier_request(view, &schedule.name, once)?
            {
                return Ok(before);
            }
            let mut standing = existing_status(view, which)?;
            if standing.waiting.len() >= usize::try_from(super::MAX_BUFFERED).unwrap_or(usize::MAX) {
                let why = format!(
                    "{} occurrences of schedule {} wait already",
                    standing.waiting.len(),
                    standing.name
                );
                return Err(ActionError::permanent("schedule.full", why).into());
            }
            let now = view.now();
            let nominal = free_moment(view, &standing.name)?;
            let occurrence = Occurrence {
                schedule: standing.name.clone(),
                nominal,
                at: now,
                fate: Fate::Pending,
                due: Some(now),
                origin: Origin::Trigger,
                by: Some(by.to_owned()),
                version: schedule.version,
                reason: String::new(),
                execution: None,
                outcome: None,
            };
            view.put(&occurrence)?;
            if let Some((key, fingerprint)) = once {
                let (key, fingerprint) = (key.clone(), fingerprint.clone());
                view.put(&TriggerRequest {
                    key,
                    fingerprint,
                    schedule: schedule.name.clone(),
                    nominal,
                    at: now,
                })?;
            }
            standing.waiting.push(occurrence.clone());
            view.put(&standing)?;
            Ok(occurrence)
        };
        self.transact(true, trigger).await
    }

    /// Skips a waiting occurrence: it is never started.
    ///
    /// # Errors
    /// Returns `schedule.unknown`; `schedule.not_waiting` if it does not wait.
    pub async fn skip_occurrence(
        &self,
        schedule: &Schedule,
        nominal: Timestamp,
        by: &str,
        reason: &str,
    ) -> Result<Occurrence, Error> {
        let which = source_of(schedule);
        let skip = |view: &mut View| {
            let mut standing = existing_status(view, which)?;
            let place = standing.waiting.iter().position(|waits| waits.nominal == nominal);
            let Some(place) = place else {
                let why = format!("no occurrence of schedule {} waits for that moment", standing.name);
                return Err(ActionError::permanent("schedule.not_waiting", why).into());
            };
            let waits = standing.waiting.remove(place);
            let (at, reason) = (view.now(), attributed_reason(by, reason));
            let skipped = Occurrence { fate: Fate::Skipped, at, reason, ..waits };
            view.put(&skipped)?;
            view.put(&standing)?;
            Ok(skipped)
        };
        let skipped = self.transact(true, skip).await?;
        self.inner.metrics.occurrence(Fate::Skipped.name());
        Ok(skipped)
    }

    /// Makes a change, after recording the occurrences that were due until now by the old definition.
    pub(super) async fn change_schedule<T>(
        &self,
        which: ScheduleSource<'_>,
        mut change: impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<T, Error> {
        let (ended, tried) = (self.finished_runs(which.name()).await?, BTreeMap::new());
        let input = DecisionInput {
            new_execution_id: self.new_execution_id(),
            ended: &ended,
            tried: &tried,
            starting: false,
        };
        let settle =
            |view: &mut View| Ok(decide_on_view(view, which, &input)?.is_some_and(|(_, made)| made.changed));
        // One commit for each chunk of occurrences.
        while self.transact(true, settle).await? {}
        self.transact(true, |view| {
            // Later occurrences belong to the commit of the change.
            settle(view)?;
            change(view)
        })
        .await
    }
}

/// Returns the occurrence that the same key requested before, in its current state.
fn earlier_request(
    view: &mut View,
    schedule: &str,
    (key, fingerprint): &(String, String),
) -> Result<Option<Occurrence>, Undecided> {
    let Some(before) = view.get::<TriggerRequest>(key)? else { return Ok(None) };
    if before.fingerprint != *fingerprint || before.schedule != schedule {
        let why = format!("the key was used at {} for a different request", before.at.0);
        return Err(ActionError::permanent("idempotency.key_reused", why).into());
    }
    view.require(&Occurrence::key(schedule, before.nominal)).map(Some)
}

/// Returns an unused moment. Expressions use full seconds, and another request in the same second uses another
/// moment.
fn free_moment(view: &mut View, schedule: &str) -> Result<Timestamp, Undecided> {
    let now = view.now();
    let mut moment = Timestamp(if now.0.is_multiple_of(1_000) { now.0 + 1 } else { now.0 });
    while view.get::<Occurrence>(&Occurrence::key(schedule, moment))?.is_some() {
        moment = Timestamp(moment.0 + if moment.0 % 1_000 == 999 { 2 } else { 1 });
    }
    Ok(moment)
}

/// Returns where the schedule is defined: built-in schedules in the program, others in the store.
pub(super) fn source_of(schedule: &Schedule) -> ScheduleSource<'_> {
    match schedule.target {
        Target::BuiltIn => ScheduleSource::Given(schedule),
        Target::Start { .. } => ScheduleSource::Stored(&schedule.name),
    }
}

/// Returns the status of an existing schedule.
pub(super) fn existing_status(
    view: &mut View,
    which: ScheduleSource<'_>,
) -> Result<ScheduleStatus, Undecided> {
    which.definition(view)?.ok_or_else(|| unknown(which.name()))?;
    which.status(view)
}
