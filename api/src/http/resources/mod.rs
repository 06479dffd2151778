//! The resources of `/v1`, one file each: routes, handlers, and the documentation of both.
//!
//! Listed in the router's table. Invariant: a handler reads a tenant's documents only through the scope of its caller.

pub(crate) mod access;
pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod batches;
pub(crate) mod certificates;
pub(crate) mod channels;
pub(crate) mod cluster_keys;
pub(crate) mod delegations;
pub(crate) mod engines;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod facts;
pub(crate) mod fleet;
pub(crate) mod groups;
pub(crate) mod health;
pub(crate) mod incidents;
pub(crate) mod legal_holds;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod nodes;
pub(crate) mod offboardings;
pub(crate) mod policies;
pub(crate) mod reclaims;
pub(crate) mod repairs;
pub(crate) mod reservations;
pub(crate) mod retention;
pub(crate) mod reviews;
pub(crate) mod schedules;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod store;
pub(crate) mod streams;
pub(crate) mod sweeps;
pub(crate) mod tenant_changes;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod usage;
pub(crate) mod users;
pub(crate) mod workflow_start;
pub(crate) mod workflow_versions;
pub(crate) mod workflows;
pub(crate) mod workloads;
pub(crate) mod workspaces;
