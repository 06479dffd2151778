//! An example of a confirmed start.

use super::WorkloadStart;
use crate::platform::{StartWorkload, WorkloadRef};

pub(super) fn all() -> Vec<WorkloadStart> {
    example().into_iter().collect()
}

fn example() -> Option<WorkloadStart> {
    let workload = WorkloadRef {
        cluster: "eu-1".into(),
        tenant: "acme".into(),
        workspace: "research".into(),
        name: "train-1".into(),
    };
    let start = StartWorkload {
        workload,
        gpus: [("n1".to_owned(), [0, 1].into())].into(),
        service: false,
        profiles: std::collections::BTreeMap::new(),
    };
    let asked = WorkloadStart::new("acme".parse().ok()?, "train-1".into(), "acme/000000000001".into());
    Some(WorkloadStart { start: Some(start), ..asked })
}
