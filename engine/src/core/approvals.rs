//! Votes and the timetable of a ballot. Pure, a part of [`transition`](crate::transition()).
//!
//! A pause delays the consequence of an event, not the event itself: on resume, the first event of the pause counts.

use super::transition::TransitionCtx;
use crate::{
    Approval, Attribution, Authoriser, Ballot, Edge, Person, PlanDigest, Refusal, Ruling, Step,
    TimetableAlarm, Verdict, Vote, Workflow,
    model::{
        approval::timetable::TimetableEvent,
        definition::{
            graph::destruction_after,
            step::{ESCALATED, EXTENDED},
        },
    },
};

impl<W: Workflow> TransitionCtx<W> {
    pub(crate) fn voted(&mut self, vote: Vote, digest: &PlanDigest) -> Result<(), Refusal> {
        if vote.break_glass {
            self.check_glass()?;
        }
        let asked = self.who_asked(&vote);
        self.open_ballot("voted")?.cast_among(vote, digest, &asked)?;
        self.follow_ruling();
        Ok(())
    }

    /// Returns the requester and all people who changed the plan, each with the provenance of their credentials.
    fn who_asked(&self, vote: &Vote) -> Vec<Person> {
        let gathered = |name: &String| vote.parties.get(name).cloned().map(Box::new);
        let person = |name: &String| Person::new(name, [""; 0]).with_provenance(gathered(name));
        let mut asked = vec![person(&self.exec.requested_by)];
        if let (Some(requester), Some(recorded)) = (asked.first_mut(), &self.exec.requester) {
            requester.provenance = Some(Box::new(recorded.clone()));
        }
        asked.extend(self.exec.shaped_by.iter().map(person));
        asked
    }

    pub(crate) fn vote_withdrawn(&mut self, order: &Attribution) -> Result<(), Refusal> {
        let at = self.at;
        self.open_ballot("vote_withdrawn")?.withdraw(&order.by, &order.reason, at)
    }

    /// Returns the ballot after its timetable has caught up, or a refusal if a vote no longer counts.
    fn open_ballot(&mut self, event: &'static str) -> Result<&mut Ballot, Refusal> {
        let unexpected = self.unexpected(event);
        if !self.forward() {
            return Err(unexpected);
        }
        // Alarms may be late, so apply every part of the timetable that is already due.
        self.catch_up();
        self.void_outdated_votes();
        let at = self.at;
        let Some(ballot) = self.exec.ballot.as_mut() else { return Err(unexpected) };
        if let Some(ruling) = ballot.ruling {
            return Err(Refusal::Decided { ruling });
        }
        match ballot.deadline {
            Some(deadline) if at >= deadline => Err(Refusal::TooLate { deadline }),
            Some(_) | None => Ok(ballot),
        }
    }

    /// Refuses a break-glass vote that leads to a destruction, unless the procedure of this approval allows it.
    fn check_glass(&self) -> Result<(), Refusal> {
        let Step::Approval(approval) = self.step() else { return Ok(()) };
        let may = self.exec.ballot.as_ref().and_then(|ballot| ballot.procedure.break_glass.as_ref());
        let allowed = may.is_none_or(|glass| glass.destroys);
        match destruction_after(&self.exec.data, approval.granted).filter(|_| !allowed) {
            Some(state) => Err(Refusal::BreakGlassDestroys { state }),
            None => Ok(()),
        }
    }

    /// Voids the votes if the plan has changed since they were cast.
    pub(crate) fn void_outdated_votes(&mut self) {
        let at = self.at;
        if self.exec.ballot.as_ref().is_none_or(|ballot| ballot.ruling.is_some()) {
            return;
        }
        let current = self.exec.digest();
        if let Some(ballot) = self.exec.ballot.as_mut().filter(|ballot| ballot.digest != current) {
            ballot.void(current, at);
        }
    }

    /// Applies an alarm of the ballot's timetable. Duplicate alarms are refused as stale.
    pub(crate) fn timetable_alarm(
        &mut self,
        bell: TimetableAlarm,
        moment: TimetableEvent,
    ) -> Result<(), Refusal> {
        let next = self.exec.ballot.as_ref().and_then(Ballot::next);
        if bell.visit != self.exec.visit || !self.forward() || next != Some((bell.due, moment)) {
            return Err(Refusal::Stale);
        }
        if !self.catch_up() {
            // The clock has gone back since it was due.
            self.wake_for_ballot();
        }
        self.follow_ruling();
        Ok(())
    }

    /// Applies every part of the timetable that is due. Returns true if there was any.
    pub(super) fn catch_up(&mut self) -> bool {
        let at = self.at;
        let passed = self.exec.ballot.as_mut().map(|ballot| ballot.advance_to(at)).unwrap_or_default();
        for moment in &passed {
            let label = match moment {
                TimetableEvent::Escalation => ESCALATED,
                TimetableEvent::Extension => EXTENDED,
                TimetableEvent::Reminder | TimetableEvent::Deadline => continue,
            };
            let here: &str = self.exec.state.into();
            self.edges.push(Edge { from: here.into(), label: label.into(), to: here.into() });
        }
        if !passed.is_empty() {
            self.wake_for_ballot();
        }
        !passed.is_empty()
    }

    /// Schedules the alarm for the next part of the timetable.
    pub(crate) fn wake_for_ballot(&mut self) {
        let next = self.exec.ballot.as_ref().and_then(Ballot::next);
        self.schedule_wakeup(next.map(|(due, _)| due.since(self.at)));
    }

    /// Enters the state that the ballot's ruling leads to, unless there is no ruling yet or the execution is paused.
    pub(crate) fn follow_ruling(&mut self) {
        let Some(ballot) = self.exec.ballot.clone() else { return };
        let (Some(ruling), Step::Approval(approval), None) = (ballot.ruling, self.step(), &self.exec.paused)
        else {
            return;
        };
        let label = Some(Approval::<W::State>::label(ruling).to_owned());
        match ruling {
            Ruling::Granted => {
                self.authorise(authoriser(&ballot), ballot.digest);
                self.enter(approval.granted, label);
            }
            Ruling::Refused => self.enter(approval.refused, label),
            Ruling::Expired => self.enter(approval.expired, label),
        }
    }
}

/// Returns the authoriser of a granted ballot.
fn authoriser(ballot: &Ballot) -> Authoriser {
    if let Some(vote) = ballot.break_glass_vote() {
        let destroys = ballot.procedure.break_glass.as_ref().is_some_and(|glass| glass.destroys);
        return Authoriser::BreakGlass { person: vote.person.name.clone(), destroys };
    }
    let yes = ballot.votes.iter().filter(|vote| vote.verdict == Verdict::Approve);
    Authoriser::People(yes.map(|vote| vote.person.name.clone()).collect())
}
