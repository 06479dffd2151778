//! Workloads of a workspace: the request, the queue, the running set, and the admission decision.

pub(crate) mod admission;
pub(crate) mod failed_start;
pub(crate) mod observed_placement;
pub(crate) mod queue;
pub(crate) mod running;
pub(crate) mod workload;
