//! Collects the measures of a replay.

use crate::{
    replay::{
        baseline::Baseline,
        demand::{DemandPhase, DemandState},
        measures::{Integral, Measures, Sample, Waits, WorkspaceMeasures, millis, per, weight, weight_of},
        outcome::Outcome,
    },
    scenario::Scenario,
    trace::Demand,
};
use engine::Stopwatch;
use std::{collections::BTreeMap, time::Duration};
use store::Timestamp;
use workflows::tenancy::{Balance, Cohort, WorkspaceName};

/// A workload that is evicted again within this time is thrashing (P-9).
const SOON: Duration = Duration::from_secs(3_600);
/// The largest number of samples for plots.
const MOST_SAMPLES: u64 = 400;

pub(crate) struct Metrics {
    starts: Timestamp,
    owned: f64,
    every: Duration,
    next: Timestamp,
    used: Integral,
    borrowed: Integral,
    parts: BTreeMap<WorkspaceName, [Integral; 3]>,
    wanted: Integral,
    samples: Vec<Sample>,
    owner_waits: Vec<u64>,
    any_waits: Vec<u64>,
    demands: u64,
    inside: u64,
    rejected: u64,
    finished: u64,
    pub(crate) missed: u64,
    pub(crate) unflagged: u64,
    pub(crate) reclaims: u64,
    pub(crate) infeasible: u64,
    pub(crate) asked_people: u64,
    pub(crate) requested_gpus: f64,
    pub(crate) executions: u64,
    victims: u64,
    victim_gpus: f64,
    lost_gpu_seconds: f64,
    thrash: u64,
    watch: Stopwatch,
}

impl Metrics {
    pub(crate) fn new(scene: &Scenario) -> Self {
        let starts = scene.starts;
        let every = Duration::from_millis(millis(scene.ends) / MOST_SAMPLES).max(Duration::from_secs(60));
        Self {
            starts,
            owned: scene.gpus() as f64,
            every,
            next: starts,
            used: Integral::from(starts),
            borrowed: Integral::from(starts),
            parts: BTreeMap::new(),
            wanted: Integral::from(starts),
            samples: Vec::new(),
            owner_waits: Vec::new(),
            any_waits: Vec::new(),
            demands: 0,
            inside: 0,
            rejected: 0,
            finished: 0,
            missed: 0,
            unflagged: 0,
            reclaims: 0,
            infeasible: 0,
            asked_people: 0,
            requested_gpus: 0.0,
            executions: 0,
            victims: 0,
            victim_gpus: 0.0,
            lost_gpu_seconds: 0.0,
            thrash: 0,
            watch: crate::replay::start_stopwatch(),
        }
    }

    pub(crate) fn asked(&mut self, _demand: &Demand, inside: bool) {
        self.demands += 1;
        self.inside += u64::from(inside);
    }

    /// Records that a demand's GPUs are requested, or no longer.
    pub(crate) fn wants(&mut self, now: Timestamp, demand: &Demand, more: bool) {
        let gpus = demand.gpus as f64 * weight(&demand.kind);
        self.wanted.set(now, self.wanted.level() + if more { gpus } else { -gpus });
    }

    /// Records that a demand's GPUs are used, or no longer.
    pub(crate) fn works(&mut self, now: Timestamp, demand: &Demand, more: bool) {
        let gpus = demand.gpus as f64 * weight(&demand.kind);
        self.used.set(now, self.used.level() + if more { gpus } else { -gpus });
    }

    /// Records the levels of the account.
    pub(crate) fn account(&mut self, now: Timestamp, cohort: &Cohort) {
        let mut lent = 0.0;
        for (workspace, account) in &cohort.accounts {
            let sum = |of: fn(&Balance) -> u64| -> f64 {
                account
                    .balances
                    .iter()
                    .map(|(resource, balance)| of(balance) as f64 * weight_of(resource))
                    .sum()
            };
            let levels = [sum(|b| b.used), sum(|b| b.borrowed), sum(|b| b.lent)];
            lent += levels[1];
            let own = self.parts.entry(workspace.clone()).or_insert([Integral::from(self.starts); 3]);
            own.iter_mut().zip(levels).for_each(|(integral, level)| integral.set(now, level));
        }
        self.borrowed.set(now, lent);
    }

    /// Records the first start of a demand.
    pub(crate) fn ran(&mut self, wait: Duration, inside: bool) {
        self.any_waits.push(millis(wait));
        if inside {
            self.owner_waits.push(millis(wait));
        }
    }

    pub(crate) fn rejected(&mut self) {
        self.rejected += 1;
    }

    pub(crate) fn finished(&mut self) {
        self.finished += 1;
    }

    /// Records an eviction.
    pub(crate) fn evicted(
        &mut self,
        demand: &Demand,
        for_demand: bool,
        before: Option<Timestamp>,
        now: Timestamp,
        lost: Duration,
    ) {
        let gpus = demand.gpus as f64 * weight(&demand.kind);
        self.victims += 1;
        self.victim_gpus += if for_demand { gpus } else { 0.0 };
        self.lost_gpu_seconds += lost.as_secs_f64() * gpus;
        self.thrash += u64::from(before.is_some_and(|before| now.since(before) <= SOON));
    }

    /// Takes a sample, if it is due.
    pub(crate) fn sample(&mut self, now: Timestamp) {
        if now < self.next {
            return;
        }
        self.next = now.after(self.every);
        self.samples.push(Sample {
            hour: now.since(self.starts).as_secs_f64() / 3_600.0,
            own: (self.used.level() - self.borrowed.level()).max(0.0),
            borrowed: self.borrowed.level(),
            wanted: self.wanted.level().max(0.0),
        });
    }

    pub(crate) fn outcome(
        mut self,
        end: Timestamp,
        baseline: Baseline,
        lives: &[DemandState],
        steps: u64,
    ) -> Outcome {
        let count = |stage: DemandPhase| lives.iter().filter(|life| life.stage == stage).count() as u64;
        // Demands that are still queued have waited at least until the end.
        for life in lives.iter().filter(|life| life.stage == DemandPhase::Waiting && !life.ran) {
            self.ran(end.since(life.asked), life.inside);
        }
        let wall = self.watch.elapsed().as_secs_f64();
        let owned = self.owned * end.since(self.starts).as_secs_f64() / 3_600.0;
        let used = self.used.hours(end);
        let mut owner_waits: Vec<f64> = self.owner_waits.iter().map(|wait| *wait as f64 / 1_000.0).collect();
        owner_waits.sort_by(f64::total_cmp);
        let measures = Measures {
            baseline,
            demands: self.demands,
            inside: self.inside,
            above: self.demands - self.inside,
            ran: lives.iter().filter(|life| life.ran).count() as u64,
            rejected: self.rejected,
            finished: self.finished,
            waiting: count(DemandPhase::Waiting),
            owner_wait: Waits::of(self.owner_waits),
            any_wait: Waits::of(self.any_waits),
            missed: self.missed,
            unflagged: self.unflagged,
            gpu_hours_owned: owned,
            gpu_hours_used: used,
            gpu_hours_lent: self.borrowed.hours(end),
            utilisation: per(used, owned),
            reclaims: self.reclaims,
            infeasible: self.infeasible,
            asked: self.asked_people,
            victims: self.victims,
            victims_per_reclaim: per(self.victims as f64, self.reclaims as f64),
            victim_gpus_per_gpu: per(self.victim_gpus, self.requested_gpus),
            lost_gpu_seconds: self.lost_gpu_seconds,
            thrash: self.thrash,
            executions: self.executions,
            steps,
            steps_per_second: per(steps as f64, wall),
            wall_s: wall,
            violations: 0,
        };
        let parts = parts(&self.parts, end);
        Outcome {
            measures,
            parts,
            samples: self.samples,
            owner_waits,
            violations: Vec::new(),
            story: Vec::new(),
        }
    }
}

fn parts(all: &BTreeMap<WorkspaceName, [Integral; 3]>, end: Timestamp) -> Vec<WorkspaceMeasures> {
    let part = |(workspace, [used, borrowed, lent]): (&WorkspaceName, &[Integral; 3])| WorkspaceMeasures {
        workspace: workspace.to_string(),
        used: used.hours(end),
        borrowed: borrowed.hours(end),
        lent: lent.hours(end),
    };
    all.iter().map(part).collect()
}
