//! Decides the fate of the occurrences of one schedule. Pure: no clock, no store; its input is in [`Facts`].
//!
//! One decision starts at most one execution, because a commit starts one. The caller commits it and decides again,
//! until nothing changes. Every decision becomes a row, and no moment has two.

use super::{
    occurrence::{Failing, Fate},
    set_back::{Arrival, Recorded},
    times::utc,
};
use crate::{MAX_BUFFERED, Occurrence, Origin, Outcome, Paused, Schedule, ScheduleStatus, Target, Times};
use std::collections::BTreeMap;
use store::{ExecutionId, Timestamp};

/// The most moments that one decision processes, which bounds the size of a commit.
pub(crate) const MAX_MOMENTS: usize = 200;
/// The most open runs of one schedule.
pub(crate) const MAX_RUNNING: usize = 100;
/// The moments of a backfill whose rows are read at once.
const LOOK_AHEAD: usize = 50;

/// The input of a decision.
pub(crate) struct Facts<'a> {
    /// The definition in force.
    pub(crate) schedule: &'a Schedule,
    /// Its times.
    pub(crate) times: &'a Times,
    /// The current time.
    pub(crate) now: Timestamp,
    /// The id for the execution that this decision starts.
    pub(crate) new_execution_id: ExecutionId,
    /// Finished runs and their outcomes; any other run is open.
    pub(crate) ended: &'a BTreeMap<ExecutionId, Option<String>>,
    /// The recorded fates of the moments that [`wanted`] returns.
    pub(crate) on_record: &'a BTreeMap<Timestamp, Option<Fate>>,
    /// The rows of the moments that [`recorded_moments`](super::set_back::recorded_moments) returns.
    pub(crate) recorded: &'a Recorded,
    /// The results of earlier starts, by moment, except a start that just succeeded.
    pub(crate) tried: &'a BTreeMap<Timestamp, StartOutcome>,
    /// False if nothing may be started now; due occurrences then wait.
    pub(crate) starting: bool,
}

/// The result of the start of an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StartOutcome {
    /// Another execution blocks it; the reason.
    Busy(String),
    /// It can never be started; the reason.
    Refused(String),
    /// It cannot be started by this engine now.
    Later,
    /// It had been started before, as this execution.
    Known(ExecutionId),
}

/// How an earlier run is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndRequest {
    Cancel,
    Terminate,
}

/// The result of a decision.
#[derive(Debug)]
pub(crate) struct Decision {
    /// The new status of the schedule.
    pub(crate) status: ScheduleStatus,
    /// The rows to write, one for each moment.
    pub(crate) rows: BTreeMap<Timestamp, Occurrence>,
    /// The occurrence to start in the same commit.
    pub(crate) start: Option<Occurrence>,
    /// The runs to end.
    pub(crate) orders: Vec<(ExecutionId, EndRequest)>,
    /// True if there is something to commit.
    pub(crate) changed: bool,
    /// True if the clock was found to be set back.
    pub(crate) set_back: bool,
}

/// Returns the moments of the current backfill whose rows the next decision needs.
pub(crate) fn backfill_moments(standing: &ScheduleStatus, times: &Times) -> Vec<Timestamp> {
    let Some(backfill) = standing.backfills.first() else { return Vec::new() };
    let first = times.next_after(backfill.done);
    let all = std::iter::successors(first, |last| times.next_after(*last));
    all.take_while(|at| *at <= backfill.to).take(LOOK_AHEAD).collect()
}

/// Makes a decision.
pub(crate) fn decide(facts: &Facts<'_>, standing: ScheduleStatus) -> Decision {
    let before = standing.clone();
    let (rows, orders) = (BTreeMap::new(), Vec::new());
    let mut deciding = Decider { facts, status: standing, rows, start: None, orders, late: None };
    deciding.follow_clock();
    deciding.follow_spec();
    deciding.close_ended();
    deciding.judge_waiting(|occurrence| occurrence.origin != Origin::Backfill);
    deciding.set_aside();
    deciding.admit();
    deciding.catch_up();
    deciding.continue_backfill();
    let Decider { status: standing, rows, start, orders, .. } = deciding;
    let changed = standing != before || !rows.is_empty();
    let set_back = standing.set_back.is_some() && standing.set_back != before.set_back;
    Decision { status: standing, rows, start, orders, changed, set_back }
}

/// A decision in progress.
pub(crate) struct Decider<'a> {
    pub(crate) facts: &'a Facts<'a>,
    pub(crate) status: ScheduleStatus,
    pub(crate) rows: BTreeMap<Timestamp, Occurrence>,
    pub(crate) start: Option<Occurrence>,
    pub(crate) orders: Vec<(ExecutionId, EndRequest)>,
    /// The eligible moment that was last found to follow another.
    pub(crate) late: Option<Timestamp>,
}

impl Decider<'_> {
    /// Applies a changed built-in definition, for future moments only.
    fn follow_spec(&mut self) {
        if self.facts.schedule.target != Target::BuiltIn {
            return;
        }
        let spec = self.facts.schedule.spec();
        if self.status.spec.as_ref().is_some_and(|known| *known != spec) {
            self.status.done = self.status.done.max(self.facts.now);
        }
        self.status.spec = Some(spec);
    }

    /// Records how runs ended. A failure may pause the schedule.
    fn close_ended(&mut self) {
        for mut run in std::mem::take(&mut self.status.running) {
            let over = run.execution.and_then(|id| Some((id, self.facts.ended.get(&id)?)));
            let Some((id, outcome)) = over else {
                self.status.running.push(run);
                continue;
            };
            self.status.asked_to_end.remove(&id);
            run.outcome.clone_from(outcome);
            if let Some(outcome) = outcome.as_deref().filter(|outcome| is_failure(outcome)) {
                let reason = format!("execution {id} of {} ended {outcome}", utc(run.nominal));
                self.pause_for(reason.clone());
                let at = self.facts.now;
                self.status.failing = Some(Failing { nominal: run.nominal, at, reason, execution: Some(id) });
            } else {
                self.status.failing = None;
            }
            self.rows.insert(run.nominal, run);
        }
    }

    /// Pauses after a failure if `pause_on_failure` is set.
    pub(crate) fn pause_for(&mut self, reason: String) {
        if self.facts.schedule.pause_on_failure && self.status.paused.is_none() {
            self.status.paused = Some(Paused { by: "engine".into(), reason, at: self.facts.now });
        }
    }

    /// Decides about waiting occurrences, in the order of their turn.
    fn judge_waiting(&mut self, select: impl Fn(&Occurrence) -> bool) {
        for occurrence in std::mem::take(&mut self.status.waiting) {
            let is_due = occurrence.due() <= self.facts.now;
            if self.start.is_some() || !is_due || !select(&occurrence) {
                self.status.waiting.push(occurrence);
            } else {
                self.decide_one(occurrence, true);
            }
        }
    }

    /// Processes the moments since the last decision. Each becomes a row.
    fn admit(&mut self) {
        for _ in 0..MAX_MOMENTS {
            if self.start.is_some() {
                return;
            }
            let next = self.facts.times.next_after(self.status.done);
            let Some(nominal) = next.filter(|nominal| *nominal <= self.facts.now) else {
                self.forget_set_back();
                return;
            };
            match self.arrival(nominal) {
                Arrival::Unknown => return,
                Arrival::PassedOver => self.status.done = nominal,
                Arrival::Taken(free) => {
                    self.status.done = nominal;
                    self.take_up(free, self.facts.schedule.due(nominal));
                }
            }
        }
    }

    /// Decides about a moment that has come.
    pub(crate) fn take_up(&mut self, nominal: Timestamp, due: Timestamp) {
        let Facts { schedule, times, now, .. } = *self.facts;
        let occurrence = Occurrence {
            schedule: schedule.name.clone(),
            nominal,
            at: now,
            fate: Fate::Pending,
            due: (due != nominal).then_some(due),
            origin: Origin::Clock,
            by: None,
            version: schedule.version,
            reason: String::new(),
            execution: None,
            outcome: None,
        };
        if let Some(days) = schedule.excluded(times, nominal) {
            self.close_occurrence(occurrence, Fate::Excluded, days.why.clone());
        } else if let Some(paused) = &self.status.paused {
            let reason = attributed_reason(&paused.by, &paused.reason);
            self.close_occurrence(occurrence, Fate::Paused, reason);
        } else {
            self.decide_one(occurrence, false);
        }
    }

    /// Continues the oldest backfill. One occurrence at a time waits for its turn, and the next is added only after
    /// it has started. So no moment is left out, however long the span is.
    fn continue_backfill(&mut self) {
        while let Some(backfill) = self.status.backfills.first().cloned() {
            self.judge_waiting(|occurrence| occurrence.origin == Origin::Backfill);
            let waits = self.status.waiting.iter().any(|waits| waits.origin == Origin::Backfill);
            if self.start.is_some() || waits {
                return;
            }
            let next = self.facts.times.next_after(backfill.done).filter(|next| *next <= backfill.to);
            let Some(nominal) = next else {
                self.status.backfills.remove(0);
                return;
            };
            let known = self.facts.on_record.get(&nominal);
            let is_seen =
                nominal <= self.status.done && !self.status.catching_up.is_some_and(|span| span.has(nominal));
            let Some(known) = known.filter(|_| is_seen && !self.rows.contains_key(&nominal)) else {
                return;
            };
            if let Some(oldest) = self.status.backfills.first_mut() {
                oldest.done = nominal;
            }
            self.make_up_for(nominal, *known, &backfill.by);
        }
        self.judge_waiting(|occurrence| occurrence.origin == Origin::Backfill);
    }

    /// Adds one occurrence of a backfill, unless it was started, already waits, or is on an excluded day.
    fn make_up_for(&mut self, nominal: Timestamp, known: Option<Fate>, by: &str) {
        let Facts { schedule, times, now, .. } = *self.facts;
        let occurrence = Occurrence {
            schedule: schedule.name.clone(),
            nominal,
            at: now,
            fate: Fate::Buffered,
            due: Some(now),
            origin: Origin::Backfill,
            by: Some(by.to_owned()),
            version: schedule.version,
            reason: known.map(|fate| format!("was {}", fate.name())).unwrap_or_default(),
            execution: None,
            outcome: None,
        };
        let excluded = schedule.excluded(times, nominal);
        match (known, excluded) {
            (Some(Fate::Fired | Fate::Pending | Fate::Buffered), _) | (Some(_), Some(_)) => {}
            (None, Some(days)) => self.close_occurrence(occurrence, Fate::Excluded, days.why.clone()),
            (_, None) => self.decide_one(occurrence, false),
        }
    }

    /// Decides about a due occurrence. `recorded` is true if its row is unchanged.
    fn decide_one(&mut self, mut occurrence: Occurrence, recorded: bool) {
        match self.verdict(&occurrence, recorded) {
            OccurrenceDecision::Start => self.fire(occurrence),
            OccurrenceDecision::Wait(fate, reason) => {
                if !recorded || occurrence.fate != fate {
                    occurrence.reason = reason;
                    (occurrence.fate, occurrence.at) = (fate, self.facts.now);
                    self.rows.insert(occurrence.nominal, occurrence.clone());
                }
                let turn = |other: &Occurrence| (other.due(), other.nominal);
                let place = self.status.waiting.partition_point(|other| turn(other) <= turn(&occurrence));
                self.status.waiting.insert(place, occurrence);
            }
            OccurrenceDecision::Drop(fate, reason) => {
                if fate == Fate::Failed {
                    let why = format!(
                        "the occurrence of {} could not be started: {reason}",
                        utc(occurrence.nominal)
                    );
                    self.pause_for(why.clone());
                    let (nominal, at) = (occurrence.nominal, self.facts.now);
                    self.status.failing = Some(Failing { nominal, at, reason: why, execution: None });
                }
                self.close_occurrence(occurrence, fate, reason);
            }
        }
    }

    fn fire(&mut self, mut occurrence: Occurrence) {
        (occurrence.fate, occurrence.at) = (Fate::Fired, self.facts.now);
        // The start succeeded after a failure. The end of the run is recorded later.
        self.status.failing = self.status.failing.take().filter(|failing| failing.execution.is_some());
        match (&self.facts.schedule.target, self.facts.tried.get(&occurrence.nominal)) {
            (Target::Start { .. }, Some(StartOutcome::Known(id))) => {
                occurrence.execution = Some(*id);
                self.status.running.push(occurrence.clone());
            }
            (Target::Start { .. }, _) => {
                occurrence.execution = Some(self.facts.new_execution_id);
                self.status.running.push(occurrence.clone());
                self.start = Some(occurrence.clone());
            }
            (Target::BuiltIn, _) => self.start = Some(occurrence.clone()),
        }
        self.rows.insert(occurrence.nominal, occurrence);
    }

    /// Records the final fate of an occurrence.
    pub(crate) fn close_occurrence(&mut self, mut occurrence: Occurrence, fate: Fate, reason: String) {
        (occurrence.fate, occurrence.reason, occurrence.at) = (fate, reason, self.facts.now);
        self.rows.insert(occurrence.nominal, occurrence);
    }

    /// Returns true if no more occurrences may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.status.waiting.len() >= usize::try_from(MAX_BUFFERED).unwrap_or(usize::MAX)
    }
}

/// Returns `by: reason`, or only `by` without a reason.
pub(crate) fn attributed_reason(by: &str, reason: &str) -> String {
    if reason.is_empty() { format!("by {by}") } else { format!("by {by}: {reason}") }
}

/// Returns true if the outcome is a failure of the schedule's purpose. A cancel or a termination is a person's
/// decision about one run, and does not count.
fn is_failure(outcome: &str) -> bool {
    let name = |outcome: Outcome| -> &'static str { outcome.into() };
    [Outcome::RolledBack, Outcome::Rejected, Outcome::Refused, Outcome::Expired]
        .into_iter()
        .any(|failure| name(failure) == outcome)
}

/// The decision about an occurrence, and its reason.
pub(crate) enum OccurrenceDecision {
    Start,
    Wait(Fate, String),
    Drop(Fate, String),
}
