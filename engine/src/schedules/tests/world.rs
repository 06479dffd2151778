//! A schedule with its full history, for tests of decisions.

use crate::{
    Occurrence, OccurrenceFate as Fate, Origin, Overlap, Schedule, ScheduleStatus, Target, Times,
    schedules::{
        decide::{Decision, EndRequest, Facts, StartOutcome, backfill_moments, decide},
        set_back::recorded_moments,
    },
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{ExecutionId, Timestamp};

/// A schedule with its full history, and runs that end on command.
pub(super) struct World {
    pub(super) schedule: Schedule,
    pub(super) times: Times,
    pub(super) status: ScheduleStatus,
    pub(super) rows: BTreeMap<Timestamp, Occurrence>,
    pub(super) ended: BTreeMap<ExecutionId, Option<String>>,
    pub(super) tried: BTreeMap<Timestamp, StartOutcome>,
    pub(super) orders: Vec<(ExecutionId, EndRequest)>,
    pub(super) begun: Timestamp,
    pub(super) now: Timestamp,
    /// Moments that once waited for a run to end.
    pub(super) buffered: BTreeSet<Timestamp>,
    made: u8,
}

pub(super) fn nightly() -> Schedule {
    let target = Target::Start { workflow: "errand".into(), data: json!({}) };
    Schedule::new("nightly", "0 * * * *", "UTC", target)
}

impl World {
    pub(super) fn of(schedule: Schedule, now: Timestamp) -> Self {
        let schedule = Schedule { set_at: now, version: 1, ..schedule };
        let times = schedule.validate().unwrap();
        let standing = ScheduleStatus {
            name: schedule.name.clone(),
            done: now,
            version: 1,
            ..ScheduleStatus::default()
        };
        Self {
            schedule,
            times,
            status: standing,
            rows: BTreeMap::new(),
            ended: BTreeMap::new(),
            tried: BTreeMap::new(),
            orders: Vec::new(),
            begun: now,
            now,
            buffered: BTreeSet::new(),
            made: 0,
        }
    }

    /// Decides until nothing changes. Returns the started moments.
    pub(super) fn look(&mut self) -> Vec<Timestamp> {
        let mut fired = Vec::new();
        for _ in 0..10_000 {
            let decision = self.decide(true);
            if !decision.changed {
                return fired;
            }
            fired.extend(decision.start.iter().map(|start| start.nominal));
            self.take(decision);
        }
        panic!("{:?} does not become idle: {:?}", self.schedule, self.status);
    }

    pub(super) fn decide(&mut self, starting: bool) -> Decision {
        self.made = self.made.wrapping_add(1);
        let on_record = backfill_moments(&self.status, &self.times);
        let on_record = on_record.into_iter().map(|at| (at, self.rows.get(&at).map(|row| row.fate)));
        let recorded = recorded_moments(&self.status, &self.times, self.now).into_iter();
        let free =
            |at: Timestamp| (at.0..).map(Timestamp).find(|free| !self.rows.contains_key(free)).unwrap();
        let recorded = recorded.map(|at| (at, Some(free(at)).filter(|free| *free != at))).collect();
        let facts = Facts {
            schedule: &self.schedule,
            times: &self.times,
            now: self.now,
            new_execution_id: ExecutionId::new(self.now, [self.made; 10]),
            ended: &self.ended,
            on_record: &on_record.collect(),
            recorded: &recorded,
            tried: &self.tried,
            starting,
        };
        decide(&facts, self.status.clone())
    }

    fn take(&mut self, decision: Decision) {
        if let Some(start) = &decision.start
            && self.schedule.overlap != Overlap::Allow
        {
            let open = self.status.running.iter().filter(|run| !self.is_over(run));
            assert_eq!(open.count(), 0, "{start:?} is started during another run");
        }
        for (nominal, row) in decision.rows {
            if let Some(before) = self.rows.get(&nominal) {
                let ended = row.outcome.is_some() || row.execution == before.execution;
                let made_up = row.origin == Origin::Backfill && before.fate != Fate::Fired;
                assert!(
                    before.fate.is_waiting() || made_up || (before.fate == Fate::Fired && ended),
                    "{before:?} became {row:?}"
                );
            }
            if row.fate == Fate::Buffered {
                self.buffered.insert(nominal);
            }
            self.rows.insert(nominal, row);
        }
        self.orders.extend(decision.orders);
        self.status = decision.status;
    }

    fn is_over(&self, run: &Occurrence) -> bool {
        run.execution.is_some_and(|id| self.ended.contains_key(&id))
    }

    pub(super) fn end_runs(&mut self, outcome: &str) {
        let open: Vec<_> = self.status.running.iter().filter_map(|run| run.execution).collect();
        self.ended.extend(open.into_iter().map(|id| (id, Some(outcome.to_owned()))));
    }

    pub(super) fn advance(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    pub(super) fn fates(&self) -> Vec<Fate> {
        self.rows.values().map(|row| row.fate).collect()
    }

    /// Returns every moment that has come, by the expression only.
    pub(super) fn moments(&self) -> BTreeSet<Timestamp> {
        let first = self.times.next_after(self.begun);
        let all = std::iter::successors(first, |last| self.times.next_after(*last));
        all.take_while(|at| *at <= self.now).collect()
    }
}
