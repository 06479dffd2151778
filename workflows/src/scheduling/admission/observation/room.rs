//! Counts GPUs that are free in the ledger but not in the cluster. Pure.
//!
//! Counts are compared over all nodes of a tenant. If a scheduler puts a workload on another node than planned, one node is busy and the other idle, and no
//! other workload loses GPUs.

use super::ObservedKind;
use crate::tenancy::{NodeId, NodeRoom};
use std::collections::BTreeMap;

/// The booked and observed amounts of one kind on one node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoomFinding {
    free: u64,
    booked: u64,
    busy: u64,
    /// GPUs in stock that were not observed as usable.
    missing: u64,
    /// In use by workloads that the observation names and the ledger does not know.
    strangers: u64,
    /// Booked for workloads that may run, but not in use.
    unseen: u64,
    was_seen: bool,
}

impl RoomFinding {
    pub(super) fn new(room: NodeRoom, there: Option<ObservedKind>, strangers: u64) -> Self {
        let seen = there.unwrap_or(ObservedKind { usable: 0, busy: 0 });
        Self {
            free: room.free,
            booked: room.capacity.saturating_sub(room.free),
            busy: seen.busy,
            missing: room.capacity.saturating_sub(seen.usable),
            strangers,
            unseen: 0,
            was_seen: there.is_some(),
        }
    }

    /// In use above the booked amount.
    fn strange(&self) -> u64 {
        self.busy.saturating_sub(self.booked)
    }

    pub(super) fn is_strange(&self) -> bool {
        self.strange() > 0
    }

    /// Returns true if fewer GPUs were observed in use than are booked.
    pub(super) fn has_idle_bookings(&self) -> bool {
        self.was_seen && self.busy < self.booked
    }

    /// Sets the booked amount of workloads that may run.
    pub(super) fn unseen_of(&mut self, running: u64) {
        self.unseen = running.min(self.booked).saturating_sub(self.busy);
    }
}

/// Returns the amount of free GPUs on each node that must not be assigned.
pub(super) fn astray(on: &BTreeMap<NodeId, RoomFinding>) -> BTreeMap<NodeId, u64> {
    let mut elsewhere: u64 = on.values().map(|finding| finding.unseen).sum();
    let mut homeless = 0_u64;
    let mut astray = BTreeMap::new();
    for (id, finding) in on {
        // GPUs of an unknown workload are not those of a known workload that is booked on another node.
        let unnamed = finding.strange().saturating_sub(finding.strangers);
        let explained = unnamed.min(elsewhere);
        elsewhere -= explained;
        let taken = (finding.strange() - explained).saturating_add(finding.missing);
        astray.insert(id.clone(), taken.min(finding.free));
        // If an unknown workload occupies booked GPUs, the booked workload will need room on another node.
        homeless =
            homeless.saturating_add(finding.strangers.saturating_sub(finding.free).min(finding.booked));
    }
    for (id, finding) in on {
        if let Some(there) = astray.get_mut(id) {
            let more = finding.free.saturating_sub(*there).min(homeless);
            *there += more;
            homeless -= more;
        }
    }
    astray
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(capacity: u64, free: u64, busy: u64, strangers: u64) -> RoomFinding {
        let room = NodeRoom { capacity, free, astray: 0 };
        let mut finding = RoomFinding::new(room, Some(ObservedKind { usable: capacity, busy }), strangers);
        finding.unseen_of(capacity - free);
        finding
    }

    fn of(nodes: &[RoomFinding]) -> Vec<u64> {
        let named = nodes.iter().enumerate().map(|(n, it)| (format!("n-{n}").parse().unwrap(), *it));
        astray(&named.collect()).into_values().collect()
    }

    #[test]
    fn a_workload_on_an_unplanned_node_withholds_no_other_gpus() {
        assert_eq!(of(&[node(8, 0, 0, 0), node(8, 8, 8, 0)]), [0, 0]);
    }

    #[test]
    fn gpus_in_use_without_a_booking_are_not_available() {
        assert_eq!(of(&[node(8, 8, 3, 0), node(8, 8, 0, 0)]), [3, 0]);
        assert_eq!(of(&[node(8, 6, 0, 0), node(8, 8, 5, 0)]), [0, 3], "two of five are the booked ones");
    }

    #[test]
    fn a_named_unknown_workload_is_never_treated_as_a_booked_one() {
        assert_eq!(of(&[node(8, 0, 0, 0), node(8, 8, 8, 8)]), [0, 8]);
        assert_eq!(of(&[node(8, 0, 8, 8), node(8, 8, 0, 0)]), [0, 8], "the booked one needs the other node");
    }

    #[test]
    fn an_unobserved_node_has_no_assignable_gpus_and_explains_none() {
        let lost = RoomFinding::new(NodeRoom { capacity: 8, free: 4, astray: 0 }, None, 0);
        assert!(!lost.has_idle_bookings());
        assert_eq!(of(&[lost]), [4]);
    }

    /// In sum, the assignable GPUs equal the idle GPUs of the cluster, less bookings that have not started.
    #[test]
    fn the_assignable_gpus_are_the_idle_ones_less_open_bookings() {
        let mut seed = 7_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..2_000 {
            let nodes: Vec<_> = (0..3).map(|_| node(8, draw(9), draw(9), 0)).collect();
            let found = of(&nodes);
            let given: u64 = nodes.iter().zip(&found).map(|(node, astray)| node.free - astray).sum();
            let idle: u64 = nodes.iter().map(|node| 8 - node.busy).sum();
            let unseen: u64 = nodes.iter().map(|node| node.unseen).sum();
            let strange: u64 = nodes.iter().map(RoomFinding::strange).sum();
            assert_eq!(given + unseen.saturating_sub(strange), idle, "{nodes:?} {found:?}");
        }
    }
}
