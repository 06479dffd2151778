//! Implements the Kubernetes capability with the API server of one cluster.
//!
//! Actions describe objects in their own terms, and this backend converts them to Kubernetes objects and back.
//! Invariant: every write is conditional (on absence, on the version that was read, or on a uid), so that a late or
//! repeated call never overwrites a state that it has not read. See `docs/backends/kubernetes.md` for observations on
//! real servers and for limits.

mod cluster;
mod mig;
mod nodes;
mod objects;
mod observe;
mod pods;
mod settings;
mod workloads;

pub(crate) mod client;
mod isolation_probes;
mod labels;
mod tenant_resources;
#[cfg(test)]
mod tests;

pub use cluster::KubernetesCluster;
pub(crate) use mig::GpuOperator;
pub use observe::{Finding, ObserverContext, SourceEvent};
pub use settings::{KubernetesTarget, KubernetesTargetError, MigTarget};
