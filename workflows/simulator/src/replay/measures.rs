//! Measures of a replay.

use crate::{replay::baseline::Baseline, trace::openb::per_gpu};
use serde::Serialize;
use std::time::Duration;
use store::Timestamp;
use workflows::tenancy::{GpuKind, Resource};

/// Statistics of waiting times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// The number of demands.
    pub count: u64,
    /// The number of demands that did not wait.
    pub at_once: u64,
    /// The median, in seconds.
    pub p50_s: f64,
    /// The 99th percentile, in seconds.
    pub p99_s: f64,
    /// The longest, in seconds.
    pub longest_s: f64,
}

impl Waits {
    /// Computes the statistics from times in milliseconds.
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

/// A sample of the cluster's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Hours since the start.
    pub hour: f64,
    /// GPUs in use within quotas.
    pub own: f64,
    /// GPUs in use on loan.
    pub borrowed: f64,
    /// GPUs requested by queued demands.
    pub wanted: f64,
}

/// GPU-hours of one workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkspaceMeasures {
    /// Its name.
    pub workspace: String,
    /// GPU-hours used.
    pub used: f64,
    /// GPU-hours borrowed.
    pub borrowed: f64,
    /// GPU-hours lent.
    pub lent: f64,
}

/// Measures of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// The variant.
    pub baseline: Baseline,
    /// Demands that arrived.
    pub demands: u64,
    /// Demands inside their workspace's reservation, by the ledger.
    pub inside: u64,
    /// Demands above their workspace's reservation.
    pub above: u64,
    /// Demands that ran at least once.
    pub ran: u64,
    /// Demands that were rejected permanently.
    pub rejected: u64,
    /// Demands that finished.
    pub finished: u64,
    /// Demands that are still queued.
    pub waiting: u64,
    /// Waits from a demand inside a reservation to its start.
    pub owner_wait: Waits,
    /// Waits from any demand to its start.
    pub any_wait: Waits,
    /// Missed promises.
    pub missed: u64,
    /// Missed promises that were not recorded; must be 0.
    pub unflagged: u64,
    /// GPU-hours available.
    pub gpu_hours_owned: f64,
    /// GPU-hours used.
    pub gpu_hours_used: f64,
    /// GPU-hours used on loan.
    pub gpu_hours_lent: f64,
    /// Used share of the available GPU-hours.
    pub utilisation: f64,
    /// Reclaims that evicted a workload.
    pub reclaims: u64,
    /// Reclaims that found no victims.
    pub infeasible: u64,
    /// Plans that needed an approval.
    pub asked: u64,
    /// Evicted workloads.
    pub victims: u64,
    /// Evicted workloads per reclaim.
    pub victims_per_reclaim: f64,
    /// GPUs of victims per demanded GPU, without victims of overdue loans.
    pub victim_gpus_per_gpu: f64,
    /// GPU-seconds of lost work.
    pub lost_gpu_seconds: f64,
    /// Evictions of workloads that were also evicted within the hour before.
    pub thrash: u64,
    /// Started executions of workflows.
    pub executions: u64,
    /// Steps of these executions.
    pub steps: u64,
    /// Steps per second of wall time.
    pub steps_per_second: f64,
    /// The duration of the replay, in seconds.
    pub wall_s: f64,
    /// Violations of invariants.
    pub violations: u64,
}

/// Returns the share of a GPU that one unit of a kind is.
pub(crate) fn weight(kind: &GpuKind) -> f64 {
    kind.profile.as_ref().map_or(1.0, |profile| 1.0 / f64::from(per_gpu(profile.as_str())))
}

/// Returns the same for a resource; 0 if it is not a GPU.
pub(crate) fn weight_of(resource: &Resource) -> f64 {
    resource.gpu().map_or(0.0, weight)
}

/// Integrates a level over time.
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

    /// Sets the level from `at` on.
    pub(crate) fn set(&mut self, at: Timestamp, level: f64) {
        self.sum += self.level * at.since(self.since).as_secs_f64();
        (self.level, self.since) = (level, at.max(self.since));
    }

    /// Returns the current level.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// Returns level-hours until `at`.
    pub(crate) fn hours(&self, at: Timestamp) -> f64 {
        (self.sum + self.level * at.since(self.since).as_secs_f64()) / 3_600.0
    }
}

/// Returns `whole` divided by `parts`; 0 if `parts` is 0.
pub(crate) fn per(whole: f64, parts: f64) -> f64 {
    if parts > 0.0 { whole / parts } else { 0.0 }
}

/// Returns a duration in milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_times_are_shown_by_the_smallest_sufficient_percentile() {
        let waits = Waits::of((0..100).map(|n| n * 1_000).collect());
        assert_eq!((waits.count, waits.at_once), (100, 1));
        assert_eq!((waits.p50_s, waits.p99_s, waits.longest_s), (49.0, 98.0, 99.0));
        assert_eq!(Waits::of(vec![]), Waits::default());
    }

    #[test]
    fn a_level_is_integrated_over_time() {
        let mut integral = Integral::from(Timestamp(0));
        integral.set(Timestamp(0), 2.0);
        integral.set(Timestamp(3_600_000), 4.0);
        assert!((integral.hours(Timestamp(7_200_000)) - 6.0).abs() < 1e-9);
    }
}
