//! Applies one event and converts the result into one commit: record, tasks, documents and journal.

use super::{
    execution_cache::Known,
    history::{event_detail, is_repair, journal_entries, leaks_detail, repair_snapshot},
};
use crate::{
    Ballot, Effect, Error, Event, Execution, Notification, Outcome, Phase, TaskRef, Transition, Workflow,
    approvals::writes::{ApprovalWrites, BallotBefore, approval_writes},
    core::{known_step::KnownStep, transition::transition_with},
    model::erased_workflow::{BreakGlassUse, TransitionCommit},
    search::attributes::attributes,
};
use serde_json::json;
use store::{ExecutionId, Record, Task, TaskId, Timestamp};

/// The largest execution that goes forward, in bytes. The store accepts twice as much
/// ([`store::paged::PAGED_LIMIT`]), so that one at this limit can be parked, cancelled and terminated, which lists
/// its trail a second time.
pub(crate) const EXECUTION_LIMIT: usize = store::paged::PAGED_LIMIT / 2;

/// Applies one event and returns the commit. Also returns the next execution if it is large and stays in this visit,
/// because its next event comes soon.
pub(super) fn take_event<W: Workflow>(
    record: &Record,
    (before, mut known): Known<W>,
    event: Event,
    at: Timestamp,
) -> Result<(TransitionCommit, Option<Known<W>>), Error> {
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
    let (stops, settles) = (event.stops(), matches!(event, Event::Settled { .. } | Event::Probed { .. }));
    let Transition { execution, effects, edges, closed } = transition_with(before, event, at, &mut known)?;

    let next = next_record(record, &execution, closed.as_ref().map(|(_, ballot)| ballot), &mut known, at)?;
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
    let commit = TransitionCommit {
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
        parent: execution.parent.clone(),
        record: next,
        journal,
        schedule,
        retire,
        documents,
        edges,
    };
    let stays = settles && visit == execution.visit && commit.record.body.len() > store::paged::INLINE_LIMIT;
    Ok((commit, stays.then_some((execution, known))))
}

/// Returns the record of `execution` after an event. `closed` is a ballot that the event ended.
fn next_record<W: Workflow>(
    record: &Record,
    execution: &Execution<W>,
    closed: Option<&Ballot>,
    known: &mut KnownStep<W>,
    at: Timestamp,
) -> Result<Record, Error> {
    let subject = execution.data.subject();
    let body = encoded(record, execution, known)
        .map_err(|error| Error::Unreadable { id: record.id, why: error.to_string() })?;
    Ok(Record {
        id: record.id,
        revision: record.revision,
        workflow: record.workflow.clone(),
        schema: W::SCHEMA,
        tenant: subject.tenant,
        subject: subject.name,
        guard: subject.guard,
        state: execution.state_name().into(),
        phase: execution.phase_name().into(),
        reason: execution.reason_name().map(Into::into),
        open: !is_finished(&execution.phase),
        requested_by: record.requested_by.clone(),
        created_at: record.created_at,
        updated_at: at,
        attributes: attributes(&record.attributes, execution, closed, known),
        body,
    })
}

/// Encodes the execution for the store. For a large one, only the changed parts are encoded.
fn encoded<W: Workflow>(
    record: &Record,
    execution: &Execution<W>,
    known: &mut KnownStep<W>,
) -> serde_json::Result<Vec<u8>> {
    if record.body.len() <= store::paged::INLINE_LIMIT {
        return serde_json::to_vec(execution);
    }
    let body = known.encoded.encode(execution)?;
    // Debug builds compare bodies up to this length.
    debug_assert!(body.len() > 256 << 10 || serde_json::to_vec(execution)? == body);
    Ok(body)
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
