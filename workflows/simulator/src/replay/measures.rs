//! What a replay came to, in numbers (domain 7.3 point 6).

use crate::{replay::baseline::Baseline, trace::openb::per_gpu};
use serde::Serialize;
use std::time::Duration;
use store::Timestamp;
use workflows::tenancy::{GpuKind, Resource};

/// How long demands waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// How many there were.
    pub count: u64,
    /// How many did not wait at all.
    pub at_once: u64,
    /// Half of them waited at most so many seconds.
    pub p50_s: f64,
    /// 99 of 100 of them waited at most so many seconds.
    pub p99_s: f64,
    /// The longest, in seconds.
    pub longest_s: f64,
}

impl Waits {
    /// Of these times, in milliseconds.
    pub(crate) fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(place).copied().unwrap_or(0) as f64 / 1_000.0
        };
        Self {
            count: times.len() as u64,
            at_once: times.iter().filter(|time| **time == 0).count() as u64,
            p50_s: at(50),
            p99_s: at(99),
            longest_s: times.last().copied().unwrap_or(0) as f64 / 1_000.0,
        }
    }
}

/// How the cluster stood at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Hours since the start.
    pub hour: f64,
    /// GPUs in use within quotas.
    pub own: f64,
    /// GPUs in use on loan.
    pub borrowed: f64,
    /// GPUs that waiting demands ask for.
    pub wanted: f64,
}

/// What one workspace had, in GPU-hours.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkspaceMeasures {
    /// Its name.
    pub workspace: String,
    /// What its work held.
    pub used: f64,
    /// Of it, what others lent.
    pub borrowed: f64,
    /// What it lent to others.
    pub lent: f64,
}

/// What a replay came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// How the scene was run.
    pub baseline: Baseline,
    /// Demands that came.
    pub demands: u64,
    /// Those that came inside their workspace's reservation, by the ledger.
    pub inside: u64,
    /// Those that came above it.
    pub above: u64,
    /// Demands that ran at least once.
    pub ran: u64,
    /// Demands that could never have run.
    pub rejected: u64,
    /// Demands that ended as they should.
    pub finished: u64,
    /// Demands that wait still.
    pub waiting: u64,
    /// From a demand inside a reservation until it runs.
    pub owner_wait: Waits,
    /// From any demand until it runs.
    pub any_wait: Waits,
    /// Promises that were broken.
    pub missed: u64,
    /// Those of them that nobody was told of; must be none.
    pub unflagged: u64,
    /// GPU-hours that there were.
    pub gpu_hours_owned: f64,
    /// GPU-hours that work held.
    pub gpu_hours_used: f64,
    /// Of them, those on loan.
    pub gpu_hours_lent: f64,
    /// What work held of what there was.
    pub utilisation: f64,
    /// Reclaims that evicted somebody.
    pub reclaims: u64,
    /// Reclaims that found nobody to give way.
    pub infeasible: u64,
    /// Plans that people were asked about.
    pub asked: u64,
    /// Workloads that were evicted.
    pub victims: u64,
    /// The same for each reclaim.
    pub victims_per_reclaim: f64,
    /// GPUs of victims for each GPU asked for; victims of overdue loans, which no demand asked for, do not count.
    pub victim_gpus_per_gpu: f64,
    /// GPU-seconds of work that was not saved.
    pub lost_gpu_seconds: f64,
    /// Evictions of a workload that had been evicted within the hour before.
    pub thrash: u64,
    /// Executions of workflows that were started.
    pub executions: u64,
    /// Their steps.
    pub steps: u64,
    /// Steps for each second of wall time.
    pub steps_per_second: f64,
    /// How long the replay took.
    pub wall_s: f64,
    /// What must never happen and did.
    pub violations: u64,
}

/// What part of a card one piece of a kind is.
pub(crate) fn weight(kind: &GpuKind) -> f64 {
    kind.profile.as_ref().map_or(1.0, |profile| 1.0 / f64::from(per_gpu(profile.as_str())))
}

/// The same of a resource; nothing of one that is no GPU.
pub(crate) fn weight_of(resource: &Resource) -> f64 {
    resource.gpu().map_or(0.0, weight)
}

/// Adds up levels over time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Integral {
    level: f64,
    since: Timestamp,
    sum: f64,
}

impl Integral {
    pub(crate) fn from(since: Timestamp) -> Self {
        Self { since, ..Self::default() }
    }

    /// The level is this from `at` on.
    pub(crate) fn set(&mut self, at: Timestamp, level: f64) {
        self.sum += self.level * at.since(self.since).as_secs_f64();
        (self.level, self.since) = (level, at.max(self.since));
    }

    /// The level now.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// Level-hours until `at`.
    pub(crate) fn hours(&self, at: Timestamp) -> f64 {
        (self.sum + self.level * at.since(self.since).as_secs_f64()) / 3_600.0
    }
}

/// `whole` for each of `parts`; none where there are none.
pub(crate) fn per(whole: f64, parts: f64) -> f64 {
    if parts > 0.0 { whole / parts } else { 0.0 }
}

/// A time in milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_by_the_smallest_that_is_enough() {
        let waits = Waits::of((0..100).map(|n| n * 1_000).collect());
        assert_eq!((waits.count, waits.at_once), (100, 1));
        assert_eq!((waits.p50_s, waits.p99_s, waits.longest_s), (49.0, 98.0, 99.0));
        assert_eq!(Waits::of(vec![]), Waits::default());
    }

    #[test]
    fn a_level_is_added_up_over_the_time_it_held() {
        let mut integral = Integral::from(Timestamp(0));
        integral.set(Timestamp(0), 2.0);
        integral.set(Timestamp(3_600_000), 4.0);
        assert!((integral.hours(Timestamp(7_200_000)) - 6.0).abs() < 1e-9);
    }
}
