//! Examples of evictions that together contain every action.

use super::{Eviction, EvictionTerms};
use crate::{
    platform::{ObservedGpus, ScrubLevel, WorkloadRef},
    tenancy::{Checkpoint, WorkloadClass},
};
use engine::{MINUTE, SECOND};

pub(super) fn all() -> Vec<Eviction> {
    let kinds = [
        (WorkloadClass::Batch, Checkpoint::Signal),
        (WorkloadClass::Batch, Checkpoint::Api),
        (WorkloadClass::Service, Checkpoint::None),
    ];
    kinds.into_iter().filter_map(|(class, checkpoint)| example(class, checkpoint)).collect()
}

/// Returns the eviction of a workload on two GPUs of one node.
pub(crate) fn example(class: WorkloadClass, checkpoint: Checkpoint) -> Option<Eviction> {
    Some(Eviction {
        tenant: "acme".parse().ok()?,
        workload: WorkloadRef {
            cluster: "eu-1".into(),
            tenant: "acme".into(),
            workspace: "research".into(),
            name: "train-1".into(),
        },
        class,
        checkpoint,
        gpus: [("n1".to_owned(), [0, 1].into())].into(),
        observed: Some(ObservedGpus::reported([("n1".to_owned(), [0, 1].into())].into())),
        facts: ObservedGpus::default(),
        at: 0,
        care: EvictionTerms {
            grace: 2 * MINUTE,
            notify: 10 * SECOND,
            evict: MINUTE,
            gone: 3 * MINUTE,
            confirm: 2 * MINUTE,
            scrub: 5 * MINUTE,
            reads: 3,
            apart: 5 * SECOND,
            level: ScrubLevel::Verified,
        },
        clean: 0,
        looks: 0,
        open: Vec::new(),
        scrubbed: Vec::new(),
        spared: None,
    })
}
