//! What becomes of the occurrences of one schedule. Pure: no clock, no store; what it is to know is in [`Facts`].
//!
//! One decision asks for one start at most, since a commit starts one execution; the caller commits it and decides
//! again, until nothing changes. Whatever is decided is a row, and no moment has two.

use super::{
    occurrence::{Failing, Fate},
    set_back::{Arrival, Recorded},
    times::utc,
};
use crate::{MAX_BUFFERED, Occurrence, Origin, Outcome, Paused, Schedule, ScheduleStatus, Target, Times};
use std::collections::BTreeMap;
use store::{ExecutionId, Timestamp};

/// Moments that one decision looks at, at most, so that no commit grows without bound.
pub(crate) const MAX_MOMENTS: usize = 200;
/// Open runs of one schedule, at most.
pub(crate) const MAX_RUNNING: usize = 100;
/// Moments of a backfill whose rows are looked up at once.
const LOOK_AHEAD: usize = 50;

/// What a decision rests on.
pub(crate) struct Facts<'a> {
    /// The definition in force.
    pub(crate) schedule: &'a Schedule,
    /// When it recurs.
    pub(crate) times: &'a Times,
    /// The time of day.
    pub(crate) now: Timestamp,
    /// What the execution is to be called that this decision starts.
    pub(crate) new_execution_id: ExecutionId,
    /// Runs that are over, and how each ended; a run that is not here is open.
    pub(crate) ended: &'a BTreeMap<ExecutionId, Option<String>>,
    /// What is on record of the moments that [`wanted`] names.
    pub(crate) on_record: &'a BTreeMap<Timestamp, Option<Fate>>,
    /// What is on record of the moments that [`recorded_moments`](super::set_back::recorded_moments) names.
    pub(crate) recorded: &'a Recorded,
    /// What came of trying to start occurrences, by moment, where an execution did not just start.
    pub(crate) tried: &'a BTreeMap<Timestamp, StartOutcome>,
    /// Whether anything may be started; if not, what is due waits.
    pub(crate) starting: bool,
}

/// What came of trying to start an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StartOutcome {
    /// Another execution stands in the way: in words.
    Busy(String),
    /// It cannot be started as it is: in words.
    Refused(String),
    /// It cannot be started by this engine now.
    Later,
    /// It was started before, as this execution.
    Known(ExecutionId),
}

/// How an earlier run is made to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndRequest {
    Cancel,
    Terminate,
}

/// What follows.
#[derive(Debug)]
pub(crate) struct Decision {
    /// Where the schedule stands then.
    pub(crate) status: ScheduleStatus,
    /// Rows to write, one a moment.
    pub(crate) rows: BTreeMap<Timestamp, Occurrence>,
    /// What is to be started with the same commit.
    pub(crate) start: Option<Occurrence>,
    /// Runs to be ended.
    pub(crate) orders: Vec<(ExecutionId, EndRequest)>,
    /// Whether there is anything to commit.
    pub(crate) changed: bool,
    /// Whether the clock was found to be set back.
    pub(crate) set_back: bool,
}

/// The moments of the backfill under way whose rows the next decision has to know.
pub(crate) fn backfill_moments(standing: &ScheduleStatus, times: &Times) -> Vec<Timestamp> {
    let Some(backfill) = standing.backfills.first() else { return Vec::new() };
    let first = times.next_after(backfill.done);
    let all = std::iter::successors(first, |last| times.next_after(*last));
    all.take_while(|at| *at <= backfill.to).take(LOOK_AHEAD).collect()
}

/// Decides.
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

/// A decision that is being made.
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
    /// The moments of what is built in change with the program or its policy, and never for the past.
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

    /// Notes how runs ended; one that failed may pause the schedule.
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

    /// A failure pauses, if the schedule says so.
    pub(crate) fn pause_for(&mut self, reason: String) {
        if self.facts.schedule.pause_on_failure && self.status.paused.is_none() {
            self.status.paused = Some(Paused { by: "engine".into(), reason, at: self.facts.now });
        }
    }

    /// Looks at what waits, in the order of its turn.
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

    /// Takes up the moments that have come since the last look. Each becomes a row.
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

    /// Goes on with the oldest backfill: one occurrence at a time waits for its turn, and the next is looked at only when it
    /// has been started. So nothing of the span is left out, however long it is.
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

    /// Makes up for one occurrence, unless it was started, waits already or falls on an excluded day.
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

    /// Decides about one that is due, or whose moment has come. `recorded` says whether it is on record as it is.
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
        // What failed to start has started now; how a run ends is seen when it has.
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

    /// Gives an occurrence its last word.
    pub(crate) fn close_occurrence(&mut self, mut occurrence: Occurrence, fate: Fate, reason: String) {
        (occurrence.fate, occurrence.reason, occurrence.at) = (fate, reason, self.facts.now);
        self.rows.insert(occurrence.nominal, occurrence);
    }

    /// How many may still wait.
    pub(crate) fn is_full(&self) -> bool {
        self.status.waiting.len() >= usize::try_from(MAX_BUFFERED).unwrap_or(usize::MAX)
    }
}

/// `by: reason`, or who alone.
pub(crate) fn attributed_reason(by: &str, reason: &str) -> String {
    if reason.is_empty() { format!("by {by}") } else { format!("by {by}: {reason}") }
}

/// Whether an end means that what was wanted did not come about. A cancel or a close by force is a person's word about that one
/// run, and says nothing about the next.
fn is_failure(outcome: &str) -> bool {
    let name = |outcome: Outcome| -> &'static str { outcome.into() };
    [Outcome::RolledBack, Outcome::Rejected, Outcome::Refused, Outcome::Expired]
        .into_iter()
        .any(|failure| name(failure) == outcome)
}

/// What is to be done with an occurrence, and why.
pub(crate) enum OccurrenceDecision {
    Start,
    Wait(Fate, String),
    Drop(Fate, String),
}
