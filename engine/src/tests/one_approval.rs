//! A workflow with one approval and a pivot after it.

use crate::{
    Action, ActionError, Attribution, Ballot, Call, DAY, Escalation, Event, Execution, HOUR, MINUTE, Outcome,
    Person, Plan, PlanDigest, Procedure, Refusal, Seat, Step, Subject, TimetableAlarm, Transition, Verdict,
    Vote, VoteDelegation, Workflow, act, approval, await_signal, end,
    model::approval::timetable::TimetableEvent, transition,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::Timestamp;
use strum::{IntoStaticStr, VariantArray};

pub(super) const START: Timestamp = Timestamp(1_767_225_600_000);

/// Requires two people of `ops` within a day.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) plan: u32,
    pub(super) destroys: bool,
    /// True if the plan changes once after its approval.
    pub(super) drifts: bool,
    pub(super) procedure: Procedure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub(super) enum State {
    Asking,
    Listening,
    Drifting,
    Acting,
    Done,
    Refused,
    Expired,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pass;

impl Action for Pass {
    const NAME: &'static str = "Pass";
    type Platform = ();
    type Output = ();
    const RESULT: crate::ResultSource = crate::ResultSource::Deed;

    async fn run(&self, (): &(), _: &Call) -> Result<(), ActionError> {
        Ok(())
    }
}

impl Question {
    pub(super) fn plain() -> Self {
        Self { plan: 1, destroys: false, drifts: false, procedure: Procedure::default() }
    }

    pub(super) fn held_by(procedure: Procedure) -> Self {
        Self { procedure, ..Self::plain() }
    }
}

impl Workflow for Question {
    const NAME: &'static str = "question";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Asking;
    type State = State;
    type Platform = ();

    fn step(&self, state: State) -> Step<Self> {
        match state {
            State::Asking => approval([Seat::new("ops", 2)])
                .within(DAY)
                .with_procedure(self.procedure.clone())
                .granted(State::Listening)
                .refused(State::Refused)
                .expired(State::Expired),
            State::Listening => {
                let next = if self.drifts { State::Drifting } else { State::Acting };
                await_signal("go").within(HOUR).then(next).expired(next)
            }
            State::Drifting => act(Pass)
                .nothing_to_undo()
                .within(MINUTE)
                .record(|me: &mut Self, ()| (me.plan, me.drifts) = (me.plan + 1, false))
                .then(State::Acting),
            State::Acting if self.destroys => {
                act(Pass).forward_only().destroys().within(MINUTE).then(State::Done)
            }
            State::Acting => act(Pass).forward_only().within(MINUTE).then(State::Done),
            State::Done => end(Outcome::Completed),
            State::Refused => end(Outcome::Refused),
            State::Expired => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "acme".into(), name: "question".into(), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: "ask".into(), decides: json!({ "plan": self.plan }), placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        let timely = Self::held_by(Procedure {
            escalate: vec![
                Escalation { after: 6 * HOUR, seats: vec![Seat::new("lead", 1)] },
                Escalation { after: 12 * HOUR, seats: vec![Seat::new("chief", 1)] },
            ],
            extend: Some(DAY),
            ..Procedure::default()
        });
        vec![Self { drifts: true, ..timely.clone() }, timely]
    }
}

/// An execution with the current time.
pub(super) struct Asked {
    pub(super) exec: Execution<Question>,
    pub(super) now: Timestamp,
}

pub(super) fn person(name: &str, roles: &[&str]) -> Person {
    Person::new(name, roles.iter().copied())
}

pub(super) fn mandate(from: &str, to: &str, since: Timestamp, until: Timestamp) -> VoteDelegation {
    VoteDelegation {
        id: format!("{from}-{to}"),
        from: from.into(),
        to: to.into(),
        roles: vec![],
        since,
        until,
    }
}

impl Asked {
    pub(super) fn of(question: Question) -> Self {
        let exec = Execution::new(question, "rita", START);
        let mut asked = Self { exec, now: START };
        asked.take(Event::Started).unwrap();
        asked
    }

    pub(super) fn take(&mut self, event: Event) -> Result<Transition<Question>, Refusal> {
        let taken = transition(self.exec.clone(), event, self.now)?;
        self.exec = taken.execution.clone();
        Ok(taken)
    }

    pub(super) fn ballot(&self) -> &Ballot {
        self.exec.ballot.as_ref().unwrap()
    }

    pub(super) fn vote(&self, name: &str, roles: &[&str]) -> Vote {
        Vote::new(person(name, roles), Verdict::Approve, "", self.now)
    }

    pub(super) fn cast(&mut self, vote: Vote) -> Result<Transition<Question>, Refusal> {
        let digest = self.exec.digest();
        self.take(Event::Voted { vote, digest })
    }

    pub(super) fn cast_for(&mut self, vote: Vote, digest: &PlanDigest) -> Result<(), Refusal> {
        self.take(Event::Voted { vote, digest: digest.clone() }).map(|_| ())
    }

    pub(super) fn agree(&mut self, name: &str, roles: &[&str]) -> Result<(), Refusal> {
        let vote = self.vote(name, roles);
        self.cast(vote).map(|_| ())
    }

    pub(super) fn withdraw(&mut self, by: &str) -> Result<(), Refusal> {
        let order = Attribution { by: by.into(), reason: "on second thoughts".into() };
        self.take(Event::VoteWithdrawn(order)).map(|_| ())
    }

    /// Returns the event of the next alarm.
    pub(super) fn alarm(&self) -> Option<(Timestamp, Event)> {
        let visit = self.exec.visit;
        let (due, moment) = self.exec.ballot.as_ref()?.next()?;
        let bell = TimetableAlarm { visit, due };
        let event = match moment {
            TimetableEvent::Reminder => Event::Reminded(bell),
            TimetableEvent::Escalation => Event::Escalated(bell),
            TimetableEvent::Extension => Event::Extended(bell),
            TimetableEvent::Deadline => Event::DeadlinePassed { visit },
        };
        Some((due, event))
    }

    /// Delivers the next alarm at its time, and returns it.
    pub(super) fn ring(&mut self) -> &'static str {
        let (due, event) = self.alarm().unwrap();
        self.now = self.now.max(due);
        let name = event.name();
        self.take(event).unwrap();
        name
    }
}
