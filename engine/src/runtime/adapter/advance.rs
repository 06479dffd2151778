//! Applies one event and converts the result into one commit: record, tasks, documents and journal.

use super::history::{event_detail, is_repair, journal_entries, leaks_detail, repair_snapshot};
use crate::{
    Ballot, Effect, Error, Event, Execution, Notification, Outcome, Phase, TaskRef, Transition, Workflow,
    approvals::writes::{ApprovalWrites, BallotBefore, approval_writes},
    model::erased_workflow::{BreakGlassUse, TransitionCommit},
    search::attributes::attributes,
    transition,
};
use serde_json::json;
use store::{ExecutionId, Record, Task, TaskId, Timestamp};

/// The largest execution that goes forward, in bytes. The store accepts twice as much
/// ([`store::paged::PAGED_LIMIT`]), so that one at this limit can be parked, cancelled and terminated, which lists
/// its trail a second time.
pub(crate) const EXECUTION_LIMIT: usize = store::paged::PAGED_LIMIT / 2;

/// Applies one event and returns the commit.
pub(super) fn take_event<W: Workflow>(
    record: &Record,
    before: Execution<W>,
    event: Event,
    at: Timestamp,
) -> Result<TransitionCommit, Error> {
    let (from, from_phase) = (before.state_name(), before.phase_name());
    let promised = before.promised;
    let (visit, slots, was_finished) = (before.visit, before.slots.len(), is_finished(&before.phase));
    let was_parked = matches!(before.phase, Phase::Parked { .. });
    let was_missed = before.promise_missed;
    let actor =
        if matches!(event, Event::Started) { record.requested_by.clone() } else { event.actor().to_owned() };
    let described = (event.name(), actor, event_detail(&before, &event));
    let mended = is_repair(&event).then(|| repair_snapshot(&before));
    let asked = BallotBefore::from_execution(&before);
    let stops = event.stops();
    let Transition { execution, effects, edges, closed } = transition(before, event, at)?;

    let next = next_record(record, &execution, closed.as_ref().map(|(_, ballot)| ballot), at)?;
    if !stops && is_under_way(&execution) {
        check_room(&next)?;
    }
    let turned = (from_phase != next.phase).then(|| format!("{from_phase} -> {}", next.phase));
    let left = leaks_detail(&execution);
    let mended = mended.map(|before| json!({ "before": before, "after": repair_snapshot(&execution) }));
    let journal = journal_entries(&next, at, described, from, &edges, (turned.as_deref(), left, mended));
    let schedule = effect_tasks(&next, &execution, effects, at);
    let mut retire = if visit == execution.visit { Vec::new() } else { visit_tasks(record.id, visit, slots) };
    if promised.is_some() && execution.promised.is_none() {
        retire.push(alarm_task(record.id));
    }
    let ruled = closed.as_ref().and_then(|(_, ballot)| ballot.ruling);
    let finished = outcome(&execution.phase).filter(|_| !was_finished);
    let ApprovalWrites { mut documents, break_glass } =
        approval_writes(&next, &execution, (closed, from), (asked, &edges), at);
    let alarms = Notification::alarms(&next, &execution, (was_parked, was_missed, was_finished));
    documents.extend(alarms.iter().map(Notification::to_put));
    Ok(TransitionCommit {
        break_glass: break_glass.map(|review| BreakGlassUse {
            approval: review.approval,
            by: review.by,
            reason: review.reason,
        }),
        ruled,
        finished,
        met_promise: promised.filter(|_| finished.is_some()).map(|by| at < by && !was_missed),
        parked: execution
            .reason_name()
            .filter(|_| !was_parked && matches!(execution.phase, Phase::Parked { .. })),
        parent: execution.parent,
        record: next,
        journal,
        schedule,
        retire,
        documents,
        edges,
    })
}

/// Returns the record of `execution` after an event. `closed` is a ballot that the event ended.
fn next_record<W: Workflow>(
    record: &Record,
    execution: &Execution<W>,
    closed: Option<&Ballot>,
    at: Timestamp,
) -> Result<Record, Error> {
    let subject = execution.data.subject();
    let mut next = Record {
        schema: W::SCHEMA,
        tenant: subject.tenant,
        subject: subject.name,
        guard: subject.guard,
        state: execution.state_name().into(),
        phase: execution.phase_name().into(),
        reason: execution.reason_name().map(Into::into),
        open: !is_finished(&execution.phase),
        updated_at: at,
        attributes: attributes(&record.attributes, execution, closed),
        ..record.clone()
    };
    next.body =
        serde_json::to_vec(execution).map_err(|e| Error::Unreadable { id: record.id, why: e.to_string() })?;
    Ok(next)
}

/// Returns true if the execution may still grow: it goes forward and is not being cancelled.
fn is_under_way<W: Workflow>(execution: &Execution<W>) -> bool {
    matches!(execution.phase, Phase::Forward) && execution.cancelled.is_none()
}

/// Refuses a record without room for the entries that park, undo or end the execution.
fn check_room(next: &Record) -> Result<(), Error> {
    let size = next.body.len();
    if size <= EXECUTION_LIMIT {
        return Ok(());
    }
    let what = format!("the record of {}", next.id);
    Err(store::Error::TooLarge { what, size, limit: EXECUTION_LIMIT }.into())
}

fn is_finished(phase: &Phase) -> bool {
    outcome(phase).is_some()
}

fn outcome(phase: &Phase) -> Option<Outcome> {
    match phase {
        Phase::Finished { outcome, .. } => Some(*outcome),
        Phase::Forward | Phase::Compensating(_) | Phase::Parked { .. } => None,
    }
}

fn effect_tasks<W: Workflow>(
    next: &Record,
    execution: &Execution<W>,
    effects: Vec<Effect>,
    at: Timestamp,
) -> Vec<Task> {
    let task = |slot, after| Task {
        id: TaskId { execution: next.id, visit: execution.visit, slot },
        due: at.after(after),
        body: Vec::new(),
    };
    let tasks = effects.into_iter().map(|effect| match effect {
        Effect::Perform { slot, after } => task(slot, after),
        Effect::Wake { after } => task(TaskRef::TIMER, after),
        Effect::Alarm { at } => Task { id: alarm_task(next.id), due: at, body: Vec::new() },
    });
    tasks.collect()
}

fn alarm_task(execution: ExecutionId) -> TaskId {
    TaskId { execution, visit: TaskRef::ALARM.visit, slot: TaskRef::ALARM.slot }
}

fn visit_tasks(execution: ExecutionId, visit: u32, slots: usize) -> Vec<TaskId> {
    let slots = (0u32..).take(slots).chain([TaskRef::TIMER]);
    slots.map(|slot| TaskId { execution, visit, slot }).collect()
}
