//! The Kubernetes capability, served by the API server of one cluster.
//!
//! Actions say what is to be in their own words; here it becomes objects, and objects become words again. Invariant: every write
//! is conditional (on absence, on the version that was read, or on an identity), so that a late or repeated call never overwrites
//! what it has not seen. What was seen of real servers, and what is not done, is in `docs/backends/kubernetes.md`.

mod answers;
mod binding;
mod calls;
mod cluster;
mod diagnosis;
mod discovery;
mod estate;
mod estate_admit;
mod estate_kinds;
mod estate_reader;
mod estate_remove;
mod estate_survey;
mod estate_volumes;
mod guards;
mod lists;
mod marks;
mod mig;
mod nodes;
mod objects;
mod parse;
mod pods;
mod probes;
mod ranges;
mod render;
mod settings;
mod watch;
mod wire;
mod workloads;

#[cfg(test)]
mod tests;

pub use cluster::KubernetesCluster;
pub(crate) use mig::GpuOperator;
pub use settings::{KubernetesTarget, KubernetesTargetError, MigTarget};
