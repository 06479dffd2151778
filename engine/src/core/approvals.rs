//! The core's treatment of votes, deadlines, promises and signals. Pure, a part of [`transition`](crate::transition).
//!
//! A pause holds the consequence back, never the event: what came first while paused is what counts when it is lifted.

use crate::{
    Approval, Authoriser, Ballot, Bell, Edge, Effect, Order, Phase, PlanDigest, Refusal, Ruling, Step,
    Verdict, Vote, Wait, Workflow,
    authoring::check::destruction_after,
    core::transition::Turn,
    model::{
        approval::procedure::Moment,
        step::{ESCALATED, EXTENDED},
    },
};
use std::time::Duration;

impl<W: Workflow> Turn<W> {
    pub(crate) fn voted(&mut self, vote: Vote, digest: &PlanDigest) -> Result<(), Refusal> {
        let requested_by = self.exec.requested_by.clone();
        if vote.break_glass {
            self.check_glass()?;
        }
        let shaped_by = self.exec.shaped_by.clone();
        let ballot = self.open_ballot("voted")?;
        shaped_by.iter().try_for_each(|person| ballot.check_interests(&vote, person))?;
        ballot.cast(vote, digest, &requested_by)?;
        self.follow_ruling();
        Ok(())
    }

    pub(crate) fn vote_withdrawn(&mut self, order: &Order) -> Result<(), Refusal> {
        let at = self.at;
        self.open_ballot("vote_withdrawn")?.withdraw(&order.by, &order.reason, at)
    }

    /// The ballot as it stands at this moment, if a vote still counts.
    fn open_ballot(&mut self, event: &'static str) -> Result<&mut Ballot, Refusal> {
        let unexpected = self.unexpected(event);
        if !self.forward() {
            return Err(unexpected);
        }
        // An alarm may be late; what it would have said holds.
        self.catch_up();
        self.keep_ballot();
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

    /// Nobody destroys alone, unless policy says so of this very approval.
    fn check_glass(&self) -> Result<(), Refusal> {
        let Step::Approval(approval) = self.step() else { return Ok(()) };
        let may = self.exec.ballot.as_ref().and_then(|ballot| ballot.procedure.break_glass.as_ref());
        let allowed = may.is_none_or(|glass| glass.destroys);
        match destruction_after(&self.exec.data, approval.granted).filter(|_| !allowed) {
            Some(state) => Err(Refusal::GlassDestroys { state }),
            None => Ok(()),
        }
    }

    /// Voids the votes on a plan that no longer stands.
    pub(crate) fn keep_ballot(&mut self) {
        let at = self.at;
        if self.exec.ballot.as_ref().is_none_or(|ballot| ballot.ruling.is_some()) {
            return;
        }
        let current = self.exec.digest();
        if let Some(ballot) = self.exec.ballot.as_mut().filter(|ballot| ballot.digest != current) {
            ballot.void(current, at);
        }
    }

    /// An alarm of the ballot's timetable. One that rings twice finds that something else comes next.
    pub(crate) fn rang(&mut self, bell: Bell, moment: Moment) -> Result<(), Refusal> {
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

    /// Deals with all of the timetable that has come due, and says whether anything had.
    fn catch_up(&mut self) -> bool {
        let at = self.at;
        let passed = self.exec.ballot.as_mut().map(|ballot| ballot.pass(at)).unwrap_or_default();
        for moment in &passed {
            let label = match moment {
                Moment::Escalation => ESCALATED,
                Moment::Extension => EXTENDED,
                Moment::Reminder | Moment::Deadline => continue,
            };
            let here: &str = self.exec.state.into();
            self.edges.push(Edge { from: here.into(), label: label.into(), to: here.into() });
        }
        if !passed.is_empty() {
            self.wake_for_ballot();
        }
        !passed.is_empty()
    }

    /// Sets the alarm for what comes next.
    pub(crate) fn wake_for_ballot(&mut self) {
        let next = self.exec.ballot.as_ref().and_then(Ballot::next);
        self.wake(next.map(|(due, _)| due.since(self.at)));
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
                self.authorise(authoriser(&ballot), ballot.digest);
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
                // What should have come before it comes first, and may have moved it.
                if !self.catch_up() {
                    let ballot = self.exec.ballot.as_mut().ok_or(Refusal::Stale)?;
                    match ballot.next() {
                        Some((_, Moment::Deadline)) => ballot.ruling = Some(Ruling::Expired),
                        None => {}
                        Some((_, Moment::Escalation | Moment::Extension | Moment::Reminder)) => {
                            return Err(Refusal::Stale);
                        }
                    }
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

/// Who stands behind a ballot that was granted.
fn authoriser(ballot: &Ballot) -> Authoriser {
    if let Some(vote) = ballot.broken_by() {
        let destroys = ballot.procedure.break_glass.as_ref().is_some_and(|glass| glass.destroys);
        return Authoriser::BreakGlass { person: vote.person.name.clone(), destroys };
    }
    let yes = ballot.votes.iter().filter(|vote| vote.verdict == Verdict::Approve);
    Authoriser::People(yes.map(|vote| vote.person.name.clone()).collect())
}
