//! Clusters, nodes and GPUs: their owners, and which are free or in use.

pub(crate) mod capacity_waitlist;
pub(crate) mod cluster;
pub(crate) mod cluster_classes;
pub(crate) mod cluster_key;
pub(crate) mod free_pool;
pub(crate) mod gpu;
pub(crate) mod gpu_bars;
pub(crate) mod gpu_names;
pub(crate) mod node;
pub(crate) mod node_allocation;
pub(crate) mod occupancy;
pub(crate) mod offer;
