//! Example incidents of every kind.

use super::{IncidentCause, IncidentResponse, Severity, record::IncidentTriage};
use crate::{platform::WorkloadRef, policy::PlatformPolicy};
use engine::Seat;

pub(super) fn all() -> Vec<IncidentResponse> {
    kinds().into_iter().flatten().filter_map(example).collect()
}

fn kinds() -> Option<[IncidentCause; 3]> {
    let tenant = || "acme".parse().ok();
    Some([
        IncidentCause::GpuFault {
            tenant: tenant()?,
            cluster: "west-1".parse().ok()?,
            node: "n-0".parse().ok()?,
        },
        IncidentCause::KeyLeak {
            tenant: tenant()?,
            cluster: "west-1".parse().ok()?,
            next_hash: Some("ab".into()),
        },
        IncidentCause::IsolationBreach { tenants: vec![tenant()?] },
    ])
}

fn example(happening: IncidentCause) -> Option<IncidentResponse> {
    let mut one = IncidentResponse::new(happening, "dcgm".into(), "XID 79 on GPU 0".into());
    one.opened = Some(IncidentTriage {
        severity: Severity::High,
        policy: PlatformPolicy::built_in().ok()?.reference,
        seats: vec![Seat::new("platform_ops", 1)],
        procedure: engine::Procedure::default(),
    });
    one.rested = true;
    one.cordons = vec!["a step".into()];
    (one.owner_epoch, one.boot) = (1, "boot-0".into());
    one.running = vec![WorkloadRef {
        cluster: "west-1".into(),
        tenant: "acme".into(),
        workspace: "research".into(),
        name: "train".into(),
    }];
    Some(one)
}
