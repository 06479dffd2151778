//! What people tell a schedule: its definition, pause and resume, one run now, one occurrence left out; spans that are made
//! up for are in [`backfill`](super::backfill).
//!
//! Whatever changes a schedule first puts on record what was due until then, as it was understood until then.

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
    /// The schedules that people have set, by name.
    ///
    /// # Errors
    /// The store's.
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

    /// One schedule that people have set.
    ///
    /// # Errors
    /// The store's.
    pub async fn schedule(&self, name: &str) -> Result<Option<Schedule>, Error> {
        self.transact(false, |view| view.get::<Schedule>(name)).await
    }

    /// Where a schedule stands; `None` for one that was never looked at.
    ///
    /// # Errors
    /// The store's.
    pub async fn schedule_status(&self, name: &str) -> Result<Option<ScheduleStatus>, Error> {
        self.transact(false, |view| view.get::<ScheduleStatus>(name)).await
    }

    /// Sets a schedule, in the name of `by`: from now on, and never for the past. What was due before and still waits is started
    /// as it was meant then. With `expected`, only if the version in force is that one; 0 for none.
    ///
    /// # Errors
    /// `schedule.invalid` naming the field, `schedule.changed` when another version is in force.
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
                let why = format!("schedule {}: start: name what is to be started", wanted.name);
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

    /// Removes a schedule. What waits is skipped, what runs goes on, and every row and version stays on record.
    ///
    /// # Errors
    /// `schedule.unknown`; `schedule.changed` as for [`Engine::set_schedule`].
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

    /// Starts nothing by the clock until it is resumed; every occurrence until then is on record as paused.
    ///
    /// # Errors
    /// `schedule.unknown`; `schedule.already` when it is paused.
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

    /// Lets a paused schedule go on from now.
    ///
    /// # Errors
    /// `schedule.unknown`; `schedule.already` when it is not paused.
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

    /// Asks for one occurrence at once, also while the schedule is paused. The overlap policy holds for it. Under the same key
    /// and fingerprint in `once` no other is asked for: the one that was is returned as it stands.
    ///
    /// # Errors
    /// `schedule.unknown`; `schedule.full` when too many wait; `idempotency.key_reused` when the key was used for something else.
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

    /// Leaves out an occurrence that waits: it is never started.
    ///
    /// # Errors
    /// `schedule.unknown`; `schedule.not_waiting` when it does not wait, or no more.
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

    /// Makes a change, before which what has been due until now is on record as it was understood until now.
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
        // A chunk a commit, until there is none.
        while self.transact(true, settle).await? {}
        self.transact(true, |view| {
            // What has come since belongs to the change's own commit.
            settle(view)?;
            change(view)
        })
        .await
    }
}

/// The occurrence of `schedule` that was asked for under this key before, as it stands.
fn earlier_request(
    view: &mut View,
    schedule: &str,
    (key, fingerprint): &(String, String),
) -> Result<Option<Occurrence>, Undecided> {
    let Some(before) = view.get::<TriggerRequest>(key)? else { return Ok(None) };
    if before.fingerprint != *fingerprint || before.schedule != schedule {
        let why = format!("the key was used at {} for something else", before.at.0);
        return Err(ActionError::permanent("idempotency.key_reused", why).into());
    }
    view.require(&Occurrence::key(schedule, before.nominal)).map(Some)
}

/// A moment that is nobody else's: expressions name full seconds, and whoever asked in the same one took another.
fn free_moment(view: &mut View, schedule: &str) -> Result<Timestamp, Undecided> {
    let now = view.now();
    let mut moment = Timestamp(if now.0.is_multiple_of(1_000) { now.0 + 1 } else { now.0 });
    while view.get::<Occurrence>(&Occurrence::key(schedule, moment))?.is_some() {
        moment = Timestamp(moment.0 + if moment.0 % 1_000 == 999 { 2 } else { 1 });
    }
    Ok(moment)
}

/// The schedule as it is kept: what is built in is where the program is.
pub(super) fn source_of(schedule: &Schedule) -> ScheduleSource<'_> {
    match schedule.target {
        Target::BuiltIn => ScheduleSource::Given(schedule),
        Target::Start { .. } => ScheduleSource::Stored(&schedule.name),
    }
}

/// Where a schedule stands that there must be.
pub(super) fn existing_status(
    view: &mut View,
    which: ScheduleSource<'_>,
) -> Result<ScheduleStatus, Undecided> {
    which.definition(view)?.ok_or_else(|| unknown(which.name()))?;
    which.status(view)
}
