//! Actions on objects of a Kubernetes cluster: namespaces, queues, quotas, isolation, ownership of nodes.

pub(crate) mod isolation;
pub(crate) mod namespace;
pub(crate) mod node_ownership;
pub(crate) mod priority_class;
pub(crate) mod queues;
pub(crate) mod resource_quota;
