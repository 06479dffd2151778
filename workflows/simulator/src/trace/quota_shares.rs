//! Derives the quota of each workspace from the first half of a trace, and counts the demands of the second half
//! against it.
//!
//! The reservation of a workspace is the 95th percentile, weighted by time, of the GPUs it held at once in the first
//! half: the smallest number that it did not exceed for 95 % of the time. Nominal quota and reservation are equal.

use crate::trace::{BATCH, Demand, PRODUCTION, Trace, Treatment};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};
use workflows::tenancy::{GpuKind, WorkloadClass, WorkspaceName};

/// The part of the time for which a reservation must suffice, in percent.
const PERCENT: u128 = 95;
/// If the first half of the time has less than this percentage of the demands, the trace is split by demands.
const FEW: usize = 10;

/// GPUs by workspace and kind.
pub(crate) type Shares = BTreeMap<(WorkspaceName, GpuKind), u64>;

/// The point at which a trace is split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Split {
    /// The time since the beginning of the trace.
    pub at: Duration,
    /// The quantity that is halved.
    pub of: &'static str,
}

/// Counts taken before the replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// The number of groups: applications or workspaces.
    pub groups: usize,
    /// The sum of their reservations, in GPUs or slices.
    pub reserved: u64,
    /// Demands of the second half that arrived while their group was below its reservation.
    pub inside: u64,
    /// Demands of the second half that arrived while their group was at or above it.
    pub above: u64,
}

/// Splits a trace at half of its time, or at half of its demands if nearly all of them arrive late.
#[must_use]
pub(crate) fn split(trace: &Trace) -> Split {
    let half = trace.ends / 2;
    let early = trace.demands.iter().filter(|demand| demand.at < half).count();
    if early * 100 >= trace.demands.len() * FEW {
        return Split { at: half, of: "the time" };
    }
    let middle = trace.demands.get(trace.demands.len() / 2).map_or(half, |demand| demand.at);
    Split { at: middle, of: "the demands" }
}

/// Returns the reservations from the first half, by the group that `key` returns for a demand.
pub(crate) fn reservations<K: Ord + Clone>(
    trace: &Trace,
    split: &Split,
    key: impl Fn(&Demand) -> Option<K>,
) -> BTreeMap<K, u64> {
    let mut changes: BTreeMap<K, Vec<(Duration, i64)>> = BTreeMap::new();
    for demand in &trace.demands {
        let Some(key) = key(demand) else { continue };
        let gpus = i64::try_from(demand.gpus).unwrap_or(i64::MAX);
        let own = changes.entry(key).or_default();
        own.push((demand.at, gpus));
        own.extend(demand.left.map(|left| (left, -gpus)));
    }
    changes.into_iter().map(|(key, changes)| (key, percentile(changes, split.at))).collect()
}

/// Returns the number that the running sum of `changes` did not exceed for [`PERCENT`] of the time before `end`.
fn percentile(mut changes: Vec<(Duration, i64)>, end: Duration) -> u64 {
    changes.sort_unstable();
    let mut spent: BTreeMap<u64, u128> = BTreeMap::new();
    let (mut held, mut since) = (0_i64, Duration::ZERO);
    for (at, change) in changes {
        let until = at.min(end);
        let level = u64::try_from(held).unwrap_or(0);
        *spent.entry(level).or_default() += until.saturating_sub(since).as_millis();
        (held, since) = (held + change, until.max(since));
    }
    let level = u64::try_from(held).unwrap_or(0);
    *spent.entry(level).or_default() += end.saturating_sub(since).as_millis();
    let whole: u128 = spent.values().sum();
    let mut passed = 0;
    for (level, time) in spent {
        passed += time;
        if passed * 100 >= whole * PERCENT {
            return level;
        }
    }
    0
}

/// Visits the demands with the number of GPUs that their group holds in the recording at that time, without the demand
/// itself.
pub(crate) fn walk<K: Ord + Clone>(
    demands: &[Demand],
    key: impl Fn(&Demand) -> K,
    mut see: impl FnMut(usize, &Demand, &K, i128),
) {
    let mut events: Vec<(Duration, bool, usize)> = Vec::with_capacity(demands.len() * 2);
    for (place, demand) in demands.iter().enumerate() {
        events.push((demand.at, true, place));
        events.extend(demand.left.map(|left| (left, false, place)));
    }
    // Ends at a moment are processed before arrivals.
    events.sort_unstable();
    // Can be negative for a moment, if a demand ends when it arrives.
    let mut held: BTreeMap<K, i128> = BTreeMap::new();
    for (_, comes, place) in events {
        let Some(demand) = demands.get(place) else { continue };
        let key = key(demand);
        let own = held.entry(key.clone()).or_default();
        if comes {
            see(place, demand, &key, *own);
        }
        let gpus = i128::from(demand.gpus);
        *own += if comes { gpus } else { -gpus };
    }
}

/// Counts the demands of the second half inside and above their group's reservation.
pub(crate) fn count<K: Ord + Clone>(
    trace: &Trace,
    split: &Split,
    reserved: &BTreeMap<K, u64>,
    key: impl Fn(&Demand) -> K,
) -> Counted {
    let mut counted =
        Counted { groups: reserved.len(), reserved: reserved.values().sum(), ..Counted::default() };
    walk(&trace.demands, key, |_, demand, key, held| {
        if demand.at >= split.at {
            let share = reserved.get(key).copied().unwrap_or(0);
            if held + i128::from(demand.gpus) <= i128::from(share) {
                counted.inside += 1
            } else {
                counted.above += 1
            }
        }
    });
    counted
}

/// Sets the treatment of every demand without one: production while its workspace is below its reservation, otherwise
/// batch.
pub(crate) fn stand(demands: &mut [Demand], shares: &Shares) {
    let mut inside = vec![false; demands.len()];
    let key = |demand: &Demand| (demand.workspace.clone(), demand.kind.clone());
    walk(demands, key, |place, demand, key, held| {
        if let Some(flag) = inside.get_mut(place) {
            let share = i128::from(shares.get(key).copied().unwrap_or(0));
            *flag = held.max(0) + i128::from(demand.gpus) <= share;
        }
    });
    for (demand, inside) in demands.iter_mut().zip(inside) {
        if demand.standing == Treatment::ByShare {
            demand.standing = if inside {
                Treatment::Given { class: WorkloadClass::Service, preemptible: false, priority: PRODUCTION }
            } else {
                Treatment::Given { class: WorkloadClass::Batch, preemptible: true, priority: BATCH }
            };
        }
    }
}

/// Returns the second half as its own trace. Demands that held GPUs at the split arrive at its start, with their
/// remaining time.
#[must_use]
pub(crate) fn second_half(trace: &Trace, split: &Split) -> Trace {
    let mut demands: Vec<Demand> = Vec::new();
    for demand in &trace.demands {
        if demand.at >= split.at {
            let left = demand.left.map(|left| left.saturating_sub(split.at));
            demands.push(Demand { at: demand.at - split.at, left, ..demand.clone() });
        } else if demand.held_at(split.at) {
            let left = demand.left.map(|left| left.saturating_sub(split.at));
            demands.push(Demand { at: Duration::ZERO, lasts: left, left, ..demand.clone() });
        }
    }
    // Demands inside their reservations start before the others, so that only idle GPUs are lent at the start.
    demands.sort_by_key(|demand| (demand.at, demand.standing.can_be_evicted()));
    Trace { demands, ends: trace.ends - split.at, ..trace.clone() }
}

impl Treatment {
    /// Returns true if the workload may be evicted. False while the treatment is not set.
    #[must_use]
    pub fn can_be_evicted(&self) -> bool {
        match self {
            Self::ByShare => false,
            Self::Given { preemptible, .. } => *preemptible,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_covers_the_usage_of_95_percent_of_the_time() {
        let seconds = Duration::from_secs;
        // 2 for 94 s, 9 for 6 s: nine are needed. 2 for 95 s, 9 for 5 s: two are enough.
        assert_eq!(percentile(vec![(seconds(0), 2), (seconds(94), 7)], seconds(100)), 9);
        assert_eq!(percentile(vec![(seconds(0), 2), (seconds(95), 7)], seconds(100)), 2);
        assert_eq!(percentile(vec![(seconds(0), 5), (seconds(10), -5)], seconds(100)), 5);
        assert_eq!(percentile(vec![(seconds(200), 5)], seconds(100)), 0);
    }
}
