//! The pure core: one event in, the next execution and what to do about it out.
//!
//! Called by [`Engine::deliver`](crate::Engine::deliver) with a record just loaded, and its result is committed whole or
//! not at all. Invariant: nothing here reads a clock, a store or the world (`at` is an input like any other), so the same
//! execution and event always give the same answer. What happens to slots is in `settle.rs`, the way back in `unwind.rs`.

use crate::{
    Act, ActionError, Approval, Authorisation, Authoriser, Ballot, Commitment, Deed, Edge, Effect, Event,
    Execution, Mark, Order, Outcome, Phase, PlanDigest, Reason, Refusal, Ruling, Slot, Step, Ticket, Verdict,
    Vote, Wait, Workflow,
    action::DeedKind,
    execution::{Fate, state_named},
    step::DONE,
};
use std::time::Duration;
use store::Timestamp;

/// The most states entered by one event: a loop of choices is a bug of its workflow, and is parked.
const MOST_HOPS: u32 = 64;
/// How often a plan may change after it was authorised before an operator has to look.
const MOST_ASKED_AGAIN: u32 = 3;

/// What an event led to.
#[derive(Debug)]
pub struct Transition<W: Workflow> {
    /// The execution afterwards.
    pub execution: Execution<W>,
    /// What to do.
    pub effects: Vec<Effect>,
    /// The ways taken.
    pub edges: Vec<Edge>,
    /// The ballot that this event ended, with [`Execution::entered`] at its time; without a ruling it was withdrawn.
    pub closed: Option<(u32, Ballot)>,
}

/// Takes `event`, which happened at `at`.
///
/// # Errors
/// [`Refusal`]: the execution does not take the event, and nothing has changed.
pub fn transition<W: Workflow>(
    execution: Execution<W>,
    event: Event,
    at: Timestamp,
) -> Result<Transition<W>, Refusal> {
    let mut turn = Turn { exec: execution, at, effects: Vec::new(), edges: Vec::new(), closed: None };
    turn.take(event)?;
    Ok(Transition { execution: turn.exec, effects: turn.effects, edges: turn.edges, closed: turn.closed })
}

/// An execution while it takes one event.
pub(crate) struct Turn<W: Workflow> {
    pub(crate) exec: Execution<W>,
    pub(crate) at: Timestamp,
    pub(crate) effects: Vec<Effect>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) closed: Option<(u32, Ballot)>,
}

impl<W: Workflow> Turn<W> {
    fn take(&mut self, event: Event) -> Result<(), Refusal> {
        if matches!(self.exec.phase, Phase::Finished { .. }) {
            return Err(Refusal::Finished);
        }
        match event {
            Event::Started if self.exec.visit == 0 => self.enter(W::INITIAL, None),
            Event::Settled { ticket, result } => self.settled(ticket, result)?,
            Event::Probed { ticket, answer } => self.probed(ticket, answer)?,
            Event::Voted { vote, digest } => self.voted(vote, &digest)?,
            Event::DeadlinePassed { visit } => self.deadline_passed(visit)?,
            Event::Signalled { name } => self.signalled(name),
            Event::CancelRequested(order) => self.cancel(&order)?,
            Event::PauseRequested(order) => self.pause(order)?,
            Event::ResumeRequested(_) => self.resume()?,
            Event::RetryRequested(_) => self.retry()?,
            Event::TerminateRequested(order) => self.terminate(&order),
            Event::Started => return Err(self.unexpected("started")),
        }
        Ok(())
    }

    pub(crate) fn unexpected(&self, event: &'static str) -> Refusal {
        let phase = self.exec.phase_name();
        Refusal::Unexpected { state: self.exec.state_name().into(), phase, event }
    }

    pub(crate) fn step(&self) -> Step<W> {
        self.exec.data.step(self.exec.state)
    }

    fn forward(&self) -> bool {
        matches!(self.exec.phase, Phase::Forward)
    }

    // ------------------------------------------------------------------ going from state to state

    /// Enters `state` by the way `label`, and goes on through every state that needs no waiting.
    pub(crate) fn enter(&mut self, state: W::State, label: Option<String>) {
        let mut next = Some((state, label));
        for _ in 0..MOST_HOPS {
            let Some((state, label)) = next.take() else { return };
            self.arrive(state, label);
            next = self.begin_state();
        }
        if next.is_some() {
            let error =
                ActionError::permanent("engine.endless", "the workflow goes from state to state without end");
            self.park(Reason::LimitReached, vec![error], None);
        }
    }

    fn arrive(&mut self, state: W::State, label: Option<String>) {
        if let Some(label) = label {
            let (from, to) = (self.exec.state_name().into(), Into::<&str>::into(state).into());
            self.edges.push(Edge { from, label, to });
        }
        self.close_ballot();
        self.exec.state = state;
        self.exec.visit += 1;
        self.exec.entered += 1;
        self.exec.since = self.at;
        self.exec.slots.clear();
        self.exec.overdue = false;
    }

    pub(crate) fn close_ballot(&mut self) {
        let entered = self.exec.entered;
        self.closed = self.exec.ballot.take().map(|ballot| (entered, ballot)).or(self.closed.take());
    }

    /// Begins what the state asks for; answers with the next state if nothing has to be waited for.
    fn begin_state(&mut self) -> Option<(W::State, Option<String>)> {
        match self.step() {
            Step::End(outcome) => {
                let (from, label) = (self.exec.state_name().into(), Into::<&str>::into(outcome).into());
                self.edges.push(Edge { from, label, to: "[*]".into() });
                self.end(outcome);
                None
            }
            Step::Choose(mut choose) => {
                let taken = choose.taken.min(choose.options.len().saturating_sub(1));
                let choice = choose.options.swap_remove(taken);
                if let Some(rule) = choice.waiver {
                    self.authorise(Authoriser::Waiver(rule), self.exec.digest());
                }
                Some((choice.to, Some(choice.label.to_owned())))
            }
            Step::Approval(approval) => {
                let deadline = approval.within.map(|within| self.at.after(within));
                self.exec.ballot = Some(Ballot::open(self.exec.digest(), approval.seats, self.at, deadline));
                self.wake(approval.within);
                None
            }
            Step::Wait(wait) => self.begin_wait(&wait),
            Step::Act(act) => self.begin_act(&act),
        }
    }

    fn begin_wait(&mut self, wait: &Wait<W::State>) -> Option<(W::State, Option<String>)> {
        if wait.signal.is_some_and(|name| self.exec.signals.remove(name)) {
            return Some((wait.then, Some(wait.signal_label())));
        }
        self.wake(wait.within);
        None
    }

    fn begin_act(&mut self, act: &Act<W>) -> Option<(W::State, Option<String>)> {
        if let Some(asked) = self.check_authorisation(act) {
            return asked.map(|state| (state, Some("plan has changed".into())));
        }
        let ledger = act.branches.iter().all(|branch| matches!(branch.deed.kind, DeedKind::Ledger(_)));
        // A ledger action's pivot takes effect in the commit that settles it; one on the world, the moment it may begin.
        if matches!(act.commitment, Commitment::ForwardOnly { .. }) && (!ledger || act.branches.is_empty()) {
            self.pass_pivot();
        }
        if act.branches.is_empty() {
            return Some((act.next, Some(DONE.into())));
        }
        self.exec.slots = vec![Slot::default(); act.branches.len()];
        self.begin_slots(act);
        self.wake(Some(act.within));
        None
    }

    pub(crate) fn pass_pivot(&mut self) {
        self.exec.pivot.get_or_insert_with(|| self.exec.state.into().to_owned());
    }

    /// `None` to go on; `Some(None)` when it has been parked; `Some(state)` to ask there again.
    fn check_authorisation(&mut self, act: &Act<W>) -> Option<Option<W::State>> {
        if self.exec.pivot.is_some() || !matches!(act.commitment, Commitment::ForwardOnly { .. }) {
            return None;
        }
        let current = self.exec.digest();
        let given = self.exec.authorisation.take();
        match given {
            Some(given) if given.digest == current => {
                self.exec.authorisation = Some(given);
                None
            }
            Some(given) if self.exec.asked_again < MOST_ASKED_AGAIN => {
                self.exec.asked_again += 1;
                let state = state_named(&given.state);
                if state.is_none() {
                    self.park_unauthorised("the state that gave the authorisation no longer exists");
                }
                Some(state)
            }
            Some(_) => {
                self.park_unauthorised("the plan keeps changing after it was authorised");
                Some(None)
            }
            None => {
                self.park_unauthorised("nothing has authorised the plan");
                Some(None)
            }
        }
    }

    fn park_unauthorised(&mut self, why: &str) {
        self.park(Reason::LimitReached, vec![ActionError::permanent("plan.unauthorised", why)], None);
    }

    fn authorise(&mut self, by: Authoriser, digest: PlanDigest) {
        let state = self.exec.state_name().to_owned();
        self.exec.authorisation = Some(Authorisation { digest, state, by });
    }

    pub(crate) fn wake(&mut self, after: Option<Duration>) {
        self.effects.extend(after.map(|after| Effect::Wake { after }));
    }

    pub(crate) fn park(
        &mut self,
        reason: Reason,
        errors: Vec<ActionError>,
        unwinding: Option<crate::Unwinding>,
    ) {
        self.effects.clear();
        self.exec.phase = Phase::Parked { reason, errors, since: self.at, unwinding };
    }

    // ------------------------------------------------------------------ people and time

    fn voted(&mut self, vote: Vote, digest: &PlanDigest) -> Result<(), Refusal> {
        let current = self.exec.digest();
        let requested_by = self.exec.requested_by.clone();
        let unexpected = self.unexpected("voted");
        let open = self.forward();
        let Some(ballot) = self.exec.ballot.as_mut().filter(|ballot| open && ballot.ruling.is_none()) else {
            return Err(unexpected);
        };
        if ballot.digest != current {
            *ballot = Ballot::open(current, ballot.seats.clone(), self.at, ballot.deadline);
        }
        ballot.cast(vote, digest, &requested_by)?;
        self.follow_ruling();
        Ok(())
    }

    /// Moves on by the ballot's ruling, unless there is none yet or the execution is paused.
    fn follow_ruling(&mut self) {
        let Some(ballot) = self.exec.ballot.clone() else { return };
        let (Some(ruling), Step::Approval(approval), None) = (ballot.ruling, self.step(), &self.exec.paused)
        else {
            return;
        };
        let label = Some(Approval::<W::State>::label(ruling).to_owned());
        match ruling {
            Ruling::Granted => {
                let yes = ballot.votes.iter().filter(|vote| vote.verdict == Verdict::Approve);
                let people = yes.map(|vote| vote.person.name.clone()).collect();
                self.authorise(Authoriser::People(people), ballot.digest);
                self.enter(approval.granted, label);
            }
            Ruling::Refused => self.enter(approval.refused, label),
            Ruling::Expired => self.enter(approval.expired, label),
        }
    }

    fn deadline_passed(&mut self, visit: u32) -> Result<(), Refusal> {
        if visit != self.exec.visit || !self.forward() {
            return Err(Refusal::Stale);
        }
        match self.step() {
            Step::Approval(_) => {
                if let Some(ballot) = &mut self.exec.ballot {
                    ballot.ruling.get_or_insert(Ruling::Expired);
                }
                self.follow_ruling();
            }
            Step::Wait(wait) => {
                self.exec.overdue = true;
                self.follow_deadline(&wait);
            }
            Step::Act(_) => {
                self.exec.overdue = true;
                self.wind_down();
            }
            Step::Choose(_) | Step::End(_) => return Err(self.unexpected("deadline_passed")),
        }
        Ok(())
    }

    fn follow_deadline(&mut self, wait: &Wait<W::State>) {
        if self.exec.overdue && self.exec.paused.is_none() {
            self.enter(wait.expired, Some(wait.deadline_label()));
        }
    }

    fn signalled(&mut self, name: String) {
        self.exec.signals.insert(name);
        self.follow_signals();
    }

    fn follow_signals(&mut self) {
        let Step::Wait(wait) = self.step() else { return };
        let ready = self.forward() && self.exec.paused.is_none();
        if ready && wait.signal.is_some_and(|name| self.exec.signals.remove(name)) {
            self.enter(wait.then, Some(wait.signal_label()));
        }
    }

    // ------------------------------------------------------------------ operators

    /// Turns back. Lifts a pause, since stopping must work in every state.
    fn cancel(&mut self, order: &Order) -> Result<(), Refusal> {
        if let Some(state) = &self.exec.pivot {
            return Err(Refusal::ForwardOnly { state: state.clone() });
        }
        let error =
            ActionError::permanent("execution.cancelled", format!("by {}: {}", order.by, order.reason));
        match &self.exec.phase {
            Phase::Compensating(_) | Phase::Parked { unwinding: Some(_), .. } => {
                return Err(Refusal::Unwinding);
            }
            Phase::Parked { .. } => self.turn_back(Some(error), Outcome::Cancelled),
            Phase::Forward if self.exec.cancelled.is_some() => {
                return Err(Refusal::Already("being cancelled"));
            }
            Phase::Forward => {
                self.exec.paused = None;
                if matches!(self.step(), Step::Act(_)) {
                    self.exec.cancelled = Some(order.by.clone());
                    self.wind_down();
                } else {
                    self.turn_back(Some(error), Outcome::Cancelled);
                }
            }
            Phase::Finished { .. } => return Err(Refusal::Finished),
        }
        Ok(())
    }

    fn pause(&mut self, order: Order) -> Result<(), Refusal> {
        match self.exec.phase {
            Phase::Parked { .. } => Err(Refusal::Already("parked")),
            Phase::Forward | Phase::Compensating(_) if self.exec.paused.is_some() => {
                Err(Refusal::Already("paused"))
            }
            Phase::Forward | Phase::Compensating(_) => {
                self.exec.paused = Some(order.by);
                Ok(())
            }
            Phase::Finished { .. } => Err(Refusal::Finished),
        }
    }

    /// Takes up what was held back: work, retries, rulings, signals and deadlines, in that order.
    fn resume(&mut self) -> Result<(), Refusal> {
        if self.exec.paused.take().is_none() {
            return Err(self.unexpected("resume_requested"));
        }
        if matches!(self.exec.phase, Phase::Compensating(_)) {
            self.ask_again_for_open_slots();
            self.continue_unwinding();
            return Ok(());
        }
        match self.step() {
            Step::Act(act) => {
                self.ask_again_for_open_slots();
                self.continue_act(&act);
            }
            Step::Approval(_) => self.follow_ruling(),
            Step::Wait(wait) => {
                let before = self.exec.visit;
                self.follow_signals();
                if self.exec.visit == before {
                    self.follow_deadline(&wait);
                }
            }
            Step::Choose(_) | Step::End(_) => {}
        }
        Ok(())
    }

    /// Tries now: what is parked from where it stopped, with the same idempotency keys; what waits, without waiting.
    fn retry(&mut self) -> Result<(), Refusal> {
        match self.exec.phase.clone() {
            Phase::Parked { unwinding: Some(unwinding), .. } => {
                self.exec.phase = Phase::Compensating(unwinding);
                self.unwind_next();
            }
            Phase::Parked { unwinding: None, .. } => {
                self.exec.phase = Phase::Forward;
                self.exec.visit += 1;
                self.exec.since = self.at;
                self.exec.overdue = false;
                self.retry_state();
            }
            Phase::Forward | Phase::Compensating(_) if self.exec.paused.is_some() => {
                return Err(self.unexpected("retry_requested"));
            }
            Phase::Forward | Phase::Compensating(_) => {
                let open = self.ask_again_for_open_slots();
                if open == 0 {
                    return Err(self.unexpected("retry_requested"));
                }
            }
            Phase::Finished { .. } => return Err(Refusal::Finished),
        }
        Ok(())
    }

    fn retry_state(&mut self) {
        let Step::Act(act) = self.step() else { return };
        if self.exec.slots.is_empty() {
            // It was parked before it began, for want of an authorisation.
            let state = self.exec.state;
            self.enter(state, None);
            return;
        }
        for slot in &mut self.exec.slots {
            if matches!(slot.settled, Some(Err(_))) {
                *slot = Slot { doubt: slot.doubt, ..Slot::default() };
            }
        }
        self.begin_slots(&act);
        self.wake(Some(act.within));
    }

    /// Closes by force. Nothing is undone; what was done is listed.
    fn terminate(&mut self, order: &Order) {
        let leaks: Vec<Mark> =
            self.exec.trail.iter().filter(|mark| mark.fate != Fate::Undone).cloned().collect();
        let cause =
            ActionError::permanent("execution.terminated", format!("by {}: {}", order.by, order.reason));
        self.exec.paused = None;
        self.finish(Outcome::Terminated, Some(cause), leaks);
    }

    pub(crate) fn finish(&mut self, outcome: Outcome, cause: Option<ActionError>, leaks: Vec<Mark>) {
        self.effects.clear();
        self.exec.visit += 1;
        self.exec.slots.clear();
        self.close_ballot();
        self.exec.cancelled = None;
        self.exec.phase = Phase::Finished { outcome, cause, leaks };
    }
}

/// What the shell should do with a task that has fallen due.
#[derive(Debug)]
pub(crate) enum Directive<P> {
    /// Perform this; `doubt` says that an earlier attempt may have taken effect.
    Run {
        deed: Deed<P>,
        state: String,
        entered: u32,
        slot: u32,
        undo: bool,
        failed: u32,
        doubt: bool,
        limits: Limits,
    },
    /// Deliver this failure without performing anything.
    GiveUp(ActionError),
    /// Deliver the deadline.
    Ring,
    /// The task is of no use any more.
    Drop,
}

/// The time limits of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) attempt: Duration,
    pub(crate) heartbeat: Option<Duration>,
}

/// What to do about `ticket`, as the execution stands.
pub(crate) fn directive<W: Workflow>(exec: &Execution<W>, ticket: Ticket) -> Directive<W::Platform> {
    let over = matches!(exec.phase, Phase::Finished { .. } | Phase::Parked { .. });
    if ticket.visit != exec.visit || over {
        return Directive::Drop;
    }
    if ticket.slot == Ticket::TIMER {
        return Directive::Ring;
    }
    let Some(slot) = exec.slots.get(ticket.slot as usize).filter(|slot| slot.settled.is_none()) else {
        return Directive::Drop;
    };
    if exec.paused.is_some() {
        return Directive::Drop;
    }
    if let Phase::Compensating(unwinding) = &exec.phase {
        return crate::unwind::undo_directive(exec, unwinding, ticket, slot);
    }
    if exec.overdue || exec.cancelled.is_some() {
        return Directive::GiveUp(crate::settle::stopped(exec));
    }
    let Step::Act(mut act) = exec.data.step(exec.state) else { return Directive::Drop };
    let limits = Limits { attempt: act.attempt_within, heartbeat: act.heartbeat };
    if act.branches.len() <= ticket.slot as usize {
        return Directive::GiveUp(ActionError::permanent(
            "engine.slot_gone",
            "the step no longer has this slot",
        ));
    }
    let deed = act.branches.swap_remove(ticket.slot as usize).deed;
    let (state, entered) = (exec.state_name().to_owned(), exec.entered);
    Directive::Run {
        deed,
        state,
        entered,
        slot: ticket.slot,
        undo: false,
        failed: slot.failed,
        doubt: slot.doubt,
        limits,
    }
}
