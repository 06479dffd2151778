//! Decides what the worker does with a due task, given the current execution. Pure.

use crate::{
    ActionError, Ballot, Class, Event, Execution, Phase, Step, TaskRef, TimeLimit, TimedOut, TimetableAlarm,
    Workflow,
    core::known_step::KnownStep,
    model::{
        approval::timetable::TimetableEvent,
        execution::directive::{AttemptLimits, Directive, Work},
    },
};

/// Returns the event of this visit's timer.
fn timer<W: Workflow>(exec: &Execution<W>) -> Event {
    let visit = exec.visit;
    match exec.ballot.as_ref().and_then(Ballot::next) {
        Some((due, TimetableEvent::Reminder)) => Event::Reminded(TimetableAlarm { visit, due }),
        Some((due, TimetableEvent::Escalation)) => Event::Escalated(TimetableAlarm { visit, due }),
        Some((due, TimetableEvent::Extension)) => Event::Extended(TimetableAlarm { visit, due }),
        Some((_, TimetableEvent::Deadline)) | None => Event::DeadlinePassed { visit },
    }
}

/// Returns what to do about `ticket`.
pub(crate) fn directive<W: Workflow>(
    exec: &Execution<W>,
    ticket: TaskRef,
    known: &mut KnownStep<W>,
) -> Directive<W::Platform> {
    if ticket == TaskRef::ALARM {
        let open = !matches!(exec.phase, Phase::Finished { .. }) && !exec.promise_missed;
        return if open { Directive::DeliverTimer(Event::Overdue) } else { Directive::Discard };
    }
    let over = matches!(exec.phase, Phase::Finished { .. } | Phase::Parked { .. });
    if ticket.visit != exec.visit || over {
        return Directive::Discard;
    }
    if ticket.slot == TaskRef::TIMER {
        return Directive::DeliverTimer(timer(exec));
    }
    let Some(slot) = exec.slots.get(ticket.slot as usize).filter(|slot| slot.settled.is_none()) else {
        return Directive::Discard;
    };
    if exec.paused.is_some() {
        return Directive::AwaitResume;
    }
    if let Phase::Compensating(unwinding) = &exec.phase {
        return super::unwind::undo_directive(exec, unwinding, ticket, slot);
    }
    if exec.overdue || exec.cancelled.is_some() {
        let error = super::slots::stop_error(exec);
        let class = if slot.doubt { Class::Unknown } else { error.class };
        let timed_out = exec.overdue.then_some(TimedOut { limit: TimeLimit::State, attempt: slot.failed });
        return Directive::GiveUp(ActionError { class, timed_out, ..error });
    }
    let step = known.step(exec);
    let Step::Act(act) = &*step else { return Directive::Discard };
    let limits = AttemptLimits {
        attempt: act.attempt_within,
        heartbeat: act.heartbeat,
        while_pending: act.while_pending,
    };
    let Some(branch) = act.branches.get(ticket.slot as usize) else {
        return Directive::GiveUp(ActionError::permanent(
            "engine.slot_gone",
            "the step no longer has this slot",
        ));
    };
    let mut deed = branch.action.clone();
    deed.keys.extend_from_slice(&act.keys);
    let (state, states_entered) = (exec.state_name().to_owned(), exec.states_entered);
    Directive::Run(Box::new(Work {
        action: deed,
        state,
        states_entered,
        slot: ticket.slot,
        slot_revision: slot.slot_revision,
        undo: false,
        undo_revision: 0,
        failed: slot.failed,
        doubt: slot.doubt,
        beat: slot.beat.clone(),
        limits,
    }))
}
