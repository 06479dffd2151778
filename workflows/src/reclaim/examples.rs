//! Examples of reclaims that together contain every action: for a demand, and for overdue loans.

use crate::{
    platform::{StartWorkload, WorkloadRef},
    policy::PlatformPolicy,
    reclaim::{
        DemandGrant, EvictionEnd, PlanVerdict, PlannedReclaim, Reclaim, ReclaimCause, ReclaimTerms, eviction,
    },
    scheduling::planner::Explanation,
    tenancy::{Checkpoint, Resource, WorkloadClass},
};
use engine::MINUTE;
use std::collections::BTreeMap;
use store::Timestamp;

pub(super) fn all() -> Vec<Reclaim> {
    [demand(), overdue()].into_iter().flatten().collect()
}

fn demand() -> Option<Reclaim> {
    let cause = ReclaimCause::Demand { workspace: "production".parse().ok()?, workload: "serve-1".into() };
    let mut reclaim = planned(cause)?;
    let workload = WorkloadRef {
        cluster: "eu-1".into(),
        tenant: "acme".into(),
        workspace: "production".into(),
        name: "serve-1".into(),
    };
    let gpus = [("n1".to_owned(), [0, 1].into())].into();
    let start = StartWorkload { workload, gpus, service: true, profiles: BTreeMap::new() };
    let decision = Some("acme/000000000001".into());
    reclaim.grant =
        Some(DemandGrant { start: Some(start), decision, at: Timestamp::default(), in_time: true });
    Some(reclaim)
}

fn overdue() -> Option<Reclaim> {
    planned(ReclaimCause::Overdue)
}

fn planned(cause: ReclaimCause) -> Option<Reclaim> {
    let victim = eviction::example(WorkloadClass::Batch, Checkpoint::Signal)?;
    let mut reclaim = Reclaim::new("acme".parse().ok()?, Resource::gpus("H100".parse().ok()?), cause);
    reclaim.ended = vec![EvictionEnd {
        workload: victim.workload.name.clone(),
        state: <&str>::from(eviction::State::Cleared).to_owned(),
        scrubbed: Vec::new(),
    }];
    reclaim.planned = Some(PlannedReclaim {
        more: 0,
        others: Vec::new(),
        simulated: true,
        verdict: PlanVerdict::Evict,
        terms: ReclaimTerms {
            policy: PlatformPolicy::built_in().ok()?.reference,
            deadline: Timestamp::default(),
            seats: PlatformPolicy::built_in().ok()?.approvals.reclaim.seats.clone(),
            patience: 10 * MINUTE,
            procedure: engine::Procedure::default(),
            plans: 4,
            steps_within: None,
        },
        victims: vec![victim],
        breaches: Vec::new(),
        why: None,
        explanation: Explanation::default(),
    });
    Some(reclaim)
}
