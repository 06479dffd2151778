//! The Kubernetes backend against a real API server (1.20.2), with exactly the rights of the shipped manifest.
//!
//! There is no kubelet and no Kueue: nodes are records, and [`queues`] simulates Kueue's controller.

mod chart;
mod conflicts;
mod conformance;
mod doors;
mod leaving;
mod limits;
mod lists;
mod mig;
mod nodes;
mod objects;
mod outages;
mod probes;
pub(crate) mod queues;
mod rights;
mod running;
pub(crate) mod server;
pub(crate) mod steps;
mod survey;
mod watches;
pub(crate) mod webhook;
mod workloads;
