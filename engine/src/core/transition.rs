//! The pure core: takes one event, returns the next execution and the effects to perform.
//!
//! Called by [`Engine::deliver`](crate::Engine::deliver) with a freshly loaded record; the result is committed whole
//! or not at all. Invariant: no clock, no store, no network (`at` is an input). The same execution and event always
//! give the same answer. `slots.rs` handles slots, `unwind.rs` compensation.

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

/// The most states that one event may enter. A workflow that exceeds it has an endless loop of choices, and is
/// parked.
const MAX_STATES_PER_EVENT: u32 = 64;
/// How often a plan may change after its authorisation before the execution is parked.
const MAX_PLAN_CHANGES: u32 = 3;

/// The result of an event.
#[derive(Debug)]
pub struct Transition<W: Workflow> {
    /// The execution afterwards.
    pub execution: Execution<W>,
    /// The effects to perform.
    pub effects: Vec<Effect>,
    /// The edges of the diagram that were taken.
    pub edges: Vec<Edge>,
    /// The ballot that this event closed, with [`Execution::states_entered`] at its time. Without a ruling, it was
    /// abandoned.
    pub closed: Option<(u32, Ballot)>,
}

/// Applies `event`, which happened at `at`.
///
/// # Errors
/// Returns a [`Refusal`] if the execution does not accept the event; then nothing has changed.
pub fn transition<W: Workflow>(
    execution: Execution<W>,
    event: Event,
    at: Timestamp,
) -> Result<Transition<W>, Refusal> {
    transition_with(execution, event, at, &mut KnownStep::default())
}

/// Applies `event` with the cached values `known` of the execution, and updates them for the next one.
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
    /// The cached values of the execution.
    pub(crate) known: KnownStep<W>,
    /// The second person who confirmed the command.
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

    /// Enters `state` by the edge `label`, and continues through every state that ends at once.
    pub(crate) fn enter(&mut self, state: W::State, label: Option<String>) {
        let mut next = Some((state, label));
        for _ in 0..MAX_STATES_PER_EVENT {
            let Some((state, label)) = next.take() else { return };
            self.arrive(state, label);
            next = self.begin_state();
        }
        if next.is_some() {
            let error =
                ActionError::permanent("engine.endless", "the workflow changes its state without end");
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

    /// Begins the current state. Returns the next state if there is nothing to wait for.
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
        // A ledger action passes the pivot in the commit that settles it; any other action passes it before it
        // begins.
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

    /// Returns `None` to continue, `Some(None)` if the execution was parked, `Some(state)` to go back to that
    /// approval.
    pub(crate) fn check_authorisation(&mut self, act: &Act<W>) -> Option<Option<W::State>> {
        let (needed, people) = act.authority_needed();
        if !needed {
            return None;
        }
        let current = self.exec.digest();
        if self.exec.pivot.is_some() {
            // Past the pivot there is no way back to an approval. Without consent of people to this plan, nothing is
            // destroyed.
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
                self.park_unauthorised("the plan differs from the plan that the parent execution authorised");
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

    /// Records the authorisation. An earlier authorisation of the same plan is kept, because the plan passed by it.
    /// Only a break-glass authorisation is replaced.
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
