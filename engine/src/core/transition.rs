//! The pure core: one event in, the next execution and what to do about it out.
//!
//! Called by [`Engine::deliver`](crate::Engine::deliver) with a record just loaded, and its result is committed whole
//! or not at all. Invariant: nothing here reads a clock, a store or the world (`at` is an input like any other), so the
//! same execution and event always give the same answer. What happens to slots is in `slots.rs`, the way back in
//! `unwind.rs`.

use crate::{
    Act, ActionError, Authorisation, Authoriser, Ballot, Commitment, Edge, Effect, Event, Execution, Outcome,
    Phase, PlanDigest, Reason, Refusal, Slot, Step, TrailEntry, Wait, Workflow,
    core::known_step::KnownStep,
    model::{
        approval::timetable::TimetableEvent,
        definition::{
            erased_action::ErasedActionKind,
            step::{DONE, PLAN_CHANGED},
        },
        execution::state::state_named,
    },
};
use std::time::Duration;
use store::Timestamp;

/// The most states entered by one event: a loop of choices is a bug of its workflow, and is parked.
const MAX_STATES_PER_EVENT: u32 = 64;
/// How often a plan may change after it was authorised before an operator has to look.
const MAX_PLAN_CHANGES: u32 = 3;

/// What an event led to.
#[derive(Debug)]
pub struct Transition<W: Workflow> {
    /// The execution afterwards.
    pub execution: Execution<W>,
    /// What to do.
    pub effects: Vec<Effect>,
    /// The ways taken.
    pub edges: Vec<Edge>,
    /// The ballot that this event ended, with [`Execution::states_entered`] at its time; without a ruling it was withdrawn.
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
    transition_with(execution, event, at, &mut KnownStep::default())
}

/// The same with what is `known` of the execution, which afterwards is what is known of the next one.
pub(crate) fn transition_with<W: Workflow>(
    execution: Execution<W>,
    event: Event,
    at: Timestamp,
    known: &mut KnownStep<W>,
) -> Result<Transition<W>, Refusal> {
    let known_before = std::mem::take(known);
    // A result changes the data only on the way to another state, which forgets what is known.
    let keeps = matches!(event, Event::Settled { .. } | Event::Probed { .. });
    let mut turn = TransitionCtx {
        known: if keeps { known_before } else { KnownStep::default() },
        exec: execution,
        at,
        effects: Vec::new(),
        edges: Vec::new(),
        closed: None,
        seconded_by: None,
    };
    turn.apply(event)?;
    turn.void_outdated_votes();
    turn.set_promise_alarm();
    // On the way back the slots are others, and trail entries change many at a time.
    if keeps && matches!(turn.exec.phase, Phase::Forward) {
        *known = turn.known;
    }
    Ok(Transition { execution: turn.exec, effects: turn.effects, edges: turn.edges, closed: turn.closed })
}

/// An execution while it takes one event.
pub(crate) struct TransitionCtx<W: Workflow> {
    pub(crate) exec: Execution<W>,
    pub(crate) at: Timestamp,
    pub(crate) effects: Vec<Effect>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) closed: Option<(u32, Ballot)>,
    /// What is known of the execution as it stands.
    pub(crate) known: KnownStep<W>,
    /// Who agreed to the command as a second person.
    pub(crate) seconded_by: Option<String>,
}

impl<W: Workflow> TransitionCtx<W> {
    pub(crate) fn apply(&mut self, event: Event) -> Result<(), Refusal> {
        if matches!(self.exec.phase, Phase::Finished { .. }) {
            return self.applied_after_end(event);
        }
        match event {
            Event::Started if self.exec.visit == 0 => self.enter(W::INITIAL, None),
            Event::Settled { ticket, result, .. } => self.settled(ticket, result)?,
            Event::Probed { ticket, answer } => self.probed(ticket, answer)?,
            Event::Held { ticket, doubt } => self.hold_slot(ticket, doubt)?,
            Event::Voted { vote, digest } => self.voted(vote, &digest)?,
            Event::VoteWithdrawn(order) => self.vote_withdrawn(&order)?,
            Event::Reminded(bell) => self.timetable_alarm(bell, TimetableEvent::Reminder)?,
            Event::Escalated(bell) => self.timetable_alarm(bell, TimetableEvent::Escalation)?,
            Event::Extended(bell) => self.timetable_alarm(bell, TimetableEvent::Extension)?,
            Event::DeadlinePassed { visit } => self.deadline_passed(visit)?,
            Event::Overdue => self.overdue()?,
            Event::CommitRefused { ticket, error } => self.commit_refused(ticket, error)?,
            Event::Signalled { name } => self.signalled(name),
            Event::CancelRequested(order) => self.cancel(&order)?,
            Event::PauseRequested(order) => self.pause(order)?,
            Event::ResumeRequested(_) => self.resume()?,
            Event::RetryRequested(_) => self.retry()?,
            Event::TerminateRequested(order) => self.terminate(&order),
            Event::LeftoversReleased(_) => return Err(self.unexpected("leftovers_released")),
            Event::Repaired { repair, order } => self.repaired(repair, &order)?,
            Event::Seconded { event, by } => self.seconded(*event, &by)?,
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

    pub(crate) fn forward(&self) -> bool {
        matches!(self.exec.phase, Phase::Forward)
    }

    /// Enters `state` by the way `label`, and goes on through every state that needs no waiting.
    pub(crate) fn enter(&mut self, state: W::State, label: Option<String>) {
        let mut next = Some((state, label));
        for _ in 0..MAX_STATES_PER_EVENT {
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
        self.known.forget();
        self.exec.state = state;
        self.exec.visit += 1;
        self.exec.states_entered += 1;
        self.exec.since = self.at;
        self.exec.slots.clear();
        self.exec.overdue = false;
    }

    pub(crate) fn close_ballot(&mut self) {
        let states_entered = self.exec.states_entered;
        self.closed = self.exec.ballot.take().map(|ballot| (states_entered, ballot)).or(self.closed.take());
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
                let taken = choose.chosen.min(choose.options.len().saturating_sub(1));
                let choice = choose.options.swap_remove(taken);
                if let Some(rule) = choice.waiver {
                    self.authorise(Authoriser::Waiver(rule), self.exec.digest());
                }
                Some((choice.to, Some(choice.label.to_owned())))
            }
            Step::Approval(approval) => {
                let deadline = approval.within.map(|within| self.at.after(within));
                let ballot = Ballot::open(self.exec.digest(), approval.seats, self.at, deadline);
                self.exec.ballot = Some(ballot.with_procedure(approval.procedure));
                self.wake_for_ballot();
                None
            }
            Step::Wait(wait) => self.begin_wait(&wait),
            Step::Act(act) => self.begin_act(&act),
        }
    }

    fn begin_wait(&mut self, wait: &Wait<W::State>) -> Option<(W::State, Option<String>)> {
        let earlier = wait.signal.is_some_and(|name| self.exec.signals.remove(name));
        if earlier && wait.earlier {
            return Some((wait.then, Some(wait.signal_label())));
        }
        self.schedule_wakeup(wait.within);
        None
    }

    fn begin_act(&mut self, act: &Act<W>) -> Option<(W::State, Option<String>)> {
        if let Some(asked) = self.check_authorisation(act) {
            return asked.map(|state| (state, Some(PLAN_CHANGED.into())));
        }
        let ledger =
            act.branches.iter().all(|branch| matches!(branch.action.kind, ErasedActionKind::Ledger(_)));
        // A ledger action's pivot takes effect in the commit that settles it; one on the world, the moment it may begin.
        if matches!(act.commitment, Commitment::ForwardOnly { .. }) && (!ledger || act.branches.is_empty()) {
            self.pass_pivot();
        }
        if act.branches.is_empty() {
            return Some((act.next, Some(DONE.into())));
        }
        self.exec.slots = vec![Slot::default(); act.branches.len()];
        self.begin_slots(act);
        self.schedule_wakeup(Some(act.within));
        None
    }

    pub(crate) fn pass_pivot(&mut self) {
        self.exec.pivot.get_or_insert_with(|| self.exec.state.into().to_owned());
    }

    /// `None` to go on; `Some(None)` when it has been parked; `Some(state)` to ask there again.
    pub(crate) fn check_authorisation(&mut self, act: &Act<W>) -> Option<Option<W::State>> {
        let (needed, people) = act.authority_needed();
        if !needed {
            return None;
        }
        let current = self.exec.digest();
        if self.exec.pivot.is_some() {
            // There is no way back to ask again, and nothing is destroyed that nobody agreed to.
            let given = self.exec.authorisation.as_ref();
            let agreed = given.is_some_and(|given| given.digest == current && given.by.is_people());
            if agreed || !people {
                return None;
            }
            self.park_unauthorised("the plan has changed past the point of no return");
            return Some(None);
        }
        let given = self.exec.authorisation.take();
        match given {
            Some(given) if given.digest == current && (!people || given.by.is_people()) => {
                self.exec.authorisation = Some(given);
                None
            }
            Some(given) if matches!(given.by, Authoriser::Parent { .. }) => {
                self.exec.authorisation = Some(given);
                self.park_unauthorised("the plan is not the one that the parent execution answers for");
                Some(None)
            }
            Some(given) if self.exec.asked_again < MAX_PLAN_CHANGES => {
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

    /// Keeps an earlier authorisation of the same plan: what more people agree to later is not what let it pass. Whoever
    /// broke the glass gives way to people who were asked.
    pub(crate) fn authorise(&mut self, by: Authoriser, digest: PlanDigest) {
        let whole = |given: &Authorisation| !matches!(given.by, Authoriser::BreakGlass { .. });
        if self.exec.authorisation.as_ref().is_some_and(|given| given.digest == digest && whole(given)) {
            return;
        }
        let state = self.exec.state_name().to_owned();
        self.exec.authorisation = Some(Authorisation { digest, state, by });
    }

    pub(crate) fn schedule_wakeup(&mut self, after: Option<Duration>) {
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

    pub(crate) fn finish(&mut self, outcome: Outcome, cause: Option<ActionError>, leaks: Vec<TrailEntry>) {
        self.effects.clear();
        self.exec.visit += 1;
        self.exec.slots.clear();
        self.close_ballot();
        self.exec.cancelled = None;
        self.exec.phase = Phase::Finished { outcome, cause, leaks };
    }
}
