//! The Kubernetes capability, served by the API server of one cluster.
//!
//! Actions say what is to be in their own words; here it becomes objects, and objects become words again. Invariant: every write
//! is conditional (on absence, on the version that was read, or on an identity), so that a late or repeated call never overwrites
//! what it has not seen. What was seen of real servers, and what is not done, is in `docs/backends/kubernetes.md`.

mod cluster;
mod mig;
mod nodes;
mod objects;
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
pub use settings::{KubernetesTarget, KubernetesTargetError, MigTarget};
