//! What the shell is to do with a task that has fallen due, as the execution stands by then. Pure.

use crate::{
    ActionError, Ballot, Bell, Class, Event, Execution, Phase, Step, Ticket, TimeLimit, TimedOut, Workflow,
    model::{
        approval::timetable::Moment,
        execution::directive::{Directive, Limits, Work},
    },
};

/// What the timer of this visit is about.
fn timer<W: Workflow>(exec: &Execution<W>) -> Event {
    let visit = exec.visit;
    match exec.ballot.as_ref().and_then(Ballot::next) {
        Some((due, Moment::Reminder)) => Event::Reminded(Bell { visit, due }),
        Some((due, Moment::Escalation)) => Event::Escalated(Bell { visit, due }),
        Some((due, Moment::Extension)) => Event::Extended(Bell { visit, due }),
        Some((_, Moment::Deadline)) | None => Event::DeadlinePassed { visit },
    }
}

/// What to do about `ticket`, as the execution stands.
pub(crate) fn directive<W: Workflow>(exec: &Execution<W>, ticket: Ticket) -> Directive<W::Platform> {
    if ticket == Ticket::ALARM {
        let open = !matches!(exec.phase, Phase::Finished { .. }) && !exec.broken;
        return if open { Directive::Ring(Event::Overdue) } else { Directive::Drop };
    }
    let over = matches!(exec.phase, Phase::Finished { .. } | Phase::Parked { .. });
    if ticket.visit != exec.visit || over {
        return Directive::Drop;
    }
    if ticket.slot == Ticket::TIMER {
        return Directive::Ring(timer(exec));
    }
    let Some(slot) = exec.slots.get(ticket.slot as usize).filter(|slot| slot.settled.is_none()) else {
        return Directive::Drop;
    };
    if exec.paused.is_some() {
        return Directive::Hold;
    }
    if let Phase::Compensating(unwinding) = &exec.phase {
        return super::unwind::undo_directive(exec, unwinding, ticket, slot);
    }
    if exec.overdue || exec.cancelled.is_some() {
        let error = super::slots::stopped(exec);
        let class = if slot.doubt { Class::Unknown } else { error.class };
        let timed_out = exec.overdue.then_some(TimedOut { limit: TimeLimit::State, attempt: slot.failed });
        return Directive::GiveUp(ActionError { class, timed_out, ..error });
    }
    let Step::Act(mut act) = exec.data.step(exec.state) else { return Directive::Drop };
    let limits =
        Limits { attempt: act.attempt_within, heartbeat: act.heartbeat, while_pending: act.while_pending };
    if act.branches.len() <= ticket.slot as usize {
        return Directive::GiveUp(ActionError::permanent(
            "engine.slot_gone",
            "the step no longer has this slot",
        ));
    }
    let mut deed = act.branches.swap_remove(ticket.slot as usize).deed;
    deed.keys.append(&mut act.keys);
    let (state, entered) = (exec.state_name().to_owned(), exec.entered);
    Directive::Run(Box::new(Work {
        deed,
        state,
        entered,
        slot: ticket.slot,
        edition: slot.edition,
        undo: false,
        ways: 0,
        failed: slot.failed,
        doubt: slot.doubt,
        beat: slot.beat.clone(),
        limits,
    }))
}
