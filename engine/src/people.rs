//! The core's treatment of votes, deadlines, promises and signals. Pure, a part of [`transition`](crate::transition).
//!
//! A pause holds the consequence back, never the event: what came first while paused is what counts when it is lifted.

use crate::{
    Approval, Authoriser, Ballot, Effect, Phase, PlanDigest, Refusal, Ruling, Step, Verdict, Vote, Wait,
    Workflow, transition::Turn,
};
use std::time::Duration;

impl<W: Workflow> Turn<W> {
    pub(crate) fn voted(&mut self, vote: Vote, digest: &PlanDigest) -> Result<(), Refusal> {
        let current = self.exec.digest();
        let requested_by = self.exec.requested_by.clone();
        let unexpected = self.unexpected("voted");
        let (open, at) = (self.forward(), self.at);
        let Some(ballot) = self.exec.ballot.as_mut().filter(|ballot| open && ballot.ruling.is_none()) else {
            return Err(unexpected);
        };
        if let Some(deadline) = ballot.deadline.filter(|deadline| at >= *deadline) {
            // The timer that says so may be late; the vote is later.
            return Err(Refusal::TooLate { deadline });
        }
        if ballot.digest != current {
            *ballot = Ballot::open(current, ballot.seats.clone(), self.at, ballot.deadline);
        }
        ballot.cast(vote, digest, &requested_by)?;
        self.follow_ruling();
        Ok(())
    }

    /// Moves on by the ballot's ruling, unless there is none yet or the execution is paused.
    pub(crate) fn follow_ruling(&mut self) {
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

    pub(crate) fn deadline_passed(&mut self, visit: u32) -> Result<(), Refusal> {
        if visit != self.exec.visit || !self.forward() {
            return Err(Refusal::Stale);
        }
        if let Some(left) = self.time_left() {
            // The clock has gone back since the timer was due, or another engine's is ahead: it is set again.
            self.wake(Some(left));
            return Ok(());
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

    /// How long the state may still take by the clock of this event; `None` when its deadline has passed.
    fn time_left(&self) -> Option<Duration> {
        let since = self.exec.since;
        let deadline = match self.step() {
            Step::Approval(_) => self.exec.ballot.as_ref()?.deadline?,
            Step::Wait(wait) => since.after(wait.within?),
            Step::Act(act) => since.after(act.within),
            Step::Choose(_) | Step::End(_) => return None,
        };
        (self.at < deadline).then(|| deadline.since(self.at))
    }

    pub(crate) fn follow_deadline(&mut self, wait: &Wait<W::State>) {
        if self.exec.overdue && self.exec.paused.is_none() {
            self.enter(wait.expired, Some(wait.deadline_label()));
        }
    }

    pub(crate) fn overdue(&mut self) -> Result<(), Refusal> {
        match self.exec.promised {
            Some(promised) if promised <= self.at && !self.exec.broken => self.exec.broken = true,
            // The clock has gone back since the alarm was due: it is set again, or the promise would break in silence.
            Some(promised) if !self.exec.broken => self.effects.push(Effect::Alarm { at: promised }),
            Some(_) | None => return Err(Refusal::Stale),
        }
        Ok(())
    }

    /// Sets the alarm for what is promised now.
    pub(crate) fn keep_promise(&mut self) {
        let open = !matches!(self.exec.phase, Phase::Finished { .. });
        let promised = self.exec.data.promised().filter(|_| open);
        if promised == self.exec.promised {
            return;
        }
        (self.exec.promised, self.exec.broken) = (promised, promised.is_some_and(|by| by <= self.at));
        self.effects.extend(promised.filter(|by| *by > self.at).map(|at| Effect::Alarm { at }));
    }

    pub(crate) fn signalled(&mut self, name: String) {
        self.exec.signals.insert(name);
        self.follow_signals();
    }

    pub(crate) fn follow_signals(&mut self) {
        let Step::Wait(wait) = self.step() else { return };
        let ready = self.forward() && self.exec.paused.is_none();
        if ready && wait.signal.is_some_and(|name| self.exec.signals.remove(name)) {
            self.enter(wait.then, Some(wait.signal_label()));
        }
    }
}
