//! The observed state of a cluster: an index of its objects by UID, and the state of each GPU.
//!
//! Observers feed a [`ClusterIndex`] with batches of watch events and with node reports; [`ClusterIndex::facts`] turns it into the facts that admission applies.
//! Everything except [`lease`] is pure and takes its time from the caller. Invariant: absence is no evidence. A GPU is [`GpuState::Free`] only if its node has
//! confirmed it; no error, missing object or old report makes it free.

mod basis;
mod devices;
mod facts;
mod freshness;
mod gpu_state;
mod index;
pub mod lease;
mod mark;
mod objects;
mod report;
mod table;
#[cfg(test)]
mod tests;
mod uid;
mod watch;

pub use basis::{Allocated, Bound, DeviceId, Health, Open, Reserved};
pub use devices::{Evidence, Proof};
pub use facts::{ClusterFacts, NodeStock};
pub use freshness::Freshness;
pub use gpu_state::{Doubt, GpuState};
pub use index::{ClusterIndex, ObservedRoom};
pub use mark::{Mark, Refusal, Term};
pub use objects::{
    Containers, NodeObject, PodEnd, PodObject, PodPhase, Readiness, ReservedAmount, WorkloadObject,
};
pub use report::{DeviceReport, NodeReport, ReportRefusal};
pub use table::{Counts, Delta, Ending, Table, Tracked};
pub use uid::Uid;
pub use watch::{Batch, WatchEvent};
