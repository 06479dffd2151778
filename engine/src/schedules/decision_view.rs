//! One decision of a schedule on the stored documents, with its writes.

use super::{
    decide::{Decision, EndRequest, Facts, StartOutcome, backfill_moments, decide},
    set_back::{Recorded, recorded_moments},
};
use crate::{
    ActionError, Attribution, Notification, Occurrence, Schedule, ScheduleStatus, Undecided, View,
    model::execution::message::Message,
};
use std::collections::BTreeMap;
use store::{ExecutionId, Timestamp};

/// The source of a schedule: the store or the program.
#[derive(Clone, Copy)]
pub(super) enum ScheduleSource<'a> {
    Stored(&'a str),
    Given(&'a Schedule),
}

impl<'a> ScheduleSource<'a> {
    pub(super) fn name(self) -> &'a str {
        match self {
            Self::Stored(name) => name,
            Self::Given(schedule) => &schedule.name,
        }
    }

    /// Returns the definition in force, if there is one.
    pub(super) fn definition(self, view: &mut View) -> Result<Option<Schedule>, Undecided> {
        match self {
            Self::Stored(name) => view.get(name),
            Self::Given(schedule) => Ok(Some(schedule.clone())),
        }
    }

    /// Returns the status. A schedule without one begins now: nothing was due before.
    pub(super) fn status(self, view: &mut View) -> Result<ScheduleStatus, Undecided> {
        let now = view.now();
        let found = view.get::<ScheduleStatus>(self.name())?;
        let standing = found.unwrap_or_else(|| ScheduleStatus { done: now, ..ScheduleStatus::default() });
        Ok(ScheduleStatus { name: self.name().to_owned(), ..standing })
    }
}

/// The input of a decision, in addition to the stored documents.
pub(super) struct DecisionInput<'a> {
    pub(super) new_execution_id: ExecutionId,
    pub(super) ended: &'a BTreeMap<ExecutionId, Option<String>>,
    pub(super) tried: &'a BTreeMap<Timestamp, StartOutcome>,
    pub(super) starting: bool,
}

/// Makes one decision on the stored documents, with its writes. Returns `None` if there is no such schedule.
pub(super) fn decide_on_view(
    view: &mut View,
    which: ScheduleSource<'_>,
    input: &DecisionInput<'_>,
) -> Result<Option<(Schedule, Decision)>, Undecided> {
    let Some(schedule) = which.definition(view)? else { return Ok(None) };
    let unknown = view.get::<ScheduleStatus>(which.name())?.is_none();
    let standing = which.status(view)?;
    let invalid = |e: super::ScheduleError| ActionError::permanent("schedule.invalid", e);
    let times = schedule.times().map_err(invalid)?;
    let wanted = backfill_moments(&standing, &times);
    let key = |at: &Timestamp| Occurrence::key(&schedule.name, *at);
    view.prefetch::<Occurrence>(wanted.iter().map(key))?;
    let mut on_record = BTreeMap::new();
    for at in &wanted {
        on_record.insert(*at, view.get::<Occurrence>(&key(at))?.map(|row| row.fate));
    }
    let recorded = recorded(view, &schedule, recorded_moments(&standing, &times, view.now()))?;
    let facts = Facts {
        schedule: &schedule,
        times: &times,
        now: view.now(),
        new_execution_id: input.new_execution_id,
        ended: input.ended,
        on_record: &on_record,
        recorded: &recorded,
        tried: input.tried,
        starting: input.starting,
    };
    let was_well = standing.failing.is_none();
    let decision = decide(&facts, standing);
    if let Some(failing) = decision.status.failing.as_ref().filter(|_| was_well) {
        let (nominal, why) = (failing.nominal, &failing.reason);
        view.put(&Notification::schedule_failed(&schedule.name, nominal, why, view.now()))?;
    }
    view.prefetch::<Occurrence>(decision.rows.keys().map(key))?;
    for row in decision.rows.values() {
        view.put(row)?;
    }
    if decision.changed || unknown {
        view.put(&decision.status)?;
    }
    for (id, ask) in &decision.orders {
        let order = Attribution {
            by: format!("schedule {}", schedule.name),
            reason: "its next occurrence is due and starts when this execution has ended".into(),
        };
        view.ask(
            *id,
            match ask {
                EndRequest::Cancel => Message::Cancel(order),
                EndRequest::Terminate => Message::Terminate(order),
            },
        );
    }
    Ok(Some((schedule, decision)))
}

/// Returns which of these moments have rows, and the first free moment after each.
fn recorded(view: &mut View, schedule: &Schedule, moments: Vec<Timestamp>) -> Result<Recorded, Undecided> {
    view.prefetch::<Occurrence>(moments.iter().map(|at| Occurrence::key(&schedule.name, *at)))?;
    let mut recorded = Recorded::new();
    for nominal in moments {
        let mut free = nominal;
        while view.get::<Occurrence>(&Occurrence::key(&schedule.name, free))?.is_some() {
            free = Timestamp(free.0.saturating_add(1));
        }
        recorded.insert(nominal, (free != nominal).then_some(free));
    }
    Ok(recorded)
}
