//! The Kubernetes backend against a current Kubernetes: API server, controllers, scheduler and Kueue are real, KWOK is the kubelet of nodes
//! without machines, and one node has a kubelet and containers. It has exactly the rights of the shipped manifest.
//!
//! The tests run against the newest supported version, or another one if `TENURE_KUBERNETES` names it, such as `oldest`.

mod cluster;
mod real_node;
mod tenants;
