//! Incidents of every kind.

use super::{Happening, IncidentResponse, Severity, record::Opened};
use crate::{platform::WorkloadRef, policy::PlatformPolicy};
use engine::Seat;

pub(super) fn all() -> Vec<IncidentResponse> {
    kinds().into_iter().flatten().filter_map(example).collect()
}

fn kinds() -> Option<[Happening; 3]> {
    let tenant = || "acme".parse().ok();
    Some([
        Happening::GpuFault { tenant: tenant()?, cluster: "west-1".parse().ok()?, node: "n-0".parse().ok()? },
        Happening::KeyLeak {
            tenant: tenant()?,
            cluster: "west-1".parse().ok()?,
            next_hash: Some("ab".into()),
        },
        Happening::IsolationBreach { tenants: vec![tenant()?] },
    ])
}

fn example(happening: Happening) -> Option<IncidentResponse> {
    let mut one = IncidentResponse::new(happening, "dcgm".into(), "XID 79 on GPU 0".into());
    one.opened = Some(Opened {
        severity: Severity::High,
        policy: PlatformPolicy::built_in().ok()?.reference,
        seats: vec![Seat::of("platform_ops", 1)],
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
